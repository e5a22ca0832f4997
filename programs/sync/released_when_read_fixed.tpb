# DVE signals when its result is there.

.generation v3
.define IDENTITY 1
.tensor x sbuf fp32[128, 512] = fill(1.5)
.tensor y sbuf fp32[128, 512] = fill(1.5)
.tensor z sbuf fp32[128, 512] = fill(1.5)
.semaphore done

.stream DVE
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[done]++@complete
.stream ACT
  ACTIVATE src=fp32@y [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[done]>=1

# All three arrive each time.

.generation v3
.define IDENTITY 1
.tensor x sbuf fp32[128, 512] = fill(1.5)
.tensor y sbuf fp32[128, 512] = fill(1.5)
.tensor z sbuf fp32[128, 512] = fill(1.5)
.semaphore arrived

.stream DVE
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[arrived]++@complete
  NOP $S[arrived]>=3 $S[arrived]++@complete
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[arrived]>=6
.stream ACT
  NOP $S[arrived]++@complete
  ACTIVATE src=fp32@y [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[arrived]>=3 $S[arrived]++@read
  NOP $S[arrived]>=6
.stream POOL
  NOP $S[arrived]++@complete
  NOP $S[arrived]>=3 $S[arrived]++@complete
  NOP $S[arrived]>=6

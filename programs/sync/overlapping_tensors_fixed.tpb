# The second user waits for the first.

.generation v3
.tensor x sbuf fp32[128, 512] at 0x0 = fill(1.0)
.tensor y sbuf fp32[128, 512] at 0x4000
.tensor v sbuf fp32[128, 512] at 0x4400 overlap
.semaphore done

.stream DVE
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[done]++@complete
.stream POOL
  MEMSET dst=fp32@v [1][512] dst_element_count=512 set_value=0x3f800000 num_active_channels=128 $S[done]>=1

# DVE reads a tensor that nobody fills.

.generation v3
.tensor x sbuf fp32[128, 16]
.tensor y sbuf fp32[128, 16]

.stream DVE
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][16] dst=fp32@y [1][16] op0=MULT imm0=2.0 num_active_channels=128

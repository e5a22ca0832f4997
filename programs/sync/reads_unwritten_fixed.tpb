# DVE fills the tensor first; one engine's instructions are in order.

.generation v3
.tensor x sbuf fp32[128, 16]
.tensor y sbuf fp32[128, 16]

.stream DVE
  MEMSET dst=fp32@x [1][16] dst_element_count=16 set_value=0x3f800000 num_active_channels=128
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][16] dst=fp32@y [1][16] op0=MULT imm0=2.0 num_active_channels=128

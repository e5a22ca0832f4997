# DVE overwrites a tile as soon as it is loaded; it should wait until ACT has read it.

.generation v3
.define IDENTITY 1
.tensor h hbm fp32[128, 512] = fill(3.0)
.tensor x sbuf fp32[128, 512] = fill(1.5)
.tensor y sbuf fp32[128, 512] = fill(1.5)
.tensor z sbuf fp32[128, 512] = fill(1.5)
.semaphore loaded
.semaphore consumed
.queue q engine=SP semaphore=loaded
.block q load
  copy dst=x src=h
.end

.stream SP
  DMA_TRIGGER q load
.stream ACT
  ACTIVATE src=fp32@x [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[loaded]>=1 $S[consumed]++@read
.stream DVE
  TENSOR_SCALAR_ARITH_OP src=fp32@y [1][512] dst=fp32@x [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[loaded]>=1

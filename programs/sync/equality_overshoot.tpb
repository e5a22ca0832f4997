# Two blocks of one queue count the semaphore to 2; ACT waits for exactly 1 and can miss it.

.generation v3
.define IDENTITY 1
.tensor h hbm fp32[128, 512] = fill(3.0)
.tensor x sbuf fp32[128, 512] = fill(1.5)
.tensor y sbuf fp32[128, 512] = fill(1.5)
.tensor z sbuf fp32[128, 512] = fill(1.5)
.semaphore loaded
.queue q engine=SP semaphore=loaded
.block q first
  copy dst=x src=h
.end
.block q second
  copy dst=y src=h
.end

.stream SP
  DMA_TRIGGER q first
  DMA_TRIGGER q second
.stream ACT
  ACTIVATE src=fp32@x [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[loaded]==1

# The third load waits until the first buffer is free.

.generation v3
.define IDENTITY 1
.tensor h hbm fp32[128, 512] = fill(3.0)
.tensor x0 sbuf fp32[128, 512] = fill(1.5)
.tensor x1 sbuf fp32[128, 512] = fill(1.5)
.tensor z sbuf fp32[128, 512] = fill(1.5)
.semaphore loaded
.semaphore free
.queue q engine=SP semaphore=loaded
.block q even
  copy dst=x0 src=h
.end
.block q odd
  copy dst=x1 src=h
.end

.stream SP
  DMA_TRIGGER q even
  DMA_TRIGGER q odd
  DMA_TRIGGER q even $S[free]>=1
.stream ACT
  ACTIVATE src=fp32@x0 [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[loaded]>=1 $S[free]++@read
  ACTIVATE src=fp32@x1 [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[loaded]>=2 $S[free]++@read
  ACTIVATE src=fp32@x0 [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[loaded]>=3

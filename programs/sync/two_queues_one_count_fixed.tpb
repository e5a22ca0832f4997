# ACT waits for both queues.

.generation v3
.define IDENTITY 1
.tensor h hbm fp32[128, 512] = fill(3.0)
.tensor g hbm fp32[128, 512] = fill(3.0)
.tensor x sbuf fp32[128, 512] = fill(1.5)
.tensor y sbuf fp32[128, 512] = fill(1.5)
.tensor z sbuf fp32[128, 512] = fill(1.5)
.semaphore loaded
.queue qa engine=SP semaphore=loaded
.queue qb engine=SP semaphore=loaded
.block qa load
  copy dst=x src=h
.end
.block qb load
  copy dst=y src=g
.end

.stream SP
  DMA_TRIGGER qa load
  DMA_TRIGGER qb load
.stream ACT
  ACTIVATE src=fp32@x [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[loaded]>=2

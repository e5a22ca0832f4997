# Two queues write one tile, each without knowledge of the other.

.generation v3
.tensor h hbm fp32[128, 512] = fill(3.0)
.tensor g hbm fp32[128, 512] = fill(3.0)
.tensor x sbuf fp32[128, 512] = fill(1.5)
.semaphore a_done
.semaphore b_done
.queue qa engine=SP semaphore=a_done
.queue qb engine=SP semaphore=b_done
.block qa load
  copy dst=x src=h
.end
.block qb load
  copy dst=x src=g
.end

.stream SP
  DMA_TRIGGER qa load
  DMA_TRIGGER qb load
  NOP $S[b_done]>=1

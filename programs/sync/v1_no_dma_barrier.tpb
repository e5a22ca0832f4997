# V1: the store starts when ACT's first partition is written; the others finish one after the other.

.generation v1
.define IDENTITY 1
.tensor y hbm fp32[8, 16] output
.tensor t sbuf fp32[8, 16] = fill(1.0)
.tensor u sbuf fp32[8, 16]
.event done = 20
.event stored = 21
.queue q_y engine=POOL kind=out
.block q_y store $E[stored]=1
  copy dst=y src=u
.end

.stream ACT
  ACTIVATE src=fp32@t [1][16] dst=fp32@u [1][16] activation_func=IDENTITY bias=1.0 in_bias_dtype=fp32/fp32 \
    scale_value=1.0 num_active_channels=8 $E[done]=1@write
.stream POOL
  EVENT_WAIT event_idx=done wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR
  DMA_TRIGGER q_y store
  EVENT_WAIT event_idx=stored wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR

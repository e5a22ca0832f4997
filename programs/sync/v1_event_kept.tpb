# V1: POOL looks at the event and does not clear it, so its second wait holds at once.

.generation v1
.define IDENTITY 1
.tensor t sbuf fp32[8, 16] = fill(1.0)
.tensor u sbuf fp32[8, 16] = fill(1.0)
.tensor v sbuf fp32[8, 16] = fill(1.0)
.event done = 20
.event taken = 21

.stream ACT
  ACTIVATE src=fp32@t [1][16] dst=fp32@u [1][16] activation_func=IDENTITY bias=1.0 in_bias_dtype=fp32/fp32 \
    scale_value=1.0 num_active_channels=8 $E[done]=1@write
  ACTIVATE src=fp32@t [1][16] dst=fp32@u [1][16] activation_func=IDENTITY bias=1.0 in_bias_dtype=fp32/fp32 \
    scale_value=1.0 num_active_channels=8 $E[taken]==1->0 $E[done]=1@write
.stream POOL
  POOL src=fp32@u [1,1][1,16] dst=fp32@v [1][16] pool_func=MAX_POOL pool_dim=X pool_scale=1.0 \
    num_active_channels=8 $E[done]==1 $E[taken]=1@read
  POOL src=fp32@u [1,1][1,16] dst=fp32@v [1][16] pool_func=MAX_POOL pool_dim=X pool_scale=1.0 \
    num_active_channels=8 $E[done]==1->0

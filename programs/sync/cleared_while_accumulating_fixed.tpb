# PE waits until the bank is clear.

.generation v3
.tensor w sbuf bf16[128, 128] = fill(0.5)
.tensor m sbuf bf16[128, 128] = fill(2.0)
.tensor acc psum fp32[128, 128] bank 0 = fill(0.0)
.semaphore clear

.stream DVE
  MEMSET dst=fp32@acc [1][128] dst_element_count=128 set_value=0 num_active_channels=128 $S[clear]++@complete
.stream PE
  NOP $S[clear]>=1
  LDWEIGHTS src=bf16@w + 254 [-1][128] num_active_rows=128 num_active_cols=128 row_grp=15 col_grp=15
  MATMUL src=bf16@m [1][128] dst=@acc [1][128] num_active_rows=128 num_active_cols=128 row_grp=15 col_grp=15 \
    psum_accumulate_flags=0

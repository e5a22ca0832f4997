# PE waits until ACT has read the bank.

.generation v3
.define IDENTITY 1
.tensor w sbuf bf16[128, 128] = fill(0.5)
.tensor m sbuf bf16[128, 128] = fill(2.0)
.tensor z sbuf fp32[128, 128]
.tensor acc psum fp32[128, 128] bank 0
.semaphore summed
.semaphore drained

.stream PE
  LDWEIGHTS src=bf16@w + 254 [-1][128] num_active_rows=128 num_active_cols=128 row_grp=15 col_grp=15
  MATMUL src=bf16@m [1][128] dst=@acc [1][128] num_active_rows=128 num_active_cols=128 row_grp=15 col_grp=15 \
    psum_accumulate_flags=3 $S[summed]++@complete
  MATMUL src=bf16@m [1][128] dst=@acc [1][128] num_active_rows=128 num_active_cols=128 row_grp=15 col_grp=15 \
    psum_accumulate_flags=3 $S[drained]>=1
.stream ACT
  ACTIVATE src=fp32@acc [1][128] dst=fp32@z [1][128] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[summed]>=1 $S[drained]++@read

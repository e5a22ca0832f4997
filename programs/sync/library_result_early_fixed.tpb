# DVE reads what library code of the Q7 cores writes, once that is complete.

.generation v3
.tensor x    sbuf int16[128, 32] at 0x0 = fill(3)
.tensor sums sbuf int16[128, 1]  at 0x80
.tensor y    sbuf int16[128, 1]  at 0xc0
.tensor image hbm uint8[4096] = q7("../q7/row_sum.s")
.semaphore pool

.stream POOL
  MODIFY_POOL_CONFIG modify_op=LOAD_LIB core_mask=0xff soc_addr=image library_index=5 $S[pool]++@complete
  # row_sum: in 0x0, out 0x80, one chunk of 32 lanes, partition distance 0x40000; $S[pool]++@complete
  .word64 "f0100000000013000000000020000000000000008000000001000000000004000000000000000000000000000000000000000000000000000000000000000000"
.stream DVE
  COPY $S[pool]>=2 src=int16@sums [1][1] dst=int16@y [1][1] num_active_channels=128

# Library code of the Q7 cores sums a tensor once DVE has filled it.

.generation v3
.tensor x    sbuf int16[128, 32] at 0x0
.tensor sums sbuf int16[128, 1]  at 0x80
.tensor image hbm uint8[4096] = q7("../q7/row_sum.s")
.semaphore filled

.stream DVE
  MEMSET dst=int16@x [1][32] dst_element_count=32 set_value=3 num_active_channels=128 $S[filled]++@complete
.stream POOL
  MODIFY_POOL_CONFIG modify_op=LOAD_LIB core_mask=0xff soc_addr=image library_index=5
  NOP $S[filled]>=1
  # row_sum: in 0x0, out 0x80, one chunk of 32 lanes, partition distance 0x40000
  .word64 "f0100000000000000000000020000000000000008000000001000000000004000000000000000000000000000000000000000000000000000000000000000000"

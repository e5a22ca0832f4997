# The counter is not reset between rounds of a long service and passes the end of its 32 bits: ACT,
# which waits for a large value, would see a small one.

.generation v3
.semaphore served

.stream POOL
  NOP $S[served]+=0xffffffff@complete
  NOP $S[served]++@complete
.stream ACT
  NOP $S[served]>=0xffffffff

# The counter starts anew before its end: ACT says when it has seen it.

.generation v3
.semaphore served
.semaphore seen

.stream POOL
  NOP $S[served]+=0xffffffff@complete
  NOP $S[seen]>=1
  NOP $S[served]=0@complete
  NOP $S[served]++@complete
.stream ACT
  NOP $S[served]>=0xffffffff
  NOP $S[seen]++@complete

# POOL counts down when ACT has passed.

.generation v3
.semaphore ready
.semaphore taken

.stream DVE
  NOP $S[ready]++@complete
  NOP $S[taken]++@complete
.stream ACT
  NOP $S[ready]>=1 $S[taken]++@complete
.stream POOL
  NOP
  NOP
  NOP
  NOP $S[taken]>=2
  NOP $S[ready]--@complete

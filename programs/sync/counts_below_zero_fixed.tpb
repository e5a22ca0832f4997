# The slot is taken first.

.generation v3
.semaphore slots
.semaphore taken

.stream DVE
  NOP $S[slots]++@complete
  NOP $S[taken]++@complete
.stream POOL
  NOP $S[taken]>=1 $S[slots]--@complete
.stream DVE
  NOP

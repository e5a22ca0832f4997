# POOL gives back a slot that nobody has taken: the semaphore goes below zero and wraps.

.generation v3
.semaphore slots
.semaphore taken

.stream DVE
  NOP
  NOP $S[taken]++@complete
.stream POOL
  NOP  $S[slots]--@complete
.stream DVE
  NOP

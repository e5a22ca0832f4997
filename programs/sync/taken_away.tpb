# POOL counts the semaphore down as soon as DVE allows it; if ACT comes later, it waits forever.
# The plain run is clean: only another schedule shows it.

.generation v3
.semaphore ready
.semaphore taken

.stream DVE
  NOP $S[ready]++@complete
  NOP $S[taken]++@complete
.stream ACT
  NOP $S[ready]>=1
.stream POOL
  NOP
  NOP
  NOP
  NOP $S[taken]>=1
  NOP $S[ready]--@complete

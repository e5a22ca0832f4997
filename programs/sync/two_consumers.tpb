# ACT and POOL consume the same event: either can take the signal meant for the other.

.generation v3
.event ready
.event ready_pool
.event taken

.stream DVE
  NOP $E[ready]=1@complete
  NOP $E[taken]==1->0
  NOP $E[ready]=1@complete
.stream ACT
  NOP $E[ready]==1->0 $E[taken]=1@complete
.stream POOL
  NOP $E[ready]==1->0

# Each consumer has its own event.

.generation v3
.event ready
.event ready_pool
.event taken

.stream DVE
  NOP $E[ready]=1@complete
  NOP $E[taken]==1->0
  NOP $E[ready_pool]=1@complete
.stream ACT
  NOP $E[ready]==1->0 $E[taken]=1@complete
.stream POOL
  NOP $E[ready_pool]==1->0

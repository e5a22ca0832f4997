# As polls_forever, but the semaphore is raised twice.

.generation v4
.semaphore ready = 3
.semaphore go = 4

.stream POOL
  NOP $S[ready]++@complete
  NOP $S[ready]++@complete
.stream ACT
look:
  TEST_EVENT_SEM mode=READ_SEM num_evt_sem=1 evt_sem_ids=[3] value_registers=[1]
  COMPARE_BRANCH cmp_op=LT_IMM cmp_dtype=int32 cmp_reg0=R1 cmp_immediate=2 br_immediate=look
  NOP $S[go]++@complete
.stream DVE
  NOP $S[go]>=1

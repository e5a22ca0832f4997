# DVE waits for an update of its own next instruction.

.generation v3
.semaphore done

.stream DVE
  NOP $S[done]>=1
  NOP $S[done]++@complete

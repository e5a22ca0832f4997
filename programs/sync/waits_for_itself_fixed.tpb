# The update lies before the wait.

.generation v3
.semaphore done

.stream DVE
  NOP $S[done]++@complete
  NOP $S[done]>=1

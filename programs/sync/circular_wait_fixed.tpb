# PE begins the round.

.generation v3
.semaphore pe_done
.semaphore act_done
.semaphore dve_done

.stream PE
  NOP  $S[pe_done]++@complete
.stream ACT
  NOP $S[dve_done]>=1 $S[act_done]++@complete
.stream DVE
  NOP $S[pe_done]>=1 $S[dve_done]++@complete

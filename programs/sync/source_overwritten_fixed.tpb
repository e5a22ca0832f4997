# DVE waits for the end of the store.

.generation v3
.tensor h hbm fp32[128, 512] = fill(3.0)
.tensor x sbuf fp32[128, 512] = fill(1.5)
.tensor y sbuf fp32[128, 512] = fill(1.5)
.semaphore done
.semaphore stored
.queue q engine=SP semaphore=stored
.block q store
  copy dst=h src=y
.end

.stream DVE
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[done]++@complete
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[stored]>=1
.stream SP
  DMA_TRIGGER q store $S[done]>=1
  NOP $S[stored]>=1

# A clear before the first signal takes nothing away: DVE still signals twice without knowing that the
# first signal was consumed.

.generation v3
.define IDENTITY 1
.tensor x sbuf fp32[128, 512] = fill(1.5)
.tensor y1 sbuf fp32[128, 512] = fill(1.5)
.tensor y2 sbuf fp32[128, 512] = fill(1.5)
.tensor z sbuf fp32[128, 512] = fill(1.5)
.event ready
.event taken
.semaphore clear

.stream DVE
  NOP $E[ready]=0@complete
  # everyone waits for the clear: an update of the sequencer may come later than one of the data path
  NOP $S[clear]++@complete
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y1 [1][512] op0=MULT imm0=2.0 num_active_channels=128 $S[clear]>=1 $E[ready]=1@complete
  TENSOR_SCALAR_ARITH_OP src=fp32@x [1][512] dst=fp32@y2 [1][512] op0=MULT imm0=2.0 num_active_channels=128  $E[ready]=1@complete
.stream ACT
  NOP $S[clear]>=1
  ACTIVATE src=fp32@y1 [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $E[ready]==1->0 $E[taken]=1@read
  ACTIVATE src=fp32@y2 [1][512] dst=fp32@z [1][512] activation_func=IDENTITY bias=0.0 \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $E[ready]==1->0

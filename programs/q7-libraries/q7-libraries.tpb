# Library code on the Q7 cores: a row-sum library is loaded while DVE is busy, used, released, and
# replaced by another one, as a model switch does it; then a reciprocal, an argmax, and a library that is
# linked from three files (v3).
#
# The sources are in programs/q7; they are assembled, prelinked and staged in HBM when this program is
# assembled. An instruction that a library defines is a raw word: `tools/programs/word.py` prints it.

.generation v3
.tensor x    sbuf int16[128, 64] at 0x0   = npy("data/x.npy")
.tensor sums sbuf int16[128, 1]  at 0x80
.tensor y    sbuf int16[128, 32] at 0xc0
.tensor a    sbuf fp32[128, 512] at 0x400 = fill(0.5)
.tensor b    sbuf fp32[128, 512] at 0xc00

.tensor r_in  sbuf fp32[128, 32] at 0x1400 = npy("data/r_in.npy")
.tensor r_out sbuf fp32[128, 32] at 0x1480
.tensor best  sbuf int16[128, 2] at 0x1500

.tensor weighted sbuf int16[128, 1] at 0x1540

.tensor row_sum_image hbm uint8[4096] = q7("../q7/row_sum.s")
.tensor permute_image hbm uint8[4096] = q7("../q7/permute.s")
.tensor reciprocal_image hbm uint8[4096] = q7("../q7/reciprocal.s")
.tensor argmax_image     hbm uint8[4096] = q7("../q7/argmax.s")
.tensor weighted_image hbm uint8[4096] = q7("../q7/weighted.s", "../q7/weighted_row.s", "../q7/weighted_table.s")

.semaphore summed
.semaphore doubled

.stream DVE
  # work that hides the load
  .repeat 8
    TENSOR_SCALAR_ARITH_OP src=fp32@a [1][512] dst=fp32@b [1][512] op0=MULT imm0=2.0 \
      num_active_channels=128 $S[doubled]++@complete
  .end

.stream POOL
  MODIFY_POOL_CONFIG modify_op=LOAD_LIB core_mask=0xff soc_addr=row_sum_image library_index=5
  # row_sum: in 0x0, out 0x80, 2 chunks of 32 lanes, partition distance 0x40000
  .word64 "f0100000000013000000000020000000000000008000000002000000000004000000000000000000000000000000000000000000000000000000000000000000"
  MODIFY_POOL_CONFIG modify_op=UNLOAD_LIB core_mask=0xff library_index=5
  # the switch: another library in the same cores
  MODIFY_POOL_CONFIG modify_op=LOAD_LIB core_mask=0xff soc_addr=permute_image library_index=6
  # reverse: in 0x0, out 0xc0
  .word64 "f01000000500000001000000210000000000000000000000c0000000000004000000000000000000000000000000000000000000000000000000000000000000"
  MODIFY_POOL_CONFIG modify_op=UNLOAD_LIB core_mask=0xff library_index=6
  MODIFY_POOL_CONFIG modify_op=LOAD_LIB core_mask=0xff soc_addr=reciprocal_image library_index=7
  # reciprocal: in 0x1400, out 0x1480, 2 chunks of 16 lanes
  .word64 "f0100000000000000000000023000000001400008014000002000000000004000000000000000000000000000000000000000000000000000000000000000000"
  MODIFY_POOL_CONFIG modify_op=UNLOAD_LIB core_mask=0xff library_index=7
  MODIFY_POOL_CONFIG modify_op=LOAD_LIB core_mask=0xff soc_addr=argmax_image library_index=8
  # argmax: in 0x0, out 0x1500, 2 chunks of 32 lanes
  .word64 "f0100000000000000000000024000000000000000015000002000000000004000000000000000000000000000000000000000000000000000000000000000000"
  MODIFY_POOL_CONFIG modify_op=UNLOAD_LIB core_mask=0xff library_index=8
  MODIFY_POOL_CONFIG modify_op=LOAD_LIB core_mask=0xff soc_addr=weighted_image library_index=9
  # weighted: in 0x0, out 0x1540
  .word64 "f0100000000000000000000025000000000000004015000000000000000004000000000000000000000000000000000000000000000000000000000000000000"
  MODIFY_POOL_CONFIG modify_op=UNLOAD_LIB core_mask=0xff library_index=9

.check sums npy("data/sums.npy")
.check y npy("data/y.npy")
.check b fill(1.0)
.check r_out npy("data/r_out.npy") rtol=1.2e-7
.check best npy("data/best.npy")
.check weighted npy("data/weighted.npy")

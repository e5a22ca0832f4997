# A 64x64x64 product: DMA in, four accumulating matmuls, evacuation by ACT, DMA out.
.generation v3
.include "inc.tpb"
.meta author "test"

.semaphore s_load, s_mm, s_act
.semaphore s_store = 40

.tensor a     hbm  bf16[64, 64] input = npy("a.npy")
.tensor b     hbm  bf16[64, 64] input = random(7)
.tensor c     hbm  fp32[64, 64] output
.tensor a_sb  sbuf bf16[64, TILE]            # automatic: byte 0 of partitions 0..63
.tensor b_sb  sbuf bf16[64, TILE]
.tensor c_sb  sbuf fp32[64, TILE] at 0x1000
.tensor acc   psum fp32[64, TILE] bank 0

.queue q_in  engine=SP semaphore=s_load kind=in
.queue q_out engine=SP semaphore=s_store kind=out

.block q_in load_a
  copy dst=a_sb src=a
.end
.block q_in load_b_transposed id=5
  copy dst=b_sb src=b.T
.end
.block q_in load_rows
  .repeat 4 i
    copy dst=b_sb[16*i : 16*i+16, 0:32] src=b[16*i : 16*i+16, 32:64]
  .end
.end
.block q_out store $S[s_store]+=1
  copy dst=c src=c_sb
.end

.stream SP
  DMA_TRIGGER q_in load_a
  DMA_TRIGGER q_in load_b_transposed
  DMA_TRIGGER q_in load_rows
  DMA_TRIGGER q_out store $S[s_act]>=1
  PSEUDO_INST pseudo_opcode=1

.stream PE
.repeat 4 k
  LDWEIGHTS  $S[s_load]>=2  src=bf16@a_sb+k*32[1][64] rows=16 cols=64 row_grp=0xf col_grp=0xf
  MATMUL     $S[s_mm]++@complete  src=bf16@b_sb+k*32[1][64] dst=acc[1][64] \
             rows=16 cols=64 row_grp=0xf col_grp=0xf acc_flags=min(k, 1)+max(0, k-2)
.end
  NOP

.stream ACT
again:
  EVENT_SEMAPHORE $S[s_mm]>=4 ext($S[s_load]>=2 $S[s_act]+=1@complete)
  ACTIVATE src=fp32@acc[1][64] dst=fp32@c_sb[1][64] channels=64 activation_func=1 scale_value=1.0 \
           in_bias_dtype=fp32/fp32 bias=@sbuf(0, 0x3000)
  COMPARE_BRANCH cmp_op=GT_IMM cmp_dtype=int32 cmp_reg0=R2 cmp_immediate=3 br_immediate=again

.check c fill(1.5) atol=1e-2 rtol=1e-3
.allow_race acc PE ACT "the test never runs"

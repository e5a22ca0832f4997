# The state scan of a selective state-space model, as the public NKI kernel `mamba_v1` does it:
# sequence 512, 256 channels in two tiles, 16 states (v2).
#
# For each channel tile and state i:
#   ACT  delta_a = exp(delta * A[:, i])
#   PE   copies B[i] and C[i] to all partitions (a product with ones), one PSUM bank each
#   DVE  delta_u  = delta * u
#        delta_bu = delta_u * B[i]
#        scan     = delta_a * scan + delta_bu
#        scan_c   = scan * C[i]
#        out     += scan_c
# The five DVE instructions are one stream; ACT and PE run a step ahead, in buffers in turn.

.generation v2
.define L 512
.define STATES 16
.define BANK 2048
.define EXP 7

.tensor delta hbm fp32[256, 512] input = npy("data/delta.npy")
.tensor u     hbm fp32[256, 512] input = npy("data/u.npy")
.tensor a     hbm fp32[256, 16]  input = npy("data/a.npy")
.tensor b     hbm fp32[16, 512]  input = npy("data/b.npy")
.tensor c     hbm fp32[16, 512]  input = npy("data/c.npy")
.tensor out   hbm fp32[256, 512] output

.tensor delta_sb sbuf fp32[128, 2, 512]
.tensor u_sb     sbuf fp32[128, 2, 512]
.tensor a_sb     sbuf fp32[128, 2, 16]
.tensor bc_sb    sbuf fp32[1, 2, 16, 512]     # B and C, one partition
.tensor ones_sb  sbuf fp32[1, 128]
.tensor da_sb    sbuf fp32[128, 2, 512]       # delta_a, two buffers
.tensor du_sb    sbuf fp32[128, 512]
.tensor dbu_sb   sbuf fp32[128, 512]
.tensor scan_sb  sbuf fp32[128, 512]
.tensor sc_sb    sbuf fp32[128, 512]
.tensor out_sb   sbuf fp32[128, 2, 512]
.tensor bc_ps    psum fp32[128, 4, 512] bank 0  # B and C of two steps

.semaphore loaded
.semaphore bc_loaded
.semaphore ones_done
.semaphore act_done
.semaphore pe_done
.semaphore steps_done     # DVE: steps whose buffers are free again
.semaphore tiles_done
.semaphore stored

.queue q_in  engine=SP semaphore=loaded kind=in
.queue q_bc  engine=SP semaphore=bc_loaded kind=in
.queue q_out engine=SP semaphore=stored kind=out

.block q_in tile0
  copy dst=delta_sb[:, 0, :] src=delta[0:128, :]
  copy dst=u_sb[:, 0, :] src=u[0:128, :]
  copy dst=a_sb[:, 0, :] src=a[0:128, :]
.end
.block q_in tile1
  copy dst=delta_sb[:, 1, :] src=delta[128:256, :]
  copy dst=u_sb[:, 1, :] src=u[128:256, :]
  copy dst=a_sb[:, 1, :] src=a[128:256, :]
.end
.block q_bc bc
  copy dst=bc_sb[0, 0, :, :] src=b
  copy dst=bc_sb[0, 1, :, :] src=c
.end
.block q_out tile0
  copy dst=out[0:128, :] src=out_sb[:, 0, :]
.end
.block q_out tile1
  copy dst=out[128:256, :] src=out_sb[:, 1, :]
.end

.stream SP
  DMA_TRIGGER q_bc bc
  DMA_TRIGGER q_in tile0
  DMA_TRIGGER q_in tile1
  DMA_TRIGGER q_out tile0 $S[tiles_done]>=1
  DMA_TRIGGER q_out tile1 $S[tiles_done]>=2
  NOP $S[stored]>=2

.stream PE
  NOP $S[ones_done]>=1
  # a row of ones as the weights, contraction over one partition, full FP32 in two passes
  LDWEIGHTS src=fp32@ones_sb + 127*4 [-1][128] fp32_mode=LOW_HIGH num_active_rows=1 num_active_cols=128 \
    row_grp=15 col_grp=15 xbus_sel=0x10 $S[bc_loaded]>=1
  .repeat 2 t
    .repeat STATES i
      MATMUL src=fp32@bc_sb + i*BANK [1][L] dst=@bc_ps + (i%2)*2*BANK [1][L] fp32_mode=LOW_HIGH \
        num_active_rows=1 num_active_cols=128 row_grp=15 col_grp=15 xbus_sel=0x10 psum_accumulate_flags=3 \
        $S[steps_done]>=max(0, t*STATES+i-1)
      MATMUL src=fp32@bc_sb + (STATES+i)*BANK [1][L] dst=@bc_ps + (i%2)*2*BANK + BANK [1][L] fp32_mode=LOW_HIGH \
        num_active_rows=1 num_active_cols=128 row_grp=15 col_grp=15 xbus_sel=0x10 psum_accumulate_flags=3 \
        $S[pe_done]++@complete
    .end
  .end

.stream ACT
  .repeat 2 t
    NOP $S[loaded]>=t+1
    .repeat STATES i
      ACTIVATE src=fp32@delta_sb + t*BANK [1][L] dst=fp32@da_sb + (i%2)*BANK [1][L] activation_func=EXP \
        scale_value=@a_sb + t*64 + i*4 bias=0.0 in_bias_dtype=fp32/fp32 num_active_channels=128 \
        $S[steps_done]>=max(0, t*STATES+i-1) $S[act_done]++@complete
    .end
  .end

.stream DVE
  MEMSET dst=fp32@ones_sb [1][128] dst_element_count=128 set_value=0x3f800000 num_active_channels=1 $S[ones_done]++@complete
  .repeat 2 t
    MEMSET dst=fp32@out_sb + t*BANK [1][L] dst_element_count=L set_value=0 num_active_channels=128
    NOP $S[loaded]>=t+1
    .repeat STATES i
      TENSOR_TENSOR_ARITH_OP src0=fp32@delta_sb + t*BANK [1][L] src1=fp32@u_sb + t*BANK [1][L] dst=fp32@du_sb [1][L] \
        op=MULT num_active_channels=128
      TENSOR_TENSOR_ARITH_OP src0=fp32@du_sb [1][L] src1=fp32@bc_ps + (i%2)*2*BANK [1][L] dst=fp32@dbu_sb [1][L] \
        op=MULT num_active_channels=128 $S[pe_done]>=t*STATES+i+1
      TENSOR_TENSOR_SCAN_ARITH src0=fp32@da_sb + (i%2)*BANK [1][L] src1=fp32@dbu_sb [1][L] dst=fp32@scan_sb [1][L] \
        op0=MULT op1=ADD imm0=0.0 imm0_dtype=fp32 num_active_channels=128 $S[act_done]>=t*STATES+i+1
      TENSOR_TENSOR_ARITH_OP src0=fp32@scan_sb [1][L] src1=fp32@bc_ps + (i%2)*2*BANK + BANK [1][L] dst=fp32@sc_sb [1][L] \
        op=MULT num_active_channels=128 $S[steps_done]++@complete
      TENSOR_TENSOR_ARITH_OP src0=fp32@out_sb + t*BANK [1][L] src1=fp32@sc_sb [1][L] dst=fp32@out_sb + t*BANK [1][L] \
        op=ADD num_active_channels=128
    .end
    # the last addition is complete when the DRAIN is
    DRAIN $S[tiles_done]++@complete
  .end

.check out npy("data/out.npy") rtol=2e-4 atol=2e-4

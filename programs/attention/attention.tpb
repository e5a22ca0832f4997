# One attention head: softmax(Q K^T / sqrt(128) + causal mask) V, 128 queries, keys and channels (v4).
#
#   POOL  builds an identity matrix, and the causal mask on the scores
#   PE    transposes Q and K (identity as the moving operand), computes the scores, transposes the
#         weights, and computes the output
#   ACT   drains PSUM into bf16, scales the scores, exponentiates
#   DVE   row maxima and sums, the final normalisation

.generation v4
.define N 128
.define BANK 2048
.define COPY_FUNC 1
.define EXP 7
.define LAST 254                 # byte of the last bf16 column: weight loads walk backwards

.tensor q   hbm bf16[128, 128] input = npy("data/q.npy")
.tensor k   hbm bf16[128, 128] input = npy("data/k.npy")
.tensor v   hbm bf16[128, 128] input = npy("data/v.npy")
.tensor out hbm fp32[128, 128] output

.tensor q_sb   sbuf bf16[128, 128]
.tensor k_sb   sbuf bf16[128, 128]
.tensor v_sb   sbuf bf16[128, 128]
.tensor one    sbuf bf16[128, 128]      # identity matrix
.tensor ones   sbuf bf16[128, 128]
.tensor qt_sb  sbuf bf16[128, 128]
.tensor kt_sb  sbuf bf16[128, 128]
.tensor s_sb   sbuf fp32[128, 128]      # scaled scores
.tensor m_sb   sbuf fp32[128, 128]      # masked scores
.tensor p_sb   sbuf bf16[128, 128]      # weights
.tensor e_sb   sbuf fp32[128, 128]      # weights before rounding, for the sums
.tensor pt_sb  sbuf bf16[128, 128]
.tensor neg_max sbuf fp32[128, 1]
.tensor total   sbuf fp32[128, 1]
.tensor inverse sbuf fp32[128, 1]
.tensor out_sb sbuf fp32[128, 128]
.tensor qt psum fp32[128, 512] bank 0
.tensor kt psum fp32[128, 512] bank 1
.tensor s  psum fp32[128, 512] bank 2
.tensor pt psum fp32[128, 512] bank 3
.tensor o  psum fp32[128, 512] bank 4

.semaphore q_in
.semaphore k_in
.semaphore v_in
.semaphore identity
.semaphore pe_done         # 1: Q^T, 2: K^T, 3: scores, 4: weights^T, 5: output
.semaphore act_done        # 1: Q^T, 2: K^T, 3: scores, 4: exp, 5: bf16 weights, 6: weights^T
.semaphore masked
.semaphore max_done
.semaphore out_done
.semaphore stored

.queue q_q engine=SP semaphore=q_in kind=in
.queue q_k engine=SP semaphore=k_in kind=in
.queue q_v engine=SP semaphore=v_in kind=in
.queue q_o engine=SP semaphore=stored kind=out
.block q_q load
  copy dst=q_sb src=q
.end
.block q_k load
  copy dst=k_sb src=k
.end
.block q_v load
  copy dst=v_sb src=v
.end
.block q_o store
  copy dst=out src=out_sb
.end

.stream SP
  DMA_TRIGGER q_q load
  DMA_TRIGGER q_k load
  DMA_TRIGGER q_v load
  DMA_TRIGGER q_o store $S[out_done]>=1
  NOP $S[stored]>=1

.stream POOL
  MEMSET dst=bf16@ones [1][N] dst_element_count=N set_value=0x3f80 num_active_channels=N
  # keep where column - row == 0, else the fill register R1 = 0
  TENSOR_SCALAR_AFFINE_SELECT src=bf16@ones [1][N] dst=bf16@one [1][N] mask=0[1][N] \
    channel_multiplier=-1 fill_mode=EQ fill_reg=1 num_active_channels=N $S[identity]++@complete
  MOVE num_mov=1 dtype=fp32 move_source=IMMEDIATE dst_registers=[2] immediate=u32[0xff800000]
  # keep where row - column >= 0, else R2 = -inf
  TENSOR_SCALAR_AFFINE_SELECT src=fp32@s_sb [1][N] dst=fp32@m_sb [1][N] mask=0[-1][N] \
    channel_multiplier=1 fill_mode=GE fill_reg=2 num_active_channels=N \
    $S[act_done]>=3 $S[masked]++@complete

.stream PE
  NOP $S[identity]>=1
  # X^T = X^T I: the stationary operand contracts over its partitions
  LDWEIGHTS src=bf16@q_sb + LAST [-1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 $S[q_in]>=1
  MATMUL src=bf16@one [1][N] dst=@qt [1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 \
    psum_accumulate_flags=3 $S[pe_done]++@complete
  LDWEIGHTS src=bf16@k_sb + LAST [-1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 $S[k_in]>=1
  MATMUL src=bf16@one [1][N] dst=@kt [1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 \
    psum_accumulate_flags=3 $S[pe_done]++@complete
  # scores[query, key]
  LDWEIGHTS src=bf16@qt_sb + LAST [-1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 $S[act_done]>=2
  MATMUL src=bf16@kt_sb [1][N] dst=@s [1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 \
    psum_accumulate_flags=3 $S[pe_done]++@complete
  LDWEIGHTS src=bf16@p_sb + LAST [-1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 $S[act_done]>=5
  MATMUL src=bf16@one [1][N] dst=@pt [1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 \
    psum_accumulate_flags=3 $S[pe_done]++@complete
  NOP $S[v_in]>=1
  LDWEIGHTS src=bf16@pt_sb + LAST [-1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 $S[act_done]>=6
  MATMUL src=bf16@v_sb [1][N] dst=@o [1][N] num_active_rows=N num_active_cols=N row_grp=15 col_grp=15 \
    psum_accumulate_flags=3 $S[pe_done]++@complete

.stream ACT
  ACTIVATE src=fp32@qt [1][N] dst=bf16@qt_sb [1][N] activation_func=COPY_FUNC bias=0.0 in_bias_dtype=fp32/fp32 scale_value=1.0 \
    num_active_channels=N $S[pe_done]>=1 $S[act_done]++@complete
  ACTIVATE src=fp32@kt [1][N] dst=bf16@kt_sb [1][N] activation_func=COPY_FUNC bias=0.0 in_bias_dtype=fp32/fp32 scale_value=1.0 \
    num_active_channels=N $S[pe_done]>=2 $S[act_done]++@complete
  # 1/sqrt(128)
  ACTIVATE src=fp32@s [1][N] dst=fp32@s_sb [1][N] activation_func=COPY_FUNC bias=0.0 in_bias_dtype=fp32/fp32 scale_value=0.08838834764831845 \
    num_active_channels=N $S[pe_done]>=3 $S[act_done]++@complete
  ACTIVATE src=fp32@m_sb [1][N] dst=fp32@e_sb [1][N] activation_func=EXP bias=@neg_max in_bias_dtype=fp32/fp32 \
    scale_value=1.0 num_active_channels=N $S[max_done]>=1 $S[act_done]++@complete
  ACTIVATE src=fp32@m_sb [1][N] dst=bf16@p_sb [1][N] activation_func=EXP bias=@neg_max in_bias_dtype=fp32/fp32 \
    scale_value=1.0 num_active_channels=N $S[act_done]++@complete
  ACTIVATE src=fp32@pt [1][N] dst=bf16@pt_sb [1][N] activation_func=COPY_FUNC bias=0.0 in_bias_dtype=fp32/fp32 scale_value=1.0 \
    num_active_channels=N $S[pe_done]>=4 $S[act_done]++@complete

.stream DVE
  TENSOR_REDUCE_ARITH_OP src=fp32@m_sb [1][N] dst=fp32@neg_max [1][1] op=MAX op_dim=X negated=1 \
    num_active_channels=N $S[masked]>=1 $S[max_done]++@complete
  TENSOR_REDUCE_ARITH_OP src=fp32@e_sb [1][N] dst=fp32@total [1][1] op=ADD op_dim=X \
    num_active_channels=N $S[act_done]>=4
  RECIPROCAL src=fp32@total [1][1] dst=fp32@inverse [1][1] num_active_channels=N
  TENSOR_SCALAR_ARITH_OP src=fp32@o [1][N] dst=fp32@out_sb [1][N] op0=MULT imm0=@inverse \
    num_active_channels=N $S[pe_done]>=5 $S[out_done]++@complete

.check out npy("data/out.npy") rtol=1e-3 atol=1e-5

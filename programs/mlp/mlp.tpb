# y = softmax(gelu(x W1 + b1) W2 + b2): 128 tokens, 256 inputs, 512 hidden, 128 classes (v3).
#
# The hidden layer is computed transposed, hidden units on partitions, so that ACT adds b1 as a
# per-partition bias and the result is at once the stationary operand of the second layer.

.generation v3
.define T 128
.define GELU 23
.define EXP 7
.define BANK 2048

.tensor x_t hbm bf16[256, 128] input = npy("data/x_t.npy")
.tensor w1  hbm bf16[256, 512] input = npy("data/w1.npy")
.tensor b1  hbm fp32[128, 4]   input = npy("data/b1.npy")
.tensor w2  hbm bf16[512, 128] input = npy("data/w2.npy")
.tensor b2  hbm fp32[128]      input = npy("data/b2.npy")
.tensor y   hbm fp32[128, 128] output

.tensor x_sb   sbuf bf16[128, 2, 128]
.tensor w1_sb  sbuf bf16[128, 2, 512]
.tensor b1_sb  sbuf fp32[128, 4]
.tensor w2_sb  sbuf bf16[128, 4, 128]
.tensor b2_sb  sbuf fp32[128, 128]       # the same row in every partition
.tensor h_sb   sbuf bf16[128, 4, 128]    # hidden units on partitions
.tensor z_sb   sbuf fp32[128, 128]       # logits
.tensor e_sb   sbuf fp32[128, 128]
.tensor neg_max sbuf fp32[128, 1]
.tensor total   sbuf fp32[128, 1]
.tensor inverse sbuf fp32[128, 1]
.tensor y_sb   sbuf fp32[128, 128]
.tensor hidden psum fp32[128, 2, 512] bank 0
.tensor logits psum fp32[128, 512] bank 2

.semaphore x_in
.semaphore w1_in
.semaphore b1_in
.semaphore w2_in
.semaphore b2_in
.semaphore hidden_done     # PE: hidden tiles in PSUM
.semaphore gelu_done       # ACT: hidden tiles in SBUF
.semaphore logits_done     # PE
.semaphore max_done        # DVE
.semaphore exp_done        # ACT
.semaphore y_done          # DVE
.semaphore stored

.queue q_x  engine=SP semaphore=x_in kind=in
.queue q_w1 engine=SP semaphore=w1_in kind=in
.queue q_b1 engine=SP semaphore=b1_in kind=in
.queue q_w2 engine=SP semaphore=w2_in kind=in
.queue q_b2 engine=SP semaphore=b2_in kind=in
.queue q_y  engine=SP semaphore=stored kind=out

.block q_x x
  .repeat 2 k
    copy dst=x_sb[:, k, :] src=x_t[k*T:(k+1)*T, :]
  .end
.end
.block q_w1 w1
  .repeat 2 k
    copy dst=w1_sb[:, k, :] src=w1[k*T:(k+1)*T, :]
  .end
.end
.block q_b1 b1
  copy dst=b1_sb src=b1
.end
.block q_w2 w2
  .repeat 4 k
    copy dst=w2_sb[:, k, :] src=w2[k*T:(k+1)*T, :]
  .end
.end
.block q_b2 b2
  # a step of 0 gives every partition the same row
  copy dst=b2_sb src=fp32@b2[4, 0][128, 128]
.end
.block q_y y
  copy dst=y src=y_sb
.end

.stream SP
  DMA_TRIGGER q_x x
  DMA_TRIGGER q_w1 w1
  DMA_TRIGGER q_b1 b1
  DMA_TRIGGER q_w2 w2
  DMA_TRIGGER q_b2 b2
  DMA_TRIGGER q_y y $S[y_done]>=1
  NOP $S[stored]>=1

.stream PE
  NOP $S[x_in]>=1
  NOP $S[w1_in]>=1
  .repeat 4 j
    # two banks in turn: wait until ACT has read the tile before last
    NOP $S[gelu_done]>=max(0, j-1)
    LDWEIGHTS src=bf16@w1_sb + j*256 + 254 [-1][T] num_active_rows=T num_active_cols=T row_grp=15 col_grp=15
    MATMUL src=bf16@x_sb [1][T] dst=@hidden + (j%2)*BANK [1][T] num_active_rows=T num_active_cols=T \
      row_grp=15 col_grp=15 psum_accumulate_flags=1
    LDWEIGHTS src=bf16@w1_sb + 1024 + j*256 + 254 [-1][T] num_active_rows=T num_active_cols=T row_grp=15 col_grp=15
    MATMUL src=bf16@x_sb + 256 [1][T] dst=@hidden + (j%2)*BANK [1][T] num_active_rows=T num_active_cols=T \
      row_grp=15 col_grp=15 psum_accumulate_flags=2 $S[hidden_done]++@complete
  .end
  NOP $S[w2_in]>=1
  .repeat 3 j
    LDWEIGHTS src=bf16@h_sb + j*256 + 254 [-1][T] num_active_rows=T num_active_cols=T row_grp=15 col_grp=15 $S[gelu_done]>=j+1
    MATMUL src=bf16@w2_sb + j*256 [1][T] dst=@logits [1][T] num_active_rows=T num_active_cols=T \
      row_grp=15 col_grp=15 psum_accumulate_flags=max(0, 1-j)
  .end
  LDWEIGHTS src=bf16@h_sb + 3*256 + 254 [-1][T] num_active_rows=T num_active_cols=T row_grp=15 col_grp=15 $S[gelu_done]>=4
  MATMUL src=bf16@w2_sb + 3*256 [1][T] dst=@logits [1][T] num_active_rows=T num_active_cols=T \
    row_grp=15 col_grp=15 psum_accumulate_flags=2 $S[logits_done]++@complete

.stream ACT
  NOP $S[b1_in]>=1
  .repeat 4 j
    ACTIVATE src=fp32@hidden + (j%2)*BANK [1][T] dst=bf16@h_sb + j*256 [1][T] activation_func=GELU \
      bias=@b1_sb + j*4 in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=T \
      $S[hidden_done]>=j+1 $S[gelu_done]++@complete
  .end
  ACTIVATE src=fp32@z_sb [1][T] dst=fp32@e_sb [1][T] activation_func=EXP \
    bias=@neg_max in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=T \
    $S[max_done]>=1 $S[exp_done]++@complete

.stream DVE
  NOP $S[b2_in]>=1
  TENSOR_TENSOR_ARITH_OP src0=fp32@logits [1][T] src1=fp32@b2_sb [1][T] dst=fp32@z_sb [1][T] op=ADD \
    num_active_channels=T $S[logits_done]>=1
  TENSOR_REDUCE_ARITH_OP src=fp32@z_sb [1][T] dst=fp32@neg_max [1][1] op=MAX op_dim=X negated=1 \
    num_active_channels=T $S[max_done]++@complete
  TENSOR_REDUCE_ARITH_OP src=fp32@e_sb [1][T] dst=fp32@total [1][1] op=ADD op_dim=X \
    num_active_channels=T $S[exp_done]>=1
  RECIPROCAL src=fp32@total [1][1] dst=fp32@inverse [1][1] num_active_channels=T
  TENSOR_SCALAR_ARITH_OP src=fp32@e_sb [1][T] dst=fp32@y_sb [1][T] op0=MULT imm0=@inverse \
    num_active_channels=T $S[y_done]++@complete

.check y npy("data/y.npy") rtol=2e-3 atol=1e-5

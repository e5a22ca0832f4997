# C = A @ B, 512 x 512 x 512, bf16 inputs, FP32 accumulation and output (v3).
#
# A arrives transposed: PE contracts over partitions, so the stationary tile is A^T[k, m].
# Four row tiles of C (m), each the sum of four contraction tiles (k):
#   DMA   loads B once and the A tiles into two buffers in turn
#   PE    accumulates a row tile in one PSUM bank, two banks in turn
#   ACT and DVE drain the banks in turn into two SBUF buffers
#   DMA   stores the row tiles

.generation v3
.define TILE 128
.define TILES 4
.define ROW TILES*TILE*2          # bytes of one row of four bf16 tiles
.define BANK 2048
.define IDENTITY 1                # activation function number

.tensor a_t hbm bf16[512, 512] input  = npy("data/a_t.npy")
.tensor b   hbm bf16[512, 512] input  = npy("data/b.npy")
.tensor c   hbm fp32[512, 512] output

.tensor b_sb   sbuf bf16[128, 4, 512]      # contraction tile k at [.., k, ..]
.tensor a_sb   sbuf bf16[128, 2, 4, 128]   # two buffers of four tiles
.tensor c_sb   sbuf fp32[128, 2, 512]
.tensor acc    psum fp32[128, 2, 512] bank 0

.semaphore b_loaded
.semaphore a_loaded
.semaphore a_free       # weight loads that have read the last tile of a buffer
.semaphore summed       # row tiles complete in PSUM
.semaphore act_drained
.semaphore dve_drained
.semaphore stored

.queue q_b engine=SP semaphore=b_loaded kind=in
.queue q_a engine=SP semaphore=a_loaded kind=in
.queue q_c engine=SP semaphore=stored kind=out

.block q_b b_all
  .repeat TILES k
    copy dst=b_sb[:, k, :] src=b[k*TILE:(k+1)*TILE, :]
  .end
.end
.block q_a a0
  .repeat TILES k
    copy dst=a_sb[:, 0, k, :] src=a_t[k*TILE:(k+1)*TILE, 0:TILE]
  .end
.end
.block q_a a1
  .repeat TILES k
    copy dst=a_sb[:, 1, k, :] src=a_t[k*TILE:(k+1)*TILE, TILE:2*TILE]
  .end
.end
.block q_a a2
  .repeat TILES k
    copy dst=a_sb[:, 0, k, :] src=a_t[k*TILE:(k+1)*TILE, 2*TILE:3*TILE]
  .end
.end
.block q_a a3
  .repeat TILES k
    copy dst=a_sb[:, 1, k, :] src=a_t[k*TILE:(k+1)*TILE, 3*TILE:4*TILE]
  .end
.end
.block q_c c0
  copy dst=c[0:TILE, :] src=c_sb[:, 0, :]
.end
.block q_c c1
  copy dst=c[TILE:2*TILE, :] src=c_sb[:, 1, :]
.end
.block q_c c2
  copy dst=c[2*TILE:3*TILE, :] src=c_sb[:, 0, :]
.end
.block q_c c3
  copy dst=c[3*TILE:4*TILE, :] src=c_sb[:, 1, :]
.end

.stream SP
  DMA_TRIGGER q_a a0
  DMA_TRIGGER q_b b_all
  DMA_TRIGGER q_a a1
  DMA_TRIGGER q_a a2 $S[a_free]>=1
  DMA_TRIGGER q_a a3 $S[a_free]>=2
  DMA_TRIGGER q_c c0 $S[act_drained]>=1
  DMA_TRIGGER q_c c1 $S[dve_drained]>=1
  DMA_TRIGGER q_c c2 $S[act_drained]>=2
  DMA_TRIGGER q_c c3 $S[dve_drained]>=2
  NOP $S[stored]>=TILES

.stream PE
  NOP $S[b_loaded]>=1
  .repeat TILES m
    # a bank is free when the drain two row tiles ago is done
    NOP $S[act_drained]>=m/2
    NOP $S[dve_drained]>=max(0, (m-1)/2)
    NOP $S[a_loaded]>=m+1
    .repeat TILES-1 k
      # the array takes the last column first, so the pattern walks backwards
      LDWEIGHTS src=bf16@a_sb + (m%2)*ROW + k*TILE*2 + (TILE-1)*2 [-1][TILE] \
        num_active_rows=TILE num_active_cols=TILE row_grp=15 col_grp=15
      MATMUL src=bf16@b_sb + k*1024 [1][512] dst=@acc + (m%2)*BANK [1][512] \
        num_active_rows=TILE num_active_cols=TILE row_grp=15 col_grp=15 \
        psum_accumulate_flags=max(0, 1-k)
    .end
    LDWEIGHTS src=bf16@a_sb + (m%2)*ROW + 3*TILE*2 + (TILE-1)*2 [-1][TILE] \
      num_active_rows=TILE num_active_cols=TILE row_grp=15 col_grp=15 $S[a_free]++@read
    MATMUL src=bf16@b_sb + 3*1024 [1][512] dst=@acc + (m%2)*BANK [1][512] \
      num_active_rows=TILE num_active_cols=TILE row_grp=15 col_grp=15 \
      psum_accumulate_flags=2 $S[summed]++@complete
  .end

.stream ACT
  .repeat 2 t
    NOP $S[stored]>=max(0, 2*t-1)
    ACTIVATE src=fp32@acc[1][512] dst=fp32@c_sb[1][512] activation_func=IDENTITY \
      bias=0.0 in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=TILE \
      $S[summed]>=2*t+1 $S[act_drained]++@complete
  .end

.stream DVE
  .repeat 2 t
    NOP $S[stored]>=2*t
    COPY src=fp32@acc + BANK [1][512] dst=fp32@c_sb + BANK [1][512] \
      num_active_channels=TILE $S[summed]>=2*t+2 $S[dve_drained]++@complete
  .end

.check c npy("data/c.npy") rtol=1e-5 atol=1e-4

# A 3x3 convolution (16 -> 32 channels on 18 x 18), ReLU and 2x2 max-pool on V1, synchronised by
# events alone, with the barrier chain of compiled V1 programs at start and end.
#
# The convolution is nine accumulated matmuls over shifted views of the same image.

.generation v1
.define CIN 16
.define COUT 32
.define W 18          # image width
.define O 16          # width of the convolution's result
.define RELU 2

.tensor x hbm bf16[16, 324]   input = npy("data/x.npy")
.tensor w hbm bf16[9, 16, 32] input = npy("data/w.npy")
.tensor y hbm fp32[32, 64]    output

.tensor x_sb sbuf bf16[16, 324]
.tensor w_sb sbuf bf16[16, 9, 32]
.tensor r_sb sbuf fp32[32, 256]
.tensor y_sb sbuf fp32[32, 64]
.tensor acc  psum fp32[32, 256] bank 0

# events 7..12 are the compiler's barrier chain PE -> ACT -> POOL -> ACT -> PE
.event pe_act = 7
.event act_pool = 8
.event pool_act = 11
.event act_pe = 12
.event x_loaded = 20
.event w_loaded = 21
.event conv_done = 22
.event relu_done = 23
.event pool_done = 24
.event stored = 25

.queue q_x engine=ACT kind=in
.queue q_w engine=ACT kind=in
.queue q_y engine=ACT kind=out
.block q_x load $E[x_loaded]=1
  copy dst=x_sb src=x
.end
.block q_w load $E[w_loaded]=1
  .repeat 9 t
    copy dst=w_sb[:, t, :] src=w[t, :, :]
  .end
.end
.block q_y store $E[stored]=1
  copy dst=y src=y_sb
.end

.stream PE
  NOP $E[pe_act]=1@done
  NOP $E[act_pe]==1->0
  EVENT_WAIT event_idx=x_loaded wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR
  LDWEIGHTS src=bf16@w_sb + (COUT-1)*2 [-1][COUT] num_active_rows=CIN num_active_cols=COUT $E[w_loaded]==1->0
  MATMUL src=bf16@x_sb [1,W][O,O] dst=@acc [1,O][O,O] num_active_rows=CIN num_active_cols=COUT psum_accumulate_flags=1
  .repeat 7 t
    LDWEIGHTS src=bf16@w_sb + (t+1)*COUT*2 + (COUT-1)*2 [-1][COUT] num_active_rows=CIN num_active_cols=COUT
    MATMUL src=bf16@x_sb + ((t+1)/3*W + (t+1)%3)*2 [1,W][O,O] dst=@acc [1,O][O,O] \
      num_active_rows=CIN num_active_cols=COUT psum_accumulate_flags=0
  .end
  LDWEIGHTS src=bf16@w_sb + 8*COUT*2 + (COUT-1)*2 [-1][COUT] num_active_rows=CIN num_active_cols=COUT
  MATMUL src=bf16@x_sb + (2*W + 2)*2 [1,W][O,O] dst=@acc [1,O][O,O] \
    num_active_rows=CIN num_active_cols=COUT psum_accumulate_flags=2 $E[conv_done]=1@write
  NOP $E[pe_act]=1@done
  NOP $E[act_pe]==1->0

.stream ACT
  DMA_TRIGGER q_x load
  DMA_TRIGGER q_w load
  NOP $E[pe_act]==1->0 $E[act_pool]=1@done
  NOP $E[pool_act]==1->0 $E[act_pe]=1@done
  ACTIVATE src=fp32@acc [1][O*O] dst=fp32@r_sb [1][O*O] activation_func=RELU bias=0.0 in_bias_dtype=fp32/fp32 scale_value=1.0 \
    num_active_channels=COUT $E[conv_done]==1->0 $E[relu_done]=1@write
  EVENT_WAIT event_idx=pool_done wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR
  # write-done means partition 0: hold the transfer back until the last partition has caught up
  PSEUDO_DMA_BARRIER
  DMA_TRIGGER q_y store
  EVENT_WAIT event_idx=stored wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR
  NOP $E[pe_act]==1->0 $E[act_pool]=1@done
  NOP $E[pool_act]==1->0 $E[act_pe]=1@done

.stream POOL
  NOP $E[act_pool]==1->0 $E[pool_act]=1@done
  POOL src=fp32@r_sb [1,O,2,2*O][2,2,8,8] dst=fp32@y_sb [1,8][8,8] pool_func=MAX_POOL pool_dim=XY pool_scale=1.0 \
    num_active_channels=COUT $E[relu_done]==1->0 $E[pool_done]=1@write
  NOP $E[act_pool]==1->0 $E[pool_act]=1@done

.check y npy("data/y.npy") rtol=1e-4 atol=1e-4

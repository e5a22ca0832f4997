# A V1 program whose SP stream is in charge: a counter, events both ways, a loop and branches.
#
# Four times: the SP sets event `go` through the event window, ACT adds 1 to a tensor and sets
# `done`, the SP waits for it and clears it. Then the SP writes a word to SBUF itself, sets `last`,
# and halts with a notification.

.generation v1
.define ROUNDS 4
.define EVENT_WINDOW 0x2802700000
.define IDENTITY 1

.tensor t  sbuf fp32[8, 16] = fill(1.0)
.tensor out hbm fp32[8, 16] output
.tensor flag hbm uint32[1] output
.tensor flag_sb sbuf uint32[1, 1]

.event go = 20
.event done = 21
.event last = 22
.event stored = 23
.queue q_out engine=ACT kind=out
.block q_out store $E[stored]=1
  copy dst=out src=t
  copy dst=flag src=flag_sb
.end

.stream SP
  SET_CNTR counter_idx=0 value=ROUNDS
  SET_AR ar_idx=0 address=EVENT_WINDOW
  SET_AR ar_idx=1 address=0x2000000000 + flag_sb
again:
  WRITE32_IND ar_idx=0 offset=go*4 data=1
  WAIT_EVENT_SET event_idx=done
  CLR_EVENT event_idx=done
  DECR_CNTR counter_idx=0
  BRANCH_C_CNTR_NZ counter_idx=0 target=again
  WRITE32_IND ar_idx=1 offset=0 data=0xC0FFEE
  BRANCH_C_CNTR_Z counter_idx=0 target=finish
  NOTIFY_HALT value=1
finish:
  WRITE32_IND ar_idx=0 offset=last*4 data=1
  NOTIFY_HALT value=0

.stream ACT
  .repeat ROUNDS
    ACTIVATE src=fp32@t [1][16] dst=fp32@t [1][16] activation_func=IDENTITY bias=1.0 in_bias_dtype=fp32/fp32 scale_value=1.0 \
      num_active_channels=8 $E[go]==1->0 $E[done]=1@write
  .end
  EVENT_WAIT event_idx=last wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR
  # write-done means partition 0: hold the transfer back until the last partition has caught up
  PSEUDO_DMA_BARRIER
  DMA_TRIGGER q_out store
  EVENT_WAIT event_idx=stored wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR

.check out fill(5.0)
.check flag [0xC0FFEE]

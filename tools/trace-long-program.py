#!/usr/bin/env python3
"""Writes a program that executes about N instructions: ACT, DVE and PE hand data round by events,
each in a loop of its own with a counter in a register.

usage: trace-long-program.py INSTRUCTIONS [CHANNELS COLUMNS] > LONG.tpb
  CHANNELS, COLUMNS  what one instruction works on (128 512)
"""
import sys


def loop(stream, body, rounds):
    return f""".stream {stream}
  MOVE num_mov=1 dtype=int32 move_source=IMMEDIATE dst_registers=[8] immediate=u32[{rounds}]
{stream.lower()}_top:
{body}  ALU_OP op=SUBTRACT dtype=int32 src0_reg_lo=R8 src1_datasrc=IMMEDIATE immediate=1 dst_reg_lo=R8
  COMPARE_BRANCH cmp_op=NE_IMM cmp_dtype=int32 cmp_reg0=R8 cmp_immediate=0 br_immediate={stream.lower()}_top
"""


def main():
    count = int(sys.argv[1])
    channels, columns = map(int, sys.argv[2:4]) if len(sys.argv) > 2 else (128, 512)
    # a round: 4 data-path and 6 control instructions
    rounds = max(1, count // 10)
    shape = f"num_active_channels={channels}"
    tile = f"num_active_rows={channels} num_active_cols={channels} row_grp=15 col_grp=15"
    print(f"""# {rounds} rounds; written by tools/trace-long-program.py
.generation v3
.tensor x sbuf bf16[{channels}, {columns}] = fill(1.0)
.tensor w sbuf bf16[{channels}, {channels}] = fill(0.0078125)
.tensor y psum fp32[{channels}, {columns}] bank 0
.tensor z sbuf bf16[{channels}, {columns}]
.tensor out hbm bf16[{channels}, {columns}] output
.event fed
.event summed
.event done
.semaphore stored
.queue q_out engine=SP semaphore=stored kind=out
.block q_out store
  copy dst=out src=z
.end
.stream SP
  NOP $E[fed]=1@complete
""")
    print(loop("PE", f"""  LDWEIGHTS src=bf16@w + {2 * channels - 2} [-1][{channels}] {tile} $E[fed]==1->0
  MATMUL src=bf16@x [1][{columns}] dst=@y [1][{columns}] {tile} psum_accumulate_flags=3 $E[summed]=1@complete
""", rounds))
    print(loop("ACT", f"""  ACTIVATE src=fp32@y [1][{columns}] dst=bf16@z [1][{columns}] activation_func=1 bias=0.0 \\
    in_bias_dtype=fp32/fp32 scale_value=1.0 {shape} $E[summed]==1->0 $E[done]=1@complete
""", rounds))
    print(loop("DVE", f"""  COPY src=bf16@z [1][{columns}] dst=bf16@x [1][{columns}] {shape} $E[done]==1->0 $E[fed]=1@complete
""", rounds))


main()

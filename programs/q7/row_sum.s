# Saturating sum of each row: out[p] = sat16(sum of in[p][0..32n]) for the 16 partitions of a core.
#
# Opcode 0xF0, spec 0x20. Parameters in the instruction word (this library's own layout):
#   16 address of the input in a partition, a multiple of 64
#   20 address of the 16-bit result in a partition
#   24 number of 32-lane chunks
#   28 distance of two partitions in the SBUF window
# The lanes are added with saturation, then folded with saturation; the order of the chunks matters
# only if a partial sum saturates.

        .text
        .global _start
_start: entry   a1, 32
        movi    a2, 0
        retw

row_sum:
        entry   a1, 32
        l32i    a5, a2, 16
        l32i    a6, a2, 20
        l32i    a7, a2, 24
        l32i    a8, a2, 28
        rsr.prid a9
        slli    a9, a9, 4               # first partition of this core
        mull    a9, a9, a8
        movi    a10, 0x80000000         # SBUF window
        add     a9, a9, a10
        movi    a11, 16
1:      add     a12, a9, a5
        { nop; ivp_movvinx16 v1, 0 }
        loopgtz a7, 2f
        { ivp_lv2nx8_i v0, a12, 0; nop }
        { nop; nop; nop; ivp_addsnx16 v1, v1, v0 }
        addi    a12, a12, 64
2:      F0 { nop; nop; nop; ivp_raddsnx16 v2, v1 }
        { nop; nop; nop; ivp_movav16 a13, v2 }
        add     a14, a9, a6
        s16i    a13, a14, 0
        add     a9, a9, a8
        addi    a11, a11, -1
        bnez    a11, 1b
        movi    a2, 0
        retw

        .kernel 0xf0, 0x20, row_sum

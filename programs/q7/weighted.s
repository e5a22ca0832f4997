# A library of three files: out[p] = low 16 bits of (saturating sum of 32 lanes) * weight[p % 4] + bias.
# This one has the kernel; weighted_row.s the function it calls for every row, weighted_table.s the data.
#
# Opcode 0xF0, spec 0x25. Parameters: 16 input, a multiple of 64; 20 output (16 bits);
# 28 distance of two partitions.

        .text
        .global _start
_start: entry   a1, 32
        movi    a2, 0
        retw

        .literal window, 0x80000000     # SBUF

weighted:
        entry   a1, 48
        l32i    a5, a2, 16
        l32i    a6, a2, 20
        l32i    a4, a2, 28
        rsr.prid a3
        slli    a3, a3, 4
        mull    a3, a3, a4
        l32r    a7, window
        add     a3, a3, a7
        movi    a7, 0
1:      add     a10, a3, a5             # address of the row
        mov     a11, a7                 # its number in this core
        call8   weighted_row            # keeps a0..a7
        add     a8, a3, a6
        s16i    a10, a8, 0
        add     a3, a3, a4
        addi    a7, a7, 1
        bnei    a7, 16, 1b
        movi    a2, 0
        retw

        .kernel 0xf0, 0x25, weighted

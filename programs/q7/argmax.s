# Value and position of the first maximum of a row of 16-bit integers.
#
# Opcode 0xF0, spec 0x24. Parameters: 16 input, 20 output (value, then position, 16 bits each),
# 24 chunks of 32 lanes (at least 1), 28 distance of two partitions.
#
# rbmax gives the maximum of a chunk in lane 0 and a predicate of every lane that equals it; the
# positions of those lanes are merged into a vector of large numbers, whose minimum is the first.

        .text
        .global _start
_start: entry   a1, 32
        movi    a2, 0
        retw

argmax:
        entry   a1, 48
        l32i    a5, a2, 16
        l32i    a6, a2, 20
        l32i    a7, a2, 24
        l32i    a8, a2, 28
        rsr.prid a9
        slli    a9, a9, 4
        mull    a9, a9, a8
        movi    a10, 0x80000000
        add     a9, a9, a10
        movi    a11, positions
        { ivp_lv2nx8_i v8, a11, 0; nop }
        movi    a11, 0x7fff
        { nop; ivp_movva16 v9, a11 }
        { nop; ivp_movvinx16 v10, 0 }
        movi    a11, 16
1:      add     a12, a9, a5
        movi    a13, -32768             # best value; replaced by the first chunk
        movi    a14, 0                  # its position
        movi    a15, 0                  # first position of the chunk
        s32i    a11, a1, 0
        s32i    a7, a1, 4
2:      { ivp_lv2nx8_i v0, a12, 0; nop }
        F0 { nop; nop; nop; ivp_rbmaxnx16 v1, vb1, v0 }
        { nop; nop; nop; ivp_movav16 a10, v1 }
        beqz    a15, 3f
        bge     a13, a10, 4f            # an earlier chunk is at least as large
3:      { nop; nop; nop; ivp_or2nx8 v2, v9, v9 }
        F0 { nop; nop; nop; ivp_addnx16t v2, v8, v10, vb1 }
        F0 { nop; nop; nop; ivp_rminnx16 v3, v2 }
        { nop; nop; nop; ivp_movav16 a14, v3 }
        add     a14, a14, a15
        mov     a13, a10
4:      addi    a12, a12, 64
        addi    a15, a15, 32
        l32i    a10, a1, 4
        addi    a10, a10, -1
        s32i    a10, a1, 4
        bnez    a10, 2b
        add     a12, a9, a6
        s16i    a13, a12, 0
        s16i    a14, a12, 2
        add     a9, a9, a8
        l32i    a11, a1, 0
        addi    a11, a11, -1
        bnez    a11, 1b
        movi    a2, 0
        retw

        .data
        .align  64
positions:
        .short  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        .short  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31

        .kernel 0xf0, 0x24, argmax

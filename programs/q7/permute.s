# Lane permutes of 32 x 16 bits, one vector per partition.
#
# Opcode 0xF0, spec 0x21: out = the lanes of in in reverse order (ivp_shflnx16).
# Opcode 0xF0, spec 0x22: out = lanes of in0 and in1 in turns (ivp_selnx16).
# Parameters: 16 in0, 20 in1 (spec 0x22 only), 24 out, 28 distance of two partitions.

        .text
        .global _start
_start: entry   a1, 32
        movi    a2, 0
        retw

# a9 = window address of the core's first partition; needs a8.
        .set    SBUF, 0x80000000

reverse:
        entry   a1, 32
        l32i    a5, a2, 16
        l32i    a7, a2, 24
        l32i    a8, a2, 28
        rsr.prid a9
        slli    a9, a9, 4
        mull    a9, a9, a8
        movi    a10, SBUF
        add     a9, a9, a10
        movi    a11, backwards
        { ivp_lv2nx8_i v4, a11, 0; nop }
        movi    a11, 16
1:      add     a12, a9, a5
        add     a13, a9, a7
        { ivp_lv2nx8_i v0, a12, 0; nop }
        { nop; nop; nop; ivp_shflnx16 v1, v0, v4 }
        { ivp_sv2nx8_ip v1, a13, 0; nop }
        add     a9, a9, a8
        addi    a11, a11, -1
        bnez    a11, 1b
        movi    a2, 0
        retw

interleave:
        entry   a1, 32
        l32i    a5, a2, 16
        l32i    a6, a2, 20
        l32i    a7, a2, 24
        l32i    a8, a2, 28
        rsr.prid a9
        slli    a9, a9, 4
        mull    a9, a9, a8
        movi    a10, SBUF
        add     a9, a9, a10
        movi    a11, in_turns
        { ivp_lv2nx8_i v4, a11, 0; nop }
        movi    a11, 16
1:      add     a12, a9, a5
        { ivp_lv2nx8_i v0, a12, 0; nop }
        add     a12, a9, a6
        { ivp_lv2nx8_i v1, a12, 0; nop }
        F0 { nop; nop; nop; ivp_selnx16 v2, v0, v1, v4 }
        add     a13, a9, a7
        { ivp_sv2nx8_ip v2, a13, 0; nop }
        add     a9, a9, a8
        addi    a11, a11, -1
        bnez    a11, 1b
        movi    a2, 0
        retw

        .data
        .align  64
backwards:
        .short  31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16
        .short  15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
# Lanes 0..31 of the pool are in0, 32..63 in1.
in_turns:
        .short  0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39
        .short  8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47

        .kernel 0xf0, 0x21, reverse
        .kernel 0xf0, 0x22, interleave

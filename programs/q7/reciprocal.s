# Reciprocal of 16 fp32 per chunk from the seed table and three Newton steps:
#   y = seed(x); repeat three times: e = 1 - x*y; y = y + y*e
#
# Opcode 0xF0, spec 0x23. Parameters: 16 input, 20 output, 24 chunks of 16 lanes, 28 distance of two
# partitions. Zeros, infinities and subnormals are outside its contract: the steps turn them to NaN.

        .text
        .global _start
_start: entry   a1, 32
        movi    a2, 0
        retw

reciprocal:
        entry   a1, 32
        l32i    a5, a2, 16
        l32i    a6, a2, 20
        l32i    a7, a2, 24
        l32i    a8, a2, 28
        rsr.prid a9
        slli    a9, a9, 4
        mull    a9, a9, a8
        movi    a10, 0x80000000
        add     a9, a9, a10
        movi    a11, 0x3f800000
        { nop; ivp_movva32 v9, a11 }    # 1.0 in every lane
        movi    a11, 16
1:      add     a12, a9, a5
        add     a13, a9, a6
        loopgtz a7, 2f
        { ivp_lv2nx8_i v0, a12, 0; nop }
        { nop; nop; nop; ivp_recip0n_2xf32 v1, v0 }
        { nop; nop; nop; ivp_or2nx8 v2, v9, v9 }
        { nop; nop; ivp_mulsn_2xf32 v2, v0, v1 }
        { nop; nop; ivp_mulan_2xf32 v1, v1, v2 }
        { nop; nop; nop; ivp_or2nx8 v2, v9, v9 }
        { nop; nop; ivp_mulsn_2xf32 v2, v0, v1 }
        { nop; nop; ivp_mulan_2xf32 v1, v1, v2 }
        { nop; nop; nop; ivp_or2nx8 v2, v9, v9 }
        { nop; nop; ivp_mulsn_2xf32 v2, v0, v1 }
        { nop; nop; ivp_mulan_2xf32 v1, v1, v2 }
        { ivp_sv2nx8_ip v1, a13, 64; nop }
        addi    a12, a12, 64
2:      add     a9, a9, a8
        addi    a11, a11, -1
        bnez    a11, 1b
        movi    a2, 0
        retw

        .kernel 0xf0, 0x23, reciprocal

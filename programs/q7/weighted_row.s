# weighted_row(address, row): one result of weighted.s.

        .text
        .global weighted_row
        .weak   bias                    # another file may define its own
        .literal weights_at, weights    # an address of another file, relocated when loaded

weighted_row:
        entry   a1, 32
        { ivp_lv2nx8_i v0, a2, 0; nop }
        F0 { nop; nop; nop; ivp_raddsnx16 v1, v0 }
        { nop; nop; nop; ivp_movav16 a2, v1 }
        extui   a3, a3, 0, 2
        slli    a3, a3, 2
        l32r    a4, weights_at
        add     a4, a4, a3
        l32i    a4, a4, 0
        mull    a2, a2, a4
        const16 a5, bias@h
        const16 a5, bias@l
        l32i    a5, a5, 0
        add     a2, a2, a5
        retw

        .data
        .align  4
bias:   .word   0

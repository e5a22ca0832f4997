# Start code of the scalar comparison under QEMU (CPU de233_fpu, machine sim): calls every program of
# the list in turn, then writes all memory blocks to standard output and exits.
# Assembled by GNU as; `list`, `blocks` and `blocks_end` come from the generated file.

        .section .vec, "ax"
        j       go
        .align  4
status: .word   0x00040020              # windows on, no exception mode: loops need that
table:  .word   list
state:  .word   0x00300000
first:  .word   blocks
last:   .word   blocks_end
go:     l32r    a2, status
        wsr.ps  a2
        movi    a2, 1
        .byte   0x20, 0x49, 0x13        # wsr.windowstart a2
        rsync
        l32r    a1, first
        l32r    a2, state
        l32r    a3, table
        s32i    a3, a2, 0
next:   l32r    a2, state
        l32i    a3, a2, 0
        l32i    a4, a3, 0
        beqz    a4, done
        addi    a3, a3, 4
        s32i    a3, a2, 0
        callx0  a4
        j       next
done:   l32r    a4, first
        l32r    a5, last
        sub     a5, a5, a4
        movi    a2, 4                   # write
        movi    a3, 1                   # standard output
        simcall
        movi    a2, 1                   # exit
        movi    a3, 0
        simcall

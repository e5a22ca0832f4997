# Data of weighted.s.

        .data
        .global weights, bias
        .align  4
weights:
        .word   1, -2, 3, 5
bias:   .word   7

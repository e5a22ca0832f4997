# Custom operation, function 1: out = in + k for 32-bit integers in SBUF.
#
# Arguments in order: output tensor, input tensor, integer k. A scalar is passed as a tensor of one
# element in HBM; here it must lie in the HBM scratch window (0x84000000).
#
# a2 = address of the HEADER word, a3 = number of PAYLOAD words, a4 = function number. PAYLOAD i is at
# a2 + 64*(i+1), its 48-byte argument at 16, of which the storage is at 24 (so 40 in the word).
# A core works on its 16 partitions as far as the tensor has them.

        .text
        .global _start
_start: entry   a1, 32
        movi    a2, 0
        retw

bad:    movi    a2, 1                   # wrong arguments
        retw

add_constant:
        entry   a1, 32
        bnei    a3, 3, bad              # three payloads
        l8ui    a5, a2, 64+16           # location of the output: SBUF
        bnei    a5, 1, bad
        l8ui    a5, a2, 128+16          # location of the input: SBUF
        bnei    a5, 1, bad
        l8ui    a5, a2, 192+16          # location of k: HBM
        bnei    a5, 2, bad
        l32i    a5, a2, 192+40          # low half of the device address
        slli    a5, a5, 6
        srli    a5, a5, 6               # offset in the 64 MiB window
        movi    a6, 0x84000000
        add     a5, a5, a6
        l32i    a5, a5, 0
        { nop; ivp_movva32 v9, a5 }     # k in every lane
        l32i    a5, a2, 64+40           # output address in a partition
        l32i    a6, a2, 128+40          # input address in a partition
        l32i    a7, a2, 128+44          # elements
        l8ui    a10, a2, 128+48         # partitions
        quou    a7, a7, a10             # elements of a partition
        srli    a7, a7, 4               # chunks of 16
        movi    a8, stride
        l32i    a8, a8, 0
        rsr.prid a9
        slli    a9, a9, 4
        sub     a10, a10, a9            # partitions left from this core on
        blti    a10, 1, 3f
        movi    a11, 16
        min     a11, a11, a10
        mull    a9, a9, a8
        movi    a10, 0x80000000
        add     a9, a9, a10
1:      add     a12, a9, a6
        add     a13, a9, a5
        loopgtz a7, 2f
        { ivp_lv2nx8_i v0, a12, 0; nop }
        { nop; nop; nop; ivp_addn_2x32 v1, v0, v9 }
        { ivp_sv2nx8_ip v1, a13, 64; nop }
        addi    a12, a12, 64
2:      add     a9, a9, a8
        addi    a11, a11, -1
        bnez    a11, 1b
3:      movi    a2, 0
        retw

        .data
# Distance of two partitions in the SBUF window.
stride: .word   0x40000

        .kernel 0x85, 1, add_constant

//! The tensor operands of each struct: which field, its element type, its direction.

/// Where the element type of an operand is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeOf {
    /// In a dtype field.
    Field(&'static str),
    /// In the low nibble of a pair.
    Lo(&'static str),
    /// In the high nibble of a pair.
    Hi(&'static str),
    /// Fixed code.
    Is(u8),
}

/// One operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub field: &'static str,
    pub ty: TypeOf,
    pub write: bool,
}

const fn read(field: &'static str, ty: TypeOf) -> Operand {
    Operand { field, ty, write: false }
}

const fn write(field: &'static str, ty: TypeOf) -> Operand {
    Operand { field, ty, write: true }
}

const UINT32: TypeOf = TypeOf::Is(0x09);
const IN: TypeOf = TypeOf::Field("in_dtype");
const OUT: TypeOf = TypeOf::Field("out_dtype");

/// Operands of the struct `name`; empty for structs without tensor operands.
pub(super) fn of(name: &str) -> &'static [Operand] {
    use TypeOf::{Field, Hi, Lo};
    const PAIR: &str = "in0_in1_dtype";
    match name {
        "S3S3D3_TT" | "EXTENDED_TTA" | "S2S2D2_STT" => {
            const { &[read("src0", Lo(PAIR)), read("src1", Hi(PAIR)), write("dst", OUT)] }
        }
        "S3D3_TS"
        | "S4D4_TR"
        | "S4D4_CR"
        | "S4D4_PL"
        | "S4D4_TSM"
        | "S2D2_AC"
        | "S3D3_TENS_DEQUANT"
        | "S4D2_BN"
        | "S4D4_MR"
        | "S3D3_NONZERO_WITH_COUNT"
        | "S3D3_SEQ_BOUNDS"
        | "S3D3_DROPOUT"
        | "S4D4_GT"
        | "S4D4_IC"
        | "S3D3_COLLECTIVE"
        | "EXTENDED_COPY"
        | "EXTENDED_SB2SB"
        | "EXTENDED_CPTCD" => const { &[read("src", IN), write("dst", OUT)] },
        "S1S2D2_AM" => const { &[read("src", IN), read("prev_pass", OUT), write("dst", OUT)] },
        "S3D3_TS_SELECT" => const { &[read("src0", Field("dtype")), write("dst", Field("dtype"))] },
        "S3D3_CP_PRED_SCALAR" => const { &[read("pred", Field("pred_dtype")), write("dst", OUT)] },
        "S2D2_RS" | "S2D2_TS_AS" | "S1D2_SORT" => {
            const { &[read("src", Lo("in_out_dtype")), write("dst", Hi("in_out_dtype"))] }
        }
        "S2D2_ADDR" => {
            const { &[read("src", Lo("in_out_dtype")), write("dst", Hi("in_out_dtype"))] }
        }
        "D4_IOTA" => const { &[write("dst", OUT)] },
        "S2S2D2D2_TT" => {
            const {
                &[
                    read("src0", Lo(PAIR)),
                    read("src1", Hi(PAIR)),
                    write("dst0", Lo("out0_out1_dtype")),
                    write("dst1", Hi("out0_out1_dtype")),
                ]
            }
        }
        "S2D2D2_TS_WIDE" => {
            const {
                &[
                    read("src", Lo("in_imm_dtype")),
                    write("dst0", Lo("out0_out1_dtype")),
                    write("dst1", Hi("out0_out1_dtype")),
                ]
            }
        }
        "D4_MR" | "D1_RD" | "D3_RAND" | "D4_RAND" | "EXTENDED_RGS" => {
            const { &[write("dst", Field("dtype"))] }
        }
        "V1_COPY" => const { &[read("src", Field("dtype")), write("dst", Field("dtype"))] },
        "S4_PB" | "S1_RAND" | "EXTENDED_RSS" | "S3_LW" | "S3_LT" | "S2_CONVLUT" => {
            const { &[read("src", IN)] }
        }
        "S3D3_AC" | "S3D3_AQ" => const { &[read("src", Lo("in_bias_dtype")), write("dst", OUT)] },
        "S3D3_MM" | "S4D3_MM" => const { &[read("src", IN), write("dst", OUT)] },
        "SMX1_LW" => const { &[read("src", IN)] },
        "SMX1D3_MM" => const { &[read("src", IN), write("dst", OUT)] },
        // The seed source is checked by its own rule; the destination is 32-bit words.
        "S2S1D2_PE_SEED" => &[],
        "S3DMX1_QUANT" => const { &[read("src", UINT32), write("dst", OUT)] },
        "S3D3_SC" => const { &[read("src", IN), write("dst", Field("out_struct_dtype"))] },
        "S2D2D2_SC" => {
            const {
                &[
                    read("src", IN),
                    write("data_dst", Field("out_data_dtype")),
                    write("tag_dst", Field("out_tag_dtype")),
                ]
            }
        }
        "S2_BN" => const { &[read("src", Field("dtype"))] },
        "S2_BNPL2" => const { &[read("src", Field("src_dtype"))] },
        "S3S3D1_BN" => {
            const { &[read("src0", Lo(PAIR)), read("src1", Hi(PAIR)), write("dst", OUT)] }
        }
        "S3S3D1_BN2" => {
            const {
                &[
                    read("src0", Lo(PAIR)),
                    read("src1", Hi(PAIR)),
                    write("dst", Hi("immediate_out_dtype")),
                ]
            }
        }
        _ => &[],
    }
}

//! The ALU operations that every engine shares: codes, classes, and the evaluator
//! (wiki: firmware/kernels/alu-op-matrix).
//!
//! One evaluator serves all engines, in three domains: FP32 ([`apply_f32`]), integers of a dtype
//! ([`apply_i64`]) and raw bits ([`apply_bits`]). The evaluator never swaps operands; instructions
//! with reversed operands ask for it (`reverse`).

mod float;
mod int;

pub use float::{
    apply_f32, apply_f32_assign, apply_f32_ts, apply_f32_ts_assign, apply_f32_tt, keep_max,
    keep_min, max_num, min_num, reduce_f32, reset_f32, scan_f32,
};
pub use int::{
    apply_bits, apply_bits_ts, apply_bits_tt, apply_i64, apply_i64_ts, apply_i64_tt, apply_wide,
    arg_reduce, reduce_bits, reduce_i64,
};

use crate::error::{Error, Result};
use crate::isa::Generation;

/// Member of the arithmetic class.
const A: u16 = 1;
/// Bit-vector class.
const B: u16 = 2;
/// General arithmetic: what TENSOR_TENSOR and TENSOR_SCALAR take.
const G: u16 = 4;
/// General bit vector.
const H: u16 = 8;
/// Integer operation of the tensor-tensor path.
const I: u16 = 16;
/// Integer subset of the v5 vector engine.
const D: u16 = 32;
/// Legal on signed integers.
const S: u16 = 64;
/// Legal on unsigned integers.
const U: u16 = 128;
/// Uses only its first operand.
const UNARY: u16 = 256;

macro_rules! alu_ops {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal, $first:ident, $class:expr;)*) => {
        /// An ALU operation; the discriminant is the wire code. a and b are the operands in order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum AluOp {
            $($(#[$doc])* $variant = $code,)*
        }

        /// Operation, name, first generation, classes.
        const TABLE: &[(AluOp, &str, Generation, u16)] =
            &[$((AluOp::$variant, $name, Generation::$first, $class),)*];

        impl AluOp {
            fn row(self) -> &'static (AluOp, &'static str, Generation, u16) {
                match self {
                    $(AluOp::$variant => &(AluOp::$variant, $name, Generation::$first, $class),)*
                }
            }
        }
    };
}

// OPEN: no source lists V1's operations; the base band of v2 is taken for it.
// OPEN: the class of SYMMETRIC_CLAMP is not stated beyond "arithmetic"; it counts as general.
alu_ops! {
    /// A, unchanged.
    Bypass = 0x00, "BYPASS", V1, A | B | G | H | D | UNARY;
    /// Complement of a.
    BitwiseNot = 0x01, "BITWISE_NOT", V1, B | H | UNARY;
    /// A << b.
    ArithShiftLeft = 0x02, "ARITH_SHIFT_LEFT", V1, B | H;
    /// A >> b, sign replicated.
    ArithShiftRight = 0x03, "ARITH_SHIFT_RIGHT", V1, B | H;
    /// A + b.
    Add = 0x04, "ADD", V1, A | G;
    /// A - b.
    Subtract = 0x05, "SUBTRACT", V1, A | G;
    /// A * b.
    Mult = 0x06, "MULT", V1, A | G;
    /// A / b.
    Divide = 0x07, "DIVIDE", V1, A;
    /// The larger.
    Max = 0x08, "MAX", V1, A | G;
    /// The smaller.
    Min = 0x09, "MIN", V1, A | G;
    /// A and b.
    BitwiseAnd = 0x0a, "BITWISE_AND", V1, B | H;
    /// A or b.
    BitwiseOr = 0x0b, "BITWISE_OR", V1, B | H;
    /// A xor b.
    BitwiseXor = 0x0c, "BITWISE_XOR", V1, B | H;
    /// Both are not 0.
    LogicalAnd = 0x0d, "LOGICAL_AND", V1, A | G;
    /// One is not 0.
    LogicalOr = 0x0e, "LOGICAL_OR", V1, A | G;
    /// Exactly one is not 0.
    LogicalXor = 0x0f, "LOGICAL_XOR", V1, A | G;
    /// A << b.
    LogicalShiftLeft = 0x10, "LOGICAL_SHIFT_LEFT", V1, B | H;
    /// A >> b, zero filled.
    LogicalShiftRight = 0x11, "LOGICAL_SHIFT_RIGHT", V1, B | H;
    /// A == b.
    IsEq = 0x12, "IS_EQ", V1, A | G;
    /// A > b.
    IsGt = 0x13, "IS_GT", V1, A | G;
    /// A >= b.
    IsGe = 0x14, "IS_GE", V1, A | G;
    /// A <= b.
    IsLe = 0x15, "IS_LE", V1, A | G;
    /// A < b.
    IsLt = 0x16, "IS_LT", V1, A | G;
    /// |a - b|.
    AbsoluteDiff = 0x17, "ABSOLUTE_DIFF", V1, A | G;
    /// A != b.
    IsNe = 0x18, "IS_NE", V1, A | G;
    /// |a|.
    AbsoluteValue = 0x19, "ABSOLUTE_VALUE", V1, A | G | UNARY;
    /// A to the power b.
    Pow = 0x1a, "POW", V1, A;
    /// Remainder of a / b, sign of b.
    Mod = 0x1b, "MOD", V1, A | I | S | U;
    /// Checksum; parameters unknown.
    Crc32 = 0x1c, "CRC32", V1, B;
    /// 1 / square root of a.
    Rsqrt = 0x1d, "RSQRT", V1, A | UNARY;
    /// The larger magnitude.
    AbsMax = 0x20, "ABS_MAX", V4, A | G;
    /// The smaller magnitude.
    AbsMin = 0x21, "ABS_MIN", V4, A | G;
    /// A, or 0 when negative.
    ReLu = 0x22, "RE_LU", V4, A | G | UNARY;
    /// A * a.
    Square = 0x23, "SQUARE", V4, A | G | UNARY;
    /// Sign of a times the larger magnitude.
    SymmetricClamp = 0x24, "SYMMETRIC_CLAMP", V5, A | G;
    /// A + b.
    AddInt = 0xc4, "ADD_INT", V2, A | I | D | S | U;
    /// A * b.
    MultInt = 0xc5, "MULT_INT", V2, A | I | D | S | U;
    /// A - b.
    SubtractInt = 0xc6, "SUBTRACT_INT", V2, A | I | D | S | U;
    /// Signed quotient.
    DivideInt = 0xc7, "DIVIDE_INT", V3, A | I | S | U;
    /// Signed remainder, sign of a.
    ModInt = 0xc8, "MOD_INT", V3, A | I | S | U;
    /// A == b.
    IsEqualInt = 0xc9, "IS_EQUAL_INT", V3, I | D | S | U;
    /// A != b.
    IsNeInt = 0xca, "IS_NE_INT", V3, I | D | S | U;
    /// The larger magnitude.
    AbsMaxInt = 0xcb, "ABS_MAX_INT", V3, I | D | S;
    /// The smaller magnitude.
    AbsMinInt = 0xcc, "ABS_MIN_INT", V3, I | D | S;
    /// |a - b|.
    AbsDiffInt = 0xcd, "ABS_DIFF_INT", V3, I | D | S;
    /// |a|.
    AbsValueInt = 0xce, "ABS_VALUE_INT", V3, UNARY;
    /// The larger, signed.
    MaxInt = 0xcf, "MAX_INT", V3, I | D | S;
    /// The smaller, signed.
    MinInt = 0xd0, "MIN_INT", V3, I | D | S;
    /// A > b, signed.
    IsGtInt = 0xd1, "IS_GT_INT", V3, I | D | S;
    /// A >= b, signed.
    IsGeInt = 0xd2, "IS_GE_INT", V3, I | D | S;
    /// A <= b, signed.
    IsLeInt = 0xd3, "IS_LE_INT", V3, I | D | S;
    /// A < b, signed.
    IsLtInt = 0xd4, "IS_LT_INT", V3, I | D | S;
    /// The larger, unsigned.
    MaxUint = 0xd5, "MAX_UINT", V3, I | U;
    /// The smaller, unsigned.
    MinUint = 0xd6, "MIN_UINT", V3, I | U;
    /// A > b, unsigned.
    IsGtUint = 0xd7, "IS_GT_UINT", V3, I | U;
    /// A >= b, unsigned.
    IsGeUint = 0xd8, "IS_GE_UINT", V3, I | U;
    /// A <= b, unsigned.
    IsLeUint = 0xd9, "IS_LE_UINT", V3, I | U;
    /// A < b, unsigned.
    IsLtUint = 0xda, "IS_LT_UINT", V3, I | U;
    /// A * b.
    MultUint = 0xdb, "MULT_UINT", V3, I | U;
    /// Unsigned quotient.
    DivideUint = 0xdc, "DIVIDE_UINT", V3, I | U;
    /// Unsigned remainder.
    ModUint = 0xdd, "MOD_UINT", V3, I | U;
    /// Index of the largest, signed.
    AmaxInt = 0xde, "AMAX_INT", V3, 0;
    /// Index of the smallest, signed.
    AminInt = 0xdf, "AMIN_INT", V3, 0;
    /// Index of the largest, unsigned.
    AmaxUint = 0xe0, "AMAX_UINT", V3, 0;
    /// Index of the smallest, unsigned.
    AminUint = 0xe1, "AMIN_UINT", V3, 0;
}

impl AluOp {
    /// Every operation, in order of code.
    pub fn all() -> impl Iterator<Item = AluOp> {
        TABLE.iter().map(|row| row.0)
    }

    /// The operation of wire code `code` on `generation`.
    ///
    /// # Errors
    /// Illegal instruction when the generation does not define the code.
    pub fn from_code(generation: Generation, code: u8) -> Result<AluOp> {
        match TABLE.iter().find(|row| row.0 as u8 == code && generation >= row.2) {
            Some(row) => Ok(row.0),
            None => Err(Error::illegal(
                "is_valid_alu_op",
                format!("ALU operation {code:#04x} is not defined on {generation:?}"),
            )),
        }
    }

    /// Wire code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Name of the header, for instance `IS_EQ`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The operation called `name`, in any case.
    pub fn from_name(name: &str) -> Option<AluOp> {
        TABLE.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| row.0)
    }

    fn is(self, class: u16) -> bool {
        self.row().3 & class != 0
    }

    /// Arithmetic class.
    pub fn is_arith(self) -> bool {
        self.is(A)
    }

    /// Bit-vector class.
    pub fn is_bitvec(self) -> bool {
        self.is(B)
    }

    /// General arithmetic class.
    pub fn is_general_arith(self) -> bool {
        self.is(G)
    }

    /// General bit-vector class.
    pub fn is_general_bitvec(self) -> bool {
        self.is(H)
    }

    /// Integer operation that the tensor-tensor path takes. MOD is one although its code lies in
    /// the base band.
    pub fn is_int(self) -> bool {
        self.is(I)
    }

    /// Integer subset of the v5 vector engine.
    pub fn is_int_dve_v5(self) -> bool {
        self.is(D)
    }

    /// Legal on signed integer operands.
    pub fn is_signed_int(self) -> bool {
        self.is(S)
    }

    /// Legal on unsigned integer operands.
    pub fn is_unsigned_int(self) -> bool {
        self.is(U)
    }

    /// Uses only its first operand.
    pub fn is_unary(self) -> bool {
        self.is(UNARY)
    }

    /// Code in the integer band (bits 7:6 both set), which runs on the integer engine.
    pub fn is_integer_band(self) -> bool {
        self.code() >> 6 == 3
    }

    /// One of the four shifts.
    pub fn is_shift(self) -> bool {
        self.is_left_shift() || matches!(self, AluOp::ArithShiftRight | AluOp::LogicalShiftRight)
    }

    fn is_left_shift(self) -> bool {
        matches!(self, AluOp::ArithShiftLeft | AluOp::LogicalShiftLeft)
    }

    /// Result is 0 or 1.
    pub fn is_predicate(self) -> bool {
        let name = self.name();
        name.starts_with("IS_") || name.starts_with("LOGICAL_") && !self.is_shift()
    }

    /// Legal in TENSOR_TENSOR 0x41 (arithmetic form).
    pub fn is_tensor_tensor_arith(self) -> bool {
        self.is_general_arith() || self == AluOp::Pow || self.is_int()
    }

    /// The two-stage shift rule: a left shift followed by a right shift, or any arithmetic right
    /// shift, needs an element of four bytes.
    pub fn shift_pair_needs_four_bytes(op0: AluOp, op1: AluOp) -> bool {
        let right = matches!(op1, AluOp::ArithShiftRight | AluOp::LogicalShiftRight);
        (op0.is_left_shift() && right)
            || op0 == AluOp::ArithShiftRight
            || op1 == AluOp::ArithShiftRight
    }

    fn unsupported(self, domain: &str) -> Error {
        Error::illegal("not supported op", format!("ALU operation {} on {domain}", self.name()))
    }
}

impl std::fmt::Display for AluOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        // wiki: firmware/kernels/alu-op-matrix 2 and 3.
        let on = |g| (0..=255).filter(|&code| AluOp::from_code(g, code).is_ok()).count();
        assert_eq!(on(Generation::V2), 33);
        assert_eq!(on(Generation::V3), 60);
        assert_eq!(on(Generation::V4), 64);
        assert_eq!(on(Generation::V4Plus), 64);
        assert_eq!(on(Generation::V5), 65);
        let predicates = AluOp::all().filter(|op| op.is_predicate()).count();
        // Six compares and three logical ones in the base band, two and eight in the integer band.
        assert_eq!(predicates, 9 + 10);
    }

    #[test]
    fn names_and_codes_lead_back() {
        for op in AluOp::all() {
            assert_eq!(AluOp::from_name(op.name()), Some(op));
            assert_eq!(AluOp::from_code(Generation::V5, op.code()).unwrap(), op);
        }
    }
}

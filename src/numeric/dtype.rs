//! The dtype code space: one byte used by instructions, descriptors and custom operations alike.
//!
//! Codes never change their meaning; a generation only adds (wiki: firmware/kernels/dtype-model).

use crate::error::{Error, Result};
use crate::isa::Generation;

/// What kind of payload a dtype is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two's complement integer.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// Floating point with a sign.
    Float,
    /// Power-of-two scale without sign, for block formats only.
    Scale,
    /// Bit stream of the CPTC codec; has no elements of its own.
    Codec,
}

/// Element type of a tensor.
///
/// [`Dtype::Fp8E4`] and [`Dtype::Fp8E4Fn`] share wire code 0x0E: which of the two a program means
/// depends on the generation and, on v4, on its FP8 configuration
/// (see [`Fp8Config::resolve`](super::Fp8Config::resolve)).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Dtype {
    /// 0x01, two 32-bit halves.
    Uint64,
    /// 0x02.
    Int8,
    /// 0x03.
    Uint8,
    /// 0x04.
    Int16,
    /// 0x05.
    Uint16,
    /// 0x06, 1-8-7.
    Bf16,
    /// 0x07, IEEE binary16.
    Fp16,
    /// 0x08.
    Int32,
    /// 0x09.
    Uint32,
    /// 0x0A, IEEE binary32.
    Fp32,
    /// 0x0B, FP32 container with a shortened mantissa; destination only.
    Fp32r,
    /// 0x0C, two 32-bit halves.
    Int64,
    /// 0x0D, 1-3-4.
    Fp8E3,
    /// 0x0E in IEEE style, 1-4-3 with infinity, up to 240.
    Fp8E4,
    /// 0x0E in OCP style (e4m3fn), no infinity, up to 448.
    Fp8E4Fn,
    /// 0x0F, 1-5-2.
    Fp8E5,
    /// 0x10, OCP E2M1, two elements a byte, low nibble first.
    Fp4E2,
    /// 0x11, 1-2-5.
    Fp8E2,
    /// 0x12, two elements a byte, low nibble first.
    Int4,
    /// 0x13, E8M0.
    Sfp8E8,
    /// 0x14, E7M1.
    Sfp8E7,
    /// 0x15, E6M2.
    Sfp8E6,
    /// 0x16, E5M3.
    Sfp8E5,
    /// 0x19, one bit an element.
    Cptc1,
    /// 0x1A, two bits an element.
    Cptc2,
    /// 0x1B, three bits an element.
    Cptc3,
    /// 0x1C, four bits an element.
    Cptc4,
    /// 0x1D, five bits an element.
    Cptc5,
    /// 0x1E, six bits an element.
    Cptc6,
    /// 0x1F, seven bits an element.
    Cptc7,
}

use Dtype::*;

/// One row: dtype, code, bits, kind, first generation, name.
struct Row(Dtype, u8, u32, Kind, Generation, &'static str);

/// Every dtype in the order of the enum, which indexes this table.
const TABLE: [Row; 30] = [
    Row(Uint64, 0x01, 64, Kind::Unsigned, Generation::V2, "uint64"),
    Row(Int8, 0x02, 8, Kind::Signed, Generation::V2, "int8"),
    Row(Uint8, 0x03, 8, Kind::Unsigned, Generation::V1, "uint8"),
    Row(Int16, 0x04, 16, Kind::Signed, Generation::V2, "int16"),
    Row(Uint16, 0x05, 16, Kind::Unsigned, Generation::V1, "uint16"),
    Row(Bf16, 0x06, 16, Kind::Float, Generation::V1, "bf16"),
    Row(Fp16, 0x07, 16, Kind::Float, Generation::V1, "fp16"),
    Row(Int32, 0x08, 32, Kind::Signed, Generation::V1, "int32"),
    Row(Uint32, 0x09, 32, Kind::Unsigned, Generation::V2, "uint32"),
    Row(Fp32, 0x0A, 32, Kind::Float, Generation::V1, "fp32"),
    Row(Fp32r, 0x0B, 32, Kind::Float, Generation::V2, "fp32r"),
    Row(Int64, 0x0C, 64, Kind::Signed, Generation::V1, "int64"),
    Row(Fp8E3, 0x0D, 8, Kind::Float, Generation::V2, "fp8e3"),
    Row(Fp8E4, 0x0E, 8, Kind::Float, Generation::V2, "fp8e4"),
    Row(Fp8E4Fn, 0x0E, 8, Kind::Float, Generation::V4, "fp8e4fn"),
    Row(Fp8E5, 0x0F, 8, Kind::Float, Generation::V2, "fp8e5"),
    Row(Fp4E2, 0x10, 4, Kind::Float, Generation::V4, "fp4e2"),
    Row(Fp8E2, 0x11, 8, Kind::Float, Generation::V5, "fp8e2"),
    Row(Int4, 0x12, 4, Kind::Signed, Generation::V5, "int4"),
    Row(Sfp8E8, 0x13, 8, Kind::Scale, Generation::V5, "sfp8e8"),
    Row(Sfp8E7, 0x14, 8, Kind::Scale, Generation::V5, "sfp8e7"),
    Row(Sfp8E6, 0x15, 8, Kind::Scale, Generation::V5, "sfp8e6"),
    Row(Sfp8E5, 0x16, 8, Kind::Scale, Generation::V5, "sfp8e5"),
    Row(Cptc1, 0x19, 1, Kind::Codec, Generation::V4, "cptc1"),
    Row(Cptc2, 0x1A, 2, Kind::Codec, Generation::V4, "cptc2"),
    Row(Cptc3, 0x1B, 3, Kind::Codec, Generation::V4, "cptc3"),
    Row(Cptc4, 0x1C, 4, Kind::Codec, Generation::V4, "cptc4"),
    Row(Cptc5, 0x1D, 5, Kind::Codec, Generation::V4, "cptc5"),
    Row(Cptc6, 0x1E, 6, Kind::Codec, Generation::V4, "cptc6"),
    Row(Cptc7, 0x1F, 7, Kind::Codec, Generation::V4, "cptc7"),
];

impl Dtype {
    /// Every dtype, in order of code.
    pub fn all() -> impl Iterator<Item = Dtype> {
        TABLE.iter().map(|row| row.0)
    }

    /// The dtype of wire code `code` on `generation`. Code 0x0E is [`Fp8E4Fn`] on v5, which has no
    /// other E4M3, and [`Fp8E4`] before.
    ///
    /// # Errors
    /// Illegal instruction when the generation does not define the code. Code 0 (INVALID) is never
    /// a dtype; fields in which 0 has a meaning of its own test for it first.
    pub fn from_code(generation: Generation, code: u8) -> Result<Dtype> {
        let found = TABLE.iter().find(|row| row.1 == code && generation >= row.4);
        match found.map(|row| row.0) {
            Some(Fp8E4) if generation >= Generation::V5 => Ok(Fp8E4Fn),
            Some(dtype) => Ok(dtype),
            None => Err(Error::illegal(
                "is_valid_dtype",
                format!("dtype code {code:#04x} is not defined on {generation:?}"),
            )),
        }
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Wire code.
    pub fn code(self) -> u8 {
        self.row().1
    }

    /// Bits of one element.
    pub fn bits(self) -> u32 {
        self.row().2
    }

    /// What kind of payload it is.
    pub fn kind(self) -> Kind {
        self.row().3
    }

    /// Bytes of one element as access patterns count them. 4-bit elements travel two a byte and
    /// CPTC as a stream of 32-bit words; for those this is the container, 1 and 4.
    pub fn size(self) -> usize {
        if self.kind() == Kind::Codec { 4 } else { self.bits().div_ceil(8) as usize }
    }

    /// Bytes that `n` elements take when they lie next to each other.
    pub fn packed_len(self, n: usize) -> usize {
        match self.bits() {
            4 => n.div_ceil(2),
            _ => n.saturating_mul(self.size()),
        }
    }

    /// Name in the notation of profiles and of the assembler.
    pub fn name(self) -> &'static str {
        self.row().5
    }

    /// The dtype called `name`, which may also be the long spelling of the framework or the header
    /// (`bfloat16`, `float32`, `FP8_EXP4`, ...), in any case.
    pub fn from_name(name: &str) -> Option<Dtype> {
        let lower = name.to_ascii_lowercase();
        if let Some(row) = TABLE.iter().find(|row| row.5 == lower) {
            return Some(row.0);
        }
        Some(match lower.as_str() {
            "bfloat16" => Bf16,
            "float16" | "f16" | "half" => Fp16,
            "float32" | "f32" | "float" => Fp32,
            "float32r" | "tfloat32" => Fp32r,
            "fp8_exp2" => Fp8E2,
            "fp8_exp3" | "float8_e3m4" | "float8e3" => Fp8E3,
            "fp8_exp4" | "float8_e4m3" | "float8e4" => Fp8E4,
            "float8_e4m3fn" => Fp8E4Fn,
            "fp8_exp5" | "float8_e5m2" | "float8e5" => Fp8E5,
            "fp4_exp2" | "float4_e2m1fn" => Fp4E2,
            "sfp8_e8" | "float8_e8m0fnu" => Sfp8E8,
            "sfp8_e7" => Sfp8E7,
            "sfp8_e6" => Sfp8E6,
            "sfp8_e5" => Sfp8E5,
            "i8" => Int8,
            "u8" => Uint8,
            "i16" => Int16,
            "u16" => Uint16,
            "i32" => Int32,
            "u32" => Uint32,
            "i64" => Int64,
            "u64" => Uint64,
            _ => return None,
        })
    }

    /// Floating point with a sign.
    pub fn is_float(self) -> bool {
        self.kind() == Kind::Float
    }

    /// Integer of either signedness.
    pub fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// Has negative values.
    pub fn is_signed(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Float)
    }

    /// Stream of the CPTC codec.
    pub fn is_cptc(self) -> bool {
        self.kind() == Kind::Codec
    }

    /// Integer that the vector data path takes: 8, 16 or 32 bits
    /// (wiki: firmware/kernels/dtype-model, is_valid_int_dtype_datapath).
    pub fn is_int_datapath(self) -> bool {
        self.is_int() && matches!(self.bits(), 8..=32)
    }

    /// Float that the data path takes; FP32R only where the field allows it
    /// (wiki: firmware/kernels/dtype-model, is_valid_fp_dtype_datapath).
    pub fn is_float_datapath(self, allow_fp32r: bool) -> bool {
        matches!(self, Fp8E3 | Fp8E4 | Fp8E4Fn | Fp8E5 | Fp16 | Bf16 | Fp32)
            || (allow_fp32r && self == Fp32r)
    }

    /// Element of a microscaling block (wiki: firmware/kernels/dtype-model, is_valid_mx_dtype).
    pub fn is_mx(self) -> bool {
        matches!(self, Fp8E2 | Fp8E3 | Fp8E4 | Fp8E4Fn | Fp8E5 | Fp4E2 | Int4)
    }

    /// The header's `is_valid_dtype`: usable as a plain tensor element, with FP32R only when the
    /// field allows it. CPTC codes are refused too: they are streams, not elements.
    pub fn is_valid(self, allow_fp32r: bool) -> bool {
        match self {
            Fp32r => allow_fp32r,
            Uint64 | Int64 | Fp4E2 | Int4 => false,
            _ => !matches!(self.kind(), Kind::Scale | Kind::Codec),
        }
    }

    /// Legal in MOVE, which copies 32 raw bits whatever it is (wiki: firmware/kernels/move-dtype).
    pub fn is_move(self) -> bool {
        matches!(self, Int32 | Uint32 | Fp32)
    }

    /// Legal source of COPY and CAST; as destination FP32R comes in addition
    /// (wiki: firmware/kernels/cast-copy).
    pub fn is_cast_source(self) -> bool {
        self.is_int_datapath() || self.is_float_datapath(false)
    }

    /// Fits the 4-bit nibble of a DTYPE_PAIR and is legal for DMA descriptors when also valid.
    pub fn is_basic(self) -> bool {
        self.code() <= 0x0F
    }

    /// Largest value of an integer dtype.
    pub fn int_max(self) -> Option<i128> {
        match self.kind() {
            Kind::Signed => Some((1i128 << (self.bits() - 1)) - 1),
            Kind::Unsigned => Some((1i128 << self.bits()) - 1),
            _ => None,
        }
    }

    /// Smallest value of an integer dtype.
    pub fn int_min(self) -> Option<i128> {
        match self.kind() {
            Kind::Signed => Some(-(1i128 << (self.bits() - 1))),
            Kind::Unsigned => Some(0),
            _ => None,
        }
    }

    /// Largest finite value as FP32 (rounded for wide integers); `None` for codec streams.
    pub fn max(self) -> Option<f32> {
        match self.kind() {
            Kind::Codec => None,
            Kind::Signed | Kind::Unsigned => self.int_max().map(|v| v as f32),
            Kind::Float | Kind::Scale => super::minifloat::max_finite(self),
        }
    }

    /// Smallest (most negative) finite value as FP32; `None` for codec streams.
    pub fn min(self) -> Option<f32> {
        match self.kind() {
            Kind::Codec => None,
            Kind::Signed | Kind::Unsigned => self.int_min().map(|v| v as f32),
            Kind::Float => self.max().map(|v| -v),
            Kind::Scale => Some(super::minifloat::scale_value(self, 0)),
        }
    }

    /// Scalar type of the custom-operation library and its ordinal, for the eight codes that the
    /// tensor boundary accepts (wiki: abi/scalartype-dtype-rosetta). `None`: the library aborts
    /// with `utypes.hpp:37 0`.
    pub fn torch_scalar_type(self) -> Option<(&'static str, u8)> {
        Some(match self {
            Uint8 => ("Byte", 0),
            Int8 => ("Char", 1),
            Int16 => ("Short", 2),
            Int32 => ("Int", 3),
            Int64 => ("Long", 4),
            Fp16 => ("Half", 5),
            Fp32 => ("Float", 6),
            Bf16 => ("BFloat16", 15),
            _ => return None,
        })
    }
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether `code` is one of the seven CPTC codes (wiki: firmware/kernels/dtype-model 3).
pub fn is_cptc_code(code: u8) -> bool {
    code & 0xF8 == 0x18 && code & 7 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_indexed_by_the_enum() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.5);
            assert_eq!(Dtype::from_name(row.5), Some(row.0));
        }
    }

    #[test]
    fn each_generation_has_its_number_of_codes() {
        // INVALID (0) counts in the header's enum; source: wiki firmware/kernels/dtype-model 1.
        let count = |g| 1 + (1..=255).filter(|&c| Dtype::from_code(g, c).is_ok()).count();
        assert_eq!(count(Generation::V1), 8);
        assert_eq!(count(Generation::V2), 16);
        assert_eq!(count(Generation::V3), 16);
        assert_eq!(count(Generation::V5), 30);
    }

    #[test]
    fn e4m3_is_the_ocp_one_only_on_v5() {
        assert_eq!(Dtype::from_code(Generation::V3, 0x0E).unwrap(), Fp8E4);
        assert_eq!(Dtype::from_code(Generation::V4, 0x0E).unwrap(), Fp8E4);
        assert_eq!(Dtype::from_code(Generation::V5, 0x0E).unwrap(), Fp8E4Fn);
    }
}

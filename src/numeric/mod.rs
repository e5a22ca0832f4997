//! Numbers: dtypes, conversions, ALU operations, activation functions, random generators.
//!
//! Everything here is a pure function of its operands: the same bits come out on every host. That
//! is why no function of the platform's mathematics library is called, no product is fused with a
//! sum unless a source says so, and every NaN that arithmetic produces is the canonical one.

pub mod accumulate;
pub mod activation;
pub mod alu;
pub mod batchnorm;
pub mod convert;
pub mod dtype;
pub mod minifloat;
pub mod mx;
pub mod pwl;
pub mod rng;
pub mod simd;
pub mod walk;

pub use activation::ActFunc;
pub use alu::AluOp;
pub use convert::{
    Fp8Config, Rounding, convert, load_bits, load_f32, load_i64, store_bits, store_f32, store_i64,
};
pub use dtype::Dtype;
pub use walk::{Walk, gather_bits, gather_f32, gather_i64, scatter_bits, scatter_f32, scatter_i64};

/// The quiet NaN that every arithmetic operation returns (wiki: uarch/vfpu-ieee gives the fp16 one).
pub const CANONICAL_NAN: f32 = f32::from_bits(0x7FC0_0000);

/// `x`, or [`CANONICAL_NAN`] for every NaN.
///
/// Compares bits, not numbers: a test like `x < 0 ? NaN : sqrt(x)` is one that compilers take for
/// `sqrt(x)`, whose NaN then has the sign that the host likes.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7FFF_FFFF > 0x7F80_0000 { 0x7FC0_0000 } else { bits })
}

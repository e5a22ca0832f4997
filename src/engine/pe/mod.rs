//! PE, the matrix engine: weight loads and matmuls.
//!
//! [`mod@array`] holds the stationary operand, [`tile`] says which part of the array an instruction
//! uses, [`product`] multiplies (its fast loops are in [`simd`]), [`psum`] writes or accumulates
//! the result. One file for each instruction group:
//! [`weights`], [`matmul`], [`mx`], [`sparse`], [`seed`], [`lut`], [`registers`].

mod array;
mod lut;
mod matmul;
mod mx;
mod product;
mod psum;
mod registers;
mod seed;
#[doc(hidden)]
pub mod simd;
mod sparse;
mod tile;
mod weights;

use super::Op;
use crate::isa::op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[
    Op::new(op::LDWEIGHTS, "LDWEIGHTS", weights::ldweights),
    Op::new(op::MATMUL, "MATMUL", matmul::matmul),
    Op::new(op::PE_REG_WRITE, "PE_REG_WRITE", registers::pe_reg_write),
    Op::missing(
        op::WEIGHT_MASK,
        "WEIGHT_MASK",
        "operand struct and effect of this leftover of v1",
        "firmware/kernels/pe-matmul",
    ),
    Op::missing(
        op::WEIGHT_SHIFT,
        "WEIGHT_SHIFT",
        "operand struct and effect of this leftover of v1",
        "firmware/kernels/pe-matmul",
    ),
    Op::new(op::LDTAGS, "LDTAGS", sparse::ldtags),
    Op::new(op::MATMUL_SPARSE, "MATMUL_SPARSE", sparse::matmul_sparse),
    Op::new(op::PE_MANAGE_SEED, "PE_MANAGE_SEED", seed::pe_manage_seed),
    Op::new(op::LDWEIGHTS_MX, "LDWEIGHTS_MX", mx::ldweights_mx),
    Op::new(op::MATMUL_MX, "MATMUL_MX", mx::matmul_mx),
    Op::new(op::CONV_LUT_LOAD, "CONV_LUT_LOAD", lut::conv_lut_load),
];

/// State that survives between instructions.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct PeState {
    /// The stationary operand.
    array: array::Array,
    /// PSUM bytes whose next matmul write starts an accumulation.
    pending: psum::Pending,
    /// Feature-map tags of the cells.
    tags: sparse::Tags,
    /// Generators that round BF16 results.
    seeds: seed::Seeds,
    /// Payload of the last PE_REG_WRITE.
    register_write: Option<Box<serde_big_array::Array<u8, 52>>>,
    /// Table of the 4-bit input converter.
    converter: Option<[u16; 16]>,
}

impl PeState {
    /// Payload of the last PE_REG_WRITE.
    pub fn register_write(&self) -> Option<&[u8; 52]> {
        self.register_write.as_ref().map(|payload| &payload.0)
    }

    /// The 4-bit converter table that CONV_LUT_LOAD left, by code.
    pub fn converter(&self) -> Option<&[u16; 16]> {
        self.converter.as_ref()
    }
}

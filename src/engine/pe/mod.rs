//! PE, the matrix engine: weight loads and matmuls.
//!
//! [`array`] holds the stationary operand, [`tile`] says which part of the array an instruction
//! uses, [`product`] multiplies (its fast loops are in [`simd`]), [`psum`] writes or accumulates
//! the result. One file for each instruction group: [`weights`], [`matmul`].

mod array;
mod matmul;
mod product;
mod psum;
#[doc(hidden)]
pub mod simd;
mod tile;
mod weights;

use super::Op;
use crate::isa::op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[
    Op::new(op::LDWEIGHTS, "LDWEIGHTS", weights::ldweights),
    Op::new(op::MATMUL, "MATMUL", matmul::matmul),
];

/// State that survives between instructions.
#[derive(Clone, Default)]
pub struct PeState {
    /// The stationary operand.
    array: array::Array,
    /// PSUM bytes whose next matmul write starts an accumulation.
    pending: psum::Pending,
}

//! PE, the matrix engine: weight loads and matmuls.

use super::Op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[];

/// State that survives between instructions.
#[derive(Clone, Default)]
pub struct PeState {}

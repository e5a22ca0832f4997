//! DMA instructions: descriptor generation, in-transfer compute, transposes.

use super::Op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[];

/// State that survives between instructions.
#[derive(Clone, Default)]
pub struct DgeState {}

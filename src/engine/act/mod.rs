//! ACT, the activation engine.

use super::Op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[];

/// State that survives between instructions.
#[derive(Clone, Default)]
pub struct ActState {}

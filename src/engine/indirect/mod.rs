//! Search, sort, gather, scatter, random numbers, sequence bounds, MX and sparsity on DVE and POOL.

use super::Op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[];

/// State that survives between instructions.
#[derive(Clone, Default)]
pub struct IndirectState {}

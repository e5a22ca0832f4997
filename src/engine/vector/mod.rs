//! DVE and POOL: elementwise, scalar, reduce, scan, select, copy, pooling, batch norm.

use super::Op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[];

/// State that survives between instructions.
#[derive(Clone, Default)]
pub struct VectorState {}

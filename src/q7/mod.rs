//! The eight Vision-Q7 cores behind POOL: bundles, register files, operations, libraries.

pub mod ops;
pub mod regs;
pub mod tables;

//! The eight Vision-Q7 cores behind POOL: bundles, register files, operations, libraries.

pub mod asm;
pub mod codec;
pub mod core;
pub mod library;
pub mod ops;
pub mod regs;
pub mod tables;

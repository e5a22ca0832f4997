//! The eight Vision-Q7 cores behind POOL: bundles, register files, operations, libraries.

pub mod codec;

//! Programs: assembler, container, loader, tensors.

pub mod container;
pub mod diag;
pub mod elem;
pub mod files;
pub mod limits;
pub mod model;
pub mod npy;
pub mod place;
pub mod raw;

pub use elem::{ElemType, Mismatch, compare};
pub use model::*;

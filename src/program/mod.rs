//! Program container, loader and tensors.

pub mod elem;
mod limits;
pub mod model;

pub use elem::ElemType;
pub use model::*;

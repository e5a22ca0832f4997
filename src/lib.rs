//! Emulator of the tensor-processing block (TPB) of AWS NeuronCores.
//!
//! The library is what the `tpbemu` binary is made of. `docs/design.md` tells how the parts fit;
//! start reading at [`machine`].

// the documentation is for those who work on the emulator too
#![allow(rustdoc::private_intra_doc_links)]

pub mod certificate;
pub mod check;
pub mod cli;
pub mod debug;
pub mod engine;
pub mod error;
pub mod explore;
pub mod isa;
pub mod machine;
pub mod memory;
pub mod numeric;
pub mod program;
pub mod q7;
pub mod skeleton;
pub mod sync;
pub mod trace;

pub use error::{Error, ErrorClass, Location, Result};

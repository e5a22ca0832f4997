//! SBUF, PSUM and HBM: address map, access patterns, footprints, storage.
//!
//! * [`geometry`]: sizes and the on-chip address decode of a generation.
//! * [`region`]: which bytes of which partitions an instruction touches.
//! * [`storage`]: the bytes themselves, lent out to engines; the only `unsafe` of the memory.
//! * [`validity`]: which bytes have ever been written.

pub mod geometry;
pub mod region;
pub mod storage;
pub mod validity;

pub use geometry::{Geometry, Location, Space};
pub use region::{Access, AccessKind, ByteSet, Region};
pub use storage::{Lease, Memory};
pub use validity::Validity;

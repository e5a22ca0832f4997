//! Recorder, exporters and summary of a run.
//!
//! The machine emits [`record::Record`]s in simulated order; everything a user sees of a run's
//! course is made from them.

pub mod chrome;
pub mod digest;
pub mod record;
pub mod summary;
pub mod tee;

pub use record::{
    InstRecord, Record, Recorder, StallCause, SyncRecord, TraceHeader, TransferRecord,
};

//! Recorder, exporters and summary of a run.
//!
//! The machine emits [`record::Record`]s in simulated order; everything a user sees of a run's
//! course is made from them.

pub mod attribution;
pub mod chrome;
pub mod critical;
pub mod digest;
pub mod facts;
pub mod profile;
pub mod record;
pub mod summary;
mod summary_text;
pub mod tee;
pub mod updates;
pub mod warnings;

pub use record::{
    InstRecord, Record, Recorder, StallCause, SyncRecord, TraceHeader, TransferRecord,
};

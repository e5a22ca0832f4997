//! Recorder, exporters and summary of a run.
//!
//! The machine emits [`record::Record`]s in simulated order; everything a user sees of a run's
//! course is made from them.

pub mod attribution;
pub mod chrome;
pub mod counters;
pub mod critical;
pub mod digest;
pub mod export;
pub mod facts;
pub mod html;
pub mod lines;
pub mod perfetto;
pub mod profile;
mod proto;
pub mod record;
pub mod summary;
mod summary_text;
pub mod tables;
pub mod tee;
pub mod updates;
pub mod vcd;
pub mod warnings;

pub use record::{
    InstRecord, Record, Recorder, StallCause, SyncRecord, TraceHeader, TransferRecord,
};

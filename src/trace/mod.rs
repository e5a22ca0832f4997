//! Recorder, exporters and summary of a run.
//!
//! The machine emits [`record::Record`]s in simulated order; everything a user sees of a run's
//! course is made from them.

pub mod attribution;
mod background;
pub mod chrome;
pub mod counters;
pub mod critical;
pub mod digest;
pub mod export;
pub mod facts;
pub mod html;
pub mod lines;
#[cfg(feature = "parquet")]
mod parquet;
pub mod perfetto;
pub mod profile;
mod proto;
pub mod record;
mod recording;
pub mod select;
pub mod sink;
pub mod summary;
mod summary_text;
pub mod tables;
pub mod tee;
pub mod updates;
pub mod usage;
pub mod vcd;
pub mod warnings;

pub use record::{
    InstRecord, Record, Recorder, StallCause, SyncOp, SyncRecord, TraceHeader, TransferRecord,
};

//! Exploration of schedules.
//!
//! * [`schedule`]: strategies, and delays as a list.
//! * [`timeline`]: a text picture of the streams around a finding.
//! * [`trial`]: one run under a schedule.
//! * [`campaign`]: many seeds, resumable.
//! * [`merge`]: shards of a campaign, joined.
//! * [`shrink`]: the few delays that matter.
//! * [`replay`]: a finding as a file.
//! * [`mutate`]: broken variants of a correct program, to measure the detector.

pub mod campaign;
pub mod merge;
pub mod mutate;
pub mod replay;
pub mod schedule;
pub mod shrink;
pub mod timeline;
pub mod trial;

pub use schedule::{Delays, Plain, Schedule, Strategy};
pub use trial::{Kind, Subject, Trial};

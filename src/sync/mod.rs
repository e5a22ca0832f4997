//! Events, semaphores, waits and updates: what the sync part of an instruction means and the
//! state it acts on. Encodings come from the tables of [`crate::isa`]; this is their semantics.
//!
//! * [`modes`]: the wait and update modes of an instruction word, decoded.
//! * [`state`]: the event bits and semaphore counters of one core.

pub mod modes;
pub mod state;

pub use modes::{Compare, EventAction, Operand, Sync, Update, UpdateKind, Wait, When};
pub use state::{SyncId, SyncState};

//! Checks on a running program: races, deadlock, unwritten memory.
//!
//! * [`clock`]: vector clocks carried by waits and updates.
//! * [`board`]: all accesses that may still conflict with a later one.
//! * [`log`] and [`guarantee`]: the order that every schedule guarantees, after the run.
//! * [`stagger`]: V1's partitions that finish one after the other.
//! * [`race`], [`hazard`]: the reports.
//!
//! Deadlock is the machine's own finding, [`crate::machine`].

pub mod board;
pub mod clock;
pub mod guarantee;
pub mod hazard;
pub mod log;
pub mod race;
pub mod stagger;

pub use board::{Board, Conflict, Stamp};
pub use clock::{Clock, SyncClocks};
pub use guarantee::{Guarantees, Hazard};
pub use log::Log;

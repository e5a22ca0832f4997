//! Checks on a running program: races, deadlock, unwritten memory.
//!
//! * [`clock`]: vector clocks carried by waits and updates.
//! * [`board`]: all accesses that may still conflict with a later one.
//! * [`deadlock`]: who waits for whom when nothing can progress.

pub mod board;
pub mod clock;

pub use board::{Board, Conflict, Stamp};
pub use clock::{Clock, SyncClocks};

//! Checks on a running program: races, deadlock, unwritten memory.
//!
//! * [`clock`]: vector clocks carried by waits and updates.
//! * [`board`]: all accesses that may still conflict with a later one.
//! * [`race`]: the report of a race.
//!
//! Deadlock is the machine's own finding, [`crate::machine`].

pub mod board;
pub mod clock;
pub mod race;

pub use board::{Board, Conflict, Stamp};
pub use clock::{Clock, SyncClocks};

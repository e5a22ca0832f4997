//! The debugger: a machine that is stepped, stopped, looked at and taken back.
//!
//! [`session`] moves the machine, [`command`] executes what the user types, [`mod@line`] and [`tui`]
//! are the two ways to type it.

pub mod breakpoints;
pub mod command;
pub mod cores;
pub mod editor;
pub mod help;
pub mod line;
pub mod place;
pub mod session;
pub mod show;
pub mod source;
pub mod trail;
pub mod tui;

pub use command::Debugger;
pub use session::{Session, Stop};

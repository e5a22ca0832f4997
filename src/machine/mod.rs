//! Clock, sequencers, queues, worker threads and the run loop.
//!
//! Start at [`mod@run`]: the conductor. [`image`] makes a program ready, [`stream`] and [`queue`] hold
//! the state of engines and DMA queues, [`control`] executes what the sequencer does itself, and
//! [`executor`] runs the rest on the host.

pub mod address;
pub mod agenda;
pub mod array;
pub mod checkpoint;
mod compact;
pub mod config;
mod control;
pub mod coverage;
mod datapath;
mod deadlock;
pub mod dma;
pub mod executor;
pub mod fault;
mod findings;
mod heads;
pub mod image;
pub mod inspect;
pub mod livelock;
pub mod options;
pub mod outcome;
mod pool;
pub mod ports;
pub(crate) mod power;
pub mod queue;
pub mod run;
mod saved;
pub mod scalar;
mod scalar_memory;
pub mod sim;
pub mod snapshot;
pub mod sp;
mod sp_run;
pub mod stream;
pub mod tensors;
pub mod time;
mod updates;

pub use config::MachineConfig;
pub use options::{Finished, Options, Perturb, Point, Races};
pub use outcome::{RunResult, run, run_planned};
pub use run::Machine;
pub use snapshot::Snapshot;
pub use sp_run::SpState;

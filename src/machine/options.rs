//! How to run, how a run ended, and how a schedule may be disturbed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::Error;
use crate::trace::Recorder;

/// What to do with a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Races {
    /// Ends the run at the first one.
    #[default]
    Stop,
    /// Collects them; the run goes on with the values of the host's order, which is then the
    /// order of simulated starts.
    Collect,
    /// Does not look.
    Ignore,
}

/// Points at which a schedule may be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// Before the sequencer looks at the next word.
    Fetch,
    /// Between issue and start.
    Issue,
    /// Between doorbell and first byte.
    DmaStart,
    /// Between the end and the visible update.
    Completion,
}

/// Disturbs a schedule: extra ticks at named points.
pub trait Perturb: Send {
    /// Extra ticks for execution `index` of `stream` at `point`.
    fn delay(&mut self, stream: usize, index: u64, point: Point) -> u64;
}

/// How to run.
pub struct Options {
    /// Worker threads; 0 runs everything in the conductor.
    pub threads: usize,
    /// Stop after so many cycles of the fastest clock; `None` runs to the end.
    pub max_cycles: Option<u64>,
    /// Validators strict: reserved bytes must be zero, and so on.
    pub strict: bool,
    /// Races.
    pub races: Races,
    /// Whether to test for reads of memory nobody wrote.
    pub check_unwritten: bool,
    /// Skip the data where nothing depends on it: not at all in a program that loads registers from
    /// memory or runs library code.
    pub timing_only: bool,
    /// Keeps what [`Machine::snapshot`](super::Machine::snapshot) needs from the first tick on.
    pub snapshots: bool,
    /// Entries that the log for the analysis of all schedules holds before the older ones are
    /// settled and left behind; 0 keeps all, up to a limit.
    pub window: usize,
    /// Keeps what library code touched, for [`Machine::library_touches`](super::Machine::library_touches).
    pub library_touches: bool,
    /// Takes the records of the run.
    pub recorder: Option<Box<dyn Recorder>>,
    /// Disturbs the schedule.
    pub perturb: Option<Box<dyn Perturb>>,
    /// Set from outside to end the run at the next opportunity.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Called now and then with the current tick and the instructions executed so far.
    pub progress: Option<Box<dyn FnMut(u64, u64) + Send>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: 0,
            max_cycles: None,
            strict: true,
            races: Races::Stop,
            check_unwritten: true,
            timing_only: false,
            snapshots: false,
            window: crate::check::log::WINDOW,
            library_touches: false,
            recorder: None,
            perturb: None,
            interrupt: None,
            progress: None,
        }
    }
}

/// A place that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Involved {
    /// Stream index.
    pub stream: usize,
    /// Word, or block of a DMA queue.
    pub pc: u32,
    /// When it started, if one execution is meant.
    pub tick: Option<u64>,
    /// Since when it waits, if it never came to its start.
    pub waiting_since: Option<u64>,
}

/// How a run ended.
pub struct Finished {
    /// Places that the error, or the first race, is about.
    pub involved: Vec<Involved>,
    /// Tick at which the last thing happened.
    pub end: u64,
    /// Instructions executed, all streams.
    pub executed: u64,
    /// Why it did not come to its end, if it did not.
    pub error: Option<Error>,
    /// Races and other findings, if they were collected.
    pub races: Vec<Error>,
    /// Harmless oddities: what is left over, waits and updates without effect.
    pub remarks: Vec<String>,
    /// Things worth telling.
    pub notes: Vec<String>,
}

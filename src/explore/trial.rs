//! One run under a schedule, and what it showed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::schedule::{Delays, Plain, Schedule};
use crate::error::{Error, ErrorClass, Result};
use crate::machine::run::INTERRUPTED;
use crate::machine::{self, MachineConfig, Options, Races};
use crate::program::Program;
use crate::sync::SyncId;
use crate::trace::digest::Digest;
use crate::trace::tee::Shared;
use crate::trace::{Record, Recorder, TraceHeader};

/// What all runs of an exploration have in common.
#[derive(Clone)]
pub struct Subject {
    /// The program.
    pub program: Arc<Program>,
    /// The machine.
    pub config: Arc<MachineConfig>,
    /// Leave out the data where nothing depends on it.
    pub timing_only: bool,
    /// Ticks after which a run is given up.
    pub max_cycles: u64,
    /// Ends runs from outside.
    pub interrupt: Arc<AtomicBool>,
    /// Worker threads of each run.
    pub threads: usize,
}

/// A kind of finding, by which runs are compared: class, and rule if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// Class of the error.
    pub class: ErrorClassName,
    /// Rule, for instance `race`.
    pub rule: Option<String>,
}

/// Name of an error class.
pub type ErrorClassName = String;

impl Kind {
    /// The kind of `error`.
    pub fn of(error: &Error) -> Self {
        Kind { class: error.class.name().into(), rule: error.rule.as_ref().map(|r| r.to_string()) }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.rule {
            Some(rule) => write!(f, "{} [{rule}]", self.class),
            None => f.write_str(&self.class),
        }
    }
}

/// Outcome of one run.
pub struct Trial {
    /// What was wrong.
    pub error: Option<Error>,
    /// Digest of the trace.
    pub trace: u64,
    /// Digest of the order in which each event and semaphore changed, and of how far each stream
    /// came, without times.
    pub order: u64,
    /// Digest of the tensors; `None` if the data was left out or the run ended early.
    pub memory: Option<u64>,
    /// Last tick.
    pub ticks: u64,
    /// Delays that the schedule gave.
    pub delays: Delays,
    /// Points that the run passed, if the schedule kept them.
    pub plain: Plain,
}

impl Trial {
    /// Nothing, if the run came to an end of its own.
    ///
    /// # Errors
    /// The interrupt that ended it.
    pub fn not_interrupted(&self) -> Result<()> {
        match &self.error {
            Some(e) if e.message == INTERRUPTED => Err(e.clone()),
            _ => Ok(()),
        }
    }
}

/// The changes of each event and semaphore in their order, and how far each stream came. Runs that
/// agree in it differ only in the order of changes that have nothing to do with each other.
#[derive(Default)]
struct Order {
    changes: BTreeMap<SyncId, Digest>,
    executed: BTreeMap<u16, u64>,
}

impl Order {
    fn value(&self) -> u64 {
        let mut all = Digest::default();
        for (id, digest) in &self.changes {
            all.bytes(id.to_string().as_bytes());
            all.bytes(&digest.value().to_le_bytes());
        }
        for (stream, n) in &self.executed {
            all.bytes(&stream.to_le_bytes());
            all.bytes(&n.to_le_bytes());
        }
        all.value()
    }
}

impl Recorder for Order {
    fn record(&mut self, record: &Record) {
        match record {
            Record::Sync(s) => {
                let digest = self.changes.entry(s.id).or_default();
                digest.bytes(&s.by.0.to_le_bytes());
                digest.bytes(&s.by.1.to_le_bytes());
                digest.bytes(&s.value.to_le_bytes());
            }
            Record::Inst(r) => *self.executed.entry(r.stream).or_default() += 1,
            _ => {}
        }
    }
}

impl Subject {
    /// Runs the program under `schedule`.
    ///
    /// # Errors
    /// The program does not load. What the run finds is in [`Trial::error`].
    pub fn run(&self, schedule: impl Fn() -> Schedule) -> Result<Trial> {
        self.run_with(schedule, Races::Stop)
    }

    /// As [`Subject::run`], with the races treated as `races` says.
    ///
    /// # Errors
    /// As [`Subject::run`].
    pub fn run_with(&self, schedule: impl Fn() -> Schedule, races: Races) -> Result<Trial> {
        self.run_observed(schedule, races, |_, _| Vec::new()).map(|(trial, _)| trial)
    }

    /// As [`Subject::run_with`], with recorders of the caller's; also gives what the run left.
    ///
    /// # Errors
    /// As [`Subject::run`].
    pub fn run_observed(
        &self,
        schedule: impl Fn() -> Schedule,
        races: Races,
        mut observe: impl FnMut(&TraceHeader, &machine::Machine) -> Vec<Box<dyn Recorder>>,
    ) -> Result<(Trial, machine::RunResult)> {
        let mut given = None;
        let order = Shared::new(Order::default());
        let options = || {
            let schedule = schedule();
            given = Some(schedule.given());
            Options {
                threads: self.threads,
                max_cycles: Some(self.max_cycles),
                timing_only: self.timing_only,
                races,
                interrupt: Some(Arc::clone(&self.interrupt)),
                perturb: Some(Box::new(schedule)),
                ..Options::default()
            }
        };
        let record = |header: &TraceHeader, machine: &machine::Machine| {
            order.with(|o| *o = Order::default());
            let mut all: Vec<Box<dyn Recorder>> = vec![Box::new(order.clone())];
            all.extend(observe(header, machine));
            all
        };
        let (program, config) = (Arc::clone(&self.program), Arc::clone(&self.config));
        let mut result = machine::run(program, config, options, record, false)?;
        let error = result.finished.error.take().or_else(|| result.finished.races.first().cloned());
        let memory = match (&error, self.timing_only) {
            (None, false) => Some(result.memory_digest()?),
            _ => None,
        };
        let given = given.ok_or_else(|| Error::internal("a run without options"))?;
        let mut given = given.lock();
        let mut sites = std::mem::take(&mut given.sites);
        sites.sort_unstable();
        sites.dedup();
        let ticks = result.finished.end;
        let trial = Trial {
            error,
            trace: result.trace_digest,
            order: order.with(|o| o.value()),
            memory,
            ticks,
            delays: std::mem::take(&mut given.delays),
            plain: Plain { sites, ticks },
        };
        Ok((trial, result))
    }

    /// Compares `trial` with the undisturbed run: its error, or that its outputs differ.
    pub fn judge(&self, trial: &Trial, undisturbed: &Trial) -> Option<Error> {
        if let Some(e) = &trial.error {
            return Some(e.clone());
        }
        match (trial.memory, undisturbed.memory) {
            (Some(a), Some(b)) if a != b => Some(
                Error::new(
                    ErrorClass::CheckFailed,
                    "the tensors differ from those of the undisturbed run",
                )
                .rule("schedule_dependent"),
            ),
            _ => None,
        }
    }
}

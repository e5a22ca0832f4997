//! Timing-only campaigns on the skeleton.
//!
//! Each schedule runs on the skeleton. The machine runs it too if it shows something wrong, if its
//! order of changes is new and the program is not proved, and now and then to compare the two. Only
//! what the machine finds is a finding.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::Skeleton;
use super::exec::Executor;
use crate::error::{Error, Result};
use crate::explore::campaign::Line;
use crate::explore::{Kind, Schedule, Strategy, Subject, Trial};

/// One schedule in so many is run on the machine as well, to compare.
const COMPARED: u64 = 4096;

/// What the runners of a campaign have in common.
pub struct Fast<'a> {
    sk: &'a Skeleton,
    subject: &'a Subject,
    undisturbed: &'a Trial,
    strategy: Strategy,
    /// Whether the order of changes cannot matter.
    proved: bool,
    known: Mutex<FxHashSet<u64>>,
    on_machine: AtomicU64,
}

/// Runs schedules one after the other.
pub struct Runner<'a> {
    fast: &'a Fast<'a>,
    executor: Executor<'a>,
    known: FxHashSet<u64>,
}

impl<'a> Fast<'a> {
    /// For `subject`, whose skeleton is `sk`.
    pub fn new(
        sk: &'a Skeleton,
        proved: bool,
        subject: &'a Subject,
        undisturbed: &'a Trial,
        strategy: Strategy,
    ) -> Self {
        let (known, on_machine) = Default::default();
        Fast { sk, subject, undisturbed, strategy, proved, known, on_machine }
    }

    /// A runner.
    pub fn runner(&'a self) -> Runner<'a> {
        Runner { fast: self, executor: Executor::new(self.sk), known: FxHashSet::default() }
    }

    /// Schedules that the machine ran.
    pub fn on_machine(&self) -> u64 {
        self.on_machine.load(Ordering::Relaxed)
    }
}

impl Runner<'_> {
    /// The line of a campaign for `seed`.
    ///
    /// # Errors
    /// The machine cannot be started, was interrupted, or does not do what the skeleton does.
    pub fn line(&mut self, seed: u64) -> Result<Line> {
        let fast = self.fast;
        let plain = &fast.undisturbed.plain;
        let schedule = Schedule::of_seed(fast.strategy, seed, plain);
        let outcome = self.executor.run(&mut &schedule, &mut ());
        let new = !fast.proved
            && self.known.insert(outcome.order)
            && fast.known.lock().insert(outcome.order);
        let mut line = Line {
            seed,
            strategy: fast.strategy,
            finding: None,
            trace: String::new(),
            order: format!("{:016x}", outcome.order),
            ticks: outcome.ticks,
        };
        if outcome.suspicious() || new || seed.is_multiple_of(COMPARED) {
            fast.on_machine.fetch_add(1, Ordering::Relaxed);
            let make = || Schedule::of_seed(fast.strategy, seed, plain);
            let trial = fast.subject.run(make)?;
            trial.not_interrupted()?;
            line.finding = fast.subject.judge(&trial, fast.undisturbed).as_ref().map(Kind::of);
            line.trace = format!("{:016x}", trial.trace);
            if trial.error.is_none() && trial.ticks != outcome.ticks {
                return Err(Error::internal(format!(
                    "seed {seed}: the skeleton ends at tick {}, the machine at {}",
                    outcome.ticks, trial.ticks
                )));
            }
        }
        Ok(line)
    }
}

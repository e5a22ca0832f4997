//! A machine under control: forward by ticks, cycles, instructions or to a breakpoint, and back.
//!
//! A position is the number of agenda entries done since the start. Going back restores the latest
//! snapshot at or before the position and does the entries in between again; since a run is
//! determined by its program, that is the same state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::breakpoints::{Breakpoints, Hit};
use super::trail::{Mark, Trail};
use crate::error::{Error, Result};
use crate::isa::Engine;
use crate::machine::agenda::{Action, Entry};
use crate::machine::checkpoint::{Checkpoint, Identity};
use crate::machine::inspect::Begun;
use crate::machine::run::ENGINE_STREAMS;
use crate::machine::{Machine, MachineConfig, Options, Snapshot};
use crate::program::Program;
use crate::trace::tee::Shared;

/// Snapshots that are kept; beyond that, every other one goes and they are taken half as often.
const MOST_SNAPSHOTS: usize = 32;
/// Entries between snapshots at first.
const FIRST_STRIDE: u64 = 32;

/// Why the machine stands.
#[derive(Clone, Debug)]
pub enum Stop {
    /// It has come to where it was sent.
    There,
    /// A breakpoint.
    Hit(Hit),
    /// The run is at its end.
    End,
    /// The run ended with a fault.
    Fault,
    /// The start of what can be gone back to.
    Start,
    /// The user interrupted.
    Interrupted,
}

struct Kept {
    position: u64,
    executed: [u64; ENGINE_STREAMS],
    mark: Mark,
    snapshot: Snapshot,
}

/// How the run ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Why it did not come to its end, if it did not.
    pub error: Option<Error>,
    /// Findings and oddities of the whole run.
    pub remarks: Vec<String>,
}

/// A machine with its breakpoints and its past.
pub struct Session {
    /// The machine.
    pub machine: Machine,
    /// Breakpoints.
    pub breakpoints: Breakpoints,
    /// Set from outside to stop what is under way.
    pub interrupt: Arc<AtomicBool>,
    /// How the run ended, if it has.
    pub ended: Option<Ended>,
    trail: Shared<Trail>,
    kept: Vec<Kept>,
    stride: u64,
    position: u64,
    seen: u64,
    begun: Vec<Begun>,
}

impl Session {
    /// A session at the start of a run, or at a checkpoint.
    ///
    /// # Errors
    /// The program cannot be loaded into a machine; the checkpoint does not fit it.
    pub fn new(
        program: Arc<Program>,
        config: Arc<MachineConfig>,
        mut options: Options,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Session> {
        options.threads = 0;
        options.snapshots = true;
        let identity = Identity::of(&program, &config, &options)?;
        let mut machine = Machine::new(program, config, options)?;
        let trail = Shared::new(Trail::default());
        if let Some(checkpoint) = checkpoint {
            checkpoint.fits(&identity)?;
            checkpoint.replay(&mut trail.clone())?;
            machine.restore(&checkpoint.snapshot)?;
        }
        machine.set_recorder(Box::new(trail.clone()));
        machine.watch_works();
        let mut session = Session {
            machine,
            breakpoints: Breakpoints::default(),
            interrupt: Arc::default(),
            ended: None,
            seen: trail.with(|t| t.total()),
            trail,
            kept: Vec::new(),
            stride: FIRST_STRIDE,
            position: 0,
            begun: Vec::new(),
        };
        session.keep()?;
        Ok(session)
    }

    /// Agenda entries done since the start.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Looks at the records so far.
    pub fn trail<R>(&self, f: impl FnOnce(&Trail) -> R) -> R {
        self.trail.with(|t| f(t))
    }

    /// Snapshots kept, and the bytes of their pages that are not shared.
    pub fn snapshots(&self) -> (usize, u64) {
        let mut pages = std::collections::BTreeMap::new();
        for page in self.kept.iter().flat_map(|k| &k.snapshot.pages) {
            pages.insert(Arc::as_ptr(&page.bytes).cast::<u8>(), page.bytes.len() as u64);
        }
        let states: u64 = self.kept.iter().map(|k| k.snapshot.state.len() as u64).sum();
        (self.kept.len(), pages.values().sum::<u64>() + states)
    }

    fn executed(&self) -> [u64; ENGINE_STREAMS] {
        std::array::from_fn(|s| self.machine.stream(s).map_or(0, |s| s.executed))
    }

    fn keep(&mut self) -> Result<()> {
        let snapshot = self.machine.snapshot(self.kept.last().map(|k| &k.snapshot))?;
        let mark = self.trail.with(|t| t.mark());
        let (position, executed) = (self.position, self.executed());
        self.kept.push(Kept { position, executed, mark, snapshot });
        if self.kept.len() > MOST_SNAPSHOTS {
            self.stride *= 2;
            let mut n = 0;
            self.kept.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
        Ok(())
    }

    fn fail(&mut self, error: Error) -> Stop {
        self.ended = Some(Ended { error: Some(error), remarks: Vec::new() });
        Stop::Fault
    }

    /// Does one entry that lies at or before `until`. `None` if there is none.
    fn one(&mut self, until: u64) -> Option<Result<()>> {
        if self.ended.is_some() {
            return None;
        }
        match self.machine.advance_one(until) {
            Ok(false) => return None,
            Ok(true) => {}
            Err(e) => {
                self.position += 1;
                return Some(Err(e));
            }
        }
        self.position += 1;
        self.begun = self.machine.take_begun();
        let due = self.kept.last().is_none_or(|k| self.position >= k.position + self.stride);
        if due && let Err(e) = self.keep() {
            return Some(Err(e));
        }
        Some(Ok(()))
    }

    fn before(&self, entry: &Entry) -> Option<Hit> {
        self.breakpoints.before(&self.machine, entry)
    }

    /// What the entry just done hits.
    fn after(&mut self) -> Option<Hit> {
        let from = self.seen;
        self.seen = self.trail.with(|t| t.total());
        self.trail
            .with(|t| self.breakpoints.records(&self.machine, t.since(from)))
            .or_else(|| self.breakpoints.works(&self.machine, &self.begun))
    }

    /// Goes on until `goal` says so after an entry, time `until` is over, or (with `breaks`)
    /// something hits.
    fn drive(
        &mut self,
        until: u64,
        breaks: bool,
        mut goal: impl FnMut(&Session, &Entry) -> bool,
    ) -> Stop {
        let mut first = true;
        self.seen = self.trail.with(|t| t.total());
        loop {
            if let Some(ended) = &self.ended {
                return if ended.error.is_some() { Stop::Fault } else { Stop::End };
            }
            let Some(entry) = self.machine.next() else { return self.conclude() };
            // where it stands already it goes on
            let now = self.machine.now();
            if breaks
                && let Some(hit) = self.before(&entry)
                && hit.at <= until
                && !(first && hit.at <= now)
            {
                self.machine.idle(hit.at);
                return Stop::Hit(hit);
            }
            if entry.tick > until {
                self.machine.idle(until);
                return Stop::There;
            }
            first = false;
            match self.one(until) {
                Some(Err(e)) => return self.fail(e),
                Some(Ok(())) => {}
                None => return Stop::There,
            }
            let hit = self.after();
            if breaks && let Some(hit) = hit {
                return Stop::Hit(hit);
            }
            if goal(self, &entry) {
                return Stop::There;
            }
            if self.position.is_multiple_of(1024) && self.interrupt.swap(false, Ordering::Relaxed) {
                return Stop::Interrupted;
            }
        }
    }

    fn conclude(&mut self) -> Stop {
        let finished = self.machine.conclude_run();
        let mut remarks = finished.remarks;
        remarks.extend(finished.races.iter().map(ToString::to_string));
        let stop = if finished.error.is_some() { Stop::Fault } else { Stop::End };
        self.ended = Some(Ended { error: finished.error, remarks });
        stop
    }

    /// On to a breakpoint or the end.
    pub fn go_on(&mut self) -> Stop {
        self.drive(u64::MAX, true, |_, _| false)
    }

    /// On, or back, to the end of tick `tick`.
    pub fn go_to(&mut self, tick: u64) -> Stop {
        if tick >= self.machine.now() {
            return self.drive(tick, true, |_, _| false);
        }
        let found = self.kept.iter().rposition(|k| k.snapshot.tick <= tick);
        let Some(found) = found else { return self.rewind(0).unwrap_or(Stop::Start) };
        if let Some(stop) = self.rewind(found) {
            return stop;
        }
        self.drive(tick, false, |_, _| false)
    }

    /// On by `n` instructions of engine stream `s`, or of all streams.
    pub fn instructions(&mut self, n: u64, s: Option<usize>) -> Stop {
        let count = move |session: &Session| match s {
            Some(s) => session.machine.stream(s).map_or(0, |s| s.executed),
            None => session.machine.executed(),
        };
        let goal = count(self).saturating_add(n);
        self.drive(u64::MAX, true, |session, _| count(session) >= goal)
    }

    /// Back by `n` instructions of engine stream `s`, or of all streams.
    pub fn instructions_back(&mut self, n: u64, s: Option<usize>) -> Stop {
        let count = |executed: &[u64; ENGINE_STREAMS]| match s {
            Some(s) => executed.get(s).copied().unwrap_or(0),
            None => executed.iter().sum(),
        };
        let now = count(&self.executed());
        if now == 0 {
            return self.rewind(0).unwrap_or(Stop::Start);
        }
        let goal = now.saturating_sub(n);
        // the last one from which the goal is still ahead
        let found = self.kept.iter().rposition(|k| count(&k.executed) < goal);
        if let Some(stop) = self.rewind(found.unwrap_or(0)) {
            return stop;
        }
        if count(&self.executed()) >= goal {
            return Stop::Start;
        }
        self.drive(u64::MAX, false, |session, _| count(&session.executed()) >= goal)
    }

    /// Back to the last place before this one at which a breakpoint hits.
    pub fn go_back(&mut self) -> Stop {
        let here = self.position;
        let mut limit = here;
        for index in (0..self.kept.len()).rev() {
            if self.kept[index].position >= limit {
                continue;
            }
            if let Some(stop) = self.rewind(index) {
                return stop;
            }
            let from = self.position;
            let mut found: Option<(u64, Hit)> = None;
            while self.position < limit {
                let Some(entry) = self.machine.next() else { break };
                if let Some(hit) = self.before(&entry) {
                    found = Some((self.position, hit));
                }
                match self.one(u64::MAX) {
                    Some(Ok(())) => {}
                    _ => break,
                }
                let hit = self.after();
                if self.position < here
                    && let Some(hit) = hit
                {
                    found = Some((self.position, hit));
                }
            }
            if let Some((position, hit)) = found {
                return match self.go_to_position(position) {
                    Stop::There => {
                        self.machine.idle(hit.at);
                        Stop::Hit(hit)
                    }
                    stop => stop,
                };
            }
            limit = from;
        }
        self.rewind(0).unwrap_or(Stop::Start)
    }

    /// On, or back, to a position.
    pub fn go_to_position(&mut self, position: u64) -> Stop {
        if position < self.position || self.ended.is_some() {
            let found = self.kept.iter().rposition(|k| k.position <= position).unwrap_or(0);
            if let Some(stop) = self.rewind(found) {
                return stop;
            }
        }
        if position <= self.position {
            return Stop::There;
        }
        self.drive(u64::MAX, false, |session, _| session.position >= position)
    }

    /// Restores a kept snapshot and forgets the later ones. Says what went wrong, if it did.
    fn rewind(&mut self, index: usize) -> Option<Stop> {
        let kept = &self.kept[index];
        let (position, mark) = (kept.position, kept.mark);
        if let Err(e) = self.machine.restore(&kept.snapshot) {
            return Some(self.fail(e));
        }
        self.position = position;
        self.seen = self.trail.with(|t| {
            t.back_to(mark);
            t.total()
        });
        self.ended = None;
        self.begun.clear();
        None
    }

    /// Back to the start.
    pub fn restart(&mut self) -> Stop {
        self.rewind(0).unwrap_or(Stop::Start)
    }

    /// The stream that an entry of the agenda is about, if it is an engine at a new head.
    pub fn arriving(machine: &Machine, entry: &Entry) -> Option<(usize, usize)> {
        if entry.action != Action::Head || entry.stream >= ENGINE_STREAMS {
            return None;
        }
        let stream = machine.stream(entry.stream)?;
        let new = stream.head_since.is_none() && stream.pc < machine.words(entry.stream);
        new.then_some((entry.stream, stream.pc))
    }

    /// Ticks per cycle of engine stream `s`, or of the fastest clock.
    pub fn period(&self, s: Option<usize>) -> u64 {
        let time = self.machine.timebase();
        match s.and_then(|s| Engine::ALL.get(s)) {
            Some(&engine) => time.period(engine),
            None => Engine::ALL.iter().map(|&e| time.period(e)).min().unwrap_or(1),
        }
    }
}

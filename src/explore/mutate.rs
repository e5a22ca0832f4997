//! Broken variants of a correct program, and how many of them one plain run reports.
//!
//! A mutation drops or weakens one wait, one update or one mode. Whether it matters is decided
//! without the race detector: the unmutated program gives the pairs of conflicting works and their
//! order; a mutation matters if some schedule lets the later of a pair start before the earlier is
//! done, or does not come to its end.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::schedule::{Delays, PointName, Schedule, Site, Strategy};
use super::trial::{Kind, Subject};
use crate::error::{Error, Result};
use crate::isa::{Generation, Inst, op_v1};
use crate::machine::{self, Machine, Options, Races};
use crate::program::Program;
use crate::trace::tee::Shared;
use crate::trace::{Record, Recorder};

/// A program with one thing changed.
pub struct Mutant {
    /// What was changed, and where.
    pub what: String,
    /// The program.
    pub program: Arc<Program>,
}

/// All single mutations of `program`, in order of stream and word, then of DMA block.
pub fn mutants(program: &Program) -> Vec<Mutant> {
    let mut all = Vec::new();
    for (s, stream) in program.streams.iter().enumerate() {
        for (pc, bytes) in stream.words.iter().enumerate() {
            let inst = if program.v1_events8 && program.generation == Generation::V1 {
                Inst::new_wide_v1(*bytes)
            } else {
                Inst::new(program.generation, *bytes)
            };
            for (what, changed) in variants(&inst) {
                let mut p = program.clone();
                p.streams[s].words[pc] = changed.bytes;
                let source = program
                    .source_of(stream.line(pc))
                    .map(|l| format!(" ({l})"))
                    .unwrap_or_default();
                let what = format!("{} pc {pc}{source}: {what}", stream.engine);
                all.push(Mutant { what, program: Arc::new(p) });
            }
        }
    }
    for (b, block) in program.blocks.iter().enumerate() {
        for u in 0..block.on_done.len() {
            let mut p = program.clone();
            p.blocks[b].on_done.remove(u);
            let name = block.name.clone().unwrap_or_else(|| block.id.to_string());
            let what = format!("block {name} of {}: no update", program.queues[block.queue].name);
            all.push(Mutant { what, program: Arc::new(p) });
        }
    }
    all
}

/// The word with one part of its synchronisation dropped or weakened.
fn variants(inst: &Inst) -> Vec<(&'static str, Inst)> {
    let e = inst.events();
    let v1 = inst.events_kind() == crate::isa::EventsKind::V1;
    let mut out = Vec::new();
    let mut add = |what: &'static str, events: crate::isa::RawEvents| {
        let mut changed = *inst;
        if changed.set_events(events).is_ok() && changed.bytes != inst.bytes {
            out.push((what, changed));
        }
    };
    if e.wait_mode != 0 {
        add("no wait", crate::isa::RawEvents { wait_mode: 0, wait_idx: 0, ..e });
        // an update with a number of its own shares the value
        let alone = e.update_mode & !0x90 < 5;
        match e.wait_mode {
            _ if v1 => {}
            1 | 4 | 5 if e.value > 0 && alone => {
                add("waits for one less", crate::isa::RawEvents { value: e.value - 1, ..e });
            }
            7 => add("event not consumed", crate::isa::RawEvents { wait_mode: 6, ..e }),
            _ => {}
        }
        if v1 && e.wait_mode == 2 {
            add("event not consumed", crate::isa::RawEvents { wait_mode: 1, ..e });
        }
    }
    if e.update_mode != 0 {
        add("no update", crate::isa::RawEvents { update_mode: 0, update_idx: 0, ..e });
        if v1 && e.update_mode > 1 {
            add("update when read", crate::isa::RawEvents { update_mode: 1, ..e });
        }
        if !v1 && e.update_mode & 0x10 != 0 {
            let update_mode = e.update_mode & !0x10;
            add("update when read", crate::isa::RawEvents { update_mode, ..e });
        }
        if !v1 && e.update_mode & !0x10 == 3 && e.wait_mode == 0 {
            let update_mode = e.update_mode & 0x10 | 5;
            add("counts two", crate::isa::RawEvents { update_mode, value: 2, ..e });
        }
    }
    if inst.generation == Generation::V1 && inst.opcode() == op_v1::EVENT_WAIT {
        let mut nop = if inst.events_kind() == crate::isa::EventsKind::V2 {
            Inst::empty_wide_v1(op_v1::NOP)
        } else {
            Inst::empty(Generation::V1, op_v1::NOP)
        };
        if nop.set_events(e).is_ok() {
            out.push(("no wait", nop));
        }
    }
    out
}

/// Times of a work: start, reads done, results there.
type Times = FxHashMap<(usize, u64), (u64, u64, u64)>;

#[derive(Default)]
struct Clockwork(Times);

impl Recorder for Clockwork {
    fn record(&mut self, record: &Record) {
        match record {
            Record::Inst(r) => {
                self.0.insert((usize::from(r.stream), r.index), (r.start, r.reads_done, r.end));
            }
            Record::Transfer(r) => {
                self.0.insert((usize::from(r.stream), r.index), (r.start, r.end, r.end));
            }
            _ => {}
        }
    }
}

/// A work, as the record of its times names it.
type Name = (usize, u64);

/// Conflicting works of different streams in order; whether the earlier one only reads.
type Pairs = Vec<(Name, Name, bool)>;

/// The bench for one program.
pub struct Bench {
    subject: Subject,
    pairs: Pairs,
    schedules: Vec<Delays>,
}

/// What the bench says of one mutant.
pub struct Verdict {
    /// What one plain run reports.
    pub reported: Option<Kind>,
    /// Whether some schedule breaks the order of a conflicting pair, or does not end.
    pub matters: bool,
}

impl Bench {
    /// Runs the correct program of `subject` and keeps the order of its conflicting works.
    ///
    /// # Errors
    /// It does not run to its end without a finding.
    pub fn new(subject: &Subject) -> Result<Bench> {
        let probe = subject.run(Schedule::probe)?;
        if let Some(e) = probe.error {
            return Err(e);
        }
        let plain = probe.plain;
        let mut schedules = vec![Delays::new()];
        let mut streams: Vec<usize> = plain.sites.iter().map(|s| s.stream).collect();
        streams.dedup();
        for s in streams {
            for point in [PointName::Fetch, PointName::Completion, PointName::DmaStart] {
                let of = |x: &&Site| x.stream == s && x.point == point;
                let slow: Delays =
                    plain.sites.iter().filter(of).map(|x| (*x, plain.ticks / 8 + 1)).collect();
                if !slow.is_empty() {
                    schedules.push(slow);
                }
                // the stream stops once, at three places
                for part in 0..3 {
                    let own: Vec<&Site> = plain.sites.iter().filter(of).collect();
                    if let Some(site) = own.get(own.len() * part / 3) {
                        schedules.push([(**site, plain.long())].into());
                    }
                }
            }
        }
        for seed in 0..12 {
            let strategy = [Strategy::Adversarial, Strategy::Jitter][seed as usize % 2];
            let schedule = Schedule::of_seed(strategy, seed, &plain);
            let given = schedule.given();
            subject.run_once(schedule)?;
            let delays = std::mem::take(&mut given.lock().delays);
            schedules.push(delays);
        }
        let (machine, _) = timed(subject, Delays::new())?;
        let pairs = machine.log().map(conflicts).unwrap_or_default();
        let bench = Bench { subject: subject.clone(), pairs, schedules };
        // an order that breaks without any mutation would make every mutant matter
        if bench.schedules.iter().any(|d| bench.breaks(subject, d)) {
            return Err(Error::new(
                crate::ErrorClass::CheckFailed,
                "a schedule breaks the order of conflicting works of the unmutated program",
            ));
        }
        Ok(bench)
    }

    /// Number of conflicting pairs.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Tries one mutant. `None` if the program does not load any more.
    ///
    /// # Errors
    /// The run was interrupted.
    pub fn judge(&self, mutant: &Mutant) -> Result<Option<Verdict>> {
        let subject = Subject { program: Arc::clone(&mutant.program), ..self.subject.clone() };
        let Ok(plain) = subject.run(|| Schedule::listed(Delays::new())) else { return Ok(None) };
        let reported = plain.error.as_ref().map(Kind::of);
        let matters = self.schedules.iter().any(|d| self.breaks(&subject, d));
        Ok(Some(Verdict { reported, matters }))
    }

    fn breaks(&self, subject: &Subject, delays: &Delays) -> bool {
        let Ok((_, times)) = timed(subject, delays.clone()) else { return true };
        self.pairs.iter().any(|(a, b, only_reads)| match (times.get(a), times.get(b)) {
            (Some(a), Some(b)) => b.0 < if *only_reads { a.1 } else { a.2 },
            _ => true,
        })
    }
}

impl Subject {
    fn run_once(&self, schedule: Schedule) -> Result<()> {
        let slot = std::cell::RefCell::new(Some(schedule));
        self.run(|| slot.borrow_mut().take().unwrap_or_else(Schedule::probe)).map(|_| ())
    }
}

/// Runs without judging races. An error if the run does not come to its end.
fn timed(subject: &Subject, delays: Delays) -> Result<(Machine, Times)> {
    let options = Options {
        max_cycles: Some(subject.max_cycles),
        timing_only: subject.timing_only,
        check_unwritten: false,
        races: Races::Collect,
        // the pairs are those of the whole run
        window: 0,
        interrupt: Some(Arc::clone(&subject.interrupt)),
        perturb: Some(Box::new(Schedule::listed(delays))),
        ..Options::default()
    };
    let (program, config) = (Arc::clone(&subject.program), Arc::clone(&subject.config));
    let mut machine = machine::Machine::new(program, config, options)?;
    let times = Shared::new(Clockwork::default());
    machine.set_recorder(Box::new(times.clone()));
    let finished = machine.run();
    machine.drop_recorder();
    match finished.error {
        Some(e) => Err(e),
        None => Ok((machine, times.with(std::mem::take).0)),
    }
}

fn conflicts(log: &crate::check::Log) -> Pairs {
    let name = |w: &crate::check::log::Started| -> Name {
        let queue = w.stream >= machine::run::ENGINE_STREAMS;
        let index = if queue {
            u64::from(w.work) - 1
        } else {
            u64::from(log.places[w.stream][w.work as usize - 1])
        };
        (w.stream, index)
    };
    let mut pairs = Pairs::new();
    for (i, b) in log.works.iter().enumerate().filter(|(_, b)| b.footprint.judged) {
        let earlier = log.works[..i].iter().filter(|a| a.footprint.judged);
        for a in earlier.filter(|a| a.stream != b.stream) {
            let (mut clash, mut only_reads) = (false, true);
            for x in a.footprint.touched() {
                for y in b.footprint.touched() {
                    if (x.kind.writes() || y.kind.writes()) && x.region.overlaps(&y.region) {
                        clash = true;
                        only_reads &= !x.kind.writes();
                    }
                }
            }
            if clash {
                pairs.push((name(a), name(b), only_reads));
            }
        }
    }
    pairs
}

/// Score of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Mutants that load.
    pub mutants: usize,
    /// Those that matter.
    pub matter: usize,
    /// Those of them that a plain run reports.
    pub caught: usize,
    /// Reported ones for which no tried schedule broke anything.
    pub unconfirmed: usize,
}

/// Tries all mutants of `subject`; `tell` gets those that matter and are not reported, and those
/// that are reported and seem not to matter.
///
/// # Errors
/// As [`Bench::new`] and [`Bench::judge`].
pub fn score(subject: &Subject, mut tell: impl FnMut(&Mutant, &Verdict)) -> Result<Score> {
    let bench = Bench::new(subject)?;
    let mut score = Score::default();
    for mutant in mutants(&subject.program) {
        if subject.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::new(crate::ErrorClass::LimitReached, "interrupted"));
        }
        let Some(verdict) = bench.judge(&mutant)? else { continue };
        score.mutants += 1;
        score.matter += usize::from(verdict.matters);
        score.caught += usize::from(verdict.matters && verdict.reported.is_some());
        score.unconfirmed += usize::from(!verdict.matters && verdict.reported.is_some());
        if verdict.matters != verdict.reported.is_some() {
            tell(&mutant, &verdict);
        }
    }
    Ok(score)
}

//! The data path: from an issued instruction to a work that starts, runs and ends.

use std::sync::Arc;

use super::agenda::Action;
use super::executor::{DMA_UNIT, Dependencies};
use super::options::{Involved, Point, Races};
use super::run::{Known, Machine};
use super::stream::{Blocked, InFlight, Inputs, Pending, Recipe};
use super::time::Timebase;
use crate::check::Clock;
use crate::check::board::{Conflict, Stamp};
use crate::check::log::{Got, Started};
use crate::engine::cost::{CostRow, cost};
use crate::engine::{Env, Prepared, Work};
use crate::error::{Error, Location, Result};
use crate::isa::Engine;
use crate::memory::{Access, AccessKind};
use crate::sync::{SyncId, When};
use crate::trace::{InstRecord, Record, StallCause};

enum Ready {
    Work(Arc<Work>, Option<Box<Inputs>>),
    Dma(crate::engine::DmaRequest, Option<Box<Inputs>>),
}

impl Machine {
    pub(super) fn issue(
        &mut self,
        s: usize,
        pc: usize,
        prepare: crate::engine::PrepareFn,
    ) -> Result<()> {
        let (work, inputs) = match self.prepare(s, pc, prepare) {
            Ok(Ready::Work(work, inputs)) => (work, inputs),
            Ok(Ready::Dma(request, inputs)) => return self.issue_dma(s, pc, request, inputs),
            Err(e) => return self.placed(Err(e), s, pc),
        };
        self.issue_work(s, pc, work, 1, Recipe::Word(inputs))
    }

    /// Hands `work`, made of `words` words from `pc` on, to the data path.
    pub(super) fn issue_work(
        &mut self,
        s: usize,
        pc: usize,
        work: Arc<Work>,
        words: usize,
        recipe: Recipe,
    ) -> Result<()> {
        let now = self.now;
        let extra = {
            let index = self.streams[s].executed;
            self.perturbation(s, index, Point::Issue)
        };
        let period = self.time.period(self.streams[s].engine);
        let clock = self.checks_races().then(|| self.streams[s].clock.clone());
        let stream = &mut self.streams[s];
        stream.in_flight.retain(|f| f.end > now);
        let free = stream.path_free(&work.cost).max(now + extra);
        let start = stream.hazard_free(&work, free).next_multiple_of(period);
        if start > free.next_multiple_of(period) {
            stream.stall = Some(StallCause::Dependency);
        } else if start > now {
            stream.stall.get_or_insert(StallCause::Queue);
        }
        self.changes += 1;
        let stream = &mut self.streams[s];
        stream.works += 1;
        if let Some(log) = &mut self.log {
            log.numbered(s, stream.executed as u32);
        }
        let pending = Pending {
            work,
            recipe,
            start,
            pc,
            index: stream.executed,
            number: stream.works,
            head: stream.head_since.unwrap_or(now),
            granted: stream.granted,
            issue: now,
            waited: stream.waited,
            stall: stream.stall,
            clock,
        };
        stream.pending.push_back(pending);
        if start == now {
            self.start(s)?;
        } else {
            self.agenda.at(start, s, Action::Start);
        }
        let next = now + self.config.sequencer.issue_cycles.max(1) * period;
        self.leave_head(s, pc + words, next);
        Ok(())
    }

    /// A DMA instruction: its transfers go to the descriptor-generation queue of its engine, and
    /// the instruction retires once they are queued.
    pub(super) fn issue_dma(
        &mut self,
        s: usize,
        pc: usize,
        request: crate::engine::DmaRequest,
        inputs: Option<Box<Inputs>>,
    ) -> Result<()> {
        let period = self.time.period(self.streams[s].engine);
        let descriptors = request.transfers.iter().map(|t| t.descriptors).sum();
        let issue = self.config.dma.issue_ps(self.streams[s].engine, descriptors);
        let issue = self.time.from_ps(issue).next_multiple_of(period);
        let end = self.now + issue.max(period);
        let queue = self.dge_queue(s);
        // descriptors in software are made ahead: the next word does not wait for the trigger
        let latency = self.config.dma.issue_latency_ps(self.streams[s].engine);
        let triggered = end + self.time.from_ps(latency).next_multiple_of(period);
        self.ring(queue, super::queue::Job::Request(Arc::new(request)), s, pc, triggered)?;
        if let Some(queued) = self.queues[queue].jobs.back_mut() {
            queued.inputs = inputs;
        }
        let index = self.streams[s].executed;
        self.post_control(s, pc, index, [end, end])?;
        self.record_control(s, pc, end);
        self.leave_head(s, pc + 1, end);
        Ok(())
    }

    /// Logs what engine stream `s` learns at its head.
    pub(super) fn learn(&mut self, s: usize, pc: usize, got: Got) {
        let place = self.streams[s].executed as u32;
        if let Some(log) = &mut self.log {
            log.acquire(s, place, pc as u32, got);
        }
    }

    /// Logs that the work now numbered belongs to the head of engine stream `s`.
    pub(super) fn number_work(&mut self, s: usize) {
        let place = self.streams[s].executed as u32;
        if let Some(log) = &mut self.log {
            log.numbered(s, place);
        }
    }

    /// Takes over what the last change of event `id` tells.
    pub(super) fn acquire_event(&mut self, s: usize, id: SyncId) {
        if let SyncId::Event(event) = id {
            let pc = self.streams[s].pc;
            self.learn(s, pc, Got::Event { event, set: true, consumed: false });
        }
        if let Some(clock) = self.clocks.acquire(id, None) {
            self.streams[s].clock.join(clock);
        }
    }

    fn prepare(&mut self, s: usize, pc: usize, prepare: crate::engine::PrepareFn) -> Result<Ready> {
        let payload = self.image.words[s][pc].payload as usize;
        if let Some(Known::Work(work)) = self.prepared[s].get(payload) {
            return Ok(Ready::Work(Arc::clone(work), None));
        }
        let stream = &self.streams[s];
        let env = Env {
            inst: &self.image.words[s][pc].inst,
            engine: stream.engine,
            config: &self.config,
            registers: &stream.registers,
            shapes: &stream.shapes,
            used_registers: std::cell::Cell::new(false),
        };
        let prepared = prepare(&env)?;
        let used = env.used_registers.get();
        let inputs = (used && self.options.snapshots)
            .then(|| Box::new(Inputs { registers: stream.registers, shapes: stream.shapes }));
        match prepared {
            Prepared::Work(work) => {
                let work = Arc::new(work);
                if let (false, Some(known)) = (used, self.prepared[s].get_mut(payload)) {
                    *known = match known {
                        Known::Fresh => Known::Repeated,
                        _ => Known::Work(Arc::clone(&work)),
                    };
                }
                Ok(Ready::Work(work, inputs))
            }
            Prepared::Dma(request) => Ok(Ready::Dma(request, inputs)),
        }
    }

    pub(super) fn start(&mut self, s: usize) -> Result<()> {
        let Some(mut p) = self.streams[s].pending.pop_front() else {
            return Err(Error::internal("a work starts that was not issued"));
        };
        let now = self.now;
        if let Some(free) = self.ports.free_at(s, &p.work, now, &self.config) {
            let at = self.edge(s, free);
            p.start = at;
            p.stall = Some(StallCause::Port);
            self.streams[s].pending.push_front(p);
            self.agenda.at(at, s, Action::Start);
            return Ok(());
        }
        let engine = self.streams[s].engine;
        let outcome = self.begin_work(s, s, &p.work, p.number, p.pc, p.clock.as_ref())?;
        let period = self.time.period(engine);
        let mut c = cost(&p.work.cost, engine, &self.config);
        if let Some(cycles) = outcome.cycles {
            c.work = cycles;
            if outcome.cores.is_some() {
                c.work += self.config.engine(engine).start_cycles;
            }
        }
        for (register, value) in &outcome.registers {
            if let Some(r) = self.streams[s].registers.get_mut(usize::from(*register)) {
                *r = *value;
            }
        }
        if let (Some(list), Some(touched)) = (&mut self.library_touches, &outcome.touched) {
            list.push((p.index, Arc::clone(touched)));
        }
        if let (Some(cycles), true) = (outcome.cores, self.options.recorder.is_some()) {
            let record = Record::Cores { tick: now, pc: p.pc as u32, index: p.index, cycles };
            self.record(&record);
        }
        if let (Some((cores, bytes)), true) = (outcome.loaded, self.options.recorder.is_some()) {
            let end = now + c.work * period;
            let (pc, index) = (p.pc as u32, p.index);
            self.record(&Record::Library { tick: now, end, pc, index, cores, bytes });
        }
        if let Some(text) = outcome.notice {
            self.note(s, p.pc, text);
        }
        let row = p.work.cost.row;
        if matches!(row, CostRow::Matmul | CostRow::LoadWeights) {
            let factor = match row {
                CostRow::Matmul => self.power.factor(now, c.work * period),
                _ => self.power.present(),
            };
            c.work *= factor;
            c.fixed += self.power.drain(factor);
        }
        let stream = &mut self.streams[s];
        if std::mem::replace(&mut stream.after_table_load, row == CostRow::TableLoad) {
            c.fixed += self.config.cost.after_table_load_cycles;
        }
        // the array waits for weights that are not there yet
        let cells = p.work.cost.cells;
        let from = match row {
            CostRow::Matmul => now.max(stream.array.weights_ready(cells)),
            _ => now,
        };
        let busy_until = from + c.work * period;
        self.ports.occupy(s, &p.work, busy_until, &self.config);
        let latency = self.config.engine(engine).read_latency_cycles * period;
        let forward = self.config.engine(engine).forward_cycles * period;
        let stream = &mut self.streams[s];
        let reads_done = (busy_until + latency).max(stream.last_reads);
        // results appear in program order
        let end = (busy_until + c.fixed * period).max(stream.last_end).max(reads_done);
        let (span, gap, rates) = ((now, busy_until), c.gap * period, &self.config.cost);
        match (engine, row) {
            (Engine::Pe, CostRow::LoadWeights) => {
                stream.array.load(cells, span, gap, period, rates)
            }
            (Engine::Pe, _) => stream.array.occupy(cells, span, gap, period, rates),
            _ => stream.free_at = busy_until + gap,
        }
        stream.last_end = end;
        stream.last_reads = reads_done;
        let forwarded = (busy_until + forward).min(end);
        stream.in_flight.push(InFlight { end, forwarded, work: Arc::clone(&p.work) });
        let waiting = stream.blocked == Blocked::Queue;
        if waiting {
            stream.blocked = Blocked::No;
        }
        self.end = self.end.max(end);
        let (at, clock) = (p.index, p.clock.as_ref());
        self.post_updates(s, p.pc, at, When::Read, reads_done, clock, p.number)?;
        self.post_updates(s, p.pc, at, When::Complete, end, clock, p.number)?;
        if self.options.recorder.is_some() {
            let by_memory = match &outcome.touched {
                Some(touched) => bytes_by_memory(touched),
                None => bytes_of(&p.work),
            };
            let bytes = [0, 1].map(|w| by_memory.iter().map(|m: &[u64; 2]| m[w]).sum());
            let record = InstRecord {
                stream: s as u16,
                pc: p.pc as u32,
                index: p.index,
                opcode: self.image.words[s][p.pc].inst.opcode(),
                data_path: true,
                head: p.head,
                granted: p.granted,
                issue: p.issue,
                start: now,
                busy_until,
                reads_done,
                end,
                waited: p.waited,
                stall: p.stall,
                bytes,
                by_memory,
                flops: p.work.flops,
            };
            self.record(&Record::Inst(record));
        }
        if waiting {
            self.agenda.at(self.edge(s, now), s, Action::Head);
        }
        Ok(())
    }

    /// A work of `stream` starts now: checks its accesses and lets the host run it.
    pub(super) fn begin_work(
        &mut self,
        stream: usize,
        place: usize,
        work: &Arc<Work>,
        number: u32,
        pc: usize,
        clock: Option<&Clock>,
    ) -> Result<crate::engine::Outcome> {
        let unit = stream.min(DMA_UNIT);
        if work.judged {
            self.log_start(stream, number, pc, work);
        }
        if let Some(touched) = &mut self.touched {
            touched.mark(&work.accesses);
        }
        if let Some(begun) = &mut self.begun {
            begun.push(super::inspect::Begun { stream, place, pc, work: Arc::clone(work) });
        }
        if let Some(usage) = &mut self.usage
            && work.judged
        {
            usage.touch(self.now, &work.accesses);
        }
        let after = self.enter(stream, work, number, pc, clock)?;
        if let Some(validity) = self.validity.as_mut().filter(|_| work.judged) {
            if let Some((access, partition, byte)) = validity.step(&work.accesses) {
                let what = if access.kind == AccessKind::Accumulate {
                    "accumulates onto"
                } else {
                    "reads"
                };
                let place_name = match access.region.space {
                    crate::memory::Space::Hbm => format!("hbm byte {byte:#x}"),
                    space => format!("{space} partition {partition} byte {byte:#x}"),
                };
                let error = Error::undefined(
                    "unwritten_memory",
                    format!("{what} {}, of which {place_name} was never written", access.region),
                )
                .help("initialise the tensor, or write it before this instruction");
                return self.placed(Err(error), place, pc);
            }
            if let Some(region) = &work.opens {
                validity.mark(region);
            }
        }
        if self.options.timing_only && !work.needs_outcome {
            return Ok(crate::engine::Outcome::default());
        }
        let outcome = self.executor.submit(unit, work, after);
        let outcome = self.placed(outcome, place, pc)?;
        if !work.judged {
            self.observed(stream, work, number, pc, clock, outcome.touched.as_ref());
        }
        Ok(outcome)
    }

    fn log_start(&mut self, stream: usize, work: u32, pc: usize, footprint: &Arc<Work>) {
        if let Some(log) = &mut self.log {
            let (pc, tick, footprint) = (pc as u32, self.now, Arc::clone(footprint));
            log.started(Started { stream, work, pc, tick, order: 0, footprint });
        }
    }

    /// Library code ran: now it is known what it touched, and that can be judged.
    fn observed(
        &mut self,
        stream: usize,
        work: &Arc<Work>,
        number: u32,
        pc: usize,
        clock: Option<&Clock>,
        touched: Option<&Arc<[Access]>>,
    ) {
        let known = touched.map(|t| Arc::new(work.with_observed(Arc::clone(t))));
        self.log_start(stream, number, pc, known.as_ref().unwrap_or(work));
        if let Some(validity) = &mut self.validity {
            let written = touched.map_or(&*work.accesses, |t| t);
            written.iter().filter(|a| a.kind.writes()).for_each(|a| validity.mark(&a.region));
        }
        let Some(touched) = touched else { return };
        if let Some(usage) = &mut self.usage {
            usage.touch(self.now, touched);
        }
        if self.checks_races() {
            let stamp = Stamp {
                stream,
                work: number,
                // the host is ordered by the footprint that was declared, and has run it by now
                ticket: 0,
                pc: pc as u32,
                tick: self.now,
                judged: true,
            };
            let mut found: Vec<Conflict> = Vec::new();
            self.board.enter(stamp, touched, clock, |_| {}, |c| found.push(c));
            for conflict in found {
                self.race(conflict);
            }
        }
    }

    pub(super) fn enter(
        &mut self,
        stream: usize,
        work: &Arc<Work>,
        number: u32,
        pc: usize,
        clock: Option<&Clock>,
    ) -> Result<Dependencies> {
        let mut after = Dependencies::new();
        if self.options.threads == 0 && !self.checks_races() {
            return Ok(after);
        }
        let unit = stream.min(DMA_UNIT);
        let stamp = Stamp {
            stream,
            work: number,
            ticket: self.executor.next_ticket(unit),
            pc: pc as u32,
            tick: self.now,
            judged: work.judged,
        };
        let mut found: Vec<Conflict> = Vec::new();
        let depends = |old: &Stamp| {
            let unit = old.stream.min(DMA_UNIT) as u8;
            match after.iter_mut().find(|(u, _)| *u == unit) {
                Some((_, t)) => *t = (*t).max(old.ticket),
                None => after.push((unit, old.ticket)),
            }
        };
        self.board.enter(stamp, &work.accesses, clock, depends, |c| found.push(c));
        for conflict in found {
            self.race(conflict);
        }
        Ok(after)
    }

    pub(super) fn race(&mut self, conflict: Conflict) {
        self.race_of(conflict, crate::check::race::report);
    }

    /// Tells of `conflict` in the words of `report`, once for each pair of words.
    pub(super) fn race_of(
        &mut self,
        conflict: Conflict,
        report: impl FnOnce(&Conflict, &Location, &Location, &Timebase) -> Error,
    ) {
        let (a, b) = (conflict.earlier.0, conflict.later.0);
        if !self.race_pairs.insert((a.stream, a.pc, b.stream, b.pc)) {
            return;
        }
        if crate::check::race::allowed(&self.program, &conflict, &self.config) {
            return;
        }
        if self.involved.is_empty() {
            let of = |s: crate::check::Stamp| Involved {
                stream: s.stream,
                pc: s.pc,
                tick: Some(s.tick),
                waiting_since: None,
            };
            self.involved = vec![of(a), of(b)];
        }
        let earlier = self.location(a.stream, a.pc as usize);
        let later = self.location(b.stream, b.pc as usize);
        let report = report(&conflict, &earlier, &later, &self.time);
        match self.options.races {
            Races::Stop => {
                self.race_fault.get_or_insert(report);
            }
            Races::Collect => self.races.push(report),
            Races::Ignore => {}
        }
    }
}

/// Bytes that `work` reads and writes, by memory; none if that is not known.
pub(super) fn bytes_of(work: &Work) -> [[u64; 2]; 3] {
    if work.judged { bytes_by_memory(&work.accesses) } else { Default::default() }
}

fn bytes_by_memory(accesses: &[Access]) -> [[u64; 2]; 3] {
    let mut bytes = [[0; 2]; 3];
    for a in accesses {
        bytes[a.region.space as usize][usize::from(a.kind.writes())] += a.region.len();
    }
    bytes
}

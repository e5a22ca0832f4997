//! From one run of the machine to the skeleton.
//!
//! The run is the undisturbed one, with its data. It says what each stream executed; that every
//! other schedule executes the same follows from what the instructions are: none of them lets
//! memory, or an event or semaphore at which it looks without waiting, decide about a branch, an
//! address or an operand.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Action, Change, Cond, ENGINES, Id, Instant, Job, RESULTS, SEQUENCER, Skeleton, Span};
use super::{READS, SkeletonWork, Step, Update, Wait, conflicts};
use crate::check::log::{self, Effect, Got, Lane};
use crate::engine::cost::{CostRow, cost};
use crate::error::{Error, ErrorClass, Location, Result};
use crate::explore::{Delays, Schedule, Subject};
use crate::isa::{Engine, Generation, e, f, op};
use crate::machine::dma::DmaEngines;
use crate::machine::image::{Image, Kind, Word};
use crate::machine::ports::Ports;
use crate::machine::queue;
use crate::machine::sp::SpWord;
use crate::machine::{self, Machine, Options, Races};
use crate::sync::{Compare, Operand, SyncId, UpdateKind, When};
use crate::trace::tee::Shared;
use crate::trace::{InstRecord, Record, Recorder};

/// Of each instruction that rings, by stream and number: the job, and ticks until the queue has it.
type Rings = HashMap<(usize, u32), (u32, u64)>;

/// Works beyond which no skeleton is made: pairs of works are compared one by one.
const MOST_WORKS: usize = 20_000;

/// Older works of a data path that may still be in flight.
const WINDOW: usize = 256;

/// Why a program has no skeleton.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Where.
    pub at: Location,
    /// What the instruction does that lets the schedule or data decide.
    pub what: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&place(&self.at))?;
        f.write_str(&self.what)
    }
}

/// `ACT pc 3 (file:12): ` for reports; empty without a stream.
pub fn place(at: &Location) -> String {
    let Some(stream) = &at.stream else { return String::new() };
    let pc = at.pc.filter(|_| !stream.starts_with("queue")).map(|pc| format!(" pc {pc}"));
    let block = at.disassembly.as_ref().filter(|_| pc.is_none()).map(|b| format!(" {b}"));
    let source = at.source.as_ref().map(|s| format!(" ({s})"));
    format!("{stream}{}{}: ", pc.or(block).unwrap_or_default(), source.unwrap_or_default())
}

/// What comes out of the plain run.
pub enum Extracted {
    /// The skeleton, and the machine at its end (names, places).
    Skeleton(Box<Skeleton>, Box<Machine>),
    /// The schedule or the data decide about what is executed.
    Refused(Refusal),
    /// The plain run does not come to its end.
    Failed(Error),
}

#[derive(Default)]
struct Insts(Vec<InstRecord>);

impl Recorder for Insts {
    fn record(&mut self, record: &Record) {
        if let Record::Inst(r) = record {
            self.0.push(r.clone());
        }
    }
}

/// Runs `subject` once, undisturbed, and takes its skeleton.
///
/// # Errors
/// The program does not load.
pub fn extract(subject: &Subject) -> Result<Extracted> {
    let insts = Shared::new(Insts::default());
    let options = || Options {
        threads: 0,
        max_cycles: Some(subject.max_cycles),
        races: Races::Collect,
        // all of the run is wanted
        window: 0,
        interrupt: Some(Arc::clone(&subject.interrupt)),
        perturb: Some(Box::new(Schedule::listed(Delays::new()))),
        ..Options::default()
    };
    let record = |_: &_, _: &Machine| -> Vec<Box<dyn Recorder>> {
        insts.with(|i| i.0.clear());
        vec![Box::new(insts.clone())]
    };
    let (program, config) = (Arc::clone(&subject.program), Arc::clone(&subject.config));
    let result = machine::run(program, config, options, record, false)?;
    if let Some(error) = result.finished.error {
        return Ok(Extracted::Failed(error));
    }
    let machine = Box::new(result.machine);
    let records = insts.with(|i| std::mem::take(&mut i.0));
    let Some(log) = machine.log().filter(|l| !l.is_full() && l.works.len() <= MOST_WORKS) else {
        return Ok(Extracted::Refused(Refusal {
            at: Location::default(),
            what: format!("the run is too long: more than {MOST_WORKS} works"),
        }));
    };
    let maker = Maker::new(&machine, log, result.finished.end);
    match maker.make(&records) {
        Ok(skeleton) => Ok(Extracted::Skeleton(Box::new(skeleton), machine)),
        Err(Stop::Refused(stream, pc, what)) => {
            let at = machine.location(stream, pc as usize);
            Ok(Extracted::Refused(Refusal { at: Location { cycle: None, ..at }, what }))
        }
        Err(Stop::Polled) => Ok(Extracted::Refused(Refusal {
            at: Location::default(),
            what: "an instruction looks at an event or semaphore without waiting".into(),
        })),
        Err(Stop::Error(error)) => Err(error),
    }
}

enum Stop {
    Polled,
    Refused(usize, u32, String),
    Error(Error),
}

fn broken(what: &str) -> Stop {
    Stop::Error(Error::new(ErrorClass::Internal, format!("the log of the plain run {what}")))
}

/// What lets data or the schedule decide what follows, if `word` does.
pub fn depends(word: &Word) -> Option<&'static str> {
    let inst = &word.inst;
    if matches!(word.kind, Kind::Sim(_)) {
        return Some("moves files: a word of simulators");
    }
    if !matches!(word.kind, Kind::Control) || inst.generation == Generation::V1 {
        return None;
    }
    match inst.opcode() {
        op::TENSOR_LOAD => Some("loads registers from memory: data may decide what follows"),
        op::POLL_SEM => Some("polls memory: the schedule decides what it sees"),
        op::TEST_EVENT_SEM if !matches!(inst.get(f::ctrl_test_es::MODE), 2 | 3) => {
            Some("looks at events or semaphores without waiting: the schedule decides what it sees")
        }
        op::COMPACT_CONTROL_INST => {
            let loads = inst
                .slice(f::ctrl_cci::INSTS)
                .as_chunks::<4>()
                .0
                .iter()
                .any(|m| (e::ccop::LDR..=e::ccop::LDRQ).contains(&m[0]));
            loads.then_some("loads registers from memory: data may decide what follows")
        }
        _ => None,
    }
}

struct Maker<'a> {
    image: &'a Image,
    log: &'a log::Log,
    out: Skeleton,
    ids: HashMap<SyncId, Id>,
}

fn end<T>(list: &[T]) -> u32 {
    list.len() as u32
}

impl<'a> Maker<'a> {
    fn new(machine: &'a Machine, log: &'a log::Log, ticks: u64) -> Self {
        let image = machine.image();
        let out = Skeleton {
            config: Arc::clone(machine.shared_config()),
            time: *machine.timebase(),
            steps: Default::default(),
            sp_program: !image.sp.is_empty(),
            queues: image.queues.clone(),
            ids: Vec::new(),
            waits: Vec::new(),
            updates: Vec::new(),
            instants: Vec::new(),
            works: Vec::new(),
            links: Vec::new(),
            pairs: Vec::new(),
            jobs: Vec::new(),
            demands: Vec::new(),
            ticks,
            staggered: image.generation == Generation::V1,
            barriers: log.barriers.iter().map(|&(s, k)| (s as u16, k)).collect(),
            semaphore_max: machine.config().sync.semaphore_max,
            approximations: Vec::new(),
        };
        Maker { image, log, out, ids: HashMap::new() }
    }

    fn id(&mut self, id: SyncId) -> Id {
        *self.ids.entry(id).or_insert_with(|| {
            self.out.ids.push(id);
            (self.out.ids.len() - 1) as Id
        })
    }

    fn make(mut self, records: &[InstRecord]) -> std::result::Result<Skeleton, Stop> {
        // ids in order of their number: independent of the order of the run
        let waited = self.log.acquires.iter().filter_map(|a| match a.got {
            Got::Semaphore(i, ..) => Some(SyncId::Semaphore(i)),
            Got::Event { event, .. } => Some(SyncId::Event(event)),
            _ => None,
        });
        let mut all: Vec<SyncId> = waited.chain(self.log.changes.iter().map(|c| c.id)).collect();
        all.sort_unstable();
        all.dedup();
        for id in all {
            self.id(id);
        }
        let job_of = self.jobs()?;
        let orders = self.orders();
        for s in 0..ENGINES {
            self.stream(s, records, &job_of, &orders)?;
        }
        self.transfers(&orders)?;
        if self.log.polled {
            return Err(Stop::Polled);
        }
        conflicts::fill(&mut self.out);
        Ok(self.out)
    }

    /// Position of each work in the order of starts, by stream and number.
    fn orders(&self) -> HashMap<(usize, u32), u32> {
        let works = self.log.works.iter().enumerate();
        works.map(|(i, w)| ((w.stream, w.work), i as u32)).collect()
    }

    /// Jobs without their transfers, and the job that each ringing instruction rings for.
    fn jobs(&mut self) -> std::result::Result<Rings, Stop> {
        let mut job_of = HashMap::new();
        let config = Arc::clone(&self.out.config);
        for q in 0..self.image.queues.len() {
            for rung in self.log.rung.iter().filter(|r| r.queue == ENGINES + q) {
                let (load, by_instruction, pc) = match &rung.job {
                    queue::Job::Block(b) => {
                        let first = self.image.blocks[*b].transfers.first();
                        (first.is_some_and(|t| t.load), false, *b as u32)
                    }
                    queue::Job::Request(r) => {
                        (r.transfers.first().is_some_and(|t| t.load), true, 0)
                    }
                };
                let index = end(&self.out.jobs);
                let updates = self.job_updates(&rung.job, ENGINES + q, index, pc);
                let start = self.out.time.from_ps(config.dma.start_ps(load, by_instruction));
                job_of.insert((rung.stream, rung.place), (index, rung.delay));
                self.out.jobs.push(Job {
                    queue: q as u16,
                    trigger: (rung.stream as u16, rung.place),
                    transfers: 0..0,
                    demands: 0..0,
                    updates,
                    start,
                    pc,
                    by_instruction,
                });
            }
        }
        Ok(job_of)
    }

    fn job_updates(&mut self, job: &queue::Job, stream: usize, step: u32, pc: u32) -> Span {
        let first = end(&self.out.updates);
        let changes: Vec<(SyncId, Change)> = match job {
            queue::Job::Block(b) => {
                let updates = &self.image.blocks[*b].updates;
                updates
                    .iter()
                    .map(|u| (u.id, change(u.kind, |_| None).unwrap_or(Change::Add(0))))
                    .collect()
            }
            queue::Job::Request(r) => {
                r.semaphores.iter().map(|&(s, n)| (SyncId::Semaphore(s), Change::Add(n))).collect()
            }
        };
        for (id, change) in changes {
            let id = self.id(id);
            let stream = stream as u16;
            self.out.updates.push(Update {
                id,
                change,
                stream,
                step,
                lane: RESULTS,
                late: true,
                pc,
            });
        }
        first..end(&self.out.updates)
    }

    /// Works of the queues.
    fn transfers(&mut self, orders: &HashMap<(usize, u32), u32>) -> std::result::Result<(), Stop> {
        let dma = DmaEngines::new(&self.out.config.dma);
        let mut begun = vec![0u32; self.image.queues.len()];
        let mut started = vec![0u32; self.image.queues.len()];
        for j in 0..self.out.jobs.len() {
            let q = usize::from(self.out.jobs[j].queue);
            let nth = begun[q] as usize;
            begun[q] += 1;
            let rung = self.log.rung.iter().filter(|r| r.queue == ENGINES + q).nth(nth);
            let Some(rung) = rung else { return Err(broken("lacks a job")) };
            let transfers = match &rung.job {
                queue::Job::Block(b) => &self.image.blocks[*b].transfers,
                queue::Job::Request(r) => &r.transfers,
            };
            let by_instruction = self.out.jobs[j].by_instruction;
            if by_instruction {
                let words = &self.out.steps[rung.stream];
                self.out.jobs[j].pc = words.get(rung.place as usize).map_or(0, |s| s.pc);
            }
            let (first, first_demand) = (end(&self.out.works), end(&self.out.demands));
            for transfer in transfers {
                started[q] += 1;
                let order = orders.get(&(ENGINES + q, started[q]));
                let Some(&order) = order else { return Err(broken("lacks a transfer")) };
                let work = Arc::clone(&self.log.works[order as usize].footprint);
                let demand = dma.demand(transfer, &self.out.config.dma, &self.out.time);
                let skew = self.out.config.dma.skew_ps(transfer.load, by_instruction);
                self.out.demands.push((demand, skew));
                self.out.works.push(SkeletonWork {
                    stream: (ENGINES + q) as u16,
                    step: j as u32,
                    pc: self.out.jobs[j].pc,
                    number: started[q] - 1,
                    control: false,
                    order,
                    work,
                    busy: 0,
                    gap: 0,
                    fixed: 0,
                    row: CostRow::Other,
                    cells: 0,
                    ports: (false, 0),
                    blocks: false,
                    reads_of: 0..0,
                    after: 0..0,
                });
            }
            self.out.jobs[j].transfers = first..end(&self.out.works);
            self.out.jobs[j].demands = first_demand..end(&self.out.demands);
        }
        Ok(())
    }

    fn stream(
        &mut self,
        s: usize,
        records: &[InstRecord],
        job_of: &HashMap<(usize, u32), (u32, u64)>,
        orders: &HashMap<(usize, u32), u32>,
    ) -> std::result::Result<(), Stop> {
        let mut mine: Vec<&InstRecord> =
            records.iter().filter(|r| usize::from(r.stream) == s).collect();
        mine.sort_unstable_by_key(|r| r.index);
        // works of the stream in order, with the step of each
        let places = &self.log.places[s];
        let (mut work, mut data_path) = (0usize, Vec::new());
        let mut waits = self.log.acquires.iter().filter(|a| a.stream == s).peekable();
        let mut changes: HashMap<u32, Vec<&log::Change>> = HashMap::new();
        for c in self.log.changes.iter().filter(|c| c.stream == s) {
            changes.entry(c.place).or_default().push(c);
        }
        for (k, record) in mine.iter().enumerate() {
            let index = record.index as u32;
            while end(&self.out.steps[s]) < index {
                let (waits, updates) = (0..0, 0..0);
                let pc = record.pc - (index - end(&self.out.steps[s]));
                self.out.steps[s].push(Step { pc, waits, updates, action: Action::Label });
            }
            let first_wait = end(&self.out.waits);
            while let Some(a) = waits.next_if(|a| a.place <= index) {
                if let Some((id, cond)) = condition(&a.got) {
                    let Some(cond) = cond else { return Err(broken("has an impossible wait")) };
                    let id = self.id(id);
                    self.out.waits.push(Wait { id, cond });
                }
            }
            let own = changes.remove(&index).unwrap_or_default();
            let first_update = end(&self.out.updates);
            self.updates(s, record, &own)?;
            let (first_work, step) = (end(&self.out.works), index);
            while places.get(work) == Some(&index) {
                let number = work as u32 + 1;
                let Some(&order) = orders.get(&(s, number)) else {
                    return Err(broken("lacks a work"));
                };
                self.work(s, record, step, number, order)?;
                if record.data_path {
                    data_path.push(end(&self.out.works) - 1);
                }
                work += 1;
            }
            let touches = first_work..end(&self.out.works);
            let action = if record.data_path {
                Action::Work(first_work)
            } else {
                let next = mine.get(k + 1).copied();
                self.control(s, record, next, touches, &own, job_of.get(&(s, index)))?
            };
            let waits = first_wait..end(&self.out.waits);
            let updates = first_update..end(&self.out.updates);
            self.out.steps[s].push(Step { pc: record.pc, waits, updates, action });
        }
        conflicts::links(&mut self.out, &data_path, WINDOW);
        Ok(())
    }

    /// The updates of a word, with the operands they had.
    fn updates(
        &mut self,
        s: usize,
        record: &InstRecord,
        own: &[&log::Change],
    ) -> std::result::Result<(), Stop> {
        let image = self.image;
        let Some(word) = image.words[s].get(record.pc as usize) else { return Ok(()) };
        for u in &word.sync.updates {
            let lane = match (record.data_path, u.when) {
                (false, _) => SEQUENCER,
                (true, When::Read) => READS,
                (true, When::Complete) => RESULTS,
            };
            let logged =
                || own.iter().find(|c| c.id == u.id && c.lane != Lane::Immediate).map(|c| c.effect);
            let change = change(u.kind, |_| match logged()? {
                Effect::Add(n) | Effect::Sub(n) | Effect::Write(n) => Some(n),
                Effect::Set | Effect::Clear => None,
            });
            let register = match u.kind {
                UpdateKind::Add(o) | UpdateKind::Sub(o) | UpdateKind::Write(o) => {
                    !matches!(o, Operand::Immediate(_))
                }
                UpdateKind::Set | UpdateKind::Clear => false,
            };
            if register && record.data_path {
                let what = "updates by a register that is read when its work starts, which may be after later words changed it";
                return Err(Stop::Refused(s, record.pc, what.into()));
            }
            let Some(change) = change else { return Err(broken("lacks an update")) };
            let (id, stream, step, pc) = (self.id(u.id), s as u16, record.index as u32, record.pc);
            let late = u.when == When::Complete;
            self.out.updates.push(Update { id, change, stream, step, lane, late, pc });
        }
        Ok(())
    }

    fn work(
        &mut self,
        s: usize,
        record: &InstRecord,
        step: u32,
        number: u32,
        order: u32,
    ) -> std::result::Result<(), Stop> {
        let work = Arc::clone(&self.log.works[order as usize].footprint);
        let engine = Engine::ALL[s];
        let config = &self.out.config;
        let period = self.out.time.period(engine);
        let c = cost(&work.cost, engine, config);
        let row = work.cost.row;
        let mut busy = c.work * period;
        if !record.data_path {
            busy = 0;
        } else if work.needs_outcome && row != CostRow::Matmul {
            let ran = record.busy_until - record.start;
            if ran != busy {
                let what = format!("{} pc {} takes as long as in the plain run", engine, record.pc);
                self.out.approximations.push(what);
            }
            busy = ran;
        }
        self.out.works.push(SkeletonWork {
            stream: s as u16,
            step,
            pc: record.pc,
            number: number - 1,
            control: !record.data_path,
            order,
            busy,
            gap: c.gap * period,
            fixed: c.fixed * period,
            row,
            cells: work.cost.cells,
            ports: Ports::new(config).needs(s, &work, config),
            blocks: work.needs_outcome,
            work,
            reads_of: 0..0,
            after: 0..0,
        });
        Ok(())
    }

    fn control(
        &mut self,
        s: usize,
        record: &InstRecord,
        next: Option<&InstRecord>,
        touches: Span,
        own: &[&log::Change],
        rings: Option<&(u32, u64)>,
    ) -> std::result::Result<Action, Stop> {
        let config = Arc::clone(&self.out.config);
        let period = self.out.time.period(Engine::ALL[s]);
        let ticks = record.end - record.issue;
        let first_instant = end(&self.out.instants);
        let (mut then, mut drains, mut early, mut halts) = (0, false, true, false);
        let image = self.image;
        let mut cleared: Vec<SyncId> = Vec::new();
        if s == Engine::Sp.index() && self.out.sp_program {
            let word = image.sp.get(record.pc as usize);
            match word {
                Some(SpWord::BranchEvent(..)) => {
                    let what = "branches on an event without waiting: the schedule decides";
                    return Err(Stop::Refused(s, record.pc, what.into()));
                }
                Some(SpWord::NotifyHalt(_)) => halts = true,
                Some(SpWord::ClearAllEvents) => {
                    let seen =
                        |id: &&SyncId| matches!(id, SyncId::Event(i) if *i < machine::sp::EVENTS);
                    cleared = self.out.ids.iter().filter(seen).copied().collect();
                }
                _ => {}
            }
        } else if let Some(word) = image.words[s].get(record.pc as usize) {
            if let Some(what) = depends(word) {
                return Err(Stop::Refused(s, record.pc, what.into()));
            }
            let v1 = word.inst.generation == Generation::V1;
            let opcode = word.inst.opcode();
            drains = match word.kind {
                Kind::Trigger(..) => config.sequencer.doorbell_drains,
                Kind::End | Kind::Sim(_) => true,
                Kind::Control => !v1 && opcode == op::DRAIN,
                _ => false,
            };
            early = !matches!(word.kind, Kind::Data(_));
            let control = matches!(word.kind, Kind::Control) && !v1;
            halts = matches!(word.kind, Kind::End) || control && opcode == op::HALT;
            let jump = config.sequencer.branch_cycles * period;
            if control && opcode == op::COMPARE_BRANCH {
                // without a delay, the next word comes when this one is done
                let late = next.is_some_and(|n| n.head >= record.end + jump);
                let elsewhere = next.is_some_and(|n| n.pc != record.pc + 1);
                if (late || elsewhere) && jump > 0 {
                    then = jump;
                }
            }
            if control && opcode == op::EVENT_SEMAPHORE_RANGE_CLEAR {
                let get = |field| word.inst.get(field) as u16;
                let range = get(f::ctrl_er::RANGE_FIRST)..=get(f::ctrl_er::RANGE_LAST);
                for i in range {
                    let pair = [SyncId::Semaphore(i), SyncId::Event(i)];
                    cleared.extend(pair.iter().filter(|id| self.ids.contains_key(id)));
                }
            }
        }
        if cleared.is_empty() {
            for c in own.iter().filter(|c| c.lane == Lane::Immediate) {
                let change = match c.effect {
                    Effect::Add(n) => Change::Add(n),
                    Effect::Sub(n) => Change::Sub(n),
                    Effect::Write(n) => Change::Write(n),
                    Effect::Set => Change::Write(1),
                    Effect::Clear => Change::Write(0),
                };
                let id = self.id(c.id);
                self.out.instants.push(Instant { id, change, unless_zero: false });
            }
        }
        for id in cleared {
            let id = self.id(id);
            let change = Change::Write(0);
            self.out.instants.push(Instant { id, change, unless_zero: true });
        }
        let instants = first_instant..end(&self.out.instants);
        let rings = rings.copied();
        Ok(Action::Control { ticks, then, drains, early, instants, touches, rings, halts })
    }
}

/// What an update does; `register` gives the operand where it is not in the word.
fn change(kind: UpdateKind, register: impl Fn(Operand) -> Option<u32>) -> Option<Change> {
    let number = |o: Operand| match o {
        Operand::Immediate(n) => Some(n),
        other => register(other),
    };
    Some(match kind {
        UpdateKind::Set => Change::Write(1),
        UpdateKind::Clear => Change::Write(0),
        UpdateKind::Add(o) => Change::Add(number(o)?),
        UpdateKind::Sub(o) => Change::Sub(number(o)?),
        UpdateKind::Write(o) => Change::Write(number(o)?),
    })
}

/// The condition behind what a stream took over at a wait.
fn condition(got: &Got) -> Option<(SyncId, Option<Cond>)> {
    Some(match *got {
        Got::Semaphore(i, compare, n) => {
            let cond = match compare {
                Compare::Ge => Some(Cond::AtLeast(n)),
                Compare::Gt => n.checked_add(1).map(Cond::AtLeast),
                Compare::Eq => Some(Cond::Equal(n)),
                Compare::Lt => Some(Cond::Below(n)),
                Compare::Le => Some(n.checked_add(1).map_or(Cond::AtLeast(0), Cond::Below)),
            };
            (SyncId::Semaphore(i), cond)
        }
        Got::Event { event, set: true, consumed } => {
            (SyncId::Event(event), Some(Cond::Set(consumed)))
        }
        Got::Event { event, set: false, consumed } => {
            (SyncId::Event(event), Some(Cond::Clear(consumed)))
        }
        Got::Job(..) | Got::Own(_) => return None,
    })
}

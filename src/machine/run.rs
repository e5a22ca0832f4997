//! The machine: the conductor that owns simulated time, and the run loop.
//!
//! The conductor takes the earliest entry of the agenda, changes the state of sequencers, events
//! and semaphores, decides when each work starts, and hands it to the executor. Data never delays
//! simulated time, except where a register or a duration comes out of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::agenda::{Action, Agenda, Entry};
use super::config::MachineConfig;
use super::dma::DmaEngines;
use super::executor::{DMA_UNIT, Dependencies, Executor};
use super::image::{Image, Kind};
use super::ports::Ports;
use super::power::PowerLimit;
use super::queue::Queue;
use super::sp_run::SpState;
use super::stream::{Blocked, InFlight, Pending, RunState, Stream};
use super::time::Timebase;
use crate::check::board::{Board, Conflict, Stamp};
use crate::check::guarantee::Finding;
use crate::check::log::{Change, Effect, Got, Lane, Log, Started};
use crate::check::{Clock, SyncClocks};
use crate::engine::cost::{CostRow, cost};
use crate::engine::{EngineState, Env, Prepared, Work};
use crate::error::{Error, ErrorClass, Location, Result};
use crate::isa::{Engine, Generation};
use crate::memory::{AccessKind, Memory, Validity};
use crate::program::Program;
use crate::sync::{Compare, SyncId, SyncState, Update, UpdateKind, Wait, When};
use crate::trace::{InstRecord, Record, Recorder, StallCause, SyncRecord, TraceHeader};

/// Streams of the engines; DMA queues follow.
pub const ENGINE_STREAMS: usize = 5;

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
    /// Skip the data where nothing depends on it.
    pub timing_only: bool,
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
            recorder: None,
            perturb: None,
            interrupt: None,
            progress: None,
        }
    }
}

/// An update on its way to becoming visible.
pub(super) struct Post {
    pub id: SyncId,
    pub kind: UpdateKind,
    pub operand: u32,
    pub by: (u16, u64),
    pub pc: u32,
    pub clock: Option<Clock>,
    /// Place of the instruction or job in its stream, and the way of the update.
    pub place: u32,
    pub lane: Lane,
}

/// How a run ended.
pub struct Finished {
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

/// One core with a program in it.
pub struct Machine {
    pub(super) config: Arc<MachineConfig>,
    pub(super) program: Arc<Program>,
    pub(super) image: Arc<Image>,
    pub(super) time: Timebase,
    pub(super) agenda: Agenda,
    pub(super) now: u64,
    pub(super) streams: Vec<Stream>,
    pub(super) queues: Vec<Queue>,
    pub(super) dma: DmaEngines,
    ports: Ports,
    power: PowerLimit,
    pub(super) sp: SpState,
    pub(super) sync: SyncState,
    pub(super) clocks: SyncClocks,
    pub(super) log: Option<Log>,
    last_visible: rustc_hash::FxHashMap<(usize, Lane), u64>,
    last_update: rustc_hash::FxHashMap<SyncId, (u16, u64)>,
    posts: Vec<Option<Post>>,
    free_posts: Vec<u32>,
    prepared: [Vec<Option<Arc<Work>>>; ENGINE_STREAMS],
    board: Board,
    validity: Option<Validity>,
    pub(super) executor: Executor,
    pub(super) options: Options,
    races: Vec<Error>,
    race_pairs: rustc_hash::FxHashSet<(usize, u32, usize, u32)>,
    notes: Vec<String>,
    executed: u64,
    end: u64,
    max_tick: u64,
    visible: u64,
    wake: u64,
    race_fault: Option<Error>,
    thread_fault: bool,
}

impl Machine {
    /// Loads `program`: decodes its words, maps the memories and fills the tensors.
    ///
    /// # Errors
    /// Illegal words, bad configuration, tensors beyond the memory.
    pub fn new(
        program: Arc<Program>,
        config: Arc<MachineConfig>,
        options: Options,
    ) -> Result<Machine> {
        let expected = program.generation.to_string();
        if config.generation != expected {
            return Err(Error::new(
                ErrorClass::ConfigError,
                format!(
                    "the program is for {expected}, the configuration for {}",
                    config.generation
                ),
            ));
        }
        let image = Arc::new(Image::new(&program, &config, options.strict)?);
        let time = Timebase::new(&config)?;
        let mut memory = Memory::new(&config.geometry)?;
        let mut validity = options.check_unwritten.then(|| Validity::new(&config.geometry));
        for tensor in &program.tensors {
            super::tensors::fill(tensor, &mut memory, &config, validity.as_mut())?;
        }
        let total = ENGINE_STREAMS + image.queues.len();
        let streams: Vec<Stream> = Engine::ALL.iter().map(|&e| Stream::new(e, total)).collect();
        let queues = (0..image.queues.len()).map(|_| Queue::new(total)).collect();
        let states: [EngineState; 6] =
            std::array::from_fn(|unit| EngineState::new(unit, image.generation, &config));
        let executor = Executor::new(Arc::new(memory), states, options.threads);
        let prepared = std::array::from_fn(|e| vec![None; image.words[e].len()]);
        let fastest = Engine::ALL.iter().map(|&e| time.period(e)).min().unwrap_or(1);
        let mut machine = Machine {
            time,
            agenda: Agenda::default(),
            now: 0,
            streams,
            queues,
            dma: DmaEngines::new(&config.dma),
            ports: Ports::new(&config),
            power: PowerLimit::new(&config.power, &time),
            sp: SpState::default(),
            sync: SyncState::new(&config.sync),
            clocks: SyncClocks::default(),
            log: (options.races != Races::Ignore).then(|| Log::new(total)),
            last_visible: Default::default(),
            last_update: Default::default(),
            posts: Vec::new(),
            free_posts: Vec::new(),
            prepared,
            board: Board::new(),
            validity,
            executor,
            races: Vec::new(),
            race_pairs: Default::default(),
            notes: Vec::new(),
            executed: 0,
            end: 0,
            max_tick: options.max_cycles.map_or(u64::MAX, |c| c.saturating_mul(fastest)),
            visible: time.from_ps(config.sync.update_visible_ps).max(1),
            wake: time.from_ps(config.sync.wake_ps),
            race_fault: None,
            thread_fault: false,
            options,
            image,
            program,
            config,
        };
        for s in 0..ENGINE_STREAMS {
            let sp_program = s == Engine::Sp.index() && !machine.image.sp.is_empty();
            if machine.image.words[s].is_empty() && !sp_program {
                machine.streams[s].state = RunState::Done;
            } else {
                machine.head_at(s, 0);
            }
        }
        Ok(machine)
    }

    /// Facts for the trace.
    pub fn header(&self) -> TraceHeader {
        let engines = Engine::ALL.iter().map(|e| e.to_string());
        let queues = self.image.queues.iter().map(|q| format!("q:{q}"));
        let period = |s: usize| Engine::ALL.get(s).copied().unwrap_or(Engine::Sp);
        let total = ENGINE_STREAMS + self.image.queues.len();
        TraceHeader {
            generation: self.image.generation.to_string(),
            tick_hz: self.time.hz,
            streams: engines.chain(queues).collect(),
            periods: (0..total).map(|s| self.time.period(period(s))).collect(),
        }
    }

    /// Names instructions and blocks for a trace: (name, text, source line).
    pub fn namer(&self) -> Box<dyn Fn(u16, u32) -> (String, String, Option<String>) + Send> {
        let (image, program) = (Arc::clone(&self.image), Arc::clone(&self.program));
        Box::new(move |stream, pc| {
            let (s, pc) = (usize::from(stream), pc as usize);
            if s >= ENGINE_STREAMS {
                let block = program.blocks.get(pc);
                let name = block.map_or_else(
                    || format!("request {pc}"),
                    |b| b.name.clone().unwrap_or_else(|| format!("block {}", b.id)),
                );
                return (name.clone(), name, block.and_then(|b| program.source_of(b.line)));
            }
            if s == Engine::Sp.index() && !image.sp.is_empty() {
                let text = image.sp.get(pc).map_or(String::new(), |w| format!("{w:?}"));
                let name = text.split(['(', ' ']).next().unwrap_or("").to_string();
                let line = program.v1_sp.lines.get(pc).and_then(|l| program.source_of(*l));
                return (name, text, line);
            }
            let Some(word) = image.words[s].get(pc) else { return Default::default() };
            let name = word.inst.def().map_or("?", |d| d.name).to_string();
            let line = program.stream(Engine::ALL[s]).and_then(|p| program.source_of(p.line(pc)));
            (name, super::image::disassemble(&word.inst), line)
        })
    }

    /// Time base of the machine.
    pub fn timebase(&self) -> &Timebase {
        &self.time
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The configuration.
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// The configuration, shared.
    pub fn shared_config(&self) -> &Arc<MachineConfig> {
        &self.config
    }

    /// Sets the window of legal word addresses of an engine's stream, 64 bytes a word from 0.
    pub fn set_pc_bounds(&mut self, engine: Engine, bounds: super::fault::PcBounds) {
        self.streams[engine.index()].bounds = bounds;
    }

    /// Run state of an engine's stream.
    pub fn run_state(&self, engine: Engine) -> RunState {
        self.streams[engine.index()].state
    }

    /// Replaces the recorder.
    pub fn set_recorder(&mut self, recorder: Box<dyn Recorder>) {
        self.options.recorder = Some(recorder);
    }

    /// Lets go of the recorder.
    pub fn drop_recorder(&mut self) {
        self.options.recorder = None;
    }

    /// Whether the run ended because a work faulted on a worker thread: simulated time may then
    /// have gone beyond the fault.
    pub fn fault_on_a_thread(&self) -> bool {
        self.thread_fault
    }

    /// Current tick.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Events and semaphores.
    pub fn sync_state(&self) -> &SyncState {
        &self.sync
    }

    /// General registers of an engine's sequencer.
    pub fn registers(&self, engine: Engine) -> &[u32; 64] {
        &self.streams[engine.index()].registers
    }

    /// Runs to the end, jumping from change to change.
    pub fn run(&mut self) -> Finished {
        let mut steps = 0u32;
        loop {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(4096)
                && let Err(e) = self.housekeeping() {
                    return self.finish(Some(e));
                }
            match self.advance(u64::MAX) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => return self.finish(Some(e)),
            }
        }
        let error = self.deadlock();
        self.finish(error)
    }

    /// Advances simulated time by one tick. Returns false when nothing is left to happen.
    ///
    /// # Errors
    /// The fault that ends the run.
    pub fn step(&mut self) -> Result<bool> {
        let until = self.now;
        while self.advance(until)? {}
        if self.agenda.is_empty() {
            return Ok(false);
        }
        self.now += 1;
        Ok(true)
    }

    /// Runs to the end tick by tick; the same result as [`Machine::run`], slowly.
    pub fn run_stepped(&mut self) -> Finished {
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => return self.finish(Some(e)),
            }
        }
        let error = self.deadlock();
        self.finish(error)
    }

    fn housekeeping(&mut self) -> Result<()> {
        if let Some(flag) = &self.options.interrupt
            && flag.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorClass::LimitReached, "interrupted"));
            }
        let (now, executed) = (self.now, self.executed);
        if let Some(progress) = &mut self.options.progress {
            progress(now, executed);
        }
        match self.executor.take_fault() {
            Some(fault) => {
                self.thread_fault = true;
                Err(fault.error)
            }
            None => Ok(()),
        }
    }

    /// Does the earliest entry of the agenda if it lies at or before `until`.
    fn advance(&mut self, until: u64) -> Result<bool> {
        match self.agenda.next_tick() {
            Some(tick) if tick <= until => {}
            _ => return Ok(false),
        }
        let Some(Entry { tick, stream, action }) = self.agenda.pop() else { return Ok(false) };
        if tick > self.max_tick {
            return Err(Error::new(
                ErrorClass::LimitReached,
                format!(
                    "the run is not at its end after {} cycles",
                    self.options.max_cycles.unwrap_or(0)
                ),
            )
            .help(
                "a branch loop that polls forever looks like this; --max-cycles raises the limit",
            ));
        }
        self.now = tick;
        self.end = self.end.max(tick);
        match action {
            Action::Update(post) => self.update_visible(post)?,
            Action::Complete(_) => self.transfer_done(stream - ENGINE_STREAMS)?,
            Action::Start if stream < ENGINE_STREAMS => self.start(stream)?,
            Action::Start => self.start_transfer(stream - ENGINE_STREAMS)?,
            Action::Head => self.head(stream)?,
        }
        if let Some(e) = self.race_fault.take() {
            return Err(e);
        }
        Ok(true)
    }

    fn finish(&mut self, error: Option<Error>) -> Finished {
        self.executor.wait_all();
        let error = match (self.executor.take_fault(), error) {
            (Some(fault), _) => {
                self.thread_fault = true;
                Some(fault.error)
            }
            (None, e) => e,
        };
        let mut remarks = Vec::new();
        let error = error.or_else(|| {
            remarks = self.conclude();
            self.race_fault.take()
        });
        Finished {
            remarks,
            end: self.end,
            executed: self.executed,
            error,
            races: std::mem::take(&mut self.races),
            notes: std::mem::take(&mut self.notes),
        }
    }

    /// The memory after the run. Works that still run on other threads are waited for.
    pub fn memory(&mut self) -> crate::memory::Lease<'_> {
        self.executor.wait_all();
        // SAFETY: nothing runs: everything submitted is finished and `&mut self` keeps it so.
        unsafe { self.executor.memory().lend_all() }
    }

    // ---------------------------------------------------------------- time

    pub(super) fn edge(&self, stream: usize, tick: u64) -> u64 {
        tick.next_multiple_of(self.time.period(self.streams[stream].engine))
    }

    pub(super) fn head_at(&mut self, stream: usize, tick: u64) {
        let extra = self.perturbation(stream, self.streams[stream].executed, Point::Fetch);
        let at = self.edge(stream, tick + extra);
        self.agenda.at(at, stream, Action::Head);
    }

    pub(super) fn perturbation(&mut self, stream: usize, index: u64, point: Point) -> u64 {
        self.options.perturb.as_mut().map_or(0, |p| p.delay(stream, index, point))
    }

    fn checks_races(&self) -> bool {
        self.options.races != Races::Ignore
    }

    // ---------------------------------------------------------------- places

    /// Where an instruction is, for reports.
    pub fn location(&self, stream: usize, pc: usize) -> Location {
        let mut at = Location {
            generation: Some(self.image.generation.to_string()),
            pc: Some(pc as u64),
            ..Location::default()
        };
        if stream >= ENGINE_STREAMS {
            at.stream = Some(format!("queue {}", self.image.queues[stream - ENGINE_STREAMS]));
            if let Some(block) = self.program.blocks.get(pc) {
                at.source = self.program.source_of(block.line);
                let name = block.name.clone().unwrap_or_else(|| block.id.to_string());
                at.disassembly = Some(format!("block {name}"));
            }
            return at;
        }
        let s = &self.streams[stream];
        at.stream = Some(s.engine.to_string());
        at.cycle = Some(self.now / self.time.period(s.engine));
        if let Some(word) = self.image.words[stream].get(pc) {
            at.disassembly = Some(self.with_names(&super::image::disassemble(&word.inst)));
            at.source =
                self.program.stream(s.engine).and_then(|p| self.program.source_of(p.line(pc)));
        }
        at
    }

    pub(super) fn placed<T>(&self, result: Result<T>, stream: usize, pc: usize) -> Result<T> {
        result.map_err(|e| e.or_at(&self.location(stream, pc)))
    }

    pub(super) fn note(&mut self, stream: usize, pc: usize, text: String) {
        let record = Record::Note {
            tick: self.now,
            stream: stream as u16,
            pc: pc as u32,
            text: text.clone(),
        };
        self.record(&record);
        let name = match Engine::ALL.get(stream) {
            Some(e) => e.to_string(),
            None => self.image.queues[stream - ENGINE_STREAMS].clone(),
        };
        self.notes.push(self.with_names(&format!("{name} pc {pc}: {text}")));
    }

    pub(super) fn record(&mut self, record: &Record) {
        if let Some(recorder) = &mut self.options.recorder {
            recorder.record(record);
        }
    }

    // ---------------------------------------------------------------- updates

    /// Puts an update on the agenda to become visible at `tick`.
    pub(super) fn post(&mut self, mut tick: u64, stream: usize, post: Post) {
        if self.options.perturb.is_some() {
            // a delay never lets the updates of one lane overtake each other
            let last = self.last_visible.entry((stream, post.lane)).or_default();
            tick = tick.max(*last);
            *last = tick;
        }
        let slot = match self.free_posts.pop() {
            Some(slot) => {
                self.posts[slot as usize] = Some(post);
                slot
            }
            None => {
                self.posts.push(Some(post));
                (self.posts.len() - 1) as u32
            }
        };
        self.agenda.at(tick, stream, Action::Update(slot));
    }

    fn update_visible(&mut self, slot: u32) -> Result<()> {
        let Some(post) = self.posts[slot as usize].take() else {
            return Err(Error::internal("an update became visible twice"));
        };
        self.free_posts.push(slot);
        self.apply(post)
    }

    /// Applies an update now and wakes who waited for it.
    pub(super) fn apply(&mut self, post: Post) -> Result<()> {
        let (stream, pc) = (usize::from(post.by.0), post.pc as usize);
        let applied = self.sync.apply(post.id, post.kind, post.operand);
        let (value, odd) = self.placed(applied, stream, pc)?;
        if let Some(clock) = &post.clock {
            let grows = matches!(post.kind, UpdateKind::Add(_));
            self.clocks.update(post.id, value, grows, clock);
        }
        self.last_update.insert(post.id, post.by);
        if let Some(log) = &mut self.log {
            let effect = match post.kind {
                UpdateKind::Set => Effect::Set,
                UpdateKind::Clear => Effect::Clear,
                UpdateKind::Add(_) => Effect::Add(post.operand),
                UpdateKind::Sub(_) | UpdateKind::Write(_) => Effect::Other,
            };
            log.change(Change {
                stream,
                place: post.place,
                lane: post.lane,
                pc: post.pc,
                order: 0,
                id: post.id,
                effect,
                wrapped: odd == Some(crate::sync::state::Oddity::Wrapped),
            });
        }
        if let Some(odd) = odd {
            self.note(stream, pc, format!("{}: {}", post.id, odd.describe()));
        }
        if self.options.recorder.is_some() {
            let record = SyncRecord { tick: self.now, id: post.id, value, by: post.by };
            self.record(&Record::Sync(record));
        }
        for s in 0..ENGINE_STREAMS {
            if self.streams[s].blocked == Blocked::Wait
                && self.streams[s].state == RunState::Running
            {
                self.try_grant(s)?;
            }
        }
        Ok(())
    }

    /// Posts the updates of a work of the data path.
    fn post_updates(
        &mut self,
        stream: usize,
        pc: usize,
        index: u64,
        when: When,
        at: u64,
        clock: Option<&Clock>,
    ) -> Result<()> {
        let lane = match when {
            When::Read => Lane::Reads,
            When::Complete => Lane::Results,
        };
        self.post_in_lane(stream, pc, index, when, at, clock, lane)
    }

    /// Posts the updates of an instruction that the sequencer itself completes.
    pub(super) fn post_control(
        &mut self,
        stream: usize,
        pc: usize,
        index: u64,
        at: [u64; 2],
        clock: &Clock,
    ) -> Result<()> {
        let lane = Lane::Sequencer;
        self.post_in_lane(stream, pc, index, When::Read, at[0], Some(clock), lane)?;
        self.post_in_lane(stream, pc, index, When::Complete, at[1], Some(clock), lane)
    }

    #[allow(clippy::too_many_arguments)]
    fn post_in_lane(
        &mut self,
        stream: usize,
        pc: usize,
        index: u64,
        when: When,
        at: u64,
        clock: Option<&Clock>,
        lane: Lane,
    ) -> Result<()> {
        for k in 0..self.image.words[stream][pc].sync.updates.len() {
            let update: Update = self.image.words[stream][pc].sync.updates[k];
            if update.when != when {
                continue;
            }
            let operand = self.update_operand(stream, pc, &update)?;
            let extra = self.perturbation(stream, index, Point::Completion);
            let post = Post {
                id: update.id,
                kind: update.kind,
                operand,
                by: (stream as u16, index),
                pc: pc as u32,
                clock: clock.cloned(),
                place: index as u32,
                lane,
            };
            self.post(at + self.visible + extra, stream, post);
        }
        Ok(())
    }

    fn update_operand(&self, stream: usize, pc: usize, update: &Update) -> Result<u32> {
        let operand = match update.kind {
            UpdateKind::Set | UpdateKind::Clear => return Ok(0),
            UpdateKind::Add(o) | UpdateKind::Sub(o) | UpdateKind::Write(o) => o,
        };
        let registers = &self.streams[stream].registers;
        let value = operand.value(|r| read_register(registers, r));
        self.placed(value, stream, pc)
    }

    // ---------------------------------------------------------------- heads

    fn head(&mut self, s: usize) -> Result<()> {
        if s == Engine::Sp.index() && !self.image.sp.is_empty() {
            return self.sp_head();
        }
        if self.streams[s].state != RunState::Running {
            return Ok(());
        }
        let pc = self.streams[s].pc;
        let Some(word) = self.image.words[s].get(pc) else {
            self.streams[s].state = RunState::Done;
            return Ok(());
        };
        let data = matches!(word.kind, Kind::Data(_) | Kind::Refuse(_));
        if !self.streams[s].bounds.contains(pc as u64 * 64) {
            // OPEN (seq choice 11): the header promises an error state for a fetch out of bounds
            let error = super::fault::device_fault(0, "fetch outside the program-counter bounds");
            return self.placed(Err(error), s, pc);
        }
        if let Kind::Refuse(error) = &word.kind
            && !self.library_may_run(s, pc) {
                let error = (**error).clone();
                return self.placed(Err(error), s, pc);
            }
        let now = self.now;
        let stream = &mut self.streams[s];
        if stream.head_since.is_none() {
            stream.head_since = Some(now);
            stream.granted = now;
        }
        if stream.blocked == Blocked::Granted {
            stream.blocked = Blocked::No;
            return self.execute(s);
        }
        let depth = self.config.engine(stream.engine).queue_depth;
        let unknown = stream.pending.iter().any(|p| p.work.needs_outcome);
        if data && (unknown || stream.pending.len() >= depth.max(1)) {
            stream.blocked = Blocked::Queue;
            stream.stall.get_or_insert(StallCause::Queue);
            return Ok(());
        }
        stream.blocked = Blocked::Wait;
        if self.grant(s)? {
            self.streams[s].blocked = Blocked::No;
            self.execute(s)
        } else {
            let id = self.image.words[s][pc].sync.waits.first().map(Wait::id);
            self.streams[s].waited = id.map(|i| (i, None));
            Ok(())
        }
    }

    /// Called when an event or semaphore changed and the head of `s` waits.
    fn try_grant(&mut self, s: usize) -> Result<()> {
        if s == Engine::Sp.index() && !self.image.sp.is_empty() {
            return self.sp_wake();
        }
        if !self.grant(s)? {
            return Ok(());
        }
        let now = self.now;
        let pc = self.streams[s].pc;
        let id = self.image.words[s][pc].sync.waits.first().map(Wait::id);
        let last = id.and_then(|i| self.last_update.get(&i).copied());
        let wake = self.wake;
        let stream = &mut self.streams[s];
        stream.waited = id.map(|i| (i, last));
        stream.granted = now;
        stream.blocked = Blocked::Granted;
        let at = self.edge(s, now + wake);
        self.agenda.at(at, s, Action::Head);
        Ok(())
    }

    /// If all wait conditions of the head of `s` hold: does their actions, takes over their
    /// clocks, and says yes.
    fn grant(&mut self, s: usize) -> Result<bool> {
        let image = Arc::clone(&self.image);
        let pc = self.streams[s].pc;
        let waits = &image.words[s][pc].sync.waits;
        if waits.is_empty() {
            return Ok(true);
        }
        let mut operands = [0u32; 4];
        for (k, wait) in waits.iter().enumerate() {
            let operand = match wait {
                Wait::Semaphore(_, _, o) => {
                    let registers = &self.streams[s].registers;
                    let value = o.value(|r| read_register(registers, r));
                    self.placed(value, s, pc)?
                }
                Wait::Event(..) => 0,
            };
            operands[k.min(3)] = operand;
            let holds = self.sync.holds(wait, operand);
            if !self.placed(holds, s, pc)? {
                return Ok(false);
            }
        }
        for (k, wait) in waits.iter().enumerate() {
            if self.checks_races() {
                let compare: Option<(Compare, u32)> = match wait {
                    Wait::Semaphore(_, c, _) => Some((*c, operands[k.min(3)])),
                    Wait::Event(..) => None,
                };
                if let Some(clock) = self.clocks.acquire(wait.id(), compare) {
                    self.streams[s].clock.join(clock);
                }
                let got = match *wait {
                    Wait::Semaphore(i, c, _) => Got::Semaphore(i, c, operands[k.min(3)]),
                    Wait::Event(event, set, action) => Got::Event {
                        event,
                        set,
                        consumed: action == crate::sync::EventAction::Flip,
                    },
                };
                self.learn(s, pc, got);
            }
            let before = self.sync.value(wait.id())?;
            self.sync.act(wait);
            let after = self.sync.value(wait.id())?;
            if before != after {
                let by = (s as u16, self.streams[s].executed);
                if self.checks_races() {
                    let clock = self.streams[s].clock.clone();
                    self.clocks.update(wait.id(), after, false, &clock);
                }
                self.last_update.insert(wait.id(), by);
                if self.options.recorder.is_some() {
                    let record = SyncRecord { tick: self.now, id: wait.id(), value: after, by };
                    self.record(&Record::Sync(record));
                }
            }
        }
        Ok(true)
    }

    /// The head of `s` may go.
    fn execute(&mut self, s: usize) -> Result<()> {
        let pc = self.streams[s].pc;
        let image = Arc::clone(&self.image);
        match &image.words[s][pc].kind {
            Kind::Data(_) | Kind::Refuse(_) if self.library_runs(s, pc) => {
                self.issue_library(s, pc)
            }
            Kind::Data(prepare) => self.issue(s, pc, *prepare),
            Kind::Refuse(error) => self.placed(Err((**error).clone()), s, pc),
            _ => {
                let result = self.control(s, pc);
                self.placed(result, s, pc)
            }
        }
    }

    /// Ends the time of the current word at the head; the next one comes at `next`.
    pub(super) fn leave_head(&mut self, s: usize, pc: usize, next: u64) {
        let stream = &mut self.streams[s];
        stream.pc = pc;
        stream.head_since = None;
        stream.waited = None;
        stream.stall = None;
        stream.executed += 1;
        self.executed += 1;
        self.head_at(s, next);
    }

    /// Emits the record of a control instruction that ran from now to `end`.
    pub(super) fn record_control(&mut self, s: usize, pc: usize, end: u64) {
        self.end = self.end.max(end);
        if self.options.recorder.is_none() {
            return;
        }
        let stream = &self.streams[s];
        let now = self.now;
        let record = InstRecord {
            stream: s as u16,
            pc: pc as u32,
            index: stream.executed,
            opcode: self.image.words[s].get(pc).map_or(0, |w| w.inst.opcode()),
            data_path: false,
            head: stream.head_since.unwrap_or(now),
            granted: stream.granted,
            issue: now,
            start: now,
            busy_until: end,
            reads_done: end,
            end,
            waited: stream.waited,
            stall: stream.stall,
            bytes: [0, 0],
            by_memory: [[0, 0]; 3],
            flops: 0,
        };
        self.record(&Record::Inst(record));
    }

    // ---------------------------------------------------------------- data path

    fn issue(&mut self, s: usize, pc: usize, prepare: crate::engine::PrepareFn) -> Result<()> {
        let work = match self.prepare(s, pc, prepare) {
            Ok(Ready::Work(work)) => work,
            Ok(Ready::Dma(request)) => return self.issue_dma(s, pc, request),
            Err(e) => return self.placed(Err(e), s, pc),
        };
        self.issue_work(s, pc, work, 1)
    }

    /// Hands `work`, made of `words` words from `pc` on, to the data path.
    pub(super) fn issue_work(
        &mut self,
        s: usize,
        pc: usize,
        work: Arc<Work>,
        words: usize,
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
        let free = stream.path_free(work.cost.row).max(now + extra);
        let start = stream.hazard_free(&work, free).next_multiple_of(period);
        if start > free.next_multiple_of(period) {
            stream.stall = Some(StallCause::Dependency);
        } else if start > now {
            stream.stall.get_or_insert(StallCause::Queue);
        }
        stream.works += 1;
        if let Some(log) = &mut self.log {
            log.numbered(s, stream.executed as u32);
        }
        let pending = Pending {
            work,
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
    fn issue_dma(&mut self, s: usize, pc: usize, request: crate::engine::DmaRequest) -> Result<()> {
        let period = self.time.period(self.streams[s].engine);
        let descriptors = request.transfers.iter().map(|t| t.descriptors).sum();
        let issue = self.config.dma.issue_ps(self.streams[s].engine, descriptors);
        let issue = self.time.from_ps(issue).next_multiple_of(period);
        let end = self.now + issue.max(period);
        let queue = self.dge_queue(s);
        self.ring(queue, super::queue::Job::Request(Arc::new(request)), s, pc, end)?;
        let index = self.streams[s].executed;
        let clock = self.streams[s].clock.clone();
        self.post_control(s, pc, index, [end, end], &clock)?;
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
        if let Some(work) = &self.prepared[s][pc] {
            return Ok(Ready::Work(Arc::clone(work)));
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
        match prepare(&env)? {
            Prepared::Work(work) => {
                let work = Arc::new(work);
                if !env.used_registers.get() {
                    self.prepared[s][pc] = Some(Arc::clone(&work));
                }
                Ok(Ready::Work(work))
            }
            Prepared::Dma(request) => Ok(Ready::Dma(request)),
        }
    }

    fn start(&mut self, s: usize) -> Result<()> {
        let Some(mut p) = self.streams[s].pending.pop_front() else {
            return Err(Error::internal("a work starts that was not issued"));
        };
        let now = self.now;
        if let Some(free) = self.ports.free_at(s, &p.work, now) {
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
        }
        for (register, value) in &outcome.registers {
            if let Some(r) = self.streams[s].registers.get_mut(usize::from(*register)) {
                *r = *value;
            }
        }
        if let (Some(cycles), true) = (outcome.cores, self.options.recorder.is_some()) {
            let record = Record::Cores { tick: now, pc: p.pc as u32, index: p.index, cycles };
            self.record(&record);
        }
        if let Some(text) = outcome.notice {
            self.note(s, p.pc, text);
        }
        let row = p.work.cost.row;
        if row == CostRow::Matmul {
            c.work *= self.power.factor(now, c.work * period);
        }
        let stream = &mut self.streams[s];
        if std::mem::replace(&mut stream.after_table_load, row == CostRow::TableLoad) {
            c.fixed += self.config.cost.after_table_load_cycles;
        }
        // the array waits for weights that are not there yet
        let from = if row == CostRow::Matmul { now.max(stream.weights_ready) } else { now };
        let busy_until = from + c.work * period;
        self.ports.occupy(s, &p.work, busy_until);
        let latency = self.config.engine(engine).read_latency_cycles * period;
        let forward = self.config.engine(engine).forward_cycles * period;
        let stream = &mut self.streams[s];
        let reads_done = (busy_until + latency).max(stream.last_reads);
        // results appear in program order
        let end = (busy_until + c.fixed * period).max(stream.last_end).max(reads_done);
        if row == CostRow::LoadWeights {
            // one set of weights waits while the array works with another
            stream.load_free_at = busy_until + c.gap * period;
            // what a load costs beside its work is hidden behind a running matmul
            let idle = u64::from(stream.free_at <= now);
            let cost = &self.config.cost;
            stream.matmul_from = now + idle * cost.weights_start_cycles * period;
            stream.weights_ready = busy_until + idle * cost.weights_ready_cycles * period;
        } else {
            stream.load_free_at = stream.load_free_at.max(now);
            stream.free_at = busy_until + c.gap * period;
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
        let has_updates = !self.image.words[s][p.pc].sync.updates.is_empty();
        if has_updates {
            let (mut reads, mut results) = (p.clock.clone(), p.clock);
            if let Some(c) = &mut reads {
                c.learn_reads(s, p.number);
            }
            if let Some(c) = &mut results {
                c.learn_results(s, p.number);
            }
            self.post_updates(s, p.pc, p.index, When::Read, reads_done, reads.as_ref())?;
            self.post_updates(s, p.pc, p.index, When::Complete, end, results.as_ref())?;
        }
        if self.options.recorder.is_some() {
            let by_memory = bytes_by_memory(&p.work);
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
        if let Some(log) = &mut self.log {
            let (tick, footprint) = (self.now, Arc::clone(work));
            log.started(Started { stream, work: number, pc: pc as u32, tick, footprint });
        }
        let after = self.enter(stream, work, number, pc, clock)?;
        if let Some(validity) = &mut self.validity {
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
        self.placed(outcome, place, pc)
    }

    fn enter(
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

    fn race(&mut self, conflict: Conflict) {
        let (a, b) = (conflict.earlier.0, conflict.later.0);
        if !self.race_pairs.insert((a.stream, a.pc, b.stream, b.pc)) {
            return;
        }
        if crate::check::race::allowed(&self.program, &conflict, &self.config) {
            return;
        }
        let earlier = self.location(a.stream, a.pc as usize);
        let later = self.location(b.stream, b.pc as usize);
        let report = crate::check::race::report(&conflict, &earlier, &later, &self.time);
        match self.options.races {
            Races::Stop => {
                self.race_fault.get_or_insert(report);
            }
            Races::Collect => self.races.push(report),
            Races::Ignore => {}
        }
    }

    // ---------------------------------------------------------------- end

    /// Looks at the finished run for what another schedule would have shown. Returns remarks.
    fn conclude(&mut self) -> Vec<String> {
        let Some(log) = self.log.take() else { return Vec::new() };
        if log.is_full() {
            self.notes.push(
                "the run was too long for the analysis of all schedules; races of this run only"
                    .into(),
            );
            return Vec::new();
        }
        let guarantees = crate::check::Guarantees::new(&log);
        let image = Arc::clone(&self.image);
        let control = |s: usize, pc: u32| {
            let word = image.words.get(s).map(|words| words.get(pc as usize));
            word.is_some_and(|w| {
                w.is_none_or(|w| !matches!(w.kind, Kind::Data(_) | Kind::Refuse(_)))
            })
        };
        let mut hazards = Vec::new();
        for finding in guarantees.races(control) {
            match finding {
                Finding::Race(conflict) => self.race(*conflict),
                Finding::Sequencer(hazard) if !hazards.contains(&hazard) => hazards.push(hazard),
                Finding::Sequencer(_) => {}
            }
        }
        hazards.extend(guarantees.hazards());
        for hazard in hazards {
            let report =
                crate::check::hazard::report(&hazard, |(s, pc)| self.location(s, pc as usize));
            let help = report.help.as_deref().map(|h| self.with_names(h));
            let message = self.with_names(&report.message);
            let report = Error { message, help, ..report };
            match self.options.races {
                Races::Stop => {
                    self.race_fault.get_or_insert(report);
                }
                Races::Collect => self.races.push(report),
                Races::Ignore => {}
            }
        }
        let remarks = crate::check::hazard::remarks(&log, &self.sync, |(s, pc)| {
            self.location(s, pc as usize)
        });
        let limits = guarantees
            .unproven()
            .iter()
            .map(|u| crate::check::hazard::limit(u, |(s, pc)| self.location(s, pc as usize)));
        let remarks: Vec<String> = remarks.into_iter().chain(limits).collect();
        let remarks: Vec<String> = remarks.iter().map(|r| self.with_names(r)).collect();
        for remark in &remarks {
            tracing::info!("{remark}");
        }
        self.log = Some(log);
        remarks
    }

    /// What the run told about its waits, updates and works, if it was logged.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    fn deadlock(&mut self) -> Option<Error> {
        let stuck = self.streams.iter().any(|s| s.state == RunState::Running);
        stuck.then(|| {
            let mut error = super::deadlock::report(self);
            error.message = self.with_names(&error.message);
            error
        })
    }

    /// `text` with the program's names of events and semaphores in place of their numbers.
    fn with_names(&self, text: &str) -> String {
        let mut out = text.to_string();
        for (letter, names) in [('S', &self.program.semaphores), ('E', &self.program.events)] {
            for (name, number) in names {
                out = out.replace(&format!("${letter}[{number}]"), &format!("${letter}[{name}]"));
            }
        }
        out
    }
}

/// Bytes that `work` reads and writes, by memory.
pub(super) fn bytes_by_memory(work: &Work) -> [[u64; 2]; 3] {
    let mut bytes = [[0; 2]; 3];
    for a in work.accesses.iter().filter(|_| work.judged) {
        bytes[a.region.space as usize][usize::from(a.kind.writes())] += a.region.len();
    }
    bytes
}

enum Ready {
    Work(Arc<Work>),
    Dma(crate::engine::DmaRequest),
}

/// General register `r` of a sequencer.
pub(super) fn read_register(registers: &[u32; 64], r: u8) -> Result<u32> {
    registers
        .get(usize::from(r))
        .copied()
        .ok_or_else(|| Error::illegal("register_specifier", format!("there is no register R{r}")))
}

impl Machine {
    /// Generation of the machine.
    pub fn generation(&self) -> Generation {
        self.image.generation
    }
}

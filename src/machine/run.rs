//! The machine: the conductor that owns simulated time, and the run loop.
//!
//! The conductor takes the earliest entry of the agenda, changes the state of sequencers, events
//! and semaphores, decides when each work starts, and hands it to the executor. Data never delays
//! simulated time, except where a register or a duration comes out of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::agenda::{Action, Agenda, Entry};
use super::config::MachineConfig;
use super::dma::DmaEngines;
use super::executor::Executor;
use super::image::Image;
use super::options::{Finished, Involved, Options, Point, Races};
use super::ports::Ports;
use super::power::PowerLimit;
use super::queue::Queue;
use super::sp_run::SpState;
use super::stream::{RunState, Stream};
use super::time::Timebase;
use super::updates::Post;
use crate::check::SyncClocks;
use crate::check::board::Board;
use crate::check::log::{Lane, Log};
use crate::engine::{EngineState, Work};
use crate::error::{Error, ErrorClass, Location, Result};
use crate::isa::{Engine, Generation};
use crate::memory::{Access, Memory, Validity};
use crate::program::Program;
use crate::sync::{SyncId, SyncState};
use crate::trace::usage::Usage;
use crate::trace::{Record, Recorder, TraceHeader};

/// Message of the error of a run that was ended from outside.
pub const INTERRUPTED: &str = "interrupted";

/// Streams of the engines; DMA queues follow.
pub const ENGINE_STREAMS: usize = 5;

/// What is kept of the work of a payload. A word that is executed once leaves nothing behind: a
/// long straight line would fill the memory with works nobody asks for again.
#[derive(Clone)]
pub(super) enum Known {
    /// Not executed yet, and of one word only.
    Fresh,
    /// Executed, or of several words: the next work is kept.
    Repeated,
    /// The work, which depends on nothing but the payload.
    Work(Arc<Work>),
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
    pub(super) ports: Ports,
    pub(super) power: PowerLimit,
    pub(super) sp: SpState,
    pub(super) sync: SyncState,
    pub(super) clocks: SyncClocks,
    pub(super) log: Option<Log>,
    pub(super) last_visible: rustc_hash::FxHashMap<(usize, Lane), u64>,
    pub(super) last_update: rustc_hash::FxHashMap<SyncId, (u16, u64)>,
    pub(super) posts: Vec<Option<Post>>,
    pub(super) free_posts: Vec<u32>,
    pub(super) prepared: [Vec<Known>; ENGINE_STREAMS],
    pub(super) board: Board,
    pub(super) validity: Option<Validity>,
    pub(super) executor: Executor,
    pub(super) options: Options,
    /// How full the memories are, where the recorder wants to know.
    pub(super) usage: Option<Usage>,
    /// What library code touched, with the number of its instruction in POOL, in order.
    pub(super) library_touches: Option<Vec<(u64, Arc<[Access]>)>>,
    pub(super) races: Vec<Error>,
    pub(super) race_pairs: rustc_hash::FxHashSet<(usize, u32, usize, u32)>,
    pub(super) notes: Vec<String>,
    pub(super) executed: u64,
    pub(super) end: u64,
    pub(super) max_tick: u64,
    pub(super) visible: u64,
    pub(super) wake: u64,
    /// Changes of memory, events and semaphores, and works and jobs that were let go: while it
    /// stands still, a stream that loops sees the same in every lap.
    pub(super) changes: u64,
    pub(super) race_fault: Option<Error>,
    pub(super) involved: Vec<Involved>,
    pub(super) thread_fault: bool,
    /// Chunks of HBM that may differ from zero, where snapshots are wanted.
    pub(super) touched: Option<super::snapshot::Touched>,
    /// Works begun since the last look, where a debugger wants to know.
    pub(super) begun: Option<Vec<super::inspect::Begun>>,
    /// Files that SIM words wrote.
    pub(super) written_files: std::collections::BTreeMap<String, Vec<u8>>,
}

impl Machine {
    /// Loads `program`: decodes its words, maps the memories and fills the tensors.
    ///
    /// # Errors
    /// Illegal words, bad configuration, tensors beyond the memory.
    pub fn new(
        program: Arc<Program>,
        config: Arc<MachineConfig>,
        mut options: Options,
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
        let numerics = config.numerics.chosen(&program.metadata)?;
        let config = if numerics == config.numerics {
            config
        } else {
            Arc::new(MachineConfig { numerics, ..(*config).clone() })
        };
        crate::check::race::check_allowed(&program)?;
        let image = Arc::new(Image::new(&program, &config, options.strict)?);
        if options.timing_only && image.needs_data {
            tracing::info!("registers or library code depend on data: nothing is left out");
            options.timing_only = false;
        }
        let time = Timebase::new(&config)?;
        let mut memory = Memory::new(&config.geometry)?;
        let mut validity = options.check_unwritten.then(|| Validity::new(&config.geometry));
        let mut touched = options.snapshots.then(super::snapshot::Touched::default);
        super::tensors::announce(&program.tensors, &memory, &config);
        for tensor in &program.tensors {
            if let (Some(touched), true) = (&mut touched, tensor.init.is_some()) {
                let region = super::tensors::region(tensor, &config)?;
                touched.mark(&[crate::memory::Access::write(region)]);
            }
            super::tensors::fill(tensor, &mut memory, &config, validity.as_mut())?;
        }
        let total = ENGINE_STREAMS + image.queues.len();
        let streams: Vec<Stream> = Engine::ALL.iter().map(|&e| Stream::new(e, total)).collect();
        let queues = (0..image.queues.len()).map(|_| Queue::new(total)).collect();
        let mut states: [EngineState; 6] =
            std::array::from_fn(|unit| EngineState::new(unit, image.generation, &config));
        if !program.table_sets.is_empty() {
            let sets = Arc::new(program.activation_tables()?);
            states.iter_mut().for_each(|s| s.act.install_table_sets(Arc::clone(&sets)));
        }
        let executor = Executor::new(Arc::new(memory), states, options.threads);
        let known = |&shared: &bool| if shared { Known::Repeated } else { Known::Fresh };
        let prepared = std::array::from_fn(|e| image.shared[e].iter().map(known).collect());
        let fastest = Engine::ALL.iter().map(|&e| time.period(e)).min().unwrap_or(1);
        // what partitions that lag behind do to a DMA is asked of the whole run
        let v1 = image.generation == crate::isa::Generation::V1;
        let window = if v1 { 0 } else { options.window };
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
            log: (options.races != Races::Ignore).then(|| Log::with_window(total, window)),
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
            changes: 0,
            race_fault: None,
            involved: Vec::new(),
            thread_fault: false,
            touched,
            begun: None,
            library_touches: options.library_touches.then(Vec::new),
            usage: options
                .recorder
                .as_ref()
                .filter(|r| r.wants_usage())
                .map(|_| Usage::new(&config.geometry)),
            written_files: Default::default(),
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
    pub fn namer(&self) -> crate::trace::export::Namer {
        let (image, program) = (Arc::clone(&self.image), Arc::clone(&self.program));
        Arc::new(move |stream, pc| {
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

    /// The program as the sequencers see it.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
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
        self.usage = recorder.wants_usage().then(|| Usage::new(&self.config.geometry));
        self.options.recorder = Some(recorder);
    }

    /// Tells the recorder how full the memories were.
    pub fn record_usage(&mut self) {
        if let Some(usage) = self.usage.take() {
            usage.finish(self.end, |r| self.record(&r));
        }
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
                && let Err(e) = self.housekeeping()
            {
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

    pub(super) fn housekeeping(&mut self) -> Result<()> {
        if let Some(flag) = &self.options.interrupt
            && flag.load(Ordering::Relaxed)
        {
            return Err(Error::new(ErrorClass::LimitReached, INTERRUPTED));
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
    pub(super) fn advance(&mut self, until: u64) -> Result<bool> {
        if self.log.as_ref().is_some_and(Log::is_due) {
            self.settle();
        }
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
            .help("--max-cycles raises the limit"));
        }
        tracing::trace!(tick, stream, ?action, "next");
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

    pub(super) fn finish(&mut self, error: Option<Error>) -> Finished {
        self.executor.wait_all();
        let error = match (self.executor.take_fault(), error) {
            (Some(fault), _) => {
                self.thread_fault = true;
                Some(fault.error)
            }
            (None, e) => e,
        };
        let mut remarks = Vec::new();
        if let Some(e) = &error
            && self.involved.is_empty()
        {
            self.involved = self.places_of(e);
        }
        let error = error.or_else(|| {
            remarks = self.conclude();
            self.race_fault.take()
        });
        Finished {
            involved: std::mem::take(&mut self.involved),
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

    pub(super) fn checks_races(&self) -> bool {
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

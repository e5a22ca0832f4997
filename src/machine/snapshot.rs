//! The whole state of a machine at one moment, from which any machine of the same program goes on.
//!
//! What the program and the configuration determine (image, decoded words, prepared works) is not
//! part of it. A work is a closure and cannot be written down; a started one is kept as its
//! footprint, one that has not started is made again from its word and the registers it read.
//! Before a snapshot is taken, everything on worker threads is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::agenda::{Action, Agenda, Entry};
use super::dma::DmaEngines;
use super::executor::UNITS;
use super::image::Kind;
use super::options::Involved;
use super::ports::Ports;
use super::power::PowerLimit;
use super::queue::{Job, Queue, Queued};
use super::run::{ENGINE_STREAMS, Machine};
use super::saved::{
    Footprint, Footprints, SavedLog, SavedQueue, SavedStream, load_log, restored, save_log,
    save_queue, save_stream,
};
use super::sp_run::SpState;
use super::stream::{InFlight, Inputs, Pending, Recipe, Stream};
use super::updates::Post;
use crate::check::SyncClocks;
use crate::check::board::Board;
use crate::check::log::Lane;
use crate::engine::{EngineState, Env, Prepared, Work};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::Engine;
use crate::memory::{Access, Space, Validity};
use crate::sync::{SyncId, SyncState};
use crate::trace::usage::Usage;

/// Bytes of memory that are kept or left out together.
pub const CHUNK: u64 = 1 << 15;

/// Chunks of HBM that may differ from zero.
#[derive(Clone, Debug, Default)]
pub struct Touched(BTreeSet<u64>);

impl Touched {
    /// Notes what `accesses` may write.
    pub fn mark(&mut self, accesses: &[Access]) {
        for access in accesses {
            let region = &access.region;
            if access.kind.writes() && region.space == Space::Hbm && region.bytes.end() > 0 {
                self.0.extend(region.bytes.start() / CHUNK..=(region.bytes.end() - 1) / CHUNK);
            }
        }
    }
}

/// A stretch of memory that is not all zero.
#[derive(Clone, Debug)]
pub struct Page {
    /// Memory.
    pub space: Space,
    /// Partition; 0 for HBM.
    pub partition: u32,
    /// First byte in the partition.
    pub byte: u64,
    /// The bytes. Successive snapshots share what has not changed.
    pub bytes: Arc<[u8]>,
}

impl Page {
    fn key(&self) -> (Space, u32, u64) {
        (self.space, self.partition, self.byte)
    }
}

/// A machine at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Tick of the last thing that happened.
    pub tick: u64,
    /// Instructions executed so far.
    pub executed: u64,
    /// Everything but the memory, encoded.
    pub state: Arc<[u8]>,
    /// The memory, in order of address.
    pub pages: Vec<Page>,
}

impl Snapshot {
    /// Bytes it holds, shared pages counted in full.
    pub fn bytes(&self) -> u64 {
        self.state.len() as u64 + self.pages.iter().map(|p| p.bytes.len() as u64).sum::<u64>()
    }
}

macro_rules! state {
    ($($field:ident: $type:ty,)*) => {
        #[derive(Serialize)]
        struct StateRef<'a> {
            $($field: &'a $type,)*
        }

        #[derive(Deserialize)]
        struct State {
            $($field: $type,)*
        }
    };
}

// one list for both directions: the encoding has no names
state! {
    now: u64,
    executed: u64,
    end: u64,
    agenda: Vec<Entry>,
    footprints: Vec<Footprint>,
    streams: Vec<SavedStream>,
    queues: Vec<SavedQueue>,
    dma: DmaEngines,
    ports: Ports,
    power: PowerLimit,
    sp: SpState,
    sync: SyncState,
    clocks: SyncClocks,
    log: Option<SavedLog>,
    last_visible: FxHashMap<(usize, Lane), u64>,
    last_update: FxHashMap<SyncId, (u16, u64)>,
    posts: Vec<Option<Post>>,
    free_posts: Vec<u32>,
    board: Board,
    validity: Option<Validity>,
    tickets: ([u64; UNITS], u64),
    engines: Vec<EngineState>,
    races: Vec<Error>,
    race_pairs: FxHashSet<(usize, u32, usize, u32)>,
    notes: Vec<String>,
    changes: u64,
    involved: Vec<Involved>,
    written_files: BTreeMap<String, Vec<u8>>,
    usage: Option<Usage>,
}

pub(super) fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorClass::ProgramError, format!("the snapshot is damaged: {what}"))
}

impl Machine {
    /// The state as it is now, from which [`Machine::restore`] goes on. Pages that are the same in
    /// `previous` are shared with it.
    ///
    /// # Errors
    /// A work has faulted on a worker thread; the machine was made without
    /// [`Options::snapshots`](super::Options::snapshots).
    pub fn snapshot(&mut self, previous: Option<&Snapshot>) -> Result<Snapshot> {
        self.executor.wait_all();
        if let Some(fault) = self.executor.take_fault() {
            self.thread_fault = true;
            return Err(fault.error);
        }
        let mut footprints = Footprints::default();
        let streams = self.streams.iter().map(|s| save_stream(s, &mut footprints)).collect();
        let queues = self.queues.iter().map(save_queue).collect();
        let log = self.log.as_ref().map(|log| save_log(log, &mut footprints));
        let engines: Vec<EngineState> =
            (0..UNITS).map(|unit| self.executor.with_state(unit, |state| state.clone())).collect();
        let state = StateRef {
            now: &self.now,
            executed: &self.executed,
            end: &self.end,
            agenda: &self.agenda.sorted(),
            footprints: &footprints.list,
            streams: &streams,
            queues: &queues,
            dma: &self.dma,
            ports: &self.ports,
            power: &self.power,
            sp: &self.sp,
            sync: &self.sync,
            clocks: &self.clocks,
            log: &log,
            last_visible: &self.last_visible,
            last_update: &self.last_update,
            posts: &self.posts,
            free_posts: &self.free_posts,
            board: &self.board,
            validity: &self.validity,
            tickets: &self.executor.counters(),
            engines: &engines,
            races: &self.races,
            race_pairs: &self.race_pairs,
            notes: &self.notes,
            changes: &self.changes,
            involved: &self.involved,
            written_files: &self.written_files,
            usage: &self.usage,
        };
        let state = postcard::to_stdvec(&state)
            .map_err(|e| Error::internal(format!("a snapshot cannot be encoded: {e}")))?;
        let (tick, executed) = (self.now, self.executed);
        Ok(Snapshot { tick, executed, state: state.into(), pages: self.pages(previous)? })
    }

    /// The memory that is not zero.
    fn pages(&mut self, previous: Option<&Snapshot>) -> Result<Vec<Page>> {
        let Some(touched) = &self.touched else {
            return Err(Error::internal("snapshots were not asked for when the machine was made"));
        };
        let hbm: Vec<u64> = touched.0.iter().copied().collect();
        let geometry = self.config.geometry.clone();
        let old = previous.map_or(&[][..], |s| &s.pages);
        let memory = self.memory();
        let mut pages: Vec<Page> = Vec::new();
        let mut look = |space: Space, partition: u32, byte: u64| -> Result<()> {
            let len = CHUNK.min(geometry.active(space) - byte);
            let bytes = memory.row(space, partition, byte, len)?;
            if is_zero(bytes) {
                return Ok(());
            }
            let key = (space, partition, byte);
            let same = old.binary_search_by(|p| p.key().cmp(&key)).ok();
            let bytes = match same.map(|i| &old[i].bytes) {
                Some(same) if **same == *bytes => Arc::clone(same),
                _ => bytes.into(),
            };
            pages.push(Page { space, partition, byte, bytes });
            Ok(())
        };
        for space in [Space::Sbuf, Space::Psum] {
            for partition in 0..geometry.partitions(space) {
                for byte in (0..geometry.active(space)).step_by(CHUNK as usize) {
                    look(space, partition, byte)?;
                }
            }
        }
        for chunk in hbm {
            if chunk * CHUNK < geometry.active(Space::Hbm) {
                look(Space::Hbm, 0, chunk * CHUNK)?;
            }
        }
        Ok(pages)
    }

    /// Goes back, or forward, to `snapshot`, which a machine of the same program, configuration
    /// and options took. The recorder is not touched. After an error the machine is of no use.
    ///
    /// # Errors
    /// `ProgramError` if the snapshot does not fit the machine.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.executor.wait_all();
        let state: State = postcard::from_bytes(&snapshot.state).map_err(corrupt)?;
        self.check(&state)?;
        let works: Vec<Arc<Work>> = state.footprints.into_iter().map(restored).collect();
        let work = |n: u32| {
            works.get(n as usize).cloned().ok_or_else(|| corrupt("a footprint is missing"))
        };
        self.now = state.now;
        self.executed = state.executed;
        self.end = state.end;
        self.agenda = Agenda::default();
        for entry in &state.agenda {
            self.agenda.at(entry.tick, entry.stream, entry.action);
        }
        for (s, saved) in state.streams.into_iter().enumerate() {
            self.streams[s] = self.load_stream(s, saved, work)?;
        }
        for (q, saved) in state.queues.into_iter().enumerate() {
            self.queues[q] = self.load_queue(saved)?;
        }
        self.log = state.log.map(|log| load_log(log, self.image.blocks.len(), work)).transpose()?;
        self.dma = state.dma;
        self.ports = state.ports;
        self.power = state.power;
        self.sp = state.sp;
        self.sync = state.sync;
        self.clocks = state.clocks;
        self.last_visible = state.last_visible;
        self.last_update = state.last_update;
        self.posts = state.posts;
        self.free_posts = state.free_posts;
        self.board = state.board;
        self.validity = state.validity;
        self.executor.set_counters(state.tickets.0, state.tickets.1);
        for (unit, mut engine) in state.engines.into_iter().enumerate() {
            self.executor.with_state(unit, |place| {
                // the program's, not the run's
                engine.act.install_table_sets(place.act.table_sets());
                *place = engine;
            });
        }
        self.changes = state.changes;
        self.involved = state.involved;
        self.written_files = state.written_files;
        // followed only where a recorder wants it
        if self.usage.is_some() {
            self.usage = state.usage;
        }
        self.races = state.races;
        self.race_pairs = state.race_pairs;
        self.notes = state.notes;
        self.race_fault = None;
        self.thread_fault = false;
        if let Some(begun) = &mut self.begun {
            begun.clear();
        }
        self.load_pages(&snapshot.pages)
    }

    /// Whether numbers that index something stay in their ranges.
    fn check(&self, state: &State) -> Result<()> {
        let total = self.streams.len() + self.queues.len();
        let expect = |good: bool, what: &str| if good { Ok(()) } else { Err(corrupt(what)) };
        expect(state.streams.len() == self.streams.len(), "number of engines")?;
        expect(state.queues.len() == self.queues.len(), "number of queues")?;
        expect(state.engines.len() == UNITS, "number of engine states")?;
        expect(state.sync.events() == self.sync.events(), "number of events")?;
        expect(state.sync.semaphores() == self.sync.semaphores(), "number of semaphores")?;
        expect(state.log.is_some() == self.checks_races(), "races looked for or not")?;
        expect(state.validity.is_some() == self.validity.is_some(), "memory checked or not")?;
        expect(state.agenda.iter().all(|e| e.stream < total), "an entry of the agenda")?;
        let posts = state.posts.iter().flatten();
        expect(posts.clone().all(|p| usize::from(p.by.0) < total), "an update")?;
        let slots = state.posts.len();
        expect(state.free_posts.iter().all(|&p| (p as usize) < slots), "a free update")?;
        expect(
            state.agenda.iter().all(|e| match e.action {
                Action::Update(slot) => (slot as usize) < slots,
                Action::Complete(_) => e.stream >= ENGINE_STREAMS,
                Action::Head => e.stream < ENGINE_STREAMS,
                Action::Start => true,
            }),
            "an entry of the agenda",
        )?;
        let clocks = state
            .streams
            .iter()
            .map(|s| &s.clock)
            .chain(state.queues.iter().map(|q| &q.clock))
            .chain(state.streams.iter().flat_map(|s| &s.pending).filter_map(|p| p.clock.as_ref()))
            .chain(state.queues.iter().flat_map(|q| &q.jobs).filter_map(|j| j.clock.as_ref()))
            .chain(posts.filter_map(|p| p.clock.as_ref()));
        expect(clocks.into_iter().all(|c| c.streams() == total), "a clock")?;
        if let Some(log) = &state.log {
            expect(log.places.len() == total, "the log")?;
            expect(log.behind.as_ref().is_none_or(|b| b.fits(total)), "the log")?;
            let known = log.acquires.iter().all(|a| a.stream < total)
                && log.changes.iter().all(|c| c.stream < total)
                && log.works.iter().all(|w| w.0 < total && w.1 > 0)
                && log.rung.iter().all(|r| r.queue < total && r.stream < total)
                && log.barriers.iter().all(|b| b.0 < total);
            expect(known, "the log")?;
        }
        Ok(())
    }

    fn load_stream(
        &self,
        s: usize,
        saved: SavedStream,
        work: impl Fn(u32) -> Result<Arc<Work>>,
    ) -> Result<Stream> {
        let mut stream = Stream::new(Engine::ALL[s], self.streams.len() + self.queues.len());
        for p in saved.pending {
            stream.pending.push_back(Pending {
                work: self.make_work(s, p.pc, &p.recipe)?,
                recipe: p.recipe,
                start: p.start,
                pc: p.pc,
                index: p.index,
                number: p.number,
                head: p.head,
                granted: p.granted,
                issue: p.issue,
                waited: p.waited,
                stall: p.stall,
                clock: p.clock,
            });
        }
        for (end, forwarded, footprint) in saved.in_flight {
            stream.in_flight.push(InFlight { end, forwarded, work: work(footprint)? });
        }
        stream.state = saved.state;
        stream.pc = saved.pc;
        stream.registers = saved.registers;
        stream.shapes = saved.shapes;
        stream.blocked = saved.blocked;
        stream.head_since = saved.head_since;
        stream.granted = saved.granted;
        stream.waited = saved.waited;
        stream.stall = saved.stall;
        stream.executed = saved.executed;
        stream.works = saved.works;
        stream.free_at = saved.free_at;
        stream.array = saved.array;
        stream.after_table_load = saved.after_table_load;
        stream.last_end = saved.last_end;
        stream.last_reads = saved.last_reads;
        stream.clock = saved.clock;
        stream.bounds = saved.bounds;
        stream.lap = saved.lap;
        Ok(stream)
    }

    fn load_queue(&self, saved: SavedQueue) -> Result<Queue> {
        let mut queue = Queue::new(self.streams.len() + self.queues.len());
        for j in saved.jobs {
            let job = match j.block {
                Some(b) if b < self.image.blocks.len() => Job::Block(b),
                Some(_) => return Err(corrupt("a block that does not exist")),
                None => {
                    let recipe = Recipe::Word(j.inputs.clone());
                    let s = usize::from(j.trigger.0);
                    match self.make(s, j.pc as usize, &recipe)? {
                        Prepared::Dma(request) => Job::Request(Arc::new(request)),
                        Prepared::Work(_) => return Err(corrupt("a request that is none")),
                    }
                }
            };
            queue.jobs.push_back(Queued {
                job,
                at: j.at,
                trigger: j.trigger,
                pc: j.pc,
                clock: j.clock,
                inputs: j.inputs,
            });
        }
        queue.next = saved.next;
        queue.begun = saved.begun;
        queue.started = saved.started;
        queue.ready = saved.ready;
        queue.busy = saved.busy;
        queue.clock = saved.clock;
        Ok(queue)
    }

    fn make(&self, s: usize, pc: usize, recipe: &Recipe) -> Result<Prepared> {
        let word = self.image.words.get(s).and_then(|words| words.get(pc));
        let Some(word) = word else { return Err(corrupt("a word that does not exist")) };
        let inputs = match recipe {
            Recipe::Library => {
                let words = self.library_words(s, pc);
                return Ok(crate::engine::libraries::library_work(words, &self.config).into());
            }
            Recipe::Word(inputs) => inputs.as_deref(),
        };
        let Kind::Data(prepare) = &word.kind else {
            return Err(corrupt("a word that makes no work"));
        };
        let none = Inputs { registers: [0; 64], shapes: Default::default() };
        let inputs = inputs.unwrap_or(&none);
        let env = Env {
            inst: &word.inst,
            engine: Engine::ALL[s],
            config: &self.config,
            registers: &inputs.registers,
            shapes: &inputs.shapes,
            used_registers: std::cell::Cell::new(false),
        };
        prepare(&env)
    }

    fn make_work(&self, s: usize, pc: usize, recipe: &Recipe) -> Result<Arc<Work>> {
        match self.make(s, pc, recipe)? {
            Prepared::Work(work) => Ok(Arc::new(work)),
            Prepared::Dma(_) => Err(corrupt("a work that is a request")),
        }
    }

    fn load_pages(&mut self, pages: &[Page]) -> Result<()> {
        let geometry = self.config.geometry.clone();
        let hbm: Vec<u64> = self.touched.iter().flat_map(|t| t.0.iter().copied()).collect();
        if let Some(touched) = &mut self.touched {
            let kept = pages.iter().filter(|p| p.space == Space::Hbm);
            touched.0.extend(kept.map(|p| p.byte / CHUNK));
        }
        let mut memory = self.memory();
        for space in [Space::Sbuf, Space::Psum] {
            for partition in 0..geometry.partitions(space) {
                for byte in (0..geometry.active(space)).step_by(CHUNK as usize) {
                    clear(&mut memory, space, partition, byte, geometry.active(space))?;
                }
            }
        }
        for chunk in hbm {
            if chunk * CHUNK < geometry.active(Space::Hbm) {
                let active = geometry.active(Space::Hbm);
                clear(&mut memory, Space::Hbm, 0, chunk * CHUNK, active)?;
            }
        }
        for page in pages {
            let len = page.bytes.len() as u64;
            let row = memory.row_mut(page.space, page.partition, page.byte, len);
            row.map_err(|_| corrupt("memory that does not exist"))?.copy_from_slice(&page.bytes);
        }
        Ok(())
    }
}

/// Clears a chunk, without touching one that is clear: the host then keeps no page for it.
fn clear(
    memory: &mut crate::memory::Lease<'_>,
    space: Space,
    partition: u32,
    byte: u64,
    active: u64,
) -> Result<()> {
    let len = CHUNK.min(active - byte);
    if !is_zero(memory.row(space, partition, byte, len)?) {
        memory.row_mut(space, partition, byte, len)?.fill(0);
    }
    Ok(())
}

fn is_zero(bytes: &[u8]) -> bool {
    static ZERO: [u8; CHUNK as usize] = [0; CHUNK as usize];
    bytes == &ZERO[..bytes.len()]
}

//! State of one instruction stream: its sequencer and its data path.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::array::PeArray;
use super::fault::PcBounds;
use crate::check::Clock;
use crate::engine::cost::{CostQuery, CostRow};
use crate::engine::{ShapeRegister, Work};
use crate::isa::Engine;
use crate::sync::SyncId;
use crate::trace::StallCause;

/// Run state of a stream. (wiki: firmware/seq/run-state)
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum RunState {
    /// The sequencer has a head event coming, or waits as `blocked` says.
    Running,
    /// HALT with the pause bit: can be resumed.
    Paused,
    /// HALT, or a debug halt.
    Halted,
    /// End marker or last word passed.
    Done,
}

/// What keeps the head of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Blocked {
    /// Nothing: a head event is on the agenda.
    No,
    /// Its wait conditions.
    Wait,
    /// Its wait has been granted; the head event that goes on is on the agenda.
    Granted,
    /// No room between sequencer and data path.
    Queue,
}

/// How a work can be made again from the program.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum Recipe {
    /// Its word alone, or with the registers it read (kept only where snapshots are wanted).
    Word(Option<Box<Inputs>>),
    /// Library code of the Q7 cores runs the word.
    Library,
}

/// The registers that an instruction may have read when it was issued.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Inputs {
    /// General registers.
    #[serde(with = "serde_big_array::BigArray")]
    pub registers: [u32; 64],
    /// Tensor-shape registers.
    pub shapes: [ShapeRegister; 4],
}

/// A work that the sequencer has let go and that has not started.
pub struct Pending {
    /// The work.
    pub work: Arc<Work>,
    /// How to make it again.
    pub recipe: Recipe,
    /// When it starts, if that is known.
    pub start: u64,
    /// Instruction index in the image.
    pub pc: usize,
    /// Execution number.
    pub index: u64,
    /// Number of the work in the stream, from 1.
    pub number: u32,
    /// Times so far.
    pub head: u64,
    /// When its wait was satisfied.
    pub granted: u64,
    /// When it was issued.
    pub issue: u64,
    /// What it waited for.
    pub waited: Option<(SyncId, Option<(u16, u64)>)>,
    /// What held it.
    pub stall: Option<StallCause>,
    /// Knowledge of the stream when it was issued.
    pub clock: Option<Clock>,
}

/// A started work whose results may not be there yet.
pub struct InFlight {
    /// When its results are observed by others.
    pub end: u64,
    /// When a later instruction of the same engine can read its results.
    pub forwarded: u64,
    /// Its footprint.
    pub work: Arc<Work>,
}

/// One engine's stream.
pub struct Stream {
    /// Whose.
    pub engine: Engine,
    /// Run state.
    pub state: RunState,
    /// Index of the word at the head.
    pub pc: usize,
    /// General registers.
    pub registers: [u32; 64],
    /// Tensor-shape registers.
    pub shapes: [ShapeRegister; 4],
    /// What keeps the head.
    pub blocked: Blocked,
    /// When the head word came to the head, if it has.
    pub head_since: Option<u64>,
    /// When its wait was granted.
    pub granted: u64,
    /// What it waited for, if it did.
    pub waited: Option<(SyncId, Option<(u16, u64)>)>,
    /// What else held the head.
    pub stall: Option<StallCause>,
    /// Instructions executed.
    pub executed: u64,
    /// Works issued to the data path.
    pub works: u32,
    /// Works issued and not started.
    pub pending: VecDeque<Pending>,
    /// Works started and possibly not complete.
    pub in_flight: SmallVec<[InFlight; 8]>,
    /// Earliest start of the next work.
    pub free_at: u64,
    /// The array (PE).
    pub array: PeArray,
    /// Whether the last work was a table load (ACT).
    pub after_table_load: bool,
    /// When the last started work is complete.
    pub last_end: u64,
    /// When the reads of the last started work are done.
    pub last_reads: u64,
    /// What the stream knows about the others.
    pub clock: Clock,
    /// Legal word addresses.
    pub bounds: PcBounds,
    /// The branch loop it is in, as far as that is known.
    pub lap: super::livelock::Lap,
}

impl Stream {
    /// A stream at its first word.
    pub fn new(engine: Engine, streams: usize) -> Self {
        Stream {
            engine,
            state: RunState::Running,
            pc: 0,
            registers: [0; 64],
            shapes: [ShapeRegister::default(); 4],
            blocked: Blocked::No,
            head_since: None,
            granted: 0,
            waited: None,
            stall: None,
            executed: 0,
            works: 0,
            pending: VecDeque::new(),
            in_flight: SmallVec::new(),
            free_at: 0,
            array: PeArray::default(),
            after_table_load: false,
            last_end: 0,
            last_reads: 0,
            clock: Clock::new(streams),
            bounds: PcBounds::default(),
            lap: super::livelock::Lap::default(),
        }
    }

    /// Earliest tick at which the data path can start a work of cost `query`: works start in order.
    pub fn path_free(&self, query: &CostQuery) -> u64 {
        let free = match query.row {
            CostRow::LoadWeights => self.array.load_free(),
            CostRow::Matmul => self.array.matmul_free(query.cells),
            _ if self.engine == Engine::Pe => self.array.all_free(),
            _ => self.free_at,
        };
        free.max(self.pending.back().map_or(0, |p| p.start))
    }

    /// Earliest tick at or after `from` at which a work with `accesses` may start beside those in
    /// flight: it waits for every result that it reads. Accumulation into what an older one
    /// writes needs no wait: the adder at the memory keeps program order.
    pub fn hazard_free(&self, work: &Work, from: u64) -> u64 {
        let mut start = from;
        for old in &self.in_flight {
            if old.forwarded <= start {
                continue;
            }
            let reads_result = work.accesses.iter().any(|a| {
                a.kind == crate::memory::AccessKind::Read
                    && old
                        .work
                        .accesses
                        .iter()
                        .any(|w| w.kind.writes() && w.region.overlaps(&a.region))
            });
            if reads_result {
                start = old.forwarded;
            }
        }
        start
    }
}

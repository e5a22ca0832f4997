//! The sync skeleton of a program: what every schedule of it has in common.
//!
//! If no branch, address or operand depends on data or on what a sequencer happened to see, each
//! stream executes the same instructions in every schedule. The skeleton is that sequence per
//! stream, unrolled, with waits, updates, DMA jobs, footprints and durations, in arrays indexed by
//! small integers.
//!
//! * [`extract`]: from one run of the machine.
//! * [`exec`]: runs a schedule over the skeleton: no threads, no data, no allocation.
//! * [`fast`]: timing-only campaigns; what they find is confirmed by the machine.
//! * [`conflicts`]: pairs of works that touch the same bytes.
//! * [`classes`]: all schedules, one of each equivalence class.
//! * [`direct`]: delays that make the machine follow a chosen order.
//! * [`graph`], [`prove`]: the order that holds in every schedule, and the proof that the result
//!   does not depend on the schedule.
//!
//! What may be missed: the skeleton has no data and so no faults that data cause, and the durations
//! of library code are those of the run it was taken from.

pub mod certify;
pub mod classes;
pub mod confirm;
pub mod conflicts;
pub mod direct;
pub mod exec;
pub mod extract;
pub mod fast;
pub mod graph;
pub mod prove;
pub mod stagger;

use std::sync::Arc;

use crate::engine::Work;
use crate::engine::cost::CostRow;
use crate::machine::MachineConfig;
use crate::machine::dma::Demand;
use crate::machine::time::Timebase;
use crate::sync::SyncId;

/// Engine streams; DMA queues follow.
pub const ENGINES: usize = crate::machine::run::ENGINE_STREAMS;

/// Index of an event or semaphore among those that the program uses.
pub type Id = u16;

/// A condition before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Which event or semaphore.
    pub id: Id,
    /// The condition.
    pub cond: Cond,
}

/// What a wait asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cond {
    /// `value >= n`
    AtLeast(u32),
    /// `value == n`
    Equal(u32),
    /// `value < n`
    Below(u32),
    /// The event is set; `true` if the wait clears it.
    Set(bool),
    /// The event is clear; `true` if the wait sets it.
    Clear(bool),
}

impl Cond {
    /// Whether it holds for `value`.
    pub fn holds(self, value: u32) -> bool {
        match self {
            Cond::AtLeast(n) => value >= n,
            Cond::Equal(n) => value == n,
            Cond::Below(n) => value < n,
            Cond::Set(_) => value != 0,
            Cond::Clear(_) => value == 0,
        }
    }

    /// Value that the wait itself leaves, if it changes the event.
    pub fn leaves(self) -> Option<u32> {
        match self {
            Cond::Set(true) => Some(0),
            Cond::Clear(true) => Some(1),
            _ => None,
        }
    }
}

/// What an update does to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds, modulo the range of a semaphore.
    Add(u32),
    /// Subtracts.
    Sub(u32),
    /// Writes: also the set and the clear of an event.
    Write(u32),
}

/// In-order ways by which the updates of a stream become visible.
pub const LANES: usize = 3;
/// The sequencer.
pub const SEQUENCER: u8 = 0;
/// The data path, when sources are read.
pub const READS: u8 = 1;
/// The data path or the queue, when results are there.
pub const RESULTS: u8 = 2;

/// An update of an instruction or of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Which event or semaphore.
    pub id: Id,
    /// What it does.
    pub change: Change,
    /// Stream, with the queues.
    pub stream: u16,
    /// Step in the stream; of a job, its index in [`Skeleton::jobs`].
    pub step: u32,
    /// [`SEQUENCER`], [`READS`] or [`RESULTS`].
    pub lane: u8,
    /// When the results are there (`false`: when the sources are read, or at the start).
    pub late: bool,
    /// The word.
    pub pc: u32,
}

/// A change that a sequencer instruction makes at once, within its own step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// Which event or semaphore.
    pub id: Id,
    /// What it does.
    pub change: Change,
    /// Not done if the value is zero already.
    pub unless_zero: bool,
}

/// Positions in one of the arrays of the skeleton.
pub type Span = std::ops::Range<u32>;

/// What an instruction does when it is let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, in no time: a branch label.
    Label,
    /// Hands a work to the data path.
    Work(u32),
    /// The sequencer executes it.
    Control {
        /// Ticks until it is done.
        ticks: u64,
        /// Further ticks until the next word.
        then: u64,
        /// Waits for the data path first.
        drains: bool,
        /// Updates at the start are visible when it begins (`false`: when it ends).
        early: bool,
        /// Changes of events and semaphores made at once, positions in [`Skeleton::instants`].
        instants: Span,
        /// Memory accesses made at once, positions in [`Skeleton::works`].
        touches: Span,
        /// The job it puts into a queue, and after how many ticks.
        rings: Option<(u32, u64)>,
        /// Whether the stream halts.
        halts: bool,
    },
}

/// One executed instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The word.
    pub pc: u32,
    /// Positions in [`Skeleton::waits`]; all must hold together.
    pub waits: Span,
    /// Positions in [`Skeleton::updates`], in the order of the word.
    pub updates: Span,
    /// What it does.
    pub action: Action,
}

/// One work: of a data path, of a queue (a transfer), or an access of a sequencer.
#[derive(Clone)]
pub struct SkeletonWork {
    /// Stream, with the queues.
    pub stream: u16,
    /// Step in the stream; of a transfer, its job in [`Skeleton::jobs`].
    pub step: u32,
    /// Word or block, as reports name it.
    pub pc: u32,
    /// Number of the work in its stream, from 0.
    pub number: u32,
    /// Whether a sequencer makes the access itself.
    pub control: bool,
    /// When the run that the skeleton was taken from started it: position among all works.
    pub order: u32,
    /// Footprint.
    pub work: Arc<Work>,
    /// Ticks the data path is occupied.
    pub busy: u64,
    /// Ticks from there to the next start.
    pub gap: u64,
    /// Ticks from there until the results are observed.
    pub fixed: u64,
    /// Cost row, which decides about the weights of PE and the tables of ACT.
    pub row: CostRow,
    /// Cells of the PE array.
    pub cells: u16,
    /// Ports it needs.
    pub ports: (bool, u64),
    /// Whether the sequencer waits until it started before it issues the next.
    pub blocks: bool,
    /// Older works of the same data path whose results it reads, the latest first; positions in
    /// [`Skeleton::links`].
    pub reads_of: Span,
    /// Works that must be done before it starts, positions in [`Skeleton::pairs`].
    pub after: Span,
}

/// A work that must be done, in the order of the plain run, before another starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The earlier work.
    pub earlier: u32,
    /// Whether its results matter, or only its reads.
    pub writes: bool,
}

/// A DMA job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Index of its queue.
    pub queue: u16,
    /// Stream and step of the instruction that rings for it.
    pub trigger: (u16, u32),
    /// Its transfers, positions in [`Skeleton::works`].
    pub transfers: Span,
    /// What each of them asks of the DMA engines, positions in [`Skeleton::demands`].
    pub demands: Span,
    /// Updates when the last byte is written, positions in [`Skeleton::updates`].
    pub updates: Span,
    /// Ticks from the doorbell to the first byte.
    pub start: u64,
    /// Word or block, as reports name it.
    pub pc: u32,
    /// Whether an instruction made the request (`false`: a block of the program).
    pub by_instruction: bool,
}

/// A program's sync skeleton.
#[derive(Clone)]
pub struct Skeleton {
    /// Configuration of the machine.
    pub config: Arc<MachineConfig>,
    /// Time base.
    pub time: Timebase,
    /// Steps per engine stream.
    pub steps: [Vec<Step>; ENGINES],
    /// Whether the SP stream is a V1 SP program, which waits in its own way.
    pub sp_program: bool,
    /// Names of the queues.
    pub queues: Vec<String>,
    /// Events and semaphores in use.
    pub ids: Vec<SyncId>,
    /// Waits.
    pub waits: Vec<Wait>,
    /// Updates.
    pub updates: Vec<Update>,
    /// Changes made at once.
    pub instants: Vec<Instant>,
    /// Works.
    pub works: Vec<SkeletonWork>,
    /// See [`SkeletonWork::reads_of`].
    pub links: Vec<u32>,
    /// See [`SkeletonWork::after`].
    pub pairs: Vec<Pair>,
    /// Jobs in the order in which the plain run began them, queue by queue.
    pub jobs: Vec<Job>,
    /// See [`Job::demands`].
    pub demands: Vec<(Demand, u64)>,
    /// Last tick of the plain run.
    pub ticks: u64,
    /// Whether the partitions of a work finish one after the other (V1).
    pub staggered: bool,
    /// DMA barriers: stream and step.
    pub barriers: Vec<(u16, u32)>,
    /// Largest value of a semaphore.
    pub semaphore_max: u32,
    /// What is only approximately so.
    pub approximations: Vec<String>,
}

impl Skeleton {
    /// Steps of all streams.
    pub fn len(&self) -> usize {
        self.steps.iter().map(Vec::len).sum()
    }

    /// Whether nothing is executed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Streams: engines and queues.
    pub fn streams(&self) -> usize {
        ENGINES + self.queues.len()
    }

    /// Name of a stream.
    pub fn stream_name(&self, stream: usize) -> String {
        match crate::isa::Engine::ALL.get(stream) {
            Some(engine) => engine.to_string(),
            None => format!("queue {}", self.queues[stream - ENGINES]),
        }
    }
}

/// The part `span` of `list`.
pub(crate) fn part<'a, T>(list: &'a [T], span: &Span) -> &'a [T] {
    &list[span.start as usize..span.end as usize]
}

//! What the analysis of all schedules needs from one run: waits, updates, DMA jobs and works, each
//! with its place in its stream.
//!
//! A place is the number of the instruction in its stream, from 0 (of the job, for a DMA queue).
//! Updates of one [`Lane`] of a stream become visible in program order; those of different lanes
//! may overtake each other.

use std::sync::Arc;

use super::guarantee::Behind;
use crate::engine::Work;
use crate::sync::{Compare, SyncId};

/// Entries after which a log without a window gives up, and to which a window grows at most: its
/// memory would grow without bound.
pub(crate) const MOST_ENTRIES: usize = 4 << 20;

/// Entries in the window at first; it doubles where the order of its newest entries is open for
/// longer.
pub const WINDOW: usize = 96 << 10;

/// In-order sources of updates within a stream.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Lane {
    /// The sequencer, at the end of a control instruction.
    Sequencer,
    /// The sequencer, within a control instruction (register windows, range clears).
    Immediate,
    /// The data path when sources are read.
    Reads,
    /// The data path, or a DMA queue, when results are there.
    Results,
}

/// What a stream took over at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Got {
    /// A semaphore compare held.
    Semaphore(u16, Compare, u32),
    /// An event had the awaited state; `consumed` if the wait inverted it.
    Event {
        /// Which event.
        event: u16,
        /// The awaited state.
        set: bool,
        /// Whether the wait inverted it.
        consumed: bool,
    },
    /// A DMA queue begins the job that this instruction rang for: stream and place.
    Job(usize, u32),
    /// The stream knows its own works up to this number to be complete.
    Own(u32),
}

/// Something that a stream learns from.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Acquire {
    /// Who.
    pub stream: usize,
    /// Where in the stream.
    pub place: u32,
    /// Word, or block.
    pub pc: u32,
    /// Position among all entries of the run.
    pub order: u64,
    /// What.
    pub got: Got,
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Effect {
    /// Added so much.
    Add(u32),
    /// Took so much from a semaphore.
    Sub(u32),
    /// Wrote a semaphore.
    Write(u32),
    /// Set an event.
    Set,
    /// Cleared an event.
    Clear,
}

/// An update that became visible.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// Who.
    pub stream: usize,
    /// Where in the stream.
    pub place: u32,
    /// By which way.
    pub lane: Lane,
    /// Word, or block.
    pub pc: u32,
    /// Position among all entries of the run.
    pub order: u64,
    /// Of which event or semaphore.
    pub id: SyncId,
    /// What.
    pub effect: Effect,
    /// Whether it passed the end of the range.
    pub wrapped: bool,
    /// Whether it cleared an event that was clear: it took no signal away.
    pub idle: bool,
}

/// A work that started.
#[derive(Clone)]
pub struct Started {
    /// Who.
    pub stream: usize,
    /// Number of the work in its stream, from 1.
    pub work: u32,
    /// Word, or block.
    pub pc: u32,
    /// When.
    pub tick: u64,
    /// Position among all entries of the run.
    pub order: u64,
    /// Its accesses.
    pub footprint: Arc<Work>,
}

/// A job that an instruction put into a DMA queue.
#[derive(Clone)]
pub struct Rung {
    /// Stream of the queue.
    pub queue: usize,
    /// Who rang.
    pub stream: usize,
    /// Where in the stream.
    pub place: u32,
    /// The job.
    pub job: crate::machine::queue::Job,
    /// Ticks from the instruction until the queue sees it.
    pub delay: u64,
}

/// The log of one run, or of its last part: see [`crate::check::guarantee`].
#[derive(Default)]
pub struct Log {
    /// In the order of the run.
    pub acquires: Vec<Acquire>,
    /// In the order of the run.
    pub changes: Vec<Change>,
    /// In the order of simulated starts.
    pub works: Vec<Started>,
    /// In the order of the run; empty once the beginning of the run was left behind.
    pub rung: Vec<Rung>,
    /// For each stream, the place of each of its works.
    pub places: Vec<Vec<u32>>,
    /// DMA barriers that were executed: stream and place.
    pub barriers: Vec<(usize, u32)>,
    /// Whether an instruction looked at an event or semaphore without waiting for it.
    pub polled: bool,
    pub(crate) order: u64,
    pub(crate) full: bool,
    /// Entries at which the beginning is settled and left behind; 0 if it never is.
    pub(crate) window: usize,
    pub(crate) behind: Option<Box<Behind>>,
}

impl Log {
    /// An empty log of `streams` streams that keeps everything, up to a limit.
    pub fn new(streams: usize) -> Self {
        Log { places: vec![Vec::new(); streams], ..Log::default() }
    }

    /// An empty log of `streams` streams that holds about `window` entries at a time.
    pub fn with_window(streams: usize, window: usize) -> Self {
        Log { window, ..Log::new(streams) }
    }

    /// Whether it does not hold the whole run.
    pub fn is_full(&self) -> bool {
        self.full || self.behind.is_some()
    }

    /// Whether the run was too long to be logged as a whole, and its beginning is all there is.
    pub fn gave_up(&self) -> bool {
        self.full
    }

    /// Number of waits, updates and works in it.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.acquires.len() + self.changes.len() + self.works.len()
    }

    /// Whether it is time to settle the beginning and leave it behind.
    pub(crate) fn is_due(&self) -> bool {
        self.window > 0 && self.len() >= self.window
    }

    fn next(&mut self) -> Option<u64> {
        // a window is moved between instructions, so a little more can come before it is
        let most = if self.window > 0 { 2 * MOST_ENTRIES } else { MOST_ENTRIES };
        if self.full || self.len() >= most {
            self.full = true;
            return None;
        }
        self.order += 1;
        Some(self.order)
    }

    /// `stream` learns from `got`.
    pub fn acquire(&mut self, stream: usize, place: u32, pc: u32, got: Got) {
        if let Some(order) = self.next() {
            self.acquires.push(Acquire { stream, place, pc, order, got });
        }
    }

    /// An update is visible; its `order` is filled in.
    pub fn change(&mut self, mut change: Change) {
        if let Some(order) = self.next() {
            change.order = order;
            self.changes.push(change);
        }
    }

    /// The next work of `stream` belongs to `place`.
    pub fn numbered(&mut self, stream: usize, place: u32) {
        if !self.full {
            self.places[stream].push(place);
        }
    }

    /// A work starts; its `order` is filled in.
    pub fn started(&mut self, mut started: Started) {
        if let Some(order) = self.next() {
            started.order = order;
            self.works.push(started);
        }
    }

    /// A job goes into a queue.
    pub fn rings(&mut self, rung: Rung) {
        if !self.is_full() {
            self.rung.push(rung);
        }
    }

    /// Works of `stream` that were left behind.
    pub(crate) fn works_behind(&self, stream: usize) -> u32 {
        self.behind.as_ref().map_or(0, |b| b.works_of(stream))
    }

    /// The place of work `work` of `stream`.
    pub fn place_of(&self, stream: usize, work: u32) -> Option<u32> {
        let at = work.checked_sub(self.works_behind(stream) + 1)?;
        self.places[stream].get(at as usize).copied()
    }

    /// Works of `stream` up to and including `place`.
    pub fn works_until(&self, stream: usize, place: u32) -> u32 {
        let here = self.places[stream].partition_point(|p| *p <= place) as u32;
        self.works_behind(stream) + here
    }
}

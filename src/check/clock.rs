//! Vector clocks over streams, and their transfer through events and semaphores.
//!
//! A stream is an engine or a DMA queue. Its works are numbered from 1 in program order. A
//! [`Clock`] says, for each stream, up to which work the reads and up to which the results are
//! known to be done. An update carries the clock of its instruction; a wait takes over the clock
//! of the updates that its condition needed.
//!
//! Of a semaphore that several streams count up, a wait takes the clocks of the updates that made
//! the condition true in this run: this finds races at once, but only those of this run.
//! [`crate::check::guarantee`] finds after the run those that another schedule would show.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::sync::{Compare, SyncId};

/// Knowledge about the progress of all streams.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Clock {
    // reads and results, interleaved per stream
    known: SmallVec<[u32; 32]>,
}

impl Clock {
    /// Knows nothing about `streams` streams.
    pub fn new(streams: usize) -> Self {
        Clock { known: SmallVec::from_elem(0, streams * 2) }
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        self.known.fill(0);
    }

    /// Number of streams it knows about.
    pub fn streams(&self) -> usize {
        self.known.len() / 2
    }

    /// Last work of `stream` whose reads are known to be done.
    pub fn reads(&self, stream: usize) -> u32 {
        self.known[stream * 2]
    }

    /// Last work of `stream` whose results are known to be there.
    pub fn results(&self, stream: usize) -> u32 {
        self.known[stream * 2 + 1]
    }

    /// Learns that the reads of works up to `work` of `stream` are done.
    pub fn learn_reads(&mut self, stream: usize, work: u32) {
        let k = &mut self.known[stream * 2];
        *k = work.max(*k);
    }

    /// Learns that works up to `work` of `stream` are complete.
    pub fn learn_results(&mut self, stream: usize, work: u32) {
        self.learn_reads(stream, work);
        let k = &mut self.known[stream * 2 + 1];
        *k = work.max(*k);
    }

    /// Takes over all that `other` knows.
    pub fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.known.iter_mut().zip(&other.known) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// Steps of a semaphore that are remembered; a wait for an older one takes a later clock, which
/// can hide a race in very long runs but never invents one.
const REMEMBERED_STEPS: usize = 4096;

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct History {
    // value after each update since the last write or decrement, with all clocks joined so far
    steps: Vec<(u32, Clock)>,
    first: usize,
}

/// The clocks that events and semaphores carry.
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub struct SyncClocks {
    of: FxHashMap<SyncId, History>,
}

impl SyncClocks {
    /// An update of `id` by an instruction with clock `clock` left it at `value`. `grows` is true
    /// for an increment: earlier increments still count for later waits.
    pub fn update(&mut self, id: SyncId, value: u32, grows: bool, clock: Clock) {
        let history = self.of.entry(id).or_default();
        let mut joined = clock;
        if let Some((_, last)) = history.steps.last() {
            joined.join(last);
        }
        if !grows {
            history.steps.clear();
            history.first = 0;
        } else if history.steps.len() - history.first >= 2 * REMEMBERED_STEPS {
            history.steps.drain(..history.first + REMEMBERED_STEPS);
            history.first = 0;
        }
        history.steps.push((value, joined));
    }

    /// The clock that a wait `id <compare> operand` which just came true takes over.
    pub fn acquire(&self, id: SyncId, compare: Option<(Compare, u32)>) -> Option<&Clock> {
        let steps = &self.of.get(&id)?.steps;
        let needed = match compare {
            Some((c @ (Compare::Ge | Compare::Gt | Compare::Eq), operand)) => {
                let at = steps.partition_point(|(value, _)| {
                    if c == Compare::Gt { *value <= operand } else { *value < operand }
                });
                steps.get(at).or(steps.last())
            }
            _ => steps.last(),
        };
        needed.map(|(_, clock)| clock)
    }
}

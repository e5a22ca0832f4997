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

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sync::{Compare, SyncId};

/// Knowledge about the progress of all streams. Copies share it until one of them learns more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    // reads and results, interleaved per stream
    known: Arc<[u32]>,
}

impl Serialize for Clock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known.as_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Clock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let known = Vec::<u32>::deserialize(deserializer)?;
        Ok(Clock { known: known.into() })
    }
}

impl Clock {
    /// Knows nothing about `streams` streams.
    pub fn new(streams: usize) -> Self {
        Clock { known: vec![0; streams * 2].into() }
    }

    /// Reads and results of each stream in turn.
    pub(crate) fn numbers(&mut self) -> &mut [u32] {
        Arc::make_mut(&mut self.known)
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
        if self.known[stream * 2] < work {
            self.numbers()[stream * 2] = work;
        }
    }

    /// Learns that works up to `work` of `stream` are complete.
    pub fn learn_results(&mut self, stream: usize, work: u32) {
        let [reads, results] = [self.known[stream * 2], self.known[stream * 2 + 1]];
        if reads < work || results < work {
            let known = &mut self.numbers()[stream * 2..][..2];
            known[0] = reads.max(work);
            known[1] = results.max(work);
        }
    }

    /// Takes over all that `other` knows.
    pub fn join(&mut self, other: &Clock) {
        if Arc::ptr_eq(&self.known, &other.known) {
            return;
        }
        let (mut more, mut less) = (false, false);
        for (mine, theirs) in self.known.iter().zip(&other.known[..]) {
            more |= theirs > mine;
            less |= theirs < mine;
        }
        if more && !less && self.known.len() == other.known.len() {
            self.known = Arc::clone(&other.known);
        } else if more {
            for (mine, theirs) in self.numbers().iter_mut().zip(&other.known[..]) {
                *mine = (*mine).max(*theirs);
            }
        }
    }
}

/// Steps of a semaphore that are remembered; a wait for an older one takes a later clock, which
/// can hide a race in very long runs but never invents one.
const REMEMBERED_STEPS: usize = 4096;

#[derive(Default, Serialize, Deserialize)]
struct History {
    // value after each update since the last write or decrement, with all clocks joined so far
    steps: Vec<(u32, Clock)>,
    first: usize,
}

/// The clocks that events and semaphores carry.
#[derive(Default, Serialize, Deserialize)]
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

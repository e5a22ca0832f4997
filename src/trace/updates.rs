//! Where the latest updates of events and semaphores came from, for arrows: bounded memory.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::record::SyncRecord;
use crate::sync::SyncId;

/// Updates remembered for each event or semaphore. A wait names one that was visible when it was
/// satisfied; its record comes at most one queue depth of instructions later.
const REMEMBERED: usize = 256;

/// Who made an update: stream and execution.
pub type By = (u16, u64);

type Ring<T> = VecDeque<(By, u64, T)>;

/// The latest updates of each event and semaphore, with something attached to each.
#[derive(Clone, Debug)]
pub struct Updates<T> {
    rings: FxHashMap<SyncId, Ring<T>>,
}

impl<T> Default for Updates<T> {
    fn default() -> Self {
        Updates { rings: FxHashMap::default() }
    }
}

impl<T> Updates<T> {
    /// Remembers an update; hands back what was attached to the one it forgets.
    pub fn add(&mut self, s: &SyncRecord, attached: T) -> Option<T> {
        let ring = self.rings.entry(s.id).or_default();
        let forgotten = if ring.len() == REMEMBERED { ring.pop_front() } else { None };
        ring.push_back((s.by, s.tick, attached));
        forgotten.map(|(_, _, attached)| attached)
    }

    /// The tick of the last update of `id` by `by` that was visible at `at`, and what is attached.
    pub fn find(&self, id: SyncId, by: By, at: u64) -> Option<(u64, &T)> {
        let ring = self.rings.get(&id)?;
        ring.iter().rev().find(|(b, t, _)| *b == by && *t <= at).map(|(_, t, a)| (*t, a))
    }
}

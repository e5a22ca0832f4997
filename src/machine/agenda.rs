//! The agenda: what happens next in simulated time.
//!
//! Total order of all changes: tick, then phase, then stream, then order of entry. Updates of a
//! tick come before the streams look at them; within a phase the lower engine number goes first
//! (OPEN: sync choices 8 to 10).

use std::collections::BinaryHeap;

/// What is to be done.
#[derive(
    serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum Action {
    /// An update of a finished instruction becomes visible. Index into the machine's pending list.
    Update(u32),
    /// A work is complete: (stream, work number).
    Complete(u32),
    /// A started work begins on the data path or a transfer begins.
    Start,
    /// The sequencer of the stream looks at its head.
    Head,
}

impl Action {
    fn phase(self) -> u8 {
        match self {
            Action::Update(_) => 0,
            Action::Complete(_) => 1,
            Action::Start => 2,
            Action::Head => 2,
        }
    }
}

/// One entry of the agenda.
#[derive(serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub tick: u64,
    /// Whose.
    pub stream: usize,
    /// What.
    pub action: Action,
}

/// Bits of the order of entry, and of the stream, in [`Key::order`].
const ENTRY_BITS: u32 = 42;
const STREAM_BITS: u32 = 20;

/// An entry with what decides its turn in two numbers.
#[derive(Clone, Copy)]
struct Key {
    tick: u64,
    /// Phase, stream, order of entry.
    order: u64,
    action: Action,
}

impl Key {
    fn turn(&self) -> (u64, u64) {
        (self.tick, self.order)
    }

    fn entry(self) -> Entry {
        let stream = (self.order >> ENTRY_BITS) as usize & ((1 << STREAM_BITS) - 1);
        Entry { tick: self.tick, stream, action: self.action }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    /// The earlier turn is the greater key, so that the heap gives it first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.turn().cmp(&self.turn())
    }
}

/// Future entries, the earliest first.
#[derive(Default)]
pub struct Agenda {
    heap: BinaryHeap<Key>,
    entered: u64,
}

impl Agenda {
    /// Enters `action` of `stream` at `tick`.
    pub fn at(&mut self, tick: u64, stream: usize, action: Action) {
        self.entered += 1;
        let order = u64::from(action.phase()) << (ENTRY_BITS + STREAM_BITS)
            | (stream as u64) << ENTRY_BITS
            | self.entered & ((1 << ENTRY_BITS) - 1);
        self.heap.push(Key { tick, order, action });
    }

    /// Tick of the earliest entry.
    pub fn next_tick(&self) -> Option<u64> {
        self.heap.peek().map(|e| e.tick)
    }

    /// Takes the earliest entry.
    pub fn pop(&mut self) -> Option<Entry> {
        self.heap.pop().map(Key::entry)
    }

    /// All future entries, the earliest first: the order in which [`Agenda::at`] enters them again.
    pub fn sorted(&self) -> Vec<Entry> {
        let mut keys: Vec<Key> = self.heap.iter().copied().collect();
        keys.sort_unstable_by_key(Key::turn);
        keys.into_iter().map(Key::entry).collect()
    }

    /// The earliest entry.
    pub fn peek(&self) -> Option<Entry> {
        self.heap.peek().copied().map(Key::entry)
    }

    /// Number of future entries.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is left to happen.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_break_by_phase_then_stream() {
        let mut agenda = Agenda::default();
        agenda.at(5, 1, Action::Head);
        agenda.at(5, 0, Action::Head);
        agenda.at(5, 3, Action::Update(0));
        agenda.at(4, 4, Action::Head);
        let order: Vec<_> =
            std::iter::from_fn(|| agenda.pop()).map(|e| (e.tick, e.stream)).collect();
        assert_eq!(order, [(4, 4), (5, 3), (5, 0), (5, 1)]);
    }
}

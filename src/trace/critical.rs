//! The critical path, found while the run goes on: for every instruction the path that led to its
//! start, as ticks per stream. A path goes from an instruction to the one whose update released
//! it, else to its predecessor in the stream, else (a DMA transfer) to its trigger.

use std::collections::VecDeque;

use smallvec::{SmallVec, smallvec};

use super::record::{InstRecord, Record, TransferRecord};
use super::updates::Updates;

/// Executions remembered per stream, until their updates and triggers are seen.
const REMEMBERED: usize = 512;

/// Ticks by stream, and at the end the ticks between an update and its effect.
type Path = SmallVec<[u64; 16]>;

#[derive(Clone, Debug)]
struct Node {
    index: u64,
    start: u64,
    end: u64,
    // the path to the start
    path: Path,
}

/// Finds the critical path.
#[derive(Clone, Debug, Default)]
pub struct CriticalPath {
    width: usize,
    recent: Vec<VecDeque<Node>>,
    updates: Updates<Option<(u64, u64, Path)>>,
    longest: (u64, Path),
}

impl CriticalPath {
    /// For so many streams.
    pub fn new(streams: usize) -> Self {
        CriticalPath {
            width: streams + 1,
            recent: vec![VecDeque::new(); streams],
            updates: Updates::default(),
            longest: (0, smallvec![0; streams + 1]),
        }
    }

    /// Takes a record.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => self.transfer(t),
            Record::Sync(s) => {
                let by = self.node(s.by).map(|n| (n.start, n.end, n.path.clone()));
                self.updates.add(s, by);
            }
            _ => {}
        }
    }

    fn node(&self, (stream, index): (u16, u64)) -> Option<&Node> {
        let ring = self.recent.get(usize::from(stream))?;
        ring.iter().rev().find(|n| n.index == index)
    }

    /// The path to `at` in stream `s`, coming from `stream`'s work between `start` and `end`.
    fn extend(&self, from: (usize, u64, u64, &Path), s: usize, handed: u64, at: u64) -> Path {
        let (stream, start, end, path) = from;
        let mut path = path.clone();
        let handed = handed.clamp(start, at.max(start));
        let work = handed.min(end.max(start)) - start;
        path[stream] += work;
        path[self.width - 1] += handed - start - work;
        path[s] += at.saturating_sub(handed);
        path
    }

    fn instruction(&mut self, i: &InstRecord) {
        let s = usize::from(i.stream);
        if s >= self.recent.len() {
            return;
        }
        // what it was held by after its issue came later than the end of its wait
        let released = i.waited.filter(|_| i.granted > i.head && i.start == i.issue);
        let mut path = None;
        if let Some((id, Some(by))) = released
            && let Some((tick, Some((start, end, p)))) = self.updates.find(id, by, i.granted)
        {
            path = Some(self.extend((usize::from(by.0), *start, *end, p), s, tick, i.start));
        }
        let path = path.unwrap_or_else(|| self.after_predecessor(s, i.start));
        self.push(s, Node { index: i.index, start: i.start, end: i.end, path });
    }

    fn after_predecessor(&self, s: usize, at: u64) -> Path {
        match self.recent[s].back() {
            Some(n) if n.start <= at => {
                let mut path = n.path.clone();
                path[s] += at - n.start;
                path
            }
            _ => {
                let mut path: Path = smallvec![0; self.width];
                path[s] = at;
                path
            }
        }
    }

    fn transfer(&mut self, t: &TransferRecord) {
        let s = usize::from(t.stream);
        if s >= self.recent.len() {
            return;
        }
        let previous = self.recent[s].back().map_or(0, |n| n.end);
        let path = match self.node(t.trigger) {
            Some(n) if previous <= t.queued => {
                let from = (usize::from(t.trigger.0), n.start, n.end, &n.path);
                self.extend(from, s, t.queued, t.start)
            }
            _ => self.after_predecessor(s, t.start),
        };
        self.push(s, Node { index: t.index, start: t.start, end: t.end, path });
    }

    fn push(&mut self, s: usize, node: Node) {
        if node.end >= self.longest.0 {
            let mut path = node.path.clone();
            path[s] += node.end.saturating_sub(node.start);
            self.longest = (node.end, path);
        }
        let ring = &mut self.recent[s];
        if ring.len() == REMEMBERED {
            ring.pop_front();
        }
        ring.push_back(node);
    }

    /// Ticks of the path that ends last: per stream, and between updates and their effects.
    pub fn finish(mut self) -> (Vec<u64>, u64) {
        let sync = self.longest.1.pop().unwrap_or(0);
        (self.longest.1.into_vec(), sync)
    }
}

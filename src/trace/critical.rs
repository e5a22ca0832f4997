//! The critical path, found while the run goes on: for every instruction the path that led to its
//! start, as ticks per stream. A path goes from an instruction to the one whose update released
//! it, else to its predecessor in the stream, else (a DMA transfer) to its trigger.

use std::collections::VecDeque;

use super::record::{InstRecord, Record, TransferRecord};
use super::updates::Updates;

/// Executions remembered per stream, until their updates and triggers are seen.
const REMEMBERED: usize = 512;

/// Ticks by stream, and at the end the ticks between an update and its effect.
type Path = Vec<u64>;

#[derive(Clone, Debug)]
struct Node {
    index: u64,
    start: u64,
    end: u64,
    // the path to the start
    path: Path,
}

/// The latest executions of one stream.
#[derive(Clone, Debug, Default)]
struct Recent {
    ring: VecDeque<Node>,
    // none in the ring has a higher index
    newest: u64,
}

/// Finds the critical path. Paths that are forgotten lend their buffers to new ones, so that a
/// long run allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct CriticalPath {
    width: usize,
    recent: Vec<Recent>,
    updates: Updates<Option<(u64, u64, Path)>>,
    longest: (u64, Path),
    spare: Vec<Path>,
}

/// A copy of `path` in a buffer that is spare.
fn copy(spare: &mut Vec<Path>, path: &[u64]) -> Path {
    let mut to = spare.pop().unwrap_or_default();
    to.clear();
    to.extend_from_slice(path);
    to
}

impl CriticalPath {
    /// For so many streams.
    pub fn new(streams: usize) -> Self {
        CriticalPath {
            width: streams + 1,
            recent: vec![Recent::default(); streams],
            updates: Updates::default(),
            longest: (0, vec![0; streams + 1]),
            spare: Vec::new(),
        }
    }

    /// Takes a record.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => self.transfer(t),
            Record::Sync(s) => {
                let by = match node(&self.recent, s.by) {
                    Some(n) => Some((n.start, n.end, copy(&mut self.spare, &n.path))),
                    None => None,
                };
                if let Some(Some((_, _, path))) = self.updates.add(s, by) {
                    self.spare.push(path);
                }
            }
            _ => {}
        }
    }

    fn instruction(&mut self, i: &InstRecord) {
        let s = usize::from(i.stream);
        if s >= self.recent.len() {
            return;
        }
        // what it was held by after its issue came later than the end of its wait
        let released = i.waited.filter(|_| i.granted > i.head && i.start == i.issue);
        let spare = &mut self.spare;
        let mut path = None;
        if let Some((id, Some(by))) = released
            && let Some((tick, Some((start, end, p)))) = self.updates.find(id, by, i.granted)
        {
            let mut p = copy(spare, p);
            extend(&mut p, (usize::from(by.0), *start, *end), s, tick, i.start);
            path = Some(p);
        }
        let path = path.unwrap_or_else(|| self.after_predecessor(s, i.start));
        self.push(s, Node { index: i.index, start: i.start, end: i.end, path });
    }

    fn after_predecessor(&mut self, s: usize, at: u64) -> Path {
        match self.recent[s].ring.back() {
            Some(n) if n.start <= at => {
                let mut path = copy(&mut self.spare, &n.path);
                path[s] += at - n.start;
                path
            }
            _ => {
                let mut path = self.spare.pop().unwrap_or_default();
                path.clear();
                path.resize(self.width, 0);
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
        let previous = self.recent[s].ring.back().map_or(0, |n| n.end);
        let path = match node(&self.recent, t.trigger) {
            Some(n) if previous <= t.queued => {
                let mut path = copy(&mut self.spare, &n.path);
                let from = (usize::from(t.trigger.0), n.start, n.end);
                extend(&mut path, from, s, t.queued, t.start);
                path
            }
            _ => self.after_predecessor(s, t.start),
        };
        self.push(s, Node { index: t.index, start: t.start, end: t.end, path });
    }

    fn push(&mut self, s: usize, node: Node) {
        if node.end >= self.longest.0 {
            self.longest.0 = node.end;
            self.longest.1.clone_from(&node.path);
            self.longest.1[s] += node.end.saturating_sub(node.start);
        }
        let recent = &mut self.recent[s];
        recent.newest = recent.newest.max(node.index);
        if recent.ring.len() == REMEMBERED
            && let Some(forgotten) = recent.ring.pop_front()
        {
            self.spare.push(forgotten.path);
        }
        recent.ring.push_back(node);
    }

    /// Ticks of the path that ends last: per stream, and between updates and their effects.
    pub fn finish(mut self) -> (Vec<u64>, u64) {
        let sync = self.longest.1.pop().unwrap_or(0);
        (self.longest.1, sync)
    }
}

fn node(recent: &[Recent], (stream, index): (u16, u64)) -> Option<&Node> {
    let recent = recent.get(usize::from(stream))?;
    if index > recent.newest {
        return None;
    }
    recent.ring.iter().rev().find(|n| n.index == index)
}

/// Leads `path` on to `at` in stream `s`, coming from a work (stream, start, end) whose update
/// was visible at `handed`.
fn extend(path: &mut Path, from: (usize, u64, u64), s: usize, handed: u64, at: u64) {
    let (stream, start, end) = from;
    let handed = handed.clamp(start, at.max(start));
    let work = handed.min(end.max(start)) - start;
    path[stream] += work;
    if let Some(between) = path.last_mut() {
        *between += handed - start - work;
    }
    path[s] += at.saturating_sub(handed);
}

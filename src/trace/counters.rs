//! Values over time that follow from the records: DMA activity and use of the PE array.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::record::{InstRecord, Record, TransferRecord};

/// State of the DMA engines from `tick` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DmaPoint {
    /// When.
    pub tick: u64,
    /// Transfers between first and last byte.
    pub active: u64,
    /// Bytes per tick of these.
    pub bytes_per_tick: f64,
    /// Bytes of all transfers that are over.
    pub total_bytes: u64,
}

/// Follows the transfers, which come in the order of their starts.
#[derive(Debug, Default)]
pub struct DmaActivity {
    // end, bytes, rate in bytes per 2^20 ticks
    running: BinaryHeap<Reverse<(u64, u64, u64)>>,
    rate: u64,
    total: u64,
}

const RATE_UNIT: u64 = 1 << 20;

impl DmaActivity {
    fn point(&self, tick: u64) -> DmaPoint {
        DmaPoint {
            tick,
            active: self.running.len() as u64,
            bytes_per_tick: self.rate as f64 / RATE_UNIT as f64,
            total_bytes: self.total,
        }
    }

    /// Ends what is over before `tick`.
    pub fn advance(&mut self, tick: u64, mut each: impl FnMut(DmaPoint)) {
        while let Some(&Reverse((end, bytes, rate))) = self.running.peek() {
            if end > tick {
                break;
            }
            self.running.pop();
            self.rate = self.rate.saturating_sub(rate);
            self.total = self.total.saturating_add(bytes);
            if self.running.peek().is_none_or(|Reverse((next, ..))| *next != end) {
                each(self.point(end));
            }
        }
    }

    /// A transfer starts.
    pub fn add(&mut self, t: &TransferRecord, each: impl FnMut(DmaPoint)) {
        self.moves(t.start, t.end, t.bytes, each);
    }

    /// `bytes` move between `start` and `end`.
    pub fn moves(&mut self, start: u64, end: u64, bytes: u64, mut each: impl FnMut(DmaPoint)) {
        self.advance(start, &mut each);
        let ticks = end.saturating_sub(start).max(1);
        let rate = u128::from(bytes) * u128::from(RATE_UNIT) / u128::from(ticks);
        // a rate beyond what 64 bits hold comes from no machine
        let rate = u64::try_from(rate).unwrap_or(u64::MAX >> 16).min(u64::MAX >> 16);
        self.running.push(Reverse((end, bytes, rate)));
        self.rate = self.rate.saturating_add(rate);
        each(self.point(start));
    }
}

/// How many transfers wait or run in a queue, and in all, from `tick` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthPoint {
    /// When.
    pub tick: u64,
    /// Stream of the queue that changed.
    pub stream: u16,
    /// Transfers in it.
    pub depth: u64,
    /// Transfers in all queues.
    pub total: u64,
}

/// Follows the depth of the queues: a transfer counts from its doorbell to its last byte.
#[derive(Debug, Default)]
pub struct QueueDepth {
    // changes to come: tick, stream, transfers that leave (false) or enter (true)
    changes: BinaryHeap<Reverse<(u64, u16, bool, u64)>>,
    depth: HashMap<u16, u64>,
    total: u64,
}

impl QueueDepth {
    /// Takes a record, and gives what is certain by then.
    pub fn add(&mut self, record: &Record, each: impl FnMut(DepthPoint)) {
        match record {
            Record::Queued { tick, stream, transfers, .. } => {
                self.changes.push(Reverse((*tick, *stream, true, u64::from(*transfers))));
            }
            Record::Transfer(t) => self.changes.push(Reverse((t.end, t.stream, false, 1))),
            // these come at their own time; nothing before it can be told any more
            Record::Sync(s) => self.advance(s.tick, each),
            Record::Inst(i) => self.advance(i.start, each),
            _ => {}
        }
    }

    /// Gives all changes before `tick`.
    pub fn advance(&mut self, tick: u64, mut each: impl FnMut(DepthPoint)) {
        while let Some(&Reverse((at, stream, enter, n))) = self.changes.peek() {
            if at >= tick {
                break;
            }
            self.changes.pop();
            let depth = self.depth.entry(stream).or_default();
            // a part of a trace may not know when what ends now was queued
            let change = if enter { n } else { n.min(*depth) };
            if enter {
                *depth += change;
                self.total += change;
            } else {
                *depth -= change;
                self.total -= change;
            }
            let point = DepthPoint { tick: at, stream, depth: *depth, total: self.total };
            let next = self.changes.peek().map(|Reverse((t, s, ..))| (*t, *s));
            if next != Some((at, stream)) {
                each(point);
            }
        }
    }
}

/// Use of the PE array in windows of equal length.
#[derive(Debug)]
pub struct PeUse {
    window: u64,
    peak_per_tick: f64,
    /// FLOPs of windows that later instructions may add to: tiles of the array work side by side,
    /// so an instruction can start before the one ahead of it ends.
    open: BTreeMap<u64, f64>,
    last: f64,
}

impl PeUse {
    /// Windows of `window` ticks; `peak_per_tick` FLOPs are 100 %.
    pub fn new(window: u64, peak_per_tick: f64) -> Self {
        PeUse { window: window.max(1), peak_per_tick, open: BTreeMap::new(), last: -1.0 }
    }

    /// Takes an instruction of the PE, in order of their starts; gives (tick, percent) for each
    /// window that is complete and whose value differs from the one before.
    pub fn add(&mut self, i: &InstRecord, each: impl FnMut(u64, f64)) {
        if i.flops == 0 {
            return;
        }
        self.close_before(i.start / self.window, each);
        let per_tick = i.flops as f64 / i.busy_until.saturating_sub(i.start).max(1) as f64;
        let (mut from, to) = (i.start, i.busy_until.max(i.start + 1));
        while from < to {
            let window = from / self.window;
            let until = to.min((window + 1) * self.window);
            *self.open.entry(window).or_default() += per_tick * (until - from) as f64;
            from = until;
        }
    }

    /// Gives the values of the windows that are left.
    pub fn close(&mut self, each: impl FnMut(u64, f64)) {
        self.close_before(u64::MAX, each);
    }

    fn close_before(&mut self, end: u64, mut each: impl FnMut(u64, f64)) {
        while let Some((&window, &flops)) = self.open.first_key_value().filter(|w| *w.0 < end) {
            self.open.pop_first();
            self.give(window, flops, &mut each);
            let next = self.open.first_key_value().map_or(end, |w| *w.0);
            if next > window + 1 && next < u64::MAX {
                self.give(window + 1, 0.0, &mut each);
            }
        }
    }

    fn give(&mut self, window: u64, flops: f64, each: &mut impl FnMut(u64, f64)) {
        let percent = 100.0 * flops / (self.peak_per_tick * self.window as f64).max(1e-30);
        if percent != self.last {
            self.last = percent;
            each(window * self.window, percent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matmul(start: u64, busy_until: u64, flops: u64) -> InstRecord {
        InstRecord {
            stream: 0,
            pc: 0,
            index: 0,
            opcode: 2,
            data_path: true,
            head: start,
            granted: start,
            issue: start,
            start,
            busy_until,
            reads_done: busy_until,
            end: busy_until,
            waited: None,
            stall: None,
            bytes: [0; 2],
            by_memory: [[0; 2]; 3],
            flops,
        }
    }

    #[test]
    fn tiles_side_by_side_use_the_array_once() {
        let mut points = Vec::new();
        let mut pe = PeUse::new(10, 4.0);
        // two tiles, each half of the array: one ends in a later window than the other starts in
        pe.add(&matmul(0, 20, 40), |t, p| points.push((t, p)));
        pe.add(&matmul(5, 25, 40), |t, p| points.push((t, p)));
        pe.add(&matmul(50, 60, 40), |t, p| points.push((t, p)));
        pe.close(|t, p| points.push((t, p)));
        assert_eq!(points, [(0, 75.0), (10, 100.0), (20, 25.0), (30, 0.0), (50, 100.0)]);
    }
}

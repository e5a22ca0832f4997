//! Values over time that follow from the records: DMA activity and use of the PE array.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::record::{InstRecord, TransferRecord};

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
            self.rate -= rate;
            self.total += bytes;
            if self.running.peek().is_none_or(|Reverse((next, ..))| *next != end) {
                each(self.point(end));
            }
        }
    }

    /// A transfer starts.
    pub fn add(&mut self, t: &TransferRecord, mut each: impl FnMut(DmaPoint)) {
        self.advance(t.start, &mut each);
        let ticks = t.end.saturating_sub(t.start).max(1);
        let rate = (u128::from(t.bytes) * u128::from(RATE_UNIT) / u128::from(ticks)) as u64;
        self.running.push(Reverse((t.end, t.bytes, rate)));
        self.rate += rate;
        each(self.point(t.start));
    }
}

/// Use of the PE array in windows of equal length.
#[derive(Debug)]
pub struct PeUse {
    window: u64,
    peak_per_tick: f64,
    at: u64,
    flops: f64,
    last: f64,
}

impl PeUse {
    /// Windows of `window` ticks; `peak_per_tick` FLOPs are 100 %.
    pub fn new(window: u64, peak_per_tick: f64) -> Self {
        PeUse { window: window.max(1), peak_per_tick, at: 0, flops: 0.0, last: -1.0 }
    }

    /// Takes an instruction of the PE; gives (tick, percent) for each window that is complete and
    /// whose value differs from the one before.
    pub fn add(&mut self, i: &InstRecord, mut each: impl FnMut(u64, f64)) {
        if i.flops == 0 {
            return;
        }
        let per_tick = i.flops as f64 / i.busy_until.saturating_sub(i.start).max(1) as f64;
        let (mut from, to) = (i.start, i.busy_until.max(i.start + 1));
        while from < to {
            let window = from / self.window;
            if window > self.at {
                self.close(&mut each);
                if window > self.at + 1 {
                    self.at += 1;
                    self.close(&mut each);
                }
                self.at = window;
            }
            let until = to.min((window + 1) * self.window);
            self.flops += per_tick * (until - from) as f64;
            from = until;
        }
    }

    /// Gives the value of the last window.
    pub fn close(&mut self, mut each: impl FnMut(u64, f64)) {
        let percent = 100.0 * self.flops / (self.peak_per_tick * self.window as f64).max(1e-30);
        self.flops = 0.0;
        if percent != self.last {
            self.last = percent;
            each(self.at * self.window, percent);
        }
    }
}

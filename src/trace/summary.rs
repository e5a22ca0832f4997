//! Summary of a run, made from its records: per engine what it did and why it waited.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::record::{InstRecord, Record, Recorder, StallCause, TraceHeader};
use crate::sync::SyncId;

/// Ticks by cause of waiting.
pub type Stalls = BTreeMap<StallCause, u64>;

/// What one stream did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamSummary {
    /// Stream name.
    pub name: String,
    /// Instructions executed (transfers, for a DMA queue).
    pub instructions: u64,
    /// Of these, data-path instructions.
    pub data_path: u64,
    /// Ticks in which the data path (or a transfer) was active.
    pub busy_ticks: u64,
    /// Ticks in which it was not, by cause, up to the stream's last instruction.
    pub stall_ticks: Stalls,
    /// Bytes read by the data path.
    pub bytes_read: u64,
    /// Bytes written by the data path.
    pub bytes_written: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// When its last instruction was complete.
    pub end_tick: u64,
    #[serde(skip)]
    busy_until: u64,
}

/// Gathers the summary while a run goes on; constant memory per stream.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    streams: Vec<StreamSummary>,
}

impl SummaryBuilder {
    /// For the streams of `header`.
    pub fn new(header: &TraceHeader) -> Self {
        let stream =
            |name: &String| StreamSummary { name: name.clone(), ..StreamSummary::default() };
        SummaryBuilder { streams: header.streams.iter().map(stream).collect() }
    }

    /// Takes one record.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => {
                let s = &mut self.streams[usize::from(t.stream)];
                s.instructions += 1;
                s.data_path += 1;
                s.busy_ticks += t.end.saturating_sub(t.start.max(s.busy_until));
                s.busy_until = s.busy_until.max(t.end);
                s.bytes_read += t.bytes;
                s.bytes_written += t.bytes;
                s.end_tick = s.end_tick.max(t.end);
            }
            Record::Sync(_) | Record::Note { .. } => {}
        }
    }

    fn instruction(&mut self, i: &InstRecord) {
        let s = &mut self.streams[usize::from(i.stream)];
        s.instructions += 1;
        s.end_tick = s.end_tick.max(i.end);
        // the idle time since the data path became free, cut at the moments of this instruction
        let free = s.busy_until;
        let mut blame = |cause: StallCause, from: u64, to: u64| {
            let ticks = to.saturating_sub(from.max(free));
            if ticks > 0 {
                *s.stall_ticks.entry(cause).or_default() += ticks;
            }
        };
        let wait = match i.waited {
            Some((SyncId::Event(_), _)) => StallCause::Event,
            _ => StallCause::Semaphore,
        };
        let (granted, issue) = (i.granted.max(i.head), i.issue);
        blame(StallCause::Control, free, i.head);
        let between = match i.stall {
            Some(c @ (StallCause::Queue | StallCause::Drain)) => c,
            _ => wait,
        };
        blame(if i.waited.is_some() { wait } else { between }, i.head, granted);
        blame(if i.waited.is_some() { wait } else { between }, granted, issue);
        let before_start = match i.stall {
            Some(c @ (StallCause::Dependency | StallCause::Port)) => c,
            _ => StallCause::Queue,
        };
        blame(before_start, issue, i.start);
        if i.data_path {
            s.data_path += 1;
            // a weight load runs beside a matmul of the same engine
            s.busy_ticks += i.busy_until.saturating_sub(i.start.max(s.busy_until));
            s.bytes_read += i.bytes[0];
            s.bytes_written += i.bytes[1];
            s.flops += i.flops;
            s.busy_until = s.busy_until.max(i.busy_until);
        } else {
            let from = i.start.max(free);
            if i.end > from {
                *s.stall_ticks.entry(StallCause::Control).or_default() += i.end - from;
            }
            s.busy_until = s.busy_until.max(i.end);
        }
    }

    /// The summary of a run that ended at `end`.
    pub fn finish(self, header: &TraceHeader, end: u64) -> Summary {
        Summary {
            generation: header.generation.clone(),
            tick_hz: header.tick_hz,
            periods: header.periods.clone(),
            total_ticks: end,
            streams: self.streams,
        }
    }
}

impl Recorder for SummaryBuilder {
    fn record(&mut self, record: &Record) {
        self.add(record);
    }
}

/// Summary of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Generation name.
    pub generation: String,
    /// Ticks per second.
    pub tick_hz: u64,
    /// Ticks per cycle of each stream.
    pub periods: Vec<u64>,
    /// Length of the run.
    pub total_ticks: u64,
    /// Per stream.
    pub streams: Vec<StreamSummary>,
}

impl Summary {
    /// Nanoseconds of simulated time.
    pub fn total_ns(&self) -> f64 {
        self.ns(self.total_ticks)
    }

    fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * 1e9 / self.tick_hz as f64
    }

    /// As a table for people. Streams without instructions are left out.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let cycles = self.periods.first().map_or(0, |p| self.total_ticks / (*p).max(1));
        let _ = writeln!(
            out,
            "simulated time {:.1} ns ({cycles} PE cycles, {})",
            self.total_ns(),
            self.generation
        );
        let _ = writeln!(
            out,
            "{:<12} {:>7} {:>10} {:>7} {:>9} {:>9} {:>10}  waited for (cycles)",
            "stream", "instr", "cycles", "busy %", "read", "written", "FLOP"
        );
        for (s, &period) in self.streams.iter().zip(&self.periods) {
            if s.instructions == 0 {
                continue;
            }
            let busy = 100.0 * s.busy_ticks as f64 / self.total_ticks.max(1) as f64;
            let mut stalls: Vec<(StallCause, u64)> =
                s.stall_ticks.iter().map(|(c, t)| (*c, t / period.max(1))).collect();
            stalls.sort_by_key(|(c, t)| (std::cmp::Reverse(*t), *c));
            let stalls: Vec<String> = stalls
                .iter()
                .filter(|(_, t)| *t > 0)
                .map(|(c, t)| format!("{} {t}", format!("{c:?}").to_lowercase()))
                .collect();
            let _ = writeln!(
                out,
                "{:<12} {:>7} {:>10} {:>7.1} {:>9} {:>9} {:>10}  {}",
                s.name,
                s.instructions,
                s.end_tick / period.max(1),
                busy,
                quantity(s.bytes_read),
                quantity(s.bytes_written),
                quantity(s.flops),
                stalls.join(", ")
            );
        }
        out
    }
}

fn quantity(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{:.1}k", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1}M", n as f64 / 1e6),
        _ => format!("{:.1}G", n as f64 / 1e9),
    }
}

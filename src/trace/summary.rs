//! Summary of a run, made from its records: per engine what it did and why it waited.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::attribution::{Attribution, Span};
use super::critical::CriticalPath;
use super::facts::Facts;
use super::profile;
use super::record::{InstRecord, Record, Recorder, StallCause, TraceHeader, TransferRecord};
use super::warnings::{self, Warning};
use crate::sync::SyncId;

/// Ticks by cause of waiting.
pub type Stalls = BTreeMap<StallCause, u64>;

/// Names an instruction or block: (stream, word) to (name, disassembly, source line).
pub type Names<'a> = &'a dyn Fn(u16, u32) -> (String, String, Option<String>);

/// A long time in which a stream's data path did nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Why.
    pub cause: StallCause,
    /// First tick.
    pub from: u64,
    /// First tick after it.
    pub to: u64,
    /// The word it waited at.
    pub pc: u32,
    /// What it waited for and who ended the wait.
    pub waited: Option<(SyncId, Option<(u16, u64)>)>,
}

/// Gaps kept per stream, the longest ones.
const GAPS: usize = 4;

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
    /// Ticks of waiting by the event or semaphore waited for.
    pub waited_on: BTreeMap<String, u64>,
    /// Ticks from start to end, summed over instructions; they overlap.
    pub instruction_ticks: u64,
    /// Bytes read by the data path.
    pub bytes_read: u64,
    /// Bytes written by the data path.
    pub bytes_written: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// When its last instruction was complete.
    pub end_tick: u64,
    /// Share of the critical path, 0 to 1.
    pub critical_share: f64,
    /// The longest gaps.
    pub gaps: Vec<Gap>,
}

/// What an instruction word (or DMA block) cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WordSummary {
    /// Stream name.
    pub stream: String,
    /// Word, or block.
    pub pc: u32,
    /// Name.
    pub name: String,
    /// Disassembly.
    pub text: String,
    /// Source line.
    pub source: Option<String>,
    /// Executions.
    pub count: u64,
    /// Ticks in which it kept its data path busy.
    pub busy_ticks: u64,
    /// Ticks from start to end.
    pub instruction_ticks: u64,
    /// Ticks its stream waited for it to start.
    pub stall_ticks: u64,
}

/// Instructions in [`Summary::top`].
const TOP: usize = 10;

/// What the executions of a word cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Executions.
    pub count: u64,
    /// Ticks in which it kept its data path busy.
    pub busy_ticks: u64,
    /// Ticks from start to end.
    pub instruction_ticks: u64,
    /// Ticks its stream waited for it to start.
    pub stall_ticks: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.count += other.count;
        self.busy_ticks += other.busy_ticks;
        self.instruction_ticks += other.instruction_ticks;
        self.stall_ticks += other.stall_ticks;
    }
}

/// By stream and word.
#[derive(Clone, Debug, Default)]
struct Words(Vec<Vec<Count>>);

impl Words {
    fn at(&mut self, stream: usize, pc: u32) -> &mut Count {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, Vec::new());
        }
        let (words, pc) = (&mut self.0[stream], pc as usize);
        if words.len() <= pc {
            words.resize(pc + 1, Count::default());
        }
        &mut words[pc]
    }
}

/// Gathers the summary while a run goes on; memory grows with the program, not with the run.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    facts: Facts,
    streams: Vec<StreamSummary>,
    attribution: Attribution,
    critical: CriticalPath,
    words: Words,
    // by stream and opcode: one of the words, and the cost of all
    opcodes: FxHashMap<(u16, u8), (u32, Count)>,
    waited_on: FxHashMap<(u16, SyncId), u64>,
    memory: [[u64; 2]; 3],
    transfers: TransferTotals,
    // transfers of each block so far, and bytes moved by (block, transfer in it)
    block_seen: HashMap<u32, usize>,
    moved: HashMap<(u32, usize), (u64, u64)>,
    active: Vec<(u64, u64)>,
    records: u64,
}

/// Totals of all DMA transfers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TransferTotals {
    /// Transfers.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Transfers below [`warnings::TINY_BYTES`].
    pub tiny: u64,
    /// Ticks in which at least one transfer was active.
    pub active_ticks: u64,
    /// Ticks of all transfers, summed.
    pub transfer_ticks: u64,
}

impl SummaryBuilder {
    /// For the streams of `header`.
    pub fn new(header: &TraceHeader, facts: Facts) -> Self {
        let stream =
            |name: &String| StreamSummary { name: name.clone(), ..StreamSummary::default() };
        let n = header.streams.len();
        SummaryBuilder {
            facts,
            streams: header.streams.iter().map(stream).collect(),
            attribution: Attribution::new(n),
            critical: CriticalPath::new(n),
            ..SummaryBuilder::default()
        }
    }

    /// Takes one record.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        let (pc, waited) = match record {
            Record::Inst(i) => (i.pc, i.waited),
            Record::Transfer(t) => (t.block, None),
            _ => (0, None),
        };
        let (streams, waits) = (&mut self.streams, &mut self.waited_on);
        let mut cost = Count::default();
        self.attribution.add(record, |s, span| {
            let ticks = span.to - span.from;
            match span.cause {
                None => {
                    streams[s].busy_ticks += ticks;
                    cost.busy_ticks += ticks;
                }
                Some(cause) => {
                    *streams[s].stall_ticks.entry(cause).or_default() += ticks;
                    cost.stall_ticks += ticks;
                    if let (StallCause::Semaphore | StallCause::Event, Some((id, _))) =
                        (cause, waited)
                    {
                        *waits.entry((s as u16, id)).or_default() += ticks;
                    }
                    keep_gap(&mut streams[s].gaps, span, cause, pc, waited);
                }
            }
        });
        self.critical.add(record);
        match record {
            Record::Inst(i) => self.instruction(i, cost),
            Record::Transfer(t) => self.transfer(t, cost),
            Record::Sync(_) | Record::Cores { .. } | Record::Note { .. } => {}
        }
    }

    fn count(&mut self, stream: u16, pc: u32, data_path: bool, cost: Count) {
        let Some(s) = self.streams.get_mut(usize::from(stream)) else { return };
        s.instructions += 1;
        s.data_path += u64::from(data_path);
        s.instruction_ticks += cost.instruction_ticks;
        self.words.at(usize::from(stream), pc).add(cost);
    }

    fn instruction(&mut self, i: &InstRecord, cost: Count) {
        let cost = Count { count: 1, instruction_ticks: i.end.saturating_sub(i.start), ..cost };
        self.count(i.stream, i.pc, i.data_path, cost);
        self.ends(i.stream, i.end);
        self.opcodes.entry((i.stream, i.opcode)).or_insert((i.pc, Count::default())).1.add(cost);
        self.bytes(i.stream, i.bytes, i.by_memory, i.flops);
    }

    fn ends(&mut self, stream: u16, end: u64) {
        if let Some(s) = self.streams.get_mut(usize::from(stream)) {
            s.end_tick = s.end_tick.max(end);
        }
    }

    fn bytes(&mut self, stream: u16, bytes: [u64; 2], by_memory: [[u64; 2]; 3], flops: u64) {
        let Some(s) = self.streams.get_mut(usize::from(stream)) else { return };
        s.bytes_read += bytes[0];
        s.bytes_written += bytes[1];
        s.flops += flops;
        for (total, part) in self.memory.iter_mut().flatten().zip(by_memory.as_flattened()) {
            *total += part;
        }
    }

    fn transfer(&mut self, t: &TransferRecord, cost: Count) {
        let cost = Count { count: 1, instruction_ticks: t.end.saturating_sub(t.start), ..cost };
        self.count(t.stream, t.block, true, cost);
        self.ends(t.stream, t.end);
        self.bytes(t.stream, [t.bytes; 2], t.by_memory, 0);
        let all = &mut self.transfers;
        all.count += 1;
        all.bytes += t.bytes;
        all.tiny += u64::from(t.bytes < warnings::TINY_BYTES);
        all.transfer_ticks += t.end.saturating_sub(t.start);
        self.activity(t.start, t.end);
        if let Some(block) = self.block_of(t) {
            let transfers = self.facts.blocks[block as usize].source.len().max(1);
            let seen = self.block_seen.entry(block).or_default();
            let moved = self.moved.entry((block, *seen % transfers)).or_default();
            *seen += 1;
            moved.0 += 1;
            moved.1 += t.bytes;
        }
    }

    /// The program's block of a transfer; `None` for a request made by an instruction.
    fn block_of(&self, t: &TransferRecord) -> Option<u32> {
        let queue = usize::from(t.stream).checked_sub(self.facts.engine_hz.len())?;
        let known = queue < self.facts.queues.len() && (t.block as usize) < self.facts.blocks.len();
        known.then_some(t.block)
    }

    // disjoint active spans that a later transfer may still touch; transfers come by start time,
    // so what ended before the newest start is final
    fn activity(&mut self, from: u64, to: u64) {
        let mut merged = (from, to);
        let active = &mut self.transfers.active_ticks;
        self.active.retain(|&(a, b)| {
            if b < merged.0 {
                *active += b - a;
                return false;
            }
            if a <= merged.1 {
                merged = (merged.0.min(a), merged.1.max(b));
                return false;
            }
            true
        });
        self.active.push(merged);
    }

    /// The summary of a run that ended at `end`.
    pub fn finish(mut self, header: &TraceHeader, end: u64, names: Names<'_>) -> Summary {
        self.transfers.active_ticks += self.active.iter().map(|(a, b)| b - a).sum::<u64>();
        let (path, sync) = self.critical.finish();
        let length = path.iter().sum::<u64>() + sync;
        let share = |t: u64| t as f64 / length.max(1) as f64;
        for (s, t) in self.streams.iter_mut().zip(&path) {
            s.critical_share = share(*t);
        }
        for ((s, id), ticks) in &self.waited_on {
            let waited_on = &mut self.streams[usize::from(*s)].waited_on;
            *waited_on.entry(self.facts.sync_name(*id)).or_default() += ticks;
        }
        let counted = self.words.0.iter().enumerate().flat_map(|(stream, words)| {
            let counted = words.iter().enumerate().filter(|(_, c)| c.count > 0);
            counted.map(move |(pc, c)| (stream as u16, pc as u32, *c))
        });
        let mut top: Vec<(u16, u32, Count)> = counted.collect();
        let by_cost =
            |&(s, pc, c): &(u16, u32, Count)| (std::cmp::Reverse(c.busy_ticks), s, pc);
        if top.len() > TOP {
            top.select_nth_unstable_by_key(TOP, by_cost);
            top.truncate(TOP);
        }
        top.sort_by_key(by_cost);
        let mut opcodes: BTreeMap<(u16, String), Count> = BTreeMap::new();
        for ((stream, _), (pc, count)) in &self.opcodes {
            let (name, ..) = names(*stream, *pc);
            opcodes.entry((*stream, name)).or_default().add(*count);
        }
        let loads = loads(&self.facts, &self.moved);
        let named = |(stream, pc, c): (u16, u32, Count)| {
            let (name, text, source) = names(stream, pc);
            WordSummary {
                stream: self.streams[usize::from(stream)].name.clone(),
                pc,
                name,
                text,
                source,
                count: c.count,
                busy_ticks: c.busy_ticks,
                instruction_ticks: c.instruction_ticks,
                stall_ticks: c.stall_ticks,
            }
        };
        let top = top.into_iter().map(named).collect();
        let mut summary = Summary {
            generation: header.generation.clone(),
            tick_hz: header.tick_hz,
            periods: header.periods.clone(),
            total_ticks: end,
            top,
            streams: self.streams,
            memory: ["sbuf", "psum", "hbm"]
                .into_iter()
                .zip(self.memory)
                .map(|(n, [read, written])| (n.to_string(), MemoryBytes { read, written }))
                .collect(),
            critical_sync_share: share(sync),
            transfers: self.transfers,
            records: self.records,
            loads,
            warnings: Vec::new(),
            profile: BTreeMap::new(),
            opcodes,
            facts: self.facts,
        };
        summary.warnings = warnings::find(&summary, names);
        summary.profile = profile::summary(&summary);
        summary
    }
}

fn keep_gap(
    gaps: &mut Vec<Gap>,
    span: Span,
    cause: StallCause,
    pc: u32,
    waited: Option<(SyncId, Option<(u16, u64)>)>,
) {
    let full = gaps.len() == GAPS;
    if full && gaps.last().is_some_and(|g| g.to - g.from >= span.to - span.from) {
        return;
    }
    gaps.truncate(GAPS - usize::from(full));
    let waited = waited.filter(|_| matches!(cause, StallCause::Semaphore | StallCause::Event));
    gaps.push(Gap { cause, from: span.from, to: span.to, pc, waited });
    gaps.sort_by_key(|g| (std::cmp::Reverse(g.to - g.from), g.from));
}

fn loads(facts: &Facts, moved: &HashMap<(u32, usize), (u64, u64)>) -> BTreeMap<String, Loads> {
    let mut out: BTreeMap<String, Loads> = BTreeMap::new();
    for (&(block, which), &(count, bytes)) in moved {
        let source = facts.blocks.get(block as usize).and_then(|b| b.source.get(which).copied());
        let Some(tensor) = source.flatten().and_then(|t| facts.tensors.get(t)) else { continue };
        let l = out.entry(tensor.name.clone()).or_default();
        l.count += count;
        l.bytes += bytes;
        l.repeat_factor = l.bytes as f64 / tensor.bytes.max(1) as f64;
    }
    out
}

impl Recorder for SummaryBuilder {
    fn record(&mut self, record: &Record) {
        self.add(record);
    }
}

/// Bytes of one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryBytes {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// Loads of one tensor from HBM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Loads {
    /// Transfers.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes loaded over bytes of the tensor.
    pub repeat_factor: f64,
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
    /// Bytes by memory.
    pub memory: BTreeMap<String, MemoryBytes>,
    /// Share of the critical path between updates and their effects.
    pub critical_sync_share: f64,
    /// DMA transfers.
    pub transfers: TransferTotals,
    /// Records of the trace.
    pub records: u64,
    /// Loads by tensor.
    pub loads: BTreeMap<String, Loads>,
    /// The instructions that kept their data path busy longest.
    pub top: Vec<WordSummary>,
    /// Things worth a look.
    pub warnings: Vec<Warning>,
    /// Figures under the names of the vendor's profiler.
    #[serde(flatten)]
    pub profile: BTreeMap<String, serde_json::Value>,
    /// What the instructions of each name cost, by stream.
    #[serde(skip)]
    pub opcodes: BTreeMap<(u16, String), Count>,
    /// Facts of machine and program.
    #[serde(skip)]
    pub facts: Facts,
}

impl Summary {
    /// Seconds of `ticks`.
    pub fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.tick_hz.max(1) as f64
    }

    /// Nanoseconds of simulated time.
    pub fn total_ns(&self) -> f64 {
        self.seconds(self.total_ticks) * 1e9
    }

    /// Floating-point operations per second of the PE over its peak.
    pub fn pe_utilisation(&self) -> f64 {
        let flops = self.streams.first().map_or(0, |s| s.flops) as f64;
        flops / (self.seconds(self.total_ticks) * self.facts.pe_flops_per_second()).max(1e-30)
    }

    /// DMA bytes per second over what DMA can move.
    pub fn dma_utilisation(&self) -> f64 {
        let peak = self.seconds(self.total_ticks) * self.facts.dma_bytes_per_second as f64;
        self.transfers.bytes as f64 / peak.max(1e-30)
    }
}

//! Summary of a run, made from its records: per engine what it did and why it waited.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::attribution::{Attribution, Resume, Span};
use super::critical::CriticalPath;
use super::facts::Facts;
use super::profile::{self, QueueKind};
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

/// Time that a stream waited for one thing and one releaser.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// The event or semaphore.
    pub on: String,
    /// The stream whose update ended the waits; `None` if nobody did.
    pub released_by: Option<String>,
    /// Ticks.
    pub ticks: u64,
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
    /// Of these, instructions whose work is shorter than what the engine spends beside it.
    pub short: u64,
    /// Ticks in which the data path (or a transfer) was active.
    pub busy_ticks: u64,
    /// Ticks in which it was not, by cause, up to the stream's last instruction.
    pub stall_ticks: Stalls,
    /// Ticks of waiting by the event or semaphore waited for.
    pub waited_on: BTreeMap<String, u64>,
    /// The same by who ended the waits, longest first.
    pub waits: Vec<Waiting>,
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
    /// Of these, ticks of waiting for a memory port or bank.
    pub port_ticks: u64,
}

/// The same in numbers alone, for all words.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordCost {
    /// Stream number.
    pub stream: u16,
    /// Word, or block.
    pub pc: u32,
    /// Opcode byte; 0 for DMA blocks.
    pub opcode: u8,
    /// Executions.
    pub count: u64,
    /// Ticks in which it kept its data path busy.
    pub busy_ticks: u64,
    /// Ticks from start to end.
    pub instruction_ticks: u64,
    /// Ticks its stream waited for it to start.
    pub stall_ticks: u64,
    /// Of these, ticks of waiting for a memory port or bank.
    pub port_ticks: u64,
}

/// What the words cost so far, by stream and word.
#[derive(Clone, Debug, Default)]
struct Words {
    near: Vec<Vec<WordCost>>,
    // words far behind all before, of which a damaged trace can have any
    far: FxHashMap<(u16, u32), WordCost>,
}

/// How far behind the known words the next may lie to be kept beside them.
const NEAR: usize = 1 << 12;

impl Words {
    fn at(&mut self, stream: u16, pc: u32) -> &mut WordCost {
        let (s, at) = (usize::from(stream), pc as usize);
        if self.near.len() <= s {
            self.near.resize_with(s + 1, Vec::new);
        }
        let near = &mut self.near[s];
        if at >= 2 * near.len() + NEAR {
            return self.far.entry((stream, pc)).or_default();
        }
        if near.len() <= at {
            near.resize(at + 1, WordCost::default());
        }
        &mut near[at]
    }

    /// All of them by stream and place, with those that were never executed.
    fn finish(self) -> Vec<Vec<WordCost>> {
        let mut all = self.near;
        for (stream, words) in all.iter_mut().enumerate() {
            for (pc, word) in words.iter_mut().enumerate() {
                (word.stream, word.pc) = (stream as u16, pc as u32);
            }
        }
        let mut far: Vec<_> = self.far.into_iter().collect();
        far.sort_by_key(|(at, _)| *at);
        for ((stream, pc), mut far) in far {
            (far.stream, far.pc) = (stream, pc);
            let words = &mut all[usize::from(stream)];
            // others may have come between meanwhile
            match words.get_mut(pc as usize) {
                Some(near) => {
                    near.opcode = far.opcode.max(near.opcode);
                    near.count += far.count;
                    near.busy_ticks += far.busy_ticks;
                    near.instruction_ticks += far.instruction_ticks;
                    near.stall_ticks += far.stall_ticks;
                    near.port_ticks += far.port_ticks;
                }
                None => words.push(far),
            }
        }
        all
    }
}

/// Instructions in [`Summary::top`].
const TOP: usize = 10;

/// Gathers the summary while a run goes on; memory grows with the program, not with the run.
#[derive(Clone, Debug, Default)]
pub struct SummaryBuilder {
    facts: Facts,
    streams: Vec<StreamSummary>,
    attribution: Attribution,
    critical: CriticalPath,
    words: Words,
    // ticks of waiting, by stream, what was waited for and which stream released it
    waited: FxHashMap<(usize, SyncId, Option<u16>), u64>,
    memory: [[u64; 2]; 3],
    transfers: TransferTotals,
    // transfers of each block so far, and bytes moved by (block, transfer in it)
    block_seen: FxHashMap<u32, usize>,
    moved: FxHashMap<(u32, usize), (u64, u64)>,
    active: Cover,
    by_kind: [(TransferTotals, Cover); 3],
    dynamic: Cover,
    any_engine: Cover,
    psum_to_sbuf: [u64; 2],
    records: u64,
}

/// Ticks that at least one of many spans covers. Spans come roughly in the order of their starts:
/// what ended long before the newest start is final.
#[derive(Clone, Debug, Default)]
struct Cover {
    done: u64,
    // disjoint spans that a later one may still touch, in order
    open: Vec<(u64, u64)>,
}

/// Spans of a [`Cover`] that are not final.
const OPEN: usize = 64;

impl Cover {
    fn add(&mut self, from: u64, to: u64) {
        // nearly always it comes last, and touches what was last
        match self.open.last_mut() {
            Some(last) if from >= last.0 && from <= last.1 => last.1 = last.1.max(to),
            Some(last) if from < last.0 => self.insert(from, to),
            _ => self.open.push((from, to)),
        }
        if self.open.len() > OPEN {
            let (a, b) = self.open.remove(0);
            self.done += b - a;
        }
    }

    fn insert(&mut self, from: u64, to: u64) {
        let mut merged = (from, to);
        self.open.retain(|&(a, b)| {
            let touches = a <= merged.1 && merged.0 <= b;
            if touches {
                merged = (merged.0.min(a), merged.1.max(b));
            }
            !touches
        });
        let at = self.open.partition_point(|s| s.0 < merged.0);
        self.open.insert(at, merged);
    }

    fn total(&self) -> u64 {
        self.done + self.open.iter().map(|(a, b)| b - a).sum::<u64>()
    }
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

    /// For a part of a trace that goes on at `resume`.
    pub fn resumed(header: &TraceHeader, facts: Facts, resume: &Resume) -> Self {
        let attribution = Attribution::resume(header.streams.len(), resume);
        SummaryBuilder { attribution, ..SummaryBuilder::new(header, facts) }
    }

    /// Takes one record.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        let (pc, waited) = match record {
            Record::Inst(i) => (i.pc, i.waited),
            Record::Transfer(t) => (t.block, None),
            _ => (0, None),
        };
        let (streams, words, facts) = (&mut self.streams, &mut self.words, &self.facts);
        let (any_engine, total_waits) = (&mut self.any_engine, &mut self.waited);
        self.attribution.add(record, |s, span| {
            let word = words.at(s as u16, pc);
            let ticks = span.to - span.from;
            match span.cause {
                None => {
                    streams[s].busy_ticks += ticks;
                    if s < facts.engine_hz.len() {
                        any_engine.add(span.from, span.to);
                    }
                    word.busy_ticks += ticks;
                }
                Some(cause) => {
                    *streams[s].stall_ticks.entry(cause).or_default() += ticks;
                    word.stall_ticks += ticks;
                    if cause == StallCause::Port {
                        word.port_ticks += ticks;
                    }
                    if let (StallCause::Semaphore | StallCause::Event, Some((id, by))) =
                        (cause, waited)
                    {
                        let by = by.map(|(stream, _)| stream);
                        *total_waits.entry((s, id, by)).or_default() += ticks;
                    }
                    keep_gap(&mut streams[s].gaps, span, cause, pc, waited);
                }
            }
        });
        self.critical.add(record);
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => self.transfer(t),
            _ => {}
        }
    }

    fn count(&mut self, stream: u16, pc: u32, opcode: u8, data_path: bool, span: [u64; 2]) {
        let Some(s) = self.streams.get_mut(usize::from(stream)) else { return };
        let [start, end] = span;
        let ticks = end.saturating_sub(start);
        s.instructions += 1;
        s.data_path += u64::from(data_path);
        s.instruction_ticks += ticks;
        s.end_tick = s.end_tick.max(end);
        let word = self.words.at(stream, pc);
        word.opcode = opcode;
        word.count += 1;
        word.instruction_ticks += ticks;
    }

    fn instruction(&mut self, i: &InstRecord) {
        self.count(i.stream, i.pc, i.opcode, i.data_path, [i.start, i.end]);
        self.bytes(i.stream, i.bytes, i.by_memory, i.flops);
        let [sbuf, psum, _] = i.by_memory;
        if psum[0] > 0 && sbuf[1] > 0 {
            self.psum_to_sbuf[0] += 1;
            self.psum_to_sbuf[1] += sbuf[1];
        }
        let least = self.facts.gap_ticks.get(usize::from(i.stream)).copied().unwrap_or(0);
        if i.data_path && i.busy_until.saturating_sub(i.start) < least {
            self.streams[usize::from(i.stream)].short += 1;
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

    fn transfer(&mut self, t: &TransferRecord) {
        self.count(t.stream, t.block, 0, true, [t.start, t.end]);
        self.bytes(t.stream, [t.bytes; 2], t.by_memory, 0);
        let kind = QueueKind::of(&self.facts, t.stream);
        let (of_kind, cover) = &mut self.by_kind[kind as usize];
        for all in [&mut self.transfers, of_kind] {
            all.count += 1;
            all.bytes += t.bytes;
            all.tiny += u64::from(t.bytes < warnings::TINY_BYTES);
            all.transfer_ticks += t.end.saturating_sub(t.start);
        }
        self.active.add(t.start, t.end);
        cover.add(t.start, t.end);
        if kind != QueueKind::Static {
            self.dynamic.add(t.start, t.end);
        }
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

    /// The summary of a run that ended at `end`.
    pub fn finish(mut self, header: &TraceHeader, end: u64, names: Names<'_>) -> Summary {
        self.transfers.active_ticks = self.active.total();
        let by_kind =
            self.by_kind.map(|(t, cover)| TransferTotals { active_ticks: cover.total(), ..t });
        for ((s, id, by), ticks) in self.waited {
            let on = self.facts.sync_name(id);
            *self.streams[s].waited_on.entry(on.clone()).or_default() += ticks;
            let released_by = by.and_then(|b| header.streams.get(usize::from(b)).cloned());
            self.streams[s].waits.push(Waiting { on, released_by, ticks });
        }
        for s in &mut self.streams {
            let key =
                |w: &Waiting| (std::cmp::Reverse(w.ticks), w.on.clone(), w.released_by.clone());
            s.waits.sort_by_key(key);
        }
        let (path, sync) = self.critical.finish();
        let length = path.iter().sum::<u64>() + sync;
        let share = |t: u64| t as f64 / length.max(1) as f64;
        for (s, t) in self.streams.iter_mut().zip(&path) {
            s.critical_share = share(*t);
        }
        let words = self.words.finish();
        // to disassemble a word takes longer than to execute it: only those shown are
        let cost = |w: &WordCost| (std::cmp::Reverse(w.busy_ticks), w.stream, w.pc);
        let mut top: Vec<WordCost> = Vec::with_capacity(2 * TOP);
        for word in words.iter().flatten().filter(|w| w.count > 0) {
            // in order of their places: the first of those that cost the same comes first
            if top.len() < TOP || top.last().is_some_and(|l| cost(word) < cost(l)) {
                top.insert(top.partition_point(|t| cost(t) < cost(word)), *word);
                top.truncate(TOP);
            }
        }
        let top = top.into_iter().map(|w| {
            let (name, text, source) = names(w.stream, w.pc);
            let stream = self.streams[usize::from(w.stream)].name.clone();
            let WordCost {
                pc, count, busy_ticks, instruction_ticks, stall_ticks, port_ticks, ..
            } = w;
            WordSummary {
                stream,
                pc,
                name,
                text,
                source,
                count,
                busy_ticks,
                instruction_ticks,
                stall_ticks,
                port_ticks,
            }
        });
        let top: Vec<WordSummary> = top.collect();
        let mnemonics = mnemonics(&words, names);
        let loads = loads(&self.facts, &self.moved);
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
            by_kind,
            dynamic_active_ticks: self.dynamic.total(),
            active_ticks: self.any_engine.total(),
            psum_to_sbuf: self.psum_to_sbuf,
            records: self.records,
            loads,
            warnings: Vec::new(),
            profile: BTreeMap::new(),
            words,
            mnemonics,
            facts: self.facts,
        };
        summary.warnings = warnings::find(&summary, names);
        summary.profile = profile::summary(&summary);
        summary
    }
}

/// Names by what words of one name have in common.
type Mnemonics = FxHashMap<(u16, u8, u32), String>;

fn name_key(word: &WordCost) -> (u16, u8, u32) {
    (word.stream, word.opcode, if word.opcode == 0 { word.pc } else { 0 })
}

fn mnemonics(words: &[Vec<WordCost>], names: Names<'_>) -> Mnemonics {
    let mut out = Mnemonics::default();
    let mut last = None;
    for word in words.iter().flatten().filter(|w| w.count > 0) {
        let key = name_key(word);
        if last.replace(key) != Some(key) {
            out.entry(key).or_insert_with(|| names(word.stream, word.pc).0);
        }
    }
    out
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

fn loads(facts: &Facts, moved: &FxHashMap<(u32, usize), (u64, u64)>) -> BTreeMap<String, Loads> {
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
    /// The same for queues of the program, and for requests of instructions with descriptors made
    /// by hardware and by software.
    #[serde(skip)]
    pub by_kind: [TransferTotals; 3],
    /// Ticks in which at least one transfer asked by an instruction was active.
    #[serde(skip)]
    pub dynamic_active_ticks: u64,
    /// Ticks in which the data path of at least one engine was active.
    #[serde(skip)]
    pub active_ticks: u64,
    /// Instructions that read PSUM and write SBUF, and the bytes they write.
    #[serde(skip)]
    pub psum_to_sbuf: [u64; 2],
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
    /// Words by stream and place.
    #[serde(skip)]
    words: Vec<Vec<WordCost>>,
    /// Names of words by stream and opcode, of blocks by stream and number.
    #[serde(skip)]
    mnemonics: Mnemonics,
    /// Facts of machine and program.
    #[serde(skip)]
    pub facts: Facts,
}

impl Summary {
    /// All words that were executed, by stream and place.
    pub fn words(&self) -> impl Iterator<Item = &WordCost> {
        self.words.iter().flatten().filter(|w| w.count > 0)
    }

    /// Name of one of [`Summary::words`].
    pub fn mnemonic(&self, word: &WordCost) -> &str {
        self.mnemonics.get(&name_key(word)).map_or("", |name| name)
    }

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

//! Chrome trace-event JSON, which Perfetto opens too: tracks for the data path, the waiting and
//! the sequencer of each engine and for each DMA queue, counter tracks for semaphores and events,
//! arrows from the update to the instruction that it released.
//!
//! Times are microseconds of simulated time; the arguments have the exact ticks. The file is
//! written as the run goes on.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::attribution::{Attribution, Lanes};
use super::counters::{DepthPoint, DmaActivity, DmaPoint, PeUse, QueueDepth};
use super::export::{Context, Ending, Exporter, Output, cause_name};
use super::record::{InstRecord, Record, Recorder};
use super::updates::Updates;
use crate::error::Result;
use crate::memory::Space;

const PROCESS: u32 = 1;
/// Tracks of a stream: data path, waiting, sequencer, then what overlaps in the data path.
const LANES: usize = 16;
/// First track of what overlaps.
const OVERLAPPED: usize = 3;

/// Writes the trace.
pub struct ChromeTrace {
    out: Output,
    context: Context,
    first: bool,
    flows: u64,
    updates: Updates<()>,
    attribution: Attribution,
    lanes: Lanes,
    named: HashSet<usize>,
    dma: DmaActivity,
    pe: PeUse,
    depth: QueueDepth,
    cores: [bool; 8],
}

/// Track of core 0, behind those of the streams.
const CORE_TRACKS: usize = 1 << 20;

impl ChromeTrace {
    /// Starts the file.
    pub fn new(out: Output, context: Context) -> Self {
        let window = context.header.tick_hz / 1_000_000;
        let peak = context.facts.pe_flops_per_second() / context.header.tick_hz.max(1) as f64;
        let mut trace = ChromeTrace {
            out,
            first: true,
            flows: 0,
            updates: Updates::default(),
            attribution: context.attribution(),
            lanes: Lanes::default(),
            named: HashSet::new(),
            dma: DmaActivity::default(),
            pe: PeUse::new(window, peak),
            depth: QueueDepth::default(),
            cores: [false; 8],
            context,
        };
        trace.out.put(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        let name = format!("tpbemu {}", trace.context.header.generation);
        trace.event(&json!({"ph":"M","pid":PROCESS,"name":"process_name","args":{"name":name}}));
        for s in 0..trace.context.header.streams.len() {
            let stream = trace.context.header.streams[s].clone();
            let lanes: &[&str] =
                if s < trace.context.engines() { &["", " stalls", " sequencer"] } else { &[""] };
            for (lane, suffix) in lanes.iter().enumerate() {
                let tid = s * LANES + lane;
                trace.event(&json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_name",
                    "args":{"name":format!("{stream}{suffix}")}}));
                trace.event(&json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_sort_index",
                    "args":{"sort_index":tid}}));
            }
        }
        trace
    }

    fn event(&mut self, value: &Value) {
        let separator = if self.first { "\n" } else { ",\n" };
        self.first = false;
        self.out.put(separator.as_bytes());
        self.out.put(value.to_string().as_bytes());
    }

    /// The track of a slice in the data path of `stream`, or in a queue.
    fn place(&mut self, stream: u16, start: u64, end: u64) -> usize {
        let lane = self.lanes.place(stream, start, end);
        let tid = usize::from(stream) * LANES;
        if lane == 0 {
            return tid;
        }
        // more at once than there are tracks would be drawn over each other
        let tid = tid + (OVERLAPPED + lane - 1).min(LANES - 1);
        if self.named.insert(tid) {
            let name = format!("{} overlapped", self.context.stream(stream));
            self.event(&json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_name",
                "args":{"name":name}}));
            self.event(&json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_sort_index",
                "args":{"sort_index":tid}}));
        }
        tid
    }

    fn us(&self, tick: u64) -> f64 {
        tick as f64 * 1e6 / self.context.header.tick_hz as f64
    }

    fn counter(&mut self, name: &str, tick: u64, value: Value) {
        let event = json!({"ph":"C","pid":PROCESS,"name":name,"ts":self.us(tick),
            "args":{"value":value}});
        self.event(&event);
    }

    /// The track of a Q7 core, which is there for each core that ever ran or got library code.
    fn core(&mut self, core: usize) -> usize {
        let tid = CORE_TRACKS + core;
        if !std::mem::replace(&mut self.cores[core], true) {
            let named = json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_name",
                "args":{"name":format!("Q7 core {core}")}});
            self.event(&named);
            self.event(&json!({"ph":"M","pid":PROCESS,"tid":tid,"name":"thread_sort_index",
                "args":{"sort_index":tid}}));
        }
        tid
    }

    fn library(&mut self, tick: u64, end: u64, cores: u8, bytes: u32) {
        for core in (0..8).filter(|c| cores >> c & 1 == 1) {
            let tid = self.core(core);
            let event = json!({"ph":"X","pid":PROCESS,"tid":tid,"cat":"q7","name":"library load",
                "ts":self.us(tick),"dur":self.us(end - tick),"args":{"bytes":bytes}});
            self.event(&event);
        }
    }

    fn depths(&mut self, points: &[DepthPoint]) {
        for p in points {
            let name = format!("{} pending", self.context.stream(p.stream));
            self.counter(&name, p.tick, json!(p.depth));
            self.counter("pending DMAs", p.tick, json!(p.total));
        }
    }

    fn dma_points(&mut self, points: &[DmaPoint]) {
        let hz = self.context.header.tick_hz as f64;
        for p in points {
            self.counter("active DMAs", p.tick, json!(p.active));
            self.counter("DMA GB/s", p.tick, json!(p.bytes_per_tick * hz / 1e9));
        }
    }

    /// Slices for the cores that ran library code.
    fn cores(&mut self, tick: u64, pc: u32, index: u64, cycles: &[u64; 8]) {
        let pool = crate::isa::Engine::Pool as u16;
        let named = self.context.name(pool, pc);
        let (name, text, _) = &*named;
        let period = self.context.period(pool);
        for (core, &n) in cycles.iter().enumerate().filter(|(_, n)| **n > 0) {
            let tid = self.core(core);
            let event = json!({"ph":"X","pid":PROCESS,"tid":tid,"cat":"q7","name":name,
                "ts":self.us(tick),"dur":self.us(n * period),
                "args":{"pc":pc,"execution":index,"instruction":text,"cycles":n}});
            self.event(&event);
        }
    }

    fn spans(&mut self, record: &Record) {
        let mut waits = Vec::new();
        self.attribution.add(record, |s, span| {
            if let Some(cause) = span.cause {
                waits.push((s, cause, span.from, span.to));
            }
        });
        for (s, cause, from, to) in waits {
            let event = json!({"ph":"X","pid":PROCESS,"tid":s * LANES + 1,"cat":"stall",
                "name":cause_name(cause),"ts":self.us(from),"dur":self.us(to - from),
                "args":{"start_tick":from,"end_tick":to}});
            self.event(&event);
        }
    }

    fn instruction(&mut self, i: &InstRecord) {
        let named = self.context.name(i.stream, i.pc);
        let (name, text, source) = &*named;
        let period = self.context.period(i.stream);
        let until = i.busy_until.max(i.start);
        let (tid, cat) = if i.data_path {
            (self.place(i.stream, i.start, until), "data")
        } else {
            (usize::from(i.stream) * LANES + 2, "control")
        };
        let waited = i.waited.map(|(id, by)| {
            let by = by.map(|(s, n)| format!(" released by {} #{n}", self.context.stream(s)));
            format!("{}{}", self.context.facts.sync_name(id), by.unwrap_or_default())
        });
        let event = json!({
            "ph":"X","pid":PROCESS,"tid":tid,"cat":cat,
            "name":name,"ts":self.us(i.start),"dur":self.us(until - i.start),
            "args":{"pc":i.pc,"execution":i.index,"instruction":text,"source":source,
                "start_tick":i.start,"end_tick":until,
                "start_cycle":i.start / period,"busy_cycles":(until - i.start) / period,
                "reads_done_cycle":i.reads_done / period,"end_cycle":i.end / period,
                "bytes_read":i.bytes[0],"bytes_written":i.bytes[1],"flops":i.flops,
                "waited":waited,"stall":i.stall.map(cause_name)}});
        self.event(&event);
        if let Some((id, Some(by))) = i.waited
            && let Some((tick, ())) = self.updates.find(id, by, i.granted)
        {
            self.flows += 1;
            let (flow, from) = (self.flows, usize::from(by.0) * LANES);
            let start = json!({"ph":"s","pid":PROCESS,"tid":from,"id":flow,
                "cat":"sync","name":"releases","ts":self.us(tick)});
            self.event(&start);
            let end = json!({"ph":"f","bp":"e","pid":PROCESS,"tid":tid,"id":flow,
                "cat":"sync","name":"releases","ts":self.us(i.start)});
            self.event(&end);
        }
        if i.stream == 0 {
            let mut points = Vec::new();
            self.pe.add(i, |tick, percent| points.push((tick, percent)));
            for (tick, percent) in points {
                self.counter("PE utilisation %", tick, json!(percent));
            }
        }
    }
}

impl Recorder for ChromeTrace {
    fn record(&mut self, record: &Record) {
        self.spans(record);
        let mut points = Vec::new();
        self.depth.add(record, |p| points.push(p));
        self.depths(&points);
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Sync(s) => {
                self.updates.add(s, ());
                let name = self.context.facts.sync_name(s.id);
                self.counter(&name, s.tick, json!(s.value));
            }
            Record::Transfer(t) => {
                let named = self.context.name(t.stream, t.block);
                let (name, text, source) = &*named;
                let tid = self.place(t.stream, t.start, t.end);
                let event = json!({"ph":"X","pid":PROCESS,"tid":tid,"cat":"dma",
                   "name":name,"ts":self.us(t.start),"dur":self.us(t.end - t.start),
                    "args":{"transfer":text,"source":source,"bytes":t.bytes,"engines":t.engines,
                        "start_tick":t.start,"end_tick":t.end,
                        "queued_us":self.us(t.queued),"load":t.load,"index":t.index}});
                self.event(&event);
                let mut points = Vec::new();
                self.dma.add(t, |p| points.push(p));
                self.dma_points(&points);
            }
            Record::Library { tick, end, cores, bytes, .. } => {
                self.library(*tick, *end, *cores, *bytes);
            }
            Record::Usage { tick, memory, average, .. } => {
                let memory = Space::ALL.get(usize::from(*memory)).map_or("?", |m| m.name());
                self.counter(
                    &format!("{memory} used %"),
                    *tick,
                    json!(f64::from(*average) / 100.0),
                );
            }
            Record::Queued { .. } => {}
            Record::Cores { tick, pc, index, cycles } => self.cores(*tick, *pc, *index, cycles),
            Record::Note { tick, stream, pc, text } => {
                let event = json!({"ph":"i","s":"t","pid":PROCESS,
                    "tid":usize::from(*stream) * LANES,
                    "name":text,"ts":self.us(*tick),"args":{"pc":pc}});
                self.event(&event);
            }
        }
    }

    fn wants_usage(&self) -> bool {
        true
    }
}

impl Exporter for ChromeTrace {
    fn size(&self) -> u64 {
        self.out.size()
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        let mut points = Vec::new();
        self.dma.advance(u64::MAX, |p| points.push(p));
        self.dma_points(&points);
        let mut points = Vec::new();
        self.depth.advance(u64::MAX, |p| points.push(p));
        self.depths(&points);
        let mut points = Vec::new();
        self.pe.close(|tick, percent| points.push((tick, percent)));
        for (tick, percent) in points {
            self.counter("PE utilisation %", tick, json!(percent));
        }
        let other = json!({"tool":"tpbemu","generation":self.context.header.generation,
            "tick_hz":self.context.header.tick_hz,"periods":self.context.header.periods,
            "streams":self.context.header.streams,"total_ticks":ending.end,
            "error":ending.error});
        self.out.put(format!("\n],\"otherData\":{other}}}\n").as_bytes());
        self.out.persist()
    }
}

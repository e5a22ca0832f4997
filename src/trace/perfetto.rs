//! Perfetto protobuf (field numbers: perfetto.dev, protos/perfetto/trace).
//!
//! A group of tracks per engine (data path, waiting, sequencer, updates) and a track per DMA
//! queue; counters for semaphores, events, active DMAs, DMA throughput and use of the PE array.
//! Arrows go from an update to the instruction it released. Times are whole nanoseconds; the
//! arguments have the exact ticks.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::attribution::{Attribution, Lanes};
use super::counters::{DepthPoint, DmaActivity, DmaPoint, PeUse, QueueDepth};
use super::export::{Context, Ending, Exporter, Output, cause_name};
use super::proto::Message;
use super::record::{InstRecord, Record, Recorder, TransferRecord};
use super::updates::Updates;
use crate::error::Result;
use crate::memory::Space;
use crate::sync::SyncId;

// Trace
const PACKET: u32 = 1;
// TracePacket
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
// TrackEvent
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const NAME_IID: u32 = 10;
const TRACK: u32 = 11;
const CATEGORY: u32 = 22;
const COUNTER_VALUE: u32 = 30;
const DOUBLE_COUNTER_VALUE: u32 = 44;
const FLOW: u32 = 47;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Stream of the engine whose cores run library code.
const POOL: u16 = crate::isa::Engine::Pool as u16;

/// Tracks of an engine: group, data path, waiting, sequencer, updates, then what overlaps in the
/// data path.
const LANES: u64 = 64;
/// First track of what overlaps.
const OVERLAPPED: u64 = 5;
/// First of the tracks of the Q7 cores, behind those.
const CORES: u64 = 48;
const PROCESS: u64 = 1;
const ACTIVE: u64 = 2;
const THROUGHPUT: u64 = 3;
const PE_USE: u64 = 4;
const SYNC_GROUP: u64 = 5;
const PENDING: u64 = 6;
const USED: u64 = 10;
const DEPTHS: u64 = 100_000_000;
const STREAMS: u64 = 1_000;
const SEMAPHORES: u64 = 10_000_000;
const EVENTS: u64 = 20_000_000;

/// Strings that the trace has defined already.
#[derive(Default)]
struct Strings {
    ids: HashMap<String, u64>,
}

impl Strings {
    // the id of `text`; a new one is defined in `field` of `interned`
    fn id(&mut self, text: &str, field: u32, text_field: u32, interned: &mut Message) -> u64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.ids.len() as u64 + 1;
        self.ids.insert(text.to_string(), id);
        let mut entry = Message::default();
        entry.uint(1, id).bytes(text_field, text.as_bytes());
        interned.message(field, &entry);
        id
    }
}

/// An argument of a slice.
enum Value<'a> {
    Int(u64),
    Text(&'a str),
    /// A text that hardly comes twice: not defined apart, which would keep it in memory.
    Once(&'a str),
}

/// Writes the trace.
pub struct PerfettoTrace {
    out: Output,
    context: Context,
    names: Strings,
    keys: Strings,
    values: Strings,
    interned: Message,
    started: bool,
    flows: u64,
    updates: Updates<u64>,
    seen: BTreeSet<SyncId>,
    attribution: Attribution,
    lanes: Lanes,
    named: HashSet<u64>,
    dma: DmaActivity,
    depth: QueueDepth,
    pe: PeUse,
}

fn sync_track(id: SyncId) -> u64 {
    match id {
        SyncId::Semaphore(n) => SEMAPHORES + u64::from(n),
        SyncId::Event(n) => EVENTS + u64::from(n),
    }
}

fn lane(stream: u16, lane: u64) -> u64 {
    STREAMS + u64::from(stream) * LANES + lane
}

impl PerfettoTrace {
    /// Starts the file.
    pub fn new(out: Output, context: Context) -> Self {
        let hz = context.header.tick_hz.max(1);
        let peak = context.facts.pe_flops_per_second() / hz as f64;
        let mut trace = PerfettoTrace {
            out,
            names: Strings::default(),
            keys: Strings::default(),
            values: Strings::default(),
            interned: Message::default(),
            started: false,
            flows: 0,
            updates: Updates::default(),
            seen: BTreeSet::new(),
            attribution: context.attribution(),
            lanes: Lanes::default(),
            named: HashSet::new(),
            dma: DmaActivity::default(),
            depth: QueueDepth::default(),
            pe: PeUse::new(hz / 1_000_000, peak),
            context,
        };
        trace.tracks();
        trace
    }

    fn tracks(&mut self) {
        let mut process = Message::default();
        process.uint(1, 1);
        let name = format!("tpbemu {}", self.context.header.generation);
        process.bytes(6, name.as_bytes());
        let mut track = Message::default();
        // explicit order of the children
        track.uint(1, PROCESS).message(3, &process).uint(11, 3);
        self.descriptor(&track);
        for s in 0..self.context.header.streams.len() as u16 {
            let name = self.context.stream(s).to_string();
            if usize::from(s) < self.context.engines() {
                self.track(lane(s, 0), PROCESS, &name, u64::from(s), true);
                for (l, suffix) in [(1, ""), (2, " stalls"), (3, " sequencer"), (4, " updates")] {
                    self.track(lane(s, l), lane(s, 0), &format!("{name}{suffix}"), l, false);
                }
            } else {
                self.track(lane(s, 1), PROCESS, &name, u64::from(s), false);
            }
        }
        let rank = self.context.header.streams.len() as u64;
        self.track(SYNC_GROUP, PROCESS, "semaphores and events", rank + 3, true);
        self.counter_track(ACTIVE, PROCESS, "active DMAs", "", rank);
        self.counter_track(PENDING, PROCESS, "pending DMAs", "", rank);
        self.counter_track(THROUGHPUT, PROCESS, "DMA throughput", "GB/s", rank + 1);
        self.counter_track(PE_USE, PROCESS, "PE utilisation", "%", rank + 2);
    }

    /// The track of a slice in the data path of `stream`, or in a queue.
    fn place(&mut self, stream: u16, start: u64, end: u64) -> u64 {
        let n = self.lanes.place(stream, start, end) as u64;
        if n == 0 {
            return lane(stream, 1);
        }
        let track = lane(stream, (OVERLAPPED + n - 1).min(CORES - 1));
        if self.named.insert(track) {
            let engine = usize::from(stream) < self.context.engines();
            let parent = if engine { lane(stream, 0) } else { PROCESS };
            let rank = if engine { 1 } else { u64::from(stream) };
            let name = self.context.stream(stream).to_string();
            self.track(track, parent, &name, rank, false);
        }
        track
    }

    fn packet(&mut self, mut packet: Message) {
        packet.uint(SEQUENCE, 1);
        // the first packet starts the table of strings, all others need it
        packet.uint(SEQUENCE_FLAGS, if self.started { 2 } else { 3 });
        self.started = true;
        if !self.interned.is_empty() {
            let interned = std::mem::take(&mut self.interned);
            packet.message(INTERNED, &interned);
        }
        let mut outer = Message::default();
        outer.message(PACKET, &packet);
        self.out.put(outer.as_bytes());
    }

    fn descriptor(&mut self, track: &Message) {
        let mut packet = Message::default();
        packet.message(TRACK_DESCRIPTOR, track);
        self.packet(packet);
    }

    fn track(&mut self, uuid: u64, parent: u64, name: &str, rank: u64, group: bool) {
        let mut track = Message::default();
        track.uint(1, uuid).uint(5, parent).bytes(2, name.as_bytes()).uint(12, rank);
        if group {
            track.uint(11, 3);
        }
        self.descriptor(&track);
    }

    fn counter_track(&mut self, uuid: u64, parent: u64, name: &str, unit: &str, rank: u64) {
        let mut counter = Message::default();
        if !unit.is_empty() {
            counter.bytes(6, unit.as_bytes());
        }
        let mut track = Message::default();
        track.uint(1, uuid).uint(5, parent).bytes(2, name.as_bytes()).uint(12, rank);
        track.message(8, &counter);
        self.descriptor(&track);
    }

    fn event(&mut self, tick: u64, event: &Message) {
        let mut packet = Message::default();
        packet.uint(TIMESTAMP, self.context.ns(tick)).message(TRACK_EVENT, event);
        self.packet(packet);
    }

    fn arguments(&mut self, event: &mut Message, arguments: &[(&str, Value<'_>)]) {
        for (key, value) in arguments {
            let mut a = Message::default();
            a.uint(1, self.keys.id(key, 3, 2, &mut self.interned));
            match value {
                Value::Int(n) => a.uint(3, *n),
                Value::Text(t) => a.uint(17, self.values.id(t, 29, 2, &mut self.interned)),
                Value::Once(t) => a.bytes(6, t.as_bytes()),
            };
            event.message(ANNOTATION, &a);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one call per kind of slice")]
    fn slice(
        &mut self,
        track: u64,
        category: &str,
        name: &str,
        from: u64,
        to: u64,
        flow: Option<u64>,
        arguments: &[(&str, Value<'_>)],
    ) {
        let mut begin = Message::default();
        let name = self.names.id(name, 2, 2, &mut self.interned);
        begin.uint(TYPE, SLICE_BEGIN).uint(TRACK, track).uint(NAME_IID, name);
        begin.bytes(CATEGORY, category.as_bytes());
        if let Some(flow) = flow {
            begin.fixed64(FLOW, flow);
        }
        self.arguments(
            &mut begin,
            &[("start_tick", Value::Int(from)), ("end_tick", Value::Int(to))],
        );
        self.arguments(&mut begin, arguments);
        self.event(from, &begin);
        let mut end = Message::default();
        end.uint(TYPE, SLICE_END).uint(TRACK, track);
        self.event(to, &end);
    }

    fn instant(&mut self, track: u64, tick: u64, name: &str, flow: Option<u64>) {
        let mut event = Message::default();
        let name = self.names.id(name, 2, 2, &mut self.interned);
        event.uint(TYPE, INSTANT).uint(TRACK, track).uint(NAME_IID, name);
        if let Some(flow) = flow {
            event.fixed64(FLOW, flow);
        }
        self.event(tick, &event);
    }

    fn count(&mut self, track: u64, tick: u64, value: u64) {
        let mut event = Message::default();
        event.uint(TYPE, COUNTER).uint(TRACK, track).uint(COUNTER_VALUE, value);
        self.event(tick, &event);
    }

    fn measure(&mut self, track: u64, tick: u64, value: f64) {
        let mut event = Message::default();
        event.uint(TYPE, COUNTER).uint(TRACK, track).double(DOUBLE_COUNTER_VALUE, value);
        self.event(tick, &event);
    }

    fn instruction(&mut self, i: &InstRecord) {
        let named = self.context.name(i.stream, i.pc);
        let (name, text, source) = &*named;
        let period = self.context.period(i.stream);
        let until = i.busy_until.max(i.start);
        let (track, category) = if i.data_path {
            (self.place(i.stream, i.start, until), "data")
        } else {
            (lane(i.stream, 3), "control")
        };
        let flow = i
            .waited
            .and_then(|(id, by)| self.updates.find(id, by?, i.granted).map(|(_, flow)| *flow));
        let waited = i.waited.map(|(id, by)| {
            let by = by.map(|(s, n)| format!(", released by {} #{n}", self.context.stream(s)));
            format!("{}{}", self.context.facts.sync_name(id), by.unwrap_or_default())
        });
        let mut arguments = vec![
            ("pc", Value::Int(i.pc.into())),
            ("execution", Value::Int(i.index)),
            ("instruction", Value::Text(text)),
            ("busy_cycles", Value::Int((until - i.start) / period)),
            ("end_cycle", Value::Int(i.end / period)),
            ("bytes_read", Value::Int(i.bytes[0])),
            ("bytes_written", Value::Int(i.bytes[1])),
            ("flops", Value::Int(i.flops)),
        ];
        if let Some(source) = &source {
            arguments.push(("source", Value::Text(source)));
        }
        if let Some(waited) = &waited {
            arguments.push(("waited", Value::Once(waited)));
        }
        if let Some(cause) = i.stall {
            arguments.push(("stall", Value::Text(cause_name(cause))));
        }
        self.slice(track, category, name, i.start, until, flow, &arguments);
        if i.stream == 0 {
            let mut points = Vec::new();
            self.pe.add(i, |tick, percent| points.push((tick, percent)));
            self.pe_points(&points);
        }
    }

    fn pe_points(&mut self, points: &[(u64, f64)]) {
        for &(tick, percent) in points {
            self.measure(PE_USE, tick, percent);
        }
    }

    fn dma_points(&mut self, points: &[DmaPoint]) {
        let hz = self.context.header.tick_hz as f64;
        for p in points {
            self.count(ACTIVE, p.tick, p.active);
            self.measure(THROUGHPUT, p.tick, p.bytes_per_tick * hz / 1e9);
        }
    }

    fn depths(&mut self, points: &[DepthPoint]) {
        for p in points {
            let track = DEPTHS + u64::from(p.stream);
            if self.named.insert(track) {
                let name = format!("{} pending", self.context.stream(p.stream));
                self.counter_track(track, PROCESS, &name, "", u64::from(p.stream));
            }
            self.count(track, p.tick, p.depth);
            self.count(PENDING, p.tick, p.total);
        }
    }

    /// The track of a Q7 core, which is there for each core that ever ran or got library code.
    fn core(&mut self, core: usize) -> u64 {
        let track = lane(POOL, CORES + core as u64);
        if self.named.insert(track) {
            let name = format!("Q7 core {core}");
            self.track(track, lane(POOL, 0), &name, CORES + core as u64, false);
        }
        track
    }

    fn cores(&mut self, tick: u64, pc: u32, index: u64, cycles: &[u64; 8]) {
        let named = self.context.name(POOL, pc);
        let period = self.context.period(POOL);
        for (core, &n) in cycles.iter().enumerate().filter(|(_, n)| **n > 0) {
            let track = self.core(core);
            let arguments = [
                ("pc", Value::Int(pc.into())),
                ("execution", Value::Int(index)),
                ("instruction", Value::Text(&named.1)),
                ("cycles", Value::Int(n)),
            ];
            self.slice(track, "q7", &named.0, tick, tick + n * period, None, &arguments);
        }
    }

    fn transfer(&mut self, t: &TransferRecord) {
        let named = self.context.name(t.stream, t.block);
        let (name, _, source) = &*named;
        let direction = if t.load { "load" } else { "store" };
        let mut arguments = vec![
            ("bytes", Value::Int(t.bytes)),
            ("dma_engines", Value::Int(t.engines.into())),
            ("queued_tick", Value::Int(t.queued)),
            ("direction", Value::Text(direction)),
            ("index", Value::Int(t.index)),
        ];
        if let Some(source) = &source {
            arguments.push(("source", Value::Text(source)));
        }
        let track = self.place(t.stream, t.start, t.end);
        self.slice(track, "dma", name, t.start, t.end, None, &arguments);
        let mut points = Vec::new();
        self.dma.add(t, |p| points.push(p));
        self.dma_points(&points);
    }
}

impl Recorder for PerfettoTrace {
    fn record(&mut self, record: &Record) {
        let mut waits = Vec::new();
        self.attribution.add(record, |s, span| {
            if let Some(cause) = span.cause {
                waits.push((s as u16, cause, span.from, span.to));
            }
        });
        for (s, cause, from, to) in waits {
            self.slice(lane(s, 2), "stall", cause_name(cause), from, to, None, &[]);
        }
        let mut points = Vec::new();
        self.depth.add(record, |p| points.push(p));
        self.depths(&points);
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => self.transfer(t),
            Record::Sync(s) => {
                self.flows += 1;
                let flow = self.flows;
                self.updates.add(s, flow);
                let name = self.context.facts.sync_name(s.id);
                let track = sync_track(s.id);
                if self.seen.insert(s.id) {
                    self.counter_track(track, SYNC_GROUP, &name, "", track);
                }
                self.count(track, s.tick, s.value.into());
                let engine = usize::from(s.by.0) < self.context.engines();
                let from = lane(s.by.0, if engine { 4 } else { 1 });
                self.instant(from, s.tick, &name, Some(flow));
            }
            Record::Cores { tick, pc, index, cycles } => {
                self.cores(*tick, *pc, *index, cycles);
            }
            Record::Library { tick, end, cores, bytes, .. } => {
                for core in (0..8).filter(|c| cores >> c & 1 == 1) {
                    let track = self.core(core);
                    let bytes = [("bytes", Value::Int((*bytes).into()))];
                    self.slice(track, "q7", "library load", *tick, *end, None, &bytes);
                }
            }
            Record::Usage { tick, memory, average, .. } => {
                let track = USED + u64::from(*memory);
                if self.named.insert(track) {
                    let name = Space::ALL.get(usize::from(*memory)).map_or("?", |m| m.name());
                    let rank = self.context.header.streams.len() as u64 + 2;
                    self.counter_track(track, PROCESS, &format!("{name} used"), "%", rank);
                }
                self.measure(track, *tick, f64::from(*average) / 100.0);
            }
            Record::Queued { .. } => {}
            Record::Note { tick, stream, text, .. } => {
                self.instant(lane(*stream, 1), *tick, text, None);
            }
        }
    }

    fn wants_usage(&self) -> bool {
        true
    }
}

impl Exporter for PerfettoTrace {
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
        self.pe_points(&points);
        let mut event = Message::default();
        let name = self.names.id("end of run", 2, 2, &mut self.interned);
        event.uint(TYPE, INSTANT).uint(TRACK, PROCESS).uint(NAME_IID, name);
        let error = ending.error.clone().unwrap_or_default();
        self.arguments(
            &mut event,
            &[
                ("total_ticks", Value::Int(ending.end)),
                ("tick_hz", Value::Int(self.context.header.tick_hz)),
                ("error", Value::Text(&error)),
            ],
        );
        self.event(ending.end, &event);
        self.out.persist()
    }
}

//! Tables in the vendor's public profile schema (vendor docs: neuron-explorer profile schema
//! reference, 7.4.0), one file per table in a directory. A field that an emulator cannot know is
//! null. Columns after those of the schema hold exact ticks; the table `Stall` is our own.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::attribution::Attribution;
use super::counters::{DepthPoint, DmaActivity, DmaPoint, QueueDepth};
use super::export::{Context, Ending, Exporter, cause_name, parent};
use super::profile::{ENGINE_NAMES, QueueKind, SCHEMA_VERSION};
use super::record::{InstRecord, Record, Recorder, SyncOp, SyncRecord, TransferRecord};
use super::sink::{Column, Container, Kind, Sink};
use super::summary::{Summary, SummaryBuilder};
use crate::error::{Error, ErrorClass, Result};
use crate::memory::Space;
use crate::program::{Memory, Role};
use crate::sync::SyncId;

/// Fields of all tables: table, field, type, unit, required.
const SCHEMA: &str = include_str!("tables/profile_schema.csv");

/// Columns of our own, after those of the schema.
const EXTRA: [(&str, &[(&str, Kind)]); 6] = [
    (
        "Instruction",
        &[
            ("execution", Kind::Integer),
            ("start_tick", Kind::Integer),
            ("busy_until_tick", Kind::Integer),
            ("end_tick", Kind::Integer),
            ("stall", Kind::Text),
        ],
    ),
    (
        "DmaPacket",
        &[
            ("queued_tick", Kind::Integer),
            ("start_tick", Kind::Integer),
            ("end_tick", Kind::Integer),
        ],
    ),
    ("ActiveTime", &[("start_tick", Kind::Integer), ("end_tick", Kind::Integer)]),
    ("SemaphoreUpdate", &[("tick", Kind::Integer), ("name", Kind::Text)]),
    (
        "Metadata",
        &[("tick_hz", Kind::Integer), ("total_ticks", Kind::Integer), ("generation", Kind::Text)],
    ),
    (
        "Stall",
        &[
            ("engine", Kind::Text),
            ("cause", Kind::Text),
            ("pc", Kind::Integer),
            ("start_tick", Kind::Integer),
            ("end_tick", Kind::Integer),
            ("duration_ns", Kind::Integer),
        ],
    ),
];

struct Table {
    position: HashMap<String, usize>,
    cells: Vec<Value>,
    file: Sink,
}

/// Writes the tables.
pub struct Tables {
    context: Context,
    container: Container,
    directory: tempfile::TempDir,
    path: PathBuf,
    tables: HashMap<&'static str, Table>,
    attribution: Attribution,
    summary: SummaryBuilder,
    dma: DmaActivity,
    hbm: DmaActivity,
    depth: QueueDepth,
    failed: Option<std::io::Error>,
}

fn schema() -> impl Iterator<Item = [&'static str; 5]> {
    SCHEMA.lines().skip(1).filter_map(|line| {
        let mut parts = line.split(',');
        Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?])
    })
}

impl Tables {
    /// Creates the directory beside `path`. A table goes on in another file beyond `split` bytes.
    ///
    /// # Errors
    /// It cannot be created, or something that is no trace of ours is in the way.
    pub fn new(
        path: &Path,
        container: Container,
        context: Context,
        split: Option<u64>,
    ) -> Result<Self> {
        container.available()?;
        let metadata = path.join("Metadata").with_extension(container.extension());
        if path.exists() && !metadata.is_file() {
            return Err(Error::new(
                ErrorClass::ConfigError,
                format!("{}: exists and is not a directory of tables", path.display()),
            ));
        }
        let directory = tempfile::Builder::new()
            .prefix(".tables")
            .tempdir_in(parent(path))
            .map_err(|e| Error::io(path, &e))?;
        let mut columns: BTreeMap<&'static str, Vec<Column>> = BTreeMap::new();
        for [table, field, kind, ..] in schema() {
            columns.entry(table).or_default().push((field.to_string(), Kind::of(kind)));
        }
        for (table, fields) in &EXTRA {
            let fields = fields.iter().map(|(f, k)| ((*f).to_string(), *k));
            columns.entry(table).or_default().extend(fields);
        }
        let mut tables = HashMap::new();
        for (name, columns) in columns {
            let position = columns.iter().enumerate().map(|(i, c)| (c.0.clone(), i)).collect();
            let cells = vec![Value::Null; columns.len()];
            let file = Sink::new(container, directory.path(), name, columns, split)
                .map_err(|e| Error::io(path, &e))?;
            tables.insert(name, Table { position, cells, file });
        }
        Ok(Tables {
            container,
            directory,
            path: path.to_path_buf(),
            tables,
            attribution: context.attribution(),
            summary: context.summary(),
            dma: DmaActivity::default(),
            hbm: DmaActivity::default(),
            depth: QueueDepth::default(),
            failed: None,
            context,
        })
    }

    /// Writes a row given by field name. Fields that are not given are null.
    fn row(&mut self, table: &'static str, fields: &[(&str, Value)]) {
        let Some(t) = self.tables.get_mut(table) else { return };
        t.cells.fill(Value::Null);
        for (field, value) in fields {
            match t.position.get(*field) {
                Some(&at) => t.cells[at] = value.clone(),
                None => debug_assert!(false, "{table} has no field {field}"),
            }
        }
        if let Err(e) = t.file.row(&t.cells) {
            self.failed.get_or_insert(e);
        }
    }

    fn engine(&self, stream: u16) -> String {
        match ENGINE_NAMES.get(usize::from(stream)) {
            Some(name) => (*name).to_string(),
            None => self.context.stream(stream).to_string(),
        }
    }

    // one number for every instruction and transfer, that the other tables can name
    fn id(&self, (stream, index): (u16, u64)) -> u64 {
        index * self.context.header.streams.len() as u64 + u64::from(stream)
    }

    fn table_of(&self, stream: u16) -> &'static str {
        if usize::from(stream) < self.context.engines() { "Instruction" } else { "DmaPacket" }
    }

    fn instruction(&mut self, i: &InstRecord) {
        let named = self.context.name(i.stream, i.pc);
        let (name, text, source) = &*named;
        let operands = text.split_once(' ').map_or("", |(_, rest)| rest).to_string();
        let (start, end) = (self.context.ns(i.start), self.context.ns(i.end));
        let waited = if i.waited.is_some() { i.granted.saturating_sub(i.head) } else { 0 };
        let on_dma = matches!(i.waited, Some((_, Some((by, _))))
            if usize::from(by) >= self.context.engines());
        let dma_wait = json!(on_dma.then(|| self.context.ns(waited)));
        let [sbuf, psum, hbm] = i.by_memory;
        let through = if psum[0] > 0 { sbuf[1] } else { 0 };
        let mode = operand(text, "perf_opt").or_else(|| operand(text, "perf_mode"));
        let function = operand(text, "activation_func").filter(|_| name.starts_with("ACTIVATE"));
        let id = self.id((i.stream, i.index));
        self.hbm(i.start, i.end, &i.by_memory);
        let fields = [
            ("start_ts", json!(start)),
            ("end_ts", json!(end)),
            ("duration_ns", json!(end - start)),
            ("engine", json!(self.engine(i.stream))),
            ("pcore_idx", json!(0)),
            ("opcode", json!(name)),
            ("operands", json!(operands)),
            ("id", json!(id)),
            ("pc", json!(i.pc)),
            ("evt_wait_time_ns", json!(self.context.ns(waited))),
            ("nki_source_location", json!(source)),
            ("dma_wait_time_ns", dma_wait),
            ("psum_read_sbuf_write_bytes", json!(through)),
            ("performance_mode", json!(mode)),
            ("scalar_activation_fn", json!(function)),
            ("sbuf_read_bytes", json!(sbuf[0])),
            ("sbuf_write_bytes", json!(sbuf[1])),
            ("psum_read_bytes", json!(psum[0])),
            ("psum_write_bytes", json!(psum[1])),
            ("hbm_read_bytes", json!(hbm[0])),
            ("hbm_write_bytes", json!(hbm[1])),
            ("raw_flops", json!(i.flops)),
            ("execution", json!(i.index)),
            ("start_tick", json!(i.start)),
            ("busy_until_tick", json!(i.busy_until)),
            ("end_tick", json!(i.end)),
            ("stall", json!(i.stall.map(cause_name))),
        ];
        self.row("Instruction", &fields);
        if let Some((sync, Some(by))) = i.waited {
            let kind = if matches!(sync, SyncId::Semaphore(_)) { "semaphore" } else { "event" };
            let fields = [
                ("in_id", json!(self.id(by))),
                ("out_id", json!(id)),
                ("in_table", json!(self.table_of(by.0))),
                ("out_table", json!("Instruction")),
                ("dependency_type", json!(kind)),
                ("gap_time", json!(self.context.ns(i.start.saturating_sub(i.granted)))),
            ];
            self.row("Flow", &fields);
        }
    }

    fn transfer(&mut self, t: &TransferRecord) {
        let named = self.context.name(t.stream, t.block);
        let name = &named.0;
        let (start, end) = (self.context.ns(t.start), self.context.ns(t.end));
        let ticks = t.end.saturating_sub(t.start).max(1);
        let rate = t.bytes as f64 * self.context.header.tick_hz as f64 / ticks as f64;
        let queue = usize::from(t.stream).saturating_sub(self.context.engines());
        let id = self.id((t.stream, t.index));
        let kind = QueueKind::of(&self.context.facts, t.stream).name();
        let fields = [
            ("start_ts", json!(start)),
            ("end_ts", json!(end)),
            ("duration_ns", json!(end - start)),
            ("pcore_idx", json!(0)),
            ("id", json!(id)),
            ("packet_idx", json!(t.index)),
            ("packet_aggregation_id", json!(id)),
            ("read_bytes", json!(t.bytes)),
            ("write_bytes", json!(t.bytes)),
            ("transfer_bytes", json!(t.bytes)),
            ("throughput", json!(rate)),
            ("queue_type", json!(kind)),
            ("variable", json!(name)),
            ("queue_name", json!(self.context.stream(t.stream))),
            ("queue_idx", json!(queue)),
            ("queued_tick", json!(t.queued)),
            ("start_tick", json!(t.start)),
            ("end_tick", json!(t.end)),
        ];
        self.row("DmaPacket", &fields);
        let fields = [
            ("in_id", json!(self.id(t.trigger))),
            ("out_id", json!(id)),
            ("in_table", json!(self.table_of(t.trigger.0))),
            ("out_table", json!("DmaPacket")),
            ("dependency_type", json!("dma_trigger")),
            ("gap_time", json!(self.context.ns(t.start.saturating_sub(t.queued)))),
        ];
        self.row("Flow", &fields);
        let mut points = Vec::new();
        self.dma.add(t, |p| points.push(p));
        self.usage_points("DmaUsage", &points);
        self.hbm(t.start, t.end, &t.by_memory);
    }

    fn hbm(&mut self, start: u64, end: u64, by_memory: &[[u64; 2]; 3]) {
        let [read, written] = by_memory[Space::Hbm as usize];
        if read + written > 0 {
            let mut points = Vec::new();
            self.hbm.moves(start, end, read + written, |p| points.push(p));
            self.usage_points("HbmUsage", &points);
        }
    }

    fn depths(&mut self, points: &[DepthPoint]) {
        for p in points {
            let ts = json!(self.context.ns(p.tick));
            let fields = [("timestamp", ts), ("value", json!(p.total)), ("pcore_idx", json!(0))];
            self.row("PendingDma", &fields);
        }
    }

    fn memory_usage(&mut self, tick: u64, memory: u8, parts: &[u16; 8], average: u16) {
        const SBUF: [&str; 4] = [
            "partition_0_util_percent",
            "partition_32_util_percent",
            "partition_64_util_percent",
            "partition_96_util_percent",
        ];
        const PSUM: [&str; 8] = [
            "bank_0_util_percent",
            "bank_1_util_percent",
            "bank_2_util_percent",
            "bank_3_util_percent",
            "bank_4_util_percent",
            "bank_5_util_percent",
            "bank_6_util_percent",
            "bank_7_util_percent",
        ];
        let percent = |n: u16| json!(f64::from(n) / 100.0);
        let (table, names) = match usize::from(memory) {
            m if m == Space::Sbuf as usize => ("SbufUsage", &SBUF[..]),
            _ => ("PsumUsage", &PSUM[..]),
        };
        let mut fields = vec![
            ("timestamp", json!(self.context.ns(tick))),
            ("avg_util_percent", percent(average)),
            ("pcore_idx", json!(0)),
        ];
        fields.extend(names.iter().zip(parts).map(|(n, p)| (*n, percent(*p))));
        self.row(table, &fields);
    }

    fn usage_points(&mut self, table: &'static str, points: &[DmaPoint]) {
        for p in points {
            let rate = p.bytes_per_tick * self.context.header.tick_hz as f64;
            let fields = [
                ("timestamp", json!(self.context.ns(p.tick))),
                ("current_throughput", json!(rate)),
                ("total_transfer_bytes", json!(p.total_bytes)),
                ("pcore_idx", json!(0)),
            ];
            self.row(table, &fields);
        }
    }

    fn update(&mut self, s: &SyncRecord) {
        let id = match s.id {
            SyncId::Semaphore(n) => format!("{n}"),
            SyncId::Event(n) => format!("E{n}"),
        };
        let source = self.engine(s.by.0);
        let fields = [
            ("timestamp", json!(self.context.ns(s.tick))),
            ("id", json!(id)),
            ("value", json!(s.value)),
            ("update_source", json!(source)),
            ("update_operation_type", json!(operation(s.op))),
            ("pcore_idx", json!(0)),
            ("tick", json!(s.tick)),
            ("name", json!(self.context.facts.sync_name(s.id))),
        ];
        self.row("SemaphoreUpdate", &fields);
    }

    fn spans(&mut self, record: &Record) {
        let pc = match record {
            Record::Inst(i) => i.pc,
            Record::Transfer(t) => t.block,
            _ => return,
        };
        let mut spans = Vec::new();
        self.attribution.add(record, |s, span| spans.push((s as u16, span)));
        for (s, span) in spans {
            let engine = json!(self.engine(s));
            let (start, end) = (self.context.ns(span.from), self.context.ns(span.to));
            let ticks = [("start_tick", json!(span.from)), ("end_tick", json!(span.to))];
            let [from, to] = ticks;
            let duration = ("duration_ns", json!(end - start));
            match span.cause {
                None => {
                    let fields = [
                        ("start_ts", json!(start)),
                        ("end_ts", json!(end)),
                        ("engine", engine),
                        ("pcore_idx", json!(0)),
                        duration,
                        from,
                        to,
                    ];
                    self.row("ActiveTime", &fields);
                }
                Some(cause) => {
                    let cause = ("cause", json!(cause_name(cause)));
                    self.row(
                        "Stall",
                        &[("engine", engine), cause, ("pc", json!(pc)), from, to, duration],
                    );
                }
            }
        }
    }

    fn closing(&mut self, ending: &Ending) {
        let builder = std::mem::take(&mut self.summary);
        let summary = builder.finish(&self.context.header, ending.end, &*self.context.names);
        self.opcodes(&summary);
        self.tensors(&summary);
        for w in &summary.warnings {
            let fields = [("message", json!(w.message)), ("category", json!(w.category))];
            self.row("Warning", &fields);
        }
        if let Some(e) = &ending.error {
            let fields = [
                ("description", json!(e)),
                ("timestamp", json!(self.context.ns(ending.end))),
                ("type", json!(e.split(':').next().unwrap_or(""))),
            ];
            self.row("Error", &fields);
        }
        let first = self.context.engines();
        for stream in first..self.context.header.streams.len() {
            let (idx, stream) = (stream - first, stream as u16);
            let fields = [
                ("name", json!(self.context.stream(stream))),
                ("type", json!(QueueKind::of(&self.context.facts, stream).name())),
                ("pcore_idx", json!(0)),
                ("idx", json!(idx)),
            ];
            self.row("DmaQueuesInfo", &fields);
        }
        self.metadata(ending);
        let rows: u64 = self.tables.values().map(|t| t.file.rows()).sum::<u64>() + 1;
        let mut fields: Vec<(&str, Value)> =
            summary.profile.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        fields.push(("total_row_count", json!(rows + schema().count() as u64)));
        self.row("Summary", &fields);
        for [table, field, kind, unit, required] in schema() {
            let fields = [
                ("table_name", json!(table)),
                ("field_name", json!(field)),
                ("field_type", json!(kind)),
                ("field_required", json!(required == "1")),
                ("field_unit", json!(unit)),
            ];
            self.row("SchemaFields", &fields);
        }
    }

    fn metadata(&mut self, ending: &Ending) {
        let f = self.context.facts.clone();
        let ghz = |e: usize| json!(f.engine_hz.get(e).map(|hz| *hz as f64 / 1e9));
        let end = self.context.ns(ending.end);
        let hz = self.context.header.tick_hz;
        let whole = hz.is_multiple_of(1_000_000_000).then_some(hz / 1_000_000_000);
        let fields = [
            ("ticks_per_nanosec", json!(whole)),
            ("neuroncore_clock_freq", ghz(0)),
            ("profile_name", json!(f.sources.first())),
            ("profile_schema_version", json!(SCHEMA_VERSION)),
            ("num_physical_cores", json!(1)),
            ("vnc_enabled", json!(false)),
            ("first_hw_timestamp", json!(0)),
            ("last_hw_timestamp", json!(end)),
            ("num_dma_engines_per_neuroncore", json!(f.dma_engines)),
            ("hbm_ddr_bandwidth", json!(f.hbm_bytes_per_second)),
            ("dma_ddr_bandwidth", json!(f.dma_bytes_per_second)),
            ("tensor_engine_num_rows", json!(f.pe[0])),
            ("tensor_engine_num_cols", json!(f.pe[1])),
            ("tensor_engine_clock_freq", ghz(0)),
            ("scalar_engine_clock_freq", ghz(1)),
            ("gpsimd_engine_clock_freq", ghz(2)),
            ("vector_engine_clock_freq", ghz(3)),
            ("vector_engine_num_channels", json!(f.channels)),
            ("scalar_engine_num_channels", json!(f.channels)),
            ("gpsimd_engine_num_channels", json!(f.channels)),
            ("explorer_version", json!(concat!("tpbemu ", env!("CARGO_PKG_VERSION")))),
            ("is_simulation", json!(true)),
            ("tick_hz", json!(self.context.header.tick_hz)),
            ("total_ticks", json!(ending.end)),
            ("generation", json!(self.context.header.generation)),
        ];
        self.row("Metadata", &fields);
    }

    fn opcodes(&mut self, summary: &Summary) {
        let mut sums: BTreeMap<(usize, &str), [u64; 3]> = BTreeMap::new();
        for w in summary.words() {
            let stream = usize::from(w.stream);
            if stream >= ENGINE_NAMES.len() {
                continue;
            }
            let sum = sums.entry((stream, summary.mnemonic(w))).or_default();
            for (s, part) in sum.iter_mut().zip([w.count, w.instruction_ticks, w.busy_ticks]) {
                *s += part;
            }
        }
        for ((stream, opcode), [count, ticks, busy]) in sums {
            let percent = 100.0 * busy as f64 / summary.total_ticks.max(1) as f64;
            let fields = [
                ("engine", json!(ENGINE_NAMES[stream])),
                ("opcode", json!(opcode)),
                ("instruction_count", json!(count)),
                ("instruction_time_ns", json!(self.context.ns(ticks))),
                ("active_time_ns", json!(self.context.ns(busy))),
                ("active_time_percent", json!(percent)),
            ];
            self.row("OpcodeSummary", &fields);
        }
    }

    fn tensors(&mut self, summary: &Summary) {
        for t in self.context.facts.tensors.clone() {
            let loads = summary.loads.get(&t.name).copied();
            let kind = match (t.memory, t.role) {
                (_, Role::Input) => "input",
                (_, Role::Output) => "output",
                (Memory::Hbm, Role::Internal) => "internal",
                (m, Role::Internal) => m.name(),
            };
            let shape: Vec<String> = t.shape.iter().map(u64::to_string).collect();
            let mut fields = vec![
                ("variable_name", json!(t.name)),
                ("type", json!(kind)),
                ("format", json!(t.dtype)),
                ("shape", json!(format!("[{}]", shape.join(",")))),
                ("size", json!(t.bytes)),
                ("pcore_idx", json!(0)),
            ];
            if let Some(l) = loads {
                fields.push(("load_to_sbuf_avg_size_bytes", json!(l.bytes / l.count.max(1))));
                fields.push(("load_to_sbuf_total_size_bytes", json!(l.bytes)));
                fields.push(("load_to_sbuf_dma_count", json!(l.count)));
                fields.push(("load_to_sbuf_repeat_factor", json!(l.repeat_factor)));
            }
            self.row("TensorInfo", &fields);
        }
    }
}

impl Recorder for Tables {
    fn record(&mut self, record: &Record) {
        self.spans(record);
        self.summary.add(record);
        let mut points = Vec::new();
        self.depth.add(record, |p| points.push(p));
        self.depths(&points);
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => self.transfer(t),
            Record::Sync(s) => self.update(s),
            Record::Usage { tick, memory, parts, average } => {
                self.memory_usage(*tick, *memory, parts, *average);
            }
            // the vendor's tables have no place for single cores
            Record::Cores { .. } | Record::Library { .. } | Record::Queued { .. } => {}
            Record::Note { tick, stream, text, .. } => {
                let message = format!(
                    "{} at {} ns: {text}",
                    self.context.stream(*stream),
                    self.context.ns(*tick)
                );
                self.row("Warning", &[("message", json!(message)), ("category", json!("note"))]);
            }
        }
    }

    fn wants_usage(&self) -> bool {
        true
    }
}

/// The value of operand `name` in a disassembly.
fn operand(text: &str, name: &str) -> Option<String> {
    let at = text.find(&format!(" {name}="))?;
    let value = text[at + name.len() + 2..].split([' ', ',']).next()?;
    Some(value.to_string())
}

/// What an update did, in words.
fn operation(op: SyncOp) -> &'static str {
    match op {
        SyncOp::Set => "set",
        SyncOp::Clear => "clear",
        SyncOp::Add => "add",
        SyncOp::Sub => "sub",
        SyncOp::Write => "write",
        SyncOp::Wait => "wait",
    }
}

impl Exporter for Tables {
    fn size(&self) -> u64 {
        0
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        let mut points = Vec::new();
        self.dma.advance(u64::MAX, |p| points.push(p));
        self.usage_points("DmaUsage", &points);
        let mut points = Vec::new();
        self.hbm.advance(u64::MAX, |p| points.push(p));
        self.usage_points("HbmUsage", &points);
        let mut points = Vec::new();
        self.depth.advance(u64::MAX, |p| points.push(p));
        self.depths(&points);
        self.closing(ending);
        let io = |e: std::io::Error| Error::io(&self.path, &e);
        if let Some(e) = self.failed.take() {
            return Err(io(e));
        }
        for (_, table) in self.tables.drain() {
            table.file.finish().map_err(io)?;
        }
        let new = self.directory.keep();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).map_err(io)?;
        }
        // a directory cannot be replaced at once: the old one steps aside and goes last
        let old = self.path.with_extension(format!("{}.old", self.container.extension()));
        let replaced = self.path.exists();
        if replaced {
            let _ = std::fs::remove_dir_all(&old);
            std::fs::rename(&self.path, &old).map_err(io)?;
        }
        std::fs::rename(&new, &self.path).map_err(io)?;
        if replaced {
            std::fs::remove_dir_all(&old).map_err(io)?;
        }
        Ok(())
    }
}

//! CSV tables in the vendor's public profile schema (vendor docs: neuron-explorer profile schema
//! reference, 7.4.0), one file per table in a directory. A field that an emulator cannot know is
//! empty. Columns after those of the schema hold exact ticks; the table `Stall` is our own.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::attribution::Attribution;
use super::counters::{DmaActivity, DmaPoint};
use super::export::{Context, Ending, Exporter, cause_name, parent};
use super::profile::{ENGINE_NAMES, SCHEMA_VERSION};
use super::record::{InstRecord, Record, Recorder, SyncRecord, TransferRecord};
use super::summary::{Summary, SummaryBuilder};
use crate::error::{Error, ErrorClass, Result};
use crate::program::{Memory, Role};
use crate::sync::SyncId;

/// Fields of all tables: table, field, type, unit, required.
const SCHEMA: &str = include_str!("tables/profile_schema.csv");

/// Columns of our own, after those of the schema.
const EXTRA: [(&str, &[&str]); 5] = [
    ("Instruction", &["execution", "start_tick", "busy_until_tick", "end_tick", "stall"]),
    ("DmaPacket", &["queued_tick", "start_tick", "end_tick"]),
    ("ActiveTime", &["start_tick", "end_tick"]),
    ("SemaphoreUpdate", &["tick", "name"]),
    ("Metadata", &["tick_hz", "total_ticks", "generation"]),
];
/// The table of waiting.
const STALL: (&str, &[&str]) =
    ("Stall", &["engine", "cause", "pc", "start_tick", "end_tick", "duration_ns"]);

type File = csv::Writer<std::fs::File>;

struct Table {
    columns: Vec<String>,
    file: File,
}

/// Writes the tables.
pub struct Tables {
    context: Context,
    directory: tempfile::TempDir,
    path: PathBuf,
    tables: HashMap<&'static str, Table>,
    attribution: Attribution,
    summary: SummaryBuilder,
    dma: DmaActivity,
    updates: HashMap<SyncId, (u16, u64)>,
    failed: Option<csv::Error>,
}

fn schema() -> impl Iterator<Item = [&'static str; 5]> {
    SCHEMA.lines().skip(1).filter_map(|line| {
        let mut parts = line.split(',');
        Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?])
    })
}

impl Tables {
    /// Creates the directory beside `path`.
    ///
    /// # Errors
    /// It cannot be created, or something that is no trace of ours is in the way.
    pub fn new(path: &Path, context: Context) -> Result<Self> {
        if path.exists() && !path.join("Metadata.csv").is_file() {
            return Err(Error::new(
                ErrorClass::ConfigError,
                format!("{}: exists and is not a directory of tables", path.display()),
            ));
        }
        let directory = tempfile::Builder::new()
            .prefix(".tables")
            .tempdir_in(parent(path))
            .map_err(|e| Error::io(path, &e))?;
        let mut columns: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for [table, field, ..] in schema() {
            columns.entry(table).or_default().push(field.to_string());
        }
        for (table, fields) in EXTRA.iter().chain([&STALL]) {
            columns.entry(table).or_default().extend(fields.iter().map(|f| (*f).to_string()));
        }
        let mut tables = HashMap::new();
        for (name, columns) in columns {
            let at = directory.path().join(name).with_extension("csv");
            let file = csv::Writer::from_path(&at)
                .and_then(|mut f| f.write_record(&columns).map(|()| f))
                .map_err(|e| Error::io(&at, &e.into()))?;
            tables.insert(name, Table { columns, file });
        }
        let streams = context.header.streams.len();
        Ok(Tables {
            directory,
            path: path.to_path_buf(),
            tables,
            attribution: Attribution::new(streams),
            summary: SummaryBuilder::new(&context.header, context.facts.clone()),
            dma: DmaActivity::default(),
            updates: HashMap::new(),
            failed: None,
            context,
        })
    }

    /// Writes a row given by field name. Fields that are not given stay empty.
    fn row(&mut self, table: &'static str, fields: &[(&str, Value)]) {
        let Some(t) = self.tables.get_mut(table) else { return };
        debug_assert!(
            fields.iter().all(|(f, _)| t.columns.iter().any(|c| c == f)),
            "{table} has all of {:?}",
            fields.iter().map(|f| f.0).collect::<Vec<_>>()
        );
        let cells = t.columns.iter().map(|c| match fields.iter().find(|(f, _)| f == c) {
            Some((_, Value::String(s))) => s.clone(),
            Some((_, Value::Null)) | None => String::new(),
            Some((_, v)) => v.to_string(),
        });
        if let Err(e) = t.file.write_record(cells) {
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
        let (name, text, source) = (self.context.names)(i.stream, i.pc);
        let operands = text.split_once(' ').map_or("", |(_, rest)| rest).to_string();
        let (start, end) = (self.context.ns(i.start), self.context.ns(i.end));
        let waited = if i.waited.is_some() { i.granted.saturating_sub(i.head) } else { 0 };
        let [sbuf, psum, hbm] = i.by_memory;
        let id = self.id((i.stream, i.index));
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
        let (name, ..) = (self.context.names)(t.stream, t.block);
        let (start, end) = (self.context.ns(t.start), self.context.ns(t.end));
        let ticks = t.end.saturating_sub(t.start).max(1);
        let rate = t.bytes as f64 * self.context.header.tick_hz as f64 / ticks as f64;
        let queue = usize::from(t.stream) - self.context.engines();
        let id = self.id((t.stream, t.index));
        let kind = if queue < self.context.facts.queues.len() { "static" } else { "dynamic" };
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
        self.dma_points(&points);
    }

    fn dma_points(&mut self, points: &[DmaPoint]) {
        for p in points {
            let ts = json!(self.context.ns(p.tick));
            let rate = p.bytes_per_tick * self.context.header.tick_hz as f64;
            let fields = [
                ("timestamp", ts.clone()),
                ("current_throughput", json!(rate)),
                ("total_transfer_bytes", json!(p.total_bytes)),
                ("pcore_idx", json!(0)),
            ];
            self.row("DmaUsage", &fields);
            let fields = [("timestamp", ts), ("value", json!(p.active)), ("pcore_idx", json!(0))];
            self.row("PendingDma", &fields);
        }
    }

    fn update(&mut self, s: &SyncRecord) {
        self.updates.insert(s.id, s.by);
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
        let summary = builder.finish(&self.context.header, ending.end, &self.context.names);
        let fields: Vec<(&str, Value)> =
            summary.profile.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        self.row("Summary", &fields);
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
        for (idx, (_, kind)) in self.context.facts.queues.clone().into_iter().enumerate() {
            let name = self.context.stream((self.context.engines() + idx) as u16).to_string();
            let fields = [
                ("name", json!(name)),
                ("type", json!(kind)),
                ("pcore_idx", json!(0)),
                ("idx", json!(idx)),
            ];
            self.row("DmaQueuesInfo", &fields);
        }
        self.metadata(ending);
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
        let fields = [
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
        for ((stream, opcode), c) in &summary.opcodes {
            let Some(engine) = ENGINE_NAMES.get(usize::from(*stream)) else { continue };
            let [count, ticks, busy] = [c.count, c.instruction_ticks, c.busy_ticks];
            let percent = 100.0 * busy as f64 / summary.total_ticks.max(1) as f64;
            let fields = [
                ("engine", json!(engine)),
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
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => self.transfer(t),
            Record::Sync(s) => self.update(s),
            // the vendor's tables have no place for single cores
            Record::Cores { .. } => {}
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
}

impl Exporter for Tables {
    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        let mut points = Vec::new();
        self.dma.advance(u64::MAX, |p| points.push(p));
        self.dma_points(&points);
        self.closing(ending);
        let io = |e: std::io::Error| Error::io(&self.path, &e);
        if let Some(e) = self.failed.take() {
            return Err(io(e.into()));
        }
        for table in self.tables.values_mut() {
            table.file.flush().map_err(io)?;
        }
        let new = self.directory.keep();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).map_err(io)?;
        }
        // a directory cannot be replaced at once: the old one steps aside and goes last
        let old = self.path.with_extension("csv.old");
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

//! Exporters: what they share, and the choice by file name.

use std::cell::RefCell;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::attribution::{Attribution, Resume};
use super::facts::Facts;
use super::record::{Record, Recorder, TraceHeader};
use super::sink::Container;
use super::summary::SummaryBuilder;
use crate::error::{Error, ErrorClass, Result};

/// Names an instruction: (stream, word) to (name, disassembly, source line).
pub type Namer = Arc<dyn Fn(u16, u32) -> (String, String, Option<String>) + Send + Sync>;

/// What a word is called: name, disassembly, source line.
pub type Named = Arc<(String, String, Option<String>)>;

/// What an exporter knows before the first record.
pub struct Context {
    /// Streams and clocks.
    pub header: TraceHeader,
    /// Machine and program.
    pub facts: Facts,
    /// Names of instructions.
    pub names: Namer,
    /// Where the trace goes on, if it is a part of one.
    pub resume: Resume,
    cache: RefCell<FxHashMap<(u16, u32), Named>>,
}

impl Context {
    /// For a trace from the first record on.
    pub fn new(header: TraceHeader, facts: Facts, names: Namer) -> Context {
        Context { header, facts, names, resume: Resume::default(), cache: RefCell::default() }
    }

    /// The same for a trace that goes on at `resume`.
    pub fn resumed(&self, resume: Resume) -> Context {
        let (header, facts) = (self.header.clone(), self.facts.clone());
        Context { resume, ..Context::new(header, facts, Arc::clone(&self.names)) }
    }

    /// What the word `pc` of `stream` is called.
    pub fn name(&self, stream: u16, pc: u32) -> Named {
        let mut cache = self.cache.borrow_mut();
        Arc::clone(cache.entry((stream, pc)).or_insert_with(|| Arc::new((self.names)(stream, pc))))
    }

    /// The split of the streams' time, where this trace starts.
    pub fn attribution(&self) -> Attribution {
        Attribution::resume(self.header.streams.len(), &self.resume)
    }

    /// A summary of what this trace holds.
    pub fn summary(&self) -> SummaryBuilder {
        SummaryBuilder::resumed(&self.header, self.facts.clone(), &self.resume)
    }

    /// Nanoseconds of `tick`, rounded down.
    pub fn ns(&self, tick: u64) -> u64 {
        self.scaled(tick, 1_000_000_000)
    }

    /// `tick` in units of a second over `unit`, rounded down.
    pub fn scaled(&self, tick: u64, unit: u64) -> u64 {
        (u128::from(tick) * u128::from(unit) / u128::from(self.header.tick_hz.max(1))) as u64
    }

    /// Ticks per cycle of a stream.
    pub fn period(&self, stream: u16) -> u64 {
        self.header.periods.get(usize::from(stream)).copied().unwrap_or(1).max(1)
    }

    /// Name of a stream.
    pub fn stream(&self, stream: u16) -> &str {
        self.header.streams.get(usize::from(stream)).map_or("?", String::as_str)
    }

    /// Streams that are engines.
    pub fn engines(&self) -> usize {
        self.facts.engine_hz.len()
    }
}

/// How a run ended, for the trace.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Tick of the last thing that happened.
    pub end: u64,
    /// Why it did not come to its end.
    pub error: Option<String>,
}

/// A recorder with a file behind it. The file appears under its name when it is whole; an
/// exporter that is dropped leaves nothing.
pub trait Exporter: Recorder {
    /// Bytes of the file so far, as far as they are known before it is whole.
    fn size(&self) -> u64;

    /// Completes the file.
    ///
    /// # Errors
    /// The first write that failed.
    fn finish(self: Box<Self>, ending: &Ending) -> Result<()>;
}

impl Recorder for Box<dyn Exporter> {
    fn record(&mut self, record: &Record) {
        (**self).record(record);
    }

    fn wants_usage(&self) -> bool {
        (**self).wants_usage()
    }
}

/// File formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chrome trace-event JSON.
    Chrome,
    /// Perfetto protobuf.
    Perfetto,
    /// Viewer and data in one HTML file.
    Html,
    /// Directory of tables.
    Tables(Container),
    /// Value change dump.
    Vcd,
    /// Our own records, packed, from which all others can be made.
    Recording,
    /// The same as one JSON object a line.
    Records,
}

impl Format {
    /// # Errors
    /// [`ErrorClass::ConfigError`] if this build cannot write the format.
    pub fn available(self) -> Result<()> {
        match self {
            Format::Tables(container) => container.available(),
            _ => Ok(()),
        }
    }

    /// The format that a file name stands for.
    ///
    /// # Errors
    /// [`ErrorClass::ConfigError`] for an extension that stands for none.
    pub fn of(path: &Path) -> Result<Format> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("json") => Ok(Format::Chrome),
            Some("pftrace" | "perfetto-trace") => Ok(Format::Perfetto),
            Some("html") => Ok(Format::Html),
            Some("csv") => Ok(Format::Tables(Container::Csv)),
            Some("parquet") => Ok(Format::Tables(Container::Parquet)),
            Some("tpbtrace") => Ok(Format::Recording),
            Some("vcd") => Ok(Format::Vcd),
            Some("jsonl") => Ok(Format::Records),
            _ => Err(Error::new(
                ErrorClass::ConfigError,
                format!("{}: no trace format has this extension", path.display()),
            )
            .help(
                "use .json (Chrome), .pftrace (Perfetto), .html (viewer), .csv or .parquet \
                 (directory of tables), .vcd (waveforms), .tpbtrace (recording) or .jsonl (the \
                 same as text)",
            )),
        }
    }
}

/// Starts the export that the name of `path` asks for. Tables go on in another file beyond `split`
/// bytes; other formats do not look at it.
///
/// # Errors
/// Unknown extension; the file cannot be created.
pub fn open(path: &Path, context: Context, split: Option<u64>) -> Result<Box<dyn Exporter>> {
    Ok(match Format::of(path)? {
        Format::Chrome => Box::new(super::chrome::ChromeTrace::new(Output::new(path)?, context)),
        Format::Perfetto => {
            Box::new(super::perfetto::PerfettoTrace::new(Output::new(path)?, context))
        }
        Format::Html => Box::new(super::html::HtmlTrace::new(Output::new(path)?, context)),
        Format::Tables(container) => {
            Box::new(super::tables::Tables::new(path, container, context, split)?)
        }
        Format::Vcd => Box::new(super::vcd::VcdTrace::new(Output::new(path)?, context)),
        Format::Recording => {
            Box::new(super::recording::RecordingTrace::new(Output::new(path)?, context))
        }
        Format::Records => Box::new(super::lines::LinesTrace::new(Output::new(path)?, context)),
    })
}

/// A file on its way to disk: written beside the target and renamed when it is whole. The first
/// failure is kept and told at the end, so that a full disk does not end a run.
pub struct Output {
    file: BufWriter<tempfile::NamedTempFile>,
    path: PathBuf,
    failed: Option<std::io::Error>,
    size: u64,
}

impl Output {
    /// Creates the file beside `path`.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new(path: &Path) -> Result<Output> {
        let directory = parent(path);
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            // temporary files are private by default; the umask still applies to this mode
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(directory).map_err(|e| Error::io(path, &e))?;
        Ok(Output {
            file: BufWriter::with_capacity(1 << 18, file),
            path: path.to_path_buf(),
            failed: None,
            size: 0,
        })
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes bytes, unless something failed before.
    pub fn put(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The first write that failed, or the rename.
    pub fn persist(self) -> Result<()> {
        let io = |e: &std::io::Error| Error::io(&self.path, e);
        if let Some(e) = &self.failed {
            return Err(io(e));
        }
        let file = self.file.into_inner().map_err(|e| io(&e.into_error()))?;
        file.persist(&self.path).map_err(|e| io(&e.error))?;
        Ok(())
    }
}

/// The directory in which `path` lies.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Lower-case name of a stall cause, as all formats have it.
pub fn cause_name(cause: super::StallCause) -> &'static str {
    use super::StallCause as C;
    match cause {
        C::Semaphore => "semaphore",
        C::Event => "event",
        C::Dependency => "dependency",
        C::Queue => "queue",
        C::Drain => "drain",
        C::Port => "port",
        C::Control => "control",
    }
}

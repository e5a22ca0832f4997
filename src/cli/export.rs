//! `tpbemu export`: turns a recording into other formats; `tpbemu view`: into the viewer.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::error::{Error, ErrorClass, Result};
use crate::trace::export::{self, Exporter, Format};
use crate::trace::lines::Reader;
use crate::trace::{Record, Recorder};

/// Turns a recording (.jsonl) into other formats.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Recording that `tpbemu run --trace FILE.jsonl` wrote.
    recording: PathBuf,
    /// File to write; its extension chooses the format, as for `run --trace`.
    #[arg(long, short, value_name = "FILE", required = true)]
    output: Vec<PathBuf>,
    /// Only what ends after this many nanoseconds of simulated time.
    #[arg(long, default_value_t = 0.0)]
    from_ns: f64,
    /// Only what starts before this many nanoseconds of simulated time.
    #[arg(long)]
    to_ns: Option<f64>,
    /// Only these streams, by name (PE, ACT, POOL, DVE, SP, q:NAME).
    #[arg(long, value_name = "STREAM")]
    stream: Vec<String>,
}

/// Makes the viewer of a recording and opens it.
#[derive(Args, Debug)]
pub struct ViewArgs {
    /// Recording (.jsonl), or viewer (.html) that is there already.
    trace: PathBuf,
    /// Write the viewer here and do not open it.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

struct Filter {
    from: u64,
    to: u64,
    streams: Vec<bool>,
}

impl Filter {
    fn takes(&self, record: &Record) -> bool {
        let (stream, from, to) = match record {
            Record::Inst(i) => (i.stream, i.head, i.end),
            Record::Transfer(t) => (t.stream, t.queued, t.end),
            Record::Sync(s) => (s.by.0, s.tick, s.tick),
            Record::Note { tick, stream, .. } => (*stream, *tick, *tick),
            Record::Cores { tick, .. } => (crate::isa::Engine::Pool as u16, *tick, *tick),
        };
        self.streams.get(usize::from(stream)) == Some(&true) && to >= self.from && from <= self.to
    }
}

/// Runs `export`.
///
/// # Errors
/// What reading and writing raise.
pub fn main(args: &ExportArgs) -> Result<ExitCode> {
    convert(&args.recording, &args.output, args.from_ns, args.to_ns, &args.stream)?;
    Ok(ExitCode::SUCCESS)
}

fn convert(
    recording: &Path,
    outputs: &[PathBuf],
    from_ns: f64,
    to_ns: Option<f64>,
    wanted: &[String],
) -> Result<()> {
    let file = File::open(recording).map_err(|e| Error::io(recording, &e))?;
    let mut reader = Reader::new(BufReader::with_capacity(1 << 18, file))?;
    let header = &reader.header;
    for name in wanted {
        if !header.streams.contains(name) {
            return Err(Error::new(
                ErrorClass::ConfigError,
                format!(
                    "the recording has no stream `{name}`; it has {}",
                    header.streams.join(", ")
                ),
            ));
        }
    }
    let ticks = |ns: f64| (ns.max(0.0) * header.tick_hz as f64 / 1e9) as u64;
    let filter = Filter {
        from: ticks(from_ns),
        to: to_ns.map_or(u64::MAX, ticks),
        streams: header.streams.iter().map(|s| wanted.is_empty() || wanted.contains(s)).collect(),
    };
    let mut exports: Vec<Box<dyn Exporter>> = Vec::new();
    for path in outputs {
        exports.push(export::open(path, reader.context())?);
    }
    let ending = reader.read(|record| {
        if filter.takes(record) {
            for e in &mut exports {
                e.record(record);
            }
        }
    })?;
    for e in exports {
        e.finish(&ending)?;
    }
    Ok(())
}

/// Runs `view`.
///
/// # Errors
/// What reading and writing raise; no program on this host opens HTML files.
pub fn view(args: &ViewArgs) -> Result<ExitCode> {
    let page = match Format::of(&args.trace)? {
        Format::Html if args.html.is_none() => args.trace.clone(),
        Format::Records => {
            let page = args.html.clone().unwrap_or_else(|| args.trace.with_extension("html"));
            convert(&args.trace, std::slice::from_ref(&page), 0.0, None, &[])?;
            page
        }
        _ => {
            return Err(Error::new(
                ErrorClass::ConfigError,
                format!("{}: the viewer is made from a .jsonl recording", args.trace.display()),
            ));
        }
    };
    println!("{}", page.display());
    if args.html.is_none() {
        open(&page)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open(page: &Path) -> Result<()> {
    for program in ["xdg-open", "open"] {
        let started =
            Command::new(program).arg(page).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if started.is_ok_and(|s| s.success()) {
            return Ok(());
        }
    }
    Err(Error::new(
        ErrorClass::ConfigError,
        format!("no program here opens {}; open it in a browser", page.display()),
    ))
}

//! `tpbemu export`: turns a recording into other formats; `tpbemu view`: into the viewer.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::error::{Error, ErrorClass, Result};
use crate::trace::Recorder;
use crate::trace::export::{Exporter, Format};
use crate::trace::lines::Reader;
use crate::trace::select::{self, Selected, Selection};

/// Which part of a run goes into its traces.
#[derive(Args, Debug, Default)]
pub struct SelectArgs {
    /// Only what ends after this many nanoseconds of simulated time.
    #[arg(long, default_value_t = 0.0, value_name = "NS")]
    from_ns: f64,
    /// Only what starts before this many nanoseconds of simulated time.
    #[arg(long, value_name = "NS")]
    to_ns: Option<f64>,
    /// Only these streams, by name (PE, ACT, POOL, DVE, SP, q:NAME).
    #[arg(long, value_name = "STREAM")]
    stream: Vec<String>,
    /// Begin another file after so many bytes (4K, 64M, 1G): FILE.000.EXT, FILE.001.EXT, each of
    /// which opens alone; tables go on in TABLE.1.csv.
    #[arg(long, value_name = "SIZE", value_parser = select::size)]
    split: Option<u64>,
}

impl SelectArgs {
    /// What is wanted.
    pub fn selection(&self) -> Selection {
        Selection {
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            streams: self.stream.clone(),
            split: self.split,
        }
    }
}

/// Turns a recording (.tpbtrace, .jsonl) into other formats.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Recording that `tpbemu run --trace FILE.tpbtrace` (or .jsonl) wrote.
    recording: PathBuf,
    /// File to write; its extension chooses the format, as for `run --trace`.
    #[arg(long, short, value_name = "FILE", required = true)]
    output: Vec<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
}

/// Makes the viewer of a recording and opens it.
#[derive(Args, Debug)]
pub struct ViewArgs {
    /// Recording (.tpbtrace, .jsonl), or viewer (.html) that is there already.
    trace: PathBuf,
    /// Write the viewer here and do not open it.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `export`.
///
/// # Errors
/// What reading and writing raise.
pub fn main(args: &ExportArgs) -> Result<ExitCode> {
    convert(&args.recording, &args.output, &args.select.selection())?;
    Ok(ExitCode::SUCCESS)
}

fn convert(recording: &Path, outputs: &[PathBuf], selection: &Selection) -> Result<()> {
    let file = File::open(recording).map_err(|e| Error::io(recording, &e))?;
    let mut reader = Reader::new(BufReader::with_capacity(1 << 18, file))?;
    let mut exports: Vec<Box<dyn Exporter>> = Vec::new();
    for path in outputs {
        exports.push(Selected::open(path, reader.context(), selection)?);
    }
    let ending = reader.read(|record| {
        for e in &mut exports {
            e.record(record);
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
        Format::Records | Format::Recording => {
            let page = args.html.clone().unwrap_or_else(|| args.trace.with_extension("html"));
            convert(&args.trace, std::slice::from_ref(&page), &Selection::default())?;
            page
        }
        _ => {
            return Err(Error::new(
                ErrorClass::ConfigError,
                format!(
                    "{}: the viewer is made from a .tpbtrace or .jsonl recording",
                    args.trace.display()
                ),
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

//! `tpbemu run`: runs a program, checks its outputs, prints the summary, writes the trace.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Error, ErrorClass, Result};
use crate::isa::Generation;
use crate::machine::checkpoint::{Checkpoint, Plan};
use crate::machine::{self, Machine, MachineConfig, Options, Races, RunResult};
use crate::program::{self, Check, LoadOptions, Program};
use crate::trace::export::{Context, Ending, Exporter, Format};
use crate::trace::facts::Facts;
use crate::trace::select::Selected;
use crate::trace::tee::Shared;
use crate::trace::{Recorder, TraceHeader};

/// How the summary is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SummaryFormat {
    /// A table.
    Text,
    /// One JSON object.
    Json,
    /// Nothing.
    None,
}

/// What a race does to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RaceMode {
    /// Ends it.
    Stop,
    /// Is reported at the end.
    Collect,
    /// Is not looked for.
    Off,
}

impl From<RaceMode> for Races {
    fn from(mode: RaceMode) -> Races {
        match mode {
            RaceMode::Stop => Races::Stop,
            RaceMode::Collect => Races::Collect,
            RaceMode::Off => Races::Ignore,
        }
    }
}

/// Runs a program.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Program: text (.tpb), container (.tpbc), directory with a program in it, or raw .bin streams.
    program: PathBuf,
    /// Generation of raw streams: v1, v2, v3, v4, v4+, v5.
    #[arg(long)]
    r#gen: Option<Generation>,
    /// Configuration file instead of the generation's built-in one.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Worker threads; 0 runs everything in one thread. Results do not depend on it.
    #[arg(long)]
    threads: Option<usize>,
    /// Stop after this many cycles of the fastest clock.
    #[arg(long, default_value_t = 10_000_000_000)]
    max_cycles: u64,
    /// Write a tensor after the run: NAME=FILE.npy.
    #[arg(long, value_name = "NAME=FILE")]
    dump: Vec<String>,
    /// Compare a tensor after the run: NAME=FILE.npy[:TOLERANCE].
    #[arg(long, value_name = "NAME=FILE[:TOL]")]
    check: Vec<String>,
    /// Write a trace; the extension chooses the format: .json (Chrome), .pftrace (Perfetto), .html
    /// (viewer in one file), .csv or .parquet (directory of tables), .vcd (waveforms), .tpbtrace
    /// (recording, for `tpbemu export`) or .jsonl (the same as text). May be given several times.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    select: super::export::SelectArgs,
    /// Summary format.
    #[arg(long, value_enum, default_value_t = SummaryFormat::Text)]
    summary: SummaryFormat,
    /// Accept words that break a static rule; they fault when they are reached.
    #[arg(long)]
    lenient: bool,
    /// What a race does.
    #[arg(long, value_enum, default_value_t = RaceMode::Stop)]
    races: RaceMode,
    /// Do not test for reads of memory nobody wrote.
    #[arg(long)]
    allow_unwritten: bool,
    /// Leave out the data where nothing depends on it; outputs are not checked.
    #[arg(long)]
    timing_only: bool,
    /// Leave a checkpoint each time so many ticks of simulated time have passed.
    #[arg(long, value_name = "TICKS", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// Directory for the checkpoints, made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "checkpoints", requires = "checkpoint_every")]
    checkpoint_dir: PathBuf,
    /// Go on from a checkpoint of the same program, configuration and options. Summary, traces and
    /// checks are those of the whole run.
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
}

/// Loads the program that `path` names; a directory stands for `NAME.tpb` or `NAME.tpbc` in it.
///
/// # Errors
/// What the loaders raise.
pub fn load(path: &Path, generation: Option<Generation>) -> Result<Program> {
    let options = LoadOptions { generation, v1_events8: false };
    if path.is_dir()
        && let Some(name) = path.canonicalize().ok().as_deref().and_then(Path::file_name)
    {
        for extension in ["tpb", "tpbc"] {
            let inner = path.join(name).with_extension(extension);
            if inner.is_file() {
                return Program::load(&inner, options);
            }
        }
    }
    Program::load(path, options)
}

/// Runs the subcommand.
///
/// # Errors
/// Everything that ends the run early; a failed check is an error too.
pub fn main(args: &RunArgs) -> Result<ExitCode> {
    let program = Arc::new(load(&args.program, args.r#gen)?);
    let config = Arc::new(match &args.config {
        Some(path) => MachineConfig::load(path)?,
        None => MachineConfig::builtin(program.generation),
    });
    let given: Vec<Check> =
        args.check.iter().map(|spec| parse_check(&program, spec)).collect::<Result<_>>()?;
    tracing::info!(
        generation = %program.generation,
        words = program.streams.iter().map(|s| s.words.len()).sum::<usize>(),
        tensors = program.tensors.len(),
        dma_blocks = program.blocks.len(),
        "loaded {}",
        args.program.display()
    );
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    // a second handler (in-process tests) is not an error worth telling
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));

    let threads = args.threads.unwrap_or_else(default_threads);
    let bar = progress_bar(args.max_cycles);
    let options = || Options {
        threads,
        max_cycles: Some(args.max_cycles),
        strict: !args.lenient,
        races: args.races.into(),
        check_unwritten: !args.allow_unwritten,
        timing_only: args.timing_only,
        interrupt: Some(Arc::clone(&interrupt)),
        progress: bar.clone().map(progress),
        ..Options::default()
    };
    for path in &args.trace {
        Format::of(path)?.available()?;
    }
    let selection = args.select.selection();
    let mut exports: Vec<Shared<Box<dyn Exporter>>> = Vec::new();
    let mut trace_error = None;
    let started = Instant::now();
    let record = |header: &TraceHeader, machine: &Machine| -> Vec<Box<dyn Recorder>> {
        exports.clear();
        for path in &args.trace {
            let context = Context::new(header.clone(), Facts::of(machine), machine.namer());
            match Selected::open(path, context, &selection) {
                Ok(exporter) => exports.push(Shared::new(exporter)),
                Err(e) => trace_error = Some(e),
            }
        }
        exports.iter().map(|e| Box::new(e.clone()) as Box<dyn Recorder>).collect()
    };
    let plan = plan(args)?;
    let mut result =
        machine::run_planned(Arc::clone(&program), config, options, record, false, &plan)?;
    tracing::info!(
        ticks = result.finished.end,
        instructions = result.finished.executed,
        "run ended"
    );
    let host = started.elapsed();
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if let Some(e) = trace_error {
        return Err(e);
    }
    let ending = Ending {
        end: result.finished.end,
        error: result.finished.error.as_ref().map(ToString::to_string),
    };
    for export in exports {
        let exporter = export
            .into_inner()
            .ok_or_else(|| Error::internal("the machine still holds a trace"))?;
        exporter.finish(&ending)?;
    }
    for note in &result.finished.notes {
        eprintln!("note: {note}");
    }
    write_files(&args.program, &result)?;
    let checks = program.checks.iter().chain(&given);
    report(args, &mut result, checks, host)
}

fn plan(args: &RunArgs) -> Result<Plan> {
    let restore = args.restore.as_deref().map(Checkpoint::load).transpose()?.map(Arc::new);
    let every = args.checkpoint_every.map(|every| (every, args.checkpoint_dir.clone()));
    if let Some((_, dir)) = &every {
        std::fs::create_dir_all(dir).map_err(|e| Error::io(dir, &e))?;
    }
    Ok(Plan { every, restore })
}

/// Writes what the program's SIM words put into files of its folder.
fn write_files(program: &Path, result: &RunResult) -> Result<()> {
    let folder = if program.is_dir() { program } else { program.parent().unwrap_or(Path::new("")) };
    for (name, bytes) in result.machine.written_files() {
        let path = program::files::confined(folder, name)
            .map_err(|why| Error::new(ErrorClass::ProgramError, why))?;
        program::files::write_whole(&path, bytes)?;
    }
    Ok(())
}

fn report<'a>(
    args: &RunArgs,
    result: &mut RunResult,
    checks: impl Iterator<Item = &'a Check>,
    host: Duration,
) -> Result<ExitCode> {
    let failed = result.finished.error.clone();
    for spec in &args.dump {
        let (name, file) = split_spec(spec)?;
        dump(result, name, Path::new(file))?;
    }
    match args.summary {
        SummaryFormat::Text => {
            print!("{}", result.summary.text());
            println!(
                "host time {:.3} s, {} instructions, {:.0} instructions/s",
                host.as_secs_f64(),
                result.finished.executed,
                result.finished.executed as f64 / host.as_secs_f64().max(1e-9)
            );
        }
        SummaryFormat::Json => {
            let mut value = serde_json::to_value(&result.summary)
                .map_err(|e| Error::internal(e.to_string()))?;
            value["trace_digest"] = format!("{:016x}", result.trace_digest).into();
            value["memory_digest"] = format!("{:016x}", result.memory_digest()?).into();
            value["executed"] = result.finished.executed.into();
            println!("{value:#}");
        }
        SummaryFormat::None => {}
    }
    for race in &result.finished.races {
        eprintln!("{race}");
    }
    if let Some(error) = failed {
        return Err(error.more_help(&format!("to reproduce: {}", command_line())));
    }
    if !args.timing_only {
        for check in checks {
            run_check(result, check)?;
        }
    }
    match result.finished.races.first() {
        Some(race) => Ok(ExitCode::from(race.class.exit_code())),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn run_check(result: &mut RunResult, check: &Check) -> Result<()> {
    let bytes = result.tensor(&check.tensor)?;
    let program = Arc::clone(result.machine.program());
    let tensor = program.tensor(&check.tensor).ok_or_else(|| {
        Error::new(ErrorClass::ProgramError, format!("no tensor `{}`", check.tensor))
    })?;
    let bad = |m: String| Error::new(ErrorClass::ConfigError, m);
    let different = program::compare(tensor.dtype, &bytes, &check.expected, check.atol, check.rtol)
        .map_err(bad)?;
    let Some(m) = different else {
        println!(
            "check {}: {} values agree with {}",
            check.tensor,
            check.expected.len(),
            check.origin
        );
        return Ok(());
    };
    Err(Error::new(
        ErrorClass::CheckFailed,
        format!(
            "{} of {} values of {} differ from {}: at {:?} it is {}, not {}; the largest difference is {:e}",
            m.count,
            m.total,
            check.tensor,
            check.origin,
            index(&tensor.shape, m.first),
            m.got,
            m.wanted,
            m.largest
        ),
    )
    .help(format!("to reproduce: {}", command_line())))
}

/// The index of element `flat` of a tensor of `shape`.
fn index(shape: &[u64], flat: usize) -> Vec<u64> {
    let mut rest = flat as u64;
    let mut out: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&d| {
            let i = rest % d.max(1);
            rest /= d.max(1);
            i
        })
        .collect();
    out.reverse();
    out
}

fn dump(result: &mut RunResult, name: &str, file: &Path) -> Result<()> {
    let bytes = result.tensor(name)?;
    let program = Arc::clone(result.machine.program());
    let tensor = program
        .tensor(name)
        .ok_or_else(|| Error::new(ErrorClass::ProgramError, format!("no tensor `{name}`")))?;
    let npy = program::npy::encode(tensor.dtype, &tensor.shape, &bytes)
        .map_err(|m| Error::new(ErrorClass::ProgramError, m))?;
    program::files::write_whole(file, &npy)
}

fn split_spec(spec: &str) -> Result<(&str, &str)> {
    spec.split_once('=').ok_or_else(|| {
        Error::new(ErrorClass::ConfigError, format!("`{spec}` is not of the form NAME=FILE"))
    })
}

fn parse_check(program: &Program, spec: &str) -> Result<Check> {
    let (name, rest) = split_spec(spec)?;
    let (file, tolerance) = match rest.rsplit_once(':') {
        Some((file, t)) => match t.parse::<f64>() {
            Ok(t) => (file, t),
            Err(_) => (rest, 0.0),
        },
        None => (rest, 0.0),
    };
    let bad = |m: String| Error::new(ErrorClass::ConfigError, m);
    let tensor =
        program.tensor(name).ok_or_else(|| bad(format!("the program has no tensor `{name}`")))?;
    let path = Path::new(file);
    let bytes = program::files::read_limited(path, program::limits::DATA_BYTES)?;
    let array = program::npy::parse(&bytes).map_err(|m| bad(format!("{file}: {m}")))?;
    let expected = array.to_expected(tensor.dtype).map_err(|m| bad(format!("{file}: {m}")))?;
    Ok(Check {
        tensor: name.to_string(),
        origin: file.to_string(),
        expected,
        atol: tolerance,
        rtol: tolerance,
    })
}

/// Threads that help: one per unit, as far as the host has processors.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(machine::executor::UNITS)
}

fn command_line() -> String {
    let quote = |a: String| {
        if a.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,+".contains(c)) {
            a
        } else {
            format!("'{a}'")
        }
    };
    let mut words: Vec<String> = std::env::args().map(quote).collect();
    if let Some(first) = words.first_mut() {
        *first = "tpbemu".into();
    }
    words.join(" ")
}

fn progress_bar(max_cycles: u64) -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let _ = max_cycles;
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}").ok()?;
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    Some(bar)
}

fn progress(bar: ProgressBar) -> Box<dyn FnMut(u64, u64) + Send> {
    let started = Instant::now();
    Box::new(move |tick, executed| {
        let rate = executed as f64 / started.elapsed().as_secs_f64().max(1e-9);
        bar.set_message(format!("tick {tick}, {executed} instructions, {rate:.0}/s"));
    })
}

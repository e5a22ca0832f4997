//! `tpbemu stress`: runs a program under many schedules.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Error, ErrorClass, Result};
use crate::explore::campaign::{Book, Campaign, Header, Tally};
use crate::explore::replay::{Replay, listed};
use crate::explore::shrink::shrink;
use crate::explore::{Delays, Kind, Schedule, Strategy, Subject, Trial};
use crate::isa::Engine;
use crate::machine::MachineConfig;
use crate::skeleton::fast::Fast;
use crate::trace::export::Format;

/// Runs that shrinking one finding may take.
const SHRINK_RUNS: usize = 2000;

/// Runs a program under many schedules and checks every run.
#[derive(Args, Debug)]
pub struct StressArgs {
    /// Program, as for `run`.
    program: PathBuf,
    /// Seeds, the end excluded: A..B.
    #[arg(long, default_value = "0..100", value_parser = parse_range)]
    seeds: std::ops::Range<u64>,
    /// How delays are chosen.
    #[arg(long, value_enum, default_value_t = Strategy::Jitter)]
    strategy: Strategy,
    /// Leave out the data where nothing depends on it; outputs are not compared.
    #[arg(long)]
    timing_only: bool,
    /// Runs side by side; 0 means one per processor.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Configuration file instead of the generation's built-in one.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Stop a run after this many cycles of the fastest clock.
    #[arg(long, default_value_t = 1_000_000_000)]
    max_cycles: u64,
    /// Write one JSON line per seed, and skip seeds that the file has.
    #[arg(long, value_name = "FILE")]
    campaign: Option<PathBuf>,
    /// Only seeds s with s modulo N equal to I: I/N.
    #[arg(long, value_name = "I/N", default_value = "0/1", value_parser = parse_shard)]
    shard: (u64, u64),
    /// Where the replay file of a finding goes; PROGRAM.replay.json if not given.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write a trace of the run with the finding, in the formats of `run --trace`; .html is the
    /// viewer.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
}

pub(super) fn parse_range(text: &str) -> std::result::Result<std::ops::Range<u64>, String> {
    let (a, b) = text.split_once("..").ok_or("not of the form A..B")?;
    let number = |t: &str| t.parse::<u64>().map_err(|e| format!("`{t}`: {e}"));
    let range = number(a)?..number(b)?;
    if range.start > range.end { Err("the range is backwards".into()) } else { Ok(range) }
}

fn parse_shard(text: &str) -> std::result::Result<(u64, u64), String> {
    let (i, n) = text.split_once('/').ok_or("not of the form I/N")?;
    let number = |t: &str| t.parse::<u64>().map_err(|e| format!("`{t}`: {e}"));
    let shard = (number(i)?, number(n)?);
    if shard.0 < shard.1 { Ok(shard) } else { Err("I must be below N".into()) }
}

/// Runs the subcommand. The exit code is that of the first finding.
///
/// # Errors
/// The program does not load, or a file cannot be written.
pub fn main(args: &StressArgs) -> Result<ExitCode> {
    for path in &args.trace {
        Format::of(path)?;
    }
    let program = Arc::new(super::run::load(&args.program, None)?);
    let config = Arc::new(match &args.config {
        Some(path) => MachineConfig::load(path)?,
        None => MachineConfig::builtin(program.generation),
    });
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    // a second handler (in-process tests) is not an error worth telling
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let subject = Subject {
        program,
        config,
        timing_only: args.timing_only,
        max_cycles: args.max_cycles,
        interrupt,
        threads: 0,
    };
    // a foreign or damaged file is refused before any time is spent
    let mut book = Book::open(args.campaign.as_deref(), &Header::of(&subject)?)?;
    let undisturbed = subject.run(Schedule::probe)?;
    if let Some(error) = undisturbed.error.clone() {
        println!("the undisturbed run already fails; no delay is needed");
        return finding(args, &subject, &undisturbed, &error, Delays::new());
    }
    let sharded = args.campaign.is_some() || args.shard.1 > 1;
    let exhaustive = args.strategy == Strategy::Exhaustive && !sharded;
    let known = match exhaustive || args.timing_only {
        true => super::verify::known(&subject)?,
        false => Err(String::new()),
    };
    match &known {
        Ok(known) if exhaustive => {
            let Some((delays, error)) = super::verify::exhaustive(known, &subject, &undisturbed)?
            else {
                return Ok(ExitCode::SUCCESS);
            };
            return shrunk(args, &subject, &undisturbed, &delays, error);
        }
        Err(why) if exhaustive => {
            println!("no skeleton, so only delays of at most two points: {why}");
        }
        Err(why) if args.timing_only => println!("no skeleton, so on the machine: {why}"),
        _ => {}
    }
    let known = known.ok().filter(|_| args.strategy != Strategy::Exhaustive);
    let mut seeds = args.seeds.clone();
    if args.strategy == Strategy::Exhaustive {
        seeds.end = seeds.end.min(undisturbed.plain.bounded());
    }
    let campaign = Campaign {
        subject: &subject,
        undisturbed: &undisturbed,
        strategy: args.strategy,
        seeds: seeds.clone(),
        shard: args.shard,
        jobs: match args.jobs {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        },
    };
    let started = Instant::now();
    let bar = bar((seeds.end - seeds.start) / args.shard.1);
    let progress = |t: &Tally| {
        if let Some(bar) = &bar {
            if bar.position() == 0 && t.resumed > 0 {
                // what an earlier session did is no part of the rate
                bar.set_position(t.resumed);
                bar.reset_eta();
            }
            bar.set_position(t.done);
            bar.set_message(format!("{} findings", t.findings.values().map(|f| f.0).sum::<u64>()));
        }
    };
    let tally = match &known {
        Some(known) => {
            let (sk, proved) = (&known.skeleton, known.proof.holds());
            let fast = Fast::new(sk, proved, &subject, &undisturbed, args.strategy);
            let runner = || {
                let mut runner = fast.runner();
                move |seed| runner.line(seed)
            };
            let tally = campaign.run_by(&mut book, runner, progress)?;
            let proof = if proved { ", proved" } else { "" };
            println!(
                "on the skeleton of {} instructions{proof}; {} schedules on the machine as well",
                sk.len(),
                fast.on_machine()
            );
            tally
        }
        None => campaign.run(&mut book, progress)?,
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let rate = (tally.done - tally.resumed) as f64 / started.elapsed().as_secs_f64().max(1e-9);
    summary(args, &tally, undisturbed.plain.bounded(), &seeds, rate);
    let first = tally.findings.values().map(|(_, seed)| *seed).min();
    let Some(seed) = first else {
        return Ok(if tally.interrupted {
            ExitCode::from(ErrorClass::LimitReached.exit_code())
        } else {
            ExitCode::SUCCESS
        });
    };
    subject.interrupt.store(false, Ordering::Relaxed);
    let make = || Schedule::of_seed(args.strategy, seed, &undisturbed.plain);
    let trial = subject.run(make)?;
    let Some(error) = subject.judge(&trial, &undisturbed) else {
        return Err(Error::internal(format!("seed {seed} does not repeat")));
    };
    print!("seed {seed}: ");
    shrunk(args, &subject, &undisturbed, &trial.delays, error)
}

/// Reports a finding by the few of its delays that matter.
fn shrunk(
    args: &StressArgs,
    subject: &Subject,
    undisturbed: &Trial,
    delays: &Delays,
    error: Error,
) -> Result<ExitCode> {
    let kind = Kind::of(&error);
    let few = shrink(delays, SHRINK_RUNS, |delays| {
        let trial = subject.run(|| Schedule::listed(delays.clone()))?;
        let found = subject.judge(&trial, undisturbed);
        Ok(found.is_some_and(|e| Kind::of(&e) == kind))
    })?;
    println!("{} delays, {} of them needed", delays.len(), few.len());
    let small = subject.run(|| Schedule::listed(few.clone()))?;
    let error = subject.judge(&small, undisturbed).unwrap_or(error);
    finding(args, subject, &small, &error, few)
}

fn summary(
    args: &StressArgs,
    tally: &Tally,
    bounded: u64,
    seeds: &std::ops::Range<u64>,
    rate: f64,
) {
    println!(
        "{} schedules ({rate:.0}/s), {} different orders of events and semaphores",
        tally.done,
        tally.orders.len()
    );
    if args.strategy == Strategy::Exhaustive {
        let all = seeds.start == 0 && seeds.end == bounded && args.shard.1 == 1;
        let all = all && !tally.interrupted;
        println!(
            "{} of the {bounded} ways to delay at most two points{}",
            tally.done,
            if all { ": all of them" } else { "" }
        );
    }
    for (kind, (count, seed)) in &tally.findings {
        println!("{kind}: {count} schedules, first with seed {seed}");
    }
}

fn finding(
    args: &StressArgs,
    subject: &Subject,
    trial: &Trial,
    error: &Error,
    delays: Delays,
) -> Result<ExitCode> {
    let replay = Replay {
        program: args.program.clone(),
        config: (*subject.config).clone(),
        timing_only: args.timing_only,
        max_cycles: args.max_cycles,
        delays: listed(&delays),
        finding: Kind::of(error),
        report: error.to_string(),
        trace_digest: format!("{:016x}", trial.trace),
    };
    let path = match &args.replay {
        Some(path) => path.clone(),
        None => replay_path(&args.program),
    };
    replay.store(&path)?;
    for d in &replay.delays {
        println!(
            "  delay {} of {} execution {} by {} ticks",
            d.site.point.words(),
            stream_name(subject, d.site.stream),
            d.site.index,
            d.ticks
        );
    }
    let (_, picture) = super::picture::take(subject, &delays, &args.trace)?;
    print!("{picture}");
    eprintln!("{error}");
    println!("to repeat: tpbemu replay {}", path.display());
    Ok(ExitCode::from(error.class.exit_code()))
}

/// Name of a stream: engine, DMA queue of the program, or queue of an engine's DMA instructions.
fn stream_name(subject: &Subject, stream: usize) -> String {
    let engines = Engine::ALL.len();
    if let Some(engine) = Engine::ALL.get(stream) {
        return engine.to_string();
    }
    match subject.program.queues.get(stream - engines) {
        Some(queue) => format!("queue {}", queue.name),
        None => format!("queue {}", stream - engines),
    }
}

fn replay_path(program: &Path) -> PathBuf {
    let name = program.file_stem().map_or_else(|| "program".into(), |n| n.to_os_string());
    PathBuf::from(name).with_extension("replay.json")
}

fn bar(total: u64) -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::new(total);
    let style =
        ProgressStyle::with_template("{wide_bar} {pos}/{len} {per_sec} {eta} {msg}").ok()?;
    bar.set_style(style);
    Some(bar)
}

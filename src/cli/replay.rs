//! `tpbemu replay`: repeats a finding of `stress`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::error::{Error, ErrorClass, Result};
use crate::explore::replay::Replay;
use crate::explore::{Delays, Kind, Schedule, Subject};
use crate::trace::export::Format;

/// Repeats a finding of `stress`, event by event.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// Replay file.
    file: PathBuf,
    /// The program, if it is not where the replay file says.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Worker threads of the run; the result does not depend on it.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Write a trace, in the formats of `run --trace`.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
}

/// Runs the subcommand: success if the run ends with the same finding and the same trace.
///
/// # Errors
/// The files cannot be read, or the run differs from the one that the replay file describes.
pub fn main(args: &ReplayArgs) -> Result<ExitCode> {
    for path in &args.trace {
        Format::of(path)?;
    }
    let replay = Replay::load(&args.file)?;
    let path = args.program.as_ref().unwrap_or(&replay.program);
    let subject = Subject {
        program: Arc::new(super::run::load(path, None)?),
        config: Arc::new(replay.config.clone()),
        timing_only: replay.timing_only,
        max_cycles: replay.max_cycles,
        interrupt: Arc::new(AtomicBool::new(false)),
        threads: args.threads,
    };
    let undisturbed = subject.run(|| Schedule::listed(Delays::new()))?;
    let (trial, picture) = super::picture::take(&subject, &replay.delays(), &args.trace)?;
    let found = subject.judge(&trial, &undisturbed);
    let differs = |what: String| {
        Err(Error::new(ErrorClass::CheckFailed, what)
            .help("the program, or the emulator, is not the one that made the replay file"))
    };
    let Some(error) = found else {
        return differs(format!("the run is clean; the replay file has {}", replay.finding));
    };
    if Kind::of(&error) != replay.finding {
        return differs(format!(
            "the run ends with {}, the replay file has {}\n{error}",
            Kind::of(&error),
            replay.finding
        ));
    }
    let digest = format!("{:016x}", trial.trace);
    if digest != replay.trace_digest {
        return differs(format!(
            "the same finding, but trace {digest} instead of {}",
            replay.trace_digest
        ));
    }
    print!("{picture}");
    println!("{error}");
    println!("repeated: {} delays, trace {digest}", replay.delays.len());
    Ok(ExitCode::SUCCESS)
}

//! `tpbemu mutate-sync`: how many broken variants of correct programs one plain run reports.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use crate::error::Result;
use crate::explore::Subject;
use crate::explore::mutate::{Score, score};
use crate::machine::MachineConfig;

/// Measures the race check on single-word mutations of correct programs.
#[derive(Args, Debug)]
pub struct MutateArgs {
    /// Correct programs.
    #[arg(required = true)]
    programs: Vec<PathBuf>,
    /// Name every mutant that matters and is not reported, and the other way round.
    #[arg(long)]
    list: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A program does not load or is not correct.
pub fn main(args: &MutateArgs) -> Result<ExitCode> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    // a second handler (in-process tests) is not an error worth telling
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let mut all = Score::default();
    println!("| program | mutants | matter | reported | score | reported, not confirmed |");
    println!("|---|---|---|---|---|---|");
    for path in &args.programs {
        let program = Arc::new(super::run::load(path, None)?);
        let subject = Subject {
            config: Arc::new(MachineConfig::builtin(program.generation)),
            program,
            timing_only: true,
            max_cycles: 100_000_000,
            interrupt: Arc::clone(&interrupt),
            threads: 0,
        };
        let mut lines = Vec::new();
        let one = score(&subject, |mutant, verdict| {
            let text = match &verdict.reported {
                None => "MISSED".to_string(),
                Some(kind) => format!("not confirmed, {kind}"),
            };
            lines.push(format!("{text}: {}", mutant.what));
        })?;
        let name = path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        print(&name, &one);
        all.mutants += one.mutants;
        all.matter += one.matter;
        all.caught += one.caught;
        all.unconfirmed += one.unconfirmed;
        if args.list {
            for line in lines {
                eprintln!("  {line}");
            }
        }
    }
    print("all", &all);
    Ok(ExitCode::SUCCESS)
}

fn print(name: &str, s: &Score) {
    let percent = 100.0 * s.caught as f64 / s.matter.max(1) as f64;
    println!(
        "| {name} | {} | {} | {} | {percent:.1} % | {} |",
        s.mutants, s.matter, s.caught, s.unconfirmed
    );
}

//! `tpbemu campaign`: files of `stress --campaign`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::stress::parse_range;
use crate::error::{ErrorClass, Result};
use crate::explore::merge::Merged;

/// Works on campaign files of `stress`.
#[derive(Args, Debug)]
pub struct CampaignArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Joins the shards of a campaign into one file, in order of seeds.
    Merge(MergeArgs),
}

/// Joins the shards of a campaign. Refuses shards of different programs, machines, options or
/// emulator versions, and a seed with two different results.
#[derive(Args, Debug)]
struct MergeArgs {
    /// Campaign files.
    #[arg(required = true, value_name = "SHARD")]
    shards: Vec<PathBuf>,
    /// Where the joined campaign goes; may be one of the shards.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Seeds that must all be there, the end excluded: A..B. Without it, the seeds from 0 to the
    /// largest one are looked at, and gaps do not change the exit code.
    #[arg(long, value_parser = parse_range)]
    seeds: Option<std::ops::Range<u64>>,
}

/// Runs the subcommand. The exit code is 1 if `--seeds` names seeds that are missing.
///
/// # Errors
/// The shards do not fit together, or a file cannot be read or written.
pub fn main(args: &CampaignArgs) -> Result<ExitCode> {
    let Command::Merge(args) = &args.command;
    let merged = Merged::read(&args.shards)?;
    merged.store(&args.output)?;
    for path in &merged.cut_short {
        println!("{}: the last line was cut short and is left out", path.display());
    }
    let mut complete = true;
    let mut strategies = merged.strategies();
    if strategies.is_empty() {
        println!("no seeds");
        complete = args.seeds.as_ref().is_none_or(|s| s.is_empty());
    }
    for strategy in strategies.drain(..) {
        let tally = merged.tally(strategy);
        println!(
            "{strategy:?}: {} seeds, {} different orders of events and semaphores",
            tally.done,
            tally.orders.len()
        );
        let missing = merged.missing(strategy, args.seeds.as_ref());
        if !missing.is_empty() {
            complete = false;
            println!("  missing seeds: {}", ranges(&missing));
        }
        for (kind, (count, seed)) in &tally.findings {
            println!("  {kind}: {count} schedules, first with seed {seed}");
        }
    }
    if merged.repeated > 0 {
        println!("{} seeds were in more than one shard, with the same result", merged.repeated);
    }
    Ok(if complete || args.seeds.is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorClass::CheckFailed.exit_code())
    })
}

/// Ranges in few words: the first ones, and how many seeds in all.
fn ranges(all: &[std::ops::Range<u64>]) -> String {
    const SHOWN: usize = 12;
    let mut words: Vec<String> = all
        .iter()
        .take(SHOWN)
        .map(|r| {
            if r.end - r.start == 1 {
                r.start.to_string()
            } else {
                format!("{}..{}", r.start, r.end)
            }
        })
        .collect();
    if all.len() > SHOWN {
        words.push("...".into());
    }
    let total: u64 = all.iter().map(|r| r.end - r.start).sum();
    format!("{} ({total} in all)", words.join(", "))
}

//! The command line: one file per subcommand.

mod asm;
mod campaign;
mod compare;
mod debug;
mod disasm;
mod export;
mod isa;
mod mutate_sync;
mod picture;
mod q7;
pub mod reference;
mod replay;
pub mod run;
mod stress;
mod validate;
pub mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Emulates the tensor-processing block of AWS NeuronCores, cycle by cycle.
#[derive(Parser, Debug)]
#[command(name = "tpbemu", version, about)]
pub struct Cli {
    /// Log more: -v info, -vv debug, -vvv trace. RUST_LOG overrides.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Runs a program.
    Run(run::RunArgs),
    /// Steps a program, stops it, looks into it and takes it back.
    Debug(debug::DebugArgs),
    /// Runs a program under many schedules and checks every run.
    Stress(stress::StressArgs),
    /// Joins campaign files of `stress`.
    Campaign(campaign::CampaignArgs),
    /// Repeats a finding of `stress`.
    Replay(replay::ReplayArgs),
    /// Proves that every schedule of a program gives the same result, or checks such a proof.
    Verify(verify::VerifyArgs),
    /// Measures the race check on broken variants of correct programs.
    #[command(hide = true)]
    MutateSync(mutate_sync::MutateArgs),
    /// Turns a recording of a run into other trace formats.
    Export(export::ExportArgs),
    /// Makes the viewer of a recording and opens it in a browser.
    View(export::ViewArgs),
    /// Shows what changed between the summaries of two runs.
    Compare(compare::CompareArgs),
    /// Assembles program text into a container.
    Asm(asm::AsmArgs),
    /// Prints a program as text that assembles to the same words.
    Disasm(disasm::DisasmArgs),
    /// Checks every word of a program against the rules of its generation.
    Validate(validate::ValidateArgs),
    /// Prints what the instruction-set tables know.
    Isa(isa::IsaArgs),
    /// Assembles, disassembles and inspects code of the Q7 cores.
    Q7(q7::Q7),
}

/// Parses the arguments, runs the subcommand and returns the process's exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    init_logging(cli.verbose);
    let result = match &cli.command {
        Command::Run(args) => run::main(args),
        Command::Debug(args) => debug::main(args),
        Command::Stress(args) => stress::main(args),
        Command::Campaign(args) => campaign::main(args),
        Command::Replay(args) => replay::main(args),
        Command::Verify(args) => verify::main(args),
        Command::MutateSync(args) => mutate_sync::main(args),
        Command::Export(args) => export::main(args),
        Command::View(args) => export::view(args),
        Command::Compare(args) => compare::main(args),
        Command::Asm(args) => asm::run(args).map(|()| ExitCode::SUCCESS),
        Command::Disasm(args) => disasm::run(args).map(|()| ExitCode::SUCCESS),
        Command::Validate(args) => validate::run(args).map(|()| ExitCode::SUCCESS),
        Command::Isa(args) => isa::run(args).map(|()| ExitCode::SUCCESS),
        Command::Q7(args) => {
            q7::run(args).and_then(|text| print(&text)).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(error.class.exit_code())
    })
}

/// Writes to standard output. A reader that went away is no error.
fn print(text: &str) -> crate::error::Result<()> {
    use std::io::Write;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(crate::error::Error::io(std::path::Path::new("standard output"), &e))
        }
        _ => Ok(()),
    }
}

fn init_logging(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let default = ["warn", "info", "debug", "trace"][usize::from(verbose.min(3))];
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let color = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(color);
    subscriber.with_writer(std::io::stderr).init();
}

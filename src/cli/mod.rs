//! The command line: one file per subcommand.

mod run;

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
}

/// Parses the arguments, runs the subcommand and returns the process's exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    init_logging(cli.verbose);
    let result = match &cli.command {
        Command::Run(args) => run::main(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(error.class.exit_code())
    })
}

fn init_logging(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let default = ["warn", "info", "debug", "trace"][usize::from(verbose.min(3))];
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

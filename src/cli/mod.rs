//! The command line: one file per subcommand.

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
    /// Prints the generations the emulator knows.
    Generations,
}

/// Parses the arguments, runs the subcommand and returns the process's exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    init_logging(cli.verbose);
    match cli.command {
        Command::Generations => {
            println!("v1 TONGA\nv2 SUNDA\nv3 CAYMAN\nv4 MARIANA\nv4+ MARIANA_PLUS\nv5 MAVERICK");
            ExitCode::SUCCESS
        }
    }
}

fn init_logging(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let default = ["warn", "info", "debug", "trace"][usize::from(verbose.min(3))];
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

//! `tpbemu disasm`: any program file to text.

use std::path::PathBuf;

use clap::Args;

use crate::error::Result;
use crate::isa::Generation;
use crate::program::files::write_whole;
use crate::program::{LoadOptions, Program, text};

/// How to read raw streams; shared by the commands that load programs.
#[derive(Args, Clone, Debug)]
pub struct RawArgs {
    /// Generation of raw `.bin` streams: v1, v2, v3, v4, v4+, v5.
    #[arg(long)]
    r#gen: Option<Generation>,
    /// Raw v1 words carry the 8-byte events block.
    #[arg(long)]
    events8: bool,
}

impl RawArgs {
    /// As load options.
    pub fn options(&self) -> LoadOptions {
        LoadOptions { generation: self.r#gen, v1_events8: self.events8 }
    }
}

/// Arguments of `tpbemu disasm`.
#[derive(Args, Debug)]
pub struct DisasmArgs {
    /// Container, text, raw stream, or directory of raw streams.
    program: PathBuf,
    /// Text to write instead of standard output; large tensor data goes into files beside it.
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    raw: RawArgs,
}

/// Prints the program as text that assembles to the same words.
///
/// # Errors
/// The program cannot be loaded, or a file cannot be written.
pub fn run(args: &DisasmArgs) -> Result<()> {
    let program = Program::load(&args.program, args.raw.options())?;
    let (text, files) = text::to_text(&program);
    let Some(output) = &args.output else {
        if !files.is_empty() {
            tracing::warn!("data of {} large tensors is not written; use -o", files.len());
        }
        return super::print(&text);
    };
    for (name, bytes) in &files {
        write_whole(&output.with_file_name(name), bytes)?;
    }
    write_whole(output, text.as_bytes())
}

//! `tpbemu asm`: program text to container.

use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, ErrorClass, Result};
use crate::isa::text::{inst, sp};
use crate::program::lower::layout;
use crate::program::{Program, asm};

/// Arguments of `tpbemu asm`.
#[derive(Args, Debug)]
pub struct AsmArgs {
    /// Program text.
    program: PathBuf,
    /// Container to write.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Print every word with its source line.
    #[arg(long)]
    listing: bool,
}

/// Assembles, and writes the container, the listing, or both.
///
/// # Errors
/// Mistakes in the program, or a file that cannot be written.
pub fn run(args: &AsmArgs) -> Result<()> {
    if args.output.is_none() && !args.listing {
        return Err(Error::new(ErrorClass::ConfigError, "nothing to do")
            .help("give `-o OUT.tpbc`, `--listing` or both"));
    }
    let program = asm::assemble_file(&args.program)?;
    if let Some(output) = &args.output {
        program.save(output)?;
    }
    if args.listing {
        super::print(&listing(&program))?;
    }
    Ok(())
}

/// One line per word: stream, index, source line, text.
pub fn listing(program: &Program) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let layout = layout(program);
    for stream in &program.streams {
        for (i, word) in stream.words.iter().enumerate() {
            let source = program.source_of(stream.line(i)).unwrap_or_default();
            let text = inst::print(layout, word);
            let _ = writeln!(out, "{:4} {i:6}  {source:24}  {text}", stream.engine);
        }
    }
    for (i, word) in program.v1_sp.words.iter().enumerate() {
        let line = program.v1_sp.lines.get(i).copied().unwrap_or_default();
        let source = program.source_of(line).unwrap_or_default();
        let _ = writeln!(out, "SP   {i:6}  {source:24}  {}", sp::print(word));
    }
    for tensor in &program.tensors {
        let _ = writeln!(
            out,
            "{:4} {:#014x}  {} {}{:?}",
            tensor.memory.name(),
            tensor.address,
            tensor.name,
            tensor.dtype,
            tensor.shape
        );
    }
    out
}

//! `tpbemu validate`: every word of a program against the rules of its generation.

use std::path::PathBuf;

use clap::Args;

use super::disasm::RawArgs;
use crate::error::{Error, ErrorClass, Location, Result};
use crate::isa::text::{inst as text, sp};
use crate::isa::validate::validate_host;
use crate::isa::{Class, Engine, SpInst, StreamFormat, validate_all};
use crate::program::lower::{layout, lower};
use crate::program::{LoadOptions, Program};

/// Violations printed in full.
const SHOWN: usize = 100;

/// Arguments of `tpbemu validate`.
#[derive(Args, Debug)]
pub struct ValidateArgs {
    /// Text, container, raw stream, or directory of raw streams.
    program: PathBuf,
    /// Leave out the rules that the device itself may not check (reserved bytes, start partitions).
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    raw: RawArgs,
}

/// Prints each violation with its source line and rule.
///
/// # Errors
/// The program cannot be loaded, or breaks at least one rule; the class of the first violation
/// gives the exit code.
pub fn run(args: &ValidateArgs) -> Result<()> {
    let options: LoadOptions = args.raw.options();
    let program = Program::load(&args.program, options)?;
    let (words, errors) = violations(&program, !args.lenient);
    let mut out = String::new();
    for error in errors.iter().take(SHOWN) {
        out.push_str(&format!("{error}\n"));
    }
    if errors.len() > SHOWN {
        out.push_str(&format!("and {} more\n", errors.len() - SHOWN));
    }
    super::print(&out)?;
    match errors.first() {
        None => super::print(&format!("{words} words, every rule holds\n")),
        Some(first) => {
            Err(Error::new(first.class, format!("{} violations in {words} words", errors.len())))
        }
    }
}

/// The number of words of `program`, and every rule that one of them breaks.
pub fn violations(program: &Program, strict: bool) -> (usize, Vec<Error>) {
    let format = StreamFormat { generation: program.generation, wide_events: program.v1_events8 };
    let layout = layout(program);
    let mut words = 0;
    let mut errors = Vec::new();
    for stream in &program.streams {
        for (index, word) in stream.words.iter().enumerate() {
            words += 1;
            let inst = format.word(*word);
            // Host-only records are checked as the loader finds them.
            let host = inst.def().is_ok_and(|d| d.class == Class::Pseudo);
            let mut found = if host {
                validate_host(&inst, strict)
            } else {
                validate_all(&inst, stream.engine, strict)
            };
            if found.is_empty() {
                found.extend(lower(program, &stream.words, index).err());
            }
            if found.is_empty() {
                continue;
            }
            let at = Location {
                generation: Some(program.generation.to_string()),
                stream: Some(stream.engine.to_string()),
                pc: Some(index as u64),
                cycle: None,
                disassembly: Some(text::print(layout, word)),
                source: program.source_of(stream.line(index)),
            };
            errors.extend(found.into_iter().map(|e| e.or_at(&at)));
        }
    }
    for (index, word) in program.v1_sp.words.iter().enumerate() {
        words += 1;
        if let Err(error) = SpInst::new(*word).validate() {
            let line = program.v1_sp.lines.get(index).copied().unwrap_or_default();
            let at = Location {
                generation: Some(program.generation.to_string()),
                stream: Some(Engine::Sp.to_string()),
                pc: Some(index as u64),
                cycle: None,
                disassembly: Some(sp::print(word)),
                source: program.source_of(line),
            };
            errors.push(error.or_at(&at));
        }
    }
    // The first violation names the class of the whole, so the program's own faults come first.
    errors.sort_by_key(|e| e.class == ErrorClass::Unimplemented);
    (words, errors)
}

//! The report of a race: both instructions, the bytes, and the edge that is missing.

use super::board::{Conflict, hazard};
use crate::error::{Error, ErrorClass, Location, Result};
use crate::isa::Engine;
use crate::machine::config::MachineConfig;
use crate::machine::run::ENGINE_STREAMS;
use crate::machine::time::Timebase;
use crate::memory::AccessKind;
use crate::program::Program;

/// The stream and word that `place` of an allowed race names, if the program has it.
fn resolve(program: &Program, place: &str) -> Option<(usize, u32)> {
    let mut parts = place.split_whitespace();
    let (stream, word) = (parts.next()?, parts.next()?);
    let number = word.parse::<u32>().ok();
    if let Ok(engine) = stream.parse::<Engine>() {
        let stream = program.stream(engine)?;
        let label = || stream.labels.get(word).and_then(|l| u32::try_from(*l).ok());
        let pc = number.or_else(label).filter(|pc| (*pc as usize) < stream.words.len())?;
        return Some((engine.index(), pc));
    }
    let queue = program.queue(stream)?;
    let named = |b: &crate::program::DmaBlock| {
        b.queue == queue && (Some(b.id) == number || b.name.as_deref() == Some(word))
    };
    let block = program.blocks.iter().position(named)?;
    Some((ENGINE_STREAMS + queue, block as u32))
}

/// Looks whether the places that allowed races name are there.
///
/// # Errors
/// One is not: the race that it was to allow would be reported, or worse, another one not.
pub fn check_allowed(program: &Program) -> Result<()> {
    for place in program.allowed_races.iter().flat_map(|a| a.words.iter().flatten()) {
        if resolve(program, place).is_none() {
            return Err(Error::new(
                ErrorClass::ProgramError,
                format!(".allow_race: the program has no instruction or block `{place}`"),
            ));
        }
    }
    Ok(())
}

/// Whether the program declares this race harmless.
pub fn allowed(program: &Program, conflict: &Conflict, config: &MachineConfig) -> bool {
    program.allowed_races.iter().any(|allowed| {
        let streams = [conflict.earlier.0.stream, conflict.later.0.stream];
        let engines = allowed.engines.is_none_or(|(a, b)| {
            let pair = [a.index(), b.index()];
            streams == pair || streams == [pair[1], pair[0]]
        });
        let tensor = allowed.tensor.as_ref().is_none_or(|name| {
            program.tensor(name).is_some_and(|t| {
                crate::machine::tensors::region(t, config)
                    .is_ok_and(|r| r.overlaps(&conflict.earlier.2) && r.overlaps(&conflict.later.2))
            })
        });
        let words = allowed.words.as_ref().is_none_or(|[a, b]| {
            let pair = [resolve(program, a), resolve(program, b)];
            let of = |s: &super::Stamp| Some((s.stream, s.pc));
            let here = [of(&conflict.earlier.0), of(&conflict.later.0)];
            here == pair || here == [pair[1], pair[0]]
        });
        engines && tensor && words
    })
}

fn verb(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
        AccessKind::Accumulate => "accumulates into",
    }
}

fn name(at: &Location) -> String {
    let stream = at.stream.as_deref().unwrap_or("?");
    match at.pc {
        Some(pc) if !stream.starts_with("queue") => format!("{stream} pc {pc}"),
        _ => format!("{stream} {}", at.disassembly.as_deref().unwrap_or("")).trim_end().to_string(),
    }
}

fn line(at: &Location) -> String {
    let source = at.source.as_ref().map(|s| format!(" ({s})")).unwrap_or_default();
    format!("{}{source}: {}", name(at), at.disassembly.as_deref().unwrap_or(""))
}

/// The error that tells of `conflict`.
pub fn report(conflict: &Conflict, earlier: &Location, later: &Location, time: &Timebase) -> Error {
    let ((a, ka, ra), (b, kb, rb)) = (&conflict.earlier, &conflict.later);
    let needed = if ka.writes() { "is complete" } else { "has read its sources" };
    Error::undefined(
        "race",
        format!(
            "{} race: nothing orders {} and {}\n  earlier: {}\n           {} {ra}, started at {:.1} ns\n  later:   {}\n           {} {rb}, started at {:.1} ns",
            hazard(*ka, *kb),
            name(earlier),
            name(later),
            line(earlier),
            verb(*ka),
            time.to_ns(a.tick),
            line(later),
            verb(*kb),
            time.to_ns(b.tick),
        ),
    )
    .help(format!(
        "{} needs to wait until {} {needed}; no wait or update orders them",
        name(later),
        name(earlier),
    ))
    .or_at(later)
}

//! How far the emulator is with each opcode of each generation, read off the very tables that the
//! machine dispatches by.

use std::fmt::Write as _;

use super::control;
use super::image::LIBRARY_OPCODES;
use crate::engine::{self, Status};
use crate::isa::{Class, Generation, OpcodeDef, Presence, opcode_table};

/// State of one opcode in one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Executes.
    Done,
    /// Host-only: the loader replaces it, no device executes it.
    Host,
    /// The sources lack a fact: which, and the page where it should be.
    MissingSpecification(&'static str, &'static str),
    /// As before, but a library that MODIFY_POOL_CONFIG loaded may define it, and then it executes.
    Library(&'static str, &'static str),
    /// In the headers, but no firmware takes any word of it: the rule and why.
    Refused(&'static str, &'static str),
    /// Known and specified, not written yet.
    Unimplemented,
}

/// State of `def` in `generation`.
pub fn of(generation: Generation, def: &OpcodeDef) -> Coverage {
    if matches!(def.class, Class::Pseudo | Class::Sentinel) {
        return Coverage::Host;
    }
    if def.class == Class::Simulator || control::is_control(generation, def.byte) {
        return Coverage::Done;
    }
    match engine::lookup(generation, def.byte, def.name).map(|op| op.status) {
        Some(Status::Done(_)) => Coverage::Done,
        Some(Status::MissingSpecification(fact, page)) => {
            if generation != Generation::V1 && LIBRARY_OPCODES.contains(&def.byte) {
                Coverage::Library(fact, page)
            } else {
                Coverage::MissingSpecification(fact, page)
            }
        }
        Some(Status::Refused(rule, reason)) => Coverage::Refused(rule, reason),
        None => Coverage::Unimplemented,
    }
}

/// The opcodes of `generation` with their state, by byte.
pub fn list(generation: Generation) -> Vec<(&'static OpcodeDef, Coverage)> {
    opcode_table(generation)
        .iter()
        .filter(|d| d.presence_in(generation) != Presence::Absent)
        .map(|d| (d, of(generation, d)))
        .collect()
}

/// Real opcodes of `generation` that execute, that execute with a library, that every firmware
/// refuses, that lack a specification, and that are not written.
pub fn counts(generation: Generation) -> [usize; 5] {
    let mut n = [0; 5];
    for (_, coverage) in list(generation) {
        match coverage {
            Coverage::Done => n[0] += 1,
            Coverage::Library(..) => n[1] += 1,
            Coverage::Refused(..) => n[2] += 1,
            Coverage::MissingSpecification(..) => n[3] += 1,
            Coverage::Unimplemented => n[4] += 1,
            Coverage::Host => {}
        }
    }
    n
}

/// The table of the README: real opcodes per generation.
pub fn table() -> String {
    let mut out = String::from(
        "| generation | real opcodes | execute | with a library | refused by every firmware | \
         specification missing | not written |\n|---|---|---|---|---|---|---|\n",
    );
    for g in Generation::ALL {
        let counts = counts(g);
        let [done, library, refused, missing, open] = counts;
        let _ = writeln!(
            out,
            "| {g} {} | {} | {done} | {library} | {refused} | {missing} | {open} |",
            g.codename(),
            counts.iter().sum::<usize>()
        );
    }
    out
}

/// The whole list for `tpbemu isa --coverage`.
pub fn text(generation: Option<Generation>) -> String {
    let mut out = table();
    for g in Generation::ALL.into_iter().filter(|g| generation.is_none_or(|x| x == *g)) {
        let _ = writeln!(out, "\n{g} {}", g.codename());
        for (def, coverage) in list(g) {
            let _ = match coverage {
                Coverage::Done => writeln!(out, "  {:#04x} {:<36} done", def.byte, def.name),
                Coverage::Host => writeln!(out, "  {:#04x} {:<36} host only", def.byte, def.name),
                Coverage::Unimplemented => {
                    writeln!(out, "  {:#04x} {:<36} Unimplemented", def.byte, def.name)
                }
                Coverage::Refused(rule, reason) => writeln!(
                    out,
                    "  {:#04x} {:<36} refused by every firmware ({rule}): {reason}",
                    def.byte, def.name
                ),
                Coverage::Library(fact, page) => writeln!(
                    out,
                    "  {:#04x} {:<36} done with a library that defines it; without one \
                     MissingSpecification: {fact} (not stated by {page})",
                    def.byte, def.name
                ),
                Coverage::MissingSpecification(fact, page) => writeln!(
                    out,
                    "  {:#04x} {:<36} MissingSpecification: {fact} (not stated by {page})",
                    def.byte, def.name
                ),
            };
        }
    }
    out
}

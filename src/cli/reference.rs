//! `docs/instruction-set.md`: one entry per opcode, made of the tables that the emulator itself
//! decodes, checks and dispatches by.

use std::fmt::Write as _;

use crate::isa::validate::{opcode_rule_names, queue_legal};
use crate::isa::{
    Class, Engine, GenSet, Generation, OpcodeDef, Presence, SP_OPCODES, opcode_table,
};
use crate::machine::coverage::{self, Coverage};

const HEAD: &str = "# Instruction set

Generated from `src/isa/tables/` and the dispatch tables; do not edit.
`UPDATE=1 cargo test --test instruction_set` writes it anew.

Each entry gives the byte and name, what the instruction does, its operand struct, the streams that
may carry it, how far the emulator is with it, the legality rules it has beyond those of every
instruction, and the [choices](open-choices.md) it rests on where the sources leave something open.
`tpbemu isa NAME` prints the fields. A generation in parentheses has the opcode disabled in its
tables; it executes all the same.

";

/// The page.
pub fn instruction_set() -> String {
    let mut out = String::from(HEAD);
    for (title, class) in [
        ("Compute", Class::Compute),
        ("DMA", Class::Dma),
        ("Control", Class::Control),
        ("Synchronisation", Class::Sync),
        ("Pseudo instructions, lowered by the loader", Class::Pseudo),
    ] {
        let _ = writeln!(out, "## {title}\n");
        opcode_table(Generation::V5)
            .iter()
            .filter(|d| d.class == class)
            .for_each(|d| entry(d, &mut out));
    }
    out += "## V1\n\nV1 has a table of its own; some of its bytes mean something else later.\n\n";
    opcode_table(Generation::V1)
        .iter()
        .filter(|d| d.class != Class::Sentinel)
        .for_each(|d| entry(d, &mut out));
    out += "## V1 sequencer processor\n\nWords of 8 bytes in the SP stream of V1.\n\n\
            | value | name | does |\n|---|---|---|\n";
    for d in SP_OPCODES {
        let _ = writeln!(out, "| `{:#04x}` | {} | {} |", d.value, d.name, d.meaning);
    }
    out
}

fn entry(d: &'static OpcodeDef, out: &mut String) {
    let _ = writeln!(out, "### `{:#04x}` {}\n\n{}\n", d.byte, d.name, d.does);
    let structs = match d.struct_names {
        [] => "not published".to_string(),
        names => names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
    };
    let _ = writeln!(out, "- operands: {structs}");
    let present: Vec<Generation> = d.generations().iter().collect();
    let marks: Vec<String> = present
        .iter()
        .map(|g| match d.presence_in(*g) {
            Presence::Dormant => format!("({g})"),
            _ => g.to_string(),
        })
        .collect();
    let _ = writeln!(out, "- generations: {}", marks.join(", "));
    if d.class != Class::Pseudo && d.class != Class::Simulator {
        let streams = grouped(&present, |g| {
            let legal: Vec<String> = Engine::ALL
                .into_iter()
                .filter(|e| queue_legal(d, g, *e))
                .map(|e| e.to_string())
                .collect();
            if legal.is_empty() { "none".into() } else { legal.join(", ") }
        });
        let _ = writeln!(out, "- streams: {streams}");
    }
    let _ = writeln!(out, "- emulator: {}", grouped(&present, |g| state(coverage::of(g, d))));
    let rules = opcode_rule_names(d);
    if !rules.is_empty() {
        let names: Vec<String> = rules.iter().map(|r| format!("`{r}`")).collect();
        let _ = writeln!(out, "- own rules: {}", names.join(", "));
    }
    if !d.open.is_empty() {
        let list: Vec<String> = d
            .open
            .iter()
            .map(|o| {
                let (topic, what) = o.split_once(": ").unwrap_or(("", o));
                format!("[{what}](open-choices/{topic}.md)")
            })
            .collect();
        let _ = writeln!(out, "- open choices: {}", list.join("; "));
    }
    if d.page != "NONE" && !d.page.is_empty() {
        let _ = writeln!(out, "- page: wiki: {}", d.page);
    }
    if !d.notes.is_empty() {
        let _ = writeln!(out, "- note: {}", d.notes.trim());
    }
    out.push('\n');
}

/// `what` of each generation, those with the same answer together.
fn grouped(list: &[Generation], what: impl Fn(Generation) -> String) -> String {
    let mut groups: Vec<(u8, String)> = Vec::new();
    for g in list {
        let (bit, text) = (1 << g.index(), what(*g));
        match groups.iter_mut().find(|(_, t)| *t == text) {
            Some((set, _)) => *set |= bit,
            None => groups.push((bit, text)),
        }
    }
    match groups.as_slice() {
        [(_, one)] => one.clone(),
        many => {
            let parts: Vec<String> =
                many.iter().map(|(set, t)| format!("{} {t}", GenSet(*set))).collect();
            parts.join("; ")
        }
    }
}

fn state(coverage: Coverage) -> String {
    match coverage {
        Coverage::Done => "executes".into(),
        Coverage::Host => "replaced before any device sees it".into(),
        Coverage::Unimplemented => "not written".into(),
        Coverage::Refused(rule, reason) => {
            format!("refuses every word (`{rule}`): {reason}")
        }
        Coverage::Library(fact, page) => format!(
            "executes where a loaded library defines it; otherwise reports the missing fact: {fact} \
             (not stated by {page})"
        ),
        Coverage::MissingSpecification(fact, page) => {
            format!("reports the missing fact: {fact} (not stated by {page})")
        }
    }
}

//! The report of a deadlock: who waits for what, who could still have supplied it, and the cycle.
//!
//! Found at once, not by a timer: nothing is on the agenda and a stream is not at its end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::image::Kind;
use super::run::{ENGINE_STREAMS, Machine, read_register};
use super::sp::SpWord;
use super::stream::RunState;
use crate::error::{Error, ErrorClass};
use crate::isa::Engine;
use crate::sync::{SyncId, UpdateKind, Wait, state::describe_unmet};

/// Most producers named for one wait.
const MAX_NAMED: usize = 3;

/// Builds the report for the machine as it stands.
pub fn report(machine: &Machine) -> Error {
    let stuck: Vec<usize> =
        (0..ENGINE_STREAMS).filter(|&s| machine.streams[s].state == RunState::Running).collect();
    let mut text = String::new();
    let mut edges: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let _ = write!(text, "no stream can go on; {} of them wait", stuck.len());
    for &s in &stuck {
        let supplying = describe(machine, s, &mut text);
        edges.entry(s).or_default().extend(supplying.into_iter().filter(|p| stuck.contains(p)));
    }
    let mut error = Error::new(ErrorClass::Deadlock, text);
    if let Some(cycle) = cycle(&edges) {
        let names: Vec<String> = cycle.iter().map(|&s| Engine::ALL[s].to_string()).collect();
        error.message += &format!("\n  cycle: {} -> {}", names.join(" -> "), names[0]);
        error = error.help("each of these waits for a later instruction of the next one");
    } else {
        error = error
            .help("the awaited updates are missing from the program, or were consumed or overshot");
    }
    error.at.generation = Some(machine.image.generation.to_string());
    error
}

/// Appends what stream `s` waits for and who could supply it; returns the streams that could.
pub(super) fn describe(machine: &Machine, s: usize, text: &mut String) -> Vec<usize> {
    let stream = &machine.streams[s];
    let at = machine.location(s, stream.pc);
    let source = at.source.map(|l| format!(" ({l})")).unwrap_or_default();
    let since = machine.time.to_ns(stream.head_since.unwrap_or(machine.now));
    let _ = write!(text, "\n  {} pc {}{source}", stream.engine, stream.pc);
    if let Some(d) = at.disassembly {
        let _ = write!(text, ": {d}");
    }
    let _ = write!(text, "\n      waiting since {since:.1} ns");
    let mut supplying = Vec::new();
    for (wait, operand) in unmet(machine, s) {
        let value = machine.sync.value(wait.id()).unwrap_or(0);
        let _ = write!(text, "\n      for {}", describe_unmet(&wait, operand, value));
        let helps = |kind: &UpdateKind| match wait {
            Wait::Event(_, set, _) => matches!(kind, UpdateKind::Set) == set,
            Wait::Semaphore(..) => true,
        };
        supplying.extend(suppliers(machine, wait.id(), &helps, text));
    }
    supplying
}

/// Appends the instructions not yet executed that change `id` in a way that `helps`; returns
/// their streams.
pub(super) fn suppliers(
    machine: &Machine,
    id: SyncId,
    helps: &dyn Fn(&UpdateKind) -> bool,
    text: &mut String,
) -> Vec<usize> {
    let producers = producers(machine, id, helps);
    if producers.is_empty() {
        let _ = write!(text, "; nothing left in the program changes {id} that way");
    }
    for p in producers.iter().take(MAX_NAMED) {
        let _ = write!(text, "\n        could be supplied by {}", p.text);
    }
    if producers.len() > MAX_NAMED {
        let _ = write!(text, "\n        and {} more", producers.len() - MAX_NAMED);
    }
    producers.iter().filter_map(|p| p.stream).collect()
}

/// The wait conditions of the head of stream `s` that do not hold, with their operands.
pub(super) fn unmet(machine: &Machine, s: usize) -> Vec<(Wait, u32)> {
    let stream = &machine.streams[s];
    if s == Engine::Sp.index() && !machine.image.sp.is_empty() {
        if let Some(SpWord::WaitEvents(base, mask)) = machine.image.sp.get(stream.pc).copied() {
            return (0..32u16)
                .filter(|b| mask >> b & 1 == 1)
                .map(|b| (Wait::Event(base + b, true, crate::sync::EventAction::Keep), 0))
                .filter(|(w, _)| machine.sync.holds(w, 0).is_ok_and(|h| !h))
                .collect();
        }
        return Vec::new();
    }
    let Some(word) = machine.image.words[s].get(stream.pc) else { return Vec::new() };
    let operand = |w: &Wait| match w {
        Wait::Semaphore(_, _, o) => o.value(|r| read_register(&stream.registers, r)).unwrap_or(0),
        Wait::Event(..) => 0,
    };
    let all = word.sync.waits.iter().map(|w| (*w, operand(w)));
    all.filter(|(w, o)| machine.sync.holds(w, *o).is_ok_and(|h| !h)).collect()
}

struct Producer {
    /// Stream that would have to go on, if it is an engine.
    stream: Option<usize>,
    text: String,
}

/// Instructions not yet executed that change `id` in a way that `helps`.
fn producers(machine: &Machine, id: SyncId, helps: &dyn Fn(&UpdateKind) -> bool) -> Vec<Producer> {
    let mut found = Vec::new();
    for s in 0..ENGINE_STREAMS {
        let stream = &machine.streams[s];
        if stream.state != RunState::Running {
            continue;
        }
        for (pc, word) in machine.image.words[s].iter().enumerate().skip(stream.pc) {
            let at = || {
                let source =
                    machine.location(s, pc).source.map(|l| format!(" ({l})")).unwrap_or_default();
                format!("{} pc {pc}{source}", stream.engine)
            };
            if let Some(u) = word.sync.updates.iter().find(|u| u.id == id && helps(&u.kind)) {
                let which = if pc == stream.pc { " (the waiting instruction itself)" } else { "" };
                found.push(Producer { stream: Some(s), text: format!("{}: {u}{which}", at()) });
            }
            if let Kind::Trigger(queue, block) = word.kind
                && machine.image.blocks[block].updates.iter().any(|u| u.id == id && helps(&u.kind))
            {
                let name = &machine.image.queues[queue];
                found.push(Producer {
                    stream: Some(s),
                    text: format!("the DMA block on queue {name} that {} triggers", at()),
                });
            }
        }
    }
    found
}

/// A cycle among the stuck streams, if there is one.
fn cycle(edges: &BTreeMap<usize, Vec<usize>>) -> Option<Vec<usize>> {
    for &start in edges.keys() {
        let mut path = vec![start];
        if extend(edges, start, &mut path) {
            return Some(path);
        }
    }
    None
}

fn extend(edges: &BTreeMap<usize, Vec<usize>>, start: usize, path: &mut Vec<usize>) -> bool {
    let last = path[path.len() - 1];
    for &next in edges.get(&last).map_or(&[][..], |v| v) {
        if next == start {
            return true;
        }
        if !path.contains(&next) {
            path.push(next);
            if extend(edges, start, path) {
                return true;
            }
            path.pop();
        }
    }
    false
}

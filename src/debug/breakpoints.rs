//! Breakpoints: where a run stops, and what is said then.

use super::place::Bytes;
use super::session::Session;
use crate::isa::Engine;
use crate::machine::Machine;
use crate::machine::agenda::{Action, Entry};
use crate::machine::inspect::Begun;
use crate::machine::run::ENGINE_STREAMS;
use crate::sync::SyncId;
use crate::trace::Record;

/// What a breakpoint waits for.
#[derive(Clone, Debug)]
pub enum Kind {
    /// One of these words comes to the head of its stream: (stream, word).
    Words(Vec<(usize, usize)>),
    /// A word with this opcode does.
    Opcode(u8),
    /// An event or semaphore changes, to this value if one is given.
    Sync(SyncId, Option<u32>),
    /// A work that reads (first) or writes (second) some of these bytes begins.
    Memory(Bytes, bool, bool),
    /// This tick begins.
    Tick(u64),
    /// POOL is about to start library code of the Q7 cores.
    Cores,
    /// A DMA block begins on this queue.
    Queue(usize),
}

/// A breakpoint.
#[derive(Clone, Debug)]
pub struct Breakpoint {
    /// Number.
    pub id: u32,
    /// As it was asked for.
    pub text: String,
    /// What it waits for.
    pub kind: Kind,
    /// Whether it is looked at.
    pub enabled: bool,
}

/// A breakpoint that hit.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Number of the breakpoint.
    pub id: u32,
    /// What happened.
    pub what: String,
    /// The tick it is about.
    pub at: u64,
}

/// All breakpoints of a session.
#[derive(Clone, Debug, Default)]
pub struct Breakpoints {
    /// In the order in which they were made.
    pub list: Vec<Breakpoint>,
    last: u32,
}

impl Breakpoints {
    /// Adds one and returns its number.
    pub fn add(&mut self, text: &str, kind: Kind) -> u32 {
        self.last += 1;
        self.list.push(Breakpoint { id: self.last, text: text.into(), kind, enabled: true });
        self.last
    }

    fn enabled(&self) -> impl Iterator<Item = &Breakpoint> {
        self.list.iter().filter(|b| b.enabled)
    }

    /// What hits before `entry` is done.
    pub fn before(&self, machine: &Machine, entry: &Entry) -> Option<Hit> {
        if self.list.is_empty() {
            return None;
        }
        let arriving = Session::arriving(machine, entry);
        for b in self.enabled() {
            let what = match &b.kind {
                Kind::Words(words) => arriving.filter(|at| words.contains(at)).map(|(s, pc)| {
                    format!("{} pc {pc} comes to the head", super::show::stream_name(machine, s))
                }),
                Kind::Opcode(code) => arriving
                    .filter(|&(s, pc)| {
                        let word = machine.image().words.get(s).and_then(|words| words.get(pc));
                        word.is_some_and(|w| w.inst.opcode() == *code)
                    })
                    .map(|(s, pc)| {
                        let stream = super::show::stream_name(machine, s);
                        format!("{stream} pc {pc} comes to the head")
                    }),
                // time may have been spent up to just before it
                Kind::Tick(tick) => (entry.tick >= *tick && machine.now() < *tick)
                    .then(|| format!("tick {tick} begins")),
                Kind::Cores => {
                    let pool = Engine::Pool.index();
                    let starts = entry.action == Action::Start && entry.stream == pool;
                    (starts && machine.library_call().is_some())
                        .then(|| "POOL is about to run library code".to_string())
                }
                Kind::Queue(q) => {
                    let begins = entry.action == Action::Start
                        && entry.stream == ENGINE_STREAMS + q
                        && machine.queue(*q).is_some_and(|queue| queue.next == 0);
                    begins.then(|| {
                        format!(
                            "{} begins a block",
                            super::show::stream_name(machine, entry.stream)
                        )
                    })
                }
                Kind::Sync(..) | Kind::Memory(..) => None,
            };
            if let Some(what) = what {
                let at = if let Kind::Tick(tick) = b.kind { tick } else { entry.tick };
                return Some(Hit { id: b.id, what, at });
            }
        }
        None
    }

    /// What the new records hit.
    pub fn records<'a>(
        &self,
        machine: &Machine,
        records: impl Iterator<Item = &'a Record>,
    ) -> Option<Hit> {
        if self.list.is_empty() {
            return None;
        }
        for record in records {
            let Record::Sync(change) = record else { continue };
            for b in self.enabled() {
                let Kind::Sync(id, value) = &b.kind else { continue };
                if *id == change.id && value.is_none_or(|v| v == change.value) {
                    let by = super::show::stream_name(machine, usize::from(change.by.0));
                    let id = machine.named(&id.to_string());
                    let what = format!("{id} becomes {} by {by}", change.value);
                    return Some(Hit { id: b.id, what, at: machine.now() });
                }
            }
        }
        None
    }

    /// What the works that have begun hit.
    pub fn works(&self, machine: &Machine, begun: &[Begun]) -> Option<Hit> {
        for b in self.enabled() {
            let Kind::Memory(bytes, reads, writes) = &b.kind else { continue };
            for work in begun {
                let accesses = work.work.accesses.iter();
                let access = accesses
                    .filter(|a| if a.kind.writes() { *writes } else { *reads })
                    .find(|a| bytes.meets(&a.region));
                if let Some(access) = access {
                    let who = super::show::stream_name(machine, work.place);
                    let does = match (access.kind.writes(), access.certain) {
                        (true, true) => "writes",
                        (true, false) => "may write",
                        (false, true) => "reads",
                        (false, false) => "may read",
                    };
                    let what = format!("{who} pc {} {does} {}", work.pc, access.region);
                    return Some(Hit { id: b.id, what, at: machine.now() });
                }
            }
        }
        None
    }
}

//! The reports of hazards of events and semaphores, and remarks about what has no effect.

use std::collections::{BTreeMap, BTreeSet};

use super::guarantee::{Hazard, Unproven};
use super::log::{Acquire, Change, Effect, Got, Log};
use crate::error::{Error, Location};
use crate::sync::{Compare, SyncId, SyncState};

/// `ACT pc 3 (file:12): text` of a place.
fn line(at: &Location) -> String {
    let source = at.source.as_ref().map(|s| format!(" ({s})")).unwrap_or_default();
    let text = at.disassembly.as_deref().unwrap_or("");
    format!("{}{source}: {text}", name(at))
}

fn name(at: &Location) -> String {
    let stream = at.stream.as_deref().unwrap_or("?");
    match at.pc {
        Some(pc) if !stream.starts_with("queue") => format!("{stream} pc {pc}"),
        _ => format!("{stream} {}", at.disassembly.as_deref().unwrap_or("")).trim_end().to_string(),
    }
}

/// The error that tells of `hazard`; `place` finds a stream's word.
pub fn report(hazard: &Hazard, place: impl Fn((usize, u32)) -> Location) -> Error {
    let (text, help, at) = match *hazard {
        Hazard::LostSignal { id, setter, earlier } => {
            let (s, e) = (place(setter), place(earlier));
            (
                format!(
                    "{id} can be set again before its signal is consumed: one signal is lost\n  set by:       {}\n  set again by: {}",
                    line(&e),
                    line(&s)
                ),
                format!("{} needs to wait until {id} is consumed", name(&s)),
                s,
            )
        }
        Hazard::TwoConsumers { id, waits } => {
            let (a, b) = (place(waits[0]), place(waits[1]));
            (
                format!(
                    "two streams consume {id} and nothing orders them: either can take the other's signal\n  {}\n  {}",
                    line(&a),
                    line(&b)
                ),
                "give each consumer an event of its own".into(),
                b,
            )
        }
        Hazard::Overshoot { id, wait, operand, possible } => {
            let at = place(wait);
            (
                format!(
                    "{id} can pass {operand} before this wait looks at it: it can be {possible} by then"
                ),
                format!("wait for {id}>={operand}, or hold the further updates back"),
                at,
            )
        }
        Hazard::Wrap { id, by } => (
            format!("{id} passes the end of its range and wraps"),
            "reset the semaphore, or count less".into(),
            place(by),
        ),
        Hazard::Sequencer { earlier, later } => {
            let (e, l) = (place(earlier), place(later));
            (
                format!(
                    "{} touches what the data path of its engine may still use\n  used by: {}",
                    name(&l),
                    line(&e)
                ),
                "sequencer instructions do not wait for the data path: put a DRAIN before this one"
                    .into(),
                l,
            )
        }
    };
    Error::undefined(hazard.class(), text).help(help).or_at(&Location { cycle: None, ..at })
}

/// What limits the analysis to the order of this run.
pub fn limit(unproven: &Unproven, place: impl Fn((usize, u32)) -> Location) -> String {
    match *unproven {
        Unproven::NotMonotone(id) => {
            format!("{id} does not only count up: checked in the order of this run")
        }
        Unproven::InverseWait(id, stream, pc) => format!(
            "{}: waits for {id} to be small or clear: checked in the order of this run",
            name(&place((stream, pc)))
        ),
        Unproven::Polled => {
            "an instruction polls an event or semaphore: checked for the branches of this run"
                .into()
        }
    }
}

/// What the remarks need to know of the waits and updates of a run.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Remarks {
    /// What somebody waits for.
    looked: BTreeSet<SyncId>,
    /// Waits that always hold, in order.
    idle: Vec<(usize, u32)>,
    /// The first update, clears apart, of each event and semaphore.
    updated: BTreeMap<SyncId, (usize, u32)>,
}

impl Remarks {
    /// Whether all streams are among `total`.
    pub(crate) fn fits(&self, total: usize) -> bool {
        self.idle.iter().chain(self.updated.values()).all(|at| at.0 < total)
    }

    /// Goes on with these entries of a log.
    pub(crate) fn take_in(&mut self, acquires: &[Acquire], changes: &[Change]) {
        // sets are asked once for each event and semaphore in a row of the same
        let (mut last_looked, mut last_updated) = (None, None);
        for a in acquires {
            let id = match a.got {
                Got::Semaphore(i, compare, operand) => {
                    let idle =
                        matches!((compare, operand), (Compare::Ge, 0) | (Compare::Le, u32::MAX));
                    if idle && !self.idle.contains(&(a.stream, a.pc)) {
                        self.idle.push((a.stream, a.pc));
                    }
                    SyncId::Semaphore(i)
                }
                Got::Event { event, .. } => SyncId::Event(event),
                Got::Job(..) | Got::Own(_) => continue,
            };
            if last_looked.replace(id) != Some(id) {
                self.looked.insert(id);
            }
        }
        for c in changes.iter().filter(|c| c.effect != Effect::Clear) {
            if last_updated.replace(c.id) != Some(c.id) {
                self.updated.entry(c.id).or_insert((c.stream, c.pc));
            }
        }
    }
}

/// Things that are allowed and may still be mistakes: waits that cannot fail, updates that nobody
/// looks at, and semaphores that are not zero at the end.
pub fn remarks(
    log: &Log,
    sync: &SyncState,
    place: impl Fn((usize, u32)) -> Location,
) -> Vec<String> {
    let mut all = log.behind.as_ref().map_or_else(Remarks::default, |b| b.remarks.clone());
    all.take_in(&log.acquires, &log.changes);
    let idle = all.idle.iter().map(|at| format!("{}: its wait always holds", name(&place(*at))));
    let mut out: Vec<String> = idle.collect();
    if !log.polled {
        for (id, at) in all.updated.iter().filter(|(id, _)| !all.looked.contains(id)) {
            out.push(format!("{}: updates {id}, which nobody waits for", name(&place(*at))));
        }
    }
    for (id, value) in sync.non_zero() {
        out.push(format!("{id} is {value} at the end"));
    }
    out
}

//! Event bits and semaphore counters of one core.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::modes::{Compare, EventAction, Operand, UpdateKind, Wait};
use crate::error::{Error, Result};
use crate::machine::config::SyncConfig;

/// An event or a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SyncId {
    /// One bit.
    Event(u16),
    /// A counter.
    Semaphore(u16),
}

impl fmt::Display for SyncId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncId::Event(i) => write!(f, "$E[{i}]"),
            SyncId::Semaphore(i) => write!(f, "$S[{i}]"),
        }
    }
}

/// Something worth telling the user that an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// An event was set that was still set: the first signal is lost.
    DoubleSet,
    /// An event was cleared that was clear.
    DoubleClear,
    /// A semaphore passed its largest value or went below zero.
    Wrapped,
}

impl Oddity {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Oddity::DoubleSet => "set while still set: one signal is lost",
            Oddity::DoubleClear => "cleared while clear",
            Oddity::Wrapped => "counted past its range and wrapped",
        }
    }
}

/// All events and semaphores. Zero at reset (OPEN: sync choice 19).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SyncState {
    events: Vec<bool>,
    semaphores: Vec<u32>,
    max: u32,
}

impl SyncState {
    /// All zero, in the numbers of `config`.
    pub fn new(config: &SyncConfig) -> Self {
        SyncState {
            events: vec![false; config.events as usize],
            semaphores: vec![0; config.semaphores as usize],
            max: config.semaphore_max,
        }
    }

    /// Current value: 0 or 1 for an event.
    ///
    /// # Errors
    /// `sync_index` if the generation has no such event or semaphore.
    pub fn value(&self, id: SyncId) -> Result<u32> {
        match id {
            SyncId::Event(i) => self.events.get(usize::from(i)).map(|&e| u32::from(e)),
            SyncId::Semaphore(i) => self.semaphores.get(usize::from(i)).copied(),
        }
        .ok_or_else(|| no_such(id))
    }

    /// Whether the condition holds now; `operand` is the semaphore operand's value.
    ///
    /// # Errors
    /// `sync_index`.
    pub fn holds(&self, wait: &Wait, operand: u32) -> Result<bool> {
        let value = self.value(wait.id())?;
        Ok(match wait {
            Wait::Semaphore(_, compare, _) => compare.holds(value, operand),
            Wait::Event(_, set, _) => (value != 0) == *set,
        })
    }

    /// Does the action of a wait that holds.
    pub fn act(&mut self, wait: &Wait) {
        if let Wait::Event(i, set, EventAction::Flip) = *wait {
            self.events[usize::from(i)] = !set;
        }
    }

    /// Applies an update whose operand has the value `operand`. Returns the new value and what was
    /// odd about it. Semaphores wrap (OPEN: sync choices 1 and 3).
    ///
    /// # Errors
    /// `sync_index`.
    pub fn apply(
        &mut self,
        id: SyncId,
        kind: UpdateKind,
        operand: u32,
    ) -> Result<(u32, Option<Oddity>)> {
        let old = self.value(id)?;
        match id {
            SyncId::Event(i) => {
                let new = matches!(kind, UpdateKind::Set);
                self.events[usize::from(i)] = new;
                let odd = match (old != 0, new) {
                    (true, true) => Some(Oddity::DoubleSet),
                    (false, false) => Some(Oddity::DoubleClear),
                    _ => None,
                };
                Ok((u32::from(new), odd))
            }
            SyncId::Semaphore(i) => {
                let modulus = u64::from(self.max) + 1;
                let (old, n) = (u64::from(old), u64::from(operand) % modulus);
                let (new, wrapped) = match kind {
                    UpdateKind::Add(_) => {
                        ((old + n) % modulus, old + u64::from(operand) >= modulus)
                    }
                    UpdateKind::Sub(_) => ((old + modulus - n) % modulus, u64::from(operand) > old),
                    UpdateKind::Write(_) => (n, u64::from(operand) >= modulus),
                    UpdateKind::Set => (1, false),
                    UpdateKind::Clear => (0, false),
                };
                self.semaphores[usize::from(i)] = new as u32;
                Ok((new as u32, wrapped.then_some(Oddity::Wrapped)))
            }
        }
    }

    /// Number of events.
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// Number of semaphores.
    pub fn semaphores(&self) -> usize {
        self.semaphores.len()
    }

    /// Ids with a non-zero value.
    pub fn non_zero(&self) -> impl Iterator<Item = (SyncId, u32)> + '_ {
        let events = self.events.iter().enumerate().filter(|(_, e)| **e);
        let semaphores = self.semaphores.iter().enumerate().filter(|(_, s)| **s != 0);
        events
            .map(|(i, _)| (SyncId::Event(i as u16), 1))
            .chain(semaphores.map(|(i, s)| (SyncId::Semaphore(i as u16), *s)))
    }
}

fn no_such(id: SyncId) -> Error {
    Error::illegal("sync_index", format!("this generation has no {id}"))
}

/// A wait in words that name the missing amount, for reports.
pub fn describe_unmet(wait: &Wait, operand: u32, value: u32) -> String {
    match wait {
        Wait::Semaphore(i, compare, from) => {
            let shown = match from {
                Operand::Immediate(_) => String::new(),
                _ => format!(" ({from} = {operand})"),
            };
            let lack = match compare {
                Compare::Ge if operand > value => format!(", {} short", operand - value),
                Compare::Gt if operand >= value => format!(", {} short", operand - value + 1),
                Compare::Eq if value > operand => ", overshot".to_string(),
                _ => String::new(),
            };
            format!("$S[{i}]{}{from}{shown}, it is {value}{lack}", compare.symbol())
        }
        Wait::Event(..) => format!("{wait}, it is {value}"),
    }
}

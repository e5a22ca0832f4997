//! What was done with one event or semaphore, sorted for the searches of the analysis.

use std::cell::Cell;

use super::window::{Kept, UseBehind};
use super::{Column, boundary, join};
use crate::check::log::Lane;
use crate::sync::SyncId;

/// In-order updates of one event or semaphore by one stream.
pub(super) struct Producer {
    pub column: Column,
    pub lane: Lane,
    /// The sum of those that the window has left behind, and some of them.
    pub base: u64,
    pub behind: Vec<Kept>,
    /// Index in the log, and the sum so far.
    pub changes: Vec<(u32, u64)>,
    /// Where the searches for what is possible, and for what is needed, ended.
    pub near: [Cell<u32>; 2],
}

impl Producer {
    /// The sum of all.
    pub fn total(&self) -> u64 {
        self.changes.last().map_or(self.base, |c| c.1)
    }

    /// The first kept update with which the sum is at least `mine`.
    pub fn kept(&self, mine: u64) -> Option<&Kept> {
        self.behind.get(self.behind.partition_point(|k| k.sum < mine))
    }
}

/// Clears of one event by one stream, those of waits apart: their places, in order.
pub(super) struct Clears {
    pub column: Column,
    pub places: [Vec<u32>; 2],
    /// Those that the window has left behind: how many, and the first and last place.
    pub base: [u64; 2],
    pub ends: [u32; 2],
    near: [Cell<u32>; 2],
}

impl Clears {
    /// How many clears have a place below `updates`, and waits that clear below `waits`. Of those
    /// left behind all or none count; where that is not sure, `inexact` is set.
    pub fn below(&self, updates: u32, waits: u32, inexact: &Cell<bool>) -> u64 {
        let [first, last] = self.ends;
        if self.base != [0; 2] && updates > first && updates <= last {
            inexact.set(true);
        }
        [updates, waits]
            .iter()
            .enumerate()
            .map(|(k, limit)| {
                let places = &self.places[k];
                let here = boundary(&self.near[k], places.len(), |i| places[i] < *limit) as u64;
                here + if *limit > first { self.base[k] } else { 0 }
            })
            .sum()
    }
}

/// Waits of one stream for a semaphore.
pub(super) struct Looks {
    pub column: Column,
    /// Value and place of waits that look for a larger value than all before.
    pub first: Vec<(u64, u32)>,
    near: Cell<u32>,
}

impl Looks {
    /// Column and place of the first wait for `needed` or more.
    pub fn first_of(&self, needed: u64) -> Option<(Column, u32)> {
        let at = boundary(&self.near, self.first.len(), |k| self.first[k].0 < needed);
        Some((self.column, self.first.get(at)?.1))
    }
}

pub(super) struct Uses {
    pub id: SyncId,
    pub producers: Vec<Producer>,
    pub clears: Vec<Clears>,
    /// Only additions that do not wrap, or only sets and clears.
    pub counts_up: bool,
    pub looks: Vec<Looks>,
    /// All its changes: indices in the log.
    pub changes: Vec<u32>,
    /// The sum of all updates that the window has left behind.
    pub base: u64,
    /// Knowledge of changes left behind that have no producer.
    others: Vec<u32>,
}

impl Uses {
    pub fn new(id: SyncId, counts_up: bool) -> Self {
        Uses {
            id,
            producers: Vec::new(),
            clears: Vec::new(),
            counts_up,
            looks: Vec::new(),
            changes: Vec::new(),
            base: 0,
            others: Vec::new(),
        }
    }

    /// Goes on from what the window has left behind.
    pub fn behind(behind: &UseBehind) -> Self {
        let mut uses = Uses::new(behind.id, behind.counts_up);
        for p in &behind.producers {
            let producer = uses.producer_of(p.column, p.lane);
            producer.base = p.kept.last().map_or(0, |k| k.sum);
            producer.behind.clone_from(&p.kept);
        }
        for c in &behind.clears {
            let clears = uses.clears_of(c.column);
            (clears.base, clears.ends) = (c.counts, c.ends);
        }
        for l in &behind.looks {
            l.1.iter().for_each(|(value, place)| uses.look(l.0, *value, *place));
        }
        uses.base = uses.producers.iter().map(|p| p.base).sum();
        uses.others.clone_from(&behind.others);
        uses
    }

    /// What all that was left behind tells.
    pub fn all_behind(&self, width: usize) -> Vec<u32> {
        let mut row = self.others.clone();
        row.resize(width, 0);
        for kept in self.producers.iter().filter_map(|p| p.behind.last()) {
            join(&mut row, &kept.row);
        }
        row
    }

    pub fn producer_of(&mut self, column: Column, lane: Lane) -> &mut Producer {
        let is = |p: &Producer| p.column == column && p.lane == lane;
        let at = self.producers.iter().position(is).unwrap_or_else(|| {
            let near = [const { Cell::new(0) }; 2];
            let (behind, changes) = (Vec::new(), Vec::new());
            self.producers.push(Producer { column, lane, base: 0, behind, changes, near });
            self.producers.len() - 1
        });
        &mut self.producers[at]
    }

    pub fn clears_of(&mut self, column: Column) -> &mut Clears {
        let at = self.clears.iter().position(|c| c.column == column).unwrap_or_else(|| {
            let near = [const { Cell::new(0) }; 2];
            let (places, base) = ([Vec::new(), Vec::new()], [0; 2]);
            self.clears.push(Clears { column, places, base, ends: [0; 2], near });
            self.clears.len() - 1
        });
        &mut self.clears[at]
    }

    /// `column` waits at `place` for `value`.
    pub fn look(&mut self, column: Column, value: u64, place: u32) {
        let at = self.looks.iter().position(|l| l.column == column).unwrap_or_else(|| {
            self.looks.push(Looks { column, first: Vec::new(), near: Cell::new(0) });
            self.looks.len() - 1
        });
        let first = &mut self.looks[at].first;
        if first.last().is_none_or(|l| l.0 < value) {
            first.push((value, place));
        }
    }
}

/// Numbers of events and semaphores in [`super::Guarantees::uses`].
#[derive(Default)]
pub(super) struct Numbers {
    of: [Vec<u32>; 2],
}

impl Numbers {
    fn slot(id: SyncId) -> (usize, usize) {
        match id {
            SyncId::Event(i) => (0, usize::from(i)),
            SyncId::Semaphore(i) => (1, usize::from(i)),
        }
    }

    pub fn get(&self, id: SyncId) -> Option<u32> {
        let (kind, i) = Self::slot(id);
        self.of[kind].get(i).copied().filter(|n| *n != super::NO_USE)
    }

    pub fn set(&mut self, id: SyncId, number: u32) {
        let (kind, i) = Self::slot(id);
        let of = &mut self.of[kind];
        if of.len() <= i {
            of.resize(i + 1, super::NO_USE);
        }
        of[i] = number;
    }
}

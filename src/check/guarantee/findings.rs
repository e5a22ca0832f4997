//! What the guaranteed order shows to be wrong: races, and hazards of events and semaphores.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::*;

/// Something wrong with events or semaphores, apart from races.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Hazard {
    /// An event can be set again before its first signal is consumed.
    LostSignal {
        /// The event.
        id: SyncId,
        /// Who sets it too early: stream and word.
        setter: (usize, u32),
        /// An earlier set whose signal can be lost.
        earlier: (usize, u32),
    },
    /// Two streams consume the same event and nothing says who comes first.
    TwoConsumers {
        /// The event.
        id: SyncId,
        /// Both waits.
        waits: [(usize, u32); 2],
    },
    /// A semaphore can pass the value for which an equality wait looks.
    Overshoot {
        /// The semaphore.
        id: SyncId,
        /// The wait.
        wait: (usize, u32),
        /// Its value.
        operand: u32,
        /// What the semaphore can have reached by then.
        possible: u64,
    },
    /// A semaphore passed the end of its range.
    Wrap {
        /// The semaphore.
        id: SyncId,
        /// By whom.
        by: (usize, u32),
    },
    /// A sequencer instruction touches memory that the same stream's data path may still use.
    Sequencer {
        /// The data-path instruction.
        earlier: (usize, u32),
        /// The sequencer instruction.
        later: (usize, u32),
    },
}

impl Hazard {
    /// Name of the class of the finding.
    pub fn class(&self) -> &'static str {
        match self {
            Hazard::LostSignal { .. } => "lost_signal",
            Hazard::TwoConsumers { .. } => "two_consumers",
            Hazard::Overshoot { .. } => "equality_overshoot",
            Hazard::Wrap { .. } => "semaphore_wrap",
            Hazard::Sequencer { .. } => "sequencer_hazard",
        }
    }

    /// Streams and words that it is about.
    pub fn places(&self) -> Vec<(usize, u32)> {
        match *self {
            Hazard::LostSignal { setter, earlier, .. } => vec![earlier, setter],
            Hazard::TwoConsumers { waits, .. } => waits.into(),
            Hazard::Overshoot { wait, .. } => vec![wait],
            Hazard::Wrap { by, .. } => vec![by],
            Hazard::Sequencer { earlier, later } => vec![earlier, later],
        }
    }
}

/// What [`Guarantees::races`] finds.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Finding {
    /// Two streams.
    Race(Box<Conflict>),
    /// The sequencer and the data path of one engine.
    Sequencer(Hazard),
}

impl Guarantees<'_> {
    /// Conflicting accesses that not every schedule orders, in order of the later one's start.
    ///
    /// `control` says whether a word is executed by the sequencer. Its accesses are done when the
    /// instruction is, in program order, but do not wait for the data path of the same stream. They
    /// enter as a stream of their own; what comes out of it is named [`Finding::Sequencer`] if both
    /// sides belong to one engine.
    pub fn races(&self, control: impl Fn(usize, u32) -> bool) -> Vec<Finding> {
        let behind = self.behind.as_ref();
        let mut board = behind.map_or_else(Board::new, |b| b.board.clone());
        let mut found = behind.map_or(Vec::new(), |b| b.findings.clone());
        found.extend(self.races_until(u64::MAX, &mut board, control));
        found
    }

    /// The races of the works that are not settled yet, up to `last` in the order of the run.
    pub(super) fn races_until(
        &self,
        last: u64,
        board: &mut Board,
        control: impl Fn(usize, u32) -> bool,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        let n = self.streams.len();
        let near = vec![Cell::new(0); n];
        let settled = self.behind.as_ref().map_or(0, |b| b.order);
        let from = self.log.works.partition_point(|w| w.order <= settled);
        let mut clock = Clock::new(2 * n);
        for w in self.log.works[from..].iter().take_while(|w| w.order <= last) {
            let Some(place) = self.log.place_of(w.stream, w.work) else { continue };
            let place = &place;
            let column = self.column(w.stream);
            let places = &self.places[column];
            let row = boundary(&near[column], places.len(), |i| places[i] <= *place);
            let row = Self::row(&self.rows, self.width(), column, row.saturating_sub(1) as u32);
            let (works, passed) = clock.numbers().split_at_mut(2 * n);
            for (to, from) in works.chunks_exact_mut(2).zip(row[n..].chunks_exact(2)) {
                to.copy_from_slice(&[from[0].max(from[1]), from[1]]);
            }
            for (to, from) in passed.chunks_exact_mut(2).zip(row) {
                to.fill(*from);
            }
            passed[2 * column..][..2].fill(row[column].max(*place));
            let mut stamp = Stamp {
                stream: column,
                work: w.work,
                ticket: 0,
                pc: w.pc,
                tick: w.tick,
                judged: w.footprint.judged,
            };
            if control(w.stream, w.pc) {
                stamp.stream += n;
                stamp.work = place + 1;
            }
            board.enter(
                stamp,
                w.footprint.touched(),
                Some(&clock),
                |_| {},
                |mut c| {
                    c.earlier.0.stream = self.streams[c.earlier.0.stream % n];
                    c.later.0.stream = self.streams[c.later.0.stream % n];
                    let (a, b) = (c.earlier.0, c.later.0);
                    found.push(if a.stream == b.stream {
                        Finding::Sequencer(Hazard::Sequencer {
                            earlier: (a.stream, a.pc),
                            later: (b.stream, b.pc),
                        })
                    } else {
                        Finding::Race(Box::new(c))
                    });
                },
            );
        }
        found
    }

    /// Hazards of events and semaphores: wraps in the order of the run, then by event and semaphore.
    pub fn hazards(&self) -> Vec<Hazard> {
        let behind = self.behind.as_ref();
        let mut found = behind.map_or(Vec::new(), |b| b.hazards.clone());
        found.extend(self.hazards_until(u64::MAX).0);
        sort(&mut found);
        found
    }

    /// The hazards of what is not settled yet, up to `last` in the order of the run, and what they
    /// leave for the next time.
    pub(super) fn hazards_until(&self, last: u64) -> (Vec<Hazard>, BTreeMap<SyncId, Told>) {
        let settled = self.behind.as_ref().map_or(0, |b| b.order);
        let mut found = Vec::new();
        let from = self.log.changes.partition_point(|c| c.order <= settled);
        let changes = self.log.changes[from..].iter().take_while(|c| c.order <= last);
        for change in changes.filter(|c| c.wrapped) {
            found.push(Hazard::Wrap { id: change.id, by: (change.stream, change.pc) });
        }
        // waits that consume an event, and waits for an exact value
        let mut special: Vec<Vec<&Acquire>> = vec![Vec::new(); self.uses.len()];
        let acquires = self.log.acquires.iter().zip(&self.acquires).skip(self.settled);
        for (a, (_, number)) in acquires.take_while(|(a, _)| a.order <= last) {
            if matches!(
                a.got,
                Got::Event { consumed: true, .. } | Got::Semaphore(_, Compare::Eq, _)
            ) && let Some(waits) = special.get_mut(*number as usize)
            {
                waits.push(a);
            }
        }
        let mut told = BTreeMap::new();
        for (uses, waits) in self.uses.iter().zip(special) {
            let mut told_of = self
                .behind
                .as_ref()
                .and_then(|b| b.uses.iter().find(|u| u.id == uses.id))
                .map_or_else(Told::default, |u| u.told.clone());
            match uses.id {
                SyncId::Event(_) => {
                    self.lost_signals(uses, (settled, last), &mut told_of, &mut found);
                    self.two_consumers(uses.id, &waits, &mut told_of, &mut found);
                }
                SyncId::Semaphore(_) if uses.counts_up => self.overshoots(uses, &waits, &mut found),
                SyncId::Semaphore(_) => {}
            }
            told.insert(uses.id, told_of);
        }
        sort(&mut found);
        (found, told)
    }

    fn overshoots(&self, uses: &Uses, waits: &[&Acquire], found: &mut Vec<Hazard>) {
        for a in waits {
            let Got::Semaphore(_, _, operand) = a.got else { continue };
            let firsts = [(self.column(a.stream), a.place)];
            let possible: u64 =
                uses.producers.iter().map(|p| self.possible_sum(&firsts, p, a)).sum();
            if possible > u64::from(operand) {
                let wait = (a.stream, a.pc);
                found.push(Hazard::Overshoot { id: uses.id, wait, operand, possible });
            }
        }
    }

    /// The first set of an event before which not every earlier signal is consumed.
    fn lost_signals(
        &self,
        uses: &Uses,
        (settled, until): (u64, u64),
        told: &mut Told,
        found: &mut Vec<Hazard>,
    ) {
        if told.lost {
            return;
        }
        let sets: Vec<usize> = uses.changes.iter().map(|i| *i as usize).collect();
        let sets: Vec<usize> =
            sets.into_iter().filter(|i| self.log.changes[*i].effect == Effect::Set).collect();
        // sets by stream, in order of their places
        let mut by_column: BTreeMap<Column, Vec<usize>> = BTreeMap::new();
        for &i in &sets {
            by_column.entry(self.column(self.log.changes[i].stream)).or_default().push(i);
        }
        for list in by_column.values_mut() {
            list.sort_by_key(|i| self.log.changes[*i].place);
        }
        let near = vec![Cell::new(0); self.streams.len()];
        let mut knowledge = vec![0; self.width()];
        for &i in &sets {
            let set = &self.log.changes[i];
            if set.order <= settled {
                continue;
            }
            if set.order > until {
                break;
            }
            let own = self.column(set.stream);
            knowledge.fill(0);
            self.learn(&mut knowledge, i);
            let cleared: u64 = uses
                .clears
                .iter()
                .map(|clears| {
                    if clears.column == own {
                        clears.below(set.place, set.place.saturating_add(1), &self.inexact)
                    } else {
                        let limit = knowledge[clears.column];
                        clears.below(limit, limit, &self.inexact)
                    }
                })
                .sum();
            // the sets that may come before this one, itself included
            let mut before = uses.base as usize;
            for (column, list) in &by_column {
                let n = boundary(&near[*column], list.len(), |k| !self.comes_after(list[k], i));
                let first = [(own, set.place)];
                if n == list.len() && *column != own && !self.later_come_after(&first, *column) {
                    self.open.set(self.open.get().min(set.order));
                }
                before += n;
            }
            if before as u64 > cleared + 1 {
                let last = sets.iter().rev().find(|o| **o != i && !self.comes_after(**o, i));
                let last = last.map(|o| &self.log.changes[*o]).map(|o| (o.stream, o.pc));
                let Some(earlier) = last.or(told.set) else { continue };
                let setter = (set.stream, set.pc);
                found.push(Hazard::LostSignal { id: uses.id, setter, earlier });
                told.lost = true;
                break;
            }
        }
    }

    /// Whether the change `later` comes after the change `earlier` in every schedule: by program
    /// order in one stream, else by what its stream knows.
    fn comes_after(&self, later: usize, earlier: usize) -> bool {
        let (l, e) = (&self.log.changes[later], &self.log.changes[earlier]);
        if l.stream == e.stream {
            return l.place > e.place;
        }
        let (row, _) = self.changes[later];
        let row = Self::row(&self.rows, self.width(), self.column(l.stream), row);
        row[self.column(e.stream)] > e.place
    }

    fn two_consumers(
        &self,
        id: SyncId,
        waits: &[&Acquire],
        told: &mut Told,
        found: &mut Vec<Hazard>,
    ) {
        for b in waits {
            let before = told.consumer.replace((b.stream, b.pc, b.place));
            let Some((stream, pc, place)) = before.filter(|a| a.0 != b.stream && !told.two) else {
                continue;
            };
            let column = self.column(b.stream);
            let row = self.places[column].partition_point(|p| *p <= b.place).saturating_sub(1);
            let row = Self::row(&self.rows, self.width(), column, row as u32);
            if row[self.column(stream)] <= place {
                let waits = [(stream, pc), (b.stream, b.pc)];
                found.push(Hazard::TwoConsumers { id, waits });
                told.two = true;
            }
        }
    }
}

/// What the hazards of one event need from the part of the run that is settled.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Told {
    /// A lost signal, and a second consumer, were found: each is told once.
    lost: bool,
    two: bool,
    /// The last set that was left behind, and the last wait that consumed it.
    pub set: Option<(usize, u32)>,
    consumer: Option<(usize, u32, u32)>,
}

impl Told {
    /// Whether all streams are among `total`.
    pub fn fits(&self, total: usize) -> bool {
        self.set.is_none_or(|s| s.0 < total) && self.consumer.is_none_or(|c| c.0 < total)
    }
}

/// Brings hazards of several parts of a run into the order of one: those of each event and
/// semaphore together.
fn sort(hazards: &mut [Hazard]) {
    hazards.sort_by_key(|h| match h {
        Hazard::Wrap { .. } | Hazard::Sequencer { .. } => (0, SyncId::Event(0), 0),
        Hazard::LostSignal { id, .. } => (1, *id, 0),
        Hazard::TwoConsumers { id, .. } => (1, *id, 1),
        Hazard::Overshoot { id, .. } => (1, *id, 2),
    });
}

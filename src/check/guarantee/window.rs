//! Long runs: the log holds a window, and what is older is settled and left behind.
//!
//! When the window is full its entries are analysed. What is said of the older ones cannot change
//! any more, provided that the rest, an eighth of the window, is more than what can overtake a wait:
//! the updates that come after it in every schedule are there already. Where this is not so, for
//! some stream runs ahead freely, the window grows to twice the size, up to a limit. Their findings
//! are kept, and half of that eighth stays with what it knows, for waits that look back.
//!
//! Of what is left behind there remain: the sum of the updates of each producer with the knowledge
//! of its first ones and its last one, the number of clears, the board of accesses, and a row for
//! each stream. A wait for an older value takes over the next knowledge that is kept: it can hide a
//! finding, but never invents one. Where this made a difference the run says so.

use std::collections::BTreeSet;

use super::findings::Told;
use super::*;
use crate::check::hazard::Remarks;
use crate::check::log::MOST_ENTRIES;

/// The share of the window that is not settled: one in so many.
const AHEAD: usize = 8;
/// Updates of a producer whose knowledge is kept, besides the last.
const KEPT: usize = 32;
/// Findings that are kept.
const MOST_FINDINGS: usize = 1 << 16;

/// What is known after an update that was left behind.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Kept {
    /// The sum without it and with it.
    pub before: u64,
    pub sum: u64,
    pub row: Vec<u32>,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct ProducerBehind {
    pub column: Column,
    pub lane: Lane,
    pub kept: Vec<Kept>,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct ClearsBehind {
    pub column: Column,
    pub counts: [u64; 2],
    pub ends: [u32; 2],
}

/// What was done with an event or semaphore in the part that was left behind.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct UseBehind {
    pub id: SyncId,
    pub counts_up: bool,
    pub producers: Vec<ProducerBehind>,
    pub clears: Vec<ClearsBehind>,
    /// Waits for more than what was reached: column, then value and place.
    pub looks: Vec<(Column, Vec<(u64, u32)>)>,
    /// Knowledge of changes that belong to no producer.
    pub others: Vec<u32>,
    pub told: Told,
}

/// What the window has left behind.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Behind {
    /// Entries up to this one of the run are settled; those still in the log count as known.
    pub(super) order: u64,
    pub(super) streams: Vec<usize>,
    pub(super) rows: Vec<Vec<u32>>,
    pub(super) places: Vec<Vec<u32>>,
    pub(super) uses: Vec<UseBehind>,
    /// Of each stream, its works that were left behind.
    works: Vec<u32>,
    pub(super) board: Board,
    pub(super) findings: Vec<Finding>,
    pub(super) hazards: Vec<Hazard>,
    pub(super) unproven: BTreeSet<Unproven>,
    pub(crate) remarks: Remarks,
    /// Whether waits were taken to know more than is sure, and whether the window was too small.
    inexact: bool,
    cut: bool,
}

impl UseBehind {
    fn total(&self) -> u64 {
        self.producers.iter().map(|p| p.kept.last().map_or(0, |k| k.sum)).sum()
    }

    /// The clears of `column`, of which one at `place` comes.
    fn clears_of(&mut self, column: Column, place: u32) -> &mut ClearsBehind {
        let at = self.clears.iter().position(|c| c.column == column).unwrap_or_else(|| {
            self.clears.push(ClearsBehind { column, counts: [0; 2], ends: [place; 2] });
            self.clears.len() - 1
        });
        let clears = &mut self.clears[at];
        clears.ends[1] = clears.ends[1].max(place);
        clears
    }
}

impl Behind {
    pub(crate) fn works_of(&self, stream: usize) -> u32 {
        self.works.get(stream).copied().unwrap_or(0)
    }

    /// Whether numbers that index something stay in their ranges, in a run of `total` streams.
    pub(crate) fn fits(&self, total: usize) -> bool {
        let n = self.streams.len();
        let row = |row: &[u32]| row.len() == 3 * n;
        let place = |(stream, _): &(usize, u32)| *stream < total;
        let sides = |f: &Finding| match f {
            Finding::Race(c) => c.earlier.0.stream < total && c.later.0.stream < total,
            Finding::Sequencer(h) => h.places().len() == 2 && h.places().iter().all(place),
        };
        let unproven = |u: &Unproven| match u {
            Unproven::InverseWait(_, stream, _) => *stream < total,
            Unproven::NotMonotone(_) | Unproven::Polled => true,
        };
        self.streams.is_sorted_by(|a, b| a < b)
            && self.streams.last().is_none_or(|s| *s < total)
            && self.rows.len() == n
            && self.places.len() == n
            && self
                .rows
                .iter()
                .zip(&self.places)
                .all(|(rows, places)| !places.is_empty() && rows.len() == 3 * n * places.len())
            && self.uses.iter().all(|u| {
                u.producers.iter().all(|p| p.column < n && p.kept.iter().all(|k| row(&k.row)))
                    && u.clears.iter().all(|c| c.column < n)
                    && u.looks.iter().all(|l| l.0 < n)
                    && (u.others.is_empty() || row(&u.others))
                    && u.told.fits(total)
            })
            && self.works.len() <= total
            && self.board.streams() <= 2 * n
            && self.findings.iter().all(sides)
            && self.hazards.iter().all(|h| h.places().iter().all(place))
            && self.unproven.iter().all(unproven)
            && self.remarks.fits(total)
    }

    pub(super) fn settled_of(&self, log: &Log) -> usize {
        log.acquires.partition_point(|a| a.order <= self.order)
    }

    /// The same with a column for each of `streams`, among which are all of its own.
    pub(super) fn in_columns(&self, streams: &[usize]) -> Cow<'_, Behind> {
        if self.streams == streams {
            return Cow::Borrowed(self);
        }
        let (old, new) = (self.streams.len(), streams.len());
        let to: Vec<usize> =
            self.streams.iter().map(|s| streams.partition_point(|t| t < s)).collect();
        let row = |row: &[u32]| {
            let mut out = vec![0; 3 * new];
            for (column, &at) in to.iter().enumerate() {
                out[at] = row[column];
                out[new + 2 * at] = row[old + 2 * column];
                out[new + 2 * at + 1] = row[old + 2 * column + 1];
            }
            out
        };
        let mut behind = self.clone();
        behind.streams = streams.to_vec();
        behind.rows = vec![vec![0; 3 * new]; new];
        behind.places = vec![vec![0]; new];
        for (column, &at) in to.iter().enumerate() {
            behind.rows[at] = self.rows[column].chunks(3 * old).flat_map(row).collect();
            behind.places[at].clone_from(&self.places[column]);
        }
        for uses in &mut behind.uses {
            for producer in &mut uses.producers {
                producer.column = to[producer.column];
                producer.kept.iter_mut().for_each(|k| k.row = row(&k.row));
            }
            uses.clears.iter_mut().for_each(|c| c.column = to[c.column]);
            uses.looks.iter_mut().for_each(|l| l.0 = to[l.0]);
            if !uses.others.is_empty() {
                uses.others = row(&uses.others);
            }
        }
        behind.board.renumber(|s| to[s % old] + if s < old { 0 } else { new });
        Cow::Owned(behind)
    }

    /// What the run has to say about the limits of the analysis.
    pub(crate) fn limits(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.cut {
            out.push(
                "some streams run ahead of each other for longer than the analysis of all \
                 schedules looks: what they do to each other there was checked as if the program \
                 ended"
                    .to_string(),
            );
        }
        if self.inexact {
            out.push(
                "some waits look for what happened long before: the analysis of all schedules \
                 takes them to know what was known a little later"
                    .to_string(),
            );
        }
        out
    }
}

/// Settles the older part of `log` and leaves its beginning behind. `control` says whether a word
/// is executed by the sequencer, `ended` which streams are at their end.
pub(crate) fn advance(log: &mut Log, control: impl Fn(usize, u32) -> bool, ended: Vec<bool>) {
    let ahead = (log.window / AHEAD) as u64;
    let guarantees = Guarantees::of(log, ended);
    let settle = log.order - ahead.min(log.order);
    let retire = settle - (ahead / 2).min(settle);
    let (hazards, told) = guarantees.hazards_until(settle);
    let open = guarantees.open.get() <= settle;
    if open && log.window < MOST_ENTRIES {
        log.window *= 2;
        return;
    }
    let mut behind = guarantees.leave(retire, told);
    behind.order = settle;
    behind.cut |= open;
    behind.hazards.extend(hazards);
    behind.hazards.truncate(MOST_FINDINGS);
    let found = guarantees.races_until(settle, &mut behind.board, control);
    let key = |f: &Finding| match f {
        Finding::Race(c) => {
            let (a, b) = (&c.earlier.0, &c.later.0);
            [(a.stream, a.pc), (b.stream, b.pc)]
        }
        Finding::Sequencer(h) => [h.places()[0], h.places()[1]],
    };
    let mut pairs: BTreeSet<_> = behind.findings.iter().map(key).collect();
    let new = found.into_iter().filter(|f| pairs.insert(key(f)));
    behind.findings.extend(new);
    behind.findings.truncate(MOST_FINDINGS);
    drop(guarantees);
    let acquires = log.acquires.partition_point(|a| a.order <= retire);
    let changes = log.changes.partition_point(|c| c.order <= retire);
    let works = log.works.partition_point(|w| w.order <= retire);
    behind.remarks.take_in(&log.acquires[..acquires], &log.changes[..changes]);
    behind.works.resize(log.places.len(), 0);
    let before = behind.works.clone();
    for w in &log.works[..works] {
        behind.works[w.stream] = w.work;
    }
    for (places, (now, before)) in log.places.iter_mut().zip(behind.works.iter().zip(before)) {
        places.drain(..(now.saturating_sub(before) as usize).min(places.len()));
    }
    log.acquires.drain(..acquires);
    log.changes.drain(..changes);
    log.works.drain(..works);
    log.rung = Vec::new();
    log.behind = Some(Box::new(behind));
}

impl Guarantees<'_> {
    /// What remains of the entries up to `retire`.
    fn leave(&self, retire: u64, mut told: BTreeMap<SyncId, Told>) -> Behind {
        let old = self.behind.as_deref();
        let settle = self.log.order - ((self.log.window / AHEAD) as u64).min(self.log.order);
        let width = self.width();
        let mut behind = Behind {
            order: 0,
            streams: self.streams.clone(),
            rows: Vec::new(),
            places: Vec::new(),
            uses: Vec::new(),
            works: old.map_or(Vec::new(), |b| b.works.clone()),
            board: old.map_or_else(Board::new, |b| b.board.clone()),
            findings: old.map_or(Vec::new(), |b| b.findings.clone()),
            hazards: old.map_or(Vec::new(), |b| b.hazards.clone()),
            unproven: self.unproven.iter().cloned().collect(),
            remarks: old.map_or_else(Remarks::default, |b| b.remarks.clone()),
            inexact: old.is_some_and(|b| b.inexact) || self.inexact.get(),
            cut: old.is_some_and(|b| b.cut),
        };
        // rows of the last wait that is left behind, and of the settled ones
        let mut ends = vec![[0; 2]; self.streams.len()];
        for (a, (row, _)) in self.log.acquires.iter().zip(&self.acquires) {
            if a.order > settle {
                break;
            }
            let ends = &mut ends[self.column(a.stream)];
            ends[1] = *row as usize;
            if a.order <= retire {
                ends[0] = *row as usize;
            }
        }
        for (column, [first, last]) in ends.into_iter().enumerate() {
            let rows = &self.rows[column];
            behind.rows.push(rows[first * width..(last + 1) * width].to_vec());
            behind.places.push(self.places[column][first..=last].to_vec());
        }
        for uses in &self.uses {
            let before = old.and_then(|b| b.uses.iter().find(|u| u.id == uses.id));
            let mut left = before.cloned().unwrap_or_else(|| UseBehind {
                id: uses.id,
                counts_up: uses.counts_up,
                producers: Vec::new(),
                clears: Vec::new(),
                looks: Vec::new(),
                others: Vec::new(),
                told: Told::default(),
            });
            left.counts_up = uses.counts_up;
            let set = left.told.set;
            left.told = told.remove(&uses.id).unwrap_or_default();
            left.told.set = set;
            for i in uses.changes.iter().map(|i| *i as usize) {
                let change = &self.log.changes[i];
                if change.order > retire {
                    break;
                }
                self.leave_change(&mut left, i);
            }
            behind.uses.push(left);
        }
        for (a, (_, number)) in self.log.acquires.iter().zip(&self.acquires) {
            if a.order > retire {
                break;
            }
            let Some(left) = behind.uses.get_mut(*number as usize) else { continue };
            let column = self.column(a.stream);
            if matches!(a.got, Got::Event { set: true, consumed: true, .. }) {
                left.clears_of(column, a.place).counts[1] += 1;
            }
            if let Some(value) = reaches(&a.got).filter(|v| *v > left.total()) {
                match left.looks.iter_mut().find(|l| l.0 == column) {
                    Some((_, looks)) => looks.push((value, a.place)),
                    None => left.looks.push((column, vec![(value, a.place)])),
                }
            }
        }
        for left in &mut behind.uses {
            let total = left.total();
            left.looks.iter_mut().for_each(|l| l.1.retain(|(value, _)| *value > total));
            left.looks.retain(|l| !l.1.is_empty());
        }
        behind
    }

    /// Takes change `i` of the log into what is left behind.
    fn leave_change(&self, left: &mut UseBehind, i: usize) {
        let change = &self.log.changes[i];
        let column = self.column(change.stream);
        let amount = match change.effect {
            Effect::Add(n) if !change.wrapped => n,
            Effect::Set => {
                left.told.set = Some((change.stream, change.pc));
                1
            }
            effect => {
                if effect == Effect::Clear && !change.idle {
                    left.clears_of(column, change.place).counts[0] += 1;
                }
                left.others.resize(self.width(), 0);
                self.learn(&mut left.others, i);
                return;
            }
        };
        let lane = change.lane;
        let is = |p: &ProducerBehind| p.column == column && p.lane == lane;
        let at = left.producers.iter().position(is).unwrap_or_else(|| {
            left.producers.push(ProducerBehind { column, lane, kept: Vec::new() });
            left.producers.len() - 1
        });
        let kept = &mut left.producers[at].kept;
        let before = kept.last().map_or(0, |k| k.sum);
        if kept.len() <= KEPT {
            kept.push(Kept { before, sum: 0, row: vec![0; self.width()] });
        }
        let Some(last) = kept.last_mut() else { return };
        // knowledge of one producer only grows
        (last.before, last.sum) = (before, before + u64::from(amount));
        self.learn(&mut last.row, i);
    }
}

//! The order that every schedule guarantees, computed from one run.
//!
//! A semaphore that only counts up has several in-order producers `j`. A wait `>= n` is granted in
//! every schedule only after producer `j` made its first updates worth `n - sum of what the others
//! can have made when the value first reaches n`. An update that is itself ordered behind some wait
//! for `n` or more cannot have been made by then; this is what makes a barrier on one counter work
//! round after round. That order is what is being computed, so the computation repeats until
//! nothing grows. `== n` guarantees what `>= n` does, `> n` what
//! `>= n + 1` does. A wait for a set event is a wait for one set more than clears are known to
//! come before it.
//!
//! Semaphores that are written or counted down, and waits for a small value or a clear event, keep
//! the order of this run: for those the analysis can miss what another schedule would show.
//! Totals are those of this run, so a branch that another run takes is not seen.
//!
//! The cost is proportional to the length of the log: what a stream knows is a row of numbers for
//! each of its waits, which row an update tells is found once, and every search starts where the
//! last one of its kind ended. Streams that did nothing have no columns.

use std::cell::Cell;
use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::board::{Board, Conflict, Stamp};
use super::clock::Clock;
use super::log::{Acquire, Effect, Got, Lane, Log};
use crate::sync::{Compare, SyncId};

/// Passes after which the computation stops; what is known then is still guaranteed.
const MOST_PASSES: usize = 64;

/// A number in rows: streams with entries in the log, in order.
type Column = usize;

/// What a stream knows, `3 n` numbers for `n` columns: the places below which each sequencer has
/// let go, then for each the works known to have read and to be complete.
type Row = [u32];

fn join(row: &mut Row, other: &Row) {
    for (mine, theirs) in row.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

fn raise(row: &mut Row, at: usize, to: u32) {
    row[at] = row[at].max(to);
}

/// The first of `0..len` for which `holds` is false, where it is true up to some number and false
/// from there on. Searches outwards from `near` and leaves the answer there.
fn boundary(near: &Cell<u32>, len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let from = (near.get() as usize).min(len);
    let (mut low, mut high) = (0, len);
    let mut step = 1;
    if from < len && holds(from) {
        low = from + 1;
        while low + step <= len {
            if !holds(low + step - 1) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = from;
        while high >= step {
            if holds(high - step) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    near.set(low as u32);
    low
}

/// In-order updates of one event or semaphore.
#[derive(Default)]
struct Producer {
    /// Index in the log, and the sum so far.
    changes: Vec<(u32, u64)>,
    /// Where the searches for what is possible, and for what is needed, ended.
    near: [Cell<u32>; 2],
}

/// Clears of one event by one stream, those of waits apart: their places, in order.
#[derive(Default)]
struct Clears {
    places: [Vec<u32>; 2],
    near: [Cell<u32>; 2],
}

impl Clears {
    /// How many clears have a place below `updates`, and waits that clear below `waits`.
    fn below(&self, updates: u32, waits: u32) -> u64 {
        [updates, waits]
            .iter()
            .enumerate()
            .map(|(k, limit)| {
                let places = &self.places[k];
                boundary(&self.near[k], places.len(), |i| places[i] < *limit) as u64
            })
            .sum()
    }
}

#[derive(Default)]
struct Looks {
    /// Value and place of waits that look for a larger value than all before.
    first: Vec<(u64, u32)>,
    near: Cell<u32>,
}

#[derive(Default)]
struct Uses {
    producers: BTreeMap<(Column, Lane), Producer>,
    clears: BTreeMap<Column, Clears>,
    /// Only additions that do not wrap, or only sets and clears.
    counts_up: bool,
    looks: BTreeMap<Column, Looks>,
    /// All its changes: indices in the log.
    changes: Vec<u32>,
}

/// Something wrong with events or semaphores, apart from races.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Two streams.
    Race(Box<Conflict>),
    /// The sequencer and the data path of one engine.
    Sequencer(Hazard),
}

/// Why the result of a program may depend on the schedule though nothing is wrong in this run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unproven {
    /// A semaphore is written or counted down, or wraps.
    NotMonotone(SyncId),
    /// A wait for a small value or for a clear event.
    InverseWait(SyncId, usize, u32),
    /// An instruction polled an event or semaphore.
    Polled,
}

/// What a stream is sure of at some place, in every schedule.
pub struct Known {
    /// Works that have read and that are complete.
    pub clock: Clock,
    /// Per stream: places below this one have been let go by its sequencer.
    pub passed: Vec<u32>,
}

/// The analysis of one run.
pub struct Guarantees<'a> {
    log: &'a Log,
    /// Columns of streams, and streams of columns.
    columns: Vec<Option<Column>>,
    streams: Vec<usize>,
    /// Events and semaphores in order, and what was done with each.
    uses: Vec<(SyncId, Uses)>,
    /// Per column, the place from which each row holds. The first row holds from the start.
    places: Vec<Vec<u32>>,
    /// Of each acquire, the row it makes, and the event or semaphore in `uses`.
    acquires: Vec<(u32, u32)>,
    /// Of each change, the row from which it tells and the works of its stream until then.
    changes: Vec<(u32, u32)>,
    /// Per column, all rows: of this pass and of the one before.
    rows: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    unproven: Vec<Unproven>,
}

/// In [`Guarantees::acquires`]: not an event or semaphore with changes.
const NO_USE: u32 = u32::MAX;

/// Per event or semaphore: how many of its changes are joined, and their knowledge.
type Seen = BTreeMap<u32, (usize, Vec<u32>)>;

/// The value that a semaphore has reached when `got` was granted, if it counts up.
fn reaches(got: &Got) -> Option<u64> {
    match *got {
        Got::Semaphore(_, Compare::Ge | Compare::Eq, n) => Some(n.into()),
        Got::Semaphore(_, Compare::Gt, n) => Some(u64::from(n) + 1),
        _ => None,
    }
}

fn id_of(got: &Got) -> Option<SyncId> {
    match *got {
        Got::Semaphore(i, ..) => Some(SyncId::Semaphore(i)),
        Got::Event { event, .. } => Some(SyncId::Event(event)),
        Got::Job(..) | Got::Own(_) => None,
    }
}

impl<'a> Guarantees<'a> {
    /// Computes the guaranteed order behind `log`.
    pub fn new(log: &'a Log) -> Self {
        let (columns, streams) = active(log);
        let n = streams.len();
        let mut this = Guarantees {
            log,
            columns,
            streams,
            uses: Vec::new(),
            places: vec![vec![0]; n],
            acquires: Vec::with_capacity(log.acquires.len()),
            changes: Vec::with_capacity(log.changes.len()),
            rows: vec![Vec::new(); n],
            before: vec![Vec::new(); n],
            unproven: Vec::new(),
        };
        this.collect();
        for _ in 0..MOST_PASSES {
            this.pass();
            if this.rows == this.before {
                break;
            }
        }
        this
    }

    fn column(&self, stream: usize) -> Column {
        // streams without a column have no entries, and nobody asks for them
        self.columns.get(stream).copied().flatten().unwrap_or(0)
    }

    fn width(&self) -> usize {
        3 * self.streams.len()
    }

    fn collect(&mut self) {
        let mut uses: BTreeMap<SyncId, Uses> = BTreeMap::new();
        self.collect_changes(&mut uses);
        self.collect_acquires(&mut uses);
        let uneven = uses.iter().filter(|(_, u)| !u.counts_up);
        self.unproven.extend(uneven.map(|(id, _)| Unproven::NotMonotone(*id)));
        if self.log.polled {
            self.unproven.push(Unproven::Polled);
        }
        self.unproven.sort();
        self.unproven.dedup();
        for clears in uses.values_mut().flat_map(|u| u.clears.values_mut()) {
            clears.places.iter_mut().for_each(|p| p.sort_unstable());
        }
        self.uses = uses.into_iter().collect();
        let numbers: rustc_hash::FxHashMap<SyncId, u32> =
            self.uses.iter().enumerate().map(|(k, (id, _))| (*id, k as u32)).collect();
        for a in &self.log.acquires {
            let places = &mut self.places[self.columns[a.stream].unwrap_or(0)];
            if places.last() != Some(&a.place) {
                places.push(a.place);
            }
            let number = id_of(&a.got).and_then(|id| numbers.get(&id).copied());
            self.acquires.push(((places.len() - 1) as u32, number.unwrap_or(NO_USE)));
        }
        let near = vec![[const { Cell::new(0) }; 2]; self.streams.len()];
        for change in &self.log.changes {
            let column = self.column(change.stream);
            let (places, works) = (&self.places[column], &self.log.places[change.stream]);
            let [near_row, near_work] = &near[column];
            let row = boundary(near_row, places.len(), |i| places[i] <= change.place);
            let works = boundary(near_work, works.len(), |i| works[i] <= change.place);
            self.changes.push((row.saturating_sub(1) as u32, works as u32));
        }
    }

    fn collect_changes(&self, all: &mut BTreeMap<SyncId, Uses>) {
        let new = || Uses { counts_up: true, ..Uses::default() };
        for (i, change) in self.log.changes.iter().enumerate() {
            let uses = all.entry(change.id).or_insert_with(new);
            uses.changes.push(i as u32);
            let column = self.column(change.stream);
            let amount = match change.effect {
                Effect::Add(n) if !change.wrapped => n,
                Effect::Set => 1,
                Effect::Clear => {
                    uses.clears.entry(column).or_default().places[0].push(change.place);
                    continue;
                }
                _ => {
                    uses.counts_up = false;
                    continue;
                }
            };
            let producer = uses.producers.entry((column, change.lane)).or_default();
            let sum = producer.changes.last().map_or(0, |c| c.1) + u64::from(amount);
            producer.changes.push((i as u32, sum));
        }
    }

    fn collect_acquires(&mut self, all: &mut BTreeMap<SyncId, Uses>) {
        for a in &self.log.acquires {
            let column = self.column(a.stream);
            if let Got::Event { event, set, consumed: true } = a.got {
                let uses = all.entry(SyncId::Event(event)).or_default();
                if set {
                    uses.clears.entry(column).or_default().places[1].push(a.place);
                } else {
                    uses.counts_up = false;
                }
            }
            let uses = id_of(&a.got).and_then(|id| all.get_mut(&id));
            if let (Some(value), Some(uses)) = (reaches(&a.got), uses) {
                let looks = uses.looks.entry(column).or_default();
                if looks.first.last().is_none_or(|l| l.0 < value) {
                    looks.first.push((value, a.place));
                }
            }
            match a.got {
                Got::Semaphore(i, Compare::Lt | Compare::Le, _) => {
                    self.unproven.push(Unproven::InverseWait(SyncId::Semaphore(i), a.stream, a.pc))
                }
                Got::Event { event, set: false, .. } => {
                    self.unproven.push(Unproven::InverseWait(SyncId::Event(event), a.stream, a.pc))
                }
                _ => {}
            }
        }
    }

    fn pass(&mut self) {
        std::mem::swap(&mut self.rows, &mut self.before);
        let width = self.width();
        for rows in &mut self.rows {
            rows.clear();
            rows.resize(width, 0);
        }
        let mut seen = Seen::new();
        let mut new = vec![0; width];
        for (i, a) in self.log.acquires.iter().enumerate() {
            let (row, _) = self.acquires[i];
            let column = self.column(a.stream);
            let last = self.rows[column].len() - width;
            new.copy_from_slice(&self.rows[column][last..]);
            self.take_over(&mut seen, &mut new, a, self.acquires[i]);
            let rows = &mut self.rows[column];
            if row as usize == last / width.max(1) {
                rows[last..].copy_from_slice(&new);
            } else {
                rows.extend_from_slice(&new);
            }
        }
    }

    /// Row `row` of `column`, or the last one if there are not so many yet.
    fn row(rows: &[Vec<u32>], width: usize, column: Column, row: u32) -> &Row {
        let rows = &rows[column];
        let at = (row as usize * width).min(rows.len() - width);
        &rows[at..at + width]
    }

    /// What the stream of `change` knew in the pass before, if there was one.
    fn knew(&self, change: usize) -> Option<&Row> {
        let column = self.column(self.log.changes[change].stream);
        let (row, _) = self.changes[change];
        (!self.before[column].is_empty())
            .then(|| Self::row(&self.before, self.width(), column, row))
    }

    /// Joins into `new` what the update `change` tells.
    fn learn(&self, new: &mut Row, change: usize) {
        let (row, works) = self.changes[change];
        let n = self.streams.len();
        let change = &self.log.changes[change];
        let column = self.column(change.stream);
        join(new, Self::row(&self.rows, self.width(), column, row));
        raise(new, column, change.place + 1);
        if matches!(change.lane, Lane::Reads | Lane::Results) {
            raise(new, n + 2 * column, works);
        }
        if change.lane == Lane::Results {
            raise(new, n + 2 * column + 1, works);
        }
    }

    fn take_over(&self, seen: &mut Seen, new: &mut Row, a: &Acquire, (row, number): (u32, u32)) {
        match a.got {
            Got::Own(works) => {
                let at = self.streams.len() + 2 * self.column(a.stream);
                raise(new, at, works);
                raise(new, at + 1, works);
            }
            Got::Job(stream, place) => {
                let column = self.column(stream);
                let row = self.places[column].partition_point(|p| *p <= place).saturating_sub(1);
                join(new, Self::row(&self.rows, self.width(), column, row as u32));
                raise(new, column, place + 1);
            }
            Got::Semaphore(..) => match reaches(&a.got) {
                Some(needed) => self.count(seen, new, a, number, needed),
                None => self.observe(seen, new, a, number),
            },
            Got::Event { set: true, .. } => {
                let needed = 1 + self.clears_before(new, a, row, number);
                self.count(seen, new, a, number, needed);
            }
            Got::Event { .. } => self.observe(seen, new, a, number),
        }
    }

    /// Clears of the event that are known to come before the wait `a`.
    fn clears_before(&self, new: &Row, a: &Acquire, row: u32, number: u32) -> u64 {
        let Some((_, uses)) = self.uses.get(number as usize) else { return 0 };
        let own = self.column(a.stream);
        let older =
            (!self.before[own].is_empty()).then(|| Self::row(&self.before, self.width(), own, row));
        let mut count = 0;
        for (&column, clears) in &uses.clears {
            let limit = if column == own {
                a.place
            } else {
                new[column].max(older.map_or(0, |o| o[column]))
            };
            count += clears.below(limit, limit);
        }
        count
    }

    /// How many of the updates of `producer` can come before the wait of `column` at `place`.
    fn possible(&self, producer: &Producer, column: Column, place: u32) -> usize {
        boundary(&producer.near[0], producer.changes.len(), |k| {
            let i = producer.changes[k].0 as usize;
            let change = &self.log.changes[i];
            if self.column(change.stream) == column {
                return change.place < place;
            }
            self.knew(i).is_none_or(|row| row[column] <= place)
        })
    }

    /// How many of the updates of `producer` can be made when the value first reaches what
    /// `firsts` look for: column and place.
    fn possible_at(&self, firsts: &[(Column, u32)], producer: &Producer) -> usize {
        boundary(&producer.near[0], producer.changes.len(), |k| {
            let i = producer.changes[k].0 as usize;
            let change = &self.log.changes[i];
            let own = self.column(change.stream);
            let row = self.knew(i);
            firsts.iter().all(|&(column, place)| {
                if own == column {
                    return change.place < place;
                }
                row.is_none_or(|row| row[column] <= place)
            })
        })
    }

    fn count(&self, seen: &mut Seen, new: &mut Row, a: &Acquire, number: u32, needed: u64) {
        let Some((id, uses)) = self.uses.get(number as usize) else { return };
        if !uses.counts_up {
            return self.observe(seen, new, a, number);
        }
        let firsts: SmallVec<[(Column, u32); 8]> = match id {
            SyncId::Event(_) => SmallVec::new(),
            SyncId::Semaphore(_) => {
                let first = |(column, l): (&Column, &Looks)| {
                    let at = boundary(&l.near, l.first.len(), |k| l.first[k].0 < needed);
                    Some((*column, l.first.get(at)?.1))
                };
                uses.looks.iter().filter_map(first).collect()
            }
        };
        let column = self.column(a.stream);
        // who alone makes the updates has made as many as are needed
        let alone = uses.producers.len() == 1;
        let sums: SmallVec<[u64; 8]> = uses
            .producers
            .values()
            .map(|p| {
                if alone {
                    return 0;
                }
                let n = match id {
                    SyncId::Event(_) => self.possible(p, column, a.place),
                    SyncId::Semaphore(_) => self.possible_at(&firsts, p),
                };
                n.checked_sub(1).map_or(0, |i| p.changes[i].1)
            })
            .collect();
        let total: u64 = sums.iter().sum();
        for (producer, own) in uses.producers.values().zip(&sums) {
            let mine = needed.saturating_sub(total - own);
            if mine == 0 {
                continue;
            }
            let changes = &producer.changes;
            let at = boundary(&producer.near[1], changes.len(), |k| changes[k].1 < mine);
            // less than needed is possible only if this run broke off
            if let Some((i, _)) = changes.get(at) {
                self.learn(new, *i as usize);
            }
        }
    }

    /// Takes over all updates that came before in this run.
    fn observe(&self, seen: &mut Seen, new: &mut Row, a: &Acquire, number: u32) {
        let Some((_, uses)) = self.uses.get(number as usize) else { return };
        let (next, joined) = seen.entry(number).or_insert_with(|| (0, vec![0; self.width()]));
        while let Some(i) = uses.changes.get(*next) {
            if self.log.changes[*i as usize].order >= a.order {
                break;
            }
            self.learn(joined, *i as usize);
            *next += 1;
        }
        join(new, joined);
    }

    /// Conflicting accesses that not every schedule orders, in order of the later one's start.
    ///
    /// `control` says whether a word is executed by the sequencer. Its accesses are done when the
    /// instruction is, in program order, but do not wait for the data path of the same stream. They
    /// enter as a stream of their own; what comes out of it is named [`Finding::Sequencer`] if both
    /// sides belong to one engine.
    pub fn races(&self, control: impl Fn(usize, u32) -> bool) -> Vec<Finding> {
        let mut board = Board::new();
        let mut found = Vec::new();
        let n = self.streams.len();
        let near = vec![Cell::new(0); n];
        for w in &self.log.works {
            let Some(place) = self.log.places[w.stream].get(w.work as usize - 1) else { continue };
            let column = self.column(w.stream);
            let places = &self.places[column];
            let row = boundary(&near[column], places.len(), |i| places[i] <= *place);
            let row = Self::row(&self.rows, self.width(), column, row.saturating_sub(1) as u32);
            let mut clock = Clock::new(2 * n);
            for s in 0..n {
                clock.learn_results(s, row[n + 2 * s + 1]);
                clock.learn_reads(s, row[n + 2 * s]);
                clock.learn_results(n + s, row[s]);
            }
            clock.learn_results(n + column, *place);
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

    /// Streams of the log.
    pub fn streams(&self) -> usize {
        self.columns.len()
    }

    /// What `stream` is sure of at `place`, before its own instruction there is done.
    pub fn known(&self, stream: usize, place: u32) -> Known {
        let (n, all) = (self.streams.len(), self.streams());
        let (mut clock, mut passed) = (Clock::new(all), vec![0; all]);
        if let Some(column) = self.columns.get(stream).copied().flatten() {
            let row = self.places[column].partition_point(|p| *p <= place).saturating_sub(1);
            let row = Self::row(&self.rows, self.width(), column, row as u32);
            for (column, &s) in self.streams.iter().enumerate() {
                clock.learn_results(s, row[n + 2 * column + 1]);
                clock.learn_reads(s, row[n + 2 * column]);
                passed[s] = row[column];
            }
        }
        Known { clock, passed }
    }

    /// Hazards of events and semaphores in the order of the run.
    pub fn hazards(&self) -> Vec<Hazard> {
        let mut found = Vec::new();
        for change in self.log.changes.iter().filter(|c| c.wrapped) {
            found.push(Hazard::Wrap { id: change.id, by: (change.stream, change.pc) });
        }
        // waits that consume an event, and waits for an exact value
        let mut special: BTreeMap<u32, Vec<&Acquire>> = BTreeMap::new();
        for (a, (_, number)) in self.log.acquires.iter().zip(&self.acquires) {
            if matches!(
                a.got,
                Got::Event { consumed: true, .. } | Got::Semaphore(_, Compare::Eq, _)
            ) {
                special.entry(*number).or_default().push(a);
            }
        }
        for (number, (id, uses)) in self.uses.iter().enumerate() {
            let waits = special.get(&(number as u32)).map_or(&[][..], |w| w);
            match id {
                SyncId::Event(_) => {
                    self.lost_signals(*id, uses, &mut found);
                    self.two_consumers(*id, waits, &mut found);
                }
                SyncId::Semaphore(_) if uses.counts_up => {
                    self.overshoots(*id, uses, waits, &mut found);
                }
                SyncId::Semaphore(_) => {}
            }
        }
        found
    }

    fn overshoots(&self, id: SyncId, uses: &Uses, waits: &[&Acquire], found: &mut Vec<Hazard>) {
        for a in waits {
            let Got::Semaphore(_, _, operand) = a.got else { continue };
            let possible: u64 = uses
                .producers
                .values()
                .filter_map(|p| {
                    let n = self.possible(p, self.column(a.stream), a.place);
                    n.checked_sub(1).map(|i| p.changes[i].1)
                })
                .sum();
            if possible > u64::from(operand) {
                found.push(Hazard::Overshoot { id, wait: (a.stream, a.pc), operand, possible });
            }
        }
    }

    /// The first set of an event before which not every earlier signal is consumed.
    fn lost_signals(&self, id: SyncId, uses: &Uses, found: &mut Vec<Hazard>) {
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
            let own = self.column(set.stream);
            knowledge.fill(0);
            self.learn(&mut knowledge, i);
            let cleared: u64 = uses
                .clears
                .iter()
                .map(|(column, clears)| {
                    if *column == own {
                        clears.below(set.place, set.place.saturating_add(1))
                    } else {
                        clears.below(knowledge[*column], knowledge[*column])
                    }
                })
                .sum();
            // the sets that may come before this one, itself included
            let before: usize = by_column
                .iter()
                .map(|(column, list)| {
                    boundary(&near[*column], list.len(), |k| !self.comes_after(list[k], i))
                })
                .sum();
            if before as u64 > cleared + 1 {
                let last = sets.iter().rev().find(|o| **o != i && !self.comes_after(**o, i));
                let Some(earlier) = last.map(|o| &self.log.changes[*o]) else { continue };
                found.push(Hazard::LostSignal {
                    id,
                    setter: (set.stream, set.pc),
                    earlier: (earlier.stream, earlier.pc),
                });
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

    fn two_consumers(&self, id: SyncId, waits: &[&Acquire], found: &mut Vec<Hazard>) {
        for pair in waits.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if a.stream == b.stream {
                continue;
            }
            let column = self.column(b.stream);
            let row = self.places[column].partition_point(|p| *p <= b.place).saturating_sub(1);
            let row = Self::row(&self.rows, self.width(), column, row as u32);
            if row[self.column(a.stream)] <= a.place {
                let waits = [(a.stream, a.pc), (b.stream, b.pc)];
                found.push(Hazard::TwoConsumers { id, waits });
                break;
            }
        }
    }

    /// What keeps the order from being the same in every schedule, as far as the kinds of waits
    /// and updates decide it.
    pub fn unproven(&self) -> &[Unproven] {
        &self.unproven
    }
}

/// Columns of the streams that have entries in `log`, and the streams of the columns.
fn active(log: &Log) -> (Vec<Option<Column>>, Vec<usize>) {
    let mut used: Vec<bool> = log.places.iter().map(|p| !p.is_empty()).collect();
    for a in &log.acquires {
        used[a.stream] = true;
        if let Got::Job(stream, _) = a.got {
            used[stream] = true;
        }
    }
    log.changes.iter().for_each(|c| used[c.stream] = true);
    log.works.iter().for_each(|w| used[w.stream] = true);
    let streams: Vec<usize> = (0..used.len()).filter(|s| used[*s]).collect();
    let mut columns = vec![None; used.len()];
    streams.iter().enumerate().for_each(|(column, s)| columns[*s] = Some(column));
    (columns, streams)
}

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
//!
//! Of a long run the log holds a window, and the analysis goes on from what the window has left
//! behind: see [`window`].

mod findings;
mod uses;
pub(crate) mod window;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::board::{Board, Conflict, Stamp};
use super::clock::Clock;
use super::log::{Acquire, Effect, Got, Lane, Log};
use crate::sync::{Compare, SyncId};
pub use findings::{Finding, Hazard};
use uses::{Numbers, Producer, Uses};
pub(crate) use window::Behind;

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

/// Why the result of a program may depend on the schedule though nothing is wrong in this run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
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
    /// What the window has left behind, in the columns of this analysis.
    behind: Option<Cow<'a, Behind>>,
    /// Acquires whose rows are known from before.
    settled: usize,
    /// Columns of streams, and streams of columns.
    columns: Vec<Option<Column>>,
    streams: Vec<usize>,
    /// What was done with each event and semaphore.
    uses: Vec<Uses>,
    /// Per column, the place from which each row holds. The first row holds from the start.
    places: Vec<Vec<u32>>,
    /// Of each acquire, the row it makes, and the event or semaphore in `uses`.
    acquires: Vec<(u32, u32)>,
    /// Of each change, the row from which it tells and the works of its stream until then.
    changes: Vec<(u32, u32)>,
    /// Per column, all rows: of this pass and of the one before.
    rows: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// Whether nothing grows any more: both are the same, and the second may be absent.
    done: bool,
    unproven: Vec<Unproven>,
    /// Streams that have come to their end.
    ended: Vec<bool>,
    /// Whether another pass may find more.
    again: Cell<bool>,
    /// Place in the order of the run of the first entry whose order the log is too short to tell.
    open: Cell<u64>,
    /// Whether waits were taken to know more than is sure: what they wait for is long past.
    inexact: Cell<bool>,
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
        Self::of(log, Vec::new())
    }

    /// The same where the streams of which `ended` is true do nothing any more.
    pub(crate) fn of(log: &'a Log, ended: Vec<bool>) -> Self {
        let (columns, streams) = active(log);
        let n = streams.len();
        let behind = log.behind.as_deref().map(|b| b.in_columns(&streams));
        let settled = behind.as_ref().map_or(0, |b| b.settled_of(log));
        let (places, rows) = match &behind {
            Some(b) => (b.places.clone(), b.rows.clone()),
            None => (vec![vec![0]; n], vec![Vec::new(); n]),
        };
        let mut this = Guarantees {
            log,
            settled,
            columns,
            streams,
            uses: Vec::new(),
            places,
            acquires: Vec::with_capacity(log.acquires.len()),
            changes: Vec::with_capacity(log.changes.len()),
            before: rows.clone(),
            rows,
            done: false,
            unproven: behind.as_ref().map_or(Vec::new(), |b| b.unproven.iter().cloned().collect()),
            behind,
            ended,
            again: Cell::new(false),
            open: Cell::new(u64::MAX),
            inexact: Cell::new(false),
        };
        this.collect();
        for _ in 0..MOST_PASSES {
            this.pass();
            if !this.again.get() || this.rows == this.before {
                break;
            }
        }
        this.done = true;
        this
    }

    /// The rows of the pass before.
    fn older(&self) -> &[Vec<u32>] {
        if self.done { &self.rows } else { &self.before }
    }

    fn column(&self, stream: usize) -> Column {
        // streams without a column have no entries, and nobody asks for them
        self.columns.get(stream).copied().flatten().unwrap_or(0)
    }

    fn width(&self) -> usize {
        3 * self.streams.len()
    }

    fn collect(&mut self) {
        let mut numbers = Numbers::default();
        if let Some(behind) = &self.behind {
            self.uses = behind.uses.iter().map(Uses::behind).collect();
            self.uses.iter().enumerate().for_each(|(k, u)| numbers.set(u.id, k as u32));
        }
        self.collect_changes(&mut numbers);
        self.collect_acquires(&mut numbers);
        let uneven = self.uses.iter().filter(|u| !u.counts_up);
        self.unproven.extend(uneven.map(|u| Unproven::NotMonotone(u.id)));
        if self.log.polled {
            self.unproven.push(Unproven::Polled);
        }
        self.unproven.sort();
        self.unproven.dedup();
        for clears in self.uses.iter_mut().flat_map(|u| &mut u.clears) {
            clears.places.iter_mut().filter(|p| !p.is_sorted()).for_each(|p| p.sort_unstable());
        }
        // rows of the settled waits are there: their places are counted along, not added
        let mut known: Vec<u32> = vec![0; self.streams.len()];
        for (i, a) in self.log.acquires.iter().enumerate() {
            let column = self.columns[a.stream].unwrap_or(0);
            let places = &mut self.places[column];
            let row = if i < self.settled {
                let row = &mut known[column];
                while places.get(*row as usize + 1).is_some_and(|p| *p <= a.place) {
                    *row += 1;
                }
                *row
            } else {
                if places.last() != Some(&a.place) {
                    places.push(a.place);
                }
                (places.len() - 1) as u32
            };
            let number = id_of(&a.got).and_then(|id| numbers.get(id));
            self.acquires.push((row, number.unwrap_or(NO_USE)));
        }
        let near = vec![[const { Cell::new(0) }; 2]; self.streams.len()];
        let before: Vec<u32> =
            (0..self.columns.len()).map(|stream| self.log.works_behind(stream)).collect();
        for change in &self.log.changes {
            let column = self.column(change.stream);
            let (places, works) = (&self.places[column], &self.log.places[change.stream]);
            let [near_row, near_work] = &near[column];
            let row = boundary(near_row, places.len(), |i| places[i] <= change.place);
            let works = boundary(near_work, works.len(), |i| works[i] <= change.place);
            let works = before[change.stream] + works as u32;
            self.changes.push((row.saturating_sub(1) as u32, works));
        }
    }

    /// The use of `id`, made if it is not there.
    fn use_of(&mut self, numbers: &mut Numbers, id: SyncId, counts_up: bool) -> &mut Uses {
        let number = numbers.get(id).unwrap_or_else(|| {
            numbers.set(id, self.uses.len() as u32);
            self.uses.push(Uses::new(id, counts_up));
            self.uses.len() as u32 - 1
        });
        &mut self.uses[number as usize]
    }

    fn collect_changes(&mut self, numbers: &mut Numbers) {
        let log = self.log;
        for (i, change) in log.changes.iter().enumerate() {
            let column = self.column(change.stream);
            let uses = self.use_of(numbers, change.id, true);
            uses.changes.push(i as u32);
            let amount = match change.effect {
                Effect::Add(n) if !change.wrapped => n,
                Effect::Set => 1,
                Effect::Clear if change.idle => continue,
                Effect::Clear => {
                    uses.clears_of(column).places[0].push(change.place);
                    continue;
                }
                _ => {
                    uses.counts_up = false;
                    continue;
                }
            };
            let producer = uses.producer_of(column, change.lane);
            let sum = producer.total() + u64::from(amount);
            producer.changes.push((i as u32, sum));
        }
    }

    fn collect_acquires(&mut self, numbers: &mut Numbers) {
        let log = self.log;
        for a in &log.acquires {
            let column = self.column(a.stream);
            if let Got::Event { event, set, consumed: true } = a.got {
                let uses = self.use_of(numbers, SyncId::Event(event), false);
                if set {
                    uses.clears_of(column).places[1].push(a.place);
                } else {
                    uses.counts_up = false;
                }
            }
            let number = id_of(&a.got).and_then(|id| numbers.get(id));
            if let (Some(value), Some(number)) = (reaches(&a.got), number) {
                self.uses[number as usize].look(column, value, a.place);
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
        let kept =
            |column: Column| self.behind.as_ref().map_or(width, |behind| behind.rows[column].len());
        for (column, rows) in self.rows.iter_mut().enumerate() {
            let kept = kept(column);
            rows.truncate(kept);
            rows.resize(kept, 0);
            if self.behind.is_none() {
                rows.fill(0);
            }
        }
        self.again.set(false);
        self.open.set(u64::MAX);
        self.inexact.set(false);
        let mut seen = Seen::new();
        let mut new = vec![0; width];
        // the row of the last wait for an event: what its place learns later may tell it more
        let mut events = vec![u32::MAX; self.streams.len()];
        for (i, a) in self.log.acquires.iter().enumerate().skip(self.settled) {
            let (row, _) = self.acquires[i];
            let column = self.column(a.stream);
            let last = self.rows[column].len() - width;
            new.copy_from_slice(&self.rows[column][last..]);
            self.take_over(&mut seen, &mut new, a, self.acquires[i]);
            let rows = &mut self.rows[column];
            if row as usize == last / width.max(1) {
                if events[column] == row && rows[last..] != new[..] {
                    self.again.set(true);
                }
                rows[last..].copy_from_slice(&new);
            } else {
                rows.extend_from_slice(&new);
            }
            if matches!(a.got, Got::Event { set: true, .. }) {
                events[column] = row;
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
        let older = self.older();
        (!older[column].is_empty()).then(|| Self::row(older, self.width(), column, row))
    }

    /// Joins into `new` what the update `change` tells.
    fn learn(&self, new: &mut Row, change: usize) {
        let (row, works) = self.changes[change];
        let n = self.streams.len();
        let change = &self.log.changes[change];
        let column = self.column(change.stream);
        if (row as usize + 1) * self.width() > self.rows[column].len() {
            self.again.set(true);
        }
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
                if (row + 1) * self.width() > self.rows[column].len() {
                    self.again.set(true);
                }
                join(new, Self::row(&self.rows, self.width(), column, row as u32));
                raise(new, column, place + 1);
            }
            Got::Semaphore(..) => match reaches(&a.got) {
                Some(needed) => self.count(seen, new, a, number, needed),
                None => self.observe(seen, new, a, number),
            },
            Got::Event { set: true, .. } => {
                // what it learns can tell of more clears
                let mut needed = 1 + self.clears_before(new, a, row, number);
                loop {
                    self.count(seen, new, a, number, needed);
                    let more = 1 + self.clears_before(new, a, row, number);
                    if more <= needed {
                        break;
                    }
                    needed = more;
                }
            }
            Got::Event { .. } => self.observe(seen, new, a, number),
        }
    }

    /// Clears of the event that are known to come before the wait `a`.
    fn clears_before(&self, new: &Row, a: &Acquire, row: u32, number: u32) -> u64 {
        let Some(uses) = self.uses.get(number as usize) else { return 0 };
        let own = self.column(a.stream);
        let older =
            (!self.before[own].is_empty()).then(|| Self::row(&self.before, self.width(), own, row));
        let mut count = 0;
        for clears in &uses.clears {
            let column = clears.column;
            let limit = if column == own {
                a.place
            } else {
                new[column].max(older.map_or(0, |o| o[column]))
            };
            count += clears.below(limit, limit, &self.inexact);
        }
        count
    }

    /// How many of the updates of `producer` can come before the waits in `firsts`: column and
    /// place.
    fn possible(&self, firsts: &[(Column, u32)], producer: &Producer) -> usize {
        let column = producer.column;
        let len = producer.changes.len();
        let at = boundary(&producer.near[0], len, |k| {
            let i = producer.changes[k].0 as usize;
            let row = self.knew(i);
            firsts.iter().all(|&(waiter, place)| {
                if waiter == column {
                    return self.log.changes[i].place < place;
                }
                row.is_none_or(|row| row[waiter] <= place)
            })
        });
        self.again.set(true);
        at
    }

    /// Whether updates of `column` that the log does not hold yet come after one of the waits in
    /// `firsts`.
    fn later_come_after(&self, firsts: &[(Column, u32)], column: Column) -> bool {
        if self.ended.get(self.streams[column]).copied().unwrap_or(false) {
            return true;
        }
        let rows = &self.older()[column];
        let last = rows.len().checked_sub(self.width()).map(|at| &rows[at..]);
        firsts
            .iter()
            .any(|&(waiter, place)| waiter == column || last.is_some_and(|row| row[waiter] > place))
    }

    /// The sum of what `producer` can have made before the waits in `firsts`; where more that
    /// matters for `a` may be to come, says so.
    fn possible_sum(&self, firsts: &[(Column, u32)], producer: &Producer, a: &Acquire) -> u64 {
        let n = self.possible(firsts, producer);
        if n == producer.changes.len() && !self.later_come_after(firsts, producer.column) {
            self.open.set(self.open.get().min(a.order));
        }
        n.checked_sub(1).map_or(producer.base, |i| producer.changes[i].1)
    }

    fn count(&self, seen: &mut Seen, new: &mut Row, a: &Acquire, number: u32, needed: u64) {
        let Some(uses) = self.uses.get(number as usize) else { return };
        if !uses.counts_up {
            return self.observe(seen, new, a, number);
        }
        // who alone makes the updates has made as many as are needed
        let alone = uses.producers.len() == 1;
        if needed <= uses.base {
            for producer in &uses.producers {
                self.learn_behind(new, producer, needed.min(producer.base), alone);
            }
            return;
        }
        if alone {
            return self.learn_sum(new, &uses.producers[0], needed);
        }
        let column = self.column(a.stream);
        let firsts: SmallVec<[(Column, u32); 8]> = match uses.id {
            SyncId::Event(_) => SmallVec::from_slice(&[(column, a.place)]),
            SyncId::Semaphore(_) => uses.looks.iter().filter_map(|l| l.first_of(needed)).collect(),
        };
        let sums: SmallVec<[u64; 8]> =
            uses.producers.iter().map(|p| self.possible_sum(&firsts, p, a)).collect();
        let total: u64 = sums.iter().sum();
        for (producer, own) in uses.producers.iter().zip(&sums) {
            let mine = needed.saturating_sub(total - own);
            if mine > 0 {
                self.learn_sum(new, producer, mine);
            }
        }
    }

    /// Learns that `producer` has made updates worth `mine`.
    fn learn_sum(&self, new: &mut Row, producer: &Producer, mine: u64) {
        if mine <= producer.base {
            return self.learn_behind(new, producer, mine, true);
        }
        let changes = &producer.changes;
        let at = boundary(&producer.near[1], changes.len(), |k| changes[k].1 < mine);
        // less than needed is possible only if this run broke off
        if let Some((i, _)) = changes.get(at) {
            self.learn(new, *i as usize);
        }
    }

    /// The same for updates that the window has left behind. Of those that are not kept the next
    /// one that is tells too much; `exact` says whether `mine` is sure.
    fn learn_behind(&self, new: &mut Row, producer: &Producer, mine: u64, exact: bool) {
        let Some(kept) = producer.kept(mine) else { return };
        let grows = new.iter().zip(&kept.row).any(|(mine, theirs)| mine < theirs);
        if grows {
            join(new, &kept.row);
            if !exact || mine <= kept.before {
                self.inexact.set(true);
            }
        }
    }

    /// Takes over all updates that came before in this run.
    fn observe(&self, seen: &mut Seen, new: &mut Row, a: &Acquire, number: u32) {
        let Some(uses) = self.uses.get(number as usize) else { return };
        let (next, joined) =
            seen.entry(number).or_insert_with(|| (0, uses.all_behind(self.width())));
        while let Some(i) = uses.changes.get(*next) {
            if self.log.changes[*i as usize].order >= a.order {
                break;
            }
            self.learn(joined, *i as usize);
            *next += 1;
        }
        join(new, joined);
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
    log.behind.iter().flat_map(|b| &b.streams).for_each(|s| used[*s] = true);
    let streams: Vec<usize> = (0..used.len()).filter(|s| used[*s]).collect();
    let mut columns = vec![None; used.len()];
    streams.iter().enumerate().for_each(|(column, s)| columns[*s] = Some(column));
    (columns, streams)
}

//! The order that every schedule guarantees, computed the plain way: the analysis of
//! `tpbemu::check::guarantee` as first written, with a search over everything for every wait.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use tpbemu::check::board::{Board, Stamp};
use tpbemu::check::clock::Clock;
use tpbemu::check::guarantee::{Finding, Hazard, Unproven};
use tpbemu::check::log::{Acquire, Change, Effect, Got, Lane, Log};
use tpbemu::sync::{Compare, SyncId};

/// Passes after which the computation stops; what is known then is still guaranteed.
const MOST_PASSES: usize = 64;

/// What a stream knows from some place on.
#[derive(Clone, Debug, PartialEq)]
struct Segment {
    /// First place at which it holds.
    place: u32,
    /// Per stream: places below this one have been let go by its sequencer.
    passed: SmallVec<[u32; 12]>,
    /// Works known to have read and to be complete.
    clock: Clock,
}

impl Segment {
    fn new(streams: usize) -> Self {
        Segment { place: 0, passed: SmallVec::from_elem(0, streams), clock: Clock::new(streams) }
    }

    fn join(&mut self, other: &Segment) {
        for (mine, theirs) in self.passed.iter_mut().zip(&other.passed) {
            *mine = (*mine).max(*theirs);
        }
        self.clock.join(&other.clock);
    }

    fn pass(&mut self, stream: usize, place: u32) {
        let p = &mut self.passed[stream];
        *p = (*p).max(place + 1);
    }
}

/// In-order updates of one event or semaphore: indices into the log, and the sum so far.
#[derive(Default)]
struct Producer {
    changes: Vec<(usize, u64)>,
}

#[derive(Default)]
struct Uses {
    producers: BTreeMap<(usize, Lane), Producer>,
    /// Changes and, for events, clears: (stream, place, whether it is a wait).
    clears: Vec<(usize, u32, bool)>,
    /// Only additions that do not wrap, or only sets and clears.
    counts_up: bool,
    /// Per stream, places of waits that look for a larger value than all before: (value, place).
    looks: BTreeMap<usize, Vec<(u64, u32)>>,
}

/// The analysis of one run.
pub struct Guarantees<'a> {
    log: &'a Log,
    streams: usize,
    uses: BTreeMap<SyncId, Uses>,
    /// Indices of the changes of each event and semaphore.
    changes: BTreeMap<SyncId, Vec<usize>>,
    segments: Vec<Vec<Segment>>,
    before: Vec<Vec<Segment>>,
    unproven: Vec<Unproven>,
}

/// Per event or semaphore: how many of its changes are joined, and their knowledge.
type Seen = BTreeMap<SyncId, (usize, Segment)>;

/// The value that a semaphore has reached when `got` was granted, if it counts up.
fn reaches(got: &Got) -> Option<(SyncId, u64)> {
    match *got {
        Got::Semaphore(i, Compare::Ge | Compare::Eq, n) => Some((SyncId::Semaphore(i), n.into())),
        Got::Semaphore(i, Compare::Gt, n) => Some((SyncId::Semaphore(i), u64::from(n) + 1)),
        _ => None,
    }
}

impl<'a> Guarantees<'a> {
    /// Computes the guaranteed order behind `log`.
    pub fn new(log: &'a Log) -> Self {
        let streams = log.places.len();
        let mut this = Guarantees {
            log,
            streams,
            uses: BTreeMap::new(),
            changes: BTreeMap::new(),
            segments: vec![Vec::new(); streams],
            before: vec![Vec::new(); streams],
            unproven: Vec::new(),
        };
        this.collect();
        for _ in 0..MOST_PASSES {
            this.pass();
            if this.segments == this.before {
                break;
            }
        }
        this
    }

    fn collect(&mut self) {
        for (i, change) in self.log.changes.iter().enumerate() {
            self.changes.entry(change.id).or_default().push(i);
            let uses = self
                .uses
                .entry(change.id)
                .or_insert_with(|| Uses { counts_up: true, ..Uses::default() });
            let amount = match change.effect {
                Effect::Add(n) if !change.wrapped => n,
                Effect::Set => 1,
                Effect::Clear if change.idle => continue,
                Effect::Clear => {
                    uses.clears.push((change.stream, change.place, false));
                    continue;
                }
                _ => {
                    uses.counts_up = false;
                    continue;
                }
            };
            let producer = uses.producers.entry((change.stream, change.lane)).or_default();
            let sum = producer.changes.last().map_or(0, |c| c.1) + u64::from(amount);
            producer.changes.push((i, sum));
        }
        for a in &self.log.acquires {
            if let Got::Event { event, set, consumed: true } = a.got {
                let uses = self.uses.entry(SyncId::Event(event)).or_default();
                if set {
                    uses.clears.push((a.stream, a.place, true));
                } else {
                    uses.counts_up = false;
                }
            }
            let reached = reaches(&a.got);
            let uses = reached.and_then(|(id, _)| self.uses.get_mut(&id));
            if let (Some((_, value)), Some(uses)) = (reached, uses) {
                let looks = uses.looks.entry(a.stream).or_default();
                if looks.last().is_none_or(|l| l.0 < value) {
                    looks.push((value, a.place));
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
        let uneven = self.uses.iter().filter(|(_, u)| !u.counts_up);
        self.unproven.extend(uneven.map(|(id, _)| Unproven::NotMonotone(*id)));
        if self.log.polled {
            self.unproven.push(Unproven::Polled);
        }
        self.unproven.sort();
        self.unproven.dedup();
    }

    fn pass(&mut self) {
        self.before = std::mem::take(&mut self.segments);
        self.segments = vec![vec![Segment::new(self.streams)]; self.streams];
        let mut seen = Seen::new();
        for i in 0..self.log.acquires.len() {
            let a = self.log.acquires[i];
            let mut new = self.segments[a.stream][self.segments[a.stream].len() - 1].clone();
            self.take_over(&mut seen, &mut new, &a);
            let list = &mut self.segments[a.stream];
            match list.last_mut() {
                Some(last) if last.place == a.place => *last = new,
                _ => {
                    new.place = a.place;
                    list.push(new);
                }
            }
        }
    }

    fn at(segments: &[Segment], place: u32) -> Option<&Segment> {
        let i = segments.partition_point(|s| s.place <= place);
        segments.get(i.wrapping_sub(1))
    }

    /// What an update tells.
    fn knowledge(&self, change: &Change) -> Segment {
        let mut s = Self::at(&self.segments[change.stream], change.place)
            .cloned()
            .unwrap_or_else(|| Segment::new(self.streams));
        s.pass(change.stream, change.place);
        let works = self.log.works_until(change.stream, change.place);
        match change.lane {
            Lane::Reads => s.clock.learn_reads(change.stream, works),
            Lane::Results => s.clock.learn_results(change.stream, works),
            Lane::Sequencer | Lane::Immediate => {}
        }
        s
    }

    fn take_over(&self, seen: &mut Seen, new: &mut Segment, a: &Acquire) {
        match a.got {
            Got::Own(works) => new.clock.learn_results(a.stream, works),
            Got::Job(stream, place) => {
                if let Some(s) = Self::at(&self.segments[stream], place) {
                    new.join(s);
                }
                new.pass(stream, place);
            }
            Got::Semaphore(i, ..) => {
                let id = SyncId::Semaphore(i);
                match reaches(&a.got) {
                    Some((_, needed)) => self.count(seen, new, a, id, needed),
                    None => self.observe(seen, new, a, id),
                }
            }
            Got::Event { event, set, .. } => {
                let id = SyncId::Event(event);
                if set {
                    let needed = 1 + self.clears_before(new, a, id);
                    self.count(seen, new, a, id, needed);
                } else {
                    self.observe(seen, new, a, id);
                }
            }
        }
    }

    /// Clears of event `id` that are known to come before the wait `a`.
    fn clears_before(&self, new: &Segment, a: &Acquire, id: SyncId) -> u64 {
        let Some(uses) = self.uses.get(&id) else { return 0 };
        let older = Self::at(&self.before[a.stream], a.place);
        let known = |stream: usize, place: u32| {
            if stream == a.stream {
                return place < a.place;
            }
            place < new.passed[stream] || older.is_some_and(|o| place < o.passed[stream])
        };
        uses.clears.iter().filter(|(s, p, _)| known(*s, *p)).count() as u64
    }

    /// How many of the updates of `producer` can come before the wait of `stream` at `place`.
    fn possible(&self, producer: &Producer, stream: usize, place: u32) -> usize {
        producer.changes.partition_point(|(i, _)| {
            let change = &self.log.changes[*i];
            if change.stream == stream {
                return change.place < place;
            }
            let segment = Self::at(&self.before[change.stream], change.place);
            segment.is_none_or(|s| s.passed[stream] <= place)
        })
    }

    /// How many of the updates of `producer` can be made when the value first reaches `needed`.
    fn possible_at(&self, uses: &Uses, producer: &Producer, needed: u64) -> usize {
        let firsts: SmallVec<[(usize, u32); 8]> = uses
            .looks
            .iter()
            .filter_map(|(s, l)| Some((*s, l.get(l.partition_point(|x| x.0 < needed))?.1)))
            .collect();
        producer.changes.partition_point(|(i, _)| {
            let change = &self.log.changes[*i];
            let segment = Self::at(&self.before[change.stream], change.place);
            firsts.iter().all(|&(stream, place)| {
                if change.stream == stream {
                    return change.place < place;
                }
                segment.is_none_or(|s| s.passed[stream] <= place)
            })
        })
    }

    fn count(&self, seen: &mut Seen, new: &mut Segment, a: &Acquire, id: SyncId, needed: u64) {
        let Some(uses) = self.uses.get(&id) else { return };
        if !uses.counts_up {
            return self.observe(seen, new, a, id);
        }
        let sums: SmallVec<[u64; 8]> = uses
            .producers
            .values()
            .map(|p| {
                let n = match id {
                    SyncId::Event(_) => self.possible(p, a.stream, a.place),
                    SyncId::Semaphore(_) => self.possible_at(uses, p, needed),
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
            let at = producer.changes.partition_point(|c| c.1 < mine);
            // less than needed is possible only if this run broke off
            if let Some((i, _)) = producer.changes.get(at) {
                new.join(&self.knowledge(&self.log.changes[*i]));
            }
        }
    }

    /// Takes over all updates that came before in this run.
    fn observe(&self, seen: &mut Seen, new: &mut Segment, a: &Acquire, id: SyncId) {
        let Some(all) = self.changes.get(&id) else { return };
        let (next, joined) = seen.entry(id).or_insert_with(|| (0, Segment::new(self.streams)));
        while let Some(i) = all.get(*next) {
            let change = &self.log.changes[*i];
            if change.order >= a.order {
                break;
            }
            joined.join(&self.knowledge(change));
            *next += 1;
        }
        new.join(joined);
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
        let n = self.streams;
        for w in &self.log.works {
            let Some(place) = self.log.places[w.stream].get(w.work as usize - 1) else { continue };
            let Some(segment) = Self::at(&self.segments[w.stream], *place) else { continue };
            let mut clock = Clock::new(2 * n);
            for s in 0..n {
                clock.learn_results(s, segment.clock.results(s));
                clock.learn_reads(s, segment.clock.reads(s));
                clock.learn_results(n + s, segment.passed[s]);
            }
            clock.learn_results(n + w.stream, *place);
            let mut stamp = Stamp {
                stream: w.stream,
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
                &w.footprint.accesses,
                Some(&clock),
                |_| {},
                |mut c| {
                    c.earlier.0.stream %= n;
                    c.later.0.stream %= n;
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

    fn changes_of(&self, id: SyncId) -> impl Iterator<Item = &Change> {
        let all = self.changes.get(&id).map_or(&[][..], |c| c);
        all.iter().map(|i| &self.log.changes[*i])
    }

    /// Hazards of events and semaphores in the order of the run.
    pub fn hazards(&self) -> Vec<Hazard> {
        let mut found = Vec::new();
        for change in self.log.changes.iter().filter(|c| c.wrapped) {
            found.push(Hazard::Wrap { id: change.id, by: (change.stream, change.pc) });
        }
        for (id, uses) in &self.uses {
            match id {
                SyncId::Event(_) => self.event_hazards(*id, uses, &mut found),
                SyncId::Semaphore(i) if uses.counts_up => {
                    self.overshoots(*i, uses, &mut found);
                }
                SyncId::Semaphore(_) => {}
            }
        }
        found
    }

    fn overshoots(&self, semaphore: u16, uses: &Uses, found: &mut Vec<Hazard>) {
        for a in &self.log.acquires {
            let Got::Semaphore(i, Compare::Eq, operand) = a.got else { continue };
            if i != semaphore {
                continue;
            }
            let possible: u64 = uses
                .producers
                .values()
                .filter_map(|p| {
                    let n = self.possible(p, a.stream, a.place);
                    n.checked_sub(1).map(|i| p.changes[i].1)
                })
                .sum();
            if possible > u64::from(operand) {
                let (id, wait) = (SyncId::Semaphore(i), (a.stream, a.pc));
                found.push(Hazard::Overshoot { id, wait, operand, possible });
            }
        }
    }

    fn event_hazards(&self, id: SyncId, uses: &Uses, found: &mut Vec<Hazard>) {
        let sets: Vec<&Change> = self.changes_of(id).filter(|c| c.effect == Effect::Set).collect();
        let knowledge: Vec<Segment> = sets.iter().map(|c| self.knowledge(c)).collect();
        // a producer in the same lane is in program order; otherwise only knowledge orders
        let after = |later: usize, earlier: usize| {
            let (l, e) = (sets[later], sets[earlier]);
            if l.stream == e.stream && l.lane == e.lane {
                return l.place > e.place;
            }
            knowledge[later].passed[e.stream] > e.place && l.stream != e.stream
                || l.stream == e.stream && l.place > e.place
        };
        for (k, set) in sets.iter().enumerate() {
            let cleared = uses
                .clears
                .iter()
                .filter(|(s, p, wait)| {
                    if *s == set.stream {
                        *p < set.place || (*wait && *p == set.place)
                    } else {
                        *p < knowledge[k].passed[*s]
                    }
                })
                .count();
            let others: Vec<usize> = (0..sets.len()).filter(|&o| o != k && !after(o, k)).collect();
            if others.len() > cleared {
                let earlier = sets[others[others.len() - 1]];
                found.push(Hazard::LostSignal {
                    id,
                    setter: (set.stream, set.pc),
                    earlier: (earlier.stream, earlier.pc),
                });
                break;
            }
        }
        let consumes: Vec<&Acquire> = self
            .log
            .acquires
            .iter()
            .filter(|a| {
                matches!(a.got, Got::Event { event, consumed: true, .. } if SyncId::Event(event) == id)
            })
            .collect();
        for pair in consumes.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if a.stream == b.stream {
                continue;
            }
            let knows = Self::at(&self.segments[b.stream], b.place)
                .is_some_and(|s| s.passed[a.stream] > a.place);
            if !knows {
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

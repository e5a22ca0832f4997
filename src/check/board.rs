//! The access board: for every byte that matters, the last accesses that a later one may conflict
//! with. From it come the host-side order of works and the race check.
//!
//! Two accesses conflict if they touch a common byte and one of them writes. An access leaves the
//! board when a later one covers it, is ordered after it, and conflicts with at least as much.
//!
//! The race check follows the happens-before definition with the clocks of
//! [`crate::check::clock`]. It sees the accesses of this run only: a branch not taken hides its
//! accesses. Byte sets are compared exactly; the host order uses bounding boxes.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::clock::Clock;
use crate::memory::{Access, AccessKind, Region};

/// Who made an access: stream, number of the work in it, and what the user needs to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    /// Stream index.
    pub stream: usize,
    /// Number of the work in its stream, from 1.
    pub work: u32,
    /// Ticket of the work on its host unit.
    pub ticket: u64,
    /// Index of the instruction word in its stream (of the block, for a DMA queue).
    pub pc: u32,
    /// Tick at which it started.
    pub tick: u64,
    /// Whether the race check may judge it.
    pub judged: bool,
}

/// Two accesses that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Conflict {
    /// The earlier access.
    pub earlier: (Stamp, AccessKind, Region),
    /// The later one.
    pub later: (Stamp, AccessKind, Region),
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Live {
    stamp: Stamp,
    kind: AccessKind,
    region: Region,
    seen: u32,
}

/// Bytes of a partition (SBUF, PSUM) or of HBM that share one bucket, as a shift.
const BUCKET_SHIFT: [u32; 3] = [11, 11, 16];
/// A region over more buckets than this is kept in a list of its own.
const MAX_BUCKETS: u64 = 256;

#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct SpaceBoard {
    // those with small numbers, which are all of SBUF and PSUM, and the others
    near: Vec<Bucket>,
    far: FxHashMap<u64, Bucket>,
    wide: Vec<u32>,
}

type Bucket = SmallVec<[u32; 6]>;

/// Buckets in [`SpaceBoard::near`] at most.
const NEAR: u64 = 1 << 10;

impl SpaceBoard {
    fn get(&self, bucket: u64) -> Option<&Bucket> {
        if bucket < NEAR { self.near.get(bucket as usize) } else { self.far.get(&bucket) }
    }

    fn at(&mut self, bucket: u64) -> &mut Bucket {
        if bucket >= NEAR {
            return self.far.entry(bucket).or_default();
        }
        let at = bucket as usize;
        if self.near.len() <= at {
            self.near.resize_with(at + 1, Bucket::default);
        }
        &mut self.near[at]
    }
}

/// The board of one machine.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Board {
    spaces: [SpaceBoard; 3],
    live: Vec<Live>,
    free: Vec<u32>,
    visit: u32,
    candidates: Vec<u32>,
}

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl Board {
    /// An empty board.
    pub fn new() -> Self {
        Board {
            spaces: Default::default(),
            live: Vec::new(),
            free: Vec::new(),
            visit: 0,
            candidates: Vec::new(),
        }
    }

    /// Gives streams other numbers.
    pub(crate) fn renumber(&mut self, number: impl Fn(usize) -> usize) {
        self.live.iter_mut().for_each(|l| l.stamp.stream = number(l.stamp.stream));
    }

    /// One more than the highest stream of an access.
    pub(crate) fn streams(&self) -> usize {
        self.live.iter().map(|l| l.stamp.stream + 1).max().unwrap_or(0)
    }

    /// Number of accesses remembered.
    pub fn len(&self) -> usize {
        self.live.len() - self.free.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enters the accesses of one work that starts now.
    ///
    /// `depends(stamp)` is called for every earlier work of another stream whose bounding
    /// box conflicts: the host must finish it first. With a `clock`, each access that no wait
    /// orders behind an earlier conflicting one is passed to `race`; it returns whether to go on.
    pub fn enter(
        &mut self,
        stamp: Stamp,
        accesses: &[Access],
        clock: Option<&Clock>,
        mut depends: impl FnMut(&Stamp),
        mut race: impl FnMut(Conflict),
    ) {
        for access in accesses {
            self.visit = self.visit.wrapping_add(1);
            self.collect(&access.region);
            let candidates = std::mem::take(&mut self.candidates);
            for &id in &candidates {
                let old = &self.live[id as usize];
                if old.stamp.stream == stamp.stream && old.stamp.work == stamp.work {
                    continue;
                }
                let conflicting = access.kind.writes() || old.kind.writes();
                let other_stream = old.stamp.stream != stamp.stream;
                let mut ordered = true;
                if conflicting && other_stream && old.region.hull_overlaps(&access.region) {
                    depends(&old.stamp);
                    if let Some(clock) = clock.filter(|_| old.stamp.judged && stamp.judged) {
                        ordered = if old.kind.writes() {
                            clock.results(old.stamp.stream) >= old.stamp.work
                        } else {
                            clock.reads(old.stamp.stream) >= old.stamp.work
                        };
                        if !ordered && old.region.overlaps(&access.region) {
                            race(Conflict {
                                earlier: (old.stamp, old.kind, old.region.clone()),
                                later: (stamp, access.kind, access.region.clone()),
                            });
                        }
                    }
                }
                let supersedes = if access.kind.writes() {
                    ordered
                } else {
                    !old.kind.writes() && !other_stream
                };
                // a footprint that only orders the host: the latest of a stream says it all
                let repeated = !(other_stream || old.stamp.judged || stamp.judged)
                    && old.kind == access.kind
                    && old.region == access.region;
                if repeated || supersedes && access.certain && access.region.covers(&old.region) {
                    self.remove(id);
                }
            }
            self.candidates = candidates;
            self.candidates.clear();
        }
        for access in accesses {
            self.insert(stamp, access);
        }
    }

    fn collect(&mut self, region: &Region) {
        let space = &self.spaces[region.space as usize];
        let visit = self.visit;
        let mut take = |id: u32| {
            let live = &mut self.live[id as usize];
            if live.seen != visit {
                live.seen = visit;
                self.candidates.push(id);
            }
        };
        match buckets(region) {
            Some(range) => {
                for b in range {
                    if let Some(ids) = space.get(b) {
                        ids.iter().copied().for_each(&mut take);
                    }
                }
                space.wide.iter().copied().for_each(&mut take);
            }
            None => {
                for ids in space.near.iter().chain(space.far.values()) {
                    ids.iter().copied().for_each(&mut take);
                }
                space.wide.iter().copied().for_each(&mut take);
            }
        }
        // the order of a hash map must not be seen
        if buckets(region).is_none() {
            self.candidates.sort_unstable();
        }
    }

    fn insert(&mut self, stamp: Stamp, access: &Access) {
        let live =
            Live { stamp, kind: access.kind, region: access.region.clone(), seen: self.visit };
        let id = match self.free.pop() {
            Some(id) => {
                self.live[id as usize] = live;
                id
            }
            None => {
                self.live.push(live);
                (self.live.len() - 1) as u32
            }
        };
        let space = &mut self.spaces[access.region.space as usize];
        match buckets(&access.region) {
            Some(range) => range.for_each(|b| space.at(b).push(id)),
            None => space.wide.push(id),
        }
    }

    fn remove(&mut self, id: u32) {
        let region = &self.live[id as usize].region;
        let space = &mut self.spaces[region.space as usize];
        match buckets(region) {
            Some(range) => {
                for b in range {
                    let ids = space.at(b);
                    if let Some(at) = ids.iter().position(|i| *i == id) {
                        ids.remove(at);
                    }
                }
            }
            None => space.wide.retain(|i| *i != id),
        }
        self.free.push(id);
    }
}

fn buckets(region: &Region) -> Option<std::ops::RangeInclusive<u64>> {
    let shift = BUCKET_SHIFT[region.space as usize];
    let (first, last) = (region.bytes.start() >> shift, (region.bytes.end() - 1) >> shift);
    (last - first < MAX_BUCKETS).then_some(first..=last)
}

/// Names the hazard of two conflicting accesses, earlier first.
pub fn hazard(earlier: AccessKind, later: AccessKind) -> &'static str {
    match (earlier.writes(), later.writes()) {
        (true, false) => "read after write",
        (false, true) => "write after read",
        _ => "write after write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{ByteSet, Space};

    fn stamp(stream: usize, work: u32) -> Stamp {
        Stamp { stream, work, ticket: u64::from(work), pc: work, tick: 0, judged: true }
    }

    fn sbuf(start: u64, len: u64) -> Region {
        Region::new(Space::Sbuf, 0, 128, ByteSet::dense(start, len))
    }

    fn enter(
        board: &mut Board,
        s: Stamp,
        a: &[Access],
        clock: &Clock,
    ) -> (Vec<(usize, u32)>, usize) {
        let (mut deps, mut races) = (Vec::new(), 0);
        board.enter(s, a, Some(clock), |s| deps.push((s.stream, s.work)), |_| races += 1);
        (deps, races)
    }

    #[test]
    fn an_unordered_write_and_read_race() {
        let mut board = Board::new();
        let clock = Clock::new(2);
        enter(&mut board, stamp(0, 1), &[Access::write(sbuf(0, 64))], &clock);
        let (deps, races) = enter(&mut board, stamp(1, 1), &[Access::read(sbuf(32, 64))], &clock);
        assert_eq!((deps, races), (vec![(0, 1)], 1));
    }

    #[test]
    fn a_known_result_orders_and_a_known_read_does_not() {
        for (reads_only, expected) in [(true, 1), (false, 0)] {
            let mut board = Board::new();
            let mut clock = Clock::new(2);
            enter(&mut board, stamp(0, 1), &[Access::write(sbuf(0, 64))], &clock);
            if reads_only {
                clock.learn_reads(0, 1)
            } else {
                clock.learn_results(0, 1)
            }
            let (_, races) = enter(&mut board, stamp(1, 1), &[Access::read(sbuf(0, 64))], &clock);
            assert_eq!(races, expected);
        }
    }

    #[test]
    fn a_loop_over_the_same_tiles_stays_small() {
        let mut board = Board::new();
        let mut clock = Clock::new(2);
        for work in 1..1000 {
            clock.learn_results(1, work - 1);
            enter(&mut board, stamp(0, work), &[Access::write(sbuf(0, 64))], &clock);
            clock.learn_results(0, work);
            let (_, races) = enter(
                &mut board,
                stamp(1, work),
                &[Access::read(sbuf(0, 64)), Access::write(sbuf(64, 64))],
                &clock,
            );
            assert_eq!(races, 0);
            assert!(board.len() <= 3, "{}", board.len());
        }
    }
}

//! How full SBUF and PSUM are over time. Bytes count from the start of the instruction that writes
//! them to the start of the last one that reads them before they are written again: what a
//! compiler would have to keep allocated.
//!
//! Memory is looked at in granules of 256 bytes and groups of 32 partitions, and time in at most
//! 2048 equal buckets that grow with the run, so that neither memory nor the time per access
//! grows with it.

use super::record::Record;
use crate::memory::{Access, Geometry, Space};

/// Bytes of a granule in one partition.
const GRANULE: u64 = 256;
/// Partitions of a group.
const GROUP: u32 = 32;
/// Groups told apart; the schema knows partitions 0, 32, 64 and 96.
const GROUPS: usize = 4;
/// Buckets of time.
const BUCKETS: usize = 2048;
/// Ticks of a bucket at first.
const WIDTH: u64 = 64;
/// Parts of a memory, and behind them the whole.
const PARTS: usize = 9;
const WHOLE: usize = 8;

/// Bytes of one granule in one group of partitions.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Granule {
    there: bool,
    partitions: u8,
    written: u64,
    read: u64,
}

/// Occupancy over time: ticks x weight by bucket.
#[derive(serde::Serialize, serde::Deserialize)]
struct Timeline {
    width: u64,
    // of buckets that an interval covers in part
    area: Vec<[u64; PARTS]>,
    // changes of what covers whole buckets
    steps: Vec<[i64; PARTS]>,
}

impl Timeline {
    fn new() -> Self {
        Timeline {
            width: WIDTH,
            area: vec![[0; PARTS]; BUCKETS],
            steps: vec![[0; PARTS]; BUCKETS + 1],
        }
    }

    fn settle(&mut self) {
        let mut level = [0i64; PARTS];
        for (area, step) in self.area.iter_mut().zip(&mut self.steps) {
            for ((a, l), s) in area.iter_mut().zip(&mut level).zip(step) {
                *l += std::mem::take(s);
                *a += l.unsigned_abs() * self.width;
            }
        }
        self.steps[BUCKETS] = [0; PARTS];
    }

    fn reach(&mut self, tick: u64) {
        while tick / self.width >= BUCKETS as u64 {
            self.settle();
            for i in 0..BUCKETS / 2 {
                let (a, b) = (self.area[2 * i], self.area[2 * i + 1]);
                self.area[i] = std::array::from_fn(|p| a[p] + b[p]);
            }
            self.area[BUCKETS / 2..].fill([0; PARTS]);
            self.width *= 2;
        }
    }

    /// `weights` (part, weight) are occupied from `from` to `to`.
    fn add(&mut self, from: u64, to: u64, weights: &[(usize, u64)]) {
        if to <= from {
            return;
        }
        self.reach(to);
        let (first, last) = ((from / self.width) as usize, (to / self.width) as usize);
        for &(part, weight) in weights {
            if first == last {
                self.area[first][part] += weight * (to - from);
                continue;
            }
            self.area[first][part] += weight * ((first as u64 + 1) * self.width - from);
            self.area[last][part] += weight * (to - last as u64 * self.width);
            self.steps[first + 1][part] += weight as i64;
            self.steps[last][part] -= weight as i64;
        }
    }
}

/// One memory.
#[derive(serde::Serialize, serde::Deserialize)]
struct Memory {
    granules: Vec<Granule>,
    per_group: usize,
    // granules of a bank; 0 in SBUF, whose parts are partitions
    bank: usize,
    capacity: [u64; PARTS],
    timeline: Timeline,
}

impl Memory {
    fn new(active: u32, partitions: u32, bank: u32) -> Self {
        let per_group = u64::from(active).div_ceil(GRANULE);
        let bank = u64::from(bank) / GRANULE;
        let mut capacity = [1; PARTS];
        for (part, c) in capacity.iter_mut().enumerate() {
            *c = match (part, bank) {
                (WHOLE, _) => per_group * u64::from(partitions),
                (_, 0) => per_group,
                _ => bank * u64::from(partitions),
            }
            .max(1);
        }
        Memory {
            granules: vec![Granule::default(); per_group as usize * GROUPS],
            per_group: per_group as usize,
            bank: bank as usize,
            capacity,
            timeline: Timeline::new(),
        }
    }

    fn close(timeline: &mut Timeline, at: usize, group: usize, bank: usize, g: &Granule) {
        let weight = u64::from(g.partitions);
        let part = match at.checked_div(bank) {
            None => (group, 1),
            Some(bank) => (bank.min(WHOLE - 1), weight),
        };
        timeline.add(g.written, g.read, &[part, (WHOLE, weight)]);
    }

    fn touch(&mut self, now: u64, access: &Access) {
        let region = &access.region;
        let from = (region.bytes.start() / GRANULE) as usize;
        let to = (region.bytes.end().div_ceil(GRANULE) as usize).min(self.per_group);
        let (first, last) = (region.first, region.first.saturating_add(region.count));
        for group in 0..GROUPS {
            let low = group as u32 * GROUP;
            let partitions = last.min(low + GROUP).saturating_sub(first.max(low)) as u8;
            if partitions == 0 {
                continue;
            }
            let row = group * self.per_group;
            for at in from..to {
                let g = &mut self.granules[row + at];
                g.partitions = g.partitions.max(partitions);
                if !access.kind.writes() {
                    // what was there before the run counts from its start
                    g.there = true;
                    g.read = now;
                } else if !g.there || g.read > g.written {
                    if g.there {
                        Self::close(&mut self.timeline, at, group, self.bank, g);
                    }
                    *g = Granule { there: true, partitions, written: now, read: now };
                }
            }
        }
    }

    fn finish(mut self, memory: u8, end: u64, each: &mut impl FnMut(Record)) {
        for group in 0..GROUPS {
            for at in 0..self.per_group {
                let g = self.granules[group * self.per_group + at];
                if g.there {
                    Self::close(&mut self.timeline, at, group, self.bank, &g);
                }
            }
        }
        self.timeline.settle();
        let width = self.timeline.width;
        let mut last = None;
        for (bucket, area) in self.timeline.area.iter().enumerate() {
            let tick = bucket as u64 * width;
            if tick > end {
                break;
            }
            let long = width.min(end - tick).max(1);
            let share = |part: usize| {
                let most = u128::from(long) * u128::from(self.capacity[part]);
                (u128::from(area[part]) * 10_000 / most).min(10_000) as u16
            };
            let parts: [u16; 8] = std::array::from_fn(share);
            let now = (parts, share(WHOLE));
            if last.replace(now) != Some(now) {
                each(Record::Usage { tick, memory, parts, average: now.1 });
            }
        }
    }
}

/// Follows the accesses of a run.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Usage {
    sbuf: Memory,
    psum: Memory,
}

impl Usage {
    /// For memories of this geometry.
    pub fn new(g: &Geometry) -> Self {
        Usage {
            sbuf: Memory::new(g.sbuf_active, g.sbuf_partitions, 0),
            psum: Memory::new(g.psum_active, g.psum_partitions, g.psum_bank),
        }
    }

    /// A work with these accesses starts at `now`.
    pub fn touch(&mut self, now: u64, accesses: &[Access]) {
        // what is read is read before anything is written
        for writes in [false, true] {
            for a in accesses.iter().filter(|a| a.kind.writes() == writes) {
                match a.region.space {
                    Space::Sbuf => self.sbuf.touch(now, a),
                    Space::Psum => self.psum.touch(now, a),
                    Space::Hbm => {}
                }
            }
        }
    }

    /// Gives the records of a run that ended at `end`.
    pub fn finish(self, end: u64, mut each: impl FnMut(Record)) {
        self.sbuf.finish(Space::Sbuf as u8, end, &mut each);
        self.psum.finish(Space::Psum as u8, end, &mut each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Generation;
    use crate::machine::MachineConfig;
    use crate::memory::{ByteSet, Region};

    fn sbuf(start: u64, len: u64) -> Region {
        Region::new(Space::Sbuf, 0, 64, ByteSet::dense(start, len))
    }

    fn records(usage: Usage, end: u64) -> Vec<(u64, u8, [u16; 8], u16)> {
        let mut out = Vec::new();
        usage.finish(end, |r| match r {
            Record::Usage { tick, memory, parts, average } => {
                out.push((tick, memory, parts, average));
            }
            other => panic!("{other:?}"),
        });
        out
    }

    #[test]
    fn bytes_live_from_their_write_to_their_last_read() {
        let config = MachineConfig::builtin(Generation::V3);
        let g = &config.geometry;
        let mut usage = Usage::new(g);
        let half = u64::from(g.sbuf_active) / 2;
        usage.touch(128, &[Access::write(sbuf(0, half))]);
        usage.touch(192, &[Access::read(sbuf(0, half))]);
        usage.touch(256, &[Access::read(sbuf(0, half))]);
        // dies unread
        usage.touch(320, &[Access::write(sbuf(0, half))]);
        let bank = Region::new(Space::Psum, 0, 128, ByteSet::dense(2048, 2048));
        usage.touch(64, &[Access::write(bank.clone())]);
        usage.touch(128, &[Access::accumulate(bank.clone())]);
        usage.touch(192, &[Access::read(bank)]);
        let got = records(usage, 640);
        // partitions 0 and 32 are half full, 64 and 96 empty: a quarter of all
        let full = [5000, 5000, 0, 0, 0, 0, 0, 0];
        let sbuf: Vec<_> = got.iter().filter(|r| r.1 == 0).map(|r| (r.0, r.2, r.3)).collect();
        assert_eq!(sbuf, [(0, [0; 8], 0), (128, full, 2500), (256, [0; 8], 0)]);
        let psum: Vec<_> = got.iter().filter(|r| r.1 == 1).map(|r| (r.0, r.2[1], r.3)).collect();
        assert_eq!(psum, [(0, 0, 0), (64, 10_000, 1250), (192, 0, 0)]);
    }

    #[test]
    fn a_long_run_keeps_few_buckets() {
        let config = MachineConfig::builtin(Generation::V3);
        let mut usage = Usage::new(&config.geometry);
        let all = sbuf(0, config.geometry.sbuf_active.into());
        for i in 0..10_000u64 {
            usage.touch(i * 1000, &[Access::write(all.clone())]);
            usage.touch(i * 1000 + 500, &[Access::read(all.clone())]);
        }
        let got = records(usage, 10_000_000);
        let sbuf: Vec<_> = got.iter().filter(|r| r.1 == 0).collect();
        assert!(sbuf.len() <= BUCKETS, "{}", sbuf.len());
        // half the time, in half the partitions; a bucket of 8192 ticks cuts a period of 1000
        for r in &sbuf[1..sbuf.len() - 1] {
            assert!((4850..5150).contains(&r.2[0]) && (2425..2575).contains(&r.3), "{r:?}");
        }
    }
}

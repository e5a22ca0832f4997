//! What library code read and wrote while it ran: a bit for each byte of the cores' windows.
//!
//! The footprint that a library work declares is all that the cores can reach. Conflicts are judged
//! by what it touched: if those accesses are ordered against all others, the code reads the same
//! bytes in every schedule and so touches the same.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::memory::{Access, ByteSet, Region, Space};

const PAGE_BYTES: u64 = 4096;
const PAGE_WORDS: usize = (PAGE_BYTES / 64) as usize;

/// Pieces beyond which what was touched is given up: each is compared with others.
const MOST_PIECES: usize = 1 << 14;

/// The bytes of one memory, by linear address (partition * stride + byte).
#[derive(Default)]
struct Bytes {
    pages: FxHashMap<u64, Box<[u64; PAGE_WORDS]>>,
}

impl Bytes {
    fn mark(&mut self, start: u64, len: u64) {
        let end = start + len;
        let mut at = start;
        while at < end {
            let page = at / PAGE_BYTES;
            let stop = end.min((page + 1) * PAGE_BYTES);
            let bits = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_WORDS]));
            while at < stop {
                let (word, bit) = ((at % PAGE_BYTES / 64) as usize, at % 64);
                let count = (64 - bit).min(stop - at);
                bits[word] |= (u64::MAX >> (64 - count)) << bit;
                at += count;
            }
        }
    }

    /// Runs of marked bytes in order, cut at multiples of `stride`: (partition, byte, length).
    fn runs(&self, stride: u64) -> Vec<Run> {
        let mut pages: Vec<u64> = self.pages.keys().copied().collect();
        pages.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for page in pages {
            for (i, word) in self.pages[&page].iter().enumerate() {
                let mut left = *word;
                while left != 0 {
                    let bit = u64::from(left.trailing_zeros());
                    let count = u64::from((left >> bit).trailing_ones());
                    left &= !((u64::MAX >> (64 - count)) << bit);
                    let at = page * PAGE_BYTES + i as u64 * 64 + bit;
                    let (partition, byte) = (at / stride, at % stride);
                    match runs.last_mut() {
                        Some(l) if l.0 == partition && l.1 + l.2 == byte => l.2 += count,
                        _ => runs.push((partition, byte, count)),
                    }
                }
            }
        }
        runs
    }
}

/// A run of bytes: partition, byte, length.
type Run = (u64, u64, u64);

/// Collects the accesses of one library work.
pub struct Observed {
    stride: u64,
    /// SBUF read, SBUF written, HBM read, HBM written.
    bytes: [Bytes; 4],
}

impl Observed {
    /// Nothing touched yet; `stride` is the distance of SBUF partitions in bytes.
    pub fn new(stride: u64) -> Self {
        Observed { stride: stride.max(1), bytes: Default::default() }
    }

    /// `len` bytes of SBUF or HBM were read or written; they may run over partitions' ends.
    pub fn mark(&mut self, space: Space, partition: u32, byte: u64, len: u64, writes: bool) {
        let (hbm, linear) = match space {
            Space::Hbm => (2, byte),
            _ => (0, u64::from(partition) * self.stride + byte),
        };
        self.bytes[hbm + usize::from(writes)].mark(linear, len);
    }

    /// The accesses, reads first; `None` if they are too many to keep.
    pub fn accesses(&self) -> Option<Arc<[Access]>> {
        let mut out = Vec::new();
        for (k, bytes) in self.bytes.iter().enumerate() {
            let (hbm, make) = (k >= 2, if k % 2 == 0 { Access::read } else { Access::write });
            let runs = bytes.runs(if hbm { u64::MAX } else { self.stride });
            if hbm {
                out.extend(
                    folded(&runs).into_iter().map(|b| make(Region::new(Space::Hbm, 0, 1, b))),
                );
            } else {
                for (first, count, runs) in groups(&runs) {
                    let regions = folded(runs).into_iter();
                    out.extend(regions.map(|b| make(Region::new(Space::Sbuf, first, count, b))));
                }
            }
            if out.len() > MOST_PIECES {
                return None;
            }
        }
        Some(out.into())
    }
}

/// Neighbouring partitions with the same bytes: (first, count, runs of one of them).
fn groups(runs: &[Run]) -> Vec<(u32, u32, &[Run])> {
    let mut out = Vec::<(u32, u32, &[Run])>::new();
    for rows in runs.chunk_by(|a, b| a.0 == b.0) {
        let partition = rows[0].0 as u32;
        if let Some((first, count, known)) = out.last_mut()
            && *first + *count == partition
            && known.len() == rows.len()
            && known.iter().zip(rows).all(|(a, b)| (a.1, a.2) == (b.1, b.2))
        {
            *count += 1;
        } else {
            out.push((partition, 1, rows));
        }
    }
    out
}

/// Runs of one partition as few sets: equal ones at equal distances make one.
fn folded(runs: &[Run]) -> Vec<ByteSet> {
    let mut out = Vec::new();
    let mut left = runs;
    while let [first, rest @ ..] = left {
        let step = rest.first().map_or(0, |next| next.1 - first.1);
        let regular = |(i, r): &(usize, &Run)| r.2 == first.2 && r.1 == first.1 + *i as u64 * step;
        let count = left.iter().enumerate().take_while(regular).count();
        // two are a pattern only by chance
        let count = if count > 2 { count } else { 1 };
        let dims = [(step as i64, count as u64)];
        let set = (count > 1).then(|| ByteSet::strided(first.1 as i64, first.2, dims)).flatten();
        out.push(set.unwrap_or_else(|| ByteSet::dense(first.1, first.2)));
        left = &left[count..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_rows_of_neighbouring_partitions_are_one_region() {
        let mut seen = Observed::new(1 << 18);
        for p in 3..7 {
            seen.mark(Space::Sbuf, p, 0x100, 64, false);
            seen.mark(Space::Sbuf, p, 0x140, 64, false);
        }
        seen.mark(Space::Hbm, 0, 4090, 12, true);
        let expected = [
            Access::read(Region::new(Space::Sbuf, 3, 4, ByteSet::dense(0x100, 128))),
            Access::write(Region::hbm(4090, 12)),
        ];
        assert_eq!(&*seen.accesses().unwrap(), &expected);
    }

    #[test]
    fn too_many_pieces_are_given_up() {
        let mut seen = Observed::new(1 << 18);
        // distances that never repeat
        let mut at = 0;
        for k in 0..MOST_PIECES as u64 + 8 {
            seen.mark(Space::Hbm, 0, at, 1, false);
            at += 2 + k % 3 + k % 7;
        }
        assert!(seen.accesses().is_none());
    }

    proptest! {
        #[test]
        fn every_byte_is_in_its_place(
            marks in prop::collection::vec((0..4u32, 0..300u64, 1..90u64, any::<bool>()), 0..40),
        ) {
            let stride = 512;
            let mut seen = Observed::new(stride);
            let mut expected = std::collections::BTreeSet::new();
            for &(partition, byte, len, writes) in &marks {
                seen.mark(Space::Sbuf, partition, byte, len, writes);
                let first = u64::from(partition) * stride + byte;
                expected.extend((first..first + len).map(|b| (writes, b)));
            }
            let mut found = std::collections::BTreeSet::new();
            for a in seen.accesses().unwrap().iter() {
                for p in a.region.first..a.region.first + a.region.count {
                    let base = u64::from(p) * stride;
                    a.region.bytes.for_each_run(|s, l| {
                        found.extend((s..s + l).map(|b| (a.kind.writes(), base + b)));
                    });
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}

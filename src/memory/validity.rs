//! Which bytes have ever been written: one bit per byte, kept by the machine in simulated order.
//!
//! May miss: a byte that an uncertain write ([`Access::certain`] false) might have left alone
//! counts as written. Never reports a byte that some instruction, transfer or tensor wrote.

use super::geometry::{Geometry, Space};
use super::region::{Access, AccessKind, Region};

/// Validity bits of all memories. Pages of bits appear when first set.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Validity {
    rows: [Rows; 3],
}

const PAGE_BYTES: u64 = 1 << 15;
const PAGE_WORDS: usize = (PAGE_BYTES / 64) as usize;

#[derive(serde::Serialize, serde::Deserialize)]
enum Page {
    Empty,
    Full,
    Bits(Box<Bits>),
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Bits(#[serde(with = "serde_big_array::BigArray")] [u64; PAGE_WORDS]);

#[derive(serde::Serialize, serde::Deserialize)]
struct Rows {
    pages_per_row: u64,
    pages: rustc_hash::FxHashMap<u64, Page>,
}

impl Rows {
    fn set(&mut self, row: u64, start: u64, len: u64) {
        let end = start + len;
        let mut at = start;
        while at < end {
            let page = at / PAGE_BYTES;
            let stop = ((page + 1) * PAGE_BYTES).min(end);
            let (low, high) = (at - page * PAGE_BYTES, stop - page * PAGE_BYTES);
            let slot = self.pages.entry(row * self.pages_per_row + page).or_insert(Page::Empty);
            if high - low == PAGE_BYTES {
                *slot = Page::Full;
            } else {
                if matches!(slot, Page::Empty) {
                    *slot = Page::Bits(Box::new(Bits([0; PAGE_WORDS])));
                }
                if let Page::Bits(bits) = slot {
                    for_words(low, high, |w, mask| {
                        bits.0[w] |= mask;
                        true
                    });
                }
            }
            at = stop;
        }
    }

    /// First byte of `start..start+len` that is not set.
    fn first_clear(&self, row: u64, start: u64, len: u64) -> Option<u64> {
        let end = start + len;
        let mut at = start;
        while at < end {
            let page = at / PAGE_BYTES;
            let stop = ((page + 1) * PAGE_BYTES).min(end);
            match self.pages.get(&(row * self.pages_per_row + page)) {
                None | Some(Page::Empty) => return Some(at),
                Some(Page::Full) => {}
                Some(Page::Bits(bits)) => {
                    let mut found = None;
                    for_words(at - page * PAGE_BYTES, stop - page * PAGE_BYTES, |w, mask| {
                        let missing = mask & !bits.0[w];
                        if missing != 0 {
                            found = Some(w as u64 * 64 + u64::from(missing.trailing_zeros()));
                        }
                        missing == 0
                    });
                    if let Some(byte) = found {
                        return Some(page * PAGE_BYTES + byte);
                    }
                }
            }
            at = stop;
        }
        None
    }
}

/// Calls `f(word, mask)` for the 64-bit words that bits `low..high` cover, until it says false.
fn for_words(low: u64, high: u64, mut f: impl FnMut(usize, u64) -> bool) {
    let mut at = low;
    while at < high {
        let word = at / 64;
        let stop = ((word + 1) * 64).min(high);
        let width = stop - at;
        let mask = if width == 64 { u64::MAX } else { ((1 << width) - 1) << (at % 64) };
        if !f(word as usize, mask) {
            return;
        }
        at = stop;
    }
}

impl Validity {
    /// Nothing written yet.
    pub fn new(geometry: &Geometry) -> Self {
        let rows = |s| Rows {
            pages_per_row: geometry.active(s).div_ceil(PAGE_BYTES),
            pages: rustc_hash::FxHashMap::default(),
        };
        Validity { rows: [rows(Space::Sbuf), rows(Space::Psum), rows(Space::Hbm)] }
    }

    /// Marks every byte of `region` as written.
    pub fn mark(&mut self, region: &Region) {
        let rows = &mut self.rows[region.space as usize];
        for p in region.first..region.first + region.count {
            region.bytes.for_each_run(|start, len| rows.set(u64::from(p), start, len));
        }
    }

    /// The first unwritten byte of `region`, as (partition, byte).
    pub fn first_unwritten(&self, region: &Region) -> Option<(u32, u64)> {
        let rows = &self.rows[region.space as usize];
        for p in region.first..region.first + region.count {
            let mut found = None;
            region.bytes.for_each_run(|start, len| {
                if found.is_none() {
                    found = rows.first_clear(u64::from(p), start, len);
                }
            });
            if let Some(byte) = found {
                return Some((p, byte));
            }
        }
        None
    }

    /// Tests the certain reads among `accesses` and then marks what they write. Returns the first
    /// access that needs a byte nobody wrote, with that byte.
    pub fn step<'a>(&mut self, accesses: &'a [Access]) -> Option<(&'a Access, u32, u64)> {
        for access in accesses.iter().filter(|a| a.certain && a.kind != AccessKind::Write) {
            if let Some((p, byte)) = self.first_unwritten(&access.region) {
                return Some((access, p, byte));
            }
        }
        for access in accesses.iter().filter(|a| a.kind.writes()) {
            self.mark(&access.region);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ByteSet;

    #[test]
    fn finds_the_hole() {
        let geometry = crate::memory::storage::tests::small_geometry();
        let mut validity = Validity::new(&geometry);
        let whole = Region::new(Space::Sbuf, 2, 3, ByteSet::dense(100, 300));
        assert_eq!(validity.first_unwritten(&whole), Some((2, 100)));
        validity.mark(&Region::new(Space::Sbuf, 0, 8, ByteSet::dense(0, 250)));
        assert_eq!(validity.first_unwritten(&whole), Some((2, 250)));
        validity.mark(&Region::new(Space::Sbuf, 2, 2, ByteSet::dense(250, 400)));
        assert_eq!(validity.first_unwritten(&whole), Some((4, 250)));
        validity.mark(&Region::new(
            Space::Sbuf,
            4,
            1,
            ByteSet::strided(250, 4, [(4, 38)]).unwrap(),
        ));
        assert_eq!(validity.first_unwritten(&whole), None);
        let big = Region::hbm(0, 1 << 17);
        validity.mark(&big);
        assert_eq!(validity.first_unwritten(&big), None);
        assert_eq!(validity.first_unwritten(&Region::hbm(0, (1 << 17) + 1)), Some((0, 1 << 17)));
    }
}

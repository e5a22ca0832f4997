//! Footprints: which bytes of which partitions an instruction reads and writes.
//!
//! A [`Region`] is a range of partitions times one [`ByteSet`], the same in every partition. Byte
//! sets keep the strides of an access pattern, so two instructions that interleave in one row do
//! not seem to overlap.

use smallvec::SmallVec;

use super::geometry::Space;

/// Runs of bytes at regular distances: `run` bytes at `start + sum(i_d * stride_d)`.
///
/// Canonical: strides are positive, ascending and larger than the extent of the inner dimensions
/// wherever the pattern allows, contiguous dimensions are merged, counts are at least 2.
#[derive(Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct ByteSet {
    start: u64,
    run: u64,
    dims: SmallVec<[(u64, u64); 4]>,
}

impl Clone for ByteSet {
    // copies the dimensions at once, which the derived form does one by one
    fn clone(&self) -> Self {
        ByteSet { start: self.start, run: self.run, dims: SmallVec::from_slice(&self.dims) }
    }
}

/// Above so many runs an exact comparison of two strided sets gives way to a cautious "overlaps".
const MAX_COMPARED_RUNS: u64 = 1 << 16;

impl ByteSet {
    /// `len` contiguous bytes at `start`.
    pub fn dense(start: u64, len: u64) -> Self {
        ByteSet { start, run: len, dims: SmallVec::new() }
    }

    /// The bytes of `element` bytes each at `start + sum(i_d * stride_d)`, `i_d < count_d`.
    /// Strides are in bytes and may be negative or zero. Returns `None` if a byte would lie below
    /// zero or a count is zero.
    pub fn strided(
        start: i64,
        element: u64,
        dims: impl IntoIterator<Item = (i64, u64)>,
    ) -> Option<Self> {
        let mut low = start;
        let mut list: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        for (stride, count) in dims {
            if count == 0 {
                return None;
            }
            if stride < 0 {
                low = low.checked_add(stride.checked_mul(count as i64 - 1)?)?;
            }
            if stride != 0 && count > 1 {
                list.push((stride.unsigned_abs(), count));
            }
        }
        let start = u64::try_from(low).ok()?;
        list.sort_unstable();
        let mut run = element;
        let mut out: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        for (stride, count) in list {
            if out.is_empty() && stride <= run {
                run += stride * (count - 1);
            } else if let Some(last) = out.last_mut().filter(|l| l.0 * l.1 == stride) {
                last.1 *= count;
            } else {
                out.push((stride, count));
            }
        }
        Some(ByteSet { start, run, dims: out })
    }

    /// First byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.start + extent(self.run, &self.dims)
    }

    /// Whether the set has no holes.
    pub fn is_dense(&self) -> bool {
        self.dims.is_empty()
    }

    /// Number of runs, counting overlapping ones separately.
    pub fn runs(&self) -> u64 {
        self.dims.iter().map(|d| d.1).product()
    }

    /// Bytes in one run.
    pub fn run_len(&self) -> u64 {
        self.run
    }

    /// Calls `f(start, len)` for every run, in address order of the outer dimensions.
    pub fn for_each_run(&self, mut f: impl FnMut(u64, u64)) {
        fn walk(start: u64, run: u64, dims: &[(u64, u64)], f: &mut dyn FnMut(u64, u64)) {
            match dims.split_last() {
                None => f(start, run),
                Some((&(stride, count), inner)) => {
                    for i in 0..count {
                        walk(start + i * stride, run, inner, f);
                    }
                }
            }
        }
        walk(self.start, self.run, &self.dims, &mut f);
    }

    /// Whether the hulls (first to last byte) meet.
    pub fn hull_overlaps(&self, other: &ByteSet) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether any byte is in both sets. Exact up to [`MAX_COMPARED_RUNS`], cautious above.
    pub fn overlaps(&self, other: &ByteSet) -> bool {
        if !self.hull_overlaps(other) {
            return false;
        }
        if self.is_dense() && other.is_dense() {
            return true;
        }
        let (few, many) = if self.runs() <= other.runs() { (self, other) } else { (other, self) };
        if few.runs() > MAX_COMPARED_RUNS {
            return true;
        }
        let mut hit = false;
        few.for_each_run(|start, len| {
            hit = hit || meets(many.start, many.run, &many.dims, start, start + len);
        });
        hit
    }

    /// Whether every byte of `other` is certainly in this set. May say no for odd strides.
    pub fn covers(&self, other: &ByteSet) -> bool {
        self == other || (self.is_dense() && self.start <= other.start && other.end() <= self.end())
    }
}

fn extent(run: u64, dims: &[(u64, u64)]) -> u64 {
    run + dims.iter().map(|(stride, count)| stride * (count - 1)).sum::<u64>()
}

/// Whether a strided set meets the interval `low..high`.
fn meets(start: u64, run: u64, dims: &[(u64, u64)], low: u64, high: u64) -> bool {
    let Some((&(stride, count), inner)) = dims.split_last() else {
        return start < high && low < start + run;
    };
    let len = extent(run, inner);
    if start >= high || start + stride * (count - 1) + len <= low {
        return false;
    }
    let first = if start + len > low { 0 } else { (low - start - len) / stride + 1 };
    let last = ((high - 1 - start) / stride).min(count - 1);
    (first..=last).any(|i| meets(start + i * stride, run, inner, low, high))
}

/// Bytes of a range of partitions of one memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Region {
    /// The memory.
    pub space: Space,
    /// First partition (0 for HBM).
    pub first: u32,
    /// Number of partitions (1 for HBM).
    pub count: u32,
    /// The bytes in each of them.
    pub bytes: ByteSet,
}

impl Region {
    /// A region of `count` partitions from `first`.
    pub fn new(space: Space, first: u32, count: u32, bytes: ByteSet) -> Self {
        Region { space, first, count, bytes }
    }

    /// `len` bytes of HBM at `address`.
    pub fn hbm(address: u64, len: u64) -> Self {
        Region::new(Space::Hbm, 0, 1, ByteSet::dense(address, len))
    }

    fn partitions_meet(&self, other: &Region) -> bool {
        self.space == other.space
            && self.first < other.first + other.count
            && other.first < self.first + self.count
    }

    /// Whether any byte is in both regions.
    pub fn overlaps(&self, other: &Region) -> bool {
        self.partitions_meet(other) && self.bytes.overlaps(&other.bytes)
    }

    /// Whether the bounding boxes meet.
    pub fn hull_overlaps(&self, other: &Region) -> bool {
        self.partitions_meet(other) && self.bytes.hull_overlaps(&other.bytes)
    }

    /// Whether `other` certainly lies inside this region.
    pub fn covers(&self, other: &Region) -> bool {
        self.space == other.space
            && self.first <= other.first
            && other.first + other.count <= self.first + self.count
            && self.bytes.covers(&other.bytes)
    }

    /// Bytes touched, all partitions together, overlapping runs counted each.
    pub fn len(&self) -> u64 {
        u64::from(self.count) * self.bytes.runs() * self.bytes.run_len()
    }

    /// Whether the region has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (a, b) = (self.bytes.start(), self.bytes.end());
        match self.space {
            Space::Hbm => write!(f, "hbm bytes {a:#x}..{b:#x}"),
            s => write!(
                f,
                "{s} partitions {}..{} bytes {a:#x}..{b:#x}",
                self.first,
                self.first + self.count
            ),
        }
    }
}

/// What an access does to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum AccessKind {
    /// Reads at the start of the work.
    Read,
    /// Writes; the bytes are there when the work's writes are done.
    Write,
    /// Adds to what is there (PSUM accumulation): a write that also needs a defined old value.
    Accumulate,
}

impl AccessKind {
    /// Whether the access changes its bytes.
    pub fn writes(self) -> bool {
        self != AccessKind::Read
    }
}

/// One access of a work: kind, bytes, and whether it surely touches all of them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Access {
    /// Read, write or accumulate.
    pub kind: AccessKind,
    /// Which bytes.
    pub region: Region,
    /// False where data decides which bytes of the region are touched (indirect access,
    /// predication): such a read is not tested for unwritten memory.
    pub certain: bool,
}

impl Access {
    /// A read of exactly `region`.
    pub fn read(region: Region) -> Self {
        Access { kind: AccessKind::Read, region, certain: true }
    }

    /// A write of exactly `region`.
    pub fn write(region: Region) -> Self {
        Access { kind: AccessKind::Write, region, certain: true }
    }

    /// An accumulation into exactly `region`.
    pub fn accumulate(region: Region) -> Self {
        Access { kind: AccessKind::Accumulate, region, certain: true }
    }

    /// Marks the access as one that may touch any part of its region.
    pub fn maybe(mut self) -> Self {
        self.certain = false;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(set: &ByteSet) -> std::collections::BTreeSet<u64> {
        let mut out = std::collections::BTreeSet::new();
        set.for_each_run(|s, l| out.extend(s..s + l));
        out
    }

    #[test]
    fn contiguous_dimensions_merge() {
        let set = ByteSet::strided(8, 2, [(2, 16), (32, 4), (4096, 1)]).unwrap();
        assert_eq!(set, ByteSet::dense(8, 128));
    }

    #[test]
    fn interleaved_columns_do_not_overlap() {
        let even = ByteSet::strided(0, 4, [(8, 64)]).unwrap();
        let odd = ByteSet::strided(4, 4, [(8, 64)]).unwrap();
        assert!(even.hull_overlaps(&odd));
        assert!(!even.overlaps(&odd));
    }

    proptest! {
        #[test]
        fn sets_agree_with_enumeration(
            a in (0i64..200, 1u64..9, prop::collection::vec((-24i64..24, 1u64..5), 0..4)),
            b in (0i64..200, 1u64..9, prop::collection::vec((-24i64..24, 1u64..5), 0..4)),
        ) {
            let build = |(s, e, d): (i64, u64, Vec<(i64, u64)>)| {
                let mut naive = std::collections::BTreeSet::new();
                let mut offsets = vec![s];
                for &(stride, count) in &d {
                    offsets = offsets.iter().flat_map(|o| (0..count as i64).map(move |i| o + i * stride)).collect();
                }
                for o in &offsets { for k in 0..e as i64 { naive.insert(o + k); } }
                (ByteSet::strided(s, e, d), naive)
            };
            let ((a, na), (b, nb)) = (build(a), build(b));
            for (set, naive) in [(&a, &na), (&b, &nb)] {
                match set {
                    None => prop_assert!(naive.first().unwrap() < &0),
                    Some(set) => {
                        let got: Vec<i64> = bytes_of(set).into_iter().map(|x| x as i64).collect();
                        prop_assert_eq!(got, naive.iter().copied().collect::<Vec<_>>());
                        prop_assert_eq!(set.start() as i64, *naive.first().unwrap());
                        prop_assert_eq!(set.end() as i64, naive.last().unwrap() + 1);
                    }
                }
            }
            if let (Some(a), Some(b)) = (a, b) {
                prop_assert_eq!(a.overlaps(&b), na.intersection(&nb).next().is_some());
                if a.covers(&b) { prop_assert!(nb.is_subset(&na)); }
            }
        }
    }
}

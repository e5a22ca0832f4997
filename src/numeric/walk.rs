//! Access patterns inside one partition row: gather elements into a contiguous buffer and scatter
//! them back.
//!
//! A pattern visits `num` elements along each of up to five dimensions, X (index 0) fastest, with a
//! signed step in elements; step 0 repeats an element (wiki: firmware/kernels/tensor-tensor).

use smallvec::SmallVec;

use super::convert::{
    Fp8Config, Rounding, load_bits, load_f32, load_i64, store_bits, store_f32_config, store_i64,
};
use super::dtype::Dtype;
use crate::error::{Error, ErrorClass, Result};

/// Elements moved at a time between a strided row and the contiguous conversion loops.
const CHUNK: usize = 256;

/// Longest walk that is buffered. A row holds far less; only patterns that repeat elements with
/// step 0 come near, and a damaged one must not exhaust the host's memory.
const MAX_ELEMENTS: usize = 1 << 26;

/// The walk of an access pattern over one partition row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Byte offset of the first element in the row.
    pub start: usize,
    /// (step in elements, number of elements), X first.
    pub dims: SmallVec<[(i32, u32); 5]>,
    /// Bytes of one element.
    pub elem: usize,
}

/// A run of elements at a constant distance: the inner loop of every access.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Byte offset of its first element.
    at: i64,
    /// Bytes between elements.
    stride: i64,
    /// Number of elements.
    count: usize,
}

impl Walk {
    /// A walk from byte `start` over `dims` (X first) with elements of `elem` bytes.
    pub fn new(start: usize, dims: &[(i32, u32)], elem: usize) -> Walk {
        Walk { start, dims: SmallVec::from_slice(dims), elem }
    }

    /// `count` elements next to each other.
    pub fn contiguous(start: usize, count: u32, elem: usize) -> Walk {
        Walk::new(start, &[(1, count)], elem)
    }

    /// Number of elements visited; 0 when any dimension is empty.
    pub fn len(&self) -> usize {
        self.dims.iter().fold(1, |n, &(_, num)| n.saturating_mul(num as usize))
    }

    /// Visits nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First byte touched and the byte after the last one. The first may be negative and the last
    /// beyond the row: the pattern has not been checked against any memory yet. (start, start) when
    /// empty.
    pub fn byte_span(&self) -> (i64, i64) {
        let start = i64::try_from(self.start).unwrap_or(i64::MAX);
        if self.is_empty() {
            return (start, start);
        }
        let (mut low, mut high) = (start, start.saturating_add(self.elem as i64));
        for &(step, num) in &self.dims {
            let reach =
                i64::from(step).saturating_mul(i64::from(num) - 1).saturating_mul(self.elem as i64);
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        (low, high)
    }

    /// The elements lie next to each other in walk order.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1i64;
        for &(step, num) in &self.dims {
            if num != 1 && i64::from(step) != expected {
                return false;
            }
            expected = expected.saturating_mul(i64::from(num));
        }
        true
    }

    /// Byte offsets of the elements in walk order, unchecked against any row.
    pub fn offsets(&self) -> Offsets<'_> {
        Offsets { walk: self, index: SmallVec::from_elem(0, self.dims.len()), left: self.len() }
    }

    /// Checks that every access stays inside a row of `row` bytes.
    ///
    /// # Errors
    /// Illegal instruction (`tensor out of bounds`) when one does not.
    pub fn check(&self, row: usize) -> Result<()> {
        let (low, high) = self.byte_span();
        if self.is_empty() || (low >= 0 && high <= row as i64) {
            return Ok(());
        }
        Err(Error::illegal(
            "access_pattern_bounds",
            format!("access pattern covers bytes {low}..{high} of a row of {row} bytes"),
        ))
    }

    /// Splits the walk into inner runs, X fused with every outer dimension that continues it.
    fn runs(&self, mut each: impl FnMut(Run) -> Result<()>) -> Result<()> {
        let mut dims: SmallVec<[(i64, u64); 5]> = SmallVec::new();
        for &(step, num) in &self.dims {
            let (step, num) = (i64::from(step), u64::from(num));
            match dims.last_mut() {
                _ if num == 1 => {}
                Some(last) if last.0.saturating_mul(last.1 as i64) == step => {
                    last.1 = last.1.saturating_mul(num);
                }
                _ => dims.push((step, num)),
            }
        }
        if self.is_empty() {
            return Ok(());
        }
        let elem = self.elem as i64;
        let (step, count) = dims.first().copied().unwrap_or((1, 1));
        let outer = &dims[dims.len().min(1)..];
        let mut index: SmallVec<[u64; 5]> = SmallVec::from_elem(0, outer.len());
        let mut at = self.start as i64;
        loop {
            each(Run { at, stride: step * elem, count: count as usize })?;
            let mut dim = 0;
            loop {
                let Some(&(step, num)) = outer.get(dim) else { return Ok(()) };
                at += step * elem;
                index[dim] += 1;
                if index[dim] < num {
                    break;
                }
                at -= step * elem * num as i64;
                index[dim] = 0;
                dim += 1;
            }
        }
    }
}

/// Iterator over the byte offsets of a [`Walk`].
#[derive(Clone, Debug)]
pub struct Offsets<'a> {
    walk: &'a Walk,
    index: SmallVec<[u32; 5]>,
    left: usize,
}

impl Iterator for Offsets<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        let mut at = self.walk.start as i64;
        for (&(step, _), &i) in self.walk.dims.iter().zip(&self.index) {
            // Wraps rather than panics: the pattern may be unchecked.
            let distance = i64::from(step).wrapping_mul(i64::from(i));
            at = at.wrapping_add(distance.wrapping_mul(self.walk.elem as i64));
        }
        for (i, &(_, num)) in self.index.iter_mut().zip(&self.walk.dims) {
            *i += 1;
            if *i < num {
                break;
            }
            *i = 0;
        }
        Some(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Offsets<'_> {}

/// Copies `N`-byte elements from a strided run of `row` to the front of `out`.
fn pick<const N: usize>(row: &[u8], run: Run, out: &mut [u8]) {
    let (chunks, _) = out.as_chunks_mut::<N>();
    let mut at = run.at;
    for chunk in chunks.iter_mut().take(run.count) {
        // Checked against the row as a whole beforehand.
        chunk.copy_from_slice(&row[at as usize..at as usize + N]);
        at += run.stride;
    }
}

/// Copies `N`-byte elements from the front of `src` to a strided run of `row`, in order.
fn put<const N: usize>(row: &mut [u8], run: Run, src: &[u8]) {
    let (chunks, _) = src.as_chunks::<N>();
    let mut at = run.at;
    for chunk in chunks.iter().take(run.count) {
        row[at as usize..at as usize + N].copy_from_slice(chunk);
        at += run.stride;
    }
}

fn element(dtype: Dtype, walk: &Walk, row: usize) -> Result<()> {
    if dtype.is_cptc() || dtype.bits() < 8 || dtype.size() != walk.elem {
        return Err(Error::internal(format!(
            "walk over elements of {} bytes for dtype {dtype}",
            walk.elem
        )));
    }
    if walk.len() > MAX_ELEMENTS {
        return Err(Error::new(
            ErrorClass::LimitReached,
            format!("access pattern of {} elements in one partition", walk.len()),
        ));
    }
    walk.check(row)
}

/// Gathers the elements of `walk` and hands them, `CHUNK` at a time and contiguous, to `load`.
fn gather<T: Clone + Default>(
    dtype: Dtype,
    row: &[u8],
    walk: &Walk,
    out: &mut Vec<T>,
    load: impl Fn(&[u8], &mut [T]) -> Result<()>,
) -> Result<()> {
    element(dtype, walk, row.len())?;
    out.resize(walk.len(), T::default());
    let elem = walk.elem;
    let mut done = 0;
    let mut bytes = [0u8; CHUNK * 8];
    walk.runs(|run| {
        let dst = &mut out[done..done + run.count];
        done += run.count;
        if run.stride == elem as i64 {
            let at = run.at as usize;
            return load(&row[at..at + run.count * elem], dst);
        }
        if run.stride == 0 {
            let (first, rest) = dst.split_at_mut(1);
            load(&row[run.at as usize..run.at as usize + elem], first)?;
            rest.fill(first[0].clone());
            return Ok(());
        }
        let mut at = run.at;
        for dst in dst.chunks_mut(CHUNK) {
            let part = Run { at, count: dst.len(), ..run };
            match elem {
                1 => pick::<1>(row, part, &mut bytes),
                2 => pick::<2>(row, part, &mut bytes),
                4 => pick::<4>(row, part, &mut bytes),
                _ => pick::<8>(row, part, &mut bytes),
            }
            load(&bytes[..dst.len() * elem], dst)?;
            at += run.stride * dst.len() as i64;
        }
        Ok(())
    })
}

/// Stores `src` through `store` at the elements of `walk`, in walk order, so that of several
/// writes to one element the last one stays.
fn scatter<T>(
    dtype: Dtype,
    row: &mut [u8],
    walk: &Walk,
    src: &[T],
    mut store: impl FnMut(&[T], &mut [u8]) -> Result<()>,
) -> Result<()> {
    element(dtype, walk, row.len())?;
    if src.len() != walk.len() {
        return Err(Error::internal(format!(
            "{} values for a pattern of {} elements",
            src.len(),
            walk.len()
        )));
    }
    let elem = walk.elem;
    let mut done = 0;
    let mut bytes = [0u8; CHUNK * 8];
    walk.runs(|run| {
        let src = &src[done..done + run.count];
        done += run.count;
        if run.stride == elem as i64 {
            let at = run.at as usize;
            return store(src, &mut row[at..at + run.count * elem]);
        }
        let mut at = run.at;
        for src in src.chunks(CHUNK) {
            let part = Run { at, count: src.len(), ..run };
            let bytes = &mut bytes[..src.len() * elem];
            store(src, bytes)?;
            match elem {
                1 => put::<1>(row, part, bytes),
                2 => put::<2>(row, part, bytes),
                4 => put::<4>(row, part, bytes),
                _ => put::<8>(row, part, bytes),
            }
            at += run.stride * src.len() as i64;
        }
        Ok(())
    })
}

/// The elements of `walk` in place, when they are FP32, next to each other and aligned on this
/// host; `None` sends the caller to [`gather_f32`], which gives the same numbers.
///
/// # Errors
/// The pattern leaves the row (illegal instruction), or does not fit the dtype (internal).
pub fn view_f32<'a>(dtype: Dtype, row: &'a [u8], walk: &Walk) -> Result<Option<&'a [f32]>> {
    element(dtype, walk, row.len())?;
    Ok(match viewable(dtype, walk) {
        Some(bytes) => bytemuck::try_cast_slice(&row[bytes]).ok(),
        None => None,
    })
}

/// As [`view_f32`], to be written; `None` sends the caller to [`scatter_f32`].
///
/// # Errors
/// As [`view_f32`].
pub fn view_f32_mut<'a>(
    dtype: Dtype,
    row: &'a mut [u8],
    walk: &Walk,
) -> Result<Option<&'a mut [f32]>> {
    element(dtype, walk, row.len())?;
    Ok(match viewable(dtype, walk) {
        Some(bytes) => bytemuck::try_cast_slice_mut(&mut row[bytes]).ok(),
        None => None,
    })
}

/// Bytes of a contiguous FP32 walk on a host that stores numbers as the device does.
fn viewable(dtype: Dtype, walk: &Walk) -> Option<std::ops::Range<usize>> {
    let plain = dtype == Dtype::Fp32 && cfg!(target_endian = "little") && walk.is_contiguous();
    plain.then(|| walk.start..walk.start + walk.len() * walk.elem)
}

/// Replaces `out` by the elements of `walk`, widened to FP32.
///
/// # Errors
/// The pattern leaves the row (illegal instruction), or does not fit the dtype (internal).
pub fn gather_f32(dtype: Dtype, row: &[u8], walk: &Walk, out: &mut Vec<f32>) -> Result<()> {
    gather(dtype, row, walk, out, |src, dst| load_f32(dtype, src, dst))
}

/// Replaces `out` by the elements of `walk` as exact integers; see [`load_i64`].
///
/// # Errors
/// As [`gather_f32`]; also a dtype that is no integer.
pub fn gather_i64(dtype: Dtype, row: &[u8], walk: &Walk, out: &mut Vec<i64>) -> Result<()> {
    gather(dtype, row, walk, out, |src, dst| load_i64(dtype, src, dst))
}

/// Replaces `out` by the raw bits of the elements of `walk`.
///
/// # Errors
/// As [`gather_f32`].
pub fn gather_bits(dtype: Dtype, row: &[u8], walk: &Walk, out: &mut Vec<u64>) -> Result<()> {
    gather(dtype, row, walk, out, |src, dst| load_bits(dtype, src, dst))
}

/// Narrows `src` to the elements of `walk` with the default FP8 settings.
///
/// # Errors
/// As [`scatter_f32_config`].
pub fn scatter_f32(
    dtype: Dtype,
    row: &mut [u8],
    walk: &Walk,
    src: &[f32],
    rounding: Rounding<'_>,
) -> Result<()> {
    scatter_f32_config(dtype, row, walk, src, rounding, &Fp8Config::default())
}

/// Narrows `src` to the elements of `walk`.
///
/// # Errors
/// The pattern leaves the row (illegal instruction), does not fit the dtype or the number of
/// values (internal), or [`store_f32_config`] fails.
pub fn scatter_f32_config(
    dtype: Dtype,
    row: &mut [u8],
    walk: &Walk,
    src: &[f32],
    mut rounding: Rounding<'_>,
    fp8: &Fp8Config,
) -> Result<()> {
    scatter(dtype, row, walk, src, |src, dst| {
        store_f32_config(dtype, src, dst, rounding.reborrow(), fp8)
    })
}

/// Stores integers at the elements of `walk`; see [`store_i64`].
///
/// # Errors
/// As [`scatter_f32`]; also a dtype that is no integer.
pub fn scatter_i64(dtype: Dtype, row: &mut [u8], walk: &Walk, src: &[i64]) -> Result<()> {
    scatter(dtype, row, walk, src, |src, dst| store_i64(dtype, src, dst))
}

/// Stores raw bits at the elements of `walk`.
///
/// # Errors
/// As [`scatter_f32`].
pub fn scatter_bits(dtype: Dtype, row: &mut [u8], walk: &Walk, src: &[u64]) -> Result<()> {
    scatter(dtype, row, walk, src, |src, dst| store_bits(dtype, src, dst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_and_contiguity() {
        let walk = Walk::new(8, &[(1, 4), (4, 3)], 2);
        assert!(walk.is_contiguous());
        assert_eq!((walk.len(), walk.byte_span()), (12, (8, 32)));
        let back = Walk::new(8, &[(-1, 4)], 2);
        assert!(!back.is_contiguous());
        assert_eq!(back.byte_span(), (2, 10));
        assert_eq!(back.offsets().collect::<Vec<_>>(), [8, 6, 4, 2]);
        assert!(back.check(10).is_ok() && back.check(9).is_err());
        assert!(Walk::new(0, &[(-1, 2)], 4).check(64).is_err());
        assert!(Walk::new(usize::MAX, &[(i32::MAX, u32::MAX); 5], 8).check(64).is_err());
    }

    #[test]
    fn views_show_what_gathering_copies() {
        let mut words = [0.5f32, 1.5, f32::from_bits(0xFFA0_0001), 3.5];
        let row: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let walk = Walk::contiguous(4, 3, 4);
        let mut copy = Vec::new();
        gather_f32(Dtype::Fp32, row, &walk, &mut copy).unwrap();
        let view = view_f32(Dtype::Fp32, row, &walk).unwrap().unwrap();
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(view), bits(&copy));
        let strided = Walk::new(0, &[(2, 2)], 4);
        assert!(view_f32(Dtype::Fp32, row, &strided).unwrap().is_none());
        assert!(view_f32(Dtype::Int32, row, &walk).unwrap().is_none());
        assert!(view_f32(Dtype::Fp32, row, &Walk::contiguous(2, 1, 4)).unwrap().is_none());
        assert!(view_f32(Dtype::Fp32, row, &Walk::contiguous(8, 3, 4)).is_err());
        view_f32_mut(Dtype::Fp32, row, &walk).unwrap().unwrap()[0] = 9.0;
        assert_eq!(words[1], 9.0);
    }

    #[test]
    fn of_two_writes_to_an_element_the_last_stays() {
        let mut row = [0; 8];
        let walk = Walk::new(4, &[(0, 3)], 1);
        scatter_f32(Dtype::Uint8, &mut row, &walk, &[1.0, 2.0, 3.0], Rounding::NearestEven)
            .unwrap();
        assert_eq!(row, [0, 0, 0, 0, 3, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn gather_and_scatter_agree_with_the_offsets(
            dims in prop::collection::vec((-3i32..4, 0u32..5), 1..6),
            wide in 0usize..2,
            row in prop::collection::vec(any::<u8>(), 512..513),
        ) {
            let dtype = [Dtype::Uint8, Dtype::Uint32][wide];
            let walk = Walk::new(256, &dims, dtype.size());
            prop_assume!(walk.check(row.len()).is_ok());
            let mut bits = Vec::new();
            gather_bits(dtype, &row, &walk, &mut bits).unwrap();
            let mut want = row.clone();
            for (i, at) in walk.offsets().enumerate() {
                let element = &row[at as usize..at as usize + dtype.size()];
                let mut value = [0; 8];
                value[..dtype.size()].copy_from_slice(element);
                prop_assert_eq!(bits[i], u64::from_le_bytes(value));
                want[at as usize..at as usize + dtype.size()]
                    .copy_from_slice(&(i as u64).to_le_bytes()[..dtype.size()]);
            }
            let mut got = row.clone();
            let values: Vec<u64> = (0..walk.len() as u64).collect();
            scatter_bits(dtype, &mut got, &walk, &values).unwrap();
            prop_assert_eq!(got, want);
        }
    }
}

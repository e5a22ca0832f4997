//! Where matmul results go: PSUM, overwritten or accumulated element by element.
//!
//! A matmul that begins a group marks its zero region, in the partitions of its columns, as
//! pending. The first matmul write to a pending element overwrites it and ends its pending state;
//! every later one adds. So a group may build its result from patterns that overlap only partly,
//! and what no matmul touches keeps its old value (OPEN: the vendor's simulator clears the region
//! at once, which only a reader inside the group could tell apart).
//! (wiki: firmware/kernels/pe-matmul; wiki-cc: bir/sim-elementwise-datamove 1; hardware-confirmed
//! first-write rule of the vendor's release notes)

use std::ops::Range;

use super::seed::Seeds;
use crate::engine::{Lane, Operand};
use crate::error::{Error, Result};
use crate::numeric::simd::vectorize;
use crate::numeric::{CANONICAL_NAN, Dtype, Rounding, store_f32};

/// Bytes one pending mark stands for: the smallest element PSUM holds.
const UNIT: u64 = 2;

/// Bytes of a PSUM bank in one partition (wiki: dma/sbuf-psum-banks), which choose the rounding
/// state.
const BANK: u64 = 2048;

/// One mark for every two bytes of PSUM. Empty until a group begins.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    words_per_partition: usize,
    words: Vec<u64>,
}

/// Whether the elements of a range are pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    All,
    Mixed,
}

impl Pending {
    /// Makes room for `partitions` partitions of `active` bytes.
    pub fn ensure(&mut self, partitions: u32, active: u64) {
        let words = (active.div_ceil(UNIT) as usize).div_ceil(64);
        if self.words_per_partition != words || self.words.is_empty() {
            self.words_per_partition = words;
            self.words = vec![0; words * partitions as usize];
        }
    }

    fn row(&mut self, partition: u32) -> &mut [u64] {
        let at = partition as usize * self.words_per_partition;
        self.words.get_mut(at..at + self.words_per_partition).unwrap_or_default()
    }

    fn each(row: &mut [u64], bytes: &Range<u64>, mut f: impl FnMut(&mut u64, u64)) {
        let (mut at, end) = (bytes.start / UNIT, bytes.end.div_ceil(UNIT));
        while at < end {
            let word = (at / 64) as usize;
            let stop = ((word as u64 + 1) * 64).min(end);
            let ones = u64::MAX >> (64 - (stop - at));
            if let Some(w) = row.get_mut(word) {
                f(w, ones << (at % 64));
            }
            at = stop;
        }
    }

    /// Marks `bytes` of `partition`, or takes the marks away.
    pub fn set(&mut self, partition: u32, bytes: &Range<u64>, pending: bool) {
        Self::each(
            self.row(partition),
            bytes,
            |w, mask| {
                if pending { *w |= mask } else { *w &= !mask }
            },
        );
    }

    fn state(&mut self, partition: u32, bytes: &Range<u64>) -> State {
        let (mut any, mut all) = (false, true);
        Self::each(self.row(partition), bytes, |w, mask| {
            any |= *w & mask != 0;
            all &= *w & mask == mask;
        });
        match (any, all) {
            (false, _) => State::None,
            (true, true) => State::All,
            (true, false) => State::Mixed,
        }
    }
}

/// What a matmul does with the old contents of its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Begins a group: the bytes of the zero region become pending first.
    Begin(Range<u64>),
    /// Overwrites its own elements only (v5, accumulate flag 0).
    Overwrite,
    /// Adds to every element that is not pending.
    Accumulate,
}

/// Results for one partition.
#[derive(Clone, Copy)]
pub(super) enum Values<'a> {
    /// FP32 sums.
    Float(&'a [f32]),
    /// Integer sums; the destination wraps.
    Int(&'a [i64]),
    /// Raw elements that replace the destination's (transposes).
    Bits(&'a [u64]),
}

/// Writes the results of one array column to channel `c` of `dst`.
pub(super) fn drain(
    lane: &mut Lane<'_>,
    pending: &mut Pending,
    dst: &Operand,
    c: u32,
    values: Values<'_>,
    mode: &Mode,
    seeds: &mut Seeds,
) -> Result<()> {
    let (space, partition, low, len) = dst.row(c);
    let whole = low..low + len;
    let contiguous = dst.is_contiguous();
    if let Mode::Begin(region) = mode {
        pending.set(partition, region, true);
    }
    let places: Option<Vec<u64>> = match dst.offsets_partition() {
        Some(_) => Some(dst.places(lane, c)?.collect()),
        None => None,
    };
    let row = lane.mem.row_mut(space, partition, low, len)?;
    if let (Values::Float(values), Dtype::Fp32, true) = (values, dst.dtype, contiguous) {
        let state = match mode {
            Mode::Begin(_) | Mode::Overwrite => State::All,
            Mode::Accumulate => pending.state(partition, &whole),
        };
        if state != State::Mixed {
            let (cells, _) = row.as_chunks_mut::<4>();
            if state == State::All {
                vectorize(|| {
                    for (cell, v) in cells.iter_mut().zip(values) {
                        *cell = canonical(*v).to_le_bytes();
                    }
                });
                pending.set(partition, &whole, false);
            } else {
                vectorize(|| {
                    for (cell, v) in cells.iter_mut().zip(values) {
                        *cell = canonical(f32::from_le_bytes(*cell) + v).to_le_bytes();
                    }
                });
            }
            return Ok(());
        }
    }
    let offsets = || {
        let walk = places.is_none().then(|| dst.walk.offsets().map(|at| at as u64));
        walk.into_iter().flatten().chain(places.iter().flatten().copied())
    };
    if *mode != Mode::Accumulate {
        for at in offsets() {
            pending.set(partition, &(at..at + dst.walk.elem as u64), true);
        }
    }
    let mut place = Place { row, low, partition, pending };
    match (values, dst.dtype) {
        (Values::Float(v), Dtype::Fp32) => place.each::<4, _>(offsets(), v, |old, v| {
            let old = old.map(f32::from_le_bytes);
            Ok(canonical(old.map_or(v, |old| old + v)).to_le_bytes())
        }),
        (Values::Float(v), Dtype::Bf16) => {
            // Rounded at every write, not once at the end of the group (vendor:
            // nki/guides/architecture/trainium3_arch).
            let bank = low / BANK;
            let mut index = 0;
            place.each::<2, _>(offsets(), v, |old, v| {
                let old = old.map(|b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16));
                let mut bytes = [0; 2];
                let sum = canonical(old.map_or(v, |old| old + v));
                let rounding = match seeds.generator(partition, bank, index) {
                    Some(lfsr) => Rounding::Stochastic(lfsr),
                    None => Rounding::NearestEven,
                };
                store_f32(Dtype::Bf16, &[sum], &mut bytes, rounding)?;
                index += 1;
                Ok(bytes)
            })
        }
        (Values::Int(v), Dtype::Int32 | Dtype::Uint32) => {
            place.each::<4, _>(offsets(), v, |old, v| {
                let old = old.map_or(0, i32::from_le_bytes);
                Ok(old.wrapping_add(v as i32).to_le_bytes())
            })
        }
        (Values::Int(v), Dtype::Int64 | Dtype::Uint64) => {
            place.each::<8, _>(offsets(), v, |old, v| {
                Ok(old.map_or(0, i64::from_le_bytes).wrapping_add(v).to_le_bytes())
            })
        }
        (Values::Bits(v), _) => match dst.walk.elem {
            2 => place.each::<2, _>(offsets(), v, |old, v| {
                replace(old.is_some())?;
                Ok((v as u16).to_le_bytes())
            }),
            4 => place.each::<4, _>(offsets(), v, |old, v| {
                replace(old.is_some())?;
                Ok((v as u32).to_le_bytes())
            }),
            n => Err(Error::internal(format!("a transpose of {n}-byte elements"))),
        },
        (_, dtype) => {
            Err(Error::illegal("matmul_dtype", format!("no PSUM results of {}", dtype.name())))
        }
    }
}

fn replace(accumulates: bool) -> Result<()> {
    if !accumulates {
        return Ok(());
    }
    Err(Error::illegal("transpose_accumulate", "a transposing matmul moves bits and cannot add")
        .help("begin a group with it, or use SINGLE"))
}

fn canonical(v: f32) -> f32 {
    if v.is_nan() { CANONICAL_NAN } else { v }
}

/// The destination row of one partition.
struct Place<'a> {
    row: &'a mut [u8],
    low: u64,
    partition: u32,
    pending: &'a mut Pending,
}

impl Place<'_> {
    /// Writes `f(old, value)` to every element, where `old` is absent for a pending one.
    fn each<const N: usize, T: Copy>(
        &mut self,
        offsets: impl Iterator<Item = u64>,
        values: &[T],
        mut f: impl FnMut(Option<[u8; N]>, T) -> Result<[u8; N]>,
    ) -> Result<()> {
        for (at, v) in offsets.zip(values) {
            let bytes = at..at + N as u64;
            let first = self.pending.state(self.partition, &bytes) != State::None;
            let cell = self
                .row
                .get_mut((at - self.low) as usize..)
                .and_then(<[u8]>::first_chunk_mut::<N>)
                .ok_or_else(|| Error::internal("PSUM element outside its row"))?;
            *cell = f((!first).then_some(*cell), *v)?;
            if first {
                self.pending.set(self.partition, &bytes, false);
            }
        }
        Ok(())
    }
}

//! Rows of one channel: borrowed as they lie in memory where possible, gathered otherwise; masked
//! stores; blocks transposed inside 32 x 32 tiles.

use crate::engine::{Lane, Operand};
use crate::error::{Error, Result};
use crate::numeric::{self, Dtype, Rounding};

/// Channels and elements of a transposed tile.
pub(super) const TILE: usize = 32;

/// Whether the elements of a row can be used as host FP32 numbers where they lie.
pub(super) fn is_plain_f32(operand: &Operand) -> bool {
    operand.dtype == Dtype::Fp32 && operand.is_contiguous() && cfg!(target_endian = "little")
}

/// The bytes of a contiguous FP32 row as numbers, if they are aligned.
pub(super) fn as_f32(bytes: &[u8]) -> Option<&[f32]> {
    bytemuck::try_cast_slice(bytes).ok()
}

/// As [`as_f32`], to write.
pub(super) fn as_f32_mut(bytes: &mut [u8]) -> Option<&mut [f32]> {
    bytemuck::try_cast_slice_mut(bytes).ok()
}

/// The elements of channel `c` in FP32, in memory or gathered into `buffer`.
pub(super) fn f32_row<'a>(
    operand: &Operand,
    lane: &'a Lane<'_>,
    c: u32,
    buffer: &'a mut Vec<f32>,
) -> Result<&'a [f32]> {
    if is_plain_f32(operand) {
        let (space, partition, byte, len) = operand.row(c);
        if let Some(row) = as_f32(lane.mem.row(space, partition, byte, len)?) {
            return Ok(row);
        }
    }
    operand.gather_f32(lane, c, buffer)?;
    Ok(buffer)
}

/// Stores FP32 results, rounded to nearest even.
pub(super) fn store_f32(
    operand: &Operand,
    lane: &mut Lane<'_>,
    c: u32,
    values: &[f32],
) -> Result<()> {
    operand.scatter_f32(lane, c, values, Rounding::NearestEven)
}

/// Replaces `out` by the bits of `values` narrowed as channel `c` of `operand` holds them.
pub(super) fn narrow_to_bits(
    operand: &Operand,
    lane: &mut Lane<'_>,
    c: u32,
    values: &[f32],
    bytes: &mut Vec<u8>,
    out: &mut Vec<u64>,
) -> Result<()> {
    let dtype = operand.dtype;
    bytes.resize(values.len() * dtype.size(), 0);
    operand.narrow(lane, c, dtype, values, bytes)?;
    out.resize(values.len(), 0);
    numeric::load_bits(dtype, bytes, out)
}

/// Stores `bits[k]` where `keep(k)`; the other elements of the destination are not touched.
pub(super) fn store_where(
    operand: &Operand,
    lane: &mut Lane<'_>,
    c: u32,
    bits: &[u64],
    keep: impl Fn(usize) -> bool,
) -> Result<()> {
    if bits.len() != operand.len() {
        return Err(Error::internal(format!(
            "{} values for a pattern of {} elements",
            bits.len(),
            operand.len()
        )));
    }
    let (space, partition, first, len) = operand.row(c);
    let places = operand.places(lane, c)?;
    let row = lane.mem.row_mut(space, partition, first, len)?;
    let size = operand.walk.elem;
    for (k, at) in places.enumerate() {
        if keep(k) {
            let at = (at - first) as usize;
            let element = row.get_mut(at..at + size).ok_or_else(|| {
                Error::internal(format!("element {k} lies outside the span of its operand"))
            })?;
            element.copy_from_slice(&bits[k].to_le_bytes()[..size]);
        }
    }
    Ok(())
}

/// How the rows of a channel are gathered: [`Operand::gather_f32`] and its like.
pub(super) type Gather<T> = fn(&Operand, &Lane<'_>, u32, &mut Vec<T>) -> Result<()>;

/// Replaces `flat` by the 32 rows from channel `first` on, transposed inside each tile of 32
/// elements: row r, element 32*t + c is element 32*t + r of channel first + c
/// (wiki: firmware/kernels/stream-transpose).
pub(super) fn transposed_block<T: Copy + Default>(
    operand: &Operand,
    lane: &Lane<'_>,
    first: u32,
    gather: Gather<T>,
    row: &mut Vec<T>,
    flat: &mut Vec<T>,
) -> Result<()> {
    let len = operand.len();
    if !len.is_multiple_of(TILE) {
        return Err(Error::illegal(
            "has_transpose_src_element_count",
            format!("{len} elements per channel are not whole tiles of {TILE}"),
        ));
    }
    flat.resize(TILE * len, T::default());
    for c in 0..TILE {
        gather(operand, lane, first + c as u32, row)?;
        for (t, tile) in row.chunks_exact(TILE).enumerate() {
            for (r, &value) in tile.iter().enumerate() {
                flat[r * len + t * TILE + c] = value;
            }
        }
    }
    Ok(())
}

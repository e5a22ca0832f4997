//! STREAM_TRANSPOSE 0x6B (wiki: firmware/kernels/stream-transpose), STREAM_SHUFFLE 0x6A and
//! LOAD_MASK_SELECT 0x69 (wiki: firmware/kernels/pool-compute-misc).

use std::mem::take;

use super::common::*;
use super::reduce::operands;
use super::rows::*;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::ctrl_im as im;

/// Mask entry that leaves the destination channel as it is.
const KEEP: u8 = 255;

/// 0x6B: 32 x 32 tiles of (channel, element) are transposed in place.
/// OPEN: the geometry of a partial tile (`mask_enable`) is unknown; it is treated like a full one,
/// and elements beyond the destination's count stay as they are.
pub(super) fn stream_transpose(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    same_dtype(src.dtype, dst.dtype)?;
    require_quadrants(src.channels)?;
    if dst.len() > src.len() {
        return Err(Error::illegal(
            "dst_element_count",
            format!("{} elements of {} to be written", dst.len(), src.len()),
        ));
    }
    if !src.len().is_multiple_of(TILE) {
        return Err(Error::illegal(
            "has_transpose_src_element_count",
            format!("{} elements per channel are not whole tiles of {TILE}", src.len()),
        ));
    }
    let (len, written) = (src.len(), dst.len());
    let plan = Plan::new(env).source(&src)?.dest(&dst)?;
    let order = plan.order(src.channels / TILE as u32)?;
    plan.work(CostRow::Shuffle, len, move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let [row, flat, ..] = &mut b;
        for block in order.iter() {
            let first = block * TILE as u32;
            transposed_block(&src, lane, first, Operand::gather_bits, row, flat)?;
            for (c, values) in (first..).zip(flat.chunks_exact(len)) {
                dst.scatter_bits(lane, c, &values[..written])?;
            }
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}

/// 0x69: loads the table of 32 source channels, one for each channel of a quadrant.
pub(super) fn load_mask_select(env: &Env<'_>) -> Result<Prepared> {
    let mut mask = [KEEP; TILE];
    let table = env.inst.slice(im::IMMEDIATE);
    for (to, &from) in mask.iter_mut().zip(table) {
        if from >= 64 && from != KEEP {
            return Err(Error::illegal("mask_select", format!("mask entry {from}")));
        }
        *to = from;
    }
    Plan::new(env).work(CostRow::StateLoad, 1, move |lane| {
        lane.state.vector.mask = Some(mask);
        Outcome::none()
    })
}

/// 0x6A: in each quadrant of 32 channels, channel i becomes channel mask[i]; 255 keeps what the
/// destination holds (vendor docs: nki.isa.nc_stream_shuffle). Entries 32..63 pass the table's own
/// check but name no channel of the quadrant: they are refused here.
pub(super) fn stream_shuffle(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    same_count(&src, &dst)?;
    same_dtype(src.dtype, dst.dtype)?;
    require_quadrants(src.channels)?;
    let len = src.len();
    let plan = Plan::new(env).source(&src)?.dest_maybe(&dst)?;
    let order = plan.order(src.channels / TILE as u32)?;
    plan.work(CostRow::Shuffle, len, move |lane| {
        let Some(mask) = lane.state.vector.mask else {
            return Err(Error::undefined(
                "mask_select",
                "STREAM_SHUFFLE before any LOAD_MASK_SELECT: the table holds nothing",
            ));
        };
        if let Some(bad) = mask.iter().find(|&&m| m != KEEP && usize::from(m) >= TILE) {
            return Err(Error::illegal(
                "mask_select",
                format!("mask entry {bad} is neither a channel of the quadrant nor 255"),
            ));
        }
        let mut b = take(&mut lane.scratch.bits);
        let [row, flat, ..] = &mut b;
        for block in order.iter() {
            let first = block * TILE as u32;
            flat.clear();
            for c in 0..TILE as u32 {
                src.gather_bits(lane, first + c, row)?;
                flat.extend_from_slice(row);
            }
            for (c, &m) in (first..).zip(&mask) {
                if m != KEEP {
                    let at = usize::from(m) * len;
                    dst.scatter_bits(lane, c, &flat[at..at + len])?;
                }
            }
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}

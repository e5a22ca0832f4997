//! NONZERO_WITH_COUNT and GET_SEQUENCE_BOUNDS. (wiki: firmware/kernels/nonzero-with-count;
//! firmware/kernels/get-sequence-bounds)

use std::mem::take;

use smallvec::SmallVec;

use super::common::{Scalar, cost, dtype, require};
use crate::engine::{CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::Result;
use crate::isa::f;
use crate::memory::{Access, Region};
use crate::numeric::{Dtype, Rounding};

/// Partitions of one POOL core.
const CORE_PARTITIONS: u32 = 16;

/// NONZERO_WITH_COUNT 0xF2: positions of the non-zero elements plus an offset, the padding value
/// up to the source's length, then the count.
///
/// Only the first channel of each group of 16 is processed and written; the others keep their
/// bits (OPEN: the vendor's reference says so, the page does not).
pub fn nonzero_with_count(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_nonzero_with_count as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let src = Operand::new(env, l::SRC, dtype(env, l::IN_DTYPE)?, channels)?;
    let dst = Operand::new(env, l::DST, dtype(env, l::OUT_DTYPE)?, channels)?;
    require(matches!(src.dtype, Dtype::Fp32 | Dtype::Int32), "nonzero_in_dtype", || {
        format!("{} as input of NONZERO_WITH_COUNT", src.dtype)
    })?;
    require(dst.dtype == Dtype::Int32, "nonzero_out_dtype", || {
        format!("{} as output of NONZERO_WITH_COUNT", dst.dtype)
    })?;
    require(dst.len() == src.len() + 1, "nonzero_count", || {
        format!("{} destination elements for {} source elements", dst.len(), src.len())
    })?;
    let scalar = |source, value| {
        let (source, raw) = (env.inst.get(source) as u8, env.inst.get(value) as u32);
        Scalar::decode(env, source, raw, 4, channels)
    };
    let offset = scalar(l::INDEX_OFFSET_SRC, l::INDEX_OFFSET)?;
    let padding = scalar(l::PADDING_VAL_SRC, l::PADDING_VAL)?;
    let mut accesses: SmallVec<[Access; 4]> = SmallVec::new();
    let (read, written) = (src.region(), dst.region());
    for c in (0..channels).step_by(CORE_PARTITIONS as usize) {
        let row = |of: &Region| Region { first: of.first + c, count: 1, ..of.clone() };
        accesses.extend([Access::read(row(&read)), Access::write(row(&written))]);
    }
    accesses.extend(offset.access().into_iter().chain(padding.access()));
    let cost = cost(env, CostRow::Other, src.len(), &[&src], &[&dst]);
    let work = Work::new(accesses, cost, move |lane| {
        let (mut values, mut row) =
            (take(&mut lane.scratch.i64[0]), take(&mut lane.scratch.i64[1]));
        let mut numbers = take(&mut lane.scratch.f32[0]);
        for c in (0..channels).step_by(CORE_PARTITIONS as usize) {
            let offset = offset.bits(lane, c)? as i32;
            let padding = padding.bits(lane, c)? as i32;
            let position = |i: usize| i64::from((i as i32).wrapping_add(offset));
            row.clear();
            if src.dtype == Dtype::Fp32 {
                // an ordered comparison with zero: NaN does not count as non-zero
                src.gather_f32(lane, c, &mut numbers)?;
                let found = numbers.iter().enumerate().filter(|(_, x)| !x.is_nan() && **x != 0.0);
                row.extend(found.map(|(i, _)| position(i)));
            } else {
                src.gather_i64(lane, c, &mut values)?;
                let found = values.iter().enumerate().filter(|(_, x)| **x != 0);
                row.extend(found.map(|(i, _)| position(i)));
            }
            let count = row.len() as i64;
            row.resize(src.len(), i64::from(padding));
            row.push(count);
            dst.scatter_i64(lane, c, &row)?;
        }
        [lane.scratch.i64[0], lane.scratch.i64[1]] = [values, row];
        lane.scratch.f32[0] = numbers;
        Outcome::none()
    });
    Ok(work.into())
}

/// GET_SEQUENCE_BOUNDS 0xBE: for every element of a list of segment numbers, the start (plane
/// Z = 0) and the exclusive end (plane Z = 1) of its run of equal non-zero numbers; n and -1 where
/// the number is 0. (vendor: nki.isa sequence_bounds; the page's own reconstruction cannot fill
/// the outputs that its count rule asks for)
pub fn get_sequence_bounds(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_seq_bounds as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    require(channels == 1, "sequence_bounds_channels", || {
        format!("GET_SEQUENCE_BOUNDS works on one channel, not {channels}")
    })?;
    let src = Operand::new(env, l::SRC, dtype(env, l::IN_DTYPE)?, 1)?;
    let dst = Operand::new(env, l::DST, dtype(env, l::OUT_DTYPE)?, 1)?;
    for dtype in [src.dtype, dst.dtype] {
        require(matches!(dtype, Dtype::Int32 | Dtype::Fp32), "sequence_bounds_dtype", || {
            format!("GET_SEQUENCE_BOUNDS takes int32 and fp32, not {dtype}")
        })?;
    }
    require(
        dst.len() == 2 * src.len() && dst.walk.dims.get(2).is_some_and(|d| d.1 == 2),
        "sequence_bounds_count",
        || format!("{} destination elements for {} source elements", dst.len(), src.len()),
    )?;
    let cost = cost(env, CostRow::Other, src.len(), &[&src], &[&dst]);
    let work = Work::new([src.read(), dst.write()], cost, move |lane| {
        let mut ids = take(&mut lane.scratch.i64[0]);
        let mut bounds = take(&mut lane.scratch.i64[1]);
        if src.dtype == Dtype::Fp32 {
            let mut numbers = take(&mut lane.scratch.f32[0]);
            src.gather_f32(lane, 0, &mut numbers)?;
            // only equality and being zero matter: -0 is 0, and no NaN equals another
            ids.clear();
            ids.extend(numbers.iter().enumerate().map(|(i, x)| {
                if x.is_nan() {
                    (1 << 32) + i as i64
                } else if *x == 0.0 {
                    0
                } else {
                    i64::from(x.to_bits())
                }
            }));
            lane.scratch.f32[0] = numbers;
        } else {
            src.gather_i64(lane, 0, &mut ids)?;
        }
        sequence_bounds(&ids, &mut bounds);
        if dst.dtype == Dtype::Fp32 {
            let mut numbers = take(&mut lane.scratch.f32[0]);
            numbers.clear();
            numbers.extend(bounds.iter().map(|&b| b as f32));
            dst.scatter_f32(lane, 0, &numbers, Rounding::NearestEven)?;
            lane.scratch.f32[0] = numbers;
        } else {
            dst.scatter_i64(lane, 0, &bounds)?;
        }
        [lane.scratch.i64[0], lane.scratch.i64[1]] = [ids, bounds];
        Outcome::none()
    });
    Ok(work.into())
}

/// Starts, then ends, of the runs of equal non-zero `ids`.
fn sequence_bounds(ids: &[i64], bounds: &mut Vec<i64>) {
    let n = ids.len();
    bounds.clear();
    bounds.resize(2 * n, 0);
    let (start, end) = bounds.split_at_mut(n);
    for i in 0..n {
        start[i] = match ids[i] {
            0 => n as i64,
            id if i > 0 && id == ids[i - 1] => start[i - 1],
            _ => i as i64,
        };
    }
    for i in (0..n).rev() {
        end[i] = match ids[i] {
            0 => -1,
            id if i + 1 < n && id == ids[i + 1] => end[i + 1],
            _ => i as i64 + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_runs() {
        let mut bounds = Vec::new();
        sequence_bounds(&[0, 1, 1, 2, 2, 2, 0, 3, 3], &mut bounds);
        assert_eq!(bounds[..9], [9, 1, 1, 3, 3, 3, 9, 7, 7]);
        assert_eq!(bounds[9..], [-1, 3, 3, 6, 6, 6, -1, 9, 9]);
        sequence_bounds(&[5], &mut bounds);
        assert_eq!(bounds, [0, 1]);
    }
}

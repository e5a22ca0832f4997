//! POOL 0x45 and MAX_POOL_SELECT 0x58: windows of consecutive elements of the source stream
//! (wiki: firmware/kernels/avg-max-pool).

use std::mem::take;

use super::common::*;
use super::rows::*;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::{e::pool_type, f::s4d4_pl as pl};
use crate::numeric::{AluOp, alu};

/// Source, destination and elements per window.
fn decode(env: &Env<'_>) -> Result<(Operand, Operand, usize)> {
    let n = channels(env, pl::NUM_ACTIVE_CHANNELS);
    let src = operand(env, pl::SRC, dtype(env, pl::IN_DTYPE)?, n)?;
    let dst = operand(env, pl::DST, dtype(env, pl::OUT_DTYPE)?, n)?;
    let dims = subdim(env, pl::POOL_DIM)?;
    if dims == 0 {
        return Err(Error::illegal("is_valid_subdim", "pooling names no dimension"));
    }
    let window = group_len(&src, dims).max(1);
    require_count(&dst, src.len() / window)?;
    Ok((src, dst, window))
}

/// 0x45: maximum, or sum times scale, in FP32. The maximum starts from the first element, so that
/// minus infinity survives; the sum is scaled once at the end.
pub(super) fn pool(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst, window) = decode(env)?;
    let op = match env.inst.get(pl::POOL_FUNC) as u8 {
        pool_type::MAX_POOL => AluOp::Max,
        pool_type::AVG_POOL => AluOp::Add,
        _ => return Err(Error::illegal("pool_func", "Error, invalid pooling function.")),
    };
    let scale = (op == AluOp::Add).then(|| env.inst.get_f32(pl::POOL_SCALE));
    let flops = u64::from(src.channels) * src.len() as u64;
    let plan = Plan::new(env).source(&src)?.dest(&dst)?.flops(flops);
    let order = plan.order(src.channels)?;
    plan.work(CostRow::Pool, src.len(), move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [x, out, ..] = &mut f;
        for c in order.iter() {
            let values = f32_row(&src, lane, c, x)?;
            out.clear();
            for window in values.chunks_exact(window) {
                let value = alu::reduce_f32(op, window, None)?.unwrap_or_default();
                out.push(scale.map_or(value, |scale| canonical(value * scale)));
            }
            store_f32(&dst, lane, c, out)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x58: index of the maximum in each window. OPEN: of equal maxima the first; NaN never wins.
pub(super) fn max_pool_select(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst, window) = decode(env)?;
    require_int(dst.dtype)?;
    let plan = Plan::new(env).source(&src)?.dest(&dst)?;
    let order = plan.order(src.channels)?;
    plan.work(CostRow::Pool, src.len(), move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let mut i = take(&mut lane.scratch.i64);
        for c in order.iter() {
            let values = f32_row(&src, lane, c, &mut f[0])?;
            i[0].clear();
            i[0].extend(values.chunks_exact(window).map(|window| {
                let mut best = 0;
                for (k, &x) in window.iter().enumerate() {
                    if x > window[best] || (window[best].is_nan() && !x.is_nan()) {
                        best = k;
                    }
                }
                best as i64
            }));
            dst.scatter_i64(lane, c, &i[0])?;
        }
        lane.scratch.f32 = f;
        lane.scratch.i64 = i;
        Outcome::none()
    })
}

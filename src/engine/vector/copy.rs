//! COPY 0x46, CAST 0x47, RECIPROCAL 0x48, MEMSET 0x49 (wiki: firmware/kernels/cast-copy,
//! firmware/kernels/pool-compute-misc).

use std::mem::take;

use super::common::*;
use super::reduce::operands;
use super::rows::*;
use crate::engine::cost::{CostRow, Operation};
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::Result;
use crate::isa::Generation;
use crate::isa::f::{d4_mr as mr, v1_copy};
use crate::numeric::Rounding;
use crate::numeric::convert::convert_config;

/// 0x46: moves bits. V1's struct has one dtype for both sides
/// (wiki: generations/cross-gen-opcode-diff 5.4).
pub(super) fn copy(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = if env.generation() == Generation::V1 {
        let n = channels(env, v1_copy::NUM_ACTIVE_CHANNELS);
        let dtype = dtype(env, v1_copy::DTYPE)?;
        (operand(env, v1_copy::SRC, dtype, n)?, operand(env, v1_copy::DST, dtype, n)?)
    } else {
        operands(env)?
    };
    same_count(&src, &dst)?;
    same_dtype(src.dtype, dst.dtype)?;
    copy_or_cast(env, src, dst)
}

/// 0x47: through FP32; equal types move bits.
pub(super) fn cast(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    same_count(&src, &dst)?;
    copy_or_cast(env, src, dst)
}

/// The work of a copy with conversion.
pub(super) fn copy_or_cast(env: &Env<'_>, src: Operand, dst: Operand) -> Result<Prepared> {
    let plan = Plan::new(env).source(&src)?.dest(&dst)?;
    let order = plan.order(dst.channels)?;
    let moves = src.dtype == dst.dtype;
    let dense =
        src.is_contiguous() && dst.is_contiguous() && (moves || !dst.rounds_stochastically());
    plan.work(CostRow::Copy, dst.len(), move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let mut b = take(&mut lane.scratch.bits);
        for c in order.iter() {
            if dense && let Some(([x], out)) = lane.mem.rows_and_mut([src.row(c)], dst.row(c))? {
                let nearest = Rounding::NearestEven;
                convert_config(src.dtype, dst.dtype, x, out, nearest, dst.fp8())?;
            } else if moves {
                src.gather_bits(lane, c, &mut b[0])?;
                dst.scatter_bits(lane, c, &b[0])?;
            } else {
                src.gather_f32(lane, c, &mut f[0])?;
                store_f32(&dst, lane, c, &f[0])?;
            }
        }
        lane.scratch.f32 = f;
        lane.scratch.bits = b;
        Outcome::none()
    })
}

/// 0x48: 1 / x, rounded once. OPEN: the last bit of the device's seed-and-refine chain is not
/// described (wiki: firmware/kernels/pool-compute-misc).
pub(super) fn reciprocal(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    same_count(&src, &dst)?;
    let len = dst.len();
    let flops = u64::from(dst.channels) * len as u64;
    let plan = Plan::new(env).source(&src)?.dest(&dst)?.flops(flops);
    let order = plan.order(dst.channels)?;
    plan.work(CostRow::Reciprocal, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let values = &mut f[0];
        for c in order.iter() {
            src.gather_f32(lane, c, values)?;
            values.iter_mut().for_each(|x| *x = canonical(1.0 / *x));
            store_f32(&dst, lane, c, values)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x49: every element gets the low bits of the set value.
pub(super) fn memset(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, mr::NUM_ACTIVE_CHANNELS);
    let dst = operand(env, mr::DST, dtype(env, mr::DTYPE)?, n)?;
    let value = env.inst.get(mr::SET_VALUE);
    let len = dst.len();
    let operation = if value == 0 { Operation::Zero } else { Operation::Other };
    Plan::new(env).dest(&dst)?.operation(operation).work(CostRow::Memset, len, move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        b[0].clear();
        b[0].resize(len, value);
        for c in 0..n {
            dst.scatter_bits(lane, c, &b[0])?;
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}

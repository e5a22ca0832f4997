//! CROSS_LANE_REDUCE 0x7C, 0x7D: folds channels, or channels and elements, into one channel
//! (wiki: firmware/kernels/cross-lane-reduce).
//!
//! The source does not fix the order of the fold; here it is by channel, then in stream order.

use std::mem::take;

use super::common::*;
use super::rows::f32_row;
use super::rows::store_f32;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::e::{reduce_axis, reduce_op};
use crate::isa::f::s4d4_cr as cr;
use crate::memory::Space;
use crate::numeric::{AluOp, alu};

/// Source, one-channel destination, and whether elements are folded too.
fn decode(env: &Env<'_>) -> Result<(Operand, Operand, bool)> {
    let n = channels(env, cr::NUM_ACTIVE_CHANNELS);
    let src = sbuf_operand(env, cr::SRC, dtype(env, cr::IN_DTYPE)?, n)?;
    let dst = sbuf_operand(env, cr::DST, dtype(env, cr::OUT_DTYPE)?, 1)?;
    if src.space != Space::Sbuf || dst.space != Space::Sbuf {
        return Err(Error::illegal("sbuf_only", "cross-lane reductions work on SBUF"));
    }
    let all = match env.inst.get(cr::REDUCE_AXIS) as u8 {
        reduce_axis::ALL => true,
        reduce_axis::PARTITIONS => false,
        other => return Err(Error::illegal("reduce_axis", format!("axis {other}"))),
    };
    require_count(&dst, if all { 1 } else { src.len() })?;
    Ok((src, dst, all))
}

/// 0x7C: ADD, AVERAGE (scales each element, then adds) or MAX in FP32; a number wins over NaN in
/// MAX.
pub(super) fn cross_lane_reduce_arith(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst, all) = decode(env)?;
    let (op, scale) = match env.inst.get(cr::REDUCE_OP) as u8 {
        reduce_op::ADD => (AluOp::Add, None),
        reduce_op::AVERAGE => (AluOp::Add, Some(env.inst.get_f32(cr::SCALE))),
        reduce_op::MAX => (AluOp::Max, None),
        other => return Err(Error::illegal("reduce_op", format!("arithmetic {other}"))),
    };
    let flops = u64::from(src.channels) * src.len() as u64;
    let plan = Plan::new(env).source(&src)?.dest(&dst)?.flops(flops);
    plan.work(CostRow::Reduce, src.len(), move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [buffer, scaled, acc, ..] = &mut f;
        acc.clear();
        for c in 0..src.channels {
            let mut row = f32_row(&src, lane, c, buffer)?;
            if let Some(scale) = scale {
                scaled.clear();
                scaled.extend(row.iter().map(|x| canonical(x * scale)));
                row = scaled;
            }
            if all {
                let total = alu::reduce_f32(op, row, acc.first().copied())?;
                acc.clear();
                acc.extend(total);
            } else if acc.is_empty() {
                acc.extend_from_slice(row);
            } else {
                alu::apply_f32_assign(op, acc, row, false)?;
            }
        }
        store_f32(&dst, lane, 0, acc)?;
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x7D: OR, AND or XOR of raw bits.
pub(super) fn cross_lane_reduce_bitvec(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst, all) = decode(env)?;
    require_int(src.dtype)?;
    same_dtype(src.dtype, dst.dtype)?;
    let op = match env.inst.get(cr::REDUCE_OP) as u8 {
        reduce_op::BITWISE_OR => AluOp::BitwiseOr,
        reduce_op::BITWISE_AND => AluOp::BitwiseAnd,
        reduce_op::BITWISE_XOR => AluOp::BitwiseXor,
        other => return Err(Error::illegal("reduce_op", format!("bit-vector {other}"))),
    };
    let width = src.dtype.bits();
    let plan = Plan::new(env).source(&src)?.dest(&dst)?;
    plan.work(CostRow::Reduce, src.len(), move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let [row, acc, ..] = &mut b;
        acc.clear();
        for c in 0..src.channels {
            src.gather_bits(lane, c, row)?;
            if all {
                let total = alu::reduce_bits(op, row, acc.first().copied(), width)?;
                acc.clear();
                acc.extend(total);
            } else if acc.is_empty() {
                acc.extend_from_slice(row);
            } else {
                for (acc, &x) in acc.iter_mut().zip(&*row) {
                    *acc = alu::apply_bits(op, *acc, x, width)?;
                }
            }
        }
        dst.scatter_bits(lane, 0, acc)?;
        lane.scratch.bits = b;
        Outcome::none()
    })
}

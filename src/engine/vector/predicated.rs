//! Predicated copies and selects: 0x72, 0x99 (wiki: firmware/kernels/castpredicated), 0x98
//! (wiki: firmware/kernels/ts-select), 0xE8 (wiki: firmware/kernels/copypredicatedscalar), 0xEA
//! (wiki: firmware/kernels/copypredicatedreduce).

use std::mem::take;

use super::accumulator::{Command, command};
use super::common::*;
use super::rows::*;
use super::scalar::Scalar;
use super::{stt, tensor_tensor};
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::{s2s2d2_stt as st, s3d3_cp_pred_scalar as cp, s3d3_ts_select as se};
use crate::numeric::AluOp;

/// 0x72: where the predicate is not 0 the bits of the data, elsewhere the destination unchanged.
pub(super) fn copy_predicated(env: &Env<'_>) -> Result<Prepared> {
    let (predicate, data, dst) = tensor_tensor::operands(env)?;
    same_dtype(data.dtype, dst.dtype)?;
    merge(env, predicate, data, dst)
}

/// 0x99: as 0x72 with a conversion through FP32 where the types differ.
pub(super) fn cast_predicated(env: &Env<'_>) -> Result<Prepared> {
    let (predicate, data, dst) = tensor_tensor::operands(env)?;
    merge(env, predicate, data, dst)
}

fn merge(env: &Env<'_>, predicate: Operand, data: Operand, dst: Operand) -> Result<Prepared> {
    require_int(predicate.dtype)?;
    let plan = Plan::new(env).source(&predicate)?.source(&data)?.dest_maybe(&dst)?;
    let order = plan.order(dst.channels)?;
    plan.work(CostRow::Predicated, dst.len(), move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let mut f = take(&mut lane.scratch.f32);
        let mut bytes = take(&mut lane.scratch.bytes);
        let [p, x, ..] = &mut b;
        for c in order.iter() {
            predicate.gather_bits(lane, c, p)?;
            if data.dtype == dst.dtype {
                data.gather_bits(lane, c, x)?;
            } else {
                data.gather_f32(lane, c, &mut f[0])?;
                narrow_to_bits(&dst, lane, c, &f[0], &mut bytes[0], x)?;
            }
            store_where(&dst, lane, c, x, |k| p[k] != 0)?;
        }
        lane.scratch.bits = b;
        lane.scratch.f32 = f;
        lane.scratch.bytes = bytes;
        Outcome::none()
    })
}

/// 0xE8 writes the scalar where the predicate's truth equals `reversed_pred`. The header's
/// narrative describes the opposite; the struct's pseudocode is followed (OPEN).
fn scalar_is_written(predicate: u64, reversed: bool) -> bool {
    (predicate != 0) == reversed
}

/// 0xE8: writes the scalar's bits under the predicate, elsewhere the destination is unchanged.
pub(super) fn copy_predicated_scalar(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, cp::NUM_ACTIVE_CHANNELS);
    let predicate = operand(env, cp::PRED, dtype(env, cp::PRED_DTYPE)?, n)?;
    require_int(predicate.dtype)?;
    let dst = operand(env, cp::DST, dtype(env, cp::OUT_DTYPE)?, n)?;
    same_dtype(dtype(env, cp::IN_DTYPE)?, dst.dtype)?;
    same_count(&predicate, &dst)?;
    let scalar = Scalar::decode(env, cp::SRC0_IMM_SRC, cp::SRC0_IMM, dst.dtype, n)?;
    let reversed = env.inst.get(cp::REVERSED_PRED) != 0;
    let plan = Plan::new(env).source(&predicate)?.scalar(&scalar)?.dest_maybe(&dst)?;
    let order = plan.order(n)?;
    plan.work(CostRow::Predicated, dst.len(), move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let [p, x, ..] = &mut b;
        for c in order.iter() {
            predicate.gather_bits(lane, c, p)?;
            x.clear();
            x.resize(p.len(), scalar.bits(lane, c, dst.dtype)?);
            store_where(&dst, lane, c, x, |k| scalar_is_written(p[k], reversed))?;
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}

/// 0x98: per channel a predicate scalar chooses between the tensor and a scalar; bits only.
pub(super) fn tensor_scalar_select(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, se::NUM_ACTIVE_CHANNELS);
    let dtype_ = dtype(env, se::DTYPE)?;
    let src0 = operand(env, se::SRC0, dtype_, n)?;
    let dst = operand(env, se::DST, dtype_, n)?;
    same_count(&src0, &dst)?;
    let predicate_dtype = dtype(env, se::PRED_IMM_DTYPE)?;
    require_int(predicate_dtype)?;
    let src1 = Scalar::decode(env, se::SRC1_IMM_SRC, se::SRC1_IMM, dtype_, n)?;
    let predicate = Scalar::decode(env, se::PRED_IMM_SRC, se::PRED_IMM, predicate_dtype, n)?;
    let reversed = env.inst.get(se::REVERSED_PRED) != 0;
    let plan = Plan::new(env).source(&src0)?.scalar(&src1)?.scalar(&predicate)?.dest(&dst)?;
    let order = plan.order(n)?;
    let len = dst.len();
    plan.work(CostRow::Predicated, len, move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let x = &mut b[0];
        for c in order.iter() {
            let p = predicate.bits(lane, c, predicate_dtype)? != 0;
            if p != reversed {
                src0.gather_bits(lane, c, x)?;
            } else {
                x.clear();
                x.resize(len, src1.bits(lane, c, dtype_)?);
            }
            dst.scatter_bits(lane, c, x)?;
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}

/// 0xEA: src1 where the predicate src0 holds, elsewhere the scalar; optionally the maximum of all
/// results goes to the accumulator (vendor docs: nki.isa.select_reduce).
pub(super) fn select_reduce(env: &Env<'_>) -> Result<Prepared> {
    let stt::Operands { op0, op1, reverse: (reversed, second), imm0, src0, src1, dst } =
        stt::decode(env, false)?;
    if (op0, op1, second) != (AluOp::Bypass, AluOp::Max, false) {
        return Err(Error::illegal("op", "SELECT_REDUCE has BYPASS, MAX and no second reversal"));
    }
    require_int(src0.dtype)?;
    let cmd = command(env, st::ACCUMULATOR_CMD, AluOp::Max)?;
    if cmd == Command::Load {
        return Err(Error::illegal("accumulator_cmd", "this opcode has no initial value to load"));
    }
    let n = dst.channels;
    let plan = Plan::new(env).source(&src0)?.source(&src1)?.scalar(&imm0)?.dest(&dst)?;
    let order = plan.order(n)?;
    plan.work(CostRow::Predicated, dst.len(), move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let mut f = take(&mut lane.scratch.f32);
        for c in order.iter() {
            let other = imm0.f32(lane, c)?;
            src0.gather_bits(lane, c, &mut b[0])?;
            src1.gather_f32(lane, c, &mut f[0])?;
            for (x, &p) in f[0].iter_mut().zip(&b[0]) {
                if (p != 0) == reversed {
                    *x = other;
                }
            }
            cmd.fold(&mut lane.state.vector, n, c, None, AluOp::Max, &f[0])?;
            store_f32(&dst, lane, c, &f[0])?;
        }
        lane.scratch.bits = b;
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

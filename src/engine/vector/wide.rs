//! INT_WIDE 0xF3, 0xF4 (v5): full 64-bit results of integer operations, low and high word apart
//! (wiki: firmware/kernels/intwide-bf16-extremes 3).

use std::mem::take;

use super::common::*;
use super::scalar::Scalar;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Lane, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::{s2d2d2_ts_wide as sw, s2s2d2d2_tt as tw};
use crate::numeric::{AluOp, Dtype, alu};

fn check_op(op: AluOp) -> Result<()> {
    let add_like = matches!(op, AluOp::AddInt | AluOp::SubtractInt);
    if add_like || matches!(op, AluOp::MultInt | AluOp::MultUint) || op.is_shift() {
        return Ok(());
    }
    Err(Error::illegal("int_wide_op", format!("{op} has no wide form")))
}

fn store(dst: &[Operand; 2], lane: &mut Lane<'_>, c: u32, out: &[Vec<i64>; 2]) -> Result<()> {
    dst[0].scatter_i64(lane, c, &out[0])?;
    dst[1].scatter_i64(lane, c, &out[1])
}

/// 0xF3: src0 op src1.
pub(super) fn tensor_tensor_int_wide(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, tw::NUM_ACTIVE_CHANNELS);
    let op = alu(env, tw::OP)?;
    check_op(op)?;
    let (d0, d1) = dtype_pair(env, tw::IN0_IN1_DTYPE)?;
    let (o0, o1) = dtype_pair(env, tw::OUT0_OUT1_DTYPE)?;
    [d0, d1, o0, o1].into_iter().try_for_each(require_int)?;
    let src0 = sbuf_operand(env, tw::SRC0, d0, n)?;
    let src1 = sbuf_operand(env, tw::SRC1, d1, n)?;
    let dst = [sbuf_operand(env, tw::DST0, o0, n)?, sbuf_operand(env, tw::DST1, o1, n)?];
    same_count(&src0, &src1)?;
    same_count(&src0, &dst[0])?;
    same_count(&src0, &dst[1])?;
    let plan = Plan::new(env).source(&src0)?.source(&src1)?.dest(&dst[0])?.dest(&dst[1])?;
    let order = plan.order(n)?;
    plan.work(CostRow::TensorTensor, src0.len(), move |lane| {
        let [mut x, mut y, low, high] = take(&mut lane.scratch.i64);
        let mut out = [low, high];
        for c in order.iter() {
            src0.gather_i64(lane, c, &mut x)?;
            src1.gather_i64(lane, c, &mut y)?;
            out.iter_mut().for_each(Vec::clear);
            for (&a, &b) in x.iter().zip(&y) {
                let (low, high) = alu::apply_wide(op, a, b)?;
                out[0].push(i64::from(low));
                out[1].push(i64::from(high));
            }
            store(&dst, lane, c, &out)?;
        }
        let [low, high] = out;
        lane.scratch.i64 = [x, y, low, high];
        Outcome::none()
    })
}

/// 0xF4: src op immediate.
pub(super) fn tensor_scalar_int_wide(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, sw::NUM_ACTIVE_CHANNELS);
    let op = alu(env, sw::OP)?;
    check_op(op)?;
    let (din, dimm): (Dtype, Dtype) = dtype_pair(env, sw::IN_IMM_DTYPE)?;
    let (o0, o1) = dtype_pair(env, sw::OUT0_OUT1_DTYPE)?;
    [din, dimm, o0, o1].into_iter().try_for_each(require_int)?;
    let src = operand(env, sw::SRC, din, n)?;
    let imm = Scalar::decode(env, sw::IMM_SRC, sw::IMM, dimm, n)?;
    let dst = [operand(env, sw::DST0, o0, n)?, operand(env, sw::DST1, o1, n)?];
    same_count(&src, &dst[0])?;
    same_count(&src, &dst[1])?;
    let plan = Plan::new(env).source(&src)?.scalar(&imm)?.dest(&dst[0])?.dest(&dst[1])?;
    let order = plan.order(n)?;
    plan.work(CostRow::TensorScalar, src.len(), move |lane| {
        let [mut x, rest, low, high] = take(&mut lane.scratch.i64);
        let mut out = [low, high];
        for c in order.iter() {
            src.gather_i64(lane, c, &mut x)?;
            let b = imm.i64(lane, c, dimm)?;
            out.iter_mut().for_each(Vec::clear);
            for &a in &x {
                let (low, high) = alu::apply_wide(op, a, b)?;
                out[0].push(i64::from(low));
                out[1].push(i64::from(high));
            }
            store(&dst, lane, c, &out)?;
        }
        let [low, high] = out;
        lane.scratch.i64 = [x, rest, low, high];
        Outcome::none()
    })
}

//! TENSOR_TENSOR 0x41, 0x51 and the packed BF16 forms of v2: dst = src0 op src1
//! (wiki: firmware/kernels/tensor-tensor, firmware/kernels/intwide-bf16-extremes).

use std::mem::take;

use super::common::*;
use super::domain::{Domain, native_or_float};
use super::rows::*;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Lane, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::{Engine, f::s3s3d3_tt as tt};
use crate::numeric::simd::vectorize;
use crate::numeric::{AluOp, Dtype, alu};

/// Operands of the struct S3S3D3_TT with equal counts: (src0, src1, dst).
pub(super) fn operands(env: &Env<'_>) -> Result<(Operand, Operand, Operand)> {
    let (d0, d1) = dtype_pair(env, tt::IN0_IN1_DTYPE)?;
    let n = channels(env, tt::NUM_ACTIVE_CHANNELS);
    let src0 = operand(env, tt::SRC0, d0, n)?;
    let src1 = operand(env, tt::SRC1, d1, n)?;
    let dst = operand(env, tt::DST, dtype(env, tt::OUT_DTYPE)?, n)?;
    same_count(&src0, &src1)?;
    same_count(&src0, &dst)?;
    Ok((src0, src1, dst))
}

/// 0x41: arithmetic in FP32, or in native integers where the operation or POOL has them.
pub(super) fn tensor_tensor_arith_op(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, tt::OP)?;
    if !op.is_tensor_tensor_arith() {
        return Err(Error::illegal("is_general_arith_op", format!("{op} is not legal here")));
    }
    let (src0, src1, dst) = operands(env)?;
    let domain = native_or_float(env, op, &[src0.dtype, src1.dtype], dst.dtype)?;
    tensor_tensor(env, op, domain, src0, src1, dst)
}

/// 0x51: raw bits. The count operand of a shift may be narrower than a 64-bit value.
pub(super) fn tensor_tensor_bitvec_op(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, tt::OP)?;
    bitvec(env, op)?;
    let (src0, src1, dst) = operands(env)?;
    for dtype in [src0.dtype, src1.dtype, dst.dtype] {
        require_int(dtype)?;
        if dtype.bits() == 64 && env.engine != Engine::Pool {
            return Err(Error::illegal("engine_dtype", "64-bit integers exist on POOL only"));
        }
    }
    let domain = Domain::Bits(dst.dtype.bits());
    tensor_tensor(env, op, domain, src0, src1, dst)
}

fn packed_bf16(env: &Env<'_>, op: AluOp) -> Result<Prepared> {
    let (src0, src1, dst) = operands(env)?;
    if src0.dtype != Dtype::Bf16 || src1.dtype != Dtype::Bf16 {
        return Err(Error::illegal("is_valid_dtype", "the packed forms take BF16 sources"));
    }
    tensor_tensor(env, op, Domain::Float, src0, src1, dst)
}

/// 0x8A (v2): as 0x41 with ADD on BF16, at twice the rate.
pub(super) fn tensor_tensor_add_bf16(env: &Env<'_>) -> Result<Prepared> {
    packed_bf16(env, AluOp::Add)
}

/// 0x8B (v2): MULT.
pub(super) fn tensor_tensor_mult_bf16(env: &Env<'_>) -> Result<Prepared> {
    packed_bf16(env, AluOp::Mult)
}

/// 0x8F (v2): SUBTRACT.
pub(super) fn tensor_tensor_sub_bf16(env: &Env<'_>) -> Result<Prepared> {
    packed_bf16(env, AluOp::Subtract)
}

/// The work of `dst = src0 op src1` in `domain`.
pub(super) fn tensor_tensor(
    env: &Env<'_>,
    op: AluOp,
    domain: Domain,
    src0: Operand,
    src1: Operand,
    dst: Operand,
) -> Result<Prepared> {
    let (n, len) = (dst.channels, dst.len());
    let mut plan = Plan::new(env).source(&src0)?;
    if !op.is_unary() {
        plan = plan.source(&src1)?;
    }
    plan = plan.dest(&dst)?.flops(u64::from(n) * len as u64).operation(op);
    let order = plan.order(n)?;
    let plain = !op.is_unary() && [&src0, &src1, &dst].into_iter().all(is_plain_f32);
    // A single-operand operation does not read src1; its place in the evaluator is filled by src0.
    let src1 = if op.is_unary() { src0.clone() } else { src1 };
    plan.work(CostRow::TensorTensor, len, move |lane| {
        match domain {
            Domain::Float => {
                let mut f = take(&mut lane.scratch.f32);
                let [x, y, out, ..] = &mut f;
                for c in order.iter() {
                    if plain && in_place_f32(op, lane, c, &src0, &src1, &dst)? {
                        continue;
                    }
                    out.resize(len, 0.0);
                    let a = f32_row(&src0, lane, c, x)?;
                    let b = f32_row(&src1, lane, c, y)?;
                    alu::apply_f32_tt(op, a, b, out)?;
                    store_f32(&dst, lane, c, out)?;
                }
                lane.scratch.f32 = f;
            }
            Domain::Native(dtype) => {
                let mut i = take(&mut lane.scratch.i64);
                let [x, y, out, _] = &mut i;
                for c in order.iter() {
                    src0.gather_i64(lane, c, x)?;
                    src1.gather_i64(lane, c, y)?;
                    out.resize(len, 0);
                    alu::apply_i64_tt(op, x, y, dtype, out)?;
                    dst.scatter_i64(lane, c, out)?;
                }
                lane.scratch.i64 = i;
            }
            Domain::Bits(width) => {
                let mut b = take(&mut lane.scratch.bits);
                let [x, y, out, _] = &mut b;
                for c in order.iter() {
                    src0.gather_bits(lane, c, x)?;
                    src1.gather_bits(lane, c, y)?;
                    out.resize(len, 0);
                    alu::apply_bits_tt(op, x, y, width, out)?;
                    dst.scatter_bits(lane, c, out)?;
                }
                lane.scratch.bits = b;
            }
        }
        Outcome::none()
    })
}

/// Contiguous FP32 rows that do not overlap, or overlap exactly: computed where they lie. False
/// when the rows are laid out otherwise and nothing was done.
fn in_place_f32(
    op: AluOp,
    lane: &mut Lane<'_>,
    c: u32,
    src0: &Operand,
    src1: &Operand,
    dst: &Operand,
) -> Result<bool> {
    let (a, b, out) = (src0.row(c), src1.row(c), dst.row(c));
    if let Some(([a, b], out)) = lane.mem.rows_and_mut([a, b], out)? {
        let (Some(a), Some(b), Some(out)) = (as_f32(a), as_f32(b), as_f32_mut(out)) else {
            return Ok(false);
        };
        if op == AluOp::Add && a.len() == b.len() && a.len() == out.len() {
            add_rows(a, b, out);
        } else {
            alu::apply_f32_tt(op, a, b, out)?;
        }
        return Ok(true);
    }
    let (other, swapped) = if a == out { (b, false) } else { (a, true) };
    if (swapped && b != out) || a == b {
        return Ok(false);
    }
    let Some(([other], out)) = lane.mem.rows_and_mut([other], out)? else { return Ok(false) };
    let (Some(other), Some(out)) = (as_f32(other), as_f32_mut(out)) else { return Ok(false) };
    alu::apply_f32_assign(op, out, other, swapped)?;
    Ok(true)
}

/// Sums of two rows, as the evaluator computes them: NaN results are rare, so they are made
/// canonical in a second pass that mostly does not happen.
fn add_rows(a: &[f32], b: &[f32], out: &mut [f32]) {
    let nan = vectorize(|| {
        let mut nan = 0u32;
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            let sum = a + b;
            nan |= u32::from(sum.is_nan());
            *out = sum;
        }
        nan
    });
    if nan != 0 {
        out.iter_mut().for_each(|x| *x = canonical(*x));
    }
}

//! TENSOR_CUMULATIVE 0x4E, 0x5E (wiki: firmware/kernels/tensorcumulative) and
//! TENSOR_TENSOR_SCAN 0xE5 (wiki: firmware/kernels/tensor-tensor-scan).

use std::mem::take;

use super::common::*;
use super::domain::Domain;
use super::reduce::operands;
use super::rows::*;
use super::stt;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::s4d4_tr as tr;
use crate::numeric::{AluOp, alu};

/// 0x4E: running value of each outer group, the accumulated value on the left, kept in FP32.
pub(super) fn tensor_cumulative_arith_op(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, tr::OP)?;
    if !op.is_arith() || matches!(op, AluOp::Divide | AluOp::Pow | AluOp::Mod) {
        return Err(Error::illegal("is_arith_op", format!("{op} is not legal here")));
    }
    let (src, dst) = operands(env)?;
    // The integer members and RSQRT pass the header's check on the engine that runs this opcode
    // (wiki: firmware/kernels/tensorcumulative), so there is no engine test here.
    let domain = if op.is_integer_band() {
        require_int(src.dtype)?;
        require_int(dst.dtype)?;
        Domain::Native(if dst.dtype.bits() > src.dtype.bits() { dst.dtype } else { src.dtype })
    } else {
        Domain::Float
    };
    cumulative(env, op, domain, src, dst)
}

/// 0x5E: as 0x4E on raw bits.
pub(super) fn tensor_cumulative_bitvec_op(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, tr::OP)?;
    bitvec(env, op)?;
    let (src, dst) = operands(env)?;
    require_int(src.dtype)?;
    same_dtype(src.dtype, dst.dtype)?;
    let domain = Domain::Bits(src.dtype.bits());
    cumulative(env, op, domain, src, dst)
}

fn cumulative(
    env: &Env<'_>,
    op: AluOp,
    domain: Domain,
    src: Operand,
    dst: Operand,
) -> Result<Prepared> {
    same_count(&src, &dst)?;
    let dims = subdim(env, tr::OP_DIM)?;
    if dims == 0 {
        return Err(Error::illegal("is_valid_subdim", "a running operation names no dimension"));
    }
    let group = group_len(&src, dims).max(1);
    let (n, len) = (dst.channels, dst.len());
    let plan = Plan::new(env).source(&src)?.dest(&dst)?.flops(u64::from(n) * len as u64);
    let order = plan.order(n)?;
    plan.work(CostRow::Scan, len, move |lane| {
        match domain {
            Domain::Float => {
                let mut f = take(&mut lane.scratch.f32);
                let [x, out, ..] = &mut f;
                for c in order.iter() {
                    let values = f32_row(&src, lane, c, x)?;
                    out.resize(len, 0.0);
                    let groups = values.chunks_exact(group).zip(out.chunks_exact_mut(group));
                    for (values, out) in groups {
                        alu::scan_f32(op, values, None, out)?;
                    }
                    store_f32(&dst, lane, c, out)?;
                }
                lane.scratch.f32 = f;
            }
            Domain::Native(dtype) => {
                let mut i = take(&mut lane.scratch.i64);
                let x = &mut i[0];
                for c in order.iter() {
                    src.gather_i64(lane, c, x)?;
                    running(x, group, |acc, x| alu::apply_i64(op, acc, x, dtype))?;
                    dst.scatter_i64(lane, c, x)?;
                }
                lane.scratch.i64 = i;
            }
            Domain::Bits(width) => {
                let mut b = take(&mut lane.scratch.bits);
                let x = &mut b[0];
                for c in order.iter() {
                    src.gather_bits(lane, c, x)?;
                    running(x, group, |acc, x| alu::apply_bits(op, acc, x, width))?;
                    dst.scatter_bits(lane, c, x)?;
                }
                lane.scratch.bits = b;
            }
        }
        Outcome::none()
    })
}

/// Replaces each element by the running value of its group.
fn running<T: Copy>(values: &mut [T], group: usize, op: impl Fn(T, T) -> Result<T>) -> Result<()> {
    for group in values.chunks_exact_mut(group) {
        let mut acc = None;
        for x in group {
            *x = match acc {
                None => *x,
                Some(acc) => op(acc, *x)?,
            };
            acc = Some(*x);
        }
    }
    Ok(())
}

/// 0xE5: r = (src0 op0 r) op1 src1, from the immediate on; every r is a result. The first reverse
/// flag swaps the operands of op0, the second those of op1 (vendor docs: nki.isa.tensor_tensor_scan,
/// which overrides the page's own inference).
pub(super) fn tensor_tensor_scan_arith(env: &Env<'_>) -> Result<Prepared> {
    let stt::Operands { op0, op1, reverse: (first, second), imm0, src0, src1, dst } =
        stt::decode(env, false)?;
    for op in [op0, op1] {
        if !op.is_general_arith() {
            return Err(Error::illegal("is_general_arith_op", format!("{op} is not legal here")));
        }
    }
    let (n, len) = (dst.channels, dst.len());
    let plan = Plan::new(env).source(&src0)?.source(&src1)?.scalar(&imm0)?.dest(&dst)?;
    let plan = plan.flops(2 * u64::from(n) * len as u64);
    let order = plan.order(n)?;
    plan.work(CostRow::Scan, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [x, y, out, ..] = &mut f;
        for c in order.iter() {
            let seed = imm0.f32(lane, c)?;
            let a = f32_row(&src0, lane, c, x)?;
            let b = f32_row(&src1, lane, c, y)?;
            out.clear();
            let mut r = seed;
            let pairs = a.iter().zip(b);
            if (op0, op1, second) == (AluOp::Mult, AluOp::Add, false) {
                // The linear recurrence is what this instruction is mostly used for.
                out.extend(pairs.map(|(&a, &b)| {
                    r = canonical(canonical(a * r) + b);
                    r
                }));
            } else {
                for (&a, &b) in pairs {
                    let (left, right) = if first { (r, a) } else { (a, r) };
                    let u = alu::apply_f32(op0, left, right)?;
                    let (left, right) = if second { (b, u) } else { (u, b) };
                    r = alu::apply_f32(op1, left, right)?;
                    out.push(r);
                }
            }
            store_f32(&dst, lane, c, out)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

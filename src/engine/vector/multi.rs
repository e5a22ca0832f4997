//! Scalars loaded ahead, one for each slice of the W dimension: TENSOR_SCALAR_IMM_LD 0x70, 0x71
//! (wiki: firmware/kernels/ts-immld), TENSOR_SCALAR_PTR_MULTI 0x4F, 0x5F
//! (wiki: firmware/kernels/ts-ptrmulti) and the dual form 0x87 of v2
//! (wiki: firmware/kernels/sunda-dual-tensorscalarptr).
//!
//! The firmware of later generations only logs these opcodes; the header's contract is executed.

use std::mem::take;

use super::common::*;
use super::rows::*;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::{s2_bn as bn, s4d4_tsm as tm};
use crate::numeric::{AluOp, alu};

/// Scalar flops of a channel: 0..3 feed the first stage of the dual form, 4..7 the second.
pub(super) const FLOPS: usize = 8;

fn load(env: &Env<'_>, as_f32: bool) -> Result<Prepared> {
    let n = channels(env, bn::NUM_ACTIVE_CHANNELS);
    let src = operand(env, bn::SRC, dtype(env, bn::DTYPE)?, n)?;
    let len = src.len();
    if !(1..=FLOPS).contains(&len) {
        return Err(Error::illegal("src_element_count", format!("{len} scalars of 1..8")));
    }
    Plan::new(env).source(&src)?.work(CostRow::StateLoad, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let mut b = take(&mut lane.scratch.bits);
        for c in 0..n {
            if as_f32 {
                src.gather_f32(lane, c, &mut f[0])?;
                b[0].clear();
                b[0].extend(f[0].iter().map(|x| u64::from(x.to_bits())));
            } else {
                src.gather_bits(lane, c, &mut b[0])?;
            }
            let flops = &mut state_rows(&mut lane.state.vector.flops, n, [0; FLOPS])[c as usize];
            for (flop, &bits) in flops.iter_mut().zip(&b[0]) {
                *flop = bits as u32;
            }
        }
        lane.scratch.f32 = f;
        lane.scratch.bits = b;
        Outcome::none()
    })
}

/// 0x70: loads 1 to 8 scalars per channel, converted to FP32.
pub(super) fn tensor_scalar_imm_ld_arith(env: &Env<'_>) -> Result<Prepared> {
    load(env, true)
}

/// 0x71: loads 1 to 8 scalars per channel as zero-extended bits.
pub(super) fn tensor_scalar_imm_ld_bitvec(env: &Env<'_>) -> Result<Prepared> {
    load(env, false)
}

/// Source, destination, slices along W, and `reverse_operands`.
fn operands(env: &Env<'_>, most: u32) -> Result<(Operand, Operand, usize, (bool, bool))> {
    let n = channels(env, tm::NUM_ACTIVE_CHANNELS);
    let src = operand(env, tm::SRC, dtype(env, tm::IN_DTYPE)?, n)?;
    let dst = operand(env, tm::DST, dtype(env, tm::OUT_DTYPE)?, n)?;
    same_count(&src, &dst)?;
    let slices = src.walk.dims.get(3).map_or(1, |d| d.1);
    if !(1..=most).contains(&slices) {
        return Err(Error::illegal("num_elem[3]", format!("{slices} slices of 1..{most}")));
    }
    Ok((src, dst, slices as usize, reverse(env, tm::REVERSE_OPERANDS)?))
}

/// 0x4F: slice w of the tensor op scalar w.
pub(super) fn tensor_scalar_ptr_multi_arith(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, tm::OP)?;
    if !op.is_general_arith() {
        return Err(Error::illegal("is_general_arith_op", format!("{op} is not legal here")));
    }
    let (src, dst, slices, (swap, _)) = operands(env, 8)?;
    float(env, src, dst, slices, move |flops, w, values| {
        alu::apply_f32_ts_assign(op, values, f32::from_bits(flops[w]), swap)
    })
}

/// 0x87 (v2): (slice w op scalar w) times scalar 4 + w. OPEN: which two flops make a pair is
/// inferred from the banks.
pub(super) fn tensor_scalar_ptr_multi_dual_arith(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, tm::OP)?;
    if !op.is_general_arith() {
        return Err(Error::illegal("is_general_arith_op", format!("{op} is not legal here")));
    }
    let (src, dst, slices, (first, second)) = operands(env, 4)?;
    float(env, src, dst, slices, move |flops, w, values| {
        alu::apply_f32_ts_assign(op, values, f32::from_bits(flops[w]), first)?;
        alu::apply_f32_ts_assign(AluOp::Mult, values, f32::from_bits(flops[4 + w]), second)
    })
}

fn float(
    env: &Env<'_>,
    src: Operand,
    dst: Operand,
    slices: usize,
    apply: impl Fn(&[u32; FLOPS], usize, &mut [f32]) -> Result<()> + Send + Sync + 'static,
) -> Result<Prepared> {
    let (n, len) = (dst.channels, dst.len());
    let plan = Plan::new(env).source(&src)?.dest(&dst)?.flops(u64::from(n) * len as u64);
    let order = plan.order(n)?;
    plan.work(CostRow::TensorScalar, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let values = &mut f[0];
        for c in order.iter() {
            let flops = state_rows(&mut lane.state.vector.flops, n, [0; FLOPS])[c as usize];
            src.gather_f32(lane, c, values)?;
            for (w, slice) in values.chunks_exact_mut(len / slices).enumerate() {
                apply(&flops, w, slice)?;
            }
            store_f32(&dst, lane, c, values)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x5F: as 0x4F on raw bits.
pub(super) fn tensor_scalar_ptr_multi_bitvec(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, tm::OP)?;
    bitvec(env, op)?;
    let (src, dst, slices, (swap, _)) = operands(env, 8)?;
    require_int(src.dtype)?;
    same_dtype(src.dtype, dst.dtype)?;
    let (n, len, width) = (dst.channels, dst.len(), dst.dtype.bits());
    let plan = Plan::new(env).source(&src)?.dest(&dst)?;
    let order = plan.order(n)?;
    plan.work(CostRow::TensorScalar, len, move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let [x, out, ..] = &mut b;
        let slice = len / slices;
        for c in order.iter() {
            let flops = state_rows(&mut lane.state.vector.flops, n, [0; FLOPS])[c as usize];
            src.gather_bits(lane, c, x)?;
            out.resize(len, 0);
            for (w, (x, out)) in x.chunks_exact(slice).zip(out.chunks_exact_mut(slice)).enumerate()
            {
                alu::apply_bits_ts(op, x, u64::from(flops[w]), swap, width, out)?;
            }
            dst.scatter_bits(lane, c, out)?;
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}

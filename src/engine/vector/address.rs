//! TENSOR_SCALAR_ADDR 0x74: integer arithmetic that turns indices into addresses and tests ranges
//! (wiki: firmware/kernels/pool-compute-misc 10).

use std::mem::take;

use super::common::*;
use super::scalar::Scalar;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::s2d2_addr as ad;
use crate::memory::Space;
use crate::numeric::{AluOp, Dtype, alu};

/// The dtype in which one of the five legal shapes computes.
///
/// OPEN: whether a 32-bit product wraps before a 64-bit addition is not stated; it does not here,
/// since the result is an address.
fn domain(op0: AluOp, op1: AluOp, din: Dtype, dout: Dtype) -> Option<Dtype> {
    use AluOp::{Add, Bypass, IsLt, Mult, Subtract};
    use Dtype::{Int32, Uint32, Uint64};
    match (op0, op1, din, dout) {
        (Mult, Add, Int32, Uint64) | (Add, Bypass, Int32, Uint64) => Some(Uint64),
        (Mult, Bypass | Add, Int32, Int32) => Some(Int32),
        (Subtract, IsLt, Uint64, out) if out.is_int_datapath() => Some(Uint64),
        (Subtract, IsLt, Uint32, out) if out.is_int_datapath() => Some(Uint32),
        _ => None,
    }
}

/// 0x74: (src op0 immediate 0) op1 immediate 1 in native integers that wrap.
pub(super) fn tensor_scalar_addr(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, ad::NUM_ACTIVE_CHANNELS);
    let (din, dout) = dtype_pair(env, ad::IN_OUT_DTYPE)?;
    let (op0, op1) = (alu(env, ad::OP0)?, alu(env, ad::OP1)?);
    let Some(dtype) = domain(op0, op1, din, dout) else {
        return Err(Error::illegal(
            "tensor_scalar_addr",
            format!("{op0} then {op1} from {din} to {dout} is none of the five shapes"),
        ));
    };
    let src = sbuf_operand(env, ad::SRC, din, n)?;
    let dst = sbuf_operand(env, ad::DST, dout, n)?;
    same_count(&src, &dst)?;
    if src.space != Space::Sbuf || dst.space != Space::Sbuf {
        return Err(Error::illegal("sbuf_only", "address arithmetic works on SBUF"));
    }
    let (low, high) = env.inst.dtype_pair(ad::IMM0_IMM1_DTYPE);
    let scalar = |used: bool, code: u8, source, value| -> Result<Option<(Scalar, Dtype)>> {
        if !used {
            return Ok(None);
        }
        let dtype = Dtype::from_code(env.generation(), code)?;
        require_int(dtype)?;
        let source = env.inst.get(source) as u8;
        let scalar = Scalar::from_source(env, source, env.inst.get(value), dtype, n)?;
        Ok(Some((scalar, dtype)))
    };
    let imm0 = scalar(true, low, ad::IMM0_IS_PTR, ad::IMM0)?;
    let imm1 = scalar(op1 != AluOp::Bypass, high, ad::IMM1_IS_PTR, ad::IMM1)?;
    let (first, second) = reverse(env, ad::REVERSE_OPERANDS)?;
    let mut plan = Plan::new(env).source(&src)?;
    for (scalar, _) in [&imm0, &imm1].into_iter().flatten() {
        plan = plan.scalar(scalar)?;
    }
    let plan = plan.dest(&dst)?;
    let order = plan.order(n)?;
    let len = dst.len();
    plan.work(CostRow::TensorScalar, len, move |lane| {
        let mut i = take(&mut lane.scratch.i64);
        let [x, out, ..] = &mut i;
        for c in order.iter() {
            src.gather_i64(lane, c, x)?;
            for (op, imm, swap) in [(op0, &imm0, first), (op1, &imm1, second)] {
                if let Some((scalar, of)) = imm {
                    out.resize(len, 0);
                    let value = scalar.i64(lane, c, *of)?;
                    alu::apply_i64_ts(op, x, value, swap, dtype, out)?;
                    std::mem::swap(x, out);
                }
            }
            dst.scatter_i64(lane, c, x)?;
        }
        lane.scratch.i64 = i;
        Outcome::none()
    })
}

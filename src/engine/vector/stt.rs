//! SCALAR_TENSOR_TENSOR 0x9D, 0x9E: dst = (src0 op0 scalar) op1 src1
//! (wiki: firmware/kernels/scalar-tensor-tensor).

use std::mem::take;

use super::accumulator::{Command, command};
use super::common::*;
use super::rows::*;
use super::scalar::Scalar;
use crate::engine::cost::{CostRow, Operation};
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::{e, f::s2s2d2_stt as st};
use crate::numeric::{AluOp, Dtype, alu};

/// Decoded struct S2S2D2_STT.
pub(super) struct Operands {
    pub op0: AluOp,
    pub op1: AluOp,
    pub reverse: (bool, bool),
    pub imm0: Scalar,
    pub src0: Operand,
    pub src1: Operand,
    pub dst: Operand,
}

impl Operands {
    /// Drops what single-operand operations do not read, so that it is no part of the footprint.
    fn without_unused(mut self) -> Self {
        if self.op0.is_unary() && !self.reverse.0 {
            self.imm0 = Scalar::Inline(0);
        }
        if self.op1.is_unary() && !self.reverse.1 {
            self.src1 = self.src0.clone();
        }
        self
    }
}

/// Decodes the struct; with `bits` the immediate has the tensors' type.
pub(super) fn decode(env: &Env<'_>, bits: bool) -> Result<Operands> {
    let (d0, d1) = dtype_pair(env, st::IN0_IN1_DTYPE)?;
    let n = channels(env, st::NUM_ACTIVE_CHANNELS);
    let src0 = operand(env, st::SRC0, d0, n)?;
    let src1 = operand(env, st::SRC1, d1, n)?;
    let dst = operand(env, st::DST, dtype(env, st::OUT_DTYPE)?, n)?;
    same_count(&src0, &src1)?;
    same_count(&src0, &dst)?;
    let inline = env.inst.get(st::IMM0_SRC) as u8 == e::imm_src::INSTRUCTION_IMMEDIATE;
    let imm0_dtype = match (bits, inline) {
        (true, _) => d0,
        (false, true) => Dtype::Fp32,
        (false, false) => dtype(env, st::IMM0_DTYPE)?,
    };
    let imm0 = Scalar::decode(env, st::IMM0_SRC, st::IMM0, imm0_dtype, n)?;
    let reverse = reverse(env, st::REVERSE_OPERANDS)?;
    let (op0, op1) = (alu(env, st::OP0)?, alu(env, st::OP1)?);
    Ok(Operands { op0, op1, reverse, imm0, src0, src1, dst })
}

/// 0x9D: FP32; with an accumulator command the results are also summed into the channel's
/// accumulator. OPEN: the struct has no reduce operation; the sum is the vendor's default use.
pub(super) fn scalar_tensor_tensor_arith(env: &Env<'_>) -> Result<Prepared> {
    let Operands { op0, op1, reverse: (first, second), imm0, src0, src1, dst } =
        decode(env, false)?.without_unused();
    for op in [op0, op1] {
        if !op.is_general_arith() {
            return Err(Error::illegal("is_general_arith_op", format!("{op} is not legal here")));
        }
    }
    let cmd = command(env, st::ACCUMULATOR_CMD, AluOp::Add)?;
    if cmd == Command::Load {
        return Err(Error::illegal("accumulator_cmd", "this opcode has no initial value to load"));
    }
    let (n, len) = (dst.channels, dst.len());
    let plan = Plan::new(env).source(&src0)?.source(&src1)?.scalar(&imm0)?.dest(&dst)?;
    let plan = plan.flops(2 * u64::from(n) * len as u64);
    let plan = match (op0, op1) {
        (AluOp::Subtract, AluOp::Mult) => plan.operation(Operation::SubtractMult),
        _ => plan,
    };
    let order = plan.order(n)?;
    plan.work(CostRow::ScalarTensorTensor, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [x, y, ..] = &mut f;
        for c in order.iter() {
            let s = imm0.f32(lane, c)?;
            src0.gather_f32(lane, c, x)?;
            let b = f32_row(&src1, lane, c, y)?;
            // BYPASS passes its first operand, which the reverse flag may make the scalar.
            alu::apply_f32_ts_assign(op0, x, s, first)?;
            alu::apply_f32_assign(op1, x, b, second)?;
            cmd.fold(&mut lane.state.vector, n, c, None, AluOp::Add, x)?;
            store_f32(&dst, lane, c, x)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x9E: raw bits; all types are equal.
pub(super) fn scalar_tensor_tensor_bitvec(env: &Env<'_>) -> Result<Prepared> {
    let Operands { op0, op1, reverse: (first, second), imm0, src0, src1, dst } =
        decode(env, true)?.without_unused();
    for op in [op0, op1] {
        bitvec(env, op)?;
    }
    require_int(dst.dtype)?;
    same_dtype(src0.dtype, dst.dtype)?;
    same_dtype(src1.dtype, dst.dtype)?;
    let (len, width) = (dst.len(), dst.dtype.bits());
    let plan = Plan::new(env).source(&src0)?.source(&src1)?.scalar(&imm0)?.dest(&dst)?;
    let order = plan.order(dst.channels)?;
    plan.work(CostRow::ScalarTensorTensor, len, move |lane| {
        let mut b = take(&mut lane.scratch.bits);
        let [x, y, out, _] = &mut b;
        for c in order.iter() {
            let s = imm0.bits(lane, c, dst.dtype)?;
            src0.gather_bits(lane, c, x)?;
            src1.gather_bits(lane, c, y)?;
            out.resize(len, 0);
            alu::apply_bits_ts(op0, x, s, first, width, out)?;
            let (left, right) = if second { (&*y, &*out) } else { (&*out, &*y) };
            x.resize(len, 0);
            alu::apply_bits_tt(op1, left, right, width, x)?;
            dst.scatter_bits(lane, c, x)?;
        }
        lane.scratch.bits = b;
        Outcome::none()
    })
}

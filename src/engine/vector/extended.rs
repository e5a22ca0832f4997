//! Form 2 of EXTENDED_INST 0xF0, which the opcode's own row in the DMA family dispatches to
//! (wiki: firmware/kernels/ext-tensor-tensor-arith).

use super::common::*;
use super::domain::Domain;
use super::tensor_tensor::tensor_tensor;
use crate::engine::{Env, Prepared};
use crate::error::{Error, Result};
use crate::isa::{Generation, b, f::extended_tta as ta};
use crate::numeric::AluOp;

/// ADD or MULT of two tensors in FP32, at most 32 bits per element, over 16 channels for each
/// active port (128 where the field is 0).
pub(super) fn extended_tensor_tensor_arith(env: &Env<'_>) -> Result<Prepared> {
    if env.generation() < Generation::V3 {
        return Err(Error::missing_spec(
            "what EXTENDED_INST does before v3",
            "wiki: firmware/pool/pool-ext-0xf0",
        ));
    }
    let op = alu(env, ta::OP)?;
    if !matches!(op, AluOp::Add | AluOp::Mult) {
        return Err(Error::illegal("op", format!("{op} is neither ADD nor MULT")));
    }
    let n = match b::completion_info::NUM_ACTIVE_PORTS.get(env.inst.get(ta::COMPLETION_INFO)) {
        0 => 128,
        ports => 16 * ports as u32,
    };
    let (d0, d1) = dtype_pair(env, ta::IN0_IN1_DTYPE)?;
    let out = dtype(env, ta::OUT_DTYPE)?;
    if [d0, d1, out].iter().any(|d| d.bits() > 32) {
        return Err(Error::illegal("is_valid_dtype", "no 64-bit elements in this form"));
    }
    let src0 = operand(env, ta::SRC0, d0, n)?;
    let src1 = operand(env, ta::SRC1, d1, n)?;
    let dst = operand(env, ta::DST, out, n)?;
    same_count(&src0, &src1)?;
    same_count(&src0, &dst)?;
    tensor_tensor(env, op, Domain::Float, src0, src1, dst)
}

//! EXTENDED_INST 0xF0: the specs that are elementwise (wiki: firmware/kernels/ext-tensor-tensor-arith,
//! firmware/pool/pool-ext-0xf0). The other specs belong to the family that owns their plain opcode.

use super::common::*;
use super::copy::copy_or_cast;
use super::domain::Domain;
use super::tensor_tensor::tensor_tensor;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared, Status, indirect};
use crate::error::{Error, Result};
use crate::isa::f::{extended_copy as ec, extended_tta as ta};
use crate::isa::{Field, Generation, b, e::extended_opcode as spec, op};
use crate::numeric::AluOp;

const PAGE: &str = "wiki: firmware/pool/pool-ext-0xf0";

/// 0xF0, by its spec in byte 12.
pub(super) fn extended_inst(env: &Env<'_>) -> Result<Prepared> {
    if env.generation() < Generation::V3 {
        return Err(Error::missing_spec("what EXTENDED_INST does before v3", PAGE));
    }
    match env.inst.get(ta::EXTENDED_OPCODE) as u8 {
        spec::ENGINE_NOP => Plan::new(env).work(CostRow::Other, 0, |_| Outcome::none()),
        spec::COPY => extended_copy(env),
        spec::TENSOR_TENSOR_ARITH => extended_tensor_tensor_arith(env),
        other => elsewhere(env, other),
    }
}

/// Random state, peer copies, codecs and remote DMA are the business of the indirect family.
fn elsewhere(env: &Env<'_>, number: u8) -> Result<Prepared> {
    match indirect::OPS.iter().find(|row| row.byte == op::EXTENDED_INST).map(|row| row.status) {
        Some(Status::Done(prepare)) => prepare(env),
        Some(Status::MissingSpecification(fact, page)) => Err(Error::missing_spec(fact, page)),
        None => Err(Error::unimplemented(format!("EXTENDED_INST 0xf0, spec {number}"))),
    }
}

/// Channels of the active ports: 16 for each, all 128 for 0.
fn port_channels(env: &Env<'_>, field: Field) -> u32 {
    match b::completion_info::NUM_ACTIVE_PORTS.get(env.inst.get(field)) as u32 {
        0 => 128,
        ports => 16 * ports,
    }
}

/// Spec 1: as COPY, with a conversion where the types differ. OPEN: the places of the fields.
fn extended_copy(env: &Env<'_>) -> Result<Prepared> {
    let n = port_channels(env, ec::COMPLETION_INFO);
    let src = Operand::new(env, ec::SRC, dtype(env, ec::IN_DTYPE)?, n)?;
    let dst = Operand::new(env, ec::DST, dtype(env, ec::OUT_DTYPE)?, n)?;
    same_count(&src, &dst)?;
    copy_or_cast(env, src, dst)
}

/// Spec 2: ADD or MULT of two tensors in FP32; at most 32 bits per element.
fn extended_tensor_tensor_arith(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, ta::OP)?;
    if !matches!(op, AluOp::Add | AluOp::Mult) {
        return Err(Error::illegal("op", format!("{op} is neither ADD nor MULT")));
    }
    let n = port_channels(env, ta::COMPLETION_INFO);
    let (d0, d1) = dtype_pair(env, ta::IN0_IN1_DTYPE)?;
    let out = dtype(env, ta::OUT_DTYPE)?;
    if [d0, d1, out].iter().any(|d| d.bits() > 32) {
        return Err(Error::illegal("is_valid_dtype", "no 64-bit elements in this form"));
    }
    let src0 = Operand::new(env, ta::SRC0, d0, n)?;
    let src1 = Operand::new(env, ta::SRC1, d1, n)?;
    let dst = Operand::new(env, ta::DST, out, n)?;
    same_count(&src0, &src1)?;
    same_count(&src0, &dst)?;
    tensor_tensor(env, op, Domain::Float, src0, src1, dst)
}

//! LOAD_POOL_ARGUMENT 0x7A: the eight argument words of POOL kernels
//! (wiki: firmware/kernels/pool-compute-misc).

use super::common::*;
use super::scalar::Scalar;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::ctrl_im as im;
use crate::memory::Space;
use crate::numeric::Dtype;

/// Argument words.
pub(super) const ARGUMENTS: usize = 8;

/// 0x7A: word i is in the instruction, or behind an SBUF pointer where bit i of `imm_ptr_select`
/// is set.
pub(super) fn load_pool_argument(env: &Env<'_>) -> Result<Prepared> {
    let select = env.inst.get(im::IMM_PTR_SELECT);
    let words = env.inst.slice(im::IMMEDIATE).as_chunks::<4>().0;
    let mut plan = Plan::new(env);
    let mut arguments = Vec::with_capacity(ARGUMENTS);
    for (i, word) in words.iter().enumerate().take(ARGUMENTS) {
        let word = u32::from_le_bytes(*word);
        let scalar = if select >> i & 1 == 0 {
            Scalar::Inline(u64::from(word))
        } else {
            Scalar::pointer(env, word, Dtype::Uint32, 1)?
        };
        if let Scalar::Pointer(operand) = &scalar
            && operand.space != Space::Sbuf
        {
            return Err(Error::illegal("sbuf_only", format!("argument {i} is not in SBUF")));
        }
        plan = plan.scalar(&scalar)?;
        arguments.push(scalar);
    }
    plan.work(CostRow::StateLoad, ARGUMENTS, move |lane| {
        for (i, argument) in arguments.iter().enumerate() {
            lane.state.vector.pool_arguments[i] = argument.bits(lane, 0, Dtype::Uint32)? as u32;
        }
        Outcome::none()
    })
}

/// ENGINE_NOP 0x9F: does nothing, but goes through the data path in order, so that its updates come
/// after those of the instructions before it (wiki: firmware/seq/dispatch-hub).
pub(super) fn engine_nop(env: &Env<'_>) -> Result<Prepared> {
    Plan::new(env).work(CostRow::StateLoad, 1, |_| Outcome::none())
}

//! In which numbers an operation computes: FP32, integers of a dtype, or raw bits.

use super::common::{engine_has, on_pool_cores, require_int};
use crate::engine::Env;
use crate::error::{Error, Result};
use crate::isa::Engine;
use crate::numeric::{AluOp, Dtype};

/// Numbers of the computation (wiki: firmware/kernels/alu-op-matrix).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    /// FP32 for every operand type.
    Float,
    /// Integers that wrap at this dtype.
    Native(Dtype),
    /// Raw bits of this width.
    Bits(u32),
}

/// The dtype in which integers of all these dtypes fit; the sources decide the signedness. Mixed
/// signs compute in 64 bits, where both are exact.
fn widest(sources: &[Dtype], out: Dtype) -> Dtype {
    let Some(&first) = sources.first() else { return out };
    if sources.iter().any(|d| d.kind() != first.kind()) {
        return Dtype::Int64;
    }
    sources.iter().copied().chain([out]).fold(first, |widest, d| {
        if d.bits() <= widest.bits() {
            return widest;
        }
        match (d.bits(), first.is_signed()) {
            (16, true) => Dtype::Int16,
            (16, false) => Dtype::Uint16,
            (32, true) => Dtype::Int32,
            (32, false) => Dtype::Uint32,
            (_, true) => Dtype::Int64,
            (_, false) => Dtype::Uint64,
        }
    })
}

/// Domain of an arithmetic operation on two tensors.
///
/// Integer-band operations and 64-bit tensors are native. On the cores of POOL so is every other
/// operation with an integer form when all tensors are 32-bit integers, which keeps them exact;
/// DVE takes those through FP32 (vendor docs: nki.isa.tensor_tensor).
pub(super) fn native_or_float(
    env: &Env<'_>,
    op: AluOp,
    sources: &[Dtype],
    out: Dtype,
) -> Result<Domain> {
    engine_has(env, op)?;
    // The vector engine of v5 has integer operations with scalars only
    // (wiki: firmware/kernels/tensor-tensor-64bit 2.2).
    if op.is_int() && env.engine != Engine::Pool {
        return Err(Error::illegal(
            "is_valid_tensor_tensor_arith_dve",
            format!("{op} exists on POOL only, not on {:?}", env.engine),
        ));
    }
    let all = || sources.iter().copied().chain([out]);
    let wide = all().any(|d| d.bits() == 64);
    if wide && env.engine != Engine::Pool {
        return Err(Error::illegal("engine_dtype", "64-bit integers exist on POOL only"));
    }
    if wide || op.is_integer_band() || (op.is_int() && all().all(Dtype::is_int)) {
        all().try_for_each(require_int)?;
        return Ok(Domain::Native(widest(sources, out)));
    }
    let exact = all().all(|d| d.is_int() && d.bits() == 32) && op != AluOp::Pow;
    Ok(if on_pool_cores(env) && exact {
        Domain::Native(widest(sources, out))
    } else {
        Domain::Float
    })
}

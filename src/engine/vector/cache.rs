//! Tensor-scalar opcodes with the accumulator: TENSOR_SCALAR_CACHE_REDUCE 0x9A
//! (wiki: firmware/kernels/ts-cache-reduce), TENSOR_SCALAR_CACHE_CUMULATIVE 0xE6
//! (wiki: firmware/kernels/ts-cache-cumulative), EXPONENTIAL 0x30
//! (wiki: firmware/kernels/exponential).

use std::mem::take;

use super::accumulator::{Command, command};
use super::common::*;
use super::rows::*;
use super::scalar::Scalar;
use super::tensor_scalar::Stage;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::s3d3_ts as ts;
use crate::numeric::{AluOp, Dtype, alu};

/// Source and destination of the struct, of equal counts.
fn operands(env: &Env<'_>) -> Result<(Operand, Operand)> {
    let n = channels(env, ts::NUM_ACTIVE_CHANNELS);
    let src = operand(env, ts::SRC, dtype(env, ts::IN_DTYPE)?, n)?;
    let dst = operand(env, ts::DST, dtype(env, ts::OUT_DTYPE)?, n)?;
    same_count(&src, &dst)?;
    Ok((src, dst))
}

/// The initial value of LOAD_ACCUMULATE.
fn initial(env: &Env<'_>, cmd: Command, channels: u32) -> Result<Scalar> {
    if cmd != Command::Load {
        return Ok(Scalar::Inline(0));
    }
    Scalar::decode(env, ts::IMM1_SRC, ts::IMM1, Dtype::Fp32, channels)
}

/// What the destination gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// src op0 scalar.
    Elements,
    /// The running value of the accumulator.
    Running,
}

/// 0x9A: dst = src op0 scalar in full; the reduction by op1 goes to the accumulator
/// (vendor docs: nki.isa.tensor_scalar_reduce).
pub(super) fn tensor_scalar_cache_reduce(env: &Env<'_>) -> Result<Prepared> {
    cached(env, Output::Elements)
}

/// 0xE6: dst = the running value at every element (vendor docs:
/// nki.isa.tensor_scalar_cumulative).
pub(super) fn tensor_scalar_cache_cumulative(env: &Env<'_>) -> Result<Prepared> {
    cached(env, Output::Running)
}

fn cached(env: &Env<'_>, output: Output) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    let n = dst.channels;
    let (op0, op1) = (alu(env, ts::OP0)?, alu(env, ts::OP1)?);
    if !op0.is_general_arith() {
        return Err(Error::illegal("is_general_arith_op", format!("{op0} is not legal here")));
    }
    if !matches!(op1, AluOp::Add | AluOp::Subtract | AluOp::Mult | AluOp::Max | AluOp::Min) {
        return Err(Error::illegal("cache_op", format!("{op1} cannot accumulate")));
    }
    let scalar = || Scalar::decode(env, ts::IMM0_SRC, ts::IMM0, Dtype::Fp32, n);
    let stage = Stage::new(op0, false, scalar)?;
    let cmd = command(env, ts::ACCUMULATOR_CMD, op1)?;
    let (Command::Accumulate | Command::From(_) | Command::Load) = cmd else {
        return Err(Error::illegal("accumulator_cmd", "this opcode always accumulates"));
    };
    let loaded = initial(env, cmd, n)?;
    let len = dst.len();
    let plan = stage.plan(Plan::new(env).source(&src)?)?.scalar(&loaded)?.dest(&dst)?;
    let plan = plan.flops(2 * u64::from(n) * len as u64);
    let order = plan.order(n)?;
    plan.work(CostRow::TensorScalarReduce, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let values = &mut f[0];
        for c in order.iter() {
            let s = stage.f32(lane, c)?;
            src.gather_f32(lane, c, values)?;
            stage.apply_f32(s, values)?;
            let loaded = Some(loaded.f32(lane, c)?);
            let state = &mut lane.state.vector;
            let mut acc = cmd.start(state, n, c, loaded).unwrap_or_default();
            for x in values.iter_mut() {
                // The element stands on the left; only SUBTRACT tells (vendor docs).
                acc = alu::apply_f32(op1, *x, acc)?;
                if output == Output::Running {
                    *x = acc;
                }
            }
            state.accumulator[c as usize] = acc;
            store_f32(&dst, lane, c, values)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x30: dst = exp(src - immediate 0), rounded once; with an accumulator command also the sum of
/// the results. OPEN: how the device evaluates it is unknown (wiki: firmware/kernels/exponential).
pub(super) fn exponential(env: &Env<'_>) -> Result<Prepared> {
    let (src, dst) = operands(env)?;
    let n = dst.channels;
    for op in [alu(env, ts::OP0)?, alu(env, ts::OP1)?] {
        if op != AluOp::Bypass {
            return Err(Error::illegal("op", format!("EXPONENTIAL with {op}")));
        }
    }
    let shift = Scalar::decode(env, ts::IMM0_SRC, ts::IMM0, Dtype::Fp32, n)?;
    let cmd = command(env, ts::ACCUMULATOR_CMD, AluOp::Add)?;
    let loaded = initial(env, cmd, n)?;
    let len = dst.len();
    let plan = Plan::new(env).source(&src)?.scalar(&shift)?.scalar(&loaded)?.dest(&dst)?;
    let plan = plan.flops(2 * u64::from(n) * len as u64);
    let order = plan.order(n)?;
    plan.work(CostRow::Activation, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let values = &mut f[0];
        for c in order.iter() {
            let s = shift.f32(lane, c)?;
            src.gather_f32(lane, c, values)?;
            for x in values.iter_mut() {
                *x = canonical(libm::exp(f64::from(*x - s)) as f32);
            }
            let loaded = Some(loaded.f32(lane, c)?);
            cmd.fold(&mut lane.state.vector, n, c, loaded, AluOp::Add, values)?;
            store_f32(&dst, lane, c, values)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

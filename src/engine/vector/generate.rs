//! IOTA 0x7E (wiki: firmware/kernels/iota), TENSOR_SCALAR_AFFINE_SELECT 0x92
//! (wiki: firmware/kernels/affineselect) and RANGE_SELECT 0xBC (wiki: firmware/kernels/rangeselect).

use std::mem::take;

use smallvec::SmallVec;

use super::accumulator::{Command, command};
use super::common::*;
use super::rows::*;
use super::scalar::Scalar;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::{d4_iota as io, s2d2_rs as rs, s2d2_ts_as as af};
use crate::isa::{Field, Pattern};
use crate::numeric::{AluOp, Dtype, alu};

/// A DATA4D generator: base plus step times index in each dimension, X fastest, in 32-bit
/// integers that wrap.
#[derive(Clone, Debug)]
struct Generator {
    base: i32,
    dims: SmallVec<[(i32, u32); 4]>,
}

impl Generator {
    fn decode(env: &Env<'_>, field: Field) -> Result<Generator> {
        match env.inst.pattern(field)? {
            Pattern::Data { base, dims } => {
                let dims = dims.iter().map(|&(s, n)| (i32::from(s), u32::from(n))).collect();
                Ok(Generator { base, dims })
            }
            other => Err(Error::internal(format!("{other:?} is no generator of values"))),
        }
    }

    fn len(&self) -> usize {
        self.dims.iter().fold(1, |n, d| n.saturating_mul(d.1 as usize))
    }

    /// Replaces `out` by the values of channel 0.
    fn fill(&self, out: &mut Vec<i64>) {
        out.clear();
        out.push(i64::from(self.base));
        for &(step, num) in &self.dims {
            let inner = out.len();
            out.reserve(inner * (num as usize).saturating_sub(1));
            for i in 1..num {
                let shift = step.wrapping_mul(i as i32);
                for k in 0..inner {
                    out.push(i64::from((out[k] as i32).wrapping_add(shift)));
                }
            }
        }
    }
}

/// Value of the generator for channel `c`.
fn on_channel(value: i64, c: u32, multiplier: i32) -> i32 {
    (value as i32).wrapping_add(multiplier.wrapping_mul(c as i32))
}

/// 0x7E: dst = the generated integers, converted for float types, cut to the width for integers.
pub(super) fn iota(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, io::NUM_ACTIVE_CHANNELS);
    let dst = operand(env, io::DST, dtype(env, io::OUT_DTYPE)?, n)?;
    let generator = Generator::decode(env, io::SRC_DATA)?;
    require_count(&dst, generator.len())?;
    let multiplier = env.inst.get_i(io::CHANNEL_MULTIPLIER) as i32;
    let len = dst.len();
    Plan::new(env).dest(&dst)?.work(CostRow::Generate, len, move |lane| {
        let mut i = take(&mut lane.scratch.i64);
        let mut f = take(&mut lane.scratch.f32);
        let [base, row, ..] = &mut i;
        generator.fill(base);
        for c in 0..n {
            let values = base.iter().map(|&v| on_channel(v, c, multiplier));
            if dst.dtype.is_float() {
                f[0].clear();
                f[0].extend(values.map(|v| v as f32));
                store_f32(&dst, lane, c, &f[0])?;
            } else {
                row.clear();
                row.extend(values.map(i64::from));
                dst.scatter_i64(lane, c, row)?;
            }
        }
        lane.scratch.i64 = i;
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x92: keeps the source where the generated integer compares with 0 as asked, else the fill
/// value, an FP32 in a register.
pub(super) fn tensor_scalar_affine_select(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, af::NUM_ACTIVE_CHANNELS);
    let (din, dout) = dtype_pair(env, af::IN_OUT_DTYPE)?;
    let src = operand(env, af::SRC, din, n)?;
    let dst = operand(env, af::DST, dout, n)?;
    same_count(&src, &dst)?;
    let mask = Generator::decode(env, af::MASK)?;
    require_count(&dst, mask.len())?;
    let compare: fn(i32) -> bool = match env.inst.get(af::FILL_MODE) {
        0 => |m| m > 0,
        1 => |m| m >= 0,
        2 => |m| m == 0,
        3 => |m| m != 0,
        other => {
            return Err(Error::illegal("is_valid_enum", format!("fill_mode {other}")));
        }
    };
    let fill = f32::from_bits(env.register(env.inst.get(af::FILL_REG) as u8)?);
    let multiplier = env.inst.get_i(af::CHANNEL_MULTIPLIER) as i32;
    let plan = Plan::new(env).source(&src)?.dest(&dst)?;
    let order = plan.order(n)?;
    plan.work(CostRow::Generate, dst.len(), move |lane| {
        let mut i = take(&mut lane.scratch.i64);
        let mut f = take(&mut lane.scratch.f32);
        mask.fill(&mut i[0]);
        for c in order.iter() {
            src.gather_f32(lane, c, &mut f[0])?;
            for (x, &m) in f[0].iter_mut().zip(&i[0]) {
                if !compare(on_channel(m, c, multiplier)) {
                    *x = fill;
                }
            }
            store_f32(&dst, lane, c, &f[0])?;
        }
        lane.scratch.i64 = i;
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0xBC: keeps the source where the element's index, counted from `base`, lies inside both bounds,
/// else the fill value; optionally the maximum of the results goes to the accumulator. The vendor
/// manual compares the index, not the value (vendor docs: nki.isa.range_select).
pub(super) fn range_select(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, rs::NUM_ACTIVE_CHANNELS);
    let (din, dout) = dtype_pair(env, rs::IN_OUT_DTYPE)?;
    let src = operand(env, rs::SRC, din, n)?;
    let dst = operand(env, rs::DST, dout, n)?;
    same_count(&src, &dst)?;
    let ops = [alu(env, rs::COMP_OP0)?, alu(env, rs::COMP_OP1)?];
    if let Some(op) = ops.iter().find(|op| !op.is_general_arith() || !op.is_predicate()) {
        return Err(Error::illegal("comp_op", format!("{op} does not compare")));
    }
    let bounds = [
        Scalar::decode(env, rs::BOUND0_SRC, rs::BOUND0, Dtype::Fp32, n)?,
        Scalar::decode(env, rs::BOUND1_SRC, rs::BOUND1, Dtype::Fp32, n)?,
    ];
    let (base, fill) = (env.inst.get_f32(rs::BASE), env.inst.get_f32(rs::FILL_VAL));
    let cmd = command(env, rs::REDUCE_CMD, AluOp::Max)?;
    if cmd == Command::Load {
        return Err(Error::illegal("reduce_cmd", "this opcode has no initial value to load"));
    }
    let len = dst.len();
    let plan = Plan::new(env).source(&src)?.scalar(&bounds[0])?.scalar(&bounds[1])?.dest(&dst)?;
    let order = plan.order(n)?;
    plan.work(CostRow::Predicated, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [x, index, inside, other, ..] = &mut f;
        index.clear();
        index.extend((0..len).map(|k| base + k as f32));
        for c in order.iter() {
            src.gather_f32(lane, c, x)?;
            inside.resize(len, 0.0);
            other.resize(len, 0.0);
            let (low, high) = (bounds[0].f32(lane, c)?, bounds[1].f32(lane, c)?);
            alu::apply_f32_ts(ops[0], index, low, false, inside)?;
            alu::apply_f32_ts(ops[1], index, high, false, other)?;
            for ((x, &a), &b) in x.iter_mut().zip(&*inside).zip(&*other) {
                if a == 0.0 || b == 0.0 {
                    *x = fill;
                }
            }
            cmd.fold(&mut lane.state.vector, n, c, None, AluOp::Max, x)?;
            store_f32(&dst, lane, c, x)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

//! ACTIVATE (0x21) and ACTIVATE_QUANTIZE (0x22).
//!
//! `out = func(scale * x + bias)`, the affine stage rounded once, with a running sum of the FP32
//! results per channel (wiki: firmware/kernels/activate-pwl).

use super::function::{Function, affine_row};
use super::operands::{Rows, Scalar, Source, element};
use crate::engine::{CostQuery, CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Generation, e, f};
use crate::numeric::Dtype;

/// What the accumulator does with the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accumulate {
    Idle,
    /// Cleared, the results are not added (OPEN: the output is still written).
    Zero,
    Add,
    ZeroAdd,
    /// Starts from the immediate.
    LoadAdd,
}

impl Accumulate {
    fn from_code(code: u64) -> Result<Accumulate> {
        use e::accum_cmd as a;
        Ok(match code as u8 {
            a::IDLE => Accumulate::Idle,
            a::ZERO => Accumulate::Zero,
            a::ACCUMULATE => Accumulate::Add,
            a::ZERO_ACCUMULATE => Accumulate::ZeroAdd,
            a::LOAD_ACCUMULATE => Accumulate::LoadAdd,
            other => {
                return Err(Error::illegal(
                    "accumulator_cmd",
                    format!("accumulator command {other}"),
                ));
            }
        })
    }

    /// Updates `acc` with the results of one channel, in element order.
    fn update(self, acc: &mut f32, results: &[f32], immediate: f32) {
        match self {
            Accumulate::Idle => return,
            Accumulate::Zero | Accumulate::ZeroAdd => *acc = 0.0,
            Accumulate::LoadAdd => *acc = immediate,
            Accumulate::Add => {}
        }
        if self != Accumulate::Zero {
            *acc = sum(*acc, results);
        }
    }
}

/// `start` plus the values, one after the other.
pub(super) fn sum(start: f32, values: &[f32]) -> f32 {
    let total = values.iter().fold(start, |a, v| a + v);
    if total.is_nan() { crate::numeric::CANONICAL_NAN } else { total }
}

/// Element type of a bias.
fn bias_dtype(env: &Env<'_>, code: u8) -> Result<Dtype> {
    // Words of v1 leave it 0; FP32 is then meant (OPEN).
    if code == 0 && env.generation() == Generation::V1 {
        return Ok(Dtype::Fp32);
    }
    match Dtype::from_code(env.generation(), code)? {
        d @ (Dtype::Fp32 | Dtype::Bf16 | Dtype::Fp16) => Ok(d),
        other => Err(Error::illegal("bias_dtype", format!("a bias of {}", other.name()))),
    }
}

/// ACTIVATE 0x21.
pub(super) fn activate(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_ac as a;
    let inst = env.inst;
    let channels = inst.get(a::NUM_ACTIVE_CHANNELS) as u32;
    let (in_code, bias_code) = inst.dtype_pair(a::IN_BIAS_DTYPE);
    let src = Operand::any_form(env, a::SRC, element(env, in_code, false)?, channels)?;
    let out = element(env, inst.get(a::OUT_DTYPE) as u8, true)?;
    let dst = Operand::any_form(env, a::DST, out, channels)?;
    let command = Accumulate::from_code(inst.get(a::ACCUMULATOR_CMD))?;
    let scale_src = Source::from_imm_src(inst.get(a::SCALE_SRC))?;
    let scale = Scalar::new(env, a::SCALE_VALUE, scale_src, Dtype::Fp32, channels)?;
    let bias_src = Source::from_imm_src_n(inst.get(a::BIAS_SRC_N))?;
    // An inline bias is FP32 whatever the bias type says.
    let bias_type = match bias_src {
        Source::Inline => Dtype::Fp32,
        _ => bias_dtype(env, bias_code)?,
    };
    let bias = Scalar::new(env, a::BIAS, bias_src, bias_type, channels)?;
    let imm_src = Source::from_imm_src(inst.get(a::IMM_SRC))?;
    let imm = Scalar::new(env, a::IMM, imm_src, Dtype::Fp32, channels)?;
    let function = Function::new(inst.get(a::ACTIVATION_FUNC) as u8);
    let scalars = [&scale, &bias, &imm];
    let rows = Rows::new(src, dst, &scalars)?;
    let row = match command {
        Accumulate::Idle | Accumulate::Zero => CostRow::Activation,
        _ => CostRow::ActivationReduce,
    };
    let cost = CostQuery::new(row, rows.len() as u64, rows.cost(env));
    let accesses = rows.accesses(&scalars);
    let work = Work::new(accesses, cost, move |lane| {
        rows.run(lane, |lane, c, row| {
            let (scale, bias) = (scale.get(lane, c)?, bias.get(lane, c)?);
            let imm = imm.get(lane, c)?;
            affine_row(row, scale, bias);
            function.apply(lane, row, imm)?;
            if command != Accumulate::Idle {
                let acc = &mut lane.state.act.accumulator(c + 1)[c as usize];
                command.update(acc, row, imm);
            }
            Ok(())
        })?;
        Outcome::none()
    });
    Ok(work.into())
}

/// ACTIVATE_QUANTIZE 0x22: `quant_scale * func(x * dequant_scale + bias) + quant_zero` as UINT8,
/// rounded to nearest even and saturated; the second affine stage is rounded once like the first
/// (wiki: firmware/kernels/activate-pwl 4).
pub(super) fn activate_quantize(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_aq as a;
    let inst = env.inst;
    let channels = inst.get(a::NUM_ACTIVE_CHANNELS) as u32;
    let (in_code, bias_code) = inst.dtype_pair(a::IN_BIAS_DTYPE);
    let input = match Dtype::from_code(env.generation(), in_code)? {
        d @ (Dtype::Fp32 | Dtype::Int32) => d,
        other => {
            return Err(Error::illegal(
                "aq_in_dtype",
                format!("{} is not quantised", other.name()),
            ));
        }
    };
    let src = Operand::any_form(env, a::SRC, input, channels)?;
    let out = Dtype::from_code(env.generation(), inst.get(a::OUT_DTYPE) as u8)?;
    if out != Dtype::Uint8 {
        return Err(Error::illegal("aq_out_dtype", format!("{} is not UINT8", out.name())));
    }
    let dst = Operand::any_form(env, a::DST, out, channels)?;
    let bias_type = bias_dtype(env, bias_code)?;
    let bias = Scalar::new(env, a::BIAS_ADDR, Source::Pointer, bias_type, channels)?;
    let dequant = inst.get_f32(a::DEQUANT_SCALE_VALUE);
    let scale = inst.get_f32(a::QUANT_SCALE_VALUE);
    let zero = inst.get_f32(a::QUANT_ZERO_VALUE);
    if dequant == 0.0 || scale == 0.0 {
        return Err(Error::illegal("aq_scales", "a quantisation scale of zero"));
    }
    let number = inst.get(a::ACTIVATION_FUNC) as u8;
    if crate::numeric::ActFunc::Prelu.wire_id() == Some(number) {
        return Err(Error::illegal("aq_function", "the parametric ReLU has no quantised form"));
    }
    let function = Function::new(number);
    let scalars = [&bias];
    let rows = Rows::new(src, dst, &scalars)?;
    let cost = CostQuery::new(CostRow::Activation, rows.len() as u64, rows.cost(env));
    let accesses = rows.accesses(&scalars);
    let work = Work::new(accesses, cost, move |lane| {
        rows.run(lane, |lane, c, row| {
            affine_row(row, dequant, bias.get(lane, c)?);
            function.apply(lane, row, 0.0)?;
            affine_row(row, scale, zero);
            Ok(())
        })?;
        Outcome::none()
    });
    Ok(work.into())
}

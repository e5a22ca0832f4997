//! ACTIVATE2 (0x25): two ALU stages, the function, and a reduction
//! (wiki: firmware/kernels/pool-compute-misc 16; vendor: nki.isa activate).

use super::function::Function;
use super::operands::{Rows, Scalar, Source, element};
use crate::engine::{CostQuery, CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{e, f};
use crate::numeric::AluOp;
use crate::numeric::activation::legal_stages;
use crate::numeric::alu::{apply_f32_ts_assign, reduce_f32, reset_f32};

/// ACTIVATE2 0x25. Each stage rounds to FP32 (OPEN: whether a multiply and an add fuse).
pub(super) fn activate2(env: &Env<'_>) -> Result<Prepared> {
    use f::s2d2_ac as a;
    let inst = env.inst;
    let channels = inst.get(a::NUM_ACTIVE_CHANNELS) as u32;
    let input = element(env, inst.get(a::IN_DTYPE) as u8, false)?;
    let src = Operand::any_form(env, a::SRC, input, channels)?;
    let out = element(env, inst.get(a::OUT_DTYPE) as u8, true)?;
    let dst = Operand::any_form(env, a::DST, out, channels)?;
    let op = |field| AluOp::from_code(env.generation(), inst.get(field) as u8);
    let (op0, op1) = (op(a::OP0)?, op(a::OP1)?);
    if !legal_stages(op0, op1) {
        return Err(Error::illegal(
            "activate2_op_pair",
            format!("{} then {} is not a legal pair of stages", op0.name(), op1.name()),
        ));
    }
    let reverse = inst.get(a::REVERSE_OPERANDS) as u8;
    use e::tens_scalar_rev_ops::{BOTH, FIRST, SECOND};
    let (reverse0, reverse1) = (matches!(reverse, FIRST | BOTH), matches!(reverse, SECOND | BOTH));
    let command = inst.get(a::REDUCE_CMD) as u8;
    let reduce_code = inst.get(a::REDUCE_OP) as u8;
    use e::reduce_cmd::{IDLE, REDUCE, RESET, RESET_REDUCE};
    let (resets, reduces) = match command {
        IDLE => (false, false),
        RESET => (true, false),
        REDUCE => (false, true),
        RESET_REDUCE => (true, true),
        other => return Err(Error::illegal("reduce_cmd", format!("reduce command {other}"))),
    };
    if (command == IDLE) != (reduce_code == 0) {
        return Err(Error::illegal(
            "activate2_reduce",
            "reduce_op is 0 exactly when reduce_cmd is IDLE",
        ));
    }
    let reduce_op = AluOp::from_code(env.generation(), reduce_code)?;
    let scalar = |field, source| -> Result<Scalar> {
        let source = Source::from_imm_src(inst.get(source))?;
        let dtype = match source {
            Source::Inline => crate::numeric::Dtype::Fp32,
            _ => element(env, inst.get(a::IMM_DTYPE) as u8, false)?,
        };
        Scalar::new(env, field, source, dtype, channels)
    };
    let imm0 = scalar(a::IMM0, a::IMM0_SRC)?;
    let imm1 = scalar(a::IMM1, a::IMM1_SRC)?;
    let slope = scalar(a::RELU_PARAM, a::RELU_PARAM_SRC)?;
    let function = Function::new(inst.get(a::ACTIVATION_FUNC) as u8);
    let scalars = [&imm0, &imm1, &slope];
    let rows = Rows::new(src, dst, &scalars)?;
    let row = if command == IDLE { CostRow::Activation } else { CostRow::ActivationReduce };
    let cost = CostQuery::new(row, rows.len() as u64, rows.cost(env));
    let accesses = rows.accesses(&scalars);
    let work = Work::new(accesses, cost, move |lane| {
        rows.run(lane, |lane, c, row| {
            let (s0, s1) = (imm0.get(lane, c)?, imm1.get(lane, c)?);
            let slope = slope.get(lane, c)?;
            if op0 != AluOp::Bypass {
                apply_f32_ts_assign(op0, row, s0, reverse0)?;
            }
            if op1 != AluOp::Bypass {
                apply_f32_ts_assign(op1, row, s1, reverse1)?;
            }
            function.apply(lane, row, slope)?;
            let acc = &mut lane.state.act.accumulator(c + 1)[c as usize];
            if resets {
                *acc = reset_f32(reduce_op)?;
            }
            if reduces && let Some(v) = reduce_f32(reduce_op, row, Some(*acc))? {
                *acc = v;
            }
            Ok(())
        })?;
        Outcome::none()
    });
    Ok(work.into())
}

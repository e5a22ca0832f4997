//! The DVE accumulator: one FP32 value per channel, shared by every opcode that reduces into it
//! (vendor docs: nki.isa), and the read-outs 0x9B and 0xE9 (wiki: firmware/kernels/dve-read-state).

use std::mem::take;

use super::VectorState;
use super::common::*;
use super::rows::store_f32;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::{d1_rd as rd, d4_mr as mr};
use crate::isa::{Field, e};
use crate::numeric::{AluOp, alu};

/// What an instruction does with the accumulator (ACCUM_CMD).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Command {
    /// Leaves it alone. OPEN: the vendor calls its content undefined afterwards; it is kept.
    Idle,
    /// Only resets it to this value.
    Reset(f32),
    /// Continues from what it holds.
    Accumulate,
    /// Starts from this value, the identity of the operation.
    From(f32),
    /// Starts from the value of the second immediate.
    Load,
}

/// Decodes the accumulator command in `field` for a reduction by `op`.
pub(super) fn command(env: &Env<'_>, field: Field, op: AluOp) -> Result<Command> {
    use e::accum_cmd as cmd;
    Ok(match env.inst.get(field) as u8 {
        cmd::IDLE => Command::Idle,
        cmd::ZERO => Command::Reset(alu::reset_f32(op)?),
        cmd::ACCUMULATE => Command::Accumulate,
        cmd::ZERO_ACCUMULATE => Command::From(alu::reset_f32(op)?),
        cmd::LOAD_ACCUMULATE => Command::Load,
        other => {
            return Err(Error::illegal(
                "accumulator_cmd",
                format!("accumulator command {other} is not defined"),
            ));
        }
    })
}

impl Command {
    /// The value from which channel `c` starts, `None` when nothing is accumulated.
    pub(super) fn start(
        self,
        state: &mut VectorState,
        channels: u32,
        c: u32,
        loaded: Option<f32>,
    ) -> Option<f32> {
        let acc = &mut state_rows(&mut state.accumulator, channels, 0.0)[c as usize];
        match self {
            Command::Idle => None,
            Command::Reset(value) => {
                *acc = value;
                None
            }
            Command::Accumulate => Some(*acc),
            Command::From(value) => Some(value),
            Command::Load => Some(loaded.unwrap_or_default()),
        }
    }

    /// Folds `values` in order into the accumulator of channel `c`, the running value on the left.
    pub(super) fn fold(
        self,
        state: &mut VectorState,
        channels: u32,
        c: u32,
        loaded: Option<f32>,
        op: AluOp,
        values: &[f32],
    ) -> Result<()> {
        if let Some(start) = self.start(state, channels, c, loaded)
            && let Some(total) = alu::reduce_f32(op, values, Some(start))?
        {
            state.accumulator[c as usize] = total;
        }
        Ok(())
    }
}

/// 0x9B: dst = the accumulator of each channel, negated if asked. It keeps its value: nothing says
/// that reading clears it (OPEN).
pub(super) fn dve_read_accumulator(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, rd::NUM_ACTIVE_CHANNELS);
    let dst = operand(env, rd::DST, dtype(env, rd::DTYPE)?, n)?;
    require_count(&dst, 1)?;
    let negated = env.inst.get(rd::NEGATED) != 0;
    Plan::new(env).dest(&dst)?.work(CostRow::StateLoad, 1, move |lane| {
        let mut acc = take(&mut lane.state.vector.accumulator);
        for c in 0..n {
            let value = state_rows(&mut acc, n, 0.0)[c as usize];
            store_f32(&dst, lane, c, &[if negated { canonical(-value) } else { value }])?;
        }
        lane.state.vector.accumulator = acc;
        Outcome::none()
    })
}

/// 0xE9: the eight positions that MATCH_REPLACE8 left in each channel, all ones where a value did
/// not occur. They keep their value (OPEN).
pub(super) fn dve_read_indices(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, mr::NUM_ACTIVE_CHANNELS);
    let dst = operand(env, mr::DST, dtype(env, mr::DTYPE)?, n)?;
    require_int(dst.dtype)?;
    require_count(&dst, 8)?;
    Plan::new(env).dest(&dst)?.work(CostRow::StateLoad, 8, move |lane| {
        for c in 0..n {
            let positions = lane.state.indirect.search.match_positions(c).map(u64::from);
            dst.scatter_bits(lane, c, &positions)?;
        }
        Outcome::none()
    })
}

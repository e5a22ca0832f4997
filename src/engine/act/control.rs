//! ACTIVATION_TABLE_LOAD (0x23) and ACTIVATION_READ_ACCUMULATOR (0x24).

use crate::engine::cost::Operands;
use crate::engine::{CostQuery, CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::f;
use crate::numeric::{Dtype, Rounding};

/// ACTIVATION_TABLE_LOAD 0x23: makes a table set resident. The word itself carries no operand in
/// the sources; the runtime's DMA brings the tables. OPEN: the emulator's words name the set.
/// (wiki: firmware/kernels/activate-pwl 5.3)
pub(super) fn activation_table_load(env: &Env<'_>) -> Result<Prepared> {
    let set = env.inst.get(f::ctrl_no::TABLE_SET) as u32;
    let cost = CostQuery::new(CostRow::TableLoad, 0, Operands::new());
    let work = Work::new([], cost, move |lane| {
        let sets = &lane.state.act.sets;
        if !sets.is_empty() && !sets.contains_key(&set) {
            return Err(Error::new(
                crate::ErrorClass::ProgramError,
                format!("table set {set} is loaded, the program brings no such set"),
            )
            .help("declare it with `.act_tables`"));
        }
        lane.state.act.resident = Some(set);
        Outcome::none()
    });
    Ok(work.into())
}

/// ACTIVATION_READ_ACCUMULATOR 0x24: writes the running value of each channel. The accumulator
/// keeps it (wiki: firmware/kernels/activate-pwl 6.2; wiki-cc: bir/sim-matmul-mx 7).
pub(super) fn activation_read_accumulator(env: &Env<'_>) -> Result<Prepared> {
    use f::d1_rd as d;
    let inst = env.inst;
    if inst.get(d::NEGATED) != 0 {
        return Err(Error::illegal("negated", "the ACT accumulator is not read negated"));
    }
    if inst.get(d::DST_ELEMENT_COUNT) != 1 {
        return Err(Error::illegal("dst_element_count", "one element for each channel"));
    }
    let dtype = match Dtype::from_code(env.generation(), inst.get(d::DTYPE) as u8)? {
        t @ (Dtype::Fp32 | Dtype::Fp32r | Dtype::Bf16 | Dtype::Fp16) => t,
        other => {
            return Err(Error::illegal(
                "accumulator_dtype",
                format!("the accumulator is not read as {}", other.name()),
            ));
        }
    };
    let channels = inst.get(d::NUM_ACTIVE_CHANNELS) as u32;
    let dst = Operand::new(env, d::DST, dtype, channels)?;
    if dst.len() != 1 {
        return Err(Error::illegal("dst_element_count", "one element for each channel"));
    }
    let mut operands = Operands::new();
    dst.cost_dest(env, &mut operands);
    let cost = CostQuery::new(CostRow::Activation, 1, operands);
    let accesses = [dst.write()];
    let work = Work::new(accesses, cost, move |lane| {
        for c in 0..channels {
            let value = lane.state.act.accumulator(channels)[c as usize];
            dst.scatter_f32(lane, c, &[value], Rounding::NearestEven)?;
        }
        Outcome::none()
    });
    Ok(work.into())
}

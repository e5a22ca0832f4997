//! CONV_LUT_LOAD (0xE4), the leg that PE executes: the table of the 4-bit input converter.
//!
//! Which later loads consult the table, and with which element type, no page says; loading it
//! changes nothing else. (wiki: firmware/kernels/convlutload)

use super::weights::source;
use crate::engine::cost::Operands;
use crate::engine::{CostQuery, CostRow, Env, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::f;
use crate::numeric::Dtype;

/// Entries of the table: one for each 4-bit code.
const ENTRIES: usize = 16;

/// CONV_LUT_LOAD 0xE4.
pub(super) fn conv_lut_load(env: &Env<'_>) -> Result<Prepared> {
    use f::s2_convlut as l;
    let inst = env.inst;
    let lut = inst.get(l::LUT_DTYPE);
    if lut != 0 && lut != u64::from(Dtype::Fp32.code()) {
        return Err(Error::missing_spec(
            "what the codec does with the tables it loads",
            "firmware/kernels/convlutload",
        ));
    }
    if inst.get(l::MULTIPLICATIVE_CONST) != 0 || inst.get(l::BLOCK_SIZE) != 0 {
        return Err(Error::illegal("convlut_constants", "the converter table takes no constants"));
    }
    let full = inst.get(l::NUM_ACTIVE_ROWS) == 128 && inst.get(l::NUM_ACTIVE_COLS) == 128;
    if !full || inst.get(l::ROW_GRP) != 0xF || inst.get(l::COL_GRP) != 0xF {
        return Err(Error::illegal("convlut_tile", "the converter table goes to the whole array"));
    }
    if Dtype::from_code(env.generation(), inst.get(l::IN_DTYPE) as u8)? != Dtype::Uint16 {
        return Err(Error::illegal("convlut_in_dtype", "the converter table has UINT16 entries"));
    }
    // One table for all rows: read from one partition.
    let src = source(env, l::SRC, Dtype::Uint16, 1)?;
    if src.len() != ENTRIES {
        return Err(Error::illegal(
            "convlut_elements",
            format!("{} entries; the table has {ENTRIES}", src.len()),
        ));
    }
    let mut operands = Operands::new();
    src.cost_source(env, &mut operands);
    let cost = CostQuery::new(CostRow::StateLoad, ENTRIES as u64, operands);
    let work = Work::new([src.read()], cost, move |lane| {
        let mut words = std::mem::take(&mut lane.scratch.bits[0]);
        let result = src.gather_bits(lane, 0, &mut words);
        let mut table = [0; ENTRIES];
        for (entry, word) in table.iter_mut().zip(&words) {
            *entry = *word as u16;
        }
        lane.scratch.bits[0] = words;
        result?;
        lane.state.pe.converter = Some(table);
        Outcome::none()
    });
    Ok(work.into())
}

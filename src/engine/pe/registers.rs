//! PE_REG_WRITE (0x03): writes a configuration register of the array.

use crate::engine::cost::Operands;
use crate::engine::{CostQuery, CostRow, Env, Outcome, Prepared, Work};
use crate::error::Result;

/// PE_REG_WRITE 0x03. No page gives its struct or the registers, and none of the registers that
/// pages name changes a result. OPEN: the word is accepted and its payload kept, without effect on
/// any number; a source in SBUF is not read (wiki: firmware/kernels/pe-matmul 10, 11).
pub(super) fn pe_reg_write(env: &Env<'_>) -> Result<Prepared> {
    let mut payload = [0; 52];
    payload.copy_from_slice(&env.inst.bytes[12..]);
    let cost = CostQuery::new(CostRow::StateLoad, 1, Operands::new());
    let work = Work::new([], cost, move |lane| {
        lane.state.pe.register_write = Some(Box::new(serde_big_array::Array(payload)));
        Outcome::none()
    });
    Ok(work.into())
}

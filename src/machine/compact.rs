//! COMPACT_CONTROL_INST 0xB6 of v5: 15 micro-operations on the sequencer's register file.

use super::run::Machine;
use crate::error::{Error, Result};
use crate::isa::Inst;

/// Executes the micro-operations of the word at `pc`; returns the target of a taken branch.
///
/// # Errors
/// Unimplemented so far.
pub fn execute(_: &mut Machine, _: usize, _: usize, inst: &Inst) -> Result<Option<usize>> {
    Err(Error::unimplemented(format!("COMPACT_CONTROL_INST {:#04x}", inst.opcode())))
}

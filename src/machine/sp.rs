//! The V1 SP: a control processor with 8-byte words, 16 address registers, 16 counters and a view
//! of events 0..127.
//!
//! Byte 0 carries the opcode in bits 6:0 and a ring phase in bit 7, which a linear program image
//! leaves unused (OPEN). Operand positions, branch unit and counter saturation are OPEN choices;
//! `docs/open-choices.md` lists them. (wiki: generations/cross-gen-opcode-diff; neff/seq-microcode)

use crate::error::{Error, Result};
use crate::isa;

/// Counters and address registers.
pub const REGISTERS: usize = 16;
/// Largest value of a counter.
pub const COUNTER_MAX: u32 = 1 << 24;
/// Events the SP can see.
pub const EVENTS: u16 = 128;

/// One decoded SP instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpWord {
    /// Store one byte at an address register plus offset.
    Write8Indirect(u8, u16, u8),
    /// Store a word at an address register plus offset.
    Write32Indirect(u8, u16, u32),
    /// Store one byte at an address.
    Write8Direct(u32, u8),
    /// Raise a notification and halt.
    NotifyHalt(u32),
    /// Stall for cycles.
    WaitCycles(u32),
    /// Stall until all events of `base + bits of mask` are set.
    WaitEvents(u16, u32),
    /// Branch always.
    Branch(u32),
    /// Branch if an event is set.
    BranchEvent(u16, u32),
    /// Branch if a counter is zero (`true`) or not.
    BranchCounter(u8, bool, u32),
    /// Load a counter.
    SetCounter(u8, u32),
    /// Decrement a counter, not below zero.
    DecrementCounter(u8),
    /// Clear all events the SP sees.
    ClearAllEvents,
    /// Clear one event.
    ClearEvent(u16),
    /// Load an address register.
    SetAddress(u8, u64),
}

/// Decodes a linear SP program.
///
/// # Errors
/// `sp_opcode`, `sp_operand`: the first illegal word.
pub fn decode(words: &[[u8; 8]]) -> Result<Vec<SpWord>> {
    let n = words.len();
    words
        .iter()
        .enumerate()
        .map(|(pc, w)| {
            decode_one(w, n).map_err(|e| {
                e.or_at(&crate::Location {
                    generation: Some("v1".into()),
                    stream: Some("SP".into()),
                    pc: Some(pc as u64),
                    ..Default::default()
                })
            })
        })
        .collect()
}

fn decode_one(w: &[u8; 8], len: usize) -> Result<SpWord> {
    let opcode = w[0] & 0x7F;
    let Some(def) = isa::sp_opcode(opcode) else {
        return Err(Error::illegal("sp_opcode", format!("the SP has no opcode {opcode:#04x}")));
    };
    let word = u32::from_le_bytes([w[4], w[5], w[6], w[7]]);
    let half = u16::from_le_bytes([w[2], w[3]]);
    let operand = |ok: bool, what: &str| {
        if ok {
            Ok(())
        } else {
            Err(Error::illegal("sp_operand", format!("{}: {what} out of range", def.name)))
        }
    };
    let register = || operand(usize::from(w[1]) < REGISTERS, "register").map(|()| w[1]);
    let event = || operand(u16::from(w[1]) < EVENTS, "event").map(|()| u16::from(w[1]));
    let target = || operand((word as usize) <= len, "branch target").map(|()| word);
    Ok(match opcode {
        0x04 => SpWord::Write8Indirect(register()?, half, w[4]),
        0x05 => SpWord::Write32Indirect(register()?, half, word),
        0x08 => SpWord::Write8Direct(word, w[1]),
        0x10 => SpWord::NotifyHalt(word),
        0x20 => SpWord::WaitCycles(word),
        0x24 => SpWord::WaitEvents(event()?, 1),
        0x25 => {
            let base = event()?;
            operand(base % 32 == 0, "event base, a multiple of 32,")?;
            SpWord::WaitEvents(base, word)
        }
        0x30 => SpWord::Branch(target()?),
        0x34 => SpWord::BranchEvent(event()?, target()?),
        0x38 => SpWord::BranchCounter(register()?, true, target()?),
        0x39 => SpWord::BranchCounter(register()?, false, target()?),
        0x40 => {
            operand(word <= COUNTER_MAX, "counter value")?;
            SpWord::SetCounter(register()?, word)
        }
        0x41 => SpWord::DecrementCounter(register()?),
        0x50 => SpWord::ClearAllEvents,
        0x51 => SpWord::ClearEvent(event()?),
        0x60 => {
            let address = u64::from_le_bytes([w[2], w[3], w[4], w[5], w[6], w[7], 0, 0]);
            SpWord::SetAddress(register()?, address)
        }
        other => {
            return Err(Error::internal(format!(
                "SP opcode {other:#04x} has a row but no decoder"
            )));
        }
    })
}

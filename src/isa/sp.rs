//! The V1 SP sequencer's 8-byte words: bits 6:0 of byte 0 are the opcode, bit 7 the phase
//! (wiki: generations/cross-gen-opcode-diff 5.5; neff/seq-microcode 3.2).
//!
//! The sources give names and byte 0 only. Operand positions are the table's own (OPEN).

use super::defs::{SpField, SpOpcodeDef};
use super::tables::sp_opcode;
use crate::error::{Error, ErrorClass, Result};

/// Bytes of an SP word.
pub const SP_BYTES: usize = 8;

/// One SP word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpInst {
    /// The word.
    pub bytes: [u8; SP_BYTES],
}

impl SpInst {
    /// The word `bytes`.
    pub fn new(bytes: [u8; SP_BYTES]) -> SpInst {
        SpInst { bytes }
    }

    /// The 7-bit opcode.
    pub fn opcode(&self) -> u8 {
        self.bytes[0] & 0x7F
    }

    /// The phase bit.
    pub fn phase(&self) -> bool {
        self.bytes[0] & 0x80 != 0
    }

    /// The opcode's row.
    ///
    /// # Errors
    /// There is no such SP opcode.
    pub fn def(&self) -> Result<&'static SpOpcodeDef> {
        sp_opcode(self.opcode()).ok_or_else(|| {
            Error::illegal(
                "sp_opcode",
                format!("{:#04x} is not an opcode of the SP sequencer", self.opcode()),
            )
        })
    }

    /// The operand called `name`, if the opcode has it.
    pub fn get(&self, name: &str) -> Option<u64> {
        let field = self.def().ok()?.fields.iter().find(|f| f.name == name)?;
        Some(self.read(field))
    }

    fn read(&self, field: &SpField) -> u64 {
        let at = usize::from(field.offset);
        let mut le = [0; 8];
        let bytes = self.bytes.get(at..at + usize::from(field.size)).unwrap_or(&[]);
        le[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(le)
    }

    /// Builds a word from opcode row, phase and operands by name; the others are zero.
    ///
    /// # Errors
    /// The opcode has no operand of a given name, or a value does not fit.
    pub fn encode(def: &SpOpcodeDef, phase: bool, operands: &[(&str, u64)]) -> Result<SpInst> {
        let mut bytes = [0; SP_BYTES];
        bytes[0] = def.value | if phase { 0x80 } else { 0 };
        for &(name, value) in operands {
            let refuse = |why: String| Error::new(ErrorClass::ProgramError, why);
            let field = def
                .fields
                .iter()
                .find(|f| f.name == name && name != "reserved")
                .ok_or_else(|| refuse(format!("{} has no operand `{name}`", def.name)))?;
            let size = usize::from(field.size);
            if value >> (8 * size) != 0 {
                return Err(refuse(format!("{value:#x} does not fit `{name}` of {}", def.name)));
            }
            let at = usize::from(field.offset);
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        Ok(SpInst { bytes })
    }

    /// Checks opcode, reserved bytes and operand limits: 128 events, 16 counters of at most 2^24,
    /// 16 address registers (wiki: generations/cross-gen-opcode-diff 5.1).
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<()> {
        let def = self.def()?;
        for field in def.fields {
            let value = self.read(field);
            let (rule, limit) = match (field.name, def.name) {
                ("reserved", _) => ("sp_reserved_zero", 1),
                ("event_idx", _) => ("sp_event_in_range", 128),
                ("counter_idx", _) => ("sp_counter_in_range", 16),
                ("ar_idx", _) => ("sp_address_register_in_range", 16),
                ("value", "SET_CNTR") => ("sp_counter_value", (1 << 24) + 1),
                _ => continue,
            };
            if value >= limit {
                return Err(Error::illegal(
                    rule,
                    format!("{}: {} = {value}, must be below {limit}", def.name, field.name),
                ));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for SpInst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.def().map_or("?", |d| d.name);
        write!(f, "SP {name} p{} {:02x?}", u8::from(self.phase()), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::SP_OPCODES;

    #[test]
    fn every_opcode_round_trips() {
        assert_eq!(SP_OPCODES.len(), 16);
        for def in SP_OPCODES {
            for phase in [false, true] {
                let operands: Vec<_> = def
                    .fields
                    .iter()
                    .filter(|f| f.name != "reserved")
                    .enumerate()
                    .map(|(i, f)| (f.name, 3 + i as u64))
                    .collect();
                let inst = SpInst::encode(def, phase, &operands).unwrap();
                assert_eq!((inst.opcode(), inst.phase()), (def.value, phase));
                for (name, value) in operands {
                    assert_eq!(inst.get(name), Some(value), "{}", def.name);
                }
                inst.validate().unwrap();
                let full = SpInst::new([inst.bytes[0], 255, 255, 255, 255, 255, 255, 255]);
                let limited = def
                    .fields
                    .iter()
                    .any(|f| ["reserved", "event_idx", "counter_idx", "ar_idx"].contains(&f.name));
                assert_eq!(full.validate().is_err(), limited, "{}", def.name);
            }
        }
    }

    #[test]
    fn limits() {
        let set = sp_opcode(0x40).unwrap();
        let word = |v| SpInst::encode(set, false, &[("counter_idx", 15), ("value", v)]).unwrap();
        word(1 << 24).validate().unwrap();
        let e = word((1 << 24) + 1).validate().unwrap_err();
        assert_eq!(e.rule.as_deref(), Some("sp_counter_value"));
        assert!(SpInst::encode(set, false, &[("target", 0)]).is_err());
        assert!(SpInst::encode(set, false, &[("counter_idx", 256)]).is_err());
        assert!(SpInst::new([1; 8]).validate().is_err());
    }
}

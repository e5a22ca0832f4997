//! The instruction MODIFY_POOL_CONFIG (0x95). (wiki: firmware/kernels/pool-compute-misc)

use crate::error::{Error, Result};

use super::{MAX_LIBRARY, double, word};

/// Opcode.
pub const OPCODE: u8 = 0x95;

/// What the instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyOp {
    /// Load a library.
    Load,
    /// Release a library.
    Unload,
}

/// Fields of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifyPoolConfig {
    /// Load or unload.
    pub op: ModifyOp,
    /// Bit i selects core i. (bit order inferred by the page)
    pub core_mask: u8,
    /// Address of the staged image.
    pub soc_addr: u64,
    /// Library number: 0 the base set, 3 the CPTC set.
    pub library_index: u32,
    /// Bytes of the staged image.
    pub library_size: u32,
}

/// What the host generator needs to know to emit load or unload words.
#[derive(Clone, Copy, Debug)]
pub struct Emission {
    /// Fields of the record.
    pub record: ModifyPoolConfig,
    /// Whether library and core belong to the same host context.
    pub same_context: bool,
    /// Words that fit the caller's buffer.
    pub capacity: usize,
    /// Whether the buffer is aligned to 8 bytes.
    pub aligned: bool,
}

impl ModifyPoolConfig {
    /// The 64-byte instruction with an empty events block.
    pub fn encode(&self) -> [u8; 64] {
        let mut out = [0; 64];
        out[0] = OPCODE;
        out[1] = 0x10;
        out[12] = match self.op {
            ModifyOp::Load => 1,
            ModifyOp::Unload => 2,
        };
        out[13] = self.core_mask;
        out[16..24].copy_from_slice(&self.soc_addr.to_le_bytes());
        out[24..28].copy_from_slice(&self.library_index.to_le_bytes());
        out[28..32].copy_from_slice(&self.library_size.to_le_bytes());
        out
    }

    /// Reads and checks the instruction.
    ///
    /// # Errors
    /// `IllegalInstruction` with the broken rule.
    pub fn decode(bytes: &[u8; 64]) -> Result<ModifyPoolConfig> {
        let illegal = |rule: &'static str, text: String| Err(Error::illegal(rule, text));
        if bytes[0] != OPCODE || bytes[1] != 0x10 {
            return illegal("header", format!("lead bytes {:02x} {:02x}", bytes[0], bytes[1]));
        }
        let op = match bytes[12] {
            1 => ModifyOp::Load,
            2 => ModifyOp::Unload,
            other => return illegal("modify_op", format!("modify_op is {other}")),
        };
        if bytes[14..16].iter().chain(&bytes[32..]).any(|&b| b != 0) {
            return illegal("reserved", "reserved bytes must be 0".to_owned());
        }
        let out = ModifyPoolConfig {
            op,
            core_mask: bytes[13],
            soc_addr: double(bytes, 16),
            library_index: word(bytes, 24),
            library_size: word(bytes, 28),
        };
        if out.library_size > MAX_LIBRARY {
            let text = format!("library_size {} exceeds {MAX_LIBRARY}", out.library_size);
            return illegal("library_size", text);
        }
        Ok(out)
    }
}

/// The words that the host writes into the stream, or its return code: 7 buffer too small, 8 buffer
/// misaligned. (wiki: runtime/nrtucode-ll-load-unload)
pub fn emit(emission: &Emission) -> std::result::Result<Vec<[u8; 64]>, u32> {
    if !emission.aligned {
        return Err(8);
    }
    let count = if emission.same_context { 1 } else { 8 };
    if emission.capacity < count {
        return Err(7);
    }
    let mut record = emission.record;
    let filled = record.op == ModifyOp::Load && emission.same_context && record.library_size != 0;
    if !filled {
        record.soc_addr = 0;
        record.library_size = 0;
    }
    Ok(vec![record.encode(); count])
}

/// Library number that the host chooses. (wiki: runtime/nrtucode-ll-create)
pub fn selector(caller: u32, cptc_flag: bool) -> u32 {
    match (caller, cptc_flag) {
        (0, true) => 3,
        (caller, _) => caller,
    }
}

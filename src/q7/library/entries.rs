//! Table of library functions that the host hands to the engine. (wiki: neff/ntff-trace-parse-state)

use crate::error::{Error, Result};

use super::{double, word};

/// Bytes of an entry.
pub const ENTRY: usize = 280;
/// Bytes before the first entry.
pub const TABLE_HEADER: usize = 144;
/// Entries of the table.
pub const ENTRIES: usize = 97;
/// Opcode of a custom operation.
pub const CUSTOM_OP: u8 = 0x85;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LibraryEntry {
    /// Whether the entry counts.
    pub valid: bool,
    /// Opcode that it serves.
    pub opcode: u8,
    /// Sub-opcode, for custom operations the function number.
    pub sub_opcode: u8,
    /// Core that the image is linked for.
    pub cpu_id: u8,
    /// 0 free, 1 one core, 8 all cores.
    pub total_cpus: u8,
    /// Flags.
    pub flags: u32,
    /// Address of the image.
    pub address: u64,
    /// Function name.
    pub name: String,
}

/// Whether a library may be loaded with this number of cores.
pub fn may_load(total_cpus: u8) -> bool {
    matches!(total_cpus, 1 | 8)
}

/// Whether an entry may stay in the table with this number of cores.
pub fn may_stay(total_cpus: u8) -> bool {
    matches!(total_cpus, 0 | 1 | 8)
}

impl LibraryEntry {
    /// Reads an entry.
    ///
    /// # Errors
    /// `ProgramError` if the bytes are too few or the number of cores is impossible.
    pub fn decode(bytes: &[u8]) -> Result<LibraryEntry> {
        let bad = |text: String| Error::new(crate::error::ErrorClass::ProgramError, text);
        let bytes = bytes.get(..ENTRY).ok_or_else(|| bad("library entry is cut off".into()))?;
        if !may_stay(bytes[4]) {
            return Err(bad(format!("total_cpus is {}, not 0, 1 or 8", bytes[4])));
        }
        let name = &bytes[24..];
        let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        Ok(LibraryEntry {
            valid: bytes[0] != 0,
            opcode: bytes[1],
            sub_opcode: bytes[2],
            cpu_id: bytes[3],
            total_cpus: bytes[4],
            flags: word(bytes, 12) & 7,
            address: double(bytes, 16),
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
        })
    }

    /// The entry as it lies in memory; names are cut to 63 characters.
    pub fn encode(&self) -> [u8; ENTRY] {
        let mut out = [0; ENTRY];
        out[..5].copy_from_slice(&[
            u8::from(self.valid),
            self.opcode,
            self.sub_opcode,
            self.cpu_id,
            self.total_cpus,
        ]);
        out[12..16].copy_from_slice(&(self.flags & 7).to_le_bytes());
        out[16..24].copy_from_slice(&self.address.to_le_bytes());
        let name = &self.name.as_bytes()[..self.name.len().min(63)];
        out[24..24 + name.len()].copy_from_slice(name);
        out
    }

    /// Whether core `core` executes the entry: with eight images each core takes its own, with one
    /// image only its core runs.
    pub fn runs_on(&self, core: u8) -> bool {
        self.valid && self.total_cpus != 0 && self.cpu_id == core
    }
}

/// The entry of a custom operation's function. OPEN: matched by sub-opcode.
pub fn custom_function(entries: &[LibraryEntry], function: u8, core: u8) -> Option<&LibraryEntry> {
    entries.iter().find(|e| e.opcode == CUSTOM_OP && e.sub_opcode == function && e.runs_on(core))
}

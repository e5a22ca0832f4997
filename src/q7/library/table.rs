//! Kernel table: rows of `{0, 0, spec, opcode, function}`, scanned in registration order.
//! (wiki: firmware/pool/pool-dispatch)

use super::word;

/// Bytes of a row.
pub const ROW: usize = 8;
/// Opcode whose rows are told apart by the spec byte of the instruction. (wiki: firmware/pool/pool-ext-0xf0)
pub const EXTENDED: u8 = 0xf0;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KernelRow {
    /// POOL opcode.
    pub opcode: u8,
    /// Spec byte, 0 except for opcode 0xF0.
    pub spec: u8,
    /// Address of the kernel.
    pub function: u32,
}

impl KernelRow {
    /// `opcode << 24 | spec << 16`: the row's first word.
    pub fn key(&self) -> u32 {
        key(self.opcode, self.spec)
    }

    /// The row as it lies in memory.
    pub fn encode(&self) -> [u8; ROW] {
        let f = self.function.to_le_bytes();
        [0, 0, self.spec, self.opcode, f[0], f[1], f[2], f[3]]
    }

    /// Reads a row; `None` if its first two bytes are not zero or the opcode is.
    pub fn decode(bytes: &[u8]) -> Option<KernelRow> {
        match bytes.get(..ROW)? {
            [0, 0, spec, opcode, ..] if *opcode != 0 => {
                Some(KernelRow { opcode: *opcode, spec: *spec, function: word(bytes, 4) })
            }
            _ => None,
        }
    }
}

/// Look-up key.
pub fn key(opcode: u8, spec: u8) -> u32 {
    u32::from(opcode) << 24 | u32::from(spec) << 16
}

/// Function of the first row for `(opcode, spec)`.
pub fn dispatch(table: &[KernelRow], opcode: u8, spec: u8) -> Option<u32> {
    let key = key(opcode, spec);
    table.iter().find(|row| row.key() == key).map(|row| row.function)
}

/// What the device logs when no row matches.
pub fn miss_text(opcode: u8, spec: u8) -> String {
    if opcode == EXTENDED {
        format!("UNKNOWN EXTENDED OPCODE={spec}")
    } else {
        format!("UNKNOWN OPCODE={opcode:#x}")
    }
}

/// All rows of a table of `bytes`; stops at the first that is none.
pub fn parse(bytes: &[u8]) -> Vec<KernelRow> {
    bytes.chunks_exact(ROW).map_while(KernelRow::decode).collect()
}

/// Finds the table in the data of a staged image that has no record of it: the longest run of rows
/// whose functions lie in `code`. Returns its offset and rows.
/// OPEN: the image carries no section names. (wiki: firmware/pool/external-lib-loader)
pub fn scan(data: &[u8], code: std::ops::Range<u32>) -> Option<(usize, Vec<KernelRow>)> {
    let mut best: Option<(usize, Vec<KernelRow>)> = None;
    let mut at = 0;
    while at + ROW <= data.len() {
        let run: Vec<_> = data[at..]
            .chunks_exact(ROW)
            .map_while(|row| KernelRow::decode(row).filter(|row| code.contains(&row.function)))
            .collect();
        if run.is_empty() {
            at += 4;
            continue;
        }
        let length = run.len() * ROW;
        if best.as_ref().is_none_or(|(_, rows)| rows.len() < run.len()) {
            best = Some((at, run));
        }
        at += length;
    }
    best
}

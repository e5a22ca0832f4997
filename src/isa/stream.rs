//! Cutting a byte stream into instruction words (wiki: neuronx-runtime isa/instruction-record).

use super::generation::Generation;
use super::inst::{INST_BYTES, Inst};
use super::sp::{SP_BYTES, SpInst};
use crate::error::{Error, Result};

/// How a stream is encoded. The width of the events block belongs to the stream, not to the
/// opcode (wiki: generations/cross-gen-opcode-diff 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFormat {
    /// Generation.
    pub generation: Generation,
    /// V1 only: 8-byte events blocks instead of 4-byte ones.
    pub wide_events: bool,
}

impl StreamFormat {
    /// The ordinary format of `generation`.
    pub fn of(generation: Generation) -> StreamFormat {
        StreamFormat { generation, wide_events: false }
    }

    /// One word of this format.
    pub fn word(self, bytes: [u8; INST_BYTES]) -> Inst {
        if self.wide_events && self.generation == Generation::V1 {
            Inst::new_wide_v1(bytes)
        } else {
            Inst::new(self.generation, bytes)
        }
    }

    /// Cuts `bytes` into words and checks that each has a known opcode and struct.
    ///
    /// # Errors
    /// The length is no multiple of 64, or a word cannot be decoded; the message names its opcode
    /// and byte offset.
    pub fn decode(self, bytes: &[u8]) -> Result<Vec<Inst>> {
        if !bytes.len().is_multiple_of(INST_BYTES) {
            return Err(Error::illegal(
                "stream_length",
                format!("a stream of {} bytes is no multiple of {INST_BYTES}", bytes.len()),
            ));
        }
        let mut words = Vec::with_capacity(bytes.len() / INST_BYTES);
        for (index, chunk) in bytes.chunks_exact(INST_BYTES).enumerate() {
            let mut word = [0; INST_BYTES];
            word.copy_from_slice(chunk);
            let inst = self.word(word);
            inst.layout().map_err(|mut e| {
                e.message = format!("byte offset {:#x}: {}", index * INST_BYTES, e.message);
                e.at.pc = Some(index as u64);
                e
            })?;
            words.push(inst);
        }
        Ok(words)
    }
}

/// The bytes of `words`, back to back.
pub fn encode(words: &[Inst]) -> Vec<u8> {
    words.iter().flat_map(|w| w.bytes).collect()
}

/// Cuts `bytes` into V1 SP words.
///
/// # Errors
/// The length is no multiple of 8, or an opcode is unknown.
pub fn decode_sp(bytes: &[u8]) -> Result<Vec<SpInst>> {
    if !bytes.len().is_multiple_of(SP_BYTES) {
        return Err(Error::illegal(
            "stream_length",
            format!("an SP stream of {} bytes is no multiple of {SP_BYTES}", bytes.len()),
        ));
    }
    bytes
        .chunks_exact(SP_BYTES)
        .map(|chunk| {
            let mut word = [0; SP_BYTES];
            word.copy_from_slice(chunk);
            let inst = SpInst::new(word);
            inst.def().map(|_| inst)
        })
        .collect()
}

/// A slot of a library index region: bytes 0x95 0x10 stamped at every 64 bytes. It looks like
/// MODIFY_POOL_CONFIG and is not an instruction (wiki: neff/seq-microcode).
pub fn is_library_marker(slot: &[u8]) -> bool {
    slot.starts_with(&[0x95, 0x10])
}

/// Engine class (bits 7:5) and local opcode (bits 4:0) of a V1 opcode byte.
pub fn v1_split(byte: u8) -> (u8, u8) {
    (byte >> 5, byte & 0x1F)
}

/// V1 opcode byte of an engine class and a local opcode.
pub fn v1_join(class: u8, local: u8) -> u8 {
    class << 5 | local & 0x1F
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{V1_OPCODES, op};

    #[test]
    fn streams_are_cut_at_64_bytes() {
        let words = [Inst::empty(Generation::V3, op::NOP), Inst::empty(Generation::V3, op::MATMUL)];
        let bytes = encode(&words);
        let format = StreamFormat::of(Generation::V3);
        assert_eq!(format.decode(&bytes).unwrap(), words);
        let e = format.decode(&bytes[..100]).unwrap_err();
        assert_eq!(e.rule.as_deref(), Some("stream_length"));
        let mut bad = bytes.clone();
        bad[64] = 0x80;
        let e = format.decode(&bad).unwrap_err();
        assert!(e.message.contains("0x40") && e.message.contains("0x80"), "{e}");
        assert!(decode_sp(&[0x30; 12]).is_err());
        assert_eq!(decode_sp(&[0xB0; 8]).unwrap()[0].opcode(), 0x30);
    }

    #[test]
    fn v1_bytes_are_class_and_local() {
        for def in V1_OPCODES.iter().filter(|d| d.byte != 0xFF) {
            let (class, local) = v1_split(def.byte);
            assert_eq!(v1_join(class, local), def.byte);
            let name = ["PE", "ACT", "POOL", "ALL", "", "", "RT", "SIM"][usize::from(class)];
            assert_eq!(name, def.engines, "{}", def.name);
        }
    }
}

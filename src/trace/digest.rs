//! A digest of a run's records: two runs with the same digest had the same course.

use std::hash::{Hash, Hasher};

use super::record::{Record, Recorder};

/// FNV-1a over 64-bit words of the records' fields. Numbers enter by value, so the digest is the
/// same on hosts of either byte order and does not change with the standard library's hashers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.word(u64::from_le_bytes(*w)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn word(&mut self, word: u64) {
        // the shift lets high bits reach low ones, which the multiplication alone does not
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }

    /// The value so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl Hasher for Digest {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.word(n.into());
    }

    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.word(n.into());
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.word(n.into());
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.word(n as u64);
    }

    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.word(n as u64);
    }
}

impl Recorder for Digest {
    fn record(&mut self, record: &Record) {
        // usage is there only for those who want it
        if !matches!(record, Record::Usage { .. }) {
            record.hash(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_counts() {
        let note = |tick, text: &str| {
            let mut digest = Digest::default();
            digest.record(&Record::Note { tick, stream: 1, pc: 2, text: text.into() });
            digest.value()
        };
        assert_eq!(note(5, "a"), note(5, "a"));
        assert_ne!(note(5, "a"), note(6, "a"));
        assert_ne!(note(5, "a"), note(5, "b"));
        assert_ne!(note(1 << 60, "a"), note(1 << 61, "a"));
    }
}

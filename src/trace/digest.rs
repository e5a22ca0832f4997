//! A digest of a run's records: two runs with the same digest had the same course.

use super::record::{Record, Recorder};

/// FNV-1a over the serialised records; stable over hosts and versions of the standard library.
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
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The value so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl Recorder for Digest {
    fn record(&mut self, record: &Record) {
        let text = serde_json::to_string(record).unwrap_or_default();
        self.bytes(text.as_bytes());
    }
}

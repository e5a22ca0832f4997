//! The few rules of the protobuf wire format that a Perfetto trace needs.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn key(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    /// An integer, boolean or enumeration.
    pub fn uint(&mut self, field: u32, n: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(n);
        self
    }

    /// A 64-bit fixed integer.
    pub fn fixed64(&mut self, field: u32, n: u64) -> &mut Self {
        self.key(field, 1);
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }

    /// A double.
    pub fn double(&mut self, field: u32, x: f64) -> &mut Self {
        self.fixed64(field, x.to_bits())
    }

    /// Bytes or a string.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A message inside.
    pub fn message(&mut self, field: u32, m: &Message) -> &mut Self {
        self.bytes(field, &m.0)
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_encodings() {
        // the examples of the protobuf encoding guide
        let mut m = Message::default();
        m.uint(1, 150);
        assert_eq!(m.as_bytes(), [0x08, 0x96, 0x01]);
        let mut m = Message::default();
        m.bytes(2, b"testing");
        assert_eq!(m.as_bytes(), b"\x12\x07testing");
    }
}

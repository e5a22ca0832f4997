//! Header of a staged image. (wiki: runtime/prelinker-ucpl)

use super::word;

/// `UCPL ` and three NULs; its bytes 4..8 read as a word give the offset of the code.
pub const MAGIC: [u8; 8] = *b"UCPL \0\0\0";
/// Bytes of the header, and offset of the code.
pub const HEADER: u32 = 32;

/// The 32-byte header: code at [`HEADER`], data at `data_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct UcplHeader {
    /// Bytes of code, a multiple of 4.
    pub code_length: u32,
    /// Offset of the data in the image.
    pub data_offset: u32,
    /// Bytes of data, a multiple of 4.
    pub data_length: u32,
    /// Relocated DT_INIT, 0 if none.
    pub init: u32,
    /// Relocated DT_FINI, 0 if none.
    pub fini: u32,
    /// Relocated entry point; 0 makes the device refuse the image.
    pub start: u32,
}

/// Offset of the data behind `code_length` bytes of code.
pub fn data_offset(code_length: u32) -> u32 {
    code_length.wrapping_add(0x3f) & !0x1f
}

/// `length` rounded up to a multiple of 4.
pub fn align4(length: u32) -> u32 {
    length.wrapping_add(3) & !3
}

impl UcplHeader {
    /// A header for segments of these memory sizes.
    pub fn for_segments(code_size: u32, data_size: u32) -> UcplHeader {
        let code_length = align4(code_size);
        UcplHeader {
            code_length,
            data_offset: data_offset(code_length),
            data_length: align4(data_size),
            ..UcplHeader::default()
        }
    }

    /// Bytes of the whole image.
    pub fn image_size(&self) -> u32 {
        self.data_offset.saturating_add(self.data_length)
    }

    /// The header as it lies in memory.
    pub fn encode(&self) -> [u8; 32] {
        let mut out = [0; 32];
        out[..8].copy_from_slice(&MAGIC);
        let words = [
            self.code_length,
            self.data_offset,
            self.data_length,
            self.init,
            self.fini,
            self.start,
        ];
        for (place, word) in out[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads a header; `None` without the magic or if the segments leave `image`.
    pub fn decode(image: &[u8]) -> Option<UcplHeader> {
        if image.len() < HEADER as usize || image[..8] != MAGIC {
            return None;
        }
        let header = UcplHeader {
            code_length: word(image, 8),
            data_offset: word(image, 12),
            data_length: word(image, 16),
            init: word(image, 20),
            fini: word(image, 24),
            start: word(image, 28),
        };
        let code_end = u64::from(HEADER) + u64::from(header.code_length);
        let data_end = u64::from(header.data_offset) + u64::from(header.data_length);
        let size = image.len() as u64;
        (code_end <= size && data_end <= size && u64::from(header.data_offset) >= code_end)
            .then_some(header)
    }

    /// Code bytes of `image`.
    pub fn code<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        let start = HEADER as usize;
        image.get(start..start + self.code_length as usize).unwrap_or(&[])
    }

    /// Data bytes of `image`.
    pub fn data<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        let start = self.data_offset as usize;
        image.get(start..start + self.data_length as usize).unwrap_or(&[])
    }
}

//! Element types by the names that the field's profiler prints.

/// An element type: a DTYPE code of the instruction set (wiki: generations/arch-isa-header-diff 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ElemType(u8);

/// One row per type: code, name as the profiler prints it, header name, bits.
const TYPES: &[(u8, &str, &str, u32)] = &[
    (0x01, "uint64", "UINT64", 64),
    (0x02, "int8", "INT8", 8),
    (0x03, "uint8", "UINT8", 8),
    (0x04, "int16", "INT16", 16),
    (0x05, "uint16", "UINT16", 16),
    (0x06, "bf16", "BFLOAT16", 16),
    (0x07, "fp16", "FP16", 16),
    (0x08, "int32", "INT32", 32),
    (0x09, "uint32", "UINT32", 32),
    (0x0a, "fp32", "FP32", 32),
    (0x0b, "fp32r", "FP32R", 32),
    (0x0c, "int64", "INT64", 64),
    (0x0d, "fp8_e3", "FP8_EXP3", 8),
    (0x0e, "fp8_e4", "FP8_EXP4", 8),
    (0x0f, "fp8_e5", "FP8_EXP5", 8),
    (0x10, "fp4_e2", "FP4_EXP2", 4),
    (0x11, "fp8_e2", "FP8_EXP2", 8),
    (0x12, "int4", "INT4", 4),
    (0x13, "sfp8_e8", "SFP8_E8", 8),
    (0x14, "sfp8_e7", "SFP8_E7", 8),
    (0x15, "sfp8_e6", "SFP8_E6", 8),
    (0x16, "sfp8_e5", "SFP8_E5", 8),
];

/// Spellings of other tools.
const ALIASES: &[(&str, &str)] = &[
    ("bfloat16", "bf16"),
    ("float16", "fp16"),
    ("f16", "fp16"),
    ("float32", "fp32"),
    ("f32", "fp32"),
    ("u8", "uint8"),
    ("i8", "int8"),
    ("u16", "uint16"),
    ("i16", "int16"),
    ("u32", "uint32"),
    ("i32", "int32"),
    ("u64", "uint64"),
    ("i64", "int64"),
    ("float8_e4m3", "fp8_e4"),
    ("float8_e5m2", "fp8_e5"),
];

impl ElemType {
    /// Single precision.
    pub const FP32: ElemType = ElemType(0x0a);

    /// The type with a DTYPE code, if it is an element type.
    pub fn from_code(code: u8) -> Option<Self> {
        TYPES.iter().any(|t| t.0 == code).then_some(ElemType(code))
    }

    /// The type called `name`: profiler, header or common spelling, any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = ALIASES.iter().find(|a| a.0 == name).map_or(name.as_str(), |a| a.1);
        TYPES.iter().find(|t| t.1 == name || t.2.eq_ignore_ascii_case(name)).map(|t| ElemType(t.0))
    }

    /// DTYPE code.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Name as the profiler prints it.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|t| t.0 == self.0).map_or("?", |t| t.1)
    }

    /// Every name, for suggestions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TYPES.iter().map(|t| t.1)
    }

    /// Bits of one element; 4-bit types are packed two to a byte.
    pub fn bits(self) -> u32 {
        TYPES.iter().find(|t| t.0 == self.0).map_or(8, |t| t.3)
    }

    /// Bytes of `elements` elements, rounded up; saturates.
    pub fn bytes_of(self, elements: u64) -> u64 {
        let bits = u128::from(elements) * u128::from(self.bits());
        u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
    }

    /// True for whole-number types.
    pub fn is_int(self) -> bool {
        matches!(self.0, 0x01..=0x05 | 0x08 | 0x09 | 0x0c | 0x12)
    }
}

impl std::fmt::Display for ElemType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl From<ElemType> for String {
    fn from(elem: ElemType) -> String {
        elem.name().to_owned()
    }
}

impl TryFrom<String> for ElemType {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        ElemType::from_name(&name).ok_or_else(|| format!("no element type is called `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes() {
        for (code, name, header, bits) in TYPES {
            let elem = ElemType::from_code(*code).unwrap();
            assert_eq!(ElemType::from_name(name), Some(elem));
            assert_eq!(ElemType::from_name(header), Some(elem));
            assert_eq!(elem.bits(), *bits);
        }
        assert_eq!(ElemType::from_name("INT4").unwrap().bytes_of(3), 2);
        assert_eq!(ElemType::from_code(0), None);
    }
}

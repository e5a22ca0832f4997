//! Element types by the names that the field's profiler prints.

use crate::isa::Generation;
use crate::numeric::Dtype;
use crate::numeric::dtype::Kind;

/// An element type of a tensor or operand: any dtype but the codec streams, which have no elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ElemType(Dtype);

impl ElemType {
    /// Single precision.
    pub const FP32: ElemType = ElemType(Dtype::Fp32);

    fn all() -> impl Iterator<Item = ElemType> {
        Dtype::all().filter(|d| d.kind() != Kind::Codec).map(ElemType)
    }

    /// The type with a DTYPE code, if it is an element type.
    pub fn from_code(code: u8) -> Option<Self> {
        ElemType::all().find(|e| e.code() == code)
    }

    /// The type called `name`: profiler, header or framework spelling, any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Dtype::from_name(name)
            .or_else(|| Dtype::from_name(&name.replace('_', "")))
            .filter(|d| d.kind() != Kind::Codec)
            .map(ElemType)
    }

    /// The type as `generation` means it: code 0x0E has two encodings, of which v5 knows one. A type
    /// that the generation does not compute with can still be that of stored data.
    pub fn on(self, generation: Generation) -> Self {
        match Dtype::from_code(generation, self.code()) {
            // The variant asked for by name stays where both exist.
            Ok(found) if self.0 != Dtype::Fp8E4Fn => ElemType(found),
            _ => self,
        }
    }

    /// The dtype.
    pub fn dtype(self) -> Dtype {
        self.0
    }

    /// DTYPE code.
    pub fn code(self) -> u8 {
        self.0.code()
    }

    /// Name as the profiler prints it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Every name, for suggestions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ElemType::all().map(ElemType::name)
    }

    /// Bits of one element; 4-bit types are packed two to a byte.
    pub fn bits(self) -> u32 {
        self.0.bits()
    }

    /// Bytes of `elements` elements, rounded up; saturates.
    pub fn bytes_of(self, elements: u64) -> u64 {
        let bits = u128::from(elements) * u128::from(self.bits());
        u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
    }

    /// True for whole-number types.
    pub fn is_int(self) -> bool {
        self.0.is_int()
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
        for elem in ElemType::all() {
            assert_eq!(ElemType::from_name(elem.name()), Some(elem));
            let same_code = ElemType::from_code(elem.code()).unwrap();
            assert!(same_code == elem || elem.0 == Dtype::Fp8E4Fn);
        }
        for (name, code) in [("BFLOAT16", 6), ("FP8_EXP4", 14), ("fp8_e4", 14), ("f32", 10)] {
            assert_eq!(ElemType::from_name(name).unwrap().code(), code);
        }
        assert_eq!(ElemType::from_name("INT4").unwrap().bytes_of(3), 2);
        assert_eq!(ElemType::from_code(0), None);
        assert_eq!(ElemType::from_code(0x19), None);
        let e4 = ElemType::from_name("fp8e4").unwrap();
        assert_eq!(e4.on(Generation::V3), e4);
        assert_eq!(e4.on(Generation::V5).name(), "fp8e4fn");
        assert_eq!(e4.on(Generation::V5).on(Generation::V4).name(), "fp8e4fn");
    }
}

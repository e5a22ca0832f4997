//! One 64-byte instruction word and typed access to its fields.

use super::defs::{
    EventsKind, Field, FieldDef, FieldType, Layout, OpcodeDef, PatternKind, StructDef,
};
use super::generation::Generation;
use super::pattern::{Addr4, Addr8, Pattern, PatternRules, TensorPattern};
use super::{f, tables};
use crate::error::{Error, ErrorClass, Result};

/// Bytes of an instruction.
pub const INST_BYTES: usize = 64;

/// Value of byte 1: the length in 4-byte words (wiki: neff/seq-microcode).
pub const INST_WORD_LEN: u8 = 16;

/// An instruction word of one generation. Any bytes are allowed; what they mean may be an error.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Inst {
    /// Generation whose tables apply.
    pub generation: Generation,
    /// The word.
    pub bytes: [u8; INST_BYTES],
    wide_v1: bool,
}

/// Wait and update of one instruction, as encoded.
///
/// On V1 `wait_mode` and `update_mode` are V1 modes (`V1_WAIT_MODE`, `V1_SET_MODE`) and `value`
/// is 0.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEvents {
    /// Condition before issue.
    pub wait_mode: u8,
    /// Semaphore or event waited for.
    pub wait_idx: u8,
    /// Action on read-done or completion.
    pub update_mode: u8,
    /// Semaphore or event updated.
    pub update_idx: u8,
    /// The one immediate of both sides.
    pub value: u32,
}

impl Inst {
    /// The word `bytes` read as an instruction of `generation`.
    pub fn new(generation: Generation, bytes: [u8; INST_BYTES]) -> Inst {
        Inst { generation, bytes, wide_v1: false }
    }

    /// A V1 word of a stream whose events blocks have 8 bytes
    /// (wiki: generations/cross-gen-opcode-diff 5.4; block width is a property of the stream).
    pub fn new_wide_v1(bytes: [u8; INST_BYTES]) -> Inst {
        Inst { generation: Generation::V1, bytes, wide_v1: true }
    }

    /// A word with `opcode` and its length byte set and all else zero.
    pub fn empty(generation: Generation, opcode: u8) -> Inst {
        let mut bytes = [0; INST_BYTES];
        bytes[0] = opcode;
        if !(opcode == tables::op::COMPACT_CONTROL_INST && generation == Generation::V5) {
            bytes[1] = INST_WORD_LEN;
        }
        Inst::new(generation, bytes)
    }

    /// As [`Inst::empty`], for the wide V1 dialect.
    pub fn empty_wide_v1(opcode: u8) -> Inst {
        Inst { wide_v1: true, ..Inst::empty(Generation::V1, opcode) }
    }

    /// Which set of field offsets applies.
    pub fn form(&self) -> Layout {
        if self.wide_v1 { Layout::V1Wide } else { Layout::of(self.generation) }
    }

    /// Byte 0.
    pub fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    /// The opcode's row.
    ///
    /// # Errors
    /// The generation has no such opcode; see [`tables::opcode`].
    pub fn def(&self) -> Result<&'static OpcodeDef> {
        tables::opcode(self.generation, self.bytes[0])
    }

    /// The operand struct; for 0xF0 chosen by byte 12.
    ///
    /// # Errors
    /// As [`Inst::def`], or an unknown extended opcode.
    pub fn layout(&self) -> Result<&'static StructDef> {
        tables::struct_in(self.form(), self.def()?, self.bytes[12])
    }

    /// Whether `field` exists in this form.
    pub fn has(&self, field: Field) -> bool {
        field.at(self.form()).is_some()
    }

    /// The field's bytes as a little-endian number; 0 if the form does not have the field. Of a
    /// field longer than 8 bytes, its first 8.
    #[inline]
    pub fn get(&self, field: Field) -> u64 {
        match field.at(self.form()) {
            Some(at) => self.read(at, usize::from(field.size)),
            None => 0,
        }
    }

    /// Stores the low bytes of `value`. A field that the form does not have is left alone; use
    /// [`Inst::try_set`] where that must not happen.
    pub fn set(&mut self, field: Field, value: u64) {
        if let Some(at) = field.at(self.form()) {
            self.write(at, usize::from(field.size), value);
        }
    }

    /// Stores `value`.
    ///
    /// # Errors
    /// The form does not have the field, or the value does not fit it.
    pub fn try_set(&mut self, field: Field, value: u64) -> Result<()> {
        let Some(at) = field.at(self.form()) else {
            return Err(Error::new(
                ErrorClass::ProgramError,
                format!("{} has no field `{}` here", self.generation, field.name),
            ));
        };
        if field.size < 8 && value >> (8 * field.size) != 0 {
            return Err(Error::new(
                ErrorClass::ProgramError,
                format!("{value:#x} does not fit field `{}`", field.name),
            ));
        }
        self.write(at, usize::from(field.size), value);
        Ok(())
    }

    /// The field as a two's complement number of its own width.
    pub fn get_i(&self, field: Field) -> i64 {
        let bits = 8 * u32::from(field.size.clamp(1, 8));
        ((self.get(field) << (64 - bits)) as i64) >> (64 - bits)
    }

    /// The field's 4 bytes as an IEEE single.
    pub fn get_f32(&self, field: Field) -> f32 {
        f32::from_bits(self.get(field) as u32)
    }

    /// The field called `name` in this word's struct.
    pub fn by_name(&self, name: &str) -> Option<FieldDef> {
        self.layout().ok()?.field(name).copied()
    }

    /// The bytes of the field, empty if the form does not have it.
    pub fn slice(&self, field: Field) -> &[u8] {
        field.at(self.form()).map_or(&[], |at| &self.bytes[at..at + usize::from(field.size)])
    }

    /// The bytes of a field of this word's struct.
    pub fn raw(&self, field: &FieldDef) -> &[u8] {
        let at = usize::from(field.offset);
        self.bytes.get(at..at + usize::from(field.size)).unwrap_or(&[])
    }

    fn read(&self, at: usize, size: usize) -> u64 {
        let mut le = [0; 8];
        let n = size.min(8);
        if let Some(from) = self.bytes.get(at..at + n) {
            le[..n].copy_from_slice(from);
        }
        u64::from_le_bytes(le)
    }

    fn write(&mut self, at: usize, size: usize, value: u64) {
        let n = size.min(8);
        if let Some(to) = self.bytes.get_mut(at..at + n) {
            to.copy_from_slice(&value.to_le_bytes()[..n]);
        }
    }

    /// The byte at `at`; like all accessors by offset, 0 behind the end.
    pub fn u8(&self, at: usize) -> u8 {
        self.read(at, 1) as u8
    }

    /// Two bytes at `at`.
    pub fn u16(&self, at: usize) -> u16 {
        self.read(at, 2) as u16
    }

    /// Four bytes at `at`.
    pub fn u32(&self, at: usize) -> u32 {
        self.read(at, 4) as u32
    }

    /// Eight bytes at `at`.
    pub fn u64(&self, at: usize) -> u64 {
        self.read(at, 8)
    }

    /// Two bytes at `at`, signed.
    pub fn i16(&self, at: usize) -> i16 {
        self.u16(at) as i16
    }

    /// Four bytes at `at`, signed.
    pub fn i32(&self, at: usize) -> i32 {
        self.u32(at) as i32
    }

    /// Four bytes at `at` as an IEEE single.
    pub fn f32(&self, at: usize) -> f32 {
        f32::from_bits(self.u32(at))
    }

    /// Which events block the word carries. Bytes 4..11 of COMPACT_CONTROL_INST, DMA_MEMCPY2 and
    /// DMA_IMMEDIATE are not one (wiki: generations/maverick-profile 4).
    pub fn events_kind(&self) -> EventsKind {
        use tables::op::{COMPACT_CONTROL_INST, DMA_IMMEDIATE, DMA_MEMCPY2};
        match (self.form(), self.bytes[0]) {
            (Layout::V1, _) => EventsKind::V1,
            (Layout::V5, COMPACT_CONTROL_INST | DMA_MEMCPY2 | DMA_IMMEDIATE) => EventsKind::None,
            _ => EventsKind::V2,
        }
    }

    /// The events block; all zero if there is none.
    pub fn events(&self) -> RawEvents {
        let kind = self.events_kind();
        if kind == EventsKind::None {
            return RawEvents::default();
        }
        let [wait_mode, wait_idx, update_mode, update_idx] = self.u32(4).to_le_bytes();
        let value = if kind == EventsKind::V2 { self.u32(8) } else { 0 };
        RawEvents { wait_mode, wait_idx, update_mode, update_idx, value }
    }

    /// Writes the events block.
    ///
    /// # Errors
    /// The word has none, or the 4-byte block cannot hold a value.
    pub fn set_events(&mut self, e: RawEvents) -> Result<()> {
        let refuse = |why: &str| Err(Error::new(ErrorClass::ProgramError, why));
        match self.events_kind() {
            EventsKind::None => return refuse("this opcode has no events block"),
            EventsKind::V1 if e.value != 0 => {
                return refuse("the events block of v1 has no value");
            }
            EventsKind::V1 => {}
            EventsKind::V2 => self.write(8, 4, u64::from(e.value)),
        }
        self.bytes[4..8].copy_from_slice(&[e.wait_mode, e.wait_idx, e.update_mode, e.update_idx]);
        Ok(())
    }

    /// How patterns of this generation are told apart.
    pub fn pattern_rules(&self) -> PatternRules {
        PatternRules {
            plain_addresses: self.generation == Generation::V1,
            mx_marker: self.generation == Generation::V5,
        }
    }

    /// The access pattern `field` of this word.
    ///
    /// # Errors
    /// The form does not have the field, or it is not a pattern.
    pub fn pattern(&self, field: Field) -> Result<Pattern> {
        let (kind, at) = self.pattern_place(field)?;
        Pattern::decode(kind, &self.bytes[at..at + kind.size()], self.pattern_rules())
    }

    fn pattern_place(&self, field: Field) -> Result<(PatternKind, usize)> {
        let form = self.form();
        match (field.pattern(form), field.at(form)) {
            (Some(kind), Some(at)) if at + kind.size() <= INST_BYTES => Ok((kind, at)),
            _ => Err(Error::internal(format!(
                "field `{}` is no pattern of {} on {}",
                field.name,
                self.def()?.name,
                self.generation
            ))),
        }
    }

    /// The access pattern in a field of this word's struct.
    ///
    /// # Errors
    /// The field is not a pattern.
    pub fn pattern_of(&self, def: &FieldDef) -> Result<Pattern> {
        match def.ty_in(self.form()) {
            FieldType::Pattern(kind) => Pattern::decode(kind, self.raw(def), self.pattern_rules()),
            _ => Err(Error::internal(format!("field `{}` is not a pattern", def.name))),
        }
    }

    /// The plain tensor pattern `field`.
    ///
    /// # Errors
    /// As [`Inst::pattern`]; a missing specification where the pattern has another form, which the
    /// opcodes that are known to take it decode themselves.
    pub fn tensor(&self, field: Field) -> Result<TensorPattern> {
        let (form, page) = match self.pattern(field)? {
            Pattern::Tensor(t) => return Ok(t),
            Pattern::MxV2 { .. } => ("MXTENSOR_V2", "wiki: firmware/kernels/mx-dequant 6.2"),
            _ => ("indirect", "vendor docs: NkiTensor.indirect"),
        };
        let name = self.def()?.name;
        let fact = format!("how {name} reads an operand `{}` of the {form} form", field.name);
        Err(Error::missing_spec(fact, page))
    }

    /// Writes a plain tensor pattern.
    ///
    /// # Errors
    /// As [`Inst::set_pattern`].
    pub fn set_tensor(&mut self, field: Field, tensor: &TensorPattern) -> Result<()> {
        self.set_pattern(field, &Pattern::Tensor(tensor.clone()))
    }

    /// Writes an access pattern.
    ///
    /// # Errors
    /// The struct does not have the field, or the pattern does not fit it.
    pub fn set_pattern(&mut self, field: Field, pattern: &Pattern) -> Result<()> {
        let (kind, at) = self.pattern_place(field)?;
        let rules = self.pattern_rules();
        pattern.encode(kind, rules, &mut self.bytes[at..at + kind.size()])
    }

    /// The 4-byte address in `field`.
    pub fn addr4(&self, field: Field) -> Addr4 {
        let raw = self.get(field) as u32;
        if self.generation == Generation::V1 { Addr4::Imm(raw) } else { Addr4::decode(raw) }
    }

    /// The 8-byte address in `field`.
    pub fn addr8(&self, field: Field) -> Addr8 {
        Addr8::decode(self.get(field))
    }

    /// The two dtype codes of a DTYPE_PAIR field: (low, high).
    pub fn dtype_pair(&self, field: Field) -> (u8, u8) {
        let byte = self.get(field) as u8;
        (byte & 0xF, byte >> 4)
    }

    /// `num_active_channels` where the struct has one, at whatever place.
    pub fn num_active_channels(&self) -> Option<u8> {
        let def = self.by_name(f::s3d3_ts::NUM_ACTIVE_CHANNELS.name)?;
        self.raw(&def).first().copied()
    }
}

impl std::fmt::Debug for Inst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.def().map_or("?", |d| d.name);
        write!(f, "{} {name}{} ", self.generation, if self.wide_v1 { " wide" } else { "" })?;
        for chunk in self.bytes.chunks(4) {
            for byte in chunk {
                write!(f, "{byte:02x}")?;
            }
            f.write_str("_")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{op, op_v1};

    #[test]
    fn field_offsets_follow_the_generation() {
        let mut offsets = Vec::new();
        for g in Generation::ALL {
            let mut inst = Inst::empty(g, op::MATMUL);
            inst.set(f::s3d3_mm::OUT_DTYPE, 0xA5);
            offsets.push(inst.bytes.iter().position(|b| *b == 0xA5));
            assert_eq!(inst.get(f::s3d3_mm::OUT_DTYPE) == 0xA5, inst.has(f::s3d3_mm::OUT_DTYPE));
        }
        assert_eq!(offsets, [None, None, Some(40), Some(40), Some(40), Some(34)]);
    }

    #[test]
    fn numbers_are_little_endian_and_signed_by_width() {
        let mut inst = Inst::empty(Generation::V3, op::IOTA);
        inst.set(f::d4_iota::CHANNEL_MULTIPLIER, 0xFFFF_FFFE);
        assert_eq!(inst.get_i(f::d4_iota::CHANNEL_MULTIPLIER), -2);
        assert_eq!(inst.i32(36), -2);
        assert!(inst.try_set(f::d4_iota::OUT_DTYPE, 0x100).is_err());
        assert_eq!(inst.u64(60), 0, "reads behind the end are zero");
    }

    #[test]
    fn events_by_dialect() {
        let e = RawEvents { wait_mode: 5, wait_idx: 7, update_mode: 0x13, update_idx: 9, value: 3 };
        let mut v3 = Inst::empty(Generation::V3, op::NOP);
        v3.set_events(e).unwrap();
        assert_eq!(v3.u64(4), 3 << 32 | 9 << 24 | 0x13 << 16 | 7 << 8 | 5);
        assert_eq!(v3.events(), e);
        let mut v1 = Inst::empty(Generation::V1, op_v1::NOP);
        assert!(v1.set_events(e).is_err());
        v1.set_events(RawEvents { value: 0, ..e }).unwrap();
        assert_eq!(v1.events(), RawEvents { value: 0, ..e });
        assert_eq!(v1.layout().unwrap().payload_offset, 8);
        let mut wide = Inst::empty_wide_v1(op_v1::NOP);
        wide.set_events(e).unwrap();
        assert_eq!(wide.events(), e);
        assert_eq!(wide.layout().unwrap().payload_offset, 12);
        let mut cci = Inst::empty(Generation::V5, op::COMPACT_CONTROL_INST);
        assert!(cci.set_events(e).is_err());
        assert_eq!(cci.bytes[1], 0);
    }

    #[test]
    fn bad_opcodes_say_why() {
        let why = |g, b| Inst::empty(g, b).def().unwrap_err().to_string();
        assert!(why(Generation::V3, 0xFF).contains("INVALID sentinel"));
        assert!(why(Generation::V3, 0x8A).contains("abandoned after v2"));
        assert!(why(Generation::V3, 0x25).contains("absent from v3, present on v4..v5"));
        assert!(why(Generation::V3, 0x80).contains("unassigned in every generation"));
        assert!(why(Generation::V5, 0xC0).contains("pseudo band"));
        assert!(why(Generation::V1, 0x6B).contains("from v2 on it is STREAM_TRANSPOSE"));
        assert!(why(Generation::V2, 0xEB).contains("v1 uses this byte for SIM_DMA_COPY"));
        assert_eq!(Inst::empty(Generation::V1, 0x68).def().unwrap().name, "NOP");
        assert_eq!(Inst::empty(Generation::V2, 0x68).def().unwrap().name, "GATHER");
    }
}

//! The shapes of the instruction-set tables; `build.rs` fills them from `src/isa/tables/`.

use super::generation::{GenSet, Generation};

/// Which set of offsets a 64-byte word uses: its generation, or the V1 dialect that carries the
/// later 8-byte events block (OPEN: that dialect takes the v2 struct of an opcode where there is
/// one, and otherwise the V1 struct with its payload four bytes later).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Layout {
    /// V1, 4-byte events block.
    V1,
    /// v2.
    V2,
    /// v3.
    V3,
    /// v4.
    V4,
    /// v4+.
    V4Plus,
    /// v5.
    V5,
    /// V1 opcodes with the 8-byte events block.
    V1Wide,
}

impl Layout {
    /// The layout of ordinary words of `generation`.
    pub const fn of(generation: Generation) -> Layout {
        match generation {
            Generation::V1 => Layout::V1,
            Generation::V2 => Layout::V2,
            Generation::V3 => Layout::V3,
            Generation::V4 => Layout::V4,
            Generation::V4Plus => Layout::V4Plus,
            Generation::V5 => Layout::V5,
        }
    }
}

/// Marks a field that a layout does not have.
pub const ABSENT: u8 = 0xFF;

/// Where one named field of a struct lies, per [`Layout`]. The constants are in [`super::f`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Lower-case name, as in the text syntax.
    pub name: &'static str,
    /// Bytes; at most 8 for fields read as numbers.
    pub size: u8,
    /// Byte offset per layout, or [`ABSENT`].
    pub offsets: [u8; 7],
    /// Kind of access pattern per layout, if it is one.
    pub patterns: [Option<PatternKind>; 7],
}

impl Field {
    /// Byte offset in `layout`, if the field exists there.
    pub const fn at(&self, layout: Layout) -> Option<usize> {
        let offset = self.offsets[layout as usize];
        if offset == ABSENT { None } else { Some(offset as usize) }
    }

    /// The kind of access pattern it is in `layout`.
    pub const fn pattern(&self, layout: Layout) -> Option<PatternKind> {
        self.patterns[layout as usize]
    }
}

/// A group of bits inside a packed byte or word. The constants are in [`super::b`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Lower-case name.
    pub name: &'static str,
    /// Lowest bit.
    pub bit: u8,
    /// Number of bits.
    pub width: u8,
    /// What it says, and its enum if it has one.
    pub meaning: &'static str,
}

impl Bits {
    const fn mask(&self) -> u64 {
        if self.width >= 64 { u64::MAX } else { (1 << self.width) - 1 }
    }

    /// Extracts the group from `packed`.
    pub const fn get(&self, packed: u64) -> u64 {
        (packed >> self.bit) & self.mask()
    }

    /// `packed` with the group replaced by the low bits of `value`.
    pub const fn with(&self, packed: u64, value: u64) -> u64 {
        (packed & !(self.mask() << self.bit)) | ((value & self.mask()) << self.bit)
    }
}

/// A packed byte or word: a list of bit groups.
#[derive(Debug)]
pub struct BitsDef {
    /// Name as in the headers, for instance `MATMUL_FLAGS`.
    pub name: &'static str,
    /// Bytes.
    pub size: u8,
    /// Groups, lowest bit first.
    pub fields: &'static [Bits],
    /// Page.
    pub source: &'static str,
    /// Remarks.
    pub note: &'static str,
}

/// Kinds of access pattern (wiki: dma/sbuf-psum-banks; generations/arch-isa-header-diff 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatternKind {
    /// `TENSOR1D`..`TENSOR4D`: address, int16 steps, uint16 counts; the number of dimensions.
    Tensor(u8),
    /// `MEM_PATTERN2D`..`4D`: a tensor or an indirect pattern of the same size (v5: or MX).
    Mem(u8),
    /// `MXMEM_PATTERN1D`: MX tensor or MX indirect pattern, 16 bytes.
    Mx,
    /// `DATA4D`: a generator of values, not an address.
    Data4d,
}

impl PatternKind {
    /// Dimensions of the plain form.
    pub const fn dims(self) -> usize {
        match self {
            PatternKind::Tensor(n) | PatternKind::Mem(n) => n as usize,
            PatternKind::Mx => 1,
            PatternKind::Data4d => 4,
        }
    }

    /// Encoded size in bytes.
    pub const fn size(self) -> usize {
        match self {
            PatternKind::Mx => 16,
            other => 4 + 4 * other.dims(),
        }
    }
}

/// What the bytes of a field mean; enough to print and to parse it.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// Unsigned byte.
    U8,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// Signed byte.
    I8,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 4 bytes.
    I32,
    /// IEEE single.
    F32,
    /// 0 or 1 in one byte.
    Bool,
    /// The opcode byte.
    Opcode,
    /// NUL-padded text of this many bytes.
    Char(u8),
    /// Several of one type, back to back.
    Array(&'static FieldType, u8),
    /// A member of an enum.
    Enum(&'static EnumDef),
    /// A dtype code (enum `DTYPE`).
    Dtype,
    /// Two dtype codes in nibbles: low = first or source, high = second or destination.
    DtypePair,
    /// Packed bits.
    Bits(&'static BitsDef),
    /// Register specifier: 0..63, 128 and 129 for the low and high word of the program counter.
    Reg,
    /// On-chip address or register form, 4 bytes.
    Addr4,
    /// Device address, register pair or table form, 8 bytes.
    Addr8,
    /// Plain on-chip address, 29 bits in 4 bytes.
    PartitionOffset,
    /// Plain device address, 8 bytes.
    NeuronAddr,
    /// Access pattern.
    Pattern(PatternKind),
    /// 4-byte immediate whose form the matching `*_src` field selects.
    Imm,
    /// 8-byte immediate, two words, low first.
    Imm64,
    /// 8-byte operand of ALU_OP.
    AluImmediate,
    /// 32 bytes: `u8[32]`, `u16[16]`, `u32[8]` or `f32[8]`.
    MoveImmediate,
    /// 32 bytes: register numbers or packed immediates of TENSOR_LOAD and TENSOR_STORE.
    Mem2dData,
    /// 32 bytes of MOVE_SHAPE; interior not published.
    ShapeData,
    /// 4-byte micro-op of COMPACT_CONTROL_INST.
    CcInst,
    /// Raw 16-byte DMA descriptor.
    DmaDesc,
    /// Custom-op argument; interior not published.
    CustomArg,
    /// Must be zero.
    Reserved,
    /// Bytes whose interior no page gives.
    Opaque,
}

/// One field of a struct in one layout.
#[derive(Clone, Copy, Debug)]
pub struct FieldDef {
    /// Lower-case name.
    pub name: &'static str,
    /// Byte offset in the word.
    pub offset: u8,
    /// Bytes.
    pub size: u8,
    /// Meaning from v4 on, or on every generation.
    pub ty: FieldType,
    /// Meaning on v1..v3 where it differs; same size.
    pub ty_before_v4: Option<FieldType>,
    /// Remark, possibly empty.
    pub meaning: &'static str,
}

impl FieldDef {
    /// The meaning in `layout`.
    pub const fn ty_in(&self, layout: Layout) -> FieldType {
        match (layout, self.ty_before_v4) {
            (Layout::V1 | Layout::V1Wide | Layout::V2 | Layout::V3, Some(ty)) => ty,
            _ => self.ty,
        }
    }

    /// Whether the field must be zero.
    pub const fn is_reserved(&self) -> bool {
        matches!(self.ty, FieldType::Reserved)
    }
}

/// Which events block a struct carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsKind {
    /// None: bytes 4.. are the struct's own.
    None,
    /// 4 bytes: wait event mode and index, set event mode and index.
    V1,
    /// 8 bytes: wait mode and index, update mode and index, one 32-bit value.
    V2,
}

/// A 64-byte operand struct in one layout.
#[derive(Debug)]
pub struct StructDef {
    /// Name as in the headers.
    pub name: &'static str,
    /// Other name used by the sources, or empty.
    pub also: &'static str,
    /// Generations that use this form.
    pub generations: GenSet,
    /// Whether this is the form of the wide V1 dialect.
    pub wide_v1: bool,
    /// Host-only record.
    pub pseudo: bool,
    /// Events block.
    pub events: EventsKind,
    /// First byte after header and events.
    pub payload_offset: u8,
    /// Extended opcodes (byte 12 of 0xF0) that select it; empty for all others.
    pub spec: &'static [u8],
    /// Every field from byte 0 to 63, in order, without gap or overlap.
    pub fields: &'static [FieldDef],
    /// `observed`, `inferred`, `partial`, `unpublished`, or `open` for the emulator's own layout.
    pub status: &'static str,
    /// Page.
    pub source: &'static str,
    /// Remarks.
    pub note: &'static str,
}

impl StructDef {
    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&'static FieldDef> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Fields behind header and events.
    pub fn payload(&self) -> impl Iterator<Item = &'static FieldDef> {
        let start = self.payload_offset;
        self.fields.iter().filter(move |f| f.offset >= start)
    }

    /// Whether the layout is the emulator's own choice.
    pub fn is_open(&self) -> bool {
        self.status == "open"
    }
}

/// An enumeration of the headers.
#[derive(Debug)]
pub struct EnumDef {
    /// Name.
    pub name: &'static str,
    /// Generations that have it.
    pub generations: GenSet,
    /// Value and name of every member of any generation, by value.
    pub values: &'static [(u32, &'static str)],
    /// Generations of each member, in the order of `values`.
    pub value_generations: &'static [GenSet],
    /// Remark on each member, in the order of `values`.
    pub value_meanings: &'static [&'static str],
    /// `observed`, `inferred`, `partial`, `conflict` or `open`.
    pub status: &'static str,
    /// Page.
    pub source: &'static str,
    /// Remarks.
    pub note: &'static str,
}

impl EnumDef {
    /// Name of `value` in any generation.
    pub fn name_of(&self, value: u64) -> Option<&'static str> {
        self.values.iter().find(|(v, _)| u64::from(*v) == value).map(|(_, n)| *n)
    }

    /// Value of the member `name` in any generation, in any case.
    pub fn value_of(&self, name: &str) -> Option<u32> {
        self.values.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(v, _)| *v)
    }

    /// Whether `value` is a member in `generation`. Where the headers of a generation do not have
    /// the enum, its members of v2 (for V1) or of any generation count, since a struct of that
    /// generation uses it all the same.
    pub fn contains(&self, generation: Generation, value: u64) -> bool {
        let own = self.generations.contains(generation);
        let judge = if generation == Generation::V1 && !own { Generation::V2 } else { generation };
        let strict = self.generations.contains(judge);
        self.values
            .iter()
            .zip(self.value_generations)
            .any(|((v, _), gens)| u64::from(*v) == value && (!strict || gens.contains(judge)))
    }
}

/// A named set of members of one enum, for instance `is_general_arith_op`.
#[derive(Debug)]
pub struct ClassDef {
    /// Name of the header predicate.
    pub name: &'static str,
    /// Member codes, ascending.
    pub members: &'static [u8],
    /// Page.
    pub source: &'static str,
    /// Remarks.
    pub note: &'static str,
}

impl ClassDef {
    /// Whether `code` belongs to the class.
    pub fn contains(&self, code: u8) -> bool {
        self.members.binary_search(&code).is_ok()
    }
}

/// How an opcode is present in a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Not a member of the opcode enum.
    Absent,
    /// Present and maintained.
    Maintained,
    /// Present, marked disabled in the headers.
    Dormant,
    /// Present, without a maintenance flag.
    Unflagged,
}

/// Who executes an opcode first of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// Matrix engine.
    Pe,
    /// Activation engine.
    Act,
    /// Pooling engine.
    Pool,
    /// Vector engine.
    Dve,
    /// Every engine's sequencer.
    Seq,
    /// Descriptor-backed, by the sequencer that fetches it.
    Dma,
    /// Host-only record, rewritten by the loader.
    Pseudo,
    /// V1 simulator-only.
    Sim,
    /// Nobody: the INVALID sentinel.
    None,
}

impl Home {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Home::Pe => "PE",
            Home::Act => "ACT",
            Home::Pool => "POOL",
            Home::Dve => "DVE",
            Home::Seq => "SEQ",
            Home::Dma => "DMA",
            Home::Pseudo => "PSEUDO",
            Home::Sim => "SIM",
            Home::None => "NONE",
        }
    }
}

/// Grouping of opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Data path.
    Compute,
    /// Sequencer and configuration.
    Control,
    /// Events and semaphores.
    Sync,
    /// Data movement by descriptors.
    Dma,
    /// Host-only.
    Pseudo,
    /// V1 simulator-only.
    Simulator,
    /// INVALID.
    Sentinel,
}

/// One opcode.
#[derive(Debug)]
pub struct OpcodeDef {
    /// Byte 0.
    pub byte: u8,
    /// Header name.
    pub name: &'static str,
    /// Primary executor.
    pub engine: Home,
    /// Every executor the pages name, with remarks.
    pub engines: &'static str,
    /// Group.
    pub class: Class,
    /// Names of its operand structs; more than one only for 0xF0, none if not published.
    pub struct_names: &'static [&'static str],
    /// Per generation, in the order of [`Generation::ALL`].
    pub presence: [Presence; 6],
    /// Page that decodes it, or `NONE`.
    pub page: &'static str,
    /// Remarks.
    pub notes: &'static str,
    /// What it does, in one line.
    pub does: &'static str,
    /// The open choices it rests on: `topic: start of the row` in docs/open-choices/topic.md.
    pub open: &'static [&'static str],
}

impl OpcodeDef {
    /// Presence in `generation`.
    pub fn presence_in(&self, generation: Generation) -> Presence {
        self.presence[generation.index()]
    }

    /// Generations that have it.
    pub fn generations(&self) -> GenSet {
        let mut set = 0;
        for g in Generation::ALL {
            if self.presence_in(g) != Presence::Absent {
                set |= 1 << g.index();
            }
        }
        GenSet(set)
    }
}

/// One opcode of the V1 SP sequencer: an 8-byte word.
#[derive(Debug)]
pub struct SpOpcodeDef {
    /// Bits 6:0 of byte 0.
    pub value: u8,
    /// Name.
    pub name: &'static str,
    /// Family.
    pub group: &'static str,
    /// Meaning, INFERRED from the name by the source.
    pub meaning: &'static str,
    /// Operand fields in bytes 1..7 (OPEN: positions are the emulator's own).
    pub fields: &'static [SpField],
}

/// An operand of an SP word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpField {
    /// Name; `reserved` bytes must be zero.
    pub name: &'static str,
    /// Byte offset.
    pub offset: u8,
    /// Bytes, little-endian.
    pub size: u8,
}

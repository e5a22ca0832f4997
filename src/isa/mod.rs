//! Instruction set as data: generations, opcode table, struct codec, validators, text syntax.

pub mod defs;
pub mod generation;
pub mod geometry;
pub mod inst;
pub mod pattern;
pub mod sp;
pub mod stream;
mod tables;
pub mod text;
pub mod validate;

pub use defs::{
    Bits, BitsDef, Class, ClassDef, EnumDef, EventsKind, Field, FieldDef, FieldType, Home, Layout,
    OpcodeDef, PatternKind, Presence, SpField, SpOpcodeDef, StructDef,
};
pub use generation::{Engine, GenSet, Generation};
pub use geometry::Geometry;
pub use inst::{Inst, RawEvents};
pub use pattern::{Addr4, Addr8, Pattern, TensorPattern};
pub use sp::SpInst;
pub use stream::StreamFormat;
pub use tables::{
    BAD_OPCODE, ENUMS, OPCODES, PACKED, SP_OPCODES, STRUCTS, V1_OPCODES, b, class, e, enum_by_name,
    enums, f, op, op_sp, op_v1, opcode, opcode_by_name, opcode_table, packed, packed_by_name,
    sp_opcode, struct_by_name, struct_in, struct_of,
};
pub use validate::{validate, validate_all};

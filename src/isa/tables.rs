//! The instruction-set tables, generated from `src/isa/tables/` by `build.rs`, and look-up in them.

use std::sync::LazyLock;

use super::defs::*;
use super::generation::{GenSet, Generation};
use crate::error::{Error, Result};

include!(concat!(env!("OUT_DIR"), "/isa_tables.rs"));

/// Rule name of every "no such opcode" error.
pub const BAD_OPCODE: &str = "has_valid_neuron_header";

const fn index_by_byte(table: &[OpcodeDef]) -> [u8; 256] {
    let mut index = [0xFF; 256];
    let mut i = 0;
    while i < table.len() {
        index[table[i].byte as usize] = i as u8;
        i += 1;
    }
    index
}

static OPCODE_INDEX: [u8; 256] = index_by_byte(OPCODES);
static V1_INDEX: [u8; 256] = index_by_byte(V1_OPCODES);

/// The opcode table of a generation: V1 has its own, v2..v5 share one with presence columns.
pub fn opcode_table(generation: Generation) -> &'static [OpcodeDef] {
    if generation == Generation::V1 { V1_OPCODES } else { OPCODES }
}

/// The row of `byte` in the table `generation` uses, present or not.
fn row(generation: Generation, byte: u8) -> Option<&'static OpcodeDef> {
    let (table, index) = match generation {
        Generation::V1 => (V1_OPCODES, &V1_INDEX),
        _ => (OPCODES, &OPCODE_INDEX),
    };
    table.get(usize::from(index[usize::from(byte)]))
}

/// The opcode `byte` of `generation`.
///
/// # Errors
/// Says whether the byte is the sentinel, a hole, a byte of other generations, or one that V1 and
/// the later generations use differently (wiki: generations/cross-gen-opcode-diff).
pub fn opcode(generation: Generation, byte: u8) -> Result<&'static OpcodeDef> {
    if let Some(def) = row(generation, byte)
        && def.presence_in(generation) != Presence::Absent
        && byte != 0xFF
    {
        return Ok(def);
    }
    Err(unknown(generation, byte))
}

fn unknown(generation: Generation, byte: u8) -> Error {
    let error = |why: String| Error::illegal(BAD_OPCODE, format!("opcode {byte:#04x}: {why}"));
    if byte == 0xFF {
        return error("the INVALID sentinel is not executable".into());
    }
    if generation == Generation::V1 {
        let split = format!("engine class {}, local opcode {:#04x}", byte >> 5, byte & 0x1F);
        return match row(Generation::V2, byte) {
            Some(later) => error(format!(
                "not an opcode of v1 ({split}); from v2 on it is {} on {}",
                later.name,
                later.generations()
            )),
            None => error(format!("not an opcode of v1 ({split})")),
        };
    }
    let v1 = match row(Generation::V1, byte) {
        Some(def) => format!("; v1 uses this byte for {}", def.name),
        None => String::new(),
    };
    match row(generation, byte) {
        Some(def) => {
            let has = def.generations();
            let why = if !has.contains(Generation::V3)
                && generation > Generation::V2
                && has.contains(Generation::V2)
            {
                format!("{} was abandoned after v2 and its byte never reused{v1}", def.name)
            } else {
                format!("{} is absent from {generation}, present on {has}{v1}", def.name)
            };
            error(why)
        }
        None if byte == 0xC0 => {
            error("unassigned, although its top bits are those of the pseudo band".into())
        }
        None => error(format!("unassigned in every generation from v2 on{v1}")),
    }
}

/// The opcode called `name`, in any case, if `generation` has it.
pub fn opcode_by_name(generation: Generation, name: &str) -> Option<&'static OpcodeDef> {
    opcode_table(generation).iter().find(|d| {
        d.name.eq_ignore_ascii_case(name) && d.presence_in(generation) != Presence::Absent
    })
}

/// The SP opcode of V1 with this 7-bit value.
pub fn sp_opcode(value: u8) -> Option<&'static SpOpcodeDef> {
    SP_OPCODES.iter().find(|d| d.value == value)
}

/// The struct called `name` in the form of `layout`.
pub fn struct_by_name(layout: Layout, name: &str) -> Option<&'static StructDef> {
    let in_generation = |g: Generation| {
        STRUCTS.iter().find(|s| s.name.eq_ignore_ascii_case(name) && s.generations.contains(g))
    };
    match layout {
        Layout::V1Wide => in_generation(Generation::V2)
            .or_else(|| STRUCTS.iter().find(|s| s.name.eq_ignore_ascii_case(name) && s.wide_v1)),
        Layout::V1 => in_generation(Generation::V1),
        Layout::V2 => in_generation(Generation::V2),
        Layout::V3 => in_generation(Generation::V3),
        Layout::V4 => in_generation(Generation::V4),
        Layout::V4Plus => in_generation(Generation::V4Plus),
        Layout::V5 => in_generation(Generation::V5),
    }
}

/// The enumeration called `name`.
pub fn enum_by_name(name: &str) -> Option<&'static EnumDef> {
    ENUMS.iter().find(|e| e.name.eq_ignore_ascii_case(name)).copied()
}

/// The packed byte called `name`.
pub fn packed_by_name(name: &str) -> Option<&'static BitsDef> {
    PACKED.iter().find(|e| e.name.eq_ignore_ascii_case(name)).copied()
}

/// Name of the struct that stands for operand structs no page gives.
pub const OPAQUE: &str = "OPAQUE";

/// Every layout, in the order of its numbers.
const LAYOUTS: [Layout; 7] =
    [Layout::V1, Layout::V2, Layout::V3, Layout::V4, Layout::V4Plus, Layout::V5, Layout::V1Wide];

/// Structs by layout and opcode byte, so that looking one up costs two indexed loads.
static STRUCT_INDEX: LazyLock<Box<[[Option<&'static StructDef>; 256]; 7]>> = LazyLock::new(|| {
    let mut index = Box::new([[None; 256]; 7]);
    for layout in LAYOUTS {
        let table = match layout {
            Layout::V1 | Layout::V1Wide => V1_OPCODES,
            _ => OPCODES,
        };
        for op in table {
            index[layout as usize][usize::from(op.byte)] = find_struct(layout, op, 0).ok();
        }
    }
    index
});

/// The operand struct of `op` in `layout`; `spec` is byte 12, which matters for 0xF0 alone.
///
/// # Errors
/// An extended opcode that the enum does not have.
pub fn struct_in(layout: Layout, op: &OpcodeDef, spec: u8) -> Result<&'static StructDef> {
    // A V1 word's opcode comes from the V1 table and any other from the common one, so the byte
    // is enough.
    let v1 = op.presence_in(Generation::V1) != Presence::Absent;
    if v1 == matches!(layout, Layout::V1 | Layout::V1Wide)
        && op.struct_names.len() < 2
        && let Some(found) = STRUCT_INDEX[layout as usize][usize::from(op.byte)]
    {
        return Ok(found);
    }
    find_struct(layout, op, spec)
}

fn find_struct(layout: Layout, op: &OpcodeDef, spec: u8) -> Result<&'static StructDef> {
    let found = match op.struct_names {
        [] => None,
        [one] => struct_by_name(layout, one),
        many => {
            let chosen = many
                .iter()
                .filter_map(|n| struct_by_name(layout, n))
                .find(|s| s.spec.contains(&spec));
            return chosen.ok_or_else(|| {
                Error::illegal(
                    "extended_opcode",
                    format!("{}: unknown extended opcode {spec}", op.name),
                )
            });
        }
    };
    found
        .or_else(|| struct_by_name(layout, OPAQUE))
        .ok_or_else(|| Error::internal(format!("no opaque struct for {layout:?}")))
}

/// The operand struct of `op` in `generation`; for 0xF0 that of extended opcode 0.
///
/// # Errors
/// As [`struct_in`].
pub fn struct_of(generation: Generation, op: &OpcodeDef) -> Result<&'static StructDef> {
    struct_in(Layout::of(generation), op, 0)
}

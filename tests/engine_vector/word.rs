//! Instruction words and memory rows from the JSON vectors of `tools/oracle`.

use serde_json::Value;
use tpbemu::isa::{Generation, Inst, opcode_by_name};
use tpbemu::memory::Space;

pub fn generation(name: &str) -> Generation {
    match name {
        "v1" => Generation::V1,
        "v2" => Generation::V2,
        "v3" => Generation::V3,
        "v4" => Generation::V4,
        "v4plus" => Generation::V4Plus,
        "v5" => Generation::V5,
        other => panic!("generation {other}"),
    }
}

pub fn int(v: &Value) -> u64 {
    v.as_u64().or_else(|| v.as_i64().map(|v| v as u64)).unwrap_or_else(|| panic!("number: {v}"))
}

pub fn hex(v: &Value) -> Vec<u8> {
    let text = v.as_str().expect("hex text");
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// A pattern as its bytes: address or base, steps, counts, the missing dimensions of one element.
fn pattern(v: &Value, size: usize) -> Vec<u8> {
    let dims = (size - 4) / 4;
    let list = |key: &str, fill: i64| -> Vec<u8> {
        let list = v[key].as_array().unwrap();
        assert!(list.len() <= dims, "{v} in {dims} dimensions");
        (0..dims)
            .map(|d| list.get(d).map_or(fill, |n| n.as_i64().unwrap()) as u16)
            .flat_map(u16::to_le_bytes)
            .collect()
    };
    let first = v.get("addr").or_else(|| v.get("base")).expect("addr or base");
    let mut out = (int(first) as u32).to_le_bytes().to_vec();
    out.extend(list("steps", 0));
    out.extend(list("nums", 1));
    out
}

pub fn build(generation: Generation, v: &Value) -> Inst {
    let name = v["opcode"].as_str().unwrap();
    let def = opcode_by_name(generation, name).unwrap_or_else(|| panic!("no opcode {name}"));
    let mut inst = Inst::empty(generation, def.byte);
    if let Some(spec) = v.get("extended_opcode") {
        inst.bytes[12] = int(spec) as u8;
    }
    for (key, value) in v.as_object().unwrap() {
        if key == "opcode" {
            continue;
        }
        let field = inst.by_name(key).unwrap_or_else(|| panic!("{name} has no field {key}"));
        let (at, size) = (usize::from(field.offset), usize::from(field.size));
        let bytes = match value {
            Value::Object(_) => pattern(value, size),
            Value::String(_) => hex(value),
            number => int(number).to_le_bytes()[..size].to_vec(),
        };
        inst.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    inst
}

/// Rows lie in SBUF unless they say otherwise.
pub fn space(row: &Value) -> Space {
    match row.get(3).and_then(Value::as_str) {
        Some("psum") => Space::Psum,
        None => Space::Sbuf,
        Some(other) => panic!("space {other}"),
    }
}

//! Runs the vectors of `tools/oracle/indirect.py` and `tools/oracle/dge.py`: bytes put into memory,
//! instruction words given by field names, bytes expected afterwards.

#![allow(dead_code)]

use serde_json::Value;
use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::engine::{Outcome, Prepared};
use tpbemu::error::Result;
use tpbemu::isa::validate::validate;
use tpbemu::isa::{Engine, FieldType, Generation, Inst, opcode_by_name};
use tpbemu::memory::Space;

/// The vectors of a file.
pub fn load(path: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn number(v: &Value) -> u64 {
    v.as_u64().or_else(|| v.as_i64().map(|x| x as u64)).unwrap_or_else(|| panic!("number {v}"))
}

fn put(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// The word with opcode `op` and the given fields, all else zero.
pub fn build(generation: Generation, op: &str, fields: &Value) -> Inst {
    let def = opcode_by_name(generation, op).unwrap_or_else(|| panic!("no opcode {op}"));
    let mut inst = Inst::empty(generation, def.byte);
    let fields = fields.as_object().expect("fields");
    // the extended opcode chooses the struct
    if let Some(value) = fields.get("extended_opcode") {
        inst.bytes[12] = number(value) as u8;
    }
    for (name, value) in fields {
        if name == "raw" {
            let bytes = hex(value[1].as_str().expect("hex"));
            let at = number(&value[0]) as usize;
            inst.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
            continue;
        }
        let layout = inst.layout().expect("struct");
        let field = layout.field(name).unwrap_or_else(|| panic!("{} has no {name}", layout.name));
        let (at, size) = (usize::from(field.offset), usize::from(field.size));
        let bytes = &mut inst.bytes;
        match value {
            Value::Array(list) => {
                let each = size / list.len();
                for (i, v) in list.iter().enumerate() {
                    put(bytes, at + i * each, each, number(v));
                }
            }
            Value::Object(p) if p.contains_key("dims") => {
                assert!(matches!(field.ty, FieldType::Pattern(_)), "{name} is no pattern");
                let dims = p["dims"].as_array().expect("dims");
                put(bytes, at, 4, number(&p["addr"]));
                for (i, d) in dims.iter().enumerate() {
                    put(bytes, at + 4 + 2 * i, 2, number(&d[0]));
                    put(bytes, at + 4 + 2 * (dims.len() + i), 2, number(&d[1]));
                }
                assert_eq!(size, 4 + 4 * dims.len(), "{name}");
            }
            Value::Object(p) if p.contains_key("index") => {
                put(bytes, at, 4, number(&p["index"]));
                put(bytes, at + 4, 4, number(&p["data"]));
                put(bytes, at + 8, 2, number(&p["num"]));
            }
            Value::Object(p) => {
                put(bytes, at, 4, number(&p["data"]));
                put(bytes, at + 4, 4, number(&p["scale"]));
                put(bytes, at + 8, 2, number(&p["num"]));
                put(bytes, at + 10, 1, number(&p["step"]));
                put(bytes, at + 11, 1, number(&p["scale_partition"]));
            }
            v => put(bytes, at, size, number(v)),
        }
    }
    inst
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn space(v: &Value) -> Space {
    match v.as_str() {
        Some("sbuf") => Space::Sbuf,
        Some("psum") => Space::Psum,
        _ => Space::Hbm,
    }
}

pub fn generation(v: &Value) -> Generation {
    v["generation"].as_str().and_then(|g| g.parse().ok()).expect("generation")
}

/// A bench with the vector's memory and registers.
pub fn bench(v: &Value) -> Bench {
    let engine = Engine::ALL
        .into_iter()
        .find(|e| e.to_string() == v["engine"].as_str().unwrap_or(""))
        .expect("engine");
    let mut bench = Bench::new(generation(v), engine);
    for p in v["put"].as_array().expect("put") {
        let data = hex(p[3].as_str().unwrap());
        bench.put(space(&p[0]), number(&p[1]) as u32, number(&p[2]), &data);
    }
    if let Some(registers) = v["registers"].as_object() {
        for (r, value) in registers {
            bench.registers[r.parse::<usize>().unwrap()] = number(value) as u32;
        }
    }
    bench
}

/// Runs the program of `v`; returns the semaphore increments it asked for.
pub fn execute(v: &Value, bench: &mut Bench) -> Result<Vec<(u16, u32)>> {
    let mut semaphores = Vec::new();
    for step in v["program"].as_array().expect("program") {
        let inst = build(generation(v), step["op"].as_str().unwrap(), &step["fields"]);
        // the words are legal ones
        validate(&inst, bench.engine, true)?;
        if let Prepared::Dma(request) = bench.prepare(&inst)? {
            semaphores.extend(request.semaphores.iter().copied());
        }
        let _: Outcome = bench.run(&inst)?;
    }
    Ok(semaphores)
}

/// Runs vector `v` and compares memory, semaphores or the error; the message tells what differs.
pub fn check(v: &Value) -> std::result::Result<(), String> {
    let name = v["name"].as_str().unwrap();
    let mut bench = bench(v);
    match (execute(v, &mut bench), v["error"].as_str()) {
        (Err(e), Some(class)) => {
            if format!("{:?}", e.class) != class || e.class == ErrorClass::Internal {
                return Err(format!("{name}: {e}"));
            }
            // what was done before the fault is not specified
            return Ok(());
        }
        (Err(e), None) => return Err(format!("{name}: {e}")),
        (Ok(_), Some(class)) => return Err(format!("{name}: no {class} raised")),
        (Ok(semaphores), None) => {
            let wanted: Vec<(u16, u32)> = v["semaphores"].as_array().map_or(Vec::new(), |s| {
                s.iter().map(|p| (number(&p[0]) as u16, number(&p[1]) as u32)).collect()
            });
            if semaphores != wanted {
                return Err(format!("{name}: semaphores {semaphores:?}, not {wanted:?}"));
            }
        }
    }
    for e in v["expect"].as_array().expect("expect") {
        let want = hex(e[3].as_str().unwrap());
        compare(&mut bench, name, e, &want)?;
    }
    // ranges that must keep their bits
    let originals = v["put"].as_array().expect("put");
    for k in v["keep"].as_array().expect("keep") {
        let original = originals.iter().find(|p| p[0] == k[0] && p[1] == k[1] && p[2] == k[2]);
        let want = hex(original.expect("kept range")[3].as_str().unwrap());
        compare(&mut bench, name, k, &want[..number(&k[3]) as usize])?;
    }
    Ok(())
}

fn compare(
    bench: &mut Bench,
    name: &str,
    at: &Value,
    want: &[u8],
) -> std::result::Result<(), String> {
    let (s, p, b) = (space(&at[0]), number(&at[1]) as u32, number(&at[2]));
    let got = bench.get(s, p, b, want.len() as u64);
    match got.iter().zip(want).position(|(g, w)| g != w) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{name}: {s} partition {p} byte {b}+{i}:\n got {got:02x?}\nwant {want:02x?}"
        )),
    }
}

/// Runs every vector of a file and prints how many; all that fail are named.
pub fn run_file(path: &str) {
    let vectors = load(path);
    let failed: Vec<String> = vectors.iter().filter_map(|v| check(v).err()).collect();
    println!("{path}: {} run", vectors.len());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), vectors.len(), failed.join("\n"));
    assert!(!vectors.is_empty());
}

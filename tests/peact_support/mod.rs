//! Runs vectors of the PE and ACT oracles: memory contents, instructions by named fields, expected
//! memory contents.

use serde::Deserialize;
use std::collections::BTreeMap;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Addr4, Engine, FieldType, Generation, Inst, Pattern, TensorPattern, opcode};
use tpbemu::memory::Space;

#[derive(Deserialize)]
pub struct Case {
    pub name: String,
    #[serde(rename = "gen")]
    pub generation: String,
    pub put: Vec<Bytes>,
    pub insts: Vec<Instruction>,
    pub expect: Vec<Bytes>,
    /// Error rule the last instruction must raise.
    #[serde(default)]
    pub error: Option<String>,
    /// Relative tolerance of FP32 results; 0 compares bits.
    #[serde(default)]
    pub tolerance: f32,
}

#[derive(Deserialize)]
pub struct Bytes {
    pub space: String,
    pub partition: u32,
    pub byte: u64,
    /// Consecutive partitions, which share `hex` evenly.
    pub count: u32,
    pub hex: String,
}

impl Bytes {
    /// (partition, bytes) of each row.
    fn rows(&self) -> Vec<(u32, Vec<u8>)> {
        let all = unhex(&self.hex);
        let len = all.len() / self.count as usize;
        (self.partition..).zip(all.chunks_exact(len).map(<[u8]>::to_vec)).collect()
    }
}

#[derive(Deserialize)]
pub struct Instruction {
    pub op: String,
    #[serde(default)]
    pub fields: BTreeMap<String, i64>,
    #[serde(default)]
    pub floats: BTreeMap<String, f32>,
    #[serde(default)]
    pub patterns: BTreeMap<String, Shape>,
    /// Fields as bytes.
    #[serde(default)]
    pub raw: BTreeMap<String, String>,
    #[serde(default)]
    pub registers: BTreeMap<usize, u32>,
}

#[derive(Deserialize)]
pub struct Shape {
    pub addr: u32,
    pub dims: Vec<(i16, u16)>,
}

impl Instruction {
    pub fn encode(&self, generation: Generation) -> Inst {
        let def = (0..=255u8)
            .filter_map(|b| opcode(generation, b).ok())
            .find(|d| d.name == self.op)
            .unwrap_or_else(|| panic!("no opcode {} on {generation}", self.op));
        let mut inst = Inst::empty(generation, def.byte);
        let field = |inst: &Inst, name: &str| {
            inst.by_name(name).unwrap_or_else(|| panic!("{} has no field {name}", self.op))
        };
        for (name, value) in &self.fields {
            let d = field(&inst, name);
            let at = usize::from(d.offset);
            inst.bytes[at..at + usize::from(d.size)]
                .copy_from_slice(&value.to_le_bytes()[..usize::from(d.size)]);
        }
        for (name, value) in &self.floats {
            let at = usize::from(field(&inst, name).offset);
            inst.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (name, hex) in &self.raw {
            let at = usize::from(field(&inst, name).offset);
            let bytes = unhex(hex);
            inst.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        for (name, shape) in &self.patterns {
            let d = field(&inst, name);
            let FieldType::Pattern(kind) = d.ty_in(inst.form()) else {
                panic!("{name} is no pattern");
            };
            let pattern = Pattern::Tensor(TensorPattern {
                addr: Addr4::decode(shape.addr),
                dims: shape.dims.iter().copied().collect(),
            });
            let rules = inst.pattern_rules();
            let at = usize::from(d.offset);
            pattern.encode(kind, rules, &mut inst.bytes[at..at + kind.size()]).expect("pattern");
        }
        inst
    }
}

fn space(name: &str) -> Space {
    Space::ALL.into_iter().find(|s| s.name() == name).expect("space")
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks_exact(2)
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).expect("hex"))
        .collect()
}

/// Runs one case; the message tells what differs.
pub fn run(case: &Case, engine: Engine) -> Result<(), String> {
    let generation = Generation::ALL
        .into_iter()
        .find(|g| g.to_string() == case.generation)
        .ok_or_else(|| format!("generation {}", case.generation))?;
    let mut bench = Bench::new(generation, engine);
    for b in &case.put {
        for (partition, bytes) in b.rows() {
            bench.put(space(&b.space), partition, b.byte, &bytes);
        }
    }
    for (i, instruction) in case.insts.iter().enumerate() {
        for (r, v) in &instruction.registers {
            bench.registers[*r] = *v;
        }
        let inst = instruction.encode(generation);
        let last = i + 1 == case.insts.len();
        match (bench.run(&inst), &case.error) {
            (Err(e), Some(rule)) if last => {
                let text = format!("{e:?}");
                if text.contains(rule.as_str()) {
                    return Ok(());
                }
                return Err(format!("expected error {rule}, got {text}"));
            }
            (Ok(_), Some(rule)) if last => return Err(format!("expected error {rule}")),
            (Err(e), _) => return Err(format!("{}: {e:?}", instruction.op)),
            (Ok(_), _) => {}
        }
    }
    for (b, (partition, want)) in
        case.expect.iter().flat_map(|b| b.rows().into_iter().map(move |row| (b, row)))
    {
        let got = bench.get(space(&b.space), partition, b.byte, want.len() as u64);
        let same = got == want
            || case.tolerance > 0.0
                && got.chunks_exact(4).zip(want.chunks_exact(4)).all(|(g, w)| {
                    let f = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
                    let (g, w) = (f(g), f(w));
                    g.to_bits() == w.to_bits() || (g - w).abs() <= case.tolerance * w.abs()
                });
        if !same {
            return Err(format!(
                "{} partition {} byte {:#x}:\n got  {}\n want {}",
                b.space,
                partition,
                b.byte,
                hex(&got),
                hex(&want)
            ));
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Runs every case of a JSON file and prints how many.
pub fn run_all(json: &str, engine: Engine) {
    let cases: Vec<Case> = serde_json::from_str(json).expect("vectors");
    let mut failed = Vec::new();
    for case in &cases {
        if let Err(why) = run(case, engine) {
            failed.push(format!("{}: {why}", case.name));
        }
    }
    println!("{} run, 0 listed as not executable", cases.len());
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

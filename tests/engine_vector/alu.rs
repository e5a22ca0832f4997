//! Every ALU operation on every generation, type and kind of opcode, against
//! `tools/oracle/alu_audit.py`: what is legal, in which numbers it computes, and the results of all
//! pairs of edge values.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, validate};
use tpbemu::memory::Space;

use super::word::{build, generation, hex, int};

/// Bytes in a partition: first operands, one second operand for each channel, both alternating,
/// results, FP32 scalars.
const A: u32 = 0;
const B: u32 = 0x400;
const PAIRS: u32 = 0x800;
const DST: u32 = 0x1000;
const SCALAR: u32 = 0x1800;

fn row(addr: u32, steps: &[i32], nums: &[usize]) -> Value {
    json!({"addr": addr, "steps": steps, "nums": nums})
}

/// The word of one form: `a` elements in each channel against the channel's second operand.
fn word(form: &str, gen_name: &str, opcode: &str, op: u64, code: u64, a: usize, n: usize) -> Value {
    let pair = code << 4 | code;
    let x_dim = if gen_name == "v1" { 1 } else { 2 };
    let src = row(A, &[1], &[a]);
    let pairs = row(PAIRS, &[1, 2], &[2, a]);
    // the position of an extreme has a type of its own
    let out = if (0xDE..=0xE1).contains(&op) { 9 } else { code };
    match form.split(' ').next().unwrap() {
        "tensor-tensor" => json!({"opcode": opcode, "in0_in1_dtype": pair, "out_dtype": code,
            "op": op, "num_active_channels": n, "src0": src, "src1": row(B, &[0], &[a]),
            "dst": row(DST, &[1], &[a])}),
        "tensor-scalar" => {
            let bits = form.ends_with("bits");
            let scalar = if bits || op >= 0xC0 { B } else { SCALAR };
            if form.contains("second") {
                // x | 0 and x + -0.0 are x
                let (first, nothing) = if bits { (0x0B, 0) } else { (0x04, 0x8000_0000u32) };
                return json!({"opcode": opcode, "in_dtype": code, "out_dtype": code,
                    "op0": first, "imm0": nothing, "op1": op, "imm1_src": 1, "imm1": scalar,
                    "num_active_channels": n, "src": src, "dst": row(DST, &[1], &[a])});
            }
            json!({"opcode": opcode, "in_dtype": code, "out_dtype": code, "op0": op,
                "op1": 0, "imm0_src": 1, "imm0": scalar, "num_active_channels": n, "src": src,
                "dst": row(DST, &[1], &[a])})
        }
        "scalar-tensor-tensor" => {
            let bits = form.ends_with("bits");
            let second = form.contains("second");
            let (op0, op1) = if second { (0, op) } else { (op, 0) };
            let src1 = if second { row(B, &[0], &[a]) } else { row(A, &[1], &[a]) };
            json!({"opcode": opcode, "in0_in1_dtype": pair, "out_dtype": code, "op0": op0,
                "op1": op1, "imm0_src": 1, "imm0": if bits { B } else { SCALAR },
                "imm0_dtype": if bits { code } else { 10 }, "num_active_channels": n,
                "src0": src, "src1": src1, "dst": row(DST, &[1], &[a])})
        }
        "reduce" => json!({"opcode": opcode, "in_dtype": code, "out_dtype": out, "op": op,
            "op_dim": x_dim, "num_active_channels": n, "src": pairs, "dst": row(DST, &[1], &[a])}),
        "cumulative" => json!({"opcode": opcode, "in_dtype": code, "out_dtype": code, "op": op,
            "op_dim": x_dim, "num_active_channels": n, "src": pairs,
            "dst": row(DST, &[1, 2], &[2, a])}),
        "cache" => json!({"opcode": opcode, "in_dtype": code, "out_dtype": code, "op0": op,
            "op1": 4, "accumulator_cmd": 3, "imm0_src": 1, "imm0": SCALAR,
            "num_active_channels": n, "src": src, "dst": row(DST, &[1], &[a])}),
        other => panic!("form {other}"),
    }
}

/// Operands of one type: code, size, first operands, second operands.
struct Inputs {
    code: u64,
    size: usize,
    a: Vec<u8>,
    b: Vec<u8>,
}

impl Inputs {
    fn new(v: &Value) -> Inputs {
        Inputs { code: int(&v[0]), size: int(&v[1]) as usize, a: hex(&v[2]), b: hex(&v[3]) }
    }

    fn put(&self, bench: &mut Bench, name: &str) {
        for (c, b) in (0u32..).zip(self.b.chunks(self.size)) {
            let pairs: Vec<u8> = self.a.chunks(self.size).flat_map(|a| [a, b].concat()).collect();
            bench.put(Space::Sbuf, c, A.into(), &self.a);
            // an integer operation of v5 takes its scalar as 32 bits
            let signed = name.starts_with('i') && b[b.len() - 1] & 0x80 != 0;
            let mut wide = b.to_vec();
            wide.resize(wide.len().max(4), if signed { 0xFF } else { 0 });
            bench.put(Space::Sbuf, c, B.into(), &wide);
            bench.put(Space::Sbuf, c, PAIRS.into(), &pairs);
        }
    }
}

fn prepare(bench: &Bench, inst: &Inst, engine: Engine) -> tpbemu::Result<()> {
    validate(inst, engine, false)?;
    bench.prepare(inst).map(|_| ())
}

#[test]
fn every_operation_of_every_generation() {
    let text = include_str!("../golden/alu/audit.json");
    let audit: Value = serde_json::from_str(text).unwrap();
    let ops: Vec<(&str, u64)> = audit["ops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| (o[0].as_str().unwrap(), int(&o[1])))
        .collect();
    assert_eq!(ops.len(), 65);
    for (name, code) in &ops {
        let first = tpbemu::numeric::AluOp::from_code(Generation::V5, *code as u8);
        assert!(first.is_ok(), "{name}");
    }
    let (mut failed, mut done) = (Vec::new(), BTreeMap::<char, u32>::new());
    for form in audit["forms"].as_array().unwrap() {
        let text = |key: &str| form[key].as_str().unwrap();
        let engine = if text("engine") == "pool" { Engine::Pool } else { Engine::Dve };
        let mut bench = Bench::new(generation(text("gen")), engine);
        for (dtype, letters) in form["rows"].as_object().unwrap() {
            let inputs = Inputs::new(&audit["inputs"][dtype]);
            let (count, n) = (inputs.a.len() / inputs.size, inputs.b.len() / inputs.size);
            inputs.put(&mut bench, dtype);
            let mut scalars = vec![0.0];
            for (c, b) in (0u32..).zip(inputs.b.chunks(inputs.size)) {
                let kind = tpbemu::numeric::Dtype::from_name(match dtype.as_str() {
                    "fp8fn" => "fp8e4fn",
                    other => other,
                });
                let Some(kind) = kind else { panic!("dtype {dtype}") };
                tpbemu::numeric::load_f32(kind, b, &mut scalars).unwrap();
                bench.put_f32(Space::Sbuf, c, SCALAR.into(), &scalars);
            }
            for ((op, code), letter) in ops.iter().zip(letters.as_str().unwrap().chars()) {
                let what =
                    || format!("{} {} {} {op} {dtype}", text("form"), text("gen"), text("engine"));
                if letter == ' ' {
                    continue;
                }
                *done.entry(letter).or_default() += 1;
                let v =
                    word(text("form"), text("gen"), text("opcode"), *code, inputs.code, count, n);
                let inst = build(generation(text("gen")), &v);
                let refused = match letter {
                    'x' => Some(ErrorClass::IllegalInstruction),
                    '?' => Some(ErrorClass::MissingSpecification),
                    _ => None,
                };
                if let Some(class) = refused {
                    // what is not published shows only when it runs
                    let tried = if letter == '?' {
                        bench.run(&inst).map(|_| ())
                    } else {
                        prepare(&bench, &inst, engine)
                    };
                    match tried {
                        Ok(()) => failed.push(format!("{}: accepted", what())),
                        Err(e) if e.class != class => failed.push(format!("{}: {e:?}", what())),
                        Err(_) => {}
                    }
                    continue;
                }
                let run =
                    validate(&inst, engine, false).and_then(|()| bench.run(&inst).map(|_| ()));
                if let Err(e) = run {
                    failed.push(format!("{}: {e:?}", what()));
                    continue;
                }
                let key = letter.to_string();
                let want = hex(&audit["results"][&key][op][dtype]);
                let size = want.len() / (count * n);
                // a running value comes behind its first element
                let running = text("form").starts_with("cumulative");
                let step = if running { 2 * size } else { size };
                for c in 0..n {
                    for k in 0..count {
                        let at = u64::from(DST) + (k * step + step - size) as u64;
                        let got = bench.get(Space::Sbuf, c as u32, at, size as u64);
                        let want = &want[(c * count + k) * size..][..size];
                        if got != want {
                            failed.push(format!(
                                "{} element {k} channel {c}: {got:02x?}, want {want:02x?}",
                                what()
                            ));
                        }
                    }
                }
            }
        }
    }
    println!("{done:?}");
    assert!(done[&'f'] > 5000 && done[&'x'] > 5000, "{done:?}");
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed
            .iter()
            .take(if std::env::var_os("SHOW_ALL").is_some() { failed.len() } else { 20 })
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

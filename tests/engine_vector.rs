//! Vector opcodes against vectors of an independent oracle (`tools/oracle/vector.py`).

#[path = "engine_vector/alu.rs"]
mod alu;
#[path = "engine_vector/golden.rs"]
mod golden;
#[path = "engine_vector/property.rs"]
mod property;
#[path = "engine_vector/word.rs"]
mod word;

use serde_json::{Value, json};
use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, validate};
use tpbemu::memory::Space;
use word::{build, generation, hex, int, space};

/// Distance of two FP32 numbers in units of the last place.
fn ulps(a: u32, b: u32) -> u64 {
    let key = |x: u32| {
        let m = i64::from(x & 0x7FFF_FFFF);
        if x >> 31 == 1 { -m } else { m }
    };
    key(a).abs_diff(key(b))
}

fn same(got: &[u8], want: &[u8], ulp: u64) -> bool {
    got == want
        || (ulp > 0
            && got
                .as_chunks::<4>()
                .0
                .iter()
                .zip(want.as_chunks::<4>().0)
                .all(|(g, w)| ulps(u32::from_le_bytes(*g), u32::from_le_bytes(*w)) <= ulp))
}

fn run_case(case: &Value) -> Result<(), String> {
    let generation = generation(case["gen"].as_str().unwrap());
    let engine = match case["engine"].as_str().unwrap() {
        "pool" => Engine::Pool,
        _ => Engine::Dve,
    };
    let mut bench = Bench::new(generation, engine);
    for (register, value) in case["registers"].as_object().unwrap() {
        bench.registers[register.parse::<usize>().unwrap()] = int(value) as u32;
    }
    for row in case["put"].as_array().unwrap() {
        bench.put(space(row), int(&row[0]) as u32, int(&row[1]), &hex(&row[2]));
    }
    for v in case["insts"].as_array().unwrap() {
        let inst = build(generation, v);
        validate(&inst, engine, false).map_err(|e| format!("{inst:?}: {e:?}"))?;
        bench.run(&inst).map_err(|e| format!("{inst:?}: {e:?}"))?;
    }
    let ulp = int(&case["ulp"]);
    for row in case["expect"].as_array().unwrap() {
        let want = hex(&row[2]);
        let got = bench.get(space(row), int(&row[0]) as u32, int(&row[1]), want.len() as u64);
        if !same(&got, &want, ulp) {
            return Err(format!(
                "partition {} byte {}:\n got {got:02x?}\nwant {want:02x?}",
                row[0], row[1]
            ));
        }
    }
    Ok(())
}

/// Opcodes that the tests below and the printed values of the pages exercise. The form of
/// EXTENDED_INST has vectors under the opcode's own name.
const TRIED_ELSEWHERE: [&str; 3] = [
    // has no effect; tests/program_parts.rs sees when its update comes
    "ENGINE_NOP",
    "EXTENDED_TENSOR_TENSOR_ARITH",
    "LOAD_POOL_ARGUMENT",
];

#[test]
fn vectors_of_the_oracle() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/vector");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let (mut run, mut failed) = (0, Vec::new());
    let mut tried = std::collections::BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        for case in &cases {
            run += 1;
            for inst in case["insts"].as_array().unwrap() {
                tried.insert(inst["opcode"].as_str().unwrap().to_owned());
            }
            if let Err(why) = run_case(case) {
                failed.push(format!("{}: {}: {why}", file.display(), case["name"]));
            }
        }
    }
    println!("{run} run, {} failed", failed.len());
    let show = if std::env::var_os("SHOW_ALL").is_some() { failed.len() } else { 12 };
    let untried: Vec<&str> = tpbemu::engine::vector::OPS
        .iter()
        .filter(|op| matches!(op.status, tpbemu::engine::Status::Done(_)))
        .map(|op| op.name)
        .filter(|name| !tried.contains(*name) && !TRIED_ELSEWHERE.contains(name))
        .collect();
    assert!(untried.is_empty(), "no vector runs {untried:?}");
    assert!(run > 3000, "only {run} vectors found");
    assert!(
        failed.is_empty(),
        "{} of {run} failed, first of them:\n{}",
        failed.len(),
        failed.iter().take(show).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn illegal_operands_are_errors_not_panics() {
    let refuse = |v: Value, class: ErrorClass, what: &str| {
        let inst = build(Generation::V3, &v);
        let bench = Bench::new(Generation::V3, Engine::Dve);
        let error = bench.prepare(&inst).err().unwrap_or_else(|| panic!("accepted: {v}"));
        assert_eq!(error.class, class, "{error:?}");
        assert!(format!("{error:?}").contains(what), "{error:?} does not speak of {what}");
    };
    let tensor = |addr: u32, n: u32| json!({"addr": addr, "steps": [1], "nums": [n]});
    let tt = |dtypes: u32, op: u32, counts: [u32; 3]| {
        json!({
            "opcode": "TENSOR_TENSOR_ARITH_OP", "in0_in1_dtype": dtypes, "out_dtype": dtypes & 15,
            "op": op, "num_active_channels": 4, "src0": tensor(0, counts[0]),
            "src1": tensor(256, counts[1]), "dst": tensor(512, counts[2]),
        })
    };
    let check = |v: Value, what: &str| refuse(v, ErrorClass::IllegalInstruction, what);
    check(tt(0xAA, 0x04, [4, 5, 4]), "same_src_dst_count");
    check(tt(0xAA, 0x07, [4, 4, 4]), "DIVIDE");
    check(tt(0xAA, 0x20, [4, 4, 4]), "is_valid_alu_op");
    check(tt(0x00, 0x04, [4, 4, 4]), "is_valid_dtype");
    check(tt(0xCC, 0xC4, [4, 4, 4]), "POOL only");
    check(tt(0xAA, 0x04, [0, 0, 0]), "tensor_valid");
    refuse(
        json!({
            "opcode": "IOTA", "out_dtype": 10, "num_active_channels": 4,
            "src_data": {"base": 0, "steps": [1], "nums": [8]}, "dst": tensor(0, 9),
        }),
        ErrorClass::IllegalInstruction,
        "same_src_dst_count",
    );
    refuse(
        json!({
            "opcode": "STREAM_TRANSPOSE", "in_dtype": 10, "out_dtype": 10, "num_active_channels": 32,
            "src": tensor(0, 33), "dst": tensor(512, 33),
        }),
        ErrorClass::IllegalInstruction,
        "tiles",
    );
    refuse(json!({"opcode": "REG_LOAD"}), ErrorClass::MissingSpecification, "REG_LOAD");
}

#[test]
fn pool_does_not_reach_psum() {
    let mut bench = Bench::new(Generation::V3, Engine::Pool);
    let psum = bench.config.geometry.psum_base;
    let tensor = |addr: u32| json!({"addr": addr, "steps": [1], "nums": [4]});
    let inst = build(
        Generation::V3,
        &json!({
            "opcode": "COPY", "in_dtype": 10, "out_dtype": 10, "num_active_channels": 4,
            "src": tensor(psum), "dst": tensor(0),
        }),
    );
    assert_eq!(bench.run(&inst).unwrap_err().class, ErrorClass::IllegalInstruction);
    bench.engine = Engine::Dve;
    bench.put_f32(Space::Psum, 3, 0, &[1.0, 2.0, 3.0, 4.0]);
    bench.run(&inst).unwrap();
    assert_eq!(bench.get_f32(Space::Sbuf, 3, 0, 4), [1.0, 2.0, 3.0, 4.0]);
}

/// Any bytes behind the opcode give a result or an error, never a panic.
#[test]
fn arbitrary_words_never_panic() {
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut executed = 0;
    for generation in [Generation::V1, Generation::V2, Generation::V3, Generation::V5] {
        for engine in [Engine::Dve, Engine::Pool] {
            let mut bench = Bench::new(generation, engine);
            for op in tpbemu::engine::vector::OPS {
                for round in 0..24 {
                    let mut inst = Inst::empty(generation, op.byte);
                    if inst.def().is_ok_and(|def| def.name != op.name) {
                        continue;
                    }
                    for byte in &mut inst.bytes[8..] {
                        // Mostly small values, so that some words get past the checks.
                        let r = next();
                        *byte = if r % 4 < round % 4 { (r >> 8) as u8 } else { (r >> 8 & 3) as u8 };
                    }
                    if bench.run(&inst).is_ok() {
                        executed += 1;
                    }
                }
            }
        }
    }
    println!("{executed} random words executed");
}

/// V1 has the same operations in other places of the word; its POOL computes in FP32 and reaches
/// PSUM.
#[test]
fn v1_forms_compute_the_same() {
    let run = |generation: Generation, engine: Engine, inst: &dyn Fn(u32, u32) -> Value| {
        let mut bench = Bench::new(generation, engine);
        let stride = bench.config.geometry.sbuf_stride;
        for p in 0..3 {
            let row: Vec<f32> = (0..16).map(|i| (i * 7 % 11) as f32 - 3.5 + p as f32).collect();
            bench.put_f32(Space::Sbuf, p, 0, &row);
        }
        let subdim_x = if generation == Generation::V1 { 1 } else { 2 };
        let inst = build(generation, &inst(stride, subdim_x));
        bench.run(&inst).unwrap_or_else(|e| panic!("{inst:?}: {e:?}"));
        (1..3).map(|p| bench.get(Space::Sbuf, p, 1024, 64)).collect::<Vec<_>>()
    };
    let row = |stride: u32, byte: u32, nums: &[u32]| {
        let steps: Vec<i32> =
            nums.iter().scan(1, |s, n| Some(std::mem::replace(s, *s * *n as i32))).collect();
        json!({"addr": stride + byte, "steps": steps, "nums": nums})
    };
    let one_source = |opcode: &'static str, op: u32, dst: u32| {
        move |stride: u32, x: u32| {
            json!({"opcode": opcode, "in_dtype": 10, "out_dtype": 10, "num_active_channels": 2,
                "op": op, "op_dim": if op == 0 { 0 } else { x }, "src": row(stride, 0, &[4, 4]),
                "dst": row(stride, 1024, &[dst])})
        }
    };
    #[expect(clippy::type_complexity, reason = "one use; an alias cannot borrow the locals")]
    let cases: Vec<(&str, Box<dyn Fn(u32, u32) -> Value>)> = vec![
        (
            "tensor-tensor",
            Box::new(|stride, _| {
                json!({"opcode": "TENSOR_TENSOR_ARITH_OP", "in0_in1_dtype": 0xAA, "out_dtype": 10,
                "op": 6, "num_active_channels": 2, "src0": row(stride, 0, &[8]),
                "src1": row(stride, 32, &[8]), "dst": row(stride, 1024, &[8])})
            }),
        ),
        (
            "tensor-scalar",
            Box::new(|stride, _| {
                json!({"opcode": "TENSOR_SCALAR_ARITH_OP", "in_dtype": 10, "out_dtype": 6,
                "num_active_channels": 2, "op0": 5, "op1": 6, "reverse_operands": 1,
                "imm0": 2f32.to_bits(), "imm1_src": 1, "imm1": stride + 4,
                "src": row(stride, 0, &[16]), "dst": row(stride, 1024, &[16])})
            }),
        ),
        ("reduce", Box::new(one_source("TENSOR_REDUCE_ARITH_OP", 4, 4))),
        ("cumulative", Box::new(one_source("TENSOR_CUMULATIVE_ARITH_OP", 4, 16))),
        ("cast", Box::new(one_source("CAST", 0, 16))),
        ("reciprocal", Box::new(one_source("RECIPROCAL", 0, 16))),
        (
            "memset",
            Box::new(|stride, _| {
                json!({"opcode": "MEMSET", "dtype": 6, "num_active_channels": 2,
                "dst_element_count": 8, "set_value": 0x3FC0, "dst": row(stride, 1024, &[8])})
            }),
        ),
        (
            "pool",
            Box::new(|stride, x| {
                json!({"opcode": "POOL", "in_dtype": 10, "out_dtype": 10, "num_active_channels": 2,
                "pool_func": 2, "pool_dim": x, "pool_scale": 0.25f32.to_bits(),
                "src": row(stride, 0, &[4, 4]), "dst": row(stride, 1024, &[4])})
            }),
        ),
    ];
    let copy_v1 = |stride: u32, _: u32| {
        json!({"opcode": "COPY", "dtype": 10, "num_active_channels": 2,
            "src": row(stride, 0, &[16]), "dst": row(stride, 1024, &[16])})
    };
    let cast = one_source("CAST", 0, 16);
    assert_eq!(
        run(Generation::V1, Engine::Pool, &copy_v1),
        run(Generation::V3, Engine::Dve, &cast),
        "copy"
    );
    for (name, case) in &cases {
        let v1 = run(Generation::V1, Engine::Pool, case.as_ref());
        let v3 = run(Generation::V3, Engine::Dve, case.as_ref());
        assert_eq!(v1, v3, "{name}");
        assert!(v1.iter().flatten().any(|b| *b != 0), "{name} wrote nothing");
    }
}

fn row(addr: u32, n: u32) -> Value {
    json!({"addr": addr, "steps": [1], "nums": [n]})
}

fn run_all(bench: &mut Bench, generation: Generation, insts: &[Value]) {
    for v in insts {
        let inst = build(generation, v);
        bench.run(&inst).unwrap_or_else(|e| panic!("{inst:?}: {e:?}"));
    }
}

#[test]
fn gather_fills_or_skips_what_the_buffer_does_not_hold() {
    let mut bench = Bench::new(Generation::V3, Engine::Pool);
    for p in 0..2u32 {
        let table: Vec<f32> = (0..4).map(|i| (10 * p + i) as f32).collect();
        bench.put_f32(Space::Sbuf, p, 0, &table);
        bench.put(Space::Sbuf, p, 64, &[3, 1, 5, 0]);
        bench.put_f32(Space::Sbuf, p, 128, &[-1.0; 4]);
    }
    let load = json!({"opcode": "POOL_BUFFER_LOAD", "src": row(0, 4), "in_dtype": 10,
        "num_active_channels": 2, "start_index": 0, "mask": 3});
    let gather = |miss: u32, free: u32| {
        json!({"opcode": "GATHER", "src": row(64, 4), "in_dtype": 3, "out_dtype": 10,
            "num_active_channels": 2, "index_miss_behavior": miss, "free_pool_buffer": free,
            "immediate": 9f32.to_bits(), "dst": row(128, 4)})
    };
    let get = |bench: &mut Bench, p| bench.get_f32(Space::Sbuf, p, 128, 4);
    run_all(&mut bench, Generation::V3, &[load, gather(1, 0)]);
    assert_eq!(get(&mut bench, 0), [3.0, 1.0, -1.0, 0.0]);
    assert_eq!(get(&mut bench, 1), [13.0, 11.0, -1.0, 10.0]);
    run_all(&mut bench, Generation::V3, &[gather(0, 1)]);
    assert_eq!(get(&mut bench, 1), [13.0, 11.0, 9.0, 10.0]);
    // The buffer is gone: everything misses.
    run_all(&mut bench, Generation::V3, &[gather(0, 0)]);
    assert_eq!(get(&mut bench, 0), [9.0; 4]);
}

#[test]
fn pool_arguments_come_from_the_word_or_from_memory() {
    let mut seed = 0x1234_5678u32;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed
    };
    for name in ["v2", "v3", "v4", "v4plus", "v5"] {
        for select in (0..8).map(|i| 1u32 << i).chain([0, 0xFF, 2, 0x5A]) {
            let generation = generation(name);
            let mut bench = Bench::new(generation, Engine::Pool);
            let memory: Vec<u32> = (0..64).map(|_| next()).collect();
            let bytes: Vec<u8> = memory.iter().flat_map(|w| w.to_le_bytes()).collect();
            bench.put(Space::Sbuf, 0, 0x40, &bytes);
            let words: Vec<u32> = (0..8)
                .map(|i| if select >> i & 1 == 1 { 0x40 + 4 * (next() % 64) } else { next() })
                .collect();
            let hex: String =
                words.iter().flat_map(|w| w.to_le_bytes()).map(|b| format!("{b:02x}")).collect();
            let load =
                json!({"opcode": "LOAD_POOL_ARGUMENT", "imm_ptr_select": select, "immediate": hex});
            run_all(&mut bench, generation, &[load]);
            let want: Vec<u32> = (0..8)
                .map(|i| match select >> i & 1 {
                    0 => words[i],
                    _ => memory[(words[i] as usize - 0x40) / 4],
                })
                .collect();
            assert_eq!(bench.state.vector.pool_arguments().to_vec(), want, "{name} {select:#x}");
        }
    }
}

/// MATCH_REPLACE8 leaves its positions; those of values that do not occur are all ones.
#[test]
fn match_positions_are_read_back() {
    let mut bench = Bench::new(Generation::V3, Engine::Dve);
    bench.put_f32(Space::Sbuf, 0, 0, &[5.0, 4.0, 3.0, 2.0, 1.0, 0.0, -1.0, -2.0]);
    bench.put_f32(Space::Sbuf, 0, 64, &[7.0, 3.0, 7.0, 7.0, 5.0, 7.0, 7.0, 1.0]);
    let load = json!({"opcode": "MATCH_VALUE_LOAD", "src": row(0, 8), "dtype": 10,
        "num_active_channels": 1});
    let replace = json!({"opcode": "MATCH_REPLACE8", "src": row(64, 8), "in_dtype": 10,
        "out_dtype": 10, "num_active_channels": 1, "dst": row(128, 8)});
    let read = json!({"opcode": "DVE_READ_INDICES", "dtype": 9, "num_active_channels": 1,
        "dst_element_count": 8, "dst": row(256, 8)});
    run_all(&mut bench, Generation::V3, &[load, replace, read]);
    let got = bench.get(Space::Sbuf, 0, 256, 32);
    let got: Vec<u32> = got.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    let none = u32::MAX;
    // MATCH_VALUE_LOAD fills the values from the last on; index n belongs to value n.
    assert_eq!(got, [none, none, none, 7, none, 1, none, 4]);
}

#[test]
fn indirect_operands_name_what_is_missing() {
    let inst = build(
        Generation::V4,
        &json!({"opcode": "RECIPROCAL", "in_dtype": 10, "out_dtype": 10,
            "num_active_channels": 4, "src": row(0x2000_0000, 4), "dst": row(128, 4)}),
    );
    let error = Bench::new(Generation::V4, Engine::Dve).prepare(&inst).err().expect("refused");
    assert_eq!(error.class, ErrorClass::MissingSpecification, "{error:?}");
}

#[test]
fn a_shuffle_needs_its_mask() {
    let mut bench = Bench::new(Generation::V3, Engine::Dve);
    let shuffle = json!({"opcode": "STREAM_SHUFFLE", "in_dtype": 10, "out_dtype": 10,
        "num_active_channels": 32, "src": row(0, 1), "dst": row(64, 1)});
    let inst = build(Generation::V3, &shuffle);
    assert_eq!(bench.run(&inst).unwrap_err().class, ErrorClass::UndefinedBehaviour);
    let mask = "28".repeat(32);
    run_all(
        &mut bench,
        Generation::V3,
        &[json!({"opcode": "LOAD_MASK_SELECT", "immediate": mask})],
    );
    assert_eq!(bench.run(&inst).unwrap_err().class, ErrorClass::IllegalInstruction);
}

/// The footprint holds what is read and written, and nothing an operation does not use.
#[test]
fn footprints_state_what_is_touched() {
    use tpbemu::engine::Prepared;
    use tpbemu::memory::AccessKind;
    let accesses = |v: Value| {
        let bench = Bench::new(Generation::V3, Engine::Dve);
        match bench.prepare(&build(Generation::V3, &v)).unwrap() {
            Prepared::Work(work) => work.accesses,
            Prepared::Dma(_) => panic!("a vector opcode asks for DMA"),
        }
    };
    let select = accesses(json!({"opcode": "COPY_PREDICATED", "in0_in1_dtype": 0xA3,
        "out_dtype": 10, "num_active_channels": 4, "src0": row(0, 4), "src1": row(64, 4),
        "dst": row(128, 4)}));
    let kinds: Vec<_> =
        select.iter().map(|a| (a.kind, a.certain, a.region.bytes.start())).collect();
    assert_eq!(
        kinds,
        [
            (AccessKind::Read, true, 0),
            (AccessKind::Read, true, 64),
            (AccessKind::Write, false, 128)
        ]
    );
    // |x| does not read the pointed-to scalar.
    let unary = accesses(json!({"opcode": "TENSOR_SCALAR_ARITH_OP", "in_dtype": 10,
        "out_dtype": 10, "num_active_channels": 4, "op0": 0x19, "imm0_src": 1, "imm0": 4096,
        "src": row(0, 4), "dst": row(128, 4)}));
    assert_eq!(unary.len(), 2);
    let binary = accesses(json!({"opcode": "TENSOR_SCALAR_ARITH_OP", "in_dtype": 10,
        "out_dtype": 10, "num_active_channels": 4, "op0": 4, "imm0_src": 1, "imm0": 4096,
        "src": row(0, 4), "dst": row(128, 4)}));
    assert_eq!(binary.len(), 3);
}

//! The values that the pages of the elementwise kernels print, as far as an instruction shows
//! them.

use serde_json::{Value, json};
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation};
use tpbemu::memory::Space;

use super::build;

const FP32: u32 = 0x0A;
const U32: u32 = 0x09;

fn tensor(addr: u32, steps: &[i32], nums: &[u32]) -> Value {
    json!({"addr": addr, "steps": steps, "nums": nums})
}

fn row(addr: u32, n: u32) -> Value {
    tensor(addr, &[1], &[n])
}

/// Runs `inst` on channel 0 with `input` at byte 0, returns `n` numbers at byte 1024.
fn one(engine: Engine, input: &[f32], inst: Value, n: usize) -> Result<Vec<f32>, String> {
    let mut bench = Bench::new(Generation::V3, engine);
    bench.registers[5] = f32::NEG_INFINITY.to_bits();
    bench.put_f32(Space::Sbuf, 0, 0, input);
    bench.put_f32(Space::Sbuf, 0, 1024, &vec![7.0; n]);
    bench.run(&build(Generation::V3, &inst)).map_err(|e| format!("{e:?}"))?;
    Ok(bench.get_f32(Space::Sbuf, 0, 1024, n))
}

fn pool_inst(func: u32, scale: f32, src: Value, n: u32) -> Value {
    json!({"opcode": "POOL", "in_dtype": FP32, "out_dtype": FP32, "num_active_channels": 1,
        "pool_func": func, "pool_dim": 3, "pool_scale": scale.to_bits(), "src": src,
        "dst": row(1024, n)})
}

/// The window order, read back with windows of one element and checked by their maxima.
fn window_order(v: &Value) {
    let cells: Vec<&str> = v["inputs"]["map_rows"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|r| r.as_array().unwrap().iter().map(|c| c.as_str().unwrap()))
        .collect();
    let input: Vec<f32> = cells.iter().map(|c| f32::from(c.as_bytes()[0])).collect();
    let dim = |d: &str, k: &str| v["inputs"][d][k].as_i64().unwrap() as i32;
    let steps: Vec<i32> = ["x", "y", "z", "w"].map(|d| dim(d, "step")).to_vec();
    let nums: Vec<u32> = ["x", "y", "z", "w"].map(|d| dim(d, "num") as u32).to_vec();
    let want: Vec<f32> = v["expect"]["stream"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| f32::from(c.as_str().unwrap().as_bytes()[0]))
        .collect();
    let copy = json!({"opcode": "COPY", "in_dtype": FP32, "out_dtype": FP32,
        "num_active_channels": 1, "src": tensor(0, &steps, &nums), "dst": row(1024, 16)});
    assert_eq!(one(Engine::Dve, &input, copy, 16).unwrap(), want);
    let size = v["expect"]["pool_size"].as_u64().unwrap() as usize;
    let maxima: Vec<f32> =
        want.chunks(size).map(|w| w.iter().fold(0.0f32, |m, &x| m.max(x))).collect();
    let pool = pool_inst(1, 1.0, tensor(0, &steps, &nums), 4);
    assert_eq!(one(Engine::Pool, &input, pool, 4).unwrap(), maxima);
}

fn average(v: &Value) {
    let side: u32 = v["inputs"]["window"].as_str().unwrap()[..1].parse().unwrap();
    let scale = v["expect"]["pool_scale"].as_f64().unwrap() as f32;
    let n = (side * side) as usize;
    let src = tensor(0, &[1, side as i32], &[side, side]);
    let got = one(Engine::Pool, &vec![2.0; n], pool_inst(2, scale, src, 1), 1).unwrap();
    assert_eq!(got, [2.0 * n as f32 * scale]);
    assert!((got[0] - 2.0).abs() < 0.001, "a mean of equal values is the value: {got:?}");
}

fn buffer_window(v: &Value) {
    let number = |v: &Value| u64::from_str_radix(&v.as_str().unwrap()[2..], 16).unwrap();
    let (first, last) = (number(&v["expect"]["first_match"]), number(&v["expect"]["last_match"]));
    let mut bench = Bench::new(Generation::V3, Engine::Pool);
    let table: Vec<f32> = (0..512).map(|i| i as f32).collect();
    bench.put_f32(Space::Sbuf, 0, 0, &table);
    let indices = [first as u32 - 1, first as u32, last as u32, last as u32 + 1];
    bench.put(Space::Sbuf, 0, 4096, bytemuck::cast_slice(&indices));
    bench.put_f32(Space::Sbuf, 0, 8192, &[-1.0; 4]);
    let load = json!({"opcode": "POOL_BUFFER_LOAD", "src": row(0, 512), "in_dtype": FP32,
        "num_active_channels": 1, "start_index": number(&v["inputs"]["start_index"]),
        "mask": number(&v["inputs"]["mask"])});
    let gather = json!({"opcode": "GATHER", "src": row(4096, 4), "in_dtype": U32,
        "out_dtype": FP32, "num_active_channels": 1, "index_miss_behavior": 1,
        "dst": row(8192, 4)});
    for inst in [load, gather] {
        bench.run(&build(Generation::V3, &inst)).unwrap();
    }
    assert_eq!(bench.get_f32(Space::Sbuf, 0, 8192, 4), [-1.0, 0.0, 511.0, -1.0]);
}

fn range_fill(v: &Value) {
    let bits = u32::from_str_radix(&v["inputs"]["bits"].as_str().unwrap()[2..], 16).unwrap();
    assert_eq!(f32::from_bits(bits), -f32::MAX);
    let inst = json!({"opcode": "RANGE_SELECT", "num_active_channels": 1, "in_out_dtype": 0xAA,
        "base": 0, "fill_val": bits, "src": row(0, 3), "comp_op0": 0x14, "comp_op1": 0x16,
        "bound0": 1f32.to_bits(), "bound1": 2f32.to_bits(), "dst": row(1024, 3)});
    let got = one(Engine::Dve, &[5.0, 6.0, 7.0], inst, 3).unwrap();
    assert_eq!(got, [-f32::MAX, 6.0, -f32::MAX]);
}

fn stats_counts(v: &Value) {
    let n = v["inputs"]["elements"].as_u64().unwrap() as u32;
    let (even, odd) = (&v["expect"]["even_count"], &v["expect"]["odd_count"]);
    let (even, odd) = (even.as_f64().unwrap() as f32, odd.as_f64().unwrap() as f32);
    let inst = json!({"opcode": "BATCH_NORM_STATS2", "in_dtype": FP32, "out_dtype": FP32,
        "num_active_channels": 1, "src": row(0, n), "dst": row(1024, 6),
        "even_count": even.to_bits(), "odd_count": odd.to_bits()});
    let got = one(Engine::Dve, &[1.0, 2.0, 3.0, 4.0, 5.0], inst, 6).unwrap();
    // wiki-cc: bir/sim-bn-rng-collective-dma, computed values.
    assert_eq!(got, [even, 3.0, 8.0, odd, 3.0, 2.0]);
}

fn causal(_: &Value) {
    let inst = json!({"opcode": "TENSOR_SCALAR_AFFINE_SELECT", "num_active_channels": 1,
        "in_out_dtype": 0xAA, "fill_mode": 1, "fill_reg": 5,
        "mask": {"base": 2, "steps": [-1], "nums": [4]}, "src": row(0, 4), "dst": row(1024, 4),
        "channel_multiplier": 1});
    // Base 2 stands for row 2: columns 0, 1 and 2 stay.
    let got = one(Engine::Pool, &[1.0, 2.0, 3.0, 4.0], inst, 4).unwrap();
    assert_eq!(got, [1.0, 2.0, 3.0, f32::NEG_INFINITY]);
}

fn reversed_subtract(_: &Value) {
    let inst = json!({"opcode": "TENSOR_SCALAR_ARITH_OP", "in_dtype": FP32, "out_dtype": FP32,
        "num_active_channels": 1, "op0": 5, "op1": 0, "reverse_operands": 1,
        "imm0": 10f32.to_bits(), "src": row(0, 2), "dst": row(1024, 2)});
    assert_eq!(one(Engine::Dve, &[3.0, 12.0], inst, 2).unwrap(), [7.0, -2.0]);
}

fn select(v: &Value) {
    let inst = json!({"opcode": "TENSOR_SCALAR_SELECT", "src0": row(0, 1), "dtype": FP32,
        "reversed_pred": v["inputs"]["reversed_pred"], "num_active_channels": 1,
        "pred_imm_dtype": U32, "src1_imm": 9f32.to_bits(), "pred_imm": v["inputs"]["pred"],
        "dst": row(1024, 1)});
    let want = if v["expect"]["picks"] == "src0" { 4.0 } else { 9.0 };
    assert_eq!(one(Engine::Dve, &[4.0], inst, 1).unwrap(), [want]);
}

fn predicated_scalar(v: &Value) {
    let predicate = v["inputs"]["pred"].as_u64().unwrap() as u32;
    let inst = json!({"opcode": "COPY_PREDICATED_SCALAR", "pred": row(0, 1), "pred_dtype": U32,
        "reversed_pred": v["inputs"]["reversed_pred"], "num_active_channels": 1,
        "in_dtype": FP32, "out_dtype": FP32, "src0_imm": 9f32.to_bits(), "dst": row(1024, 1)});
    let want = if v["expect"]["writes_scalar"] == true { 9.0 } else { 7.0 };
    assert_eq!(one(Engine::Dve, &[f32::from_bits(predicate)], inst, 1).unwrap(), [want]);
}

fn merge(v: &Value) {
    assert_eq!(v["expect"]["dst"], "unchanged");
    let inst = json!({"opcode": "COPY_PREDICATED", "in0_in1_dtype": U32 | FP32 << 4,
        "out_dtype": FP32, "num_active_channels": 1, "src0": row(0, 2), "src1": row(8, 2),
        "dst": row(1024, 2)});
    let input = [0.0, f32::from_bits(1), 3.0, 4.0];
    assert_eq!(one(Engine::Dve, &input, inst, 2).unwrap(), [7.0, 4.0]);
}

fn pool_error(v: &Value) {
    let error = one(Engine::Pool, &[1.0; 4], pool_inst(7, 1.0, row(0, 4), 1), 1).unwrap_err();
    assert!(error.contains(v["expect"]["text"].as_str().unwrap()), "{error}");
}

#[test]
fn printed_values() {
    let text = include_str!("../golden/golden_kernels_elementwise.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    let (mut run, mut listed) = (0, Vec::new());
    for v in &vectors {
        let name = v["op"].as_str().unwrap();
        let check: fn(&Value) = match name {
            "POOL window stream order" => window_order,
            "POOL AVG scale" => average,
            "POOL_BUFFER_LOAD match" => buffer_window,
            "RANGE_SELECT fill_val" => range_fill,
            "BATCH_NORM_STATS2 counts" => stats_counts,
            "TENSOR_SCALAR_AFFINE_SELECT causal mask" => causal,
            "TENSOR_SCALAR SUBTRACT operand order" => reversed_subtract,
            "TENSOR_SCALAR_SELECT truth table" => select,
            "COPY_PREDICATED_SCALAR truth table" => predicated_scalar,
            "COPY_PREDICATED false lane" => merge,
            "POOL error text" => pool_error,
            _ => {
                listed.push(name);
                continue;
            }
        };
        check(v);
        run += 1;
    }
    // What is left speaks of other things than the effect of an instruction.
    for name in &listed {
        let elsewhere = [
            ("r", "lane folds of the Q7 cores"),
            ("RNG normalisation note", "random numbers"),
            ("RANGE_SELECT base limit", "a validator's limit"),
            ("POOL table row", "firmware table"),
            ("EXTENDED_TTA num_active_ports", "port counts, run with the oracle's vectors"),
            ("struct size", "instruction formats"),
            ("operator set size", "operator classes"),
            ("TENSOR_SCALAR_IMM_LD dtypes", "a validator's list"),
            ("S2_BN source element count", "a validator's count"),
            ("GRAD_ACCUMULATE firmware descriptor", "firmware table"),
            ("PARAM_LOAD firmware descriptor", "firmware table"),
            ("DVE table entry", "firmware table"),
            ("POOL kernel table", "firmware table"),
        ];
        assert!(
            elsewhere.iter().any(|(n, _)| name == n || (*n == "r" && name.starts_with('r'))),
            "vector `{name}` is neither run nor accounted for"
        );
    }
    println!("{run} run, {} listed as not executable", listed.len());
    assert_eq!(run, 16);
}

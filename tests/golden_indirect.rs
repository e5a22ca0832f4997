//! The published values for search, gather, random and DMA instructions
//! (`tests/golden/golden_kernels_indirect.json`), each run through the instruction it speaks of.

mod indirect_support;

use std::collections::BTreeMap;

use indirect_support::{build, load};
use serde_json::{Value, json};
use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::engine::{Outcome, Prepared};
use tpbemu::isa::validate::validate;
use tpbemu::isa::{Engine, Generation, STRUCTS};
use tpbemu::memory::Space;
use tpbemu::numeric::Dtype;
use tpbemu::numeric::dtype::is_cptc_code;
use tpbemu::numeric::rng::{Xorwow, uniform_high_bits, uniform_low_bits};

const STRIDE: u64 = 0x40000;
const SBUF: u64 = 0x20_0000_0000;
const HBM: u64 = 0x10_0000_0000;

/// Published values that are no behaviour of these instructions, and why.
const LISTED: &[(&str, &str)] = &[
    ("gather_offsets", "the core's vector gather, tested with the Q7 core"),
    ("gscontrol_printed", "Q7 gather control word"),
    ("gscontrol_operation_code", "Q7 gather control word"),
    ("supergather_read", "Q7 vector gather"),
    ("supergather_scatterinc", "Q7 vector scatter"),
    ("supergather_staging_marker", "Q7 staging registers"),
    ("supergather_staging_init", "Q7 staging registers"),
    ("supergather_merge", "Q7 staging registers"),
    ("xorwow_state_buffer", "where the firmware keeps its words in core memory"),
    ("cptc_deinterleave_table_first16", "CPTC decode is refused: its arithmetic is not published"),
    ("cptc_impl_served_bits", "names of firmware functions"),
    ("cce_op_remap", "host-side numbering of descriptors"),
    ("cce_op_remap_table", "host-side numbering of descriptors"),
    ("cce_dtype_remap_table", "host-side numbering of descriptors"),
    ("cce_fma_two_sources", "no instruction reaches the multiply-add descriptor"),
    ("cce_max_elements", "how a compute transfer is cut into packets, not its result"),
    ("cce_meta_base", "descriptor bits"),
    ("q7_dataram_aperture", "address map of the Q7 cores"),
    ("inline_descriptor_word0", "descriptor bits"),
    ("inline_ring", "firmware ring of custom operations"),
    ("dma_doorbell_offset", "register block of the DMA engine"),
    ("dge_2d_memcpy_expansion", "micro-operations of the descriptor engine"),
    ("dge_transpose_expansion", "micro-operations of the descriptor engine"),
    ("dge_emit_string_presence", "strings of firmware images"),
    ("xtensa_call8_decode", "Q7 instruction encoding"),
    ("frontend_cost_local_gather", "cost formula of the frontend, tested with the timing"),
    ("frontend_cost_nc_n_gather", "cost formula of the frontend, tested with the timing"),
];

fn tensor(addr: u64, dims: &[(i64, u64)]) -> Value {
    let dims: Vec<Value> = dims.iter().map(|&(s, n)| json!([s, n])).collect();
    json!({"addr": addr, "dims": dims})
}

fn run(bench: &mut Bench, generation: Generation, op: &str, fields: Value) -> Outcome {
    bench.run(&build(generation, op, &fields)).unwrap_or_else(|e| panic!("{op}: {e}"))
}

fn floats(v: &Value) -> Vec<f32> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn ints(v: &Value) -> Vec<i64> {
    v.as_array().unwrap().iter().map(|x| x.as_i64().unwrap()).collect()
}

fn hex(v: &Value) -> u64 {
    v.as_str().map_or_else(
        || v.as_u64().unwrap(),
        |s| u64::from_str_radix(s.trim_start_matches("0x"), 16).unwrap(),
    )
}

fn words(bench: &mut Bench, partition: u32, byte: u64, n: usize) -> Vec<u32> {
    let bytes = bench.get(Space::Sbuf, partition, byte, 4 * n as u64);
    bytes.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn put_words(bench: &mut Bench, partition: u32, byte: u64, values: &[u32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    bench.put(Space::Sbuf, partition, byte, &bytes);
}

fn one(d: &[(i64, u64)], n: usize) -> Vec<(i64, u64)> {
    let mut dims = d.to_vec();
    dims.resize(n, (1, 1));
    dims
}

fn dve() -> Bench {
    Bench::new(Generation::V3, Engine::Dve)
}

fn pool() -> Bench {
    Bench::new(Generation::V3, Engine::Pool)
}

/// Runs one published value; false if there is nothing to run.
fn check(op: &str, input: &Value, expect: &Value) -> bool {
    let g = Generation::V3;
    match op {
        "sort" => {
            let src = ints(&input["src"]);
            let n = src.len();
            let mut bench = pool();
            put_words(&mut bench, 0, 0, &src.iter().map(|&x| x as u32).collect::<Vec<_>>());
            run(
                &mut bench,
                g,
                "SORT",
                json!({"num_active_channels": 1, "in_out_dtype": 0x88,
                    "comparison": hex(&input["comparison_code"]), "index_offset": input["index_offset"],
                    "stable": 1, "src": tensor(0, &[(1, n as u64)]),
                    "dst": tensor(512, &[(1, 2), (2, n as u64)])}),
            );
            let pairs = words(&mut bench, 0, 512, 2 * n);
            let column = |c: usize| -> Vec<i64> {
                pairs.iter().skip(c).step_by(2).map(|&x| i64::from(x)).collect()
            };
            assert_eq!(column(0), ints(&expect["values"]));
            assert_eq!(column(1), ints(&expect["indices"]));
        }
        "find_index8_not_found" | "match_value_load_order" => {
            let mut bench = dve();
            let values: Vec<f32> = (0..8).map(|k| k as f32).collect();
            bench.put_f32(Space::Sbuf, 0, 0, &values);
            run(
                &mut bench,
                g,
                "MATCH_VALUE_LOAD",
                json!({"dtype": 10, "num_active_channels": 1, "src": tensor(0, &one(&[(1, 8)], 2))}),
            );
            let narrow = input["out_dtype"] == "UINT16";
            let (at, source) = if op == "match_value_load_order" {
                (0, values)
            } else {
                bench.put_f32(Space::Sbuf, 0, 64, &[99.0; 8]);
                (64, vec![99.0; 8])
            };
            assert_eq!(source.len(), 8);
            run(
                &mut bench,
                g,
                "FIND_INDEX8",
                json!({"in_dtype": 10, "out_dtype": if narrow { 5 } else { 9 },
                    "num_active_channels": 1, "src": tensor(at, &one(&[(1, 8)], 4)),
                    "dst": tensor(512, &one(&[(1, 8)], 2))}),
            );
            if op == "match_value_load_order" {
                // slot n holds source element 7-n, so its position is 7-n
                let found = words(&mut bench, 0, 512, 8);
                let slots = ints(&expect["mv_slot"]);
                for (k, slot) in slots.iter().enumerate() {
                    assert_eq!(found[*slot as usize], k as u32);
                }
            } else {
                let sentinel = hex(&expect["sentinel"]);
                let first = words(&mut bench, 0, 512, 1)[0];
                assert_eq!(u64::from(if narrow { first & 0xFFFF } else { first }), sentinel);
            }
        }
        "match_replace8_index_output" => {
            let (data, vals) = (floats(&input["data"]), floats(&input["vals"]));
            let mut bench = dve();
            bench.put_f32(Space::Sbuf, 0, 0, &vals);
            bench.put_f32(Space::Sbuf, 0, 64, &data);
            run(
                &mut bench,
                g,
                "MATCH_VALUE_LOAD",
                json!({"dtype": 10, "num_active_channels": 1, "src": tensor(0, &one(&[(1, 8)], 2))}),
            );
            let all = one(&[(1, data.len() as u64)], 4);
            run(
                &mut bench,
                g,
                "MATCH_REPLACE8",
                json!({"in_dtype": 10, "out_dtype": 10, "num_active_channels": 1, "immediate": 0,
                    "src": tensor(64, &all), "dst": tensor(512, &all)}),
            );
            let positions = bench.state.indirect.search.match_positions(0);
            let columns: Vec<i64> = positions.iter().rev().map(|&p| i64::from(p)).collect();
            assert_eq!(columns, ints(&expect["dst_idx"]));
        }
        "nonzero_with_count" => {
            let src: Vec<u32> = ints(&input["src"]).iter().map(|&x| x as u32).collect();
            let mut bench = pool();
            put_words(&mut bench, 0, 0, &src);
            let n = src.len() as u64;
            run(
                &mut bench,
                g,
                "NONZERO_WITH_COUNT",
                json!({"num_active_channels": 1, "in_dtype": 8, "out_dtype": 8,
                    "index_offset": input["index_offset"],
                    "padding_val": input["padding_val"].as_i64().unwrap() as u32,
                    "src": tensor(0, &one(&[(1, n)], 3)),
                    "dst": tensor(512, &one(&[(1, n + 1)], 3))}),
            );
            let got: Vec<i64> = words(&mut bench, 0, 512, src.len() + 1)
                .into_iter()
                .map(|x| i64::from(x as i32))
                .collect();
            assert_eq!(got, ints(&expect["dst"]));
        }
        "dropout_extreme" | "dropout_threshold_dtype_default" => {
            let default = op != "dropout_extreme";
            let prob = if default { 1.0 } else { input["prob"].as_f64().unwrap() as f32 };
            let mut bench = dve();
            let values: Vec<f32> = (1..=64).map(|x| x as f32).collect();
            bench.put_f32(Space::Sbuf, 0, 0, &values);
            let all = one(&[(1, 64)], 3);
            run(
                &mut bench,
                g,
                "DROPOUT",
                json!({"src": tensor(0, &all), "in_dtype": 10, "out_dtype": 10,
                    "num_active_channels": 1, "threshold_dtype": if default { 0 } else { 10 },
                    "threshold_type": 0, "threshold": prob.to_bits(), "dst": tensor(512, &all)}),
            );
            let got = bench.get_f32(Space::Sbuf, 0, 512, 64);
            assert_eq!(got, if prob == 1.0 { vec![0.0; 64] } else { values });
        }
        "dropout_is_integer_dtype" => {
            let dtype = Dtype::from_code(g, input["dtype"].as_u64().unwrap() as u8).unwrap();
            assert_eq!(dtype.is_int_datapath(), expect["integer"].as_bool().unwrap());
        }
        "indirect_copy" => {
            let indices = ints(&input["indices"]);
            let e = input["elems_per_index"].as_u64().unwrap();
            let mut bench = pool();
            for (j, &i) in indices.iter().enumerate() {
                bench.put(Space::Sbuf, j as u32 % 16, 0, &(i as u16).to_le_bytes());
            }
            let table: Vec<u32> = (0..256).map(|i| 4 * i).collect();
            put_words(&mut bench, 3, 1024, &table);
            let n = input["num_elem"].as_u64().unwrap();
            run(
                &mut bench,
                g,
                "INDIRECT_COPY",
                json!({"in_dtype": 10, "out_dtype": 10, "num_active_channels": 16,
                    "src_num_elem_per_idx": e, "src_buffer_size": 32,
                    "src": {"index": 0x2000_0000u32, "data": 1024, "num": n},
                    "dst": tensor(4096, &one(&[(1, n)], 4))}),
            );
            let got = words(&mut bench, 3, 4096, n as usize);
            let offsets = expect["byte_offsets"].as_array().unwrap();
            assert_eq!(offsets.len() as u64, expect["index_count"].as_u64().unwrap());
            assert_eq!(e * 4, expect["block_bytes"].as_u64().unwrap());
            for (block, offset) in got.chunks(e as usize).zip(offsets) {
                assert_eq!(u64::from(block[0]), hex(offset));
            }
        }
        "scatter_add" => {
            let indices: Vec<u32> = ints(&input["dst_indices"]).iter().map(|&x| x as u32).collect();
            let mut bench = pool();
            put_words(&mut bench, 0, 0, &indices);
            let data: Vec<u32> = ints(&input["data"]).iter().map(|&x| x as u32).collect();
            put_words(&mut bench, 1, 0, &data);
            put_words(&mut bench, 2, 0, &[0; 256]);
            bench.registers[4] = input["index_limit"].as_u64().unwrap() as u32;
            run(
                &mut bench,
                g,
                "DMA_INDIRECT",
                json!({"idx_num_active_channels": 128, "flags": 1 | 8, "in_dtype": 9, "out_dtype": 9,
                    "compute_op": 1, "src_start_addr": SBUF + STRIDE, "src_step_elem": 1,
                    "src_num_elem": data.len(), "src_elem_size": 4,
                    "dst_start_addr": SBUF + 2 * STRIDE, "dst_step_elem": 1,
                    "dst_num_elem": data.len(), "dst_elem_size": 4, "dst_idx_start_addr": 0,
                    "dst_idx_bound_reg": 0x84}),
            );
            let bins = words(&mut bench, 2, 0, 256);
            assert_eq!(u64::from(bins[5]), expect["bin_5"].as_u64().unwrap());
            assert_eq!(u64::from(bins[200]), expect["bin_200"].as_u64().unwrap());
        }
        "dma_indirect_bound_flags" => {
            let mut bench = pool();
            put_words(&mut bench, 0, 0, &[1]);
            bench.registers[4] = 1;
            let inst = build(
                g,
                "DMA_INDIRECT",
                &json!({"idx_num_active_channels": 128, "flags": 4, "in_dtype": 9, "out_dtype": 9,
                    "src_start_addr": HBM, "src_step_elem": 1, "src_num_elem": 1, "src_elem_size": 4,
                    "dst_start_addr": SBUF, "dst_step_elem": 1, "dst_num_elem": 1,
                    "dst_elem_size": 4, "src_idx_start_addr": 0, "src_idx_bound_reg": 0xC4}),
            );
            // an error that nobody is told of is a skip
            assert_eq!(bench.run(&inst).is_ok(), expect["valid"].as_bool().unwrap());
        }
        "dma_gather_transpose" => {
            let count = input["num_indices"].as_u64().unwrap();
            let src_num = ints(&input["src_num"]);
            let mut bench = pool();
            let indices: Vec<u32> = (0..count as u32).rev().collect();
            put_words(&mut bench, 0, 0, &indices);
            for i in 0..count {
                let row: Vec<u8> =
                    (0..128u16).flat_map(|c| (i as u16 * 256 + c).to_le_bytes()).collect();
                bench.put(Space::Hbm, 0, 256 * i, &row);
            }
            run(
                &mut bench,
                g,
                "DMA_GATHER_TRANSPOSE",
                json!({"idx_num_active_channels": 128, "src_start_addr": HBM,
                    "src_step_elem": input["src_step"], "src_num_elem": src_num,
                    "src_idx_start_addr": 0, "dst_start_addr": SBUF + 1024, "dst_step_elem_1": 0,
                    "dst_num_elem": [expect["dst_num_0"], 1], "elem_size": expect["elem_size"],
                    "in_out_dtype": 0x66, "flags": 1}),
            );
            for c in [0u32, 1, 77, 127] {
                let row = bench.get(Space::Sbuf, c, 1024, 2 * count);
                for (k, b) in row.chunks(2).enumerate() {
                    let want = (count as u16 - 1 - k as u16) * 256 + c as u16;
                    assert_eq!(u16::from_le_bytes([b[0], b[1]]), want, "partition {c} column {k}");
                }
            }
        }
        "xorwow_default_seed" => {
            let at = "xyzwv".find(input["word"].as_str().unwrap()).unwrap();
            let word = Xorwow::initial(g).words()[at];
            assert_eq!(u64::from(word), hex(&expect["hex"]));
        }
        "xorwow_weyl_constant" => {
            let mut x = Xorwow::from_words([1, 2, 3, 4, 5, 0]);
            x.next_u32();
            assert_eq!(u64::from(x.words()[5]), hex(&expect["hex"]));
        }
        "xorwow_default_d_low_half" => {
            let g = if input["gen"] == "v3" { Generation::V3 } else { Generation::V4Plus };
            let low = Xorwow::initial(g).words()[5] & 0xFFFF;
            assert_eq!(u64::from(low), hex(&expect["low16"]));
        }
        "uniform_mantissa_mask" => {
            let mask = hex(&expect["hex"]) as u32;
            assert_eq!(uniform_low_bits(u32::MAX), uniform_low_bits(mask));
            assert_eq!(uniform_high_bits(u32::MAX), uniform_low_bits(mask));
        }
        "uniform_exponent_one" => {
            assert_eq!(f32::from_bits(hex(&expect["hex"]) as u32), uniform_low_bits(0) + 1.0);
        }
        "rand_algorithm_select" => {
            let algorithm = input["rand_algorithm"].as_u64().unwrap();
            let mut bench = Bench::new(Generation::V4, Engine::Pool);
            let (source, n) = match algorithm {
                3 => (1, 6),
                2 => (2, 7),
                _ => (1, 6),
            };
            put_words(&mut bench, 0, 0, &vec![1; n]);
            let before = bench.state.indirect.random.clone().xorwow(0, Generation::V4).words();
            let inst = build(
                Generation::V4,
                "RAND_SET_STATE",
                &json!({"rand_algorithm": algorithm, "num_active_channels": 1, "in_dtype": 9,
                    "rand_generator": source, "src": tensor(0, &[(1, n as u64)])}),
            );
            let accepted = bench.run(&inst).is_ok_and(|o| o.notice.is_none());
            let after = bench.state.indirect.random.xorwow(0, Generation::V4).words();
            assert_eq!(accepted, expect["pool_gate"] == "accept");
            assert_eq!(accepted, before != after);
        }
        "rand_state_words" => {
            let engine = match input["engine"].as_str().unwrap() {
                "POOL" => Engine::Pool,
                "DVE" => Engine::Dve,
                _ => Engine::Act,
            };
            let source = match input["rand_generator"].as_str().unwrap() {
                "RNG_LFSR" => 0,
                "RNG_XORWOW" => 1,
                "PHILOX" => 2,
                _ => 3,
            };
            let algorithm = match input["rand_algorithm"].as_str().unwrap() {
                "LFSR" => 0,
                "PHILOX" => 2,
                _ => 3,
            };
            let n = expect["words_per_partition"].as_u64().unwrap();
            for (count, legal) in [(n, true), (n + 1, false)] {
                let mut bench = Bench::new(Generation::V4, engine);
                let inst = build(
                    Generation::V4,
                    "RAND_GET_STATE",
                    &json!({"rand_algorithm": algorithm, "rand_generator": source, "dtype": 9,
                        "num_active_channels": 2, "dst": tensor(0, &one(&[(1, count)], 4))}),
                );
                assert_eq!(bench.run(&inst).is_ok(), legal, "{input} {count} words");
            }
        }
        "struct_layout" => {
            let name = input["struct"].as_str().unwrap();
            let name = if name == "RDMA_DESC_GEN" { "EXTENDED_RDMA_DESC_GEN" } else { name };
            let found: Vec<_> = STRUCTS.iter().filter(|s| s.name == name && !s.wide_v1).collect();
            assert!(!found.is_empty(), "no struct {name}");
            let mut compared = 0;
            for layout in found {
                for (field, offset) in expect["offsets"].as_object().unwrap() {
                    // the emulator numbers reserved bytes in its own way
                    if let Some(f) = layout.field(field).filter(|f| !f.is_reserved()) {
                        assert_eq!(u64::from(f.offset), offset.as_u64().unwrap(), "{name}.{field}");
                        compared += 1;
                    }
                }
            }
            assert!(compared > 0, "{name}");
        }
        "cptc_code" => {
            let code = hex(&input["dtype_code"]) as u8;
            assert_eq!(is_cptc_code(code), expect["is_cptc"].as_bool().unwrap());
            if let Some(bits) = expect["bits_per_element"].as_u64() {
                let dtype = Dtype::from_code(Generation::V5, code).unwrap();
                assert_eq!(u64::from(dtype.bits()), bits);
            }
        }
        "cce_dtype_size" => {
            let code = input["device_dtype"].as_u64().unwrap() as u8;
            let size = Dtype::from_code(g, code).unwrap().size() as u64;
            assert_eq!(size, expect["bytes"].as_u64().unwrap());
        }
        "sort_size_bound" => {
            let most = expect["max_N_times_channels"].as_u64().unwrap();
            let dtype = if input["dtype_class_bytes"] == 2 { 0x66 } else { 0xAA };
            for channels in [1, 2, 16] {
                for (n, ok) in [(most / channels, true), (most / channels + 1, false)] {
                    let inst = build(
                        g,
                        "SORT",
                        &json!({"num_active_channels": channels, "in_out_dtype": dtype,
                            "comparison": 0x16, "src": tensor(0, &[(1, n)]),
                            "dst": tensor(65536, &[(1, 2), (2, n)])}),
                    );
                    assert_eq!(validate(&inst, Engine::Pool, true).is_ok(), ok, "{channels}, {n}");
                }
            }
        }
        "pool_buffer_window" => {
            let mut bench = pool();
            let buffer: Vec<u32> = (0..512).map(|i| 5000 + i).collect();
            put_words(&mut bench, 0, 4096, &buffer);
            let start = hex(&input["start_index"]);
            let mask = hex(&input["mask"]);
            assert_eq!(mask, 511);
            let (first, last) = (hex(&expect["first_hit_index"]), hex(&expect["last_hit_index"]));
            let indices = [first - 1, first, first + 100, last, last + 1].map(|i| i as u32);
            put_words(&mut bench, 0, 0, &indices);
            run(
                &mut bench,
                g,
                "POOL_BUFFER_LOAD",
                json!({"in_dtype": 9, "num_active_channels": 1, "start_index": start,
                    "mask": mask, "src": tensor(4096, &one(&[(1, 512)], 4))}),
            );
            run(
                &mut bench,
                g,
                "GATHER",
                json!({"in_dtype": 9, "out_dtype": 9, "num_active_channels": 1,
                    "immediate": 1, "src": tensor(0, &one(&[(1, 5)], 4)),
                    "dst": tensor(512, &one(&[(1, 5)], 4))}),
            );
            let got = words(&mut bench, 0, 512, 5);
            assert_eq!(got[1..4], [5000, 5100, 5511]);
            assert!(got[0] < 5000 && got[4] < 5000, "{got:?}");
        }
        "rand_state_legal_arms" => rand_arms(input["gen"].as_str().unwrap(), expect),
        "rng_truncation" => {
            // the draws of one lane, as words and cut to every narrower type
            let draws = |dtype: u64, size: u64| -> Vec<u64> {
                let mut bench = Bench::new(Generation::V3, Engine::Dve);
                let inst = json!({"dst_element_count": 16, "dtype": dtype,
                    "num_active_channels": 1, "dst": tensor(0, &one(&[(1, 16)], 4))});
                run(&mut bench, g, "RNG", inst);
                let bytes = bench.get(Space::Sbuf, 0, 0, 16 * size);
                let number = |b: &[u8]| b.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
                bytes.chunks(size as usize).map(number).collect()
            };
            let whole = draws(9, 4);
            assert!(whole.iter().any(|d| d >> 16 != 0));
            for (dtype, size) in [(2, 1), (3, 1), (4, 2), (5, 2), (8, 4)] {
                let cut: Vec<u64> = whole.iter().map(|d| d & ((1 << (8 * size)) - 1)).collect();
                assert_eq!(draws(dtype, size), cut, "dtype {dtype}");
            }
        }
        "tensor_store_immediate_cap" => {
            let size = input["element_bytes"].as_u64().unwrap();
            let most = expect["max_elements"].as_u64().unwrap();
            let dtype = [0, 3, 5, 0, 9, 0, 0, 0, 1][size as usize];
            for (n, ok) in [(most, true), (most + 1, false)] {
                let inst = build(
                    g,
                    "TENSOR_STORE",
                    &json!({"dtype": dtype, "src_datasrc": 1, "num_elem": [n, 1],
                        "start_addr": HBM, "step_elem": [1, 0]}),
                );
                assert_eq!(validate(&inst, Engine::Pool, true).is_ok(), ok, "{n} of {size} bytes");
            }
        }
        "tensor_load_extend" => {
            load_extends(input["dtype"].as_str().unwrap(), expect["rule"].as_str().unwrap());
        }
        "cce_add_three_sources" => {
            // as two instructions: the destination is a source of the second
            let mut bench = pool();
            let sources =
                [[1.0f32, 256.0, -3.5, 0.125], [2.0, 1.0, 0.25, 7.0], [4.0, 1.0, 9.0, 0.5]];
            let narrow = |row: &[f32]| -> Vec<u8> {
                row.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
            };
            for (k, row) in sources.iter().enumerate() {
                bench.put(Space::Hbm, 0, 256 * k as u64, &narrow(row));
            }
            for k in 1..3 {
                run(
                    &mut bench,
                    g,
                    "DMAMEMCPY",
                    json!({"in_dtype": 6, "out_dtype": 6, "compute_op": 1,
                        "src_start_addr": HBM + 256 * k, "src_step_elem": [1, 0],
                        "src_num_elem": [1, 1], "src_elem_size": 8,
                        "dst_start_addr": HBM, "dst_step_elem": [1, 0],
                        "dst_num_elem": [1, 1], "dst_elem_size": 8}),
                );
            }
            // 256 + 1 in BF16 is 256 each time
            assert_eq!(bench.get(Space::Hbm, 0, 0, 8), narrow(&[7.0, 256.0, 5.75, 7.625]));
        }
        "dge_kind_to_opcode" => {
            let name = input["name"].as_str().unwrap();
            let found = tpbemu::isa::opcode_table(g)
                .iter()
                .find(|d| d.name == name || d.struct_names.contains(&name));
            assert_eq!(u64::from(found.unwrap().byte), hex(&expect["opcode"]), "{name}");
        }
        _ => return false,
    }
    true
}

/// How many forms of the state instructions the validator lets through in a generation.
fn rand_arms(g: &str, expect: &Value) {
    let g: Generation = g.parse().unwrap();
    let mut counts = [0u64; 2];
    for engine in [Engine::Pool, Engine::Dve, Engine::Act] {
        for source in 0..4 {
            for algorithm in 0..4 {
                let any = |op: &str, words: &[u64], immediate: bool| {
                    words.iter().any(|&n| {
                        let fields = if op == "RAND_GET_STATE" {
                            json!({"rand_algorithm": algorithm, "rand_generator": source,
                                "dtype": 9, "num_active_channels": 2,
                                "dst": tensor(0, &one(&[(1, n)], 4))})
                        } else {
                            json!({"rand_algorithm": algorithm, "rand_generator": source,
                                "in_dtype": 9, "num_active_channels": 2,
                                "update_state": u8::from(immediate),
                                "src": tensor(0, &[(1, n)])})
                        };
                        validate(&build(g, op, &fields), engine, true).is_ok()
                    })
                };
                let all: Vec<u64> = (1..=32).collect();
                counts[0] += u64::from(any("RAND_SET_STATE", &all, false));
                // the state as an immediate is a form of its own
                counts[0] += u64::from(any("RAND_SET_STATE", &all, true));
                counts[1] += u64::from(any("RAND_GET_STATE", &all, false));
            }
        }
    }
    let wanted = ["set_arms", "get_arms"].map(|k| expect[k].as_u64().unwrap());
    assert_eq!(counts, wanted, "{g}");
}

/// TENSOR_LOAD of one element whose upper bits are set.
fn load_extends(dtype: &str, rule: &str) {
    use std::sync::Arc;
    use tpbemu::machine::{self, MachineConfig, Options};
    use tpbemu::program::Program;

    let g = Generation::V3;
    let code = tpbemu::isa::enum_by_name("DTYPE").unwrap().value_of(dtype).unwrap();
    let value = 0x8182_8384_8586_8788u64;
    let write = |at: u64, v: u64| {
        build(g, "WRITE", &json!({"size": 4, "address": HBM + 64 + at, "data": v & 0xFFFF_FFFF}))
    };
    let mut p = Program::new(g);
    p.stream_mut(Engine::Pool).words = [
        write(0, value),
        write(4, value >> 32),
        build(
            g,
            "TENSOR_LOAD",
            &json!({"dtype": code, "num_elem": [1, 1], "start_addr": HBM + 64,
                "step_elem": [1, 0], "raw": [32, "0a"]}),
        ),
    ]
    .map(|i| i.bytes)
    .to_vec();
    let mut config = MachineConfig::builtin(g);
    config.geometry.hbm_bytes = 1 << 20;
    let options = || Options { check_unwritten: false, ..Options::default() };
    let r = machine::run(Arc::new(p), Arc::new(config), options, |_, _| Vec::new(), false).unwrap();
    assert!(r.finished.error.is_none(), "{dtype}: {}", r.finished.error.unwrap());
    let got = r.machine.registers(Engine::Pool);
    let want = match (rule, Dtype::from_code(g, code as u8).unwrap().size()) {
        ("zero extend", 1) => [0x88, 0],
        ("zero extend", 2) => [0x8788, 0],
        ("sign extend", 1) => [0xFFFF_FF88, 0],
        ("sign extend", 2) => [0xFFFF_8788, 0],
        ("raw 32 bits", 4) => [0x8586_8788, 0],
        ("register pair, low word first", 8) => [0x8586_8788, 0x8182_8384],
        other => panic!("{dtype}: {other:?}"),
    };
    assert_eq!(got[10..12], want, "{dtype}");
}

#[test]
fn published_values() {
    let vectors = load("golden_kernels_indirect.json");
    let (mut ran, mut listed) = (0, BTreeMap::new());
    for v in &vectors {
        let op = v["op"].as_str().unwrap();
        if check(op, &v["inputs"], &v["expect"]) {
            ran += 1;
        } else {
            let reason = LISTED.iter().find(|(name, _)| *name == op);
            let (name, why) = reason.unwrap_or_else(|| panic!("{op} is neither run nor listed"));
            listed.entry(*name).or_insert((*why, 0)).1 += 1;
        }
    }
    for (name, (why, n)) in &listed {
        println!("{name}: {n} not executable: {why}");
    }
    let left = vectors.len() - ran;
    println!("golden_kernels_indirect.json: {ran} run, {left} listed as not executable");
    assert_eq!(listed.len(), LISTED.len(), "a listed value is not in the file");
    assert_eq!(ran, 104);
}

/// Instructions that must be refused, with the rule that refuses them.
#[test]
fn refused() {
    let cases: Vec<(Generation, Engine, &str, Value, &str)> = vec![
        (
            Generation::V3,
            Engine::Dve,
            "MAX8",
            json!({"in_dtype": 10, "out_dtype": 10, "num_active_channels": 1,
                "src": tensor(0, &one(&[(1, 7)], 4)), "dst": tensor(512, &one(&[(1, 8)], 2))}),
            "search_source_count",
        ),
        (
            Generation::V3,
            Engine::Dve,
            "FIND_INDEX8",
            json!({"in_dtype": 10, "out_dtype": 10, "num_active_channels": 1,
                "src": tensor(0, &one(&[(1, 8)], 4)), "dst": tensor(512, &one(&[(1, 8)], 2))}),
            "find_index_dtype",
        ),
        (
            Generation::V3,
            Engine::Pool,
            "SORT",
            json!({"num_active_channels": 1, "in_out_dtype": 0x22, "comparison": 0x16,
                "src": tensor(0, &[(1, 4)]), "dst": tensor(512, &[(1, 2), (2, 4)])}),
            "sort_dtype",
        ),
        (
            Generation::V3,
            Engine::Pool,
            "GET_SEQUENCE_BOUNDS",
            json!({"num_active_channels": 2}),
            "sequence_bounds_channels",
        ),
        (
            Generation::V3,
            Engine::Pool,
            "SB2SB_COLLECTIVE",
            json!({"in_dtype": 10, "out_dtype": 10, "lnc_size_fmt": 2, "num_active_channels": 1}),
            "lnc_size_fmt",
        ),
        (
            Generation::V3,
            Engine::Pool,
            "DMAMEMCPY",
            json!({"src_num_elem": [4, 1], "src_elem_size": 4, "dst_num_elem": [3, 1],
                "dst_elem_size": 4, "src_step_elem": [1, 0], "dst_step_elem": [1, 0]}),
            "dma_length",
        ),
        (
            Generation::V3,
            Engine::Pool,
            "DMAMEMCPY",
            json!({"src_num_elem": [4, 1], "src_elem_size": 4, "dst_num_elem": [4, 1],
                "dst_elem_size": 4, "src_bound_reg": 0x40}),
            "bound_check_reg",
        ),
    ];
    for (generation, engine, op, fields, rule) in cases {
        let bench = Bench::new(generation, engine);
        let result = bench.prepare(&build(generation, op, &fields));
        let Err(error) = result else { panic!("{op} was accepted") };
        assert_eq!(error.rule.as_deref(), Some(rule), "{op}: {error}");
    }
}

/// No word of these families panics, whatever its bytes.
#[test]
fn any_bytes_are_an_answer() {
    use tpbemu::engine::{dge, indirect};
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut prepared, mut refused, mut failed) = (0, 0, 0);
    for generation in [Generation::V2, Generation::V3, Generation::V4, Generation::V5] {
        for engine in [Engine::Pool, Engine::Dve, Engine::Act] {
            let mut bench = Bench::new(generation, engine);
            for op in indirect::OPS.iter().chain(dge::OPS) {
                for round in 0..40 {
                    let mut inst = tpbemu::isa::Inst::empty(generation, op.byte);
                    for b in &mut inst.bytes[12..] {
                        // small numbers reach further than arbitrary ones
                        *b = match round % 3 {
                            0 => next() as u8,
                            1 => (next() % 12) as u8,
                            _ => {
                                if next() % 3 == 0 {
                                    (next() % 16) as u8
                                } else {
                                    0
                                }
                            }
                        };
                    }
                    for r in &mut bench.registers {
                        *r = if next() % 2 == 0 { (next() % 64) as u32 } else { 0x10 };
                    }
                    match bench.prepare(&inst) {
                        Ok(Prepared::Work(_)) => prepared += 1,
                        Ok(Prepared::Dma(r)) if r.transfers.iter().all(|t| t.bytes < 1 << 20) => {
                            prepared += 1;
                        }
                        _ => {
                            refused += 1;
                            continue;
                        }
                    }
                    if let Err(e) = bench.run(&inst) {
                        assert_ne!(e.class, ErrorClass::Internal, "{inst:?}: {e}");
                        failed += 1;
                    }
                }
            }
        }
    }
    println!("{prepared} prepared, {refused} refused, {failed} failed while running");
    assert!(refused > 1000);
}

/// Every data-path instruction of the two families has a row; what is known to be unspecified says
/// so instead of being unimplemented.
#[test]
fn every_opcode_has_a_row() {
    use tpbemu::engine::lookup;
    use tpbemu::isa::opcode_by_name;
    let names = [
        "RNG",
        "MAX8",
        "MATCH_VALUE_LOAD",
        "FIND_INDEX8",
        "MATCH_REPLACE8",
        "RAND_GET_STATE",
        "RAND_SET_STATE",
        "EMBEDDING_UPDATE",
        "TENSOR_DEQUANTIZE",
        "DROPOUT",
        "SORT",
        "DMAMEMCPY",
        "DMA_MEMCPY2",
        "DMA_IMMEDIATE",
        "DMA_INDIRECT",
        "DMA_TRANSPOSE",
        "GET_SEQUENCE_BOUNDS",
        "SB2SB_COLLECTIVE",
        "SPARSITY_COMPRESS",
        "SPARSITY_COMPRESS_TAG",
        "RAND2",
        "QUANTIZE_MX",
        "CONV_LUT_LOAD",
        "INDIRECT_COPY",
        "EXTENDED_INST",
        "DMA_GATHER_TRANSPOSE",
        "NONZERO_WITH_COUNT",
        "RAND",
    ];
    for name in names {
        let def = opcode_by_name(Generation::V5, name).unwrap_or_else(|| panic!("{name}"));
        assert!(lookup(Generation::V5, def.byte, def.name).is_some(), "{name}");
    }
    // the forms of EXTENDED_INST that stay in one core execute
    for (form, legal) in [(0u8, true), (2, true), (5, false), (7, false), (8, false), (10, false)] {
        let bench = pool();
        let mut inst = tpbemu::isa::Inst::empty(Generation::V3, 0xF0);
        inst.bytes[12] = form;
        inst.bytes[13] = 0b101;
        inst.bytes[14..17].copy_from_slice(&[0xAA, 0x0A, 4]);
        for pattern in [20, 32, 44] {
            inst.bytes[pattern + 4] = 1;
            inst.bytes[pattern + 8] = 4;
            inst.bytes[pattern + 10] = 1;
        }
        let result = bench.prepare(&inst);
        assert_eq!(result.is_ok(), legal, "form {form}: {:?}", result.err());
    }
}

/// Words that execute, with a few bytes changed, end in a result or an error of the program.
#[test]
fn changed_words_never_break_the_emulator() {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let (mut ran, mut refused) = (0, 0);
    for file in [
        "indirect/search.json",
        "indirect/sort.json",
        "indirect/gather.json",
        "indirect/random.json",
        "indirect/mx.json",
        "indirect/sparsity.json",
        "dge/copy.json",
        "dge/transpose.json",
    ] {
        for v in load(file) {
            let mut bench = indirect_support::bench(&v);
            for step in v["program"].as_array().unwrap() {
                let g = indirect_support::generation(&v);
                let word = build(g, step["op"].as_str().unwrap(), &step["fields"]);
                for _ in 0..30 {
                    let mut inst = word;
                    for _ in 0..1 + next() % 3 {
                        inst.bytes[12 + (next() % 52) as usize] = (next() % 130) as u8;
                    }
                    // legal but slow ones are left out
                    let large = match bench.prepare(&inst) {
                        Ok(Prepared::Dma(r)) => r.transfers.iter().any(|t| t.bytes > 1 << 20),
                        Ok(Prepared::Work(w)) => w.cost.elements > 1 << 14,
                        Err(_) => false,
                    };
                    if large {
                        continue;
                    }
                    match bench.run(&inst) {
                        Ok(_) => ran += 1,
                        Err(e) => {
                            assert_ne!(e.class, ErrorClass::Internal, "{inst:?}: {e}");
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{ran} ran, {refused} refused");
    assert!(ran > 500 && refused > 500);
}

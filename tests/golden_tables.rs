//! Published values about words rather than about results: layouts, operator sets, counts that the
//! legality rules enforce, the partitions of a port, the tags of a row tile, the V1 matrix product.
//! They are the part of two golden files that `numeric_golden`, `engine_pe`, `engine_act` and
//! `engine_vector` leave.

mod words;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tpbemu::engine::testing::Bench;
use tpbemu::isa::geometry::dtype_bytes;
use tpbemu::isa::validate::{validate, validate_all};
use tpbemu::isa::{
    Engine, Generation, Inst, Pattern, PatternKind, STRUCTS, class, enum_by_name, opcode_by_name,
    stream,
};
use tpbemu::memory::Space;
use words::{assign, base, home_engine};

fn load(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_else(|| panic!("text {v}"))
}

fn hex(v: &Value) -> u64 {
    let digits = text(v).trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap_or_else(|e| panic!("{v}: {e}"))
}

/// The plain legal word of `name` with some fields changed.
fn word(g: Generation, name: &str, fields: &str) -> Inst {
    let def = opcode_by_name(g, name).unwrap_or_else(|| panic!("{g} has no {name}"));
    let mut inst = base(g, def.byte, 0);
    assign(&mut inst, fields);
    inst
}

fn legal(inst: &Inst) -> bool {
    validate(inst, home_engine(inst.generation, inst.bytes[0]), true).is_ok()
}

fn codes(g: Generation, name: &str) -> Vec<u32> {
    let def = enum_by_name(name).unwrap();
    let all = def.values.iter().zip(def.value_generations);
    all.filter(|(_, gens)| gens.contains(g)).map(|((v, _), _)| *v).collect()
}

/// Offsets of a struct's fields, or of an access pattern's parts by what they decode to.
fn offsets(v: &Value) -> usize {
    let name = text(&v["inputs"]["struct"]);
    let (name, wanted) = match name.split_once('(') {
        Some((name, "MAVERICK)")) => (name, Some(Generation::V5)),
        Some((name, _)) => (name, None),
        None => (name, None),
    };
    let expect = v["expect"].as_object().unwrap();
    if let "MXTENSOR1D" | "MXTENSOR_V2" = name {
        return mx_offsets(name, expect);
    }
    let forms: Vec<_> = STRUCTS
        .iter()
        .filter(|s| s.name == name && !s.wide_v1)
        .filter(|s| match wanted {
            Some(g) => s.generations.contains(g),
            // the forms of V1 are others
            None => Generation::ALL[1..].iter().any(|g| s.generations.contains(*g)),
        })
        .collect();
    let mut compared = 0;
    for (field, offset) in expect {
        if field == "sizeof" {
            assert!(
                forms
                    .iter()
                    .all(|s| { s.fields.iter().map(|f| usize::from(f.size)).sum::<usize>() == 64 })
            );
            compared += 1;
            continue;
        }
        // the emulator numbers reserved bytes in its own way, and drops `_mem_pattern`
        let short = field.strip_suffix("_mem_pattern").unwrap_or(field);
        let found: Vec<_> = forms
            .iter()
            .filter_map(|s| s.field(field).or_else(|| s.field(short)))
            .filter(|f| !f.is_reserved())
            .collect();
        for f in &found {
            assert_eq!(u64::from(f.offset), offset.as_u64().unwrap(), "{name}.{field}");
        }
        compared += usize::from(!found.is_empty());
    }
    compared
}

fn mx_offsets(name: &str, expect: &serde_json::Map<String, Value>) -> usize {
    let v2 = name == "MXTENSOR_V2";
    let g = if v2 { Generation::V5 } else { Generation::V4 };
    let kind = if v2 { PatternKind::Mem(3) } else { PatternKind::Mx };
    let rules = Inst::empty(g, 1).pattern_rules();
    let plain = |bytes: [u8; 16]| format!("{:?}", Pattern::decode(kind, &bytes, rules).unwrap());
    // the marker of the second form is the lowest bit of the data address
    let mut start = [0u8; 16];
    start[0] = u8::from(v2);
    start[3] = if v2 { 0x01 } else { 0 };
    let mut compared = 0;
    for (field, offset) in expect {
        let at = offset.as_u64().unwrap() as usize;
        if field == "sizeof" {
            assert_eq!(kind.size(), at);
            compared += 1;
            continue;
        }
        let mut changed = start;
        changed[at] ^= 4;
        let (a, b) = (plain(start), plain(changed));
        assert_ne!(a, b, "{name}.{field}: byte {at} is not read");
        compared += 1;
    }
    compared
}

fn act_pe_dtype(op: &str, v: &Value) -> bool {
    let (input, expect) = (&v["inputs"], &v["expect"]);
    match op {
        "offsetof" => {
            // a table of the activation unit, not a word
            if text(&input["struct"]) == "ACT_BUCKET" {
                return false;
            }
            assert!(offsets(v) > 0, "{input}");
        }
        "sizeof" => {
            let sizes: BTreeMap<&str, usize> = [
                ("TENSOR1D", PatternKind::Tensor(1).size()),
                ("TENSOR2D", PatternKind::Tensor(2).size()),
                ("TENSOR3D", PatternKind::Tensor(3).size()),
                ("TENSOR4D", PatternKind::Tensor(4).size()),
                ("MEM_PATTERN2D", PatternKind::Mem(2).size()),
                ("MEM_PATTERN3D", PatternKind::Mem(3).size()),
                ("MEM_PATTERN4D", PatternKind::Mem(4).size()),
            ]
            .into();
            let mut compared = 0;
            for (name, size) in expect.as_object().unwrap() {
                if let Some(have) = sizes.get(name.as_str()) {
                    assert_eq!(*have as u64, size.as_u64().unwrap(), "{name}");
                    compared += 1;
                }
            }
            assert!(compared >= 5);
        }
        "compress_op.values" => {
            for (name, code) in expect.as_object().unwrap() {
                let inst = word(Generation::V4, "SPARSITY_COMPRESS", &format!("op={}", hex(code)));
                assert!(legal(&inst), "{name}");
            }
            let all: Vec<u8> = (0..=255)
                .filter(|c| legal(&word(Generation::V4, "SPARSITY_COMPRESS", &format!("op={c}"))))
                .collect();
            assert_eq!(all.len(), expect.as_object().unwrap().len(), "{all:02x?}");
        }
        "intwide.shift_imm_mask" => {
            let mask = hex(&input["mask"]);
            for shift in 0..40u64 {
                let inst = word(
                    Generation::V5,
                    "TENSOR_SCALAR_INT_WIDE",
                    &format!("op=LOGICAL_SHIFT_LEFT imm={shift}"),
                );
                assert_eq!(legal(&inst), shift & mask == 0, "{shift}");
            }
        }
        "immediate_store_caps" => {
            for (name, most) in expect.as_object().unwrap() {
                let dtype = match name.as_str() {
                    "8bit" => "UINT8",
                    "16bit" => "UINT16",
                    "32bit" => "UINT32",
                    _ => "UINT64",
                };
                let most = most.as_u64().unwrap();
                for (n, ok) in [(most, true), (most + 1, false)] {
                    let inst = word(
                        Generation::V3,
                        "TENSOR_STORE",
                        &format!("src_datasrc=IMMEDIATE dtype={dtype} num_elem={n},1"),
                    );
                    assert_eq!(legal(&inst), ok, "{n} of {dtype}");
                }
            }
        }
        "tonga.opcode_split" => {
            let (class, local) = stream::v1_split(hex(&input["opcode"]) as u8);
            assert_eq!(u64::from(class), expect["engine"].as_u64().unwrap());
            assert_eq!(u64::from(local), expect["local"].as_u64().unwrap());
        }
        "peseed.save_pattern" => {
            let list = |v: &Value, k: usize| v[k].as_i64().unwrap();
            let save = |steps: [i64; 2], nums: [i64; 2], at: u64| {
                word(
                    Generation::V4,
                    "PE_MANAGE_SEED",
                    &format!(
                        "mode=SAVE_SEED dst_seed=@{at:#x}:{}*{},{}*{}",
                        steps[0], nums[0], steps[1], nums[1]
                    ),
                )
            };
            let (n, s) = (&expect["num_elem"], &expect["step_elem"]);
            let (nums, steps) = ([list(n, 0), list(n, 1)], [list(s, 0), list(s, 1)]);
            let at = hex(&expect["start_addr"]);
            assert!(legal(&save(steps, nums, at)));
            for bad in [
                save([steps[0], steps[1] + 1], nums, at),
                save(steps, [nums[0], nums[1] - 1], at),
                save(steps, nums, at + 2048),
            ] {
                assert!(!legal(&bad), "{bad:?}");
            }
        }
        "peseed.count" => {
            let per = expect["per_partition"].as_u64().unwrap();
            assert_eq!(per * 128, expect["total"].as_u64().unwrap());
            let banks = expect["banks"].as_u64().unwrap();
            assert_eq!(banks * expect["states_per_bank"].as_u64().unwrap(), per);
            seeds_survive(per as u32, banks as u32);
        }
        "ldtags.force_tag_bits" => {
            let tile = text(&input["row_tile"]);
            let (first, last) = tile.split_once('-').unwrap();
            let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
            let rows = last - first + 1;
            let group = (first / 32..=last / 32).fold(0, |m, g| m | 1 << g);
            let bits = hex(expect);
            let inst = word(
                Generation::V3,
                "LDTAGS",
                &format!(
                    "in_dtype=UINT16 force_tag_bits={bits} num_active_rows={rows} row_grp={group} \
                     col_grp=15 src=@{:#x}:1*32",
                    first * 0x4_0000
                ),
            );
            assert!(legal(&inst), "{tile}");
            let bench = Bench::new(Generation::V3, Engine::Pe);
            assert!(bench.prepare(&inst).is_ok());
        }
        "ldtags.nibble_to_column" => {
            let nibble = input["u16_nibble"].as_u64().unwrap() as u32;
            assert_eq!(u64::from(column_of_nibble(nibble)), expect.as_u64().unwrap());
        }
        "tonga.matmul" => v1_product(),
        "mx.p_f_dim_legal" | "mx.bytes_per_word" => return false,
        _ => return false,
    }
    true
}

/// Loads and saves the rounding states: `per` of each partition in `banks` banks come back.
fn seeds_survive(per: u32, banks: u32) {
    let g = Generation::V4;
    let mut bench = Bench::new(g, Engine::Pe);
    for s in 0..per {
        let row: Vec<u8> = (0..128u32).flat_map(|p| (1 + s * 1000 + p).to_le_bytes()).collect();
        bench.put(Space::Sbuf, s, 0, &row);
    }
    let run = |bench: &mut Bench, fields: &str| {
        let inst = word(g, "PE_MANAGE_SEED", fields);
        bench.run(&inst).unwrap_or_else(|e| panic!("{fields}: {e}"));
    };
    run(&mut bench, "mode=LOAD_SEED src_seed=@0:1*128");
    run(&mut bench, "mode=SAVE_SEED dst_seed=@0x2000000:1*2,512*8");
    for p in [0, 1, 77, 127] {
        for s in 0..per {
            let each = per / banks;
            let at = u64::from(2048 * (s / each) + 4 * (s % each));
            let got = bench.get(Space::Psum, p, at, 4);
            assert_eq!(got, (1 + s * 1000 + p).to_le_bytes(), "partition {p} state {s}");
        }
    }
}

/// The column whose cell takes its map from nibble `nibble` of the first tag word.
fn column_of_nibble(nibble: u32) -> u32 {
    let g = Generation::V3;
    let mut bench = Bench::new(g, Engine::Pe);
    // one row; 128 weights of 1; map 0 holds 0, map 1 holds 1
    bench.put(Space::Sbuf, 0, 0, &[0x80, 0x3F].repeat(128));
    bench.put(Space::Sbuf, 0, 1024, &[0, 0, 0x80, 0x3F]);
    let mut tags = [0u8; 64];
    tags[..2].copy_from_slice(&(1u16 << (4 * nibble)).to_le_bytes());
    // the other 31 rows have zero data and weights
    for p in 0..32 {
        if p > 0 {
            bench.put(Space::Sbuf, p, 0, &[0; 256]);
            bench.put(Space::Sbuf, p, 1024, &[0; 4]);
        }
        bench.put(Space::Sbuf, p, 2048, if p == 0 { &tags } else { &[0; 64] });
    }
    let tile = "num_active_rows=32 row_grp=1 col_grp=15";
    for (name, fields) in [
        ("LDWEIGHTS", "in_dtype=BFLOAT16 num_active_cols=128 src=@254:-1*128"),
        ("LDTAGS", "in_dtype=UINT16 src=@2048:1*32"),
        (
            "MATMUL_SPARSE",
            "in_dtype=BFLOAT16 num_active_cols=128 psum_accumulate_flags=3 \
             src=@1024:1*1,0*1,0*1,1*2 dst=@0x2000000:1*1",
        ),
    ] {
        let inst = word(g, name, &format!("{tile} {fields}"));
        bench.run(&inst).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let hit: Vec<u32> =
        (0..128).filter(|c| bench.get_f32(Space::Psum, *c, 0, 1) == [1.0]).collect();
    assert_eq!(hit.len(), 1, "{hit:?}");
    hit[0]
}

/// (Xq - Xqz) * (Wq - Wqz) + Psum_in on the 128 by 64 array.
fn v1_product() {
    let g = Generation::V1;
    let mut bench = Bench::new(g, Engine::Pe);
    let (xz, wz, old) = (7i32, 11i32, 1000i32);
    for p in 0..128u32 {
        bench.put(Space::Sbuf, p, 0, &[(p % 50) as u8; 64]);
        bench.put(Space::Sbuf, p, 128, &[(p % 30) as u8]);
    }
    for c in 0..64 {
        bench.put(Space::Psum, c, 0, &old.to_le_bytes());
    }
    let load =
        word(g, "LDWEIGHTS", "in_dtype=UINT8 num_active_rows=128 num_active_cols=64 src=@0:1*64");
    let product = word(
        g,
        "MATMUL",
        &format!(
            "in_dtype=UINT8 num_active_rows=128 num_active_cols=64 psum_accumulate_flags=2 \
             quant_offset={} src=@128:1*1 dst=@0x2000000:1*1",
            xz | wz << 8
        ),
    );
    for inst in [&load, &product] {
        bench.run(inst).unwrap_or_else(|e| panic!("{inst:?}: {e}"));
    }
    let want: i32 = old + (0..128).map(|p| (p % 30 - xz) * (p % 50 - wz)).sum::<i32>();
    for c in [0, 31, 63] {
        assert_eq!(bench.get(Space::Psum, c, 0, 4), want.to_le_bytes(), "column {c}");
    }
    // the array has no 65th column
    let mut wide = load;
    assign(&mut wide, "num_active_cols=65 src=@0:1*65");
    let error = bench.prepare(&wide).map(|_| ()).unwrap_err();
    assert_eq!(error.rule.as_deref(), Some("num_active_cols"));
}

fn elementwise(op: &str, v: &Value) -> bool {
    let (input, expect) = (&v["inputs"], &v["expect"]);
    match op {
        "struct size" => {
            let name = text(&input["struct"]);
            let forms: Vec<_> = STRUCTS.iter().filter(|s| s.name == name && !s.wide_v1).collect();
            assert!(!forms.is_empty(), "{name}");
            for s in forms {
                let size: u64 = s.fields.iter().map(|f| u64::from(f.size)).sum();
                assert_eq!(size, expect["sizeof"].as_u64().unwrap(), "{name}");
            }
        }
        "operator set size" => {
            let g = match input["generation"].as_str() {
                Some("MARIANA+") => Generation::V4,
                _ => Generation::V3,
            };
            let among = |members: &[u8]| {
                let known = codes(g, "ALU_OP");
                members.iter().filter(|m| known.contains(&u32::from(**m))).count()
            };
            let n = match text(&input["set"]) {
                "general arithmetic" => among(class::IS_GENERAL_ARITH_OP.members),
                "bitvec" => among(class::IS_BITVEC_OP.members),
                "general bitvec" => among(class::IS_GENERAL_BITVEC_OP.members),
                "valid integer ALU ops" => among(class::IS_VALID_INT_ALUOP.members),
                "ALU_OP enumerators" => codes(g, "ALU_OP").len(),
                other => panic!("set {other}"),
            };
            assert_eq!(n as u64, expect["count"].as_u64().unwrap(), "{input}");
        }
        "TENSOR_SCALAR_IMM_LD dtypes" => {
            let accepted = |name: &str| -> Vec<u64> {
                codes(Generation::V3, "DTYPE")
                    .into_iter()
                    .map(u64::from)
                    .filter(|d| legal(&word(Generation::V3, name, &format!("dtype={d}"))))
                    .collect()
            };
            let arith = accepted("TENSOR_SCALAR_IMM_LD_ARITH");
            let bits = accepted("TENSOR_SCALAR_IMM_LD_BITVEC");
            let mine = if hex(&input["opcode"]) == 0x70 { &arith } else { &bits };
            let both = bits.iter().filter(|d| arith.contains(d)).count();
            let numbers = json!({"legal": mine.len(), "both": both,
                "arith_only": arith.len() - both, "bitvec_only": bits.len() - both});
            for (key, n) in expect.as_object().unwrap() {
                assert_eq!(&numbers[key], n, "{key}: {arith:?} {bits:?}");
            }
        }
        "S2_BN source element count" => {
            let byte = hex(&input["opcode"]) as u8;
            let accepted: Vec<u64> = (1..=20)
                .filter(|n| {
                    let mut inst = base(Generation::V3, byte, 0);
                    assign(&mut inst, &format!("src=@0:1*{n}"));
                    legal(&inst)
                })
                .collect();
            let wanted: Vec<u64> = match text(&expect["count"]).split_once("..") {
                Some((a, b)) => (a.parse().unwrap()..=b.parse().unwrap()).collect(),
                None => vec![text(&expect["count"]).parse().unwrap()],
            };
            assert_eq!(accepted, wanted, "{input}");
        }
        "RANGE_SELECT base limit" => {
            let most = expect["max"].as_u64().unwrap();
            // 32 elements in the plain word
            for (at, ok) in [(most - 32, true), (most - 31, false), (most, false)] {
                let inst = word(Generation::V3, "RANGE_SELECT", &format!("base={at}.0f"));
                assert_eq!(legal(&inst), ok, "{at}");
            }
        }
        "EXTENDED_TTA num_active_ports" => {
            let ports = input["ports"].as_u64().unwrap();
            let partitions = expect["partitions"].as_u64().unwrap() as u32;
            let g = Generation::V3;
            let byte = opcode_by_name(g, "EXTENDED_INST").unwrap().byte;
            let mut inst = base(g, byte, 2);
            assign(
                &mut inst,
                &format!(
                    "completion_info=has_read:1+has_write:1+num_active_ports:{ports} op=ADD \
                     in0_in1_dtype=FP32/FP32 out_dtype=FP32 src0=@0:1*1 src1=@64:1*1 dst=@128:1*1"
                ),
            );
            let mut bench = Bench::new(g, Engine::Pool);
            for p in 0..128 {
                bench.put_f32(Space::Sbuf, p, 0, &[p as f32]);
                bench.put_f32(Space::Sbuf, p, 64, &[0.5]);
                bench.put_f32(Space::Sbuf, p, 128, &[-1.0]);
            }
            bench.run(&inst).unwrap();
            for p in 0..128 {
                let want = if p < partitions { p as f32 + 0.5 } else { -1.0 };
                assert_eq!(bench.get_f32(Space::Sbuf, p, 128, 1), [want], "{ports} ports, {p}");
            }
        }
        _ => return false,
    }
    true
}

/// What no test runs: values about firmware images, other chips and the frontend.
const LEFT: &[&str] = &["ACT_BUCKET: layout of a table of the activation unit"];

#[test]
fn values_about_words() {
    let mut counts = Vec::new();
    for (file, check) in [
        ("golden_act_pe_dtype", act_pe_dtype as fn(&str, &Value) -> bool),
        ("golden_kernels_elementwise", elementwise),
    ] {
        let vectors = load(file);
        let ran = vectors.iter().filter(|v| check(text(&v["op"]), v)).count();
        println!("{file}: {ran} of {} run here", vectors.len());
        counts.push(ran);
    }
    println!("left: {LEFT:?}");
    assert_eq!(counts, [39, 29]);
}

/// The rule that refuses a value is the one that the value is about.
#[test]
fn limits_are_refused_by_their_own_rules() {
    for (g, name, fields, rule) in [
        (Generation::V3, "RANGE_SELECT", "base=16777216.0f", "range_select_valid"),
        (Generation::V3, "MATCH_VALUE_LOAD", "src=@0:1*9", "param_load_counts"),
        (
            Generation::V5,
            "TENSOR_SCALAR_INT_WIDE",
            "op=LOGICAL_SHIFT_LEFT imm=32",
            "int_wide_shift_count",
        ),
    ] {
        let inst = word(g, name, fields);
        let errors = validate_all(&inst, home_engine(g, inst.bytes[0]), true);
        let rules: Vec<_> = errors.iter().filter_map(|e| e.rule.as_deref()).collect();
        assert_eq!(rules, [rule], "{name} {fields}");
    }
    assert_eq!(dtype_bytes(9), Some(4));
}

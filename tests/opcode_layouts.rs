//! What an instruction computes does not depend on where its operands lie.
//!
//! A random legal word of every data-path opcode (random shapes, dtypes, immediates) is run in two
//! random layouts: other start partitions, bytes, orders of dimensions, gaps and reversals. This
//! file walks the patterns by itself, one element after the other. The same logical elements go in;
//! the same must come out. What the elements are is judged by the vectors of `tools/oracle`.

#[path = "engine_vector/word.rs"]
mod word;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use tpbemu::engine::testing::Bench;
use tpbemu::isa::{
    Addr4, Engine, FieldDef, Generation, Geometry, Inst, Pattern, PatternKind, TensorPattern,
    validate,
};
use tpbemu::memory::Space;
use words::random::{Dice, Subject, executable, patterns, put_pattern};

/// Bytes that one operand may span in a partition.
const WINDOW: i64 = 2048;

/// Opcodes whose state belongs to the partition, not to the channel: they stay where they are.
const BY_PARTITION: [&str; 7] =
    ["RNG", "RAND2", "DROPOUT", "RAND", "RAND_GET_STATE", "RAND_SET_STATE", "EXTENDED_INST"];

/// Opcodes without a tensor pattern to move, and what tests their layouts instead.
const NO_PATTERN: [(&str, &str); 18] = [
    ("RAND", "refused: no firmware handles it"),
    ("EXTENDED_INST/7", "missing specification"),
    ("LDWEIGHTS_MX", "MX patterns: tests/mx_properties.rs"),
    ("DMAMEMCPY", "device addresses: tests/engine_dge.rs"),
    ("DMA_MEMCPY2", "device addresses: tests/engine_dge.rs"),
    ("DMA_IMMEDIATE", "device addresses: tests/engine_dge.rs"),
    ("DMA_INDIRECT", "device addresses: tests/engine_dge.rs"),
    ("DMA_TRANSPOSE", "device addresses: tests/engine_dge.rs"),
    ("DMA_GATHER_TRANSPOSE", "device addresses: tests/engine_dge.rs"),
    ("EMBEDDING_UPDATE", "device addresses: tests/dma_properties.rs"),
    ("ACTIVATION_TABLE_LOAD", "no operand in memory"),
    ("LOAD_PARAMETER_RAM", "no operand in memory"),
    ("LOAD_MASK_SELECT", "no operand in memory"),
    ("LOAD_POOL_ARGUMENT", "pointers: tests/engine_vector.rs"),
    ("MODIFY_POOL_CONFIG", "library images: tests/q7_library_golden.rs"),
    ("CUSTOM_OP_HEADER", "arguments of library code: tests/programs.rs"),
    ("CUSTOM_OP_PAYLOAD", "arguments of library code: tests/programs.rs"),
    ("ENGINE_NOP", "no operand"),
];

/// Loads without a result in memory: what they loaded shows through the opcode named here only,
/// so that one is tested behind them.
fn shows_nothing(inst: &Inst) -> bool {
    !patterns(inst).iter().any(|(f, ..)| f.name.contains("dst"))
}

fn number(inst: &Inst, name: &str) -> Option<u64> {
    let field = inst.by_name(name)?;
    Some(inst.raw(&field).iter().take(8).rev().fold(0, |v, b| v << 8 | u64::from(*b)))
}

fn size_of_code(code: u64) -> i64 {
    tpbemu::isa::geometry::dtype_bytes(code as u8).map_or(4, |n| n.max(1)) as i64
}

/// Bytes of an element of the operand in `field`.
fn element(inst: &Inst, field: &str) -> i64 {
    let low = |name: &str| number(inst, name).map(|v| v & 15);
    let high = |name: &str| number(inst, name).map(|v| v >> 4 & 15);
    if field == "dst" && inst.by_name("num_active_cols").is_some() {
        return size_of_code(number(inst, "out_dtype").unwrap_or(0));
    }
    let code = match field {
        "src1" => high("in0_in1_dtype"),
        "dst" | "dst0" => number(inst, "out_dtype")
            .or_else(|| high("in_out_dtype"))
            .or_else(|| low("out0_out1_dtype"))
            .or_else(|| high("immediate_out_dtype"))
            .or_else(|| number(inst, "out_struct_dtype")),
        "dst1" => high("out0_out1_dtype"),
        "pred" => number(inst, "pred_dtype"),
        "data_dst" => number(inst, "out_data_dtype"),
        "tag_dst" => number(inst, "out_tag_dtype"),
        "prev_pass" => number(inst, "out_dtype"),
        "dst_seed" | "src_seed" => Some(9),
        _ => None,
    };
    let code = code
        .or_else(|| number(inst, "in_dtype"))
        .or_else(|| number(inst, "dtype"))
        .or_else(|| number(inst, "src_dtype"))
        .or_else(|| low("in0_in1_dtype"))
        .or_else(|| low("in_out_dtype"))
        .or_else(|| low("in_bias_dtype"))
        .or_else(|| low("in_imm_dtype"));
    if inst.def().unwrap().name == "QUANTIZE_MX" && field == "src" {
        return 4;
    }
    size_of_code(code.unwrap_or(0))
}

/// Partitions that the operand spans.
fn channels(inst: &Inst, field: &str) -> u32 {
    let n = if field.starts_with("dst") && inst.by_name("num_active_cols").is_some() {
        number(inst, "num_active_cols")
    } else {
        number(inst, "num_active_channels").or_else(|| number(inst, "num_active_rows"))
    };
    let ports = number(inst, "completion_info").map(|c| match c >> 3 & 7 {
        0 => 128,
        p => 16 * p,
    });
    n.or(ports).unwrap_or(1).clamp(1, 128) as u32
}

/// One plain operand: where its elements are.
struct Operand {
    field: &'static FieldDef,
    kind: PatternKind,
    tensor: TensorPattern,
    size: i64,
    channels: u32,
}

fn operands(inst: &Inst) -> Vec<Operand> {
    patterns(inst)
        .into_iter()
        .filter_map(|(field, kind, pattern)| match pattern {
            Pattern::Tensor(tensor) if tensor.addr.imm().is_some() => Some(Operand {
                field,
                kind,
                size: element(inst, field.name),
                channels: channels(inst, field.name),
                tensor,
            }),
            _ => None,
        })
        .collect()
}

impl Operand {
    /// Space, first partition, and byte of each element in the partition.
    fn places(&self, g: &Geometry, psum: bool) -> (Space, u32, Vec<u64>) {
        let addr = self.tensor.addr.imm().unwrap();
        let (space, offset, stride) = if psum {
            (Space::Psum, addr - g.psum_base, g.psum_stride)
        } else {
            (Space::Sbuf, addr, g.sbuf_stride)
        };
        let mut at = vec![i64::from(offset % stride)];
        for &(step, num) in &self.tensor.dims {
            let inner = std::mem::take(&mut at);
            for i in 0..i64::from(num) {
                at.extend(inner.iter().map(|b| b + i * i64::from(step) * self.size));
            }
        }
        (space, offset / stride, at.into_iter().map(|b| b as u64).collect())
    }

    fn in_psum(&self, inst: &Inst, g: &Geometry) -> bool {
        // PE writes PSUM; on v5 the windows overlap and everything else is SBUF
        let pe = inst.by_name("num_active_cols").is_some() && self.field.name.contains("dst");
        pe || inst.generation != Generation::V5
            && self.tensor.addr.imm().is_some_and(|a| g.in_psum(a))
    }
}

/// The word with its operands elsewhere, each in a window of its own.
fn moved(dice: &mut Dice, inst: &Inst, gently: u64) -> Option<Inst> {
    let g = Geometry::of(inst.generation);
    let mut out = *inst;
    let stay = BY_PARTITION.contains(&inst.def().unwrap().name);
    let most = operands(inst).iter().map(|o| o.channels).max().unwrap_or(1);
    let quadrants: &[u32] = match most {
        // on v5 the PSUM window covers the addresses of SBUF partitions from 32 on
        _ if inst.generation == Generation::V5 => &[0],
        0..=32 => &[0, 32, 64, 96],
        33..=64 => &[0, 64],
        _ => &[0],
    };
    let limit = if inst.generation == Generation::V1 { 64 } else { 128 };
    let together = dice.pick(quadrants);
    for (i, o) in operands(inst).iter().enumerate() {
        let psum = o.in_psum(inst, &g);
        let mut t = o.tensor.clone();
        let elements: i64 = t.dims.iter().map(|d| i64::from(d.1)).product();
        if elements * o.size > WINDOW {
            return None;
        }
        let keep = gently == 0 || gently == 1 && dice.one_in(2) || dice.one_in(4);
        let mut order: Vec<usize> = (0..t.dims.len()).collect();
        if !keep {
            for k in (1..order.len()).rev() {
                order.swap(k, dice.below(k as u64 + 1) as usize);
            }
        }
        let (mut step, mut below, mut span) = (1i64, 0, 0);
        for d in order {
            let n = i64::from(t.dims[d].1);
            if !keep && elements * o.size * 6 < WINDOW {
                step *= dice.pick(&[1, 1, 1, 2]);
            }
            let backwards = !keep && dice.one_in(6);
            t.dims[d].0 = if backwards { -step } else { step } as i16;
            below += if backwards { step * (n - 1) } else { 0 };
            span += step * (n - 1);
            step *= n;
        }
        if (span + 1) * o.size > WINDOW {
            return None;
        }
        let room = (WINDOW - (span + 1) * o.size) / 8;
        let byte = 8 * dice.below(room as u64 + 1) as i64 + below * o.size;
        // the low bit of an address marks an MX pattern on v5
        if inst.generation == Generation::V5 && byte % 2 != 0 {
            return None;
        }
        let first = match (stay, dice.one_in(3)) {
            (true, _) => 0,
            (_, true) => dice.pick(quadrants),
            _ => together,
        };
        let first = if first + o.channels > limit { 0 } else { first };
        // scalars behind pointers and the tables of what runs before lie below
        let window = if psum { 0 } else { 4096 } + i as u32 * WINDOW as u32;
        t.addr = Addr4::Imm(if psum {
            let banks = g.psum_active / WINDOW as u32;
            g.psum_base + first * g.psum_stride + window % (banks * WINDOW as u32) + byte as u32
        } else {
            first * g.sbuf_stride + window + byte as u32
        });
        put_pattern(&mut out, o.field, o.kind, &Pattern::Tensor(t));
    }
    Some(out)
}

/// The elements of every operand, by operand, channel and element.
type Elements = Vec<Vec<Vec<Vec<u8>>>>;

fn content(dice: &mut Dice, inst: &Inst) -> Elements {
    let kind = dice.below(3);
    operands(inst)
        .iter()
        .map(|o| {
            let n: usize = o.tensor.dims.iter().map(|d| usize::from(d.1)).product();
            (0..o.channels)
                .map(|_| {
                    (0..n)
                        .map(|_| {
                            let mut bytes = dice.bytes(o.size as usize);
                            if kind == 0 {
                                bytes[1..].fill(0);
                                bytes[0] &= 7;
                            } else if kind == 1 && o.size == 4 {
                                let x = f32::from(bytes[0] as i8) / 8.0;
                                bytes.copy_from_slice(&x.to_le_bytes());
                            }
                            bytes
                        })
                        .collect()
                })
                .collect()
        })
        .collect()
}

/// Memory and state that a word finds.
#[derive(Default)]
struct Before {
    rows: Vec<(Space, u32, u64, Vec<u8>)>,
    registers: Vec<(usize, u32)>,
    words: Vec<Inst>,
}

impl Before {
    /// A ramp under the scalars behind pointers, and the words that load what `words` load.
    fn words(words: Vec<Inst>) -> Before {
        let ramp = |p: u32| (0..64u32).flat_map(|i| (p * 64 + i).to_le_bytes()).collect();
        let rows = (0..32).map(|p| (Space::Sbuf, p, 0, ramp(p))).collect();
        Before { rows, registers: Vec::new(), words }
    }
}

/// Runs the word behind what it needs; the elements of all operands after it.
fn run(inst: &Inst, engine: Engine, before: &Before, input: &Elements) -> Result<Elements, String> {
    let g = Geometry::of(inst.generation);
    let mut bench = Bench::new(inst.generation, engine);
    for (space, p, byte, row) in &before.rows {
        bench.put(*space, *p, *byte, row);
    }
    for (register, value) in &before.registers {
        bench.registers[*register] = *value;
    }
    for w in &before.words {
        bench.run(w).map_err(|e| format!("{e:?}"))?;
    }
    let list = operands(inst);
    for (o, channels) in list.iter().zip(input) {
        let (space, first, places) = o.places(&g, o.in_psum(inst, &g));
        for (c, elements) in channels.iter().enumerate() {
            for (at, bytes) in places.iter().zip(elements) {
                bench.put(space, first + c as u32, *at, bytes);
            }
        }
    }
    bench.run(inst).map_err(|e| format!("{e:?}"))?;
    Ok(list
        .iter()
        .map(|o| {
            let (space, first, places) = o.places(&g, o.in_psum(inst, &g));
            (0..o.channels)
                .map(|c| {
                    places
                        .iter()
                        .map(|at| bench.get(space, first + c, *at, o.size as u64))
                        .collect()
                })
                .collect()
        })
        .collect())
}

/// What the compared words of one opcode had between them.
#[derive(Default)]
struct Seen {
    compared: u32,
    shapes: BTreeSet<Vec<u16>>,
    steps: BTreeSet<Vec<i16>>,
    dtypes: BTreeSet<Vec<u64>>,
    partitions: BTreeSet<Vec<u32>>,
    reversed: u32,
}

impl Seen {
    fn note(&mut self, inst: &Inst) {
        let g = Geometry::of(inst.generation);
        let list = operands(inst);
        let nums = |o: &Operand| o.tensor.dims.iter().map(|d| d.1).collect::<Vec<_>>();
        let steps = |o: &Operand| o.tensor.dims.iter().map(|d| d.0).collect::<Vec<_>>();
        self.shapes.insert(list.iter().flat_map(nums).collect());
        self.steps.insert(list.iter().flat_map(steps).collect());
        self.reversed += u32::from(list.iter().flat_map(steps).any(|s| s < 0));
        let first = |o: &Operand| o.places(&g, o.in_psum(inst, &g)).1;
        self.partitions.insert(list.iter().map(first).collect());
        let fields = inst.layout().unwrap().payload();
        let types =
            fields.filter(|f| f.name.contains("dtype")).filter_map(|f| number(inst, f.name));
        self.dtypes.insert(types.collect());
    }
}

/// Tries one word in two layouts: whether both ran, or what differs.
fn compare(
    dice: &mut Dice,
    subject: &Subject,
    seed: u64,
    why: &mut String,
    seen: &mut Seen,
) -> Result<bool, String> {
    let engine = dice.pick(&subject.engines());
    let changes = dice.below(12);
    let word = subject.word(dice, engine, changes);
    let before = |one: &Inst| Before::words(subject.before(one, engine));
    let what = format!("seed {seed}: {}", subject.name());
    compare_word(dice, &what, &word, engine, before, why, seen)
}

fn compare_word(
    dice: &mut Dice,
    what: &str,
    word: &Inst,
    engine: Engine,
    before: impl Fn(&Inst) -> Before,
    why: &mut String,
    seen: &mut Seen,
) -> Result<bool, String> {
    // 0 keeps steps dense and in order, as some opcodes demand
    let gently = dice.below(3);
    let place = |dice: &mut Dice| {
        (0..12).find_map(|i| {
            let gently = if i < 6 { gently } else { 0 };
            moved(dice, word, gently).filter(|w| validate(w, engine, false).is_ok())
        })
    };
    let (Some(one), Some(two)) = (place(dice), place(dice)) else {
        *why = format!("no other layout of {word:?}");
        return Ok(false);
    };
    let before = before(&one);
    let input = content(dice, &one);
    let first = run(&one, engine, &before, &input);
    let second = run(&two, engine, &before, &input);
    match (first, second) {
        (Ok(a), Ok(b)) => {
            for (o, (a, b)) in operands(&one).iter().zip(a.iter().zip(&b)) {
                for (c, (a, b)) in a.iter().zip(b).enumerate() {
                    if let Some(k) = (0..a.len()).find(|&k| a[k] != b[k]) {
                        return Err(format!(
                            "{what} on {engine}: `{}` channel {c} element {k}: {:02x?}, {:02x?}\n{one:?}\n{two:?}",
                            o.field.name, a[k], b[k],
                        ));
                    }
                }
            }
            seen.note(&one);
            seen.note(&two);
            seen.compared += 1;
            Ok(true)
        }
        (Err(a), Err(_)) => {
            *why = a;
            Ok(false)
        }
        (a, b) => Err(format!(
            "{what} on {engine} runs in one layout only\n{one:?}\n{two:?}\n{:?}\n{:?}",
            a.err(),
            b.err()
        )),
    }
}

fn print(done: &BTreeMap<String, Seen>) {
    println!("opcode: words compared, shapes, steps, types, start partitions, with a reversal");
    for (name, s) in done {
        println!(
            "{name}: {}, {}, {}, {}, {}, {}",
            s.compared,
            s.shapes.len(),
            s.steps.len(),
            s.dtypes.len(),
            s.partitions.len(),
            s.reversed
        );
    }
}

fn sweep(tries: u64, base: u64, least: u32) {
    let all = executable();
    let mut done: BTreeMap<String, Seen> = BTreeMap::new();
    let (mut left, mut blind) = (BTreeSet::new(), BTreeSet::new());
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    let mut whys: BTreeMap<String, String> = BTreeMap::new();
    for (i, subject) in all.iter().enumerate() {
        if !subject.on_data_path()
            || NO_PATTERN.iter().any(|n| n.0 == subject.def.name || n.0 == subject.name())
        {
            left.insert(subject.name());
            continue;
        }
        let start = subject.start();
        if operands(&start).is_empty() || subject.def.name == "MATMUL_MX" {
            left.insert(subject.name());
            continue;
        }
        if shows_nothing(&start) {
            blind.insert(subject.name());
        }
        for t in 0..tries {
            let seed = ((base + i as u64) << 20) | t;
            let mut dice = Dice::new(seed);
            let seen = done.entry(subject.name()).or_default();
            let why = whys.entry(subject.name()).or_default();
            if let Err(why) = compare(&mut dice, subject, seed, why, seen) {
                failed.entry(subject.name()).or_insert(why);
            }
        }
    }
    print(&done);
    println!("without a tensor pattern or not on a data path: {left:?}");
    println!("no result in memory, only accepted in both layouts: {blind:?}");
    let text: Vec<&str> = failed.values().map(String::as_str).collect();
    assert!(failed.is_empty(), "{} opcodes:\n{}", failed.len(), text.join("\n\n"));
    let poor: Vec<_> = done
        .iter()
        .filter(|(_, s)| s.compared < least)
        .map(|(o, s)| (o, s.compared, &whys[o]))
        .collect();
    assert!(poor.is_empty(), "fewer than {least} comparisons: {poor:#?}");
}

#[test]
fn layouts_do_not_change_results() {
    sweep(8, 0, 2);
}

#[test]
#[ignore = "minutes; run by tools/nightly"]
fn layouts_do_not_change_results_long() {
    sweep(200, 1 << 40, 100);
}

/// Opcodes whose element count is fixed or that few types are legal for: least shapes and types.
const NARROW: [(&str, usize, usize); 12] = [
    ("DVE_READ_ACCUMULATOR", 1, 6),
    ("DVE_READ_INDICES", 1, 2),
    ("BATCH_NORM_AGGREGATE", 5, 3),
    ("BATCH_NORM_PARAM_LOAD", 1, 3),
    ("BATCH_NORM_PARAM_LOAD2", 1, 9),
    ("CROSS_LANE_REDUCE_BITVEC", 5, 3),
    ("MATCH_VALUE_LOAD", 1, 3),
    ("TENSOR_CUMULATIVE_BITVEC_OP", 5, 4),
    ("TENSOR_REDUCE_BITVEC_OP", 5, 4),
    ("TENSOR_SCALAR_IMM_LD_BITVEC", 5, 4),
    ("TENSOR_SCALAR_PTR_MULTI_BITVEC", 5, 4),
    ("TRANSPOSE_TENSOR_REDUCE_BITVEC_OP", 5, 4),
];

/// Opcodes that stay in their partitions here: of v5, or bound to the partitions of the cores.
const STAY: [&str; 3] = ["EXTENDED_INST", "TENSOR_SCALAR_INT_WIDE", "TENSOR_TENSOR_INT_WIDE"];

/// The words of the oracle's sweep, whose types and shapes are legal by construction, in two other
/// layouts each.
#[test]
fn words_of_the_oracle_in_other_layouts() {
    let mut files: Vec<_> =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/vector"))
            .unwrap()
            .map(|f| f.unwrap().path())
            .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("sweep_"))
            .collect();
    files.sort();
    let mut done: BTreeMap<String, Seen> = BTreeMap::new();
    let (mut failed, mut skipped) = (Vec::new(), BTreeMap::<String, (u32, String)>::new());
    let mut seed = 1 << 50;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        for case in &cases {
            let generation = word::generation(case["gen"].as_str().unwrap());
            let engine = if case["engine"] == "pool" { Engine::Pool } else { Engine::Dve };
            let list = case["insts"].as_array().unwrap();
            let insts: Vec<Inst> = list.iter().map(|v| word::build(generation, v)).collect();
            let rows = case["put"].as_array().unwrap().iter().map(|r| {
                let (p, byte) = (word::int(&r[0]) as u32, word::int(&r[1]));
                (word::space(r), p, byte, word::hex(&r[2]))
            });
            let rows: Vec<_> = rows.collect();
            let registers: Vec<_> = case["registers"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(r, v)| (r.parse().unwrap(), word::int(v) as u32))
                .collect();
            for (i, inst) in insts.iter().enumerate() {
                let name = inst.def().unwrap().name;
                if operands(inst).is_empty() {
                    continue;
                }
                seed += 1;
                let mut dice = Dice::new(seed);
                let before = |_: &Inst| Before {
                    rows: rows.clone(),
                    registers: registers.clone(),
                    words: insts[..i].to_vec(),
                };
                let mut why = String::new();
                let seen = done.entry(name.into()).or_default();
                let what = format!("{}: {name}", case["name"]);
                match compare_word(&mut dice, &what, inst, engine, before, &mut why, seen) {
                    Ok(true) => {}
                    Ok(false) => {
                        let entry = skipped.entry(name.into()).or_default();
                        *entry = (entry.0 + 1, why);
                    }
                    Err(e) => failed.push(e),
                }
            }
        }
    }
    print(&done);
    println!("not compared: {skipped:#?}");
    assert!(
        failed.is_empty(),
        "{} words:\n{}",
        failed.len(),
        failed[..failed.len().min(5)].join("\n\n")
    );
    let poor: Vec<String> = done
        .iter()
        .filter_map(|(name, s)| {
            let least = NARROW.iter().find(|n| n.0 == name).map_or((5, 5), |n| (n.1, n.2));
            let fine = s.compared >= 15
                && s.shapes.len() >= least.0
                && s.dtypes.len() >= least.1
                && (s.partitions.len() >= 2 || STAY.contains(&name.as_str()));
            (!fine)
                .then(|| format!("{name}: {}, {}, {}", s.compared, s.shapes.len(), s.dtypes.len()))
        })
        .collect();
    assert!(poor.is_empty(), "too little variety (words, shapes, types): {poor:#?}");
}

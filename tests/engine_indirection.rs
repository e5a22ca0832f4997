//! Operands behind offsets (v4 and later): the same instruction on data that the test itself picked
//! apart by the offsets gives the same bytes.

use proptest::prelude::*;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Addr4, Engine, Field, Generation, Inst, Pattern, TensorPattern, e, f, op};
use tpbemu::memory::Space;
use tpbemu::{ErrorClass, Result};

/// Elements that the data of a partition has.
const TABLE: usize = 256;
/// Bytes in a partition where things lie.
const DATA: u32 = 0;
const PICKED: u32 = 0x1000;
const PLAIN: u32 = 0x2000;
const SCATTERED: u32 = 0x3000;
const OFFSETS: u32 = 0x4000;
const TARGETS: u32 = 0x5000;

const GENERATIONS: [Generation; 3] = [Generation::V4, Generation::V4Plus, Generation::V5];

fn flat(at: u32, n: usize, dims: usize) -> Pattern {
    let mut d = vec![(1, n as u16)];
    d.resize(dims, (0, 1));
    Pattern::Tensor(TensorPattern::at(at, &d))
}

fn indirect(index: u32, data: u32, n: usize) -> Pattern {
    Pattern::Indirect { index: Addr4::IndirectImm(index), data: Addr4::Imm(data), num: n as u16 }
}

/// Writes the lists of `group` partitions each: offset i in partition i % group, column i / group.
fn put_lists(bench: &mut Bench, partition: u32, byte: u32, group: usize, lists: &[Vec<u16>]) {
    for (g, list) in lists.iter().enumerate() {
        for (i, offset) in list.iter().enumerate() {
            let p = partition + (g * group + i % group) as u32;
            let at = u64::from(byte) + 2 * (i / group) as u64;
            bench.put(Space::Sbuf, p, at, &offset.to_le_bytes());
        }
    }
}

fn element(bench: &mut Bench, space: Space, p: u32, byte: u32, size: usize, i: usize) -> Vec<u8> {
    bench.get(space, p, u64::from(byte) + (i * size) as u64, size as u64)
}

/// One case: offsets of each group, of the source and of the destination.
#[derive(Clone, Debug)]
struct Case {
    generation: Generation,
    channels: usize,
    n: usize,
    sources: Vec<Vec<u16>>,
    targets: Vec<Vec<u16>>,
    seed: u64,
}

fn case(group: usize, channels: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Case> {
    (0..GENERATIONS.len(), channels, 1usize..70, any::<u64>()).prop_flat_map(
        move |(g, channels, n, seed)| {
            let groups = channels.div_ceil(group);
            let source = prop::collection::vec(0..TABLE as u16, n);
            let target = Just((0..TABLE as u16).collect::<Vec<_>>()).prop_shuffle();
            let target = target.prop_map(move |all| all[..n].to_vec());
            (prop::collection::vec(source, groups), prop::collection::vec(target, groups)).prop_map(
                move |(sources, targets)| Case {
                    generation: GENERATIONS[g],
                    channels,
                    n,
                    sources,
                    targets,
                    seed,
                },
            )
        },
    )
}

/// Small numbers as elements of `size` bytes: BF16 or FP32.
fn value(seed: u64, p: usize, i: usize, size: usize) -> Vec<u8> {
    let mut x = seed ^ (p as u64) << 32 ^ i as u64;
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let bits = (((x >> 40) as i8) as f32 / 8.0).to_bits().to_le_bytes();
    bits[4 - size..].to_vec()
}

/// Runs `word` on plain operands and on ones behind offsets; `set` puts the patterns.
fn agree(
    engine: Engine,
    case: &Case,
    word: &Inst,
    [src, dst]: [Field; 2],
    dims: usize,
    [from, to]: [usize; 2],
) {
    let group = 16;
    let n = case.n;
    let mut bench = Bench::new(case.generation, engine);
    put_lists(&mut bench, 0, OFFSETS, group, &case.sources);
    put_lists(&mut bench, 0, TARGETS, group, &case.targets);
    for p in 0..case.channels {
        for i in 0..TABLE {
            let at = u64::from(DATA) + (i * from) as u64;
            bench.put(Space::Sbuf, p as u32, at, &value(case.seed, p, i, from));
            let at = u64::from(SCATTERED) + (i * to) as u64;
            bench.put(Space::Sbuf, p as u32, at, &vec![0xA5; to]);
        }
        for (i, &offset) in case.sources[p / group].iter().enumerate() {
            let at = u64::from(PICKED) + (i * from) as u64;
            bench.put(Space::Sbuf, p as u32, at, &value(case.seed, p, offset.into(), from));
        }
    }
    let mut plain = *word;
    plain.set_pattern(src, &flat(PICKED, n, dims)).unwrap();
    plain.set_pattern(dst, &flat(PLAIN, n, dims)).unwrap();
    bench.run(&plain).unwrap();

    let mut behind = *word;
    behind.set_pattern(src, &indirect(OFFSETS, DATA, n)).unwrap();
    behind.set_pattern(dst, &indirect(TARGETS, SCATTERED, n)).unwrap();
    tpbemu::isa::validate(&behind, engine, false).unwrap();
    bench.run(&behind).unwrap();
    for p in 0..case.channels {
        let mut want = vec![0xA5; TABLE * to];
        for (i, &target) in case.targets[p / group].iter().enumerate() {
            let at = usize::from(target) * to;
            let result = element(&mut bench, Space::Sbuf, p as u32, PLAIN, to, i);
            want[at..at + to].copy_from_slice(&result);
        }
        let got = bench.get(Space::Sbuf, p as u32, SCATTERED.into(), (TABLE * to) as u64);
        assert_eq!(got, want, "partition {p}");
    }
}

fn tensor_scalar(case: &Case, opcode: u8) -> Inst {
    use f::s3d3_ts as l;
    let mut inst = Inst::empty(case.generation, opcode);
    inst.set(l::IN_DTYPE, 6);
    inst.set(l::OUT_DTYPE, 10);
    inst.set(l::NUM_ACTIVE_CHANNELS, case.channels as u64);
    let ops = if opcode == op::EXPONENTIAL { (0, 0) } else { (4, 6) };
    inst.set(l::OP0, ops.0);
    inst.set(l::OP1, ops.1);
    inst.set(l::IMM0, 1.5f32.to_bits().into());
    let second = if opcode == op::EXPONENTIAL { 0.0f32 } else { 0.25 };
    inst.set(l::IMM1, second.to_bits().into());
    inst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn copies_and_casts(case in case(16, 1..=128), cast in any::<bool>()) {
        use f::s4d4_tr as l;
        let mut inst = Inst::empty(case.generation, if cast { op::CAST } else { op::COPY });
        inst.set(l::IN_DTYPE, 6);
        inst.set(l::OUT_DTYPE, if cast { 10 } else { 6 });
        inst.set(l::NUM_ACTIVE_CHANNELS, case.channels as u64);
        let sizes = [2, if cast { 4 } else { 2 }];
        agree(Engine::Dve, &case, &inst, [l::SRC, l::DST], 4, sizes);
    }

    #[test]
    fn scalar_operations(case in case(16, 1..=128), exponential in any::<bool>()) {
        use f::s3d3_ts as l;
        let opcode = if exponential { op::EXPONENTIAL } else { op::TENSOR_SCALAR_ARITH_OP };
        let inst = tensor_scalar(&case, opcode);
        agree(Engine::Dve, &case, &inst, [l::SRC, l::DST], 3, [2, 4]);
    }

    #[test]
    fn activations(case in case(16, 1..=128)) {
        use f::s2d2_ac as l;
        let mut inst = Inst::empty(case.generation, op::ACTIVATE2);
        inst.set(l::IN_DTYPE, 6);
        inst.set(l::OUT_DTYPE, 10);
        inst.set(l::IMM_DTYPE, 10);
        inst.set(l::NUM_ACTIVE_CHANNELS, case.channels as u64);
        inst.set(l::ACTIVATION_FUNC, 1);
        let engine = if case.generation == Generation::V5 { Engine::Dve } else { Engine::Act };
        agree(engine, &case, &inst, [l::SRC, l::DST], 2, [2, 4]);
    }

    #[test]
    fn matmuls(case in case(32, 32..=128), columns in 1usize..=32) {
        matmul_agrees(&case, columns);
    }
}

fn load(generation: Generation, rows: usize, columns: usize, src: &Pattern) -> Inst {
    use f::s3_lw as l;
    let mut inst = Inst::empty(generation, op::LDWEIGHTS);
    inst.set(l::IN_DTYPE, 6);
    inst.set(l::NUM_ACTIVE_ROWS, rows as u64);
    inst.set(l::NUM_ACTIVE_COLS, columns as u64);
    inst.set(l::ROW_GRP, 0xF);
    inst.set(l::COL_GRP, 0xF);
    if generation == Generation::V5 {
        inst.set(l::TILE_SIZE, 0x77);
    }
    inst.set_pattern(l::SRC, src).unwrap();
    inst
}

fn multiply(
    generation: Generation,
    rows: usize,
    columns: usize,
    src: &Pattern,
    dst: &Pattern,
) -> Inst {
    use f::s3d3_mm as m;
    let mut inst = Inst::empty(generation, op::MATMUL);
    inst.set(m::IN_DTYPE, 6);
    inst.set(m::NUM_ACTIVE_ROWS, rows as u64);
    inst.set(m::NUM_ACTIVE_COLS, columns as u64);
    inst.set(m::ROW_GRP, 0xF);
    inst.set(m::COL_GRP, 0xF);
    if generation == Generation::V5 {
        inst.set(m::TILE_SIZE, 0x77);
    } else {
        inst.set(m::PSUM_ACCUMULATE_FLAGS, u64::from(e::psum_acc_flags::SINGLE));
    }
    inst.set_pattern(m::SRC, src).unwrap();
    inst.set_pattern(m::DST, dst).unwrap();
    inst
}

/// Weights, moving operand and results behind offsets, in groups of 32 partitions.
fn matmul_agrees(case: &Case, columns: usize) {
    let (g, rows, n) = (case.generation, case.channels / 32 * 32, case.n);
    let psum = 0x200_0000;
    let mut bench = Bench::new(g, Engine::Pe);
    put_lists(&mut bench, 0, OFFSETS, 32, &case.sources);
    put_lists(&mut bench, 0, TARGETS, 32, &case.targets);
    // the columns of the weights are chosen by the first offsets of each list
    let weights: Vec<Vec<u16>> =
        case.sources.iter().map(|list| (0..columns).map(|c| list[c % n] ^ 1).collect()).collect();
    put_lists(&mut bench, 0, 0x6000, 32, &weights);
    for p in 0..rows {
        for i in 0..TABLE {
            bench.put(Space::Sbuf, p as u32, 2 * i as u64, &value(case.seed, p, i, 2));
        }
        for (i, &offset) in case.sources[p / 32].iter().enumerate() {
            let at = u64::from(PICKED) + 2 * i as u64;
            bench.put(Space::Sbuf, p as u32, at, &value(case.seed, p, offset.into(), 2));
        }
        for (c, &offset) in weights[p / 32].iter().enumerate() {
            let at = u64::from(PLAIN) + 2 * c as u64;
            bench.put(Space::Sbuf, p as u32, at, &value(case.seed, p, offset.into(), 2));
        }
    }
    bench.run(&load(g, rows, columns, &flat(PLAIN, columns, 3))).unwrap();
    bench.run(&multiply(g, rows, columns, &flat(PICKED, n, 3), &flat(psum, n, 3))).unwrap();
    let plain: Vec<Vec<f32>> =
        (0..columns).map(|c| bench.get_f32(Space::Psum, c as u32, 0, n)).collect();

    let word = load(g, rows, columns, &indirect(0x6000, DATA, columns));
    tpbemu::isa::validate(&word, Engine::Pe, false).unwrap();
    bench.run(&word).unwrap();
    for c in 0..columns {
        bench.put_f32(Space::Psum, c as u32, 4096, &[-1.0; TABLE]);
    }
    let dst = indirect(TARGETS, psum + 4096, n);
    let word = multiply(g, rows, columns, &indirect(OFFSETS, DATA, n), &dst);
    tpbemu::isa::validate(&word, Engine::Pe, false).unwrap();
    bench.run(&word).unwrap();
    for (c, plain) in plain.iter().enumerate() {
        let mut want = vec![-1.0; TABLE];
        for (i, &target) in case.targets[c / 32].iter().enumerate() {
            want[usize::from(target)] = plain[i];
        }
        assert_eq!(bench.get_f32(Space::Psum, c as u32, 4096, TABLE), want, "column {c}");
    }
}

/// Words of block formats and their scales share a list.
#[test]
fn block_formats() {
    use f::{smx1_lw as l, smx1d3_mm as m};
    let (rows, columns, n) = (128u32, 16usize, 20usize);
    let psum = 0x200_0000;
    for g in [Generation::V4, Generation::V4Plus] {
        let mut bench = Bench::new(g, Engine::Pe);
        let lists = |salt: u16, n: usize| -> Vec<Vec<u16>> {
            (0..4).map(|q| (0..n as u16).map(|i| (i * 37 + q * 11 + salt) % 64).collect()).collect()
        };
        let (weights, moving) = (lists(3, columns), lists(9, n));
        put_lists(&mut bench, 0, OFFSETS, 32, &weights);
        put_lists(&mut bench, 0, TARGETS, 32, &moving);
        let word = |p: u32, i: u32| [1u32, 7, 13, 29].map(|k| ((p * k + i * 5 + k) % 0x70) as u8);
        let scale = |p: u32, i: u32| [(120 + (p / 8 + i) % 8) as u8];
        // scales of eight rows lie in the first four partitions of their quadrant
        let scale_row = |p: u32| p / 32 * 32 + p % 32 / 8;
        for p in 0..rows {
            let quadrant = (p / 32) as usize;
            for i in 0..64 {
                bench.put(Space::Sbuf, p, 4 * u64::from(i), &word(p, i));
                bench.put(Space::Sbuf, scale_row(p), 0x800 + u64::from(i), &scale(p, i));
            }
            for (list, base) in [(&weights, 0x1000u64), (&moving, 0x2000)] {
                for (i, &o) in list[quadrant].iter().enumerate() {
                    let o = u32::from(o);
                    bench.put(Space::Sbuf, p, base + 4 * i as u64, &word(p, o));
                    let at = base + 0x800 + i as u64;
                    bench.put(Space::Sbuf, scale_row(p), at, &scale(p, o));
                }
            }
        }
        let plain = |at: u32, n: usize| Pattern::MxTensor {
            data: Addr4::Imm(at),
            scale: Addr4::Imm(at + 0x800),
            num: 4 * n as u16,
            step: 1,
            scale_partition: 0,
        };
        let behind = |index: u32, n: usize| Pattern::MxIndirect {
            index: Addr4::IndirectImm(index),
            data: Addr4::Imm(0),
            scale: Addr4::Imm(0x800),
            num: 4 * n as u16,
            scale_base_partition: 0,
        };
        let mut results = Vec::new();
        for (w, x) in [
            (plain(0x1000, columns), plain(0x2000, n)),
            (behind(OFFSETS, columns), behind(TARGETS, n)),
        ] {
            let mut load = Inst::empty(g, op::LDWEIGHTS_MX);
            load.set(l::IN_DTYPE, 0xE);
            load.set(l::NUM_ACTIVE_ROWS, rows.into());
            load.set(l::NUM_ACTIVE_COLS, columns as u64);
            load.set(l::ROW_GRP, 0xF);
            load.set(l::COL_GRP, 0xF);
            load.set_pattern(l::SRC, &w).unwrap();
            tpbemu::isa::validate(&load, Engine::Pe, false).unwrap();
            bench.run(&load).unwrap();
            let mut multiply = Inst::empty(g, op::MATMUL_MX);
            multiply.set(m::IN_DTYPE, 0xE);
            multiply.set(m::OUT_DTYPE, 10);
            multiply.set(m::NUM_ACTIVE_ROWS, rows.into());
            multiply.set(m::NUM_ACTIVE_COLS, columns as u64);
            multiply.set(m::ROW_GRP, 0xF);
            multiply.set(m::COL_GRP, 0xF);
            multiply.set(m::PSUM_ACCUMULATE_FLAGS, u64::from(e::psum_acc_flags::SINGLE));
            multiply.set_pattern(m::SRC, &x).unwrap();
            multiply.set_pattern(m::DST, &flat(psum, n, 3)).unwrap();
            tpbemu::isa::validate(&multiply, Engine::Pe, false).unwrap();
            bench.run(&multiply).unwrap();
            let out: Vec<Vec<f32>> =
                (0..columns as u32).map(|c| bench.get_f32(Space::Psum, c, 0, n)).collect();
            results.push(out);
        }
        assert!(results[0].iter().flatten().any(|&x| x != 0.0));
        assert_eq!(results[0], results[1], "{g}");
    }
}

/// A copy on DVE whose operands `patterns` changes.
fn copy(patterns: impl Fn(&mut Inst), prepare: impl Fn(&mut Bench)) -> Result<()> {
    use f::s4d4_tr as l;
    let mut bench = Bench::new(Generation::V4, Engine::Dve);
    prepare(&mut bench);
    let mut inst = Inst::empty(Generation::V4, op::COPY);
    inst.set(l::IN_DTYPE, 6);
    inst.set(l::OUT_DTYPE, 6);
    inst.set(l::NUM_ACTIVE_CHANNELS, 16);
    inst.set_pattern(l::SRC, &indirect(OFFSETS, DATA, 4)).unwrap();
    inst.set_pattern(l::DST, &flat(PLAIN, 4, 4)).unwrap();
    patterns(&mut inst);
    bench.run(&inst).map(|_| ())
}

#[test]
fn what_is_refused() {
    use f::s4d4_tr as l;
    let stride = tpbemu::machine::MachineConfig::builtin(Generation::V4).geometry.sbuf_stride;
    let rule = |patterns: &dyn Fn(&mut Inst)| copy(patterns, |_| {}).unwrap_err().rule.unwrap();
    copy(|_| {}, |_| {}).unwrap();
    // an offset beyond the partition
    let far = |i: &mut Inst| i.set_pattern(l::SRC, &indirect(OFFSETS, 0x30000, 4)).unwrap();
    let far = copy(far, |b| b.put(Space::Sbuf, 2, OFFSETS.into(), &[0xFF, 0xFF])).unwrap_err();
    assert_eq!(
        (far.class, far.rule.as_deref()),
        (ErrorClass::UndefinedBehaviour, Some("indirect_offset"))
    );
    // lists start at a quadrant, at an even byte, beside the data of a source
    let at = |index: u32, data: u32| {
        move |i: &mut Inst| i.set_pattern(l::SRC, &indirect(index, data, 4)).unwrap()
    };
    assert_eq!(rule(&at(OFFSETS + 16 * stride, DATA + 16 * stride)), "tensor_indirection");
    assert_eq!(rule(&at(OFFSETS + 1, DATA)), "addr_aligned_dtype");
    assert_eq!(rule(&at(OFFSETS + 32 * stride, DATA)), "tensor_indirection");
    assert_eq!(rule(&at(OFFSETS, DATA + 1)), "addr_aligned_dtype");
    assert_eq!(rule(&at(0x200_0000, DATA)), "tensor_indirection");
    // of a destination, beside the source
    let to = |i: &mut Inst| {
        i.set_pattern(l::DST, &indirect(TARGETS + 32 * stride, SCATTERED, 4)).unwrap();
    };
    assert_eq!(rule(&to), "tensor_indirection");
    // an instruction that no source names
    let mut inst = Inst::empty(Generation::V4, op::RECIPROCAL);
    inst.set(l::IN_DTYPE, 6);
    inst.set(l::OUT_DTYPE, 6);
    inst.set(l::NUM_ACTIVE_CHANNELS, 16);
    inst.set_pattern(l::SRC, &indirect(OFFSETS, DATA, 4)).unwrap();
    inst.set_pattern(l::DST, &flat(PLAIN, 4, 4)).unwrap();
    let error = Bench::new(Generation::V4, Engine::Dve).run(&inst).unwrap_err();
    assert_eq!(error.class, ErrorClass::MissingSpecification);
    assert!(error.message.contains("RECIPROCAL"), "{error}");
}

/// PE: no transpose, no tile of the array, no FP32; ACT: no scatter into PSUM.
#[test]
fn what_engines_refuse() {
    let g = Generation::V4;
    let mut pe = Bench::new(g, Engine::Pe);
    let mut inst = load(g, 32, 8, &indirect(OFFSETS, DATA, 8));
    pe.run(&inst).unwrap();
    inst.set(f::s3_lw::IN_DTYPE, 10);
    inst.set(f::s3_lw::FP32_MODE, 1);
    assert_eq!(pe.run(&inst).unwrap_err().rule.as_deref(), Some("tensor_indirection"));
    let mut act = Bench::new(g, Engine::Act);
    use f::s2d2_ac as l;
    let mut inst = Inst::empty(g, op::ACTIVATE2);
    inst.set(l::IN_DTYPE, 6);
    inst.set(l::OUT_DTYPE, 10);
    inst.set(l::IMM_DTYPE, 10);
    inst.set(l::NUM_ACTIVE_CHANNELS, 16);
    inst.set(l::ACTIVATION_FUNC, 1);
    inst.set_pattern(l::SRC, &flat(DATA, 4, 2)).unwrap();
    inst.set_pattern(l::DST, &indirect(TARGETS, 0x200_0000, 4)).unwrap();
    assert_eq!(act.run(&inst).unwrap_err().rule.as_deref(), Some("tensor_indirection"));
}

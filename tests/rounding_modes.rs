//! The program's rounding mode and FP8 settings hold where results are stored by other ways than
//! the elementwise ones: DMA arithmetic, SPARSITY_COMPRESS, EMBEDDING_UPDATE, the extended copy.

mod words;

use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, op};
use tpbemu::memory::Space;

/// An instruction, what lies in memory before it, and where 64 results of `size` bytes lie after it.
struct Case {
    name: &'static str,
    engine: Engine,
    word: Inst,
    before: fn(&mut Bench, f32),
    results: fn(&mut Bench, usize) -> Vec<u32>,
    /// Bytes of a BF16 or FP8 result.
    sizes: [(&'static str, usize); 2],
}

fn codes(bytes: &[u8], size: usize, step: usize) -> Vec<u32> {
    let code = |c: &[u8]| c[..size].iter().rev().fold(0, |v, b| v << 8 | u32::from(*b));
    bytes.chunks_exact(step).map(code).collect()
}

/// Elements of a row as the type of the case stores them: BF16 where `wide`, else FP8_EXP5.
fn stored(value: f32, wide: bool) -> Vec<u8> {
    let bits = value.to_bits();
    match wide {
        true => (bits >> 16).to_le_bytes()[..2].to_vec(),
        // a power of two, or the largest finite number
        false if value >= 57344.0 => vec![0x7B],
        false => vec![(((bits >> 23) as i32 - 127 + 15) << 2) as u8],
    }
}

fn assigned(generation: Generation, opcode: u8, spec: u8, text: &str) -> Inst {
    let mut inst = words::base(generation, opcode, spec);
    words::assign(&mut inst, text);
    inst
}

const HBM: &str = "src_start_addr=0x1000001000 dst_start_addr=0x1000004000 compute_op=ADD \
    src_num_elem=2:1,1 dst_num_elem=2:1,1";

/// FP32 in all SBUF rows.
fn rows(bench: &mut Bench, value: f32) {
    for p in 0..128 {
        bench.put_f32(Space::Sbuf, p, 0, &[value; 64]);
    }
}

/// 1 and the number that brings it to `value`, in HBM.
fn sum(bench: &mut Bench, value: f32, wide: bool, at: [(Space, u64); 2]) {
    let first = if value > 2.0 { value } else { 1.0 };
    let second = if value > 2.0 { value } else { value - 1.0 };
    for ((space, at), x) in at.into_iter().zip([first, second]) {
        bench.put(space, 0, at, &stored(x, wide).repeat(64));
    }
}

fn run(case: &Case, which: usize, value: f32, stochastic: bool, saturate: bool) -> Vec<u32> {
    let g = case.word.generation;
    let mut bench = Bench::new(g, case.engine);
    bench.config.numerics.stochastic_rounding = stochastic;
    bench.config.numerics.fp8.saturate = saturate;
    (case.before)(&mut bench, value);
    let mut word = case.word;
    words::assign(&mut word, case.sizes[which].0);
    bench.run(&word).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    (case.results)(&mut bench, case.sizes[which].1)
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "extended copy",
            engine: Engine::Pool,
            word: assigned(Generation::V3, op::EXTENDED_INST, 1, "src=@0:1*64 dst=@0x1000:1*64"),
            before: rows,
            results: |b, n| codes(&b.get(Space::Sbuf, 5, 0x1000, (64 * n) as u64), n, n),
            sizes: [("out_dtype=BFLOAT16", 2), ("out_dtype=FP8_EXP5", 1)],
        },
        Case {
            name: "sparsity compress",
            engine: Engine::Dve,
            word: assigned(Generation::V4, op::SPARSITY_COMPRESS, 0, "src=@0:1*8,8*4"),
            before: rows,
            // four of each group are kept; the data is in the low half of a pair
            results: |b, n| {
                let pairs = |p| codes(&b.get(Space::Sbuf, p, 0x1000, (32 * n) as u64), n, 2 * n);
                (0..8).flat_map(pairs).collect()
            },
            sizes: [
                ("out_data_dtype=BFLOAT16 out_struct_dtype=UINT32 dst=@0x1000:1*16", 2),
                ("out_data_dtype=FP8_EXP5 out_struct_dtype=UINT16 dst=@0x1000:1*16", 1),
            ],
        },
        Case {
            name: "DMA arithmetic in BF16",
            engine: Engine::Pool,
            word: assigned(Generation::V3, op::DMAMEMCPY, 0, HBM),
            before: |b, v| sum(b, v, true, [(Space::Hbm, 0x1000), (Space::Hbm, 0x4000)]),
            results: |b, n| codes(&b.get(Space::Hbm, 0, 0x4000, (64 * n) as u64), n, n),
            sizes: [
                ("in_dtype=BFLOAT16 out_dtype=BFLOAT16 src_elem_size=128 dst_elem_size=128", 2),
                ("", 0),
            ],
        },
        Case {
            name: "DMA arithmetic in FP8",
            engine: Engine::Pool,
            word: assigned(Generation::V3, op::DMAMEMCPY, 0, HBM),
            before: |b, v| sum(b, v, false, [(Space::Hbm, 0x1000), (Space::Hbm, 0x4000)]),
            results: |b, n| codes(&b.get(Space::Hbm, 0, 0x4000, (64 * n) as u64), n, n),
            sizes: [
                ("", 0),
                ("in_dtype=FP8_EXP5 out_dtype=FP8_EXP5 src_elem_size=64 dst_elem_size=64", 1),
            ],
        },
        Case {
            name: "embedding update in BF16",
            engine: Engine::Pool,
            word: embedding(6, 2),
            before: |b, v| sum(b, v, true, [(Space::Hbm, 0), (Space::Sbuf, 0x1000)]),
            results: |b, n| codes(&b.get(Space::Hbm, 0, 0, (32 * n) as u64), n, n),
            sizes: [("", 2), ("", 0)],
        },
        Case {
            name: "embedding update in FP8",
            engine: Engine::Pool,
            word: embedding(15, 1),
            before: |b, v| sum(b, v, false, [(Space::Hbm, 0), (Space::Sbuf, 0x1000)]),
            results: |b, n| codes(&b.get(Space::Hbm, 0, 0, (32 * n) as u64), n, n),
            sizes: [("", 0), ("", 1)],
        },
    ]
}

/// One row of 32 elements of `dtype` is added to entry 0 of the table at the start of HBM.
fn embedding(dtype: u8, size: u8) -> Inst {
    let mut inst = words::base(Generation::V3, op::EMBEDDING_UPDATE, 0);
    let run = words::lines("run").find_map(|(_, l)| l.strip_prefix("EMBEDDING_UPDATE "));
    words::assign(&mut inst, run.unwrap());
    use tpbemu::isa::f::pseudo_embedding_update as l;
    // the raw opcode has no struct: the fields of the host form
    let mut host = Inst::new(Generation::V3, inst.bytes);
    host.bytes[0] = op::PSEUDO_EMBEDDING_UPDATE;
    host.set(l::EMBED_DATA_DTYPE, dtype.into());
    host.set(l::SEQUENCE_LENGTH, 1);
    host.set(l::ENTRY_NUM_ELEMENTS, 32);
    host.set(l::ENTRY_STRIDE_BYTES, 32 * u64::from(size));
    let at = l::EMBED_DATA_IN.at(host.form()).unwrap();
    host.bytes[at + 8..at + 12].copy_from_slice(&[32, 0, 1, 0]);
    inst.bytes[1..].copy_from_slice(&host.bytes[1..]);
    inst
}

/// A quarter of the way from 1 to the next number: nearest gives 1, stochastic sometimes the next.
#[test]
fn results_round_as_the_program_says() {
    for case in cases() {
        for (which, ulp) in [(0, 2f32.powi(-7)), (1, 2f32.powi(-2))] {
            let one = if which == 0 { 0x3F80 } else { 0x3C };
            let (_, size) = case.sizes[which];
            if size == 0 {
                continue;
            }
            let value = 1.0 + ulp / 4.0;
            let nearest = run(&case, which, value, false, true);
            assert!(nearest.iter().all(|c| *c == one), "{} {which}: {nearest:x?}", case.name);
            let random = run(&case, which, value, true, true);
            let up = random.iter().filter(|c| **c == one + 1).count();
            let down = random.iter().filter(|c| **c == one).count();
            assert_eq!(up + down, random.len(), "{} {which}: {random:x?}", case.name);
            let share = up as f64 / random.len() as f64;
            assert!((0.02..0.6).contains(&share), "{} {which}: {share}", case.name);
        }
    }
}

/// Beyond the largest FP8_EXP5 number: that number, or infinity where the program says so.
#[test]
fn fp8_overflows_as_the_program_says() {
    for case in cases().iter().filter(|c| c.sizes[1].1 != 0) {
        let saturated = run(case, 1, 65536.0 * 4.0, false, true);
        assert!(saturated.iter().all(|c| *c == 0x7B), "{}: {saturated:x?}", case.name);
        let infinite = run(case, 1, 65536.0 * 4.0, false, false);
        assert!(infinite.iter().all(|c| *c == 0x7C), "{}: {infinite:x?}", case.name);
    }
}

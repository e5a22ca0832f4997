//! The matrix engine against vectors of `tools/oracle/pe.py`, the vendor pages' own vectors, and a
//! naive reference on random shapes.

#[allow(dead_code)]
mod peact_support;

use proptest::prelude::*;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, TensorPattern, f, op};
use tpbemu::memory::Space;

#[test]
fn oracle_vectors() {
    peact_support::run_all(include_str!("golden/pe/vectors.json"), Engine::Pe);
}

/// Drawn generations, tiles, shapes, dtypes and modes (`tools/oracle/pe_more.py`).
#[test]
fn drawn_vectors() {
    let text = include_str!("golden/pe/drawn.json");
    peact_support::run_all(text, Engine::Pe);
    // the words are legal ones
    let cases: Vec<peact_support::Case> = serde_json::from_str(text).unwrap();
    let (mut words, mut wrong) = (0, Vec::new());
    for case in cases.iter().filter(|c| c.error.is_none()) {
        let generation: Generation = case.generation.parse().unwrap();
        for inst in &case.insts {
            let word = inst.encode(generation);
            if let Err(e) = tpbemu::isa::validate(&word, Engine::Pe, true) {
                wrong.push(format!("{}: {e}", case.name));
            }
            words += 1;
        }
    }
    println!("{words} legal words");
    assert!(wrong.is_empty(), "{} illegal words:\n{}", wrong.len(), wrong.join("\n"));
}

/// The vectors of the pages about group masks, flags and zero regions that an instruction can show.
#[test]
fn page_vectors() {
    let text = include_str!("golden/golden_act_pe_dtype.json");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    let (mut run, mut listed) = (0, 0);
    for v in &vectors {
        let name = v["op"].as_str().unwrap_or_default();
        match name {
            "matmul.col_grp" => {
                let hex = v["inputs"]["col_grp"].as_str().unwrap();
                let mask = u64::from_str_radix(&hex[2..], 16).unwrap();
                let partition = v["expect"]["psum_partition"].as_u64().unwrap() as u32;
                let most = v["expect"]["max_active_cols"].as_u64().unwrap();
                let try_cols = |cols: u64| {
                    let mut bench = Bench::new(Generation::V3, Engine::Pe);
                    bench.run(&load(Generation::V3, 6, 1, cols, mask)).and_then(|_| {
                        bench.run(&multiply(Generation::V3, 6, 1, cols, 1, mask, partition, 3))
                    })
                };
                assert!(try_cols(most).is_ok(), "{hex}");
                assert!(try_cols(most + 1).is_err(), "{hex}");
                run += 1;
            }
            "psum.flags_mode" => {
                // 3.0 in PSUM, product 2.0: the starting modes replace, the others add.
                for (mode, value) in v["expect"].as_object().unwrap() {
                    let mut bench = Bench::new(Generation::V3, Engine::Pe);
                    bench.put(Space::Sbuf, 0, 0, &[0x80, 0x3F]);
                    bench.put(Space::Sbuf, 0, 512, &[0x00, 0x40]);
                    bench.put_f32(Space::Psum, 0, 0, &[3.0]);
                    bench.run(&load(Generation::V3, 6, 1, 1, 0xF)).unwrap();
                    let flags = value.as_u64().unwrap();
                    bench.run(&multiply(Generation::V3, 6, 1, 1, 1, 0xF, 0, flags)).unwrap();
                    let starts = mode.contains("START") || mode == "SINGLE";
                    let want = if starts { 2.0 } else { 5.0 };
                    assert_eq!(bench.get_f32(Space::Psum, 0, 0, 1), [want], "{mode}");
                }
                run += 1;
            }
            "psum.zero_region_banks" => {
                // A write to a marked bank replaces, to any other it adds.
                let v4 = v["inputs"]["gen"] == "MARIANA+";
                let generation = if v4 { Generation::V4 } else { Generation::V3 };
                for (code, banks) in v["expect"].as_object().unwrap() {
                    let mut bench = Bench::new(generation, Engine::Pe);
                    bench.put(Space::Sbuf, 0, 0, &[0x80, 0x3F]);
                    bench.put(Space::Sbuf, 0, 512, &[0x00, 0x40]);
                    bench.run(&load(generation, 6, 1, 1, 0xF)).unwrap();
                    let mut start = multiply(generation, 6, 1, 1, 1, 0xF, 0, 1);
                    start.set(f::s3d3_mm::PSUM_ZERO_REGION, code.parse().unwrap());
                    bench.run(&start).unwrap();
                    let mut replaced = 0;
                    for bank in 0..8u32 {
                        bench.put_f32(Space::Psum, 0, u64::from(bank) * 2048, &[3.0]);
                        let mut end = multiply(generation, 6, 1, 1, 1, 0xF, 0, 2);
                        let at =
                            TensorPattern::at(0x200_0000 + bank * 2048, &[(1, 1), (0, 1), (0, 1)]);
                        end.set_tensor(f::s3d3_mm::DST, &at).unwrap();
                        bench.run(&end).unwrap();
                        let got = bench.get_f32(Space::Psum, 0, u64::from(bank) * 2048, 1);
                        // Bank 0 was written by the start itself, so there the end adds.
                        replaced += u64::from(got == [2.0] || bank == 0 && got == [5.0]);
                    }
                    assert_eq!(replaced, banks.as_u64().unwrap(), "{code}");
                }
                run += 1;
            }
            // Layouts and rules of the encoding, covered by the tests of the instruction tables.
            _ if ["peseed", "ldtags", "tonga", "mx."].iter().any(|p| name.starts_with(p)) => {
                listed += 1;
            }
            _ => {}
        }
    }
    println!("{run} run, {listed} listed as not executable");
    assert_eq!(run, 10);
}

fn load(generation: Generation, dtype: u64, rows: u64, cols: u64, col_grp: u64) -> Inst {
    use f::s3_lw as l;
    let mut inst = Inst::empty(generation, op::LDWEIGHTS);
    inst.set(l::IN_DTYPE, dtype);
    inst.set(l::NUM_ACTIVE_ROWS, rows);
    inst.set(l::NUM_ACTIVE_COLS, cols);
    inst.set(l::ROW_GRP, 0xF);
    inst.set(l::COL_GRP, col_grp);
    inst.set_tensor(l::SRC, &TensorPattern::at(0, &[(1, cols as u16), (0, 1), (0, 1)])).unwrap();
    inst
}

#[allow(clippy::too_many_arguments)]
fn multiply(
    generation: Generation,
    dtype: u64,
    rows: u64,
    cols: u64,
    n: u16,
    col_grp: u64,
    partition: u32,
    flags: u64,
) -> Inst {
    use f::s3d3_mm as m;
    let mut inst = Inst::empty(generation, op::MATMUL);
    inst.set(m::IN_DTYPE, dtype);
    inst.set(m::NUM_ACTIVE_ROWS, rows);
    inst.set(m::NUM_ACTIVE_COLS, cols);
    inst.set(m::ROW_GRP, 0xF);
    inst.set(m::COL_GRP, col_grp);
    inst.set(m::PSUM_ACCUMULATE_FLAGS, flags);
    let flat = [(1, n), (0, 1), (0, 1)];
    inst.set_tensor(m::SRC, &TensorPattern::at(512, &flat)).unwrap();
    let dst = 0x200_0000 + partition * 0x8000;
    inst.set_tensor(m::DST, &TensorPattern::at(dst, &flat)).unwrap();
    inst
}

fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any bf16 bit pattern, any shape: the sum over ascending rows, one rounding each step.
    #[test]
    fn random_products(
        rows in 1u64..=128,
        cols in 1u64..=128,
        n in 1u16..=70,
        wild in any::<bool>(),
        seed in any::<u32>(),
        accumulate in any::<bool>(),
    ) {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            // Tame values have exact products, wild ones underflow, overflow and are NaN.
            if wild { state as u16 } else { (state as u16 & 0x87FF) | 0x3C00 }
        };
        let w: Vec<Vec<u16>> =
            (0..rows).map(|_| (0..cols).map(|_| next()).collect()).collect();
        let x: Vec<Vec<u16>> = (0..rows).map(|_| (0..n).map(|_| next()).collect()).collect();
        let mut bench = Bench::new(Generation::V3, Engine::Pe);
        let bytes = |row: &[u16]| row.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        for k in 0..rows as usize {
            bench.put(Space::Sbuf, k as u32, 0, &bytes(&w[k]));
            bench.put(Space::Sbuf, k as u32, 512, &bytes(&x[k]));
        }
        for c in 0..cols as u32 {
            bench.put_f32(Space::Psum, c, 0, &vec![1.5; usize::from(n)]);
        }
        bench.run(&load(Generation::V3, 6, rows, cols, 0xF)).unwrap();
        let flags = if accumulate { 2 } else { 3 };
        bench.run(&multiply(Generation::V3, 6, rows, cols, n, 0xF, 0, flags)).unwrap();
        for c in 0..cols as usize {
            let got = bench.get_f32(Space::Psum, c as u32, 0, usize::from(n));
            for j in 0..usize::from(n) {
                let mut sum = 0f32;
                for k in 0..rows as usize {
                    // The default load order puts the first element into the last column.
                    sum += bf16(w[k][cols as usize - 1 - c]) * bf16(x[k][j]);
                }
                let want = if accumulate { 1.5 + sum } else { sum };
                let want = if want.is_nan() { 0x7FC0_0000 } else { want.to_bits() };
                prop_assert_eq!(got[j].to_bits(), want, "column {} of {}, {}", c, cols, j);
            }
        }
    }

    /// No word makes it panic.
    #[test]
    fn any_bytes(bytes in prop::array::uniform32(any::<u8>()), tail in prop::array::uniform32(any::<u8>())) {
        for (generation, opcode) in
            Generation::ALL.into_iter().flat_map(|g| (1..=10u8).map(move |o| (g, o)))
        {
            let mut word = [0; 64];
            word[..32].copy_from_slice(&bytes);
            word[32..].copy_from_slice(&tail);
            word[0] = opcode;
            let bench = Bench::new(generation, Engine::Pe);
            let _ = bench.prepare(&Inst::new(generation, word));
        }
    }
}

/// DoubleColumn and DoublePixel change the rate, not the operands or the sums; PE_REG_WRITE changes
/// no result and keeps its payload.
#[test]
fn double_column_and_double_pixel_give_the_plain_sums() {
    use tpbemu::isa::e::perf_opt_mode::{DOUBLE_COLUMN, DOUBLE_PIXEL, NONE};
    let fp8 = 14; // E4M3
    let mut results = Vec::new();
    for mode in [NONE, DOUBLE_COLUMN, DOUBLE_PIXEL] {
        let mut bench = Bench::new(Generation::V3, Engine::Pe);
        for k in 0..4u32 {
            let codes: Vec<u8> = (0..8).map(|i| 0x30 + (k as u8 * 5 + i) % 16).collect();
            bench.put(Space::Sbuf, k, 0, &codes);
            bench.put(Space::Sbuf, k, 512, &codes.iter().rev().copied().collect::<Vec<_>>());
        }
        let mut weights = load(Generation::V3, fp8, 4, 8, 0xF);
        weights.set(f::s3_lw::PERF_OPT, mode.into());
        let mut product = multiply(Generation::V3, fp8, 4, 8, 8, 0xF, 0, 3);
        product.set(f::s3d3_mm::PERF_OPT, mode.into());
        let mut write = Inst::empty(Generation::V3, op::PE_REG_WRITE);
        write.bytes[12] = 0xA5;
        for inst in [&weights, &write, &product] {
            bench.run(inst).unwrap();
        }
        assert_eq!(bench.state.pe.register_write().unwrap()[0], 0xA5);
        let out: Vec<f32> = (0..8).flat_map(|c| bench.get_f32(Space::Psum, c, 0, 8)).collect();
        assert!(out.iter().any(|x| *x != 0.0));
        results.push(out);
        // 16-bit operands have no such mode
        let mut wide = load(Generation::V3, 6, 4, 8, 0xF);
        wide.set(f::s3_lw::PERF_OPT, mode.into());
        assert_eq!(bench.run(&wide).is_ok(), mode == NONE, "{mode}");
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

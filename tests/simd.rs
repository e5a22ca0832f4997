//! The versions of the loops for different instruction sets of the host give the same bits.
//!
//! The version is chosen once in a process, so each is run in a process of its own. A host without
//! AVX2 or AVX-512 compares the portable version with itself.

use std::hash::Hasher;
use std::process::Command;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHasher;
use tpbemu::numeric::simd::Level;
use tpbemu::numeric::{ActFunc, AluOp, Dtype, Rounding, activation, alu, load_f32, store_f32};

/// `TPBEMU_SIMD` for each version.
const VERSIONS: [&str; 3] = ["off", "v3", "v4"];

const DTYPES: [Dtype; 17] = [
    Dtype::Fp32,
    Dtype::Fp32r,
    Dtype::Bf16,
    Dtype::Fp16,
    Dtype::Fp8E3,
    Dtype::Fp8E4,
    Dtype::Fp8E4Fn,
    Dtype::Fp8E5,
    Dtype::Fp8E2,
    Dtype::Int8,
    Dtype::Uint8,
    Dtype::Int16,
    Dtype::Uint16,
    Dtype::Int32,
    Dtype::Uint32,
    Dtype::Int64,
    Dtype::Uint64,
];

/// Numbers of every kind: any bits, and ordinary magnitudes.
fn numbers(random: &mut Pcg64Mcg, count: usize) -> Vec<f32> {
    let mut one = || {
        let bits = random.next_u32();
        match bits % 4 {
            0 => f32::from_bits(random.next_u32()),
            1 => (random.next_u32() as i32) as f32 / 1e6,
            2 => (random.next_u32() % 512) as f32 - 256.0,
            _ => [0.0, -0.0, f32::NAN, f32::INFINITY, 1e-42, -1.5][(bits >> 8) as usize % 6],
        }
    };
    (0..count).map(|_| one()).collect()
}

fn digest(name: &str, bits: impl IntoIterator<Item = u64>) {
    let mut hash = FxHasher::default();
    bits.into_iter().for_each(|x| hash.write_u64(x));
    println!("digest {name} {:016x}", hash.finish());
}

fn bits(values: &[f32]) -> impl Iterator<Item = u64> {
    values.iter().map(|x| u64::from(x.to_bits()))
}

/// Not a test of its own: prints what [`loops_agree`] compares.
#[test]
#[ignore = "run by loops_agree, once for each version"]
fn print_digests() {
    println!("digest level {:?}", Level::detect());
    let mut random = Pcg64Mcg::seed_from_u64(7);
    // Odd lengths leave a rest behind whole vectors.
    for count in [1, 7, 509] {
        let a = numbers(&mut random, count);
        let b = numbers(&mut random, count);
        let ints: Vec<i64> = (0..count).map(|_| random.next_u64() as i64).collect();
        let others: Vec<i64> = (0..count).map(|_| random.next_u64() as i64 >> 40).collect();
        let mut out = vec![0.0; count];
        let mut words = vec![0; count];
        for op in AluOp::all() {
            if alu::apply_f32_tt(op, &a, &b, &mut out).is_ok() {
                digest(&format!("{op} {count}"), bits(&out));
                for reverse in [false, true] {
                    alu::apply_f32_ts(op, &a, 1.5, reverse, &mut out).unwrap();
                    digest(&format!("{op} scalar {reverse} {count}"), bits(&out));
                    let mut own = a.clone();
                    alu::apply_f32_assign(op, &mut own, &b, reverse).unwrap();
                    digest(&format!("{op} assign {reverse} {count}"), bits(&own));
                }
            }
            for dtype in [Dtype::Int8, Dtype::Uint16, Dtype::Int32, Dtype::Int64] {
                if alu::apply_i64_tt(op, &ints, &others, dtype, &mut words).is_ok() {
                    digest(&format!("{op} {dtype} {count}"), words.iter().map(|&x| x as u64));
                }
            }
        }
        for dtype in DTYPES {
            let mut bytes = vec![0; count * dtype.size()];
            store_f32(dtype, &a, &mut bytes, Rounding::NearestEven).unwrap();
            digest(&format!("to {dtype} {count}"), bytes.iter().map(|&x| x.into()));
            random.fill_bytes(&mut bytes);
            load_f32(dtype, &bytes, &mut out).unwrap();
            digest(&format!("from {dtype} {count}"), bits(&out));
        }
        for function in ActFunc::ALL {
            let mut values = a.clone();
            function.evaluate_in_place(&mut values, 0.25);
            digest(&format!("{function:?} {count}"), bits(&values));
        }
        let mut values = a.clone();
        activation::affine_in_place(&mut values, 1.1, -0.3);
        digest(&format!("affine {count}"), bits(&values));
    }
}

fn lines(version: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["print_digests", "--exact", "--ignored", "--nocapture"])
        .env("TPBEMU_SIMD", version)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // The harness may put its own words before the first line.
    text.lines().filter_map(|l| l.find("digest ").map(|at| l[at..].to_owned())).collect()
}

#[test]
fn loops_agree() {
    let all = VERSIONS.map(lines);
    assert_eq!(all[0][0], "digest level Scalar", "the switch has no effect");
    assert!(all[0].len() > 500, "{} digests", all[0].len());
    for other in &all[1..] {
        println!("compared: {}", other[0]);
        assert_eq!(all[0][1..], other[1..]);
    }
}

/// Whole programs: the digests of trace and memory.
#[test]
fn programs_agree() {
    for program in ["matmul", "mlp", "attention", "mamba"] {
        let results = VERSIONS.map(|version| {
            let output = Command::new(env!("CARGO_BIN_EXE_tpbemu"))
                .args(["run", &format!("programs/{program}"), "--summary", "json"])
                .env("TPBEMU_SIMD", version)
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{program}: {text}");
            let found: Vec<String> =
                text.lines().filter(|l| l.contains("_digest")).map(str::to_owned).collect();
            assert_eq!(found.len(), 2, "{program}: {text}");
            found
        });
        assert_eq!(results[0], results[1], "{program}");
        assert_eq!(results[0], results[2], "{program}");
    }
}

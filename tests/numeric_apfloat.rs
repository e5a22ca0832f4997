//! Conversions and FP32 arithmetic against rustc_apfloat, which computes with integers only.

use rustc_apfloat::ieee::{BFloat, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use tpbemu::numeric::Dtype;
use tpbemu::numeric::alu::{AluOp, apply_f32};
use tpbemu::numeric::convert::{Fp8Config, Rounding, load_bits, store_f32_config};
use tpbemu::numeric::rng::Pcg32;

/// Numbers at which roundings and limits change, and their neighbours.
fn specials() -> Vec<u32> {
    let mut bits = Vec::new();
    for exponent in 0..=255u32 {
        for mantissa in [0, 1, 0x3F_FFFF, 0x40_0000, 0x40_0001, 0x60_0000, 0x70_0000, 0x7F_FFFF] {
            bits.push(exponent << 23 | mantissa);
        }
    }
    // Ties of each width of mantissa, in every binade.
    for exponent in (0..=255u32).step_by(3) {
        for width in [2, 3, 4, 5, 7, 10, 13] {
            for odd in [0, 1] {
                let tie = odd << (23 - width) | 1 << (22 - width);
                bits.extend([tie - 1, tie, tie + 1].map(|m| exponent << 23 | m));
            }
        }
    }
    let negative: Vec<u32> = bits.iter().map(|b| b | 1 << 31).collect();
    bits.extend(negative);
    bits
}

fn operands(count: usize) -> Vec<u32> {
    let mut random = Pcg32 { state: 0x1234_5678 };
    let mut bits = specials();
    bits.extend((0..count).map(|_| random.next_u32()));
    bits
}

fn stored(dtype: Dtype, values: &[u32]) -> Vec<u64> {
    let source: Vec<f32> = values.iter().map(|&b| f32::from_bits(b)).collect();
    let mut bytes = vec![0; source.len() * dtype.size()];
    store_f32_config(dtype, &source, &mut bytes, Rounding::NearestEven, &Fp8Config::RAW).unwrap();
    let mut bits = vec![0; source.len()];
    load_bits(dtype, &bytes, &mut bits).unwrap();
    bits
}

fn check_float<T: Float>(dtype: Dtype, values: &[u32])
where
    Single: FloatConvert<T>,
{
    for (&bits, got) in values.iter().zip(stored(dtype, values)) {
        let want: T = Single::from_bits(bits.into()).convert(&mut false).value;
        let got = T::from_bits(got.into());
        // Which NaN is written is a rule of the hardware, not of IEEE arithmetic.
        let same = want.is_nan() && got.is_nan() || want.bitwise_eq(got);
        assert!(same, "{bits:#010x} to {dtype}: {got}, not {want}");
    }
}

#[test]
fn narrow_floats() {
    let values = operands(200_000);
    check_float::<Half>(Dtype::Fp16, &values);
    check_float::<BFloat>(Dtype::Bf16, &values);
    check_float::<Float8E5M2>(Dtype::Fp8E5, &values);
    check_float::<Float8E4M3FN>(Dtype::Fp8E4Fn, &values);
    println!("4 formats, {} numbers each", values.len());
}

#[test]
fn integers() {
    let mut values = operands(50_000);
    // Halves and their neighbours around the limits of the small integers.
    for n in [-32769i32, -32768, -129, -128, -2, -1, 0, 1, 2, 127, 128, 255, 32767, 65535] {
        let x = (n as f32) + 0.5;
        values.extend([x.to_bits() - 1, x.to_bits(), x.to_bits() + 1]);
    }
    for dtype in [
        Dtype::Int8,
        Dtype::Uint8,
        Dtype::Int16,
        Dtype::Uint16,
        Dtype::Int32,
        Dtype::Uint32,
        Dtype::Int64,
        Dtype::Uint64,
    ] {
        let width = dtype.bits() as usize;
        for (&bits, got) in values.iter().zip(stored(dtype, &values)) {
            let value = Single::from_bits(bits.into());
            if value.is_nan() {
                continue;
            }
            let want = if dtype.is_signed() {
                value.to_i128_r(width, Round::NearestTiesToEven, &mut false).value as u64
            } else {
                value.to_u128_r(width, Round::NearestTiesToEven, &mut false).value as u64
            };
            let want = want & (u64::MAX >> (64 - width));
            assert_eq!(got, want, "{value} to {dtype}");
        }
    }
    println!("8 integer dtypes, {} numbers each", values.len());
}

#[test]
fn single_precision_operations() {
    let special = specials();
    let mut random = Pcg32 { state: 99 };
    let mut pairs: Vec<(u32, u32)> =
        (0..200_000).map(|_| (random.next_u32(), random.next_u32())).collect();
    for i in 0..100_000u32 {
        let pick = |n: u32| special[n as usize % special.len()];
        pairs.push((pick(i.wrapping_mul(7919)), pick(i.wrapping_mul(104_729))));
    }
    for &(a, b) in &pairs {
        let (x, y) = (Single::from_bits(a.into()), Single::from_bits(b.into()));
        for (op, want) in [
            (AluOp::Add, (x + y).value),
            (AluOp::Subtract, (x - y).value),
            (AluOp::Mult, (x * y).value),
            (AluOp::Divide, (x / y).value),
            (AluOp::Square, (x * x).value),
        ] {
            let got = apply_f32(op, f32::from_bits(a), f32::from_bits(b)).unwrap().to_bits();
            let want = if want.is_nan() { 0x7FC0_0000 } else { want.to_bits() as u32 };
            assert_eq!(got, want, "{a:#x} {op} {b:#x}");
        }
        for (op, want) in [
            (AluOp::IsEq, x == y),
            (AluOp::IsNe, x != y),
            (AluOp::IsLt, x < y),
            (AluOp::IsLe, x <= y),
            (AluOp::IsGt, x > y),
            (AluOp::IsGe, x >= y),
        ] {
            let got = apply_f32(op, f32::from_bits(a), f32::from_bits(b)).unwrap();
            assert_eq!(got, f32::from(u8::from(want)), "{a:#x} {op} {b:#x}");
        }
    }
    println!("11 operations on {} pairs", pairs.len());
}

//! Conversions against rustc_apfloat and against integer arithmetic: 32- and 64-bit sources with
//! edges and millions of random patterns, and every code of every narrower source. (The results of
//! numpy and ml_dtypes are in `numeric_oracle.rs`.)

mod exact_numbers;

use exact_numbers::{Value, convert, decode, hub};
use rustc_apfloat::ieee::{BFloat, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use tpbemu::numeric::Dtype;
use tpbemu::numeric::convert::{Fp8Config, Rounding, convert_config, load_bits, store_bits};
use tpbemu::numeric::rng::Pcg32;

const INTEGERS: [Dtype; 8] = [
    Dtype::Int8,
    Dtype::Uint8,
    Dtype::Int16,
    Dtype::Uint16,
    Dtype::Int32,
    Dtype::Uint32,
    Dtype::Int64,
    Dtype::Uint64,
];

/// Every destination that a source gives a rounding for: all types but the codec streams and the
/// scales.
const DESTINATIONS: [Dtype; 19] = [
    Dtype::Int4,
    Dtype::Int8,
    Dtype::Uint8,
    Dtype::Int16,
    Dtype::Uint16,
    Dtype::Int32,
    Dtype::Uint32,
    Dtype::Int64,
    Dtype::Uint64,
    Dtype::Fp4E2,
    Dtype::Fp8E2,
    Dtype::Fp8E3,
    Dtype::Fp8E4,
    Dtype::Fp8E4Fn,
    Dtype::Fp8E5,
    Dtype::Fp16,
    Dtype::Bf16,
    Dtype::Fp32r,
    Dtype::Fp32,
];

/// Sources of at most 16 bits, with the scale formats.
const NARROW: [Dtype; 17] = [
    Dtype::Int4,
    Dtype::Int8,
    Dtype::Uint8,
    Dtype::Int16,
    Dtype::Uint16,
    Dtype::Fp4E2,
    Dtype::Fp8E2,
    Dtype::Fp8E3,
    Dtype::Fp8E4,
    Dtype::Fp8E4Fn,
    Dtype::Fp8E5,
    Dtype::Sfp8E8,
    Dtype::Sfp8E7,
    Dtype::Sfp8E6,
    Dtype::Sfp8E5,
    Dtype::Fp16,
    Dtype::Bf16,
];

/// Powers of two with their neighbours and ties, then random words of all magnitudes.
fn words(bits: u32, count: usize, seed: u64) -> Vec<u64> {
    let mut random = Pcg32 { state: seed };
    let mut out: Vec<u64> = (0..bits)
        .flat_map(|b| {
            let p = 1u64 << b;
            let tie = p | p >> 8 | p >> 9 | p >> 11 | p >> 12 | p >> 24 | p >> 25;
            [p - 1, p, p + 1, tie, tie.wrapping_add(1), !p, !tie]
        })
        .collect();
    let mut word = || u64::from(random.next_u32()) << 32 | u64::from(random.next_u32());
    out.extend((0..count as u64).map(|i| word() >> (64 - bits) >> (i % 4 * u64::from(bits / 6))));
    out.iter_mut().for_each(|v| *v &= u64::MAX >> (64 - bits));
    out
}

fn converted(from: Dtype, to: Dtype, values: &[u64], saturate: bool) -> Vec<u64> {
    let mut src = vec![0; from.packed_len(values.len())];
    store_bits(from, values, &mut src).unwrap();
    let mut dst = vec![0; to.packed_len(values.len())];
    let fp8 = Fp8Config { saturate, ..Fp8Config::RAW };
    convert_config(from, to, &src, &mut dst, Rounding::NearestEven, &fp8).unwrap();
    let mut bits = vec![0; values.len()];
    load_bits(to, &dst, &mut bits).unwrap();
    bits
}

fn float<T: Float>(from: Dtype, to: Dtype, values: &[u64], single: impl Fn(u64) -> Single)
where
    Single: FloatConvert<T>,
{
    for (&v, got) in values.iter().zip(converted(from, to, values, false)) {
        let want: T = single(v).convert(&mut false).value;
        let got = T::from_bits(got.into());
        let same = want.is_nan() && got.is_nan() || want.bitwise_eq(got);
        assert!(same, "{from} {v:#x} to {to}: {got}, not {want}");
    }
}

fn integer(from: Dtype, to: Dtype, values: &[u64], single: impl Fn(u64) -> Single) {
    let width = to.bits() as usize;
    for (&v, got) in values.iter().zip(converted(from, to, values, false)) {
        let x = single(v);
        if x.is_nan() {
            continue;
        }
        let want = if to.is_signed() {
            x.to_i128_r(width, Round::NearestTiesToEven, &mut false).value as u64
        } else {
            x.to_u128_r(width, Round::NearestTiesToEven, &mut false).value as u64
        };
        let want = want & (u64::MAX >> (64 - width));
        assert_eq!(got, want, "{from} {v:#x} to {to}");
    }
}

/// Every destination against integer arithmetic, with and without saturation of FP8.
fn exact(from: Dtype, values: &[u64]) -> usize {
    let hubs: Vec<_> = values.iter().map(|v| hub(decode(from, *v))).collect();
    let mut compared = 0;
    for to in DESTINATIONS.into_iter().filter(|to| *to != from) {
        for saturate in [false, true] {
            for ((&v, value), got) in
                values.iter().zip(&hubs).zip(converted(from, to, values, saturate))
            {
                let Some(want) = convert(*value, to, saturate) else {
                    // integers and FP4 have no NaN to become
                    let fits = to.is_int() || to == Dtype::Fp4E2 || decode(to, got) == Value::Nan;
                    assert!(fits, "{from} {v:#x} to {to}: {got:#x} is a number");
                    continue;
                };
                assert_eq!(got, want, "{from} {v:#x} to {to}, saturating: {saturate}");
                compared += 1;
            }
        }
    }
    compared
}

/// All 32- and 64-bit sources, against both references.
fn everything(count: usize, seed: u64) -> usize {
    type Number = fn(u64) -> Single;
    let sources: [(Dtype, Number); 6] = [
        (Dtype::Fp32, |v| Single::from_bits(v.into())),
        (Dtype::Fp32r, |v| Single::from_bits(v.into())),
        (Dtype::Int32, |v| Single::from_i128((v as i32).into()).value),
        (Dtype::Uint32, |v| Single::from_u128((v as u32).into()).value),
        (Dtype::Int64, |v| Single::from_i128((v as i64).into()).value),
        (Dtype::Uint64, |v| Single::from_u128(v.into()).value),
    ];
    let mut compared = 0;
    for (from, single) in sources {
        let mut values = words(from.bits(), count, seed);
        if from == Dtype::Fp32r {
            // the container holds 13 bits of mantissa
            values.iter_mut().for_each(|v| *v &= !0x3FF);
        }
        float::<Half>(from, Dtype::Fp16, &values, single);
        float::<BFloat>(from, Dtype::Bf16, &values, single);
        float::<Float8E5M2>(from, Dtype::Fp8E5, &values, single);
        float::<Float8E4M3FN>(from, Dtype::Fp8E4Fn, &values, single);
        if from != Dtype::Fp32 {
            float::<Single>(from, Dtype::Fp32, &values, single);
        }
        for to in INTEGERS.into_iter().filter(|to| *to != from) {
            integer(from, to, &values, single);
        }
        compared += exact(from, &values);
    }
    compared
}

#[test]
fn wide_sources() {
    println!("6 sources, 19 destinations: {} results", everything(20_000, 7));
}

#[test]
#[ignore = "minutes; run by tools/nightly"]
fn wide_sources_millions() {
    println!("6 sources, 19 destinations: {} results", everything(4_000_000, 8));
}

/// Every code of every source of at most 16 bits, to every destination.
#[test]
fn narrow_sources() {
    let mut compared = 0;
    for from in NARROW {
        let all: Vec<u64> = (0..1u64 << from.bits()).collect();
        compared += exact(from, &all);
    }
    println!("17 sources, 19 destinations, every code: {compared} results");
    assert!(compared > 8_000_000);
}

/// What no source describes is an error, not a number.
#[test]
fn nothing_rounds_to_a_scale() {
    for to in [Dtype::Sfp8E8, Dtype::Sfp8E7, Dtype::Sfp8E6, Dtype::Sfp8E5] {
        let mut dst = [0];
        let fp8 = Fp8Config::RAW;
        let src = 1f32.to_le_bytes();
        let error = convert_config(Dtype::Fp32, to, &src, &mut dst, Rounding::NearestEven, &fp8);
        assert_eq!(error.unwrap_err().class, tpbemu::ErrorClass::MissingSpecification, "{to}");
    }
}

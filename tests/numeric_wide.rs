//! Conversions of 32-bit inputs against rustc_apfloat: integers as sources, and millions of random
//! FP32 bit patterns (the exhaustive tests of 8- and 16-bit inputs are in `numeric_oracle.rs`).

use rustc_apfloat::ieee::{BFloat, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use tpbemu::numeric::Dtype;
use tpbemu::numeric::convert::{Fp8Config, Rounding, convert_config, load_bits};
use tpbemu::numeric::rng::Pcg32;

const INTEGERS: [Dtype; 6] =
    [Dtype::Int8, Dtype::Uint8, Dtype::Int16, Dtype::Uint16, Dtype::Int32, Dtype::Uint32];

/// Powers of two with their neighbours and ties, then random words.
fn words(count: usize, seed: u64) -> Vec<u32> {
    let mut random = Pcg32 { state: seed };
    let mut out: Vec<u32> = (0..32)
        .flat_map(|b| {
            let p = 1u32 << b;
            let tie = p | p >> 8 | p >> 9 | p >> 11 | p >> 12 | p >> 24 | p >> 25;
            [p - 1, p, p + 1, tie, tie.wrapping_add(1), !p, !tie]
        })
        .collect();
    out.extend((0..count).map(|i| random.next_u32() >> (i % 4 * 5)));
    out
}

fn converted(from: Dtype, to: Dtype, values: &[u32]) -> Vec<u64> {
    let src: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut dst = vec![0; values.len() * to.size()];
    convert_config(from, to, &src, &mut dst, Rounding::NearestEven, &Fp8Config::RAW).unwrap();
    let mut bits = vec![0; values.len()];
    load_bits(to, &dst, &mut bits).unwrap();
    bits
}

fn float<T: Float>(from: Dtype, to: Dtype, values: &[u32], single: impl Fn(u32) -> Single)
where
    Single: FloatConvert<T>,
{
    for (&v, got) in values.iter().zip(converted(from, to, values)) {
        let want: T = single(v).convert(&mut false).value;
        let got = T::from_bits(got.into());
        let same = want.is_nan() && got.is_nan() || want.bitwise_eq(got);
        assert!(same, "{from} {v:#010x} to {to}: {got}, not {want}");
    }
}

fn integer(from: Dtype, to: Dtype, values: &[u32], single: impl Fn(u32) -> Single) {
    let width = to.bits() as usize;
    for (&v, got) in values.iter().zip(converted(from, to, values)) {
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
        assert_eq!(got, want, "{from} {v:#010x} to {to}");
    }
}

fn everything(count: usize, seed: u64) -> usize {
    let values = words(count, seed);
    type Value = fn(u32) -> Single;
    let sources: [(Dtype, Value); 3] = [
        (Dtype::Fp32, |v| Single::from_bits(v.into())),
        (Dtype::Int32, |v| Single::from_i128((v as i32).into()).value),
        (Dtype::Uint32, |v| Single::from_u128(v.into()).value),
    ];
    for (from, single) in sources {
        float::<Half>(from, Dtype::Fp16, &values, single);
        float::<BFloat>(from, Dtype::Bf16, &values, single);
        float::<Float8E5M2>(from, Dtype::Fp8E5, &values, single);
        float::<Float8E4M3FN>(from, Dtype::Fp8E4Fn, &values, single);
        float::<Single>(from, Dtype::Fp32, &values, single);
        for to in INTEGERS.into_iter().filter(|to| *to != from) {
            integer(from, to, &values, single);
        }
    }
    values.len()
}

#[test]
fn wide_sources() {
    println!("3 sources, 5 float and 6 integer results, {} numbers", everything(20_000, 7));
}

#[test]
#[ignore = "a minute; run by tools/nightly"]
fn wide_sources_millions() {
    println!("3 sources, 5 float and 6 integer results, {} numbers", everything(4_000_000, 8));
}

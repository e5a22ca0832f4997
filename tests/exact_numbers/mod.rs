//! Conversions in integer arithmetic, from the layouts of the formats alone: every number is
//! `m * 2^e` with an integer `m`, and rounding to nearest even is a shift of `m`.

use tpbemu::numeric::Dtype;

/// Exponent and mantissa bits, and what stands at the top of a format's codes.
#[derive(Clone, Copy)]
struct Layout {
    exp: u32,
    man: u32,
    top: Top,
}

#[derive(Clone, Copy, PartialEq)]
enum Top {
    /// Infinity and NaN as in IEEE 754.
    Ieee,
    /// One NaN, all ones.
    Nan,
    /// Numbers.
    Finite,
}

fn layout(dtype: Dtype) -> Option<Layout> {
    let of = |exp, man, top| Some(Layout { exp, man, top });
    match dtype {
        Dtype::Fp8E2 => of(2, 5, Top::Nan),
        Dtype::Fp8E3 => of(3, 4, Top::Ieee),
        Dtype::Fp8E4 => of(4, 3, Top::Ieee),
        Dtype::Fp8E4Fn => of(4, 3, Top::Nan),
        Dtype::Fp8E5 => of(5, 2, Top::Ieee),
        Dtype::Fp4E2 => of(2, 1, Top::Finite),
        Dtype::Fp16 => of(5, 10, Top::Ieee),
        Dtype::Bf16 => of(8, 7, Top::Ieee),
        Dtype::Fp32 | Dtype::Fp32r => of(8, 23, Top::Ieee),
        _ => None,
    }
}

/// A value: sign and `m * 2^e`, an infinity, or NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Finite { negative: bool, m: u128, e: i32 },
    Infinite { negative: bool },
    Nan,
}

/// The value of the code `bits`.
pub fn decode(dtype: Dtype, bits: u64) -> Value {
    let width = dtype.bits();
    if dtype.is_int() {
        let low = u128::from(bits) & ((1 << width) - 1);
        let negative = dtype.is_signed() && low >> (width - 1) == 1;
        let m = if negative { (1 << width) - low } else { low };
        return Value::Finite { negative, m, e: 0 };
    }
    if let Some(man) = match dtype {
        Dtype::Sfp8E8 => Some(0),
        Dtype::Sfp8E7 => Some(1),
        Dtype::Sfp8E6 => Some(2),
        Dtype::Sfp8E5 => Some(3),
        _ => None,
    } {
        let bias = (1 << (7 - man)) - 1;
        let m = 1 << man | u128::from(bits) & ((1 << man) - 1);
        let e = (bits >> man) as i32 - bias;
        // the vendor's simulator has no NaN among the scales, and FP32 no 2^128
        return match e {
            128 => Value::Infinite { negative: false },
            _ => Value::Finite { negative: false, m, e: e - man },
        };
    }
    let Layout { exp, man, top } = layout(dtype).unwrap();
    let negative = bits >> (exp + man) & 1 == 1;
    let field = (bits >> man & ((1 << exp) - 1)) as i32;
    let m = u128::from(bits) & ((1 << man) - 1);
    let ones = (1 << exp) - 1;
    let bias = (1 << (exp - 1)) - 1;
    match (field == ones, top) {
        (true, Top::Ieee) if m == 0 => Value::Infinite { negative },
        (true, Top::Ieee) => Value::Nan,
        (true, Top::Nan) if m == (1 << man) - 1 => Value::Nan,
        _ if field == 0 => Value::Finite { negative, m, e: 1 - bias - man as i32 },
        _ => Value::Finite { negative, m: m | 1 << man, e: field - bias - man as i32 },
    }
}

/// `m * 2^e` as a multiple of `2^to`, ties to even.
fn shifted(m: u128, e: i32, to: i32) -> u128 {
    let drop = to - e;
    if drop <= 0 {
        return m << -drop;
    }
    if drop > 127 {
        return 0;
    }
    let (kept, rest, half) = (m >> drop, m & ((1 << drop) - 1), 1 << (drop - 1));
    kept + u128::from(rest > half || rest == half && kept & 1 == 1)
}

/// The code of `value` in a floating-point format of `man` mantissa bits.
fn encode(value: Value, Layout { exp, man, top }: Layout, saturate: bool) -> Option<u64> {
    let code = |negative: bool, magnitude: u64| u64::from(negative) << (exp + man) | magnitude;
    let all = (1u64 << (exp + man)) - 1;
    let largest = match top {
        Top::Ieee => (((1 << exp) - 1) << man) - 1,
        Top::Nan => all - 1,
        Top::Finite => all,
    };
    // what follows the largest number is infinity, or NaN
    let beyond = match top {
        _ if saturate => Some(largest),
        Top::Ieee => Some(largest + 1),
        Top::Nan => None,
        Top::Finite => Some(largest),
    };
    let (negative, m, e) = match value {
        Value::Nan => return None,
        Value::Infinite { negative } => return beyond.map(|b| code(negative, b)),
        Value::Finite { negative, m: 0, .. } => return Some(code(negative, 0)),
        Value::Finite { negative, m, e } => (negative, m, e),
    };
    let bias = (1 << (exp - 1)) - 1;
    let top_bit = 127 - m.leading_zeros() as i32 + e;
    let unit = top_bit.max(1 - bias) - man as i32;
    let kept = shifted(m, e, unit) as u64;
    // a carry of the mantissa goes into the exponent
    let magnitude = (((unit + man as i32 + bias) as u64) << man) + kept - (1 << man);
    let result = if magnitude > largest { beyond } else { Some(magnitude) };
    result.map(|r| code(negative, r))
}

/// The number a conversion passes through: FP32, to nearest even.
pub fn hub(value: Value) -> Value {
    match encode(value, layout(Dtype::Fp32).unwrap(), false) {
        Some(bits) => decode(Dtype::Fp32, bits),
        None => Value::Nan,
    }
}

/// The code of the FP32 number `value` in `dtype`; `None` for NaN.
pub fn convert(value: Value, dtype: Dtype, saturate: bool) -> Option<u64> {
    if dtype.is_int() {
        let width = dtype.bits();
        let (low, high) = match dtype.is_signed() {
            true => (1u128 << (width - 1), (1u128 << (width - 1)) - 1),
            false => (0, (1u128 << width) - 1),
        };
        let (negative, m) = match value {
            Value::Nan => return None,
            Value::Infinite { negative } => (negative, u128::MAX),
            Value::Finite { negative, m, e } if e < 64 => (negative, shifted(m, e, 0)),
            Value::Finite { negative, m, .. } => (negative, if m == 0 { 0 } else { u128::MAX }),
        };
        let magnitude = m.min(if negative { low } else { high });
        let all = ((1u128 << width) - 1) as u64;
        return Some(
            if negative { magnitude.wrapping_neg() as u64 } else { magnitude as u64 } & all,
        );
    }
    if dtype == Dtype::Fp32r {
        // the container of FP32 with 13 bits of mantissa
        let layout = Layout { exp: 8, man: 13, top: Top::Ieee };
        return encode(value, layout, false).map(|code| code << 10);
    }
    let saturate = saturate && dtype.bits() <= 8;
    encode(value, layout(dtype).unwrap(), saturate)
}

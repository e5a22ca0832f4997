//! Integer-only IEEE 754 arithmetic for the two native formats, fp16 and fp32.
//!
//! Denormals are full, nothing is flushed. Values travel as bit patterns in `u32`; flags are those of
//! [`fcr`]. Every function takes the rounding mode explicitly. (wiki: isa/core/fp-sub-isa,
//! validation/fp-soft-float)

use crate::q7::regs::fcr;

/// Field widths of a format.
pub trait Format: Copy {
    /// Exponent bits.
    const E: u32;
    /// Mantissa bits.
    const M: u32;
    /// Exponent bias.
    const BIAS: i32 = (1 << (Self::E - 1)) - 1;
    /// Exponent field of infinities and NaNs.
    const EMAX: u32 = (1 << Self::E) - 1;
    /// Mask of the sign bit.
    const SIGN: u32 = 1 << (Self::E + Self::M);
    /// Positive infinity.
    const INF: u32 = Self::EMAX << Self::M;
    /// Mask of the mantissa.
    const MANT: u32 = (1 << Self::M) - 1;
    /// The quiet bit of a NaN.
    const QUIET: u32 = 1 << (Self::M - 1);
    /// The default quiet NaN.
    const QNAN: u32 = Self::INF | Self::QUIET;
    /// All bits of the format.
    const MASK: u32 = Self::SIGN | Self::INF | Self::MANT;
}

/// IEEE binary16.
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// IEEE binary32.
#[derive(Clone, Copy, Debug)]
pub struct F32;

impl Format for F16 {
    const E: u32 = 5;
    const M: u32 = 10;
}

impl Format for F32 {
    const E: u32 = 8;
    const M: u32 = 23;
}

/// Rounding mode: nearest, ties to even.
pub const RNE: u32 = 0;
/// Rounding mode: toward zero.
pub const RZ: u32 = 1;
/// Rounding mode: toward plus infinity.
pub const RU: u32 = 2;
/// Rounding mode: toward minus infinity.
pub const RD: u32 = 3;
/// Rounding mode of FIROUND only: nearest, ties away from zero.
pub const RNA: u32 = 4;

/// A result and the flags it raises.
pub type Flagged = (u32, u32);

/// Whether `x` is a NaN.
#[inline(always)]
pub fn is_nan<F: Format>(x: u32) -> bool {
    x & !F::SIGN & F::MASK > F::INF
}

/// Whether `x` is a signalling NaN.
#[inline(always)]
pub fn is_snan<F: Format>(x: u32) -> bool {
    is_nan::<F>(x) && x & F::QUIET == 0
}

/// INVALID if `x` is a signalling NaN.
#[inline(always)]
pub fn snan_flag<F: Format>(x: u32) -> u32 {
    if is_snan::<F>(x) { fcr::INVALID } else { 0 }
}

/// A finite number as sign, exponent and integer significand: `sig * 2^exp`.
#[derive(Clone, Copy, Debug)]
struct Finite {
    negative: bool,
    exp: i32,
    sig: u64,
}

fn unpack<F: Format>(x: u32) -> Finite {
    let field = x >> F::M & F::EMAX;
    let mant = u64::from(x & F::MANT);
    let hidden = if field == 0 { 0 } else { 1u64 << F::M };
    Finite {
        negative: x & F::SIGN != 0,
        exp: field.max(1) as i32 - F::BIAS - F::M as i32,
        sig: mant | hidden,
    }
}

/// Whether the discarded part rounds the magnitude up: `half` is the comparison with one half of the
/// last kept place, `inexact` whether anything was discarded.
fn rounds_up(
    mode: u32,
    negative: bool,
    odd: bool,
    half: std::cmp::Ordering,
    inexact: bool,
) -> bool {
    use std::cmp::Ordering::{Equal, Greater};
    match mode {
        RNE => half == Greater || half == Equal && odd,
        RNA => half != std::cmp::Ordering::Less,
        RU => inexact && !negative,
        RD => inexact && negative,
        _ => false,
    }
}

/// Splits `sig / 2^shift` into quotient, comparison of the remainder with one half, and inexactness.
fn split(sig: u128, shift: u32) -> (u128, std::cmp::Ordering, bool) {
    if shift == 0 {
        return (sig, std::cmp::Ordering::Less, false);
    }
    // Significands stay below 2^126, so a shift of 127 or more leaves less than one half.
    if shift >= 127 {
        return (0, std::cmp::Ordering::Less, sig != 0);
    }
    let rest = sig & ((1 << shift) - 1);
    (sig >> shift, rest.cmp(&(1 << (shift - 1))), rest != 0)
}

/// Rounds `sig * 2^exp` once to the format. `sig` must be below 2^126.
///
/// OPEN: tininess is detected before rounding; the sources give no vector that tells.
pub fn round_pack<F: Format>(negative: bool, exp: i32, sig: u128, mode: u32) -> Flagged {
    let sign = if negative { F::SIGN } else { 0 };
    if sig == 0 {
        return (sign, 0);
    }
    let top = 127 - sig.leading_zeros() as i32;
    let least = 1 - F::BIAS - F::M as i32;
    let natural = exp + top - F::M as i32;
    let unit = natural.max(least);
    let (kept, half, inexact) = if unit <= exp {
        (sig << (exp - unit), std::cmp::Ordering::Less, false)
    } else {
        split(sig, (unit - exp) as u32)
    };
    let kept = kept as u32 + u32::from(rounds_up(mode, negative, kept & 1 == 1, half, inexact));
    // The hidden bit of a normal number adds one to the exponent field, and so does a carry.
    let bits = i64::from(unit - least) * (1 << F::M) + i64::from(kept);
    let mut flags = if inexact { fcr::INEXACT } else { 0 };
    if bits >= i64::from(F::INF) {
        flags |= fcr::OVERFLOW | fcr::INEXACT;
        let to_infinity = match mode {
            RZ => false,
            RU => !negative,
            RD => negative,
            _ => true,
        };
        return (sign | if to_infinity { F::INF } else { F::INF - 1 }, flags);
    }
    if inexact && natural < least {
        flags |= fcr::UNDERFLOW;
    }
    (sign | bits as u32, flags)
}

/// `first`'s NaN if it is one, else `second`'s, with the quiet bit set.
fn propagate<F: Format>(first: u32, second: u32) -> Flagged {
    let flags = snan_flag::<F>(first) | snan_flag::<F>(second);
    let chosen = if is_nan::<F>(first) { first } else { second };
    (chosen & F::MASK | F::QUIET, flags)
}

/// `a + b`, one rounding. Two NaNs give the first.
pub fn add<F: Format>(a: u32, b: u32, mode: u32) -> Flagged {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate::<F>(a, b);
    }
    let (a_inf, b_inf) = (a & !F::SIGN == F::INF, b & !F::SIGN == F::INF);
    if a_inf || b_inf {
        if a_inf && b_inf && (a ^ b) & F::SIGN != 0 {
            return (F::QNAN, fcr::INVALID);
        }
        return (if a_inf { a } else { b }, 0);
    }
    let (value, flags) = sum::<F>(widen(unpack::<F>(a)), widen(unpack::<F>(b)), mode);
    // A sum cannot be both tiny and inexact, so UNDERFLOW never appears here.
    (value, flags)
}

/// `a - b`, one rounding. Two NaNs give the first; a NaN `b` keeps its sign.
pub fn sub<F: Format>(a: u32, b: u32, mode: u32) -> Flagged {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate::<F>(a, b);
    }
    add::<F>(a, b ^ F::SIGN, mode)
}

/// A finite number with a significand of up to 48 bits.
#[derive(Clone, Copy)]
struct WideFinite {
    negative: bool,
    exp: i32,
    sig: u128,
}

fn widen(x: Finite) -> WideFinite {
    WideFinite { negative: x.negative, exp: x.exp, sig: u128::from(x.sig) }
}

/// Exact sum of two finite numbers, rounded once.
fn sum<F: Format>(a: WideFinite, b: WideFinite, mode: u32) -> Flagged {
    let exact_zero = |negative| (if negative { F::SIGN } else { 0 }, 0);
    if a.sig == 0 && b.sig == 0 {
        // Equal signs keep the sign; different signs follow the rule for exact cancellation.
        return exact_zero(if a.negative == b.negative { a.negative } else { mode == RD });
    }
    if a.sig == 0 {
        return round_pack::<F>(b.negative, b.exp, b.sig, mode);
    }
    if b.sig == 0 {
        return round_pack::<F>(a.negative, a.exp, a.sig, mode);
    }
    // Bring both leading ones to bit 110; the smaller then moves right with a sticky last bit. With
    // 48-bit significands the sticky bit lies far below the rounding position, also after cancellation.
    let lift = |x: WideFinite| {
        let up = x.sig.leading_zeros() as i32 - 17;
        WideFinite { exp: x.exp - up, sig: x.sig << up, ..x }
    };
    let (mut big, mut small) = (lift(a), lift(b));
    if (small.exp, small.sig) > (big.exp, big.sig) {
        std::mem::swap(&mut big, &mut small);
    }
    let distance = (big.exp - small.exp) as u32;
    let aligned = if distance >= 111 {
        1
    } else {
        let lost = small.sig & ((1u128 << distance) - 1) != 0;
        small.sig >> distance | u128::from(lost)
    };
    let magnitude =
        if big.negative == small.negative { big.sig + aligned } else { big.sig - aligned };
    if magnitude == 0 {
        return exact_zero(mode == RD);
    }
    round_pack::<F>(big.negative, big.exp, magnitude, mode)
}

/// `a * b`, one rounding. Two NaNs give the second.
pub fn mul<F: Format>(a: u32, b: u32, mode: u32) -> Flagged {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate::<F>(b, a);
    }
    let sign = (a ^ b) & F::SIGN;
    let (a_abs, b_abs) = (a & !F::SIGN & F::MASK, b & !F::SIGN & F::MASK);
    if a_abs == F::INF || b_abs == F::INF {
        return if a_abs == 0 || b_abs == 0 { (F::QNAN, fcr::INVALID) } else { (sign | F::INF, 0) };
    }
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    round_pack::<F>(sign != 0, x.exp + y.exp, u128::from(x.sig * y.sig), mode)
}

/// `c + a * b` (or `c - a * b`), the product exact, one rounding.
///
/// OPEN: which of several NaN operands survives is not stated; the product's rule (second factor before
/// first) is applied first, the addend last.
pub fn fma<F: Format>(c: u32, a: u32, b: u32, negate_product: bool, mode: u32) -> Flagged {
    let factors_nan = is_nan::<F>(a) || is_nan::<F>(b);
    let (a_abs, b_abs) = (a & !F::SIGN & F::MASK, b & !F::SIGN & F::MASK);
    let zero_times_inf =
        !factors_nan && (a_abs == F::INF && b_abs == 0 || a_abs == 0 && b_abs == F::INF);
    if factors_nan {
        let (value, flags) = propagate::<F>(b, a);
        return (value, flags | snan_flag::<F>(c));
    }
    if is_nan::<F>(c) {
        let (value, flags) = propagate::<F>(c, c);
        return (value, if zero_times_inf { flags | fcr::INVALID } else { flags });
    }
    if zero_times_inf {
        return (F::QNAN, fcr::INVALID);
    }
    let product_negative = ((a ^ b) & F::SIGN != 0) ^ negate_product;
    if a_abs == F::INF || b_abs == F::INF {
        if c & !F::SIGN == F::INF && (c & F::SIGN != 0) != product_negative {
            return (F::QNAN, fcr::INVALID);
        }
        return (if product_negative { F::SIGN | F::INF } else { F::INF }, 0);
    }
    if c & !F::SIGN & F::MASK == F::INF {
        return (c, 0);
    }
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    let product = WideFinite {
        negative: product_negative,
        exp: x.exp + y.exp,
        sig: u128::from(x.sig * y.sig),
    };
    sum::<F>(product, widen(unpack::<F>(c)), mode)
}

/// Numerical order of two numbers (no NaN): -0 equals +0.
#[inline(always)]
fn key<F: Format>(x: u32) -> i32 {
    let magnitude = (x & !F::SIGN & F::MASK) as i32;
    if x & F::SIGN != 0 { -magnitude } else { magnitude }
}

/// `a < b` on numbers; false if either is a NaN.
#[inline(always)]
pub fn less<F: Format>(a: u32, b: u32) -> bool {
    !is_nan::<F>(a) & !is_nan::<F>(b) & (key::<F>(a) < key::<F>(b))
}

/// `a <= b` on numbers; false if either is a NaN.
#[inline(always)]
pub fn less_equal<F: Format>(a: u32, b: u32) -> bool {
    !is_nan::<F>(a) & !is_nan::<F>(b) & (key::<F>(a) <= key::<F>(b))
}

/// `a == b` on numbers; false if either is a NaN.
#[inline(always)]
pub fn equal<F: Format>(a: u32, b: u32) -> bool {
    !is_nan::<F>(a) & !is_nan::<F>(b) & (key::<F>(a) == key::<F>(b))
}

/// `min`: `a` if less, else `b`; Invalid on any NaN. (wiki: isa/ref/b02-vec-alu-fp)
#[inline(always)]
pub fn min<F: Format>(a: u32, b: u32) -> Flagged {
    let invalid = is_nan::<F>(a) | is_nan::<F>(b);
    (if less::<F>(a, b) { a } else { b }, u32::from(invalid) * fcr::INVALID)
}

/// `max`: `a` if greater, else `b`; Invalid on any NaN.
#[inline(always)]
pub fn max<F: Format>(a: u32, b: u32) -> Flagged {
    let invalid = is_nan::<F>(a) | is_nan::<F>(b);
    (if less::<F>(b, a) { a } else { b }, u32::from(invalid) * fcr::INVALID)
}

/// IEEE minNum / maxNum: a number beats a NaN, -0 is below +0, both NaN give `b`; Invalid on a
/// signalling NaN only.
#[inline(always)]
pub fn min_max_num<F: Format>(a: u32, b: u32, maximum: bool) -> Flagged {
    let flags = snan_flag::<F>(a) | snan_flag::<F>(b);
    let value = if is_nan::<F>(a) {
        b
    } else if is_nan::<F>(b) {
        a
    } else {
        // Order -0 below +0.
        let (x, y) = (key::<F>(a), key::<F>(b));
        let a_below = x < y || x == y && a & F::SIGN != 0;
        if a_below != maximum { a } else { b }
    };
    (value, flags)
}

/// Class mask: bit 0 sign, 1 zero, 2 denormal, 3 normal, 4 infinity, 5 NaN, 6 signalling, 7 finite.
#[inline(always)]
pub fn classify<F: Format>(x: u32) -> u32 {
    let field = x >> F::M & F::EMAX;
    let mant = x & F::MANT;
    let class = match (field, mant) {
        (0, 0) => 0x82,
        (0, _) => 0x84,
        (e, 0) if e == F::EMAX => 0x10,
        (e, m) if e == F::EMAX => 0x20 | if m & F::QUIET == 0 { 0x40 } else { 0 },
        _ => 0x88,
    };
    class | u32::from(x & F::SIGN != 0)
}

/// Rounds to an integral value in the same format. `report_inexact` is set for FIRINT only.
pub fn round_integral<F: Format>(x: u32, mode: u32, report_inexact: bool) -> Flagged {
    if is_nan::<F>(x) {
        return (x | F::QUIET, snan_flag::<F>(x));
    }
    let (sign, magnitude) = (x & F::SIGN, x & (F::SIGN - 1));
    let exponent = (magnitude >> F::M) as i32 - F::BIAS;
    if magnitude == 0 || exponent >= F::M as i32 {
        return (x, 0);
    }
    // Below one only the comparison with one half matters; from one on, the fraction is a bit field and a
    // carry out of the mantissa lands in the exponent as it should.
    let (kept, unit, half, odd, inexact) = if exponent < 0 {
        let half = magnitude.cmp(&((F::BIAS as u32 - 1) << F::M));
        (0, (F::BIAS as u32) << F::M, half, false, true)
    } else {
        let unit = 1 << (F::M as i32 - exponent);
        let rest = magnitude & (unit - 1);
        (magnitude - rest, unit, rest.cmp(&(unit >> 1)), magnitude & unit != 0, rest != 0)
    };
    let up = inexact && rounds_up(mode, sign != 0, odd, half, true);
    let value = kept + if up { unit } else { 0 };
    (sign | value, if inexact && report_inexact { fcr::INEXACT } else { 0 })
}

/// fp16 to fp32, exact. A signalling NaN is quieted with Invalid; payloads move up by 13 bits.
/// (wiki: isa/ref/b20-hp-cvt)
pub fn widen_f16(x: u32) -> Flagged {
    let sign = (x & F16::SIGN) << 16;
    if is_nan::<F16>(x) {
        return (sign | F32::QNAN | (x & F16::MANT) << 13, snan_flag::<F16>(x));
    }
    if x & !F16::SIGN & F16::MASK == F16::INF {
        return (sign | F32::INF, 0);
    }
    let v = unpack::<F16>(x);
    round_pack::<F32>(v.negative, v.exp, u128::from(v.sig), RZ)
}

/// fp32 to fp16. A NaN becomes the default NaN. OPEN: its sign is dropped with its payload.
/// (wiki: isa/ref/b13-sp-cvt)
pub fn narrow_f32(x: u32, mode: u32) -> Flagged {
    if is_nan::<F32>(x) {
        return (F16::QNAN, snan_flag::<F32>(x));
    }
    let sign = x >> 16 & F16::SIGN;
    if x & !F32::SIGN == F32::INF {
        return (sign | F16::INF, 0);
    }
    let v = unpack::<F32>(x);
    round_pack::<F16>(v.negative, v.exp, u128::from(v.sig), mode)
}

/// Integer times `2^-scale` to floating point, one rounding.
pub fn from_int<F: Format>(x: i64, scale: u32, mode: u32) -> Flagged {
    round_pack::<F>(x < 0, -(scale as i32), u128::from(x.unsigned_abs()), mode)
}

/// `x * 2^scale` truncated to a signed integer of `bits` bits. Out of range and NaN saturate with
/// OVERFLOW, NaN to the maximum. (wiki: isa/ref/b13-sp-cvt)
pub fn to_int<F: Format>(x: u32, scale: u32, bits: u32) -> (i64, u32) {
    let (least, most) = (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1);
    match truncated::<F>(x, scale) {
        None => (if x & F::SIGN != 0 && !is_nan::<F>(x) { least } else { most }, fcr::OVERFLOW),
        Some((value, _)) if value > i128::from(most) => (most, fcr::OVERFLOW),
        Some((value, _)) if value < i128::from(least) => (least, fcr::OVERFLOW),
        Some((value, inexact)) => (value as i64, if inexact { fcr::INEXACT } else { 0 }),
    }
}

/// `x * 2^scale` truncated to an unsigned integer of `bits` bits.
///
/// Too large and NaN give all ones. A negative result is not clamped to zero: it keeps its two's
/// complement pattern, saturated at the signed minimum, with OVERFLOW. (wiki: isa/ref/b13-sp-cvt)
pub fn to_uint<F: Format>(x: u32, scale: u32, bits: u32) -> (u32, u32) {
    let all = u32::MAX >> (32 - bits);
    if x & F::SIGN != 0 && !is_nan::<F>(x) {
        let (value, flags) = to_int::<F>(x, scale, bits);
        return (value as u32 & all, if value < 0 { fcr::OVERFLOW } else { flags });
    }
    match truncated::<F>(x, scale) {
        Some((value, inexact)) if value <= i128::from(all) => {
            (value as u32, if inexact { fcr::INEXACT } else { 0 })
        }
        _ => (all, fcr::OVERFLOW),
    }
}

/// Truncated integer and inexactness, or nothing for infinities and NaNs.
fn truncated<F: Format>(x: u32, scale: u32) -> Option<(i128, bool)> {
    if x >> F::M & F::EMAX == F::EMAX {
        return None;
    }
    let v = unpack::<F>(x);
    let exp = v.exp + scale as i32;
    let (magnitude, inexact) = if exp >= 0 {
        // 24 significant bits: anything shifted by 64 or more is out of every integer range.
        (u128::from(v.sig) << exp.min(64), false)
    } else {
        let (kept, _, inexact) = split(u128::from(v.sig), (-exp) as u32);
        (kept, inexact)
    };
    let value = magnitude as i128;
    Some((if v.negative { -value } else { value }, inexact))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Host binary32 arithmetic agrees with [`add`], [`mul`] and [`fma`] under nearest-even.
    #[test]
    fn nearest_even_matches_the_host() {
        let mut seed = 0x1234_5678_9abc_def0u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let raw = (seed >> 32) as u32;
            // Half of the operands get close exponents, so that sums cancel and products meet denormals.
            if seed >> 20 & 1 == 0 {
                raw & 0x83ff_ffff | 0x3e00_0000 & raw | 0x3000_0000
            } else {
                raw
            }
        };
        for _ in 0..200_000 {
            let (a, b, c) = (next(), next(), next());
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            for (got, want) in [
                (add::<F32>(a, b, RNE).0, x + y),
                (sub::<F32>(a, b, RNE).0, x - y),
                (mul::<F32>(a, b, RNE).0, x * y),
                (fma::<F32>(c, a, b, false, RNE).0, x.mul_add(y, z)),
                (fma::<F32>(c, a, b, true, RNE).0, (-x).mul_add(y, z)),
            ] {
                if want.is_nan() {
                    assert!(is_nan::<F32>(got));
                } else {
                    assert_eq!(got, want.to_bits(), "{a:08x} {b:08x} {c:08x}");
                }
            }
        }
    }

    #[test]
    fn every_fp16_survives_widening_and_narrowing() {
        for h in 0..=0xffffu32 {
            let (wide, _) = widen_f16(h);
            if is_nan::<F16>(h) {
                assert!(is_nan::<F32>(wide));
            } else {
                assert_eq!(narrow_f32(wide, RD), (h, 0));
            }
        }
    }

    // wiki: isa/ref/b13-sp-cvt
    #[test]
    fn truncation_saturates_as_on_the_page() {
        let t = |x: f32, s| to_int::<F32>(x.to_bits(), s, 32).0 as i32;
        assert_eq!((t(2.9, 0), t(-2.9, 0), t(4.0, 3)), (2, -2, 32));
        assert_eq!(
            (t(2147483648.0, 0), t(-1e30, 0), t(f32::NAN, 0)),
            (i32::MAX, i32::MIN, i32::MAX)
        );
        assert_eq!(to_int::<F32>((-2147483648.0f32).to_bits(), 0, 32), (i64::from(i32::MIN), 0));
        let u = |x: f32| to_uint::<F32>(x.to_bits(), 0, 32);
        assert_eq!(u(5.7), (5, fcr::INEXACT));
        assert_eq!(u(-2.9), (0xffff_fffe, fcr::OVERFLOW));
        assert_eq!((u(-0.0).0, u(4294967296.0).0, u(f32::NAN).0), (0, u32::MAX, u32::MAX));
        assert_eq!(u(f32::NEG_INFINITY), (0x8000_0000, fcr::OVERFLOW));
    }

    // wiki: isa/ref/b20-hp-cvt
    #[test]
    fn integers_convert_with_a_binary_point() {
        assert_eq!(from_int::<F16>(24, 3, RNE), (0x4200, 0));
        assert_eq!(from_int::<F16>(-1, 3, RNE), (0xb000, 0));
        assert_eq!(from_int::<F16>(2049, 0, RNE), (0x6800, fcr::INEXACT));
        assert_eq!(from_int::<F16>(65535, 0, RNE), (0x7c00, fcr::OVERFLOW | fcr::INEXACT));
        assert_eq!(from_int::<F32>(0xffff_ffff, 0, RZ).0, 0x4f7f_ffff);
    }
}

//! ALU operations on FP32.
//!
//! Each operation rounds once, to nearest even. A NaN result is the canonical quiet NaN, since
//! which payload survives would otherwise depend on the host; operations that only move bits
//! (BYPASS, ABSOLUTE_VALUE) keep theirs. OPEN: payloads are not described.

use super::AluOp;
use crate::error::{Error, Result};
use crate::numeric::simd::vectorize;
use crate::numeric::{CANONICAL_NAN, canonical};

#[inline(always)]
fn truth(condition: bool) -> f32 {
    if condition { 1.0 } else { 0.0 }
}

/// The larger number; a number wins over NaN, and of equal ones (+0, -0) the first stays.
/// OPEN: the vendor's table of ALU bodies is not published; the number-wins rule is the one of
/// pooling and of the vector core's reduce primitives (wiki-cc: bir/sim-elementwise-datamove).
#[inline(always)]
pub fn max_num(a: f32, b: f32) -> f32 {
    let larger = if b > a { b } else { a };
    canonical(if a.is_nan() { b } else { larger })
}

/// The smaller number; as [`max_num`].
#[inline(always)]
pub fn min_num(a: f32, b: f32) -> f32 {
    let smaller = if b < a { b } else { a };
    canonical(if a.is_nan() { b } else { smaller })
}

/// Maximum of read-modify-write and collectives: `old` stays on a tie or when either is NaN
/// (wiki-cc: bir/sim-core-arithmetic).
#[inline(always)]
pub fn keep_max(old: f32, new: f32) -> f32 {
    if new > old { new } else { old }
}

/// Minimum of read-modify-write and collectives; as [`keep_max`].
#[inline(always)]
pub fn keep_min(old: f32, new: f32) -> f32 {
    if new < old { new } else { old }
}

/// 1 / sqrt(x) rounded once to FP32. OPEN: the device refines an 8-bit seed; its last bit is not
/// described. The double-precision quotient is close enough that its rounding is the correct one.
fn rsqrt(x: f32) -> f32 {
    canonical((1.0 / f64::from(x).sqrt()) as f32)
}

/// Remainder with the sign of the divisor. OPEN: no source states the sign; MOD_INT beside it is
/// the one with the dividend's.
fn floor_mod(a: f32, b: f32) -> f32 {
    let r = libm::fmodf(a, b);
    if r == 0.0 {
        return 0f32.copysign(b);
    }
    canonical(if (r < 0.0) != (b < 0.0) { r + b } else { r })
}

fn pow(a: f32, b: f32) -> f32 {
    canonical(libm::pow(f64::from(a), f64::from(b)) as f32)
}

/// The header's formula, which takes the larger magnitude although the name suggests the smaller.
/// OPEN: NaN in either operand gives NaN, and a zero of either sign gives itself.
fn symmetric_clamp(a: f32, b: f32) -> f32 {
    if a == 0.0 {
        return a;
    }
    if a.is_nan() || b.is_nan() {
        return CANONICAL_NAN;
    }
    max_num(a.abs(), b.abs()).copysign(a)
}

/// Something to do with the function of an operation, compiled once for each operation.
trait Use {
    type Out;
    fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) -> Self::Out;
}

#[inline(always)]
fn select<T: Use>(op: AluOp, user: T) -> Result<T::Out> {
    Ok(match op {
        AluOp::Bypass => user.with(|a, _| a),
        AluOp::Add => user.with(|a, b| canonical(a + b)),
        AluOp::Subtract => user.with(|a, b| canonical(a - b)),
        AluOp::Mult => user.with(|a, b| canonical(a * b)),
        AluOp::Divide => user.with(|a, b| canonical(a / b)),
        AluOp::Max => user.with(max_num),
        AluOp::Min => user.with(min_num),
        AluOp::LogicalAnd => user.with(|a, b| truth((a != 0.0) & (b != 0.0))),
        AluOp::LogicalOr => user.with(|a, b| truth((a != 0.0) | (b != 0.0))),
        AluOp::LogicalXor => user.with(|a, b| truth((a != 0.0) ^ (b != 0.0))),
        AluOp::IsEq => user.with(|a, b| truth(a == b)),
        AluOp::IsGt => user.with(|a, b| truth(a > b)),
        AluOp::IsGe => user.with(|a, b| truth(a >= b)),
        AluOp::IsLe => user.with(|a, b| truth(a <= b)),
        AluOp::IsLt => user.with(|a, b| truth(a < b)),
        AluOp::IsNe => user.with(|a, b| truth(a != b)),
        AluOp::AbsoluteDiff => user.with(|a, b| canonical((a - b).abs())),
        AluOp::AbsoluteValue => user.with(|a, _| a.abs()),
        AluOp::Pow => user.with(pow),
        AluOp::Mod => user.with(floor_mod),
        AluOp::Rsqrt => user.with(|a, _| rsqrt(a)),
        AluOp::AbsMax => user.with(|a, b| max_num(a.abs(), b.abs())),
        AluOp::AbsMin => user.with(|a, b| min_num(a.abs(), b.abs())),
        AluOp::ReLu => user.with(|a, _| max_num(a, 0.0)),
        AluOp::Square => user.with(|a, _| canonical(a * a)),
        AluOp::SymmetricClamp => user.with(symmetric_clamp),
        _ => return Err(op.unsupported("FP32 operands")),
    })
}

/// `a op b`. Compares give 1.0 or 0.0 and are false on NaN, except IS_NE, which is true.
///
/// # Errors
/// Illegal instruction for bit-vector and integer-band operations.
pub fn apply_f32(op: AluOp, a: f32, b: f32) -> Result<f32> {
    struct One(f32, f32);
    impl Use for One {
        type Out = f32;
        #[inline(always)]
        fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) -> f32 {
            f(self.0, self.1)
        }
    }
    select(op, One(a, b))
}

fn same_length(op: AluOp, a: usize, b: usize) -> Result<()> {
    if a == b { Ok(()) } else { Err(Error::internal(format!("{op} over {a} and {b} elements"))) }
}

/// `out[i] = a[i] op b[i]`.
///
/// # Errors
/// As [`apply_f32`]; internal when the lengths differ.
pub fn apply_f32_tt(op: AluOp, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<()> {
    same_length(op, a.len(), b.len())?;
    same_length(op, a.len(), out.len())?;
    struct Slices<'a>(&'a [f32], &'a [f32], &'a mut [f32]);
    impl Use for Slices<'_> {
        type Out = ();
        #[inline(always)]
        fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) {
            vectorize(|| {
                self.2.iter_mut().zip(self.0).zip(self.1).for_each(|((out, &a), &b)| *out = f(a, b))
            });
        }
    }
    select(op, Slices(a, b, out))
}

/// `a[i] = a[i] op b[i]`, or `b[i] op a[i]` when reversed.
///
/// # Errors
/// As [`apply_f32_tt`].
pub fn apply_f32_assign(op: AluOp, a: &mut [f32], b: &[f32], reverse: bool) -> Result<()> {
    same_length(op, a.len(), b.len())?;
    struct Slices<'a>(&'a mut [f32], &'a [f32], bool);
    impl Use for Slices<'_> {
        type Out = ();
        #[inline(always)]
        fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) {
            if self.2 {
                vectorize(|| self.0.iter_mut().zip(self.1).for_each(|(a, &b)| *a = f(b, *a)));
            } else {
                vectorize(|| self.0.iter_mut().zip(self.1).for_each(|(a, &b)| *a = f(*a, b)));
            }
        }
    }
    select(op, Slices(a, b, reverse))
}

/// `out[i] = a[i] op scalar`, or `scalar op a[i]` when reversed.
///
/// # Errors
/// As [`apply_f32_tt`].
pub fn apply_f32_ts(
    op: AluOp,
    a: &[f32],
    scalar: f32,
    reverse: bool,
    out: &mut [f32],
) -> Result<()> {
    same_length(op, a.len(), out.len())?;
    struct Slices<'a>(&'a [f32], f32, bool, &'a mut [f32]);
    impl Use for Slices<'_> {
        type Out = ();
        #[inline(always)]
        fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) {
            let s = self.1;
            if self.2 {
                vectorize(|| self.3.iter_mut().zip(self.0).for_each(|(out, &a)| *out = f(s, a)));
            } else {
                vectorize(|| self.3.iter_mut().zip(self.0).for_each(|(out, &a)| *out = f(a, s)));
            }
        }
    }
    select(op, Slices(a, scalar, reverse, out))
}

/// `a[i] = a[i] op scalar`, or `scalar op a[i]` when reversed.
///
/// # Errors
/// As [`apply_f32`].
pub fn apply_f32_ts_assign(op: AluOp, a: &mut [f32], scalar: f32, reverse: bool) -> Result<()> {
    struct Slices<'a>(&'a mut [f32], f32, bool);
    impl Use for Slices<'_> {
        type Out = ();
        #[inline(always)]
        fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) {
            let s = self.1;
            if self.2 {
                vectorize(|| self.0.iter_mut().for_each(|a| *a = f(s, *a)));
            } else {
                vectorize(|| self.0.iter_mut().for_each(|a| *a = f(*a, s)));
            }
        }
    }
    select(op, Slices(a, scalar, reverse))
}

/// Folds `src` in order with the running value on the left, from `init` or else from the first
/// element (wiki-cc: bir/sim-elementwise-datamove 3). `None` when there is neither.
///
/// # Errors
/// As [`apply_f32`].
pub fn reduce_f32(op: AluOp, src: &[f32], init: Option<f32>) -> Result<Option<f32>> {
    struct Fold<'a>(&'a [f32], Option<f32>);
    impl Use for Fold<'_> {
        type Out = Option<f32>;
        #[inline(always)]
        fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) -> Option<f32> {
            match (self.1, self.0.split_first()) {
                (Some(init), _) => Some(self.0.iter().fold(init, |acc, &x| f(acc, x))),
                (None, Some((&first, rest))) => Some(rest.iter().fold(first, |acc, &x| f(acc, x))),
                (None, None) => None,
            }
        }
    }
    select(op, Fold(src, init))
}

/// Writes every running value of [`reduce_f32`]: `out[i] = out[i-1] op src[i]`.
///
/// # Errors
/// As [`apply_f32_tt`].
pub fn scan_f32(op: AluOp, src: &[f32], init: Option<f32>, out: &mut [f32]) -> Result<()> {
    same_length(op, src.len(), out.len())?;
    struct Scan<'a>(&'a [f32], Option<f32>, &'a mut [f32]);
    impl Use for Scan<'_> {
        type Out = ();
        #[inline(always)]
        fn with(self, f: impl Fn(f32, f32) -> f32 + Copy) {
            let mut acc = self.1;
            for (out, &x) in self.2.iter_mut().zip(self.0) {
                let next = acc.map_or(x, |acc| f(acc, x));
                *out = next;
                acc = Some(next);
            }
        }
    }
    select(op, Scan(src, init, out))
}

/// Value that resetting an accumulator of this operation gives it (vendor: nki.isa.reduce_cmd).
///
/// # Errors
/// Illegal instruction for an operation without accumulator form.
pub fn reset_f32(op: AluOp) -> Result<f32> {
    Ok(match op {
        AluOp::Add | AluOp::Subtract | AluOp::AbsMax => 0.0,
        AluOp::Mult => 1.0,
        AluOp::Max => f32::NEG_INFINITY,
        AluOp::Min | AluOp::AbsMin => f32::INFINITY,
        _ => return Err(op.unsupported("an accumulator")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(op: AluOp, a: f32, b: f32) -> u32 {
        apply_f32(op, a, b).unwrap().to_bits()
    }

    #[test]
    fn nan_and_zero_rules() {
        const NAN: f32 = f32::from_bits(0xFFA0_0001);
        let canonical = 0x7FC0_0000;
        for op in [AluOp::Add, AluOp::Subtract, AluOp::Mult, AluOp::Divide, AluOp::AbsoluteDiff] {
            assert_eq!(bits(op, NAN, 1.0), canonical, "{op}");
            assert_eq!(bits(op, 1.0, NAN), canonical, "{op}");
        }
        assert_eq!(bits(AluOp::Subtract, f32::INFINITY, f32::INFINITY), canonical);
        assert_eq!(bits(AluOp::Bypass, NAN, 0.0), NAN.to_bits());
        for op in [AluOp::Max, AluOp::Min] {
            assert_eq!(apply_f32(op, NAN, 3.0).unwrap(), 3.0);
            assert_eq!(apply_f32(op, 3.0, NAN).unwrap(), 3.0);
            assert_eq!(bits(op, NAN, NAN), canonical);
            assert_eq!(bits(op, -0.0, 0.0), 0x8000_0000, "the first of equals stays");
        }
        assert_eq!(keep_max(1.0, NAN), 1.0);
        assert!(keep_max(NAN, 1.0).is_nan());
        for op in [AluOp::IsEq, AluOp::IsGt, AluOp::IsGe, AluOp::IsLe, AluOp::IsLt] {
            assert_eq!(apply_f32(op, NAN, NAN).unwrap(), 0.0, "{op}");
        }
        assert_eq!(apply_f32(AluOp::IsNe, NAN, NAN).unwrap(), 1.0);
        assert_eq!(apply_f32(AluOp::LogicalAnd, NAN, -1.0).unwrap(), 1.0);
        assert_eq!(apply_f32(AluOp::ReLu, NAN, 0.0).unwrap(), 0.0);
    }

    #[test]
    fn special_functions() {
        assert_eq!(bits(AluOp::Rsqrt, -1.0, 0.0), 0x7FC0_0000);
        assert_eq!(apply_f32(AluOp::Rsqrt, 0.0, 0.0).unwrap(), f32::INFINITY);
        assert_eq!(apply_f32(AluOp::Rsqrt, 4.0, 0.0).unwrap(), 0.5);
        assert_eq!(apply_f32(AluOp::Pow, 2.0, 0.5).unwrap(), std::f32::consts::SQRT_2);
        assert_eq!(apply_f32(AluOp::Divide, 1.0, 0.0).unwrap(), f32::INFINITY);
        for (a, b, want) in [(5.5, 2.0, 1.5), (-5.5, 2.0, 0.5), (5.5, -2.0, -0.5)] {
            assert_eq!(apply_f32(AluOp::Mod, a, b).unwrap(), want);
        }
        assert_eq!(apply_f32(AluOp::SymmetricClamp, -2.0, 3.0).unwrap(), -3.0);
    }

    /// 1/sqrt(x) depends only on mantissa and exponent parity: all 2^24 cases, against integers.
    #[test]
    fn rsqrt_is_correctly_rounded() {
        for index in 0..1u32 << 24 {
            // x = m * 2^(-23 or -24) in [1/2, 2), so y = 1/sqrt(x) in [0.7, 1.42].
            let x = f32::from_bits((126 << 23) + index);
            let y = rsqrt(x);
            // y is nearest when (y - h)^2 * x < 1 < (y + h)^2 * x, h half a step; in units of 2^-25
            // y +- h is an integer for both binades.
            let half = if y >= 1.0 { 2u128 } else { 1 };
            let units = (f64::from(y) * f64::from(1u32 << 25)) as u128;
            let x_units = (f64::from(x) * f64::from(1u32 << 24)) as u128;
            let one = 1u128 << 74;
            // At y = 1 the lower neighbour is half as far away.
            let below = if y == 1.0 { 1 } else { half };
            assert!((units - below).pow(2) * x_units < one, "{x}");
            assert!((units + half).pow(2) * x_units > one, "{x}");
        }
    }

    #[test]
    fn slices_agree_with_scalars() {
        let values = [0.0, -0.0, 1.5, -2.25, f32::INFINITY, f32::NAN, 1e-42, 3e38, -7.0];
        for op in AluOp::all() {
            if apply_f32(op, 1.0, 1.0).is_err() {
                assert!(!op.is_general_arith(), "{op}");
                continue;
            }
            for s in values {
                let mut out = [0.0; 9];
                let others = [s; 9];
                let want = values.map(|a| bits(op, a, s));
                let reversed = values.map(|a| bits(op, s, a));
                apply_f32_tt(op, &values, &others, &mut out).unwrap();
                assert_eq!(out.map(f32::to_bits), want, "{op}");
                apply_f32_ts(op, &values, s, false, &mut out).unwrap();
                assert_eq!(out.map(f32::to_bits), want, "{op}");
                apply_f32_ts(op, &values, s, true, &mut out).unwrap();
                assert_eq!(out.map(f32::to_bits), reversed, "{op}");
                let mut out = values;
                apply_f32_ts_assign(op, &mut out, s, true).unwrap();
                assert_eq!(out.map(f32::to_bits), reversed, "{op}");
                let mut out = values;
                apply_f32_assign(op, &mut out, &others, true).unwrap();
                assert_eq!(out.map(f32::to_bits), reversed, "{op}");
            }
        }
    }

    #[test]
    fn folds_run_in_order() {
        let values = [1e8, 1.0, -1e8, 1.0];
        assert_eq!(reduce_f32(AluOp::Add, &values, None).unwrap(), Some(1.0));
        assert_eq!(reduce_f32(AluOp::Subtract, &values, Some(0.0)).unwrap(), Some(-1.0));
        assert_eq!(reduce_f32(AluOp::Max, &[], None).unwrap(), None);
        let mut out = [0.0; 4];
        scan_f32(AluOp::Add, &[1.0, 2.0, 3.0, 4.0], Some(10.0), &mut out).unwrap();
        assert_eq!(out, [11.0, 13.0, 16.0, 20.0]);
    }
}

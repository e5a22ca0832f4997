//! ALU operations on integers of a dtype and on raw bits.
//!
//! Integers travel as `i64`, sign- or zero-extended from their dtype (UINT64 keeps its bits);
//! results wrap to the dtype and come back extended the same way.

use super::AluOp;
use crate::error::{Error, Result};
use crate::numeric::dtype::Dtype;
use crate::numeric::simd::vectorize;

/// Width and signedness of an integer dtype.
#[derive(Clone, Copy)]
struct Width {
    bits: u32,
    signed: bool,
}

impl Width {
    fn of(dtype: Dtype) -> Result<Width> {
        if dtype.is_int() {
            Ok(Width { bits: dtype.bits(), signed: dtype.is_signed() })
        } else {
            Err(Error::illegal("not supported dtype", format!("integer operation on {dtype}")))
        }
    }

    /// Low bits as a signed number.
    #[inline(always)]
    fn signed(self, x: i64) -> i64 {
        let shift = 64 - self.bits;
        x << shift >> shift
    }

    /// Low bits as an unsigned number.
    #[inline(always)]
    fn unsigned(self, x: i64) -> u64 {
        let shift = 64 - self.bits;
        (x as u64) << shift >> shift
    }

    /// Wraps a result to the dtype.
    #[inline(always)]
    fn wrap(self, x: i64) -> i64 {
        if self.signed { self.signed(x) } else { self.unsigned(x) as i64 }
    }

    /// `a < b` in the dtype's own order.
    #[inline(always)]
    fn less(self, a: i64, b: i64) -> bool {
        if self.signed {
            self.signed(a) < self.signed(b)
        } else {
            self.unsigned(a) < self.unsigned(b)
        }
    }

    fn as_signed(self) -> Width {
        Width { signed: true, ..self }
    }

    fn as_unsigned(self) -> Width {
        Width { signed: false, ..self }
    }

    /// Magnitude as the dtype (or the operation) sees it, not wrapped.
    #[inline(always)]
    fn magnitude(self, x: i64) -> u64 {
        if self.signed { self.signed(x).unsigned_abs() } else { self.unsigned(x) }
    }

    /// Quotient. OPEN: x / 0 gives 0 signed and all ones unsigned; the least value over -1 wraps.
    fn quotient(self, a: i64, b: i64) -> i64 {
        if self.signed {
            match self.signed(b) {
                0 => 0,
                b => self.signed(a).wrapping_div(b),
            }
        } else {
            self.unsigned(a).checked_div(self.unsigned(b)).unwrap_or(u64::MAX) as i64
        }
    }

    /// Remainder with the sign of the dividend. OPEN: x mod 0 gives 0.
    fn remainder(self, a: i64, b: i64) -> i64 {
        if self.signed {
            match self.signed(b) {
                0 => 0,
                b => self.signed(a).wrapping_rem(b),
            }
        } else {
            self.unsigned(a).checked_rem(self.unsigned(b)).unwrap_or(0) as i64
        }
    }

    /// Remainder with the sign of the divisor; as the FP32 form of MOD.
    fn floor_mod(self, a: i64, b: i64) -> i64 {
        let r = self.remainder(a, b);
        let differ = self.signed && r != 0 && (r < 0) != (self.signed(b) < 0);
        if differ { r.wrapping_add(self.signed(b)) } else { r }
    }

    /// |a - b| of the exact difference.
    #[inline(always)]
    fn distance(self, a: i64, b: i64) -> i64 {
        if self.signed {
            self.signed(a).abs_diff(self.signed(b)) as i64
        } else {
            self.unsigned(a).abs_diff(self.unsigned(b)) as i64
        }
    }
}

trait Use {
    type Out;
    fn with(self, f: impl Fn(i64, i64) -> i64 + Copy) -> Self::Out;
}

#[inline(always)]
fn select<T: Use>(op: AluOp, w: Width, user: T) -> Result<T::Out> {
    use AluOp::*;
    let (s, u) = (w.as_signed(), w.as_unsigned());
    Ok(match op {
        Bypass => user.with(|a, _| a),
        Add | AddInt => user.with(|a, b| w.wrap(a.wrapping_add(b))),
        Subtract | SubtractInt => user.with(|a, b| w.wrap(a.wrapping_sub(b))),
        Mult | MultInt | MultUint => user.with(|a, b| w.wrap(a.wrapping_mul(b))),
        Square => user.with(|a, _| w.wrap(a.wrapping_mul(a))),
        // OPEN: DIVIDE_INT and MOD_INT are legal on unsigned operands too; the formula is signed.
        DivideInt => user.with(|a, b| w.wrap(s.quotient(a, b))),
        DivideUint => user.with(|a, b| w.wrap(u.quotient(a, b))),
        ModInt => user.with(|a, b| w.wrap(s.remainder(a, b))),
        ModUint => user.with(|a, b| w.wrap(u.remainder(a, b))),
        Mod => user.with(|a, b| w.wrap(w.floor_mod(a, b))),
        Max => user.with(|a, b| if w.less(a, b) { b } else { a }),
        Min => user.with(|a, b| if w.less(b, a) { b } else { a }),
        MaxInt => user.with(|a, b| if s.less(a, b) { b } else { a }),
        MinInt => user.with(|a, b| if s.less(b, a) { b } else { a }),
        MaxUint => user.with(|a, b| if u.less(a, b) { b } else { a }),
        MinUint => user.with(|a, b| if u.less(b, a) { b } else { a }),
        LogicalAnd => user.with(|a, b| i64::from((a != 0) & (b != 0))),
        LogicalOr => user.with(|a, b| i64::from((a != 0) | (b != 0))),
        LogicalXor => user.with(|a, b| i64::from((a != 0) ^ (b != 0))),
        IsEq | IsEqualInt => user.with(|a, b| i64::from(u.unsigned(a) == u.unsigned(b))),
        IsNe | IsNeInt => user.with(|a, b| i64::from(u.unsigned(a) != u.unsigned(b))),
        IsGt => user.with(|a, b| i64::from(w.less(b, a))),
        IsGe => user.with(|a, b| i64::from(!w.less(a, b))),
        IsLe => user.with(|a, b| i64::from(!w.less(b, a))),
        IsLt => user.with(|a, b| i64::from(w.less(a, b))),
        IsGtInt => user.with(|a, b| i64::from(s.less(b, a))),
        IsGeInt => user.with(|a, b| i64::from(!s.less(a, b))),
        IsLeInt => user.with(|a, b| i64::from(!s.less(b, a))),
        IsLtInt => user.with(|a, b| i64::from(s.less(a, b))),
        IsGtUint => user.with(|a, b| i64::from(u.less(b, a))),
        IsGeUint => user.with(|a, b| i64::from(!u.less(a, b))),
        IsLeUint => user.with(|a, b| i64::from(!u.less(b, a))),
        IsLtUint => user.with(|a, b| i64::from(u.less(a, b))),
        AbsoluteDiff => user.with(|a, b| w.wrap(w.distance(a, b))),
        AbsDiffInt => user.with(|a, b| w.wrap(s.distance(a, b))),
        AbsoluteValue => user.with(|a, _| w.wrap(w.magnitude(a) as i64)),
        AbsValueInt => user.with(|a, _| w.wrap(s.magnitude(a) as i64)),
        AbsMax => user.with(|a, b| w.wrap(w.magnitude(a).max(w.magnitude(b)) as i64)),
        AbsMin => user.with(|a, b| w.wrap(w.magnitude(a).min(w.magnitude(b)) as i64)),
        AbsMaxInt => user.with(|a, b| w.wrap(s.magnitude(a).max(s.magnitude(b)) as i64)),
        AbsMinInt => user.with(|a, b| w.wrap(s.magnitude(a).min(s.magnitude(b)) as i64)),
        ReLu => user.with(|a, _| if w.less(a, 0) { 0 } else { a }),
        SymmetricClamp => user.with(|a, b| {
            let larger = w.magnitude(a).max(w.magnitude(b)) as i64;
            match a {
                0 => 0,
                _ if w.less(a, 0) => w.wrap(larger.wrapping_neg()),
                _ => w.wrap(larger),
            }
        }),
        BitwiseNot | BitwiseAnd | BitwiseOr | BitwiseXor | ArithShiftLeft | ArithShiftRight
        | LogicalShiftLeft | LogicalShiftRight => {
            user.with(|a, b| w.wrap(bit_op(op, a as u64, b as u64, w.bits) as i64))
        }
        _ => return Err(op.unsupported("integer operands")),
    })
}

/// Bits kept of an element of `width` bits.
#[inline(always)]
fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// A bit-vector operation other than CRC32 on the low `width` bits.
///
/// OPEN: a shift count at or above the width. 32-bit elements use the count modulo 32 as the
/// scalar shifter does; others shift everything out (wiki: firmware/kernels/alu-op-matrix names
/// only the primitives).
#[inline(always)]
fn bit_op(op: AluOp, a: u64, b: u64, width: u32) -> u64 {
    let a = a & mask(width);
    let count = if width == 32 { b & 31 } else { (b & mask(width)).min(64) } as u32;
    let result = match op {
        AluOp::BitwiseNot => !a,
        AluOp::BitwiseAnd => a & b,
        AluOp::BitwiseOr => a | b,
        AluOp::BitwiseXor => a ^ b,
        AluOp::ArithShiftLeft | AluOp::LogicalShiftLeft => a.checked_shl(count).unwrap_or(0),
        AluOp::LogicalShiftRight => a.checked_shr(count).unwrap_or(0),
        AluOp::ArithShiftRight => {
            let signed = (a << (64 - width)) as i64 >> (64 - width);
            (signed >> count.min(63)) as u64
        }
        _ => a,
    };
    result & mask(width)
}

fn check_bits(op: AluOp, width: u32) -> Result<()> {
    if op == AluOp::Crc32 {
        return Err(Error::missing_spec(
            "polynomial, start value, reflection and operand roles of CRC32",
            "wiki: firmware/kernels/alu-op-matrix",
        ));
    }
    if !op.is_bitvec() {
        return Err(op.unsupported("raw bits"));
    }
    if !(1..=64).contains(&width) {
        return Err(Error::internal(format!("{op} on {width} bits")));
    }
    Ok(())
}

/// `a op b` on the low `width` bits; the count of a shift is b. Bits above are ignored and zero in
/// the result.
///
/// # Errors
/// Illegal instruction when `op` is no bit-vector operation; missing specification for CRC32.
pub fn apply_bits(op: AluOp, a: u64, b: u64, width: u32) -> Result<u64> {
    check_bits(op, width)?;
    Ok(bit_op(op, a, b, width))
}

fn same_length(op: AluOp, a: usize, b: usize) -> Result<()> {
    if a == b { Ok(()) } else { Err(Error::internal(format!("{op} over {a} and {b} elements"))) }
}

/// `out[i] = a[i] op b[i]` on raw bits.
///
/// # Errors
/// As [`apply_bits`]; internal when the lengths differ.
pub fn apply_bits_tt(op: AluOp, a: &[u64], b: &[u64], width: u32, out: &mut [u64]) -> Result<()> {
    check_bits(op, width)?;
    same_length(op, a.len(), b.len())?;
    same_length(op, a.len(), out.len())?;
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = bit_op(op, a, b, width);
    }
    Ok(())
}

/// `out[i] = a[i] op scalar`, or `scalar op a[i]` when reversed, on raw bits.
///
/// # Errors
/// As [`apply_bits_tt`].
pub fn apply_bits_ts(
    op: AluOp,
    a: &[u64],
    scalar: u64,
    reverse: bool,
    width: u32,
    out: &mut [u64],
) -> Result<()> {
    check_bits(op, width)?;
    same_length(op, a.len(), out.len())?;
    for (out, &a) in out.iter_mut().zip(a) {
        let (a, b) = if reverse { (scalar, a) } else { (a, scalar) };
        *out = bit_op(op, a, b, width);
    }
    Ok(())
}

/// Folds raw bits in order, as [`reduce_f32`](super::reduce_f32) does numbers.
///
/// # Errors
/// As [`apply_bits`].
pub fn reduce_bits(op: AluOp, src: &[u64], init: Option<u64>, width: u32) -> Result<Option<u64>> {
    check_bits(op, width)?;
    let fold = |acc, &x| bit_op(op, acc, x, width);
    Ok(match (init, src.split_first()) {
        (Some(init), _) => Some(src.iter().fold(init, fold)),
        (None, Some((&first, rest))) => Some(rest.iter().fold(first, fold)),
        (None, None) => None,
    })
}

/// `a op b` in the integers of `dtype`. Base-band operations take the signedness of the dtype,
/// integer-band ones their own.
///
/// # Errors
/// Illegal instruction for an operation without integer form, or a dtype that is no integer.
pub fn apply_i64(op: AluOp, a: i64, b: i64, dtype: Dtype) -> Result<i64> {
    struct One(i64, i64);
    impl Use for One {
        type Out = i64;
        #[inline(always)]
        fn with(self, f: impl Fn(i64, i64) -> i64 + Copy) -> i64 {
            f(self.0, self.1)
        }
    }
    select(op, Width::of(dtype)?, One(a, b))
}

/// `out[i] = a[i] op b[i]` in the integers of `dtype`.
///
/// # Errors
/// As [`apply_i64`]; internal when the lengths differ.
pub fn apply_i64_tt(op: AluOp, a: &[i64], b: &[i64], dtype: Dtype, out: &mut [i64]) -> Result<()> {
    same_length(op, a.len(), b.len())?;
    same_length(op, a.len(), out.len())?;
    struct Slices<'a>(&'a [i64], &'a [i64], &'a mut [i64]);
    impl Use for Slices<'_> {
        type Out = ();
        #[inline(always)]
        fn with(self, f: impl Fn(i64, i64) -> i64 + Copy) {
            vectorize(|| {
                self.2.iter_mut().zip(self.0).zip(self.1).for_each(|((out, &a), &b)| *out = f(a, b))
            });
        }
    }
    select(op, Width::of(dtype)?, Slices(a, b, out))
}

/// `out[i] = a[i] op scalar`, or `scalar op a[i]` when reversed, in the integers of `dtype`.
///
/// # Errors
/// As [`apply_i64_tt`].
pub fn apply_i64_ts(
    op: AluOp,
    a: &[i64],
    scalar: i64,
    reverse: bool,
    dtype: Dtype,
    out: &mut [i64],
) -> Result<()> {
    same_length(op, a.len(), out.len())?;
    struct Slices<'a>(&'a [i64], i64, bool, &'a mut [i64]);
    impl Use for Slices<'_> {
        type Out = ();
        #[inline(always)]
        fn with(self, f: impl Fn(i64, i64) -> i64 + Copy) {
            let s = self.1;
            if self.2 {
                vectorize(|| self.3.iter_mut().zip(self.0).for_each(|(out, &a)| *out = f(s, a)));
            } else {
                vectorize(|| self.3.iter_mut().zip(self.0).for_each(|(out, &a)| *out = f(a, s)));
            }
        }
    }
    select(op, Width::of(dtype)?, Slices(a, scalar, reverse, out))
}

/// Folds integers in order, as [`reduce_f32`](super::reduce_f32) does numbers.
///
/// # Errors
/// As [`apply_i64`].
pub fn reduce_i64(op: AluOp, src: &[i64], init: Option<i64>, dtype: Dtype) -> Result<Option<i64>> {
    struct Fold<'a>(&'a [i64], Option<i64>);
    impl Use for Fold<'_> {
        type Out = Option<i64>;
        #[inline(always)]
        fn with(self, f: impl Fn(i64, i64) -> i64 + Copy) -> Option<i64> {
            match (self.1, self.0.split_first()) {
                (Some(init), _) => Some(self.0.iter().fold(init, |acc, &x| f(acc, x))),
                (None, Some((&first, rest))) => Some(rest.iter().fold(first, |acc, &x| f(acc, x))),
                (None, None) => None,
            }
        }
    }
    select(op, Width::of(dtype)?, Fold(src, init))
}

/// Index of the extreme element for the four argmax and argmin operations, `None` when `src` is
/// empty. OPEN: of equal elements the first, counted from 0.
///
/// # Errors
/// Illegal instruction for any other operation or a dtype that is no integer.
pub fn arg_reduce(op: AluOp, src: &[i64], dtype: Dtype) -> Result<Option<u32>> {
    let width = Width::of(dtype)?;
    let (width, largest) = match op {
        AluOp::AmaxInt => (width.as_signed(), true),
        AluOp::AminInt => (width.as_signed(), false),
        AluOp::AmaxUint => (width.as_unsigned(), true),
        AluOp::AminUint => (width.as_unsigned(), false),
        _ => return Err(op.unsupported("an argmax reduction")),
    };
    let mut best: Option<(usize, i64)> = None;
    for (i, &x) in src.iter().enumerate() {
        let better =
            best.is_none_or(|(_, y)| if largest { width.less(y, x) } else { width.less(x, y) });
        if better {
            best = Some((i, x));
        }
    }
    Ok(best.map(|(i, _)| i as u32))
}

/// The wide operations of v5: 64-bit result of two elements already extended to 64 bits, low word
/// and high word to be stored apart (wiki: firmware/kernels/intwide-bf16-extremes 3).
///
/// # Errors
/// Illegal instruction for an operation that has no wide form.
pub fn apply_wide(op: AluOp, a: i64, b: i64) -> Result<(u32, u32)> {
    let count = (b & 63) as u32;
    let full = match op {
        AluOp::AddInt => a.wrapping_add(b),
        AluOp::SubtractInt => a.wrapping_sub(b),
        AluOp::MultInt | AluOp::MultUint => a.wrapping_mul(b),
        AluOp::ArithShiftLeft | AluOp::LogicalShiftLeft => a << count,
        AluOp::ArithShiftRight => a >> count,
        AluOp::LogicalShiftRight => ((a as u64) >> count) as i64,
        _ => return Err(op.unsupported("wide integers")),
    };
    Ok((full as u32, (full >> 32) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_to_their_dtype() {
        let cases = [
            (AluOp::AddInt, 127, 1, Dtype::Int8, -128),
            (AluOp::AddInt, 255, 1, Dtype::Uint8, 0),
            (AluOp::SubtractInt, 0, 1, Dtype::Uint32, 0xFFFF_FFFF),
            (AluOp::MultInt, 1 << 20, 1 << 20, Dtype::Int32, 0),
            (AluOp::MultInt, i64::MAX, 2, Dtype::Int64, -2),
            (AluOp::AbsValueInt, -128, 0, Dtype::Int8, -128),
            (AluOp::AbsDiffInt, 127, -128, Dtype::Int8, -1),
            (AluOp::DivideInt, -7, 2, Dtype::Int32, -3),
            (AluOp::ModInt, -7, 2, Dtype::Int32, -1),
            (AluOp::Mod, -7, 2, Dtype::Int32, 1),
            (AluOp::DivideUint, -1, 2, Dtype::Uint64, i64::MAX),
            (AluOp::DivideInt, 5, 0, Dtype::Int32, 0),
            (AluOp::DivideUint, 5, 0, Dtype::Uint16, 0xFFFF),
            (AluOp::MaxInt, -1, 1, Dtype::Int32, 1),
            (AluOp::MaxUint, -1, 1, Dtype::Uint64, -1),
            (AluOp::Max, -1, 1, Dtype::Uint64, -1),
            (AluOp::IsGtUint, 0xFFFF_FFFF, 1, Dtype::Uint32, 1),
            (AluOp::IsGtInt, -1, 1, Dtype::Int32, 0),
            (AluOp::Square, -3, 0, Dtype::Int16, 9),
            (AluOp::ReLu, -3, 0, Dtype::Int16, 0),
            (AluOp::SymmetricClamp, -3, 5, Dtype::Int16, -5),
            (AluOp::SymmetricClamp, 7, -5, Dtype::Int16, 7),
            (AluOp::SymmetricClamp, 0, 5, Dtype::Uint8, 0),
            (AluOp::ArithShiftRight, -8, 1, Dtype::Int16, -4),
        ];
        for (op, a, b, dtype, want) in cases {
            assert_eq!(apply_i64(op, a, b, dtype).unwrap(), want, "{op} {a} {b} {dtype}");
        }
    }

    #[test]
    fn every_operation_runs_or_says_why_not() {
        for op in AluOp::all() {
            let bits = apply_bits(op, 5, 3, 16);
            assert_eq!(bits.is_ok(), op.is_general_bitvec(), "{op}");
            let int = apply_i64(op, 5, 3, Dtype::Int32);
            let float_only = matches!(op, AluOp::Divide | AluOp::Pow | AluOp::Rsqrt);
            let other = op == AluOp::Crc32;
            let index = op.name().starts_with('A') && arg_reduce(op, &[1], Dtype::Int32).is_ok();
            assert_eq!(int.is_err(), float_only || other || index, "{op}");
        }
    }

    #[test]
    fn shifts() {
        let shift = |op, a, b, width| apply_bits(op, a, b, width).unwrap();
        assert_eq!(shift(AluOp::LogicalShiftLeft, 0x81, 1, 8), 0x02);
        assert_eq!(shift(AluOp::ArithShiftRight, 0x81, 1, 8), 0xC0);
        assert_eq!(shift(AluOp::ArithShiftRight, 0x81, 200, 8), 0xFF);
        assert_eq!(shift(AluOp::LogicalShiftRight, 0x81, 8, 8), 0);
        assert_eq!(shift(AluOp::LogicalShiftLeft, 1, 33, 32), 2);
        assert_eq!(shift(AluOp::LogicalShiftLeft, 1, 63, 64), 1 << 63);
        assert_eq!(shift(AluOp::LogicalShiftLeft, 1, 64, 64), 0);
        assert!(AluOp::shift_pair_needs_four_bytes(
            AluOp::LogicalShiftLeft,
            AluOp::LogicalShiftRight
        ));
        assert!(!AluOp::shift_pair_needs_four_bytes(AluOp::LogicalShiftRight, AluOp::BitwiseAnd));
    }

    #[test]
    fn wide_results_have_two_words() {
        assert_eq!(apply_wide(AluOp::AddInt, 0xFFFF_FFFF, 1).unwrap(), (0, 1));
        assert_eq!(apply_wide(AluOp::SubtractInt, 0, 1).unwrap(), (u32::MAX, u32::MAX));
        assert_eq!(apply_wide(AluOp::MultInt, -2, 3).unwrap(), (0xFFFF_FFFA, u32::MAX));
        assert_eq!(apply_wide(AluOp::LogicalShiftLeft, 0x8000_0000, 4).unwrap(), (0, 8));
    }

    #[test]
    fn argmax_takes_the_first_of_equals() {
        let values = [3, -1, 3, -1];
        assert_eq!(arg_reduce(AluOp::AmaxInt, &values, Dtype::Int8).unwrap(), Some(0));
        assert_eq!(arg_reduce(AluOp::AminInt, &values, Dtype::Int8).unwrap(), Some(1));
        assert_eq!(arg_reduce(AluOp::AmaxUint, &values, Dtype::Int8).unwrap(), Some(1));
        assert!(arg_reduce(AluOp::Add, &values, Dtype::Int8).is_err());
    }
}

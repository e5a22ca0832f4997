//! Host floating point for the usual case: nearest even, and no flag that FSR could observe.
//!
//! Host binary32 addition and multiplication are IEEE operations, so their numbers are exact; NaN results
//! are left to the integer implementation, which knows the payload rules. fp16 goes through binary32:
//! products are exact there, and 24 bits are enough for the second rounding of a sum to be harmless. Fused
//! operations round the exact sum to odd in the next wider format first.

use super::softfloat::{F16, F32, RNE};
use crate::q7::regs::{RegFile, Vec512};

/// Whether host arithmetic may stand in: nearest even and all flags masked.
#[inline(always)]
pub(super) fn allowed(r: &RegFile) -> bool {
    r.round_mode() == RNE && r.observable_flags() == 0
}

/// Whole-register host arithmetic of a lane format. Each function returns false when some result is a
/// NaN; those lanes hold some NaN, not the right one.
pub(super) trait Host {
    /// `d = f(a, b)`; `f` must be an exact operation of one rounding.
    fn two(d: &mut Vec512, a: &Vec512, b: &Vec512, f: impl Fn(f32, f32) -> f32) -> bool;
    /// `d = c + a * b`, or `c - a * b`, one rounding.
    fn fused(d: &mut Vec512, c: &Vec512, a: &Vec512, b: &Vec512, negate: bool) -> bool;
}

impl Host for F32 {
    #[inline(always)]
    fn two(d: &mut Vec512, a: &Vec512, b: &Vec512, f: impl Fn(f32, f32) -> f32) -> bool {
        let mut nans = 0;
        for ((d, &a), &b) in d.u32s_mut().iter_mut().zip(a.u32s()).zip(b.u32s()) {
            let value = f(f32::from_bits(a), f32::from_bits(b));
            nans |= u32::from(value.is_nan());
            *d = value.to_bits();
        }
        nans == 0
    }

    #[inline(always)]
    fn fused(d: &mut Vec512, c: &Vec512, a: &Vec512, b: &Vec512, negate: bool) -> bool {
        let sign = if negate { 0x8000_0000 } else { 0 };
        let mut nans = 0;
        let sources = c.u32s().iter().zip(a.u32s()).zip(b.u32s());
        for (d, ((&c, &a), &b)) in d.u32s_mut().iter_mut().zip(sources) {
            // 24 by 24 bits: exact in binary64.
            let product = f64::from(f32::from_bits(a ^ sign)) * f64::from(f32::from_bits(b));
            let value = sum_to_odd64(product, f64::from(f32::from_bits(c))) as f32;
            nans |= u32::from(value.is_nan());
            *d = value.to_bits();
        }
        nans == 0
    }
}

impl Host for F16 {
    #[inline(always)]
    fn two(d: &mut Vec512, a: &Vec512, b: &Vec512, f: impl Fn(f32, f32) -> f32) -> bool {
        let (a, b) = (widen(a), widen(b));
        let mut wide = [0f32; 32];
        let mut nans = 0;
        for ((w, &a), &b) in wide.iter_mut().zip(&a).zip(&b) {
            *w = f(a, b);
            nans |= u32::from(w.is_nan());
        }
        narrow(d, &wide);
        nans == 0
    }

    #[inline(always)]
    fn fused(d: &mut Vec512, c: &Vec512, a: &Vec512, b: &Vec512, negate: bool) -> bool {
        let sign = if negate { -1.0 } else { 1.0 };
        let (c, a, b) = (widen(c), widen(a), widen(b));
        let mut wide = [0f32; 32];
        let mut nans = 0;
        for (w, ((&c, &a), &b)) in wide.iter_mut().zip(c.iter().zip(&a).zip(&b)) {
            // 11 by 11 bits: exact in binary32.
            *w = sum_to_odd32(sign * a * b, c);
            nans |= u32::from(w.is_nan());
        }
        narrow(d, &wide);
        nans == 0
    }
}

/// `x + y` rounded to odd: an inexact sum gets an odd last place, so that rounding it again is correct.
#[inline(always)]
fn sum_to_odd64(x: f64, y: f64) -> f64 {
    let sum = x + y;
    let back = sum - x;
    let error = (x - (sum - back)) + (y - back);
    let bits = sum.to_bits();
    let outward = (error > 0.0) == (sum > 0.0);
    let inexact = (error > 0.0) | (error < 0.0);
    let step = if outward { 1 } else { u64::MAX };
    f64::from_bits(if inexact & (bits & 1 == 0) { bits.wrapping_add(step) } else { bits })
}

/// [`sum_to_odd64`] in binary32.
#[inline(always)]
fn sum_to_odd32(x: f32, y: f32) -> f32 {
    let sum = x + y;
    let back = sum - x;
    let error = (x - (sum - back)) + (y - back);
    let bits = sum.to_bits();
    let outward = (error > 0.0) == (sum > 0.0);
    let inexact = (error > 0.0) | (error < 0.0);
    let step = if outward { 1 } else { u32::MAX };
    f32::from_bits(if inexact & (bits & 1 == 0) { bits.wrapping_add(step) } else { bits })
}

/// fp16 lanes as binary32. The exponent bias differs by 112, which a multiplication corrects for normal
/// and denormal numbers alike.
#[inline(always)]
fn widen(v: &Vec512) -> [f32; 32] {
    let mut wide = [0f32; 32];
    for (w, &h) in wide.iter_mut().zip(v.u16s()) {
        let h = u32::from(h);
        let magnitude = (h & 0x7fff) << 13;
        let number = (f32::from_bits(magnitude) * f32::from_bits(239 << 23)).to_bits();
        let special = magnitude | 0x7f80_0000;
        let bits = if magnitude >= 0x7c00 << 13 { special } else { number };
        *w = f32::from_bits(bits | (h & 0x8000) << 16);
    }
    wide
}

/// Binary32 to fp16 lanes, nearest even. A NaN becomes the default NaN.
#[inline(always)]
fn narrow(d: &mut Vec512, wide: &[f32; 32]) {
    for (d, &w) in d.u16s_mut().iter_mut().zip(wide) {
        *d = narrow_one(w) as u16;
    }
}

#[inline(always)]
fn narrow_one(w: f32) -> u32 {
    let bits = w.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal =
        (magnitude.wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13).wrapping_sub(112 << 10);
    // Adding one half leaves the denormal's multiple of 2^-24 in the low mantissa bits.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 113 << 23 { small } else { normal };
    // 65520 and above round to infinity.
    let number = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite };
    if magnitude > 0x7f80_0000 { 0x7e00 } else { number | bits >> 16 & 0x8000 }
}

/// Integer lanes (already widened) times `2^-scale`, as fp32 lanes.
#[inline(always)]
pub(super) fn from_int32(d: &mut Vec512, a: &Vec512, signed: bool, scale: u32) {
    let factor = f32::from_bits((127 - (scale & 31)) << 23);
    for (d, &a) in d.u32s_mut().iter_mut().zip(a.u32s()) {
        let value = if signed { a as i32 as f32 } else { a as f32 };
        *d = (value * factor).to_bits();
    }
}

/// Integer lanes times `2^-scale`, as fp16 lanes.
#[inline(always)]
pub(super) fn from_int16(d: &mut Vec512, a: &Vec512, signed: bool, scale: u32) {
    let factor = f32::from_bits((127 - (scale & 15)) << 23);
    let mut wide = [0f32; 32];
    for (w, &a) in wide.iter_mut().zip(a.u16s()) {
        // 16 bits are exact in binary32, and so is the scaling.
        *w = if signed { f32::from(a as i16) } else { f32::from(a) } * factor;
    }
    narrow(d, &wide);
}

/// fp32 lanes to fp16 in the low half of each lane.
#[inline(always)]
pub(super) fn narrow_in_place(d: &mut Vec512, a: &Vec512) {
    for (d, &a) in d.u32s_mut().iter_mut().zip(a.u32s()) {
        *d = narrow_one(f32::from_bits(a));
    }
}

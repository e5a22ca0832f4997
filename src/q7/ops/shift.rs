//! Shifts, rotates and normalisation amounts.
//!
//! Immediate amounts are unsigned fields that cannot exceed the lane. Per-lane amounts are 6-bit signed
//! (16-bit lanes) or 7-bit signed (32-bit lanes) fields; a negative amount shifts the other way, and
//! anything at or above the lane width clears or sign-fills. (wiki: isa/ref/b12-shift,
//! validation/reduce-shift-shuffle)

use super::OpDef;
use super::shape::*;
use crate::q7::regs::RegFile;

/// Operation with a lane and the immediate, `vt, vr, imm`.
macro_rules! lanes_imm {
    ($view:ident, $view_mut:ident, |$a:ident, $n:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &super::SlotOperands, out: &mut Out) {
            let $n = o.v[2];
            for (d, &$a) in out.vec[0].$view_mut().iter_mut().zip(r.v(o, 1).$view()) {
                *d = $e;
            }
        }
        exec
    }};
}

/// 6-bit signed amount of a 16-bit lane.
#[inline(always)]
pub fn amount16(lane: u16) -> i16 {
    (lane << 10) as i16 >> 10
}

/// 7-bit signed amount of a 32-bit lane.
#[inline(always)]
pub fn amount32(lane: u32) -> i32 {
    (lane << 25) as i32 >> 25
}

/// One conditional step of a barrel shifter: `shifted` if bit `k` of `n` is set.
#[inline(always)]
fn step(v: u16, shifted: u16, n: i16, k: u32) -> u16 {
    let mask = 0i16.wrapping_sub(n >> k & 1) as u16;
    shifted & mask | v & !mask
}

/// `v << n` for `n` in 0..=16. Steps of fixed distance vectorise where per-lane shifts do not.
#[inline(always)]
fn left16(v: u16, n: i16) -> u16 {
    let v = step(v, v << 1, n, 0);
    let v = step(v, v << 2, n, 1);
    let v = step(v, v << 4, n, 2);
    let v = step(v, v << 8, n, 3);
    step(v, 0, n, 4)
}

/// `v >> n` for `n` in 0..=16.
#[inline(always)]
fn right16(v: u16, n: i16) -> u16 {
    let v = step(v, v >> 1, n, 0);
    let v = step(v, v >> 2, n, 1);
    let v = step(v, v >> 4, n, 2);
    let v = step(v, v >> 8, n, 3);
    step(v, 0, n, 4)
}

/// Logical left shift by `n`, right when negative; over-shift clears.
#[inline(always)]
pub fn sll16(v: u16, n: i16) -> u16 {
    right16(left16(v, n.clamp(0, 16)), (-n).clamp(0, 16))
}

/// Logical right shift by `n`, left when negative; over-shift clears.
#[inline(always)]
pub fn srl16(v: u16, n: i16) -> u16 {
    sll16(v, -n)
}

/// Arithmetic right shift by `n`, logical left when negative; over-shift sign-fills or clears.
#[inline(always)]
pub fn sra16(v: u16, n: i16) -> u16 {
    let m = n.clamp(0, 15);
    let right = |v: u16, k: u32| step(v, (v as i16 >> (1 << k)) as u16, m, k);
    let v = right(right(right(right(v, 0), 1), 2), 3);
    left16(v, (-n).clamp(0, 16))
}

/// [`sll16`] for 32-bit lanes.
#[inline(always)]
pub fn sll32(v: u32, n: i32) -> u32 {
    let wide = u64::from(v);
    if n >= 0 { (wide << n.min(32)) as u32 } else { (wide >> n.unsigned_abs().min(32)) as u32 }
}

/// [`srl16`] for 32-bit lanes.
#[inline(always)]
pub fn srl32(v: u32, n: i32) -> u32 {
    sll32(v, -n)
}

/// [`sra16`] for 32-bit lanes.
#[inline(always)]
pub fn sra32(v: u32, n: i32) -> u32 {
    if n >= 0 { (v as i32 >> n.min(31)) as u32 } else { sll32(v, -n) }
}

/// Saturating left shift of a signed 16-bit value; no mnemonic is named for it.
pub fn sls16(v: i16, n: u32) -> i16 {
    let wide = i64::from(v) << n.min(40);
    wide.clamp(-0x8000, 0x7fff) as i16
}

/// Left shift that brings a signed value to full scale: leading sign bits minus one.
#[inline(always)]
pub fn nsa16(v: u16) -> u16 {
    let folded = v ^ (v as i16 >> 15) as u16;
    (folded.leading_zeros() - 1) as u16
}

/// [`nsa16`] for 32-bit lanes.
#[inline(always)]
pub fn nsa32(v: u32) -> u32 {
    (v ^ (v as i32 >> 31) as u32).leading_zeros() - 1
}

pub(super) static OPS: &[OpDef] = &[
    op("ivp_slli2nx8", V_VI3, lanes_imm!(u8s, u8s_mut, |a, n| a << (n & 7))),
    op("ivp_sllinx16", V_VI4, lanes_imm!(u16s, u16s_mut, |a, n| a << (n & 15))),
    op("ivp_sllin_2x32", V_VI5, lanes_imm!(u32s, u32s_mut, |a, n| a << (n & 31))),
    op("ivp_srli2nx8", V_VI3, lanes_imm!(u8s, u8s_mut, |a, n| a >> (n & 7))),
    op("ivp_srlinx16", V_VI4, lanes_imm!(u16s, u16s_mut, |a, n| a >> (n & 15))),
    op("ivp_srlin_2x32", V_VI5, lanes_imm!(u32s, u32s_mut, |a, n| a >> (n & 31))),
    op("ivp_srai2nx8", V_VI3, lanes_imm!(i8s, i8s_mut, |a, n| a >> (n & 7))),
    op("ivp_srainx16", V_VI4, lanes_imm!(i16s, i16s_mut, |a, n| a >> (n & 15))),
    op("ivp_srain_2x32", V_VI5, lanes_imm!(i32s, i32s_mut, |a, n| a >> (n & 31))),
    op("ivp_rotri2nx8", V_VI3, lanes_imm!(u8s, u8s_mut, |a, n| a.rotate_right(n & 7))),
    op("ivp_rotrinx16", V_VI4, lanes_imm!(u16s, u16s_mut, |a, n| a.rotate_right(n & 15))),
    op("ivp_rotrin_2x32", V_VI5, lanes_imm!(u32s, u32s_mut, |a, n| a.rotate_right(n & 31))),
    op("ivp_sllnx16", V_VRVS, lanes2!(u16s, u16s_mut, |a, n| sll16(a, amount16(n)))),
    op("ivp_slln_2x32", V_VRVS, lanes2!(u32s, u32s_mut, |a, n| sll32(a, amount32(n)))),
    op("ivp_srlnx16", V_VRVS, lanes2!(u16s, u16s_mut, |a, n| srl16(a, amount16(n)))),
    op("ivp_srln_2x32", V_VRVS, lanes2!(u32s, u32s_mut, |a, n| srl32(a, amount32(n)))),
    op("ivp_sranx16", V_VRVS, lanes2!(u16s, u16s_mut, |a, n| sra16(a, amount16(n)))),
    op("ivp_sran_2x32", V_VRVS, lanes2!(u32s, u32s_mut, |a, n| sra32(a, amount32(n)))),
    op("ivp_rotrnx16", V_VRVS, lanes2!(u16s, u16s_mut, |a, n| a.rotate_right(u32::from(n) & 15))),
    op("ivp_rotrn_2x32", V_VRVS, lanes2!(u32s, u32s_mut, |a, n| a.rotate_right(n & 31))),
    op("ivp_nsanx16", V_V, lanes1!(u16s, u16s_mut, |a| nsa16(a))),
    op("ivp_nsan_2x32", V_V, lanes1!(u32s, u32s_mut, |a| nsa32(a))),
    op("ivp_nsaunx16", V_V, lanes1!(u16s, u16s_mut, |a| a.leading_zeros() as u16)),
    op("ivp_nsaun_2x32", V_V, lanes1!(u32s, u32s_mut, |a| a.leading_zeros())),
];

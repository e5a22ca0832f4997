//! Integer vector ALU: 8, 16 and 32-bit lanes, logic, averages, and the predicated forms.
//!
//! Lanes never interact. Results wrap at the lane width unless the mnemonic carries the saturating
//! `s`, which exists for 16-bit lanes only. (wiki: isa/ref/b01-vec-alu-int, iss/cas-arith-sem)

use super::OpDef;
use super::shape::*;

/// `sat_16(|a - b|)`. OPEN: the clamp value is inferred by the source.
fn abs_sub_sat(a: i16, b: i16) -> i16 {
    (i32::from(a) - i32::from(b)).abs().min(0x7fff) as i16
}

/// Second operand times the sign (-1, 0, +1) of the first.
///
/// OPEN: which operand supplies the sign. One page says the first source, another the second; library
/// code of the vendor passes the signed original first and its magnitude second.
/// (wiki: isa/ref/b05-mac-mixed)
fn mul_sign(a: i16, b: i16) -> i16 {
    a.signum().wrapping_mul(b)
}

fn mul_sign_sat(a: i16, b: i16) -> i16 {
    a.signum().saturating_mul(b)
}

const MINORMAX: &str = "which value of the selector bit picks the minimum";

/// Average in a wider type, rounded down, or half up if one is added.
macro_rules! average {
    ($view:ident, $view_mut:ident, $lane:ty, $wide:ty, $round:literal) => {
        lanes2!($view, $view_mut, |a, b| {
            ((<$wide>::from(a) + <$wide>::from(b) + $round) >> 1) as $lane
        })
    };
}

pub(super) static OPS: &[OpDef] = &[
    // a + b
    op("ivp_add2nx8", V_VV, lanes2!(u8s, u8s_mut, |a, b| a.wrapping_add(b))),
    op("ivp_addnx16", V_VV, lanes2!(u16s, u16s_mut, |a, b| a.wrapping_add(b))),
    op("ivp_addn_2x32", V_VV, lanes2!(u32s, u32s_mut, |a, b| a.wrapping_add(b))),
    op("ivp_addsnx16", V_VV, lanes2!(i16s, i16s_mut, |a, b| a.saturating_add(b))),
    // a - b
    op("ivp_sub2nx8", V_VV, lanes2!(u8s, u8s_mut, |a, b| a.wrapping_sub(b))),
    op("ivp_subnx16", V_VV, lanes2!(u16s, u16s_mut, |a, b| a.wrapping_sub(b))),
    op("ivp_subn_2x32", V_VV, lanes2!(u32s, u32s_mut, |a, b| a.wrapping_sub(b))),
    op("ivp_subsnx16", V_VV, lanes2!(i16s, i16s_mut, |a, b| a.saturating_sub(b))),
    // |a|; the minimum maps to itself, except in the saturating form
    op("ivp_abs2nx8", V_V, lanes1!(i8s, i8s_mut, |a| a.wrapping_abs())),
    op("ivp_absnx16", V_V, lanes1!(i16s, i16s_mut, |a| a.wrapping_abs())),
    op("ivp_absn_2x32", V_V, lanes1!(i32s, i32s_mut, |a| a.wrapping_abs())),
    op("ivp_abssnx16", V_V, lanes1!(i16s, i16s_mut, |a| a.saturating_abs())),
    // -a
    op("ivp_neg2nx8", V_V, lanes1!(u8s, u8s_mut, |a| a.wrapping_neg())),
    op("ivp_negnx16", V_V, lanes1!(u16s, u16s_mut, |a| a.wrapping_neg())),
    op("ivp_negn_2x32", V_V, lanes1!(u32s, u32s_mut, |a| a.wrapping_neg())),
    op("ivp_negsnx16", V_V, lanes1!(i16s, i16s_mut, |a| a.saturating_neg())),
    // signed and unsigned extremum
    op("ivp_min2nx8", V_VV, lanes2!(i8s, i8s_mut, |a, b| a.min(b))),
    op("ivp_minnx16", V_VV, lanes2!(i16s, i16s_mut, |a, b| a.min(b))),
    op("ivp_minn_2x32", V_VV, lanes2!(i32s, i32s_mut, |a, b| a.min(b))),
    op("ivp_minu2nx8", V_VV, lanes2!(u8s, u8s_mut, |a, b| a.min(b))),
    op("ivp_minunx16", V_VV, lanes2!(u16s, u16s_mut, |a, b| a.min(b))),
    op("ivp_minun_2x32", V_VV, lanes2!(u32s, u32s_mut, |a, b| a.min(b))),
    op("ivp_max2nx8", V_VV, lanes2!(i8s, i8s_mut, |a, b| a.max(b))),
    op("ivp_maxnx16", V_VV, lanes2!(i16s, i16s_mut, |a, b| a.max(b))),
    op("ivp_maxn_2x32", V_VV, lanes2!(i32s, i32s_mut, |a, b| a.max(b))),
    op("ivp_maxu2nx8", V_VV, lanes2!(u8s, u8s_mut, |a, b| a.max(b))),
    op("ivp_maxunx16", V_VV, lanes2!(u16s, u16s_mut, |a, b| a.max(b))),
    op("ivp_maxun_2x32", V_VV, lanes2!(u32s, u32s_mut, |a, b| a.max(b))),
    // logic on all 512 bits
    op("ivp_and2nx8", V_VV, lanes2!(u64s, u64s_mut, |a, b| a & b)),
    op("ivp_or2nx8", V_VV, lanes2!(u64s, u64s_mut, |a, b| a | b)),
    op("ivp_xor2nx8", V_VV, lanes2!(u64s, u64s_mut, |a, b| a ^ b)),
    op("ivp_not2nx8", V_V, lanes1!(u64s, u64s_mut, |a| !a)),
    // |a - b|, wrapping
    op("ivp_abssubnx16", V_VV, lanes2!(i16s, u16s_mut, |a, b| a.abs_diff(b))),
    op("ivp_abssub2nx8", V_VV, lanes2!(i8s, u8s_mut, |a, b| a.abs_diff(b))),
    op("ivp_abssubunx16", V_VV, lanes2!(u16s, u16s_mut, |a, b| a.abs_diff(b))),
    op("ivp_abssubu2nx8", V_VV, lanes2!(u8s, u8s_mut, |a, b| a.abs_diff(b))),
    op("ivp_absssubnx16", V_VV, lanes2!(i16s, i16s_mut, |a, b| abs_sub_sat(a, b))),
    // (a + b) >> 1 and (a + b + 1) >> 1, with one extra bit
    op("ivp_avgnx16", V_VV, average!(i16s, i16s_mut, i16, i32, 0)),
    op("ivp_avg2nx8", V_VV, average!(i8s, i8s_mut, i8, i16, 0)),
    op("ivp_avgrnx16", V_VV, average!(i16s, i16s_mut, i16, i32, 1)),
    op("ivp_avgr2nx8", V_VV, average!(i8s, i8s_mut, i8, i16, 1)),
    op("ivp_avgunx16", V_VV, average!(u16s, u16s_mut, u16, u32, 0)),
    op("ivp_avgu2nx8", V_VV, average!(u8s, u8s_mut, u8, u16, 0)),
    op("ivp_avgrunx16", V_VV, average!(u16s, u16s_mut, u16, u32, 1)),
    op("ivp_avgru2nx8", V_VV, average!(u8s, u8s_mut, u8, u16, 1)),
    op("ivp_mulsgnnx16", V_VV, lanes2!(i16s, i16s_mut, |a, b| mul_sign(a, b))),
    op("ivp_mulsgnsnx16", V_VV, lanes2!(i16s, i16s_mut, |a, b| mul_sign_sat(a, b))),
    missing("ivp_minormax2nx8", V_VVB, MINORMAX, "wiki: iss/cas-arith-sem"),
    missing("ivp_minormaxu2nx8", V_VVB, MINORMAX, "wiki: iss/cas-arith-sem"),
    // predicated forms keep the old destination where the predicate is clear
    op("ivp_add2nx8t", VM_VVB, predicated!(1, 3, lanes2!(u8s, u8s_mut, |a, b| a.wrapping_add(b)))),
    op(
        "ivp_addnx16t",
        VM_VVB,
        predicated!(2, 3, lanes2!(u16s, u16s_mut, |a, b| a.wrapping_add(b))),
    ),
    op(
        "ivp_addn_2x32t",
        VM_VVB,
        predicated!(4, 3, lanes2!(u32s, u32s_mut, |a, b| a.wrapping_add(b))),
    ),
    op(
        "ivp_addsnx16t",
        VM_VVB,
        predicated!(2, 3, lanes2!(i16s, i16s_mut, |a, b| a.saturating_add(b))),
    ),
    op("ivp_sub2nx8t", VM_VVB, predicated!(1, 3, lanes2!(u8s, u8s_mut, |a, b| a.wrapping_sub(b)))),
    op(
        "ivp_subnx16t",
        VM_VVB,
        predicated!(2, 3, lanes2!(u16s, u16s_mut, |a, b| a.wrapping_sub(b))),
    ),
    op(
        "ivp_subn_2x32t",
        VM_VVB,
        predicated!(4, 3, lanes2!(u32s, u32s_mut, |a, b| a.wrapping_sub(b))),
    ),
    op(
        "ivp_subsnx16t",
        VM_VVB,
        predicated!(2, 3, lanes2!(i16s, i16s_mut, |a, b| a.saturating_sub(b))),
    ),
    op("ivp_maxnx16t", VM_VVB, predicated!(2, 3, lanes2!(i16s, i16s_mut, |a, b| a.max(b)))),
    op("ivp_maxunx16t", VM_VVB, predicated!(2, 3, lanes2!(u16s, u16s_mut, |a, b| a.max(b)))),
    op("ivp_minnx16t", VM_VVB, predicated!(2, 3, lanes2!(i16s, i16s_mut, |a, b| a.min(b)))),
    op("ivp_minunx16t", VM_VVB, predicated!(2, 3, lanes2!(u16s, u16s_mut, |a, b| a.min(b)))),
    op("ivp_negnx16t", VM_VB, predicated!(2, 2, lanes1!(u16s, u16s_mut, |a| a.wrapping_neg()))),
    op("ivp_negsnx16t", VM_VB, predicated!(2, 2, lanes1!(i16s, i16s_mut, |a| a.saturating_neg()))),
];

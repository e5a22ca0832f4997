//! Integer compares into vbool, and the ALU forms that return data plus a flag.
//!
//! A true lane writes its whole vbool field. (wiki: isa/ref/b03-vec-alu-rest)

use super::OpDef;
use super::shape::*;
use crate::q7::regs::{RegFile, Vec512};

/// Compare `vbt, vs, vr`.
macro_rules! compare {
    ($view:ident, $mask_mut:ident, $mask:ty, |$a:ident, $b:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &super::SlotOperands, out: &mut Out) {
            let (a, b) = (r.v(o, 1).$view(), r.v(o, 2).$view());
            let mut mask = Vec512::ZERO;
            for ((m, &$a), &$b) in mask.$mask_mut().iter_mut().zip(a).zip(b) {
                *m = <$mask>::from($e).wrapping_neg();
            }
            out.vbool = bits_of_bytes(&mask);
        }
        exec
    }};
}

/// Data and flag of two sources, `vt, vbt, vs, vr`.
macro_rules! flagged2 {
    ($view:ident, $view_mut:ident, $mask_mut:ident, $mask:ty, |$a:ident, $b:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &super::SlotOperands, out: &mut Out) {
            let (a, b) = (r.v(o, 2).$view(), r.v(o, 3).$view());
            let mut mask = Vec512::ZERO;
            let lanes = out.vec[0].$view_mut().iter_mut().zip(mask.$mask_mut());
            for (((d, m), &$a), &$b) in lanes.zip(a).zip(b) {
                let (value, flag) = $e;
                *d = value;
                *m = <$mask>::from(flag).wrapping_neg();
            }
            out.vbool = bits_of_bytes(&mask);
        }
        exec
    }};
}

/// `|a|` and `a < 0`, operands `vt, vbt, vr`.
macro_rules! flagged_abs {
    ($view:ident, $view_mut:ident, $mask_mut:ident, $mask:ty) => {{
        fn exec(r: &RegFile, o: &super::SlotOperands, out: &mut Out) {
            let mut mask = Vec512::ZERO;
            let lanes = out.vec[0].$view_mut().iter_mut().zip(mask.$mask_mut());
            for ((d, m), &a) in lanes.zip(r.v(o, 2).$view()) {
                *d = a.wrapping_abs();
                *m = <$mask>::from(a < 0).wrapping_neg();
            }
            out.vbool = bits_of_bytes(&mask);
        }
        exec
    }};
}

/// Halves a 17-bit sum that overflowed 16 bits and says so.
#[inline(always)]
fn normalised(sum: i32) -> (i16, bool) {
    let overflow = i32::from(sum as i16) != sum;
    (if overflow { sum >> 1 } else { sum } as i16, overflow)
}

/// `|a - b|` and `flag_in ^ (a < b)`; the flag register is read and written.
fn xor_abs_sub(r: &RegFile, o: &super::SlotOperands, out: &mut Out) {
    const BASE: super::OpFn = flagged2!(u8s, u8s_mut, u8s_mut, u8, |a, b| (a.abs_diff(b), a < b));
    BASE(r, o, out);
    out.vbool ^= r.vb(o, 1);
}

pub(super) static OPS: &[OpDef] = &[
    op("ivp_eq2nx8", B_VV, compare!(u8s, u8s_mut, u8, |a, b| a == b)),
    op("ivp_eqnx16", B_VV, compare!(u16s, u16s_mut, u16, |a, b| a == b)),
    op("ivp_eqn_2x32", B_VV, compare!(u32s, u32s_mut, u32, |a, b| a == b)),
    op("ivp_neq2nx8", B_VV, compare!(u8s, u8s_mut, u8, |a, b| a != b)),
    op("ivp_neqnx16", B_VV, compare!(u16s, u16s_mut, u16, |a, b| a != b)),
    op("ivp_neqn_2x32", B_VV, compare!(u32s, u32s_mut, u32, |a, b| a != b)),
    op("ivp_le2nx8", B_VV, compare!(i8s, u8s_mut, u8, |a, b| a <= b)),
    op("ivp_lenx16", B_VV, compare!(i16s, u16s_mut, u16, |a, b| a <= b)),
    op("ivp_len_2x32", B_VV, compare!(i32s, u32s_mut, u32, |a, b| a <= b)),
    op("ivp_leu2nx8", B_VV, compare!(u8s, u8s_mut, u8, |a, b| a <= b)),
    op("ivp_leunx16", B_VV, compare!(u16s, u16s_mut, u16, |a, b| a <= b)),
    op("ivp_leun_2x32", B_VV, compare!(u32s, u32s_mut, u32, |a, b| a <= b)),
    op("ivp_lt2nx8", B_VV, compare!(i8s, u8s_mut, u8, |a, b| a < b)),
    op("ivp_ltnx16", B_VV, compare!(i16s, u16s_mut, u16, |a, b| a < b)),
    op("ivp_ltn_2x32", B_VV, compare!(i32s, u32s_mut, u32, |a, b| a < b)),
    op("ivp_ltu2nx8", B_VV, compare!(u8s, u8s_mut, u8, |a, b| a < b)),
    op("ivp_ltunx16", B_VV, compare!(u16s, u16s_mut, u16, |a, b| a < b)),
    op("ivp_ltun_2x32", B_VV, compare!(u32s, u32s_mut, u32, |a, b| a < b)),
    // maximum, flag: a strictly greater
    op("ivp_bmax2nx8", VB_VV, flagged2!(i8s, i8s_mut, u8s_mut, u8, |a, b| (a.max(b), a > b))),
    op("ivp_bmaxnx16", VB_VV, flagged2!(i16s, i16s_mut, u16s_mut, u16, |a, b| (a.max(b), a > b))),
    op("ivp_bmaxn_2x32", VB_VV, flagged2!(i32s, i32s_mut, u32s_mut, u32, |a, b| (a.max(b), a > b))),
    op("ivp_bmaxu2nx8", VB_VV, flagged2!(u8s, u8s_mut, u8s_mut, u8, |a, b| (a.max(b), a > b))),
    op("ivp_bmaxunx16", VB_VV, flagged2!(u16s, u16s_mut, u16s_mut, u16, |a, b| (a.max(b), a > b))),
    op(
        "ivp_bmaxun_2x32",
        VB_VV,
        flagged2!(u32s, u32s_mut, u32s_mut, u32, |a, b| (a.max(b), a > b)),
    ),
    // minimum, flag: a strictly less
    op("ivp_bmin2nx8", VB_VV, flagged2!(i8s, i8s_mut, u8s_mut, u8, |a, b| (a.min(b), a < b))),
    op("ivp_bminnx16", VB_VV, flagged2!(i16s, i16s_mut, u16s_mut, u16, |a, b| (a.min(b), a < b))),
    op("ivp_bminn_2x32", VB_VV, flagged2!(i32s, i32s_mut, u32s_mut, u32, |a, b| (a.min(b), a < b))),
    op("ivp_bminu2nx8", VB_VV, flagged2!(u8s, u8s_mut, u8s_mut, u8, |a, b| (a.min(b), a < b))),
    op("ivp_bminunx16", VB_VV, flagged2!(u16s, u16s_mut, u16s_mut, u16, |a, b| (a.min(b), a < b))),
    op(
        "ivp_bminun_2x32",
        VB_VV,
        flagged2!(u32s, u32s_mut, u32s_mut, u32, |a, b| (a.min(b), a < b)),
    ),
    // |a|, flag: a negative
    op("ivp_babs2nx8", VB_V, flagged_abs!(i8s, i8s_mut, u8s_mut, u8)),
    op("ivp_babsnx16", VB_V, flagged_abs!(i16s, i16s_mut, u16s_mut, u16)),
    op("ivp_babsn_2x32", VB_V, flagged_abs!(i32s, i32s_mut, u32s_mut, u32)),
    // |a - b|, flag: a less than b
    op(
        "ivp_babssub2nx8",
        VB_VV,
        flagged2!(i8s, u8s_mut, u8s_mut, u8, |a, b| (a.abs_diff(b), a < b)),
    ),
    op(
        "ivp_babssubnx16",
        VB_VV,
        flagged2!(i16s, u16s_mut, u16s_mut, u16, |a, b| (a.abs_diff(b), a < b)),
    ),
    op(
        "ivp_babssubu2nx8",
        VB_VV,
        flagged2!(u8s, u8s_mut, u8s_mut, u8, |a, b| (a.abs_diff(b), a < b)),
    ),
    op(
        "ivp_babssubunx16",
        VB_VV,
        flagged2!(u16s, u16s_mut, u16s_mut, u16, |a, b| (a.abs_diff(b), a < b)),
    ),
    op("ivp_bxorabssubu2nx8", VBM_VV, xor_abs_sub),
    // sum or difference, halved on overflow, flag: overflow
    op(
        "ivp_baddnormnx16",
        VB_VV,
        flagged2!(i16s, i16s_mut, u16s_mut, u16, |a, b| normalised(i32::from(a) + i32::from(b))),
    ),
    op(
        "ivp_bsubnormnx16",
        VB_VV,
        flagged2!(i16s, i16s_mut, u16s_mut, u16, |a, b| normalised(i32::from(a) - i32::from(b))),
    ),
];

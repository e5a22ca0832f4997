//! Select, shuffle, dual select and expand.
//!
//! A select draws lanes from the pool `vs` (low half) followed by `vr` (high half); a shuffle from one
//! register. Control lanes are as wide as the data and only their low index bits count.
//! (wiki: isa/ref/b21-select-shuffle, validation/reduce-shift-shuffle)

use super::shape::*;
use super::{OpDef, SlotOperands};
use crate::q7::regs::RegFile;

/// One selection: `vt, vs, vr, sr`.
macro_rules! sel {
    ($view:ident, $view_mut:ident, $n:literal, $vs:literal, $out:literal, |$c:ident| $index:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let mut pool = [0; 2 * $n];
            pool[..$n].copy_from_slice(r.v(o, $vs).$view());
            pool[$n..].copy_from_slice(r.v(o, $vs + 1).$view());
            for (d, &$c) in out.vec[$out].$view_mut().iter_mut().zip(r.v(o, $vs + 2).$view()) {
                *d = pool[($index) as usize & (2 * $n - 1)];
            }
        }
        exec
    }};
}

/// `vt, vr, sr`.
macro_rules! shfl {
    ($view:ident, $view_mut:ident, $n:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let pool = r.v(o, 1).$view();
            for (d, &c) in out.vec[0].$view_mut().iter_mut().zip(r.v(o, 2).$view()) {
                *d = pool[c as usize & ($n - 1)];
            }
        }
        exec
    }};
}

/// Two selections from one pool, `vu, vt, vs, vr, sr`.
///
/// OPEN: the low part of a control lane is the index for `vt`, the high part that for `vu` (bytes of a
/// 16-bit lane, half-words of a 32-bit lane). Plain indices leave `vu` at pool lane 0, as observed, and
/// library code passes 64 control bytes whose even ones belong to the second result.
macro_rules! dsel {
    ($view:ident, $view_mut:ident, $n:literal, $shift:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            const HIGH: super::OpFn = sel!($view, $view_mut, $n, 2, 0, |c| c >> $shift);
            const LOW: super::OpFn = sel!($view, $view_mut, $n, 2, 1, |c| c);
            HIGH(r, o, out);
            LOW(r, o, out);
        }
        exec
    }};
}

/// Predicated dual select: both destinations keep the lanes whose predicate is clear.
macro_rules! dsel_t {
    ($field:literal, $base:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            const BASE: super::OpFn = $base;
            BASE(r, o, out);
            merge(&mut out.vec[0], r.v(o, 0), r.vb(o, 5), $field);
            merge(&mut out.vec[1], r.v(o, 1), r.vb(o, 5), $field);
        }
        exec
    }};
}

/// Expand: lane `k` takes the next source byte if its predicate is set, else source byte 63.
fn expand(r: &RegFile, o: &SlotOperands, out: &mut Out) {
    let (source, mask) = (*r.v(o, 1).u8s(), r.vb(o, 2));
    let mut next = 0;
    for (k, d) in out.vec[0].u8s_mut().iter_mut().enumerate() {
        let set = (mask >> k & 1) as usize;
        *d = source[if set == 1 { next & 63 } else { 63 }];
        next += set;
    }
}

const SEL_IMM: &str = "the byte permutation that each immediate selects";
const B21: &str = "wiki: isa/ref/b21-select-shuffle";

pub(super) static OPS: &[OpDef] = &[
    op("ivp_sel2nx8", V_VVC, sel!(u8s, u8s_mut, 64, 1, 0, |c| c)),
    op("ivp_selnx16", V_VVC, sel!(u16s, u16s_mut, 32, 1, 0, |c| c)),
    op("ivp_seln_2x32", V_VVC, sel!(u32s, u32s_mut, 16, 1, 0, |c| c)),
    op("ivp_sel2nx8t", VM_VVCB, predicated!(1, 4, sel!(u8s, u8s_mut, 64, 1, 0, |c| c))),
    op("ivp_selnx16t", VM_VVCB, predicated!(2, 4, sel!(u16s, u16s_mut, 32, 1, 0, |c| c))),
    op("ivp_seln_2x32t", VM_VVCB, predicated!(4, 4, sel!(u32s, u32s_mut, 16, 1, 0, |c| c))),
    op("ivp_shfl2nx8", V_VC, shfl!(u8s, u8s_mut, 64)),
    op("ivp_shflnx16", V_VC, shfl!(u16s, u16s_mut, 32)),
    op("ivp_shfln_2x32", V_VC, shfl!(u32s, u32s_mut, 16)),
    op("ivp_dselnx16", VV_VVC, dsel!(u16s, u16s_mut, 32, 8)),
    op("ivp_dseln_2x32", VV_VVC, dsel!(u32s, u32s_mut, 16, 16)),
    op("ivp_dselnx16t", VV_VVCB, dsel_t!(2, dsel!(u16s, u16s_mut, 32, 8))),
    op("ivp_dseln_2x32t", VV_VVCB, dsel_t!(4, dsel!(u32s, u32s_mut, 16, 16))),
    op("ivp_dcmprs2nx8", V_VB, expand),
    missing("ivp_sel2nx8i", V_VVI7, SEL_IMM, B21),
    missing("ivp_sel2nx8i_s0", V_VVI7, SEL_IMM, B21),
    missing("ivp_sel2nx8i_s4", V_VVI7, SEL_IMM, B21),
    missing("ivp_shfl2nx8i", V_VI7, SEL_IMM, B21),
    missing("ivp_shfl2nx8i_s2", V_VI7, SEL_IMM, B21),
    missing("ivp_shfl2nx8i_s4", V_VI7, SEL_IMM, B21),
    missing("ivp_dsel2nx8i", VV_VVI4, SEL_IMM, B21),
    missing("ivp_dsel2nx8i_h", VV_VVI2, SEL_IMM, B21),
];

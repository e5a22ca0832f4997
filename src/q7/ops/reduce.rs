//! Reductions over a whole vector: sums, extrema, and extrema with a mask of the winning lanes.
//!
//! OPEN (placement): a sum or extremum goes to the lowest lane and the rest of the destination is zero;
//! an RB value goes to every lane. A predicated reduction folds the active lanes only; with none, a sum
//! is zero and an extremum the worst value of its kind.
//! (wiki: isa/ref/b08-reduce, validation/reduce-shift-shuffle)

use super::fp::{Lanes, active};
use super::shape::*;
use super::softfloat::{self as sf, F16, F32};
use super::{OpDef, SlotOperands};
use crate::q7::regs::{RegFile, Vec512};

/// Writes `value` to the lowest bytes of the destination and clears the rest.
#[inline(always)]
fn lowest(out: &mut Out, value: u32) {
    out.vec[0] = Vec512::ZERO;
    out.vec[0].u32s_mut()[0] = value;
}

/// Source lanes with inactive ones replaced; predicate position 0 means none.
#[inline(always)]
fn masked(r: &RegFile, o: &SlotOperands, predicate: usize, field: u32, instead: &Vec512) -> Vec512 {
    let mut lanes = *r.v(o, 1);
    if predicate != 0 {
        merge(&mut lanes, instead, r.vb(o, predicate), field);
    }
    lanes
}

/// Sum of lanes, kept to `$mask`.
macro_rules! sum {
    ($view:ident, $field:literal, $p:literal, $mask:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let lanes = masked(r, o, $p, $field, &Vec512::ZERO);
            let total = lanes.$view().iter().fold(0u32, |sum, &lane| sum.wrapping_add(lane as u32));
            lowest(out, total & $mask);
        }
        exec
    }};
}

/// Sum clamped to 16 signed bits. 32 lanes cannot overflow the 32-bit accumulator.
macro_rules! sum_sat {
    ($p:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let lanes = masked(r, o, $p, 2, &Vec512::ZERO);
            let total: i32 = lanes.i16s().iter().map(|&lane| i32::from(lane)).sum();
            lowest(out, total.clamp(-0x8000, 0x7fff) as u16 as u32);
        }
        exec
    }};
}

/// Extremum of integer lanes.
macro_rules! extremum {
    ($view:ident, $from:ident, $n:literal, $lane:ty, $unsigned:ty, $field:literal, $p:literal, $pick:ident, $identity:ident) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let lanes = masked(r, o, $p, $field, &Vec512::$from([<$lane>::$identity; $n]));
            let best =
                lanes.$view().iter().fold(<$lane>::$identity, |best, &lane| best.$pick(lane));
            lowest(out, best as $unsigned as u32);
        }
        exec
    }};
}

/// Extremum of integer lanes in every lane, and the mask of all lanes that hold it.
macro_rules! flagged {
    ($view:ident, $from:ident, $n:literal, $lane:ty, $mask_mut:ident, $mask:ty, $pick:ident, $identity:ident) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            // Operands are vt, vbt, vr.
            let lanes = r.v(o, 2).$view();
            let best = lanes.iter().fold(<$lane>::$identity, |best, &lane| best.$pick(lane));
            let mut mask = Vec512::ZERO;
            for (m, &lane) in mask.$mask_mut().iter_mut().zip(lanes) {
                *m = <$mask>::from(lane == best).wrapping_neg();
            }
            out.vec[0] = Vec512::$from([best; $n]);
            out.vbool = bits_of_bytes(&mask);
        }
        exec
    }};
}

/// Fold of fp lanes by maxNum or minNum: value and flags.
fn fold_num<F: Lanes>(lanes: &Vec512, mask: u64, maximum: bool) -> sf::Flagged {
    let mut best: Option<u32> = None;
    let mut flags = 0;
    for i in (0..F::N).filter(|&i| mask >> (i as u32 * F::FIELD) & 1 == 1) {
        let lane = F::get(lanes, i);
        flags |= sf::snan_flag::<F>(lane);
        best = Some(best.map_or(lane, |b| sf::min_max_num::<F>(b, lane, maximum).0));
    }
    // No active lane: the worst value of the kind.
    (best.unwrap_or(if maximum { F::SIGN | F::INF } else { F::INF }), flags)
}

macro_rules! extremum_num {
    ($f:ty, $p:literal, $maximum:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let (value, flags) = fold_num::<$f>(r.v(o, 1), active(r, o, $p), $maximum);
            lowest(out, value);
            out.flags = flags;
        }
        exec
    }};
}

/// OPEN: a lane is marked when its bits equal the extremum's; NaN lanes are never marked.
macro_rules! flagged_num {
    ($f:ty, $p:literal, $maximum:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let (lanes, mask) = (r.v(o, 2), active(r, o, $p));
            let (value, flags) = fold_num::<$f>(lanes, mask, $maximum);
            let field = (1u64 << <$f>::FIELD) - 1;
            out.vbool = 0;
            for i in 0..<$f>::N {
                let lane = <$f>::get(lanes, i);
                let on = mask >> (i as u32 * <$f>::FIELD) & 1 == 1;
                if on && lane == value && !sf::is_nan::<$f>(lane) {
                    out.vbool |= field << (i as u32 * <$f>::FIELD);
                }
            }
            for i in 0..<$f>::N {
                <$f>::set(&mut out.vec[0], i, value);
            }
            out.flags = flags;
        }
        exec
    }};
}

pub(super) static OPS: &[OpDef] = &[
    // sums widen: 16-bit lanes to 32 bits, 8-bit lanes to 16 bits
    op("ivp_radd2nx8", V_V, sum!(i8s, 1, 0, 0xffff)),
    op("ivp_raddnx16", V_V, sum!(i16s, 2, 0, 0xffff_ffff)),
    op("ivp_raddn_2x32", V_V, sum!(u32s, 4, 0, 0xffff_ffff)),
    op("ivp_raddu2nx8", V_V, sum!(u8s, 1, 0, 0xffff)),
    op("ivp_raddunx16", V_V, sum!(u16s, 2, 0, 0xffff_ffff)),
    op("ivp_raddsnx16", V_V, sum_sat!(0)),
    op("ivp_radd2nx8t", VM_VB, sum!(i8s, 1, 2, 0xffff)),
    op("ivp_raddnx16t", VM_VB, sum!(i16s, 2, 2, 0xffff_ffff)),
    op("ivp_raddn_2x32t", VM_VB, sum!(u32s, 4, 2, 0xffff_ffff)),
    op("ivp_raddu2nx8t", VM_VB, sum!(u8s, 1, 2, 0xffff)),
    op("ivp_raddunx16t", VM_VB, sum!(u16s, 2, 2, 0xffff_ffff)),
    op("ivp_raddsnx16t", VM_VB, sum_sat!(2)),
    // extrema
    op("ivp_rmax2nx8", V_V, extremum!(i8s, from_i8s, 64, i8, u8, 1, 0, max, MIN)),
    op("ivp_rmaxnx16", V_V, extremum!(i16s, from_i16s, 32, i16, u16, 2, 0, max, MIN)),
    op("ivp_rmaxn_2x32", V_V, extremum!(i32s, from_i32s, 16, i32, u32, 4, 0, max, MIN)),
    op("ivp_rmaxu2nx8", V_V, extremum!(u8s, from_u8s, 64, u8, u8, 1, 0, max, MIN)),
    op("ivp_rmaxunx16", V_V, extremum!(u16s, from_u16s, 32, u16, u16, 2, 0, max, MIN)),
    op("ivp_rmaxun_2x32", V_V, extremum!(u32s, from_u32s, 16, u32, u32, 4, 0, max, MIN)),
    op("ivp_rmin2nx8", V_V, extremum!(i8s, from_i8s, 64, i8, u8, 1, 0, min, MAX)),
    op("ivp_rminnx16", V_V, extremum!(i16s, from_i16s, 32, i16, u16, 2, 0, min, MAX)),
    op("ivp_rminn_2x32", V_V, extremum!(i32s, from_i32s, 16, i32, u32, 4, 0, min, MAX)),
    op("ivp_rminu2nx8", V_V, extremum!(u8s, from_u8s, 64, u8, u8, 1, 0, min, MAX)),
    op("ivp_rminunx16", V_V, extremum!(u16s, from_u16s, 32, u16, u16, 2, 0, min, MAX)),
    op("ivp_rminun_2x32", V_V, extremum!(u32s, from_u32s, 16, u32, u32, 4, 0, min, MAX)),
    op("ivp_rmaxnx16t", VM_VB, extremum!(i16s, from_i16s, 32, i16, u16, 2, 2, max, MIN)),
    op("ivp_rmaxunx16t", VM_VB, extremum!(u16s, from_u16s, 32, u16, u16, 2, 2, max, MIN)),
    op("ivp_rminnx16t", VM_VB, extremum!(i16s, from_i16s, 32, i16, u16, 2, 2, min, MAX)),
    op("ivp_rminunx16t", VM_VB, extremum!(u16s, from_u16s, 32, u16, u16, 2, 2, min, MAX)),
    fop("ivp_rmaxnumnxf16", V_V, extremum_num!(F16, 0, true)),
    fop("ivp_rmaxnumn_2xf32", V_V, extremum_num!(F32, 0, true)),
    fop("ivp_rmaxnumnxf16t", VM_VB, extremum_num!(F16, 2, true)),
    fop("ivp_rmaxnumn_2xf32t", VM_VB, extremum_num!(F32, 2, true)),
    fop("ivp_rminnumnxf16", V_V, extremum_num!(F16, 0, false)),
    fop("ivp_rminnumn_2xf32", V_V, extremum_num!(F32, 0, false)),
    fop("ivp_rminnumnxf16t", VM_VB, extremum_num!(F16, 2, false)),
    fop("ivp_rminnumn_2xf32t", VM_VB, extremum_num!(F32, 2, false)),
    // extremum and the lanes that hold it
    op("ivp_rbmax2nx8", VB_V, flagged!(i8s, from_i8s, 64, i8, u8s_mut, u8, max, MIN)),
    op("ivp_rbmaxnx16", VB_V, flagged!(i16s, from_i16s, 32, i16, u16s_mut, u16, max, MIN)),
    op("ivp_rbmaxn_2x32", VB_V, flagged!(i32s, from_i32s, 16, i32, u32s_mut, u32, max, MIN)),
    op("ivp_rbmaxu2nx8", VB_V, flagged!(u8s, from_u8s, 64, u8, u8s_mut, u8, max, MIN)),
    op("ivp_rbmaxunx16", VB_V, flagged!(u16s, from_u16s, 32, u16, u16s_mut, u16, max, MIN)),
    op("ivp_rbmaxun_2x32", VB_V, flagged!(u32s, from_u32s, 16, u32, u32s_mut, u32, max, MIN)),
    op("ivp_rbmin2nx8", VB_V, flagged!(i8s, from_i8s, 64, i8, u8s_mut, u8, min, MAX)),
    op("ivp_rbminnx16", VB_V, flagged!(i16s, from_i16s, 32, i16, u16s_mut, u16, min, MAX)),
    op("ivp_rbminn_2x32", VB_V, flagged!(i32s, from_i32s, 16, i32, u32s_mut, u32, min, MAX)),
    op("ivp_rbminu2nx8", VB_V, flagged!(u8s, from_u8s, 64, u8, u8s_mut, u8, min, MAX)),
    op("ivp_rbminunx16", VB_V, flagged!(u16s, from_u16s, 32, u16, u16s_mut, u16, min, MAX)),
    op("ivp_rbminun_2x32", VB_V, flagged!(u32s, from_u32s, 16, u32, u32s_mut, u32, min, MAX)),
    fop("ivp_rbmaxnumnxf16", VB_V, flagged_num!(F16, 0, true)),
    fop("ivp_rbmaxnumn_2xf32", VB_V, flagged_num!(F32, 0, true)),
    fop("ivp_rbmaxnumnxf16t", VB_VB, flagged_num!(F16, 3, true)),
    fop("ivp_rbmaxnumn_2xf32t", VB_VB, flagged_num!(F32, 3, true)),
    fop("ivp_rbminnumnxf16", VB_V, flagged_num!(F16, 0, false)),
    fop("ivp_rbminnumn_2xf32", VB_V, flagged_num!(F32, 0, false)),
    fop("ivp_rbminnumnxf16t", VB_VB, flagged_num!(F16, 3, false)),
    fop("ivp_rbminnumn_2xf32t", VB_VB, flagged_num!(F32, 3, false)),
];

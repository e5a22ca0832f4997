//! Histogram counts, squeeze and unsqueeze, modular address add.
//! (wiki: isa/ref/b24-composite, isa/semantics/formal-isa-model)

use super::shape::*;
use super::{OpDef, SlotOperands};
use crate::q7::regs::{RegFile, Vec512};

/// OPEN: number of bits that histogram data is shifted right before it is compared with the bin.
const HIST_SCALE: u32 = 0;

/// Counts bytes that hit the bin. OPEN: all 128 bytes of `vr` and `vs` count, each register under its
/// own mask, and the count goes to every 16-bit lane; one page counts 64 lanes only.
#[inline(always)]
fn histogram(
    r: &RegFile,
    o: &SlotOperands,
    out: &mut Out,
    zero_bin: bool,
    masked: bool,
    hit: fn(u8, u8) -> bool,
) {
    let bin = if zero_bin { 0 } else { o.v[1] as u8 & 7 };
    let (vbs, vbr) = if masked { (r.vb(o, 4), r.vb(o, 5)) } else { (u64::MAX, u64::MAX) };
    let count = |v: &Vec512, mask: u64| {
        let mut hits = Vec512::ZERO;
        for (h, &byte) in hits.u8s_mut().iter_mut().zip(v.u8s()) {
            *h = u8::from(hit(byte >> HIST_SCALE, bin));
        }
        (bits_of_bytes(&hits) & mask).count_ones()
    };
    let total = count(r.v(o, 2), vbs) + count(r.v(o, 3), vbr);
    out.vec[0] = Vec512::splat16(total as u16);
    out.ar = u32::from((bin + 1) & 7);
}

macro_rules! hist {
    ($zero:literal, $masked:literal, |$d:ident, $bin:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            histogram(r, o, out, $zero, $masked, |$d, $bin| $e);
        }
        exec
    }};
}

/// Index vector for a shuffle. OPEN: the operand list has no source vector, and the vendor's headers type
/// the result as a selection vector. Unused lanes are zero.
///
/// Squeeze: lane `p` holds the index of the `p`-th true lane. Unsqueeze: that lane holds `p`.
macro_rules! squeeze {
    ($view_mut:ident, $n:literal, $field:literal, $lane:ty, $inverse:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let mask = r.vb(o, 2);
            out.vec[0] = Vec512::ZERO;
            let lanes = out.vec[0].$view_mut();
            let mut p = 0usize;
            for i in 0..$n {
                if mask >> (i * $field) & 1 == 1 {
                    let (at, index) = if $inverse { (i, p) } else { (p, i) };
                    lanes[at] = index as $lane;
                    p += 1;
                }
            }
            out.ar = p as u32;
        }
        exec
    }};
}

pub(super) static OPS: &[OpDef] = &[
    op("ivp_counteq4nx8", VA_VV, hist!(false, false, |d, bin| d == bin)),
    op("ivp_counteqz4nx8", VA_VV, hist!(true, false, |d, bin| d == bin)),
    op("ivp_countle4nx8", VA_VV, hist!(false, false, |d, bin| d <= bin)),
    op("ivp_countlez4nx8", VA_VV, hist!(true, false, |d, bin| d <= bin)),
    op("ivp_counteqm4nx8", VA_VVBB, hist!(false, true, |d, bin| d == bin)),
    op("ivp_counteqmz4nx8", VA_VVBB, hist!(true, true, |d, bin| d == bin)),
    op("ivp_countlem4nx8", VA_VVBB, hist!(false, true, |d, bin| d <= bin)),
    op("ivp_countlemz4nx8", VA_VVBB, hist!(true, true, |d, bin| d <= bin)),
    op("ivp_sqz2n", VA_B, squeeze!(u8s_mut, 64, 1, u8, false)),
    op("ivp_sqzn", VA_B, squeeze!(u16s_mut, 32, 2, u16, false)),
    op("ivp_sqzn_2", VA_B, squeeze!(u32s_mut, 16, 4, u32, false)),
    op("ivp_unsqz2n", VA_B, squeeze!(u8s_mut, 64, 1, u8, true)),
    op("ivp_unsqzn", VA_B, squeeze!(u16s_mut, 32, 2, u16, true)),
    op("ivp_unsqzn_2", VA_B, squeeze!(u32s_mut, 16, 4, u32, true)),
    op("ivp_addmod16u", A_AA, |_, o, out| out.ar = o.v[1].wrapping_add(o.v[2]) & 0xffff),
    op("ivp_popc2nx8", V_V, lanes1!(u8s, u8s_mut, |a| a.count_ones() as u8)),
];

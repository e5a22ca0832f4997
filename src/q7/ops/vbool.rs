//! Predicate registers: logic, tail masks, folds, bit extraction, and the FS bit planes.
//! (wiki: validation/predicate-classify, isa/ref/b08-reduce, iss/cas-predicate-boolean)

use super::shape::*;
use super::{OpDef, SlotOperands};
use crate::q7::regs::{RegFile, Vec512};

/// Mask with the first `n` fields of `field` bits set. `n` at most 64 / field.
#[inline(always)]
pub fn first_fields(n: u32, field: u32) -> u64 {
    let bits = n * field;
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// AND over the low bit of every field.
pub fn all_fields(vb: u64, field: u32) -> bool {
    spread_fields(vb, field) == u64::MAX
}

/// OR over the low bit of every field.
pub fn any_field(vb: u64, field: u32) -> bool {
    spread_fields(vb, field) != 0
}

/// OR of eight predicates, for an FS register.
pub fn or_fold(vbools: &[u64; 8]) -> u64 {
    vbools.iter().fold(0, |or, &vb| or | vb)
}

/// Mask that keeps the old destination: all ones when the predicate is clear.
pub fn kill_if_clear(predicate: bool) -> u64 {
    if predicate { 0 } else { u64::MAX }
}

/// Byte `j` of the vector holds bit `j` of FS0..FS7. OPEN: inferred from two probed points.
pub fn fs_from_vec(v: &Vec512) -> [u64; 8] {
    let mut fs = [0; 8];
    for (j, &byte) in v.u8s().iter().enumerate() {
        for (i, plane) in fs.iter_mut().enumerate() {
            *plane |= u64::from(byte >> i & 1) << j;
        }
    }
    fs
}

/// Inverse of [`fs_from_vec`].
pub fn vec_from_fs(fs: &[u64; 8]) -> Vec512 {
    let mut v = Vec512::ZERO;
    for (j, byte) in v.u8s_mut().iter_mut().enumerate() {
        *byte = fs.iter().enumerate().fold(0, |b, (i, plane)| b | ((plane >> j & 1) as u8) << i);
    }
    v
}

/// `vbt = f(vbs, vbr)`.
macro_rules! bool2 {
    (|$a:ident, $b:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let ($a, $b) = (r.vb(o, 1), r.vb(o, 2));
            out.vbool = $e;
        }
        exec
    }};
}

/// One BR bit: `bt = f(bs, br)`, values passed in.
macro_rules! bit2 {
    (|$a:ident, $b:ident| $e:expr) => {{
        fn exec(_: &RegFile, o: &SlotOperands, out: &mut Out) {
            let ($a, $b) = (o.v[1] & 1, o.v[2] & 1);
            out.ar = $e;
        }
        exec
    }};
}

/// Tail mask of a count: `vbt, ars` or `vbt, imm`. The count wraps at the number of lanes.
macro_rules! tail {
    ($field:literal) => {{
        fn exec(_: &RegFile, o: &SlotOperands, out: &mut Out) {
            out.vbool = first_fields(o.v[1] & (64 / $field - 1), $field);
        }
        exec
    }};
}

/// Tail mask of a signed count clamped to 0..=lanes - 1 first. OPEN: the limit is stated for 64 lanes.
macro_rules! tail_sat {
    ($field:literal) => {{
        fn exec(_: &RegFile, o: &SlotOperands, out: &mut Out) {
            let count = (o.v[1] as i32).clamp(0, 64 / $field - 1);
            out.vbool = first_fields(count as u32, $field);
        }
        exec
    }};
}

macro_rules! fold {
    ($f:ident, $field:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            out.ar = u32::from($f(r.vb(o, 1), $field));
        }
        exec
    }};
}

/// Bit `imm` of each lane into the lane's field.
macro_rules! extract_bit {
    ($view:ident, $mask_mut:ident, $mask:ty, $bits:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let bit = o.v[2] & ($bits - 1);
            let mut mask = Vec512::ZERO;
            for (m, &lane) in mask.$mask_mut().iter_mut().zip(r.v(o, 1).$view()) {
                *m = (lane >> bit & 1).wrapping_neg();
            }
            out.vbool = bits_of_bytes(&mask);
        }
        exec
    }};
}

/// Predicate into bit `imm` of each lane, operands `vt(rw), vbr, imm`.
macro_rules! inject_bit {
    ($view:ident, $view_mut:ident, $lane:ty, $field:literal, $bits:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let bit: $lane = 1 << (o.v[2] & ($bits - 1));
            let mask = lane_mask(r.vb(o, 1), $field);
            let lanes = r.v(o, 0).$view().iter().zip(mask.$view());
            for (d, (&old, &m)) in out.vec[0].$view_mut().iter_mut().zip(lanes) {
                *d = old & !bit | bit & m;
            }
        }
        exec
    }};
}

/// Unsigned 8-bit less-than into an FS register.
fn fs_less(r: &RegFile, o: &SlotOperands, out: &mut Out) {
    let (a, b) = (r.v(o, 0).u8s(), r.v(o, 1).u8s());
    let mut mask = Vec512::ZERO;
    for ((m, &a), &b) in mask.u8s_mut().iter_mut().zip(a).zip(b) {
        *m = u8::from(a < b);
    }
    out.pr = bits_of_bytes(&mask);
}

pub(super) static OPS: &[OpDef] = &[
    op("ivp_andb", B_BB, bool2!(|a, b| a & b)),
    op("ivp_orb", B_BB, bool2!(|a, b| a | b)),
    op("ivp_xorb", B_BB, bool2!(|a, b| a ^ b)),
    op("ivp_andnotb", B_BB, bool2!(|a, b| a & !b)),
    op("ivp_ornotb", B_BB, bool2!(|a, b| a | !b)),
    op("ivp_notb", B_B, |r, o, out| out.vbool = !r.vb(o, 1)),
    op("ivp_mb", B_B, |r, o, out| out.vbool = r.vb(o, 1)),
    op("ivp_andnotb1", BR_BRBR, bit2!(|a, b| a & !b)),
    op("ivp_ornotb1", BR_BRBR, bit2!(|a, b| (a | !b) & 1)),
    op("ivp_notb1", BR_BR, |_, o, out| out.ar = !o.v[1] & 1),
    op("ivp_ltr2n", B_A, tail!(1)),
    op("ivp_ltrn", B_A, tail!(2)),
    op("ivp_ltrn_2", B_A, tail!(4)),
    op("ivp_ltr2ni", B_I6, tail!(1)),
    op("ivp_ltrni", B_I5, tail!(2)),
    op("ivp_ltrn_2i", B_I4, tail!(4)),
    op("ivp_ltrs2n", B_A, tail_sat!(1)),
    op("ivp_ltrsn", B_A, tail_sat!(2)),
    op("ivp_ltrsn_2", B_A, tail_sat!(4)),
    op("ivp_randb2n", BR_B, fold!(all_fields, 1)),
    op("ivp_randbn", BR_B, fold!(all_fields, 2)),
    op("ivp_randbn_2", BR_B, fold!(all_fields, 4)),
    op("ivp_rorb2n", BR_B, fold!(any_field, 1)),
    op("ivp_rorbn", BR_B, fold!(any_field, 2)),
    op("ivp_rorbn_2", BR_B, fold!(any_field, 4)),
    op("ivp_extbi2nx8", B_VI3, extract_bit!(u8s, u8s_mut, u8, 8)),
    op("ivp_extbinx16", B_VI4, extract_bit!(u16s, u16s_mut, u16, 16)),
    op("ivp_extbin_2x32", B_VI5, extract_bit!(u32s, u32s_mut, u32, 32)),
    op("ivp_injbi2nx8", VM_BI3, inject_bit!(u8s, u8s_mut, u8, 1, 8)),
    op("ivp_injbinx16", VM_BI4, inject_bit!(u16s, u16s_mut, u16, 2, 16)),
    op("ivp_injbin_2x32", VM_BI5, inject_bit!(u32s, u32s_mut, u32, 4, 32)),
    fs_op("ivp_fs0ltu2nx8", FROM_VV, 0, fs_less),
    fs_op("ivp_fs1ltu2nx8", FROM_VV, 1, fs_less),
    fs_op("ivp_fs2ltu2nx8", FROM_VV, 2, fs_less),
    fs_op("ivp_fs3ltu2nx8", FROM_VV, 3, fs_less),
    fs_op("ivp_fs4ltu2nx8", FROM_VV, 4, fs_less),
    fs_op("ivp_fs5ltu2nx8", FROM_VV, 5, fs_less),
    fs_op("ivp_fs6ltu2nx8", FROM_VV, 6, fs_less),
    fs_op("ivp_fs7ltu2nx8", FROM_VV, 7, fs_less),
    fs_op("ivp_movfsv", FROM_V, 8, |r, o, out| {
        out.vec[0] = Vec512::from_u64s(fs_from_vec(r.v(o, 0)))
    }),
    op("ivp_movvfs", V, |r, _, out| out.vec[0] = vec_from_fs(&r.fs)),
];

//! Floating-point vector ALU: add, multiply, fused multiply-add, extrema, compares, classification.
//!
//! fp16 lanes are 16 bits, fp32 lanes 32 bits. The rounding mode is FCR's; flags are OR-ed over all
//! lanes (of a predicated form: over all its active lanes). (wiki: isa/ref/b02-vec-alu-fp,
//! isa/core/fp-sub-isa)

use super::fastfp::{self, Host};
use super::shape::*;
use super::softfloat::{self as sf, F16, F32, Format};
use super::{OpDef, SlotOperands};
use crate::q7::regs::{RegFile, Vec512, fcr};

/// A lane format together with its view of a register.
pub(super) trait Lanes: Format {
    /// Bytes per lane, also bits per vbool field.
    const FIELD: u32;
    /// Lanes per register.
    const N: usize;
    /// Bit pattern of lane `i`.
    fn get(v: &Vec512, i: usize) -> u32;
    /// Sets lane `i`.
    fn set(v: &mut Vec512, i: usize, bits: u32);
}

impl Lanes for F16 {
    const FIELD: u32 = 2;
    const N: usize = 32;
    #[inline(always)]
    fn get(v: &Vec512, i: usize) -> u32 {
        u32::from(v.u16s()[i & 31])
    }
    #[inline(always)]
    fn set(v: &mut Vec512, i: usize, bits: u32) {
        v.u16s_mut()[i & 31] = bits as u16;
    }
}

impl Lanes for F32 {
    const FIELD: u32 = 4;
    const N: usize = 16;
    #[inline(always)]
    fn get(v: &Vec512, i: usize) -> u32 {
        v.u32s()[i & 15]
    }
    #[inline(always)]
    fn set(v: &mut Vec512, i: usize, bits: u32) {
        v.u32s_mut()[i & 15] = bits;
    }
}

/// Mask of active lanes of a predicated form, all ones for the others.
#[inline(always)]
pub(super) fn active(r: &RegFile, o: &SlotOperands, predicate: usize) -> u64 {
    if predicate == 0 { u64::MAX } else { r.vb(o, predicate) }
}

/// Runs `f` on the active lanes, keeps the old destination in the others, collects flags.
#[inline(always)]
pub(super) fn each<F: Lanes>(
    r: &RegFile,
    o: &SlotOperands,
    out: &mut Out,
    predicate: usize,
    f: impl Fn(usize) -> sf::Flagged,
) {
    let mask = active(r, o, predicate);
    let mut flags = 0;
    for i in 0..F::N {
        let bits = if predicate == 0 || mask >> (i as u32 * F::FIELD) & 1 == 1 {
            let (bits, raised) = f(i);
            flags |= raised;
            bits
        } else {
            F::get(r.v(o, 0), i)
        };
        F::set(&mut out.vec[0], i, bits);
    }
    out.flags = flags;
}

/// `vt = f(vs, vr, mode)`; predicate position 0 means none.
macro_rules! fp2 {
    ($f:ty, $p:literal, |$a:ident, $b:ident, $mode:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let (a, b, $mode) = (r.v(o, 1), r.v(o, 2), r.round_mode());
            each::<$f>(r, o, out, $p, |i| {
                let ($a, $b) = (<$f>::get(a, i), <$f>::get(b, i));
                $e
            });
        }
        exec
    }};
}

/// `vt = f(vt, vs, vr, mode)`.
macro_rules! fp3 {
    ($f:ty, $p:literal, |$c:ident, $a:ident, $b:ident, $mode:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let (c, a, b, $mode) = (r.v(o, 0), r.v(o, 1), r.v(o, 2), r.round_mode());
            each::<$f>(r, o, out, $p, |i| {
                let ($c, $a, $b) = (<$f>::get(c, i), <$f>::get(a, i), <$f>::get(b, i));
                $e
            });
        }
        exec
    }};
}

/// [`fp2`] with a host shortcut for numbers.
macro_rules! fast2 {
    ($f:ty, $p:literal, |$a:ident, $b:ident, $mode:ident| $e:expr, host: |$x:ident, $y:ident| $h:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            const SLOW: super::OpFn = fp2!($f, $p, |$a, $b, $mode| $e);
            if !fastfp::allowed(r) {
                return SLOW(r, o, out);
            }
            let (a, b) = (r.v(o, 1), r.v(o, 2));
            if !<$f>::two(&mut out.vec[0], a, b, |$x, $y| $h) {
                redo_nans::<$f>(&mut out.vec[0], |i| {
                    let ($a, $b, $mode) = (<$f>::get(a, i), <$f>::get(b, i), sf::RNE);
                    $e
                });
            }
            finish_fast::<$f>(r, o, out, $p);
        }
        exec
    }};
}

/// `vt = c + vs * vr` or `c - vs * vr` with a host shortcut; `$c` is the addend register. `$always` says
/// that the operation ignores FCR.
macro_rules! fused {
    ($f:ty, $p:literal, negate: $negate:literal, always: $always:literal, addend: $c:expr, $slow:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            const SLOW: super::OpFn = $slow;
            let addend: fn(&RegFile, &SlotOperands) -> Vec512 = $c;
            if !($always || fastfp::allowed(r)) {
                return SLOW(r, o, out);
            }
            let (c, a, b) = (addend(r, o), r.v(o, 1), r.v(o, 2));
            if !<$f>::fused(&mut out.vec[0], &c, a, b, $negate) {
                redo_nans::<$f>(&mut out.vec[0], |i| {
                    sf::fma::<$f>(
                        <$f>::get(&c, i),
                        <$f>::get(a, i),
                        <$f>::get(b, i),
                        $negate,
                        sf::RNE,
                    )
                });
            }
            finish_fast::<$f>(r, o, out, $p);
        }
        exec
    }};
}

/// Replaces the lanes in which the host made a NaN.
fn redo_nans<F: Lanes>(d: &mut Vec512, lane: impl Fn(usize) -> sf::Flagged) {
    for i in 0..F::N {
        if sf::is_nan::<F>(F::get(d, i)) {
            F::set(d, i, lane(i).0);
        }
    }
}

/// Merge and flags after a host shortcut.
#[inline(always)]
pub(super) fn finish_fast<F: Lanes>(
    r: &RegFile,
    o: &SlotOperands,
    out: &mut Out,
    predicate: usize,
) {
    out.flags = 0;
    if predicate != 0 {
        merge(&mut out.vec[0], r.v(o, 0), r.vb(o, predicate), F::FIELD);
    }
}

/// `vt = f(vr, mode)`.
macro_rules! fp1 {
    ($f:ty, $p:literal, |$a:ident, $mode:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let (a, $mode) = (r.v(o, 1), r.round_mode());
            each::<$f>(r, o, out, $p, |i| {
                let $a = <$f>::get(a, i);
                $e
            });
        }
        exec
    }};
}

pub(super) use fp1;

/// Compare into vbool. `$quiet` says whether only signalling NaNs raise Invalid.
/// OPEN: inactive lanes of a predicated compare write 0 and raise nothing.
macro_rules! fpcmp {
    ($f:ty, $p:literal, quiet: $quiet:literal, |$a:ident, $b:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let (va, vb) = (r.v(o, 1), r.v(o, 2));
            let field = (1u64 << <$f>::FIELD) - 1;
            let mask = active(r, o, $p);
            let (mut bits, mut invalid) = (0u64, false);
            for i in 0..<$f>::N {
                let ($a, $b) = (<$f>::get(va, i), <$f>::get(vb, i));
                let on = $p == 0 || mask >> (i as u32 * <$f>::FIELD) & 1 == 1;
                let raises = if $quiet {
                    sf::is_snan::<$f>($a) | sf::is_snan::<$f>($b)
                } else {
                    sf::is_nan::<$f>($a) | sf::is_nan::<$f>($b)
                };
                invalid |= on & raises;
                bits |= (field * u64::from(on & ($e))) << (i as u32 * <$f>::FIELD);
            }
            out.vbool = bits;
            out.flags = u32::from(invalid) * fcr::INVALID;
        }
        exec
    }};
}

/// Exponent of `b` added to `a`, signs multiplied, mantissa of `a`; no specials.
/// (wiki: isa/ref/b02-vec-alu-fp)
fn add_exp<F: Format>(a: u32, b: u32) -> u32 {
    let field = (a >> F::M).wrapping_add(b >> F::M).wrapping_sub(F::BIAS as u32) & F::EMAX;
    (a ^ b) & F::SIGN | field << F::M | a & F::MANT
}

/// As [`add_exp`], but the mantissa of `b` holds what is added: its sign in the top bit, its biased
/// exponent below. fp32 is published and executed (bits 22 and 21:14, wiki: compiler/mx-device-bodies).
/// OPEN: fp16 has them at the same places relative to the mantissa, bits 9 and 8:4; the neutral
/// word 0x3cf0 of the adjust operations has the bias there. (wiki: validation/transcendental-seed)
fn add_exp_mantissa<F: Format>(a: u32, b: u32) -> u32 {
    let sign = (b >> (F::M - 1) & 1) * F::SIGN;
    let exponent = b >> (F::M - 1 - F::E) & F::EMAX;
    add_exp::<F>(a, sign | exponent << F::M)
}

/// `1 - a * b` rounded once under FCR.
fn mul_sub_one<F: Format>(a: u32, b: u32, mode: u32) -> sf::Flagged {
    sf::fma::<F>((F::BIAS as u32) << F::M, a, b, true, mode)
}

/// A fused multiply-add whose flags are suppressed and whose rounding is nearest even.
fn silent(result: sf::Flagged) -> sf::Flagged {
    (result.0, 0)
}

const DIVN: &str = "the arithmetic of the divide step (numerator, denominator, seed)";
const VFPU: &str = "wiki: uarch/vfpu-ieee";
const ADJ: &str =
    "the full rule of the exponent-adjust word (one point is known: adjust zero is 0x3cf0 at fp16)";

macro_rules! compares {
    ($($name16:literal $name16t:literal $name32:literal $name32t:literal quiet: $quiet:literal |$a:ident, $b:ident, $f:ident| $e:expr;)*) => {
        pub(super) static COMPARES: &[OpDef] = &[$(
            fop($name16, B_VV, fpcmp!(F16, 0, quiet: $quiet, |$a, $b| { type $f = F16; $e })),
            fop($name16t, B_VVB, fpcmp!(F16, 3, quiet: $quiet, |$a, $b| { type $f = F16; $e })),
            fop($name32, B_VV, fpcmp!(F32, 0, quiet: $quiet, |$a, $b| { type $f = F32; $e })),
            fop($name32t, B_VVB, fpcmp!(F32, 3, quiet: $quiet, |$a, $b| { type $f = F32; $e })),
        )*];
    };
}

compares! {
    "ivp_oeqnxf16" "ivp_oeqnxf16t" "ivp_oeqn_2xf32" "ivp_oeqn_2xf32t"
        quiet: true |a, b, F| sf::equal::<F>(a, b);
    "ivp_oltnxf16" "ivp_oltnxf16t" "ivp_oltn_2xf32" "ivp_oltn_2xf32t"
        quiet: false |a, b, F| sf::less::<F>(a, b);
    "ivp_olenxf16" "ivp_olenxf16t" "ivp_olen_2xf32" "ivp_olen_2xf32t"
        quiet: false |a, b, F| sf::less_equal::<F>(a, b);
    "ivp_ueqnxf16" "ivp_ueqnxf16t" "ivp_ueqn_2xf32" "ivp_ueqn_2xf32t"
        quiet: true |a, b, F| unordered::<F>(a, b) | sf::equal::<F>(a, b);
    "ivp_ultnxf16" "ivp_ultnxf16t" "ivp_ultn_2xf32" "ivp_ultn_2xf32t"
        quiet: true |a, b, F| unordered::<F>(a, b) | sf::less::<F>(a, b);
    "ivp_ulenxf16" "ivp_ulenxf16t" "ivp_ulen_2xf32" "ivp_ulen_2xf32t"
        quiet: true |a, b, F| unordered::<F>(a, b) | sf::less_equal::<F>(a, b);
    "ivp_uleqnxf16" "ivp_uleqnxf16t" "ivp_uleqn_2xf32" "ivp_uleqn_2xf32t"
        quiet: false |a, b, F| unordered::<F>(a, b) | sf::less_equal::<F>(a, b);
    "ivp_ultqnxf16" "ivp_ultqnxf16t" "ivp_ultqn_2xf32" "ivp_ultqn_2xf32t"
        quiet: false |a, b, F| unordered::<F>(a, b) | sf::less::<F>(a, b);
    "ivp_uneqnxf16" "ivp_uneqnxf16t" "ivp_uneqn_2xf32" "ivp_uneqn_2xf32t"
        quiet: true |a, b, F| !sf::equal::<F>(a, b);
    "ivp_unnxf16" "ivp_unnxf16t" "ivp_unn_2xf32" "ivp_unn_2xf32t"
        quiet: true |a, b, F| unordered::<F>(a, b);
}

#[inline(always)]
fn unordered<F: Format>(a: u32, b: u32) -> bool {
    sf::is_nan::<F>(a) | sf::is_nan::<F>(b)
}

pub(super) static OPS: &[OpDef] = &[
    // sign operations: no rounding, no quieting, no flags
    op("ivp_absnxf16", V_V, lanes1!(u16s, u16s_mut, |a| a & 0x7fff)),
    op("ivp_absn_2xf32", V_V, lanes1!(u32s, u32s_mut, |a| a & 0x7fff_ffff)),
    op("ivp_negnxf16", V_V, lanes1!(u16s, u16s_mut, |a| a ^ 0x8000)),
    op("ivp_negn_2xf32", V_V, lanes1!(u32s, u32s_mut, |a| a ^ 0x8000_0000)),
    op("ivp_absnxf16t", VM_VB, predicated!(2, 2, lanes1!(u16s, u16s_mut, |a| a & 0x7fff))),
    op("ivp_absn_2xf32t", VM_VB, predicated!(4, 2, lanes1!(u32s, u32s_mut, |a| a & 0x7fff_ffff))),
    op("ivp_negnxf16t", VM_VB, predicated!(2, 2, lanes1!(u16s, u16s_mut, |a| a ^ 0x8000))),
    op("ivp_negn_2xf32t", VM_VB, predicated!(4, 2, lanes1!(u32s, u32s_mut, |a| a ^ 0x8000_0000))),
    // vs + vr, vs - vr, vs * vr
    fop(
        "ivp_addnxf16",
        V_VV,
        fast2!(F16, 0, |a, b, m| sf::add::<F16>(a, b, m), host: |x, y| x + y),
    ),
    fop(
        "ivp_addnxf16t",
        VM_VVB,
        fast2!(F16, 3, |a, b, m| sf::add::<F16>(a, b, m), host: |x, y| x + y),
    ),
    fop("add.h", V_VV, fast2!(F16, 0, |a, b, m| sf::add::<F16>(a, b, m), host: |x, y| x + y)),
    fop(
        "ivp_addn_2xf32",
        V_VV,
        fast2!(F32, 0, |a, b, m| sf::add::<F32>(a, b, m), host: |x, y| x + y),
    ),
    fop(
        "ivp_addn_2xf32t",
        VM_VVB,
        fast2!(F32, 3, |a, b, m| sf::add::<F32>(a, b, m), host: |x, y| x + y),
    ),
    fop("add.s", V_VV, fast2!(F32, 0, |a, b, m| sf::add::<F32>(a, b, m), host: |x, y| x + y)),
    fop(
        "ivp_subnxf16",
        V_VV,
        fast2!(F16, 0, |a, b, m| sf::sub::<F16>(a, b, m), host: |x, y| x - y),
    ),
    fop(
        "ivp_subnxf16t",
        VM_VVB,
        fast2!(F16, 3, |a, b, m| sf::sub::<F16>(a, b, m), host: |x, y| x - y),
    ),
    fop("sub.h", V_VV, fast2!(F16, 0, |a, b, m| sf::sub::<F16>(a, b, m), host: |x, y| x - y)),
    fop(
        "ivp_subn_2xf32",
        V_VV,
        fast2!(F32, 0, |a, b, m| sf::sub::<F32>(a, b, m), host: |x, y| x - y),
    ),
    fop(
        "ivp_subn_2xf32t",
        VM_VVB,
        fast2!(F32, 3, |a, b, m| sf::sub::<F32>(a, b, m), host: |x, y| x - y),
    ),
    fop("sub.s", V_VV, fast2!(F32, 0, |a, b, m| sf::sub::<F32>(a, b, m), host: |x, y| x - y)),
    fop(
        "ivp_mulnxf16",
        V_VV,
        fast2!(F16, 0, |a, b, m| sf::mul::<F16>(a, b, m), host: |x, y| x * y),
    ),
    fop(
        "ivp_mulnxf16t",
        VM_VVB,
        fast2!(F16, 3, |a, b, m| sf::mul::<F16>(a, b, m), host: |x, y| x * y),
    ),
    fop("mul.h", V_VV, fast2!(F16, 0, |a, b, m| sf::mul::<F16>(a, b, m), host: |x, y| x * y)),
    fop(
        "ivp_muln_2xf32",
        V_VV,
        fast2!(F32, 0, |a, b, m| sf::mul::<F32>(a, b, m), host: |x, y| x * y),
    ),
    fop(
        "ivp_muln_2xf32t",
        VM_VVB,
        fast2!(F32, 3, |a, b, m| sf::mul::<F32>(a, b, m), host: |x, y| x * y),
    ),
    fop("mul.s", V_VV, fast2!(F32, 0, |a, b, m| sf::mul::<F32>(a, b, m), host: |x, y| x * y)),
    // vt + vs * vr
    fop(
        "ivp_mulanxf16",
        VM_VV,
        fused!(F16, 0, negate: false, always: false, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, m| sf::fma::<F16>(c, a, b, false, m))),
    ),
    fop(
        "ivp_mulanxf16t",
        VM_VVB,
        fused!(F16, 3, negate: false, always: false, addend: |r, o| *r.v(o, 0), fp3!(F16, 3, |c, a, b, m| sf::fma::<F16>(c, a, b, false, m))),
    ),
    fop(
        "madd.h",
        VM_VV,
        fused!(F16, 0, negate: false, always: false, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, m| sf::fma::<F16>(c, a, b, false, m))),
    ),
    fop(
        "ivp_mulan_2xf32",
        VM_VV,
        fused!(F32, 0, negate: false, always: false, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, m| sf::fma::<F32>(c, a, b, false, m))),
    ),
    fop(
        "ivp_mulan_2xf32t",
        VM_VVB,
        fused!(F32, 3, negate: false, always: false, addend: |r, o| *r.v(o, 0), fp3!(F32, 3, |c, a, b, m| sf::fma::<F32>(c, a, b, false, m))),
    ),
    fop(
        "madd.s",
        VM_VV,
        fused!(F32, 0, negate: false, always: false, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, m| sf::fma::<F32>(c, a, b, false, m))),
    ),
    // vt - vs * vr
    fop(
        "ivp_mulsnxf16",
        VM_VV,
        fused!(F16, 0, negate: true, always: false, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, m| sf::fma::<F16>(c, a, b, true, m))),
    ),
    fop(
        "ivp_mulsnxf16t",
        VM_VVB,
        fused!(F16, 3, negate: true, always: false, addend: |r, o| *r.v(o, 0), fp3!(F16, 3, |c, a, b, m| sf::fma::<F16>(c, a, b, true, m))),
    ),
    fop(
        "msub.h",
        VM_VV,
        fused!(F16, 0, negate: true, always: false, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, m| sf::fma::<F16>(c, a, b, true, m))),
    ),
    fop(
        "ivp_mulsn_2xf32",
        VM_VV,
        fused!(F32, 0, negate: true, always: false, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, m| sf::fma::<F32>(c, a, b, true, m))),
    ),
    fop(
        "ivp_mulsn_2xf32t",
        VM_VVB,
        fused!(F32, 3, negate: true, always: false, addend: |r, o| *r.v(o, 0), fp3!(F32, 3, |c, a, b, m| sf::fma::<F32>(c, a, b, true, m))),
    ),
    fop(
        "msub.s",
        VM_VV,
        fused!(F32, 0, negate: true, always: false, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, m| sf::fma::<F32>(c, a, b, true, m))),
    ),
    // the same, nearest even and without flags
    op(
        "ivp_mulannxf16",
        VM_VV,
        fused!(F16, 0, negate: false, always: true, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, _m| silent(sf::fma::<F16>(c, a, b, false, sf::RNE)))),
    ),
    op(
        "ivp_mulannxf16t",
        VM_VVB,
        fused!(F16, 3, negate: false, always: true, addend: |r, o| *r.v(o, 0), fp3!(F16, 3, |c, a, b, _m| silent(sf::fma::<F16>(c, a, b, false, sf::RNE)))),
    ),
    op(
        "maddn.h",
        VM_VV,
        fused!(F16, 0, negate: false, always: true, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, _m| silent(sf::fma::<F16>(c, a, b, false, sf::RNE)))),
    ),
    op(
        "ivp_mulann_2xf32",
        VM_VV,
        fused!(F32, 0, negate: false, always: true, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, _m| silent(sf::fma::<F32>(c, a, b, false, sf::RNE)))),
    ),
    op(
        "ivp_mulann_2xf32t",
        VM_VVB,
        fused!(F32, 3, negate: false, always: true, addend: |r, o| *r.v(o, 0), fp3!(F32, 3, |c, a, b, _m| silent(sf::fma::<F32>(c, a, b, false, sf::RNE)))),
    ),
    op(
        "maddn.s",
        VM_VV,
        fused!(F32, 0, negate: false, always: true, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, _m| silent(sf::fma::<F32>(c, a, b, false, sf::RNE)))),
    ),
    op(
        "ivp_mulsnnxf16",
        VM_VV,
        fused!(F16, 0, negate: true, always: true, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, _m| silent(sf::fma::<F16>(c, a, b, true, sf::RNE)))),
    ),
    op(
        "ivp_mulsnnxf16t",
        VM_VVB,
        fused!(F16, 3, negate: true, always: true, addend: |r, o| *r.v(o, 0), fp3!(F16, 3, |c, a, b, _m| silent(sf::fma::<F16>(c, a, b, true, sf::RNE)))),
    ),
    op(
        "msubn.h",
        VM_VV,
        fused!(F16, 0, negate: true, always: true, addend: |r, o| *r.v(o, 0), fp3!(F16, 0, |c, a, b, _m| silent(sf::fma::<F16>(c, a, b, true, sf::RNE)))),
    ),
    op(
        "ivp_mulsnn_2xf32",
        VM_VV,
        fused!(F32, 0, negate: true, always: true, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, _m| silent(sf::fma::<F32>(c, a, b, true, sf::RNE)))),
    ),
    op(
        "ivp_mulsnn_2xf32t",
        VM_VVB,
        fused!(F32, 3, negate: true, always: true, addend: |r, o| *r.v(o, 0), fp3!(F32, 3, |c, a, b, _m| silent(sf::fma::<F32>(c, a, b, true, sf::RNE)))),
    ),
    op(
        "msubn.s",
        VM_VV,
        fused!(F32, 0, negate: true, always: true, addend: |r, o| *r.v(o, 0), fp3!(F32, 0, |c, a, b, _m| silent(sf::fma::<F32>(c, a, b, true, sf::RNE)))),
    ),
    // 1 - vs * vr
    fop(
        "ivp_mulsonenxf16",
        V_VV,
        fused!(F16, 0, negate: true, always: false, addend: |_, _| Vec512::splat16(0x3c00), fp2!(F16, 0, |a, b, m| mul_sub_one::<F16>(a, b, m))),
    ),
    fop(
        "ivp_mulsonenxf16t",
        VM_VVB,
        fused!(F16, 3, negate: true, always: false, addend: |_, _| Vec512::splat16(0x3c00), fp2!(F16, 3, |a, b, m| mul_sub_one::<F16>(a, b, m))),
    ),
    fop(
        "mulsone.h",
        V_VV,
        fused!(F16, 0, negate: true, always: false, addend: |_, _| Vec512::splat16(0x3c00), fp2!(F16, 0, |a, b, m| mul_sub_one::<F16>(a, b, m))),
    ),
    fop(
        "ivp_mulsonen_2xf32",
        V_VV,
        fused!(F32, 0, negate: true, always: false, addend: |_, _| Vec512::splat32(0x3f80_0000), fp2!(F32, 0, |a, b, m| mul_sub_one::<F32>(a, b, m))),
    ),
    fop(
        "ivp_mulsonen_2xf32t",
        VM_VVB,
        fused!(F32, 3, negate: true, always: false, addend: |_, _| Vec512::splat32(0x3f80_0000), fp2!(F32, 3, |a, b, m| mul_sub_one::<F32>(a, b, m))),
    ),
    fop(
        "mulsone.s",
        V_VV,
        fused!(F32, 0, negate: true, always: false, addend: |_, _| Vec512::splat32(0x3f80_0000), fp2!(F32, 0, |a, b, m| mul_sub_one::<F32>(a, b, m))),
    ),
    // extrema
    fop("ivp_maxnxf16", V_VV, fp2!(F16, 0, |a, b, _m| sf::max::<F16>(a, b))),
    fop("ivp_maxnxf16t", VM_VVB, fp2!(F16, 3, |a, b, _m| sf::max::<F16>(a, b))),
    fop("ivp_maxn_2xf32", V_VV, fp2!(F32, 0, |a, b, _m| sf::max::<F32>(a, b))),
    fop("ivp_maxn_2xf32t", VM_VVB, fp2!(F32, 3, |a, b, _m| sf::max::<F32>(a, b))),
    fop("ivp_minnxf16", V_VV, fp2!(F16, 0, |a, b, _m| sf::min::<F16>(a, b))),
    fop("ivp_minnxf16t", VM_VVB, fp2!(F16, 3, |a, b, _m| sf::min::<F16>(a, b))),
    fop("ivp_minn_2xf32", V_VV, fp2!(F32, 0, |a, b, _m| sf::min::<F32>(a, b))),
    fop("ivp_minn_2xf32t", VM_VVB, fp2!(F32, 3, |a, b, _m| sf::min::<F32>(a, b))),
    fop("ivp_maxnumnxf16", V_VV, fp2!(F16, 0, |a, b, _m| sf::min_max_num::<F16>(a, b, true))),
    fop("ivp_maxnumnxf16t", VM_VVB, fp2!(F16, 3, |a, b, _m| sf::min_max_num::<F16>(a, b, true))),
    fop("ivp_maxnumn_2xf32", V_VV, fp2!(F32, 0, |a, b, _m| sf::min_max_num::<F32>(a, b, true))),
    fop("ivp_maxnumn_2xf32t", VM_VVB, fp2!(F32, 3, |a, b, _m| sf::min_max_num::<F32>(a, b, true))),
    fop("ivp_minnumnxf16", V_VV, fp2!(F16, 0, |a, b, _m| sf::min_max_num::<F16>(a, b, false))),
    fop("ivp_minnumnxf16t", VM_VVB, fp2!(F16, 3, |a, b, _m| sf::min_max_num::<F16>(a, b, false))),
    fop("ivp_minnumn_2xf32", V_VV, fp2!(F32, 0, |a, b, _m| sf::min_max_num::<F32>(a, b, false))),
    fop("ivp_minnumn_2xf32t", VM_VVB, fp2!(F32, 3, |a, b, _m| sf::min_max_num::<F32>(a, b, false))),
    // classification into the data lane
    op("ivp_clsfynxf16", V_V, fp1!(F16, 0, |a, _m| (sf::classify::<F16>(a), 0))),
    op("ivp_clsfynxf16t", VM_VB, fp1!(F16, 2, |a, _m| (sf::classify::<F16>(a), 0))),
    op("clsfy.h", V_V, fp1!(F16, 0, |a, _m| (sf::classify::<F16>(a), 0))),
    op("ivp_clsfyn_2xf32", V_V, fp1!(F32, 0, |a, _m| (sf::classify::<F32>(a), 0))),
    op("ivp_clsfyn_2xf32t", VM_VB, fp1!(F32, 2, |a, _m| (sf::classify::<F32>(a), 0))),
    op("clsfy.s", V_V, fp1!(F32, 0, |a, _m| (sf::classify::<F32>(a), 0))),
    // exponent add: vt is a (read and written), vr is b. OPEN: operand list inferred from the free bits.
    op("ivp_addexpnxf16", VM_V, exp16),
    op("ivp_addexpn_2xf32", VM_V, exp32),
    op("ivp_addexpnxf16t", VM_VB, predicated!(2, 2, exp16)),
    op("ivp_addexpn_2xf32t", VM_VB, predicated!(4, 2, exp32)),
    op("ivp_addexpmnxf16", VM_V, exp16_mantissa),
    op("ivp_addexpmn_2xf32", VM_V, exp32_mantissa),
    op("ivp_addexpmnxf16t", VM_VB, predicated!(2, 2, exp16_mantissa)),
    missing("ivp_divnn_2xf32", V_VV, DIVN, VFPU),
    missing("ivp_divnn_2xf32t", VM_VVB, DIVN, VFPU),
    missing("divn.s", V_VV, DIVN, VFPU),
    missing("ivp_divnnxf16", V_VV, DIVN, VFPU),
    missing("ivp_divnnxf16t", VM_VVB, DIVN, VFPU),
    missing("divn.h", V_VV, DIVN, VFPU),
    missing("ivp_mksadjnxf16", V_V, ADJ, "wiki: validation/transcendental-seed"),
    missing("ivp_mksadjn_2xf32", V_V, ADJ, "wiki: validation/transcendental-seed"),
    missing("ivp_mksadjn_2xf32t", VM_VB, ADJ, "wiki: validation/transcendental-seed"),
];

/// Exponent addition by `f` on all lanes of `vt` (read and written) and the source.
fn exponents<F: Lanes>(r: &RegFile, o: &SlotOperands, out: &mut Out, f: fn(u32, u32) -> u32) {
    for i in 0..F::N {
        F::set(&mut out.vec[0], i, f(F::get(r.v(o, 0), i), F::get(r.v(o, 1), i)));
    }
}

fn exp16(r: &RegFile, o: &SlotOperands, out: &mut Out) {
    exponents::<F16>(r, o, out, add_exp::<F16>);
}

fn exp32(r: &RegFile, o: &SlotOperands, out: &mut Out) {
    exponents::<F32>(r, o, out, add_exp::<F32>);
}

fn exp16_mantissa(r: &RegFile, o: &SlotOperands, out: &mut Out) {
    exponents::<F16>(r, o, out, add_exp_mantissa::<F16>);
}

fn exp32_mantissa(r: &RegFile, o: &SlotOperands, out: &mut Out) {
    exponents::<F32>(r, o, out, add_exp_mantissa::<F32>);
}

//! Conversions between integers, fp16 and fp32, and rounding to integral values.
//!
//! Integer to floating point divides by `2^imm`, the way back multiplies by it.
//! (wiki: isa/ref/b13-sp-cvt, isa/ref/b20-hp-cvt)

use super::fastfp;
use super::fp::{Lanes, each, finish_fast, fp1};
use super::shape::*;
use super::softfloat::{self as sf, F16, F32, RD, RNA, RU, RZ};
use super::{OpDef, SlotOperands};
use crate::q7::regs::RegFile;

/// Conversion with a scale: operands `vt, vr, imm`, predicate in operand 3 or none.
macro_rules! scaled {
    ($f:ty, $p:literal, |$a:ident, $scale:ident, $mode:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            // The scale field has 4 bits for fp16 and 5 for fp32.
            let (a, $scale, $mode) = (r.v(o, 1), o.v[2] & (8 * <$f>::FIELD - 1), r.round_mode());
            each::<$f>(r, o, out, $p, |i| {
                let $a = <$f>::get(a, i);
                $e
            });
        }
        exec
    }};
}

/// Integer to floating point with a host shortcut.
macro_rules! from_int {
    ($f:ty, $p:literal, $host:ident, signed: $signed:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            const SLOW: super::OpFn = scaled!($f, $p, |a, s, m| {
                let bits = 8 * <$f>::FIELD;
                let value = if $signed {
                    i64::from((a << (32 - bits)) as i32 >> (32 - bits))
                } else {
                    i64::from(a)
                };
                sf::from_int::<$f>(value, s, m)
            });
            if fastfp::allowed(r) {
                fastfp::$host(&mut out.vec[0], r.v(o, 1), $signed, o.v[2]);
                finish_fast::<$f>(r, o, out, $p);
            } else {
                SLOW(r, o, out);
            }
        }
        exec
    }};
}

/// fp32 to fp16 with a host shortcut.
macro_rules! narrow {
    ($p:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            const SLOW: super::OpFn = fp1!(F32, $p, |a, m| sf::narrow_f32(a, m));
            if fastfp::allowed(r) {
                fastfp::narrow_in_place(&mut out.vec[0], r.v(o, 1));
                finish_fast::<F32>(r, o, out, $p);
            } else {
                SLOW(r, o, out);
            }
        }
        exec
    }};
}

/// `to_int` as lane bits.
#[inline(always)]
fn trunc16(a: u32, scale: u32) -> sf::Flagged {
    let (value, flags) = sf::to_int::<F16>(a, scale, 16);
    (value as u16 as u32, flags)
}

#[inline(always)]
fn trunc32(a: u32, scale: u32) -> sf::Flagged {
    let (value, flags) = sf::to_int::<F32>(a, scale, 32);
    (value as u32, flags)
}

pub(super) static OPS: &[OpDef] = &[
    // OPEN: the fp16 operand and result of the width conversions sit in the low half of each 32-bit lane
    // (`_1`: high half), as the leaf that masks its 32-bit argument suggests; a narrowed value clears the
    // other half.
    fop("ivp_cvtf32f16", V_V, fp1!(F32, 0, |a, _m| sf::widen_f16(a & 0xffff))),
    fop("ivp_cvtf32nxf16_0", V_V, fp1!(F32, 0, |a, _m| sf::widen_f16(a & 0xffff))),
    fop("ivp_cvtf32nxf16_1", V_V, fp1!(F32, 0, |a, _m| sf::widen_f16(a >> 16))),
    fop("ivp_cvtf32nxf16t_0", VM_VB, fp1!(F32, 2, |a, _m| sf::widen_f16(a & 0xffff))),
    fop("ivp_cvtf32nxf16t_1", VM_VB, fp1!(F32, 2, |a, _m| sf::widen_f16(a >> 16))),
    fop("ivp_cvtf16f32", V_V, narrow!(0)),
    fop("ivp_cvtf16n_2xf32_0", V_V, narrow!(0)),
    fop("ivp_cvtf16n_2xf32t", VM_VB, narrow!(2)),
    // integer * 2^-imm
    fop("ivp_float16nx16", V_VI4, from_int!(F16, 0, from_int16, signed: true)),
    fop("ivp_float16nx16t", VM_VI4B, from_int!(F16, 3, from_int16, signed: true)),
    fop("float16.h", V_VI4, from_int!(F16, 0, from_int16, signed: true)),
    fop("ivp_ufloat16nx16", V_VI4, from_int!(F16, 0, from_int16, signed: false)),
    fop("ivp_ufloat16nx16t", VM_VI4B, from_int!(F16, 3, from_int16, signed: false)),
    fop("ufloat16.h", V_VI4, from_int!(F16, 0, from_int16, signed: false)),
    fop("ivp_floatn_2x32", V_VI5, from_int!(F32, 0, from_int32, signed: true)),
    fop("ivp_floatn_2x32t", VM_VI5B, from_int!(F32, 3, from_int32, signed: true)),
    fop("ivp_ufloatn_2x32", V_VI5, from_int!(F32, 0, from_int32, signed: false)),
    fop("ivp_ufloatn_2x32t", VM_VI5B, from_int!(F32, 3, from_int32, signed: false)),
    // trunc(value * 2^imm), whatever the rounding mode; the 16-bit forms by analogy with the 32-bit ones
    fop("ivp_trunc16nxf16", V_VI4, scaled!(F16, 0, |a, s, _m| trunc16(a, s))),
    fop("ivp_trunc16nxf16t", VM_VI4B, scaled!(F16, 3, |a, s, _m| trunc16(a, s))),
    fop("ivp_utrunc16nxf16", V_VI4, scaled!(F16, 0, |a, s, _m| sf::to_uint::<F16>(a, s, 16))),
    fop("ivp_utrunc16nxf16t", VM_VI4B, scaled!(F16, 3, |a, s, _m| sf::to_uint::<F16>(a, s, 16))),
    fop("ivp_truncn_2xf32", V_VI5, scaled!(F32, 0, |a, s, _m| trunc32(a, s))),
    fop("ivp_truncn_2xf32t", VM_VI5B, scaled!(F32, 3, |a, s, _m| trunc32(a, s))),
    fop("ivp_utruncn_2xf32", V_VI5, scaled!(F32, 0, |a, s, _m| sf::to_uint::<F32>(a, s, 32))),
    fop("ivp_utruncn_2xf32t", VM_VI5B, scaled!(F32, 3, |a, s, _m| sf::to_uint::<F32>(a, s, 32))),
    // toward zero
    fop("ivp_fitruncnxf16", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RZ, false))),
    fop("ivp_fitruncnxf16t", VM_VB, fp1!(F16, 2, |a, _m| sf::round_integral::<F16>(a, RZ, false))),
    fop("fitrunc.h", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RZ, false))),
    fop("ivp_fitruncn_2xf32", V_V, fp1!(F32, 0, |a, _m| sf::round_integral::<F32>(a, RZ, false))),
    fop(
        "ivp_fitruncn_2xf32t",
        VM_VB,
        fp1!(F32, 2, |a, _m| sf::round_integral::<F32>(a, RZ, false)),
    ),
    // up
    fop("ivp_ficeilnxf16", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RU, false))),
    fop("ivp_ficeilnxf16t", VM_VB, fp1!(F16, 2, |a, _m| sf::round_integral::<F16>(a, RU, false))),
    fop("ficeil.h", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RU, false))),
    fop("ivp_ficeiln_2xf32", V_V, fp1!(F32, 0, |a, _m| sf::round_integral::<F32>(a, RU, false))),
    fop("ivp_ficeiln_2xf32t", VM_VB, fp1!(F32, 2, |a, _m| sf::round_integral::<F32>(a, RU, false))),
    // down
    fop("ivp_fifloornxf16", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RD, false))),
    fop("ivp_fifloornxf16t", VM_VB, fp1!(F16, 2, |a, _m| sf::round_integral::<F16>(a, RD, false))),
    fop("fifloor.h", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RD, false))),
    fop("ivp_fifloorn_2xf32", V_V, fp1!(F32, 0, |a, _m| sf::round_integral::<F32>(a, RD, false))),
    fop(
        "ivp_fifloorn_2xf32t",
        VM_VB,
        fp1!(F32, 2, |a, _m| sf::round_integral::<F32>(a, RD, false)),
    ),
    // half away from zero
    fop("ivp_firoundnxf16", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RNA, false))),
    fop("ivp_firoundnxf16t", VM_VB, fp1!(F16, 2, |a, _m| sf::round_integral::<F16>(a, RNA, false))),
    fop("firound.h", V_V, fp1!(F16, 0, |a, _m| sf::round_integral::<F16>(a, RNA, false))),
    fop("ivp_firoundn_2xf32", V_V, fp1!(F32, 0, |a, _m| sf::round_integral::<F32>(a, RNA, false))),
    fop(
        "ivp_firoundn_2xf32t",
        VM_VB,
        fp1!(F32, 2, |a, _m| sf::round_integral::<F32>(a, RNA, false)),
    ),
    // by FCR
    fop("ivp_firintnxf16", V_V, fp1!(F16, 0, |a, m| sf::round_integral::<F16>(a, m, true))),
    fop("ivp_firintnxf16t", VM_VB, fp1!(F16, 2, |a, m| sf::round_integral::<F16>(a, m, true))),
    fop("firint.h", V_V, fp1!(F16, 0, |a, m| sf::round_integral::<F16>(a, m, true))),
    fop("ivp_firintn_2xf32", V_V, fp1!(F32, 0, |a, m| sf::round_integral::<F32>(a, m, true))),
    fop("ivp_firintn_2xf32t", VM_VB, fp1!(F32, 2, |a, m| sf::round_integral::<F32>(a, m, true))),
];

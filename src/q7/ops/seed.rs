//! Transcendental seeds: reciprocal, reciprocal square root, square root, divide, exp range reduction.
//!
//! A seed is one table byte placed as a significand. Specials that no source states are marked OPEN.
//! (wiki: validation/transcendental-seed, isa/ref/b14-hp-lookup, isa/ref/b15-sp-lookup)

use super::fp::{Lanes, each, fp1};
use super::shape::*;
use super::softfloat::{self as sf, F16, F32, Flagged, Format};
use super::{OpDef, SlotOperands};
use crate::q7::regs::{RegFile, fcr};
use crate::q7::tables::seeds::{RECIP, RSQRT};

/// Exponent field and mantissa with denormals normalised; the exponent may be zero or negative.
#[inline(always)]
fn normalised<F: Format>(x: u32) -> (i32, u32) {
    let (e, m) = ((x >> F::M & F::EMAX) as i32, x & F::MANT);
    if e != 0 || m == 0 {
        return (e, m);
    }
    let up = m.leading_zeros() - (31 - F::M);
    (1 - up as i32, m << up & F::MANT)
}

#[inline(always)]
fn recip_byte<F: Format>(m: u32) -> u32 {
    u32::from(RECIP[(m >> (F::M - 7) & 0x7f) as usize])
}

#[inline(always)]
fn rsqrt_byte<F: Format>(e: i32, m: u32) -> u32 {
    u32::from(RSQRT[(((e & 1) as u32) << 6 | m >> (F::M - 6) & 0x3f) as usize])
}

/// 1/x seed.
pub fn recip0<F: Format>(x: u32) -> Flagged {
    let sign = x & F::SIGN;
    let magnitude = x & (F::SIGN - 1);
    if magnitude == 0 {
        return (sign | F::INF, fcr::DIV_ZERO);
    }
    if magnitude == F::INF {
        return (sign, 0);
    }
    let (e, m) = normalised::<F>(x);
    let t = recip_byte::<F>(m);
    if magnitude > F::INF {
        // The byte's top bit lands on the quiet bit (inferred from two vectors).
        return (sign | F::INF | t << (F::M - 8), sf::snan_flag::<F>(x));
    }
    let exponent = 2 * F::BIAS - 1 - e;
    let bits = if exponent >= F::EMAX as i32 {
        F::INF
    } else if exponent >= 1 {
        (exponent as u32) << F::M | (t & 0x7f) << (F::M - 7)
    } else {
        (t << (F::M - 7)) >> (1 - exponent)
    };
    (sign | bits, 0)
}

/// 1/sqrt(x) seed. OPEN: -0 gives -inf with DivZero; a NaN gives the quiet NaN built like that of a
/// negative input, with its own sign, Invalid only if signalling.
pub fn rsqrt0<F: Format>(x: u32) -> Flagged {
    let sign = x & F::SIGN;
    let magnitude = x & (F::SIGN - 1);
    if magnitude == 0 {
        return (sign | F::INF, fcr::DIV_ZERO);
    }
    if x == F::INF {
        return (0, 0);
    }
    let (e, m) = normalised::<F>(x);
    let t = rsqrt_byte::<F>(e, m);
    let nan = sign | F::INF | (t & 0x3f | 0x40) << (F::M - 7);
    if magnitude > F::INF {
        return (nan, sf::snan_flag::<F>(x));
    }
    if sign != 0 {
        return (nan, fcr::INVALID);
    }
    let exponent = F::BIAS - 1 - ((e - F::BIAS) >> 1);
    ((exponent as u32) << F::M | (t & 0x7f) << (F::M - 7), 0)
}

/// 1/sqrt of the significand scaled by exponent parity, in 0.5..1. OPEN: the same for every input,
/// since no special is given.
pub fn sqrt0<F: Format>(x: u32) -> u32 {
    let (e, m) = normalised::<F>(x);
    (F::BIAS as u32 - 1) << F::M | (rsqrt_byte::<F>(e, m) & 0x7f) << (F::M - 7)
}

/// Reciprocal of the significand; fp32 keeps the exponent's parity, fp16 drops the exponent.
/// OPEN: the same for every input, since no special is given.
pub fn div0<F: Format>(x: u32) -> u32 {
    let (e, m) = normalised::<F>(x);
    let exponent = if F::E == 8 { 125 + (e & 1) as u32 } else { F::BIAS as u32 - 1 };
    x & F::SIGN | exponent << F::M | (recip_byte::<F>(m) & 0x7f) << (F::M - 7)
}

/// Exp range reduction: sign inverted, exponent of one, mantissa kept.
pub fn nexp0<F: Format>(x: u32) -> u32 {
    let (e, m) = normalised::<F>(x);
    let exponent = if e == F::EMAX as i32 { F::EMAX } else { F::BIAS as u32 };
    (!x & F::SIGN) | exponent << F::M | m
}

/// Like [`nexp0`] with the exponent's parity kept: one if odd (or zero), two if even. The fp16 sign is
/// always set. OPEN: infinities and NaNs give a positive pattern at fp32, a negative one at fp16.
pub fn nexp01<F: Format>(x: u32) -> u32 {
    let (e, m) = normalised::<F>(x);
    if e == F::EMAX as i32 {
        return if F::E == 8 { F::INF | m } else { F::SIGN | F::INF | m };
    }
    let odd = e & 1 == 1 || x & (F::SIGN - 1) == 0;
    let exponent = F::BIAS as u32 + u32::from(!odd);
    (if F::E == 8 { !x & F::SIGN } else { F::SIGN }) | exponent << F::M | m
}

/// 1/x, correctly rounded under FCR.
///
/// OPEN: not bit-exact with the hardware, whose quadratic coefficients no source prints.
/// (wiki: isa/ref/b24-composite)
pub fn recip_qli(x: u32, mode: u32) -> Flagged {
    let sign = x & F32::SIGN;
    let magnitude = x & !F32::SIGN;
    if magnitude > F32::INF {
        return (x | F32::QUIET, sf::snan_flag::<F32>(x));
    }
    if magnitude == 0 {
        return (sign | F32::INF, fcr::DIV_ZERO);
    }
    if magnitude == F32::INF {
        return (sign, 0);
    }
    let (e, m) = normalised::<F32>(x);
    let significand = u128::from(m | 1 << 23);
    // 2^80 / significand has at least 56 bits; the remainder only matters as "not zero".
    let quotient = (1u128 << 80) / significand;
    let sticky = u128::from(!(1u128 << 80).is_multiple_of(significand));
    sf::round_pack::<F32>(sign != 0, 23 + 127 - e - 80 - 1, quotient << 1 | sticky, mode)
}

pub(super) static OPS: &[OpDef] = &[
    fop("ivp_recip0nxf16", V_V, fp1!(F16, 0, |a, _m| recip0::<F16>(a))),
    fop("ivp_recip0nxf16t", VM_VB, fp1!(F16, 2, |a, _m| recip0::<F16>(a))),
    fop("recip0.h", V_V, fp1!(F16, 0, |a, _m| recip0::<F16>(a))),
    fop("ivp_recip0n_2xf32", V_V, fp1!(F32, 0, |a, _m| recip0::<F32>(a))),
    fop("ivp_recip0n_2xf32t", VM_VB, fp1!(F32, 2, |a, _m| recip0::<F32>(a))),
    fop("recip0.s", V_V, fp1!(F32, 0, |a, _m| recip0::<F32>(a))),
    fop("ivp_rsqrt0nxf16", V_V, fp1!(F16, 0, |a, _m| rsqrt0::<F16>(a))),
    fop("ivp_rsqrt0nxf16t", VM_VB, fp1!(F16, 2, |a, _m| rsqrt0::<F16>(a))),
    fop("rsqrt0.h", V_V, fp1!(F16, 0, |a, _m| rsqrt0::<F16>(a))),
    fop("ivp_rsqrt0n_2xf32", V_V, fp1!(F32, 0, |a, _m| rsqrt0::<F32>(a))),
    fop("ivp_rsqrt0n_2xf32t", VM_VB, fp1!(F32, 2, |a, _m| rsqrt0::<F32>(a))),
    fop("rsqrt0.s", V_V, fp1!(F32, 0, |a, _m| rsqrt0::<F32>(a))),
    op("ivp_sqrt0nxf16", V_V, fp1!(F16, 0, |a, _m| (sqrt0::<F16>(a), 0))),
    op("ivp_sqrt0nxf16t", VM_VB, fp1!(F16, 2, |a, _m| (sqrt0::<F16>(a), 0))),
    op("ivp_sqrt0n_2xf32", V_V, fp1!(F32, 0, |a, _m| (sqrt0::<F32>(a), 0))),
    op("ivp_sqrt0n_2xf32t", VM_VB, fp1!(F32, 2, |a, _m| (sqrt0::<F32>(a), 0))),
    op("ivp_div0nxf16", V_V, fp1!(F16, 0, |a, _m| (div0::<F16>(a), 0))),
    op("ivp_div0nxf16t", VM_VB, fp1!(F16, 2, |a, _m| (div0::<F16>(a), 0))),
    op("ivp_div0n_2xf32", V_V, fp1!(F32, 0, |a, _m| (div0::<F32>(a), 0))),
    op("ivp_div0n_2xf32t", VM_VB, fp1!(F32, 2, |a, _m| (div0::<F32>(a), 0))),
    op("ivp_nexp0nxf16", V_V, fp1!(F16, 0, |a, _m| (nexp0::<F16>(a), 0))),
    op("ivp_nexp0nxf16t", VM_VB, fp1!(F16, 2, |a, _m| (nexp0::<F16>(a), 0))),
    op("nexp0.h", V_V, fp1!(F16, 0, |a, _m| (nexp0::<F16>(a), 0))),
    op("ivp_nexp01nxf16", V_V, fp1!(F16, 0, |a, _m| (nexp01::<F16>(a), 0))),
    op("ivp_nexp01nxf16t", VM_VB, fp1!(F16, 2, |a, _m| (nexp01::<F16>(a), 0))),
    op("ivp_nexp01n_2xf32", V_V, fp1!(F32, 0, |a, _m| (nexp01::<F32>(a), 0))),
    op("ivp_nexp01n_2xf32t", VM_VB, fp1!(F32, 2, |a, _m| (nexp01::<F32>(a), 0))),
    // OPEN: both halves of the pair compute all lanes.
    fop("ivp_recipqlin_2xf32_0", V_V, fp1!(F32, 0, |a, m| recip_qli(a, m))),
    fop("ivp_recipqlin_2xf32_1", V_V, fp1!(F32, 0, |a, m| recip_qli(a, m))),
    fop("ivp_recipqlin_2xf32t_0", VM_VB, fp1!(F32, 2, |a, m| recip_qli(a, m))),
    fop("ivp_recipqlin_2xf32t_1", VM_VB, fp1!(F32, 2, |a, m| recip_qli(a, m))),
    fop("recipqli.s", V_V, fp1!(F32, 0, |a, m| recip_qli(a, m))),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Under nearest even the quadratic refinement stands for the host's division.
    #[test]
    fn refined_reciprocal_is_correctly_rounded() {
        for i in 0..2_000_000u32 {
            let x = i.wrapping_mul(2_654_435_761);
            let want = 1.0 / f32::from_bits(x);
            if !want.is_nan() {
                assert_eq!(recip_qli(x, sf::RNE).0, want.to_bits(), "{x:08x}");
            }
        }
    }
}

//! Value leaves of the accumulator: multiply-accumulate, extend, narrow and pack.
//!
//! An accumulator lane is `bits` wide (24, 48 or 96) and travels in the low bits of a `u128`. Only the
//! 48-bit packs have a published encoding (in the load slot) and with it a mnemonic here.
//! (wiki: validation/mac-multiply, validation/convert-pack-cast)

use super::shape::*;
use super::{OpDef, SlotOperands};
use crate::q7::regs::RegFile;

/// Low `bits` of `x`.
#[inline(always)]
pub fn low(x: u128, bits: u32) -> u128 {
    if bits >= 128 { x } else { x & ((1 << bits) - 1) }
}

/// Low `bits` of `x` as a signed number.
#[inline(always)]
pub fn sext(x: u128, bits: u32) -> i128 {
    (x << (128 - bits)) as i128 >> (128 - bits)
}

/// Clamp to `bits` signed bits, as raw bits.
#[inline(always)]
pub fn sats(x: i128, bits: u32) -> u128 {
    let most = (1i128 << (bits - 1)) - 1;
    low(x.clamp(-most - 1, most) as u128, bits)
}

/// Clamp to `bits` unsigned bits.
#[inline(always)]
pub fn satu(x: i128, bits: u32) -> u128 {
    x.clamp(0, (1i128 << bits) - 1) as u128
}

/// `acc + a * b` modulo `2^bits`; operands already sign- or zero-extended.
#[inline(always)]
pub fn mula(acc: u128, a: i128, b: i128, bits: u32) -> u128 {
    low(acc.wrapping_add(a.wrapping_mul(b) as u128), bits)
}

/// `acc - a * b` modulo `2^bits`.
#[inline(always)]
pub fn muls(acc: u128, a: i128, b: i128, bits: u32) -> u128 {
    low(acc.wrapping_sub(a.wrapping_mul(b) as u128), bits)
}

/// Shift amount clamped to 23, for 24-bit accumulators.
#[inline(always)]
pub fn shift_amt_satu_23(amount: u32) -> u32 {
    amount.min(23)
}

/// Shift amount clamped to 32, for wider accumulators. OPEN: that it gates the 48 and 96-bit packs too.
#[inline(always)]
pub fn shift_amt_satu_32(amount: u32) -> u32 {
    amount.min(32)
}

fn clamped_shift(bits: u32, amount: u32) -> u32 {
    if bits == 24 { shift_amt_satu_23(amount) } else { shift_amt_satu_32(amount) }
}

/// Round half up, shift right, saturate to `out` signed bits.
pub fn packvr(acc: u128, bits: u32, amount: u32, out: u32) -> u128 {
    let s = clamped_shift(bits, amount);
    sats((sext(acc, bits) + ((1 << s) >> 1)) >> s, out)
}

/// As [`packvr`] without rounding and without clamp of the value.
pub fn packvrnr(acc: u128, bits: u32, amount: u32, out: u32) -> u128 {
    low((sext(acc, bits) >> clamped_shift(bits, amount)) as u128, out)
}

/// As [`packvr`] with an unsigned clamp.
pub fn packvru(acc: u128, bits: u32, amount: u32, out: u32) -> u128 {
    let s = clamped_shift(bits, amount);
    satu((sext(acc, bits) + ((1 << s) >> 1)) >> s, out)
}

/// Low `out` bits, no clamp.
pub fn packl(acc: u128, out: u32) -> u128 {
    low(acc, out)
}

/// Rounded shift of accumulator word 0 into 16 bits, wrapping: `packp` is `s = 10`, `packq` `s = 15`.
pub fn pack(word0: u32, s: u32) -> u16 {
    let round = if s == 0 { 0 } else { 1u32 << (s.wrapping_sub(1) & 15) };
    ((word0.wrapping_add(round) & 0x7fff_ffff) >> s.min(31)) as u16
}

/// `acc - 1` if negative.
pub fn decnegw(acc: u128, bits: u32) -> u128 {
    if sext(acc, bits) < 0 { low(acc.wrapping_sub(1), bits) } else { low(acc, bits) }
}

/// Reads out the 32 lanes of 48 bits into 16-bit lanes: `vt, wvr` and for the variable shifts `ars`.
macro_rules! pack48 {
    (|$acc:ident, $amount:ident| $e:expr) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            let (accumulator, $amount) = (r.wv(o, 1), o.v[2]);
            for (i, d) in out.vec[0].u16s_mut().iter_mut().enumerate() {
                let $acc = accumulator.lane(48, i);
                *d = $e as u16;
            }
        }
        exec
    }};
}

pub(super) static OPS: &[OpDef] = &[
    op("ivp_packlnx48", V_W, pack48!(|acc, _amount| packl(acc, 16))),
    // OPEN: the state that makes these two saturate is not located; they wrap.
    op("ivp_packpnx48", V_W, pack48!(|acc, _amount| pack(acc as u32, 10))),
    op("ivp_packqnx48", V_W, pack48!(|acc, _amount| pack(acc as u32, 15))),
    op("ivp_packvrnx48", V_WA, pack48!(|acc, amount| packvr(acc, 48, amount, 16))),
    op("ivp_packvrnrnx48", V_WA, pack48!(|acc, amount| packvrnr(acc, 48, amount, 16))),
    op("ivp_movww", W_W, |r, o, out| out.wide = *r.wv(o, 1)),
];

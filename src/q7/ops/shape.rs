//! Operand lists in assembly order, register access by operand position, and the vbool helpers that
//! every family uses.

use super::{Access, File, OpDef, OpFn, OpOut, Operand, Semantics, SlotOperands, Writes};
use crate::q7::regs::{RegFile, Vec512, Wide};

const fn operand(name: &'static str, file: File, access: Access) -> Operand {
    Operand { name, file, access }
}

const VT: Operand = operand("vt", File::Vec, Access::W);
const VTM: Operand = operand("vt", File::Vec, Access::M);
const VU: Operand = operand("vu", File::Vec, Access::W);
const VUM: Operand = operand("vu", File::Vec, Access::M);
const VS: Operand = operand("vs", File::Vec, Access::R);
const VR: Operand = operand("vr", File::Vec, Access::R);
const SR: Operand = operand("sr", File::Vec, Access::R);
const VBT: Operand = operand("vbt", File::Vbool, Access::W);
const VBTM: Operand = operand("vbt", File::Vbool, Access::M);
const VBS: Operand = operand("vbs", File::Vbool, Access::R);
const VBR: Operand = operand("vbr", File::Vbool, Access::R);
const BRT: Operand = operand("bt", File::Br, Access::W);
const BRS: Operand = operand("bs", File::Br, Access::R);
const BRR: Operand = operand("br", File::Br, Access::R);
const ARR: Operand = operand("arr", File::Ar, Access::W);
const ARS: Operand = operand("ars", File::Ar, Access::R);
const ARSM: Operand = operand("ars", File::Ar, Access::M);
const ART: Operand = operand("art", File::Ar, Access::R);
const WVT: Operand = operand("wvt", File::Wvec, Access::W);
const WVR: Operand = operand("wvr", File::Wvec, Access::R);
const PRT: Operand = operand("prt", File::Pr, Access::W);
const PRR: Operand = operand("prr", File::Pr, Access::R);
const fn imm(name: &'static str, bits: u8) -> Operand {
    operand(name, File::Imm(bits), Access::R)
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident = [$($part:expr),*];)*) => {
        $($(#[$doc])* pub(super) const $name: &[Operand] = &[$($part),*];)*
    };
}

shapes! {
    /// `vt, vr`
    V_V = [VT, VR];
    /// `vt, vs, vr`
    V_VV = [VT, VS, VR];
    /// `vt, vr, vs`: the order of the shifts, `vs` holds the amounts.
    V_VRVS = [VT, VR, VS];
    /// `vt(rw), vr`
    VM_V = [VTM, VR];
    /// `vt(rw), vs, vr`
    VM_VV = [VTM, VS, VR];
    /// `vt(rw), vr, vbr`
    VM_VB = [VTM, VR, VBR];
    /// `vt(rw), vs, vr, vbr`
    VM_VVB = [VTM, VS, VR, VBR];
    /// `vt, vr, vbr`
    V_VB = [VT, VR, VBR];
    /// `vt, vs, vr, vbr`
    V_VVB = [VT, VS, VR, VBR];
    /// `vt, vr, imm3`
    V_VI3 = [VT, VR, imm("imm3", 3)];
    /// `vt, vr, imm4`
    V_VI4 = [VT, VR, imm("imm4", 4)];
    /// `vt, vr, imm5`
    V_VI5 = [VT, VR, imm("imm5", 5)];
    /// `vt, vr, imm6`
    V_VI6 = [VT, VR, imm("imm6", 6)];
    /// `vt(rw), vr, imm4, vbr`
    VM_VI4B = [VTM, VR, imm("imm4", 4), VBR];
    /// `vt(rw), vr, imm5, vbr`
    VM_VI5B = [VTM, VR, imm("imm5", 5), VBR];
    /// `vt(rw), vr, imm6, vbr`
    VM_VI6B = [VTM, VR, imm("imm6", 6), VBR];
    /// `vt, vs, vr, isel`
    V_VVI7 = [VT, VS, VR, imm("isel", 7)];
    /// `vt, vr, ishfl`
    V_VI7 = [VT, VR, imm("ishfl", 7)];
    /// `vt, vs, vr, sr`
    V_VVC = [VT, VS, VR, SR];
    /// `vt(rw), vs, vr, sr, vbr`
    VM_VVCB = [VTM, VS, VR, SR, VBR];
    /// `vt, vr, sr`
    V_VC = [VT, VR, SR];
    /// `vu, vt, vs, vr, sr`
    VV_VVC = [VU, VT, VS, VR, SR];
    /// `vu(rw), vt(rw), vs, vr, sr, vbr`
    VV_VVCB = [VUM, VTM, VS, VR, SR, VBR];
    /// `vu, vt, vs, vr, slct`
    VV_VVI4 = [VU, VT, VS, VR, imm("slct", 4)];
    /// `vu(rw), vt, vs, vr, slct_h`
    VV_VVI2 = [VUM, VT, VS, VR, imm("slct_h", 2)];
    /// `vt, vu, vs, vr, lane_ctrl`
    VV_VVI1 = [VT, VU, VS, VR, imm("lane_ctrl", 1)];
    /// `vt(rw), vu(rw), vr, lane_ctrl`
    VVM_VI1 = [VTM, VUM, VR, imm("lane_ctrl", 1)];
    /// `vbt, vs, vr`
    B_VV = [VBT, VS, VR];
    /// `vbt, vs, vr, vbr`
    B_VVB = [VBT, VS, VR, VBR];
    /// `vt, vbt, vr`
    VB_V = [VT, VBT, VR];
    /// `vt, vbt, vr, vbr`
    VB_VB = [VT, VBT, VR, VBR];
    /// `vt, vbt, vs, vr`
    VB_VV = [VT, VBT, VS, VR];
    /// `vt, vbt(rw), vs, vr`
    VBM_VV = [VT, VBTM, VS, VR];
    /// `vbt, vbs, vbr`
    B_BB = [VBT, VBS, VBR];
    /// `vbt, vbr`
    B_B = [VBT, VBR];
    /// `bt, bs, br`
    BR_BRBR = [BRT, BRS, BRR];
    /// `bt, br`
    BR_BR = [BRT, BRR];
    /// `bt, vbr`
    BR_B = [BRT, VBR];
    /// `vbt, ars`
    B_A = [VBT, ARS];
    /// `vbt, imm`
    B_I6 = [VBT, imm("imm6", 6)];
    /// `vbt, imm`
    B_I5 = [VBT, imm("imm5", 5)];
    /// `vbt, imm`
    B_I4 = [VBT, imm("imm4", 4)];
    /// `vt, arr, vbr`
    VA_B = [VT, ARR, VBR];
    /// `vt, ars(rw), vs, vr`
    VA_VV = [VT, ARSM, VS, VR];
    /// `vt, ars(rw), vs, vr, vbs, vbr`
    VA_VVBB = [VT, ARSM, VS, VR, VBS, VBR];
    /// `arr`
    A = [ARR];
    /// `art`
    FROM_A = [ART];
    /// `arr, vr`
    A_V = [ARR, VR];
    /// `arr, vr, imm4`
    A_VI4 = [ARR, VR, imm("imm4", 4)];
    /// `arr, vr, imm5`
    A_VI5 = [ARR, VR, imm("imm5", 5)];
    /// `arr, vr, imm6`
    A_VI6 = [ARR, VR, imm("imm6", 6)];
    /// `prt, vr, imm3`
    P_VI3 = [PRT, VR, imm("imm3", 3)];
    /// `prt, vr, imm4`
    P_VI4 = [PRT, VR, imm("imm4", 4)];
    /// `prt, vr, imm5`
    P_VI5 = [PRT, VR, imm("imm5", 5)];
    /// `prt, vr, imm6`
    P_VI6 = [PRT, VR, imm("imm6", 6)];
    /// `prt, vs, vr, imm1, imm2`
    P_VVII = [PRT, VS, VR, imm("imm1", 4), imm("imm2", 4)];
    /// `prt, prr`
    P_P = [PRT, PRR];
    /// `prt, ars`
    P_A = [PRT, ARS];
    /// `vt, prr`
    V_P = [VT, PRR];
    /// `vt, ars`
    V_A = [VT, ARS];
    /// `vt, imm`
    V_I = [VT, imm("imm7", 7)];
    /// `vt`
    V = [VT];
    /// `vr`
    FROM_V = [VR];
    /// `vbt, vr, imm3`
    B_VI3 = [VBT, VR, imm("imm3", 3)];
    /// `vbt, vr, imm4`
    B_VI4 = [VBT, VR, imm("imm4", 4)];
    /// `vbt, vr, imm5`
    B_VI5 = [VBT, VR, imm("imm5", 5)];
    /// `vt(rw), vbr, imm3`
    VM_BI3 = [VTM, VBR, imm("imm3", 3)];
    /// `vt(rw), vbr, imm4`
    VM_BI4 = [VTM, VBR, imm("imm4", 4)];
    /// `vt(rw), vbr, imm5`
    VM_BI5 = [VTM, VBR, imm("imm5", 5)];
    /// `arr, ars, art`
    A_AA = [ARR, ARS, ART];
    /// `vs, vr`
    FROM_VV = [VS, VR];
    /// `vt, wvr`
    V_W = [VT, WVR];
    /// `vt, wvr, ars`
    V_WA = [VT, WVR, ARS];
    /// `wvt, wvr`
    W_W = [WVT, WVR];
}

/// An operation without floating-point flags.
pub(super) const fn op(mnemonic: &'static str, operands: &'static [Operand], exec: OpFn) -> OpDef {
    OpDef { mnemonic, operands, writes: Writes::of(operands), semantics: Semantics::Exec(exec) }
}

/// An operation that raises floating-point flags.
pub(super) const fn fop(mnemonic: &'static str, operands: &'static [Operand], exec: OpFn) -> OpDef {
    let mut writes = Writes::of(operands);
    writes.flags = true;
    writes.plain = false;
    OpDef { mnemonic, operands, writes, semantics: Semantics::Exec(exec) }
}

/// An operation that replaces FCR and FSR.
pub(super) const fn state_op(
    mnemonic: &'static str,
    operands: &'static [Operand],
    exec: OpFn,
) -> OpDef {
    let mut writes = Writes::of(operands);
    writes.fp_state = true;
    writes.plain = false;
    OpDef { mnemonic, operands, writes, semantics: Semantics::Exec(exec) }
}

/// An operation that writes bit-plane state: FS register `fs`, or all of them if 8.
pub(super) const fn fs_op(
    mnemonic: &'static str,
    operands: &'static [Operand],
    fs: u8,
    exec: OpFn,
) -> OpDef {
    let mut writes = Writes::of(operands);
    writes.fs = fs;
    writes.plain = false;
    OpDef { mnemonic, operands, writes, semantics: Semantics::Exec(exec) }
}

/// An operation whose meaning the sources leave out.
pub(super) const fn missing(
    mnemonic: &'static str,
    operands: &'static [Operand],
    fact: &'static str,
    page: &'static str,
) -> OpDef {
    OpDef {
        mnemonic,
        operands,
        writes: Writes::of(operands),
        semantics: Semantics::Missing { fact, page },
    }
}

impl RegFile {
    /// Vector register named by operand `position`.
    #[inline(always)]
    pub(super) fn v(&self, o: &SlotOperands, position: usize) -> &Vec512 {
        &self.vec[(o.v[position] & 31) as usize]
    }

    /// vbool register named by operand `position`.
    #[inline(always)]
    pub(super) fn vb(&self, o: &SlotOperands, position: usize) -> u64 {
        self.vbool[(o.v[position] & 15) as usize]
    }

    /// Accumulator named by operand `position`.
    #[inline(always)]
    pub(super) fn wv(&self, o: &SlotOperands, position: usize) -> &Wide {
        &self.wvec[(o.v[position] & 3) as usize]
    }

    /// b32_pr register named by operand `position`.
    #[inline(always)]
    pub(super) fn pr(&self, o: &SlotOperands, position: usize) -> u64 {
        self.b32_pr[(o.v[position] & 15) as usize]
    }
}

/// Spreads the low bit of every `field`-bit group (1, 2 or 4) over the whole group.
#[inline(always)]
pub fn spread_fields(vb: u64, field: u32) -> u64 {
    match field {
        1 => vb,
        2 => (vb & 0x5555_5555_5555_5555) * 3,
        _ => (vb & 0x1111_1111_1111_1111) * 15,
    }
}

/// One mask byte (0 or 0xff) per bit of `bits`.
#[inline(always)]
pub fn bytes_of_bits(bits: u64) -> Vec512 {
    let mut mask = Vec512::ZERO;
    for (k, word) in mask.u64s_mut().iter_mut().enumerate() {
        let group = bits >> (8 * k) & 0xff;
        // Copy the byte to all eight places, keep bit i in byte i, and turn "not zero" into 0xff.
        let picked = group.wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let top = ((picked + 0x7f7f_7f7f_7f7f_7f7f) | picked) & 0x8080_8080_8080_8080;
        *word = (top >> 7) * 0xff;
    }
    mask
}

/// Lane mask (0 or all ones per `field`-byte lane) of a predicate.
#[inline(always)]
pub fn lane_mask(vb: u64, field: u32) -> Vec512 {
    bytes_of_bits(spread_fields(vb, field))
}

/// One bit per byte: its lowest bit. A lane mask of any width becomes the full vbool field.
#[inline(always)]
pub fn bits_of_bytes(mask: &Vec512) -> u64 {
    let mut bits = 0;
    for (k, &word) in mask.u64s().iter().enumerate() {
        let group = (word & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= group << (8 * k);
    }
    bits
}

/// Merge of a predicated form: `new` where the predicate is set, `old` elsewhere.
/// (wiki: iss/cas-predicate-boolean)
#[inline(always)]
pub fn merge(new: &mut Vec512, old: &Vec512, vb: u64, field: u32) {
    let mask = lane_mask(vb, field);
    for ((n, &o), &m) in new.u64s_mut().iter_mut().zip(old.u64s()).zip(mask.u64s()) {
        *n = *n & m | o & !m;
    }
}

/// Lanewise unary operation `vt, vr`.
macro_rules! lanes1 {
    ($view:ident, $view_mut:ident, |$a:ident| $e:expr) => {{
        fn exec(
            r: &$crate::q7::regs::RegFile,
            o: &$crate::q7::ops::SlotOperands,
            out: &mut $crate::q7::ops::OpOut,
        ) {
            for (d, &$a) in out.vec[0].$view_mut().iter_mut().zip(r.v(o, 1).$view()) {
                *d = $e;
            }
        }
        exec
    }};
}

/// Lanewise binary operation; `$a` and `$b` are the first and second source operand.
macro_rules! lanes2 {
    ($view:ident, $view_mut:ident, |$a:ident, $b:ident| $e:expr) => {{
        fn exec(
            r: &$crate::q7::regs::RegFile,
            o: &$crate::q7::ops::SlotOperands,
            out: &mut $crate::q7::ops::OpOut,
        ) {
            let (a, b) = (r.v(o, 1).$view(), r.v(o, 2).$view());
            for ((d, &$a), &$b) in out.vec[0].$view_mut().iter_mut().zip(a).zip(b) {
                *d = $e;
            }
        }
        exec
    }};
}

/// Predicated form of an operation whose vector destination is operand 0 and whose predicate is
/// operand `$vb`; lanes are `$field` bytes wide.
macro_rules! predicated {
    ($field:literal, $vb:literal, $base:expr) => {{
        fn exec(
            r: &$crate::q7::regs::RegFile,
            o: &$crate::q7::ops::SlotOperands,
            out: &mut $crate::q7::ops::OpOut,
        ) {
            const BASE: $crate::q7::ops::OpFn = $base;
            BASE(r, o, out);
            $crate::q7::ops::shape::merge(&mut out.vec[0], r.v(o, 0), r.vb(o, $vb), $field);
        }
        exec
    }};
}

pub(super) use {lanes1, lanes2, predicated};

/// Keeps `OpOut` importable next to the macros that name it.
pub(super) type Out = OpOut;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_bytes_follow_bits_and_come_back() {
        for bits in [0, 1, 0x8000_0000_0000_0001, 0xf0f0_5555_aaaa_1234, u64::MAX] {
            let mask = bytes_of_bits(bits);
            for i in 0..64 {
                assert_eq!(
                    mask.u8s()[i],
                    if bits >> i & 1 == 1 { 0xff } else { 0 },
                    "bit {i} of {bits:x}"
                );
            }
            assert_eq!(bits_of_bytes(&mask), bits);
        }
    }

    #[test]
    fn consumers_look_at_the_low_bit_of_a_field() {
        assert_eq!(spread_fields(0b1001, 2), 0b0011);
        assert_eq!(spread_fields(0b1001_1110, 4), 0b1111_0000);
        let mut new = Vec512::splat16(1);
        merge(&mut new, &Vec512::splat16(2), 0b10_01, 2);
        assert_eq!(new.u16s()[..3], [1, 2, 2]);
    }
}

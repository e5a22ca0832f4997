//! Moves between files, replicate, extract, and the FCR/FSR transfers.
//! (wiki: isa/ref/b09-vec-mov, isa/ref/b16-vec-rep, isa/core/fp-sub-isa)

use super::shape::*;
use super::{OpDef, SlotOperands};
use crate::q7::regs::{RegFile, Vec512, fcr};

/// Broadcast of one lane, `vt, vr, imm`.
macro_rules! replicate {
    ($view:ident, $splat:ident, $n:literal) => {{
        fn exec(r: &RegFile, o: &SlotOperands, out: &mut Out) {
            out.vec[0] = Vec512::$splat(r.v(o, 1).$view()[o.v[2] as usize & ($n - 1)]);
        }
        exec
    }};
}

/// Lane `imm` as a scalar, `dst, vr, imm`.
macro_rules! lane {
    ($view:ident, $n:literal, $r:ident, $o:ident) => {
        $r.v($o, 1).$view()[$o.v[2] as usize & ($n - 1)]
    };
}

/// Register pair FCR, FSR as the packed word of the vector transfers.
/// (wiki: validation/regfile-bridge-divergence)
pub fn pack_fp_state(control: u32, status: u32) -> u32 {
    let enables = control >> fcr::ENABLE_SHIFT & fcr::FLAGS;
    enables << 2 | (control & fcr::ROUND_MASK) << 8 | (status & fcr::FLAGS) << 10
}

/// FCR and FSR of a packed word; bits 0, 1 and 7 are reserved.
pub fn unpack_fp_state(packed: u32) -> (u32, u32) {
    let enables = packed >> 2 & fcr::FLAGS;
    (enables << fcr::ENABLE_SHIFT | packed >> 8 & fcr::ROUND_MASK, packed >> 10 & fcr::FLAGS)
}

fn state(out: &mut Out, control: u32, status: u32) {
    out.pr = u64::from(control & fcr::MASK) | u64::from(status & fcr::FLAGS) << 32;
}

fn copy(r: &RegFile, o: &SlotOperands, out: &mut Out) {
    out.vec[0] = *r.v(o, 1);
}

const MOVVPR: &str = "whether the 64 bits are copied to the low lane or spread one bit per lane";
const B09: &str = "wiki: isa/ref/b09-vec-mov";
const HALF: &str = "which lanes the half move selects and how it packs them";

pub(super) static OPS: &[OpDef] = &[
    op("ivp_movvv", V_V, copy),
    op("ivp_mov2nx8t", VM_VB, predicated!(1, 2, copy)),
    op("ivp_movnx16t", VM_VB, predicated!(2, 2, copy)),
    op("ivp_movn_2x32t", VM_VB, predicated!(4, 2, copy)),
    missing("ivp_movvpr", V_P, MOVVPR, B09),
    op("ivp_movprpr", P_P, |r, o, out| out.pr = r.pr(o, 1)),
    // the high word repeats the sign
    op("ivp_movpra32", P_A, |_, o, out| out.pr = i64::from(o.v[1] as i32) as u64),
    // AR to every lane
    op("ivp_movva8", V_A, |_, o, out| out.vec[0] = Vec512::splat8(o.v[1] as u8)),
    op("ivp_movva16", V_A, |_, o, out| out.vec[0] = Vec512::splat16(o.v[1] as u16)),
    op("ivp_movva32", V_A, |_, o, out| out.vec[0] = Vec512::splat32(o.v[1])),
    // OPEN: the immediate is an unsigned value broadcast to every lane
    op("ivp_movvint8", V_I, |_, o, out| out.vec[0] = Vec512::splat8(o.v[1] as u8)),
    op("ivp_movvint16", V_I, |_, o, out| out.vec[0] = Vec512::splat16(o.v[1] as u16)),
    missing("ivp_movvinx16", V_I, "what the indexed immediate is", B09),
    missing("ivp_movpint16", V_I, HALF, B09),
    missing("ivp_movqint16", V_I, HALF, B09),
    // lane 0 to AR
    op("ivp_movav8", A_V, |r, o, out| out.ar = r.v(o, 1).i8s()[0] as i32 as u32),
    op("ivp_movavu8", A_V, |r, o, out| out.ar = u32::from(r.v(o, 1).u8s()[0])),
    op("ivp_movav16", A_V, |r, o, out| out.ar = r.v(o, 1).i16s()[0] as i32 as u32),
    op("ivp_movavu16", A_V, |r, o, out| out.ar = u32::from(r.v(o, 1).u16s()[0])),
    op("ivp_movav32", A_V, |r, o, out| out.ar = r.v(o, 1).u32s()[0]),
    // one lane to every lane
    op("ivp_rep2nx8", V_VI6, replicate!(u8s, splat8, 64)),
    op("ivp_repnx16", V_VI5, replicate!(u16s, splat16, 32)),
    op("ivp_repn_2x32", V_VI4, replicate!(u32s, splat32, 16)),
    op("ivp_rep2nx8t", VM_VI6B, predicated!(1, 3, replicate!(u8s, splat8, 64))),
    op("ivp_repnx16t", VM_VI5B, predicated!(2, 3, replicate!(u16s, splat16, 32))),
    op("ivp_repn_2x32t", VM_VI4B, predicated!(4, 3, replicate!(u32s, splat32, 16))),
    // any lane to AR. OPEN: 8 and 16-bit lanes are sign-extended, as the lane 0 moves without `u` are.
    op("ivp_extr2nx8", A_VI6, |r, o, out| out.ar = lane!(i8s, 64, r, o) as i32 as u32),
    op("ivp_extrnx16", A_VI5, |r, o, out| out.ar = lane!(i16s, 32, r, o) as i32 as u32),
    op("ivp_extrn_2x32", A_VI4, |r, o, out| out.ar = lane!(u32s, 16, r, o)),
    // any lane to b32_pr, high word zero
    op("ivp_extrpr2nx8", P_VI6, |r, o, out| out.pr = u64::from(lane!(u8s, 64, r, o))),
    op("ivp_extrprnx16", P_VI5, |r, o, out| out.pr = u64::from(lane!(u16s, 32, r, o))),
    op("ivp_extrprn_2x32", P_VI4, |r, o, out| out.pr = u64::from(lane!(u32s, 16, r, o))),
    op("ivp_extrpr64n_4x64", P_VI3, |r, o, out| out.pr = lane!(u64s, 8, r, o)),
    missing(
        "ivp_dextrprn_2x32",
        P_VVII,
        "which index and source fill which word",
        "wiki: isa/ref/b16-vec-rep",
    ),
    // FCR and FSR. OPEN: the packed word of the vector transfers is 32-bit lane 0, other lanes zero.
    op("rur.fcr", A, |r, _, out| out.ar = r.fcr),
    op("rur.fsr", A, |r, _, out| out.ar = r.fsr),
    state_op("wur.fcr", FROM_A, |r, o, out| state(out, o.v[0], r.fsr)),
    state_op("wur.fsr", FROM_A, |r, o, out| state(out, r.fcr, o.v[0])),
    state_op("ivp_movscfv", FROM_V, |r, o, out| {
        let (control, status) = unpack_fp_state(r.v(o, 0).u32s()[0]);
        state(out, control, status);
    }),
    op("ivp_movvscf", V, |r, _, out| {
        out.vec[0] = Vec512::ZERO;
        out.vec[0].u32s_mut()[0] = pack_fp_state(r.fcr, r.fsr);
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_fp_state_round_trips() {
        for control in 0..=fcr::MASK {
            for status in 0..=fcr::FLAGS {
                assert_eq!(unpack_fp_state(pack_fp_state(control, status)), (control, status));
            }
        }
        assert_eq!(unpack_fp_state(0x4000), (0, fcr::INEXACT));
        assert_eq!(unpack_fp_state(0x0200), (2, 0));
    }
}

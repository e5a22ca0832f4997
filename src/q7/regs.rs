//! Vector-side register files of one Vision-Q7 core.
//!
//! The AR file, the 1-bit BR file and the special registers belong to the core; the two
//! floating-point user registers FCR and FSR live here because vector operations read and write
//! them. (wiki: isa/semantics/formal-isa-model)
//!
//! Lane 0 of a vector is its lowest bits, so the byte image is little-endian and equals the memory
//! image. Views borrow the register in place, hence the limitation to little-endian hosts.

use std::fmt;

#[cfg(target_endian = "big")]
compile_error!("lane views of the Q7 registers need a little-endian host");

/// One 512-bit vector register, also the shape of the valign and gvr files.
///
/// The lane views `u8s`, `u16s`, `u32s`, `u64s` (and the signed `i8s`, `i16s`, `i32s`) alias the
/// same 64 bytes. fp16 and fp32 lanes are handled as their bit patterns in `u16s` and `u32s`.
#[derive(Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[repr(C, align(64))]
pub struct Vec512([u64; 8]);

macro_rules! views {
    ($($lane:ty, $n:literal, $get:ident, $get_mut:ident, $from:ident;)*) => {
        impl Vec512 {
            $(
                #[doc = concat!("The register as ", stringify!($n), " lanes of `", stringify!($lane), "`.")]
                #[inline(always)]
                pub fn $get(&self) -> &[$lane; $n] {
                    bytemuck::must_cast_ref(&self.0)
                }

                #[doc = concat!("The register as ", stringify!($n), " writable lanes of `", stringify!($lane), "`.")]
                #[inline(always)]
                pub fn $get_mut(&mut self) -> &mut [$lane; $n] {
                    bytemuck::must_cast_mut(&mut self.0)
                }

                #[doc = concat!("A register with ", stringify!($n), " lanes of `", stringify!($lane), "`, lane 0 first.")]
                #[inline(always)]
                pub fn $from(lanes: [$lane; $n]) -> Self {
                    Vec512(bytemuck::must_cast(lanes))
                }
            )*
        }
    };
}

views! {
    u8, 64, u8s, u8s_mut, from_u8s;
    i8, 64, i8s, i8s_mut, from_i8s;
    u16, 32, u16s, u16s_mut, from_u16s;
    i16, 32, i16s, i16s_mut, from_i16s;
    u32, 16, u32s, u32s_mut, from_u32s;
    i32, 16, i32s, i32s_mut, from_i32s;
    u64, 8, u64s, u64s_mut, from_u64s;
}

impl Vec512 {
    /// All bits zero.
    pub const ZERO: Vec512 = Vec512([0; 8]);

    /// The 64 bytes, in memory order.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8; 64] {
        self.u8s()
    }

    /// The 64 bytes, in memory order, writable.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8; 64] {
        self.u8s_mut()
    }

    /// A register holding `bytes`, in memory order.
    #[inline(always)]
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Vec512::from_u8s(bytes)
    }

    /// The same byte in all 64 lanes.
    #[inline(always)]
    pub fn splat8(value: u8) -> Self {
        Vec512::from_u8s([value; 64])
    }

    /// The same half-word in all 32 lanes.
    #[inline(always)]
    pub fn splat16(value: u16) -> Self {
        Vec512::from_u16s([value; 32])
    }

    /// The same word in all 16 lanes.
    #[inline(always)]
    pub fn splat32(value: u32) -> Self {
        Vec512::from_u32s([value; 16])
    }
}

impl fmt::Debug for Vec512 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vec512[")?;
        for (i, lane) in self.u32s().iter().enumerate() {
            write!(f, "{}{lane:08x}", if i == 0 { "" } else { " " })?;
        }
        write!(f, "]")
    }
}

/// One 1536-bit accumulator (wvec): 64 lanes of 24, 32 of 48 or 16 of 96 bits, lanes packed
/// little-endian without gaps. (wiki: isa/semantics/formal-isa-model)
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(C, align(64))]
pub struct Wide(#[serde(with = "serde_big_array::BigArray")] [u8; 192]);

impl Default for Wide {
    fn default() -> Self {
        Wide([0; 192])
    }
}

impl fmt::Debug for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wide[")?;
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if i > 0 && i % 12 == 0 { " " } else { "" })?;
        }
        write!(f, "]")
    }
}

impl Wide {
    /// The 192 bytes, lane 0 first.
    pub fn bytes(&self) -> &[u8; 192] {
        &self.0
    }

    /// The 192 bytes, lane 0 first, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8; 192] {
        &mut self.0
    }

    /// Raw bits of lane `lane` when lanes are `bits` wide (24, 48 or 96); zero beyond the register.
    pub fn lane(&self, bits: usize, lane: usize) -> u128 {
        let size = bits / 8;
        let bytes = self.0.get(lane * size..(lane + 1) * size).unwrap_or(&[]);
        bytes.iter().rev().fold(0, |value, &byte| value << 8 | u128::from(byte))
    }

    /// Sets lane `lane` of width `bits` (24, 48 or 96) to the low bits of `value`.
    pub fn set_lane(&mut self, bits: usize, lane: usize, value: u128) {
        let size = bits / 8;
        if let Some(bytes) = self.0.get_mut(lane * size..(lane + 1) * size) {
            bytes.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}

/// A vbool register: one bit per byte of a vector.
///
/// A 16-bit lane `k` owns bits `2k..2k+2`, a 32-bit lane bits `4k..4k+4`. Producers write the whole
/// field, consumers look at its lowest bit only. (wiki: validation/predicate-classify)
pub type VBool = u64;

/// FCR and FSR bit positions. (wiki: isa/core/fp-sub-isa)
pub mod fcr {
    /// Mask of the RoundMode field of FCR: 0 nearest even, 1 to zero, 2 up, 3 down.
    pub const ROUND_MASK: u32 = 3;
    /// Lowest exception-enable bit of FCR; the order is that of the flags in FSR.
    pub const ENABLE_SHIFT: u32 = 2;
    /// Mask of all implemented FCR bits.
    pub const MASK: u32 = 0x7f;
    /// FSR flag: invalid operation. OPEN: bits 0..3 are inferred from the packed order.
    pub const INVALID: u32 = 1;
    /// FSR flag: division by zero.
    pub const DIV_ZERO: u32 = 2;
    /// FSR flag: overflow.
    pub const OVERFLOW: u32 = 4;
    /// FSR flag: underflow.
    pub const UNDERFLOW: u32 = 8;
    /// FSR flag: inexact (bit 4 is stated).
    pub const INEXACT: u32 = 16;
    /// Mask of all FSR flags.
    pub const FLAGS: u32 = 0x1f;
}

/// The vector-side registers of one core: everything that a slot of a bundle may read besides AR,
/// BR, special registers and memory.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RegFile {
    /// 32 vector registers `v0..v31`.
    pub vec: [Vec512; 32],
    /// 4 accumulators `wv0..wv3`.
    pub wvec: [Wide; 4],
    /// 4 alignment registers `u0..u3`.
    pub valign: [Vec512; 4],
    /// 16 predicate registers `vb0..vb15`.
    pub vbool: [VBool; 16],
    /// 8 gather registers.
    pub gvr: [Vec512; 8],
    /// 16 scalar bridge registers `pr0..pr15` of 64 bits.
    pub b32_pr: [u64; 16],
    /// Bit-plane state `FS0..FS7`.
    pub fs: [u64; 8],
    /// Floating-point control register, [`fcr`].
    pub fcr: u32,
    /// Floating-point status register: sticky flags, [`fcr`].
    pub fsr: u32,
    /// OPEN: whether a flag reaches FSR only if its enable bit in FCR is set (default yes).
    pub fsr_gated: bool,
}

impl Default for RegFile {
    fn default() -> Self {
        RegFile {
            vec: [Vec512::ZERO; 32],
            wvec: [Wide::default(); 4],
            valign: [Vec512::ZERO; 4],
            vbool: [0; 16],
            gvr: [Vec512::ZERO; 8],
            b32_pr: [0; 16],
            fs: [0; 8],
            fcr: 0,
            fsr: 0,
            fsr_gated: true,
        }
    }
}

impl RegFile {
    /// The FSR flags that an operation may set at all under the present FCR.
    #[inline(always)]
    pub fn observable_flags(&self) -> u32 {
        if self.fsr_gated { self.fcr >> fcr::ENABLE_SHIFT & fcr::FLAGS } else { fcr::FLAGS }
    }

    /// Accumulates raw flags of an operation into FSR.
    #[inline(always)]
    pub fn raise(&mut self, flags: u32) {
        self.fsr |= flags & self.observable_flags();
    }

    /// Rounding mode of FCR, 0..=3.
    #[inline(always)]
    pub fn round_mode(&self) -> u32 {
        self.fcr & fcr::ROUND_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_little_endian() {
        let mut v = Vec512::ZERO;
        v.u16s_mut()[1] = 0x1234;
        assert_eq!(v.bytes()[2..4], [0x34, 0x12]);
        assert_eq!(v.u32s()[0], 0x1234_0000);
    }

    #[test]
    fn wide_lanes_do_not_touch_their_neighbours() {
        let mut w = Wide::default();
        w.set_lane(48, 1, 0xffff_ffff_ffff_ffff);
        assert_eq!(w.lane(48, 1), 0xffff_ffff_ffff);
        assert_eq!((w.lane(48, 0), w.lane(48, 2)), (0, 0));
        assert_eq!(w.lane(24, 2), 0xff_ffff);
        assert_eq!(w.lane(96, 16), 0);
    }

    #[test]
    fn gated_flags_need_their_enable() {
        let mut r = RegFile::default();
        r.raise(fcr::INEXACT);
        assert_eq!(r.fsr, 0);
        r.fcr = fcr::INEXACT << fcr::ENABLE_SHIFT;
        r.raise(fcr::INEXACT | fcr::INVALID);
        assert_eq!(r.fsr, fcr::INEXACT);
        r.fsr_gated = false;
        r.raise(fcr::INVALID);
        assert_eq!(r.fsr, fcr::INEXACT | fcr::INVALID);
    }
}

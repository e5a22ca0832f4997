//! Conversions between dtypes, on contiguous little-endian bytes.
//!
//! There is one hub, FP32: a conversion between different dtypes widens to FP32 and narrows from
//! it, integers included, so values above 2^24 lose low bits; equal dtypes move bits untouched
//! (wiki: firmware/kernels/cast-copy; wiki-cc: numerics/cast-to-new-dtype). FP32 to integer rounds
//! to nearest even and saturates, which hardware confirmed (vendor release notes, NKI 0.6.0).
//!
//! Integers that must stay exact use the `_i64` functions, payloads that must keep every bit the
//! `_bits` ones.

use super::dtype::{Dtype, Kind};
use super::minifloat::{self, FP32R_MANTISSA_BITS, Overflow};
use super::rng::Lfsr;
use super::simd::vectorize;
use super::{CANONICAL_NAN, canonical};
use crate::error::{Error, Result};
use crate::isa::Generation;

/// How a value between two representable ones is rounded. Integers always round to nearest even.
#[derive(Debug)]
pub enum Rounding<'a> {
    /// To nearest, ties to even.
    NearestEven,
    /// Up or down at random, one draw of the generator for each element stored. OPEN: which
    /// generator feeds conversions outside the PE is inferred (wiki: firmware/kernels/rng-lfsr-dispatch).
    Stochastic(&'a mut Lfsr),
}

impl Rounding<'_> {
    /// The same rounding for a part of the work, without giving it away.
    pub fn reborrow(&mut self) -> Rounding<'_> {
        match self {
            Rounding::NearestEven => Rounding::NearestEven,
            Rounding::Stochastic(lfsr) => Rounding::Stochastic(lfsr),
        }
    }
}

/// FP8 settings of a program, one record for each core (wiki-cc: bir/sim-core-arithmetic; the
/// container carries them as `fp8_sis`, `fp8_sns`, `fp8_range_extension`, `emax_fp8_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fp8Config {
    /// Overflow and infinity become the largest finite value.
    pub saturate: bool,
    /// NaN is suppressed.
    pub nan_suppress: bool,
    /// On v4, code 0x0E means e4m3fn. OPEN: the page does not say what selects the variant on v4.
    pub range_extension: bool,
    /// Exponent that block quantisation to E4M3 aims at: 7, or 8 for the older behaviour.
    pub emax_e4m3: u8,
    /// Exponent that block quantisation to E5M2 aims at: 14, or 15 for the older behaviour.
    pub emax_e5m2: u8,
}

impl Default for Fp8Config {
    fn default() -> Self {
        Fp8Config {
            saturate: true,
            nan_suppress: false,
            range_extension: false,
            emax_e4m3: 7,
            emax_e5m2: 14,
        }
    }
}

impl Fp8Config {
    /// Settings of the read-modify-write path of the simulator: overflow gives infinity.
    pub const RAW: Fp8Config = Fp8Config {
        saturate: false,
        nan_suppress: false,
        range_extension: false,
        emax_e4m3: 7,
        emax_e5m2: 14,
    };

    /// `dtype` with the E4M3 variant that `generation` and this configuration select.
    pub fn resolve(&self, generation: Generation, dtype: Dtype) -> Dtype {
        match dtype {
            Dtype::Fp8E4 | Dtype::Fp8E4Fn if generation >= Generation::V5 => Dtype::Fp8E4Fn,
            Dtype::Fp8E4 if generation >= Generation::V4 && self.range_extension => Dtype::Fp8E4Fn,
            other => other,
        }
    }

    fn overflow(&self) -> Overflow {
        Overflow { saturate: self.saturate, suppress_nan: self.nan_suppress, nan_sign: false }
    }
}

/// FP16 narrows to infinity, never saturates, and keeps the sign of NaN.
const FP16_OVERFLOW: Overflow = Overflow { saturate: false, suppress_nan: false, nan_sign: true };

fn need(dtype: Dtype, elements: usize, bytes: usize) -> Result<()> {
    if dtype.is_cptc() {
        return Err(Error::illegal(
            "is_valid_dtype",
            format!("{dtype} is a stream, not an element"),
        ));
    }
    if bytes < dtype.packed_len(elements) {
        return Err(Error::internal(format!("{elements} elements of {dtype} in {bytes} bytes")));
    }
    Ok(())
}

#[inline(always)]
fn load_each<const N: usize, T>(src: &[u8], dst: &mut [T], f: impl Fn([u8; N]) -> T) {
    let (chunks, _) = src.as_chunks::<N>();
    vectorize(|| dst.iter_mut().zip(chunks).for_each(|(d, s)| *d = f(*s)));
}

#[inline(always)]
fn store_each<const N: usize, T: Copy>(src: &[T], dst: &mut [u8], mut f: impl FnMut(T) -> [u8; N]) {
    let (chunks, _) = dst.as_chunks_mut::<N>();
    vectorize(|| chunks.iter_mut().zip(src).for_each(|(d, s)| *d = f(*s)));
}

/// Code of element `index` among packed nibbles, low nibble first.
fn nibble(src: &[u8], index: usize) -> u8 {
    (src[index / 2] >> (4 * (index % 2))) & 0xF
}

fn set_nibble(dst: &mut [u8], index: usize, code: u8) {
    let shift = 4 * (index % 2);
    let byte = &mut dst[index / 2];
    *byte = (*byte & !(0xF << shift)) | ((code & 0xF) << shift);
}

#[inline(always)]
fn fp16_to_f32(h: u16) -> f32 {
    let h = u32::from(h);
    let sign = (h & 0x8000) << 16;
    let m = (h & 0x7FFF) << 13;
    let special = m >= 0x0F80_0000;
    let normal = m + if special { 0x7000_0000 } else { 0x3800_0000 };
    // A subnormal gets the exponent of the least normal and loses that normal again.
    let subnormal = f32::from_bits(m + 0x3880_0000) - f32::from_bits(0x3880_0000);
    let bits = if m < 0x0080_0000 { subnormal.to_bits() } else { normal };
    f32::from_bits(sign | bits)
}

#[inline(always)]
fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    // The sign of NaN is dropped (wiki-cc: bir/sim-core-arithmetic).
    (if bits & 0x7FFF_FFFF > 0x7F80_0000 { 0x7FC0 } else { rounded }) as u16
}

#[inline(always)]
fn f32_to_fp32r(value: f32) -> f32 {
    const DROP: u32 = 23 - FP32R_MANTISSA_BITS;
    const NAN_BITS: u32 = CANONICAL_NAN.to_bits();
    let bits = value.to_bits();
    let rounded = bits.wrapping_add((1 << (DROP - 1)) - 1 + ((bits >> DROP) & 1)) >> DROP << DROP;
    let rounded = if bits & 0x7FFF_FFFF > 0x7F80_0000 { NAN_BITS } else { rounded };
    f32::from_bits(rounded)
}

/// Upper bits of an FP32 number after adding random bits below them; for formats with FP32's
/// exponent.
fn truncate_stochastic(value: f32, drop: u32, random: u32) -> f32 {
    let bits = value.to_bits();
    if bits & 0x7FFF_FFFF >= 0x7F80_0000 {
        return canonical(value);
    }
    let mask = (1 << drop) - 1;
    f32::from_bits((bits + (random & mask)) & !mask)
}

/// Nearest integer, ties to even, as FP32. Not `f32::round_ties_even`, which may call the
/// platform's library and keeps loops from vectorising.
#[inline(always)]
pub fn round_even(x: f32) -> f32 {
    const INTEGERS_FROM: f32 = 8_388_608.0;
    let magic = INTEGERS_FROM.copysign(x);
    let rounded = (x + magic) - magic;
    if x.abs() < INTEGERS_FROM { rounded } else { x }
}

/// NaN becomes the largest integer, or the least when its sign is set
/// (wiki-cc: numerics/cast-to-new-dtype).
#[inline(always)]
fn nan_to(x: f32, low: f32, high: f32) -> f32 {
    let replacement = if x.is_sign_negative() { low } else { high };
    if x.is_nan() { replacement } else { x }
}

/// FP32 to an integer of at most 16 bits, whose bounds FP32 holds exactly.
#[inline(always)]
fn to_small(x: f32, low: f32, high: f32) -> i32 {
    let x = nan_to(x, low, high);
    let x = if x < low { low } else { x };
    let x = if x > high { high } else { x };
    small_integer(x)
}

/// Nearest integer of a number below 2^22 in magnitude, by the bits of a sum.
#[inline(always)]
fn small_integer(x: f32) -> i32 {
    (x + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

/// 2^31.
const TWO_31: f32 = 2_147_483_648.0;

/// 1.5 * 2^23: next to it FP32 numbers are the integers.
const MAGIC: f32 = 12_582_912.0;

/// FP32 to 32 bits, saturating at `low` and `high` (exclusive), which stand for `least` and
/// `largest`. Two halves of 16 bits, so that the loop vectorises, which a saturating cast does not.
#[inline(always)]
fn to_word(x: f32, low: f32, high: f32, least: u32, largest: u32) -> u32 {
    let x = round_even(nan_to(x, f32::NEG_INFINITY, f32::INFINITY));
    let inside = if x < low || x >= high { 0.0 } else { x };
    let upper = inside * (1.0 / 65536.0);
    let lower = inside - ((upper + MAGIC) - MAGIC) * 65536.0;
    let word = (small_integer(upper) as u32) << 16;
    let word = word.wrapping_add(small_integer(lower) as u32);
    let word = if x < low { least } else { word };
    if x >= high { largest } else { word }
}

/// FP32 to a 64-bit integer: Rust's cast saturates, and infinities stand for the bounds.
#[inline(always)]
fn to_long(x: f32) -> f32 {
    round_even(nan_to(x, f32::NEG_INFINITY, f32::INFINITY))
}

/// Widens `dst.len()` elements to FP32. Exact for floats and for integers up to 2^24, else rounded
/// to nearest even.
///
/// # Errors
/// `src` too short (internal), or a codec stream (illegal instruction).
pub fn load_f32(dtype: Dtype, src: &[u8], dst: &mut [f32]) -> Result<()> {
    need(dtype, dst.len(), src.len())?;
    match dtype {
        Dtype::Fp32 | Dtype::Fp32r => load_each(src, dst, f32::from_le_bytes),
        Dtype::Bf16 => {
            load_each(src, dst, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
        }
        Dtype::Fp16 => load_each(src, dst, |b| fp16_to_f32(u16::from_le_bytes(b))),
        Dtype::Int8 => load_each(src, dst, |b| f32::from(i8::from_le_bytes(b))),
        Dtype::Uint8 => load_each(src, dst, |[b]| f32::from(b)),
        Dtype::Int16 => load_each(src, dst, |b| f32::from(i16::from_le_bytes(b))),
        Dtype::Uint16 => load_each(src, dst, |b| f32::from(u16::from_le_bytes(b))),
        Dtype::Int32 => load_each(src, dst, |b| i32::from_le_bytes(b) as f32),
        Dtype::Uint32 => load_each(src, dst, |b| u32::from_le_bytes(b) as f32),
        Dtype::Int64 => load_each(src, dst, |b| i64::from_le_bytes(b) as f32),
        Dtype::Uint64 => load_each(src, dst, |b| u64::from_le_bytes(b) as f32),
        Dtype::Fp4E2 => {
            for (i, d) in dst.iter_mut().enumerate() {
                *d = minifloat::E2M1.decode(nibble(src, i).into());
            }
        }
        Dtype::Int4 => {
            for (i, d) in dst.iter_mut().enumerate() {
                *d = f32::from((nibble(src, i) << 4) as i8 >> 4);
            }
        }
        _ if dtype.kind() == Kind::Scale => {
            load_each(src, dst, |[b]| minifloat::scale_value(dtype, b));
        }
        _ => match minifloat::fp8_values(dtype) {
            Some(values) => load_each(src, dst, |[b]| values[usize::from(b)]),
            None => return Err(Error::internal(format!("no widening from {dtype}"))),
        },
    }
    Ok(())
}

/// [`store_f32_config`] with the default FP8 settings: overflow saturates.
///
/// # Errors
/// As [`store_f32_config`].
pub fn store_f32(dtype: Dtype, src: &[f32], dst: &mut [u8], rounding: Rounding<'_>) -> Result<()> {
    store_f32_config(dtype, src, dst, rounding, &Fp8Config::default())
}

/// Narrows `src` from FP32 into `dst`. FP16 and BF16 overflow to infinity, FP8 as `fp8` says,
/// integers saturate.
///
/// # Errors
/// `dst` too short (internal), a codec stream (illegal instruction), or a scale format, whose
/// rounding no source gives.
pub fn store_f32_config(
    dtype: Dtype,
    src: &[f32],
    dst: &mut [u8],
    rounding: Rounding<'_>,
    fp8: &Fp8Config,
) -> Result<()> {
    need(dtype, src.len(), dst.len())?;
    if let (Rounding::Stochastic(lfsr), true) = (rounding, dtype.is_float()) {
        return store_stochastic(dtype, src, dst, lfsr, fp8);
    }
    let overflow = fp8.overflow();
    // One arm for each format, so that each loop is compiled with its constants.
    match dtype {
        Dtype::Fp32 => store_each(src, dst, f32::to_le_bytes),
        Dtype::Fp32r => store_each(src, dst, |x| f32_to_fp32r(x).to_le_bytes()),
        Dtype::Bf16 => store_each(src, dst, |x| f32_to_bf16(x).to_le_bytes()),
        Dtype::Fp16 => store_each(src, dst, |x| {
            (minifloat::BINARY16.encode(x, FP16_OVERFLOW) as u16).to_le_bytes()
        }),
        Dtype::Fp8E3 => store_each(src, dst, |x| [minifloat::E3M4.encode(x, overflow) as u8]),
        Dtype::Fp8E4 => store_each(src, dst, |x| [minifloat::E4M3.encode(x, overflow) as u8]),
        Dtype::Fp8E4Fn => store_each(src, dst, |x| [minifloat::E4M3FN.encode(x, overflow) as u8]),
        Dtype::Fp8E5 => store_each(src, dst, |x| [minifloat::E5M2.encode(x, overflow) as u8]),
        Dtype::Fp8E2 => store_each(src, dst, |x| [minifloat::E2M5.encode(x, overflow) as u8]),
        Dtype::Int8 => store_each(src, dst, |x| (to_small(x, -128.0, 127.0) as i8).to_le_bytes()),
        Dtype::Uint8 => store_each(src, dst, |x| [to_small(x, 0.0, 255.0) as u8]),
        Dtype::Int16 => {
            store_each(src, dst, |x| (to_small(x, -32768.0, 32767.0) as i16).to_le_bytes());
        }
        Dtype::Uint16 => {
            store_each(src, dst, |x| (to_small(x, 0.0, 65535.0) as u16).to_le_bytes());
        }
        Dtype::Int32 => store_each(src, dst, |x| {
            to_word(x, -TWO_31, TWO_31, 1 << 31, i32::MAX as u32).to_le_bytes()
        }),
        Dtype::Uint32 => {
            store_each(src, dst, |x| to_word(x, 0.0, 2.0 * TWO_31, 0, u32::MAX).to_le_bytes())
        }
        Dtype::Int64 => store_each(src, dst, |x| (to_long(x) as i64).to_le_bytes()),
        Dtype::Uint64 => store_each(src, dst, |x| (to_long(x) as u64).to_le_bytes()),
        Dtype::Fp4E2 => {
            for (i, &x) in src.iter().enumerate() {
                set_nibble(dst, i, minifloat::E2M1.encode(x, overflow) as u8);
            }
        }
        Dtype::Int4 => {
            for (i, &x) in src.iter().enumerate() {
                set_nibble(dst, i, to_small(x, -8.0, 7.0) as u8);
            }
        }
        _ => {
            return Err(Error::missing_spec(
                format!("rounding of a value to the scale format {dtype}"),
                "wiki: firmware/kernels/dtype-model",
            ));
        }
    }
    Ok(())
}

fn store_stochastic(
    dtype: Dtype,
    src: &[f32],
    dst: &mut [u8],
    lfsr: &mut Lfsr,
    fp8: &Fp8Config,
) -> Result<()> {
    match dtype {
        Dtype::Fp32 => store_each(src, dst, f32::to_le_bytes),
        Dtype::Fp32r => store_each(src, dst, |x| {
            truncate_stochastic(x, 23 - FP32R_MANTISSA_BITS, lfsr.next_u32()).to_le_bytes()
        }),
        Dtype::Bf16 => store_each(src, dst, |x| {
            f32_to_bf16(truncate_stochastic(x, 16, lfsr.next_u32())).to_le_bytes()
        }),
        _ => {
            let format = minifloat::format(dtype)
                .ok_or_else(|| Error::internal(format!("no layout for {dtype}")))?;
            let overflow = if dtype == Dtype::Fp16 { FP16_OVERFLOW } else { fp8.overflow() };
            for (i, &x) in src.iter().enumerate() {
                let code = format.encode_stochastic(x, overflow, lfsr.next_u32());
                match dtype.bits() {
                    4 => set_nibble(dst, i, code as u8),
                    8 => dst[i] = code as u8,
                    _ => dst[2 * i..2 * i + 2].copy_from_slice(&(code as u16).to_le_bytes()),
                }
            }
        }
    }
    Ok(())
}

fn integer(dtype: Dtype) -> Result<()> {
    if dtype.is_int() {
        Ok(())
    } else {
        Err(Error::illegal("is_valid_int_dtype", format!("{dtype} is not an integer dtype")))
    }
}

/// Loads integers exactly, sign- or zero-extended. UINT64 keeps its bits, so values from 2^63 on
/// appear negative.
///
/// # Errors
/// `src` too short (internal) or a dtype that is no integer (illegal instruction).
pub fn load_i64(dtype: Dtype, src: &[u8], dst: &mut [i64]) -> Result<()> {
    integer(dtype)?;
    need(dtype, dst.len(), src.len())?;
    match dtype {
        Dtype::Int8 => load_each(src, dst, |b| i8::from_le_bytes(b).into()),
        Dtype::Uint8 => load_each(src, dst, |[b]| b.into()),
        Dtype::Int16 => load_each(src, dst, |b| i16::from_le_bytes(b).into()),
        Dtype::Uint16 => load_each(src, dst, |b| u16::from_le_bytes(b).into()),
        Dtype::Int32 => load_each(src, dst, |b| i32::from_le_bytes(b).into()),
        Dtype::Uint32 => load_each(src, dst, |b| u32::from_le_bytes(b).into()),
        Dtype::Int4 => {
            for (i, d) in dst.iter_mut().enumerate() {
                *d = ((nibble(src, i) << 4) as i8 >> 4).into();
            }
        }
        _ => load_each(src, dst, i64::from_le_bytes),
    }
    Ok(())
}

/// Stores integers, keeping the low bits: arithmetic wraps. [`saturate_i64`] beforehand saturates.
///
/// # Errors
/// As [`load_i64`].
pub fn store_i64(dtype: Dtype, src: &[i64], dst: &mut [u8]) -> Result<()> {
    integer(dtype)?;
    need(dtype, src.len(), dst.len())?;
    match dtype.bits() {
        4 => src.iter().enumerate().for_each(|(i, &x)| set_nibble(dst, i, x as u8)),
        8 => store_each(src, dst, |x| [x as u8]),
        16 => store_each(src, dst, |x| (x as u16).to_le_bytes()),
        32 => store_each(src, dst, |x| (x as u32).to_le_bytes()),
        _ => store_each(src, dst, i64::to_le_bytes),
    }
    Ok(())
}

/// `value` clamped to the range of an integer dtype, as `store_i64` takes it.
pub fn saturate_i64(dtype: Dtype, value: i128) -> Result<i64> {
    match (dtype.int_min(), dtype.int_max()) {
        (Some(low), Some(high)) => Ok(value.clamp(low, high) as i64),
        _ => integer(dtype).map(|()| 0),
    }
}

/// Loads raw element bits, zero-extended.
///
/// # Errors
/// `src` too short (internal) or a codec stream (illegal instruction).
pub fn load_bits(dtype: Dtype, src: &[u8], dst: &mut [u64]) -> Result<()> {
    need(dtype, dst.len(), src.len())?;
    match dtype.bits() {
        4 => dst.iter_mut().enumerate().for_each(|(i, d)| *d = nibble(src, i).into()),
        8 => load_each(src, dst, |[b]| b.into()),
        16 => load_each(src, dst, |b| u16::from_le_bytes(b).into()),
        32 => load_each(src, dst, |b| u32::from_le_bytes(b).into()),
        _ => load_each(src, dst, u64::from_le_bytes),
    }
    Ok(())
}

/// Stores raw element bits; bits above the element's width are dropped.
///
/// # Errors
/// As [`load_bits`].
pub fn store_bits(dtype: Dtype, src: &[u64], dst: &mut [u8]) -> Result<()> {
    need(dtype, src.len(), dst.len())?;
    match dtype.bits() {
        4 => src.iter().enumerate().for_each(|(i, &x)| set_nibble(dst, i, x as u8)),
        8 => store_each(src, dst, |x| [x as u8]),
        16 => store_each(src, dst, |x| (x as u16).to_le_bytes()),
        32 => store_each(src, dst, |x| (x as u32).to_le_bytes()),
        _ => store_each(src, dst, u64::to_le_bytes),
    }
    Ok(())
}

/// Elements that pass through the FP32 hub at a time.
const CHUNK: usize = 256;

/// Copies or casts as many elements as fill `src`: equal dtypes move bits, others go through FP32
/// with the default FP8 settings.
///
/// # Errors
/// As [`load_f32`] and [`store_f32`].
pub fn convert(
    from: Dtype,
    to: Dtype,
    src: &[u8],
    dst: &mut [u8],
    rounding: Rounding<'_>,
) -> Result<()> {
    convert_config(from, to, src, dst, rounding, &Fp8Config::default())
}

/// [`convert`] with FP8 settings.
///
/// # Errors
/// As [`load_f32`] and [`store_f32_config`].
pub fn convert_config(
    from: Dtype,
    to: Dtype,
    src: &[u8],
    dst: &mut [u8],
    mut rounding: Rounding<'_>,
    fp8: &Fp8Config,
) -> Result<()> {
    if from == to {
        return match dst.get_mut(..src.len()) {
            Some(dst) => {
                dst.copy_from_slice(src);
                Ok(())
            }
            None => Err(Error::internal(format!("copy of {} bytes into {}", src.len(), dst.len()))),
        };
    }
    let count = src.len() * 8 / (from.bits().max(4) as usize);
    need(to, count, dst.len())?;
    let mut hub = [0f32; CHUNK];
    for first in (0..count).step_by(CHUNK) {
        let hub = &mut hub[..CHUNK.min(count - first)];
        load_f32(from, &src[from.packed_len(first)..], hub)?;
        let at = to.packed_len(first);
        store_f32_config(to, hub, &mut dst[at..], rounding.reborrow(), fp8)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dtype: Dtype, x: f32) -> u64 {
        let mut bytes = [0; 8];
        store_f32(dtype, &[x], &mut bytes, Rounding::NearestEven).unwrap();
        let mut bits = [0];
        load_bits(dtype, &bytes, &mut bits).unwrap();
        bits[0]
    }

    #[test]
    fn to_integers() {
        // Nearest even, saturating: vendor release notes, NKI 0.6.0.
        for (dtype, x, want) in [
            (Dtype::Int8, 2.5, 2),
            (Dtype::Int8, 3.5, 4),
            (Dtype::Int8, -0.5, 0),
            (Dtype::Int8, 300.0, 127),
            (Dtype::Int8, -300.0, 0x80),
            (Dtype::Uint8, -1.0, 0),
            (Dtype::Uint8, 255.5, 255),
            (Dtype::Uint16, 65534.5, 65534),
            (Dtype::Int16, f32::INFINITY, 0x7FFF),
            (Dtype::Int32, 2.5, 2),
            (Dtype::Int32, 3e9, 0x7FFF_FFFF),
            (Dtype::Int32, f32::NAN, 0x7FFF_FFFF),
            (Dtype::Int32, -f32::NAN, 0x8000_0000),
            (Dtype::Uint32, 3e9, 3_000_000_000),
            (Dtype::Uint32, -f32::NAN, 0),
            (Dtype::Uint8, f32::NAN, 255),
            (Dtype::Int64, -1e30, 0x8000_0000_0000_0000),
            (Dtype::Uint64, 1e30, u64::MAX),
            (Dtype::Int4, 9.0, 7),
        ] {
            assert_eq!(store(dtype, x), want, "{x} to {dtype}");
        }
    }

    #[test]
    fn narrow_floats() {
        for (dtype, x, want) in [
            (Dtype::Bf16, -f32::NAN, 0x7FC0),
            (Dtype::Bf16, f32::NEG_INFINITY, 0xFF80),
            (Dtype::Bf16, f32::MAX, 0x7F80),
            (Dtype::Fp16, -f32::NAN, 0xFE00),
            (Dtype::Fp16, 65520.0, 0x7C00),
            (Dtype::Fp8E4, 1e9, 0x77),
            (Dtype::Fp8E4, f32::NEG_INFINITY, 0xF7),
            (Dtype::Fp8E4Fn, 464.1, 0x7E),
            (Dtype::Fp8E4Fn, -f32::NAN, 0x7F),
            (Dtype::Fp8E5, 1e9, 0x7B),
        ] {
            assert_eq!(store(dtype, x), want, "{x} to {dtype}");
        }
        let mut raw = [0; 2];
        let values = [1e9, -1e9];
        for (dtype, want) in [(Dtype::Fp8E4, [0x78, 0xF8]), (Dtype::Fp8E4Fn, [0x7F, 0x7F])] {
            let rounding = Rounding::NearestEven;
            store_f32_config(dtype, &values, &mut raw, rounding, &Fp8Config::RAW).unwrap();
            assert_eq!(raw, want);
        }
    }

    #[test]
    fn equal_dtypes_move_bits_and_others_lose_low_integer_bits() {
        let nan = 0x7F80_0001u32.to_le_bytes();
        let mut out = [0; 4];
        convert(Dtype::Fp32, Dtype::Fp32, &nan, &mut out, Rounding::NearestEven).unwrap();
        assert_eq!(out, nan);
        let big = 16_777_217i32.to_le_bytes();
        convert(Dtype::Int32, Dtype::Uint32, &big, &mut out, Rounding::NearestEven).unwrap();
        assert_eq!(u32::from_le_bytes(out), 16_777_216);
    }

    #[test]
    fn stochastic_rounding_grows_where_nearest_stalls() {
        // FP16 1024 + 0.5, 2048 times: the vendor's worked example prints 1024 and 2056.
        let run = |mut rounding: Rounding<'_>| {
            let mut bytes = [0x00, 0x64];
            let mut x = [0f32];
            for _ in 0..2048 {
                load_f32(Dtype::Fp16, &bytes, &mut x).unwrap();
                store_f32(Dtype::Fp16, &[x[0] + 0.5], &mut bytes, rounding.reborrow()).unwrap();
            }
            load_f32(Dtype::Fp16, &bytes, &mut x).unwrap();
            x[0]
        };
        assert_eq!(run(Rounding::NearestEven), 1024.0);
        let mut lfsr = Lfsr::new(0xACE1);
        let grown = run(Rounding::Stochastic(&mut lfsr));
        assert!((1900.0..2200.0).contains(&grown), "{grown}");
    }

    #[test]
    fn short_buffers_are_errors() {
        assert!(load_f32(Dtype::Fp32, &[0; 3], &mut [0.0]).is_err());
        assert!(store_f32(Dtype::Fp16, &[0.0], &mut [0], Rounding::NearestEven).is_err());
        assert!(load_f32(Dtype::Cptc3, &[0; 9], &mut [0.0]).is_err());
        assert!(store_f32(Dtype::Sfp8E8, &[1.0], &mut [0], Rounding::NearestEven).is_err());
        assert!(load_i64(Dtype::Fp32, &[0; 4], &mut [0]).is_err());
    }
}

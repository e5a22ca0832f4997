//! Microscaling blocks: 32 elements (8 partitions by 4 elements) that share one power-of-two scale
//! byte in E8M0, and the in-band formats of TENSOR_DEQUANTIZE.
//! (wiki: compiler/mx-path; wiki-cc: numerics/mx-microscaling; vendor: nki.isa quantize_mx)

use super::convert::Fp8Config;
use super::dtype::Dtype;
use super::minifloat;
use crate::error::{Error, Result};

/// Partitions of a block.
pub const BLOCK_PARTITIONS: usize = 8;
/// Consecutive elements of a block in one partition; also the elements of a packed word.
pub const BLOCK_ELEMENTS: usize = 4;
/// Elements of a block.
pub const BLOCK: usize = BLOCK_PARTITIONS * BLOCK_ELEMENTS;

/// Whether `p_f_dim` of a v5 MX tensor is legal (low nibble partitions,
/// high nibble free elements, as powers of two).
pub fn legal_block_shape(p_f_dim: u8) -> bool {
    matches!(p_f_dim, 0x04 | 0x44)
}

/// 2^n as a double, for exponents that scales can have.
fn power(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// Number a scale byte multiplies by: 2^(S-127). OPEN: 0xFF is 2^128 as in the vendor's
/// simulator, although the format calls it NaN.
pub fn scale_factor(scale: u8) -> f64 {
    power(i32::from(scale) - 127)
}

/// `element * 2^(S-127)`, rounded to FP32 (only at FP32's own limits).
#[inline]
pub fn dequantize(element: f32, scale: u8) -> f32 {
    super::canonical((f64::from(element) * scale_factor(scale)) as f32)
}

/// Scale byte for a block: S = e - emax with e the largest FP32 exponent field in it, 0 when that
/// would be negative. OPEN: the clamp at 0.
///
/// # Errors
/// Illegal instruction when `to` is no output of QUANTIZE_MX (FP8 E4M3 or E5M2).
pub fn block_scale(block: &[f32], to: Dtype, fp8: &Fp8Config) -> Result<u8> {
    let emax = match to {
        Dtype::Fp8E4 | Dtype::Fp8E4Fn => fp8.emax_e4m3,
        Dtype::Fp8E5 => fp8.emax_e5m2,
        _ => {
            return Err(Error::illegal(
                "quantize_mx_out_dtype",
                format!("{to} as output of QUANTIZE_MX"),
            ));
        }
    };
    let exponent = block.iter().map(|x| (x.to_bits() >> 23) as u8).max().unwrap_or(0);
    Ok(exponent.saturating_sub(emax))
}

/// Quantises one block: returns its scale byte and writes one code for each element. Elements are
/// divided by the scale, limited to the format's range and rounded to nearest even. Code 0x0E means
/// e4m3fn here on every generation.
///
/// # Errors
/// As [`block_scale`]; internal when the lengths differ.
pub fn quantize_block(block: &[f32], to: Dtype, fp8: &Fp8Config, codes: &mut [u8]) -> Result<u8> {
    if block.len() != codes.len() {
        return Err(Error::internal(format!("{} codes for {} elements", codes.len(), block.len())));
    }
    let scale = block_scale(block, to, fp8)?;
    let format = if to == Dtype::Fp8E5 { minifloat::E5M2 } else { minifloat::E4M3FN };
    let overflow = minifloat::Overflow { saturate: true, suppress_nan: false, nan_sign: false };
    let factor = power(127 - i32::from(scale));
    for (code, &x) in codes.iter_mut().zip(block) {
        *code = format.encode((f64::from(x) * factor) as f32, overflow) as u8;
    }
    Ok(scale)
}

/// Partition that holds the scale bytes of data-partition group `group` (8 partitions each) when
/// scales lie beside the data: four to a quadrant of 32.
pub fn scale_partition(group: usize) -> usize {
    group / 4 * 32 + group % 4
}

/// Index of the scale of row `row`, column `column` in a dense scale tensor of an operand that is
/// `width` elements wide.
pub fn scale_index(width: usize, row: usize, column: usize) -> usize {
    width / BLOCK_ELEMENTS * (row / BLOCK_PARTITIONS) + column / BLOCK_ELEMENTS
}

/// Sign and mantissa of `a` with the exponents of both added, less the bias: the scale multiply of
/// the vector core (wiki: compiler/mx-device-bodies 4). The exponent field wraps (OPEN).
pub fn add_exponent(a: f32, b: f32) -> f32 {
    let field =
        ((a.to_bits() >> 23) & 0xFF).wrapping_add((b.to_bits() >> 23) & 0xFF).wrapping_sub(127);
    f32::from_bits((a.to_bits() & 0x807F_FFFF) | ((field & 0xFF) << 23))
}

/// As [`add_exponent`] with the scale in bits 21:14 of `b` and a sign to flip in bit 22.
pub fn add_exponent_packed(a: f32, b: u32) -> f32 {
    let scaled = add_exponent(a, f32::from_bits(((b >> 14) & 0xFF) << 23));
    f32::from_bits(scaled.to_bits() ^ ((b & (1 << 22)) << 9))
}

/// Formats of TENSOR_DEQUANTIZE (wiki: firmware/kernels/tensor-dequantize).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DequantFormat {
    /// 1: FP4 E2M1 to E5M2.
    E2m1ToE5m2,
    /// 2: INT4 to E5M2.
    Int4ToE5m2,
    /// 3: NF4 index to E4M3.
    Nf4ToE4m3,
    /// 4: FP6 E2M3 to E4M3.
    E2m3ToE4m3,
}

/// Values of the sixteen NF4 codes. OPEN: the published table; the device's own bytes are not
/// decoded.
pub const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

impl DequantFormat {
    /// Format of the instruction field `dequant_fmt`.
    ///
    /// # Errors
    /// Illegal instruction for any value but 1 to 4.
    pub fn from_code(code: u8) -> Result<DequantFormat> {
        Ok(match code {
            1 => DequantFormat::E2m1ToE5m2,
            2 => DequantFormat::Int4ToE5m2,
            3 => DequantFormat::Nf4ToE4m3,
            4 => DequantFormat::E2m3ToE4m3,
            _ => {
                return Err(Error::illegal(
                    "dequant_fmt",
                    format!("Unimplemented dequant format {code}"),
                ));
            }
        })
    }

    /// 32-bit words in and out of the smallest unit of work: `group` says whether blocks of eight
    /// elements carry a scale.
    ///
    /// # Errors
    /// Illegal instruction when the format has no grouped form.
    pub fn unit(self, group: bool) -> Result<(usize, usize)> {
        match (self, group) {
            (DequantFormat::E2m3ToE4m3, true) => {
                Err(Error::illegal("dequant_group_size", "FP6 has no grouped form"))
            }
            (DequantFormat::E2m3ToE4m3, false) => Ok((3, 4)),
            (_, false) => Ok((1, 2)),
            (_, true) => Ok((5, 8)),
        }
    }

    /// Value of an element code.
    pub fn value(self, code: u8) -> f32 {
        match self {
            DequantFormat::E2m1ToE5m2 => minifloat::E2M1.decode((code & 0xF).into()),
            DequantFormat::Int4ToE5m2 => f32::from((code << 4) as i8 >> 4),
            DequantFormat::Nf4ToE4m3 => NF4[usize::from(code & 0xF)],
            DequantFormat::E2m3ToE4m3 => minifloat::E2M3.decode((code & 0x3F).into()),
        }
    }

    /// FP8 code of `value`, saturated. E4M3 is the IEEE-style one outside MX.
    pub fn encode(self, value: f32) -> u8 {
        let overflow = minifloat::Overflow { saturate: true, suppress_nan: false, nan_sign: false };
        let format = match self {
            DequantFormat::E2m1ToE5m2 | DequantFormat::Int4ToE5m2 => minifloat::E5M2,
            _ => minifloat::E4M3,
        };
        format.encode(value, overflow) as u8
    }

    /// Expands packed words into words of four FP8 codes.
    ///
    /// OPEN: in a group of five words the first holds four E8M0 scale bytes, byte i for the i-th
    /// of the four code words; low nibble first; six-bit codes least significant bit first.
    ///
    /// # Errors
    /// Illegal instruction when `src` is no whole number of units or the format has no such form.
    pub fn expand(self, group: bool, src: &[u32]) -> Result<Vec<u32>> {
        let (unit, out) = self.unit(group)?;
        if !src.len().is_multiple_of(unit) {
            return Err(Error::illegal(
                "dequant_element_count",
                format!("{} source words are no multiple of {unit}", src.len()),
            ));
        }
        let width = if self == DequantFormat::E2m3ToE4m3 { 6 } else { 4 };
        let mut codes = Vec::with_capacity(src.len() / unit * out * 4);
        for words in src.chunks_exact(unit) {
            let (scales, words) = if group { words.split_at(1) } else { words.split_at(0) };
            let mut bits = 0u128;
            for (i, &word) in words.iter().enumerate() {
                bits |= u128::from(word) << (32 * i);
            }
            for element in 0..words.len() * 32 / width {
                let code = (bits >> (element * width)) as u8 & ((1 << width) - 1);
                let value = self.value(code);
                let value = match scales.first() {
                    Some(scale) => dequantize(value, (scale >> (element / 8 * 8)) as u8),
                    None => value,
                };
                codes.push(self.encode(value));
            }
        }
        Ok(codes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_never_exceeds_its_format() {
        let fp8 = Fp8Config::default();
        let mut codes = [0; BLOCK];
        let mut block = [0.0; BLOCK];
        for (i, x) in block.iter_mut().enumerate() {
            *x = (i as f32 - 16.0) * 3.7;
        }
        // Largest magnitude 59.2 = 1.85 * 2^5: e = 132, S = 125, scale 1/4.
        assert_eq!(quantize_block(&block, Dtype::Fp8E4, &fp8, &mut codes).unwrap(), 125);
        let largest = minifloat::E4M3FN.decode(codes[0].into());
        assert_eq!(largest, -240.0);
        assert_eq!(dequantize(largest, 125), -60.0);
        assert_eq!(quantize_block(&block, Dtype::Fp8E5, &fp8, &mut codes).unwrap(), 118);
        assert_eq!(quantize_block(&[0.0; 32], Dtype::Fp8E4, &fp8, &mut codes).unwrap(), 0);
        assert_eq!(codes, [0; BLOCK]);
        let legacy = Fp8Config { emax_e4m3: 8, ..fp8 };
        assert_eq!(quantize_block(&[1.99; 32], Dtype::Fp8E4, &legacy, &mut codes).unwrap(), 119);
        assert_eq!(codes[0], 0x7E, "clamped to 448");
        assert!(block_scale(&block, Dtype::Fp4E2, &fp8).is_err());
    }

    #[test]
    fn scales_and_exponents() {
        assert_eq!(dequantize(1.0, 0), 2f32.powi(-127));
        assert_eq!(dequantize(1.0, 255), f32::INFINITY);
        assert_eq!(dequantize(0.5, 255), 2f32.powi(127));
        assert_eq!(add_exponent_packed(4.0, 127 << 14 | 1 << 22), -4.0);
        assert_eq!(scale_index(16, 8, 4), 5);
    }

    #[test]
    fn expansion() {
        // 0x7654_3210: the FP4 codes 0 to 7 are 0, .5, 1, 1.5, 2, 3, 4, 6.
        let words = DequantFormat::E2m1ToE5m2.expand(false, &[0x7654_3210]).unwrap();
        assert_eq!(words, [0x3E3C_3800, 0x4644_4240]);
        let int4 = DequantFormat::Int4ToE5m2.expand(false, &[0x0000_00F8]).unwrap();
        assert_eq!(int4[0], 0x0000_BCC8);
        // One group with scale 2 for the first code word and 1 for the others.
        let src = [0x7F7F_7F80, 0x0000_0001, 1, 0, 0];
        let grouped = DequantFormat::Int4ToE5m2.expand(true, &src).unwrap();
        assert_eq!(grouped, [0x40, 0, 0x3C, 0, 0, 0, 0, 0]);
        // FP6: code 1 is 1/8, the value the format defines for its subnormal.
        let fp6 = DequantFormat::E2m3ToE4m3.expand(false, &[1, 0, 0]).unwrap();
        assert_eq!(minifloat::E4M3.decode(fp6[0] & 0xFF), 0.125);
        assert!(DequantFormat::E2m3ToE4m3.expand(true, &[0; 5]).is_err());
        assert!(DequantFormat::Nf4ToE4m3.expand(true, &[0; 4]).is_err());
    }
}

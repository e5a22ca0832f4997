//! Floating-point formats narrower than FP32: layout, decode, encode.
//!
//! Decoding is exact. Encoding rounds once, from FP32, to nearest even or stochastically; what
//! happens beyond the largest finite value is the caller's choice
//! (wiki-cc: numerics/cast-to-new-dtype; bir/sim-core-arithmetic).

use super::CANONICAL_NAN;
use super::dtype::Dtype;

/// What the top of a format's code space means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// Exponent all ones is infinity (mantissa 0) or NaN.
    Ieee,
    /// Only the code with all bits set (sign aside) is special: NaN.
    AllOnesNan,
    /// Every code is a finite number.
    None,
}

/// Layout of a signed binary format: sign, `exp` exponent bits, `man` mantissa bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Exponent bits.
    pub exp: u32,
    /// Mantissa bits.
    pub man: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Meaning of the top codes.
    pub specials: Specials,
}

/// What becomes of a value beyond the largest finite one, and of NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Largest finite value instead of infinity (or of NaN, where there is no infinity).
    pub saturate: bool,
    /// Signed zero instead of NaN. OPEN: the configuration word has the bit, the page shows its
    /// effect only for an overflow of e4m3fn, where the sign alone is left.
    pub suppress_nan: bool,
    /// Keep the sign of NaN. The reference drops it for BF16 and FP8 and keeps it for FP16.
    pub nan_sign: bool,
}

/// FP8 E3M4.
pub const E3M4: Format = Format { exp: 3, man: 4, bias: 3, specials: Specials::Ieee };
/// FP8 E4M3 in IEEE style.
pub const E4M3: Format = Format { exp: 4, man: 3, bias: 7, specials: Specials::Ieee };
/// FP8 E4M3 in OCP style.
pub const E4M3FN: Format = Format { exp: 4, man: 3, bias: 7, specials: Specials::AllOnesNan };
/// FP8 E5M2.
pub const E5M2: Format = Format { exp: 5, man: 2, bias: 15, specials: Specials::Ieee };
/// FP8 E2M5. OPEN: no source gives its special codes; NaN only at all ones, no infinity.
pub const E2M5: Format = Format { exp: 2, man: 5, bias: 1, specials: Specials::AllOnesNan };
/// OCP FP4.
pub const E2M1: Format = Format { exp: 2, man: 1, bias: 1, specials: Specials::None };
/// FP6, input of tensor dequantisation only.
pub const E2M3: Format = Format { exp: 2, man: 3, bias: 1, specials: Specials::None };
/// IEEE binary16.
pub const BINARY16: Format = Format { exp: 5, man: 10, bias: 15, specials: Specials::Ieee };

/// Explicit mantissa bits of FP32R. OPEN: the RTL name "FP22" gives 13 (1-8-13), the vendor's
/// documentation of tfloat32 gives 10, its cast routine rounds to 11.
pub const FP32R_MANTISSA_BITS: u32 = 13;

impl Format {
    /// Code of the largest finite magnitude.
    pub const fn max_code(self) -> u32 {
        let all = (1 << (self.exp + self.man)) - 1;
        match self.specials {
            Specials::Ieee => (((1 << self.exp) - 1) << self.man) - 1,
            Specials::AllOnesNan => all - 1,
            Specials::None => all,
        }
    }

    /// Magnitude code that stands for NaN when one is written; formats without NaN write their
    /// largest value.
    pub const fn nan_code(self) -> u32 {
        match self.specials {
            Specials::Ieee => self.max_code() + 1 + (1 << (self.man - 1)),
            Specials::AllOnesNan => self.max_code() + 1,
            Specials::None => self.max_code(),
        }
    }

    /// Exact FP32 value of `code` (bits above the format's width are ignored). Needs a bias that
    /// FP32 can hold, which every format here has.
    pub const fn decode(self, code: u32) -> f32 {
        let width = self.exp + self.man;
        let sign = (code >> width) & 1;
        let magnitude = code & ((1 << width) - 1);
        let exponent = magnitude >> self.man;
        let mantissa = magnitude & ((1 << self.man) - 1);
        let is_nan = match self.specials {
            Specials::Ieee => exponent == (1 << self.exp) - 1 && mantissa != 0,
            Specials::AllOnesNan => magnitude == (1 << width) - 1,
            Specials::None => false,
        };
        let bits = if is_nan {
            // Payload and sign survive, made quiet.
            (sign << 31) | 0x7FC0_0000 | (mantissa << (23 - self.man))
        } else if matches!(self.specials, Specials::Ieee) && exponent == (1 << self.exp) - 1 {
            (sign << 31) | 0x7F80_0000
        } else if exponent == 0 {
            if mantissa == 0 {
                sign << 31
            } else {
                let top = 31 - mantissa.leading_zeros();
                let shift = self.man - top;
                let field = (127 + 1 - self.bias - shift as i32) as u32;
                (sign << 31)
                    | (field << 23)
                    | (((mantissa << shift) << (23 - self.man)) & 0x7F_FFFF)
            }
        } else {
            let field = (exponent as i32 + 127 - self.bias) as u32;
            (sign << 31) | (field << 23) | (mantissa << (23 - self.man))
        };
        f32::from_bits(bits)
    }

    /// `value` rounded to nearest even. Written with selects only, so that loops vectorise once
    /// the format is a constant.
    #[inline(always)]
    pub fn encode(self, value: f32, overflow: Overflow) -> u32 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let drop = 23 - self.man;
        let least_normal = ((128 - self.bias) as u32) << 23;
        let rebias = ((127 - self.bias) as u32) << self.man;
        let half = (1u32 << (drop - 1)) - 1;
        let normal =
            (magnitude.wrapping_add(half + ((magnitude >> drop) & 1)) >> drop).wrapping_sub(rebias);
        // Adding a number whose unit in the last place is the format's smallest step lets the
        // FP32 adder do the rounding of subnormals.
        let magic = ((127 + 1 - self.bias + drop as i32) as u32) << 23;
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(magic)).to_bits() - magic;
        let code = if magnitude < least_normal { subnormal } else { normal };
        self.finish(bits, code, overflow)
    }

    /// `value` rounded up or down with the probability that makes the expectation exact; `random`
    /// supplies the comparison bits (its low ones, as many as are dropped).
    pub fn encode_stochastic(self, value: f32, overflow: Overflow, random: u32) -> u32 {
        let bits = value.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let field = magnitude >> 23;
        let mantissa = u64::from((magnitude & 0x7F_FFFF) | if field > 0 { 0x80_0000 } else { 0 });
        let exponent = field.max(1);
        let least = (128 - self.bias) as u32;
        let shift = (23 - self.man + least.saturating_sub(exponent)).min(56);
        let random = if shift >= 32 {
            u64::from(random) << (shift - 32)
        } else {
            u64::from(random) & ((1 << shift) - 1)
        };
        let code =
            ((mantissa + random) >> shift) as u32 + ((exponent.max(least) - least) << self.man);
        self.finish(bits, code, overflow)
    }

    #[inline(always)]
    fn finish(self, bits: u32, code: u32, overflow: Overflow) -> u32 {
        let magnitude = bits & 0x7FFF_FFFF;
        let sign = (bits >> 31) << (self.exp + self.man);
        let beyond = match self.specials {
            _ if overflow.saturate => self.max_code(),
            Specials::Ieee => self.max_code() + 1,
            Specials::AllOnesNan if overflow.suppress_nan => 0,
            Specials::AllOnesNan => self.nan_code(),
            Specials::None => self.max_code(),
        };
        let nan_sign = if overflow.nan_sign { sign } else { 0 };
        // Only an overflow without saturation in a format without infinity ends as NaN.
        let is_nan = self.specials == Specials::AllOnesNan && beyond > self.max_code();
        let beyond_sign = if is_nan { nan_sign } else { sign };
        let finite = if code > self.max_code() { beyond_sign | beyond } else { sign | code };
        let nan = if overflow.suppress_nan { sign } else { nan_sign | self.nan_code() };
        if magnitude > 0x7F80_0000 { nan } else { finite }
    }
}

/// All 256 values of an FP8 format.
const fn table(format: Format) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        values[code] = format.decode(code as u32);
        code += 1;
    }
    values
}

static E3M4_VALUES: [f32; 256] = table(E3M4);
static E4M3_VALUES: [f32; 256] = table(E4M3);
static E4M3FN_VALUES: [f32; 256] = table(E4M3FN);
static E5M2_VALUES: [f32; 256] = table(E5M2);
static E2M5_VALUES: [f32; 256] = table(E2M5);

/// FP32 values of all codes of an FP8 dtype.
pub fn fp8_values(dtype: Dtype) -> Option<&'static [f32; 256]> {
    Some(match dtype {
        Dtype::Fp8E3 => &E3M4_VALUES,
        Dtype::Fp8E4 => &E4M3_VALUES,
        Dtype::Fp8E4Fn => &E4M3FN_VALUES,
        Dtype::Fp8E5 => &E5M2_VALUES,
        Dtype::Fp8E2 => &E2M5_VALUES,
        _ => return None,
    })
}

/// Layout of the FP8, FP4 and FP16 dtypes.
pub fn format(dtype: Dtype) -> Option<Format> {
    Some(match dtype {
        Dtype::Fp8E3 => E3M4,
        Dtype::Fp8E4 => E4M3,
        Dtype::Fp8E4Fn => E4M3FN,
        Dtype::Fp8E5 => E5M2,
        Dtype::Fp8E2 => E2M5,
        Dtype::Fp4E2 => E2M1,
        Dtype::Fp16 => BINARY16,
        _ => return None,
    })
}

/// Largest finite value of a float or scale dtype.
pub(super) fn max_finite(dtype: Dtype) -> Option<f32> {
    Some(match dtype {
        Dtype::Fp32 => f32::MAX,
        Dtype::Fp32r => f32::from_bits(0x7F7F_FFFF & !((1 << (23 - FP32R_MANTISSA_BITS)) - 1)),
        Dtype::Bf16 => f32::from_bits(0x7F7F_0000),
        Dtype::Sfp8E8 => scale_value(dtype, 0xFE),
        Dtype::Sfp8E7 | Dtype::Sfp8E6 | Dtype::Sfp8E5 => scale_value(dtype, 0xFF),
        _ => {
            let format = format(dtype)?;
            format.decode(format.max_code())
        }
    })
}

/// Value of a scale code: 2^(e-bias) * (1 + m/2^man), without subnormals.
///
/// OPEN: biases 63, 31 and 15 and the absence of subnormals are inferred; E8M0 code 0xFF counts
/// as 2^128 (infinity in FP32) as the vendor's simulator has it, not as NaN.
pub fn scale_value(dtype: Dtype, code: u8) -> f32 {
    let (man, bias) = match dtype {
        Dtype::Sfp8E8 => (0, 127),
        Dtype::Sfp8E7 => (1, 63),
        Dtype::Sfp8E6 => (2, 31),
        Dtype::Sfp8E5 => (3, 15),
        _ => return CANONICAL_NAN,
    };
    let exponent = i32::from(code >> man) - bias;
    let mantissa = u32::from(code) & ((1 << man) - 1);
    let one = f32::from_bits(0x3F80_0000 | (mantissa << (23 - man)));
    match exponent {
        128 => f32::INFINITY,
        -127 => one * f32::from_bits(0x0040_0000),
        _ => one * f32::from_bits(((exponent + 127) as u32) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Overflow = Overflow { saturate: false, suppress_nan: false, nan_sign: true };

    #[test]
    fn every_code_survives_a_round_trip() {
        for format in [E3M4, E4M3, E4M3FN, E5M2, E2M5, E2M1, E2M3, BINARY16] {
            for code in 0..1u32 << (format.exp + format.man + 1) {
                let value = format.decode(code);
                if !value.is_nan() {
                    assert_eq!(format.encode(value, STRICT), code, "{format:?}");
                    assert_eq!(format.encode_stochastic(value, STRICT, u32::MAX), code);
                }
            }
        }
    }

    #[test]
    fn largest_values() {
        // wiki: firmware/kernels/dtype-model; wiki-cc: numerics/cast-to-new-dtype.
        let max = |f: Format| f.decode(f.max_code());
        assert_eq!(max(E3M4), 15.5);
        assert_eq!(max(E4M3), 240.0);
        assert_eq!(max(E4M3FN), 448.0);
        assert_eq!(max(E5M2), 57344.0);
        assert_eq!(max(E2M1), 6.0);
        assert_eq!(max(BINARY16), 65504.0);
    }

    #[test]
    fn stochastic_rounding_is_unbiased() {
        // 1 + 1/32 lies a quarter of the way from 1 to the next E4M3 value, 1.125.
        let up = (0..1u32 << 20)
            .step_by(1 << 4)
            .filter(|&r| E4M3.encode_stochastic(1.03125, STRICT, r) == 0x39)
            .count();
        assert_eq!(up, (1 << 16) / 4);
    }

    #[test]
    fn scales() {
        assert_eq!(scale_value(Dtype::Sfp8E8, 127), 1.0);
        assert_eq!(scale_value(Dtype::Sfp8E8, 0), 2f32.powi(-127));
        assert_eq!(scale_value(Dtype::Sfp8E8, 0xFF), f32::INFINITY);
        assert_eq!(scale_value(Dtype::Sfp8E5, 15 << 3 | 4), 1.5);
    }
}

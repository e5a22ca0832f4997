//! Activation functions by name, in closed form.
//!
//! The engine evaluates piecewise polynomials from loaded tables ([`pwl`](super::pwl)); these forms
//! are what the tables approximate and what runs when none is loaded (wiki-cc:
//! bir/sim-activation-pwp). They are computed in double precision from pure Rust code and rounded
//! once, so every host gets the same bits.

use super::alu::AluOp;
use super::canonical;
use super::simd::vectorize;
use crate::error::{Error, Result};

macro_rules! functions {
    ($($(#[$doc:meta])* $variant:ident = $bir:expr, $wire:expr, $name:literal;)*) => {
        /// An activation function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ActFunc {
            $($(#[$doc])* $variant,)*
        }

        impl ActFunc {
            /// Every function.
            pub const ALL: &[ActFunc] = &[$(ActFunc::$variant,)*];

            /// Number in the compiler's enum, `None` for functions that it does not name.
            pub fn bir_id(self) -> Option<u8> {
                match self { $(ActFunc::$variant => $bir,)* }
            }

            /// Value of the instruction byte `activation_func` from v2 on, where known
            /// (wiki-cc: activation/act-function-catalog, column PWP-id; the function tables are
            /// selected by the same number, activation/bkt-ctrl-blob 6).
            pub fn wire_id(self) -> Option<u8> {
                match self { $(ActFunc::$variant => $wire,)* }
            }

            /// Name in the compiler's spelling.
            pub fn name(self) -> &'static str {
                match self { $(ActFunc::$variant => $name,)* }
            }
        }
    };
}

functions! {
    /// x.
    Identity = Some(0), Some(1), "Identity";
    /// x * x.
    Square = Some(1), Some(30), "Square";
    /// max(x, 0).
    Relu = Some(2), Some(2), "Relu";
    /// x, or 0.01 x when x <= 0; the slope is fixed.
    Lrelu = Some(3), Some(3), "Lrelu";
    /// x, or alpha x when x <= 0.
    Prelu = Some(4), Some(4), "Prelu";
    /// Logistic function.
    Sigmoid = Some(5), Some(5), "Sigmoid";
    /// Hyperbolic tangent.
    Tanh = Some(6), Some(6), "Tanh";
    /// Exponential.
    Exp = Some(7), Some(7), "Exp";
    /// log(1 + exp x).
    Softplus = Some(8), Some(9), "Softplus";
    /// Square root.
    Sqrt = Some(9), Some(8), "Sqrt";
    /// 1 / square root.
    Rsqrt = Some(10), Some(29), "Rsqrt";
    /// Natural logarithm.
    Ln = Some(11), Some(10), "Ln";
    /// Error function.
    Erf = Some(12), Some(21), "Erf";
    /// Sine, on [-pi, pi].
    Sin = Some(13), Some(19), "Sin";
    /// Arc tangent.
    Arctan = Some(14), Some(28), "Arctan";
    /// -1, 0 or 1.
    Sign = Some(15), Some(31), "Sign";
    /// x times the normal distribution function.
    Gelu = Some(16), Some(23), "Gelu";
    /// x tanh(softplus x).
    Mish = Some(17), Some(24), "Mish";
    /// GELU by the tanh approximation.
    GeluApprxTanh = Some(18), Some(25), "Gelu_apprx_tanh";
    /// GELU by the sigmoid approximation.
    GeluApprxSigmoid = Some(19), Some(26), "Gelu_apprx_sigmoid";
    /// Derivative of [`ActFunc::GeluApprxSigmoid`].
    DerivativeGeluApprxSigmoid = Some(20), Some(38), "Derivative_Gelu_apprx_sigmoid";
    /// Derivative of [`ActFunc::Gelu`].
    DerivativeGelu = Some(21), Some(32), "Derivative_Gelu";
    /// Derivative of [`ActFunc::Erf`].
    DerivativeErf = Some(22), Some(22), "Derivative_Erf";
    /// x.
    Copy = Some(23), Some(128), "Copy";
    /// |x|.
    Abs = Some(24), Some(33), "Abs";
    /// 1 / x.
    Reciprocal = Some(25), Some(129), "Reciprocal";
    /// 1 / square root of |x|.
    AbsReciprocalSqrt = Some(26), Some(34), "Abs_reciprocal_sqrt";
    /// x times sigmoid x.
    Silu = Some(27), Some(36), "Silu";
    /// Derivative of [`ActFunc::Silu`].
    DerivativeSilu = Some(28), Some(37), "Derivative_silu";
    /// 1 when x is finite, else 0.
    IsFinite = Some(29), Some(35), "Is_finite";
    /// 1 / x under the name of the logarithm's derivative.
    LnPrime = None, None, "Ln_prime";
    /// 0.
    MemsetZero = None, Some(130), "MemsetZero";
}

/// Constants as the vendor's model prints them, shorter than double precision could hold.
#[expect(clippy::approx_constant, reason = "the printed digits, not the nearest double")]
const ROOT_2: f64 = 1.414213562373095;
#[expect(clippy::approx_constant, reason = "the printed digits, not the nearest double")]
const TWO_OVER_ROOT_PI: f64 = 1.1283792;

/// Exponential in double precision, free of branches so that loops vectorise. Its error, below
/// 2^-51 relative, is far from what a rounding to FP32 notices; arguments beyond +-700 saturate,
/// where FP32 has long overflowed or vanished.
#[inline(always)]
fn exp(x: f64) -> f64 {
    const LIMIT: f64 = 700.0;
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    /// 1.5 * 2^52: next to it doubles are the integers.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let x = if x < -LIMIT { -LIMIT } else { x };
    let x = if x > LIMIT { LIMIT } else { x };
    let shifted = x * std::f64::consts::LOG2_E + MAGIC;
    let k = shifted - MAGIC;
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    // Taylor up to r^13 / 13!, with |r| at most ln 2 / 2.
    let mut y = 1.0 / 6_227_020_800.0;
    for factorial in [
        479_001_600.0,
        39_916_800.0,
        3_628_800.0,
        362_880.0,
        40_320.0,
        5_040.0,
        720.0,
        120.0,
        24.0,
        6.0,
        2.0,
        1.0,
        1.0,
    ] {
        y = y * r + 1.0 / factorial;
    }
    let exponent = shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(1023) << 52;
    y * f64::from_bits(exponent)
}

/// Logistic function and its complement, neither of which loses digits or overflows.
#[inline(always)]
fn sigmoid_pair(x: f64) -> (f64, f64) {
    (1.0 / (exp(-x) + 1.0), 1.0 / (exp(x) + 1.0))
}

fn softplus(x: f64) -> f64 {
    libm::log1p(exp(-x.abs())) + if x <= 0.0 { 0.0 } else { x }
}

/// Derivative of u -> u sigmoid(u): sigmoid(u) (1 + u (1 - sigmoid(u))).
fn silu_slope(u: f64) -> f64 {
    let (s, rest) = sigmoid_pair(u);
    s + s * (u * rest)
}

fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (libm::tanh((0.044715 * x * x * x + x) * 0.797_884_560_802_865_4) + 1.0)
}

fn derivative_gelu(x: f64) -> f64 {
    0.5 * (libm::erf(x * std::f64::consts::FRAC_1_SQRT_2) + 1.0) + x * 0.3989423 * exp(-x * x / 2.0)
}

/// Sine without range reduction. Beyond pi the engine extrapolates its last polynomial; the cubic
/// of sine about pi reproduces the published value for 9.0, about 27.65 (vendor release notes).
/// OPEN: the coefficients of the table are not public.
fn sin(x: f64) -> f64 {
    let t = x.abs() - std::f64::consts::PI;
    if t <= 0.0 {
        return libm::sin(x);
    }
    let y = t * t * t / 6.0 - t;
    if x < 0.0 { -y } else { y }
}

impl ActFunc {
    /// The function with the compiler's number `id`.
    pub fn from_bir_id(id: u8) -> Option<ActFunc> {
        ActFunc::ALL.iter().copied().find(|f| f.bir_id() == Some(id))
    }

    /// The function that the instruction byte `activation_func` selects on v2 and later when the
    /// built-in forms are used.
    ///
    /// # Errors
    /// Missing specification: the pages do not give every number a name.
    pub fn from_wire_id(id: u8) -> Result<ActFunc> {
        ActFunc::ALL.iter().copied().find(|f| f.wire_id() == Some(id)).ok_or_else(|| {
            Error::missing_spec(
                format!("activation function number {id}"),
                "wiki-cc: activation/act-function-catalog",
            )
        })
    }

    /// The function called `name` (any case, with or without underscores).
    pub fn from_name(name: &str) -> Option<ActFunc> {
        let plain = |s: &str| s.replace('_', "").to_ascii_lowercase();
        let name = plain(name);
        ActFunc::ALL.iter().copied().find(|f| plain(f.name()) == name)
    }

    /// Computed by fixed logic, so available whatever table set is loaded.
    pub fn is_hardwired(self) -> bool {
        use ActFunc::*;
        matches!(
            self,
            Identity | Square | Relu | Lrelu | Prelu | Sign | Copy | Abs | IsFinite | MemsetZero
        )
    }

    /// Magnitudes or values outside of which the engine's results are not meaningful, as (least,
    /// largest, of the magnitude); `None` when every input is valid (vendor: nki.api.shared).
    pub fn valid_range(self) -> Option<(f32, f32, bool)> {
        let p = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
        let half_pi = std::f32::consts::FRAC_PI_2;
        Some(match self {
            ActFunc::Sin => (-std::f32::consts::PI, std::f32::consts::PI, false),
            ActFunc::Arctan => (-half_pi, half_pi, false),
            ActFunc::Ln => (p(-64), p(64), false),
            ActFunc::Sqrt => (p(-116), p(118), false),
            ActFunc::Rsqrt => (p(-87), p(97), false),
            ActFunc::Reciprocal => (p(-42), p(42), true),
            _ => return None,
        })
    }

    /// Whether `x` lies in [`ActFunc::valid_range`].
    pub fn accepts(self, x: f32) -> bool {
        self.valid_range().is_none_or(|(low, high, magnitude)| {
            let x = if magnitude { x.abs() } else { x };
            (low..=high).contains(&x)
        })
    }

    /// f(x); `alpha` is the slope of [`ActFunc::Prelu`]. NaN results are canonical. At infinities
    /// where the printed formula is undefined the limit is returned (OPEN).
    #[inline(always)]
    pub fn evaluate(self, x: f32, alpha: f32) -> f32 {
        use ActFunc::*;
        let negative_infinity = x == f32::NEG_INFINITY;
        let d = f64::from(x);
        let y = match self {
            Identity | Copy => return x,
            Abs => return x.abs(),
            MemsetZero => return 0.0,
            IsFinite => return if x.is_finite() { 1.0 } else { 0.0 },
            Sign => return f32::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
            Relu => return super::alu::max_num(x, 0.0),
            Square => f64::from(x * x),
            Lrelu => f64::from(if x <= 0.0 { x * 0.01 } else { x }),
            Prelu => f64::from(if x <= 0.0 { x * alpha } else { x }),
            Sigmoid => sigmoid_pair(d).0,
            Tanh => libm::tanh(d),
            Exp => exp(d),
            Softplus => softplus(d),
            Sqrt => d.sqrt(),
            Rsqrt => 1.0 / d.sqrt(),
            Ln => libm::log(d),
            Erf => libm::erf(d),
            Sin => sin(d),
            Arctan => libm::atan(d),
            Gelu | GeluApprxTanh | GeluApprxSigmoid | Silu | Mish if negative_infinity => -0.0,
            Gelu => 0.5 * d * (libm::erf(d / ROOT_2) + 1.0),
            Mish => d * libm::tanh(softplus(d)),
            GeluApprxTanh => gelu_tanh(d),
            GeluApprxSigmoid => d * sigmoid_pair(1.702 * d).0,
            Silu => d / (exp(-d) + 1.0),
            DerivativeGeluApprxSigmoid | DerivativeSilu | DerivativeGelu if x.is_infinite() => {
                if negative_infinity {
                    0.0
                } else {
                    1.0
                }
            }
            DerivativeGeluApprxSigmoid => silu_slope(1.702 * d),
            DerivativeSilu => silu_slope(d),
            DerivativeGelu => derivative_gelu(d),
            DerivativeErf => exp(-d * d) * TWO_OVER_ROOT_PI,
            Reciprocal | LnPrime => 1.0 / d,
            AbsReciprocalSqrt => 1.0 / d.abs().sqrt(),
        };
        canonical(y as f32)
    }

    /// Replaces every element by its function value.
    pub fn evaluate_in_place(self, values: &mut [f32], alpha: f32) {
        /// Loops whose function is a constant, so that the simple ones vectorise.
        macro_rules! each {
            ($($function:ident)*) => {
                match self {
                    ActFunc::Identity | ActFunc::Copy => {}
                    $(ActFunc::$function => {
                        vectorize(|| {
                            let each = |x: &mut f32| *x = ActFunc::$function.evaluate(*x, alpha);
                            values.iter_mut().for_each(each);
                        });
                    })*
                    _ => values.iter_mut().for_each(|x| *x = self.evaluate(*x, alpha)),
                }
            };
        }
        each!(Square Relu Lrelu Prelu Sigmoid Exp Sqrt Abs Reciprocal Silu DerivativeSilu
            GeluApprxSigmoid Rsqrt);
    }
}

/// a * b + c with one rounding, the same on hosts with and without such an instruction.
#[inline(always)]
pub fn fused_multiply_add(a: f32, b: f32, c: f32) -> f32 {
    // The product is exact in double precision. Rounding the sum to odd keeps what the second
    // rounding, to FP32, needs to know.
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    let back = sum - product;
    // NaN when the sum is not finite, which compares as no error.
    let error = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    let away = (error > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let adjust = (error.abs() > 0.0) & (bits & 1 == 0);
    canonical(f64::from_bits(if adjust { odd } else { bits }) as f32)
}

/// Whether [`affine`] rounds once. OPEN: the engine's profile table speaks of a fused
/// multiply-add; the vendor's simulator multiplies and adds with two roundings.
pub const AFFINE_FUSED: bool = true;

/// scale * x + bias, which comes before every activation function
/// (wiki: firmware/kernels/activate-pwl 3).
#[inline]
pub fn affine(x: f32, scale: f32, bias: f32) -> f32 {
    if AFFINE_FUSED { fused_multiply_add(x, scale, bias) } else { canonical(x * scale + bias) }
}

/// Replaces every element by [`affine`] of it.
pub fn affine_in_place(values: &mut [f32], scale: f32, bias: f32) {
    vectorize(|| values.iter_mut().for_each(|x| *x = affine(*x, scale, bias)));
}

/// Whether ACTIVATE2 takes these two ALU stages (wiki: firmware/kernels/activate-pwl 7).
pub fn legal_stages(op0: AluOp, op1: AluOp) -> bool {
    use AluOp::{Add, Bypass, Mult, Subtract};
    matches!((op0, op1), (Mult, Add | Subtract | Bypass) | (Add | Subtract | Bypass, Bypass))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustc_apfloat::Float;
    use rustc_apfloat::ieee::Single;

    #[test]
    fn ids_and_names_lead_back() {
        for &f in ActFunc::ALL {
            assert_eq!(ActFunc::from_name(f.name()), Some(f));
            if let Some(id) = f.wire_id() {
                assert_eq!(ActFunc::from_wire_id(id).unwrap(), f);
            }
            if let Some(id) = f.bir_id() {
                assert_eq!(ActFunc::from_bir_id(id), Some(f));
            }
        }
        assert!(ActFunc::from_wire_id(200).is_err());
    }

    #[test]
    fn no_function_depends_on_a_nan_payload() {
        for &f in ActFunc::ALL {
            if matches!(f, ActFunc::Identity | ActFunc::Copy | ActFunc::Abs) {
                continue;
            }
            let y = f.evaluate(f32::from_bits(0xFFA0_0001), 1.0);
            assert!(!y.is_nan() || y.to_bits() == 0x7FC0_0000, "{f:?}");
        }
    }

    #[test]
    fn exponential_rounds_as_another_implementation() {
        let mut differ = 0;
        for bits in (0..=u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            let (ours, theirs) = (exp(x.into()) as f32, libm::exp(x.into()) as f32);
            differ += u32::from(ours.to_bits() != theirs.to_bits() && !x.is_nan());
            let distance = i64::from(ours.to_bits()) - i64::from(theirs.to_bits());
            assert!(distance.abs() <= 1 || x.is_nan(), "exp({x}): {ours} or {theirs}");
        }
        assert_eq!(differ, 0);
    }

    #[test]
    fn slices_agree_with_scalars() {
        let values = [0.0, -0.0, 1.5, -2.25, f32::INFINITY, f32::NEG_INFINITY, 1e-42, 90.0, -7.0];
        for &f in ActFunc::ALL {
            let mut out = values;
            f.evaluate_in_place(&mut out, 0.25);
            let want = values.map(|x| f.evaluate(x, 0.25).to_bits());
            assert_eq!(out.map(f32::to_bits), want, "{f:?}");
        }
        let mut out = values;
        affine_in_place(&mut out, 3.0, 1.0);
        assert_eq!(out.map(f32::to_bits), values.map(|x| affine(x, 3.0, 1.0).to_bits()));
    }

    #[test]
    fn published_values() {
        let at = |f: ActFunc, x: f32| f.evaluate(x, 0.25);
        // Vendor release notes: the sine of 9.0 comes out near 27.65.
        assert!((at(ActFunc::Sin, 9.0) - 27.65).abs() < 0.01);
        assert!((at(ActFunc::Sin, -9.0) + 27.65).abs() < 0.01);
        assert_eq!(at(ActFunc::Prelu, -2.0), -0.5);
        assert_eq!(at(ActFunc::Lrelu, -100.0), -1.0);
        // Point symmetry of the shipped tables: f(x) + f(-x) = 1 (wiki-cc: activation/pwp-model 6).
        for f in [
            ActFunc::Sigmoid,
            ActFunc::DerivativeGelu,
            ActFunc::DerivativeGeluApprxSigmoid,
            ActFunc::DerivativeSilu,
        ] {
            for x in [0.0, 0.5, 1.0, 3.0, 20.0, 1000.0] {
                assert!((at(f, x) + at(f, -x) - 1.0).abs() < 1e-6, "{f:?} {x}");
            }
        }
        for f in [ActFunc::Gelu, ActFunc::Silu, ActFunc::Mish] {
            assert_eq!(at(f, f32::NEG_INFINITY), 0.0);
            assert_eq!(at(f, f32::INFINITY), f32::INFINITY);
        }
        assert!(!ActFunc::Reciprocal.accepts(1e-20) && ActFunc::Reciprocal.accepts(-1.0));
        assert!(!ActFunc::Sin.accepts(4.0) && ActFunc::Exp.accepts(f32::INFINITY));
    }

    #[test]
    fn fused_rounding_equals_apfloat() {
        let mut state = super::super::rng::Pcg32 { state: 12345 };
        for i in 0..200_000u32 {
            let mut draw = || {
                let bits = state.next_u32();
                // Half of the operands have near exponents, so that sums cancel.
                if i % 2 == 0 {
                    bits
                } else {
                    (bits & 0x807F_FFFF) | ((120 + (bits >> 23) % 16) << 23)
                }
            };
            let (a, b) = (draw(), draw());
            let c = if i % 4 == 1 {
                let product = -(f32::from_bits(a) * f32::from_bits(b));
                product.to_bits() ^ (draw() & 3)
            } else {
                draw()
            };
            let single = |bits: u32| Single::from_bits(bits.into());
            let want = single(a).mul_add(single(b), single(c)).value;
            let got = fused_multiply_add(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            assert!(
                want.is_nan() && got.is_nan() || want.to_bits() == u128::from(got.to_bits()),
                "{a:#x} * {b:#x} + {c:#x}: {got} instead of {want}"
            );
        }
    }
}

//! Tables fitted to the closed forms, for programs that have none from the vendor.
//!
//! The vendor's coefficients are not public. These tables have the vendor's structure (octaves,
//! segments, limits, folding), so a program exercises the same path; their values differ. How far
//! each lies from its closed form is measured by a test and stated in `docs/activation-tables.md`.

use super::{Control, Limit, Profile, Segment, TABLE_ENTRIES, TableSet};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::Generation;
use crate::numeric::ActFunc;

/// How negative inputs are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    /// They have octaves of their own.
    No,
    /// f(-x) = -f(x).
    Odd,
    /// f(-x) = f(x).
    Even,
}

/// What takes over beyond the last octave.
#[derive(Clone, Copy)]
enum Beyond {
    /// A constant.
    Flat(f32),
    /// f(x) = x.
    Line,
    /// The last segment goes on.
    Last,
}

/// How one function is cut up.
struct Plan {
    fold: Fold,
    /// Exponent of the first octave.
    low: i32,
    /// Magnitude from which `beyond` holds, by side.
    high: [f32; 2],
    beyond: [Beyond; 2],
}

impl Plan {
    /// `None` for functions of fixed logic and those without a published number.
    fn of(func: ActFunc) -> Option<Plan> {
        use ActFunc::*;
        use Beyond::{Flat, Last, Line};
        const HALF_PI: f32 = std::f32::consts::FRAC_PI_2;
        const PI: f32 = std::f32::consts::PI;
        /// Exponents that the control records can cover on one side.
        const WIDE: i32 = 62;
        /// Beyond it the coefficients of an inverse root leave FP32.
        const ROOT: i32 = 48;
        let (wide, root) = (2f32.powi(WIDE), 2f32.powi(ROOT));
        let zero = [Flat(0.0), Flat(0.0)];
        let plan = |fold, low, high, beyond| Some(Plan { fold, low, high, beyond });
        let right = |low, high, beyond| plan(Fold::No, low, [high, 0.0], [beyond, Flat(f32::NAN)]);
        match func {
            Sigmoid => plan(Fold::No, -8, [17.5, 87.0], [Flat(1.0), Flat(0.0)]),
            Tanh => plan(Fold::Odd, -8, [9.5; 2], [Flat(1.0); 2]),
            Exp => plan(Fold::No, -8, [88.722_84, 87.3], [Flat(f32::INFINITY), Flat(0.0)]),
            Softplus => plan(Fold::No, -8, [17.5, 87.0], [Line, Flat(0.0)]),
            Erf => plan(Fold::Odd, -8, [4.0; 2], [Flat(1.0); 2]),
            Sin => plan(Fold::Odd, -8, [PI; 2], [Last; 2]),
            Arctan => plan(Fold::Odd, -8, [33_554_432.0; 2], [Flat(HALF_PI); 2]),
            Gelu | GeluApprxTanh => plan(Fold::No, -8, [6.0, 6.0], [Line, Flat(0.0)]),
            Mish => plan(Fold::No, -8, [12.0, 87.0], [Line, Flat(0.0)]),
            GeluApprxSigmoid => plan(Fold::No, -8, [11.0, 50.0], [Line, Flat(0.0)]),
            Silu => plan(Fold::No, -8, [18.0, 87.0], [Line, Flat(0.0)]),
            DerivativeGeluApprxSigmoid => plan(Fold::No, -8, [14.0, 50.0], [Flat(1.0), Flat(0.0)]),
            DerivativeGelu => plan(Fold::No, -8, [7.0, 7.0], [Flat(1.0), Flat(0.0)]),
            DerivativeSilu => plan(Fold::No, -8, [22.0, 87.0], [Flat(1.0), Flat(0.0)]),
            DerivativeErf => plan(Fold::Even, -8, [9.3; 2], zero),
            Reciprocal => plan(Fold::Odd, -42, [2f32.powi(42); 2], zero),
            AbsReciprocalSqrt => plan(Fold::Even, -ROOT, [root; 2], zero),
            Sqrt | Ln => right(-WIDE, wide, Last),
            Rsqrt => right(-ROOT, root, Flat(0.0)),
            _ => None,
        }
    }

    /// Inputs for which the table stands for the function, as (least magnitude, largest) by side;
    /// a side without any is empty.
    fn range(&self, func: ActFunc) -> [(f32, f32); 2] {
        let smooth = func.evaluate(0.0, 0.0).is_finite() && func != ActFunc::Sqrt;
        let low = if smooth { 0.0 } else { 2f32.powi(self.low) };
        let side = |s: usize| match self.beyond[s] {
            Beyond::Flat(c) if c.is_nan() => (0.0, 0.0),
            Beyond::Last => (low, self.high[s]),
            _ if smooth => (low, 4.0 * self.high[s]),
            _ => (low, self.high[s]),
        };
        [side(0), side(1)]
    }
}

/// The cubic through f at Chebyshev nodes of [low, high], about `centre`; a polynomial of lower
/// degree where a coefficient would leave the range of FP32.
fn fit(f: &impl Fn(f32) -> f32, low: f64, high: f64, centre: f64) -> Segment {
    (1..=3)
        .rev()
        .find_map(|degree| polynomial(f, low, high, centre, degree))
        .unwrap_or(Segment { d: [f(centre as f32), 0.0, 0.0, 0.0], x: centre as f32 })
}

fn polynomial(
    f: &impl Fn(f32) -> f32,
    low: f64,
    high: f64,
    centre: f64,
    degree: usize,
) -> Option<Segment> {
    let n = degree + 1;
    let (mut t, mut c) = ([0.0; 4], [0.0; 4]);
    for k in 0..n {
        let angle = std::f64::consts::PI * (2.0 * k as f64 + 1.0) / (2.0 * n as f64);
        let x = ((low + high) / 2.0 + (high - low) / 2.0 * libm::cos(angle)) as f32;
        (t[k], c[k]) = (f64::from(x) - centre, f64::from(f(x)));
    }
    if c.iter().any(|y| !y.is_finite()) {
        return None;
    }
    for level in 1..n {
        for i in (level..n).rev() {
            c[i] = (c[i] - c[i - 1]) / (t[i] - t[i - level]);
        }
    }
    // Newton form to powers of t
    let mut d = [0.0; 4];
    for i in (0..n).rev() {
        for j in (1..n).rev() {
            d[j] = d[j - 1] - t[i] * d[j];
        }
        d[0] = c[i] - t[i] * d[0];
    }
    // what rounding leaves where symmetry says zero would be all there is next to a zero of f
    let reach = t[..n].iter().fold(0.0f64, |m, t| m.max(t.abs()));
    if low == -high {
        for k in [0, 2] {
            if d[k].abs() * reach.powi(k as i32) < 1e-6 * d[1].abs() * reach {
                d[k] = 0.0;
            }
        }
    }
    let d = d.map(|d| d as f32);
    let fits = d[1..n].iter().all(|d| *d == 0.0 || d.is_normal());
    (fits && d[0].is_finite()).then_some(Segment { d, x: centre as f32 })
}

/// Octave `exponent` of one side cut into 2^bits segments.
/// `end` is the magnitude from which no segment is used.
fn octave(f: &impl Fn(f32) -> f32, exponent: i32, sign: f64, bits: u8, end: f64) -> Vec<Segment> {
    let base = 2f64.powi(exponent);
    let width = base / f64::from(1u32 << bits);
    (0..1u32 << bits)
        .map(|i| {
            let low = base + f64::from(i) * width;
            let high = if low < end { (low + width).min(end) } else { low + width };
            let centre = f64::from((sign * (low + high) / 2.0) as f32);
            let (a, b) = (sign * low, sign * high);
            fit(f, a.min(b), a.max(b), centre)
        })
        .collect()
}

/// The fewest segments whose error stays within the tolerance, at most 128.
/// `tolerance` is relative to the largest magnitude in the octave.
fn adaptive(
    f: &impl Fn(f32) -> f32,
    exponent: i32,
    sign: f64,
    end: f64,
    tolerance: f64,
) -> Vec<Segment> {
    const MOST_BITS: u8 = 7;
    const SAMPLES: u32 = 256;
    let base = 2f64.powi(exponent);
    let samples: Vec<f32> = (0..SAMPLES)
        .map(|i| (base * (1.0 + (f64::from(i) + 0.5) / f64::from(SAMPLES))).min(end) as f32)
        .map(|x| sign as f32 * x)
        .collect();
    let want: Vec<f64> = samples.iter().map(|x| f64::from(f(*x))).collect();
    let scale = want.iter().filter(|y| y.is_finite()).fold(0.0f64, |m, y| m.max(y.abs()));
    let mut bits = 0;
    loop {
        let segments = octave(f, exponent, sign, bits, end);
        let fine = samples.iter().zip(&want).all(|(x, y)| {
            let at = (x.to_bits() & 0x7F_FFFF) as usize >> (23 - u32::from(bits));
            !y.is_finite() || (f64::from(segments[at].evaluate(*x)) - y).abs() <= tolerance * scale
        });
        if fine || bits == MOST_BITS {
            return segments;
        }
        bits += 1;
    }
}

impl TableSet {
    /// Appends a table fitted to `func` under the function's own number.
    ///
    /// # Errors
    /// Program error: the function is fixed logic or has no number, or V1, whose tables no page
    /// describes.
    pub fn push_generated(&mut self, func: ActFunc, generation: Generation) -> Result<()> {
        /// Finest first; the first of them whose records fit is taken.
        const TOLERANCES: [f64; 5] = [3e-7, 1e-6, 3e-6, 1e-5, 3e-5];
        let mut result = Ok(());
        for tolerance in TOLERANCES {
            let mut set = self.clone();
            set.push_fitted(func, generation, tolerance)?;
            result = set.check();
            if result.is_ok() {
                *self = set;
                break;
            }
        }
        result
    }

    fn push_fitted(&mut self, func: ActFunc, generation: Generation, tolerance: f64) -> Result<()> {
        let bad =
            |m: String| Error::new(ErrorClass::ProgramError, format!("activation table: {m}"));
        if generation == Generation::V1 {
            return Err(bad("no page describes the tables of v1".into()));
        }
        let (Some(plan), Some(number)) = (Plan::of(func), func.wire_id()) else {
            return Err(bad(format!("{} has no table", func.name())));
        };
        let f = |x: f32| func.evaluate(x, 0.0);
        let record = |n: usize| {
            u16::try_from(n).map_err(|_| bad(format!("{n} records are more than the engine holds")))
        };
        let mut profile = Profile {
            symmetric: plan.fold != Fold::No,
            invert_sign: plan.fold == Fold::Odd,
            use_negative: false,
            symmetry_point: 0.0,
            zero: f(0.0),
            nan: f32::NAN,
            positive_infinity: f(f32::INFINITY),
            negative_infinity: f(f32::NEG_INFINITY),
            exponent_offset: plan.low,
            control_base: [0; 2],
            large: [Limit::default(); 2],
            small: [Limit::default(); 2],
        };
        let sides = if plan.fold == Fold::No { 2 } else { 1 };
        for side in 0..sides {
            let sign = if side == 0 { 1.0 } else { -1.0 };
            let end = plan.high[side];
            profile.control_base[side] = record(self.control.len())?;
            let mut exponent = plan.low;
            while 2f32.powi(exponent) < end {
                let segments = adaptive(&f, exponent, sign, end.into(), tolerance);
                let size = segments.len().trailing_zeros() as u8;
                let base = record(self.buckets.len())?;
                self.control.push(Control { base, lsb: 23 - size, size });
                self.buckets.extend(segments);
                exponent += 1;
            }
            let bits = end.to_bits();
            let limit =
                |bucket| Limit { exponent: (bits >> 23) as u8, mantissa: bits & 0x7F_FFFF, bucket };
            let bucket = record(self.buckets.len())?;
            profile.large[side] = limit(bucket);
            let last = || {
                let bits = f32::from_bits(bits - 1).to_bits();
                let control = self.control.last()?;
                self.buckets.get(control.bucket(bits & 0x7F_FFFF)).copied()
            };
            let beyond = match plan.beyond[side] {
                Beyond::Flat(c) => Segment { d: [c, 0.0, 0.0, 0.0], x: 0.0 },
                Beyond::Line => Segment { d: [0.0, 1.0, 0.0, 0.0], x: 0.0 },
                Beyond::Last => last().unwrap_or_default(),
            };
            self.buckets.push(beyond);
            // below the first octave: one cubic about 0, or the value at its start
            let low = 2f64.powi(plan.low);
            let small = if plan.range(func)[side].0 == 0.0 && end > 0.0 {
                fit(&f, -low, low, 0.0)
            } else {
                Segment { d: [f((sign * low) as f32), 0.0, 0.0, 0.0], x: 0.0 }
            };
            let start = (plan.low + 127).clamp(0, 255) as u8;
            let first = if end > 0.0 { start - 1 } else { 0 };
            profile.small[side] =
                Limit { exponent: first, mantissa: 0x7F_FFFF, bucket: record(self.buckets.len())? };
            self.buckets.push(small);
        }
        self.functions.push((number, profile));
        Ok(())
    }

    /// Whether the engine's tables hold the set.
    ///
    /// # Errors
    /// Program error when not.
    pub fn check(&self) -> Result<()> {
        let [_, profiles, control, buckets] = TABLE_ENTRIES;
        for (what, n, most) in [
            ("functions", self.functions.len(), profiles),
            ("control records", self.control.len(), control),
            ("bucket records", self.buckets.len(), buckets),
        ] {
            if n > most {
                let message =
                    format!("activation table: {n} {what}, the engine's table holds {most}");
                return Err(Error::new(ErrorClass::ProgramError, message));
            }
        }
        Ok(())
    }
}

/// How far a generated table lies from its function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    /// Bucket records it takes.
    pub buckets: usize,
    /// Control records it takes.
    pub control: usize,
    /// Largest absolute difference.
    pub absolute: f64,
    /// Largest difference relative to the value, where the value is at least 2^-20 of the largest
    /// one near it.
    pub relative: f64,
    /// Inputs compared, least and largest.
    pub range: (f32, f32),
}

/// Functions that a table can be generated for.
pub fn generated() -> impl Iterator<Item = ActFunc> {
    ActFunc::ALL.iter().copied().filter(|f| Plan::of(*f).is_some() && f.wire_id().is_some())
}

/// Compares the generated table of `func` with its closed form over the table's range, at `points`
/// inputs a side spread evenly over the exponents.
///
/// # Errors
/// As [`TableSet::push_generated`].
pub fn deviation(func: ActFunc, points: u32) -> Result<Deviation> {
    let mut set = TableSet::default();
    set.push_generated(func, Generation::V3)?;
    let number = func.wire_id().unwrap_or_default();
    let plan = Plan::of(func).ok_or_else(|| Error::internal("a table without a plan"))?;
    let mut out = Deviation {
        buckets: set.buckets.len(),
        control: set.control.len(),
        absolute: 0.0,
        relative: 0.0,
        range: (f32::INFINITY, f32::NEG_INFINITY),
    };
    for (side, (low, high)) in plan.range(func).into_iter().enumerate() {
        if high == 0.0 {
            continue;
        }
        let sign = if side == 0 { 1.0 } else { -1.0 };
        let ends = [low.max(2f32.powi(plan.low - 4)), high].map(|x| f64::from(x.to_bits()));
        for i in 0..points {
            let part = (f64::from(i) + 0.5) / f64::from(points);
            let x = sign * f32::from_bits((ends[0] + part * (ends[1] - ends[0])) as u32);
            let want = f64::from(func.evaluate(x, 0.0));
            let got = f64::from(set.evaluate(number, x)?);
            if !want.is_finite() {
                continue;
            }
            let error = (got - want).abs();
            out.absolute = out.absolute.max(error);
            if want.abs() >= 1e-6 {
                out.relative = out.relative.max(error / want.abs());
            }
        }
        let ends = (sign * low, sign * high);
        out.range.0 = out.range.0.min(ends.0.min(ends.1));
        out.range.1 = out.range.1.max(ends.0.max(ends.1));
    }
    Ok(out)
}

//! Piecewise-polynomial activation tables: records as bytes, and their evaluation.
//!
//! A value's exponent picks an octave (control record), its top mantissa bits a segment (bucket
//! record) in it, and the segment is a cubic about its own centre (wiki-cc: activation/pwp-model,
//! activation/bkt-ctrl-blob; wiki: uarch/activation-transcendental-tables). Evaluation follows the
//! vendor's numeric model step by step, with its mixture of single and double precision.

pub mod generate;
mod load;

use crate::error::{Error, Result};
use crate::isa::Generation;

/// Bytes of a bucket, a CAM and a control record in table memory, and of a profile record.
pub const BUCKET_BYTES: usize = 32;
/// Bytes of a CAM record.
pub const CAM_BYTES: usize = 32;
/// Bytes of a control record in table memory; the older blob target uses 16.
pub const CONTROL_BYTES: usize = 32;
/// Records that the four tables hold: CAM, profile, control, bucket.
pub const TABLE_ENTRIES: [usize; 4] = [128, 64, 128, 2048];

/// One segment: d0 + d1 t + d2 t^2 + d3 t^3 with t = v - x.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Segment {
    /// Coefficients, by degree.
    pub d: [f32; 4],
    /// Centre.
    pub x: f32,
}

impl Segment {
    /// Reads a bucket record: d0 to d3, then x; the rest is padding.
    pub fn from_bytes(record: &[u8; BUCKET_BYTES]) -> Segment {
        let (words, _) = record.as_chunks::<4>();
        let word = |i: usize| f32::from_le_bytes(words[i]);
        Segment { d: [word(0), word(1), word(2), word(3)], x: word(4) }
    }

    /// Writes the bucket record.
    pub fn to_bytes(&self) -> [u8; BUCKET_BYTES] {
        let mut record = [0; BUCKET_BYTES];
        for (bytes, value) in record.chunks_mut(4).zip(self.d.iter().chain([&self.x])) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        record
    }

    /// The cubic at `v`: the linear part in single precision, the rest in double, one rounding at
    /// the end.
    ///
    /// OPEN: whether t^2 is formed in single or double precision. The model widens d2 to double,
    /// which a square in double explains and one in single would not. Its cube is a library
    /// `pow(t, 3)`; t * t is exact in double, so the product below rounds once, as pow does.
    pub fn evaluate(&self, v: f32) -> f32 {
        let [d0, d1, d2, d3] = self.d;
        let t = v - self.x;
        let linear = t * d1;
        let linear = f64::from(linear + d0);
        let wide = f64::from(t);
        let square = wide * wide;
        let partial = linear + square * f64::from(d2);
        super::canonical((square * wide * f64::from(d3) + partial) as f32)
    }
}

/// Control word of an octave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Control {
    /// First bucket of the octave.
    pub base: u16,
    /// Right shift of the mantissa.
    pub lsb: u8,
    /// Mantissa bits that count buckets.
    pub size: u8,
}

impl Control {
    /// Unpacks bits 10:0, 15:11 and 19:16.
    pub fn from_word(word: u32) -> Control {
        Control {
            base: (word & 0x7FF) as u16,
            lsb: ((word >> 11) & 0x1F) as u8,
            size: ((word >> 16) & 0xF) as u8,
        }
    }

    /// Packs the word.
    pub fn to_word(self) -> u32 {
        u32::from(self.base & 0x7FF)
            | u32::from(self.lsb & 0x1F) << 11
            | u32::from(self.size & 0xF) << 16
    }

    /// Bucket for a value with this mantissa.
    fn bucket(self, mantissa: u32) -> usize {
        let index = (mantissa >> self.lsb) & ((1 << self.size) - 1);
        usize::from(self.base) + index as usize
    }
}

/// CAM record: which instructions select a function slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CamEntry {
    /// Opcode to match.
    pub opcode: u8,
    /// Function number to match.
    pub func: u8,
    /// Opcode bits that count.
    pub opcode_mask: u8,
    /// Function bits that count.
    pub func_mask: u8,
    /// The record is in use.
    pub valid: bool,
}

impl CamEntry {
    /// Reads a record; v2 has the two masks the other way round.
    pub fn from_bytes(generation: Generation, record: &[u8; CAM_BYTES]) -> CamEntry {
        let (a, b) = (record[4], record[5]);
        let (opcode_mask, func_mask) = if generation <= Generation::V2 { (b, a) } else { (a, b) };
        CamEntry {
            opcode: record[0],
            func: record[1],
            opcode_mask,
            func_mask,
            valid: record[8] & 1 == 1,
        }
    }

    /// Whether the instruction selects this slot. A mask bit of 1 means compare (OPEN).
    pub fn matches(&self, opcode: u8, func: u8) -> bool {
        self.valid
            && (self.opcode ^ opcode) & self.opcode_mask == 0
            && (self.func ^ func) & self.func_mask == 0
    }
}

/// Slot of the first CAM record that matches. OPEN: of several, the lowest.
pub fn cam_lookup(cam: &[CamEntry], opcode: u8, func: u8) -> Option<usize> {
    cam.iter().position(|entry| entry.matches(opcode, func))
}

/// Where one side's table ends and what takes over there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limit {
    /// Biased exponent of the threshold.
    pub exponent: u8,
    /// Mantissa of the threshold, compared when the exponents are equal.
    pub mantissa: u32,
    /// Bucket of the polynomial beyond it.
    pub bucket: u16,
}

/// What one function's profile says. Side 0 is positive, side 1 negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Fold negative inputs onto one side.
    pub symmetric: bool,
    /// Negate the result of a folded negative input.
    pub invert_sign: bool,
    /// Fold onto the negative side.
    pub use_negative: bool,
    /// Added to the result of a negative input when folding.
    pub symmetry_point: f32,
    /// Results at 0, NaN, +inf and -inf.
    pub zero: f32,
    /// Result at NaN.
    pub nan: f32,
    /// Result at +inf.
    pub positive_infinity: f32,
    /// Result at -inf.
    pub negative_infinity: f32,
    /// Unbiased exponent of the first octave.
    pub exponent_offset: i32,
    /// First control record of each side.
    pub control_base: [u16; 2],
    /// Upper limits of magnitude, by side.
    pub large: [Limit; 2],
    /// Lower limits of magnitude, by side.
    pub small: [Limit; 2],
}

fn lookup_error(what: &str, index: usize, len: usize) -> Error {
    Error::undefined("activation_table", format!("{what} {index} of a table of {len}"))
        .help("load a table set that covers the function and the input")
}

impl Profile {
    /// f(v) from the loaded tables; `v` is the scaled and biased input.
    ///
    /// NaN gives the profile's NaN result (OPEN: the silicon has the field, the model lets NaN run
    /// into the segment search).
    ///
    /// # Errors
    /// Undefined behaviour when a record outside the loaded tables is addressed.
    pub fn evaluate(&self, control: &[Control], buckets: &[Segment], v: f32) -> Result<f32> {
        if v == 0.0 {
            return Ok(self.zero);
        }
        if v.is_nan() {
            return Ok(self.nan);
        }
        if v.is_infinite() {
            return Ok(if v > 0.0 { self.positive_infinity } else { self.negative_infinity });
        }
        let folded = match (self.symmetric, self.use_negative) {
            (false, _) => v,
            (true, false) => v.abs(),
            (true, true) => -v.abs(),
        };
        let index = self.bucket(control, folded)?;
        let segment =
            buckets.get(index).ok_or_else(|| lookup_error("bucket", index, buckets.len()))?;
        let y = segment.evaluate(folded);
        if v < 0.0 && self.symmetric {
            let y = if self.invert_sign { -y } else { y };
            return Ok(super::canonical(y + self.symmetry_point));
        }
        Ok(y)
    }

    fn bucket(&self, control: &[Control], v: f32) -> Result<usize> {
        let bits = v.to_bits();
        let side = (bits >> 31) as usize;
        let exponent = ((bits >> 23) & 0xFF) as u8;
        let mantissa = bits & 0x7F_FFFF;
        let at = (exponent, mantissa);
        let (large, small) = (&self.large[side], &self.small[side]);
        if at >= (large.exponent, large.mantissa) {
            return Ok(large.bucket.into());
        }
        if at <= (small.exponent, small.mantissa) {
            return Ok(small.bucket.into());
        }
        let octave = i32::from(exponent) - 127 - self.exponent_offset;
        let record = usize::try_from(i32::from(self.control_base[side]) + octave)
            .map_err(|_| lookup_error("control record below", 0, control.len()))?;
        let control = control
            .get(record)
            .ok_or_else(|| lookup_error("control record", record, control.len()))?;
        Ok(control.bucket(mantissa))
    }
}

/// A loaded table set: functions by number, control and bucket records.
#[derive(Clone, Debug, Default)]
pub struct TableSet {
    /// Function number and profile of each resident function.
    pub functions: Vec<(u8, Profile)>,
    /// Control records.
    pub control: Vec<Control>,
    /// Bucket records.
    pub buckets: Vec<Segment>,
}

impl TableSet {
    /// Profile of function number `func`, if it is resident.
    pub fn profile(&self, func: u8) -> Option<&Profile> {
        self.functions.iter().find(|(number, _)| *number == func).map(|(_, profile)| profile)
    }

    /// f(v) of function number `func`.
    ///
    /// # Errors
    /// Undefined behaviour when the set does not hold the function or not this input.
    pub fn evaluate(&self, func: u8, v: f32) -> Result<f32> {
        let profile = self.profile(func).ok_or_else(|| {
            Error::undefined("activation_table", format!("function {func} is not resident"))
        })?;
        profile.evaluate(&self.control, &self.buckets, v)
    }
}

/// The fields of a 128-byte profile record whose bits the pages anchor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfileBits {
    /// The polynomial stage is skipped (bit 32).
    pub bypass: bool,
    /// Symmetry fields (bits 33 to 71), derived from the listed widths.
    pub symmetric: bool,
    /// Fold onto the negative side.
    pub use_negative: bool,
    /// Negate the result of a folded negative input.
    pub invert_sign: bool,
    /// Reflection offset.
    pub symmetry_point: f32,
    /// Exponent offset (bits 72 to 79), a signed byte (OPEN).
    pub exponent_offset: i8,
    /// Results at 0, NaN, +inf and -inf (bits 592 to 719).
    pub specials: [f32; 4],
}

impl ProfileBits {
    /// Reads the anchored fields. The thresholds, control bases and mantissa compares lie between
    /// bits 80 and 591 at places no page gives; sets are therefore loaded from their manifest.
    pub fn from_bytes(record: &[u8; 128]) -> ProfileBits {
        let bits = |at: usize, width: usize| -> u32 {
            (0..width).fold(0, |value, i| {
                value | u32::from(record[(at + i) / 8] >> ((at + i) % 8) & 1) << i
            })
        };
        ProfileBits {
            bypass: bits(32, 1) != 0,
            symmetric: bits(33, 2) != 0,
            use_negative: bits(35, 2) != 0,
            invert_sign: bits(37, 2) != 0,
            symmetry_point: f32::from_bits(bits(40, 32)),
            exponent_offset: bits(72, 8) as u8 as i8,
            specials: [592, 624, 656, 688].map(|at| f32::from_bits(bits(at, 32))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn float_box(x: f32) -> Value {
        serde_json::json!({ "float": "lossy", "int": x.to_bits() })
    }

    fn taylor(at: f64) -> Value {
        let e = libm::exp(at);
        let coefficient = |n: f64| float_box((e / n) as f32);
        serde_json::json!({
            "x": float_box(at as f32), "d0": coefficient(1.0), "d1": coefficient(1.0),
            "d2": coefficient(2.0), "d3": coefficient(6.0),
        })
    }

    /// exp over octaves -2 to 0, with the shape of the shipped profile.
    fn exp_document() -> String {
        let side = |sign: f64| -> Value {
            (-2..=0)
                .map(|exponent: i32| {
                    let size = (exponent + 3) as usize;
                    let width = 2f64.powi(exponent) / f64::from(1 << size);
                    let sections: Vec<Value> = (0..1 << size)
                        .map(|i| {
                            taylor(sign * (2f64.powi(exponent) + (f64::from(i) + 0.5) * width))
                        })
                        .collect();
                    serde_json::json!({
                        "exponent": exponent, "extract_size": size, "exponent_sections": sections,
                    })
                })
                .collect()
        };
        let limit = |exponent: i32, d0: f32, d1: f32| {
            serde_json::json!({
                "sat_point": exponent, "mantissa_point": 0, "x": float_box(0.0),
                "d0": float_box(d0), "d1": float_box(d1), "d2": float_box(0.0), "d3": float_box(0.0),
            })
        };
        serde_json::json!({
            "symmetry_en": false, "symmetry_invert_sign_opt": false,
            "symmetry_opt_use_neg_region": false, "symmetry_point": float_box(0.0),
            "zero_result": float_box(1.0), "nan_result": float_box(f32::NAN),
            "pinf_result": float_box(f32::INFINITY), "ninf_result": float_box(0.0),
            "pos_exponents": side(1.0), "neg_exponents": side(-1.0),
            "saturation_points": {
                "sat_point_pos_high": limit(128, f32::INFINITY, 0.0),
                "sat_point_neg_high": limit(128, 0.0, 0.0),
                "sat_point_pos_low": limit(125, 1.0, 1.0),
                "sat_point_neg_low": limit(125, 1.0, 1.0),
            },
        })
        .to_string()
    }

    #[test]
    fn a_profile_approximates_its_function() {
        let mut set = TableSet::default();
        set.push_profile(7, &exp_document()).unwrap();
        assert_eq!(set.buckets.len(), 2 * (2 + 4 + 8) + 4);
        for i in 0..2000 {
            let v = (i as f32 - 1000.0) / 512.0;
            let want = libm::exp(v.into());
            let got = f64::from(set.evaluate(7, v).unwrap());
            if v.abs() > 0.25 && v.abs() < 2.0 {
                assert!((got - want).abs() < 2e-4 * want, "exp({v}) = {got}, not {want}");
            }
        }
        assert_eq!(set.evaluate(7, 5.0).unwrap(), f32::INFINITY);
        assert_eq!(set.evaluate(7, -5.0).unwrap(), 0.0);
        assert_eq!(set.evaluate(7, 0.0).unwrap(), 1.0);
        assert_eq!(set.evaluate(7, 0.0625).unwrap(), 1.0625);
        assert!(set.evaluate(7, f32::NAN).unwrap().is_nan());
        assert!(set.evaluate(8, 1.0).is_err());
        set.buckets.truncate(3);
        assert!(set.evaluate(7, 1.0).is_err());
        assert!(set.push_profile(9, "{}").is_err() && set.push_profile(9, "[").is_err());
    }

    #[test]
    fn odd_and_point_symmetric_functions_fold() {
        // f = 2 v on the positive side only; reflected about (0, 1/2) from the negative one.
        let line = Segment { d: [0.0, 2.0, 0.0, 0.0], x: 0.0 };
        let limit = Limit { exponent: 0, mantissa: 0, bucket: 0 };
        let mut profile = Profile {
            symmetric: true,
            invert_sign: true,
            use_negative: false,
            symmetry_point: 0.0,
            zero: 9.0,
            nan: 0.0,
            positive_infinity: 0.0,
            negative_infinity: 0.0,
            exponent_offset: 0,
            control_base: [0; 2],
            large: [limit; 2],
            small: [limit; 2],
        };
        assert_eq!(profile.evaluate(&[], &[line], -3.0).unwrap(), -6.0);
        profile.use_negative = true;
        profile.symmetry_point = 1.0;
        assert_eq!(profile.evaluate(&[], &[line], -3.0).unwrap(), 7.0);
        assert_eq!(profile.evaluate(&[], &[line], 3.0).unwrap(), -6.0);
    }

    #[test]
    fn records_of_a_shipped_set() {
        // First bucket and control words printed by wiki-cc: activation/bkt-ctrl-blob 2 and 5.
        let mut record = [0; BUCKET_BYTES];
        let words = [0x3F7F_FFD0u32, 0x3F7F_FFD0, 0x3EFF_FFD0, 0x3E2A_AA8B, 0xB63F_FFFF];
        for (bytes, word) in record.chunks_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let segment = Segment::from_bytes(&record);
        assert_eq!(segment.x.to_bits(), 0xB63F_FFFF);
        assert_eq!(segment.to_bytes(), record);
        for (word, base, lsb, size) in [
            (0x0000_B800, 0, 23, 0),
            (0x0001_B012, 18, 22, 1),
            (0x0008_7910, 272, 15, 8),
            (0x0000_B996, 406, 23, 0),
            (0x0008_7AA6, 678, 15, 8),
            (0x0000_BB2D, 813, 23, 0),
        ] {
            let control = Control { base, lsb, size };
            assert_eq!((Control::from_word(word), control.to_word()), (control, word));
        }
        // exp(0.5) in bucket 424, centre and constant term printed there: 1.64870270.
        let (d0, x) = (f32::from_bits(0x3FEF_22AE), f32::from_bits(0x3F1F_FFFF));
        let segment = Segment { d: [d0, d0, d0 / 2.0, d0 / 6.0], x };
        assert!((segment.evaluate(0.5) - 1.648_702_7).abs() < 2e-7);
    }

    #[test]
    fn blobs_and_manifest() {
        let meta = serde_json::json!({
            "func_id": 7, "fzero_result": 0x3F80_0000u32, "fpinf_result": 0x7F80_0000u32,
            "fninf_result": 0, "fnan_result": 0x7FC0_0000u32, "symmetry_opt_en": 0,
            "sym_invert_sign_point": 0, "symmetry_opt_use_neg_region": 0, "symmetry_point": 0,
            "exp_offset": 0, "pwl_control_base_pos": 0, "pwl_control_base_neg": 0,
            "pos_small_signal_pwl_control": 1, "neg_small_signal_pwl_control": 1,
            "pos_large_signal_pwl_control": 1, "neg_large_signal_pwl_control": 1,
            "small_pos_signal_exp_threshold": 100, "small_neg_signal_exp_threshold": 100,
            "large_pos_signal_exp_threshold": 128, "large_neg_signal_exp_threshold": 128,
        });
        let manifest =
            serde_json::json!({ "ctl_entry_cnt": 1, "profile_meta_data": [meta] }).to_string();
        let one = Segment { d: [5.0, 0.0, 0.0, 0.0], x: 1.0 };
        let two = Segment { d: [6.0, 0.0, 0.0, 0.0], x: 1.0 };
        let buckets = [one.to_bytes(), two.to_bytes()].concat();
        let mut control = Control { base: 0, lsb: 23, size: 0 }.to_word().to_le_bytes().to_vec();
        for stride in [16, 32] {
            control.resize(stride, 0);
            let set = TableSet::from_blobs(&buckets, &control, &manifest).unwrap();
            assert_eq!(set.evaluate(7, 1.5).unwrap(), 5.0);
            assert_eq!(set.evaluate(7, 2.0).unwrap(), 6.0);
            assert_eq!(set.evaluate(7, 1e-30).unwrap(), 6.0);
            assert!(set.evaluate(7, 0.5).is_err(), "octave -1 has no control record");
        }
        assert!(TableSet::from_blobs(&buckets[1..], &control, &manifest).is_err());
        assert!(TableSet::from_blobs(&buckets, &[], &manifest).is_err());
    }

    #[test]
    fn cam_masks_change_places_after_v2() {
        let mut record = [0; CAM_BYTES];
        (record[0], record[1], record[4], record[5], record[8]) = (0x21, 7, 0xFF, 0, 1);
        let v3 = CamEntry::from_bytes(Generation::V3, &record);
        assert_eq!(cam_lookup(&[v3], 0x21, 99), Some(0));
        assert_eq!(cam_lookup(&[v3], 0x25, 7), None);
        let v2 = CamEntry::from_bytes(Generation::V2, &record);
        assert_eq!(cam_lookup(&[v2], 0x25, 7), Some(0));
        let mut profile = [0; 128];
        (profile[4], profile[9]) = (0b10, 0xED);
        let bits = ProfileBits::from_bytes(&profile);
        assert!(bits.symmetric && !bits.bypass && bits.exponent_offset == -19);
    }
}

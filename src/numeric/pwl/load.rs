//! Loading table sets from the documents and blobs that ship with the vendor's compiler
//! (wiki-cc: activation/activation-profile-json, activation/bkt-ctrl-blob).

use serde_json::Value;

use super::{BUCKET_BYTES, Control, Limit, Profile, Segment, TableSet};
use crate::error::{Error, Result};

const PAGE: &str = "wiki-cc: activation/pwp-model";

impl TableSet {
    /// A set from its two blobs and its manifest (fields `ctl_entry_cnt`, `profile_meta_data`).
    ///
    /// # Errors
    /// Program error when the parts do not fit each other.
    pub fn from_blobs(buckets: &[u8], control: &[u8], manifest: &str) -> Result<TableSet> {
        let manifest = parse(manifest)?;
        let (records, rest) = buckets.as_chunks::<BUCKET_BYTES>();
        if !rest.is_empty() {
            return Err(bad("bucket blob is no multiple of 32 bytes"));
        }
        let count = unsigned(&manifest, "ctl_entry_cnt")? as usize;
        let stride = control.len().checked_div(count).unwrap_or(0);
        if count > 0 && (stride < 4 || stride * count != control.len()) {
            return Err(bad(format!(
                "control blob of {} bytes for {count} records",
                control.len()
            )));
        }
        let control = control
            .chunks_exact(stride.max(4))
            .map(|record| {
                Control::from_word(u32::from_le_bytes([record[0], record[1], record[2], record[3]]))
            })
            .collect();
        let mut functions = Vec::new();
        for meta in array(&manifest, "profile_meta_data")? {
            functions.push((byte(meta, "func_id")?, profile_from_meta(meta)?));
        }
        Ok(TableSet {
            functions,
            control,
            buckets: records.iter().map(Segment::from_bytes).collect(),
        })
    }

    /// Appends a function from its 24-key profile document under number `func`: the negative
    /// octaves' segments, the positive ones', then the four limit polynomials.
    ///
    /// # Errors
    /// Program error when the document lacks a field, or its octaves are not consecutive and equal
    /// on both sides.
    pub fn push_profile(&mut self, func: u8, document: &str) -> Result<()> {
        let document = parse(document)?;
        let (mut profile, mut control, mut buckets) =
            (empty_profile(&document)?, Vec::new(), Vec::new());
        let mut offset = None;
        for (side, key) in [(1, "neg_exponents"), (0, "pos_exponents")] {
            let octaves = array(&document, key)?;
            profile.control_base[side] = count(self.control.len() + control.len())?;
            for (i, octave) in octaves.iter().enumerate() {
                let exponent = signed(octave, "exponent")?;
                let first = *offset.get_or_insert(exponent);
                if exponent != first + i as i64 {
                    return Err(bad(format!("octave {exponent} of {key} is out of order")));
                }
                let size = byte(octave, "extract_size")?;
                if size > 15 {
                    return Err(bad(format!("{size} mantissa bits in an octave")));
                }
                control.push(Control {
                    base: count(self.buckets.len() + buckets.len())?,
                    lsb: 23 - size,
                    size,
                });
                for section in array(octave, "exponent_sections")? {
                    buckets.push(segment(section)?);
                }
            }
        }
        let offset = offset.unwrap_or(0);
        profile.exponent_offset =
            i32::try_from(offset).map_err(|_| bad(format!("exponent {offset}")))?;
        let limits = field(&document, "saturation_points")?;
        for (side, large, name) in [
            (0, false, "sat_point_pos_low"),
            (1, false, "sat_point_neg_low"),
            (0, true, "sat_point_pos_high"),
            (1, true, "sat_point_neg_high"),
        ] {
            let limit = field(limits, name)?;
            let slot = if large { &mut profile.large[side] } else { &mut profile.small[side] };
            *slot = Limit {
                exponent: byte(limit, "sat_point")?,
                mantissa: unsigned(limit, "mantissa_point")? as u32,
                bucket: count(self.buckets.len() + buckets.len())?,
            };
            buckets.push(segment(limit)?);
        }
        self.control.extend(control);
        self.buckets.extend(buckets);
        self.functions.push((func, profile));
        Ok(())
    }
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(crate::ErrorClass::ProgramError, format!("activation table: {}", what.into()))
}

fn count(n: usize) -> Result<u16> {
    u16::try_from(n).ok().filter(|&n| n < 2048).ok_or_else(|| bad("more than 2048 records"))
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| bad(error.to_string()))
}

fn field<'a>(value: &'a Value, key: &str) -> Result<&'a Value> {
    value.get(key).ok_or_else(|| bad(format!("no field {key} (see {PAGE})")))
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    field(value, key)?.as_array().ok_or_else(|| bad(format!("{key} is no list")))
}

fn signed(value: &Value, key: &str) -> Result<i64> {
    field(value, key)?.as_i64().ok_or_else(|| bad(format!("{key} is no integer")))
}

fn unsigned(value: &Value, key: &str) -> Result<u32> {
    u32::try_from(signed(value, key)?).map_err(|_| bad(format!("{key} is out of range")))
}

fn byte(value: &Value, key: &str) -> Result<u8> {
    u8::try_from(signed(value, key)?).map_err(|_| bad(format!("{key} is out of range")))
}

/// A flag, which documents spell as 0 and 1 or as false and true; absent means false.
fn flag(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|v| v.as_bool().unwrap_or(v.as_i64().unwrap_or(0) != 0))
}

/// A float by its bits: the member `int` of a box, or the number itself. The decimal text beside
/// it is rounded and must not be used.
fn float(value: &Value, key: &str) -> Result<f32> {
    let value = field(value, key)?;
    let bits = value.get("int").unwrap_or(value).as_i64();
    bits.and_then(|bits| {
        u32::try_from(bits).ok().or_else(|| i32::try_from(bits).ok().map(|b| b as u32))
    })
    .map(f32::from_bits)
    .ok_or_else(|| bad(format!("{key} has no bits")))
}

fn segment(value: &Value) -> Result<Segment> {
    let d = [float(value, "d0")?, float(value, "d1")?, float(value, "d2")?, float(value, "d3")?];
    Ok(Segment { d, x: float(value, "x")? })
}

fn empty_profile(document: &Value) -> Result<Profile> {
    Ok(Profile {
        symmetric: flag(document, "symmetry_en"),
        invert_sign: flag(document, "symmetry_invert_sign_opt"),
        use_negative: flag(document, "symmetry_opt_use_neg_region"),
        symmetry_point: float(document, "symmetry_point")?,
        zero: float(document, "zero_result")?,
        nan: float(document, "nan_result")?,
        positive_infinity: float(document, "pinf_result")?,
        negative_infinity: float(document, "ninf_result")?,
        exponent_offset: 0,
        control_base: [0; 2],
        large: [Limit::default(); 2],
        small: [Limit::default(); 2],
    })
}

fn profile_from_meta(meta: &Value) -> Result<Profile> {
    let limit = |size: &str, side: &str| -> Result<Limit> {
        // Small-signal limits carry no mantissa threshold in any shipped set.
        let mantissa = format!("{size}_{side}_signal_mantissa_threshold");
        Ok(Limit {
            exponent: byte(meta, &format!("{size}_{side}_signal_exp_threshold"))?,
            mantissa: if meta.get(&mantissa).is_some() { unsigned(meta, &mantissa)? } else { 0 },
            bucket: count(unsigned(meta, &format!("{side}_{size}_signal_pwl_control"))? as usize)?,
        })
    };
    let base = |key: &str| count(unsigned(meta, key)? as usize);
    Ok(Profile {
        symmetric: flag(meta, "symmetry_opt_en"),
        invert_sign: flag(meta, "sym_invert_sign_point"),
        use_negative: flag(meta, "symmetry_opt_use_neg_region"),
        symmetry_point: float(meta, "symmetry_point")?,
        zero: float(meta, "fzero_result")?,
        nan: float(meta, "fnan_result")?,
        positive_infinity: float(meta, "fpinf_result")?,
        negative_infinity: float(meta, "fninf_result")?,
        exponent_offset: i32::try_from(signed(meta, "exp_offset")?)
            .map_err(|_| bad("exp_offset is out of range"))?,
        control_base: [base("pwl_control_base_pos")?, base("pwl_control_base_neg")?],
        large: [limit("large", "pos")?, limit("large", "neg")?],
        small: [limit("small", "pos")?, limit("small", "neg")?],
    })
}

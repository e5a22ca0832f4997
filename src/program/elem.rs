//! Values of tensors: numbers to bytes and back, and comparison with expected values.

use half::{bf16, f16};

use super::model::Expected;
pub use crate::isa::text::dtype::ElemType;
use crate::numeric::{Rounding, load_f32, store_f32};

/// A number on its way into a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Int(i128),
    /// Any other number.
    Float(f64),
}

impl Number {
    /// The number as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

impl ElemType {
    /// Appends one element to `out`, rounded to nearest even.
    ///
    /// # Errors
    /// The number has no representation (a fraction or out of range for whole-number types), or the
    /// type takes raw bytes only. The message says which.
    pub fn write(self, number: Number, out: &mut Vec<u8>) -> Result<(), String> {
        if self.is_int() && self.bits() >= 8 {
            let value = match number {
                Number::Int(n) => n,
                Number::Float(x) if x.fract() == 0.0 && x.abs() < 1e30 => x as i128,
                Number::Float(x) => return Err(format!("{x:?} is not a whole number for {self}")),
            };
            let bits = self.bits();
            let unsigned = self.name().starts_with('u');
            let (low, high) = if unsigned {
                (0, (1i128 << bits) - 1)
            } else {
                (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
            };
            if !(low..=high).contains(&value) {
                return Err(format!("{value} does not fit {self} ({low} to {high})"));
            }
            out.extend_from_slice(&value.to_le_bytes()[..bits as usize / 8]);
            return Ok(());
        }
        let value = match number {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        };
        match self.name() {
            "fp32" => out.extend_from_slice(&(value as f32).to_le_bytes()),
            "bf16" => out.extend_from_slice(&bf16::from_f64(value).to_le_bytes()),
            "fp16" => out.extend_from_slice(&f16::from_f64(value).to_le_bytes()),
            name if self.bits() >= 8 => {
                let at = out.len();
                out.resize(at + self.dtype().size(), 0);
                let narrow = [value as f32];
                store_f32(self.dtype(), &narrow, &mut out[at..], Rounding::NearestEven).map_err(
                    |_| format!("{name} takes raw bytes only (uint8 npy, hex or bin data)"),
                )?;
            }
            name => {
                return Err(format!("{name} takes raw bytes only (uint8 npy, hex or bin data)"));
            }
        }
        Ok(())
    }

    /// Reads every element of `bytes` as an f64, for comparison with expected values.
    ///
    /// Whole numbers beyond 2^53 lose their low bits; compare those as [`Expected::Ints`].
    /// `None` if the type has no conversion here.
    pub fn read_f64(self, bytes: &[u8]) -> Option<Vec<f64>> {
        if self.is_int() {
            return Some(self.read_ints(bytes)?.into_iter().map(|n| n as f64).collect());
        }
        if self.bits() < 8 {
            return None;
        }
        let mut values = vec![0.0; bytes.len() / self.dtype().size()];
        load_f32(self.dtype(), bytes, &mut values).ok()?;
        Some(values.into_iter().map(f64::from).collect())
    }

    /// Reads every element of `bytes` as a whole number; `None` for other types.
    pub fn read_ints(self, bytes: &[u8]) -> Option<Vec<i128>> {
        if !self.is_int() || self.bits() < 8 {
            return None;
        }
        let size = self.bits() as usize / 8;
        let unsigned = self.name().starts_with('u');
        Some(
            bytes
                .chunks_exact(size)
                .map(|chunk| {
                    let mut raw = 0i128;
                    for (i, byte) in chunk.iter().enumerate() {
                        raw |= i128::from(*byte) << (8 * i);
                    }
                    let sign = 1i128 << (8 * size - 1);
                    if unsigned { raw } else { (raw ^ sign) - sign }
                })
                .collect(),
        )
    }
}

/// How a tensor's bytes differ from what was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// How many elements differ.
    pub count: usize,
    /// How many were compared.
    pub total: usize,
    /// Row-major index of the first difference.
    pub first: usize,
    /// That element.
    pub got: String,
    /// What it should be.
    pub wanted: String,
    /// Largest absolute difference.
    pub largest: f64,
}

/// Compares the bytes of a tensor of type `elem` with `expected`. `Ok(None)` means all pass.
///
/// # Errors
/// The lengths differ or the type cannot be read as numbers.
pub fn compare(
    elem: ElemType,
    bytes: &[u8],
    expected: &Expected,
    atol: f64,
    rtol: f64,
) -> Result<Option<Mismatch>, String> {
    let unreadable = || format!("{elem} cannot be compared as numbers; expect its raw bytes");
    let exact = atol == 0.0 && rtol == 0.0;
    let mut found = Comparison::default();
    // a part at a time: tensors are large, and what is read of them is larger
    let size = if elem.bits() < 8 { 1 } else { elem.bits() as usize / 8 };
    let parts = || bytes.chunks(PART * size);
    let length = |n: usize| {
        if n == expected.len() {
            Ok(())
        } else {
            Err(format!("{n} values, expected {}", expected.len()))
        }
    };
    match expected {
        Expected::Bytes(want) => {
            length(bytes.len())?;
            let show = |b: &u8| format!("{b:#04x}");
            found.part(bytes, want, |a, b| if a == b { None } else { Some(f64::NAN) }, show, show);
        }
        Expected::Ints(want) if elem.is_int() => {
            elem.read_ints(&[]).ok_or_else(unreadable)?;
            length(bytes.len() / size)?;
            let differ = |a: &i128, b: &i128| {
                let gap = (a - b).unsigned_abs() as f64;
                let fine = a == b || (!exact && gap <= atol + rtol * (*b as f64).abs());
                (!fine).then_some(gap)
            };
            for (part, want) in parts().zip(want.chunks(PART)) {
                let got = elem.read_ints(part).ok_or_else(unreadable)?;
                found.part(&got, want, differ, i128::to_string, i128::to_string);
            }
        }
        _ => {
            elem.read_f64(&[]).ok_or_else(unreadable)?;
            length(bytes.len() / size)?;
            let differ = |a: &f64, b: &f64| {
                let gap = (a - b).abs();
                let fine = a == b || (a.is_nan() && b.is_nan()) || gap <= atol + rtol * b.abs();
                // An infinite tolerance term must not excuse a finite value.
                let fine = fine && (a == b || b.is_finite() == a.is_finite());
                (!fine).then_some(gap)
            };
            let show = |x: &f64| format!("{x:?}");
            for (n, part) in parts().enumerate() {
                let got = elem.read_f64(part).ok_or_else(unreadable)?;
                let at = n * PART..n * PART + got.len();
                match expected {
                    Expected::Floats(v) => found.part(&got, &v[at], differ, show, show),
                    Expected::Ints(v) => {
                        let want: Vec<f64> = v[at].iter().map(|n| *n as f64).collect();
                        found.part(&got, &want, differ, show, show);
                    }
                    Expected::Bytes(_) => {}
                }
            }
        }
    }
    Ok(found.mismatch.map(|m| Mismatch { total: found.seen, ..m }))
}

/// Elements that are compared at a time.
const PART: usize = 4096;

/// What was compared so far.
#[derive(Default)]
struct Comparison {
    seen: usize,
    mismatch: Option<Mismatch>,
}

impl Comparison {
    fn part<A, B>(
        &mut self,
        got: &[A],
        want: &[B],
        differ: impl Fn(&A, &B) -> Option<f64>,
        show_got: impl Fn(&A) -> String,
        show_want: impl Fn(&B) -> String,
    ) {
        for (i, (a, b)) in got.iter().zip(want).enumerate() {
            let Some(gap) = differ(a, b) else { continue };
            let entry = self.mismatch.get_or_insert_with(|| Mismatch {
                count: 0,
                total: 0,
                first: self.seen + i,
                got: show_got(a),
                wanted: show_want(b),
                largest: 0.0,
            });
            entry.count += 1;
            if gap > entry.largest || gap.is_nan() {
                entry.largest = gap;
            }
        }
        self.seen += got.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_reads_back() {
        let mut out = Vec::new();
        let int16 = ElemType::from_name("int16").unwrap();
        int16.write(Number::Int(-2), &mut out).unwrap();
        assert_eq!(out, [0xfe, 0xff]);
        assert_eq!(int16.read_ints(&out), Some(vec![-2]));
        assert!(int16.write(Number::Int(40000), &mut out).is_err());
        assert!(int16.write(Number::Float(0.5), &mut out).is_err());
        let mut out = Vec::new();
        ElemType::from_name("bf16")
            .unwrap()
            .write(Number::Float(1.0 + 1.0 / 256.0), &mut out)
            .unwrap();
        assert_eq!(out, [0x80, 0x3f], "ties go to even");
    }

    #[test]
    fn comparison_is_not_fooled() {
        let bytes: Vec<u8> =
            [1.0f32, f32::NAN, f32::INFINITY, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let same = Expected::Floats(vec![1.0, f64::NAN, f64::INFINITY, 5.0]);
        assert_eq!(compare(ElemType::FP32, &bytes, &same, 0.0, 0.0), Ok(None));
        let other = Expected::Floats(vec![1.5, 0.0, 3.0, f64::INFINITY]);
        let report = compare(ElemType::FP32, &bytes, &other, 1.0, 1.0).unwrap().unwrap();
        assert_eq!((report.count, report.first), (3, 1));
        assert!(compare(ElemType::FP32, &bytes[..8], &same, 0.0, 0.0).is_err());
    }
}

//! NumPy files: initial and expected values in, results out.
//!
//! Types NumPy does not know travel as integers of their width: bf16 as uint16 (or the 2-byte void
//! that ml_dtypes writes), fp8 as uint8. Such data is taken bit for bit.

use std::io::{Cursor, Read};

use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use super::elem::{ElemType, Number};
use super::limits;
use super::model::Expected;

/// The content of one npy file, in row-major order and little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Extents, outermost first.
    pub shape: Vec<u64>,
    /// NumPy kind letter: `f`, `i`, `u`, `b` or `V`.
    pub kind: char,
    /// Bytes per element.
    pub size: usize,
    /// Elements.
    pub bytes: Vec<u8>,
}

/// Reads an npy file from memory.
///
/// # Errors
/// Not an npy file, a structured or unsupported type, truncated or oversized data.
pub fn parse(bytes: &[u8]) -> Result<Array, String> {
    check_header(bytes)?;
    let mut reader = Cursor::new(bytes);
    let header =
        NpyHeader::from_reader(&mut reader).map_err(|e| format!("not an npy file: {e}"))?;
    let DType::Plain(kind) = header.dtype() else {
        return Err("structured arrays are not supported".to_owned());
    };
    let letter = match kind.type_char() {
        TypeChar::Float => 'f',
        TypeChar::Int => 'i',
        TypeChar::Uint => 'u',
        TypeChar::Bool => 'b',
        TypeChar::RawData => 'V',
        other => return Err(format!("arrays of type `{}` are not supported", other.to_str())),
    };
    let size =
        kind.num_bytes().filter(|n| matches!(n, 1 | 2 | 4 | 8)).ok_or("unsupported width")?;
    let shape = header.shape().to_vec();
    if shape.len() > limits::TENSOR_DIMENSIONS {
        return Err(format!("{} dimensions, at most 8 are supported", shape.len()));
    }
    let count = shape
        .iter()
        .try_fold(1u64, |n, d| n.checked_mul(*d))
        .filter(|n| *n <= limits::DATA_BYTES)
        .ok_or("the array is too large")?;
    let total = usize::try_from(count).map_err(|_| "the array is too large")? * size;
    let mut data = Vec::new();
    reader.take(total as u64).read_to_end(&mut data).map_err(|e| e.to_string())?;
    if data.len() != total {
        return Err(format!("truncated: {} of {total} bytes of data", data.len()));
    }
    if kind.endianness() == Endianness::Big && size > 1 {
        data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if header.order() == Order::Fortran && shape.len() > 1 {
        data = to_row_major(&data, &shape, size);
    }
    Ok(Array { shape, kind: letter, size, bytes: data })
}

/// Refuses headers whose numbers are so large that the header's reader would overflow: the product
/// of every number in the text (extents and element width) must stay small.
fn check_header(bytes: &[u8]) -> Result<(), String> {
    const PREFIX: usize = 12;
    let malformed = || "not an npy file: malformed header".to_owned();
    let head = bytes.get(..PREFIX).ok_or_else(malformed)?;
    // Version 1 has a 2-byte length, later ones 4 bytes.
    let (start, length): (usize, usize) = match head[6] {
        1 => (10, usize::from(u16::from_le_bytes([head[8], head[9]]))),
        _ => (12, u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize),
    };
    let end = start.checked_add(length).ok_or_else(malformed)?;
    let text = bytes.get(start..end).ok_or_else(malformed)?;
    let mut product: u64 = 1;
    for run in text.split(|b| !b.is_ascii_digit()).filter(|run| !run.is_empty()) {
        let digits = std::str::from_utf8(run).map_err(|_| malformed())?;
        let number: u64 = digits.parse().map_err(|_| "the array is too large".to_owned())?;
        product = product
            .checked_mul(number.max(1))
            .filter(|p| *p <= limits::DATA_BYTES * 8)
            .ok_or("the array is too large")?;
    }
    // Other spellings of numbers would escape the test above.
    let odd = |pair: &[u8]| {
        pair[0].is_ascii_digit() && (pair[1] == b'_' || pair[1].is_ascii_alphabetic())
    };
    if text.windows(2).any(odd) { Err(malformed()) } else { Ok(()) }
}

fn to_row_major(data: &[u8], shape: &[u64], size: usize) -> Vec<u8> {
    let extents: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let mut out = vec![0; data.len()];
    let mut index = vec![0usize; extents.len()];
    for chunk in data.chunks_exact(size) {
        let at = index.iter().zip(&extents).fold(0, |at, (i, extent)| at * extent + i);
        out[at * size..(at + 1) * size].copy_from_slice(chunk);
        // In Fortran order the first index runs fastest.
        for (i, extent) in index.iter_mut().zip(&extents) {
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
    out
}

impl Array {
    /// The elements as bytes of type `elem`: bit for bit if the file holds that type or an integer
    /// stand-in of its width, else converted to nearest even.
    ///
    /// # Errors
    /// A value that `elem` cannot represent, or a type that needs raw data.
    pub fn to_elem(&self, elem: ElemType) -> Result<Vec<u8>, String> {
        if self.is_raw(elem) {
            return Ok(self.bytes.clone());
        }
        let mut out = Vec::new();
        for number in self.numbers()? {
            elem.write(number, &mut out)?;
        }
        Ok(out)
    }

    /// The elements as the expected contents of a tensor of type `elem`.
    ///
    /// # Errors
    /// As [`Array::to_elem`] for raw stand-ins.
    pub fn to_expected(&self, elem: ElemType) -> Result<Expected, String> {
        if self.is_raw(elem) && !elem.is_int() && self.kind != 'f' {
            return Ok(Expected::Bytes(self.bytes.clone()));
        }
        if let Some(floats) = self.floats() {
            return Ok(Expected::Floats(floats));
        }
        let numbers = self.numbers()?;
        let mut ints = Vec::with_capacity(numbers.len());
        for number in &numbers {
            match number {
                Number::Int(n) => ints.push(*n),
                Number::Float(_) => break,
            }
        }
        if ints.len() == numbers.len() {
            return Ok(Expected::Ints(ints));
        }
        let floats = numbers.into_iter().map(|n| match n {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        });
        Ok(Expected::Floats(floats.collect()))
    }

    /// The elements of a file of floats; `None` for one without any element, or of another kind.
    fn floats(&self) -> Option<Vec<f64>> {
        let bytes = &self.bytes;
        match (self.kind, self.size) {
            _ if bytes.is_empty() => None,
            ('f', 4) => {
                let chunks = bytes.as_chunks::<4>().0.iter();
                Some(chunks.map(|b| f64::from(f32::from_le_bytes(*b))).collect())
            }
            ('f', 8) => {
                Some(bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
            }
            ('f', 2) => {
                let chunks = bytes.as_chunks::<2>().0.iter();
                Some(chunks.map(|b| f64::from(half::f16::from_le_bytes(*b))).collect())
            }
            _ => None,
        }
    }

    /// True if the file's bytes are the tensor's bytes.
    fn is_raw(&self, elem: ElemType) -> bool {
        let same_width = self.size * 8 == elem.bits() as usize;
        let same_type = match elem.name() {
            "fp16" | "fp32" => self.kind == 'f',
            name if elem.is_int() => self.kind == if name.starts_with('u') { 'u' } else { 'i' },
            // No NumPy type of its own: integers and void stand in.
            _ => matches!(self.kind, 'u' | 'V'),
        };
        // Packed 4-bit types come as bytes.
        let packed = elem.bits() == 4 && self.size == 1 && matches!(self.kind, 'u' | 'V');
        packed || (same_width && same_type)
    }

    fn numbers(&self) -> Result<Vec<Number>, String> {
        let chunks = self.bytes.chunks_exact(self.size);
        let integer = |name: &str| {
            let elem = ElemType::from_name(name).ok_or("unsupported width")?;
            let ints = elem.read_ints(&self.bytes).ok_or("unsupported width")?;
            Ok(ints.into_iter().map(Number::Int).collect())
        };
        match (self.kind, self.size) {
            ('f', 4) => Ok(chunks
                .map(|b| Number::Float(f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))))
                .collect()),
            ('f', 8) => Ok(chunks
                .map(|b| {
                    let bits = [b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]];
                    Number::Float(f64::from_le_bytes(bits))
                })
                .collect()),
            ('f', 2) => Ok(chunks
                .map(|b| Number::Float(f64::from(half::f16::from_le_bytes([b[0], b[1]]))))
                .collect()),
            ('i', size) => integer(&format!("int{}", size * 8)),
            ('u', size) => integer(&format!("uint{}", size * 8)),
            ('b', _) => Ok(chunks.map(|b| Number::Int(i128::from(b[0] != 0))).collect()),
            _ => Err("raw (void) data only fits a type of the same width".to_owned()),
        }
    }
}

/// Encodes a tensor as an npy file: as its own NumPy type, or as integers of its width.
///
/// # Errors
/// The byte count does not fit the shape.
pub fn encode(elem: ElemType, shape: &[u64], bytes: &[u8]) -> Result<Vec<u8>, String> {
    let packed = elem.bits() < 8;
    let (descr, shape) = match elem.name() {
        _ if packed => ("|u1".to_owned(), vec![bytes.len() as u64]),
        "fp16" | "fp32" => (format!("<f{}", elem.bits() / 8), shape.to_vec()),
        name if elem.is_int() => {
            let letter = if name.starts_with('u') { 'u' } else { 'i' };
            (format!("<{letter}{}", elem.bits() / 8), shape.to_vec())
        }
        _ => (format!("<u{}", elem.bits() / 8), shape.to_vec()),
    };
    let count = shape.iter().fold(1u64, |n, d| n.saturating_mul(*d));
    if !packed && elem.bytes_of(count) != bytes.len() as u64 {
        return Err(format!("{} bytes do not fill {elem}{shape:?}", bytes.len()));
    }
    let mut out = Vec::with_capacity(bytes.len() + 128);
    header(&mut out, &descr, &shape);
    out.extend_from_slice(bytes);
    Ok(out)
}

/// An npy version 1 header, padded to 64 bytes.
fn header(out: &mut Vec<u8>, descr: &str, shape: &[u64]) {
    let mut extents: String = shape.iter().map(|d| format!("{d}, ")).collect();
    if shape.len() > 1 {
        extents.truncate(extents.len() - 2);
    } else if shape.len() == 1 {
        extents.truncate(extents.len() - 1);
    }
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    out.extend_from_slice(b"\x93NUMPY\x01\x00");
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let fp32 = ElemType::FP32;
        let bytes: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let file = encode(fp32, &[2, 3], &bytes).unwrap();
        let array = parse(&file).unwrap();
        assert_eq!((array.shape.as_slice(), array.kind, array.size), (&[2, 3][..], 'f', 4));
        assert_eq!(array.to_elem(fp32).unwrap(), bytes);
        let bf16 = ElemType::from_name("bf16").unwrap();
        assert_eq!(array.to_elem(bf16).unwrap()[2..4], [0x80, 0x3f]);
        assert!(parse(&file[..file.len() - 1]).is_err());
        assert!(encode(fp32, &[2, 2], &bytes).is_err());
        for shape in [&[][..], &[1], &[1, 1, 1]] {
            let file = encode(fp32, shape, &bytes[..4]).unwrap();
            assert_eq!(file.len() % 64, 4);
            assert_eq!(parse(&file).unwrap().shape, shape);
        }
    }

    #[test]
    fn fortran_order_and_big_endian() {
        let mut file = Vec::new();
        let text = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
        file.extend_from_slice(b"\x93NUMPY\x01\x00");
        file.extend_from_slice(&(text.len() as u16).to_le_bytes());
        file.extend_from_slice(text.as_bytes());
        for value in [0i16, 3, 1, 4, 2, 5] {
            file.extend_from_slice(&value.to_be_bytes());
        }
        let int32 = ElemType::from_name("int32").unwrap();
        let array = parse(&file).unwrap();
        assert_eq!(array.to_expected(int32), Ok(Expected::Ints(vec![0, 1, 2, 3, 4, 5])));
    }
}

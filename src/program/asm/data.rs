//! Values of tensors and checks: `npy("f")`, `bin("f")`, `hex("…")`, `[1, 2]`, `fill(0)`, …

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::super::elem::{ElemType, Number};
use super::super::limits;
use super::super::model::{Expected, Tensor};
use super::super::npy;
use super::Assembler;
use crate::isa::text::expr::{Cursor, Value, expression, integer};
use crate::isa::text::lex::Kind;
use crate::isa::text::syntax::{Span, SyntaxError, SyntaxResult};

fn number(value: Value) -> Number {
    match value {
        Value::Int(n) => Number::Int(n),
        Value::Float(x) => Number::Float(x),
    }
}

impl Assembler<'_> {
    fn charge(&mut self, bytes: u64, span: Span) -> SyntaxResult<()> {
        self.data_bytes = self.data_bytes.saturating_add(bytes);
        if self.data_bytes > limits::DATA_BYTES {
            let message = format!("more than {} bytes of tensor data", limits::DATA_BYTES);
            return Err(SyntaxError::new(span, message));
        }
        Ok(())
    }

    fn npy(&mut self, cursor: &mut Cursor<'_, '_>, tensor: &Tensor) -> SyntaxResult<npy::Array> {
        cursor.expect("(")?;
        let token = cursor.string("a file name in quotes")?;
        cursor.expect(")")?;
        let path = self.path(token)?;
        let bytes = self.read(&path, limits::DATA_BYTES, token.span)?;
        self.charge(bytes.len() as u64, token.span)?;
        let array = npy::parse(&bytes).map_err(|why| SyntaxError::new(token.span, why))?;
        // Packed types are stored as their bytes, so only the size can be compared.
        let packed = tensor.dtype.bits() < 8 && array.bytes.len() as u64 == tensor.bytes();
        if array.shape != tensor.shape && !packed {
            let message =
                format!("the array has shape {:?}, the tensor {:?}", array.shape, tensor.shape);
            return Err(SyntaxError::new(token.span, message));
        }
        Ok(array)
    }

    /// The bytes after `=` in a tensor declaration.
    pub(super) fn initial(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        tensor: &Tensor,
    ) -> SyntaxResult<Vec<u8>> {
        let start = cursor.span();
        let bytes = self.source(cursor, tensor)?;
        let span = start.to(cursor.previous());
        if bytes.len() as u64 != tensor.bytes() {
            let message =
                format!("{} bytes of data, the tensor has {}", bytes.len(), tensor.bytes());
            return Err(SyntaxError::new(span, message));
        }
        Ok(bytes)
    }

    fn source(&mut self, cursor: &mut Cursor<'_, '_>, tensor: &Tensor) -> SyntaxResult<Vec<u8>> {
        let start = cursor.span();
        let elem = tensor.dtype;
        if cursor.is("[") {
            return self.listed(cursor, elem);
        }
        let kind = cursor
            .ident("npy(…), bin(…), hex(…), q7(…), fill(…), iota(…), random(…) or [values]")?;
        let fail = |why: String| SyntaxError::new(start, why);
        match kind.text {
            "npy" => {
                let array = self.npy(cursor, tensor)?;
                array.to_elem(elem).map_err(|why| SyntaxError::new(cursor.previous(), why))
            }
            "bin" => {
                cursor.expect("(")?;
                let token = cursor.string("a file name in quotes")?;
                cursor.expect(")")?;
                let path = self.path(token)?;
                let bytes = self.read(&path, limits::DATA_BYTES, token.span)?;
                self.charge(bytes.len() as u64, token.span)?;
                Ok(bytes)
            }
            "q7" => {
                cursor.expect("(")?;
                let mut files = Vec::new();
                loop {
                    let token =
                        cursor.string("a source, object or library of the Q7 cores in quotes")?;
                    let path = self.path(token)?;
                    let bytes = self.read(&path, limits::SOURCE_BYTES, token.span)?;
                    files.push((path.to_string_lossy().into_owned(), bytes));
                    if !cursor.is(",") {
                        break;
                    }
                    cursor.expect(",")?;
                }
                let token = cursor.previous();
                cursor.expect(")")?;
                let generation = self.generation(start)?;
                let mut image = crate::q7::library::stage_files(&files, generation)
                    .map_err(|e| SyntaxError::new(token, e.message))?;
                if image.len() as u64 > tensor.bytes() {
                    let message = format!("the staged image has {} bytes, the tensor {}", image.len(), tensor.bytes());
                    return Err(SyntaxError::new(token, message));
                }
                image.resize(tensor.bytes() as usize, 0);
                self.charge(tensor.bytes(), start)?;
                Ok(image)
            }
            "hex" => {
                cursor.expect("(")?;
                let token = cursor.string("hexadecimal digits in quotes")?;
                cursor.expect(")")?;
                crate::isa::text::hex(token.text).map_err(|why| SyntaxError::new(token.span, why))
            }
            "fill" => {
                cursor.expect("(")?;
                let value = expression(cursor, &self.names)?;
                cursor.expect(")")?;
                self.charge(tensor.bytes(), start)?;
                let mut one = Vec::new();
                match (value, elem.bits()) {
                    // Packed and raw types can still be filled with zero.
                    (Value::Int(0), _) => return Ok(vec![0; tensor.bytes() as usize]),
                    _ => elem.write(number(value), &mut one).map_err(fail)?,
                }
                Ok(one.repeat(tensor.elements() as usize))
            }
            "iota" => {
                cursor.expect("(")?;
                let first = expression(cursor, &self.names)?;
                cursor.expect(",")?;
                let step = expression(cursor, &self.names)?;
                cursor.expect(")")?;
                self.charge(tensor.bytes(), start)?;
                let mut out = Vec::new();
                for i in 0..tensor.elements() {
                    let value = match (first, step) {
                        (Value::Int(a), Value::Int(b)) => {
                            let value = b.checked_mul(i.into()).and_then(|n| n.checked_add(a));
                            Number::Int(value.ok_or_else(|| fail("too large".to_owned()))?)
                        }
                        _ => Number::Float(first.as_f64() + step.as_f64() * i as f64),
                    };
                    elem.write(value, &mut out).map_err(fail)?;
                }
                Ok(out)
            }
            "random" => {
                cursor.expect("(")?;
                let seed = integer(cursor, &self.names, 0, u64::MAX.into())?;
                cursor.expect(")")?;
                self.charge(tensor.bytes(), start)?;
                let mut rng = Pcg64Mcg::new(seed as u128 | 1 << 64);
                let mut out = Vec::new();
                for _ in 0..tensor.elements() {
                    let bits = rng.next_u32();
                    let value = if elem.is_int() {
                        Number::Int((bits >> 28).into())
                    } else {
                        // 24 bits in [-1, 1): exact in fp32.
                        Number::Float(f64::from(bits >> 8) / f64::from(1 << 23) - 1.0)
                    };
                    elem.write(value, &mut out).map_err(fail)?;
                }
                Ok(out)
            }
            _ => Err(SyntaxError::new(kind.span, format!("unknown kind of data `{}`", kind.text))
                .help("npy(\"file\"), bin(\"file\"), hex(\"…\"), fill(x), iota(first, step), random(seed), [values]")),
        }
    }

    fn values(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<Vec<(Number, Span)>> {
        let mut out = Vec::new();
        cursor.expect("[")?;
        while !cursor.eat("]") {
            if !out.is_empty() {
                cursor.expect(",")?;
            }
            let start = cursor.span();
            let value = expression(cursor, &self.names)?;
            out.push((number(value), start.to(cursor.previous())));
        }
        Ok(out)
    }

    fn listed(&mut self, cursor: &mut Cursor<'_, '_>, elem: ElemType) -> SyntaxResult<Vec<u8>> {
        let mut out = Vec::new();
        for (value, span) in self.values(cursor)? {
            elem.write(value, &mut out).map_err(|why| SyntaxError::new(span, why))?;
        }
        self.charge(out.len() as u64, cursor.previous())?;
        Ok(out)
    }

    /// The expectation of a check, and where it came from.
    pub(super) fn expected(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        tensor: &Tensor,
    ) -> SyntaxResult<(Expected, String)> {
        let start = cursor.span();
        let is_npy = cursor.peek().is_some_and(|t| t.kind == Kind::Ident && t.text == "npy");
        if is_npy {
            cursor.next();
            let origin = cursor.peek_at(1).map_or("", |t| t.text).to_owned();
            let array = self.npy(cursor, tensor)?;
            let expected =
                array.to_expected(tensor.dtype).map_err(|why| SyntaxError::new(start, why))?;
            return Ok((expected, origin));
        }
        if cursor.is("[") {
            let values = self.values(cursor)?;
            let span = start.to(cursor.previous());
            if values.len() as u64 != tensor.elements() {
                let message =
                    format!("{} values, the tensor has {}", values.len(), tensor.elements());
                return Err(SyntaxError::new(span, message));
            }
            let ints: Vec<i128> = values
                .iter()
                .filter_map(|(v, _)| match v {
                    Number::Int(n) => Some(*n),
                    Number::Float(_) => None,
                })
                .collect();
            let expected = if ints.len() == values.len() {
                Expected::Ints(ints)
            } else {
                Expected::Floats(values.iter().map(|(v, _)| v.as_f64()).collect())
            };
            return Ok((expected, "the program text".to_owned()));
        }
        let bytes = self.initial(cursor, tensor)?;
        // Computed data is compared as numbers, raw data byte for byte.
        let raw = self.sources.text(start.file).get(start.start as usize..start.end as usize);
        let numbers = match raw {
            Some("hex" | "bin") => None,
            _ => tensor.dtype.read_f64(&bytes),
        };
        let expected = numbers.map_or(Expected::Bytes(bytes), Expected::Floats);
        Ok((expected, "the program text".to_owned()))
    }
}

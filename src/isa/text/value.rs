//! How single operand fields are printed and parsed, by the type the struct table gives them.

use super::dtype::ElemType;
use super::expr::{Cursor, Env, Value, expression, integer};
use super::lex::{Kind, escape, unescape};
use super::syntax::{Span, SyntaxError, SyntaxResult, nearest};
use crate::isa::{EnumDef, FieldType, Generation, enum_by_name};

/// Reads up to eight bytes as a number.
pub(super) fn le(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let n = bytes.len().min(8);
    word[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(word)
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == 0)
}

/// `raw("…")` with trailing zero bytes left out.
pub(super) fn raw(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    let hex: String = bytes[..end].iter().map(|b| format!("{b:02x}")).collect();
    format!("raw(\"{hex}\")")
}

/// True if the word can stand as a name in the text.
fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A register `R0`..`R63`, `PCLO`, `PCHI`, if one is next and its name means nothing else.
///
/// # Errors
/// `R64` and above.
pub fn register(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<Option<u8>> {
    let Some(token) = cursor.peek().filter(|t| t.kind == Kind::Ident) else { return Ok(None) };
    if env.symbol(token.text).is_some() {
        return Ok(None);
    }
    let number = match token.text {
        "PCLO" => 128,
        "PCHI" => 129,
        text => {
            let Some(digits) = text.strip_prefix('R') else { return Ok(None) };
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Ok(None);
            }
            digits.parse().ok().filter(|n| *n < 64u8).ok_or_else(|| {
                SyntaxError::new(token.span, "registers are R0 to R63, PCLO and PCHI")
            })?
        }
    };
    cursor.next();
    Ok(Some(number))
}

pub(super) fn register_text(number: u8) -> String {
    match number {
        0..=63 => format!("R{number}"),
        128 => "PCLO".to_owned(),
        129 => "PCHI".to_owned(),
        _ => number.to_string(),
    }
}

/// A dtype code by the profiler's name, else the header's, else as a number.
pub(super) fn dtype_text(code: u8) -> String {
    match ElemType::from_code(code) {
        Some(elem) => elem.name().to_owned(),
        None => enum_by_name("DTYPE")
            .and_then(|e| e.name_of(code.into()))
            .filter(|n| is_word(n))
            .map_or_else(|| format!("{code:#x}"), str::to_ascii_lowercase),
    }
}

/// A dtype code from a name, if the name is one.
pub(super) fn dtype_code(name: &str) -> Option<u8> {
    ElemType::from_name(name).map(ElemType::code).or_else(|| {
        let value = enum_by_name("DTYPE")?.value_of(name)?;
        u8::try_from(value).ok()
    })
}

pub(super) fn parse_dtype(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<u8> {
    if let Some(token) = cursor.peek().filter(|t| t.kind == Kind::Ident) {
        if let Some(code) = dtype_code(token.text) {
            cursor.next();
            return Ok(code);
        }
        if env.symbol(token.text).is_none() {
            let error =
                SyntaxError::new(token.span, format!("no dtype is called `{}`", token.text));
            let near = nearest(token.text, ElemType::names());
            return Err(match near {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(ElemType::names().collect::<Vec<_>>().join(", ")),
            });
        }
    }
    Ok(integer(cursor, env, 0, 255)? as u8)
}

/// A float that reads back as the same bits, or `None`.
pub(super) fn float_text(bits: u32) -> Option<String> {
    let value = f32::from_bits(bits);
    let text = match value {
        f32::INFINITY => "inf".to_owned(),
        f32::NEG_INFINITY => "-inf".to_owned(),
        _ => format!("{value:?}"),
    };
    let same = text.parse::<f64>().is_ok_and(|x| (x as f32).to_bits() == bits);
    same.then_some(text)
}

/// Text of an enum member; numbers for codes without a usable name.
fn enum_text(def: &EnumDef, value: u64) -> String {
    def.name_of(value)
        .filter(|n| is_word(n) && def.value_of(n).map(u64::from) == Some(value))
        .map_or_else(|| format!("{value:#x}"), str::to_owned)
}

/// A range for numbers of `size` bytes, signed or not.
fn range(size: usize, signed: bool) -> (i128, i128) {
    let bits = 8 * size.min(8) as u32;
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Prints one value of type `ty`; the whole field if it is an array. Patterns, addresses and
/// immediates are printed by [`super::addr`] and [`super::inst`].
pub(super) fn print(ty: FieldType, bytes: &[u8]) -> String {
    match ty {
        FieldType::U8 | FieldType::U16 | FieldType::Bool | FieldType::Opcode => {
            le(bytes).to_string()
        }
        FieldType::U32 | FieldType::U64 | FieldType::NeuronAddr | FieldType::PartitionOffset => {
            let value = le(bytes);
            if value < 10_000 { value.to_string() } else { format!("{value:#x}") }
        }
        FieldType::I8 => (le(bytes) as i8).to_string(),
        FieldType::I16 => (le(bytes) as i16).to_string(),
        FieldType::I32 => (le(bytes) as i32).to_string(),
        FieldType::F32 => {
            let bits = le(bytes) as u32;
            float_text(bits).unwrap_or_else(|| format!("bits({bits:#x})"))
        }
        FieldType::Char(_) => {
            let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
            format!("\"{}\"", escape(&bytes[..end]))
        }
        FieldType::Array(item, count) => {
            let size = bytes.len() / usize::from(count.max(1));
            if size == 0 {
                return raw(bytes);
            }
            let mut items: Vec<&[u8]> = bytes.chunks_exact(size).collect();
            while items.last().is_some_and(|b| is_zero(b)) {
                items.pop();
            }
            let texts: Vec<String> = items.into_iter().map(|b| print(*item, b)).collect();
            format!("[{}]", texts.join(","))
        }
        FieldType::Enum(def) => enum_text(def, le(bytes)),
        FieldType::Dtype => dtype_text(bytes[0]),
        FieldType::DtypePair => {
            format!("{}/{}", dtype_text(bytes[0] & 15), dtype_text(bytes[0] >> 4))
        }
        FieldType::Bits(def) => {
            let value = le(bytes);
            let mut rest = value;
            let mut parts = Vec::new();
            for group in def.fields {
                let part = group.get(value);
                rest = group.with(rest, 0);
                if part != 0 {
                    parts.push(format!("{}={part}", group.name));
                }
            }
            if rest == 0 && def.fields.len() > 1 {
                format!("{{{}}}", parts.join(","))
            } else {
                format!("{value:#x}")
            }
        }
        FieldType::Reg => register_text(bytes[0]),
        FieldType::MoveImmediate | FieldType::ShapeData => blob(bytes, 4),
        FieldType::Mem2dData => blob(bytes, 1),
        FieldType::AluImmediate | FieldType::Imm64 => {
            let value = le(bytes);
            if value < 10_000 { value.to_string() } else { format!("{value:#x}") }
        }
        FieldType::CcInst => format!("{:#010x}", le(bytes)),
        _ => raw(bytes),
    }
}

/// `u32[…]` or `u8[…]` with trailing zeros left out.
fn blob(bytes: &[u8], size: usize) -> String {
    let mut items: Vec<u64> = bytes.chunks_exact(size).map(le).collect();
    while items.last() == Some(&0) {
        items.pop();
    }
    let show = |n: u64| if n < 10_000 { n.to_string() } else { format!("{n:#x}") };
    let texts: Vec<String> = items.into_iter().map(show).collect();
    format!("u{}[{}]", 8 * size, texts.join(","))
}

/// Parses one value of type `ty` into `size` bytes.
///
/// # Errors
/// Anything that does not fit.
pub(super) fn parse(
    cursor: &mut Cursor<'_, '_>,
    ty: FieldType,
    size: usize,
    generation: Generation,
    env: &dyn Env,
) -> SyntaxResult<Vec<u8>> {
    if cursor.peek().is_some_and(|t| t.text == "raw" && t.kind == Kind::Ident)
        && cursor.peek_at(1).is_some_and(|t| t.text == "(" && t.kind == Kind::Punct)
    {
        return parse_raw(cursor, size);
    }
    let number = |cursor: &mut Cursor<'_, '_>, signed: bool| {
        let (low, high) = range(size, signed);
        integer(cursor, env, low, high).map(|n| n.to_le_bytes()[..size.min(16)].to_vec())
    };
    match ty {
        FieldType::I8 | FieldType::I16 | FieldType::I32 => number(cursor, true),
        FieldType::F32 => float_bits(cursor, env).map(|bits| bits.to_le_bytes().to_vec()),
        FieldType::Char(_) => text(cursor, size),
        FieldType::Array(item, count) => {
            array(cursor, *item, usize::from(count), size, generation, env)
        }
        FieldType::Enum(def) => member(cursor, def, size, env),
        FieldType::Dtype => parse_dtype(cursor, env).map(|code| vec![code]),
        FieldType::DtypePair => pair(cursor, env).map(|code| vec![code]),
        FieldType::Bits(def) => {
            if !cursor.is("{") {
                return number(cursor, false);
            }
            cursor.expect("{")?;
            let mut value = 0;
            while !cursor.eat("}") {
                let name = cursor.ident("a bit group")?;
                let group = def.fields.iter().find(|g| g.name == name.text).ok_or_else(|| {
                    let names: Vec<&str> = def.fields.iter().map(|g| g.name).collect();
                    SyntaxError::new(name.span, format!("{} has no `{}`", def.name, name.text))
                        .help(format!("it has: {}", names.join(", ")))
                })?;
                cursor.expect("=")?;
                let high = (1i128 << group.width) - 1;
                value = group.with(value, integer(cursor, env, 0, high)? as u64);
                if !cursor.is("}") {
                    cursor.expect(",")?;
                }
            }
            Ok(value.to_le_bytes()[..size.min(8)].to_vec())
        }
        FieldType::Reg => match register(cursor, env)? {
            Some(number) => Ok(vec![number]),
            None => number(cursor, false),
        },
        FieldType::MoveImmediate | FieldType::ShapeData => parse_blob(cursor, size, 4, env),
        FieldType::Mem2dData => parse_blob(cursor, size, 1, env),
        FieldType::AluImmediate => {
            let value = expression(cursor, env)?;
            let span = cursor.previous();
            let bits = match value {
                Value::Float(x) => u64::from((x as f32).to_bits()),
                // A negative number fills the low word, as INT32 operands have it.
                Value::Int(n) if (-(1 << 31)..0).contains(&n) => u64::from(n as i32 as u32),
                Value::Int(n) if (-(1 << 63)..1 << 64).contains(&n) => n as u64,
                Value::Int(_) => return Err(SyntaxError::new(span, "does not fit 64 bits")),
            };
            Ok(bits.to_le_bytes().to_vec())
        }
        FieldType::Opaque | FieldType::Reserved | FieldType::CustomArg | FieldType::DmaDesc => {
            if cursor.peek().is_some_and(|t| t.kind == Kind::Ident)
                && cursor.peek_at(1).is_some_and(|t| t.text == "[")
            {
                return parse_blob(cursor, size, 1, env);
            }
            if size > 8 {
                return Err(cursor.wanted("raw(\"hex\") or u8[…]"));
            }
            number(cursor, false)
        }
        _ => number(cursor, false),
    }
}

fn parse_raw(cursor: &mut Cursor<'_, '_>, size: usize) -> SyntaxResult<Vec<u8>> {
    cursor.next();
    cursor.expect("(")?;
    let token = cursor.string("a string of hexadecimal digits")?;
    cursor.expect(")")?;
    let mut bytes = hex(token.text).map_err(|why| SyntaxError::new(token.span, why))?;
    if bytes.len() > size {
        let message = format!("{} bytes do not fit a field of {size}", bytes.len());
        return Err(SyntaxError::new(token.span, message));
    }
    bytes.resize(size, 0);
    Ok(bytes)
}

/// Bytes from hexadecimal digits; spaces and `_` are skipped.
///
/// # Errors
/// Other characters or an odd number of digits.
pub fn hex(text: &str) -> Result<Vec<u8>, String> {
    let mut digits = Vec::with_capacity(text.len());
    for c in text.chars().filter(|c| !matches!(c, ' ' | '_' | '\n' | '\t')) {
        digits.push(c.to_digit(16).ok_or_else(|| format!("{c:?} is no hexadecimal digit"))? as u8);
    }
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("an odd number of hexadecimal digits".to_owned());
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn text(cursor: &mut Cursor<'_, '_>, size: usize) -> SyntaxResult<Vec<u8>> {
    // A bare word serves as a name, as the profiler prints queue names.
    let token = match cursor.peek() {
        Some(t) if t.kind == Kind::Ident => {
            cursor.next();
            t
        }
        _ => cursor.string("a string")?,
    };
    let mut bytes = if token.kind == Kind::Str {
        unescape(token.text).map_err(|why| SyntaxError::new(token.span, why))?
    } else {
        token.text.as_bytes().to_vec()
    };
    if bytes.len() > size {
        let message = format!("{} bytes do not fit a field of {size}", bytes.len());
        return Err(SyntaxError::new(token.span, message));
    }
    bytes.resize(size, 0);
    Ok(bytes)
}

fn array(
    cursor: &mut Cursor<'_, '_>,
    item: FieldType,
    count: usize,
    size: usize,
    generation: Generation,
    env: &dyn Env,
) -> SyntaxResult<Vec<u8>> {
    let each = size / count.max(1);
    let mut out = Vec::with_capacity(size);
    let start = cursor.span();
    cursor.expect("[")?;
    while !cursor.eat("]") {
        if !out.is_empty() {
            cursor.expect(",")?;
        }
        out.extend(parse(cursor, item, each, generation, env)?);
        if out.len() > size {
            let message = format!("more than {count} values");
            return Err(SyntaxError::new(start.to(cursor.previous()), message));
        }
    }
    out.resize(size, 0);
    Ok(out)
}

fn member(
    cursor: &mut Cursor<'_, '_>,
    def: &EnumDef,
    size: usize,
    env: &dyn Env,
) -> SyntaxResult<Vec<u8>> {
    let mut value = None;
    let called = cursor.peek_at(1).is_some_and(|t| t.text == "(");
    if let Some(token) = cursor.peek().filter(|t| t.kind == Kind::Ident && !called) {
        // The V1 dtype list has the header names; the profiler's serve as well.
        let dtype = def.name.ends_with("DTYPE").then(|| dtype_code(token.text)).flatten();
        value = def.value_of(token.text).or(dtype.map(u32::from));
        if value.is_some() {
            cursor.next();
        } else if env.symbol(token.text).is_none() {
            return Err(no_member(def, token.text, token.span));
        }
    }
    let value = match value {
        Some(value) => i128::from(value),
        None => integer(cursor, env, 0, range(size, false).1)?,
    };
    Ok(value.to_le_bytes()[..size.min(16)].to_vec())
}

fn no_member(def: &EnumDef, name: &str, span: Span) -> SyntaxError {
    let error = SyntaxError::new(span, format!("{} has no member `{name}`", def.name));
    let names: Vec<&str> = def.values.iter().map(|v| v.1).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None if names.len() <= 12 => error.help(format!("members: {}", names.join(", "))),
        None => error,
    }
}

/// `low/high`, or one number for the whole byte.
fn pair(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<u8> {
    let start = cursor.span();
    let half = |cursor: &mut Cursor<'_, '_>| {
        // A number must not swallow the `/` that separates the halves.
        match cursor.peek() {
            Some(t) if matches!(t.kind, Kind::Int(_)) => {
                cursor.next();
                let Kind::Int(n) = t.kind else { return Ok((0, t.span)) };
                Ok((u8::try_from(n).unwrap_or(255), t.span))
            }
            _ => parse_dtype(cursor, env).map(|code| (code, start)),
        }
    };
    let low = half(cursor)?.0;
    if !cursor.eat("/") {
        return Ok(low);
    }
    let high = half(cursor)?.0;
    if low > 15 || high > 15 {
        let span = start.to(cursor.previous());
        return Err(SyntaxError::new(span, "a dtype pair holds codes of 4 bits only"));
    }
    Ok(low | high << 4)
}

fn parse_blob(
    cursor: &mut Cursor<'_, '_>,
    size: usize,
    default: usize,
    env: &dyn Env,
) -> SyntaxResult<Vec<u8>> {
    let mut each = default;
    let mut floats = false;
    if let Some(token) = cursor.peek().filter(|t| t.kind == Kind::Ident) {
        (each, floats) = match token.text {
            "u8" => (1, false),
            "u16" => (2, false),
            "u32" => (4, false),
            "u64" => (8, false),
            "f32" => (4, true),
            _ => {
                return Err(SyntaxError::new(
                    token.span,
                    "expected u8[…], u16[…], u32[…], u64[…] or f32[…]",
                ));
            }
        };
        cursor.next();
    }
    let start = cursor.span();
    cursor.expect("[")?;
    let mut out = Vec::with_capacity(size);
    while !cursor.eat("]") {
        if !out.is_empty() {
            cursor.expect(",")?;
        }
        if each == 1
            && let Some(number) = register(cursor, env)?
        {
            out.push(number);
        } else if floats {
            out.extend(((expression(cursor, env)?.as_f64()) as f32).to_le_bytes());
        } else {
            let (low, high) = (range(each, true).0, range(each, false).1);
            out.extend(&integer(cursor, env, low, high)?.to_le_bytes()[..each]);
        }
        if out.len() > size {
            let span = start.to(cursor.previous());
            return Err(SyntaxError::new(span, format!("more than {} values", size / each)));
        }
    }
    out.resize(size, 0);
    Ok(out)
}

/// A float operand: a number, or `bits(0x…)` for its encoding.
fn float_bits(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<u32> {
    if cursor.peek().is_some_and(|t| t.kind == Kind::Ident && t.text == "bits")
        && cursor.peek_at(1).is_some_and(|t| t.text == "(")
    {
        cursor.next();
        cursor.expect("(")?;
        let bits = integer(cursor, env, 0, u32::MAX.into())? as u32;
        cursor.expect(")")?;
        return Ok(bits);
    }
    Ok((expression(cursor, env)?.as_f64() as f32).to_bits())
}

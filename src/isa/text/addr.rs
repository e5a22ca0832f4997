//! Addresses and access patterns: `0x5600[1,0][3,1]`, `R5`, `R4:R5`, `@indirect(index,data)[n]`.

use super::expr::{Cursor, Env, integer};
use super::lex::Kind;
use super::syntax::{SyntaxError, SyntaxResult};
use super::value::{is_zero, le, raw, register, register_text};
use crate::isa::pattern::MX_MARKER;
use crate::isa::{Generation, PatternKind};

/// Marker bits of the high byte of an ADDR4 (wiki: dma/sbuf-psum-banks): the other bits of that
/// byte belong to the 29-bit address.
const SHAPE: u32 = 0x4000_0000;
const REGISTER: u32 = 0x8000_0000;
const INDIRECT: u32 = 0x2000_0000;
const MARKERS: u32 = 0xe000_0000;

/// Prints an ADDR4. Markers that the notation does not cover are part of the number.
pub(super) fn addr4_text(value: u32) -> String {
    let (base, suffix) = if value & MARKERS == SHAPE || value & MARKERS == SHAPE | REGISTER {
        (value & !SHAPE, ":shape")
    } else {
        (value, "")
    };
    if base & !0xff == REGISTER && base & 0xff < 64 {
        format!("R{}{suffix}", base & 0xff)
    } else {
        format!("{base:#x}{suffix}")
    }
}

/// Parses an ADDR4: an expression or `R5`, and `:shape`.
pub(super) fn parse_addr4(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<u32> {
    let start = cursor.span();
    let base = match register(cursor, env)? {
        Some(number) if number < 64 => REGISTER | u32::from(number),
        Some(_) => return Err(SyntaxError::new(start, "addresses come from R0 to R63")),
        None => integer(cursor, env, 0, u32::MAX.into())? as u32,
    };
    Ok(if shape_suffix(cursor)? { base | SHAPE } else { base })
}

fn shape_suffix(cursor: &mut Cursor<'_, '_>) -> SyntaxResult<bool> {
    if !cursor.eat(":") {
        return Ok(false);
    }
    if cursor.eat_word("shape") { Ok(true) } else { Err(cursor.wanted("`shape`")) }
}

/// Prints an ADDR8: `R4:R5` or the 64-bit number with its marker byte, and `:shape`.
pub(super) fn addr8_text(bytes: &[u8]) -> String {
    let value = le(bytes);
    let marker = (value >> 56) as u8;
    let suffix = if marker & 0x40 != 0 { ":shape" } else { "" };
    let base = value & !(0x40 << 56);
    let (low, high) = (bytes[0], bytes[1]);
    if base >> 16 == 0x80 << 40 && low < 64 && high < 64 {
        return format!("{}:{}{suffix}", register_text(low), register_text(high));
    }
    format!("{base:#x}{suffix}")
}

/// Parses an ADDR8.
pub(super) fn parse_addr8(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<Vec<u8>> {
    cursor.eat("@");
    let start = cursor.span();
    let mut value = match register(cursor, env)? {
        Some(low) => {
            cursor.expect(":")?;
            let high = register(cursor, env)?
                .ok_or_else(|| SyntaxError::new(start, "64-bit addresses take a pair: R4:R5"))?;
            0x80 << 56 | u64::from(high) << 8 | u64::from(low)
        }
        None => integer(cursor, env, 0, u64::MAX.into())? as u64,
    };
    if shape_suffix(cursor)? {
        value |= 0x40 << 56;
    }
    Ok(value.to_le_bytes().to_vec())
}

/// Prints a pattern without its dtype. `None` if it is all zero.
pub(super) fn pattern_text(
    kind: PatternKind,
    bytes: &[u8],
    generation: Generation,
) -> Option<String> {
    if is_zero(bytes) {
        return None;
    }
    let address = le(&bytes[..4]) as u32;
    let indirect = address & 0x6000_0000 == INDIRECT;
    match kind {
        PatternKind::Mem(_) if indirect && is_zero(&bytes[10..]) => {
            Some(format!("{}[{}]", indirect_text(bytes), le(&bytes[8..10])))
        }
        PatternKind::Mx if indirect && bytes[14] == 0 => Some(format!(
            "{}[{}]mx({},{})",
            indirect_text(bytes),
            le(&bytes[12..14]),
            addr4_text(le(&bytes[8..12]) as u32),
            bytes[15]
        )),
        PatternKind::Mx if is_zero(&bytes[12..]) => Some(format!(
            "{}[{}][{}]mx({},{})",
            addr4_text(address),
            bytes[10] as i8,
            le(&bytes[8..10]),
            addr4_text(le(&bytes[4..8]) as u32),
            bytes[11]
        )),
        PatternKind::Mx => Some(raw(bytes)),
        PatternKind::Mem(3 | 4) if mx_v2(generation, address) && is_zero(&bytes[16..]) => {
            Some(mx_v2_text(bytes))
        }
        PatternKind::Data4d => Some(format!("{}{}", address as i32, walk_text(bytes, 4))),
        _ => Some(format!("{}{}", addr4_text(address), walk_text(bytes, kind.dims()))),
    }
}

/// Whether a v5 pattern is the MX form.
fn mx_v2(generation: Generation, address: u32) -> bool {
    generation == Generation::V5 && address & MX_MARKER != 0
}

fn indirect_text(bytes: &[u8]) -> String {
    let index = le(&bytes[..4]) as u32 & !INDIRECT;
    format!("indirect({},{})", addr4_text(index), addr4_text(le(&bytes[4..8]) as u32))
}

fn mx_v2_text(bytes: &[u8]) -> String {
    format!(
        "mx2({},{},{},{},{},{},{},{})",
        addr4_text(le(&bytes[..4]) as u32 & !MX_MARKER),
        addr4_text(le(&bytes[4..8]) as u32),
        bytes[8],
        bytes[9],
        le(&bytes[10..12]) as i16,
        le(&bytes[12..14]) as i16,
        bytes[14],
        bytes[15]
    )
}

/// `[steps][counts]`, or nothing if all are zero.
fn walk_text(bytes: &[u8], dims: usize) -> String {
    let (steps, counts) = bytes[4..4 + 4 * dims].split_at(2 * dims);
    if is_zero(steps) && is_zero(counts) {
        return String::new();
    }
    let list = |bytes: &[u8], signed: bool| -> String {
        let items: Vec<String> = bytes
            .chunks_exact(2)
            .map(|b| if signed { (le(b) as i16).to_string() } else { le(b).to_string() })
            .collect();
        format!("[{}]", items.join(","))
    };
    list(steps, true) + &list(counts, false)
}

/// Parses a pattern (the dtype and `@` are already read).
pub(super) fn parse_pattern(
    cursor: &mut Cursor<'_, '_>,
    kind: PatternKind,
    generation: Generation,
    env: &dyn Env,
) -> SyntaxResult<Vec<u8>> {
    let size = kind.size();
    let start = cursor.span();
    let word = cursor.peek().filter(|t| t.kind == Kind::Ident).map(|t| t.text);
    let called = cursor.peek_at(1).is_some_and(|t| t.text == "(");
    let mut bytes = vec![0; size];
    match word {
        Some("indirect") if called => {
            if !matches!(kind, PatternKind::Mem(_) | PatternKind::Mx) {
                return Err(SyntaxError::new(start, "this operand cannot be indirect"));
            }
            cursor.next();
            cursor.expect("(")?;
            let index = parse_addr4(cursor, env)? | INDIRECT;
            cursor.expect(",")?;
            let data = parse_addr4(cursor, env)?;
            cursor.expect(")")?;
            bytes[..4].copy_from_slice(&index.to_le_bytes());
            bytes[4..8].copy_from_slice(&data.to_le_bytes());
            if kind == PatternKind::Mx {
                let count = bracketed(cursor, env, 0, 0xffff)?;
                bytes[12..14].copy_from_slice(&(count as u16).to_le_bytes());
                let (scale, partition) = mx_scale(cursor, env)?;
                bytes[8..12].copy_from_slice(&scale.to_le_bytes());
                bytes[15] = partition;
            } else {
                let count = bracketed(cursor, env, 0, 0xffff)?;
                bytes[8..10].copy_from_slice(&(count as u16).to_le_bytes());
            }
            return Ok(bytes);
        }
        Some("mx2") if called => {
            if generation != Generation::V5 || !matches!(kind, PatternKind::Mem(3 | 4)) {
                return Err(SyntaxError::new(start, "this operand has no MX form"));
            }
            mx_v2_fields(cursor, env, &mut bytes)?;
            return Ok(bytes);
        }
        _ => {}
    }
    if kind == PatternKind::Mx {
        let address = parse_addr4(cursor, env)?;
        let step = bracketed(cursor, env, -128, 127)?;
        let count = bracketed(cursor, env, 0, 0xffff)?;
        let (scale, partition) = mx_scale(cursor, env)?;
        bytes[..4].copy_from_slice(&address.to_le_bytes());
        bytes[4..8].copy_from_slice(&scale.to_le_bytes());
        bytes[8..10].copy_from_slice(&(count as u16).to_le_bytes());
        bytes[10] = step as i8 as u8;
        bytes[11] = partition;
        return Ok(bytes);
    }
    let address = if kind == PatternKind::Data4d {
        integer(cursor, env, i32::MIN.into(), u32::MAX.into())? as u32
    } else {
        parse_addr4(cursor, env)?
    };
    bytes[..4].copy_from_slice(&address.to_le_bytes());
    let dims = kind.dims();
    if cursor.is("[") {
        let steps = list(cursor, env, dims, i16::MIN.into(), i16::MAX.into())?;
        let counts = list(cursor, env, dims, 0, u16::MAX.into())?;
        if steps.len() != counts.len() {
            let span = start.to(cursor.previous());
            let message = format!("{} steps but {} counts", steps.len(), counts.len());
            return Err(SyntaxError::new(span, message));
        }
        for d in 0..dims {
            // Dimensions left out are there once.
            let step = steps.get(d).copied().unwrap_or(0) as i16;
            let count = counts.get(d).copied().unwrap_or(1) as u16;
            bytes[4 + 2 * d..6 + 2 * d].copy_from_slice(&step.to_le_bytes());
            let at = 4 + 2 * dims + 2 * d;
            bytes[at..at + 2].copy_from_slice(&count.to_le_bytes());
        }
    }
    Ok(bytes)
}

fn bracketed(
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
    low: i128,
    high: i128,
) -> SyntaxResult<i128> {
    cursor.expect("[")?;
    let value = integer(cursor, env, low, high)?;
    cursor.expect("]")?;
    Ok(value)
}

/// `mx(scale address, scale partition)`.
fn mx_scale(cursor: &mut Cursor<'_, '_>, env: &dyn Env) -> SyntaxResult<(u32, u8)> {
    if !cursor.eat_word("mx") {
        return Err(cursor.wanted("`mx(scale address, scale partition)`"));
    }
    cursor.expect("(")?;
    let address = parse_addr4(cursor, env)?;
    cursor.expect(",")?;
    let partition = integer(cursor, env, 0, 255)? as u8;
    cursor.expect(")")?;
    Ok((address, partition))
}

fn mx_v2_fields(cursor: &mut Cursor<'_, '_>, env: &dyn Env, bytes: &mut [u8]) -> SyntaxResult<()> {
    cursor.next();
    cursor.expect("(")?;
    let data = parse_addr4(cursor, env)? | MX_MARKER;
    bytes[..4].copy_from_slice(&data.to_le_bytes());
    cursor.expect(",")?;
    bytes[4..8].copy_from_slice(&parse_addr4(cursor, env)?.to_le_bytes());
    let number = |cursor: &mut Cursor<'_, '_>, low, high| {
        cursor.expect(",")?;
        integer(cursor, env, low, high)
    };
    bytes[8] = number(cursor, 0, 255)? as u8;
    bytes[9] = number(cursor, 0, 255)? as u8;
    for at in [10, 12] {
        let step = number(cursor, i16::MIN.into(), i16::MAX.into())? as i16;
        bytes[at..at + 2].copy_from_slice(&step.to_le_bytes());
    }
    bytes[14] = number(cursor, 0, 255)? as u8;
    bytes[15] = number(cursor, 0, 255)? as u8;
    cursor.expect(")")
}

/// `[a, b, …]` with at most `most` numbers and at least one.
pub fn list(
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
    most: usize,
    low: i128,
    high: i128,
) -> SyntaxResult<Vec<i128>> {
    let start = cursor.span();
    cursor.expect("[")?;
    let mut out = vec![integer(cursor, env, low, high)?];
    while !cursor.eat("]") {
        cursor.expect(",")?;
        out.push(integer(cursor, env, low, high)?);
        if out.len() > most {
            let span = start.to(cursor.previous());
            return Err(SyntaxError::new(span, format!("more than {most} dimensions")));
        }
    }
    Ok(out)
}

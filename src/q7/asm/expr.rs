//! Expressions of the assembler: sums of numbers and symbols.

use crate::error::{Error, ErrorClass, Result};

/// Which half of a 32-bit value an operand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// All of it.
    Whole,
    /// Bits 31..16 (`@h`).
    High,
    /// Bits 15..0 (`@l`).
    Low,
}

impl Half {
    /// The half of `value`.
    pub fn of(self, value: i64) -> i64 {
        match self {
            Half::Whole => value,
            Half::High => value >> 16 & 0xffff,
            Half::Low => value & 0xffff,
        }
    }
}

/// A sum of a constant and signed symbols. `.` is the symbol of the current place.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Expr {
    /// Constant part.
    pub constant: i64,
    /// Symbols with their signs.
    pub symbols: Vec<(String, bool)>,
}

impl Expr {
    /// A number.
    pub fn number(constant: i64) -> Expr {
        Expr { constant, symbols: Vec::new() }
    }

    /// The symbol, if the expression is one symbol and nothing else.
    pub fn plain_symbol(&self) -> Option<&str> {
        match self.symbols.as_slice() {
            [(name, true)] if self.constant == 0 => Some(name),
            _ => None,
        }
    }

    /// Parses `term (+|- term)*`.
    ///
    /// # Errors
    /// `ProgramError` if it is anything else.
    pub fn parse(text: &str) -> Result<Expr> {
        let bad = |what: &str| Error::new(ErrorClass::ProgramError, format!("`{text}`: {what}"));
        let mut out = Expr::default();
        let mut rest = text.trim();
        let mut positive = true;
        let mut first = true;
        while first || !rest.is_empty() {
            let mut signs = 0;
            while let Some(sign @ ('+' | '-')) = rest.chars().next() {
                positive ^= sign == '-';
                rest = rest[1..].trim_start();
                signs += 1;
            }
            if !first && signs == 0 {
                return Err(bad("expected + or -"));
            }
            let end = rest.find(['+', '-', ' ', '\t']).unwrap_or(rest.len());
            let term = &rest[..end];
            rest = rest[end..].trim_start();
            if term.is_empty() {
                return Err(bad("expected a number or a symbol"));
            }
            if let Some(value) = number(term) {
                out.constant =
                    out.constant.wrapping_add(if positive { value } else { value.wrapping_neg() });
            } else if is_symbol(term) {
                out.symbols.push((term.to_owned(), positive));
            } else {
                return Err(bad("expected a number or a symbol"));
            }
            (positive, first) = (true, false);
        }
        Ok(out)
    }
}

/// A decimal, hexadecimal, binary or character constant.
fn number(text: &str) -> Option<i64> {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|v| v as i64);
    }
    if let Some(bits) = text.strip_prefix("0b")
        && let Ok(value) = u64::from_str_radix(bits, 2)
    {
        return Some(value as i64);
    }
    if let Some(quoted) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        let mut chars = quoted.chars();
        return chars.next().filter(|_| chars.as_str().is_empty()).map(|c| i64::from(c as u32));
    }
    text.parse::<i64>().ok()
}

/// Whether `text` may name a symbol (or a numbered local label, `1f`).
pub fn is_symbol(text: &str) -> bool {
    let local = text
        .strip_suffix(['f', 'b'])
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    let mut chars = text.chars();
    local
        || chars.next().is_some_and(|c| c.is_ascii_alphabetic() || "_.$".contains(c))
            && chars.all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c))
}

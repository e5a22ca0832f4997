//! Tokens of the assembly language, one source line at a time.
//!
//! The lexer never fails on a whole file: a bad character spoils its own line only, so that the
//! assembler can report several mistakes at once.

use super::syntax::{Span, SyntaxError, SyntaxResult};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A name: letters, digits and `_`, not starting with a digit.
    Ident,
    /// `.name`.
    Directive,
    /// A decimal, `0x` or `0b` integer.
    Int(u64),
    /// A number with a point or an exponent.
    Float(f64),
    /// A string; the token's text is what stands between the quotes, escapes unresolved.
    Str,
    /// One of the punctuation marks of [`PUNCTUATION`].
    Punct,
}

/// One token with its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token<'a> {
    /// The token as written (without quotes for strings, without the dot for directives).
    pub text: &'a str,
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub span: Span,
    /// White space stands before it. Notation such as `$S[1]++@complete` must not be split.
    pub spaced: bool,
}

/// Every punctuation mark, longest first so that the first match is the right one.
pub const PUNCTUATION: &[&str] = &[
    "->", "++", "--", "+=", "-=", "<=", ">=", "==", "<<", ">>", "[", "]", "(", ")", "{", "}", ",",
    "=", "+", "-", "*", "/", "%", "@", "$", ">", "<", ":", ";", "|", "&", "^", "~",
];

/// Splits one physical line. The second result is true if a trailing `\` continues the line.
///
/// `base` is the offset of `line` in its file.
///
/// # Errors
/// An unknown character, an unclosed string, a number that does not fit 64 bits.
pub fn lex_line<'a>(line: &'a str, file: u32, base: usize) -> SyntaxResult<(Vec<Token<'a>>, bool)> {
    let bytes = line.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut spaced = true;
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let (kind, text) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                spaced = true;
                continue;
            }
            b'#' => break,
            b'\\' if line[at + 1..].trim().is_empty() => return Ok((tokens, true)),
            b'"' => {
                at = string_end(bytes, at + 1)
                    .ok_or_else(|| error(file, base, start, line.len(), "unclosed string"))?;
                (Kind::Str, &line[start + 1..at - 1])
            }
            b'0'..=b'9' => {
                at = number_end(bytes, at);
                let text = &line[start..at];
                (number(text).map_err(|why| error(file, base, start, at, why))?, text)
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                at = word_end(bytes, at);
                (Kind::Ident, &line[start..at])
            }
            b'.' if bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphabetic()) => {
                at = word_end(bytes, at + 1);
                (Kind::Directive, &line[start + 1..at])
            }
            _ => match PUNCTUATION.iter().find(|mark| line[at..].starts_with(**mark)) {
                Some(mark) => {
                    at += mark.len();
                    (Kind::Punct, *mark)
                }
                None => {
                    let c = line[at..].chars().next().unwrap_or('?');
                    let message = format!("unexpected character {c:?}");
                    return Err(error(file, base, start, start + c.len_utf8(), message));
                }
            },
        };
        tokens.push(Token { text, kind, span: Span::new(file, base + start, base + at), spaced });
        spaced = false;
    }
    Ok((tokens, false))
}

fn error(file: u32, base: usize, from: usize, to: usize, why: impl Into<String>) -> SyntaxError {
    SyntaxError::new(Span::new(file, base + from, base + to), why)
}

fn word_end(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        at += 1;
    }
    at
}

fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The end of a number: digits and letters, a point followed by a digit, a sign after an exponent.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    let hexadecimal = bytes[start] == b'0' && matches!(bytes.get(start + 1), Some(b'x' | b'X'));
    while let Some(&byte) = bytes.get(at) {
        let exponent = !hexadecimal && at > start && matches!(bytes[at - 1], b'e' | b'E');
        let fraction = byte == b'.' && bytes.get(at + 1).is_some_and(|b| b.is_ascii_digit());
        let inside = byte.is_ascii_alphanumeric()
            || byte == b'_'
            || (!hexadecimal && fraction)
            || (exponent
                && matches!(byte, b'+' | b'-')
                && bytes.get(at + 1).is_some_and(|b| b.is_ascii_digit()));
        if !inside {
            break;
        }
        at += 1;
    }
    at
}

fn number(text: &str) -> Result<Kind, &'static str> {
    let clean: String;
    let digits = if text.contains('_') {
        clean = text.replace('_', "");
        &clean
    } else {
        text
    };
    let radix = match digits.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0b" | "0B") => 2,
        _ => 10,
    };
    if radix != 10 {
        return u64::from_str_radix(&digits[2..], radix)
            .map(Kind::Int)
            .map_err(|_| "not a number of at most 64 bits");
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return digits.parse().map(Kind::Int).map_err(|_| "integer does not fit 64 bits");
    }
    digits.parse().map(Kind::Float).map_err(|_| "malformed number")
}

/// True if `name` can be declared: a name token that is no register and no number.
pub fn is_name(name: &str) -> bool {
    let word = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let register = name
        .strip_prefix('R')
        .is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    word && !register && !matches!(name, "PCLO" | "PCHI" | "inf" | "nan")
}

/// Resolves the escapes `\n`, `\t`, `\\`, `\"` and `\xNN` of a string token's text into bytes.
///
/// # Errors
/// An unknown or incomplete escape, as a message.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let escaped = match bytes.get(at + 1) {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'\\') => b'\\',
            Some(b'"') => b'"',
            Some(b'x') => {
                let hex = text.get(at + 2..at + 4).unwrap_or("");
                at += 2;
                u8::from_str_radix(hex, 16).map_err(|_| format!("bad escape `\\x{hex}`"))?
            }
            _ => return Err("bad escape; known are \\n \\t \\\\ \\\" \\xNN".to_owned()),
        };
        out.push(escaped);
        at += 2;
    }
    Ok(out)
}

/// Writes bytes as the inside of a string token; the inverse of [`unescape`].
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<&str> {
        lex_line(line, 0, 0).unwrap().0.iter().map(|t| t.text).collect()
    }

    #[test]
    fn splits_profiler_notation() {
        assert_eq!(
            texts("MATMUL $S[10]>=0x10 $S[22]++@complete src=fp16@0x5600[1,-2] # note"),
            [
                "MATMUL", "$", "S", "[", "10", "]", ">=", "0x10", "$", "S", "[", "22", "]", "++",
                "@", "complete", "src", "=", "fp16", "@", "0x5600", "[", "1", ",", "-", "2", "]"
            ]
        );
    }

    #[test]
    fn numbers() {
        let kind = |s| lex_line(s, 0, 0).unwrap().0[0].kind;
        assert_eq!(kind("0x1_F"), Kind::Int(31));
        assert_eq!(kind("1e-3"), Kind::Float(1e-3));
        assert_eq!(kind("1.5"), Kind::Float(1.5));
        assert_eq!(kind("0x1e"), Kind::Int(30));
        assert!(lex_line("12q", 0, 0).is_err());
        assert!(lex_line("99999999999999999999", 0, 0).is_err());
        assert!(lex_line("0xé", 0, 0).is_err());
    }

    #[test]
    fn continued_lines_and_strings() {
        assert!(lex_line("NOP \\", 0, 0).unwrap().1);
        assert_eq!(texts(r#"a "x # \" y" b"#), ["a", r#"x # \" y"#, "b"]);
        assert!(lex_line("\"abc", 0, 0).is_err());
        assert_eq!(unescape(r"a\x00\n").unwrap(), b"a\0\n");
        assert_eq!(unescape(&escape(b"\x00q\"\\\xff")).unwrap(), b"\x00q\"\\\xff");
        assert!(unescape(r"\xé").is_err());
    }
}

//! Splitting a source file into statements.

use crate::error::{Error, ErrorClass, Result};

use super::expr::Expr;
use super::insn::{self, InsnText};

/// One statement with its line.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Line number from 1.
    pub line: u32,
    /// Text, for the listing.
    pub text: String,
    /// What it is.
    pub item: Item,
}

/// Kinds of statements.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Label(String),
    Section(String),
    Global(Vec<String>),
    Weak(Vec<String>),
    Set(String, Expr),
    Align(u32),
    Data(Data),
    Literal(String, Expr),
    /// Opcode, spec, function.
    Kernel(u8, u8, Expr),
    Insn(InsnText),
}

/// Data of a directive.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Bytes(Vec<u8>),
    /// Width in bytes and values.
    Numbers(usize, Vec<Expr>),
    Space(u32),
}

/// Key of a label in the symbol map; numbered local labels are told apart by their statement.
pub(super) fn label_key(name: &str, statement: usize) -> String {
    if name.bytes().all(|b| b.is_ascii_digit()) {
        format!("{name}\u{1}{statement:08}")
    } else {
        name.to_owned()
    }
}

/// Digits and direction of a reference to a numbered local label (`1f`, `2b`).
pub(super) fn local_key(name: &str, _statement: usize) -> Option<(String, bool)> {
    let digits = name.strip_suffix(['f', 'b'])?;
    let numbered = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numbered.then(|| (digits.to_owned(), name.ends_with('f')))
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::ProgramError, text)
}

/// Parses the whole file.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Statement>> {
    let mut out = Vec::new();
    let mut in_comment = false;
    for (number, raw) in text.lines().enumerate() {
        let line = strip_comments(raw, &mut in_comment);
        let place = |error: Error| {
            error.or_at(&crate::error::Location {
                source: Some(format!("{file}:{}", number + 1)),
                stream: Some("Q7".to_owned()),
                ..Default::default()
            })
        };
        parse_line(line.trim(), number as u32 + 1, &mut out).map_err(place)?;
    }
    Ok(out)
}

fn strip_comments(line: &str, in_comment: &mut bool) -> String {
    let mut out = String::new();
    let mut rest = line;
    let mut quoted = false;
    loop {
        if *in_comment {
            match rest.find("*/") {
                Some(at) => {
                    rest = &rest[at + 2..];
                    *in_comment = false;
                }
                None => return out,
            }
            continue;
        }
        let mut chars = rest.char_indices();
        let Some((_, first)) = chars.next() else { return out };
        if !quoted && (first == '#' || rest.starts_with("//")) {
            return out;
        }
        if !quoted && rest.starts_with("/*") {
            *in_comment = true;
            rest = &rest[2..];
            continue;
        }
        if first == '"' && !out.ends_with('\\') {
            quoted = !quoted;
        }
        out.push(first);
        rest = chars.as_str();
    }
}

fn parse_line(mut line: &str, number: u32, out: &mut Vec<Statement>) -> Result<()> {
    // Labels, several per line if need be.
    while let Some(colon) = line.find(':') {
        let name = line[..colon].trim();
        let digits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        if !(digits || super::expr::is_symbol(name)) {
            break;
        }
        out.push(Statement {
            line: number,
            text: format!("{name}:"),
            item: Item::Label(name.to_owned()),
        });
        line = line[colon + 1..].trim();
    }
    if line.is_empty() {
        return Ok(());
    }
    let push = |out: &mut Vec<Statement>, item: Item| {
        out.push(Statement { line: number, text: line.to_owned(), item });
    };
    if !line.starts_with('.') {
        push(out, Item::Insn(insn::parse(line)?));
        return Ok(());
    }
    let (name, rest) = match line.find(char::is_whitespace) {
        Some(at) => (&line[..at], line[at..].trim()),
        None => (line, ""),
    };
    if let Some(item) = directive(name, rest)? {
        push(out, item);
    }
    Ok(())
}

fn list(rest: &str) -> Result<Vec<Expr>> {
    rest.split(',').map(|part| Expr::parse(part.trim())).collect()
}

fn names(rest: &str) -> Result<Vec<String>> {
    rest.split(',')
        .map(|part| {
            let name = part.trim();
            if super::expr::is_symbol(name) {
                Ok(name.to_owned())
            } else {
                Err(bad(format!("`{name}` is not a symbol")))
            }
        })
        .collect()
}

fn small(expr: &Expr, max: i64) -> Result<i64> {
    if expr.symbols.is_empty() && (0..=max).contains(&expr.constant) {
        Ok(expr.constant)
    } else {
        Err(bad(format!("expected a number from 0 to {max}")))
    }
}

fn directive(name: &str, rest: &str) -> Result<Option<Item>> {
    Ok(Some(match name {
        ".text" | ".data" | ".bss" | ".rodata" => Item::Section(name.to_owned()),
        ".section" => {
            let section = rest.split(',').next().unwrap_or("").trim().trim_matches('"');
            if section.is_empty() {
                return Err(bad("`.section` needs a name"));
            }
            // The loader's string has a dot, the file's section has none.
            let dotted = section.strip_prefix('.').filter(|s| *s == super::KERNEL_TABLE);
            Item::Section(dotted.unwrap_or(section).to_owned())
        }
        ".global" | ".globl" => Item::Global(names(rest)?),
        ".weak" => Item::Weak(names(rest)?),
        ".set" | ".equ" => {
            let (symbol, value) =
                rest.split_once(',').ok_or_else(|| bad("`.set` needs a name and a value"))?;
            if !super::expr::is_symbol(symbol.trim()) {
                return Err(bad(format!("`{symbol}` is not a symbol")));
            }
            Item::Set(symbol.trim().to_owned(), Expr::parse(value.trim())?)
        }
        ".align" | ".balign" | ".p2align" => {
            let value = small(&Expr::parse(rest.split(',').next().unwrap_or(""))?, 4096)?;
            let align = if name == ".p2align" { 1u64 << value.min(32) } else { value as u64 };
            if !align.is_power_of_two() || align > 4096 {
                return Err(bad("alignment must be a power of two up to 4096"));
            }
            Item::Align(align as u32)
        }
        ".word" | ".long" | ".int" | ".4byte" => Item::Data(Data::Numbers(4, list(rest)?)),
        ".short" | ".half" | ".hword" | ".2byte" => Item::Data(Data::Numbers(2, list(rest)?)),
        ".byte" => Item::Data(Data::Numbers(1, list(rest)?)),
        ".space" | ".zero" | ".skip" => {
            Item::Data(Data::Space(small(&Expr::parse(rest)?, super::MAX_SECTION as i64)? as u32))
        }
        ".ascii" | ".asciz" | ".string" => {
            let mut bytes = string(rest)?;
            if name != ".ascii" {
                bytes.push(0);
            }
            Item::Data(Data::Bytes(bytes))
        }
        ".literal" => {
            let (symbol, value) =
                rest.split_once(',').ok_or_else(|| bad("`.literal` needs a name and a value"))?;
            Item::Literal(symbol.trim().to_owned(), Expr::parse(value.trim())?)
        }
        ".kernel" => {
            let parts: Vec<_> = rest.split(',').map(str::trim).collect();
            let [opcode, spec, function] = parts.as_slice() else {
                return Err(bad("`.kernel` needs opcode, spec and function"));
            };
            let opcode = small(&Expr::parse(opcode)?, 255)? as u8;
            if opcode == 0 {
                return Err(bad("a kernel's opcode must not be 0"));
            }
            Item::Kernel(opcode, small(&Expr::parse(spec)?, 255)? as u8, Expr::parse(function)?)
        }
        ".local" | ".type" | ".size" | ".literal_position" | ".file" | ".ident" | ".extern" => {
            return Ok(None);
        }
        _ => return Err(bad(format!("unknown directive `{name}`"))),
    }))
}

fn string(text: &str) -> Result<Vec<u8>> {
    let inner = text
        .strip_prefix('"')
        .and_then(|t| t.strip_suffix('"'))
        .ok_or_else(|| bad("expected a quoted string"))?;
    let mut out = Vec::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        out.push(match chars.next() {
            Some('n') => b'\n',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('\\') => b'\\',
            Some('"') => b'"',
            other => return Err(bad(format!("unknown escape {other:?}"))),
        });
    }
    Ok(out)
}

//! The 8-byte words of the V1 SP as text.

use super::expr::{Cursor, Env, NoNames, integer};
use super::inst::{LabelForm, LabelUse};
use super::lex::{Kind, Token, lex_line};
use super::syntax::{Span, SyntaxError, SyntaxResult, nearest};
use super::value::le;
use crate::isa::{SP_OPCODES, sp_opcode};

/// Prints a word as assembly text that assembles to the same bytes.
pub fn print(word: &[u8; 8]) -> String {
    let structured = || {
        let op = sp_opcode(word[0] & 0x7f)?;
        let mut out = op.name.to_owned();
        if word[0] & 0x80 != 0 {
            out.push_str(" phase=1");
        }
        for field in op.fields {
            let at = usize::from(field.offset);
            let value = le(word.get(at..at + usize::from(field.size))?);
            if value == 0 {
                continue;
            }
            if field.name == "reserved" {
                return None;
            }
            let text = if value < 10_000 { value.to_string() } else { format!("{value:#x}") };
            out.push_str(&format!(" {}={text}", field.name));
        }
        Some(out)
    };
    match structured() {
        Some(text) if assemble_line(&text).is_ok_and(|(w, _)| w == *word) => text,
        _ => {
            let hex: String = word.iter().map(|b| format!("{b:02x}")).collect();
            format!(".word8 \"{hex}\"")
        }
    }
}

/// Assembles one line without labels or names; the inverse of [`print()`].
///
/// # Errors
/// As [`assemble`].
pub fn assemble_line(text: &str) -> SyntaxResult<([u8; 8], Option<LabelUse>)> {
    let (tokens, _) = lex_line(text, 0, 0)?;
    let mut cursor = Cursor::new(&tokens, Span::new(0, 0, text.len()));
    let Some(first) = cursor.next() else { return Err(cursor.wanted("an instruction")) };
    match first.kind {
        Kind::Directive if first.text == "word8" => Ok((parse_word8(&mut cursor)?, None)),
        Kind::Ident => assemble(first, &mut cursor, &NoNames),
        _ => Err(SyntaxError::new(first.span, "expected an instruction")),
    }
}

/// The 8 bytes after `.word8`.
///
/// # Errors
/// Not a string of 16 hexadecimal digits.
pub fn parse_word8(cursor: &mut Cursor<'_, '_>) -> SyntaxResult<[u8; 8]> {
    let token = cursor.string("a string of 16 hexadecimal digits")?;
    let bytes = super::value::hex(token.text).map_err(|why| SyntaxError::new(token.span, why))?;
    let word = bytes.try_into().map_err(|bytes: Vec<u8>| {
        SyntaxError::new(token.span, format!("{} bytes, an SP word has 8", bytes.len()))
    })?;
    cursor.finish()?;
    Ok(word)
}

/// Assembles the operands after the mnemonic `name`.
///
/// # Errors
/// An unknown opcode or operand, a value that does not fit.
pub fn assemble(
    name: Token<'_>,
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
) -> SyntaxResult<([u8; 8], Option<LabelUse>)> {
    let found = SP_OPCODES.iter().find(|op| op.name.eq_ignore_ascii_case(name.text));
    let Some(op) = found else {
        let message = format!("the V1 SP has no instruction `{}`", name.text);
        let error = SyntaxError::new(name.span, message);
        return Err(match nearest(name.text, SP_OPCODES.iter().map(|op| op.name)) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error,
        });
    };
    let mut word = [0; 8];
    word[0] = op.value;
    let mut label = None;
    let mut given: Vec<&str> = Vec::new();
    cursor.eat(";");
    while !cursor.at_end() {
        let key = cursor.ident("an operand `name=value`")?;
        if given.contains(&key.text) {
            return Err(SyntaxError::new(key.span, format!("`{}` is given twice", key.text)));
        }
        given.push(key.text);
        cursor.expect("=")?;
        if key.text == "phase" {
            word[0] |= (integer(cursor, env, 0, 1)? as u8) << 7;
            cursor.eat(";");
            continue;
        }
        let field = op.fields.iter().find(|f| f.name == key.text && f.name != "reserved");
        let Some(field) = field else {
            let names: Vec<&str> =
                op.fields.iter().map(|f| f.name).filter(|n| *n != "reserved").collect();
            let message = format!("{} has no operand `{}`", op.name, key.text);
            let help = format!("operands: phase, {}", names.join(", "));
            return Err(SyntaxError::new(key.span, message).help(help));
        };
        let (at, size) = (usize::from(field.offset), usize::from(field.size));
        let target = cursor.peek().filter(|t| {
            field.name == "target" && t.kind == Kind::Ident && env.symbol(t.text).is_none()
        });
        if let Some(token) = target {
            cursor.next();
            let form = LabelForm::Index(at);
            label = Some(LabelUse { name: token.text.to_owned(), span: token.span, form });
        } else {
            let value = integer(cursor, env, 0, (1 << (8 * size)) - 1)?;
            word[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        cursor.eat(";");
    }
    Ok((word, label))
}

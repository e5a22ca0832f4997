//! One 64-byte word as text and back, driven by the struct tables.
//!
//! `NAME wait update key=value …`: the keys are the field names of the struct, fields that are zero
//! are left out, tensors carry their dtype. A word without a readable struct, and any word whose
//! text would not give the same bytes, is printed as `.word64`.

use super::addr::{addr4_text, addr8_text, pattern_text};
use super::builder::Builder;
use super::events::{self, Dialect, Events, EventsReader};
use super::expr::{Cursor, Env, NoNames};
use super::lex::{Kind, Token, lex_line};
use super::link::{dtype_of, immediate_form, printed_by_tensors};
use super::syntax::{Span, SyntaxError, SyntaxResult, nearest};
use super::value::{self, dtype_code, dtype_text, float_text, is_zero, le};
use crate::isa::{
    EventsKind, FieldDef, FieldType, Generation, Layout, OpcodeDef, StructDef, opcode,
    opcode_by_name, opcode_table, struct_in,
};

/// Length byte of every word but COMPACT_CONTROL_INST, in 4-byte units.
pub(super) const WORD_LENGTH: u8 = 16;

/// A word as assembled, and the label that must still be filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Assembled {
    /// The word.
    pub word: [u8; 64],
    /// A branch target given by name.
    pub label: Option<LabelUse>,
}

/// A label as a branch target.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelUse {
    /// Name of the label.
    pub name: String,
    /// Where it is used.
    pub span: Span,
    /// What goes into the word.
    pub form: LabelForm,
}

/// How a branch word holds its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelForm {
    /// Byte distance from the branch word itself, 32 bits zero-extended to 64, at this offset.
    RelativeBytes(usize),
    /// Byte offset from the start of the stream, 64 bits, at this offset.
    AbsoluteBytes(usize),
    /// Index of the word in its stream, 32 bits, at this offset (V1 SP).
    Index(usize),
}

/// The generation whose names and rules `layout` has.
pub fn generation_of(layout: Layout) -> Generation {
    match layout {
        Layout::V1 | Layout::V1Wide => Generation::V1,
        Layout::V2 => Generation::V2,
        Layout::V3 => Generation::V3,
        Layout::V4 => Generation::V4,
        Layout::V4Plus => Generation::V4Plus,
        Layout::V5 => Generation::V5,
    }
}

/// Prints a word as assembly text that assembles to the same bytes.
pub fn print(layout: Layout, word: &[u8; 64]) -> String {
    match print_structured(layout, word) {
        Some(text) if assemble_line(layout, &text).is_ok_and(|a| a.word == *word) => text,
        _ => word64(word),
    }
}

/// Prints a word without the check that it assembles to the same bytes; for traces and messages.
pub fn print_unchecked(layout: Layout, word: &[u8; 64]) -> String {
    print_structured(layout, word).unwrap_or_else(|| word64(word))
}

/// `.word64` and the bytes in hexadecimal.
pub fn word64(word: &[u8; 64]) -> String {
    let mut out = ".word64 \"".to_owned();
    for byte in word {
        out.push_str(&format!("{byte:02x}"));
    }
    out.push('"');
    out
}

/// Assembles one line without labels or names; the inverse of [`print()`].
///
/// # Errors
/// As [`assemble`].
pub fn assemble_line(layout: Layout, text: &str) -> SyntaxResult<Assembled> {
    let (tokens, _) = lex_line(text, 0, 0)?;
    let mut cursor = Cursor::new(&tokens, Span::new(0, 0, text.len()));
    let Some(first) = cursor.next() else { return Err(cursor.wanted("an instruction")) };
    match first.kind {
        Kind::Directive if first.text == "word64" => {
            let word = parse_word64(&mut cursor)?;
            Ok(Assembled { word, label: None })
        }
        Kind::Ident => assemble(layout, first, &mut cursor, &NoNames),
        _ => Err(SyntaxError::new(first.span, "expected an instruction")),
    }
}

/// The 64 bytes after `.word64`.
///
/// # Errors
/// Not a string of 128 hexadecimal digits.
pub fn parse_word64(cursor: &mut Cursor<'_, '_>) -> SyntaxResult<[u8; 64]> {
    let token = cursor.string("a string of 128 hexadecimal digits")?;
    let bytes = value::hex(token.text).map_err(|why| SyntaxError::new(token.span, why))?;
    let word = bytes.try_into().map_err(|bytes: Vec<u8>| {
        SyntaxError::new(token.span, format!("{} bytes, a word has 64", bytes.len()))
    })?;
    cursor.finish()?;
    Ok(word)
}

/// Where an events block lies and which modes it has.
pub(super) fn events_of(def: &StructDef) -> Option<(Dialect, std::ops::Range<usize>)> {
    match def.events {
        EventsKind::None => None,
        EventsKind::V1 => Some((Dialect::V1, 4..8)),
        EventsKind::V2 => Some((Dialect::Shared, 4..12)),
    }
}

/// The second events block of EVENT_SEMAPHORE.
pub(super) fn extended_events(def: &StructDef) -> Option<std::ops::Range<usize>> {
    let start = usize::from(def.field("ext_wait_mode")?.offset);
    Some(start..start + 12)
}

fn get_events(bytes: &[u8]) -> Events {
    let value = if bytes.len() >= 8 { le(&bytes[4..8]) as u32 } else { 0 };
    Events {
        wait_mode: bytes[0],
        wait_idx: bytes[1],
        update_mode: bytes[2],
        update_idx: bytes[3],
        wait_value: value,
        update_value: if bytes.len() >= 12 { le(&bytes[8..12]) as u32 } else { value },
    }
}

pub(super) fn put_events(events: &Events, bytes: &mut [u8]) {
    bytes[..4].copy_from_slice(&[
        events.wait_mode,
        events.wait_idx,
        events.update_mode,
        events.update_idx,
    ]);
    if bytes.len() >= 8 {
        bytes[4..8].copy_from_slice(&events.wait_value.to_le_bytes());
    }
    if bytes.len() >= 12 {
        bytes[8..12].copy_from_slice(&events.update_value.to_le_bytes());
    }
}

pub(super) fn range_of(field: &FieldDef) -> std::ops::Range<usize> {
    usize::from(field.offset)..usize::from(field.offset) + usize::from(field.size)
}

pub(super) fn has_length_byte(def: &StructDef) -> bool {
    def.field("inst_word_len").is_some_and(|f| f.offset == 1 && !f.is_reserved())
}

fn print_structured(layout: Layout, word: &[u8; 64]) -> Option<String> {
    let generation = generation_of(layout);
    let op = opcode(generation, word[0]).ok()?;
    let def = struct_in(layout, op, word[12]).ok()?;
    let mut out = op.name.to_owned();
    let push = |out: &mut String, text: &str| {
        out.push(' ');
        out.push_str(text);
    };
    let block = events_of(def);
    if let Some((dialect, range)) = &block {
        let events = get_events(&word[range.clone()]);
        for text in events::print(&events, *dialect, generation, "") {
            push(&mut out, &text);
        }
    }
    let extended = extended_events(def);
    if let Some(range) = &extended {
        let events = get_events(&word[range.clone()]);
        let parts = events::print(&events, Dialect::Extended, generation, "ext_");
        let (notation, raw): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|p| p.starts_with('$') || p == "unordered");
        if !notation.is_empty() {
            push(&mut out, &format!("ext({})", notation.join(" ")));
        }
        for text in raw {
            // The values' names carry no prefix in the struct.
            push(
                &mut out,
                text.strip_prefix("ext_sem_").map_or(text.clone(), |t| format!("sem_{t}")).as_str(),
            );
        }
    }
    for field in def.fields {
        let range = range_of(field);
        let inside = |block: &std::ops::Range<usize>| block.contains(&range.start);
        if range.start == 0
            || block.as_ref().is_some_and(|(_, b)| inside(b))
            || extended.as_ref().is_some_and(inside)
        {
            continue;
        }
        let bytes = word.get(range)?;
        if field.offset == 1 && has_length_byte(def) {
            if bytes[0] != WORD_LENGTH {
                push(&mut out, &format!("{}={}", field.name, bytes[0]));
            }
            continue;
        }
        if let Some(text) = print_field(def, field, bytes, word, layout) {
            push(&mut out, &format!("{}={text}", field.name));
        }
    }
    Some(out)
}

/// The text after `name=`; `None` leaves the field out.
fn print_field(
    def: &StructDef,
    field: &FieldDef,
    bytes: &[u8],
    word: &[u8; 64],
    layout: Layout,
) -> Option<String> {
    let generation = generation_of(layout);
    match field.ty_in(layout) {
        FieldType::Pattern(kind) => {
            let pattern = pattern_text(kind, bytes, generation);
            let dtype = tensor_dtype(def, field.name, word);
            match (dtype, pattern) {
                (Some(dtype), pattern) => {
                    Some(format!("{dtype}@{}", pattern.unwrap_or_else(|| "0x0".to_owned())))
                }
                (None, pattern) => pattern,
            }
        }
        FieldType::Dtype | FieldType::DtypePair | FieldType::Enum(_)
            if dtype_said_by_tensors(def, field, bytes[0]) =>
        {
            None
        }
        _ if is_zero(bytes) => None,
        FieldType::Addr4 => Some(addr4_text(le(bytes) as u32)),
        FieldType::PartitionOffset => Some(format!("{:#x}", le(bytes))),
        FieldType::NeuronAddr => Some(format!("{:#x}", le(bytes))),
        FieldType::Addr8 => Some(addr8_text(bytes)),
        FieldType::Imm | FieldType::Imm64 => Some(immediate_text(def, field, bytes, word)),
        ty => Some(value::print(ty, bytes)),
    }
}

/// The dtype that stands before a tensor operand; `None` for code 0, which says nothing.
fn tensor_dtype(def: &StructDef, name: &str, word: &[u8; 64]) -> Option<String> {
    let (field, part) = dtype_of(def, name)?;
    let code = part.get(word[usize::from(field.offset)]);
    (code != 0).then(|| dtype_text(code)).filter(|text| dtype_code(text) == Some(code))
}

/// True if the tensors' own text carries everything that the dtype field says.
fn dtype_said_by_tensors(def: &StructDef, field: &FieldDef, byte: u8) -> bool {
    let (low, high) = printed_by_tensors(def, field);
    let named = |code: u8| code == 0 || dtype_code(&dtype_text(code)) == Some(code);
    match field.ty {
        FieldType::DtypePair => {
            (byte & 15 == 0 || (low && named(byte & 15)))
                && (byte >> 4 == 0 || (high && named(byte >> 4)))
        }
        _ => low && named(byte),
    }
}

fn immediate_text(def: &StructDef, field: &FieldDef, bytes: &[u8], word: &[u8; 64]) -> String {
    let value = le(bytes);
    let form = immediate_form(def, field.name).map(|(f, form)| (word[usize::from(f.offset)], form));
    if let Some((code, form)) = form {
        if code == form.pointer {
            return format!("@{value:#x}");
        }
        if code == form.register && value < 64 {
            return format!("R{value}");
        }
    }
    if bytes.len() == 4 {
        // Numbers of ordinary size read as floats; the bits of small integers do not look like one.
        let x = f32::from_bits(value as u32).abs();
        if (1e-9..1e12).contains(&x)
            && let Some(text) = float_text(value as u32)
        {
            return text;
        }
    }
    if value < 10_000 { value.to_string() } else { format!("{value:#x}") }
}

/// Assembles the operands after the mnemonic `name`.
///
/// # Errors
/// An unknown opcode or operand, a value that does not fit, contradictions.
pub fn assemble(
    layout: Layout,
    name: Token<'_>,
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
) -> SyntaxResult<Assembled> {
    let generation = generation_of(layout);
    let op = find_opcode(generation, name.text).ok_or_else(|| no_opcode(generation, name))?;
    let def = find_struct(layout, op, cursor, env)?;
    let mut builder = Builder::new(layout, op, def, env);
    let dialect = events_of(def);
    let mut main = EventsReader::default();
    let mut second = EventsReader::default();
    cursor.eat(";");
    while !cursor.at_end() {
        if cursor.is("$") || looks_like_profiler_semaphore(cursor) {
            let Some((dialect, _)) = dialect else {
                let message = format!("{} has no events block", op.name);
                return Err(SyntaxError::new(cursor.span(), message));
            };
            main.read(cursor, dialect, generation, env)?;
        } else if cursor.peek().is_some_and(|t| t.text == "unordered") && dialect.is_some() {
            main.unordered(cursor.span(), generation)?;
            cursor.next();
        } else if cursor.peek().is_some_and(|t| t.text == "ext")
            && cursor.peek_at(1).is_some_and(|t| t.text == "(")
        {
            if extended_events(def).is_none() {
                let message = format!("{} has no second events block", op.name);
                return Err(SyntaxError::new(cursor.span(), message));
            }
            cursor.next();
            cursor.expect("(")?;
            while !cursor.eat(")") {
                if cursor.peek().is_some_and(|t| t.text == "unordered") {
                    second.unordered(cursor.span(), generation)?;
                    cursor.next();
                } else {
                    second.read(cursor, Dialect::Extended, generation, env)?;
                }
            }
        } else {
            builder.operand(cursor)?;
        }
        if cursor.eat(";") && !cursor.at_end() {
            return Err(cursor.wanted("the end of the line"));
        }
    }
    if let Some((dialect, range)) = dialect {
        let events = main.finish(dialect)?;
        builder.put_events(&events, range);
    }
    if let Some(range) = extended_events(def) {
        let events = second.finish(Dialect::Extended)?;
        builder.put_events(&events, range);
    }
    builder.finish()
}

/// The profiler prints `S[5] (Tensor)++@complete` without the dollar sign.
fn looks_like_profiler_semaphore(cursor: &Cursor<'_, '_>) -> bool {
    cursor.peek().is_some_and(|t| t.kind == Kind::Ident && matches!(t.text, "S" | "E"))
        && cursor.peek_at(1).is_some_and(|t| t.kind == Kind::Punct && t.text == "[")
}

/// The opcode called `name`; the pages do not agree on every underscore.
fn find_opcode(generation: Generation, name: &str) -> Option<&'static OpcodeDef> {
    let bare = |s: &str| s.replace('_', "").to_ascii_uppercase();
    opcode_by_name(generation, name).or_else(|| {
        let wanted = bare(name);
        let same = opcode_table(generation).iter().find(|op| bare(op.name) == wanted)?;
        opcode_by_name(generation, same.name)
    })
}

fn no_opcode(generation: Generation, name: Token<'_>) -> SyntaxError {
    let message = format!("{generation} has no instruction `{}`", name.text);
    let error = SyntaxError::new(name.span, message);
    let known = || {
        opcode_table(generation).iter().filter(|op| {
            opcode_by_name(generation, op.name).is_some_and(|found| found.byte == op.byte)
        })
    };
    if let Some(near) = nearest(name.text, known().map(|op| op.name)) {
        return error.help(format!("did you mean `{near}`?"));
    }
    let elsewhere: Vec<String> = Generation::ALL
        .into_iter()
        .filter(|g| opcode_by_name(*g, name.text).is_some())
        .map(|g| g.to_string())
        .collect();
    if elsewhere.is_empty() {
        error
    } else {
        error.help(format!("it exists on {}", elsewhere.join(", ")))
    }
}

/// The operand struct; for opcodes with several the extended opcode in the operands decides.
fn find_struct(
    layout: Layout,
    op: &'static OpcodeDef,
    cursor: &Cursor<'_, '_>,
    env: &dyn Env,
) -> SyntaxResult<&'static StructDef> {
    let mut spec = 0;
    let mut span = cursor.span();
    if op.struct_names.len() > 1 {
        let mut look = cursor.clone();
        while let Some(token) = look.next() {
            if token.text == "extended_opcode" && look.eat("=") {
                span = look.span();
                let ty = crate::isa::enum_by_name("EXTENDED_OPCODE")
                    .map_or(FieldType::U8, FieldType::Enum);
                spec = value::parse(&mut look, ty, 1, generation_of(layout), env)?[0];
                break;
            }
        }
    }
    struct_in(layout, op, spec).map_err(|e| SyntaxError::new(span, e.message))
}

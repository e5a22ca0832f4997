//! Reading the operands of one instruction into its word.

use super::addr::{parse_addr4, parse_addr8, parse_pattern};
use super::events::Events;
use super::expr::{Cursor, Env, Value, expression, integer};
use super::inst::{
    Assembled, LabelForm, LabelUse, WORD_LENGTH, events_of, extended_events, generation_of,
    has_length_byte, put_events, range_of,
};
use super::lex::{Kind, Token};
use super::link::{ALIASES, Part, dtype_of, immediate_form};
use super::syntax::{Span, SyntaxError, SyntaxResult, nearest};
use super::value::{self, dtype_code, dtype_text, register};
use crate::isa::e::br_target_mode::{
    IMMEDIATE as TARGET_ABSOLUTE, RELATIVE_IMMEDIATE as TARGET_RELATIVE,
};
use crate::isa::{FieldDef, FieldType, Generation, Layout, OpcodeDef, StructDef};

/// An instruction while its operands are read.
pub(super) struct Builder<'e> {
    layout: Layout,
    generation: Generation,
    op: &'static OpcodeDef,
    def: &'static StructDef,
    env: &'e dyn Env,
    word: [u8; 64],
    /// Fields given, with their place.
    given: Vec<(&'static str, Span)>,
    /// Dtypes that stood before tensors: field, part, code.
    prefixes: Vec<(&'static FieldDef, Part, u8, Span)>,
    /// Forms of immediates to fill in unless given.
    forms: Vec<(&'static FieldDef, u8)>,
    /// Raw bytes of events fields; they override the notation.
    raw_events: Vec<(usize, Vec<u8>)>,
    label: Option<LabelUse>,
}

impl<'e> Builder<'e> {
    /// An instruction without operands.
    pub(super) fn new(
        layout: Layout,
        op: &'static OpcodeDef,
        def: &'static StructDef,
        env: &'e dyn Env,
    ) -> Self {
        let mut word = [0; 64];
        word[0] = op.byte;
        if has_length_byte(def) {
            word[1] = WORD_LENGTH;
        }
        Builder {
            layout,
            generation: generation_of(layout),
            op,
            def,
            env,
            word,
            given: Vec::new(),
            prefixes: Vec::new(),
            forms: Vec::new(),
            raw_events: Vec::new(),
            label: None,
        }
    }

    /// Stores an events block at `range`; raw events fields given by name override it later.
    pub(super) fn put_events(&mut self, events: &Events, range: std::ops::Range<usize>) {
        put_events(events, &mut self.word[range]);
    }
}

impl Builder<'_> {
    /// Reads one `name=value`.
    ///
    /// # Errors
    /// An unknown or repeated name, a value that does not fit.
    pub(super) fn operand(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let key = cursor.ident("an operand `name=value`, a wait or an update")?;
        if !cursor.is("=")
            && let Some(field) = self.def.field("queue_name").filter(|f| !self.is_given(f.name))
        {
            // The profiler prints the queue of a DMA trigger without its key.
            let range = range_of(field);
            let name = key.text.as_bytes();
            if name.len() >= range.len() {
                return Err(SyntaxError::new(key.span, "the queue name is too long"));
            }
            self.given.push((field.name, key.span));
            self.word[range.start..range.start + name.len()].copy_from_slice(name);
            return Ok(());
        }
        let name = ALIASES.iter().find(|a| a.0 == key.text).map_or(key.text, |a| a.1);
        let known = self.def.field(name).or_else(|| self.def.field(key.text));
        let Some(field) = known.filter(|f| f.offset != 0) else {
            return Err(self.no_operand(key));
        };
        if self.given.iter().any(|g| g.0 == field.name) {
            return Err(SyntaxError::new(key.span, format!("`{}` is given twice", field.name)));
        }
        self.given.push((field.name, key.span));
        cursor.expect("=")?;
        let range = range_of(field);
        let bytes = match field.ty_in(self.layout) {
            FieldType::Pattern(kind) => {
                self.dtype_prefix(cursor, field)?;
                if is_raw(cursor) {
                    value::parse(cursor, FieldType::Opaque, range.len(), self.generation, self.env)?
                } else {
                    parse_pattern(cursor, kind, self.generation, self.env)?
                }
            }
            FieldType::Addr4 if !is_raw(cursor) => {
                cursor.eat("@");
                parse_addr4(cursor, self.env)?.to_le_bytes().to_vec()
            }
            FieldType::Addr8 if !is_raw(cursor) => parse_addr8(cursor, self.env)?,
            FieldType::PartitionOffset | FieldType::NeuronAddr if cursor.eat("@") => {
                self.parse(cursor, field)?
            }
            FieldType::Imm | FieldType::Imm64 if !is_raw(cursor) => {
                self.immediate(cursor, field)?
            }
            _ if field.name == "br_immediate" && self.label(cursor, range.start)? => vec![0; 8],
            _ => self.parse(cursor, field)?,
        };
        let bytes = bytes.get(..range.len()).unwrap_or(&bytes).to_vec();
        let in_events = events_of(self.def).is_some_and(|(_, r)| r.contains(&range.start))
            || extended_events(self.def).is_some_and(|r| r.contains(&range.start));
        if in_events {
            self.raw_events.push((range.start, bytes));
        } else {
            self.word[range].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, field: &FieldDef) -> SyntaxResult<Vec<u8>> {
        let ty = field.ty_in(self.layout);
        value::parse(cursor, ty, usize::from(field.size), self.generation, self.env)
    }

    fn no_operand(&self, key: Token<'_>) -> SyntaxError {
        let message = format!("{} has no operand `{}`", self.op.name, key.text);
        let error = SyntaxError::new(key.span, message);
        let usable = || self.def.fields.iter().filter(|f| f.offset != 0 && !f.is_reserved());
        match nearest(key.text, usable().map(|f| f.name)) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => {
                let start = self.def.payload_offset;
                let names: Vec<&str> =
                    usable().filter(|f| f.offset >= start).map(|f| f.name).collect();
                error.help(format!("operands: {}", names.join(", ")))
            }
        }
    }

    /// `dtype@` or `@` before a tensor.
    fn dtype_prefix(&mut self, cursor: &mut Cursor<'_, '_>, field: &FieldDef) -> SyntaxResult<()> {
        if cursor.eat("@") {
            return Ok(());
        }
        let Some(token) = cursor.peek().filter(|t| t.kind == Kind::Ident) else { return Ok(()) };
        if !cursor.peek_at(1).is_some_and(|t| t.kind == Kind::Punct && t.text == "@") {
            return Ok(());
        }
        let code = dtype_code(token.text).ok_or_else(|| {
            SyntaxError::new(token.span, format!("no dtype is called `{}`", token.text))
        })?;
        let Some((dtype, part)) = dtype_of(self.def, field.name) else {
            let message = format!(
                "{} has no dtype for `{}` on {}",
                self.op.name, field.name, self.generation
            );
            return Err(SyntaxError::new(token.span, message).help("leave the dtype out"));
        };
        cursor.next();
        cursor.next();
        self.prefixes.push((dtype, part, code, token.span));
        Ok(())
    }

    /// An immediate: a number, `@address` or `R5`.
    fn immediate(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        field: &FieldDef,
    ) -> SyntaxResult<Vec<u8>> {
        let form = immediate_form(self.def, field.name);
        let size = usize::from(field.size);
        let high = (1i128 << (8 * size)) - 1;
        let start = cursor.span();
        let (value, code) = if cursor.eat("@") {
            let value = integer(cursor, self.env, 0, high)? as u64;
            (value, form.map(|f| f.1.pointer))
        } else if let Some(number) = register(cursor, self.env)? {
            (u64::from(number), form.map(|f| f.1.register))
        } else {
            let value = match expression(cursor, self.env)? {
                Value::Float(x) if size == 4 => u64::from((x as f32).to_bits()),
                Value::Int(n) if (-(high / 2 + 1)..=high).contains(&n) => n as u64,
                Value::Int(n) => {
                    let span = start.to(cursor.previous());
                    return Err(SyntaxError::new(span, format!("{n} does not fit {size} bytes")));
                }
                Value::Float(_) => {
                    let span = start.to(cursor.previous());
                    return Err(SyntaxError::new(span, "this immediate is a whole number"));
                }
            };
            (value, form.map(|f| f.1.inline))
        };
        if let (Some((form, _)), Some(code)) = (form, code) {
            self.forms.push((form, code));
        }
        Ok(value.to_le_bytes()[..size.min(8)].to_vec())
    }

    /// A label as the branch target, if the next token is a name that means nothing else.
    fn label(&mut self, cursor: &mut Cursor<'_, '_>, offset: usize) -> SyntaxResult<bool> {
        let Some(token) = cursor.peek().filter(|t| t.kind == Kind::Ident) else { return Ok(false) };
        let called = cursor.peek_at(1).is_some_and(|t| t.text == "(");
        if self.env.symbol(token.text).is_some() || called {
            return Ok(false);
        }
        cursor.next();
        let form = LabelForm::RelativeBytes(offset);
        self.label = Some(LabelUse { name: token.text.to_owned(), span: token.span, form });
        Ok(true)
    }

    fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|g| g.0 == name)
    }

    /// The word, when every operand is read.
    ///
    /// # Errors
    /// Operands that contradict each other.
    pub(super) fn finish(mut self) -> SyntaxResult<Assembled> {
        for (offset, bytes) in std::mem::take(&mut self.raw_events) {
            self.word[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        self.apply_prefixes()?;
        for (field, code) in std::mem::take(&mut self.forms) {
            if !self.is_given(field.name) {
                self.word[usize::from(field.offset)] = code;
            }
        }
        if let Some(label) = &mut self.label
            && let Some(mode) = self.def.field("target_mode")
        {
            let at = usize::from(mode.offset);
            if !self.given.iter().any(|g| g.0 == "target_mode") {
                self.word[at] = TARGET_RELATIVE;
            }
            let LabelForm::RelativeBytes(offset) = label.form else {
                return Ok(Assembled { word: self.word, label: self.label });
            };
            label.form = match self.word[at] {
                TARGET_RELATIVE => LabelForm::RelativeBytes(offset),
                TARGET_ABSOLUTE => LabelForm::AbsoluteBytes(offset),
                other => {
                    let message = format!("target mode {other} takes no immediate target");
                    return Err(SyntaxError::new(label.span, message));
                }
            };
        }
        Ok(Assembled { word: self.word, label: self.label })
    }

    fn apply_prefixes(&mut self) -> SyntaxResult<()> {
        let mut set: Vec<(u8, Part)> = Vec::new();
        for (field, part, code, span) in std::mem::take(&mut self.prefixes) {
            let at = usize::from(field.offset);
            let before = part.get(self.word[at]);
            let fixed = self.is_given(field.name) || set.contains(&(field.offset, part));
            if fixed && before != code {
                let message = format!(
                    "the dtype is {} here, but `{}` says {}",
                    dtype_text(code),
                    field.name,
                    dtype_text(before)
                );
                return Err(SyntaxError::new(span, message));
            }
            self.word[at] = part.with(self.word[at], code).ok_or_else(|| {
                let message =
                    format!("{} does not fit a dtype pair (codes 0 to 15)", dtype_text(code));
                SyntaxError::new(span, message)
            })?;
            set.push((field.offset, part));
        }
        Ok(())
    }
}

fn is_raw(cursor: &Cursor<'_, '_>) -> bool {
    cursor.peek().is_some_and(|t| t.kind == Kind::Ident && t.text == "raw")
        && cursor.peek_at(1).is_some_and(|t| t.text == "(")
}

//! Declarations other than tensors and DMA.

use super::super::limits;
use super::super::model::{AllowedRace, Check, Program};
use super::Assembler;
use crate::isa::text::expr::{Cursor, expression, integer};
use crate::isa::text::lex::{Kind, unescape};
use crate::isa::text::syntax::{Span, SyntaxError, SyntaxResult};
use crate::isa::{Engine, Generation};

/// Number of semaphores, of events, and the first of each that the assembler hands out.
///
/// V1: 256 events and 32 semaphores; events 0 to 13 and 255 and semaphores 0 to 2 are taken by the
/// runtime and the compiler (wiki: neff/seq-microcode; V1-era compiler behaviour). Later: 256 of
/// each (wiki: control/address/evt-sem-regions); no reservation is published.
fn numbers(generation: Generation, events: bool) -> (u32, std::ops::Range<u32>) {
    match (generation, events) {
        (Generation::V1, true) => (256, 14..255),
        (Generation::V1, false) => (32, 3..32),
        _ => (256, 0..256),
    }
}

impl Assembler<'_> {
    pub(super) fn set_generation(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        span: Span,
    ) -> SyntaxResult<()> {
        let token = cursor.ident("a generation such as v3")?;
        let mut name = token.text.to_owned();
        if cursor.eat("+") {
            name.push('+');
        }
        cursor.finish()?;
        let generation = name.parse::<Generation>().map_err(|e| {
            SyntaxError::new(token.span, e.message).help(e.help.unwrap_or_default())
        })?;
        if self.names.generation.is_some() {
            return Err(SyntaxError::new(span, "the generation is already set"));
        }
        self.names.generation = Some(generation);
        let metadata = std::mem::take(&mut self.program.metadata);
        self.program = Program { metadata, ..Program::new(generation) };
        Ok(())
    }

    pub(super) fn open_stream(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let token = cursor.ident("an engine: PE, ACT, POOL, DVE, SP")?;
        cursor.finish()?;
        let generation = self.generation(token.span)?;
        let engine = token.text.parse::<Engine>().map_err(|e| {
            SyntaxError::new(token.span, e.message).help(e.help.unwrap_or_default())
        })?;
        if engine == Engine::Dve && generation == Generation::V1 {
            return Err(SyntaxError::new(token.span, "v1 has no DVE")
                .help("vector instructions run on POOL there"));
        }
        self.stream = Some(engine);
        if !self.is_v1_sp(engine) {
            self.program.stream_mut(engine);
        }
        Ok(())
    }

    pub(super) fn define(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let name = cursor.ident("a name")?;
        cursor.eat("=");
        let value = expression(cursor, &self.names)?;
        cursor.finish()?;
        // A constant may be set again, so that included files and repetitions can compute.
        if !self.names.constants.contains_key(name.text) {
            self.new_name(name)?;
        }
        self.names.constants.insert(name.text.to_owned(), value);
        Ok(())
    }

    /// `.semaphore a, b = 7` and `.event …`.
    pub(super) fn numbered(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        events: bool,
    ) -> SyntaxResult<()> {
        let generation = self.generation(cursor.span())?;
        if events && generation == Generation::V5 {
            return Err(SyntaxError::new(cursor.span(), "v5 has no events, only semaphores"));
        }
        let what = if events { "event" } else { "semaphore" };
        let (count, free) = numbers(generation, events);
        loop {
            let name = cursor.ident(&format!("the name of the {what}"))?;
            let number = if cursor.eat("=") {
                integer(cursor, &self.names, 0, i128::from(count) - 1)? as u32
            } else {
                let map = if events { &self.names.events } else { &self.names.semaphores };
                let used: Vec<u32> = map.values().copied().collect();
                free.clone().find(|n| !used.contains(n)).ok_or_else(|| {
                    SyntaxError::new(name.span, format!("no {what} is left ({free:?} are free)"))
                })?
            };
            let (map, out) = if events {
                (&mut self.names.events, &mut self.program.events)
            } else {
                (&mut self.names.semaphores, &mut self.program.semaphores)
            };
            if map.contains_key(name.text) {
                let message = format!("the {what} `{}` is already declared", name.text);
                return Err(SyntaxError::new(name.span, message));
            }
            if let Some((other, _)) = map.iter().find(|(_, n)| **n == number) {
                let message = format!("{what} {number} is already `{other}`");
                return Err(SyntaxError::new(name.span, message)
                    .help("declare the ones with fixed numbers first"));
            }
            map.insert(name.text.to_owned(), number);
            out.insert(name.text.to_owned(), number);
            if !cursor.eat(",") {
                return cursor.finish();
            }
        }
    }

    /// `.check out npy("want.npy") atol=1e-3 rtol=1e-3`.
    pub(super) fn check(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let name = cursor.ident("the name of a tensor")?;
        let Some(tensor) = self.program.tensor(name.text).cloned() else {
            return Err(SyntaxError::new(
                name.span,
                format!("no tensor is called `{}`", name.text),
            ));
        };
        if self.program.checks.len() >= limits::DECLARATIONS {
            return Err(SyntaxError::new(name.span, "too many checks"));
        }
        let (expected, origin) = self.expected(cursor, &tensor)?;
        let (mut atol, mut rtol) = (0.0, 0.0);
        while !cursor.at_end() {
            let key = cursor.ident("`atol=` or `rtol=`")?;
            cursor.expect("=")?;
            let value = expression(cursor, &self.names)?.as_f64();
            if !(value >= 0.0 && value.is_finite()) {
                let message = "a tolerance is a finite number, zero or more";
                return Err(SyntaxError::new(cursor.previous(), message));
            }
            match key.text {
                "atol" => atol = value,
                "rtol" => rtol = value,
                _ => return Err(SyntaxError::new(key.span, "expected `atol=` or `rtol=`")),
            }
        }
        let check = Check { tensor: tensor.name, origin, expected, atol, rtol };
        self.program.checks.push(check);
        Ok(())
    }

    /// `.allow_race acc PE ACT "reason"`, `.allow_race between "ACT 3" "in load" "reason"`,
    /// `.allow_race "reason"`.
    pub(super) fn allow_race(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let mut race =
            AllowedRace { tensor: None, engines: None, words: None, reason: String::new() };
        let mut engines = Vec::new();
        while let Some(token) = cursor.peek().filter(|t| t.kind == Kind::Ident) {
            cursor.next();
            if token.text == "between" && race.words.is_none() {
                let mut places = [String::new(), String::new()];
                for place in &mut places {
                    let token = cursor.string("an instruction, as \"ACT 3\" or \"QUEUE BLOCK\"")?;
                    *place = self.text(token)?;
                    if place.split_whitespace().count() != 2 {
                        let message = "name a stream and a word, as \"ACT 3\" or \"ACT label\"";
                        return Err(SyntaxError::new(token.span, message));
                    }
                }
                race.words = Some(places);
            } else if self.program.tensor(token.text).is_some() && race.tensor.is_none() {
                race.tensor = Some(token.text.to_owned());
            } else if let Ok(engine) = token.text.parse::<Engine>() {
                engines.push((engine, token.span));
            } else {
                let message = format!("`{}` is neither a tensor nor an engine", token.text);
                return Err(SyntaxError::new(token.span, message));
            }
        }
        race.engines = match engines.as_slice() {
            [] => None,
            [a, b] => Some((a.0, b.0)),
            [one, ..] => return Err(SyntaxError::new(one.1, "name two engines or none")),
        };
        let reason = cursor.string("the reason, in quotes")?;
        if reason.text.trim().is_empty() {
            return Err(SyntaxError::new(reason.span, "say why the race is harmless"));
        }
        race.reason = self.text(reason)?;
        cursor.finish()?;
        if self.program.allowed_races.len() < limits::DECLARATIONS {
            self.program.allowed_races.push(race);
        }
        Ok(())
    }

    pub(super) fn meta(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let key = cursor.ident("a key")?;
        let value = cursor.string("a value in quotes")?;
        let value = self.text(value)?;
        cursor.finish()?;
        if self.program.metadata.len() < limits::DECLARATIONS {
            self.program.metadata.insert(key.text.to_owned(), value);
        }
        Ok(())
    }

    fn text(&self, token: crate::isa::text::lex::Token<'_>) -> SyntaxResult<String> {
        let bytes = unescape(token.text).map_err(|why| SyntaxError::new(token.span, why))?;
        String::from_utf8(bytes).map_err(|_| SyntaxError::new(token.span, "not UTF-8 text"))
    }
}

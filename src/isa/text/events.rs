//! Waits and updates: `$S[10]>0`, `$S[22]++@complete`, `$E[3]==1->0`.
//!
//! The grammar is in `docs/program-format.md`. What the notation cannot say is written with the
//! raw field names (`wait_mode=0x55`), so that every events block can be printed.

use super::expr::{Cursor, Env, integer};
use super::lex::Kind;
use super::syntax::{Span, SyntaxError, SyntaxResult};
use super::value::register;
use crate::isa::Generation;

/// An events block as raw values. In V1 the modes are those of events and `values` is unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Wait mode byte.
    pub wait_mode: u8,
    /// Event or semaphore waited for.
    pub wait_idx: u8,
    /// Update (V1: set) mode byte.
    pub update_mode: u8,
    /// Event or semaphore changed.
    pub update_idx: u8,
    /// Value of the wait.
    pub wait_value: u32,
    /// Value of the update; the 8-byte block has one value for both.
    pub update_value: u32,
}

/// Which modes a block can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// V1, 4 bytes, events only.
    V1,
    /// v2 and later (and the 8-byte V1 dialect), one value.
    Shared,
    /// The second block of EVENT_SEMAPHORE, two values.
    Extended,
}

const COMPARES: [&str; 5] = ["==", "<", "<=", ">", ">="];

/// How a mode byte uses the value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    None,
    Immediate,
    Register,
    RegisterOffset,
}

/// (comparison, operand) of a semaphore wait mode.
fn wait_parts(mode: u8) -> Option<(&'static str, Operand)> {
    let operand = match mode >> 4 {
        0x0 => Operand::Immediate,
        0x8 => Operand::Register,
        0x9 => Operand::RegisterOffset,
        _ => return None,
    };
    let compare = COMPARES.get(usize::from(mode & 15).checked_sub(1)?)?;
    Some((compare, operand))
}

/// Event waits: condition, and what becomes of the event.
const EVENT_WAITS: &[(u8, u8, Option<u8>)] =
    &[(0x06, 1, None), (0x07, 1, Some(0)), (0x0e, 0, None), (0x0f, 0, Some(1))];

/// Mode of an update without its phase (`+0x10`) and register (`+0x80`) parts.
const UPDATES: &[(u8, char, &str, Operand)] = &[
    (0x01, 'E', "=1", Operand::None),
    (0x02, 'E', "=0", Operand::None),
    (0x03, 'S', "++", Operand::None),
    (0x04, 'S', "--", Operand::None),
    (0x05, 'S', "+=", Operand::Immediate),
    (0x07, 'S', "-=", Operand::Immediate),
    (0x09, 'S', "=", Operand::Immediate),
];

/// (family, operator, operand, phase) of an update mode.
fn update_parts(mode: u8) -> Option<(char, &'static str, Operand, &'static str)> {
    let phase = if mode & 0x10 == 0 { "read" } else { "complete" };
    let (_, family, operator, operand) = UPDATES.iter().find(|u| u.0 == mode & 0x6f)?;
    match (mode & 0x80 != 0, *operand) {
        (false, operand) => Some((*family, operator, operand, phase)),
        (true, Operand::Immediate) => Some((*family, operator, Operand::Register, phase)),
        (true, _) => None,
    }
}

/// How `value` is written as the operand; `None` if the notation cannot.
fn operand_text(operand: Operand, value: u32) -> Option<String> {
    match operand {
        Operand::None => (value == 0).then(String::new),
        Operand::Immediate => Some(value.to_string()),
        Operand::Register => (value < 64).then(|| format!("R{value}")),
        Operand::RegisterOffset => {
            let register = value & 0xff;
            (register < 64).then(|| match value >> 8 {
                0 => format!("R{register}+0"),
                offset => format!("R{register}+{offset}"),
            })
        }
    }
}

const V1_PHASES: [&str; 3] = ["read", "write", "done"];

/// Prints a block: notation first, then `name=value` for what it cannot say. `prefix` comes before
/// the raw names of the second block.
pub fn print(
    events: &Events,
    dialect: Dialect,
    generation: Generation,
    prefix: &str,
) -> Vec<String> {
    let v5 = generation == Generation::V5;
    let mut out = Vec::new();
    let e = events;
    let raw = |out: &mut Vec<String>, name: &str, value: u32| {
        if value != 0 {
            out.push(format!("{prefix}{name}={value:#x}"));
        }
    };
    if dialect == Dialect::V1 {
        match e.wait_mode {
            1 => out.push(format!("$E[{}]==1", e.wait_idx)),
            2 => out.push(format!("$E[{}]==1->0", e.wait_idx)),
            mode => {
                raw(&mut out, "wait_event_mode", mode.into());
                raw(&mut out, "wait_event_idx", e.wait_idx.into());
            }
        }
        match e.update_mode {
            mode @ 1..=3 => {
                out.push(format!("$E[{}]=1@{}", e.update_idx, V1_PHASES[usize::from(mode - 1)]));
            }
            mode => {
                raw(&mut out, "set_event_mode", mode.into());
                raw(&mut out, "set_event_idx", e.update_idx.into());
            }
        }
        return out;
    }
    let mut value_said = false;
    let event_wait = EVENT_WAITS.iter().find(|w| w.0 == e.wait_mode && !v5);
    let semaphore_wait = wait_parts(e.wait_mode).and_then(|(compare, operand)| {
        if operand == Operand::RegisterOffset && !v5 {
            return None;
        }
        Some(format!("$S[{}]{compare}{}", e.wait_idx, operand_text(operand, e.wait_value)?))
    });
    if let Some((_, wanted, then)) = event_wait {
        let then = then.map_or(String::new(), |v| format!("->{v}"));
        out.push(format!("$E[{}]=={wanted}{then}", e.wait_idx));
    } else if let Some(text) = semaphore_wait {
        value_said = true;
        out.push(text);
    } else if e.wait_mode == 0xfe && e.wait_idx == 0 && v5 {
        out.push("unordered".to_owned());
    } else {
        raw(&mut out, "wait_mode", e.wait_mode.into());
        raw(&mut out, "wait_idx", e.wait_idx.into());
    }
    if dialect == Dialect::Extended && !value_said {
        raw(&mut out, "sem_wait_value", e.wait_value);
    }
    let mut update_said = false;
    let update = update_parts(e.update_mode).and_then(|(family, operator, operand, phase)| {
        if family == 'E' && v5 {
            return None;
        }
        let text = match operand {
            Operand::None => String::new(),
            _ => {
                let text = operand_text(operand, e.update_value)?;
                update_said = true;
                text
            }
        };
        Some(format!("${family}[{}]{operator}{text}@{phase}", e.update_idx))
    });
    match update {
        Some(text) => out.push(text),
        None => {
            raw(&mut out, "update_mode", e.update_mode.into());
            raw(&mut out, "update_idx", e.update_idx.into());
        }
    }
    match dialect {
        Dialect::Extended if !update_said => raw(&mut out, "sem_update_value", e.update_value),
        Dialect::Shared if !value_said && !update_said => {
            raw(&mut out, "semaphore_value", e.wait_value);
        }
        _ => {}
    }
    out
}

/// Collects what one events block says while its instruction is read.
#[derive(Default)]
pub struct EventsReader {
    wait: Option<Span>,
    update: Option<Span>,
    wait_value: Option<(u32, Span)>,
    update_value: Option<(u32, Span)>,
    events: Events,
}

impl EventsReader {
    /// Reads one wait or update that starts with `$`.
    ///
    /// # Errors
    /// Bad notation, a mode that the dialect or generation does not have, a second wait or update.
    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        dialect: Dialect,
        generation: Generation,
        env: &dyn Env,
    ) -> SyntaxResult<()> {
        let start = cursor.span();
        cursor.eat("$");
        let family = cursor.ident("`S` or `E`")?;
        let is_event = match family.text {
            "S" => false,
            "E" => true,
            _ => return Err(SyntaxError::new(family.span, "expected `S` or `E` after `$`")),
        };
        let index = index(cursor, is_event, env)?;
        let Some(operator) = cursor.next().filter(|t| t.kind == Kind::Punct) else {
            return Err(SyntaxError::new(start, "expected a comparison or an update")
                .help("waits: $S[i]>=v, $E[i]==1; updates: $S[i]++@complete, $E[i]=1@read"));
        };
        let compare = COMPARES.iter().position(|c| *c == operator.text);
        let result = match compare {
            Some(compare) => self.wait(cursor, start, is_event, index, compare as u8, dialect, env),
            None => self.update(cursor, start, is_event, index, operator.text, dialect, env),
        };
        result?;
        let span = start.to(cursor.previous());
        if dialect != Dialect::V1 {
            if is_event && generation == Generation::V5 {
                return Err(SyntaxError::new(span, "v5 has no events, only semaphores"));
            }
            let offset = self.events.wait_mode & 0xf0 == 0x90 && compare.is_some();
            if offset && generation != Generation::V5 {
                return Err(SyntaxError::new(span, "register offsets in waits exist on v5 only"));
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn wait(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        start: Span,
        is_event: bool,
        index: u8,
        compare: u8,
        dialect: Dialect,
        env: &dyn Env,
    ) -> SyntaxResult<()> {
        if dialect == Dialect::V1 && !is_event {
            let error =
                SyntaxError::new(start.to(cursor.previous()), "V1 words wait for events only");
            return Err(error.help("use SEMAPHORE_TEST_AND_SET before it"));
        }
        self.set_wait(start)?;
        self.events.wait_idx = index;
        if is_event {
            if compare != 0 {
                let span = start.to(cursor.previous());
                return Err(SyntaxError::new(span, "an event is waited for with `==1` or `==0`"));
            }
            let wanted = integer(cursor, env, 0, 1)? as u8;
            let then = cursor.eat("->").then(|| integer(cursor, env, 0, 1)).transpose()?;
            let then = then.map(|n| n as u8);
            let span = start.to(cursor.previous());
            let mode = EVENT_WAITS
                .iter()
                .find(|w| w.1 == wanted && w.2 == then)
                .ok_or_else(|| SyntaxError::new(span, "this changes nothing; drop the `->`"))?
                .0;
            self.events.wait_mode = match (dialect, mode) {
                (Dialect::V1, 6 | 7) => mode - 5,
                (Dialect::V1, _) => {
                    return Err(SyntaxError::new(span, "V1 words wait for set events only"));
                }
                _ => mode,
            };
            return Ok(());
        }
        let (operand, value, span) = operand(cursor, env, true)?;
        let base = match operand {
            Operand::Register => 0x80,
            Operand::RegisterOffset => 0x90,
            _ => 0,
        };
        self.events.wait_mode = base + compare + 1;
        self.wait_value = Some((value, span));
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn update(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        start: Span,
        is_event: bool,
        index: u8,
        operator: &str,
        dialect: Dialect,
        env: &dyn Env,
    ) -> SyntaxResult<()> {
        if self.update.is_some() {
            return Err(SyntaxError::new(start, "an instruction has one update only")
                .help("put a further update into an EVENT_SEMAPHORE"));
        }
        self.update = Some(start);
        self.events.update_idx = index;
        let (mut mode, mut value) = (None, None);
        match (is_event, operator) {
            (true, "=") => mode = Some(if integer(cursor, env, 0, 1)? == 1 { 0x01 } else { 0x02 }),
            (false, "++") => mode = Some(0x03),
            (false, "--") => mode = Some(0x04),
            (false, "+=" | "-=" | "=") => {
                let (operand, number, span) = operand(cursor, env, false)?;
                let base = match operator {
                    "+=" => 0x05,
                    "-=" => 0x07,
                    _ => 0x09,
                };
                mode = Some(base + if operand == Operand::Register { 0x80 } else { 0 });
                value = Some((number, span));
            }
            _ => {}
        }
        let Some(mode) = mode else {
            let span = start.to(cursor.previous());
            let error = SyntaxError::new(span, format!("`{operator}` is no wait and no update"));
            return Err(error.help(if is_event {
                "events: $E[i]==1 waits, $E[i]=1@complete updates"
            } else {
                "semaphores: == < <= > >= wait; ++ -- += -= = update"
            }));
        };
        // The profiler prints the semaphore's name in parentheses.
        if cursor.is("(") {
            skip_name(cursor)?;
        }
        cursor.expect("@")?;
        let phase = cursor.ident("`read` or `complete`")?;
        let wanted: &[&str] = match dialect {
            Dialect::V1 => &V1_PHASES,
            _ => &["read", "complete"],
        };
        let at = wanted.iter().position(|w| *w == phase.text).ok_or_else(|| {
            SyntaxError::new(phase.span, format!("expected one of: {}", wanted.join(", ")))
        })? as u8;
        if dialect == Dialect::V1 {
            if mode != 0x01 {
                let span = start.to(phase.span);
                return Err(SyntaxError::new(span, "V1 words can only set an event"));
            }
            self.events.update_mode = at + 1;
        } else {
            self.events.update_mode = mode + 0x10 * at;
            self.update_value = value;
        }
        Ok(())
    }

    fn set_wait(&mut self, span: Span) -> SyntaxResult<()> {
        if self.wait.replace(span).is_some() {
            return Err(SyntaxError::new(span, "an instruction has one wait only")
                .help("put a further wait into an EVENT_SEMAPHORE (V1: EVENT_WAIT) before it"));
        }
        Ok(())
    }

    /// `unordered` (v5).
    ///
    /// # Errors
    /// Another generation, or a second wait.
    pub fn unordered(&mut self, span: Span, generation: Generation) -> SyntaxResult<()> {
        if generation != Generation::V5 {
            return Err(SyntaxError::new(span, "`unordered` exists on v5 only"));
        }
        self.set_wait(span)?;
        self.events.wait_mode = 0xfe;
        Ok(())
    }

    /// The block that was read.
    ///
    /// # Errors
    /// A wait and an update that need two values where the block has one.
    pub fn finish(self, dialect: Dialect) -> SyntaxResult<Events> {
        let mut events = self.events;
        let value = |v: Option<(u32, Span)>| v.map_or(0, |v| v.0);
        events.wait_value = value(self.wait_value);
        events.update_value = value(self.update_value);
        if dialect == Dialect::Shared {
            if let (Some((wait, _)), Some((update, span))) = (self.wait_value, self.update_value)
                && wait != update
            {
                let message = format!(
                    "the wait needs the value {wait:#x} and the update {update:#x}, but one word \
                     carries one value for both"
                );
                return Err(SyntaxError::new(span, message)
                    .help("use ++ or --, or put one of them into an EVENT_SEMAPHORE"));
            }
            let shared = self.wait_value.or(self.update_value).map_or(0, |v| v.0);
            events.wait_value = shared;
            events.update_value = shared;
        }
        Ok(events)
    }

    /// True if a wait or an update was read.
    pub fn used(&self) -> bool {
        self.wait.is_some() || self.update.is_some()
    }
}

/// `[number or name]`, and the profiler's `(name)` after it.
pub fn index(cursor: &mut Cursor<'_, '_>, is_event: bool, env: &dyn Env) -> SyntaxResult<u8> {
    cursor.expect("[")?;
    let named = cursor.peek().filter(|t| t.kind == Kind::Ident).and_then(|t| {
        let closed = cursor.peek_at(1).is_some_and(|next| next.text == "]");
        let number = if is_event { env.event(t.text) } else { env.semaphore(t.text) };
        if closed { number } else { None }
    });
    let number = match named {
        Some(number) => {
            let span = cursor.span();
            cursor.next();
            u8::try_from(number).map_err(|_| SyntaxError::new(span, "out of range 0 to 255"))?
        }
        None => integer(cursor, env, 0, 255)? as u8,
    };
    cursor.expect("]")?;
    if cursor.is("(") {
        skip_name(cursor)?;
    }
    Ok(number)
}

fn skip_name(cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
    cursor.expect("(")?;
    while !cursor.is(")") {
        if cursor.next().is_none() {
            return Err(cursor.wanted("`)`"));
        }
    }
    cursor.expect(")")
}

fn operand(
    cursor: &mut Cursor<'_, '_>,
    env: &dyn Env,
    offset: bool,
) -> SyntaxResult<(Operand, u32, Span)> {
    let start = cursor.span();
    let (operand, value) = match register(cursor, env)? {
        None => (Operand::Immediate, integer(cursor, env, 0, u32::MAX.into())? as u32),
        Some(number) if offset && cursor.eat("+") => {
            let offset = integer(cursor, env, 0, 0xff_ffff)? as u32;
            (Operand::RegisterOffset, u32::from(number) | offset << 8)
        }
        Some(number) => (Operand::Register, u32::from(number)),
    };
    Ok((operand, value, start.to(cursor.previous())))
}

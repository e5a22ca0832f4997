//! Wait and update modes, decoded from an instruction's events block.
//!
//! (wiki: neff/seq-microcode; collectives/ops/core-barrier; collectives/ops/sync-barrier;
//! uarch/per-engine-depth)

use std::fmt;

use smallvec::SmallVec;

use super::state::SyncId;
use crate::error::{Error, Result};
use crate::isa::{Generation, RawEvents};

/// How a semaphore is compared. All compares are unsigned (OPEN: sync choice 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Compare {
    /// `==`
    Eq,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Compare {
    /// Whether `value <compare> operand`.
    pub fn holds(self, value: u32, operand: u32) -> bool {
        match self {
            Compare::Eq => value == operand,
            Compare::Lt => value < operand,
            Compare::Le => value <= operand,
            Compare::Gt => value > operand,
            Compare::Ge => value >= operand,
        }
    }

    /// Operator as printed.
    pub fn symbol(self) -> &'static str {
        match self {
            Compare::Eq => "==",
            Compare::Lt => "<",
            Compare::Le => "<=",
            Compare::Gt => ">",
            Compare::Ge => ">=",
        }
    }

    /// Compare of the low bits of a semaphore wait mode.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Compare::Eq,
            2 => Compare::Lt,
            3 => Compare::Le,
            4 => Compare::Gt,
            5 => Compare::Ge,
            _ => return None,
        })
    }
}

/// Where the number of a wait or an update comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Operand {
    /// The value itself.
    Immediate(u32),
    /// A sequencer register; its number is the low byte of the value field (OPEN: sync choice 4).
    Register(u8),
    /// v5: a register plus a 24-bit offset, modulo 2^32 (OPEN: sync choice 5).
    RegisterOffset(u8, u32),
}

impl Operand {
    /// The number, with registers read through `register`.
    ///
    /// # Errors
    /// What `register` raises.
    pub fn value(self, register: impl Fn(u8) -> Result<u32>) -> Result<u32> {
        match self {
            Operand::Immediate(v) => Ok(v),
            Operand::Register(r) => register(r),
            Operand::RegisterOffset(r, off) => Ok(register(r)?.wrapping_add(off)),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Immediate(v) => write!(f, "{v}"),
            Operand::Register(r) => write!(f, "R{r}"),
            Operand::RegisterOffset(r, off) => write!(f, "R{r}+{off}"),
        }
    }
}

/// What an event wait does to the event in the same atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum EventAction {
    /// Leaves it.
    Keep,
    /// Inverts it: consumes a set event, claims a clear one.
    Flip,
}

/// A condition before issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Semaphore compare.
    Semaphore(u16, Compare, Operand),
    /// Event is set (`true`) or clear (`false`), then the action.
    Event(u16, bool, EventAction),
}

impl Wait {
    /// The event or semaphore it looks at.
    pub fn id(&self) -> SyncId {
        match *self {
            Wait::Semaphore(i, ..) => SyncId::Semaphore(i),
            Wait::Event(i, ..) => SyncId::Event(i),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Semaphore(i, c, v) => write!(f, "$S[{i}]{}{v}", c.symbol()),
            Wait::Event(i, set, action) => {
                write!(f, "$E[{i}]=={}", u8::from(*set))?;
                match (action, set) {
                    (EventAction::Keep, _) => Ok(()),
                    (EventAction::Flip, true) => write!(f, " then clear"),
                    (EventAction::Flip, false) => write!(f, " then set"),
                }
            }
        }
    }
}

/// When an update fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// The sources have been read.
    Read,
    /// The results are observed.
    Complete,
}

/// What an update does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum UpdateKind {
    /// Sets an event.
    Set,
    /// Clears an event.
    Clear,
    /// Adds to a semaphore.
    Add(Operand),
    /// Subtracts from a semaphore.
    Sub(Operand),
    /// Writes a semaphore.
    Write(Operand),
}

/// An update of an event or semaphore by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Update {
    /// Which one.
    pub id: SyncId,
    /// What is done to it.
    pub kind: UpdateKind,
    /// When.
    pub when: When,
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        match self.kind {
            UpdateKind::Set => write!(f, "=1"),
            UpdateKind::Clear => write!(f, "=0"),
            UpdateKind::Add(Operand::Immediate(1)) => write!(f, "++"),
            UpdateKind::Sub(Operand::Immediate(1)) => write!(f, "--"),
            UpdateKind::Add(v) => write!(f, "+={v}"),
            UpdateKind::Sub(v) => write!(f, "-={v}"),
            UpdateKind::Write(v) => write!(f, "={v}"),
        }?;
        f.write_str(match self.when {
            When::Read => "@read",
            When::Complete => "@complete",
        })
    }
}

/// The whole sync part of an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// Conditions that must hold together.
    pub waits: SmallVec<[Wait; 1]>,
    /// Updates.
    pub updates: SmallVec<[Update; 1]>,
    /// v5 UNORDERED: not ordered behind older waits.
    pub unordered: bool,
}

impl Sync {
    /// Decodes an events block of `generation`. `events8` is true for V1 words in the 8-byte
    /// dialect, whose modes are those of v2.
    ///
    /// # Errors
    /// `valid_event_modes` for a mode the generation does not have.
    pub fn decode(generation: Generation, events8: bool, raw: &RawEvents) -> Result<Sync> {
        let mut sync = Sync::default();
        if generation == Generation::V1 && !events8 {
            sync.add_v1(raw)?;
        } else {
            let g = generation.max(Generation::V2);
            sync.add_wait(g, raw.wait_mode, raw.wait_idx, raw.value)?;
            sync.add_update(g, raw.update_mode, raw.update_idx, raw.value)?;
        }
        Ok(sync)
    }

    fn add_v1(&mut self, raw: &RawEvents) -> Result<()> {
        let wait = u16::from(raw.wait_idx);
        match raw.wait_mode {
            0 => {}
            1 => self.waits.push(Wait::Event(wait, true, EventAction::Keep)),
            2 => self.waits.push(Wait::Event(wait, true, EventAction::Flip)),
            m => return Err(bad_mode("wait", m, Generation::V1)),
        }
        let id = SyncId::Event(u16::from(raw.update_idx));
        let when = match raw.update_mode {
            0 => return Ok(()),
            1 => When::Read,
            2 | 3 => When::Complete,
            m => return Err(bad_mode("update", m, Generation::V1)),
        };
        self.updates.push(Update { id, kind: UpdateKind::Set, when });
        Ok(())
    }

    /// Adds the wait of one block: `mode`, index and value field.
    ///
    /// # Errors
    /// `valid_event_modes`.
    pub fn add_wait(
        &mut self,
        generation: Generation,
        mode: u8,
        idx: u8,
        value: u32,
    ) -> Result<()> {
        let i = u16::from(idx);
        let v5 = generation == Generation::V5;
        let wait = match mode {
            0 => return Ok(()),
            0xFE if v5 => {
                self.unordered = true;
                return Ok(());
            }
            1..=5 => Wait::Semaphore(i, compare(mode), Operand::Immediate(value)),
            0x81..=0x85 => Wait::Semaphore(i, compare(mode), Operand::Register(value as u8)),
            0x91..=0x95 if v5 => {
                Wait::Semaphore(i, compare(mode), Operand::RegisterOffset(value as u8, value >> 8))
            }
            6 if !v5 => Wait::Event(i, true, EventAction::Keep),
            7 if !v5 => Wait::Event(i, true, EventAction::Flip),
            0x0E if !v5 => Wait::Event(i, false, EventAction::Keep),
            0x0F if !v5 => Wait::Event(i, false, EventAction::Flip),
            m => return Err(bad_mode("wait", m, generation)),
        };
        self.waits.push(wait);
        Ok(())
    }

    /// Adds the update of one block: `mode`, index and value field.
    ///
    /// # Errors
    /// `valid_event_modes`.
    pub fn add_update(
        &mut self,
        generation: Generation,
        mode: u8,
        idx: u8,
        value: u32,
    ) -> Result<()> {
        if mode == 0 {
            return Ok(());
        }
        let when = if mode & 0x10 != 0 { When::Complete } else { When::Read };
        let number = if mode & 0x80 != 0 {
            Operand::Register(value as u8)
        } else {
            Operand::Immediate(value)
        };
        let one = UpdateKind::Add(Operand::Immediate(1));
        let event = generation != Generation::V5;
        let (semaphore, kind) = match mode & !0x10 {
            1 if event => (false, UpdateKind::Set),
            2 if event => (false, UpdateKind::Clear),
            3 => (true, one),
            4 => (true, UpdateKind::Sub(Operand::Immediate(1))),
            5 | 0x85 => (true, UpdateKind::Add(number)),
            7 | 0x87 => (true, UpdateKind::Sub(number)),
            9 | 0x89 => (true, UpdateKind::Write(number)),
            _ => return Err(bad_mode("update", mode, generation)),
        };
        let i = u16::from(idx);
        let id = if semaphore { SyncId::Semaphore(i) } else { SyncId::Event(i) };
        self.updates.push(Update { id, kind, when });
        Ok(())
    }
}

fn compare(mode: u8) -> Compare {
    Compare::from_code(mode & 0x0F).expect("caller matched 1..=5")
}

fn bad_mode(side: &str, mode: u8, generation: Generation) -> Error {
    Error::illegal("valid_event_modes", format!("{generation} has no {side} mode {mode:#04x}"))
}

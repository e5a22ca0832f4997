//! What each instruction of PE, ACT, DVE, POOL, SP and DMA does and what it costs.

pub mod act;
pub mod cost;
pub mod dge;
pub mod indirect;
mod indirection;
pub mod libraries;
pub mod observed;
pub mod operand;
pub mod pe;
pub mod state;
#[doc(hidden)]
pub mod testing;
pub mod vector;
pub mod work;

pub use cost::{CostQuery, CostRow};
pub use operand::Operand;
pub use state::EngineState;
pub use work::{
    DmaRequest, Env, Lane, Outcome, Pace, Prepared, Scratch, ShapeRegister, Transfer, Work,
};

use std::sync::LazyLock;

use crate::error::{Error, Result};
use crate::isa::Generation;

/// Decodes an instruction's operands into what it does.
pub type PrepareFn = fn(&Env<'_>) -> Result<Prepared>;

/// How far the emulator is with one opcode.
#[derive(Clone, Copy)]
pub enum Status {
    /// Executes.
    Done(PrepareFn),
    /// The sources do not say what it does: the missing fact and the page that lacks it.
    MissingSpecification(&'static str, &'static str),
    /// In the headers, but no firmware takes any word of it: rule and reason.
    Refused(&'static str, &'static str),
}

impl Status {
    /// The error that every word of an opcode named `name` meets, unless the opcode executes.
    pub fn refusal(self, name: &str, byte: u8) -> Option<Error> {
        match self {
            Status::Done(_) => None,
            Status::MissingSpecification(fact, page) => {
                Some(Error::missing_spec(format!("{name} {byte:#04x}: {fact}"), page))
            }
            Status::Refused(rule, reason) => {
                Some(Error::illegal(rule, format!("{name} {byte:#04x}: {reason}")))
            }
        }
    }
}

/// One row of a dispatch table.
#[derive(Clone, Copy)]
pub struct Op {
    /// Opcode byte.
    pub byte: u8,
    /// Mnemonic; the function has the same name in lower case.
    pub name: &'static str,
    /// What executes it.
    pub status: Status,
    /// Generations, as bits, in which it is not `status`, and what it is there.
    but: (u8, Status),
}

impl Op {
    /// An opcode that executes.
    pub const fn new(byte: u8, name: &'static str, prepare: PrepareFn) -> Op {
        Op::with(byte, name, Status::Done(prepare))
    }

    const fn with(byte: u8, name: &'static str, status: Status) -> Op {
        Op { byte, name, status, but: (0, status) }
    }

    /// An opcode of which no firmware takes any word: `rule` and `reason`.
    pub const fn refused(
        byte: u8,
        name: &'static str,
        rule: &'static str,
        reason: &'static str,
    ) -> Op {
        Op::with(byte, name, Status::Refused(rule, reason))
    }

    /// The same opcode, about which the sources lack `fact`, on `page`, in `generation`.
    pub const fn missing_on(
        self,
        generation: Generation,
        fact: &'static str,
        page: &'static str,
    ) -> Op {
        let but = (self.but.0 | 1 << generation.index(), Status::MissingSpecification(fact, page));
        Op { but, ..self }
    }

    /// An opcode about which the sources lack `fact`, on `page`.
    pub const fn missing(
        byte: u8,
        name: &'static str,
        fact: &'static str,
        page: &'static str,
    ) -> Op {
        Op::with(byte, name, Status::MissingSpecification(fact, page))
    }
}

/// The tables of all data-path opcodes; one per family, in the file that implements it.
const TABLES: &[&[Op]] = &[pe::OPS, act::OPS, vector::OPS, indirect::OPS, dge::OPS, libraries::OPS];

/// The row of data-path opcode `byte`, if the emulator has one. V1 shares the rows of the opcodes
/// it has in common with v2; the caller has checked that the generation has the opcode.
pub fn lookup(generation: Generation, byte: u8, name: &str) -> Option<Op> {
    static BY_BYTE: LazyLock<[Vec<&'static Op>; 256]> = LazyLock::new(|| {
        let mut rows = [const { Vec::new() }; 256];
        TABLES.iter().flat_map(|t| t.iter()).for_each(|op| rows[usize::from(op.byte)].push(op));
        rows
    });
    let op = **BY_BYTE[usize::from(byte)].iter().find(|op| op.name == name)?;
    let other = op.but.0 & 1 << generation.index() != 0;
    Some(if other { Op { status: op.but.1, ..op } } else { op })
}

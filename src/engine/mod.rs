//! What each instruction of PE, ACT, DVE, POOL, SP and DMA does and what it costs.

pub mod act;
pub mod cost;
pub mod dge;
pub mod indirect;
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
pub use work::{DmaRequest, Env, Lane, Outcome, Prepared, Scratch, ShapeRegister, Transfer, Work};

use std::sync::LazyLock;

use crate::error::Result;
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
}

impl Op {
    /// An opcode that executes.
    pub const fn new(byte: u8, name: &'static str, prepare: PrepareFn) -> Op {
        Op { byte, name, status: Status::Done(prepare) }
    }

    /// An opcode about which the sources lack `fact`, on `page`.
    pub const fn missing(
        byte: u8,
        name: &'static str,
        fact: &'static str,
        page: &'static str,
    ) -> Op {
        Op { byte, name, status: Status::MissingSpecification(fact, page) }
    }
}

/// The tables of all data-path opcodes; one per family, in the file that implements it.
const TABLES: &[&[Op]] = &[pe::OPS, act::OPS, vector::OPS, indirect::OPS, dge::OPS, libraries::OPS];

/// The row of data-path opcode `byte`, if the emulator has one. V1 shares the rows of the opcodes
/// it has in common with v2; the caller has checked that the generation has the opcode.
pub fn lookup(generation: Generation, byte: u8, name: &str) -> Option<&'static Op> {
    static BY_BYTE: LazyLock<[Vec<&'static Op>; 256]> = LazyLock::new(|| {
        let mut rows = [const { Vec::new() }; 256];
        TABLES.iter().flat_map(|t| t.iter()).for_each(|op| rows[usize::from(op.byte)].push(op));
        rows
    });
    let _ = generation;
    BY_BYTE[usize::from(byte)].iter().find(|op| op.name == name).copied()
}

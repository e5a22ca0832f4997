//! Instruction set as data: generations, opcode table, struct codec, validators, text syntax.

mod generation;

pub use generation::Generation;

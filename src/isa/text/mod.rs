//! Text syntax: tokens, expressions, operands, waits and updates, whole instructions.
//!
//! Everything is driven by the struct tables, so a new opcode needs no change here. Printing and
//! parsing are inverse: whatever a word holds, its text assembles to the same 64 bytes.
//! `docs/program-format.md` has the grammar.

mod addr;
mod builder;
pub mod dtype;
pub mod events;
pub mod expr;
pub mod inst;
pub mod lex;
mod link;
pub mod sp;
pub mod syntax;
#[cfg(test)]
mod tests;
mod value;

pub use addr::list;
pub use value::{hex, register};

//! POOL instructions that a loaded library executes instead of the built-in kernel.
//!
//! Which opcodes a library registers is known only once it is loaded, so the conductor asks the
//! cores before it issues a POOL instruction; programs without MODIFY_POOL_CONFIG never ask.

use std::sync::Arc;

use super::run::Machine;
use crate::engine::libraries::{CUSTOM_OP_HEADER, CUSTOM_OP_PAYLOAD, library_work};
use crate::error::Result;
use crate::isa::{Engine, op};

const POOL: usize = Engine::Pool as usize;

impl Machine {
    /// Whether the stream could have a library: POOL, in a program that loads one.
    pub(super) fn library_may_run(&self, s: usize, pc: usize) -> bool {
        s == POOL
            && pc < self.image.words[s].len()
            && self.image.first_library.is_some_and(|first| first < pc)
    }

    /// Whether a loaded library has a kernel for the word at `pc`.
    pub(super) fn library_runs(&self, s: usize, pc: usize) -> bool {
        if !self.library_may_run(s, pc) {
            return false;
        }
        let inst = &self.image.words[s][pc].inst;
        if inst.opcode() == op::MODIFY_POOL_CONFIG {
            return false;
        }
        // the load may still be under way on the engine's thread
        self.executor.wait(POOL, self.executor.next_ticket(POOL) - 1);
        self.executor.with_state(POOL, |state| state.libraries.has_kernel(inst))
    }

    /// Issues the word at `pc`, with the PAYLOADs that follow a custom operation's HEADER.
    pub(super) fn issue_library(&mut self, s: usize, pc: usize) -> Result<()> {
        let bytes = self.library_words(s, pc);
        let count = bytes.len();
        let work = Arc::new(library_work(bytes, &self.config));
        self.issue_work(s, pc, work, count, super::stream::Recipe::Library)
    }

    /// The word at `pc` and, behind a custom operation's HEADER, its PAYLOADs.
    pub(super) fn library_words(&self, s: usize, pc: usize) -> Vec<[u8; 64]> {
        let words = &self.image.words[s];
        let mut bytes = vec![words[pc].inst.bytes];
        if bytes[0][0] == CUSTOM_OP_HEADER {
            let payloads =
                words[pc + 1..].iter().take_while(|w| w.inst.opcode() == CUSTOM_OP_PAYLOAD);
            bytes.extend(payloads.map(|w| w.inst.bytes));
        }
        bytes
    }
}

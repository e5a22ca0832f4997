//! What the loader makes of host-only words (wiki: neff/seq-microcode 4; neff/format-reference 10).
//!
//! The vendor's runtime replaces pseudo words before a stream is staged. Here each word keeps its
//! place, so that program counters and branch distances stay those of the program file, and the
//! replacement is an action (OPEN: a real runtime moves words).

use super::model::Program;
use crate::error::{Error, Result};
use crate::isa::{Generation, Layout, StreamFormat, e, f, op, opcode};

/// What a word of a loaded stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowered {
    /// It is executed as it is.
    Word,
    /// A branch label: nothing, in no time.
    Nothing,
    /// A write to the tail doorbell of a queue that starts one block. The word's own wait gates it
    /// and its own update fires when the doorbell is written.
    DmaTrigger {
        /// Position in [`Program::queues`].
        queue: usize,
        /// Position in [`Program::blocks`].
        block: usize,
    },
    /// A timed stall that lets the last partition catch up before a DMA: NOP(NUM_ROWS).
    DmaBarrier,
    /// End of the stream.
    End,
}

/// The layout of a program's 64-byte words.
pub fn layout(program: &Program) -> Layout {
    match program.generation {
        Generation::V1 if program.v1_events8 => Layout::V1Wide,
        generation => Layout::of(generation),
    }
}

/// Lowers one word.
///
/// # Errors
/// A trigger of an unknown queue or block, a host-only word without a lowering.
pub fn lower(program: &Program, word: &[u8; 64]) -> Result<Lowered> {
    // The pseudo band (wiki: neff/seq-microcode 1.4).
    if word[0] >> 5 != 0b110 {
        return Ok(Lowered::Word);
    }
    match word[0] {
        op::PSEUDO_DMATRIGGER => trigger(program, word),
        // (wiki: collectives/ops/core-barrier 7)
        op::PSEUDO_DMABARRIER => Ok(Lowered::DmaBarrier),
        // V1 has no such words (wiki: generations/cross-gen-opcode-diff 5.3).
        op::PSEUDO_BRANCH_LABEL if program.generation != Generation::V1 => Ok(Lowered::Nothing),
        op::PSEUDO_INST if program.generation != Generation::V1 => match word[12] {
            e::pseudo_opcode::PSEUDO_EXIT_EXECUTION => Ok(Lowered::End),
            other => Err(Error::unimplemented(format!(
                "pseudo opcode {other} of PSEUDO_INST 0xdf (1 ends execution)"
            ))),
        },
        byte => {
            let name = opcode(program.generation, byte)?.name;
            let message = format!("{} {byte:#04x}: no lowering of this host-only word", name);
            Err(Error::unimplemented(message)
                .help("write the device instructions that the runtime would put in its place"))
        }
    }
}

fn trigger(program: &Program, word: &[u8; 64]) -> Result<Lowered> {
    let inst = StreamFormat { generation: program.generation, wide_events: program.v1_events8 }
        .word(*word);
    let name = inst.slice(f::pseudo_dma_trigger::QUEUE_NAME);
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let name = String::from_utf8_lossy(&name[..end]);
    if name.is_empty() {
        // Third of the word's validity conditions (wiki: neff/seq-microcode 5).
        return Err(Error::illegal("dma_queue_name", "a DMA trigger without a queue name"));
    }
    if inst.get(f::pseudo_dma_trigger::USE_RAW_COUNT) != 0 {
        return Err(Error::missing_spec(
            "what a DMA trigger with use_raw_count starts",
            "wiki: neff/seq-microcode 5",
        ));
    }
    let queue = program.queue(&name).ok_or_else(|| {
        let message = format!("a DMA trigger names the queue `{name}`, which is not declared");
        Error::new(crate::error::ErrorClass::ProgramError, message)
    })?;
    let id = inst.get(f::pseudo_dma_trigger::BLOCK_ID_OR_COUNT);
    let block = program.blocks.iter().position(|b| b.queue == queue && u64::from(b.id) == id);
    let block = block.ok_or_else(|| {
        let message =
            format!("a DMA trigger names block {id} of queue `{name}`, which does not exist");
        Error::new(crate::error::ErrorClass::ProgramError, message)
    })?;
    Ok(Lowered::DmaTrigger { queue, block })
}

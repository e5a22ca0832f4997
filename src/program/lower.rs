//! What the loader makes of host-only words (wiki: neff/seq-microcode 4; neff/format-reference 10).
//!
//! The vendor's runtime replaces pseudo words before a stream is staged. Here each word keeps its
//! place, so that program counters and branch distances stay those of the program file, and the
//! replacement is an action (OPEN: a real runtime moves words).

use super::model::{Memory, Program};
use crate::error::{Error, Result};
use crate::isa::{Generation, Inst, Layout, StreamFormat, e, f, op, op_v1, opcode};

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
    /// Another word in its place.
    Replace([u8; 64]),
}

/// The layout of a program's 64-byte words.
pub fn layout(program: &Program) -> Layout {
    match program.generation {
        Generation::V1 if program.v1_events8 => Layout::V1Wide,
        generation => Layout::of(generation),
    }
}

/// Lowers word `pc` of `words`; a word that extends the one before it goes with that one.
///
/// # Errors
/// A trigger of an unknown queue or block, a host-only word without a lowering.
pub fn lower(program: &Program, words: &[[u8; 64]], pc: usize) -> Result<Lowered> {
    let Some(word) = words.get(pc) else {
        return Err(Error::internal(format!("word {pc} of a stream of {}", words.len())));
    };
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
            other => {
                let (fact, page) = missing(program.generation, op::PSEUDO_INST);
                Err(Error::missing_spec(format!("PSEUDO_INST 0xdf form {other}: {fact}"), page))
            }
        },
        op::PSEUDO_LOAD_ACT_FUNC_SET => function_set(program, word),
        // (wiki: firmware/seq/branch-prefetch 3): a hint changes nothing
        op::PSEUDO_BRANCH_PREFETCH_HINT if program.generation != Generation::V1 => {
            Ok(Lowered::Replace(nop(program, word)))
        }
        op::PSEUDO_TENSOR_LOAD | op::PSEUDO_TENSOR_STORE
            if program.generation != Generation::V1 =>
        {
            variable(program, word)
        }
        // OPEN: the raw opcode has no struct of its own and takes that of the host form
        // (wiki: firmware/kernels/indirection-gather)
        op::PSEUDO_EMBEDDING_UPDATE if program.generation != Generation::V1 => {
            let mut word = *word;
            word[0] = op::EMBEDDING_UPDATE;
            Ok(Lowered::Replace(word))
        }
        op::PSEUDO_DMA_DIRECT2D if program.generation != Generation::V1 => {
            descriptors(word, words.get(pc + 1))
        }
        op::PSEUDO_EXTENSION
            if program.generation != Generation::V1
                && pc.checked_sub(1).and_then(|p| words.get(p)).is_some_and(extends) =>
        {
            // its own bytes are no events
            let mut label = [0; 64];
            label[0] = op::PSEUDO_BRANCH_LABEL;
            Ok(Lowered::Replace(label))
        }
        byte => {
            let name = opcode(program.generation, byte)?.name;
            let (fact, page) = missing(program.generation, byte);
            Err(Error::missing_spec(format!("{name} {byte:#04x}: {fact}"), page)
                .help("write the device instructions that the runtime would put in its place"))
        }
    }
}

/// What the sources lack about the lowering of a host-only opcode.
pub fn missing(generation: Generation, byte: u8) -> (&'static str, &'static str) {
    const RUNTIME: &str = "neuronx-runtime isa/pseudo-instruction-lowering";
    if generation == Generation::V1 {
        return ("the layout of its operands", "neff/seq-microcode 1.4");
    }
    match byte {
        op::PSEUDO_DMAMEMCPY_FULL_IND => {
            ("the layout of its operands", "firmware/kernels/indirection-gather")
        }
        op::PSEUDO_SET_RNG_SEED => (
            "which state words the runtime makes of the seed",
            "firmware/kernels/rng-seed-state-ops",
        ),
        op::PSEUDO_FUNCTION_BEGIN | op::PSEUDO_FUNCTION_RETURN | op::PSEUDO_FUNCTION_CALL => (
            "the order of drains, barriers and register branches around a call",
            "neuronx-runtime isa/instruction-record 2",
        ),
        op::PSEUDO_DMA_DIRECT2D => (
            "the bytes that the runtime writes into the transposing device words",
            "collectives/ops/rdma-dma-pseudo-ops 11",
        ),
        op::PSEUDO_SYNC_BARRIER => (
            "which events the barrier takes, and what keeps a fast engine from setting one twice",
            "collectives/ops/sync-barrier 6",
        ),
        op::PSEUDO_CORE_BARRIER => (
            "which core resets the semaphore of a barrier of several cores (the emulator has one)",
            "collectives/ops/core-barrier 5",
        ),
        op::PSEUDO_TRIGGER_ALL_REDUCE
        | op::PSEUDO_TRIGGER_COLLECTIVE
        | op::PSEUDO_TRIGGER_COLLECTIVE2
        | op::PSEUDO_EXTENSION
        | op::PSEUDO_SEND_RECV => (
            "the transfers between cores that the runtime plans behind the one trigger word",
            "neuronx-runtime isa/pseudo-instruction-lowering 3",
        ),
        op::PSEUDO_CUR_PROCESSING_RANK_ID | op::PSEUDO_GID_LOAD => {
            ("where the word names the destination of the number it loads", RUNTIME)
        }
        op::PSEUDO_INST => {
            ("where a library reload names its library", "neuronx-runtime isa/instruction-record 5")
        }
        _ => ("the layout of its operands", RUNTIME),
    }
}

/// Whether a PSEUDO_EXTENSION behind `word` belongs to it.
fn extends(word: &[u8; 64]) -> bool {
    word[0] == op::PSEUDO_DMA_DIRECT2D && word[15] == e::dge_opcode::DMA_INDIRECT1D
}

/// PSEUDO_DMA_DIRECT2D: the device word that its `dge_op` names. The direct copy has the bytes of
/// the pseudo word; the indirect one takes its indices from the extension word that follows.
/// (wiki: collectives/ops/rdma-dma-pseudo-ops 5)
fn descriptors(word: &[u8; 64], next: Option<&[u8; 64]>) -> Result<Lowered> {
    const PAGE: &str = "collectives/ops/rdma-dma-pseudo-ops 5";
    let lacking = |fact: &str| {
        Err(Error::missing_spec(format!("PSEUDO_DMA_DIRECT2D 0xd4: {fact}"), PAGE)
            .help("write the device instructions that the runtime would put in its place"))
    };
    // an address that names a variable has bit 4 of its last byte set
    if word[23] & 0x10 != 0 || word[47] & 0x10 != 0 {
        return lacking("how an address word packs a variable's number and the offset in it");
    }
    let mut device = *word;
    match word[15] {
        e::dge_opcode::DMA_DIRECT2D => {
            device[0] = op::DMAMEMCPY;
            device[15] = e::dge_compute_op::NONE;
        }
        e::dge_opcode::DMA_INDIRECT1D => {
            let Some(ext) = next.filter(|w| w[0] == op::PSEUDO_EXTENSION) else {
                return Err(Error::illegal(
                    "pseudo_extension",
                    "an indirect PSEUDO_DMA_DIRECT2D is followed by a PSEUDO_EXTENSION",
                ));
            };
            // sizes of the two sides in bytes, low and high halves
            if ext[12..20].iter().chain(&ext[56..64]).any(|b| *b != 0) {
                return lacking("the bound checks that the runtime inserts for sizes in bytes");
            }
            device[0] = op::DMA_INDIRECT;
            device[12..64].fill(0);
            let mut put = |to: usize, from: &[u8]| {
                device[to..to + from.len()].copy_from_slice(from);
            };
            put(12, &word[13..15]); // semaphore and increment
            put(14, &[ext[2], ext[1]]); // channels of the indices, flags
            put(16, &word[16..28]); // source: address and step
            put(28, &word[32..34]); // count
            put(30, &word[36..38]); // element size
            put(32, &word[40..52]); // destination
            put(44, &word[56..58]);
            put(46, &word[60..62]);
            put(48, &ext[4..12]); // addresses of the indices
            put(56, &word[62..64]); // types
            put(58, &word[38..40]); // bound registers
            put(60, &[ext[3], word[12]]); // operation, priority
        }
        _ => {
            let (fact, page) = missing(Generation::V3, op::PSEUDO_DMA_DIRECT2D);
            return Err(Error::missing_spec(format!("PSEUDO_DMA_DIRECT2D 0xd4: {fact}"), page)
                .help("write the device instructions that the runtime would put in its place"));
        }
    }
    Ok(Lowered::Replace(device))
}

/// A NOP with the events of `word`.
fn nop(program: &Program, word: &[u8; 64]) -> [u8; 64] {
    let mut nop = [0; 64];
    let v1 = program.generation == Generation::V1;
    nop[..12].copy_from_slice(&word[..12]);
    if v1 && !program.v1_events8 {
        nop[8..12].fill(0);
    }
    nop[0] = if v1 { op_v1::NOP } else { op::NOP };
    nop
}

/// PSEUDO_LOAD_ACT_FUNC_SET: the runtime brings a table set and makes it resident. Without table
/// sets in the program functions have their closed forms and nothing is left to do.
/// (wiki: firmware/kernels/activate-pwl 5.3)
fn function_set(program: &Program, word: &[u8; 64]) -> Result<Lowered> {
    let mut replaced = nop(program, word);
    if program.table_sets.is_empty() {
        return Ok(Lowered::Replace(replaced));
    }
    if program.generation == Generation::V1 {
        return Err(Error::missing_spec(
            "how v1 makes an activation table set resident",
            "firmware/kernels/activate-pwl 5.3",
        ));
    }
    let name: Vec<u8> = word[12..44].iter().copied().take_while(|b| *b != 0).collect();
    let name = String::from_utf8_lossy(&name);
    let set = program.table_names.get(&*name).ok_or_else(|| {
        let message = format!("the activation table set `{}` is not declared", name.escape_debug());
        Error::new(crate::error::ErrorClass::ProgramError, message)
            .help("name a set with `.act_tables N named NAME`")
    })?;
    replaced[0] = op::ACTIVATION_TABLE_LOAD;
    let mut inst = Inst::new(program.generation, replaced);
    inst.set(f::ctrl_no::TABLE_SET, u64::from(*set));
    Ok(Lowered::Replace(inst.bytes))
}

/// PSEUDO_TENSOR_LOAD and PSEUDO_TENSOR_STORE: the loader puts the address of a variable into the
/// word. OPEN: variable n is the n-th tensor that the program declares, and lies in HBM.
/// (wiki: firmware/kernels/tensorload 3)
fn variable(program: &Program, word: &[u8; 64]) -> Result<Lowered> {
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| word[at + i]));
    let (id, offset) = (number(16), number(20));
    let bad = |m: String| Error::new(crate::error::ErrorClass::ProgramError, m);
    let tensor = program
        .tensors
        .get(id as usize)
        .filter(|t| t.memory == Memory::Hbm)
        .ok_or_else(|| bad(format!("variable {id} is no tensor in hbm")))?;
    if u64::from(offset) >= tensor.bytes() {
        let size = tensor.bytes();
        return Err(bad(format!("byte {offset} of `{}`, which has {size}", tensor.name)));
    }
    let mut word = *word;
    word[0] = match word[0] {
        op::PSEUDO_TENSOR_LOAD => op::TENSOR_LOAD,
        _ => op::TENSOR_STORE,
    };
    let address = tensor.address.wrapping_add(offset.into());
    word[16..24].copy_from_slice(&address.to_le_bytes());
    Ok(Lowered::Replace(word))
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

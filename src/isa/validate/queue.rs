//! Which stream may carry which opcode (wiki: appendix/opcode-kernel-engine-matrix;
//! uarch/per-engine-depth; neff/seq-microcode 2).

use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::{Class, Home, OpcodeDef};
use crate::isa::generation::{Engine, Generation};
use crate::isa::tables::{e, op};

rules! {
    QUEUE "opcode_legal_on_engine" "neuronx-runtime isa/validator-architecture"
        "the opcode must be legal on the engine whose stream carries it";
    LOWERED "pseudo_not_lowered" "neff/seq-microcode"
        "host-only records are rewritten by the loader and never reach an engine";
    SIMULATOR "simulator_only" "generations/cross-gen-opcode-diff 5.3"
        "SIM opcodes do not exist in hardware";
}

/// Streams that may carry `def` in `generation`.
pub(super) fn legal(def: &OpcodeDef, generation: Generation, engine: Engine) -> bool {
    if generation == Generation::V1 {
        return match def.engines {
            "PE" => engine == Engine::Pe,
            "ACT" => engine == Engine::Act,
            "POOL" => engine == Engine::Pool,
            _ => matches!(engine, Engine::Pe | Engine::Act | Engine::Pool),
        };
    }
    // v5 has no activation engine; its opcodes moved to the vector engine
    // (wiki: generations/maverick-profile 3).
    if generation == Generation::V5 && engine == Engine::Act {
        return false;
    }
    match def.engine {
        Home::Seq if engine == Engine::Sp => sp_has(def.byte, generation),
        Home::Seq | Home::Pseudo => true,
        // v2 runs descriptor-backed opcodes as Q7 kernels, later ones from every sequencer
        // (wiki: generations/sunda-v2-baseline 3a; generations/mariana-plus-delta).
        Home::Dma => generation > Generation::V2 || engine == Engine::Pool,
        Home::Pe => engine == Engine::Pe,
        Home::Act if generation == Generation::V5 => engine == Engine::Dve,
        Home::Act => engine == Engine::Act,
        Home::Pool | Home::Dve => vector_queue(def, generation, engine),
        Home::Sim | Home::None => false,
    }
}

/// The sequencer-only engine's table lists fewer synchronisation opcodes on the older generations
/// (wiki: uarch/per-engine-depth 7; v2 OPEN: as v3).
fn sp_has(byte: u8, generation: Generation) -> bool {
    match byte {
        op::POLL_SEM => generation >= Generation::V4Plus,
        op::EVENT_SEMAPHORE_RANGE_CLEAR => generation >= Generation::V4,
        op::LOAD_PARAMETER_RAM | op::LOAD_MASK_SELECT => false,
        _ => true,
    }
}

/// POOL and DVE share the compute opcodes of the two vector bands, since the sources give both as
/// executors; the others stay with their own engine (OPEN).
fn vector_queue(def: &OpcodeDef, generation: Generation, engine: Engine) -> bool {
    let own = match def.engine {
        Home::Pool => Engine::Pool,
        _ => Engine::Dve,
    };
    if engine == own {
        return true;
    }
    let shared = matches!(def.byte, 0x41..=0x9E | 0xE4..=0xEA) && def.class == Class::Compute;
    match engine {
        Engine::Pool | Engine::Dve if shared => true,
        Engine::Dve => def.byte == op::POOL_BUFFER_LOAD && generation > Generation::V2,
        Engine::Act => match def.byte {
            op::TENSOR_SCALAR_ARITH_OP | op::COPY | op::CAST => true,
            op::RAND_GET_STATE | op::RAND_SET_STATE => {
                matches!(generation, Generation::V4 | Generation::V4Plus)
            }
            _ => false,
        },
        // The conversion table of the PE (wiki: firmware/kernels/convlutload).
        Engine::Pe => def.byte == op::CONV_LUT_LOAD && generation >= Generation::V4,
        _ => false,
    }
}

pub(super) fn check(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let (generation, engine) = (cx.generation(), cx.engine);
    cx.require(&SIMULATOR, def.class != Class::Simulator, String::new)?;
    // The exit marker stays in the stream (wiki: neuronx-runtime isa/instruction-record).
    let exit = generation != Generation::V1
        && def.byte == op::PSEUDO_INST
        && cx.inst.u8(12) == e::pseudo_opcode::PSEUDO_EXIT_EXECUTION;
    cx.require(&LOWERED, def.class != Class::Pseudo || exit, String::new)?;
    let legal = legal(def, generation, engine) || def.class == Class::Simulator;
    cx.require(&QUEUE, legal, || format!("it is not on {engine} of {generation}"))
}

//! Programs of any length for the benches: small instructions with a wait and an update each.

use tpbemu::isa::{Engine, Generation, Inst, RawEvents, TensorPattern, f, op};
use tpbemu::program::Program;

const G: Generation = Generation::V3;

/// Modes of the events block.
const WAIT_SEMAPHORE_GE: u8 = 5;
const WAIT_SEMAPHORE_GE_REGISTER: u8 = 0x85;
const WAIT_EVENT_SET_THEN_CLEAR: u8 = 7;
const ADD_AT_END: u8 = 0x13;
const SET_AT_END: u8 = 0x11;

/// Register that counts the rounds of a loop, and the one that counts what a wait looks for.
const ROUNDS: u8 = 5;
const WAITED: u8 = 6;
/// Data instructions in the body of a loop.
const BODY: u32 = 16;

/// The shapes of program that the benches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight line: DVE and POOL in turn, each word waits for the other's semaphore and counts
    /// its own up.
    Chain,
    /// The same with sequencer words only: no data path.
    ChainControl,
    /// A loop on both engines; the waits consume events.
    LoopEvents,
    /// A loop on both engines; the waits look for a register's value, which a word counts up.
    LoopSemaphores,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 4] =
        [Shape::Chain, Shape::ChainControl, Shape::LoopEvents, Shape::LoopSemaphores];

    /// Name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Chain => "chain",
            Shape::ChainControl => "chain-control",
            Shape::LoopEvents => "loop-events",
            Shape::LoopSemaphores => "loop-semaphores",
        }
    }

    /// A program of this shape with about `instructions` executed instructions.
    pub fn program(self, instructions: u32) -> Program {
        let mut program = Program::new(G);
        for (mine, other) in [(0, 1), (1, 0)] {
            let words = match self {
                Shape::Chain => chain(mine, other, instructions / 2, small),
                Shape::ChainControl => chain(mine, other, instructions / 2, |_| nop()),
                Shape::LoopEvents => loop_events(mine, other, instructions / 2),
                Shape::LoopSemaphores => loop_semaphores(mine, other, instructions / 2),
            };
            let engine = if mine == 0 { Engine::Dve } else { Engine::Pool };
            program.stream_mut(engine).words = words.iter().map(|w| w.bytes).collect();
        }
        program
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn nop() -> Inst {
    Inst::empty(G, op::NOP)
}

/// `side`'s eight elements become the other side's, doubled.
pub fn small(side: u8) -> Inst {
    let mut inst = Inst::empty(G, op::TENSOR_SCALAR_ARITH_OP);
    let at = |a: u32| TensorPattern::at(a, &[(1, 8), (0, 1), (0, 1)]);
    let (from, to) = (64 * u32::from(1 - side), 64 * u32::from(side));
    inst.set_tensor(f::s3d3_ts::SRC, &at(from)).expect("source");
    inst.set_tensor(f::s3d3_ts::DST, &at(to)).expect("destination");
    inst.set(f::s3d3_ts::IN_DTYPE, 10);
    inst.set(f::s3d3_ts::OUT_DTYPE, 10);
    inst.set(f::s3d3_ts::NUM_ACTIVE_CHANNELS, 1);
    inst.set(f::s3d3_ts::OP0, 4);
    inst.set(f::s3d3_ts::IMM0, u64::from(1f32.to_bits()));
    inst
}

fn with_events(mut inst: Inst, wait: (u8, u8), update: (u8, u8), value: u32) -> Inst {
    inst.set_events(RawEvents {
        wait_mode: wait.0,
        wait_idx: wait.1,
        update_mode: update.0,
        update_idx: update.1,
        value,
    })
    .expect("a word with events");
    inst
}

fn chain(mine: u8, other: u8, words: u32, word: impl Fn(u8) -> Inst) -> Vec<Inst> {
    let first = u32::from(mine);
    (0..words)
        .map(|i| {
            let wait = (WAIT_SEMAPHORE_GE, other);
            with_events(word(mine), wait, (ADD_AT_END, mine), i + first)
        })
        .collect()
}

fn set_register(register: u8, value: u32) -> Inst {
    let mut inst = Inst::empty(G, op::MOVE);
    inst.set(f::ctrl_mv::NUM_MOV, 1);
    inst.set(f::ctrl_mv::DTYPE, 9);
    inst.set(f::ctrl_mv::MOVE_SOURCE, 1);
    inst.bytes[24] = register;
    inst.bytes[32..36].copy_from_slice(&value.to_le_bytes());
    inst
}

/// `register += by`, by ALU operation 4 (add) or 5 (subtract).
fn count(register: u8, operation: u64, by: u64) -> Inst {
    let mut inst = Inst::empty(G, op::ALU_OP);
    inst.set(f::ctrl_al::OP, operation);
    inst.set(f::ctrl_al::DTYPE, 8);
    inst.set(f::ctrl_al::SRC1_DATASRC, 1);
    inst.set(f::ctrl_al::DST_DTYPE, 8);
    inst.set(f::ctrl_al::SRC0_REG_LO, u64::from(register));
    inst.set(f::ctrl_al::DST_REG_LO, u64::from(register));
    inst.set(f::ctrl_al::IMMEDIATE, by);
    inst
}

/// Back by `words` words while the round counter is above zero.
fn again(words: usize) -> Inst {
    let mut inst = Inst::empty(G, op::COMPARE_BRANCH);
    inst.set(f::ctrl_br::CMP_OP, 6);
    inst.set(f::ctrl_br::CMP_DTYPE, 8);
    inst.set(f::ctrl_br::TARGET_MODE, 3);
    inst.set(f::ctrl_br::CMP_REG0, u64::from(ROUNDS));
    inst.set(f::ctrl_br::BR_IMMEDIATE, u64::from((-64 * words as i32) as u32));
    inst
}

fn looped(start: Vec<Inst>, mut body: Vec<Inst>, instructions: u32) -> Vec<Inst> {
    let rounds = (instructions / (body.len() as u32 + 2)).max(1);
    body.push(count(ROUNDS, 5, 1));
    body.push(again(body.len()));
    start.into_iter().chain([set_register(ROUNDS, rounds)]).chain(body).collect()
}

fn loop_events(mine: u8, other: u8, instructions: u32) -> Vec<Inst> {
    // POOL says once that DVE may begin
    let start = if mine == 1 {
        vec![with_events(nop(), (0, 0), (SET_AT_END, mine), 0)]
    } else {
        Vec::new()
    };
    let wait = (WAIT_EVENT_SET_THEN_CLEAR, other);
    let body = vec![with_events(small(mine), wait, (SET_AT_END, mine), 0); BODY as usize];
    looped(start, body, instructions)
}

fn loop_semaphores(mine: u8, other: u8, instructions: u32) -> Vec<Inst> {
    let start = vec![set_register(WAITED, u32::from(mine))];
    // an immediate update beside a register wait is not legal: the update is a plain increment
    let wait = (WAIT_SEMAPHORE_GE_REGISTER, other);
    let body = (0..BODY)
        .flat_map(|_| {
            [
                with_events(small(mine), wait, (ADD_AT_END, mine), u32::from(WAITED)),
                count(WAITED, 4, 1),
            ]
        })
        .collect();
    looped(start, body, instructions)
}

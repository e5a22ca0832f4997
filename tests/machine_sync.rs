//! Waits, updates, DMA-free synchronisation and control flow on hand-made streams.

use std::sync::Arc;

use tpbemu::ErrorClass;
use tpbemu::isa::{Engine, Generation, Inst, RawEvents, f, op, op_v1};
use tpbemu::machine::{self, MachineConfig, Options, RunResult};
use tpbemu::program::Program;
use tpbemu::sync::SyncId;

fn word(generation: Generation, opcode: u8, wait: (u8, u8), update: (u8, u8), value: u32) -> Inst {
    let mut inst = Inst::empty(generation, opcode);
    inst.set_events(RawEvents {
        wait_mode: wait.0,
        wait_idx: wait.1,
        update_mode: update.0,
        update_idx: update.1,
        value,
    })
    .unwrap();
    inst
}

fn program(generation: Generation, streams: &[(Engine, Vec<Inst>)]) -> Arc<Program> {
    let mut p = Program::new(generation);
    for (engine, words) in streams {
        p.stream_mut(*engine).words.extend(words.iter().map(|w| w.bytes));
    }
    Arc::new(p)
}

fn run(p: &Arc<Program>) -> RunResult {
    let config = Arc::new(MachineConfig::builtin(p.generation));
    machine::run(Arc::clone(p), config, Options::default, |_, _| Vec::new(), false).unwrap()
}

const NONE: (u8, u8) = (0, 0);

#[test]
fn a_semaphore_releases_the_other_engine() {
    let g = Generation::V3;
    let p = program(
        g,
        &[
            (Engine::Pe, vec![word(g, op::NOP, NONE, (0x13, 7), 0); 3]),
            (Engine::Act, vec![word(g, op::NOP, (5, 7), (0x13, 8), 3)]),
        ],
    );
    let r = run(&p);
    assert!(r.finished.error.is_none(), "{:?}", r.finished.error);
    assert_eq!(r.finished.executed, 4);
    let sync = r.machine.sync_state();
    assert_eq!(sync.value(SyncId::Semaphore(7)).unwrap(), 3);
    assert_eq!(sync.value(SyncId::Semaphore(8)).unwrap(), 1);
}

#[test]
fn strictly_greater_is_not_greater_or_equal() {
    let g = Generation::V2;
    for (mode, deadlock) in [(4u8, true), (5, false)] {
        let p = program(
            g,
            &[
                (Engine::Pe, vec![word(g, op::NOP, NONE, (0x13, 1), 0)]),
                (Engine::Dve, vec![word(g, op::NOP, (mode, 1), NONE, 1)]),
            ],
        );
        let r = run(&p);
        assert_eq!(r.finished.error.is_some(), deadlock);
        if let Some(e) = r.finished.error {
            assert_eq!(e.class, ErrorClass::Deadlock);
            assert!(e.to_string().contains("$S[1]>1, it is 1, 1 short"), "{e}");
        }
    }
}

#[test]
fn v1_events_are_consumed_by_one_waiter() {
    let g = Generation::V1;
    let p = program(
        g,
        &[
            (Engine::Pe, vec![word(g, op_v1::NOP, NONE, (3, 9), 0)]),
            (Engine::Act, vec![word(g, op_v1::NOP, (2, 9), NONE, 0)]),
            (Engine::Pool, vec![word(g, op_v1::NOP, (2, 9), NONE, 0)]),
        ],
    );
    let r = run(&p);
    let e = r.finished.error.expect("one waiter is left");
    assert_eq!(e.class, ErrorClass::Deadlock);
    assert!(e.message.contains("POOL pc 0"), "the lower engine number wins: {e}");
    assert!(!e.message.contains("ACT pc 0"), "{e}");
}

#[test]
fn v1_barrier_chain_can_be_used_again() {
    let g = Generation::V1;
    let nop = |wait: u8, set: u8| {
        let w = if wait == 0 { NONE } else { (2, wait) };
        let s = if set == 0 { NONE } else { (3, set) };
        word(g, op_v1::NOP, w, s, 0)
    };
    let rounds = 50;
    let pe: Vec<Inst> = (0..rounds).flat_map(|_| [nop(0, 7), nop(12, 0)]).collect();
    let act: Vec<Inst> = (0..rounds).flat_map(|_| [nop(7, 8), nop(11, 12)]).collect();
    let pool: Vec<Inst> = (0..rounds).flat_map(|_| [nop(8, 11)]).collect();
    let r = run(&program(g, &[(Engine::Pe, pe), (Engine::Act, act), (Engine::Pool, pool)]));
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    assert_eq!(r.finished.executed, rounds * 5);
    assert_eq!(r.machine.sync_state().non_zero().count(), 0);
}

#[test]
fn a_circular_wait_is_named() {
    let g = Generation::V4;
    let p = program(
        g,
        &[
            (Engine::Pe, vec![word(g, op::NOP, (5, 1), (0x13, 2), 1)]),
            (Engine::Act, vec![word(g, op::NOP, (5, 2), (0x13, 3), 1)]),
            (Engine::Dve, vec![word(g, op::NOP, (5, 3), (0x13, 1), 1)]),
        ],
    );
    let e = run(&p).finished.error.unwrap();
    assert_eq!(e.class, ErrorClass::Deadlock);
    assert!(e.message.contains("cycle: PE -> DVE -> ACT -> PE"), "{e}");
}

/// Adds (4) or subtracts (5) one from R5, and counts semaphore 4 up.
fn by_one(g: Generation, operation: u64) -> Inst {
    let mut inst = word(g, op::ALU_OP, NONE, (0x13, 4), 0);
    inst.set(f::ctrl_al::OP, operation);
    inst.set(f::ctrl_al::DTYPE, 8);
    inst.set(f::ctrl_al::SRC1_DATASRC, 1);
    inst.set(f::ctrl_al::DST_DTYPE, 8);
    inst.set(f::ctrl_al::SRC0_REG_LO, 5);
    inst.set(f::ctrl_al::DST_REG_LO, 5);
    inst.set(f::ctrl_al::IMMEDIATE, 1);
    inst
}

#[test]
fn a_counted_loop_runs_its_branch() {
    let g = Generation::V3;
    let mut start = Inst::empty(g, op::MOVE);
    start.set(f::ctrl_mv::NUM_MOV, 1);
    start.set(f::ctrl_mv::DTYPE, 9);
    start.set(f::ctrl_mv::MOVE_SOURCE, 1);
    start.bytes[24] = 5;
    start.bytes[32] = 10;
    let decrement = by_one(g, 5);
    let mut branch = Inst::empty(g, op::COMPARE_BRANCH);
    branch.set(f::ctrl_br::CMP_OP, 6);
    branch.set(f::ctrl_br::CMP_DTYPE, 8);
    branch.set(f::ctrl_br::TARGET_MODE, 3);
    branch.set(f::ctrl_br::CMP_REG0, 5);
    branch.set(f::ctrl_br::BR_IMMEDIATE, u64::from((-64i32) as u32));
    let r = run(&program(g, &[(Engine::Sp, vec![start, decrement, branch])]));
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    assert_eq!(r.machine.sync_state().value(SyncId::Semaphore(4)).unwrap(), 10);
    assert_eq!(r.machine.registers(Engine::Sp)[5], 0);
    assert_eq!(r.finished.executed, 21);
}

#[test]
fn an_endless_loop_that_counts_reaches_the_limit() {
    let g = Generation::V3;
    let count = by_one(g, 4);
    let mut branch = Inst::empty(g, op::COMPARE_BRANCH);
    branch.set(f::ctrl_br::CMP_DTYPE, 8);
    branch.set(f::ctrl_br::TARGET_MODE, 3);
    branch.set(f::ctrl_br::BR_IMMEDIATE, u64::from((-64i32) as u32));
    let p = program(g, &[(Engine::Sp, vec![count, branch])]);
    let options = || Options { max_cycles: Some(10_000), ..Options::default() };
    let config = Arc::new(MachineConfig::builtin(g));
    let r = machine::run(p, config, options, |_, _| Vec::new(), false).unwrap();
    assert_eq!(r.finished.error.unwrap().class, ErrorClass::LimitReached);
}

#[test]
fn stepped_and_skipped_agree() {
    let g = Generation::V2;
    let pe: Vec<Inst> = (0..20).map(|i| word(g, op::NOP, (5, 2), (0x13, 1), i)).collect();
    let act: Vec<Inst> = (0..20).map(|i| word(g, op::NOP, (4, 1), (0x13, 2), i)).collect();
    let p = program(g, &[(Engine::Pe, pe), (Engine::Act, act)]);
    let config = Arc::new(MachineConfig::builtin(g));
    let go = |stepped| {
        machine::run(
            Arc::clone(&p),
            Arc::clone(&config),
            Options::default,
            |_, _| Vec::new(),
            stepped,
        )
        .unwrap()
    };
    let (a, b) = (go(false), go(true));
    assert!(a.finished.error.is_none(), "{}", a.finished.error.unwrap());
    assert_eq!((a.trace_digest, a.finished.end), (b.trace_digest, b.finished.end));
}

//! DMA instructions and compact control in a running machine: queues, semaphores, waits.

use std::sync::Arc;

use tpbemu::ErrorClass;
use tpbemu::isa::{Engine, Generation, Inst, RawEvents, e::ccop as c, f, op};
use tpbemu::machine::{self, MachineConfig, Options, RunResult};
use tpbemu::program::Program;
use tpbemu::sync::SyncId;

const SBUF: u64 = 0x20_0000_0000;
const HBM: u64 = 0x10_0000_0000;

fn run(g: Generation, streams: &[(Engine, Vec<Inst>)]) -> RunResult {
    let mut p = Program::new(g);
    for (engine, words) in streams {
        p.stream_mut(*engine).words.extend(words.iter().map(|w| w.bytes));
    }
    let config = Arc::new(MachineConfig::builtin(g));
    machine::run(Arc::new(p), config, Options::default, |_, _| Vec::new(), false).unwrap()
}

fn succeed(g: Generation, streams: &[(Engine, Vec<Inst>)]) -> RunResult {
    let r = run(g, streams);
    assert!(r.finished.error.is_none(), "{:?}", r.finished.error);
    r
}

fn store(g: Generation, address: u64, value: u64) -> Inst {
    let mut inst = Inst::empty(g, op::WRITE);
    inst.set(f::ctrl_wr::SIZE, 8);
    inst.set(f::ctrl_wr::ADDRESS, address);
    inst.set(f::ctrl_wr::DATA, value);
    inst
}

/// Waits until semaphore `index` is at least `value`.
fn wait(g: Generation, index: u8, value: u32) -> Inst {
    let mut inst = Inst::empty(g, op::NOP);
    let wait = RawEvents { wait_mode: 5, wait_idx: index, value, ..RawEvents::default() };
    inst.set_events(wait).unwrap();
    inst
}

fn load(g: Generation, address: u64, register: u8) -> Inst {
    let mut inst = Inst::empty(g, op::TENSOR_LOAD);
    inst.set(f::mem_2d::DTYPE, 9);
    inst.set(f::mem_2d::NUM_ELEM, 0x0101);
    inst.set(f::mem_2d::START_ADDR, address);
    let data = f::mem_2d::DATA.at(inst.form()).unwrap();
    inst.bytes[data] = register;
    inst
}

fn copy(g: Generation, from: u64, to: u64, bytes: u64) -> Inst {
    use f::dma_direct2d as l;
    let mut inst = Inst::empty(g, op::DMAMEMCPY);
    inst.set(l::SEMAPHORE, 9);
    inst.set(l::SEM_INCREMENT, 3);
    for (addr, at, step, count, size) in [
        (l::SRC_START_ADDR, from, l::SRC_STEP_ELEM, l::SRC_NUM_ELEM, l::SRC_ELEM_SIZE),
        (l::DST_START_ADDR, to, l::DST_STEP_ELEM, l::DST_NUM_ELEM, l::DST_ELEM_SIZE),
    ] {
        inst.set(addr, at);
        inst.set(step, 1);
        inst.set(count, 0x0001_0001);
        inst.set(size, bytes);
    }
    inst.set(l::IN_DTYPE, 3);
    inst.set(l::OUT_DTYPE, 3);
    inst
}

#[test]
fn a_copy_signals_its_semaphore_when_the_data_is_there() {
    for g in [Generation::V2, Generation::V3, Generation::V4, Generation::V5] {
        let r = succeed(
            g,
            &[(
                Engine::Pool,
                vec![
                    store(g, HBM + 0x100, 0x1122_3344),
                    copy(g, HBM + 0x100, SBUF + 64, 8),
                    wait(g, 9, 3),
                    load(g, SBUF + 64, 5),
                ],
            )],
        );
        assert_eq!(r.machine.registers(Engine::Pool)[5], 0x1122_3344, "{g}");
        assert_eq!(r.machine.sync_state().value(SyncId::Semaphore(9)).unwrap(), 3);
    }
}

#[test]
fn data_that_a_register_depends_on_is_there_with_timing_only() {
    let g = Generation::V3;
    let mut p = Program::new(g);
    let words = [
        store(g, HBM + 0x100, 0x1122_3344),
        copy(g, HBM + 0x100, SBUF + 64, 8),
        wait(g, 9, 3),
        load(g, SBUF + 64, 5),
    ];
    p.stream_mut(Engine::Pool).words.extend(words.iter().map(|w| w.bytes));
    let config = Arc::new(MachineConfig::builtin(g));
    let options = || Options { timing_only: true, ..Options::default() };
    let r = machine::run(Arc::new(p), config, options, |_, _| Vec::new(), false).unwrap();
    assert!(r.finished.error.is_none(), "{:?}", r.finished.error);
    assert_eq!(r.machine.registers(Engine::Pool)[5], 0x1122_3344);
}

#[test]
fn reading_before_the_semaphore_is_a_race() {
    let g = Generation::V3;
    let r = run(
        g,
        &[(
            Engine::Pool,
            vec![store(g, HBM + 0x100, 1), copy(g, HBM + 0x100, SBUF, 8), load(g, SBUF, 5)],
        )],
    );
    let error = r.finished.error.expect("an error");
    assert_eq!(error.class, ErrorClass::UndefinedBehaviour, "{error}");
}

#[test]
fn the_v5_copy_waits_by_itself_and_updates_two_semaphores() {
    use f::dma_copy2d as l;
    let g = Generation::V5;
    let mut inst = Inst::empty(g, op::DMA_MEMCPY2);
    inst.set(l::WAIT_SEMA_MODE, 5);
    inst.set(l::WAIT_SEMA_IDX, 30);
    inst.set(l::WAIT_SEMA_VALUE, 1);
    inst.set(l::SEMA_UPDATE_MODE, 0x11);
    inst.set(l::RD_DONE_SEMA_UPDATE_IDX, 20);
    inst.set(l::WR_DONE_SEMA_UPDATE_IDX, 21);
    for (addr, at, count, size) in [
        (l::SRC_START_ADDR, HBM + 0x100, l::SRC_NUM_ELEM, l::SRC_ELEM_SIZE),
        (l::DST_START_ADDR, HBM + 0x200, l::DST_NUM_ELEM, l::DST_ELEM_SIZE),
    ] {
        inst.set(addr, at);
        inst.set(count, 0x0001_0001);
        inst.set(size, 8);
    }
    let mut signal = store(g, HBM + 0x100, 42);
    let update = RawEvents { update_mode: 0x13, update_idx: 30, ..RawEvents::default() };
    signal.set_events(update).unwrap();
    let r = succeed(
        g,
        &[
            (Engine::Dve, vec![inst, wait(g, 21, 1), load(g, HBM + 0x200, 5)]),
            (Engine::Sp, vec![signal]),
        ],
    );
    assert_eq!(r.machine.registers(Engine::Dve)[5], 42);
    for i in [20, 21] {
        assert_eq!(r.machine.sync_state().value(SyncId::Semaphore(i)).unwrap(), 1);
    }
}

#[test]
fn compact_control_computes_and_stores() {
    let g = Generation::V5;
    let mut inst = Inst::empty(g, op::COMPACT_CONTROL_INST);
    let micros: [[u8; 4]; 8] = [
        [c::MOV_IMM_LO, 2, 0x34, 0x12],
        [c::MOV_IMM_HI, 2, 0x78, 0x56],
        [c::MOV_IMM_LO, 4, 0x00, 0x01],
        [c::MOV_IMM_LO, 5, 0x10, 0x00], // R4:R5 = HBM + 0x100
        [c::STR, 2, 4, 8],
        [c::LDRH, 6, 4, 10],
        [c::ADD, 6, 2, 7],
        [c::ASL, 7, 6, 8],
    ];
    for (i, micro) in micros.iter().enumerate() {
        inst.bytes[4 + 4 * i..][..4].copy_from_slice(micro);
    }
    let r = succeed(g, &[(Engine::Sp, vec![inst])]);
    let registers = r.machine.registers(Engine::Sp);
    assert_eq!(registers[2], 0x5678_1234);
    assert_eq!(registers[6], 0x5678);
    assert_eq!(registers[7], 0x5678_1234 + 0x5678);
    assert_eq!(registers[8], registers[7] << (0x5678 % 32));
}

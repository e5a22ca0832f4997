//! Instructions that the sequencer executes itself, by what they leave in registers, memory,
//! semaphores and events.

mod words;

use std::sync::Arc;

use tpbemu::isa::{Engine, Generation, Inst, opcode_by_name};
use tpbemu::machine::{self, MachineConfig, Options, RunResult};
use tpbemu::memory::Space;
use tpbemu::program::Program;
use tpbemu::sync::SyncId;
use words::random::Dice;

const HBM: u64 = 0x10_0000_0000;

/// `NAME field=value ..`, as in the table of the legality rules.
fn word(g: Generation, text: &str) -> Inst {
    let (name, fields) = text.split_once(' ').unwrap_or((text, ""));
    let def = opcode_by_name(g, name).unwrap_or_else(|| panic!("{g} has no {name}"));
    let mut inst = Inst::empty(g, def.byte);
    words::assign(&mut inst, fields);
    inst
}

fn run_on(g: Generation, engine: Engine, text: &[String]) -> RunResult {
    let mut p = Program::new(g);
    p.stream_mut(engine).words = text.iter().map(|t| word(g, t).bytes).collect();
    let mut config = MachineConfig::builtin(g);
    config.geometry.hbm_bytes = 1 << 20;
    let options = || Options { check_unwritten: false, ..Options::default() };
    machine::run(Arc::new(p), Arc::new(config), options, |_, _| Vec::new(), false).unwrap()
}

/// Runs a POOL stream that must come to its end.
fn run(g: Generation, text: &[&str]) -> RunResult {
    let text: Vec<String> = text.iter().map(|t| (*t).to_string()).collect();
    let r = run_on(g, Engine::Pool, &text);
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    r
}

fn register(r: &RunResult, n: usize) -> u32 {
    r.machine.registers(Engine::Pool)[n]
}

fn hbm(r: &mut RunResult, at: u64, n: u64) -> Vec<u8> {
    r.machine.memory().row(Space::Hbm, 0, at, n).unwrap().to_vec()
}

#[test]
fn halt_ends_the_stream() {
    let r = run(
        Generation::V3,
        &[
            "MOVE num_mov=1 dtype=UINT32 move_source=1 dst_registers=1:1,0 immediate=4:7,0",
            "HALT",
            "MOVE num_mov=1 dtype=UINT32 move_source=1 dst_registers=1:1,0 immediate=4:8,0",
        ],
    );
    assert_eq!(register(&r, 1), 7);
    assert_eq!(r.finished.executed, 2);
}

#[test]
fn words_without_effect_on_results() {
    let g = Generation::V3;
    let quiet = [
        "INSTRUCTION_FLUSH",
        "SET_ORDERING_MODE mode=1",
        "BRANCH_PREFETCH_HINT decision=1",
        "DRAIN",
    ];
    for word in quiet {
        let r = run(g, &[word, "NOP update_mode=0x13 update_idx=5"]);
        assert_eq!(r.finished.executed, 2, "{word}");
        assert!(r.machine.registers(Engine::Pool).iter().all(|v| *v == 0), "{word}");
        let left: Vec<_> = r.machine.sync_state().non_zero().collect();
        assert_eq!(left.len(), 1, "{word}: {left:?}");
    }
    let r = run(g, &["NOTIFY notification=0x2a"]);
    assert!(r.finished.notes.iter().any(|n| n.contains("0x2a")), "{:?}", r.finished.notes);
}

#[test]
fn write_and_load() {
    for g in [Generation::V2, Generation::V3, Generation::V4, Generation::V5] {
        for (size, want) in [(1, 0x44u32), (2, 0x3344), (4, 0x1122_3344)] {
            let write = format!("WRITE size={size} address={:#x} data=0x11223344", HBM + 64);
            let load = format!(
                "TENSOR_LOAD dtype=UINT32 num_elem=1,1 start_addr={:#x} data=9,0",
                HBM + 64
            );
            let mut r = run(g, &[&write, &load]);
            assert_eq!(register(&r, 9), want, "{g} {size}");
            assert_eq!(hbm(&mut r, 64, 4), want.to_le_bytes());
        }
    }
}

#[test]
fn range_clear_takes_events_and_semaphores() {
    let r = run(
        Generation::V4,
        &[
            "NOP update_mode=0x13 update_idx=3",
            "NOP update_mode=0x13 update_idx=4",
            "NOP update_mode=0x13 update_idx=9",
            "NOP wait_mode=5 wait_idx=9 semaphore_value=1",
            "EVENT_SEMAPHORE_RANGE_CLEAR range_first=3 range_last=4",
        ],
    );
    let sync = r.machine.sync_state();
    let value = |n| sync.value(SyncId::Semaphore(n)).unwrap();
    assert_eq!((value(3), value(4), value(9)), (0, 0, 1));
}

#[test]
fn poll_sem_takes_the_least() {
    let (a, b) = (HBM + 128, HBM + 256);
    let w = |k: u64, v: u32| format!("WRITE size=4 address={:#x} data={v}", a + 4 * k);
    let poll = format!("POLL_SEM n_read=3 result=6 op=MIN addr={a:#x} res_writeback_addr={b:#x}");
    let mut r = run(Generation::V4, &[&w(0, 9), &w(1, 5), &w(2, 0x8000_0000), &poll]);
    assert_eq!(register(&r, 6), 5);
    assert_eq!(hbm(&mut r, 256, 12), [5u32, 5, 5].map(u32::to_le_bytes).concat());
    let mut r = run(Generation::V4, &[&w(0, 9), &w(1, 0), &w(2, 7), &poll]);
    assert_eq!(register(&r, 6), 0);
    assert_eq!(hbm(&mut r, 256, 12), [0; 12], "a least of 0 is not written back");
}

#[test]
fn v1_events() {
    let text = |list: &[&str]| list.iter().map(|t| (*t).to_string()).collect::<Vec<_>>();
    let set = "EVENT_SET event_idx=5";
    let r = run_on(
        Generation::V1,
        Engine::Pool,
        &text(&[set, "EVENT_WAIT wait_mode_arg=1 event_idx=5"]),
    );
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    assert_eq!(r.machine.sync_state().value(SyncId::Event(5)).unwrap(), 1, "waiting keeps it");
    let clear = text(&[
        set,
        "EVENT_CLEAR event_idx=5",
        "EVENT_SET event_idx=6",
        "EVENT_WAIT wait_mode_arg=1 event_idx=6",
        "EVENT_WAIT wait_mode_arg=1 event_idx=5",
    ]);
    let r = run_on(Generation::V1, Engine::Pool, &clear);
    assert_eq!(r.finished.error.unwrap().class, tpbemu::ErrorClass::Deadlock);
    let write = text(&[
        &format!("WRITE address={:#x} data=0xabcd size=2", HBM + 32),
        "NOTIFY notification=3",
    ]);
    let mut r = run_on(Generation::V1, Engine::Pool, &write);
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    assert_eq!(hbm(&mut r, 32, 4), [0xCD, 0xAB, 0, 0]);
    assert!(r.finished.notes.iter().any(|n| n.contains("0x3")), "{:?}", r.finished.notes);
}

#[test]
fn v1_test_and_set_waits_for_its_condition() {
    let line = |v: u32| {
        format!("SEMAPHORE_TEST_AND_SET semaphore_id=4 wait_cond=GREATER_EQUAL wait_value={v}")
    };
    let r = run_on(Generation::V1, Engine::Pool, &[line(0)]);
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    let r = run_on(Generation::V1, Engine::Pool, &[line(1)]);
    assert_eq!(r.finished.error.unwrap().class, tpbemu::ErrorClass::Deadlock);
}

/// Registers stored in random two-dimensional patterns are there, element by element, and come
/// back through a load with other registers.
#[test]
fn random_stores_and_loads() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V2, Generation::V3, Generation::V4, Generation::V5]);
        let (dtype, size) =
            dice.pick(&[("UINT8", 1u64), ("UINT16", 2), ("UINT32", 4), ("INT16", 2)]);
        let (x, y) = dice.pick(&[(1u64, 1u64), (4, 2), (8, 1), (1, 8), (3, 2), (2, 4), (7, 1)]);
        let sx = 1 + dice.below(3);
        let sy = sx * x + dice.below(4);
        let start = 4096 + 4 * dice.below(64);
        let n = x * y;
        let values: Vec<u32> = (0..8).map(|_| dice.below(1 << 32) as u32).collect();
        let list =
            |first: u64| (0..n).map(|k| (first + k).to_string()).collect::<Vec<_>>().join(",");
        let one = |l: String| if n == 1 { format!("{l},0") } else { l };
        let immediates: Vec<String> = values.iter().map(ToString::to_string).collect();
        let all: Vec<String> = (0..8).map(|k| (8 + k).to_string()).collect();
        let fields = format!(
            "dtype={dtype} num_elem={x},{y} start_addr={:#x} step_elem=4:{sx},{sy}",
            HBM + start
        );
        let text = [
            format!(
                "MOVE num_mov=8 dtype=UINT32 move_source=1 dst_registers=1:{} immediate=4:{}",
                all.join(","),
                immediates.join(",")
            ),
            format!("TENSOR_STORE {fields} data=1:{}", one(list(8))),
            format!("TENSOR_LOAD {fields} data=1:{}", one(list(32))),
        ];
        let mut r = run(g, &text.each_ref().map(String::as_str));
        for k in 0..n {
            let value = values[k as usize];
            let at = start + size * (k % x * sx + k / x * sy);
            let want = &value.to_le_bytes()[..size as usize];
            assert_eq!(hbm(&mut r, at, size), want, "seed {seed} element {k}");
            let loaded = match dtype {
                "UINT8" => value & 0xFF,
                "UINT16" => value & 0xFFFF,
                "INT16" => value as i16 as u32,
                _ => value,
            };
            assert_eq!(register(&r, 32 + k as usize), loaded, "seed {seed} element {k}");
        }
    }
}

#[test]
fn test_event_sem_reads_without_waiting() {
    let r = run(
        Generation::V4,
        &[
            "NOP update_mode=0x13 update_idx=3",
            "NOP update_mode=0x13 update_idx=3",
            "NOP wait_mode=5 wait_idx=3 semaphore_value=2",
            "TEST_EVENT_SEM mode=0 num_evt_sem=2 evt_sem_ids=1:3,4 value_registers=1:20,21",
        ],
    );
    assert_eq!((register(&r, 20), register(&r, 21)), (2, 0));
}

/// Integer operations on random registers against the host's own arithmetic.
#[test]
fn random_register_arithmetic() {
    type Function = fn(u32, u32) -> u32;
    let ops: [(&str, Function); 4] = [
        ("BITWISE_AND", |a, b| a & b),
        ("BITWISE_OR", |a, b| a | b),
        ("BITWISE_XOR", |a, b| a ^ b),
        ("ADD", u32::wrapping_add),
    ];
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V2, Generation::V3, Generation::V4, Generation::V5]);
        let (name, f) = dice.pick(&ops);
        // sums stay below 2^24, where every domain an ADD could use is exact
        let bits = if name == "ADD" { 1 << 23 } else { 1 << 32 };
        let (a, b) = (dice.below(bits) as u32, dice.below(bits) as u32);
        let r = run(
            g,
            &[
                &format!(
                    "MOVE num_mov=2 dtype=UINT32 move_source=1 dst_registers=1:4,5 immediate=4:{a},{b}"
                ),
                &format!(
                    "ALU_OP op={name} dtype=UINT32 dst_dtype=UINT32 src0_reg_lo=4 src1_reg_lo=5 dst_reg_lo=6"
                ),
            ],
        );
        assert_eq!(register(&r, 6), f(a, b), "seed {seed} {g} {name}");
        assert_eq!((register(&r, 4), register(&r, 5)), (a, b));
    }
}

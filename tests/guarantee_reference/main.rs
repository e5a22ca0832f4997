//! The analysis of all schedules against a plain one, on random streams and on the programs of the
//! benches.

mod reference;
#[allow(dead_code)]
#[path = "../../benches/workloads/mod.rs"]
mod workloads;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tpbemu::check::guarantee::{Finding, Guarantees};
use tpbemu::isa::{Engine, Generation, Inst, RawEvents, op};
use tpbemu::machine::{Machine, MachineConfig, Options, Races};
use tpbemu::program::Program;
use workloads::{Shape, small};

fn number(rng: &mut Pcg64Mcg, below: u64) -> u64 {
    rng.next_u64() % below
}

/// A word that waits for or changes one of a few semaphores (0 to 3) and events (0 to 3); half of
/// them use the data path. Most conditions hold sooner or later.
fn word(rng: &mut Pcg64Mcg, data: bool) -> Inst {
    let mut inst = match number(rng, 6) {
        0 | 1 if data => small(0),
        2 if data => small(1),
        3 => Inst::empty(Generation::V3, op::DRAIN),
        _ => Inst::empty(Generation::V3, op::NOP),
    };
    let events = RawEvents {
        wait_mode: [0, 0, 0, 5, 5, 5, 4, 1, 3, 6, 7, 7, 0xE][number(rng, 13) as usize],
        wait_idx: number(rng, 4) as u8,
        update_mode: [0, 0x13, 0x13, 0x13, 3, 3, 0x11, 0x11, 1, 0x12, 0x17]
            [number(rng, 11) as usize],
        update_idx: number(rng, 4) as u8,
        value: number(rng, 3) as u32,
    };
    inst.set_events(events).expect("a word with events");
    inst
}

/// Compares both analyses of a run of `program`; counts the findings by name.
fn compare(program: Program, counts: &mut BTreeMap<String, usize>) {
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let program = Arc::new(program);
    let options = Options {
        strict: false,
        races: Races::Collect,
        check_unwritten: false,
        timing_only: true,
        max_cycles: Some(1_000_000),
        ..Options::default()
    };
    let mut machine =
        Machine::new(Arc::clone(&program), config, options).expect("a program that loads");
    machine.run();
    let log = machine.log().expect("a log");
    let data_words: Vec<Vec<bool>> = Engine::ALL
        .iter()
        .map(|e| {
            let words = program.stream(*e).map_or(&[][..], |s| &s.words);
            words.iter().map(|w| w[0] == op::TENSOR_SCALAR_ARITH_OP).collect()
        })
        .collect();
    let control = |s: usize, pc: u32| !data_words[s].get(pc as usize).copied().unwrap_or(false);
    let new = Guarantees::new(log);
    let old = reference::Guarantees::new(log);
    assert_eq!(new.unproven(), old.unproven());
    let (races, hazards) = (new.races(control), new.hazards());
    assert_eq!(races, old.races(control));
    assert_eq!(hazards, old.hazards());
    for race in races {
        let name = match race {
            Finding::Race(_) => "race",
            Finding::Sequencer(h) => h.class(),
        };
        *counts.entry(name.to_string()).or_default() += 1;
    }
    hazards.iter().for_each(|h| *counts.entry(h.class().to_string()).or_default() += 1);
    *counts.entry("programs".to_string()).or_default() += 1;
}

fn random(seeds: std::ops::Range<u64>) {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let mut rng = Pcg64Mcg::new(u128::from(seed) * 2 + 1);
        let mut program = Program::new(Generation::V3);
        for engine in [Engine::Dve, Engine::Pool, Engine::Act] {
            let n = 1 + number(&mut rng, 40);
            program.stream_mut(engine).words =
                (0..n).map(|_| word(&mut rng, engine != Engine::Act).bytes).collect();
        }
        compare(program, &mut counts);
    }
    println!("{counts:?}");
    for expected in ["race", "lost_signal", "two_consumers", "equality_overshoot"] {
        assert!(counts.contains_key(expected), "no program has a {expected}: {counts:?}");
    }
}

#[test]
fn random_streams() {
    random(0..400);
}

#[test]
#[ignore = "minutes"]
fn many_random_streams() {
    random(400..40_000);
}

#[test]
fn programs_of_the_benches() {
    let mut counts = BTreeMap::new();
    for shape in Shape::ALL {
        compare(shape.program(400), &mut counts);
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("programs".to_string(), 4)]);
}

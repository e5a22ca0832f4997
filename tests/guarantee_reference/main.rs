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

/// Runs `program` and keeps what the analysis of all schedules needs, `window` entries at a time.
fn run(program: &Arc<Program>, window: usize) -> Machine {
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = Options {
        strict: false,
        races: Races::Collect,
        check_unwritten: false,
        timing_only: true,
        max_cycles: Some(1_000_000),
        window,
        ..Options::default()
    };
    let mut machine =
        Machine::new(Arc::clone(program), config, options).expect("a program that loads");
    machine.run();
    machine
}

/// Whether a word of a stream of `program` is executed by the sequencer.
fn control(program: &Program) -> impl Fn(usize, u32) -> bool + use<> {
    let data_words: Vec<Vec<bool>> = Engine::ALL
        .iter()
        .map(|e| {
            let words = program.stream(*e).map_or(&[][..], |s| &s.words);
            words.iter().map(|w| w[0] == op::TENSOR_SCALAR_ARITH_OP).collect()
        })
        .collect();
    move |s: usize, pc: u32| !data_words[s].get(pc as usize).copied().unwrap_or(false)
}

/// Compares both analyses of a run of `program`; counts the findings by name.
fn compare(program: Program, counts: &mut BTreeMap<String, usize>) {
    let program = Arc::new(program);
    let machine = run(&program, 0);
    let log = machine.log().expect("a log");
    let control = control(&program);
    let new = Guarantees::new(log);
    let old = reference::Guarantees::new(log);
    assert_eq!(new.unproven(), old.unproven());
    let (races, hazards) = (new.races(&control), new.hazards());
    assert_eq!(races, old.races(&control));
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

/// What the analysis of the whole run finds, and that with a window; `None` if the window keeps
/// the whole run.
fn window(program: Program, window: usize) -> Option<[Vec<String>; 2]> {
    let program = Arc::new(program);
    let control = control(&program);
    let machines = [0, window].map(|window| run(&program, window));
    let left = machines[1].log().expect("a log").is_full();
    left.then_some(machines).map(|machines| {
        machines.map(|machine| {
            let log = machine.log().expect("a log");
            let guarantees = Guarantees::new(log);
            let races = guarantees.races(&control);
            // pairs of words: with a window each is told once
            let mut found: Vec<String> = races
                .iter()
                .map(|f| match f {
                    Finding::Race(c) => {
                        let (a, b) = (c.earlier.0, c.later.0);
                        format!("race {:?}", [(a.stream, a.pc), (b.stream, b.pc)])
                    }
                    Finding::Sequencer(h) => format!("{h:?}"),
                })
                .collect();
            found.sort();
            found.dedup();
            // of each event one lost signal is told, as an example: a window may come upon another
            let event = |h: String| h.split(", setter").next().unwrap_or_default().to_string();
            found.extend(guarantees.hazards().iter().map(|h| event(format!("{h:?}"))));
            found
        })
    })
}

/// Loops of a few words, most of them with a mistake, over more entries than the window holds.
fn looped(rng: &mut Pcg64Mcg) -> Program {
    let mut program = Program::new(Generation::V3);
    let barrier = number(rng, 2) == 0;
    for (k, engine) in [Engine::Dve, Engine::Pool, Engine::Act].into_iter().enumerate() {
        let mut body: Vec<Inst> =
            (0..1 + number(rng, 4)).map(|_| word(rng, engine != Engine::Act)).collect();
        for inst in &mut body {
            // most random waits would end the loop in a deadlock
            let mut events = inst.events();
            if number(rng, 4) > 0 {
                events.wait_mode = 0;
            }
            if events.wait_mode != 0 && events.wait_mode != 5 {
                events.wait_mode = 0;
            }
            if events.update_mode == 0x17 || events.update_mode == 0x12 {
                events.update_mode = 0x13;
            }
            events.value = 1;
            inst.set_events(events).expect("a word with events");
        }
        let mut words = Vec::new();
        for round in 0..150 {
            words.extend(body.iter().map(|inst| inst.bytes));
            if barrier {
                // all count up, and wait for all
                for (wait_mode, update_mode, value) in [(0, 0x13, 1), (5, 0, 3 * (round + 1))] {
                    let mut inst = Inst::empty(Generation::V3, op::NOP);
                    let (wait_idx, update_idx) = (9, 9);
                    let events = RawEvents { wait_mode, wait_idx, update_mode, update_idx, value };
                    inst.set_events(events).expect("a word with events");
                    words.push(inst.bytes);
                }
            } else if k < 2 {
                // DVE and POOL in turn by events
                let (mine, other) = (10 + k as u8, 11 - k as u8);
                let first = k == 1 && round == 0;
                let mut inst = Inst::empty(Generation::V3, op::NOP);
                let events = RawEvents {
                    wait_mode: if first { 0 } else { 7 },
                    wait_idx: other,
                    update_mode: 0x11,
                    update_idx: mine,
                    value: 0,
                };
                inst.set_events(events).expect("a word with events");
                words.push(inst.bytes);
            }
        }
        program.stream_mut(engine).words = words;
    }
    program
}

/// A window never shows what the whole run does not, and where the engines wait for each other it
/// shows the same.
fn windows(seeds: std::ops::Range<u64>) {
    let (mut same, mut all, mut findings) = (0, 0, 0);
    for seed in seeds {
        let mut rng = Pcg64Mcg::new(u128::from(seed) * 2 + 1);
        let program = looped(&mut rng);
        let Some([whole, part]) = window(program, 512) else { continue };
        let more: Vec<&String> = part.iter().filter(|f| !whole.contains(f)).collect();
        assert!(more.is_empty(), "seed {seed}: {more:#?} and not\n{whole:#?}");
        all += 1;
        same += usize::from(whole == part);
        findings += whole.len();
        if whole != part {
            println!("seed {seed}: {} of {} findings", part.len(), whole.len());
        }
    }
    println!("{same} of {all} the same, {findings} findings");
    assert!(same * 10 >= all * 9 && findings > all, "{same} of {all}, {findings} findings");
}

#[test]
fn a_window_finds_the_same() {
    windows(0..100);
}

#[test]
#[ignore = "minutes"]
fn many_windows_find_the_same() {
    windows(100..10_000);
}

#[test]
fn a_window_leaves_the_loops_of_the_benches_clean_and_stays_small() {
    for shape in Shape::ALL {
        let program = Arc::new(shape.program(20_000));
        let machine = run(&program, 2048);
        let log = machine.log().expect("a log");
        assert!(log.is_full() && log.len() <= 2048, "{shape}: {} entries", log.len());
        let guarantees = Guarantees::new(log);
        assert_eq!(guarantees.races(control(&program)), [], "{shape}");
        assert_eq!(guarantees.hazards(), [], "{shape}");
    }
}

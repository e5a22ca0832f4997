//! Random legal words of every opcode on every engine of every generation: no panic, no bug of the
//! emulator, and threads change nothing. Every executable opcode must succeed often enough, so that
//! a generator that cannot make a valid word of it shows.

mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Class, Engine, Generation, Inst, RawEvents, op, op_v1};
use tpbemu::machine::{self, MachineConfig, Options, Races};
use tpbemu::memory::Space;
use tpbemu::program::{ElemType, Memory, Program, Role, Tensor};
use words::random::{Dice, Subject, executable};

/// Bytes of each SBUF partition and of HBM that start with random content.
const ROW: usize = 4096;
const HBM_BYTES: usize = 1 << 16;

/// The random content of one program.
struct Content {
    sbuf: Vec<u8>,
    psum: Vec<u8>,
    hbm: Vec<u8>,
    partitions: usize,
    psum_partitions: usize,
}

impl Content {
    /// Bits of any kind, small integers, or numbers that arithmetic does not blow up.
    fn new(dice: &mut Dice, config: &MachineConfig) -> Content {
        let g = &config.geometry;
        let kind = dice.below(3);
        let mut fill = |n: usize| {
            let mut bytes = dice.bytes(n);
            for word in bytes.as_chunks_mut::<4>().0 {
                match kind {
                    0 => {}
                    1 => *word = u32::from(word[0] % 16).to_le_bytes(),
                    _ => *word = (f32::from(word[0] as i8) / 8.0).to_le_bytes(),
                }
            }
            bytes
        };
        Content {
            sbuf: fill(g.sbuf_partitions as usize * ROW),
            psum: fill(g.psum_partitions as usize * ROW),
            hbm: fill(HBM_BYTES),
            partitions: g.sbuf_partitions as usize,
            psum_partitions: g.psum_partitions as usize,
        }
    }

    fn fill(&self, bench: &mut Bench) {
        for p in 0..self.partitions {
            bench.put(Space::Sbuf, p as u32, 0, &self.sbuf[p * ROW..][..ROW]);
        }
        for p in 0..self.psum_partitions {
            bench.put(Space::Psum, p as u32, 0, &self.psum[p * ROW..][..ROW]);
        }
        bench.put(Space::Hbm, 0, 0, &self.hbm);
    }

    fn into_program(self, program: &mut Program, config: &MachineConfig) {
        let mut add = |name: &str, memory, shape: Vec<u64>, address, init| {
            program.tensors.push(Tensor {
                name: name.into(),
                dtype: ElemType::from_name("uint8").unwrap(),
                shape,
                memory,
                address,
                init: Some(init),
                role: Role::Internal,
            });
        };
        let row = ROW as u64;
        add("sbuf", Memory::Sbuf, vec![self.partitions as u64, row], 0, self.sbuf);
        let base = u64::from(config.geometry.psum_base);
        add("psum", Memory::Psum, vec![self.psum_partitions as u64, row], base, self.psum);
        add("hbm", Memory::Hbm, vec![HBM_BYTES as u64], 0x10_0000_0000, self.hbm);
    }
}

/// Words that run one after the other on an engine, and the opcodes they stand for.
struct Unit {
    words: Vec<Inst>,
    name: String,
}

/// A word of `subject` with what must come before it. On the data path it is tried on its own
/// first, so that most of what goes into a program runs.
fn unit(dice: &mut Dice, subject: Subject, engine: Engine, content: &Content) -> Unit {
    let name = subject.name();
    let tries = if subject.on_data_path() { 8 } else { 1 };
    let mut words = Vec::new();
    for t in 0..tries {
        let changes = match (subject.on_data_path(), t) {
            (false, _) => dice.below(4),
            (true, 7) => 0,
            _ => 2 + dice.below(14),
        };
        let inst = subject.word(dice, engine, changes);
        words = subject.before(&inst, engine);
        words.push(inst);
        if tries == 1 || dice.one_in(40) {
            break;
        }
        let mut bench = Bench::new(subject.generation, engine);
        content.fill(&mut bench);
        if words
            .iter()
            .all(|w| tpbemu::isa::validate(w, engine, false).is_ok() && bench.run(w).is_ok())
        {
            break;
        }
    }
    if dice.one_in(3) && subject.def.class == Class::Compute {
        let mut last = *words.last().unwrap();
        let _ = last.set_events(RawEvents {
            update_mode: dice.pick(&[0x13, 0x11, 0x12, 3]),
            update_idx: dice.below(8) as u8,
            ..RawEvents::default()
        });
        if tpbemu::isa::validate(&last, engine, false).is_ok() {
            *words.last_mut().unwrap() = last;
        }
    }
    Unit { words, name }
}

/// The program of `seed`: a word of `focus`, and words of others on the other engines.
fn program(seed: u64, focus: Subject, all: &[Subject]) -> (Program, MachineConfig, Vec<String>) {
    let mut dice = Dice::new(seed);
    let g = focus.generation;
    let mut config = MachineConfig::builtin(g);
    config.geometry.hbm_bytes = 1 << 24;
    let content = Content::new(&mut dice, &config);
    let mut program = Program::new(g);
    let mut names = Vec::new();
    let mut add = |dice: &mut Dice, subject: Subject, engine: Engine| {
        let unit = unit(dice, subject, engine, &content);
        let words = &mut program.stream_mut(engine).words;
        words.extend(unit.words.iter().map(|w| w.bytes));
        names.push(unit.name);
    };
    let engine = {
        let engines = focus.engines();
        dice.pick(&engines)
    };
    if g == Generation::V1 || focus.on_data_path() || dice.one_in(2) {
        for other in Engine::ALL {
            let here: Vec<&Subject> = all
                .iter()
                .filter(|s| s.generation == g && s.on_data_path() && s.engines().contains(&other))
                .filter(|s| !NEVER.iter().any(|x| x.0 == s.name()))
                .collect();
            if other != engine && !here.is_empty() && dice.one_in(2) {
                let subject = *dice.pick(&here);
                add(&mut dice, subject, other);
            }
        }
    }
    add(&mut dice, focus, engine);
    // somewhere to branch to
    let nop = if g == Generation::V1 { op_v1::NOP } else { op::NOP };
    program.stream_mut(engine).words.push(Inst::empty(g, nop).bytes);
    content.into_program(&mut program, &config);
    (program, config, names)
}

/// What must not depend on threads.
type Course = (u64, u64, u64, u64, Option<String>);

fn run(program: &Arc<Program>, config: &Arc<MachineConfig>, threads: usize) -> Course {
    let options = || Options {
        threads,
        strict: false,
        max_cycles: Some(200_000),
        races: Races::Ignore,
        check_unwritten: false,
        ..Options::default()
    };
    match machine::run(Arc::clone(program), Arc::clone(config), options, |_, _| Vec::new(), false) {
        Err(e) => (0, 0, 0, 0, Some(format!("{:?} {e}", e.class))),
        Ok(mut r) => {
            let memory = r.memory_digest().unwrap();
            let error = r.finished.error.as_ref().map(|e| format!("{:?} {e}", e.class));
            (r.finished.end, r.finished.executed, r.trace_digest, memory, error)
        }
    }
}

#[derive(Default)]
struct Tally {
    success: BTreeMap<String, u32>,
    failed: BTreeMap<String, String>,
    ends: BTreeMap<String, u32>,
    /// What a word of an executing opcode was told to be unimplemented, and who was told.
    unwritten: BTreeMap<String, String>,
    programs: u64,
}

fn fuzz(tally: &mut Tally, seed: u64, focus: Subject, all: &[Subject], threads: &[usize]) {
    let (program, config, names) = program(seed, focus, all);
    let (program, config) = (Arc::new(program), Arc::new(config));
    let want = run(&program, &config, 0);
    tally.programs += 1;
    let end = want.4.as_deref().unwrap_or("end").split(' ').next().unwrap().to_string();
    assert_ne!(
        end,
        format!("{:?}", ErrorClass::Internal),
        "seed {seed}, {} of {}: {:?}",
        focus.name(),
        focus.generation,
        want.4
    );
    if end == format!("{:?}", ErrorClass::Unimplemented) {
        let who = format!("seed {seed}, {} of {}", focus.name(), focus.generation);
        tally.unwritten.entry(want.4.clone().unwrap()).or_insert(who);
    }
    *tally.ends.entry(end).or_default() += 1;
    match &want.4 {
        None => names.iter().for_each(|n| *tally.success.entry(n.clone()).or_default() += 1),
        Some(why) => {
            tally.failed.insert(focus.name(), format!("{} seed {seed}: {why}", focus.generation));
        }
    }
    for &threads in threads {
        let got = run(&program, &config, threads);
        assert_eq!(
            got,
            want,
            "seed {seed}, {} of {}: {threads} threads differ",
            focus.name(),
            focus.generation
        );
    }
}

/// Opcodes of which no random word can succeed, and why.
const NEVER: [(&str, &str); 4] = [
    ("EXTENDED_INST/7", "CPTC_DECODE: its packing is not published"),
    ("EXTENDED_INST/8", "builds descriptors for a second core, which the emulator does not have"),
    ("EXTENDED_INST/9", "starts descriptors for a second core, which the emulator does not have"),
    ("MODIFY_POOL_CONFIG", "needs a library image; programs/q7-libraries runs it"),
];

fn judge(tally: &Tally, all: &[Subject], least: u32) {
    let mut names: Vec<String> = all.iter().map(Subject::name).collect();
    names.sort();
    names.dedup();
    println!("{} programs, ends: {:?}", tally.programs, tally.ends);
    let mut poor = Vec::new();
    for name in &names {
        let n = tally.success.get(name).copied().unwrap_or(0);
        println!("{n:>7} {name}");
        if n < least && !NEVER.iter().any(|x| x.0 == name) {
            poor.push(format!("{name}: {n}, last failure: {:?}", tally.failed.get(name)));
        }
    }
    let unwritten: Vec<String> =
        tally.unwritten.iter().map(|(e, who)| format!("{who}: {e}")).collect();
    assert!(
        unwritten.is_empty(),
        "executing opcodes that say Unimplemented:\n{}",
        unwritten.join("\n")
    );
    assert!(poor.is_empty(), "opcodes with fewer than {least} successes:\n{}", poor.join("\n"));
}

/// A program for every opcode of every generation, several for those of one generation alone.
#[test]
fn random_legal_words_run_the_same_with_threads() {
    let all = executable();
    let mut tally = Tally::default();
    for (i, focus) in all.iter().enumerate() {
        let threads: &[usize] = if i % 2 == 0 { &[2] } else { &[8] };
        let programs = 4 / focus.def.generations().iter().count().min(4);
        for k in 0..programs.max(1) {
            fuzz(&mut tally, (k * 10_000 + i) as u64, *focus, &all, threads);
        }
    }
    // more tries where something else in the programs always stood in the way
    for k in 0..20 {
        for (i, focus) in all.iter().enumerate() {
            let name = focus.name();
            if !tally.success.contains_key(&name) && !NEVER.iter().any(|x| x.0 == name) {
                fuzz(&mut tally, (k * 10_000 + 5_000 + i) as u64, *focus, &all, &[2]);
            }
        }
    }
    judge(&tally, &all, 1);
}

/// Ten minutes of the same, or as many seconds as FUZZ_SECONDS says, with other seeds each time
/// FUZZ_SEED changes.
#[test]
#[ignore = "ten minutes; run by tools/nightly"]
fn random_legal_words_for_ten_minutes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let time = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(600));
    let mut seed = number("FUZZ_SEED").unwrap_or(1) << 32;
    let all = executable();
    let (mut tally, start) = (Tally::default(), Instant::now());
    let mut passes = 0;
    'time: loop {
        for focus in &all {
            if start.elapsed() >= time {
                break 'time;
            }
            fuzz(&mut tally, seed, *focus, &all, &[2, 8]);
            seed += 1;
        }
        passes += 1;
    }
    // an opcode of one generation has one program a pass, and not all of them can succeed
    judge(&tally, &all, (passes / 4).min(20));
}

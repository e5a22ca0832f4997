//! Arbitrary streams: the machine reports, it never panics and never hangs.

use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tpbemu::isa::{Engine, Generation, Inst, Presence, RawEvents, opcode_table};
use tpbemu::machine::{self, MachineConfig, Options, Races};
use tpbemu::program::Program;

fn number(rng: &mut Pcg64Mcg, below: u64) -> u64 {
    rng.next_u64() % below
}

/// A word of any bytes, or one with a real opcode and mostly small fields.
fn word(rng: &mut Pcg64Mcg, g: Generation) -> [u8; 64] {
    let mut bytes = [0u8; 64];
    rng.fill_bytes(&mut bytes);
    if number(rng, 8) == 0 {
        return bytes;
    }
    let table = opcode_table(g);
    let def = loop {
        let def = &table[number(rng, table.len() as u64) as usize];
        if def.presence_in(g) != Presence::Absent {
            break def;
        }
    };
    let mut inst = Inst::empty(g, def.byte);
    for b in inst.bytes[12..].iter_mut() {
        *b = match number(rng, 4) {
            0 => number(rng, 256) as u8,
            1 => number(rng, 16) as u8,
            _ => 0,
        };
    }
    let events = RawEvents {
        wait_mode: [0, 0, 0, 1, 4, 5, 6, 7][number(rng, 8) as usize],
        wait_idx: number(rng, 4) as u8,
        update_mode: [0, 0x13, 3, 0x11, 0x15, 0x12, 2, 0x85][number(rng, 8) as usize],
        update_idx: number(rng, 4) as u8,
        value: number(rng, 3) as u32,
    };
    let _ = inst.set_events(events);
    inst.bytes
}

fn fuzz(seeds: std::ops::Range<u64>, threads: usize) {
    let mut ends = std::collections::BTreeMap::new();
    for seed in seeds {
        let mut rng = Pcg64Mcg::new(u128::from(seed) * 2 + 1);
        let g = Generation::ALL[(seed % 6) as usize];
        let mut program = Program::new(g);
        for engine in Engine::ALL {
            if number(&mut rng, 2) == 0 {
                let n = 1 + number(&mut rng, 12);
                let words: Vec<[u8; 64]> = (0..n).map(|_| word(&mut rng, g)).collect();
                program.stream_mut(engine).words = words;
            }
        }
        let mut config = MachineConfig::builtin(g);
        config.geometry.hbm_bytes = 1 << 24;
        let collect = seed % 3 == 0;
        let options = || Options {
            threads,
            strict: false,
            max_cycles: Some(20_000),
            races: if collect { Races::Ignore } else { Races::Stop },
            check_unwritten: !collect,
            ..Options::default()
        };
        let end = match machine::run(
            Arc::new(program),
            Arc::new(config),
            options,
            |_, _| Vec::new(),
            false,
        ) {
            Err(e) => e.class.name(),
            Ok(r) => r.finished.error.as_ref().map_or("end", |e| {
                assert_ne!(e.class, tpbemu::ErrorClass::Internal, "seed {seed}: {e}");
                e.class.name()
            }),
        };
        *ends.entry(end).or_insert(0) += 1;
    }
    println!("ends: {ends:?}");
}

#[test]
fn arbitrary_streams_never_panic() {
    fuzz(0..10_000, 0);
    fuzz(0..300, 2);
}

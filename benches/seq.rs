//! Instructions per second of the sequencers and all that goes with an instruction: waits,
//! updates, data-path work of eight elements, summary and digest, race check, trace.
//!
//! Each row is one run with loading left out; the counter is executed instructions per second.
//! The rows of different lengths show whether the cost per instruction grows with the run.

#[allow(dead_code)]
#[path = "workloads/mod.rs"]
mod workloads;

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use tpbemu::machine::{self, Machine, MachineConfig, Options, Races};
use tpbemu::trace::export::{self, Context, Ending};
use tpbemu::trace::facts::Facts;
use tpbemu::trace::tee::Shared;
use tpbemu::trace::{Recorder, TraceHeader};
use workloads::Shape;

fn main() {
    divan::main();
}

/// How a program is run.
#[derive(Clone, Copy)]
struct How {
    races: Races,
    threads: usize,
    timing_only: bool,
    trace: bool,
}

const PLAIN: How = How { races: Races::Ignore, threads: 0, timing_only: false, trace: false };

fn bench(bencher: Bencher<'_, '_>, shape: Shape, instructions: u32, how: How) {
    let program = Arc::new(shape.program(instructions));
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let folder = tempfile::tempdir().expect("a folder");
    let run = || {
        let options = || Options {
            races: how.races,
            threads: how.threads,
            timing_only: how.timing_only,
            check_unwritten: false,
            ..Options::default()
        };
        let mut trace = None;
        let record = |header: &TraceHeader, machine: &Machine| -> Vec<Box<dyn Recorder>> {
            if !how.trace {
                return Vec::new();
            }
            let (facts, names) = (Facts::of(machine), machine.namer());
            let context = Context { header: header.clone(), facts, names };
            let path = folder.path().join("trace.pftrace");
            let exporter = Shared::new(export::open(&path, context).expect("a trace"));
            trace = Some(exporter.clone());
            vec![Box::new(exporter)]
        };
        let (p, c) = (Arc::clone(&program), Arc::clone(&config));
        let result = machine::run(p, c, options, record, false).expect("a legal program");
        assert!(result.finished.error.is_none(), "{:?}", result.finished.error);
        if let Some(exporter) = trace.and_then(Shared::into_inner) {
            exporter.finish(&Ending { end: result.finished.end, error: None }).expect("written");
        }
        result.finished.executed
    };
    let executed = run();
    bencher.counter(ItemsCount::new(executed)).bench_local(run);
}

const SHAPES: [Shape; 4] = Shape::ALL;

#[divan::bench(args = SHAPES, sample_count = 5, sample_size = 1)]
fn shapes(bencher: Bencher<'_, '_>, shape: Shape) {
    bench(bencher, shape, 100_000, PLAIN);
}

#[divan::bench(args = SHAPES, sample_count = 5, sample_size = 1)]
fn race_check(bencher: Bencher<'_, '_>, shape: Shape) {
    bench(bencher, shape, 100_000, How { races: Races::Collect, ..PLAIN });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn timing_only(bencher: Bencher<'_, '_>) {
    bench(bencher, Shape::LoopEvents, 100_000, How { timing_only: true, ..PLAIN });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn trace(bencher: Bencher<'_, '_>) {
    bench(bencher, Shape::LoopEvents, 100_000, How { trace: true, ..PLAIN });
}

#[divan::bench(args = [0, 1, 2], sample_count = 5, sample_size = 1)]
fn threads(bencher: Bencher<'_, '_>, threads: usize) {
    bench(bencher, Shape::LoopEvents, 100_000, How { threads, ..PLAIN });
}

#[divan::bench(args = [1_000, 10_000, 100_000, 1_000_000, 10_000_000], sample_count = 1)]
fn length_of_a_loop(bencher: Bencher<'_, '_>, instructions: u32) {
    bench(bencher, Shape::LoopEvents, instructions, PLAIN);
}

#[divan::bench(args = [1_000, 10_000, 100_000, 1_000_000], sample_count = 1)]
fn length_of_a_straight_line(bencher: Bencher<'_, '_>, instructions: u32) {
    bench(bencher, Shape::Chain, instructions, PLAIN);
}

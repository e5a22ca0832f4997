//! Whole programs: values, timeline, trace and checks, as `tpbemu run` does it, loading left out.
//!
//! `gemm_512` is the 512^3 matmul of the comparison with SCALE-Sim, with values and without;
//! `checks_and_trace` is what the race check and the trace add to a program of large instructions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use divan::Bencher;
use tpbemu::machine::{self, Machine, MachineConfig, Options, Races};
use tpbemu::program::{LoadOptions, Program};
use tpbemu::trace::export::{self, Context, Ending};
use tpbemu::trace::facts::Facts;
use tpbemu::trace::tee::Shared;
use tpbemu::trace::{Recorder, TraceHeader};

fn main() {
    divan::main();
}

/// How a program is run.
#[derive(Clone, Copy, Debug)]
enum How {
    Plain,
    RaceCheck,
    Trace,
    TimingOnlyTrace,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

fn load(name: &str) -> Program {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "programs", name].iter().collect();
    let file = folder.join(name).with_extension("tpb");
    Program::load(&file, LoadOptions::default()).expect("a program that loads")
}

fn run(program: &Arc<Program>, config: &Arc<MachineConfig>, how: How, folder: &Path) -> u64 {
    let options = || Options {
        races: if matches!(how, How::RaceCheck) { Races::Collect } else { Races::Ignore },
        timing_only: matches!(how, How::TimingOnlyTrace),
        ..Options::default()
    };
    let mut trace = None;
    let record = |header: &TraceHeader, machine: &Machine| -> Vec<Box<dyn Recorder>> {
        if !matches!(how, How::Trace | How::TimingOnlyTrace) {
            return Vec::new();
        }
        let (facts, names) = (Facts::of(machine), machine.namer());
        let context = Context::new(header.clone(), facts, names);
        let path = folder.join("trace.pftrace");
        let exporter = Shared::new(export::open(&path, context, None).expect("a trace"));
        trace = Some(exporter.clone());
        vec![Box::new(exporter)]
    };
    let (p, c) = (Arc::clone(program), Arc::clone(config));
    let result = machine::run(p, c, options, record, false).expect("a legal program");
    assert!(result.finished.error.is_none(), "{:?}", result.finished.error);
    let end = result.finished.end;
    if let Some(exporter) = trace.and_then(Shared::into_inner) {
        exporter.finish(&Ending { end, error: None }).expect("written");
    }
    end
}

fn bench(bencher: Bencher<'_, '_>, name: &str, how: How) {
    let program = Arc::new(load(name));
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let folder = tempfile::tempdir().expect("a folder");
    bencher.bench_local(|| run(&program, &config, how, folder.path()));
}

#[divan::bench(args = [How::Plain, How::Trace, How::TimingOnlyTrace], sample_size = 1)]
fn gemm_512(bencher: Bencher<'_, '_>, how: How) {
    bench(bencher, "matmul", how);
}

#[divan::bench(args = [How::Plain, How::RaceCheck, How::Trace], sample_size = 1)]
fn checks_and_trace(bencher: Bencher<'_, '_>, how: How) {
    bench(bencher, "attention", how);
}

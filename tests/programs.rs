//! The example programs: right values, and the same course whatever the host does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tpbemu::cli::run::load;
use tpbemu::machine::{self, MachineConfig, Options, RunResult};
use tpbemu::program::{Program, compare};
use tpbemu::{Error, ErrorClass};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

fn program(name: &str) -> Arc<Program> {
    Arc::new(load(&root().join(name), None).unwrap_or_else(|e| panic!("{name}: {e}")))
}

fn run(program: &Arc<Program>, threads: usize, stepped: bool) -> RunResult {
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = || Options { threads, ..Options::default() };
    machine::run(Arc::clone(program), config, options, |_, _| Vec::new(), stepped).unwrap()
}

/// Programs that come to their end.
const GOOD: [&str; 8] =
    ["matmul", "mlp", "attention", "mamba", "v1-conv", "v1-sp", "q7-libraries", "q7-custom"];

#[test]
fn every_folder_is_a_tested_program() {
    let mut found: Vec<String> = std::fs::read_dir(root())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| {
            let name = p.file_name().unwrap();
            p.join(name).with_extension("tpb").is_file()
        })
        .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut known: Vec<&str> = GOOD.to_vec();
    known.extend(["deadlock", "race"]);
    known.sort_unstable();
    assert_eq!(found, known);
}

#[test]
fn outputs_agree_with_numpy() {
    for name in GOOD {
        let program = program(name);
        let mut result = run(&program, 2, false);
        assert!(result.finished.error.is_none(), "{name}: {}", result.finished.error.unwrap());
        assert!(!program.checks.is_empty(), "{name} checks nothing");
        for check in &program.checks {
            let tensor = program.tensor(&check.tensor).unwrap();
            let bytes = result.tensor(&check.tensor).unwrap();
            let different =
                compare(tensor.dtype, &bytes, &check.expected, check.atol, check.rtol).unwrap();
            assert_eq!(different, None, "{name} {}", check.tensor);
        }
    }
}

/// What must not depend on the host: end, instructions, digest of the trace, digest of the memory.
fn course(result: &mut RunResult) -> (u64, u64, u64, u64) {
    let memory = result.memory_digest().unwrap();
    (result.finished.end, result.finished.executed, result.trace_digest, memory)
}

#[test]
fn threads_and_stepping_do_not_change_the_course() {
    for name in GOOD {
        let program = program(name);
        let want = course(&mut run(&program, 0, false));
        for threads in [1, 2, 8] {
            assert_eq!(
                course(&mut run(&program, threads, false)),
                want,
                "{name}, {threads} threads"
            );
        }
        assert_eq!(course(&mut run(&program, 0, true)), want, "{name}, tick by tick");
    }
}

#[test]
fn twenty_runs_are_one() {
    for name in ["attention", "v1-conv", "v1-sp", "q7-libraries"] {
        let program = program(name);
        let want = course(&mut run(&program, 0, false));
        for i in 0..20 {
            let threads = [1, 2, 3, 8][i % 4];
            assert_eq!(course(&mut run(&program, threads, false)), want, "{name}, run {i}");
        }
    }
}

/// The long form of [`twenty_runs_are_one`]: every program, every thread count.
#[test]
#[ignore = "slow; run by tools/nightly"]
fn twenty_runs_of_everything() {
    for name in GOOD {
        let program = program(name);
        let want = course(&mut run(&program, 0, false));
        for threads in [0, 1, 2, 8] {
            for i in 0..20 {
                assert_eq!(
                    course(&mut run(&program, threads, false)),
                    want,
                    "{name} {threads} {i}"
                );
            }
        }
    }
}

fn failure(name: &str) -> Error {
    let program = program(name);
    let mut first: Option<Error> = None;
    for threads in [0, 2] {
        let error = run(&program, threads, false).finished.error.expect("it is broken on purpose");
        if let Some(first) = &first {
            assert_eq!(first, &error, "{name}: the report does not depend on threads");
        }
        first = Some(error);
    }
    first.unwrap()
}

/// The text of an error without the place of the repository.
fn text(error: &Error) -> String {
    error.to_string().replace(&format!("{}/", root().display()), "")
}

#[test]
fn the_deadlock_is_explained() {
    let error = failure("deadlock");
    assert_eq!(error.class, ErrorClass::Deadlock);
    insta::assert_snapshot!(text(&error));
}

#[test]
fn the_race_names_both_instructions() {
    let error = failure("race");
    assert_eq!(error.class, ErrorClass::UndefinedBehaviour);
    insta::assert_snapshot!(text(&error));
}

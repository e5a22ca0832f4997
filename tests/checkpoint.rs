//! Checkpoints: a run that goes on from any of them ends as the uninterrupted one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use assert_cmd::Command;
use tpbemu::cli::run::load;
use tpbemu::machine::checkpoint::{Checkpoint, Plan};
use tpbemu::machine::{self, Machine, MachineConfig, Options, RunResult, Snapshot};
use tpbemu::program::Program;
use tpbemu::trace::digest::Digest;
use tpbemu::trace::tee::Shared;
use tpbemu::{Error, ErrorClass};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

fn program(path: &Path) -> Arc<Program> {
    Arc::new(load(path, None).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

const PROGRAMS: [&str; 10] = [
    "matmul",
    "mlp",
    "attention",
    "mamba",
    "v1-conv",
    "v1-sp",
    "q7-libraries",
    "q7-custom",
    "deadlock",
    "race",
];

fn run(program: &Arc<Program>, threads: usize, plan: &Plan) -> Result<RunResult, Error> {
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = || Options { threads, ..Options::default() };
    let none = |_: &_, _: &_| Vec::new();
    machine::run_planned(Arc::clone(program), config, options, none, false, plan)
}

/// End, instructions, digests of trace and memory, the summary, and the error if there is one.
fn course(result: &mut RunResult) -> (u64, u64, u64, u64, String, Option<String>) {
    (
        result.finished.end,
        result.finished.executed,
        result.trace_digest,
        result.memory_digest().unwrap(),
        serde_json::to_string(&result.summary).unwrap(),
        result.finished.error.as_ref().map(ToString::to_string),
    )
}

#[test]
fn a_run_from_any_checkpoint_ends_as_the_uninterrupted_one() {
    let mut restored = 0;
    for name in PROGRAMS {
        let program = program(&root().join(name));
        let whole = run(&program, 0, &Plan::default()).unwrap();
        let end = whole.finished.end;
        let executed = whole.finished.executed;
        let want = course(&mut { whole });
        let dir = tempfile::tempdir().unwrap();
        // small programs have few moments at which anything happens
        let pieces = if executed < 60 { end } else { 5 };
        let every = Some((end.div_ceil(pieces).max(1), dir.path().to_path_buf()));
        // leaving checkpoints changes nothing
        for threads in [0, 2] {
            let plan = Plan { every: every.clone(), restore: None };
            let mut leaving = run(&program, threads, &plan).unwrap();
            assert_eq!(course(&mut leaving), want, "{name}, {threads} threads");
        }
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{name} left no checkpoint");
        for (i, file) in files.iter().enumerate() {
            let checkpoint = Arc::new(Checkpoint::load(file).unwrap());
            for threads in [0, 2] {
                if threads == 2 && i % 2 == 1 {
                    continue;
                }
                let plan = Plan { every: None, restore: Some(Arc::clone(&checkpoint)) };
                let mut rest = run(&program, threads, &plan).unwrap();
                assert_eq!(course(&mut rest), want, "{name}, {}", file.display());
                restored += 1;
            }
        }
    }
    println!("{restored} restored runs");
    assert!(restored > 3 * PROGRAMS.len());
}

/// Runs with a snapshot and a return to it after every `stride` entries of the agenda; gives the
/// end, the digest of the trace and the snapshots taken.
fn with_detours(program: &Arc<Program>, stride: u64) -> (u64, u64, u64) {
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = Options { snapshots: true, ..Options::default() };
    let mut machine = Machine::new(Arc::clone(program), config, options).unwrap();
    let digest = Shared::new(Digest::default());
    machine.set_recorder(Box::new(digest.clone()));
    let mut last: Option<Snapshot> = None;
    let (mut entries, mut taken) = (0u64, 0);
    while let Ok(true) = machine.advance_one(u64::MAX) {
        entries += 1;
        if entries.is_multiple_of(stride) {
            let snapshot = machine.snapshot(last.as_ref()).unwrap();
            machine.restore(&snapshot).unwrap();
            last = Some(snapshot);
            taken += 1;
        }
    }
    let finished = machine.conclude_run();
    (finished.end, digest.with(|d| d.value()), taken)
}

#[test]
fn a_snapshot_holds_everything_wherever_it_is_taken() {
    let mut all = 0;
    let folders =
        PROGRAMS.iter().filter(|n| !matches!(**n, "matmul" | "attention" | "mamba" | "mlp"));
    let mut paths: Vec<PathBuf> = folders.map(|n| root().join(n)).collect();
    let corpus = std::fs::read_dir(root().join("sync")).unwrap().map(|e| e.unwrap().path());
    let mut corpus: Vec<PathBuf> =
        corpus.filter(|p| p.extension().is_some_and(|e| e == "tpb")).collect();
    corpus.sort();
    paths.extend(corpus);
    for path in paths {
        let program = program(&path);
        let whole = run(&program, 0, &Plan::default()).unwrap();
        let stride = (whole.finished.executed / 12).max(1) | 1;
        let (end, digest, taken) = with_detours(&program, stride);
        assert_eq!(
            (end, digest),
            (whole.finished.end, whole.trace_digest),
            "{} with a detour every {stride}",
            path.display()
        );
        all += taken;
    }
    println!("{all} snapshots");
    assert!(all > 300, "{all}");
}

#[test]
fn a_checkpoint_of_another_program_or_other_options_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let race = program(&root().join("race"));
    let every = Some((1000, dir.path().to_path_buf()));
    run(&race, 0, &Plan { every, restore: None }).unwrap();
    let file = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let checkpoint = Arc::new(Checkpoint::load(&file).unwrap());
    let plan = Plan { every: None, restore: Some(checkpoint) };
    let error = run(&program(&root().join("deadlock")), 0, &plan).err().unwrap();
    assert_eq!(error.class, ErrorClass::ConfigError);
    assert!(error.message.contains("another program"), "{error}");
    Command::cargo_bin("tpbemu")
        .unwrap()
        .args(["run", "programs/race", "--races", "off", "--restore"])
        .arg(&file)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .assert()
        .code(4)
        .stderr(predicates::str::contains("other options"));
}

#[test]
fn the_recording_of_a_restored_run_is_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let run = |extra: &[&str]| {
        Command::cargo_bin("tpbemu")
            .unwrap()
            .args(["run", "programs/v1-sp", "--summary", "none"])
            .args(extra)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .assert()
            .success();
    };
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (whole, rest, checkpoints) = (path("whole.jsonl"), path("rest.jsonl"), path("ck"));
    run(&["--trace", &whole, "--checkpoint-every", "2000", "--checkpoint-dir", &checkpoints]);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&checkpoints).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let file = files[files.len() / 2].to_string_lossy().into_owned();
    run(&["--trace", &rest, "--restore", &file]);
    assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(&rest).unwrap());
}

/// Damaged state with a right checksum must be an error or a run that ends somehow, not a panic.
#[test]
fn a_damaged_state_is_an_error_or_another_run() {
    let program = program(&root().join("v1-sp"));
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = || Options { snapshots: true, max_cycles: Some(100_000), ..Options::default() };
    let mut machine = Machine::new(Arc::clone(&program), Arc::clone(&config), options()).unwrap();
    for _ in 0..60 {
        machine.advance_one(u64::MAX).unwrap();
    }
    let good = machine.snapshot(None).unwrap();
    let mut refused = 0;
    for i in 0..400usize {
        let mut bytes = good.state.to_vec();
        let at = i * 7919 % bytes.len();
        bytes[at] ^= 1 << (i % 8);
        if i % 5 == 0 {
            bytes.truncate(at);
        }
        let bad = Snapshot { state: bytes.into(), ..good.clone() };
        refused += u32::from(machine.restore(&bad).is_err());
    }
    println!("{refused} of 400 refused");
    assert!(refused >= 80, "{refused}");
    machine.restore(&good).unwrap();
}

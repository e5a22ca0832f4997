//! `verify` proves what is right and nothing that is not; its checker does not take forged
//! certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tpbemu::certificate::{Certificate, Source, check, hash};
use tpbemu::cli::run::load;
use tpbemu::cli::verify::{Verdict, attempt, exhaustive, known};
use tpbemu::explore::mutate::{Bench, mutants};
use tpbemu::explore::shrink::shrink;
use tpbemu::explore::{Schedule, Subject};
use tpbemu::machine::MachineConfig;
use tpbemu::program::Program;
use tpbemu::skeleton::certify::certify;
use tpbemu::skeleton::extract::{Extracted, extract};
use tpbemu::skeleton::graph::{Touch, What};
use tpbemu::skeleton::prove::prove;

/// Programs that are broken on purpose.
const BROKEN: [&str; 2] = ["deadlock", "race"];

/// Clean programs that are not proved, and what stands against it: a branch on a semaphore that was
/// only looked at.
const OPEN: [(&str, &str); 1] = [("polls_forever_fixed", "control_fixed")];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// All programs: (clean ones, broken ones).
fn programs() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut clean, mut broken) = (Vec::new(), Vec::new());
    for dir in std::fs::read_dir(root().join("programs")).unwrap() {
        let dir = dir.unwrap().path();
        let corpus = dir.ends_with("sync");
        for file in std::fs::read_dir(&dir).into_iter().flatten() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|e| e == "tpb") {
                let n = name(&path);
                let bad =
                    if corpus { !n.ends_with("_fixed") } else { BROKEN.contains(&n.as_str()) };
                if bad { broken.push(path) } else { clean.push(path) }
            }
        }
    }
    clean.sort();
    broken.sort();
    (clean, broken)
}

fn of(program: Arc<Program>) -> Subject {
    Subject {
        config: Arc::new(MachineConfig::builtin(program.generation)),
        program,
        timing_only: false,
        max_cycles: 1_000_000_000,
        interrupt: Arc::new(AtomicBool::new(false)),
        threads: 0,
    }
}

fn subject(path: &Path) -> Subject {
    of(Arc::new(load(path, None).unwrap_or_else(|e| panic!("{}: {e}", path.display()))))
}

fn proved(path: &Path) -> Option<(Subject, Certificate)> {
    let subject = subject(path);
    match attempt(&subject, path).unwrap() {
        Verdict::Proved { certificate, .. } => Some((subject, *certificate)),
        _ => None,
    }
}

#[test]
fn every_clean_program_is_proved() {
    let (clean, _) = programs();
    let (mut count, mut wrong) = (0, Vec::new());
    for path in &clean {
        let open = OPEN.iter().find(|o| o.0 == name(path)).map(|o| o.1);
        match (attempt(&subject(path), path).unwrap(), open) {
            (Verdict::Proved { .. }, None) => count += 1,
            (Verdict::Open { failures, .. }, Some(premise))
                if failures.iter().all(|f| f.starts_with(premise)) => {}
            (Verdict::Open { failures, .. }, _) => {
                wrong.push(format!("{}: {failures:#?}", name(path)));
            }
            (Verdict::Proved { .. }, Some(_)) => wrong.push(format!("{} is proved", name(path))),
            (Verdict::Finding { error }, _) => wrong.push(format!("{}: {error}", name(path))),
        }
    }
    println!("{count} of {} clean programs proved, {} open", clean.len(), OPEN.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 38, "{count}");
}

/// Whether the analysis alone, without the verdict of the plain run, proves the program.
fn analysis_proves(subject: &Subject) -> bool {
    match extract(subject).unwrap() {
        Extracted::Skeleton(sk, _) => prove(&sk).holds(),
        _ => false,
    }
}

#[test]
fn no_broken_program_is_proved() {
    let (_, broken) = programs();
    let mut looked = 0;
    for path in &broken {
        let subject = subject(path);
        let verdict = attempt(&subject, path).unwrap();
        assert!(!matches!(verdict, Verdict::Proved { .. }), "{}", path.display());
        assert!(!analysis_proves(&subject), "{}", path.display());
        looked += 1;
    }
    assert!(looked >= 30, "{looked}");
}

/// A certificate for `subject` with every edge that one run suggests, whether justified or not.
fn forged(subject: &Subject, path: &Path) -> Option<Certificate> {
    let Extracted::Skeleton(sk, _) = extract(subject).unwrap() else { return None };
    let mut proof = prove(&sk);
    let mut place = vec![usize::MAX; proof.graph.nodes.len()];
    for (k, node) in proof.order.iter().enumerate() {
        place[*node as usize] = k;
    }
    let mut edges = Vec::new();
    for (to, waits) in proof.graph.touches.iter().enumerate() {
        for (id, touch) in waits {
            if !matches!(touch, Touch::Wait(_)) || !matches!(proof.graph.nodes[to], What::Go(..)) {
                continue;
            }
            for (from, updates) in proof.graph.touches.iter().enumerate() {
                let changes = |(i, t): &(u16, Touch)| i == id && matches!(t, Touch::Change(..));
                if updates.iter().any(changes) && place[from] < place[to] {
                    edges.push((from as u32, to as u32));
                }
            }
        }
    }
    proof.edges = edges;
    Some(certify(&sk, &proof, &subject.program, path))
}

#[test]
fn forged_certificates_of_broken_programs_are_refused() {
    let (_, broken) = programs();
    let mut refused = 0;
    for path in &broken {
        let subject = subject(path);
        let Some(certificate) = forged(&subject, path) else { continue };
        let checked = check::check(&certificate, &subject.program, &subject.config);
        assert!(checked.is_err(), "{}", path.display());
        refused += 1;
    }
    println!("{refused} forged certificates refused");
    assert!(refused >= 25, "{refused}");
}

#[test]
fn tampered_certificates_are_refused() {
    let small = [
        "sync/missing_arrival_fixed",
        "sync/ring_too_short_fixed",
        "sync/v1_event_kept_fixed",
        "attention/attention",
        "v1-sp/v1-sp",
    ];
    let mut random = 12345u64;
    let mut below = |n: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) as usize) % n
    };
    let (mut refused, mut harmless) = (0, 0);
    for file in small {
        let path = root().join("programs").join(file).with_extension("tpb");
        let (subject, good) = proved(&path).expect(file);
        let run = |c: &Certificate| check::check(c, &subject.program, &subject.config);
        assert!(run(&good).is_ok());
        // what has to be as it is
        let mut bad = good.clone();
        bad.program = bad.program.replace(|c: char| c.is_ascii_digit(), "f");
        assert!(run(&bad).is_err(), "{file}: another hash");
        let mut bad = good.clone();
        bad.version += 1;
        assert!(run(&bad).is_err(), "{file}: another version");
        let mut bad = good.clone();
        bad.edges.clear();
        assert!(run(&bad).is_err(), "{file}: no edges");
        for s in 0..good.streams.len() {
            let mut bad = good.clone();
            bad.streams[s].steps += 1;
            assert!(run(&bad).is_err(), "{file}: another length");
        }
        for q in 0..good.queues.len() {
            let mut bad = good.clone();
            if bad.queues[q].jobs.len() > 1 {
                bad.queues[q].jobs.swap(0, 1);
                assert!(run(&bad).is_err(), "{file}: jobs in another order");
                bad.queues[q].jobs.pop();
                assert!(run(&bad).is_err(), "{file}: a job is missing");
            }
        }
        // edges moved at random: refused, or as true as the others
        for _ in 0..200 {
            let mut bad = good.clone();
            let e = below(bad.edges.len());
            let other = bad.edges[below(good.edges.len())].clone();
            match below(3) {
                0 => bad.edges[e].to = other.to,
                1 => bad.edges[e].from = other.from,
                _ => {
                    let step = below(8) as u32;
                    match &mut bad.edges[e].from {
                        Source::Update(_, s, _)
                        | Source::Instant(_, s, _)
                        | Source::Job(_, s, _) => *s = step,
                    }
                }
            }
            match run(&bad) {
                Err(_) => refused += 1,
                Ok(_) => harmless += 1,
            }
        }
        // an edge turned round
        for edge in &good.edges {
            let Source::Update(stream, step, _) = &edge.from else { continue };
            let mut bad = good.clone();
            let back = Source::Update(edge.to.0.clone(), edge.to.1, 0);
            bad.edges.push(tpbemu::certificate::Edge { from: back, to: (stream.clone(), *step) });
            assert!(run(&bad).is_err(), "{file}: {edge:?} turned round");
        }
    }
    println!("{refused} random changes refused, {harmless} left a valid certificate");
    assert!(refused > 3 * harmless, "{refused} {harmless}");
}

/// Mutants of a program: those that matter or are reported are not proved, and the certificate of
/// the correct program does not pass for them.
fn on_mutants(path: &Path) -> (usize, usize, usize) {
    let (subject, good) = proved(path).expect("the program itself is proved");
    let timing = Subject { timing_only: true, ..subject.clone() };
    let bench = Bench::new(&timing).unwrap();
    let (mut count, mut still, mut bad) = (0, 0, 0);
    for mutant in mutants(&subject.program) {
        let Some(verdict) = bench.judge(&mutant).unwrap() else { continue };
        let other = of(Arc::clone(&mutant.program));
        let broken = verdict.matters || verdict.reported.is_some();
        let passes = analysis_proves(&other);
        let mut certificate = good.clone();
        certificate.program = hash(&mutant.program, &other.config);
        let accepted = check::check(&certificate, &mutant.program, &other.config).is_ok();
        let at = format!("{}: {}", name(path), mutant.what);
        assert!(!(verdict.matters && passes), "{at}: proved");
        assert!(!(verdict.matters && accepted), "{at}: certificate accepted");
        if broken && passes {
            println!("{at}: proved though reported as {:?}", verdict.reported);
        }
        count += 1;
        bad += usize::from(broken);
        still += usize::from(passes);
    }
    println!("{}: {count} mutants, {bad} broken, {still} still proved", name(path));
    (count, bad, still)
}

#[test]
fn no_broken_mutant_of_small_programs_is_proved() {
    let (clean, _) = programs();
    let open = |p: &Path| OPEN.iter().any(|o| o.0 == name(p));
    let small = |p: &&PathBuf| p.parent().is_some_and(|d| d.ends_with("sync")) && !open(p);
    let mut all = (0, 0, 0);
    for path in clean.iter().filter(small) {
        let (a, b, c) = on_mutants(path);
        all = (all.0 + a, all.1 + b, all.2 + c);
    }
    println!("{} mutants, {} broken, {} still proved", all.0, all.1, all.2);
    assert!(all.1 > 50, "{all:?}");
}

#[test]
#[ignore = "minutes"]
fn no_broken_mutant_of_any_program_is_proved() {
    let (clean, _) = programs();
    let open = |p: &&PathBuf| !OPEN.iter().any(|o| o.0 == name(p));
    for path in clean.iter().filter(open) {
        on_mutants(path);
    }
}

#[test]
fn exhaustive_finds_what_another_schedule_breaks() {
    let path = root().join("programs/sync/taken_away.tpb");
    let subject = subject(&path);
    let undisturbed = subject.run(Schedule::probe).unwrap();
    let known = known(&subject).unwrap().unwrap();
    let (delays, error) = exhaustive(&known, &subject, &undisturbed).unwrap().expect("a finding");
    let few = shrink(&delays, 2000, |d| {
        let trial = subject.run(|| Schedule::listed(d.clone()))?;
        Ok(subject.judge(&trial, &undisturbed).is_some_and(|e| e.class == error.class))
    })
    .unwrap();
    assert!(few.len() <= 3, "{few:?}");
}

#[test]
fn a_proved_program_has_one_class() {
    for file in ["sync/missing_arrival_fixed", "attention/attention", "v1-conv/v1-conv"] {
        let path = root().join("programs").join(file).with_extension("tpb");
        let subject = subject(&path);
        let known = known(&subject).unwrap().unwrap();
        let found = tpbemu::skeleton::classes::explore(
            &known.skeleton,
            &known.proof,
            Default::default(),
            &subject.interrupt,
        );
        assert!(found.complete && found.faults.is_empty(), "{file}: {found:?}");
        assert_eq!((found.classes, found.deadlocks), (1, 0), "{file}");
    }
}

fn tpbemu(args: &[&str]) -> (i32, String) {
    let output = assert_cmd::Command::cargo_bin("tpbemu")
        .unwrap()
        .current_dir(root())
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text.into_owned())
}

#[test]
fn exit_codes_and_certificate_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("certificate.json");
    let file = file.to_str().unwrap();
    let (code, text) =
        tpbemu(&["verify", "programs/sync/ring_too_short_fixed.tpb", "--certificate", file]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("proved: every schedule"), "{text}");
    let (code, text) = tpbemu(&["verify", "--check", file]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("valid: "), "{text}");
    let (code, text) = tpbemu(&["verify", "programs/sync/ring_too_short.tpb", "--check", file]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("another program"), "{text}");
    std::fs::write(file, "{}").unwrap();
    assert_eq!(tpbemu(&["verify", "--check", file]).0, 1);
    assert_eq!(tpbemu(&["verify", "programs/race"]).0, 11);
    let (code, text) = tpbemu(&["verify", "programs/sync/taken_away.tpb"]);
    assert_eq!(code, 13, "{text}");
    assert!(text.contains("counters_monotone: "), "{text}");
    assert!(
        text.contains(
            "2 classes of equivalent schedules, 1 of them end in a deadlock; these are all"
        ),
        "{text}"
    );
    // what library code touches depends on the data, which its certificate therefore names
    let (code, text) = tpbemu(&["verify", "programs/q7-libraries"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("from the data that the program begins with"), "{text}");
}

#[test]
fn timing_only_campaigns_run_on_the_skeleton() {
    let attention = ["stress", "programs/attention", "--timing-only", "--seeds", "0..500"];
    let (code, text) = tpbemu(&attention);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("on the skeleton of"), "{text}");
    assert!(text.contains("proved; 1 schedules on the machine as well"), "{text}");
    let polls =
        ["stress", "programs/sync/polls_forever_fixed.tpb", "--timing-only", "--seeds", "0..3"];
    let (_, text) = tpbemu(&polls);
    assert!(text.contains("no skeleton, so on the machine: "), "{text}");
    assert!(text.contains("without waiting"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let replay = directory.path().join("r.json");
    let replay = replay.to_str().unwrap();
    let broken = [
        "stress",
        "programs/sync/taken_away.tpb",
        "--timing-only",
        "--strategy",
        "adversarial",
        "--replay",
        replay,
    ];
    let (code, text) = tpbemu(&broken);
    assert_eq!(code, 13, "{text}");
    assert!(text.contains("on the skeleton of"), "{text}");
    assert_eq!(tpbemu(&["replay", replay]).0, 0);
    let all =
        ["stress", "programs/sync/taken_away.tpb", "--strategy", "exhaustive", "--replay", replay];
    let (code, text) = tpbemu(&all);
    assert_eq!(code, 13, "{text}");
    assert_eq!(tpbemu(&["replay", replay]).0, 0);
}

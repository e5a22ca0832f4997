//! Classical mistakes and their corrected twins (`programs/sync`), exploration, replay, and the
//! score of the race check.
//!
//! `TPBEMU_BLESS=1` writes the expected reports anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tpbemu::Error;
use tpbemu::cli::run::load;
use tpbemu::explore::campaign::{Book, Campaign, Header, read};
use tpbemu::explore::merge::Merged;
use tpbemu::explore::mutate::{mutants, score};
use tpbemu::explore::replay::{Replay, listed};
use tpbemu::explore::shrink::shrink;
use tpbemu::explore::{Delays, Kind, Schedule, Strategy, Subject};
use tpbemu::machine::{self, MachineConfig, Options, Races};

const STRATEGIES: [Strategy; 4] =
    [Strategy::Jitter, Strategy::Pct, Strategy::Adversarial, Strategy::Exhaustive];

/// Programs whose plain run is clean and that another schedule breaks.
const OTHER_SCHEDULES: [&str; 1] = ["taken_away"];

/// Correct programs.
const CLEAN: [&str; 8] =
    ["matmul", "mlp", "attention", "mamba", "v1-conv", "v1-sp", "q7-libraries", "q7-custom"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn corpus() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(root().join("programs/sync"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "tpb"))
        .map(|p| p.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|n| !n.ends_with("_fixed"))
        .collect();
    names.sort();
    names
}

fn subject(path: &Path, timing_only: bool) -> Subject {
    let program = Arc::new(load(path, None).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
    Subject {
        config: Arc::new(MachineConfig::builtin(program.generation)),
        program,
        timing_only,
        max_cycles: 1_000_000_000,
        interrupt: Arc::new(AtomicBool::new(false)),
        threads: 0,
    }
}

fn sync_program(name: &str) -> Subject {
    subject(&root().join("programs/sync").join(name).with_extension("tpb"), false)
}

/// The report without the place of the repository and without times: those belong to the timing
/// model, not to the check.
fn text(error: &Error) -> String {
    let whole = error.to_string().replace(&format!("{}/", root().display()), "");
    let mut out = String::new();
    let mut rest = whole.as_str();
    let marks = ["started at ", "waiting since ", "looping since ", ", cycle "];
    while let Some((at, mark)) =
        marks.iter().filter_map(|m| Some((rest.find(m)?, m))).min_by_key(|x| x.0)
    {
        let (before, after) = rest.split_at(at + mark.len());
        out += before;
        out.push('~');
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    }
    out + rest + "\n"
}

/// The first seed that breaks the program, if one does.
fn explore(subject: &Subject, strategy: Strategy, seeds: u64) -> Option<(u64, Error)> {
    let undisturbed = subject.run(Schedule::probe).unwrap();
    assert!(undisturbed.error.is_none(), "{}", undisturbed.error.unwrap());
    (0..seeds).find_map(|seed| {
        let make = || Schedule::of_seed(strategy, seed, &undisturbed.plain);
        let trial = subject.run(make).unwrap();
        subject.judge(&trial, &undisturbed).map(|e| (seed, e))
    })
}

#[test]
fn every_mistake_gives_its_report() {
    let names = corpus();
    assert!(names.len() >= 20, "{} programs", names.len());
    let bless = std::env::var_os("TPBEMU_BLESS").is_some();
    for name in names {
        let mut subject = sync_program(&name);
        let error = if OTHER_SCHEDULES.contains(&name.as_str()) {
            explore(&subject, Strategy::Adversarial, 200).expect("some schedule breaks it").1
        } else {
            let plain = || Schedule::listed(Delays::new());
            let inline = subject.run(plain).unwrap().error.expect(&name);
            subject.threads = 2;
            let threads = subject.run(plain).unwrap().error.expect(&name);
            assert_eq!(inline, threads, "{name}: the report does not depend on threads");
            inline
        };
        let path = root().join("programs/sync").join(&name).with_extension("expected");
        if bless {
            std::fs::write(&path, text(&error)).unwrap();
        }
        let expected = std::fs::read_to_string(&path).expect(&name);
        assert_eq!(text(&error), expected, "{name}");
    }
}

#[test]
fn every_twin_is_clean_on_any_schedule() {
    for name in corpus() {
        let fixed = sync_program(&format!("{name}_fixed"));
        for strategy in STRATEGIES {
            if let Some((seed, error)) = explore(&fixed, strategy, 8) {
                panic!("{name}_fixed, {strategy:?} seed {seed}: {error}");
            }
        }
    }
}

#[test]
fn no_false_alarm_on_disturbed_examples() {
    for name in ["matmul", "attention", "v1-conv", "v1-sp"] {
        let subject = subject(&root().join("programs").join(name), true);
        for strategy in STRATEGIES {
            if let Some((seed, error)) = explore(&subject, strategy, 4) {
                panic!("{name}, {strategy:?} seed {seed}: {error}");
            }
        }
    }
}

#[test]
#[ignore = "slow; run by tools/nightly"]
fn no_false_alarm_on_a_thousand_seeds() {
    let mut all: Vec<PathBuf> =
        corpus().iter().map(|n| root().join(format!("programs/sync/{n}_fixed.tpb"))).collect();
    for name in CLEAN {
        all.push(root().join("programs").join(name));
    }
    for path in all {
        let subject = subject(&path, true);
        for strategy in STRATEGIES {
            if let Some((seed, error)) = explore(&subject, strategy, 1000) {
                panic!("{}, {strategy:?} seed {seed}: {error}", path.display());
            }
        }
    }
}

#[test]
fn a_finding_shrinks_and_repeats() {
    shrinks_and_repeats(12);
}

#[test]
#[ignore = "slow; run by tools/nightly"]
fn a_finding_repeats_a_hundred_times() {
    shrinks_and_repeats(100);
}

/// Every finding of the corpus shrinks to at most three delays and repeats with any threads.
fn shrinks_and_repeats(times: usize) {
    for name in corpus() {
        let mut subject = sync_program(&name);
        let undisturbed = subject.run(Schedule::probe).unwrap();
        let (kind, delays) = match &undisturbed.error {
            Some(e) => (Kind::of(e), Delays::new()),
            None => {
                let (seed, error) = explore(&subject, Strategy::Jitter, 1000).expect(&name);
                let make = || Schedule::of_seed(Strategy::Jitter, seed, &undisturbed.plain);
                (Kind::of(&error), subject.run(make).unwrap().delays)
            }
        };
        let few = shrink(&delays, 1000, |d| {
            let trial = subject.run(|| Schedule::listed(d.clone()))?;
            Ok(subject.judge(&trial, &undisturbed).is_some_and(|e| Kind::of(&e) == kind))
        })
        .unwrap();
        assert!(few.len() <= 3, "{name}: {few:?}");
        assert_eq!(few.is_empty(), !OTHER_SCHEDULES.contains(&name.as_str()), "{name}");
        let want = subject.run(|| Schedule::listed(few.clone())).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("finding.json");
        let replay = Replay {
            program: "p.tpb".into(),
            config: (*subject.config).clone(),
            timing_only: false,
            max_cycles: subject.max_cycles,
            delays: listed(&few),
            finding: kind.clone(),
            report: String::new(),
            trace_digest: format!("{:016x}", want.trace),
        };
        replay.store(&file).unwrap();
        let read = Replay::load(&file).unwrap();
        assert_eq!(read, replay);
        for i in 0..times {
            subject.threads = [0, 1, 2, 8][i % 4];
            let again = subject.run(|| Schedule::listed(read.delays())).unwrap();
            assert_eq!(again.trace, want.trace, "{name}, {} threads", subject.threads);
            assert_eq!(again.error, want.error, "{name}, {} threads", subject.threads);
        }
    }
}

#[test]
fn a_campaign_goes_on_where_it_stopped() {
    let subject = sync_program("taken_away");
    let undisturbed = subject.run(Schedule::probe).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let campaign = |end: u64, shard: (u64, u64)| Campaign {
        subject: &subject,
        undisturbed: &undisturbed,
        strategy: Strategy::Adversarial,
        seeds: 0..end,
        shard,
        jobs: 2,
    };
    let run = |file: &str, end: u64, shard: (u64, u64)| {
        let header = Header::of(&subject).unwrap();
        let mut book = Book::open(Some(&directory.path().join(file)), &header).unwrap();
        campaign(end, shard).run(&mut book, |_| {}).unwrap()
    };
    let lines = |file: &str| {
        let mut lines = read(&directory.path().join(file)).unwrap().lines;
        lines.sort_by_key(|l| l.seed);
        lines
    };
    let whole = run("whole", 40, (0, 1));
    assert_eq!(whole.done, 40);
    assert!(!whole.findings.is_empty());
    assert!(whole.orders.len() > 1);
    run("parts", 15, (0, 1));
    // a line that a full disk cut short
    let path = directory.path().join("parts");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    assert_eq!(lines("parts").len(), 14);
    let resumed = run("parts", 40, (0, 1));
    assert_eq!((resumed.done, &resumed.findings), (40, &whole.findings));
    assert_eq!(lines("parts"), lines("whole"));
    let shards = [run("s0", 40, (0, 3)), run("s1", 40, (1, 3)), run("s2", 40, (2, 3))];
    assert_eq!(shards.iter().map(|t| t.done).sum::<u64>(), 40);
    let files: Vec<PathBuf> = ["s0", "s1", "s2"].map(|f| directory.path().join(f)).into();
    let merged = Merged::read(&files).unwrap();
    assert_eq!(merged.lines, lines("whole"));
    assert!(merged.missing(Strategy::Adversarial, Some(&(0..40))).is_empty());
    assert_eq!(merged.tally(Strategy::Adversarial).findings, whole.findings);
    // the joined file is a campaign that goes on
    merged.store(&directory.path().join("joined")).unwrap();
    assert_eq!(run("joined", 42, (0, 1)).resumed, 40);
    // without the middle shard a third of the seeds is missing
    let two = Merged::read(&[files[0].clone(), files[2].clone()]).unwrap();
    let gaps = two.missing(Strategy::Adversarial, Some(&(0..41)));
    assert_eq!(gaps.iter().map(|r| r.end - r.start).sum::<u64>(), 14);
    assert_eq!(gaps.first(), Some(&(1..2)));
    assert_eq!(gaps.last(), Some(&(40..41)));
    // the same seeds twice are fine, a seed with two results is not
    assert_eq!(Merged::read(&[files[0].clone(), path.clone()]).unwrap().repeated, 14);
    let forged = std::fs::read_to_string(&files[1]).unwrap().replace("\"ticks\":", "\"ticks\":9");
    std::fs::write(&files[1], forged).unwrap();
    let error = Merged::read(&[path, files[1].clone()]).err().expect("two results");
    assert!(error.message.contains("has different results"), "{error}");
}

#[test]
fn a_foreign_campaign_file_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let subject = sync_program("taken_away");
    let header = Header::of(&subject).unwrap();
    let other = Header::of(&sync_program("taken_away_fixed")).unwrap();
    Book::open(Some(&path), &other).unwrap();
    let refuse = |say: &str| {
        let before = std::fs::read(&path).unwrap();
        let error = Book::open(Some(&path), &header).err().expect(say);
        assert!(error.message.contains(say), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    };
    refuse("another campaign: program ");
    for text in ["my notes", "my notes\n", "{\"seed\":1}\n"] {
        std::fs::write(&path, text).unwrap();
        refuse("campaign file");
    }
    // a damaged line in the middle is not the work of a full disk
    std::fs::remove_file(&path).unwrap();
    Book::open(Some(&path), &header).unwrap();
    let mut text = std::fs::read(&path).unwrap();
    text.extend(b"{\"seed\":1,\n{}\n");
    std::fs::write(&path, text).unwrap();
    refuse("line 2");
    // what a full disk left of the head
    let mut head = std::fs::read(&path).unwrap();
    head.truncate(20);
    std::fs::write(&path, head).unwrap();
    assert!(Book::open(Some(&path), &header).unwrap().lines.is_empty());
    assert_eq!(read(&path).unwrap().header, Some(header.clone()));
    // nothing of where the program lies is in the digest
    let mut moved = sync_program("taken_away");
    Arc::make_mut(&mut moved.program).sources = vec!["elsewhere.tpb".into()];
    assert_eq!(Header::of(&moved).unwrap(), header);
    Arc::make_mut(&mut moved.program).streams[0].words[0][20] ^= 1;
    assert_ne!(Header::of(&moved).unwrap().program, header.program);
}

#[test]
fn exhaustive_covers_all_and_says_so() {
    let subject = sync_program("taken_away");
    let undisturbed = subject.run(Schedule::probe).unwrap();
    let all = undisturbed.plain.bounded();
    assert!(all > 50, "{all}");
    let campaign = Campaign {
        subject: &subject,
        undisturbed: &undisturbed,
        strategy: Strategy::Exhaustive,
        seeds: 0..all,
        shard: (0, 1),
        jobs: 2,
    };
    let tally = campaign.run(&mut Book::none(), |_| {}).unwrap();
    assert_eq!(tally.done, all);
    assert_eq!(tally.findings.len(), 1);
}

#[test]
fn mutations_that_matter_are_reported() {
    for name in ["attention", "v1-sp"] {
        let subject = subject(&root().join("programs").join(name), true);
        let mut missed = Vec::new();
        let s = score(&subject, |m, v| {
            if v.matters && v.reported.is_none() {
                missed.push(m.what.clone());
            }
        })
        .unwrap();
        assert_eq!(s.mutants, mutants(&subject.program).len(), "{name}: all mutants load");
        assert!(s.matter * 2 > s.mutants, "{name}: {s:?}");
        assert!(s.caught * 100 >= s.matter * 98, "{name}: {s:?}, missed {missed:?}");
    }
}

#[test]
fn what_has_no_effect_is_a_remark_and_no_finding() {
    let subject = sync_program("wrong_semaphore_fixed");
    let options = || Options { races: Races::Collect, ..Options::default() };
    let (program, config) = (Arc::clone(&subject.program), Arc::clone(&subject.config));
    let result = machine::run(program, config, options, |_, _| Vec::new(), false).unwrap();
    assert!(result.finished.races.is_empty());
    let remarks = result.finished.remarks.join("\n");
    assert!(
        remarks.contains("POOL pc 0: updates $S[pool_done], which nobody waits for"),
        "{remarks}"
    );
    assert!(remarks.contains("$S[dve_done] is 1 at the end"), "{remarks}");
    // a wait that holds whatever happens
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.tpb");
    std::fs::write(&path, ".generation v3\n.stream ACT\n  NOP $S[3]>=0\n").unwrap();
    let (program, config) = (Arc::new(load(&path, None).unwrap()), subject.config.clone());
    let result = machine::run(program, config, options, |_, _| Vec::new(), false).unwrap();
    assert_eq!(result.finished.remarks, ["ACT pc 0: its wait always holds"]);
}

#[test]
fn a_race_can_be_allowed_by_its_pair_of_instructions() {
    let source = std::fs::read_to_string(root().join("programs/sync/missing_wait.tpb")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.tpb");
    let run = |line: &str| {
        std::fs::write(&path, source.replace(".stream DVE", &format!("{line}\n.stream DVE\nw:")))
            .unwrap();
        let mut subject = subject(&path, true);
        // as text, and after the way through a container
        let bytes = tpbemu::program::container::encode(&subject.program).unwrap();
        let first = subject.run(|| Schedule::listed(Delays::new())).map(|t| t.error);
        subject.program = Arc::new(tpbemu::program::container::decode(&bytes).unwrap());
        let second = subject.run(|| Schedule::listed(Delays::new())).map(|t| t.error);
        assert_eq!(first, second);
        first
    };
    let allow = |pair: &str| run(&format!(".allow_race between {pair} \"meant\""));
    let class = |e: &Error| e.rule.as_deref().map(str::to_string);
    assert_eq!(run("").unwrap().as_ref().and_then(class).as_deref(), Some("race"));
    for pair in ["\"DVE 0\" \"ACT 0\"", "\"ACT 0\" \"DVE w\""] {
        assert_eq!(allow(pair).unwrap(), None, "{pair}");
    }
    // another pair is still a race; a pair that is not there is a mistake
    assert_eq!(
        allow("\"DVE 0\" \"DVE w\"").unwrap().as_ref().and_then(class).as_deref(),
        Some("race")
    );
    for pair in ["\"DVE 1\" \"ACT 0\"", "\"DVE x\" \"ACT 0\"", "\"q load\" \"ACT 0\""] {
        assert!(allow(pair).unwrap_err().message.contains("no instruction or block"), "{pair}");
    }
}

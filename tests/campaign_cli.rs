//! `tpbemu stress --campaign`, `campaign merge` and `replay` as a user calls them: full disk,
//! Ctrl-C, shards, timelines.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tpbemu::explore::campaign::{Line, read};

fn program(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("programs/sync").join(name).with_extension("tpb").display().to_string()
}

fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin("tpbemu")
}

fn tpbemu(directory: &Path, words: &[&str]) -> Output {
    Command::new(binary()).args(words).current_dir(directory).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn lines(path: &Path) -> Vec<Line> {
    let mut lines = read(path).unwrap().lines;
    lines.sort_by_key(|l| l.seed);
    lines
}

#[test]
#[cfg(unix)]
fn a_full_disk_loses_no_finished_seed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let fixed = program("taken_away_fixed");
    // a limit on the size of files stands for the full disk: the write comes back short
    let script = format!(
        "trap '' XFSZ; ulimit -f 4; exec '{}' stress '{fixed}' --seeds 0..200 --campaign c",
        binary().display()
    );
    let full = Command::new("sh").args(["-c", &script]).current_dir(at).output().unwrap();
    assert_eq!(full.status.code(), Some(5), "{}", text(&full));
    assert!(text(&full).contains("the seeds written so far are safe"), "{}", text(&full));
    let bytes = std::fs::read(at.join("c")).unwrap();
    assert_eq!(bytes.last(), Some(&b'\n'), "no half line is left");
    let kept = lines(&at.join("c"));
    assert!(!kept.is_empty() && kept.len() < 200, "{}", kept.len());
    let resumed = tpbemu(at, &["stress", &fixed, "--seeds", "0..200", "--campaign", "c"]);
    assert!(resumed.status.success(), "{}", text(&resumed));
    // progress is for terminals only
    assert!(resumed.stderr.is_empty(), "{}", text(&resumed));
    tpbemu(at, &["stress", &fixed, "--seeds", "0..200", "--campaign", "whole"]);
    assert_eq!(lines(&at.join("c")), lines(&at.join("whole")));
}

#[test]
#[cfg(unix)]
fn an_interrupt_loses_no_finished_seed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let file = at.join("c");
    let child = Command::new(binary())
        .args(["stress", &program("taken_away_fixed"), "--seeds", "0..100000000"])
        .args(["--campaign", "c", "--jobs", "2"])
        .current_dir(at)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let count = || std::fs::read(&file).map_or(0, |b| b.iter().filter(|c| **c == b'\n').count());
    while count() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(16), "{}", text(&output));
    let told: u64 = text(&output).split_whitespace().next().unwrap().parse().unwrap();
    let kept = lines(&file);
    assert_eq!(kept.len() as u64, told, "what is told is written");
    // two workers: no seed is skipped but those in flight
    let missing = kept.last().unwrap().seed + 1 - told;
    assert!(missing <= 2, "{missing} seeds missing");
}

#[test]
fn shards_of_a_job_array_are_joined() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let run = |name: &str, shard: &str, file: &str| {
        let common = ["--seeds", "0..30", "--strategy", "adversarial"];
        let p = program(name);
        let mut words = vec!["stress", p.as_str(), "--campaign", file, "--shard", shard];
        words.extend(common);
        tpbemu(at, &words)
    };
    for (i, file) in ["a", "b", "c"].iter().enumerate() {
        run("taken_away_fixed", &format!("{i}/3"), file);
    }
    run("taken_away_fixed", "0/1", "whole");
    let merge = |words: &[&str]| {
        let mut all = vec!["campaign", "merge"];
        all.extend(words);
        tpbemu(at, &all)
    };
    let all = merge(&["c", "a", "b", "-o", "joined", "--seeds", "0..30"]);
    assert!(all.status.success(), "{}", text(&all));
    assert!(text(&all).contains("30 seeds"), "{}", text(&all));
    // in order of seeds, as one job would have written them
    assert_eq!(read(&at.join("joined")).unwrap().lines, lines(&at.join("whole")));
    let two = merge(&["a", "b", "-o", "two", "--seeds", "0..30"]);
    assert_eq!(two.status.code(), Some(1), "{}", text(&two));
    assert!(text(&two).contains("missing seeds: 2, 5, 8"), "{}", text(&two));
    run("missing_arrival_fixed", "0/3", "foreign");
    let foreign = merge(&["a", "foreign", "-o", "never"]);
    assert_eq!(foreign.status.code(), Some(4), "{}", text(&foreign));
    assert!(text(&foreign).contains("different campaigns: program"), "{}", text(&foreign));
    assert!(!at.join("never").exists());
    let refused = run("missing_arrival_fixed", "0/3", "a");
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused));
}

#[test]
fn a_finding_comes_with_its_timeline_and_is_replayed_with_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let p = program("taken_away");
    let words = ["stress", &p, "--strategy", "adversarial", "--trace", "finding.html"];
    let found = tpbemu(at, &words);
    assert_eq!(found.status.code(), Some(13), "{}", text(&found));
    let out = String::from_utf8_lossy(&found.stdout).into_owned();
    let line = |start: &str| out.lines().find(|l| l.starts_with(start)).unwrap_or_default();
    // POOL's count runs late or ACT looks late: the picture shows the delay and who is stuck
    assert!(line("ns ").contains('.'), "{out}");
    assert!(out.contains('~') && out.contains("delayed by"), "{out}");
    assert!(out.contains("ACT pc 0") && out.contains("waits since"), "{out}");
    assert!(out.lines().filter(|l| l.starts_with('*')).count() >= 2, "{out}");
    assert!(std::fs::read_to_string(at.join("finding.html")).unwrap().contains("<html"));
    for threads in ["0", "2"] {
        let words =
            ["replay", "taken_away.replay.json", "--trace", "again.jsonl", "--threads", threads];
        let again = tpbemu(at, &words);
        assert!(again.status.success(), "{}", text(&again));
        assert!(text(&again).contains("* what the finding is about"), "{}", text(&again));
        assert!(std::fs::metadata(at.join("again.jsonl")).unwrap().len() > 0);
    }
}

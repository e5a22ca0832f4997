//! Traces of a program in every format, from one run, and from its recording later.

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

fn tpbemu(args: &[&str]) -> std::process::Output {
    Command::cargo_bin("tpbemu").unwrap().args(args).output().unwrap()
}

const FORMATS: [&str; 6] = ["json", "pftrace", "html", "csv", "vcd", "jsonl"];

/// Runs `name` with a trace in every format; gives the summary, if the run came to its end.
fn run(name: &str, directory: &Path) -> Option<Value> {
    let files: Vec<String> = FORMATS
        .iter()
        .map(|f| directory.join("t").with_extension(f).to_string_lossy().into_owned())
        .collect();
    let program = program(name);
    let mut args = vec!["run", program.to_str().unwrap(), "--summary", "json"];
    for file in &files {
        args.extend(["--trace", file]);
    }
    let output = tpbemu(&args);
    for file in &files {
        assert!(Path::new(file).exists(), "{name}: {file} was not written");
    }
    let left: Vec<_> = std::fs::read_dir(directory).unwrap().collect();
    assert_eq!(left.len(), FORMATS.len(), "{name} leaves nothing else behind: {left:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let first = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
    output.status.success().then(|| first.unwrap().unwrap())
}

fn ticks(v: &Value) -> u64 {
    v["args"]["end_tick"].as_u64().unwrap() - v["args"]["start_tick"].as_u64().unwrap()
}

#[test]
fn the_chrome_trace_adds_up_to_the_summary() {
    for name in ["attention", "mlp", "v1-sp"] {
        let directory = tempfile::tempdir().unwrap();
        let summary = run(name, directory.path()).unwrap();
        let bytes = std::fs::read(directory.path().join("t.json")).unwrap();
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(trace["otherData"]["total_ticks"], summary["total_ticks"]);
        let events = trace["traceEvents"].as_array().unwrap();
        for (s, stream) in summary["streams"].as_array().unwrap().iter().enumerate() {
            let of = |cat: &str, lane: usize| -> u64 {
                events
                    .iter()
                    .filter(|e| e["cat"] == cat && e["tid"] == s * 3 + lane)
                    .map(ticks)
                    .sum()
            };
            let stalls: u64 =
                stream["stall_ticks"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
            assert_eq!(of("stall", 1), stalls, "{name} {}", stream["name"]);
            let busy = of("data", 0) + of("dma", 0);
            assert_eq!(busy, stream["busy_ticks"].as_u64().unwrap(), "{name} {}", stream["name"]);
        }
    }
}

#[test]
fn shares_of_the_critical_path_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let summary = run("attention", directory.path()).unwrap();
    let shares = summary["streams"].as_array().unwrap().iter().map(|s| &s["critical_share"]);
    let sum: f64 = shares.chain([&summary["critical_sync_share"]]).filter_map(Value::as_f64).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    // scores, softmax and output alternate between PE, ACT, DVE and POOL
    for s in 0..4 {
        assert!(summary["streams"][s]["critical_share"].as_f64().unwrap() > 0.0, "stream {s}");
    }
}

#[test]
fn a_run_that_fails_leaves_whole_traces() {
    for name in ["deadlock", "race"] {
        let directory = tempfile::tempdir().unwrap();
        assert!(run(name, directory.path()).is_none());
        let json = std::fs::read(directory.path().join("t.json")).unwrap();
        let trace: Value = serde_json::from_slice(&json).unwrap();
        let error = trace["otherData"]["error"].as_str().unwrap();
        assert!(error.contains(name), "{error}");
        let table = std::fs::read_to_string(directory.path().join("t.csv/Error.csv")).unwrap();
        assert!(table.contains(name), "{table}");
        let html = std::fs::read_to_string(directory.path().join("t.html")).unwrap();
        assert!(html.trim_end().ends_with("</html>"));
    }
}

#[test]
fn a_recording_gives_the_same_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |f: &str| directory.path().join(f).to_string_lossy().into_owned();
    run("mamba", directory.path()).unwrap();
    for format in ["json", "pftrace", "html", "vcd", "jsonl"] {
        let (direct, later) = (at(&format!("t.{format}")), at(&format!("later.{format}")));
        let output = tpbemu(&["export", &at("t.jsonl"), "--output", &later]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let same = std::fs::read(direct).unwrap() == std::fs::read(later).unwrap();
        assert!(same, "{format} differs");
    }
    let output = tpbemu(&["export", &at("t.jsonl"), "-o", &at("pe.json"), "--stream", "PE"]);
    assert!(output.status.success());
    let trace: Value = serde_json::from_slice(&std::fs::read(at("pe.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().all(|e| e["ph"] != "X" || e["tid"].as_u64().unwrap() < 3));
    let output = tpbemu(&["export", &at("t.jsonl"), "-o", &at("x.json"), "--stream", "nobody"]);
    assert!(!output.status.success());
}

#[test]
fn what_is_no_recording_is_an_error_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (bad, out) = (directory.path().join("bad.jsonl"), directory.path().join("out.html"));
    run("matmul", directory.path()).unwrap();
    let good = std::fs::read_to_string(directory.path().join("t.jsonl")).unwrap();
    let cut = good.lines().take(8).map(|l| format!("{l}\n")).collect::<String>();
    let swapped = good.replace("\"stream\":0,", "\"stream\":999,");
    for text in ["", "x\n", "{\"end\":{\"tick\":1,\"error\":null}}\n", &cut, &swapped] {
        std::fs::write(&bad, text).unwrap();
        let output = tpbemu(&["export", bad.to_str().unwrap(), "-o", out.to_str().unwrap()]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("recording line"), "{error}");
        assert!(!out.exists());
    }
}

#[test]
fn an_unknown_extension_is_told_before_the_run() {
    let program = program("matmul");
    let output = tpbemu(&["run", program.to_str().unwrap(), "--trace", "x.doc"]);
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains(".pftrace"));
}

#[test]
fn compare_finds_what_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |n: &str| directory.path().join(n).to_string_lossy().into_owned();
    for name in ["attention", "mlp"] {
        let program = program(name);
        let output = tpbemu(&["run", program.to_str().unwrap(), "--summary", "json"]);
        std::fs::write(path(name), output.stdout).unwrap();
    }
    let same = tpbemu(&["compare", &path("attention"), &path("attention")]);
    let text = String::from_utf8(same.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "only the total and the count of equal figures: {text}");
    let other = tpbemu(&["compare", &path("attention"), &path("mlp"), "--json"]);
    let rows: Value = serde_json::from_slice(&other.stdout).unwrap();
    let total = &rows["total ns"];
    assert_ne!(total["before"], total["after"]);
}

/// Drives the viewer in headless Chromium, where there is one.
#[test]
fn the_viewer_works_in_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let summary = run("attention", directory.path()).unwrap();
    let rows: u64 = summary["streams"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|s| s["instructions"].as_u64())
        .sum();
    let path = directory.path().join("summary.json");
    std::fs::write(&path, summary.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/trace-viewer-test.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(directory.path().join("t.html"))
        .args(["--rows", &rows.to_string(), "--totals", path.to_str().unwrap()])
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: no python3 here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(0) => assert!(said.contains("pans at"), "{said}"),
        Some(77) => eprintln!("{said}"),
        _ => panic!("{said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

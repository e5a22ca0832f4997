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

const FORMATS: [&str; 7] = ["json", "pftrace", "html", "csv", "vcd", "jsonl", "tpbtrace"];

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

/// Ticks that at least one of the slices covers.
fn ticks<'a>(slices: impl Iterator<Item = &'a Value>) -> u64 {
    let at = |v: &Value, name: &str| v["args"][name].as_u64().unwrap();
    let mut spans: Vec<(u64, u64)> =
        slices.map(|v| (at(v, "start_tick"), at(v, "end_tick"))).collect();
    spans.sort_unstable();
    let (mut total, mut until) = (0, 0);
    for (from, to) in spans {
        total += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    total
}

/// Streams have so many tracks each.
const LANES: u64 = 16;

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
            let of = |cat: &str| {
                let mine = |e: &&Value| {
                    e["cat"] == cat && e["tid"].as_u64().is_some_and(|t| t / LANES == s as u64)
                };
                ticks(events.iter().filter(mine))
            };
            let stalls: u64 =
                stream["stall_ticks"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
            assert_eq!(of("stall"), stalls, "{name} {}", stream["name"]);
            let busy = of("data") + of("dma");
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
fn the_summary_has_every_figure_in_text_and_json() {
    let directory = tempfile::tempdir().unwrap();
    let json = run("attention", directory.path()).unwrap();
    let streams = json["streams"].as_array().unwrap();
    // ACT waits for PE's results and for POOL's and DVE's
    let act = &streams[1];
    let by: Vec<&str> = act["waits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["released_by"].as_str().unwrap())
        .collect();
    assert!(by.contains(&"PE") && by.contains(&"DVE"), "{by:?}");
    for s in streams {
        let sum =
            |v: &Value| -> u64 { v.as_object().unwrap().values().filter_map(Value::as_u64).sum() };
        let waits: u64 =
            s["waits"].as_array().unwrap().iter().filter_map(|w| w["ticks"].as_u64()).sum();
        assert_eq!(sum(&s["waited_on"]), waits);
        let semaphore = s["stall_ticks"]["semaphore"].as_u64().unwrap_or(0);
        assert_eq!(waits, semaphore, "{}: every tick of waiting has what it waited for", s["name"]);
    }
    for field in [
        "total_time",
        "neuroncore_cycle_count",
        "hardware_flops",
        "hfu_estimated_percent",
        "dma_active_time_percent",
        "dma_transfer_total_bytes",
        "mbu_estimated_percent",
        "mm_arithmetic_intensity",
        "peak_flops_bandwidth_ratio",
        "sbuf_read_bytes",
        "psum_write_bytes",
        "hbm_read_bytes",
        "tensor_engine_active_time_percent",
        "gpsimd_engine_instruction_count",
        "matmul_instruction_count",
        "activate_instruction_time",
        "total_active_time",
    ] {
        assert!(json[field].as_f64().unwrap() > 0.0, "{field}");
    }
    assert!(!json["top"].as_array().unwrap().is_empty());
    let text =
        String::from_utf8(tpbemu(&["run", program("attention").to_str().unwrap()]).stdout).unwrap();
    for part in [
        "simulated time",
        "busy %",
        "crit %",
        "semaphore ",
        "TFLOP/s",
        "GB/s",
        "roofline:",
        "bytes: hbm",
        "busiest instructions",
        "critical path in synchronisation",
        "ACT waited",
        "released by PE",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
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
    for recording in ["t.jsonl", "t.tpbtrace"] {
        for format in ["json", "pftrace", "html", "vcd", "jsonl", "tpbtrace"] {
            let (direct, later) = (at(&format!("t.{format}")), at(&format!("later.{format}")));
            let output = tpbemu(&["export", &at(recording), "--output", &later]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let same = std::fs::read(direct).unwrap() == std::fs::read(later).unwrap();
            assert!(same, "{format} from {recording} differs");
        }
    }
    let output = tpbemu(&["export", &at("t.jsonl"), "-o", &at("pe.json"), "--stream", "PE"]);
    assert!(output.status.success());
    let trace: Value = serde_json::from_slice(&std::fs::read(at("pe.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().all(|e| e["ph"] != "X" || e["tid"].as_u64().unwrap() < LANES));
    let output = tpbemu(&["export", &at("t.jsonl"), "-o", &at("x.json"), "--stream", "nobody"]);
    assert!(!output.status.success());
}

/// Events of a Chrome trace.
fn events(path: &Path) -> (Vec<Value>, u64) {
    let mut trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let total = trace["otherData"]["total_ticks"].as_u64().unwrap();
    let Value::Array(events) = trace["traceEvents"].take() else { panic!("no events") };
    (events, total)
}

/// Ticks by category: busy data paths and queues as unions per stream, stalls as sums.
fn sums(parts: &[Vec<Value>]) -> std::collections::BTreeMap<(u64, String), u64> {
    let mut by: std::collections::BTreeMap<(u64, String), Vec<&Value>> = Default::default();
    for e in parts.iter().flatten().filter(|e| e["ph"] == "X" && e["cat"] != "q7") {
        let tid = e["tid"].as_u64().unwrap() / LANES;
        by.entry((tid, e["cat"].as_str().unwrap().to_string())).or_default().push(e);
    }
    by.retain(|(_, cat), _| cat != "control");
    by.into_iter().map(|(k, v)| (k, ticks(v.into_iter()))).collect()
}

#[test]
fn parts_of_a_split_trace_add_up_to_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let at = |f: &str| directory.path().join(f);
    run("mamba", directory.path()).unwrap();
    let (whole, total) = events(&at("t.json"));
    let whole = sums(&[whole]);
    let recording = at("t.tpbtrace").to_string_lossy().into_owned();
    let export = |file: &str, more: &[&str]| {
        let path = at(file).to_string_lossy().into_owned();
        let mut args = vec!["export", &recording, "-o", &path];
        args.extend(more);
        let output = tpbemu(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    export("s.json", &["--split", "64K"]);
    assert!(!at("s.json").exists());
    let (mut parts, mut ends) = (Vec::new(), Vec::new());
    while let path = at(&format!("s.{:03}.json", parts.len()))
        && path.exists()
    {
        let size = std::fs::metadata(&path).unwrap().len();
        // the end of a part closes what is under way
        assert!(size < (64 << 10) + 8192, "{size}");
        let (events, end) = events(&path);
        parts.push(events);
        ends.push(end);
    }
    assert!(parts.len() > 3, "{}", parts.len());
    assert!(ends.is_sorted());
    assert_eq!(ends.last(), Some(&total));
    assert_eq!(sums(&parts), whole);

    // two halves of the time hold all of it, each within its bounds
    let hz = {
        let text = std::fs::read_to_string(at("t.jsonl")).unwrap();
        let start: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        start["start"]["header"]["tick_hz"].as_u64().unwrap() as f64
    };
    let ns = format!("{}", (total / 2) as f64 * 1e9 / hz);
    export("a.json", &["--to-ns", &ns]);
    export("b.json", &["--from-ns", &ns]);
    let ((a, a_end), (b, b_end)) = (events(&at("a.json")), events(&at("b.json")));
    assert!(a_end.abs_diff(total / 2) <= 1 && b_end == total);
    let stalls = |all: std::collections::BTreeMap<(u64, String), u64>| -> u64 {
        all.iter().filter(|((_, cat), _)| cat == "stall").map(|(_, n)| n).sum()
    };
    assert_eq!(stalls(sums(&[a])) + stalls(sums(&[b])), stalls(whole));

    // tables split their files
    export("s.csv", &["--split", "16K"]);
    let rows = |directory: &str, part: &str| {
        let text = std::fs::read_to_string(at(directory).join(part)).unwrap();
        text.lines().skip(1).map(str::to_string).collect::<Vec<_>>()
    };
    let mut all = rows("s.csv", "Instruction.csv");
    for part in 1.. {
        let name = format!("Instruction.{part}.csv");
        if !at("s.csv").join(&name).exists() {
            assert!(part > 2);
            break;
        }
        all.extend(rows("s.csv", &name));
    }
    assert_eq!(all, rows("t.csv", "Instruction.csv"));
}

#[test]
fn a_trace_of_one_engine_holds_nothing_else_in_any_format() {
    let directory = tempfile::tempdir().unwrap();
    let at = |f: &str| directory.path().join(f).to_string_lossy().into_owned();
    run("attention", directory.path()).unwrap();
    for format in ["json", "html", "csv", "vcd", "jsonl", "pftrace", "tpbtrace"] {
        let out = at(&format!("dve.{format}"));
        let output = tpbemu(&["export", &at("t.jsonl"), "-o", &out, "--stream", "DVE"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let lines = std::fs::read_to_string(at("dve.jsonl")).unwrap();
    for line in lines.lines().filter(|l| l.contains("\"kind\":\"inst\"")) {
        assert!(line.contains("\"stream\":3,"), "{line}");
    }
    assert_eq!(lines.lines().filter(|l| l.contains("\"kind\":\"inst\"")).count(), 4);
    let table = std::fs::read_to_string(directory.path().join("dve.csv/Instruction.csv")).unwrap();
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.lines().skip(1).all(|l| l.contains(",Vector,")), "{table}");
    // what was filtered is the same from the packed recording
    let output = tpbemu(&["export", &at("dve.tpbtrace"), "-o", &at("again.jsonl")]);
    assert!(output.status.success());
    assert_eq!(std::fs::read_to_string(at("again.jsonl")).unwrap(), lines);
}

/// Cells of a table by column name.
fn table(directory: &Path, name: &str) -> Vec<std::collections::HashMap<String, String>> {
    let mut reader = csv::Reader::from_path(directory.join(name).with_extension("csv")).unwrap();
    reader.deserialize().map(|r| r.unwrap()).collect()
}

#[test]
fn tables_tell_what_the_machine_knows() {
    let directory = tempfile::tempdir().unwrap();
    let summary = run("attention", directory.path()).unwrap();
    let tables = directory.path().join("t.csv");
    let last = |name: &str, field: &str| -> f64 {
        table(&tables, name).last().unwrap_or_else(|| panic!("{name}"))[field].parse().unwrap()
    };
    // three loads of 32 KiB and a store of 64 KiB
    assert_eq!(last("HbmUsage", "total_transfer_bytes"), (3 * 32768 + 65536) as f64);
    assert_eq!(last("DmaUsage", "total_transfer_bytes"), (3 * 32768 + 65536) as f64);
    assert_eq!(last("HbmUsage", "current_throughput"), 0.0);
    // the three loads wait together; at the end nothing does
    let pending: Vec<u64> =
        table(&tables, "PendingDma").iter().map(|r| r["value"].parse().unwrap()).collect();
    assert_eq!(pending.iter().max(), Some(&3));
    assert_eq!(pending.last(), Some(&0));
    // a transfer is pending before its first byte
    let first: u64 = table(&tables, "PendingDma")[0]["timestamp"].parse().unwrap();
    let start: u64 = table(&tables, "DmaPacket")[0]["start_ts"].parse().unwrap();
    assert!(first < start, "{first} {start}");
    let most = |name: &str| -> f64 {
        let rows = table(&tables, name);
        rows.iter().map(|r| r["avg_util_percent"].parse().unwrap()).fold(0.0, f64::max)
    };
    // at most one 64 KiB tile in PSUM of 2 MiB is alive in a bank, two at a time
    assert_eq!(most("PsumUsage"), 6.25);
    assert!(most("SbufUsage") > 0.1 && most("SbufUsage") < 5.0);
    let updates = table(&tables, "SemaphoreUpdate");
    assert!(updates.iter().all(|u| u["update_operation_type"] == "add"));
    let queues = table(&tables, "DmaQueuesInfo");
    assert_eq!(queues.iter().filter(|q| q["type"] == "static").count(), 4);
    assert_eq!(queues.iter().filter(|q| q["type"] == "software_dynamic").count(), 1);
    let row = &table(&tables, "Summary")[0];
    for field in ["total_active_time_percent", "static_dma_size", "psum_read_sbuf_write_bytes"] {
        let (a, b) = (row[field].parse::<f64>().unwrap(), summary[field].as_f64().unwrap());
        assert!((a - b).abs() <= 1e-12 * a.abs(), "{field}: {a} {b}");
    }
    assert!(row["total_active_time_percent"].parse::<f64>().unwrap() > 10.0);
}

/// The tables in Parquet have the rows and columns of those in CSV, also in several files.
#[cfg(feature = "parquet")]
#[test]
fn parquet_holds_the_same_tables() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let directory = tempfile::tempdir().unwrap();
    run("mamba", directory.path()).unwrap();
    let at = |f: &str| directory.path().join(f).to_string_lossy().into_owned();
    for (name, split) in [("whole.parquet", "1G"), ("parts.parquet", "16K")] {
        let args = ["export", &at("t.jsonl"), "-o", &at(name), "--split", split];
        let output = tpbemu(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut rows = std::collections::BTreeMap::<String, i64>::new();
        let mut files = 0;
        for file in std::fs::read_dir(directory.path().join(name)).unwrap() {
            let path = file.unwrap().path();
            let table = path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
            let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
            let meta = reader.metadata().file_metadata();
            *rows.entry(table.to_string()).or_default() += meta.num_rows();
            files += 1;
            let csv = directory.path().join("t.csv").join(table).with_extension("csv");
            let head = std::fs::read_to_string(csv).unwrap();
            let columns: Vec<&str> =
                meta.schema_descr().columns().iter().map(|c| c.name()).collect();
            assert_eq!(columns, head.lines().next().unwrap().split(',').collect::<Vec<_>>());
        }
        for (name, n) in &rows {
            let path = directory.path().join("t.csv").join(name).with_extension("csv");
            let count = csv::Reader::from_path(path).unwrap().records().count();
            assert_eq!(*n, count as i64, "{name}");
        }
        assert_eq!(files > rows.len(), split == "16K", "{files} files of {} tables", rows.len());
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_without_the_feature_is_told_before_the_run() {
    let program = program("matmul");
    let output = tpbemu(&["run", program.to_str().unwrap(), "--trace", "x.parquet"]);
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("--features parquet"));
}

#[test]
fn q7_cores_and_library_loads_are_in_the_traces() {
    let directory = tempfile::tempdir().unwrap();
    run("q7-libraries", directory.path()).unwrap();
    let (events, _) = events(&directory.path().join("t.json"));
    let q7: Vec<&Value> = events.iter().filter(|e| e["cat"] == "q7").collect();
    let text = std::fs::read_to_string(program("q7-libraries/q7-libraries.tpb")).unwrap();
    let wanted = text.matches("modify_op=LOAD_LIB core_mask=0xff").count();
    let loads = q7.iter().filter(|e| e["name"] == "library load").count();
    assert!(wanted > 1);
    assert_eq!(loads, wanted * 8, "every library goes into eight cores");
    let kernels: std::collections::BTreeSet<u64> =
        q7.iter().filter_map(|e| e["args"]["pc"].as_u64()).collect();
    assert_eq!(kernels.len(), text.matches(".word64 \"f0").count(), "every kernel ran on cores");
    let html = directory.path().join("t.html");
    viewer(&html, &["--cores", &q7.len().to_string()]);
}

#[test]
fn view_writes_a_page_and_refuses_what_is_no_recording() {
    let directory = tempfile::tempdir().unwrap();
    run("attention", directory.path()).unwrap();
    let at = |f: &str| directory.path().join(f).to_string_lossy().into_owned();
    let output = tpbemu(&["view", &at("t.tpbtrace"), "--html", &at("v.html")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(at("v.html")).unwrap(), std::fs::read(at("t.html")).unwrap());
    let output = tpbemu(&["view", &at("t.vcd"), "--html", &at("w.html")]);
    assert!(!output.status.success() && !directory.path().join("w.html").exists());
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
    let html = directory.path().join("t.html");
    viewer(&html, &["--rows", &rows.to_string(), "--totals", path.to_str().unwrap()]);
}

/// Drives a viewer in a browser, if there is one.
fn viewer(html: &Path, args: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/trace-viewer-test.py");
    let output = Command::new("python3").arg(script).arg(html).args(args).output();
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

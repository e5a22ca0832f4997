//! `tpbemu compare`: what changed between the summaries of two runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::error::{Error, ErrorClass, Result};

/// Shows what changed between two runs.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Summary of the first run (`tpbemu run --summary json`).
    before: PathBuf,
    /// Summary of the second run.
    after: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A file is no summary.
pub fn main(args: &CompareArgs) -> Result<ExitCode> {
    let (a, b) = (read(&args.before)?, read(&args.after)?);
    let rows = compare(&a, &b);
    if args.json {
        let rows: serde_json::Map<String, Value> = rows
            .into_iter()
            .map(|r| (r.name, serde_json::json!({"before": r.before, "after": r.after})))
            .collect();
        super::print(&format!("{:#}\n", Value::Object(rows)))?;
    } else {
        super::print(&text(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Value> {
    let bad = |m: String| {
        Error::new(ErrorClass::ConfigError, format!("{}: {m}", path.display()))
            .help("write it with `tpbemu run PROGRAM --summary json`")
    };
    let bytes = crate::program::files::read_limited(path, crate::program::limits::DATA_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|e| bad(e.to_string()))?;
    // the lines of checks may stand before or after the object
    let start = text.find("{\n").or_else(|| text.find('{'));
    let start = start.ok_or_else(|| bad("is not a summary".into()))?;
    let first = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>().next();
    let value =
        first.ok_or_else(|| bad("is not a summary".into()))?.map_err(|e| bad(e.to_string()))?;
    if value["streams"].is_array() && value["total_ticks"].is_u64() && value["tick_hz"].is_u64() {
        Ok(value)
    } else {
        Err(bad("is not a summary".into()))
    }
}

struct Row {
    name: String,
    before: f64,
    after: f64,
}

/// Figures of a summary by name; times in nanoseconds, so that generations can be compared.
fn figures(summary: &Value) -> Vec<(String, f64)> {
    let hz = summary["tick_hz"].as_f64().unwrap_or(1.0).max(1.0);
    let ns = |v: &Value| v.as_f64().unwrap_or(0.0) * 1e9 / hz;
    let mut out = vec![("total ns".to_string(), ns(&summary["total_ticks"]))];
    for s in summary["streams"].as_array().into_iter().flatten() {
        let name = s["name"].as_str().unwrap_or("?");
        if s["instructions"].as_u64() == Some(0) {
            continue;
        }
        for field in ["instructions", "bytes_read", "bytes_written", "flops"] {
            out.push((format!("{name} {field}"), s[field].as_f64().unwrap_or(0.0)));
        }
        out.push((format!("{name} busy ns"), ns(&s["busy_ticks"])));
        out.push((format!("{name} end ns"), ns(&s["end_tick"])));
        let share = s["critical_share"].as_f64().unwrap_or(0.0);
        out.push((format!("{name} critical path %"), 100.0 * share));
        for (cause, ticks) in s["stall_ticks"].as_object().into_iter().flatten() {
            out.push((format!("{name} stalled by {cause} ns"), ns(ticks)));
        }
    }
    for field in [
        "hfu_estimated_percent",
        "dma_active_time_percent",
        "dma_transfer_count",
        "dma_transfer_total_bytes",
        "sbuf_read_bytes",
        "sbuf_write_bytes",
        "psum_read_bytes",
        "psum_write_bytes",
        "hbm_read_bytes",
        "hbm_write_bytes",
    ] {
        out.extend(summary[field].as_f64().map(|x| (field.to_string(), x)));
    }
    out
}

fn compare(a: &Value, b: &Value) -> Vec<Row> {
    let (a, mut b) = (figures(a), figures(b));
    let mut rows: Vec<Row> = Vec::new();
    for (name, before) in a {
        let after = match b.iter().position(|(n, _)| *n == name) {
            Some(at) => b.remove(at).1,
            None => 0.0,
        };
        rows.push(Row { name, before, after });
    }
    rows.extend(b.into_iter().map(|(name, after)| Row { name, before: 0.0, after }));
    rows
}

fn text(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut same = 0;
    for (n, r) in rows.iter().enumerate() {
        // the first row, the length of the run, is always worth a line
        if n > 0 && (r.before - r.after).abs() <= 1e-9 * r.before.abs().max(r.after.abs()) {
            same += 1;
            continue;
        }
        let change = if r.before == 0.0 {
            "new".to_string()
        } else {
            format!("{:+.1} %", 100.0 * (r.after - r.before) / r.before)
        };
        let _ = writeln!(out, "{:<36} {:>14.1} {:>14.1} {change:>10}", r.name, r.before, r.after);
    }
    let _ = writeln!(out, "{same} figures are the same");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_changes_are_shown() {
        let summary = |busy: u64| {
            json!({"total_ticks": 100, "tick_hz": 1_000_000_000, "streams": [
                {"name": "PE", "instructions": 3, "busy_ticks": busy, "end_tick": 90}]})
        };
        let text = text(&compare(&summary(10), &summary(25)));
        assert!(text.contains("PE busy ns"), "{text}");
        assert!(text.contains("+150.0 %"), "{text}");
        assert!(!text.contains("PE end ns"), "{text}");
    }
}

//! Each kind of warning, triggered by a program that deserves it and absent from one that does not.

use std::process::Command;

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;

const HEAD: &str = "\
.generation v3
.tensor big hbm fp32[128, 512] = fill(1.0)
.tensor small hbm fp32[4, 16] = fill(1.0)
.tensor a sbuf fp32[128, 512] = fill(1.0)
.tensor b sbuf fp32[128, 512]
.tensor c sbuf fp32[4, 16]
.tensor d sbuf fp32[128, 512]
.tensor p psum fp32[128, 512] bank 0 = fill(1.0)
.tensor q psum fp32[128, 512] bank 1 = fill(1.0)
.semaphore ready
.semaphore loaded
.queue in engine=SP semaphore=loaded kind=in
";

/// Runs a program; gives its warnings as (category, message).
fn warnings(body: &str) -> Vec<(String, String)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.tpb");
    std::fs::write(&path, format!("{HEAD}{body}")).unwrap();
    let output = Command::cargo_bin("tpbemu")
        .unwrap()
        .args(["run", path.to_str().unwrap(), "--summary", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |w: &Value, field: &str| w[field].as_str().unwrap().to_string();
    let all = summary["warnings"].as_array().unwrap().iter();
    all.map(|w| (text(w, "category"), text(w, "message"))).collect()
}

fn of<'a>(all: &'a [(String, String)], category: &str) -> Vec<&'a str> {
    all.iter().filter(|w| w.0 == category).map(|w| w.1.as_str()).collect()
}

const BLOCK: &str = ".block in once\n  copy dst=a src=big\n.end\n";
const COPY: &str = "  COPY src=fp32@a [1][512] dst=fp32@b [1][512] num_active_channels=128";

#[test]
fn a_tensor_that_is_loaded_repeatedly() {
    let load = "  DMA_TRIGGER in once\n";
    let once = warnings(&format!("{BLOCK}.stream SP\n{load}  NOP $S[loaded]>=1\n"));
    assert!(of(&once, "repeated_load").is_empty(), "{once:?}");
    let thrice = warnings(&format!(
        "{BLOCK}.stream SP\n{}  NOP $S[loaded]>=3\n",
        format!("{load}  NOP $S[loaded]>=1\n").repeat(3)
    ));
    let found = of(&thrice, "repeated_load");
    assert!(found.len() == 1 && found[0].contains("big is loaded 3.0 times"), "{thrice:?}");
}

#[test]
fn tiny_transfers() {
    let tiny = ".block in tiny\n  copy dst=c src=small\n.end\n.stream SP\n  DMA_TRIGGER in tiny\n  NOP $S[loaded]>=1\n";
    let found = warnings(tiny);
    assert!(of(&found, "tiny_dma")[0].contains("1 of 1 DMA transfers"), "{found:?}");
    let large =
        warnings(&format!("{BLOCK}.stream SP\n  DMA_TRIGGER in once\n  NOP $S[loaded]>=1\n"));
    assert!(of(&large, "tiny_dma").is_empty(), "{large:?}");
}

#[test]
fn instructions_below_the_minimum_interval() {
    let short = "  COPY src=fp32@a [1][16] dst=fp32@b [1][16] num_active_channels=4\n";
    let found = warnings(&format!(".stream DVE\n{short}{short}{COPY}\n"));
    let found = of(&found, "short_instruction");
    assert!(found.len() == 1 && found[0].contains("2 of 3 instructions of DVE"), "{found:?}");
    let large = warnings(&format!(".stream DVE\n{COPY}\n"));
    assert!(of(&large, "short_instruction").is_empty(), "{large:?}");
}

#[test]
fn bank_conflicts() {
    let pair = |bank: &str| {
        format!(
            ".stream ACT\n  ACTIVATE src=fp32@p [1][512] dst=fp32@d [1][512] activation_func=1 bias=0.0 \
             in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128\n\
             .stream DVE\n  NOP\n  COPY src=fp32@{bank} [1][512] dst=fp32@b [1][512] num_active_channels=128\n"
        )
    };
    let same = warnings(&pair("p"));
    let found = of(&same, "bank_conflict");
    assert!(found.len() == 1 && found[0].starts_with("DVE waits"), "{same:?}");
    assert!(found[0].contains("COPY pc 1"), "{found:?}");
    let other = warnings(&pair("q"));
    assert!(of(&other, "bank_conflict").is_empty(), "{other:?}");
}

#[test]
fn an_engine_that_idles_and_why() {
    let act = "  ACTIVATE src=fp32@p [1][512] dst=fp32@d [1][512] activation_func=1 bias=0.0 \
               in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128";
    let waits = format!(
        ".stream ACT\n{act}\n{act} $S[ready]++@complete\n.stream DVE\n{COPY} $S[ready]>=1\n"
    );
    let found = warnings(&waits);
    let gap = of(&found, "idle_gap");
    let gap = gap.iter().find(|g| g.starts_with("DVE")).unwrap_or_else(|| panic!("{found:?}"));
    assert!(gap.contains("waiting for S[") && gap.contains("ready, released by ACT"), "{gap}");
    let alone = warnings(&format!(".stream DVE\n{COPY}\n{COPY}\n"));
    assert!(of(&alone, "idle_gap").is_empty(), "{alone:?}");
}

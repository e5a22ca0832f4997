//! Helpers of the golden-vector tests.
#![allow(dead_code, reason = "each test file uses its own part")]

use serde_json::Value;

/// The vectors of a file under `tests/golden`.
pub fn load(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Runs the vectors that `elsewhere` gives no reason to leave out, and prints how many of each.
pub fn report(
    what: &str,
    vectors: &[Value],
    elsewhere: fn(&str) -> Option<&'static str>,
    run: fn(&Value),
) {
    let (mut done, mut left, mut reasons) = (0, 0, std::collections::BTreeMap::new());
    for v in vectors {
        let op = v["op"].as_str().unwrap();
        if let Some(reason) = elsewhere(op) {
            left += 1;
            *reasons.entry(reason).or_insert(0) += 1;
            continue;
        }
        if let Err(e) = std::panic::catch_unwind(|| run(v)) {
            println!("vector: {v}");
            std::panic::resume_unwind(e);
        }
        done += 1;
    }
    println!("{what}: {done} run, {left} listed as not executable");
    for (reason, n) in reasons {
        println!("  {n}: {reason}");
    }
    assert!(done > 0);
}

/// `0x1F` or decimal.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(h) => u64::from_str_radix(h, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A number, or text that is one.
pub fn hex(v: &Value) -> u64 {
    match v {
        Value::Number(n) => n.as_u64().unwrap(),
        other => number(other.as_str().unwrap()).unwrap_or_else(|| panic!("number {other}")),
    }
}

/// Numeric member.
pub fn field(v: &Value, name: &str) -> u64 {
    hex(&v[name])
}

/// Bytes of a hex string.
pub fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

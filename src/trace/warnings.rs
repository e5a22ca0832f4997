//! What a profiler would point out about a run.

use serde::Serialize;

use super::summary::{Names, Summary};

/// A transfer below this is called tiny. OPEN: the knee of DMA efficiency; see
/// docs/open-choices/trace.md.
pub const TINY_BYTES: u64 = 512;

/// An idle gap is worth a warning from this share of the run.
const GAP_SHARE: f64 = 0.10;

/// A tensor counts as loaded repeatedly from this many times its size.
const REPEATED: f64 = 1.5;

/// Something worth a look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// Kind: `repeated_load`, `tiny_dma`, `idle_gap`.
    pub category: &'static str,
    /// What was found.
    pub message: String,
}

/// Looks through a summary.
pub fn find(summary: &Summary, names: Names<'_>) -> Vec<Warning> {
    let mut out = Vec::new();
    let mut warn = |category, message| out.push(Warning { category, message });
    for (tensor, l) in &summary.loads {
        if l.repeat_factor >= REPEATED {
            warn(
                "repeated_load",
                format!(
                    "tensor {tensor} is loaded {:.1} times ({} transfers, {} bytes); keep it on chip",
                    l.repeat_factor, l.count, l.bytes
                ),
            );
        }
    }
    let t = &summary.transfers;
    if t.tiny > 0 {
        warn(
            "tiny_dma",
            format!(
                "{} of {} DMA transfers move fewer than {TINY_BYTES} bytes; start-up dominates them",
                t.tiny, t.count
            ),
        );
    }
    for (number, s) in summary.streams.iter().enumerate() {
        let engine = number < summary.facts.engine_hz.len();
        if !engine || s.data_path == 0 {
            continue;
        }
        for gap in &s.gaps {
            let share = (gap.to - gap.from) as f64 / summary.total_ticks.max(1) as f64;
            if share < GAP_SHARE {
                continue;
            }
            let period = summary.periods[number].max(1);
            let cause = match gap.waited {
                Some((id, by)) => {
                    let by = by.and_then(|(b, _)| summary.streams.get(usize::from(b)));
                    let by = by.map_or(String::new(), |b| format!(", released by {}", b.name));
                    format!("waiting for {}{by}", summary.facts.sync_name(id))
                }
                None => format!("{:?}", gap.cause).to_lowercase(),
            };
            let (name, _, source) = names(number as u16, gap.pc);
            let at = source.map_or(String::new(), |s| format!(" ({s})"));
            warn(
                "idle_gap",
                format!(
                    "{} is idle for {} cycles ({:.0} % of the run) before {name} pc {}{at}: {cause}",
                    s.name,
                    (gap.to - gap.from) / period,
                    share * 100.0,
                    gap.pc
                ),
            );
        }
    }
    out
}

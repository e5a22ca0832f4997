//! What a profiler would point out about a run.

use serde::Serialize;

use super::record::StallCause;
use super::summary::{Names, Summary};

/// A transfer below this is called tiny. OPEN: the knee of DMA efficiency; see
/// docs/open-choices/trace.md.
pub const TINY_BYTES: u64 = 512;

/// An idle gap is worth a warning from this share of the run.
const GAP_SHARE: f64 = 0.10;

/// A tensor counts as loaded repeatedly from this many times its size.
const REPEATED: f64 = 1.5;

/// Waiting for ports and banks is worth a warning from this share of an engine's time.
const CONFLICT_SHARE: f64 = 0.01;

/// Instructions shorter than what their engine spends beside the work are worth a warning from this
/// share of all.
const SHORT_SHARE: f64 = 0.25;

/// Something worth a look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// Kind: `repeated_load`, `tiny_dma`, `short_instruction`, `bank_conflict`,
    /// `idle_gap`.
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
        let period = summary.periods[number].max(1);
        let least = summary.facts.gap_ticks.get(number).copied().unwrap_or(0);
        if s.short as f64 >= SHORT_SHARE * s.data_path as f64 && s.short > 0 {
            let (n, all, cycles) = (s.short, s.data_path, least / period);
            warn(
                "short_instruction",
                format!(
                    "{n} of {all} instructions of {} work less than the {cycles} cycles between two of them; larger tiles would use it better",
                    s.name
                ),
            );
        }
        let conflict = s.stall_ticks.get(&StallCause::Port).copied().unwrap_or(0);
        if conflict as f64 >= CONFLICT_SHARE * s.end_tick.max(1) as f64 && conflict > 0 {
            let worst = (summary.words())
                .filter(|w| usize::from(w.stream) == number)
                .max_by_key(|w| (w.port_ticks, std::cmp::Reverse(w.pc)));
            let at = worst.map_or(String::new(), |w| {
                let (name, _, source) = names(number as u16, w.pc);
                let at = source.map_or(String::new(), |s| format!(" ({s})"));
                format!(", most before {name} pc {}{at}", w.pc)
            });
            warn(
                "bank_conflict",
                format!(
                    "{} waits {} cycles ({:.0} % of its time) for memory ports or banks that another engine uses{at}",
                    s.name,
                    conflict / period,
                    100.0 * conflict as f64 / s.end_tick.max(1) as f64
                ),
            );
        }
        for gap in &s.gaps {
            let share = (gap.to - gap.from) as f64 / summary.total_ticks.max(1) as f64;
            if share < GAP_SHARE {
                continue;
            }
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

//! The summary as a table for people.

use std::fmt::Write as _;

use super::record::StallCause;
use super::summary::{Summary, Waiting};

/// Waits of a stream in the text.
const WAITS: usize = 3;

impl Summary {
    /// As a table for people. Streams without instructions are left out.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let cycles = self.periods.first().map_or(0, |p| self.total_ticks / (*p).max(1));
        let _ = writeln!(
            out,
            "simulated time {:.1} ns ({cycles} PE cycles, {})",
            self.total_ns(),
            self.generation
        );
        let _ = writeln!(
            out,
            "{:<12} {:>7} {:>10} {:>7} {:>7} {:>9} {:>9} {:>10}  waited for (cycles)",
            "stream", "instr", "cycles", "busy %", "crit %", "read", "written", "FLOP"
        );
        for (s, &period) in self.streams.iter().zip(&self.periods) {
            if s.instructions == 0 {
                continue;
            }
            let busy = 100.0 * s.busy_ticks as f64 / self.total_ticks.max(1) as f64;
            let mut stalls: Vec<(StallCause, u64)> =
                s.stall_ticks.iter().map(|(c, t)| (*c, t / period.max(1))).collect();
            stalls.sort_by_key(|(c, t)| (std::cmp::Reverse(*t), *c));
            let stalls: Vec<String> = stalls
                .iter()
                .filter(|(_, t)| *t > 0)
                .map(|(c, t)| format!("{} {t}", format!("{c:?}").to_lowercase()))
                .collect();
            let _ = writeln!(
                out,
                "{:<12} {:>7} {:>10} {:>7.1} {:>7.1} {:>9} {:>9} {:>10}  {}",
                s.name,
                s.instructions,
                s.end_tick / period.max(1),
                busy,
                100.0 * s.critical_share,
                quantity(s.bytes_read),
                quantity(s.bytes_written),
                quantity(s.flops),
                stalls.join(", ")
            );
        }
        self.waits(&mut out);
        self.rates(&mut out);
        self.instructions(&mut out);
        for w in &self.warnings {
            let _ = writeln!(out, "warning: {}: {}", w.category, w.message);
        }
        out
    }

    /// The longest waits of each stream, and who ended them.
    fn waits(&self, out: &mut String) {
        for (s, &period) in self.streams.iter().zip(&self.periods) {
            let long = |w: &&Waiting| w.ticks as f64 >= 0.01 * self.total_ticks as f64;
            for w in s.waits.iter().filter(long).take(WAITS) {
                let by = w.released_by.as_ref();
                let by = by.map_or(String::new(), |b| format!(", released by {b}"));
                let cycles = w.ticks / period.max(1);
                let _ = writeln!(out, "{} waited {cycles} cycles for {}{by}", s.name, w.on);
            }
        }
    }

    fn rates(&self, out: &mut String) {
        if self.total_ticks == 0 {
            return;
        }
        let seconds = self.seconds(self.total_ticks);
        let flops = self.streams.first().map_or(0, |s| s.flops) as f64 / seconds;
        let _ = writeln!(
            out,
            "PE {:.3} of {:.1} TFLOP/s ({:.2} %); DMA {:.2} of {:.0} GB/s ({:.2} %), {} transfers; critical path in synchronisation {:.1} %",
            flops / 1e12,
            self.facts.pe_flops_per_second() / 1e12,
            100.0 * self.pe_utilisation(),
            self.transfers.bytes as f64 / seconds / 1e9,
            self.facts.dma_bytes_per_second as f64 / 1e9,
            100.0 * self.dma_utilisation(),
            self.transfers.count,
            100.0 * self.critical_sync_share,
        );
        let figure = |name: &str| self.profile.get(name).and_then(serde_json::Value::as_f64);
        if let (Some(intensity), Some(knee)) =
            (figure("mm_arithmetic_intensity"), figure("peak_flops_bandwidth_ratio"))
        {
            let bound = if intensity < knee { "memory" } else { "compute" };
            let _ = writeln!(
                out,
                "roofline: {intensity:.1} FLOP per HBM byte, the knee is at {knee:.0}: {bound} bound"
            );
        }
        let memory: Vec<String> = self
            .memory
            .iter()
            .map(|(n, b)| format!("{n} {} read, {} written", quantity(b.read), quantity(b.written)))
            .collect();
        let _ = writeln!(out, "bytes: {}", memory.join("; "));
    }

    fn instructions(&self, out: &mut String) {
        for (n, w) in self.top.iter().take_while(|w| w.busy_ticks > 0).enumerate() {
            if n == 0 {
                let _ = writeln!(
                    out,
                    "{:<12} {:>6} {:>7} {:>10} {:>10}  busiest instructions",
                    "stream", "pc", "count", "busy ns", "waited ns"
                );
            }
            let _ = writeln!(
                out,
                "{:<12} {:>6} {:>7} {:>10.0} {:>10.0}  {}{}",
                w.stream,
                w.pc,
                w.count,
                self.seconds(w.busy_ticks) * 1e9,
                self.seconds(w.stall_ticks) * 1e9,
                w.name,
                w.source.as_ref().map_or(String::new(), |s| format!(" {s}"))
            );
        }
    }
}

/// A number with a metric suffix.
pub fn quantity(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{:.1}k", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1}M", n as f64 / 1e6),
        _ => format!("{:.1}G", n as f64 / 1e9),
    }
}

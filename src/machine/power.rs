//! The power limit of PE on v3 and v4, an option.
//!
//! PE starts at a reduced rate; after a window of work it reaches the full one, and falls back
//! when it was busy for less than half of a window. Profiles show a step, the text a ramp: two
//! levels here (OPEN). (vendor docs: neuron-explorer/overview-summary-page, troubleshooting)

use std::collections::VecDeque;

use super::config::PowerConfig;
use super::time::Timebase;

/// State of the limit.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct PowerLimit {
    enabled: bool,
    window: u64,
    slow_factor: u64,
    array_cycles: u64,
    limited: bool,
    /// Work since the limit began.
    worked: u64,
    /// (start, end) of the matmuls of the last window.
    recent: VecDeque<(u64, u64)>,
}

impl PowerLimit {
    /// At the start of a run, limited.
    pub fn new(config: &PowerConfig, time: &Timebase) -> Self {
        PowerLimit {
            enabled: config.limit_pe && config.window_ps > 0,
            window: time.from_ps(config.window_ps).max(1),
            slow_factor: config.slow_factor.max(1),
            array_cycles: config.array_cycles,
            limited: true,
            worked: 0,
            recent: VecDeque::new(),
        }
    }

    /// Factor of the work of an instruction of the array that starts now and does no
    /// multiplication: what the last matmul left.
    pub fn present(&self) -> u64 {
        if self.enabled && self.limited { self.slow_factor } else { 1 }
    }

    /// Cycles by which the results come later at `factor`: the way through the array is stretched.
    pub fn drain(&self, factor: u64) -> u64 {
        self.array_cycles * (factor - 1)
    }

    /// A matmul of `work` ticks at the full rate starts at `now`: factor of its work.
    pub fn factor(&mut self, now: u64, work: u64) -> u64 {
        if !self.enabled {
            return 1;
        }
        let from = now.saturating_sub(self.window);
        while self.recent.front().is_some_and(|r| r.1 <= from) {
            self.recent.pop_front();
        }
        let busy: u64 = self.recent.iter().map(|&(a, b)| b.min(now) - a.max(from).min(now)).sum();
        if self.limited && self.worked >= self.window {
            self.limited = false;
        } else if !self.limited && busy * 2 < self.window {
            self.limited = true;
            self.worked = 0;
        }
        let factor = if self.limited { self.slow_factor } else { 1 };
        self.worked += work * factor;
        self.recent.push_back((now, now + work * factor));
        factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Generation;
    use crate::machine::MachineConfig;

    #[test]
    fn the_limit_ends_after_a_window_of_work_and_returns_after_idleness() {
        let mut config = MachineConfig::builtin(Generation::V3);
        let time = Timebase::new(&config).unwrap();
        assert_eq!(PowerLimit::new(&config.power, &time).factor(0, 100), 1, "off by default");
        config.power.limit_pe = true;
        let mut limit = PowerLimit::new(&config.power, &time);
        let step = limit.window / 10;
        let (mut now, mut slow) = (0, 0);
        for _ in 0..20 {
            let factor = limit.factor(now, step);
            slow += u64::from(factor > 1);
            now += step * factor;
        }
        assert_eq!(limit.drain(limit.present()), 0);
        assert_eq!(slow, 5, "five matmuls at half rate are a window");
        now += 2 * limit.window;
        assert_eq!(limit.factor(now, step), config.power.slow_factor);
        assert_eq!(limit.present(), config.power.slow_factor);
        assert_eq!(limit.drain(2), config.power.array_cycles);
    }
}

//! Simulated time: an integer tick in which every clock of the machine has a whole period.

use crate::error::{Error, ErrorClass, Result};
use crate::isa::Engine;
use crate::machine::config::MachineConfig;

/// Tick rate of a machine and the clock periods in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timebase {
    /// Ticks per second.
    pub hz: u64,
    periods: [u64; 5],
}

/// A tick rate above this would overflow 64-bit time within an hour of simulated time.
const MAX_HZ: u64 = 1_000_000_000_000_000;

impl Timebase {
    /// The least common multiple of the configured clocks.
    ///
    /// # Errors
    /// [`ErrorClass::ConfigError`] if the clocks have no common multiple below 1 PHz.
    pub fn new(config: &MachineConfig) -> Result<Self> {
        let mut hz = 1u64;
        for engine in Engine::ALL {
            let clock = config.engine(engine).hz;
            hz = (u128::from(hz) / u128::from(gcd(hz, clock)) * u128::from(clock))
                .try_into()
                .ok()
                .filter(|&h| h <= MAX_HZ)
                .ok_or_else(|| {
                    Error::new(
                        ErrorClass::ConfigError,
                        "the engine clocks have no common multiple below 1 PHz",
                    )
                    .help("round the hz values in the configuration")
                })?;
        }
        let period = |e: Engine| hz / config.engine(e).hz;
        Ok(Timebase { hz, periods: Engine::ALL.map(period) })
    }

    /// Ticks in one cycle of `engine`.
    pub fn period(&self, engine: Engine) -> u64 {
        self.periods[engine.index()]
    }

    /// Ticks in `ps` picoseconds, rounded up.
    pub fn from_ps(&self, ps: u64) -> u64 {
        (u128::from(ps) * u128::from(self.hz)).div_ceil(1_000_000_000_000) as u64
    }

    /// Picoseconds in `ticks`, rounded down.
    pub fn to_ps(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000_000 / u128::from(self.hz)) as u64
    }

    /// Nanoseconds, for display.
    pub fn to_ns(&self, ticks: u64) -> f64 {
        ticks as f64 * 1e9 / self.hz as f64
    }

    /// Ticks to move `bytes` at `bytes_per_us`, rounded up.
    pub fn transfer(&self, bytes: u64, bytes_per_us: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.hz)).div_ceil(u128::from(bytes_per_us) * 1_000_000)
            as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Generation;

    #[test]
    fn v2_ticks_are_those_of_the_design() {
        let t = Timebase::new(&MachineConfig::builtin(Generation::V2)).unwrap();
        assert_eq!(t.hz, 5_600_000_000);
        let periods = Engine::ALL.map(|e| t.period(e));
        assert_eq!(periods, [2, 4, 4, 5, 4]);
        assert_eq!(t.from_ps(1000), 6, "5.6 ticks round up");
    }
}

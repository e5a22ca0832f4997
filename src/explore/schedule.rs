//! Schedules: which points of a run are delayed, and by how much.
//!
//! A delay is drawn from a generator keyed by seed, stream, execution and point, so it does not
//! depend on what else happens, and any subset of the delays of a run can be played again.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::machine::{Perturb, Point};

/// Where a delay can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Site {
    /// Stream index: engines by number, then the DMA queues.
    pub stream: usize,
    /// Execution in the stream.
    pub index: u64,
    /// Point of the execution.
    pub point: PointName,
}

/// [`Point`] as it is written to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointName {
    /// Before the sequencer looks at the word.
    Fetch,
    /// Between issue and start.
    Issue,
    /// Between doorbell and first byte.
    DmaStart,
    /// Between the end and the visible update.
    Completion,
}

impl PointName {
    /// For readers.
    pub fn words(self) -> &'static str {
        match self {
            PointName::Fetch => "fetch",
            PointName::Issue => "start",
            PointName::DmaStart => "first byte",
            PointName::Completion => "update",
        }
    }
}

impl From<Point> for PointName {
    fn from(point: Point) -> Self {
        match point {
            Point::Fetch => PointName::Fetch,
            Point::Issue => PointName::Issue,
            Point::DmaStart => PointName::DmaStart,
            Point::Completion => PointName::Completion,
        }
    }
}

/// Long delays that jitter puts into one run, on average at most.
const MOST_LONG_DELAYS: u64 = 64;

/// Delays in ticks.
pub type Delays = BTreeMap<Site, u64>;

/// How delays are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// One point in four (fewer, if delays are long), by up to a scale that the seed chooses, at most four times the undisturbed run.
    Jitter,
    /// Streams get random speeds, which change at a few random executions.
    Pct,
    /// One to three points, by longer than the whole undisturbed run.
    Adversarial,
    /// All ways to delay no, one and two points by longer than the whole undisturbed run.
    Exhaustive,
}

/// What the undisturbed run says about a program.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    /// All points it passed, in order of stream, execution, point.
    pub sites: Vec<Site>,
    /// Its length in ticks.
    pub ticks: u64,
}

impl Plain {
    /// A delay that outlasts the undisturbed run.
    pub fn long(&self) -> u64 {
        self.ticks + self.ticks / 4 + 1
    }

    /// Number of schedules of [`Strategy::Exhaustive`]: none, one or two points delayed.
    pub fn bounded(&self) -> u64 {
        let n = self.sites.len() as u64;
        1 + n + n * n.saturating_sub(1) / 2
    }
}

enum Choice {
    Listed(Delays),
    Jitter { seed: u64, scale: u64, one_in: u64 },
    Pct { seed: u64, scale: u64, changes: Vec<u64> },
}

/// The delays of one run; remembers those it gave and the points it was asked for.
pub struct Schedule {
    choice: Choice,
    given: Arc<Mutex<Given>>,
}

/// What a schedule did.
#[derive(Default)]
pub struct Given {
    /// Delays other than zero.
    pub delays: Delays,
    /// All points passed.
    pub sites: Vec<Site>,
    /// Whether to remember the points.
    keep_sites: bool,
}

fn mix(parts: [u64; 4]) -> Pcg64Mcg {
    let mut h = 0x9e37_79b9_7f4a_7c15u64;
    for p in parts {
        h = (h ^ p).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h ^= h >> 32;
    }
    let mut rng = Pcg64Mcg::new((u128::from(h) << 64) | u128::from(h.rotate_left(29)) | 1);
    rng.next_u64();
    rng
}

fn below(rng: &mut Pcg64Mcg, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

impl Schedule {
    /// Exactly `delays`.
    pub fn listed(delays: Delays) -> Self {
        Schedule { choice: Choice::Listed(delays), given: Arc::default() }
    }

    /// No delay; remembers all points.
    pub fn probe() -> Self {
        let given = Given { keep_sites: true, ..Given::default() };
        Schedule { choice: Choice::Listed(Delays::new()), given: Arc::new(Mutex::new(given)) }
    }

    /// The schedule of `seed` under `strategy`.
    pub fn of_seed(strategy: Strategy, seed: u64, plain: &Plain) -> Self {
        let mut rng = mix([seed, strategy as u64, u64::MAX, 0]);
        // from one five-hundredth of the run to four times it, evenly on a logarithmic scale
        let scale = (plain.ticks.saturating_mul(4) >> below(&mut rng, 12)).max(2);
        let choice = match strategy {
            Strategy::Jitter => {
                // many long delays would make a run longer than any limit
                let few = plain.sites.len() as u64 / MOST_LONG_DELAYS;
                let one_in = if scale > plain.ticks / 16 { few.max(4) } else { 4 };
                Choice::Jitter { seed, scale, one_in }
            }
            Strategy::Pct => {
                let longest = plain.sites.iter().map(|s| s.index).max().unwrap_or(0) + 1;
                let mut changes: Vec<u64> = (0..3).map(|_| below(&mut rng, longest)).collect();
                changes.sort_unstable();
                Choice::Pct { seed, scale: scale.div_ceil(8), changes }
            }
            Strategy::Adversarial => {
                let mut delays = Delays::new();
                let n = plain.sites.len() as u64;
                if n > 0 {
                    for _ in 0..=below(&mut rng, 3) {
                        let site = plain.sites[below(&mut rng, n) as usize];
                        delays.insert(site, plain.long() * (1 + below(&mut rng, 3)));
                    }
                }
                Choice::Listed(delays)
            }
            Strategy::Exhaustive => Choice::Listed(combination(seed, plain)),
        };
        Schedule { choice, given: Arc::default() }
    }

    /// What it did, for after the run.
    pub fn given(&self) -> Arc<Mutex<Given>> {
        Arc::clone(&self.given)
    }
}

/// The `number`-th way to delay at most two points.
fn combination(number: u64, plain: &Plain) -> Delays {
    let n = plain.sites.len() as u64;
    let long = plain.long();
    let mut delays = Delays::new();
    if number == 0 || number >= plain.bounded() {
        return delays;
    }
    if number <= n {
        delays.insert(plain.sites[number as usize - 1], long);
        return delays;
    }
    // pairs (a, b) with a < b, row by row
    let mut rest = number - 1 - n;
    let mut a = 0;
    while rest >= n - 1 - a {
        rest -= n - 1 - a;
        a += 1;
    }
    delays.insert(plain.sites[a as usize], long);
    delays.insert(plain.sites[(a + 1 + rest) as usize], 2 * long);
    delays
}

impl Schedule {
    /// Ticks of the delay at a point. Remembers nothing.
    pub fn ticks(&self, stream: usize, index: u64, point: Point) -> u64 {
        match &self.choice {
            Choice::Listed(delays) => {
                let site = Site { stream, index, point: point.into() };
                delays.get(&site).copied().unwrap_or(0)
            }
            Choice::Jitter { seed, scale, one_in } => {
                let mut rng = mix([*seed, stream as u64, index, 1 + point as u64]);
                if below(&mut rng, *one_in) == 0 { below(&mut rng, *scale) } else { 0 }
            }
            Choice::Pct { seed, scale, changes } => {
                if point == Point::Issue {
                    return 0;
                }
                let phase = changes.partition_point(|c| *c <= index) as u64;
                let mut rng = mix([*seed, stream as u64, phase, 99]);
                match below(&mut rng, 4) {
                    3 => *scale,
                    2 => *scale / 8,
                    _ => 0,
                }
            }
        }
    }
}

impl Perturb for Schedule {
    fn delay(&mut self, stream: usize, index: u64, point: Point) -> u64 {
        let site = Site { stream, index, point: point.into() };
        let ticks = self.ticks(stream, index, point);
        let mut given = self.given.lock();
        if ticks > 0 {
            given.delays.insert(site, ticks);
        }
        if given.keep_sites {
            given.sites.push(site);
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(n: u64) -> Plain {
        let site = |index| Site { stream: 0, index, point: PointName::Fetch };
        Plain { sites: (0..n).map(site).collect(), ticks: 100 }
    }

    #[test]
    fn exhaustive_names_each_combination_once() {
        let plain = plain(7);
        let all: std::collections::BTreeSet<Vec<Site>> =
            (0..plain.bounded()).map(|i| combination(i, &plain).into_keys().collect()).collect();
        assert_eq!(all.len() as u64, plain.bounded());
        assert!(all.iter().all(|c| c.len() <= 2));
    }

    #[test]
    fn a_delay_does_not_depend_on_the_order_of_questions() {
        let ask = |order: [u64; 3]| {
            let mut s = Schedule::of_seed(Strategy::Jitter, 5, &plain(50));
            let mut got: Vec<(u64, u64)> =
                order.iter().map(|&i| (i, s.delay(1, i, Point::Fetch))).collect();
            got.sort_unstable();
            got
        };
        assert_eq!(ask([1, 2, 3]), ask([3, 1, 2]));
    }
}

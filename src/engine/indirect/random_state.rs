//! The random generators of an engine: one of each kind per partition, and their state words.
//! (wiki: firmware/kernels/rng-seed-state-ops; firmware/kernels/rng-xorwow-sw)

use crate::isa::Generation;
use crate::numeric::rng::{Lfsr, Xorwow, XorwowQuad};

/// Partitions, and so generators of each kind.
const LANES: usize = 128;

/// Seed of the LFSRs before anybody set one (OPEN: the reset state is not published).
const RESET_SEED: u32 = 0;

/// A generator whose state RAND_GET_STATE and RAND_SET_STATE move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// POOL's XORWOW: x, y, z, w, v, d.
    Xorwow,
    /// DVE's four XORWOWs, 24 words.
    XorwowQuad,
    /// DVE's LFSR: four words, the first is the state (OPEN: what the others do; they are kept).
    Lfsr,
    /// The LFSR of output conversion: 1 word on POOL, 2 on ACT, 4 on DVE, the first is the state.
    OutputLfsr(u8),
}

impl StateKind {
    /// State words per partition.
    pub fn words(self) -> usize {
        match self {
            StateKind::Xorwow => 6,
            StateKind::XorwowQuad => 24,
            StateKind::Lfsr => 4,
            StateKind::OutputLfsr(n) => usize::from(n),
        }
    }
}

/// Generators of one engine, made when first used.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct RandomState {
    xorwow: Vec<Xorwow>,
    quads: Vec<XorwowQuad>,
    lfsr: Vec<[u32; 4]>,
    output_lfsr: Vec<[u32; 4]>,
}

fn lfsr_reset(lane: usize) -> [u32; 4] {
    [Lfsr::for_lane(RESET_SEED, lane as u32).state(), 0, 0, 0]
}

fn slot<T>(lanes: &mut Vec<T>, lane: u32, reset: impl Fn(usize) -> T) -> &mut T {
    if lanes.is_empty() {
        lanes.extend((0..LANES).map(reset));
    }
    let last = lanes.len() - 1;
    &mut lanes[(lane as usize).min(last)]
}

impl RandomState {
    /// XORWOW generator of partition `lane`.
    pub fn xorwow(&mut self, lane: u32, generation: Generation) -> &mut Xorwow {
        slot(&mut self.xorwow, lane, |_| Xorwow::initial(generation))
    }

    /// The four XORWOW generators of partition `lane`.
    pub fn quad(&mut self, lane: u32) -> &mut XorwowQuad {
        slot(&mut self.quads, lane, |_| XorwowQuad::initial())
    }

    /// Calls `draw` with the LFSR of partition `lane`.
    pub fn with_lfsr<R>(&mut self, lane: u32, draw: impl FnOnce(&mut Lfsr) -> R) -> R {
        let words = slot(&mut self.lfsr, lane, lfsr_reset);
        let mut lfsr = Lfsr::new(words[0]);
        let result = draw(&mut lfsr);
        words[0] = lfsr.state();
        result
    }

    /// Calls `draw` with the LFSR that rounds outputs of partition `lane`.
    pub fn with_output_lfsr<R>(&mut self, lane: u32, draw: impl FnOnce(&mut Lfsr) -> R) -> R {
        let words = slot(&mut self.output_lfsr, lane, lfsr_reset);
        let mut lfsr = Lfsr::new(words[0]);
        let result = draw(&mut lfsr);
        words[0] = lfsr.state();
        result
    }

    /// Appends the state words of generator `kind` of partition `lane`.
    pub fn get(&mut self, kind: StateKind, lane: u32, generation: Generation, out: &mut Vec<u64>) {
        let mut put = |words: &[u32]| out.extend(words.iter().map(|&w| u64::from(w)));
        match kind {
            StateKind::Xorwow => put(&self.xorwow(lane, generation).words()),
            StateKind::XorwowQuad => put(&self.quad(lane).words()),
            StateKind::Lfsr => put(slot(&mut self.lfsr, lane, lfsr_reset)),
            StateKind::OutputLfsr(n) => {
                put(&slot(&mut self.output_lfsr, lane, lfsr_reset)[..usize::from(n)]);
            }
        }
    }

    /// Replaces the state words of generator `kind` of partition `lane`; missing words are 0.
    pub fn set(&mut self, kind: StateKind, lane: u32, generation: Generation, words: &[u64]) {
        let word = |i: usize| words.get(i).map_or(0, |&w| w as u32);
        let lfsr = |slot: &mut [u32; 4], n: usize| {
            for (i, w) in slot.iter_mut().enumerate().take(n) {
                *w = word(i);
            }
            slot[0] = Lfsr::new(slot[0]).state();
        };
        match kind {
            StateKind::Xorwow => {
                *self.xorwow(lane, generation) = Xorwow::from_words(std::array::from_fn(word));
            }
            StateKind::XorwowQuad => {
                *self.quad(lane) = XorwowQuad::from_words(std::array::from_fn(word));
            }
            StateKind::Lfsr => lfsr(slot(&mut self.lfsr, lane, lfsr_reset), 4),
            StateKind::OutputLfsr(n) => {
                lfsr(slot(&mut self.output_lfsr, lane, lfsr_reset), usize::from(n));
            }
        }
    }
}

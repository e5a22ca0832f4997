//! Random generators of the engines, with their state words.
//!
//! Which bits the device draws is only partly known: XORWOW and PCG32 have public definitions, the
//! LFSR's taps are those of the vendor's simulator (wiki-cc: bir/sim-bn-rng-collective-dma;
//! wiki: firmware/kernels/rng-lfsr-dispatch, rng-xorwow-sw).

use crate::isa::Generation;

/// 32-bit Fibonacci LFSR with taps 32, 22, 2 and 1, shifted left; the new state is the output.
///
/// OPEN: it is the generator of the vendor's simulator. That the device has the same polynomial is
/// not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Lfsr {
    state: u32,
}

impl Lfsr {
    /// A generator in state `seed`; 0, which the recurrence never leaves, becomes 1.
    pub fn new(seed: u32) -> Lfsr {
        Lfsr { state: if seed == 0 { 1 } else { seed } }
    }

    /// The generator of lane `lane` after seeding all lanes with one word. OPEN: how the lanes are
    /// told apart is not described; the seed is offset by multiples of the golden ratio.
    pub fn for_lane(seed: u32, lane: u32) -> Lfsr {
        Lfsr::new(seed.wrapping_add(lane.wrapping_mul(0x9E37_79B9)))
    }

    /// The state word.
    pub fn state(&self) -> u32 {
        self.state
    }

    /// Replaces the state word, 0 by 1.
    pub fn set_state(&mut self, state: u32) {
        *self = Lfsr::new(state);
    }

    /// One step; the result is the new state.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let s = self.state;
        self.state = (s << 1) | (((s >> 31) ^ (s >> 21) ^ (s >> 1) ^ s) & 1);
        self.state
    }

    /// `steps` steps, of which the last one's state is the result (`rand_num_steps`).
    pub fn advance(&mut self, steps: u32) -> u32 {
        for _ in 0..steps {
            self.next_u32();
        }
        self.state
    }
}

/// XORWOW: five xorshift words and a Weyl counter. State words in order x, y, z, w, v, d.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Xorwow {
    words: [u32; 6],
}

impl Xorwow {
    /// State of a lane after initialisation. OPEN: only the low half of the counter's start is
    /// known, 0xC934 on v3 and 0xC924 later; the high half is taken as 0.
    pub fn initial(generation: Generation) -> Xorwow {
        let d = if generation <= Generation::V3 { 0xC934 } else { 0xC924 };
        Xorwow { words: [0x075B_CD15, 0x159A_55E5, 0x1F12_3BB5, 0x0549_1333, 0x0058_3F19, d] }
    }

    /// A generator with the given words. Five zero xorshift words, which would never change, get
    /// v = 1 as the vendor's simulator does.
    pub fn from_words(mut words: [u32; 6]) -> Xorwow {
        if words[..5].iter().all(|&w| w == 0) {
            words[4] = 1;
        }
        Xorwow { words }
    }

    /// The state words x, y, z, w, v, d.
    pub fn words(&self) -> [u32; 6] {
        self.words
    }

    /// The next draw.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let [x, y, z, w, v, d] = self.words;
        let t = x ^ (x >> 2);
        let next = (v ^ (v << 4)) ^ (t ^ (t << 1));
        let d = d.wrapping_add(362_437);
        self.words = [y, z, w, v, next, d];
        next.wrapping_add(d)
    }
}

/// The vector engine's XORWOW: four generators a partition, 24 words.
///
/// OPEN: the words are taken generator by generator, and element i draws from generator i mod 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct XorwowQuad {
    generators: [Xorwow; 4],
    next: usize,
}

impl XorwowQuad {
    /// Four generators from 24 words.
    pub fn from_words(words: [u32; 24]) -> XorwowQuad {
        let (groups, _) = words.as_chunks::<6>();
        XorwowQuad { generators: std::array::from_fn(|i| Xorwow::from_words(groups[i])), next: 0 }
    }

    /// All words 1, the state that the vendor's simulator starts from.
    pub fn initial() -> XorwowQuad {
        XorwowQuad::from_words([1; 24])
    }

    /// The 24 state words.
    pub fn words(&self) -> [u32; 24] {
        let mut words = [0; 24];
        for (group, generator) in words.chunks_mut(6).zip(&self.generators) {
            group.copy_from_slice(&generator.words());
        }
        words
    }

    /// Makes the next draw that of element 0 of an instruction.
    pub fn restart(&mut self) {
        self.next = 0;
    }

    /// The next draw.
    pub fn next_u32(&mut self) -> u32 {
        let draw = self.generators[self.next].next_u32();
        self.next = (self.next + 1) % 4;
        draw
    }
}

/// PCG32, variant XSH-RR with 64 bits of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcg32 {
    /// The whole state.
    pub state: u64,
}

impl Pcg32 {
    /// The next draw, made of the state before the step.
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((((old >> 18) ^ old) >> 27) as u32).rotate_right((old >> 59) as u32)
    }
}

/// Philox 4x32 with ten rounds. OPEN: six state words are read as counter (4) and key (2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    counter: [u32; 4],
    key: [u32; 2],
    block: [u32; 4],
    used: usize,
}

impl Philox {
    /// A generator at `counter` with `key`.
    pub fn new(counter: [u32; 4], key: [u32; 2]) -> Philox {
        Philox { counter, key, block: [0; 4], used: 4 }
    }

    /// Counter of the next block, then the key.
    pub fn words(&self) -> [u32; 6] {
        let [a, b, c, d] = self.counter;
        [a, b, c, d, self.key[0], self.key[1]]
    }

    /// The four draws of one counter value.
    pub fn block(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
        let (mut c, mut k) = (counter, key);
        for _ in 0..10 {
            let p0 = u64::from(c[0]) * 0xD251_1F53;
            let p1 = u64::from(c[2]) * 0xCD9E_8D57;
            let (hi0, lo0) = ((p0 >> 32) as u32, p0 as u32);
            let (hi1, lo1) = ((p1 >> 32) as u32, p1 as u32);
            c = [hi1 ^ c[1] ^ k[0], lo1, hi0 ^ c[3] ^ k[1], lo0];
            k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
        }
        c
    }

    /// The next draw; the counter moves on by one every four draws.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.block = Philox::block(self.counter, self.key);
            self.used = 0;
            for word in &mut self.counter {
                *word = word.wrapping_add(1);
                if *word != 0 {
                    break;
                }
            }
        }
        self.used += 1;
        self.block[self.used - 1]
    }
}

/// Uniform number in [0, 1) from the low 23 bits of a draw, as RAND2 and the POOL generator make
/// it (wiki-cc: bir/sim-bn-rng-collective-dma; wiki: firmware/kernels/rand2).
#[inline]
pub fn uniform_low_bits(draw: u32) -> f32 {
    f32::from_bits((draw & 0x7F_FFFF) | 0x3F80_0000) - 1.0
}

/// Uniform number in [0, 1) from the high 23 bits of a draw, as DROPOUT makes it. OPEN: that the
/// high bits are used is inferred (wiki: firmware/kernels/dropout).
#[inline]
pub fn uniform_high_bits(draw: u32) -> f32 {
    f32::from_bits((draw >> 9) | 0x3F80_0000) - 1.0
}

/// Uniform number in [min, max) of RAND2, in FP32 with one rounding for each operation.
#[inline]
pub fn uniform_range(draw: u32, min: f32, max: f32) -> f32 {
    let spread = max - min;
    let offset = spread * uniform_low_bits(draw);
    min + offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};

    #[test]
    fn pcg32_equals_another_implementation() {
        // rand_pcg steps the state once when it is built; undo nothing, just start it there.
        let mut theirs = rand_pcg::Lcg64Xsh32::from_seed([7; 16]);
        let stream = u64::from_le_bytes([7; 8]) | 1;
        let state = u64::from_le_bytes([7; 8])
            .wrapping_add(stream)
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(stream);
        // The increment differs (theirs is a stream), so only the output function is comparable.
        let mut ours = Pcg32 { state };
        assert_eq!(ours.next_u32(), theirs.next_u32());
    }

    #[test]
    fn pcg32_sequence() {
        let mut pcg = Pcg32 { state: 1 };
        let draws: [u32; 4] = std::array::from_fn(|_| pcg.next_u32());
        assert_eq!(draws, [0, 0xB99C_5774, 0xC534_4D14, 0x91CF_3BF5]);
        assert_eq!(pcg.state, 0x6203_55CD_1193_57C5);
    }

    #[test]
    fn philox_known_answers() {
        // Known answers of the generator's authors (Random123, kat_vectors).
        let zero = Philox::block([0; 4], [0; 2]);
        assert_eq!(zero, [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
        let ones = Philox::block([u32::MAX; 4], [u32::MAX; 2]);
        assert_eq!(ones, [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
        let pi = Philox::block(
            [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344],
            [0xA409_3822, 0x299F_31D0],
        );
        assert_eq!(pi, [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]);
        let mut philox = Philox::new([u32::MAX, 0, 0, 0], [0; 2]);
        for _ in 0..5 {
            philox.next_u32();
        }
        assert_eq!(philox.words(), [1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn xorwow_sequence() {
        let mut words = Xorwow::initial(Generation::V3).words();
        words[5] = 0;
        let mut xorwow = Xorwow::from_words(words);
        let draws: [u32; 4] = std::array::from_fn(|_| xorwow.next_u32());
        assert_eq!(draws, [0x0E52_143E, 0xDB8C_19D7, 0x4AFB_08C4, 0xE876_BD38]);
        assert_eq!(
            xorwow.words(),
            [0x0058_3F19, 0x0E4C_8C79, 0xDB81_0A4D, 0x4AEA_7175, 0xE860_9E24, 0x0016_1F14]
        );
        let mut v4 = Xorwow::initial(Generation::V4);
        assert_eq!(v4.next_u32(), 0x0E52_DD62);
        assert_eq!(Xorwow::from_words([0; 6]).words(), [0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn quad_draws_in_turn() {
        let mut quad = XorwowQuad::from_words(std::array::from_fn(|i| i as u32 + 1));
        let mut first = Xorwow::from_words([1, 2, 3, 4, 5, 6]);
        let mut second = Xorwow::from_words([7, 8, 9, 10, 11, 12]);
        assert_eq!(quad.next_u32(), first.next_u32());
        assert_eq!(quad.next_u32(), second.next_u32());
        quad.restart();
        assert_eq!(quad.next_u32(), first.next_u32());
        assert_eq!(quad.words()[..6], first.words());
    }

    #[test]
    fn lfsr_sequence() {
        let mut lfsr = Lfsr::new(1);
        let draws: [u32; 6] = std::array::from_fn(|_| lfsr.next_u32());
        assert_eq!(draws, [0x3, 0x6, 0xD, 0x1B, 0x36, 0x6D]);
        assert_eq!(Lfsr::new(1).advance(32), 0xB6DB_68A3);
        assert_eq!(Lfsr::new(0xACE1).advance(32), 0xB542_E346);
        assert_eq!(Lfsr::new(0).state(), 1);
    }

    #[test]
    fn uniform_numbers() {
        assert_eq!(uniform_low_bits(0x0040_0000), 0.5);
        assert_eq!(uniform_high_bits(0x8000_0000), 0.5);
        assert_eq!(uniform_range(0x0040_0000, 1.0, 3.0), 2.0);
        assert!(uniform_low_bits(u32::MAX) < 1.0 && uniform_high_bits(u32::MAX) < 1.0);
    }
}

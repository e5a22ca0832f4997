//! Random generators of the engines, with their state words.

/// 32-bit Fibonacci LFSR with taps 32, 22, 2 and 1, shifted left
/// (wiki-cc: bir/sim-bn-rng-collective-dma).
///
/// It is the generator of the vendor's simulator; that the device has the same polynomial is not
/// shown, and the shift direction is inferred (the recurrence has full length only to the left).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lfsr {
    state: u32,
}

impl Lfsr {
    /// A generator in state `seed`; 0, which the recurrence never leaves, becomes 1.
    pub fn new(seed: u32) -> Lfsr {
        Lfsr { state: if seed == 0 { 1 } else { seed } }
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

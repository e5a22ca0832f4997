//! PE_MANAGE_SEED (0x08): the random states that round BF16 results.
//!
//! Sixteen 32-bit states for each PSUM partition, two for each bank. Loading takes them from
//! sixteen SBUF partitions of 128 words (state by state), saving writes them to PSUM, partition by
//! partition. (wiki: firmware/kernels/pe-matmul 5; dma/sbuf-psum-banks 6.3)

use crate::engine::cost::Operands;
use crate::engine::{CostQuery, CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{e, f};
use crate::memory::Space;
use crate::numeric::Dtype;
use crate::numeric::rng::Lfsr;

/// States of one partition.
pub(super) const STATES: usize = 16;

/// Seeded generators, `[partition][state]`; absent until the first load.
///
/// OPEN: the recurrence of the hardware is not published; the LFSR of the vendor's simulator is
/// used, and elements take the two states of their bank in turn.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Seeds {
    states: Vec<Lfsr>,
}

impl Seeds {
    /// The generator that rounds element `index` of a pattern, in `bank` of `partition`; none as
    /// long as no seeds were loaded.
    pub fn generator(&mut self, partition: u32, bank: u64, index: usize) -> Option<&mut Lfsr> {
        let state = (bank as usize * 2 + index % 2) % STATES;
        self.states.get_mut(partition as usize * STATES + state)
    }
}

/// PE_MANAGE_SEED 0x08. The identity operand only carries the data through the array, which this
/// emulator does not need.
pub(super) fn pe_manage_seed(env: &Env<'_>) -> Result<Prepared> {
    use f::s2s1d2_pe_seed as s;
    let inst = env.inst;
    let (states, partitions) = (inst.get(s::NUM_ACTIVE_ROWS), inst.get(s::NUM_ACTIVE_COLS));
    if states != STATES as u64 || partitions != 128 {
        return Err(Error::illegal(
            "pe_seed_shape",
            format!("{states} states for {partitions} partitions; there are 16 for 128"),
        ));
    }
    let mut operands = Operands::new();
    match inst.get(s::MODE) as u8 {
        e::pe_seed_mode::LOAD_SEED => {
            let src = Operand::new(env, s::SRC_SEED, Dtype::Int32, STATES as u32)?;
            if src.space != Space::Sbuf || src.partition != 0 || src.len() != 128 {
                return Err(Error::illegal(
                    "pe_seed_load",
                    "seeds are loaded from 128 words of SBUF partitions 0 to 15",
                ));
            }
            src.cost_source(env, &mut operands);
            let cost = CostQuery::new(CostRow::StateLoad, src.len() as u64, operands);
            let work = Work::new([src.read()], cost, move |lane| {
                let mut words = std::mem::take(&mut lane.scratch.bits[0]);
                let mut all = vec![Lfsr::new(1); 128 * STATES];
                let mut result = Ok(());
                for state in 0..STATES {
                    result = src.gather_bits(lane, state as u32, &mut words);
                    if result.is_err() {
                        break;
                    }
                    for (partition, word) in words.iter().enumerate().take(128) {
                        all[partition * STATES + state] = Lfsr::new(*word as u32);
                    }
                }
                lane.scratch.bits[0] = words;
                result?;
                lane.state.pe.seeds.states = all;
                Outcome::none()
            });
            Ok(work.into())
        }
        e::pe_seed_mode::SAVE_SEED => {
            let dst = Operand::new(env, s::DST_SEED, Dtype::Uint32, 128)?;
            if dst.space != Space::Psum || dst.partition != 0 || dst.len() != STATES {
                return Err(Error::illegal(
                    "pe_seed_save",
                    "seeds are saved to 16 words of each PSUM partition",
                ));
            }
            dst.cost_dest(env, &mut operands);
            let cost = CostQuery::new(CostRow::StateLoad, dst.len() as u64, operands);
            let work = Work::new([dst.write()], cost, move |lane| {
                for partition in 0..128usize {
                    let states = &lane.state.pe.seeds.states;
                    let Some(states) = states.get(partition * STATES..(partition + 1) * STATES)
                    else {
                        return Err(Error::undefined("pe_seed_save", "no seeds were loaded"));
                    };
                    let words: Vec<u64> = states.iter().map(|s| u64::from(s.state())).collect();
                    dst.scatter_bits(lane, partition as u32, &words)?;
                }
                Outcome::none()
            });
            Ok(work.into())
        }
        mode => Err(Error::illegal("pe_seed_mode", format!("seed mode {mode}"))),
    }
}

//! ACT, the activation engine: a scale and bias, a function of one variable, a running sum.
//!
//! [`activate`] has ACTIVATE and ACTIVATE_QUANTIZE, [`activate2`] the two-stage form, [`control`]
//! table loads and the accumulator read-out, [`operands`] what they share.

mod activate;
mod activate2;
mod control;
mod function;
mod operands;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Op;
use crate::isa::op;
use crate::numeric::pwl::TableSet;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[
    Op::new(op::ACTIVATE, "ACTIVATE", activate::activate),
    Op::new(op::ACTIVATE_QUANTIZE, "ACTIVATE_QUANTIZE", activate::activate_quantize),
    Op::new(op::ACTIVATION_TABLE_LOAD, "ACTIVATION_TABLE_LOAD", control::activation_table_load),
    Op::new(
        op::ACTIVATION_READ_ACCUMULATOR,
        "ACTIVATION_READ_ACCUMULATOR",
        control::activation_read_accumulator,
    ),
    Op::new(op::ACTIVATE2, "ACTIVATE2", activate2::activate2),
    Op::missing(
        op::ACTIVATE_MULTIPASS,
        "ACTIVATE_MULTIPASS",
        "how the accumulator of the previous pass enters the result (no image has a handler)",
        "firmware/kernels/pool-compute-misc 17",
    ),
];

/// State that survives between instructions.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct ActState {
    /// Running FP32 value of each channel; empty until first used, then one for each channel.
    accumulator: Vec<f32>,
    /// Number of the table set that ACTIVATION_TABLE_LOAD made resident.
    resident: Option<u32>,
    /// Table sets that the program brought along.
    #[serde(skip)]
    sets: Arc<BTreeMap<u32, TableSet>>,
}

impl ActState {
    /// Gives the engine the table sets of a program, by number. ACTIVATION_TABLE_LOAD then makes
    /// one of them resident.
    pub fn install_table_sets(&mut self, sets: Arc<BTreeMap<u32, TableSet>>) {
        self.sets = sets;
    }

    /// The table sets that were installed.
    pub fn table_sets(&self) -> Arc<BTreeMap<u32, TableSet>> {
        Arc::clone(&self.sets)
    }

    /// Running values; makes room for `channels` of them.
    fn accumulator(&mut self, channels: u32) -> &mut [f32] {
        let channels = channels as usize;
        if self.accumulator.len() < channels {
            self.accumulator.resize(channels, 0.0);
        }
        &mut self.accumulator[..channels]
    }
}

//! Search, sort, gather, scatter, random numbers, sequence bounds, MX and sparsity on DVE and POOL.
//!
//! One file per instruction group; [`common`] has what they share. State that outlives an
//! instruction is in [`IndirectState`].

mod common;
mod dropout;
mod gather;
mod mx;
mod random;
mod random_state;
mod search;
mod segments;
mod sort;
mod sparsity;

pub use random_state::{RandomState, StateKind};
pub use search::SearchState;

pub(in crate::engine) use common::{address, cost, dtype, holdable};
pub(in crate::engine) use random::{extended_rand_get_state, extended_rand_set_state};

use super::Op;
use crate::isa::{Generation, op};

/// Dispatch table of this family.
pub const OPS: &[Op] = &[
    Op::new(op::RNG, "RNG", random::rng),
    Op::new(op::MAX8, "MAX8", search::max8),
    Op::new(op::MATCH_VALUE_LOAD, "MATCH_VALUE_LOAD", search::match_value_load),
    Op::new(op::FIND_INDEX8, "FIND_INDEX8", search::find_index8),
    Op::new(op::MATCH_REPLACE8, "MATCH_REPLACE8", search::match_replace8),
    // (wiki: firmware/kernels/rng-seed-state-ops)
    Op::refused(
        op::RAND,
        "RAND",
        "rand_unmaintained",
        "no firmware has a handler for it; use RNG or RAND2",
    ),
    Op::new(op::RAND_GET_STATE, "RAND_GET_STATE", random::rand_get_state).missing_on(
        Generation::V2,
        random::STATE_ON_V2,
        random::STATE_PAGE,
    ),
    Op::new(op::RAND_SET_STATE, "RAND_SET_STATE", random::rand_set_state).missing_on(
        Generation::V2,
        random::STATE_ON_V2,
        random::STATE_PAGE,
    ),
    Op::new(op::EMBEDDING_UPDATE, "EMBEDDING_UPDATE", gather::embedding_update),
    Op::new(op::TENSOR_DEQUANTIZE, "TENSOR_DEQUANTIZE", mx::tensor_dequantize).missing_on(
        Generation::V2,
        "its struct and kernel on v2, which only names it",
        "firmware/kernels/mx-dequant",
    ),
    Op::new(op::DROPOUT, "DROPOUT", dropout::dropout),
    Op::new(op::SORT, "SORT", sort::sort),
    Op::new(op::GET_SEQUENCE_BOUNDS, "GET_SEQUENCE_BOUNDS", segments::get_sequence_bounds),
    Op::new(op::SPARSITY_COMPRESS, "SPARSITY_COMPRESS", sparsity::sparsity_compress),
    Op::new(op::SPARSITY_COMPRESS_TAG, "SPARSITY_COMPRESS_TAG", sparsity::sparsity_compress_tag),
    Op::new(op::RAND2, "RAND2", random::rand2),
    Op::new(op::QUANTIZE_MX, "QUANTIZE_MX", mx::quantize_mx),
    Op::new(op::INDIRECT_COPY, "INDIRECT_COPY", gather::indirect_copy),
    Op::new(op::NONZERO_WITH_COUNT, "NONZERO_WITH_COUNT", segments::nonzero_with_count),
];

/// State that survives between instructions.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct IndirectState {
    /// Search values of each channel.
    pub search: SearchState,
    /// Random generators of each partition.
    pub random: RandomState,
}

//! DMA instructions: descriptor generation, in-transfer compute, transposes, and the extended forms
//! of POOL. (wiki: firmware/kernels/dma-transpose-opcode-cluster; dma/descriptor-model;
//! dma/cce-in-transfer)
//!
//! A DMA word is a request: its transfers run on the DMA engines while the stream goes on, and its
//! semaphore moves when the last byte is written.

mod compute;
mod copy;
mod extended;
mod indirect;
mod operand;
mod transpose;

pub(in crate::engine) use compute::{ComputeOp, combine};

use super::Op;
use crate::isa::op;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[
    Op::new(op::DMAMEMCPY, "DMAMEMCPY", copy::dmamemcpy),
    Op::new(op::DMA_MEMCPY2, "DMA_MEMCPY2", copy::dma_memcpy2),
    Op::missing(
        op::DMA_IMMEDIATE,
        "DMA_IMMEDIATE",
        "which of the raw descriptors go to the reading and which to the writing side of the queue",
        "firmware/kernels/dma-transpose-opcode-cluster",
    ),
    Op::new(op::DMA_INDIRECT, "DMA_INDIRECT", indirect::dma_indirect),
    Op::new(op::DMA_TRANSPOSE, "DMA_TRANSPOSE", transpose::dma_transpose),
    Op::new(op::SB2SB_COLLECTIVE, "SB2SB_COLLECTIVE", extended::sb2sb_collective),
    Op::new(op::EXTENDED_INST, "EXTENDED_INST", extended::extended_inst),
    Op::new(op::DMA_GATHER_TRANSPOSE, "DMA_GATHER_TRANSPOSE", transpose::dma_gather_transpose),
];

/// State that survives between instructions: none, transfers do not depend on earlier ones.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct DgeState {}

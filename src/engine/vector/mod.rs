//! DVE and POOL: elementwise, scalar, reduce, scan, select, copy, pooling, batch norm.
//!
//! One function for each opcode, named as the mnemonic; both engines share it, and the engine
//! decides only what they do differently: native integers and no PSUM on POOL's cores.

mod accumulator;
mod address;
mod batch_norm;
mod cache;
mod common;
mod copy;
mod cross_lane;
mod domain;
mod extended;
mod generate;
mod multi;
mod pool;
mod pool_buffer;
mod pool_state;
mod predicated;
mod reduce;
mod rows;
mod scalar;
mod scan;
mod shuffle;
mod stt;
mod tensor_scalar;
mod tensor_tensor;
mod wide;

use super::Op;
use crate::isa::op;
use crate::numeric::batchnorm::BackProp;

/// Dispatch table of this family.
pub const OPS: &[Op] = &[
    Op::new(
        op::TENSOR_TENSOR_ARITH_OP,
        "TENSOR_TENSOR_ARITH_OP",
        tensor_tensor::tensor_tensor_arith_op,
    ),
    Op::new(
        op::TENSOR_TENSOR_BITVEC_OP,
        "TENSOR_TENSOR_BITVEC_OP",
        tensor_tensor::tensor_tensor_bitvec_op,
    ),
    Op::new(
        op::TENSOR_TENSOR_ADD_BF16,
        "TENSOR_TENSOR_ADD_BF16",
        tensor_tensor::tensor_tensor_add_bf16,
    ),
    Op::new(
        op::TENSOR_TENSOR_MULT_BF16,
        "TENSOR_TENSOR_MULT_BF16",
        tensor_tensor::tensor_tensor_mult_bf16,
    ),
    Op::new(
        op::TENSOR_TENSOR_SUB_BF16,
        "TENSOR_TENSOR_SUB_BF16",
        tensor_tensor::tensor_tensor_sub_bf16,
    ),
    Op::new(
        op::TENSOR_SCALAR_ARITH_OP,
        "TENSOR_SCALAR_ARITH_OP",
        tensor_scalar::tensor_scalar_arith_op,
    ),
    Op::new(
        op::TENSOR_SCALAR_PTR_ARITH_OP,
        "TENSOR_SCALAR_PTR_ARITH_OP",
        tensor_scalar::tensor_scalar_ptr_arith_op,
    ),
    Op::new(
        op::TENSOR_SCALAR_BITVEC_OP,
        "TENSOR_SCALAR_BITVEC_OP",
        tensor_scalar::tensor_scalar_bitvec_op,
    ),
    Op::new(
        op::TENSOR_SCALAR_PTR_BITVEC_OP,
        "TENSOR_SCALAR_PTR_BITVEC_OP",
        tensor_scalar::tensor_scalar_ptr_bitvec_op,
    ),
    Op::new(
        op::TRANSPOSE_TENSOR_SCALAR_ARITH_OP,
        "TRANSPOSE_TENSOR_SCALAR_ARITH_OP",
        tensor_scalar::transpose_tensor_scalar_arith_op,
    ),
    Op::new(op::TENSOR_REDUCE_ARITH_OP, "TENSOR_REDUCE_ARITH_OP", reduce::tensor_reduce_arith_op),
    Op::new(
        op::TENSOR_REDUCE_BITVEC_OP,
        "TENSOR_REDUCE_BITVEC_OP",
        reduce::tensor_reduce_bitvec_op,
    ),
    Op::new(
        op::TRANSPOSE_TENSOR_REDUCE_ARITH_OP,
        "TRANSPOSE_TENSOR_REDUCE_ARITH_OP",
        reduce::transpose_tensor_reduce_arith_op,
    ),
    Op::new(
        op::TRANSPOSE_TENSOR_REDUCE_BITVEC_OP,
        "TRANSPOSE_TENSOR_REDUCE_BITVEC_OP",
        reduce::transpose_tensor_reduce_bitvec_op,
    ),
    Op::new(op::TENSOR_REDUCE_ADD_BF16, "TENSOR_REDUCE_ADD_BF16", reduce::tensor_reduce_add_bf16),
    Op::new(op::TENSOR_REDUCE_MAX_BF16, "TENSOR_REDUCE_MAX_BF16", reduce::tensor_reduce_max_bf16),
    Op::new(op::COPY, "COPY", copy::copy),
    Op::new(op::CAST, "CAST", copy::cast),
    Op::new(op::RECIPROCAL, "RECIPROCAL", copy::reciprocal),
    Op::new(op::MEMSET, "MEMSET", copy::memset),
    Op::new(
        op::TENSOR_CUMULATIVE_ARITH_OP,
        "TENSOR_CUMULATIVE_ARITH_OP",
        scan::tensor_cumulative_arith_op,
    ),
    Op::new(
        op::TENSOR_CUMULATIVE_BITVEC_OP,
        "TENSOR_CUMULATIVE_BITVEC_OP",
        scan::tensor_cumulative_bitvec_op,
    ),
    Op::new(
        op::TENSOR_TENSOR_SCAN_ARITH,
        "TENSOR_TENSOR_SCAN_ARITH",
        scan::tensor_tensor_scan_arith,
    ),
    Op::new(
        op::SCALAR_TENSOR_TENSOR_ARITH,
        "SCALAR_TENSOR_TENSOR_ARITH",
        stt::scalar_tensor_tensor_arith,
    ),
    Op::new(
        op::SCALAR_TENSOR_TENSOR_BITVEC,
        "SCALAR_TENSOR_TENSOR_BITVEC",
        stt::scalar_tensor_tensor_bitvec,
    ),
    Op::new(op::DVE_READ_ACCUMULATOR, "DVE_READ_ACCUMULATOR", accumulator::dve_read_accumulator),
    Op::new(op::IOTA, "IOTA", generate::iota),
    Op::new(
        op::TENSOR_SCALAR_AFFINE_SELECT,
        "TENSOR_SCALAR_AFFINE_SELECT",
        generate::tensor_scalar_affine_select,
    ),
    Op::new(op::RANGE_SELECT, "RANGE_SELECT", generate::range_select),
    Op::new(op::POOL, "POOL", pool::pool),
    Op::new(op::MAX_POOL_SELECT, "MAX_POOL_SELECT", pool::max_pool_select),
    Op::new(op::STREAM_TRANSPOSE, "STREAM_TRANSPOSE", shuffle::stream_transpose),
    Op::new(op::STREAM_SHUFFLE, "STREAM_SHUFFLE", shuffle::stream_shuffle),
    Op::new(op::LOAD_MASK_SELECT, "LOAD_MASK_SELECT", shuffle::load_mask_select),
    Op::new(op::COPY_PREDICATED, "COPY_PREDICATED", predicated::copy_predicated),
    Op::new(op::CAST_PREDICATED, "CAST_PREDICATED", predicated::cast_predicated),
    Op::new(
        op::COPY_PREDICATED_SCALAR,
        "COPY_PREDICATED_SCALAR",
        predicated::copy_predicated_scalar,
    ),
    Op::new(op::TENSOR_SCALAR_SELECT, "TENSOR_SCALAR_SELECT", predicated::tensor_scalar_select),
    Op::new(op::SELECT_REDUCE, "SELECT_REDUCE", predicated::select_reduce),
    Op::new(
        op::TENSOR_SCALAR_CACHE_REDUCE,
        "TENSOR_SCALAR_CACHE_REDUCE",
        cache::tensor_scalar_cache_reduce,
    ),
    Op::new(
        op::TENSOR_SCALAR_CACHE_CUMULATIVE,
        "TENSOR_SCALAR_CACHE_CUMULATIVE",
        cache::tensor_scalar_cache_cumulative,
    ),
    Op::new(op::EXPONENTIAL, "EXPONENTIAL", cache::exponential),
    Op::new(
        op::TENSOR_SCALAR_IMM_LD_ARITH,
        "TENSOR_SCALAR_IMM_LD_ARITH",
        multi::tensor_scalar_imm_ld_arith,
    ),
    Op::new(
        op::TENSOR_SCALAR_IMM_LD_BITVEC,
        "TENSOR_SCALAR_IMM_LD_BITVEC",
        multi::tensor_scalar_imm_ld_bitvec,
    ),
    Op::new(
        op::TENSOR_SCALAR_PTR_MULTI_ARITH,
        "TENSOR_SCALAR_PTR_MULTI_ARITH",
        multi::tensor_scalar_ptr_multi_arith,
    ),
    Op::new(
        op::TENSOR_SCALAR_PTR_MULTI_BITVEC,
        "TENSOR_SCALAR_PTR_MULTI_BITVEC",
        multi::tensor_scalar_ptr_multi_bitvec,
    ),
    Op::new(
        op::TENSOR_SCALAR_PTR_MULTI_DUAL_ARITH,
        "TENSOR_SCALAR_PTR_MULTI_DUAL_ARITH",
        multi::tensor_scalar_ptr_multi_dual_arith,
    ),
    Op::new(
        op::CROSS_LANE_REDUCE_ARITH,
        "CROSS_LANE_REDUCE_ARITH",
        cross_lane::cross_lane_reduce_arith,
    ),
    Op::new(
        op::CROSS_LANE_REDUCE_BITVEC,
        "CROSS_LANE_REDUCE_BITVEC",
        cross_lane::cross_lane_reduce_bitvec,
    ),
    Op::new(op::TENSOR_SCALAR_ADDR, "TENSOR_SCALAR_ADDR", address::tensor_scalar_addr),
    Op::new(op::TENSOR_TENSOR_INT_WIDE, "TENSOR_TENSOR_INT_WIDE", wide::tensor_tensor_int_wide),
    Op::new(op::TENSOR_SCALAR_INT_WIDE, "TENSOR_SCALAR_INT_WIDE", wide::tensor_scalar_int_wide),
    Op::new(op::BATCH_NORM_STATS, "BATCH_NORM_STATS", batch_norm::batch_norm_stats),
    Op::new(op::BATCH_NORM_STATS2, "BATCH_NORM_STATS2", batch_norm::batch_norm_stats2),
    Op::new(
        op::TRANSPOSE_BATCH_NORM_STATS2,
        "TRANSPOSE_BATCH_NORM_STATS2",
        batch_norm::transpose_batch_norm_stats2,
    ),
    Op::new(op::BATCH_NORM_AGGREGATE, "BATCH_NORM_AGGREGATE", batch_norm::batch_norm_aggregate),
    Op::new(
        op::BATCH_NORM_GRAD_ACCUMULATE,
        "BATCH_NORM_GRAD_ACCUMULATE",
        batch_norm::batch_norm_grad_accumulate,
    ),
    Op::new(
        op::BATCH_NORM_GRAD_ACCUMULATE2,
        "BATCH_NORM_GRAD_ACCUMULATE2",
        batch_norm::batch_norm_grad_accumulate2,
    ),
    Op::new(op::BATCH_NORM_PARAM_LOAD, "BATCH_NORM_PARAM_LOAD", batch_norm::batch_norm_param_load),
    Op::new(
        op::BATCH_NORM_PARAM_LOAD2,
        "BATCH_NORM_PARAM_LOAD2",
        batch_norm::batch_norm_param_load2,
    ),
    Op::new(op::BATCH_NORM_BACK_PROP, "BATCH_NORM_BACK_PROP", batch_norm::batch_norm_back_prop),
    Op::new(op::LOAD_PARAMETER_RAM, "LOAD_PARAMETER_RAM", batch_norm::load_parameter_ram),
    Op::new(op::LOAD_POOL_ARGUMENT, "LOAD_POOL_ARGUMENT", pool_state::load_pool_argument),
    // EXTENDED_INST itself stands in the table of the DMA family.
    Op::new(
        op::EXTENDED_INST,
        "EXTENDED_TENSOR_TENSOR_ARITH",
        extended::extended_tensor_tensor_arith,
    ),
    Op::new(op::POOL_BUFFER_LOAD, "POOL_BUFFER_LOAD", pool_buffer::pool_buffer_load),
    Op::new(op::GATHER, "GATHER", pool_buffer::gather),
    Op::new(op::DVE_READ_INDICES, "DVE_READ_INDICES", accumulator::dve_read_indices),
    Op::new(op::ENGINE_NOP, "ENGINE_NOP", pool_state::engine_nop),
    Op::missing(
        op::REG_LOAD,
        "REG_LOAD",
        "where REG_LOAD has its source, its first register and its parallel mode, and what it does",
        "wiki: firmware/kernels/opcode-catalog-ledger",
    ),
    Op::missing(
        op::REG_STORE,
        "REG_STORE",
        "what REG_STORE stores beyond the struct D4_MR",
        "wiki: firmware/kernels/pool-compute-misc",
    ),
    Op::missing(
        op::REG_SHUFFLE,
        "REG_SHUFFLE",
        "where REG_SHUFFLE has its first register and its selectors, and what it does",
        "wiki: firmware/kernels/opcode-catalog-ledger",
    ),
    Op::missing(
        op::ROI_ALIGN,
        "ROI_ALIGN",
        "what ROI_ALIGN does: no page gives its struct or its body",
        "wiki: firmware/kernels/opcode-catalog-ledger",
    ),
    Op::missing(
        op::JPEG_DECODE,
        "JPEG_DECODE",
        "what JPEG_DECODE does: only the name of its struct is given",
        "wiki: firmware/kernels/opcode-catalog-ledger",
    ),
    Op::missing(
        op::CUSTOM_OP_HEADER,
        "CUSTOM_OP_HEADER",
        "how a custom-operation call finds and runs its function",
        "wiki: firmware/kernels/pool-compute-misc",
    ),
    Op::missing(
        op::CUSTOM_OP_PAYLOAD,
        "CUSTOM_OP_PAYLOAD",
        "how a custom-operation call takes its arguments",
        "wiki: firmware/kernels/pool-compute-misc",
    ),
    Op::missing(
        op::TENSOR_SCALAR_PTR_MULTI_DUAL_BITVEC,
        "TENSOR_SCALAR_PTR_MULTI_DUAL_BITVEC",
        "what the disabled bit-vector form of the dual operation computes",
        "wiki: firmware/kernels/sunda-dual-tensorscalarptr",
    ),
    Op::missing(
        op::TENSOR_REDUCE_RANGE_CHECK,
        "TENSOR_REDUCE_RANGE_CHECK",
        "what TENSOR_REDUCE_RANGE_CHECK does: no page gives its struct or its body",
        "wiki: firmware/kernels/opcode-catalog-ledger",
    ),
];

/// State that survives between instructions.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct VectorState {
    /// Reduce accumulator of each channel, empty until first used.
    accumulator: Vec<f32>,
    /// Table of STREAM_SHUFFLE, `None` until loaded.
    mask: Option<[u8; rows::TILE]>,
    /// Scalars loaded ahead for each channel.
    flops: Vec<[u32; multi::FLOPS]>,
    /// PARAMETER_RAM, the reciprocals of batch norm; `None` while at its reset values.
    parameters: Option<Box<[f32]>>,
    /// Backward-pass values of each channel.
    back_prop: Vec<BackProp>,
    /// Gather buffer of POOL, `None` until loaded and after it was freed.
    pool_buffer: Option<Box<pool_buffer::PoolBuffer>>,
    /// Argument words of POOL kernels.
    pool_arguments: [u32; pool_state::ARGUMENTS],
}

impl VectorState {
    /// The argument words that LOAD_POOL_ARGUMENT left for POOL kernels.
    pub fn pool_arguments(&self) -> &[u32] {
        &self.pool_arguments
    }
}

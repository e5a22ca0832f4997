//! Batch norm, search, sort, random, dropout, gather and peer moves (wiki:
//! firmware/kernels/batchnorm-forward; search-cluster; rng-seed-state-ops; indirection-gather).

use super::common::{FP32R, PLAIN, dtype, dtype_field, dtype_name, immediate, same_count};
use super::vector::{float_dtype, int_dtype, transposed};
use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::OpcodeDef;
use crate::isa::generation::{Engine, Generation};
use crate::isa::geometry::dtype_bytes;
use crate::isa::pattern::Pattern;
use crate::isa::tables::{class, e, op};

rules! {
    BN_COUNTS "batch_norm_counts" "firmware/kernels/batchnorm-forward"
        "source and destination must have the element counts of the opcode";
    BN_TYPES "batch_norm_dtypes" "firmware/kernels/batchnorm-forward"
        "the types must be those the opcode takes";
    BN_EVEN_ODD "batch_norm_even_odd" "firmware/kernels/batchnorm-forward"
        "even and odd counts are finite for the statistics opcodes and 0 for the others";
    LOAD_COUNTS "param_load_counts" "firmware/kernels/batchnorm-paramload"
        "the source must have the element count of the opcode";
    LOAD_TYPES "param_load_dtypes" "firmware/kernels/batchnorm-paramload"
        "the types must be those the opcode takes";
    LOAD_IMM "param_load_immediates" "firmware/kernels/batchnorm-paramload"
        "immediates must be zero, or pointers where the opcode has them";
    GRAD "grad_accumulate_valid" "firmware/kernels/batchnorm-gradaccum"
        "gradient accumulation has three results, floating results and sources of FP16, BF16, FP32 or INT32";
    REPLACE "match_replace_valid" "firmware/kernels/search-cluster"
        "match-replace takes up to 16384 elements of seven types without FP32R";
    SORT "sort_valid" "firmware/kernels/sort"
        "sort takes one 16- or 32-bit type, two result rows, a comparison IS_LT or IS_GT and a limited total";
    NONZERO "nonzero_valid" "firmware/kernels/nonzero-with-count"
        "the result has one element more than the source, FP32 or INT32 in, INT32 out";
    SEQ_BOUNDS "sequence_bounds_valid" "firmware/kernels/get-sequence-bounds"
        "sequence bounds run on one channel and write two values per element";
    RAND_STATE "rand_state_words" "firmware/kernels/rng-seed-state-ops"
        "the state has the words of this engine, algorithm and generator";
    RAND_TYPE "rand_state_dtype" "firmware/kernels/rng-seed-state-ops"
        "random states are UINT32";
    RAND_IMM "rand_set_state_immediate" "firmware/kernels/rng-seed-state-ops"
        "immediate state is PHILOX's alone, and zero when the state comes from a tensor";
    RAND_PARAMS "rand_get_state_params" "firmware/kernels/rng-seed-state-ops"
        "steps, post-processing and parameters are zero when reading a state";
    RAND2 "rand2_valid" "firmware/kernels/rand2"
        "RAND2 draws XORWOW values uniform in a range";
    DROPOUT "dropout_same_dtype" "firmware/kernels/dropout"
        "source and destination must have one type";
    GATHER "gather_index_dtype" "firmware/kernels/indirection-gather"
        "indices are UINT8, UINT16 or UINT32";
    INDIRECT_COPY "indirect_copy_valid" "firmware/kernels/indirection-gather"
        "an indirect copy has one type, a multiple of 16 channels, a power-of-two group up to 32 and at most 4096 indices";
    COLLECTIVE "sb2sb_valid" "firmware/kernels/sb2sb-remote-copy"
        "a peer move has one type, at most 256 elements and two cores at most";
}

pub(super) fn batch_norm(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{BFLOAT16, FP16, FP32, UINT16, UINT32};
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    let counts = cx.count("src").zip(cx.count("dst"));
    let rule: fn(u64, u64) -> bool = match def.byte {
        op::BATCH_NORM_STATS => |s, d| s <= 256 && d == 3,
        op::BATCH_NORM_STATS2 => |s, d| s <= 512 && d == 6,
        op::TRANSPOSE_BATCH_NORM_STATS2 => |s, d| s.is_multiple_of(32) && d == 6,
        op::BATCH_NORM_AGGREGATE => |s, d| s.is_multiple_of(3) && d == 2,
        _ => |s, d| (8..=16384).contains(&s) && d == 8,
    };
    cx.require(&BN_COUNTS, counts.is_none_or(|(s, d)| rule(s, d)), || format!("{counts:?}"))?;
    dtype(cx, "in_dtype", inp, PLAIN)?;
    dtype(cx, "out_dtype", out, FP32R)?;
    let ok = match def.byte {
        op::BATCH_NORM_STATS2 | op::TRANSPOSE_BATCH_NORM_STATS2 => {
            matches!(out, FP32 | BFLOAT16 | FP16)
        }
        op::FIND_INDEX8 => matches!(out, UINT16 | UINT32),
        _ => true,
    };
    cx.require(&BN_TYPES, ok, || dtype_name(out))?;
    let [even, odd] = [cx.f32("even_count"), cx.f32("odd_count")];
    let ok = match def.byte {
        op::BATCH_NORM_STATS2 | op::TRANSPOSE_BATCH_NORM_STATS2 | op::BATCH_NORM_STATS => {
            even.is_finite() && odd.is_finite()
        }
        _ => even == 0.0 && odd == 0.0,
    };
    cx.require(&BN_EVEN_ODD, ok, || format!("{even} and {odd}"))?;
    if def.byte == op::TRANSPOSE_BATCH_NORM_STATS2 { transposed(cx, "src") } else { Ok(()) }
}

pub(super) fn param_load(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{BFLOAT16, FP16, FP32, INT32, UINT8, UINT16, UINT32};
    let count = cx.count("src");
    let v1 = cx.byte("dtype");
    let (count_ok, type_ok) = match def.byte {
        op::MATCH_VALUE_LOAD => (count.is_none_or(|n| n == 8), true),
        op::BATCH_NORM_PARAM_LOAD => {
            (count.is_none_or(|n| n == 3), matches!(v1, FP32 | FP16 | BFLOAT16))
        }
        op::TENSOR_SCALAR_IMM_LD_ARITH => {
            (count.is_none_or(|n| (1..=8).contains(&n)), float_dtype(v1) || int_dtype(v1))
        }
        op::TENSOR_SCALAR_IMM_LD_BITVEC => (
            count.is_none_or(|n| (1..=8).contains(&n)),
            matches!(v1, UINT32 | UINT16 | UINT8 | INT32),
        ),
        _ => (count.is_none_or(|n| n == 2), true),
    };
    cx.require(&LOAD_COUNTS, count_ok, || format!("{count:?}"))?;
    if def.byte == op::BATCH_NORM_PARAM_LOAD2 {
        dtype_field(cx, "src_dtype", PLAIN)?;
        dtype_field(cx, "immediate_dtype", PLAIN)?;
        let (s0, s1) = (cx.byte("imm0_src"), cx.byte("imm1_src"));
        let size = dtype_bytes(cx.byte("immediate_dtype")).unwrap_or(4);
        immediate(cx, "imm0_ptr", s0, size)?;
        return immediate(cx, "imm1_ptr", s1, size);
    }
    dtype_field(cx, "dtype", PLAIN)?;
    cx.require(&LOAD_TYPES, type_ok, || dtype_name(v1))?;
    let source = cx.byte("imm0_src");
    let zero = cx.get("imm1") == 0 && cx.get("imm0_ptr") == 0 && source == 0;
    let ok = zero || def.byte == op::BATCH_NORM_PARAM_LOAD && source <= 2;
    cx.require(&LOAD_IMM, ok, || format!("source {source}"))
}

pub(super) fn grad_accumulate(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{BFLOAT16, FP16, FP32, INT32, INVALID};
    let (s0, s1) = cx.pair("in0_in1_dtype");
    let second = def.byte == op::BATCH_NORM_GRAD_ACCUMULATE2;
    let (imm, out) = if second {
        cx.pair("immediate_out_dtype")
    } else {
        (cx.byte("immediate_dtype"), cx.byte("out_dtype"))
    };
    let source = |t| matches!(t, FP16 | BFLOAT16 | FP32 | INT32);
    let count = cx.count("dst");
    let (i0, i1) = (cx.byte("imm0_imm1_src") & 0xF, cx.byte("imm0_imm1_src") >> 4);
    let imm_ok = if second { imm != INVALID && matches!((i0, i1), (1 | 2, 1 | 2)) } else { true };
    let ok = source(s0)
        && source(s1)
        && matches!(out, FP32 | FP16 | BFLOAT16)
        && count.is_none_or(|n| n == 3)
        && imm_ok;
    cx.require(&GRAD, ok, || {
        format!("{}, {} to {}, {count:?} results", dtype_name(s0), dtype_name(s1), dtype_name(out))
    })?;
    if second {
        let size = dtype_bytes(imm).unwrap_or(4);
        immediate(cx, "imm0", i0, size)?;
        immediate(cx, "imm1", i1, size)?;
    }
    same_count(cx, "src0", "src1")
}

pub(super) fn match_replace(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    let known = |t| class::DTYPE_MATCH_REPLACE8.contains(t);
    let count = cx.count("src");
    let ok = known(inp) && known(out) && count.is_none_or(|n| n <= 16384);
    cx.require(&REPLACE, ok, || format!("{} to {}", dtype_name(inp), dtype_name(out)))?;
    same_count(cx, "src", "dst")
}

pub(super) fn sort(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = cx.pair("in_out_dtype");
    dtype(cx, "in_out_dtype low", inp, PLAIN)?;
    let compare = cx.byte("comparison");
    let limit = match dtype_bytes(inp) {
        Some(2) => 4096,
        Some(4) => 2048,
        _ => 0,
    };
    let channels = u64::from(cx.byte("num_active_channels"));
    let count = cx.count("src");
    let rows = cx.nums("dst").map(|n| n[0]);
    let ok = inp == out
        && matches!(compare, e::alu_op::IS_LT | e::alu_op::IS_GT)
        && rows.is_none_or(|n| n == 2)
        && limit > 0
        && count.is_none_or(|n| n * channels <= limit);
    cx.require(&SORT, ok, || format!("{count:?} of {} on {channels}", dtype_name(inp)))?;
    let source = cx.byte("index_offset_src");
    immediate(cx, "index_offset", source, 4)
}

pub(super) fn nonzero(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{FP32, INT32};
    let counts = cx.count("src").zip(cx.count("dst"));
    let ok = matches!(cx.byte("in_dtype"), FP32 | INT32)
        && cx.byte("out_dtype") == INT32
        && counts.is_none_or(|(s, d)| d == s + 1);
    cx.require(&NONZERO, ok, || format!("{counts:?}"))?;
    let (offset, padding) = (cx.byte("index_offset_src"), cx.byte("padding_val_src"));
    immediate(cx, "index_offset", offset, 4)?;
    immediate(cx, "padding_val", padding, 4)
}

pub(super) fn sequence_bounds(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{FP32, INT32};
    let channels = cx.byte("num_active_channels");
    let counts = cx.count("src").zip(cx.count("dst"));
    let pair = cx.nums("dst").is_none_or(|n| n[2] == 2);
    let ok = channels == 1
        && matches!(cx.byte("in_dtype"), FP32 | INT32)
        && matches!(cx.byte("out_dtype"), FP32 | INT32)
        && pair
        && counts.is_none_or(|(s, d)| d == 2 * s);
    cx.require(&SEQ_BOUNDS, ok, || format!("{channels} channels, counts {counts:?}"))
}

/// Words of random state per partition, if the combination exists.
fn state_words(cx: &Context<'_>) -> Option<u64> {
    use e::rand_algorithm::{LFSR, PHILOX, XORWOW};
    use e::rand_src::{OUTPUT_CVT_LFSR, RNG_LFSR, RNG_PHILOX, RNG_XORWOW};
    let v4 = matches!(cx.generation(), Generation::V4 | Generation::V4Plus);
    let key = (cx.byte("rand_algorithm"), cx.byte("rand_generator"));
    let from = |first: Generation| cx.generation() >= first;
    match (cx.engine, key) {
        (Engine::Pool, (PHILOX, RNG_PHILOX)) => Some(7),
        (Engine::Pool, (XORWOW, RNG_XORWOW)) if from(Generation::V3) => Some(6),
        (Engine::Pool, (LFSR, OUTPUT_CVT_LFSR)) if from(Generation::V4) => Some(1),
        (Engine::Dve, (XORWOW, RNG_XORWOW)) if from(Generation::V4) => Some(24),
        (Engine::Dve, (LFSR, RNG_LFSR | OUTPUT_CVT_LFSR)) if from(Generation::V4) => Some(4),
        (Engine::Act, (LFSR, OUTPUT_CVT_LFSR)) if v4 => Some(2),
        _ => None,
    }
}

fn state(cx: &mut Context<'_>, operand: &'static str, code: u8) -> Result<()> {
    cx.require(&RAND_TYPE, code == e::dtype::UINT32, || dtype_name(code))?;
    let (words, count) = (state_words(cx), cx.count(operand));
    let ok = words.is_some_and(|w| count.is_none_or(|n| n == w));
    let engine = cx.engine;
    cx.require(&RAND_STATE, ok, || format!("{count:?} words on {engine}, expected {words:?}"))
}

pub(super) fn rand_set_state(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let code = cx.byte("in_dtype");
    let imm = cx.bytes("imm_state");
    let from_tensor = cx.byte("update_state") == e::rand_state_update::SRC_TENSOR;
    let ok = if from_tensor {
        imm.iter().all(|b| *b == 0)
    } else {
        cx.engine == Engine::Pool
            && cx.byte("rand_algorithm") == e::rand_algorithm::PHILOX
            && cx.byte("rand_generator") == e::rand_src::RNG_PHILOX
            && imm.iter().skip(28).all(|b| *b == 0)
    };
    cx.require(&RAND_IMM, ok, || format!("{imm:02x?}"))?;
    if from_tensor { state(cx, "src", code) } else { Ok(()) }
}

pub(super) fn rand_get_state(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let code = cx.byte("dtype");
    if def.byte != op::RAND_GET_STATE {
        return dtype(cx, "dtype", code, FP32R);
    }
    let zero = cx.byte("rand_num_steps") == 0
        && cx.byte("post_process") == 0
        && cx.bytes("params").iter().all(|b| *b == 0);
    cx.require(&RAND_PARAMS, zero, String::new)?;
    state(cx, "dst", code)
}

pub(super) fn rand2(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let ok = cx.byte("rand_algorithm") == e::rand_algorithm::XORWOW
        && cx.byte("post_process") == e::rand_post_proc::UNIFORM_IN_RANGE;
    cx.require(&RAND2, ok, String::new)?;
    dtype_field(cx, "dtype", FP32R)?;
    let (min, max) = (cx.byte("min_src"), cx.byte("max_src"));
    immediate(cx, "min", min, 4)?;
    immediate(cx, "max", max, 4)
}

pub(super) fn dropout(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    dtype(cx, "in_dtype", inp, PLAIN)?;
    cx.require(&DROPOUT, inp == out, || format!("{} to {}", dtype_name(inp), dtype_name(out)))?;
    let source = cx.byte("threshold_src");
    let size = dtype_bytes(cx.byte("threshold_dtype")).unwrap_or(1);
    immediate(cx, "threshold", source, size)?;
    same_count(cx, "src", "dst")
}

pub(super) fn gather(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{UINT8, UINT16, UINT32};
    let index = cx.byte("in_dtype");
    cx.require(&GATHER, matches!(index, UINT8 | UINT16 | UINT32), || dtype_name(index))?;
    dtype_field(cx, "out_dtype", FP32R)
}

pub(super) fn indirect_copy(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    dtype(cx, "in_dtype", inp, PLAIN)?;
    let channels = cx.byte("num_active_channels");
    let per = cx.byte("src_num_elem_per_idx");
    let group_ok = matches!(per, 1 | 2 | 4 | 8 | 16 | 32);
    let count = cx.count("dst");
    let ok = inp == out
        && channels.is_multiple_of(16)
        && group_ok
        && cx.byte("dst_num_elem_per_idx") == 0
        && cx.get("dst_buffer_size") == 0
        && cx.get("src_buffer_size") > 1
        // what the cores can stage
        && count.is_none_or(|n| n <= 1024 && n.is_multiple_of(u64::from(per.max(1))))
        && match (cx.pattern("src"), count) {
            (Some(Pattern::Indirect { num, .. }), Some(n)) => u64::from(num) == n,
            _ => true,
        };
    cx.require(&INDIRECT_COPY, ok, || {
        format!("{channels} channels, {per} elements per index, {count:?} elements")
    })
}

pub(super) fn collective(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    dtype(cx, "in_dtype", inp, PLAIN)?;
    let count = cx.count("src");
    let cores = cx.byte("lnc_size_fmt");
    let ok = inp == out && count.is_none_or(|n| n <= 256) && cores <= e::lnc_size_fmt::LNC2;
    cx.require(&COLLECTIVE, ok, || format!("{count:?} of {}", dtype_name(inp)))?;
    same_count(cx, "src", "dst")
}

//! Reduce, copy, cast, pool, fill and control loads (wiki: firmware/kernels/tensor-reduce;
//! firmware/kernels/pool-compute-misc and the pages named at each rule).

use super::common::{Allow, Region};
use super::common::{FP32R, PLAIN, address, dtype, dtype_field, dtype_name, same_count};
use super::vector::{bf16_input, multiple_of_32, packed_pairs, transposed};
use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::OpcodeDef;
use crate::isa::generation::Engine;
use crate::isa::geometry::dtype_bytes;
use crate::isa::pattern::Addr4;
use crate::isa::tables::{class, e, enums, op};

rules! {
    OP "tensor_reduce_valid_ops" "firmware/kernels/tensor-reduce"
        "the operator must be one this opcode performs";
    SUBDIM "is_valid_subdim" "firmware/kernels/tensor-reduce"
        "the dimension group must be X, XY, XYZ or XYZW";
    ZERO_SUBDIM "is_zero_subdim" "firmware/kernels/pool-compute-misc 3"
        "the dimension group must be UNUSED or X";
    NEGATED "negated_zero" "firmware/kernels/tensor-reduce"
        "this opcode cannot negate its result";
    MASK "mask_enable_zero" "firmware/kernels/stream-transpose"
        "only STREAM_TRANSPOSE takes a partial-tile mask";
    SAME_TYPE "same_in_out_dtype" "firmware/kernels/cast-copy"
        "source and destination must have one type";
    BITVEC_TYPE "bitvec_reduce_dtype" "firmware/kernels/tensor-reduce"
        "source and destination share one of UINT8, UINT16, UINT32 and INT32";
    SHIFT_TYPE "cumulative_shift_dtype" "firmware/kernels/tensorcumulative"
        "a cumulative logical right shift needs INT32";
    REDUCE_ARM "tensor_reduce_engine_arm" "firmware/kernels/tensor-reduce"
        "the vector engine reduces no integer-band operators; POOL takes them on 32- and 64-bit integers in SBUF";
    TRANSPOSE_COUNT "stream_transpose_count" "firmware/kernels/stream-transpose"
        "the destination may not have more elements than the source";
    BF16_START "bf16_start_aligned" "firmware/kernels/intwide-bf16-extremes"
        "packed BF16 reductions start at a multiple of 4 bytes";
    CROSS_OP "cross_lane_valid_op" "firmware/kernels/cross-lane-reduce"
        "arithmetic takes ADD, AVERAGE and MAX, bit-vector takes OR, AND and XOR";
    CROSS_COUNT "cross_lane_dst_count" "firmware/kernels/cross-lane-reduce"
        "a reduction over all axes has one result, over partitions as many as source elements";
    POOL_FUNC "pool_valid_func" "firmware/kernels/avg-max-pool"
        "the pooling function must be one this opcode performs";
    POOL_SCALE "pool_scale_one" "firmware/kernels/avg-max-pool"
        "the scale is 1.0 unless averaging";
    POOL_TYPES "pool_dtypes" "firmware/kernels/avg-max-pool"
        "source and destination must be types the pooling opcode takes";
    PTR_MULTI "ptr_multi_valid" "firmware/kernels/ts-ptrmulti"
        "pointer-multi needs 1 to 8 scalars (1 to 4 for the dual form), dimension group XYZ and an operator of its class";
    PTR_REVERSE "ptr_multi_reverse" "firmware/kernels/ts-ptrmulti"
        "operands are reversed in both stages or none";
    SERIAL "memset_serial_mode" "firmware/kernels/pool-compute-misc 5"
        "the serialisation mode must be Serial";
    SET_VALUE "memset_set_value" "firmware/kernels/pool-compute-misc 5"
        "the value must fit a type that can be filled";
    READ_INDICES "dve_read_indices_shape" "firmware/kernels/dve-read-state"
        "eight indices of UINT16 or UINT32, set value 0";
    BUFFER "pool_buffer_count" "firmware/kernels/pool-compute-misc 6"
        "the pool buffer holds 512 elements per channel";
    PARAM_RAM "param_ram_offset_zero" "firmware/kernels/pool-compute-misc 7"
        "the parameter offset is used by LOAD_PARAMETER_RAM alone";
    PTR_SELECT "imm_ptr_select_zero" "firmware/kernels/pool-compute-misc 7"
        "pointers are selected by LOAD_POOL_ARGUMENT alone";
    MASK_SELECT "mask_select_range" "firmware/kernels/pool-compute-misc 7"
        "each mask entry is below 64 or 255";
    POOL_ARGUMENT "pool_argument_pointer" "firmware/kernels/pool-compute-misc 11"
        "a selected argument is a 4-byte aligned SBUF address";
    NO_IMMEDIATE "engine_nop_no_immediate" "firmware/kernels/pool-compute-misc 7"
        "ENGINE_NOP has no immediates";
    LIBRARY "modify_pool_config_valid" "firmware/kernels/pool-compute-misc 13"
        "the operation is load or unload and a library has at most 65536 bytes";
    SCRATCH "custom_op_scratch" "firmware/kernels/pool-compute-misc 15"
        "scratch address, size and partitions are all zero or, with scratch space, all non-zero";
}

fn op_name(code: u8) -> String {
    enums::ALU_OP.name_of(code.into()).map_or_else(|| format!("{code:#x}"), str::to_string)
}

fn types(inp: u8, out: u8) -> String {
    format!("{} to {}", dtype_name(inp), dtype_name(out))
}

fn bitvec_type(code: u8) -> bool {
    use e::dtype::{INT32, UINT8, UINT16, UINT32};
    matches!(code, UINT8 | UINT16 | UINT32 | INT32)
}

pub(super) fn tensor_reduce(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    let code = cx.byte("op");
    let same = inp == out;
    let pool_arm = def.byte == op::TENSOR_REDUCE_ARITH_OP && cx.engine == Engine::Pool;
    let wide = Allow { wide: pool_arm, ..PLAIN };
    dtype(cx, "in_dtype", inp, wide)?;
    dtype(cx, "out_dtype", out, Allow { fp32r: true, ..wide })?;
    let mask = cx.byte("mask_enable");
    cx.require(&MASK, mask == 0 || def.byte == op::STREAM_TRANSPOSE, || format!("{mask}"))?;
    let name = || op_name(code);
    match def.byte {
        op::COPY | op::CAST | op::RECIPROCAL | op::STREAM_SHUFFLE | op::STREAM_TRANSPOSE => {
            cx.require(&OP, code == e::alu_op::BYPASS, name)?;
            zero_subdim(cx)?;
            negated_zero(cx)?;
            if !matches!(def.byte, op::CAST | op::RECIPROCAL) {
                cx.require(&SAME_TYPE, same, || types(inp, out))?;
            }
            if def.byte == op::STREAM_TRANSPOSE {
                dtype(cx, "out_dtype", out, PLAIN)?;
                transposed(cx, "src")?;
                if let (Some(s), Some(d)) = (cx.count("src"), cx.count("dst")) {
                    cx.require(&TRANSPOSE_COUNT, d <= s, || format!("{s} to {d}"))?;
                }
                return Ok(());
            }
            if def.byte == op::STREAM_SHUFFLE {
                multiple_of_32(cx)?;
            }
            same_count(cx, "src", "dst")
        }
        op::TENSOR_CUMULATIVE_ARITH_OP => {
            use e::alu_op::{DIVIDE, MOD, POW};
            subdim(cx, "op_dim")?;
            negated_zero(cx)?;
            let ok = class::IS_ARITH_OP.contains(code) && ![DIVIDE, POW, MOD].contains(&code);
            cx.require(&OP, ok, name)?;
            same_count(cx, "src", "dst")
        }
        op::TENSOR_CUMULATIVE_BITVEC_OP => {
            subdim(cx, "op_dim")?;
            negated_zero(cx)?;
            cx.require(&OP, class::IS_BITVEC_OP.contains(code), name)?;
            cx.require(&BITVEC_TYPE, same && bitvec_type(inp), || types(inp, out))?;
            let shift = code == e::alu_op::LOGICAL_SHIFT_RIGHT;
            cx.require(&SHIFT_TYPE, !shift || inp == e::dtype::INT32, || dtype_name(inp))?;
            same_count(cx, "src", "dst")
        }
        op::TENSOR_REDUCE_ARITH_OP | op::TRANSPOSE_TENSOR_REDUCE_ARITH_OP => {
            subdim(cx, "op_dim")?;
            let integer = code >= 0xC0;
            let general = class::IS_GENERAL_ARITH_OP.contains(code);
            cx.require(&OP, general || integer, name)?;
            let dve = general && !integer;
            let pool = cx.engine == Engine::Pool
                && integer
                && matches!(dtype_bytes(inp), Some(4 | 8))
                && !class::IS_VALID_FP_DTYPE_DATAPATH.contains(inp)
                && [cx.pattern("src"), cx.pattern("dst")]
                    .iter()
                    .flatten()
                    .filter_map(|p| p.first_addr()?.imm())
                    .all(|a| cx.geometry.in_sbuf(a));
            let engine = cx.engine;
            cx.require(&REDUCE_ARM, dve || pool, || {
                format!("{} on {engine}, {}", op_name(code), dtype_name(inp))
            })?;
            if def.byte == op::TRANSPOSE_TENSOR_REDUCE_ARITH_OP {
                transposed(cx, "src")?;
            }
            Ok(())
        }
        op::TENSOR_REDUCE_BITVEC_OP | op::TRANSPOSE_TENSOR_REDUCE_BITVEC_OP => {
            subdim(cx, "op_dim")?;
            negated_zero(cx)?;
            cx.require(&OP, class::IS_BITVEC_OP.contains(code), name)?;
            cx.require(&BITVEC_TYPE, same && bitvec_type(inp), || types(inp, out))?;
            if def.byte == op::TRANSPOSE_TENSOR_REDUCE_BITVEC_OP {
                transposed(cx, "src")?;
            }
            Ok(())
        }
        _ => {
            // The packed BF16 reductions of v2.
            let pinned = if def.byte == op::TENSOR_REDUCE_ADD_BF16 {
                e::alu_op::ADD
            } else {
                e::alu_op::MAX
            };
            cx.require(&OP, code == pinned, name)?;
            bf16_input(cx, "src", inp)?;
            packed_pairs(cx, "src")?;
            subdim(cx, "op_dim")?;
            let start = cx.pattern("src").and_then(|p| p.first_addr()?.imm());
            let aligned = start.is_none_or(|a| a.is_multiple_of(4));
            cx.require(&BF16_START, aligned, || format!("{start:x?}"))
        }
    }
}

fn subdim(cx: &mut Context<'_>, field: &'static str) -> Result<()> {
    let d = cx.byte(field);
    cx.require(&SUBDIM, (2..=5).contains(&d), || format!("`{field}` = {d}"))
}

fn zero_subdim(cx: &mut Context<'_>) -> Result<()> {
    let d = cx.byte("op_dim");
    cx.require(&ZERO_SUBDIM, d == 0 || d == 2, || format!("{d}"))
}

fn negated_zero(cx: &mut Context<'_>) -> Result<()> {
    let n = cx.byte("negated");
    cx.require(&NEGATED, n == 0, || format!("{n}"))
}

pub(super) fn cross_lane(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    dtype_field(cx, "in_dtype", PLAIN)?;
    dtype_field(cx, "out_dtype", FP32R)?;
    let code = cx.byte("reduce_op");
    let ok =
        if def.byte == op::CROSS_LANE_REDUCE_ARITH { code <= 2 } else { (3..=5).contains(&code) };
    cx.require(&CROSS_OP, ok, || format!("{code}"))?;
    let (Some(s), Some(d)) = (cx.count("src"), cx.count("dst")) else { return Ok(()) };
    let all = cx.byte("reduce_axis") == e::reduce_axis::ALL;
    cx.require(&CROSS_COUNT, d == if all { 1 } else { s }, || format!("{s} to {d}"))
}

pub(super) fn pool(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{BFLOAT16, FP16, FP32, FP32R as R, INT32, INT64, UINT8, UINT16, UINT32};
    use e::pool_type::{AVG_POOL, MAX_POOL, NONE};
    let func = cx.byte("pool_func");
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    subdim(cx, "pool_dim")?;
    let (func_ok, types_ok) = if def.byte == op::POOL {
        let in_ok = matches!(inp, UINT8 | INT32 | FP16 | BFLOAT16 | FP32 | INT64);
        let out_ok = matches!(out, UINT8 | INT32 | FP16 | BFLOAT16 | FP32 | R);
        (func == MAX_POOL || func == AVG_POOL, in_ok && out_ok)
    } else {
        dtype(cx, "in_dtype", inp, PLAIN)?;
        (func == NONE, matches!(out, UINT8 | UINT16 | UINT32))
    };
    cx.require(&POOL_FUNC, func_ok, || format!("{func}"))?;
    cx.require(&POOL_TYPES, types_ok, || types(inp, out))?;
    let scale = cx.f32("pool_scale");
    cx.require(&POOL_SCALE, func == AVG_POOL || scale == 1.0, || format!("{scale}"))
}

pub(super) fn ptr_multi(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let dual = matches!(
        def.byte,
        op::TENSOR_SCALAR_PTR_MULTI_DUAL_ARITH | op::TENSOR_SCALAR_PTR_MULTI_DUAL_BITVEC
    );
    let bitvec = matches!(
        def.byte,
        op::TENSOR_SCALAR_PTR_MULTI_BITVEC | op::TENSOR_SCALAR_PTR_MULTI_DUAL_BITVEC
    );
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    dtype(cx, "in_dtype", inp, PLAIN)?;
    dtype(cx, "out_dtype", out, FP32R)?;
    let code = cx.byte("op");
    let scalars = cx.nums("src").map(|n| n[3]);
    let most = if dual { 4 } else { 8 };
    let class = if bitvec { &class::IS_BITVEC_OP } else { &class::IS_GENERAL_ARITH_OP };
    let ok = scalars.is_none_or(|w| (1..=most).contains(&w))
        && cx.byte("op_dim") == e::tensor_subdim::XYZ
        && class.contains(code);
    cx.require(&PTR_MULTI, ok, || format!("{} with {scalars:?} scalars", op_name(code)))?;
    if bitvec {
        cx.require(&BITVEC_TYPE, inp == out && bitvec_type(inp), || types(inp, out))?;
    }
    let reverse = cx.byte("reverse_operands");
    cx.require(&PTR_REVERSE, dual || matches!(reverse, 0 | 3), || format!("{reverse}"))?;
    same_count(cx, "src", "dst")
}

pub(super) fn fill(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{FP32, INT8, INT32, UINT8, UINT16, UINT32};
    let code = cx.byte("dtype");
    dtype(cx, "dtype", code, FP32R)?;
    let value = cx.get("set_value");
    match def.byte {
        op::MEMSET => {
            let mode = cx.byte("serialization_mode");
            cx.require(&SERIAL, mode == e::reg_serial_mode::SERIAL, || format!("{mode}"))?;
            let ok = match code {
                FP32 | UINT32 | INT32 => true,
                UINT8 | INT8 | 0x0D..=0x0F => value >> 8 == 0,
                0x04..=0x07 => value >> 16 == 0,
                _ => false,
            };
            cx.require(&SET_VALUE, ok, || format!("{value:#x} as {}", dtype_name(code)))
        }
        op::DVE_READ_INDICES => {
            let count = cx.count("dst");
            let ok = count.is_none_or(|n| n == 8) && matches!(code, UINT16 | UINT32) && value == 0;
            cx.require(&READ_INDICES, ok, || {
                format!("{count:?} of {}, value {value:#x}", dtype_name(code))
            })
        }
        _ => Ok(()),
    }
}

pub(super) fn pool_buffer(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    dtype_field(cx, "in_dtype", PLAIN)?;
    let count = cx.count("src");
    cx.require(&BUFFER, count.is_none_or(|n| n <= 512), || format!("{count:?}"))
}

pub(super) fn immediates(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let offset = cx.get("param_ram_offset");
    let select = cx.byte("imm_ptr_select");
    let bytes = cx.bytes("immediate");
    let uses_offset = def.byte == op::LOAD_PARAMETER_RAM;
    cx.require(&PARAM_RAM, uses_offset || offset == 0, || format!("{offset}"))?;
    let selects = def.byte == op::LOAD_POOL_ARGUMENT;
    cx.require(&PTR_SELECT, selects || select == 0, || format!("{select:#x}"))?;
    match def.byte {
        op::LOAD_MASK_SELECT => {
            let bad = bytes.iter().find(|b| **b >= 64 && **b != 255);
            cx.require(&MASK_SELECT, bad.is_none(), || format!("{bad:?}"))
        }
        op::LOAD_POOL_ARGUMENT => {
            for (i, word) in bytes.chunks_exact(4).enumerate() {
                if select & (1 << i) == 0 {
                    continue;
                }
                let a = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                let ok = cx.geometry.in_sbuf(a) && a.is_multiple_of(4);
                cx.require(&POOL_ARGUMENT, ok, || format!("word {i} = {a:#x}"))?;
                if ok {
                    address(cx, "immediate", Addr4::Imm(a), 4, Region::Sbuf, 1)?;
                }
            }
            Ok(())
        }
        op::ENGINE_NOP => {
            let zero = bytes.iter().all(|b| *b == 0);
            cx.require(&NO_IMMEDIATE, zero, String::new)
        }
        _ => Ok(()),
    }
}

pub(super) fn modify_pool_config(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (what, size) = (cx.byte("modify_op"), cx.get("library_size"));
    let ok = what != e::modify_pool_op::INVALID && size <= 65536;
    cx.require(&LIBRARY, ok, || format!("operation {what}, {size} bytes"))
}

pub(super) fn custom_op_header(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let has = cx.byte("has_scratch_space") != 0;
    let parts = [
        cx.get("scratch_space_addr"),
        cx.get("scratch_space_size"),
        cx.get("scratch_space_num_partitions"),
    ];
    let ok = parts.iter().all(|p| (*p != 0) == has);
    cx.require(&SCRATCH, ok, || format!("{parts:x?}"))
}

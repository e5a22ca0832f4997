//! Activation, matrix, sparsity and dequantise opcodes (wiki: firmware/kernels/activate-pwl;
//! firmware/kernels/pe-matmul; firmware/kernels/sparsity-compress-tag).

use super::common::{FP32R, PLAIN, dtype, dtype_field, dtype_name, immediate, same_count};
use super::vector::{float_dtype, multiple_of_32, transposed};
use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::OpcodeDef;
use crate::isa::generation::{Engine, Generation};
use crate::isa::geometry::{dtype_bytes, is_cptc, pe_group};
use crate::isa::tables::{b, class, e, op};

rules! {
    AQ_TYPES "activate_quantize_dtypes" "firmware/kernels/activate-pwl"
        "source FP32 or INT32, destination UINT8, bias FP32, BF16 or FP16";
    AQ_SCALE "activate_quantize_scales" "firmware/kernels/activate-pwl"
        "both quantisation scales are non-zero";
    READ_ACC "read_accumulator_valid" "firmware/kernels/dve-read-state"
        "an accumulator read has one element of a floating type and negates on DVE alone";
    AC2_OPS "activate2_valid_ops" "firmware/kernels/pool-compute-misc 16"
        "the operator pair must be one of the six";
    AC2_REDUCE "activate2_reduce" "firmware/kernels/pool-compute-misc 16"
        "reduce command and operator are both idle or both set";
    PE_IN "pe_in_dtype" "firmware/kernels/pe-matmul"
        "the matrix engine reads FP8, BF16, FP16, FP32 or UINT8";
    PE_FP32 "pe_fp32_mode" "firmware/kernels/pe-matmul"
        "an FP32 mode is given exactly for FP32 inputs";
    PE_OUT "has_valid_mm_out_dtype" "firmware/kernels/pe-matmul"
        "the result type is 0 on v2 and v3 and 0, FP32, BFLOAT16 or, for UINT8 inputs, UINT32 from v4 on";
    PE_PSUM_FLAGS "psum_accumulate_flags" "firmware/kernels/pe-matmul"
        "accumulate flags are 0 to 3";
    PE_ROWS "pe_row_group" "firmware/kernels/pe-matmul"
        "the row group must be in the table and start at the source's partition";
    PE_COLS "pe_col_group" "firmware/kernels/pe-matmul"
        "the column group must be in the table and wide enough for the active columns";
    PE_XBUS "pe_xbus_sel" "firmware/kernels/pe-matmul"
        "the crossbar selector of v2 follows from the column group";
    PE_ZERO "matmul_zero_region" "firmware/kernels/pe-matmul"
        "the zero region is 0 on v2 and v3 and 0 to 3 on v4";
    PE_COUNT "pe_active_range" "firmware/kernels/pe-matmul"
        "rows and columns must be between 1 and the array's size";
    PE_TILE "pe_tile_sel" "firmware/kernels/pe-matmul"
        "tile selectors of v5 are 0 or 1";
    PE_C256 "pe_c256_dst" "firmware/kernels/pe-matmul"
        "256 columns need two elements in the upper destination dimension";
    TAGS "ldtags_valid" "firmware/kernels/sparsity-compress-tag"
        "tags are UINT16 with force bits 0, 4, 8 or 12 and column group 0xF";
    SPARSE "s4d3_mm_perf_opt_dtype" "firmware/kernels/pe-matmul"
        "a sparse matmul uses the whole column group, and performance modes need UINT8 or 1-byte inputs";
    SEED "pe_seed_valid" "firmware/kernels/pe-matmul"
        "seeds have 16 rows and 128 columns in the places the seed manager uses";
    MX_MM "mx_matmul_valid" "compiler/mx-device-bodies 2.5"
        "MX matmuls read MX element types on 128, 64 or 32 rows with matching row group and the whole column group";
    QUANT "quantize_mx_valid" "compiler/mx-device-bodies 2.5"
        "MX quantisation reads FP16 or BF16 and writes FP8_EXP5 or FP8_EXP4";
    LUT "conv_lut_valid" "firmware/kernels/convlutload"
        "a table load uses the whole array: 16 UINT16 entries, or 4 UINT32 words of a compressed table";
    COMPRESS_TYPES "sparsity_compress_dtypes" "firmware/kernels/sparsity-compress-tag"
        "FP8 data goes into UINT16 structures, BF16 and FP16 data into UINT32 ones; separate tags are unsigned integers";
    COMPRESS_DIM "sparsity_compress_group" "firmware/kernels/sparsity-compress-tag"
        "the compressed dimension group needs at least 4 elements";
    COMPRESS_COUNT "reduce_dst_num_elements" "firmware/kernels/sparsity-compress-tag"
        "each group gives four results, and as many tags or, packed, a quarter";
    COMPRESS_TAG "sparsity_tag_destination" "firmware/kernels/sparsity-compress-tag"
        "tags go to SBUF, to the quadrant of the data, as UINT16 when packed";
    DEQUANT "tensor_dequantize_valid" "firmware/kernels/tensor-dequantize"
        "dequantisation takes UINT32 words in the count ratio of its format and group";
}

pub(super) fn activate(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{BFLOAT16, FP16, FP32, INT32, UINT8};
    let (inp, bias) = cx.pair("in_bias_dtype");
    let out = cx.byte("out_dtype");
    if def.byte == op::ACTIVATE_QUANTIZE {
        let ok =
            matches!(inp, FP32 | INT32) && out == UINT8 && matches!(bias, FP32 | BFLOAT16 | FP16);
        cx.require(&AQ_TYPES, ok, || {
            format!("{}, {}, {}", dtype_name(inp), dtype_name(out), dtype_name(bias))
        })?;
        let scales = [cx.f32("quant_scale_value"), cx.f32("dequant_scale_value")];
        cx.require(&AQ_SCALE, scales.iter().all(|s| *s != 0.0), || format!("{scales:?}"))?;
        return same_count(cx, "src", "dst");
    }
    dtype(cx, "in_bias_dtype low", inp, PLAIN)?;
    dtype(cx, "out_dtype", out, FP32R)?;
    let (imm, scale) = (cx.byte("imm_src"), cx.byte("scale_src"));
    immediate(cx, "imm", imm, 4)?;
    immediate(cx, "scale_value", scale, 4)?;
    // The bias byte has its first two codes the other way round.
    let source = match cx.byte("bias_src_n") {
        e::imm_src_n::POINTER_IMMEDIATE => e::imm_src::POINTER_IMMEDIATE,
        e::imm_src_n::INSTRUCTION_IMMEDIATE => e::imm_src::INSTRUCTION_IMMEDIATE,
        other => other,
    };
    immediate(cx, "bias", source, dtype_bytes(bias).unwrap_or(1))?;
    same_count(cx, "src", "dst")
}

pub(super) fn read_accumulator(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let code = cx.byte("dtype");
    let act = def.byte == op::ACTIVATION_READ_ACCUMULATOR;
    let fp8 = matches!(code, 0x0D..=0x0F);
    let float = float_dtype(code) || code == e::dtype::FP32R;
    let count = cx.count("dst");
    let ok = float
        && (!fp8 || !act)
        && (cx.byte("negated") == 0 || !act)
        && cx.get("dst_element_count") == 1
        && count.is_none_or(|n| n == 1);
    cx.require(&READ_ACC, ok, || format!("{count:?} of {}", dtype_name(code)))
}

pub(super) fn activate2(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::alu_op::{ADD, BYPASS, MULT, SUBTRACT};
    dtype_field(cx, "in_dtype", PLAIN)?;
    dtype_field(cx, "out_dtype", FP32R)?;
    dtype_field(cx, "imm_dtype", PLAIN)?;
    let pair = (cx.byte("op0"), cx.byte("op1"));
    let ok = matches!(pair, (MULT, ADD | SUBTRACT | BYPASS) | (ADD | SUBTRACT | BYPASS, BYPASS));
    cx.require(&AC2_OPS, ok, || format!("{:#x} and {:#x}", pair.0, pair.1))?;
    let (cmd, reduce) = (cx.byte("reduce_cmd"), cx.byte("reduce_op"));
    cx.require(&AC2_REDUCE, (cmd == 0) == (reduce == 0), || format!("{cmd} with {reduce:#x}"))?;
    let size = dtype_bytes(cx.byte("imm_dtype")).unwrap_or(4);
    let (i0, i1) = (cx.byte("imm0_src"), cx.byte("imm1_src"));
    immediate(cx, "imm0", i0, size)?;
    immediate(cx, "imm1", i1, size)?;
    if def.byte == op::ACTIVATE2 {
        let relu = cx.byte("relu_param_src");
        immediate(cx, "relu_param", relu, size)?;
    } else {
        same_count(cx, "src", "prev_pass")?;
    }
    same_count(cx, "src", "dst")
}

/// Element types that the plain matrix opcodes read.
fn pe_input(code: u8) -> bool {
    use e::dtype::{BFLOAT16, FP16, FP32, UINT8};
    matches!(code, 0x0D..=0x0F | BFLOAT16 | FP16 | FP32 | UINT8)
}

pub(super) fn matmul(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let g = cx.generation();
    let inp = cx.byte("in_dtype");
    match def.byte {
        op::LDTAGS => {
            let force = cx.byte("force_tag_bits");
            let ok = inp == e::dtype::UINT16
                && matches!(force, 0 | 4 | 8 | 12)
                && cx.byte("col_grp") == 0xF;
            cx.require(&TAGS, ok, || format!("{}, force {force:#x}", dtype_name(inp)))?;
        }
        op::LDWEIGHTS_MX | op::MATMUL_MX => {
            let rows = cx.byte("num_active_rows");
            let group = pe_group(cx.byte("row_grp"));
            let ok = class::DTYPE_MX_ELEMENT.contains(inp)
                && matches!(rows, 128 | 64 | 32)
                && group.is_some_and(|(_, most, _)| most == u32::from(rows))
                && cx.byte("col_grp") == 0xF;
            cx.require(&MX_MM, ok, || format!("{} on {rows} rows", dtype_name(inp)))?;
        }
        _ => plain_matmul(cx, def, inp)?,
    }
    if def.byte == op::MATMUL || def.byte == op::MATMUL_SPARSE || def.byte == op::MATMUL_MX {
        accumulation(cx, inp)?;
    }
    let rows = u32::from(cx.byte("num_active_rows"));
    let cols = match cx.byte("num_active_cols") {
        0 if g == Generation::V5 => 256,
        n => u32::from(n),
    };
    let has_cols = cx.field("num_active_cols").is_some();
    let (max_rows, max_cols) = (cx.geometry.pe_rows, cx.geometry.pe_cols);
    let ok = (1..=max_rows).contains(&rows) && (!has_cols || (1..=max_cols).contains(&cols));
    cx.require(&PE_COUNT, ok, || format!("{rows} rows, {cols} columns"))?;
    if g == Generation::V5 && cx.field("tile_sel").is_some() {
        let sel = cx.get("tile_sel");
        let (row, col) = (b::tile_sel::ROW_SEL.get(sel), b::tile_sel::COL_SEL.get(sel));
        cx.require(&PE_TILE, row < 2 && col < 2, || format!("{sel:#x}"))?;
        if cols == 256
            && let Some(nums) = cx.nums("dst")
        {
            let upper = nums.last().copied();
            cx.require(&PE_C256, upper == Some(2), || format!("{nums:?}"))?;
        }
    }
    groups(cx, rows, cols, has_cols)
}

fn plain_matmul(cx: &mut Context<'_>, def: &'static OpcodeDef, inp: u8) -> Result<()> {
    // MX patterns of v5 bring the MX element types along.
    let mx = cx.generation() == Generation::V5 && class::DTYPE_MX_ELEMENT.contains(inp);
    cx.require(&PE_IN, pe_input(inp) || mx, || dtype_name(inp))?;
    let mode = cx.byte("fp32_mode");
    cx.require(&PE_FP32, (mode != 0) == (inp == e::dtype::FP32), || {
        format!("mode {mode} for {}", dtype_name(inp))
    })?;
    if def.byte == op::MATMUL_SPARSE {
        let ok =
            cx.byte("col_grp") == 0xF && (cx.byte("perf_opt") == 0 || dtype_bytes(inp) == Some(1));
        let perf = cx.byte("perf_opt");
        cx.require(&SPARSE, ok, || format!("mode {perf} for {}", dtype_name(inp)))?;
    }
    Ok(())
}

fn accumulation(cx: &mut Context<'_>, inp: u8) -> Result<()> {
    use e::dtype::{BFLOAT16, FP32, UINT8, UINT32};
    let g = cx.generation();
    let out = cx.byte("out_dtype");
    // A transpose moves elements of the input's width (v3 and later).
    let transpose = cx.byte("transpose_mode") != 0;
    let ok = match g {
        Generation::V2 | Generation::V3 => out == 0 || transpose,
        _ if inp == UINT8 => matches!(out, 0 | UINT32),
        _ => matches!(out, 0 | FP32 | BFLOAT16) || transpose,
    };
    cx.require(&PE_OUT, ok, || format!("{} from {}", dtype_name(out), dtype_name(inp)))?;
    let flags = cx.byte("psum_accumulate_flags");
    cx.require(&PE_PSUM_FLAGS, flags < 4, || format!("{flags}"))?;
    let zero = cx.byte("psum_zero_region");
    let most = if g < Generation::V4 { 0 } else { 3 };
    cx.require(&PE_ZERO, zero <= most, || format!("{zero}"))
}

fn groups(cx: &mut Context<'_>, rows: u32, cols: u32, has_cols: bool) -> Result<()> {
    if cx.field("row_grp").is_none() {
        return Ok(());
    }
    let (row, col) = (cx.byte("row_grp"), cx.byte("col_grp"));
    let start =
        cx.pattern("src").and_then(|p| p.first_addr()?.imm()).map(|a| cx.geometry.sbuf_place(a).0);
    let row_ok = pe_group(row)
        .is_some_and(|(base, most, _)| rows <= most && start.is_none_or(|s| s == base));
    cx.require(&PE_ROWS, row_ok, || format!("{row:#x} for {rows} rows from {start:?}"))?;
    let group = pe_group(col).filter(|g| g.2.is_some());
    let col_ok = group.is_some_and(|(_, most, _)| !has_cols || cols <= most);
    cx.require(&PE_COLS, col_ok, || format!("{col:#x} for {cols} columns"))?;
    if cx.field("xbus_sel").is_some() {
        let sel = cx.byte("xbus_sel");
        let ok = group.is_none_or(|g| g.2 == Some(sel));
        cx.require(&PE_XBUS, ok, || format!("{sel:#x} for group {col:#x}"))?;
    }
    Ok(())
}

pub(super) fn pe_seed(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let mode = cx.byte("mode");
    // The gate of the opcode names v4; v5 keeps the byte (wiki: firmware/kernels/pe-matmul).
    let size_ok = cx.byte("num_active_rows") == 16 && cx.byte("num_active_cols") == 128;
    let place = match mode {
        e::pe_seed_mode::SAVE_SEED => {
            let nums = cx.nums("dst_seed");
            let steps = cx.steps("dst_seed");
            let start = cx.pattern("dst_seed").and_then(|p| p.first_addr()?.imm());
            nums.as_deref().is_none_or(|n| n == [2, 8])
                && steps.as_deref().is_none_or(|s| s == [1, 512])
                && start.is_none_or(|a| a == cx.geometry.psum_base)
        }
        _ => {
            let start = cx.pattern("src_seed").and_then(|p| p.first_addr()?.imm());
            start.is_none_or(|a| cx.geometry.in_sbuf(a) && cx.geometry.sbuf_place(a).0 == 0)
        }
    };
    cx.require(&SEED, size_ok && place, || format!("mode {mode}"))
}

pub(super) fn quantize_mx(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{BFLOAT16, FP8_EXP4, FP8_EXP5, FP16};
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    let ok = matches!(inp, FP16 | BFLOAT16) && matches!(out, FP8_EXP5 | FP8_EXP4);
    cx.require(&QUANT, ok, || format!("{} to {}", dtype_name(inp), dtype_name(out)))?;
    multiple_of_32(cx)
}

pub(super) fn conv_lut(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{FP32, INVALID, UINT16, UINT32};
    let (inp, table) = (cx.byte("in_dtype"), cx.byte("lut_dtype"));
    let legacy = matches!(table, INVALID | FP32);
    let count = cx.count("src");
    let whole = cx.byte("num_active_rows") == 128
        && cx.byte("num_active_cols") == 128
        && cx.byte("row_grp") == 0xF
        && cx.byte("col_grp") == 0xF;
    let entries = if legacy {
        inp == UINT16
            && count.is_none_or(|n| n == 16)
            && cx.get("multiplicative_const") == 0
            && cx.byte("block_size") == 0
            && cx.generation() >= Generation::V4
    } else {
        is_cptc(table) && inp == UINT32 && count.is_none_or(|n| n == 4)
    };
    // POOL never runs the legacy leg, and the PE runs no other.
    let engine = (cx.engine == Engine::Pe) == legacy;
    cx.require(&LUT, whole && entries && engine, || {
        format!("table of {}, {count:?} of {}", dtype_name(table), dtype_name(inp))
    })
}

pub(super) fn sparsity(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::{BFLOAT16, FP16, UINT8, UINT16, UINT32};
    let tagged = def.byte == op::SPARSITY_COMPRESS_TAG;
    dtype_field(cx, "in_dtype", PLAIN)?;
    let data = cx.byte("out_data_dtype");
    let packed = cx.byte("packed_tags") != 0;
    let out = cx.byte(if tagged { "out_tag_dtype" } else { "out_struct_dtype" });
    let ok = match data {
        _ if tagged => matches!(out, UINT8 | UINT16 | UINT32),
        0x0D..=0x0F => out == UINT16,
        BFLOAT16 | FP16 => out == UINT32,
        _ => false,
    };
    cx.require(&COMPRESS_TYPES, ok, || format!("{} in {}", dtype_name(data), dtype_name(out)))?;
    let result = if tagged { "data_dst" } else { "dst" };
    if let Some(nums) = cx.nums("src") {
        let most = if tagged { 2 } else { nums.len() };
        let dims = usize::from(cx.byte("op_dim").saturating_sub(1));
        let (inner, outer) = nums.split_at(dims.min(nums.len()));
        let product = |n: &[u16]| n.iter().map(|n| u64::from(*n)).product::<u64>();
        let (group, groups) = (product(inner), product(outer));
        let ok = (1..=most).contains(&dims) && group >= 4;
        cx.require(&COMPRESS_DIM, ok, || format!("{group} of {nums:?}"))?;
        let count = cx.count(result);
        cx.require(&COMPRESS_COUNT, count.is_none_or(|n| n == 4 * groups), || {
            format!("{count:?} results for {groups} groups")
        })?;
    }
    if cx.byte("transpose_src") != 0 {
        transposed(cx, "src")?;
    }
    if !tagged {
        return Ok(());
    }
    dtype(cx, "out_data_dtype", data, FP32R)?;
    if let (Some(d), Some(t)) = (cx.count("data_dst"), cx.count("tag_dst")) {
        let ok = if packed { 4 * t == d } else { t == d };
        cx.require(&COMPRESS_COUNT, ok, || format!("{t} tags for {d} results"))?;
    }
    let place =
        |cx: &Context<'_>, n: &'static str| cx.pattern(n).and_then(|p| p.first_addr()?.imm());
    let same = match (place(cx, "data_dst"), place(cx, "tag_dst")) {
        (Some(d), Some(t)) => {
            cx.geometry.in_sbuf(t) && cx.geometry.sbuf_quadrant(d) == cx.geometry.sbuf_quadrant(t)
        }
        _ => true,
    };
    cx.require(&COMPRESS_TAG, same && (!packed || out == UINT16), || {
        format!("tags of {}", dtype_name(out))
    })
}

pub(super) fn dequantize(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use e::dtype::UINT32;
    let types = cx.byte("in_dtype") == UINT32 && cx.byte("out_dtype") == UINT32;
    let (format, group) = (cx.byte("dequant_fmt"), cx.byte("group_size"));
    let counts = cx.count("src").zip(cx.count("dst"));
    let ratio = |s: u64, d: u64| match (format, group) {
        (1..=3, 0) => d == 2 * s,
        (1..=3, 8) => 8 * s == 5 * d && s.is_multiple_of(5),
        (4, 0) => 4 * s == 3 * d && s.is_multiple_of(3),
        _ => false,
    };
    let known = matches!((format, group), (1..=3, 0 | 8) | (4, 0));
    let ok = types && known && counts.is_none_or(|(s, d)| ratio(s, d));
    cx.require(&DEQUANT, ok, || format!("format {format}, group {group}, counts {counts:?}"))
}

//! Tensor-tensor and tensor-scalar opcodes (wiki: firmware/kernels/tensor-tensor;
//! firmware/kernels/tensor-scalar and the pages named at each rule).

use super::common::{Allow, FP32R, PLAIN, dtype, dtype_field, dtype_name, immediate, same_count};
use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::{FieldType, OpcodeDef};
use crate::isa::generation::{Engine, Generation};
use crate::isa::geometry::dtype_bytes;
use crate::isa::pattern::Addr4;
use crate::isa::tables::{class, e, enums, op};

rules! {
    TT_OPS "tensor_tensor_valid_ops" "firmware/kernels/tensor-tensor"
        "the operator must be one this opcode performs";
    TT_WIDE "tensor_tensor_64bit_types" "firmware/kernels/tensor-tensor"
        "64-bit operands need an integer operator of their signedness and three 64-bit types";
    TT_DVE "is_valid_tensor_tensor_arith_dve" "firmware/kernels/tensor-tensor-64bit 2.2"
        "the vector engine has no POW, integer operators or 64-bit elements here; POOL has";
    TT_SIGNS "s3s3d3_tt_valid_int_signness" "firmware/kernels/tensor-tensor-64bit"
        "an integer operator needs three types of its signedness";
    TT_BITVEC_TYPES "tensor_tensor_bitvec_dtypes" "firmware/kernels/tensor-tensor"
        "bit-vector operands share one integer type; a 64-bit shift takes a UINT32 count";
    PARTITIONS "tt_valid_partitions" "firmware/kernels/tensor-tensor"
        "two sources lie one in PSUM and one in SBUF, or both in one SBUF quadrant";
    PREDICATE "predicate_int_dtype" "firmware/kernels/pool-compute-misc 9"
        "the predicate must have an integer type of at most 32 bits";
    PREDICATED_TYPES "predicated_same_dtype" "firmware/kernels/pool-compute-misc 9"
        "the copied source must have the destination's type";
    BF16_TYPES "bf16_input_dtype" "firmware/kernels/intwide-bf16-extremes"
        "packed BF16 opcodes read BFLOAT16";
    BF16_PATTERN "bf16_packed_pattern" "firmware/kernels/intwide-bf16-extremes"
        "packed BF16 sources need an even inner count, inner step 1 and even outer steps";
    EXT_TTA "extended_tta_valid" "firmware/kernels/ext-tensor-tensor-arith"
        "extended tensor-tensor takes ADD or MULT, types of at most 32 bits, and both completion bits";
    TS_OPS "tensor_scalar_valid_ops" "firmware/kernels/tensor-scalar"
        "the operator pair must be one this opcode performs";
    TS_BYPASS "tensor_scalar_bypass_order" "firmware/kernels/tensor-scalar"
        "a bypassed first stage needs a bypassed second stage";
    TS_ACC "tensor_scalar_accumulator_cmd" "firmware/kernels/tensor-scalar"
        "the accumulator command must be one this opcode takes";
    TS_BITVEC_TYPES "tensor_scalar_bitvec_dtypes" "firmware/kernels/tensor-scalar"
        "bit-vector source and destination share one integer type of at most 32 bits";
    TS_SHIFT "alu_shift_check" "firmware/kernels/tensor-scalar"
        "an arithmetic right shift, or a left shift followed by a right one, needs a 4-byte type";
    TS_PTR "tensor_scalar_ptr_source" "firmware/kernels/tensor-scalar"
        "the pointer forms have source bytes 0 and aligned pointers in both immediates";
    TS_INLINE "bitvec_immediate_width" "firmware/kernels/tensor-scalar"
        "an inline bit-vector immediate has no bits beyond the input's width";
    TS_REVERSE "cache_reduce_reverse_none" "firmware/kernels/ts-cache-reduce"
        "operands cannot be reversed here";
    TS_IMM1 "cache_reduce_imm1_zero" "firmware/kernels/ts-cache-reduce"
        "the second immediate is inline 0 unless the accumulator is loaded";
    TS_CACHE_TYPE "cache_reduce_in_dtype" "firmware/kernels/ts-cache-reduce"
        "the source must be floating or an integer of 1 or 2 bytes";
    EXP_PATTERN "exponential_pattern" "firmware/kernels/exponential"
        "an accumulating exponential needs pairs: a 4-byte type, inner step other than 1, or an even inner count, and even outer counts";
    TRANSPOSE_SRC "has_transpose_src_element_count" "firmware/kernels/pool-compute-misc 12"
        "a transposed source has a multiple of 32 elements per channel";
    MULT32 "has_multiple_32_channels" "firmware/kernels/pool-compute-misc 12"
        "the number of active channels must be 32, 64, 96 or 128";
    STT_ACC "scalar_tensor_tensor_accumulator_cmd" "firmware/kernels/scalar-tensor-tensor"
        "the accumulator command must be one this opcode takes";
    STT_TYPES "scalar_tensor_tensor_dtypes" "firmware/kernels/scalar-tensor-tensor"
        "the operand types must be those this opcode takes";
    STT_IMM_TYPE "scalar_tensor_tensor_imm_dtype" "firmware/kernels/scalar-tensor-tensor"
        "an inline arithmetic immediate is FP32";
    ADDR_SHAPE "tensor_scalar_addr_case" "firmware/kernels/pool-compute-misc 10"
        "types and operators must form one of the five address computations";
    SELECT_PRED "select_predicate" "firmware/kernels/ts-select"
        "the predicate is an integer as wide as the data, inline 0 or 1";
    PRED_SCALAR "copy_predicated_scalar_dtypes" "firmware/kernels/copypredicatedscalar"
        "the predicate is an integer and source and destination have one type without FP32R";
    RANGE_SELECT "range_select_valid" "firmware/kernels/rangeselect"
        "range select takes floating types, comparisons, fill value -FLT_MAX, MAX and a base with base + count up to 2^24";
    FILL_REG "affine_select_fill_reg" "firmware/kernels/affineselect"
        "the fill register must be readable";
    WIDE_OPS "int_wide_valid_ops" "firmware/kernels/intwide-bf16-extremes"
        "the operator must be one of the eight wide integer operators";
    WIDE_TYPES "int_wide_dtypes" "firmware/kernels/intwide-bf16-extremes"
        "operand types must have the signedness and width the wide operator needs";
    WIDE_SHIFT "int_wide_shift_count" "firmware/kernels/intwide-bf16-extremes"
        "an inline shift count is below 32";
    V1_DIVIDE "v1_divide_only_in_reciprocal" "generations/cross-gen-opcode-diff 5.3"
        "DIVIDE is allowed in RECIPROCAL alone";
}

fn op_name(code: u8) -> String {
    enums::ALU_OP.name_of(code.into()).map_or_else(|| format!("{code:#x}"), str::to_string)
}

fn is_int(code: u8) -> bool {
    class::IS_VALID_INT_DTYPE_DATAPATH.contains(code)
}

fn is_wide(code: u8) -> bool {
    class::IS_VALID_64B_INT.contains(code)
}

fn is_float(code: u8) -> bool {
    class::IS_VALID_FP_DTYPE_DATAPATH.contains(code)
}

fn is_signed(code: u8) -> bool {
    matches!(code, e::dtype::INT8 | e::dtype::INT16 | e::dtype::INT32 | e::dtype::INT64)
}

/// Rules of V1 words. The header predicates of V1 are not published; what is known of its types
/// and of DIVIDE is checked.
pub(super) fn check_v1(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let Some(layout) = cx.layout else { return Ok(()) };
    for field in layout.payload() {
        match field.ty_in(cx.form()) {
            FieldType::Dtype => dtype_field(cx, field.name, PLAIN)?,
            FieldType::DtypePair => {
                let (lo, hi) = cx.pair(field.name);
                dtype(cx, field.name, lo, PLAIN)?;
                // The bias of an activation need not be typed, as on later generations.
                if hi != e::dtype::INVALID || !field.name.contains("bias") {
                    dtype(cx, field.name, hi, PLAIN)?;
                }
            }
            FieldType::Enum(d) if d.name == "ALU_OP" => {
                let divide = cx.byte(field.name) == e::alu_op::DIVIDE;
                let ok = !divide || def.byte == op::RECIPROCAL;
                cx.require(&V1_DIVIDE, ok, || format!("`{}`", field.name))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// `tt_valid_partitions`.
fn partitions(cx: &mut Context<'_>, a: &'static str, b: &'static str) -> Result<()> {
    let address = |cx: &Context<'_>, n: &'static str| cx.pattern(n).and_then(|p| p.first_addr());
    let (Some(x), Some(y)) =
        (address(cx, a).and_then(Addr4::imm), address(cx, b).and_then(Addr4::imm))
    else {
        return Ok(());
    };
    let g = cx.geometry;
    let psum = |v| cx.generation() != Generation::V5 && g.in_psum(v);
    let ok = match (psum(x), psum(y)) {
        (true, true) => false,
        (false, false) => g.sbuf_quadrant(x) == g.sbuf_quadrant(y),
        _ => true,
    };
    cx.require(&PARTITIONS, ok, || format!("`{a}` at {x:#x}, `{b}` at {y:#x}"))
}

/// Even inner count, inner step 1, even outer steps.
pub(super) fn packed_pairs(cx: &mut Context<'_>, name: &'static str) -> Result<()> {
    let (Some(nums), Some(steps)) = (cx.nums(name), cx.steps(name)) else { return Ok(()) };
    let ok = nums[0] % 2 == 0 && steps[0] == 1 && steps[1..].iter().all(|s| s % 2 == 0);
    cx.require(&BF16_PATTERN, ok, || format!("`{name}` steps {steps:?}, counts {nums:?}"))
}

/// Source types of the packed BF16 opcodes.
pub(super) fn bf16_input(cx: &mut Context<'_>, what: &str, code: u8) -> Result<()> {
    cx.require(&BF16_TYPES, code == e::dtype::BFLOAT16, || {
        format!("`{what}` is {}", dtype_name(code))
    })
}

pub(super) fn tensor_tensor(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let (s0, s1) = cx.pair("in0_in1_dtype");
    let out = cx.byte("out_dtype");
    let code = cx.byte("op");
    let ok = match def.byte {
        op::TENSOR_TENSOR_ARITH_OP => {
            class::IS_GENERAL_ARITH_OP.contains(code)
                || code == e::alu_op::POW
                || class::IS_VALID_INT_ALUOP.contains(code)
        }
        op::TENSOR_TENSOR_BITVEC_OP => class::IS_GENERAL_BITVEC_OP.contains(code),
        op::TENSOR_TENSOR_ADD_BF16 => code == e::alu_op::ADD,
        op::TENSOR_TENSOR_MULT_BF16 => code == e::alu_op::MULT,
        op::TENSOR_TENSOR_SUB_BF16 => code == e::alu_op::SUBTRACT,
        _ => code == e::alu_op::BYPASS,
    };
    cx.require(&TT_OPS, ok, || op_name(code))?;
    // v2 has no path for 64-bit elements (wiki: firmware/kernels/tensor-tensor-64bit).
    let wide = matches!(def.byte, op::TENSOR_TENSOR_ARITH_OP | op::TENSOR_TENSOR_BITVEC_OP)
        && cx.generation() != Generation::V2;
    let source = Allow { wide, ..PLAIN };
    dtype(cx, "in0_in1_dtype low", s0, source)?;
    dtype(cx, "in0_in1_dtype high", s1, source)?;
    dtype(cx, "out_dtype", out, Allow { wide, ..FP32R })?;
    if wide && cx.engine == Engine::Dve {
        let arith = def.byte == op::TENSOR_TENSOR_ARITH_OP;
        let special = code == e::alu_op::POW || class::IS_VALID_INT_ALUOP.contains(code);
        let pool_only = arith && special || [s0, s1, out].into_iter().any(is_wide);
        cx.require(&TT_DVE, !pool_only, || format!("{} on {}", op_name(code), dtype_name(out)))?;
    }
    match def.byte {
        op::TENSOR_TENSOR_ARITH_OP => {
            let types = [s0, s1, out];
            if types.iter().any(|t| is_wide(*t)) {
                let same = types.iter().all(|t| *t == out);
                let class = if is_signed(out) {
                    &class::IS_SIGNED_ALU_OP
                } else {
                    &class::IS_UNSIGNED_ALU_OP
                };
                let ok = same && class.contains(code);
                cx.require(&TT_WIDE, ok, || format!("{} on {types:?}", op_name(code)))?;
            }
            if class::IS_VALID_INT_ALUOP.contains(code) {
                let unsigned = |t: &u8| !is_signed(*t) && (is_int(*t) || is_wide(*t));
                let ok = class::IS_SIGNED_ALU_OP.contains(code)
                    && types.iter().all(|t| is_signed(*t))
                    || class::IS_UNSIGNED_ALU_OP.contains(code) && types.iter().all(unsigned);
                cx.require(&TT_SIGNS, ok, || {
                    format!("{} on {:?}", op_name(code), types.map(dtype_name))
                })?;
            }
        }
        op::TENSOR_TENSOR_BITVEC_OP => {
            let shift = class::IS_SHIFT_OP.contains(code);
            let count_ok = s1 == s0 || shift && is_wide(s0) && s1 == e::dtype::UINT32;
            let ok = s0 == out && count_ok && (is_int(out) || is_wide(out));
            cx.require(&TT_BITVEC_TYPES, ok, || {
                format!("{}, {}, {}", dtype_name(s0), dtype_name(s1), dtype_name(out))
            })?;
        }
        op::COPY_PREDICATED | op::CAST_PREDICATED => {
            cx.require(&PREDICATE, is_int(s0), || dtype_name(s0))?;
            let same = s1 == out || def.byte == op::CAST_PREDICATED;
            cx.require(&PREDICATED_TYPES, same, || {
                format!("{} and {}", dtype_name(s1), dtype_name(out))
            })?;
        }
        op::TENSOR_TENSOR_ADD_BF16 | op::TENSOR_TENSOR_MULT_BF16 | op::TENSOR_TENSOR_SUB_BF16 => {
            for (name, code) in [("src0", s0), ("src1", s1)] {
                bf16_input(cx, name, code)?;
                packed_pairs(cx, name)?;
            }
        }
        _ => {}
    }
    same_count(cx, "src0", "src1")?;
    same_count(cx, "src0", "dst")?;
    partitions(cx, "src0", "src1")
}

pub(super) fn extended_tta(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let code = cx.byte("op");
    let info = cx.byte("completion_info");
    let (s0, s1) = cx.pair("in0_in1_dtype");
    let out = cx.byte("out_dtype");
    for (what, code) in [("src0", s0), ("src1", s1), ("dst", out)] {
        dtype(cx, what, code, FP32R)?;
    }
    let ok = matches!(code, e::alu_op::ADD | e::alu_op::MULT) && info & 0b101 == 0b101;
    cx.require(&EXT_TTA, ok, || format!("{}, completion {info:#x}", op_name(code)))?;
    same_count(cx, "src0", "src1")?;
    same_count(cx, "src0", "dst")
}

/// Checks a transposed source and its channels.
pub(super) fn transposed(cx: &mut Context<'_>, name: &'static str) -> Result<()> {
    if let Some(n) = cx.count(name) {
        cx.require(&TRANSPOSE_SRC, n % 32 == 0, || format!("`{name}` has {n}"))?;
    }
    multiple_of_32(cx)
}

/// Channels in {32, 64, 96, 128}.
pub(super) fn multiple_of_32(cx: &mut Context<'_>) -> Result<()> {
    let n = cx.byte("num_active_channels");
    cx.require(&MULT32, n > 0 && n.is_multiple_of(32), || format!("{n}"))
}

pub(super) fn tensor_scalar(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::accum_cmd::{ACCUMULATE, IDLE, LOAD_ACCUMULATE, ZERO_ACCUMULATE};
    use e::alu_op::{BYPASS, DIVIDE, MOD, POW, RSQRT};
    let (op0, op1) = (cx.byte("op0"), cx.byte("op1"));
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    let (src0, src1) = (cx.byte("imm0_src"), cx.byte("imm1_src"));
    let acc = cx.byte("accumulator_cmd");
    let pair = || format!("{} and {}", op_name(op0), op_name(op1));
    dtype(cx, "in_dtype", inp, PLAIN)?;
    dtype(cx, "out_dtype", out, FP32R)?;
    let two_stage = matches!(
        def.byte,
        op::TENSOR_SCALAR_ARITH_OP
            | op::TENSOR_SCALAR_BITVEC_OP
            | op::TRANSPOSE_TENSOR_SCALAR_ARITH_OP
    );
    if two_stage {
        let named = ![DIVIDE, POW, MOD].iter().any(|o| *o == op0 || *o == op1);
        cx.require(&TS_OPS, named, pair)?;
        cx.require(&TS_BYPASS, op0 != BYPASS || op1 == BYPASS, pair)?;
        cx.require(&TS_ACC, acc == IDLE, || format!("{acc}"))?;
    }
    match def.byte {
        op::TENSOR_SCALAR_ARITH_OP | op::TRANSPOSE_TENSOR_SCALAR_ARITH_OP => {
            let arith = |o| class::IS_GENERAL_ARITH_OP.contains(o);
            let rsqrt = (op0, op1) == (RSQRT, BYPASS)
                && cx.get("imm0") == 0
                && cx.get("imm1") == 0
                && (src0, src1) == (0, 0);
            let int_v5 =
                def.byte == op::TENSOR_SCALAR_ARITH_OP && cx.generation() == Generation::V5;
            let dve = |o| class::IS_VALID_INT_ALUOP_DVE.contains(o);
            let ok = arith(op0) && arith(op1) || rsqrt || int_v5 && dve(op0) && dve(op1);
            cx.require(&TS_OPS, ok, pair)?;
            immediate(cx, "imm0", src0, 4)?;
            immediate(cx, "imm1", src1, 4)?;
            if def.byte == op::TRANSPOSE_TENSOR_SCALAR_ARITH_OP {
                transposed(cx, "src")?;
            }
            same_count(cx, "src", "dst")
        }
        op::TENSOR_SCALAR_BITVEC_OP => {
            bitvec_scalar(cx, op0, op1, inp, out)?;
            let size = dtype_bytes(inp).unwrap_or(1);
            for (name, source) in [("imm0", src0), ("imm1", src1)] {
                immediate(cx, name, source, size)?;
                if source == e::imm_src::INSTRUCTION_IMMEDIATE {
                    inline_width(cx, name, size)?;
                }
            }
            same_count(cx, "src", "dst")
        }
        op::TENSOR_SCALAR_PTR_ARITH_OP | op::TENSOR_SCALAR_PTR_BITVEC_OP => {
            let arith = def.byte == op::TENSOR_SCALAR_PTR_ARITH_OP;
            let class = if arith { &class::IS_GENERAL_ARITH_OP } else { &class::IS_BITVEC_OP };
            cx.require(&TS_OPS, class.contains(op0) && class.contains(op1), pair)?;
            let size = if arith { 4 } else { u64::from(dtype_bytes(inp).unwrap_or(1)) };
            let aligned =
                cx.get("imm0").is_multiple_of(size) && cx.get("imm1").is_multiple_of(size);
            cx.require(&TS_PTR, aligned && (src0, src1) == (0, 0), || {
                format!("sources {src0} and {src1}")
            })?;
            same_count(cx, "src", "dst")
        }
        op::EXPONENTIAL => {
            cx.require(&TS_OPS, op0 == BYPASS && op1 == BYPASS, pair)?;
            reverse_none(cx)?;
            let known = matches!(acc, IDLE | ACCUMULATE | ZERO_ACCUMULATE | LOAD_ACCUMULATE);
            cx.require(&TS_ACC, known, || format!("{acc}"))?;
            if acc != LOAD_ACCUMULATE {
                imm1_zero(cx, src1)?;
            }
            immediate(cx, "imm0", src0, 4)?;
            if acc != IDLE
                && let (Some(nums), Some(steps)) = (cx.nums("src"), cx.steps("src"))
            {
                let inner =
                    dtype_bytes(inp) == Some(4) || steps[0] != 1 || nums[0].is_multiple_of(2);
                // The body of the check on outer dimensions is not printed (OPEN: a dimension of
                // one element is not used and stays legal).
                let outer = nums[1..].iter().all(|n| *n == 1 || n.is_multiple_of(2));
                cx.require(&EXP_PATTERN, inner && outer, || format!("counts {nums:?}"))?;
            }
            same_count(cx, "src", "dst")
        }
        _ => {
            // TENSOR_SCALAR_CACHE_REDUCE and TENSOR_SCALAR_CACHE_CUMULATIVE.
            let known = matches!(acc, ACCUMULATE | ZERO_ACCUMULATE | LOAD_ACCUMULATE);
            cx.require(&TS_ACC, known, || format!("{acc}"))?;
            let ok = class::IS_GENERAL_ARITH_OP.contains(op0)
                && class::IS_VALID_CACHE_REDUCE_OP.contains(op1);
            cx.require(&TS_OPS, ok, pair)?;
            reverse_none(cx)?;
            if acc != LOAD_ACCUMULATE {
                imm1_zero(cx, src1)?;
            }
            let small_int = is_int(inp) && dtype_bytes(inp) != Some(4);
            cx.require(&TS_CACHE_TYPE, is_float(inp) || small_int, || dtype_name(inp))?;
            immediate(cx, "imm0", src0, 4)?;
            immediate(cx, "imm1", src1, 4)?;
            same_count(cx, "src", "dst")
        }
    }
}

fn reverse_none(cx: &mut Context<'_>) -> Result<()> {
    let reverse = cx.byte("reverse_operands");
    cx.require(&TS_REVERSE, reverse == 0, || format!("{reverse}"))
}

fn imm1_zero(cx: &mut Context<'_>, source: u8) -> Result<()> {
    let word = cx.get("imm1");
    cx.require(&TS_IMM1, source == 0 && word == 0, || format!("source {source}, {word:#x}"))
}

fn inline_width(cx: &mut Context<'_>, name: &'static str, size: u32) -> Result<()> {
    let word = cx.get(name);
    let ok = size >= 4 || word >> (8 * size) == 0;
    cx.require(&TS_INLINE, ok, || format!("`{name}` = {word:#x}"))
}

fn bitvec_scalar(cx: &mut Context<'_>, op0: u8, op1: u8, inp: u8, out: u8) -> Result<()> {
    use e::alu_op::{ARITH_SHIFT_LEFT, ARITH_SHIFT_RIGHT, LOGICAL_SHIFT_LEFT, LOGICAL_SHIFT_RIGHT};
    let ok = class::IS_BITVEC_OP.contains(op0) && class::IS_BITVEC_OP.contains(op1);
    cx.require(&TS_OPS, ok, || format!("{} and {}", op_name(op0), op_name(op1)))?;
    cx.require(&TS_BITVEC_TYPES, inp == out && is_int(inp), || {
        format!("{} and {}", dtype_name(inp), dtype_name(out))
    })?;
    let left = |o| matches!(o, ARITH_SHIFT_LEFT | LOGICAL_SHIFT_LEFT);
    let right = |o| matches!(o, ARITH_SHIFT_RIGHT | LOGICAL_SHIFT_RIGHT);
    let risky = left(op0) && right(op1) || op0 == ARITH_SHIFT_RIGHT || op1 == ARITH_SHIFT_RIGHT;
    cx.require(&TS_SHIFT, !risky || dtype_bytes(inp) == Some(4), || dtype_name(inp))
}

pub(super) fn scalar_tensor_tensor(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    let (s0, s1) = cx.pair("in0_in1_dtype");
    let out = cx.byte("out_dtype");
    let (op0, op1) = (cx.byte("op0"), cx.byte("op1"));
    let acc = cx.byte("accumulator_cmd");
    let source = cx.byte("imm0_src");
    let imm_type = cx.byte("imm0_dtype");
    let pair = || format!("{} and {}", op_name(op0), op_name(op1));
    let arith = |o| class::IS_GENERAL_ARITH_OP.contains(o);
    let (ops, accs): (bool, &[u8]) = match def.byte {
        op::SCALAR_TENSOR_TENSOR_BITVEC => {
            let bits = |o| class::IS_GENERAL_BITVEC_OP.contains(o);
            (bits(op0) && bits(op1), &[0])
        }
        op::TENSOR_TENSOR_SCAN_ARITH => (arith(op0) && arith(op1), &[0]),
        op::SELECT_REDUCE => (op0 == e::alu_op::BYPASS && op1 == e::alu_op::MAX, &[0, 2, 3]),
        _ => (arith(op0) && arith(op1), &[0, 2, 3]),
    };
    cx.require(&TS_OPS, ops, pair)?;
    cx.require(&STT_ACC, accs.contains(&acc), || format!("{acc}"))?;
    dtype(cx, "in0_in1_dtype low", s0, PLAIN)?;
    dtype(cx, "in0_in1_dtype high", s1, PLAIN)?;
    dtype(cx, "out_dtype", out, FP32R)?;
    match def.byte {
        op::SCALAR_TENSOR_TENSOR_BITVEC => {
            let ok = is_int(s0) && s0 == s1 && s0 == out && s0 == imm_type;
            cx.require(&STT_TYPES, ok, || dtype_name(s0))?;
        }
        op::SELECT_REDUCE => {
            let ok = is_int(s0) && !class::IS_VALID_32B_INT.contains(s1);
            cx.require(&STT_TYPES, ok, || format!("{}, {}", dtype_name(s0), dtype_name(s1)))?;
            let reverse = cx.byte("reverse_operands");
            cx.require(&TS_REVERSE, reverse < 2, || format!("{reverse}"))?;
        }
        _ => {
            let inline = source == e::imm_src::INSTRUCTION_IMMEDIATE;
            cx.require(&STT_IMM_TYPE, !inline || imm_type == e::dtype::FP32, || {
                dtype_name(imm_type)
            })?;
        }
    }
    immediate(cx, "imm0", source, dtype_bytes(imm_type).unwrap_or(4))?;
    same_count(cx, "src0", "src1")?;
    same_count(cx, "src0", "dst")?;
    let tested = [op::SCALAR_TENSOR_TENSOR_ARITH, op::SCALAR_TENSOR_TENSOR_BITVEC];
    if tested.contains(&def.byte) { partitions(cx, "src0", "src1") } else { Ok(()) }
}

pub(super) fn tensor_scalar_addr(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use e::alu_op::{ADD, BYPASS, IS_LT, MULT, SUBTRACT};
    use e::dtype::{INT32, UINT32, UINT64};
    let (inp, out) = cx.pair("in_out_dtype");
    let (t0, t1) = cx.pair("imm0_imm1_dtype");
    let ops = (cx.byte("op0"), cx.byte("op1"));
    let inline1 = cx.byte("imm1_is_ptr") == e::imm_src::INSTRUCTION_IMMEDIATE;
    let small = |t| is_int(t);
    // Cases A to E of the page. Where a case names one immediate type it is that of the first.
    let ok = match ops {
        (MULT, ADD) if inp == INT32 && out == UINT64 => t0 == INT32 && t1 == UINT64,
        (ADD, BYPASS) => inp == INT32 && out == UINT64 && t0 == UINT64 && inline1,
        (MULT, BYPASS) => inp == INT32 && out == INT32 && t0 == INT32,
        (MULT, ADD) => inp == INT32 && out == INT32 && t0 == INT32 && t1 == INT32,
        (SUBTRACT, IS_LT) if inp == UINT64 => small(out) && t0 == UINT64 && t1 == UINT64,
        (SUBTRACT, IS_LT) => inp == UINT32 && small(out) && t0 == UINT32 && t1 == UINT32,
        _ => false,
    };
    cx.require(&ADDR_SHAPE, ok, || {
        format!(
            "{} and {}, {} to {}",
            op_name(ops.0),
            op_name(ops.1),
            dtype_name(inp),
            dtype_name(out)
        )
    })?;
    same_count(cx, "src", "dst")
}

pub(super) fn select(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (data, pred) = (cx.byte("dtype"), cx.byte("pred_imm_dtype"));
    dtype(cx, "dtype", data, FP32R)?;
    let inline = cx.byte("pred_imm_src") == e::imm_src::INSTRUCTION_IMMEDIATE;
    let value = cx.get("pred_imm");
    let ok = is_int(pred) && dtype_bytes(pred) == dtype_bytes(data) && (!inline || value < 2);
    cx.require(&SELECT_PRED, ok, || format!("{} = {value:#x}", dtype_name(pred)))?;
    let size = dtype_bytes(data).unwrap_or(1);
    let (s1, sp) = (cx.byte("src1_imm_src"), cx.byte("pred_imm_src"));
    immediate(cx, "src1_imm", s1, size)?;
    immediate(cx, "pred_imm", sp, size)?;
    same_count(cx, "src0", "dst")
}

pub(super) fn copy_predicated_scalar(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (pred, inp, out) = (cx.byte("pred_dtype"), cx.byte("in_dtype"), cx.byte("out_dtype"));
    dtype(cx, "in_dtype", inp, PLAIN)?;
    dtype(cx, "out_dtype", out, PLAIN)?;
    cx.require(&PRED_SCALAR, is_int(pred) && inp == out, || {
        format!("predicate {}, {} to {}", dtype_name(pred), dtype_name(inp), dtype_name(out))
    })?;
    let source = cx.byte("src0_imm_src");
    immediate(cx, "src0_imm", source, dtype_bytes(inp).unwrap_or(1))?;
    same_count(cx, "pred", "dst")
}

pub(super) fn range_select(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    const LIMIT: f64 = 16_777_216.0;
    let (inp, out) = cx.pair("in_out_dtype");
    // in FP32 the sum would round back to the limit
    let base = f64::from(cx.f32("base"));
    let count = f64::from(cx.count("src").unwrap_or(0) as u32);
    let compares = [cx.byte("comp_op0"), cx.byte("comp_op1")];
    let ok = is_float(inp)
        && is_float(out)
        && cx.get("fill_val") == 0xFF7F_FFFF
        && compares.iter().all(|c| (0x12..=0x16).contains(c))
        && base <= LIMIT
        && base + count <= LIMIT
        && matches!(cx.byte("reduce_cmd"), 0 | 2 | 3)
        && cx.byte("reduce_op") == e::alu_op::MAX;
    cx.require(&RANGE_SELECT, ok, || {
        format!("{} to {}, base {base}, count {count}", dtype_name(inp), dtype_name(out))
    })?;
    let (b0, b1) = (cx.byte("bound0_src"), cx.byte("bound1_src"));
    immediate(cx, "bound0", b0, 4)?;
    immediate(cx, "bound1", b1, 4)?;
    same_count(cx, "src", "dst")
}

pub(super) fn affine_select(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = cx.pair("in_out_dtype");
    dtype(cx, "in_out_dtype low", inp, PLAIN)?;
    dtype(cx, "in_out_dtype high", out, FP32R)?;
    let reg = cx.byte("fill_reg");
    cx.require(&FILL_REG, readable(reg), || format!("{reg}"))?;
    same_count(cx, "mask", "src")?;
    same_count(cx, "src", "dst")
}

/// Whether a register specifier may be read: 0..63, or 128 and 129 for the instruction address
/// (wiki: firmware/kernels/move-dtype 3.3).
pub(super) fn readable(reg: u8) -> bool {
    reg < 64 || matches!(reg, 128 | 129)
}

pub(super) fn iota(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    dtype_field(cx, "out_dtype", FP32R)?;
    same_count(cx, "src_data", "dst")
}

pub(super) fn int_wide(cx: &mut Context<'_>, def: &'static OpcodeDef) -> Result<()> {
    use e::alu_op::{ADD_INT, MULT_INT, MULT_UINT, SUBTRACT_INT};
    let code = cx.byte("op");
    cx.require(&WIDE_OPS, class::WIDE_INT_OP.contains(code), || op_name(code))?;
    let tensor = def.byte == op::TENSOR_TENSOR_INT_WIDE;
    let (s0, s1) = cx.pair(if tensor { "in0_in1_dtype" } else { "in_imm_dtype" });
    let (d0, d1) = cx.pair("out0_out1_dtype");
    let all_int = [s0, s1, d0, d1].iter().all(|t| is_int(*t));
    let shift = class::IS_SHIFT_OP.contains(code);
    let signs = match code {
        ADD_INT | SUBTRACT_INT | MULT_UINT => !is_signed(s0) && !is_signed(s1),
        MULT_INT => is_signed(s0) && is_signed(s1),
        // The count of a shift is unsigned; a scalar count has the signedness of the tensor too.
        _ => !is_signed(s1) && (tensor || !is_signed(s0)),
    };
    let outs = shift || class::IS_VALID_32B_INT.contains(d0) && is_signed(d1) == is_signed(s0);
    cx.require(&WIDE_TYPES, all_int && signs && outs, || {
        format!("{:?} for {}", [s0, s1, d0, d1].map(dtype_name), op_name(code))
    })?;
    let first = if tensor { "src0" } else { "src" };
    if tensor {
        same_count(cx, "src0", "src1")?;
    } else {
        let source = cx.byte("imm_src");
        let inline = source == e::imm_src::INSTRUCTION_IMMEDIATE;
        let word = cx.get("imm");
        cx.require(&WIDE_SHIFT, !(shift && inline) || word < 32, || format!("{word:#x}"))?;
        immediate(cx, "imm", source, dtype_bytes(s1).unwrap_or(1))?;
    }
    same_count(cx, first, "dst0")?;
    same_count(cx, first, "dst1")
}

/// Integer types of the data path, at most 32 bits.
pub(super) fn int_dtype(code: u8) -> bool {
    is_int(code)
}

/// Floating types of the data path.
pub(super) fn float_dtype(code: u8) -> bool {
    is_float(code)
}

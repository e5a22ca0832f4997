//! Rules that every opcode shares: header, events, reserved bytes, channels, addresses, dtypes
//! (wiki: firmware/kernels/tensor-tensor; neuronx-runtime isa/validator-architecture).

use super::operands::{self, Operand, TypeOf};
use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::{EventsKind, FieldType, OpcodeDef, StructDef};
use crate::isa::generation::Generation;
use crate::isa::geometry::dtype_bytes;
use crate::isa::inst::INST_WORD_LEN;
use crate::isa::pattern::{Addr4, Pattern};
use crate::isa::tables::{class, e, enums, op};
use crate::numeric::mx::legal_block_shape;

rules! {
    INST_LEN "has_valid_inst_len" "neuronx-runtime isa/instruction-record"
        "byte 1 must be 16, the length in 4-byte words";
    EVENT_MODES "valid_event_modes" "collectives/ops/collective-enums"
        "wait and update modes must be members of the generation's enums";
    EVENT_VALUE "events_one_value" "collectives/ops/core-barrier 2"
        "the one value cannot be an immediate on one side and a register number on the other";
    EVENT_REG "events_register" "collectives/ops/collective-enums"
        "a register operand of an event mode is a general register, 0 to 63, with the other bytes zero";
    RESERVED "reserved_zero" "neuronx-runtime isa/validator-architecture"
        "reserved bytes must be zero";
    ENUM "is_valid_enum" "firmware/kernels/tensor-tensor"
        "the code must be a member of its enum";
    BOOL "is_valid_bool" "firmware/kernels/tensor-reduce"
        "a flag byte must be 0 or 1";
    CHANNELS "has_valid_active_channel_range" "firmware/kernels/tensor-tensor"
        "the number of active channels must be between 1 and the engine's channels";
    TILE "has_valid_active_channel_range_with_tile" "firmware/kernels/pool-compute-misc"
        "the tile index of v5 instruction flags must be 0";
    SHAPE "tensor_num_elem" "firmware/kernels/tensor-tensor"
        "every dimension of an immediate shape must have at least one element";
    ADDRESS "tensor_start_addr_valid" "firmware/kernels/tensor-tensor"
        "a start address is an on-chip address, or a general register with reserved bytes zero";
    ALIGNED "addr_aligned_dtype" "firmware/kernels/tensor-tensor"
        "an address must be a multiple of the element size";
    REGION "addr_in_allowed_region" "dma/sbuf-psum-banks 2.2"
        "the address must lie in a region the operand may use";
    PSUM_WRITE "psum_write_dtype" "dma/sbuf-psum-banks 2.2"
        "a write to PSUM needs a 4-byte element type";
    SPAN "start_addr_active_channels" "firmware/kernels/tensor-tensor"
        "the active partitions must exist and start where their number allows";
    INDIRECT_QUADRANT "indirect_quadrant_check" "neuronx-runtime isa/validator-architecture"
        "indices and data of an indirect pattern must share an SBUF quadrant unless the data is in PSUM";
    MX_PATTERN "mxmem1d_valid" "neuronx-cc isa/mxmem-pattern1d"
        "an MX pattern has elements, a step of 1 or -1, and its scales 0, 4, 8 or 12 partitions into the quadrant";
    MX_V2 "mxtensor_v2_valid" "compiler/mx-device-bodies 3.3"
        "an MX pattern of v5 has blocks of 16 partitions by 1 or 16, steps of whole words and scales of a scale type or FP8_EXP4, or none";
    DTYPE "dtype_invalid_check" "firmware/kernels/tensor-tensor"
        "the element type must be a valid dtype of the generation";
    DTYPE_FP32R "dtype_fp32r_illegal_check" "firmware/kernels/tensor-tensor"
        "FP32R is not allowed for this operand";
    DTYPE_64 "dtype_64bit_illegal_check" "firmware/kernels/tensor-tensor"
        "64-bit types are not allowed for this operand";
    DTYPE_SPECIAL "dtype_special_illegal_check" "firmware/kernels/tensor-tensor"
        "4-bit, scale and compressed types are not allowed for this operand";
    IMMEDIATE "has_valid_immediates" "firmware/kernels/tensor-scalar"
        "a pointer immediate must be an aligned on-chip address for all channels, a register one a general register with reserved bytes zero";
    COUNT "same_src_dst_count" "firmware/kernels/tensor-scalar"
        "source and destination must have the same number of elements";
}

/// Which on-chip regions an operand may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    Both,
    Sbuf,
    Psum,
}

/// Types beyond the ordinary ones that an operand accepts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allow {
    pub fp32r: bool,
    pub wide: bool,
    pub fp4: bool,
}

/// No extras.
pub(super) const PLAIN: Allow = Allow { fp32r: false, wide: false, fp4: false };
/// FP32R too.
pub(super) const FP32R: Allow = Allow { fp32r: true, ..PLAIN };

pub(super) fn check(
    cx: &mut Context<'_>,
    def: &'static OpcodeDef,
    layout: &'static StructDef,
) -> Result<()> {
    let compact = cx.generation() == Generation::V5 && def.byte == op::COMPACT_CONTROL_INST;
    let len = cx.inst.u8(1);
    cx.require(&INST_LEN, compact || len == INST_WORD_LEN, || format!("it is {len}"))?;
    events(cx)?;
    fields(cx, layout)?;
    channels(cx)?;
    for operand in operands::of(layout.name) {
        tensor(cx, def, operand)?;
    }
    Ok(())
}

pub(super) fn events(cx: &mut Context<'_>) -> Result<()> {
    let ev = cx.inst.events();
    let g = cx.generation();
    let (wait, update) = (u64::from(ev.wait_mode), u64::from(ev.update_mode));
    match cx.inst.events_kind() {
        EventsKind::None => Ok(()),
        EventsKind::V1 => {
            let ok =
                enums::V1_WAIT_MODE.contains(g, wait) && enums::V1_SET_MODE.contains(g, update);
            cx.require(&EVENT_MODES, ok, || format!("wait {wait:#x}, set {update:#x}"))
        }
        EventsKind::V2 => {
            event_pair(cx, ev.wait_mode, ev.value, ev.update_mode, ev.value)?;
            let reg = |mode: u8| mode & 0x80 != 0 && mode < 0xFE;
            let imm_wait = (0x01..=0x05).contains(&ev.wait_mode);
            let imm_update = matches!(ev.update_mode & 0x8F, 0x05 | 0x07 | 0x09);
            let mixed = reg(ev.wait_mode) && imm_update || imm_wait && reg(ev.update_mode);
            cx.require(&EVENT_VALUE, !mixed, || {
                format!("wait {:#x} with update {:#x}", ev.wait_mode, ev.update_mode)
            })
        }
    }
}

/// Modes and register operands of one events block of the v2+ form.
pub(super) fn event_pair(
    cx: &mut Context<'_>,
    wait: u8,
    wait_value: u32,
    update: u8,
    update_value: u32,
) -> Result<()> {
    let g = cx.generation();
    let ok = enums::WAIT_MODE.contains(g, wait.into())
        && enums::UPDATE_MODE.contains(g, update.into())
        && wait != e::wait_mode::INVALID
        && update != e::update_mode::INVALID;
    cx.require(&EVENT_MODES, ok, || format!("wait {wait:#x}, update {update:#x}"))?;
    let wait_ok = match wait {
        0x81..=0x85 => wait_value < 64,
        0x91..=0x95 => wait_value & 0xFF < 64,
        _ => true,
    };
    let update_ok = !(0x80..0xFE).contains(&update) || update_value < 64;
    cx.require(&EVENT_REG, wait_ok && update_ok, || {
        format!("values {wait_value:#x} and {update_value:#x}")
    })
}

fn fields(cx: &mut Context<'_>, layout: &'static StructDef) -> Result<()> {
    let g = cx.generation();
    for field in layout.payload() {
        let raw = cx.inst.raw(field);
        let first = raw.first().copied().unwrap_or(0);
        match field.ty_in(cx.form()) {
            FieldType::Reserved if cx.strict => {
                let zero = raw.iter().all(|b| *b == 0);
                cx.require(&RESERVED, zero, || {
                    format!("{} bytes at {}: {raw:02x?}", field.size, field.offset)
                })?;
            }
            FieldType::Bits(def) if cx.strict => {
                let packed = cx.get(field.name);
                let bad = def
                    .fields
                    .iter()
                    .find(|b| b.name.starts_with("reserved") && b.get(packed) != 0);
                cx.require(&RESERVED, bad.is_none(), || {
                    format!("reserved bits of `{}` = {packed:#x}", field.name)
                })?;
            }
            FieldType::Enum(def) if !partly_known(def.name) => {
                cx.require(&ENUM, def.contains(g, first.into()), || {
                    format!("`{}` = {first:#x} is not in {} of {g}", field.name, def.name)
                })?;
            }
            FieldType::Bool => {
                cx.require(&BOOL, first < 2, || format!("`{}` = {first}", field.name))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Enums whose member lists the sources do not give in full, or that a rule of their own checks.
fn partly_known(name: &'static str) -> bool {
    matches!(
        name,
        "BR_CMP_OP"
            | "BR_TARGET_MODE"
            | "BG_XPOSE_MODE"
            | "REG_SERIAL_MODE"
            | "PSUM_ACC_FLAGS"
            | "MATMUL_ZERO_REGION"
            | "WAIT_MODE"
            | "UPDATE_MODE"
            | "PSEUDO_OPCODE"
    )
}

fn channels(cx: &mut Context<'_>) -> Result<()> {
    if cx.field("num_active_channels").is_none() {
        return Ok(());
    }
    let n = u32::from(cx.byte("num_active_channels"));
    let most = cx.geometry.channels;
    cx.require(&CHANNELS, (1..=most).contains(&n), || format!("{n}, limit {most}"))?;
    let flags = cx.inst.u8(3);
    let tile_ok = cx.generation() != Generation::V5 || flags & 3 == 0;
    cx.require(&TILE, tile_ok, || format!("flags {flags:#x}"))
}

/// Partitions each tensor operand of the word spans.
pub(super) fn active_channels(cx: &Context<'_>) -> u32 {
    if cx.field("num_active_channels").is_some() {
        return u32::from(cx.byte("num_active_channels"));
    }
    if cx.field("completion_info").is_some() {
        let ports = u32::from(cx.byte("completion_info")) >> 3 & 7;
        return if ports == 0 { 128 } else { 16 * ports };
    }
    if cx.field("num_active_rows").is_some() {
        return u32::from(cx.byte("num_active_rows"));
    }
    1
}

/// Dtype code of an operand.
pub(super) fn type_code(cx: &Context<'_>, ty: TypeOf) -> u8 {
    match ty {
        TypeOf::Field(name) => cx.byte(name),
        TypeOf::Lo(name) => cx.pair(name).0,
        TypeOf::Hi(name) => cx.pair(name).1,
        TypeOf::Is(code) => code,
    }
}

fn is_pe(layout: &str) -> bool {
    matches!(
        layout,
        "S3_LW" | "S3D3_MM" | "S4D3_MM" | "S3_LT" | "SMX1_LW" | "SMX1D3_MM" | "S2S1D2_PE_SEED"
    )
}

/// Regions of an operand: PE reads SBUF and writes PSUM; some opcodes use SBUF alone; on v5 PSUM
/// has no addresses outside PE destinations (OPEN).
fn region(cx: &Context<'_>, def: &OpcodeDef, operand: &Operand) -> Region {
    let layout = cx.layout.map_or("", |l| l.name);
    if is_pe(layout) {
        return if operand.write { Region::Psum } else { Region::Sbuf };
    }
    let g = cx.generation();
    let sbuf_only = match def.byte {
        op::CROSS_LANE_REDUCE_ARITH
        | op::CROSS_LANE_REDUCE_BITVEC
        | op::POOL_BUFFER_LOAD
        | op::TENSOR_SCALAR_ADDR
        | op::ACTIVATE_MULTIPASS
        | op::TENSOR_TENSOR_INT_WIDE
        | op::TENSOR_SCALAR_INT_WIDE
        | op::TENSOR_DEQUANTIZE
        | op::NONZERO_WITH_COUNT
        | op::GET_SEQUENCE_BOUNDS
        | op::SB2SB_COLLECTIVE
        | op::RAND_SET_STATE
        | op::CONV_LUT_LOAD
        | op::QUANTIZE_MX => true,
        op::TENSOR_SCALAR_AFFINE_SELECT => g >= Generation::V3,
        op::SPARSITY_COMPRESS_TAG => operand.field == "tag_dst",
        _ => false,
    };
    if g != Generation::V1 && (sbuf_only || g == Generation::V5) {
        Region::Sbuf
    } else {
        Region::Both
    }
}

fn tensor(cx: &mut Context<'_>, def: &'static OpcodeDef, operand: &Operand) -> Result<()> {
    let Some(pattern) = cx.pattern(operand.field) else { return Ok(()) };
    let code = type_code(cx, operand.ty);
    let region = region(cx, def, operand);
    let bytes = dtype_bytes(code).unwrap_or(1);
    // 0 as the result type of a matmul means FP32 (wiki: firmware/kernels/pe-matmul).
    let code = if region == Region::Psum && code == 0 { e::dtype::FP32 } else { code };
    let what = operand.field;
    let n = match (operand.write, is_pe(cx.layout.map_or("", |l| l.name))) {
        (true, true) => match (cx.byte("num_active_cols"), cx.generation()) {
            (0, Generation::V5) => 128,
            (cols, _) => u32::from(cols).min(cx.geometry.psum_partitions),
        },
        _ => active_channels(cx),
    };
    match pattern {
        Pattern::Tensor(t) => {
            if !t.addr.shape_from_register() {
                let full = t.dims.iter().all(|&(_, num)| num >= 1);
                cx.require(&SHAPE, full, || format!("`{what}` {:?}", t.dims.as_slice()))?;
            }
            let plain = !t.addr.is_indirect();
            cx.require(&ADDRESS, plain, || format!("`{what}` cannot be an indirect pattern"))?;
            address(cx, what, t.addr, bytes, region, n)?;
            if operand.write && lands_in_psum(cx, t.addr, region) {
                psum_write(cx, what, code)?;
            }
            Ok(())
        }
        Pattern::Indirect { index, data, .. } => {
            address(cx, what, index, 1, Region::Both, n)?;
            address(cx, what, data, bytes, region, n)?;
            indirect_quadrant(cx, what, index, data)
        }
        Pattern::MxTensor { data, scale, num, step, scale_partition } => {
            // four elements in a word of four bytes, or of two
            let word = if code == e::dtype::FP4_EXP2 { 2 } else { 4 };
            address(cx, what, data, word, region, n)?;
            address(cx, what, scale, 1, region, 1)?;
            let walk = data.shape_from_register() || num > 0 && matches!(step, 1 | -1);
            mx_pattern(cx, what, walk, scale_partition, data)
        }
        Pattern::MxV2 { data, scale, step_data, step_scale, p_f_dim, scale_dtype, .. } => {
            use e::dtype::{FP8_EXP4, INVALID, SFP8_E5, SFP8_E6, SFP8_E7, SFP8_E8};
            address(cx, what, data, bytes, region, n)?;
            address(cx, what, scale, 1, region, 1)?;
            let scales =
                matches!(scale_dtype, INVALID | FP8_EXP4 | SFP8_E5 | SFP8_E6 | SFP8_E7 | SFP8_E8);
            let ok = legal_block_shape(p_f_dim) && step_data % 4 == 0 && step_scale % 4 == 0;
            cx.require(&MX_V2, ok && scales, || {
                format!("`{what}`: blocks {p_f_dim:#04x}, steps {step_data} and {step_scale}, scales {scale_dtype:#04x}")
            })
        }
        Pattern::MxIndirect { index, data, num, scale_base_partition, .. } => {
            address(cx, what, index, 1, Region::Both, n)?;
            address(cx, what, data, bytes, region, n)?;
            indirect_quadrant(cx, what, index, data)?;
            mx_pattern(cx, what, num > 0, scale_base_partition, data)
        }
        Pattern::Data { .. } => Ok(()),
    }
}

/// Count, step and scale partition of an MX pattern; with a register as data address the partition
/// is not looked at.
fn mx_pattern(
    cx: &mut Context<'_>,
    what: &str,
    walk: bool,
    scale_partition: u8,
    data: Addr4,
) -> Result<()> {
    let place = data.reg().is_some() || matches!(scale_partition, 0 | 4 | 8 | 12);
    cx.require(&MX_PATTERN, walk && place, || {
        format!("`{what}` with scales from partition {scale_partition}")
    })
}

fn lands_in_psum(cx: &Context<'_>, addr: Addr4, region: Region) -> bool {
    match region {
        Region::Psum => true,
        Region::Sbuf => false,
        Region::Both => addr.imm().is_some_and(|a| cx.geometry.in_psum(a)),
    }
}

/// 4-byte types; from v4 on matmul results in BF16 too, and 2-byte elements of a PE transpose.
fn psum_write(cx: &mut Context<'_>, what: &str, code: u8) -> Result<()> {
    let pe = is_pe(cx.layout.map_or("", |l| l.name));
    let narrow = pe
        && (cx.generation() >= Generation::V4 && code == e::dtype::BFLOAT16
            || cx.byte("transpose_mode") != 0);
    let ok = narrow || dtype_bytes(code) == Some(4) || cx.generation() == Generation::V1;
    cx.require(&PSUM_WRITE, ok, || format!("`{what}` has dtype {}", dtype_name(code)))
}

/// Name of a dtype code for messages.
pub(super) fn dtype_name(code: u8) -> String {
    enums::DTYPE.name_of(code.into()).map_or_else(|| format!("{code:#x}"), str::to_string)
}

/// Checks one on-chip address of `n` partitions and elements of `bytes`.
pub(super) fn address(
    cx: &mut Context<'_>,
    what: &str,
    addr: Addr4,
    bytes: u32,
    region: Region,
    n: u32,
) -> Result<()> {
    let formed = match addr {
        Addr4::Unknown(_) => false,
        other => other.reg().is_none_or(|r| r < 64),
    };
    cx.require(&ADDRESS, formed, || format!("`{what}` is {addr:x?}"))?;
    let Some(a) = addr.imm() else { return Ok(()) };
    if !formed {
        return Ok(());
    }
    cx.require(&ALIGNED, a % bytes == 0, || {
        format!("`{what}` at {a:#x} with elements of {bytes} bytes")
    })?;
    let g = cx.geometry;
    let psum = match region {
        Region::Psum => true,
        Region::Sbuf => false,
        Region::Both => g.in_psum(a),
    };
    let inside = if psum { g.in_psum(a) } else { g.in_sbuf(a) };
    let allowed = match region {
        Region::Both => "SBUF or PSUM",
        Region::Sbuf => "SBUF",
        Region::Psum => "PSUM",
    };
    cx.require(&REGION, inside, || format!("`{what}` at {a:#x} is not in {allowed}"))?;
    if inside { span(cx, what, a, psum, n) } else { Ok(()) }
}

/// An access of more than 64 partitions starts at 0, of 33 to 64 at 0 or 64, of up to 32 at a
/// quadrant; the lenient form only asks that the partitions exist.
fn span(cx: &mut Context<'_>, what: &str, a: u32, psum: bool, n: u32) -> Result<()> {
    let g = cx.geometry;
    let (partition, byte) = if psum { g.psum_place(a) } else { g.sbuf_place(a) };
    let (most, active) =
        if psum { (g.psum_partitions, g.psum_active) } else { (g.sbuf_partitions, g.sbuf_active) };
    let exists = partition + n <= most && byte < active;
    let step = match n {
        0..=32 => 32,
        33..=64 => 64,
        _ => 128,
    };
    let starts = !cx.strict || cx.generation() == Generation::V1 || partition % step == 0;
    cx.require(&SPAN, exists && starts, || {
        format!("`{what}`: {n} partitions from {partition}, byte {byte:#x} of {active:#x}")
    })
}

fn indirect_quadrant(cx: &mut Context<'_>, what: &str, index: Addr4, data: Addr4) -> Result<()> {
    let (Some(i), Some(d)) = (index.imm(), data.imm()) else { return Ok(()) };
    let g = cx.geometry;
    // on v5 the address of a PSUM destination may name an SBUF partition as well
    let ok = g.in_psum(d) || g.sbuf_quadrant(i) == g.sbuf_quadrant(d);
    cx.require(&INDIRECT_QUADRANT, ok, || format!("`{what}`: indices at {i:#x}, data at {d:#x}"))
}

/// `is_valid_dtype` and its relatives.
pub(super) fn dtype(cx: &mut Context<'_>, what: &str, code: u8, allow: Allow) -> Result<()> {
    let g = cx.generation();
    let known = code != e::dtype::INVALID && enums::DTYPE.contains(g, code.into());
    let named = || format!("`{what}` is {}", dtype_name(code));
    cx.require(&DTYPE, known, named)?;
    cx.require(&DTYPE_FP32R, allow.fp32r || code != e::dtype::FP32R, named)?;
    let wide = class::IS_VALID_64B_INT.contains(code);
    cx.require(&DTYPE_64, allow.wide || !wide || g == Generation::V1, named)?;
    let special = match code {
        e::dtype::FP4_EXP2 => !allow.fp4,
        0x12..=0x16 | 0x19..=0x1F => true,
        _ => false,
    };
    cx.require(&DTYPE_SPECIAL, !special, named)
}

/// [`dtype`] of a field.
pub(super) fn dtype_field(cx: &mut Context<'_>, name: &'static str, allow: Allow) -> Result<()> {
    let code = cx.byte(name);
    dtype(cx, name, code, allow)
}

/// `has_valid_immediates` with an IMM_SRC code.
pub(super) fn immediate(
    cx: &mut Context<'_>,
    name: &'static str,
    source: u8,
    bytes: u32,
) -> Result<()> {
    let word = cx.get(name) as u32;
    match source {
        e::imm_src::POINTER_IMMEDIATE => {
            let n = active_channels(cx);
            let formed = word & !crate::isa::pattern::ADDR_MASK == 0;
            let g = cx.geometry;
            let region = if g.in_psum(word) && cx.generation() != Generation::V5 {
                Region::Both
            } else {
                Region::Sbuf
            };
            let ok = formed
                && word.is_multiple_of(bytes.max(1))
                && (g.in_sbuf(word) || region == Region::Both);
            cx.require(&IMMEDIATE, ok, || format!("`{name}` points to {word:#x}"))?;
            if ok {
                address(cx, name, Addr4::Imm(word), bytes.max(1), region, n)?;
            }
            Ok(())
        }
        e::imm_src::REG_PTR_IMMEDIATE => {
            cx.require(&IMMEDIATE, word < 64, || format!("`{name}` is register word {word:#x}"))
        }
        _ => Ok(()),
    }
}

/// `same_src_dst_count`; skipped when either shape comes from a register or is indirect.
pub(super) fn same_count(cx: &mut Context<'_>, a: &'static str, b: &'static str) -> Result<()> {
    let (Some(x), Some(y)) = (cx.count(a), cx.count(b)) else { return Ok(()) };
    cx.require(&COUNT, x == y, || format!("`{a}` has {x}, `{b}` has {y}"))
}

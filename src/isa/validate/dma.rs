//! The DMA front door (wiki: firmware/kernels/dma-transpose-opcode-cluster;
//! firmware/kernels/indirection-gather; generations/maverick-profile 4).

use super::common::{FP32R, PLAIN};
use super::common::{Region, address, dtype, dtype_name};
use super::{Context, rules};
use crate::error::Result;
use crate::isa::defs::{FieldType, OpcodeDef};
use crate::isa::geometry::dtype_bytes;
use crate::isa::pattern::{Addr4, Addr8};
use crate::isa::tables::{b, e, enums};

rules! {
    ADDR8 "addr8_valid" "firmware/kernels/tensorload 3"
        "a device address is immediate, a pair of general registers with reserved bytes zero, or a table form";
    SHAPE_REG "addr8_shape_register" "firmware/kernels/dma-transpose-opcode-cluster"
        "with a shape register, the counts and the outer step are zero";
    SHAPE "dma_num_elem" "firmware/kernels/dma-transpose-opcode-cluster"
        "an immediate shape has at least one element per dimension";
    PRIORITY "dma_configs_valid" "firmware/kernels/dma-transpose-opcode-cluster"
        "the priority class is 0 to 4";
    BOUND "bound_register_valid" "firmware/kernels/indirection-gather"
        "a bound byte is zero, or enabled with a general register";
    BYTES "dma_byte_totals" "firmware/kernels/dma-transpose-opcode-cluster"
        "without compute both sides move the same number of bytes";
    COMPUTE_ALIGN "dma_compute_alignment" "firmware/kernels/dma-transpose-opcode-cluster"
        "with compute the element sizes are multiples of the element types";
    MODES "dma_copy2d_modes" "generations/maverick-profile 4"
        "wait, update and address modes must be members of their enums";
    IMMEDIATE "dma_immediate_valid" "generations/maverick-profile 4"
        "an immediate DMA has one engine, one to three descriptors and no tdg or write-done flag";
    INDEX "dma_indirect_indices" "firmware/kernels/indirection-gather"
        "indices lie in SBUF partition 0, on 128 channels";
    INDEX_COUNT "dma_indirect_count" "firmware/kernels/indirection-gather"
        "an indexed side has at most 4096 indices";
    INDEX_DIM "dma_indirect_dims" "firmware/kernels/indirection-gather"
        "gather uses no scatter dimension and scatter no gather dimension; without a shape register the indirect dimension is X";
    INDEX_BOUND "dma_indirect_bound" "firmware/kernels/indirection-gather"
        "an index bound is an error or does not suppress its notification";
    TRANSPOSE "dma_transpose_valid" "firmware/kernels/dma-transpose-opcode-cluster"
        "a transposing DMA has one type of 2 or 4 bytes, 16 tile rows, columns up to 128 or 64 and 32-byte destination steps";
    GATHER_TRANSPOSE "dma_gather_transpose_valid" "firmware/kernels/dma-transpose-opcode-cluster"
        "a gathering transpose has equal 2-byte types, an even element size of 2 to 256 and matching counts in multiples of 16";
}

/// Two-element arrays as signed numbers.
fn array(cx: &Context<'_>, name: &'static str, width: usize) -> Vec<i64> {
    cx.bytes(name)
        .chunks_exact(width)
        .map(|c| {
            let mut le = [0; 8];
            le[..width].copy_from_slice(c);
            if width == 4 {
                i64::from(i32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            } else {
                i64::from_le_bytes(le)
            }
        })
        .collect()
}

/// Checks an 8-byte address and returns it.
pub(super) fn addr8(cx: &mut Context<'_>, name: &'static str) -> Result<Addr8> {
    let a = Addr8::decode(cx.get(name));
    let ok = match a {
        Addr8::Reg { lo, hi } | Addr8::RegShapeReg { lo, hi } => lo < 64 && hi < 64,
        Addr8::Unknown(_) | Addr8::Variable(_) => false,
        _ => true,
    };
    cx.require(&ADDR8, ok, || format!("`{name}` is {a:x?}"))?;
    Ok(a)
}

/// Name of the field of one side that ends in `rest`.
fn named(prefix: &str, rest: &str) -> &'static str {
    const NAMES: [&str; 12] = [
        "src_start_addr",
        "src_num_elem",
        "src_step_elem",
        "src_elem_size",
        "src_idx_start_addr",
        "src_idx_bound_reg",
        "dst_start_addr",
        "dst_num_elem",
        "dst_step_elem",
        "dst_elem_size",
        "dst_idx_start_addr",
        "dst_idx_bound_reg",
    ];
    let is = |n: &&&str| n.strip_prefix(prefix) == Some(rest);
    NAMES.iter().find(is).copied().unwrap_or("")
}

/// One side of a 2-D transfer: address, counts and the rule about shape registers.
fn side(cx: &mut Context<'_>, prefix: &str) -> Result<Addr8> {
    let a = addr8(cx, named(prefix, "_start_addr"))?;
    let nums = array(cx, named(prefix, "_num_elem"), 2);
    let steps = array(cx, named(prefix, "_step_elem"), 4);
    if a.shape_from_register() {
        let ok = nums.iter().all(|n| *n == 0) && steps.get(1).is_none_or(|s| *s == 0);
        cx.require(&SHAPE_REG, ok, || format!("{prefix}: counts {nums:?}, steps {steps:?}"))?;
    } else {
        let ok = nums.iter().all(|n| *n >= 1);
        cx.require(&SHAPE, ok, || format!("{prefix}: counts {nums:?}"))?;
    }
    Ok(a)
}

fn configs(cx: &mut Context<'_>) -> Result<()> {
    let c = cx.get("dma_configs");
    let class = b::dma_configs::PRIORITY_CLASS.get(c);
    cx.require(&PRIORITY, class <= 4, || format!("class {class}"))?;
    let Some(layout) = cx.layout else { return Ok(()) };
    for field in layout.payload() {
        if !matches!(field.ty, FieldType::Bits(d) if d.name == "BOUND_CHECK_REG") {
            continue;
        }
        let bound = cx.get(field.name);
        let ok = bound == 0 || b::bound_check_reg::BC_ENABLED.get(bound) == 1;
        cx.require(&BOUND, ok, || format!("`{}` = {bound:#x}", field.name))?;
    }
    Ok(())
}

fn total(cx: &Context<'_>, prefix: &str) -> u64 {
    let nums = array(cx, named(prefix, "_num_elem"), 2);
    let size = cx.get(named(prefix, "_elem_size"));
    nums.iter().fold(size, |acc, n| acc * (*n as u64))
}

fn type_pair(cx: &mut Context<'_>) -> Result<(u8, u8)> {
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    dtype(cx, "in_dtype", inp, FP32R)?;
    dtype(cx, "out_dtype", out, FP32R)?;
    Ok((inp, out))
}

pub(super) fn direct2d(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (s, d) = (side(cx, "src")?, side(cx, "dst")?);
    configs(cx)?;
    let (inp, out) = type_pair(cx)?;
    let immediate = !s.shape_from_register() && !d.shape_from_register();
    let sizes = [cx.get("src_elem_size"), cx.get("dst_elem_size")];
    if cx.byte("compute_op") == e::dge_compute_op::NONE {
        let (a, z) = (total(cx, "src"), total(cx, "dst"));
        // The two sides differ when the element type is converted on the way.
        let same = inp != out || a == z;
        return cx.require(&BYTES, !immediate || same, || format!("{a} to {z} bytes"));
    }
    let unit = |t| u64::from(dtype_bytes(t).unwrap_or(1));
    let ok = sizes[0].is_multiple_of(unit(inp)) && sizes[1].is_multiple_of(unit(out));
    cx.require(&COMPUTE_ALIGN, ok, || format!("sizes {sizes:?}"))
}

fn own_wait(cx: &mut Context<'_>) -> Result<()> {
    let mode = cx.get("wait_sema_mode");
    let ok = enums::WAIT_MODE.contains(cx.generation(), mode) && mode != 0xFF;
    cx.require(&MODES, ok, || format!("wait {mode:#x}"))
}

pub(super) fn copy2d(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    own_wait(cx)?;
    let (addr, update) = (cx.pair("addr_mode"), cx.pair("sema_update_mode"));
    let g = cx.generation();
    let known = |m: u8| enums::DMA_ADDR_MODE.contains(g, m.into());
    let updates = |m: u8| enums::DMA_SEMA_UPDATE_MODE.contains(g, m.into());
    let ok = known(addr.0) && known(addr.1) && updates(update.0) && updates(update.1);
    cx.require(&MODES, ok, || format!("addresses {addr:?}, updates {update:?}"))
}

pub(super) fn immediate(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    own_wait(cx)?;
    let engines = b::dma_engines::ENGINE_COUNT.get(cx.get("dma_engines"));
    let flags = cx.get("dma_flags");
    let count = b::desc_flags::NUM_DESCRIPTORS.get(cx.get("descriptor_flags"));
    let ok = engines == u64::from(e::dma_engine_count::ONE)
        && b::dma_flags::TDG.get(flags) == 0
        && b::dma_flags::WR_DONE_SYNC.get(flags) == 0
        && (1..=3).contains(&count);
    cx.require(&IMMEDIATE, ok, || format!("flags {flags:#x}, {count} descriptors"))
}

pub(super) fn indirect(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    use b::indirect_flags as bits;
    use e::indirect_dma_addressing_mode as mode;
    let flags = cx.get("flags");
    let which = bits::INDIRECT_MODE.get(flags) as u8;
    let gathers = which != mode::DST;
    let scatters = which != mode::SRC;
    let known = enums::INDIRECT_DMA_ADDRESSING_MODE.contains(cx.generation(), which.into());
    let dims = (bits::GATHER_DIM.get(flags), bits::SCATTER_DIM.get(flags));
    type_pair(cx)?;
    configs(cx)?;
    let channels = cx.byte("idx_num_active_channels");
    cx.require(&INDEX, channels == 128, || format!("{channels} channels"))?;
    let mut dims_ok = known && (gathers || dims.0 == 0) && (scatters || dims.1 == 0);
    for (prefix, indexed, dim) in [("src", gathers, dims.0), ("dst", scatters, dims.1)] {
        let a = addr8(cx, named(prefix, "_start_addr"))?;
        let num = cx.get(named(prefix, "_num_elem"));
        if a.shape_from_register() {
            cx.require(&SHAPE_REG, num == 0, || format!("{prefix}: count {num}"))?;
        } else {
            cx.require(&SHAPE, num >= 1, || format!("{prefix}: count {num}"))?;
            dims_ok &= dim == u64::from(e::indirect_dim::X);
        }
        if !indexed {
            continue;
        }
        cx.require(&INDEX_COUNT, num <= 4096, || format!("{prefix}: {num}"))?;
        let name = named(prefix, "_idx_start_addr");
        let index = Addr4::decode(cx.get(name) as u32);
        address(cx, name, index, 4, Region::Sbuf, 1)?;
        let zero = index.imm().is_none_or(|v| cx.geometry.sbuf_place(v).0 == 0);
        cx.require(&INDEX, zero, || format!("`{name}` is {index:x?}"))?;
        let bound = cx.get(named(prefix, "_idx_bound_reg"));
        let quiet = b::bound_check_reg::BC_DISABLE_OOB_ERROR_NOTIF.get(bound) == 1;
        let ok = bits::IDX_BOUND_IS_ERR.get(flags) == 1 || !quiet;
        cx.require(&INDEX_BOUND, ok, || format!("{prefix}: {bound:#x}"))?;
    }
    cx.require(&INDEX_DIM, dims_ok, || format!("flags {flags:#x}"))
}

pub(super) fn transpose(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = (cx.byte("in_dtype"), cx.byte("out_dtype"));
    dtype(cx, "in_dtype", inp, PLAIN)?;
    configs(cx)?;
    side(cx, "src")?;
    let dst = side(cx, "dst")?;
    let size = dtype_bytes(inp).unwrap_or(0);
    let most = match size {
        2 => 128,
        4 => 64,
        _ => 0,
    };
    let (rows, cols) = (cx.byte("tile_src_rows"), cx.byte("tile_src_cols"));
    let nums = array(cx, "dst_num_elem", 2);
    let steps = array(cx, "dst_step_elem", 4);
    let stepped = dst.shape_from_register()
        || nums.iter().zip(&steps).all(|(n, s)| *n == 1 || s * i64::from(size) % 32 == 0);
    let start = !matches!(dst, Addr8::Imm(a) if !a.is_multiple_of(32));
    let ok = inp == out && rows == 16 && (1..=most).contains(&cols) && stepped && start;
    cx.require(&TRANSPOSE, ok, || {
        format!("{rows} x {cols} of {}, steps {steps:?}, to {dst:x?}", dtype_name(inp))
    })
}

pub(super) fn gather_transpose(cx: &mut Context<'_>, _def: &'static OpcodeDef) -> Result<()> {
    let (inp, out) = cx.pair("in_out_dtype");
    dtype(cx, "in_out_dtype low", inp, PLAIN)?;
    configs(cx)?;
    let (src, dst) = (side(cx, "src")?, addr8(cx, "dst_start_addr")?);
    let (snum, dnum) = (array(cx, "src_num_elem", 2), array(cx, "dst_num_elem", 2));
    let size = cx.get("elem_size");
    let index = Addr4::decode(cx.get("src_idx_start_addr") as u32);
    address(cx, "src_idx_start_addr", index, 4, Region::Sbuf, 1)?;
    let dim = b::gather_flags::GATHER_DIM.get(cx.get("flags"));
    let shaped = src.shape_from_register()
        || dst.shape_from_register()
        || snum[1] % 16 == 0 && snum[1] == dnum[0];
    let aligned =
        !matches!(src, Addr8::Imm(a) if a % 2 != 0) && !matches!(dst, Addr8::Imm(a) if a % 32 != 0);
    let ok = inp == out
        && dtype_bytes(inp) == Some(2)
        && (2..=256).contains(&size)
        && size.is_multiple_of(2)
        && dim == u64::from(e::indirect_dim::Y)
        && shaped
        && aligned;
    cx.require(&GATHER_TRANSPOSE, ok, || {
        format!("elements of {size} bytes, counts {snum:?} and {dnum:?}")
    })
}

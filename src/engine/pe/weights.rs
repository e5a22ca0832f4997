//! LDWEIGHTS (0x01): loads the stationary operand into the array.
//!
//! Source partitions are array rows, the elements of a partition are columns. The default order
//! puts the first element into the last active column; compilers then feed a negative stride
//! (wiki: firmware/kernels/pe-matmul).

use super::array::Array;
use super::product::{Interleave, reduce_precision};
use super::tile::{Tile, TileFields};
use crate::engine::cost::Operands;
use crate::engine::indirection::{refused, same_partition};
use crate::engine::operand::sbuf_place;
use crate::engine::{CostQuery, CostRow, Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Field, Generation, Pattern, TensorPattern, b, e, f};
use crate::memory::Space;
use crate::numeric::{Dtype, load_f32};

/// Fields that describe the tile of a weight load.
pub(super) const TILE: TileFields = TileFields {
    rows: f::s3_lw::NUM_ACTIVE_ROWS,
    cols: f::s3_lw::NUM_ACTIVE_COLS,
    row_grp: f::s3_lw::ROW_GRP,
    col_grp: f::s3_lw::COL_GRP,
    tile_size: Some(f::s3_lw::TILE_SIZE),
    tile_sel: Some(f::s3_lw::TILE_SEL),
};

/// Element type of a PE source, with the E4M3 variant of the generation.
///
/// # Errors
/// `is_valid_dtype`, or a type the array does not multiply.
pub(super) fn input_dtype(env: &Env<'_>, code: u64) -> Result<Dtype> {
    let dtype = Dtype::from_code(env.generation(), code as u8)?;
    let dtype = env.config.numerics.fp8.resolve(env.generation(), dtype);
    match dtype {
        Dtype::Bf16 | Dtype::Fp16 | Dtype::Fp32 | Dtype::Fp32r => Ok(dtype),
        Dtype::Fp8E2 | Dtype::Fp8E3 | Dtype::Fp8E4 | Dtype::Fp8E4Fn | Dtype::Fp8E5 => Ok(dtype),
        Dtype::Uint8 if env.generation() <= Generation::V3 => Ok(dtype),
        Dtype::Uint16 if env.generation() == Generation::V1 => Ok(dtype),
        _ => Err(Error::illegal(
            "pe_in_dtype",
            format!("PE does not multiply {} on {}", dtype.name(), env.generation()),
        )),
    }
}

/// Whether FP32 operands are shortened, after checking that mode and type go together.
///
/// # Errors
/// `fp32_mode`.
pub(super) fn reduced(env: &Env<'_>, dtype: Dtype, mode: u64) -> Result<bool> {
    use e::pe_fp32mode::{HIGH, LOW, LOW_HIGH, NONE};
    let fp32 = matches!(dtype, Dtype::Fp32 | Dtype::Fp32r);
    match mode as u8 {
        NONE if !fp32 => Ok(false),
        LOW if fp32 => Ok(true),
        HIGH | LOW_HIGH if fp32 => Ok(dtype == Dtype::Fp32r),
        _ => Err(Error::illegal(
            "fp32_mode",
            format!("fp32_mode {mode} does not go with {} on {}", dtype.name(), env.generation()),
        )),
    }
}

/// Weights or moving columns a cell takes at once in a performance mode, and how they lie in
/// memory.
///
/// # Errors
/// `perf_opt`.
pub(super) fn lanes(perf_opt: u64, dtype: Dtype) -> Result<(usize, Interleave)> {
    use e::perf_opt_mode::{DOUBLE_COLUMN, DOUBLE_PIXEL, DOUBLE_ROW, NONE};
    match perf_opt as u8 {
        NONE => Ok((1, Interleave::Inner)),
        DOUBLE_ROW if dtype.size() == 1 => Ok((2, Interleave::Outer)),
        DOUBLE_ROW => Err(Error::illegal(
            "perf_opt",
            format!("DoubleRow needs 8-bit operands, not {}", dtype.name()),
        )),
        // OPEN: the vendor's simulator computes both as it computes the plain mode, from the same
        // operands (wiki-cc: bir/sim-matmul-mx); on the array two columns or two moving elements
        // go through at once.
        DOUBLE_COLUMN | DOUBLE_PIXEL if dtype.size() == 1 => Ok((1, Interleave::Inner)),
        DOUBLE_COLUMN | DOUBLE_PIXEL => Err(Error::illegal(
            "perf_opt",
            format!("performance mode {perf_opt} needs 8-bit operands, not {}", dtype.name()),
        )),
        other => Err(Error::illegal("perf_opt", format!("performance mode {other}"))),
    }
}

/// The PE source in `field`: `rows` partitions of SBUF.
///
/// On v5 see [`Operand::in_sbuf`].
///
/// # Errors
/// `allowed_in_psum`, and those of an operand.
pub(super) fn source(env: &Env<'_>, field: Field, dtype: Dtype, rows: u32) -> Result<Operand> {
    match env.inst.pattern(field)? {
        Pattern::Tensor(pattern) => sbuf_operand(env, &pattern, dtype, rows),
        Pattern::Indirect { index, data, num } => {
            // (wiki: errors of the compiler, BIR705)
            let fp8 = dtype.is_float() && dtype.size() == 1;
            if !fp8 && !matches!(dtype, Dtype::Fp16 | Dtype::Bf16) {
                return Err(refused(format!("PE gathers FP16, BF16 and FP8, not {dtype}")));
            }
            let operand = Operand::indirect(env, (index, data, num), dtype, rows, sbuf_place)?;
            same_partition(&operand)?;
            in_sbuf(operand)
        }
        _ => env.inst.tensor(field).and_then(|pattern| sbuf_operand(env, &pattern, dtype, rows)),
    }
}

/// Refuses what goes with no indirect operand of PE: transposes and tiles of the array
/// (vendor docs: nki.isa.nc_matmul).
///
/// # Errors
/// `tensor_indirection`.
pub(super) fn whole_array(tile: &Tile, transpose: bool) -> Result<()> {
    if transpose {
        return Err(refused("a transposing PE instruction takes no indirect operand"));
    }
    if tile.row != 0 || tile.col != 0 {
        return Err(refused(
            "an indirect operand of PE needs a tile that starts at row and column 0",
        ));
    }
    Ok(())
}

/// As [`source`], for a pattern.
///
/// # Errors
/// As [`source`].
pub(super) fn sbuf_operand(
    env: &Env<'_>,
    pattern: &TensorPattern,
    dtype: Dtype,
    rows: u32,
) -> Result<Operand> {
    in_sbuf(Operand::resolve_in_sbuf(env, pattern, dtype, rows)?)
}

fn in_sbuf(operand: Operand) -> Result<Operand> {
    if operand.space != Space::Sbuf {
        return Err(Error::illegal("allowed_in_psum", "PE reads its operands from SBUF only"));
    }
    Ok(operand)
}

/// What a load does to the array.
struct Load {
    tile: Tile,
    /// Type of the weights.
    dtype: Dtype,
    /// Each word carries a tag.
    tagged: bool,
    src: Operand,
    lanes: usize,
    interleave: Interleave,
    /// First element to the first column.
    ascending: bool,
    transpose: bool,
    reduced: bool,
    zero_point: f32,
    array: (usize, usize),
}

/// LDWEIGHTS 0x01.
pub(super) fn ldweights(env: &Env<'_>) -> Result<Prepared> {
    let inst = env.inst;
    let dtype = input_dtype(env, inst.get(f::s3_lw::IN_DTYPE))?;
    let reduced = reduced(env, dtype, inst.get(f::s3_lw::FP32_MODE))?;
    let (lanes, interleave) = lanes(inst.get(f::s3_lw::PERF_OPT), dtype)?;
    if inst.get(f::s3_lw::PERF_MODE) != 0 {
        return Err(Error::missing_spec(
            "operand layout of the MX performance modes",
            "firmware/kernels/pe-matmul",
        ));
    }
    if inst.get(f::s3_lw::BG_XPOSE_MODE) != 0 {
        return Err(Error::missing_spec(
            "members of the background transpose mode",
            "firmware/kernels/pe-matmul",
        ));
    }
    let flags = inst.get(f::s3_lw::FLAGS);
    let mut transpose = inst.get(f::s3_lw::TRANSPOSE_MODE) != 0;
    // OPEN: on v4 bit 0 is the tag mode, on v5 the transpose; the other bits as on v5.
    if env.generation() >= Generation::V5 {
        transpose |= b::ld_weight_flags::XPOSE_MODE.get(flags) != 0;
    }
    let tagged =
        env.generation() < Generation::V5 && b::ld_weight_flags::XPOSE_MODE.get(flags) != 0;
    if tagged && (transpose || lanes != 1 || !matches!(dtype, Dtype::Bf16 | Dtype::Fp16)) {
        return Err(Error::illegal(
            "tag_weight_mode",
            "weights with tags are BF16 or FP16, not transposed, without a performance mode",
        ));
    }
    if b::ld_weight_flags::SEED_MODE.get(flags) != 0 {
        return Err(Error::missing_spec(
            "what seed_mode of a weight load does",
            "firmware/kernels/pe-matmul",
        ));
    }
    let ascending =
        b::ld_weight_flags::LOAD_ORDER.get(flags) == u64::from(e::pe_lw_order::FIRST_COL_FIRST);
    let rows = inst.get(f::s3_lw::NUM_ACTIVE_ROWS) as u32;
    // Words with tags are UINT32: the weight in the low half, the tag in the high one.
    let element = if tagged { Dtype::Uint32 } else { dtype };
    let src = source(env, f::s3_lw::SRC, element, rows)?;
    let tile = Tile::decode(env, &TILE, src.partition)?;
    tile.check_source(src.partition)?;
    if src.offsets_partition().is_some() {
        whole_array(&tile, transpose)?;
    }
    let want = tile.cols as usize * lanes;
    if src.len() != want {
        return Err(Error::illegal(
            "num_active_cols",
            format!("the source has {} elements for {want} weights of a row", src.len()),
        ));
    }
    if transpose && (tile.rows != tile.cols || lanes != 1) {
        // OPEN: how a transposed load counts rows and columns is stated for no other shape.
        return Err(Error::missing_spec(
            "transposed weight load of a tile that is not square",
            "firmware/kernels/pe-matmul",
        ));
    }
    let g = env.geometry();
    let zero_point = if dtype.is_int() { inst.get(f::s3_lw::QUANT_OFFSET) as f32 } else { 0.0 };
    let mut operands = Operands::new();
    src.cost_source(env, &mut operands);
    let cost = CostQuery::new(CostRow::LoadWeights, u64::from(tile.cols), operands)
        .passes(super::matmul::passes(inst.get(f::s3_lw::FP32_MODE)))
        .cells(tile.cells);
    let load = Load {
        tile,
        dtype,
        tagged,
        lanes,
        interleave,
        ascending,
        transpose,
        reduced,
        zero_point,
        array: (g.pe_rows as usize, g.pe_cols as usize),
        src,
    };
    let reads = std::iter::once(load.src.read()).chain(load.src.offsets_read());
    let accesses: Vec<_> = reads.collect();
    Ok(Work::new(accesses, cost, move |lane| run(&load, lane)).into())
}

fn run(load: &Load, lane: &mut Lane<'_>) -> Result<Outcome> {
    let mut row = std::mem::take(&mut lane.scratch.f32[2]);
    lane.state.pe.array.ensure(load.array.0, load.array.1, load.lanes);
    let mut result = Ok(());
    for r in 0..load.tile.rows as usize {
        result = if load.tagged {
            words(load, lane, r, &mut row)
        } else {
            load.src.gather_f32(lane, r as u32, &mut row)
        };
        if result.is_err() {
            break;
        }
        if load.reduced {
            reduce_precision(&mut row);
        }
        store(load, &mut lane.state.pe.array, r, &row);
    }
    lane.scratch.f32[2] = row;
    result?;
    let (rows, cols) = (load.tile.row_range(), load.tile.col_range());
    lane.state.pe.array.loaded(rows, cols, load.dtype, load.lanes);
    Outcome::none()
}

/// Reads a row of words with tags: replaces `row` by the weights and stores the tags.
fn words(load: &Load, lane: &mut Lane<'_>, r: usize, row: &mut Vec<f32>) -> Result<()> {
    let mut words = std::mem::take(&mut lane.scratch.bits[0]);
    let result = load.src.gather_bits(lane, r as u32, &mut words);
    lane.state.pe.tags.ensure(load.array.0, load.array.1);
    let (row0, _) = load.tile.row_range();
    let (col0, cols) = load.tile.col_range();
    row.clear();
    let mut widened = Ok(());
    for (i, word) in words.iter().enumerate() {
        let mut value = [0.0];
        widened = load_f32(load.dtype, &word.to_le_bytes()[..2], &mut value);
        row.push(value[0]);
        let c = if load.ascending { i } else { cols - 1 - i };
        lane.state.pe.tags.set(row0 + r, col0 + c, (word >> 16) as u8);
    }
    lane.scratch.bits[0] = words;
    result.and(widened)
}

/// Puts one source row into its cells.
fn store(load: &Load, array: &mut Array, r: usize, row: &[f32]) {
    let (row0, _) = load.tile.row_range();
    let (col0, cols) = load.tile.col_range();
    for i in 0..cols {
        let c = if load.ascending { i } else { cols - 1 - i };
        let (to_row, to_col) = if load.transpose { (c, r) } else { (r, c) };
        for l in 0..load.lanes {
            let weight = row[load.interleave.at(l, load.lanes, i, cols)] - load.zero_point;
            array.set(l, row0 + to_row, col0 + to_col, weight);
        }
    }
}

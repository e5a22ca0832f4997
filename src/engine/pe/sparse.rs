//! LDTAGS (0x06) and MATMUL_SPARSE (0x07).
//!
//! The moving operand carries up to four feature maps in each partition, and the four row groups
//! together sixteen for each row position; a 4-bit tag in each cell picks one of them:
//! bits 3:2 the row group, bits 1:0 the map in it. Narrower row tiles pick among fewer, with the
//! high bits forced when the tags are loaded. (wiki: firmware/kernels/sparsity-compress-tag)

use super::array::{Array, same_kind};
use super::matmul::{Destination, group_mode, output_dtype, write};
use super::product::{Moving, reduce_precision};
use super::tile::{Tile, TileFields};
use super::weights::{input_dtype, reduced, sbuf_operand, source};
use crate::engine::cost::Operands;
use crate::engine::{CostQuery, CostRow, Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Field, f};
use crate::numeric::Dtype;
use crate::numeric::simd::Level;

/// Rows of a row group; row positions repeat with this period.
const GROUP: usize = 32;

/// Feature maps of one row group that a tag can name.
const MAPS: usize = 4;

/// A tag that was never loaded.
const NO_TAG: u8 = 0xFF;

/// Tags of the cells, `[row][column]`; empty until the first load.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Tags {
    cols: usize,
    tags: Vec<u8>,
}

impl Tags {
    /// Makes room for `rows` x `cols` tags.
    pub fn ensure(&mut self, rows: usize, cols: usize) {
        if self.cols != cols || self.tags.len() != rows * cols {
            *self = Tags { cols, tags: vec![NO_TAG; rows * cols] };
        }
    }

    /// Stores the low four bits of `tag`. The cell exists.
    pub fn set(&mut self, row: usize, col: usize, tag: u8) {
        self.tags[row * self.cols + col] = tag & 0xF;
    }

    /// Row group and map that the cell picks.
    fn get(&self, row: usize, col: usize) -> Result<(usize, usize)> {
        match self.tags.get(row * self.cols + col) {
            Some(&tag) if tag != NO_TAG => Ok((usize::from(tag) / MAPS, usize::from(tag) % MAPS)),
            _ => Err(Error::undefined(
                "tags_loaded",
                format!("no tag was loaded for array row {row} column {col}"),
            )
            .help("load tags with LDTAGS before the sparse matmul")),
        }
    }
}

fn no_row_mode(env: &Env<'_>, field: Field) -> Result<()> {
    if env.inst.get(field) == 0 {
        return Ok(());
    }
    Err(Error::missing_spec("meaning of active_row_mode", "firmware/kernels/pe-matmul"))
}

/// LDTAGS 0x06: four tags in each UINT16, the lowest nibble for the largest column; words fill the
/// columns from the last one downwards.
pub(super) fn ldtags(env: &Env<'_>) -> Result<Prepared> {
    use f::s3_lt as t;
    let inst = env.inst;
    no_row_mode(env, t::ACTIVE_ROW_MODE)?;
    let dtype = Dtype::from_code(env.generation(), inst.get(t::IN_DTYPE) as u8)?;
    if dtype != Dtype::Uint16 {
        return Err(Error::illegal("ldtags_in_dtype", format!("tags of {}", dtype.name())));
    }
    let force = inst.get(t::FORCE_TAG_BITS) as u8;
    if !matches!(force, 0x0 | 0x4 | 0x8 | 0xC) {
        return Err(Error::illegal("force_tag_bits", format!("forced tag bits {force:#x}")));
    }
    if inst.get(t::COL_GRP) != 0xF {
        return Err(Error::illegal("col_grp", "tags are loaded for all columns"));
    }
    let rows = inst.get(t::NUM_ACTIVE_ROWS) as u32;
    let src = source(env, t::SRC, dtype, rows)?;
    let g = env.geometry();
    let (pe_rows, pe_cols) = (g.pe_rows as usize, g.pe_cols as usize);
    // Tags belong to the 128 columns that a column group mask can name.
    let cols = pe_cols.min(128);
    if src.len() * 4 > cols || (src.partition + rows) as usize > pe_rows {
        return Err(Error::illegal(
            "ldtags_count",
            format!("{} words of four tags for {cols} columns", src.len()),
        ));
    }
    let mut operands = Operands::new();
    src.cost_source(env, &mut operands);
    let cost = CostQuery::new(CostRow::LoadWeights, src.len() as u64 * 4, operands);
    let work = Work::new([src.read()], cost, move |lane| {
        lane.state.pe.tags.ensure(pe_rows, pe_cols);
        let mut words = std::mem::take(&mut lane.scratch.bits[0]);
        let mut result = Ok(());
        for r in 0..rows {
            result = src.gather_bits(lane, r, &mut words);
            if result.is_err() {
                break;
            }
            let row = (src.partition + r) as usize;
            for (i, word) in words.iter().enumerate() {
                for nibble in 0..4 {
                    let tag = (word >> (4 * nibble)) as u8 & 0xF | force;
                    lane.state.pe.tags.set(row, cols - 1 - (4 * i + nibble), tag);
                }
            }
        }
        lane.scratch.bits[0] = words;
        result?;
        Outcome::none()
    });
    Ok(work.into())
}

/// A sparse matmul, decoded.
struct Plan {
    tile: Tile,
    src: Operand,
    dst: Destination,
    maps: usize,
    reduced: bool,
    psum: (u32, u64),
}

/// MATMUL_SPARSE 0x07.
pub(super) fn matmul_sparse(env: &Env<'_>) -> Result<Prepared> {
    use f::s4d3_mm as m;
    const TILE: TileFields = TileFields {
        rows: m::NUM_ACTIVE_ROWS,
        cols: m::NUM_ACTIVE_COLS,
        row_grp: m::ROW_GRP,
        col_grp: m::COL_GRP,
        tile_size: None,
        tile_sel: None,
    };
    let inst = env.inst;
    no_row_mode(env, m::ACTIVE_ROW_MODE)?;
    if inst.get(m::PERF_OPT) != 0 {
        return Err(Error::missing_spec(
            "which performance modes a sparse matmul takes with which types",
            "firmware/kernels/pe-matmul",
        ));
    }
    let dtype = input_dtype(env, inst.get(m::IN_DTYPE))?;
    if dtype.is_int() {
        return Err(Error::illegal("pe_in_dtype", "a sparse matmul of integers"));
    }
    let reduced = reduced(env, dtype, inst.get(m::FP32_MODE))?;
    let rows = inst.get(m::NUM_ACTIVE_ROWS) as u32;
    let pattern = inst.tensor(m::SRC)?;
    let maps = pattern.dims.get(3).map_or(0, |d| usize::from(d.1));
    if !(2..=MAPS).contains(&maps) {
        return Err(Error::illegal("sparse_fmaps", format!("{maps} feature maps in a partition")));
    }
    let src = sbuf_operand(env, &pattern, dtype, rows)?;
    let tile = Tile::decode(env, &TILE, src.partition)?;
    tile.check_source(src.partition)?;
    let mode =
        group_mode(env, inst.get(m::PSUM_ACCUMULATE_FLAGS), inst.get(m::PSUM_ZERO_REGION), m::DST)?;
    let out = output_dtype(env, dtype, false, inst.get(m::OUT_DTYPE))?;
    let dst = Destination::decode(env, m::DST, out, &tile, mode)?;
    let n = dst.len();
    if src.len() != n * maps {
        return Err(Error::illegal(
            "tensor_same_num_elements",
            format!("{} elements are not {maps} maps of {n}", src.len()),
        ));
    }
    let mut operands = Operands::new();
    src.cost_source(env, &mut operands);
    let cost = CostQuery::new(CostRow::Matmul, n as u64, operands).cells(tile.cells);
    let flops = 2 * u64::from(tile.rows) * u64::from(tile.cols) * n as u64;
    let accesses: Vec<_> = std::iter::once(src.read()).chain(dst.accesses()).collect();
    let g = env.geometry();
    let psum = (g.psum_partitions, u64::from(g.psum_active));
    let opens = dst.opens();
    let plan = Plan { tile, src, dst, maps, reduced, psum };
    let work = Work::new(accesses, cost, move |lane| run(&plan, lane));
    Ok(work.flops(flops).opens(opens).into())
}

fn run(plan: &Plan, lane: &mut Lane<'_>) -> Result<Outcome> {
    let array = std::mem::take(&mut lane.state.pe.array);
    let tags = std::mem::take(&mut lane.state.pe.tags);
    let result = multiply(plan, lane, &array, &tags);
    lane.state.pe.array = array;
    lane.state.pe.tags = tags;
    result?;
    Outcome::none()
}

/// Sums over ascending rows from +0, like the dense product.
fn multiply(plan: &Plan, lane: &mut Lane<'_>, array: &Array, tags: &Tags) -> Result<()> {
    let contents = array.contents(plan.tile.row_range(), plan.tile.col_range())?;
    if !same_kind(contents.dtype, plan.src.dtype) || contents.lanes != 1 {
        return Err(Error::illegal("matmul_dtype_pair", "weights and moving data do not fit"));
    }
    let n = plan.dst.len();
    // Row `row * maps + map` of the moving data is one feature map.
    let data = std::mem::take(&mut lane.scratch.f32[0]);
    let rows = plan.tile.rows as usize * plan.maps;
    let mut moving = Moving::new(data, rows, n, Level::Scalar);
    let mut values = Vec::new();
    for r in 0..plan.tile.rows {
        plan.src.gather_f32(lane, r, &mut values)?;
        if plan.reduced {
            reduce_precision(&mut values);
        }
        for (map, part) in values.chunks_exact(n).enumerate() {
            moving.set_row(r as usize * plan.maps + map, part);
        }
    }
    let mut out = std::mem::take(&mut lane.scratch.f32[1]);
    out.clear();
    out.resize(plan.tile.cols as usize * moving.stride(), 0.0);
    let (row0, rows) = plan.tile.row_range();
    let (col0, cols) = plan.tile.col_range();
    for c in 0..cols {
        let sums = &mut out[c * moving.stride()..][..n];
        for r in 0..rows {
            let (group, map) = tags.get(row0 + r, col0 + c)?;
            let from = (row0 + r) % GROUP + group * GROUP;
            if map >= plan.maps || from < row0 || from >= row0 + rows {
                return Err(Error::undefined(
                    "sparse_tag",
                    format!(
                        "array row {} column {} picks map {map} of row group {group}, which is not sent",
                        row0 + r,
                        col0 + c
                    ),
                ));
            }
            let w = array.get(0, row0 + r, col0 + c);
            let k = (from - row0) * plan.maps + map;
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += w * moving.get(k, j);
            }
        }
    }
    let result = write(lane, plan.psum, &plan.dst, &plan.tile, &moving, &out);
    lane.scratch.f32[1] = out;
    lane.scratch.f32[0] = moving.data;
    result
}

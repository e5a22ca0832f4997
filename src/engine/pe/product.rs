//! From moving data and stored weights to the sums of one matmul.

use smallvec::SmallVec;

use super::array::{Array, BLOCK, Contents, Span};
use super::simd::{Job, multiply, panel};
use super::tile::Tile;
use crate::engine::{Lane, Operand};
use crate::error::{Error, Result};
use crate::numeric::minifloat::FP32R_MANTISSA_BITS;
use crate::numeric::simd::Level;

/// How the values of one source row are dealt out to the lanes of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interleave {
    /// The lanes of one column are neighbours.
    Inner,
    /// Each lane has its columns together.
    Outer,
}

impl Interleave {
    /// Position of lane `lane` of column `col`, of `cols` columns with `lanes` lanes.
    pub fn at(self, lane: usize, lanes: usize, col: usize, cols: usize) -> usize {
        match self {
            Interleave::Inner => col * lanes + lane,
            Interleave::Outer => lane * cols + col,
        }
    }
}

/// Moving data, packed for the multiplication loops.
pub(super) struct Moving {
    /// `[panel][contraction row][column]`.
    pub data: Vec<f32>,
    /// Columns without the padding of the last panel.
    pub cols: usize,
    /// Rows times lanes.
    pub rows: usize,
    /// Range of the values.
    pub span: Span,
    level: Level,
}

impl Moving {
    /// An empty one that reuses the buffer `data`.
    pub fn new(mut data: Vec<f32>, rows: usize, cols: usize, level: Level) -> Moving {
        // Old contents stay: `set_row` writes every value of a row, its padding included.
        data.resize(rows * cols.next_multiple_of(panel(level)), 0.0);
        Moving { data, cols, rows, span: Span::EMPTY, level }
    }

    /// Stores contraction row `k`.
    pub fn set_row(&mut self, k: usize, row: &[f32]) {
        let panel = panel(self.level);
        self.span.add(row);
        for (p, part) in row.chunks(panel).enumerate() {
            let at = (p * self.rows + k) * panel;
            let (values, padding) = self.data[at..at + panel].split_at_mut(part.len());
            values.copy_from_slice(part);
            padding.fill(0.0);
        }
    }

    /// The value of contraction row `k`, column `n`.
    pub fn get(&self, k: usize, n: usize) -> f32 {
        let panel = panel(self.level);
        self.data[(n / panel * self.rows + k) * panel + n % panel]
    }

    /// Values between two columns of results.
    pub fn stride(&self) -> usize {
        self.cols.next_multiple_of(panel(self.level))
    }
}

/// How v1 feeds several array rows from one row in memory: of every group of `rows` rows only the
/// first `resolution` are read. The next `resolution` rows of the group get the same elements
/// without the first `shift`, those after them without the first `2 * shift`, and so on
/// (vendor: field descriptions and wave generator of the first compiler for v1).
///
/// OPEN: where a shortened row ends, zeros follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replication {
    pub rows: u32,
    pub resolution: u32,
    pub shift: usize,
}

impl Replication {
    /// The row in memory that array row `k` gets, and how many of its elements are left out.
    pub fn source(&self, k: u32) -> (u32, usize) {
        let inside = k % self.rows;
        let copy = inside / self.resolution;
        (k - copy * self.resolution, copy as usize * self.shift)
    }
}

/// Reads the moving operand: `lanes` values for each row and column.
pub(super) fn read_moving(
    lane: &mut Lane<'_>,
    src: &Operand,
    (lanes, interleave): (usize, Interleave),
    replication: Option<Replication>,
    reduced: bool,
    level: Level,
) -> Result<Moving> {
    let cols = src.len() / lanes;
    let data = std::mem::take(&mut lane.scratch.f32[0]);
    let mut row = std::mem::take(&mut lane.scratch.f32[2]);
    let mut part = std::mem::take(&mut lane.scratch.f32[3]);
    let mut moving = Moving::new(data, src.channels as usize * lanes, cols, level);
    let mut result = Ok(());
    for k in 0..src.channels {
        let (from, skip) = replication.map_or((k, 0), |r| r.source(k));
        result = src.gather_f32(lane, from, &mut row);
        if result.is_err() {
            break;
        }
        if skip != 0 {
            let skip = skip.min(row.len());
            row.rotate_left(skip);
            let end = row.len() - skip;
            row[end..].fill(0.0);
        }
        if reduced {
            reduce_precision(&mut row);
        }
        if lanes == 1 {
            moving.set_row(k as usize, &row);
            continue;
        }
        for l in 0..lanes {
            part.clear();
            part.extend((0..cols).map(|n| row[interleave.at(l, lanes, n, cols)]));
            moving.set_row(k as usize * lanes + l, &part);
        }
    }
    lane.scratch.f32[2] = row;
    lane.scratch.f32[3] = part;
    result.map(|()| moving)
}

/// Rounds to the shortened mantissa of the reduced FP32 mode, to nearest even. OPEN: that the mode
/// rounds like FP32R, and the width of its mantissa (wiki: firmware/kernels/pe-matmul 4.3).
pub(super) fn reduce_precision(values: &mut [f32]) {
    const DROP: u32 = 23 - FP32R_MANTISSA_BITS;
    for v in values {
        let bits = v.to_bits();
        let rounded = bits.wrapping_add((1 << (DROP - 1)) - 1 + (bits >> DROP & 1)) >> DROP << DROP;
        *v = if v.is_finite() { f32::from_bits(rounded) } else { *v };
    }
}

/// FP32 sums of every column of `tile`: column c at `out[c * stride ..]`.
pub(super) fn sums(
    array: &Array,
    contents: &Contents,
    tile: &Tile,
    moving: &Moving,
    spare: &mut Vec<f32>,
    out: &mut Vec<f32>,
) -> Result<()> {
    let (row, rows) = tile.row_range();
    let (col, cols) = tile.col_range();
    let lanes = usize::from(contents.lanes);
    if rows * lanes != moving.rows {
        return Err(Error::illegal(
            "matmul_perf_mode",
            format!(
                "the weights have {lanes} values in each cell, the moving data {} for each row",
                moving.rows / rows.max(1)
            ),
        ));
    }
    let blocks = col / BLOCK..(col + cols).div_ceil(BLOCK);
    // Cells with several weights: their rows follow one another.
    if lanes > 1 {
        spare.clear();
        for block in blocks.clone() {
            for k in row..row + rows {
                for l in 0..lanes {
                    spare.extend_from_slice(array.block(l, block, k, 1));
                }
            }
        }
    }
    let weights: SmallVec<[&[f32]; 32]> = if lanes > 1 {
        spare.chunks_exact(moving.rows * BLOCK).collect()
    } else {
        blocks.map(|b| array.block(0, b, row, rows)).collect()
    };
    // Every value is written below.
    out.resize(weights.len() * BLOCK * moving.stride(), 0.0);
    multiply(
        moving.level,
        Job {
            rows: moving.rows,
            weights: &weights,
            moving: &moving.data,
            out,
            exact: contents.span.exact_with(moving.span),
        },
    );
    Ok(())
}

//! Which rows and columns of the array an instruction uses, and which partitions go with them.

use crate::engine::Env;
use crate::error::{Error, Result};
use crate::isa::{Field, Generation, b};
use crate::machine::array::cells;

/// A rectangle of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// First array row.
    pub row: u32,
    /// Active rows.
    pub rows: u32,
    /// First array column.
    pub col: u32,
    /// Active columns.
    pub cols: u32,
    /// Cells of the array that its groups span, for the time it takes.
    pub cells: u16,
}

/// Where the fields that describe a tile stand in a struct. A struct has the groups or the tile
/// bytes or neither (v1).
pub(super) struct TileFields {
    pub rows: Field,
    pub cols: Field,
    pub row_grp: Field,
    pub col_grp: Field,
    pub tile_size: Option<Field>,
    pub tile_sel: Option<Field>,
}

/// First row or column of a group mask and how many it spans, for one of the masks that exist
/// (wiki: dma/sbuf-psum-banks 5.2).
fn group(rule: &'static str, mask: u64) -> Result<(u32, u32)> {
    match mask {
        0xF => Ok((0, 128)),
        0x3 => Ok((0, 64)),
        0xC => Ok((64, 64)),
        0x1 => Ok((0, 32)),
        0x2 => Ok((32, 32)),
        0x4 => Ok((64, 32)),
        0x8 => Ok((96, 32)),
        _ => Err(Error::illegal(rule, format!("{mask:#x} is no group of rows or columns"))),
    }
}

impl Tile {
    /// Decodes the tile of a weight load or matmul.
    ///
    /// `source` is the partition of the source operand's first channel: v1 words carry no row
    /// group in MATMUL, so the partition says the row there (OPEN).
    ///
    /// # Errors
    /// `row_grp`, `col_grp`, `tile_size`, `num_active_rows`, `num_active_cols`.
    pub fn decode(env: &Env<'_>, fields: &TileFields, source: u32) -> Result<Tile> {
        let inst = env.inst;
        let g = env.geometry();
        let rows = inst.get(fields.rows) as u32;
        let mut cols = inst.get(fields.cols) as u32;
        let (row, max_rows, col, max_cols);
        if let (Some(size), Some(sel)) = (fields.tile_size, fields.tile_sel)
            && inst.has(size)
        {
            let (size, sel) = (inst.get(size), inst.get(sel));
            // Powers of two; the row codes are inferred from the column codes.
            let r = b::tile_size::ROW.get(size);
            let c = b::tile_size::COL.get(size);
            if !(6..=7).contains(&r) || !(7..=8).contains(&c) {
                return Err(Error::illegal(
                    "tile_size",
                    format!(
                        "tile size byte {size:#04x}: rows are 6 (64) or 7 (128), columns 7 (128) or 8 (256)"
                    ),
                ));
            }
            (max_rows, max_cols) = (1 << r, 1 << c);
            row = b::tile_sel::ROW_SEL.get(sel) as u32 * max_rows;
            col = b::tile_sel::COL_SEL.get(sel) as u32 * max_cols;
            if cols == 0 {
                cols = 256;
            }
        } else if inst.generation == Generation::V1 && !inst.has(fields.row_grp) {
            (row, max_rows, col, max_cols) = (source, g.pe_rows, 0, g.pe_cols);
        } else {
            // A v1 weight load may leave the masks out (OPEN: 0 means the whole array there).
            let v1 = inst.generation == Generation::V1;
            let mask = |m: u64| if v1 && m == 0 { 0xF } else { m };
            (row, max_rows) = group("row_grp", mask(inst.get(fields.row_grp)))?;
            (col, max_cols) = group("col_grp", mask(inst.get(fields.col_grp)))?;
            if v1 && row == 0 && source != 0 {
                return Tile::checked(source, rows, col, cols, (g.pe_rows, max_cols), g);
            }
        }
        Tile::checked(row, rows, col, cols, (max_rows, max_cols), g)
    }

    fn checked(
        row: u32,
        rows: u32,
        col: u32,
        cols: u32,
        (max_rows, max_cols): (u32, u32),
        g: &crate::memory::Geometry,
    ) -> Result<Tile> {
        if rows == 0 || rows > max_rows || row + rows > g.pe_rows {
            return Err(Error::illegal(
                "num_active_rows",
                format!("{rows} active rows from row {row}; this tile has {max_rows}"),
            ));
        }
        if cols == 0 || cols > max_cols || col + cols > g.pe_cols {
            return Err(Error::illegal(
                "num_active_cols",
                format!("{cols} active columns from column {col}; this tile has {max_cols}"),
            ));
        }
        let cells = cells((row, max_rows), (col, max_cols), (g.pe_rows, g.pe_cols));
        Ok(Tile { row, rows, col, cols, cells })
    }

    /// Checks that a source lies in the partitions that feed the tile's rows.
    ///
    /// # Errors
    /// `row_grp_partition`.
    pub fn check_source(&self, partition: u32) -> Result<()> {
        if partition == self.row {
            return Ok(());
        }
        Err(Error::illegal(
            "row_grp_partition",
            format!(
                "the source starts at partition {partition}, but array row {} is fed from partition {}",
                self.row, self.row
            ),
        ))
    }

    /// Array rows as (first, count).
    pub fn row_range(&self) -> (usize, usize) {
        (self.row as usize, self.rows as usize)
    }

    /// Array columns as (first, count).
    pub fn col_range(&self) -> (usize, usize) {
        (self.col as usize, self.cols as usize)
    }
}

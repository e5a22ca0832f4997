//! LDWEIGHTS_MX (0x09) and MATMUL_MX (0x0A): operands in 32-element blocks that share a scale.
//!
//! A word packs four contraction elements of one row; eight rows by one word are a block with one
//! scale byte. Every element is multiplied by its scale, exactly, before the product; the sum runs
//! over rows ascending and, inside a row, over the four elements of the word.
//! (wiki: compiler/mx-path; compiler/mx-device-bodies; wiki-cc: bir/sim-matmul-mx)

use super::array::Contents;
use super::matmul::{Destination, group_mode, output_dtype, scattered_beside, write};
use super::product::{Interleave, Moving, sums};
use super::tile::{Tile, TileFields};
use super::weights::whole_array;
use crate::engine::cost::Operands;
use crate::engine::indirection::{Offsets, refused, same_partition};
use crate::engine::{CostQuery, CostRow, Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Addr4, Field, Pattern, f};
use crate::memory::{Access, Location, Space};
use crate::numeric::mx::{BLOCK_ELEMENTS, BLOCK_PARTITIONS, dequantize};
use crate::numeric::simd::Level;
use crate::numeric::{Dtype, Walk, load_f32};

/// Elements of a word, which are the weights of a cell.
const LANES: usize = BLOCK_ELEMENTS;

/// Rows that keep their scales together.
const QUADRANT: u32 = 32;

/// An MX operand: packed words, and the scales of their blocks.
struct MxOperand {
    dtype: Dtype,
    /// One word for each column.
    words: Operand,
    /// Scale bytes of each quadrant of rows, one channel for eight rows.
    scales: Vec<Operand>,
}

impl MxOperand {
    /// Decodes the operand in `field`: `rows` partitions with a word for each of `columns`.
    ///
    /// OPEN: the step counts words, and the scales have the same step in bytes.
    fn decode(env: &Env<'_>, field: Field, code: u64, rows: u32) -> Result<MxOperand> {
        let dtype = match Dtype::from_code(env.generation(), code as u8)? {
            // Inside block formats the code means e4m3fn on every generation.
            Dtype::Fp8E4 | Dtype::Fp8E4Fn => Dtype::Fp8E4Fn,
            other if other.is_mx() => other,
            other => {
                return Err(Error::illegal(
                    "is_valid_mx_dtype",
                    format!("{} has no block format", other.name()),
                ));
            }
        };
        if !matches!(rows, 32 | 64 | 128) {
            return Err(Error::illegal("num_active_rows", format!("{rows} rows in an MX operand")));
        }
        let (index, data, scale, num, step, scale_partition) = match env.inst.pattern(field)? {
            Pattern::MxTensor { data, scale, num, step, scale_partition } => {
                (None, data, scale, num, step, scale_partition)
            }
            Pattern::MxIndirect { index, data, scale, num, scale_base_partition } => {
                (Some(index), data, scale, num, 1, scale_base_partition)
            }
            // the field has these two forms only
            _ => return Err(env.inst.tensor(field).err().unwrap_or_else(|| refused("MX operand"))),
        };
        if let Some(index) = index {
            let place = (data, scale, scale_partition);
            return MxOperand::gathered(env, dtype, rows, (index, columns(num)?), place);
        }
        let columns = u32::from(columns(num)?);
        let word = if dtype.bits() == 4 { Dtype::Uint16 } else { Dtype::Uint32 };
        let at = place(env, data)?;
        if !(at.byte as usize).is_multiple_of(word.size()) {
            return Err(Error::illegal("addr_aligned_dtype", "an MX operand starts inside a word"));
        }
        let step = i32::from(step);
        let walk = Walk::new(at.byte as usize, &[(step, columns)], word.size());
        let words = Operand::at(env, at, walk, word, rows, false)?;
        let at = place(env, scale)?;
        let mut scales = Vec::new();
        for quadrant in 0..rows / QUADRANT {
            let partition = at.partition + u32::from(scale_partition) + quadrant * QUADRANT;
            let walk = Walk::new(at.byte as usize, &[(step, columns)], 1);
            let groups = QUADRANT / BLOCK_PARTITIONS as u32;
            let at = Location { partition, ..at };
            scales.push(Operand::at(env, at, walk, Dtype::Uint8, groups, false)?);
        }
        Ok(MxOperand { dtype, words, scales })
    }

    /// The operand whose words and scales both lie behind the offsets at `index` (vendor docs:
    /// nki.isa.nc_matmul_mx: the pair uses the same offsets). An offset counts words, and scales.
    fn gathered(
        env: &Env<'_>,
        dtype: Dtype,
        rows: u32,
        (index, columns): (Addr4, u16),
        (data, scale, scale_partition): (Addr4, Addr4, u8),
    ) -> Result<MxOperand> {
        let word = if dtype.bits() == 4 { Dtype::Uint16 } else { Dtype::Uint32 };
        let offsets = Offsets::decode(env, index, columns, rows)?;
        let dynamic = [index, data, scale].iter().any(|a| a.reg().is_some());
        let at = place(env, data)?;
        let words = Operand::behind(env, at, offsets.clone(), word, rows, dynamic)?;
        same_partition(&words)?;
        let at = place(env, scale)?;
        let mut scales = Vec::new();
        for quadrant in 0..rows / QUADRANT {
            let partition = at.partition + u32::from(scale_partition) + quadrant * QUADRANT;
            let at = Location { partition, ..at };
            let groups = QUADRANT / BLOCK_PARTITIONS as u32;
            let offsets = offsets.of_group(quadrant);
            scales.push(Operand::behind(env, at, offsets, Dtype::Uint8, groups, dynamic)?);
        }
        Ok(MxOperand { dtype, words, scales })
    }

    fn columns(&self) -> usize {
        self.words.len()
    }

    fn accesses(&self) -> impl Iterator<Item = Access> {
        let tensors = std::iter::once(&self.words).chain(&self.scales).map(Operand::read);
        tensors.chain(self.words.offsets_read())
    }

    /// Replaces `out` by the scaled values of row `k`, four for each column.
    fn row(&self, lane: &mut Lane<'_>, k: u32, out: &mut Vec<f32>) -> Result<()> {
        let mut words = std::mem::take(&mut lane.scratch.bits[0]);
        let mut scales = std::mem::take(&mut lane.scratch.bits[1]);
        let groups = BLOCK_PARTITIONS as u32;
        let result = self.words.gather_bits(lane, k, &mut words).and_then(|()| {
            let of = &self.scales[(k / QUADRANT) as usize];
            of.gather_bits(lane, k % QUADRANT / groups, &mut scales)
        });
        out.clear();
        let mut widened = Ok(());
        for (word, scale) in words.iter().zip(&scales) {
            let mut values = [0.0; LANES];
            widened = load_f32(self.dtype, &word.to_le_bytes(), &mut values);
            out.extend(values.map(|v| dequantize(v, *scale as u8)));
        }
        lane.scratch.bits[0] = words;
        lane.scratch.bits[1] = scales;
        result.and(widened)
    }
}

/// Words of `num` elements.
///
/// # Errors
/// `mx_num_elem`.
fn columns(num: u16) -> Result<u16> {
    if num == 0 || !usize::from(num).is_multiple_of(LANES) {
        return Err(Error::illegal(
            "mx_num_elem",
            format!("{num} elements are no whole number of words of {LANES}"),
        ));
    }
    Ok(num / LANES as u16)
}

/// Place of an MX address: always SBUF.
fn place(env: &Env<'_>, addr: Addr4) -> Result<Location> {
    let address = match addr {
        Addr4::Imm(a) => a,
        Addr4::Reg(r) => env.register(r)?,
        other => {
            return Err(Error::illegal(
                "tensor_start_addr_valid",
                format!("{other:?} is not an address of an MX operand"),
            ));
        }
    };
    let at = env.geometry().decode(address)?;
    if at.space != Space::Sbuf {
        return Err(Error::illegal("allowed_in_psum", "PE reads its operands from SBUF only"));
    }
    Ok(at)
}

/// LDWEIGHTS_MX 0x09. The first word goes to the last column, as in the plain load.
pub(super) fn ldweights_mx(env: &Env<'_>) -> Result<Prepared> {
    use f::smx1_lw as l;
    const TILE: TileFields = TileFields {
        rows: l::NUM_ACTIVE_ROWS,
        cols: l::NUM_ACTIVE_COLS,
        row_grp: l::ROW_GRP,
        col_grp: l::COL_GRP,
        tile_size: None,
        tile_sel: None,
    };
    let inst = env.inst;
    let rows = inst.get(l::NUM_ACTIVE_ROWS) as u32;
    let src = MxOperand::decode(env, l::SRC, inst.get(l::IN_DTYPE), rows)?;
    let tile = Tile::decode(env, &TILE, src.words.partition)?;
    tile.check_source(src.words.partition)?;
    if src.words.offsets_partition().is_some() {
        whole_array(&tile, false)?;
    }
    if src.columns() != tile.cols as usize {
        return Err(Error::illegal(
            "num_active_cols",
            format!("{} words for {} columns", src.columns(), tile.cols),
        ));
    }
    let mut operands = Operands::new();
    src.words.cost_source(env, &mut operands);
    let cost =
        CostQuery::new(CostRow::LoadWeights, u64::from(tile.cols), operands).cells(tile.cells);
    let g = env.geometry();
    let shape = (g.pe_rows as usize, g.pe_cols as usize);
    let accesses: Vec<_> = src.accesses().collect();
    let work = Work::new(accesses, cost, move |lane| {
        let mut row = std::mem::take(&mut lane.scratch.f32[2]);
        lane.state.pe.array.ensure(shape.0, shape.1, LANES);
        let (row0, _) = tile.row_range();
        let (col0, cols) = tile.col_range();
        let mut result = Ok(());
        for k in 0..tile.rows {
            result = src.row(lane, k, &mut row);
            if result.is_err() {
                break;
            }
            for (i, values) in row.chunks_exact(LANES).enumerate() {
                for (l, v) in values.iter().enumerate() {
                    let at = (row0 + k as usize, col0 + cols - 1 - i);
                    lane.state.pe.array.set(l, at.0, at.1, *v);
                }
            }
        }
        lane.scratch.f32[2] = row;
        result?;
        let array = &mut lane.state.pe.array;
        array.loaded(tile.row_range(), tile.col_range(), src.dtype, LANES);
        Outcome::none()
    });
    Ok(work.into())
}

/// MATMUL_MX 0x0A.
pub(super) fn matmul_mx(env: &Env<'_>) -> Result<Prepared> {
    use f::smx1d3_mm as m;
    const TILE: TileFields = TileFields {
        rows: m::NUM_ACTIVE_ROWS,
        cols: m::NUM_ACTIVE_COLS,
        row_grp: m::ROW_GRP,
        col_grp: m::COL_GRP,
        tile_size: None,
        tile_sel: None,
    };
    let inst = env.inst;
    let rows = inst.get(m::NUM_ACTIVE_ROWS) as u32;
    let src = MxOperand::decode(env, m::SRC, inst.get(m::IN_DTYPE), rows)?;
    let tile = Tile::decode(env, &TILE, src.words.partition)?;
    tile.check_source(src.words.partition)?;
    let mode =
        group_mode(env, inst.get(m::PSUM_ACCUMULATE_FLAGS), inst.get(m::PSUM_ZERO_REGION), m::DST)?;
    let out = output_dtype(env, src.dtype, false, inst.get(m::OUT_DTYPE))?;
    let dst = Destination::decode(env, m::DST, out, &tile, mode)?;
    scattered_beside(&src.words, &dst)?;
    if src.words.offsets_partition().is_some() {
        whole_array(&tile, false)?;
    }
    let n = dst.len();
    if src.columns() != n {
        return Err(Error::illegal(
            "tensor_same_num_elements",
            format!("{} words for {n} results of a column", src.columns()),
        ));
    }
    let mut operands = Operands::new();
    src.words.cost_source(env, &mut operands);
    let cost = CostQuery::new(CostRow::Matmul, n as u64, operands).cells(tile.cells);
    let flops = 2 * u64::from(tile.rows) * u64::from(tile.cols) * (n * LANES) as u64;
    let accesses: Vec<_> = src.accesses().chain(dst.accesses()).collect();
    let g = env.geometry();
    let psum = (g.psum_partitions, u64::from(g.psum_active));
    let opens = dst.opens();
    let work = Work::new(accesses, cost, move |lane| {
        let moving = read(lane, &src)?;
        let array = std::mem::take(&mut lane.state.pe.array);
        let mut spare = std::mem::take(&mut lane.scratch.f32[3]);
        let mut out = std::mem::take(&mut lane.scratch.f32[1]);
        let result = array.contents(tile.row_range(), tile.col_range()).and_then(|contents| {
            blocks_meet(&contents)?;
            sums(&array, &contents, &tile, &moving, &mut spare, &mut out)
        });
        lane.state.pe.array = array;
        let result = result.and_then(|()| write(lane, psum, &dst, &tile, &moving, &out));
        lane.scratch.f32[1] = out;
        lane.scratch.f32[3] = spare;
        lane.scratch.f32[0] = moving.data;
        result?;
        Outcome::none()
    });
    Ok(work.flops(flops).opens(opens).into())
}

fn blocks_meet(weights: &Contents) -> Result<()> {
    if usize::from(weights.lanes) == LANES {
        return Ok(());
    }
    Err(Error::illegal("matmul_mx_weights", "the weights were not loaded by LDWEIGHTS_MX"))
}

fn read(lane: &mut Lane<'_>, src: &MxOperand) -> Result<Moving> {
    let columns = src.columns();
    let rows = src.words.channels as usize;
    let data = std::mem::take(&mut lane.scratch.f32[0]);
    let mut moving = Moving::new(data, rows * LANES, columns, Level::detect());
    let mut row = std::mem::take(&mut lane.scratch.f32[2]);
    let mut part = std::mem::take(&mut lane.scratch.f32[3]);
    let mut result = Ok(());
    for k in 0..rows {
        result = src.row(lane, k as u32, &mut row);
        if result.is_err() {
            break;
        }
        for l in 0..LANES {
            part.clear();
            part.extend((0..columns).map(|n| row[Interleave::Inner.at(l, LANES, n, columns)]));
            moving.set_row(k * LANES + l, &part);
        }
    }
    lane.scratch.f32[2] = row;
    lane.scratch.f32[3] = part;
    result.map(|()| moving)
}

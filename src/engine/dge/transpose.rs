//! DMA_TRANSPOSE and DMA_GATHER_TRANSPOSE: the crossbar transposes tiles on their way to SBUF.
//! (wiki: firmware/kernels/dma-transpose-opcode-cluster; dma/sbuf-psum-banks 6)

use std::mem::take;

use super::copy::{Shape, completion};
use super::indirect::IndexList;
use super::operand::{Bound, Pattern, bound, device_address, dims, two_i32, two_u16};
use crate::engine::{DmaRequest, Env, Lane, Outcome, Pace, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::f;
use crate::machine::address::DeviceMap;
use crate::machine::dma;
use crate::memory::{Access, Region, Space};
use crate::numeric::Dtype;

/// Source rows of a tile.
const TILE_ROWS: u64 = 16;

/// What the completion semaphore gains (OPEN: the words have no increment field).
const INCREMENT: u64 = 1;

/// Bytes that one unit of a step of DMA_TRANSPOSE counts (OPEN: elements are possible too).
const TRANSPOSE_STEP_UNIT: i64 = 1;

/// Partitions of a transposed tile, from the element size: 128 of 2 bytes, 64 of 4.
fn max_columns(size: u64) -> u64 {
    256 / size
}

/// DMA_TRANSPOSE 0xBD: every tile of 16 rows becomes 16 elements in as many partitions as the tile
/// has columns, `dst[c][r] = src[r][c]`.
///
/// OPEN: the two dimensions of either side count tiles, X innermost; all steps are in bytes; rows
/// of a tile are contiguous and `tile_src_row_step` bytes apart. A bound is tested at the start of
/// a tile.
pub fn dma_transpose(env: &Env<'_>) -> Result<Prepared> {
    use f::dma_direct2d_xpose as l;
    let size =
        element_size(env, env.inst.get(l::IN_DTYPE) as u8, env.inst.get(l::OUT_DTYPE) as u8)?;
    let rows = env.inst.get(l::TILE_SRC_ROWS);
    let columns = env.inst.get(l::TILE_SRC_COLS);
    if rows != TILE_ROWS || columns == 0 || columns > max_columns(size) {
        return Err(Error::illegal(
            "dma_transpose_tile",
            format!("a tile of {rows} rows and {columns} columns of {size} bytes"),
        ));
    }
    let map = DeviceMap::new(env.config);
    let pattern = |addr, steps, counts, element| -> Result<Pattern> {
        let (steps, counts) = (two_i32(env, steps), two_u16(env, counts));
        let dims = dims(env, addr, &steps, &counts, TRANSPOSE_STEP_UNIT)?;
        Ok(Pattern { base: device_address(env, addr)?, dims, element })
    };
    let src = pattern(l::SRC_START_ADDR, l::SRC_STEP_ELEM, l::SRC_NUM_ELEM, columns * size)?;
    let dst = pattern(l::DST_START_ADDR, l::DST_STEP_ELEM, l::DST_NUM_ELEM, TILE_ROWS * size)?;
    if src.points() != dst.points() {
        return Err(Error::illegal(
            "dma_length",
            format!("{} source tiles, {} destination tiles", src.points(), dst.points()),
        ));
    }
    let row_step = env.inst.get_i(l::TILE_SRC_ROW_STEP);
    let limits = [bound(env, l::SRC_BOUND_REG, true)?, bound(env, l::DST_BOUND_REG, true)?];
    let stride = partition_stride(&map, dst.base)?;
    let spread = |mut p: Pattern, step: i64, count: u64| {
        p.dims.insert(0, (step, count));
        p
    };
    let read = clipped(&map, &spread(src.clone(), row_step, TILE_ROWS), limits[0].is_none())?;
    let written = clipped(&map, &spread(dst.clone(), stride as i64, columns), limits[1].is_none())?;
    let space = read.space;
    let shape = shape(&read, &written, src.points() * TILE_ROWS, TILE_ROWS * src.bytes());
    let accesses = [access(read, false, limits), access(written, true, limits)];
    let work = Work::new(accesses, dma::cost(), move |lane| {
        let mut tile = take(&mut lane.scratch.bytes[0]);
        let mut skipped = 0;
        for t in 0..src.points() {
            let (from, to) = (src.address(t), dst.address(t));
            if limits.iter().zip([from, to]).any(|(l, a)| l.is_some_and(|l| a > l.limit)) {
                skipped += 1;
                continue;
            }
            tile.clear();
            for r in 0..TILE_ROWS as i64 {
                let at = map.run_in(space, from.wrapping_add_signed(r * row_step), src.element)?;
                let row = lane.mem.row(at.space, at.partition, at.byte, src.element)?;
                tile.extend_from_slice(row);
            }
            let line = src.element as usize;
            scatter(
                lane,
                &map,
                to,
                size as usize,
                columns,
                (0..TILE_ROWS as usize).map(Some),
                |r| &tile[r * line..(r + 1) * line],
            )?;
        }
        lane.scratch.bytes[0] = tile;
        outcome(skipped, limits)
    });
    let work = if limits.iter().any(Option::is_some) { work.with_outcome() } else { work };
    Ok(Prepared::Dma(DmaRequest {
        transfers: vec![shape.transfer(work)],
        semaphores: completion(env.inst.get(l::SEMAPHORE), INCREMENT),
    }))
}

/// DMA_GATHER_TRANSPOSE 0xF1: row i is row `idx[i]` of the source; it becomes column i of the
/// destination, an element in each partition. Rows longer than `elem_size` bytes become several
/// blocks of partitions' rows, `dst_step_elem_1` bytes apart.
///
/// A row whose index is out of range leaves its column as it is. OPEN: source steps count elements
/// of the dtype, as in the worked example, the destination step bytes.
pub fn dma_gather_transpose(env: &Env<'_>) -> Result<Prepared> {
    use f::dma_gather_xpose as l;
    let (low, high) = env.inst.dtype_pair(l::IN_OUT_DTYPE);
    let size = element_size(env, low, high)?;
    if size != 2 {
        return Err(Error::illegal("dma_gather_transpose_dtype", "elements of 2 bytes only"));
    }
    let block = env.inst.get(l::ELEM_SIZE);
    if !(2..=256).contains(&block) || !block.is_multiple_of(2) {
        return Err(Error::illegal("dma_gather_transpose_elem_size", format!("{block} bytes")));
    }
    let map = DeviceMap::new(env.config);
    let (steps, counts) = (two_i32(env, l::SRC_STEP_ELEM), two_u16(env, l::SRC_NUM_ELEM));
    let src_dims = dims(env, l::SRC_START_ADDR, &steps, &counts, size as i64)?;
    let base = device_address(env, l::SRC_START_ADDR)?;
    let ([(x_step, width), (row_step, count)], true) =
        ([0, 1].map(|d| src_dims.get(d).copied().unwrap_or((0, 1))), src_dims.len() <= 2)
    else {
        return Err(Error::illegal("dma_shape", "DMA_GATHER_TRANSPOSE has two dimensions"));
    };
    let to = device_address(env, l::DST_START_ADDR)?;
    let [columns, blocks] = two_u16(env, l::DST_NUM_ELEM).map(u64::from);
    let columns_per_block = block / size;
    if columns != count || blocks * columns_per_block != width {
        return Err(Error::illegal(
            "dma_length",
            format!(
                "{count} rows of {width} elements into {columns} columns and {blocks} blocks of \
                 {columns_per_block}"
            ),
        ));
    }
    let block_step = env.inst.get_i(l::DST_STEP_ELEM_1);
    let list = IndexList::new(
        env,
        l::SRC_IDX_START_ADDR,
        count,
        bound(env, l::SRC_IDX_BOUND_REG, false)?,
    )?;
    let limits = [None, bound(env, l::DST_BOUND_REG, true)?];
    let stride = partition_stride(&map, to)?;
    let pattern = |base, dims: &[(i64, u64)], element| Pattern { base, dims: dims.into(), element };
    let from_all = pattern(base, &[(x_step, width), (row_step, list.limit().max(1))], size);
    let to_all =
        pattern(to, &[(stride as i64, columns_per_block), (block_step, blocks)], columns * size);
    let read = clipped(&map, &from_all, false)?;
    let written = clipped(&map, &to_all, limits[1].is_none())?;
    let space = read.space;
    let shape = shape(&read, &written, count * blocks, count * width * size);
    let unsure = Some(Bound { limit: 0, notify: false });
    let accesses =
        [access(read, false, [unsure; 2]), access(written, true, [unsure; 2]), list.access()];
    let work = Work::new(accesses, dma::cost(), move |lane| {
        let mut indices = take(&mut lane.scratch.bits[0]);
        let mut rows = take(&mut lane.scratch.bytes[0]);
        list.read(lane, &mut indices)?;
        let mut skipped = 0;
        for j in 0..blocks {
            let target = to.wrapping_add_signed(block_step.wrapping_mul(j as i64));
            if limits[1].is_some_and(|l| target > l.limit) {
                skipped += 1;
                continue;
            }
            rows.clear();
            rows.resize((count * block) as usize, 0);
            for (row, &i) in rows.chunks_exact_mut(block as usize).zip(&indices) {
                if !list.admits(i)? {
                    continue;
                }
                let start = base.wrapping_add_signed(row_step.wrapping_mul(i as i64));
                for (c, element) in row.chunks_exact_mut(size as usize).enumerate() {
                    let x = (j * columns_per_block + c as u64) as i64;
                    let at = start.wrapping_add_signed(x_step.wrapping_mul(x));
                    let at = map.run_in(space, at, size)?;
                    element.copy_from_slice(lane.mem.row(at.space, at.partition, at.byte, size)?);
                }
            }
            let present = indices.iter().enumerate();
            let present = present.map(|(r, &i)| (i < list.limit()).then_some(r));
            scatter(lane, &map, target, size as usize, columns_per_block, present, |r| {
                &rows[r * block as usize..(r + 1) * block as usize]
            })?;
        }
        lane.scratch.bits[0] = indices;
        lane.scratch.bytes[0] = rows;
        outcome(skipped, limits)
    });
    let work = if limits[1].is_some() { work.with_outcome() } else { work };
    Ok(Prepared::Dma(DmaRequest {
        transfers: vec![shape.transfer(work)],
        semaphores: completion(env.inst.get(l::SEMAPHORE), INCREMENT),
    }))
}

/// Element size of a transpose, whose two dtypes are equal.
fn element_size(env: &Env<'_>, from: u8, to: u8) -> Result<u64> {
    let dtype = Dtype::from_code(env.generation(), from)?;
    if from != to || !matches!(dtype.size(), 2 | 4) {
        return Err(Error::illegal(
            "dma_transpose_dtype",
            format!("a transpose from dtype {from:#x} to {to:#x}"),
        ));
    }
    Ok(dtype.size() as u64)
}

/// Bytes between partitions at the destination, which must be SBUF.
fn partition_stride(map: &DeviceMap, dst: u64) -> Result<u64> {
    match map.memory(dst)?.space {
        Space::Sbuf => Ok(map.geometry().stride(Space::Sbuf)),
        other => Err(Error::illegal("dma_transpose_dst", format!("a transpose into {other}"))),
    }
}

/// The memory that `pattern` may touch: exactly, or clipped to what exists where a bound or an
/// index decides.
fn clipped(map: &DeviceMap, pattern: &Pattern, exact: bool) -> Result<Region> {
    if exact {
        let side = dma::Side::device(pattern.base, &pattern.dims, pattern.element, map)?;
        return Ok(side.region().0);
    }
    let (low, high) = pattern.reach();
    map.hull(pattern.base, low, high + i128::from(pattern.element))
}

fn access(region: Region, write: bool, limits: [Option<Bound>; 2]) -> Access {
    let access = if write { Access::write(region) } else { Access::read(region) };
    if limits.iter().any(Option::is_some) { access.maybe() } else { access }
}

fn shape(read: &Region, written: &Region, descriptors: u64, bytes: u64) -> Shape {
    Shape {
        partitions: [read, written].map(|r| if r.space == Space::Hbm { 0 } else { r.count }),
        load: read.space == Space::Hbm,
        descriptors,
        bytes,
        hbm: [read, written].map(|r| r.space == Space::Hbm),
        pace: Pace::Transpose,
    }
}

/// Writes rows as columns: element c of row r goes to partition c behind `to`, place r. Absent rows
/// leave their place as it is.
fn scatter<'r>(
    lane: &mut Lane<'_>,
    map: &DeviceMap,
    to: u64,
    size: usize,
    columns: u64,
    present: impl Iterator<Item = Option<usize>> + Clone,
    row: impl Fn(usize) -> &'r [u8],
) -> Result<()> {
    let rows = present.clone().count();
    let start = map.run_in(Space::Sbuf, to, (rows * size) as u64)?;
    if u64::from(start.partition) + columns > u64::from(map.geometry().partitions(Space::Sbuf)) {
        return Err(Error::illegal(
            "address_in_memory",
            format!("{columns} partitions from {} of SBUF", start.partition),
        ));
    }
    for c in 0..columns {
        let partition = start.partition + c as u32;
        let line = lane.mem.row_mut(start.space, partition, start.byte, (rows * size) as u64)?;
        for (place, r) in line.chunks_exact_mut(size).zip(present.clone()) {
            if let Some(r) = r {
                place.copy_from_slice(&row(r)[c as usize * size..][..size]);
            }
        }
    }
    Ok(())
}

fn outcome(skipped: u64, limits: [Option<Bound>; 2]) -> Result<Outcome> {
    let notify = limits.iter().flatten().any(|l| l.notify);
    let notice = (skipped > 0 && notify)
        .then(|| format!("{skipped} DMA tiles beyond the bound register were skipped"));
    Ok(Outcome { notice, ..Outcome::default() })
}

//! MATMUL (0x02): streams the moving operand through the array into PSUM.
//!
//! `out[c][n] = sum over k of weights[k][c] * moving[k][n]`, the sum over ascending rows in FP32
//! from +0 with one rounding for each product and each addition, then one addition to PSUM (OPEN:
//! the order of the array's own adders is not published). Integer inputs are summed as integers.
//! (wiki: firmware/kernels/pe-matmul; wiki-cc: bir/sim-matmul-mx)

use std::ops::Range;

use super::array::{Array, Contents, same_kind};
use super::product::{Interleave, Moving, Replication, read_moving, sums};
use super::psum::{Mode, Values, drain};
use super::tile::{Tile, TileFields};
use super::weights::{input_dtype, lanes, reduced, source, whole_array};
use crate::engine::cost::Operands;
use crate::engine::indirection::scatter_beside;
use crate::engine::{CostQuery, CostRow, Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Field, Generation, Pattern, b, e, f};
use crate::memory::{Access, ByteSet, Location, Region, Space};
use crate::numeric::convert::store_f32_config;
use crate::numeric::simd::Level;
use crate::numeric::{Dtype, Fp8Config, Rounding, Walk};

/// Fields that describe the tile of a matmul.
const TILE: TileFields = TileFields {
    rows: f::s3d3_mm::NUM_ACTIVE_ROWS,
    cols: f::s3d3_mm::NUM_ACTIVE_COLS,
    row_grp: f::s3d3_mm::ROW_GRP,
    col_grp: f::s3d3_mm::COL_GRP,
    tile_size: Some(f::s3d3_mm::TILE_SIZE),
    tile_sel: Some(f::s3d3_mm::TILE_SEL),
};

/// The destination of a matmul: which PSUM elements each array column writes.
pub(super) struct Destination {
    /// Up to 128 columns each.
    pub parts: Vec<Operand>,
    /// What happens to the old contents.
    pub mode: Mode,
}

impl Destination {
    /// Decodes the destination in `field`.
    ///
    /// On v5 a tile of 256 columns has 128 partitions to write to: the upper dimension of the
    /// pattern has two steps, for columns 0..127 and for columns 128..255 (wiki:
    /// firmware/kernels/pe-matmul 10).
    ///
    /// # Errors
    /// `matmul_dst`, `col_grp_partition`, and those of the operand.
    pub fn decode(
        env: &Env<'_>,
        field: Field,
        dtype: Dtype,
        tile: &Tile,
        mode: Mode,
    ) -> Result<Destination> {
        let partitions = env.geometry().psum_partitions;
        if let Pattern::Indirect { index, data, num } = env.inst.pattern(field)? {
            whole_array(tile, false)?;
            if tile.cols > partitions {
                return Err(Error::missing_spec(
                    "how the results of 256 columns are scattered",
                    "vendor docs: nki.isa.nc_matmul",
                ));
            }
            let place = |env: &Env<'_>, address| env.geometry().decode(address);
            let pattern = (index, data, num);
            let part = Operand::indirect(env, pattern, dtype, tile.cols, place)?;
            return Destination::of(env, vec![part], tile, mode);
        }
        let mut pattern = env.inst.tensor(field)?;
        let mut parts = Vec::new();
        if tile.cols > partitions {
            let upper = pattern.dims.last_mut();
            let Some((step, count)) = upper.filter(|d| d.1 == 2) else {
                return Err(Error::illegal(
                    "c256_dst",
                    "256 columns need a destination whose upper dimension is 2",
                ));
            };
            let step = i64::from(*step);
            *count = 1;
            let low = Operand::resolve(env, &pattern, dtype, partitions)?;
            let start = low.walk.start as i64 + step * dtype.size() as i64;
            let walk =
                Walk { start: usize::try_from(start).unwrap_or(usize::MAX), ..low.walk.clone() };
            let at = Location { space: low.space, partition: low.partition, byte: 0 };
            parts.push(low);
            parts.push(Operand::at(env, at, walk, dtype, tile.cols - partitions, false)?);
        } else {
            parts.push(Operand::resolve(env, &pattern, dtype, tile.cols)?);
        }
        Destination::of(env, parts, tile, mode)
    }

    fn of(env: &Env<'_>, parts: Vec<Operand>, tile: &Tile, mode: Mode) -> Result<Destination> {
        let partitions = env.geometry().psum_partitions;
        let base = tile.col % partitions;
        for part in &parts {
            if part.space != Space::Psum {
                return Err(Error::illegal("matmul_dst", "a matmul writes to PSUM only"));
            }
            if env.generation() != Generation::V1 && part.partition != base {
                return Err(Error::illegal(
                    "col_grp_partition",
                    format!(
                        "the destination starts at partition {}, but array column {} drains to {base}",
                        part.partition, tile.col
                    ),
                ));
            }
        }
        Ok(Destination { parts, mode })
    }

    /// Elements for each column.
    pub fn len(&self) -> usize {
        self.parts.first().map_or(0, Operand::len)
    }

    /// Part and channel of active column `c`.
    pub fn column(&self, c: u32) -> (&Operand, u32) {
        let first = self.parts[0].channels;
        if c < first { (&self.parts[0], c) } else { (&self.parts[1], c - first) }
    }

    /// Bytes whose accumulation the instruction starts afresh: the zero region in the partitions of
    /// its columns.
    pub fn opens(&self) -> Option<Region> {
        let Mode::Begin(bytes) = &self.mode else { return None };
        let part = self.parts.first()?;
        let set = ByteSet::dense(bytes.start, bytes.end - bytes.start);
        Some(Region::new(part.space, part.partition, part.channels, set))
    }

    /// Footprint of the writes.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        let accumulates = self.mode == Mode::Accumulate;
        self.parts.iter().flat_map(move |p| {
            let write = match accumulates {
                true => p.certainty(Access::accumulate(p.region())),
                false => p.write(),
            };
            p.offsets_read().into_iter().chain([write])
        })
    }
}

/// What an instruction of v1 to v4+ does to PSUM, from its group flags.
///
/// # Errors
/// `mm_psum_flags`, `psum_zero_region`.
pub(super) fn group_mode(env: &Env<'_>, flags: u64, zero_region: u64, dst: Field) -> Result<Mode> {
    use e::psum_acc_flags::{MULTI_END, MULTI_MID, MULTI_START, SINGLE};
    match flags as u8 {
        MULTI_MID | MULTI_END => Ok(Mode::Accumulate),
        MULTI_START | SINGLE => {
            let g = env.geometry();
            if zero_region > 3 {
                return Err(Error::illegal(
                    "psum_zero_region",
                    format!("zero region {zero_region}"),
                ));
            }
            let start = match env.inst.pattern(dst)? {
                Pattern::Indirect { data, .. } => data,
                _ => env.inst.tensor(dst)?.addr,
            };
            let address = match start.reg() {
                Some(r) => env.register(r)?,
                None => start.imm().unwrap_or(0),
            };
            let bank = u64::from(g.psum_bank);
            let first = u64::from(g.decode(address)?.byte) / bank * bank;
            let end = (first + (bank << zero_region)).min(u64::from(g.psum_active));
            Ok(Mode::Begin(first..end))
        }
        other => Err(Error::illegal("mm_psum_flags", format!("PSUM flags {other:#x}"))),
    }
}

/// Everything a matmul needs to run.
struct Plan {
    tile: Tile,
    src: Operand,
    dst: Destination,
    /// Moving columns that a cell takes at once, and how they lie in memory.
    order: (usize, Interleave),
    replication: Option<Replication>,
    reduced: bool,
    transpose: bool,
    zero_points: (i64, i64),
    psum: (u32, u64),
}

/// MATMUL 0x02.
pub(super) fn matmul(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_mm as m;
    let inst = env.inst;
    let v5 = env.generation() >= Generation::V5;
    let dtype = input_dtype(env, inst.get(m::IN_DTYPE))?;
    let reduced =
        if inst.has(m::FP32_MODE) { reduced(env, dtype, inst.get(m::FP32_MODE))? } else { false };
    let (lanes, interleave) = lanes(inst.get(m::PERF_OPT), dtype)?;
    if inst.get(m::PERF_MODE) != 0 {
        return Err(Error::missing_spec(
            "operand layout of the MX performance modes",
            "firmware/kernels/pe-matmul",
        ));
    }
    let replication = replication(env, lanes)?;
    let flags = inst.get(m::FLAGS);
    if b::matmul_flags::SEED_MODE.get(flags) != 0 {
        return Err(Error::missing_spec(
            "what seed_mode of a matmul does",
            "firmware/kernels/pe-matmul",
        ));
    }
    let transpose = inst.get(m::TRANSPOSE_MODE) != 0 || b::matmul_flags::XPOSE_MODE.get(flags) != 0;
    let mode = if v5 {
        if b::matmul_flags::ACCUMULATE_FLAG.get(flags) != 0 {
            Mode::Accumulate
        } else {
            Mode::Overwrite
        }
    } else {
        group_mode(env, inst.get(m::PSUM_ACCUMULATE_FLAGS), inst.get(m::PSUM_ZERO_REGION), m::DST)?
    };
    let out = output_dtype(env, dtype, transpose, inst.get(m::OUT_DTYPE))?;
    let rows = inst.get(m::NUM_ACTIVE_ROWS) as u32;
    let src = source(env, m::SRC, dtype, rows)?;
    let tile = Tile::decode(env, &TILE, src.partition)?;
    tile.check_source(src.partition)?;
    let dst = Destination::decode(env, m::DST, out, &tile, mode)?;
    scattered_beside(&src, &dst)?;
    if [&src, &dst.parts[0]].iter().any(|o| o.offsets_partition().is_some()) {
        whole_array(&tile, transpose)?;
    }
    check_count(&src, &dst, lanes)?;
    let zero_points = zero_points(env, dtype, inst.get(m::QUANT_OFFSET));
    let n = dst.len();
    let mut operands = Operands::new();
    src.cost_source(env, &mut operands);
    for part in &dst.parts {
        part.cost_dest(env, &mut operands);
    }
    let pumped = matches!(
        inst.get(m::PERF_OPT) as u8,
        e::perf_opt_mode::DOUBLE_COLUMN | e::perf_opt_mode::DOUBLE_PIXEL
    );
    // twice the rate (wiki: generations/cross-gen-opcode-diff 5.4)
    let columns = if pumped { n.div_ceil(2) } else { n };
    let cost = CostQuery::new(CostRow::Matmul, columns as u64, operands)
        .passes(passes(inst.get(m::FP32_MODE)))
        .cells(tile.cells);
    // an FP32 product is two instructions, each counts half (vendor docs: profile schema)
    let flops = 2 * u64::from(tile.rows) * u64::from(tile.cols) * (n * lanes) as u64
        / u64::from(cost.passes);
    let g = env.geometry();
    let psum = (g.psum_partitions, u64::from(g.psum_active));
    let reads = source_rows(&src, replication).chain(src.offsets_read());
    let accesses: Vec<_> = reads.chain(dst.accesses()).collect();
    let opens = dst.opens();
    let order = (lanes, interleave);
    let plan = Plan { tile, src, dst, order, replication, reduced, transpose, zero_points, psum };
    let work = Work::new(accesses, cost, move |lane| run(&plan, lane));
    Ok(work.flops(flops).opens(opens).into())
}

/// Replication of the rows of a v1 matmul.
///
/// # Errors
/// `ifmap_replication`, and a missing specification together with a performance mode.
fn replication(env: &Env<'_>, lanes: usize) -> Result<Option<Replication>> {
    use f::s3d3_mm as m;
    let get = |field| env.inst.get(field) as u32;
    let rows = get(m::IFMAP_REPLICATION_NUM_ROWS);
    let resolution = get(m::IFMAP_REPLICATION_RESOLUTION);
    let shift = get(m::IFMAP_REPLICATION_SHIFT_AMNT) as usize;
    if resolution == 0 {
        return Ok(None);
    }
    if rows < resolution {
        return Err(Error::illegal(
            "ifmap_replication",
            format!("groups of {rows} rows of which the first {resolution} are replicated"),
        ));
    }
    if lanes != 1 {
        return Err(Error::missing_spec(
            "input replication of a v1 matmul in a performance mode",
            "generations/cross-gen-opcode-diff 5.4",
        ));
    }
    Ok(Some(Replication { rows, resolution, shift }))
}

/// Reads of the rows of `src` that lie in memory.
fn source_rows(src: &Operand, replication: Option<Replication>) -> impl Iterator<Item = Access> {
    let all = src.region();
    let groups = replication.map_or(1, |r| src.channels.div_ceil(r.rows));
    let (space, first, channels) = (src.space, src.partition, src.channels);
    let whole = src.read();
    (0..groups).map(move |g| match replication {
        None => whole.clone(),
        Some(r) => {
            let start = g * r.rows;
            let rows = r.resolution.min(channels - start);
            Access::read(Region::new(space, first + start, rows, all.bytes.clone()))
        }
    })
}

/// Passes of the moving data through the array. OPEN for HIGH; the others are stated
/// (wiki: firmware/kernels/pe-matmul 4.3).
pub(super) fn passes(fp32_mode: u64) -> u32 {
    if fp32_mode as u8 == e::pe_fp32mode::LOW_HIGH { 2 } else { 1 }
}

/// Element type in PSUM. Integer inputs give integer sums; a transpose keeps the width of its
/// input, 8-bit elements widened to 16 bits (hardware-confirmed on v3 by the vendor's notes).
pub(super) fn output_dtype(
    env: &Env<'_>,
    input: Dtype,
    transpose: bool,
    code: u64,
) -> Result<Dtype> {
    if transpose {
        return Ok(if input.size() == 4 { Dtype::Uint32 } else { Dtype::Uint16 });
    }
    match input {
        Dtype::Uint8 => return Ok(Dtype::Int32),
        Dtype::Uint16 => return Ok(Dtype::Int64),
        _ => {}
    }
    if code == 0 {
        return Ok(Dtype::Fp32);
    }
    match Dtype::from_code(env.generation(), code as u8)? {
        Dtype::Fp32 => Ok(Dtype::Fp32),
        Dtype::Bf16 if env.generation() >= Generation::V4 => Ok(Dtype::Bf16),
        other => Err(Error::illegal(
            "matmul_out_dtype",
            format!("PSUM takes no {} results on {}", other.name(), env.generation()),
        )),
    }
}

/// The offsets of a scattered result start in the partition of the stationary operand (vendor docs:
/// nki.isa.nc_matmul), which lies beside the moving one.
///
/// # Errors
/// `tensor_indirection`.
pub(super) fn scattered_beside(src: &Operand, dst: &Destination) -> Result<()> {
    dst.parts.iter().try_for_each(|p| scatter_beside(p, Some((Space::Sbuf, src.partition))))
}

fn check_count(src: &Operand, dst: &Destination, lanes: usize) -> Result<()> {
    if src.len() == dst.len() * lanes {
        return Ok(());
    }
    Err(Error::illegal(
        "tensor_same_num_elements",
        format!(
            "the source has {} elements in a partition, the destination {} and each takes {lanes}",
            src.len(),
            dst.len()
        ),
    ))
}

/// Zero points of moving data and weights. On v1 the word has one byte for each with 8-bit inputs
/// and (OPEN) the whole field for the data with 16-bit ones; from v2 on it holds the data's.
fn zero_points(env: &Env<'_>, dtype: Dtype, field: u64) -> (i64, i64) {
    match dtype {
        Dtype::Uint8 if env.generation() == Generation::V1 => {
            ((field & 0xFF) as i64, (field >> 8) as i64)
        }
        _ if dtype.is_int() => (field as i64, 0),
        _ => (0, 0),
    }
}

fn run(plan: &Plan, lane: &mut Lane<'_>) -> Result<Outcome> {
    let array = std::mem::take(&mut lane.state.pe.array);
    let result = multiply(plan, lane, &array);
    lane.state.pe.array = array;
    result?;
    Outcome::none()
}

fn multiply(plan: &Plan, lane: &mut Lane<'_>, array: &Array) -> Result<()> {
    let tile = &plan.tile;
    let contents = array.contents(tile.row_range(), tile.col_range())?;
    if !same_kind(contents.dtype, plan.src.dtype) {
        return Err(Error::illegal(
            "matmul_dtype_pair",
            format!(
                "weights of {} meet moving data of {}",
                contents.dtype.name(),
                plan.src.dtype.name()
            ),
        ));
    }
    let moving =
        read_moving(lane, &plan.src, plan.order, plan.replication, plan.reduced, Level::detect())?;
    let result = if plan.transpose {
        transposed(plan, lane, array, &contents, &moving)
    } else if plan.src.dtype.is_int() {
        integers(plan, lane, array, &contents, &moving)
    } else {
        let mut spare = std::mem::take(&mut lane.scratch.f32[3]);
        let mut out = std::mem::take(&mut lane.scratch.f32[1]);
        let result = sums(array, &contents, tile, &moving, &mut spare, &mut out)
            .and_then(|()| write(lane, plan.psum, &plan.dst, tile, &moving, &out));
        lane.scratch.f32[1] = out;
        lane.scratch.f32[3] = spare;
        result
    };
    lane.scratch.f32[0] = moving.data;
    result
}

/// Hands the sums of every column to PSUM, which has `psum` partitions and bytes in each.
pub(super) fn write(
    lane: &mut Lane<'_>,
    psum: (u32, u64),
    dst: &Destination,
    tile: &Tile,
    moving: &Moving,
    out: &[f32],
) -> Result<()> {
    columns(lane, psum, dst, tile, |lane, c, put| {
        put(lane, Values::Float(&out[c as usize * moving.stride()..][..moving.cols]))
    })
}

/// Lets `f` make the values of each column of the tile and hand them to PSUM.
fn columns(
    lane: &mut Lane<'_>,
    psum: (u32, u64),
    dst: &Destination,
    tile: &Tile,
    mut f: impl FnMut(
        &mut Lane<'_>,
        u32,
        &mut dyn FnMut(&mut Lane<'_>, Values<'_>) -> Result<()>,
    ) -> Result<()>,
) -> Result<()> {
    let mut pending = std::mem::take(&mut lane.state.pe.pending);
    let mut seeds = std::mem::take(&mut lane.state.pe.seeds);
    pending.ensure(psum.0, psum.1);
    let mut result = Ok(());
    for c in 0..tile.cols {
        let (part, channel) = dst.column(c);
        result = f(lane, c, &mut |lane, values| {
            drain(lane, &mut pending, part, channel, values, &dst.mode, &mut seeds)
        });
        if result.is_err() {
            break;
        }
    }
    lane.state.pe.pending = pending;
    lane.state.pe.seeds = seeds;
    result
}

/// Cells (lane, row) of the tile in contraction order.
fn cells(plan: &Plan, contents: &Contents) -> Range<usize> {
    0..plan.tile.rows as usize * usize::from(contents.lanes)
}

/// Integer sums (wiki: generations/cross-gen-opcode-diff 5.4): exact, the result wraps in PSUM.
fn integers(
    plan: &Plan,
    lane: &mut Lane<'_>,
    array: &Array,
    contents: &Contents,
    moving: &Moving,
) -> Result<()> {
    let lanes = same_lanes(plan, contents)?;
    let (row, _) = plan.tile.row_range();
    let mut values = std::mem::take(&mut lane.scratch.i64[0]);
    let result = columns(lane, plan.psum, &plan.dst, &plan.tile, |lane, c, put| {
        values.clear();
        values.resize(moving.cols, 0);
        let col = (plan.tile.col + c) as usize;
        for k in cells(plan, contents) {
            let w = array.get(k % lanes, row + k / lanes, col) as i64 - plan.zero_points.1;
            for (n, v) in values.iter_mut().enumerate() {
                *v = v.wrapping_add(w * (moving.get(k, n) as i64 - plan.zero_points.0));
            }
        }
        put(lane, Values::Int(&values))
    });
    lane.scratch.i64[0] = values;
    result
}

fn same_lanes(plan: &Plan, contents: &Contents) -> Result<usize> {
    let lanes = usize::from(contents.lanes);
    if plan.order.0 == lanes {
        return Ok(lanes);
    }
    Err(Error::illegal("matmul_perf_mode", "the weights were loaded for another mode"))
}

/// Transpose mode: the moving operand is an identity (or any permutation), and the cell it selects
/// passes its weight on unchanged. Cells whose moving value is zero take no part, so NaN and
/// infinity stay where they are (hardware-confirmed from v3 on by the vendor's notes). OPEN: a
/// column of the moving operand that selects several cells gives the FP32 sum of their products.
fn transposed(
    plan: &Plan,
    lane: &mut Lane<'_>,
    array: &Array,
    contents: &Contents,
    moving: &Moving,
) -> Result<()> {
    let lanes = same_lanes(plan, contents)?;
    let (row, _) = plan.tile.row_range();
    let mut values = std::mem::take(&mut lane.scratch.bits[0]);
    let result = columns(lane, plan.psum, &plan.dst, &plan.tile, |lane, c, put| {
        let col = (plan.tile.col + c) as usize;
        values.clear();
        for n in 0..moving.cols {
            let mut picked: Option<f32> = None;
            for k in cells(plan, contents) {
                let x = moving.get(k, n);
                if x != 0.0 {
                    let w = array.get(k % lanes, row + k / lanes, col);
                    let product = if x == 1.0 { w } else { w * x };
                    picked = Some(picked.map_or(product, |p| p + product));
                }
            }
            let mut bytes = [0; 4];
            let value = [picked.unwrap_or(0.0)];
            // The raw settings: an infinity keeps its code.
            let raw = &Fp8Config::RAW;
            store_f32_config(contents.dtype, &value, &mut bytes, Rounding::NearestEven, raw)?;
            values.push(u64::from(u32::from_le_bytes(bytes)));
        }
        put(lane, Values::Bits(&values))
    });
    lane.scratch.bits[0] = values;
    result
}

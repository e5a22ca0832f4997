//! DMA: transfers between HBM, SBUF and PSUM, their footprints, and the time they take.
//!
//! A copy is cut over the DMA engines that its SBUF partitions select; each engine works off its
//! pieces in order. (wiki: dma/udma-hw-engine; vendor docs: nki-dma-overview)

use std::sync::Arc;

use smallvec::SmallVec;

use super::address::DeviceMap;
use super::config::{DmaConfig, MachineConfig, Numerics};
use super::time::Timebase;
use crate::engine::cost::{CostQuery, CostRow, Operands};
use crate::engine::{Outcome, Pace, Transfer, Work};
use crate::error::{Error, ErrorClass, Result};
use crate::memory::{Access, AccessKind, ByteSet, Geometry, Region, Space};
use crate::numeric;
use crate::program::{DmaBlock, DmaSide, Memory as ProgramMemory};

/// Most points of one transfer's pattern; more is refused before memory is spent on it.
const MAX_POINTS: u64 = 1 << 28;

/// Most bytes of one transfer, which are buffered: a damaged pattern must not exhaust the host.
const MAX_BYTES: u64 = 1 << 32;

/// One side of a copy with its partition dimension taken apart.
#[derive(Clone, Debug)]
pub struct Side {
    /// Memory.
    pub space: Space,
    /// First partition and byte in it (HBM: partition 0).
    pub partition: u32,
    /// First byte in the partition.
    pub byte: u64,
    /// (partition step, byte step, count), innermost first.
    pub dims: SmallVec<[(i64, i64, u64); 5]>,
    /// Bytes at each point.
    pub element: u64,
}

impl Side {
    /// Takes apart a pattern over linear addresses.
    ///
    /// # Errors
    /// `dma_address` where no memory is.
    pub fn new(side: &DmaSide, config: &MachineConfig) -> Result<Side> {
        let geometry = &config.geometry;
        let points = side.dims.iter().try_fold(1u64, |n, d| n.checked_mul(d.1));
        if side.element_bytes == 0 || points.is_none_or(|p| p == 0 || p > MAX_POINTS) {
            return Err(Error::new(
                ErrorClass::ProgramError,
                format!("DMA pattern of {} points", side.points()),
            ));
        }
        let (space, partition, byte) = match side.memory {
            ProgramMemory::Hbm => (Space::Hbm, 0, config.address_map.hbm_offset(side.address)?),
            _ => {
                let address = u32::try_from(side.address).map_err(|_| {
                    Error::illegal(
                        "dma_address",
                        format!("{:#x} is no on-chip address", side.address),
                    )
                })?;
                let at = match side.memory {
                    ProgramMemory::Sbuf => geometry.decode_sbuf(address)?,
                    _ => geometry.decode(address)?,
                };
                (at.space, at.partition, u64::from(at.byte))
            }
        };
        Side::at(space, partition, byte, &side.dims, side.element_bytes, geometry)
    }

    /// A pattern over device addresses: byte steps and counts, innermost first.
    ///
    /// # Errors
    /// `device_address`, `dma_address` where no memory is.
    pub fn device(base: u64, dims: &[(i64, u64)], element: u64, map: &DeviceMap) -> Result<Side> {
        let at = map.memory(base)?;
        Side::at(at.space, at.partition, at.byte, dims, element, map.geometry())
    }

    fn at(
        space: Space,
        partition: u32,
        byte: u64,
        steps: &[(i64, u64)],
        element: u64,
        geometry: &Geometry,
    ) -> Result<Side> {
        let points = steps.iter().try_fold(1u64, |n, d| n.checked_mul(d.1));
        if points.and_then(|n| n.checked_mul(element)).is_none_or(|bytes| bytes > MAX_BYTES) {
            return Err(Error::new(
                ErrorClass::LimitReached,
                format!("a DMA pattern of more than {MAX_BYTES} bytes"),
            ));
        }
        let stride = geometry.stride(space) as i64;
        let mut dims = SmallVec::new();
        for &(step, count) in steps {
            if space == Space::Hbm {
                dims.push((0, step, count));
            } else {
                // the nearest whole number of partitions, the rest are bytes
                let partitions = step.saturating_add(stride / 2).div_euclid(stride);
                dims.push((partitions, step - partitions * stride, count));
            }
        }
        let side = Side { space, partition, byte, dims, element };
        side.check(geometry)?;
        Ok(side)
    }

    fn check(&self, geometry: &Geometry) -> Result<()> {
        let reach = |of: fn(&(i64, i64, u64)) -> i64| {
            self.dims.iter().fold((0i128, 0i128), |(low, high), d| {
                let span = i128::from(of(d)) * i128::from(d.2 - 1);
                (low + span.min(0), high + span.max(0))
            })
        };
        let ((p0, p1), (b0, b1)) = (reach(|d| d.0), reach(|d| d.1));
        let (p, b) = (i128::from(self.partition), i128::from(self.byte));
        if p + p0 < 0
            || p + p1 >= i128::from(geometry.partitions(self.space))
            || b + b0 < 0
            || b + b1 + i128::from(self.element) > i128::from(geometry.active(self.space))
        {
            return Err(Error::illegal(
                "dma_address",
                format!(
                    "the pattern covers {} partitions {}..={} bytes {:#x}..{:#x}, beyond the memory",
                    self.space,
                    p + p0,
                    p + p1,
                    b + b0,
                    b + b1 + i128::from(self.element)
                ),
            ));
        }
        Ok(())
    }

    /// Footprint, and whether the side surely touches all of it: patterns that skip partitions or
    /// couple partition and byte are covered by a box.
    pub fn region(&self) -> (Region, bool) {
        let (mut first, mut count, mut exact) = (i64::from(self.partition), 1u64, true);
        let mut bytes: SmallVec<[(i64, u64); 5]> = SmallVec::new();
        for &(p, b, n) in &self.dims {
            if b != 0 {
                bytes.push((b, n));
            }
            if p != 0 && n > 1 {
                exact &= b == 0 && (p.unsigned_abs() <= count);
                first += p.min(0) * (n as i64 - 1);
                count += p.unsigned_abs() * (n - 1);
            }
        }
        let set = ByteSet::strided(self.byte as i64, self.element, bytes)
            .unwrap_or_else(|| ByteSet::dense(self.byte, self.element));
        (Region::new(self.space, first as u32, count as u32, set), exact)
    }

    /// Its access in a footprint.
    pub fn access(&self, kind: AccessKind) -> Access {
        let (region, certain) = self.region();
        Access { kind, region, certain }
    }

    /// Partitions touched.
    pub fn partitions(&self) -> u32 {
        if self.space == Space::Hbm { 0 } else { self.region().0.count }
    }

    /// Contiguous runs: descriptors needed on this side.
    fn runs(&self) -> u64 {
        let mut contiguous = self.element as i64;
        let mut runs = 1;
        for &(p, b, n) in &self.dims {
            if p == 0 && runs == 1 && b == contiguous {
                contiguous *= n as i64;
            } else {
                runs *= n;
            }
        }
        runs
    }

    /// Elements of the pattern.
    pub fn points(&self) -> u64 {
        self.dims.iter().map(|d| d.2).product()
    }

    /// Bytes in the innermost contiguous run, and the number of innermost dimensions it spans.
    pub fn inner(&self) -> (u64, usize) {
        let mut bytes = self.element;
        for (i, &(p, b, n)) in self.dims.iter().enumerate() {
            if p != 0 || b != bytes as i64 {
                return (bytes, i);
            }
            bytes *= n;
        }
        (bytes, self.dims.len())
    }

    /// Calls `f(partition, byte)` for each run of `run` bytes, in pattern order. `skip` innermost
    /// dimensions lie inside the runs.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn for_each(&self, skip: usize, mut f: impl FnMut(u32, u64) -> Result<()>) -> Result<()> {
        let dims = &self.dims[skip..];
        let mut index: SmallVec<[u64; 5]> = SmallVec::from_elem(0, dims.len());
        let (mut p, mut b) = (i64::from(self.partition), self.byte as i64);
        loop {
            f(p as u32, b as u64)?;
            let mut d = 0;
            loop {
                if d == dims.len() {
                    return Ok(());
                }
                index[d] += 1;
                p += dims[d].0;
                b += dims[d].1;
                if index[d] < dims[d].2 {
                    break;
                }
                p -= dims[d].0 * dims[d].2 as i64;
                b -= dims[d].1 * dims[d].2 as i64;
                index[d] = 0;
                d += 1;
            }
        }
    }
}

/// The transfers of a block.
///
/// # Errors
/// Sides of different length, addresses beyond the memory, conversions that do not exist.
pub fn block_transfers(block: &DmaBlock, config: &MachineConfig) -> Result<Vec<Transfer>> {
    block
        .transfers
        .iter()
        .map(|t| {
            let src = Side::new(&t.src, config)?;
            let dst = Side::new(&t.dst, config)?;
            if t.src.dtype == t.dst.dtype {
                copy(src, dst)
            } else {
                let generation = config.generation.parse()?;
                let dtype = |e: crate::program::ElemType| -> Result<numeric::Dtype> {
                    let dtype = numeric::Dtype::from_code(generation, e.code())?;
                    Ok(config.numerics.fp8.resolve(generation, dtype))
                };
                let (from, to) = (dtype(t.src.dtype)?, dtype(t.dst.dtype)?);
                convert(src, dst, from, to, config.numerics)
            }
        })
        .collect()
}

/// The transfer from `src` to `dst` whose effect is `run`.
pub fn transfer(src: &Side, dst: &Side, run: Work) -> Transfer {
    let bytes = src.points() * src.element;
    let hbm = || [src, dst].into_iter().filter(|s| s.space == Space::Hbm);
    Transfer {
        bytes,
        partitions: src.partitions().max(dst.partitions()),
        load: src.space == Space::Hbm,
        descriptors: src.runs().max(dst.runs()),
        hbm_bytes: hbm().map(|s| s.points() * s.element).sum(),
        hbm_rows: hbm().map(|s| s.runs() - 1).max().unwrap_or(0),
        pace: Pace::Copy,
        work: run,
    }
}

/// The cost query of a transfer, which nobody uses: the DMA model times bytes.
pub fn cost() -> CostQuery {
    CostQuery::new(CostRow::Other, 0, Operands::new())
}

/// A copy that keeps the bits. The two sides may cut the bytes differently.
///
/// # Errors
/// `dma_length` if the sides differ in bytes.
pub fn copy(src: Side, dst: Side) -> Result<Transfer> {
    let bytes = src.points() * src.element;
    if bytes != dst.points() * dst.element {
        return Err(Error::illegal(
            "dma_length",
            format!("the source has {bytes} bytes, the destination {}", dst.points() * dst.element),
        ));
    }
    let accesses = [src.access(AccessKind::Read), dst.access(AccessKind::Write)];
    let sides = Arc::new((src, dst));
    let shared = Arc::clone(&sides);
    let work = Work::new(accesses, cost(), move |lane| {
        let (src, dst) = &*shared;
        let (src_run, src_skip) = src.inner();
        let (dst_run, dst_skip) = dst.inner();
        let buffer = &mut lane.scratch.bytes[0];
        buffer.clear();
        buffer.reserve(bytes as usize);
        src.for_each(src_skip, |p, b| {
            buffer.extend_from_slice(lane.mem.row(src.space, p, b, src_run)?);
            Ok(())
        })?;
        let mut at = 0;
        let buffer = &lane.scratch.bytes[0];
        dst.for_each(dst_skip, |p, b| {
            let next = at + dst_run as usize;
            lane.mem.row_mut(dst.space, p, b, dst_run)?.copy_from_slice(&buffer[at..next]);
            at = next;
            Ok(())
        })?;
        Outcome::none()
    });
    Ok(transfer(&sides.0, &sides.1, work))
}

/// Converts contiguous elements as a transfer does: like an engine copy, except that integers never
/// pass through floating point (OPEN: dma choice 6; vendor: release notes of NKI).
///
/// # Errors
/// Those of the conversions.
pub fn convert_elements(
    from: numeric::Dtype,
    to: numeric::Dtype,
    input: &[u8],
    output: &mut [u8],
    rounding: numeric::Rounding<'_>,
    fp8: &numeric::Fp8Config,
) -> Result<()> {
    if from == to || !(from.is_int() && to.is_int()) {
        return numeric::convert::convert_config(from, to, input, output, rounding, fp8);
    }
    let (from_size, to_size) = (from.size(), to.size());
    let mut values = [0i64; 64];
    for (i, o) in input.chunks(64 * from_size).zip(output.chunks_mut(64 * to_size)) {
        let values = &mut values[..i.len() / from_size];
        numeric::load_i64(from, i, values)?;
        for value in values.iter_mut() {
            let exact = match from {
                numeric::Dtype::Uint64 => i128::from(*value as u64),
                _ => i128::from(*value),
            };
            *value = numeric::convert::saturate_i64(to, exact)?;
        }
        numeric::store_i64(to, values, o)?;
    }
    Ok(())
}

/// A copy that converts element by element, see [`convert_elements`].
///
/// # Errors
/// `dma_length` if the sides differ in elements.
pub fn convert(
    src: Side,
    dst: Side,
    from: numeric::Dtype,
    to: numeric::Dtype,
    numerics: Numerics,
) -> Result<Transfer> {
    let (src_size, dst_size) = (from.size() as u64, to.size() as u64);
    let elements = src.points() * src.element / src_size;
    if elements != dst.points() * dst.element / dst_size
        || !src.element.is_multiple_of(src_size)
        || !dst.element.is_multiple_of(dst_size)
    {
        return Err(Error::illegal("dma_length", "the sides differ in elements"));
    }
    let accesses = [src.access(AccessKind::Read), dst.access(AccessKind::Write)];
    let sides = Arc::new((src, dst));
    let shared = Arc::clone(&sides);
    let work = Work::new(accesses, cost(), move |lane| {
        let (src, dst) = &*shared;
        let (src_run, src_skip) = src.inner();
        let (dst_run, dst_skip) = dst.inner();
        let (state, scratch, mem) = (&mut *lane.state, &mut *lane.scratch, &mut lane.mem);
        let [input, output, ..] = &mut scratch.bytes;
        input.clear();
        src.for_each(src_skip, |p, b| {
            input.extend_from_slice(mem.row(src.space, p, b, src_run)?);
            Ok(())
        })?;
        output.clear();
        output.resize((elements * dst_size) as usize, 0);
        numerics.rounded(state, |r| convert_elements(from, to, input, output, r, &numerics.fp8))?;
        let mut at = 0;
        dst.for_each(dst_skip, |p, b| {
            let next = at + dst_run as usize;
            mem.row_mut(dst.space, p, b, dst_run)?.copy_from_slice(&output[at..next]);
            at = next;
            Ok(())
        })?;
        Outcome::none()
    });
    Ok(transfer(&sides.0, &sides.1, work))
}

/// What a transfer asks of the DMA engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Engines that share it.
    pub share: u64,
    /// Ticks on each of them.
    pub piece: u64,
    /// Ticks of the HBM.
    pub hbm: u64,
}

/// The DMA engines of a core as a shared resource.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct DmaEngines {
    free_at: Vec<u64>,
    hbm_free_at: u64,
}

impl DmaEngines {
    /// All idle.
    pub fn new(config: &DmaConfig) -> Self {
        DmaEngines { free_at: vec![0; config.engines as usize], hbm_free_at: 0 }
    }

    /// Makes them idle again.
    pub fn reset(&mut self) {
        self.free_at.fill(0);
        self.hbm_free_at = 0;
    }

    /// Engines that share a copy over `partitions` SBUF partitions.
    pub fn share(&self, partitions: u32, config: &DmaConfig) -> u32 {
        partitions.div_ceil(config.partitions_per_engine).clamp(1, config.engines)
    }

    /// Occupies engines for `transfer` from `from` on; returns (first byte, last byte) in ticks.
    /// The n-th engine cannot start earlier than n skews after the job was ready; `after` is
    /// that time in ticks and the skew in ps.
    pub fn run(
        &mut self,
        transfer: &Transfer,
        from: u64,
        after: (u64, u64),
        config: &DmaConfig,
        time: &Timebase,
    ) -> (u64, u64) {
        self.occupy(&self.demand(transfer, config, time), from, after, time)
    }

    /// What `transfer` asks of the engines; it does not depend on the time.
    pub fn demand(&self, transfer: &Transfer, config: &DmaConfig, time: &Timebase) -> Demand {
        let share = u64::from(self.share(transfer.partitions, config));
        let rate = config.rate(transfer.load, transfer.pace);
        let descriptors = transfer.descriptors.div_ceil(share);
        let rows = transfer.hbm_rows.div_ceil(share);
        let mut piece = time.transfer(transfer.bytes.div_ceil(share), rate);
        // the rate of transposes holds with all their descriptors
        if transfer.pace != Pace::Transpose {
            let extra = config.descriptor_ps * descriptors + config.hbm_row_ps * rows;
            piece = (piece + time.from_ps(extra))
                .max(time.from_ps(config.descriptor_min_ps * descriptors));
        }
        let hbm = time.transfer(transfer.hbm_bytes, config.hbm_bytes_per_us);
        Demand { share, piece, hbm }
    }

    /// As [`DmaEngines::run`], for a demand worked out before.
    pub fn occupy(
        &mut self,
        demand: &Demand,
        from: u64,
        after: (u64, u64),
        time: &Timebase,
    ) -> (u64, u64) {
        let Demand { share, piece, hbm } = *demand;
        let mut idle: SmallVec<[usize; 32]> = (0..self.free_at.len()).collect();
        idle.sort_unstable_by_key(|&e| (self.free_at[e].max(from), e));
        let (mut first, mut last) = (u64::MAX, from);
        for (n, &e) in idle.iter().take(share as usize).enumerate() {
            let skewed = after.0 + time.from_ps(after.1 * n as u64);
            let start = self.free_at[e].max(from).max(skewed);
            self.free_at[e] = start + piece;
            first = first.min(start);
            last = last.max(start + piece);
        }
        if hbm > 0 {
            self.hbm_free_at = self.hbm_free_at.max(first) + hbm;
            last = last.max(self.hbm_free_at);
        }
        (first, last.max(first + 1))
    }
}

//! DMA_INDIRECT: gather and scatter by index. (wiki: dma/gather-scatter-descriptors;
//! firmware/kernels/indirection-gather; validation/gather-scatter)

use std::mem::take;

use smallvec::SmallVec;

use super::compute::compute_op;
use super::copy::{Change, Shape, completion, element};
use super::operand::{Bound, Pattern, bound, device_address, dims, element_size};
use crate::engine::indirect::address;
use crate::engine::{DmaRequest, Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Field, b, e, f};
use crate::machine::address::DeviceMap;
use crate::machine::dma;
use crate::memory::{Access, Region, Space};
use crate::numeric::{Dtype, Walk};

/// A list of 32-bit indices in SBUF.
pub struct IndexList {
    operand: Operand,
    /// Indices at or beyond the bound are out of range.
    pub bound: Option<Bound>,
    /// Whether an index out of range stops the program.
    pub fatal: bool,
}

impl IndexList {
    /// The list of `count` indices at the address in `field`, one after the other in a partition.
    ///
    /// # Errors
    /// Address and register errors.
    pub fn new(env: &Env<'_>, field: Field, count: u64, bound: Option<Bound>) -> Result<IndexList> {
        let addr = env.inst.addr4(field);
        let at = env.geometry().decode(address(env, addr)?)?;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let walk = Walk::contiguous(at.byte as usize, count, 4);
        let operand = Operand::at(env, at, walk, Dtype::Uint32, 1, addr.reg().is_some())?;
        Ok(IndexList { operand, bound, fatal: false })
    }

    /// Its read in a footprint.
    pub fn access(&self) -> Access {
        self.operand.read()
    }

    /// Reads the indices.
    ///
    /// # Errors
    /// Those of the lease.
    pub fn read(&self, lane: &Lane<'_>, out: &mut Vec<u64>) -> Result<()> {
        self.operand.gather_bits(lane, 0, out)
    }

    /// One more than the largest index that is used.
    pub fn limit(&self) -> u64 {
        self.bound.map_or(1 << 32, |b| b.limit)
    }

    /// Whether `index` is used; a device fault where it must have been in range.
    ///
    /// # Errors
    /// `dma_index_out_of_bound`.
    pub fn admits(&self, index: u64) -> Result<bool> {
        if index < self.limit() {
            return Ok(true);
        }
        if self.fatal && self.bound.is_some_and(|b| b.notify) {
            return Err(Error::new(
                ErrorClass::DeviceFault,
                format!("DMA index {index} is not below the bound {}", self.limit()),
            )
            .rule("dma_index_out_of_bound"));
        }
        Ok(false)
    }
}

/// A side whose elements an index list may choose.
struct Side {
    pattern: Pattern,
    /// The list and the dimension it replaces.
    indices: Option<(IndexList, usize)>,
}

impl Side {
    /// Addresses that may be touched: all of them, or those below the index bound.
    fn region(&self, map: &DeviceMap) -> Result<Region> {
        let p = &self.pattern;
        let mut reach = p.clone();
        if let Some((list, dim)) = &self.indices {
            reach.dims[*dim].1 = list.limit().max(1);
        }
        let (low, high) = reach.reach();
        map.hull(p.base, low, high + i128::from(p.element))
    }

    /// Address of element `k`, or `None` if its index is out of range.
    fn address(&self, mut k: u64, indices: &[u64]) -> Result<Option<u64>> {
        let mut at = self.pattern.base;
        for (d, &(step, count)) in self.pattern.dims.iter().enumerate() {
            let mut i = k % count;
            k /= count;
            if let Some((list, dim)) = &self.indices
                && *dim == d
            {
                i = indices.get(i as usize).copied().unwrap_or(u64::MAX);
                if !list.admits(i)? {
                    return Ok(None);
                }
            }
            at = at.wrapping_add_signed(step.wrapping_mul(i as i64));
        }
        Ok(Some(at))
    }
}

/// DMA_INDIRECT 0xBB: `dst[k or idx[k]] = op(dst, src[k or idx[k]])` in ascending order, so
/// duplicate targets accumulate and of plain writes the last stays. An element whose index is out
/// of range is skipped: its destination keeps its bits.
///
/// An element lies `index * step * elem_size` bytes behind the start (OPEN: one page leaves the
/// step out). Duplicate targets without `non_unique_dst_idx` are undefined.
pub fn dma_indirect(env: &Env<'_>) -> Result<Prepared> {
    use f::dma_indirect1d as l;
    let flags = env.inst.get(l::FLAGS);
    use b::indirect_flags as g;
    use e::indirect_dma_addressing_mode as m;
    let (gather, scatter) = match g::INDIRECT_MODE.get(flags) as u8 {
        m::SRC => (true, false),
        m::DST => (false, true),
        m::SRC_DST => (true, true),
        other => return Err(Error::illegal("indirect_mode", format!("indirect mode {other}"))),
    };
    let fatal = g::IDX_BOUND_IS_ERR.get(flags) == 1;
    let src = side(
        env,
        [l::SRC_START_ADDR, l::SRC_STEP_ELEM, l::SRC_NUM_ELEM, l::SRC_ELEM_SIZE],
        gather.then_some((
            l::SRC_IDX_START_ADDR,
            l::SRC_IDX_BOUND_REG,
            g::GATHER_DIM.get(flags) as usize,
        )),
        fatal,
    )?;
    let dst = side(
        env,
        [l::DST_START_ADDR, l::DST_STEP_ELEM, l::DST_NUM_ELEM, l::DST_ELEM_SIZE],
        scatter.then_some((
            l::DST_IDX_START_ADDR,
            l::DST_IDX_BOUND_REG,
            g::SCATTER_DIM.get(flags) as usize,
        )),
        fatal,
    )?;
    let op = compute_op(env, l::COMPUTE_OP)?;
    let change = Change::new(env, l::IN_DTYPE, l::OUT_DTYPE, op)?;
    let points = src.pattern.points();
    if points != dst.pattern.points()
        || change.output_bytes(src.pattern.element)? != dst.pattern.element
    {
        return Err(Error::illegal(
            "dma_length",
            format!(
                "{points} source elements of {} bytes, {} destination elements of {}",
                src.pattern.element,
                dst.pattern.points(),
                dst.pattern.element
            ),
        ));
    }
    let map = DeviceMap::new(env.config);
    let (read, written) = (src.region(&map)?, dst.region(&map)?);
    let spaces = [read.space, written.space];
    let shape = Shape {
        partitions: [&read, &written].map(|r| if r.space == Space::Hbm { 0 } else { r.count }),
        load: read.space == Space::Hbm,
        descriptors: points,
        bytes: src.pattern.bytes(),
        hbm: spaces.map(|s| s == Space::Hbm),
        pace: change.pace(),
    };
    let mut accesses: SmallVec<[Access; 4]> = SmallVec::new();
    accesses.push(Access::read(read).maybe());
    accesses.push(Access { kind: change.access(), region: written, certain: false });
    let lists = [&src, &dst].into_iter().filter_map(|s| s.indices.as_ref());
    accesses.extend(lists.map(|(list, _)| list.access()));
    let unique = scatter && g::NON_UNIQUE_DST_IDX.get(flags) == 0;
    let work = Work::new(accesses, dma::cost(), move |lane| {
        let (mut from, mut to) = (take(&mut lane.scratch.bits[0]), take(&mut lane.scratch.bits[1]));
        from.clear();
        to.clear();
        if let Some((list, _)) = &src.indices {
            list.read(lane, &mut from)?;
        }
        if let Some((list, _)) = &dst.indices {
            list.read(lane, &mut to)?;
            if unique {
                check_unique(list, &to, &mut lane.scratch.bits[2])?;
            }
        }
        for k in 0..points {
            if let (Some(sa), Some(da)) = (src.address(k, &from)?, dst.address(k, &to)?) {
                let (sa, da) = ((sa, src.pattern.element), (da, dst.pattern.element));
                element(lane, &map, spaces, sa, da, change)?;
            }
        }
        [lane.scratch.bits[0], lane.scratch.bits[1]] = [from, to];
        Outcome::none()
    });
    Ok(Prepared::Dma(DmaRequest {
        transfers: vec![shape.transfer(work)],
        semaphores: completion(env.inst.get(l::SEMAPHORE), env.inst.get(l::SEM_INCREMENT)),
    }))
}

fn side(
    env: &Env<'_>,
    [addr, step, count, size]: [Field; 4],
    list: Option<(Field, Field, usize)>,
    fatal: bool,
) -> Result<Side> {
    let element = element_size(env, size);
    let steps = [env.inst.get_i(step) as i32];
    let counts = [env.inst.get(count) as u16];
    let pattern = Pattern {
        base: device_address(env, addr)?,
        dims: dims(env, addr, &steps, &counts, element as i64)?,
        element,
    };
    let indices = match list {
        None => None,
        Some((field, limit, dim)) => {
            let Some(&(_, count)) = pattern.dims.get(dim) else {
                return Err(Error::illegal(
                    "indirect_dim",
                    format!("dimension {dim} of a pattern of {}", pattern.dims.len()),
                ));
            };
            let mut list = IndexList::new(env, field, count, bound(env, limit, false)?)?;
            list.fatal = fatal;
            Some((list, dim))
        }
    };
    Ok(Side { pattern, indices })
}

/// Requires that no index in range comes twice.
fn check_unique(list: &IndexList, indices: &[u64], sorted: &mut Vec<u64>) -> Result<()> {
    sorted.clear();
    sorted.extend(indices.iter().filter(|i| **i < list.limit()));
    sorted.sort_unstable();
    match sorted.windows(2).find(|w| w[0] == w[1]) {
        None => Ok(()),
        Some(twice) => Err(Error::undefined(
            "duplicate_scatter_index",
            format!("index {} occurs twice among the targets of a DMA scatter", twice[0]),
        )
        .help("set non_unique_dst_idx where duplicates are meant")),
    }
}

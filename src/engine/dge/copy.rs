//! DMAMEMCPY and DMA_MEMCPY2: two-dimensional copies.
//! (wiki: firmware/kernels/dma-transpose-opcode-cluster)

use std::mem::take;

use smallvec::{SmallVec, smallvec};

use super::compute::{ComputeOp, combine, compute_op};
use super::operand::{Bound, Pattern, bound, device_address, dims, element_size, two_i32, two_u16};
use crate::engine::{DmaRequest, EngineState, Env, Lane, Outcome, Pace, Prepared, Transfer, Work};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Field, b, e, f};
use crate::machine::address::DeviceMap;
use crate::machine::config::Numerics;
use crate::machine::dma::{self, Side};
use crate::memory::{Access, AccessKind, Space};
use crate::numeric::Dtype;

/// What happens to the elements on their way.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Source and destination type, unless the bits stay as they are.
    pub dtypes: Option<(Dtype, Dtype)>,
    /// Arithmetic with the destination.
    pub op: Option<ComputeOp>,
    /// How conversions round and treat FP8.
    pub numerics: Numerics,
}

impl Change {
    /// The change that `in_dtype`, `out_dtype` and an operation ask for. Without an operation,
    /// equal types mean a copy of the bits, whatever they are.
    ///
    /// # Errors
    /// `is_valid_dtype`.
    pub fn new(
        env: &Env<'_>,
        in_dtype: Field,
        out_dtype: Field,
        op: Option<ComputeOp>,
    ) -> Result<Change> {
        let (from, to) = (env.inst.get(in_dtype) as u8, env.inst.get(out_dtype) as u8);
        let numerics = env.config.numerics;
        if op.is_none() && from == to {
            return Ok(Change { dtypes: None, op, numerics });
        }
        let dtype = |code| -> Result<Dtype> {
            let dtype = Dtype::from_code(env.generation(), code)?;
            Ok(numerics.fp8.resolve(env.generation(), dtype))
        };
        Ok(Change { dtypes: Some((dtype(from)?, dtype(to)?)), op, numerics })
    }

    /// Bytes of the destination that `bytes` of the source make.
    ///
    /// # Errors
    /// `dma_length` where the bytes are no whole number of elements.
    pub fn output_bytes(&self, bytes: u64) -> Result<u64> {
        let Some((from, to)) = self.dtypes else { return Ok(bytes) };
        let (from_size, to_size) = (from.size() as u64, to.size() as u64);
        if !bytes.is_multiple_of(from_size) {
            return Err(Error::illegal(
                "dma_length",
                format!("{bytes} bytes are no whole number of {from} elements"),
            ));
        }
        Ok(bytes / from_size * to_size)
    }

    /// What the rate of the DMA engines depends on.
    pub fn pace(&self) -> Pace {
        if self.op.is_some() { Pace::Compute } else { Pace::Copy }
    }

    /// How the destination is accessed.
    pub fn access(&self) -> AccessKind {
        if self.op.is_some() { AccessKind::Accumulate } else { AccessKind::Write }
    }

    /// Applies the change: `input` arrives at the destination bytes `row`.
    ///
    /// # Errors
    /// Those of the conversions.
    pub fn apply(&self, input: &[u8], row: &mut [u8], state: &mut EngineState) -> Result<()> {
        match (self.dtypes, self.op) {
            (Some((from, to)), Some(op)) => self.numerics.rounded(state, |rounding| {
                combine(op, from, to, input, row, rounding, &self.numerics.fp8)
            }),
            (Some((from, to)), None) => self.numerics.rounded(state, |rounding| {
                dma::convert_elements(from, to, input, row, rounding, &self.numerics.fp8)
            }),
            (None, _) => {
                row.copy_from_slice(input);
                Ok(())
            }
        }
    }
}

/// One side with its bound.
pub struct Leg {
    /// Where.
    pub pattern: Pattern,
    /// Elements whose address is above the limit are skipped.
    pub bound: Option<Bound>,
}

impl Leg {
    /// Whether an element lies beyond the bound.
    fn exceeds(&self) -> bool {
        self.bound.is_some_and(|b| self.pattern.reach().1 > i128::from(b.limit))
    }

    fn beyond(&self, address: u64) -> bool {
        self.bound.is_some_and(|b| address > b.limit)
    }
}

/// The transfer from `src` to `dst`.
///
/// # Errors
/// `dma_length` if the sides differ in length, addresses where no memory is, and the ways in which
/// an element can be skipped that no source describes.
pub fn transfer(env: &Env<'_>, src: Leg, dst: Leg, change: Change) -> Result<Transfer> {
    let map = DeviceMap::new(env.config);
    let (have, want) = (change.output_bytes(src.pattern.bytes())?, dst.pattern.bytes());
    if have != want {
        return Err(Error::illegal(
            "dma_length",
            format!("the source makes {have} bytes, the destination takes {want}"),
        ));
    }
    if src.exceeds() || dst.exceeds() {
        return bounded(map, src, dst, change);
    }
    let side = |p: &Pattern| Side::device(p.base, &p.dims, p.element, &map);
    let (from, to) = (side(&src.pattern)?, side(&dst.pattern)?);
    match (change.dtypes, change.op) {
        (None, _) => dma::copy(from, to),
        (Some((a, b)), None) => dma::convert(from, to, a, b, change.numerics),
        (Some((a, _)), Some(_)) => {
            // runs must hold whole elements
            change.output_bytes(from.element)?;
            let unit = a.size() as u64;
            if to.element % (to.element.min(change.output_bytes(unit)?)) != 0 {
                return Err(Error::illegal("dma_length", "destination elements cut a value"));
            }
            Ok(accumulate(from, to, change))
        }
    }
}

/// A transfer that combines with the destination. The whole source is read first.
fn accumulate(src: Side, dst: Side, change: Change) -> Transfer {
    let accesses = [src.access(AccessKind::Read), dst.access(AccessKind::Accumulate)];
    let (from, to) = (src.clone(), dst.clone());
    let work = Work::new(accesses, dma::cost(), move |lane| {
        let (src_run, src_skip) = src.inner();
        let (dst_run, dst_skip) = dst.inner();
        let mut buffer = take(&mut lane.scratch.bytes[0]);
        buffer.clear();
        src.for_each(src_skip, |p, b| {
            buffer.extend_from_slice(lane.mem.row(src.space, p, b, src_run)?);
            Ok(())
        })?;
        let runs = dst.points() * dst.element / dst_run;
        let mut parts = buffer.chunks_exact(buffer.len() / runs.max(1) as usize);
        dst.for_each(dst_skip, |p, b| {
            let part = parts.next().unwrap_or(&[]);
            change.apply(part, lane.mem.row_mut(dst.space, p, b, dst_run)?, lane.state)
        })?;
        lane.scratch.bytes[0] = buffer;
        Outcome::none()
    });
    Transfer { pace: Pace::Compute, ..dma::transfer(&from, &to, work) }
}

/// A transfer of which some elements are skipped because their address is above a limit. A skipped
/// destination keeps its bits. (wiki: firmware/dge/dge-emit; vendor: release notes of NKI)
fn bounded(map: DeviceMap, src: Leg, dst: Leg, change: Change) -> Result<Transfer> {
    if src.pattern.points() != dst.pattern.points() {
        return Err(Error::missing_spec(
            "which elements of the other side are skipped where the two sides cut the bytes \
             differently",
            "firmware/dge/dge-emit",
        ));
    }
    let region = |leg: &Leg| {
        let (low, mut high) = leg.pattern.reach();
        if let Some(b) = leg.bound {
            high = high.min(i128::from(b.limit));
        }
        map.hull(leg.pattern.base, low, high + i128::from(leg.pattern.element))
    };
    let (read, written) = (region(&src)?, region(&dst)?);
    let spaces = [read.space, written.space];
    let shape = Shape {
        partitions: [&read, &written].map(|r| if r.space == Space::Hbm { 0 } else { r.count }),
        load: read.space == Space::Hbm,
        descriptors: src.pattern.points(),
        bytes: src.pattern.bytes(),
        hbm: spaces.map(|s| s == Space::Hbm),
        pace: change.pace(),
    };
    let accesses = [
        Access::read(read).maybe(),
        Access { kind: change.access(), region: written, certain: false },
    ];
    let notify = [&src, &dst].iter().any(|leg| leg.bound.is_some_and(|b| b.notify));
    let work = Work::new(accesses, dma::cost(), move |lane| {
        let mut skipped = 0u64;
        for k in 0..src.pattern.points() {
            let (from, to) = (src.pattern.address(k), dst.pattern.address(k));
            if src.beyond(from) || dst.beyond(to) {
                skipped += 1;
                continue;
            }
            let (from, to) = ((from, src.pattern.element), (to, dst.pattern.element));
            element(lane, &map, spaces, from, to, change)?;
        }
        let notice = (notify && skipped > 0)
            .then(|| format!("{skipped} DMA elements beyond the bound register were skipped"));
        Ok(Outcome { notice, ..Outcome::default() })
    })
    .with_outcome();
    Ok(shape.transfer(work))
}

/// Moves one element.
///
/// # Errors
/// `address_in_memory`, those of the conversions.
pub fn element(
    lane: &mut Lane<'_>,
    map: &DeviceMap,
    [from_space, to_space]: [Space; 2],
    (from, from_len): (u64, u64),
    (to, to_len): (u64, u64),
    change: Change,
) -> Result<()> {
    let src = map.run_in(from_space, from, from_len)?;
    let dst = map.run_in(to_space, to, to_len)?;
    let source = (src.space, src.partition, src.byte, from_len);
    let target = (dst.space, dst.partition, dst.byte, to_len);
    if let Some(([input], row)) = lane.mem.rows_and_mut([source], target)? {
        return change.apply(input, row, lane.state);
    }
    let mut input = take(&mut lane.scratch.bytes[0]);
    input.clear();
    input.extend_from_slice(lane.mem.row(src.space, src.partition, src.byte, from_len)?);
    let row = lane.mem.row_mut(dst.space, dst.partition, dst.byte, to_len)?;
    change.apply(&input, row, lane.state)?;
    lane.scratch.bytes[0] = input;
    Ok(())
}

/// What the DMA model needs to know of a transfer whose elements data decides.
pub struct Shape {
    /// Partitions on either side, 0 for HBM.
    pub partitions: [u32; 2],
    /// Whether data comes from HBM.
    pub load: bool,
    /// Descriptors.
    pub descriptors: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Whether the source and the destination lie in HBM.
    pub hbm: [bool; 2],
    /// What happens on the way.
    pub pace: Pace,
}

impl Shape {
    /// The transfer whose effect is `work`.
    pub fn transfer(self, work: Work) -> Transfer {
        Transfer {
            work,
            bytes: self.bytes,
            partitions: self.partitions[0].max(self.partitions[1]),
            load: self.load,
            descriptors: self.descriptors,
            hbm_bytes: self.bytes * self.hbm.iter().filter(|h| **h).count() as u64,
            // where data decides the addresses, no element follows the one before it
            hbm_rows: if self.hbm.contains(&true) { self.descriptors } else { 0 },
            pace: self.pace,
        }
    }
}

/// The increment of a completion semaphore; 0 increments are none.
pub fn completion(semaphore: u64, increment: u64) -> SmallVec<[(u16, u32); 2]> {
    if increment == 0 { smallvec![] } else { smallvec![(semaphore as u16, increment as u32)] }
}

/// DMAMEMCPY 0xB8: the elements of the source, X innermost, go in order to those of the
/// destination, optionally converted or combined with what is there.
///
/// Steps count elements of `elem_size` bytes (OPEN: there is evidence for bytes too).
pub fn dmamemcpy(env: &Env<'_>) -> Result<Prepared> {
    use f::dma_direct2d as l;
    let leg = |addr, steps, counts, size, limit| -> Result<Leg> {
        let element = element_size(env, size);
        let (steps, counts) = (two_i32(env, steps), two_u16(env, counts));
        let pattern = Pattern {
            base: device_address(env, addr)?,
            dims: dims(env, addr, &steps, &counts, element as i64)?,
            element,
        };
        Ok(Leg { pattern, bound: bound(env, limit, true)? })
    };
    let src = leg(
        l::SRC_START_ADDR,
        l::SRC_STEP_ELEM,
        l::SRC_NUM_ELEM,
        l::SRC_ELEM_SIZE,
        l::SRC_BOUND_REG,
    )?;
    let dst = leg(
        l::DST_START_ADDR,
        l::DST_STEP_ELEM,
        l::DST_NUM_ELEM,
        l::DST_ELEM_SIZE,
        l::DST_BOUND_REG,
    )?;
    let op = compute_op(env, l::COMPUTE_OP)?;
    let change = Change::new(env, l::IN_DTYPE, l::OUT_DTYPE, op)?;
    let transfer = transfer(env, src, dst, change)?;
    Ok(Prepared::Dma(DmaRequest {
        transfers: vec![transfer],
        semaphores: completion(env.inst.get(l::SEMAPHORE), env.inst.get(l::SEM_INCREMENT)),
    }))
}

/// DMA_MEMCPY2 0xB9 (v5): a copy of the bits with its own wait, register addressing, and updates
/// of separate semaphores when everything is read and when everything is written. (INFERRED)
///
/// OPEN: both updates come when the last byte is written; each adds 1.
pub fn dma_memcpy2(env: &Env<'_>) -> Result<Prepared> {
    use f::dma_copy2d as l;
    let modes = env.inst.get(l::ADDR_MODE);
    let leg = |mode, addr, steps, counts, size| -> Result<Leg> {
        let element = element_size(env, size);
        let (steps, counts) = (two_i32(env, steps), two_u16(env, counts));
        let (base, dims) = if mode == e::dma_addr_mode::IMM64 {
            let base = device_address(env, addr)?;
            (base, dims(env, addr, &steps, &counts, element as i64)?)
        } else {
            (register_address(env, mode, addr)?, plain_dims(&steps, &counts, element as i64)?)
        };
        Ok(Leg { pattern: Pattern { base, dims, element }, bound: None })
    };
    let pair = b::dma_addr_mode_pair::SRC.get(modes) as u8;
    let src = leg(pair, l::SRC_START_ADDR, l::SRC_STEP_ELEM, l::SRC_NUM_ELEM, l::SRC_ELEM_SIZE)?;
    let pair = b::dma_addr_mode_pair::DST.get(modes) as u8;
    let dst = leg(pair, l::DST_START_ADDR, l::DST_STEP_ELEM, l::DST_NUM_ELEM, l::DST_ELEM_SIZE)?;
    let mut semaphores: SmallVec<[(u16, u32); 2]> = smallvec![];
    let updates = env.inst.get(l::SEMA_UPDATE_MODE);
    for (mode, index) in [
        (b::dma_sema_update_pair::RD_DONE.get(updates), l::RD_DONE_SEMA_UPDATE_IDX),
        (b::dma_sema_update_pair::WR_DONE.get(updates), l::WR_DONE_SEMA_UPDATE_IDX),
    ] {
        if update(mode as u8)? {
            semaphores.push((env.inst.get(index) as u16, 1));
        }
    }
    let transfer =
        transfer(env, src, dst, Change { dtypes: None, op: None, numerics: env.config.numerics })?;
    Ok(Prepared::Dma(DmaRequest { transfers: vec![transfer], semaphores }))
}

fn plain_dims(steps: &[i32; 2], counts: &[u16; 2], unit: i64) -> Result<SmallVec<[(i64, u64); 5]>> {
    let dims: SmallVec<[(i64, u64); 5]> =
        steps.iter().zip(counts).map(|(&s, &n)| (i64::from(s) * unit, u64::from(n))).collect();
    if dims.iter().any(|d| d.1 == 0) {
        return Err(Error::illegal("dma_shape", "a DMA pattern without elements"));
    }
    Ok(dims)
}

/// Whether a semaphore update of DMA_MEMCPY2 happens.
fn update(mode: u8) -> Result<bool> {
    use e::dma_sema_update_mode as m;
    match mode {
        m::NONE => Ok(false),
        m::LOCAL_SEM_INC => Ok(true),
        m::REMOTE_SEM_INC | m::REMOTE_SEM_INC_COUNTER | m::REMOTE_COLLSYNC_INC => Err(no_peer()),
        m::LOCAL_SEM_INC_COUNTER | m::LOCAL_COLLSYNC_INC => Err(Error::missing_spec(
            "what the counter and collective-sync updates of a DMA count",
            "generations/maverick-profile",
        )),
        other => Err(Error::illegal("dma_sema_update_mode", format!("update mode {other}"))),
    }
}

/// There is no other core: on a device whose only core is this one, nothing answers the transfer.
pub fn no_peer() -> Error {
    Error::new(ErrorClass::DeviceFault, "a transfer to or a signal for another core")
        .rule("no_peer_core")
        .help("the emulated device has one core; only forms that stay in it execute")
}

/// The address that the 8 bytes {base, offset, increment register, reserved, offset} give in one
/// of the register modes. Register pairs hold 64 bits, low word first (INFERRED).
fn register_address(env: &Env<'_>, mode: u8, field: Field) -> Result<u64> {
    use e::dma_addr_mode as m;
    let raw = env.inst.get(field);
    let [base, offset, ..] = raw.to_le_bytes();
    let immediate = raw >> 32;
    let pair = |r: u8| -> Result<u64> {
        let high = env.register(r.saturating_add(1))?;
        Ok(u64::from(env.register(r)?) | u64::from(high) << 32)
    };
    Ok(match mode {
        m::REG_PAIR => pair(base)?,
        m::REG_IMM_OFFSET32 => pair(base)?.wrapping_add(immediate),
        m::REG_REG_OFFSET32 => pair(base)?.wrapping_add(u64::from(env.register(offset)?)),
        m::REG_REG_OFFSET64 => pair(base)?.wrapping_add(pair(offset)?),
        m::REG_REG_IMM_SCALE => {
            let scaled = u64::from(env.register(offset)?).wrapping_mul(immediate);
            pair(base)?.wrapping_add(scaled)
        }
        m::REG_IMM_OFFSET32I
        | m::REG_REG_OFFSET32I
        | m::REG_REG_OFFSET64I
        | m::REG_REG_IMM_SCALE_I
        | m::REG_REG_REG_SCALE_I => {
            return Err(Error::missing_spec(
                "whether the I address modes are signed or increment their register",
                "firmware/kernels/dma-transpose-opcode-cluster",
            ));
        }
        m::REG_REG_REG_SCALE => {
            return Err(Error::missing_spec(
                "where REG_REG_REG_SCALE names its third register",
                "firmware/kernels/dma-transpose-opcode-cluster",
            ));
        }
        other => return Err(Error::illegal("dma_addr_mode", format!("address mode {other}"))),
    })
}

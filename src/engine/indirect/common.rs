//! Operands that the instructions of this family share: dtypes, scalar operands of the `IMM_SRC`
//! forms, row loops that respect overlapping operands, cost queries.

use crate::engine::cost::{CostQuery, CostRow, Operands};
use crate::engine::{Env, Lane, Operand};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Addr4, Field};
use crate::memory::{Access, ByteSet, Region, Space};
use crate::numeric::Dtype;

/// The dtype that the one-byte `field` names.
///
/// # Errors
/// `is_valid_dtype` for a code that the generation does not have.
pub(in crate::engine) fn dtype(env: &Env<'_>, field: Field) -> Result<Dtype> {
    Dtype::from_code(env.generation(), env.inst.get(field) as u8)
}

/// The on-chip address that a 4-byte address word gives, its markers removed.
///
/// # Errors
/// `tensor_start_addr_valid` for an undefined form, `register_specifier`.
pub(in crate::engine) fn address(env: &Env<'_>, addr: Addr4) -> Result<u32> {
    match (addr.imm(), addr.reg()) {
        (Some(a), _) => Ok(a),
        (None, Some(r)) => env.register(r),
        (None, None) => {
            Err(Error::illegal("tensor_start_addr_valid", format!("{addr:?} is no address")))
        }
    }
}

/// The cost query of a work over the given operands.
pub(in crate::engine) fn cost(
    env: &Env<'_>,
    row: CostRow,
    elements: usize,
    sources: &[&Operand],
    dests: &[&Operand],
) -> CostQuery {
    let mut operands = Operands::new();
    for source in sources {
        source.cost_source(env, &mut operands);
    }
    for dest in dests {
        dest.cost_dest(env, &mut operands);
    }
    CostQuery::new(row, elements as u64, operands)
}

/// A 4-byte scalar operand selected by an `IMM_SRC` byte. (wiki: firmware/kernels/rand2)
#[derive(Clone, Debug)]
pub(in crate::engine) enum Scalar {
    /// The same bits for every channel.
    Immediate(u32),
    /// One value per channel at the same byte of consecutive partitions.
    PerChannel {
        /// Memory.
        space: Space,
        /// Partition of channel 0.
        partition: u32,
        /// Byte in the partition.
        byte: u64,
        /// Bytes of the value.
        size: u64,
        /// Channels.
        channels: u32,
    },
}

impl Scalar {
    /// Decodes the operand `raw` of the form `source` (0 immediate, 1 pointer, 2 pointer in a
    /// register); a pointed-to value has `size` bytes.
    ///
    /// # Errors
    /// `imm_src` for another form, address and register errors.
    pub(in crate::engine) fn decode(
        env: &Env<'_>,
        source: u8,
        raw: u32,
        size: u64,
        channels: u32,
    ) -> Result<Scalar> {
        let pointer = match source {
            0 => return Ok(Scalar::Immediate(raw)),
            1 => raw,
            2 => env.register(raw as u8)?,
            other => {
                return Err(Error::illegal("imm_src", format!("immediate source {other}")));
            }
        };
        let g = env.geometry();
        let at = g.decode(pointer)?;
        if at.partition + channels > g.partitions(at.space)
            || u64::from(at.byte) + size > g.active(at.space)
        {
            return Err(Error::illegal(
                "imm_pointer",
                format!("{channels} scalars from {at} lie beyond the memory"),
            ));
        }
        Ok(Scalar::PerChannel {
            space: at.space,
            partition: at.partition,
            byte: u64::from(at.byte),
            size,
            channels,
        })
    }

    /// Its read in a footprint, if it is in memory.
    pub(in crate::engine) fn access(&self) -> Option<Access> {
        match *self {
            Scalar::Immediate(_) => None,
            Scalar::PerChannel { space, partition, byte, size, channels } => Some(Access::read(
                Region::new(space, partition, channels, ByteSet::dense(byte, size)),
            )),
        }
    }

    /// Little-endian bits of the value of channel `c`.
    ///
    /// # Errors
    /// Those of the lease.
    pub(in crate::engine) fn bits(&self, lane: &Lane<'_>, c: u32) -> Result<u32> {
        match *self {
            Scalar::Immediate(bits) => Ok(bits),
            Scalar::PerChannel { space, partition, byte, size, .. } => {
                let mut word = [0; 4];
                let row = lane.mem.row(space, partition + c, byte, size)?;
                for (to, from) in word.iter_mut().zip(row) {
                    *to = *from;
                }
                Ok(u32::from_le_bytes(word))
            }
        }
    }
}

/// Whether a channel's result may land in the source of a later channel: then every channel is
/// read before the first one is written.
pub(super) fn crosses(src: &Operand, dst: &Operand) -> bool {
    src.partition != dst.partition && src.region().overlaps(&dst.region())
}

/// Most elements of all channels together that an instruction may have to hold at once.
const MAX_HELD: usize = 1 << 26;

/// Requires that the elements of all channels can be held at once.
///
/// # Errors
/// The limit was reached.
pub(in crate::engine) fn holdable(len: usize, channels: u32) -> Result<()> {
    match len.checked_mul(channels as usize) {
        Some(n) if n <= MAX_HELD => Ok(()),
        _ => Err(Error::new(
            ErrorClass::LimitReached,
            format!("{len} elements in each of {channels} channels must be read before writing"),
        )),
    }
}

/// Calls `compute` for the result row of every channel and `store` to write it; with `staged`, all
/// rows are computed first.
///
/// # Errors
/// Those of the two functions.
pub(super) fn rows<T: Copy>(
    lane: &mut Lane<'_>,
    channels: u32,
    staged: bool,
    [row, all]: [&mut Vec<T>; 2],
    mut compute: impl FnMut(&mut Lane<'_>, u32, &mut Vec<T>) -> Result<()>,
    mut store: impl FnMut(&mut Lane<'_>, u32, &[T]) -> Result<()>,
) -> Result<()> {
    all.clear();
    for c in 0..channels {
        compute(lane, c, row)?;
        if staged {
            holdable(row.len(), channels)?;
            all.extend_from_slice(row);
        } else {
            store(lane, c, row)?;
        }
    }
    if staged {
        for (c, part) in all.chunks_exact(row.len().max(1)).enumerate() {
            store(lane, c as u32, part)?;
        }
    }
    Ok(())
}

/// Requires `condition`, by rule `rule`.
///
/// # Errors
/// An illegal instruction that says `message`.
pub(super) fn require(
    condition: bool,
    rule: &'static str,
    message: impl FnOnce() -> String,
) -> Result<()> {
    if condition { Ok(()) } else { Err(Error::illegal(rule, message())) }
}

//! Tensor indirection of v4 and later: operands whose elements lie at offsets that the instruction
//! reads from SBUF.
//!
//! The first address of an indirect pattern names a list of 16-bit offsets, the second one the
//! data. Element i of a partition lies `offset(i)` elements behind the start of the data, in the
//! same partition. The partitions of a group share a list; it lies column by column over them:
//! offset i is in partition `i % group` of the group, column `i / group`. A group has 16 partitions
//! on ACT, POOL and DVE and 32 on PE. (vendor docs: NkiTensor.indirect, NKI tutorial on tensor
//! indirection; wiki-cc: isa/indirect-descriptors)

use super::operand::{Operand, sbuf_place};
use super::work::{Env, Lane};
use crate::error::{Error, Result};
use crate::isa::{Addr4, Engine, op};
use crate::memory::{Access, ByteSet, Location, Region, Space};

/// Bytes of an offset.
const OFFSET: u64 = 2;
/// Most elements that a 16-bit offset reaches.
pub(super) const REACH: u64 = 1 << 16;
/// A list starts at a multiple of this partition (vendor docs: nki.isa.activation).
const QUADRANT: u32 = 32;

/// Where the offsets of an indirect operand are.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    /// Partition of the first offset.
    pub partition: u32,
    /// Byte of the first offset in its partition.
    byte: u64,
    /// Partitions that share a list.
    group: u32,
    /// Partitions that hold lists: whole groups.
    partitions: u32,
    /// Offsets of a list.
    count: usize,
}

impl Offsets {
    /// The list at `index` with `count` offsets for `channels` partitions of data.
    ///
    /// # Errors
    /// `tensor_indirection` for a list outside of SBUF, not at the start of a quadrant, or beyond
    /// the memory; `addr_aligned_dtype`; `register_specifier`.
    pub fn decode(env: &Env<'_>, index: Addr4, count: u16, channels: u32) -> Result<Offsets> {
        let address = match (index.imm(), index.reg()) {
            (Some(a), _) => a,
            (None, Some(r)) => env.register(r)?,
            (None, None) => return Err(refused(format!("{index:?} is no address of offsets"))),
        };
        let Location { space, partition, byte } = sbuf_place(env, address)?;
        if space != Space::Sbuf {
            return Err(refused(format!("offsets in {space}: they lie in SBUF")));
        }
        if !partition.is_multiple_of(QUADRANT) {
            return Err(refused(format!(
                "offsets from partition {partition}: a list starts at a quadrant of {QUADRANT}"
            )));
        }
        let byte = u64::from(byte);
        if !byte.is_multiple_of(OFFSET) {
            return Err(Error::illegal(
                "addr_aligned_dtype",
                format!("offsets of {OFFSET} bytes at byte {byte}"),
            ));
        }
        let group = if env.engine == Engine::Pe { 32 } else { 16 };
        let partitions = channels.next_multiple_of(group);
        let offsets = Offsets { partition, byte, group, partitions, count: usize::from(count) };
        let g = env.geometry();
        if partition + partitions > g.partitions(Space::Sbuf)
            || byte + offsets.bytes() > g.active(Space::Sbuf)
        {
            return Err(refused(format!(
                "{partitions} partitions of {} bytes of offsets from partition {partition} leave SBUF",
                offsets.bytes()
            )));
        }
        Ok(offsets)
    }

    /// Offsets of a list.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The list of group `group` alone, for data in fewer partitions than a group has.
    pub fn of_group(&self, group: u32) -> Offsets {
        let partition = self.partition + group * self.group;
        Offsets { partition, partitions: self.group, ..self.clone() }
    }

    /// Bytes of a list in the partition that has most of it.
    fn bytes(&self) -> u64 {
        OFFSET * self.count.div_ceil(self.group as usize) as u64
    }

    /// Footprint of the lists.
    pub fn read(&self) -> Access {
        let bytes = ByteSet::dense(self.byte, self.bytes());
        let read = Access::read(Region::new(Space::Sbuf, self.partition, self.partitions, bytes));
        // the last column may not be whole
        if self.count.is_multiple_of(self.group as usize) { read } else { read.maybe() }
    }

    /// Byte positions of the elements of channel `c`, of `elem` bytes each, in a row of `len` bytes
    /// that starts with the data.
    ///
    /// OPEN: an offset beyond the partition is undefined behaviour, and reported.
    ///
    /// # Errors
    /// `indirect_offset`, and those of the lease.
    pub fn places(&self, lane: &Lane<'_>, c: u32, elem: usize, len: u64) -> Result<Vec<usize>> {
        let first = self.partition + c / self.group * self.group;
        let group = self.group as usize;
        let mut places = vec![0; self.count];
        for p in 0..group.min(self.count) {
            let columns = (self.count - p).div_ceil(group);
            let partition = first + p as u32;
            let row = lane.mem.row(Space::Sbuf, partition, self.byte, OFFSET * columns as u64)?;
            for (column, offset) in row.as_chunks::<2>().0.iter().enumerate() {
                let offset = u16::from_le_bytes(*offset);
                let at = usize::from(offset) * elem;
                if (at + elem) as u64 > len {
                    return Err(Error::undefined(
                        "indirect_offset",
                        format!(
                            "offset {offset} of element {} leaves the partition: {} elements lie \
                             from the start of the data to its end",
                            column * group + p,
                            len / elem as u64
                        ),
                    ));
                }
                places[column * group + p] = at;
            }
        }
        Ok(places)
    }
}

/// Whether the vendor's interface gives the instruction an indirect operand.
///
/// # Errors
/// `tensor_indirection` where its compiler refuses one, a missing specification elsewhere.
pub(super) fn accepted(env: &Env<'_>) -> Result<()> {
    let def = env.inst.def()?;
    match def.byte {
        op::MATMUL
        | op::LDWEIGHTS
        | op::MATMUL_MX
        | op::LDWEIGHTS_MX
        | op::ACTIVATE
        | op::ACTIVATE2
        | op::EXPONENTIAL
        | op::TENSOR_TENSOR_ARITH_OP
        | op::TENSOR_TENSOR_BITVEC_OP
        | op::TENSOR_REDUCE_ARITH_OP
        | op::TENSOR_REDUCE_BITVEC_OP
        | op::TENSOR_SCALAR_ARITH_OP
        | op::TENSOR_SCALAR_BITVEC_OP
        | op::TENSOR_SCALAR_PTR_ARITH_OP
        | op::TENSOR_SCALAR_PTR_BITVEC_OP
        | op::COPY
        | op::CAST
        | op::COPY_PREDICATED
        | op::COPY_PREDICATED_SCALAR
        | op::TENSOR_SCALAR_CACHE_REDUCE
        | op::TENSOR_SCALAR_CACHE_CUMULATIVE => Ok(()),
        op::SCALAR_TENSOR_TENSOR_ARITH
        | op::SCALAR_TENSOR_TENSOR_BITVEC
        | op::TENSOR_TENSOR_SCAN_ARITH
        | op::TENSOR_SCALAR_ADDR => Err(refused(format!("{} takes no indirect operand", def.name))),
        _ => Err(missing(def.name)),
    }
}

/// The error of an instruction that no source names among those with indirect operands.
pub(super) fn missing(name: &str) -> Error {
    Error::missing_spec(
        format!("whether {name} takes an indirect operand, and how it reads its offsets"),
        "vendor docs: NkiTensor.indirect",
    )
}

/// An indirect operand that the instruction cannot have.
pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::illegal("tensor_indirection", message)
}

/// Requires the data of an indirect source in the partitions of its offsets.
///
/// # Errors
/// `tensor_indirection`.
pub(super) fn same_partition(source: &Operand) -> Result<()> {
    match source.offsets_partition() {
        Some(p) if p != source.partition => Err(refused(format!(
            "data from partition {} with offsets from partition {p}",
            source.partition
        ))),
        _ => Ok(()),
    }
}

/// Requires the offsets of an indirect destination in the partitions of the source, or of the
/// source's offsets; `lead` is where these are. A plain source in PSUM lets them be anywhere.
///
/// # Errors
/// `tensor_indirection`.
pub(super) fn scatter_beside(dst: &Operand, lead: Option<(Space, u32)>) -> Result<()> {
    match (dst.offsets_partition(), lead) {
        (Some(p), Some((Space::Sbuf, source))) if p != source => Err(refused(format!(
            "offsets of the destination from partition {p}, the source from partition {source}"
        ))),
        _ => Ok(()),
    }
}

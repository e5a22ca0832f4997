//! Where tensors go: geometry of the on-chip memories and automatic placement.
//!
//! Automatic placement is first fit in declaration order: a tensor takes the lowest place that is
//! free of every tensor declared before it.

use super::model::{Memory, Tensor};
use crate::isa::Generation;

/// Automatic places in SBUF and HBM are multiples of this.
const ALIGNMENT: u64 = 64;

/// OPEN: device address of the first byte of HBM that programs use. No page gives HBM's base; this
/// value lies below every on-chip aperture (wiki: dma/descriptor-model 2).
pub const HBM_BASE: u64 = 0x10_0000_0000;

/// Address shape of SBUF or PSUM (wiki: dma/sbuf-psum-banks 1; for V1 the cross-generation page).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// First address.
    pub base: u64,
    /// Partitions.
    pub partitions: u64,
    /// Address distance of two partitions.
    pub stride: u64,
    /// Bytes of real memory at the low end of each partition.
    pub active: u64,
    /// Bytes of one bank; 0 without banks.
    pub bank: u64,
}

/// The geometry of an on-chip memory; `None` for HBM.
pub fn geometry(generation: Generation, memory: Memory) -> Option<Geometry> {
    const KIB: u64 = 1024;
    let v1 = generation == Generation::V1;
    match memory {
        Memory::Hbm => None,
        Memory::Sbuf => {
            let (stride, active) = match generation {
                Generation::V1 => (128 * KIB, 96 * KIB),
                Generation::V2 => (256 * KIB, 192 * KIB),
                Generation::V3 => (256 * KIB, 224 * KIB),
                Generation::V4 | Generation::V4Plus => (256 * KIB, 256 * KIB),
                Generation::V5 => (1024 * KIB, 512 * KIB),
            };
            Some(Geometry { base: 0, partitions: 128, stride, active, bank: 0 })
        }
        // OPEN: the V1 PSUM offset is not published; the later one is used (V1's SBUF ends below it).
        Memory::Psum => Some(Geometry {
            base: 0x200_0000,
            partitions: if v1 { 64 } else { 128 },
            stride: if v1 { 16 * KIB } else { 32 * KIB },
            active: if v1 { 8 * KIB } else { 16 * KIB },
            bank: 2 * KIB,
        }),
    }
}

/// The bytes a tensor covers: partitions `p0..p1`, bytes `b0..b1` in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    p0: u64,
    p1: u64,
    b0: u64,
    b1: u64,
}

fn area(tensor: &Tensor, generation: Generation) -> Area {
    match geometry(generation, tensor.memory) {
        None => Area {
            p0: 0,
            p1: 1,
            b0: tensor.address,
            b1: tensor.address.saturating_add(tensor.bytes()),
        },
        Some(g) => {
            let offset = tensor.address.saturating_sub(g.base);
            let (p0, b0) = (offset / g.stride, offset % g.stride);
            Area {
                p0,
                p1: p0.saturating_add(tensor.partitions()),
                b0,
                b1: b0.saturating_add(tensor.row_bytes()),
            }
        }
    }
}

impl Area {
    fn overlaps(self, other: Area) -> bool {
        self.p0 < other.p1 && other.p0 < self.p1 && self.b0 < other.b1 && other.b0 < self.b1
    }
}

/// Checks that a tensor lies inside its memory.
///
/// # Errors
/// What sticks out, as a message.
pub fn check_bounds(tensor: &Tensor, generation: Generation) -> Result<(), String> {
    let Some(g) = geometry(generation, tensor.memory) else {
        return match tensor.address.checked_add(tensor.bytes()) {
            Some(_) => Ok(()),
            None => Err("the tensor ends beyond the 64-bit address space".to_owned()),
        };
    };
    let name = tensor.memory.name();
    if tensor.address < g.base || tensor.address >= g.base + g.partitions * g.stride {
        let end = g.base + g.partitions * g.stride;
        return Err(format!(
            "{:#x} is not an address of {name} ({:#x} to {end:#x} on {generation})",
            tensor.address, g.base
        ));
    }
    let area = area(tensor, generation);
    if area.p1 > g.partitions {
        return Err(format!(
            "partitions {}..{} do not fit the {} partitions of {name}",
            area.p0, area.p1, g.partitions
        ));
    }
    if area.b1 > g.active {
        return Err(format!(
            "bytes {}..{} of a partition do not fit its {} bytes of {name} on {generation}",
            area.b0, area.b1, g.active
        ));
    }
    Ok(())
}

/// The first tensor of `others` that shares bytes with `tensor`.
pub fn overlap<'a>(
    tensor: &Tensor,
    others: &'a [Tensor],
    generation: Generation,
) -> Option<&'a Tensor> {
    let mine = area(tensor, generation);
    others.iter().find(|t| t.memory == tensor.memory && area(t, generation).overlaps(mine))
}

/// The lowest free place for `tensor` (its `address` is ignored).
///
/// # Errors
/// It does not fit anywhere.
pub fn find_place(
    tensor: &Tensor,
    others: &[Tensor],
    generation: Generation,
) -> Result<u64, String> {
    let g = geometry(generation, tensor.memory);
    let base = g.map_or(HBM_BASE, |g| g.base);
    // A bank is the unit that matmul accumulates in, so PSUM tensors start at one.
    let alignment = g.map_or(ALIGNMENT, |g| if g.bank == 0 { ALIGNMENT } else { g.bank });
    let mut trial = tensor.clone();
    // Only ends of other tensors can be the lowest free place.
    let mut candidates: Vec<u64> = others
        .iter()
        .filter(|t| t.memory == tensor.memory)
        .map(|t| area(t, generation).b1)
        .map(|end| if g.is_none() { end } else { base + end })
        .map(|end| end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX))
        .filter(|end| *end >= base)
        .collect();
    candidates.push(base);
    candidates.sort_unstable();
    candidates.dedup();
    let mut why = None;
    for candidate in candidates {
        trial.address = candidate;
        match check_bounds(&trial, generation) {
            Err(message) => why = why.or(Some(message)),
            Ok(()) if overlap(&trial, others, generation).is_none() => return Ok(candidate),
            Ok(()) => {}
        }
    }
    let memory = tensor.memory.name();
    Err(why.unwrap_or_else(|| format!("no free place of this size is left in {memory}")))
}

#[cfg(test)]
mod tests {
    use super::super::elem::ElemType;
    use super::super::model::Role;
    use super::*;

    fn tensor(memory: Memory, shape: &[u64]) -> Tensor {
        Tensor {
            name: "t".to_owned(),
            dtype: ElemType::FP32,
            shape: shape.to_vec(),
            memory,
            address: 0,
            init: None,
            role: Role::Internal,
        }
    }

    #[test]
    fn first_fit_by_rows_and_banks() {
        let g = Generation::V3;
        let mut placed = Vec::new();
        let mut put = |memory, shape: &[u64]| {
            let mut t = tensor(memory, shape);
            t.address = find_place(&t, &placed, g)?;
            placed.push(t);
            Ok::<u64, String>(placed.last().map_or(0, |t| t.address))
        };
        assert_eq!(put(Memory::Sbuf, &[128, 10]), Ok(0));
        assert_eq!(put(Memory::Sbuf, &[64, 1]), Ok(64));
        assert_eq!(put(Memory::Psum, &[128, 512]), Ok(0x200_0000));
        assert_eq!(put(Memory::Psum, &[128, 1]), Ok(0x200_0800));
        assert_eq!(put(Memory::Hbm, &[3]), Ok(HBM_BASE));
        assert_eq!(put(Memory::Hbm, &[3]), Ok(HBM_BASE + 64));
        assert!(put(Memory::Sbuf, &[128, 57344]).unwrap_err().contains("do not fit"));
        assert!(put(Memory::Sbuf, &[129, 1]).unwrap_err().contains("128 partitions"));
    }
}

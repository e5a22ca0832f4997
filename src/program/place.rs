//! Where tensors go: geometry of the on-chip memories and automatic placement.
//!
//! Automatic placement is first fit in declaration order: a tensor takes the lowest place that is
//! free of every tensor declared before it.

use super::limits;
use super::model::{DmaSide, Memory, Tensor};
use crate::isa::Generation;

/// Automatic places in SBUF and HBM are multiples of this.
const ALIGNMENT: u64 = 64;

/// OPEN: device address of the first byte of HBM that programs use. No page gives HBM's base; this
/// value lies below every on-chip aperture (wiki: dma/descriptor-model 2).
pub const HBM_BASE: u64 = 0x10_0000_0000;

/// Address shape of SBUF or PSUM.
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
    let g = crate::isa::Geometry::of(generation);
    match memory {
        Memory::Hbm => None,
        Memory::Sbuf => Some(Geometry {
            base: 0,
            partitions: g.sbuf_partitions.into(),
            stride: g.sbuf_stride.into(),
            active: g.sbuf_active.into(),
            bank: 0,
        }),
        Memory::Psum => Some(Geometry {
            base: g.psum_base.into(),
            partitions: g.psum_partitions.into(),
            stride: g.psum_stride.into(),
            active: g.psum_active.into(),
            bank: g.psum_bank.into(),
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

/// Checks that every byte of a DMA pattern lies inside its memory, and its size in the limits.
///
/// # Errors
/// What sticks out, as a message.
pub fn check_side(side: &DmaSide, generation: Generation) -> Result<(), String> {
    if side.dims.len() > limits::DMA_DIMENSIONS {
        return Err(format!("more than {} dimensions", limits::DMA_DIMENSIONS));
    }
    if side.dims.iter().any(|d| d.1 == 0) || side.element_bytes == 0 {
        return Err("an empty pattern".to_owned());
    }
    if side.bytes() > limits::TENSOR_BYTES {
        return Err(format!("more than {} bytes in one copy", limits::TENSOR_BYTES));
    }
    let name = side.memory.name();
    // 128-bit arithmetic cannot overflow: eight steps of 64 bits times counts below 2^36.
    let reach = |part: &dyn Fn(i128) -> i128| {
        let mut range = (0i128, 0i128);
        for (step, count) in &side.dims {
            let far = part((*step).into()) * i128::from(count - 1);
            range.0 += far.min(0);
            range.1 += far.max(0);
        }
        range
    };
    let Some(g) = geometry(generation, side.memory) else {
        let (low, high) = reach(&|step| step);
        let address = i128::from(side.address);
        let last = address + high + i128::from(side.element_bytes);
        return if address + low < 0 || last > 1 << 64 {
            Err(format!("the pattern leaves the address space of {name}"))
        } else {
            Ok(())
        };
    };
    if !(g.base..g.base + g.partitions * g.stride).contains(&side.address) {
        return Err(format!("{:#x} is not an address of {name}", side.address));
    }
    let stride = i128::from(g.stride);
    let offset = i128::from(side.address - g.base);
    // A step goes some partitions on and some bytes forth or back.
    let partitions = |step: i128| (step + stride / 2).div_euclid(stride);
    let (p0, p1) = reach(&partitions);
    let (b0, b1) = reach(&|step| step - partitions(step) * stride);
    let (first, byte) = (offset / stride, offset % stride);
    if first + p0 < 0 || first + p1 >= g.partitions.into() {
        return Err(format!(
            "partitions {} to {} do not fit the {} of {name}",
            first + p0,
            first + p1,
            g.partitions
        ));
    }
    let end = byte + b1 + i128::from(side.element_bytes);
    if byte + b0 < 0 || end > g.active.into() {
        return Err(format!(
            "bytes {}..{end} of a partition do not fit its {} bytes of {name}",
            byte + b0,
            g.active
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

    #[test]
    fn patterns_stay_inside() {
        let side = |memory, address, dims: &[(i64, u64)]| DmaSide {
            memory,
            address,
            dims: dims.to_vec(),
            element_bytes: 4,
            dtype: ElemType::FP32,
        };
        let check = |side: &DmaSide| check_side(side, Generation::V3);
        let part = 256 << 10;
        assert_eq!(check(&side(Memory::Sbuf, 0, &[(4, 57344), (part, 128)])), Ok(()));
        assert!(check(&side(Memory::Sbuf, 4, &[(4, 57344), (part, 128)])).is_err());
        assert!(check(&side(Memory::Sbuf, part as u64, &[(part, 128)])).is_err());
        assert_eq!(check(&side(Memory::Sbuf, 127 * part as u64, &[(-part, 128)])), Ok(()));
        assert_eq!(check(&side(Memory::Sbuf, 512, &[(part - 4, 128)])), Ok(()));
        assert!(check(&side(Memory::Sbuf, 500, &[(part - 4, 128)])).is_err());
        assert!(check(&side(Memory::Psum, 0, &[])).is_err());
        assert!(check(&side(Memory::Hbm, u64::MAX, &[])).is_err());
        assert!(check(&side(Memory::Hbm, 0, &[(i64::MIN, 1 << 30)])).is_err());
        assert!(check(&side(Memory::Hbm, 0, &[(4, u64::MAX), (4, u64::MAX)])).is_err());
    }
}

//! Tensors in the memory: filled before a run, read after it.

use crate::error::{Error, ErrorClass, Result};
use crate::machine::config::MachineConfig;
use crate::memory::{ByteSet, Lease, Memory, Region, Space, Validity};
use crate::program::{Memory as ProgramMemory, Tensor};

/// Where a tensor lies.
///
/// # Errors
/// [`ErrorClass::ProgramError`] if it does not fit the memory.
pub fn region(tensor: &Tensor, config: &MachineConfig) -> Result<Region> {
    let geometry = &config.geometry;
    let bad =
        |m: String| Error::new(ErrorClass::ProgramError, format!("tensor `{}` {m}", tensor.name));
    let row = tensor.row_bytes();
    let (space, first, byte, count) = match tensor.memory {
        ProgramMemory::Hbm => (Space::Hbm, 0, config.address_map.hbm_offset(tensor.address)?, 1),
        _ => {
            let address =
                u32::try_from(tensor.address).map_err(|_| bad("has no on-chip address".into()))?;
            let at = match tensor.memory {
                ProgramMemory::Sbuf => geometry.decode_sbuf(address),
                _ => geometry.decode(address),
            };
            let at = at.map_err(|e| bad(e.message))?;
            (at.space, at.partition, u64::from(at.byte), tensor.partitions())
        }
    };
    let fits = byte.checked_add(row).is_some_and(|end| end <= geometry.active(space))
        && u64::from(first) + count <= u64::from(geometry.partitions(space));
    if !fits || row == 0 || count == 0 {
        return Err(bad(format!(
            "of {count} rows of {row} bytes does not fit {space} at partition {first} byte {byte:#x}"
        )));
    }
    Ok(Region::new(space, first, count as u32, ByteSet::dense(byte, row)))
}

/// Tells the host about the bytes of HBM that `tensors` take.
pub fn announce(tensors: &[Tensor], memory: &Memory, config: &MachineConfig) {
    let regions = tensors.iter().filter_map(|t| region(t, config).ok());
    let hbm = regions.filter(|r| r.space == Space::Hbm);
    memory.will_touch_hbm(hbm.map(|r| r.bytes.start() as usize..r.bytes.end() as usize));
}

/// Writes the initial bytes of `tensor`, if it has any.
///
/// # Errors
/// As [`region`]; initial bytes of the wrong length.
pub fn fill(
    tensor: &Tensor,
    memory: &mut Memory,
    config: &MachineConfig,
    validity: Option<&mut Validity>,
) -> Result<()> {
    let region = region(tensor, config)?;
    let Some(bytes) = &tensor.init else { return Ok(()) };
    if bytes.len() as u64 != region.len() {
        return Err(Error::new(
            ErrorClass::ProgramError,
            format!(
                "tensor `{}` has {} initial bytes, its shape {}",
                tensor.name,
                bytes.len(),
                region.len()
            ),
        ));
    }
    let mut lease = memory.exclusive();
    let row = region.bytes.run_len();
    for (i, part) in bytes.chunks_exact(row as usize).enumerate() {
        let partition = region.first + i as u32;
        lease.row_mut(region.space, partition, region.bytes.start(), row)?.copy_from_slice(part);
    }
    if let Some(validity) = validity {
        validity.mark(&region);
    }
    Ok(())
}

/// The bytes of `tensor` in row-major order.
///
/// # Errors
/// As [`region`].
pub fn read(tensor: &Tensor, memory: &Lease<'_>, config: &MachineConfig) -> Result<Vec<u8>> {
    let region = region(tensor, config)?;
    let row = region.bytes.run_len();
    let mut out = Vec::with_capacity(region.len() as usize);
    for partition in region.first..region.first + region.count {
        out.extend_from_slice(memory.row(region.space, partition, region.bytes.start(), row)?);
    }
    Ok(out)
}

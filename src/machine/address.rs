//! Device addresses: HBM, SBUF, PSUM and the event and semaphore unit appear at the windows of the
//! configuration's address map. The one place that knows this; sequencers, DMA
//! instructions and POOL kernels ask it. (wiki: dma/onchip-working-memory; dma/descriptor-model)

use super::config::{AddressMap, MachineConfig};
use crate::error::{Error, Result};
use crate::memory::{ByteSet, Geometry, Region, Space};

/// Size of the event and semaphore unit.
pub const SYNC_UNIT: u64 = 0x10_0000;

/// A byte of one of the memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlace {
    /// Memory.
    pub space: Space,
    /// Partition (0 for HBM).
    pub partition: u32,
    /// Byte in the partition.
    pub byte: u64,
}

/// What lies at a device address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A byte of memory. On-chip it may lie above the bytes that exist in its partition.
    Memory(MemoryPlace),
    /// A byte of the event and semaphore unit.
    Sync(u64),
}

/// The map of device addresses of one machine.
#[derive(Clone, Debug)]
pub struct DeviceMap {
    map: AddressMap,
    geometry: Geometry,
}

impl DeviceMap {
    /// The map of `config`.
    pub fn new(config: &MachineConfig) -> Self {
        DeviceMap { map: config.address_map.clone(), geometry: config.geometry.clone() }
    }

    /// First device address of `space` and bytes from there to its end.
    fn window(&self, space: Space) -> (u64, u64) {
        let base = match space {
            Space::Sbuf => self.map.sbuf,
            Space::Psum => self.map.psum,
            Space::Hbm => self.map.hbm,
        };
        let g = &self.geometry;
        (base, g.stride(space).saturating_mul(u64::from(g.partitions(space))))
    }

    /// What lies at `address`.
    ///
    /// # Errors
    /// `device_address` if nothing does. Other cores do not exist in this emulator.
    pub fn locate(&self, address: u64) -> Result<Place> {
        locate(&self.map, &self.geometry, address)
    }

    /// The memory byte at `address`.
    ///
    /// # Errors
    /// As [`DeviceMap::locate`]; the event and semaphore unit is no memory.
    pub fn memory(&self, address: u64) -> Result<MemoryPlace> {
        match self.locate(address)? {
            Place::Memory(place) => Ok(place),
            Place::Sync(_) => Err(Error::illegal(
                "device_address",
                format!("{address:#x} is in the event and semaphore unit, not in memory"),
            )),
        }
    }

    /// The first of `len` memory bytes at `address`, all in one partition.
    ///
    /// # Errors
    /// As [`DeviceMap::memory`]; `address_in_memory` where some of the bytes do not exist.
    pub fn run(&self, address: u64, len: u64) -> Result<MemoryPlace> {
        let place = self.memory(address)?;
        exists(&self.geometry, place, len)?;
        Ok(place)
    }

    /// As [`DeviceMap::run`], in memory `space`, from which an index or a step must not lead away.
    ///
    /// # Errors
    /// As [`DeviceMap::run`]; `device_address` in another memory.
    pub fn run_in(&self, space: Space, address: u64, len: u64) -> Result<MemoryPlace> {
        let place = self.run(address, len)?;
        if place.space == space {
            return Ok(place);
        }
        Err(Error::illegal(
            "device_address",
            format!("{address:#x} is in {}, the operand starts in {space}", place.space),
        ))
    }

    /// Device address of the first byte of HBM.
    pub fn hbm(&self) -> u64 {
        self.map.hbm
    }

    /// The device address of a memory byte; the inverse of [`DeviceMap::memory`].
    pub fn address(&self, at: MemoryPlace) -> u64 {
        let partition = u64::from(at.partition) * self.geometry.stride(at.space);
        self.window(at.space).0 + partition + at.byte
    }

    /// Geometry of the memories.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// A region that surely contains every memory byte at device addresses from `low` up to but not
    /// including `high` of the memory in which `base` lies: for accesses that data decides.
    ///
    /// # Errors
    /// As [`DeviceMap::memory`]; `device_address` if no byte of the memory is in the range.
    pub fn hull(&self, base: u64, low: i128, high: i128) -> Result<Region> {
        let space = self.memory(base)?.space;
        let (start, len) = self.window(space);
        let low = low.max(i128::from(start));
        let high = high.min(i128::from(start) + i128::from(len));
        if low >= high {
            return Err(Error::illegal(
                "device_address",
                format!("the addresses from {base:#x} leave {space}"),
            ));
        }
        let (low, high) = ((low - i128::from(start)) as u64, (high - i128::from(start)) as u64);
        let (stride, active) = (self.geometry.stride(space), self.geometry.active(space));
        let (first, last) = (low / stride, (high - 1) / stride);
        let bytes = if first == last {
            let from = (low % stride).min(active);
            let to = ((high - 1) % stride + 1).min(active);
            ByteSet::dense(from, to.saturating_sub(from))
        } else {
            ByteSet::dense(0, active)
        };
        Ok(Region::new(space, first as u32, (last - first + 1) as u32, bytes))
    }
}

/// As [`DeviceMap::locate`], for callers that hold the configuration.
///
/// # Errors
/// `device_address` if nothing lies there.
pub fn locate(map: &AddressMap, geometry: &Geometry, address: u64) -> Result<Place> {
    if let Some(offset) = address.checked_sub(map.events).filter(|o| *o < SYNC_UNIT) {
        return Ok(Place::Sync(offset));
    }
    for (base, space) in [(map.psum, Space::Psum), (map.sbuf, Space::Sbuf)] {
        let Some(offset) = address.checked_sub(base) else { continue };
        let stride = geometry.stride(space);
        if offset < stride * u64::from(geometry.partitions(space)) {
            return Ok(Place::Memory(MemoryPlace {
                space,
                partition: (offset / stride) as u32,
                byte: offset % stride,
            }));
        }
    }
    if let Some(byte) = address.checked_sub(map.hbm).filter(|b| *b < geometry.hbm_bytes) {
        return Ok(Place::Memory(MemoryPlace { space: Space::Hbm, partition: 0, byte }));
    }
    Err(Error::illegal("device_address", format!("nothing lies at device address {address:#x}"))
        .help("the emulator has one core; the memories of other cores do not exist"))
}

/// Requires that `len` bytes from `at` exist in its partition.
///
/// # Errors
/// `address_in_memory` if some do not.
pub fn exists(geometry: &Geometry, at: MemoryPlace, len: u64) -> Result<()> {
    let active = geometry.active(at.space);
    if at.byte.checked_add(len).is_some_and(|end| end <= active) {
        return Ok(());
    }
    Err(Error::illegal(
        "address_in_memory",
        format!(
            "{len} bytes from byte {:#x} of {} partition {}, which has {active:#x}",
            at.byte, at.space, at.partition
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Generation;

    #[test]
    fn addresses_and_places_are_inverse() {
        let map = DeviceMap::new(&MachineConfig::builtin(Generation::V3));
        for place in [
            MemoryPlace { space: Space::Sbuf, partition: 127, byte: 0x37FFF },
            MemoryPlace { space: Space::Psum, partition: 3, byte: 5 },
            MemoryPlace { space: Space::Hbm, partition: 0, byte: 0x1234 },
        ] {
            assert_eq!(map.memory(map.address(place)).unwrap(), place);
        }
        assert!(map.locate(u64::MAX).is_err());
        assert!(map.memory(map.map.events + 0x1800).is_err());
    }

    #[test]
    fn hulls_are_clipped_to_the_memory() {
        let map = DeviceMap::new(&MachineConfig::builtin(Generation::V3));
        let hbm = map.hull(map.map.hbm, -5, 1 << 100).unwrap();
        assert_eq!(hbm.bytes, ByteSet::dense(0, map.geometry.hbm_bytes));
        let at = MemoryPlace { space: Space::Sbuf, partition: 2, byte: 16 };
        let base = map.address(at);
        let row = map.hull(base, i128::from(base), i128::from(base) + 8).unwrap();
        assert_eq!(row, Region::new(Space::Sbuf, 2, 1, ByteSet::dense(16, 8)));
        let stride = map.geometry.stride(Space::Sbuf) as i128;
        let rows = map.hull(base, i128::from(base), i128::from(base) + stride).unwrap();
        assert_eq!((rows.first, rows.count), (2, 2));
        assert!(map.hull(base, 0, 8).is_err());
    }
}

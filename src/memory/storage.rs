//! The bytes of SBUF, PSUM and HBM, and the one `unsafe` of the memory: lending disjoint parts of
//! them to engines that run at the same time.
//!
//! # Invariant
//!
//! A [`Lease`] may be used by one thread while other threads use other leases. The machine hands
//! out leases so that, among leases in use at the same time, no byte between the first and the
//! last byte of a written region lies between the first and the last byte of any region of
//! another lease (bounding boxes, [`Region::hull_overlaps`]). The machine's access board
//! establishes this by making a work wait for every earlier one whose boxes meet its own.
//! Each access through a lease is checked against the regions the lease was made for; a kernel
//! that strays is an [`ErrorClass::Internal`](crate::ErrorClass) error, not a data race.

use memmap2::{MmapMut, MmapOptions};

use std::collections::BTreeMap;
use std::ops::Range;

use super::geometry::{Geometry, Space};
use super::region::{Access, Region};
use crate::error::{Error, ErrorClass, Result};

struct Bytes {
    base: *mut u8,
    partitions: u32,
    active: u64,
    // Keeps the mapping alive; its bytes are touched only through `base`.
    map: MmapMut,
}

// SAFETY: `base` points into `map`, which lives as long as `Bytes` and never moves. Concurrent
// access goes through leases, whose disjointness the module's invariant demands.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn map(partitions: u32, active: u64) -> Result<Self> {
        let len = usize::try_from(u64::from(partitions) * active)
            .map_err(|_| Error::new(ErrorClass::ConfigError, "memory larger than address space"))?;
        let mut map =
            MmapOptions::new().len(len.max(1)).no_reserve_swap().map_anon().map_err(|e| {
                Error::new(ErrorClass::ConfigError, format!("cannot map {len} bytes: {e}"))
                    .help("lower geometry.hbm_bytes in the configuration")
            })?;
        Ok(Bytes { base: map.as_mut_ptr(), partitions, active, map })
    }

    /// Pointer to `len` bytes at `byte` of `partition`, or `None` out of bounds.
    fn at(&self, partition: u32, byte: u64, len: u64) -> Option<*mut u8> {
        let end = byte.checked_add(len)?;
        if partition >= self.partitions || end > self.active {
            return None;
        }
        let offset = u64::from(partition) * self.active + byte;
        // SAFETY: offset + len <= partitions * active, the length of the mapping.
        Some(unsafe { self.base.add(offset as usize) })
    }
}

/// Bytes of a large page of the host, and how many of them must be wanted for one to pay.
const LARGE_PAGE: usize = 2 << 20;
const WANTED: usize = LARGE_PAGE / 4;

impl Bytes {
    /// Tells the host that the bytes at these offsets will be touched: it may take large pages
    /// where much of one is wanted. It may as well not; nothing depends on it.
    fn will_touch(&self, ranges: impl Iterator<Item = Range<usize>>) {
        let base = self.map.as_ptr() as usize;
        let mut wanted: BTreeMap<usize, usize> = BTreeMap::new();
        for range in ranges {
            let (mut at, end) = (base + range.start, base + range.end.min(self.map.len()));
            while at < end {
                let page = at / LARGE_PAGE;
                let stop = end.min((page + 1) * LARGE_PAGE);
                *wanted.entry(page).or_default() += stop - at;
                at = stop;
            }
        }
        for (page, _) in wanted.into_iter().filter(|(_, n)| *n >= WANTED) {
            let start = page * LARGE_PAGE;
            if let Some(offset) = start.checked_sub(base)
                && offset + LARGE_PAGE <= self.map.len()
            {
                #[cfg(target_os = "linux")]
                let _ = self.map.advise_range(memmap2::Advice::HugePage, offset, LARGE_PAGE);
            }
        }
    }
}

/// All memories of one core.
pub struct Memory {
    spaces: [Bytes; 3],
}

impl Memory {
    /// Zero-filled memories of the sizes in `geometry`. Host pages are taken when first touched.
    ///
    /// # Errors
    /// [`ErrorClass::ConfigError`] if the host cannot map so much.
    pub fn new(geometry: &Geometry) -> Result<Self> {
        let map = |s: Space| Bytes::map(geometry.partitions(s), geometry.active(s));
        Ok(Memory { spaces: [map(Space::Sbuf)?, map(Space::Psum)?, map(Space::Hbm)?] })
    }

    /// Tells the host which bytes of HBM will be touched.
    pub fn will_touch_hbm(&self, ranges: impl Iterator<Item = Range<usize>>) {
        self.spaces[Space::Hbm as usize].will_touch(ranges);
    }

    /// Lends the bytes of `accesses` to one work.
    ///
    /// # Safety
    /// The caller keeps the module's invariant for as long as the lease lives.
    pub unsafe fn lend<'a>(&'a self, accesses: &'a [Access]) -> Lease<'a> {
        Lease { memory: self, accesses: Some(accesses) }
    }

    /// Lends everything.
    ///
    /// # Safety
    /// No other lease is in use.
    pub unsafe fn lend_all(&self) -> Lease<'_> {
        Lease { memory: self, accesses: None }
    }

    /// The whole memory, for a caller that has it for itself: loader, dumps, debugger.
    pub fn exclusive(&mut self) -> Lease<'_> {
        Lease { memory: self, accesses: None }
    }
}

/// Permission to touch the bytes of some accesses.
pub struct Lease<'a> {
    memory: &'a Memory,
    accesses: Option<&'a [Access]>,
}

impl Lease<'_> {
    fn at(
        &self,
        space: Space,
        partition: u32,
        byte: u64,
        len: u64,
        write: bool,
    ) -> Result<*mut u8> {
        if let Some(accesses) = self.accesses {
            let inside = accesses.iter().any(|a| {
                let r: &Region = &a.region;
                (!write || a.kind.writes())
                    && r.space == space
                    && (r.first..r.first + r.count).contains(&partition)
                    && r.bytes.start() <= byte
                    && byte.saturating_add(len) <= r.bytes.end()
            });
            if !inside {
                return Err(Error::internal(format!(
                    "{} of {space} partition {partition} bytes {byte:#x}..{:#x} outside the declared footprint",
                    if write { "write" } else { "read" },
                    byte.saturating_add(len)
                )));
            }
        }
        self.memory.spaces[space as usize].at(partition, byte, len).ok_or_else(|| {
            Error::illegal(
                "address_in_memory",
                format!(
                    "{space} partition {partition} bytes {byte:#x}..{:#x} do not exist",
                    byte.saturating_add(len)
                ),
            )
        })
    }

    /// `len` bytes at `byte` of `partition`, to read.
    ///
    /// # Errors
    /// [`ErrorClass::Internal`](crate::ErrorClass) outside the declared footprint.
    pub fn row(&self, space: Space, partition: u32, byte: u64, len: u64) -> Result<&[u8]> {
        let at = self.at(space, partition, byte, len, false)?;
        // SAFETY: `at` is valid for `len` bytes; by the invariant nobody writes them during the
        // lease, and `&self` excludes `row_mut` through this lease.
        Ok(unsafe { std::slice::from_raw_parts(at, len as usize) })
    }

    /// `len` bytes at `byte` of `partition`, to write (and read back).
    ///
    /// # Errors
    /// [`ErrorClass::Internal`](crate::ErrorClass) outside the declared written footprint.
    pub fn row_mut(
        &mut self,
        space: Space,
        partition: u32,
        byte: u64,
        len: u64,
    ) -> Result<&mut [u8]> {
        let at = self.at(space, partition, byte, len, true)?;
        // SAFETY: as in `row`, and `&mut self` makes this the only reference of the lease.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, len as usize) })
    }

    /// Up to `N` rows to read and one to write at once, or `None` if the written row overlaps a
    /// read one. Each row is (space, partition, byte, length).
    ///
    /// # Errors
    /// As [`Lease::row`] and [`Lease::row_mut`].
    #[allow(clippy::type_complexity)]
    pub fn rows_and_mut<const N: usize>(
        &mut self,
        read: [(Space, u32, u64, u64); N],
        write: (Space, u32, u64, u64),
    ) -> Result<Option<([&[u8]; N], &mut [u8])>> {
        let (space, partition, byte, len) = write;
        for (s, p, b, l) in read {
            if s == space
                && p == partition
                && b < byte.saturating_add(len)
                && byte < b.saturating_add(l)
            {
                return Ok(None);
            }
        }
        let out = self.at(space, partition, byte, len, true)?;
        let mut rows: [&[u8]; N] = [&[]; N];
        for (row, (s, p, b, l)) in rows.iter_mut().zip(read) {
            let at = self.at(s, p, b, l, false)?;
            // SAFETY: as in `row`; disjoint from the written row by the test above.
            *row = unsafe { std::slice::from_raw_parts(at, l as usize) };
        }
        // SAFETY: as in `row_mut`.
        Ok(Some((rows, unsafe { std::slice::from_raw_parts_mut(out, len as usize) })))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::ByteSet;

    pub(crate) fn small_geometry() -> Geometry {
        Geometry {
            sbuf_partitions: 128,
            sbuf_stride: 0x40000,
            sbuf_active: 0x1000,
            psum_partitions: 128,
            psum_base: 0x200_0000,
            psum_stride: 0x8000,
            psum_active: 0x4000,
            psum_bank: 2048,
            pe_rows: 128,
            pe_cols: 128,
            channels: 128,
            hbm_bytes: 1 << 20,
        }
    }

    #[test]
    fn a_lease_refuses_bytes_it_was_not_made_for() {
        let memory = Memory::new(&small_geometry()).unwrap();
        let accesses = [
            Access::read(Region::new(Space::Sbuf, 0, 4, ByteSet::dense(0, 64))),
            Access::write(Region::new(Space::Sbuf, 0, 4, ByteSet::dense(64, 64))),
        ];
        // SAFETY: the only lease.
        let mut lease = unsafe { memory.lend(&accesses) };
        assert!(lease.row(Space::Sbuf, 3, 0, 64).is_ok());
        assert!(lease.row_mut(Space::Sbuf, 3, 64, 64).is_ok());
        assert_eq!(lease.row_mut(Space::Sbuf, 3, 0, 64).unwrap_err().class, ErrorClass::Internal);
        assert_eq!(lease.row(Space::Sbuf, 4, 0, 64).unwrap_err().class, ErrorClass::Internal);
        assert_eq!(lease.row(Space::Psum, 0, 0, 64).unwrap_err().class, ErrorClass::Internal);
        let (rows, out) = lease
            .rows_and_mut([(Space::Sbuf, 1, 0, 64)], (Space::Sbuf, 1, 64, 64))
            .unwrap()
            .expect("disjoint");
        out.copy_from_slice(rows[0]);
    }

    #[test]
    fn nothing_exists_beyond_the_active_bytes() {
        let mut memory = Memory::new(&small_geometry()).unwrap();
        let lease = memory.exclusive();
        assert!(lease.row(Space::Sbuf, 127, 0xFFF, 1).is_ok());
        assert!(lease.row(Space::Sbuf, 127, 0xFFF, 2).is_err());
        assert!(lease.row(Space::Sbuf, 128, 0, 1).is_err());
        assert!(lease.row(Space::Hbm, 0, u64::MAX, 2).is_err());
    }
}

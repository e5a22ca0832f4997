//! Loads and stores of one core: its local memories, and the bus for everything else.

use crate::error::Error;

use super::{Cause, Core, DRAM_BASE, Fault};

/// Why an access over the bus failed.
#[derive(Clone, Debug, PartialEq)]
pub enum BusFault {
    /// Nothing answers at the address.
    Unmapped,
    /// The memory behind it has an error to report (a race, an unwritten byte).
    Error(Box<Error>),
}

/// What lies outside a core's local memories, by the core's 32-bit addresses: the SBUF window at
/// 0x8000_0000, the HBM windows. PSUM cannot be reached. (wiki: uarch/lsu-memory)
pub trait Q7Bus {
    /// Reads `out.len()` bytes at `address`.
    ///
    /// # Errors
    /// [`BusFault`]; nothing of `out` is used then.
    fn read(&mut self, address: u32, out: &mut [u8]) -> Result<(), BusFault>;

    /// Writes `bytes` at `address`.
    ///
    /// # Errors
    /// [`BusFault`]; nothing may have been written then.
    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault>;
}

/// A bus with nothing on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBus;

impl Q7Bus for NoBus {
    fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), BusFault> {
        Err(BusFault::Unmapped)
    }

    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), BusFault> {
        Err(BusFault::Unmapped)
    }
}

impl Core {
    /// The local bytes at `address`, if all of them are local.
    #[inline(always)]
    pub(super) fn local(&self, address: u32, length: usize) -> Option<&[u8]> {
        let at = address.wrapping_sub(DRAM_BASE) as usize;
        if let Some(bytes) = self.dram.get(at..at + length) {
            return Some(bytes);
        }
        let at = address as usize;
        self.iram.get(at..at + length)
    }

    #[inline(always)]
    pub(crate) fn load<const N: usize>(
        &mut self,
        bus: &mut dyn Q7Bus,
        address: u32,
    ) -> Result<[u8; N], Box<Fault>> {
        let mut out = [0; N];
        if let Some(bytes) = self.local(address, N) {
            out.copy_from_slice(bytes);
            return Ok(out);
        }
        self.bus_read(bus, address, &mut out)?;
        Ok(out)
    }

    #[inline(always)]
    pub(crate) fn store(
        &mut self,
        bus: &mut dyn Q7Bus,
        address: u32,
        bytes: &[u8],
    ) -> Result<(), Box<Fault>> {
        let at = address.wrapping_sub(DRAM_BASE) as usize;
        if let Some(place) = self.dram.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
            return Ok(());
        }
        self.store_far(bus, address, bytes)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn store_far(
        &mut self,
        bus: &mut dyn Q7Bus,
        address: u32,
        bytes: &[u8],
    ) -> Result<(), Box<Fault>> {
        let at = address as usize;
        if let Some(place) = self.iram.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.code_stale = true;
            return Ok(());
        }
        self.now += i64::from(self.config.timing.bus_store);
        match bus.write(address, bytes) {
            Ok(()) => Ok(()),
            Err(fault) => self.bus_fault(fault, address),
        }
    }

    #[inline(never)]
    pub(super) fn bus_read(
        &mut self,
        bus: &mut dyn Q7Bus,
        address: u32,
        out: &mut [u8],
    ) -> Result<(), Box<Fault>> {
        self.now += i64::from(self.config.timing.bus_load);
        match bus.read(address, out) {
            Ok(()) => Ok(()),
            Err(fault) => self.bus_fault(fault, address),
        }
    }

    /// As [`Core::load`] of a 64-byte row, but a row without memory reads as zeros.
    pub(crate) fn load_row_or_zero(
        &mut self,
        bus: &mut dyn Q7Bus,
        address: u32,
    ) -> Result<[u8; 64], Box<Fault>> {
        let mut out = [0; 64];
        if let Some(bytes) = self.local(address, 64) {
            out.copy_from_slice(bytes);
            return Ok(out);
        }
        match bus.read(address, &mut out) {
            Ok(()) => Ok(out),
            Err(BusFault::Unmapped) => Ok([0; 64]),
            Err(fault) => self.bus_fault(fault, address),
        }
    }

    #[cold]
    fn bus_fault<T>(&mut self, fault: BusFault, address: u32) -> Result<T, Box<Fault>> {
        match fault {
            BusFault::Unmapped => self.exception(Cause::LoadStore, address),
            BusFault::Error(error) => Err(Box::new(Fault::Error { pc: self.pc, error })),
        }
    }

    /// Up to 16 instruction bytes at `pc`; fewer at the end of memory.
    pub(crate) fn fetch(&mut self, bus: &mut dyn Q7Bus, pc: u32) -> Result<Vec<u8>, Box<Fault>> {
        let at = pc as usize;
        if let Some(bytes) =
            self.iram.get(at..self.iram.len().min(at + 16)).filter(|b| !b.is_empty())
        {
            return Ok(bytes.to_vec());
        }
        // Never read past what the instruction needs: the next byte may not exist.
        let mut out = vec![0; 2];
        for length in [2usize, 3, 4, 8, 16] {
            out.resize(length, 0);
            if bus.read(pc, &mut out).is_err() {
                self.pc = pc;
                return self.exception(Cause::Fetch, pc);
            }
            let low = out[0] & 15;
            let done = match low {
                8..=13 => length >= 2,
                0..=7 => length >= 3,
                14 => length >= 16,
                _ => length >= 8 && out[3] & 1 == 0 || length >= 16,
            };
            if done {
                break;
            }
        }
        Ok(out)
    }
}

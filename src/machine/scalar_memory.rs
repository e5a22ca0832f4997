//! Scalar accesses of sequencers by device address: HBM, SBUF, PSUM, and the windows of events
//! and semaphores. (wiki: dma/onchip-working-memory; control/address/evt-sem-regions)

use std::sync::Arc;

use smallvec::smallvec;

use super::address::{self, MemoryPlace};
use super::livelock::Looked;
use super::run::Machine;
use crate::engine::cost::{CostQuery, CostRow, Operands};
use crate::engine::{Outcome, Work};
use crate::error::{Error, Result};
use crate::memory::{Access, ByteSet, Region};
use crate::sync::{Operand, SyncId, UpdateKind};

/// What a scalar access at a device address touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memory(MemoryPlace),
    /// Event `i`.
    Event(u16),
    /// Semaphore `i` through one of its windows.
    Semaphore(u16, Window),
    /// The reserved part of the event unit: reads zero, ignores writes (OPEN: sync choice 16).
    Pad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    Read,
    Set,
    Increment,
    Decrement,
}

/// Size of one window in the event and semaphore unit.
const WINDOW: u64 = 0x400;

impl Machine {
    fn place(&self, address: u64, size: usize) -> Result<Place> {
        let offset =
            match address::locate(&self.config.address_map, &self.config.geometry, address)? {
                address::Place::Memory(place) => {
                    address::exists(&self.config.geometry, place, size as u64)?;
                    return Ok(Place::Memory(place));
                }
                address::Place::Sync(offset) => offset,
            };
        let index = ((offset % WINDOW) / 4) as u16;
        if size != 4 || offset % 4 != 0 {
            return Err(Error::illegal(
                "sync_window_access",
                "events and semaphores take 32-bit accesses",
            ));
        }
        Ok(match offset / WINDOW {
            0 => Place::Event(index),
            4 => Place::Semaphore(index, Window::Read),
            5 => Place::Semaphore(index, Window::Set),
            6 => Place::Semaphore(index, Window::Increment),
            7 => Place::Semaphore(index, Window::Decrement),
            _ => Place::Pad,
        })
    }

    /// Loads bytes for a register. The conductor waits for the works that still write them.
    pub(super) fn load_bytes(
        &mut self,
        s: usize,
        pc: usize,
        address: u64,
        into: &mut [u8],
    ) -> Result<()> {
        match self.place(address, into.len())? {
            Place::Memory(MemoryPlace { space, partition, byte }) => {
                let len = into.len() as u64;
                let access =
                    Access::read(Region::new(space, partition, 1, ByteSet::dense(byte, len)));
                let (sender, receiver) = crossbeam_channel::bounded(1);
                let work = scalar_work(access, move |lane| {
                    let _ = sender.send(lane.mem.row(space, partition, byte, len)?.to_vec());
                    Outcome::none()
                });
                self.streams[s].lap.look(Looked::Memory(address));
                self.scalar(s, pc, work)?;
                let bytes = receiver
                    .try_recv()
                    .map_err(|_| Error::internal("a register load returned nothing"))?;
                into.copy_from_slice(&bytes);
            }
            Place::Event(i) => self.load_sync(s, SyncId::Event(i), into)?,
            Place::Semaphore(i, Window::Read) => self.load_sync(s, SyncId::Semaphore(i), into)?,
            Place::Semaphore(..) | Place::Pad => into.fill(0),
        }
        Ok(())
    }

    fn load_sync(&mut self, s: usize, id: SyncId, into: &mut [u8]) -> Result<()> {
        self.streams[s].lap.look(Looked::Sync(id));
        if let Some(log) = &mut self.log {
            log.polled = true;
        }
        into.copy_from_slice(&self.sync.value(id)?.to_le_bytes());
        Ok(())
    }

    /// Stores bytes in memory, all in one partition.
    pub(super) fn store_bytes(
        &mut self,
        s: usize,
        pc: usize,
        address: u64,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let len = bytes.len() as u64;
        let Place::Memory(MemoryPlace { space, partition, byte }) =
            self.place(address, bytes.len())?
        else {
            return Err(Error::illegal(
                "device_address",
                format!("{address:#x} is in the event and semaphore unit, not in memory"),
            ));
        };
        let access = Access::write(Region::new(space, partition, 1, ByteSet::dense(byte, len)));
        let work = scalar_work(access, move |lane| {
            lane.mem.row_mut(space, partition, byte, len)?.copy_from_slice(&bytes);
            Outcome::none()
        });
        self.scalar(s, pc, work)
    }

    /// Stores the low `size` bytes of `value`.
    pub(super) fn store_scalar(
        &mut self,
        s: usize,
        pc: usize,
        address: u64,
        value: u64,
        size: usize,
    ) -> Result<()> {
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(Error::illegal("write_size", format!("a scalar write of {size} bytes")));
        }
        let word = value as u32;
        match self.place(address, size)? {
            Place::Memory(MemoryPlace { space, partition, byte }) => {
                let access = Access::write(Region::new(
                    space,
                    partition,
                    1,
                    ByteSet::dense(byte, size as u64),
                ));
                let work = scalar_work(access, move |lane| {
                    let row = lane.mem.row_mut(space, partition, byte, size as u64)?;
                    row.copy_from_slice(&value.to_le_bytes()[..size]);
                    Outcome::none()
                });
                self.changes += 1;
                self.scalar(s, pc, work)
            }
            Place::Event(i) => {
                let kind = if word & 1 == 1 { UpdateKind::Set } else { UpdateKind::Clear };
                self.apply_now(s, pc, SyncId::Event(i), kind, 0)
            }
            Place::Semaphore(i, window) => {
                let o = Operand::Immediate(word);
                let kind = match window {
                    Window::Set => UpdateKind::Write(o),
                    Window::Increment => UpdateKind::Add(o),
                    Window::Decrement => UpdateKind::Sub(o),
                    Window::Read => {
                        self.note(s, pc, format!("write to the read window of $S[{i}] ignored"));
                        return Ok(());
                    }
                };
                self.apply_now(s, pc, SyncId::Semaphore(i), kind, word)
            }
            Place::Pad => {
                self.note(s, pc, format!("write to reserved device address {address:#x} ignored"));
                Ok(())
            }
        }
    }

    /// Runs a scalar access as a work of the stream, now.
    fn scalar(&mut self, s: usize, pc: usize, work: Work) -> Result<()> {
        let work = Arc::new(work);
        let now = self.now;
        let stream = &mut self.streams[s];
        let in_flight = stream.in_flight.iter().filter(|f| f.end > now).map(|f| &f.work);
        let hazard = in_flight.chain(stream.pending.iter().map(|p| &p.work)).any(|old| {
            work.accesses.iter().any(|a| {
                old.accesses
                    .iter()
                    .any(|b| (a.kind.writes() || b.kind.writes()) && a.region.overlaps(&b.region))
            })
        });
        if hazard {
            return Err(Error::undefined(
                "sequencer_hazard",
                format!(
                    "{} is still in use by an unfinished instruction of the same engine",
                    work.accesses[0].region
                ),
            )
            .help(
                "sequencer instructions do not wait for the data path: put a DRAIN before this one",
            ));
        }
        stream.works += 1;
        let (number, clock) = (stream.works, stream.clock.clone());
        self.number_work(s);
        self.begin_work(s, s, &work, number, pc, Some(&clock))?;
        // the access is done when the instruction is: a later update of the stream covers it
        self.streams[s].clock.learn_results(s, number);
        Ok(())
    }
}

fn scalar_work(
    access: Access,
    run: impl Fn(&mut crate::engine::Lane<'_>) -> Result<Outcome> + Send + Sync + 'static,
) -> Work {
    let mut work =
        Work::new([], CostQuery::new(CostRow::Other, 1, Operands::new()), run).with_outcome();
    work.accesses = smallvec![access];
    work
}

//! Runs works on the host: inline, or on worker threads that exchange work over bounded channels.
//!
//! The conductor submits works in simulated order. Each names, for every other unit, the ticket
//! that must be finished first; within a unit works run in order. So the earliest unfinished work
//! can always run, whatever the number of threads: no wait cycle is possible.
//!
//! The protocol itself is in `tickets.rs`; the tests in `executor_model.rs` run it under a model
//! checker.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::{EngineState, Lane, Outcome, Scratch, Work};
use crate::error::Result;
use crate::memory::Memory;

/// What the protocol needs of the host.
mod primitives {
    pub use std::sync::atomic::{AtomicU64, Ordering};

    pub use crossbeam_channel::{Receiver, Sender, bounded};
    pub use parking_lot::{Condvar, Mutex, MutexGuard};

    pub type JoinHandle = std::thread::JoinHandle<()>;

    /// Looks at a ticket before a waiter goes to sleep.
    pub const SPINS: u32 = 64;

    pub fn spin() {
        std::hint::spin_loop();
    }

    pub fn wait<'a, T>(condvar: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(&mut guard);
        guard
    }

    pub fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> JoinHandle {
        std::thread::Builder::new().name(name).spawn(f).expect("the host starts a thread")
    }
}

#[path = "tickets.rs"]
mod tickets;

#[cfg(test)]
#[path = "executor_model.rs"]
mod model;

use tickets::{Crew, Runner};
pub use tickets::{Dependencies, WorkFault};

/// Units that run works: the five engines and the DMA engines together.
pub const UNITS: usize = 6;
/// The unit of all DMA queues.
pub const DMA_UNIT: usize = 5;

struct Host {
    memory: Arc<Memory>,
    states: [Mutex<EngineState>; UNITS],
}

impl Runner for Host {
    type Work = Work;
    type Outcome = Outcome;
    type Scratch = Scratch;

    fn run(&self, unit: usize, work: &Work, scratch: &mut Scratch) -> Result<Outcome> {
        // SAFETY: `after` of each job names every earlier work whose bounding boxes conflict, and
        // `run` is called only when those are finished; see the invariant of `memory::storage`.
        let mem = unsafe { self.memory.lend(&work.accesses) };
        let mut state = self.states[unit].lock();
        (work.run)(&mut Lane { mem, state: &mut state, scratch })
    }
}

/// Runs works for the conductor.
pub struct Executor {
    crew: Crew<Host>,
}

impl Executor {
    /// `threads` worker threads (at most one per unit is of use), or inline if 0.
    pub fn new(memory: Arc<Memory>, states: [EngineState; UNITS], threads: usize) -> Self {
        let host = Host { memory, states: states.map(Mutex::new) };
        Executor { crew: Crew::new(host, UNITS, threads) }
    }

    /// Ticket that the next work of `unit` will get.
    pub fn next_ticket(&self, unit: usize) -> u64 {
        self.crew.next_ticket(unit)
    }

    /// Runs `work` on `unit` after the works in `after`. Returns its outcome if it needs one or
    /// runs inline; a fault of a threaded work shows up in [`Executor::take_fault`].
    ///
    /// # Errors
    /// The fault of the work, if it ran here.
    pub fn submit(
        &mut self,
        unit: usize,
        work: &Arc<Work>,
        after: Dependencies,
    ) -> Result<Outcome> {
        self.crew.submit(unit, work, after, work.needs_outcome)
    }

    /// Submission number of the last work.
    pub fn last_order(&self) -> u64 {
        self.crew.last_order()
    }

    /// Waits until `ticket` of `unit` is finished.
    pub fn wait(&self, unit: usize, ticket: u64) {
        self.crew.wait(unit, ticket);
    }

    /// Waits until everything submitted is finished.
    pub fn wait_all(&self) {
        self.crew.wait_all();
    }

    /// The earliest fault so far, in order of submission. Final only after [`Executor::wait_all`].
    pub fn take_fault(&self) -> Option<WorkFault> {
        self.crew.take_fault()
    }

    /// Tickets given out, per unit, and the number of submissions.
    pub fn counters(&self) -> ([u64; UNITS], u64) {
        let (tickets, order) = self.crew.counters();
        (std::array::from_fn(|unit| tickets[unit]), order)
    }

    /// Goes on counting from a snapshot: everything up to there counts as finished. Nothing may
    /// be running.
    pub fn set_counters(&mut self, tickets: [u64; UNITS], order: u64) {
        self.crew.set_counters(&tickets, order);
    }

    /// The memory. The caller must have waited for the works that touch what it reads.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.crew.runner().memory
    }

    /// State of the engine of `unit`, for the conductor and for checkpoints.
    pub fn with_state<T>(&self, unit: usize, f: impl FnOnce(&mut EngineState) -> T) -> T {
        f(&mut self.crew.runner().states[unit].lock())
    }

    /// Ends the threads.
    pub fn finish(&mut self) {
        self.crew.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cost::{CostQuery, CostRow, Operands};
    use crate::memory::{Access, Region, storage::tests::small_geometry};

    fn add_one(address: u64) -> Arc<Work> {
        let region = Region::hbm(address, 8);
        let cost = CostQuery::new(CostRow::Other, 1, Operands::new());
        Arc::new(Work::new([Access::accumulate(region)], cost, move |lane| {
            let row = lane.mem.row_mut(crate::memory::Space::Hbm, 0, address, 8)?;
            let value = u64::from_le_bytes(row[..8].try_into().expect("8 bytes"));
            // long enough that a missing dependency would lose an update
            for _ in 0..200 {
                std::hint::spin_loop();
            }
            row.copy_from_slice(&(value + 1).to_le_bytes());
            Outcome::none()
        }))
    }

    #[test]
    fn dependent_works_of_different_units_run_one_after_the_other() {
        for threads in [0, 1, 2, 6] {
            let memory = Arc::new(Memory::new(&small_geometry()).unwrap());
            let mut executor = Executor::new(memory, Default::default(), threads);
            let work = add_one(64);
            let mut last: Option<(u8, u64)> = None;
            for i in 0..2000 {
                let unit = (i * 7 + i / 3) % UNITS;
                let ticket = executor.next_ticket(unit);
                executor.submit(unit, &work, last.into_iter().collect()).unwrap();
                last = Some((unit as u8, ticket));
            }
            executor.wait_all();
            executor.finish();
            assert!(executor.take_fault().is_none());
            // SAFETY: the threads have ended.
            let lease = unsafe { executor.memory().lend(&work.accesses) };
            let bytes = lease.row(crate::memory::Space::Hbm, 0, 64, 8).unwrap();
            assert_eq!(u64::from_le_bytes(bytes.try_into().unwrap()), 2000);
        }
    }
}

//! Runs works on the host: inline, or on worker threads that exchange work over bounded channels.
//!
//! The conductor submits works in simulated order. Each names, for every other unit, the ticket
//! that must be finished first; within a unit works run in order. So the earliest unfinished work
//! can always run, whatever the number of threads: no wait cycle is possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use crate::engine::{EngineState, Lane, Outcome, Scratch, Work};
use crate::error::{Error, Result};
use crate::memory::Memory;

/// Units that run works: the five engines and the DMA engines together.
pub const UNITS: usize = 6;
/// The unit of all DMA queues.
pub const DMA_UNIT: usize = 5;

/// Works that may queue in front of one thread.
const CHANNEL_DEPTH: usize = 64;

/// How far a unit has come; others wait on it.
struct Progress {
    done: AtomicU64,
    lock: Mutex<()>,
    moved: Condvar,
}

impl Progress {
    fn new() -> Self {
        Progress { done: AtomicU64::new(0), lock: Mutex::new(()), moved: Condvar::new() }
    }

    fn wait_for(&self, ticket: u64) {
        for _ in 0..64 {
            if self.done.load(Ordering::Acquire) >= ticket {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock();
        while self.done.load(Ordering::Acquire) < ticket {
            self.moved.wait(&mut guard);
        }
    }

    fn finish(&self, ticket: u64) {
        // the lock orders the store against a waiter that has just tested and is about to sleep
        let guard = self.lock.lock();
        self.done.store(ticket, Ordering::Release);
        drop(guard);
        self.moved.notify_all();
    }
}

/// What must be finished before a work may run: (unit, ticket).
pub type Dependencies = SmallVec<[(u8, u64); 6]>;

struct Job {
    unit: usize,
    ticket: u64,
    work: Arc<Work>,
    after: Dependencies,
    order: u64,
    reply: Option<Sender<Result<Outcome>>>,
}

/// A fault that a work raised while it ran, with its place in the order of submission.
#[derive(Debug)]
pub struct WorkFault {
    /// Submission number of the work.
    pub order: u64,
    /// What went wrong.
    pub error: Error,
}

struct Shared {
    memory: Arc<Memory>,
    states: [Mutex<EngineState>; UNITS],
    progress: [Progress; UNITS],
    faults: Mutex<Vec<WorkFault>>,
}

impl Shared {
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
    shared: Arc<Shared>,
    threads: Vec<(Sender<Job>, Option<JoinHandle<()>>)>,
    scratch: Scratch,
    tickets: [u64; UNITS],
    order: u64,
}

impl Executor {
    /// `threads` worker threads (at most one per unit is of use), or inline if 0.
    pub fn new(memory: Arc<Memory>, states: [EngineState; UNITS], threads: usize) -> Self {
        let shared = Arc::new(Shared {
            memory,
            states: states.map(Mutex::new),
            progress: std::array::from_fn(|_| Progress::new()),
            faults: Mutex::new(Vec::new()),
        });
        let threads = (0..threads.min(UNITS))
            .map(|i| {
                let (sender, jobs) = bounded(CHANNEL_DEPTH);
                let shared = Arc::clone(&shared);
                let handle = std::thread::Builder::new()
                    .name(format!("tpb-engine-{i}"))
                    .spawn(move || serve(&shared, &jobs))
                    .expect("the host starts a thread");
                (sender, Some(handle))
            })
            .collect();
        Executor { shared, threads, scratch: Scratch::default(), tickets: [0; UNITS], order: 0 }
    }

    /// Ticket that the next work of `unit` will get.
    pub fn next_ticket(&self, unit: usize) -> u64 {
        self.tickets[unit] + 1
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
        self.tickets[unit] += 1;
        self.order += 1;
        let ticket = self.tickets[unit];
        if self.threads.is_empty() {
            let outcome = self.shared.run(unit, work, &mut self.scratch);
            self.shared.progress[unit].done.store(ticket, Ordering::Release);
            return outcome;
        }
        let (reply, answer) = if work.needs_outcome {
            let (s, r) = unbounded();
            (Some(s), Some(r))
        } else {
            (None, None)
        };
        let job = Job { unit, ticket, work: Arc::clone(work), after, order: self.order, reply };
        let thread = unit % self.threads.len();
        if self.threads[thread].0.send(job).is_err() {
            return Err(Error::internal("an engine thread has ended"));
        }
        match answer {
            Some(answer) => {
                answer.recv().unwrap_or_else(|_| Err(Error::internal("an engine thread has ended")))
            }
            None => Ok(Outcome::default()),
        }
    }

    /// Submission number of the last work.
    pub fn last_order(&self) -> u64 {
        self.order
    }

    /// Waits until `ticket` of `unit` is finished.
    pub fn wait(&self, unit: usize, ticket: u64) {
        self.shared.progress[unit].wait_for(ticket);
    }

    /// Waits until everything submitted is finished.
    pub fn wait_all(&self) {
        for unit in 0..UNITS {
            self.wait(unit, self.tickets[unit]);
        }
    }

    /// The earliest fault so far, in order of submission. Final only after [`Executor::wait_all`].
    pub fn take_fault(&self) -> Option<WorkFault> {
        let mut faults = self.shared.faults.lock();
        let first = (0..faults.len()).min_by_key(|&i| faults[i].order)?;
        Some(faults.swap_remove(first))
    }

    /// Tickets given out, per unit, and the number of submissions.
    pub fn counters(&self) -> ([u64; UNITS], u64) {
        (self.tickets, self.order)
    }

    /// Goes on counting from a snapshot: everything up to there counts as finished. Nothing may
    /// be running.
    pub fn set_counters(&mut self, tickets: [u64; UNITS], order: u64) {
        self.wait_all();
        (self.tickets, self.order) = (tickets, order);
        for (progress, ticket) in self.shared.progress.iter().zip(tickets) {
            progress.done.store(ticket, Ordering::Release);
        }
    }

    /// The memory. The caller must have waited for the works that touch what it reads.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.shared.memory
    }

    /// State of the engine of `unit`, for the conductor and for checkpoints.
    pub fn with_state<T>(&self, unit: usize, f: impl FnOnce(&mut EngineState) -> T) -> T {
        f(&mut self.shared.states[unit].lock())
    }

    /// Ends the threads.
    pub fn finish(&mut self) {
        self.threads.iter_mut().for_each(|(sender, _)| *sender = unbounded().0);
        for (_, handle) in &mut self.threads {
            if let Some(handle) = handle.take() {
                let _ = handle.join();
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.finish();
    }
}

fn serve(shared: &Shared, jobs: &Receiver<Job>) {
    let mut scratch = Scratch::default();
    for job in jobs {
        for &(unit, ticket) in &job.after {
            shared.progress[usize::from(unit)].wait_for(ticket);
        }
        let run = std::panic::AssertUnwindSafe(|| shared.run(job.unit, &job.work, &mut scratch));
        let outcome = std::panic::catch_unwind(run)
            .unwrap_or_else(|_| Err(Error::internal("a work panicked")));
        if let Err(error) = &outcome {
            shared.faults.lock().push(WorkFault { order: job.order, error: error.clone() });
        }
        shared.progress[job.unit].finish(job.ticket);
        if let Some(reply) = job.reply {
            let _ = reply.send(outcome);
        }
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

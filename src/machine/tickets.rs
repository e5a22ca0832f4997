// The protocol between the conductor and its worker threads: bounded channels of jobs, a ticket
// for each work of a unit, and who wakes whom.
//
// This file is compiled twice: in `executor` over the host's primitives, and in its tests over
// those of a model checker, which tries the interleavings. It uses nothing of either but
// `super::primitives`.

use std::sync::Arc;

use smallvec::SmallVec;

use super::primitives::{
    AtomicU64, Condvar, JoinHandle, Mutex, Ordering, Receiver, SPINS, Sender, bounded, spawn, spin,
    wait,
};
use crate::error::{Error, Result};

/// Works that may queue in front of one thread.
const CHANNEL_DEPTH: usize = 64;

/// What the threads do with a work.
pub trait Runner: Send + Sync + 'static {
    /// The work.
    type Work: Send + Sync + 'static;
    /// What comes out of it.
    type Outcome: Default + Send + 'static;
    /// Memory that a thread keeps for its works.
    type Scratch: Default + Send;
    /// Runs `work` of `unit`, when all before it that it depends on are done.
    ///
    /// # Errors
    /// The fault of the work.
    fn run(
        &self,
        unit: usize,
        work: &Self::Work,
        scratch: &mut Self::Scratch,
    ) -> Result<Self::Outcome>;
}

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
        for _ in 0..SPINS {
            if self.done.load(Ordering::Acquire) >= ticket {
                return;
            }
            spin();
        }
        let mut guard = self.lock.lock();
        while self.done.load(Ordering::Acquire) < ticket {
            guard = wait(&self.moved, guard);
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

struct Job<R: Runner> {
    unit: usize,
    ticket: u64,
    work: Arc<R::Work>,
    after: Dependencies,
    order: u64,
    reply: Option<Sender<Result<R::Outcome>>>,
}

/// A fault that a work raised while it ran, with its place in the order of submission.
#[derive(Debug)]
pub struct WorkFault {
    /// Submission number of the work.
    pub order: u64,
    /// What went wrong.
    pub error: Error,
}

struct Shared<R> {
    runner: R,
    progress: Vec<Progress>,
    faults: Mutex<Vec<WorkFault>>,
}

/// A worker thread and the way to it; both are taken when it ends.
type Worker<R> = (Option<Sender<Job<R>>>, Option<JoinHandle>);

/// The conductor's side: hands out works and waits for them.
pub struct Crew<R: Runner> {
    shared: Arc<Shared<R>>,
    threads: Vec<Worker<R>>,
    scratch: R::Scratch,
    tickets: Vec<u64>,
    order: u64,
}

impl<R: Runner> Crew<R> {
    /// `threads` worker threads (at most one per unit is of use), or inline if 0.
    pub fn new(runner: R, units: usize, threads: usize) -> Self {
        let shared = Arc::new(Shared {
            runner,
            progress: (0..units).map(|_| Progress::new()).collect(),
            faults: Mutex::new(Vec::new()),
        });
        let threads = (0..threads.min(units))
            .map(|i| {
                let (sender, jobs) = bounded(CHANNEL_DEPTH);
                let shared = Arc::clone(&shared);
                let handle = spawn(format!("tpb-engine-{i}"), move || serve(&shared, &jobs));
                (Some(sender), Some(handle))
            })
            .collect();
        Crew { shared, threads, scratch: Default::default(), tickets: vec![0; units], order: 0 }
    }

    /// Whose works run.
    pub fn runner(&self) -> &R {
        &self.shared.runner
    }

    /// Ticket that the next work of `unit` will get.
    pub fn next_ticket(&self, unit: usize) -> u64 {
        self.tickets[unit] + 1
    }

    /// Tickets given out, per unit, and the number of submissions.
    pub fn counters(&self) -> (&[u64], u64) {
        (&self.tickets, self.order)
    }

    /// Goes on counting from a snapshot: everything up to there counts as finished. Nothing may
    /// be running.
    pub fn set_counters(&mut self, tickets: &[u64], order: u64) {
        self.wait_all();
        self.tickets.copy_from_slice(tickets);
        self.order = order;
        for (progress, &ticket) in self.shared.progress.iter().zip(tickets) {
            progress.finish(ticket);
        }
    }

    /// Runs `work` on `unit` after the works in `after`. Returns its outcome if `answer` asks for
    /// it or it runs inline; a fault of a threaded work shows up in [`Crew::take_fault`].
    ///
    /// # Errors
    /// The fault of the work, if it ran here or was asked for.
    pub fn submit(
        &mut self,
        unit: usize,
        work: &Arc<R::Work>,
        after: Dependencies,
        answer: bool,
    ) -> Result<R::Outcome> {
        self.tickets[unit] += 1;
        self.order += 1;
        let ticket = self.tickets[unit];
        if self.threads.is_empty() {
            let outcome = self.shared.runner.run(unit, work, &mut self.scratch);
            self.shared.progress[unit].done.store(ticket, Ordering::Release);
            return outcome;
        }
        let (reply, answer) = if answer {
            let (s, r) = bounded(1);
            (Some(s), Some(r))
        } else {
            (None, None)
        };
        let job = Job { unit, ticket, work: Arc::clone(work), after, order: self.order, reply };
        let thread = unit % self.threads.len();
        let gone = || Error::internal("an engine thread has ended");
        match &self.threads[thread].0 {
            Some(sender) if sender.send(job).is_ok() => {}
            _ => return Err(gone()),
        }
        match answer {
            Some(answer) => answer.recv().unwrap_or_else(|_| Err(gone())),
            None => Ok(Default::default()),
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
        for (unit, ticket) in self.tickets.iter().enumerate() {
            self.wait(unit, *ticket);
        }
    }

    /// The earliest fault so far, in order of submission. Final only after [`Crew::wait_all`].
    pub fn take_fault(&self) -> Option<WorkFault> {
        let mut faults = self.shared.faults.lock();
        let first = (0..faults.len()).min_by_key(|&i| faults[i].order)?;
        Some(faults.swap_remove(first))
    }

    /// Ends the threads, after what they still have to do.
    pub fn finish(&mut self) {
        self.threads.iter_mut().for_each(|(sender, _)| *sender = None);
        for (_, handle) in &mut self.threads {
            if let Some(handle) = handle.take() {
                let _ = handle.join();
            }
        }
    }
}

impl<R: Runner> Drop for Crew<R> {
    fn drop(&mut self) {
        self.finish();
    }
}

fn serve<R: Runner>(shared: &Shared<R>, jobs: &Receiver<Job<R>>) {
    let mut scratch = R::Scratch::default();
    while let Ok(job) = jobs.recv() {
        for &(unit, ticket) in &job.after {
            shared.progress[usize::from(unit)].wait_for(ticket);
        }
        let run = || shared.runner.run(job.unit, &job.work, &mut scratch);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err(Error::internal("a work panicked")));
        // before the ticket: who has waited for it must see the fault
        if let Err(error) = &outcome {
            shared.faults.lock().push(WorkFault { order: job.order, error: error.clone() });
        }
        shared.progress[job.unit].finish(job.ticket);
        if let Some(reply) = job.reply {
            let _ = reply.send(outcome);
        }
    }
}

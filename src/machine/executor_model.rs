//! The protocol of `tickets.rs` under a model checker that chooses every interleaving of its
//! threads: at random, by PCT, and, for a small case, all of them.
//!
//! Found by it: a wait that is never woken (reported as a deadlock of the model), a work that runs
//! before one it depends on, a fault that is not there yet when its ticket is, a thread that does
//! not end. Not modelled: weak memory orders; the model is sequentially consistent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Plain, Ordering as PlainOrdering};

use crate::error::{Error, Result};

mod primitives {
    pub use shuttle::sync::Condvar;
    pub use shuttle::sync::MutexGuard;
    pub use shuttle::sync::atomic::{AtomicU64, Ordering};
    pub use shuttle::sync::mpsc::{Receiver, SyncSender as Sender, sync_channel as bounded};

    pub type JoinHandle = shuttle::thread::JoinHandle<()>;

    pub const SPINS: u32 = 1;

    pub fn spin() {
        shuttle::hint::spin_loop();
    }

    /// The model's mutex with the host's `lock`.
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread of the model panics with the lock")
        }
    }

    pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(guard).expect("no thread of the model panics with the lock")
    }

    pub fn spawn(_: String, f: impl FnOnce() + Send + 'static) -> JoinHandle {
        shuttle::thread::spawn(f)
    }
}

#[allow(dead_code, unreachable_pub, clippy::duplicate_mod)]
#[path = "tickets.rs"]
mod tickets;

use tickets::{Crew, Runner};

const UNITS: usize = 3;

/// A work: which works, by number, must have run; and whether it fails.
struct Step {
    number: usize,
    needs: Vec<usize>,
    fails: bool,
}

#[derive(Default)]
struct Steps {
    // plain atomics: what the works do is not part of the protocol under test
    ran: [Plain; 16],
    count: Plain,
}

struct Ledger(Arc<Steps>);

impl Runner for Ledger {
    type Work = Step;
    type Outcome = u64;
    type Scratch = ();

    fn run(&self, _: usize, step: &Step, (): &mut ()) -> Result<u64> {
        for &n in &step.needs {
            let ran = self.0.ran[n].load(PlainOrdering::SeqCst);
            assert!(ran > 0, "work {} runs before {n}", step.number);
        }
        // others may run while this one does
        shuttle::thread::yield_now();
        let count = self.0.count.fetch_add(1, PlainOrdering::SeqCst) + 1;
        self.0.ran[step.number].store(count, PlainOrdering::SeqCst);
        if step.fails { Err(Error::internal(step.number.to_string())) } else { Ok(count) }
    }
}

/// `works` works over the units, each after the one before of every other unit.
fn dependent(works: usize, threads: usize) {
    let steps = Arc::new(Steps::default());
    let mut crew = Crew::new(Ledger(Arc::clone(&steps)), UNITS, threads);
    let mut last = [None; UNITS];
    for number in 0..works {
        let unit = (number * 2 + number / 3) % UNITS;
        let ticket = crew.next_ticket(unit);
        let other = |u: &usize| *u != unit;
        let named = (0..UNITS).filter(other).filter_map(|u| Some((u as u8, last[u]?)));
        let after = named.map(|(u, (ticket, _))| (u, ticket)).collect();
        let needs = last.iter().flatten().map(|l: &(u64, usize)| l.1).collect();
        let step = Arc::new(Step { number, needs, fails: false });
        let answer = number % 4 == 3;
        let outcome = crew.submit(unit, &step, after, answer).expect("no work fails");
        if answer {
            assert_eq!(outcome, number as u64 + 1, "the answer is that of the work");
        }
        last[unit] = Some((ticket, number));
    }
    crew.wait_all();
    assert_eq!(steps.count.load(PlainOrdering::SeqCst), works as u64);
    assert!(crew.take_fault().is_none());
    crew.finish();
}

/// Independent works of which two fail; the earlier one must be found after the wait.
fn faults(threads: usize) {
    let steps = Arc::new(Steps::default());
    let mut crew = Crew::new(Ledger(steps), UNITS, threads);
    for number in 0..6 {
        let fails = number == 2 || number == 4;
        let step = Arc::new(Step { number, needs: Vec::new(), fails });
        crew.submit(number % UNITS, &step, Default::default(), false).expect("shows up later");
    }
    crew.wait_all();
    let first = crew.take_fault().expect("a fault is there when its ticket is");
    assert_eq!(first.order, 3);
    assert_eq!(first.error.message, Error::internal("2").message);
    assert_eq!(crew.take_fault().map(|f| f.order), Some(5));
    assert!(crew.take_fault().is_none());
}

#[test]
fn dependent_works_keep_their_order_in_random_interleavings() {
    for threads in [1, 2, 3] {
        shuttle::check_random(move || dependent(9, threads), 300);
    }
}

#[test]
fn dependent_works_keep_their_order_in_pct_interleavings() {
    for threads in [2, 3] {
        shuttle::check_pct(move || dependent(9, threads), 300, 3);
    }
}

#[test]
fn a_fault_is_there_when_its_ticket_is() {
    shuttle::check_random(|| faults(2), 300);
    shuttle::check_pct(|| faults(3), 300, 3);
}

#[test]
fn two_works_on_two_threads_in_every_interleaving() {
    shuttle::check_dfs(|| dependent(2, 2), Some(20_000));
}

#[test]
fn a_crew_that_is_dropped_finishes_what_it_has() {
    shuttle::check_random(
        || {
            let steps = Arc::new(Steps::default());
            let mut crew = Crew::new(Ledger(Arc::clone(&steps)), UNITS, 2);
            for number in 0..5 {
                let step = Arc::new(Step { number, needs: Vec::new(), fails: false });
                crew.submit(number % UNITS, &step, Default::default(), false).expect("accepted");
            }
            drop(crew);
            assert_eq!(steps.count.load(PlainOrdering::SeqCst), 5);
        },
        300,
    );
}

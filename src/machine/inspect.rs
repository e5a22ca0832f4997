//! What a debugger sees of a machine: the next thing to happen, and works as they begin.

use std::sync::Arc;

use crate::memory::Access;

use super::agenda::Entry;
use super::options::Finished;
use super::queue::Queue;
use super::run::Machine;
use super::sp_run::SpState;
use super::stream::{Recipe, Stream};
use crate::engine::Work;
use crate::error::{Error, Result};
use crate::isa::Engine;
use crate::q7::library::Cluster;
use crate::sync::state::describe_unmet;
use crate::sync::{SyncId, Wait};

/// A work that began.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Stream whose work it is; a DMA queue for transfers.
    pub stream: usize,
    /// Stream whose word (or block) `pc` is.
    pub place: usize,
    /// Word or block.
    pub pc: usize,
    /// The work.
    pub work: Arc<Work>,
}

impl Machine {
    /// What happens next, without doing it.
    pub fn next(&self) -> Option<Entry> {
        self.agenda.peek()
    }

    /// Does the next thing that happens if it lies at or before tick `until`; says whether it did.
    ///
    /// # Errors
    /// The fault that ends the run.
    pub fn advance_one(&mut self, until: u64) -> Result<bool> {
        self.advance(until)
    }

    /// Runs to the end, calling `leave` each time another `every` ticks have passed. Returns what
    /// went wrong, if something did; otherwise [`Machine::run`] concludes.
    pub(super) fn run_with_checkpoints(
        &mut self,
        every: u64,
        leave: &mut dyn FnMut(&mut Machine) -> Result<()>,
    ) -> Option<Error> {
        let every = every.max(1);
        loop {
            // nothing lies between here and the next entry: checkpoints there would be the same
            let from = self.agenda.next_tick()?.max(self.now);
            let until = (from / every + 1).saturating_mul(every) - 1;
            match self.run_until(until) {
                Ok(false) => return None,
                Ok(true) => {}
                Err(e) => return Some(e),
            }
            if let Err(e) = leave(self) {
                return Some(e);
            }
        }
    }

    /// Does everything up to and including tick `until`; says whether something is left.
    ///
    /// # Errors
    /// The fault that ends the run, an interrupt.
    pub fn run_until(&mut self, until: u64) -> Result<bool> {
        let mut steps = 0u32;
        while self.advance(until)? {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(4096) {
                self.housekeeping()?;
            }
        }
        Ok(!self.agenda.is_empty())
    }

    /// Lets time pass to `tick`, but not beyond the next thing that happens.
    pub fn idle(&mut self, tick: u64) {
        let tick = self.agenda.next_tick().map_or(tick, |next| next.min(tick));
        self.now = self.now.max(tick);
    }

    /// Concludes the run where nothing is left to happen: deadlock, hazards, remarks.
    pub fn conclude_run(&mut self) -> Finished {
        let error = self.deadlock();
        self.finish(error)
    }

    /// Keeps the works that begin for [`Machine::take_begun`].
    pub fn watch_works(&mut self) {
        self.begun.get_or_insert_default();
    }

    /// The works that began since the last call.
    pub fn take_begun(&mut self) -> Vec<Begun> {
        self.begun.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// State of engine stream `s`, if there is one.
    pub fn stream(&self, s: usize) -> Option<&Stream> {
        self.streams.get(s)
    }

    /// State of DMA queue `q`, if there is one.
    pub fn queue(&self, q: usize) -> Option<&Queue> {
        self.queues.get(q)
    }

    /// Instructions executed so far by all streams.
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// Registers of the V1 SP.
    pub fn sp_state(&self) -> &SpState {
        &self.sp
    }

    /// Who changed an event or semaphore last: stream and execution.
    pub fn last_change(&self, id: SyncId) -> Option<(u16, u64)> {
        self.last_update.get(&id).copied()
    }

    /// The wait conditions of the head of stream `s` that do not hold, in words.
    pub fn unmet(&self, s: usize) -> Vec<String> {
        let describe = |(wait, operand): &(Wait, u32)| {
            let value = self.sync.value(wait.id()).unwrap_or(0);
            self.with_names(&describe_unmet(wait, *operand, value))
        };
        super::deadlock::unmet(self, s).iter().map(describe).collect()
    }

    /// `text` with the program's names of events and semaphores.
    pub fn named(&self, text: &str) -> String {
        self.with_names(text)
    }

    /// Number of words in stream `s`.
    pub fn words(&self, s: usize) -> usize {
        match self.image.words.get(s) {
            Some(_) if s == Engine::Sp.index() && !self.image.sp.is_empty() => self.image.sp.len(),
            Some(words) => words.len(),
            None => 0,
        }
    }

    /// The Q7 cores as they are now, if a library was ever loaded.
    pub fn cluster(&self) -> Option<Cluster> {
        self.executor.wait_all();
        self.executor.with_state(Engine::Pool.index(), |state| state.libraries.cluster().cloned())
    }

    /// What library code touched, with the number of its instruction in POOL, in order; empty unless
    /// [`Options::library_touches`](super::Options::library_touches) asked for it.
    pub fn library_touches(&self) -> &[(u64, Arc<[Access]>)] {
        self.library_touches.as_deref().unwrap_or_default()
    }

    /// The words of the library call that POOL starts next, if it has issued one.
    pub fn library_call(&self) -> Option<Vec<[u8; 64]>> {
        let pool = Engine::Pool.index();
        let front = self.streams[pool].pending.front()?;
        matches!(front.recipe, Recipe::Library).then(|| self.library_words(pool, front.pc))
    }
}

//! Livelock: branch loops that can never end.
//!
//! A stream circles if the state that decides its course (word, registers) is the same as in an
//! earlier lap and nothing that it can see changed in between: no event or semaphore, no memory,
//! no work or DMA job let go. If every stream that is not at its end circles or waits, and no
//! update, work or transfer is on its way, the machine does the same forever. This is decided by
//! the repeated state, not by a limit; it never reports a loop that could still end.
//!
//! Not found: a loop that counts its laps in a register or in memory, or that lets works go. Such
//! a run ends at the limit of cycles.

use std::fmt::Write as _;

use smallvec::SmallVec;

use super::run::{ENGINE_STREAMS, Machine};
use super::sp_run::SpState;
use super::stream::{Blocked, RunState};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::Engine;
use crate::sync::SyncId;

/// What a loop looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Looked {
    /// An event or semaphore.
    Sync(SyncId),
    /// Memory at a device address.
    Memory(u64),
}

/// Things that a loop looks at which are named in the report.
const MOST_LOOKED: usize = 8;

/// An earlier state of a looping stream, to compare later ones with (Brent's method: the state is
/// taken anew after 1, 2, 4, ... laps, so that a circle of any length is found).
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Lap {
    /// [`Machine`]'s count of changes.
    changes: u64,
    target: usize,
    #[serde(with = "serde_big_array::BigArray")]
    registers: [u32; 64],
    sp: Option<Box<SpState>>,
    laps: u32,
    renew: u32,
    /// Since when.
    tick: u64,
    /// First and last word of the loop.
    words: (usize, usize),
    looked: SmallVec<[Looked; 4]>,
    /// Count of changes in which the stream was seen to circle.
    circles: Option<u64>,
}

impl Default for Lap {
    fn default() -> Self {
        Lap {
            changes: u64::MAX,
            target: 0,
            registers: [0; 64],
            sp: None,
            laps: 0,
            renew: 1,
            tick: 0,
            words: (0, 0),
            looked: SmallVec::new(),
            circles: None,
        }
    }
}

impl Lap {
    /// The stream looks at something.
    pub fn look(&mut self, at: Looked) {
        if self.looked.len() < MOST_LOOKED && !self.looked.contains(&at) {
            self.looked.push(at);
        }
    }
}

impl Machine {
    /// Stream `s` branches back from word `pc` to `target`.
    ///
    /// # Errors
    /// The livelock, if that is what it is.
    pub(super) fn lap(&mut self, s: usize, pc: usize, target: usize) -> Result<()> {
        let sp = s == Engine::Sp.index() && !self.image.sp.is_empty();
        let (changes, now) = (self.changes, self.now);
        let stream = &mut self.streams[s];
        let lap = &mut stream.lap;
        let unchanged = lap.changes == changes;
        if unchanged {
            lap.words = (lap.words.0.min(target), lap.words.1.max(pc));
            let same = lap.target == target
                && lap.registers == stream.registers
                && (!sp || lap.sp.as_deref() == Some(&self.sp));
            if same {
                lap.circles = Some(changes);
                return if self.nothing_else() { Err(self.livelock()) } else { Ok(()) };
            }
            lap.laps += 1;
            if lap.laps < lap.renew {
                return Ok(());
            }
        }
        lap.renew = if unchanged { lap.renew.saturating_mul(2) } else { 1 };
        lap.laps = 0;
        lap.changes = changes;
        lap.target = target;
        lap.registers = stream.registers;
        lap.sp = sp.then(|| Box::new(self.sp.clone()));
        lap.tick = now;
        lap.words = (target, pc);
        lap.looked.clear();
        lap.circles = None;
        Ok(())
    }

    /// Whether all streams circle, wait or are at their end, with nothing on its way.
    fn nothing_else(&self) -> bool {
        let idle = self.posts.len() == self.free_posts.len() && self.queues.iter().all(|q| !q.busy);
        idle && self.streams.iter().all(|stream| {
            stream.pending.is_empty()
                && (stream.state != RunState::Running
                    || stream.blocked == Blocked::Wait
                    || stream.lap.circles == Some(self.changes))
        })
    }

    fn livelock(&self) -> Error {
        let mut text = String::from(
            "a branch loop runs forever: nothing that can still happen changes what it looks at",
        );
        for s in (0..ENGINE_STREAMS).filter(|&s| self.streams[s].state == RunState::Running) {
            let stream = &self.streams[s];
            if stream.lap.circles != Some(self.changes) {
                super::deadlock::describe(self, s, &mut text);
                continue;
            }
            let (first, last) = stream.lap.words;
            let source = self.location(s, last).source.map(|l| format!(" ({l})"));
            let _ = write!(
                text,
                "\n  {} loops over pc {first} to {last}{}\n      looping since {:.1} ns",
                stream.engine,
                source.unwrap_or_default(),
                self.time.to_ns(stream.lap.tick)
            );
            for looked in &stream.lap.looked {
                match *looked {
                    Looked::Sync(id) => {
                        let value = self.sync.value(id).unwrap_or(0);
                        let _ = write!(text, "\n      looks at {id}, it is {value}");
                        super::deadlock::suppliers(self, id, &|_| true, &mut text);
                    }
                    Looked::Memory(address) => {
                        let _ = write!(text, "\n      looks at memory at {address:#x}");
                    }
                }
            }
            if stream.lap.looked.is_empty() {
                text += "\n      looks at nothing";
            }
        }
        let mut error = Error::new(ErrorClass::Livelock, self.with_names(&text))
            .help("the awaited change is missing from the program, or came and was taken back");
        error.at.generation = Some(self.image.generation.to_string());
        error
    }
}

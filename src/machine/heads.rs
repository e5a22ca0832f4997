//! The heads of the streams: wait conditions, and what happens when one holds.

use super::agenda::Action;
use super::image::Kind;
use super::run::{Machine, read_register};
use super::stream::{Blocked, RunState};
use crate::check::log::Got;
use crate::error::Result;
use crate::isa::Engine;
use crate::sync::{Compare, Wait};
use crate::trace::{InstRecord, Record, StallCause, SyncOp, SyncRecord};

impl Machine {
    pub(super) fn head(&mut self, s: usize) -> Result<()> {
        if s == Engine::Sp.index() && !self.image.sp.is_empty() {
            return self.sp_head();
        }
        if self.streams[s].state != RunState::Running {
            return Ok(());
        }
        let pc = self.streams[s].pc;
        let Some(word) = self.image.words[s].get(pc) else {
            self.streams[s].state = RunState::Done;
            return Ok(());
        };
        let data = matches!(word.kind, Kind::Data(_) | Kind::Refuse(_));
        if !self.streams[s].bounds.contains(pc as u64 * 64) {
            // OPEN (seq choice 11): the header promises an error state for a fetch out of bounds
            let error = super::fault::device_fault(0, "fetch outside the program-counter bounds");
            return self.placed(Err(error), s, pc);
        }
        if let Kind::Refuse(error) = &word.kind
            && !self.library_may_run(s, pc)
        {
            let error = (**error).clone();
            return self.placed(Err(error), s, pc);
        }
        let now = self.now;
        let stream = &mut self.streams[s];
        if stream.head_since.is_none() {
            stream.head_since = Some(now);
            stream.granted = now;
        }
        if stream.blocked == Blocked::Granted {
            stream.blocked = Blocked::No;
            return self.execute(s);
        }
        let depth = self.config.engine(stream.engine).queue_depth;
        let unknown = stream.pending.iter().any(|p| p.work.needs_outcome);
        if data && (unknown || stream.pending.len() >= depth.max(1)) {
            stream.blocked = Blocked::Queue;
            stream.stall.get_or_insert(StallCause::Queue);
            return Ok(());
        }
        stream.blocked = Blocked::Wait;
        if self.grant(s)? {
            self.streams[s].blocked = Blocked::No;
            self.execute(s)
        } else {
            let id = self.image.words[s][pc].sync.waits.first().map(Wait::id);
            self.streams[s].waited = id.map(|i| (i, None));
            Ok(())
        }
    }

    /// Called when an event or semaphore changed and the head of `s` waits.
    pub(super) fn try_grant(&mut self, s: usize) -> Result<()> {
        if s == Engine::Sp.index() && !self.image.sp.is_empty() {
            return self.sp_wake();
        }
        let pc = self.streams[s].pc;
        let id = self.image.words[s][pc].sync.waits.first().map(Wait::id);
        // looked up first: the wait's own action is an update too
        let last = id.and_then(|i| self.last_update.get(&i).copied());
        if !self.grant(s)? {
            return Ok(());
        }
        let now = self.now;
        let wake = self.wake;
        let stream = &mut self.streams[s];
        stream.waited = id.map(|i| (i, last));
        stream.granted = now;
        stream.blocked = Blocked::Granted;
        let at = self.edge(s, now + wake);
        self.agenda.at(at, s, Action::Head);
        Ok(())
    }

    /// If all wait conditions of the head of `s` hold: does their actions, takes over their
    /// clocks, and says yes.
    pub(super) fn grant(&mut self, s: usize) -> Result<bool> {
        let pc = self.streams[s].pc;
        let count = self.image.words[s][pc].sync.waits.len();
        let mut operands = [0u32; 4];
        for k in 0..count {
            let wait = &self.image.words[s][pc].sync.waits[k];
            let operand = match wait {
                Wait::Semaphore(_, _, o) => {
                    let registers = &self.streams[s].registers;
                    let value = o.value(|r| read_register(registers, r));
                    self.placed(value, s, pc)?
                }
                Wait::Event(..) => 0,
            };
            operands[k.min(3)] = operand;
            let holds = self.sync.holds(wait, operand);
            if !self.placed(holds, s, pc)? {
                return Ok(false);
            }
        }
        for k in 0..count {
            let wait = self.image.words[s][pc].sync.waits[k];
            let wait = &wait;
            if self.checks_races() {
                let compare: Option<(Compare, u32)> = match wait {
                    Wait::Semaphore(_, c, _) => Some((*c, operands[k.min(3)])),
                    Wait::Event(..) => None,
                };
                if let Some(clock) = self.clocks.acquire(wait.id(), compare) {
                    self.streams[s].clock.join(clock);
                }
                let got = match *wait {
                    Wait::Semaphore(i, c, _) => Got::Semaphore(i, c, operands[k.min(3)]),
                    Wait::Event(event, set, action) => Got::Event {
                        event,
                        set,
                        consumed: action == crate::sync::EventAction::Flip,
                    },
                };
                self.learn(s, pc, got);
            }
            let before = self.sync.value(wait.id())?;
            self.sync.act(wait);
            let after = self.sync.value(wait.id())?;
            if before != after {
                self.changes += 1;
                let by = (s as u16, self.streams[s].executed);
                if self.checks_races() {
                    let clock = self.streams[s].clock.clone();
                    self.clocks.update(wait.id(), after, false, clock);
                }
                self.last_update.insert(wait.id(), by);
                if self.options.recorder.is_some() {
                    let record = SyncRecord {
                        tick: self.now,
                        id: wait.id(),
                        value: after,
                        by,
                        op: SyncOp::Wait,
                    };
                    self.record(&Record::Sync(record));
                }
            }
        }
        Ok(true)
    }

    /// The head of `s` may go.
    pub(super) fn execute(&mut self, s: usize) -> Result<()> {
        let pc = self.streams[s].pc;
        match &self.image.words[s][pc].kind {
            Kind::Data(_) | Kind::Refuse(_) if self.library_runs(s, pc) => {
                self.issue_library(s, pc)
            }
            Kind::Data(prepare) => {
                let prepare = *prepare;
                self.issue(s, pc, prepare)
            }
            Kind::Refuse(error) => self.placed(Err((**error).clone()), s, pc),
            _ => {
                let result = self.control(s, pc);
                self.placed(result, s, pc)
            }
        }
    }

    /// Ends the time of the current word at the head; the next one comes at `next`.
    pub(super) fn leave_head(&mut self, s: usize, pc: usize, next: u64) {
        let stream = &mut self.streams[s];
        stream.pc = pc;
        stream.head_since = None;
        stream.waited = None;
        stream.stall = None;
        stream.executed += 1;
        self.executed += 1;
        self.head_at(s, next);
    }

    /// Emits the record of a control instruction that ran from now to `end`.
    pub(super) fn record_control(&mut self, s: usize, pc: usize, end: u64) {
        self.end = self.end.max(end);
        if self.options.recorder.is_none() {
            return;
        }
        let stream = &self.streams[s];
        let now = self.now;
        let record = InstRecord {
            stream: s as u16,
            pc: pc as u32,
            index: stream.executed,
            opcode: self.image.words[s].get(pc).map_or(0, |w| w.inst.opcode()),
            data_path: false,
            head: stream.head_since.unwrap_or(now),
            granted: stream.granted,
            issue: now,
            start: now,
            busy_until: end,
            reads_done: end,
            end,
            waited: stream.waited,
            stall: stream.stall,
            bytes: [0, 0],
            by_memory: [[0, 0]; 3],
            flops: 0,
        };
        self.record(&Record::Inst(record));
    }
}

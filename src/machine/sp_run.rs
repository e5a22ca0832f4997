//! Execution of the V1 SP.

use super::run::Machine;
use super::sp::{EVENTS, REGISTERS, SpWord};
use super::stream::{Blocked, RunState};
use crate::error::Result;
use crate::isa::Engine;
use crate::sync::{SyncId, UpdateKind};

const SP: usize = Engine::Sp as usize;

/// Registers of the V1 SP.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SpState {
    /// Counters.
    pub counters: [u32; REGISTERS],
    /// Address registers.
    pub addresses: [u64; REGISTERS],
}

impl Machine {
    fn sp_events_set(&self, base: u16, mask: u32) -> Result<bool> {
        for bit in (0..32u16).filter(|b| mask >> b & 1 == 1) {
            if self.sync.value(SyncId::Event(base + bit))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An event changed while the SP waits.
    pub(super) fn sp_wake(&mut self) -> Result<()> {
        let pc = self.streams[SP].pc;
        if let Some(SpWord::WaitEvents(base, mask)) = self.image.sp.get(pc).copied()
            && self.sp_events_set(base, mask)?
        {
            let now = self.now;
            let wake = self.time.from_ps(self.config.sync.wake_ps);
            self.streams[SP].blocked = Blocked::No;
            self.streams[SP].granted = now;
            let at = self.edge(SP, now + wake);
            self.agenda.at(at, SP, super::agenda::Action::Head);
        }
        Ok(())
    }

    /// The SP looks at its next word.
    pub(super) fn sp_head(&mut self) -> Result<()> {
        if self.streams[SP].state != RunState::Running {
            return Ok(());
        }
        let pc = self.streams[SP].pc;
        let Some(word) = self.image.sp.get(pc).copied() else {
            self.streams[SP].state = RunState::Done;
            return Ok(());
        };
        let now = self.now;
        if self.streams[SP].head_since.is_none() {
            self.streams[SP].head_since = Some(now);
            self.streams[SP].granted = now;
        }
        let result = self.sp_execute(pc, word);
        self.placed(result, SP, pc)
    }

    fn sp_execute(&mut self, pc: usize, word: SpWord) -> Result<()> {
        let period = self.time.period(Engine::Sp);
        let (mut next, mut cycles) = (pc + 1, self.config.sequencer.control_cycles.max(1));
        match word {
            SpWord::Write8Indirect(ar, offset, data) => {
                let address = self.sp.addresses[usize::from(ar)] + u64::from(offset);
                self.store_scalar(SP, pc, address, u64::from(data), 1)?;
            }
            SpWord::Write32Indirect(ar, offset, data) => {
                let address = self.sp.addresses[usize::from(ar)] + u64::from(offset);
                self.store_scalar(SP, pc, address, u64::from(data), 4)?;
            }
            SpWord::Write8Direct(address, data) => {
                self.store_scalar(SP, pc, u64::from(address), u64::from(data), 1)?;
            }
            SpWord::NotifyHalt(value) => {
                self.note(SP, pc, format!("notification {value:#x}, halt"));
                self.streams[SP].state = RunState::Halted;
            }
            SpWord::WaitCycles(n) => cycles = cycles.max(u64::from(n)),
            SpWord::WaitEvents(base, mask) => {
                if !self.sp_events_set(base, mask)? {
                    self.streams[SP].blocked = Blocked::Wait;
                    self.streams[SP].waited = Some((SyncId::Event(base), None));
                    return Ok(());
                }
                for bit in (0..32u16).filter(|b| mask >> b & 1 == 1) {
                    self.acquire_event(SP, SyncId::Event(base + bit));
                }
            }
            SpWord::Branch(target) => next = target as usize,
            SpWord::BranchEvent(event, target) => {
                if let Some(log) = &mut self.log {
                    log.polled = true;
                }
                self.streams[SP].lap.look(super::livelock::Looked::Sync(SyncId::Event(event)));
                if self.sync.value(SyncId::Event(event))? != 0 {
                    self.acquire_event(SP, SyncId::Event(event));
                    next = target as usize;
                }
            }
            SpWord::BranchCounter(counter, zero, target) => {
                if (self.sp.counters[usize::from(counter)] == 0) == zero {
                    next = target as usize;
                }
            }
            SpWord::SetCounter(counter, value) => self.sp.counters[usize::from(counter)] = value,
            SpWord::DecrementCounter(counter) => {
                let c = &mut self.sp.counters[usize::from(counter)];
                *c = c.saturating_sub(1);
            }
            SpWord::ClearAllEvents => {
                for event in 0..EVENTS {
                    if self.sync.value(SyncId::Event(event))? != 0 {
                        self.apply_now(SP, pc, SyncId::Event(event), UpdateKind::Clear, 0)?;
                    }
                }
            }
            SpWord::ClearEvent(event) => {
                self.apply_now(SP, pc, SyncId::Event(event), UpdateKind::Clear, 0)?;
            }
            SpWord::SetAddress(register, address) => {
                self.sp.addresses[usize::from(register)] = address;
            }
        }
        if next <= pc && self.streams[SP].state == RunState::Running {
            self.lap(SP, pc, next)?;
        }
        if next != pc + 1 {
            cycles += self.config.sequencer.branch_cycles;
        }
        let end = self.now + cycles * period;
        self.record_control(SP, pc, end);
        if next >= self.image.sp.len() && self.streams[SP].state == RunState::Running {
            self.streams[SP].state = RunState::Done;
        }
        self.leave_head(SP, next, end);
        Ok(())
    }
}

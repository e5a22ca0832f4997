//! Updates of events and semaphores: posted by instructions, visible a moment later.

use super::agenda::Action;
use super::options::Point;
use super::run::{ENGINE_STREAMS, Machine, read_register};
use super::stream::{Blocked, RunState};
use crate::check::Clock;
use crate::check::log::{Change, Effect, Lane};
use crate::error::{Error, Result};
use crate::sync::{SyncId, Update, UpdateKind, When};
use crate::trace::{Record, SyncOp, SyncRecord};

/// An update on its way to becoming visible.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Post {
    pub id: SyncId,
    pub kind: UpdateKind,
    pub operand: u32,
    pub by: (u16, u64),
    pub pc: u32,
    pub clock: Option<Clock>,
    /// Place of the instruction or job in its stream, and the way of the update.
    pub place: u32,
    pub lane: Lane,
}

impl Machine {
    /// Puts an update on the agenda to become visible at `tick`.
    pub(super) fn post(&mut self, mut tick: u64, stream: usize, post: Post) {
        if self.options.perturb.is_some() {
            // a delay never lets the updates of one lane overtake each other
            let last = self.last_visible.entry((stream, post.lane)).or_default();
            tick = tick.max(*last);
            *last = tick;
        }
        let slot = match self.free_posts.pop() {
            Some(slot) => {
                self.posts[slot as usize] = Some(post);
                slot
            }
            None => {
                self.posts.push(Some(post));
                (self.posts.len() - 1) as u32
            }
        };
        self.agenda.at(tick, stream, Action::Update(slot));
    }

    pub(super) fn update_visible(&mut self, slot: u32) -> Result<()> {
        let Some(post) = self.posts[slot as usize].take() else {
            return Err(Error::internal("an update became visible twice"));
        };
        self.free_posts.push(slot);
        self.apply(post)
    }

    /// Applies an update now and wakes who waited for it.
    pub(super) fn apply(&mut self, post: Post) -> Result<()> {
        let (stream, pc) = (usize::from(post.by.0), post.pc as usize);
        let before = self.sync.value(post.id).ok();
        let applied = self.sync.apply(post.id, post.kind, post.operand);
        let (value, odd) = self.placed(applied, stream, pc)?;
        self.changes += u64::from(before != Some(value));
        if let Some(clock) = post.clock {
            let grows = matches!(post.kind, UpdateKind::Add(_));
            self.clocks.update(post.id, value, grows, clock);
        }
        self.last_update.insert(post.id, post.by);
        if let Some(log) = &mut self.log {
            let effect = match post.kind {
                UpdateKind::Set => Effect::Set,
                UpdateKind::Clear => Effect::Clear,
                UpdateKind::Add(_) => Effect::Add(post.operand),
                UpdateKind::Sub(_) => Effect::Sub(post.operand),
                UpdateKind::Write(_) => Effect::Write(post.operand),
            };
            log.change(Change {
                stream,
                place: post.place,
                lane: post.lane,
                pc: post.pc,
                order: 0,
                id: post.id,
                effect,
                wrapped: odd == Some(crate::sync::state::Oddity::Wrapped),
                idle: effect == Effect::Clear && before == Some(0),
            });
        }
        if let Some(odd) = odd {
            self.note(stream, pc, format!("{}: {}", post.id, odd.describe()));
        }
        if self.options.recorder.is_some() {
            let record = SyncRecord {
                tick: self.now,
                id: post.id,
                value,
                by: post.by,
                op: match post.kind {
                    UpdateKind::Set => SyncOp::Set,
                    UpdateKind::Clear => SyncOp::Clear,
                    UpdateKind::Add(_) => SyncOp::Add,
                    UpdateKind::Sub(_) => SyncOp::Sub,
                    UpdateKind::Write(_) => SyncOp::Write,
                },
            };
            self.record(&Record::Sync(record));
        }
        for s in 0..ENGINE_STREAMS {
            if self.streams[s].blocked == Blocked::Wait
                && self.streams[s].state == RunState::Running
            {
                self.try_grant(s)?;
            }
        }
        Ok(())
    }

    /// Posts the updates of work `number` of the data path. `clock` is what its stream knew when
    /// it was issued.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn post_updates(
        &mut self,
        stream: usize,
        pc: usize,
        index: u64,
        when: When,
        at: u64,
        clock: Option<&Clock>,
        number: u32,
    ) -> Result<()> {
        for k in 0..self.image.words[stream][pc].sync.updates.len() {
            let update = self.image.words[stream][pc].sync.updates[k];
            if update.when != when {
                continue;
            }
            let mut clock = clock.cloned();
            let lane = match when {
                When::Read => Lane::Reads,
                When::Complete => Lane::Results,
            };
            match (&mut clock, when) {
                (Some(clock), When::Read) => clock.learn_reads(stream, number),
                (Some(clock), When::Complete) => clock.learn_results(stream, number),
                (None, _) => {}
            }
            self.post_one(stream, pc, index, &update, at, clock, lane)?;
        }
        Ok(())
    }

    /// Posts the updates of an instruction that the sequencer itself completes.
    pub(super) fn post_control(
        &mut self,
        stream: usize,
        pc: usize,
        index: u64,
        at: [u64; 2],
    ) -> Result<()> {
        for (when, at) in [(When::Read, at[0]), (When::Complete, at[1])] {
            for k in 0..self.image.words[stream][pc].sync.updates.len() {
                let update = self.image.words[stream][pc].sync.updates[k];
                if update.when != when {
                    continue;
                }
                let clock = self.checks_races().then(|| self.streams[stream].clock.clone());
                self.post_one(stream, pc, index, &update, at, clock, Lane::Sequencer)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn post_one(
        &mut self,
        stream: usize,
        pc: usize,
        index: u64,
        update: &Update,
        at: u64,
        clock: Option<Clock>,
        lane: Lane,
    ) -> Result<()> {
        let operand = self.update_operand(stream, pc, update)?;
        let extra = self.perturbation(stream, index, Point::Completion);
        let post = Post {
            id: update.id,
            kind: update.kind,
            operand,
            by: (stream as u16, index),
            pc: pc as u32,
            clock,
            place: index as u32,
            lane,
        };
        self.post(at + self.visible + extra, stream, post);
        Ok(())
    }

    pub(super) fn update_operand(&self, stream: usize, pc: usize, update: &Update) -> Result<u32> {
        let operand = match update.kind {
            UpdateKind::Set | UpdateKind::Clear => return Ok(0),
            UpdateKind::Add(o) | UpdateKind::Sub(o) | UpdateKind::Write(o) => o,
        };
        let registers = &self.streams[stream].registers;
        let value = operand.value(|r| read_register(registers, r));
        self.placed(value, stream, pc)
    }
}

//! DMA queues: blocks wait in order, transfers run one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use super::agenda::Action;
use super::options::Point;
use super::run::{ENGINE_STREAMS, Machine};
use super::updates::Post;
use crate::check::Clock;
use crate::check::log::{Got, Lane, Rung};
use crate::engine::{DmaRequest, Transfer};
use crate::error::{Error, Result};
use crate::sync::{Operand, SyncId, UpdateKind};
use crate::trace::{Record, TransferRecord};

/// What a queue works off.
#[derive(Clone)]
pub enum Job {
    /// A block of the program.
    Block(usize),
    /// A request made by an instruction.
    Request(Arc<DmaRequest>),
}

/// A job in a queue.
pub struct Queued {
    /// What.
    pub job: Job,
    /// When the doorbell rang.
    pub at: u64,
    /// Stream and execution of the trigger.
    pub trigger: (u16, u64),
    /// Its word.
    pub pc: u32,
    /// Knowledge of the triggering stream.
    pub clock: Option<Clock>,
    /// The registers that the request was made of, where snapshots are wanted and it read any.
    pub inputs: Option<Box<super::stream::Inputs>>,
}

/// State of one DMA queue.
pub struct Queue {
    /// Jobs, the first one running.
    pub jobs: VecDeque<Queued>,
    /// Next transfer of the running job.
    pub next: usize,
    /// Jobs begun.
    pub begun: u32,
    /// Transfers started, all jobs.
    pub started: u32,
    /// When the first engine can start the running job.
    pub ready: u64,
    /// Whether a start or completion of this queue is on the agenda.
    pub busy: bool,
    /// What the queue knows.
    pub clock: Clock,
}

impl Queue {
    /// An idle queue.
    pub fn new(streams: usize) -> Self {
        Queue {
            jobs: VecDeque::new(),
            next: 0,
            begun: 0,
            started: 0,
            ready: 0,
            busy: false,
            clock: Clock::new(streams),
        }
    }
}

/// Jobs that may wait in one queue.
const MAX_QUEUED: usize = 1 << 20;

impl Machine {
    /// Rings the doorbell of queue `q` for `job` at `at`.
    pub(super) fn ring(&mut self, q: usize, job: Job, s: usize, pc: usize, at: u64) -> Result<()> {
        if self.queues[q].jobs.len() >= MAX_QUEUED {
            return Err(Error::new(
                crate::ErrorClass::LimitReached,
                format!("queue {} holds more than {MAX_QUEUED} jobs", self.image.queues[q]),
            ));
        }
        tracing::debug!(queue = %self.image.queues[q], at, pc, "doorbell");
        let clock = (self.options.races != super::options::Races::Ignore)
            .then(|| self.streams[s].clock.clone());
        let trigger = (s as u16, self.streams[s].executed);
        if self.options.recorder.is_some() {
            let (stream, transfers) = ((ENGINE_STREAMS + q) as u16, self.transfers(&job) as u32);
            self.record(&Record::Queued { tick: at, stream, transfers, by: trigger });
        }
        self.changes += 1;
        if let Some(log) = &mut self.log {
            let (queue, place, delay) = (ENGINE_STREAMS + q, trigger.1 as u32, at - self.now);
            log.rings(Rung { queue, stream: s, place, job: job.clone(), delay });
        }
        self.queues[q].jobs.push_back(Queued {
            job,
            at,
            trigger,
            pc: pc as u32,
            clock,
            inputs: None,
        });
        if !self.queues[q].busy {
            self.queue_next(q, at);
        }
        Ok(())
    }

    /// The queue that serves the DMA instructions of engine stream `s` (OPEN: dma choice 9; the
    /// results do not depend on it).
    pub(super) fn dge_queue(&self, s: usize) -> usize {
        self.image.queues.len() - ENGINE_STREAMS + s
    }

    fn transfers(&self, job: &Job) -> usize {
        match job {
            Job::Block(b) => self.image.blocks[*b].transfers.len(),
            Job::Request(r) => r.transfers.len(),
        }
    }

    fn transfer(&self, job: &Job, i: usize) -> Transfer {
        match job {
            Job::Block(b) => self.image.blocks[*b].transfers[i].clone(),
            Job::Request(r) => r.transfers[i].clone(),
        }
    }

    /// Puts the first transfer of the front job on the agenda, not before `from`.
    fn queue_next(&mut self, q: usize, from: u64) {
        let stream = ENGINE_STREAMS + q;
        let Some(front) = self.queues[q].jobs.front() else {
            self.queues[q].busy = false;
            return;
        };
        let load = match &front.job {
            Job::Block(b) => self.image.blocks[*b].transfers.first().is_some_and(|t| t.load),
            Job::Request(r) => r.transfers.first().is_some_and(|t| t.load),
        };
        let by_instruction = matches!(front.job, Job::Request(_));
        let ps = self.config.dma.start_ps(load, by_instruction);
        let ready = front.at + self.time.from_ps(ps);
        let start = ready.max(from);
        let index = u64::from(self.queues[q].started);
        let extra = self.perturbation(stream, index, Point::DmaStart);
        self.queues[q].busy = true;
        self.queues[q].next = 0;
        self.queues[q].ready = ready + extra;
        if let Some(clock) = self.queues[q].jobs.front().and_then(|j| j.clock.clone()) {
            self.queues[q].clock.join(&clock);
        }
        self.queues[q].begun += 1;
        if let (Some(log), Some(front)) = (&mut self.log, self.queues[q].jobs.front()) {
            let place = self.queues[q].begun - 1;
            let got = Got::Job(usize::from(front.trigger.0), front.trigger.1 as u32);
            log.acquire(stream, place, front.pc, got);
        }
        self.agenda.at(start + extra, stream, Action::Start);
    }

    /// The next transfer of queue `q` starts now.
    pub(super) fn start_transfer(&mut self, q: usize) -> Result<()> {
        let stream = ENGINE_STREAMS + q;
        let Some(front) = self.queues[q].jobs.front() else {
            return Err(Error::internal("a transfer starts in an empty queue"));
        };
        let (job, at, trigger, pc) = (front.job.clone(), front.at, front.trigger, front.pc);
        let i = self.queues[q].next;
        if i >= self.transfers(&job) {
            self.agenda.at(self.now, stream, Action::Complete(0));
            return Ok(());
        }
        let transfer = self.transfer(&job, i);
        let skew = self.config.dma.skew_ps(transfer.load, matches!(job, Job::Request(_)));
        let after = (self.queues[q].ready, skew);
        let (first, last) = self.dma.run(&transfer, self.now, after, &self.config.dma, &self.time);
        let engines = self.dma.share(transfer.partitions, &self.config.dma);
        self.queues[q].started += 1;
        self.queues[q].next += 1;
        let number = self.queues[q].started;
        if let Some(log) = &mut self.log {
            log.numbered(stream, self.queues[q].begun - 1);
        }
        let clock = front_clock(self, q);
        let (bytes, load) = (transfer.bytes, transfer.load);
        let work = Arc::new(transfer.work);
        let (place, place_pc) = match job {
            Job::Block(b) => (stream, b),
            Job::Request(_) => (usize::from(trigger.0), pc as usize),
        };
        let outcome = self.begin_work(stream, place, &work, number, place_pc, clock.as_ref())?;
        if let Some(text) = outcome.notice {
            self.note(place, place_pc, text);
        }
        if self.options.recorder.is_some() {
            let record = TransferRecord {
                stream: stream as u16,
                block: place_pc as u32,
                index: u64::from(number) - 1,
                trigger,
                queued: at,
                start: first,
                end: last,
                bytes,
                engines,
                load,
                by_memory: super::datapath::bytes_of(&work),
            };
            self.record(&Record::Transfer(record));
        }
        let more = i + 1 < self.transfers(&job);
        self.agenda.at(last, stream, if more { Action::Start } else { Action::Complete(0) });
        Ok(())
    }

    /// The last byte of the front job of queue `q` is written.
    pub(super) fn transfer_done(&mut self, q: usize) -> Result<()> {
        let stream = ENGINE_STREAMS + q;
        let Some(done) = self.queues[q].jobs.pop_front() else {
            return Err(Error::internal("a job of an empty queue is done"));
        };
        let number = self.queues[q].started;
        let index = u64::from(number.saturating_sub(1));
        let clock = front_clock(self, q).map(|mut c| {
            c.learn_results(stream, number);
            c
        });
        let updates: Vec<(SyncId, UpdateKind, u32)> = match &done.job {
            Job::Block(b) => self.image.blocks[*b]
                .updates
                .iter()
                .map(|u| {
                    let operand = match u.kind {
                        UpdateKind::Add(Operand::Immediate(v))
                        | UpdateKind::Sub(Operand::Immediate(v))
                        | UpdateKind::Write(Operand::Immediate(v)) => v,
                        _ => 0,
                    };
                    (u.id, u.kind, operand)
                })
                .collect(),
            Job::Request(r) => r
                .semaphores
                .iter()
                .map(|&(s, n)| (SyncId::Semaphore(s), UpdateKind::Add(Operand::Immediate(n)), n))
                .collect(),
        };
        let extra = self.perturbation(stream, index, Point::Completion);
        let by_instruction = matches!(done.job, Job::Request(_));
        let completion = self.config.dma.completion(by_instruction);
        let visible = self.now + self.time.from_ps(completion).max(1) + extra;
        let pc = match done.job {
            Job::Block(b) => b as u32,
            Job::Request(_) => done.pc,
        };
        for (id, kind, operand) in updates {
            let post = Post {
                id,
                kind,
                operand,
                by: (stream as u16, index),
                pc,
                clock: clock.clone(),
                place: self.queues[q].begun - 1,
                lane: Lane::Results,
            };
            self.post(visible, stream, post);
        }
        let now = self.now;
        self.queue_next(q, now);
        Ok(())
    }
}

fn front_clock(machine: &Machine, q: usize) -> Option<Clock> {
    (machine.options.races != super::options::Races::Ignore)
        .then(|| machine.queues[q].clock.clone())
}

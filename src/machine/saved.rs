//! Streams, queues and the log in the form in which a snapshot keeps them: without closures.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::queue::{Job, Queue};
use super::stream::{Blocked, Inputs, Recipe, RunState, Stream};
use crate::check::Clock;
use crate::check::guarantee::Behind;
use crate::check::log::{Acquire, Change, Log, Rung, Started};
use crate::engine::cost::{CostQuery, CostRow, Operands};
use crate::engine::{DmaRequest, Pace, ShapeRegister, Transfer, Work};
use crate::error::{Error, Result};
use crate::memory::Access;
use crate::sync::SyncId;
use crate::trace::StallCause;

/// What remains of a started work.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Footprint {
    pub accesses: SmallVec<[Access; 4]>,
    pub judged: bool,
    pub observed: Option<Vec<Access>>,
}

impl Footprint {
    fn of(work: &Work) -> Self {
        Footprint {
            accesses: work.accesses.clone(),
            judged: work.judged,
            observed: work.observed.as_deref().map(<[Access]>::to_vec),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct SavedPending {
    pub recipe: Recipe,
    pub start: u64,
    pub pc: usize,
    pub index: u64,
    pub number: u32,
    pub head: u64,
    pub granted: u64,
    pub issue: u64,
    pub waited: Option<(SyncId, Option<(u16, u64)>)>,
    pub stall: Option<StallCause>,
    pub clock: Option<Clock>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SavedStream {
    pub state: RunState,
    pub pc: usize,
    #[serde(with = "serde_big_array::BigArray")]
    pub registers: [u32; 64],
    pub shapes: [ShapeRegister; 4],
    pub blocked: Blocked,
    pub head_since: Option<u64>,
    pub granted: u64,
    pub waited: Option<(SyncId, Option<(u16, u64)>)>,
    pub stall: Option<StallCause>,
    pub executed: u64,
    pub works: u32,
    pub pending: Vec<SavedPending>,
    /// End, forwarding time, footprint.
    pub in_flight: Vec<(u64, u64, u32)>,
    pub free_at: u64,
    pub array: super::array::PeArray,
    pub after_table_load: bool,
    pub last_end: u64,
    pub last_reads: u64,
    pub clock: Clock,
    pub bounds: super::fault::PcBounds,
    pub lap: super::livelock::Lap,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SavedJob {
    /// The block, or none for a request of an instruction.
    pub block: Option<usize>,
    pub inputs: Option<Box<Inputs>>,
    pub at: u64,
    pub trigger: (u16, u64),
    pub pc: u32,
    pub clock: Option<Clock>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SavedQueue {
    pub jobs: Vec<SavedJob>,
    pub next: usize,
    pub begun: u32,
    pub started: u32,
    pub ready: u64,
    pub busy: bool,
    pub clock: Clock,
}

/// Bytes, partitions, whether it loads, descriptors.
type Moved = (u64, u32, bool, u64);
/// Bytes and rows of HBM, pace.
type OnHbm = (u64, u64, Pace);

/// A job that was rung for; of a request, what is left once it runs.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedRung {
    pub queue: usize,
    pub stream: usize,
    pub place: u32,
    pub delay: u64,
    pub block: Option<usize>,
    pub transfers: Vec<(Footprint, Moved, OnHbm)>,
    pub semaphores: Vec<(u16, u32)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SavedLog {
    pub acquires: Vec<Acquire>,
    pub changes: Vec<Change>,
    /// Stream, number, word, tick, order, footprint.
    pub works: Vec<(usize, u32, u32, u64, u64, u32)>,
    pub rung: Vec<SavedRung>,
    pub barriers: Vec<(usize, u32)>,
    pub places: Vec<Vec<u32>>,
    pub polled: bool,
    pub order: u64,
    pub full: bool,
    pub window: usize,
    pub behind: Option<Box<Behind>>,
}

/// Numbers the footprints of works, each once.
#[derive(Default)]
pub(super) struct Footprints {
    numbers: FxHashMap<*const Work, u32>,
    pub list: Vec<Footprint>,
}

impl Footprints {
    pub fn number(&mut self, work: &Arc<Work>) -> u32 {
        let next = self.list.len() as u32;
        *self.numbers.entry(Arc::as_ptr(work)).or_insert_with(|| {
            self.list.push(Footprint::of(work));
            next
        })
    }
}

/// A work that has run already: others look at its footprint only.
pub(super) fn restored(footprint: Footprint) -> Arc<Work> {
    let cost = CostQuery::new(CostRow::Other, 0, Operands::new());
    let mut work = Work::new(footprint.accesses, cost, |_| {
        Err(Error::internal("a work of before the snapshot runs again"))
    });
    work.judged = footprint.judged;
    work.observed = footprint.observed.map(Into::into);
    Arc::new(work)
}

pub(super) fn save_stream(s: &Stream, footprints: &mut Footprints) -> SavedStream {
    let pending = s.pending.iter().map(|p| SavedPending {
        recipe: p.recipe.clone(),
        start: p.start,
        pc: p.pc,
        index: p.index,
        number: p.number,
        head: p.head,
        granted: p.granted,
        issue: p.issue,
        waited: p.waited,
        stall: p.stall,
        clock: p.clock.clone(),
    });
    let in_flight = s.in_flight.iter().map(|f| (f.end, f.forwarded, footprints.number(&f.work)));
    SavedStream {
        pending: pending.collect(),
        in_flight: in_flight.collect(),
        state: s.state,
        pc: s.pc,
        registers: s.registers,
        shapes: s.shapes,
        blocked: s.blocked,
        head_since: s.head_since,
        granted: s.granted,
        waited: s.waited,
        stall: s.stall,
        executed: s.executed,
        works: s.works,
        free_at: s.free_at,
        array: s.array,
        after_table_load: s.after_table_load,
        last_end: s.last_end,
        last_reads: s.last_reads,
        clock: s.clock.clone(),
        bounds: s.bounds,
        lap: s.lap.clone(),
    }
}

pub(super) fn save_queue(q: &Queue) -> SavedQueue {
    let jobs = q.jobs.iter().map(|j| SavedJob {
        block: match j.job {
            Job::Block(b) => Some(b),
            Job::Request(_) => None,
        },
        inputs: j.inputs.clone(),
        at: j.at,
        trigger: j.trigger,
        pc: j.pc,
        clock: j.clock.clone(),
    });
    SavedQueue {
        jobs: jobs.collect(),
        next: q.next,
        begun: q.begun,
        started: q.started,
        ready: q.ready,
        busy: q.busy,
        clock: q.clock.clone(),
    }
}

pub(super) fn save_log(log: &Log, footprints: &mut Footprints) -> SavedLog {
    let works = log
        .works
        .iter()
        .map(|w| (w.stream, w.work, w.pc, w.tick, w.order, footprints.number(&w.footprint)))
        .collect();
    SavedLog {
        acquires: log.acquires.clone(),
        changes: log.changes.clone(),
        works,
        rung: log.rung.iter().map(save_rung).collect(),
        barriers: log.barriers.clone(),
        places: log.places.clone(),
        polled: log.polled,
        order: log.order,
        full: log.full,
        window: log.window,
        behind: log.behind.clone(),
    }
}

fn save_rung(rung: &Rung) -> SavedRung {
    let mut saved = SavedRung {
        queue: rung.queue,
        stream: rung.stream,
        place: rung.place,
        delay: rung.delay,
        block: None,
        transfers: Vec::new(),
        semaphores: Vec::new(),
    };
    match &rung.job {
        Job::Block(b) => saved.block = Some(*b),
        Job::Request(request) => {
            saved.semaphores = request.semaphores.to_vec();
            let kept = request.transfers.iter().map(|t| {
                let hbm = (t.hbm_bytes, t.hbm_rows, t.pace);
                (Footprint::of(&t.work), (t.bytes, t.partitions, t.load, t.descriptors), hbm)
            });
            saved.transfers = kept.collect();
        }
    }
    saved
}

fn load_rung(saved: SavedRung, blocks: usize) -> Result<Rung> {
    let job = match saved.block {
        Some(b) if b < blocks => Job::Block(b),
        Some(_) => return Err(super::snapshot::corrupt("a block that does not exist")),
        None => {
            let transfers = saved.transfers.into_iter().map(
                |(footprint, (bytes, partitions, load, descriptors), hbm)| Transfer {
                    work: Work::clone(&restored(footprint)),
                    bytes,
                    partitions,
                    load,
                    descriptors,
                    hbm_bytes: hbm.0,
                    hbm_rows: hbm.1,
                    pace: hbm.2,
                },
            );
            Job::Request(Arc::new(DmaRequest {
                transfers: transfers.collect(),
                semaphores: saved.semaphores.into(),
            }))
        }
    };
    let SavedRung { queue, stream, place, delay, .. } = saved;
    Ok(Rung { queue, stream, place, job, delay })
}

pub(super) fn load_log(
    saved: SavedLog,
    blocks: usize,
    work: impl Fn(u32) -> Result<Arc<Work>>,
) -> Result<Log> {
    let mut log = Log::new(0);
    for rung in saved.rung {
        log.rung.push(load_rung(rung, blocks)?);
    }
    for (stream, number, pc, tick, order, footprint) in saved.works {
        let footprint = work(footprint)?;
        log.works.push(Started { stream, work: number, pc, tick, order, footprint });
    }
    log.acquires = saved.acquires;
    log.changes = saved.changes;
    log.barriers = saved.barriers;
    log.places = saved.places;
    log.polled = saved.polled;
    log.order = saved.order;
    log.full = saved.full;
    log.window = saved.window;
    log.behind = saved.behind;
    Ok(log)
}

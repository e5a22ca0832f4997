//! Runs a schedule over the skeleton.
//!
//! The same agenda, in the same total order, as the machine: sequencer heads, starts, transfers,
//! visible updates. A test holds both against each other, tick by tick. One run allocates nothing
//! once the buffers have grown.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Action, Change, ENGINES, Id, LANES, Skeleton, SkeletonWork, part};
use crate::engine::cost::CostRow;
use crate::explore::Schedule;
use crate::isa::Engine;
use crate::machine::Point;
use crate::machine::array::PeArray;
use crate::machine::dma::DmaEngines;
use crate::machine::ports::Ports;
use crate::machine::power::PowerLimit;
use crate::sync::SyncId;

/// Gives the delays of a run.
pub trait Delay {
    /// Extra ticks for execution `index` of `stream` at `point`, which comes at tick `at` without.
    fn delay(&mut self, stream: usize, index: u64, point: Point, at: u64) -> u64;
}

impl Delay for &Schedule {
    fn delay(&mut self, stream: usize, index: u64, point: Point, _at: u64) -> u64 {
        self.ticks(stream, index, point)
    }
}

/// No delay.
pub struct Undisturbed;

impl Delay for Undisturbed {
    fn delay(&mut self, _: usize, _: u64, _: Point, _: u64) -> u64 {
        0
    }
}

/// Watches a run.
pub trait Observe {
    /// Event or semaphore `id` became `value` at `tick` by step `by.1` of stream `by.0` (of a
    /// queue: by that job).
    fn changed(&mut self, tick: u64, id: Id, value: u32, by: (u16, u32));
}

/// Does not look.
impl Observe for () {
    fn changed(&mut self, _: u64, _: Id, _: u32, _: (u16, u32)) {}
}

/// What a run showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Last tick.
    pub ticks: u64,
    /// Whether nothing could go on before all streams were at their end.
    pub deadlock: bool,
    /// Digest of the order in which each event and semaphore changed.
    pub order: u64,
    /// Two works in the wrong order, or at the same time: the one that should be done, and the one
    /// that started.
    pub broken: Option<(u32, u32)>,
    /// An event that was set while it was set.
    pub lost: Option<Id>,
    /// A semaphore that passed the end of its range.
    pub wrapped: Option<Id>,
}

impl Outcome {
    /// Whether the run is worth a look by the machine whatever its order was.
    pub fn suspicious(&self) -> bool {
        self.deadlock || self.broken.is_some() || self.lost.is_some() || self.wrapped.is_some()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    No,
    Wait,
    Granted,
    Queue,
}

struct Stream {
    step: u32,
    running: bool,
    blocked: Blocked,
    pending: VecDeque<(u32, u64)>,
    unknown: u32,
    free_at: u64,
    array: PeArray,
    after_table_load: bool,
    last_end: u64,
    last_reads: u64,
    // constants
    period: u64,
    latency: u64,
    forward: u64,
    depth: usize,
}

struct Queue {
    jobs: VecDeque<u32>,
    next: u32,
    started: u64,
    ready: u64,
    busy: bool,
}

#[derive(Clone, Copy)]
struct Times {
    start: u64,
    reads: u64,
    end: u64,
    forwarded: u64,
}

const NEVER: Times = Times { start: u64::MAX, reads: u64::MAX, end: u64::MAX, forwarded: u64::MAX };

const UPDATE: u32 = 0;
const COMPLETE: u32 = 1 << 30;
const START: u32 = 2 << 30;
const HEAD: u32 = 3 << 30;
const KIND: u32 = 3 << 30;

/// Runs schedules of one skeleton, one after the other.
pub struct Executor<'a> {
    sk: &'a Skeleton,
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    entered: u64,
    now: u64,
    end: u64,
    streams: [Stream; ENGINES],
    queues: Vec<Queue>,
    dma: DmaEngines,
    idle_ports: Ports,
    ports: Ports,
    power: PowerLimit,
    values: Vec<u32>,
    orders: Vec<u64>,
    times: Vec<Times>,
    job_at: Vec<u64>,
    last_visible: Vec<u64>,
    broken: Option<(u32, u32)>,
    lost: Option<Id>,
    wrapped: Option<Id>,
    // constants
    visible: u64,
    wake: u64,
    /// By ring, by instruction.
    completion: [u64; 2],
    issue_cycles: u64,
    modulus: u64,
    is_event: Vec<bool>,
}

impl<'a> Executor<'a> {
    /// An executor for `sk`.
    pub fn new(sk: &'a Skeleton) -> Self {
        let config = &*sk.config;
        let time = &sk.time;
        let streams = std::array::from_fn(|s| {
            let engine = Engine::ALL[s];
            let (period, e) = (time.period(engine), config.engine(engine));
            Stream {
                step: 0,
                running: false,
                blocked: Blocked::No,
                pending: VecDeque::new(),
                unknown: 0,
                free_at: 0,
                array: PeArray::default(),
                after_table_load: false,
                last_end: 0,
                last_reads: 0,
                period,
                latency: e.read_latency_cycles * period,
                forward: e.forward_cycles * period,
                depth: e.queue_depth.max(1),
            }
        });
        let queue = |_| Queue { jobs: VecDeque::new(), next: 0, started: 0, ready: 0, busy: false };
        Executor {
            heap: BinaryHeap::with_capacity(64),
            entered: 0,
            now: 0,
            end: 0,
            streams,
            queues: sk.queues.iter().map(queue).collect(),
            dma: DmaEngines::new(&config.dma),
            idle_ports: Ports::new(config),
            ports: Ports::new(config),
            power: PowerLimit::new(&config.power, time),
            values: vec![0; sk.ids.len()],
            orders: vec![0; sk.ids.len()],
            times: vec![NEVER; sk.works.len()],
            job_at: vec![0; sk.jobs.len()],
            last_visible: vec![0; sk.streams() * LANES],
            broken: None,
            lost: None,
            wrapped: None,
            visible: time.from_ps(config.sync.update_visible_ps).max(1),
            wake: time.from_ps(config.sync.wake_ps),
            completion: [false, true].map(|i| time.from_ps(config.dma.completion(i)).max(1)),
            issue_cycles: config.sequencer.issue_cycles.max(1),
            modulus: u64::from(sk.semaphore_max) + 1,
            is_event: sk.ids.iter().map(|id| matches!(id, SyncId::Event(_))).collect(),
            sk,
        }
    }

    fn reset(&mut self) {
        self.heap.clear();
        (self.entered, self.now, self.end) = (0, 0, 0);
        for (s, stream) in self.streams.iter_mut().enumerate() {
            stream.step = 0;
            stream.running = !self.sk.steps[s].is_empty();
            stream.blocked = Blocked::No;
            stream.pending.clear();
            stream.unknown = 0;
            stream.array = PeArray::default();
            (stream.free_at, stream.last_end, stream.last_reads) = (0, 0, 0);
            stream.after_table_load = false;
        }
        for queue in &mut self.queues {
            queue.jobs.clear();
            (queue.next, queue.started, queue.ready, queue.busy) = (0, 0, 0, false);
        }
        self.dma.reset();
        self.ports.clone_from(&self.idle_ports);
        if self.sk.config.power.limit_pe {
            self.power = PowerLimit::new(&self.sk.config.power, &self.sk.time);
        }
        self.values.fill(0);
        self.orders.fill(0);
        self.times.fill(NEVER);
        self.last_visible.fill(0);
        (self.broken, self.lost, self.wrapped) = (None, None, None);
    }

    /// Runs one schedule.
    pub fn run<D: Delay, O: Observe>(&mut self, delays: &mut D, observer: &mut O) -> Outcome {
        self.reset();
        for s in 0..ENGINES {
            if self.streams[s].running {
                self.head_at(delays, s, 0);
            }
        }
        while let Some(Reverse((tick, key, action))) = self.heap.pop() {
            self.now = tick;
            self.end = self.end.max(tick);
            let stream = (key >> 48) as usize & 0x3FFF;
            match action & KIND {
                UPDATE => {
                    let u = self.sk.updates[(action & !KIND) as usize];
                    self.apply(observer, u.id, u.change, (u.stream, u.step));
                }
                COMPLETE => self.transfer_done(delays, stream - ENGINES),
                START if stream < ENGINES => self.start(delays, stream),
                START => self.start_transfer(stream - ENGINES),
                _ => self.head(delays, observer, stream),
            }
        }
        let mut order = 0u64;
        for o in &self.orders {
            order = mixed(order, *o);
        }
        for stream in &self.streams {
            order = mixed(order, u64::from(stream.step));
        }
        Outcome {
            ticks: self.end,
            deadlock: self.streams.iter().any(|s| s.running),
            order,
            broken: self.broken,
            lost: self.lost,
            wrapped: self.wrapped,
        }
    }

    /// Step at which each engine stream stands after the run.
    pub fn steps(&self) -> [u32; ENGINES] {
        std::array::from_fn(|s| self.streams[s].step)
    }

    /// Start and end of a work in the last run, if it started.
    pub fn times(&self, work: u32) -> Option<(u64, u64)> {
        let t = self.times[work as usize];
        (t.start != u64::MAX).then_some((t.start, t.end))
    }

    fn at(&mut self, tick: u64, stream: usize, action: u32) {
        let phase = match action & KIND {
            UPDATE => 0,
            COMPLETE => 1,
            _ => 2u64,
        };
        self.entered += 1;
        self.heap.push(Reverse((tick, phase << 62 | (stream as u64) << 48 | self.entered, action)));
    }

    fn edge(&self, s: usize, tick: u64) -> u64 {
        tick.next_multiple_of(self.streams[s].period)
    }

    fn head_at<D: Delay>(&mut self, delays: &mut D, s: usize, tick: u64) {
        let index = u64::from(self.streams[s].step);
        let extra = delays.delay(s, index, Point::Fetch, tick);
        let at = self.edge(s, tick + extra);
        self.at(at, s, HEAD);
    }

    fn leave<D: Delay>(&mut self, delays: &mut D, s: usize, next: u64) {
        self.streams[s].step += 1;
        self.head_at(delays, s, next);
    }

    fn post(&mut self, tick: u64, lane: usize, update: u32) {
        let stream = self.sk.updates[update as usize].stream as usize;
        let last = &mut self.last_visible[stream * LANES + lane];
        let tick = tick.max(*last);
        *last = tick;
        self.at(tick, stream, UPDATE | update);
    }

    // ------------------------------------------------------------------ events and semaphores

    fn set<O: Observe>(&mut self, observer: &mut O, id: Id, value: u32, by: (u16, u32)) {
        self.values[usize::from(id)] = value;
        let o = &mut self.orders[usize::from(id)];
        *o = mixed(mixed(*o, u64::from(by.0) << 32 | u64::from(by.1)), u64::from(value));
        observer.changed(self.now, id, value, by);
    }

    fn apply<O: Observe>(&mut self, observer: &mut O, id: Id, change: Change, by: (u16, u32)) {
        let old = self.values[usize::from(id)];
        let new = match change {
            Change::Write(n) if self.is_event[usize::from(id)] => {
                if old != 0 && n != 0 {
                    self.lost.get_or_insert(id);
                }
                n
            }
            Change::Write(n) => (u64::from(n) % self.modulus) as u32,
            Change::Add(n) => {
                let sum = u64::from(old) + u64::from(n);
                if sum >= self.modulus {
                    self.wrapped.get_or_insert(id);
                }
                ((u64::from(old) + u64::from(n) % self.modulus) % self.modulus) as u32
            }
            Change::Sub(n) => {
                if n > old {
                    self.wrapped.get_or_insert(id);
                }
                let n = u64::from(n) % self.modulus;
                ((u64::from(old) + self.modulus - n) % self.modulus) as u32
            }
        };
        self.set(observer, id, new, by);
        for s in 0..ENGINES {
            if self.streams[s].blocked == Blocked::Wait && self.streams[s].running {
                self.try_grant(observer, s);
            }
        }
    }

    fn holds(&self, s: usize) -> bool {
        let step = &self.sk.steps[s][self.streams[s].step as usize];
        part(&self.sk.waits, &step.waits)
            .iter()
            .all(|w| w.cond.holds(self.values[usize::from(w.id)]))
    }

    fn grant<O: Observe>(&mut self, observer: &mut O, s: usize) -> bool {
        if !self.holds(s) {
            return false;
        }
        let sk = self.sk;
        let at = self.streams[s].step;
        for w in part(&sk.waits, &sk.steps[s][at as usize].waits) {
            if let Some(value) = w.cond.leaves()
                && self.values[usize::from(w.id)] != value
            {
                self.set(observer, w.id, value, (s as u16, at));
            }
        }
        true
    }

    fn is_sp_program(&self, s: usize) -> bool {
        self.sk.sp_program && s == Engine::Sp as usize
    }

    fn try_grant<O: Observe>(&mut self, observer: &mut O, s: usize) {
        if self.is_sp_program(s) {
            if !self.holds(s) {
                return;
            }
            self.streams[s].blocked = Blocked::No;
        } else {
            if !self.grant(observer, s) {
                return;
            }
            self.streams[s].blocked = Blocked::Granted;
        }
        let at = self.edge(s, self.now + self.wake);
        self.at(at, s, HEAD);
    }

    // ------------------------------------------------------------------ sequencers

    fn head<D: Delay, O: Observe>(&mut self, delays: &mut D, observer: &mut O, s: usize) {
        let sk = self.sk;
        let stream = &mut self.streams[s];
        if !stream.running {
            return;
        }
        let Some(step) = sk.steps[s].get(stream.step as usize) else {
            stream.running = false;
            return;
        };
        if stream.blocked == Blocked::Granted {
            stream.blocked = Blocked::No;
            return self.execute(delays, observer, s);
        }
        let data = match &step.action {
            Action::Work(_) => true,
            Action::Control { early, .. } => !early,
            Action::Label => false,
        };
        if data && (stream.unknown > 0 || stream.pending.len() >= stream.depth) {
            stream.blocked = Blocked::Queue;
            return;
        }
        let granted = if self.is_sp_program(s) { self.holds(s) } else { self.grant(observer, s) };
        if granted {
            self.streams[s].blocked = Blocked::No;
            self.execute(delays, observer, s);
        } else {
            self.streams[s].blocked = Blocked::Wait;
        }
    }

    fn execute<D: Delay, O: Observe>(&mut self, delays: &mut D, observer: &mut O, s: usize) {
        let sk = self.sk;
        let at = self.streams[s].step;
        let step = &sk.steps[s][at as usize];
        match &step.action {
            Action::Label => self.leave(delays, s, self.now),
            Action::Work(w) => self.issue(delays, s, *w),
            Action::Control { ticks, then, drains, early, instants, touches, rings, halts } => {
                if *drains && !self.drained(s) {
                    return;
                }
                for w in touches.clone() {
                    self.begin(w);
                    let now = self.now;
                    self.times[w as usize] =
                        Times { start: now, reads: now, end: now, forwarded: now };
                }
                for i in part(&sk.instants, instants) {
                    if !(i.unless_zero && self.values[usize::from(i.id)] == 0) {
                        self.apply(observer, i.id, i.change, (s as u16, at));
                    }
                }
                let end = self.now + ticks;
                if let Some((job, delay)) = rings {
                    self.ring(delays, *job, self.now + delay);
                }
                for late in [false, true] {
                    for u in step.updates.clone() {
                        if sk.updates[u as usize].late == late {
                            let from = if late || !early { end } else { self.now };
                            let extra = delays.delay(s, u64::from(at), Point::Completion, from);
                            self.post(from + self.visible + extra, 0, u);
                        }
                    }
                }
                self.end = self.end.max(end);
                if *halts {
                    self.streams[s].running = false;
                }
                self.leave(delays, s, end + then);
            }
        }
    }

    fn drained(&mut self, s: usize) -> bool {
        let now = self.now;
        let stream = &mut self.streams[s];
        let at = match stream.pending.back() {
            Some((_, start)) => (*start).max(now) + 1,
            None if stream.last_end > now => stream.last_end,
            None => return true,
        };
        stream.blocked = Blocked::Granted;
        let at = self.edge(s, at);
        self.at(at, s, HEAD);
        false
    }

    // ------------------------------------------------------------------ data paths

    fn issue<D: Delay>(&mut self, delays: &mut D, s: usize, w: u32) {
        let sk = self.sk;
        let now = self.now;
        let index = u64::from(self.streams[s].step);
        let extra = delays.delay(s, index, Point::Issue, now);
        let work = &sk.works[w as usize];
        let stream = &mut self.streams[s];
        let path = match work.row {
            CostRow::LoadWeights => stream.array.load_free(),
            CostRow::Matmul => stream.array.matmul_free(work.cells),
            _ if s == Engine::Pe as usize => stream.array.all_free(),
            _ => stream.free_at,
        };
        let path = path.max(stream.pending.back().map_or(0, |p| p.1));
        let mut start = path.max(now + extra);
        for &old in part(&sk.links, &work.reads_of) {
            let t = self.times[old as usize];
            if t.start == u64::MAX {
                continue;
            }
            if t.end <= now {
                break;
            }
            start = start.max(t.forwarded);
        }
        let start = start.next_multiple_of(stream.period);
        stream.pending.push_back((w, start));
        stream.unknown += u32::from(work.blocks);
        let next = now + self.issue_cycles * stream.period;
        if start == now {
            self.start(delays, s);
        } else {
            self.at(start, s, START);
        }
        self.leave(delays, s, next);
    }

    fn start<D: Delay>(&mut self, delays: &mut D, s: usize) {
        let sk = self.sk;
        let now = self.now;
        let Some((w, _)) = self.streams[s].pending.pop_front() else { return };
        let work = &sk.works[w as usize];
        if let Some(free) = self.ports.free_for(s, work.ports, now) {
            let at = self.edge(s, free);
            self.streams[s].pending.push_front((w, at));
            self.at(at, s, START);
            return;
        }
        self.begin(w);
        let mut busy = work.busy;
        let mut fixed = work.fixed;
        if matches!(work.row, CostRow::Matmul | CostRow::LoadWeights) {
            let factor = match work.row {
                CostRow::Matmul => self.power.factor(now, busy),
                _ => self.power.present(),
            };
            busy *= factor;
            fixed += self.power.drain(factor) * self.streams[s].period;
        }
        let stream = &mut self.streams[s];
        stream.unknown -= u32::from(work.blocks);
        if std::mem::replace(&mut stream.after_table_load, work.row == CostRow::TableLoad) {
            fixed += sk.config.cost.after_table_load_cycles * stream.period;
        }
        let from = match work.row {
            CostRow::Matmul => now.max(stream.array.weights_ready(work.cells)),
            _ => now,
        };
        let busy_until = from + busy;
        self.ports.hold(s, work.ports, busy_until);
        let reads = (busy_until + stream.latency).max(stream.last_reads);
        let end = (busy_until + fixed).max(stream.last_end).max(reads);
        let (cells, span, rates) = (work.cells, (now, busy_until), &sk.config.cost);
        if s == Engine::Pe as usize {
            match work.row {
                CostRow::LoadWeights => {
                    stream.array.load(cells, span, work.gap, stream.period, rates);
                }
                _ => stream.array.occupy(cells, span, work.gap, stream.period, rates),
            }
        } else {
            stream.free_at = busy_until + work.gap;
        }
        stream.last_end = end;
        stream.last_reads = reads;
        let forwarded = (busy_until + stream.forward).min(end);
        self.times[w as usize] = Times { start: now, reads, end, forwarded };
        let waiting = stream.blocked == Blocked::Queue;
        if waiting {
            stream.blocked = Blocked::No;
        }
        self.end = self.end.max(end);
        let updates = sk.steps[s][work.step as usize].updates.clone();
        for late in [false, true] {
            for u in updates.clone() {
                let update = &sk.updates[u as usize];
                if update.late == late {
                    let at = if late { end } else { reads };
                    let extra = delays.delay(s, u64::from(work.step), Point::Completion, at);
                    self.post(at + self.visible + extra, usize::from(update.lane), u);
                }
            }
        }
        if waiting {
            let at = self.edge(s, now);
            self.at(at, s, HEAD);
        }
    }

    /// A work begins: what must be done before it has to be done.
    fn begin(&mut self, w: u32) {
        let work: &SkeletonWork = &self.sk.works[w as usize];
        for pair in part(&self.sk.pairs, &work.after) {
            let t = self.times[pair.earlier as usize];
            let done = if pair.writes { t.end } else { t.reads };
            if done > self.now {
                self.broken.get_or_insert((pair.earlier, w));
            }
        }
    }

    // ------------------------------------------------------------------ queues

    fn ring<D: Delay>(&mut self, delays: &mut D, job: u32, at: u64) {
        let q = usize::from(self.sk.jobs[job as usize].queue);
        self.job_at[job as usize] = at;
        self.queues[q].jobs.push_back(job);
        if !self.queues[q].busy {
            self.queue_next(delays, q, at);
        }
    }

    fn queue_next<D: Delay>(&mut self, delays: &mut D, q: usize, from: u64) {
        let Some(&front) = self.queues[q].jobs.front() else {
            self.queues[q].busy = false;
            return;
        };
        let stream = ENGINES + q;
        let ready = self.job_at[front as usize] + self.sk.jobs[front as usize].start;
        let start = ready.max(from);
        let queue = &mut self.queues[q];
        let extra = delays.delay(stream, queue.started, Point::DmaStart, start);
        queue.busy = true;
        queue.next = 0;
        queue.ready = ready + extra;
        self.at(start + extra, stream, START);
    }

    fn start_transfer(&mut self, q: usize) {
        let sk = self.sk;
        let stream = ENGINES + q;
        let Some(&front) = self.queues[q].jobs.front() else { return };
        let job = &sk.jobs[front as usize];
        let i = self.queues[q].next;
        let count = job.transfers.end - job.transfers.start;
        if i >= count {
            return self.at(self.now, stream, COMPLETE);
        }
        let (demand, skew) = sk.demands[(job.demands.start + i) as usize];
        let after = (self.queues[q].ready, skew);
        let (_, last) = self.dma.occupy(&demand, self.now, after, &sk.time);
        self.queues[q].started += 1;
        self.queues[q].next += 1;
        let w = job.transfers.start + i;
        self.begin(w);
        self.times[w as usize] = Times { start: self.now, reads: last, end: last, forwarded: last };
        self.at(last, stream, if i + 1 < count { START } else { COMPLETE });
    }

    fn transfer_done<D: Delay>(&mut self, delays: &mut D, q: usize) {
        let sk = self.sk;
        let stream = ENGINES + q;
        let Some(done) = self.queues[q].jobs.pop_front() else { return };
        let index = self.queues[q].started.saturating_sub(1);
        let extra = delays.delay(stream, index, Point::Completion, self.now);
        let by_instruction = sk.jobs[done as usize].by_instruction;
        let visible = self.now + self.completion[usize::from(by_instruction)] + extra;
        for u in sk.jobs[done as usize].updates.clone() {
            self.post(visible, 2, u);
        }
        let now = self.now;
        self.queue_next(delays, q, now);
    }
}

/// Mixes a word into a digest.
fn mixed(digest: u64, word: u64) -> u64 {
    let h = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ (h >> 29)
}

//! Whether a certificate proves what it states. Short and plain on purpose; quadratic in the
//! program where that is simpler.
//!
//! 1. The hash is that of the program and the configuration.
//! 2. The program is decoded ([`super::decode`]); streams have the stated lengths, queues the stated
//!    jobs, each rung in an order that the proof itself keeps.
//! 3. What the machine enforces, with the edges, has no cycle. Taken in an order that keeps it, all
//!    waits hold: the program can come to its end.
//! 4. Every edge is justified: without what comes after its update or after its wait, the value
//!    that the wait needs is not reached.
//! 5. Every wait, once it holds, holds until it is granted; resets are in order with every other
//!    use; events are set once in between.
//! 6. Accesses that touch a common byte, one of them a write, are ordered by a chain of edges; on V1,
//!    where the partitions of a work finish one after the other, with a DMA barrier between a work
//!    and a transfer that touches more than its first partition.
//!
//! From 4, by induction over a run, every run keeps the order; from 3 and 5 every run can be
//! completed and executes the same; from 6 every read gets the same data.

use std::collections::{BTreeMap, HashMap};

use super::decode::{self, Ask, Do, Facts, Name};
use super::{Certificate, FORMAT, Source, VERSION, hash, refused};
use crate::error::Result;
use crate::isa::{Engine, Generation};
use crate::machine::MachineConfig;
use crate::memory::{Access, Space};
use crate::program::Program;

/// Nodes beyond which a program is refused: the check keeps a bit for each pair.
const MOST_NODES: usize = 30_000;

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Instructions.
    pub steps: usize,
    /// Edges, all justified.
    pub edges: usize,
    /// Pairs of conflicting accesses, all ordered.
    pub conflicts: usize,
}

/// Checks `certificate` against `program` on the machine of `config`.
///
/// # Errors
/// The first thing that does not hold, with rule `certificate`.
pub fn check(
    certificate: &Certificate,
    program: &Program,
    config: &MachineConfig,
) -> Result<Checked> {
    if certificate.format != FORMAT || certificate.version != VERSION {
        return Err(refused("not a certificate of this version"));
    }
    if certificate.program != hash(program, config) {
        return Err(refused("the certificate is for another program or configuration"));
    }
    let facts = decode::decode(program, config).map_err(decode::as_refusal)?;
    let staggered = program.generation == Generation::V1;
    let mut net = Net { staggered, ..Net::default() };
    net.streams(&facts)?;
    net.stated(certificate, &facts)?;
    let edges = net.edges(certificate)?;
    net.sort(&edges)?;
    net.queues_ordered(certificate)?;
    let uses = net.replay(u64::from(config.sync.semaphore_max))?;
    net.justify(&edges, &uses)?;
    net.lasting(&uses)?;
    let conflicts = net.conflicts()?;
    let steps = facts.streams.iter().map(Vec::len).sum();
    Ok(Checked { steps, edges: edges.len(), conflicts })
}

/// Accesses that are made between two nodes. Those of one line are in order by themselves.
struct Touching {
    line: (usize, bool),
    start: usize,
    reads_done: usize,
    done: usize,
    accesses: Vec<Access>,
    what: String,
    /// The step, of an engine's own data path.
    step: Option<usize>,
}

#[derive(Default)]
struct Net {
    what: Vec<String>,
    before: Vec<Vec<usize>>,
    waits: Vec<Vec<(Name, Ask)>>,
    acts: Vec<Vec<(Name, Do)>>,
    /// Where each step is let go, and where it acts.
    go: HashMap<(String, u32), usize>,
    run: HashMap<(String, u32), usize>,
    sources: BTreeMap<Source, usize>,
    touching: Vec<Touching>,
    /// Jobs by ringing step: queue, and what it does.
    jobs: HashMap<(String, u32), decode::Job>,
    /// DMA barriers: stream and step, where it is let go, where it acts.
    barriers: Vec<((usize, usize), usize, usize)>,
    /// Whether the partitions of a work finish one after the other.
    staggered: bool,
    sorted: Vec<usize>,
    /// Bit `a` of row `b`: `a` is `b` or comes before it.
    rows: Vec<Vec<u64>>,
}

/// Uses of one event or semaphore by epoch.
#[derive(Default)]
struct Uses {
    resets: Vec<usize>,
    base: Vec<u64>,
    /// (epoch, node, amount)
    raises: Vec<(usize, usize, u64)>,
    /// (epoch, node, value, exactly, whether it is the reset itself)
    needs: Vec<(usize, usize, u64, bool, bool)>,
}

impl Net {
    fn node(&mut self, what: String, before: &[usize], last: &mut Option<usize>) -> Result<usize> {
        if self.what.len() >= MOST_NODES {
            return Err(refused(format!("the program is too long: more than {MOST_NODES} nodes")));
        }
        let node = self.what.len();
        self.what.push(what);
        self.before.push(before.iter().copied().chain(*last).collect());
        self.waits.push(Vec::new());
        self.acts.push(Vec::new());
        *last = Some(node);
        Ok(node)
    }

    fn streams(&mut self, facts: &Facts) -> Result<()> {
        for (e, steps) in facts.streams.iter().enumerate() {
            let name = Engine::ALL[e].to_string();
            let (mut go, mut starts, mut reads, mut results) = (None, None, None, None);
            let (mut sequencer, mut read_updates, mut result_updates) = (None, None, None);
            for (k, step) in steps.iter().enumerate() {
                let key = (name.clone(), k as u32);
                let what = format!("{name} pc {}", step.pc);
                let here = self.node(what.clone(), &[], &mut go)?;
                self.waits[here] = step.waits.clone();
                let mut run = here;
                if step.drains {
                    let all: Vec<usize> = results.into_iter().collect();
                    run = self.node(what.clone(), &all, &mut go)?;
                }
                self.go.insert(key.clone(), here);
                self.run.insert(key.clone(), run);
                if step.barrier {
                    self.barriers.push(((e, k), here, run));
                }
                for (n, act) in step.instants.iter().enumerate() {
                    self.acts[run].push(*act);
                    self.sources.insert(Source::Instant(name.clone(), k as u32, n as u32), run);
                }
                if !step.touches.is_empty() {
                    let accesses = step.touches.clone();
                    let what = what.clone();
                    let line = (e, true);
                    let (start, reads_done, done) = (run, run, run);
                    let step = None;
                    let t = Touching { line, start, reads_done, done, accesses, what, step };
                    self.touching.push(t);
                }
                let (mut at_reads, mut at_results) = (run, run);
                if let Some(accesses) = step.data.clone() {
                    let start = self.node(what.clone(), &[here], &mut starts)?;
                    at_reads = self.node(what.clone(), &[start], &mut reads)?;
                    at_results = self.node(what.clone(), &[at_reads], &mut results)?;
                    let (reads_done, done, what) = (at_reads, at_results, what.clone());
                    let (line, step) = ((e, false), Some(k));
                    let t = Touching { line, start, reads_done, done, accesses, what, step };
                    self.touching.push(t);
                }
                for late in [false, true] {
                    for (n, u) in step.updates.iter().enumerate().filter(|(_, u)| u.late == late) {
                        let (from, lane) = match (&step.data, late) {
                            (None, _) => (run, &mut sequencer),
                            (Some(_), false) => (at_reads, &mut read_updates),
                            (Some(_), true) => (at_results, &mut result_updates),
                        };
                        let node = self.node(format!("update of {what}"), &[from], lane)?;
                        self.acts[node].push((u.name, u.act));
                        let source = Source::Update(name.clone(), k as u32, n as u32);
                        self.sources.insert(source, node);
                    }
                }
                if let Some(job) = &step.job {
                    self.jobs.insert(key, job.clone());
                }
            }
        }
        Ok(())
    }

    /// Lengths of streams and order of jobs as the certificate has them.
    fn stated(&mut self, certificate: &Certificate, facts: &Facts) -> Result<()> {
        let lengths: Vec<(String, u32)> = Engine::ALL
            .iter()
            .zip(&facts.streams)
            .map(|(e, s)| (e.to_string(), s.len() as u32))
            .collect();
        let stated: Vec<(String, u32)> =
            certificate.streams.iter().map(|s| (s.name.clone(), s.steps)).collect();
        if lengths != stated {
            return Err(refused("the streams do not execute what the certificate says"));
        }
        let names: Vec<&String> = certificate.queues.iter().map(|q| &q.name).collect();
        if names != facts.queues.iter().collect::<Vec<_>>() {
            return Err(refused("the queues are not those of the certificate"));
        }
        let mut open = self.jobs.clone();
        for (q, queue) in certificate.queues.iter().enumerate() {
            let (mut line, mut lane) = (None, None);
            for (j, ring) in queue.jobs.iter().enumerate() {
                let Some(job) = open.remove(ring).filter(|job| job.queue == q) else {
                    let (stream, step) = ring;
                    let text = format!("{stream} step {step} does not ring queue {}", queue.name);
                    return Err(refused(text));
                };
                let what = format!("job {j} of queue {}", queue.name);
                self.node(what.clone(), &[self.run[ring]], &mut line)?;
                for accesses in job.transfers {
                    let start = self.node(what.clone(), &[], &mut line)?;
                    let done = self.node(what.clone(), &[], &mut line)?;
                    let (line, reads_done, what) =
                        ((Engine::ALL.len() + q, false), done, what.clone());
                    let step = None;
                    let t = Touching { line, start, reads_done, done, accesses, what, step };
                    self.touching.push(t);
                }
                let end = self.node(what.clone(), &[], &mut line)?;
                for (n, act) in job.updates.iter().enumerate() {
                    let node = self.node(format!("update of {what}"), &[end], &mut lane)?;
                    self.acts[node].push(*act);
                    let source = Source::Job(queue.name.clone(), j as u32, n as u32);
                    self.sources.insert(source, node);
                }
            }
        }
        match open.is_empty() {
            true => Ok(()),
            false => Err(refused("the certificate lacks a DMA job")),
        }
    }

    /// Adds the edges; returns them as (update, wait).
    fn edges(&mut self, certificate: &Certificate) -> Result<Vec<(usize, usize)>> {
        let mut all = Vec::new();
        for edge in &certificate.edges {
            let from = self.sources.get(&edge.from).copied();
            let to = self.go.get(&edge.to).copied();
            let (Some(from), Some(to)) = (from, to) else {
                return Err(refused(format!("an edge names no update or no step: {edge:?}")));
            };
            all.push((from, to));
        }
        Ok(all)
    }

    /// Sorts all nodes; fills the rows.
    fn sort(&mut self, edges: &[(usize, usize)]) -> Result<()> {
        let n = self.what.len();
        let mut before = self.before.clone();
        for &(from, to) in edges {
            before[to].push(from);
        }
        let mut missing: Vec<usize> = before.iter().map(Vec::len).collect();
        let mut after = vec![Vec::new(); n];
        for (node, list) in before.iter().enumerate() {
            list.iter().for_each(|b| after[*b].push(node));
        }
        let mut ready: Vec<usize> = (0..n).filter(|x| missing[*x] == 0).collect();
        self.sorted.clear();
        self.rows = vec![Vec::new(); n];
        while let Some(node) = ready.pop() {
            let mut row = vec![0u64; n.div_ceil(64)];
            row[node / 64] |= 1 << (node % 64);
            for b in &before[node] {
                row.iter_mut().zip(&self.rows[*b]).for_each(|(mine, theirs)| *mine |= theirs);
            }
            self.rows[node] = row;
            self.sorted.push(node);
            for &x in &after[node] {
                missing[x] -= 1;
                if missing[x] == 0 {
                    ready.push(x);
                }
            }
        }
        if self.sorted.len() < n {
            return Err(refused("the edges make a cycle"));
        }
        Ok(())
    }

    fn reaches(&self, a: usize, b: usize) -> bool {
        self.rows[b][a / 64] >> (a % 64) & 1 == 1
    }

    fn queues_ordered(&self, certificate: &Certificate) -> Result<()> {
        for queue in &certificate.queues {
            for pair in queue.jobs.windows(2) {
                if !self.reaches(self.run[&pair[0]], self.run[&pair[1]]) {
                    let text = format!("nothing orders two jobs of queue {}", queue.name);
                    return Err(refused(text));
                }
            }
        }
        Ok(())
    }

    /// Goes through all nodes in an order that keeps the edges; sorts the uses into epochs.
    fn replay(&self, max: u64) -> Result<BTreeMap<Name, Uses>> {
        let mut all: BTreeMap<Name, (u64, Uses)> = BTreeMap::new();
        for &node in &self.sorted {
            let mut seen: Vec<Name> = Vec::new();
            let mut once = |name: Name| {
                let fresh = !seen.contains(&name);
                seen.push(name);
                match fresh {
                    true => Ok(()),
                    false => Err(refused(format!("{} uses one name twice", self.what[node]))),
                }
            };
            for &(name, ask) in &self.waits[node] {
                once(name)?;
                let (value, uses) = all.entry(name).or_insert_with(new_uses);
                let epoch = uses.resets.len();
                let held = match ask {
                    Ask::AtLeast(n) => *value >= n,
                    Ask::Exactly(n) => *value == n,
                    Ask::Consume => *value == 1,
                    Ask::Inverse => {
                        let text = format!("{} waits for a small value", self.what[node]);
                        return Err(refused(text));
                    }
                };
                if !held {
                    return Err(refused(format!("{} cannot go on", self.what[node])));
                }
                match ask {
                    Ask::AtLeast(0) => {}
                    Ask::AtLeast(n) => uses.needs.push((epoch, node, n, false, false)),
                    Ask::Exactly(n) => uses.needs.push((epoch, node, n, true, false)),
                    _ => {
                        uses.needs.push((epoch, node, 1, false, true));
                        uses.reset(node, 0);
                        *value = 0;
                    }
                }
            }
            for &(name, act) in &self.acts[node] {
                once(name)?;
                let (value, uses) = all.entry(name).or_insert_with(new_uses);
                let epoch = uses.resets.len();
                let event = !name.0;
                match act {
                    Do::Write(1) if event => {
                        uses.raises.push((epoch, node, 1));
                        *value += 1;
                    }
                    Do::Add(n) => {
                        uses.raises.push((epoch, node, n));
                        *value += n;
                    }
                    Do::Sub(n) => {
                        let Some(less) = value.checked_sub(n) else {
                            return Err(refused(format!("{} counts below zero", self.what[node])));
                        };
                        uses.reset(node, less);
                        *value = less;
                    }
                    Do::Write(n) => {
                        uses.reset(node, n);
                        *value = n;
                    }
                }
                let limit = if event { 1 } else { max };
                if *value > limit {
                    let text =
                        format!("{} counts past {limit} or sets a set event", self.what[node]);
                    return Err(refused(text));
                }
            }
        }
        Ok(all.into_iter().map(|(name, (_, uses))| (name, uses)).collect())
    }

    /// Most that can be there when `wait` is granted, without what comes after `without`.
    fn most(&self, uses: &Uses, epoch: usize, wait: usize, without: Option<usize>) -> u64 {
        let left = uses.raises.iter().filter(|(e, node, _)| {
            *e == epoch
                && !self.reaches(wait, *node)
                && !without.is_some_and(|w| self.reaches(w, *node))
        });
        uses.base[epoch] + left.map(|(_, _, n)| n).sum::<u64>()
    }

    fn justify(&self, edges: &[(usize, usize)], uses: &BTreeMap<Name, Uses>) -> Result<()> {
        for &(from, to) in edges {
            let justified = uses.values().any(|u| {
                let mine = u.needs.iter().filter(|need| need.1 == to);
                let raises = u.raises.iter().any(|r| r.1 == from);
                raises
                    && mine
                        .clone()
                        .any(|&(epoch, _, n, ..)| self.most(u, epoch, to, Some(from)) < n)
            });
            if !justified {
                let text = format!("{} need not come before {}", self.what[from], self.what[to]);
                return Err(refused(text));
            }
        }
        Ok(())
    }

    /// Waits that hold keep holding, and values grow between resets.
    fn lasting(&self, all: &BTreeMap<Name, Uses>) -> Result<()> {
        let unordered = |a: usize, b: usize| {
            let (a, b) = (&self.what[a], &self.what[b]);
            Err(refused(format!("{a} and {b} use one event or semaphore and nothing orders them")))
        };
        for uses in all.values() {
            for pair in uses.resets.windows(2) {
                if !self.reaches(pair[0], pair[1]) {
                    return unordered(pair[0], pair[1]);
                }
            }
            for &(epoch, node, _) in &uses.raises {
                if let Some(first) = epoch.checked_sub(1).map(|e| uses.resets[e])
                    && !self.reaches(first, node)
                {
                    return unordered(first, node);
                }
                if let Some(&last) = uses.resets.get(epoch)
                    && !self.reaches(node, last)
                {
                    return unordered(node, last);
                }
            }
            for &(epoch, node, n, exactly, resets) in &uses.needs {
                // by what the machine enforces before the wait, not by what the wait tells
                if let Some(first) = epoch.checked_sub(1).map(|e| uses.resets[e])
                    && !self.before[node].iter().any(|b| self.reaches(first, *b))
                {
                    return unordered(first, node);
                }
                if let Some(&last) = uses.resets.get(epoch).filter(|_| !resets)
                    && !self.reaches(node, last)
                {
                    return unordered(node, last);
                }
                if exactly && self.most(uses, epoch, node, None) > n {
                    return Err(refused(format!("{} can be passed by", self.what[node])));
                }
            }
        }
        Ok(())
    }

    fn conflicts(&self) -> Result<usize> {
        let mut count = 0;
        for (k, a) in self.touching.iter().enumerate() {
            for b in &self.touching[..k] {
                if a.line == b.line {
                    continue;
                }
                for x in &a.accesses {
                    for y in &b.accesses {
                        if !(x.kind.writes() || y.kind.writes()) || !x.region.overlaps(&y.region) {
                            continue;
                        }
                        let done = |t: &Touching, access: &Access| {
                            if access.kind.writes() { t.done } else { t.reads_done }
                        };
                        let ordered =
                            self.reaches(done(a, x), b.start) || self.reaches(done(b, y), a.start);
                        if !ordered {
                            return Err(refused(format!(
                                "{} and {} touch {} and nothing orders them",
                                a.what, b.what, y.region
                            )));
                        }
                        if self.staggered {
                            self.guarded((a, x), (b, y))?;
                            self.guarded((b, y), (a, x))?;
                        }
                        count += 1;
                    }
                }
            }
        }
        Ok(count)
    }

    /// A transfer that comes after a work waits for the last of its partitions.
    fn guarded(
        &self,
        (work, x): (&Touching, &Access),
        (transfer, y): (&Touching, &Access),
    ) -> Result<()> {
        let done = if x.kind.writes() { work.done } else { work.reads_done };
        let (Some(step), true) = (work.step, transfer.line.0 >= Engine::ALL.len()) else {
            return Ok(());
        };
        let later_partitions = x.region.space == Space::Sbuf
            && x.region.count > 1
            && y.region.first + y.region.count > x.region.first + 1;
        let waits = |&((stream, k), go, run): &((usize, usize), usize, usize)| {
            let after = (stream == work.line.0 && step < k) || self.reaches(done, go);
            after && self.reaches(run, transfer.start)
        };
        if later_partitions
            && self.reaches(done, transfer.start)
            && !self.barriers.iter().any(waits)
        {
            return Err(refused(format!(
                "{} may touch partitions with which {} is not done",
                transfer.what, work.what
            )));
        }
        Ok(())
    }
}

fn new_uses() -> (u64, Uses) {
    (0, Uses { base: vec![0], ..Uses::default() })
}

impl Uses {
    fn reset(&mut self, node: usize, value: u64) {
        self.resets.push(node);
        self.base.push(value);
    }
}

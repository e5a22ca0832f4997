//! The proof that every schedule of a program gives the same result, or what stands against it.
//!
//! A set of edges "this update comes before that wait" is sound if each edge is justified by the
//! order that the machine enforces and all edges together: take away the updates that come after
//! the update in question or after the wait; what is left must not add up to what the wait needs.
//! For think of a run up to the first wait that breaks an edge. All that was executed so far keeps
//! the order, so neither the update nor anything behind it or behind the wait was executed, and the
//! rest is not enough: the wait cannot have been granted. The edges found here are the strongest
//! such set below one complete order (the witness).
//!
//! Where values are taken down (a write, a subtraction, a consumed or cleared event), every other
//! use must come before or after by that same order; between two of them a value only grows.
//!
//! If every wait that holds keeps holding until it is granted, then any run can be completed like
//! the witness, and all runs execute the same. With conflicting accesses in order, all reads give
//! the same data.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use super::graph::{Clocks, Graph, Node, Touch, What};
use super::{Change, Cond, Id, Skeleton};
use crate::sync::SyncId;

/// What the statement rests on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Premise {
    /// The undisturbed run is without a finding.
    CleanRun,
    /// No data and no look at an event or semaphore decides what is executed.
    ControlFixed,
    /// Footprints are known.
    FootprintsKnown,
    /// Some order of all instructions comes to the end.
    Completes,
    /// Between resets that are in order with everything else, semaphores only count up, without
    /// leaving their range, and waits look for `>=`, `>` or an `==` that cannot be passed.
    CountersMonotone,
    /// Each event is set once and then consumed or cleared, in an order that is fixed.
    EventsConsumedOnce,
    /// The jobs of each DMA queue are always in the same order.
    QueuesInOrder,
    /// Conflicting accesses are ordered in every schedule.
    RaceFree,
}

impl Premise {
    /// All, in the order in which they are checked.
    pub const ALL: [Premise; 8] = [
        Premise::CleanRun,
        Premise::ControlFixed,
        Premise::FootprintsKnown,
        Premise::Completes,
        Premise::CountersMonotone,
        Premise::EventsConsumedOnce,
        Premise::QueuesInOrder,
        Premise::RaceFree,
    ];

    /// Name in reports and certificates.
    pub fn name(self) -> &'static str {
        match self {
            Premise::CleanRun => "clean_run",
            Premise::ControlFixed => "control_fixed",
            Premise::FootprintsKnown => "footprints_known",
            Premise::Completes => "completes",
            Premise::CountersMonotone => "counters_monotone",
            Premise::EventsConsumedOnce => "events_consumed_once",
            Premise::QueuesInOrder => "queues_in_order",
            Premise::RaceFree => "race_free",
        }
    }

    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Premise::CleanRun => "the undisturbed run is without a finding",
            Premise::ControlFixed => {
                "neither data nor looks at events or semaphores decide what is executed"
            }
            Premise::FootprintsKnown => "every instruction's memory accesses are known",
            Premise::Completes => "an order of all instructions exists that comes to the end",
            Premise::CountersMonotone => {
                "semaphores only count up between resets, and a wait that holds keeps holding"
            }
            Premise::EventsConsumedOnce => "each event is set once and consumed once, in turn",
            Premise::QueuesInOrder => "the jobs of each DMA queue are in one order",
            Premise::RaceFree => {
                "conflicting accesses are ordered by chains of waits and updates (V1: with a DMA \
                 barrier before a transfer)"
            }
        }
    }
}

/// A premise that fails, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub premise: Premise,
    /// The instructions concerned: stream and word; the one to look at first.
    pub places: Vec<(usize, u32)>,
    /// What is wrong there.
    pub what: String,
}

/// The order that every schedule keeps, and what stands against a proof.
pub struct Proof {
    /// The nodes.
    pub graph: Graph,
    /// A complete order, if there is one.
    pub order: Vec<Node>,
    /// Updates that come before waits.
    pub edges: Vec<(Node, Node)>,
    /// What every schedule keeps.
    pub clocks: Clocks,
    /// Premises that fail; none of them: proved.
    pub failures: Vec<Failure>,
    /// Conflicting works that are not in order.
    pub unordered: Vec<(u32, u32)>,
    /// Events and semaphores whose values the order does not determine; they may wrap.
    pub improper: Vec<bool>,
}

/// A use of an event or semaphore that waits.
struct Need {
    node: Node,
    epoch: usize,
    /// Value that it needs.
    value: u64,
    /// Whether it must be met exactly.
    exact: bool,
    /// Whether it takes the event down itself.
    consumes: bool,
}

/// Nodes that raise a value, with the sum so far.
type Line = Vec<(Node, u64)>;

/// All uses of one event or semaphore, in the order of the witness.
#[derive(Default)]
struct Uses {
    /// Nodes that take the value down, in order.
    resets: Vec<Node>,
    /// Value at the beginning of each epoch.
    base: Vec<u64>,
    /// Per epoch, what raises the value, by chain.
    raises: Vec<BTreeMap<u32, Line>>,
    needs: Vec<Need>,
}

struct Prover<'a> {
    sk: &'a Skeleton,
    graph: Graph,
    order: Vec<Node>,
    uses: Vec<Uses>,
    failures: Vec<Failure>,
    /// Events and semaphores whose values the order does not determine: no edges from them.
    improper: Vec<bool>,
    /// For each need (id, position) and chain: how many raises come before.
    before: BTreeMap<(usize, usize, u32), usize>,
}

/// Looks for the proof.
pub fn prove(sk: &Skeleton) -> Proof {
    let graph = Graph::new(sk);
    let mut prover = Prover {
        sk,
        graph,
        order: Vec::new(),
        uses: Vec::new(),
        failures: Vec::new(),
        improper: vec![false; sk.ids.len()],
        before: BTreeMap::new(),
    };
    prover.witness();
    prover.collect();
    let mut clocks = prover.strengthen();
    prover.footprints();
    prover.confluence(&clocks);
    // the order that is left without what nothing guarantees still holds in every schedule
    while prover.exclude(&clocks) {
        clocks = prover.strengthen();
    }
    let edges = prover.edge_list();
    prover.queues(&clocks);
    let unordered = prover.races(&clocks);
    prover.failures.sort_by_key(|f| f.premise);
    let Prover { graph, order, failures, improper, .. } = prover;
    Proof { graph, order, edges, clocks, failures, unordered, improper }
}

impl Prover<'_> {
    fn name(&self, id: Id) -> SyncId {
        self.sk.ids[usize::from(id)]
    }

    fn fail(&mut self, premise: Premise, nodes: &[Node], what: String) {
        let places = nodes.iter().map(|n| self.graph.place(self.sk, *n)).collect();
        self.failures.push(Failure { premise, places, what });
    }

    /// Executes everything in some order.
    fn witness(&mut self) {
        let n = self.graph.nodes.len();
        let mut missing: Vec<usize> = self.graph.preds.iter().map(|p| p.len()).collect();
        let mut next: Vec<Vec<Node>> = vec![Vec::new(); n];
        for (node, preds) in self.graph.preds.iter().enumerate() {
            for p in preds {
                next[*p as usize].push(node as Node);
            }
        }
        let mut values = vec![0u32; self.sk.ids.len()];
        let mut parked: Vec<Vec<Node>> = vec![Vec::new(); self.sk.ids.len()];
        let mut ready: VecDeque<Node> =
            (0..n as Node).filter(|x| missing[*x as usize] == 0).collect();
        while let Some(node) = ready.pop_front() {
            let touches = &self.graph.touches[node as usize];
            let unmet = touches.iter().find(|(id, touch)| match touch {
                Touch::Wait(cond) => !cond.holds(values[usize::from(*id)]),
                Touch::Change(..) => false,
            });
            if let Some((id, _)) = unmet {
                parked[usize::from(*id)].push(node);
                continue;
            }
            for (id, touch) in touches {
                let value = &mut values[usize::from(*id)];
                match touch {
                    Touch::Wait(cond) => *value = cond.leaves().unwrap_or(*value),
                    Touch::Change(Change::Add(k), _) => *value = value.saturating_add(*k),
                    Touch::Change(Change::Sub(k), _) => *value = value.saturating_sub(*k),
                    Touch::Change(Change::Write(k), _) => *value = *k,
                }
                ready.extend(parked[usize::from(*id)].drain(..));
            }
            self.order.push(node);
            for &x in &next[node as usize] {
                missing[x as usize] -= 1;
                if missing[x as usize] == 0 {
                    ready.push_back(x);
                }
            }
        }
        if self.order.len() < n {
            let stuck: Vec<Node> = parked.into_iter().flatten().collect();
            let text = "an order of the other streams exists in which this wait never holds";
            self.fail(Premise::Completes, &stuck, text.into());
            // the rest follows in any order that keeps what the machine enforces
            let mut done = vec![false; n];
            self.order.iter().for_each(|x| done[*x as usize] = true);
            let mut rest: VecDeque<Node> = stuck.into();
            while let Some(node) = rest.pop_front() {
                if std::mem::replace(&mut done[node as usize], true) {
                    continue;
                }
                self.order.push(node);
                for &x in &next[node as usize] {
                    missing[x as usize] -= 1;
                    if missing[x as usize] == 0 {
                        rest.push_back(x);
                    }
                }
            }
        }
    }

    /// Sorts the uses of each event and semaphore into epochs.
    fn collect(&mut self) {
        let new = || Uses { base: vec![0], raises: vec![BTreeMap::new()], ..Uses::default() };
        self.uses = self.sk.ids.iter().map(|_| new()).collect();
        let mut failures: Vec<(Premise, Node, String)> = Vec::new();
        let mut improper = vec![false; self.sk.ids.len()];
        for &node in &self.order {
            let touches = self.graph.touches[node as usize].clone();
            for (k, (id, touch)) in touches.iter().enumerate() {
                let name = self.sk.ids[usize::from(*id)];
                let event = matches!(name, SyncId::Event(_));
                let premise =
                    if event { Premise::EventsConsumedOnce } else { Premise::CountersMonotone };
                if touches[..k].iter().any(|(other, _)| other == id) {
                    let text = format!("uses {name} twice in one step");
                    improper[usize::from(*id)] = true;
                    failures.push((premise, node, text));
                }
                let uses = &mut self.uses[usize::from(*id)];
                let epoch = uses.resets.len();
                let top = |uses: &Uses| {
                    let lines = uses.raises[epoch].values();
                    uses.base[epoch] + lines.map(|l| l.last().map_or(0, |x| x.1)).sum::<u64>()
                };
                let reset = |uses: &mut Uses, value: u64| {
                    uses.resets.push(node);
                    uses.base.push(value);
                    uses.raises.push(BTreeMap::new());
                };
                match *touch {
                    Touch::Wait(Cond::AtLeast(0)) => {}
                    Touch::Wait(Cond::AtLeast(n)) | Touch::Wait(Cond::Equal(n)) => {
                        let exact = matches!(touch, Touch::Wait(Cond::Equal(_)));
                        let value = n.into();
                        uses.needs.push(Need { node, epoch, value, exact, consumes: false });
                    }
                    Touch::Wait(Cond::Set(consumes)) => {
                        uses.needs.push(Need { node, epoch, value: 1, exact: false, consumes });
                        if consumes {
                            reset(uses, 0);
                        }
                    }
                    Touch::Wait(Cond::Below(n)) => {
                        let text =
                            format!("waits for {name} to be below {n}: it may hold and fail again");
                        failures.push((premise, node, text));
                    }
                    Touch::Wait(Cond::Clear(_)) => {
                        let text =
                            format!("waits for {name} to be clear: it may hold and fail again");
                        failures.push((premise, node, text));
                    }
                    Touch::Change(Change::Write(n), _) if event && n != 0 => {
                        let chain = self.graph.chain[node as usize].0;
                        if top(uses) > 0 {
                            let text =
                                format!("sets {name} again before it is consumed or cleared");
                            failures.push((premise, node, text));
                        }
                        let line = uses.raises[epoch].entry(chain).or_default();
                        let sum = line.last().map_or(0, |x| x.1) + 1;
                        line.push((node, sum));
                    }
                    Touch::Change(Change::Add(n), _) => {
                        let chain = self.graph.chain[node as usize].0;
                        let line = uses.raises[epoch].entry(chain).or_default();
                        let sum = line.last().map_or(0, |x| x.1) + u64::from(n);
                        line.push((node, sum));
                    }
                    Touch::Change(Change::Sub(n), _) => {
                        let value = top(uses);
                        if value < u64::from(n) {
                            let text = format!("takes {n} from {name}, which may be {value}");
                            improper[usize::from(*id)] = true;
                            failures.push((premise, node, text));
                        }
                        reset(uses, value.saturating_sub(n.into()));
                    }
                    Touch::Change(Change::Write(n), _) => reset(uses, n.into()),
                }
            }
        }
        self.improper = improper;
        for (premise, node, text) in failures {
            self.fail(premise, &[node], text);
        }
    }

    /// Gives up events and semaphores whose values the order does not determine; says whether any
    /// was found.
    fn exclude(&mut self, clocks: &Clocks) -> bool {
        let mut any = false;
        for id in 0..self.uses.len() {
            let had = self.before.keys().any(|k| k.0 == id);
            if !self.improper[id] && !self.disorder(clocks, id).is_empty() {
                self.improper[id] = true;
            }
            any |= self.improper[id] && had;
        }
        any
    }

    /// Starts with all that comes before in the witness and takes back what is not justified.
    fn strengthen(&mut self) -> Clocks {
        let mut place = vec![0u32; self.graph.nodes.len()];
        for (k, node) in self.order.iter().enumerate() {
            place[*node as usize] = k as u32;
        }
        self.before.clear();
        for (id, uses) in self.uses.iter().enumerate().filter(|(id, _)| !self.improper[*id]) {
            for (k, need) in uses.needs.iter().enumerate() {
                for (chain, line) in &uses.raises[need.epoch] {
                    let at = place[need.node as usize];
                    let n = line.partition_point(|(x, _)| place[*x as usize] < at);
                    if n > 0 {
                        self.before.insert((id, k, *chain), n);
                    }
                }
            }
        }
        loop {
            let mut preds: Vec<SmallVec<[Node; 2]>> = vec![SmallVec::new(); place.len()];
            for (from, to) in self.edge_list() {
                preds[to as usize].push(from);
            }
            let clocks = Clocks::new(&self.graph, &preds, &self.order);
            let mut weaker = Vec::new();
            for (&(id, k, chain), &n) in &self.before {
                let uses = &self.uses[id];
                let need = &uses.needs[k];
                let line = &uses.raises[need.epoch][&chain];
                // the fewer are asked for, the more is behind them
                let kept = line[..n]
                    .partition_point(|(from, _)| self.justified(&clocks, uses, need, *from));
                if kept != n {
                    weaker.push(((id, k, chain), kept));
                }
            }
            if weaker.is_empty() {
                return clocks;
            }
            for (key, n) in weaker {
                match n {
                    0 => self.before.remove(&key),
                    n => self.before.insert(key, n),
                };
            }
        }
    }

    /// Most that the value can be before `need` is granted, without what comes after `without`.
    fn most(&self, clocks: &Clocks, uses: &Uses, need: &Need, without: Option<Node>) -> u64 {
        let mut sum = uses.base[need.epoch];
        for line in uses.raises[need.epoch].values() {
            let free = line.partition_point(|(x, _)| {
                !clocks.reaches(&self.graph, need.node, *x)
                    && without.is_none_or(|w| !clocks.reaches(&self.graph, w, *x))
            });
            sum += free.checked_sub(1).map_or(0, |i| line[i].1);
        }
        sum
    }

    fn justified(&self, clocks: &Clocks, uses: &Uses, need: &Need, from: Node) -> bool {
        self.most(clocks, uses, need, Some(from)) < need.value
    }

    fn edge_list(&self) -> Vec<(Node, Node)> {
        let mut all: Vec<(Node, Node)> = self
            .before
            .iter()
            .map(|(&(id, k, chain), &n)| {
                let uses = &self.uses[id];
                let need = &uses.needs[k];
                (uses.raises[need.epoch][&chain][n - 1].0, need.node)
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn footprints(&mut self) {
        let unknown: Vec<(usize, u32)> = self
            .sk
            .works
            .iter()
            .filter(|w| !w.work.judged)
            .map(|w| (usize::from(w.stream), w.pc))
            .collect();
        if !unknown.is_empty() {
            self.failures.push(Failure {
                premise: Premise::FootprintsKnown,
                places: unknown,
                what: "runs library code that touches too many separate pieces of memory to keep"
                    .into(),
            });
        }
    }

    /// What leaves the value of event or semaphore `id` open: uses that are not in order with what
    /// takes it down, and values beyond its range.
    fn disorder(&self, clocks: &Clocks, id: usize) -> Vec<(Vec<Node>, String)> {
        let (graph, uses, name) = (&self.graph, &self.uses[id], self.name(id as Id));
        let mut found: Vec<(Vec<Node>, String)> = Vec::new();
        // what comes after the reset that begins its epoch, before the one that ends it
        let mut between = |node: Node, epoch: usize, wait: bool, own_reset: bool| {
            if let Some(first) = epoch.checked_sub(1).map(|e| uses.resets[e]) {
                let known = if wait {
                    // not by what the wait itself tells
                    let mut preds = graph.preds[node as usize].iter();
                    preds.any(|p| clocks.reaches(graph, first, *p))
                } else {
                    clocks.reaches(graph, first, node)
                };
                if !known {
                    let text = format!(
                        "nothing orders this use of {name} behind the one that takes it down"
                    );
                    found.push((vec![node, first], text));
                }
            }
            if let Some(&last) = uses.resets.get(epoch).filter(|_| !own_reset)
                && !clocks.reaches(graph, node, last)
            {
                let text =
                    format!("nothing orders this use of {name} before the one that takes it down");
                found.push((vec![node, last], text));
            }
        };
        for need in &uses.needs {
            between(need.node, need.epoch, true, need.consumes);
        }
        for (epoch, lines) in uses.raises.iter().enumerate() {
            for (node, _) in lines.values().flatten() {
                between(*node, epoch, false, false);
            }
        }
        for pair in uses.resets.windows(2) {
            if !clocks.reaches(graph, pair[0], pair[1]) {
                let text = format!("two instructions take {name} down and nothing orders them");
                found.push((vec![pair[1], pair[0]], text));
            }
        }
        if let SyncId::Semaphore(_) = name {
            let limit = u64::from(self.sk.semaphore_max);
            for (epoch, lines) in uses.raises.iter().enumerate() {
                let sum: u64 = lines.values().filter_map(|l| l.last()).map(|x| x.1).sum();
                let last = lines.values().filter_map(|l| l.last()).map(|x| x.0).max();
                let most = uses.base[epoch] + sum;
                if let (true, Some(last)) = (most > limit, last.or(uses.resets.last().copied())) {
                    found.push((vec![last], format!("{name} can be {most}, above {limit}")));
                }
            }
        }
        found
    }

    fn confluence(&mut self, clocks: &Clocks) {
        let mut found: Vec<(Premise, Vec<Node>, String)> = Vec::new();
        for (i, uses) in self.uses.iter().enumerate() {
            let id = self.name(i as Id);
            let premise = match id {
                SyncId::Event(_) => Premise::EventsConsumedOnce,
                SyncId::Semaphore(_) => Premise::CountersMonotone,
            };
            let open = self.disorder(clocks, i);
            found.extend(open.into_iter().map(|(nodes, text)| (premise, nodes, text)));
            for need in &uses.needs {
                let most = self.most(clocks, uses, need, None);
                if most < need.value {
                    let text =
                        format!("waits for {id} to be {}, which it cannot reach", need.value);
                    found.push((Premise::Completes, vec![need.node], text));
                }
                if need.exact && most > need.value {
                    let text = format!(
                        "{id} can pass {} before this wait looks at it: it can be {most} by then",
                        need.value
                    );
                    found.push((premise, vec![need.node], text));
                }
            }
        }
        for (premise, nodes, text) in found {
            self.fail(premise, &nodes, text);
        }
    }

    fn queues(&mut self, clocks: &Clocks) {
        let orders = self.graph.queue_orders.clone();
        for (a, b) in orders {
            let trigger = |j: u32| {
                let (s, k) = self.sk.jobs[j as usize].trigger;
                self.graph.run[usize::from(s)][k as usize]
            };
            let (first, second) = (trigger(a), trigger(b));
            if !clocks.reaches(&self.graph, first, second) {
                let queue = &self.sk.queues[usize::from(self.sk.jobs[a as usize].queue)];
                let text = format!("nothing orders the two instructions that ring queue {queue}");
                self.fail(Premise::QueuesInOrder, &[second, first], text);
            }
        }
    }

    fn races(&mut self, clocks: &Clocks) -> Vec<(u32, u32)> {
        let mut unordered = Vec::new();
        for (b, later) in self.sk.works.iter().enumerate() {
            for pair in super::part(&self.sk.pairs, &later.after) {
                let done = self.graph.done(self.sk, pair.earlier, pair.writes);
                let start = self.graph.start(self.sk, b as u32);
                if !clocks.reaches(&self.graph, done, start) {
                    unordered.push((pair.earlier, b as u32));
                }
            }
        }
        for &(a, b) in &unordered {
            let (first, second) = (&self.sk.works[a as usize], &self.sk.works[b as usize]);
            let meets = first.work.touched().iter().find_map(|x| {
                let hit = |y: &&crate::memory::Access| {
                    (x.kind.writes() || y.kind.writes()) && x.region.overlaps(&y.region)
                };
                second.work.touched().iter().find(hit)
            });
            let bytes = meets.map_or(String::new(), |y| format!(" at {}", y.region));
            self.failures.push(Failure {
                premise: Premise::RaceFree,
                places: vec![
                    (usize::from(second.stream), second.pc),
                    (usize::from(first.stream), first.pc),
                ],
                what: format!("two accesses{bytes} that nothing orders in every schedule"),
            });
        }
        let late = super::stagger::unguarded(self.sk, &self.graph, clocks);
        for (a, b) in late {
            let (first, second) = (&self.sk.works[a as usize], &self.sk.works[b as usize]);
            self.failures.push(Failure {
                premise: Premise::RaceFree,
                places: vec![
                    (usize::from(second.stream), second.pc),
                    (usize::from(first.stream), first.pc),
                ],
                what: "touches partitions that may still be in use, for they finish one after the \
                       other: no DMA barrier lies between"
                    .into(),
            });
        }
        unordered
    }
}

impl Proof {
    /// Whether every schedule gives the same result.
    pub fn holds(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether `a` comes before `b` in every schedule.
    pub fn ordered(&self, a: Node, b: Node) -> bool {
        self.clocks.reaches(&self.graph, a, b)
    }

    /// What a node of an edge is: for an update, itself.
    pub fn what(&self, node: Node) -> What {
        self.graph.nodes[node as usize]
    }
}

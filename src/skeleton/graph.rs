//! What happens in a run of the skeleton, without times: nodes, and the order among them that the
//! machine enforces in every schedule.
//!
//! Nodes: a step is let go (its waits hold), a step that drains is executed, a work starts, its
//! reads and its results are done, a job begins and ends, an update becomes visible. Nodes of one
//! kind and stream are in order and form a chain. What bounded queues between sequencer and data
//! path add to the order is left out: more schedules are considered than the machine can show.

use std::ops::Range;

use smallvec::SmallVec;

use super::{Action, Change, Cond, ENGINES, Id, LANES, SEQUENCER, Skeleton, part};

/// Index of a node.
pub type Node = u32;

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The step of a stream is let go.
    Go(u16, u32),
    /// A step that drains is executed.
    Run(u16, u32),
    /// A work starts.
    Start(u32),
    /// The reads of a work of an engine are done.
    Reads(u32),
    /// A work is done.
    Done(u32),
    /// A job begins.
    Begin(u32),
    /// A job is done.
    End(u32),
    /// An update becomes visible.
    Update(u32),
}

/// What a node does to an event or semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Waits for it.
    Wait(Cond),
    /// Changes it; `true` if only when it is not zero.
    Change(Change, bool),
}

/// The nodes of a skeleton.
pub struct Graph {
    /// What each node is.
    pub nodes: Vec<What>,
    /// Nodes that must come before, enforced by the machine.
    pub preds: Vec<SmallVec<[Node; 3]>>,
    /// Chain of each node, and its place in it.
    pub chain: Vec<(u32, u32)>,
    /// Number of chains.
    pub chains: usize,
    /// Events and semaphores that a node waits for or changes, in order.
    pub touches: Vec<SmallVec<[(Id, Touch); 2]>>,
    /// Node that lets a step go, by stream.
    pub go: [Vec<Node>; ENGINES],
    /// Node in which a step is executed: the same, unless it drains.
    pub run: [Vec<Node>; ENGINES],
    /// Nodes of each work: start, reads done, done.
    pub work: Vec<[Node; 3]>,
    /// Nodes of each job: begin and end.
    pub job: Vec<[Node; 2]>,
    /// Node of each update.
    pub update: Vec<Node>,
    /// Consecutive jobs of one queue that different streams ring for.
    pub queue_orders: Vec<(u32, u32)>,
}

impl Graph {
    /// The graph of `sk`.
    pub fn new(sk: &Skeleton) -> Graph {
        let mut g = Builder {
            graph: Graph {
                nodes: Vec::new(),
                preds: Vec::new(),
                chain: Vec::new(),
                chains: 0,
                touches: Vec::new(),
                go: Default::default(),
                run: Default::default(),
                work: vec![[0; 3]; sk.works.len()],
                job: vec![[0; 2]; sk.jobs.len()],
                update: vec![0; sk.updates.len()],
                queue_orders: Vec::new(),
            },
            last: Vec::new(),
            sk,
        };
        for s in 0..ENGINES {
            g.stream(s);
        }
        g.queues();
        g.graph.chains = g.last.len();
        g.graph
    }

    /// Node after which a work is known to be done, as far as `writes` or only reads matter.
    pub fn done(&self, sk: &Skeleton, work: u32, writes: bool) -> Node {
        let w = &sk.works[work as usize];
        if w.control {
            self.run[usize::from(w.stream)][w.step as usize]
        } else {
            self.work[work as usize][if writes { 2 } else { 1 }]
        }
    }

    /// Node at which a work begins to touch memory.
    pub fn start(&self, sk: &Skeleton, work: u32) -> Node {
        let w = &sk.works[work as usize];
        if w.control {
            self.run[usize::from(w.stream)][w.step as usize]
        } else {
            self.work[work as usize][0]
        }
    }

    /// Stream and word of a node, for reports.
    pub fn place(&self, sk: &Skeleton, node: Node) -> (usize, u32) {
        match self.nodes[node as usize] {
            What::Go(s, k) | What::Run(s, k) => {
                (usize::from(s), sk.steps[usize::from(s)][k as usize].pc)
            }
            What::Start(w) | What::Reads(w) | What::Done(w) => {
                let w = &sk.works[w as usize];
                (usize::from(w.stream), w.pc)
            }
            What::Begin(j) | What::End(j) => {
                let job = &sk.jobs[j as usize];
                (ENGINES + usize::from(job.queue), job.pc)
            }
            What::Update(u) => {
                let u = &sk.updates[u as usize];
                (usize::from(u.stream), u.pc)
            }
        }
    }
}

struct Builder<'a> {
    graph: Graph,
    /// Last node and length of each chain.
    last: Vec<(Option<Node>, u32)>,
    sk: &'a Skeleton,
}

impl Builder<'_> {
    fn chain(&mut self) -> usize {
        self.last.push((None, 0));
        self.last.len() - 1
    }

    fn chains<const N: usize>(&mut self) -> [usize; N] {
        std::array::from_fn(|_| self.chain())
    }

    fn node(&mut self, chain: usize, what: What, preds: &[Node]) -> Node {
        let node = self.graph.nodes.len() as Node;
        let (last, length) = self.last[chain];
        let mut all: SmallVec<[Node; 3]> = preds.iter().copied().collect();
        all.extend(last.filter(|l| !preds.contains(l)));
        self.last[chain] = (Some(node), length + 1);
        self.graph.nodes.push(what);
        self.graph.preds.push(all);
        self.graph.chain.push((chain as u32, length));
        self.graph.touches.push(SmallVec::new());
        node
    }

    fn updates(&mut self, updates: Range<u32>, lanes: &[usize; LANES], after: impl Fn(u8) -> Node) {
        for late in [false, true] {
            for u in updates.clone() {
                let update = self.sk.updates[u as usize];
                if update.late != late {
                    continue;
                }
                let chain = lanes[usize::from(update.lane)];
                let node = self.node(chain, What::Update(u), &[after(update.lane)]);
                let touch = Touch::Change(update.change, false);
                self.graph.touches[node as usize].push((update.id, touch));
                self.graph.update[u as usize] = node;
            }
        }
    }

    fn stream(&mut self, s: usize) {
        let sk = self.sk;
        if sk.steps[s].is_empty() {
            return;
        }
        let [go, start, reads, done] = self.chains();
        let lanes = self.chains::<LANES>();
        for (k, step) in sk.steps[s].iter().enumerate() {
            let k32 = k as u32;
            let here = self.node(go, What::Go(s as u16, k32), &[]);
            for w in part(&sk.waits, &step.waits) {
                self.graph.touches[here as usize].push((w.id, Touch::Wait(w.cond)));
            }
            self.graph.go[s].push(here);
            let mut run = here;
            match &step.action {
                Action::Label => {}
                Action::Work(w) => {
                    let a = self.node(start, What::Start(*w), &[here]);
                    let b = self.node(reads, What::Reads(*w), &[a]);
                    let c = self.node(done, What::Done(*w), &[b]);
                    self.graph.work[*w as usize] = [a, b, c];
                    self.updates(step.updates.clone(), &lanes, |lane| {
                        if lane == super::READS { b } else { c }
                    });
                }
                Action::Control { drains, instants, rings, .. } => {
                    if *drains {
                        let older = self.last[done].0;
                        let preds: SmallVec<[Node; 2]> =
                            std::iter::once(here).chain(older).collect();
                        run = self.node(go, What::Run(s as u16, k32), &preds);
                    }
                    for i in part(&sk.instants, instants) {
                        let touch = Touch::Change(i.change, i.unless_zero);
                        self.graph.touches[run as usize].push((i.id, touch));
                    }
                    if let Some((job, _)) = rings {
                        // its predecessors in the queue are added with the queue
                        self.graph.job[*job as usize][0] = run;
                    }
                    self.updates(step.updates.clone(), &lanes, |lane| {
                        debug_assert_eq!(lane, SEQUENCER);
                        run
                    });
                }
            }
            self.graph.run[s].push(run);
        }
    }

    fn queues(&mut self) {
        let sk = self.sk;
        for q in 0..sk.queues.len() {
            let [chain] = self.chains();
            let lanes = self.chains::<LANES>();
            let mut before: Option<u32> = None;
            for (j, job) in sk.jobs.iter().enumerate() {
                if usize::from(job.queue) != q {
                    continue;
                }
                let j = j as u32;
                let trigger = self.graph.job[j as usize][0];
                let begin = self.node(chain, What::Begin(j), &[trigger]);
                for w in job.transfers.clone() {
                    let a = self.node(chain, What::Start(w), &[]);
                    let c = self.node(chain, What::Done(w), &[]);
                    self.graph.work[w as usize] = [a, c, c];
                }
                let end = self.node(chain, What::End(j), &[]);
                self.graph.job[j as usize] = [begin, end];
                self.updates(job.updates.clone(), &lanes, |_| end);
                if let Some(b) = before
                    && sk.jobs[b as usize].trigger.0 != job.trigger.0
                {
                    self.graph.queue_orders.push((b, j));
                }
                before = Some(j);
            }
        }
    }
}

/// Knowledge of what comes before each node, as one number per chain.
pub struct Clocks {
    chains: usize,
    known: Vec<u32>,
}

impl Clocks {
    /// The order that `graph` and the `edges` (earlier, later) make, with the nodes in `order`.
    pub fn new(graph: &Graph, edges: &[SmallVec<[Node; 2]>], order: &[Node]) -> Clocks {
        let chains = graph.chains;
        let mut known = vec![0u32; chains * graph.nodes.len()];
        let mut own = vec![0u32; chains];
        for &node in order {
            own.fill(0);
            let n = node as usize;
            for &p in graph.preds[n].iter().chain(&edges[n]) {
                let from = &known[p as usize * chains..(p as usize + 1) * chains];
                for (a, b) in own.iter_mut().zip(from) {
                    *a = (*a).max(*b);
                }
            }
            let (chain, place) = graph.chain[n];
            own[chain as usize] = place + 1;
            known[n * chains..(n + 1) * chains].copy_from_slice(&own);
        }
        Clocks { chains, known }
    }

    /// Whether `a` is `b` or comes before it.
    pub fn reaches(&self, graph: &Graph, a: Node, b: Node) -> bool {
        let (chain, place) = graph.chain[a as usize];
        self.known[b as usize * self.chains + chain as usize] > place
    }
}

//! All schedules of a skeleton, one of each equivalence class.
//!
//! A complete order of all nodes is a schedule without times. Two orders are equivalent if one
//! becomes the other by swapping neighbours that do not depend on each other: both are possible in
//! either order and lead to the same state. Persistent sets (strong stubborn sets) choose what is
//! tried in a state, sleep sets keep a class from being tried twice (P. Godefroid, Partial-Order
//! Methods for the Verification of Concurrent Systems, chapters 4 and 5). What the proof search
//! knows to come first in every schedule is not tried the other way round; a program that is proved
//! has one class.
//!
//! Dependent are: uses of one event or semaphore of which one can change what the other sees or
//! leaves, and the start of a work and the end of another that touch the same bytes without a
//! guaranteed order.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::graph::{Graph, Node, Touch};
use super::prove::Proof;
use super::{Change, Cond, Id, Skeleton, conflicts};
use crate::sync::SyncId;

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Complete orders.
    pub classes: u64,
    /// Nodes executed in all.
    pub moves: u64,
}

impl Default for Bound {
    fn default() -> Self {
        Bound { classes: 100_000, moves: 50_000_000 }
    }
}

/// What an order shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing can go on and something is left.
    Deadlock,
    /// The second work starts before the first is done.
    Race(u32, u32),
    /// The event is set while it is set.
    Lost(Id),
    /// The semaphore leaves its range.
    Wrap(Id),
}

/// Outcome of the search.
#[derive(Debug)]
pub struct Classes {
    /// Classes found.
    pub classes: u64,
    /// Those that end in a deadlock.
    pub deadlocks: u64,
    /// Nodes executed.
    pub moves: u64,
    /// Whether these are all.
    pub complete: bool,
    /// Each fault once, with the first order that shows it.
    pub faults: Vec<(Fault, Vec<Node>)>,
}

/// A work pair without a guaranteed order.
#[derive(Clone, Copy)]
struct Clash {
    first: u32,
    second: u32,
    first_done: Node,
    second_start: Node,
}

struct Search<'a> {
    graph: &'a Graph,
    next: Vec<SmallVec<[Node; 3]>>,
    /// Nodes that may depend on a node and are not known to come before or after it.
    dependents: Vec<SmallVec<[Node; 4]>>,
    /// Memory conflicts only: pairs that depend on each other in every state.
    clashing: FxHashSet<(Node, Node)>,
    clashes: Vec<Vec<Clash>>,
    changers: Vec<Vec<Node>>,
    is_event: Vec<bool>,
    modulus: u64,
    interrupt: &'a std::sync::atomic::AtomicBool,
}

#[derive(Clone)]
struct State {
    missing: Vec<u8>,
    fired: Vec<bool>,
    /// Nodes whose predecessors are all executed and that are not.
    ready: Vec<Node>,
    values: Vec<u32>,
}

/// One state on the way, with what is left to try in it.
struct Level {
    state: State,
    sleep: Vec<Node>,
    todo: Vec<Node>,
}

/// Looks at one order of each class of `sk`, as far as `bound` allows.
pub fn explore(
    sk: &Skeleton,
    proof: &Proof,
    bound: Bound,
    interrupt: &std::sync::atomic::AtomicBool,
) -> Classes {
    let search = Search::new(sk, proof, interrupt);
    search.run(bound)
}

/// Works of different lines that touch the same bytes and that nothing orders.
pub fn unordered(sk: &Skeleton, proof: &Proof) -> Vec<(u32, u32)> {
    if proof.unordered.is_empty() {
        return Vec::new();
    }
    let mut by_order: Vec<u32> = (0..sk.works.len() as u32).collect();
    by_order.sort_unstable_by_key(|w| sk.works[*w as usize].order);
    let mut all = Vec::new();
    for (k, &b) in by_order.iter().enumerate() {
        for &a in &by_order[..k] {
            let (first, second) = (&sk.works[a as usize], &sk.works[b as usize]);
            if !conflicts::apart(first, second) || !first.work.judged || !second.work.judged {
                continue;
            }
            let (write, read) = conflicts::clash(first, second);
            if !(write || read) {
                continue;
            }
            let done = proof.graph.done(sk, a, write);
            if !proof.ordered(done, proof.graph.start(sk, b)) {
                all.push((a, b));
            }
        }
    }
    all
}

/// Whether two uses of one event or semaphore can depend on each other in a state in which both are
/// possible. A semaphore that wraps can fall by an increment.
fn may_depend(a: &Touch, b: &Touch, wraps: bool) -> bool {
    use Touch::{Change as C, Wait as W};
    let grows = |t: &Touch| matches!(t, C(Change::Add(_), _));
    let lasts = |t: &Touch| matches!(t, W(Cond::AtLeast(_)));
    let looks = |t: &Touch| matches!(t, W(c) if c.leaves().is_none());
    let sets = |t: &Touch| matches!(t, C(Change::Write(1), false));
    let set_wait = |t: &Touch| matches!(t, W(Cond::Set(false)));
    let pair =
        |f: &dyn Fn(&Touch) -> bool, g: &dyn Fn(&Touch) -> bool| f(a) && g(b) || f(b) && g(a);
    !(looks(a) && looks(b)
        || grows(a) && grows(b)
        || pair(&grows, &lasts) && !wraps
        || pair(&sets, &set_wait))
}

impl<'a> Search<'a> {
    fn new(
        sk: &'a Skeleton,
        proof: &'a Proof,
        interrupt: &'a std::sync::atomic::AtomicBool,
    ) -> Self {
        let graph = &proof.graph;
        let n = graph.nodes.len();
        let mut next = vec![SmallVec::new(); n];
        for (node, preds) in graph.preds.iter().enumerate() {
            preds.iter().for_each(|p| next[*p as usize].push(node as Node));
        }
        let mut users: Vec<Vec<(Node, Touch)>> = vec![Vec::new(); sk.ids.len()];
        let mut changers = vec![Vec::new(); sk.ids.len()];
        for (node, touches) in graph.touches.iter().enumerate() {
            for (id, touch) in touches {
                users[usize::from(*id)].push((node as Node, *touch));
                let changes = match touch {
                    Touch::Wait(cond) => cond.leaves().is_some(),
                    Touch::Change(..) => true,
                };
                if changes {
                    changers[usize::from(*id)].push(node as Node);
                }
            }
        }
        let mut dependents: Vec<SmallVec<[Node; 4]>> = vec![SmallVec::new(); n];
        let free = |a: Node, b: Node| !proof.ordered(a, b) && !proof.ordered(b, a);
        for (list, wraps) in users.iter().zip(&proof.improper) {
            for (k, (a, x)) in list.iter().enumerate() {
                for (b, y) in &list[..k] {
                    if may_depend(x, y, *wraps) && free(*a, *b) {
                        dependents[*a as usize].push(*b);
                        dependents[*b as usize].push(*a);
                    }
                }
            }
        }
        let mut clashing = FxHashSet::default();
        let mut clashes: Vec<Vec<Clash>> = vec![Vec::new(); n];
        for (a, b) in unordered(sk, proof) {
            let (write, _) = conflicts::clash(&sk.works[a as usize], &sk.works[b as usize]);
            let (back, _) = conflicts::clash(&sk.works[b as usize], &sk.works[a as usize]);
            let first_done = graph.done(sk, a, write);
            let second_start = graph.start(sk, b);
            let clash = Clash { first: a, second: b, first_done, second_start };
            clashes[second_start as usize].push(clash);
            let pairs = [(first_done, second_start), (graph.done(sk, b, back), graph.start(sk, a))];
            for (x, y) in pairs {
                if free(x, y) && x != y && clashing.insert((x.min(y), x.max(y))) {
                    dependents[x as usize].push(y);
                    dependents[y as usize].push(x);
                }
            }
        }
        Search {
            graph,
            next,
            dependents,
            clashing,
            clashes,
            changers,
            is_event: sk.ids.iter().map(|id| matches!(id, SyncId::Event(_))).collect(),
            modulus: u64::from(sk.semaphore_max) + 1,
            interrupt,
        }
    }

    fn start(&self) -> State {
        let missing: Vec<u8> = self.graph.preds.iter().map(|p| p.len() as u8).collect();
        let ready = (0..missing.len() as Node).filter(|n| missing[*n as usize] == 0).collect();
        State {
            fired: vec![false; missing.len()],
            missing,
            ready,
            values: vec![0; self.is_event.len()],
        }
    }

    fn enabled(&self, values: &[u32], node: Node) -> bool {
        self.graph.touches[node as usize].iter().all(|(id, touch)| match touch {
            Touch::Wait(cond) => cond.holds(values[usize::from(*id)]),
            Touch::Change(..) => true,
        })
    }

    /// Changes the values as `node` does; says what is wrong with that.
    fn touch(&self, values: &mut [u32], node: Node) -> Option<Fault> {
        let mut fault = None;
        for (id, touch) in &self.graph.touches[node as usize] {
            let value = &mut values[usize::from(*id)];
            let old = u64::from(*value);
            let new = match *touch {
                Touch::Wait(cond) => cond.leaves().map_or(old, u64::from),
                Touch::Change(Change::Write(n), _) => {
                    if self.is_event[usize::from(*id)] && old != 0 && n != 0 {
                        fault = Some(Fault::Lost(*id));
                    }
                    u64::from(n) % self.modulus
                }
                Touch::Change(Change::Add(n), _) => {
                    if old + u64::from(n) >= self.modulus {
                        fault = Some(Fault::Wrap(*id));
                    }
                    (old + u64::from(n)) % self.modulus
                }
                Touch::Change(Change::Sub(n), _) => {
                    if u64::from(n) > old {
                        fault = Some(Fault::Wrap(*id));
                    }
                    (old + self.modulus - u64::from(n) % self.modulus) % self.modulus
                }
            };
            *value = new as u32;
        }
        fault
    }

    /// Whether the order of two possible nodes matters in a state with these values.
    fn dependent(&self, values: &[u32], a: Node, b: Node) -> bool {
        if self.clashing.contains(&(a.min(b), a.max(b))) {
            return true;
        }
        let (x, y) = (&self.graph.touches[a as usize], &self.graph.touches[b as usize]);
        if !x.iter().any(|(id, _)| y.iter().any(|(other, _)| other == id)) {
            return false;
        }
        let after = |first: Node, second: Node| {
            let mut v = values.to_vec();
            self.touch(&mut v, first);
            self.enabled(&v, second).then(|| {
                self.touch(&mut v, second);
                v
            })
        };
        match (after(a, b), after(b, a)) {
            (Some(p), Some(q)) => p != q,
            _ => true,
        }
    }

    fn fire(&self, state: &mut State, node: Node) -> SmallVec<[Fault; 2]> {
        let mut faults: SmallVec<[Fault; 2]> = SmallVec::new();
        for clash in &self.clashes[node as usize] {
            if !state.fired[clash.first_done as usize] {
                debug_assert_eq!(clash.second_start, node);
                faults.push(Fault::Race(clash.first, clash.second));
            }
        }
        faults.extend(self.touch(&mut state.values, node));
        state.fired[node as usize] = true;
        state.ready.retain(|n| *n != node);
        for &n in &self.next[node as usize] {
            state.missing[n as usize] -= 1;
            if state.missing[n as usize] == 0 {
                state.ready.push(n);
            }
        }
        faults
    }

    /// The possible nodes of a strong stubborn set, the smallest that some node begins.
    fn persistent(&self, state: &State, enabled: &[Node]) -> Vec<Node> {
        let mut best: Option<Vec<Node>> = None;
        for &seed in enabled {
            let set = self.closure(state, seed, best.as_ref().map_or(usize::MAX, Vec::len));
            if let Some(set) = set {
                if set.len() == 1 {
                    return set;
                }
                best = Some(set);
            }
        }
        best.unwrap_or_else(|| enabled.to_vec())
    }

    fn closure(&self, state: &State, seed: Node, below: usize) -> Option<Vec<Node>> {
        let mut seen: FxHashSet<Node> = FxHashSet::default();
        let mut open = vec![seed];
        let mut possible = Vec::new();
        seen.insert(seed);
        while let Some(node) = open.pop() {
            let mut add = |n: Node, open: &mut Vec<Node>| {
                if !state.fired[n as usize] && seen.insert(n) {
                    open.push(n);
                }
            };
            if state.missing[node as usize] > 0 {
                // some predecessor that is not executed must come first
                let preds = &self.graph.preds[node as usize];
                if let Some(p) = preds.iter().find(|p| !state.fired[**p as usize]) {
                    add(*p, &mut open);
                }
                continue;
            }
            let unmet = self.graph.touches[node as usize].iter().find(|(id, touch)| match touch {
                Touch::Wait(cond) => !cond.holds(state.values[usize::from(*id)]),
                Touch::Change(..) => false,
            });
            if let Some((id, _)) = unmet {
                for &n in self.changers[usize::from(*id)].iter().filter(|n| **n != node) {
                    add(n, &mut open);
                }
                continue;
            }
            possible.push(node);
            if possible.len() >= below {
                return None;
            }
            for &n in &self.dependents[node as usize] {
                add(n, &mut open);
            }
        }
        Some(possible)
    }

    fn level(&self, state: State, sleep: Vec<Node>) -> Level {
        let enabled: Vec<Node> =
            state.ready.iter().copied().filter(|n| self.enabled(&state.values, *n)).collect();
        let mut todo = self.persistent(&state, &enabled);
        todo.retain(|n| !sleep.contains(n));
        // taken from the end
        todo.sort_unstable_by(|a, b| b.cmp(a));
        Level { state, sleep, todo }
    }

    fn run(&self, bound: Bound) -> Classes {
        let n = self.graph.nodes.len();
        let mut out =
            Classes { classes: 0, deadlocks: 0, moves: 0, complete: true, faults: Vec::new() };
        let mut known: FxHashSet<Fault> = FxHashSet::default();
        let mut path: Vec<Node> = Vec::new();
        let mut levels = vec![self.level(self.start(), Vec::new())];
        let mut ended = false;
        while let Some(level) = levels.last_mut() {
            if !ended && path.len() == n {
                out.classes += 1;
            } else if !ended && level.todo.is_empty() && level.sleep.is_empty() {
                out.classes += 1;
                out.deadlocks += 1;
                if known.insert(Fault::Deadlock) {
                    out.faults.push((Fault::Deadlock, path.clone()));
                }
            }
            let Some(node) = level.todo.pop() else {
                levels.pop();
                path.pop();
                ended = true;
                continue;
            };
            if out.classes >= bound.classes
                || out.moves >= bound.moves
                || out.moves.is_multiple_of(1024)
                    && self.interrupt.load(std::sync::atomic::Ordering::Relaxed)
            {
                out.complete = false;
                break;
            }
            let values = &level.state.values;
            let sleep: Vec<Node> =
                level.sleep.iter().copied().filter(|s| !self.dependent(values, *s, node)).collect();
            // with nothing else to try, the state is not needed again
            let last = level.todo.is_empty();
            let mut state = if last {
                std::mem::replace(
                    &mut level.state,
                    State { missing: vec![], fired: vec![], ready: vec![], values: vec![] },
                )
            } else {
                level.sleep.push(node);
                level.state.clone()
            };
            out.moves += 1;
            let faults = self.fire(&mut state, node);
            path.push(node);
            for fault in faults {
                if known.insert(fault) {
                    out.faults.push((fault, path.clone()));
                }
            }
            ended = false;
            let level = self.level(state, sleep);
            levels.push(level);
        }
        out
    }
}

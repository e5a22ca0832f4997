//! Delays that make the machine follow a chosen order as far as delays can.
//!
//! Each node of the order gets a time of its own, far from the others. Where the machine can be
//! delayed (before a word, before a work, before a job, before an update), it is delayed until then.
//! The durations of works cannot be stretched, so an order may turn out to be impossible.

use rustc_hash::FxHashMap;

use super::exec::{Delay, Executor};
use super::graph::{Graph, Node, What};
use super::{ENGINES, Skeleton};
use crate::explore::Delays;
use crate::explore::schedule::Site;
use crate::machine::Point;

struct Directed {
    targets: FxHashMap<Site, u64>,
    given: FxHashMap<Site, u64>,
}

impl Delay for Directed {
    fn delay(&mut self, stream: usize, index: u64, point: Point, at: u64) -> u64 {
        let site = Site { stream, index, point: point.into() };
        let Some(target) = self.targets.get(&site) else { return 0 };
        // the machine asks once for each update of an instruction and gets one answer
        *self.given.entry(site).or_insert(target.saturating_sub(at))
    }
}

/// Where the machine can be delayed before `node`.
fn site(sk: &Skeleton, graph: &Graph, node: Node) -> Option<Site> {
    let (stream, index, point) = match graph.nodes[node as usize] {
        What::Go(s, k) => (usize::from(s), u64::from(k), Point::Fetch),
        What::Start(w) => {
            let work = &sk.works[w as usize];
            if usize::from(work.stream) >= ENGINES {
                return None;
            }
            (usize::from(work.stream), u64::from(work.step), Point::Issue)
        }
        What::Begin(j) => {
            let job = &sk.jobs[j as usize];
            let first = sk.works.get(job.transfers.start as usize)?;
            (ENGINES + usize::from(job.queue), u64::from(first.number), Point::DmaStart)
        }
        What::Update(u) => {
            let update = &sk.updates[u as usize];
            let stream = usize::from(update.stream);
            let index = if stream < ENGINES {
                u64::from(update.step)
            } else {
                let last = sk.jobs[update.step as usize].transfers.end.checked_sub(1)?;
                u64::from(sk.works[last as usize].number)
            };
            (stream, index, Point::Completion)
        }
        What::Run(..) | What::Reads(_) | What::Done(_) | What::End(_) => return None,
    };
    Some(Site { stream, index, point: point.into() })
}

/// The delays that put the nodes of `order` into their order.
pub fn delays(sk: &Skeleton, graph: &Graph, order: &[Node]) -> Delays {
    let spacing = sk.ticks / 4 + 64;
    let mut directed = Directed { targets: FxHashMap::default(), given: FxHashMap::default() };
    for (k, node) in order.iter().enumerate() {
        if let Some(site) = site(sk, graph, *node) {
            directed.targets.entry(site).or_insert((k as u64 + 1) * spacing);
        }
    }
    // what the order does not reach comes after it
    let late = (order.len() as u64 + 2) * spacing;
    for node in 0..graph.nodes.len() as Node {
        if let Some(site) = site(sk, graph, node) {
            directed.targets.entry(site).or_insert(late);
        }
    }
    Executor::new(sk).run(&mut directed, &mut ());
    directed.given.into_iter().filter(|(_, ticks)| *ticks > 0).collect()
}

/// Variants of an order in which `late` and what follows it come as late as possible.
pub fn postponed(graph: &Graph, order: &[Node], late: Node) -> Vec<Node> {
    let mut behind = vec![false; graph.nodes.len()];
    behind[late as usize] = true;
    let mut first = Vec::new();
    let mut rest = Vec::new();
    for &node in order {
        let n = node as usize;
        behind[n] |= graph.preds[n].iter().any(|p| behind[*p as usize]);
        if behind[n] { rest.push(node) } else { first.push(node) }
    }
    first.extend(rest);
    first
}

//! From an order that shows something wrong to a run of the machine that shows it.

use super::classes::Fault;
use super::direct::{delays, postponed};
use super::extract::place;
use super::graph::Node;
use super::prove::Proof;
use super::{Skeleton, classes};
use crate::error::{Error, Location, Result};
use crate::explore::{Delays, Schedule, Subject, Trial};
use crate::machine::Machine;

/// Tries to show `fault` on the machine; `order` is the one that shows it on the skeleton.
///
/// # Errors
/// The machine cannot be started.
pub fn confirm(
    sk: &Skeleton,
    proof: &Proof,
    subject: &Subject,
    undisturbed: &Trial,
    (fault, order): &(Fault, Vec<Node>),
) -> Result<Option<(Delays, Error)>> {
    let graph = &proof.graph;
    let mut tries: Vec<Vec<Node>> = Vec::new();
    if let classes::Fault::Race(first, _) = fault {
        let work = &sk.works[*first as usize];
        tries.push(postponed(graph, order, graph.start(sk, *first)));
        if let Some(go) = graph.go.get(usize::from(work.stream)) {
            tries.push(postponed(graph, order, go[work.step as usize]));
        }
    }
    tries.push(order.clone());
    for order in tries {
        let delays = delays(sk, graph, &order);
        let trial = subject.run(|| Schedule::listed(delays.clone()))?;
        if let Some(error) = subject.judge(&trial, undisturbed) {
            return Ok(Some((delays, error)));
        }
    }
    Ok(None)
}

/// A fault in words.
pub fn describe(sk: &Skeleton, machine: &Machine, fault: Fault) -> String {
    let at = |w: u32| {
        let work = &sk.works[w as usize];
        let at = machine.location(usize::from(work.stream), work.pc as usize);
        place(&Location { cycle: None, ..at }).trim_end_matches(": ").to_string()
    };
    match fault {
        Fault::Deadlock => "a deadlock".into(),
        Fault::Race(a, b) => format!("{} starts before {} is done", at(b), at(a)),
        Fault::Lost(id) => format!("{} is set while it is set", sk.ids[usize::from(id)]),
        Fault::Wrap(id) => format!("{} leaves its range", sk.ids[usize::from(id)]),
    }
}

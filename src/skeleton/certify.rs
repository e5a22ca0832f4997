//! From a proof to a certificate.

use std::path::Path;

use super::graph::{Node, Touch, What};
use super::prove::{Premise, Proof};
use super::{Action, Change, ENGINES, Skeleton, part};
use crate::certificate::decode::loads_libraries;
use crate::certificate::{
    Certificate, Edge, FORMAT, PremiseText, QueueOrder, Source, StreamLength, VERSION, hash,
};
use crate::program::Program;

/// What is proved.
const STATEMENT: &str = "every schedule of this program comes to its end, executes the same \
     instructions and leaves the same data, whatever the data are";

/// What is proved of a program that runs library code: where that reads and writes, data may decide.
const STATEMENT_OF_LIBRARIES: &str = "every schedule of this program comes to its end, executes \
     the same instructions and leaves the same data, from the data that the program begins with";

/// The certificate of `proof`, which holds.
pub fn certify(sk: &Skeleton, proof: &Proof, program: &Program, path: &Path) -> Certificate {
    let names = |s: usize| sk.stream_name(s);
    let streams = (0..ENGINES)
        .map(|s| StreamLength { name: names(s), steps: sk.steps[s].len() as u32 })
        .collect();
    let queues = sk.queues.iter().enumerate().map(|(q, name)| {
        let mine = sk.jobs.iter().filter(|j| usize::from(j.queue) == q);
        let jobs = mine.map(|j| (names(usize::from(j.trigger.0)), j.trigger.1)).collect();
        QueueOrder { name: name.clone(), jobs }
    });
    let edges = proof.edges.iter().filter_map(|&(from, to)| {
        let What::Go(s, k) = proof.what(to) else { return None };
        let from = source(sk, proof, from)?;
        Some(Edge { from, to: (names(usize::from(s)), k) })
    });
    let premises = Premise::ALL
        .map(|p| PremiseText { name: p.name().into(), text: p.describe().into() })
        .to_vec();
    let statement = match loads_libraries(program) {
        true => STATEMENT_OF_LIBRARIES,
        false => STATEMENT,
    };
    Certificate {
        format: FORMAT.into(),
        version: VERSION,
        path: path.to_path_buf(),
        program: hash(program, &sk.config),
        statement: statement.into(),
        premises,
        streams,
        queues: queues.collect(),
        edges: edges.collect(),
    }
}

fn source(sk: &Skeleton, proof: &Proof, node: Node) -> Option<Source> {
    match proof.what(node) {
        What::Update(u) => {
            let update = &sk.updates[u as usize];
            let s = usize::from(update.stream);
            if s < ENGINES {
                let first = sk.steps[s][update.step as usize].updates.start;
                return Some(Source::Update(sk.stream_name(s), update.step, u - first));
            }
            let job = &sk.jobs[update.step as usize];
            let older = sk.jobs[..update.step as usize].iter();
            let number = older.filter(|j| j.queue == job.queue).count() as u32;
            let name = sk.queues[usize::from(job.queue)].clone();
            Some(Source::Job(name, number, u - job.updates.start))
        }
        What::Go(s, k) | What::Run(s, k) => {
            let step = &sk.steps[usize::from(s)][k as usize];
            let Action::Control { instants, .. } = &step.action else { return None };
            let raises = |i: &super::Instant| {
                matches!(i.change, Change::Add(_) | Change::Write(1..)) && !i.unless_zero
            };
            let n = part(&sk.instants, instants).iter().position(raises)?;
            debug_assert!(
                proof.graph.touches[node as usize]
                    .iter()
                    .any(|(_, t)| matches!(t, Touch::Change(..)))
            );
            Some(Source::Instant(sk.stream_name(usize::from(s)), k, n as u32))
        }
        _ => None,
    }
}

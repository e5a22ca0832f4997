//! V1: DMA jobs that may touch a partition before an engine is done with it.
//!
//! The counterpart of [`crate::check::stagger`] for all schedules: a work's partitions finish one
//! after the other and its signals are sent with the first, so between the work and a DMA transfer
//! that touches later partitions there must be a DMA barrier that comes after the one, by the order
//! that every schedule keeps or in the stream of the work itself, and before the other. (wiki:
//! collectives/ops/core-barrier 7)

use super::graph::{Clocks, Graph};
use super::{ENGINES, Skeleton};
use crate::memory::Space;

/// Pairs (engine's work, transfer) without such a barrier; none on later generations.
pub fn unguarded(sk: &Skeleton, graph: &Graph, clocks: &Clocks) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    if !sk.staggered {
        return found;
    }
    for (b, transfer) in sk.works.iter().enumerate() {
        if usize::from(transfer.stream) < ENGINES {
            continue;
        }
        let start = graph.start(sk, b as u32);
        for (a, work) in sk.works.iter().enumerate() {
            if usize::from(work.stream) >= ENGINES || work.control {
                continue;
            }
            let meets = work.work.touched().iter().find(|x| {
                let rest = x.region.first + 1;
                x.region.space == Space::Sbuf
                    && x.region.count > 1
                    && transfer.work.touched().iter().any(|y| {
                        (x.kind.writes() || y.kind.writes())
                            && y.region.first + y.region.count > rest
                            && x.region.overlaps(&y.region)
                    })
            });
            let Some(access) = meets else { continue };
            let done = graph.done(sk, a as u32, access.kind.writes());
            if !clocks.reaches(graph, done, start) {
                continue;
            }
            let guarded = sk.barriers.iter().any(|&(s, k)| {
                let (go, run) = (&graph.go[usize::from(s)], &graph.run[usize::from(s)]);
                let (Some(&go), Some(&run)) = (go.get(k as usize), run.get(k as usize)) else {
                    return false;
                };
                let after = work.stream == s && work.step < k || clocks.reaches(graph, done, go);
                after && clocks.reaches(graph, run, start)
            });
            if !guarded {
                found.push((a as u32, b as u32));
            }
        }
    }
    found
}

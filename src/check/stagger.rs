//! V1: the partitions of an instruction finish one after the other.
//!
//! The signal that an instruction has read, or is complete, is sent when its first partition is.
//! Engines read with the same skew and are safe; a DMA is not, unless a DMA barrier (a stall long
//! enough for the last partition) lies between the signal and the doorbell. (wiki:
//! collectives/ops/core-barrier 7; sync-barrier 6.2)
//!
//! A DMA job knows all partitions of a work to be done if, before the job, a stream executed a
//! barrier and knew by then that the work's first partition was done; the works that the stream of
//! the barrier itself had let go before it count as known, for the barrier stands in their order.
//! Only works of data paths on SBUF are staggered. Not seen: what is only ordered by branches.

use rustc_hash::FxHashMap;

use super::board::{Board, Conflict, Stamp};
use super::clock::Clock;
use super::guarantee::Guarantees;
use super::log::{Got, Log};
use crate::machine::run::ENGINE_STREAMS;
use crate::memory::Space;

/// DMA transfers that touch partitions of which nothing says that an engine is done with them, in
/// the order of the run. `control` says whether a word is executed by the sequencer.
pub fn conflicts(
    log: &Log,
    guarantees: &Guarantees<'_>,
    control: impl Fn(usize, u32) -> bool,
) -> Vec<Conflict> {
    let streams = log.places.len();
    // what each barrier makes known to whoever comes after it
    let barriers: Vec<(usize, u32, Clock)> = log
        .barriers
        .iter()
        .map(|&(stream, place)| {
            let mut clock = guarantees.known(stream, place).clock;
            clock.learn_results(stream, log.works_until(stream, place));
            (stream, place, clock)
        })
        .collect();
    let jobs: FxHashMap<(usize, u32), (usize, u32)> = log
        .acquires
        .iter()
        .filter_map(|a| match a.got {
            Got::Job(stream, place) => Some(((a.stream, a.place), (stream, place))),
            _ => None,
        })
        .collect();
    let mut board = Board::new();
    let mut found: Vec<Conflict> = Vec::new();
    for w in &log.works {
        let Some(&place) = log.places[w.stream].get(w.work as usize - 1) else { continue };
        let dma = w.stream >= ENGINE_STREAMS;
        let stamp = Stamp {
            stream: w.stream,
            work: w.work,
            ticket: 0,
            pc: w.pc,
            tick: w.tick,
            judged: w.footprint.judged && (dma || !control(w.stream, w.pc)),
        };
        let clock = dma.then(|| {
            let passed = guarantees.known(w.stream, place).passed;
            let mut whole = Clock::new(streams);
            for (stream, at, clock) in &barriers {
                // a doorbell rings while its instruction is let go: what comes before has passed
                let rung = jobs.get(&(w.stream, place)).is_some_and(|(s, p)| s == stream && p > at);
                if rung || passed[*stream] > *at {
                    whole.join(clock);
                }
            }
            whole
        });
        board.enter(
            stamp,
            w.footprint.touched(),
            clock.as_ref(),
            |_| {},
            |c| {
                let first = c.earlier.2.first;
                let beyond = c.later.2.first + c.later.2.count > first + 1;
                let staggered = c.earlier.0.stream < ENGINE_STREAMS
                    && c.earlier.2.space == Space::Sbuf
                    && c.earlier.2.count > 1;
                if staggered && beyond {
                    found.push(c);
                }
            },
        );
    }
    found
}

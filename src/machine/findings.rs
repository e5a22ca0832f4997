//! What a run found: hazards after its end, deadlock, and names for reports.

use std::sync::Arc;

use super::image::{Image, Kind};
use super::options::{Involved, Races};
use super::run::{ENGINE_STREAMS, Machine};
use super::stream::RunState;
use crate::check::Conflict;
use crate::check::guarantee::{Finding, window};
use crate::check::log::Log;
use crate::error::{Error, ErrorClass};
use crate::isa::{Engine, Generation};

/// Whether the sequencer executes word `pc` of stream `s`.
fn by_sequencer(image: &Image, s: usize, pc: u32) -> bool {
    let word = image.words.get(s).map(|words| words.get(pc as usize));
    word.is_some_and(|w| w.is_none_or(|w| !matches!(w.kind, Kind::Data(_) | Kind::Refuse(_))))
}

impl Machine {
    /// Settles the older part of the log, which is as long as it may become.
    #[cold]
    pub(super) fn settle(&mut self) {
        let Some(log) = &mut self.log else { return };
        let engines = self.streams.iter().map(|s| s.state == RunState::Done);
        let ended = engines.chain(self.queues.iter().map(|_| false)).collect();
        let image = &self.image;
        window::advance(log, |s, pc| by_sequencer(image, s, pc), ended);
    }

    /// Looks at the finished run for what another schedule would have shown. Returns remarks.
    pub(super) fn conclude(&mut self) -> Vec<String> {
        let Some(log) = self.log.take() else { return Vec::new() };
        if log.gave_up() {
            // what the beginning shows is true of the whole: a program that ends there waits and
            // signals no less
            self.notes.push(format!(
                "the run was too long for the analysis of all schedules: it covers the first {} \
                 waits, updates and works, and races of this run are found up to its end",
                log.len()
            ));
        }
        self.notes.extend(log.behind.iter().flat_map(|b| b.limits()));
        let guarantees = crate::check::Guarantees::new(&log);
        let image = Arc::clone(&self.image);
        let control = |s: usize, pc: u32| by_sequencer(&image, s, pc);
        let mut hazards = Vec::new();
        for finding in guarantees.races(control) {
            match finding {
                Finding::Race(conflict) => self.race(*conflict),
                Finding::Sequencer(hazard) if !hazards.contains(&hazard) => hazards.push(hazard),
                Finding::Sequencer(_) => {}
            }
        }
        hazards.extend(guarantees.hazards());
        if image.generation == Generation::V1 {
            for conflict in crate::check::stagger::conflicts(&log, &guarantees, control) {
                self.staggered(conflict);
            }
        }
        for hazard in hazards {
            let report =
                crate::check::hazard::report(&hazard, |(s, pc)| self.location(s, pc as usize));
            let help = report.help.as_deref().map(|h| self.with_names(h));
            let message = self.with_names(&report.message);
            let report = Error { message, help, ..report };
            if self.involved.is_empty() {
                let of = |(stream, pc)| Involved { stream, pc, tick: None, waiting_since: None };
                self.involved = hazard.places().into_iter().map(of).collect();
            }
            match self.options.races {
                Races::Stop => {
                    self.race_fault.get_or_insert(report);
                }
                Races::Collect => self.races.push(report),
                Races::Ignore => {}
            }
        }
        let remarks = if log.gave_up() {
            Vec::new()
        } else {
            crate::check::hazard::remarks(&log, &self.sync, |(s, pc)| self.location(s, pc as usize))
        };
        let limits = guarantees
            .unproven()
            .iter()
            .map(|u| crate::check::hazard::limit(u, |(s, pc)| self.location(s, pc as usize)));
        let remarks: Vec<String> = remarks.into_iter().chain(limits).collect();
        let remarks: Vec<String> = remarks.iter().map(|r| self.with_names(r)).collect();
        for remark in &remarks {
            tracing::info!("{remark}");
        }
        self.log = Some(log);
        remarks
    }

    /// Tells of partitions that a DMA may touch before an engine is done with them; a pair that is
    /// a race anyhow was told already.
    fn staggered(&mut self, conflict: Conflict) {
        self.race_of(conflict, |conflict, earlier, later, time| {
            let race = crate::check::race::report(conflict, earlier, later, time);
            let first = conflict.earlier.2.first;
            Error::undefined(
                "partition_stagger",
                format!(
                    "the wait orders only partition {first}: the others finish later\n{}",
                    race.message
                ),
            )
            .help("put a PSEUDO_DMA_BARRIER between the wait and the trigger of the DMA")
            .or_at(later)
        });
    }

    /// What the run told about its waits, updates and works, if it was logged.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    pub(super) fn deadlock(&mut self) -> Option<Error> {
        let stuck = self.streams.iter().any(|s| s.state == RunState::Running);
        stuck.then(|| {
            let mut error = super::deadlock::report(self);
            error.message = self.with_names(&error.message);
            error
        })
    }

    /// What `error`, which no race raised, is about: the heads of stuck streams, or its own place.
    pub(super) fn places_of(&self, error: &Error) -> Vec<Involved> {
        if matches!(error.class, ErrorClass::Deadlock | ErrorClass::Livelock) {
            let running =
                (0..ENGINE_STREAMS).filter(|&s| self.streams[s].state == RunState::Running);
            return running
                .map(|stream| {
                    let s = &self.streams[stream];
                    let waits = s.blocked == super::stream::Blocked::Wait;
                    Involved {
                        stream,
                        pc: s.pc as u32,
                        tick: None,
                        waiting_since: s.head_since.filter(|_| waits),
                    }
                })
                .collect();
        }
        let name = error.at.stream.as_deref();
        let stream =
            (0..self.streams.len() + self.queues.len()).find(|&s| match Engine::ALL.get(s) {
                Some(e) => Some(e.to_string().as_str()) == name,
                None => {
                    let queue = &self.image.queues[s - ENGINE_STREAMS];
                    name.and_then(|n| n.strip_prefix("queue ")) == Some(queue.as_str())
                }
            });
        match (stream, error.at.pc) {
            (Some(stream), Some(pc)) => {
                vec![Involved { stream, pc: pc as u32, tick: None, waiting_since: None }]
            }
            _ => Vec::new(),
        }
    }

    /// `text` with the program's names of events and semaphores in place of their numbers.
    pub(super) fn with_names(&self, text: &str) -> String {
        let mut out = text.to_string();
        for (letter, names) in [('S', &self.program.semaphores), ('E', &self.program.events)] {
            for (name, number) in names {
                out = out.replace(&format!("${letter}[{number}]"), &format!("${letter}[{name}]"));
            }
        }
        out
    }
}

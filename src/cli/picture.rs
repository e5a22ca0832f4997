//! The timeline and the traces of one run under a schedule, for `stress` and `replay`.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::explore::timeline::{Film, View, draw};
use crate::explore::{Delays, Schedule, Subject, Trial};
use crate::machine::{Machine, Races};
use crate::trace::export::{self, Context, Ending, Exporter};
use crate::trace::facts::Facts;
use crate::trace::tee::Shared;
use crate::trace::{Recorder, TraceHeader};

/// Runs `subject` under `delays`; gives the run and its timeline, and writes the traces.
///
/// # Errors
/// The program does not load, or a trace cannot be written.
pub fn take(subject: &Subject, delays: &Delays, traces: &[PathBuf]) -> Result<(Trial, String)> {
    let film = Shared::new(Film::default());
    let mut exports: Vec<Shared<Box<dyn Exporter>>> = Vec::new();
    let mut header = None;
    let mut failed = None;
    let observe = |h: &TraceHeader, machine: &Machine| -> Vec<Box<dyn Recorder>> {
        // a run whose fault showed on a thread is repeated: start over
        film.with(|f| *f = Film::default());
        exports.clear();
        header = Some(h.clone());
        let mut all: Vec<Box<dyn Recorder>> = vec![Box::new(film.clone())];
        for path in traces {
            let context = Context::new(h.clone(), Facts::of(machine), machine.namer());
            match export::open(path, context, None) {
                Ok(exporter) => {
                    let exporter = Shared::new(exporter);
                    exports.push(exporter.clone());
                    all.push(Box::new(exporter));
                }
                Err(e) => failed = Some(e),
            }
        }
        all
    };
    let schedule = || Schedule::listed(delays.clone());
    let (trial, result) = subject.run_observed(schedule, Races::Stop, observe)?;
    if let Some(e) = failed {
        return Err(e);
    }
    let header = header.ok_or_else(|| Error::internal("a run without a head"))?;
    let ending =
        Ending { end: result.finished.end, error: trial.error.as_ref().map(ToString::to_string) };
    for export in exports {
        let exporter = export
            .into_inner()
            .ok_or_else(|| Error::internal("the machine still holds a trace"))?;
        exporter.finish(&ending)?;
    }
    let names = result.machine.namer();
    let picture = film.with(|film| {
        draw(
            film,
            &View {
                header: &header,
                names: &names,
                delays,
                involved: &result.finished.involved,
                end: result.finished.end,
            },
        )
    });
    Ok((trial, picture))
}

//! A whole run in one call: load, run, and what came out.

use std::sync::Arc;

use super::checkpoint::{Checkpoint, Identity, Plan, Spool, file_name};
use super::config::MachineConfig;
use super::options::{Finished, Options};
use super::run::Machine;
use crate::error::Result;
use crate::program::Program;
use crate::trace::digest::Digest;
use crate::trace::facts::Facts;
use crate::trace::summary::{Summary, SummaryBuilder};
use crate::trace::tee::{Shared, Tee};
use crate::trace::{Recorder, TraceHeader};

/// What a run left behind.
pub struct RunResult {
    /// How it ended.
    pub finished: Finished,
    /// Summary per stream.
    pub summary: Summary,
    /// Digest of all records.
    pub trace_digest: u64,
    /// The machine, for its memory and registers.
    pub machine: Machine,
}

impl RunResult {
    /// Bytes of the tensor called `name` in row-major order.
    ///
    /// # Errors
    /// No such tensor, or beyond the memory.
    pub fn tensor(&mut self, name: &str) -> Result<Vec<u8>> {
        let program = Arc::clone(self.machine.program());
        let tensor = program.tensor(name).ok_or_else(|| {
            crate::Error::new(
                crate::ErrorClass::ProgramError,
                format!("the program has no tensor `{name}`"),
            )
        })?;
        let config = Arc::clone(self.machine.shared_config());
        super::tensors::read(tensor, &self.machine.memory(), &config)
    }

    /// Digest of all tensors' bytes.
    ///
    /// # Errors
    /// As [`RunResult::tensor`].
    pub fn memory_digest(&mut self) -> Result<u64> {
        let mut digest = Digest::default();
        let names: Vec<String> =
            self.machine.program().tensors.iter().map(|t| t.name.clone()).collect();
        for name in names {
            digest.bytes(name.as_bytes());
            digest.bytes(&self.tensor(&name)?);
        }
        Ok(digest.value())
    }
}

/// Runs `program`. `record` gets the header and may add recorders; `stepped` advances tick by tick.
///
/// A work that faults on a worker thread ends the run a little later than it would inline; such a
/// run is repeated without threads, so that the report and the memory are those of the fault.
///
/// # Errors
/// What [`Machine::new`] raises. A fault of the run itself is in [`Finished::error`].
pub fn run(
    program: Arc<Program>,
    config: Arc<MachineConfig>,
    options: impl FnMut() -> Options,
    record: impl FnMut(&TraceHeader, &Machine) -> Vec<Box<dyn Recorder>>,
    stepped: bool,
) -> Result<RunResult> {
    run_planned(program, config, options, record, stepped, &Plan::default())
}

/// As [`run`], from a checkpoint or leaving checkpoints behind.
///
/// The recorders get the records of before the checkpoint first, so summary, digest and exported
/// traces are those of the whole run.
///
/// # Errors
/// As [`run`]; a checkpoint cannot be written, does not fit the run or is damaged.
pub fn run_planned(
    program: Arc<Program>,
    config: Arc<MachineConfig>,
    mut options: impl FnMut() -> Options,
    mut record: impl FnMut(&TraceHeader, &Machine) -> Vec<Box<dyn Recorder>>,
    stepped: bool,
    plan: &Plan,
) -> Result<RunResult> {
    let mut attempt = |threads: Option<usize>| -> Result<RunResult> {
        let mut o = options();
        o.snapshots |= plan.snapshots();
        let identity = match plan.snapshots() {
            true => Some(Identity::of(&program, &config, &o)?),
            false => None,
        };
        o.threads = threads.unwrap_or(o.threads);
        let mut machine = Machine::new(Arc::clone(&program), Arc::clone(&config), o)?;
        let header = machine.header();
        let summary = Shared::new(SummaryBuilder::new(&header, Facts::of(&machine)));
        let digest = Shared::new(Digest::default());
        let mut all: Vec<Box<dyn Recorder>> =
            vec![Box::new(summary.clone()), Box::new(digest.clone())];
        all.extend(record(&header, &machine));
        let spool = plan.every.as_ref().map(|_| Shared::new(Spool::default()));
        if let Some(spool) = &spool {
            all.push(Box::new(spool.clone()));
        }
        let mut all = Tee(all);
        if let (Some(checkpoint), Some(identity)) = (&plan.restore, &identity) {
            checkpoint.fits(identity)?;
            checkpoint.replay(&mut all)?;
            if digest.with(|d| d.value()) != checkpoint.digest {
                return Err(crate::Error::new(
                    crate::ErrorClass::ProgramError,
                    "the checkpoint is damaged: its recording is not that of its run",
                ));
            }
        }
        machine.set_recorder(Box::new(all));
        if let Some(checkpoint) = &plan.restore {
            machine.restore(&checkpoint.snapshot)?;
        }
        let mut early = None;
        if let (Some((every, dir)), Some(spool), Some(identity)) = (&plan.every, spool, identity) {
            let mut last = plan.restore.as_ref().map(|c| c.snapshot.clone());
            let mut leave = |machine: &mut Machine| -> Result<()> {
                let snapshot = machine.snapshot(last.as_ref())?;
                let value = digest.with(|d| d.value());
                let checkpoint =
                    spool.with(|s| Checkpoint::new(identity.clone(), value, snapshot.clone(), s));
                last = Some(snapshot);
                checkpoint
                    .save(&dir.join(file_name(machine.now())))
                    .map_err(|e| e.help("no checkpoint, no further run"))
            };
            early = machine.run_with_checkpoints(*every, &mut leave);
        }
        let finished = match early {
            Some(error) => machine.finish(Some(error)),
            None if stepped => machine.run_stepped(),
            None => machine.run(),
        };
        machine.record_usage();
        machine.drop_recorder();
        let summary = summary.with(std::mem::take).finish(&header, finished.end, &*machine.namer());
        let trace_digest = digest.with(|d| d.value());
        Ok(RunResult { finished, summary, trace_digest, machine })
    };
    let result = attempt(None)?;
    if result.machine.fault_on_a_thread() {
        return attempt(Some(0));
    }
    Ok(result)
}

//! Many seeds, side by side, written down as they finish.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::schedule::{Schedule, Strategy};
use super::trial::{Kind, Subject, Trial};
use crate::error::{Error, Result};

/// One line of a campaign file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seed.
    pub seed: u64,
    /// Strategy.
    pub strategy: Strategy,
    /// What was found, if anything.
    pub finding: Option<Kind>,
    /// Digest of the trace, 16 hex digits.
    pub trace: String,
    /// Digest of the order of changes, 16 hex digits: runs with the same one are equivalent.
    pub order: String,
    /// Last tick.
    pub ticks: u64,
}

/// Where the lines of a campaign go, and what it has already.
pub struct Book {
    file: Option<File>,
    /// Lines found in the file.
    pub lines: Vec<Line>,
}

impl Book {
    /// Opens or creates a campaign file. A damaged last line (a full disk, a kill) is cut off and
    /// its seed runs again.
    ///
    /// # Errors
    /// The file cannot be read, repaired or opened for appending.
    pub fn open(path: Option<&Path>) -> Result<Book> {
        let Some(path) = path else { return Ok(Book { file: None, lines: Vec::new() }) };
        let io = |e: std::io::Error| Error::io(path, &e);
        let file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        let mut lines = Vec::new();
        let mut whole = 0u64;
        let mut reader = BufReader::new(file.try_clone().map_err(io)?);
        let mut text = String::new();
        loop {
            text.clear();
            let n = match reader.read_line(&mut text) {
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::InvalidData => break,
                Err(e) => return Err(io(e)),
            };
            if n == 0 || !text.ends_with('\n') {
                break;
            }
            match serde_json::from_str(&text) {
                Ok(line) => lines.push(line),
                Err(_) => break,
            }
            whole += n as u64;
        }
        file.set_len(whole).map_err(io)?;
        Ok(Book { file: Some(file), lines })
    }

    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        if let Some(file) = &mut self.file {
            let text = serde_json::to_string(line)? + "\n";
            // one write, so that a full disk leaves at most the end of one line
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

/// What a campaign looks for and where.
pub struct Campaign<'a> {
    /// Program and machine.
    pub subject: &'a Subject,
    /// The undisturbed run.
    pub undisturbed: &'a Trial,
    /// How schedules are made.
    pub strategy: Strategy,
    /// Seeds, the end excluded.
    pub seeds: std::ops::Range<u64>,
    /// Only seeds that leave this remainder: (remainder, divisor).
    pub shard: (u64, u64),
    /// Runs side by side.
    pub jobs: usize,
}

/// What came out.
#[derive(Default)]
pub struct Tally {
    /// Seeds done, with those of an earlier session.
    pub done: u64,
    /// How often each kind of finding came up, and the first seed that showed it.
    pub findings: BTreeMap<Kind, (u64, u64)>,
    /// Different orders of changes.
    pub orders: FxHashSet<String>,
    /// Whether the interrupt ended it.
    pub interrupted: bool,
}

impl Tally {
    fn add(&mut self, line: &Line) {
        self.done += 1;
        self.orders.insert(line.order.clone());
        if let Some(kind) = &line.finding {
            let slot = self.findings.entry(kind.clone()).or_insert((0, line.seed));
            slot.0 += 1;
            slot.1 = slot.1.min(line.seed);
        }
    }
}

impl Campaign<'_> {
    /// Runs all seeds that `book` does not have. `progress` is called after each.
    ///
    /// # Errors
    /// A run that cannot be started, or a line that cannot be written; seeds already written stay.
    pub fn run(&self, book: &mut Book, progress: impl FnMut(&Tally)) -> Result<Tally> {
        self.run_by(book, || |seed| self.one(seed), progress)
    }

    /// As [`Campaign::run`]; each job makes a runner of its own with `runner` and asks it for the
    /// line of each seed.
    ///
    /// # Errors
    /// What the runners raise, and as [`Campaign::run`].
    pub fn run_by<R: FnMut(u64) -> Result<Line>>(
        &self,
        book: &mut Book,
        runner: impl Fn() -> R + Sync,
        mut progress: impl FnMut(&Tally),
    ) -> Result<Tally> {
        let runner = &runner;
        let mut tally = Tally::default();
        let mine = |seed: u64| self.seeds.contains(&seed) && seed % self.shard.1 == self.shard.0;
        let mut have: FxHashSet<u64> = FxHashSet::default();
        for line in &book.lines {
            if line.strategy == self.strategy && mine(line.seed) && have.insert(line.seed) {
                tally.add(line);
            }
        }
        let next = AtomicU64::new(self.seeds.start);
        let stop = &self.subject.interrupt;
        let (sender, receiver) = crossbeam_channel::bounded::<Result<Line>>(64);
        let have = &have;
        let next = &next;
        let outcome = std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                let sender = sender.clone();
                scope.spawn(move || {
                    let mut one = runner();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seeds.end || stop.load(Ordering::Relaxed) {
                            return;
                        }
                        if !mine(seed) || have.contains(&seed) {
                            continue;
                        }
                        let line = one(seed);
                        // a run that the interrupt cut short says nothing
                        if stop.load(Ordering::Relaxed) || sender.send(line).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut first_error = None;
            for line in receiver {
                let written = line.and_then(|line| {
                    book.write(&line).map_err(|e| Error::io(Path::new("the campaign file"), &e))?;
                    tally.add(&line);
                    progress(&tally);
                    Ok(())
                });
                if let Err(e) = written {
                    stop.store(true, Ordering::Relaxed);
                    first_error.get_or_insert(e);
                }
            }
            first_error.map_or(Ok(()), Err)
        });
        outcome?;
        tally.interrupted = stop.load(Ordering::Relaxed);
        Ok(tally)
    }

    fn one(&self, seed: u64) -> Result<Line> {
        let make = || Schedule::of_seed(self.strategy, seed, &self.undisturbed.plain);
        let trial = self.subject.run(make)?;
        let finding = self.subject.judge(&trial, self.undisturbed);
        Ok(Line {
            seed,
            strategy: self.strategy,
            finding: finding.as_ref().map(Kind::of),
            trace: format!("{:016x}", trial.trace),
            order: format!("{:016x}", trial.order),
            ticks: trial.ticks,
        })
    }
}

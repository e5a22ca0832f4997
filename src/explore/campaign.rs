//! Many seeds, side by side, written down as they finish.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::schedule::{Schedule, Strategy};
use super::trial::{Kind, Subject, Trial};
use crate::error::{Error, ErrorClass, Result};
use crate::machine::run::INTERRUPTED;
use crate::program::Program;
use crate::trace::digest::Digest;

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

/// First line of a campaign file: what all its lines belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the file format.
    pub campaign: u32,
    /// Version of the emulator: its timing decides what a seed does.
    pub emulator: String,
    /// Digest of the program, 16 hex digits; source lines and paths do not count.
    pub program: String,
    /// Digest of the machine configuration, 16 hex digits.
    pub machine: String,
    /// Whether the data was left out.
    pub timing_only: bool,
    /// Limit of each run.
    pub max_cycles: u64,
}

/// Version of the file format that this emulator writes.
const FORMAT: u32 = 1;

impl Header {
    /// The header of campaigns over `subject`.
    ///
    /// # Errors
    /// The program is larger than a container can hold.
    pub fn of(subject: &Subject) -> Result<Header> {
        let mut machine = Digest::default();
        let config = serde_json::to_vec(&*subject.config);
        machine.bytes(&config.map_err(|e| Error::internal(e.to_string()))?);
        Ok(Header {
            campaign: FORMAT,
            emulator: env!("CARGO_PKG_VERSION").into(),
            program: format!("{:016x}", program_digest(&subject.program)?),
            machine: format!("{:016x}", machine.value()),
            timing_only: subject.timing_only,
            max_cycles: subject.max_cycles,
        })
    }

    /// What of `other` is not as here, in words; empty if nothing.
    pub fn differences(&self, other: &Header) -> Vec<String> {
        let mut out = Vec::new();
        let mut compare = |what: &str, a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
            let (a, b) = (a.to_string(), b.to_string());
            if a != b {
                out.push(format!("{what} {b} instead of {a}"));
            }
        };
        compare("format", &self.campaign, &other.campaign);
        compare("emulator", &self.emulator, &other.emulator);
        compare("program", &self.program, &other.program);
        compare("machine", &self.machine, &other.machine);
        compare("timing_only", &self.timing_only, &other.timing_only);
        compare("max_cycles", &self.max_cycles, &other.max_cycles);
        out
    }
}

/// Digest of all that a run of `program` depends on.
///
/// # Errors
/// The program is larger than a container can hold.
pub fn program_digest(program: &Program) -> Result<u64> {
    let mut plain = program.clone();
    plain.sources.clear();
    plain.metadata.clear();
    for stream in &mut plain.streams {
        stream.lines.clear();
        stream.labels.clear();
    }
    plain.v1_sp.lines.clear();
    plain.blocks.iter_mut().for_each(|b| b.line = Default::default());
    let mut digest = Digest::default();
    digest.bytes(&crate::program::container::encode(&plain)?);
    Ok(digest.value())
}

/// Where the lines of a campaign go, and what it has already.
pub struct Book {
    file: Option<(File, PathBuf)>,
    /// Bytes of whole lines.
    whole: u64,
    /// Lines found in the file.
    pub lines: Vec<Line>,
}

/// What a campaign file holds.
pub struct Contents {
    /// Its first line, if it has one.
    pub header: Option<Header>,
    /// The others.
    pub lines: Vec<Line>,
    /// Bytes of whole lines; what follows is the start of a line that was cut short.
    pub whole: u64,
    /// Whether something follows.
    pub cut_short: bool,
}

/// Reads a campaign file. The last line may be cut short (a full disk, a kill).
///
/// # Errors
/// The file cannot be read, or a whole line of it is not one of a campaign.
pub fn read(path: &Path) -> Result<Contents> {
    let file = File::open(path).map_err(|e| Error::io(path, &e))?;
    parse(path, BufReader::new(file))
}

fn parse(path: &Path, mut reader: impl BufRead) -> Result<Contents> {
    let mut out = Contents { header: None, lines: Vec::new(), whole: 0, cut_short: false };
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        // no line is longer: a foreign file must not fill the memory
        let mut part = (&mut reader).take(MOST_LINE_BYTES);
        part.read_until(b'\n', &mut text).map_err(|e| Error::io(path, &e))?;
        if text.is_empty() {
            break;
        }
        if text.last() != Some(&b'\n') && (text.len() as u64) < MOST_LINE_BYTES {
            out.cut_short = true;
            break;
        }
        let foreign = |what: String| {
            Error::new(ErrorClass::ConfigError, format!("{} line {number}: {what}", path.display()))
                .help("nothing was changed; name another campaign file")
        };
        if number == 1 {
            let header = serde_json::from_slice(&text)
                .map_err(|e| foreign(format!("not the head of a campaign file: {e}")))?;
            out.header = Some(header);
        } else {
            let line = serde_json::from_slice(&text)
                .map_err(|e| foreign(format!("not a line of a campaign: {e}")))?;
            out.lines.push(line);
        }
        out.whole += text.len() as u64;
    }
    Ok(out)
}

/// Longest line that is read.
const MOST_LINE_BYTES: u64 = 1 << 20;

/// One JSON value and the end of its line.
pub(super) fn json_line(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(value).map_err(|e| Error::internal(e.to_string()))?;
    Ok(text + "\n")
}

impl Book {
    /// A book that writes nothing down.
    pub fn none() -> Book {
        Book { file: None, whole: 0, lines: Vec::new() }
    }

    /// Opens or creates the campaign file of `header`. A last line that was cut short is cut off
    /// and its seed runs again.
    ///
    /// # Errors
    /// The file cannot be read, repaired or appended to; it is not a campaign file, or one of
    /// another program, machine or emulator. Such a file is left as it is.
    pub fn open(path: Option<&Path>, header: &Header) -> Result<Book> {
        let Some(path) = path else { return Ok(Book::none()) };
        let io = |e: std::io::Error| Error::io(path, &e);
        let file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        let found = parse(path, BufReader::new(file.try_clone().map_err(io)?))?;
        let first = json_line(header)?;
        match &found.header {
            Some(theirs) => {
                let differences = header.differences(theirs);
                if !differences.is_empty() {
                    return Err(Error::new(
                        ErrorClass::ConfigError,
                        format!(
                            "{} belongs to another campaign: {}",
                            path.display(),
                            differences.join(", ")
                        ),
                    )
                    .help("nothing was changed; name another campaign file"));
                }
            }
            None if found.cut_short => {
                // what a full disk left of our own head, or a stranger's file without a line end
                let bytes = std::fs::read(path).map_err(io)?;
                if !first.as_bytes().starts_with(&bytes) {
                    return Err(Error::new(
                        ErrorClass::ConfigError,
                        format!("{} is not a campaign file", path.display()),
                    )
                    .help("nothing was changed; name another campaign file"));
                }
            }
            None => {}
        }
        file.set_len(found.whole).map_err(io)?;
        let mut book =
            Book { file: Some((file, path.into())), whole: found.whole, lines: found.lines };
        if found.header.is_none() {
            book.append(&first)?;
        }
        Ok(book)
    }

    fn append(&mut self, text: &str) -> Result<()> {
        let Some((file, path)) = &mut self.file else { return Ok(()) };
        // one write, so that a full disk leaves at most the start of one line
        if let Err(e) = file.write_all(text.as_bytes()) {
            let _ = file.set_len(self.whole);
            return Err(Error::io(path, &e).more_help(
                "the seeds written so far are safe; the same command goes on with them",
            ));
        }
        self.whole += text.len() as u64;
        Ok(())
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        self.append(&json_line(line)?)
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
    /// Those of an earlier session.
    pub resumed: u64,
    /// How often each kind of finding came up, and the first seed that showed it.
    pub findings: BTreeMap<Kind, (u64, u64)>,
    /// Different orders of changes.
    pub orders: FxHashSet<String>,
    /// Whether the interrupt ended it.
    pub interrupted: bool,
}

impl Tally {
    pub(super) fn add(&mut self, line: &Line) {
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
        tally.resumed = tally.done;
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
                        let cut = line.as_ref().is_err_and(|e| e.message == INTERRUPTED);
                        if cut || sender.send(line).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut first_error = None;
            for line in receiver {
                let written = line.and_then(|line| {
                    book.write(&line)?;
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
        trial.not_interrupted()?;
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

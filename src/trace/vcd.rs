//! Value change dump of engine activity, events and semaphores, for waveform viewers.
//!
//! The time unit is a femtosecond, in which every tick rounds to a whole number that gives the
//! tick back. A waveform must be written in the order of time, records are not in it (a wait is
//! known when it is over): changes are sorted in runs on disk and merged at the end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use super::attribution::Attribution;
use super::export::{Context, Ending, Exporter, Output};
use super::record::{Record, Recorder, StallCause};
use crate::error::{Error, Result};
use crate::sync::SyncId;

/// Changes held in memory before a run goes to disk.
const RUN: usize = 1 << 20;
const FS: u64 = 1_000_000_000_000_000;

/// When, which one among equal times, which signal, which value.
type Change = (u64, u32, u32);

/// Writes the waveform.
pub struct VcdTrace {
    out: Output,
    context: Context,
    attribution: Attribution,
    sync: BTreeMap<SyncId, u32>,
    changes: Vec<Change>,
    runs: Vec<std::fs::File>,
    failed: Option<std::io::Error>,
    signals: u32,
}

/// Signals of a stream: busy, and the number of the stall cause.
const PER_STREAM: u32 = 2;

fn cause_number(cause: StallCause) -> u32 {
    match cause {
        StallCause::Semaphore => 1,
        StallCause::Event => 2,
        StallCause::Dependency => 3,
        StallCause::Queue => 4,
        StallCause::Drain => 5,
        StallCause::Port => 6,
        StallCause::Control => 7,
    }
}

impl VcdTrace {
    /// Starts the file.
    pub fn new(out: Output, context: Context) -> Self {
        let streams = context.header.streams.len();
        VcdTrace {
            out,
            attribution: context.attribution(),
            signals: streams as u32 * PER_STREAM,
            context,
            sync: BTreeMap::new(),
            changes: Vec::new(),
            runs: Vec::new(),
            failed: None,
        }
    }

    fn change(&mut self, tick: u64, signal: u32, value: u32) {
        self.changes.push((tick, signal, value));
        if self.changes.len() >= RUN && self.failed.is_none() {
            self.failed = self.spill().err();
        }
    }

    fn spill(&mut self) -> std::io::Result<()> {
        // a stable sort: among equal times of a signal the last change holds
        self.changes.sort_by_key(|c| (c.0, c.1));
        let mut file = BufWriter::new(tempfile::tempfile()?);
        for (tick, signal, value) in self.changes.drain(..) {
            file.write_all(&tick.to_le_bytes())?;
            file.write_all(&signal.to_le_bytes())?;
            file.write_all(&value.to_le_bytes())?;
        }
        let mut file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        self.runs.push(file);
        Ok(())
    }

    fn merge(&mut self) -> std::io::Result<()> {
        self.spill()?;
        let mut files: Vec<BufReader<std::fs::File>> =
            self.runs.drain(..).map(BufReader::new).collect();
        let mut heap = BinaryHeap::new();
        for (n, file) in files.iter_mut().enumerate() {
            if let Some(c) = next(file)? {
                heap.push(Reverse((c.0, c.1, n, c.2)));
            }
        }
        let mut values = vec![u32::MAX; self.signals as usize];
        let (mut now, mut held): (Option<u64>, Option<(u64, u32, u32)>) = (None, None);
        loop {
            let top = heap.pop().map(|Reverse(c)| c);
            // a change is written when the next one is not of the same signal and time
            if let Some((tick, signal, value)) = held
                && top.is_none_or(|t| (t.0, t.1) != (tick, signal))
                && values[signal as usize] != value
            {
                values[signal as usize] = value;
                if now != Some(tick) {
                    now = Some(tick);
                    let at = self.fs(tick);
                    self.out.put(format!("#{at}\n").as_bytes());
                }
                self.value(signal, value);
            }
            let Some((tick, signal, n, value)) = top else { break };
            held = Some((tick, signal, value));
            if let Some(c) = next(&mut files[n])? {
                heap.push(Reverse((c.0, c.1, n, c.2)));
            }
        }
        Ok(())
    }

    // rounded to nearest, so that the tick can be found again
    fn fs(&self, tick: u64) -> u64 {
        let hz = u128::from(self.context.header.tick_hz.max(1));
        ((u128::from(tick) * u128::from(FS) + hz / 2) / hz) as u64
    }

    fn value(&mut self, signal: u32, value: u32) {
        let id = code(signal);
        if self.width(signal) == 1 {
            self.out.put(format!("{value}{id}\n").as_bytes());
        } else {
            self.out.put(format!("b{value:b} {id}\n").as_bytes());
        }
    }

    fn width(&self, signal: u32) -> u32 {
        let base = self.context.header.streams.len() as u32 * PER_STREAM;
        if signal < base {
            return if signal.is_multiple_of(PER_STREAM) { 1 } else { 3 };
        }
        let id = self.sync.iter().find(|(_, s)| **s == signal).map(|(id, _)| *id);
        if matches!(id, Some(SyncId::Event(_))) { 1 } else { 32 }
    }

    fn head(&mut self) {
        let mut text = format!(
            "$comment tpbemu {}; ticks per second {}; stall: 1 semaphore 2 event 3 dependency 4 queue 5 drain 6 port 7 control $end\n$timescale 1 fs $end\n",
            self.context.header.generation, self.context.header.tick_hz
        );
        for (s, name) in self.context.header.streams.iter().enumerate() {
            let signal = s as u32 * PER_STREAM;
            text += &format!(
                "$scope module {} $end\n$var wire 1 {} busy $end\n$var wire 3 {} stall $end\n$upscope $end\n",
                word(name),
                code(signal),
                code(signal + 1)
            );
        }
        text += "$scope module sync $end\n";
        for (id, signal) in &self.sync {
            let name = word(&self.context.facts.sync_name(*id));
            let width = self.width(*signal);
            text += &format!("$var wire {width} {} {name} $end\n", code(*signal));
        }
        text += "$upscope $end\n$enddefinitions $end\n";
        self.out.put(text.as_bytes());
    }
}

fn next(file: &mut impl Read) -> std::io::Result<Option<Change>> {
    let mut bytes = [0; 16];
    match file.read_exact(&mut bytes) {
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let tick = u64::from(word(0)) | u64::from(word(4)) << 32;
    Ok(Some((tick, word(8), word(12))))
}

/// A name that VCD readers take: no blanks or brackets.
fn word(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.replace("] ", "_").replace(']', "").chars().map(clean).collect()
}

/// The short code of a signal in printable characters.
fn code(mut n: u32) -> String {
    let mut out = String::new();
    loop {
        out.push((b'!' + (n % 94) as u8) as char);
        n /= 94;
        if n == 0 {
            return out;
        }
        n -= 1;
    }
}

impl Recorder for VcdTrace {
    fn record(&mut self, record: &Record) {
        let mut spans = Vec::new();
        self.attribution.add(record, |s, span| spans.push((s as u32 * PER_STREAM, span)));
        for (signal, span) in spans {
            match span.cause {
                None => {
                    self.change(span.from, signal, 1);
                    self.change(span.to, signal, 0);
                }
                Some(cause) => {
                    self.change(span.from, signal + 1, cause_number(cause));
                    self.change(span.to, signal + 1, 0);
                }
            }
        }
        if let Record::Sync(s) = record {
            let new = self.signals;
            let signal = *self.sync.entry(s.id).or_insert(new);
            if signal == new {
                self.signals += 1;
                self.change(0, signal, 0);
            }
            self.change(s.tick, signal, s.value);
        }
    }
}

impl Exporter for VcdTrace {
    // the file is written at the end; a change takes about so much of it
    fn size(&self) -> u64 {
        (self.changes.len() + self.runs.len() * RUN) as u64 * 8
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        self.head();
        self.out.put(b"#0\n$dumpvars\n");
        for s in 0..self.context.header.streams.len() as u32 * PER_STREAM {
            // before everything of its time, which a stable sort of equal times would not give
            self.value(s, 0);
        }
        self.out.put(b"$end\n");
        let merged = match self.failed.take() {
            Some(e) => Err(e),
            None => self.merge(),
        };
        merged.map_err(|e| Error::io(std::path::Path::new("temporary file"), &e))?;
        let end = self.fs(ending.end);
        self.out.put(format!("#{end}\n").as_bytes());
        self.out.persist()
    }
}

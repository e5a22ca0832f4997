//! Our own recording: one JSON object a line, from which every other format can be made later.
//! First the facts, then names as they are first used, then records, then how the run ended.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::export::{Context, Ending, Exporter, Namer, Output};
use super::facts::Facts;
use super::record::{Record, Recorder, TraceHeader};
use crate::error::{Error, ErrorClass, Result};

/// Version of the recording.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Start { version: u32, header: TraceHeader, facts: Box<Facts> },
    Name { stream: u16, pc: u32, name: String, text: String, source: Option<String> },
    End { tick: u64, error: Option<String> },
}

/// Writes the recording.
pub struct LinesTrace {
    out: Output,
    context: Context,
    named: HashSet<(u16, u32)>,
}

impl LinesTrace {
    /// Starts the file.
    pub fn new(out: Output, context: Context) -> Self {
        let start = Line::Start {
            version: VERSION,
            header: context.header.clone(),
            facts: Box::new(context.facts.clone()),
        };
        let mut trace = LinesTrace { out, context, named: HashSet::new() };
        trace.line(&start);
        trace
    }

    fn line(&mut self, line: &impl Serialize) {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        self.out.put(&text);
    }
}

impl Recorder for LinesTrace {
    fn record(&mut self, record: &Record) {
        let at = match record {
            Record::Inst(i) => Some((i.stream, i.pc)),
            Record::Transfer(t) => Some((t.stream, t.block)),
            _ => None,
        };
        if let Some((stream, pc)) = at
            && self.named.insert((stream, pc))
        {
            let (name, text, source) = (self.context.names)(stream, pc);
            self.line(&Line::Name { stream, pc, name, text, source });
        }
        self.line(record);
    }
}

impl Exporter for LinesTrace {
    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        self.line(&Line::End { tick: ending.end, error: ending.error.clone() });
        self.out.persist()
    }
}

/// Names by stream and word, filled while the recording is read.
type Table = Arc<Mutex<HashMap<(u16, u32), (String, String, Option<String>)>>>;

/// A recording that is being read.
pub struct Reader<R> {
    input: R,
    /// Streams and clocks.
    pub header: TraceHeader,
    /// Machine and program.
    pub facts: Facts,
    names: Table,
    number: usize,
}

fn bad(number: usize, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorClass::ProgramError, format!("recording line {number}: {what}"))
}

impl<R: BufRead> Reader<R> {
    /// Reads the facts.
    ///
    /// # Errors
    /// Not a recording, or of another version.
    pub fn new(mut input: R) -> Result<Reader<R>> {
        let mut text = String::new();
        input.read_line(&mut text).map_err(|e| bad(1, e))?;
        match serde_json::from_str(&text).map_err(|e| bad(1, e))? {
            Line::Start { version: VERSION, header, facts } => {
                if header.tick_hz == 0 || header.periods.len() != header.streams.len() {
                    return Err(bad(1, "the header has no clock"));
                }
                Ok(Reader { input, header, facts: *facts, names: Table::default(), number: 1 })
            }
            Line::Start { version, .. } => Err(bad(1, format!("version {version} is unknown"))),
            _ => Err(bad(1, "the first line does not hold the facts")),
        }
    }

    /// What an exporter of this recording knows.
    pub fn context(&self) -> Context {
        let names = Arc::clone(&self.names);
        let namer: Namer =
            Box::new(move |s, pc| names.lock().get(&(s, pc)).cloned().unwrap_or_default());
        Context { header: self.header.clone(), facts: self.facts.clone(), names: namer }
    }

    /// Gives every record to `each`, and returns how the run ended.
    ///
    /// # Errors
    /// A line that is no record, or no end.
    pub fn read(&mut self, mut each: impl FnMut(&Record)) -> Result<Ending> {
        let streams = self.header.streams.len();
        let mut text = String::new();
        loop {
            text.clear();
            self.number += 1;
            let number = self.number;
            let n = self.input.read_line(&mut text).map_err(|e| bad(number, e))?;
            if n == 0 {
                return Err(bad(number, "the recording has no end"));
            }
            // records, told by their tag, are nearly all lines
            if text.starts_with("{\"kind\"") {
                let record = serde_json::from_str(&text).map_err(|e| bad(number, e))?;
                check(&record, streams).map_err(|m| bad(number, m))?;
                each(&record);
                continue;
            }
            match serde_json::from_str(&text).map_err(|e| bad(number, e))? {
                Line::Start { .. } => return Err(bad(number, "a second start")),
                Line::Name { stream, pc, name, text, source } => {
                    self.names.lock().insert((stream, pc), (name, text, source));
                }
                Line::End { tick, error } => return Ok(Ending { end: tick, error }),
            }
        }
    }
}

/// Times in order and streams that exist: what the exporters count on.
fn check(record: &Record, streams: usize) -> std::result::Result<(), &'static str> {
    let stream = |s: u16| usize::from(s) < streams;
    let good = match record {
        Record::Inst(i) => {
            stream(i.stream)
                && i.waited.and_then(|(_, by)| by).is_none_or(|(s, _)| stream(s))
                && i.head <= i.start
                && i.issue <= i.start
                && i.start <= i.busy_until.min(i.end)
        }
        Record::Sync(s) => stream(s.by.0),
        Record::Transfer(t) => stream(t.stream) && stream(t.trigger.0) && t.start <= t.end,
        Record::Note { stream: s, .. } => stream(*s),
        Record::Cores { .. } => true,
    };
    if good { Ok(()) } else { Err("an unknown stream, or times out of order") }
}

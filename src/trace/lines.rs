//! Our own recording as text: one JSON object a line, from which every other format can be made.
//! Its reader takes packed recordings too.
//! First the facts, then names as they are first used, then records, then how the run ended.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::attribution::Resume;
use super::export::{Context, Ending, Exporter, Namer, Output};
use super::facts::Facts;
use super::record::{Record, Recorder, TraceHeader};
use super::recording::{MAGIC, Next, Unpacker};
use crate::error::{Error, ErrorClass, Result};

/// Version of the recording.
const VERSION: u32 = 1;

/// What stands in a recording beside the records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first line.
    Start {
        /// Version of the recording.
        version: u32,
        /// Streams and clocks.
        header: TraceHeader,
        /// Machine and program.
        facts: Box<Facts>,
        /// Where a part of a recording goes on.
        #[serde(default)]
        resume: Resume,
    },
    /// What a word is called, before its first use.
    Name {
        /// Stream.
        stream: u16,
        /// Word or block.
        pc: u32,
        /// Name.
        name: String,
        /// Disassembly.
        text: String,
        /// Source line.
        source: Option<String>,
    },
    /// The last line.
    End {
        /// Tick of the last thing that happened.
        tick: u64,
        /// Why the run did not come to its end.
        error: Option<String>,
    },
}

impl Line {
    /// The first line of a recording in this context.
    pub fn start(context: &Context) -> Line {
        Line::Start {
            version: VERSION,
            header: context.header.clone(),
            facts: Box::new(context.facts.clone()),
            resume: context.resume.clone(),
        }
    }

    /// The name of a word.
    pub fn name(context: &Context, stream: u16, pc: u32) -> Line {
        let (name, text, source) = (context.names)(stream, pc);
        Line::Name { stream, pc, name, text, source }
    }

    /// The last line.
    pub fn end(ending: &Ending) -> Line {
        Line::End { tick: ending.end, error: ending.error.clone() }
    }
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
        let start = Line::start(&context);
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
        if let Some((stream, pc)) = record.word()
            && self.named.insert((stream, pc))
        {
            let line = Line::name(&self.context, stream, pc);
            self.line(&line);
        }
        self.line(record);
    }

    fn wants_usage(&self) -> bool {
        true
    }
}

impl Exporter for LinesTrace {
    fn size(&self) -> u64 {
        self.out.size()
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        self.line(&Line::end(ending));
        self.out.persist()
    }
}

/// Names by stream and word, filled while the recording is read.
type Table = Arc<Mutex<HashMap<(u16, u32), (String, String, Option<String>)>>>;

enum Source<R> {
    Text(R),
    Packed(Unpacker<R>),
}

enum Item {
    Line(Line),
    Record(Record),
}

/// A recording that is being read.
pub struct Reader<R> {
    source: Source<R>,
    /// Streams and clocks.
    pub header: TraceHeader,
    /// Machine and program.
    pub facts: Facts,
    resume: Resume,
    names: Table,
    number: usize,
    text: String,
}

fn bad(number: usize, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorClass::ProgramError, format!("recording line {number}: {what}"))
}

impl<R: BufRead> Source<R> {
    fn next(&mut self, text: &mut String) -> std::result::Result<Item, String> {
        let json = |e: serde_json::Error| e.to_string();
        match self {
            Source::Text(input) => {
                text.clear();
                if input.read_line(text).map_err(|e| e.to_string())? == 0 {
                    return Err("the recording has no end".into());
                }
                // records, told by their tag, are nearly all lines
                if text.starts_with("{\"kind\"") {
                    return serde_json::from_str(text).map(Item::Record).map_err(json);
                }
                serde_json::from_str(text).map(Item::Line).map_err(json)
            }
            Source::Packed(unpacker) => match unpacker.next()? {
                Next::Record(record) => Ok(Item::Record(record)),
                Next::Line(bytes) => serde_json::from_slice(&bytes).map(Item::Line).map_err(json),
                Next::End => Err("the recording has no end".into()),
            },
        }
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the facts of a recording, packed or text.
    ///
    /// # Errors
    /// Not a recording, or of another version.
    pub fn new(mut input: R) -> Result<Reader<R>> {
        let packed = input.fill_buf().map_err(|e| bad(1, e))?.starts_with(MAGIC);
        let mut source = if packed {
            input.consume(MAGIC.len());
            Source::Packed(Unpacker::new(input))
        } else {
            Source::Text(input)
        };
        let mut text = String::new();
        match source.next(&mut text).map_err(|e| bad(1, e))? {
            Item::Line(Line::Start { version: VERSION, header, facts, resume }) => {
                if header.tick_hz == 0 || header.periods.len() != header.streams.len() {
                    return Err(bad(1, "the header has no clock"));
                }
                let (facts, names, number) = (*facts, Table::default(), 1);
                Ok(Reader { source, header, facts, resume, names, number, text })
            }
            Item::Line(Line::Start { version, .. }) => {
                Err(bad(1, format!("version {version} is unknown")))
            }
            _ => Err(bad(1, "the first line does not hold the facts")),
        }
    }

    /// What an exporter of this recording knows.
    pub fn context(&self) -> Context {
        let names = Arc::clone(&self.names);
        let namer: Namer =
            Arc::new(move |s, pc| names.lock().get(&(s, pc)).cloned().unwrap_or_default());
        let mut context = Context::new(self.header.clone(), self.facts.clone(), namer);
        context.resume = self.resume.clone();
        context
    }

    /// Gives every record to `each`, and returns how the run ended.
    ///
    /// # Errors
    /// A line that is no record, or no end.
    pub fn read(&mut self, mut each: impl FnMut(&Record)) -> Result<Ending> {
        let streams = self.header.streams.len();
        loop {
            self.number += 1;
            let number = self.number;
            match self.source.next(&mut self.text).map_err(|m| bad(number, m))? {
                Item::Record(record) => {
                    check(&record, streams).map_err(|m| bad(number, m))?;
                    each(&record);
                }
                Item::Line(Line::Start { .. }) => return Err(bad(number, "a second start")),
                Item::Line(Line::Name { stream, pc, name, text, source }) => {
                    self.names.lock().insert((stream, pc), (name, text, source));
                }
                Item::Line(Line::End { tick, error }) => return Ok(Ending { end: tick, error }),
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
        Record::Queued { stream: s, by, .. } => stream(*s) && stream(by.0),
        Record::Library { tick, end, .. } => tick <= end,
        Record::Usage { memory, .. } => usize::from(*memory) < crate::memory::Space::ALL.len(),
        Record::Cores { .. } => true,
    };
    if good { Ok(()) } else { Err("an unknown stream, or times out of order") }
}

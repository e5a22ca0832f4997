//! A viewer and the data of a run in one HTML file that needs no network.
//!
//! Records go to disk in blocks of columns (little-endian arrays, deflated, in base64), so that
//! memory stays bounded here and the viewer reads typed arrays there. `viewer/viewer.js` knows the
//! same columns.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::json;

use super::attribution::Attribution;
use super::counters::{DepthPoint, QueueDepth};
use super::export::{Context, Ending, Exporter, Output, cause_name};
use super::record::{InstRecord, Record, Recorder, StallCause, SyncRecord, TransferRecord};
use super::summary::SummaryBuilder;
use crate::error::{Error, Result};
use crate::isa::Engine;
use crate::sync::SyncId;

/// Rows of a block.
const ROWS: usize = 1 << 16;
/// In the viewer's columns: nobody, nothing.
const NONE: u16 = u16::MAX;

/// One block: columns of bytes, filled together.
struct Block {
    kind: char,
    widths: &'static [usize],
    columns: Vec<Vec<u8>>,
    rows: usize,
}

impl Block {
    fn new(kind: char, widths: &'static [usize]) -> Self {
        Block { kind, widths, columns: vec![Vec::new(); widths.len()], rows: 0 }
    }

    fn row(&mut self, values: &[[u8; 8]]) {
        for ((column, value), width) in self.columns.iter_mut().zip(values).zip(self.widths) {
            column.extend_from_slice(&value[..*width]);
        }
        self.rows += 1;
    }

    fn write(&mut self, out: &mut Output) -> std::io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(4));
        for column in &mut self.columns {
            deflate.write_all(column)?;
            column.clear();
        }
        let bytes = deflate.finish()?;
        let (kind, rows) = (self.kind, self.rows);
        out.put(
            format!("<script type=\"text/plain\" data-k=\"{kind}\" data-n=\"{rows}\">").as_bytes(),
        );
        out.put(base64(&bytes).as_bytes());
        out.put(b"</script>\n");
        self.rows = 0;
        Ok(())
    }
}

/// Columns of slices: start, busy, pc, execution, start-head, start-granted, start-issue,
/// end-start, FLOPs, bytes read, bytes written, released-by execution, awaited id, released-by
/// stream, stream, flags, stall.
const SLICE: &[usize] = &[8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2, 1, 1];
/// Columns of waiting spans: from, ticks, pc, stream, cause.
const STALL: &[usize] = &[8, 4, 4, 2, 1];
/// Columns of updates: when, value, by execution, id, by stream.
const SYNC: &[usize] = &[8, 4, 4, 2, 2];

/// Columns of slices on a Q7 core: start, ticks, pc, execution, cycles, core. A load of a library
/// has the highest pc.
const CORE: &[usize] = &[8, 4, 4, 4, 4, 1];
/// Columns of counters: when, value, which: the stream of a queue, or a memory from
/// [`MEMORY_COUNTER`] on (in 1/10 000).
const COUNTER: &[usize] = &[8, 4, 2];
const MEMORY_COUNTER: u16 = 0xff00;

/// Writes the file.
pub struct HtmlTrace {
    out: Output,
    context: Context,
    slices: Block,
    stalls: Block,
    updates: Block,
    cores: Block,
    counters: Block,
    depth: QueueDepth,
    attribution: Attribution,
    summary: SummaryBuilder,
    named: BTreeSet<(u16, u32)>,
    notes: Vec<(u64, u16, String)>,
    failed: Option<std::io::Error>,
}

/// Notes kept for the viewer.
const NOTES: usize = 10_000;

fn f64_of(n: u64) -> [u8; 8] {
    (n as f64).to_le_bytes()
}

fn f32_of(n: u64) -> [u8; 8] {
    let b = (n as f32).to_le_bytes();
    [b[0], b[1], b[2], b[3], 0, 0, 0, 0]
}

// times and counts that exceed a column saturate
fn u32_of(n: u64) -> [u8; 8] {
    n.min(u64::from(u32::MAX)).to_le_bytes()
}

fn number(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

fn sync_number(id: SyncId) -> u16 {
    match id {
        SyncId::Semaphore(n) => n & 0x7fff,
        SyncId::Event(n) => n | 0x8000,
    }
}

impl HtmlTrace {
    /// Starts the file.
    pub fn new(mut out: Output, context: Context) -> Self {
        let page = include_str!("viewer/viewer.html")
            .replace("/*STYLE*/", include_str!("viewer/viewer.css"));
        out.put(page.as_bytes());
        HtmlTrace {
            out,
            slices: Block::new('I', SLICE),
            stalls: Block::new('T', STALL),
            updates: Block::new('S', SYNC),
            cores: Block::new('Q', CORE),
            counters: Block::new('C', COUNTER),
            depth: QueueDepth::default(),
            attribution: context.attribution(),
            summary: context.summary(),
            context,
            named: BTreeSet::new(),
            notes: Vec::new(),
            failed: None,
        }
    }

    fn full(&mut self, limit: usize) {
        let blocks = [
            &mut self.slices,
            &mut self.stalls,
            &mut self.updates,
            &mut self.cores,
            &mut self.counters,
        ];
        for block in blocks {
            if block.rows >= limit && self.failed.is_none() {
                self.failed = block.write(&mut self.out).err();
            }
        }
    }

    fn instruction(&mut self, i: &InstRecord) {
        self.named.insert((i.stream, i.pc));
        let by = i.waited.and_then(|(_, by)| by);
        let stall = i.stall.and_then(|c| StallCause::ALL.iter().position(|x| *x == c));
        self.slices.row(&[
            f64_of(i.start),
            u32_of(i.busy_until.saturating_sub(i.start)),
            number(i.pc.into()),
            u32_of(i.index),
            u32_of(i.start.saturating_sub(i.head)),
            u32_of(i.start.saturating_sub(i.granted)),
            u32_of(i.start.saturating_sub(i.issue)),
            u32_of(i.end.saturating_sub(i.start)),
            f32_of(i.flops),
            u32_of(i.bytes[0]),
            u32_of(i.bytes[1]),
            u32_of(by.map_or(0, |(_, n)| n)),
            number(i.waited.map_or(NONE, |(id, _)| sync_number(id)).into()),
            number(by.map_or(NONE, |(s, _)| s).into()),
            number(i.stream.into()),
            number(i.data_path.into()),
            number(stall.map_or(0, |c| c as u64 + 1)),
        ]);
    }

    fn transfer(&mut self, t: &TransferRecord) {
        self.named.insert((t.stream, t.block));
        self.slices.row(&[
            f64_of(t.start),
            u32_of(t.end.saturating_sub(t.start)),
            number(t.block.into()),
            u32_of(t.index),
            u32_of(t.start.saturating_sub(t.queued)),
            u32_of(t.start.saturating_sub(t.queued)),
            u32_of(t.start.saturating_sub(t.queued)),
            u32_of(t.end.saturating_sub(t.start)),
            f32_of(0),
            u32_of(t.bytes),
            u32_of(t.bytes),
            u32_of(t.trigger.1),
            number(NONE.into()),
            number(t.trigger.0.into()),
            number(t.stream.into()),
            number(1 | 2 | (u64::from(t.load) << 2)),
            number(0),
        ]);
    }

    fn core(&mut self, core: usize, tick: u64, ticks: u64, pc: u32, index: u64, cycles: u64) {
        self.cores.row(&[
            f64_of(tick),
            u32_of(ticks),
            number(pc.into()),
            u32_of(index),
            u32_of(cycles),
            number(core as u64),
        ]);
    }

    fn counter(&mut self, tick: u64, value: u64, which: u16) {
        self.counters.row(&[f64_of(tick), u32_of(value), number(which.into())]);
    }

    fn depths(&mut self, points: &[DepthPoint]) {
        for p in points {
            self.counter(p.tick, p.depth, p.stream);
        }
    }

    fn update(&mut self, s: &SyncRecord) {
        self.updates.row(&[
            f64_of(s.tick),
            number(s.value.into()),
            u32_of(s.by.1),
            number(sync_number(s.id).into()),
            number(s.by.0.into()),
        ]);
    }
}

impl Recorder for HtmlTrace {
    fn record(&mut self, record: &Record) {
        let pc = match record {
            Record::Inst(i) => i.pc,
            _ => 0,
        };
        let stalls = &mut self.stalls;
        self.attribution.add(record, |s, span| {
            if let Some(cause) = span.cause {
                let cause = StallCause::ALL.iter().position(|x| *x == cause).unwrap_or(0);
                stalls.row(&[
                    f64_of(span.from),
                    u32_of(span.to - span.from),
                    number(pc.into()),
                    number(s as u64),
                    number(cause as u64),
                ]);
            }
        });
        self.summary.add(record);
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Transfer(t) => self.transfer(t),
            Record::Sync(s) => self.update(s),
            Record::Cores { tick, pc, index, cycles } => {
                self.named.insert((Engine::Pool as u16, *pc));
                let period = self.context.period(Engine::Pool as u16);
                for (core, &n) in cycles.iter().enumerate().filter(|(_, n)| **n > 0) {
                    self.core(core, *tick, n * period, *pc, *index, n);
                }
            }
            Record::Library { tick, end, index, cores, bytes, .. } => {
                for core in (0..8).filter(|c| cores >> c & 1 == 1) {
                    self.core(core, *tick, end - tick, u32::MAX, *index, (*bytes).into());
                }
            }
            Record::Usage { tick, memory, average, .. } => {
                let which = MEMORY_COUNTER + u16::from(*memory);
                self.counter(*tick, (*average).into(), which);
            }
            Record::Queued { .. } => {}
            Record::Note { tick, stream, text, .. } => {
                if self.notes.len() < NOTES {
                    self.notes.push((*tick, *stream, text.clone()));
                }
            }
        }
        let mut points = Vec::new();
        self.depth.add(record, |p| points.push(p));
        self.depths(&points);
        self.full(ROWS);
    }

    fn wants_usage(&self) -> bool {
        true
    }
}

impl Exporter for HtmlTrace {
    // what is not written yet takes about a fifth of its size in columns
    fn size(&self) -> u64 {
        let held = |b: &Block| b.rows * b.widths.iter().sum::<usize>() / 5;
        let blocks = [&self.slices, &self.stalls, &self.updates, &self.cores, &self.counters];
        self.out.size() + blocks.map(held).iter().sum::<usize>() as u64
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        let mut points = Vec::new();
        self.depth.advance(u64::MAX, |p| points.push(p));
        self.depths(&points);
        self.full(1);
        if let Some(e) = self.failed.take() {
            return Err(Error::io(std::path::Path::new("HTML trace"), &e));
        }
        let mut names: BTreeMap<u16, BTreeMap<u32, _>> = BTreeMap::new();
        for &(s, pc) in &self.named {
            names.entry(s).or_default().insert(pc, (*self.context.name(s, pc)).clone());
        }
        let summary = self.summary.finish(&self.context.header, ending.end, &*self.context.names);
        let meta = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "header": self.context.header,
            "facts": self.context.facts,
            "engines": self.context.engines(),
            "causes": StallCause::ALL.map(cause_name),
            "names": names,
            "notes": self.notes,
            "end": ending.end,
            "error": ending.error,
            "text": summary.text(),
            "summary": summary,
        });
        // "</script>" in a string must not end the element
        let meta = meta.to_string().replace("</", "<\\/");
        self.out.put(b"<script type=\"application/json\" id=\"meta\">");
        self.out.put(meta.as_bytes());
        self.out.put(b"</script>\n<script>\n");
        self.out.put(include_str!("viewer/data.js").as_bytes());
        self.out.put(include_str!("viewer/viewer.js").as_bytes());
        self.out.put(b"</script>\n</body></html>\n");
        self.out.persist()
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i <= chunk.len() { digit } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_of_the_rfc() {
        // RFC 4648, section 10
        for (text, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(super::base64(text.as_bytes()), coded);
        }
    }
}

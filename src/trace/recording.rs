//! Our own recording, packed: blocks of deflated records, in which most fields are small
//! differences to what came before in the same stream. Everything that a `.jsonl` recording has is
//! here too; one record takes some ten bytes on disk.
//!
//! File: [`MAGIC`], then blocks of a kind byte, a 32-bit little-endian length and so many bytes:
//! `J` one JSON line of [`super::lines`], `R` records.

use std::collections::HashSet;
use std::io::{BufRead, Read, Write};

use serde::Serialize;

use super::export::{Context, Ending, Exporter, Output};
use super::lines::Line;
use super::record::{InstRecord, Record, Recorder, StallCause, SyncOp, SyncRecord, TransferRecord};
use crate::error::Result;
use crate::sync::SyncId;

/// First bytes of a recording.
pub const MAGIC: &[u8; 10] = b"tpbtrace1\n";
/// Bytes of records before they are deflated and written.
const BLOCK: usize = 1 << 18;
/// Most bytes of a block that is read: a block is written when it exceeds [`BLOCK`] by a record,
/// and a JSON line holds the facts of the program.
const MOST: u64 = 1 << 30;

const OPS: [SyncOp; 6] =
    [SyncOp::Set, SyncOp::Clear, SyncOp::Add, SyncOp::Sub, SyncOp::Write, SyncOp::Wait];

/// What came before in a stream.
#[derive(Clone, Copy, Default)]
struct Before {
    pc: u64,
    index: u64,
    head: u64,
}

/// State that writer and reader share.
#[derive(Default)]
struct Codec {
    before: Vec<Before>,
    tick: u64,
}

impl Codec {
    fn stream(&mut self, s: u16) -> &mut Before {
        let s = usize::from(s);
        if self.before.len() <= s {
            self.before.resize(s + 1, Before::default());
        }
        &mut self.before[s]
    }
}

#[derive(Default)]
struct Packer {
    codec: Codec,
    bytes: Vec<u8>,
}

impl Packer {
    fn uint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    // wraps, so that any two values have a difference
    fn delta(&mut self, to: u64, from: u64) {
        let d = to.wrapping_sub(from) as i64;
        self.uint(((d << 1) ^ (d >> 63)) as u64);
    }

    fn id(&mut self, id: SyncId) {
        self.uint(match id {
            SyncId::Semaphore(n) => u64::from(n) << 1,
            SyncId::Event(n) => u64::from(n) << 1 | 1,
        });
    }

    fn by(&mut self, (stream, index): (u16, u64)) {
        self.uint(stream.into());
        let last = self.codec.stream(stream).index;
        self.delta(index, last);
    }

    fn tick(&mut self, tick: u64) {
        let last = std::mem::replace(&mut self.codec.tick, tick);
        self.delta(tick, last);
    }

    fn memories(&mut self, m: &[[u64; 2]; 3]) {
        for n in m.as_flattened() {
            self.uint(*n);
        }
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::Inst(i) => self.instruction(i),
            Record::Sync(s) => {
                self.bytes.push(1);
                self.tick(s.tick);
                self.id(s.id);
                self.uint(s.value.into());
                self.by(s.by);
                let op = OPS.iter().position(|o| *o == s.op).unwrap_or(0);
                self.bytes.push(op as u8);
            }
            Record::Transfer(t) => {
                self.bytes.push(2);
                self.uint(t.stream.into());
                let before = std::mem::replace(
                    self.codec.stream(t.stream),
                    Before { pc: t.block.into(), index: t.index, head: t.queued },
                );
                self.delta(t.block.into(), before.pc);
                self.delta(t.index, before.index);
                self.by(t.trigger);
                self.delta(t.queued, before.head);
                self.delta(t.start, t.queued);
                self.delta(t.end, t.start);
                self.uint(t.bytes);
                self.uint(t.engines.into());
                self.bytes.push(u8::from(t.load));
                self.memories(&t.by_memory);
            }
            Record::Cores { tick, pc, index, cycles } => {
                self.bytes.push(3);
                self.tick(*tick);
                self.uint((*pc).into());
                self.uint(*index);
                for n in cycles {
                    self.uint(*n);
                }
            }
            Record::Note { tick, stream, pc, text } => {
                self.bytes.push(4);
                self.tick(*tick);
                self.uint((*stream).into());
                self.uint((*pc).into());
                self.uint(text.len() as u64);
                self.bytes.extend_from_slice(text.as_bytes());
            }
            Record::Queued { tick, stream, transfers, by } => {
                self.bytes.push(5);
                self.tick(*tick);
                self.uint((*stream).into());
                self.uint((*transfers).into());
                self.by(*by);
            }
            Record::Library { tick, end, pc, index, cores, bytes } => {
                self.bytes.push(6);
                self.tick(*tick);
                self.delta(*end, *tick);
                self.uint((*pc).into());
                self.uint(*index);
                self.bytes.push(*cores);
                self.uint((*bytes).into());
            }
            Record::Usage { tick, memory, parts, average } => {
                self.bytes.push(7);
                self.tick(*tick);
                self.bytes.push(*memory);
                for n in parts {
                    self.uint((*n).into());
                }
                self.uint((*average).into());
            }
        }
    }

    fn instruction(&mut self, i: &InstRecord) {
        let stall =
            i.stall.and_then(|c| StallCause::ALL.iter().position(|s| *s == c)).map_or(0, |p| p + 1);
        let by = i.waited.is_some_and(|(_, by)| by.is_some());
        let sums = [0, 1].map(|w| i.by_memory.iter().map(|m: &[u64; 2]| m[w]).sum::<u64>());
        let plain = sums == i.bytes;
        let none = i.by_memory == [[0; 2]; 3] && plain && i.flops == 0;
        self.bytes.push(0);
        let flags = u8::from(i.data_path)
            | u8::from(i.waited.is_some()) << 1
            | u8::from(by) << 2
            | u8::from(plain) << 3
            | u8::from(none) << 4;
        self.bytes.extend([flags, stall as u8, i.opcode]);
        self.uint(i.stream.into());
        let before = std::mem::replace(
            self.codec.stream(i.stream),
            Before { pc: i.pc.into(), index: i.index, head: i.head },
        );
        self.delta(i.pc.into(), before.pc.wrapping_add(1));
        self.delta(i.index, before.index.wrapping_add(1));
        self.delta(i.head, before.head);
        self.delta(i.granted, i.head);
        self.delta(i.issue, i.granted);
        self.delta(i.start, i.issue);
        self.delta(i.busy_until, i.start);
        self.delta(i.reads_done, i.busy_until);
        self.delta(i.end, i.reads_done);
        if let Some((id, by)) = i.waited {
            self.id(id);
            if let Some(by) = by {
                self.by(by);
            }
        }
        if none {
            return;
        }
        self.memories(&i.by_memory);
        if !plain {
            self.uint(i.bytes[0]);
            self.uint(i.bytes[1]);
        }
        self.uint(i.flops);
    }
}

/// Writes the recording.
pub struct RecordingTrace {
    out: Output,
    context: Context,
    named: HashSet<(u16, u32)>,
    packer: Packer,
    failed: Option<std::io::Error>,
}

impl RecordingTrace {
    /// Starts the file.
    pub fn new(mut out: Output, context: Context) -> Self {
        out.put(MAGIC);
        let start = Line::start(&context);
        let mut trace = RecordingTrace {
            out,
            context,
            named: HashSet::new(),
            packer: Packer::default(),
            failed: None,
        };
        trace.line(&start);
        trace
    }

    fn block(&mut self, kind: u8, bytes: &[u8]) {
        self.out.put(&[kind]);
        self.out.put(&(bytes.len() as u32).to_le_bytes());
        self.out.put(bytes);
    }

    fn line(&mut self, line: &impl Serialize) {
        let text = serde_json::to_vec(line).unwrap_or_default();
        self.block(b'J', &text);
    }

    fn flush(&mut self) {
        if self.packer.bytes.is_empty() {
            return;
        }
        let fast = flate2::Compression::fast();
        let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), fast);
        match deflate.write_all(&self.packer.bytes).and_then(|()| deflate.finish()) {
            Ok(bytes) => self.block(b'R', &bytes),
            Err(e) => self.failed = self.failed.take().or(Some(e)),
        }
        self.packer.bytes.clear();
    }
}

impl Recorder for RecordingTrace {
    fn record(&mut self, record: &Record) {
        if let Some((stream, pc)) = record.word()
            && self.named.insert((stream, pc))
        {
            // a name stands in a block of its own: it may come before records that are older
            let line = Line::name(&self.context, stream, pc);
            self.line(&line);
        }
        self.packer.record(record);
        if self.packer.bytes.len() >= BLOCK {
            self.flush();
        }
    }

    fn wants_usage(&self) -> bool {
        true
    }
}

impl Exporter for RecordingTrace {
    fn size(&self) -> u64 {
        // deflated records take about a third
        self.out.size() + self.packer.bytes.len() as u64 / 3
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        self.flush();
        self.line(&Line::end(ending));
        if let Some(e) = self.failed {
            return Err(crate::Error::io(std::path::Path::new("recording"), &e));
        }
        self.out.persist()
    }
}

/// Reads blocks one after the other.
pub(super) struct Unpacker<R> {
    input: R,
    codec: Codec,
    bytes: Vec<u8>,
    at: usize,
}

/// What stands next in a recording.
pub(super) enum Next {
    /// A JSON line.
    Line(Vec<u8>),
    /// A record.
    Record(Record),
    /// Nothing.
    End,
}

type Unpacked<T> = std::result::Result<T, String>;

impl<R: BufRead> Unpacker<R> {
    /// Reads from behind [`MAGIC`].
    pub fn new(input: R) -> Self {
        Unpacker { input, codec: Codec::default(), bytes: Vec::new(), at: 0 }
    }

    /// The next line or record.
    pub fn next(&mut self) -> Unpacked<Next> {
        while self.at >= self.bytes.len() {
            let mut head = [0; 5];
            let n = self.input.read(&mut head[..1]).map_err(|e| e.to_string())?;
            if n == 0 {
                return Ok(Next::End);
            }
            self.input.read_exact(&mut head[1..]).map_err(|e| e.to_string())?;
            let len = u64::from(u32::from_le_bytes([head[1], head[2], head[3], head[4]]));
            let mut block = Vec::new();
            self.input.by_ref().take(len).read_to_end(&mut block).map_err(|e| e.to_string())?;
            if block.len() as u64 != len {
                return Err("a block is cut short".into());
            }
            match head[0] {
                b'J' => return Ok(Next::Line(block)),
                b'R' => {
                    self.bytes.clear();
                    self.at = 0;
                    let n = flate2::read::ZlibDecoder::new(block.as_slice())
                        .take(MOST)
                        .read_to_end(&mut self.bytes)
                        .map_err(|e| e.to_string())?;
                    if n as u64 == MOST {
                        return Err("a block is too long".into());
                    }
                }
                kind => return Err(format!("a block of unknown kind {kind}")),
            }
        }
        self.record().map(Next::Record)
    }

    fn byte(&mut self) -> Unpacked<u8> {
        let b = self.bytes.get(self.at).copied().ok_or("a record is cut short")?;
        self.at += 1;
        Ok(b)
    }

    fn uint(&mut self) -> Unpacked<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            n |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(n);
            }
        }
        Err("a number is too long".into())
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Unpacked<T> {
        self.uint()?.try_into().map_err(|_| "a number is too large".to_string())
    }

    fn delta(&mut self, from: u64) -> Unpacked<u64> {
        let z = self.uint()?;
        Ok(from.wrapping_add((z >> 1) ^ (z & 1).wrapping_neg()))
    }

    fn id(&mut self) -> Unpacked<SyncId> {
        let n = self.uint()?;
        let number = u16::try_from(n >> 1).map_err(|_| "an id is too large")?;
        Ok(if n & 1 == 1 { SyncId::Event(number) } else { SyncId::Semaphore(number) })
    }

    fn by(&mut self) -> Unpacked<(u16, u64)> {
        let stream: u16 = self.small()?;
        let last = self.codec.stream(stream).index;
        Ok((stream, self.delta(last)?))
    }

    fn tick(&mut self) -> Unpacked<u64> {
        let tick = self.delta(self.codec.tick)?;
        self.codec.tick = tick;
        Ok(tick)
    }

    fn memories(&mut self) -> Unpacked<[[u64; 2]; 3]> {
        let mut out = [[0; 2]; 3];
        for n in out.as_flattened_mut() {
            *n = self.uint()?;
        }
        Ok(out)
    }

    fn record(&mut self) -> Unpacked<Record> {
        Ok(match self.byte()? {
            0 => Record::Inst(self.instruction()?),
            1 => {
                let (tick, id, value, by) = (self.tick()?, self.id()?, self.small()?, self.by()?);
                let op = *OPS.get(usize::from(self.byte()?)).ok_or("an unknown operation")?;
                Record::Sync(SyncRecord { tick, id, value, by, op })
            }
            2 => {
                let stream: u16 = self.small()?;
                let before = *self.codec.stream(stream);
                let block = u32::try_from(self.delta(before.pc)?).map_err(|e| e.to_string())?;
                let index = self.delta(before.index)?;
                // the trigger may be of the same stream, whose last execution is this one
                self.codec.stream(stream).index = index;
                let trigger = self.by()?;
                let queued = self.delta(before.head)?;
                *self.codec.stream(stream) = Before { pc: block.into(), index, head: queued };
                let start = self.delta(queued)?;
                let end = self.delta(start)?;
                let (bytes, engines) = (self.uint()?, self.small()?);
                let load = self.byte()? != 0;
                let by_memory = self.memories()?;
                Record::Transfer(TransferRecord {
                    stream,
                    block,
                    index,
                    trigger,
                    queued,
                    start,
                    end,
                    bytes,
                    engines,
                    load,
                    by_memory,
                })
            }
            3 => {
                let (tick, pc, index) = (self.tick()?, self.small()?, self.uint()?);
                let mut cycles = [0; 8];
                for n in &mut cycles {
                    *n = self.uint()?;
                }
                Record::Cores { tick, pc, index, cycles }
            }
            4 => {
                let (tick, stream, pc) = (self.tick()?, self.small()?, self.small()?);
                let len = usize::try_from(self.uint()?).map_err(|e| e.to_string())?;
                let end = self.at.checked_add(len).ok_or("a text is too long")?;
                let text = self.bytes.get(self.at..end).ok_or("a text is cut short")?;
                let text = String::from_utf8_lossy(text).into_owned();
                self.at = end;
                Record::Note { tick, stream, pc, text }
            }
            5 => Record::Queued {
                tick: self.tick()?,
                stream: self.small()?,
                transfers: self.small()?,
                by: self.by()?,
            },
            6 => {
                let tick = self.tick()?;
                let end = self.delta(tick)?;
                let (pc, index, cores) = (self.small()?, self.uint()?, self.byte()?);
                Record::Library { tick, end, pc, index, cores, bytes: self.small()? }
            }
            7 => {
                let (tick, memory) = (self.tick()?, self.byte()?);
                let mut parts = [0; 8];
                for n in &mut parts {
                    *n = self.small()?;
                }
                Record::Usage { tick, memory, parts, average: self.small()? }
            }
            kind => return Err(format!("a record of unknown kind {kind}")),
        })
    }

    fn instruction(&mut self) -> Unpacked<InstRecord> {
        let (flags, stall, opcode) = (self.byte()?, self.byte()?, self.byte()?);
        let stream: u16 = self.small()?;
        let before = *self.codec.stream(stream);
        let pc =
            u32::try_from(self.delta(before.pc.wrapping_add(1))?).map_err(|e| e.to_string())?;
        let index = self.delta(before.index.wrapping_add(1))?;
        let head = self.delta(before.head)?;
        *self.codec.stream(stream) = Before { pc: pc.into(), index, head };
        let granted = self.delta(head)?;
        let issue = self.delta(granted)?;
        let start = self.delta(issue)?;
        let busy_until = self.delta(start)?;
        let reads_done = self.delta(busy_until)?;
        let end = self.delta(reads_done)?;
        let mut waited = None;
        if flags & 2 != 0 {
            let id = self.id()?;
            waited = Some((id, if flags & 4 != 0 { Some(self.by()?) } else { None }));
        }
        let (mut by_memory, mut bytes, mut flops) = ([[0; 2]; 3], [0; 2], 0);
        if flags & 16 == 0 {
            by_memory = self.memories()?;
            bytes = match flags & 8 {
                0 => [self.uint()?, self.uint()?],
                _ => [0, 1].map(|w| {
                    by_memory.iter().fold(0, |sum: u64, m: &[u64; 2]| sum.saturating_add(m[w]))
                }),
            };
            flops = self.uint()?;
        }
        let stall = match stall {
            0 => None,
            n => Some(*StallCause::ALL.get(usize::from(n) - 1).ok_or("an unknown cause")?),
        };
        Ok(InstRecord {
            stream,
            pc,
            index,
            opcode,
            data_path: flags & 1 != 0,
            head,
            granted,
            issue,
            start,
            busy_until,
            reads_done,
            end,
            waited,
            stall,
            bytes,
            by_memory,
            flops,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id() -> impl Strategy<Value = SyncId> {
        (any::<bool>(), any::<u16>())
            .prop_map(|(e, n)| if e { SyncId::Event(n) } else { SyncId::Semaphore(n) })
    }

    fn by() -> impl Strategy<Value = (u16, u64)> {
        (0u16..12, any::<u64>())
    }

    fn record() -> impl Strategy<Value = Record> {
        let inst = (
            (0u16..9, any::<u32>(), any::<u64>(), any::<u8>(), any::<bool>()),
            prop::array::uniform7(any::<u64>()),
            prop::option::of((id(), prop::option::of(by()))),
            prop::option::of(prop::sample::select(StallCause::ALL.to_vec())),
            prop::array::uniform3(prop::array::uniform2(0u64..1 << 40)),
            prop::option::of(any::<[u64; 2]>()),
            any::<u64>(),
        )
            .prop_map(|(a, t, waited, stall, by_memory, bytes, flops)| {
                let sums = [0, 1].map(|w| by_memory.iter().map(|m: &[u64; 2]| m[w]).sum());
                Record::Inst(InstRecord {
                    stream: a.0,
                    pc: a.1,
                    index: a.2,
                    opcode: a.3,
                    data_path: a.4,
                    head: t[0],
                    granted: t[1],
                    issue: t[2],
                    start: t[3],
                    busy_until: t[4],
                    reads_done: t[5],
                    end: t[6],
                    waited,
                    stall,
                    bytes: bytes.unwrap_or(sums),
                    by_memory,
                    flops,
                })
            });
        let transfer = (
            (0u16..9, any::<u32>(), any::<u64>(), by()),
            prop::array::uniform4(any::<u64>()),
            any::<u32>(),
            any::<bool>(),
            any::<[[u64; 2]; 3]>(),
        )
            .prop_map(|(a, t, engines, load, by_memory)| {
                Record::Transfer(TransferRecord {
                    stream: a.0,
                    block: a.1,
                    index: a.2,
                    trigger: a.3,
                    queued: t[0],
                    start: t[1],
                    end: t[2],
                    bytes: t[3],
                    engines,
                    load,
                    by_memory,
                })
            });
        prop_oneof![
            inst,
            transfer,
            (any::<u64>(), id(), any::<u32>(), by(), prop::sample::select(OPS.to_vec())).prop_map(
                |(tick, id, value, by, op)| Record::Sync(SyncRecord { tick, id, value, by, op })
            ),
            (any::<u64>(), any::<u32>(), any::<u64>(), any::<[u64; 8]>())
                .prop_map(|(tick, pc, index, cycles)| Record::Cores { tick, pc, index, cycles }),
            (any::<u64>(), any::<u16>(), any::<u32>(), ".*")
                .prop_map(|(tick, stream, pc, text)| Record::Note { tick, stream, pc, text }),
            (any::<u64>(), any::<u16>(), any::<u32>(), by()).prop_map(
                |(tick, stream, transfers, by)| Record::Queued { tick, stream, transfers, by }
            ),
            (any::<[u64; 3]>(), any::<u32>(), any::<u8>(), any::<u32>()).prop_map(
                |(t, pc, cores, bytes)| Record::Library {
                    tick: t[0],
                    end: t[1],
                    pc,
                    index: t[2],
                    cores,
                    bytes
                }
            ),
            (any::<u64>(), any::<u8>(), any::<[u16; 8]>(), any::<u16>()).prop_map(
                |(tick, memory, parts, average)| Record::Usage { tick, memory, parts, average }
            ),
        ]
    }

    fn unpack(bytes: Vec<u8>, mut each: impl FnMut(Record)) -> Unpacked<()> {
        let mut u = Unpacker { bytes, ..Unpacker::new(&b""[..]) };
        while u.at < u.bytes.len() {
            each(u.record()?);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn records_come_back(records in prop::collection::vec(record(), 0..40)) {
            let mut packer = Packer::default();
            records.iter().for_each(|r| packer.record(r));
            let mut back = Vec::new();
            unpack(packer.bytes, |r| back.push(r)).unwrap();
            prop_assert_eq!(back, records);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = unpack(bytes.clone(), |_| {});
            let mut u = Unpacker::new(bytes.as_slice());
            while let Ok(Next::Line(_) | Next::Record(_)) = u.next() {}
        }
    }
}

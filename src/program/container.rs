//! The binary container `.tpbc`: a fixed head, a JSON description, and the raw bytes it points to.
//!
//! `docs/program-format.md` specifies it. The description never decides how much is allocated: each
//! section must lie inside the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::elem::ElemType;
use super::limits;
use super::model::{
    AllowedRace, Check, DmaBlock, DmaQueue, Expected, Memory, Program, Role, SourceLine, SpStream,
    Stream, TableSource, Tensor,
};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::text::lex::is_name;
use crate::isa::{Engine, Generation};

/// First bytes of a container.
pub const MAGIC: [u8; 8] = *b"TPBC\r\n\x1a\n";
/// Version written; readers accept this one only.
pub const VERSION: u32 = 1;
/// Bytes before the description.
const HEAD: usize = 32;
/// Sections start at multiples of this.
const ALIGNMENT: usize = 16;

/// A run of bytes behind the description: offset from the first section, and length.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Section {
    offset: u64,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    generation: Generation,
    #[serde(default)]
    v1_events8: bool,
    streams: Vec<StreamEntry>,
    #[serde(default)]
    v1_sp: Option<SpEntry>,
    tensors: Vec<TensorEntry>,
    semaphores: BTreeMap<String, u32>,
    events: BTreeMap<String, u32>,
    queues: Vec<DmaQueue>,
    blocks: Vec<DmaBlock>,
    checks: Vec<CheckEntry>,
    allowed_races: Vec<AllowedRace>,
    metadata: BTreeMap<String, String>,
    sources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    table_parts: Vec<TableEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    table_names: BTreeMap<String, u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: String,
    bytes: Section,
}

/// One part of an activation table set.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableEntry {
    set: u32,
    part: TablePart,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum TablePart {
    Profile { func: u8, document: Section },
    Blobs { buckets: Section, control: Section, manifest: Section },
    Generated { name: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamEntry {
    engine: Engine,
    words: Section,
    /// Pairs of u32: file, line.
    lines: Option<Section>,
    labels: BTreeMap<String, usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpEntry {
    words: Section,
    lines: Option<Section>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorEntry {
    name: String,
    dtype: ElemType,
    shape: Vec<u64>,
    memory: Memory,
    address: u64,
    role: Role,
    init: Option<Section>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckEntry {
    tensor: String,
    origin: String,
    kind: ExpectedKind,
    expected: Section,
    atol: f64,
    rtol: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExpectedKind {
    /// f64 each.
    Floats,
    /// 16-byte whole numbers.
    Ints,
    /// Bytes of the tensor.
    Bytes,
}

fn bad(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorClass::ProgramError, format!("damaged container: {message}"))
}

/// FNV-1a over eight bytes at a time; finds truncation and bit rot, not malice.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut chunks = bytes.chunks_exact(8);
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(17);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        mix(u64::from_le_bytes(word));
    }
    let mut last = [0; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    mix(bytes.len() as u64);
    hash
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) -> Section {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        Section { offset, bytes: bytes.len() as u64 }
    }

    fn lines(&mut self, lines: &[SourceLine]) -> Option<Section> {
        if lines.is_empty() {
            return None;
        }
        let bytes: Vec<u8> =
            lines.iter().flat_map(|l| [l.file, l.line]).flat_map(u32::to_le_bytes).collect();
        Some(self.put(&bytes))
    }
}

/// Encodes a program. The same program always gives the same bytes.
///
/// # Errors
/// The description cannot be written (never for a program that the assembler made).
pub fn encode(program: &Program) -> Result<Vec<u8>> {
    let mut writer = Writer::default();
    let mut streams = Vec::new();
    for stream in &program.streams {
        streams.push(StreamEntry {
            engine: stream.engine,
            words: writer.put(stream.words.as_flattened()),
            lines: writer.lines(&stream.lines),
            labels: stream.labels.clone(),
        });
    }
    let sp = &program.v1_sp;
    let v1_sp = (!sp.words.is_empty()).then(|| SpEntry {
        words: writer.put(sp.words.as_flattened()),
        lines: writer.lines(&sp.lines),
    });
    let mut tensors = Vec::new();
    for t in &program.tensors {
        tensors.push(TensorEntry {
            name: t.name.clone(),
            dtype: t.dtype,
            shape: t.shape.clone(),
            memory: t.memory,
            address: t.address,
            role: t.role,
            init: t.init.as_ref().map(|bytes| writer.put(bytes)),
        });
    }
    let mut checks = Vec::new();
    for c in &program.checks {
        let (kind, expected) = match &c.expected {
            Expected::Floats(v) => {
                let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
                (ExpectedKind::Floats, writer.put(&bytes))
            }
            Expected::Ints(v) => {
                let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
                (ExpectedKind::Ints, writer.put(&bytes))
            }
            Expected::Bytes(v) => (ExpectedKind::Bytes, writer.put(v)),
        };
        checks.push(CheckEntry {
            tensor: c.tensor.clone(),
            origin: c.origin.clone(),
            kind,
            expected,
            atol: c.atol,
            rtol: c.rtol,
        });
    }
    let files = program.files.iter();
    let files =
        files.map(|(name, b)| FileEntry { name: name.clone(), bytes: writer.put(b) }).collect();
    let mut table_parts = Vec::new();
    for (set, part) in program.table_sets.iter().flat_map(|(n, p)| p.iter().map(move |p| (*n, p))) {
        let part = match part {
            TableSource::Profile { func, document } => {
                TablePart::Profile { func: *func, document: writer.put(document.as_bytes()) }
            }
            TableSource::Blobs { buckets, control, manifest } => TablePart::Blobs {
                buckets: writer.put(buckets),
                control: writer.put(control),
                manifest: writer.put(manifest.as_bytes()),
            },
            TableSource::Generated { name } => TablePart::Generated { name: name.clone() },
        };
        table_parts.push(TableEntry { set, part });
    }
    let description = Description {
        generation: program.generation,
        v1_events8: program.v1_events8,
        streams,
        v1_sp,
        tensors,
        semaphores: program.semaphores.clone(),
        events: program.events.clone(),
        queues: program.queues.clone(),
        blocks: program.blocks.clone(),
        checks,
        allowed_races: program.allowed_races.clone(),
        metadata: program.metadata.clone(),
        sources: program.sources.clone(),
        files,
        table_parts,
        table_names: program.table_names.clone(),
    };
    let mut json = serde_json::to_vec(&description)
        .map_err(|e| Error::internal(format!("container description: {e}")))?;
    // Spaces are legal JSON, so the sections can start aligned.
    json.resize((HEAD + json.len()).next_multiple_of(ALIGNMENT) - HEAD, b' ');
    let mut body = json;
    let json_bytes = body.len() as u64;
    body.extend_from_slice(&writer.bytes);
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&json_bytes.to_le_bytes());
    out.extend_from_slice(&checksum(&body).to_le_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

/// True if `bytes` start like a container.
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Decodes a container.
///
/// # Errors
/// [`ErrorClass::ProgramError`] for anything that [`encode`] would not write.
pub fn decode(bytes: &[u8]) -> Result<Program> {
    let u32_at =
        |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    let u64_at =
        |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    if !is_container(bytes) {
        return Err(bad("it does not start with the container's magic bytes"));
    }
    match u32_at(8) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(bad(format!("version {other}, this program reads version {VERSION}")));
        }
        None => return Err(bad("truncated head")),
    }
    let (Some(json_bytes), Some(sum)) = (u64_at(16), u64_at(24)) else {
        return Err(bad("truncated head"));
    };
    let body = &bytes[HEAD..];
    if checksum(body) != sum {
        return Err(bad("the checksum does not match (truncated or altered file)"));
    }
    let json = usize::try_from(json_bytes)
        .ok()
        .and_then(|n| body.get(..n))
        .ok_or_else(|| bad("the description is longer than the file"))?;
    let sections = &body[json.len()..];
    let description: Description = serde_json::from_slice(json).map_err(bad)?;
    Reader { sections, used: 0 }.program(description)
}

/// Names must be such that a disassembly can declare them, and unique where a name is looked up.
fn check_names(d: &Description) -> Result<()> {
    let labels = d.streams.iter().flat_map(|s| s.labels.keys());
    let blocks = d.blocks.iter().filter_map(|b| b.name.as_ref());
    let maps = d.semaphores.keys().chain(d.events.keys()).chain(d.metadata.keys());
    let maps = maps.chain(d.table_names.keys());
    let tensors = d.tensors.iter().map(|t| &t.name);
    let queues = d.queues.iter().map(|q| &q.name);
    let kinds = d.queues.iter().filter_map(|q| q.kind.as_ref());
    let words = labels.chain(blocks).chain(maps).chain(kinds);
    if let Some(name) = words.chain(tensors.clone()).chain(queues.clone()).find(|n| !is_word(n)) {
        return Err(bad(format!("`{}` is no name", name.escape_debug())));
    }
    if let Some(name) = tensors.clone().find(|n| !is_name(n)) {
        return Err(bad(format!("a tensor cannot be called `{name}`")));
    }
    let twice = |names: Vec<&String>| {
        let mut seen = std::collections::HashSet::new();
        names.into_iter().find(|n| !seen.insert(n.as_str())).cloned()
    };
    match twice(tensors.collect()).or_else(|| twice(queues.collect())) {
        Some(name) => Err(bad(format!("`{name}` is declared twice"))),
        None => Ok(()),
    }
}

/// True if the text is one name token.
fn is_word(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

struct Reader<'a> {
    sections: &'a [u8],
    used: u64,
}

impl<'a> Reader<'a> {
    fn get(&mut self, section: Section) -> Result<&'a [u8]> {
        // Sections may not be shared, so that a small file cannot ask for much memory.
        self.used = self.used.saturating_add(section.bytes);
        if self.used > self.sections.len() as u64 {
            return Err(bad("the sections are larger than the file"));
        }
        let end = section.offset.checked_add(section.bytes);
        let range = end.and_then(|end| {
            Some(usize::try_from(section.offset).ok()?..usize::try_from(end).ok()?)
        });
        range
            .and_then(|range| self.sections.get(range))
            .ok_or_else(|| bad("a section lies outside the file"))
    }

    fn text(&mut self, section: Section) -> Result<String> {
        String::from_utf8(self.get(section)?.to_vec()).map_err(|_| bad("a document is not UTF-8"))
    }

    fn items<const N: usize>(&mut self, section: Section, what: &str) -> Result<Vec<[u8; N]>> {
        let bytes = self.get(section)?;
        let (items, rest) = bytes.as_chunks::<N>();
        if !rest.is_empty() {
            return Err(bad(format!("{what}: {} bytes are no multiple of {N}", bytes.len())));
        }
        Ok(items.to_vec())
    }

    fn lines(&mut self, section: Option<Section>, words: usize) -> Result<Vec<SourceLine>> {
        let Some(section) = section else { return Ok(Vec::new()) };
        let items = self.items::<8>(section, "source lines")?;
        if items.len() != words {
            return Err(bad("source lines and words differ in number"));
        }
        let number = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok(items
            .iter()
            .map(|b| SourceLine { file: number(&b[..4]), line: number(&b[4..]) })
            .collect())
    }

    fn program(mut self, d: Description) -> Result<Program> {
        let counts = [d.tensors.len(), d.queues.len(), d.blocks.len(), d.checks.len()];
        if counts.into_iter().any(|n| n > limits::DECLARATIONS) {
            return Err(bad("too many declarations"));
        }
        check_names(&d)?;
        let mut program = Program::new(d.generation);
        program.v1_events8 = d.v1_events8;
        for entry in d.streams {
            if program.stream(entry.engine).is_some() {
                return Err(bad(format!("two streams of {}", entry.engine)));
            }
            let words = self.items::<64>(entry.words, "words")?;
            if words.len() > limits::WORDS_PER_STREAM {
                return Err(bad(format!("the stream of {} is too long", entry.engine)));
            }
            let lines = self.lines(entry.lines, words.len())?;
            if entry.labels.values().any(|at| *at > words.len()) {
                return Err(bad("a label stands behind the end of its stream"));
            }
            *program.stream_mut(entry.engine) =
                Stream { engine: entry.engine, words, lines, labels: entry.labels };
        }
        if let Some(entry) = d.v1_sp {
            let words = self.items::<8>(entry.words, "SP words")?;
            if words.len() > limits::WORDS_PER_STREAM {
                return Err(bad("the SP stream is too long"));
            }
            let lines = self.lines(entry.lines, words.len())?;
            program.v1_sp = SpStream { words, lines };
        }
        for entry in d.tensors {
            let init = entry.init.map(|s| self.get(s)).transpose()?.map(<[u8]>::to_vec);
            let tensor = Tensor {
                name: entry.name,
                dtype: entry.dtype,
                shape: entry.shape,
                memory: entry.memory,
                address: entry.address,
                role: entry.role,
                init,
            };
            if tensor.shape.len() > limits::TENSOR_DIMENSIONS
                || tensor.bytes() > limits::TENSOR_BYTES
            {
                return Err(bad(format!("tensor `{}` is too large", tensor.name)));
            }
            if tensor.init.as_ref().is_some_and(|b| b.len() as u64 != tensor.bytes()) {
                return Err(bad(format!("tensor `{}` and its data differ in size", tensor.name)));
            }
            super::place::check_bounds(&tensor, program.generation)
                .map_err(|why| bad(format!("tensor `{}`: {why}", tensor.name)))?;
            program.tensors.push(tensor);
        }
        for block in &d.blocks {
            if block.queue >= d.queues.len() {
                return Err(bad("a DMA block names a queue that does not exist"));
            }
            for transfer in &block.transfers {
                for side in [&transfer.src, &transfer.dst] {
                    super::place::check_side(side, program.generation)
                        .map_err(|why| bad(format!("a DMA block: {why}")))?;
                }
                if transfer.src.points() != transfer.dst.points() {
                    return Err(bad("the sides of a DMA copy differ in size"));
                }
            }
        }
        for entry in d.checks {
            let expected = match entry.kind {
                ExpectedKind::Floats => {
                    let items = self.items::<8>(entry.expected, "expected values")?;
                    Expected::Floats(items.into_iter().map(f64::from_le_bytes).collect())
                }
                ExpectedKind::Ints => {
                    let items = self.items::<16>(entry.expected, "expected values")?;
                    Expected::Ints(items.into_iter().map(i128::from_le_bytes).collect())
                }
                ExpectedKind::Bytes => Expected::Bytes(self.get(entry.expected)?.to_vec()),
            };
            program.checks.push(Check {
                tensor: entry.tensor,
                origin: entry.origin,
                expected,
                atol: entry.atol,
                rtol: entry.rtol,
            });
        }
        for entry in d.files {
            super::files::confined_name(&entry.name).map_err(bad)?;
            let bytes = self.get(entry.bytes)?.to_vec();
            program.files.insert(entry.name, bytes);
        }
        for entry in d.table_parts {
            let part = match entry.part {
                TablePart::Profile { func, document } => {
                    TableSource::Profile { func, document: self.text(document)? }
                }
                TablePart::Blobs { buckets, control, manifest } => TableSource::Blobs {
                    buckets: self.get(buckets)?.to_vec(),
                    control: self.get(control)?.to_vec(),
                    manifest: self.text(manifest)?,
                },
                TablePart::Generated { name } => TableSource::Generated { name },
            };
            program.table_sets.entry(entry.set).or_default().push(part);
        }
        program.activation_tables()?;
        program.table_names = d.table_names;
        program.semaphores = d.semaphores;
        program.events = d.events;
        program.queues = d.queues;
        program.blocks = d.blocks;
        program.allowed_races = d.allowed_races;
        program.metadata = d.metadata;
        program.sources = d.sources;
        Ok(program)
    }
}

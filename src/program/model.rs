//! What a program is, whatever file it came from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::elem::ElemType;
use crate::isa::{Engine, Generation};

/// A whole program: streams, data, DMA work, and what its outputs should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The generation whose encodings the words use.
    pub generation: Generation,
    /// V1 words carry the 8-byte events block of later generations, everything behind it four
    /// bytes further on (wiki: neff/seq-microcode 1).
    pub v1_events8: bool,
    /// Streams of 64-byte words, at most one per engine, by engine number.
    pub streams: Vec<Stream>,
    /// The V1 SP control program, 8-byte words; empty in later generations.
    pub v1_sp: SpStream,
    /// Tensors in order of declaration.
    pub tensors: Vec<Tensor>,
    /// Named semaphores.
    pub semaphores: BTreeMap<String, u32>,
    /// Named events.
    pub events: BTreeMap<String, u32>,
    /// DMA queues in order of declaration.
    pub queues: Vec<DmaQueue>,
    /// DMA blocks in order of declaration.
    pub blocks: Vec<DmaBlock>,
    /// Expected contents of tensors after the run.
    pub checks: Vec<Check>,
    /// Races that the program declares harmless.
    pub allowed_races: Vec<AllowedRace>,
    /// Free `key value` pairs.
    pub metadata: BTreeMap<String, String>,
    /// Files of the program's folder that its SIM words name, by name (V1).
    pub files: BTreeMap<String, Vec<u8>>,
    /// Tables of the activation engine by the number that ACTIVATION_TABLE_LOAD names.
    pub table_sets: BTreeMap<u32, Vec<TableSource>>,
    /// Names of table sets, as PSEUDO_LOAD_ACT_FUNC_SET words have them.
    pub table_names: BTreeMap<String, u32>,
    /// Names of the source files that [`SourceLine::file`] indexes.
    pub sources: Vec<String>,
}

impl Program {
    /// A program without content.
    pub fn new(generation: Generation) -> Self {
        Program {
            generation,
            v1_events8: false,
            streams: Vec::new(),
            v1_sp: SpStream::default(),
            tensors: Vec::new(),
            semaphores: BTreeMap::new(),
            events: BTreeMap::new(),
            queues: Vec::new(),
            blocks: Vec::new(),
            checks: Vec::new(),
            allowed_races: Vec::new(),
            metadata: BTreeMap::new(),
            files: BTreeMap::new(),
            table_sets: BTreeMap::new(),
            table_names: BTreeMap::new(),
            sources: Vec::new(),
        }
    }

    /// The stream of `engine`, if the program has one.
    pub fn stream(&self, engine: Engine) -> Option<&Stream> {
        self.streams.iter().find(|s| s.engine == engine)
    }

    /// The stream of `engine`, made if it is missing; streams stay in engine order.
    pub fn stream_mut(&mut self, engine: Engine) -> &mut Stream {
        let at = self.streams.partition_point(|s| s.engine < engine);
        if self.streams.get(at).is_none_or(|s| s.engine != engine) {
            self.streams.insert(at, Stream::new(engine));
        }
        &mut self.streams[at]
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// The position in [`Program::queues`] of the queue called `name`.
    pub fn queue(&self, name: &str) -> Option<usize> {
        self.queues.iter().position(|q| q.name == name)
    }

    /// The block with number `id` of the queue at position `queue`.
    pub fn block(&self, queue: usize, id: u32) -> Option<&DmaBlock> {
        self.blocks.iter().find(|b| b.queue == queue && b.id == id)
    }

    /// `file:line` of a word, if it came from a text.
    pub fn source_of(&self, line: SourceLine) -> Option<String> {
        let file = self.sources.get(line.file as usize)?;
        (line.line != 0).then(|| format!("{file}:{}", line.line))
    }
}

/// A line of a source file; line 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// Index in [`Program::sources`].
    pub file: u32,
    /// Line number, counted from 1.
    pub line: u32,
}

/// The 64-byte words of one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Whose stream it is.
    pub engine: Engine,
    /// The words in order.
    pub words: Vec<[u8; 64]>,
    /// Where each word came from: empty, or one entry per word.
    pub lines: Vec<SourceLine>,
    /// Labels: name and index of the word they stand before.
    pub labels: BTreeMap<String, usize>,
}

impl Stream {
    /// An empty stream.
    pub fn new(engine: Engine) -> Self {
        Stream { engine, words: Vec::new(), lines: Vec::new(), labels: BTreeMap::new() }
    }

    /// Where word `index` came from.
    pub fn line(&self, index: usize) -> SourceLine {
        self.lines.get(index).copied().unwrap_or_default()
    }
}

/// The 8-byte words of the V1 SP (wiki: neff/seq-microcode 3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpStream {
    /// The words in order.
    pub words: Vec<[u8; 8]>,
    /// Where each word came from: empty, or one entry per word.
    pub lines: Vec<SourceLine>,
}

/// A memory of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Device memory, linear.
    Hbm,
    /// State buffer: partitions of bytes.
    Sbuf,
    /// Accumulator memory: partitions of bytes, in banks.
    Psum,
}

impl Memory {
    /// Name as written in programs.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Hbm => "hbm",
            Memory::Sbuf => "sbuf",
            Memory::Psum => "psum",
        }
    }
}

/// What the outside does with a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Neither input nor output.
    #[default]
    Internal,
    /// Supplied before the run.
    Input,
    /// Read after the run.
    Output,
}

/// A named region with a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Unique name.
    pub name: String,
    /// Element type.
    pub dtype: ElemType,
    /// Extents, outermost first. On chip the first one counts partitions.
    pub shape: Vec<u64>,
    /// Where it lives.
    pub memory: Memory,
    /// First byte: a device address in HBM, else `partition * stride + byte` as operands have it
    /// (PSUM with its offset, wiki: dma/sbuf-psum-banks).
    pub address: u64,
    /// Initial bytes in row-major order of `shape`; `None` leaves the memory as it is.
    pub init: Option<Vec<u8>>,
    /// Input, output or neither.
    pub role: Role,
}

impl Tensor {
    /// Number of elements; saturates, the assembler rejects such shapes.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |n, d| n.saturating_mul(*d))
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.dtype.bytes_of(self.elements())
    }

    /// Partitions it covers: 1 in HBM.
    pub fn partitions(&self) -> u64 {
        match self.memory {
            Memory::Hbm => 1,
            _ => self.shape.first().copied().unwrap_or(1),
        }
    }

    /// Elements in each partition; all elements in HBM.
    fn row_elements(&self) -> u64 {
        let skip = usize::from(self.memory != Memory::Hbm);
        self.shape.iter().skip(skip).fold(1, |n, d| n.saturating_mul(*d))
    }

    /// Bytes in each partition; all bytes in HBM.
    pub fn row_bytes(&self) -> u64 {
        self.dtype.bytes_of(self.row_elements())
    }

    /// Bits in each partition; all bits in HBM. Saturates.
    pub fn row_bits(&self) -> u64 {
        self.row_elements().saturating_mul(self.dtype.bits().into())
    }
}

/// A DMA queue (wiki: neff/format-reference 3.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaQueue {
    /// Name, at most 31 bytes: it must fit the trigger word with its NUL.
    pub name: String,
    /// The engine that may trigger it.
    pub owner: Engine,
    /// Semaphore that gains 1 when a block of the queue is finished.
    pub semaphore: Option<u32>,
    /// Kind as the vendor's container has it, for instance `in`, `out`, `data`.
    pub kind: Option<String>,
}

/// What one trigger starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaBlock {
    /// Position in [`Program::queues`].
    pub queue: usize,
    /// Number within the queue, as the trigger word carries it.
    pub id: u32,
    /// Name in the source, if it came from one.
    pub name: Option<String>,
    /// Copies, in order.
    pub transfers: Vec<DmaTransfer>,
    /// What happens when the last byte of the block is written.
    pub on_done: Vec<Update>,
    /// Where it was declared.
    #[serde(default)]
    pub line: SourceLine,
}

/// One copy. Both sides have the same number of elements, taken in the order of their patterns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaTransfer {
    /// Where bytes come from.
    pub src: DmaSide,
    /// Where they go.
    pub dst: DmaSide,
}

/// A pattern of byte runs in one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaSide {
    /// Memory.
    pub memory: Memory,
    /// First byte, as in [`Tensor::address`]: on chip `partition * stride + byte`.
    pub address: u64,
    /// (step in bytes, count), innermost first. On chip a step of one partition stride goes to the
    /// next partition.
    pub dims: Vec<(i64, u64)>,
    /// Bytes moved at each point of the pattern.
    pub element_bytes: u64,
    /// Element type; sides that differ in it convert.
    pub dtype: ElemType,
}

impl DmaSide {
    /// Number of points of the pattern; saturates.
    pub fn points(&self) -> u64 {
        self.dims.iter().fold(1, |n, (_, count)| n.saturating_mul(*count))
    }

    /// Bytes moved; saturates.
    pub fn bytes(&self) -> u64 {
        self.points().saturating_mul(self.element_bytes)
    }
}

/// A change of an event or a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// Adds to a semaphore.
    SemaphoreAdd {
        /// Which one.
        index: u32,
        /// How much.
        amount: u32,
    },
    /// Subtracts from a semaphore.
    SemaphoreSub {
        /// Which one.
        index: u32,
        /// How much.
        amount: u32,
    },
    /// Writes a semaphore.
    SemaphoreSet {
        /// Which one.
        index: u32,
        /// New value.
        value: u32,
    },
    /// Sets an event.
    EventSet {
        /// Which one.
        index: u32,
    },
    /// Clears an event.
    EventClear {
        /// Which one.
        index: u32,
    },
}

/// One part of an activation table set. Parts of a set are loaded in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableSource {
    /// A function's profile document (JSON) under function number `func`.
    Profile {
        /// Function number, as the instruction byte has it.
        func: u8,
        /// The document.
        document: String,
    },
    /// A whole set as the vendor's compiler ships it.
    Blobs {
        /// Bucket records.
        buckets: Vec<u8>,
        /// Control records.
        control: Vec<u8>,
        /// Manifest (JSON).
        manifest: String,
    },
    /// A function whose table is fitted to its closed form, under its own number.
    Generated {
        /// Name of the function.
        name: String,
    },
}

/// What a tensor must hold after the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Name of the tensor.
    pub tensor: String,
    /// Where the expectation came from, for messages.
    pub origin: String,
    /// Expected values in row-major order.
    pub expected: Expected,
    /// Largest accepted absolute difference.
    pub atol: f64,
    /// Largest accepted difference relative to the expected value.
    pub rtol: f64,
}

/// Expected values. A value `x` passes if `|x - e| <= atol + rtol * |e|`, or both are NaN, or both
/// are the same infinity.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Numbers.
    Floats(Vec<f64>),
    /// Whole numbers, exact where f64 is not.
    Ints(Vec<i128>),
    /// The very bytes of the tensor; tolerances do not apply.
    Bytes(Vec<u8>),
}

impl Expected {
    /// Number of values, or of bytes.
    pub fn len(&self) -> usize {
        match self {
            Expected::Floats(v) => v.len(),
            Expected::Ints(v) => v.len(),
            Expected::Bytes(v) => v.len(),
        }
    }

    /// True without any value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A race that the program declares harmless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedRace {
    /// Only races on this tensor; `None` is any memory.
    pub tensor: Option<String>,
    /// Only races between these two streams.
    pub engines: Option<(Engine, Engine)>,
    /// Only races between these two instructions, `STREAM WORD` each: an engine and the number or
    /// label of a word, or a DMA queue and the number or name of a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<[String; 2]>,
    /// Why it is harmless.
    pub reason: String,
}

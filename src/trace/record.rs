//! What the machine tells about a run, in simulated order.
//!
//! All times are ticks. Streams are numbered: 0..4 the engines PE, ACT, POOL, DVE, SP, then the
//! DMA queues in the order of [`TraceHeader::streams`].

use serde::{Deserialize, Serialize};

use crate::sync::SyncId;

/// Facts that hold for the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Generation name.
    pub generation: String,
    /// Ticks per second.
    pub tick_hz: u64,
    /// Stream names; the first five are the engines.
    pub streams: Vec<String>,
    /// Ticks per cycle of each stream's own clock (of SP for DMA queues).
    pub periods: Vec<u64>,
}

/// Why an instruction did not start when its predecessor left the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StallCause {
    /// Its wait condition on a semaphore.
    Semaphore,
    /// Its wait condition on an event.
    Event,
    /// A result of an earlier instruction of the same engine.
    Dependency,
    /// The data path was still busy with earlier instructions.
    Queue,
    /// A DRAIN, or an instruction that waits for earlier ones as DRAIN does.
    Drain,
    /// A memory port or bank that another engine used.
    Port,
    /// Sequencer work: control instructions, branches, register loads.
    Control,
}

impl StallCause {
    /// All, in the order of their numbers in files.
    pub const ALL: [StallCause; 7] = [
        StallCause::Semaphore,
        StallCause::Event,
        StallCause::Dependency,
        StallCause::Queue,
        StallCause::Drain,
        StallCause::Port,
        StallCause::Control,
    ];
}

/// One executed instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InstRecord {
    /// Stream index.
    pub stream: u16,
    /// Index of the word in its stream.
    pub pc: u32,
    /// Number of the execution in its stream, from 0.
    pub index: u64,
    /// Opcode byte.
    pub opcode: u8,
    /// Whether it used the data path; control instructions run in the sequencer.
    pub data_path: bool,
    /// When it came to the head of its stream.
    pub head: u64,
    /// When its wait was satisfied (equal to `head` if at once).
    pub granted: u64,
    /// When the sequencer let it go.
    pub issue: u64,
    /// When its work started.
    pub start: u64,
    /// When the data path was free of it.
    pub busy_until: u64,
    /// When its sources were read.
    pub reads_done: u64,
    /// When its results were observed.
    pub end: u64,
    /// What it waited for, if it waited: the id and who made the last update (stream, execution).
    pub waited: Option<(SyncId, Option<(u16, u64)>)>,
    /// What held it between issue and start, or at the head apart from its wait.
    pub stall: Option<StallCause>,
    /// Bytes read and written, all partitions.
    pub bytes: [u64; 2],
    /// The same by memory, in the order of [`crate::memory::Space::ALL`].
    pub by_memory: [[u64; 2]; 3],
    /// Floating-point operations.
    pub flops: u64,
}

/// What changed an event or semaphore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncOp {
    /// An event was set.
    #[default]
    Set,
    /// An event was cleared.
    Clear,
    /// A number was added to a semaphore.
    Add,
    /// A number was taken from a semaphore.
    Sub,
    /// A semaphore was written.
    Write,
    /// A wait that is satisfied changed what it waited for.
    Wait,
}

/// One change of an event or semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SyncRecord {
    /// When it was visible.
    pub tick: u64,
    /// Which one.
    pub id: SyncId,
    /// New value.
    pub value: u32,
    /// Stream and execution that made it.
    pub by: (u16, u64),
    /// What was done to it.
    #[serde(default)]
    pub op: SyncOp,
}

/// One DMA transfer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TransferRecord {
    /// Stream index of the queue.
    pub stream: u16,
    /// Index of the block in the program, or of the instruction word that asked for it.
    pub block: u32,
    /// Number of the transfer in its queue, from 0.
    pub index: u64,
    /// Stream and execution of the trigger.
    pub trigger: (u16, u64),
    /// When the doorbell rang.
    pub queued: u64,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// DMA engines used.
    pub engines: u32,
    /// Whether HBM is the source.
    pub load: bool,
    /// Bytes read and written by memory, in the order of [`crate::memory::Space::ALL`].
    pub by_memory: [[u64; 2]; 3],
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// An instruction has been executed (emitted when all its times are known).
    Inst(InstRecord),
    /// An event or semaphore changed.
    Sync(SyncRecord),
    /// A DMA transfer has been executed.
    Transfer(TransferRecord),
    /// The Q7 cores of POOL ran library code for an instruction.
    Cores {
        /// When they started.
        tick: u64,
        /// Word in POOL's stream.
        pc: u32,
        /// Execution in POOL's stream.
        index: u64,
        /// Cycles of each core; 0 for a core that did not take part.
        cycles: [u64; 8],
    },
    /// A doorbell rang: transfers wait in a queue from `tick` on.
    Queued {
        /// When.
        tick: u64,
        /// Stream of the queue.
        stream: u16,
        /// Transfers of the job.
        transfers: u32,
        /// Stream and execution of the trigger.
        by: (u16, u64),
    },
    /// A library was loaded into Q7 cores.
    Library {
        /// When the load started.
        tick: u64,
        /// When the cores could run its code.
        end: u64,
        /// Word in POOL's stream.
        pc: u32,
        /// Execution in POOL's stream.
        index: u64,
        /// Cores that have it now, one bit each.
        cores: u8,
        /// Bytes that each core fetched.
        bytes: u32,
    },
    /// How full an on-chip memory was from `tick` on (see [`super::usage`]). These records come
    /// when the run is over, before nothing else.
    Usage {
        /// When.
        tick: u64,
        /// Memory, as position in [`crate::memory::Space::ALL`].
        memory: u8,
        /// Parts: partitions 0, 32, 64, 96 of SBUF, or PSUM banks 0 to 7, in 1/10 000.
        parts: [u16; 8],
        /// All of it, in 1/10 000.
        average: u16,
    },
    /// Something worth telling: notification, lost signal, wrapped semaphore.
    Note {
        /// When.
        tick: u64,
        /// Stream.
        stream: u16,
        /// Word.
        pc: u32,
        /// What.
        text: String,
    },
}

/// Takes records as they come.
pub trait Recorder: Send {
    /// Takes one record.
    fn record(&mut self, record: &Record);

    /// Whether it wants [`Record::Usage`], which costs the machine a look at every footprint.
    fn wants_usage(&self) -> bool {
        false
    }
}

impl Record {
    /// Stream and word (of a queue, block) of an executed instruction or transfer.
    pub fn word(&self) -> Option<(u16, u32)> {
        match self {
            Record::Inst(i) => Some((i.stream, i.pc)),
            Record::Transfer(t) => Some((t.stream, t.block)),
            _ => None,
        }
    }
}

impl Recorder for Vec<Record> {
    fn record(&mut self, record: &Record) {
        self.push(record.clone());
    }
}

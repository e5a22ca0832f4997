//! Certificates: "every schedule of this program gives the same result", in a form that a small
//! checker can follow without the analysis that found the proof.
//!
//! * [`decode`]: what each stream executes and touches, read from the program file by itself.
//! * [`check`]: whether the certificate's order is justified and orders every conflict.
//!
//! Neither uses `skeleton`, `check` (race detector, guarantees) or `sync`. They do share with the
//! emulator what defines the machine: the loader, the field tables of the instructions, the operand
//! decoders that give the footprint of a data-path instruction, and the scalar arithmetic of
//! sequencers. What library code of the Q7 cores touches is learned by running it.

pub mod check;
pub mod decode;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorClass, Result};
use crate::machine::MachineConfig;
use crate::program::Program;

/// `format` of every certificate.
pub const FORMAT: &str = "tpbemu-certificate";
/// Version of the format.
pub const VERSION: u32 = 1;

/// Most bytes of a certificate that are read.
const MOST_BYTES: u64 = 256 << 20;

/// A proof in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The program file, as it was named.
    pub path: PathBuf,
    /// Hash of instructions, DMA blocks and configuration, 32 hex digits.
    pub program: String,
    /// What is proved.
    pub statement: String,
    /// What it rests on, for readers; the checker has its own list.
    pub premises: Vec<PremiseText>,
    /// Instructions that each engine stream executes.
    pub streams: Vec<StreamLength>,
    /// Order of the jobs of each DMA queue.
    pub queues: Vec<QueueOrder>,
    /// Updates that come before waits in every schedule.
    pub edges: Vec<Edge>,
}

/// A premise, for readers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PremiseText {
    /// Its name.
    pub name: String,
    /// In words.
    pub text: String,
}

/// How much a stream executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamLength {
    /// Engine.
    pub name: String,
    /// Instructions executed.
    pub steps: u32,
}

/// The jobs of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueOrder {
    /// Queue.
    pub name: String,
    /// Stream and step of the instruction that rings for each job.
    pub jobs: Vec<(String, u32)>,
}

/// An update that comes before a wait in every schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The update.
    pub from: Source,
    /// The instruction that waits: engine and step.
    pub to: (String, u32),
}

/// An update.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// The n-th update of a step of an engine stream: (engine, step, n).
    Update(String, u32, u32),
    /// The n-th change that a sequencer instruction makes itself: (engine, step, n).
    Instant(String, u32, u32),
    /// The n-th update at the end of a job: (queue, job, n).
    Job(String, u32, u32),
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// The file cannot be read or is not a certificate of this version.
    pub fn load(path: &Path) -> Result<Certificate> {
        let io = |e: std::io::Error| Error::io(path, &e);
        if std::fs::metadata(path).map_err(io)?.len() > MOST_BYTES {
            return Err(refused(format!("{}: larger than {MOST_BYTES} bytes", path.display())));
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        serde_json::from_str(&text)
            .map_err(|e| refused(format!("{}: not a certificate: {e}", path.display())))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::internal(format!("certificate: {e}")))?;
        std::fs::write(path, text + "\n").map_err(|e| Error::io(path, &e))
    }
}

/// An error that refuses a certificate.
pub fn refused(why: impl Into<String>) -> Error {
    Error::new(ErrorClass::CheckFailed, why.into()).rule("certificate")
}

/// Hash of what the proof is about: instruction words, DMA blocks, queues and configuration. The
/// data of tensors do not enter, for the proof holds for any, except of a program that runs library
/// code: what that touches depends on them.
pub fn hash(program: &Program, config: &MachineConfig) -> String {
    let mut h = Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    h.text(&program.generation.to_string());
    h.number(u64::from(program.v1_events8));
    for stream in &program.streams {
        h.text(&stream.engine.to_string());
        h.number(stream.words.len() as u64);
        stream.words.iter().for_each(|w| h.bytes(w));
    }
    h.number(program.v1_sp.words.len() as u64);
    program.v1_sp.words.iter().for_each(|w| h.bytes(w));
    for queue in &program.queues {
        h.text(&format!("{queue:?}"));
    }
    for block in &program.blocks {
        // its place in the source is not part of what it does
        let (transfers, done) = (&block.transfers, &block.on_done);
        h.text(&format!("{} {} {transfers:?} {done:?}", block.queue, block.id));
    }
    if decode::loads_libraries(program) {
        for tensor in &program.tensors {
            h.text(&format!("{:?} {:#x}", tensor.memory, tensor.address));
            h.number(tensor.init.as_ref().map_or(0, |b| b.len() as u64));
            h.bytes(tensor.init.as_deref().unwrap_or_default());
        }
    }
    h.text(&format!("{config:?}"));
    format!("{:032x}", h.0)
}

/// FNV-1a of 128 bits.
struct Fnv(u128);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 =
                (self.0 ^ u128::from(*b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    fn number(&mut self, n: u64) {
        self.bytes(&n.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }
}

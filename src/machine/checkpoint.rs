//! Checkpoint files: a [`Snapshot`] and the records of the run so far, in one file that is written
//! whole or not at all.
//!
//! Layout, little-endian: magic, version (u32), checksum of what follows (u64), then sections, each
//! a length (u64) and its bytes: the header (JSON), the state, the directory of pages, the pages
//! (deflated), and any number of pieces of the recording (deflated JSON lines).

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::config::MachineConfig;
use super::options::{Options, Races};
use super::snapshot::{CHUNK, Page, Snapshot};
use crate::error::{Error, ErrorClass, Result};
use crate::memory::Space;
use crate::program::Program;
use crate::program::container;
use crate::trace::digest::Digest;
use crate::trace::{Record, Recorder};

const MAGIC: &[u8; 8] = b"TPBEMUCK";
const VERSION: u32 = 4;
/// Largest file that is read.
const MAX_FILE: u64 = 64 << 30;
/// Most bytes that a piece of the recording has when unpacked.
const MAX_PIECE: u64 = 1 << 28;
/// Bytes of recording that are packed together.
const PIECE: usize = 1 << 20;

/// What decides whether a checkpoint fits a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of the emulator that wrote it: the encoding of the state has no names.
    pub emulator: String,
    /// Checksum of the program.
    pub program: u64,
    /// Checksum of the configuration.
    pub config: u64,
    /// Options that change what happens: strict words, races (0 stop, 1 collect, 2 ignore), test
    /// for unwritten memory, timing only.
    pub options: (bool, u8, bool, bool),
}

impl Identity {
    /// Of a run of `program` under `config` with `options`.
    ///
    /// # Errors
    /// The program cannot be encoded.
    pub fn of(program: &Program, config: &MachineConfig, options: &Options) -> Result<Identity> {
        // where the text lay does not matter
        let mut program = program.clone();
        program.sources.clear();
        let config = serde_json::to_vec(config).map_err(|e| Error::internal(e.to_string()))?;
        let races = match options.races {
            Races::Stop => 0,
            Races::Collect => 1,
            Races::Ignore => 2,
        };
        Ok(Identity {
            emulator: env!("CARGO_PKG_VERSION").into(),
            program: container::checksum(&container::encode(&program)?),
            config: container::checksum(&config),
            options: (options.strict, races, options.check_unwritten, options.timing_only),
        })
    }

    fn differs(&self, other: &Identity) -> Option<&'static str> {
        if self.emulator != other.emulator {
            Some("another version of the emulator")
        } else if self.program != other.program {
            Some("another program")
        } else if self.config != other.config {
            Some("another configuration")
        } else if self.options != other.options {
            Some("other options (--lenient, --races, --allow-unwritten, --timing-only)")
        } else {
            None
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    identity: Identity,
    tick: u64,
    executed: u64,
    digest: u64,
}

/// A run at one moment, with what it recorded up to there.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Which run.
    pub identity: Identity,
    /// Digest of the trace so far.
    pub digest: u64,
    /// The machine.
    pub snapshot: Snapshot,
    /// The recording so far, in packed pieces.
    pieces: Vec<Arc<[u8]>>,
}

/// When a run leaves checkpoints, and where it starts.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Ticks between checkpoints, and the directory that takes them.
    pub every: Option<(u64, PathBuf)>,
    /// Go on from here.
    pub restore: Option<Arc<Checkpoint>>,
}

impl Plan {
    /// Whether machines must keep what snapshots need.
    pub fn snapshots(&self) -> bool {
        self.every.is_some() || self.restore.is_some()
    }
}

/// Name of the checkpoint at `tick` in a directory.
pub fn file_name(tick: u64) -> String {
    format!("tick-{tick:012}.ckpt")
}

fn damaged(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorClass::ProgramError,
        format!("{}: not a checkpoint, or damaged: {what}", path.display()),
    )
}

impl Checkpoint {
    /// Puts a checkpoint together.
    pub fn new(identity: Identity, digest: u64, snapshot: Snapshot, spool: &mut Spool) -> Self {
        Checkpoint { identity, digest, snapshot, pieces: spool.pieces() }
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let header = Header {
            identity: self.identity.clone(),
            tick: self.snapshot.tick,
            executed: self.snapshot.executed,
            digest: self.digest,
        };
        let internal = |e: String| Error::internal(format!("a checkpoint cannot be encoded: {e}"));
        let directory: Vec<(Space, u32, u64, u64)> = self
            .snapshot
            .pages
            .iter()
            .map(|p| (p.space, p.partition, p.byte, p.bytes.len() as u64))
            .collect();
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        for page in &self.snapshot.pages {
            packed.write_all(&page.bytes).map_err(|e| internal(e.to_string()))?;
        }
        let packed = packed.finish().map_err(|e| internal(e.to_string()))?;
        let mut body = Vec::new();
        section(&mut body, &serde_json::to_vec(&header).map_err(|e| internal(e.to_string()))?);
        section(&mut body, &pack(&self.snapshot.state));
        section(&mut body, &postcard::to_stdvec(&directory).map_err(|e| internal(e.to_string()))?);
        section(&mut body, &packed);
        for piece in &self.pieces {
            section(&mut body, piece);
        }
        let mut file = Vec::with_capacity(body.len() + 20);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&VERSION.to_le_bytes());
        file.extend_from_slice(&checksum(&body).to_le_bytes());
        file.extend_from_slice(&body);
        crate::program::files::write_whole(path, &file)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or is of another version.
    pub fn load(path: &Path) -> Result<Checkpoint> {
        let file = crate::program::files::read_limited(path, MAX_FILE)?;
        Self::decode(&file).map_err(|what| damaged(path, what))
    }

    fn decode(file: &[u8]) -> Result<Checkpoint, String> {
        let rest = file.strip_prefix(MAGIC).ok_or("the first bytes are not those of one")?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or("it is cut short")?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(format!("version {} is not {VERSION}", u32::from_le_bytes(*version)));
        }
        let (sum, mut body) = rest.split_first_chunk::<8>().ok_or("it is cut short")?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return Err("the checksum is wrong".into());
        }
        let header: Header =
            serde_json::from_slice(take(&mut body)?).map_err(|e| format!("header: {e}"))?;
        let state = unpack(take(&mut body)?, MAX_FILE)?;
        let directory: Vec<(Space, u32, u64, u64)> =
            postcard::from_bytes(take(&mut body)?).map_err(|e| format!("pages: {e}"))?;
        let mut bytes = ZlibDecoder::new(take(&mut body)?);
        let mut pages = Vec::new();
        for (space, partition, byte, len) in directory {
            if len > CHUNK || !byte.is_multiple_of(CHUNK) {
                return Err("a page of the wrong size".into());
            }
            let mut page = vec![0; len as usize];
            bytes.read_exact(&mut page).map_err(|e| format!("pages: {e}"))?;
            pages.push(Page { space, partition, byte, bytes: page.into() });
        }
        let mut pieces = Vec::new();
        while !body.is_empty() {
            pieces.push(take(&mut body)?.into());
        }
        let snapshot =
            Snapshot { tick: header.tick, executed: header.executed, state: state.into(), pages };
        Ok(Checkpoint { identity: header.identity, digest: header.digest, snapshot, pieces })
    }

    /// Whether it belongs to a run with `identity`.
    ///
    /// # Errors
    /// `ConfigError` that says what is different.
    pub fn fits(&self, identity: &Identity) -> Result<()> {
        match self.identity.differs(identity) {
            None => Ok(()),
            Some(what) => Err(Error::new(
                ErrorClass::ConfigError,
                format!("the checkpoint was made by a run of {what}"),
            )),
        }
    }

    /// Hands the records of before the checkpoint to `recorder`.
    ///
    /// # Errors
    /// The recording is damaged.
    pub fn replay(&self, recorder: &mut dyn Recorder) -> Result<()> {
        let bad = |e: String| {
            Error::new(ErrorClass::ProgramError, format!("the checkpoint is damaged: {e}"))
        };
        for piece in &self.pieces {
            let text = unpack(piece, MAX_PIECE).map_err(bad)?;
            for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
                let record: Record =
                    serde_json::from_slice(line).map_err(|e| bad(e.to_string()))?;
                recorder.record(&record);
            }
        }
        Ok(())
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut digest = Digest::default();
    digest.bytes(bytes);
    digest.value()
}

fn section(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn take<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let (len, rest) = body.split_first_chunk::<8>().ok_or("it is cut short")?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|e| e.to_string())?;
    let (section, rest) = rest.split_at_checked(len).ok_or("it is cut short")?;
    *body = rest;
    Ok(section)
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    // writing to a vector cannot fail
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn unpack(bytes: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut decoder = ZlibDecoder::new(bytes).take(limit);
    decoder.read_to_end(&mut out).map_err(|e| e.to_string())?;
    Ok(out)
}

/// Keeps all records of a run, packed, so that a checkpoint can carry them.
#[derive(Default)]
pub struct Spool {
    open: Vec<u8>,
    packed: Vec<Arc<[u8]>>,
}

impl Spool {
    fn close(&mut self) {
        if !self.open.is_empty() {
            self.packed.push(pack(&self.open).into());
            self.open.clear();
        }
    }

    fn pieces(&mut self) -> Vec<Arc<[u8]>> {
        self.close();
        self.packed.clone()
    }
}

impl Recorder for Spool {
    fn record(&mut self, record: &Record) {
        // made when the run is over, from what the snapshot holds
        if matches!(record, Record::Usage { .. }) {
            return;
        }
        // a record of numbers and text always has a JSON form
        if serde_json::to_writer(&mut self.open, record).is_ok() {
            self.open.push(b'\n');
        }
        if self.open.len() >= PIECE {
            self.close();
        }
    }

    /// The restored run may have a recorder that wants it.
    fn wants_usage(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Checkpoint {
        let mut spool = Spool::default();
        spool.record(&Record::Note { tick: 3, stream: 1, pc: 2, text: "hello".into() });
        let identity = Identity {
            emulator: "0".into(),
            program: 1,
            config: 2,
            options: (true, 0, true, false),
        };
        let page =
            Page { space: Space::Psum, partition: 7, byte: CHUNK, bytes: vec![9; 100].into() };
        let snapshot =
            Snapshot { tick: 5, executed: 6, state: vec![1, 2, 3].into(), pages: vec![page] };
        Checkpoint::new(identity, 77, snapshot, &mut spool)
    }

    fn written(checkpoint: &Checkpoint) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file_name(5));
        checkpoint.save(&path).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let file = written(&sample());
        let back = Checkpoint::decode(&file).unwrap();
        assert_eq!((back.snapshot.tick, back.snapshot.executed, back.digest), (5, 6, 77));
        assert_eq!(*back.snapshot.state, [1, 2, 3]);
        assert_eq!(*back.snapshot.pages[0].bytes, [9; 100]);
        let mut records: Vec<Record> = Vec::new();
        back.replay(&mut records).unwrap();
        assert_eq!(records.len(), 1);
        assert!(back.fits(&sample().identity).is_ok());
        let other = Identity { config: 3, ..sample().identity };
        assert!(back.fits(&other).unwrap_err().message.contains("another configuration"));
    }

    #[test]
    fn any_damaged_byte_and_any_cut_is_an_error() {
        let file = written(&sample());
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 0x41;
            assert!(Checkpoint::decode(&bad).is_err(), "byte {at}");
            assert!(Checkpoint::decode(&file[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_damaged_body_with_the_right_checksum_does_not_panic() {
        let file = written(&sample());
        for at in 20..file.len() {
            for bit in 0..8 {
                let mut bad = file.clone();
                bad[at] ^= 1 << bit;
                let sum = checksum(&bad[20..]);
                bad[12..20].copy_from_slice(&sum.to_le_bytes());
                if let Ok(checkpoint) = Checkpoint::decode(&bad) {
                    let _ = checkpoint.replay(&mut Vec::new());
                }
            }
        }
    }
}

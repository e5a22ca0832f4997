//! Programs: assembler, disassembler, container, loader, tensors.
//!
//! [`Program::load`] takes any of the file forms; everything after it sees a [`Program`].

pub mod asm;
pub mod container;
pub mod diag;
pub mod elem;
pub mod files;
pub mod limits;
pub mod lower;
pub mod model;
pub mod npy;
pub mod place;
pub mod raw;
pub mod tables;
pub mod text;

use std::path::Path;

pub use elem::{ElemType, Mismatch, compare};
pub use model::*;

use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Generation, StreamFormat};
use crate::machine::sim::SimOp;

/// What raw streams do not say about themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Generation of raw `.bin` streams.
    pub generation: Option<Generation>,
    /// Raw V1 words carry the 8-byte events block.
    pub v1_events8: bool,
}

impl Program {
    /// Loads a program: a text (`.tpb`), a container (by its magic bytes), a directory of raw
    /// streams (`pe.bin` …) or one such stream.
    ///
    /// # Errors
    /// [`ErrorClass::Io`] or [`ErrorClass::ProgramError`].
    pub fn load(path: &Path, options: LoadOptions) -> Result<Program> {
        let raw = || {
            options.generation.ok_or_else(|| {
                let message =
                    format!("{}: raw streams do not say their generation", path.display());
                Error::new(ErrorClass::ProgramError, message).help("give it, for instance v3")
            })
        };
        if path.is_dir() {
            let mut program = raw::load_directory(path, raw()?, options.v1_events8)?;
            program.attach_files(path, &asm::Disk)?;
            return Ok(program);
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        if extension.eq_ignore_ascii_case("bin")
            && let Some(engine) = raw::engine_of(path)
        {
            let mut program = Program::new(raw()?);
            program.v1_events8 = options.v1_events8;
            raw::load_stream(&mut program, engine, path)?;
            program.attach_files(path.parent().unwrap_or(Path::new("")), &asm::Disk)?;
            return Ok(program);
        }
        let bytes = files::read_limited(path, limits::DATA_BYTES)?;
        if container::is_container(&bytes) {
            return container::decode(&bytes);
        }
        if extension.eq_ignore_ascii_case("tpb") {
            return asm::assemble_file(path);
        }
        let message = format!("{}: not a program", path.display());
        Err(Error::new(ErrorClass::ProgramError, message).help(
            "a program is a text `.tpb`, a container `.tpbc`, a directory of raw streams, or one \
             raw stream named by its engine (`pe.bin`)",
        ))
    }

    /// Reads the files that SIM words name out of `folder`, so that the program is complete. A
    /// file that does not exist is left out: another word may write it.
    ///
    /// # Errors
    /// [`ErrorClass::ProgramError`] for a file that cannot be read or lies outside the folder.
    pub fn attach_files(&mut self, folder: &Path, files: &dyn asm::Files) -> Result<()> {
        if self.generation != Generation::V1 {
            return Ok(());
        }
        let mut left = limits::DATA_BYTES;
        for word in self.streams.iter().flat_map(|s| &s.words) {
            let format = StreamFormat { generation: self.generation, wide_events: self.v1_events8 };
            let Ok(Some(SimOp::WriteFile { name, .. })) = SimOp::decode(&format.word(*word)) else {
                continue;
            };
            if self.files.contains_key(&name) {
                continue;
            }
            let read = files.read_inside(folder, &name, left);
            let bad = |why| Error::new(ErrorClass::ProgramError, why);
            if let Some(bytes) = read.map_err(bad)? {
                left -= (bytes.len() as u64).min(left);
                self.files.insert(name, bytes);
            }
        }
        Ok(())
    }

    /// Writes the program as a container, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write_whole(path, &container::encode(self)?)
    }
}

//! Raw instruction streams: one `.bin` per engine, nothing but words.

use std::path::Path;

use super::files::read_limited;
use super::limits;
use super::model::Program;
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Engine, Generation};

/// The engine a raw file belongs to, by its name: `pe.bin` to `sp.bin`, any case.
pub fn engine_of(path: &Path) -> Option<Engine> {
    path.file_stem()?.to_str()?.parse().ok()
}

/// Loads one raw file as the stream of `engine`.
///
/// # Errors
/// Unreadable, too large, or a length that is no multiple of the word (a stream is rejected as a
/// whole then, wiki: neuronx-runtime isa/validator-architecture).
pub fn load_stream(program: &mut Program, engine: Engine, path: &Path) -> Result<()> {
    let limit = limits::WORDS_PER_STREAM as u64 * 64;
    let bytes = read_limited(path, limit)?;
    let ragged = |word: usize| {
        let message =
            format!("{}: {} bytes are no multiple of {word}", path.display(), bytes.len());
        Error::new(ErrorClass::ProgramError, message)
    };
    if engine == Engine::Sp && program.generation == Generation::V1 {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(ragged(8));
        }
        program.v1_sp.words = words.to_vec();
        return Ok(());
    }
    let (words, rest) = bytes.as_chunks::<64>();
    if !rest.is_empty() {
        return Err(ragged(64));
    }
    if !words.is_empty() {
        program.stream_mut(engine).words = words.to_vec();
    }
    Ok(())
}

/// Loads every `pe.bin`, `act.bin`, `pool.bin`, `dve.bin`, `sp.bin` of a directory.
///
/// # Errors
/// As [`load_stream`]; a directory without any of them.
pub fn load_directory(path: &Path, generation: Generation, v1_events8: bool) -> Result<Program> {
    let mut program = Program::new(generation);
    program.v1_events8 = v1_events8;
    let mut found = false;
    for engine in Engine::ALL {
        let file = path.join(format!("{}.bin", engine.to_string().to_ascii_lowercase()));
        if file.is_file() {
            load_stream(&mut program, engine, &file)?;
            found = true;
        }
    }
    if !found {
        let message =
            format!("{}: holds no pe.bin, act.bin, pool.bin, dve.bin, sp.bin", path.display());
        return Err(Error::new(ErrorClass::ProgramError, message));
    }
    Ok(program)
}

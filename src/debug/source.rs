//! Source text of the program, as far as it can be found, and where its words come from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::isa::Engine;
use crate::machine::Machine;
use crate::machine::run::ENGINE_STREAMS;
use crate::program::SourceLine;

/// The files of a program.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Option<Vec<String>>>,
}

impl Sources {
    /// Reads the files of `machine`'s program, relative to where the program lies or as they are.
    pub fn load(machine: &Machine, program: &Path) -> Sources {
        let beside = if program.is_dir() { Some(program) } else { program.parent() };
        let read = |name: &String| {
            let name = Path::new(name);
            let candidates: [Option<PathBuf>; 3] = [
                Some(name.to_path_buf()),
                beside.map(|d| d.join(name)),
                beside.and_then(|d| Some(d.join(name.file_name()?))),
            ];
            let limit = crate::program::limits::SOURCE_BYTES;
            candidates.into_iter().flatten().filter(|p| p.is_file()).find_map(|p| {
                let bytes = crate::program::files::read_limited(&p, limit).ok()?;
                let text = String::from_utf8(bytes).ok()?;
                Some(text.lines().map(str::to_string).collect())
            })
        };
        Sources { files: machine.program().sources.iter().map(read).collect() }
    }

    /// The lines of a file.
    pub fn file(&self, index: u32) -> Option<&[String]> {
        self.files.get(index as usize)?.as_deref()
    }
}

/// Where the word at `pc` of engine stream `s` comes from.
pub fn line_of(machine: &Machine, s: usize, pc: usize) -> Option<SourceLine> {
    let program = machine.program();
    let sp = s == Engine::Sp.index() && !machine.image().sp.is_empty();
    let line = match sp {
        true => program.v1_sp.lines.get(pc).copied()?,
        false => program.stream(*Engine::ALL.get(s)?)?.line(pc),
    };
    (line.line != 0).then_some(line)
}

/// The words that come from line `line` of the file whose name ends in `file` (of the first file
/// if none is given).
pub fn words_at(machine: &Machine, file: Option<&str>, line: u32) -> Vec<(usize, usize)> {
    let sources = &machine.program().sources;
    let index = match file {
        Some(file) => sources.iter().position(|s| s == file || s.ends_with(&format!("/{file}"))),
        None => (!sources.is_empty()).then_some(0),
    };
    let Some(index) = index else { return Vec::new() };
    let mut found = Vec::new();
    for s in 0..ENGINE_STREAMS {
        for pc in 0..machine.words(s) {
            let at = line_of(machine, s, pc);
            if at.is_some_and(|l| l.file as usize == index && l.line == line) {
                found.push((s, pc));
            }
        }
    }
    found
}

/// For each line of file `file`, the streams whose head stands there.
pub fn heads(machine: &Machine, file: u32) -> BTreeMap<u32, Vec<Engine>> {
    let mut out: BTreeMap<u32, Vec<Engine>> = BTreeMap::new();
    for (s, &engine) in Engine::ALL.iter().enumerate() {
        let Some(stream) = machine.stream(s) else { continue };
        if stream.pc < machine.words(s)
            && let Some(line) = line_of(machine, s, stream.pc)
            && line.file == file
        {
            out.entry(line.line).or_default().push(engine);
        }
    }
    out
}

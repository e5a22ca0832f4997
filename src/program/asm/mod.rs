//! The assembler: text to [`Program`]. `docs/program-format.md` specifies the language.
//!
//! Statements are executed in order; a repetition executes its body again with another counter.
//! Labels and DMA blocks may be used before they are declared, everything else must come first.
//! After an error the assembler goes on with the next line and reports up to
//! [`limits::ERRORS`] of them.

mod data;
mod decl;
mod dma;
mod names;
mod tables;
mod tensor;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::diag::{Diagnostic, SourceMap, to_error};
use super::files::{confined, confined_name, read_limited};
use super::limits;
use super::model::Program;
use crate::error::{Error, ErrorClass, Result};
use crate::isa::text::expr::{Cursor, integer};
use crate::isa::text::inst::{self, LabelForm, LabelUse};
use crate::isa::text::lex::{Kind, Token, is_name, lex_line};
use crate::isa::text::sp;
use crate::isa::text::syntax::{Span, SyntaxError, SyntaxResult, nearest};
use crate::isa::{Engine, Generation, Layout};
use names::Names;

/// Where included files and data come from.
pub trait Files {
    /// The bytes of a file, at most `limit`.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, String>;

    /// The bytes of file `name` of `folder`, which must not lead out of the folder; `None` if
    /// there is no such file.
    ///
    /// # Errors
    /// It leads out, or it cannot be read.
    fn read_inside(
        &self,
        folder: &Path,
        name: &str,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, String> {
        confined_name(name)?;
        Ok(self.read(&folder.join(name), limit).ok())
    }
}

/// The file system.
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, String> {
        read_limited(path, limit).map_err(|e| e.message)
    }

    fn read_inside(
        &self,
        folder: &Path,
        name: &str,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, String> {
        let path = confined(folder, name)?;
        if !path.exists() {
            return Ok(None);
        }
        self.read(&path, limit).map(Some)
    }
}

/// Files in memory, for tests.
#[derive(Default)]
pub struct MemoryFiles(pub BTreeMap<PathBuf, Vec<u8>>);

impl Files for MemoryFiles {
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, String> {
        match self.0.get(path) {
            Some(bytes) if bytes.len() as u64 <= limit => Ok(bytes.clone()),
            Some(_) => Err(format!("{}: larger than {limit} bytes", path.display())),
            None => Err(format!("{}: no such file", path.display())),
        }
    }
}

/// Assembles the file at `path`.
///
/// # Errors
/// [`ErrorClass::ProgramError`] with every mistake rendered; [`ErrorClass::Io`] if `path` itself
/// cannot be read.
pub fn assemble_file(path: &Path) -> Result<Program> {
    let bytes = read_limited(path, limits::SOURCE_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let message = format!("{}: not UTF-8 text", path.display());
        Error::new(ErrorClass::ProgramError, message)
    })?;
    assemble(path, &text, &Disk)
}

/// Assembles `text`, which came from `path`; other files are found relative to it.
///
/// # Errors
/// [`ErrorClass::ProgramError`] with every mistake rendered.
pub fn assemble(path: &Path, text: &str, files: &dyn Files) -> Result<Program> {
    let mut assembler = Assembler::new(files);
    let result = assembler.file(path, text).and_then(|()| assembler.resolve());
    if result.is_err() || !assembler.diagnostics.is_empty() {
        return Err(to_error(&assembler.sources, &assembler.diagnostics, assembler.more));
    }
    assembler.program.sources = assembler.sources.names();
    let mut program = assembler.program;
    program.attach_files(path.parent().unwrap_or(Path::new("")), files)?;
    Ok(program)
}

/// Assembly cannot go on.
struct Stop;

/// One logical line.
struct Statement<'a> {
    tokens: Vec<Token<'a>>,
    span: Span,
}

struct Assembler<'f> {
    files: &'f dyn Files,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    more: bool,
    program: Program,
    names: Names,
    /// Files being read, outermost first: path, and the place of the `.include`.
    open: Vec<(PathBuf, Option<Span>)>,
    executed: u64,
    data_bytes: u64,
    transfers: usize,
    /// The stream that instructions go to.
    stream: Option<Engine>,
    /// The DMA block that `copy` goes to, as a position in `program.blocks`.
    block: Option<usize>,
    labels: HashMap<(Engine, String), (usize, Span)>,
    label_uses: Vec<(Engine, usize, LabelUse)>,
    triggers: Vec<dma::Trigger>,
    repeat_depth: usize,
}

impl<'f> Assembler<'f> {
    fn new(files: &'f dyn Files) -> Self {
        Assembler {
            files,
            sources: SourceMap::default(),
            diagnostics: Vec::new(),
            more: false,
            // Replaced by `.generation`; nothing that depends on it is accepted before.
            program: Program::new(Generation::V2),
            names: Names::default(),
            open: Vec::new(),
            executed: 0,
            data_bytes: 0,
            transfers: 0,
            stream: None,
            block: None,
            labels: HashMap::new(),
            label_uses: Vec::new(),
            triggers: Vec::new(),
            repeat_depth: 0,
        }
    }

    /// Records an error. Stops when there are too many.
    fn report(&mut self, error: SyntaxError) -> Result<(), Stop> {
        // The same place can fail again in another round of a repetition.
        if self.diagnostics.iter().any(|d| d.error.span == error.span) {
            return Ok(());
        }
        if self.diagnostics.len() >= limits::ERRORS {
            self.more = true;
            return Err(Stop);
        }
        let mut notes = Vec::new();
        for (name, value) in self.names.counters.iter().rev() {
            match name {
                Some(name) => notes.push(format!("in the repetition with {name} = {value}")),
                None => notes.push(format!("in round {value} of the repetition")),
            }
        }
        for (_, span) in self.open.iter().rev() {
            if let Some(span) = span {
                let line = self.sources.line(*span);
                let name = self.sources.name(line.file);
                notes.push(format!("included from {name}:{}", line.line));
            }
        }
        self.diagnostics.push(Diagnostic { error, notes });
        Ok(())
    }

    fn file(&mut self, path: &Path, text: &str) -> Result<(), Stop> {
        let name = path.to_string_lossy();
        let file = self.sources.add(name, text);
        // The statements borrow from this copy while the source map may grow.
        let text: Rc<str> = Rc::from(text);
        let span = self.open.last().map_or(Some(Span::default()), |_| None);
        if span.is_some() {
            self.open.push((path.to_owned(), None));
        }
        let statements = self.split(file, &text)?;
        let result = self.run(&statements);
        if span.is_some() {
            self.open.pop();
        }
        result
    }

    fn split<'a>(&mut self, file: u32, text: &'a str) -> Result<Vec<Statement<'a>>, Stop> {
        let mut statements = Vec::new();
        let mut pending: Option<Statement<'a>> = None;
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let base = offset;
            offset += line.len();
            let span = Span::new(file, base, base + line.trim_end().len());
            match lex_line(line, file, base) {
                Ok((tokens, continued)) => {
                    let statement = pending.get_or_insert(Statement { tokens: Vec::new(), span });
                    statement.tokens.extend(tokens);
                    if !continued {
                        statements.extend(pending.take().filter(|s| !s.tokens.is_empty()));
                    }
                }
                Err(error) => {
                    pending = None;
                    self.report(error)?;
                }
            }
        }
        statements.extend(pending.filter(|s| !s.tokens.is_empty()));
        Ok(statements)
    }

    fn tick(&mut self, span: Span) -> Result<(), Stop> {
        self.executed += 1;
        if self.executed > limits::STATEMENTS {
            let message = format!("more than {} statements executed", limits::STATEMENTS);
            self.report(SyntaxError::new(span, message))?;
            return Err(Stop);
        }
        Ok(())
    }

    fn run(&mut self, statements: &[Statement<'_>]) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(statement) = statements.get(at) {
            at += 1;
            self.tick(statement.span)?;
            let opens = |s: &Statement<'_>| {
                let first = s.tokens[0];
                first.kind == Kind::Directive && matches!(first.text, "repeat" | "block")
            };
            if !opens(statement) {
                if let Err(error) = self.statement(statement) {
                    self.report(error)?;
                }
                continue;
            }
            let mut depth = 1;
            let end = statements[at..].iter().position(|s| {
                let first = s.tokens[0];
                depth += usize::from(opens(s));
                depth -= usize::from(first.kind == Kind::Directive && first.text == "end");
                depth == 0
            });
            let Some(length) = end else {
                let message = format!("`.{}` without `.end`", statement.tokens[0].text);
                self.report(SyntaxError::new(statement.tokens[0].span, message))?;
                return Ok(());
            };
            let body = &statements[at..at + length];
            at += length + 1;
            self.body(statement, body)?;
        }
        Ok(())
    }

    /// `.repeat` and `.block` with the lines up to their `.end`.
    fn body(&mut self, head: &Statement<'_>, body: &[Statement<'_>]) -> Result<(), Stop> {
        let mut cursor = Cursor::new(&head.tokens, head.span);
        cursor.next();
        if head.tokens[0].text == "block" {
            return match self.open_block(&mut cursor, head.span) {
                Err(error) => self.report(error),
                Ok(block) => {
                    self.block = Some(block);
                    let result = self.run(body);
                    self.block = None;
                    result
                }
            };
        }
        let (count, name) = match self.repeat_head(&mut cursor) {
            Ok(head) => head,
            Err(error) => return self.report(error),
        };
        let errors = self.diagnostics.len();
        self.repeat_depth += 1;
        for i in 0..count {
            self.tick(head.span)?;
            self.names.counters.push((name.clone(), i));
            let result = self.run(body);
            self.names.counters.pop();
            result?;
            // What is wrong once is wrong every time.
            if self.diagnostics.len() > errors {
                break;
            }
        }
        self.repeat_depth -= 1;
        Ok(())
    }

    fn repeat_head(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<(u64, Option<String>)> {
        if self.repeat_depth >= limits::REPEAT_DEPTH {
            let message = format!("repetitions nest deeper than {}", limits::REPEAT_DEPTH);
            return Err(SyntaxError::new(cursor.span(), message));
        }
        let count = integer(cursor, &self.names, 0, limits::STATEMENTS.into())? as u64;
        let name = if cursor.at_end() {
            None
        } else {
            let token = cursor.ident("the name of the counter")?;
            self.new_name(token)?;
            Some(token.text.to_owned())
        };
        cursor.finish()?;
        Ok((count, name))
    }

    /// Refuses a name that expressions already know.
    fn new_name(&self, token: Token<'_>) -> SyntaxResult<()> {
        if !is_name(token.text) {
            let message = format!("`{}` cannot be a name: it means something else", token.text);
            return Err(SyntaxError::new(token.span, message));
        }
        if self.names.taken(token.text) {
            let message = format!("the name `{}` is taken", token.text);
            return Err(SyntaxError::new(token.span, message));
        }
        Ok(())
    }

    fn generation(&self, span: Span) -> SyntaxResult<Generation> {
        self.names.generation.ok_or_else(|| {
            SyntaxError::new(span, "the generation is not known yet")
                .help("start the program with a line like `.generation v3`")
        })
    }

    fn layout(&self, span: Span) -> SyntaxResult<Layout> {
        let generation = self.generation(span)?;
        Ok(match generation {
            Generation::V1 if self.program.v1_events8 => Layout::V1Wide,
            generation => Layout::of(generation),
        })
    }

    fn statement(&mut self, statement: &Statement<'_>) -> SyntaxResult<()> {
        let mut cursor = Cursor::new(&statement.tokens, statement.span);
        let first = statement.tokens[0];
        if first.kind == Kind::Directive {
            cursor.next();
            return self.directive(first, &mut cursor, statement.span);
        }
        if first.kind == Kind::Ident && cursor.peek_at(1).is_some_and(|t| t.text == ":") {
            self.label(first)?;
            cursor.next();
            cursor.next();
            if cursor.at_end() {
                return Ok(());
            }
        }
        let name = cursor.ident("an instruction, a label or a directive")?;
        if let Some(block) = self.block {
            if name.text.eq_ignore_ascii_case("copy") {
                return self.copy(&mut cursor, block);
            }
            let message = format!("a DMA block holds `copy` lines, found `{}`", name.text);
            return Err(SyntaxError::new(name.span, message));
        }
        self.instruction(name, &mut cursor, statement.span)
    }

    fn current_stream(&self, span: Span) -> SyntaxResult<Engine> {
        self.stream.ok_or_else(|| {
            SyntaxError::new(span, "no stream is open")
                .help("begin a stream with `.stream PE` (ACT, POOL, DVE, SP)")
        })
    }

    fn is_v1_sp(&self, engine: Engine) -> bool {
        engine == Engine::Sp && self.names.generation == Some(Generation::V1)
    }

    fn position(&mut self, engine: Engine) -> usize {
        if self.is_v1_sp(engine) {
            self.program.v1_sp.words.len()
        } else {
            self.program.stream_mut(engine).words.len()
        }
    }

    fn label(&mut self, token: Token<'_>) -> SyntaxResult<()> {
        let engine = self.current_stream(token.span)?;
        let at = self.position(engine);
        let key = (engine, token.text.to_owned());
        if let Some((_, earlier)) = self.labels.get(&key) {
            let line = self.sources.line(*earlier);
            let message = format!("the label `{}` is already defined", token.text);
            let name = self.sources.name(line.file);
            let help = format!("first defined at {name}:{}", line.line);
            return Err(SyntaxError::new(token.span, message).help(help));
        }
        self.labels.insert(key, (at, token.span));
        if !self.is_v1_sp(engine) {
            self.program.stream_mut(engine).labels.insert(token.text.to_owned(), at);
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        name: Token<'_>,
        cursor: &mut Cursor<'_, '_>,
        span: Span,
    ) -> SyntaxResult<()> {
        let layout = self.layout(name.span)?;
        let engine = self.current_stream(name.span)?;
        if self.is_v1_sp(engine) {
            let (word, label) = sp::assemble(name, cursor, &self.names)?;
            return self.emit_sp(word, label, span);
        }
        if name.text.eq_ignore_ascii_case("DMA_TRIGGER") {
            return self.dma_trigger(name, cursor, span);
        }
        let assembled = inst::assemble(layout, name, cursor, &self.names)?;
        self.emit(assembled.word, assembled.label, span)
    }

    fn emit(&mut self, word: [u8; 64], label: Option<LabelUse>, span: Span) -> SyntaxResult<()> {
        let engine = self.current_stream(span)?;
        let line = self.sources.line(span);
        let stream = self.program.stream_mut(engine);
        if stream.words.len() >= limits::WORDS_PER_STREAM {
            let message = format!("more than {} words in one stream", limits::WORDS_PER_STREAM);
            return Err(SyntaxError::new(span, message));
        }
        let at = stream.words.len();
        stream.words.push(word);
        stream.lines.push(line);
        self.label_uses.extend(label.map(|label| (engine, at, label)));
        Ok(())
    }

    fn emit_sp(&mut self, word: [u8; 8], label: Option<LabelUse>, span: Span) -> SyntaxResult<()> {
        let line = self.sources.line(span);
        let sp = &mut self.program.v1_sp;
        if sp.words.len() >= limits::WORDS_PER_STREAM {
            let message = format!("more than {} words in one stream", limits::WORDS_PER_STREAM);
            return Err(SyntaxError::new(span, message));
        }
        let at = sp.words.len();
        sp.words.push(word);
        sp.lines.push(line);
        self.label_uses.extend(label.map(|label| (Engine::Sp, at, label)));
        Ok(())
    }

    fn directive(
        &mut self,
        name: Token<'_>,
        cursor: &mut Cursor<'_, '_>,
        span: Span,
    ) -> SyntaxResult<()> {
        match name.text {
            "generation" => self.set_generation(cursor, span),
            "events8" => {
                self.program.v1_events8 = true;
                if self.generation(span)? != Generation::V1 {
                    return Err(SyntaxError::new(span, "`.events8` is a dialect of v1"));
                }
                cursor.finish()
            }
            "stream" => self.open_stream(cursor),
            "define" => self.define(cursor),
            "semaphore" => self.numbered(cursor, false),
            "event" => self.numbered(cursor, true),
            "tensor" => self.tensor(cursor),
            "queue" => self.queue(cursor),
            "check" => self.check(cursor),
            "allow_race" => self.allow_race(cursor),
            "meta" => self.meta(cursor),
            "act_tables" => self.act_tables(cursor),
            "include" => self.include(cursor, span),
            "word64" => {
                self.layout(name.span)?;
                let word = inst::parse_word64(cursor)?;
                let engine = self.current_stream(name.span)?;
                if self.is_v1_sp(engine) {
                    return Err(SyntaxError::new(name.span, "the V1 SP has 8-byte words")
                        .help("use `.word8`"));
                }
                self.emit(word, None, span)
            }
            "word8" => {
                let word = sp::parse_word8(cursor)?;
                let engine = self.current_stream(name.span)?;
                if !self.is_v1_sp(engine) {
                    let message = "only the V1 SP has 8-byte words";
                    return Err(SyntaxError::new(name.span, message).help("use `.word64`"));
                }
                self.emit_sp(word, None, span)
            }
            "end" => Err(SyntaxError::new(name.span, "`.end` without `.repeat` or `.block`")),
            _ => {
                let message = format!("unknown directive `.{}`", name.text);
                let error = SyntaxError::new(name.span, message);
                Err(match nearest(name.text, DIRECTIVES.iter().copied()) {
                    Some(near) => error.help(format!("did you mean `.{near}`?")),
                    None => error,
                })
            }
        }
    }

    fn include(&mut self, cursor: &mut Cursor<'_, '_>, span: Span) -> SyntaxResult<()> {
        let token = cursor.string("a file name in quotes")?;
        cursor.finish()?;
        if self.open.len() > limits::INCLUDE_DEPTH {
            let message = format!("includes nest deeper than {}", limits::INCLUDE_DEPTH);
            return Err(SyntaxError::new(token.span, message));
        }
        if self.sources.names().len() >= limits::SOURCE_FILES {
            return Err(SyntaxError::new(token.span, "too many included files"));
        }
        let path = self.path(token)?;
        let bytes = self.read(&path, limits::SOURCE_BYTES, token.span)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| SyntaxError::new(token.span, "the file is not UTF-8 text"))?;
        self.open.push((path.clone(), Some(span)));
        let result = self.file(&path, &text);
        self.open.pop();
        // Its errors are reported already; stopping again at once ends the assembly.
        if result.is_err() {
            self.executed = limits::STATEMENTS;
        }
        Ok(())
    }

    /// A file name relative to the file that names it.
    fn path(&self, token: Token<'_>) -> SyntaxResult<PathBuf> {
        let name = crate::isa::text::lex::unescape(token.text)
            .ok()
            .and_then(|b| String::from_utf8(b).ok())
            .ok_or_else(|| SyntaxError::new(token.span, "bad file name"))?;
        let base = self.open.last().and_then(|(p, _)| p.parent()).unwrap_or(Path::new(""));
        Ok(base.join(name))
    }

    fn read(&self, path: &Path, limit: u64, span: Span) -> SyntaxResult<Vec<u8>> {
        self.files.read(path, limit).map_err(|why| SyntaxError::new(span, why))
    }

    /// Fills in what may be used before it is declared.
    fn resolve(&mut self) -> Result<(), Stop> {
        for (engine, at, label) in std::mem::take(&mut self.label_uses) {
            match self.target(engine, at, &label) {
                Ok(bytes) => {
                    let word: &mut [u8] = match label.form {
                        LabelForm::Index(_) => &mut self.program.v1_sp.words[at],
                        _ => &mut self.program.stream_mut(engine).words[at],
                    };
                    let offset = match label.form {
                        LabelForm::RelativeBytes(o)
                        | LabelForm::AbsoluteBytes(o)
                        | LabelForm::Index(o) => o,
                    };
                    word[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                Err(error) => self.report(error)?,
            }
        }
        for trigger in std::mem::take(&mut self.triggers) {
            if let Err(error) = self.resolve_trigger(&trigger) {
                self.report(error)?;
            }
        }
        Ok(())
    }

    fn target(&self, engine: Engine, at: usize, label: &LabelUse) -> SyntaxResult<Vec<u8>> {
        let Some((target, _)) = self.labels.get(&(engine, label.name.clone())) else {
            let message = format!("the stream of {engine} has no label `{}`", label.name);
            let error = SyntaxError::new(label.span, message);
            let names = self.labels.keys().filter(|k| k.0 == engine).map(|k| k.1.as_str());
            return Err(match nearest(&label.name, names) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            });
        };
        let bytes = |words: i128| words * 64;
        Ok(match label.form {
            // WORDS_PER_STREAM keeps every distance far below 2^31 bytes.
            LabelForm::RelativeBytes(_) => {
                let distance = bytes(*target as i128 - at as i128) as i32;
                u64::from(distance as u32).to_le_bytes().to_vec()
            }
            LabelForm::AbsoluteBytes(_) => (bytes(*target as i128) as u64).to_le_bytes().to_vec(),
            LabelForm::Index(_) => (*target as u32).to_le_bytes().to_vec(),
        })
    }
}

/// Every directive, for suggestions.
const DIRECTIVES: &[&str] = &[
    "generation",
    "events8",
    "stream",
    "define",
    "semaphore",
    "event",
    "tensor",
    "queue",
    "block",
    "repeat",
    "end",
    "check",
    "allow_race",
    "meta",
    "act_tables",
    "include",
    "word64",
    "word8",
];

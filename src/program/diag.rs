//! Source files and error messages with file, line, column and a caret.

use std::fmt;

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceSpan};

use super::model::SourceLine;
use crate::error::{Error, ErrorClass};
use crate::isa::text::syntax::{Span, SyntaxError};

/// The texts of one assembly.
#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

#[derive(Debug)]
struct SourceFile {
    name: String,
    text: String,
    /// Offsets of line starts.
    lines: Vec<u32>,
}

impl SourceMap {
    /// Adds a file and returns its index.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> u32 {
        let (name, text) = (name.into(), text.into());
        let starts = text.match_indices('\n').map(|(i, _)| (i + 1) as u32);
        let lines = std::iter::once(0).chain(starts).collect();
        self.files.push(SourceFile { name, text, lines });
        (self.files.len() - 1) as u32
    }

    /// The text of file `index`.
    pub fn text(&self, index: u32) -> &str {
        self.files.get(index as usize).map_or("", |f| &f.text)
    }

    /// The name of file `index`.
    pub fn name(&self, index: u32) -> &str {
        self.files.get(index as usize).map_or("?", |f| &f.name)
    }

    /// Names of all files, by index.
    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|f| f.name.clone()).collect()
    }

    /// The line that `span` starts in.
    pub fn line(&self, span: Span) -> SourceLine {
        let line = self
            .files
            .get(span.file as usize)
            .map_or(0, |f| f.lines.partition_point(|start| *start <= span.start));
        SourceLine { file: span.file, line: line as u32 }
    }
}

/// A syntax error with the chain of repetitions and inclusions that led to it.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What is wrong and where.
    pub error: SyntaxError,
    /// Context, innermost first.
    pub notes: Vec<String>,
}

/// Levels of inclusion and repetition that a report shows.
const MAX_NOTES: usize = 4;

/// Renders diagnostics as one [`Error`] of class [`ErrorClass::ProgramError`].
pub fn to_error(sources: &SourceMap, diagnostics: &[Diagnostic], more: bool) -> Error {
    let mut text = match diagnostics.len() {
        1 => String::new(),
        n => format!("{n} errors"),
    };
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    sorted.sort_by_key(|d| (d.error.span.file, d.error.span.start));
    for diagnostic in &sorted {
        text.push('\n');
        text.push_str(render(sources, diagnostic).trim_end());
    }
    if more {
        text.push_str("\nfurther errors are not shown");
    }
    let mut error = Error::new(ErrorClass::ProgramError, text);
    if let Some(first) = sorted.first() {
        let line = sources.line(first.error.span);
        error.at.source = Some(format!("{}:{}", sources.name(line.file), line.line));
    }
    error
}

/// Renders one diagnostic without colour, so that it is the same everywhere.
pub fn render(sources: &SourceMap, diagnostic: &Diagnostic) -> String {
    let span = diagnostic.error.span;
    let length = sources.text(span.file).len();
    let start = (span.start as usize).min(length);
    let mut notes = diagnostic.notes.clone();
    if notes.len() > MAX_NOTES {
        let left_out = notes.len() - MAX_NOTES;
        notes.truncate(MAX_NOTES);
        notes.push(format!("and {left_out} levels more"));
    }
    let report = Report {
        message: diagnostic.error.message.clone(),
        help: diagnostic.error.help.clone().into_iter().chain(notes).collect(),
        source: NamedSource::new(sources.name(span.file), sources.text(span.file).to_owned()),
        span: (start, (span.end as usize).min(length).saturating_sub(start)).into(),
    };
    let mut out = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(100)
        .with_context_lines(1);
    match handler.render_report(&mut out, &report) {
        Ok(()) => out.lines().map(|l| format!("{}\n", l.trim_end())).collect(),
        Err(_) => diagnostic.error.message.clone(),
    }
}

#[derive(Debug)]
struct Report {
    message: String,
    help: Vec<String>,
    source: NamedSource<String>,
    span: SourceSpan,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Report {}

impl miette::Diagnostic for Report {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        (!self.help.is_empty()).then(|| Box::new(self.help.join("\n")) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(
            Some("here".to_owned()),
            self.span,
        ))))
    }
}

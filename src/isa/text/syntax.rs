//! Places in source text and errors about them, before they are rendered for people.

/// A range of bytes in one source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Index of the file in the source map.
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end` of `file`.
    pub fn new(file: u32, start: usize, end: usize) -> Self {
        let clip = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { file, start: clip(start), end: clip(end) }
    }

    /// From the start of `self` to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { end: last.end.max(self.end), ..self }
    }
}

/// What is wrong with a piece of program text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The text at fault.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Result with a [`SyntaxError`].
pub type SyntaxResult<T> = Result<T, SyntaxError>;

impl SyntaxError {
    /// An error about `span`.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        SyntaxError { span, message: message.into(), help: None }
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The candidate that looks most like `wrong`, to suggest it.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&wrong, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(d, candidate)| *d <= 1 + candidate.len().min(wrong.len()) / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance; names are short, so the quadratic cost does not matter.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_near_names_only() {
        assert_eq!(nearest("num_actve_rows", ["num_active_rows", "src"]), Some("num_active_rows"));
        assert_eq!(nearest("qqqq", ["num_active_rows", "src"]), None);
    }
}

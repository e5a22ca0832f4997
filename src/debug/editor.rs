//! One line of input with a history, for the line mode and the terminal interface.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Lines that are remembered.
const MOST_LINES: usize = 1000;

/// What a key did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Changed the line, or nothing.
    Line,
    /// The line is to be executed; the editor is empty again.
    Enter(String),
    /// Ctrl-C on the line.
    Cancel,
    /// Ctrl-D on an empty line.
    End,
    /// The key means nothing here.
    Other,
}

/// The line being typed.
#[derive(Clone, Debug, Default)]
pub struct Editor {
    text: Vec<char>,
    cursor: usize,
    history: Vec<String>,
    // position in the history while it is looked through, and the line from before
    looking: Option<(usize, Vec<char>)>,
}

impl Editor {
    /// The line so far.
    pub fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// Column of the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Replaces the line.
    pub fn set(&mut self, text: &str) {
        self.text = text.chars().collect();
        self.cursor = self.text.len();
    }

    /// The line executed last.
    pub fn last(&self) -> Option<&str> {
        self.history.last().map(String::as_str)
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Edit {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => {
                self.set("");
                return Edit::Cancel;
            }
            KeyCode::Char('d') if control && self.text.is_empty() => return Edit::End,
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('u') if control => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyCode::Char('k') if control => self.text.truncate(self.cursor),
            KeyCode::Char('w') if control => {
                let before = &self.text[..self.cursor];
                let end = before.iter().rposition(|c| *c != ' ').map_or(0, |i| i + 1);
                let from = before[..end].iter().rposition(|c| *c == ' ').map_or(0, |i| i + 1);
                self.text.drain(from..self.cursor);
                self.cursor = from;
            }
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.text.insert(self.cursor, c);
                self.cursor += 1;
            }
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.text.remove(self.cursor);
            }
            KeyCode::Delete if self.cursor < self.text.len() => {
                self.text.remove(self.cursor);
            }
            KeyCode::Backspace | KeyCode::Delete => {}
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Up => self.look(true),
            KeyCode::Down => self.look(false),
            KeyCode::Enter => {
                let line = self.text().trim().to_string();
                self.set("");
                self.looking = None;
                if !line.is_empty() && self.last() != Some(&line) {
                    self.history.push(line.clone());
                    if self.history.len() > MOST_LINES {
                        self.history.remove(0);
                    }
                }
                return Edit::Enter(line);
            }
            _ => return Edit::Other,
        }
        Edit::Line
    }

    fn look(&mut self, back: bool) {
        let (at, typed) = match self.looking.take() {
            Some(looking) => looking,
            None => (self.history.len(), self.text.clone()),
        };
        let at = if back { at.saturating_sub(1) } else { (at + 1).min(self.history.len()) };
        match self.history.get(at) {
            Some(line) => {
                let line = line.clone();
                self.set(&line);
            }
            None => {
                self.text.clone_from(&typed);
                self.cursor = self.text.len();
            }
        }
        self.looking = (at < self.history.len()).then_some((at, typed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(editor: &mut Editor, code: KeyCode) -> Edit {
        editor.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn control(editor: &mut Editor, c: char) -> Edit {
        editor.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))
    }

    fn typed(editor: &mut Editor, text: &str) {
        for c in text.chars() {
            press(editor, KeyCode::Char(c));
        }
    }

    #[test]
    fn edits_in_the_middle() {
        let mut e = Editor::default();
        typed(&mut e, "stp 3");
        press(&mut e, KeyCode::Home);
        press(&mut e, KeyCode::Right);
        press(&mut e, KeyCode::Right);
        typed(&mut e, "e");
        assert_eq!(e.text(), "step 3");
        control(&mut e, 'e');
        control(&mut e, 'w');
        assert_eq!(e.text(), "step ");
        control(&mut e, 'u');
        assert_eq!((e.text().as_str(), e.cursor()), ("", 0));
        assert_eq!(control(&mut e, 'd'), Edit::End);
    }

    #[test]
    fn the_history_comes_back_and_so_does_what_was_typed() {
        let mut e = Editor::default();
        typed(&mut e, "one");
        assert_eq!(press(&mut e, KeyCode::Enter), Edit::Enter("one".into()));
        typed(&mut e, "two");
        press(&mut e, KeyCode::Enter);
        typed(&mut e, "thr");
        press(&mut e, KeyCode::Up);
        assert_eq!(e.text(), "two");
        press(&mut e, KeyCode::Up);
        press(&mut e, KeyCode::Up);
        assert_eq!(e.text(), "one");
        press(&mut e, KeyCode::Down);
        press(&mut e, KeyCode::Down);
        assert_eq!(e.text(), "thr");
    }
}

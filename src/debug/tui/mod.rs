//! The terminal interface: panes for streams, source, synchronisation, memory and the Q7 cores
//! above the answers and the command line.

mod draw;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::command::Debugger;
use super::editor::{Edit, Editor};
use super::show;
use crate::machine::run::ENGINE_STREAMS;

pub use draw::draw;

/// Lines of answers that are kept.
const MOST_LINES: usize = 5000;

/// The keys, for the overlay and the documentation.
pub const KEYS: &[(&str, &str)] = &[
    ("F1", "this help; any key closes it"),
    ("Tab, Shift-Tab", "choose the engine that source, F9 and F10 are about"),
    ("F10", "on by one instruction of the chosen engine"),
    ("F11", "on by one cycle of the fastest clock"),
    ("F5", "on to a breakpoint or the end"),
    ("F7", "back by one instruction of the chosen engine"),
    ("F8", "back by one cycle"),
    ("F6", "back to the breakpoint hit before"),
    ("F9", "breakpoint at the chosen engine's head: set or remove"),
    ("F4", "middle right pane: queues, Q7 cores, registers, records"),
    ("PageUp, PageDown", "look through the answers"),
    ("Up, Down", "look through the commands typed before"),
    ("Enter", "execute the line; on an empty one repeat the last"),
    ("Ctrl-C", "stop what is running, or clear the line"),
    ("Ctrl-L", "draw the screen again"),
    ("Ctrl-D", "leave (on an empty line)"),
];

/// What the lower right pane shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// DMA queues.
    Queues,
    /// Q7 cores.
    Cores,
    /// Registers of the chosen engine.
    Registers,
    /// The last records.
    Log,
}

/// State of the interface.
pub struct App {
    /// What it is about.
    pub debugger: Debugger,
    /// Command line.
    pub editor: Editor,
    /// Commands and answers so far.
    pub answers: Vec<String>,
    /// Lines that the answers are scrolled back.
    pub scroll: usize,
    /// Chosen engine.
    pub engine: usize,
    /// Lower right pane.
    pub lower: Lower,
    /// Whether the help is shown.
    pub help: bool,
    /// Whether a command runs.
    pub running: bool,
}

impl App {
    /// The interface of `debugger`, with the first engine that has a program chosen.
    pub fn new(mut debugger: Debugger) -> App {
        debugger.repeat = false;
        let machine = &debugger.session.machine;
        let engine = (0..ENGINE_STREAMS).find(|&s| machine.words(s) > 0).unwrap_or(0);
        App {
            debugger,
            editor: Editor::default(),
            answers: vec!["F1 shows the keys, `help` the commands.".into()],
            scroll: 0,
            engine,
            lower: Lower::Queues,
            help: false,
            running: false,
        }
    }

    fn say(&mut self, text: &str) {
        self.answers.extend(text.lines().map(str::to_string));
        let extra = self.answers.len().saturating_sub(MOST_LINES);
        self.answers.drain(..extra);
        self.scroll = 0;
    }

    /// Executes a command line and keeps the answer.
    pub fn execute(&mut self, line: &str) {
        self.say(&format!("> {line}"));
        let answer = self.debugger.execute(line);
        self.answered(answer);
    }

    fn answered(&mut self, answer: Result<String, String>) {
        match answer {
            Ok(text) => self.say(&text),
            Err(text) => self.say(&format!("error: {text}")),
        }
        if self.debugger.inside.is_some() {
            self.lower = Lower::Cores;
        }
    }

    fn choose(&mut self, forward: bool) {
        let machine = &self.debugger.session.machine;
        for i in 1..=ENGINE_STREAMS {
            let step = if forward { i } else { ENGINE_STREAMS - i };
            let s = (self.engine + step) % ENGINE_STREAMS;
            if machine.words(s) > 0 {
                self.engine = s;
                return;
            }
        }
    }

    /// The command line that a key stands for, if it stands for one. Other keys take effect here.
    pub fn key(&mut self, key: KeyEvent) -> Option<String> {
        if self.help {
            self.help = false;
            return None;
        }
        let machine = &self.debugger.session.machine;
        let engine = show::stream_name(machine, self.engine);
        let line = match key.code {
            KeyCode::F(1) => {
                self.help = true;
                return None;
            }
            KeyCode::Tab => {
                self.choose(true);
                return None;
            }
            KeyCode::BackTab => {
                self.choose(false);
                return None;
            }
            KeyCode::F(4) => {
                self.lower = match self.lower {
                    Lower::Queues => Lower::Cores,
                    Lower::Cores => Lower::Registers,
                    Lower::Registers => Lower::Log,
                    Lower::Log => Lower::Queues,
                };
                return None;
            }
            KeyCode::F(5) => "continue".into(),
            KeyCode::F(6) => "rcontinue".into(),
            KeyCode::F(7) => format!("rstepi {engine}"),
            KeyCode::F(8) => "rstep".into(),
            KeyCode::F(9) => {
                let pc = machine.stream(self.engine).map_or(0, |s| s.pc);
                let text = format!("{engine}:{pc}");
                let list = &self.debugger.session.breakpoints.list;
                match list.iter().find(|b| b.text == text) {
                    Some(b) => format!("delete {}", b.id),
                    None => format!("break {text}"),
                }
            }
            KeyCode::F(10) => format!("stepi {engine}"),
            KeyCode::F(11) => "step".into(),
            KeyCode::PageUp => {
                self.scroll = (self.scroll + 5).min(self.answers.len().saturating_sub(1));
                return None;
            }
            KeyCode::PageDown => {
                self.scroll = self.scroll.saturating_sub(5);
                return None;
            }
            _ => match self.editor.key(key) {
                Edit::Enter(line) if line.is_empty() => self.editor.last()?.to_string(),
                Edit::Enter(line) => line,
                Edit::End => "quit".into(),
                Edit::Line | Edit::Cancel | Edit::Other => return None,
            },
        };
        Some(line)
    }
}

fn is_control(key: &KeyEvent, c: char) -> bool {
    key.code == KeyCode::Char(c) && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Runs the interface until the user leaves.
///
/// # Errors
/// The terminal fails.
pub fn run(debugger: Debugger) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let mut app = App::new(debugger);
    let result = serve(&mut terminal, &mut app);
    ratatui::restore();
    result
}

fn serve(terminal: &mut DefaultTerminal, app: &mut App) -> io::Result<()> {
    // typed while a command ran
    let mut ahead = VecDeque::new();
    while !app.debugger.quit {
        terminal.draw(|frame| draw(frame, app))?;
        let event = ahead.pop_front().map_or_else(event::read, Ok)?;
        let key = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => key,
            _ => continue,
        };
        if is_control(&key, 'l') {
            terminal.clear()?;
            continue;
        }
        if let Some(line) = app.key(key) {
            app.say(&format!("> {line}"));
            app.running = true;
            terminal.draw(|frame| draw(frame, app))?;
            let answer = interruptible(&mut app.debugger, &line, &mut ahead)?;
            app.running = false;
            app.answered(answer);
        }
    }
    Ok(())
}

/// Executes a command on a thread of its own while this one looks for Ctrl-C; other events wait in
/// `ahead`.
fn interruptible(
    debugger: &mut Debugger,
    line: &str,
    ahead: &mut VecDeque<Event>,
) -> io::Result<Result<String, String>> {
    let interrupt = Arc::clone(&debugger.session.interrupt);
    std::thread::scope(|scope| {
        let command = scope.spawn(move || debugger.execute(line));
        let mut wait = Duration::from_millis(1);
        while !command.is_finished() {
            if event::poll(wait)? {
                match event::read()? {
                    Event::Key(key) if is_control(&key, 'c') => {
                        interrupt.store(true, Ordering::Relaxed);
                    }
                    other => ahead.push_back(other),
                }
            }
            wait = (wait * 2).min(Duration::from_millis(50));
        }
        interrupt.store(false, Ordering::Relaxed);
        Ok(command.join().unwrap_or_else(|_| Err("the command failed: a bug of tpbemu".into())))
    })
}

//! `tpbemu debug`: the debugger, in the terminal, line by line, or from a script.

use std::io::{BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;

use super::run::{RaceMode, load};
use crate::debug::editor::{Edit, Editor};
use crate::debug::{Debugger, Session, line, tui};
use crate::error::{Error, Result};
use crate::isa::Generation;
use crate::machine::checkpoint::Checkpoint;
use crate::machine::{MachineConfig, Options};

/// Steps a program, stops it, looks into it and takes it back.
///
/// In a terminal it shows panes (F1 lists the keys); `--line` gives a plain prompt. With `-x` or
/// `--batch`, or when the input is no terminal, it executes commands and ends. `-x help` lists them.
#[derive(Args, Debug)]
pub struct DebugArgs {
    /// Program, as for `run`.
    program: PathBuf,
    /// Generation of raw streams: v1, v2, v3, v4, v4+, v5.
    #[arg(long)]
    r#gen: Option<Generation>,
    /// Configuration file instead of the generation's built-in one.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Execute commands, separated by `;`, and end. May be given several times.
    #[arg(short = 'x', long = "execute", value_name = "COMMANDS")]
    execute: Vec<String>,
    /// Execute the commands of a file and end.
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
    /// A prompt instead of panes.
    #[arg(long)]
    line: bool,
    /// Start at a checkpoint that `run --checkpoint-every` left.
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Accept words that break a static rule; they fault when they are reached.
    #[arg(long)]
    lenient: bool,
    /// What a race does.
    #[arg(long, value_enum, default_value_t = RaceMode::Stop)]
    races: RaceMode,
    /// Do not test for reads of memory nobody wrote.
    #[arg(long)]
    allow_unwritten: bool,
    /// Stop after this many cycles of the fastest clock.
    #[arg(long, default_value_t = 10_000_000_000)]
    max_cycles: u64,
}

/// Runs the subcommand.
///
/// # Errors
/// The program or the checkpoint cannot be loaded; a script cannot be read. What the program does
/// wrong is told, and no error.
pub fn main(args: &DebugArgs) -> Result<ExitCode> {
    let program = Arc::new(load(&args.program, args.r#gen)?);
    let config = Arc::new(match &args.config {
        Some(path) => MachineConfig::load(path)?,
        None => MachineConfig::builtin(program.generation),
    });
    let options = Options {
        max_cycles: Some(args.max_cycles),
        strict: !args.lenient,
        races: args.races.into(),
        check_unwritten: !args.allow_unwritten,
        ..Options::default()
    };
    let checkpoint = args.restore.as_deref().map(Checkpoint::load).transpose()?;
    let session = Session::new(program, config, options, checkpoint.as_ref())?;
    let flag = Arc::clone(&session.interrupt);
    // a second handler (in-process tests) is not an error worth telling
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let mut debugger = Debugger::new(session, &args.program);
    let failed = |e: std::io::Error| Error::io(Path::new("terminal"), &e);
    if !args.execute.is_empty() || args.batch.is_some() {
        let mut text = args.execute.join("\n").replace(';', "\n");
        if let Some(path) = &args.batch {
            let limit = crate::program::limits::SOURCE_BYTES;
            let bytes = crate::program::files::read_limited(path, limit)?;
            text.push('\n');
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        let answers = debugger.script(&text);
        return super::print(&answers).map(|()| ExitCode::SUCCESS);
    }
    if !std::io::stdin().is_terminal() {
        let input = BufReader::new(std::io::stdin().lock());
        return match line::run(&mut debugger, input, &mut std::io::stdout().lock(), true) {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(failed(e)),
            _ => Ok(ExitCode::SUCCESS),
        };
    }
    if args.line || !std::io::stdout().is_terminal() {
        prompt(&mut debugger).map_err(failed)?;
    } else {
        tui::run(debugger).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The plain prompt, with history.
fn prompt(debugger: &mut Debugger) -> std::io::Result<()> {
    use ratatui::crossterm::cursor::MoveToColumn;
    use ratatui::crossterm::event::{Event, KeyEventKind, read};
    use ratatui::crossterm::terminal::{Clear, ClearType, disable_raw_mode, enable_raw_mode};
    use ratatui::crossterm::{execute, style::Print};
    const PROMPT: &str = "(tpb) ";
    let mut editor = Editor::default();
    let mut out = std::io::stdout();
    while !debugger.quit {
        enable_raw_mode()?;
        let line = loop {
            let column = (PROMPT.len() + editor.cursor()) as u16;
            execute!(
                out,
                MoveToColumn(0),
                Clear(ClearType::CurrentLine),
                Print(format!("{PROMPT}{}", editor.text())),
                MoveToColumn(column)
            )?;
            let key = match read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => key,
                Ok(_) => continue,
                Err(e) => {
                    disable_raw_mode()?;
                    return Err(e);
                }
            };
            match editor.key(key) {
                Edit::Enter(line) if line.is_empty() => {
                    break editor.last().unwrap_or_default().to_string();
                }
                Edit::Enter(line) => break line,
                Edit::End => break "quit".to_string(),
                Edit::Line | Edit::Cancel | Edit::Other => {}
            }
        };
        disable_raw_mode()?;
        writeln!(out)?;
        line::answer(debugger, &line, &mut out)?;
    }
    Ok(())
}

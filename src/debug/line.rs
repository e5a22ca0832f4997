//! Line mode: commands from a file, from the command line, from a pipe, or typed.

use std::io::{BufRead, Write};

use super::command::Debugger;

/// Executes command lines from `input` as they come and writes the answers to `output`. Each line
/// is repeated before its answer with `echo`. An empty line repeats the last one without it.
///
/// # Errors
/// Input or output fails.
pub fn run(
    debugger: &mut Debugger,
    input: impl BufRead,
    output: &mut impl Write,
    echo: bool,
) -> std::io::Result<()> {
    for line in input.lines() {
        let line = line?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if echo {
            writeln!(output, "> {line}")?;
        }
        answer(debugger, line, output)?;
        if debugger.quit {
            break;
        }
    }
    output.flush()
}

/// Executes one line and writes its answer.
///
/// # Errors
/// Output fails.
pub fn answer(debugger: &mut Debugger, line: &str, output: &mut impl Write) -> std::io::Result<()> {
    match debugger.execute(line) {
        Ok(text) => output.write_all(text.as_bytes())?,
        Err(text) => writeln!(output, "error: {text}")?,
    }
    output.flush()
}

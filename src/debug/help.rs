//! The commands: names, arguments and what they do.

use std::fmt::Write as _;

/// A command.
pub struct Command {
    /// Name.
    pub name: &'static str,
    /// Short forms.
    pub short: &'static [&'static str],
    /// Arguments.
    pub arguments: &'static str,
    /// One line.
    pub about: &'static str,
    /// More.
    pub more: &'static str,
}

const fn c(
    name: &'static str,
    short: &'static [&'static str],
    arguments: &'static str,
    about: &'static str,
    more: &'static str,
) -> Command {
    Command { name, short, arguments, about, more }
}

/// All commands, in the order in which `help` lists them.
pub const COMMANDS: &[Command] = &[
    c(
        "step",
        &["s"],
        "[N] [ENGINE]",
        "goes on by N cycles",
        "Cycles of ENGINE's clock, or of the fastest one. Breakpoints stop it early.",
    ),
    c(
        "stepi",
        &["si"],
        "[N] [ENGINE]",
        "goes on by N instructions",
        "Instructions that leave the head of ENGINE's stream, or of any stream.",
    ),
    c("continue", &["c"], "", "goes on to a breakpoint or the end", ""),
    c(
        "until",
        &["u"],
        "TIME",
        "goes on to a time",
        "TIME is a tick, or nanoseconds with `ns` behind the number.",
    ),
    c("rstep", &["rs"], "[N] [ENGINE]", "goes back by N cycles", "The reverse of step."),
    c("rstepi", &["rsi"], "[N] [ENGINE]", "goes back by N instructions", "The reverse of stepi."),
    c("rcontinue", &["rc"], "", "goes back to the breakpoint hit before this place", ""),
    c("goto", &["g"], "TIME", "goes on or back to a time", "TIME as for until."),
    c("restart", &[], "", "goes back to the start", "Breakpoints stay."),
    c(
        "break",
        &["b"],
        "WHERE",
        "stops at WHERE",
        "WHERE is one of\n\
       \x20 ENGINE:PC            a word comes to the head of its stream\n\
       \x20 LINE or FILE:LINE    a word of this source line does\n\
       \x20 op NAME              a word with this opcode does\n\
       \x20 sem NAME [VALUE]     a semaphore changes (to VALUE)\n\
       \x20 event NAME [VALUE]   an event changes (to VALUE)\n\
       \x20 read|write|access PLACE [BYTES]   a work that touches the bytes begins\n\
       \x20 cycle N [ENGINE]     a cycle begins\n\
       \x20 tick N               a tick begins\n\
       \x20 queue NAME           a DMA block begins on the queue\n\
       \x20 q7                   POOL is about to run library code",
    ),
    c(
        "watch",
        &["w"],
        "TENSOR [r|w|rw]",
        "stops when a tensor is touched",
        "As `break write TENSOR`, or read, or access. PLACE BYTES works too.",
    ),
    c("breaks", &["bl"], "", "lists the breakpoints", ""),
    c("delete", &["d"], "N|all", "removes a breakpoint", ""),
    c("disable", &[], "N|all", "keeps a breakpoint without looking at it", ""),
    c("enable", &[], "N|all", "looks at a breakpoint again", ""),
    c(
        "display",
        &[],
        "[COMMAND]",
        "repeats a command at each stop",
        "For instance `display print y[0,0:4]` or `display sems`. Without argument lists them.",
    ),
    c("undisplay", &[], "N|all", "ends a display", ""),
    c("where", &["wh"], "", "says the time and where each stream is", ""),
    c(
        "streams",
        &["st"],
        "[ENGINE]",
        "shows the streams, or all about one",
        "For each: word at the head, words, works issued and in flight, what it waits for.",
    ),
    c(
        "regs",
        &["r"],
        "ENGINE [all]",
        "shows the registers of a sequencer",
        "Registers that are not 0, or all. For the V1 SP counters and addresses too.",
    ),
    c("waits", &[], "", "shows who waits for what", ""),
    c(
        "sync",
        &[],
        "",
        "shows events and semaphores",
        "Those with a name and those that are not 0, with who changed them last.",
    ),
    c("sems", &[], "", "shows semaphores", "As sync."),
    c("events", &[], "", "shows events", "As sync."),
    c("queues", &["qs"], "[all]", "shows the DMA queues", ""),
    c("log", &["l"], "[N]", "shows the last N things that happened", ""),
    c(
        "list",
        &[],
        "[ENGINE|LINE|FILE:LINE] [N]",
        "shows source text",
        "Around the word at ENGINE's head, or a line. Marks the heads of all streams.",
    ),
    c("dis", &[], "ENGINE [PC] [N]", "disassembles words of a stream", "From the head on."),
    c("tensors", &[], "", "lists the tensors of the program", ""),
    c(
        "print",
        &["p"],
        "TENSOR[INDEX]",
        "prints a tensor or a part of it",
        "INDEX is a list of elements and ranges: `print y[3,0:8]`. Bytes that an instruction in\n\
       flight writes are shown as it will leave them.",
    ),
    c(
        "x",
        &[],
        "PLACE DTYPE [COUNT|STEPxCOUNT]...",
        "prints memory by type and access pattern",
        "PLACE is sbuf:P:BYTE, sbuf:P-Q:BYTE, psum:P:BYTE, hbm:BYTE, @ADDRESS or a tensor, with\n\
       +BYTE behind it if wanted (of a tensor its first partition). Steps are in elements, innermost first:\n\
       \x20 x sbuf:0-3:0x100 bf16 8\n\
       \x20 x y fp32 1x4 64x2",
    ),
    c(
        "q7",
        &[],
        "[CORE|enter|step [N]|core N|vectors|writes|leave]",
        "shows the Q7 cores, or steps library code",
        "Without argument a line for each core, with a number its registers and bundles.\n\
       `q7 enter` looks into the library call that POOL starts next (`break q7` stops there) on a\n\
       copy of the cores: `q7 step N` runs N bundles of one core, `q7 vectors` shows its vector\n\
       registers, `q7 writes` what it wrote to memory. The machine itself stays where it is.",
    ),
    c("info", &["i"], "", "says how far the run is and what is kept for going back", ""),
    c("source", &[], "FILE", "does the commands of a file", ""),
    c("help", &["h", "?"], "[COMMAND]", "says what a command does", ""),
    c("quit", &["q", "exit"], "", "ends the debugger", ""),
];

/// The command called `name`: its name, a short form, or a beginning that only it has.
///
/// # Errors
/// There is none, or several.
pub fn find(name: &str) -> Result<&'static Command, String> {
    let exact = COMMANDS.iter().find(|c| c.name == name || c.short.contains(&name));
    if let Some(command) = exact {
        return Ok(command);
    }
    let mut candidates = COMMANDS.iter().filter(|c| !name.is_empty() && c.name.starts_with(name));
    match (candidates.next(), candidates.next()) {
        (Some(command), None) => Ok(command),
        (Some(a), Some(b)) => Err(format!("`{name}` could be {} or {}", a.name, b.name)),
        _ => Err(format!("there is no command `{name}`; `help` lists them")),
    }
}

/// Help on one command, or the list of all.
///
/// # Errors
/// As [`find`].
pub fn text(command: Option<&str>) -> Result<String, String> {
    let mut out = String::new();
    if let Some(name) = command {
        let c = find(name)?;
        let _ = writeln!(out, "{} {}", c.name, c.arguments);
        let _ = writeln!(out, "  {}", c.about);
        if !c.short.is_empty() {
            let _ = writeln!(out, "  short: {}", c.short.join(", "));
        }
        for line in c.more.lines() {
            let _ = writeln!(out, "  {line}");
        }
        return Ok(out);
    }
    for c in COMMANDS {
        let short =
            if c.short.is_empty() { String::new() } else { format!(" ({})", c.short.join(", ")) };
        let _ = writeln!(out, "{:<18} {}", format!("{}{short}", c.name), c.about);
    }
    out.push_str("`help COMMAND` says more. An engine is PE, ACT, POOL, DVE or SP.\n");
    Ok(out)
}

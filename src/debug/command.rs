//! Command lines of the debugger: what both the line mode and the terminal interface execute.

use std::fmt::Write as _;
use std::path::Path;

use super::breakpoints::Kind;
use super::cores::{self, Inside};
use super::help;
use super::place::{self, number};
use super::session::{Session, Stop};
use super::show;
use super::source::{self, Sources};
use crate::isa::Engine;
use crate::machine::run::ENGINE_STREAMS;
use crate::sync::SyncId;

/// Commands of files within files.
const MOST_NESTED: usize = 8;

/// What a command line gave: text for the user, or a complaint.
pub type Answer = Result<String, String>;

/// A session with what only its user needs.
pub struct Debugger {
    /// The machine under control.
    pub session: Session,
    /// Source text.
    pub sources: Sources,
    /// The library call that is stepped.
    pub inside: Option<Inside>,
    /// Whether the user wants to leave.
    pub quit: bool,
    /// Whether displays are part of the answer; the terminal interface shows them itself.
    pub repeat: bool,
    displays: Vec<(u32, String)>,
    last_display: u32,
    nested: usize,
}

impl Debugger {
    /// A debugger of the program at `path`.
    pub fn new(session: Session, path: &Path) -> Debugger {
        Debugger {
            sources: Sources::load(&session.machine, path),
            session,
            inside: None,
            quit: false,
            repeat: true,
            displays: Vec::new(),
            last_display: 0,
            nested: 0,
        }
    }

    /// Executes one command line.
    ///
    /// # Errors
    /// What is wrong with it, in words; nothing was done then.
    pub fn execute(&mut self, line: &str) -> Answer {
        let line = line.split('#').next().unwrap_or("").trim();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { return Ok(String::new()) };
        let command = help::find(name)?;
        let args: Vec<&str> = words.collect();
        let rest = line[name.len()..].trim();
        match command.name {
            "step" => self.step(&args, false),
            "rstep" => self.step(&args, true),
            "stepi" => self.stepi(&args, false),
            "rstepi" => self.stepi(&args, true),
            "continue" => Ok(self.moved(Session::go_on)),
            "rcontinue" => Ok(self.moved(Session::go_back)),
            "until" => {
                let tick = self.tick(&args)?;
                if tick < self.session.machine.now() {
                    return Err("that is in the past; `goto` goes back".into());
                }
                Ok(self.moved(|s| s.go_to(tick)))
            }
            "goto" => {
                let tick = self.tick(&args)?;
                Ok(self.moved(|s| s.go_to(tick)))
            }
            "restart" => Ok(self.moved(Session::restart)),
            "break" => self.add_break(&args, rest),
            "watch" => self.watch(&args),
            "breaks" => Ok(self.list_breaks()),
            "delete" | "disable" | "enable" => self.change_break(command.name, &args),
            "display" => self.display(rest),
            "undisplay" => self.undisplay(&args),
            "where" => {
                let machine = &self.session.machine;
                Ok(format!("{}\n{}", show::time(machine, machine.now()), show::streams(machine)))
            }
            "streams" => match args.first() {
                None => Ok(show::streams(&self.session.machine)),
                Some(name) => Ok(show::stream(&self.session.machine, engine(name)?)),
            },
            "regs" => {
                let s = engine(args.first().ok_or("which engine?")?)?;
                let all = args.get(1).is_some_and(|a| *a == "all");
                Ok(show::registers(&self.session.machine, s, all))
            }
            "waits" => Ok(show::waits(&self.session.machine)),
            "sync" => Ok(show::sync(&self.session.machine, true, true)),
            "sems" => Ok(show::sync(&self.session.machine, false, true)),
            "events" => Ok(show::sync(&self.session.machine, true, false)),
            "queues" => Ok(show::queues(&self.session.machine, args.first() == Some(&"all"))),
            "log" => {
                let n = args.first().map_or(Ok(10), |n| number(n))?;
                Ok(show::log(&self.session, n.min(100_000) as usize))
            }
            "list" => self.list(&args),
            "dis" => self.disassemble(&args),
            "tensors" => Ok(self.tensors()),
            "print" => place::tensor(&mut self.session.machine, rest),
            "x" => self.examine(&args),
            "q7" => self.q7(&args),
            "info" => Ok(self.info()),
            "source" => self.source(rest),
            "help" => help::text(args.first().copied()),
            "quit" => {
                self.quit = true;
                Ok(String::new())
            }
            other => Err(format!("`{other}` is listed but does nothing")),
        }
    }

    /// Does a movement and says where it ended, with the displays.
    fn moved(&mut self, movement: impl FnOnce(&mut Session) -> Stop) -> String {
        self.inside = None;
        let stop = movement(&mut self.session);
        let mut out = show::stop(&self.session, &stop);
        if let Stop::Hit(_) | Stop::There = stop {
            out.push_str(&self.here());
        }
        if !self.repeat {
            return out;
        }
        for (id, line) in self.displays.clone() {
            let _ = writeln!(out, "display {id}: {line}");
            match self.execute(&line) {
                Ok(text) => out.push_str(&text),
                Err(text) => {
                    let _ = writeln!(out, "error: {text}");
                }
            }
        }
        out
    }

    /// The stream that moves next, with its word.
    fn here(&self) -> String {
        let machine = &self.session.machine;
        let Some(entry) = machine.next() else { return String::new() };
        let name = show::stream_name(machine, entry.stream);
        let at =
            if entry.tick == machine.now() { String::new() } else { format!(" at {}", entry.tick) };
        use crate::machine::agenda::Action;
        let stream = machine.stream(entry.stream);
        match (entry.action, stream) {
            (Action::Head, Some(stream)) if entry.stream < ENGINE_STREAMS => {
                let text = show::disassembly(machine, entry.stream, stream.pc);
                format!("next{at}: {name} pc {} {text}\n", stream.pc)
            }
            (Action::Start, Some(stream)) if entry.stream < ENGINE_STREAMS => {
                let pc = stream.pending.front().map_or(stream.pc, |p| p.pc);
                let text = show::disassembly(machine, entry.stream, pc);
                format!("next{at}: {name} starts pc {pc} {text}\n")
            }
            (Action::Update(_), _) => format!("next{at}: an update by {name} becomes visible\n"),
            (Action::Complete(_), _) => format!("next{at}: {name} completes a block\n"),
            _ => format!("next{at}: {name} starts a transfer\n"),
        }
    }

    fn step(&mut self, args: &[&str], back: bool) -> Answer {
        let (n, s) = count_and_engine(args)?;
        let ticks = n.saturating_mul(self.session.period(s));
        let now = self.session.machine.now();
        let tick = if back { now.saturating_sub(ticks) } else { now.saturating_add(ticks) };
        Ok(self.moved(|session| session.go_to(tick)))
    }

    fn stepi(&mut self, args: &[&str], back: bool) -> Answer {
        let (n, s) = count_and_engine(args)?;
        Ok(self.moved(|session| {
            if back { session.instructions_back(n, s) } else { session.instructions(n, s) }
        }))
    }

    fn tick(&self, args: &[&str]) -> Result<u64, String> {
        let text = args.first().ok_or("a time is missing")?;
        match text.strip_suffix("ns") {
            Some(ns) => {
                let ps: f64 = ns.parse::<f64>().map_err(|_| format!("`{text}` is no time"))? * 1e3;
                if !(0.0..1e18).contains(&ps) {
                    return Err(format!("`{text}` is no time"));
                }
                Ok(self.session.machine.timebase().from_ps(ps as u64))
            }
            None => number(text),
        }
    }

    // ---------------------------------------------------------------- breakpoints

    fn add_break(&mut self, args: &[&str], text: &str) -> Answer {
        let kind = self.kind(args)?;
        let id = self.session.breakpoints.add(text, kind);
        Ok(format!("breakpoint {id}: {text}\n"))
    }

    fn kind(&self, args: &[&str]) -> Result<Kind, String> {
        let machine = &self.session.machine;
        let first = *args.first().ok_or("where? `help break` lists the places")?;
        let second = args.get(1).copied();
        let need = |what: &str| second.ok_or_else(|| format!("{what} is missing"));
        match first {
            "op" => {
                let name = need("the opcode")?;
                let generation = machine.generation();
                let table = crate::isa::opcode_table(generation);
                let found = table.iter().find(|d| {
                    d.name.eq_ignore_ascii_case(name)
                        && crate::isa::opcode(generation, d.byte).is_ok()
                });
                match found {
                    Some(def) => Ok(Kind::Opcode(def.byte)),
                    None => {
                        let code = number(name).ok().and_then(|n| u8::try_from(n).ok());
                        code.map(Kind::Opcode)
                            .ok_or_else(|| format!("{generation} has no opcode `{name}`"))
                    }
                }
            }
            "sem" | "event" => {
                let name = need("the name or number")?;
                let program = machine.program();
                let names = if first == "sem" { &program.semaphores } else { &program.events };
                let n = match names.get(name) {
                    Some(&n) => u64::from(n),
                    None => number(name).map_err(|_| {
                        let names: Vec<&str> = names.keys().map(String::as_str).collect();
                        format!("no {first} `{name}`; the program names {}", names.join(", "))
                    })?,
                };
                let n = u16::try_from(n).map_err(|_| format!("there is no {first} {n}"))?;
                let id = if first == "sem" { SyncId::Semaphore(n) } else { SyncId::Event(n) };
                machine.sync_state().value(id).map_err(|e| e.message)?;
                let value = args.get(2).map(|v| number(v)).transpose()?;
                let value = value.map(u32::try_from).transpose().map_err(|e| e.to_string())?;
                Ok(Kind::Sync(id, value))
            }
            "read" | "write" | "access" => {
                let bytes = place::range(machine, need("the place")?, args.get(2).copied())?;
                Ok(Kind::Memory(bytes, first != "write", first != "read"))
            }
            "cycle" => {
                let s = args.get(2).map(|name| engine(name)).transpose()?;
                let cycle = number(need("the cycle")?)?;
                Ok(Kind::Tick(cycle.saturating_mul(self.session.period(s))))
            }
            "tick" => Ok(Kind::Tick(number(need("the tick")?)?)),
            "q7" => Ok(Kind::Cores),
            "queue" => {
                let name = need("the queue")?;
                let name = name.strip_prefix("q:").unwrap_or(name);
                let queues = &machine.image().queues;
                let found = queues.iter().position(|q| q == name);
                found
                    .map(Kind::Queue)
                    .ok_or_else(|| format!("no queue `{name}`; there are {}", queues.join(", ")))
            }
            _ => self.words(first).map(Kind::Words),
        }
    }

    /// The words that `ENGINE:PC`, `LINE` or `FILE:LINE` names.
    fn words(&self, text: &str) -> Result<Vec<(usize, usize)>, String> {
        let machine = &self.session.machine;
        if let Some((name, pc)) = text.rsplit_once(':')
            && let Some(s) = show::engine(name)
        {
            let pc = number(pc)? as usize;
            if pc >= machine.words(s) {
                return Err(format!("{} has {} words", name.to_uppercase(), machine.words(s)));
            }
            return Ok(vec![(s, pc)]);
        }
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) => (Some(file), line),
            None => (None, text),
        };
        let line = number(line)
            .ok()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| format!("`{text}` is no place; `help break` lists what is"))?;
        let words = source::words_at(machine, file, line);
        if words.is_empty() {
            return Err(format!("no word comes from line {line}"));
        }
        Ok(words)
    }

    fn watch(&mut self, args: &[&str]) -> Answer {
        let place = *args.first().ok_or("which tensor?")?;
        let (mut read, mut write, mut len) = (false, true, None);
        for arg in &args[1..] {
            match *arg {
                "r" => (read, write) = (true, false),
                "w" => (read, write) = (false, true),
                "rw" => (read, write) = (true, true),
                other => len = Some(other),
            }
        }
        let bytes = place::range(&self.session.machine, place, len)?;
        let text = format!("watch {}", args.join(" "));
        let id = self.session.breakpoints.add(&text, Kind::Memory(bytes, read, write));
        Ok(format!("breakpoint {id}: {text}\n"))
    }

    fn list_breaks(&self) -> String {
        let mut out = String::new();
        for b in &self.session.breakpoints.list {
            let _ =
                writeln!(out, "{}: {}{}", b.id, b.text, if b.enabled { "" } else { " (disabled)" });
        }
        if out.is_empty() { "no breakpoints\n".into() } else { out }
    }

    fn change_break(&mut self, what: &str, args: &[&str]) -> Answer {
        let which = *args.first().ok_or("which one? `breaks` lists them")?;
        let id = if which == "all" { None } else { Some(number(which)?) };
        let list = &mut self.session.breakpoints.list;
        let meant = |b: &super::breakpoints::Breakpoint| id.is_none_or(|id| u64::from(b.id) == id);
        if id.is_some() && !list.iter().any(meant) {
            return Err(format!("there is no breakpoint {which}"));
        }
        match what {
            "delete" => list.retain(|b| !meant(b)),
            _ => list.iter_mut().filter(|b| meant(b)).for_each(|b| b.enabled = what == "enable"),
        }
        Ok(String::new())
    }

    fn display(&mut self, line: &str) -> Answer {
        if line.is_empty() {
            let mut out = String::new();
            for (id, line) in &self.displays {
                let _ = writeln!(out, "{id}: {line}");
            }
            return Ok(if out.is_empty() { "no displays\n".into() } else { out });
        }
        let name = line.split_whitespace().next().unwrap_or("");
        const SHOWING: [&str; 15] = [
            "print", "x", "sems", "events", "sync", "waits", "queues", "regs", "streams", "where",
            "list", "dis", "log", "info", "q7",
        ];
        if !SHOWING.contains(&help::find(name)?.name) {
            return Err(format!(
                "`{name}` shows nothing; a display is one of {}",
                SHOWING.join(", ")
            ));
        }
        self.last_display += 1;
        self.displays.push((self.last_display, line.to_string()));
        Ok(format!("display {}: {line}\n", self.last_display))
    }

    fn undisplay(&mut self, args: &[&str]) -> Answer {
        match args.first().copied() {
            Some("all") => self.displays.clear(),
            Some(n) => {
                let n = number(n)?;
                self.displays.retain(|d| u64::from(d.0) != n);
            }
            None => return Err("which one? `display` lists them".into()),
        }
        Ok(String::new())
    }

    /// The commands that are repeated at each stop.
    pub fn displays(&self) -> impl Iterator<Item = &str> {
        self.displays.iter().map(|d| d.1.as_str())
    }

    // ---------------------------------------------------------------- looking

    fn list(&self, args: &[&str]) -> Answer {
        let machine = &self.session.machine;
        let at = match args.first() {
            None => (0..ENGINE_STREAMS)
                .filter(|&s| machine.stream(s).is_some_and(|t| t.pc < machine.words(s)))
                .find_map(|s| source::line_of(machine, s, machine.stream(s)?.pc)),
            Some(name) => match show::engine(name) {
                Some(s) => {
                    let pc = machine.stream(s).map_or(0, |t| t.pc);
                    source::line_of(machine, s, pc)
                }
                None => {
                    let (file, line) = match name.rsplit_once(':') {
                        Some((file, line)) => (Some(file), line),
                        None => (None, *name),
                    };
                    let names = &machine.program().sources;
                    let index = file.map_or(Some(0), |f| {
                        names.iter().position(|n| n == f || n.ends_with(&format!("/{f}")))
                    });
                    let file = index.ok_or_else(|| format!("no source file in `{name}`"))? as u32;
                    let line = u32::try_from(number(line)?).map_err(|e| e.to_string())?;
                    Some(crate::program::SourceLine { file, line })
                }
            },
        };
        let at = at.ok_or("no source line is known for that")?;
        let lines = self.sources.file(at.file).ok_or("the source text was not found")?;
        let n = args.get(1).map_or(Ok(11), |n| number(n))?.clamp(1, 1000) as u32;
        let from = at.line.saturating_sub(n / 2).max(1);
        let heads = source::heads(machine, at.file);
        let mut out = String::new();
        for line in from..from.saturating_add(n) {
            let Some(text) = lines.get(line as usize - 1) else { break };
            let heads = heads.get(&line).map_or(String::new(), |engines| {
                let names: Vec<String> = engines.iter().map(ToString::to_string).collect();
                format!("{}>", names.join(","))
            });
            let _ = writeln!(out, "{heads:>9} {line:>4}  {text}");
        }
        Ok(out)
    }

    fn disassemble(&self, args: &[&str]) -> Answer {
        let machine = &self.session.machine;
        let s = engine(args.first().ok_or("which engine?")?)?;
        let head = machine.stream(s).map_or(0, |t| t.pc);
        let from = args.get(1).map_or(Ok(head as u64), |n| number(n))? as usize;
        let n = args.get(2).map_or(Ok(8), |n| number(n))?.min(10_000) as usize;
        let mut out = String::new();
        for pc in from..from.saturating_add(n).min(machine.words(s)) {
            let mark = if pc == head { "=>" } else { "  " };
            let _ = writeln!(out, "{mark} {pc:>4}: {}", show::disassembly(machine, s, pc));
        }
        if out.is_empty() { Err("there are no words".into()) } else { Ok(out) }
    }

    fn tensors(&self) -> String {
        let machine = &self.session.machine;
        let mut out = String::new();
        for t in &machine.program().tensors {
            let at = crate::machine::tensors::region(t, machine.config());
            let at = at.map_or_else(|e| e.message, |r| r.to_string());
            let shape: Vec<String> = t.shape.iter().map(ToString::to_string).collect();
            let _ = writeln!(out, "{:<16} {} [{}] at {at}", t.name, t.dtype, shape.join(", "));
        }
        if out.is_empty() { "the program names no tensors\n".into() } else { out }
    }

    fn examine(&mut self, args: &[&str]) -> Answer {
        let machine = &mut self.session.machine;
        let place = place::Place::parse(machine, args.first().ok_or("which place?")?)?;
        let dtype = place::dtype(args.get(1).ok_or("which type?")?)?;
        let mut dims: Vec<(i64, u64)> =
            args[2..].iter().map(|d| place::dimension(d)).collect::<Result<_, _>>()?;
        if dims.is_empty() {
            dims.push((1, 8));
        }
        place::pattern(machine, &place, dtype, &dims)
    }

    fn q7(&mut self, args: &[&str]) -> Answer {
        let inside = self.inside.as_mut();
        match (args.first().copied(), inside) {
            (Some("enter"), _) => {
                let inside = Inside::enter(&self.session.machine)?;
                let out = inside.view(false);
                self.inside = Some(inside);
                Ok(out)
            }
            (Some("leave"), _) => {
                self.inside = None;
                Ok(String::new())
            }
            (Some("step"), Some(inside)) => {
                let n = args.get(1).map_or(Ok(1), |n| number(n))?.clamp(1, 100_000_000);
                Ok(inside.step(&mut self.session.machine, n))
            }
            (Some("core"), Some(inside)) => {
                let n = number(args.get(1).ok_or("which core?")?)?;
                inside.choose(usize::try_from(n).unwrap_or(usize::MAX))?;
                Ok(inside.view(false))
            }
            (Some("writes"), Some(inside)) => Ok(inside.writes()),
            (Some("vectors"), Some(inside)) => Ok(inside.view(true)),
            (None, Some(inside)) => Ok(inside.view(false)),
            (Some("step" | "core" | "writes" | "vectors"), None) => {
                Err("`q7 enter` comes first".into())
            }
            (core, _) => {
                let cluster = self.session.machine.cluster().ok_or("no library was loaded yet")?;
                match core {
                    None => Ok(cores::summary(&cluster)),
                    Some(n) => {
                        let n = usize::try_from(number(n)?).unwrap_or(usize::MAX);
                        let out = cores::view(&cluster, n, true);
                        if out.is_empty() { Err(format!("there is no core {n}")) } else { Ok(out) }
                    }
                }
            }
        }
    }

    fn info(&self) -> String {
        let session = &self.session;
        let machine = &session.machine;
        let (snapshots, bytes) = session.snapshots();
        let cycles: Vec<String> = Engine::ALL
            .iter()
            .map(|&e| format!("{e} {}", machine.now() / machine.timebase().period(e)))
            .collect();
        format!(
            "{} program at {}, position {}\ncycles: {}\n{} instructions, {} records, digest {:016x}\n{} snapshots, {:.1} MiB\n",
            machine.generation(),
            show::time(machine, machine.now()),
            session.position(),
            cycles.join(", "),
            machine.executed(),
            session.trail(|t| t.total()),
            session.trail(|t| t.digest()),
            snapshots,
            bytes as f64 / (1 << 20) as f64
        )
    }

    fn source(&mut self, file: &str) -> Answer {
        if self.nested >= MOST_NESTED {
            return Err("files of commands lie too deep in each other".into());
        }
        let path = Path::new(file);
        let limit = crate::program::limits::SOURCE_BYTES;
        let bytes = crate::program::files::read_limited(path, limit).map_err(|e| e.to_string())?;
        let text = String::from_utf8(bytes).map_err(|e| format!("{file}: {e}"))?;
        self.nested += 1;
        let out = self.script(&text);
        self.nested -= 1;
        Ok(out)
    }

    /// Executes command lines one after the other; gives each line and its answer.
    pub fn script(&mut self, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let _ = writeln!(out, "> {line}");
            match self.execute(line) {
                Ok(text) => out.push_str(&text),
                Err(text) => {
                    let _ = writeln!(out, "error: {text}");
                }
            }
            if self.quit {
                break;
            }
        }
        out
    }
}

fn engine(name: &str) -> Result<usize, String> {
    show::engine(name)
        .ok_or_else(|| format!("`{name}` is no engine; they are PE, ACT, POOL, DVE and SP"))
}

/// `[N] [ENGINE]` in either order.
fn count_and_engine(args: &[&str]) -> Result<(u64, Option<usize>), String> {
    let (mut n, mut s) = (1, None);
    for arg in args {
        match show::engine(arg) {
            Some(found) => s = Some(found),
            None => {
                n = number(arg).map_err(|_| format!("`{arg}` is neither a number nor an engine"))?
            }
        }
    }
    Ok((n, s))
}

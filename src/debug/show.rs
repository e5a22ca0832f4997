//! The state of the machine in words: streams, queues, registers, waits, events and semaphores.

use std::fmt::Write as _;

use super::session::{Session, Stop};
use super::source;
use crate::isa::Engine;
use crate::machine::Machine;
use crate::machine::queue::Job;
use crate::machine::run::ENGINE_STREAMS;
use crate::machine::stream::{Blocked, RunState, Stream};
use crate::sync::SyncId;
use crate::trace::Record;

/// Name of a stream: an engine, or `q:NAME`.
pub fn stream_name(machine: &Machine, s: usize) -> String {
    match Engine::ALL.get(s) {
        Some(engine) => engine.to_string(),
        None => {
            let name = machine.image().queues.get(s - ENGINE_STREAMS);
            name.map_or_else(|| format!("stream {s}"), |n| format!("q:{n}"))
        }
    }
}

/// The engine stream called `name`, any case.
pub fn engine(name: &str) -> Option<usize> {
    Engine::ALL.iter().position(|e| e.to_string().eq_ignore_ascii_case(name))
}

/// The word at `pc` of engine stream `s`, disassembled with the program's names.
pub fn disassembly(machine: &Machine, s: usize, pc: usize) -> String {
    let image = machine.image();
    if s == Engine::Sp.index() && !image.sp.is_empty() {
        return image.sp.get(pc).map_or("end".into(), |word| format!("{word:?}"));
    }
    let word = image.words.get(s).and_then(|words| words.get(pc));
    word.map_or("end".into(), |word| machine.named(&crate::machine::image::disassemble(&word.inst)))
}

fn source_of(machine: &Machine, s: usize, pc: usize) -> String {
    let line = source::line_of(machine, s, pc).and_then(|l| machine.program().source_of(l));
    line.map_or(String::new(), |l| format!("  ({l})"))
}

/// Tick and nanoseconds.
pub fn time(machine: &Machine, tick: u64) -> String {
    format!("tick {tick} ({:.1} ns)", machine.timebase().to_ns(tick))
}

/// What a stream is doing at its head, in a few words.
pub fn state(machine: &Machine, s: usize) -> String {
    let Some(stream) = machine.stream(s) else { return String::new() };
    match stream.state {
        RunState::Done => return "done".into(),
        RunState::Halted => return "halted".into(),
        RunState::Paused => return "paused".into(),
        RunState::Running => {}
    }
    match stream.blocked {
        Blocked::Wait => {
            let unmet = machine.unmet(s);
            if unmet.is_empty() {
                "waits".into()
            } else {
                format!("waits for {}", unmet.join(", "))
            }
        }
        Blocked::Granted if stream.stall.is_some() => "drains".into(),
        Blocked::Granted => "wait granted".into(),
        Blocked::Queue => "queue full".into(),
        Blocked::No if stream.head_since.is_some() => "at the head".into(),
        Blocked::No => "fetches".into(),
    }
}

/// One line about the data path of a stream: works issued and in flight.
pub fn data_path(machine: &Machine, stream: &Stream) -> String {
    let now = machine.now();
    let flying = stream.in_flight.iter().filter(|f| f.end > now);
    let last = flying.clone().map(|f| f.end).max();
    match (stream.pending.len(), flying.count(), last) {
        (0, 0, _) => "idle".into(),
        (p, 0, _) => format!("{p} issued"),
        (0, f, Some(end)) => format!("{f} in flight until {end}"),
        (p, f, Some(end)) => format!("{p} issued, {f} in flight until {end}"),
        (p, f, None) => format!("{p} issued, {f} in flight"),
    }
}

/// The table of all engine streams.
pub fn streams(machine: &Machine) -> String {
    let mut out = String::new();
    for s in 0..ENGINE_STREAMS {
        let words = machine.words(s);
        let Some(stream) = machine.stream(s) else { continue };
        if words == 0 {
            continue;
        }
        let _ = writeln!(
            out,
            "{:<5} pc {:>4}/{:<4} done {:<5} {:<28} {}",
            stream.engine.to_string(),
            stream.pc,
            words,
            stream.executed,
            data_path(machine, stream),
            state(machine, s)
        );
        if stream.pc < words {
            let text = disassembly(machine, s, stream.pc);
            let _ = writeln!(out, "        {text}{}", source_of(machine, s, stream.pc));
        }
    }
    out
}

/// Everything about one engine stream.
pub fn stream(machine: &Machine, s: usize) -> String {
    let Some(stream) = machine.stream(s) else { return String::new() };
    let mut out = format!(
        "{} {:?}, pc {} of {}, {} executed, cycle {}\n",
        stream.engine,
        stream.state,
        stream.pc,
        machine.words(s),
        stream.executed,
        machine.now() / machine.timebase().period(stream.engine)
    );
    let _ = writeln!(
        out,
        "  head: {}{}",
        disassembly(machine, s, stream.pc),
        source_of(machine, s, stream.pc)
    );
    let _ = writeln!(out, "  state: {}", state(machine, s));
    if let Some(since) = stream.head_since {
        let _ = writeln!(out, "  at the head since {}", time(machine, since));
    }
    if let Some(stall) = stream.stall {
        let _ = writeln!(out, "  held by: {stall:?}");
    }
    for p in &stream.pending {
        let _ = writeln!(
            out,
            "  issued at {}, starts at {}: pc {} {}",
            p.issue,
            p.start,
            p.pc,
            disassembly(machine, s, p.pc)
        );
    }
    for f in stream.in_flight.iter().filter(|f| f.end > machine.now()) {
        let regions: Vec<String> = f
            .work
            .accesses
            .iter()
            .map(|a| format!("{} {}", if a.kind.writes() { "writes" } else { "reads" }, a.region))
            .collect();
        let _ = writeln!(out, "  in flight until {}: {}", f.end, regions.join("; "));
    }
    out
}

/// Registers of a sequencer that are not zero, or all.
pub fn registers(machine: &Machine, s: usize, all: bool) -> String {
    let Some(stream) = machine.stream(s) else { return String::new() };
    let mut out = String::new();
    if s == Engine::Sp.index() && !machine.image().sp.is_empty() {
        let sp = machine.sp_state();
        for (i, &n) in sp.counters.iter().enumerate().filter(|(_, n)| all || **n != 0) {
            let _ = writeln!(out, "counter {i:<2} = {n}");
        }
        for (i, &a) in sp.addresses.iter().enumerate().filter(|(_, a)| all || **a != 0) {
            let _ = writeln!(out, "address {i:<2} = {a:#x}");
        }
    }
    let mut column = 0;
    for (r, &value) in stream.registers.iter().enumerate().filter(|(_, v)| all || **v != 0) {
        let _ = write!(out, "R{r:<2} = {value:#010x} {value:<11}");
        column += 1;
        out.push(if column % 3 == 0 { '\n' } else { ' ' });
    }
    if column % 3 != 0 {
        out.push('\n');
    }
    if out.is_empty() {
        out = format!("all registers of {} are 0\n", stream.engine);
    }
    out
}

/// Who waits for what.
pub fn waits(machine: &Machine) -> String {
    let mut out = String::new();
    for s in 0..ENGINE_STREAMS {
        let Some(stream) = machine.stream(s) else { continue };
        if stream.state != RunState::Running || stream.blocked != Blocked::Wait {
            continue;
        }
        let since = stream.head_since.unwrap_or(machine.now());
        let _ = writeln!(
            out,
            "{} pc {} since {}: {}",
            stream.engine,
            stream.pc,
            time(machine, since),
            machine.unmet(s).join(", ")
        );
    }
    if out.is_empty() { "nobody waits\n".into() } else { out }
}

/// Name of an event or semaphore as the program calls it.
pub fn sync_name(machine: &Machine, id: SyncId) -> String {
    machine.named(&id.to_string())
}

/// An event or semaphore, its value, and who changed it last, and when: (stream, tick).
pub type SyncRow = (SyncId, u32, Option<(u16, u64)>);

/// Events and semaphores: those with a name and those that are not zero.
pub fn sync_rows(machine: &Machine) -> Vec<SyncRow> {
    let program = machine.program();
    let number = |n: &u32| u16::try_from(*n).ok();
    let mut ids: Vec<SyncId> = program
        .semaphores
        .values()
        .filter_map(number)
        .map(SyncId::Semaphore)
        .chain(program.events.values().filter_map(number).map(SyncId::Event))
        .collect();
    ids.extend(machine.sync_state().non_zero().map(|(id, _)| id));
    ids.sort_unstable();
    ids.dedup();
    let row = |id: SyncId| {
        let value = machine.sync_state().value(id).ok()?;
        Some((id, value, machine.last_change(id)))
    };
    ids.into_iter().filter_map(row).collect()
}

/// The table of events and semaphores.
pub fn sync(machine: &Machine, events: bool, semaphores: bool) -> String {
    let mut out = String::new();
    for (id, value, by) in sync_rows(machine) {
        let wanted = match id {
            SyncId::Event(_) => events,
            SyncId::Semaphore(_) => semaphores,
        };
        if !wanted {
            continue;
        }
        let by = by.map_or(String::new(), |(s, n)| {
            format!("  last changed by {} instruction {n}", stream_name(machine, usize::from(s)))
        });
        let _ = writeln!(out, "{:<20} = {value}{by}", sync_name(machine, id));
    }
    if out.is_empty() { "all are 0\n".into() } else { out }
}

fn job(machine: &Machine, job: &Job) -> String {
    match job {
        Job::Block(b) => {
            let block = machine.program().blocks.get(*b);
            let name = block.and_then(|b| b.name.clone());
            let transfers = machine.image().blocks.get(*b).map_or(0, |b| b.transfers.len());
            format!("block {} ({transfers} transfers)", name.unwrap_or_else(|| b.to_string()))
        }
        Job::Request(r) => format!("request ({} transfers)", r.transfers.len()),
    }
}

/// The DMA queues; those that were never used only with `all`.
pub fn queues(machine: &Machine, all: bool) -> String {
    let mut out = String::new();
    for (q, name) in machine.image().queues.iter().enumerate() {
        let Some(queue) = machine.queue(q) else { continue };
        if !all && queue.begun == 0 && queue.jobs.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "{name:<12} {} waiting, {} begun, {} transfers started{}",
            queue.jobs.len(),
            queue.begun,
            queue.started,
            if queue.busy { "" } else { ", idle" }
        );
        for (i, queued) in queue.jobs.iter().enumerate().take(8) {
            let by = stream_name(machine, usize::from(queued.trigger.0));
            let progress =
                if i == 0 { format!(", transfer {} next", queue.next) } else { "".into() };
            let what = job(machine, &queued.job);
            let _ = writeln!(out, "    {what} rung by {by} at {}{progress}", queued.at);
        }
        if queue.jobs.len() > 8 {
            let _ = writeln!(out, "    and {} more", queue.jobs.len() - 8);
        }
    }
    if out.is_empty() { "no queue was used yet\n".into() } else { out }
}

/// The last `n` records of the run.
pub fn log(session: &Session, n: usize) -> String {
    let machine = &session.machine;
    let records: Vec<Record> = session.trail(|t| t.since(0).rev().take(n).cloned().collect());
    let mut out = String::new();
    for record in records.iter().rev() {
        let _ = match record {
            Record::Inst(i) => {
                let s = usize::from(i.stream);
                let text = disassembly(machine, s, i.pc as usize);
                let held = i.stall.map_or(String::new(), |c| format!(" held by {c:?}"));
                writeln!(
                    out,
                    "{:>8}..{:<8} {:<5} pc {} {text}{held}",
                    i.start,
                    i.end,
                    stream_name(machine, s),
                    i.pc
                )
            }
            Record::Sync(c) => {
                let by = stream_name(machine, usize::from(c.by.0));
                let id = sync_name(machine, c.id);
                writeln!(out, "{:>8}           {by:<5} {id} = {}", c.tick, c.value)
            }
            Record::Transfer(t) => {
                let queue = stream_name(machine, usize::from(t.stream));
                writeln!(out, "{:>8}..{:<8} {queue} {} bytes", t.start, t.end, t.bytes)
            }
            Record::Note { tick, stream, pc, text } => {
                let by = stream_name(machine, usize::from(*stream));
                writeln!(out, "{tick:>8}           {by:<5} pc {pc} note: {text}")
            }
            Record::Queued { tick, stream, transfers, by } => {
                let queue = stream_name(machine, usize::from(*stream));
                let by = stream_name(machine, usize::from(by.0));
                writeln!(out, "{tick:>8}           {by:<5} rings {queue}: {transfers} transfers")
            }
            Record::Library { tick, end, cores, bytes, .. } => {
                writeln!(
                    out,
                    "{tick:>8}..{end:<8} POOL  loads {bytes} bytes into cores {cores:#04x}"
                )
            }
            other => writeln!(out, "{other:?}"),
        };
    }
    if out.is_empty() { "nothing has happened yet\n".into() } else { out }
}

/// Why and where the machine stands.
pub fn stop(session: &Session, stop: &Stop) -> String {
    let machine = &session.machine;
    let at = time(machine, machine.now());
    match stop {
        Stop::There => format!("{at}\n"),
        Stop::Hit(hit) => format!("{at}: breakpoint {}: {}\n", hit.id, hit.what),
        Stop::Start => format!("{at}: the start\n"),
        Stop::Interrupted => format!("{at}: interrupted\n"),
        Stop::End => {
            let mut out =
                format!("{at}: the run is at its end, {} instructions\n", machine.executed());
            for remark in session.ended.iter().flat_map(|e| &e.remarks) {
                let _ = writeln!(out, "remark: {remark}");
            }
            out
        }
        Stop::Fault => {
            let error = session.ended.as_ref().and_then(|e| e.error.as_ref());
            format!("{at}: {}\n", error.map_or_else(String::new, ToString::to_string))
        }
    }
}

//! Draws the panes.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use super::{App, KEYS, Lower};
use crate::debug::breakpoints::Kind;
use crate::debug::{cores, show, source};
use crate::isa::Engine;
use crate::machine::run::ENGINE_STREAMS;
use crate::machine::stream::{Blocked, RunState};

/// Colour of each engine, in their order.
const COLOURS: [Color; ENGINE_STREAMS] = [
    Color::LightBlue,
    Color::LightGreen,
    Color::LightMagenta,
    Color::LightYellow,
    Color::LightCyan,
];

fn colour(s: usize) -> Color {
    COLOURS.get(s).copied().unwrap_or(Color::Gray)
}

fn pane(title: &str) -> Block<'_> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .title(Span::styled(format!(" {title} "), Style::new().bold().fg(Color::White)))
}

fn text(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(lines).block(pane(title)), area);
}

fn plain(text: &str) -> Vec<Line<'static>> {
    text.lines().map(|l| Line::from(l.to_string())).collect()
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    let words = &app.debugger.session.machine;
    let used = (0..ENGINE_STREAMS).filter(|&s| words.words(s) > 0).count() as u16;
    let [status, upper, middle, lower, line] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Max(used.max(1) * 2 + 2),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_status(frame, status, app);
    draw_streams(frame, upper, app);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(middle);
    draw_source(frame, left, app);
    let [top, bottom] =
        Layout::vertical([Constraint::Percentage(45), Constraint::Percentage(55)]).areas(right);
    draw_sync(frame, top, app);
    draw_lower(frame, bottom, app);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(lower);
    draw_answers(frame, left, app);
    draw_memory(frame, right, app);
    draw_input(frame, line, app);
    if app.help {
        draw_help(frame, area);
    }
}

fn draw_status(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let session = &app.debugger.session;
    let machine = &session.machine;
    let engine = Engine::ALL[app.engine.min(ENGINE_STREAMS - 1)];
    let cycle = machine.now() / machine.timebase().period(engine);
    let state = match &session.ended {
        _ if app.running => {
            Span::styled(" running ", Style::new().fg(Color::Black).bg(Color::Green))
        }
        Some(e) if e.error.is_some() => {
            Span::styled(" fault ", Style::new().fg(Color::White).bg(Color::Red))
        }
        Some(_) => Span::styled(" at the end ", Style::new().fg(Color::Black).bg(Color::Gray)),
        None => Span::styled(" stopped ", Style::new().fg(Color::Black).bg(Color::Yellow)),
    };
    let line = Line::from(vec![
        Span::styled(" tpbemu debug ", Style::new().bold()),
        state,
        Span::raw(format!(
            " {}  {}, {engine} cycle {cycle}, {} instructions",
            machine.generation(),
            show::time(machine, machine.now()),
            machine.executed()
        )),
        Span::styled("   F1 help", Style::new().fg(Color::Gray)),
    ]);
    frame.render_widget(Paragraph::new(line).style(Style::new().bg(Color::Indexed(236))), area);
}

fn draw_streams(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let machine = &app.debugger.session.machine;
    let mut lines = Vec::new();
    for s in (0..ENGINE_STREAMS).filter(|&s| machine.words(s) > 0) {
        let Some(stream) = machine.stream(s) else { continue };
        let chosen = s == app.engine;
        let style = match (stream.state, stream.blocked) {
            (RunState::Done | RunState::Halted | RunState::Paused, _) => {
                Style::new().fg(Color::DarkGray)
            }
            (_, Blocked::Wait) => Style::new().fg(Color::Yellow),
            (_, Blocked::Queue) => Style::new().fg(Color::LightRed),
            _ => Style::new().fg(Color::Green),
        };
        let name = Style::new().fg(colour(s)).bold();
        let name = if chosen { name.add_modifier(Modifier::REVERSED) } else { name };
        lines.push(Line::from(vec![
            Span::styled(format!("{:<4}", stream.engine.to_string()), name),
            Span::raw(format!(" {:>4}/{:<4} ", stream.pc, machine.words(s))),
            Span::raw(show::disassembly(machine, s, stream.pc)),
        ]));
        lines.push(Line::from(vec![
            Span::raw("     "),
            Span::styled(show::state(machine, s), style),
            Span::styled(
                format!("   data path: {}", show::data_path(machine, stream)),
                Style::new().fg(Color::Gray),
            ),
        ]));
    }
    text(frame, area, "streams", lines);
}

fn draw_source(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let machine = &app.debugger.session.machine;
    let s = app.engine;
    let pc = machine.stream(s).map_or(0, |t| t.pc);
    let room = usize::from(area.height.saturating_sub(2)).max(1);
    let at = source::line_of(machine, s, pc.min(machine.words(s).saturating_sub(1)));
    let marks = break_marks(app);
    if let Some(at) = at
        && let Some(file) = app.debugger.sources.file(at.file)
    {
        let first = (at.line as usize).saturating_sub(room / 2).max(1);
        let first = first.min(file.len().saturating_sub(room) + 1).max(1);
        let heads = source::heads(machine, at.file);
        let lines = (first..first + room).map_while(|n| {
            let line = file.get(n - 1)?;
            let n = n as u32;
            let here: Vec<Engine> = heads.get(&n).cloned().unwrap_or_default();
            let stop = marks.iter().any(|&(s, pc)| {
                source::line_of(machine, s, pc).is_some_and(|l| l.file == at.file && l.line == n)
            });
            let names: Vec<String> = here.iter().map(ToString::to_string).collect();
            let style = match here.first() {
                Some(_) if n == at.line => Style::new().bg(Color::Indexed(238)).bold(),
                Some(e) => Style::new().fg(colour(e.index())),
                None => Style::new(),
            };
            let comment = line.find('#').unwrap_or(line.len());
            let (code, rest) = line.split_at(comment);
            Some(
                Line::from(vec![
                    Span::styled(if stop { "●" } else { " " }, Style::new().fg(Color::Red)),
                    Span::styled(
                        format!("{:>8} ", names.join(",")),
                        Style::new().fg(here.first().map_or(Color::Gray, |e| colour(e.index()))),
                    ),
                    Span::styled(format!("{n:>4} "), Style::new().fg(Color::DarkGray)),
                    Span::raw(code.to_string()),
                    Span::styled(rest.to_string(), Style::new().fg(Color::Indexed(244))),
                ])
                .style(style),
            )
        });
        let name = machine.program().sources.get(at.file as usize).cloned().unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or("source").to_string();
        text(frame, area, &name, lines.collect());
        return;
    }
    let first = pc.saturating_sub(room / 2);
    let lines = (first..machine.words(s).min(first + room)).map(|n| {
        let stop = if marks.contains(&(s, n)) { "●" } else { " " };
        let style =
            if n == pc { Style::new().bg(Color::Indexed(238)).bold() } else { Style::new() };
        Line::from(vec![
            Span::styled(stop, Style::new().fg(Color::Red)),
            Span::styled(format!("{n:>5} "), Style::new().fg(Color::DarkGray)),
            Span::raw(show::disassembly(machine, s, n)),
        ])
        .style(style)
    });
    text(frame, area, "words", lines.collect());
}

fn break_marks(app: &App) -> Vec<(usize, usize)> {
    let list = &app.debugger.session.breakpoints.list;
    let words = list.iter().filter(|b| b.enabled).filter_map(|b| match &b.kind {
        Kind::Words(words) => Some(words.clone()),
        _ => None,
    });
    words.flatten().collect()
}

fn draw_sync(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let machine = &app.debugger.session.machine;
    let waiting: Vec<String> = (0..ENGINE_STREAMS).flat_map(|s| machine.unmet(s)).collect();
    let rows = show::sync_rows(machine);
    let room = usize::from(area.height.saturating_sub(2));
    let more = rows.len().saturating_sub(room);
    let lines = rows.iter().take(if more > 0 { room.saturating_sub(1) } else { room }).map(
        |(id, value, by)| {
            let name = show::sync_name(machine, *id);
            let awaited = waiting.iter().any(|w| w.starts_with(&name));
            let style = match (awaited, *value) {
                (true, _) => Style::new().fg(Color::Yellow),
                (_, 0) => Style::new().fg(Color::DarkGray),
                _ => Style::new().fg(Color::Green),
            };
            let by = by.map_or(String::new(), |(s, _)| {
                format!(" by {}", show::stream_name(machine, usize::from(s)))
            });
            Line::from(vec![
                Span::styled(format!("{name:<20} {value:>6}"), style),
                Span::styled(by, Style::new().fg(Color::Gray)),
                Span::styled(
                    if awaited { "  awaited" } else { "" },
                    Style::new().fg(Color::Yellow),
                ),
            ])
        },
    );
    let mut lines: Vec<Line<'_>> = lines.collect();
    if more > 0 {
        lines.push(Line::from(format!("and {} more: `sync`", more + 1)));
    }
    text(frame, area, "events and semaphores", lines);
}

fn draw_lower(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let session = &app.debugger.session;
    let machine = &session.machine;
    let room = usize::from(area.height.saturating_sub(2));
    let (title, body) = match app.lower {
        Lower::Queues => ("DMA queues (F4)", show::queues(machine, false)),
        Lower::Cores => match (&app.debugger.inside, machine.cluster()) {
            (Some(inside), _) => ("Q7 inside a call (F4)", inside.view(false)),
            (None, Some(cluster)) => ("Q7 cores (F4)", cores::summary(&cluster)),
            (None, None) => ("Q7 cores (F4)", "no library was loaded yet".into()),
        },
        Lower::Registers => ("registers (F4)", show::registers(machine, app.engine, false)),
        Lower::Log => ("what happened (F4)", show::log(session, room)),
    };
    let lines = body.lines().map(|l| {
        let style =
            if l.starts_with("=>") { Style::new().bold().fg(Color::Cyan) } else { Style::new() };
        Line::styled(l.to_string(), style)
    });
    text(frame, area, title, lines.collect());
}

fn draw_answers(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let room = usize::from(area.height.saturating_sub(2));
    let end = app.answers.len().saturating_sub(app.scroll);
    let first = end.saturating_sub(room);
    let lines = app.answers[first..end].iter().map(|l| {
        let style = if l.starts_with("> ") {
            Style::new().fg(Color::Cyan)
        } else if l.starts_with("error:") || l.contains(" error") {
            Style::new().fg(Color::LightRed)
        } else if l.contains(": breakpoint ") {
            Style::new().fg(Color::LightMagenta)
        } else {
            Style::new()
        };
        Line::styled(l.clone(), style)
    });
    let title = if app.scroll > 0 { "answers (scrolled)" } else { "answers" };
    text(frame, area, title, lines.collect());
}

fn draw_memory(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let watched: Vec<String> = app.debugger.displays().map(str::to_string).collect();
    if watched.is_empty() {
        let mut lines = vec![Line::styled(
            "`display print NAME[..]` shows one here",
            Style::new().fg(Color::Gray),
        )];
        lines.extend(plain(&app.debugger.execute("tensors").unwrap_or_default()));
        return text(frame, area, "tensors", lines);
    }
    let mut lines = Vec::new();
    for line in watched {
        lines.push(Line::styled(line.clone(), Style::new().fg(Color::Cyan)));
        match app.debugger.execute(&line) {
            Ok(body) => lines.extend(plain(&body)),
            Err(e) => lines.push(Line::styled(e, Style::new().fg(Color::LightRed))),
        }
    }
    text(frame, area, "watched", lines);
}

fn draw_input(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let line = Line::from(vec!["(tpb) ".bold().fg(Color::Cyan), Span::raw(app.editor.text())]);
    frame.render_widget(Paragraph::new(line), area);
    let x = area.x.saturating_add(6).saturating_add(app.editor.cursor() as u16);
    frame.set_cursor_position(Position::new(x.min(area.right().saturating_sub(1)), area.y));
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let width = 78.min(area.width);
    let height = (KEYS.len() as u16 + 4).min(area.height);
    let at = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    let mut lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, what)| {
            Line::from(vec![
                Span::styled(format!(" {key:<17} "), Style::new().bold().fg(Color::Yellow)),
                Span::raw(*what),
            ])
        })
        .collect();
    lines.push(Line::default());
    lines.push(Line::raw(" `help` lists the commands, `help COMMAND` explains one"));
    frame.render_widget(Clear, at);
    text(frame, at, "keys", lines);
}

//! A text picture of what the streams did around a finding.
//!
//! Time runs to the right, but not evenly: each interval in which nothing starts or ends is as
//! wide as any other, so that a delay of a whole run and an instruction of two cycles both fit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use super::schedule::{Delays, PointName, Site};
use crate::machine::options::Involved;
use crate::machine::run::ENGINE_STREAMS;
use crate::trace::export::Namer;
use crate::trace::{Record, Recorder, TraceHeader};

/// Executions that a film remembers, the last ones.
const MOST_REMEMBERED: usize = 1 << 19;
/// Executions in a picture.
const MOST_SHOWN: usize = 12;
/// Columns of a picture, about.
const COLUMNS: usize = 72;

/// One execution of an instruction, or one DMA transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    stream: usize,
    pc: u32,
    index: u64,
    /// When it came to the head, or was queued.
    head: u64,
    granted: u64,
    start: u64,
    end: u64,
}

/// Remembers what a run did.
#[derive(Default)]
pub struct Film {
    spans: VecDeque<Span>,
}

impl Recorder for Film {
    fn record(&mut self, record: &Record) {
        let span = match record {
            Record::Inst(r) => Span {
                stream: r.stream.into(),
                pc: r.pc,
                index: r.index,
                head: r.head,
                granted: r.granted,
                start: r.start,
                end: r.end,
            },
            Record::Transfer(r) => Span {
                stream: r.stream.into(),
                pc: r.block,
                index: r.index,
                head: r.queued,
                granted: r.queued,
                start: r.start,
                end: r.end,
            },
            _ => return,
        };
        if self.spans.len() == MOST_REMEMBERED {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
    }
}

/// What a picture needs beside the film.
pub struct View<'a> {
    /// Streams and clocks.
    pub header: &'a TraceHeader,
    /// Names of instructions.
    pub names: &'a Namer,
    /// Delays of the run.
    pub delays: &'a Delays,
    /// Places that the finding is about.
    pub involved: &'a [Involved],
    /// Last tick of the run.
    pub end: u64,
}

struct Bar {
    span: Span,
    /// It waited at the head when the run ended.
    stuck: bool,
    involved: bool,
    delays: Vec<(PointName, u64)>,
}

impl Bar {
    /// Intervals in which it was delayed.
    fn held(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.delays.iter().map(|&(point, ticks)| match point {
            PointName::Fetch => (self.span.head.saturating_sub(ticks), self.span.head),
            PointName::Issue | PointName::DmaStart => {
                (self.span.start.saturating_sub(ticks), self.span.start)
            }
            PointName::Completion => (self.span.end, self.span.end + ticks),
        })
    }
}

fn bars(film: &Film, view: &View<'_>) -> Vec<Bar> {
    let mut all: Vec<Bar> = Vec::with_capacity(film.spans.len());
    let delays_of = |span: &Span| {
        let of = |point| Site { stream: span.stream, index: span.index, point };
        let points =
            [PointName::Fetch, PointName::Issue, PointName::DmaStart, PointName::Completion];
        points.iter().filter_map(|&p| Some((p, *view.delays.get(&of(p))?))).collect()
    };
    for span in &film.spans {
        all.push(Bar { span: *span, stuck: false, involved: false, delays: delays_of(span) });
    }
    for place in view.involved {
        let same = |b: &&mut Bar| b.span.stream == place.stream && b.span.pc == place.pc;
        match place.waiting_since {
            Some(since) => {
                let own = film.spans.iter().rev().find(|s| s.stream == place.stream);
                let end = view.end.max(since + 1);
                let span = Span {
                    stream: place.stream,
                    pc: place.pc,
                    index: own.map_or(0, |s| s.index + 1),
                    head: since,
                    granted: end,
                    start: end,
                    end,
                };
                let delays = delays_of(&span);
                all.push(Bar { span, stuck: true, involved: true, delays });
            }
            // of a loop, the execution that started at the reported time, or else the last one
            None => {
                let at = |b: &&mut Bar| Some(b.span.start) == place.tick;
                let exact = all.iter_mut().filter(same).find(at).map(|b| b.involved = true);
                if exact.is_none()
                    && let Some(b) = all.iter_mut().rfind(same)
                {
                    b.involved = true;
                }
            }
        }
    }
    let focus: Vec<(u64, u64)> =
        all.iter().filter(|b| b.involved).map(|b| (b.span.start, b.span.end)).collect();
    let (from, to) = match (focus.iter().map(|f| f.0).min(), focus.iter().map(|f| f.1).max()) {
        (Some(a), Some(b)) => (a, b),
        _ => (view.end, view.end),
    };
    let distance = |b: &Bar| {
        if b.involved {
            0
        } else if !b.delays.is_empty() {
            1
        } else {
            2 + b.span.start.saturating_sub(to) + from.saturating_sub(b.span.end)
        }
    };
    all.sort_by_key(|b| (distance(b), std::cmp::Reverse(b.span.start)));
    all.truncate(MOST_SHOWN);
    all.sort_by_key(|b| (b.span.start, b.span.stream, b.span.index));
    all
}

/// Draws the streams around the finding; empty if the run did nothing.
pub fn draw(film: &Film, view: &View<'_>) -> String {
    let bars = bars(film, view);
    if bars.is_empty() {
        return String::new();
    }
    let mut edges: BTreeSet<u64> = BTreeSet::new();
    for b in &bars {
        edges.extend([b.span.start, b.span.end.max(b.span.start + 1)]);
        if b.span.granted > b.span.head {
            edges.extend([b.span.head, b.span.granted]);
        }
        b.held().for_each(|(from, to)| edges.extend([from, to]));
    }
    let edges: Vec<u64> = edges.into_iter().collect();
    let wide = (COLUMNS / edges.len()).clamp(2, 8);
    let column = |tick: u64| edges.partition_point(|e| *e < tick) * wide;
    let width = edges.len() * wide;
    let ns = |tick: u64| tick as f64 * 1e9 / view.header.tick_hz.max(1) as f64;

    let mut lanes: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let letter = |k: usize| b'a' + k as u8;
    // first what only waits, then what runs: where both are in a column, running is shown
    for pass in 0..3 {
        for (k, b) in bars.iter().enumerate() {
            let lane = lanes.entry(b.span.stream).or_insert_with(|| vec![b' '; width]);
            let mut fill = |from: u64, to: u64, c: u8| {
                let (from, to) = (column(from), column(to).min(width));
                lane[from..to.max(from)].fill(c);
            };
            match pass {
                0 if b.span.granted > b.span.head => fill(b.span.head, b.span.granted, b'.'),
                1 => b.held().for_each(|(from, to)| fill(from, to, b'~')),
                2 if b.stuck => {
                    let from = column(b.span.head);
                    lane[from] = letter(k);
                }
                2 => fill(b.span.start, b.span.end.max(b.span.start + 1), letter(k)),
                _ => {}
            }
        }
    }

    let stream = |s: usize| view.header.streams.get(s).map_or("?", String::as_str);
    let margin = lanes.keys().map(|s| stream(*s).len()).max().unwrap_or(0);
    let mut out = format!("{:margin$}  ", "ns");
    let mut at = 0;
    for edge in &edges {
        let (place, text) = (column(*edge), format!("{:.1}", ns(*edge)));
        if place >= at {
            let _ = write!(out, "{:1$}{text}", "", place - at);
            at = place + text.len() + 1;
            out.push(' ');
        }
    }
    out.truncate(out.trim_end().len());
    for (s, lane) in &lanes {
        let lane = String::from_utf8_lossy(lane);
        let _ = write!(out, "\n{:margin$}  {}", stream(*s), lane.trim_end());
    }
    let mut waits = false;
    for (k, b) in bars.iter().enumerate() {
        let (_, text, source) = (view.names)(b.span.stream as u16, b.span.pc);
        let source = source.map(|s| format!(" ({s})")).unwrap_or_default();
        let mark = if b.involved { '*' } else { ' ' };
        let place = if b.span.stream < ENGINE_STREAMS {
            format!("{} pc {}", stream(b.span.stream), b.span.pc)
        } else {
            stream(b.span.stream).to_string()
        };
        let _ = write!(out, "\n{mark}{} {place}{source}: {text}", char::from(letter(k)));
        if b.stuck {
            let _ = write!(out, "; waits since {:.1} ns", ns(b.span.head));
        } else {
            let _ = write!(out, "; {:.1} to {:.1} ns", ns(b.span.start), ns(b.span.end));
        }
        waits |= b.span.granted > b.span.head;
        for (point, ticks) in &b.delays {
            let _ = write!(out, "; {} delayed by {:.1} ns", point.words(), ns(*ticks));
        }
    }
    out += "\n* what the finding is about";
    if waits {
        out += ", . waits";
    }
    if bars.iter().any(|b| !b.delays.is_empty()) {
        out += ", ~ delayed by the schedule";
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(stream: usize, index: u64, head: u64, granted: u64, start: u64, end: u64) -> Span {
        Span { stream, pc: index as u32, index, head, granted, start, end }
    }

    #[test]
    fn a_picture_shows_runs_waits_and_delays_and_marks_the_finding() {
        let film = Film {
            spans: [
                span(0, 0, 0, 0, 10, 20),
                span(1, 0, 0, 5020, 5020, 5030),
                span(5, 0, 5000, 5000, 5000, 9000),
            ]
            .into(),
        };
        let header = TraceHeader {
            generation: "v3".into(),
            tick_hz: 1_000_000_000,
            streams: ["PE", "ACT", "POOL", "DVE", "SP", "q:in"].map(String::from).into(),
            periods: vec![1; 6],
        };
        let names: Namer = std::sync::Arc::new(|s, pc| ("".into(), format!("WORK{s}.{pc}"), None));
        let delays: Delays =
            [(Site { stream: 0, index: 0, point: PointName::Completion }, 5000)].into();
        let involved = [
            Involved { stream: 1, pc: 0, tick: Some(5020), waiting_since: None },
            Involved { stream: 5, pc: 0, tick: Some(5000), waiting_since: None },
            Involved { stream: 3, pc: 7, tick: None, waiting_since: Some(20) },
        ];
        let view = View {
            header: &header,
            names: &names,
            delays: &delays,
            involved: &involved,
            end: 9000,
        };
        insta::assert_snapshot!(draw(&film, &view), @"
        ns    0.0     10.0    20.0    5000.0  5020.0  5030.0  9000.0  9001.0
        PE            aaaaaaaa~~~~~~~~~~~~~~~~
        ACT   ................................cccccccc
        DVE                   d...............................
        q:in                          bbbbbbbbbbbbbbbbbbbbbbbb
         a PE pc 0: WORK0.0; 10.0 to 20.0 ns; update delayed by 5000.0 ns
        *b q:in: WORK5.0; 5000.0 to 9000.0 ns
        *c ACT pc 0: WORK1.0; 5020.0 to 5030.0 ns
        *d DVE pc 7: WORK3.7; waits since 20.0 ns
        * what the finding is about, . waits, ~ delayed by the schedule
        ");
    }

    #[test]
    fn far_away_is_left_out() {
        let spans = (0..1000).map(|i| span(0, i, i * 10, i * 10, i * 10, i * 10 + 9)).collect();
        let film = Film { spans };
        let header = TraceHeader {
            generation: "v3".into(),
            tick_hz: 1_000_000_000,
            streams: vec!["PE".into()],
            periods: vec![1],
        };
        let names: Namer = std::sync::Arc::new(|_, pc| ("".into(), format!("WORK{pc}"), None));
        let involved = [Involved { stream: 0, pc: 500, tick: None, waiting_since: None }];
        let view = View {
            header: &header,
            names: &names,
            delays: &Delays::new(),
            involved: &involved,
            end: 9999,
        };
        let text = draw(&film, &view);
        assert!(text.contains("WORK500;") && text.contains("WORK503;"), "{text}");
        assert!(!text.contains("WORK520;") && text.lines().count() < 20, "{text}");
        assert!(text.lines().all(|l| l.chars().count() < 100), "{text}");
    }
}

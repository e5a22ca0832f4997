//! Where a stream's time went: busy spans and the causes of the gaps between them. Everything
//! that shows or sums waiting uses these spans.

use serde::{Deserialize, Serialize};

use super::record::{InstRecord, Record, StallCause};
use crate::sync::SyncId;

/// A stretch of a stream's time in ticks; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Why the data path did not work; `None` if it did.
    pub cause: Option<StallCause>,
    /// First tick.
    pub from: u64,
    /// First tick after it.
    pub to: u64,
}

/// Where the split of the streams' time stood before the first record of a part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// The tick up to which each stream's time is accounted for.
    pub busy_until: Vec<u64>,
    /// First tick, and first tick after it, of what is wanted.
    pub window: Option<(u64, u64)>,
}

/// Splits each stream's time as its records come. Spans of one stream never overlap.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    busy_until: Vec<u64>,
    window: Option<(u64, u64)>,
}

impl Attribution {
    /// For so many streams.
    pub fn new(streams: usize) -> Self {
        Attribution { busy_until: vec![0; streams], window: None }
    }

    /// Goes on where another one stopped, and cuts all spans to a window of time.
    pub fn resume(streams: usize, resume: &Resume) -> Self {
        let mut busy_until = resume.busy_until.clone();
        busy_until.resize(streams, 0);
        Attribution { busy_until, window: resume.window }
    }

    /// Where another one could go on.
    pub fn state(&self) -> Resume {
        Resume { busy_until: self.busy_until.clone(), window: self.window }
    }

    /// The spans that `record` settles, in order, and their stream.
    pub fn add(&mut self, record: &Record, mut each: impl FnMut(usize, Span)) {
        let window = self.window;
        let mut each = |stream: usize, mut span: Span| {
            if let Some((from, to)) = window {
                span.from = span.from.max(from);
                span.to = span.to.min(to);
            }
            if span.from < span.to {
                each(stream, span);
            }
        };
        match record {
            Record::Inst(i) => {
                let s = usize::from(i.stream);
                self.instruction(i, |span| each(s, span));
            }
            Record::Transfer(t) => {
                let s = usize::from(t.stream);
                let Some(free) = self.busy_until.get_mut(s) else { return };
                let from = t.start.max(*free);
                if t.end > from {
                    each(s, Span { cause: None, from, to: t.end });
                    *free = t.end;
                }
            }
            _ => {}
        }
    }

    fn instruction(&mut self, i: &InstRecord, mut each: impl FnMut(Span)) {
        let Some(until) = self.busy_until.get_mut(usize::from(i.stream)) else { return };
        let mut at = *until;
        let mut span = |cause: Option<StallCause>, to: u64| {
            if to > at {
                each(Span { cause, from: at, to });
                at = to;
            }
        };
        let at_head = match (i.waited, i.stall) {
            (Some((SyncId::Event(_), _)), _) => StallCause::Event,
            (Some((SyncId::Semaphore(_), _)), _) => StallCause::Semaphore,
            (None, Some(cause)) => cause,
            (None, None) => StallCause::Control,
        };
        let before_start = match i.stall {
            Some(c @ (StallCause::Dependency | StallCause::Port)) => c,
            _ => StallCause::Queue,
        };
        span(Some(StallCause::Control), i.head);
        span(Some(at_head), i.issue);
        span(Some(before_start), i.start);
        if i.data_path {
            span(None, i.busy_until);
        } else {
            span(Some(StallCause::Control), i.end);
        }
        *until = at.max(*until);
    }
}

/// Chooses a track for each slice of a stream, where slices may overlap: the PE loads weights while
/// it multiplies.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    // end of the last slice of each lane, by stream
    ends: rustc_hash::FxHashMap<u16, Vec<u64>>,
}

impl Lanes {
    /// The first lane of `stream` that is free at `start`; the slice takes it until `end`.
    pub fn place(&mut self, stream: u16, start: u64, end: u64) -> usize {
        let ends = self.ends.entry(stream).or_default();
        let lane = ends.iter().position(|e| *e <= start).unwrap_or(ends.len());
        match ends.get_mut(lane) {
            Some(e) => *e = end,
            None => ends.push(end),
        }
        lane
    }
}

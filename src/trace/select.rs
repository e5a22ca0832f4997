//! Which part of a run goes into a trace, and into how many files: a window of time, streams, and
//! a size at which another file begins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::attribution::{Attribution, Resume};
use super::background::Background;
use super::export::{self, Context, Ending, Exporter, Format};
use super::record::{Record, Recorder, SyncRecord, TraceHeader};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::Engine;
use crate::sync::SyncId;

/// What is wanted of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Only what ends after this many nanoseconds.
    pub from_ns: f64,
    /// Only what starts before this many nanoseconds.
    pub to_ns: Option<f64>,
    /// Only these streams; all if there is none.
    pub streams: Vec<String>,
    /// Bytes after which another file begins.
    pub split: Option<u64>,
}

impl Selection {
    fn resolve(&self, header: &TraceHeader) -> Result<Filter> {
        for name in &self.streams {
            if !header.streams.contains(name) {
                let known = header.streams.join(", ");
                return Err(Error::new(
                    ErrorClass::ConfigError,
                    format!("the run has no stream `{name}`; it has {known}"),
                ));
            }
        }
        let ticks = |ns: f64| (ns.max(0.0) * header.tick_hz as f64 / 1e9) as u64;
        let all = self.streams.is_empty();
        Ok(Filter {
            from: ticks(self.from_ns),
            to: self.to_ns.map_or(u64::MAX, ticks),
            streams: header.streams.iter().map(|s| all || self.streams.contains(s)).collect(),
        })
    }
}

struct Filter {
    from: u64,
    to: u64,
    streams: Vec<bool>,
}

impl Filter {
    fn takes(&self, record: &Record) -> bool {
        let pool = Engine::Pool as u16;
        let (stream, from, to) = match record {
            Record::Inst(i) => (Some(i.stream), i.head, i.end),
            Record::Transfer(t) => (Some(t.stream), t.queued, t.end),
            Record::Sync(s) => (Some(s.by.0), s.tick, s.tick),
            Record::Queued { tick, stream, .. } => (Some(*stream), *tick, *tick),
            Record::Note { tick, stream, .. } => (Some(*stream), *tick, *tick),
            Record::Cores { tick, .. } => (Some(pool), *tick, *tick),
            Record::Library { tick, end, .. } => (Some(pool), *tick, *end),
            Record::Usage { tick, .. } => (None, *tick, *tick),
        };
        let wanted = stream.is_none_or(|s| self.streams.get(usize::from(s)) == Some(&true));
        wanted && to >= self.from && from < self.to
    }

    fn window(&self) -> Option<(u64, u64)> {
        (self.from > 0 || self.to < u64::MAX).then_some((self.from, self.to))
    }
}

/// An export of a part of a run, in one file or several: `t.json`, or `t.000.json`, `t.001.json`.
/// Every file can be read alone.
pub struct Selected {
    path: PathBuf,
    context: Context,
    filter: Filter,
    split: Option<u64>,
    // for what splits its files itself
    file_split: Option<u64>,
    attribution: Attribution,
    // the latest change of each event and semaphore, with which a part begins
    values: BTreeMap<SyncId, SyncRecord>,
    part: usize,
    last: u64,
    begun: bool,
    current: Option<Box<dyn Exporter>>,
    failed: Option<Error>,
    usage: bool,
}

impl Selected {
    /// Starts the export of what `selection` wants, on a thread of its own.
    ///
    /// # Errors
    /// Unknown extension or stream; the file cannot be created.
    pub fn open(path: &Path, context: Context, selection: &Selection) -> Result<Box<dyn Exporter>> {
        Ok(Box::new(Background::new(Self::inline(path, context, selection)?)))
    }

    fn inline(path: &Path, context: Context, selection: &Selection) -> Result<Box<dyn Exporter>> {
        let filter = selection.resolve(&context.header)?;
        // tables split their files themselves
        let tables = matches!(Format::of(path)?, Format::Tables(_));
        let split = selection.split.filter(|_| !tables);
        let whole = filter.window().is_none() && filter.streams.iter().all(|s| *s);
        if whole && split.is_none() {
            return export::open(path, context, selection.split);
        }
        let mut attribution = context.attribution();
        if let Some(window) = filter.window() {
            let state = Resume { window: Some(window), ..attribution.state() };
            attribution = Attribution::resume(context.header.streams.len(), &state);
        }
        let mut selected = Selected {
            path: path.to_path_buf(),
            filter,
            split,
            file_split: selection.split,
            attribution,
            values: BTreeMap::new(),
            part: 0,
            last: 0,
            begun: false,
            current: None,
            failed: None,
            usage: false,
            context,
        };
        let first = export::open(&selected.name(), selected.here(), selection.split)?;
        selected.usage = first.wants_usage();
        selected.current = Some(first);
        Ok(Box::new(selected))
    }

    fn here(&self) -> Context {
        self.context.resumed(self.attribution.state())
    }

    fn name(&self) -> PathBuf {
        if self.split.is_none() {
            return self.path.clone();
        }
        let extension = self.path.extension().unwrap_or_default().to_string_lossy();
        self.path.with_extension(format!("{:03}.{extension}", self.part))
    }

    /// Opens the file for what comes now.
    fn begin(&mut self) -> Result<()> {
        // the file that was opened at once, to see that it can be, does not know what came since
        drop(self.current.take());
        let mut exporter = export::open(&self.name(), self.here(), self.file_split)?;
        for s in self.values.values() {
            let by_wanted = self.filter.streams.get(usize::from(s.by.0)) == Some(&true);
            if by_wanted {
                let tick = s.tick.max(self.filter.from.min(self.last));
                exporter.record(&Record::Sync(SyncRecord { tick, ..s.clone() }));
            }
        }
        self.current = Some(exporter);
        self.begun = true;
        Ok(())
    }

    fn take(&mut self, record: &Record) -> Result<()> {
        if self.filter.takes(record) {
            if !self.begun {
                self.begin()?;
            }
            if let Some(e) = &mut self.current {
                e.record(record);
            }
        }
        self.attribution.add(record, |_, _| {});
        match record {
            Record::Inst(i) => self.last = self.last.max(i.end),
            Record::Transfer(t) => self.last = self.last.max(t.end),
            Record::Sync(s) => {
                self.last = self.last.max(s.tick);
                self.values.insert(s.id, s.clone());
            }
            _ => {}
        }
        let size = self.current.as_ref().map_or(0, |e| e.size());
        if self.begun && self.split.is_some_and(|limit| size >= limit) {
            let end = self.last.min(self.filter.to);
            if let Some(e) = self.current.take() {
                e.finish(&Ending { end, error: None })?;
            }
            self.part += 1;
            self.begun = false;
        }
        Ok(())
    }
}

impl Recorder for Selected {
    fn record(&mut self, record: &Record) {
        if self.failed.is_none() {
            self.failed = self.take(record).err();
        }
    }

    fn wants_usage(&self) -> bool {
        self.usage
    }
}

impl Exporter for Selected {
    fn size(&self) -> u64 {
        self.current.as_ref().map_or(0, |e| e.size())
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        if !self.begun && self.part == 0 {
            self.begin()?;
        }
        let end = ending.end.min(self.filter.to);
        match self.current.take() {
            Some(e) => e.finish(&Ending { end, error: ending.error.clone() }),
            None => Ok(()),
        }
    }
}

/// Bytes of a size like `64M`: a number, and `K`, `M` or `G` for powers of 1024.
///
/// # Errors
/// Not a size, or less than 4096 bytes.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let upper = text.trim().to_ascii_uppercase();
    let digits = upper.trim_end_matches('B');
    let (digits, shift) = match digits.strip_suffix(['K', 'M', 'G']) {
        Some(rest) => (rest, 10 * (1 + "KMG".find(&digits[rest.len()..]).unwrap_or(0))),
        None => (digits, 0),
    };
    let n = digits.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a size"))?;
    let bytes = n.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too much"))?;
    if bytes < 4096 { Err("parts are at least 4K".into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("2MB"), Ok(2 << 20));
        assert_eq!(size("1g"), Ok(1 << 30));
        for bad in ["", "x", "1", "99999999999G", "-4K", "1.5M"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}

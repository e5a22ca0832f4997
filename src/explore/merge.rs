//! Joins the shards of a campaign into one file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::campaign::{Header, Line, Tally, json_line, read};
use super::schedule::Strategy;
use crate::error::{Error, ErrorClass, Result};
use crate::program::files;

/// Shards, joined.
pub struct Merged {
    /// What all of them belong to.
    pub header: Header,
    /// By strategy and seed.
    pub lines: Vec<Line>,
    /// Seeds that several shards have, with the same result.
    pub repeated: u64,
    /// Shards whose last line was cut short; its seed is missing unless another shard has it.
    pub cut_short: Vec<PathBuf>,
}

fn number(strategy: Strategy) -> u8 {
    strategy as u8
}

/// Whether two lines of one seed say the same. One that was decided on the skeleton has no trace
/// and leaves the finding to the first seed with the same order.
fn agree(a: &Line, b: &Line) -> bool {
    let machine = |l: &Line| !l.trace.is_empty();
    let same = a.order == b.order && a.ticks == b.ticks;
    same && (!machine(a) || !machine(b) || a.trace == b.trace && a.finding == b.finding)
}

impl Merged {
    /// Reads and joins the shards in `paths`.
    ///
    /// # Errors
    /// A file is not a campaign file; two belong to different programs, machines, options or
    /// versions; or a seed has different results in two of them.
    pub fn read(paths: &[PathBuf]) -> Result<Merged> {
        let mut header: Option<(Header, &Path)> = None;
        let mut all: BTreeMap<(u8, u64), (Line, &Path)> = BTreeMap::new();
        let (mut repeated, mut cut_short) = (0, Vec::new());
        for path in paths {
            let shard = read(path)?;
            let bad = |what: String| Err(Error::new(ErrorClass::ConfigError, what));
            let Some(theirs) = shard.header else {
                return bad(format!("{} is not a campaign file: it has no head", path.display()));
            };
            if shard.cut_short {
                cut_short.push(path.clone());
            }
            match &header {
                None => header = Some((theirs, path)),
                Some((first, of)) => {
                    let differences = first.differences(&theirs);
                    if !differences.is_empty() {
                        return bad(format!(
                            "{} and {} belong to different campaigns: {}",
                            of.display(),
                            path.display(),
                            differences.join(", ")
                        ));
                    }
                }
            }
            for line in shard.lines {
                let key = (number(line.strategy), line.seed);
                match all.get(&key) {
                    None => {
                        all.insert(key, (line, path));
                    }
                    Some((same, _)) if agree(same, &line) => {
                        repeated += 1;
                        if same.trace.is_empty() {
                            all.insert(key, (line, path));
                        }
                    }
                    Some((other, of)) => {
                        return bad(format!(
                            "seed {} has different results in {} and {}\n  {}  {}",
                            line.seed,
                            of.display(),
                            path.display(),
                            json_line(other)?,
                            json_line(&line)?.trim_end()
                        ));
                    }
                }
            }
        }
        let Some((header, _)) = header else {
            return Err(Error::new(ErrorClass::ConfigError, "no shards to join"));
        };
        let lines = all.into_values().map(|(line, _)| line).collect();
        Ok(Merged { header, lines, repeated, cut_short })
    }

    /// Strategies in the file, in order.
    pub fn strategies(&self) -> Vec<Strategy> {
        let mut all: Vec<Strategy> = self.lines.iter().map(|l| l.strategy).collect();
        all.dedup();
        all
    }

    /// Seeds of `strategy` that are missing from `seeds`, or, without them, from 0 to the largest
    /// seed there is.
    pub fn missing(&self, strategy: Strategy, seeds: Option<&Range<u64>>) -> Vec<Range<u64>> {
        let have = self.lines.iter().filter(|l| l.strategy == strategy).map(|l| l.seed);
        let last = have.clone().max().map_or(0, |m| m + 1);
        let Range { start: mut next, end } = seeds.cloned().unwrap_or(0..last);
        let mut gaps = Vec::new();
        for seed in have.filter(|s| *s < end) {
            if seed < next {
                continue;
            }
            if seed > next {
                gaps.push(next..seed);
            }
            next = seed + 1;
        }
        if next < end {
            gaps.push(next..end);
        }
        gaps
    }

    /// What the lines of `strategy` found.
    pub fn tally(&self, strategy: Strategy) -> Tally {
        let mut tally = Tally::default();
        self.lines.iter().filter(|l| l.strategy == strategy).for_each(|l| tally.add(l));
        tally
    }

    /// Writes the joined campaign whole or not at all; `stress --campaign` can go on with it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn store(&self, path: &Path) -> Result<()> {
        let mut text = json_line(&self.header)?;
        for line in &self.lines {
            text += &json_line(line)?;
        }
        files::write_whole(path, text.as_bytes())
    }
}

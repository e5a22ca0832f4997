//! The records of the run so far, as far as they are kept, and the digest of all of them.

use std::collections::VecDeque;

use crate::trace::digest::Digest;
use crate::trace::{Record, Recorder};

/// Records that are kept.
const KEPT: usize = 1 << 18;

/// The latest records.
#[derive(Clone, Default)]
pub struct Trail {
    records: VecDeque<Record>,
    total: u64,
    digest: Digest,
}

/// Where a trail stood.
#[derive(Clone, Copy)]
pub struct Mark {
    total: u64,
    digest: Digest,
}

impl Trail {
    /// Records so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Digest of all records so far.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// The records from number `from` on, as far as they are kept.
    pub fn since(&self, from: u64) -> impl DoubleEndedIterator<Item = &Record> {
        let first = self.total - self.records.len() as u64;
        self.records.range(from.saturating_sub(first).min(self.records.len() as u64) as usize..)
    }

    /// Where it stands.
    pub fn mark(&self) -> Mark {
        Mark { total: self.total, digest: self.digest }
    }

    /// Forgets what came after `mark`.
    pub fn back_to(&mut self, mark: Mark) {
        let extra = self.total.saturating_sub(mark.total);
        let keep = (self.records.len() as u64).saturating_sub(extra) as usize;
        self.records.truncate(keep);
        self.total = mark.total;
        self.digest = mark.digest;
    }
}

impl Recorder for Trail {
    fn record(&mut self, record: &Record) {
        self.digest.record(record);
        self.records.push_back(record.clone());
        self.total += 1;
        if self.records.len() > KEPT {
            self.records.pop_front();
        }
    }
}

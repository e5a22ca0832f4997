//! Replay files: a program, a machine, the delays, and what they lead to.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::schedule::{Delays, Site};
use super::trial::Kind;
use crate::error::{Error, ErrorClass, Result};
use crate::machine::MachineConfig;
use crate::program::files;

/// Largest replay file that is read.
const MOST_BYTES: u64 = 64 << 20;

/// One delay of a replay file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Where.
    #[serde(flatten)]
    pub site: Site,
    /// By how many ticks.
    pub ticks: u64,
}

/// A finding that can be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The program file, as given to `stress`.
    pub program: PathBuf,
    /// The machine, whole: the replay does not depend on what is built in later.
    pub config: MachineConfig,
    /// Whether the data was left out.
    pub timing_only: bool,
    /// Limit of the run.
    pub max_cycles: u64,
    /// The delays.
    pub delays: Vec<Delay>,
    /// What the run ends with.
    pub finding: Kind,
    /// The report, for readers.
    pub report: String,
    /// Digest of the trace, 16 hex digits.
    pub trace_digest: String,
}

impl Replay {
    /// Reads a replay file.
    ///
    /// # Errors
    /// It cannot be read or is no replay file.
    pub fn load(path: &Path) -> Result<Replay> {
        let bytes = files::read_limited(path, MOST_BYTES)?;
        serde_json::from_slice(&bytes).map_err(|e| {
            Error::new(
                ErrorClass::ProgramError,
                format!("{}: not a replay file: {e}", path.display()),
            )
        })
    }

    /// Writes it whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn store(&self, path: &Path) -> Result<()> {
        let text =
            serde_json::to_string_pretty(self).map_err(|e| Error::internal(e.to_string()))?;
        files::write_whole(path, (text + "\n").as_bytes())
    }

    /// Its delays, ready to run.
    pub fn delays(&self) -> Delays {
        self.delays.iter().map(|d| (d.site, d.ticks)).collect()
    }
}

/// `delays` as a list.
pub fn listed(delays: &Delays) -> Vec<Delay> {
    delays.iter().map(|(site, ticks)| Delay { site: *site, ticks: *ticks }).collect()
}

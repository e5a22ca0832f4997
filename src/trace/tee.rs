//! Recorders side by side, and recorders whose result is wanted after the run.

use std::sync::Arc;

use parking_lot::Mutex;

use super::record::{Record, Recorder};

/// A recorder that stays with the caller while the machine feeds it.
#[derive(Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    /// Wraps `recorder`.
    pub fn new(recorder: T) -> Self {
        Shared(Arc::new(Mutex::new(recorder)))
    }

    /// Looks at it.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock())
    }

    /// Takes it out, once the machine has let go of it.
    pub fn into_inner(self) -> Option<T> {
        Arc::into_inner(self.0).map(Mutex::into_inner)
    }
}

impl<T: Recorder> Recorder for Shared<T> {
    fn record(&mut self, record: &Record) {
        self.0.lock().record(record);
    }

    fn wants_usage(&self) -> bool {
        self.0.lock().wants_usage()
    }
}

/// Gives each record to several recorders.
#[derive(Default)]
pub struct Tee(pub Vec<Box<dyn Recorder>>);

impl Recorder for Tee {
    fn record(&mut self, record: &Record) {
        for r in &mut self.0 {
            r.record(record);
        }
    }

    fn wants_usage(&self) -> bool {
        self.0.iter().any(|r| r.wants_usage())
    }
}

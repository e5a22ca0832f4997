//! An exporter on a thread of its own: the machine hands over batches of records and goes on. At
//! most [`BATCHES`] of them wait, so that a slow disk holds up the run instead of filling the
//! memory.

use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};

use super::export::{Ending, Exporter};
use super::record::{Record, Recorder};
use crate::error::{Error, Result};

/// Records of a batch.
const BATCH: usize = 2048;
/// Batches that may wait.
const BATCHES: usize = 8;

enum Message {
    Records(Vec<Record>),
    Finish(Ending),
}

struct Thread {
    to: Sender<Message>,
    // batches that were written, to be filled again
    back: crossbeam_channel::Receiver<Vec<Record>>,
    join: JoinHandle<Result<()>>,
}

/// Runs an exporter on its own thread once there is a batch for it; short runs need no thread.
pub struct Background {
    batch: Vec<Record>,
    waiting: Option<Box<dyn Exporter>>,
    thread: Option<Thread>,
    usage: bool,
    failed: bool,
}

impl Background {
    /// Takes over `exporter`.
    pub fn new(exporter: Box<dyn Exporter>) -> Self {
        Background {
            batch: Vec::with_capacity(BATCH),
            usage: exporter.wants_usage(),
            waiting: Some(exporter),
            thread: None,
            failed: false,
        }
    }

    fn start(mut exporter: Box<dyn Exporter>) -> std::io::Result<Thread> {
        let (to, from) = bounded::<Message>(BATCHES);
        let (give, back) = bounded::<Vec<Record>>(BATCHES);
        let run = move || {
            for message in from {
                match message {
                    Message::Records(mut batch) => {
                        for record in &batch {
                            exporter.record(record);
                        }
                        batch.clear();
                        // nobody to take it: it is freed
                        let _ = give.try_send(batch);
                    }
                    Message::Finish(ending) => return exporter.finish(&ending),
                }
            }
            // the run was given up: the exporter leaves nothing
            Ok(())
        };
        let join = std::thread::Builder::new().name("trace".into()).spawn(run)?;
        Ok(Thread { to, back, join })
    }

    fn hand_over(&mut self) {
        if let Some(exporter) = self.waiting.take() {
            match Self::start(exporter) {
                Ok(thread) => self.thread = Some(thread),
                Err(_) => self.failed = true,
            }
        }
        let Some(thread) = &self.thread else {
            self.batch.clear();
            return;
        };
        let next = thread.back.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let full = std::mem::replace(&mut self.batch, next);
        self.failed |= thread.to.send(Message::Records(full)).is_err();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(Thread { to, back, join }) = self.thread.take() {
            drop((to, back));
            // the exporter takes its unfinished file away
            let _ = join.join();
        }
    }
}

impl Recorder for Background {
    fn record(&mut self, record: &Record) {
        self.batch.push(record.clone());
        if self.batch.len() >= BATCH {
            self.hand_over();
        }
    }

    fn wants_usage(&self) -> bool {
        self.usage
    }
}

impl Exporter for Background {
    fn size(&self) -> u64 {
        0
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> Result<()> {
        if let Some(mut exporter) = self.waiting.take() {
            for record in &self.batch {
                exporter.record(record);
            }
            return exporter.finish(ending);
        }
        self.hand_over();
        let Some(thread) = self.thread.take() else {
            return Err(Error::internal("no thread for a trace"));
        };
        let told = thread.to.send(Message::Finish(ending.clone())).is_ok();
        drop(thread.to);
        let result =
            thread.join.join().map_err(|_| Error::internal("a trace's thread panicked"))?;
        if self.failed || !told {
            return result.and(Err(Error::internal("a trace's thread ended early")));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Sum(Arc<AtomicU64>, u64);

    impl Recorder for Sum {
        fn record(&mut self, record: &Record) {
            let Record::Note { tick, .. } = record else { panic!("{record:?}") };
            assert_eq!(*tick, self.1, "in order");
            self.1 += 1;
        }
    }

    impl Exporter for Sum {
        fn size(&self) -> u64 {
            0
        }

        fn finish(self: Box<Self>, ending: &Ending) -> Result<()> {
            self.0.store(self.1 + ending.end, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn every_record_arrives_once_and_in_order() {
        for n in [0, 1, BATCH as u64 - 1, BATCH as u64, 40 * BATCH as u64 + 7] {
            let total = Arc::new(AtomicU64::new(0));
            let mut b = Box::new(Background::new(Box::new(Sum(Arc::clone(&total), 0))));
            for tick in 0..n {
                b.record(&Record::Note { tick, stream: 0, pc: 0, text: String::new() });
            }
            b.finish(&Ending { end: 1 << 40, error: None }).unwrap();
            assert_eq!(total.load(Ordering::Relaxed), n + (1 << 40));
        }
    }
}

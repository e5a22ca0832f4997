//! Clock, sequencers, queues, worker threads and the run loop.

pub mod config;
pub mod executor;
pub mod time;

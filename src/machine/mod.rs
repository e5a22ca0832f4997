//! Clock, sequencers, queues, worker threads and the run loop.

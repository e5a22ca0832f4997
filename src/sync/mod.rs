//! Events, semaphores, waits and updates, barriers.

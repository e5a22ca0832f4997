//! Checks on a running program: races, deadlock, unwritten memory.

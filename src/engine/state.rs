//! State of an engine that survives between instructions.
//!
//! Each engine's works run in program order on one thread at a time, so none of this is shared.

/// All state of one engine. An engine uses the part that is its own.
#[derive(Clone, Default)]
pub struct EngineState {}

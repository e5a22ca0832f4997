//! State of an engine that survives between instructions.
//!
//! Each engine's works run in program order on one thread at a time, so none of this is shared.

use super::{
    act::ActState, dge::DgeState, indirect::IndirectState, libraries::LibraryState, pe::PeState,
    vector::VectorState,
};
use crate::isa::Generation;
use crate::machine::config::MachineConfig;

/// All state of one engine. An engine uses the parts that are its own; the others stay empty.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct EngineState {
    /// PE array.
    pub pe: PeState,
    /// ACT accumulators and tables.
    pub act: ActState,
    /// Accumulators, flops and tables of the vector data path.
    pub vector: VectorState,
    /// Search values, random states, gather buffer.
    pub indirect: IndirectState,
    /// DMA in-transfer compute.
    pub dge: DgeState,
    /// Q7 cores of POOL.
    pub libraries: LibraryState,
}

impl EngineState {
    /// Reset state of unit `unit` (engines by number, then DMA).
    pub fn new(_unit: usize, _generation: Generation, _config: &MachineConfig) -> Self {
        EngineState::default()
    }
}

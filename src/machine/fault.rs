//! What a sequencer reports when it faults: codes and the 4-byte record.
//! (wiki: firmware/seq/error-handler)

use crate::error::{Error, ErrorClass};
use crate::isa::Engine;

/// Integer division by zero.
pub const DIVISION_BY_ZERO: u8 = 2;

/// Block id of the engine in the fault record. The table leaves firmware engine id 3 unmapped;
/// the ids are firmware-internal, so DVE has none (INFERRED). `None` is an assertion failure.
pub fn block_id(engine_id: u8) -> Option<u8> {
    match engine_id {
        0 => Some(2),
        1 => Some(1),
        2 => Some(3),
        4 => Some(4),
        5 => Some(5),
        _ => None,
    }
}

/// Code of a floating-point error status, or `None` for a status that is an assertion failure.
pub fn floating_point_code(status: u8) -> Option<u8> {
    match status {
        1 => Some(16),
        2 => Some(8),
        4 => Some(4),
        8 => Some(2),
        16 => Some(1),
        _ => None,
    }
}

/// The record of a fault: code, code and block, high byte, auxiliary byte.
pub fn record(code: u8, engine: Engine, aux: u8) -> Option<[u8; 4]> {
    let block = block_id(engine.index() as u8)?;
    Some([code, (code & 0xF) | block << 4, 0, aux])
}

/// The error of a device fault with `code`.
pub fn device_fault(code: u8, what: &str) -> Error {
    Error::new(ErrorClass::DeviceFault, format!("{what} (fault code {code})"))
}

/// Window of legal word addresses of a sequencer, inclusive. (wiki: firmware/seq/pc-bounds)
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PcBounds {
    /// Lowest legal address.
    pub lower: u64,
    /// Highest legal address.
    pub upper: u64,
}

impl Default for PcBounds {
    /// Disabled: everything is legal.
    fn default() -> Self {
        PcBounds { lower: 0, upper: u64::MAX }
    }
}

/// What the host gets back when it enables an empty window.
pub const BOUNDS_ERROR: u8 = 8;

impl PcBounds {
    /// A window; refused unless `lower < upper`.
    ///
    /// # Errors
    /// [`BOUNDS_ERROR`].
    pub fn enable(lower: u64, upper: u64) -> Result<Self, u8> {
        if lower < upper { Ok(PcBounds { lower, upper }) } else { Err(BOUNDS_ERROR) }
    }

    /// Whether `address` is legal.
    pub fn contains(&self, address: u64) -> bool {
        (self.lower..=self.upper).contains(&address)
    }
}

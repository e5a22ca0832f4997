//! The generations of the tensor-processing block.

/// A generation, in the order in which they appeared. A later one only adds dtype and ALU codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// TONGA.
    V1,
    /// SUNDA.
    V2,
    /// CAYMAN.
    V3,
    /// MARIANA.
    V4,
    /// MARIANA_PLUS.
    V4Plus,
    /// MAVERICK.
    V5,
}

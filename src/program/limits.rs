//! Bounds on everything a program file can ask for. A file that exceeds one is rejected with a
//! message that names the bound; nothing is allocated on the word of a file alone.

/// Words in one stream (256 MiB of code).
pub const WORDS_PER_STREAM: usize = 1 << 22;
/// Statements executed by one assembly, repetitions counted each time.
pub const STATEMENTS: u64 = 1 << 24;
/// Nesting of `.include`.
pub const INCLUDE_DEPTH: usize = 16;
/// Nesting of `.repeat`.
pub const REPEAT_DEPTH: usize = 16;
/// Bytes of one source file.
pub const SOURCE_BYTES: u64 = 64 << 20;
/// Files in one assembly, counting a file each time it is included.
pub const SOURCE_FILES: usize = 1024;
/// Bytes that one tensor may span.
pub const TENSOR_BYTES: u64 = 64 << 30;
/// Bytes of initial and expected values of all tensors together.
pub const DATA_BYTES: u64 = 2 << 30;
/// Dimensions of a tensor.
pub const TENSOR_DIMENSIONS: usize = 8;
/// Tensors, queues, blocks, checks: each.
pub const DECLARATIONS: usize = 1 << 16;
/// DMA transfers of all blocks together.
pub const TRANSFERS: usize = 1 << 20;
/// Dimensions of one side of a DMA transfer (wiki: neff/format-reference 8).
pub const DMA_DIMENSIONS: usize = 8;
/// Errors reported by one assembly.
pub const ERRORS: usize = 20;

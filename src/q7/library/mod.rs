//! Code libraries of the Q7 cores: the file, the host's prelinking, the staged image, loading,
//! dispatch, custom operations, boot. (wiki: firmware/pool/external-lib-loader)
//!
//! A library's life: [`prelink()`] checks the ELF file and relocates it into a staged image
//! ([`ucpl`]); the stream's MODIFY_POOL_CONFIG instruction ([`record`]) hands it to the
//! [`Cluster`], which places it in each core's memories and binds its kernel table ([`table`]);
//! POOL opcodes are then looked up there and run on every core.

use super::asm::{self, object};
use crate::error::{Error, ErrorClass, Result};

pub mod boot;
pub mod cluster;
pub mod custom;
pub mod entries;
pub mod prelink;
pub mod record;
pub mod table;
pub mod translate;
pub mod ucpl;

pub use cluster::{Cluster, ClusterConfig};
pub use prelink::{Bounds, PrelinkError, Staged, prelink};
pub use record::{ModifyOp, ModifyPoolConfig};
pub use table::{KernelRow, dispatch};
pub use ucpl::UcplHeader;

/// Largest staged image. (wiki: runtime/nrtucode-ll-create)
pub const MAX_LIBRARY: u32 = 0x1_0000;
/// Cores of a cluster on every generation from v2 on. (wiki: firmware/pool/prelink-validation)
pub const CORES: usize = 8;
/// SBUF partitions that belong to one core. (wiki: uarch/lsu-memory)
pub const PARTITIONS_PER_CORE: u32 = 16;

/// Little-endian word at `at`, or 0 beyond the end.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at.saturating_add(4)).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// Little-endian half-word at `at`, or 0 beyond the end.
pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at.saturating_add(2)).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

/// Little-endian double word at `at`, or 0 beyond the end.
pub(crate) fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at.saturating_add(4))) << 32
}

/// Bounds of the generation's cores.
fn bounds(generation: crate::isa::Generation) -> Bounds {
    if generation == crate::isa::Generation::V2 { Bounds::V2 } else { Bounds::V3 }
}

/// Assembles and prelinks the source of a library into the image that device memory holds.
///
/// # Errors
/// What the assembler and the prelinker raise.
pub fn stage(name: &str, source: &str, generation: crate::isa::Generation) -> Result<Vec<u8>> {
    stage_files(&[(name.to_owned(), source.as_bytes().to_vec())], generation)
}

/// The image that device memory holds, from files by name and contents: one finished library, or
/// sources and objects that are linked in this order.
///
/// # Errors
/// What the assembler, the linker and the prelinker raise.
pub fn stage_files(
    files: &[(String, Vec<u8>)],
    generation: crate::isa::Generation,
) -> Result<Vec<u8>> {
    let bounds = bounds(generation);
    if let [(_, bytes)] = files
        && bytes.starts_with(b"\x7fELF")
        && !object::is_object(bytes)
    {
        return Ok(prelink(bytes, &bounds)?.image);
    }
    let options = asm::Options::default();
    let assembly = link_files(files, &options)?;
    let file = asm::link::library(&assembly, options.text_base, options.data_base)?;
    Ok(prelink(&file, &bounds)?.image)
}

/// Links sources and objects by name and contents.
///
/// # Errors
/// What the assembler and the linker raise.
pub fn link_files(files: &[(String, Vec<u8>)], options: &asm::Options) -> Result<asm::Assembly> {
    let objects = files
        .iter()
        .map(|(name, bytes)| {
            if bytes.starts_with(b"\x7fELF") {
                return object::Object::read(name, bytes);
            }
            let bad = |_| Error::new(ErrorClass::ProgramError, format!("{name}: not UTF-8 text"));
            let source = std::str::from_utf8(bytes).map_err(bad)?;
            Ok(asm::assemble_object(name, source, options.codec)?.0)
        })
        .collect::<Result<Vec<_>>>()?;
    asm::merge::merge(&objects, options)
}

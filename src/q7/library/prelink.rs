//! The host's prelinker: checks a library file, places and relocates it, makes the staged image.
//! (wiki: runtime/prelinker-ucpl; runtime/ucode-relocation-consumer)
//!
//! OPEN: operands of bundles are not relocated (their scatter is not published), big-endian
//! libraries are refused.

use crate::error::{Error, ErrorClass};

use super::table::{self, KernelRow};
use super::ucpl::{HEADER, UcplHeader, align4};
use super::{MAX_LIBRARY, word};

/// Byte that the regions are filled with before the segments are copied.
pub const FILL: u8 = 0xa5;
/// Section with the dispatch rows; the loader's own string has a leading dot.
pub const TABLE_SECTION: &str = "kernel_info_table";

/// Where a library may lie in a core's memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Bounds {
    /// First address for code.
    pub code_base: u32,
    /// Bytes for code.
    pub code_size: u32,
    /// First address for data.
    pub data_base: u32,
    /// Bytes for data.
    pub data_size: u32,
}

impl Bounds {
    /// v3 and later. (wiki: runtime/ucode-relocation-consumer; v5 inferred)
    pub const V3: Bounds =
        Bounds { code_base: 0x1_8000, code_size: 0x8000, data_base: 0xb_e000, data_size: 0x2000 };
    /// v2: the table exists but no code of the vendor refers to it.
    pub const V2: Bounds =
        Bounds { code_base: 0x5500, code_size: 0xab00, data_base: 0x8_e000, data_size: 0x2000 };
}

/// A failure with the vendor's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrelinkError {
    /// 1 not an ELF32 file, 4 no dynamic segment, 5 relocation with a symbol, 7 wrong segments or
    /// image too large, 8 relocation failed, 12 unknown instruction format, 13 segment too large.
    pub code: u32,
    /// What is wrong.
    pub message: String,
}

impl From<PrelinkError> for Error {
    fn from(error: PrelinkError) -> Error {
        Error::new(ErrorClass::ProgramError, error.message).rule(format!("prelink {}", error.code))
    }
}

fn fail<T>(code: u32, message: impl Into<String>) -> Result<T, PrelinkError> {
    Err(PrelinkError { code, message: message.into() })
}

/// A staged image and what the host remembers of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The bytes for device memory.
    pub image: Vec<u8>,
    /// Their header.
    pub header: UcplHeader,
    /// Where the code goes.
    pub code_address: u32,
    /// Where the data goes.
    pub data_address: u32,
    /// Address and rows of the kernel table, if the file names the section.
    pub table: Option<(u32, usize)>,
}

impl Staged {
    /// The dispatch rows as they lie in the image.
    pub fn rows(&self) -> Vec<KernelRow> {
        let Some((address, count)) = self.table else { return Vec::new() };
        let data = self.header.data(&self.image);
        let start = address.wrapping_sub(self.data_address) as usize;
        data.get(start..).map_or_else(Vec::new, |bytes| {
            table::parse(&bytes[..bytes.len().min(count.saturating_mul(table::ROW))])
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    kind: u32,
    offset: u32,
    address: u32,
    load_address: u32,
    file_size: u32,
    memory_size: u32,
    flags: u32,
    align: u32,
}

/// Dynamic information of a library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Address of the relocation table.
    pub relocations: u32,
    /// Its entries.
    pub count: u32,
    /// DT_INIT.
    pub init: u32,
    /// DT_FINI.
    pub fini: u32,
}

/// Number of relocation entries for a table size.
pub fn relocation_count(size: u32) -> u32 {
    size / 12
}

/// Walks `{tag, value}` pairs up to DT_NULL or the end.
pub fn dynamic(bytes: &[u8]) -> Dynamic {
    let mut out = Dynamic::default();
    for entry in bytes.chunks_exact(8) {
        let value = word(entry, 4);
        match word(entry, 0) {
            0 => break,
            7 => out.relocations = value,
            8 => out.count = relocation_count(value),
            12 => out.init = value,
            13 => out.fini = value,
            _ => {}
        }
    }
    out
}

/// Accepted segments of a file.
struct Shape {
    text: Segment,
    data: Segment,
    scratch: Option<Segment>,
    dynamic: Segment,
}

fn segments(file: &[u8]) -> Result<Vec<Segment>, PrelinkError> {
    if file.get(..4) != Some(b"\x7fELF") || file.get(4) != Some(&1) || file.len() < 52 {
        return fail(1, "not a 32-bit ELF file");
    }
    match file[5] {
        1 => {}
        2 => return fail(1, "big-endian libraries are not supported"),
        other => return fail(1, format!("byte order {other} of the ELF file")),
    }
    let (start, count) = (word(file, 0x1c) as usize, usize::from(super::half(file, 0x2c)));
    let table = file.get(start..).filter(|rest| rest.len() >= count * 32);
    let Some(table) = table else { return fail(7, "program headers lie outside the file") };
    Ok(table
        .chunks_exact(32)
        .take(count)
        .map(|h| Segment {
            kind: word(h, 0),
            offset: word(h, 4),
            address: word(h, 8),
            load_address: word(h, 12),
            file_size: word(h, 16),
            memory_size: word(h, 20),
            flags: word(h, 24),
            align: word(h, 28),
        })
        .collect())
}

fn shape(file: &[u8]) -> Result<Shape, PrelinkError> {
    let segments = segments(file)?;
    let at = |i: usize| segments.get(i).copied().unwrap_or_default();
    let text = at(0);
    if text.kind != 1 || text.flags & 7 != 5 {
        return fail(7, "the first segment must be loadable text (flags R and X)");
    }
    let data = at(1);
    if data.kind != 1 || !data.flags & 6 != 0 {
        return fail(7, "the second segment must be loadable data (flags R and W)");
    }
    let scratch = Some(at(2)).filter(|s| s.kind == 1 && s.flags & 6 == 2);
    let dynamic = at(if scratch.is_some() { 3 } else { 2 });
    if dynamic.kind != 2 {
        return fail(4, "no dynamic segment");
    }
    if dynamic.flags & 7 != 6 {
        return fail(7, "the dynamic segment must have flags R and W");
    }
    Ok(Shape { text, data, scratch, dynamic })
}

/// A segment's bytes in memory: the file part, then zeros.
fn contents(file: &[u8], segment: &Segment) -> Result<Vec<u8>, PrelinkError> {
    // The region check has bounded the memory size already.
    let start = segment.offset as usize;
    let bytes = start.checked_add(segment.file_size as usize).and_then(|end| file.get(start..end));
    let Some(bytes) = bytes else { return fail(7, "a segment lies outside the file") };
    if segment.file_size > segment.memory_size {
        return fail(7, "a segment is larger in the file than in memory");
    }
    let mut out = bytes.to_vec();
    out.resize(segment.memory_size as usize, 0);
    Ok(out)
}

fn place(segment: &Segment, base: u32, size: u32, align: u32) -> Result<u32, PrelinkError> {
    let start = base.next_multiple_of(align).wrapping_add(segment.load_address & (align - 1));
    let end = u64::from(start - base) + u64::from(segment.memory_size);
    if end > u64::from(size) {
        return fail(
            13,
            format!(
                "Segment exceeds the size of the split region on device ({} bytes of {size})",
                segment.memory_size
            ),
        );
    }
    Ok(start)
}

/// Moves addresses of the file to where the segments land.
#[derive(Clone, Copy, Debug)]
struct Mover {
    separation: u32,
    code: (u32, u32),
    data: (u32, u32),
}

impl Mover {
    fn address(&self, address: u32) -> u32 {
        let (from, to) =
            if u64::from(address) + u64::from(self.separation) >= u64::from(self.data.0) {
                self.data
            } else {
                self.code
            };
        address.wrapping_sub(from).wrapping_add(to)
    }
}

/// Bytes of the instruction that a relocation patches, by its first word: 3 for `const16`.
/// (wiki: runtime/prelinker-ucpl)
///
/// # Errors
/// Code 12.
pub fn instruction_class(insn: u32) -> Result<u32, PrelinkError> {
    if insn & 0x8 == 0 {
        Ok(3)
    } else if insn & 0x0100_000f == 0xf || insn & 0xf == 0xe {
        Ok(16)
    } else if insn & 0x0300_000f == 0x0100_000f {
        Ok(8)
    } else {
        fail(12, format!("instruction word {insn:#010x} has an unknown format"))
    }
}

/// A 24-bit instruction word with another 16-bit operand.
pub fn patch_narrow(insn: u32, value: u32) -> u32 {
    insn & 0xff00_00f7 | (value & 0xffff) << 8
}

struct Image {
    code: Vec<u8>,
    code_address: u32,
    data: Vec<u8>,
    data_address: u32,
}

impl Image {
    fn place(&mut self, address: u32, length: usize) -> Option<&mut [u8]> {
        for (bytes, base) in
            [(&mut self.code, self.code_address), (&mut self.data, self.data_address)]
        {
            let at = address.wrapping_sub(base) as usize;
            if at < bytes.len() {
                return bytes.get_mut(at..at.checked_add(length)?);
            }
        }
        None
    }

    fn relocate(&mut self, mover: &Mover, entry: &[u8]) -> Result<(), PrelinkError> {
        let (offset, info, addend) = (word(entry, 0), word(entry, 4), word(entry, 8));
        if info > 0xff {
            return fail(5, format!("relocation type {info:#x} refers to a symbol"));
        }
        let site = mover.address(offset);
        match info {
            0 => Ok(()),
            5 => {
                // A word outside the image is logged by the vendor's tool and left alone.
                if let Some(place) = self.place(site, 4) {
                    let old = word(place, 0);
                    let new = mover.address(old.wrapping_add(addend));
                    place.copy_from_slice(&new.to_le_bytes());
                }
                Ok(())
            }
            20..=34 => self.operand(site, mover.address(addend) & 0xffff),
            35..=49 => self.operand(site, mover.address(addend) >> 16),
            other => fail(8, format!("relocation type {other}")),
        }
    }

    fn operand(&mut self, site: u32, value: u32) -> Result<(), PrelinkError> {
        let Some(place) = self.place(site, 3) else {
            return fail(8, format!("relocation site {site:#x} is outside the image"));
        };
        let insn = u32::from_le_bytes([place[0], place[1], place[2], 0]);
        if instruction_class(insn)? != 3 {
            return fail(12, format!("operand of a bundle at {site:#x} cannot be relocated"));
        }
        place.copy_from_slice(&patch_narrow(insn, value).to_le_bytes()[..3]);
        Ok(())
    }
}

/// Prelinks a library file for `bounds`.
///
/// # Errors
/// [`PrelinkError`] with the vendor's code; nothing is staged then.
pub fn prelink(file: &[u8], bounds: &Bounds) -> Result<Staged, PrelinkError> {
    let shape = shape(file)?;
    let align = [&shape.text, &shape.data]
        .iter()
        .map(|s| s.align)
        .filter(|a| a.is_power_of_two() && *a <= 0x1000)
        .max()
        .unwrap_or(1);
    let code_address = place(&shape.text, bounds.code_base, bounds.code_size, align)?;
    let data_address = place(&shape.data, bounds.data_base, bounds.data_size, align)?;
    let mover = Mover {
        separation: if shape.scratch.is_some() { 0x400 } else { 0 },
        code: (shape.text.load_address, code_address),
        data: (shape.data.load_address, data_address),
    };
    let mut image = Image {
        code: contents(file, &shape.text)?,
        code_address,
        data: contents(file, &shape.data)?,
        data_address,
    };
    let start = shape.dynamic.offset as usize;
    let end = start.saturating_add(shape.dynamic.file_size as usize).min(file.len());
    let info = dynamic(file.get(start..end).unwrap_or(&[]));
    apply(file, &shape, &info, &mover, &mut image)?;

    let mut header = UcplHeader::for_segments(shape.text.memory_size, shape.data.memory_size);
    let moved = |address: u32| if address == 0 { 0 } else { mover.address(address) };
    header.init = moved(info.init);
    header.fini = moved(info.fini);
    header.start = moved(word(file, 0x18));
    if header.image_size() > MAX_LIBRARY {
        return fail(7, format!("image of {} bytes exceeds {MAX_LIBRARY}", header.image_size()));
    }
    let mut bytes = vec![0; header.image_size() as usize];
    bytes[..32].copy_from_slice(&header.encode());
    let code = HEADER as usize;
    bytes[code..code + image.code.len()].copy_from_slice(&image.code);
    fill_tail(&mut bytes, code + image.code.len(), code + align4(image.code.len() as u32) as usize);
    let data = header.data_offset as usize;
    bytes[data..data + image.data.len()].copy_from_slice(&image.data);
    fill_tail(&mut bytes, data + image.data.len(), data + align4(image.data.len() as u32) as usize);
    let table = section(file, TABLE_SECTION)
        .map(|(address, size)| (mover.address(address), size as usize / table::ROW));
    Ok(Staged { image: bytes, header, code_address, data_address, table })
}

fn fill_tail(bytes: &mut [u8], from: usize, to: usize) {
    if let Some(tail) = bytes.get_mut(from..to) {
        tail.fill(FILL);
    }
}

fn apply(
    file: &[u8],
    shape: &Shape,
    info: &Dynamic,
    mover: &Mover,
    image: &mut Image,
) -> Result<(), PrelinkError> {
    if info.count == 0 {
        return Ok(());
    }
    let length = info.count as usize * 12;
    let table = match &shape.scratch {
        Some(scratch) => {
            let at = scratch.offset.wrapping_add(info.relocations).wrapping_sub(scratch.address);
            file.get(at as usize..).and_then(|rest| rest.get(..length)).map(<[u8]>::to_vec)
        }
        None => {
            let at = mover.address(info.relocations);
            image.place(at, length).map(|bytes| bytes.to_vec())
        }
    };
    let Some(table) = table else { return fail(8, "the relocation table lies outside the file") };
    for entry in table.chunks_exact(12) {
        image.relocate(mover, entry)?;
    }
    Ok(())
}

/// Address and size of a section by name, with or without a leading dot.
fn section(file: &[u8], name: &str) -> Option<(u32, u32)> {
    let start = word(file, 0x20) as usize;
    let (size, count) =
        (usize::from(super::half(file, 0x2e)), usize::from(super::half(file, 0x30)));
    let names = usize::from(super::half(file, 0x32));
    if size < 40 {
        return None;
    }
    let header =
        |i: usize| file.get(start.checked_add(i.checked_mul(size)?)?..).filter(|h| h.len() >= 40);
    let strings = file.get(word(header(names)?, 16) as usize..)?;
    (0..count).find_map(|i| {
        let header = header(i)?;
        let text = strings.get(word(header, 0) as usize..)?;
        let end = text.iter().position(|&b| b == 0)?;
        let found = std::str::from_utf8(&text[..end]).ok()?;
        let same = found.strip_prefix('.').unwrap_or(found) == name;
        (same && i != 0).then(|| (word(header, 12), word(header, 20)))
    })
}

/// File offset of the relocation table in a file with a scratch segment.
pub fn relocation_offset(scratch_offset: u32, scratch_address: u32, table: u32) -> u32 {
    scratch_offset.wrapping_add(table).wrapping_sub(scratch_address)
}

//! Output files: library images (ELF32 Xtensa) and flat images.

use crate::error::{Error, ErrorClass, Result};

use super::{Assembly, RelocKind, Section, Segment};

/// ELF machine number of Xtensa.
pub const EM_XTENSA: u16 = 94;
/// `e_flags` of the vendor's libraries. (wiki: neff/neff-elf-relationship)
pub const E_FLAGS: u32 = 0x300;
/// Where the host-only segment with the relocations is linked. (wiki: abi/q7-elf-vaddr)
pub const SCRATCH_BASE: u32 = 0x0300_0000;
/// Alignment of the segments in shipped files. (wiki: runtime/prelinker-ucpl)
pub const SEGMENT_ALIGN: u32 = 0x80;

/// Relocation types of objects and libraries, the standard ones of the architecture.
/// (wiki: runtime/prelinker-ucpl)
pub mod reloc {
    /// Data word of an object: symbol plus addend plus the word itself.
    pub const ABSOLUTE: u32 = 1;
    /// Data word of an image: the stored address moves with its segment.
    pub const WORD: u32 = 5;
    /// Operand of slot 0: a target, or the low half for `const16`. The other slots follow.
    pub const LOW: u32 = 20;
    /// High half into the operand of slot 0. The other slots follow.
    pub const HIGH: u32 = 35;
    /// The last of them.
    pub const LAST: u32 = 49;

    /// The usual name of a type.
    pub fn name(kind: u32) -> String {
        match kind {
            0 => "R_XTENSA_NONE".to_owned(),
            ABSOLUTE => "R_XTENSA_32".to_owned(),
            WORD => "R_XTENSA_RELATIVE".to_owned(),
            11 => "R_XTENSA_ASM_EXPAND".to_owned(),
            12 => "R_XTENSA_ASM_SIMPLIFY".to_owned(),
            17..=19 => format!("R_XTENSA_DIFF{}", 8 << (kind - 17)),
            LOW..HIGH => format!("R_XTENSA_SLOT{}_OP", kind - LOW),
            HIGH..=LAST => format!("R_XTENSA_SLOT{}_ALT", kind - HIGH),
            other => format!("R_XTENSA_{other}"),
        }
    }
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::ProgramError, text)
}

/// A contiguous piece of memory.
struct Piece {
    base: u32,
    bytes: Vec<u8>,
    memory: u32,
}

fn piece(assembly: &Assembly, segments: &[Segment], base: u32) -> Result<Piece> {
    let mut out = Piece { base, bytes: Vec::new(), memory: 0 };
    for section in assembly.sections.iter().filter(|s| segments.contains(&s.segment)) {
        let start = section
            .address
            .checked_sub(base)
            .ok_or_else(|| bad(format!("{} lies below its segment", section.name)))?;
        let end = start as usize + section.bytes.len();
        out.memory = out.memory.max(end as u32);
        if section.segment != Segment::Bss {
            out.bytes.resize(out.bytes.len().max(end), 0);
            out.bytes[start as usize..end].copy_from_slice(&section.bytes);
        }
    }
    Ok(out)
}

/// Text and data as they lie in memory at their assembled addresses: `(address, bytes)`.
///
/// # Errors
/// `ProgramError` if a section lies below its segment.
pub fn flat(assembly: &Assembly) -> Result<Vec<(u32, Vec<u8>)>> {
    let mut out = Vec::new();
    for segments in [&[Segment::Text][..], &[Segment::Data, Segment::Bss][..]] {
        let first = assembly
            .sections
            .iter()
            .filter(|s| segments.contains(&s.segment))
            .map(|s| s.address)
            .min();
        if let Some(base) = first {
            let mut piece = piece(assembly, segments, base)?;
            piece.bytes.resize(piece.memory as usize, 0);
            out.push((base, piece.bytes));
        }
    }
    Ok(out)
}

/// A library image at rest: segments at 0x0100_0000, 0x0200_0000 and 0x0300_0000, with the dynamic
/// section and the relocations that the host loader applies. The entry is `_start`, or the start of
/// the text if there is none; `_init` and `_fini` become DT_INIT and DT_FINI.
/// (wiki: neff/neff-elf-relationship; wiki: runtime/prelinker-ucpl)
///
/// # Errors
/// `ProgramError` if there is no code.
pub fn library(assembly: &Assembly, text_base: u32, data_base: u32) -> Result<Vec<u8>> {
    let text = piece(assembly, &[Segment::Text], text_base)?;
    if text.bytes.is_empty() {
        return Err(bad("a library needs code"));
    }
    let mut data = piece(assembly, &[Segment::Data, Segment::Bss], data_base)?;
    if data.bytes.is_empty() {
        // The loader insists on a data segment.
        data.bytes = vec![0; 4];
        data.memory = data.memory.max(4);
    }
    let entry =
        assembly.symbols.get("_start").copied().unwrap_or_else(|| {
            assembly.section(".text").map_or(text_base, |section| section.address)
        });
    let relocations = relocations(&assembly.sections);
    let (scratch, dynamic_size) = scratch(assembly, &relocations);
    Ok(write(assembly, &text, &data, &scratch, dynamic_size, entry))
}

/// `{r_offset, type, addend}` of every place that moves.
fn relocations(sections: &[Section]) -> Vec<[u32; 3]> {
    let mut out = Vec::new();
    for section in sections {
        for r in &section.relocs {
            let site = section.address.wrapping_add(r.offset);
            out.push(match r.kind {
                // The word itself holds the address; the addend is on top of it.
                RelocKind::Word => [site, reloc::WORD, 0],
                RelocKind::High => [site, reloc::HIGH + u32::from(r.slot), r.target],
                RelocKind::Low => [site, reloc::LOW + u32::from(r.slot), r.target],
            });
        }
    }
    out
}

fn scratch(assembly: &Assembly, relocations: &[[u32; 3]]) -> (Vec<u8>, u32) {
    let mut entries: Vec<[u32; 2]> = Vec::new();
    let count = 4
        + u32::from(assembly.symbols.contains_key("_init"))
        + u32::from(assembly.symbols.contains_key("_fini"));
    let dynamic_size = count * 8;
    entries.push([7, SCRATCH_BASE + dynamic_size]);
    entries.push([8, relocations.len() as u32 * 12]);
    entries.push([9, 12]);
    if let Some(&init) = assembly.symbols.get("_init") {
        entries.push([12, init]);
    }
    if let Some(&fini) = assembly.symbols.get("_fini") {
        entries.push([13, fini]);
    }
    entries.push([0, 0]);
    let words = entries.iter().flatten().chain(relocations.iter().flatten());
    (words.flat_map(|word| word.to_le_bytes()).collect(), dynamic_size)
}

/// Section header types and flags of the ELF format.
mod sh {
    pub const PROGBITS: u32 = 1;
    pub const SYMTAB: u32 = 2;
    pub const STRTAB: u32 = 3;
    pub const RELA: u32 = 4;
    pub const DYNAMIC: u32 = 6;
    pub const NOBITS: u32 = 8;
    pub const WRITE: u32 = 1;
    pub const ALLOC: u32 = 2;
    pub const EXEC: u32 = 4;
}

/// A string table under construction.
#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, name: &str) -> u32 {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let at = self.0.len() as u32;
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        at
    }
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn align(out: &mut Vec<u8>, to: usize) -> u32 {
    out.resize(out.len().next_multiple_of(to), 0);
    out.len() as u32
}

fn write(
    assembly: &Assembly,
    text: &Piece,
    data: &Piece,
    scratch: &[u8],
    dynamic_size: u32,
    entry: u32,
) -> Vec<u8> {
    const EHDR: usize = 52;
    const PHDR: usize = 32;
    let mut out = vec![0; EHDR + 4 * PHDR];
    let offsets = [&text.bytes[..], &data.bytes[..], scratch].map(|bytes| {
        let at = align(&mut out, SEGMENT_ALIGN as usize);
        out.extend_from_slice(bytes);
        at
    });

    // Section headers: null, the sections, .dynamic, .rela.got, .symtab, .strtab, .shstrtab.
    let mut names = Strings::default();
    let mut strings = Strings::default();
    let mut headers: Vec<[u32; 10]> = vec![[0; 10]];
    for section in &assembly.sections {
        let (offset, base, flags) = match section.segment {
            Segment::Text => (offsets[0], text.base, sh::ALLOC | sh::EXEC),
            Segment::Data | Segment::Bss => (offsets[1], data.base, sh::ALLOC | sh::WRITE),
        };
        let kind = if section.segment == Segment::Bss { sh::NOBITS } else { sh::PROGBITS };
        let at = offset + (section.address - base);
        let (name, size) = (names.add(&section.name), section.bytes.len() as u32);
        headers.push([name, kind, flags, section.address, at, size, 0, 0, section.align.max(1), 0]);
    }
    let symtab_at = headers.len() as u32 + 2;
    let flags = sh::ALLOC | sh::WRITE;
    let rest = scratch.len() as u32 - dynamic_size;
    let strtab_at = symtab_at + 1;
    let rela = [SCRATCH_BASE + dynamic_size, offsets[2] + dynamic_size, rest, symtab_at, 0, 4, 12];
    let dynamic = [SCRATCH_BASE, offsets[2], dynamic_size, strtab_at, 0, 4, 8];
    for (name, kind, [address, at, size, link, info, align, entry]) in
        [(".dynamic", sh::DYNAMIC, dynamic), (".rela.got", sh::RELA, rela)]
    {
        headers.push([names.add(name), kind, flags, address, at, size, link, info, align, entry]);
    }
    let mut symbols = vec![0; 16];
    let is_global = |name: &String| assembly.globals.iter().any(|g| g == name);
    let (globals, locals): (Vec<_>, Vec<_>) =
        assembly.symbols.iter().partition(|(name, _)| is_global(name));
    // ELF wants the local ones first.
    for (name, &address) in locals.iter().chain(&globals).copied() {
        let owner = assembly
            .sections
            .iter()
            .position(|s| address >= s.address && (address - s.address) as usize <= s.bytes.len());
        // Symbols outside all sections are absolute.
        let index = owner.map_or(0xfff1, |at| at as u32 + 1);
        let info = if is_global(name) { 1 << 4 } else { 0 };
        words(&mut symbols, &[strings.add(name), address, 0, info | index << 16]);
    }
    let symtab = align(&mut out, 4);
    out.extend_from_slice(&symbols);
    let strtab = out.len() as u32;
    if strings.0.is_empty() {
        strings.0.push(0);
    }
    out.extend_from_slice(&strings.0);
    let link = headers.len() as u32 + 1;
    headers.push([
        names.add(".symtab"),
        sh::SYMTAB,
        0,
        0,
        symtab,
        symbols.len() as u32,
        link,
        locals.len() as u32 + 1,
        4,
        16,
    ]);
    headers.push([
        names.add(".strtab"),
        sh::STRTAB,
        0,
        0,
        strtab,
        strings.0.len() as u32,
        0,
        0,
        1,
        0,
    ]);
    let own_name = names.add(".shstrtab");
    let shstrtab = out.len() as u32;
    out.extend_from_slice(&names.0);
    headers.push([own_name, sh::STRTAB, 0, 0, shstrtab, names.0.len() as u32, 0, 0, 1, 0]);
    let shoff = align(&mut out, 4);
    for header in &headers {
        words(&mut out, header);
    }

    let mut head = Vec::with_capacity(EHDR + 4 * PHDR);
    head.extend_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    words(&mut head, &[2 | u32::from(EM_XTENSA) << 16, 1, entry, EHDR as u32, shoff, E_FLAGS]);
    let count = headers.len() as u32;
    words(&mut head, &[(EHDR | PHDR << 16) as u32, 4 | 40 << 16, count | (count - 1) << 16]);
    let (length, file) = (scratch.len() as u32, [text.bytes.len() as u32, data.bytes.len() as u32]);
    let rows = [
        [1, offsets[0], text.base, file[0], text.memory, 5, SEGMENT_ALIGN],
        [1, offsets[1], data.base, file[1], data.memory, 7, SEGMENT_ALIGN],
        [1, offsets[2], SCRATCH_BASE, length, length, 3, SEGMENT_ALIGN],
        [2, offsets[2], SCRATCH_BASE, dynamic_size, dynamic_size, 6, 4],
    ];
    for [kind, offset, address, file, memory, flags, align] in rows {
        words(&mut head, &[kind, offset, address, address, file, memory, flags, align]);
    }
    out[..head.len()].copy_from_slice(&head);
    out
}

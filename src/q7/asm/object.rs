//! Relocatable objects: ELF32 little-endian Xtensa files of the usual tools, written and read.

use std::collections::BTreeMap;

use object::elf;
use object::read::elf::{ElfFile32, ElfSection32, ElfSymbol32};
use object::{LittleEndian, ObjectSection as _, ObjectSymbol as _, RelocationFlags};

use crate::error::{Error, ErrorClass, Result};

use super::link::E_FLAGS;
use super::{MAX_SECTION, Segment};

/// Most sections, symbols and relocations that are read, and the longest name: far more than any
/// library can use, small enough that damaged files cost neither time nor memory.
const MOST: (usize, usize, usize, usize) = (2048, 1 << 16, 1 << 18, 1024);

/// A relocatable object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// File name, for messages.
    pub name: String,
    /// Sections that take part in the image.
    pub sections: Vec<ObjectSection>,
    /// Symbols; relocations refer to them by index.
    pub symbols: Vec<Symbol>,
}

/// A section of an object. Its addresses count from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectSection {
    /// Name.
    pub name: String,
    /// Segment.
    pub segment: Segment,
    /// Alignment in bytes, a power of two.
    pub align: u32,
    /// Size in memory.
    pub size: u32,
    /// Contents; empty for [`Segment::Bss`].
    pub bytes: Vec<u8>,
    /// Relocations.
    pub relocs: Vec<ObjectReloc>,
}

/// A place to be filled by the linker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectReloc {
    /// Offset in the section.
    pub offset: u32,
    /// ELF relocation type, see [`super::link::reloc`].
    pub kind: u32,
    /// Index into [`Object::symbols`].
    pub symbol: usize,
    /// What is added to the symbol's address.
    pub addend: i32,
}

/// Where a symbol lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In another object.
    Undefined,
    /// A number.
    Absolute,
    /// Zeroed memory that the linker provides, with this alignment; the symbol's size is its size.
    Common(u32),
    /// In the section of this index.
    Section(usize),
    /// In a section that is no part of the image (debug information).
    Dropped,
}

/// How a symbol meets those of the same name in other objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Not visible there.
    Local,
    /// Defined once in all.
    Global,
    /// Gives way to a global one; 0 if nobody defines it.
    Weak,
}

/// A symbol. Section symbols have no name.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// Name.
    pub name: String,
    /// Where it lies.
    pub place: Place,
    /// Offset in the section, or the number.
    pub value: u32,
    /// Size in bytes, if known.
    pub size: u32,
    /// Binding.
    pub binding: Binding,
}

impl Symbol {
    /// The symbol of section `index`.
    pub fn section(index: usize) -> Symbol {
        Symbol {
            name: String::new(),
            place: Place::Section(index),
            value: 0,
            size: 0,
            binding: Binding::Local,
        }
    }

    /// A symbol that another object defines.
    pub fn undefined(name: &str, weak: bool) -> Symbol {
        let binding = if weak { Binding::Weak } else { Binding::Global };
        Symbol { name: name.to_owned(), place: Place::Undefined, value: 0, size: 0, binding }
    }
}

fn bad(name: &str, text: impl std::fmt::Display) -> Error {
    Error::new(ErrorClass::ProgramError, format!("{name}: {text}"))
}

/// Whether `bytes` begin like a relocatable ELF file.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && bytes.get(16..18) == Some(&[1, 0])
}

/// Segment of a section by its name, as the assembler sorts them.
pub(super) fn segment_of(name: &str) -> Segment {
    if name.starts_with(".text") || name.starts_with(".literal") {
        Segment::Text
    } else if name.starts_with(".bss") {
        Segment::Bss
    } else {
        Segment::Data
    }
}

impl Object {
    /// Name of a symbol; a section symbol is called like its section.
    pub fn symbol_name(&self, symbol: usize) -> &str {
        let Some(symbol) = self.symbols.get(symbol) else { return "?" };
        match symbol.place {
            Place::Section(at) if symbol.name.is_empty() => {
                self.sections.get(at).map_or("?", |section| &section.name)
            }
            _ => &symbol.name,
        }
    }

    /// The ELF file.
    ///
    /// # Errors
    /// `Internal` if the writer refuses the object.
    pub fn write(&self) -> Result<Vec<u8>> {
        use object::write as w;
        let internal = |error: w::Error| Error::internal(format!("{}: {error}", self.name));
        let mut out = w::Object::new(
            object::BinaryFormat::Elf,
            object::Architecture::Xtensa,
            object::Endianness::Little,
        );
        out.flags = object::FileFlags::Elf {
            os_abi: elf::OsAbi(0),
            abi_version: 0,
            e_flags: elf::FileFlags(E_FLAGS),
        };
        out.add_file_symbol(self.name.clone().into_bytes());
        let mut ids = Vec::new();
        for section in &self.sections {
            let kind = match section.segment {
                Segment::Text => object::SectionKind::Text,
                Segment::Bss => object::SectionKind::UninitializedData,
                Segment::Data if section.name.starts_with(".rodata") => {
                    object::SectionKind::ReadOnlyData
                }
                Segment::Data => object::SectionKind::Data,
            };
            let id = out.add_section(Vec::new(), section.name.clone().into_bytes(), kind);
            match section.segment {
                Segment::Bss => {
                    out.append_section_bss(id, section.size.into(), section.align.into());
                }
                _ => out.set_section_data(id, section.bytes.clone(), section.align.into()),
            }
            ids.push(id);
        }
        let mut symbols = Vec::new();
        for symbol in &self.symbols {
            if let (Place::Section(at), true) = (symbol.place, symbol.name.is_empty()) {
                symbols.push(out.section_symbol(ids[at]));
                continue;
            }
            let section = match symbol.place {
                Place::Undefined | Place::Dropped => w::SymbolSection::Undefined,
                Place::Absolute => w::SymbolSection::Absolute,
                Place::Common(_) => w::SymbolSection::Common,
                Place::Section(at) => w::SymbolSection::Section(ids[at]),
            };
            let kind = match symbol.place {
                Place::Section(at) if self.sections[at].segment == Segment::Text => {
                    object::SymbolKind::Label
                }
                Place::Section(_) | Place::Common(_) => object::SymbolKind::Data,
                Place::Absolute => object::SymbolKind::Label,
                _ => object::SymbolKind::Unknown,
            };
            let local = symbol.binding == Binding::Local;
            let value = match symbol.place {
                Place::Common(align) => align,
                _ => symbol.value,
            };
            symbols.push(out.add_symbol(w::Symbol {
                name: symbol.name.clone().into_bytes(),
                value: value.into(),
                size: symbol.size.into(),
                kind,
                scope: if local {
                    object::SymbolScope::Compilation
                } else {
                    object::SymbolScope::Dynamic
                },
                weak: symbol.binding == Binding::Weak,
                section,
                flags: object::SymbolFlags::None,
            }));
        }
        for (section, &id) in self.sections.iter().zip(&ids) {
            for r in &section.relocs {
                let relocation = w::Relocation {
                    offset: r.offset.into(),
                    symbol: symbols[r.symbol],
                    addend: r.addend.into(),
                    flags: RelocationFlags::Elf { r_type: elf::RelocationType(r.kind) },
                };
                out.add_relocation(id, relocation).map_err(internal)?;
            }
        }
        out.write().map_err(internal)
    }

    /// Reads an ELF file made by this assembler or by the usual tools. `name` is for messages.
    ///
    /// # Errors
    /// `ProgramError` for anything that is not a sound ELF32 little-endian Xtensa object.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Object> {
        if !is_object(bytes) {
            return Err(bad(name, "not a relocatable ELF file"));
        }
        let file = ElfFile32::<LittleEndian>::parse(bytes).map_err(|e| bad(name, e))?;
        use object::Object as _;
        if file.architecture() != object::Architecture::Xtensa {
            return Err(bad(name, "not an object for Xtensa"));
        }
        let mut out = Object { name: name.to_owned(), ..Object::default() };
        let count = file.sections().take(MOST.0 + 1).count();
        if count > MOST.0 || file.symbols().take(MOST.1 + 1).count() > MOST.1 {
            return Err(bad(name, "too many sections or symbols"));
        }
        let header = file.elf_header();
        let names = usize::from(header.e_shstrndx.get(LittleEndian).0);
        let names = strings(&file, object::SectionIndex(names));
        let mut index = BTreeMap::new();
        let mut total = 0;
        for section in file.sections() {
            if let Some(read) = read_section(name, &section, names)? {
                total += read.size as usize;
                if total > 2 * MAX_SECTION {
                    return Err(bad(name, "the sections are too large"));
                }
                index.insert(section.index().0, out.sections.len());
                out.sections.push(read);
            }
        }
        let names = strings(&file, file.elf_symbol_table().string_section());
        let mut symbols = BTreeMap::new();
        for symbol in file.symbols() {
            symbols.insert(symbol.index().0, out.symbols.len());
            out.symbols.push(read_symbol(name, &symbol, &index, names)?);
        }
        let mut left = MOST.2;
        for section in file.sections() {
            let Some(&at) = index.get(&section.index().0) else { continue };
            let relocs = read_relocs(name, &section, &symbols, &mut left)?;
            out.sections[at].relocs = relocs;
        }
        Ok(out)
    }
}

/// The contents of a string section, empty if there is none.
fn strings<'a>(file: &ElfFile32<'a, LittleEndian>, index: object::SectionIndex) -> &'a [u8] {
    use object::Object as _;
    file.section_by_index(index).and_then(|section| section.data()).unwrap_or_default()
}

/// A name of a string section. The library's own look-up has no bound on the length.
fn name_at(file: &str, strings: &[u8], at: u32) -> Result<String> {
    let rest = strings.get(at as usize..).unwrap_or_default();
    let length = rest.iter().take(MOST.3).position(|&b| b == 0);
    let name = length.and_then(|length| std::str::from_utf8(&rest[..length]).ok());
    name.map(str::to_owned).ok_or_else(|| bad(file, format!("no name at {at:#x}")))
}

/// The section, or `None` if it is no part of the image.
fn read_section(
    file: &str,
    section: &ElfSection32<'_, '_, LittleEndian>,
    names: &[u8],
) -> Result<Option<ObjectSection>> {
    let object::SectionFlags::Elf { sh_type, sh_flags } = section.flags() else {
        return Ok(None);
    };
    if sh_flags.0 & elf::SHF_ALLOC.0 == 0 {
        return Ok(None);
    }
    let name = name_at(file, names, section.elf_section_header().sh_name.get(LittleEndian))?;
    let (size, align) = (section.size(), section.align().max(1));
    if size > MAX_SECTION as u64 {
        return Err(bad(file, format!("section {name} has {size} bytes, more than {MAX_SECTION}")));
    }
    if !align.is_power_of_two() || align > 4096 {
        return Err(bad(file, format!("section {name} is aligned to {align}")));
    }
    let segment = if sh_type == elf::SHT_NOBITS {
        Segment::Bss
    } else if sh_flags.0 & elf::SHF_EXECINSTR.0 != 0 {
        Segment::Text
    } else {
        match segment_of(&name) {
            // A `.bss` with contents is data.
            Segment::Bss => Segment::Data,
            other => other,
        }
    };
    let bytes = match segment {
        Segment::Bss => Vec::new(),
        _ => section.data().map_err(|e| bad(file, e))?.to_vec(),
    };
    if segment != Segment::Bss && bytes.len() as u64 != size {
        return Err(bad(file, format!("section {name} is compressed or cut off")));
    }
    let (size, align) = (size as u32, align as u32);
    Ok(Some(ObjectSection { name, segment, align, size, bytes, relocs: Vec::new() }))
}

fn read_symbol(
    file: &str,
    symbol: &ElfSymbol32<'_, '_, LittleEndian>,
    sections: &BTreeMap<usize, usize>,
    names: &[u8],
) -> Result<Symbol> {
    use object::SymbolSection;
    let value = symbol.address() as u32;
    let mut place = match symbol.section() {
        SymbolSection::Undefined => Place::Undefined,
        SymbolSection::Absolute => Place::Absolute,
        SymbolSection::Common => Place::Common(value.clamp(1, 4096).next_power_of_two()),
        SymbolSection::Section(at) => {
            sections.get(&at.0).map_or(Place::Dropped, |&at| Place::Section(at))
        }
        _ => Place::Dropped,
    };
    let name = match symbol.kind() {
        object::SymbolKind::Section => String::new(),
        object::SymbolKind::File => {
            place = Place::Dropped;
            String::new()
        }
        _ => name_at(file, names, symbol.elf_symbol().st_name.get(LittleEndian))?,
    };
    let size = symbol.size().min(u64::from(u32::MAX)) as u32;
    if matches!(place, Place::Common(_)) && size as usize > MAX_SECTION {
        return Err(bad(file, format!("common symbol `{name}` has {size} bytes")));
    }
    let binding = if symbol.is_weak() {
        Binding::Weak
    } else if symbol.is_global() {
        Binding::Global
    } else {
        Binding::Local
    };
    let value = if matches!(place, Place::Common(_)) { 0 } else { value };
    Ok(Symbol { name, place, value, size, binding })
}

fn read_relocs(
    file: &str,
    section: &ElfSection32<'_, '_, LittleEndian>,
    symbols: &BTreeMap<usize, usize>,
    left: &mut usize,
) -> Result<Vec<ObjectReloc>> {
    let mut out = Vec::new();
    for (offset, relocation) in section.relocations() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        let Some(next) = left.checked_sub(1) else {
            return Err(bad(file, "too many relocations"));
        };
        *left = next;
        if relocation.has_implicit_addend() {
            return Err(bad(file, "relocations without addends are not of this architecture"));
        }
        let symbol = match relocation.target() {
            object::RelocationTarget::Symbol(at) => symbols.get(&at.0).copied(),
            // Symbol 0: nothing to add.
            _ => symbols.get(&0).copied(),
        };
        let Some(symbol) = symbol else {
            if r_type.0 == 0 {
                continue;
            }
            return Err(bad(file, format!("relocation at {offset:#x} has no symbol")));
        };
        out.push(ObjectReloc {
            offset: offset as u32,
            kind: r_type.0,
            symbol,
            addend: relocation.addend() as i32,
        });
    }
    Ok(out)
}

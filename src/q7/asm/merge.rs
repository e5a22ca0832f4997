//! The linker: several objects become one [`Assembly`] with final addresses.
//!
//! Sections of a kind are joined in the order of the objects, and laid out as the assembler lays
//! out one file: literals first, because `l32r` only reaches backwards. What depends on the place
//! of the segments stays listed for the loader.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorClass, Result};
use crate::q7::codec::{self, Options as CodecOptions};

use super::link::reloc;
use super::object::{Binding, Object, ObjectReloc, Place, Symbol};
use super::{
    Assembly, KERNEL_TABLE, MAX_SECTION, Options, Reloc, Section, Segment, pad_bytes, program,
};

/// Layout of the sections that every image may have; others follow within their segment.
const ORDER: [&str; 6] = [".literal", ".text", ".rodata", ".data", KERNEL_TABLE, ".bss"];

/// Relocations that only help tools which move code afterwards: hints about expansion, and
/// differences, which are final as assembled because nothing is moved here.
const NO_ACTION: [u32; 14] = [0, 11, 12, 15, 16, 17, 18, 19, 57, 58, 59, 60, 61, 62];

/// Name of the output section for an input section.
fn output_name(name: &str) -> &str {
    if name.strip_prefix('.') == Some(KERNEL_TABLE) {
        return KERNEL_TABLE;
    }
    // `.text.name` and the like join their family.
    ORDER
        .into_iter()
        .find(|family| name.strip_prefix(family).is_some_and(|rest| rest.starts_with('.')))
        .unwrap_or(name)
}

/// A definition that references are resolved to.
#[derive(Clone, Copy, Debug)]
struct Definition {
    address: u32,
    /// Segment that it moves with, none for a number.
    segment: Option<Segment>,
    weak: bool,
    /// Index of the object.
    object: usize,
}

/// Links `objects`.
///
/// # Errors
/// `ProgramError` for symbols that are undefined or defined twice, operands that do not reach their
/// target, and relocations of other kinds; `MissingSpecification` for an operand in a slot whose
/// bits are not published.
pub fn merge(objects: &[Object], options: &Options) -> Result<Assembly> {
    let mut linker = Linker::default();
    linker.collect(objects)?;
    linker.place(options)?;
    let symbols = linker.symbols(objects)?;
    for (at, object) in objects.iter().enumerate() {
        linker.relocate(at, object, &symbols)?;
    }
    Ok(linker.finish(objects, &symbols))
}

#[derive(Default)]
struct Linker {
    sections: Vec<Section>,
    /// Output section and offset of every input section, by object.
    places: Vec<Vec<(usize, u32)>>,
    /// Output section and offset of common symbols.
    commons: BTreeMap<String, (usize, u32)>,
}

impl Linker {
    fn section(&mut self, name: &str, segment: Segment) -> usize {
        let found = self.sections.iter().position(|s| s.name == name && s.segment == segment);
        found.unwrap_or_else(|| {
            self.sections.push(Section {
                name: name.to_owned(),
                segment,
                address: 0,
                align: 4,
                bytes: Vec::new(),
                relocs: Vec::new(),
            });
            self.sections.len() - 1
        })
    }

    /// Appends to a section and returns the offset.
    fn append(&mut self, at: usize, align: u32, bytes: &[u8], size: u32) -> Result<u32> {
        let section = &mut self.sections[at];
        // Targets of calls and literals are counted in words from the instruction.
        let align = if section.segment == Segment::Text { align.max(4) } else { align };
        section.align = section.align.max(align);
        let pad = section.bytes.len().next_multiple_of(align as usize) - section.bytes.len();
        let offset = section.bytes.len() + pad;
        if offset + size as usize > MAX_SECTION {
            return Err(program(format!("section {} is too large", section.name)));
        }
        if size > 0 {
            pad_bytes(&mut section.bytes, pad as u32, section.segment == Segment::Text);
            section.bytes.extend_from_slice(bytes);
            section.bytes.resize(offset + size as usize, 0);
        }
        Ok(offset as u32)
    }

    fn collect(&mut self, objects: &[Object]) -> Result<()> {
        for name in ORDER {
            self.section(name, super::object::segment_of(name));
        }
        for object in objects {
            let mut places = Vec::new();
            for section in &object.sections {
                let at = self.section(output_name(&section.name), section.segment);
                let offset = self.append(at, section.align, &section.bytes, section.size)?;
                places.push((at, offset));
            }
            self.places.push(places);
        }
        let bss = self.section(".bss", Segment::Bss);
        let mut commons: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for symbol in objects.iter().flat_map(|o| &o.symbols) {
            if let Place::Common(align) = symbol.place {
                let entry = commons.entry(&symbol.name).or_default();
                *entry = (entry.0.max(symbol.size), entry.1.max(align));
            }
        }
        for (name, (size, align)) in commons {
            let offset = self.append(bss, align, &[], size)?;
            self.commons.insert(name.to_owned(), (bss, offset));
        }
        Ok(())
    }

    fn place(&mut self, options: &Options) -> Result<()> {
        let mut order: Vec<usize> = (0..self.sections.len()).collect();
        order.sort_by_key(|&i| (self.sections[i].segment, i));
        let (mut text, mut data) = (options.text_base, options.data_base);
        for i in order {
            let section = &mut self.sections[i];
            let cursor = if section.segment == Segment::Text { &mut text } else { &mut data };
            let align = if section.bytes.is_empty() { 1 } else { section.align };
            let start = cursor.checked_next_multiple_of(align);
            let end = start.and_then(|start| start.checked_add(section.bytes.len() as u32));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(program(format!("section {} leaves the address space", section.name)));
            };
            section.address = start;
            *cursor = end;
        }
        Ok(())
    }

    /// Where a symbol of `object` lies, if it is defined there.
    fn define(&self, object: usize, symbol: &Symbol) -> Option<Definition> {
        let weak = symbol.binding == Binding::Weak;
        let at = |(section, offset): (usize, u32), value: u32| {
            let section = &self.sections[section];
            let address = section.address.wrapping_add(offset).wrapping_add(value);
            Definition { address, segment: Some(section.segment), weak, object }
        };
        match symbol.place {
            Place::Undefined | Place::Dropped => None,
            Place::Absolute => {
                Some(Definition { address: symbol.value, segment: None, weak, object })
            }
            Place::Common(_) => {
                // Any real definition wins over common memory.
                let found = at(*self.commons.get(&symbol.name)?, 0);
                Some(Definition { weak: true, ..found })
            }
            Place::Section(section) => Some(at(*self.places[object].get(section)?, symbol.value)),
        }
    }

    /// The global symbols.
    fn symbols<'a>(&self, objects: &'a [Object]) -> Result<BTreeMap<&'a str, Definition>> {
        let mut out: BTreeMap<&str, Definition> = BTreeMap::new();
        for (at, object) in objects.iter().enumerate() {
            for symbol in object.symbols.iter().filter(|s| s.binding != Binding::Local) {
                let Some(new) = self.define(at, symbol) else { continue };
                match out.get(symbol.name.as_str()) {
                    Some(old) if !old.weak && !new.weak => {
                        return Err(program(format!(
                            "`{}` is defined in {} and in {}",
                            symbol.name, objects[old.object].name, object.name
                        )));
                    }
                    Some(old) if !old.weak || new.weak => {}
                    _ => drop(out.insert(&symbol.name, new)),
                }
            }
        }
        let mut missing: BTreeMap<&str, &str> = BTreeMap::new();
        for object in objects {
            for symbol in &object.symbols {
                let unknown = symbol.place == Place::Undefined
                    && symbol.binding == Binding::Global
                    && !symbol.name.is_empty()
                    && !out.contains_key(symbol.name.as_str());
                if unknown {
                    missing.entry(&symbol.name).or_insert(&object.name);
                }
            }
        }
        if missing.is_empty() {
            return Ok(out);
        }
        let list: Vec<_> = missing.iter().map(|(s, file)| format!("`{s}` (in {file})")).collect();
        Err(program(format!("undefined symbols: {}", list.join(", "))))
    }

    fn relocate(
        &mut self,
        at: usize,
        object: &Object,
        globals: &BTreeMap<&str, Definition>,
    ) -> Result<()> {
        for (section, &(out, base)) in object.sections.iter().zip(&self.places[at].clone()) {
            for r in &section.relocs {
                self.apply(at, object, out, base, r, globals).map_err(|error| {
                    let symbol = object.symbols.get(r.symbol).map_or("", |s| s.name.as_str());
                    let place = format!("{}: {}+{:#x}", object.name, section.name, r.offset);
                    let text = format!("{place} (to `{symbol}`): {}", error.message);
                    Error { message: text, ..error }
                })?;
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        at: usize,
        object: &Object,
        out: usize,
        base: u32,
        r: &ObjectReloc,
        globals: &BTreeMap<&str, Definition>,
    ) -> Result<()> {
        if NO_ACTION.contains(&r.kind) {
            return Ok(());
        }
        let symbol =
            object.symbols.get(r.symbol).ok_or_else(|| program("the symbol does not exist"))?;
        let found = match symbol.binding {
            Binding::Local => self.define(at, symbol),
            _ => globals.get(symbol.name.as_str()).copied(),
        };
        let target = match found {
            Some(found) => found,
            // Symbol 0 and undefined weak symbols are 0.
            None if symbol.place == Place::Undefined => {
                Definition { address: 0, segment: None, weak: true, object: at }
            }
            None => return Err(program("the symbol is in a section that is not loaded")),
        };
        let value = target.address.wrapping_add(r.addend as u32);
        let section = &mut self.sections[out];
        let offset = base.wrapping_add(r.offset);
        let here = section.address.wrapping_add(offset);
        let start = offset as usize;
        if start >= section.bytes.len() || section.segment == Segment::Bss {
            return Err(program("the place lies outside its section"));
        }
        let full = match r.kind {
            reloc::ABSOLUTE => {
                let word = section.bytes.get_mut(start..start + 4);
                let word = word.ok_or_else(|| program("the place lies outside its section"))?;
                let old = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                let new = old.wrapping_add(value);
                word.copy_from_slice(&new.to_le_bytes());
                new
            }
            reloc::LOW..=reloc::LAST => {
                let slot = ((r.kind - reloc::LOW) % (reloc::HIGH - reloc::LOW)) as usize;
                let bytes = &section.bytes[start..];
                let high = r.kind >= reloc::HIGH;
                let near =
                    section.segment == Segment::Text && target.segment == Some(Segment::Text);
                let (encoded, absolute) = operand(bytes, here, slot, value, high, near)?;
                let end = start + encoded.len();
                section.bytes[start..end].copy_from_slice(&encoded);
                if !absolute {
                    return Ok(());
                }
                value
            }
            other => return Err(program(format!("relocations of type {other} are not linked"))),
        };
        if target.segment.is_some() {
            section.relocs.extend(Reloc::of_type(offset, r.kind, full));
        }
        Ok(())
    }

    fn finish(self, objects: &[Object], globals: &BTreeMap<&str, Definition>) -> Assembly {
        let mut symbols: BTreeMap<String, u32> =
            globals.iter().map(|(name, d)| ((*name).to_owned(), d.address)).collect();
        let names = symbols.keys().cloned().collect();
        for (at, object) in objects.iter().enumerate() {
            let local = object.symbols.iter().filter(|s| s.binding == Binding::Local);
            for symbol in local.filter(|s| !s.name.is_empty()) {
                if let Some(found) = self.define(at, symbol) {
                    symbols.entry(symbol.name.clone()).or_insert(found.address);
                }
            }
        }
        let mut sections: Vec<_> =
            self.sections.into_iter().filter(|s| !s.bytes.is_empty()).collect();
        sections.sort_by_key(|s| (s.segment, s.address));
        for section in &mut sections {
            section.relocs.sort_by_key(|r| (r.offset, r.slot));
        }
        Assembly { sections, symbols, globals: names, listing: Vec::new() }
    }
}

/// The instruction at the start of `bytes` with another operand in `slot`, and whether that operand
/// is absolute (a half of an address) rather than relative to the instruction. `near` tells that
/// instruction and target stay together when the library is loaded.
fn operand(
    bytes: &[u8],
    pc: u32,
    slot: usize,
    value: u32,
    high: bool,
    near: bool,
) -> Result<(Vec<u8>, bool)> {
    let mut bundle = codec::decode(bytes, pc, CodecOptions::OWN)?;
    let Some(op) = bundle.ops.get_mut(slot) else {
        return Err(program(format!("the instruction has no slot {slot}")));
    };
    let absolute = op.row.mnemonic == "const16";
    let fields = &op.row.fields;
    let at = match absolute {
        true => fields.iter().position(|field| field.name == "imm16"),
        false => fields.iter().position(|field| field.is_target() && !high),
    };
    let Some(at) = at else {
        return Err(program(format!("`{}` has no operand to relocate", op.row.mnemonic)));
    };
    if !absolute && !near {
        return Err(program("the target of a branch, call or l32r must be in the text segment"));
    }
    op.values[at] = match (absolute, high) {
        (true, true) => i64::from(value >> 16),
        (true, false) => i64::from(value & 0xffff),
        (false, _) => i64::from(value),
    };
    if op.encode(pc).is_none() {
        return Err(Error::new(
            ErrorClass::ProgramError,
            format!("`{}` at {pc:#x} does not reach {value:#x}", op.row.mnemonic),
        ));
    }
    Ok((bundle.encode(pc)?.to_vec(), absolute))
}

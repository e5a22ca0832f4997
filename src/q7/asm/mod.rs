//! Assembler and disassembler for the Q7 cores, in the syntax of the vendor's tools.
//!
//! [`assemble`] makes an [`Assembly`]: sections with bytes, symbols, relocations, and a listing.
//! [`link`] turns that into a library image (ELF32 Xtensa) or a flat image; [`disasm`] goes back.
//! [`assemble_object`] makes a relocatable [`object::Object`] instead, [`merge`] links several.
//!
//! Directives: `.text .data .bss .section .align .balign .word .long .short .half .byte .ascii
//! .asciz .string .space .zero .global .globl .weak .equ .set .literal .kernel`, and the ignored
//! `.local .type .size .literal_position .file .ident .extern`. `.kernel opcode, spec, function` adds a row
//! to `kernel_info_table`. `movi` with a value that its field cannot hold becomes a `const16` pair.
//! Comments start with `#`, `//` or `/* */`.

pub mod disasm;
pub mod expr;
pub mod insn;
pub mod link;
pub mod merge;
pub mod object;
mod scope;
mod source;

use std::collections::BTreeMap;

use crate::error::{Error, ErrorClass, Result};
use crate::q7::codec::Options as CodecOptions;

use expr::{Expr, Half};
use insn::{InsnText, OpText, Operand, Resolve};
use link::reloc;
use object::{Binding, Object, ObjectReloc, ObjectSection, Place, Symbol};
use scope::{Base, Scope};
use source::{Data, Item, Statement};

/// Name of the section that holds the dispatch rows. (wiki: firmware/pool/external-lib-loader)
pub const KERNEL_TABLE: &str = "kernel_info_table";

/// Largest section the assembler makes; no memory of the core is larger.
pub const MAX_SECTION: usize = 1 << 20;

/// Options of the assembler.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether private codes may be used, see [`CodecOptions`].
    pub codec: CodecOptions,
    /// Address of the text segment.
    pub text_base: u32,
    /// Address of the data segment.
    pub data_base: u32,
}

impl Default for Options {
    /// Bases of a library at rest. (wiki: abi/q7-elf-vaddr)
    fn default() -> Self {
        Options { codec: CodecOptions::OWN, text_base: 0x0100_0000, data_base: 0x0200_0000 }
    }
}

/// Segment of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// Code and literals.
    Text,
    /// Initialised data, read-only data, the kernel table.
    Data,
    /// Zeroed data without bytes in the file.
    Bss,
}

/// How a relocated place is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelocKind {
    /// A 32-bit word.
    Word,
    /// The operand of `const16`: high half.
    High,
    /// The operand of `const16`: low half.
    Low,
}

/// A place that depends on where the segments land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloc {
    /// Offset in the section.
    pub offset: u32,
    /// How to fill it.
    pub kind: RelocKind,
    /// Slot of the instruction that holds the operand; 0 for words and scalar instructions.
    pub slot: u8,
    /// Address it stands for, as linked.
    pub target: u32,
}

/// A section with its final address.
#[derive(Clone, Debug)]
pub struct Section {
    /// Name.
    pub name: String,
    /// Segment.
    pub segment: Segment,
    /// Address.
    pub address: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Contents; for [`Segment::Bss`] zeros that stand for the size.
    pub bytes: Vec<u8>,
    /// Relocations.
    pub relocs: Vec<Reloc>,
}

/// One line of the listing.
#[derive(Clone, Debug)]
pub struct Line {
    /// Address.
    pub address: u32,
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Line number in the source, from 1.
    pub line: u32,
    /// Disassembly, or the directive.
    pub text: String,
    /// Whether the line uses a private code.
    pub private: bool,
}

/// Result of [`assemble`].
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    /// Sections in address order.
    pub sections: Vec<Section>,
    /// Symbols and addresses.
    pub symbols: BTreeMap<String, u32>,
    /// Symbols declared global.
    pub globals: Vec<String>,
    /// Listing in address order.
    pub listing: Vec<Line>,
}

impl Assembly {
    /// The section called `name`.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }
}

/// A listing as text: address, bytes in memory order, instruction. Private codes are marked with
/// `*`.
pub fn listing_text(listing: &[Line]) -> String {
    let mut out = String::new();
    for line in listing {
        let hex: String = line.bytes.iter().map(|b| format!("{b:02x}")).collect();
        let mark = if line.private { '*' } else { ' ' };
        out.push_str(&format!("{:08x} {mark}{hex:<33} {}\n", line.address, line.text));
    }
    out
}

/// Assembles `text`; `file` names it in errors.
///
/// # Errors
/// `ProgramError` with `file:line`, `MissingSpecification` for an operation without a known word.
pub fn assemble(file: &str, text: &str, options: &Options) -> Result<Assembly> {
    let statements = source::parse(file, text)?;
    Assembler::new(options, file).run(&statements)
}

/// Assembles `text` into a relocatable object; the listing's addresses count from each section's
/// start. Symbols that the file does not define are left to the linker.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_object(file: &str, text: &str, codec: CodecOptions) -> Result<(Object, Vec<Line>)> {
    let statements = source::parse(file, text)?;
    let options = Options { codec, text_base: 0, data_base: 0 };
    let mut assembler = Assembler::new(&options, file);
    assembler.relocatable = true;
    assembler.passes(&statements)?;
    assembler.object()
}

/// A relocation of a section under construction.
struct DraftReloc {
    offset: u32,
    /// ELF type.
    kind: u32,
    base: Base,
    /// Address in an image, addend in an object.
    value: i64,
}

struct Draft {
    name: String,
    segment: Segment,
    align: u32,
    size: u32,
    address: u32,
    bytes: Vec<u8>,
    relocs: Vec<DraftReloc>,
}

struct Assembler<'a> {
    options: &'a Options,
    file: &'a str,
    sections: Vec<Draft>,
    /// Address-valued symbols by section and offset.
    labels: BTreeMap<String, (usize, u32)>,
    constants: BTreeMap<String, Expr>,
    globals: Vec<String>,
    weak: Vec<String>,
    listing: Vec<Line>,
    /// Addresses are known (second pass).
    placed: bool,
    /// Sections stay apart and unknown symbols are left to the linker.
    relocatable: bool,
}

fn program(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::ProgramError, text)
}

impl<'a> Assembler<'a> {
    fn new(options: &'a Options, file: &'a str) -> Self {
        let mut out = Assembler {
            options,
            file,
            sections: Vec::new(),
            labels: BTreeMap::new(),
            constants: BTreeMap::new(),
            globals: Vec::new(),
            weak: Vec::new(),
            listing: Vec::new(),
            placed: false,
            relocatable: false,
        };
        for name in [".literal", ".text", ".rodata", ".data", KERNEL_TABLE, ".bss"] {
            out.section(name);
        }
        out
    }

    fn section(&mut self, name: &str) -> usize {
        if let Some(at) = self.sections.iter().position(|s| s.name == name) {
            return at;
        }
        let segment = if name.starts_with(".text") || name == ".literal" {
            Segment::Text
        } else if name.starts_with(".bss") {
            Segment::Bss
        } else {
            Segment::Data
        };
        self.sections.push(Draft {
            name: name.to_owned(),
            segment,
            align: 4,
            size: 0,
            address: 0,
            bytes: Vec::new(),
            relocs: Vec::new(),
        });
        self.sections.len() - 1
    }

    fn local_label(&self, digits: &str, forward: bool, statement: usize) -> Option<(usize, u32)> {
        let from = format!("{digits}\u{1}{statement:08}");
        let low = format!("{digits}\u{1}");
        let high = format!("{digits}\u{2}");
        if forward {
            self.labels.range(from..high).next().map(|(_, at)| *at)
        } else {
            self.labels.range(low..=from).next_back().map(|(_, at)| *at)
        }
    }

    fn run(mut self, statements: &[Statement]) -> Result<Assembly> {
        self.passes(statements)?;
        self.finish()
    }

    fn passes(&mut self, statements: &[Statement]) -> Result<()> {
        self.pass(statements)?;
        self.place()?;
        self.placed = true;
        for section in &mut self.sections {
            section.size = 0;
        }
        self.pass(statements)
    }

    fn pass(&mut self, statements: &[Statement]) -> Result<()> {
        let mut current = self.section(".text");
        for (at, statement) in statements.iter().enumerate() {
            self.statement(at, statement, &mut current).map_err(|error| {
                let place = crate::error::Location {
                    source: Some(format!("{}:{}", self.file, statement.line)),
                    stream: Some("Q7".to_owned()),
                    ..Default::default()
                };
                error.or_at(&place)
            })?;
            if self.sections[current].size as usize > MAX_SECTION {
                return Err(program(format!(
                    "section {} is too large",
                    self.sections[current].name
                )));
            }
        }
        Ok(())
    }

    fn statement(&mut self, at: usize, statement: &Statement, current: &mut usize) -> Result<()> {
        match &statement.item {
            Item::Label(name) => {
                let offset = self.sections[*current].size;
                let key = source::label_key(name, at);
                let old = self.labels.insert(key, (*current, offset));
                if old.is_some() && !self.placed {
                    return Err(program(format!("`{name}` is defined twice")));
                }
                if old.is_some_and(|old| old != (*current, offset)) {
                    return Err(Error::internal(format!("`{name}` moved between the passes")));
                }
            }
            Item::Section(name) => *current = self.section(name),
            Item::Global(names) => {
                if !self.placed {
                    self.globals.extend(names.iter().cloned());
                }
            }
            Item::Weak(names) => {
                if !self.placed {
                    self.weak.extend(names.iter().cloned());
                }
            }
            Item::Set(name, value) => {
                self.constants.insert(name.clone(), value.clone());
            }
            Item::Align(align) => {
                let section = &mut self.sections[*current];
                section.align = section.align.max(*align);
                let pad = section.size.next_multiple_of(*align) - section.size;
                if self.placed {
                    let fill = section.segment == Segment::Text;
                    pad_bytes(&mut section.bytes, pad, fill);
                }
                section.size += pad;
            }
            Item::Data(data) => self.data(at, statement, *current, data)?,
            Item::Literal(name, value) => {
                let pool = self.section(".literal");
                let offset = self.sections[pool].size;
                self.labels.insert(name.clone(), (pool, offset));
                self.data(at, statement, pool, &Data::Numbers(4, vec![value.clone()]))?;
            }
            Item::Kernel(opcode, spec, function) => {
                let table = self.section(KERNEL_TABLE);
                let head = Data::Bytes(vec![0, 0, *spec, *opcode]);
                self.data(at, statement, table, &head)?;
                let word = Data::Numbers(4, vec![function.clone()]);
                self.data(at, statement, table, &word)?;
            }
            Item::Insn(insn) => self.insn(at, statement, *current, insn)?,
        }
        Ok(())
    }

    fn data(
        &mut self,
        at: usize,
        statement: &Statement,
        section: usize,
        data: &Data,
    ) -> Result<()> {
        let size = match data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Numbers(width, values) => width * values.len(),
            Data::Space(size) => *size as usize,
        };
        if size > MAX_SECTION {
            return Err(program("data too large"));
        }
        let offset = self.sections[section].size;
        let address = self.sections[section].address.wrapping_add(offset);
        if self.placed {
            let mut bytes = Vec::with_capacity(size);
            let mut relocs = Vec::new();
            match data {
                Data::Bytes(raw) => bytes.extend_from_slice(raw),
                Data::Space(_) => bytes.resize(size, 0),
                Data::Numbers(width, values) => {
                    for value in values {
                        let scope = Scope {
                            assembler: self,
                            section,
                            here: address.wrapping_add(bytes.len() as u32),
                            statement: at,
                        };
                        let sum =
                            scope.full(value, 0)?.ok_or_else(|| program("value not known"))?;
                        let mut value = sum.value;
                        if let Some(base) = sum.base()? {
                            if *width != 4 {
                                return Err(program("an address needs a 32-bit word"));
                            }
                            let offset = offset + bytes.len() as u32;
                            relocs.push(DraftReloc { offset, kind: reloc::ABSOLUTE, base, value });
                            if self.relocatable {
                                value = 0;
                            }
                        }
                        let bits = *width as u32 * 8;
                        if bits < 64 && !(-(1i64 << (bits - 1))..1i64 << bits).contains(&value) {
                            return Err(program(format!("{value} does not fit {bits} bits")));
                        }
                        bytes.extend_from_slice(&value.to_le_bytes()[..*width]);
                    }
                }
            }
            let draft = &mut self.sections[section];
            if draft.segment == Segment::Bss && bytes.iter().any(|&b| b != 0) {
                return Err(program("only zeros may be put in .bss"));
            }
            if !bytes.is_empty() && bytes.len() <= 16 {
                self.listing.push(Line {
                    address,
                    bytes: bytes.clone(),
                    line: statement.line,
                    text: statement.text.clone(),
                    private: false,
                });
            }
            draft.bytes.extend_from_slice(&bytes);
            draft.relocs.extend(relocs);
        }
        self.sections[section].size += size as u32;
        Ok(())
    }

    fn insn(
        &mut self,
        at: usize,
        statement: &Statement,
        section: usize,
        insn: &InsnText,
    ) -> Result<()> {
        if self.sections[section].segment != Segment::Text {
            return Err(program("instructions belong in a text section"));
        }
        for text in self.expand(insn)? {
            let draft = &self.sections[section];
            let offset = draft.size;
            let address = draft.address.wrapping_add(offset);
            let scope = Scope { assembler: self, section, here: address, statement: at };
            let bundle = insn::select(&text, address, &scope, self.options.codec)?;
            if self.placed {
                let relocs = scope.relocations(&text, &bundle, offset)?;
                let bytes = bundle.encode(address)?;
                let draft = &mut self.sections[section];
                draft.bytes.extend_from_slice(&bytes);
                draft.relocs.extend(relocs);
                self.listing.push(Line {
                    address,
                    bytes: bytes.to_vec(),
                    line: statement.line,
                    text: bundle.text(&|_| None),
                    private: bundle.is_private(),
                });
            }
            self.sections[section].size += u32::from(bundle.frame.length);
        }
        Ok(())
    }

    /// Pseudo-instructions: `mov`, and `movi` of wide values or addresses.
    fn expand(&self, insn: &InsnText) -> Result<Vec<InsnText>> {
        let single = |mnemonic: &str, operands: Vec<Operand>| InsnText {
            format: None,
            braces: false,
            ops: vec![OpText { mnemonic: mnemonic.to_owned(), operands }],
        };
        if !insn.braces
            && let [op] = insn.ops.as_slice()
        {
            match (op.mnemonic.as_str(), op.operands.as_slice()) {
                ("mov", [to, from]) => {
                    return Ok(vec![single("or", vec![to.clone(), from.clone(), from.clone()])]);
                }
                ("movi", [to, Operand::Expr(value, Half::Whole)]) => {
                    // Only values that are constant in both passes may take the short form.
                    let constant = self.constant(value, 0);
                    if !constant.is_some_and(|v| (-2048..2048).contains(&v)) {
                        if constant.is_some_and(|v| !(-(1i64 << 31)..1i64 << 32).contains(&v)) {
                            return Err(program("movi: the value does not fit 32 bits"));
                        }
                        let half = |half| vec![to.clone(), Operand::Expr(value.clone(), half)];
                        let halves = [Half::High, Half::Low];
                        return Ok(halves.map(|h| single("const16", half(h))).to_vec());
                    }
                }
                _ => {}
            }
        }
        Ok(vec![insn.clone()])
    }

    /// Value of an expression of numbers and `.set` constants.
    fn constant(&self, expr: &Expr, depth: u32) -> Option<i64> {
        let mut total = expr.constant;
        for (name, positive) in &expr.symbols {
            let value = self.constants.get(name).filter(|_| depth < 16)?;
            let value = self.constant(value, depth + 1)?;
            total = if *positive { total.wrapping_add(value) } else { total.wrapping_sub(value) };
        }
        Some(total)
    }

    fn place(&mut self) -> Result<()> {
        if self.relocatable {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..self.sections.len()).collect();
        // .literal stays in front of .text: `l32r` only reaches backwards.
        order.sort_by_key(|&i| (self.sections[i].segment, i));
        let (mut text, mut data) = (self.options.text_base, self.options.data_base);
        for i in order {
            let section = &mut self.sections[i];
            let cursor = if section.segment == Segment::Text { &mut text } else { &mut data };
            let align = if section.size == 0 { 1 } else { section.align };
            let start = cursor.checked_next_multiple_of(align);
            let end = start.and_then(|start| start.checked_add(section.size));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(program(format!("section {} leaves the address space", section.name)));
            };
            section.address = start;
            *cursor = end;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Assembly> {
        let mut symbols = BTreeMap::new();
        for (name, (section, offset)) in &self.labels {
            if !name.contains('\u{1}') {
                symbols.insert(name.clone(), self.sections[*section].address.wrapping_add(*offset));
            }
        }
        for name in &self.globals {
            if !symbols.contains_key(name) && !self.constants.contains_key(name) {
                return Err(program(format!("global symbol `{name}` is not defined")));
            }
        }
        self.listing.sort_by_key(|line| line.address);
        let mut sections: Vec<Section> = self
            .sections
            .into_iter()
            .filter(|s| !s.bytes.is_empty())
            .map(|s| Section {
                name: s.name,
                segment: s.segment,
                address: s.address,
                align: s.align,
                bytes: s.bytes,
                relocs: s
                    .relocs
                    .iter()
                    .filter_map(|r| Reloc::of_type(r.offset, r.kind, r.value as u32))
                    .collect(),
            })
            .collect();
        sections.sort_by_key(|s| (s.segment, s.address));
        Ok(Assembly { sections, symbols, globals: self.globals, listing: self.listing })
    }

    /// The relocatable object: one symbol per section first, then the names.
    fn object(self) -> Result<(Object, Vec<Line>)> {
        let mut symbols: Vec<Symbol> = (0..self.sections.len()).map(Symbol::section).collect();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let binding = |name: &String| {
            if self.weak.contains(name) {
                Binding::Weak
            } else if self.globals.contains(name) {
                Binding::Global
            } else {
                Binding::Local
            }
        };
        let labels = self.labels.iter().map(|(name, &(s, at))| (name, Place::Section(s), at));
        let aliases = self.globals.iter().chain(&self.weak).filter_map(|name| {
            let sum = self.alias(self.constants.get(name)?);
            sum.map(|(place, value)| (name, place, value))
        });
        for (name, place, value) in labels.chain(aliases) {
            // Numbered labels and the usual compiler-made local names stay inside.
            let binding = binding(name);
            if name.contains('\u{1}') || name.starts_with(".L") && binding == Binding::Local {
                continue;
            }
            known.insert(name.clone(), symbols.len());
            symbols.push(Symbol { name: name.clone(), place, value, size: 0, binding });
        }
        let mut sections = Vec::new();
        for draft in &self.sections {
            let mut relocs = Vec::new();
            for r in &draft.relocs {
                let symbol = match &r.base {
                    Base::Section(at) | Base::Segment(at) => *at,
                    Base::Symbol(name) => *known.entry(name.clone()).or_insert_with(|| {
                        symbols.push(Symbol::undefined(name, self.weak.contains(name)));
                        symbols.len() - 1
                    }),
                };
                relocs.push(ObjectReloc {
                    offset: r.offset,
                    kind: r.kind,
                    symbol,
                    addend: r.value as i32,
                });
            }
            sections.push(ObjectSection {
                name: draft.name.clone(),
                segment: draft.segment,
                align: draft.align,
                size: draft.size,
                bytes: if draft.segment == Segment::Bss { Vec::new() } else { draft.bytes.clone() },
                relocs,
            });
        }
        Ok((Object { name: self.file.to_owned(), sections, symbols }, self.listing))
    }

    /// Place and value of a `.set` symbol that the linker is to see.
    fn alias(&self, value: &Expr) -> Option<(Place, u32)> {
        let scope = Scope { assembler: self, section: 0, here: 0, statement: usize::MAX };
        let sum = scope.full(value, 0).ok()??;
        match sum.base().ok()? {
            None => Some((Place::Absolute, sum.value as u32)),
            Some(Base::Section(at)) => Some((Place::Section(at), sum.value as u32)),
            Some(_) => None,
        }
    }
}

impl Reloc {
    /// The relocation of an image for an ELF type of [`reloc`], if it is of the absolute ones.
    pub(crate) fn of_type(offset: u32, kind: u32, target: u32) -> Option<Reloc> {
        let (kind, slot) = match kind {
            reloc::ABSOLUTE => (RelocKind::Word, 0),
            reloc::LOW..reloc::HIGH => (RelocKind::Low, kind - reloc::LOW),
            reloc::HIGH..=reloc::LAST => (RelocKind::High, kind - reloc::HIGH),
            _ => return None,
        };
        Some(Reloc { offset, kind, slot: slot as u8, target })
    }
}

/// Padding; code is padded with `nop.n` and `nop` so that falling into it does no harm.
pub(crate) fn pad_bytes(bytes: &mut Vec<u8>, mut pad: u32, code: bool) {
    if code && pad != 1 {
        if pad % 2 == 1 {
            bytes.extend_from_slice(&[0xf0, 0x20, 0x00]);
            pad -= 3;
        }
        while pad > 0 {
            bytes.extend_from_slice(&[0x3d, 0xf0]);
            pad -= 2;
        }
    }
    bytes.resize(bytes.len() + pad as usize, 0);
}

/// Assembles a single instruction or bundle at address `pc`, without symbols.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_one(text: &str, pc: u32, options: CodecOptions) -> Result<Vec<u8>> {
    struct NoSymbols(u32);
    impl Resolve for NoSymbols {
        fn value(&self, expr: &Expr, half: Half, _relative: bool) -> Result<Option<i64>> {
            let mut total = expr.constant;
            for (name, positive) in &expr.symbols {
                if name != "." {
                    return Err(program(format!("undefined symbol `{name}`")));
                }
                let here = i64::from(self.0);
                total = if *positive { total + here } else { total - here };
            }
            Ok(Some(half.of(total)))
        }
    }
    let insn = insn::parse(text)?;
    Ok(insn::select(&insn, pc, &NoSymbols(pc), options)?.encode(pc)?.to_vec())
}

//! `tpbemu q7`: assembler, disassembler and library inspection for the Vision-Q7 cores.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::error::{Error, ErrorClass, Result};
use crate::q7::asm::object::{Object, Place, is_object};
use crate::q7::asm::{self, Options, assemble, assemble_object, disasm, link};
use crate::q7::codec::Options as CodecOptions;
use crate::q7::library::{Bounds, UcplHeader, link_files, prelink};

/// Largest file that is read.
const MAX_FILE: u64 = 16 << 20;

/// Work on code of the Q7 cores: assemble, link, disassemble, inspect libraries.
#[derive(Args, Debug)]
pub struct Q7 {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Assembles a source file into an object (`.o`), a library, or flat bytes.
    Asm(Asm),
    /// Links objects and sources into a library, or into the staged image of device memory.
    Link(Link),
    /// Disassembles an object with its relocations, a library, another ELF file, or raw bytes.
    Disasm(Disasm),
    /// Prelinks a library and prints its staged image's header and kernel table.
    Library(Library),
}

/// Output of the assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Relocatable object (ELF32 Xtensa), to be linked.
    Object,
    /// Library image (ELF32 Xtensa) for the loader.
    Library,
    /// Bytes of the text segment.
    Flat,
}

#[derive(Args, Debug)]
struct Asm {
    /// Source file.
    source: PathBuf,
    /// Output file; without it only the listing is printed.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// What to write. Without it an output called `*.o` is an object and any other a library.
    #[arg(long, value_enum)]
    form: Option<Form>,
    /// Print the listing: address, bytes, instruction. Private codes carry a `*`.
    #[arg(short, long)]
    listing: bool,
    /// Refuse this project's private codes for operations without a published word.
    #[arg(long)]
    hardware_only: bool,
    /// Address of the text segment.
    #[arg(long, value_parser = address, default_value = "0x01000000")]
    text_base: u32,
    /// Address of the data segment.
    #[arg(long, value_parser = address, default_value = "0x02000000")]
    data_base: u32,
}

/// Output of the linker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Image {
    /// Library image (ELF32 Xtensa) for the loader.
    Library,
    /// Bytes of the text segment.
    Flat,
    /// What device memory holds: prelinked, with the UCPL header.
    Staged,
}

#[derive(Args, Debug)]
struct Link {
    /// Objects (`.o`) and sources, in the order in which they are laid out.
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// Output file; without it only the map is printed.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Image::Library)]
    form: Image,
    /// Print the map: sections and symbols with their addresses.
    #[arg(short, long)]
    map: bool,
    /// Refuse this project's private codes in sources.
    #[arg(long)]
    hardware_only: bool,
    /// Use the memory bounds of v2 for a staged image.
    #[arg(long)]
    v2: bool,
    /// Address of the text segment.
    #[arg(long, value_parser = address, default_value = "0x01000000")]
    text_base: u32,
    /// Address of the data segment.
    #[arg(long, value_parser = address, default_value = "0x02000000")]
    data_base: u32,
}

#[derive(Args, Debug)]
struct Disasm {
    /// Input file.
    input: PathBuf,
    /// Treat the file as raw code at this address.
    #[arg(long, value_parser = address)]
    raw: Option<u32>,
    /// Do not decode this project's private codes.
    #[arg(long)]
    hardware_only: bool,
}

#[derive(Args, Debug)]
struct Library {
    /// Library file.
    input: PathBuf,
    /// Use the memory bounds of v2.
    #[arg(long)]
    v2: bool,
    /// Write the staged image here.
    #[arg(short, long)]
    output: Option<PathBuf>,
}

fn address(text: &str) -> std::result::Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let size = std::fs::metadata(path).map_err(|error| Error::io(path, &error))?.len();
    if size > MAX_FILE {
        let text = format!("{}: {size} bytes is more than {MAX_FILE}", path.display());
        return Err(Error::new(ErrorClass::LimitReached, text));
    }
    std::fs::read(path).map_err(|error| Error::io(path, &error))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|error| Error::io(path, &error))
}

/// Runs the subcommand and returns what it prints.
///
/// # Errors
/// `Io`, `ProgramError`, `MissingSpecification`.
pub fn run(q7: &Q7) -> Result<String> {
    match &q7.command {
        Command::Asm(asm) => run_asm(asm),
        Command::Link(link) => run_link(link),
        Command::Disasm(disasm) => run_disasm(disasm),
        Command::Library(library) => run_library(library),
    }
}

fn run_asm(asm: &Asm) -> Result<String> {
    let bytes = read(&asm.source)?;
    let source = String::from_utf8(bytes).map_err(|_| {
        Error::new(ErrorClass::ProgramError, format!("{}: not UTF-8", asm.source.display()))
    })?;
    let options = Options {
        codec: CodecOptions { own_kernel: !asm.hardware_only },
        text_base: asm.text_base,
        data_base: asm.data_base,
    };
    let name = asm.source.display().to_string();
    let quiet = asm.output.is_some() && !asm.listing;
    let form = asm.form.unwrap_or_else(|| match &asm.output {
        Some(path) if path.extension().is_some_and(|e| e == "o") => Form::Object,
        _ => Form::Library,
    });
    if form == Form::Object {
        let (object, listing) = assemble_object(&name, &source, options.codec)?;
        if let Some(output) = &asm.output {
            write(output, &object.write()?)?;
        }
        return Ok(if quiet { String::new() } else { asm::listing_text(&listing) });
    }
    let assembly = assemble(&name, &source, &options)?;
    if let Some(output) = &asm.output {
        let bytes = match form {
            Form::Flat => flat_text(&assembly)?,
            _ => link::library(&assembly, asm.text_base, asm.data_base)?,
        };
        write(output, &bytes)?;
    }
    Ok(if quiet { String::new() } else { asm::listing_text(&assembly.listing) })
}

fn flat_text(assembly: &asm::Assembly) -> Result<Vec<u8>> {
    Ok(link::flat(assembly)?.into_iter().next().map(|(_, bytes)| bytes).unwrap_or_default())
}

fn run_link(link: &Link) -> Result<String> {
    let files = link
        .inputs
        .iter()
        .map(|path| Ok((path.display().to_string(), read(path)?)))
        .collect::<Result<Vec<_>>>()?;
    let options = Options {
        codec: CodecOptions { own_kernel: !link.hardware_only },
        text_base: link.text_base,
        data_base: link.data_base,
    };
    let assembly = link_files(&files, &options)?;
    let library = || link::library(&assembly, link.text_base, link.data_base);
    if let Some(output) = &link.output {
        let bytes = match link.form {
            Image::Library => library()?,
            Image::Flat => flat_text(&assembly)?,
            Image::Staged => {
                let bounds = if link.v2 { Bounds::V2 } else { Bounds::V3 };
                prelink(&library()?, &bounds)?.image
            }
        };
        write(output, &bytes)?;
    }
    let mut out = String::new();
    if link.map || link.output.is_none() {
        for section in &assembly.sections {
            let (address, size) = (section.address, section.bytes.len());
            let _ = writeln!(out, "{address:08x} {size:6} bytes  section {}", section.name);
        }
        let mut symbols: Vec<_> = assembly.symbols.iter().collect();
        symbols.sort_by_key(|(name, address)| (**address, *name));
        for (name, address) in symbols {
            let kind = if assembly.globals.contains(name) { "global" } else { "local " };
            let _ = writeln!(out, "{address:08x} {kind}        {name}");
        }
    }
    Ok(out)
}

/// Executable sections or segments of an ELF file, and its symbols.
type Code = (Vec<(u32, Vec<u8>)>, BTreeMap<u32, String>);

fn code_of(file: &[u8]) -> Result<Code> {
    use object::{Object as _, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind};
    let bad = |error: object::Error| Error::new(ErrorClass::ProgramError, error.to_string());
    let object = object::File::parse(file).map_err(bad)?;
    let mut pieces = Vec::new();
    for section in object.sections().filter(|s| s.kind() == SectionKind::Text) {
        pieces.push((section.address() as u32, section.data().map_err(bad)?.to_vec()));
    }
    if pieces.is_empty() {
        // Stripped of its sections: take the segments that the loader takes for text.
        for segment in object.segments().take(1) {
            pieces.push((segment.address() as u32, segment.data().map_err(bad)?.to_vec()));
        }
    }
    let symbols = object
        .symbols()
        .filter_map(|s| Some((s.address() as u32, s.name().ok()?.to_owned())))
        .filter(|(_, name)| !name.is_empty())
        .collect();
    Ok((pieces, symbols))
}

fn run_disasm(disasm: &Disasm) -> Result<String> {
    let file = read(&disasm.input)?;
    let options = CodecOptions { own_kernel: !disasm.hardware_only };
    if disasm.raw.is_none() && is_object(&file) {
        return disasm_object(&Object::read(&disasm.input.display().to_string(), &file)?, options);
    }
    let (pieces, symbols) = match disasm.raw {
        Some(base) => (vec![(base, file)], BTreeMap::new()),
        None => code_of(&file)?,
    };
    let mut out = String::new();
    for (base, bytes) in pieces {
        print_code(&mut out, &bytes, base, &symbols, options, &mut |_, _| {});
    }
    Ok(out)
}

/// Prints a disassembly; `after` may add lines after each instruction, by its address range.
fn print_code(
    out: &mut String,
    bytes: &[u8],
    base: u32,
    symbols: &BTreeMap<u32, String>,
    options: CodecOptions,
    after: &mut dyn FnMut(&mut String, std::ops::Range<u32>),
) {
    for line in disasm::disassemble(bytes, base, symbols, options) {
        if let Some(name) = symbols.get(&line.address) {
            let _ = writeln!(out, "{name}:");
        }
        let hex: String = line.bytes.iter().map(|b| format!("{b:02x}")).collect();
        let mark = if line.private { '*' } else { ' ' };
        let _ = writeln!(out, "{:08x} {mark}{hex:<33} {}", line.address, line.text);
        after(out, line.address..line.address + line.bytes.len() as u32);
    }
}

/// Every section of an object with its relocations; data as words.
fn disasm_object(object: &Object, options: CodecOptions) -> Result<String> {
    let mut out = String::new();
    for (at, section) in object.sections.iter().enumerate().filter(|(_, s)| s.size > 0) {
        let symbols: BTreeMap<u32, String> = object
            .symbols
            .iter()
            .filter(|s| s.place == Place::Section(at) && !s.name.is_empty())
            .map(|s| (s.value, s.name.clone()))
            .collect();
        let mut relocs = section.relocs.clone();
        relocs.sort_by_key(|r| r.offset);
        let mut relocs = relocs.into_iter().peekable();
        let mut after = |out: &mut String, range: std::ops::Range<u32>| {
            while let Some(r) = relocs.next_if(|r| r.offset < range.end) {
                let name = link::reloc::name(r.kind);
                let _ =
                    write!(out, "{:17}{:x}: {name} {}", "", r.offset, object.symbol_name(r.symbol));
                let _ = match r.addend {
                    0 => writeln!(out),
                    addend => writeln!(out, "{addend:+#x}"),
                };
            }
        };
        let _ = writeln!(out, "section {} ({} bytes)", section.name, section.size);
        if section.segment == asm::Segment::Text && !section.name.starts_with(".literal") {
            print_code(&mut out, &section.bytes, 0, &symbols, options, &mut after);
        } else if section.segment != asm::Segment::Bss {
            for (at, word) in section.bytes.chunks(4).enumerate() {
                let at = at as u32 * 4;
                for (_, name) in symbols.range(at..at + 4) {
                    let _ = writeln!(out, "{name}:");
                }
                let hex: String = word.iter().map(|b| format!("{b:02x}")).collect();
                let _ = writeln!(out, "{at:08x}  {hex}");
                after(&mut out, at..at + word.len() as u32);
            }
        }
    }
    Ok(out)
}

fn run_library(library: &Library) -> Result<String> {
    let file = read(&library.input)?;
    let bounds = if library.v2 { Bounds::V2 } else { Bounds::V3 };
    let staged = prelink(&file, &bounds)?;
    if let Some(output) = &library.output {
        write(output, &staged.image)?;
    }
    let UcplHeader { code_length, data_length, init, fini, start, .. } = staged.header;
    let mut out = format!(
        "image {} bytes\ncode {code_length} bytes at {:#x}\ndata {data_length} bytes at {:#x}\n\
         init {init:#x}, fini {fini:#x}, start {start:#x}\n",
        staged.image.len(),
        staged.code_address,
        staged.data_address
    );
    for row in staged.rows() {
        out.push_str(&format!(
            "opcode {:#04x} spec {:#04x} function {:#x}\n",
            row.opcode, row.spec, row.function
        ));
    }
    Ok(out)
}

//! `tpbemu q7`: assembler, disassembler and library inspection for the Vision-Q7 cores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::error::{Error, ErrorClass, Result};
use crate::q7::asm::{Options, assemble, disasm, link};
use crate::q7::codec::Options as CodecOptions;
use crate::q7::library::{Bounds, UcplHeader, prelink};

/// Largest file that is read.
const MAX_FILE: u64 = 16 << 20;

/// Work on code of the Q7 cores.
#[derive(Args, Debug)]
pub struct Q7 {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Assembles a source file.
    Asm(Asm),
    /// Disassembles a library, an ELF file or raw bytes.
    Disasm(Disasm),
    /// Prelinks a library and prints its staged image's header and kernel table.
    Library(Library),
}

/// Output of the assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
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
    /// What to write.
    #[arg(long, value_enum, default_value_t = Form::Library)]
    form: Form,
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
    let assembly = assemble(&asm.source.display().to_string(), &source, &options)?;
    if let Some(output) = &asm.output {
        let bytes = match asm.form {
            Form::Library => link::library(&assembly, asm.text_base, asm.data_base)?,
            Form::Flat => link::flat(&assembly)?
                .into_iter()
                .next()
                .map(|(_, bytes)| bytes)
                .unwrap_or_default(),
        };
        write(output, &bytes)?;
    }
    let quiet = asm.output.is_some() && !asm.listing;
    Ok(if quiet { String::new() } else { assembly.listing_text() })
}

/// Executable sections or segments of an ELF file, and its symbols.
type Code = (Vec<(u32, Vec<u8>)>, BTreeMap<u32, String>);

fn code_of(file: &[u8]) -> Result<Code> {
    use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind};
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
    let (pieces, symbols) = match disasm.raw {
        Some(base) => (vec![(base, file)], BTreeMap::new()),
        None => code_of(&file)?,
    };
    let options = CodecOptions { own_kernel: !disasm.hardware_only };
    let mut out = String::new();
    for (base, bytes) in pieces {
        for line in disasm::disassemble(&bytes, base, &symbols, options) {
            if let Some(name) = symbols.get(&line.address) {
                out.push_str(&format!("{name}:\n"));
            }
            let hex: String = line.bytes.iter().map(|b| format!("{b:02x}")).collect();
            let mark = if line.private { '*' } else { ' ' };
            out.push_str(&format!("{:08x} {mark}{hex:<33} {}\n", line.address, line.text));
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

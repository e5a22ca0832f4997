//! Relocatable objects of the Q7 assembler: written, read back, linked, run; and compared with GNU
//! binutils for Xtensa, whose objects are linked here and who read and link ours (skipped with a
//! message where they are not installed).

use std::path::Path;
use std::process::Command;

use tpbemu::isa::Generation;
use tpbemu::q7::asm::object::{Binding, Object, Place};
use tpbemu::q7::asm::{Assembly, Options, Segment, assemble, assemble_object, link, merge};
use tpbemu::q7::codec::Options as CodecOptions;
use tpbemu::q7::core::{BusFault, Q7Bus};
use tpbemu::q7::library::{Bounds, Cluster, ClusterConfig, prelink, stage, stage_files};

fn object(name: &str, source: &str) -> Object {
    let object = assemble_object(name, source, CodecOptions::OWN).expect(name).0;
    let file = object.write().expect(name);
    let read = Object::read(name, &file).expect(name);
    same(&object, &read);
    read
}

/// What the file keeps of an object: everything but the order of the symbols and empty sections.
fn same(a: &Object, b: &Object) {
    let view = |object: &Object| {
        let sections: Vec<_> = object
            .sections
            .iter()
            .map(|s| {
                let relocs: Vec<_> = s
                    .relocs
                    .iter()
                    .map(|r| (r.offset, r.kind, object.symbol_name(r.symbol).to_owned(), r.addend))
                    .collect();
                (s.name.clone(), s.segment, s.align, s.size, s.bytes.clone(), relocs)
            })
            .collect();
        let mut symbols: Vec<_> = object
            .symbols
            .iter()
            .filter(|s| !s.name.is_empty())
            .map(|s| (s.name.clone(), s.value, format!("{:?} {:?}", s.place, s.binding)))
            .collect();
        symbols.sort();
        (sections, symbols)
    };
    assert_eq!(view(a), view(b));
}

const EXAMPLES: [(&str, &str); 5] = [
    ("row_sum.s", include_str!("../programs/q7/row_sum.s")),
    ("permute.s", include_str!("../programs/q7/permute.s")),
    ("reciprocal.s", include_str!("../programs/q7/reciprocal.s")),
    ("argmax.s", include_str!("../programs/q7/argmax.s")),
    ("custom_add.s", include_str!("../programs/q7/custom_add.s")),
];

/// The long way round, over an object file, gives the image of the direct way.
#[test]
fn one_object_links_to_what_the_assembler_makes() {
    for (name, source) in EXAMPLES {
        let options = Options::default();
        let direct = assemble(name, source, &options).expect(name);
        let linked = merge::merge(&[object(name, source)], &options).expect(name);
        let view = |a: &Assembly| {
            let sections: Vec<_> = a
                .sections
                .iter()
                .map(|s| (s.name.clone(), s.address, s.bytes.clone(), s.relocs.clone()))
                .collect();
            (sections, a.symbols.clone())
        };
        assert_eq!(view(&direct), view(&linked), "{name}");
        let image = |a| {
            let file = link::library(a, options.text_base, options.data_base).unwrap();
            prelink(&file, &Bounds::V3).unwrap().image
        };
        assert_eq!(image(&direct), image(&linked), "{name}");
        assert_eq!(image(&direct), stage(name, source, Generation::V3).unwrap(), "{name}");
    }
}

const KERNEL: &str = "
        .text
        .global _start
_start: entry   a1, 32
        movi    a2, 0
        retw
        .literal window, 0x80000000
kernel: entry   a1, 48
        l32i    a5, a2, 16
        l32i    a6, a2, 20
        l32i    a8, a2, 28
        rsr.prid a9
        slli    a9, a9, 4
        mull    a9, a9, a8
        l32r    a10, window
        add     a9, a9, a10
        movi    a7, 16
1:      add     a10, a9, a5
        s32i    a9, a1, 0
        s32i    a7, a1, 4
        s32i    a8, a1, 8
        call8   row_value
        l32i    a8, a1, 8
        l32i    a7, a1, 4
        l32i    a9, a1, 0
        add     a14, a9, a6
        s16i    a10, a14, 0
        add     a9, a9, a8
        addi    a7, a7, -1
        bnez    a7, 1b
        movi    a2, 0
        retw
        .kernel 0xf0, 0x31, kernel
";

const HELPER: &str = "
        .global row_value
        .weak   scale
        .literal table_at, table + 4    # a literal with an address of another object
row_value:
        entry   a1, 32
        { ivp_lv2nx8_i v0, a2, 0; nop }
        F0 { nop; nop; nop; ivp_raddsnx16 v2, v0 }
        { nop; nop; nop; ivp_movav16 a2, v2 }
        movi    a3, bias                # a const16 pair with an address of another object
        l16si   a4, a3, 0
        add     a2, a2, a4
        l32r    a5, table_at
        l16si   a6, a5, 2
        add     a2, a2, a6
        const16 a7, scale@h
        const16 a7, scale@l
        l32i    a7, a7, 0
        mull    a2, a2, a7
        l32r    a8, pointer_at
        l32i    a8, a8, 0
        callx8  a8
        j       leave
        .literal pointer_at, pointer
        .data
        .align  4
scale:  .word   1                       # gives way to the one in the other object
";

const DATA: &str = "
        .text
        .global leave, finish
finish: entry   a1, 32
        retw
        .global leave
leave:  retw
        .data
        .global bias
        .global table
        .global pointer
        .global scale
pad:    .byte   1, 2, 3
        .align  4
bias:   .short  7, 0
table:  .short  100, 200, 300, 400
scale:  .word   3
        .rodata
pointer: .word  finish
        .bss
room:   .space  256
";

/// 128 partitions.
struct Memory(Vec<Vec<u8>>);

impl Memory {
    fn at(&mut self, address: u32, length: usize) -> Result<&mut [u8], BusFault> {
        let offset = address.checked_sub(0x8000_0000).ok_or(BusFault::Unmapped)?;
        let partition = self.0.get_mut((offset / 0x4_0000) as usize).ok_or(BusFault::Unmapped)?;
        let offset = (offset % 0x4_0000) as usize;
        partition.get_mut(offset..offset + length).ok_or(BusFault::Unmapped)
    }
}

impl Q7Bus for Memory {
    fn read(&mut self, address: u32, out: &mut [u8]) -> Result<(), BusFault> {
        out.copy_from_slice(self.at(address, out.len())?);
        Ok(())
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault> {
        self.at(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Runs the kernel with spec 0x31 of a library on rows of 32 values.
fn run(objects: &[Object]) -> Vec<i16> {
    let options = Options::default();
    let assembly = merge::merge(objects, &options).expect("links");
    let file = link::library(&assembly, options.text_base, options.data_base).unwrap();
    let staged = prelink(&file, &Bounds::V3).expect("prelinks");
    let mut memory = Memory(
        (0..128u32)
            .map(|p| {
                let mut bytes = vec![0; 0x1000];
                for (lane, place) in bytes[..64].chunks_exact_mut(2).enumerate() {
                    place.copy_from_slice(&((p as i16) * 3 - lane as i16).to_le_bytes());
                }
                bytes
            })
            .collect(),
    );
    let mut cluster = Cluster::new(ClusterConfig::v3());
    cluster.load_staged(&staged, 1, &mut memory).expect("loads");
    let mut word = [0; 64];
    word[0] = 0xf0;
    word[1] = 0x10;
    word[12] = 0x31;
    for (place, value) in word[16..32].chunks_exact_mut(4).zip([0u32, 0x80, 0, 0x4_0000]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    cluster.dispatch(&word, &mut memory).expect("runs");
    memory.0.iter().map(|row| i16::from_le_bytes([row[0x80], row[0x81]])).collect()
}

#[test]
fn three_objects_run_as_one_library() {
    let objects = [object("kernel.s", KERNEL), object("helper.s", HELPER), object("data.s", DATA)];
    let got = run(&objects);
    for (p, got) in got.iter().enumerate() {
        let sum: i32 = (0..32).map(|lane| p as i32 * 3 - lane).sum();
        assert_eq!(i32::from(*got), i32::from(((sum + 7 + 400) * 3) as i16), "partition {p}");
    }
    // Any order of the objects gives the same behaviour at other addresses.
    let [a, b, c] = objects;
    assert_eq!(run(&[c, b, a]), got);
    let files: Vec<_> = [("kernel.s", KERNEL), ("helper.s", HELPER), ("data.s", DATA)]
        .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
        .into();
    let sources = stage_files(&files, Generation::V3).unwrap();
    let mut mixed = files;
    mixed[1].1 = object("helper.s", HELPER).write().unwrap();
    assert_eq!(stage_files(&mixed, Generation::V3).unwrap(), sources);
}

fn error(sources: &[&str]) -> String {
    let objects: Vec<_> =
        sources.iter().enumerate().map(|(i, s)| object(&format!("{i}.s"), s)).collect();
    merge::merge(&objects, &Options::default()).map(drop).expect_err("must not link").message
}

#[test]
fn the_linker_names_what_is_wrong() {
    let text = error(&["call0 nowhere\n.data\n.word elsewhere"]);
    assert_eq!(text, "undefined symbols: `elsewhere` (in 0.s), `nowhere` (in 0.s)");
    let text = error(&[".global f\nf: ret", ".global f\nf: ret.n"]);
    assert_eq!(text, "`f` is defined in 0.s and in 1.s");
    let far = format!(".global f\n.space {}\nf: ret", 1 << 19);
    let text = error(&["nop\nj f", &far]);
    assert!(text.starts_with("0.s: .text+0x3 (to `f`): `j` at 0x1000003 does not reach"), "{text}");
    let text = error(&["beqz a2, f", ".global f\n.space 4000\nf: ret"]);
    assert!(text.contains("`beqz` at 0x1000000 does not reach 0x1000fa4"), "{text}");
    let text = error(&["l32r a2, f", ".data\n.global f\nf: .word 1"]);
    assert!(text.contains("must be in the text segment"), "{text}");
    // A literal behind its user cannot be reached, whoever made it.
    let text = error(&["l32r a2, f", ".global f\n.align 4\nf: .word 1"]);
    assert!(text.contains("does not reach"), "{text}");
    let refused = |source: &str| {
        let result = assemble_object("x.s", source, CodecOptions::OWN);
        result.map(drop).expect_err(source).message
    };
    assert!(refused("addi a2, a2, f").contains("does not fit here"));
    assert!(refused("addi a2, a2, f@l").contains("cannot take half"));
    assert!(refused(".byte f").contains("32-bit"));
    assert!(refused(".word f - g").contains("mixture"));
    assert!(refused("j 1f").contains("undefined symbol `1f`"));
    // No operation inside a bundle takes an address.
    refused("{ nop; nop; nop; ivp_raddsnx16 v2, f }");
}

#[test]
fn relocations_and_symbols_are_the_usual_ones() {
    let object = object(
        "x.s",
        "       .global f, g\n.weak w\n.set size, 24\n.global size\n\
         f:     l32r a2, there\n       call0 h\n       bnez a2, f\n       beqz a3, g\n\
                movi a4, h + 8\n       { nop; nop; nop; ivp_raddnx16 v3, v2 }\n       j w\n\
                .literal there, h - 4\n       .section .text.cold\ng:     ret\nw:     ret\n\
                .data\n       .word f, g + 2, w, 5, . - 4\n.Lhidden: .word size",
    );
    let list = |name: &str| {
        let section = object.sections.iter().find(|s| s.name == name).unwrap();
        let mut out = Vec::new();
        for r in &section.relocs {
            let kind = link::reloc::name(r.kind);
            out.push(format!(
                "{:x} {kind} {}{:+}",
                r.offset,
                object.symbol_name(r.symbol),
                r.addend
            ));
        }
        out
    };
    assert_eq!(
        list(".text"),
        [
            "0 R_XTENSA_SLOT0_OP .literal+0",
            "3 R_XTENSA_SLOT0_OP h+0",
            "9 R_XTENSA_SLOT0_OP .text.cold+0",
            "c R_XTENSA_SLOT0_ALT h+8",
            "f R_XTENSA_SLOT0_OP h+8",
            "1a R_XTENSA_SLOT0_OP w+0",
        ]
    );
    assert_eq!(list(".literal"), ["0 R_XTENSA_32 h-4"]);
    assert_eq!(
        list(".data"),
        [
            "0 R_XTENSA_32 .text+0",
            "4 R_XTENSA_32 .text.cold+2",
            "8 R_XTENSA_32 w+0",
            "10 R_XTENSA_32 .data+12"
        ]
    );
    let symbol = |name: &str| object.symbols.iter().find(|s| s.name == name).unwrap();
    assert_eq!((symbol("h").place, symbol("h").binding), (Place::Undefined, Binding::Global));
    assert_eq!((symbol("w").value, symbol("w").binding), (3, Binding::Weak));
    assert_eq!((symbol("size").place, symbol("size").value), (Place::Absolute, 24));
    assert!(object.symbols.iter().all(|s| s.name != ".Lhidden"));
}

fn tools() -> bool {
    let have = ["as", "ld", "objdump", "readelf"].iter().all(|tool| {
        Command::new(format!("xtensa-lx106-elf-{tool}")).arg("--version").output().is_ok()
    });
    if !have {
        println!("skipped: xtensa-lx106-elf binutils are not installed");
    }
    have
}

/// Runs a tool in `directory` and returns what it prints; warnings fail.
fn tool(directory: &Path, name: &str, arguments: &[&str]) -> String {
    let output = Command::new(format!("xtensa-lx106-elf-{name}"))
        .current_dir(directory)
        .args(arguments)
        .output()
        .expect("runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{name} {arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Scalar code that both assemblers take (the call0 subset of the foreign configuration).
const SCALAR: [(&str, &str); 2] = [
    (
        "one",
        "        .text
        .literal_position
        .literal far_at, far
        .literal table_at, table + 8
        .global start
        .align  4
start:  addi    a1, a1, -16
        s32i    a0, a1, 0
        l32r    a3, far_at
        l32r    a4, table_at
        call0   far
        beqz    a2, near
        beqz    a2, close
        blt     a2, a3, near
        l32i    a5, a4, 0
        add     a2, a2, a5
near:   l32i    a0, a1, 0
        addi    a1, a1, 16
        j       leave
        .data
        .global table
        .align  4
table:  .word   start, far, table + 12, 11, leave
        .bss
        .align  16
        .global room
room:   .space  40
",
    ),
    (
        "two",
        "        .text
        .literal_position
        .literal room_at, room + 4
        .global far, leave, close
        .align  4
far:    l32r    a6, room_at
        movi    a7, 33
        s32i    a7, a6, 0
        l32i    a2, a6, 0
        ret
close:  nop
leave:  ret
        .data
        .align  4
        .word   table, room
",
    ),
];

const SCRIPT: &str = "ENTRY(start)
SECTIONS {
  . = 0x01000000;
  .literal : { *(.literal) }
  .text : { *(.text) }
  . = 0x02000000;
  .data : { *(.data) }
  .bss : { *(.bss) }
  /DISCARD/ : { *(.xtensa.info) *(.xt.*) }
}
";

fn sections_of(file: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    use object::{Object as _, ObjectSection as _};
    let file = object::File::parse(file).expect("an ELF file");
    [".literal", ".text", ".data"]
        .map(|name| {
            let section = file.section_by_name(name).expect(name);
            (name.to_owned(), section.address() as u32, section.data().unwrap().to_vec())
        })
        .into()
}

fn linked_sections(assembly: &Assembly) -> Vec<(String, u32, Vec<u8>)> {
    [".literal", ".text", ".data"]
        .map(|name| {
            let section = assembly.section(name).expect(name);
            (name.to_owned(), section.address, section.bytes.clone())
        })
        .into()
}

/// GNU objects linked here, and our objects linked by GNU: all four ways give the same bytes.
#[test]
fn gnu_and_own_objects_link_to_the_same_bytes() {
    if !tools() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("script"), SCRIPT).unwrap();
    let mut gnu = Vec::new();
    let mut own = Vec::new();
    for (name, source) in SCALAR {
        std::fs::write(at.join(format!("{name}.s")), source).unwrap();
        let (from, to) = (format!("{name}.s"), format!("{name}.gnu.o"));
        tool(at, "as", &["--no-transform", "-o", &to, &from]);
        let file = std::fs::read(at.join(format!("{name}.gnu.o"))).unwrap();
        gnu.push(Object::read(name, &file).expect("reads an object of GNU as"));
        let object = object(name, source);
        std::fs::write(at.join(format!("{name}.own.o")), object.write().unwrap()).unwrap();
        own.push(object);
    }
    let options = Options::default();
    let expected = linked_sections(&merge::merge(&own, &options).unwrap());
    assert_eq!(linked_sections(&merge::merge(&gnu, &options).unwrap()), expected, "GNU objects");
    let mixed = [gnu[0].clone(), own[1].clone()];
    assert_eq!(linked_sections(&merge::merge(&mixed, &options).unwrap()), expected, "mixed");
    for inputs in
        [["one.own.o", "two.own.o"], ["one.gnu.o", "two.own.o"], ["one.gnu.o", "two.gnu.o"]]
    {
        let arguments = ["--no-relax", "-T", "script", "-o", "linked", inputs[0], inputs[1]];
        tool(at, "ld", &arguments);
        let linked = sections_of(&std::fs::read(at.join("linked")).unwrap());
        assert_eq!(linked, expected, "GNU ld of {inputs:?}");
    }
    // The finished library is sound in their eyes as well.
    let assembly = merge::merge(&own, &options).unwrap();
    let library = link::library(&assembly, options.text_base, options.data_base).unwrap();
    std::fs::write(at.join("library"), library).unwrap();
    let shown = tool(at, "readelf", &["-hlS", "--symbols", "library"]);
    for want in ["Tensilica Xtensa Processor", "GLOBAL DEFAULT", ".literal", "far", "0x01000000"] {
        assert!(shown.contains(want), "{want} in {shown}");
    }
}

/// What GNU objdump prints of our object is what we print of it.
#[test]
fn gnu_objdump_reads_own_objects() {
    if !tools() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let object = object("one.s", SCALAR[0].1);
    std::fs::write(at.join("one.o"), object.write().unwrap()).unwrap();
    let shown = tool(at, "objdump", &["-d", "-r", "-j", ".text", "one.o"]);
    let text = object.sections.iter().find(|s| s.name == ".text").unwrap();
    assert_eq!(text.segment, Segment::Text);
    let lines = tpbemu::q7::asm::disasm::disassemble(
        &text.bytes,
        0,
        &Default::default(),
        CodecOptions::OWN,
    );
    let mnemonic = |text: &str| text.split_whitespace().next().map(str::to_owned);
    let theirs: Vec<_> = shown
        .lines()
        .filter(|line| !line.contains("R_XTENSA") && line.contains(":\t"))
        .map(|line| {
            let mut parts = line.split('\t');
            let address = parts.next().unwrap().trim().trim_end_matches(':');
            let address = u32::from_str_radix(address, 16).unwrap();
            // A move is an `or` of one register with itself; GNU names the move.
            (address, mnemonic(parts.nth(1).unwrap()))
        })
        .collect();
    let ours: Vec<_> = lines.iter().map(|line| (line.address, mnemonic(&line.text))).collect();
    assert_eq!(ours, theirs, "{shown}");
    let theirs: Vec<_> = shown
        .lines()
        .filter_map(|line| line.split_once(": R_XTENSA_"))
        .map(|(at, rest)| {
            (at.trim().to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    let ours: Vec<_> = text
        .relocs
        .iter()
        .map(|r| {
            let kind = link::reloc::name(r.kind);
            let addend = if r.addend == 0 { String::new() } else { format!("{:+#x}", r.addend) };
            let symbol = object.symbol_name(r.symbol);
            let kind = kind.trim_start_matches("R_XTENSA_");
            (format!("{:x}", r.offset), format!("{kind} {symbol}{addend}"))
        })
        .collect();
    assert_eq!(ours, theirs, "{shown}");
    let shown = tool(at, "readelf", &["-a", "-W", "one.o"]);
    assert!(shown.contains("REL (Relocatable file)") && shown.contains("UND far"), "{shown}");
}

/// The commands: assemble to an object, link with a source, disassemble both, look into the library.
#[test]
fn commands() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for (name, source) in [("kernel.s", KERNEL), ("helper.s", HELPER), ("data.s", DATA)] {
        std::fs::write(at.join(name), source).unwrap();
    }
    let tpbemu = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tpbemu"))
            .current_dir(at)
            .arg("q7")
            .args(arguments)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(tpbemu(&["asm", "kernel.s", "-o", "kernel.o"]), "");
    tpbemu(&["asm", "data.s", "-o", "data.bin", "--form", "object"]);
    let shown = tpbemu(&["disasm", "kernel.o"]);
    for want in [
        "section .text",
        "kernel:",
        "R_XTENSA_SLOT0_OP row_value",
        "section kernel_info_table",
        "R_XTENSA_32 .text+0x9",
    ] {
        assert!(shown.contains(want), "{want} in\n{shown}");
    }
    let map = tpbemu(&["link", "kernel.o", "helper.s", "data.bin", "-o", "all.so", "-m"]);
    assert!(map.contains("global        row_value") && map.contains("section .bss"), "{map}");
    let shown = tpbemu(&["disasm", "all.so"]);
    assert!(shown.contains("row_value:") && shown.contains("ivp_raddsnx16 v2, v0"), "{shown}");
    let shown = tpbemu(&["library", "all.so"]);
    assert!(shown.contains("opcode 0xf0 spec 0x31"), "{shown}");
    tpbemu(&["link", "all.o", "--help"]);
    tpbemu(&["link", "kernel.s", "helper.s", "data.s", "-o", "all.bin", "--form", "staged"]);
    let files: Vec<_> = [("kernel.s", KERNEL), ("helper.s", HELPER), ("data.s", DATA)]
        .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
        .into();
    let staged = stage_files(&files, Generation::V3).unwrap();
    assert_eq!(std::fs::read(at.join("all.bin")).unwrap(), staged);
    let library = std::fs::read(at.join("all.so")).unwrap();
    assert_eq!(stage_files(&[("all.so".into(), library)], Generation::V3).unwrap(), staged);
}

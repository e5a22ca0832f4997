//! Random scalar programs on QEMU's Xtensa and on our core: registers, SAR, booleans and memory must
//! agree. The programs are also assembled by GNU as where it knows the instruction, and the bytes
//! compared with ours.
//!
//! Needs `xtensa-lx106-elf-as`, `-ld`, `-objcopy` and `qemu-system-xtensa`; without them the test
//! says so and does nothing. `Q7_DIFF_PROGRAMS=n` sets the number of programs, `Q7_DIFF_SEED=n` the
//! seed. QEMU's CPU (de233_fpu) has no `const16`, `muluh` and `mulsh`; those have unit tests.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tpbemu::q7::asm::{Options, assemble};
use tpbemu::q7::core::{BusFault, Core, CoreConfig, Q7Bus, RETURN_ADDRESS, Stop};

const CODE: u32 = 0x0011_0000;
const BLOCKS: u32 = 0x0040_0000;
const BLOCK: usize = 1024;
/// Offsets in a program's block: scratch memory, final state, initial registers.
const STATE: usize = 256;
const INITIAL: usize = 512;
const POOL: usize = 64;

/// What GNU as for lx106 does not know and gets as bytes.
const NOT_IN_GNU: [&str; 30] = [
    "min", "max", "minu", "maxu", "salt", "saltu", "quou", "quos", "remu", "rems", "loop",
    "loopnez", "loopgtz", "clamps", "andb", "andbc", "orb", "orbc", "xorb", "any4", "all4", "any8",
    "all8", "movf", "movt", "bt", "bf", "call8", "entry", "retw",
];

/// Formats first, so that the arguments may draw random numbers.
macro_rules! emit {
    ($to:expr, $($format:tt)*) => {{
        let text = format!($($format)*);
        $to.line(text);
    }};
}

struct Generator {
    rng: Pcg64,
    labels: u32,
    text: String,
}

impl Generator {
    fn below(&mut self, n: u32) -> u32 {
        self.rng.next_u32() % n
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u32) as usize]
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    /// Any data register.
    fn reg(&mut self) -> String {
        format!("a{}", 2 + self.below(13))
    }

    /// An instruction without control flow.
    fn simple(&mut self) {
        let (r, s, t) = (self.reg(), self.reg(), self.reg());
        match self.below(14) {
            0 | 1 => {
                let op = self.pick(&[
                    "and", "or", "xor", "add", "addx2", "addx4", "addx8", "sub", "subx2", "subx4",
                    "subx8", "mul16u", "mul16s", "mull", "add.n",
                ]);
                emit!(self, "{op} {r}, {s}, {t}");
            }
            2 => {
                let op = self.pick(&["salt", "saltu", "min", "max", "minu", "maxu"]);
                emit!(self, "{op} {r}, {s}, {t}");
            }
            3 => {
                let op = self.pick(&["neg", "abs", "mov.n"]);
                emit!(self, "{op} {r}, {s}");
            }
            4 => {
                let op = self.pick(&["moveqz", "movnez", "movltz", "movgez"]);
                emit!(self, "{op} {r}, {s}, {t}");
            }
            5 => {
                // `ssl` and `ssa8b` can set SAR to 32. QEMU 7.2 then leaves the operand of `srl` and
                // `sra` as it is (a 32-bit host shift), where the architecture shifts 64 bits.
                let way = self.below(5);
                let set = match way {
                    0 => format!("ssl {s}"),
                    1 => format!("ssa8b {s}"),
                    2 => format!("ssa8l {s}"),
                    3 => format!("ssr {s}"),
                    _ => format!("ssai {}", self.below(32)),
                };
                self.line(set);
                let shift = match self.below(if way < 2 { 2 } else { 4 }) {
                    0 => format!("sll {r}, {t}"),
                    1 => format!("src {r}, {s}, {t}"),
                    2 => format!("sra {r}, {t}"),
                    _ => format!("srl {r}, {t}"),
                };
                self.line(shift);
            }
            6 => {
                let text = match self.below(4) {
                    0 => format!("slli {r}, {s}, {}", 1 + self.below(31)),
                    1 => format!("srli {r}, {s}, {}", self.below(16)),
                    2 => format!("srai {r}, {s}, {}", self.below(32)),
                    _ => {
                        let shift = self.below(32);
                        format!("extui {r}, {s}, {shift}, {}", 1 + self.below(16.min(32 - shift)))
                    }
                };
                self.line(text);
            }
            7 => {
                let text = match self.below(6) {
                    0 => format!("addi {r}, {s}, {}", self.below(256) as i32 - 128),
                    1 => format!("addmi {r}, {s}, {}", (self.below(256) as i32 - 128) * 256),
                    2 => format!("movi {r}, {}", self.below(4096) as i32 - 2048),
                    3 => format!("movi.n {r}, {}", self.below(128) as i32 - 32),
                    4 => {
                        let value = self.below(16) as i32;
                        format!("addi.n {r}, {s}, {}", if value == 0 { -1 } else { value })
                    }
                    _ => format!("l32r {r}, pool + {}", 4 * self.below(POOL as u32)),
                };
                self.line(text);
            }
            8 => {
                emit!(self, "clamps {r}, {s}, {}", 7 + self.below(16));
            }
            9 => {
                // No division by zero: a zero divisor becomes 1.
                let one = self.reg();
                emit!(self, "movi.n {one}, 1");
                emit!(self, "moveqz {t}, {one}, {t}");
                let op = self.pick(&["quou", "quos", "remu", "rems"]);
                emit!(self, "{op} {r}, {s}, {t}");
            }
            10 => {
                let (a, b, c) = (self.below(16), self.below(16), self.below(16));
                let text = match self.below(8) {
                    0 => format!(
                        "any4 b{a}, b{0}:b{1}:b{2}:b{3}",
                        b & 12,
                        (b & 12) + 1,
                        (b & 12) + 2,
                        (b & 12) + 3
                    ),
                    1 => format!(
                        "all4 b{a}, b{0}:b{1}:b{2}:b{3}",
                        b & 12,
                        (b & 12) + 1,
                        (b & 12) + 2,
                        (b & 12) + 3
                    ),
                    2 => format!("any8 b{a}, b{}:b{}", b & 8, (b & 8) + 7),
                    3 => format!("all8 b{a}, b{}:b{}", b & 8, (b & 8) + 7),
                    4 => {
                        let op = self.pick(&["movf", "movt"]);
                        format!("{op} {r}, {s}, b{a}")
                    }
                    _ => {
                        let op = self.pick(&["andb", "andbc", "orb", "orbc", "xorb"]);
                        format!("{op} b{a}, b{b}, b{c}")
                    }
                };
                self.line(text);
                // QEMU 7.2 keeps b0..b15 as separate copies of one register while it stays in a
                // translation block; a jump ends the block.
                let next = self.label();
                emit!(self, "j {next}");
                emit!(self, "{next}:");
            }
            11 | 12 => {
                let (op, size) = match self.below(9) {
                    0 => ("l8ui", 1),
                    1 => ("l16ui", 2),
                    2 => ("l16si", 2),
                    3 => ("l32i", 4),
                    4 => ("s8i", 1),
                    5 => ("s16i", 2),
                    6 => ("s32i", 4),
                    7 => ("l32i.n", 4),
                    _ => ("s32i.n", 4),
                };
                let span = if op.ends_with(".n") { 64 } else { 256 };
                let offset = self.below(span / size) * size;
                emit!(self, "{op} {r}, a1, {offset}");
            }
            _ => {
                // A computed address.
                emit!(self, "extui {r}, {s}, {}, 5", self.below(20));
                emit!(self, "addx4 {r}, {r}, a1");
                let op = self.pick(&["l32i", "s32i", "l8ui", "s8i", "l16si"]);
                emit!(self, "{op} {t}, {r}, {}", 4 * self.below(16));
            }
        }
    }

    fn block(&mut self, depth: u32) {
        let (s, t) = (self.reg(), self.reg());
        match self.below(if depth < 2 { 12 } else { 8 }) {
            0..=6 => self.simple(),
            7 => {
                // Forward branch over a few instructions.
                let over = self.label();
                let branch = match self.below(6) {
                    0 | 1 => {
                        let op = self.pick(&[
                            "bnone", "beq", "blt", "bltu", "ball", "bbc", "bany", "bne", "bge",
                            "bgeu", "bnall", "bbs",
                        ]);
                        format!("{op} {s}, {t}, {over}")
                    }
                    2 => {
                        let op = self.pick(&["beqz", "bnez", "bltz", "bgez", "beqz.n", "bnez.n"]);
                        format!("{op} {s}, {over}")
                    }
                    3 => {
                        let op = self.pick(&["beqi", "bnei", "blti", "bgei"]);
                        let value = self.pick(&["-1", "1", "2", "8", "10", "16", "64", "256"]);
                        format!("{op} {s}, {value}, {over}")
                    }
                    4 => {
                        let op = self.pick(&["bltui", "bgeui"]);
                        let value = self.pick(&["32768", "65536", "2", "7", "12", "128"]);
                        format!("{op} {s}, {value}, {over}")
                    }
                    _ => {
                        if self.below(2) == 0 {
                            let op = self.pick(&["bt", "bf"]);
                            format!("{op} b{}, {over}", self.below(16))
                        } else {
                            let op = self.pick(&["bbci", "bbsi"]);
                            format!("{op} {s}, {}, {over}", self.below(32))
                        }
                    }
                };
                self.line(branch);
                for _ in 0..1 + self.below(3) {
                    self.simple();
                }
                emit!(self, "{over}:");
            }
            8 | 9 => {
                // Zero-overhead loop; the count may be 0 for the guarded forms.
                let end = self.label();
                let op = self.pick(&["loop", "loopnez", "loopgtz"]);
                let low = if op == "loop" { 1 } else { 0 };
                let mut count = (low + self.below(6)) as i32;
                if op == "loopgtz" && self.below(4) == 0 {
                    count = -3;
                }
                emit!(self, "movi.n {s}, {count}");
                emit!(self, "{op} {s}, {end}");
                for _ in 0..1 + self.below(4) {
                    self.simple();
                }
                emit!(self, "{end}:");
            }
            10 => {
                // Loop by a branch; a15 counts.
                if depth == 0 {
                    let top = self.label();
                    emit!(self, "movi.n a15, {}", 1 + self.below(5));
                    emit!(self, "{top}:");
                    for _ in 0..1 + self.below(4) {
                        self.block(2);
                    }
                    self.line("addi a15, a15, -1");
                    emit!(self, "bnez a15, {top}");
                }
            }
            _ => {
                // Windowed call: the callee sees a10..a15 as a2..a7.
                let (function, after) = (self.label(), self.label());
                emit!(self, "call8 {function}");
                emit!(self, "j {after}");
                self.line(".align 4");
                emit!(self, "{function}:");
                self.line("entry a1, 32");
                for _ in 0..1 + self.below(3) {
                    let (r, s, t) = (2 + self.below(6), 2 + self.below(6), 2 + self.below(6));
                    let op = self.pick(&["add", "xor", "sub", "mull"]);
                    emit!(self, "{op} a{r}, a{s}, a{t}");
                }
                self.line("retw");
                emit!(self, "{after}:");
                // Holds the return address.
                self.line("movi.n a8, 0");
            }
        }
    }

    fn program(&mut self, number: usize) {
        self.line(".align 4");
        emit!(self, "p{number}:");
        for n in 2..=14 {
            emit!(self, "l32i a{n}, a1, {}", INITIAL + 4 * n);
        }
        self.line("movi.n a15, 0");
        for _ in 0..4 + self.below(20) {
            self.block(0);
        }
        for n in 2..=15 {
            emit!(self, "s32i a{n}, a1, {}", STATE + 4 * n);
        }
        self.line("rsr.sar a2");
        emit!(self, "s32i a2, a1, {STATE}");
        self.line("rsr.br a2");
        emit!(self, "s32i a2, a1, {}", STATE + 4);
        self.line("addmi a1, a1, 1024");
        self.line("ret");
    }
}

struct Batch {
    /// Source in our syntax.
    source: String,
    /// Initial memory blocks.
    blocks: Vec<u8>,
    programs: usize,
}

fn batch(seed: u64, programs: usize) -> Batch {
    let mut g = Generator { rng: Pcg64::seed_from_u64(seed), labels: 0, text: String::new() };
    g.line("pool:");
    for _ in 0..POOL {
        let value = interesting(&mut g.rng);
        emit!(g, ".word {value:#x}");
    }
    for number in 0..programs {
        g.program(number);
    }
    let mut blocks = vec![0; programs * BLOCK];
    for block in blocks.chunks_exact_mut(BLOCK) {
        g.rng.fill_bytes(&mut block[..STATE]);
        for n in 2..=14 {
            let value = interesting(&mut g.rng);
            block[INITIAL + 4 * n..INITIAL + 4 * n + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
    Batch { source: g.text, blocks, programs }
}

fn interesting(rng: &mut Pcg64) -> u32 {
    match rng.next_u32() % 6 {
        0 => rng.next_u32() % 16,
        1 => (rng.next_u32() % 16).wrapping_neg(),
        2 => 1 << (rng.next_u32() % 32),
        3 => 0x7fff_ffff_u32.wrapping_add(rng.next_u32() % 3),
        _ => rng.next_u32(),
    }
}

struct Memory<'a> {
    code: &'a [u8],
    blocks: Vec<u8>,
}

impl Memory<'_> {
    fn range(&self, base: u32, size: usize, address: u32, length: usize) -> Option<usize> {
        let at = address.checked_sub(base)? as usize;
        (at + length <= size).then_some(at)
    }
}

impl Q7Bus for Memory<'_> {
    fn read(&mut self, address: u32, out: &mut [u8]) -> Result<(), BusFault> {
        if let Some(at) = self.range(CODE, self.code.len(), address, out.len()) {
            out.copy_from_slice(&self.code[at..at + out.len()]);
        } else if let Some(at) = self.range(BLOCKS, self.blocks.len(), address, out.len()) {
            out.copy_from_slice(&self.blocks[at..at + out.len()]);
        } else {
            return Err(BusFault::Unmapped);
        }
        Ok(())
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault> {
        let at = self.range(BLOCKS, self.blocks.len(), address, bytes.len());
        let at = at.ok_or(BusFault::Unmapped)?;
        self.blocks[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().expect("tool starts");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// The source for GNU as: our text where it knows the instruction, bytes elsewhere.
fn gnu_source(batch: &Batch, listing: &[tpbemu::q7::asm::Line]) -> String {
    let mut out = String::from(".section .code, \"ax\"\n.begin no-transform\n");
    let mut lines = listing.iter().peekable();
    for (at, text) in batch.source.lines().enumerate() {
        let number = at as u32 + 1;
        let entry = lines.next_if(|line| line.line == number);
        let mnemonic = text.split_whitespace().next().unwrap_or("");
        match entry {
            Some(line) if NOT_IN_GNU.contains(&mnemonic) || text.starts_with("rsr.br") => {
                let bytes: Vec<_> = line.bytes.iter().map(|b| format!("{b:#04x}")).collect();
                let _ = writeln!(out, ".byte {}", bytes.join(", "));
            }
            _ if text == ".align 4" => {
                // Both assemblers pad in their own way; take ours.
                out.push_str(".balign 4, 0\n");
            }
            _ => {
                out.push_str(text);
                out.push('\n');
            }
        }
    }
    out.push_str(".end no-transform\n.section .list, \"a\"\n.align 4\n.global list\nlist:\n");
    for number in 0..batch.programs {
        let _ = writeln!(out, ".word p{number}");
    }
    out.push_str(".word 0\n.section .blocks, \"aw\"\n.align 4\n.global blocks, blocks_end\n");
    out.push_str("blocks: .incbin \"blocks.bin\"\nblocks_end:\n");
    out
}

fn compare(seed: u64, programs: usize) {
    let batch = batch(seed, programs);
    let options = Options { text_base: CODE, data_base: 0x20_0000, ..Options::default() };
    let assembly = assemble("differential.s", &batch.source, &options).expect("assembles");
    let code = assembly.section(".text").expect("code").bytes.clone();

    let directory = tempfile::tempdir().expect("temporary directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("blocks.bin"), &batch.blocks).unwrap();
    std::fs::write(at("code.s"), gnu_source(&batch, &assembly.listing)).unwrap();
    std::fs::write(at("start.s"), include_str!("../tools/oracle/q7_scalar_start.s")).unwrap();
    let tool = |name: &str| {
        let mut command = Command::new(format!("xtensa-lx106-elf-{name}"));
        command.current_dir(directory.path());
        command
    };
    run(tool("as").args(["-o", "code.o", "code.s"]));
    run(tool("as").args(["-o", "start.o", "start.s"]));
    run(tool("ld").args([
        "-o",
        "image.elf",
        "--section-start=.vec=0xfe000000",
        &format!("--section-start=.code={CODE:#x}"),
        "--section-start=.list=0x380000",
        &format!("--section-start=.blocks={BLOCKS:#x}"),
        "-e",
        "p0",
        "start.o",
        "code.o",
    ]));
    run(tool("objcopy").args(["-O", "binary", "-j", ".code", "image.elf", "code.bin"]));
    let gnu = std::fs::read(at("code.bin")).unwrap();
    same_code(&code, &gnu, &assembly.listing);

    let image = at("image.elf");
    let expected = run(Command::new("timeout").args(["120", "qemu-system-xtensa"]).args([
        "-M",
        "sim",
        "-cpu",
        "de233_fpu",
        "-semihosting-config",
        "enable=on,target=native",
        "-display",
        "none",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-kernel",
        path(&image),
    ]));
    assert_eq!(expected.len(), batch.blocks.len(), "QEMU did not finish (seed {seed})");

    let mut memory = Memory { code: &gnu, blocks: batch.blocks.clone() };
    let mut core = Core::new(CoreConfig::v3(), 0);
    let mut instructions = 0;
    core.set_a(1, BLOCKS);
    for number in 0..programs {
        let mut one = core.clone();
        one.instructions = 0;
        one.pc = assembly.symbols[&format!("p{number}")];
        one.set_a(0, RETURN_ADDRESS);
        let stop = one.run(&mut memory, 1_000_000);
        assert_eq!(stop, Stop::Returned, "program {number} of seed {seed}");
        instructions += one.instructions;
        // Booleans and SAR live on from program to program, as in QEMU.
        core = one;
        let range = number * BLOCK..(number + 1) * BLOCK;
        if memory.blocks[range.clone()] != expected[range.clone()] {
            let source: String = batch
                .source
                .lines()
                .skip_while(|line| *line != format!("p{number}:"))
                .take_while(|line| *line != "ret")
                .fold(String::new(), |all, line| all + line + "\n");
            panic!(
                "program {number} of seed {seed} differs:\n{source}\n{}",
                difference(&memory.blocks[range.clone()], &expected[range])
            );
        }
    }
    println!(
        "seed {seed}: {programs} programs, {instructions} instructions, {} bytes of code",
        code.len()
    );
}

fn path(path: &Path) -> &str {
    path.to_str().expect("path in UTF-8")
}

/// Compares our bytes with those of GNU as, except for alignment padding.
fn same_code(ours: &[u8], gnu: &[u8], listing: &[tpbemu::q7::asm::Line]) {
    assert_eq!(ours.len(), gnu.len(), "code sizes");
    for line in listing {
        let at = (line.address - CODE) as usize;
        let range = at..at + line.bytes.len();
        assert_eq!(ours[range.clone()], gnu[range], "{:#x}: {}", line.address, line.text);
    }
}

fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let mut out = String::new();
    for (at, (a, b)) in ours.chunks_exact(4).zip(theirs.chunks_exact(4)).enumerate() {
        if a != b {
            let name = match (4 * at).checked_sub(STATE) {
                Some(0) => "SAR".to_owned(),
                Some(4) => "BR".to_owned(),
                Some(offset) if offset < 64 => format!("a{}", offset / 4),
                _ => format!("memory {:#x}", 4 * at),
            };
            let word = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap());
            let _ = writeln!(out, "{name}: ours {:#010x}, QEMU {:#010x}", word(a), word(b));
        }
    }
    out
}

fn tools() -> bool {
    let have = |name: &str| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    ["xtensa-lx106-elf-as", "xtensa-lx106-elf-ld", "xtensa-lx106-elf-objcopy", "qemu-system-xtensa"]
        .iter()
        .all(|name| have(name))
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn sweep(programs: u64, seed: u64) {
    if !tools() {
        println!("skipped: xtensa-lx106-elf binutils or qemu-system-xtensa are not installed");
        return;
    }
    let mut left = programs;
    let mut seed = seed;
    while left > 0 {
        let count = left.min(400);
        compare(seed, count as usize);
        left -= count;
        seed += 1;
    }
}

#[test]
fn scalar_programs_agree_with_qemu() {
    sweep(number("Q7_DIFF_PROGRAMS", 100), number("Q7_DIFF_SEED", 1));
}

#[test]
#[ignore = "ten thousand programs"]
fn ten_thousand_scalar_programs_agree_with_qemu() {
    sweep(10_000, number("Q7_DIFF_SEED", 1000));
}

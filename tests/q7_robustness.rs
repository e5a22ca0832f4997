//! Random and damaged input must give errors: no panic, no hang, no unbounded memory.

use proptest::prelude::*;
use tpbemu::q7::asm::object::Object;
use tpbemu::q7::asm::{
    self, Options, assemble, assemble_object, assemble_one, disasm, link, merge,
};
use tpbemu::q7::codec::{self, Options as CodecOptions, tables};
use tpbemu::q7::core::{Core, CoreConfig, NoBus, Stop};
use tpbemu::q7::library::custom::{Argument, Header};
use tpbemu::q7::library::record::ModifyPoolConfig;
use tpbemu::q7::library::{
    Bounds, Cluster, ClusterConfig, ModifyOp, UcplHeader, entries, prelink, table,
};

fn library() -> Vec<u8> {
    let options = Options::default();
    let source = include_str!("../programs/q7/permute.s");
    let assembly = assemble("permute.s", source, &options).unwrap();
    link::library(&assembly, options.text_base, options.data_base).unwrap()
}

/// An object with every kind of section, symbol and relocation.
fn object() -> Vec<u8> {
    let source = ".global f\n.weak w, g\n.weak w\nf: l32r a2, p\ncall0 h\nmovi a3, d\nj x\n\
        .literal p, d + 4\n{ nop; nop; nop; ivp_raddnx16 v3, v2 }\n.section .text.x\nx: ret\n\
        w: nop\n.data\nd: .word f, g, w, h\n.bss\n.space 9\n.kernel 0xf0, 1, f";
    let object = assemble_object("o.s", source, CodecOptions::OWN).unwrap().0;
    object.write().unwrap()
}

/// Reads an object, links it with another, and prelinks the result: errors only.
fn link_bytes(bytes: &[u8]) -> bool {
    let Ok(object) = Object::read("fuzz.o", bytes) else { return false };
    let rest = ".global h, g, d\nh: ret\n.data\ng: .word 1\nd: .word 2\n";
    let rest = assemble_object("rest.s", rest, CodecOptions::OWN).unwrap().0;
    let options = Options::default();
    let mut done = false;
    for objects in [vec![object.clone()], vec![object, rest]] {
        let Ok(assembly) = merge::merge(&objects, &options) else { continue };
        let Ok(file) = link::library(&assembly, options.text_base, options.data_base) else {
            continue;
        };
        done |= prelink(&file, &Bounds::V3).is_ok();
    }
    done
}

/// Damages a file: bytes, words with telling values, cuts, repeats.
fn damage(file: &mut Vec<u8>, mut random: impl FnMut() -> u32) {
    const WORDS: [u32; 10] =
        [0, 1, 2, 5, 0x7f, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff];
    for _ in 0..1 + random() % 12 {
        if file.is_empty() {
            return;
        }
        // Headers and tables matter most: half of the places are near an end of the file.
        let length = file.len() as u32;
        let at = match random() % 4 {
            0 => random() % length.min(128),
            1 => length - 1 - random() % length.min(1024),
            _ => random() % length,
        } as usize;
        match random() % 8 {
            0..=3 => file[at] = random() as u8,
            4..=6 => {
                let word = match random() % 3 {
                    0 => WORDS[(random() % 10) as usize],
                    1 => random() % (2 * length),
                    _ => random(),
                };
                let end = (at / 4 * 4 + 4).min(file.len());
                let start = at / 4 * 4;
                let bytes = word.to_le_bytes();
                file[start..end].copy_from_slice(&bytes[..end - start]);
            }
            _ if random().is_multiple_of(4) => file.truncate(at),
            _ => {
                let piece = file[at..(at + 40).min(file.len())].to_vec();
                file.splice(at..at, piece);
            }
        }
    }
}

/// Decoder, assembler, linker and loader on damaged input for a while: `Q7_FUZZ_SECONDS`, 600 without.
/// `Q7_FUZZ_SEED` starts elsewhere. Every input must end within five seconds, or the test fails.
#[test]
#[ignore = "ten minutes"]
fn ten_minutes_of_damaged_input() {
    use rand_core::{Rng, SeedableRng};
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let seconds = std::time::Duration::from_secs(number("Q7_FUZZ_SECONDS", 600));
    let mut rng = rand_pcg::Pcg64::seed_from_u64(number("Q7_FUZZ_SEED", 1));
    let start = std::time::Instant::now();
    let (library, object) = (library(), object());
    let mut counts = [0u64; 6];
    while start.elapsed() < seconds {
        let began = std::time::Instant::now();
        let kind = rng.next_u32() % 3;
        match kind {
            0 => {
                let mut bytes = vec![0; (rng.next_u32() % 400) as usize];
                rng.fill_bytes(&mut bytes);
                let lines = disasm::disassemble(
                    &bytes,
                    rng.next_u32(),
                    &Default::default(),
                    CodecOptions::OWN,
                );
                assert_eq!(lines.iter().map(|line| line.bytes.len()).sum::<usize>(), bytes.len());
                let mut core = Core::new(CoreConfig::v2(), 0);
                core.iram[..bytes.len()].copy_from_slice(&bytes);
                core.run(&mut NoBus, 500);
                assert!(core.instructions <= 500);
                let _ = Object::read("random", &bytes);
                let _ = prelink(&bytes, &Bounds::V3);
            }
            1 => {
                let mut file = object.clone();
                damage(&mut file, || rng.next_u32());
                counts[4] += u64::from(link_bytes(&file));
            }
            _ => {
                let mut file = library.clone();
                damage(&mut file, || rng.next_u32());
                if let Ok(staged) = prelink(&file, &Bounds::V3) {
                    assert!(staged.image.len() <= 0x1_0000);
                    let config = ClusterConfig { instruction_limit: 500, ..ClusterConfig::v3() };
                    let mut cluster = Cluster::new(config);
                    let _ = cluster.load_staged(&staged, 0, &mut NoBus);
                    counts[5] += 1;
                }
            }
        }
        counts[kind as usize] += 1;
        let took = began.elapsed();
        assert!(took.as_secs() < 5, "an input of kind {kind} took {took:?}");
    }
    println!(
        "{} random codes, {} damaged objects ({} still linked), {} damaged libraries ({} still loaded) in {:?}",
        counts[0],
        counts[1],
        counts[4],
        counts[2],
        counts[5],
        start.elapsed()
    );
    assert!(counts[4] > 0 && counts[5] > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// What decodes re-encodes to the same bytes, and its text assembles to them.
    #[test]
    fn decoding_is_exact(bytes in proptest::collection::vec(any::<u8>(), 0..24), pc in any::<u32>()) {
        for options in [CodecOptions::default(), CodecOptions::OWN] {
            if let Ok(bundle) = codec::decode(&bytes, pc, options) {
                let length = usize::from(bundle.frame.length);
                let again = bundle.encode(pc).unwrap();
                prop_assert_eq!(again.as_slice(), &bytes[..length]);
                let text = disasm::text(&bundle, pc, &|_| None);
                prop_assert_eq!(assemble_one(&text, pc, CodecOptions::OWN).ok(), Some(bytes[..length].to_vec()), "{}", text);
            }
        }
    }

    /// The same for every row of the tables with random operand bits.
    #[test]
    fn every_row_round_trips(seed in any::<[u8; 16]>()) {
        let random = u128::from_le_bytes(seed);
        for format in tables().formats.iter().filter(|f| f.known) {
            for slot in &format.slots {
                for row in &slot.rows {
                    let free = row.fields.iter().fold(0, |all, field| all | field.mask());
                    let mut word = format.rest_value | row.value | random & free;
                    for other in format.slots.iter().filter(|other| other.id != slot.id) {
                        let nop = other.rows.iter().find(|row| row.mnemonic == "nop");
                        word |= nop.map_or(0, |row| row.value);
                    }
                    let bytes = &word.to_le_bytes()[..usize::from(format.length)];
                    match codec::decode(bytes, 0x1000, CodecOptions::OWN) {
                        Ok(bundle) => {
                            let again = bundle.encode(0x1000).unwrap();
                            prop_assert_eq!(again.as_slice(), bytes);
                            let text = disasm::text(&bundle, 0x1000, &|_| None);
                            let assembled = assemble_one(&text, 0x1000, CodecOptions::OWN);
                            prop_assert_eq!(assembled.ok(), Some(bytes.to_vec()), "{}", text);
                        }
                        // Field values that the assembler refuses.
                        Err(error) => prop_assert!(error.message.contains("operand bits"), "{}", error),
                    }
                }
            }
        }
    }

    #[test]
    fn random_code_runs_to_some_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), seed in any::<u64>()) {
        let mut core = Core::new(CoreConfig::v2(), 0);
        core.iram[..bytes.len()].copy_from_slice(&bytes);
        for n in 0..16u32 {
            core.set_a(n, (seed as u32).rotate_left(n) & 0x000f_fffc);
        }
        let stop = core.run(&mut NoBus, 2000);
        prop_assert!(core.instructions <= 2000);
        if stop == Stop::Limit {
            prop_assert_eq!(core.instructions, 2000);
        }
    }

    #[test]
    fn disassembly_covers_all_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let lines = disasm::disassemble(&bytes, 0x100, &Default::default(), CodecOptions::OWN);
        let all: Vec<u8> = lines.iter().flat_map(|line| line.bytes.clone()).collect();
        prop_assert_eq!(all, bytes);
    }

    #[test]
    fn damaged_libraries_are_refused_or_load(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<prop::sample::Index>()) {
        let mut file = library();
        for (at, value) in &changes {
            let at = at.index(file.len());
            file[at] = *value;
        }
        if changes.len() % 3 == 0 {
            file.truncate(cut.index(file.len()));
        }
        if let Ok(staged) = prelink(&file, &Bounds::V3) {
            prop_assert!(staged.image.len() <= 0x1_0000);
            let config = ClusterConfig { instruction_limit: 500, ..ClusterConfig::v3() };
            let mut cluster = Cluster::new(config);
            // Whatever the code does, it ends.
            let _ = cluster.load_staged(&staged, 0, &mut NoBus);
        }
    }

    #[test]
    fn damaged_objects_are_refused_or_link(seed in any::<u64>()) {
        let mut file = object();
        let mut state = seed | 1;
        damage(&mut file, || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        });
        link_bytes(&file);
    }

    #[test]
    fn headers_of_libraries(changes in proptest::collection::vec((0usize..0x100, any::<u8>()), 1..20)) {
        let mut file = library();
        for (at, value) in changes {
            file[at] = value;
        }
        if let Ok(staged) = prelink(&file, &Bounds::V2) {
            prop_assert!(staged.image.len() <= 0x1_0000);
        }
    }

    #[test]
    fn random_images_and_words(image in proptest::collection::vec(any::<u8>(), 0..300), word in any::<[u8; 32]>(), magic in any::<bool>()) {
        let mut image = image;
        if magic && image.len() >= 8 {
            image[..8].copy_from_slice(&tpbemu::q7::library::ucpl::MAGIC);
        }
        let _ = UcplHeader::decode(&image);
        let _ = table::scan(&image, 0..0x1000);
        let _ = table::parse(&image);
        let _ = entries::LibraryEntry::decode(&image);
        let mut words = [0; 64];
        words[..32].copy_from_slice(&word);
        let _ = ModifyPoolConfig::decode(&words);
        words[0] = 0x85;
        let _ = Header::decode(&words);
        words[0] = 0x86;
        let _ = Argument::decode(&words);
    }

    #[test]
    fn random_text_never_panics(text in "[ -~\n\t]{0,120}") {
        let _ = assemble("random.s", &text, &Options::default());
    }

    #[test]
    fn mangled_programs_never_panic(cut in 0usize..2000, insert in "[a-z0-9{};,.#@:\\-+ \n]{0,12}") {
        let source = include_str!("../programs/q7/argmax.s");
        let cut = cut.min(source.len());
        let text = format!("{}{insert}{}", &source[..cut], &source[cut..]);
        let _ = assemble("mangled.s", &text, &Options::default());
    }
}

#[test]
fn hostile_sources_are_bounded() {
    for source in [
        ".space 1048577",
        ".data\n.space 1048576\n.space 1048576",
        ".set a, b\n.set b, a\n.word a",
        ".set a, a\n.word a",
        "1: j 1b\n.align 8192",
        "add a2, a3",
        "{ nop; nop; nop; nop; nop; nop }",
        "{ nop",
        ".kernel 0, 0, x",
        "x: x: nop",
        ".byte 256",
        ".bss\n.byte 1",
        ".data\nnop",
        "movi a2, 0x1ffffffff",
        "j nowhere",
        ".word x - y - z",
        "l32r a2, far\nfar: .word 1",
    ] {
        assert!(assemble("hostile.s", source, &Options::default()).is_err(), "{source}");
    }
}

#[test]
fn libraries_round_trip_through_the_loader() {
    let file = library();
    let staged = prelink(&file, &Bounds::V3).unwrap();
    let rows = staged.rows();
    assert_eq!(rows.len(), 2);
    // Without a record of the table it is found by its shape.
    let code = staged.code_address..staged.code_address + staged.header.code_length;
    let (at, found) = table::scan(staged.header.data(&staged.image), code).unwrap();
    assert_eq!(found, rows);
    assert_eq!(staged.table.unwrap().0, staged.data_address + at as u32);
    // All addresses moved: the const16 pairs of the code reach the data.
    let mut cluster = Cluster::new(ClusterConfig::v3());
    cluster.load_staged(&staged, 0, &mut NoBus).unwrap();
    assert_eq!(cluster.cores[0].iram[0x1_8000..0x1_8003], [0x36, 0x41, 0x00]);
    let _ = asm::KERNEL_TABLE;
}

/// The shapes that the host loader refuses, with its codes.
#[test]
fn prelink_codes() {
    let file = library();
    let code = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = file.clone();
        change(&mut file);
        prelink(&file, &Bounds::V3).map(drop).map_err(|error| error.code)
    };
    const PHDR: usize = 52;
    assert_eq!(code(&|_| {}), Ok(()));
    assert_eq!(code(&|f| f[0] = 0), Err(1));
    assert_eq!(code(&|f| f[4] = 2), Err(1));
    assert_eq!(code(&|f| f[5] = 2), Err(1));
    // Text writable, data not writable, dynamic executable.
    assert_eq!(code(&|f| f[PHDR + 24] = 7), Err(7));
    assert_eq!(code(&|f| f[PHDR + 32 + 24] = 4), Err(7));
    assert_eq!(code(&|f| f[PHDR + 96 + 24] = 7), Err(7));
    assert_eq!(code(&|f| f[PHDR + 96] = 1), Err(4));
    // Larger than its region.
    assert_eq!(
        code(&|f| f[PHDR + 20..PHDR + 24].copy_from_slice(&0x8001u32.to_le_bytes())),
        Err(13)
    );
    // Relocations: a symbol, an unknown type, a site outside.
    let scratch =
        u32::from_le_bytes(file[PHDR + 64 + 4..PHDR + 64 + 8].try_into().unwrap()) as usize;
    let first = scratch + 4 * 8;
    assert_eq!(code(&|f| f[first + 5] = 1), Err(5));
    assert_eq!(code(&|f| f[first + 4] = 3), Err(8));
    let at = (first..file.len()).step_by(12).find(|&at| file[at + 4] == 35).unwrap();
    assert_eq!(code(&|f| f[at + 1] = 0x7f), Err(8));
    // An operand inside a bundle.
    let bundle =
        file.windows(8).position(|w| w[0] & 15 == 15 && w[3] & 9 == 8 && w[4..] != [0; 4]).unwrap();
    let text = u32::from_le_bytes(file[PHDR + 4..PHDR + 8].try_into().unwrap()) as usize;
    let offset = 0x0100_0000 + (bundle - text) as u32;
    assert_eq!(code(&|f| f[at..at + 4].copy_from_slice(&offset.to_le_bytes())), Err(12));
}

/// The addresses that the pages derive for a shipped image, on a file of the same layout.
#[test]
fn placement_of_the_shipped_layout() {
    let mut source = String::from(".text\nk0: entry a1, 32\nretw\n_init: entry a1, 32\nretw\n");
    source.push_str(
        ".space 0x6f00\n_start: entry a1, 32\nretw\n.data\n.space 0x380\n.kernel 0x7e, 0, k0\n",
    );
    let options = Options::default();
    let assembly = assemble("shipped.s", &source, &options).unwrap();
    let file = link::library(&assembly, options.text_base, options.data_base).unwrap();
    let staged = prelink(&file, &Bounds::V3).unwrap();
    assert_eq!((staged.code_address, staged.data_address), (0x1_8000, 0xb_e000));
    assert_eq!(staged.table, Some((0xb_e380, 1)));
    assert_eq!(staged.rows()[0].function, 0x1_8000);
    assert_eq!(staged.header.init, 0x1_8006);
    assert_eq!(staged.header.start, assembly.symbols["_start"] - 0x0100_0000 + 0x1_8000);
    let record = ModifyPoolConfig {
        op: ModifyOp::Load,
        core_mask: 1,
        soc_addr: 0,
        library_index: 0,
        library_size: staged.image.len() as u32,
    };
    let mut cluster = Cluster::new(ClusterConfig::v3());
    cluster.modify(&record, &staged.image, staged.table, &mut NoBus).unwrap();
    assert_eq!(cluster.lookup(0, 0x7e, 0), Some(0x1_8000));
}

//! The assembly language from the outside: programs, errors, round trips.

use std::path::Path;

use tpbemu::isa::{Engine, Generation};
use tpbemu::program::asm::{MemoryFiles, assemble};
use tpbemu::program::lower::{Lowered, lower};
use tpbemu::program::{ElemType, Expected, Memory, Program, Role, Update, container, npy, text};

const GEMM: &str = include_str!("data/gemm.tpb");

fn files() -> MemoryFiles {
    let mut files = MemoryFiles::default();
    let bytes: Vec<u8> = (0..64 * 64).flat_map(|i| (i as f32 / 64.0).to_le_bytes()).collect();
    let file = npy::encode(ElemType::FP32, &[64, 64], &bytes).unwrap();
    files.0.insert("a.npy".into(), file);
    files.0.insert("inc.tpb".into(), b".define TILE 64\n".to_vec());
    files.0.insert("loop.tpb".into(), b".include \"loop.tpb\"\n".to_vec());
    files.0.insert("bad.tpb".into(), b"\n  NOPE\n".to_vec());
    files
}

fn build(source: &str) -> Program {
    assemble(Path::new("test.tpb"), source, &files()).unwrap_or_else(|e| panic!("{e}"))
}

fn error(source: &str) -> String {
    assemble(Path::new("test.tpb"), source, &files()).unwrap_err().to_string()
}

#[test]
fn a_whole_program() {
    let program = build(GEMM);
    assert_eq!(program.generation, Generation::V3);
    let engines: Vec<Engine> = program.streams.iter().map(|s| s.engine).collect();
    assert_eq!(engines, [Engine::Pe, Engine::Act, Engine::Sp]);
    let a = program.tensor("a").unwrap();
    assert_eq!(
        (a.memory, a.role, a.init.as_ref().unwrap().len()),
        (Memory::Hbm, Role::Input, 8192)
    );
    // 1/64 is exact in bf16.
    assert_eq!(a.init.as_ref().unwrap()[2..4], [0x80, 0x3c]);
    assert_eq!(program.tensor("acc").unwrap().address, 0x200_0000);
    assert_eq!(program.tensor("b_sb").unwrap().address, 0x80);
    // The load copies rows of HBM into partitions.
    let load = &program.blocks[0];
    assert_eq!(load.on_done, [Update::SemaphoreAdd { index: 0, amount: 1 }]);
    assert_eq!(load.transfers[0].src.dims, [(2, 64), (128, 64)]);
    assert_eq!(load.transfers[0].dst.dims, [(2, 64), (0x40000, 64)]);
    // The second one transposes.
    assert_eq!(program.blocks[1].transfers[0].src.dims, [(128, 64), (2, 64)]);
    let sp = program.stream(Engine::Sp).unwrap();
    assert_eq!(lower(&program, &sp.words, 0), Ok(Lowered::DmaTrigger { queue: 0, block: 0 }));
    assert_eq!(lower(&program, &sp.words, 2), Ok(Lowered::DmaTrigger { queue: 0, block: 2 }));
    assert_eq!(lower(&program, &sp.words, sp.words.len() - 1), Ok(Lowered::End));
    assert_eq!(program.checks[0].expected.len(), 4096);
    assert!(matches!(program.checks[0].expected, Expected::Floats(_)));
    // Four repetitions of the two PE instructions.
    let pe = program.stream(Engine::Pe).unwrap();
    assert_eq!(pe.words.len(), 9);
    assert_eq!(program.source_of(pe.line(1)).unwrap(), program.source_of(pe.line(3)).unwrap());
    // The branch at the end of ACT goes back two words.
    let act = program.stream(Engine::Act).unwrap();
    assert_eq!(act.words.last().unwrap()[48..56], [0x80, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
}

#[test]
fn listing_of_a_program() {
    let program = build(GEMM);
    let texts: Vec<String> = program
        .streams
        .iter()
        .flat_map(|s| s.words.iter())
        .map(|w| tpbemu::isa::text::inst::print(tpbemu::isa::Layout::V3, w))
        .collect();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn a_disassembly_assembles_to_the_same_program() {
    let program = build(GEMM);
    let (source, data) = text::to_text(&program);
    let mut files = files();
    files.0.extend(data.into_iter().map(|(name, bytes)| (name.into(), bytes)));
    let again = assemble(Path::new("again.tpb"), &source, &files)
        .unwrap_or_else(|e| panic!("{source}\n{e}"));
    assert_eq!(again.streams.len(), program.streams.len());
    for (a, b) in program.streams.iter().zip(&again.streams) {
        assert_eq!(a.words, b.words);
        assert_eq!(a.engine, b.engine);
    }
    assert_eq!(again.tensors, program.tensors);
    assert_eq!(again.queues, program.queues);
    assert_eq!(again.semaphores, program.semaphores);
    for (a, b) in program.blocks.iter().zip(&again.blocks) {
        assert_eq!((&a.transfers, &a.on_done, a.id), (&b.transfers, &b.on_done, b.id));
    }
    assert_eq!(text::to_text(&again).0, strip_checks(&source));
}

fn strip_checks(source: &str) -> String {
    source.lines().filter(|l| !l.starts_with("# check")).map(|l| format!("{l}\n")).collect()
}

#[test]
fn a_container_holds_everything() {
    let program = build(GEMM);
    let bytes = container::encode(&program).unwrap();
    assert_eq!(container::encode(&program).unwrap(), bytes, "same program, same bytes");
    assert_eq!(container::decode(&bytes).unwrap(), program);
    for at in [0, 8, 16, 24, 40, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(container::decode(&damaged).is_err(), "byte {at}");
    }
    for length in [0, 7, 8, 31, 32, 100, bytes.len() - 1] {
        assert!(container::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn v1_programs() {
    let program = build(
        ".generation v1\n\
         .event loaded, done\n\
         .queue q engine=POOL semaphore=3\n\
         .block q b $E[loaded]=1\n  copy dst=fp32@sbuf(0, 0)[4][4] src=fp32@0x1000000000[4][4]\n.end\n\
         .stream POOL\n\
         DMA_TRIGGER q b\n\
         COPY $E[loaded]==1->0 $E[done]=1@write dtype=fp32 src=0[1][4] dst=64[1][4] channels=1\n\
         EVENT_WAIT $E[done]==1\n\
         .stream SP\n\
         again:\n\
         WAIT_EVENT_SET event_idx=done_number\n\
         BRANCH_U target=again phase=1\n"
            .replace("event_idx=done_number", "event_idx=15")
            .as_str(),
    );
    assert_eq!(program.events["done"], 15);
    let pool = program.stream(Engine::Pool).unwrap();
    assert_eq!(pool.words[0][8..10], *b"q\0");
    assert_eq!(pool.words[1][4..8], [2, 14, 2, 15]);
    assert_eq!(program.v1_sp.words[1], [0xb0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(lower(&program, &pool.words, 0), Ok(Lowered::DmaTrigger { queue: 0, block: 0 }));

    let wide = build(
        ".generation v1\n.events8\n.queue q engine=POOL\n.block q b\n.end\n.stream POOL\nDMA_TRIGGER q b $S[22]>0\n",
    );
    let word = wide.stream(Engine::Pool).unwrap().words[0];
    assert_eq!(word[..14], [0xc1, 16, 0, 0, 4, 22, 0, 0, 0, 0, 0, 0, b'q', 0]);
}

#[test]
fn branches() {
    let program = build(
        ".generation v3\n.stream SP\n\
         top: NOP\n\
         COMPARE_BRANCH cmp_op=EQ_IMM cmp_dtype=int32 cmp_reg0=R1 cmp_immediate=5 br_immediate=end\n\
         COMPARE_BRANCH target_mode=IMMEDIATE br_immediate=end\n\
         COMPARE_BRANCH br_immediate=top\n\
         end:\n",
    );
    let sp = program.stream(Engine::Sp).unwrap();
    assert_eq!(sp.words[1][14], 3);
    assert_eq!(sp.words[1][48..56], 192u64.to_le_bytes());
    assert_eq!(sp.words[2][48..56], 256u64.to_le_bytes());
    assert_eq!(sp.words[3][48..56], 0xffff_ff40u64.to_le_bytes());
    let (source, _) = text::to_text(&program);
    assert!(source.contains("br_immediate=top") && source.contains("br_immediate=end"), "{source}");
    assert_eq!(build(&source).stream(Engine::Sp).unwrap().words, sp.words);
}

#[test]
fn expected_values_keep_their_kind() {
    let program = build(
        ".generation v2\n.tensor x hbm int32[2] = [1, -2]\n.tensor y hbm fp8_e4[2] = hex(\"1234\")\n\
         .check x [1, -2]\n.check y hex(\"1234\")\n.check x fill(3) atol=0.5\n",
    );
    assert_eq!(program.checks[0].expected, Expected::Ints(vec![1, -2]));
    assert_eq!(program.checks[1].expected, Expected::Bytes(vec![0x12, 0x34]));
    assert_eq!(program.checks[2].expected, Expected::Floats(vec![3.0, 3.0]));
}

/// Each mistake with its rendered report.
#[test]
fn error_messages() {
    let cases = [
        ("no generation", ".stream PE\n"),
        ("unknown directive", ".generation v3\n.tensr a hbm fp32[1]\n"),
        ("unknown instruction", ".generation v3\n.stream PE\n  MATMULL rows=1\n"),
        ("other generation", ".generation v2\n.stream POOL\n  NONZERO_WITH_COUNT\n"),
        ("unknown operand", ".generation v3\n.stream PE\n  MATMUL num_actve_rows=1\n"),
        ("out of range", ".generation v3\n.stream PE\n  MATMUL rows=256\n"),
        (
            "unknown name",
            ".generation v3\n.tensor acc psum fp32[128,4]\n.stream PE\n  MATMUL dst=ac[1][4]\n",
        ),
        ("two values", ".generation v3\n.stream PE\n  NOP $S[1]>=2 $S[2]+=3@complete\n"),
        ("label", ".generation v3\n.stream PE\nloop:\n  COMPARE_BRANCH br_immediate=lop\n"),
        ("label twice", ".generation v3\n.stream PE\nx:\nx:\n"),
        ("in repetition", ".generation v3\n.stream PE\n.repeat 3 i\n  MATMUL rows=254+i\n.end\n"),
        ("included", ".generation v3\n.stream PE\n.include \"bad.tpb\"\n"),
        ("include loop", ".include \"loop.tpb\"\n"),
        ("missing file", ".generation v3\n.tensor a hbm fp32[1] = npy(\"none.npy\")\n"),
        ("npy shape", ".generation v3\n.tensor a hbm fp32[4] = npy(\"a.npy\")\n"),
        ("partition overflow", ".generation v3\n.tensor a sbuf fp32[128, 60000]\n"),
        (
            "overlap",
            ".generation v3\n.tensor a sbuf fp32[128,4] at 0\n.tensor b sbuf fp32[4,4] at 8\n",
        ),
        ("queue owner", ".generation v3\n.queue q engine=SP\n.stream PE\n  DMA_TRIGGER q b\n"),
        (
            "copy sizes",
            ".generation v3\n.queue q engine=SP\n.tensor a hbm fp32[4]\n.tensor b hbm fp32[5]\n.block q b\n  copy dst=b src=a\n.end\n",
        ),
        ("open repeat", ".generation v3\n.repeat 3\n"),
        ("bad value", ".generation v3\n.tensor a hbm uint8[2] = [1, 300]\n"),
        ("events on v5", ".generation v5\n.stream PE\n  NOP $E[1]==1\n"),
        ("two mistakes", ".generation v3\n.stream PE\n  NOP foo=1\n  NOP !\n"),
    ];
    let mut out = String::new();
    for (name, source) in cases {
        out.push_str(&format!("== {name}\n{}\n\n", error(source)));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn limits_hold() {
    assert!(error(".generation v3\n.repeat 16777216\n.end\n").contains("statements executed"));
    let nested = ".repeat 16777216\n".repeat(10) + &".end\n".repeat(10);
    assert!(error(&format!(".generation v3\n{nested}")).contains("statements executed"));
    let deep = ".repeat 1\n".repeat(40) + &".end\n".repeat(40);
    assert!(error(&format!(".generation v3\n{deep}")).contains("nest deeper"));
    assert!(
        error(".generation v3\n.tensor a hbm fp32[1000000000] = fill(1)\n")
            .contains("bytes of tensor data")
    );
    assert!(error(".generation v3\n.tensor a hbm fp32[9999999999999]\n").contains("out of range"));
    assert!(
        error(&format!(".generation v3\n.define x {}1\n", "(".repeat(100_000)))
            .contains("too deeply")
    );
}

//! Arbitrary input never panics, and what is accepted is consistent.

use std::path::Path;

use proptest::prelude::*;
use tpbemu::isa::text::inst::{assemble_line, print};
use tpbemu::isa::{Generation, Layout};
use tpbemu::program::asm::{MemoryFiles, assemble};
use tpbemu::program::{container, npy, text};

const SAMPLE: &str = include_str!("data/gemm.tpb");

const LAYOUTS: [Layout; 7] =
    [Layout::V1, Layout::V1Wide, Layout::V2, Layout::V3, Layout::V4, Layout::V4Plus, Layout::V5];

/// Pieces that the grammar is made of, so that random sequences get past the lexer.
const PIECES: &[&str] = &[
    ".generation ",
    "v1",
    "v3",
    "v5",
    "+",
    "\n",
    "\n",
    "\n",
    ".stream PE\n",
    ".stream SP\n",
    ".repeat 3 i\n",
    ".end\n",
    ".block q b\n",
    ".queue q engine=SP\n",
    ".tensor t sbuf fp32[4,4]\n",
    ".tensor ",
    ".check ",
    ".define x ",
    ".semaphore s",
    ".event e",
    ".include \"x\"",
    "copy ",
    "dst=",
    "src=",
    "MATMUL ",
    "NOP ",
    "COMPARE_BRANCH ",
    "br_immediate=",
    "DMA_TRIGGER q b",
    "EVENT_SEMAPHORE ",
    "ext(",
    "$S[",
    "$E[",
    "]",
    ")",
    "==",
    ">=",
    "++",
    "+=",
    "@complete",
    "@read",
    "->",
    "0",
    "1",
    "-1",
    "0xffffffffffffffff",
    "R5",
    "R64",
    "[",
    ",",
    ":",
    "t",
    "i",
    "x",
    "fp32@",
    "bf16",
    "indirect(",
    "mx2(",
    "raw(\"ff\")",
    "bits(",
    "= ",
    "fill(1)",
    "iota(0,1)",
    "random(1)",
    "hex(\"00\")",
    "npy(\"x\")",
    "(",
    "*",
    "/",
    "%",
    "<<",
    "#",
    "\\\n",
    "\"",
    " ",
    "partition 3 ",
    "bank 9 ",
    "at ",
    "overlap ",
    ".T",
    ".word64 \"00\"",
    ".word8 \"00\"",
    "unordered",
    "ACTIVATE ",
    "imm=",
    "bias=@",
    "rows=",
    "sbuf(1,2)",
    "part(",
    "min(",
    "é",
    "\u{0}",
];

fn try_assemble(source: &str) {
    if let Ok(program) = assemble(Path::new("fuzz.tpb"), source, &MemoryFiles::default()) {
        let bytes = container::encode(&program).unwrap();
        assert_eq!(container::decode(&bytes).unwrap(), program);
        let _ = text::to_text(&program);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn random_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        try_assemble(&format!(".generation v3\n{}", pieces.concat()));
        try_assemble(&pieces.concat());
    }

    #[test]
    fn damaged_sample(at in 0..SAMPLE.len(), with in prop::sample::select(PIECES), cut in 0..12usize) {
        let mut source = SAMPLE.replace(".include \"inc.tpb\"", ".define TILE 64")
            .replace("npy(\"a.npy\")", "random(3)");
        let at = at.min(source.len());
        let end = (at + cut).min(source.len());
        if source.is_char_boundary(at) && source.is_char_boundary(end) {
            source.replace_range(at..end, with);
        }
        try_assemble(&source);
    }

    #[test]
    fn random_text(source in "\\PC{0,200}") {
        try_assemble(&source);
        try_assemble(&format!(".generation v2\n.stream ACT\n{source}"));
    }

    #[test]
    fn random_words(bytes in prop::array::uniform32(any::<u8>()), more in prop::array::uniform32(any::<u8>())) {
        let mut word = [0; 64];
        word[..32].copy_from_slice(&bytes);
        word[32..].copy_from_slice(&more);
        for layout in LAYOUTS {
            let text = print(layout, &word);
            prop_assert_eq!(assemble_line(layout, &text).unwrap().word, word, "{}", text);
        }
    }

    #[test]
    fn random_containers(mut body in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
        if head {
            let mut file = container::MAGIC.to_vec();
            file.extend_from_slice(&container::VERSION.to_le_bytes());
            file.append(&mut body);
            body = file;
        }
        prop_assert!(container::decode(&body).is_err());
    }

    #[test]
    fn random_npy(mut body in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
        if head {
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.append(&mut body);
            body = file;
        }
        let _ = npy::parse(&body);
    }

    #[test]
    fn random_npy_headers(descr in "[<>|]?[a-zA-Z?][0-9]{0,3}", shape in prop::collection::vec(any::<u64>(), 0..4), fortran in any::<bool>()) {
        let shape: Vec<String> = shape.iter().map(|d| format!("{d}, ")).collect();
        let fortran = if fortran { "True" } else { "False" };
        let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({}), }}\n", shape.concat());
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend_from_slice(&(text.len() as u16).to_le_bytes());
        file.extend_from_slice(text.as_bytes());
        file.extend_from_slice(&[0; 64]);
        let _ = npy::parse(&file);
    }
}

/// Descriptions that are valid JSON but lie.
#[test]
fn lying_containers() {
    let program = assemble(
        Path::new("x.tpb"),
        ".generation v3\n.tensor t hbm fp32[2] = [1, 2]\n.queue q engine=SP\n.block q b\n copy dst=t src=t\n.end\n.stream SP\nNOP\n",
        &MemoryFiles::default(),
    )
    .unwrap();
    let bytes = container::encode(&program).unwrap();
    let json_length = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    let json = std::str::from_utf8(&bytes[32..32 + json_length]).unwrap();
    assert_eq!(program.generation, Generation::V3);
    let lies = [
        ("\"bytes\":64", "\"bytes\":63"),
        ("\"bytes\":64", "\"bytes\":18446744073709551615"),
        ("\"offset\":0", "\"offset\":18446744073709551615"),
        ("\"shape\":[2]", "\"shape\":[18446744073709551615,18446744073709551615]"),
        ("\"shape\":[2]", "\"shape\":[3]"),
        ("\"queue\":0", "\"queue\":7"),
        ("\"memory\":\"hbm\"", "\"memory\":\"moon\""),
        ("\"generation\":\"V3\"", "\"generation\":\"V9\""),
        ("\"sources\"", "\"surprise\":1,\"sources\""),
    ];
    for (truth, lie) in lies {
        assert!(json.contains(truth), "{truth} in {json}");
        let mut body = json.trim_end().replacen(truth, lie, 1).into_bytes();
        body.resize((32 + body.len()).next_multiple_of(16) - 32, b' ');
        let length = body.len() as u64;
        body.extend_from_slice(&bytes[32 + json_length..]);
        let mut file = bytes[..16].to_vec();
        file.extend_from_slice(&length.to_le_bytes());
        file.extend_from_slice(&container::checksum(&body).to_le_bytes());
        file.extend_from_slice(&body);
        assert!(container::decode(&file).is_err(), "{lie}");
    }
}

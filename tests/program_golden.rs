//! Published disassembly of published words: the text assembles to the bytes, and back.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tpbemu::isa::Layout;
use tpbemu::isa::text::{hex, inst};
use tpbemu::program::asm::{MemoryFiles, assemble, assemble_file};
use tpbemu::program::{container, text};

const GOLDEN: &str = include_str!("golden/golden_sync.json");

fn bytes(vector: &Value, key: &str) -> Vec<u8> {
    hex(vector["inputs"][key].as_str().unwrap()).unwrap()
}

#[test]
fn printed_instructions() {
    let vectors: Vec<Value> = serde_json::from_str(GOLDEN).unwrap();
    let mut run = 0;
    let mut other = 0;
    for vector in &vectors {
        match vector["op"].as_str().unwrap() {
            "decode_instruction" => {
                let word: [u8; 64] = bytes(vector, "bytes_hex").try_into().unwrap();
                let text = vector["expect"]["text"].as_str().unwrap();
                // The words carry the 8-byte events block, whatever their generation; V1 programs
                // with it use the later structs.
                for layout in [Layout::V1Wide, Layout::V2, Layout::V3, Layout::V4, Layout::V5] {
                    let name = text.split_whitespace().next().unwrap();
                    let Ok(assembled) = inst::assemble_line(layout, text) else {
                        // V1 has neither of the two other instructions.
                        assert!(layout == Layout::V1Wide && name != "PSEUDO_DMA_TRIGGER", "{text}");
                        continue;
                    };
                    assert_eq!(assembled.word, word, "{layout:?} {text}");
                    let printed = inst::print(layout, &word);
                    assert_eq!(inst::assemble_line(layout, &printed).unwrap().word, word);
                    assert!(!printed.starts_with('.'), "{printed}");
                }
                run += 1;
            }
            "decode_events_block" => {
                let block = bytes(vector, "bytes_hex");
                let text = format!("NOP {}", vector["expect"]["printed"].as_str().unwrap());
                let word = inst::assemble_line(Layout::V2, &text).unwrap().word;
                assert_eq!(word[4..12], block);
                assert_eq!(inst::print(Layout::V2, &word), text);
                run += 1;
            }
            // Not about text: rules, layouts, and behaviour that other tests run.
            _ => other += 1,
        }
    }
    println!("{run} run, {other} listed as not about text");
    assert_eq!(run, 4);
}

/// Every program text below `directory`.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(programs(&path));
        } else if path.extension().is_some_and(|e| e == "tpb") {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// The example programs, as text, as containers, and disassembled.
#[test]
fn example_programs_round_trip() {
    let paths = programs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("programs"));
    assert!(!paths.is_empty());
    for path in &paths {
        let program = assemble_file(path).unwrap_or_else(|e| panic!("{e}"));
        let bytes = container::encode(&program).unwrap();
        assert_eq!(container::decode(&bytes).unwrap(), program, "{}", path.display());
        let (source, data) = text::to_text(&program);
        // a word that a library of the Q7 cores defines has no struct of its own
        let raw = |text: &str| text.matches(".word64").count();
        let written = raw(&std::fs::read_to_string(path).unwrap().replace("`.word64`", ""));
        assert!(raw(&source) <= written, "{}", path.display());
        let mut files = MemoryFiles::default();
        files.0.extend(data.into_iter().map(|(name, bytes)| (name.into(), bytes)));
        let again = assemble(Path::new("again.tpb"), &source, &files)
            .unwrap_or_else(|e| panic!("{}\n{e}", path.display()));
        let words = |p: &tpbemu::program::Program| -> Vec<_> {
            p.streams.iter().map(|s| (s.engine, s.words.clone())).collect()
        };
        assert_eq!(words(&again), words(&program), "{}", path.display());
        assert_eq!(again.v1_sp.words, program.v1_sp.words, "{}", path.display());
        assert_eq!(again.tensors, program.tensors, "{}", path.display());
        assert_eq!(again.queues, program.queues, "{}", path.display());
    }
    println!("{} programs", paths.len());
}

//! What shows that each executable opcode does what it should: printed values of the pages, vectors
//! of the oracles in `tools/oracle`, a property over random shapes or values, illegal cases. The
//! table is `docs/opcode-evidence.md` (`UPDATE=1` writes it); an opcode that executes and lacks one
//! kind without a reason fails the test.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tpbemu::isa::{FieldType, OpcodeDef};
use words::random::{executable, patterns};

/// A test that stands for a kind of evidence: opcodes, kind, file, function.
struct Named(&'static str, Kind, &'static str, &'static str);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Oracle,
    Property,
}
use Kind::{Oracle, Property};

const NAMED: &[Named] = &[
    Named(
        "LOAD_POOL_ARGUMENT",
        Oracle,
        "tests/engine_vector.rs",
        "pool_arguments_come_from_the_word_or_from_memory",
    ),
    Named(
        "EVENT_SEMAPHORE NOP COMPARE_BRANCH POLL_SEM ALU_OP",
        Oracle,
        "tests/machine_golden.rs",
        "NAMED_IN_FILE",
    ),
    Named("HALT", Oracle, "tests/machine_control.rs", "halt_ends_the_stream"),
    Named(
        "INSTRUCTION_FLUSH SET_ORDERING_MODE BRANCH_PREFETCH_HINT NOTIFY DRAIN",
        Oracle,
        "tests/machine_control.rs",
        "words_without_effect_on_results",
    ),
    Named("WRITE TENSOR_LOAD", Oracle, "tests/machine_control.rs", "write_and_load"),
    Named(
        "TENSOR_STORE TENSOR_LOAD MOVE",
        Property,
        "tests/machine_control.rs",
        "random_stores_and_loads",
    ),
    Named("TENSOR_STORE MOVE", Oracle, "tests/machine_control.rs", "random_stores_and_loads"),
    Named("ALU_OP", Property, "tests/machine_control.rs", "random_register_arithmetic"),
    Named(
        "EVENT_SEMAPHORE_RANGE_CLEAR",
        Oracle,
        "tests/machine_control.rs",
        "range_clear_takes_events_and_semaphores",
    ),
    Named("POLL_SEM", Oracle, "tests/machine_control.rs", "poll_sem_takes_the_least"),
    Named(
        "TEST_EVENT_SEM",
        Oracle,
        "tests/machine_control.rs",
        "test_event_sem_reads_without_waiting",
    ),
    Named("EVENT_SET EVENT_CLEAR EVENT_WAIT", Oracle, "tests/machine_control.rs", "v1_events"),
    Named(
        "SEMAPHORE_TEST_AND_SET",
        Oracle,
        "tests/machine_control.rs",
        "v1_test_and_set_waits_for_its_condition",
    ),
    Named("MOVE_SHAPE", Oracle, "tests/lowered_forms.rs", "a_shape_register_is_loaded"),
    Named("COMPACT_CONTROL_INST", Oracle, "tests/machine_dge.rs", "NAMED_IN_FILE"),
    Named(
        "MODIFY_POOL_CONFIG CUSTOM_OP_HEADER CUSTOM_OP_PAYLOAD",
        Oracle,
        "tests/programs.rs",
        "outputs_agree_with_numpy",
    ),
    Named("QUANTIZE_MX", Property, "tests/mx_properties.rs", "quantised_blocks_in_two_layouts"),
    Named(
        "LDWEIGHTS_MX MATMUL_MX",
        Property,
        "tests/mx_properties.rs",
        "products_of_scaled_blocks",
    ),
    Named("EMBEDDING_UPDATE", Property, "tests/dma_properties.rs", "embedding_updates"),
    Named("DMAMEMCPY", Property, "tests/engine_dge.rs", "copies_of_random_shape"),
    Named("DMA_INDIRECT", Property, "tests/dma_properties.rs", "indirect_gathers_and_scatters"),
    Named("DMA_TRANSPOSE", Property, "tests/dma_properties.rs", "transposes"),
    Named("DMA_GATHER_TRANSPOSE", Property, "tests/dma_properties.rs", "gathering_transposes"),
    Named("DMA_MEMCPY2", Property, "tests/dma_properties.rs", "second_form_of_the_copy"),
    Named("ENGINE_NOP ACTIVATION_TABLE_LOAD", Oracle, "tests/program_parts.rs", "NAMED_IN_FILE"),
    Named(
        "PE_REG_WRITE",
        Oracle,
        "tests/engine_pe.rs",
        "double_column_and_double_pixel_give_the_plain_sums",
    ),
];

/// Kinds that an opcode does without, and why.
const WITHOUT: &[(&str, Kind, &str)] = &[];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    out.sort();
    out
}

fn mnemonics(v: &Value, out: &mut BTreeSet<String>) {
    match v {
        Value::Object(map) => {
            for key in ["op", "opcode"] {
                if let Some(Value::String(s)) = map.get(key) {
                    out.insert(s.clone());
                }
            }
            map.values().for_each(|v| mnemonics(v, out));
        }
        Value::Array(list) => list.iter().for_each(|v| mnemonics(v, out)),
        _ => {}
    }
}

/// Vectors per opcode in files whose vectors name the opcodes they run.
fn vectors() -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for folder in ["act", "dge", "indirect", "pe", "vector"] {
        for path in files(&format!("tests/golden/{folder}")) {
            let list: Vec<Value> =
                serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            for case in &list {
                let mut names = BTreeSet::new();
                mnemonics(case, &mut names);
                names.into_iter().for_each(|n| *out.entry(n).or_default() += 1);
            }
        }
    }
    out
}

/// Printed vectors of the pages that name the opcode, by name or byte.
fn printed(def: &OpcodeDef, pages: &[Value]) -> usize {
    let word = |text: &str, name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            edge(text[..at].chars().next_back()) && edge(text[at + name.len()..].chars().next())
        })
    };
    pages
        .iter()
        .filter(|v| {
            let text = v.to_string();
            word(&text, def.name) || word(&text.to_lowercase(), &def.name.to_lowercase())
        })
        .count()
}

#[test]
fn each_opcode_has_evidence() {
    let vectors = vectors();
    let pages: Vec<Value> = files("tests/golden")
        .iter()
        .flat_map(|p| {
            let v: Value = serde_json::from_str(&std::fs::read_to_string(p).unwrap()).unwrap();
            v.as_array().cloned().unwrap_or_default()
        })
        .collect();
    let illegal: BTreeMap<String, usize> = text("tests/isa_illegal.txt")
        .lines()
        .filter_map(|l| l.split_once(':'))
        .map(|(n, rules)| (n.to_string(), rules.split_whitespace().count()))
        .collect();
    for Named(names, _, file, function) in NAMED {
        let source = text(file);
        let known = match *function {
            "NAMED_IN_FILE" => names.split(' ').all(|n| source.contains(n)),
            f => source.contains(&format!("fn {f}(")),
        };
        assert!(known, "{file} has no {function} for {names}");
    }
    let named = |name: &str, kind: Kind| {
        NAMED.iter().find(|n| n.1 == kind && n.0.split(' ').any(|x| x == name))
    };
    let mut page = String::from(
        "# Evidence per opcode\n\n\
         Generated by `UPDATE=1 cargo test --test opcode_evidence`; the test fails when an opcode that\n\
         executes lacks a kind of evidence without a reason.\n\n\
         - vectors: cases of the oracles in `tools/oracle` that run the opcode, or the test with values\n  \
           worked out by hand\n\
         - printed: values printed by the public pages that name the opcode\n\
         - property: over random shapes, strides, types and partitions. *layouts*: the result does not\n  \
           depend on where the operands lie (`tests/opcode_layouts.rs`)\n\
         - illegal: legality rules that a single broken field of a legal word violates\n  \
           (`tests/isa_illegal.txt`)\n\n\
         Every opcode of the table also runs in random legal words with and without threads\n\
         (`tests/isa_fuzz.rs`). The 65 ALU operations are compared on every generation, element type\n\
         and kind of opcode with `tools/oracle/alu_audit.py` (`tests/engine_vector/alu.rs`): which\n\
         are legal, and the results of all pairs of edge values.\n\n\
         | opcode | vectors | printed | property | illegal |\n|---|---|---|---|---|\n",
    );
    let mut lacking = Vec::new();
    let mut seen = BTreeSet::new();
    let all = executable();
    for s in &all {
        let v1 = s.generation == tpbemu::isa::Generation::V1;
        let name = s.def.name;
        // V1 has its own row where the later generations do not have the opcode
        if !seen.insert(name) {
            continue;
        }
        // any form in any generation that has operands
        let forms = || all.iter().filter(|o| o.def.name == name).map(|o| (o, o.start()));
        let moved = forms().any(|(o, start)| o.on_data_path() && !patterns(&start).is_empty());
        let operands = name == "EMBEDDING_UPDATE"
            || forms().any(|(_, start)| {
                start.layout().unwrap().payload().any(|f| {
                    matches!(
                        f.ty_in(start.form()),
                        FieldType::Addr8 | FieldType::Pattern(_) | FieldType::Imm64
                    )
                })
            });
        let without = |kind: Kind| WITHOUT.iter().find(|w| w.0 == name && w.1 == kind).map(|w| w.2);
        let oracle = match (vectors.get(name), named(name, Oracle)) {
            (Some(n), _) => n.to_string(),
            (None, Some(n)) => format!("`{}`", n.2),
            (None, None) => match without(Oracle) {
                Some(why) => why.into(),
                None => {
                    lacking.push(format!("{name}: no vectors"));
                    "none".into()
                }
            },
        };
        let property = match (moved, named(name, Property)) {
            (_, Some(n)) => format!("`{}`", n.3),
            _ if without(Property).is_some() => without(Property).unwrap().into(),
            (true, None) => "layouts".into(),
            (false, None) if !operands => "no operand in memory".into(),
            (false, None) => {
                lacking.push(format!("{name}: no property"));
                "none".into()
            }
        };
        let key = if v1 { format!("v1 {name}") } else { name.to_string() };
        let rules = illegal.get(&key).copied().unwrap_or(0);
        if rules == 0 {
            lacking.push(format!("{name}: no illegal case"));
        }
        let _ = writeln!(
            page,
            "| {name} | {oracle} | {} | {property} | {rules} |",
            printed(s.def, &pages)
        );
    }
    let path = root().join("docs/opcode-evidence.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    println!("{} opcodes", seen.len());
    assert!(lacking.is_empty(), "{lacking:#?}");
    assert!(
        std::fs::read_to_string(&path).is_ok_and(|t| t == page),
        "docs/opcode-evidence.md is stale: UPDATE=1 cargo test --test opcode_evidence writes it"
    );
}

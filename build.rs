//! Turns the instruction-set tables under `src/isa/tables/` into Rust statics.
//!
//! The tables are the only place of each fact; this file knows their syntax and checks that every
//! struct tiles its 64 bytes. Types are in `src/isa/defs.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use toml::{Table, Value};

const GENERATIONS: [&str; 6] = ["v1", "v2", "v3", "v4", "v4p", "v5"];
const WIDE: usize = 6;
const STRUCT_FILES: [&str; 6] = [
    "structs_pe_act.toml",
    "structs_vector.toml",
    "structs_control.toml",
    "structs_dma_pool.toml",
    "structs_pseudo.toml",
    "structs_v1.toml",
];
const ENUM_FILES: [&str; 2] = ["enums_core.toml", "enums.toml"];

#[derive(Clone)]
struct FieldRow {
    offset: usize,
    size: usize,
    name: String,
    ty: String,
    before_v4: Option<String>,
    meaning: String,
}

struct StructRow {
    table: Table,
    name: String,
    gens: u8,
    wide: bool,
    events: String,
    fields: Vec<FieldRow>,
}

fn main() {
    let tables = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("src/isa/tables");
    println!("cargo:rerun-if-changed={}", tables.display());
    println!("cargo:rerun-if-changed=build.rs");
    let mut out = String::new();
    let enum_names = enums(&tables, &mut out);
    let bits_names = bits(&tables, &mut out);
    let types = Types { enums: enum_names, bits: bits_names };
    let structs = structs(&tables);
    emit_structs(&structs, &types, &mut out);
    emit_fields(&structs, &types, &mut out);
    let names: BTreeSet<String> = structs.iter().map(|s| s.name.clone()).collect();
    let semantics = load(&tables, "semantics.toml");
    opcodes(&tables, &names, &semantics, &mut out);
    v1_opcodes(&tables, &names, &semantics, &mut out);
    sp_opcodes(&tables, &mut out);
    classes(&tables, &mut out);
    let dest = Path::new(&env::var("OUT_DIR").unwrap()).join("isa_tables.rs");
    fs::write(dest, out).unwrap();
}

fn load(tables: &Path, file: &str) -> Table {
    let path = tables.join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn rows(table: &Table, key: &str) -> Vec<Table> {
    let Some(Value::Array(list)) = table.get(key) else { return Vec::new() };
    list.iter().map(|v| v.as_table().expect("a table").clone()).collect()
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or("")
}

/// `v2..v5`, `v1`, `v4,v5` as a bit set.
fn gens(spec: &str) -> u8 {
    let index = |name: &str| {
        GENERATIONS.iter().position(|g| *g == name).unwrap_or_else(|| panic!("generation {name}"))
    };
    let mut set = 0;
    for part in spec.split(',') {
        let (a, b) = part.split_once("..").unwrap_or((part, part));
        for i in index(a)..=index(b) {
            set |= 1 << i;
        }
    }
    set
}

fn upper(name: &str) -> String {
    name.to_ascii_uppercase()
}

/// The remark after ` ; `, and the words before it.
fn split_remark(line: &str) -> (&str, &str) {
    line.split_once(" ; ").map_or((line, ""), |(a, b)| (a, b.trim()))
}

/// A doc comment must not contain what rustdoc would take for a link.
fn doc(text: &str) -> String {
    let text = text.replace('[', "\\[").replace(']', "\\]").replace('<', "\\<");
    if text.is_empty() { "As named.".into() } else { text }
}

fn enums(tables: &Path, out: &mut String) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut consts = String::new();
    let mut list = String::new();
    out.push_str(
        "/// Every enumeration, as a static of its name.\npub mod enums {\nuse super::*;\n",
    );
    for row in ENUM_FILES.iter().flat_map(|f| rows(&load(tables, f), "enum")) {
        let name = text(&row, "name").to_string();
        let set = gens(text(&row, "gens"));
        let (mut values, mut value_gens, mut meanings) = Default::default();
        let put = |s: &mut String, v: String| *s += &v;
        let _ =
            writeln!(consts, "/// Codes of `{name}`.\npub mod {} {{", name.to_ascii_lowercase());
        for line in text(&row, "values").lines().filter(|l| !l.trim().is_empty()) {
            let (head, meaning) = split_remark(line);
            let mut words = head.split_whitespace();
            let value = words.next().expect("a value");
            let member = words.next().expect("a name");
            let own =
                words.next().map_or(set, |w| gens(w.trim_start_matches('{').trim_end_matches('}')));
            put(&mut values, format!("({value}, {member:?}), "));
            put(&mut value_gens, format!("GenSet({own}), "));
            put(&mut meanings, format!("{meaning:?}, "));
            let ident = if member.starts_with(|c: char| c.is_ascii_digit()) {
                format!("N{member}")
            } else {
                upper(member)
            };
            let _ = writeln!(consts, "/// {}\npub const {ident}: u8 = {value};", doc(meaning));
        }
        consts.push_str("}\n");
        let _ = writeln!(
            out,
            "/// `{name}` ({}).\npub static {name}: EnumDef = EnumDef {{ name: {name:?}, generations: GenSet({set}), \
             values: &[{values}], value_generations: &[{value_gens}], value_meanings: &[{meanings}], \
             status: {:?}, source: {:?}, note: {:?} }};",
            doc(text(&row, "source")),
            text(&row, "status"),
            text(&row, "source"),
            text(&row, "note"),
        );
        let _ = write!(list, "&enums::{name}, ");
        assert!(names.insert(name.clone()), "enum {name} twice");
    }
    let _ = writeln!(
        out,
        "}}\n/// All enumerations.\npub static ENUMS: &[&EnumDef] = &[{list}];\n\
         /// Codes of the enumerations: `e::alu_op::ADD`.\npub mod e {{\n{consts}}}"
    );
    names
}

fn bits(tables: &Path, out: &mut String) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut consts, mut list) = (String::new(), String::new());
    out.push_str("/// Every packed byte or word, as a static of its name.\npub mod packed {\nuse super::*;\n");
    for row in rows(&load(tables, "bits.toml"), "bits") {
        let name = text(&row, "name").to_string();
        let size = row["size"].as_integer().expect("size");
        let mut groups = String::new();
        let module = name.to_ascii_lowercase();
        let _ = writeln!(
            consts,
            "/// Groups of `{name}`.\npub mod {module} {{\nuse super::super::Bits;"
        );
        for line in text(&row, "fields").lines().filter(|l| !l.trim().is_empty()) {
            let (head, meaning) = split_remark(line);
            let words: Vec<_> = head.split_whitespace().collect();
            let [bit, width, group] = words[..] else { panic!("{name}: {line}") };
            let _ = writeln!(
                consts,
                "/// {}\npub const {}: Bits = Bits {{ name: {group:?}, bit: {bit}, width: {width}, meaning: {meaning:?} }};",
                doc(meaning),
                upper(group)
            );
            let _ = write!(groups, "b::{module}::{}, ", upper(group));
        }
        consts.push_str("}\n");
        let _ = writeln!(
            out,
            "/// `{name}` ({}).\npub static {name}: BitsDef = BitsDef {{ name: {name:?}, size: {size}, fields: &[{groups}], source: {:?}, note: {:?} }};",
            doc(text(&row, "source")),
            text(&row, "source"),
            text(&row, "note")
        );
        let _ = write!(list, "&packed::{name}, ");
        names.insert(name);
    }
    let _ = writeln!(
        out,
        "}}\n/// All packed bytes and words.\npub static PACKED: &[&BitsDef] = &[{list}];\n\
         /// Bit groups of the packed bytes: `b::matmul_flags::SEED_MODE`.\npub mod b {{\n{consts}}}"
    );
    names
}

struct Types {
    enums: BTreeSet<String>,
    bits: BTreeSet<String>,
}

impl Types {
    /// The `FieldType` expression of a type name.
    fn expr(&self, ty: &str) -> String {
        if let Some((elem, count)) = ty.strip_suffix(']').and_then(|t| t.split_once('[')) {
            if elem == "char" {
                return format!("FieldType::Char({count})");
            }
            return format!("FieldType::Array(&{}, {count})", self.expr(elem));
        }
        let simple = match ty {
            "u8" => "U8",
            "u16" => "U16",
            "u32" => "U32",
            "u64" => "U64",
            "i8" => "I8",
            "i16" => "I16",
            "i32" => "I32",
            "f32" => "F32",
            "bool" => "Bool",
            "opcode" => "Opcode",
            "res" => "Reserved",
            "opaque" => "Opaque",
            "DTYPE" | "V1_DTYPE" => "Dtype",
            "DTYPE_PAIR" => "DtypePair",
            "REG_NUM" | "FILL_REG" => "Reg",
            "ADDR4" => "Addr4",
            "ADDR8" => "Addr8",
            "PARTITION_OFFSET" | "TPBADDR" => "PartitionOffset",
            "NEURON_ADDR" => "NeuronAddr",
            "IMM" => "Imm",
            "IMM64" => "Imm64",
            "ALU_IMMEDIATE" => "AluImmediate",
            "MOVE_IMMEDIATE" => "MoveImmediate",
            "MEM2D_DATA" => "Mem2dData",
            "TENSOR_SHAPE_DATA" => "ShapeData",
            "CCINST" => "CcInst",
            "DMA_DESC_IMM" => "DmaDesc",
            "CUSTOM_OP_ARG_UNION" => "CustomArg",
            "DATA4D" => "Pattern(PatternKind::Data4d)",
            "MXMEM_PATTERN1D" => "Pattern(PatternKind::Mx)",
            _ => "",
        };
        if !simple.is_empty() {
            return format!("FieldType::{simple}");
        }
        for (prefix, kind) in [("TENSOR", "Tensor"), ("MEM_PATTERN", "Mem")] {
            if let Some(n) = ty.strip_prefix(prefix).and_then(|r| r.strip_suffix('D')) {
                return format!("FieldType::Pattern(PatternKind::{kind}({n}))");
            }
        }
        if self.enums.contains(ty) {
            return format!("FieldType::Enum(&enums::{ty})");
        }
        if self.bits.contains(ty) {
            return format!("FieldType::Bits(&packed::{ty})");
        }
        panic!("unknown field type {ty}");
    }
}

fn head(events: &str) -> Vec<FieldRow> {
    let row = |offset, size, name: &str, ty: &str| FieldRow {
        offset,
        size,
        name: name.into(),
        ty: ty.into(),
        before_v4: None,
        meaning: String::new(),
    };
    let v1 = events == "v1";
    let mut rows = vec![
        row(0, 1, "opcode", "opcode"),
        row(1, 1, "inst_word_len", "u8"),
        row(2, 1, "debug_cmd", if v1 { "u8" } else { "DEBUG_CMD_LEVELS" }),
        row(3, 1, "debug_hint", "u8"),
    ];
    match events {
        "v1" => rows.extend([
            row(4, 1, "wait_event_mode", "V1_WAIT_MODE"),
            row(5, 1, "wait_event_idx", "u8"),
            row(6, 1, "set_event_mode", "V1_SET_MODE"),
            row(7, 1, "set_event_idx", "u8"),
        ]),
        "v2" => rows.extend([
            row(4, 1, "wait_mode", "WAIT_MODE"),
            row(5, 1, "wait_idx", "u8"),
            row(6, 1, "update_mode", "UPDATE_MODE"),
            row(7, 1, "update_idx", "u8"),
            row(8, 4, "semaphore_value", "u32"),
        ]),
        "none" => {}
        other => panic!("events {other}"),
    }
    rows
}

fn structs(tables: &Path) -> Vec<StructRow> {
    let mut all = Vec::new();
    for table in STRUCT_FILES.iter().flat_map(|f| rows(&load(tables, f), "struct")) {
        let name = text(&table, "name").to_string();
        let events = text(&table, "events").to_string();
        let mut fields = head(&events);
        for line in text(&table, "fields").lines().filter(|l| !l.trim().is_empty()) {
            let (words, meaning) = split_remark(line);
            let mut words = words.split_whitespace();
            let mut next = || words.next().unwrap_or_else(|| panic!("{name}: {line}"));
            let (offset, size) = (next().parse().unwrap(), next().parse().unwrap());
            let (field, ty) = (next().to_string(), next().to_string());
            let before_v4 = words.next().map(|w| {
                w.strip_prefix("<v4:").unwrap_or_else(|| panic!("{name}: {line}")).to_string()
            });
            fields.push(FieldRow {
                offset,
                size,
                name: field,
                ty,
                before_v4,
                meaning: meaning.into(),
            });
        }
        let gens = gens(text(&table, "gens"));
        check_tiling(&name, &fields);
        all.push(StructRow { table, name, gens, wide: false, events, fields });
    }
    add_wide_forms(&mut all);
    all
}

fn check_tiling(name: &str, fields: &[FieldRow]) {
    let mut at = 0;
    let mut seen = BTreeSet::new();
    for f in fields {
        assert_eq!(f.offset, at, "struct {name}: field {} does not follow its predecessor", f.name);
        assert!(seen.insert(&f.name), "struct {name}: field {} twice", f.name);
        at += f.size;
    }
    assert_eq!(at, 64, "struct {name} has {at} bytes");
}

/// V1 structs without a v2 form: events block of 8 bytes, payload four bytes later, four bytes
/// less of the trailing field.
fn add_wide_forms(all: &mut Vec<StructRow>) {
    let mut extra = Vec::new();
    for s in all.iter().filter(|s| s.gens == 1) {
        if all.iter().any(|o| o.name == s.name && o.gens & 2 != 0) {
            continue;
        }
        let mut fields = head("v2");
        fields.extend(s.fields.iter().filter(|f| f.offset >= 8).cloned().map(|mut f| {
            f.offset += 4;
            f
        }));
        let last = fields.last_mut().unwrap();
        assert!(last.size > 4, "struct {}: no room for the wide form", s.name);
        last.size -= 4;
        check_tiling(&s.name, &fields);
        extra.push(StructRow {
            table: s.table.clone(),
            name: s.name.clone(),
            gens: 0,
            wide: true,
            events: "v2".into(),
            fields,
        });
    }
    all.extend(extra);
}

fn emit_structs(structs: &[StructRow], types: &Types, out: &mut String) {
    out.push_str("/// Every operand struct, one entry per distinct form.\npub static STRUCTS: &[StructDef] = &[\n");
    for s in structs {
        let t = &s.table;
        let events = match s.events.as_str() {
            "v1" => "V1",
            "v2" => "V2",
            _ => "None",
        };
        let payload = match s.events.as_str() {
            "v1" => 8,
            "v2" => 12,
            _ => 4,
        };
        let spec = t.get("spec").map_or(String::new(), |v| {
            v.as_array().unwrap().iter().map(|n| format!("{}, ", n.as_integer().unwrap())).collect()
        });
        let _ = writeln!(
            out,
            "StructDef {{ name: {:?}, also: {:?}, generations: GenSet({}), wide_v1: {}, pseudo: {}, \
             events: EventsKind::{events}, payload_offset: {payload}, spec: &[{spec}], status: {:?}, \
             source: {:?}, note: {:?}, fields: &[",
            s.name,
            text(t, "also"),
            s.gens,
            s.wide,
            t.get("pseudo").and_then(Value::as_bool).unwrap_or(false),
            text(t, "status"),
            text(t, "source"),
            text(t, "note"),
        );
        for f in &s.fields {
            let before = f
                .before_v4
                .as_ref()
                .map_or("None".to_string(), |t| format!("Some({})", types.expr(t)));
            let _ = writeln!(
                out,
                "FieldDef {{ name: {:?}, offset: {}, size: {}, ty: {}, ty_before_v4: {before}, meaning: {:?} }},",
                f.name,
                f.offset,
                f.size,
                types.expr(&f.ty),
                f.meaning
            );
        }
        out.push_str("] },\n");
    }
    out.push_str("];\n");
}

/// A field name of a struct name: its size and, per layout, offset and pattern kind.
struct Place {
    size: usize,
    offsets: [u8; 7],
    patterns: [Option<String>; 7],
    meaning: String,
}

/// One constant per field name of each struct name, with its place in every layout.
fn emit_fields(structs: &[StructRow], types: &Types, out: &mut String) {
    let mut modules: BTreeMap<String, BTreeMap<String, Place>> = BTreeMap::new();
    for s in structs {
        let module = modules.entry(s.name.to_ascii_lowercase()).or_default();
        let has_v2 = structs.iter().any(|o| o.name == s.name && o.gens & 2 != 0);
        for f in &s.fields {
            if matches!(f.ty.as_str(), "res" | "opaque") {
                continue;
            }
            let place = module.entry(f.name.clone()).or_insert_with(|| Place {
                size: f.size,
                offsets: [0xFF; 7],
                patterns: Default::default(),
                meaning: f.meaning.clone(),
            });
            assert_eq!(place.size, f.size, "{}.{} has two sizes", s.name, f.name);
            for layout in 0..7 {
                let here = match layout {
                    WIDE => s.wide || (has_v2 && s.gens & 2 != 0),
                    g => s.gens & (1 << g) != 0,
                };
                if here {
                    place.offsets[layout] = u8::try_from(f.offset).unwrap();
                    let early = layout < 3 || layout == WIDE;
                    let ty = f.before_v4.as_ref().filter(|_| early).unwrap_or(&f.ty);
                    let expr = types.expr(ty);
                    place.patterns[layout] = expr
                        .strip_prefix("FieldType::Pattern(")
                        .and_then(|e| e.strip_suffix(')'))
                        .map(str::to_string);
                }
            }
        }
    }
    out.push_str("/// Fields by struct: `f::s3d3_mm::IN_DTYPE`, for [`Inst::get`](super::inst::Inst::get).\npub mod f {\n");
    for (module, fields) in modules {
        let _ = writeln!(
            out,
            "/// Fields of `{}`.\npub mod {module} {{\n#[allow(unused_imports)]\nuse super::super::{{Field, PatternKind}};",
            upper(&module)
        );
        for (name, place) in fields {
            let kinds: Vec<String> = place
                .patterns
                .iter()
                .map(|p| p.as_ref().map_or("None".into(), |k| format!("Some({k})")))
                .collect();
            let kinds = if kinds.iter().all(|k| k == "None") {
                "[None; 7]".to_string()
            } else {
                format!("[{}]", kinds.join(", "))
            };
            let _ = writeln!(
                out,
                "/// {}\npub const {}: Field = Field {{ name: {name:?}, size: {}, offsets: {:?}, patterns: {kinds} }};",
                doc(&place.meaning),
                upper(&name),
                place.size,
                place.offsets,
            );
        }
        out.push_str("}\n");
    }
    out.push_str("}\n");
}

fn csv_rows(tables: &Path, file: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(tables.join(file)).unwrap();
    reader.deserialize().map(|r| r.unwrap()).collect()
}

fn struct_list(row: &BTreeMap<String, String>, names: &BTreeSet<String>) -> String {
    row["structs"]
        .split('|')
        .filter(|s| !s.is_empty())
        .map(|s| {
            assert!(names.contains(s), "{}: no struct {s}", row["name"]);
            format!("{s:?}, ")
        })
        .collect()
}

fn home(name: &str) -> &str {
    match name {
        "PE" => "Pe",
        "ACT" => "Act",
        "POOL" => "Pool",
        "DVE" => "Dve",
        "SEQ" | "ALL" => "Seq",
        "DMA" => "Dma",
        "PSEUDO" | "RT" => "Pseudo",
        "SIM" => "Sim",
        "NONE" => "None",
        other => panic!("engine {other}"),
    }
}

/// The fields `does` and `open` of the opcode `name`; V1 may have an entry of its own.
fn meaning(semantics: &Table, name: &str, v1: bool) -> String {
    let own = semantics.get("v1").and_then(Value::as_table).and_then(|t| t.get(name));
    let entry = own.filter(|_| v1).or_else(|| semantics.get(name)).and_then(Value::as_table);
    let entry = entry.unwrap_or_else(|| panic!("semantics.toml: no entry for {name}"));
    let open: Vec<&str> = match entry.get("open") {
        Some(Value::Array(list)) => list.iter().map(|v| v.as_str().expect("text")).collect(),
        _ => Vec::new(),
    };
    format!("does: {:?}, open: &{open:?}", text(entry, "does"))
}

fn opcodes(tables: &Path, names: &BTreeSet<String>, semantics: &Table, out: &mut String) {
    let mut consts = String::new();
    out.push_str("/// The opcodes of v2..v5, by byte.\npub static OPCODES: &[OpcodeDef] = &[\n");
    for row in csv_rows(tables, "opcodes.csv") {
        let presence = |column: &str| match row[column].as_str() {
            "Y" => "Presence::Maintained",
            "n" => "Presence::Dormant",
            "." => "Presence::Unflagged",
            "-" => "Presence::Absent",
            other => panic!("presence {other}"),
        };
        let class = match row["class"].as_str() {
            "compute" => "Compute",
            "control" => "Control",
            "sync" => "Sync",
            "dma" => "Dma",
            "pseudo" => "Pseudo",
            "sentinel" => "Sentinel",
            other => panic!("class {other}"),
        };
        let _ = writeln!(
            out,
            "OpcodeDef {{ byte: {}, name: {:?}, engine: Home::{}, engines: {:?}, class: Class::{class}, struct_names: &[{}], \
             presence: [Presence::Absent, {}, {}, {}, {}, {}], page: {:?}, notes: {:?}, {} }},",
            row["byte"],
            row["name"],
            home(&row["engine"]),
            row["engines"],
            struct_list(&row, names),
            presence("v2"),
            presence("v3"),
            presence("v4"),
            presence("v4"),
            presence("v5"),
            row["wiki_page"],
            row["notes"],
            meaning(semantics, &row["name"], false),
        );
        let _ = writeln!(
            consts,
            "/// `{}`\npub const {}: u8 = {};",
            row["name"], row["name"], row["byte"]
        );
    }
    let _ =
        writeln!(out, "];\n/// Opcode bytes of v2..v5: `op::MATMUL`.\npub mod op {{\n{consts}}}");
}

fn v1_opcodes(tables: &Path, names: &BTreeSet<String>, semantics: &Table, out: &mut String) {
    let mut consts = String::new();
    out.push_str("/// The opcodes of V1, by byte.\npub static V1_OPCODES: &[OpcodeDef] = &[\n");
    for row in csv_rows(tables, "v1_opcodes.csv") {
        let class = match (row["scope"].as_str(), row["name"].as_str()) {
            ("runtime", _) => "Pseudo",
            ("simulator", _) => "Simulator",
            ("sentinel", _) => "Sentinel",
            (_, n) if n.starts_with("EVENT") || n.starts_with("SEMAPHORE") => "Sync",
            _ if row["engine"] == "ALL" => "Control",
            _ => "Compute",
        };
        let _ = writeln!(
            out,
            "OpcodeDef {{ byte: {}, name: {:?}, engine: Home::{}, engines: {:?}, class: Class::{class}, struct_names: &[{}], \
             presence: [Presence::Unflagged, Presence::Absent, Presence::Absent, Presence::Absent, Presence::Absent, Presence::Absent], \
             page: \"generations/cross-gen-opcode-diff 5.3\", notes: {:?}, {} }},",
            row["byte"],
            row["name"],
            home(&row["engine"]),
            row["engine"],
            struct_list(&row, names),
            row["notes"],
            meaning(semantics, &row["name"], true),
        );
        let _ = writeln!(
            consts,
            "/// `{}`\npub const {}: u8 = {};",
            row["name"], row["name"], row["byte"]
        );
    }
    let _ = writeln!(
        out,
        "];\n/// Opcode bytes of V1: `op_v1::EVENT_SET`.\npub mod op_v1 {{\n{consts}}}"
    );
}

fn sp_opcodes(tables: &Path, out: &mut String) {
    let mut consts = String::new();
    out.push_str(
        "/// The opcodes of the V1 SP sequencer.\npub static SP_OPCODES: &[SpOpcodeDef] = &[\n",
    );
    for row in csv_rows(tables, "v1_sp_opcodes.csv") {
        let mut at = 1;
        let fields: String = row["layout"]
            .split_whitespace()
            .map(|f| {
                let p: Vec<_> = f.split(':').collect();
                let (offset, size): (u8, u8) = (p[0].parse().unwrap(), p[1].parse().unwrap());
                assert_eq!(offset, at, "SP {}", row["name"]);
                at += size;
                format!("SpField {{ name: {:?}, offset: {offset}, size: {size} }}, ", p[2])
            })
            .collect();
        assert_eq!(at, 8, "SP {}", row["name"]);
        let _ = writeln!(
            out,
            "SpOpcodeDef {{ value: {}, name: {:?}, group: {:?}, meaning: {:?}, fields: &[{fields}] }},",
            row["value"], row["name"], row["group"], row["meaning"]
        );
        let _ = writeln!(
            consts,
            "/// `{}`\npub const {}: u8 = {};",
            row["name"], row["name"], row["value"]
        );
    }
    let _ = writeln!(
        out,
        "];\n/// Opcodes of the V1 SP sequencer: `op_sp::BRANCH_U`.\npub mod op_sp {{\n{consts}}}"
    );
}

fn classes(tables: &Path, out: &mut String) {
    let table = load(tables, "classes.toml");
    let mut codes: BTreeMap<String, BTreeMap<String, u8>> = BTreeMap::new();
    for row in rows(&load(tables, "enums_core.toml"), "enum") {
        let map = codes.entry(text(&row, "name").into()).or_default();
        for line in text(&row, "values").lines() {
            let mut w = line.split_whitespace();
            if let (Some(v), Some(n)) = (w.next(), w.next()) {
                map.insert(n.into(), u8::from_str_radix(&v[2..], 16).unwrap());
            }
        }
    }
    out.push_str(
        "/// Named sets of operators and dtypes, as statics.\npub mod class {\nuse super::*;\n",
    );
    for (key, of) in [("alu_class", "ALU_OP"), ("dtype_class", "DTYPE")] {
        for row in rows(&table, key) {
            let name = text(&row, "name");
            let mut members: Vec<u8> =
                text(&row, "members").split_whitespace().map(|m| codes[of][m]).collect();
            members.sort_unstable();
            let prefix =
                if key == "dtype_class" && !name.starts_with("is_") { "DTYPE_" } else { "" };
            let _ = writeln!(
                out,
                "/// {} of `{of}`.\npub static {prefix}{}: ClassDef = ClassDef {{ name: {name:?}, members: &{members:?}, source: {:?}, note: {:?} }};",
                if name.starts_with("is_") { "Members" } else { "A set" },
                upper(name),
                text(&row, "source"),
                text(&row, "note"),
            );
        }
    }
    out.push_str("}\n");
}

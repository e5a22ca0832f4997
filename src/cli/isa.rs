//! `tpbemu isa`: prints what the instruction-set tables know.

use std::fmt::Write as _;

use crate::error::{Error, ErrorClass, Result};
use crate::isa::validate::{self, opcode_rule_names};
use crate::isa::{
    BitsDef, Engine, EnumDef, FieldType, Generation, Inst, Layout, OpcodeDef, PatternKind,
    Presence, SP_OPCODES, STRUCTS, SpOpcodeDef, StructDef, enum_by_name, opcode_by_name,
    opcode_table, packed_by_name, struct_in,
};

/// Prints opcodes, structs, enums, packed bytes and legality rules.
#[derive(clap::Args, Debug)]
pub struct IsaArgs {
    /// Generation: v1, v2, v3, v4, v4+, v5 or a codename. All of them if left out.
    #[arg(long = "gen", value_name = "GEN")]
    generation: Option<Generation>,
    /// What to print: an opcode (0x02, MATMUL), a struct (S3D3_MM), an enum (ALU_OP), a packed
    /// byte (MATMUL_FLAGS), a rule, or `structs`, `enums`, `rules`, `sp` for the lists. The
    /// opcode list if left out.
    query: Option<String>,
    /// Print how far the emulator is with each opcode.
    #[arg(long)]
    coverage: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// The query names nothing.
pub fn run(args: &IsaArgs) -> Result<()> {
    if args.coverage {
        return super::print(&crate::machine::coverage::text(args.generation));
    }
    super::print(&answer(args.generation, args.query.as_deref())?)
}

/// The text for one query.
///
/// # Errors
/// The query names nothing.
pub fn answer(generation: Option<Generation>, query: Option<&str>) -> Result<String> {
    let list =
        || -> Vec<Generation> { generation.map_or_else(|| Generation::ALL.to_vec(), |g| vec![g]) };
    let Some(query) = query else { return Ok(opcode_list(generation)) };
    match query {
        "structs" => return Ok(struct_list(generation)),
        "enums" => return Ok(enum_list()),
        "rules" => return Ok(rule_list()),
        "sp" => return Ok(sp_list()),
        _ => {}
    }
    let mut found = String::new();
    let byte = parse_byte(query);
    let mut seen: Vec<*const OpcodeDef> = Vec::new();
    for g in list() {
        let def = match byte {
            Some(byte) => opcode_table(g)
                .iter()
                .find(|d| d.byte == byte && d.presence_in(g) != Presence::Absent),
            None => opcode_by_name(g, query),
        };
        let Some(def) = def else { continue };
        if !seen.iter().any(|s| std::ptr::eq(*s, def)) {
            seen.push(def);
            found += &opcode_page(def, generation);
        }
    }
    if let Some(byte) = byte {
        if found.is_empty() {
            let g = generation.unwrap_or(Generation::V5);
            return Err(Inst::empty(g, byte).def().err().unwrap_or_else(|| not_found(query)));
        }
        return Ok(found);
    }
    for s in STRUCTS.iter().filter(|s| {
        (s.name.eq_ignore_ascii_case(query) || s.also.eq_ignore_ascii_case(query))
            && generation.is_none_or(|g| s.generations.contains(g))
    }) {
        found += &struct_page(s);
    }
    if let Some(e) = enum_by_name(query) {
        found += &enum_page(e, generation);
    }
    if let Some(p) = packed_by_name(query) {
        found += &packed_page(p);
    }
    for rule in validate::rules_list().filter(|r| r.name.eq_ignore_ascii_case(query)) {
        let _ = writeln!(found, "rule {}\n  {}\n  (wiki: {})", rule.name, rule.what, rule.page);
    }
    for d in SP_OPCODES.iter().filter(|d| d.name.eq_ignore_ascii_case(query)) {
        found += &sp_page(d);
    }
    if found.is_empty() { Err(not_found(query)) } else { Ok(found) }
}

fn not_found(query: &str) -> Error {
    Error::new(ErrorClass::ConfigError, format!("the tables have nothing called `{query}`"))
        .help("`tpbemu isa` lists the opcodes; `structs`, `enums`, `rules` and `sp` the rest")
}

fn parse_byte(text: &str) -> Option<u8> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn presence_mark(p: Presence) -> &'static str {
    match p {
        Presence::Absent => "-",
        Presence::Maintained => "Y",
        Presence::Dormant => "n",
        Presence::Unflagged => ".",
    }
}

fn opcode_list(generation: Option<Generation>) -> String {
    let mut out = String::from(
        "Y maintained, n present but disabled, . present without a flag, - absent\n\n",
    );
    let tables: &[Generation] = match generation {
        Some(Generation::V1) => &[Generation::V1],
        Some(_) => &[Generation::V5],
        None => &[Generation::V1, Generation::V5],
    };
    for table in tables {
        let v1 = *table == Generation::V1;
        let columns: &[Generation] = if v1 { &Generation::ALL[..1] } else { &Generation::ALL[1..] };
        let _ = write!(out, "byte  {:<36}{:<8}{:<24}", "name", "engine", "struct");
        for g in columns {
            let _ = write!(out, "{g:<4}");
        }
        out.push('\n');
        let mut count = 0;
        for d in opcode_table(*table) {
            if generation.is_some_and(|g| d.presence_in(g) == Presence::Absent) {
                continue;
            }
            count += 1;
            let structs = match d.struct_names {
                [] => "(not published)",
                [one] => one,
                [one, ..] => one.split('_').next().unwrap_or(one),
            };
            let engine = if v1 { d.engines } else { d.engine.name() };
            let _ = write!(out, "0x{:02x}  {:<36}{engine:<8}{structs:<24}", d.byte, d.name);
            for g in columns {
                let _ = write!(out, "{:<4}", presence_mark(d.presence_in(*g)));
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        let _ = writeln!(out, "{count} opcodes\n");
    }
    out
}

fn opcode_page(d: &'static OpcodeDef, generation: Option<Generation>) -> String {
    let mut out = String::new();
    let v1 = d.presence_in(Generation::V1) != Presence::Absent;
    let _ = writeln!(out, "opcode 0x{:02x} {}{}", d.byte, d.name, if v1 { " (v1)" } else { "" });
    let _ = writeln!(out, "  does        {}", d.does);
    let _ = writeln!(out, "  class       {:?}", d.class);
    let _ = writeln!(out, "  engine      {} ({})", d.engine.name(), d.engines);
    let marks: Vec<String> = Generation::ALL
        .iter()
        .filter(|g| d.presence_in(**g) != Presence::Absent)
        .map(|g| format!("{g} {}", presence_mark(d.presence_in(*g))))
        .collect();
    let _ = writeln!(out, "  present     {}", marks.join(", "));
    for g in d.generations().iter().filter(|g| generation.is_none_or(|x| x == *g)) {
        let legal: Vec<String> = Engine::ALL
            .into_iter()
            .filter(|e| validate::queue_legal(d, g, *e))
            .map(|e| e.to_string())
            .collect();
        let legal = if legal.is_empty() { "none".to_string() } else { legal.join(", ") };
        let _ = writeln!(out, "  streams {g:<4}{legal}");
    }
    let page = if d.page == "NONE" { "none describes the operation" } else { d.page };
    let _ = writeln!(out, "  page        wiki: {page}");
    if !d.notes.is_empty() {
        let _ = writeln!(out, "  notes       {}", d.notes);
    }
    let names = opcode_rule_names(d);
    if !names.is_empty() {
        let _ = writeln!(out, "  rules       {}", names.join(", "));
    }
    out.push('\n');
    let mut seen: Vec<*const StructDef> = Vec::new();
    for g in d.generations().iter().filter(|g| generation.is_none_or(|x| x == *g)) {
        for spec in 0..=9 {
            let Ok(s) = struct_in(Layout::of(g), d, spec) else { continue };
            if !seen.iter().any(|p| std::ptr::eq(*p, s)) {
                seen.push(s);
                out += &struct_page(s);
            }
        }
    }
    out
}

fn struct_list(generation: Option<Generation>) -> String {
    let mut out = String::new();
    for s in STRUCTS
        .iter()
        .filter(|s| !s.wide_v1 && generation.is_none_or(|g| s.generations.contains(g)))
    {
        let _ = writeln!(out, "{:<28}{:<8} {}", s.name, s.generations.to_string(), s.status);
    }
    out
}

fn struct_page(s: &StructDef) -> String {
    let mut out = String::new();
    let gens = if s.wide_v1 { "v1, 8-byte events".to_string() } else { s.generations.to_string() };
    let _ = write!(out, "struct {} ({gens})", s.name);
    if !s.also.is_empty() {
        let _ = write!(out, ", also {}", s.also);
    }
    if !s.spec.is_empty() {
        let _ = write!(out, ", extended opcode {:?}", s.spec);
    }
    let _ = writeln!(out, ": {}", s.status);
    let _ = writeln!(out, "  ({})", s.source);
    if !s.note.is_empty() {
        let _ = writeln!(out, "  {}", s.note);
    }
    for f in s.fields {
        let mut ty = type_name(f.ty);
        if let Some(before) = f.ty_before_v4 {
            let _ = write!(ty, " (before v4 {})", type_name(before));
        }
        let meaning = f.meaning;
        let line = format!("  {:>2} +{:<3}{:<26}{ty:<26}{meaning}", f.offset, f.size, f.name);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push('\n');
    out
}

/// Name of a field type as the tables write it.
fn type_name(ty: FieldType) -> String {
    match ty {
        FieldType::Array(elem, n) => format!("{}[{n}]", type_name(*elem)),
        FieldType::Char(n) => format!("char[{n}]"),
        FieldType::Enum(e) => e.name.to_string(),
        FieldType::Bits(b) => b.name.to_string(),
        FieldType::Pattern(PatternKind::Tensor(n)) => format!("TENSOR{n}D"),
        FieldType::Pattern(PatternKind::Mem(n)) => format!("MEM_PATTERN{n}D"),
        FieldType::Pattern(PatternKind::Mx) => "MXMEM_PATTERN1D".into(),
        FieldType::Pattern(PatternKind::Data4d) => "DATA4D".into(),
        FieldType::Dtype => "DTYPE".into(),
        FieldType::DtypePair => "DTYPE_PAIR".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn enum_list() -> String {
    let mut out = String::new();
    for e in crate::isa::ENUMS {
        let n = e.values.len();
        let _ = writeln!(out, "{:<32}{:<8}{n:>3} members", e.name, e.generations.to_string());
    }
    out
}

fn enum_page(e: &EnumDef, generation: Option<Generation>) -> String {
    let mut out = format!("enum {} ({}): {}\n  ({})\n", e.name, e.generations, e.status, e.source);
    if !e.note.is_empty() {
        let _ = writeln!(out, "  {}", e.note);
    }
    for (i, (value, name)) in e.values.iter().enumerate() {
        let gens = e.value_generations[i];
        if generation.is_some_and(|g| !gens.contains(g)) {
            continue;
        }
        let mut line = format!("  0x{value:02x} {name:<30}");
        if gens != e.generations {
            let _ = write!(line, "{gens:<8}");
        }
        let _ = write!(line, "{}", e.value_meanings[i]);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push('\n');
    out
}

fn packed_page(p: &BitsDef) -> String {
    let mut out = format!("packed {} ({} bytes)\n  ({})\n", p.name, p.size, p.source);
    if !p.note.is_empty() {
        let _ = writeln!(out, "  {}", p.note);
    }
    for b in p.fields {
        let bits = if b.width == 1 {
            b.bit.to_string()
        } else {
            format!("{}:{}", b.bit + b.width - 1, b.bit)
        };
        let _ = writeln!(out, "{}", format!("  {bits:<7}{:<30}{}", b.name, b.meaning).trim_end());
    }
    out.push('\n');
    out
}

fn rule_list() -> String {
    let mut out = String::new();
    for r in validate::rules_list() {
        let _ = writeln!(out, "{}\n    {}\n    (wiki: {})", r.name, r.what, r.page);
    }
    out
}

fn sp_list() -> String {
    SP_OPCODES.iter().map(sp_page).collect()
}

fn sp_page(d: &SpOpcodeDef) -> String {
    let operands: Vec<String> = d
        .fields
        .iter()
        .filter(|f| f.name != "reserved")
        .map(|f| format!("{} @{}+{}", f.name, f.offset, f.size))
        .collect();
    format!(
        "SP 0x{:02x} {:<20}{}\n    operands (OPEN): {}\n",
        d.value,
        d.name,
        d.meaning,
        if operands.is_empty() { "none".into() } else { operands.join(", ") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_count_what_the_tables_have() {
        let all = answer(None, None).unwrap();
        assert!(all.contains("44 opcodes") && all.contains("172 opcodes"), "{all}");
        let v3 = answer(Some(Generation::V3), None).unwrap();
        assert!(v3.contains("150 opcodes") && !v3.contains("LDWEIGHTS_MX"));
    }

    #[test]
    fn every_name_has_a_page() {
        for g in Generation::ALL {
            for d in opcode_table(g) {
                if d.presence_in(g) != Presence::Absent {
                    let page = answer(Some(g), Some(d.name)).unwrap();
                    assert!(page.contains(&format!("0x{:02x} {}", d.byte, d.name)));
                }
            }
        }
        for s in STRUCTS {
            assert!(answer(None, Some(s.name)).unwrap().contains(&format!("struct {}", s.name)));
        }
        for e in crate::isa::ENUMS {
            assert!(answer(None, Some(e.name)).unwrap().contains(&format!("enum {}", e.name)));
        }
        for r in validate::rules_list() {
            assert!(answer(None, Some(r.name)).unwrap().contains(r.what));
        }
        assert!(answer(None, Some("sp")).unwrap().contains("BRANCH_C_CNTR_NZ"));
    }

    #[test]
    fn one_opcode_shows_fields_and_streams() {
        let page = answer(Some(Generation::V4), Some("0x02")).unwrap();
        assert!(page.contains("streams v4  PE"), "{page}");
        assert!(page.contains("40 +1  out_dtype"), "{page}");
        assert!(page.contains("pe_col_group"), "{page}");
        assert!(answer(Some(Generation::V3), Some("0x80")).is_err());
        assert!(answer(None, Some("no_such_thing")).is_err());
    }
}

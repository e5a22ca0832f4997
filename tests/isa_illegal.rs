//! The illegal cases of each opcode: from a legal word, one field is broken at a time, and which
//! rules that breaks is kept in `isa_illegal.txt`. `UPDATE=1` writes the list anew; a rule that
//! stops guarding an opcode shows as a difference.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::validate::{opcode_rule_names, rules_list, validate, validate_all};
use tpbemu::isa::{
    Class, Engine, FieldDef, FieldType, Generation, Inst, OpcodeDef, Pattern, Presence,
    opcode_by_name, opcode_table,
};
use words::random::{executable, patterns, put_pattern};
use words::{assign, base, home_engine, lines};

/// Values for a field of one byte.
const BYTES: [u64; 30] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 23, 31, 33, 48, 63, 64, 65,
    127, 128, 129, 255,
];
/// Values for a wider one.
const WORDS: [u64; 16] = [
    0,
    1,
    2,
    3,
    5,
    8,
    63,
    64,
    65,
    0x101,
    0xFFFF,
    0x1_0000,
    0x3F80_0000,
    0x7FC0_0000,
    0x8000_0000,
    0xFFFF_FFFF,
];

/// Every word that differs from `inst` in one field.
fn broken(inst: &Inst) -> Vec<Inst> {
    let mut out = Vec::new();
    let Ok(layout) = inst.layout() else { return out };
    for field in layout.fields.iter().filter(|f| f.offset > 0) {
        if let FieldType::Pattern(_) = field.ty_in(inst.form()) {
            continue;
        }
        let unit = match field.ty_in(inst.form()) {
            FieldType::Array(_, n) => usize::from(field.size / n).min(8),
            _ => usize::from(field.size).min(8),
        };
        let places = if usize::from(field.size) >= 2 * unit { 2 } else { 1 };
        for place in 0..places {
            let at = usize::from(field.offset) + place * unit;
            let values: &[u64] = if unit == 1 { &BYTES } else { &WORDS };
            for value in values {
                let mut word = *inst;
                word.bytes[at..at + unit].copy_from_slice(&value.to_le_bytes()[..unit]);
                out.push(word);
            }
        }
        if let FieldType::DtypePair = field.ty_in(inst.form()) {
            let at = usize::from(field.offset);
            for code in 0..16 {
                for byte in [code | code << 4, inst.bytes[at] & 0xF0 | code] {
                    let mut word = *inst;
                    word.bytes[at] = byte;
                    out.push(word);
                }
            }
        }
    }
    for (field, kind, pattern) in patterns(inst) {
        let mut put = |p: &Pattern| {
            let mut word = *inst;
            put_pattern(&mut word, field, kind, p);
            out.push(word);
        };
        if let Pattern::Tensor(t) = &pattern {
            for d in 0..t.dims.len() {
                for n in [0, 1, 2, 3, 5, 9, 31, 64, 600, 20000] {
                    let mut t = t.clone();
                    t.dims[d].1 = n;
                    put(&Pattern::Tensor(t));
                }
                for step in [0, 2, -1, 7] {
                    let mut t = t.clone();
                    t.dims[d].0 = step;
                    put(&Pattern::Tensor(t));
                }
            }
        }
        let at = usize::from(field.offset);
        let old = inst.u32(at);
        for word in [
            old.wrapping_add(1),
            old.wrapping_add(2),
            old ^ 0x0200_0000,
            0,
            0x4,
            0x1000,
            0x0200_0800,
            0x0240_0000,
            0x0037_FFFC,
            0x0040_0000,
            0x0080_0000,
            0x0100_0000,
            0x1FFF_FFFC,
            0x2000_0000,
            0x8000_0000,
            0x8000_0140,
            0xC000_0102,
        ] {
            let mut w = *inst;
            w.bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            out.push(w);
        }
    }
    out
}

/// Legal words of an opcode: the plain one, and those that the table of rules has for its struct.
fn legal(def: &OpcodeDef, generation: Generation, spec: u8, engine: Engine) -> Vec<Inst> {
    let plain = base(generation, def.byte, spec);
    let mut out = vec![plain];
    for (_, line) in lines("rule") {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let place: Vec<&str> = parts[1].split_whitespace().collect();
        let (Ok(g), Some(name)) = (place[0].parse::<Generation>(), place.get(1)) else { continue };
        let same = opcode_by_name(g, name).is_some_and(|d| d.struct_names == def.struct_names)
            && (def.struct_names.len() == 1 || *name == def.name)
            && line.contains(&format!("spec{spec}")) == (spec > 0);
        if !same || parts[2].contains("engine=") || parts[2].contains("opcode=") {
            continue;
        }
        let fits = |text: &str| {
            text.split_whitespace().all(|w| {
                let name = w.split('=').next().unwrap();
                name.starts_with('#') || plain.by_name(name).is_some()
            })
        };
        for text in [parts[2].to_string(), format!("{} {}", parts[2], parts[3])] {
            if fits(&text) && !text.contains("engine=") && !text.contains("opcode=") {
                let mut word = plain;
                assign(&mut word, &text);
                out.push(word);
            }
        }
    }
    out.retain(|w| w.layout().is_ok());
    let mut seen = BTreeSet::new();
    out.retain(|w| seen.insert(w.bytes));
    // the words meant as illegal stay: they break their rule without any further change
    out.sort_by_key(|w| validate(w, engine, true).is_err());
    out
}

/// What the broken words of some opcodes showed.
#[derive(Default)]
struct Found {
    /// Rules broken, by opcode and generation.
    rules: BTreeMap<String, BTreeMap<Generation, BTreeSet<String>>>,
    by_struct: BTreeMap<&'static str, BTreeSet<String>>,
    cases: u64,
    wrong: Vec<String>,
}

impl Found {
    /// Breaks the legal words of `def` in every generation that has it.
    fn search(&mut self, table: Generation, def: &'static OpcodeDef) {
        let v1 = if table == Generation::V1 { "v1 " } else { "" };
        for g in def.generations().iter() {
            if def.presence_in(g) == Presence::Absent {
                continue;
            }
            let engine = home_engine(g, def.byte);
            for spec in 0..10u8 {
                let mut probe = Inst::empty(g, def.byte);
                probe.bytes[12] = spec;
                if spec > 0 && def.struct_names.len() < 2 || probe.layout().is_err() {
                    continue;
                }
                let name = format!("{v1}{}", def.name);
                let set = self.rules.entry(name).or_default().entry(g).or_default();
                let note = |word: &Inst, on: Engine, set: &mut BTreeSet<String>| {
                    validate_all(word, on, true).iter().for_each(|e| {
                        set.insert(e.rule.as_deref().unwrap_or("?").to_string());
                    });
                };
                for on in Engine::ALL {
                    note(&base(g, def.byte, spec), on, set);
                }
                for word in legal(def, g, spec, engine) {
                    if validate(&word, engine, true).is_err() {
                        note(&word, engine, set);
                        continue;
                    }
                    // what is wrong with a legal word in another engine's stream
                    for on in Engine::ALL {
                        note(&word, on, set);
                    }
                    for bad in broken(&word) {
                        if bad.bytes[0] != word.bytes[0] || bad.layout().is_err() {
                            continue;
                        }
                        let errors = validate_all(&bad, engine, true);
                        let Some(first) = errors.first() else { continue };
                        self.cases += 1;
                        if let Err(e) = validate(&bad, engine, true) {
                            // the error says which rule and which opcode
                            if e.class != ErrorClass::IllegalInstruction
                                || e.rule != first.rule
                                || !e.to_string().contains(def.name)
                            {
                                self.wrong.push(format!("{bad:?}: {e}"));
                            }
                        } else {
                            self.wrong.push(format!("{bad:?}: accepted alone, {first}"));
                        }
                        for e in &errors {
                            let rule = e.rule.as_deref().unwrap_or("?");
                            if !set.contains(rule) {
                                set.insert(rule.to_string());
                            }
                        }
                    }
                }
                let layout = base(g, def.byte, spec).layout().unwrap().name;
                self.by_struct.entry(layout).or_default().extend(set.iter().cloned());
            }
        }
    }

    fn merge(&mut self, other: Found) {
        self.rules.extend(other.rules);
        for (name, set) in other.by_struct {
            self.by_struct.entry(name).or_default().extend(set);
        }
        self.cases += other.cases;
        self.wrong.extend(other.wrong);
    }
}

#[test]
fn each_rule_guards_its_opcodes() {
    let all: Vec<(Generation, &'static OpcodeDef)> = [Generation::V1, Generation::V5]
        .into_iter()
        .flat_map(|table| opcode_table(table).iter().map(move |def| (table, def)))
        .filter(|(_, def)| !matches!(def.class, Class::Pseudo | Class::Sentinel | Class::Simulator))
        .collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results = Found::default();
    std::thread::scope(|s| {
        let list: Vec<_> = (0..workers)
            .map(|w| {
                let mine = all.iter().skip(w).step_by(workers);
                s.spawn(move || {
                    let mut found = Found::default();
                    mine.for_each(|(table, def)| found.search(*table, def));
                    found
                })
            })
            .collect();
        list.into_iter().for_each(|t| results.merge(t.join().unwrap()));
    });
    let Found { rules, by_struct, cases, wrong } = results;
    let found: BTreeMap<String, BTreeSet<String>> = rules
        .iter()
        .map(|(name, sets)| (name.clone(), sets.values().flatten().cloned().collect()))
        .collect();
    assert!(wrong.is_empty(), "{} of {cases}: {:#?}", wrong.len(), &wrong[..wrong.len().min(10)]);
    // rules that a struct is said to have and that no word here breaks: they belong to other
    // opcodes of the family that shares the list
    let mut silent: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for def in opcode_table(Generation::V5) {
        let probe = Inst::empty(def.generations().iter().last().unwrap(), def.byte);
        let Ok(layout) = probe.layout() else { continue };
        let Some(broken) = by_struct.get(layout.name) else { continue };
        if def.struct_names.len() == 1 {
            let quiet = opcode_rule_names(def).into_iter().filter(|r| !broken.contains(*r));
            silent.entry(layout.name).or_default().extend(quiet);
        }
    }
    silent.retain(|_, rules| !rules.is_empty());
    let mut text = String::new();
    for (name, all) in &found {
        let list: Vec<&str> = all.iter().map(String::as_str).collect();
        text += &format!("{name}: {}\n", list.join(" "));
        for (g, set) in &rules[name] {
            // what other generations refuse and this one does not
            let list: Vec<&str> = all.difference(set).map(String::as_str).collect();
            if !list.is_empty() {
                text += &format!("{name} not on {g}: {}\n", list.join(" "));
            }
        }
    }
    for (name, rules) in &silent {
        let list: Vec<&str> = rules.iter().copied().collect();
        text += &format!("listed for {name}, guards others: {}\n", list.join(" "));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isa_illegal.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let pairs: usize = found.values().map(BTreeSet::len).sum();
    println!("{cases} illegal words, {pairs} pairs of opcode and rule");
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<_> = text.lines().filter(|l| !have.lines().any(|h| h == *l)).collect();
    assert!(have == text, "isa_illegal.txt is stale (UPDATE=1 writes it): {changed:#?}");

    let all: BTreeSet<&String> = found.values().flatten().collect();
    let never: Vec<&str> = rules_list()
        .map(|r| r.name)
        .filter(|n| !all.iter().any(|a| a == n))
        .filter(|n| !["pseudo_not_lowered", "simulator_only", "dma_trigger_queue_name"].contains(n))
        .collect();
    assert!(never.is_empty(), "rules that guard nothing: {never:?}");
}

/// What only the run can see: an operand that leaves its partition is refused with a named rule by
/// every opcode that has operands in memory; codes of types that do not exist never panic.
#[test]
fn operands_outside_memory_are_refused() {
    let (mut refused, mut tame) = (BTreeMap::<String, u32>::new(), Vec::new());
    for subject in executable() {
        if !subject.on_data_path() {
            continue;
        }
        let start = subject.start();
        let engine = home_engine(subject.generation, subject.def.byte);
        for (field, kind, pattern) in patterns(&start) {
            let Pattern::Tensor(t) = pattern else { continue };
            let Some(d) = t.dims.iter().position(|d| d.1 > 1) else { continue };
            let mut far = t.clone();
            // the last element is beyond any partition
            far.dims[d].0 = i16::MAX;
            far.dims[d].1 = t.dims[d].1;
            let mut word = start;
            put_pattern(&mut word, field, kind, &Pattern::Tensor(far));
            let mut bench = Bench::new(subject.generation, engine);
            for w in subject.before(&start, engine) {
                let _ = bench.run(&w);
            }
            match bench.run(&word) {
                Err(e) => {
                    assert_ne!(e.class, ErrorClass::Internal, "{word:?}: {e}");
                    assert!(e.rule.is_some() || e.class != ErrorClass::IllegalInstruction, "{e}");
                    *refused.entry(subject.name()).or_default() += 1;
                }
                // short operands may still lie inside
                Ok(_) => {
                    tame.push(format!("{} {} `{}`", subject.generation, subject.name(), field.name))
                }
            }
        }
        for field in start.layout().unwrap().payload() {
            let is_type = |f: &FieldDef| {
                matches!(f.ty_in(start.form()), FieldType::Dtype | FieldType::DtypePair)
            };
            if !is_type(field) {
                continue;
            }
            let bench = Bench::new(subject.generation, engine);
            for code in 0..=255 {
                let mut word = start;
                word.bytes[usize::from(field.offset)] = code;
                if let Err(e) = bench.prepare(&word) {
                    assert_ne!(e.class, ErrorClass::Internal, "{word:?}: {e}");
                }
            }
        }
    }
    println!("{} opcodes refuse: {refused:?}", refused.len());
    println!("still inside memory: {tame:?}");
    assert!(refused.len() > 70, "{}", refused.len());
    assert!(tame.len() < refused.len(), "{tame:#?}");
}

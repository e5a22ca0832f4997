//! Instruction words by named fields: a plain legal word of every opcode, and the table of words
//! that are accepted and rejected (`tests/isa_rules.txt`).

#![allow(dead_code, reason = "each test uses its own part")]

pub mod random;

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex};

use tpbemu::isa::{
    Addr4, Engine, FieldType, Generation, Home, Inst, Pattern, PatternKind, TensorPattern,
    enum_by_name, opcode, packed_by_name,
};

/// Both tables of words, read when the tests run.
static TABLE: LazyLock<String> = LazyLock::new(|| {
    ["isa_rules.txt", "words/runnable.txt"].map(read).join(
        "
",
    )
});

fn read(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Lines of the table by their first word.
pub fn lines(kind: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    TABLE.lines().enumerate().filter_map(move |(n, l)| {
        let rest = l.strip_prefix(kind)?.strip_prefix(' ')?;
        Some((n + 1, rest.trim()))
    })
}

pub fn number(text: &str) -> Option<u64> {
    if let Some(Ok(v)) = text.strip_suffix('f').map(str::parse::<f32>) {
        return Some(u64::from(v.to_bits()));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    text.parse::<i64>().ok().map(|v| v as u64)
}

fn scalar(ty: FieldType, text: &str) -> u64 {
    let by_enum = |name: &str| enum_by_name(name).and_then(|e| e.value_of(text)).map(u64::from);
    number(text)
        .or_else(|| match ty {
            FieldType::Enum(e) => e.value_of(text).map(u64::from),
            FieldType::Dtype => by_enum("DTYPE"),
            FieldType::DtypePair => {
                let (lo, hi) = text.split_once('/')?;
                let code = |t| enum_by_name("DTYPE").unwrap().value_of(t).map(u64::from);
                Some(code(lo)? | code(hi)? << 4)
            }
            FieldType::Bits(def) => {
                // group:value+group:value
                let def = packed_by_name(def.name)?;
                text.split('+').try_fold(0, |packed, part| {
                    let (name, value) = part.split_once(':')?;
                    let group = def.fields.iter().find(|g| g.name == name)?;
                    Some(group.with(packed, number(value)?))
                })
            }
            _ => None,
        })
        .unwrap_or_else(|| panic!("value `{text}` for {ty:?}"))
}

/// `@address:step*count,step*count,..`; missing dimensions are one element of step 0.
fn pattern(kind: PatternKind, text: &str) -> Pattern {
    let (addr, dims) = text.split_once(':').unwrap_or((text, "1*32"));
    let word = number(&addr[1..]).unwrap() as u32;
    let mut list: Vec<(i16, u16)> = dims
        .split(',')
        .map(|d| {
            let (s, n) = d.split_once('*').unwrap();
            (s.parse().unwrap(), n.parse().unwrap())
        })
        .collect();
    list.resize(kind.dims(), (0, 1));
    if kind == PatternKind::Data4d {
        return Pattern::Data { base: word as i32, dims: list.into() };
    }
    let addr = Addr4::decode(word);
    if addr.is_indirect() && matches!(kind, PatternKind::Mem(_)) {
        // The count of the first dimension is the data address in words of 64 KiB.
        return Pattern::Indirect {
            index: addr,
            data: Addr4::Imm(u32::from(list[0].1) << 16),
            num: 8,
        };
    }
    Pattern::Tensor(TensorPattern { addr, dims: list.into() })
}

pub fn assign(inst: &mut Inst, text: &str) {
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("assignment `{word}`"));
        if let Some(at) = name.strip_prefix('#') {
            inst.bytes[at.parse::<usize>().unwrap()] = number(value).unwrap() as u8;
            continue;
        }
        let field = inst.by_name(name).unwrap_or_else(|| panic!("{inst:?} has no field {name}"));
        let at = usize::from(field.offset)..usize::from(field.offset + field.size);
        let ty = field.ty_in(inst.form());
        if let FieldType::Pattern(kind) = ty
            && value.starts_with('@')
        {
            let rules = inst.pattern_rules();
            pattern(kind, value).encode(kind, rules, &mut inst.bytes[at]).unwrap();
            continue;
        }
        if value.contains(',') {
            // Elements of an array, each as wide as the first says: `4:1,2` for four bytes.
            let (width, list) = value.split_once(':').unwrap_or(("1", value));
            let width: usize = width.parse().unwrap();
            for (i, v) in list.split(',').enumerate() {
                let le = number(v).unwrap().to_le_bytes();
                inst.bytes[at.start + i * width..][..width].copy_from_slice(&le[..width]);
            }
            continue;
        }
        let v = scalar(ty, value).to_le_bytes();
        let n = at.len().min(8);
        inst.bytes[at.start..at.start + n].copy_from_slice(&v[..n]);
    }
}

/// A word whose fields have plain defaults, then the table's defaults of its struct and opcode.
pub fn base(generation: Generation, byte: u8, spec: u8) -> Inst {
    type Known = HashMap<(Generation, u8, u8), Inst>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    *KNOWN
        .lock()
        .unwrap()
        .entry((generation, byte, spec))
        .or_insert_with(|| make_base(generation, byte, spec))
}

fn make_base(generation: Generation, byte: u8, spec: u8) -> Inst {
    let mut inst = Inst::empty(generation, byte);
    let def = inst.def().unwrap();
    if byte == 0xF0 {
        inst.bytes[12] = spec;
    }
    let layout = inst.layout().unwrap();
    for field in layout.payload() {
        let at = usize::from(field.offset);
        let write = field.name.contains("dst");
        match field.ty_in(inst.form()) {
            FieldType::Dtype => inst.bytes[at] = 0x0A,
            FieldType::DtypePair => inst.bytes[at] = 0xAA,
            FieldType::Pattern(PatternKind::Mx) => {}
            FieldType::Pattern(kind) => {
                let text = if write { "@0x1000:1*32" } else { "@0:1*32" };
                let rules = inst.pattern_rules();
                let to = &mut inst.bytes[at..at + kind.size()];
                pattern(kind, text).encode(kind, rules, to).unwrap();
            }
            _ if field.name == "num_active_channels" => inst.bytes[at] = 32,
            _ => {}
        }
    }
    let mut keys = vec![layout.name.to_string(), def.name.to_string()];
    keys.insert(1, format!("{}@{generation}", layout.name));
    keys.push(format!("{}@{generation}", def.name));
    let table: BTreeMap<&str, &str> = lines("base")
        .map(|(n, l)| l.split_once(' ').unwrap_or_else(|| panic!("line {n}: {l}")))
        .collect();
    for key in &keys {
        if let Some(text) = table.get(key.as_str()) {
            assign(&mut inst, text);
        }
    }
    inst
}

pub fn home_engine(generation: Generation, byte: u8) -> Engine {
    let def = opcode(generation, byte).unwrap();
    match def.engine {
        // the one engine that has a state from v2 on
        _ if matches!(def.name, "RAND_GET_STATE" | "RAND_SET_STATE") => Engine::Pool,
        _ if generation == Generation::V1 => match def.engines {
            "PE" | "ALL" => Engine::Pe,
            "ACT" => Engine::Act,
            _ => Engine::Pool,
        },
        Home::Pe => Engine::Pe,
        Home::Act if generation == Generation::V5 => Engine::Dve,
        Home::Act => Engine::Act,
        Home::Dve => Engine::Dve,
        _ => Engine::Pool,
    }
}

//! Every opcode of every generation has a struct that tiles its 64 bytes, and words survive a
//! trip through their typed fields.

use proptest::prelude::*;
use tpbemu::isa::{
    ENUMS, Engine, FieldType, Generation, Inst, Pattern, PatternKind, Presence, STRUCTS, StructDef,
    V1_OPCODES, opcode_table,
    validate::{common_rule_names, opcode_rule_names, validate, validate_all},
};

/// All words that a generation can decode, one per opcode, extended opcode and V1 dialect.
fn words() -> Vec<Inst> {
    let mut all = Vec::new();
    for g in Generation::ALL {
        for def in opcode_table(g) {
            if def.presence_in(g) == Presence::Absent || def.byte == 0xFF {
                continue;
            }
            let inst = Inst::empty(g, def.byte);
            for spec in 0..=9u8 {
                let mut inst = inst;
                inst.bytes[12] = spec;
                if inst.layout().is_ok() && (spec == 0 || def.byte == 0xF0) {
                    all.push(inst);
                }
            }
        }
    }
    for def in V1_OPCODES.iter().filter(|d| d.byte != 0xFF) {
        all.push(Inst::empty_wide_v1(def.byte));
    }
    all
}

#[test]
fn every_opcode_has_a_struct() {
    let mut count = [0; 6];
    for g in Generation::ALL {
        for def in opcode_table(g) {
            if def.presence_in(g) != Presence::Absent && def.byte != 0xFF {
                let inst = Inst::empty(g, def.byte);
                let layout = inst.layout().unwrap_or_else(|e| panic!("{g} {}: {e}", def.name));
                let end: usize = layout.fields.iter().map(|f| usize::from(f.size)).sum();
                assert_eq!(end, 64, "{}", layout.name);
                count[g.index()] += 1;
            }
        }
    }
    println!("structs found for {count:?} opcodes of v1, v2, v3, v4, v4+, v5");
    assert_eq!(count, [43, 144, 149, 158, 158, 164], "census without INVALID");
}

fn type_size(ty: FieldType) -> Option<usize> {
    Some(match ty {
        FieldType::U8 | FieldType::I8 | FieldType::Bool | FieldType::Opcode | FieldType::Reg => 1,
        FieldType::Enum(_) | FieldType::Dtype | FieldType::DtypePair => 1,
        FieldType::U16 | FieldType::I16 => 2,
        FieldType::U32 | FieldType::I32 | FieldType::F32 | FieldType::Imm => 4,
        FieldType::Addr4 | FieldType::PartitionOffset | FieldType::CcInst => 4,
        FieldType::U64 | FieldType::Imm64 | FieldType::AluImmediate => 8,
        FieldType::Addr8 | FieldType::NeuronAddr => 8,
        FieldType::Char(n) => usize::from(n),
        FieldType::Array(elem, n) => type_size(*elem)? * usize::from(n),
        FieldType::Bits(def) => usize::from(def.size),
        FieldType::Pattern(kind) => kind.size(),
        FieldType::MoveImmediate | FieldType::Mem2dData | FieldType::ShapeData => 32,
        FieldType::DmaDesc => 16,
        FieldType::CustomArg => 48,
        FieldType::Reserved | FieldType::Opaque => return None,
    })
}

#[test]
fn field_sizes_match_their_types() {
    let check = |s: &StructDef| {
        for f in s.fields {
            for ty in [Some(f.ty), f.ty_before_v4].into_iter().flatten() {
                if let Some(size) = type_size(ty) {
                    assert_eq!(usize::from(f.size), size, "{}.{}", s.name, f.name);
                }
            }
        }
    };
    STRUCTS.iter().for_each(check);
    assert!(STRUCTS.len() > 110);
}

#[test]
fn enum_members_are_unique() {
    for e in ENUMS {
        let mut values: Vec<_> = e.values.iter().map(|(v, _)| v).collect();
        values.dedup();
        assert_eq!(values.len(), e.values.len(), "{}", e.name);
        for (value, name) in e.values {
            assert_eq!(e.value_of(name), Some(*value), "{}", e.name);
            assert_eq!(e.name_of(u64::from(*value)), Some(*name), "{}", e.name);
        }
    }
}

/// Zeroes the bytes a pattern form does not use, since encoding clears them.
fn normal_pattern(kind: PatternKind, pattern: &Pattern, bytes: &mut [u8]) {
    let used = match (kind, pattern) {
        (_, Pattern::Indirect { .. }) => 0..10,
        (_, Pattern::MxTensor { .. }) => 0..12,
        (_, Pattern::MxIndirect { .. }) => {
            bytes[14] = 0;
            0..16
        }
        (_, Pattern::MxV2 { .. }) => 0..16,
        _ => 0..bytes.len(),
    };
    bytes[used.end..].fill(0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Reading every field by its type and writing it back reproduces the word.
    #[test]
    fn fields_round_trip(noise in prop::array::uniform32(any::<u16>())) {
        for template in words() {
            let mut inst = template;
            for (i, n) in noise.iter().enumerate() {
                inst.bytes[2 * i..2 * i + 2].copy_from_slice(&n.to_le_bytes());
            }
            inst.bytes[0] = template.bytes[0];
            inst.bytes[12] = template.bytes[12];
            let layout = inst.layout().unwrap();
            let mut back = template;
            back.bytes = [0; 64];
            for field in layout.fields {
                let at = usize::from(field.offset)..usize::from(field.offset + field.size);
                if let FieldType::Pattern(kind) = field.ty_in(inst.form()) {
                    let pattern = inst.pattern_of(field).unwrap();
                    let mut raw = vec![0; at.len()];
                    pattern.encode(kind, inst.pattern_rules(), &mut raw).unwrap();
                    back.bytes[at.clone()].copy_from_slice(&raw);
                    normal_pattern(kind, &pattern, &mut inst.bytes[at]);
                } else {
                    back.bytes[at].copy_from_slice(inst.raw(field));
                }
            }
            prop_assert_eq!(inst.bytes, back.bytes, "{}", layout.name);
        }
    }

    /// The rules take any word of any opcode.
    #[test]
    fn validators_do_not_panic(noise in prop::array::uniform32(any::<u16>())) {
        for template in words() {
            let mut inst = template;
            for (i, n) in noise.iter().enumerate() {
                inst.bytes[2 * i..2 * i + 2].copy_from_slice(&n.to_le_bytes());
            }
            inst.bytes[0] = template.bytes[0];
            inst.bytes[12] = template.bytes[12];
            let mut known = common_rule_names();
            known.extend(opcode_rule_names(inst.def().unwrap()));
            for engine in Engine::ALL {
                for e in validate_all(&inst, engine, true) {
                    let rule = e.rule.unwrap();
                    prop_assert!(known.contains(&&*rule), "{} breaks {rule}", e.message);
                }
                let all = validate_all(&inst, engine, true);
                let first = validate(&inst, engine, true);
                prop_assert_eq!(first.err(), all.first().cloned());
                prop_assert!(validate_all(&inst, engine, false).len() <= all.len());
            }
        }
    }

    /// Whatever the bytes are, nothing panics.
    #[test]
    fn arbitrary_words_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 64)) {
        let mut word = [0; 64];
        word.copy_from_slice(&bytes);
        for g in Generation::ALL {
            for inst in [Inst::new(g, word), Inst::new_wide_v1(word)] {
                let _ = (format!("{inst:?}"), inst.events(), inst.num_active_channels());
                if let Ok(layout) = inst.layout() {
                    for field in layout.fields {
                        let _ = inst.pattern_of(field);
                        let _ = inst.by_name(field.name);
                    }
                }
            }
        }
    }
}

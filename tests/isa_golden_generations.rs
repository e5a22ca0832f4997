//! Golden vectors about generations, opcode rosters and V1. Vectors about firmware images, their
//! tables and their Xtensa code are not about this instruction set and are counted.

mod isa_common;

use std::collections::BTreeSet;

use isa_common::{field, hex, hex_bytes, load, report};
use serde_json::{Value, json};
use tpbemu::isa::stream::{v1_join, v1_split};
use tpbemu::isa::validate::validate_host;
use tpbemu::isa::{
    Generation, Inst, Layout, OPCODES, OpcodeDef, PatternKind, Presence, StructDef, V1_OPCODES,
    enums, f, geometry, op, opcode_by_name, opcode_table, struct_by_name,
};

fn elsewhere(op: &str) -> Option<&'static str> {
    Some(match op {
        "symbol" | "kit_lookup" | "kit_funcva_delta" | "kit_parse_record" | "kit_parse_table"
        | "kit_count" | "kit_count_by_size" | "kit_key_set_diff" | "kit_opcode_union"
        | "seq_index" | "seq_table_shape" | "sunda_image_size" => {
            "layout of a vendor firmware image: not part of the instruction set"
        }
        "xtensa_decode" | "xtensa_j" | "xtensa_const16_pair" => {
            "Xtensa code: tests of the Q7 cores"
        }
        "program_dataflow" => "order of execution of a whole program: tests of the machine",
        "ncfw_get_image" => "choice of a management firmware image, which the emulator has not",
        "struct2opcode_keys" => {
            "a count of the vendor's map, of which the sources do not print every key"
        }
        _ => return None,
    })
}

fn generation(v: &Value) -> Generation {
    v.as_str().unwrap().parse().unwrap()
}

fn roster(g: Generation) -> Vec<&'static OpcodeDef> {
    opcode_table(g).iter().filter(|d| d.presence_in(g) != Presence::Absent).collect()
}

fn bytes_of(list: &[&OpcodeDef]) -> BTreeSet<u8> {
    list.iter().map(|d| d.byte).collect()
}

fn enum_count(def: &tpbemu::isa::EnumDef, g: Generation) -> usize {
    def.value_generations.iter().filter(|s| s.contains(g)).count()
}

/// Compares the fields that a vector names with ours, which split header and events.
fn fields(def: &StructDef, expect: &Value) {
    for (name, place) in expect.as_object().unwrap() {
        let (at, size) = (hex(&place[0]), hex(&place[1]));
        let ours = match name.as_str() {
            "inst_header" | "header" => {
                assert_eq!((at, size), (0, 4));
                continue;
            }
            "inst_events" | "events" => {
                assert_eq!((at, at + size), (4, u64::from(def.payload_offset)));
                continue;
            }
            "src_mem_pattern" => "src",
            "dst_mem_pattern" => "dst",
            "dma_queue_name" => "queue_name",
            "src_offset_elems" => "src_offset",
            "dst_offset_elems" => "dst_offset",
            n if n.starts_with("reserved") => {
                let gap = def.fields.iter().find(|f| f.is_reserved() && u64::from(f.offset) == at);
                assert_eq!(gap.map(|f| u64::from(f.size)), Some(size), "{name}");
                continue;
            }
            n => n,
        };
        let found = def.field(ours).unwrap_or_else(|| panic!("{} has no {name}", def.name));
        assert_eq!((u64::from(found.offset), u64::from(found.size)), (at, size), "{name}");
    }
}

/// A word with V1-style names whose events blocks have 8 bytes decodes as the wide dialect, or,
/// where only later generations have the opcode, as v2.
fn decode_slot(v: &Value) {
    let bytes: [u8; 64] = hex_bytes(v["inputs"]["bytes"].as_str().unwrap()).try_into().unwrap();
    let x = &v["expect"];
    let wide = Inst::new_wide_v1(bytes);
    let inst = match wide.def() {
        Ok(d) if x["mnemonic"] == d.name => wide,
        _ => Inst::new(Generation::V2, bytes),
    };
    let ev = inst.events();
    assert_eq!(x["mnemonic"], inst.def().unwrap().name);
    for (key, expect) in x.as_object().unwrap() {
        let value = match key.as_str() {
            "mnemonic" => continue,
            // Text syntax is another module's; the modes it prints are checked here.
            "asm" => {
                assert!(!expect.as_str().unwrap().contains('>') || ev.wait_mode == 4);
                assert_eq!(expect.as_str().unwrap().contains("++"), ev.update_mode == 0x13);
                continue;
            }
            "events" => {
                assert_eq!(ev, Default::default());
                continue;
            }
            "opcode" => u64::from(inst.opcode()),
            "wait_mode" => ev.wait_mode.into(),
            "wait_idx" => ev.wait_idx.into(),
            "update_mode" => ev.update_mode.into(),
            "update_idx" => ev.update_idx.into(),
            "semaphore_value" => ev.value.into(),
            "dma_queue_name@0x0c" => {
                let raw = inst.slice(f::pseudo_dma_trigger::QUEUE_NAME);
                let name = String::from_utf8_lossy(raw);
                assert_eq!(expect.as_str().unwrap(), name.trim_end_matches('\0'));
                continue;
            }
            other => {
                let name = match other {
                    "block_id" => "block_id_or_count",
                    n => n.strip_suffix("_elems").unwrap_or(n),
                };
                let field = inst.by_name(name).unwrap_or_else(|| panic!("no field {name}"));
                inst.raw(&field).iter().rev().fold(0, |acc, b| acc << 8 | u64::from(*b))
            }
        };
        // "0x04 ADD": the number decides.
        let expect = match expect {
            Value::String(s) => json!(s.split_whitespace().next().unwrap()),
            other => other.clone(),
        };
        assert_eq!(hex(&expect), value, "{key}");
    }
}

fn struct_size(name: &str, g: Generation) -> u64 {
    match name {
        "HEADER" | "INST_HEADER" => 4,
        "EVENTS" | "INST_EVENTS" => {
            let word = Inst::empty(g, if g == Generation::V1 { 0x68 } else { op::NOP });
            u64::from(word.layout().unwrap().payload_offset) - 4
        }
        "DTYPE" => {
            let word = Inst::empty(g, op::MATMUL);
            u64::from(word.by_name("in_dtype").unwrap().size)
        }
        _ => {
            let ours = match name {
                "MATMUL_INST" => "S3D3_MM",
                "LDWEIGHTS_INST" => "S3_LW",
                other => other,
            };
            let def = struct_by_name(Layout::of(g), ours).unwrap();
            def.fields.iter().map(|f| u64::from(f.size)).sum()
        }
    }
}

fn run(v: &Value) {
    let (i, x) = (&v["inputs"], &v["expect"]);
    let v2plus = &Generation::ALL[1..];
    match v["op"].as_str().unwrap() {
        "opcode_count" => {
            assert_eq!(roster(generation(&i["generation"])).len() as u64, hex(x));
        }
        "opcode_union_count" => assert_eq!(OPCODES.len() as u64, hex(x)),
        "opcode_real_count" => {
            let pseudo = OPCODES.iter().filter(|d| d.byte & 0xE0 == 0xC0).count() as u64;
            assert_eq!(pseudo, field(i, "pseudo"));
            assert_eq!(OPCODES.len() as u64 - pseudo - 1, hex(x));
        }
        "opcode_common_count" => {
            let [a, b] = [&i["a"], &i["b"]].map(|g| bytes_of(&roster(generation(g))));
            assert_eq!(a.intersection(&b).count() as u64, field(x, "common"));
        }
        "opcode_step" => {
            let [a, b] = [&i["from"], &i["to"]].map(|g| bytes_of(&roster(generation(g))));
            assert_eq!(b.difference(&a).count() as u64, field(x, "added"));
            assert_eq!(a.difference(&b).count() as u64, field(x, "removed"));
        }
        "opcode_dormant_set" => {
            let dormant: BTreeSet<u64> = OPCODES
                .iter()
                .filter(|d| d.presence.contains(&Presence::Dormant))
                .map(|d| d.byte.into())
                .collect();
            assert_eq!(dormant, x.as_array().unwrap().iter().map(hex).collect());
        }
        "opcode_abandoned_bytes" => {
            let g = generation(&i["from_generation"]);
            let (old, new) = (bytes_of(&roster(Generation::V2)), bytes_of(&roster(g)));
            let gone: BTreeSet<u64> = old.difference(&new).map(|b| u64::from(*b)).collect();
            assert_eq!(gone, x.as_array().unwrap().iter().map(hex).collect());
            for b in gone {
                let e = Inst::empty(g, b as u8).def().unwrap_err();
                assert!(e.message.contains("abandoned"), "{e}");
            }
        }
        "opcode_value_all_generations" => {
            let name = i["name"].as_str().unwrap();
            for g in i["generations"].as_array().unwrap() {
                assert_eq!(u64::from(opcode_by_name(generation(g), name).unwrap().byte), hex(x));
            }
        }
        "dtype_count" => {
            assert_eq!(enum_count(&enums::DTYPE, generation(&i["generation"])) as u64, hex(x));
        }
        "alu_op_count" => {
            assert_eq!(enum_count(&enums::ALU_OP, generation(&i["generation"])) as u64, hex(x));
        }
        "v1_opcode_encode" => {
            let class = enums::V1_ENGINE_CLASS.value_of(i["engine"].as_str().unwrap()).unwrap();
            let byte = v1_join(class as u8, field(i, "local") as u8);
            assert_eq!(u64::from(byte), hex(x));
            let def = opcode_by_name(Generation::V1, i["name"].as_str().unwrap()).unwrap();
            assert_eq!((def.byte, def.engines), (byte, i["engine"].as_str().unwrap()));
        }
        "v1_opcode_decode" => {
            let (class, local) = v1_split(field(i, "byte") as u8);
            assert_eq!(u64::from(class), field(x, "engine_field"));
            assert_eq!(u64::from(local), field(x, "local"));
            if x.get("note").is_some() {
                assert_eq!(enums::V1_ENGINE_CLASS.name_of(class.into()), None);
            }
        }
        "v1_v2_join" => {
            assert_eq!(V1_OPCODES.len() as u64, field(i, "v1_entries"));
            let twin = |d: &OpcodeDef| opcode_by_name(Generation::V2, d.name);
            let same: Vec<_> = V1_OPCODES.iter().filter(|d| twin(d).is_some()).collect();
            let moved = same.iter().filter(|d| twin(d).unwrap().byte != d.byte).count();
            assert_eq!(same.len() as u64, field(x, "same_name"));
            assert_eq!(moved as u64, field(x, "re_homed"));
            assert_eq!((same.len() - moved) as u64, field(x, "byte_identical"));
            assert_eq!((V1_OPCODES.len() - same.len()) as u64, field(x, "v1_only"));
        }
        "v1_mem_access_size" => {
            let n = field(i, "dims") as u8;
            assert_eq!(PatternKind::Tensor(n).size() as u64, hex(x));
        }
        "v1_struct_size" => {
            let (layout, name) = match i["struct"].as_str().unwrap() {
                "COPY_INST" => (Layout::V1, "V1_COPY"),
                "MATMUL_INST" => (Layout::V1, "S3D3_MM"),
                "POOL_INST" => (Layout::V1, "S4D4_PL"),
                "PSEUDO_DMA_TRIGGER_INST" => (Layout::V1, "PSEUDO_DMA_TRIGGER"),
                "PSEUDO_TRIGGER_COLLECTIVE" => (Layout::V1Wide, "PSEUDO_TRIGGER_COLLECTIVE"),
                other => panic!("{other}"),
            };
            fields(struct_by_name(layout, name).unwrap(), &x["fields"]);
            assert_eq!(field(x, "size"), 64);
        }
        "inst_lead_word" => {
            let [byte, len] = (field(i, "u16_le") as u16).to_le_bytes();
            assert_eq!(u64::from(byte), field(x, "opcode"));
            assert_eq!(u64::from(len), field(x, "inst_word_len"));
            assert_eq!(Inst::empty(Generation::V2, byte).bytes[..2], [byte, len]);
        }
        "decode_slot" => decode_slot(v),
        "decode_slot_negative" => {
            let bytes = hex_bytes(i["bytes"].as_str().unwrap()).try_into().unwrap();
            let inst = Inst::new(Generation::V1, bytes);
            assert_eq!(inst.slice(f::pseudo_dma_trigger::QUEUE_NAME)[0], 0);
            let errors = validate_host(&inst, false);
            assert!(
                errors.iter().any(|e| e.rule.as_deref() == Some("dma_trigger_queue_name")),
                "{errors:?}"
            );
            assert_eq!(validate_host(&Inst::new_wide_v1(inst.bytes), false), []);
        }
        "identity" => {
            let g = generation(&i["codename"]);
            let arch = match &x["arch_id"] {
                Value::String(s) => hex(&json!(s.split(' ').next().unwrap())),
                n => hex(n),
            };
            assert_eq!(g.arch_id().map(u64::from), Some(arch));
            assert_eq!(g.coretype().map(u64::from), Some(field(x, "coretype")));
        }
        "bitmask_decode" => {
            let mask = field(i, "mask");
            let expect: Vec<u64> = x.as_array().unwrap().iter().map(hex).collect();
            let bits: Vec<u64> = (0..64).filter(|b| mask >> b & 1 == 1).collect();
            assert_eq!(bits, expect);
            let live: Vec<u64> =
                v2plus.iter().filter_map(|g| g.coretype()).map(u64::from).collect();
            assert!(bits.iter().all(|b| live.contains(b)), "{bits:?} of {live:?}");
        }
        "get_ext_isa" => {
            let core = field(i, "coretype");
            let found = v2plus.iter().find(|g| g.coretype().map(u64::from) == Some(core));
            match found {
                Some(g) => assert_eq!(x, g.codename()),
                None => assert!(x.as_str().unwrap().starts_with("return 1")),
            }
        }
        "dtype_is_cptc" => {
            let list: Vec<u64> =
                (0..=255u8).filter(|d| geometry::is_cptc(*d)).map(u64::from).collect();
            let expect: Vec<u64> = x["true_for"].as_array().unwrap().iter().map(hex).collect();
            assert_eq!(list, expect);
        }
        "sizeof" => {
            let name = i["struct"].as_str().unwrap();
            match i.get("generations") {
                Some(list) => {
                    for (g, size) in list.as_array().unwrap().iter().zip(x.as_array().unwrap()) {
                        assert_eq!(struct_size(name, generation(g)), hex(size));
                    }
                }
                None => {
                    let name = name.strip_prefix("TONGA ").unwrap();
                    assert_eq!(struct_size(name, Generation::V1), hex(x));
                }
            }
        }
        "offsetof" => {
            for g in v2plus {
                let def = struct_by_name(Layout::of(*g), i["struct"].as_str().unwrap()).unwrap();
                for (name, at) in x.as_object().unwrap() {
                    let ours = match name.as_str() {
                        "header" => "opcode",
                        "events" => "wait_mode",
                        "src_mem_pattern" => "src",
                        "dst_mem_pattern" => "dst",
                        n => n,
                    };
                    assert_eq!(u64::from(def.field(ours).unwrap().offset), hex(at), "{name}");
                }
            }
        }
        "bf16_op_pin" => {
            for (byte, pin) in i.as_object().unwrap() {
                let byte = isa_common::number(byte).unwrap() as u8;
                let pinned = pin.as_str().unwrap().split_whitespace().last().unwrap();
                let pinned = isa_common::number(pinned).unwrap();
                for (value, legal) in [(pinned, true), (pinned + 4, false)] {
                    let mut inst = Inst::empty(Generation::V2, byte);
                    inst.set(f::s3s3d3_tt::OP, value);
                    let errors = validate_host(&inst, false);
                    let broken =
                        errors.iter().any(|e| e.rule.as_deref() == Some("tensor_tensor_valid_ops"));
                    assert_eq!(broken, !legal);
                }
            }
        }
        other => panic!("unknown vector kind {other}"),
    }
}

#[test]
fn golden_generations() {
    report("golden_generations", &load("golden_generations.json"), elsewhere, run);
}

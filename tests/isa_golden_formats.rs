//! Golden vectors about word formats. Vectors about what instructions compute belong to the
//! engines' tests and are counted here.

mod isa_common;

use isa_common::{field, hex, hex_bytes, load, report};
use serde_json::Value;
use tpbemu::isa::geometry::{Geometry, pe_group};
use tpbemu::isa::{
    Engine, Generation, Inst, Layout, OPCODES, Presence, e, enum_by_name, enums, f, op, opcode,
    opcode_by_name, struct_by_name, validate::validate_all,
};

/// What the vector is about, when no word format decides it.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "poll_sem" => "value of POLL_SEM: sequencer",
        "pool_buffer_window" | "pool_window" | "sort" | "fill_value" | "batch_norm_counts" => {
            "value of a vector or pool instruction: engines"
        }
        _ => return None,
    })
}

fn matches_name(expect: &str, name: &str, value: u64) -> bool {
    // "ADD 0x04", "1 ALL_REDUCE", "INT32 0x08", "GT_IMM 6", "IMMEDIATE"
    expect.split_whitespace().all(|w| match isa_common::number(w) {
        Some(n) => n == value,
        None => w == name,
    })
}

fn named(def: &tpbemu::isa::EnumDef, value: u64) -> &'static str {
    def.name_of(value).unwrap_or("?")
}

fn decode_record(v: &Value) {
    let mut bytes = hex_bytes(v["inputs"]["hex_prefix"].as_str().unwrap());
    let name = v["expect"]["queue_name"].as_str();
    bytes.resize(64, 0);
    if let (Some(at), Some(name)) = (v["inputs"]["name_at"].as_u64(), name) {
        bytes[at as usize..at as usize + name.len()].copy_from_slice(name.as_bytes());
    }
    let inst = Inst::new(Generation::V2, bytes.try_into().unwrap());
    let def = inst.def().unwrap();
    let ev = inst.events();
    let x = &v["expect"];
    for (key, expect) in x.as_object().unwrap() {
        let value = match key.as_str() {
            "opcode" => u64::from(inst.opcode()),
            "inst_word_len" => u64::from(inst.u8(1)),
            "wait_mode" => ev.wait_mode.into(),
            "wait_idx" => ev.wait_idx.into(),
            "update_mode" => ev.update_mode.into(),
            "update_idx" => ev.update_idx.into(),
            "semaphore_value" => ev.value.into(),
            "name" => {
                assert_eq!(expect, def.name);
                continue;
            }
            "queue_name" => {
                let raw = inst.slice(f::pseudo_dma_trigger::QUEUE_NAME);
                let text = String::from_utf8_lossy(raw);
                assert_eq!(expect.as_str().unwrap(), text.trim_end_matches('\0'));
                continue;
            }
            "op" => {
                let op = inst.get(f::pseudo_trigger_collective::OP);
                assert!(matches_name(expect.as_str().unwrap(), named(&enums::ALU_OP, op), op));
                continue;
            }
            "dtype" => {
                let t = inst.get(f::pseudo_trigger_collective::DTYPE);
                assert!(matches_name(expect.as_str().unwrap(), named(&enums::DTYPE, t), t));
                continue;
            }
            "ctype" => {
                let t = inst.get(f::pseudo_trigger_collective::CTYPE);
                let name = named(&enums::COLLECTIVE_TYPE, t);
                assert!(matches_name(expect.as_str().unwrap(), name, t), "{name}");
                continue;
            }
            "condition" => {
                assert_eq!(named(&enums::WAIT_MODE, ev.wait_mode.into()), "WAIT_FOR_SEM_GT_IMM");
                continue;
            }
            other => {
                let field = inst.by_name(other).unwrap_or_else(|| panic!("no field {other}"));
                let raw = inst.raw(&field);
                raw.iter().rev().fold(0, |acc, b| acc << 8 | u64::from(*b))
            }
        };
        assert_eq!(hex(expect), value, "{key}");
    }
}

fn struct_offsets(v: &Value) {
    let name = v["inputs"]["struct"].as_str().unwrap();
    let (layout, name) = match name.strip_prefix("TONGA_") {
        Some(v1) => (Layout::V1, v1),
        None if name == "S2D2_AC" => (Layout::V4, name),
        None => (Layout::V2, name),
    };
    let def = struct_by_name(layout, name).unwrap_or_else(|| panic!("no struct {name}"));
    for (field, expect) in v["expect"].as_object().unwrap() {
        let expect = expect.as_u64().unwrap();
        if field == "sizeof" {
            let size: u64 = def.fields.iter().map(|f| u64::from(f.size)).sum();
            assert_eq!(size, expect);
        } else {
            let at = def.field(field).unwrap_or_else(|| panic!("{name} has no {field}")).offset;
            assert_eq!(u64::from(at), expect, "{name}.{field}");
        }
    }
}

fn descriptor(v: &Value, opcode: u8) {
    let mut inst = Inst::empty(Generation::V3, opcode);
    let word = hex(&v["inputs"]["u32@0x0c"]) as u32;
    inst.bytes[12..16].copy_from_slice(&word.to_le_bytes());
    for (key, expect) in v["expect"].as_object().unwrap() {
        let expect = expect.as_str().unwrap();
        let enumerated = |def, field| {
            let value = inst.get(field);
            assert!(matches_name(expect, named(def, value), value), "{key}: {expect}, {value}");
        };
        let place = |name: &str| {
            let at = inst.by_name(name).unwrap().offset;
            assert_eq!(isa_common::number(expect), Some(u64::from(at)), "{key}");
        };
        match key.as_str() {
            "op" => enumerated(&enums::ALU_OP, f::ctrl_al::OP),
            "dtype" => enumerated(&enums::DTYPE, f::ctrl_al::DTYPE),
            "src1" => enumerated(&enums::DATA_SRC, f::ctrl_al::SRC1_DATASRC),
            "cmp_op" => enumerated(&enums::BR_CMP_OP, f::ctrl_br::CMP_OP),
            "cmp_dtype" => enumerated(&enums::DTYPE, f::ctrl_br::CMP_DTYPE),
            "target_mode" => enumerated(&enums::BR_TARGET_MODE, f::ctrl_br::TARGET_MODE),
            "src0_at" => place("src0_reg_lo"),
            "dst_at" => place("dst_reg_lo"),
            "imm_at" => place("immediate"),
            "cmp_imm_at" => place("cmp_immediate"),
            "cmp_reg_at" => place("cmp_reg0"),
            "displacement_at" => place("br_immediate"),
            other => panic!("{other}"),
        }
    }
}

fn census(v: &Value) -> Result<(), &'static str> {
    let g: Generation = v["inputs"]["gen"].as_str().unwrap().parse().unwrap();
    let count = OPCODES.iter().filter(|d| d.presence_in(g) != Presence::Absent).count();
    assert_eq!(count as u64, v["expect"]["opcode_enum_entries"]);
    let members = |name| {
        enum_by_name(name).unwrap().value_generations.iter().filter(|s| s.contains(g)).count()
    };
    assert_eq!(members("DTYPE") as u64, v["expect"]["dtype_entries"]);
    assert_eq!(members("ALU_OP") as u64, v["expect"]["alu_op_entries"]);
    Ok(())
}

fn dequant(v: &Value) {
    let (d, s) = v["expect"]["dst_words_per_src_words"].as_str().unwrap().split_once(':').unwrap();
    let (d, s): (u16, u16) = (d.parse().unwrap(), s.parse().unwrap());
    let formats = match &v["inputs"]["dequant_fmt"] {
        Value::Number(n) => vec![n.as_u64().unwrap()],
        _ => vec![1, 2, 3],
    };
    for format in formats {
        for (src, dst, legal) in [(s, d, true), (2 * s, 2 * d, true), (s, d + 1, false)] {
            let mut inst = Inst::empty(Generation::V3, op::TENSOR_DEQUANTIZE);
            use f::s3d3_tens_dequant as x;
            inst.set(x::IN_DTYPE, e::dtype::UINT32.into());
            inst.set(x::OUT_DTYPE, e::dtype::UINT32.into());
            inst.set(x::NUM_ACTIVE_CHANNELS, 32);
            inst.set(x::DEQUANT_FMT, format);
            inst.set(x::GROUP_SIZE, v["inputs"]["group_size"].as_u64().unwrap());
            let dims = |n| tpbemu::isa::TensorPattern::at(0, &[(1, n), (0, 1), (0, 1)]);
            inst.set_tensor(x::SRC, &dims(src)).unwrap();
            inst.set_tensor(x::DST, &dims(dst)).unwrap();
            let errors = validate_all(&inst, Engine::Pool, true);
            assert_eq!(errors.is_empty(), legal, "format {format}, {src} to {dst}: {errors:?}");
        }
    }
}

fn run(v: &Value) {
    let x = &v["expect"];
    let i = &v["inputs"];
    match v["op"].as_str().unwrap() {
        "decode_record" => decode_record(v),
        "header_word" => {
            let [byte, len] = (hex(&i["u16_le"]) as u16).to_le_bytes();
            let def = opcode(Generation::V2, byte).unwrap();
            assert_eq!(
                (u64::from(byte), u64::from(len)),
                (hex(&x["opcode"]), hex(&x["inst_word_len"]))
            );
            assert_eq!(x["name"], def.name);
            assert_eq!(Inst::empty(Generation::V2, byte).u16(0), hex(&i["u16_le"]) as u16);
        }
        "wait_mode_name" => {
            let name = named(&enums::WAIT_MODE, hex(&i["value"]));
            assert_eq!(x["name"], name);
        }
        "build_semaphore_add" => {
            let mut inst = Inst::empty(Generation::V3, op::EVENT_SEMAPHORE);
            inst.set(f::ctrl_es::EXT_UPDATE_MODE, e::update_mode::SEM_ADD_IMM_COMPLETE.into());
            inst.set(f::ctrl_es::EXT_UPDATE_IDX, 77);
            inst.set(f::ctrl_es::SEM_UPDATE_VALUE, x["u32@0x28"].as_u64().unwrap());
            assert_eq!(u64::from(inst.u16(0)), hex(&x["u16@0x00"]));
            assert!(matches_name(
                x["u8@0x22"].as_str().unwrap(),
                "SEM_ADD_IMM_COMPLETE",
                inst.u8(0x22).into()
            ));
            assert_eq!(inst.u8(0x23), 77);
            assert_eq!(u64::from(inst.u32(0x28)), x["u32@0x28"].as_u64().unwrap());
        }
        "alu_descriptor" => descriptor(v, op::ALU_OP),
        "branch_descriptor" => descriptor(v, op::COMPARE_BRANCH),
        "exit_marker" => {
            let def = opcode(Generation::V3, hex(&i["byte0"]) as u8).unwrap();
            let mut inst = Inst::empty(Generation::V3, def.byte);
            inst.set(f::pseudo_inst::PSEUDO_OPCODE, i["byte12"].as_u64().unwrap());
            let value = u64::from(inst.bytes[12]);
            assert_eq!(x["name"], named(&enums::PSEUDO_OPCODE, value));
        }
        "reverse_operands" => {
            let value = i["value"].as_u64().unwrap();
            let def = &enums::TENS_SCALAR_REV_OPS;
            assert_eq!(x["name"], named(def, value));
            let at = def.values.iter().position(|(n, _)| u64::from(*n) == value).unwrap();
            assert_eq!(x["formula"], def.value_meanings[at]);
        }
        "col_grp" => {
            let (base, most, xbus) = pe_group(hex(&i["mask"]) as u8).unwrap();
            assert_eq!(u64::from(base), field(x, "base_partition"));
            assert_eq!(u64::from(most), field(x, "max_columns"));
            assert_eq!(xbus.map(u64::from), x["xbus_sel"].as_str().and_then(isa_common::number));
        }
        "pe_save_seed_dst" => {
            let mut inst = Inst::empty(Generation::V4, op::PE_MANAGE_SEED);
            use f::s2s1d2_pe_seed as s;
            let pair = |k: &str, n: usize| x[k][n].as_i64().unwrap();
            let dims = [0, 1].map(|n| (pair("step_elem", n) as i16, pair("num_elem", n) as u16));
            let start = hex(&x["start_addr"]) as u32;
            let one = tpbemu::isa::TensorPattern::at(0, &[(1, 1), (0, 1)]);
            inst.set_tensor(s::SRC_SEED, &one).unwrap();
            inst.set_tensor(s::DST_SEED, &tpbemu::isa::TensorPattern::at(start, &dims)).unwrap();
            inst.set(s::NUM_ACTIVE_ROWS, 16);
            inst.set(s::NUM_ACTIVE_COLS, 128);
            inst.set(s::MODE, e::pe_seed_mode::SAVE_SEED.into());
            assert_eq!(validate_all(&inst, Engine::Pe, true), []);
            inst.bytes[36] = 4;
            assert!(!validate_all(&inst, Engine::Pe, true).is_empty());
        }
        "sbuf_quadrant" => {
            let g = Geometry::of(i["gen"].as_str().unwrap().parse().unwrap());
            let base = hex(&i["base"]) as u32;
            assert_eq!(u64::from(g.sbuf_quadrant(base)), field(x, "quadrant"));
            assert_eq!(u64::from(g.sbuf_place(base).0), field(x, "base_partition"));
            assert_eq!(u64::from(g.sbuf_active), hex(&i["usable_bytes"]));
        }
        "struct_offsets" => struct_offsets(v),
        "census" => census(v).unwrap(),
        "dequant_counts" => dequant(v),
        "opcode_membership_v2" => {
            let mut members = vec![];
            for (base, word) in i["words"].as_object().unwrap() {
                let (base, word) = (isa_common::number(base).unwrap(), hex(word));
                members.extend((0..64).filter(|b| word >> b & 1 == 1).map(|b| (base + b) as u8));
            }
            let here: Vec<u8> = OPCODES
                .iter()
                .filter(|d| d.presence_in(Generation::V2) != Presence::Absent)
                .map(|d| d.byte)
                .collect();
            members.sort_unstable();
            assert_eq!(members, here);
            assert_eq!(here.len() as u64, field(x, "members"));
            for (key, present) in [("present_examples", true), ("absent_examples", false)] {
                for b in x[key].as_array().unwrap() {
                    let b = hex(b) as u8;
                    assert_eq!(here.contains(&b), present, "{b:#x}");
                }
            }
        }
        other => panic!("unknown vector kind {other}"),
    }
}

#[test]
fn golden_formats() {
    let vectors = load("golden_formats.json");
    report("golden_formats", &vectors, elsewhere, run);
    assert!(opcode_by_name(Generation::V2, "copy").is_some());
}

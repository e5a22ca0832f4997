//! Golden vectors of synchronisation and of the sequencer.

mod isa_common;

use std::sync::Arc;

use isa_common::{hex_bytes, load, report};
use serde_json::Value;
use tpbemu::isa::{
    Engine, Generation, Inst, RawEvents, enums, f, op, opcode_table, struct_by_name,
};
use tpbemu::isa::{Layout, stream::v1_join};
use tpbemu::machine::fault::{PcBounds, block_id, floating_point_code};
use tpbemu::machine::{self, MachineConfig, Options, RunResult, scalar};
use tpbemu::program::lower::{Lowered, lower};
use tpbemu::program::{DmaBlock, DmaQueue, Program, SourceLine, Update};
use tpbemu::sync::{Sync, SyncId};

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no number"))
}

fn word(bytes: &[u8]) -> [u8; 64] {
    let mut out = [0; 64];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

fn run(p: Program) -> RunResult {
    let config = Arc::new(MachineConfig::builtin(p.generation));
    machine::run(Arc::new(p), config, Options::default, |_, _| Vec::new(), false).unwrap()
}

fn elsewhere(op: &str) -> Option<&'static str> {
    Some(match op {
        "seq_dispatch"
        | "seq_dispatch_census"
        | "pe_dispatch_chain"
        | "pool_kernel_table_count" => "table addresses inside one vendor firmware image",
        "iram_cache_exponent"
        | "iram_cache_geometry"
        | "rer_address"
        | "window_register_address" => {
            "firmware caches and host-visible registers: no effect on a program"
        }
        "const16_pair" => "Xtensa code: tests of the Q7 cores",
        "halt_reason" => "debug halts of the host's breakpoint block, which the emulator has not",
        "runtime_top_sp_base" | "doorbell_address" | "evt_sem_census" => {
            "TOP_SP and other cores: the emulator has one TPB"
        }
        "evt_sem_base" => "units of other cores; that of TPB 0 is tested by evt_sem_address",
        "rms_norm_sync_plan" => "a compiler's plan in words: no instruction words given",
        _ => return None,
    })
}

fn events_of(v: &Value, raw: RawEvents) {
    let got = [raw.wait_mode, raw.wait_idx, raw.update_mode, raw.update_idx].map(u64::from);
    let want = ["wait_mode", "wait_idx", "update_mode", "update_idx"].map(|k| number(&v[k]));
    assert_eq!(got, want);
    assert_eq!(u64::from(raw.value), number(&v["semaphore_value"]));
}

fn sync_vector(v: &Value) {
    let (i, x) = (&v["inputs"], &v["expect"]);
    match v["op"].as_str().unwrap() {
        "decode_events_block" => {
            let mut bytes = vec![0xA4, 0x10, 0, 0];
            bytes.extend(hex_bytes(i["bytes_hex"].as_str().unwrap()));
            let inst = Inst::new(Generation::V2, word(&bytes));
            let raw = inst.events();
            events_of(x, raw);
            assert_eq!(
                enums::WAIT_MODE.name_of(raw.wait_mode.into()),
                x["wait_mode_name"].as_str()
            );
            assert_eq!(
                enums::UPDATE_MODE.name_of(raw.update_mode.into()),
                x["update_mode_name"].as_str()
            );
            let sync = Sync::decode(Generation::V2, false, &raw).unwrap();
            let printed = format!("{} {}", sync.waits[0], sync.updates[0]);
            assert_eq!(printed, x["printed"].as_str().unwrap());
        }
        "decode_header" => {
            let inst =
                Inst::new(Generation::V2, word(&hex_bytes(i["bytes_hex"].as_str().unwrap())));
            assert_eq!(u64::from(inst.opcode()), number(&x["opcode"]));
            let rest = [1, 2, 3].map(|b| u64::from(inst.bytes[b]));
            assert_eq!(rest, ["inst_word_len", "debug_cmd", "debug_hint"].map(|k| number(&x[k])));
        }
        "decode_instruction" => {
            let inst =
                Inst::new(Generation::V2, word(&hex_bytes(i["bytes_hex"].as_str().unwrap())));
            assert_eq!(u64::from(inst.opcode()), number(&x["opcode"]));
            events_of(&x["events"], inst.events());
            // the enum of v2 spells two pseudo names without the second underscore
            let plain = |s: &str| s.replace('_', "");
            assert_eq!(plain(inst.def().unwrap().name), plain(x["name"].as_str().unwrap()));
            for (key, value) in x.as_object().unwrap() {
                let renamed = match key.as_str() {
                    "block_id" => "block_id_or_count",
                    other => other,
                };
                if let (Some(field), Some(n)) = (inst.by_name(renamed), value.as_u64()) {
                    if renamed == "opcode" {
                        continue;
                    }
                    let raw = inst.raw(&field);
                    let mut bytes = [0u8; 8];
                    bytes[..raw.len()].copy_from_slice(raw);
                    assert_eq!(u64::from_le_bytes(bytes), n, "{key}");
                }
            }
        }
        "program_order" => program_order(),
        "encode_core_barrier" => {
            let mut inst = Inst::empty(Generation::V2, 0xD8);
            let b = |k: &str| number(&i[k]) as u8;
            inst.set_events(RawEvents {
                wait_mode: b("wait_mode"),
                wait_idx: b("wait_idx"),
                update_mode: b("update_mode"),
                update_idx: b("update_idx"),
                value: number(&i["semaphore_value"]) as u32,
            })
            .unwrap();
            inst.set(f::pseudo_core_barrier::ID, number(&i["id"]));
            inst.set(f::pseudo_core_barrier::SEMAPHORE, number(&i["semaphore"]));
            let mut want = hex_bytes(x["bytes_hex_prefix"].as_str().unwrap());
            want[1] = 0x10; // the source's illustration has 0x40, shipped samples 0x10
            assert_eq!(inst.bytes, word(&want));
        }
        "layout" => layout(i, x),
        "poll_sem" => poll_sem(i, x),
        "encode_semaphore_inc" | "encode_semaphore_inc_val" => {
            let amount = if i["value"].is_null() { 1 } else { 77 };
            let mut inst = Inst::empty(Generation::V3, op::EVENT_SEMAPHORE);
            inst.set(f::ctrl_es::EXT_UPDATE_MODE, 0x15);
            inst.set(f::ctrl_es::EXT_UPDATE_IDX, 9);
            inst.set(f::ctrl_es::SEM_UPDATE_VALUE, amount);
            assert_eq!(u64::from(inst.u16(0)), number(&x["u16@0x00"]));
            assert_eq!(u64::from(inst.u8(0x22)), number(&x["u8@0x22"]));
            assert_eq!((inst.u8(0x23), u64::from(inst.u32(0x28))), (9, amount));
            let mut p = Program::new(Generation::V3);
            p.stream_mut(Engine::Sp).words.push(inst.bytes);
            let r = run(p);
            assert_eq!(
                u64::from(r.machine.sync_state().value(SyncId::Semaphore(9)).unwrap()),
                amount
            );
        }
        "encode_opcode_words" => {
            for (name, value) in x.as_object().unwrap() {
                let byte = (number(value) & 0xFF) as u8;
                let def = opcode_table(Generation::V2).iter().find(|d| d.byte == byte).unwrap();
                let inst = Inst::empty(Generation::V2, byte);
                assert_eq!(u64::from(inst.u16(0)), number(value), "{name} {}", def.name);
            }
        }
        "evt_sem_address" => {
            let base = MachineConfig::builtin(Generation::V3).address_map.events;
            let window = match i["window"].as_str().unwrap() {
                "EVENT" => 0,
                "SEMAPHORE_READ" => 0x1000,
                "SEMAPHORE_SET" => 0x1400,
                "SEMAPHORE_INC" => 0x1800,
                "SEMAPHORE_DEC" => 0x1C00,
                other => panic!("window {other}"),
            };
            assert_eq!(base + window + 4 * number(&i["index"]), number(&x["address"]));
        }
        "evt_sem_region_size" => {
            let sum: u64 = i["leaf_sizes"].as_array().unwrap().iter().map(number).sum();
            assert_eq!((sum, sum), (number(&x["sum"]), tpbemu::machine::address::SYNC_UNIT));
        }
        "v1_event_barrier" => v1_event_barrier(x),
        other => panic!("no executor for {other}"),
    }
}

fn layout(i: &Value, x: &Value) {
    let name = i["struct"].as_str().unwrap();
    let def = struct_by_name(Layout::V2, name).unwrap_or_else(|| panic!("no struct {name}"));
    for (key, value) in x.as_object().unwrap() {
        let offset = value.as_u64().or_else(|| value.as_array().and_then(|a| a[0].as_u64()));
        if let (Some(field), Some(offset)) = (def.field(key), offset) {
            assert_eq!(u64::from(field.offset), offset, "{name}.{key}");
        }
    }
    let size: u64 = def.fields.iter().map(|f| u64::from(f.size)).sum();
    assert_eq!(size, 64, "fields tile the word");
}

fn poll_sem(i: &Value, x: &Value) {
    let mem: Vec<u32> = i["mem_u32"].as_array().unwrap().iter().map(|n| number(n) as u32).collect();
    let text = format!(
        ".generation v3\n.tensor a hbm uint32[{n}] = {mem:?}\n.tensor b hbm uint32[{n}] = fill(0)\n\
         .stream POOL\n POLL_SEM n_read={n} result=R3 op=MIN addr=a res_writeback_addr=b\n",
        n = mem.len()
    );
    let p = tpbemu::program::asm::assemble("poll.tpb".as_ref(), &text, &tpbemu::program::asm::Disk);
    let mut r = run(p.unwrap_or_else(|e| panic!("{e}")));
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    assert_eq!(u64::from(r.machine.registers(Engine::Pool)[3]), number(&x["result"]));
    let got = r.tensor("b").unwrap();
    let got: Vec<u64> =
        got.chunks_exact(4).map(|b| u64::from(u32::from_le_bytes(b.try_into().unwrap()))).collect();
    let want: Vec<u64> = x["res_writeback"].as_array().unwrap().iter().map(number).collect();
    assert_eq!(got, want);
}

/// The sample program of the page, with the collective as a NOP that has its wait and update.
fn program_order() {
    let g = Generation::V2;
    let mut p = Program::new(g);
    for (name, semaphore) in [("q_gradient_in", 10), ("q_gradient_out", 11)] {
        let queue = p.queues.len();
        p.queues.push(DmaQueue {
            name: name.into(),
            owner: Engine::Pool,
            semaphore: Some(semaphore),
            kind: None,
        });
        p.blocks.push(DmaBlock {
            queue,
            id: 0,
            name: None,
            transfers: Vec::new(),
            on_done: vec![Update::SemaphoreAdd { index: semaphore, amount: 1 }],
            line: SourceLine::default(),
        });
    }
    let trigger = |name: &str, wait: (u8, u8)| {
        let mut inst = Inst::empty(g, op::PSEUDO_DMATRIGGER);
        let at = f::pseudo_dma_trigger::QUEUE_NAME.at(inst.form()).unwrap();
        inst.bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        inst.set_events(RawEvents { wait_mode: wait.0, wait_idx: wait.1, ..RawEvents::default() })
            .unwrap();
        inst.bytes
    };
    let events = |opcode, raw: RawEvents| {
        let mut inst = Inst::empty(g, opcode);
        inst.set_events(raw).unwrap();
        inst.bytes
    };
    let pool = [
        trigger("q_gradient_in", (0, 0)),
        trigger("q_gradient_out", (4, 22)),
        events(
            op::EVENT_SEMAPHORE,
            RawEvents { wait_mode: 4, wait_idx: 11, ..RawEvents::default() },
        ),
    ];
    p.stream_mut(Engine::Pool).words.extend(pool);
    let collective =
        RawEvents { wait_mode: 4, wait_idx: 10, update_mode: 0x13, update_idx: 22, value: 0 };
    p.stream_mut(Engine::Pe).words.push(events(op::NOP, collective));
    let order = tpbemu::trace::tee::Shared::new(Vec::new());
    let config = Arc::new(MachineConfig::builtin(g));
    let keep = order.clone();
    let r = machine::run(
        Arc::new(p),
        config,
        Options::default,
        |_, _| vec![Box::new(keep.clone())],
        false,
    )
    .unwrap();
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    let changes = order.with(|records: &mut Vec<tpbemu::trace::Record>| {
        records
            .iter()
            .filter_map(|r| match r {
                tpbemu::trace::Record::Sync(s) => Some(s.id),
                _ => None,
            })
            .collect::<Vec<_>>()
    });
    assert_eq!(changes, [10, 22, 11].map(SyncId::Semaphore));
    assert_eq!(r.finished.executed, 4);
}

fn v1_event_barrier(x: &Value) {
    let g = Generation::V1;
    // the auxiliary engine is outside the core: its two edges are one event of POOL itself
    let edge = |list: &str, from: &str, to: &str| {
        let rows = x[list].as_array().unwrap();
        let row = rows.iter().find(|r| r[0] == from && r[1] == to).unwrap();
        number(&row[2]) as u8
    };
    let nop = |wait: Option<u8>, set: Option<u8>| {
        let mut inst = Inst::empty(g, tpbemu::isa::op_v1::NOP);
        inst.set_events(RawEvents {
            wait_mode: if wait.is_some() { 2 } else { 0 },
            wait_idx: wait.unwrap_or(0),
            update_mode: if set.is_some() { 3 } else { 0 },
            update_idx: set.unwrap_or(0),
            value: 0,
        })
        .unwrap();
        inst.bytes
    };
    let mut p = Program::new(g);
    let (down, up) = (edge("forward", "PE", "ACT"), edge("backward", "ACT", "PE"));
    let (act_pool, pool_act) = (edge("forward", "ACT", "POOL"), edge("backward", "POOL", "ACT"));
    p.stream_mut(Engine::Pe).words.extend([nop(None, Some(down)), nop(Some(up), None)]);
    p.stream_mut(Engine::Act)
        .words
        .extend([nop(Some(down), Some(act_pool)), nop(Some(pool_act), Some(up))]);
    p.stream_mut(Engine::Pool).words.push(nop(Some(act_pool), Some(pool_act)));
    let r = run(p);
    assert!(r.finished.error.is_none(), "{}", r.finished.error.unwrap());
    assert_eq!(r.machine.sync_state().non_zero().count(), 0, "every event is consumed");
}

fn seq_vector(v: &Value) {
    let (i, x) = (&v["inputs"], &v["expect"]);
    match v["op"].as_str().unwrap() {
        "fault_block_id" => {
            let got = block_id(number(&i["engine_id"]) as u8);
            assert_eq!(got.map(u64::from), x["block_id"].as_u64());
        }
        "fp_error_code" => {
            let got = floating_point_code(number(&i["fp_status"]) as u8);
            assert_eq!(got.map(u64::from), x["code"].as_u64());
        }
        "pc_bounds_disable" => {
            let b = PcBounds::default();
            assert_eq!((b.lower, b.upper), (number(&x["lower"]), number(&x["upper"])));
        }
        "pc_bounds_enable" => {
            for (low, high) in [(5, 5), (u64::MAX, 0), (2, 1)] {
                let got = PcBounds::enable(low, high).unwrap_err();
                assert_eq!(u64::from(got), number(&x["return_code"]));
            }
            assert!(PcBounds::enable(0, 64).is_ok());
        }
        "layout" => layout(i, x),
        "alu_descriptor" | "branch_descriptor" => descriptor(v, i, x),
        "encode_add32_imm" => {
            let mut inst = Inst::empty(Generation::V3, op::ALU_OP);
            inst.set(f::ctrl_al::OP, 4);
            inst.set(f::ctrl_al::DTYPE, 8);
            inst.set(f::ctrl_al::SRC1_DATASRC, 1);
            inst.set(f::ctrl_al::SRC0_REG_LO, 6);
            inst.set(f::ctrl_al::DST_REG_LO, 7);
            inst.set(f::ctrl_al::IMMEDIATE, 0x1234);
            assert_eq!(u64::from(inst.u16(0)), number(&x["u16@0x00"]));
            assert_eq!(u64::from(inst.u32(0x0C)), number(&x["u32@0x0C"]));
            assert_eq!((inst.u8(0x10), inst.u8(0x14), inst.u64(0x18)), (6, 7, 0x1234));
            let mut registers = [0u32; 64];
            registers[6] = 1;
            scalar::alu_op(&mut registers, &inst).unwrap();
            assert_eq!(registers[7], 0x1235);
        }
        "encode_cmp_imm_br_rel" => {
            let mut inst = Inst::empty(Generation::V3, op::COMPARE_BRANCH);
            inst.bytes[3] = number(&x["u8@0x03"]) as u8;
            inst.set(f::ctrl_br::CMP_OP, 6);
            inst.set(f::ctrl_br::CMP_DTYPE, number(&i["dtype"]));
            inst.set(f::ctrl_br::TARGET_MODE, number(&x["u8@0x0E"]));
            inst.set(f::ctrl_br::CMP_IMMEDIATE, 41);
            inst.set(f::ctrl_br::CMP_REG0, 9);
            inst.set(f::ctrl_br::BR_IMMEDIATE, 128);
            assert_eq!(u64::from(inst.u16(0)), number(&x["u16@0x00"]));
            assert_eq!((inst.u8(0x0C), inst.u32(0x10), inst.u8(0x20)), (6, 41, 9));
            assert_eq!(inst.u64(0x30), 128, "zero-extended displacement");
            let mut registers = [0u32; 64];
            assert_eq!(scalar::branch(&registers, &inst, 3, 10).unwrap(), None);
            registers[9] = 42;
            assert_eq!(scalar::branch(&registers, &inst, 3, 10).unwrap(), Some(5));
        }
        "v1_opcode" => {
            let got = v1_join(number(&i["engine"]) as u8, number(&i["base"]) as u8);
            assert_eq!(u64::from(got), number(&x["opcode"]));
        }
        "exit_sentinel" => {
            let mut inst = Inst::empty(Generation::V3, number(&i["byte0"]) as u8);
            inst.bytes[12] = number(&i["byte12"]) as u8;
            let lowered = lower(&Program::new(Generation::V3), &[inst.bytes], 0);
            assert_eq!(lowered.is_ok_and(|l| l == Lowered::End), x["is_exit"].as_bool().unwrap());
        }
        other => panic!("no executor for {other}"),
    }
}

/// Descriptors of the runtime's builders, and what the builder's name says they do.
fn descriptor(v: &Value, i: &Value, x: &Value) {
    let branch = v["op"] == "branch_descriptor";
    let mut inst =
        Inst::empty(Generation::V3, if branch { op::COMPARE_BRANCH } else { op::ALU_OP });
    inst.bytes[12..16].copy_from_slice(&(number(&i["u32@0x0C"]) as u32).to_le_bytes());
    let mut registers = [0u32; 64];
    if branch {
        assert_eq!(inst.get(f::ctrl_br::CMP_OP), number(&x["cmp_op"]));
        assert_eq!(inst.get(f::ctrl_br::CMP_DTYPE), number(&x["dtype"]));
        assert_eq!(inst.get(f::ctrl_br::TARGET_MODE), number(&x["target_mode"]));
        inst.set(f::ctrl_br::CMP_REG0, 1);
        inst.set(f::ctrl_br::CMP_IMMEDIATE, 10);
        inst.set(f::ctrl_br::BR_IMMEDIATE, 64);
        let equal = i["builder"].as_str().unwrap().contains("eq");
        for (value, taken) in [(10, equal), (11, !equal), (9, false)] {
            registers[1] = value;
            assert_eq!(scalar::branch(&registers, &inst, 0, 4).unwrap().is_some(), taken);
        }
        return;
    }
    assert_eq!(inst.get(f::ctrl_al::OP), number(&x["op"]));
    assert_eq!(inst.get(f::ctrl_al::DTYPE), number(&x["dtype"]));
    assert_eq!(inst.get(f::ctrl_al::SRC1_DATASRC), number(&x["src1_datasrc"]));
    inst.set(f::ctrl_al::SRC0_REG_LO, 1);
    inst.set(f::ctrl_al::SRC1_REG_LO, 2);
    inst.set(f::ctrl_al::DST_REG_LO, 3);
    inst.set(f::ctrl_al::IMMEDIATE, 7);
    (registers[1], registers[2]) = ((-20i32) as u32, 7);
    scalar::alu_op(&mut registers, &inst).unwrap();
    let builder = i["builder"].as_str().unwrap();
    let want = match &builder[..3] {
        "add" => -13,
        "sub" => -27,
        "max" => 7,
        "min" => -20,
        other => panic!("builder {other}"),
    };
    assert_eq!(registers[3] as i32, want, "{builder}");
}

#[test]
fn golden_sync() {
    report("golden_sync", &load("golden_sync.json"), elsewhere, sync_vector);
}

#[test]
fn golden_seq() {
    report("golden_seq", &load("golden_seq.json"), elsewhere, seq_vector);
}

//! Golden vectors of libraries: the part of `tests/golden/golden_libraries.json` that concerns the
//! Q7 cores. Vectors of the vendor's container are run by the container's own tests.

use serde_json::Value;
use std::collections::BTreeMap;
use tpbemu::q7::asm::{assemble_one, disasm};
use tpbemu::q7::codec::{self, Options};
use tpbemu::q7::core::{Core, CoreConfig, NoBus};
use tpbemu::q7::library::record::{Emission, ModifyOp, ModifyPoolConfig, emit, selector};
use tpbemu::q7::library::table::{KernelRow, dispatch, key, miss_text, parse};
use tpbemu::q7::library::{
    Bounds, CORES, MAX_LIBRARY, boot, custom, entries, prelink, translate, ucpl,
};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn n(value: &Value) -> u64 {
    match value {
        Value::Number(n) => n.as_u64().unwrap_or_else(|| n.as_i64().unwrap() as u64),
        Value::String(s) => {
            let s = s.split(' ').next().unwrap();
            u64::from_str_radix(s.trim_start_matches("0x"), 16).unwrap()
        }
        other => panic!("{other} is not a number"),
    }
}

fn list(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(n).collect()
}

fn want(what: &str, got: impl std::fmt::Debug, want: impl std::fmt::Debug) -> Result<bool, String> {
    let (got, want) = (format!("{got:?}"), format!("{want:?}"));
    if got == want { Ok(true) } else { Err(format!("{what}: got {got}, want {want}")) }
}

fn rows(value: &Value) -> Vec<KernelRow> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|row| KernelRow {
            opcode: n(&row[0]) as u8,
            spec: n(&row[1]) as u8,
            function: n(&row[2]) as u32,
        })
        .collect()
}

fn record(op: ModifyOp, size: u32) -> ModifyPoolConfig {
    ModifyPoolConfig {
        op,
        core_mask: 0xff,
        soc_addr: 0x1234_5678_9000,
        library_index: 3,
        library_size: size,
    }
}

/// Runs one vector; `Ok(false)` means that there is nothing of the Q7 model to execute.
fn run(vector: &Value) -> Result<bool, String> {
    let (inputs, expect) = (&vector["inputs"], &vector["expect"]);
    match vector["op"].as_str().unwrap() {
        "ucpl_data_seg_off" => want(
            "offset",
            u64::from(ucpl::data_offset(n(&inputs["code_seg_len"]) as u32)),
            n(&expect["data_seg_off"]),
        ),
        "ucpl_magic" => {
            let image = ucpl::UcplHeader::for_segments(4, 4).encode();
            want(
                "magic",
                u64::from_le_bytes(image[..8].try_into().unwrap()),
                n(&inputs["u64_le"]),
            )?;
            want("bytes", &image[..8], &bytes(expect["bytes_hex"].as_str().unwrap())[..])?;
            let offset = u32::from_le_bytes(image[4..8].try_into().unwrap());
            want("code offset", u64::from(offset), n(&expect["code_seg_off_u32_at_4"]))
        }
        "ucpl_header_size" => {
            let header = ucpl::UcplHeader::for_segments(0x40, 8);
            want("header", header.encode().len() as u64, n(&expect["bytes"]))?;
            want("code", ucpl::HEADER, 0x20)?;
            want("total", header.image_size(), header.data_offset + header.data_length)
        }
        "library_size_cap" => {
            let size = n(&inputs["prelinked_size"]) as u32;
            let got = ModifyPoolConfig::decode(&record(ModifyOp::Load, size).encode()).is_ok();
            want("accepted", got, expect["accepted"].as_bool().unwrap())?;
            want("cap", MAX_LIBRARY, 0x1_0000)
        }
        "rela_count_from_relasz" => want(
            "count",
            u64::from(prelink::relocation_count(n(&inputs["DT_RELASZ"]) as u32)),
            n(&expect["rela_count"]),
        ),
        "narrow_immediate_patch_formula" => {
            // const16 a4, 0x1234 keeps its opcode and register.
            let patched = prelink::patch_narrow(0x12_3444, 0xabcd);
            want("patched", format!("{patched:#x}"), "0xabcd44")?;
            let keep = n(&expect["keep_mask"]) as u32;
            want("keep", prelink::patch_narrow(u32::MAX, 0), keep)
        }
        "bundle_length_class" => {
            let class = |insn| prelink::instruction_class(insn).map_err(|e| u64::from(e.code));
            let got = [class(0xf), class(0xe), class(0x0100_000f), class(0x0300_000f)];
            want("class", got, [Ok(16), Ok(16), Ok(8), Err(12u64)])
        }
        "memory_bounds" => {
            let v2 = inputs["gen"].as_str().unwrap().starts_with("sunda");
            let bounds = if v2 { Bounds::V2 } else { Bounds::V3 };
            let config = if v2 { CoreConfig::v2() } else { CoreConfig::v3() };
            want(
                "bounds",
                [bounds.code_base, bounds.code_size, bounds.data_base, bounds.data_size]
                    .map(u64::from),
                ["code_region_base", "code_region_size", "data_region_base", "data_region_size"]
                    .map(|key| n(&expect[key])),
            )?;
            want("iram", u64::from(config.iram_size), n(&expect["iram_size"]))?;
            want("dram", u64::from(config.dram_size), n(&expect["dram_size"]))
        }
        "scratch_fill" => {
            want("fill", u64::from(prelink::FILL), n(&expect["byte"]))?;
            want("code", u64::from(Bounds::V3.code_size), n(&expect["code_bytes"]))?;
            want("data", u64::from(Bounds::V3.data_size), n(&expect["data_bytes"]))
        }
        "dynamic_entries" => {
            let tags: &[(u32, &str)] = &[
                (7, "DT_RELA"),
                (8, "DT_RELASZ"),
                (9, "DT_RELAENT"),
                (12, "DT_INIT"),
                (13, "DT_FINI"),
                (0, "DT_NULL"),
            ];
            let table: Vec<u8> = tags
                .iter()
                .flat_map(|(tag, name)| [*tag, n(&expect[*name]) as u32])
                .flat_map(u32::to_le_bytes)
                .collect();
            let got = prelink::dynamic(&table);
            want("rela", u64::from(got.relocations), n(&expect["DT_RELA"]))?;
            want(
                "count",
                u64::from(got.count),
                n(&expect["DT_RELASZ"]) / n(&expect["DT_RELAENT"]),
            )?;
            want("init", u64::from(got.init), n(&expect["DT_INIT"]))?;
            want("fini", u64::from(got.fini), n(&expect["DT_FINI"]))
        }
        "rela_table_file_offset" => want(
            "offset",
            u64::from(prelink::relocation_offset(
                n(&inputs["scratch_p_offset"]) as u32,
                n(&inputs["scratch_p_vaddr"]) as u32,
                n(&inputs["DT_RELA"]) as u32,
            )),
            n(&expect["image_offset"]),
        ),
        "kernel_info_row_decode" => {
            let raw = bytes(inputs["bytes_hex"].as_str().unwrap());
            let row = KernelRow::decode(&raw).ok_or("not a row")?;
            want("opcode", u64::from(row.opcode), n(&expect["opcode"]))?;
            want("spec", u64::from(row.spec), n(&expect["spec"]))?;
            want("key", u64::from(row.key()), n(&expect["key"]))?;
            want("function", u64::from(row.function), n(&expect["func_va"]))?;
            want("encode", row.encode().to_vec(), raw)
        }
        "kernel_info_table" => {
            let rows = rows(&expect["rows"]);
            let raw: Vec<u8> = rows.iter().flat_map(|row| row.encode()).collect();
            want("count", parse(&raw).len() as u64, n(&expect["count"]))?;
            want("rows", parse(&raw), &rows)?;
            for row in &rows {
                want("dispatch", dispatch(&rows, row.opcode, row.spec), Some(row.function))?;
            }
            want("absent", dispatch(&rows, 0x95, 0), None::<u32>)
        }
        "dispatch_key" => {
            let keys: Vec<_> = list(&inputs["spec"])
                .iter()
                .map(|&spec| u64::from(key(n(&inputs["opcode"]) as u8, spec as u8)))
                .collect();
            want("keys", keys, list(&expect["key"]))
        }
        "dispatch_miss" => {
            let text = miss_text(0xf0, 17);
            let printed = expect["log"].as_str().unwrap().replace("P%i: ", "").replace("%d", "17");
            want("text", text, printed)
        }
        "globstruct_words" => {
            let got: Vec<u64> = boot::GLOBSTRUCT.iter().map(|&w| u64::from(w)).collect();
            want("words", got, list(&expect["words"]))
        }
        "modify_pool_config_lead_half" => {
            let word = record(ModifyOp::Load, 32).encode();
            let half = u16::from_le_bytes([word[0], word[1]]);
            want("half", u64::from(half), n(&inputs["u16_le"]))
        }
        "modify_pool_config_record" => {
            let case = inputs["case"].as_str().unwrap();
            let emission = Emission {
                record: record(
                    if case.contains("unload") { ModifyOp::Unload } else { ModifyOp::Load },
                    0x400,
                ),
                same_context: !case.contains("other")
                    && !case.contains("mismatch")
                    && !case.contains("different"),
                capacity: 8,
                aligned: true,
            };
            let words = emit(&emission).map_err(|code| code.to_string())?;
            if let Some(count) = expect["records"].as_u64() {
                want(case, words.len() as u64, count)?;
            }
            let word = words[0];
            let same = emission.same_context && emission.record.op == ModifyOp::Load;
            want("address", word[16..24].iter().any(|&b| b != 0), same)?;
            want("size", word[28..32].iter().any(|&b| b != 0), same)?;
            want("op", word[12], if emission.record.op == ModifyOp::Load { 1 } else { 2 })?;
            want("reserved", word[32..].iter().all(|&b| b == 0), true)
        }
        "get_sequence_rc" => {
            let case = inputs["case"].as_str().unwrap();
            let aligned = !case.contains("align");
            let emission = Emission {
                record: record(ModifyOp::Load, 4),
                same_context: true,
                capacity: usize::from(!aligned),
                aligned,
            };
            want(case, emit(&emission).map(|w| w.len()), Err::<usize, u64>(n(&expect["rc"])))
        }
        "modify_pool_config_valid" => {
            let mut word = record(ModifyOp::Load, 4).encode();
            word[12] = n(&inputs["modify_op"]) as u8;
            if let Some(size) = inputs.get("library_size") {
                word[28..32].copy_from_slice(&(n(size) as u32).to_le_bytes());
            }
            want(
                "valid",
                ModifyPoolConfig::decode(&word).is_ok(),
                expect["valid"].as_bool().unwrap(),
            )
        }
        "library_selector" => {
            let caller = inputs["caller_library"].as_u64();
            let flag = inputs["CPTC_env_set"].as_bool();
            match (caller, flag) {
                (Some(caller), Some(flag)) => want(
                    "selector",
                    u64::from(selector(caller as u32, flag)),
                    n(&expect["selector"]),
                ),
                _ => want("selector", [selector(5, false), selector(5, true)], [5, 5]),
            }
        }
        "entry_total_cpus_check" => {
            let cpus = n(&inputs["total_cpus"]) as u8;
            want("load", entries::may_load(cpus), expect["line283_ok"].as_bool().unwrap())?;
            want("stay", entries::may_stay(cpus), expect["line318_ok"].as_bool().unwrap())
        }
        "entry_stride" => want("stride", entries::ENTRY as u64, n(&expect["stride_bytes"])),
        "sunda_ucode_lib_info_size" => {
            let total = entries::TABLE_HEADER + entries::ENTRIES * entries::ENTRY;
            want("total", total as u64, n(&expect["total"]))
        }
        "xtensa_decode" => {
            let raw = bytes(inputs["bytes_hex"].as_str().unwrap());
            let bundle = codec::decode(&raw, 0, Options::default()).map_err(|e| e.to_string())?;
            let text = disasm::text(&bundle, 0, &|_| None);
            let mnemonic = expect["mnemonic"].as_str().unwrap();
            let same = |t: &str| assemble_one(t, 0, Options::default()).ok();
            // Branches are printed without their target.
            if mnemonic.starts_with('b') {
                return want("text", text.starts_with(mnemonic), true);
            }
            want("bytes", same(mnemonic), Some(&raw))?;
            want("text", same(&text), Some(&raw))
        }
        "const16_pair" => {
            let mut core = Core::new(CoreConfig::v3(), 0);
            for (i, text) in inputs["sequence"].as_array().unwrap().iter().enumerate() {
                let raw = assemble_one(text.as_str().unwrap(), 0, Options::default()).unwrap();
                core.iram[3 * i..3 * i + 3].copy_from_slice(&raw);
            }
            core.run(&mut NoBus, 2);
            want("a2", u64::from(core.a(2)), n(&expect["a2"]))
        }
        "kernel_function" => {
            let mut core = Core::new(CoreConfig::v3(), 0);
            let code = bytes(inputs["code_hex"].as_str().unwrap());
            core.iram[..code.len()].copy_from_slice(&code);
            let result = core.call(&mut NoBus, 0, 0xb_0000, &[], 100).map_err(|e| e.to_string())?;
            want("returns", u64::from(result), n(&expect["returns"]))
        }
        "get_cpu_id_code" => {
            // rsr.prid a3 ; s32i.n a3, a2, 0 ; l32i.n a2, a2, 0 ; retw.n
            for prid in 0..CORES as u32 {
                let mut core = Core::new(CoreConfig::v3(), prid);
                let mut at = 0;
                for text in [
                    "entry a1, 32",
                    "rsr.prid a3",
                    "s32i.n a3, a2, 0",
                    "l32i.n a2, a2, 0",
                    "retw.n",
                ] {
                    let raw = assemble_one(text, at as u32, Options::default()).unwrap();
                    core.iram[at..at + raw.len()].copy_from_slice(&raw);
                    at += raw.len();
                }
                let got = core.call(&mut NoBus, 0, 0xb_0000, &[0x8_0100], 100).unwrap();
                want("prid", got, prid)?;
            }
            Ok(true)
        }
        "get_cpu_count" => want("cores", CORES as u64, n(&expect["value"])),
        "sdma_window_index" => {
            let index = boot::sdma_index(n(&inputs["prid"]) as u32).map(u64::from);
            want("index", index, Some(n(&expect["index"])))
        }
        "lsp_sram_origin" => {
            let cpu = n(&inputs["cpu"]) as u32;
            want("org", u64::from(boot::custom_image_base(cpu)), n(&expect["org"]))
        }
        "dynamic_window_bases" => {
            want(
                "bases",
                translate::DYNAMIC_WINDOWS.map(u64::from).to_vec(),
                list(&expect["bases"]),
            )?;
            want(
                "registers",
                translate::DYNAMIC_REGISTERS.map(u64::from).to_vec(),
                list(&expect["registers"]),
            )
        }
        "window_masks" => {
            want("16MiB", translate::mask::DYNAMIC, n(&expect["16MiB"]))?;
            want("64MiB", translate::mask::PINNED, n(&expect["64MiB"]))?;
            let mut t = translate::Translation::new(0x20_0000_0000, 0x10_0000_0000);
            let windows = [1u64, 2, 3, 4].map(|i| t.translate(i << 40));
            want("round robin", windows, [0x0700_0000u32, 0x0900_0000, 0x0a00_0000, 0x0700_0000])?;
            want("pinned", t.translate(0x20_0000_0123), 0x8000_0123u32)
        }
        "pool_q7_core_windows" => {
            let (iram, dram) = boot::core_windows(n(&inputs["core"]) as u32).unwrap();
            want("iram", iram, n(&expect["iram"]))?;
            want("dram", dram, n(&expect["dram"]))
        }
        "boot_handshake" => {
            let read = inputs["word_read"].as_str().unwrap();
            let claim = boot::claim(if read.starts_with("0x") {
                n(&inputs["word_read"]) as u32
            } else {
                7
            });
            want("rc", u64::from(claim.code()), n(&expect["rc"]))?;
            let written = match claim {
                boot::Claim::Claimed(word) => Some(u64::from(word)),
                _ => None,
            };
            want("write", written, expect["write"].as_str().map(|_| n(&expect["write"])))
        }
        "boot_special_registers" => {
            let core = Core::new(CoreConfig::v3(), 0);
            for (name, number) in [
                ("VECBASE", 0xe7u8),
                ("ISB", 0xec),
                ("PREFCTL", 0x28),
                ("WB", 0x48),
                ("MS", 0xe5),
                ("PS", 0xe6),
            ] {
                want(name, u64::from(core.read_special(number)), n(&expect[name]))?;
            }
            let memctl = n(&expect["MEMCTL_initial"]) | n(&expect["MEMCTL_or"]);
            want("MEMCTL", u64::from(core.read_special(0x61)), memctl)
        }
        "isa_dtype_to_scalartype" => {
            let got: Vec<_> = list(&inputs["dtype"])
                .iter()
                .map(|&d| u64::from(custom::scalar_type(d as u8).unwrap()))
                .collect();
            want("types", got, list(&expect["scalar_type"]))?;
            want("default", custom::scalar_type(5).is_err(), true)
        }
        "ucode_lib_opcode_flag" | "ucode_lib_total_cpus" => Ok(false),
        _ => Ok(false),
    }
}

#[test]
fn golden_library_vectors() {
    let text = include_str!("golden/golden_libraries.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    let (mut ran, mut listed) = (BTreeMap::<String, u32>::new(), BTreeMap::<String, u32>::new());
    let mut failures = Vec::new();
    for vector in &vectors {
        let op = vector["op"].as_str().unwrap().to_owned();
        match run(vector) {
            Ok(true) => *ran.entry(op).or_default() += 1,
            Ok(false) => *listed.entry(op).or_default() += 1,
            Err(text) => failures.push(format!("{vector}\n    {text}")),
        }
    }
    println!(
        "{} run, {} listed as not executable (facts of shipped files, of the host, or of the container)",
        ran.values().sum::<u32>(),
        listed.values().sum::<u32>()
    );
    println!("run: {ran:?}\nlisted: {listed:?}");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(ran.values().sum::<u32>() > 90);
}

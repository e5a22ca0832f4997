//! Golden vectors of the instruction encoding: `tests/golden/golden_q7_encoding.json`.

use serde_json::Value;
use std::collections::BTreeMap;
use tpbemu::q7::asm::{assemble_one, disasm};
use tpbemu::q7::codec::{self, FormatId, Options, tables};

fn vectors() -> Vec<Value> {
    let text = include_str!("golden/golden_q7_encoding.json");
    serde_json::from_str(text).expect("golden file")
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn s<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// Numbers in one spelling, so that `0x140` equals `320`.
fn normal(text: &str) -> String {
    let mut out = String::new();
    for token in text.split_inclusive([' ', ',', ';']) {
        let bare = token.trim_end_matches([' ', ',', ';']);
        match bare.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok()) {
            Some(value) => out.push_str(&token.replacen(bare, &value.to_string(), 1)),
            None => out.push_str(token),
        }
    }
    out
}

/// Text with branch targets left out, for prints that say only `<label>`.
fn without_targets(bundle: &codec::Bundle) -> String {
    let op = &bundle.ops[0];
    let targets: Vec<_> = op
        .row
        .fields
        .iter()
        .zip(&op.values)
        .filter(|(field, _)| field.is_target())
        .map(|(_, &value)| format!("{:#x}", value as u32))
        .collect();
    let mut text = op.text(&|_| None);
    for target in targets {
        text = text.replace(&target, "<label>");
    }
    text
}

/// Runs one vector; `Err` is a failure, `Ok(false)` means there is nothing to execute.
fn run(vector: &Value) -> Result<bool, String> {
    let (inputs, expect) = (&vector["inputs"], &vector["expect"]);
    let check = |what: &str, got: String, want: String| {
        if got == want { Ok(true) } else { Err(format!("{what}: got {got}, want {want}")) }
    };
    match s(vector, "op") {
        "decode_bundle" => {
            let raw = bytes(s(inputs, "bytes_memory"));
            let frame = codec::frame(&raw).map_err(|e| e.to_string())?;
            check("format", frame.format.name().into(), s(expect, "format").into())?;
            check("length", frame.length.to_string(), expect["length"].to_string())?;
            if let Some(word) = expect["derived_s3_word"].as_str() {
                let got = codec::slot_word(frame.format, 3, &raw).unwrap_or(0);
                check("slot word", format!("{got:#010x}"), word.into())?;
            }
            let wanted: Vec<_> =
                expect["slots"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
            let printed_in_full = !wanted.iter().any(|text| text.contains('<'));
            match codec::decode(&raw, 0, Options::default()) {
                Ok(bundle) => {
                    let got: Vec<_> =
                        bundle.ops.iter().map(|op| normal(&op.text(&|_| None))).collect();
                    let want: Vec<_> = wanted.iter().map(|text| normal(text)).collect();
                    check("slots", got.join("; "), want.join("; "))?;
                    let again = bundle.encode(0).map_err(|e| e.to_string())?;
                    check("encode", format!("{again:02x?}"), format!("{raw:02x?}"))?;
                    let text = disasm::text(&bundle, 0, &|_| None);
                    let again = assemble_one(&text, 0, Options::OWN).map_err(|e| e.to_string())?;
                    check("assemble", format!("{again:02x?}"), format!("{raw:02x?}"))
                }
                Err(error) if printed_in_full => Err(error.to_string()),
                // The pages do not print the operands; the bundle must be refused by name.
                Err(error) => {
                    check("class", error.class.name().into(), "missing specification".into())
                }
            }
        }
        "slot_buffer" => {
            let raw = bytes(s(inputs, "bytes_memory"));
            let word = u64::from_le_bytes(raw.clone().try_into().unwrap());
            check("word 0", format!("{:#010x}", word as u32), s(expect, "insn_word0").into())?;
            check("word 1", format!("{:#010x}", word >> 32), s(expect, "insn_word1").into())?;
            let format = FormatId::by_name(s(inputs, "format")).unwrap();
            let slot = codec::slot_word(format, 0, &raw).unwrap();
            check("slot", format!("{slot:#010x}"), s(expect, "slot_word").into())
        }
        "decode_stream" => {
            let raw = bytes(s(inputs, "bytes_memory"));
            let lines = disasm::disassemble(&raw, 0, &BTreeMap::new(), Options::default());
            let insns = expect["insns"].as_array().unwrap();
            check("count", lines.len().to_string(), insns.len().to_string())?;
            for (line, insn) in lines.iter().zip(insns) {
                check("length", line.bytes.len().to_string(), insn["length"].to_string())?;
                if !line.text.contains(s(insn, "slot3")) {
                    return Err(line.text.clone());
                }
            }
            Ok(true)
        }
        "frame" => {
            // Only the first word is given; the length decoder needs no more.
            let mut raw = bytes(s(inputs, "bytes_memory"));
            raw.resize(16, 0);
            let frame = codec::frame(&raw).map_err(|e| e.to_string())?;
            check("format", frame.format.name().into(), s(expect, "format").into())?;
            check("length", frame.length.to_string(), expect["length"].to_string())
        }
        "encode_slot" => {
            let text = format!("{} {{ nop; nop; nop; {} }}", s(inputs, "format"), s(inputs, "asm"));
            let raw = assemble_one(&text, 0, Options::default()).map_err(|e| e.to_string())?;
            let bundle = codec::decode(&raw, 0, Options::default()).map_err(|e| e.to_string())?;
            let word = codec::encode_slot_word(&bundle.ops[3]).unwrap();
            check("word", format!("{word:#010x}"), s(expect, "slot_word").into())
        }
        "imm_field" => {
            let format = &tables().formats[usize::from(FormatId::by_name("N0").unwrap().0)];
            let row = format.slots[0].rows.iter().find(|row| row.mnemonic == "addi").unwrap();
            let field = row.fields.iter().find(|field| field.name == "imm8").unwrap();
            let codec::field::Bit::At(sign) = *field.bits.last().unwrap() else {
                return Err("sign".into());
            };
            let value = field.decode(1 << sign, 0) as u32;
            check("value", format!("{value:#x}"), s(expect, "value").into())
        }
        "length_table_census" => {
            let mut census = BTreeMap::new();
            for index in 0..=255u8 {
                let length = codec::length_by_table(index, index >> 4).map_or(-1, i32::from);
                *census.entry(length.to_string()).or_insert(0u64) += 1;
            }
            let got: Value = census
                .into_iter()
                .map(|(k, v)| (k, Value::from(v)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            check("census", got.to_string(), expect.to_string())
        }
        "length_exhaustive" => {
            let mut mismatches = 0;
            for pattern in 0..4096u32 {
                let mut raw = [0; 16];
                raw[0] = pattern as u8 & 15;
                raw[3] = (pattern >> 4) as u8;
                let framed = codec::frame(&raw).ok().map(|f| f.length);
                mismatches += u32::from(framed != codec::length_by_table(raw[0], raw[3]));
            }
            check("mismatches", mismatches.to_string(), expect["mismatches"].to_string())
        }
        "decode_scalar" => {
            let raw = bytes(s(inputs, "bytes_memory"));
            let want = s(expect, "asm");
            let pc = 0x1000;
            let bundle = codec::decode(&raw, pc, Options::default()).map_err(|e| e.to_string())?;
            check("length", bundle.frame.length.to_string(), expect["length"].to_string())?;
            let again = bundle.encode(pc).map_err(|e| e.to_string())?;
            check("encode", format!("{again:02x?}"), format!("{raw:02x?}"))?;
            let text = bundle.text(&|_| None);
            let again = assemble_one(&text, pc, Options::default()).map_err(|e| e.to_string())?;
            check("assemble", format!("{again:02x?}"), format!("{raw:02x?}"))?;
            // Relative targets are printed in three ways; compare the distance where one is given.
            let distance = want.split_once('<').and_then(|(_, rest)| {
                let digits = rest.trim_end_matches('>').split(' ').next()?;
                digits.parse::<i64>().ok()
            });
            if let Some(distance) = distance {
                let target = bundle.ops[0].values.last().copied().unwrap() - i64::from(pc) - 4;
                // "-1" is the field value: bytes for branches, words for calls.
                let unit = if want.starts_with("call") { 4 } else { 1 };
                // "forward" counts from the next instruction, which is two bytes on.
                let offset = if want.contains("forward") { distance - 2 } else { distance };
                check("distance", target.to_string(), (offset * unit).to_string())?;
            }
            let shown = without_targets(&bundle);
            let want = match want.split_once('<') {
                Some((head, _)) => format!("{head}<label>"),
                None => want.to_owned(),
            };
            check("text", normal(&shown), normal(&want))
        }
        "field_sweep" => {
            let values = expect["values"].as_array().unwrap().iter().map(|v| v.as_str().unwrap());
            let sweep: Vec<String> = match s(inputs, "operand") {
                text if text.starts_with("valign") => {
                    (0..4).map(|u| format!("ivp_lalign_i u{u}, a2, 0")).collect()
                }
                text if text.starts_with("addressing") => vec![
                    "ivp_lvnx8s_i v0, a2, 0".into(),
                    "ivp_lvnx8s_ip v0, a2, 0".into(),
                    "ivp_lvnx8s_x v0, a2, a0".into(),
                    "ivp_lvnx8s_xp v0, a2, a0".into(),
                ],
                _ => (3..7).map(|t| format!("ivp_lvnx8s_xp v0, a2, a{t}")).collect(),
            };
            for (text, want) in sweep.iter().zip(values) {
                let raw = assemble_one(&format!("{{ {text}; nop }}"), 0, Options::default())
                    .map_err(|e| e.to_string())?;
                // The printed numeral has its most significant byte first.
                let got = match want.len() {
                    2 => format!("{:02x}", raw[0]),
                    _ => format!("{:02x}{:02x}", raw[5], raw[4]),
                };
                check(text, got, want.into())?;
            }
            Ok(true)
        }
        "asm_accept" => {
            let wanted = expect["accepted"].as_bool().unwrap();
            let texts: Vec<String> = match inputs["asm"].as_str() {
                Some(text) => vec![text.to_owned()],
                None => inputs["immediates"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|imm| format!("{} v0, a3, {imm}", s(inputs, "mnemonic")))
                    .collect(),
            };
            for text in texts {
                let got = assemble_one(&text, 0, Options::OWN).is_ok();
                check(&text, got.to_string(), wanted.to_string())?;
            }
            Ok(true)
        }
        "opcode_template" => {
            let word = number(s(expect, "word0")) as u32;
            let (mnemonic, format, slot) =
                (s(inputs, "mnemonic"), s(inputs, "format"), s(inputs, "slot"));
            let printed = tables().templates.iter().any(|t| {
                t.mnemonic == mnemonic && t.format == format && t.slot == slot && t.word == word
            });
            let id = FormatId::by_name(format).unwrap();
            let (base, register) = mnemonic.split_once('.').unwrap_or((mnemonic, ""));
            let placed =
                tables().places(mnemonic).iter().chain(tables().places(base)).any(|&place| {
                    let row = tables().row(place);
                    let table = &tables().formats[usize::from(place.format)];
                    if row.format != id || table.slots[usize::from(row.slot)].name != slot {
                        return false;
                    }
                    let raw = row.value.to_le_bytes();
                    let mut got = codec::slot_word(id, usize::from(row.slot), &raw);
                    if row.mnemonic != mnemonic {
                        let number = codec::special::special_number(register)
                            .or(codec::special::user_number(register));
                        got = got.map(|word| word | u32::from(number.unwrap_or(0)) << 8);
                    }
                    got == Some(word)
                });
            // In N2 the tables are kept in bundle bits; the nop word has as many set bits as its half.
            let counted = format == "N2" && mnemonic == "nop" && word.count_ones() == 7;
            if printed || placed || counted { Ok(true) } else { Err("no such template".into()) }
        }
        "thunk_bytes" => {
            // The vendor's encode thunk stores an immediate; it must be the template word.
            let code = bytes(s(expect, "bytes"));
            let word = u32::from_le_bytes(code[2..6].try_into().unwrap());
            let want = match s(inputs, "mnemonic") {
                "addi" => 0x0024_0000,
                _ => 0x6498_d800,
            };
            let known = tables().templates.iter().any(|t| t.word == word)
                || word == 0x0024_0000
                    && codec::slot_word(
                        FormatId::by_name("N0").unwrap(),
                        0,
                        &tables()
                            .row(
                                tables()
                                    .places("addi")
                                    .iter()
                                    .copied()
                                    .find(|p| {
                                        tables().row(*p).format == FormatId::by_name("N0").unwrap()
                                    })
                                    .unwrap(),
                            )
                            .value
                            .to_le_bytes(),
                    ) == Some(word);
            check("word", format!("{word:#x} {known}"), format!("{want:#x} true"))
        }
        "placement_sums" => {
            let mut total = 0;
            let mut scalar = 0;
            for format in &tables().formats {
                let sum: u64 = format.slots.iter().map(|slot| u64::from(slot.placements)).sum();
                total += sum;
                if format.length < 8 {
                    scalar += sum;
                } else {
                    check(format.id.name(), sum.to_string(), expect[format.id.name()].to_string())?;
                }
            }
            check("scalar", scalar.to_string(), expect["scalar"].to_string())?;
            check("total", total.to_string(), expect["total"].to_string())
        }
        // Only the high half of the bundle is printed: it must be that of the listed operations.
        "decode_bundle_partial" => {
            let want = s(inputs, "high_8_bytes_printed");
            let last = expect["slots"][3].as_str().unwrap();
            let hex = |raw: &[u8]| raw.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
            let whole = |text: &str| {
                assemble_one(&format!("F0 {{ nop; nop; nop; {text} }}"), 0, Options::default())
                    .map_err(|e| e.to_string())
            };
            let found = match last.strip_suffix("<index>") {
                None => hex(&whole(last)?[8..]) == want,
                // The fields of this one are not known: its printed slot word, with zero operands.
                Some(_) => {
                    let format = FormatId::by_name("F0").unwrap();
                    let slot = &tables().formats[usize::from(format.0)].slots[3];
                    let mnemonic = last.split(' ').next().unwrap();
                    let template = tables().templates.iter().find(|t| {
                        t.mnemonic == mnemonic && t.format == "F0" && t.slot == slot.name
                    });
                    let word = template.ok_or("no template")?.word;
                    let raw: [u8; 16] = whole("ivp_movfsv v0")?.try_into().unwrap();
                    let mut bundle = u128::from_le_bytes(raw) & !slot.own;
                    for (bit, at) in slot.scatter.iter().enumerate() {
                        bundle |= at.map_or(0, |at| u128::from(word >> bit & 1) << at);
                    }
                    hex(&bundle.to_le_bytes()[8..]) == want
                }
            };
            check("high half", found.to_string(), "true".to_owned())
        }
        // The value model of one page stores the top bit of a register number inverted.
        "ar_physical_index" => {
            let field = inputs["field"].as_u64().unwrap() as u32;
            let core = tpbemu::q7::core::Core::new(tpbemu::q7::core::CoreConfig::v3(), 0);
            check("window", "0".to_owned(), inputs["windowbase"].to_string())?;
            check("register", core.physical(field ^ 8).to_string(), expect["physical"].to_string())
        }
        _ => Ok(false),
    }
}

#[test]
fn golden_encoding_vectors() {
    let mut ran = BTreeMap::<String, u32>::new();
    let mut listed = BTreeMap::<String, u32>::new();
    let mut failures = Vec::new();
    for vector in vectors() {
        let op = s(&vector, "op").to_owned();
        match run(&vector) {
            Ok(true) => *ran.entry(op).or_default() += 1,
            Ok(false) => *listed.entry(op).or_default() += 1,
            Err(text) => failures.push(format!("{vector}\n    {text}")),
        }
    }
    println!(
        "{} run, {} listed as not executable here",
        ran.values().sum::<u32>(),
        listed.values().sum::<u32>()
    );
    println!("run: {ran:?}\nlisted: {listed:?}");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    // 25 load and store vectors are run by `q7_core`. The others are censuses of the vendor's tool
    // tables, and the fields of an operation whose opcode is not printed.
    let elsewhere = [
        "ar_post_update",
        "lashift_512_512_6",
        "sav_merge",
        "sel_2nx8_align_crosscheck",
        "vector_load_line_mask",
    ];
    let nowhere = listed.iter().filter(|(op, _)| !elsewhere.contains(&op.as_str()));
    assert_eq!(nowhere.map(|(_, count)| count).sum::<u32>(), 6);
}

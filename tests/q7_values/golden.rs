//! The vectors transcribed from the public pages.

use std::collections::BTreeMap;

use serde_json::Value;
use tpbemu::q7::asm::{assemble_one, disasm};
use tpbemu::q7::codec::{self, Options as CodecOptions};
use tpbemu::q7::core::loadstore::align_window;
use tpbemu::q7::core::{Core, CoreConfig, NoBus};
use tpbemu::q7::ops::softfloat::{self as sf, F16, F32};
use tpbemu::q7::ops::{pack, seed, shift, vbool};
use tpbemu::q7::regs::{Vec512, fcr};

use crate::{Bench, Inputs, lane, lanes, op, splat};

/// Number of a JSON value: an integer, or a hexadecimal string.
fn number(v: &Value) -> u128 {
    match v {
        // Named patterns of the pages: the signalling NaN of the fp16 corpus, and "some quiet NaN" at fp32.
        Value::String(s) if s == "sNaN" => 0x7c01,
        Value::String(s) if s == "NaN_a" => 0x7fc0_0011,
        Value::String(s) => {
            let digits = s.strip_prefix("0x").unwrap_or_else(|| panic!("not hexadecimal: {s}"));
            u128::from_str_radix(digits, 16).unwrap()
        }
        _ => v.as_i64().unwrap_or_else(|| panic!("not a number: {v}")) as u128,
    }
}

fn word(v: &Value) -> u32 {
    number(v) as u32
}

/// Text of a member.
fn s<'a>(v: &'a Value, key: &str) -> &'a str {
    v[key].as_str().unwrap()
}

fn words(v: &Value) -> Vec<u32> {
    v.as_array().unwrap().iter().map(word).collect()
}

/// Outcome of one vector: ran, or the reason why it cannot.
enum Outcome {
    Ran,
    NotExecutable(&'static str),
}

use Outcome::{NotExecutable, Ran};

/// Runs an operation lanewise on splatted scalars: lane 0 and the raw flags.
fn scalar(mnemonic: &str, bits: u32, sources: &[u32], mode: u32) -> (u32, u32) {
    scalar_imm(mnemonic, bits, sources, &[], mode, 0)
}

fn scalar_imm(
    mnemonic: &str,
    bits: u32,
    sources: &[u32],
    imm: &[u32],
    mode: u32,
    old: u32,
) -> (u32, u32) {
    let inputs = Inputs {
        vecs: sources.iter().map(|&s| splat(bits, s)).collect(),
        scalars: imm.to_vec(),
        old: splat(bits, old),
        mode,
        ..Inputs::default()
    };
    let bench = Bench::run(op(mnemonic), &inputs);
    let first = bench.first();
    for i in 0..512 / bits as usize {
        assert_eq!(lane(bits, &first, i), lane(bits, &first, 0), "{mnemonic} lane {i}");
    }
    (lane(bits, &first, 0), if op(mnemonic).writes.flags { bench.out.flags } else { 0 })
}

/// Runs a compare on splatted scalars: the vbool field of a lane and the raw flags.
fn compare(mnemonic: &str, bits: u32, a: u32, b: u32) -> (u64, u32) {
    let inputs = Inputs { vecs: vec![splat(bits, a), splat(bits, b)], ..Inputs::default() };
    let bench = Bench::run(op(mnemonic), &inputs);
    let field = bits / 8;
    let mask = (1u64 << field) - 1;
    let vb = bench.vbool();
    for i in 0..64 / field {
        assert_eq!(vb >> (i * field) & mask, vb & mask, "{mnemonic} lane {i}");
    }
    (vb & mask, if op(mnemonic).writes.flags { bench.out.flags } else { 0 })
}

/// Checks a value with optional named flags against `expect`.
fn check(what: &str, got: (u32, u32), expect: &Value) {
    let Value::Object(fields) = expect else {
        assert_eq!(got.0, word(expect), "{what}");
        return;
    };
    for (name, want) in fields {
        let flag = |bit: u32| u32::from(got.1 & bit != 0);
        let have = match name.as_str() {
            "value" | "result" => got.0,
            "flag" | "invalid" => flag(fcr::INVALID),
            "inexact" => flag(fcr::INEXACT),
            "overflow" => flag(fcr::OVERFLOW),
            "divzero" => flag(fcr::DIV_ZERO),
            other => panic!("{what}: no flag {other}"),
        };
        assert_eq!(have, word(want), "{what}: {name}");
    }
}

/// Sign, exponent and mantissa as a number, for vectors printed in decimal.
fn approx(bits: u32, pattern: u32) -> f64 {
    f64::from(f32::from_bits(if bits == 16 { sf::widen_f16(pattern).0 } else { pattern }))
}

fn run(entry: &Value) -> Outcome {
    let name = entry["op"].as_str().unwrap();
    let (inputs, expect) = (&entry["inputs"], &entry["expect"]);
    let what = &format!("{entry}");
    let mnemonic = entry["mnemonic"].as_str().unwrap_or("");
    let mode = if inputs["round_mode"].is_null() { 0 } else { word(&inputs["round_mode"]) };
    let a = || word(&inputs["a"]);
    let b = || word(&inputs["b"]);
    // Name parts: leaf, then widths.
    let leaf = name.split('_').next().unwrap();
    match name {
        // lanewise integer operations
        _ if [
            "add", "adds", "sub", "subs", "min", "minu", "max", "maxu", "abssub", "avg", "avgr",
        ]
        .contains(&leaf)
            && !name.contains('f') =>
        {
            let bits = if name.contains("_8_8") { 8 } else { 16 };
            assert_eq!(scalar(mnemonic, bits, &[a(), b()], 0).0, word(expect), "{what}");
        }
        "abs_16_16" | "neg_16_16" | "abss_16_16" => {
            assert_eq!(scalar(mnemonic, 16, &[a()], 0).0, word(expect), "{what}");
        }
        "popc_8_8" => assert_eq!(scalar("ivp_popc2nx8", 8, &[a()], 0).0, word(expect), "{what}"),
        "and_512_512_512" | "or_512_512_512" | "xor_512_512_512" | "not_512_512" => {
            let bytes = |v: &Value| {
                u32::from_str_radix(v.as_str().unwrap(), 16).unwrap().swap_bytes() >> 16
            };
            let mut sources = vec![bytes(&inputs["a_bytes"])];
            if !inputs["b_bytes"].is_null() {
                sources.push(bytes(&inputs["b_bytes"]));
            }
            assert_eq!(scalar(mnemonic, 16, &sources, 0).0, bytes(&expect["bytes"]), "{what}");
        }
        _ if ["eq", "neq", "lt", "ltu", "le", "leu"].contains(&leaf) => {
            let bits = 8 * name.split('_').nth(1).unwrap().parse::<u32>().unwrap();
            assert_eq!(compare(mnemonic, bits, a(), b()).0 as u32, word(expect), "{what}");
        }
        _ if ["bmax", "bmaxu", "bmin", "bminu", "baddnorm", "bsubnorm"].contains(&leaf) => {
            let v = Inputs { vecs: vec![splat(16, a()), splat(16, b())], ..Inputs::default() };
            let bench = Bench::run(op(mnemonic), &v);
            assert_eq!(lane(16, &bench.first(), 0), word(&expect["value"]), "{what}");
            assert_eq!(bench.vbool() as u32 & 3, word(&expect["flag"]), "{what}");
        }
        "bxorabssubu_1_8_8_8_1" => {
            let old_vbool = if word(&inputs["pred_in"]) == 1 { u64::MAX } else { 0 };
            let v =
                Inputs { vecs: vec![splat(8, a()), splat(8, b())], old_vbool, ..Inputs::default() };
            let bench = Bench::run(op(mnemonic), &v);
            assert_eq!(lane(8, &bench.first(), 5), word(&expect["value"]), "{what}");
            assert_eq!(bench.vbool() as u32 >> 5 & 1, word(&expect["flag"]), "{what}");
        }
        "addnx16t" => {
            let list = |key: &str| lanes(16, &words(&inputs[key]));
            let mask =
                words(&inputs["mask"]).iter().rev().fold(0u64, |m, &bit| m << 2 | u64::from(bit));
            let v = Inputs {
                vecs: vec![list("a"), list("b")],
                preds: vec![mask],
                old: list("old"),
                ..Inputs::default()
            };
            let first = Bench::run(op(mnemonic), &v).first();
            for (i, want) in words(expect).into_iter().enumerate() {
                assert_eq!(lane(16, &first, i), want, "{what}");
            }
        }
        // reductions
        _ if name.starts_with("radd") || name.starts_with("rmax") || name.starts_with("rmin") => {
            let bits = match () {
                _ if name.contains("2nx8") => 8,
                _ if name.contains("n_2x") => 32,
                _ => 16,
            };
            let src = words(&inputs["src"]);
            let predicate = inputs.as_object().unwrap().iter().find(|(key, _)| *key != "src").map(
                |(key, value)| {
                    let keep: Vec<usize> = match value {
                        Value::Array(kept) => kept.iter().map(|k| number(k) as usize).collect(),
                        Value::String(s) if s == "all" => (0..32).collect(),
                        Value::String(s) if s == "none" => Vec::new(),
                        other => panic!("{key}: {other}"),
                    };
                    keep.iter().fold(0u64, |m, k| m | 3 << (2 * k))
                },
            );
            let v = Inputs {
                vecs: vec![lanes(bits, &src)],
                preds: predicate.into_iter().collect(),
                ..Inputs::default()
            };
            let bench = Bench::run(op(mnemonic), &v);
            let value = bench.first().u32s()[0];
            let flags = if op(mnemonic).writes.flags { bench.out.flags } else { 0 };
            check(what, (value, flags), expect);
        }
        _ if name.starts_with("rb") && name.ends_with("_nx16_64_512_512") => {
            let v = Inputs { vecs: vec![lanes(16, &words(&inputs["src"]))], ..Inputs::default() };
            let bench = Bench::run(op(mnemonic), &v);
            let mask = words(&expect["mask_lanes"]).iter().fold(0u64, |m, k| m | 3 << (2 * k));
            assert_eq!(bench.vbool(), mask, "{what}");
            assert_eq!(bench.first(), splat(16, word(&expect["value"])), "{what}");
        }
        "rbmax_16 fold" => {
            let mut src = words(&inputs["lanes"]);
            src.resize(32, 0x8000);
            let bench = Bench::run(
                op(mnemonic),
                &Inputs { vecs: vec![lanes(16, &src)], ..Inputs::default() },
            );
            let mask = words(&expect["mask_lanes"]).iter().fold(0u64, |m, k| m | 3 << (2 * k));
            assert_eq!(
                (bench.vbool(), lane(16, &bench.first(), 0)),
                (mask, word(&expect["value"])),
                "{what}"
            );
        }
        // shifts
        "sls_u_16_16_6" => {
            let got = shift::sls16(word(&inputs["value"]) as i16, word(&inputs["amount"])) as u16;
            assert_eq!(u32::from(got), word(expect), "{what}");
        }
        _ if ["sll", "srl", "sra", "rotr"].contains(&leaf) => {
            let value = word(&inputs["value"]);
            let got = if let Some(n) = inputs.get("amount_6bit_signed") {
                scalar(mnemonic, 16, &[value, word(n)], 0).0
            } else {
                let n = word(&inputs["amount"]);
                if op(mnemonic).operands[2].name.starts_with("imm") {
                    let bits = if name.contains("_8_8_") { 8 } else { 16 };
                    scalar_imm(mnemonic, bits, &[value], &[n], 0, 0).0
                } else if n > 31 && leaf != "rotr" {
                    // The unsigned leaf allows amounts that the signed 6-bit field of the mnemonic cannot hold.
                    u32::from(match leaf {
                        "sll" => shift::sll16(value as u16, n as i16),
                        "srl" => shift::srl16(value as u16, n as i16),
                        _ => shift::sra16(value as u16, n as i16),
                    })
                } else {
                    scalar(mnemonic, 16, &[value, n], 0).0
                }
            };
            assert_eq!(got, word(expect), "{what}");
        }
        "nsa_16_16" | "nsau_16_16" => {
            assert_eq!(scalar(mnemonic, 16, &[word(&inputs["value"])], 0).0, word(expect), "{what}")
        }
        "nsa_32_32" | "nsau_32_32" => {
            assert_eq!(scalar(mnemonic, 32, &[word(&inputs["value"])], 0).0, word(expect), "{what}")
        }
        "normalize nsa then sll" => {
            let value = word(&inputs["value"]);
            let amount = scalar("ivp_nsanx16", 16, &[value], 0).0;
            assert_eq!(scalar("ivp_sllnx16", 16, &[value, amount], 0).0, word(expect), "{what}");
        }
        // permutations
        "shfl_nx16_512_512_512" | "sel_nx16_512_512_512_512" | "dsel_nx16_512_512_512_512_32" => {
            let get = |key: &str| lanes(16, &words(&inputs[key]));
            // "Flat 16-bit lane indices" of the dual select: any will do, so a mix is used.
            let flat = || (0..32).map(|k| k * 5 % 64).collect();
            let ctrl: Vec<u32> = inputs.get("ctrl_lanes_0..").map_or_else(flat, words);
            let vecs = if leaf == "shfl" {
                vec![get("src"), lanes(16, &ctrl)]
            } else {
                // Source B is the first assembler operand.
                vec![get("srcB"), get("srcA"), lanes(16, &ctrl)]
            };
            let bench =
                Bench::run(op(mnemonic), &Inputs { vecs: vecs.clone(), ..Inputs::default() });
            if leaf == "dsel" {
                let plain = Bench::run(
                    op("ivp_selnx16"),
                    &Inputs { vecs: vecs.clone(), ..Inputs::default() },
                );
                // Assembly order is vu, vt: the second destination is the plain selection.
                assert_eq!(bench.second(), plain.first(), "{what}");
                assert_eq!(bench.first(), splat(16, lane(16, &vecs[0], 0)), "{what}");
            } else {
                for (i, want) in words(expect).into_iter().enumerate().take(ctrl.len()) {
                    assert_eq!(lane(16, &bench.first(), i), want, "{what}");
                }
            }
        }
        "sel_nx16 lane" | "shfl_nx16 lane" => {
            let ramp = |base: u32| lanes(16, &(0..32).map(|k| base + k).collect::<Vec<_>>());
            let ctrl = splat(16, word(&inputs["ctrl"]));
            let vecs = if leaf == "sel" {
                vec![ramp(0xb00), ramp(0xa00), ctrl]
            } else {
                vec![ramp(0x100), ctrl]
            };
            let first = Bench::run(op(mnemonic), &Inputs { vecs, ..Inputs::default() }).first();
            assert_eq!(lane(16, &first, 13), word(expect), "{what}");
        }
        "dcmprs_2nx8_512_512_64" => {
            let mask = number(&inputs["vbool"]) as u64;
            let v = Inputs {
                vecs: vec![lanes(8, &words(&inputs["src"]))],
                preds: vec![mask],
                ..Inputs::default()
            };
            let first = Bench::run(op(mnemonic), &v).first();
            if let Some(out) = expect.get("out") {
                assert_eq!(first, lanes(8, &words(out)), "{what}");
            } else {
                for (k, want) in expect["lanes"].as_object().unwrap() {
                    assert_eq!(lane(8, &first, k.parse().unwrap()), word(want), "{what}");
                }
            }
        }
        // floating point
        _ if ["add", "sub", "mul"].contains(&leaf) && name.contains('f') => {
            let bits = if name.contains("16f") { 16 } else { 32 };
            let got = scalar(mnemonic, bits, &[a(), b()], mode);
            if let Some(want) = expect.get("approx_value") {
                assert_eq!(approx(bits, got.0), want.as_f64().unwrap(), "{what}");
            } else {
                check(what, got, expect);
            }
        }
        _ if ["min", "max", "minnum", "maxnum"].contains(&leaf) => {
            let bits = if name.contains("16f") { 16 } else { 32 };
            check(what, scalar(mnemonic, bits, &[a(), b()], 0), expect);
        }
        _ if ["oeq", "olt", "ole", "ueq", "ult", "ule", "uleq", "ultq", "un", "uneq"]
            .contains(&leaf) =>
        {
            let bits = if name.contains("16f") { 16 } else { 32 };
            let (field, flags) = compare(mnemonic, bits, a(), b());
            // `_1_1_` leaves return one bit, `_1_2_` and `_1_4_` the lane's whole field.
            let whole = !name.contains("_1_1_");
            check(what, (if whole { field as u32 } else { u32::from(field != 0) }, flags), expect);
        }
        "abs_32f_32f" | "neg_32f_32f" | "clsfy_32f_32f" => {
            check(what, scalar(mnemonic, 32, &[a()], 0), expect)
        }
        "abs_16f_16f" | "neg_16f_16f" | "clsfy_16f_16f" => {
            check(what, scalar(mnemonic, 16, &[a()], 0), expect)
        }
        "addexp_16f_16f_16f" => {
            assert_eq!(scalar_imm(mnemonic, 16, &[b()], &[], 0, a()).0, word(expect), "{what}")
        }
        "cvtf32_1_32f_16f" => check(what, scalar(mnemonic, 32, &[a()], 0), expect),
        "firound_1_32f_32f" => check(what, scalar("ivp_firoundn_2xf32", 32, &[a()], 0), expect),
        "firint_1_1_32f_32f_2" => {
            check(what, scalar("ivp_firintn_2xf32", 32, &[a()], mode), expect)
        }
        "ficeil_1_32f_32f" => check(what, scalar("ivp_ficeiln_2xf32", 32, &[a()], 0), expect),
        "fifloor_1_32f_32f" => check(what, scalar("ivp_fifloorn_2xf32", 32, &[a()], 0), expect),
        "fitrunc_1_32f_32f" => check(what, scalar("ivp_fitruncn_2xf32", 32, &[a()], 0), expect),
        // seeds
        _ if ["recip0", "rsqrt0", "sqrt0", "div0", "nexp0", "nexp01"].contains(&leaf) => {
            let bits = if name.contains("16f") { 16 } else { 32 };
            let got = scalar(mnemonic, bits, &[a()], 0);
            if let Some(want) = expect.get("approx_value") {
                let want = want.as_f64().unwrap();
                assert!(
                    (approx(bits, got.0) - want).abs() < 1e-5 * want.abs().max(0.5),
                    "{what}: {}",
                    approx(bits, got.0)
                );
            } else {
                check(what, got, expect);
            }
        }
        "recipqli" => assert_eq!(scalar(mnemonic, 32, &[a()], 0).0, word(expect), "{what}"),
        "recip Newton demo" => {
            // Newton steps in exact-enough arithmetic from the seed of 3.0: each doubles the correct bits.
            let x = 3.0f64;
            let mut y = f64::from(f32::from_bits(seed::recip0::<F32>(3.0f32.to_bits()).0));
            for want in expect["correct_bits"].as_array().unwrap() {
                let bits = -((y * x - 1.0).abs().log2());
                assert!((bits - want.as_f64().unwrap()).abs() < 0.6, "{what}: {bits}");
                y *= 2.0 - x * y;
            }
        }
        "recip Newton (fp16 seed)" | "rsqrt Newton (fp16 seed)" => {
            let x = inputs["x"].as_f64().unwrap();
            let h = sf::narrow_f32((x as f32).to_bits(), sf::RNE).0;
            let reciprocal = leaf.starts_with("recip");
            let seed = if reciprocal { seed::recip0::<F16>(h) } else { seed::rsqrt0::<F16>(h) };
            let step =
                |y: f64| if reciprocal { y * (2.0 - x * y) } else { y * (1.5 - 0.5 * x * y * y) };
            let y0 = approx(16, seed.0);
            for (key, got) in [("seed", y0), ("nr1", step(y0)), ("nr2", step(step(y0)))] {
                assert!((got - expect[key].as_f64().unwrap()).abs() < 1e-5, "{what}: {key} {got}");
            }
        }
        "seed accuracy sweep" => {
            let limit = expect["max_rel_err"].as_f64().unwrap();
            let reciprocal = inputs["leaf"].as_str().unwrap().starts_with("recip0");
            let mut worst = 0.0f64;
            for m in (0..1u32 << 23).step_by(61) {
                let x = 0x3f80_0000 | m;
                let real = f64::from(f32::from_bits(x));
                let (got, want) = if reciprocal {
                    (seed::recip0::<F32>(x).0, 1.0 / real)
                } else {
                    (seed::rsqrt0::<F32>(x).0, 1.0 / real.sqrt())
                };
                worst = worst.max((f64::from(f32::from_bits(got)) / want - 1.0).abs());
            }
            // A dense sweep may exceed the sampled maximum by the sampling step only.
            assert!(worst > limit * 0.99 && worst < limit * 1.01, "{what}: {worst}");
        }
        "mksadj_1_16f_16f" | "mkdadj_1_1_16f_16f_16f" => {
            return NotExecutable("one point of an operation whose rule no page states");
        }
        // accumulator leaves
        "mul_24_8_8" | "muluu_24_8_8" => {
            let extend =
                |x: u32| if leaf == "mul" { i128::from(x as i8) } else { i128::from(x as u8) };
            assert_eq!(pack::mula(0, extend(a()), extend(b()), 24), number(expect), "{what}");
        }
        "mula_24_24_8_8" | "muls_24_24_8_8" => {
            let (acc, x, y) = (number(&inputs["acc"]), a() as i8, b() as i8);
            let f = if leaf == "mula" { pack::mula } else { pack::muls };
            assert_eq!(f(acc, x.into(), y.into(), 24), number(expect), "{what}");
        }
        "mula_48_48_16_16 chain" => {
            let pairs = inputs["pairs"].as_array().unwrap();
            let total = pairs.iter().fold(0, |acc, pair| {
                let n = |i: usize| i128::from(pair[i].as_i64().unwrap());
                pack::mula(acc, n(0), n(1), 48)
            });
            assert_eq!(total, number(expect), "{what}");
        }
        "mula_96_96_32_32" => {
            let got = pack::mula(
                number(&inputs["acc"]),
                i128::from(a() as i32),
                i128::from(b() as i32),
                96,
            );
            assert_eq!(got, number(expect), "{what}");
        }
        "sqrp_24_8_8" => {
            let (x, y) = (i128::from(a() as i8), i128::from(b() as i8));
            assert_eq!(pack::mula(pack::mula(0, x, x, 24), y, y, 24), number(expect), "{what}");
        }
        "decnegw_24_24" => {
            assert_eq!(pack::decnegw(number(&inputs["acc"]), 24), number(expect), "{what}")
        }
        "packl_16_48" | "packl_8_24" => {
            let out = if name == "packl_8_24" { 8 } else { 16 };
            assert_eq!(pack::packl(number(&inputs["acc"]), out), number(expect), "{what}");
        }
        "packvr_16_24_32" | "packvr_8_24_32" | "packvrnr_16_24_32" => {
            let out = if name == "packvr_8_24_32" { 8 } else { 16 };
            let f = if leaf == "packvr" { pack::packvr } else { pack::packvrnr };
            assert_eq!(
                f(number(&inputs["acc"]), 24, word(&inputs["shift"]), out),
                number(expect),
                "{what}"
            );
        }
        "pack" => {
            let got = pack::pack(word(&inputs["acc_word0"]), word(&inputs["shift"]));
            assert_eq!(u32::from(got), word(expect), "{what}");
        }
        "packp_16_48" => assert_eq!(
            u32::from(pack::pack(word(&inputs["acc_word0"]), 10)),
            word(expect),
            "{what}"
        ),
        "shift_amt_satu_32" => {
            assert_eq!(pack::shift_amt_satu_32(word(&inputs["amount"])), word(expect), "{what}")
        }
        "shift_amt_satu_23" => {
            assert_eq!(pack::shift_amt_satu_23(word(&inputs["amount"])), word(expect), "{what}")
        }
        "sext_32_16" => {
            assert_eq!(pack::sext(number(&inputs["a"]), 16) as i32 as u32, word(expect), "{what}")
        }
        "cvt24s_24_16" => {
            assert_eq!(
                pack::low(pack::sext(number(&inputs["a"]), 16) as u128, 24),
                number(expect),
                "{what}"
            )
        }
        "cvt32s_32_24" => {
            assert_eq!(pack::sext(number(&inputs["a"]), 24) as i32 as u32, word(expect), "{what}")
        }
        "cvt24u_24_32" => assert_eq!(pack::low(number(&inputs["a"]), 24), number(expect), "{what}"),
        "sats_8_16" | "sats_16_32" => {
            let (out, input) = if name == "sats_8_16" { (8, 16) } else { (16, 32) };
            assert_eq!(
                pack::sats(pack::sext(number(&inputs["a"]), input), out),
                number(expect),
                "{what}"
            );
        }
        // predicates
        "andb_64_64_64" | "andnotb_64_64_64" | "notb_64_64" => {
            let mut preds = vec![number(&inputs["a"]) as u64];
            if leaf != "notb" {
                preds.push(number(&inputs["b"]) as u64);
            }
            let got = Bench::run(op(mnemonic), &Inputs { preds, ..Inputs::default() }).vbool();
            assert_eq!(got, number(expect) as u64, "{what}");
        }
        _ if leaf == "bitkillt" || leaf == "bitkillf" => {
            let width: u32 = name.split('_').nth(1).unwrap().parse().unwrap();
            let predicate = (word(&inputs["pred"]) == 1) == (leaf == "bitkillt");
            let got = vbool::kill_if_clear(predicate) & (u64::MAX >> (64 - width));
            assert_eq!(u128::from(got), number(expect), "{what}");
        }
        _ if name.starts_with("fs") && name.contains("ltu_64") => {
            let n: usize = name[2..3].parse().unwrap();
            let v = Inputs { vecs: vec![splat(8, a()), splat(8, b())], ..Inputs::default() };
            let bench = Bench::run(op(mnemonic), &v);
            assert_eq!(bench.regs.fs[n], if word(expect) == 1 { u64::MAX } else { 0 }, "{what}");
            assert!((0..8).all(|i| i == n || bench.regs.fs[i] == 0), "{what}");
        }
        "borfs_2n" | "bnorfs_2n" => {
            let list: Vec<u64> =
                inputs["vbools"].as_array().unwrap().iter().map(|v| number(v) as u64).collect();
            let or = vbool::or_fold(&list.try_into().unwrap());
            assert_eq!(if leaf == "borfs" { or } else { !or }, number(expect) as u64, "{what}");
        }
        "movfsv" => {
            let mut v = Vec512::ZERO;
            v.u64s_mut()[0] = 1 << word(&inputs["vec_word0_bit"]);
            let bench = Bench::run(op(mnemonic), &Inputs { vecs: vec![v], ..Inputs::default() });
            let mut want = [0; 8];
            want[word(&expect["fs"]) as usize] = 1u64 << word(&expect["bit"]);
            assert_eq!(bench.regs.fs, want, "{what}");
            assert_eq!(vbool::vec_from_fs(&want), v, "{what}");
        }
        "extbi_1_8_32" | "extbi_2_16_32" | "extbi_4_32_32" => {
            let field: u32 = name.split('_').nth(1).unwrap().parse().unwrap();
            let mnemonic =
                ["", "ivp_extbi2nx8", "ivp_extbinx16", "", "ivp_extbin_2x32"][field as usize];
            let v = Inputs {
                vecs: vec![splat(8 * field, word(&inputs["value"]))],
                scalars: vec![word(&inputs["bit"])],
                ..Inputs::default()
            };
            let got = Bench::run(op(mnemonic), &v).vbool();
            let want = number(expect) as u64;
            assert_eq!(got & ((1 << field) - 1), want, "{what}");
        }
        "injbi_8_8_1_32" => {
            let predicate = if word(&inputs["pred"]) == 1 { u64::MAX } else { 0 };
            let v = Inputs {
                old: splat(8, word(&inputs["base"])),
                preds: vec![predicate],
                scalars: vec![word(&inputs["bit"])],
                ..Inputs::default()
            };
            assert_eq!(
                lane(8, &Bench::run(op("ivp_injbi2nx8"), &v).first(), 0),
                word(expect),
                "{what}"
            );
        }
        "ltrn_64_32" => {
            let v = Inputs { scalars: vec![word(&inputs["n"])], ..Inputs::default() };
            assert_eq!(Bench::run(op(mnemonic), &v).vbool(), number(expect) as u64, "{what}");
        }
        "randbn_64_64" | "rorbn_64_64" => {
            let v = Inputs { preds: vec![number(&inputs["vbool"]) as u64], ..Inputs::default() };
            assert_eq!(Bench::run(op(mnemonic), &v).out.ar, word(expect), "{what}");
        }
        // moves and state
        "mov_32_32" | "mov_32f_32f" | "mov_32_8" => {
            let got = scalar("ivp_movvv", 32, &[a()], 0).0;
            assert_eq!(got, word(expect), "{what}");
        }
        "mov_16_32" => assert_eq!(pack::low(number(&inputs["a"]), 16), number(expect), "{what}"),
        "movscfv leaf (packed to dense)" => {
            let bench = Bench::run(
                op(mnemonic),
                &Inputs { vecs: vec![splat(32, a())], ..Inputs::default() },
            );
            // The leaf's dense word: enables in bits 0..4, mode in 5..6, flags in 7..11.
            let (control, status) = (bench.regs.fcr, bench.regs.fsr);
            let dense = control >> 2 | (control & 3) << 5 | status << 7;
            assert_eq!(dense, word(expect), "{what}");
        }
        "wur_fcr" => {
            let bench = Bench::run(
                op(mnemonic),
                &Inputs { scalars: vec![word(&inputs["art"])], ..Inputs::default() },
            );
            assert_eq!(bench.regs.round_mode(), word(&expect["RoundMode"]), "{what}");
        }
        "wur_fsr" => {
            let bench = Bench::run(
                op(mnemonic),
                &Inputs { scalars: vec![word(&inputs["art"])], ..Inputs::default() },
            );
            assert_eq!(bench.regs.fsr, 0, "{what}");
        }
        "replo8_16_16" => assert_eq!(broadcast8(a()), word(expect), "{what}"),
        "rep_16_8" => {
            return NotExecutable(
                "input outside the leaf's domain: no operation hands it more than 8 bits",
            );
        }
        "addmod16u" => {
            let v = Inputs { scalars: vec![a(), b()], ..Inputs::default() };
            assert_eq!(Bench::run(op(mnemonic), &v).out.ar, word(expect), "{what}");
        }
        // squeeze feeds a shuffle
        "sqzn" | "unsqzn" => {
            let ramp = lanes(16, &(0..32).map(|k| 0x900 + k).collect::<Vec<_>>());
            let mask =
                words(&inputs["vbool_true_lanes"]).iter().fold(0u64, |m, k| m | 3 << (2 * k));
            let index =
                Bench::run(op(mnemonic), &Inputs { preds: vec![mask], ..Inputs::default() });
            let vecs = vec![ramp, index.first()];
            let moved =
                Bench::run(op("ivp_shflnx16"), &Inputs { vecs, ..Inputs::default() }).first();
            for (key, want) in expect.as_object().unwrap() {
                let inner =
                    |s: &str| s[s.find('[').unwrap() + 1..s.len() - 1].parse::<u32>().unwrap();
                match key.as_str() {
                    "arr" => assert_eq!(index.out.ar, word(want), "{what}"),
                    _ => {
                        let got = lane(16, &moved, inner(key) as usize);
                        assert_eq!(got, 0x900 + inner(want.as_str().unwrap()), "{what}");
                    }
                }
            }
        }
        // owned by other parts of the core
        _ if name.starts_with("gather") || name.starts_with("scatter") => {
            return NotExecutable("no gather or scatter has a published word, and none is wanted");
        }
        // The funnel of the aligning loads; 16 bytes of it are stated.
        "wideldshift_128_512_6" => {
            let source: [u8; 64] = std::array::from_fn(|i| 0x80 + i as u8);
            let amount = word(&inputs["amount"]) as usize;
            let out = align_window(&source, &[0; 64], amount);
            let first: usize = s(expect, "out_words")
                .trim_start_matches("src[")
                .split('.')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap();
            assert_eq!(out[..16], source[4 * first..4 * first + 16], "{what}");
        }
        "timing_dependency" => timing(inputs, expect, what),
        "flix_roundtrip" => round_trip(s(inputs, "asm"), s(expect, "memory_bytes"), what),
        other => panic!("no runner for {other}"),
    }
    Ran
}

/// 16-bit lane 0 after the broadcast of a register's low byte, by the core.
fn broadcast8(value: u32) -> u32 {
    let code = assemble_one("{ nop; ivp_movva8 v1, a2 }", 0, CodecOptions::default()).unwrap();
    let mut core = Core::new(CoreConfig::v3(), 0);
    core.iram[..code.len()].copy_from_slice(&code);
    core.set_a(2, value);
    core.run(&mut NoBus, 1);
    lane(16, &core.regs.vec[1], 0)
}

/// Issue distances by the stages of the tables.
fn timing(inputs: &Value, expect: &Value, what: &str) {
    use tpbemu::q7::core::timing::{
        ACCUMULATOR, ACCUMULATOR_USE, ALU, MEMORY, VECTOR, result_stage,
    };
    let stage = match s(inputs, "producer") {
        name if name.ends_with(" acc") => {
            // An accumulator is read where it is written, so the next bundle may follow at once.
            let distance = u32::from(ACCUMULATOR - ACCUMULATOR_USE).max(1);
            assert_eq!(distance, word(&expect["issue_distance_cycles"]), "{what}");
            assert_eq!(u32::from(ACCUMULATOR - VECTOR), word(&expect["result_latency"]), "{what}");
            return;
        }
        "l32i" => {
            assert_eq!(u32::from(MEMORY - ALU), word(&expect["stall_cycles"]), "{what}");
            return;
        }
        "ivp_lv2nx8_i" => VECTOR,
        name => result_stage(name),
    };
    assert_eq!(u32::from(stage - VECTOR), word(&expect["dep_latency"]), "{what}");
}

/// The printed bundle decodes to the printed operation and encodes back; where the operands are
/// printed, the text assembles to the same bytes.
fn round_trip(asm: &str, bytes: &str, what: &str) {
    let bytes: Vec<u8> = (0..bytes.len() / 2)
        .map(|i| u8::from_str_radix(&bytes[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    let squeeze = |text: &str| text.replace(' ', "");
    let bundle = codec::decode(&bytes, 0, CodecOptions::default()).unwrap();
    assert_eq!(bundle.encode(0).unwrap().as_slice(), bytes, "{what}");
    let found = bundle.ops.iter().any(|op| {
        let text = op.text(&|_| None);
        squeeze(&text) == squeeze(asm) || op.row.mnemonic == asm
    });
    assert!(found, "{what}: {}", bundle.text(&|_| None));
    let text = disasm::text(&bundle, 0, &|_| None);
    assert_eq!(assemble_one(&text, 0, CodecOptions::default()).unwrap(), bytes, "{what}");
}

#[test]
fn transcribed_vectors_hold() {
    let text = std::fs::read_to_string("tests/golden/golden_q7_values.json").unwrap();
    let entries: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut ran = 0;
    let mut not_executable: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for entry in &entries {
        match std::panic::catch_unwind(|| run(entry)) {
            Ok(Ran) => ran += 1,
            Ok(NotExecutable(why)) => *not_executable.entry(why).or_default() += 1,
            Err(panic) => {
                let text =
                    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panic".into());
                failures.push(format!("{}: {text}", entry["op"]));
            }
        }
    }
    std::panic::set_hook(quiet);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let skipped: usize = not_executable.values().sum();
    println!("{ran} run, {skipped} listed as not executable");
    for (why, count) in not_executable {
        println!("  {count}: {why}");
    }
    assert_eq!((entries.len(), ran + skipped), (857, 857));
    assert!(skipped <= 9, "{skipped}");
}

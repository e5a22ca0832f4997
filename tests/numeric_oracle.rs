//! Numbers against numpy, ml_dtypes and mpmath: `tools/oracle/numeric.py` wrote the expectations.

use serde_json::Value;
use tpbemu::numeric::alu::{AluOp, apply_bits, apply_i64};
use tpbemu::numeric::convert::{Fp8Config, Rounding, convert_config, load_bits, load_f32};
use tpbemu::numeric::{ActFunc, Dtype, minifloat, mx};

fn rows(name: &str) -> Value {
    let path = format!("{}/tests/golden/numeric/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

fn dtype(value: &Value) -> Dtype {
    Dtype::from_name(value.as_str().unwrap()).unwrap()
}

/// The hash that the script describes.
fn digest(values: impl IntoIterator<Item = u64>) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut power = 1u64;
    values.into_iter().fold(0u64, |sum, v| {
        power = power.wrapping_mul(K);
        sum.wrapping_add(v.wrapping_add(1).wrapping_mul(power))
    })
}

/// Every bit pattern of a narrow dtype, or the FP32 patterns around the ties of all formats.
fn inputs(from: Dtype) -> Vec<u64> {
    if from.size() < 4 {
        return (0..1 << from.bits()).collect();
    }
    let low = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF];
    (0..1u64 << 16).flat_map(|high| low.map(|low| high << 16 | low)).collect()
}

#[test]
fn conversions_equal_numpy_and_ml_dtypes() {
    let (mut pairs, mut elements) = (0, 0);
    for row in rows("conversions").as_array().unwrap() {
        let (from, to) = (dtype(&row["from"]), dtype(&row["to"]));
        let source = inputs(from);
        assert_eq!(source.len() as u64, row["count"].as_u64().unwrap());
        let src: Vec<u8> =
            source.iter().flat_map(|v| v.to_le_bytes()[..from.size()].to_vec()).collect();
        let mut dst = vec![0; source.len() * to.size()];
        let fp8 = Fp8Config { saturate: row["saturate"].as_bool().unwrap(), ..Fp8Config::RAW };
        convert_config(from, to, &src, &mut dst, Rounding::NearestEven, &fp8).unwrap();
        let mut result = vec![0u64; source.len()];
        load_bits(to, &dst, &mut result).unwrap();
        if to == Dtype::Fp32 {
            for bits in &mut result {
                if f32::from_bits(*bits as u32).is_nan() {
                    *bits = 0x7FC0_0000;
                }
            }
        }
        for sample in row["samples"].as_array().unwrap() {
            let at = source.binary_search(&hex(&sample[0])).unwrap();
            assert_eq!(result[at], hex(&sample[1]), "{from} {} to {to}", sample[0]);
        }
        assert_eq!(digest(result), hex(&row["hash"]), "{from} to {to}: some element differs");
        pairs += 1;
        elements += source.len();
    }
    println!("{pairs} dtype pairs, {elements} elements");
    assert_eq!(pairs, 194);
}

#[test]
fn wide_integers_round_to_nearest_even() {
    let mut count = 0;
    for row in rows("wide_integers").as_array().unwrap() {
        let from = dtype(&row["from"]);
        for pair in row["pairs"].as_array().unwrap() {
            let value: i128 = pair[0].as_str().unwrap().parse().unwrap();
            let mut hub = [0.0];
            load_f32(from, &value.to_le_bytes(), &mut hub).unwrap();
            assert_eq!(u64::from(hub[0].to_bits()), hex(&pair[1]), "{from} {value}");
            count += 1;
        }
    }
    println!("{count} integers");
    assert!(count > 2000);
}

#[test]
fn small_formats_decode_as_ml_dtypes() {
    let tables = rows("decodes");
    let check = |name: &str, value: &dyn Fn(u8) -> f32| {
        for (code, want) in tables[name].as_array().unwrap().iter().enumerate() {
            assert_eq!(u64::from(value(code as u8).to_bits()), hex(want), "{name} {code}");
        }
    };
    check("fp4e2", &|code| minifloat::E2M1.decode(code.into()));
    check("fp6e2m3", &|code| minifloat::E2M3.decode(code.into()));
    check("sfp8e8", &|code| minifloat::scale_value(Dtype::Sfp8E8, code));
}

#[test]
fn integer_operations_equal_numpy_on_all_byte_pairs() {
    let rows = rows("integer_ops");
    for row in rows.as_array().unwrap() {
        let op = AluOp::from_name(row["op"].as_str().unwrap()).unwrap();
        let dtype = dtype(&row["dtype"]);
        let extend = |byte: u8| match dtype {
            Dtype::Int8 => i64::from(byte as i8),
            _ => i64::from(byte),
        };
        let results = (0..=255u8).flat_map(|a| {
            (0..=255u8).map(move |b| {
                if op.is_general_bitvec() {
                    apply_bits(op, a.into(), b.into(), 8).unwrap()
                } else {
                    let result = apply_i64(op, extend(a), extend(b), dtype).unwrap();
                    assert_eq!(extend(result as u8), result, "not wrapped to {dtype}");
                    u64::from(result as u8)
                }
            })
        });
        assert_eq!(digest(results), hex(&row["hash"]), "{op} on {dtype}");
    }
    println!("{} operations of 65536 pairs", rows.as_array().unwrap().len());
}

#[test]
fn activation_functions_equal_sixty_digit_arithmetic() {
    let (mut count, mut exact) = (0, 0);
    for row in rows("activations").as_array().unwrap() {
        let function = ActFunc::from_name(row["function"].as_str().unwrap()).unwrap();
        for pair in row["pairs"].as_array().unwrap() {
            let x = f32::from_bits(hex(&pair[0]) as u32);
            let want = f32::from_bits(hex(&pair[1]) as u32);
            let got = function.evaluate(x, 0.0);
            // Only forms that cancel may miss the last bit; none may miss more.
            let distance = (i64::from(got.to_bits()) - i64::from(want.to_bits())).abs();
            let tiny = got.abs() < f32::MIN_POSITIVE && want.abs() < f32::MIN_POSITIVE;
            assert!(
                distance <= 1 || tiny || cancels(function, x, got, want),
                "{function:?}({x}) = {got}, not {want}"
            );
            count += 1;
            exact += usize::from(distance == 0);
        }
    }
    println!("{exact} of {count} correctly rounded");
    assert!(exact * 1000 >= count * 990, "{exact} of {count}");
}

/// Negative tails of the GELU family, whose printed formulas subtract nearly equal numbers: there
/// the error is that of the formula in double precision.
fn cancels(function: ActFunc, x: f32, got: f32, want: f32) -> bool {
    let family = [ActFunc::Gelu, ActFunc::GeluApprxTanh, ActFunc::DerivativeGelu];
    family.contains(&function) && x < -2.0 && (got - want).abs() < 1e-14
}

#[test]
fn blocks_quantise_as_the_published_formula() {
    let fp8 = Fp8Config::default();
    let rows = rows("microscaling");
    for row in rows.as_array().unwrap() {
        let block: Vec<f32> = row["block"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bits| f32::from_bits(hex(bits) as u32))
            .collect();
        let mut codes = vec![0; block.len()];
        let scale = mx::quantize_block(&block, dtype(&row["to"]), &fp8, &mut codes).unwrap();
        assert_eq!(u64::from(scale), row["scale"].as_u64().unwrap());
        let want: Vec<u8> = row["codes"].as_array().unwrap().iter().map(|c| hex(c) as u8).collect();
        assert_eq!(codes, want);
    }
    println!("{} blocks", rows.as_array().unwrap().len());
}

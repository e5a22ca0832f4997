//! Search, sort, gather, random, MX and sparsity instructions against `tools/oracle/indirect.py`
//! and, with drawn shapes, strides, partitions, dtypes and generations, `indirect_more.py`.

mod indirect_support;

use indirect_support::run_file;

#[test]
fn search() {
    run_file("indirect/search.json");
    run_file("indirect/search_drawn.json");
}

#[test]
fn sort_and_segments() {
    run_file("indirect/sort.json");
    run_file("indirect/sort_drawn.json");
}

#[test]
fn gather() {
    run_file("indirect/gather.json");
    run_file("indirect/gather_drawn.json");
}

#[test]
fn random() {
    run_file("indirect/random.json");
    run_file("indirect/random_drawn.json");
}

#[test]
fn mx() {
    run_file("indirect/mx.json");
    run_file("indirect/mx_drawn.json");
}

#[test]
fn sparsity() {
    run_file("indirect/sparsity.json");
    run_file("indirect/sparsity_drawn.json");
}

#[test]
fn selects_and_wide_integers() {
    run_file("indirect/select_drawn.json");
}

#[test]
fn extended_forms() {
    run_file("indirect/extended_drawn.json");
}

mod properties {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tpbemu::engine::testing::Bench;
    use tpbemu::isa::{Engine, Generation};
    use tpbemu::memory::Space;

    use crate::indirect_support::build;

    fn dims(d: &[(i64, u64)], n: usize) -> Value {
        let mut all = d.to_vec();
        all.resize(n, (1, 1));
        all.iter().map(|&(s, n)| json!([s, n])).collect()
    }

    /// A row of small integers as FP32 or INT16 elements at a stride.
    fn put_row(bench: &mut Bench, partition: u32, float: bool, row: &[i16], step: u64) {
        for (i, &x) in row.iter().enumerate() {
            let at = i as u64 * step;
            if float {
                bench.put(Space::Sbuf, partition, 4 * at, &f32::from(x).to_le_bytes());
            } else {
                bench.put(Space::Sbuf, partition, 2 * at, &x.to_le_bytes());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// MAX8, MATCH_VALUE_LOAD, FIND_INDEX8 and SORT against a scalar reference.
        #[test]
        fn search_and_sort(
            rows in (8usize..60, 1usize..4).prop_flat_map(|(n, c)| {
                prop::collection::vec(prop::collection::vec(-9i16..9, n), c)
            }),
            float: bool,
            step in 1u64..4,
            quadrant in 0u32..4,
            descending: bool,
        ) {
            let (n, channels, start) = (rows[0].len() as u64, rows.len() as u64, 32 * quadrant);
            let (code, size) = if float { (10, 4) } else { (4, 2) };
            let base = u64::from(start) * 0x40000;
            let mut bench = Bench::new(Generation::V3, Engine::Dve);
            for (c, row) in rows.iter().enumerate() {
                put_row(&mut bench, start + c as u32, float, row, step);
            }
            let src = |n_dims| json!({"addr": base, "dims": dims(&[(step as i64, n)], n_dims)});
            let eight = |at: u64| json!({"addr": base + at, "dims": dims(&[(1, 8)], 2)});
            let run = |bench: &mut Bench, op: &str, fields: Value| {
                bench.run(&build(Generation::V3, op, &fields)).map_err(|e| TestCaseError::fail(e.to_string()))
            };
            run(&mut bench, "MAX8", json!({"in_dtype": code, "out_dtype": 10,
                "num_active_channels": channels, "src": src(4), "dst": eight(2048)}))?;
            run(&mut bench, "MATCH_VALUE_LOAD", json!({"dtype": 10,
                "num_active_channels": channels, "src": eight(2048)}))?;
            run(&mut bench, "FIND_INDEX8", json!({"in_dtype": code, "out_dtype": 9,
                "num_active_channels": channels, "src": src(4), "dst": eight(2100)}))?;
            run(&mut bench, "SORT", json!({"in_out_dtype": code * 17, "index_offset": 7, "stable": 1,
                "comparison": if descending { 0x13 } else { 0x16 },
                "num_active_channels": channels, "src": src(1),
                "dst": {"addr": base + 3000, "dims": dims(&[(1, 2), (2, n)], 2)}}))?;
            for (c, row) in rows.iter().enumerate() {
                let p = start + c as u32;
                let mut best: Vec<(usize, i16)> = row.iter().copied().enumerate().collect();
                best.sort_by_key(|&(_, x)| std::cmp::Reverse(x));
                let top = bench.get_f32(Space::Sbuf, p, 2048, 8);
                let want: Vec<f32> = best[..8].iter().rev().map(|&(_, x)| f32::from(x)).collect();
                prop_assert_eq!(top, want);
                // loaded in reverse, value n is the n-th largest, found at its n-th place
                let found = bench.get(Space::Sbuf, p, 2100, 32);
                let found: Vec<usize> = found.chunks(4)
                    .map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize).collect();
                prop_assert_eq!(found, best[..8].iter().map(|&(i, _)| i).collect::<Vec<_>>());
                let mut order: Vec<usize> = (0..row.len()).collect();
                order.sort_by_key(|&i| if descending { -row[i] } else { row[i] });
                let pairs = bench.get(Space::Sbuf, p, 3000, 2 * n * size);
                for (pair, &i) in pairs.chunks(2 * size as usize).zip(&order) {
                    let index = pair[size as usize..].iter().rev().fold(0, |v, b| v << 8 | usize::from(*b));
                    prop_assert_eq!(index, i + 7);
                    let value = if float {
                        f32::from_le_bytes(pair[..4].try_into().unwrap()) as i16
                    } else {
                        i16::from_le_bytes(pair[..2].try_into().unwrap())
                    };
                    prop_assert_eq!(value, row[i]);
                }
            }
        }
    }
}

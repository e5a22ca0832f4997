//! DMA instructions against `tools/oracle/dge.py` and, with drawn shapes, places, dtypes and
//! generations, `dge_more.py`.

mod indirect_support;

use indirect_support::run_file;

#[test]
fn copies() {
    run_file("dge/copy.json");
    run_file("dge/copy_drawn.json");
}

#[test]
fn transposes() {
    run_file("dge/transpose.json");
    run_file("dge/transpose_drawn.json");
}

/// Shapes and addresses from registers: a three-dimensional gather whose middle dimension the
/// indices choose.
#[test]
fn shape_registers() {
    use serde_json::json;
    use tpbemu::engine::ShapeRegister;
    use tpbemu::engine::testing::Bench;
    use tpbemu::isa::{Engine, Generation};
    use tpbemu::memory::Space;

    const HBM: u64 = 0x10_0000_0000;
    let mut bench = Bench::new(Generation::V3, Engine::Pool);
    let table: Vec<u8> = (0..=255).collect();
    bench.put(Space::Hbm, 0, 512, &table);
    let indices = [3u32, 9, 0];
    let bytes: Vec<u8> = indices.iter().flat_map(|i| i.to_le_bytes()).collect();
    bench.put(Space::Sbuf, 0, 0, &bytes);
    bench.put(Space::Hbm, 0, 1024, &[0xEE; 24]);
    // X: 2 elements side by side; Y: rows of 16 bytes, by index; Z: planes of 128 bytes
    bench.shapes[2] = ShapeRegister { num: [2, 3, 2, 0], step: [1, 8, 64, 0] };
    bench.shapes[1] = ShapeRegister { num: [12, 0, 0, 0], step: [1, 0, 0, 0] };
    bench.registers[20] = 1024;
    bench.registers[21] = (HBM >> 32) as u32;
    bench.registers[4] = 5;
    let inst = indirect_support::build(
        Generation::V3,
        "DMA_INDIRECT",
        &json!({"idx_num_active_channels": 128, "flags": 1 << 4, "in_dtype": 5, "out_dtype": 5,
            "src_start_addr": (0x40u64 << 56) | (HBM + 512), "src_step_elem": 2, "src_elem_size": 2,
            "dst_start_addr": (0xC0u64 << 56) | 21 << 8 | 20, "dst_step_elem": 1,
            "dst_elem_size": 2, "src_idx_start_addr": 0, "src_idx_bound_reg": 0x84}),
    );
    bench.run(&inst).unwrap();
    let got = bench.get(Space::Hbm, 0, 1024, 24);
    let mut want = Vec::new();
    for z in 0..2u8 {
        for i in indices {
            for x in 0..2u8 {
                let at = 128 * z + 16 * (i as u8 % 5) + 2 * x;
                // index 9 is not below the bound 5: its elements keep their bits
                want.extend(if i < 5 { [at, at + 1] } else { [0xEE, 0xEE] });
            }
        }
    }
    assert_eq!(got, want);
}

mod properties {
    use proptest::prelude::*;
    use serde_json::json;
    use tpbemu::engine::testing::Bench;
    use tpbemu::isa::{Engine, Generation};
    use tpbemu::memory::Space;

    use crate::indirect_support::build;

    const SBUF: u64 = 0x20_0000_0000;
    const HBM: u64 = 0x10_0000_0000;
    const STRIDE: u64 = 0x40000;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A two-dimensional copy between HBM and SBUF, cut differently on the two sides, moves
        /// the same bytes as a loop over single bytes does; a bound register skips whole elements.
        #[test]
        fn copies_of_random_shape(
            (columns, rows, element) in (1u64..5, 1u64..5, 1u64..9),
            (x_gap, y_gap) in (0u64..3, 0u64..3),
            start in 0u64..64,
            load: bool,
            by_partition: bool,
            limit in prop::option::of(0u64..24),
        ) {
            // HBM side: dense in X up to the gap, then rows
            let hbm_steps = [1 + x_gap, (1 + x_gap) * columns + y_gap];
            // SBUF side: the rows in partitions or one behind the other
            let sbuf_steps = if by_partition { [element, STRIDE] } else { [element, element * columns] };
            let hbm = |k: u64| 4096 + start
                + element * (k % columns * hbm_steps[0] + k / columns * hbm_steps[1]);
            let sbuf = |k: u64| k % columns * sbuf_steps[0] + k / columns * sbuf_steps[1];
            let mut bench = Bench::new(Generation::V3, Engine::Pool);
            let total = columns * rows;
            for k in 0..total {
                let data: Vec<u8> = (0..element).map(|b| (17 * k + 31 * b + 1) as u8).collect();
                bench.put(Space::Hbm, 0, hbm(k), &data);
                let at = sbuf(k) + 128;
                bench.put(Space::Sbuf, (at / STRIDE) as u32, at % STRIDE, &vec![k as u8 ^ 0xA5; element as usize]);
            }
            let side = |prefix: &str, base: u64, steps: [u64; 2]| {
                let mut f = serde_json::Map::new();
                f.insert(format!("{prefix}_start_addr"), json!(base));
                f.insert(format!("{prefix}_step_elem"), json!([steps[0], steps[1]]));
                f.insert(format!("{prefix}_num_elem"), json!([columns, rows]));
                f.insert(format!("{prefix}_elem_size"), json!(element));
                f
            };
            // steps count elements; a partition is a whole number of them only for powers of two
            prop_assume!(!by_partition || STRIDE.is_multiple_of(element));
            let sbuf_elements = [sbuf_steps[0] / element, sbuf_steps[1] / element];
            let (a, b) = if load { ("src", "dst") } else { ("dst", "src") };
            let mut fields = side(a, HBM + 4096 + start, hbm_steps);
            fields.extend(side(b, SBUF + 128, sbuf_elements));
            fields.insert("in_dtype".into(), json!(3));
            fields.insert("out_dtype".into(), json!(3));
            let limit = limit.map(|l| hbm(0) + element * l);
            if let Some(limit) = limit {
                bench.registers[10] = limit as u32;
                bench.registers[11] = (HBM >> 32) as u32;
                fields.insert(format!("{a}_bound_reg"), json!(0x80 | 10));
            }
            let inst = build(Generation::V3, "DMAMEMCPY", &json!(fields));
            bench.run(&inst).map_err(|e| TestCaseError::fail(e.to_string()))?;
            for k in 0..total {
                let moved = limit.is_none_or(|l| hbm(k) <= l);
                let data: Vec<u8> = (0..element).map(|b| (17 * k + 31 * b + 1) as u8).collect();
                let fill = vec![k as u8 ^ 0xA5; element as usize];
                let at = sbuf(k) + 128;
                let on_chip = bench.get(Space::Sbuf, (at / STRIDE) as u32, at % STRIDE, element);
                let in_hbm = bench.get(Space::Hbm, 0, hbm(k), element);
                prop_assert_eq!(&on_chip, if load && moved { &data } else { &fill });
                prop_assert_eq!(&in_hbm, if load || !moved { &data } else { &fill });
            }
        }
    }
}

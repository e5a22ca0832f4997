//! DMA instructions on random shapes, steps, types and places against loops over single elements.
//! (DMAMEMCPY: `engine_dge.rs`.)

mod words;

use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Geometry, Inst, opcode_by_name};
use tpbemu::memory::Space;
use words::random::Dice;

const HBM: u64 = 0x10_0000_0000;
const SBUF: u64 = 0x20_0000_0000;
const STRIDE: u64 = 0x4_0000;
const CASES: u64 = 100;

fn word(g: Generation, name: &str, fields: &str) -> Inst {
    let mut inst = Inst::empty(g, opcode_by_name(g, name).unwrap().byte);
    words::assign(&mut inst, fields);
    inst
}

fn bench(g: Generation, dice: &mut Dice) -> (Bench, Vec<u8>) {
    let mut bench = Bench::new(g, Engine::Pool);
    let table = dice.bytes(1 << 16);
    bench.put(Space::Hbm, 0, 0, &table);
    (bench, table)
}

fn indices(bench: &mut Bench, at: u64, list: &[u64]) {
    let bytes: Vec<u8> = list.iter().flat_map(|i| (*i as u32).to_le_bytes()).collect();
    bench.put(Space::Sbuf, 0, at, &bytes);
}

#[test]
fn indirect_gathers_and_scatters() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V2, Generation::V3, Generation::V4]);
        let (mut bench, table) = bench(g, &mut dice);
        let size = 1 + dice.below(24);
        let n = 1 + dice.below(12);
        let (step, dense) = (1 + dice.below(3), 1 + dice.below(2));
        // distinct targets, so that no order of writes shows
        let mut list: Vec<u64> = (0..16).collect();
        for i in (1..16).rev() {
            list.swap(i, dice.below(i as u64 + 1) as usize);
        }
        list.truncate(n as usize);
        let index_at = 1024 + 4 * dice.below(16);
        indices(&mut bench, index_at, &list);
        let scatter = dice.one_in(2);
        let start = 4096 + dice.below(64);
        let there = 32768 + dice.below(64);
        let (indexed, plain) = if scatter { ("dst", "src") } else { ("src", "dst") };
        let (from, to) = if scatter { (there, start) } else { (start, there) };
        let (src_step, dst_step) = if scatter { (dense, step) } else { (step, dense) };
        let inst = word(
            g,
            "DMA_INDIRECT",
            &format!(
                "idx_num_active_channels=128 flags={} in_dtype=UINT8 out_dtype=UINT8 \
                 src_start_addr={:#x} dst_start_addr={:#x} src_step_elem={src_step} \
                 dst_step_elem={dst_step} src_num_elem={n} dst_num_elem={n} src_elem_size={size} \
                 dst_elem_size={size} {indexed}_idx_start_addr={index_at}",
                u8::from(scatter),
                HBM + from,
                HBM + to,
            ),
        );
        bench.run(&inst).unwrap_or_else(|e| panic!("seed {seed} {plain}: {e:?}"));
        let mut want = table.clone();
        for (k, i) in list.iter().enumerate() {
            let (k, i) = (k as u64, *i);
            let (a, b) = if scatter { (k, i) } else { (i, k) };
            let (a, b) = (from + a * src_step * size, to + b * dst_step * size);
            let data = table[a as usize..][..size as usize].to_vec();
            want[b as usize..][..size as usize].copy_from_slice(&data);
        }
        let got = bench.get(Space::Hbm, 0, 0, 1 << 16);
        let differs = got.iter().zip(&want).position(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}: {inst:?}");
    }
}

#[test]
fn transposes() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V3, Generation::V4]);
        let (mut bench, table) = bench(g, &mut dice);
        let (dtype, size) = dice.pick(&[("BFLOAT16", 2u64), ("FP16", 2), ("FP32", 4)]);
        let columns = 1 + dice.below(20);
        let tiles = 1 + dice.below(4);
        let row = size * (columns + dice.below(4));
        let tile = 16 * row + size * dice.below(5);
        let start = 1024 + 4 * dice.below(64);
        let first = 32 * dice.below(3);
        let there = 64 * dice.below(8);
        let step = 32 * (size / 2) * (1 + dice.below(2));
        let inst = word(
            g,
            "DMA_TRANSPOSE",
            &format!(
                "in_dtype={dtype} out_dtype={dtype} src_start_addr={:#x} src_step_elem=4:{tile},0 \
                 src_num_elem=2:{tiles},1 tile_src_row_step={row} dst_start_addr={:#x} \
                 dst_step_elem=4:{step},0 dst_num_elem=2:{tiles},1 tile_src_rows=16 \
                 tile_src_cols={columns}",
                HBM + start,
                SBUF + first * STRIDE + there,
            ),
        );
        bench.run(&inst).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        for t in 0..tiles {
            for c in 0..columns {
                for r in 0..16 {
                    let from = start + t * tile + r * row + c * size;
                    let want = &table[from as usize..][..size as usize];
                    let at = there + t * step + r * size;
                    let got = bench.get(Space::Sbuf, (first + c) as u32, at, size);
                    assert_eq!(got, want, "seed {seed} tile {t} row {r} column {c}: {inst:?}");
                }
            }
        }
    }
}

#[test]
fn gathering_transposes() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V3, Generation::V4]);
        let (mut bench, table) = bench(g, &mut dice);
        let columns = 1 + dice.below(16);
        let row = columns + dice.below(6);
        let list: Vec<u64> = (0..16).map(|_| dice.below(40)).collect();
        indices(&mut bench, 1024, &list);
        let start = 2048 + 2 * dice.below(64);
        let first = 32 * dice.below(3);
        let there = 64 * dice.below(8);
        let inst = word(
            g,
            "DMA_GATHER_TRANSPOSE",
            &format!(
                "idx_num_active_channels=128 src_start_addr={:#x} src_step_elem=4:1,{row} \
                 src_num_elem=2:{columns},16 src_idx_start_addr=1024 dst_start_addr={:#x} \
                 dst_step_elem_1=64 dst_num_elem=2:16,1 elem_size={} \
                 in_out_dtype=BFLOAT16/BFLOAT16 flags=gather_dim:1",
                HBM + start,
                SBUF + first * STRIDE + there,
                2 * columns,
            ),
        );
        bench.run(&inst).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        for (i, index) in list.iter().enumerate() {
            for c in 0..columns {
                let from = start + 2 * (index * row + c);
                let want = &table[from as usize..][..2];
                let at = there + 2 * i as u64;
                let got = bench.get(Space::Sbuf, (first + c) as u32, at, 2);
                assert_eq!(got, want, "seed {seed} row {i} column {c}: {inst:?}");
            }
        }
    }
}

#[test]
fn second_form_of_the_copy() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let (mut bench, table) = bench(Generation::V5, &mut dice);
        let (x, y, size) = (1 + dice.below(5), 1 + dice.below(5), 1 + dice.below(16));
        let (sx, dx) = (1 + dice.below(3), 1 + dice.below(3));
        let (sy, dy) = (sx * x + dice.below(3), dx * x + dice.below(3));
        let (start, there) = (4096 + dice.below(64), 32768 + dice.below(64));
        let inst = word(
            Generation::V5,
            "DMA_MEMCPY2",
            &format!(
                "src_start_addr={:#x} src_step_elem=4:{sx},{sy} src_num_elem=2:{x},{y} \
                 src_elem_size={size} dst_start_addr={:#x} dst_step_elem=4:{dx},{dy} \
                 dst_num_elem=2:{x},{y} dst_elem_size={size}",
                HBM + start,
                HBM + there,
            ),
        );
        bench.run(&inst).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        let mut want = table.clone();
        for j in 0..y {
            for i in 0..x {
                let from = (start + size * (i * sx + j * sy)) as usize;
                let to = (there + size * (i * dx + j * dy)) as usize;
                want[to..to + size as usize].copy_from_slice(&table[from..from + size as usize]);
            }
        }
        let got = bench.get(Space::Hbm, 0, 0, 1 << 16);
        let differs = got.iter().zip(&want).position(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}: {inst:?}");
    }
}

/// EMBEDDING_UPDATE has no published struct of its own: the bytes are those of the host form.
#[test]
fn embedding_updates() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V2, Generation::V3, Generation::V4, Generation::V5]);
        let (mut bench, table) = bench(g, &mut dice);
        let stride = Geometry::of(g).sbuf_stride;
        let (code, size) = dice.pick(&[(2u8, 1u64), (3, 1), (4, 2), (5, 2), (8, 4), (9, 4)]);
        let signed = code % 2 == 0;
        let op = dice.pick(&[0u8, 2, 3]);
        let (width, entries, count) = (1 + dice.below(8), 1 + dice.below(20), 1 + dice.below(16));
        let pitch = size * (width + dice.below(4));
        let base = 4096 + size * dice.below(64);
        // duplicates accumulate in order; indices beyond the table do nothing
        let list: Vec<u64> = (0..count).map(|_| dice.below(entries + 3)).collect();
        let index_step = 1 + dice.below(3);
        let index_at = 4 * dice.below(16);
        for (i, x) in list.iter().enumerate() {
            indices(&mut bench, index_at + 4 * i as u64 * index_step, &[*x]);
        }
        let partition = if g == Generation::V5 { 0 } else { 32 * dice.below(4) as u32 };
        let x_step = 1 + dice.below(2);
        let y_step = x_step * width + dice.below(3);
        let data_at = 1024 + 8 * dice.below(16);
        let mut data = Vec::new();
        for i in 0..count {
            for j in 0..width {
                let bytes = dice.bytes(size as usize);
                bench.put(
                    Space::Sbuf,
                    partition,
                    data_at + size * (i * y_step + j * x_step),
                    &bytes,
                );
                data.push(bytes);
            }
        }
        let mut inst = Inst::empty(g, opcode_by_name(g, "EMBEDDING_UPDATE").unwrap().byte);
        let mut put =
            |at: usize, bytes: &[u8]| inst.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        put(12, &[code, op]);
        put(16, &(index_at as u32).to_le_bytes());
        put(20, &(index_step as u16).to_le_bytes());
        put(22, &(count as u16).to_le_bytes());
        put(24, &(partition * stride + data_at as u32).to_le_bytes());
        for (at, v) in [(28, x_step), (30, y_step), (32, width), (34, count), (48, width)] {
            put(at, &(v as u16).to_le_bytes());
        }
        put(44, &(base as u32).to_le_bytes());
        put(50, &(pitch as u16).to_le_bytes());
        put(52, &(count as u16).to_le_bytes());
        put(56, &(entries as u32).to_le_bytes());
        bench.run(&inst).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));

        let mut want = table;
        let value = |bytes: &[u8]| {
            let raw = bytes.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
            let unused = 64 - 8 * size as u32;
            if signed { (raw as i64) << unused >> unused } else { raw as i64 }
        };
        let (low, high) = match (signed, 8 * size) {
            (true, bits) => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
            (false, bits) => (0, (1i64 << bits) - 1),
        };
        for (i, index) in list.iter().enumerate().filter(|(_, index)| **index < entries) {
            for j in 0..width {
                let at = (base + index * pitch + j * size) as usize;
                let old = value(&want[at..][..size as usize]);
                let new = value(&data[i * width as usize + j as usize]);
                let result = match op {
                    2 => old.max(new),
                    3 => old.min(new),
                    // 32 bits wrap, narrower results saturate
                    _ if size == 4 => old.wrapping_add(new),
                    _ => (old + new).clamp(low, high),
                };
                want[at..][..size as usize].copy_from_slice(&result.to_le_bytes()[..size as usize]);
            }
        }
        let got = bench.get(Space::Hbm, 0, 0, 1 << 16);
        let differs = got.iter().zip(&want).position(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}: {inst:?}");
    }
}

//! MATMUL throughput on one host thread.

use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, TensorPattern, f, op};
use tpbemu::memory::Space;

fn main() {
    divan::main();
}

fn loaded(dtype: u64, size: usize) -> (Bench, Inst) {
    moving(dtype, size, 512)
}

/// Weights of 128 x 128, and a MATMUL of `columns` moving columns.
fn moving(dtype: u64, size: usize, columns: u16) -> (Bench, Inst) {
    let mut bench = Bench::new(Generation::V3, Engine::Pe);
    let mut state = 1u32;
    for p in 0..128 {
        let mut row = Vec::new();
        for _ in 0..640 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0;
            row.extend_from_slice(&x.to_le_bytes()[4 - size..]);
        }
        bench.put(Space::Sbuf, p, 0, &row);
    }
    let mode = u64::from(size == 4) * 3;
    let mut load = Inst::empty(Generation::V3, op::LDWEIGHTS);
    load.set(f::s3_lw::IN_DTYPE, dtype);
    load.set(f::s3_lw::FP32_MODE, mode);
    load.set(f::s3_lw::NUM_ACTIVE_ROWS, 128);
    load.set(f::s3_lw::NUM_ACTIVE_COLS, 128);
    load.set(f::s3_lw::ROW_GRP, 0xF);
    load.set(f::s3_lw::COL_GRP, 0xF);
    let at = |addr, n| TensorPattern::at(addr, &[(1, n), (0, 1), (0, 1)]);
    load.set_tensor(f::s3_lw::SRC, &at(0, 128)).expect("source");
    bench.run(&load).expect("load");
    let mut mm = Inst::empty(Generation::V3, op::MATMUL);
    mm.set(f::s3d3_mm::IN_DTYPE, dtype);
    mm.set(f::s3d3_mm::FP32_MODE, mode);
    mm.set(f::s3d3_mm::NUM_ACTIVE_ROWS, 128);
    mm.set(f::s3d3_mm::NUM_ACTIVE_COLS, 128);
    mm.set(f::s3d3_mm::ROW_GRP, 0xF);
    mm.set(f::s3d3_mm::COL_GRP, 0xF);
    mm.set(f::s3d3_mm::PSUM_ACCUMULATE_FLAGS, 3);
    mm.set_tensor(f::s3d3_mm::SRC, &at(128 * size as u32, columns)).expect("source");
    mm.set_tensor(f::s3d3_mm::DST, &at(0x200_0000, columns)).expect("destination");
    (bench, mm)
}

/// 128 x 128 x 512 with bf16 operands.
#[divan::bench(items_count = 2u64 * 128 * 128 * 512)]
fn matmul_bf16(b: divan::Bencher) {
    let (mut bench, mm) = loaded(6, 2);
    b.bench_local(|| bench.run(&mm).expect("matmul"));
}

/// 128 x 128 x 512 with FP32 operands: a separate product and sum.
#[divan::bench(items_count = 2u64 * 128 * 128 * 512)]
fn matmul_fp32(b: divan::Bencher) {
    let (mut bench, mm) = loaded(10, 4);
    b.bench_local(|| bench.run(&mm).expect("matmul"));
}

/// The same with fewer moving columns: the cost of a product.
#[divan::bench(args = [1, 8, 32, 128, 512])]
fn matmul_bf16_by_columns(b: divan::Bencher, columns: u16) {
    let (mut bench, mm) = moving(6, 2, columns);
    b.counter(divan::counter::ItemsCount::new(2 * 128 * 128 * usize::from(columns)))
        .bench_local(|| bench.run(&mm).expect("matmul"));
}

//! Bulk loops of `numeric`, to be read against a plain copy of the same bytes.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use tpbemu::numeric::alu::{AluOp, apply_f32_ts, apply_f32_tt};
use tpbemu::numeric::convert::{Rounding, load_f32, store_f32};
use tpbemu::numeric::{ActFunc, Dtype, Walk, gather_f32};

fn main() {
    divan::main();
}

/// A partition row of 512 FP32 elements, and a tile of 128 rows.
const SIZES: [usize; 2] = [512, 128 * 512];

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 0.37 - 50.0).collect()
}

/// The bound: one pass that reads two slices and writes one.
#[divan::bench(args = SIZES)]
fn plain_sum(bencher: Bencher, n: usize) {
    let (a, b, mut out) = (numbers(n), numbers(n), numbers(n));
    bencher.counter(BytesCount::of_slice(&a)).bench_local(|| {
        let (a, b) = (black_box(&a), black_box(&b));
        out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = a + b);
        black_box(&out);
    });
}

#[divan::bench(args = SIZES, consts = [0, 1, 2])]
fn tensor_tensor<const OP: usize>(bencher: Bencher, n: usize) {
    let op = [AluOp::Add, AluOp::Max, AluOp::IsLt][OP];
    let (a, b, mut out) = (numbers(n), numbers(n), numbers(n));
    bencher.counter(BytesCount::of_slice(&a)).bench_local(|| {
        apply_f32_tt(op, black_box(&a), black_box(&b), &mut out).unwrap();
        black_box(&out);
    });
}

#[divan::bench(args = SIZES)]
fn tensor_scalar_mult(bencher: Bencher, n: usize) {
    let (a, mut out) = (numbers(n), numbers(n));
    bencher.counter(BytesCount::of_slice(&a)).bench_local(|| {
        apply_f32_ts(AluOp::Mult, black_box(&a), 1.5, false, &mut out).unwrap();
        black_box(&out);
    });
}

const DTYPES: [Dtype; 8] = [
    Dtype::Fp32,
    Dtype::Bf16,
    Dtype::Fp16,
    Dtype::Fp8E4,
    Dtype::Int8,
    Dtype::Int16,
    Dtype::Int32,
    Dtype::Uint32,
];

#[divan::bench(args = DTYPES)]
fn load(bencher: Bencher, dtype: Dtype) {
    let src = vec![0x3C; 512 * dtype.size()];
    let mut out = numbers(512);
    bencher.counter(divan::counter::ItemsCount::new(512usize)).bench_local(|| {
        load_f32(dtype, black_box(&src), &mut out).unwrap();
        black_box(&out);
    });
}

#[divan::bench(args = DTYPES)]
fn store(bencher: Bencher, dtype: Dtype) {
    let src = numbers(512);
    let mut out = vec![0; 512 * dtype.size()];
    bencher.counter(divan::counter::ItemsCount::new(512usize)).bench_local(|| {
        store_f32(dtype, black_box(&src), &mut out, Rounding::NearestEven).unwrap();
        black_box(&out);
    });
}

#[divan::bench(args = [1, 2, 64])]
fn gather_step(bencher: Bencher, step: i32) {
    let row = vec![0x3C; 1 << 17];
    let walk = Walk::new(0, &[(step, 128), (1, 4)], 4);
    let mut out = Vec::new();
    bencher.counter(divan::counter::ItemsCount::new(512usize)).bench_local(|| {
        gather_f32(Dtype::Fp32, black_box(&row), black_box(&walk), &mut out).unwrap();
        black_box(&out);
    });
}

#[divan::bench]
fn affine(bencher: Bencher) {
    let mut values = numbers(512);
    bencher.counter(divan::counter::ItemsCount::new(512usize)).bench_local(|| {
        tpbemu::numeric::activation::affine_in_place(&mut values, 0.5, 1.0);
        black_box(&values);
    });
}

#[divan::bench(args = [ActFunc::Exp, ActFunc::Silu, ActFunc::Gelu, ActFunc::Tanh])]
fn activation(bencher: Bencher, function: ActFunc) {
    let source = numbers(512);
    let mut values = source.clone();
    bencher.counter(divan::counter::ItemsCount::new(512usize)).bench_local(|| {
        values.copy_from_slice(&source);
        function.evaluate_in_place(&mut values, 0.0);
        black_box(&values);
    });
}

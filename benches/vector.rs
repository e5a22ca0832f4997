//! Host time of vector instructions on 128 partitions of 512 elements.

use divan::Bencher;
use divan::counter::ItemsCount;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Field, Generation, Inst, TensorPattern, f, op};

const ELEMENTS: u16 = 512;
const FP32: u64 = 0x0A;
const BF16: u64 = 0x06;

fn main() {
    divan::main();
}

fn put(inst: &mut Inst, field: Field, addr: u32) {
    put_row(inst, field, addr, ELEMENTS);
}

/// `elements` in a row, the other dimensions of one element.
fn put_row(inst: &mut Inst, field: Field, addr: u32, elements: u16) {
    let mut dims = vec![(1, elements)];
    dims.resize((usize::from(field.size) - 4) / 4, (0, 1));
    inst.set_tensor(field, &TensorPattern::at(addr, &dims)).expect("field");
}

fn run(bencher: Bencher<'_, '_>, inst: Inst) {
    let mut bench = Bench::new(Generation::V3, Engine::Dve);
    bench.run(&inst).expect("legal instruction");
    bencher
        .counter(ItemsCount::new(128 * usize::from(ELEMENTS)))
        .bench_local(|| bench.run(&inst).expect("legal instruction"));
}

fn tensor_tensor(dtype: u64, dst: u32) -> Inst {
    tensor_tensor_of(ELEMENTS, dtype, [0, 0x1000, dst])
}

fn tensor_tensor_of(elements: u16, dtype: u64, addresses: [u32; 3]) -> Inst {
    use f::s3s3d3_tt as tt;
    let mut inst = Inst::empty(Generation::V3, op::TENSOR_TENSOR_ARITH_OP);
    inst.set(tt::IN0_IN1_DTYPE, dtype | dtype << 4);
    inst.set(tt::OUT_DTYPE, dtype);
    inst.set(tt::OP, 0x04);
    inst.set(tt::NUM_ACTIVE_CHANNELS, 128);
    for (field, addr) in [tt::SRC0, tt::SRC1, tt::DST].into_iter().zip(addresses) {
        put_row(&mut inst, field, addr, elements);
    }
    inst
}

/// The same addition over tensors of different sizes: the cost of an element.
#[divan::bench(args = [8, 32, 128, 512, 2048, 8192])]
fn tensor_tensor_add_f32_by_size(bencher: Bencher<'_, '_>, elements: u16) {
    let mut bench = Bench::new(Generation::V3, Engine::Dve);
    let inst = tensor_tensor_of(elements, FP32, [0, 0x8000, 0x10000]);
    bench.run(&inst).expect("legal instruction");
    bencher
        .counter(ItemsCount::new(128 * usize::from(elements)))
        .bench_local(|| bench.run(&inst).expect("legal instruction"));
}

#[divan::bench]
fn tensor_tensor_add_f32(bencher: Bencher<'_, '_>) {
    run(bencher, tensor_tensor(FP32, 0x2000));
}

#[divan::bench]
fn tensor_tensor_add_f32_in_place(bencher: Bencher<'_, '_>) {
    run(bencher, tensor_tensor(FP32, 0));
}

#[divan::bench]
fn tensor_tensor_add_bf16(bencher: Bencher<'_, '_>) {
    run(bencher, tensor_tensor(BF16, 0x2000));
}

fn tensor_scalar(bencher: Bencher<'_, '_>, dtype: u64) {
    use f::s3d3_ts as ts;
    let mut inst = Inst::empty(Generation::V3, op::TENSOR_SCALAR_ARITH_OP);
    inst.set(ts::IN_DTYPE, dtype);
    inst.set(ts::OUT_DTYPE, dtype);
    inst.set(ts::OP0, 0x06);
    inst.set(ts::OP1, 0x04);
    inst.set(ts::IMM0, u64::from(1.5f32.to_bits()));
    inst.set(ts::IMM1, u64::from(0.5f32.to_bits()));
    inst.set(ts::NUM_ACTIVE_CHANNELS, 128);
    put(&mut inst, ts::SRC, 0);
    put(&mut inst, ts::DST, 0x2000);
    run(bencher, inst);
}

#[divan::bench]
fn tensor_scalar_f32(bencher: Bencher<'_, '_>) {
    tensor_scalar(bencher, FP32);
}

#[divan::bench]
fn tensor_scalar_bf16(bencher: Bencher<'_, '_>) {
    tensor_scalar(bencher, BF16);
}

/// COPY, CAST and TENSOR_REDUCE share a struct.
fn one_source(bencher: Bencher<'_, '_>, opcode: u8, types: (u64, u64), op: u64) {
    use f::s4d4_tr as tr;
    let mut inst = Inst::empty(Generation::V3, opcode);
    inst.set(tr::IN_DTYPE, types.0);
    inst.set(tr::OUT_DTYPE, types.1);
    inst.set(tr::OP, op);
    inst.set(tr::NUM_ACTIVE_CHANNELS, 128);
    put(&mut inst, tr::SRC, 0);
    if opcode == op::TENSOR_REDUCE_ARITH_OP {
        inst.set(tr::OP_DIM, 2);
        put_row(&mut inst, tr::DST, 0x2000, 1);
    } else {
        put(&mut inst, tr::DST, 0x2000);
    }
    run(bencher, inst);
}

#[divan::bench]
fn copy_f32(bencher: Bencher<'_, '_>) {
    one_source(bencher, op::COPY, (FP32, FP32), 0);
}

#[divan::bench]
fn cast_f32_to_bf16(bencher: Bencher<'_, '_>) {
    one_source(bencher, op::CAST, (FP32, BF16), 0);
}

#[divan::bench]
fn cast_bf16_to_f32(bencher: Bencher<'_, '_>) {
    one_source(bencher, op::CAST, (BF16, FP32), 0);
}

#[divan::bench]
fn reduce_add_f32(bencher: Bencher<'_, '_>) {
    one_source(bencher, op::TENSOR_REDUCE_ARITH_OP, (FP32, FP32), 0x04);
}

#[divan::bench]
fn reduce_max_f32(bencher: Bencher<'_, '_>) {
    one_source(bencher, op::TENSOR_REDUCE_ARITH_OP, (FP32, FP32), 0x08);
}

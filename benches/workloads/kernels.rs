//! Single instructions whose host time is compared with other tools.

use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, TensorPattern, f, op};
use tpbemu::memory::Space;

const G: Generation = Generation::V3;
const FP32: u64 = 0x0A;
const BF16: u64 = 0x06;
const PSUM: u32 = 0x200_0000;

/// MATMUL of 128 x 128 stationary and 128 x 512 moving bf16 elements, with its weights loaded.
pub fn matmul() -> (Bench, Inst) {
    let mut bench = Bench::new(G, Engine::Pe);
    let mut state = 1u32;
    for p in 0..128 {
        let mut row = Vec::new();
        for _ in 0..640 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0;
            row.extend_from_slice(&x.to_le_bytes()[2..]);
        }
        bench.put(Space::Sbuf, p, 0, &row);
    }
    let at = |addr, n| TensorPattern::at(addr, &[(1, n), (0, 1), (0, 1)]);
    let mut load = Inst::empty(G, op::LDWEIGHTS);
    load.set(f::s3_lw::IN_DTYPE, BF16);
    load.set(f::s3_lw::NUM_ACTIVE_ROWS, 128);
    load.set(f::s3_lw::NUM_ACTIVE_COLS, 128);
    load.set(f::s3_lw::ROW_GRP, 0xF);
    load.set(f::s3_lw::COL_GRP, 0xF);
    load.set_tensor(f::s3_lw::SRC, &at(0, 128)).expect("source");
    bench.run(&load).expect("load");
    let mut mm = Inst::empty(G, op::MATMUL);
    mm.set(f::s3d3_mm::IN_DTYPE, BF16);
    mm.set(f::s3d3_mm::NUM_ACTIVE_ROWS, 128);
    mm.set(f::s3d3_mm::NUM_ACTIVE_COLS, 128);
    mm.set(f::s3d3_mm::ROW_GRP, 0xF);
    mm.set(f::s3d3_mm::COL_GRP, 0xF);
    mm.set(f::s3d3_mm::PSUM_ACCUMULATE_FLAGS, 3);
    mm.set_tensor(f::s3d3_mm::SRC, &at(256, 512)).expect("source");
    mm.set_tensor(f::s3d3_mm::DST, &at(PSUM, 512)).expect("destination");
    (bench, mm)
}

fn row(inst: &mut Inst, field: tpbemu::isa::Field, addr: u32) {
    let mut dims = vec![(1, 512)];
    dims.resize((usize::from(field.size) - 4) / 4, (0, 1));
    inst.set_tensor(field, &TensorPattern::at(addr, &dims)).expect("field");
}

/// TENSOR_TENSOR add of two FP32 tensors of 128 x 512 into a third.
pub fn add() -> (Bench, Inst) {
    use f::s3s3d3_tt as tt;
    let mut inst = Inst::empty(G, op::TENSOR_TENSOR_ARITH_OP);
    inst.set(tt::IN0_IN1_DTYPE, FP32 | FP32 << 4);
    inst.set(tt::OUT_DTYPE, FP32);
    inst.set(tt::OP, 0x04);
    inst.set(tt::NUM_ACTIVE_CHANNELS, 128);
    row(&mut inst, tt::SRC0, 0);
    row(&mut inst, tt::SRC1, 0x1000);
    row(&mut inst, tt::DST, 0x2000);
    (Bench::new(G, Engine::Dve), inst)
}

/// COPY of an FP32 tensor of 128 x 512.
pub fn copy() -> (Bench, Inst) {
    use f::s4d4_tr as tr;
    let mut inst = Inst::empty(G, op::COPY);
    inst.set(tr::IN_DTYPE, FP32);
    inst.set(tr::OUT_DTYPE, FP32);
    inst.set(tr::NUM_ACTIVE_CHANNELS, 128);
    row(&mut inst, tr::SRC, 0);
    row(&mut inst, tr::DST, 0x2000);
    (Bench::new(G, Engine::Dve), inst)
}

//! Random shapes, strides, dtypes and partitions against a naive element-by-element reference.

use proptest::prelude::*;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Field, Generation, Inst, TensorPattern, f, op};
use tpbemu::memory::Space;
use tpbemu::numeric::{AluOp, Dtype, Rounding, alu, load_bits, load_f32, store_bits, store_f32};

/// Bytes of a partition that the operands lie in.
const ROW: usize = 4096;
const DTYPES: [Dtype; 8] = [
    Dtype::Fp32,
    Dtype::Bf16,
    Dtype::Fp16,
    Dtype::Fp8E4,
    Dtype::Int8,
    Dtype::Uint16,
    Dtype::Int32,
    Dtype::Uint8,
];

/// An operand: dtype, first partition, byte, dimensions (step, count).
#[derive(Clone, Debug)]
struct Tensor {
    dtype: Dtype,
    partition: u32,
    byte: usize,
    dims: Vec<(i16, u16)>,
}

impl Tensor {
    fn put(&self, inst: &mut Inst, field: Field, stride: u32) {
        let addr = self.partition * stride + self.byte as u32;
        let mut dims = self.dims.clone();
        dims.resize((usize::from(field.size) - 4) / 4, (0, 1));
        inst.set_tensor(field, &TensorPattern::at(addr, &dims)).unwrap();
    }

    fn offsets(&self) -> Vec<usize> {
        let mut out = vec![self.byte as i64];
        for &(step, num) in &self.dims {
            let inner = out.clone();
            let size = self.dtype.size() as i64;
            out = (0..i64::from(num))
                .flat_map(|i| inner.iter().map(move |o| o + i * i64::from(step) * size))
                .collect();
        }
        out.into_iter().map(|o| o as usize).collect()
    }

    fn f32(&self, rows: &[Vec<u8>], c: u32) -> Vec<f32> {
        let row = &rows[(self.partition + c) as usize];
        self.offsets()
            .into_iter()
            .map(|at| {
                let mut x = [0.0];
                load_f32(self.dtype, &row[at..at + self.dtype.size()], &mut x).unwrap();
                x[0]
            })
            .collect()
    }

    fn store(&self, rows: &mut [Vec<u8>], c: u32, values: &[f32]) {
        let row = &mut rows[(self.partition + c) as usize];
        for (at, v) in self.offsets().into_iter().zip(values) {
            let to = &mut row[at..at + self.dtype.size()];
            store_f32(self.dtype, &[*v], to, Rounding::NearestEven).unwrap();
        }
    }
}

/// A layout of `counts` that stays inside `low..low + 1024` bytes of the row.
fn layout(counts: Vec<u16>, low: usize) -> impl Strategy<Value = Tensor> {
    let dims = counts.len();
    let steps = prop::collection::vec(-3i16..6, dims);
    (0..DTYPES.len(), 0u32..3, steps).prop_map(move |(d, partition, steps)| {
        let dtype = DTYPES[d];
        let dims: Vec<(i16, u16)> = steps.into_iter().zip(counts.iter().copied()).collect();
        let below: usize =
            dims.iter().map(|&(s, n)| usize::from((-s).max(0) as u16) * usize::from(n - 1)).sum();
        Tensor { dtype, partition, byte: low + below * dtype.size(), dims }
    })
}

fn counts() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(1u16..5, 1..4)
}

/// The destination of an elementwise instruction has no element twice, so that no order of
/// writes shows: its steps are the running products.
fn dense(mut t: Tensor) -> Tensor {
    let mut step = 1;
    t.byte = t.byte / 1024 * 1024;
    for dim in &mut t.dims {
        dim.0 = step;
        step *= dim.1 as i16;
    }
    t
}

fn memory() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), ROW), 7)
}

fn run(inst: &Inst, rows: &[Vec<u8>], engine: Engine) -> Vec<Vec<u8>> {
    let mut bench = Bench::new(Generation::V3, engine);
    for (p, row) in rows.iter().enumerate() {
        bench.put(Space::Sbuf, p as u32, 0, row);
    }
    bench.run(inst).unwrap_or_else(|e| panic!("{inst:?}: {e:?}"));
    (0..rows.len()).map(|p| bench.get(Space::Sbuf, p as u32, 0, ROW as u64)).collect()
}

fn stride() -> u32 {
    Bench::new(Generation::V3, Engine::Dve).config.geometry.sbuf_stride
}

const CHANNELS: u32 = 3;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn tensor_tensor(
        (a, b, d) in counts().prop_flat_map(|n| (
            layout(n.clone(), 0), layout(n.clone(), 1024), layout(n, 2048),
        )),
        op_code in prop::sample::select(vec![0x04u8, 0x05, 0x06, 0x08, 0x09, 0x12, 0x14, 0x17, 0x0D]),
        rows in memory(),
    ) {
        use f::s3s3d3_tt as tt;
        let d = dense(d);
        let stride = stride();
        let mut inst = Inst::empty(Generation::V3, op::TENSOR_TENSOR_ARITH_OP);
        inst.set(tt::IN0_IN1_DTYPE, u64::from(a.dtype.code() | b.dtype.code() << 4));
        inst.set(tt::OUT_DTYPE, u64::from(d.dtype.code()));
        inst.set(tt::OP, u64::from(op_code));
        inst.set(tt::NUM_ACTIVE_CHANNELS, u64::from(CHANNELS));
        a.put(&mut inst, tt::SRC0, stride);
        b.put(&mut inst, tt::SRC1, stride);
        d.put(&mut inst, tt::DST, stride);
        let alu_op = AluOp::from_code(Generation::V3, op_code).unwrap();
        let mut want = rows.clone();
        for c in 0..CHANNELS {
            let r: Vec<f32> = a.f32(&rows, c).into_iter().zip(b.f32(&rows, c))
                .map(|(x, y)| alu::apply_f32(alu_op, x, y).unwrap()).collect();
            d.store(&mut want, c, &r);
        }
        prop_assert!(run(&inst, &rows, Engine::Dve) == want);
    }

    /// The destination may lie on the source: same pattern, or any other in the same partition.
    #[test]
    fn tensor_scalar_in_place(
        (a, d) in counts().prop_flat_map(|n| (layout(n.clone(), 0), layout(n, 0))),
        same in any::<bool>(),
        (s0, s1) in (-9i8..9, -9i8..9),
        rows in memory(),
    ) {
        use f::s3d3_ts as ts;
        let mut d = dense(d);
        d.partition = a.partition;
        if same {
            d = dense(a.clone());
        }
        let a = if same { d.clone() } else { a };
        let stride = stride();
        let mut inst = Inst::empty(Generation::V3, op::TENSOR_SCALAR_ARITH_OP);
        inst.set(ts::IN_DTYPE, u64::from(a.dtype.code()));
        inst.set(ts::OUT_DTYPE, u64::from(d.dtype.code()));
        inst.set(ts::OP0, 0x06);
        inst.set(ts::OP1, 0x05);
        inst.set(ts::IMM0, u64::from(f32::from(s0).to_bits()));
        inst.set(ts::IMM1, u64::from(f32::from(s1).to_bits()));
        inst.set(ts::NUM_ACTIVE_CHANNELS, u64::from(CHANNELS));
        a.put(&mut inst, ts::SRC, stride);
        d.put(&mut inst, ts::DST, stride);
        let mut want = rows.clone();
        for c in 0..CHANNELS {
            let r: Vec<f32> = a.f32(&rows, c).into_iter().map(|x| {
                let u = alu::apply_f32(AluOp::Mult, x, f32::from(s0)).unwrap();
                alu::apply_f32(AluOp::Subtract, u, f32::from(s1)).unwrap()
            }).collect();
            d.store(&mut want, c, &r);
        }
        prop_assert!(run(&inst, &rows, Engine::Dve) == want);
    }

    #[test]
    fn reduce_and_copy(
        (a, d) in counts().prop_flat_map(|n| (layout(n.clone(), 0), layout(n, 2048))),
        copy in any::<bool>(),
        op_code in prop::sample::select(vec![0x04u8, 0x06, 0x08, 0x09, 0x05]),
        rows in memory(),
    ) {
        use f::s4d4_tr as tr;
        let mut d = dense(d);
        if copy {
            d.dtype = a.dtype;
        } else {
            // Collapses X.
            d.dims = vec![(1, a.dims[1..].iter().map(|x| x.1).product())];
        }
        let stride = stride();
        let opcode = if copy { op::COPY } else { op::TENSOR_REDUCE_ARITH_OP };
        let mut inst = Inst::empty(Generation::V3, opcode);
        inst.set(tr::IN_DTYPE, u64::from(a.dtype.code()));
        inst.set(tr::OUT_DTYPE, u64::from(d.dtype.code()));
        inst.set(tr::NUM_ACTIVE_CHANNELS, u64::from(CHANNELS));
        a.put(&mut inst, tr::SRC, stride);
        d.put(&mut inst, tr::DST, stride);
        let mut want = rows.clone();
        if copy {
            for c in 0..CHANNELS {
                let (from, to) = (a.partition + c, (d.partition + c) as usize);
                for (x, y) in a.offsets().into_iter().zip(d.offsets()) {
                    let size = a.dtype.size();
                    let mut bits = [0];
                    load_bits(a.dtype, &rows[from as usize][x..x + size], &mut bits).unwrap();
                    store_bits(a.dtype, &bits, &mut want[to][y..y + size]).unwrap();
                }
            }
        } else {
            inst.set(tr::OP, u64::from(op_code));
            inst.set(tr::OP_DIM, 2);
            let alu_op = AluOp::from_code(Generation::V3, op_code).unwrap();
            for c in 0..CHANNELS {
                let r: Vec<f32> = a.f32(&rows, c).chunks(usize::from(a.dims[0].1)).map(|g| {
                    g[1..].iter().fold(g[0], |acc, &x| alu::apply_f32(alu_op, acc, x).unwrap())
                }).collect();
                d.store(&mut want, c, &r);
            }
        }
        prop_assert!(run(&inst, &rows, Engine::Dve) == want);
    }
}

//! The cost table against the published intervals, condition by condition, and the DMA engines
//! against the published times of single copies.

use tpbemu::engine::cost::{CostQuery, CostRow, Operands, Operation, cost};
use tpbemu::engine::{Pace, Transfer, Work};
use tpbemu::isa::{Engine, Generation};
use tpbemu::machine::MachineConfig;
use tpbemu::machine::dma::DmaEngines;
use tpbemu::machine::time::Timebase;
use tpbemu::memory::Space::{self, Psum, Sbuf};

/// An operand: memory, bytes of an element, whether it is a float, innermost step in bytes.
type Side = (Space, usize, bool, i64);

const F32: Side = (Sbuf, 4, true, 4);
const F32_PSUM: Side = (Psum, 4, true, 4);
const BF16: Side = (Sbuf, 2, true, 2);
const BF16_PSUM: Side = (Psum, 2, true, 2);
const BF16_APART: Side = (Sbuf, 2, true, 8);
const INT16: Side = (Sbuf, 2, false, 2);

/// Cycles of the data for `n` elements, without what an engine adds to every instruction.
fn work(
    generation: Generation,
    engine: Engine,
    row: CostRow,
    n: u64,
    sources: &[Side],
    dest: Side,
    operation: Operation,
) -> u64 {
    let config = MachineConfig::builtin(generation);
    let mut o = Operands::new();
    for s in sources {
        o.source(s.0, s.1, s.2, s.3, &config);
    }
    o.dest(dest.0, dest.1, dest.2, dest.3, &config);
    o.operation = operation;
    cost(&CostQuery::new(row, n, o), engine, &config).work
}

#[test]
fn rates_follow_their_conditions() {
    use CostRow::*;
    use Generation::{V2, V3, V4};
    use Operation as O;
    let n = 512;
    type Row = (Generation, CostRow, &'static [Side], Side, Operation, u64);
    let table: &[Row] = &[
        // v2: N from both memories, or for three operations on packed 16-bit floats, else 2N
        (V2, TensorTensor, &[F32, F32], F32, O::Add, 2 * n),
        (V2, TensorTensor, &[F32, F32_PSUM], F32, O::Max, n),
        (V2, TensorTensor, &[BF16, BF16], BF16, O::Add, n),
        (V2, TensorTensor, &[BF16, BF16], BF16, O::Subtract, n),
        (V2, TensorTensor, &[BF16, BF16], BF16, O::Max, 2 * n),
        (V2, TensorTensor, &[BF16, BF16_APART], BF16, O::Mult, 2 * n),
        // v3: twice as fast in either case
        (V3, TensorTensor, &[BF16, BF16], BF16, O::Mult, n / 2),
        (V3, TensorTensor, &[BF16, BF16], BF16, O::Max, n),
        (V3, TensorTensor, &[F32, F32], F32, O::Mult, 2 * n),
        // a difference and a product of 16-bit floats, whatever the result
        (V2, ScalarTensorTensor, &[BF16, BF16], F32, O::SubtractMult, n),
        (V2, ScalarTensorTensor, &[BF16, BF16], F32, O::Other, 2 * n),
        (V2, ScalarTensorTensor, &[BF16, F32], F32, O::SubtractMult, 2 * n),
        (V2, Reduce, &[BF16], BF16, O::Add, n / 2),
        (V2, Reduce, &[BF16], BF16, O::Max, n / 2),
        (V2, Reduce, &[BF16], BF16, O::Mult, n),
        (V2, Reduce, &[BF16], F32, O::Add, n),
        (V2, Memset, &[], INT16, O::Zero, n / 2),
        (V2, Memset, &[], INT16, O::Other, n),
        (V2, Memset, &[], F32, O::Zero, n),
        (V2, Predicated, &[F32, F32], F32, O::Other, 2 * n),
        (V2, Predicated, &[F32, F32_PSUM], F32, O::Other, n),
        (V2, Reciprocal, &[F32], F32, O::Other, 8 * n),
        (V2, Scan, &[F32, F32], F32, O::Other, 2 * n),
        (V2, TensorScalarReduce, &[F32], F32, O::Other, n + 64),
        // performance modes of v3
        (V3, Copy, &[BF16], BF16, O::Other, n / 4),
        (V3, Copy, &[BF16_APART], BF16, O::Other, n / 2),
        (V3, Copy, &[BF16_PSUM], BF16, O::Other, n / 2),
        (V3, Copy, &[F32], F32, O::Other, n / 2),
        (V3, Copy, &[F32_PSUM], F32, O::Other, n),
        (V3, TensorScalar, &[BF16], BF16, O::Other, n / 4),
        (V3, TensorScalar, &[F32], F32, O::Other, n),
        (V4, TensorScalar, &[(Sbuf, 1, true, 1)], BF16, O::Other, n / 4),
        // more than 16 bytes from one element to the next
        (V3, Copy, &[(Sbuf, 4, true, 20)], F32_PSUM, O::Other, 2 * n),
        (V3, TensorScalarReduce, &[(Sbuf, 4, true, 20)], F32, O::Other, 2 * n + 64),
    ];
    for (generation, row, sources, dest, operation, cycles) in table {
        let have = work(*generation, Engine::Dve, *row, n, sources, *dest, *operation);
        assert_eq!(have, *cycles, "{generation} {row:?} {sources:?} {dest:?} {operation:?}");
    }
    let odd = work(V2, Engine::Dve, ScalarTensorTensor, 511, &[BF16], BF16, O::SubtractMult);
    assert_eq!(odd, 2 * 511, "the fast rate needs an even number");
    // the performance modes are DVE's; ACT has one of its own from v4 on, POOL none
    let copy = |g, e| work(g, e, Copy, n, &[BF16], BF16, O::Other);
    assert_eq!(copy(V3, Engine::Act), n);
    assert_eq!(copy(V4, Engine::Act), n / 2);
    assert_eq!(copy(V3, Engine::Pool), 150 + n);
    let act = work(V3, Engine::Act, ActivationReduce, n, &[F32], F32, O::Other);
    assert_eq!(act, n + 64, "the accumulator is read out");
}

#[test]
fn pool_starts_slowly_and_gathers_by_index() {
    let n = 512;
    let iota = work(Generation::V3, Engine::Pool, CostRow::Generate, n, &[], F32, Operation::Other);
    assert_eq!(iota, 150 + n);
    let config = MachineConfig::builtin(Generation::V3);
    assert_eq!(config.pool.gap_cycles, 0, "the published interval is 150 + N");
    let gather = |block: usize, size: usize| {
        let query = CostQuery::new(CostRow::Gather, 1024, Operands::new()).block(block, size);
        cost(&query, Engine::Pool, &config).work - 150
    };
    // (28 + 4 e) / 4 cycles an index, shared by the elements in 4 bytes
    assert_eq!(gather(1, 4), 1024 * 32 / 4);
    assert_eq!(gather(1, 2), 1024 * 32 / 4, "one element is never shared");
    assert_eq!(gather(32, 4), 32 * 156 / 4);
    assert_eq!(gather(32, 2), 32 * 156 / 8);
}

#[test]
fn a_dynamic_address_costs_600_cycles() {
    let config = MachineConfig::builtin(Generation::V3);
    let operands = Operands { dynamic: true, ..Operands::new() };
    let at = |n| cost(&CostQuery::new(CostRow::Copy, n, operands), Engine::Dve, &config).work;
    assert_eq!((at(8), at(599)), (600, 600));
    assert!(at(4096) > 600);
}

#[test]
fn eight_bit_integers_double_the_rate_on_v1_only() {
    let byte = (Sbuf, 1, false, 1);
    let columns =
        |g, side| work(g, Engine::Pe, CostRow::Matmul, 512, &[side], F32_PSUM, Operation::Other);
    assert_eq!(columns(Generation::V1, byte), 256);
    assert_eq!(columns(Generation::V1, BF16), 512);
    assert_eq!(columns(Generation::V2, byte), 512);
}

/// Nanoseconds of one DMA engine for its part of a copy.
fn engine_ns(generation: Generation, bytes: u64, descriptors: u64, rows: u64, pace: Pace) -> f64 {
    let config = MachineConfig::builtin(generation);
    let time = Timebase::new(&config).unwrap();
    let transfer = Transfer {
        work: Work::new([], tpbemu::machine::dma::cost(), |_| unreachable!()),
        bytes,
        partitions: 8,
        load: true,
        descriptors,
        hbm_bytes: bytes,
        hbm_rows: rows,
        pace,
    };
    time.to_ns(DmaEngines::new(&config.dma).demand(&transfer, &config.dma, &time).piece)
}

#[test]
fn rows_cost_a_dma_engine_more_than_their_bytes() {
    use Generation::{V2, V3, V4};
    let near = |have: f64, want: f64, percent: f64| {
        assert!((have / want - 1.0).abs() <= percent / 100.0, "{have} for {want}");
    };
    // adjacent rows of 256 bytes: 97 ns for eight
    near(engine_ns(V3, 2048, 8, 0, Pace::Copy), 97.0, 1.5);
    // sustained over a kernel whose rows lie apart: 22.03 B/ns with 2 KiB, and 20.93 where a fifth
    // of the bytes comes in rows of 512
    let rate = |bytes: u64| bytes as f64 * 100.0 / engine_ns(V3, 100 * bytes, 100, 100, Pace::Copy);
    near(rate(2048), 22.03, 3.0);
    near(1.0 / (0.8 / rate(2048) + 0.2 / rate(512)), 20.93, 3.0);
    // busy times of the 16 engines in the fp32 product of 4096x8192 by 8192x8192 whose loads are
    // innermost: 32768 tiles of each operand and 512 of the result; published 519.58 ms
    let engines = |row: u64| 16.0 * engine_ns(V3, 8 * row, 8, 8, Pace::Copy) * 1e-6;
    let stored = 512.0 * engines(2048);
    near(32768.0 * (engines(512) + engines(2048)) + stored, 519.58, 1.0);
    // with the loads of the first operand hoisted: 2048 tiles of it; published 402.07 ms
    near(2048.0 * engines(512) + 32768.0 * engines(2048) + stored, 402.07, 3.0);
    // a write of four bytes
    near(engine_ns(V2, 4, 1, 0, Pace::Copy), 7.0, 5.0);
    near(engine_ns(V3, 4, 1, 0, Pace::Copy), 10.0, 5.0);
    // transposes reach 90 %, arithmetic half, on v4 all
    let plain = engine_ns(V3, 1 << 20, 1, 0, Pace::Copy);
    near(plain / engine_ns(V3, 1 << 20, 4096, 0, Pace::Transpose), 0.9, 1.0);
    near(plain / engine_ns(V3, 1 << 20, 1, 0, Pace::Compute), 0.5, 1.0);
    let plain = engine_ns(V4, 1 << 20, 1, 0, Pace::Copy);
    near(plain / engine_ns(V4, 1 << 20, 1, 0, Pace::Compute), 1.0, 1.0);
}

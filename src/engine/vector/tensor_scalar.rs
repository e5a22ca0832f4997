//! TENSOR_SCALAR 0x43, 0x53, their pointer forms 0x44, 0x54 and the transposing 0x93:
//! dst = (tensor op0 scalar0) op1 scalar1 (wiki: firmware/kernels/tensor-scalar).

use std::mem::take;

use super::common::*;
use super::domain::Domain;
use super::rows::*;
use super::scalar::Scalar;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Lane, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::{Field, f::s3d3_ts as ts};
use crate::numeric::{AluOp, Dtype, alu};

/// One of the two operations with its scalar.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// The operation.
    pub op: AluOp,
    /// Scalar on the left, so that a single-operand operation takes the scalar.
    pub reverse: bool,
    /// Absent where the operation does not use it: nothing is read then.
    scalar: Option<Scalar>,
}

impl Stage {
    /// A stage whose scalar comes from `scalar` if the operation has a use for it.
    pub(super) fn new(
        op: AluOp,
        reverse: bool,
        scalar: impl FnOnce() -> Result<Scalar>,
    ) -> Result<Stage> {
        let used = reverse || !op.is_unary();
        Ok(Stage { op, reverse, scalar: if used { Some(scalar()?) } else { None } })
    }

    /// Adds the scalar to the footprint.
    pub(super) fn plan<'e, 'a>(&self, plan: Plan<'e, 'a>) -> Result<Plan<'e, 'a>> {
        match &self.scalar {
            Some(scalar) => plan.scalar(scalar),
            None => Ok(plan),
        }
    }

    fn value<T: Default>(&self, load: impl FnOnce(&Scalar) -> Result<T>) -> Result<T> {
        self.scalar.as_ref().map_or_else(|| Ok(T::default()), load)
    }

    /// The FP32 scalar of channel `c`, 0 where none is used.
    pub(super) fn f32(&self, lane: &Lane<'_>, c: u32) -> Result<f32> {
        self.value(|s| s.f32(lane, c))
    }

    /// Whether the stage changes anything.
    pub(super) fn active(&self) -> bool {
        self.op != AluOp::Bypass || self.reverse
    }

    /// Applies the stage to FP32 numbers with the scalar value `s`.
    pub(super) fn apply_f32(&self, s: f32, values: &mut [f32]) -> Result<()> {
        if !self.active() {
            return Ok(());
        }
        alu::apply_f32_ts_assign(self.op, values, s, self.reverse)
    }
}

/// Where the scalars of the struct come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Immediates {
    /// As the source fields say.
    Fields,
    /// Always pointers: the deprecated forms.
    Pointers,
}

struct TensorScalar {
    src: Operand,
    dst: Operand,
    stages: [Stage; 2],
}

fn decode(env: &Env<'_>, immediates: Immediates, bits: bool) -> Result<TensorScalar> {
    let n = channels(env, ts::NUM_ACTIVE_CHANNELS);
    let src = operand(env, ts::SRC, dtype(env, ts::IN_DTYPE)?, n)?;
    let dst = operand(env, ts::DST, dtype(env, ts::OUT_DTYPE)?, n)?;
    same_count(&src, &dst)?;
    let (first, second) = reverse(env, ts::REVERSE_OPERANDS)?;
    // OPEN: the type of a pointed-to scalar of an integer operation (v5) is not stated; it is
    // taken to be a 32-bit integer of the tensor's signedness.
    let scalar_dtype = |op: AluOp| match (bits, op.is_integer_band()) {
        (true, _) => src.dtype,
        (false, true) if src.dtype.is_signed() => Dtype::Int32,
        (false, true) => Dtype::Uint32,
        (false, false) => Dtype::Fp32,
    };
    let stage = |op: Field, swap: bool, source: Field, value: Field| -> Result<Stage> {
        let op = alu(env, op)?;
        // A second BYPASS lets the first result through whatever the reverse flags say.
        let swap = swap && (source == ts::IMM0_SRC || op != AluOp::Bypass);
        Stage::new(op, swap, || match immediates {
            Immediates::Fields => Scalar::decode(env, source, value, scalar_dtype(op), n),
            Immediates::Pointers => {
                Scalar::pointer(env, env.inst.get(value) as u32, scalar_dtype(op), n)
            }
        })
    };
    let stages = [
        stage(ts::OP0, first, ts::IMM0_SRC, ts::IMM0)?,
        stage(ts::OP1, second, ts::IMM1_SRC, ts::IMM1)?,
    ];
    Ok(TensorScalar { src, dst, stages })
}

fn arith(env: &Env<'_>, immediates: Immediates) -> Result<Prepared> {
    let t = decode(env, immediates, false)?;
    for stage in &t.stages {
        engine_has(env, stage.op)?;
    }
    let band = t.stages.iter().any(|s| s.op.is_integer_band());
    let domain = if band {
        require_int(t.src.dtype)?;
        require_int(t.dst.dtype)?;
        let wider = if t.dst.dtype.bits() > t.src.dtype.bits() { &t.dst } else { &t.src };
        Domain::Native(wider.dtype)
    } else {
        Domain::Float
    };
    run(env, t, domain)
}

fn bits(env: &Env<'_>, immediates: Immediates) -> Result<Prepared> {
    let t = decode(env, immediates, true)?;
    for stage in &t.stages {
        bitvec(env, stage.op)?;
    }
    require_int(t.src.dtype)?;
    same_dtype(t.src.dtype, t.dst.dtype)?;
    let width = t.src.dtype.bits();
    if AluOp::shift_pair_needs_four_bytes(t.stages[0].op, t.stages[1].op) && width != 32 {
        return Err(Error::illegal(
            "alu_shift_check",
            format!("{} then {} needs 4-byte elements", t.stages[0].op, t.stages[1].op),
        ));
    }
    run(env, t, Domain::Bits(width))
}

/// 0x43: arithmetic in FP32; between the stages nothing is rounded to the tensor's type.
pub(super) fn tensor_scalar_arith_op(env: &Env<'_>) -> Result<Prepared> {
    arith(env, Immediates::Fields)
}

/// 0x44, deprecated: 0x43 with both scalars behind pointers.
pub(super) fn tensor_scalar_ptr_arith_op(env: &Env<'_>) -> Result<Prepared> {
    arith(env, Immediates::Pointers)
}

/// 0x53: raw bits.
pub(super) fn tensor_scalar_bitvec_op(env: &Env<'_>) -> Result<Prepared> {
    bits(env, Immediates::Fields)
}

/// 0x54, deprecated: 0x53 with both scalars behind pointers.
pub(super) fn tensor_scalar_ptr_bitvec_op(env: &Env<'_>) -> Result<Prepared> {
    bits(env, Immediates::Pointers)
}

/// 0x93: the source is transposed in 32 x 32 tiles, then as 0x43
/// (wiki: firmware/kernels/pool-compute-misc).
pub(super) fn transpose_tensor_scalar_arith_op(env: &Env<'_>) -> Result<Prepared> {
    let TensorScalar { src, dst, stages } = decode(env, Immediates::Fields, false)?;
    for stage in &stages {
        engine_has(env, stage.op)?;
    }
    let n = src.channels;
    require_quadrants(n)?;
    let len = src.len();
    let mut plan = Plan::new(env).source(&src)?;
    for stage in &stages {
        plan = stage.plan(plan)?;
    }
    let plan = plan.dest(&dst)?.flops(active(&stages) * u64::from(n) * len as u64);
    let order = plan.order(n / TILE as u32)?;
    plan.work(CostRow::Shuffle, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [row, flat, ..] = &mut f;
        for block in order.iter() {
            let first = block * TILE as u32;
            transposed_block(&src, lane, first, Operand::gather_f32, row, flat)?;
            for (c, values) in (first..).zip(flat.chunks_exact_mut(len)) {
                for stage in &stages {
                    let s = stage.f32(lane, c)?;
                    stage.apply_f32(s, values)?;
                }
                store_f32(&dst, lane, c, values)?;
            }
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

fn active(stages: &[Stage; 2]) -> u64 {
    stages.iter().filter(|s| s.active()).count() as u64
}

fn run(env: &Env<'_>, t: TensorScalar, domain: Domain) -> Result<Prepared> {
    let TensorScalar { src, dst, stages } = t;
    let (n, len) = (dst.channels, dst.len());
    let mut plan = Plan::new(env).source(&src)?;
    for stage in &stages {
        plan = stage.plan(plan)?;
    }
    let plan = plan.dest(&dst)?.flops(active(&stages) * u64::from(n) * len as u64);
    let order = plan.order(n)?;
    let plain = is_plain_f32(&src) && is_plain_f32(&dst);
    plan.work(CostRow::TensorScalar, len, move |lane| {
        match domain {
            Domain::Float => {
                let mut f = take(&mut lane.scratch.f32);
                let buffer = &mut f[0];
                for c in order.iter() {
                    let s = [stages[0].f32(lane, c)?, stages[1].f32(lane, c)?];
                    if plain && in_place_f32(lane, c, &src, &dst, &stages, s)? {
                        continue;
                    }
                    src.gather_f32(lane, c, buffer)?;
                    stages[0].apply_f32(s[0], buffer)?;
                    stages[1].apply_f32(s[1], buffer)?;
                    store_f32(&dst, lane, c, buffer)?;
                }
                lane.scratch.f32 = f;
            }
            Domain::Native(dtype) => {
                let mut i = take(&mut lane.scratch.i64);
                let [x, out, ..] = &mut i;
                for c in order.iter() {
                    src.gather_i64(lane, c, x)?;
                    for stage in stages.iter().filter(|s| s.active()) {
                        let s = stage.value(|s| s.i64(lane, c, Dtype::Int32))?;
                        out.resize(len, 0);
                        alu::apply_i64_ts(stage.op, x, s, stage.reverse, dtype, out)?;
                        std::mem::swap(x, out);
                    }
                    dst.scatter_i64(lane, c, x)?;
                }
                lane.scratch.i64 = i;
            }
            Domain::Bits(width) => {
                let mut b = take(&mut lane.scratch.bits);
                let [x, out, ..] = &mut b;
                for c in order.iter() {
                    src.gather_bits(lane, c, x)?;
                    for stage in stages.iter().filter(|s| s.active()) {
                        let s = stage.value(|s| s.bits(lane, c, src.dtype))?;
                        out.resize(len, 0);
                        alu::apply_bits_ts(stage.op, x, s, stage.reverse, width, out)?;
                        std::mem::swap(x, out);
                    }
                    dst.scatter_bits(lane, c, x)?;
                }
                lane.scratch.bits = b;
            }
        }
        Outcome::none()
    })
}

/// Contiguous FP32 rows that do not overlap: computed where they lie. False if they do.
fn in_place_f32(
    lane: &mut Lane<'_>,
    c: u32,
    src: &Operand,
    dst: &Operand,
    stages: &[Stage; 2],
    s: [f32; 2],
) -> Result<bool> {
    let rows = lane.mem.rows_and_mut([src.row(c)], dst.row(c))?;
    let Some(([x], out)) = rows else { return Ok(false) };
    let (Some(x), Some(out)) = (as_f32(x), as_f32_mut(out)) else { return Ok(false) };
    alu::apply_f32_ts(stages[0].op, x, s[0], stages[0].reverse, out)?;
    stages[1].apply_f32(s[1], out)?;
    Ok(true)
}

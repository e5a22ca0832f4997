//! TENSOR_REDUCE 0x42, 0x52, the transposing 0x83, 0x84 and the packed BF16 forms of v2: the
//! innermost dimensions collapse to one element (wiki: firmware/kernels/tensor-reduce).

use std::mem::take;

use smallvec::SmallVec;

use super::common::*;
use super::domain::{Domain, native_or_float};
use super::rows::*;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Lane, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::f::s4d4_tr as tr;
use crate::numeric::simd::vectorize;
use crate::numeric::{AluOp, Dtype, alu};

struct Reduce {
    op: AluOp,
    src: Operand,
    dst: Operand,
    /// Elements folded into each result.
    group: usize,
    negated: bool,
}

/// Operands of the struct S4D4_TR: (src, dst).
pub(super) fn operands(env: &Env<'_>) -> Result<(Operand, Operand)> {
    let n = channels(env, tr::NUM_ACTIVE_CHANNELS);
    let src = operand(env, tr::SRC, dtype(env, tr::IN_DTYPE)?, n)?;
    let dst = operand(env, tr::DST, dtype(env, tr::OUT_DTYPE)?, n)?;
    Ok((src, dst))
}

fn decode(env: &Env<'_>, op: AluOp) -> Result<Reduce> {
    let (src, dst) = operands(env)?;
    let dims = subdim(env, tr::OP_DIM)?;
    if dims == 0 {
        return Err(Error::illegal("is_valid_subdim", "a reduction names no dimension"));
    }
    let group = group_len(&src, dims);
    require_count(&dst, src.len() / group.max(1))?;
    Ok(Reduce { op, src, dst, group, negated: env.inst.get(tr::NEGATED) != 0 })
}

fn is_arg(op: AluOp) -> bool {
    matches!(op, AluOp::AmaxInt | AluOp::AminInt | AluOp::AmaxUint | AluOp::AminUint)
}

fn arith_domain(env: &Env<'_>, r: &Reduce) -> Result<Domain> {
    if !r.op.is_general_arith() && !r.op.is_integer_band() && !r.op.is_int() {
        return Err(Error::illegal("is_general_arith_op", format!("{} is not legal here", r.op)));
    }
    // POOL's exact arithmetic on plain operations is described for two tensors only; a reduction
    // is native by its operation or by 64-bit elements.
    let wide = r.src.dtype.bits() == 64 || r.dst.dtype.bits() == 64;
    if wide || r.op.is_integer_band() || r.op == AluOp::Mod {
        require_int(r.src.dtype)?;
        require_int(r.dst.dtype)?;
        engine_has(env, r.op)?;
        if is_arg(r.op) || !wide {
            return Ok(Domain::Native(r.src.dtype));
        }
        return native_or_float(env, r.op, &[r.src.dtype], r.dst.dtype);
    }
    engine_has(env, r.op)?;
    Ok(Domain::Float)
}

fn bits_domain(env: &Env<'_>, r: &Reduce) -> Result<Domain> {
    bitvec(env, r.op)?;
    require_int(r.src.dtype)?;
    same_dtype(r.src.dtype, r.dst.dtype)?;
    Ok(Domain::Bits(r.src.dtype.bits()))
}

/// 0x42: starts from the first element of each group, in stream order; FP32 except for the
/// integer operations of POOL.
pub(super) fn tensor_reduce_arith_op(env: &Env<'_>) -> Result<Prepared> {
    let r = decode(env, alu(env, tr::OP)?)?;
    let domain = arith_domain(env, &r)?;
    run(env, r, domain, false)
}

/// 0x52: raw bits.
pub(super) fn tensor_reduce_bitvec_op(env: &Env<'_>) -> Result<Prepared> {
    let r = decode(env, alu(env, tr::OP)?)?;
    let domain = bits_domain(env, &r)?;
    run(env, r, domain, false)
}

/// 0x83: the source is transposed in 32 x 32 tiles first (wiki-cc: bir/sim-elementwise-datamove).
pub(super) fn transpose_tensor_reduce_arith_op(env: &Env<'_>) -> Result<Prepared> {
    let r = decode(env, alu(env, tr::OP)?)?;
    let domain = arith_domain(env, &r)?;
    run(env, r, domain, true)
}

/// 0x84: as 0x83 on raw bits.
pub(super) fn transpose_tensor_reduce_bitvec_op(env: &Env<'_>) -> Result<Prepared> {
    let r = decode(env, alu(env, tr::OP)?)?;
    let domain = bits_domain(env, &r)?;
    run(env, r, domain, true)
}

fn packed_bf16(env: &Env<'_>, op: AluOp) -> Result<Prepared> {
    let r = decode(env, op)?;
    if r.src.dtype != Dtype::Bf16 {
        return Err(Error::illegal("is_valid_dtype", "the packed forms take BF16 sources"));
    }
    run(env, r, Domain::Float, false)
}

/// 0x8C (v2): as 0x42 with ADD on BF16, at twice the rate
/// (wiki: firmware/kernels/intwide-bf16-extremes).
pub(super) fn tensor_reduce_add_bf16(env: &Env<'_>) -> Result<Prepared> {
    packed_bf16(env, AluOp::Add)
}

/// 0x8D (v2): MAX.
pub(super) fn tensor_reduce_max_bf16(env: &Env<'_>) -> Result<Prepared> {
    packed_bf16(env, AluOp::Max)
}

fn run(env: &Env<'_>, r: Reduce, domain: Domain, transposed: bool) -> Result<Prepared> {
    let (n, len) = (r.src.channels, r.src.len());
    let plan = Plan::new(env).source(&r.src)?.dest(&r.dst)?.flops(u64::from(n) * len as u64);
    let plan = plan.operation(r.op);
    // Channels per step: transposing reads 32 before it writes any of them.
    let step = if transposed { TILE as u32 } else { 1 };
    if transposed {
        require_quadrants(n)?;
    }
    let order = plan.order(n / step)?;
    let row = if transposed { CostRow::Shuffle } else { CostRow::Reduce };
    plan.work(row, len, move |lane| {
        match domain {
            Domain::Float => {
                let mut f = take(&mut lane.scratch.f32);
                let mut channels = order.iter().map(|i| i * step);
                if transposed {
                    let [row, flat, out, ..] = &mut f;
                    for first in channels {
                        transposed_block(&r.src, lane, first, Operand::gather_f32, row, flat)?;
                        for (c, values) in (first..).zip(flat.chunks_exact(len)) {
                            fold_f32(&r, values, out)?;
                            store_f32(&r.dst, lane, c, out)?;
                        }
                    }
                } else {
                    let [row, out, block, ..] = &mut f;
                    loop {
                        let some: SmallVec<[u32; ROWS]> = channels.by_ref().take(ROWS).collect();
                        let side_by_side = matches!(r.op, AluOp::Add | AluOp::Max | AluOp::Min);
                        if some.len() == ROWS && side_by_side {
                            many_channels(&r, lane, &some, row, out, block)?;
                            continue;
                        }
                        for &c in &some {
                            fold_f32(&r, f32_row(&r.src, lane, c, row)?, out)?;
                            store_f32(&r.dst, lane, c, out)?;
                        }
                        if some.len() < ROWS {
                            break;
                        }
                    }
                }
                lane.scratch.f32 = f;
            }
            Domain::Native(dtype) => {
                let mut i = take(&mut lane.scratch.i64);
                let gather: Gather<i64> = Operand::gather_i64;
                each(&r, lane, order, transposed, gather, &mut i, |lane, c, values, out| {
                    for group in values.chunks_exact(r.group) {
                        let value = if is_arg(r.op) {
                            alu::arg_reduce(r.op, group, dtype)?.map(i64::from)
                        } else {
                            alu::reduce_i64(r.op, group, None, dtype)?
                        };
                        let value = value.unwrap_or_default();
                        out.push(if r.negated { value.wrapping_neg() } else { value });
                    }
                    r.dst.scatter_i64(lane, c, out)
                })?;
                lane.scratch.i64 = i;
            }
            Domain::Bits(width) => {
                let mut b = take(&mut lane.scratch.bits);
                let gather: Gather<u64> = Operand::gather_bits;
                each(&r, lane, order, transposed, gather, &mut b, |lane, c, values, out| {
                    for group in values.chunks_exact(r.group) {
                        let value = alu::reduce_bits(r.op, group, None, width)?;
                        out.push(value.unwrap_or_default());
                    }
                    r.dst.scatter_bits(lane, c, out)
                })?;
                lane.scratch.bits = b;
            }
        }
        Outcome::none()
    })
}

/// Calls `fold` with each channel's source row, transposed if asked, and an empty result row.
fn each<T: Copy + Default>(
    r: &Reduce,
    lane: &mut Lane<'_>,
    order: ChannelOrder,
    transposed: bool,
    gather: Gather<T>,
    buffers: &mut [Vec<T>; 4],
    fold: impl Fn(&mut Lane<'_>, u32, &[T], &mut Vec<T>) -> Result<()>,
) -> Result<()> {
    let [row, flat, out, _] = buffers;
    let len = r.src.len();
    for i in order.iter() {
        if transposed {
            let first = i * TILE as u32;
            transposed_block(&r.src, lane, first, gather, row, flat)?;
            for (c, values) in (first..).zip(flat.chunks_exact(len)) {
                out.clear();
                fold(lane, c, values, out)?;
            }
        } else {
            gather(&r.src, lane, i, row)?;
            out.clear();
            fold(lane, i, row, out)?;
        }
    }
    Ok(())
}

/// Channels that are folded side by side: the steps of one fold depend on each other, those of
/// different channels do not.
const ROWS: usize = 16;

/// Folds `ROWS` channels at once with ADD, MAX or MIN; the results are those of [`fold_f32`].
fn many_channels(
    r: &Reduce,
    lane: &mut Lane<'_>,
    channels: &[u32],
    row: &mut Vec<f32>,
    out: &mut Vec<f32>,
    block: &mut Vec<f32>,
) -> Result<()> {
    let len = r.src.len();
    // The elements of all channels at one place become neighbours.
    block.resize(len * ROWS, 0.0);
    let (places, _) = block.as_chunks_mut::<ROWS>();
    for (k, &c) in channels.iter().enumerate() {
        let values = f32_row(&r.src, lane, c, row)?;
        places.iter_mut().zip(values).for_each(|(place, &x)| place[k] = x);
    }
    let results = len / r.group;
    out.resize(results * ROWS, 0.0);
    match r.op {
        AluOp::Max => fold_places(places, r.group, out, alu::max_num),
        AluOp::Min => fold_places(places, r.group, out, alu::min_num),
        // A sum that becomes NaN stays NaN; which one is settled at the end.
        _ => fold_places(places, r.group, out, |a, b| a + b),
    }
    for x in out.iter_mut() {
        // A group of one element moves bits.
        if r.group > 1 && r.op == AluOp::Add {
            *x = canonical(*x);
        }
        if r.negated {
            *x = canonical(-*x);
        }
    }
    for (k, &c) in channels.iter().enumerate() {
        row.clear();
        row.extend(out.iter().skip(k).step_by(ROWS));
        store_f32(&r.dst, lane, c, row)?;
    }
    Ok(())
}

/// The fold of each group of places, channel by channel, into `out[group * ROWS + channel]`.
#[inline(always)]
fn fold_places(
    places: &[[f32; ROWS]],
    group: usize,
    out: &mut [f32],
    op: impl Fn(f32, f32) -> f32,
) {
    let (out, _) = out.as_chunks_mut::<ROWS>();
    vectorize(|| {
        for (out, group) in out.iter_mut().zip(places.chunks_exact(group)) {
            let mut acc = group[0];
            for place in &group[1..] {
                for k in 0..ROWS {
                    acc[k] = op(acc[k], place[k]);
                }
            }
            *out = acc;
        }
    });
}

fn fold_f32(r: &Reduce, values: &[f32], out: &mut Vec<f32>) -> Result<()> {
    out.clear();
    for group in values.chunks_exact(r.group) {
        let value = alu::reduce_f32(r.op, group, None)?.unwrap_or_default();
        // NEGATED multiplies by -1, which leaves NaN alone.
        out.push(if r.negated { canonical(-value) } else { value });
    }
    Ok(())
}

//! Batch normalisation, forward statistics and backward pass: 0x60, 0x61, 0x62, 0x82
//! (wiki: firmware/kernels/batchnorm-forward), 0x63, 0x94
//! (wiki: firmware/kernels/batchnorm-gradaccum), 0x64, 0x8E
//! (wiki: firmware/kernels/batchnorm-paramload), 0x65
//! (wiki: firmware/kernels/batchnorm-backprop), and the reciprocal table 0x66.
//!
//! The formulas are those of the vendor's simulator, one rounding per operation in its order
//! (wiki-cc: bir/sim-bn-rng-collective-dma 1).

use std::mem::take;

use super::common::*;
use super::rows::*;
use super::scalar::Scalar;
use super::tensor_tensor;
use crate::engine::cost::CostRow;
use crate::engine::{Env, Operand, Outcome, Prepared};
use crate::error::{Error, Result};
use crate::isa::e::imm_src;
use crate::isa::f::{
    ctrl_im as im, s2_bn as pl, s2_bnpl2 as pl2, s3s3d1_bn as ga, s3s3d1_bn2 as ga2, s4d2_bn as bn,
};
use crate::numeric::batchnorm::{self, BackProp};
use crate::numeric::{AluOp, Dtype};

/// Entries of PARAMETER_RAM.
pub(super) const PARAMETERS: usize = 256;

fn reset_table() -> Box<[f32]> {
    Box::new(batchnorm::reciprocals())
}

fn stats(env: &Env<'_>, lanes: usize, transposed: bool) -> Result<Prepared> {
    let n = channels(env, bn::NUM_ACTIVE_CHANNELS);
    let src = operand(env, bn::SRC, dtype(env, bn::IN_DTYPE)?, n)?;
    let dst = operand(env, bn::DST, dtype(env, bn::OUT_DTYPE)?, n)?;
    require_count(&dst, 3 * lanes)?;
    if src.len() > lanes * PARAMETERS {
        return Err(Error::illegal(
            "src_element_count",
            format!("{} elements; at most {}", src.len(), lanes * PARAMETERS),
        ));
    }
    let counts = [env.inst.get_f32(bn::EVEN_COUNT), env.inst.get_f32(bn::ODD_COUNT)];
    let len = src.len();
    let step = if transposed { TILE as u32 } else { 1 };
    if transposed {
        require_quadrants(n)?;
    }
    let plan = Plan::new(env).source(&src)?.dest(&dst)?.flops(7 * u64::from(n) * len as u64);
    let order = plan.order(n / step)?;
    plan.work(CostRow::BnStats, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let table = lane.state.vector.parameters.take().unwrap_or_else(reset_table);
        let [row, flat, ..] = &mut f;
        let mut one = Vec::new();
        let mut result = |values: &[f32]| -> [f32; 6] {
            let reciprocal = |n: u32| table.get(n as usize - 1).copied().unwrap_or_default();
            let values = if lanes == 2 {
                values
            } else {
                // One lane of statistics is the even lane of a row whose odd elements do not count.
                one.clear();
                one.extend(values.iter().flat_map(|&x| [x, 0.0]));
                &one
            };
            let mut out = batchnorm::stats(values, reciprocal);
            out[0] = counts[0];
            out[3] = counts[1];
            out
        };
        for first in order.iter().map(|i| i * step) {
            if transposed {
                transposed_block(&src, lane, first, Operand::gather_f32, row, flat)?;
                for (c, values) in (first..).zip(flat.chunks_exact(len)) {
                    store_f32(&dst, lane, c, &result(values)[..3 * lanes])?;
                }
            } else {
                let out = result(f32_row(&src, lane, first, row)?);
                store_f32(&dst, lane, first, &out[..3 * lanes])?;
            }
        }
        lane.state.vector.parameters = Some(table);
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x61: {count, mean, count * variance} of the even and of the odd elements; the counts are the
/// instruction's own.
pub(super) fn batch_norm_stats2(env: &Env<'_>) -> Result<Prepared> {
    stats(env, 2, false)
}

/// 0x60: the same of all elements. OPEN: which of the two counts it passes on; the even one here.
pub(super) fn batch_norm_stats(env: &Env<'_>) -> Result<Prepared> {
    stats(env, 1, false)
}

/// 0x82: 0x61 after a transpose in 32 x 32 tiles.
pub(super) fn transpose_batch_norm_stats2(env: &Env<'_>) -> Result<Prepared> {
    stats(env, 2, true)
}

/// 0x62: merges the tuples of 0x60 and 0x61.
pub(super) fn batch_norm_aggregate(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, bn::NUM_ACTIVE_CHANNELS);
    let src = operand(env, bn::SRC, dtype(env, bn::IN_DTYPE)?, n)?;
    let dst = operand(env, bn::DST, dtype(env, bn::OUT_DTYPE)?, n)?;
    require_count(&dst, 2)?;
    if !src.len().is_multiple_of(3) {
        return Err(Error::illegal(
            "src_element_count",
            format!("{} elements are not whole tuples of three", src.len()),
        ));
    }
    let plan = Plan::new(env).source(&src)?.dest(&dst)?;
    let order = plan.order(n)?;
    plan.work(CostRow::BnAggregate, src.len(), move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        for c in order.iter() {
            let row = f32_row(&src, lane, c, &mut f[0])?;
            let out = batchnorm::aggregate(row.as_chunks::<3>().0);
            store_f32(&dst, lane, c, &out)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

fn grad(
    env: &Env<'_>,
    dtypes: (Dtype, Dtype, Dtype),
    mean: Scalar,
    inverse_std: Scalar,
) -> Result<Prepared> {
    let n = channels(env, ga::NUM_ACTIVE_CHANNELS);
    let src0 = operand(env, ga::SRC0, dtypes.0, n)?;
    let src1 = operand(env, ga::SRC1, dtypes.1, n)?;
    let dst = operand(env, ga::DST, dtypes.2, n)?;
    same_count(&src0, &src1)?;
    require_count(&dst, 3)?;
    let len = src0.len();
    let plan = Plan::new(env).source(&src0)?.source(&src1)?.scalar(&mean)?.scalar(&inverse_std)?;
    let plan = plan.dest(&dst)?.flops(7 * u64::from(n) * len as u64);
    let order = plan.order(n)?;
    plan.work(CostRow::BnStats, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [x, y, ..] = &mut f;
        for c in order.iter() {
            let (mean, vf) = (mean.f32(lane, c)?, inverse_std.f32(lane, c)?);
            let x = f32_row(&src0, lane, c, x)?;
            let dy = f32_row(&src1, lane, c, y)?;
            let mut out = [0.0; 3];
            batchnorm::gradients(x, dy, mean, vf, &mut out);
            store_f32(&dst, lane, c, &out)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x63: mean and inverse deviation behind pointers; an INVALID immediate type means FP32.
pub(super) fn batch_norm_grad_accumulate(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, ga::NUM_ACTIVE_CHANNELS);
    let (d0, d1) = dtype_pair(env, ga::IN0_IN1_DTYPE)?;
    let immediate = match env.inst.get(ga::IMMEDIATE_DTYPE) {
        0 => Dtype::Fp32,
        _ => dtype(env, ga::IMMEDIATE_DTYPE)?,
    };
    let pointer = |field| Scalar::pointer(env, env.inst.get(field) as u32, immediate, n);
    let (mean, inverse_std) = (pointer(ga::IMM0)?, pointer(ga::IMM1)?);
    grad(env, (d0, d1, dtype(env, ga::OUT_DTYPE)?), mean, inverse_std)
}

/// 0x94: as 0x63 with the sources of the pointers in the word.
pub(super) fn batch_norm_grad_accumulate2(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, ga2::NUM_ACTIVE_CHANNELS);
    let (d0, d1) = dtype_pair(env, ga2::IN0_IN1_DTYPE)?;
    let (immediate, out) = dtype_pair(env, ga2::IMMEDIATE_OUT_DTYPE)?;
    let sources = env.inst.get(ga2::IMM0_IMM1_SRC) as u8;
    let pointer = |source: u8, field| {
        if source == imm_src::INSTRUCTION_IMMEDIATE {
            return Err(Error::illegal("has_valid_immediates", "the immediates are pointers"));
        }
        Scalar::from_source(env, source, env.inst.get(field), immediate, n)
    };
    let (mean, inverse_std) =
        (pointer(sources & 0xF, ga2::IMM0)?, pointer(sources >> 4, ga2::IMM1)?);
    grad(env, (d0, d1, out), mean, inverse_std)
}

/// 0x64: A, B, C from memory, the count in the word, the batch mean, an FP32, behind a pointer.
pub(super) fn batch_norm_param_load(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, pl::NUM_ACTIVE_CHANNELS);
    let src = operand(env, pl::SRC, dtype(env, pl::DTYPE)?, n)?;
    require_count(&src, 3)?;
    let source = pointer_source(env.inst.get(pl::IMM0_SRC) as u8);
    let mean = Scalar::from_source(env, source, env.inst.get(pl::IMM0_PTR), Dtype::Fp32, n)?;
    let count = env.inst.get_f32(pl::IMM1);
    let plan = Plan::new(env).source(&src)?.scalar(&mean)?;
    plan.work(CostRow::StateLoad, 3, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        for c in 0..n {
            src.gather_f32(lane, c, &mut f[0])?;
            if let [a, b, third] = f[0][..] {
                let mean = mean.f32(lane, c)?;
                let rows = &mut lane.state.vector.back_prop;
                state_rows(rows, n, BackProp::default())[c as usize] =
                    BackProp { n: count, mean, a, b, c: third };
            }
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// In these structs 0 too means a pointer.
fn pointer_source(code: u8) -> u8 {
    if code == imm_src::INSTRUCTION_IMMEDIATE { imm_src::POINTER_IMMEDIATE } else { code }
}

/// 0x8E: B and C from memory, the count in the word, two values behind pointers.
/// OPEN: the page does not say which pointer is which; here the first is the batch mean, as in
/// 0x64, and the second A.
pub(super) fn batch_norm_param_load2(env: &Env<'_>) -> Result<Prepared> {
    let n = channels(env, pl2::NUM_ACTIVE_CHANNELS);
    let src = operand(env, pl2::SRC, dtype(env, pl2::SRC_DTYPE)?, n)?;
    require_count(&src, 2)?;
    let immediate = dtype(env, pl2::IMMEDIATE_DTYPE)?;
    let pointer = |source, value| {
        let source = pointer_source(env.inst.get(source) as u8);
        Scalar::from_source(env, source, env.inst.get(value), immediate, n)
    };
    let mean = pointer(pl2::IMM0_SRC, pl2::IMM0_PTR)?;
    let a = pointer(pl2::IMM1_SRC, pl2::IMM1_PTR)?;
    let count = env.inst.get_f32(pl2::ELEMENT_COUNT);
    let plan = Plan::new(env).source(&src)?.scalar(&mean)?.scalar(&a)?;
    plan.work(CostRow::StateLoad, 2, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        for c in 0..n {
            src.gather_f32(lane, c, &mut f[0])?;
            if let [b, third] = f[0][..] {
                let (mean, a) = (mean.f32(lane, c)?, a.f32(lane, c)?);
                let rows = &mut lane.state.vector.back_prop;
                state_rows(rows, n, BackProp::default())[c as usize] =
                    BackProp { n: count, mean, a, b, c: third };
            }
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x65: dx = (dy * N - ((x - mean) * C + B)) * A.
pub(super) fn batch_norm_back_prop(env: &Env<'_>) -> Result<Prepared> {
    let op = alu(env, crate::isa::f::s3s3d3_tt::OP)?;
    if op != AluOp::Bypass {
        return Err(Error::illegal("op", format!("BATCH_NORM_BACK_PROP with {op}")));
    }
    let (src0, src1, dst) = tensor_tensor::operands(env)?;
    let (n, len) = (dst.channels, dst.len());
    let plan = Plan::new(env).source(&src0)?.source(&src1)?.dest(&dst)?;
    let plan = plan.flops(6 * u64::from(n) * len as u64);
    let order = plan.order(n)?;
    plan.work(CostRow::TensorTensor, len, move |lane| {
        let mut f = take(&mut lane.scratch.f32);
        let [x, y, ..] = &mut f;
        for c in order.iter() {
            let p =
                state_rows(&mut lane.state.vector.back_prop, n, BackProp::default())[c as usize];
            src0.gather_f32(lane, c, x)?;
            let dy = f32_row(&src1, lane, c, y)?;
            for (x, &dy) in x.iter_mut().zip(dy) {
                *x = p.dx(*x, dy);
            }
            store_f32(&dst, lane, c, x)?;
        }
        lane.scratch.f32 = f;
        Outcome::none()
    })
}

/// 0x66: writes eight entries of the table. OPEN: the offset counts entries.
pub(super) fn load_parameter_ram(env: &Env<'_>) -> Result<Prepared> {
    let offset = env.inst.get(im::PARAM_RAM_OFFSET) as usize;
    let mut values = [0.0f32; 8];
    for (value, bytes) in values.iter_mut().zip(env.inst.slice(im::IMMEDIATE).as_chunks::<4>().0) {
        *value = f32::from_le_bytes(*bytes);
    }
    if offset + values.len() > PARAMETERS {
        return Err(Error::illegal(
            "param_ram_offset",
            format!("entries {offset}..{} of {PARAMETERS}", offset + values.len()),
        ));
    }
    Plan::new(env).work(CostRow::StateLoad, values.len(), move |lane| {
        let table = lane.state.vector.parameters.get_or_insert_with(reset_table);
        table[offset..offset + values.len()].copy_from_slice(&values);
        Outcome::none()
    })
}

//! DROPOUT: a mask drawn inline, without scaling. (wiki: firmware/kernels/dropout)

use std::mem::take;

use super::common::{Scalar, cost, crosses, require, rows};
use crate::engine::{CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{e, f};
use crate::numeric::rng::uniform_high_bits;
use crate::numeric::{Dtype, load_f32};

/// DROPOUT 0x7F: an element becomes zero or passes bit for bit. Each element takes one step of its
/// partition's LFSR; with r in [0, 1) made of it, DROP_RATE zeroes where r < threshold and
/// KEEP_RATE zeroes elsewhere.
///
/// OPEN: r equal to the threshold counts as not below it, which is exact for the rates 0 and 1.
pub fn dropout(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_dropout as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    // code 0 counts as FP32
    let dtype = |field| match env.inst.get(field) as u8 {
        0 => Ok(Dtype::Fp32),
        code => Dtype::from_code(env.generation(), code),
    };
    let in_dtype = dtype(l::IN_DTYPE)?;
    require(in_dtype == dtype(l::OUT_DTYPE)?, "dropout_dtype", || {
        "input and output dtype of DROPOUT differ".into()
    })?;
    let src = Operand::new(env, l::SRC, in_dtype, channels)?;
    let dst = Operand::new(env, l::DST, in_dtype, channels)?;
    require(src.len() == dst.len(), "dropout_count", || {
        format!("{} source and {} destination elements", src.len(), dst.len())
    })?;
    let threshold_dtype = dtype(l::THRESHOLD_DTYPE)?;
    require(threshold_dtype.is_float(), "dropout_threshold_dtype", || {
        format!("a threshold of type {threshold_dtype}")
    })?;
    let source = env.inst.get(l::THRESHOLD_SRC) as u8;
    let raw = env.inst.get(l::THRESHOLD) as u32;
    let threshold = Scalar::decode(env, source, raw, threshold_dtype.size() as u64, channels)?;
    let value_dtype = match threshold {
        Scalar::Immediate(_) => Dtype::Fp32,
        Scalar::PerChannel { .. } => threshold_dtype,
    };
    let drop = match env.inst.get(l::THRESHOLD_TYPE) as u8 {
        e::dropout_threshold_type::DROP_RATE => true,
        e::dropout_threshold_type::KEEP_RATE => false,
        other => {
            return Err(Error::illegal("dropout_threshold_type", format!("type {other}")));
        }
    };
    let staged = crosses(&src, &dst);
    let cost = cost(env, CostRow::Random, src.len(), &[&src], &[&dst]);
    let accesses = [src.read(), dst.write()].into_iter().chain(threshold.access());
    let work = Work::new(accesses, cost, move |lane| {
        let (mut row, mut all) = (take(&mut lane.scratch.bits[0]), take(&mut lane.scratch.bits[1]));
        rows(
            lane,
            channels,
            staged,
            [&mut row, &mut all],
            |lane, c, row| {
                let mut limit = [0f32];
                load_f32(value_dtype, &threshold.bits(lane, c)?.to_le_bytes(), &mut limit)?;
                src.gather_bits(lane, c, row)?;
                lane.state.indirect.random.with_lfsr(dst.partition + c, |lfsr| {
                    for bits in row.iter_mut() {
                        let below = uniform_high_bits(lfsr.next_u32()) < limit[0];
                        if below == drop {
                            *bits = 0;
                        }
                    }
                });
                Ok(())
            },
            |lane, c, row| dst.scatter_bits(lane, c, row),
        )?;
        [lane.scratch.bits[0], lane.scratch.bits[1]] = [row, all];
        Outcome::none()
    });
    Ok(work.into())
}

//! RNG, RAND2 and the instructions that move generator state. (wiki: firmware/kernels/rand2;
//! firmware/kernels/rng-lfsr-dispatch; firmware/kernels/rng-xorwow-sw;
//! firmware/kernels/rng-seed-state-ops)
//!
//! Generators belong to partitions. One draw per element, in the order of the destination walk.

use std::mem::take;

use super::common::{Scalar, cost, dtype, require};
use super::random_state::StateKind;
use crate::engine::{CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Engine, Field, Generation, e, f};
use crate::memory::Space;
use crate::numeric::rng::uniform_range;
use crate::numeric::{Dtype, Rounding};

/// RNG 0x4D: raw 32-bit draws, cut to the low bits of the dtype. DVE draws from the LFSR of the
/// partition, POOL from its XORWOW (INFERRED).
///
/// OPEN: on POOL, FP32 and BF16 get a uniform number in [0, 1) made of the low mantissa bits; other
/// floats, and all floats on DVE, get raw bits.
pub fn rng(env: &Env<'_>) -> Result<Prepared> {
    use f::d4_mr as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let dst = Operand::new(env, l::DST, dtype(env, l::DTYPE)?, channels)?;
    let pool = match env.engine {
        Engine::Dve => false,
        Engine::Pool if env.generation() >= Generation::V3 => true,
        other => {
            return Err(Error::missing_spec(
                format!("a random generator of {other} on {}", env.generation()),
                "firmware/kernels/rng-lfsr-dispatch",
            ));
        }
    };
    let generation = env.generation();
    let cost = cost(env, CostRow::Random, dst.len(), &[], &[&dst]);
    let work = Work::new([dst.write()], cost, move |lane| {
        let mut row = take(&mut lane.scratch.bits[0]);
        for c in 0..channels {
            let random = &mut lane.state.indirect.random;
            row.clear();
            if pool {
                let xorwow = random.xorwow(dst.partition + c, generation);
                row.extend((0..dst.len()).map(|_| pool_bits(dst.dtype, xorwow.next_u32())));
            } else {
                random.with_lfsr(dst.partition + c, |lfsr| {
                    row.extend((0..dst.len()).map(|_| u64::from(lfsr.next_u32())));
                });
            }
            dst.scatter_bits(lane, c, &row)?;
        }
        lane.scratch.bits[0] = row;
        Outcome::none()
    });
    Ok(work.into())
}

/// Element bits that POOL makes of a draw. (wiki: firmware/kernels/rng-xorwow-sw 7.1)
fn pool_bits(dtype: Dtype, draw: u32) -> u64 {
    match dtype {
        Dtype::Fp32 => {
            let in_1_2 = f32::from_bits((draw & 0x007F_FFFF) | 0x3F80_0000);
            u64::from((in_1_2 - 1.0).to_bits())
        }
        Dtype::Bf16 => {
            // the difference is a multiple of 1/128 below 1: exact in BF16
            let in_1_2 = f32::from_bits(((draw & 0x7F) | 0x3F80) << 16);
            u64::from((in_1_2 - 1.0).to_bits() >> 16)
        }
        _ => u64::from(draw),
    }
}

/// RAND2 0xE2: uniform numbers in [min, max) from the four XORWOW generators of each partition,
/// computed in FP32 and then converted. Element i draws from generator i mod 4.
pub fn rand2(env: &Env<'_>) -> Result<Prepared> {
    use f::d3_rand as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let dst = Operand::new(env, l::DST, dtype(env, l::DTYPE)?, channels)?;
    let algorithm = env.inst.get(l::RAND_ALGORITHM) as u8;
    require(algorithm == e::rand_algorithm::XORWOW, "rand2_algorithm", || {
        format!("RAND2 draws from XORWOW, not algorithm {algorithm}")
    })?;
    let post = env.inst.get(l::POST_PROCESS) as u8;
    require(post == e::rand_post_proc::UNIFORM_IN_RANGE, "rand2_post_process", || {
        format!("RAND2 makes uniform numbers, not post-processing {post}")
    })?;
    let scalar = |source: Field, value: Field| {
        let (source, raw) = (env.inst.get(source) as u8, env.inst.get(value) as u32);
        Scalar::decode(env, source, raw, 4, channels)
    };
    let (min, max) = (scalar(l::MIN_SRC, l::MIN)?, scalar(l::MAX_SRC, l::MAX)?);
    let accesses = [dst.write()].into_iter().chain(min.access()).chain(max.access());
    let cost = cost(env, CostRow::Random, dst.len(), &[], &[&dst]);
    let work = Work::new(accesses, cost, move |lane| {
        let mut row = take(&mut lane.scratch.f32[0]);
        for c in 0..channels {
            let min = f32::from_bits(min.bits(lane, c)?);
            let max = f32::from_bits(max.bits(lane, c)?);
            let quad = lane.state.indirect.random.quad(dst.partition + c);
            quad.restart();
            row.clear();
            row.extend((0..dst.len()).map(|_| uniform_range(quad.next_u32(), min, max)));
            dst.scatter_f32(lane, c, &row, Rounding::NearestEven)?;
        }
        lane.scratch.f32[0] = row;
        Outcome::none()
    });
    Ok(work.into())
}

/// What RAND_GET_STATE and RAND_SET_STATE lack on v2.
pub const STATE_ON_V2: &str = "what it does on v2: no image has a body for it";
/// Where it should be.
pub const STATE_PAGE: &str = "firmware/kernels/rng-seed-state-ops";

/// Which generator a state instruction means on this engine.
enum Target {
    Generator(StateKind),
    /// The firmware logs this and does nothing.
    Ignored(String),
}

fn target(env: &Env<'_>, algorithm: u8, source: u8) -> Result<Target> {
    use e::rand_algorithm as a;
    use e::rand_src as s;
    let generation = env.generation();
    if generation <= Generation::V2 {
        return Err(Error::missing_spec(STATE_ON_V2, STATE_PAGE));
    }
    let ignored =
        || Target::Ignored(format!("algorithm {algorithm} not currently supported on POOL"));
    let v4 = generation >= Generation::V4;
    let act = matches!(generation, Generation::V4 | Generation::V4Plus);
    Ok(match (env.engine, source, algorithm) {
        (Engine::Pool, s::RNG_XORWOW, a::XORWOW) => Target::Generator(StateKind::Xorwow),
        (Engine::Pool, s::OUTPUT_CVT_LFSR, a::LFSR) if v4 => {
            Target::Generator(StateKind::OutputLfsr(1))
        }
        (Engine::Pool, s::OUTPUT_CVT_LFSR, a::LFSR) | (Engine::Pool, s::RNG_PHILOX, a::PHILOX) => {
            ignored()
        }
        (Engine::Dve, s::RNG_XORWOW, a::XORWOW) if v4 => Target::Generator(StateKind::XorwowQuad),
        (Engine::Dve, s::RNG_LFSR, a::LFSR) if v4 => Target::Generator(StateKind::Lfsr),
        (Engine::Dve, s::OUTPUT_CVT_LFSR, a::LFSR) if v4 => {
            Target::Generator(StateKind::OutputLfsr(4))
        }
        (Engine::Act, s::OUTPUT_CVT_LFSR, a::LFSR) if act => {
            Target::Generator(StateKind::OutputLfsr(2))
        }
        (engine, ..) => {
            return Err(Error::illegal(
                "rand_state_generator",
                format!(
                    "{engine} of {generation} has no generator {source} with algorithm {algorithm}"
                ),
            ));
        }
    })
}

/// Words that the firmware's PHILOX form has. (wiki: firmware/kernels/rng-seed-state-ops 4)
const PHILOX_WORDS: usize = 7;

fn check_words(target: &Target, tensor: &Operand) -> Result<()> {
    let words = match target {
        Target::Generator(kind) => kind.words(),
        Target::Ignored(_) if tensor.len() == 1 => 1,
        Target::Ignored(_) => PHILOX_WORDS,
    };
    require(tensor.dtype == Dtype::Uint32, "rand_state_dtype", || {
        format!("state words are uint32, not {}", tensor.dtype)
    })?;
    require(tensor.len() == words, "rand_state_words", || {
        format!("{} state words per partition, the generator has {words}", tensor.len())
    })
}

/// RAND_GET_STATE 0x77: stores the state words of each active partition.
pub fn rand_get_state(env: &Env<'_>) -> Result<Prepared> {
    use f::d4_rand as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let dst = Operand::new(env, l::DST, dtype(env, l::DTYPE)?, channels)?;
    get_state(env, dst, env.inst.get(l::RAND_ALGORITHM), env.inst.get(l::RAND_GENERATOR))
}

/// Form 4 of EXTENDED_INST: RAND_GET_STATE over the partitions of `channels`.
pub(in crate::engine) fn extended_rand_get_state(env: &Env<'_>, channels: u32) -> Result<Prepared> {
    use f::extended_rgs as l;
    let dst = Operand::new(env, l::DST, dtype(env, l::DTYPE)?, channels)?;
    get_state(env, dst, env.inst.get(l::RAND_ALGORITHM), env.inst.get(l::RAND_GENERATOR))
}

fn get_state(env: &Env<'_>, dst: Operand, algorithm: u64, source: u64) -> Result<Prepared> {
    let target = target(env, algorithm as u8, source as u8)?;
    check_words(&target, &dst)?;
    let cost = cost(env, CostRow::StateLoad, dst.len(), &[], &[&dst]);
    let generation = env.generation();
    Ok(match target {
        Target::Ignored(why) => ignored(cost, why),
        Target::Generator(kind) => Work::new([dst.write()], cost, move |lane| {
            let mut row = take(&mut lane.scratch.bits[0]);
            for c in 0..dst.channels {
                row.clear();
                let random = &mut lane.state.indirect.random;
                random.get(kind, dst.partition + c, generation, &mut row);
                dst.scatter_bits(lane, c, &row)?;
            }
            lane.scratch.bits[0] = row;
            Outcome::none()
        }),
    }
    .into())
}

/// A work that does nothing but tell why.
fn ignored(cost: crate::engine::CostQuery, why: String) -> Work {
    Work::new([], cost, move |_| Ok(Outcome { notice: Some(why.clone()), ..Outcome::default() }))
        .with_outcome()
}

/// RAND_SET_STATE 0x78: loads the state words of each active partition. The immediate forms are
/// PHILOX only, which no engine executes.
pub fn rand_set_state(env: &Env<'_>) -> Result<Prepared> {
    use f::s1_rand as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let form = [l::UPDATE_STATE, l::IN_DTYPE, l::SRC, l::RAND_ALGORITHM, l::RAND_GENERATOR];
    set_state(env, channels, form)
}

/// Form 3 of EXTENDED_INST: RAND_SET_STATE over the partitions of `channels`.
pub(in crate::engine) fn extended_rand_set_state(env: &Env<'_>, channels: u32) -> Result<Prepared> {
    use f::extended_rss as l;
    let form = [l::UPDATE_STATE, l::IN_DTYPE, l::SRC, l::RAND_ALGORITHM, l::RAND_GENERATOR];
    set_state(env, channels, form)
}

fn set_state(env: &Env<'_>, channels: u32, form: [Field; 5]) -> Result<Prepared> {
    let [update, in_dtype, src, algorithm, source] = form;
    let target = target(env, env.inst.get(algorithm) as u8, env.inst.get(source) as u8)?;
    if env.inst.get(update) as u8 != e::rand_state_update::SRC_TENSOR {
        return match target {
            Target::Ignored(why) => {
                Ok(ignored(cost(env, CostRow::StateLoad, 0, &[], &[]), why).into())
            }
            Target::Generator(_) => Err(Error::illegal(
                "rand_state_update",
                "immediate state words are for PHILOX only",
            )),
        };
    }
    let src = Operand::in_sbuf(env, src, dtype(env, in_dtype)?, channels)?;
    check_words(&target, &src)?;
    require(src.space == Space::Sbuf, "rand_state_source", || {
        format!("state words come from SBUF, not {}", src.space)
    })?;
    let cost = cost(env, CostRow::StateLoad, src.len(), &[&src], &[]);
    let generation = env.generation();
    Ok(match target {
        Target::Ignored(why) => ignored(cost, why),
        Target::Generator(kind) => Work::new([src.read()], cost, move |lane| {
            let mut row = take(&mut lane.scratch.bits[0]);
            for c in 0..src.channels {
                src.gather_bits(lane, c, &mut row)?;
                let random = &mut lane.state.indirect.random;
                random.set(kind, src.partition + c, generation, &row);
            }
            lane.scratch.bits[0] = row;
            Outcome::none()
        }),
    }
    .into())
}

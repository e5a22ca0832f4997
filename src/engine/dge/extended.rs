//! EXTENDED_INST 0xF0, whose byte 12 chooses the form, and the peer copies of POOL.
//! (wiki: firmware/pool/pool-ext-0xf0; firmware/kernels/sb2sb-remote-copy;
//! firmware/kernels/rdma-desc-gen-start)

use std::mem::take;

use super::copy::no_peer;
use crate::engine::indirect::{
    cost, dtype, extended_rand_get_state, extended_rand_set_state, holdable,
};
use crate::engine::{CostRow, Env, Operand, Outcome, Prepared, Status, Work, vector};
use crate::error::{Error, Result};
use crate::isa::{Field, b, e, f};
use crate::memory::Space;
use crate::numeric::convert::convert_config;
use crate::numeric::{self, Dtype, Rounding};

/// Name of the vector family's row for form 2.
const TENSOR_TENSOR: &str = "EXTENDED_TENSOR_TENSOR_ARITH";

/// EXTENDED_INST 0xF0.
pub fn extended_inst(env: &Env<'_>) -> Result<Prepared> {
    use e::extended_opcode as o;
    match env.inst.get(f::extended_enop::EXTENDED_OPCODE) as u8 {
        o::ENGINE_NOP => {
            let cost = cost(env, CostRow::Other, 0, &[], &[]);
            Ok(Work::new([], cost, |_| Outcome::none()).into())
        }
        o::COPY => extended_copy(env),
        o::TENSOR_TENSOR_ARITH => tensor_tensor(env),
        o::RAND_SET_STATE => extended_rand_set_state(env, channels(env)),
        o::RAND_GET_STATE => extended_rand_get_state(env, channels(env)),
        o::SBUF_TO_SBUF => {
            use f::extended_sb2sb as l;
            peer_copy(
                env,
                channels(env),
                [l::SRC, l::DST, l::IN_DTYPE, l::OUT_DTYPE, l::LNC_SIZE_FMT],
            )
        }
        o::CPTC_DECODE => Err(Error::missing_spec(
            "CPTC decode: the bit-plane packing, the scale arithmetic and the output types",
            "firmware/kernels/cptc-codec",
        )),
        // both build or start descriptors whose other end is a second core
        o::RDMA_DESC_GEN | o::RDMA_DESC_START => Err(no_peer()),
        other => {
            Err(Error::illegal("extended_opcode", format!("extended opcode {other} is unassigned")))
        }
    }
}

/// Partitions of an extended form: 16 for each active port, 128 where the field is 0.
fn channels(env: &Env<'_>) -> u32 {
    let info = env.inst.get(f::extended_enop::COMPLETION_INFO);
    match b::completion_info::NUM_ACTIVE_PORTS.get(info) as u32 {
        0 => 128,
        ports => 16 * ports,
    }
}

fn tensor_tensor(env: &Env<'_>) -> Result<Prepared> {
    match vector::OPS.iter().find(|row| row.name == TENSOR_TENSOR).map(|row| row.status) {
        Some(Status::Done(prepare)) => prepare(env),
        Some(other) => Err(other
            .refusal(TENSOR_TENSOR, env.inst.opcode())
            .unwrap_or_else(|| Error::internal("an opcode that executes has no refusal"))),
        None => Err(Error::internal(format!("no row of {TENSOR_TENSOR}"))),
    }
}

/// Form 1: copies a two-dimensional tensor, converting where the dtypes differ.
/// (OPEN: the operand layout is the emulator's own)
fn extended_copy(env: &Env<'_>) -> Result<Prepared> {
    use f::extended_copy as l;
    let channels = channels(env);
    let src = Operand::new(env, l::SRC, dtype(env, l::IN_DTYPE)?, channels)?;
    let dst = Operand::new(env, l::DST, dtype(env, l::OUT_DTYPE)?, channels)?;
    copy(env, src, dst)
}

/// SB2SB_COLLECTIVE 0xBF: copies to the partner core; LNC1 has the own core as partner.
pub fn sb2sb_collective(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_collective as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    peer_copy(env, channels, [l::SRC, l::DST, l::IN_DTYPE, l::OUT_DTYPE, l::LNC_SIZE_FMT])
}

fn peer_copy(
    env: &Env<'_>,
    channels: u32,
    [src, dst, in_dtype, out_dtype, format]: [Field; 5],
) -> Result<Prepared> {
    use e::lnc_size_fmt as o;
    if env.inst.get(in_dtype) != env.inst.get(out_dtype) {
        return Err(Error::illegal("sb2sb_dtype", "input and output dtype differ"));
    }
    match env.inst.get(format) as u8 {
        o::LNC1 => {}
        o::LNC2 => return Err(no_peer()),
        other => {
            return Err(Error::illegal("lnc_size_fmt", format!("LNC size format {other}")));
        }
    }
    let in_dtype = dtype(env, in_dtype)?;
    let src = Operand::in_sbuf(env, src, in_dtype, channels)?;
    let dst = Operand::in_sbuf(env, dst, in_dtype, channels)?;
    if src.space != Space::Sbuf || dst.space != Space::Sbuf {
        return Err(Error::illegal("sb2sb_sbuf", "peer copies go from SBUF to SBUF"));
    }
    copy(env, src, dst)
}

fn copy(env: &Env<'_>, src: Operand, dst: Operand) -> Result<Prepared> {
    if src.len() != dst.len() {
        return Err(Error::illegal(
            "tensor_count",
            format!("{} source and {} destination elements", src.len(), dst.len()),
        ));
    }
    holdable(src.len(), src.channels)?;
    let cost = cost(env, CostRow::Copy, src.len(), &[&src], &[&dst]);
    let (from, to): (Dtype, Dtype) = (src.dtype, dst.dtype);
    let work = Work::new([src.read(), dst.write()], cost, move |lane| {
        let mut row = take(&mut lane.scratch.bits[0]);
        let mut all = take(&mut lane.scratch.bits[1]);
        let (mut input, mut output) =
            (take(&mut lane.scratch.bytes[0]), take(&mut lane.scratch.bytes[1]));
        all.clear();
        // everything is read before anything is written: the tensors may overlap
        for c in 0..src.channels {
            src.gather_bits(lane, c, &mut row)?;
            if from != to {
                input.resize(row.len() * from.size(), 0);
                numeric::store_bits(from, &row, &mut input)?;
                output.resize(row.len() * to.size(), 0);
                let fp8 = dst.fp8();
                if dst.rounds_stochastically() {
                    let partition = dst.partition + c;
                    lane.state.indirect.random.with_output_lfsr(partition, |lfsr| {
                        let rounding = Rounding::Stochastic(lfsr);
                        convert_config(from, to, &input, &mut output, rounding, fp8)
                    })?;
                } else {
                    convert_config(from, to, &input, &mut output, Rounding::NearestEven, fp8)?;
                }
                numeric::load_bits(to, &output, &mut row)?;
            }
            all.extend_from_slice(&row);
        }
        for (c, row) in all.chunks_exact(dst.len()).enumerate() {
            dst.scatter_bits(lane, c as u32, row)?;
        }
        [lane.scratch.bits[0], lane.scratch.bits[1]] = [row, all];
        [lane.scratch.bytes[0], lane.scratch.bytes[1]] = [input, output];
        Outcome::none()
    });
    Ok(work.into())
}

//! QUANTIZE_MX and TENSOR_DEQUANTIZE. (wiki: compiler/mx-device-bodies 2.5, 5; compiler/mx-path;
//! firmware/kernels/tensor-dequantize; vendor: nki.isa quantize_mx)

use std::mem::take;

use super::common::{address, cost, dtype, holdable, require};
use crate::engine::indirection::missing;
use crate::engine::operand::sbuf_place;
use crate::engine::{CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Pattern, f};
use crate::memory::{Location, Space};
use crate::numeric::mx::{BLOCK, BLOCK_ELEMENTS, BLOCK_PARTITIONS, DequantFormat};
use crate::numeric::mx::{quantize_block, scale_partition};
use crate::numeric::{Dtype, Walk, load_f32};

/// QUANTIZE_MX 0xE3: blocks of 8 partitions by 4 consecutive elements become FP8 codes, four to a
/// word, and one scale byte each.
///
/// The scales of the partitions 8g..8g+8 lie in partition 32*(g div 4) + g mod 4 of the scale
/// tensor, one byte for each destination word. The destination counts elements (wiki-cc:
/// isa/mxmem-pattern1d). OPEN: the source counts 32-bit words of two elements, the low half first;
/// the step of the destination counts words of four codes, and bytes of the scales.
pub fn quantize_mx(env: &Env<'_>) -> Result<Prepared> {
    use f::s3dmx1_quant as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let (from, to) = (dtype(env, l::IN_DTYPE)?, dtype(env, l::OUT_DTYPE)?);
    require(matches!(from, Dtype::Fp16 | Dtype::Bf16), "quantize_mx_in_dtype", || {
        format!("{from} as input of QUANTIZE_MX")
    })?;
    require(
        matches!(to, Dtype::Fp8E4 | Dtype::Fp8E4Fn | Dtype::Fp8E5),
        "quantize_mx_out_dtype",
        || format!("{to} as output of QUANTIZE_MX"),
    )?;
    require(channels > 0 && channels.is_multiple_of(32), "quantize_mx_channels", || {
        format!("{channels} channels are no multiple of 32")
    })?;
    let src = Operand::in_sbuf(env, l::SRC, Dtype::Uint32, channels)?;
    holdable(2 * src.len(), channels)?;
    let (data, scale, num, step, offset) = match env.inst.pattern(l::DST)? {
        Pattern::MxTensor { data, scale, num, step, scale_partition } => {
            (data, scale, num, step, scale_partition)
        }
        // MXINDIRECT16B; the vendor's interface has no such operand of quantize_mx
        _ => return Err(missing("QUANTIZE_MX")),
    };
    // the descriptor is the one that the matrix engine reads: it counts elements
    require(2 * src.len() == usize::from(num), "quantize_mx_count", || {
        format!("{} words of two elements into {num} elements", src.len())
    })?;
    require(num > 0 && usize::from(num).is_multiple_of(BLOCK_ELEMENTS), "mx_num_elem", || {
        format!("{num} elements are no whole number of words of {BLOCK_ELEMENTS}")
    })?;
    let words = usize::from(num) / BLOCK_ELEMENTS;
    let columns = [(i32::from(step), words as u32)];
    let at = sbuf_place(env, address(env, data)?)?;
    let walk = Walk::new(at.byte as usize, &columns, 4);
    let dst = Operand::at(env, at, walk, Dtype::Uint32, channels, data.reg().is_some())?;
    let at = sbuf_place(env, address(env, scale)?)?;
    let at = Location { partition: at.partition + u32::from(offset), ..at };
    let groups = channels as usize / BLOCK_PARTITIONS;
    let span = scale_partition(groups - 1) as u32 + 1;
    let walk = Walk::new(at.byte as usize, &columns, 1);
    let scales = Operand::at(env, at, walk, Dtype::Uint8, span, scale.reg().is_some())?;
    require(
        [&src, &dst, &scales].iter().all(|o| o.space == Space::Sbuf),
        "quantize_mx_sbuf",
        || "operands of QUANTIZE_MX lie in SBUF".into(),
    )?;
    require(dst.partition / 32 == scales.partition / 32, "quantize_mx_quadrant", || {
        format!("data from partition {}, scales from {}", dst.partition, scales.partition)
    })?;
    let cost = cost(env, CostRow::Quantize, src.len(), &[&src], &[&dst]);
    // four partitions of every quadrant hold scales
    let scale_rows = (0..groups / 4).map(|q| {
        let mut region = scales.region();
        region.first += 32 * q as u32;
        region.count = 4;
        crate::memory::Access::write(region)
    });
    let accesses: Vec<_> = [src.read(), dst.write()].into_iter().chain(scale_rows).collect();
    let fp8 = env.config.numerics.fp8;
    let work = Work::new(accesses, cost, move |lane| {
        let (mut bits, mut values) =
            (take(&mut lane.scratch.bits[0]), take(&mut lane.scratch.f32[0]));
        let mut bytes = take(&mut lane.scratch.bytes[0]);
        let (mut out, mut all) = (take(&mut lane.scratch.bits[1]), take(&mut lane.scratch.f32[1]));
        let mut factors = take(&mut lane.scratch.bits[2]);
        all.clear();
        // every element is read before the first result is written: blocks span partitions
        for c in 0..channels {
            src.gather_bits(lane, c, &mut bits)?;
            bytes.clear();
            bytes.extend(bits.iter().flat_map(|&w| (w as u32).to_le_bytes()));
            values.resize(bits.len() * 2, 0.0);
            load_f32(from, &bytes, &mut values)?;
            all.extend_from_slice(&values);
        }
        let width = words * BLOCK_ELEMENTS;
        let (mut block, mut codes) = ([0f32; BLOCK], [0u8; BLOCK]);
        for g in 0..groups {
            let rows = &all[g * BLOCK_PARTITIONS * width..][..BLOCK_PARTITIONS * width];
            out.clear();
            out.resize(BLOCK_PARTITIONS * words, 0);
            factors.clear();
            for w in 0..words {
                for (r, part) in block.chunks_exact_mut(BLOCK_ELEMENTS).enumerate() {
                    let from = &rows[r * width + w * BLOCK_ELEMENTS..][..BLOCK_ELEMENTS];
                    part.copy_from_slice(from);
                }
                factors.push(u64::from(quantize_block(&block, to, &fp8, &mut codes)?));
                for (r, code) in codes.as_chunks::<BLOCK_ELEMENTS>().0.iter().enumerate() {
                    out[r * words + w] = u64::from(u32::from_le_bytes(*code));
                }
            }
            for (r, row) in out.chunks_exact(words).enumerate() {
                dst.scatter_bits(lane, (g * BLOCK_PARTITIONS + r) as u32, row)?;
            }
            scales.scatter_bits(lane, scale_partition(g) as u32, &factors)?;
        }
        [lane.scratch.bits[0], lane.scratch.bits[1], lane.scratch.bits[2]] = [bits, out, factors];
        [lane.scratch.f32[0], lane.scratch.f32[1]] = [values, all];
        lane.scratch.bytes[0] = bytes;
        Outcome::none()
    });
    Ok(work.into())
}

/// TENSOR_DEQUANTIZE 0x7B: words of packed 4- or 6-bit codes become words of four FP8 codes,
/// optionally scaled by one byte for each block of eight elements.
pub fn tensor_dequantize(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_tens_dequant as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    for field in [l::IN_DTYPE, l::OUT_DTYPE] {
        require(dtype(env, field)? == Dtype::Uint32, "dequant_dtype", || {
            "TENSOR_DEQUANTIZE moves uint32 words".into()
        })?;
    }
    let format = DequantFormat::from_code(env.inst.get(l::DEQUANT_FMT) as u8)?;
    let group = match env.inst.get(l::GROUP_SIZE) {
        0 => false,
        8 => true,
        other => return Err(Error::illegal("dequant_group_size", format!("group size {other}"))),
    };
    let src = Operand::in_sbuf(env, l::SRC, Dtype::Uint32, channels)?;
    let dst = Operand::in_sbuf(env, l::DST, Dtype::Uint32, channels)?;
    let (unit, out) = format.unit(group)?;
    require(
        src.len() % unit == 0 && src.len() / unit * out == dst.len(),
        "dequant_element_count",
        || format!("{} source words into {} destination words", src.len(), dst.len()),
    )?;
    require(src.space == Space::Sbuf && dst.space == Space::Sbuf, "dequant_sbuf", || {
        "operands of TENSOR_DEQUANTIZE lie in SBUF".into()
    })?;
    let staged = super::common::crosses(&src, &dst);
    let cost = cost(env, CostRow::Quantize, dst.len(), &[&src], &[&dst]);
    let work = Work::new([src.read(), dst.write()], cost, move |lane| {
        let (mut row, mut all) = (take(&mut lane.scratch.bits[0]), take(&mut lane.scratch.bits[1]));
        let mut bits = take(&mut lane.scratch.bits[2]);
        super::common::rows(
            lane,
            channels,
            staged,
            [&mut row, &mut all],
            |lane, c, row| {
                src.gather_bits(lane, c, &mut bits)?;
                let words: Vec<u32> = bits.iter().map(|&w| w as u32).collect();
                row.clear();
                row.extend(format.expand(group, &words)?.into_iter().map(u64::from));
                Ok(())
            },
            |lane, c, row| dst.scatter_bits(lane, c, row),
        )?;
        [lane.scratch.bits[0], lane.scratch.bits[1], lane.scratch.bits[2]] = [row, all, bits];
        Outcome::none()
    });
    Ok(work.into())
}

//! SPARSITY_COMPRESS and SPARSITY_COMPRESS_TAG: each group of elements is reduced to its four
//! extreme ones and their positions in the group. (wiki: firmware/kernels/sparsity-compress-tag)

use std::mem::take;

use super::common::{cost, dtype, holdable, require};
use crate::engine::{CostRow, Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Field, e, f};
use crate::memory::Space;
use crate::numeric::{Dtype, Rounding, load_bits};

/// Elements kept of each group.
const KEPT: usize = 4;

/// Which elements are kept. Wire codes are those of COMPRESS_OP, not of ALU_OP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Min,
    Max,
    AbsMin,
    AbsMax,
}

impl Keep {
    fn decode(code: u64) -> Result<Keep> {
        use e::compress_op as o;
        Ok(match code as u8 {
            o::MIN => Keep::Min,
            o::MAX => Keep::Max,
            o::ABS_MIN => Keep::AbsMin,
            o::ABS_MAX => Keep::AbsMax,
            other => {
                return Err(Error::illegal("compress_op", format!("operation {other:#x}")));
            }
        })
    }

    /// A number that is larger for an element that is rather kept; NaN is kept last.
    fn rank(self, x: f32) -> f32 {
        let rank = match self {
            Keep::Max => x,
            Keep::Min => -x,
            Keep::AbsMax => x.abs(),
            Keep::AbsMin => -x.abs(),
        };
        if rank.is_nan() { f32::NEG_INFINITY } else { rank }
    }

    /// The four kept elements of `group` as positions, in the order they are written: the least
    /// extreme first, so that MAX writes the smallest winner first and MIN the largest.
    ///
    /// OPEN: of equal elements the earlier one is kept, and the later one is written first.
    fn select(self, group: &[f32]) -> [usize; KEPT] {
        let mut best: [Option<(f32, usize)>; KEPT] = [None; KEPT];
        for (i, &x) in group.iter().enumerate() {
            let rank = self.rank(x);
            if let Some(at) = best.iter().position(|b| b.is_none_or(|(r, _)| rank > r)) {
                best.copy_within(at..KEPT - 1, at + 1);
                best[at] = Some((rank, i));
            }
        }
        best.reverse();
        best.map(|b| b.map_or(0, |(_, i)| i))
    }
}

/// The source of both instructions, read channel by channel or through a 32 by 32 transpose.
struct Source {
    operand: Operand,
    transposed: bool,
    group: usize,
    keep: Keep,
}

impl Source {
    fn new(env: &Env<'_>, src: Field, channels: u32, fields: [Field; 4]) -> Result<Source> {
        let [in_dtype, transpose, op, dim] = fields;
        let in_dtype = dtype(env, in_dtype)?;
        require(in_dtype.is_valid(false), "compress_in_dtype", || format!("{in_dtype} as input"))?;
        let operand = Operand::new(env, src, in_dtype, channels)?;
        let transposed = env.inst.get(transpose) != 0;
        require(
            !transposed || (channels.is_multiple_of(32) && operand.len().is_multiple_of(32)),
            "compress_transpose",
            || format!("{channels} channels of {} elements are no 32 by 32 tiles", operand.len()),
        )?;
        holdable(operand.len(), channels)?;
        use e::tensor_subdim as d;
        let dims = match env.inst.get(dim) as u8 {
            d::X => 1,
            d::XY => 2,
            d::XYZ => 3,
            d::XYZW => 4,
            other => return Err(Error::illegal("tensor_subdim", format!("subdimension {other}"))),
        };
        let group = operand.walk.dims.iter().take(dims).map(|d| d.1 as usize).product();
        require(group >= KEPT, "reduce_dim_size", || format!("groups of {group} elements"))?;
        Ok(Source { operand, transposed, group, keep: Keep::decode(env.inst.get(op))? })
    }

    fn groups(&self) -> usize {
        self.operand.len() / self.group
    }

    /// All channels, one after the other.
    fn read(&self, lane: &Lane<'_>, row: &mut Vec<f32>, all: &mut Vec<f32>) -> Result<()> {
        let (n, channels) = (self.operand.len(), self.operand.channels as usize);
        all.clear();
        all.resize(n * channels, 0.0);
        for c in 0..channels {
            self.operand.gather_f32(lane, c as u32, row)?;
            if self.transposed {
                for (e, &x) in row.iter().enumerate() {
                    all[((c & !31) | (e & 31)) * n + ((e & !31) | (c & 31))] = x;
                }
            } else {
                all[c * n..(c + 1) * n].copy_from_slice(row);
            }
        }
        Ok(())
    }

    /// Winners of one channel in writing order: values and positions.
    fn winners(&self, row: &[f32], values: &mut Vec<f32>, tags: &mut Vec<u64>) {
        values.clear();
        tags.clear();
        for group in row.chunks_exact(self.group) {
            for i in self.keep.select(group) {
                values.push(group[i]);
                tags.push(i as u64);
            }
        }
    }
}

/// SPARSITY_COMPRESS 0xE0: one destination of {data, tag} pairs, both as wide as the data; the
/// data is in the low half.
pub fn sparsity_compress(env: &Env<'_>) -> Result<Prepared> {
    use f::s3d3_sc as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let source =
        Source::new(env, l::SRC, channels, [l::IN_DTYPE, l::TRANSPOSE_SRC, l::OP, l::OP_DIM])?;
    let data = dtype(env, l::OUT_DATA_DTYPE)?;
    let pair = dtype(env, l::OUT_STRUCT_DTYPE)?;
    let legal = match pair {
        Dtype::Uint16 => {
            matches!(data, Dtype::Fp8E3 | Dtype::Fp8E4 | Dtype::Fp8E4Fn | Dtype::Fp8E5)
        }
        Dtype::Uint32 => matches!(data, Dtype::Bf16 | Dtype::Fp16),
        _ => false,
    };
    require(legal, "sparsity_compress_dtypes", || format!("{data} data in {pair} pairs"))?;
    let data = env.config.numerics.fp8.resolve(env.generation(), data);
    let dst = Operand::new(env, l::DST, pair, channels)?;
    require(dst.len() == KEPT * source.groups(), "reduce_dst_count", || {
        format!("{} destination elements for {} groups", dst.len(), source.groups())
    })?;
    let width = data.bits();
    let cost = cost(env, CostRow::Reduce, source.operand.len(), &[&source.operand], &[&dst]);
    let work = Work::new([source.operand.read(), dst.write()], cost, move |lane| {
        let (mut row, mut all) = (take(&mut lane.scratch.f32[0]), take(&mut lane.scratch.f32[1]));
        let (mut values, mut tags) =
            (take(&mut lane.scratch.f32[2]), take(&mut lane.scratch.bits[0]));
        let (mut bytes, mut bits) =
            (take(&mut lane.scratch.bytes[0]), take(&mut lane.scratch.bits[1]));
        source.read(lane, &mut row, &mut all)?;
        for (c, elements) in all.chunks_exact(source.operand.len()).enumerate() {
            source.winners(elements, &mut values, &mut tags);
            bytes.resize(values.len() * data.size(), 0);
            dst.narrow(lane, c as u32, data, &values, &mut bytes)?;
            bits.resize(values.len(), 0);
            load_bits(data, &bytes, &mut bits)?;
            for (element, tag) in bits.iter_mut().zip(&tags) {
                *element |= tag << width;
            }
            dst.scatter_bits(lane, c as u32, &bits)?;
        }
        [lane.scratch.f32[0], lane.scratch.f32[1], lane.scratch.f32[2]] = [row, all, values];
        [lane.scratch.bits[0], lane.scratch.bits[1]] = [tags, bits];
        lane.scratch.bytes[0] = bytes;
        Outcome::none()
    });
    Ok(work.into())
}

/// SPARSITY_COMPRESS_TAG 0xE1: data and tags in two destinations; packed, four 4-bit tags share a
/// 16-bit element, the first in its lowest bits.
pub fn sparsity_compress_tag(env: &Env<'_>) -> Result<Prepared> {
    use f::s2d2d2_sc as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let source =
        Source::new(env, l::SRC, channels, [l::IN_DTYPE, l::TRANSPOSE_SRC, l::OP, l::OP_DIM])?;
    let packed = env.inst.get(l::PACKED_TAGS) != 0;
    let tag = dtype(env, l::OUT_TAG_DTYPE)?;
    let legal = match tag {
        Dtype::Uint16 => true,
        Dtype::Uint8 | Dtype::Uint32 => !packed,
        _ => false,
    };
    require(legal, "sparsity_compress_tag_dtypes", || format!("{tag} tags, packed: {packed}"))?;
    let data_dst = Operand::new(env, l::DATA_DST, dtype(env, l::OUT_DATA_DTYPE)?, channels)?;
    let tag_dst = Operand::in_sbuf(env, l::TAG_DST, tag, channels)?;
    let kept = KEPT * source.groups();
    let tags = if packed { kept / KEPT } else { kept };
    require(data_dst.len() == kept && tag_dst.len() == tags, "reduce_dst_count", || {
        format!("{} data and {} tags for {} groups", data_dst.len(), tag_dst.len(), source.groups())
    })?;
    require(tag_dst.space == Space::Sbuf, "compress_tag_sbuf", || "tags lie in SBUF".into())?;
    let cost = cost(
        env,
        CostRow::Reduce,
        source.operand.len(),
        &[&source.operand],
        &[&data_dst, &tag_dst],
    );
    let accesses = [source.operand.read(), data_dst.write(), tag_dst.write()];
    let work = Work::new(accesses, cost, move |lane| {
        let (mut row, mut all) = (take(&mut lane.scratch.f32[0]), take(&mut lane.scratch.f32[1]));
        let (mut values, mut tags) =
            (take(&mut lane.scratch.f32[2]), take(&mut lane.scratch.bits[0]));
        source.read(lane, &mut row, &mut all)?;
        for (c, elements) in all.chunks_exact(source.operand.len()).enumerate() {
            source.winners(elements, &mut values, &mut tags);
            if packed {
                for i in 0..tags.len() / KEPT {
                    let four = &tags[KEPT * i..KEPT * (i + 1)];
                    tags[i] = four.iter().rev().fold(0, |word, tag| word << 4 | (tag & 0xF));
                }
                tags.truncate(tags.len() / KEPT);
            }
            data_dst.scatter_f32(lane, c as u32, &values, Rounding::NearestEven)?;
            tag_dst.scatter_bits(lane, c as u32, &tags)?;
        }
        [lane.scratch.f32[0], lane.scratch.f32[1], lane.scratch.f32[2]] = [row, all, values];
        lane.scratch.bits[0] = tags;
        Outcome::none()
    });
    Ok(work.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn winners_in_writing_order() {
        let group = [3.0, -9.0, 7.0, 1.0, 7.0, -2.0];
        assert_eq!(Keep::Max.select(&group), [3, 0, 4, 2]);
        assert_eq!(Keep::Min.select(&group), [0, 3, 5, 1]);
        assert_eq!(Keep::AbsMax.select(&group), [0, 4, 2, 1]);
        assert_eq!(Keep::AbsMin.select(&group), [2, 0, 5, 3]);
        assert_eq!(Keep::Max.select(&[f32::NAN, 1.0, 2.0, 3.0]), [0, 1, 2, 3]);
    }
}

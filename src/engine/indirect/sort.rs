//! SORT: each channel sorts its own row and emits values and source positions.
//! (wiki: firmware/kernels/sort)

use std::mem::take;

use super::common::{Scalar, cost, crosses, require, rows};
use crate::engine::{CostRow, Env, Operand, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::f;
use crate::numeric::{AluOp, Dtype};

/// SORT 0x96: ascending by IS_LT or descending by IS_GT. Destination X = 0 is the value, X = 1 its
/// source position plus the offset, as wide as the value; Y counts the pairs. Fewer Y than source
/// elements keeps the first pairs (top K).
///
/// OPEN: always stable; NaN comes after all numbers, in source order, in both directions; -0 and
/// +0 are equal.
pub fn sort(env: &Env<'_>) -> Result<Prepared> {
    use f::s1d2_sort as l;
    let channels = env.inst.get(l::NUM_ACTIVE_CHANNELS) as u32;
    let (low, high) = env.inst.dtype_pair(l::IN_OUT_DTYPE);
    let dtype = Dtype::from_code(env.generation(), low)?;
    require(low == high, "sort_dtype", || "input and output dtype of SORT differ".into())?;
    require(sortable(dtype), "sort_dtype", || format!("unsupported data type for sort: {dtype}"))?;
    let comparison = env.inst.get(l::COMPARISON) as u8;
    let descending = if comparison == AluOp::IsLt as u8 {
        false
    } else if comparison == AluOp::IsGt as u8 {
        true
    } else {
        return Err(Error::illegal(
            "sort_comparison",
            format!("SORT compares by IS_LT or IS_GT, not {comparison:#04x}"),
        ));
    };
    let src = Operand::new(env, l::SRC, dtype, channels)?;
    let dst = Operand::new(env, l::DST, dtype, channels)?;
    let pairs = dst.walk.dims.get(1).map_or(1, |d| d.1) as usize;
    require(
        dst.walk.dims.first().is_some_and(|d| d.1 == 2) && pairs <= src.len(),
        "sort_destination",
        || format!("{} destination elements for {} sorted ones", dst.len(), src.len()),
    )?;
    let offset = Scalar::decode(
        env,
        env.inst.get(l::INDEX_OFFSET_SRC) as u8,
        env.inst.get(l::INDEX_OFFSET) as u32,
        4,
        channels,
    )?;
    let staged = crosses(&src, &dst);
    let cost = cost(env, CostRow::Other, src.len(), &[&src], &[&dst]);
    let accesses = [src.read(), dst.write()].into_iter().chain(offset.access());
    let work = Work::new(accesses, cost, move |lane| {
        let (mut row, mut all) = (take(&mut lane.scratch.bits[0]), take(&mut lane.scratch.bits[1]));
        let (mut bits, mut keys) =
            (take(&mut lane.scratch.bits[2]), take(&mut lane.scratch.i64[0]));
        rows(
            lane,
            channels,
            staged,
            [&mut row, &mut all],
            |lane, c, row| {
                let offset = u64::from(offset.bits(lane, c)?);
                src.gather_bits(lane, c, &mut bits)?;
                // the position in the low bits makes every key unique, so the order is stable
                keys.clear();
                keys.extend((0i64..).zip(&bits).map(|(i, &b)| key(dtype, b, descending) << 20 | i));
                keys.sort_unstable();
                row.clear();
                for key in &keys[..pairs] {
                    let i = (key & 0xF_FFFF) as u64;
                    row.extend([bits[i as usize], i.wrapping_add(offset)]);
                }
                Ok(())
            },
            |lane, c, row| dst.scatter_bits(lane, c, row),
        )?;
        [lane.scratch.bits[0], lane.scratch.bits[1], lane.scratch.bits[2]] = [row, all, bits];
        lane.scratch.i64[0] = keys;
        Outcome::none()
    });
    Ok(work.into())
}

fn sortable(dtype: Dtype) -> bool {
    use Dtype::*;
    matches!(dtype, Fp16 | Bf16 | Uint16 | Int16 | Fp32 | Uint32 | Int32)
}

/// A 34-bit number that orders as the element with bits `bits` does; NaN is last either way.
fn key(dtype: Dtype, bits: u64, descending: bool) -> i64 {
    let width = dtype.bits();
    let sign = 1i64 << (width - 1);
    let raw = bits as i64;
    let value = if dtype.is_float() {
        let mantissa = match dtype {
            Dtype::Fp16 => 10,
            Dtype::Bf16 => 7,
            _ => 23,
        };
        let magnitude = raw & (sign - 1);
        if magnitude > ((sign - 1) >> mantissa) << mantissa {
            return 1 << 33;
        }
        if raw & sign != 0 { -magnitude } else { magnitude }
    } else if dtype.is_signed() {
        (raw ^ sign) - sign
    } else {
        raw
    };
    if descending { -value } else { value }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    fn compare(dtype: Dtype, a: u64, b: u64) -> Ordering {
        key(dtype, a, false).cmp(&key(dtype, b, false))
    }

    #[test]
    fn keys_order_as_values_do() {
        let f = |x: f32| u64::from(x.to_bits());
        let order = [f32::NEG_INFINITY, -1.5, -1e-40, 0.0, 1e-40, 2.0, f32::INFINITY, f32::NAN];
        for pair in order.windows(2) {
            assert_eq!(compare(Dtype::Fp32, f(pair[0]), f(pair[1])), Ordering::Less, "{pair:?}");
        }
        assert_eq!(compare(Dtype::Fp32, f(-0.0), f(0.0)), Ordering::Equal);
        assert!(key(Dtype::Fp32, f(f32::NAN), true) > key(Dtype::Fp32, f(-f32::INFINITY), true));
        assert_eq!(compare(Dtype::Int16, 0xFFFF, 1), Ordering::Less);
        assert_eq!(compare(Dtype::Uint16, 0xFFFF, 1), Ordering::Greater);
        assert_eq!(compare(Dtype::Bf16, 0x7F80, 0x7F81), Ordering::Less, "infinity before NaN");
        assert_eq!(compare(Dtype::Fp16, 0xFC00, 0xFBFF), Ordering::Less);
    }
}

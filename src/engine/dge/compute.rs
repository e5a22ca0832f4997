//! Arithmetic while data is in flight. (wiki: dma/cce-in-transfer)

use crate::engine::Env;
use crate::error::{Error, Result};
use crate::isa::{Field, e};
use crate::numeric::alu::{max_num, min_num};
use crate::numeric::convert::{saturate_i64, store_f32_config};
use crate::numeric::{Dtype, Fp8Config, Rounding, load_f32, load_i64, store_i64};

/// What a transfer does with the destination B and the arriving A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeOp {
    /// B = B + A.
    Add,
    /// B = B * A (OPEN: the device has no multiply code; a fused one with a stored operand is
    /// likely).
    Multiply,
    /// B = the larger; a number wins over NaN (OPEN: the sources differ).
    Max,
    /// B = the smaller; likewise.
    Min,
}

/// The operation in `field`, `None` for a plain copy.
///
/// # Errors
/// `dge_compute_op` for an unknown code.
pub fn compute_op(env: &Env<'_>, field: Field) -> Result<Option<ComputeOp>> {
    use e::dge_compute_op as o;
    Ok(match env.inst.get(field) as u8 {
        o::NONE => None,
        o::ADD => Some(ComputeOp::Add),
        o::MULTIPLY => Some(ComputeOp::Multiply),
        o::MAX => Some(ComputeOp::Max),
        o::MIN => Some(ComputeOp::Min),
        other => return Err(Error::illegal("dge_compute_op", format!("operation {other}"))),
    })
}

/// Elements combined at a time.
const CHUNK: usize = 128;

/// Combines arriving elements of type `from` into destination elements of type `to`.
///
/// Integers stay integers: 32 bits that wrap, or 64 where an operand has 64, then saturated to a
/// narrower destination. Anything else goes through FP32. (OPEN: the default accumulation type is
/// not published) Results that the destination cannot hold are rounded by `rounding`, with the
/// FP8 settings `fp8` (wiki: dma/cce-in-transfer: rounding is a mode of the transfer).
///
/// # Errors
/// Those of the conversions.
pub fn combine(
    op: ComputeOp,
    from: Dtype,
    to: Dtype,
    a: &[u8],
    b: &mut [u8],
    mut rounding: Rounding<'_>,
    fp8: &Fp8Config,
) -> Result<()> {
    let (from_size, to_size) = (from.size(), to.size());
    let parts = a.chunks(CHUNK * from_size).zip(b.chunks_mut(CHUNK * to_size));
    if from.is_int() && to.is_int() {
        let (mut x, mut y) = ([0i64; CHUNK], [0i64; CHUNK]);
        let wide = from.bits() == 64 || to.bits() == 64;
        for (a, b) in parts {
            let n = b.len() / to_size;
            let (x, y) = (&mut x[..n], &mut y[..n]);
            load_i64(from, a, x)?;
            load_i64(to, b, y)?;
            for (y, x) in y.iter_mut().zip(x) {
                *y = integer(op, *y, *x, wide, to)?;
            }
            store_i64(to, y, b)?;
        }
    } else {
        let (mut x, mut y) = ([0f32; CHUNK], [0f32; CHUNK]);
        for (a, b) in parts {
            let n = b.len() / to_size;
            let (x, y) = (&mut x[..n], &mut y[..n]);
            load_f32(from, a, x)?;
            load_f32(to, b, y)?;
            for (y, x) in y.iter_mut().zip(x) {
                *y = match op {
                    ComputeOp::Add => *y + *x,
                    ComputeOp::Multiply => *y * *x,
                    ComputeOp::Max => max_num(*y, *x),
                    ComputeOp::Min => min_num(*y, *x),
                };
                if y.is_nan() {
                    *y = crate::numeric::CANONICAL_NAN;
                }
            }
            store_f32_config(to, y, b, rounding.reborrow(), fp8)?;
        }
    }
    Ok(())
}

fn integer(op: ComputeOp, b: i64, a: i64, wide: bool, to: Dtype) -> Result<i64> {
    let value = match op {
        ComputeOp::Add => b.wrapping_add(a),
        ComputeOp::Multiply => b.wrapping_mul(a),
        ComputeOp::Max if to == Dtype::Uint64 => (b as u64).max(a as u64) as i64,
        ComputeOp::Min if to == Dtype::Uint64 => (b as u64).min(a as u64) as i64,
        ComputeOp::Max => b.max(a),
        ComputeOp::Min => b.min(a),
    };
    if wide {
        return Ok(value);
    }
    let wrapped =
        if to == Dtype::Uint32 { i64::from(value as u32) } else { i64::from(value as i32) };
    saturate_i64(to, i128::from(wrapped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combine(op: ComputeOp, from: Dtype, to: Dtype, a: &[u8], b: &mut [u8]) -> Result<()> {
        super::combine(op, from, to, a, b, Rounding::NearestEven, &Fp8Config::default())
    }

    #[test]
    fn integers_wrap_at_32_bits_and_never_pass_through_floats() {
        let mut b = 16_777_217i32.to_le_bytes();
        combine(ComputeOp::Add, Dtype::Int32, Dtype::Int32, &2i32.to_le_bytes(), &mut b).unwrap();
        assert_eq!(i32::from_le_bytes(b), 16_777_219);
        let mut b = i32::MAX.to_le_bytes();
        combine(ComputeOp::Add, Dtype::Int32, Dtype::Int32, &1i32.to_le_bytes(), &mut b).unwrap();
        assert_eq!(i32::from_le_bytes(b), i32::MIN);
        let mut b = [250u8];
        combine(ComputeOp::Add, Dtype::Uint8, Dtype::Uint8, &[10], &mut b).unwrap();
        assert_eq!(b, [255]);
        let mut b = u32::MAX.to_le_bytes();
        combine(ComputeOp::Max, Dtype::Uint32, Dtype::Uint32, &1u32.to_le_bytes(), &mut b).unwrap();
        assert_eq!(u32::from_le_bytes(b), u32::MAX);
    }

    #[test]
    fn floats_accumulate_in_fp32() {
        let mut b = 1.0f32.to_le_bytes();
        combine(ComputeOp::Max, Dtype::Fp32, Dtype::Fp32, &f32::NAN.to_le_bytes(), &mut b).unwrap();
        assert_eq!(f32::from_le_bytes(b), 1.0);
        // BF16 256 + 1 rounds to even
        let mut b = 0x4380u16.to_le_bytes();
        combine(ComputeOp::Add, Dtype::Bf16, Dtype::Bf16, &0x3F80u16.to_le_bytes(), &mut b)
            .unwrap();
        assert_eq!(u16::from_le_bytes(b), 0x4380);
        combine(ComputeOp::Multiply, Dtype::Bf16, Dtype::Bf16, &0x4000u16.to_le_bytes(), &mut b)
            .unwrap();
        assert_eq!(u16::from_le_bytes(b), 0x4400);
    }
}

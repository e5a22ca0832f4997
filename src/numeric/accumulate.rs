//! Read-modify-write of memory: `dst = dst op src` on raw elements, as writes with accumulation
//! do it (wiki-cc: bir/sim-core-arithmetic).

use super::alu::{keep_max, keep_min};
use super::convert::{Fp8Config, Rounding, load_f32, store_f32_config};
use super::dtype::Dtype;
use super::{canonical, load_i64, store_i64};
use crate::error::{Error, Result};

/// What an accumulating write does with the old element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryReduction {
    /// 0: replaces it.
    Copy,
    /// 1: adds to it; integers wrap.
    Add,
    /// 2: keeps the smaller; the old one on a tie or when either is NaN.
    Min,
    /// 3: keeps the larger; as Min.
    Max,
}

impl MemoryReduction {
    /// Number in the vendor's simulator.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The reduction of a memory write whose compiler-level ALU number is `ordinal`: only bypass
    /// and add reach memory.
    ///
    /// # Errors
    /// Illegal instruction for any other number.
    pub fn from_alu_ordinal(ordinal: u8) -> Result<MemoryReduction> {
        match ordinal {
            0 => Ok(MemoryReduction::Copy),
            4 => Ok(MemoryReduction::Add),
            _ => Err(Error::illegal(
                "memory_reduction",
                format!("ALU number {ordinal} in an accumulating write"),
            )),
        }
    }
}

/// Whether elements of `dtype` can be accumulated in memory.
pub fn accumulates(dtype: Dtype) -> bool {
    use Dtype::*;
    matches!(dtype, Fp8E3 | Fp8E4 | Fp8E5 | Bf16 | Fp16 | Int32 | Fp32 | Int64)
}

/// Elements handled at a time.
const CHUNK: usize = 128;

/// `dst[i] = dst[i] op src[i]` for as many elements as fill `src`. Floats are widened to FP32,
/// reduced with one rounding, and narrowed to nearest even; FP8 overflows to infinity here
/// whatever the program's settings (the simulator hard-codes it).
///
/// # Errors
/// Illegal instruction when the dtype cannot be accumulated; internal when `dst` is shorter.
pub fn accumulate(dtype: Dtype, op: MemoryReduction, src: &[u8], dst: &mut [u8]) -> Result<()> {
    let Some(dst) = dst.get_mut(..src.len()) else {
        return Err(Error::internal("accumulation into a shorter buffer"));
    };
    if op == MemoryReduction::Copy {
        dst.copy_from_slice(src);
        return Ok(());
    }
    if !accumulates(dtype) {
        return Err(Error::illegal(
            "cast_accumulate",
            format!("cast_accumulate: unsupported dtype {dtype}"),
        ));
    }
    let bytes = CHUNK * dtype.size();
    for (src, dst) in src.chunks(bytes).zip(dst.chunks_mut(bytes)) {
        let n = src.len() / dtype.size();
        if dtype.is_int() {
            let (mut new, mut old) = ([0i64; CHUNK], [0i64; CHUNK]);
            load_i64(dtype, src, &mut new[..n])?;
            load_i64(dtype, dst, &mut old[..n])?;
            for (old, &new) in old.iter_mut().zip(&new) {
                *old = match op {
                    MemoryReduction::Min => new.min(*old),
                    MemoryReduction::Max => new.max(*old),
                    _ => old.wrapping_add(new),
                };
            }
            store_i64(dtype, &old[..n], dst)?;
        } else {
            let (mut new, mut old) = ([0f32; CHUNK], [0f32; CHUNK]);
            load_f32(dtype, src, &mut new[..n])?;
            load_f32(dtype, dst, &mut old[..n])?;
            for (old, &new) in old.iter_mut().zip(&new) {
                *old = match op {
                    MemoryReduction::Min => keep_min(*old, new),
                    MemoryReduction::Max => keep_max(*old, new),
                    _ => canonical(*old + new),
                };
            }
            store_f32_config(dtype, &old[..n], dst, Rounding::NearestEven, &Fp8Config::RAW)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_and_integers_wrap() {
        let mut dst = 1024f32.to_bits().to_le_bytes();
        accumulate(Dtype::Fp32, MemoryReduction::Add, &0.5f32.to_le_bytes(), &mut dst).unwrap();
        assert_eq!(f32::from_le_bytes(dst), 1024.5);
        let mut half = [0x00, 0x64]; // 1024
        accumulate(Dtype::Fp16, MemoryReduction::Add, &[0x00, 0x38], &mut half).unwrap();
        assert_eq!(half, [0x00, 0x64], "1024.5 is a tie");
        // 240 + 240 leaves the E4M3 range: infinity, not the largest number.
        let mut fp8 = [0x77];
        accumulate(Dtype::Fp8E4, MemoryReduction::Add, &[0x77], &mut fp8).unwrap();
        assert_eq!(fp8, [0x78]);
        assert!(accumulate(Dtype::Uint8, MemoryReduction::Add, &[1], &mut [1]).is_err());
        assert!(accumulate(Dtype::Fp32, MemoryReduction::Add, &[0; 8], &mut [0; 4]).is_err());
    }
}

//! Scalar operands: an immediate in the word, or one value per channel behind a pointer.

use crate::engine::{Env, Lane, Operand};
use crate::error::{Error, Result};
use crate::isa::{Field, e};
use crate::numeric::{self, Dtype, Walk};

/// A scalar operand (wiki: firmware/kernels/tensor-scalar).
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    /// The four (or eight) bytes of the word.
    Inline(u64),
    /// One value in each active channel.
    Pointer(Operand),
}

impl Scalar {
    /// The scalar in `value` that `source` (an IMM_SRC) tells how to read; pointed-to values have
    /// type `dtype`.
    ///
    /// # Errors
    /// An undefined source, a bad register, a pointer out of memory or not aligned to `dtype`.
    pub(super) fn decode(
        env: &Env<'_>,
        source: Field,
        value: Field,
        dtype: Dtype,
        channels: u32,
    ) -> Result<Scalar> {
        let code = env.inst.get(source) as u8;
        Scalar::from_source(env, code, env.inst.get(value), dtype, channels)
    }

    /// As [`Scalar::decode`] with the source code already at hand.
    pub(super) fn from_source(
        env: &Env<'_>,
        code: u8,
        value: u64,
        dtype: Dtype,
        channels: u32,
    ) -> Result<Scalar> {
        match code {
            e::imm_src::INSTRUCTION_IMMEDIATE => Ok(Scalar::Inline(value)),
            e::imm_src::POINTER_IMMEDIATE => Scalar::pointer(env, value as u32, dtype, channels),
            e::imm_src::REG_PTR_IMMEDIATE => {
                let register = u8::try_from(value).map_err(|_| {
                    Error::illegal("register_specifier", format!("there is no register R{value}"))
                })?;
                Scalar::pointer(env, env.register(register)?, dtype, channels)
            }
            other => Err(Error::illegal(
                "has_valid_immediates",
                format!("immediate source {other} is not defined"),
            )),
        }
    }

    /// One value of `dtype` per channel at `address`.
    ///
    /// # Errors
    /// A pointer out of memory or not aligned to `dtype`.
    pub(super) fn pointer(
        env: &Env<'_>,
        address: u32,
        dtype: Dtype,
        channels: u32,
    ) -> Result<Scalar> {
        let at = env.geometry().decode(address)?;
        let size = dtype.size();
        if !(at.byte as usize).is_multiple_of(size) {
            return Err(Error::illegal(
                "addr_aligned_dtype",
                format!("immediate pointer {address:#x} is not a multiple of {size} bytes"),
            ));
        }
        let walk = Walk::contiguous(at.byte as usize, 1, size);
        Ok(Scalar::Pointer(Operand::at(env, at, walk, dtype, channels, false)?))
    }

    fn row<'a>(operand: &Operand, lane: &'a Lane<'_>, c: u32) -> Result<&'a [u8]> {
        let (space, partition, byte, len) = operand.row(c);
        lane.mem.row(space, partition, byte, len)
    }

    /// Its value for channel `c` in FP32; an inline one is an FP32 whatever the dtype.
    pub(super) fn f32(&self, lane: &Lane<'_>, c: u32) -> Result<f32> {
        match self {
            Scalar::Inline(raw) => Ok(f32::from_bits(*raw as u32)),
            Scalar::Pointer(operand) => {
                let mut out = [0.0];
                numeric::load_f32(operand.dtype, Scalar::row(operand, lane, c)?, &mut out)?;
                Ok(out[0])
            }
        }
    }

    /// Its bits for channel `c`; of an inline one the low bits of `dtype`'s width.
    pub(super) fn bits(&self, lane: &Lane<'_>, c: u32, dtype: Dtype) -> Result<u64> {
        match self {
            Scalar::Inline(raw) => Ok(raw & (u64::MAX >> (64 - dtype.bits().clamp(1, 64)))),
            Scalar::Pointer(operand) => {
                let mut out = [0];
                numeric::load_bits(operand.dtype, Scalar::row(operand, lane, c)?, &mut out)?;
                Ok(out[0])
            }
        }
    }

    /// Its value for channel `c` as an integer; an inline one is read as `dtype`.
    pub(super) fn i64(&self, lane: &Lane<'_>, c: u32, dtype: Dtype) -> Result<i64> {
        let mut out = [0];
        match self {
            Scalar::Inline(raw) => numeric::load_i64(dtype, &raw.to_le_bytes(), &mut out)?,
            Scalar::Pointer(operand) => {
                numeric::load_i64(operand.dtype, Scalar::row(operand, lane, c)?, &mut out)?;
            }
        }
        Ok(out[0])
    }
}

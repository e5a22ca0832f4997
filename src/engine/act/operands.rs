//! Operands shared by the ACT instructions: scalars and the row loop.

use crate::engine::cost::Operands;
use crate::engine::indirection::{refused, same_partition, scatter_beside};
use crate::engine::{Env, Lane, Operand};
use crate::error::{Error, Result};
use crate::isa::{Addr4, Field, e};
use crate::memory::{Access, Space};
use crate::numeric::{Dtype, Rounding, Walk};

/// A scalar operand: the same for every channel, or one value for each.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    /// Immediate.
    Value(f32),
    /// One value for each channel, at the same place of consecutive partitions.
    Pointer(Operand),
}

/// Where a scalar comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Inline,
    Pointer,
    Register,
}

impl Source {
    /// From an `IMM_SRC` byte.
    ///
    /// # Errors
    /// `imm_src`.
    pub fn from_imm_src(code: u64) -> Result<Source> {
        match code as u8 {
            e::imm_src::INSTRUCTION_IMMEDIATE => Ok(Source::Inline),
            e::imm_src::POINTER_IMMEDIATE => Ok(Source::Pointer),
            e::imm_src::REG_PTR_IMMEDIATE => Ok(Source::Register),
            other => Err(Error::illegal("imm_src", format!("immediate source {other}"))),
        }
    }

    /// From an `IMM_SRC_N` byte, whose first two codes are swapped.
    ///
    /// # Errors
    /// `imm_src_n`.
    pub fn from_imm_src_n(code: u64) -> Result<Source> {
        match code as u8 {
            e::imm_src_n::POINTER_IMMEDIATE => Ok(Source::Pointer),
            e::imm_src_n::INSTRUCTION_IMMEDIATE => Ok(Source::Inline),
            e::imm_src_n::REG_PTR_IMMEDIATE => Ok(Source::Register),
            other => Err(Error::illegal("imm_src_n", format!("immediate source {other}"))),
        }
    }
}

impl Scalar {
    /// The scalar in `field`. Inline values are FP32; what a pointer points to has `dtype`.
    ///
    /// # Errors
    /// `register_specifier`, and those of an operand.
    pub fn new(
        env: &Env<'_>,
        field: Field,
        source: Source,
        dtype: Dtype,
        channels: u32,
    ) -> Result<Scalar> {
        let raw = env.inst.get(field) as u32;
        let (address, dynamic) = match source {
            Source::Inline => return Ok(Scalar::Value(f32::from_bits(raw))),
            Source::Register => (env.register(raw as u8)?, true),
            Source::Pointer => match env.inst.addr4(field) {
                Addr4::Imm(a) => (a, false),
                Addr4::Reg(r) => (env.register(r)?, true),
                other => {
                    return Err(Error::illegal(
                        "imm_pointer",
                        format!("{other:?} is not an address of a scalar"),
                    ));
                }
            },
        };
        if !(address as usize).is_multiple_of(dtype.size()) {
            return Err(Error::illegal(
                "addr_aligned_dtype",
                format!("scalar address {address:#x} is not aligned to {}", dtype.name()),
            ));
        }
        let at = env.geometry().decode(address)?;
        let walk = Walk::contiguous(at.byte as usize, 1, dtype.size());
        Ok(Scalar::Pointer(Operand::at(env, at, walk, dtype, channels, dynamic)?))
    }

    /// The value for channel `c`.
    ///
    /// # Errors
    /// Those of the memory.
    pub fn get(&self, lane: &Lane<'_>, c: u32) -> Result<f32> {
        match self {
            Scalar::Value(v) => Ok(*v),
            Scalar::Pointer(operand) => {
                let (space, partition, byte, len) = operand.row(c);
                let mut value = [0.0];
                let row = lane.mem.row(space, partition, byte, len)?;
                crate::numeric::load_f32(operand.dtype, row, &mut value)?;
                Ok(value[0])
            }
        }
    }

    /// The memory it is read from.
    pub fn operand(&self) -> Option<&Operand> {
        match self {
            Scalar::Value(_) => None,
            Scalar::Pointer(operand) => Some(operand),
        }
    }
}

/// Source, destination and scalars of one instruction.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    src: Operand,
    dst: Operand,
    /// Some source of one channel is written by another channel: read everything first.
    crossed: bool,
}

impl Rows {
    /// # Errors
    /// `tensor_same_num_elements`, `tensor_indirection`.
    pub fn new(src: Operand, dst: Operand, scalars: &[&Scalar]) -> Result<Rows> {
        if src.len() != dst.len() {
            return Err(Error::illegal(
                "tensor_same_num_elements",
                format!(
                    "the source has {} elements in a partition, the destination {}",
                    src.len(),
                    dst.len()
                ),
            ));
        }
        same_partition(&src)?;
        let lead = match src.offsets_partition() {
            Some(partition) => (Space::Sbuf, partition),
            None => (src.space, src.partition),
        };
        scatter_beside(&dst, Some(lead))?;
        if dst.offsets_partition().is_some() && dst.space == Space::Psum {
            return Err(refused("ACT scatters to SBUF only"));
        }
        let crosses =
            |s: &Operand| s.partition != dst.partition && s.region().overlaps(&dst.region());
        let crossed = crosses(&src) || scalars.iter().filter_map(|s| s.operand()).any(crosses);
        Ok(Rows { src, dst, crossed })
    }

    /// Channels.
    pub fn channels(&self) -> u32 {
        self.src.channels
    }

    /// Elements in a partition.
    pub fn len(&self) -> usize {
        self.src.len()
    }

    /// Footprint, with that of the scalars.
    pub fn accesses(&self, scalars: &[&Scalar]) -> Vec<Access> {
        let scalars = scalars.iter().filter_map(|s| s.operand()).map(Operand::read);
        let offsets = [&self.src, &self.dst].into_iter().filter_map(Operand::offsets_read);
        let tensors = [self.src.read(), self.dst.write()];
        offsets.chain(scalars).chain(tensors).collect()
    }

    /// Layout for the cost model.
    pub fn cost(&self, env: &Env<'_>) -> Operands {
        let mut operands = Operands::new();
        self.src.cost_source(env, &mut operands);
        self.dst.cost_dest(env, &mut operands);
        operands
    }

    /// Reads each channel, lets `f` turn its row into results, writes them.
    ///
    /// # Errors
    /// Those of the memory and of `f`.
    pub fn run(
        &self,
        lane: &mut Lane<'_>,
        mut f: impl FnMut(&mut Lane<'_>, u32, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let mut row = std::mem::take(&mut lane.scratch.f32[0]);
        let mut all = std::mem::take(&mut lane.scratch.f32[1]);
        all.clear();
        let mut each = |lane: &mut Lane<'_>, c: u32| -> Result<()> {
            self.src.gather_f32(lane, c, &mut row)?;
            f(lane, c, &mut row)?;
            if self.crossed {
                all.extend_from_slice(&row);
                return Ok(());
            }
            self.dst.scatter_f32(lane, c, &row, Rounding::NearestEven)
        };
        let mut result = (0..self.channels()).try_for_each(|c| each(lane, c));
        if self.crossed && result.is_ok() {
            result = all.chunks_exact(self.len()).zip(0..).try_for_each(|(values, c)| {
                self.dst.scatter_f32(lane, c, values, Rounding::NearestEven)
            });
        }
        lane.scratch.f32[0] = row;
        lane.scratch.f32[1] = all;
        result
    }
}

/// Element type of a source or destination with the E4M3 variant of the generation.
///
/// # Errors
/// Illegal instruction: no such type, or not one that may stand here.
pub(super) fn element(env: &Env<'_>, code: u8, allow_fp32r: bool) -> Result<Dtype> {
    let dtype = Dtype::from_code(env.generation(), code)?;
    if !dtype.is_valid(allow_fp32r) {
        return Err(Error::illegal(
            "is_valid_dtype",
            format!("{} is not a type of this operand", dtype.name()),
        ));
    }
    Ok(env.config.numerics.fp8.resolve(env.generation(), dtype))
}

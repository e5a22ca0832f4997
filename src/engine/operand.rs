//! A tensor operand of an instruction, resolved: where its elements lie in each partition.

use super::cost::Operands;
use super::work::{Env, Lane};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Addr4, Field, TensorPattern};
use crate::memory::{Access, ByteSet, Location, Region, Space};
use crate::numeric::{self, Dtype, Rounding, Walk};

/// Most elements per partition: only patterns that repeat elements come near, and a damaged one must
/// not exhaust the host's memory.
const MAX_ELEMENTS: usize = 1 << 24;

/// A resolved tensor operand: `channels` consecutive partitions, the same walk in each.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Memory.
    pub space: Space,
    /// Partition of channel 0.
    pub partition: u32,
    /// Number of channels.
    pub channels: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Walk in a partition; `start` is the byte in the partition.
    pub walk: Walk,
    /// First byte touched and the byte after the last one.
    span: (u64, u64),
    /// Whether a register supplied address or shape.
    dynamic: bool,
}

impl Operand {
    /// The plain tensor operand in `field` with elements of `dtype` over `channels` partitions.
    ///
    /// # Errors
    /// What [`Operand::resolve`] raises; an indirect pattern is `MissingSpecification`-free but
    /// must be decoded by the opcode that knows it, so it is an error here.
    pub fn new(env: &Env<'_>, field: Field, dtype: Dtype, channels: u32) -> Result<Operand> {
        Operand::resolve(env, &env.inst.tensor(field)?, dtype, channels)
    }

    /// Resolves `pattern`: reads address and shape registers, decodes the address, checks bounds.
    ///
    /// A shape register's number travels in the first step (wiki: dma/gather-scatter-descriptors).
    ///
    /// # Errors
    /// `address_in_memory`, `access_pattern_bounds`, `start_addr_active_channels`, alignment.
    pub fn resolve(
        env: &Env<'_>,
        pattern: &TensorPattern,
        dtype: Dtype,
        channels: u32,
    ) -> Result<Operand> {
        let address = match pattern.addr {
            Addr4::Imm(a) | Addr4::ImmShapeReg { addr: a } => a,
            Addr4::Reg(r) | Addr4::RegShapeReg { reg: r } => env.register(r)?,
            other => {
                return Err(Error::illegal(
                    "tensor_start_addr_valid",
                    format!("{other:?} is not an address this operand can have"),
                ));
            }
        };
        let size = dtype.size();
        if !(address as usize).is_multiple_of(size) {
            return Err(Error::illegal(
                "addr_aligned_dtype",
                format!(
                    "address {address:#x} is not a multiple of the {size} bytes of {}",
                    dtype.name()
                ),
            ));
        }
        let mut dims: Vec<(i32, u32)> =
            pattern.dims.iter().map(|&(s, n)| (i32::from(s), u32::from(n))).collect();
        if pattern.addr.shape_from_register() {
            let number = pattern.dims.first().map_or(0, |d| d.0);
            let shape = env.shape_register(u8::try_from(number).unwrap_or(u8::MAX))?;
            for (d, dim) in dims.iter_mut().enumerate() {
                *dim = (shape.step[d], u32::from(shape.num[d]));
            }
        }
        let at = env.geometry().decode(address)?;
        let walk = Walk::new(at.byte as usize, &dims, size);
        let dynamic = !matches!(pattern.addr, Addr4::Imm(_));
        Operand::at(env, at, walk, dtype, channels, dynamic)
    }

    /// An operand at a known place.
    ///
    /// # Errors
    /// As [`Operand::resolve`].
    pub fn at(
        env: &Env<'_>,
        at: Location,
        walk: Walk,
        dtype: Dtype,
        channels: u32,
        dynamic: bool,
    ) -> Result<Operand> {
        let g = env.geometry();
        if channels == 0 || at.partition + channels > g.partitions(at.space) {
            return Err(Error::illegal(
                "start_addr_active_channels",
                format!(
                    "{channels} channels from partition {} do not fit the {} partitions of {}",
                    at.partition,
                    g.partitions(at.space),
                    at.space
                ),
            ));
        }
        if walk.is_empty() {
            return Err(Error::illegal("tensor_valid", "an access pattern without elements"));
        }
        if walk.len() > MAX_ELEMENTS {
            return Err(Error::new(
                ErrorClass::LimitReached,
                format!("an access pattern of more than {MAX_ELEMENTS} elements in one partition"),
            ));
        }
        let (low, high) = walk.byte_span();
        if low < 0 || high > g.active(at.space) as i64 {
            return Err(Error::illegal(
                "access_pattern_bounds",
                format!(
                    "the access pattern covers bytes {low}..{high} of {} partitions that have {}",
                    at.space,
                    g.active(at.space)
                ),
            ));
        }
        let span = (low as u64, high as u64);
        Ok(Operand {
            space: at.space,
            partition: at.partition,
            channels,
            dtype,
            walk,
            span,
            dynamic,
        })
    }

    /// Elements per partition.
    pub fn len(&self) -> usize {
        self.walk.len()
    }

    /// Whether it has no element; resolving refuses that.
    pub fn is_empty(&self) -> bool {
        self.walk.is_empty()
    }

    /// Innermost step in bytes.
    pub fn inner_step(&self) -> i64 {
        let inner = self.walk.dims.iter().find(|d| d.1 > 1);
        inner.map_or(self.walk.elem as i64, |d| i64::from(d.0) * self.walk.elem as i64)
    }

    /// Footprint.
    pub fn region(&self) -> Region {
        let elem = self.walk.elem as i64;
        let dims = self.walk.dims.iter().map(|&(s, n)| (i64::from(s) * elem, u64::from(n)));
        let bytes = ByteSet::strided(self.walk.start as i64, elem as u64, dims)
            .unwrap_or_else(|| ByteSet::dense(self.span.0, self.span.1 - self.span.0));
        Region::new(self.space, self.partition, self.channels, bytes)
    }

    /// The operand as a source in a footprint.
    pub fn read(&self) -> Access {
        Access::read(self.region())
    }

    /// The operand as a destination in a footprint.
    pub fn write(&self) -> Access {
        Access::write(self.region())
    }

    /// Tells the cost model about this source.
    pub fn cost_source(&self, env: &Env<'_>, to: &mut Operands) {
        to.source(self.space, self.walk.elem, self.dtype.is_float(), self.inner_step(), env.config);
        to.dynamic |= self.dynamic;
    }

    /// Tells the cost model about this destination.
    pub fn cost_dest(&self, env: &Env<'_>, to: &mut Operands) {
        to.dest(self.space, self.walk.elem, self.dtype.is_float(), self.inner_step(), env.config);
        to.dynamic |= self.dynamic;
    }

    /// Walk relative to the first byte touched, for a row that starts there.
    fn local(&self) -> Walk {
        let mut walk = self.walk.clone();
        walk.start -= self.span.0 as usize;
        walk
    }

    /// (space, partition, byte, length) of the row of channel `c`, for [`crate::memory::Lease`].
    pub fn row(&self, c: u32) -> (Space, u32, u64, u64) {
        (self.space, self.partition + c, self.span.0, self.span.1 - self.span.0)
    }

    /// Replaces `out` by the elements of channel `c`, widened to FP32.
    ///
    /// # Errors
    /// See [`numeric::gather_f32`].
    pub fn gather_f32(&self, lane: &Lane<'_>, c: u32, out: &mut Vec<f32>) -> Result<()> {
        let (s, p, b, n) = self.row(c);
        numeric::gather_f32(self.dtype, lane.mem.row(s, p, b, n)?, &self.local(), out)
    }

    /// Replaces `out` by the elements of channel `c` as integers.
    ///
    /// # Errors
    /// See [`numeric::gather_i64`].
    pub fn gather_i64(&self, lane: &Lane<'_>, c: u32, out: &mut Vec<i64>) -> Result<()> {
        let (s, p, b, n) = self.row(c);
        numeric::gather_i64(self.dtype, lane.mem.row(s, p, b, n)?, &self.local(), out)
    }

    /// Replaces `out` by the bits of the elements of channel `c`.
    ///
    /// # Errors
    /// See [`numeric::gather_bits`].
    pub fn gather_bits(&self, lane: &Lane<'_>, c: u32, out: &mut Vec<u64>) -> Result<()> {
        let (s, p, b, n) = self.row(c);
        numeric::gather_bits(self.dtype, lane.mem.row(s, p, b, n)?, &self.local(), out)
    }

    /// Narrows `src` into the elements of channel `c`.
    ///
    /// # Errors
    /// See [`numeric::scatter_f32`].
    pub fn scatter_f32(
        &self,
        lane: &mut Lane<'_>,
        c: u32,
        src: &[f32],
        rounding: Rounding<'_>,
    ) -> Result<()> {
        let (s, p, b, n) = self.row(c);
        numeric::scatter_f32(
            self.dtype,
            lane.mem.row_mut(s, p, b, n)?,
            &self.local(),
            src,
            rounding,
        )
    }

    /// Stores integers into the elements of channel `c`.
    ///
    /// # Errors
    /// See [`numeric::scatter_i64`].
    pub fn scatter_i64(&self, lane: &mut Lane<'_>, c: u32, src: &[i64]) -> Result<()> {
        let (s, p, b, n) = self.row(c);
        numeric::scatter_i64(self.dtype, lane.mem.row_mut(s, p, b, n)?, &self.local(), src)
    }

    /// Stores bits into the elements of channel `c`.
    ///
    /// # Errors
    /// See [`numeric::scatter_bits`].
    pub fn scatter_bits(&self, lane: &mut Lane<'_>, c: u32, src: &[u64]) -> Result<()> {
        let (s, p, b, n) = self.row(c);
        numeric::scatter_bits(self.dtype, lane.mem.row_mut(s, p, b, n)?, &self.local(), src)
    }
}

//! A tensor operand of an instruction, resolved: where its elements lie in each partition.

use super::cost::Operands;
use super::indirection::{self, Offsets, REACH};
use super::work::{Env, Lane};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Addr4, Field, Generation, Pattern, TensorPattern};
use crate::memory::{Access, ByteSet, Location, Region, Space};
use crate::numeric::convert::store_f32_config;
use crate::numeric::walk::scatter_f32_config;
use crate::numeric::{self, Dtype, Fp8Config, Rounding, Walk};

/// Most elements per partition: only patterns that repeat elements come near, and a damaged one must
/// not exhaust the host's memory.
const MAX_ELEMENTS: usize = 1 << 24;

/// Where an address of an operand that is never in PSUM lies.
///
/// # Errors
/// `address_in_memory`.
pub fn sbuf_place(env: &Env<'_>, address: u32) -> Result<Location> {
    match env.generation() {
        Generation::V5 => env.geometry().decode_sbuf(address),
        _ => env.geometry().decode(address),
    }
}

/// Refuses types of which a byte holds several elements: opcodes that take them name the words.
fn plain_elements(dtype: Dtype) -> Result<()> {
    if dtype.bits() < 8 || dtype.is_cptc() {
        return Err(Error::missing_spec(
            format!("how an access pattern steps over elements of {}", dtype.name()),
            "wiki: firmware/kernels/dtype-model",
        ));
    }
    Ok(())
}

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
    /// Walk in a partition; `start` is the byte in the partition. Of an indirect operand the count
    /// of its elements only: their places come from memory.
    pub walk: Walk,
    /// Where the offsets of an indirect operand are.
    offsets: Option<Offsets>,
    /// First byte touched and the byte after the last one.
    span: (u64, u64),
    /// Whether a register supplied address or shape.
    dynamic: bool,
    /// FP8 settings of the program.
    fp8: Fp8Config,
    /// Results are rounded stochastically.
    stochastic: bool,
}

impl Operand {
    /// The plain tensor operand in `field` with elements of `dtype` over `channels` partitions.
    ///
    /// # Errors
    /// What [`Operand::resolve`] raises; an indirect pattern is a missing specification.
    pub fn new(env: &Env<'_>, field: Field, dtype: Dtype, channels: u32) -> Result<Operand> {
        Operand::resolve(env, &env.inst.tensor(field)?, dtype, channels)
    }

    /// As [`Operand::new`] for the operands of an instruction that may be indirect on v4 and later.
    /// Its footprint has [`Operand::offsets_read`] as well.
    ///
    /// # Errors
    /// As [`Operand::new`]; `tensor_indirection`.
    pub fn any_form(env: &Env<'_>, field: Field, dtype: Dtype, channels: u32) -> Result<Operand> {
        match env.inst.pattern(field)? {
            Pattern::Indirect { index, data, num } => {
                let place = |env: &Env<'_>, address| env.geometry().decode(address);
                Operand::indirect(env, (index, data, num), dtype, channels, place)
            }
            _ => Operand::new(env, field, dtype, channels),
        }
    }

    /// The operand of an indirect pattern: addresses of offsets and data, number of elements.
    /// `place` decodes the address of the data.
    ///
    /// # Errors
    /// As [`Operand::any_form`].
    pub fn indirect(
        env: &Env<'_>,
        (index, data, num): (Addr4, Addr4, u16),
        dtype: Dtype,
        channels: u32,
        place: impl Fn(&Env<'_>, u32) -> Result<Location>,
    ) -> Result<Operand> {
        indirection::accepted(env)?;
        let address = match data {
            Addr4::Imm(a) => a,
            Addr4::Reg(r) => env.register(r)?,
            other => {
                return Err(Error::illegal(
                    "tensor_start_addr_valid",
                    format!("{other:?} is not an address of data behind offsets"),
                ));
            }
        };
        let dynamic = index.reg().is_some() || data.reg().is_some();
        let at = place(env, address)?;
        let offsets = Offsets::decode(env, index, num, channels)?;
        Operand::behind(env, at, offsets, dtype, channels, dynamic)
    }

    /// The operand whose data starts at `at`, behind `offsets`.
    ///
    /// # Errors
    /// As [`Operand::at`].
    pub(super) fn behind(
        env: &Env<'_>,
        at: Location,
        offsets: Offsets,
        dtype: Dtype,
        channels: u32,
        dynamic: bool,
    ) -> Result<Operand> {
        plain_elements(dtype)?;
        let size = dtype.size();
        if !(at.byte as usize).is_multiple_of(size) {
            return Err(Error::illegal(
                "addr_aligned_dtype",
                format!("data at byte {} with elements of {size} bytes", at.byte),
            ));
        }
        let first = Walk::contiguous(at.byte as usize, 1, size);
        let mut operand = Operand::at(env, at, first, dtype, channels, dynamic)?;
        operand.walk = Walk::contiguous(at.byte as usize, offsets.count() as u32, size);
        if operand.walk.is_empty() {
            return Err(Error::illegal("tensor_valid", "an access pattern without elements"));
        }
        let start = u64::from(at.byte);
        let end = (start + REACH * size as u64).min(env.geometry().active(at.space));
        // whole elements only
        operand.span = (start, end - (end - start) % size as u64);
        operand.offsets = Some(offsets);
        Ok(operand)
    }

    /// As [`Operand::new`] for an operand that is never in PSUM. On v5 the addresses of SBUF
    /// partitions from 32 on lie in the PSUM window too; such an operand means SBUF (OPEN: the two
    /// headers disagree, wiki: dma/sbuf-psum-banks M-1).
    ///
    /// # Errors
    /// As [`Operand::new`]. Before v5 the caller still has to refuse PSUM.
    pub fn in_sbuf(env: &Env<'_>, field: Field, dtype: Dtype, channels: u32) -> Result<Operand> {
        Operand::resolve_in_sbuf(env, &env.inst.tensor(field)?, dtype, channels)
    }

    /// As [`Operand::resolve`] for an operand that is never in PSUM, see [`Operand::in_sbuf`].
    ///
    /// # Errors
    /// As [`Operand::in_sbuf`].
    pub fn resolve_in_sbuf(
        env: &Env<'_>,
        pattern: &TensorPattern,
        dtype: Dtype,
        channels: u32,
    ) -> Result<Operand> {
        Operand::resolved(env, pattern, dtype, channels, sbuf_place)
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
        let place = |env: &Env<'_>, address| env.geometry().decode(address);
        Operand::resolved(env, pattern, dtype, channels, place)
    }

    fn resolved(
        env: &Env<'_>,
        pattern: &TensorPattern,
        dtype: Dtype,
        channels: u32,
        place: impl Fn(&Env<'_>, u32) -> Result<Location>,
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
        plain_elements(dtype)?;
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
        let at = place(env, address)?;
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
        let numerics = &env.config.numerics;
        Ok(Operand {
            space: at.space,
            partition: at.partition,
            channels,
            dtype: numerics.fp8.resolve(env.generation(), dtype),
            walk,
            offsets: None,
            span,
            dynamic,
            fp8: numerics.fp8,
            stochastic: numerics.stochastic_rounding && env.generation() != Generation::V1,
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

    /// Partition of the list of offsets, of an indirect operand.
    pub fn offsets_partition(&self) -> Option<u32> {
        self.offsets.as_ref().map(|o| o.partition)
    }

    /// Footprint of the offsets of an indirect operand.
    pub fn offsets_read(&self) -> Option<Access> {
        self.offsets.as_ref().map(Offsets::read)
    }

    /// Whether the elements of a row lie next to each other, in walk order.
    pub fn is_contiguous(&self) -> bool {
        self.offsets.is_none() && self.walk.is_contiguous()
    }

    /// Byte in the partition of each element of channel `c`, in walk order.
    ///
    /// # Errors
    /// Those of the offsets and of the lease.
    pub fn places<'s>(
        &'s self,
        lane: &Lane<'_>,
        c: u32,
    ) -> Result<impl Iterator<Item = u64> + use<'s>> {
        let listed = self.listed(lane, c)?;
        let walked = listed.is_none().then(|| self.walk.offsets().map(|at| at as u64));
        let start = self.span.0;
        let listed = listed.into_iter().flatten().map(move |at| start + at as u64);
        Ok(walked.into_iter().flatten().chain(listed))
    }

    /// Places of the elements of channel `c` behind the first byte touched, of an indirect operand.
    fn listed(&self, lane: &Lane<'_>, c: u32) -> Result<Option<Vec<usize>>> {
        let len = self.span.1 - self.span.0;
        let places = |o: &Offsets| o.places(lane, c, self.walk.elem, len);
        self.offsets.as_ref().map(places).transpose()
    }

    /// The elements of channel `c` next to each other, of an indirect operand.
    fn picked(&self, lane: &Lane<'_>, c: u32) -> Result<Option<Vec<u8>>> {
        let Some(places) = self.listed(lane, c)? else { return Ok(None) };
        let (s, p, b, n) = self.row(c);
        let row = lane.mem.row(s, p, b, n)?;
        let mut bytes = Vec::with_capacity(places.len() * self.walk.elem);
        for at in places {
            bytes.extend_from_slice(&row[at..at + self.walk.elem]);
        }
        Ok(Some(bytes))
    }

    /// Stores the elements of `bytes` at `places`, in order.
    fn put(&self, lane: &mut Lane<'_>, c: u32, places: &[usize], bytes: &[u8]) -> Result<()> {
        let (s, p, b, n) = self.row(c);
        let row = lane.mem.row_mut(s, p, b, n)?;
        for (&at, element) in places.iter().zip(bytes.chunks_exact(self.walk.elem)) {
            row[at..at + self.walk.elem].copy_from_slice(element);
        }
        Ok(())
    }

    /// Footprint.
    pub fn region(&self) -> Region {
        if self.offsets.is_some() {
            let bytes = ByteSet::dense(self.span.0, self.span.1 - self.span.0);
            return Region::new(self.space, self.partition, self.channels, bytes);
        }
        let elem = self.walk.elem as i64;
        let dims = self.walk.dims.iter().map(|&(s, n)| (i64::from(s) * elem, u64::from(n)));
        let bytes = ByteSet::strided(self.walk.start as i64, elem as u64, dims)
            .unwrap_or_else(|| ByteSet::dense(self.span.0, self.span.1 - self.span.0));
        Region::new(self.space, self.partition, self.channels, bytes)
    }

    /// The operand as a source in a footprint.
    pub fn read(&self) -> Access {
        self.certainty(Access::read(self.region()))
    }

    /// The operand as a destination in a footprint.
    pub fn write(&self) -> Access {
        self.certainty(Access::write(self.region()))
    }

    /// `access`, uncertain where offsets decide what of it is touched.
    pub fn certainty(&self, access: Access) -> Access {
        if self.offsets.is_some() { access.maybe() } else { access }
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
        if let Some(bytes) = self.picked(lane, c)? {
            out.resize(self.len(), 0.0);
            return numeric::load_f32(self.dtype, &bytes, out);
        }
        let (s, p, b, n) = self.row(c);
        numeric::gather_f32(self.dtype, lane.mem.row(s, p, b, n)?, &self.local(), out)
    }

    /// Replaces `out` by the elements of channel `c` as integers.
    ///
    /// # Errors
    /// See [`numeric::gather_i64`].
    pub fn gather_i64(&self, lane: &Lane<'_>, c: u32, out: &mut Vec<i64>) -> Result<()> {
        if let Some(bytes) = self.picked(lane, c)? {
            out.resize(self.len(), 0);
            return numeric::load_i64(self.dtype, &bytes, out);
        }
        let (s, p, b, n) = self.row(c);
        numeric::gather_i64(self.dtype, lane.mem.row(s, p, b, n)?, &self.local(), out)
    }

    /// Replaces `out` by the bits of the elements of channel `c`.
    ///
    /// # Errors
    /// See [`numeric::gather_bits`].
    pub fn gather_bits(&self, lane: &Lane<'_>, c: u32, out: &mut Vec<u64>) -> Result<()> {
        if let Some(bytes) = self.picked(lane, c)? {
            out.resize(self.len(), 0);
            return numeric::load_bits(self.dtype, &bytes, out);
        }
        let (s, p, b, n) = self.row(c);
        numeric::gather_bits(self.dtype, lane.mem.row(s, p, b, n)?, &self.local(), out)
    }

    /// Whether narrowing results needs the generator of the partition.
    pub fn rounds_stochastically(&self) -> bool {
        self.stochastic && self.dtype.is_float() && self.dtype != Dtype::Fp32
    }

    /// Narrows `values` to elements of `dtype` as channel `c` of this operand rounds them: with the
    /// program's FP8 settings, stochastically where the program asks for it.
    ///
    /// # Errors
    /// See [`store_f32_config`].
    pub fn narrow(
        &self,
        lane: &mut Lane<'_>,
        c: u32,
        dtype: Dtype,
        values: &[f32],
        bytes: &mut [u8],
    ) -> Result<()> {
        self.rounded(lane, c, dtype, |rounding| {
            store_f32_config(dtype, values, bytes, rounding, &self.fp8)
        })
    }

    /// Runs `f` with the rounding of results of type `dtype` in channel `c`: to nearest, or by the
    /// generator of the partition where the program asks for it.
    pub fn rounded<R>(
        &self,
        lane: &mut Lane<'_>,
        c: u32,
        dtype: Dtype,
        f: impl FnOnce(Rounding<'_>) -> R,
    ) -> R {
        if self.stochastic && dtype.is_float() && dtype != Dtype::Fp32 {
            let random = &mut lane.state.indirect.random;
            return random
                .with_output_lfsr(self.partition + c, |lfsr| f(Rounding::Stochastic(lfsr)));
        }
        f(Rounding::NearestEven)
    }

    /// FP8 settings of the program.
    pub fn fp8(&self) -> &Fp8Config {
        &self.fp8
    }

    /// Narrows `src` into the elements of channel `c`, with the program's FP8 settings. Rounding to
    /// nearest becomes stochastic where the program asks for it.
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
        let (walk, fp8, dtype) = (self.local(), &self.fp8, self.dtype);
        if let Some(places) = self.listed(lane, c)? {
            let mut bytes = vec![0; places.len() * self.walk.elem];
            match rounding {
                Rounding::NearestEven => self.narrow(lane, c, dtype, src, &mut bytes)?,
                other => store_f32_config(dtype, src, &mut bytes, other, fp8)?,
            }
            return self.put(lane, c, &places, &bytes);
        }
        let row = lane.mem.row_mut(s, p, b, n)?;
        if self.rounds_stochastically() && matches!(rounding, Rounding::NearestEven) {
            return lane.state.indirect.random.with_output_lfsr(p, |lfsr| {
                scatter_f32_config(dtype, row, &walk, src, Rounding::Stochastic(lfsr), fp8)
            });
        }
        scatter_f32_config(dtype, row, &walk, src, rounding, fp8)
    }

    /// Stores integers into the elements of channel `c`.
    ///
    /// # Errors
    /// See [`numeric::scatter_i64`].
    pub fn scatter_i64(&self, lane: &mut Lane<'_>, c: u32, src: &[i64]) -> Result<()> {
        if let Some(places) = self.listed(lane, c)? {
            let mut bytes = vec![0; places.len() * self.walk.elem];
            numeric::store_i64(self.dtype, src, &mut bytes)?;
            return self.put(lane, c, &places, &bytes);
        }
        let (s, p, b, n) = self.row(c);
        numeric::scatter_i64(self.dtype, lane.mem.row_mut(s, p, b, n)?, &self.local(), src)
    }

    /// Stores bits into the elements of channel `c`.
    ///
    /// # Errors
    /// See [`numeric::scatter_bits`].
    pub fn scatter_bits(&self, lane: &mut Lane<'_>, c: u32, src: &[u64]) -> Result<()> {
        if let Some(places) = self.listed(lane, c)? {
            let mut bytes = vec![0; places.len() * self.walk.elem];
            numeric::store_bits(self.dtype, src, &mut bytes)?;
            return self.put(lane, c, &places, &bytes);
        }
        let (s, p, b, n) = self.row(c);
        numeric::scatter_bits(self.dtype, lane.mem.row_mut(s, p, b, n)?, &self.local(), src)
    }
}

//! What the vector opcodes share: field decoding, the footprint and cost builder, engine rules.

use smallvec::SmallVec;

use crate::engine::cost::{CostQuery, CostRow, Operands, Operation};
use crate::engine::indirection::{same_partition, scatter_beside};
use crate::engine::{Env, Lane, Operand, Outcome, Prepared, Work};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Engine, Field, Generation, e};
use crate::memory::{Access, Space};
use crate::numeric::{AluOp, CANONICAL_NAN, Dtype};

use super::scalar::Scalar;

/// The dtype in a full-byte field.
pub(super) fn dtype(env: &Env<'_>, field: Field) -> Result<Dtype> {
    Dtype::from_code(env.generation(), env.inst.get(field) as u8)
}

/// The two dtypes of a pair field: low nibble, high nibble.
pub(super) fn dtype_pair(env: &Env<'_>, field: Field) -> Result<(Dtype, Dtype)> {
    let (low, high) = env.inst.dtype_pair(field);
    Ok((Dtype::from_code(env.generation(), low)?, Dtype::from_code(env.generation(), high)?))
}

/// The ALU operation in `field`.
pub(super) fn alu(env: &Env<'_>, field: Field) -> Result<AluOp> {
    AluOp::from_code(env.generation(), env.inst.get(field) as u8)
}

/// The number of active channels in `field`.
pub(super) fn channels(env: &Env<'_>, field: Field) -> u32 {
    env.inst.get(field) as u32
}

/// Elements of an operand in one channel beyond which an instruction is refused. A row holds far
/// fewer; only patterns that repeat elements come near, and a damaged word must not exhaust the
/// host's memory.
const MAX_ELEMENTS: usize = 1 << 23;

/// The tensor operand in `field`.
///
/// # Errors
/// As [`Operand::any_form`].
pub(super) fn operand(env: &Env<'_>, field: Field, dtype: Dtype, channels: u32) -> Result<Operand> {
    checked(field, Operand::any_form(env, field, dtype, channels)?)
}

/// As [`operand`] for one that is never in PSUM, see [`Operand::in_sbuf`].
pub(super) fn sbuf_operand(
    env: &Env<'_>,
    field: Field,
    dtype: Dtype,
    channels: u32,
) -> Result<Operand> {
    checked(field, Operand::in_sbuf(env, field, dtype, channels)?)
}

fn checked(field: Field, operand: Operand) -> Result<Operand> {
    if operand.len() > MAX_ELEMENTS {
        return Err(Error::new(
            ErrorClass::LimitReached,
            format!("operand `{}` has {} elements in one channel", field.name, operand.len()),
        ));
    }
    Ok(operand)
}

/// `reverse_operands`: whether the first and the second operation swap their operands
/// (wiki: firmware/kernels/tensor-scalar).
pub(super) fn reverse(env: &Env<'_>, field: Field) -> Result<(bool, bool)> {
    let code = env.inst.get(field);
    if code > 3 {
        return Err(Error::illegal(
            "is_valid_enum",
            format!("reverse_operands {code} is none of None, First, Second, Both"),
        ));
    }
    Ok((code & 1 != 0, code & 2 != 0))
}

/// How many of the innermost dimensions a TENSOR_SUBDIM names; 0 for UNUSED.
pub(super) fn subdim(env: &Env<'_>, field: Field) -> Result<usize> {
    let code = env.inst.get(field) as u8;
    let (first, last) = match env.generation() {
        Generation::V1 => (e::v1_tensor_subdim::X, e::v1_tensor_subdim::XYZW),
        _ => (e::tensor_subdim::X, e::tensor_subdim::XYZW),
    };
    match code {
        0 => Ok(0),
        c if (first..=last).contains(&c) => Ok(usize::from(c - first) + 1),
        c => Err(Error::illegal("is_valid_subdim", format!("dimension group {c} is not defined"))),
    }
}

/// Elements of one group of the innermost `dims` dimensions.
pub(super) fn group_len(operand: &Operand, dims: usize) -> usize {
    operand.walk.dims.iter().take(dims).map(|d| d.1 as usize).product::<usize>().max(1)
}

/// Requires equal element counts.
pub(super) fn same_count(a: &Operand, b: &Operand) -> Result<()> {
    require_count(b, a.len())
}

/// Requires `operand` to have `count` elements per channel.
pub(super) fn require_count(operand: &Operand, count: usize) -> Result<()> {
    if operand.len() == count {
        return Ok(());
    }
    Err(Error::illegal(
        "same_src_dst_count",
        format!("an operand has {} elements per channel where {count} are needed", operand.len()),
    ))
}

/// Requires a channel count of whole 32-channel quadrants
/// (wiki: firmware/kernels/stream-transpose).
pub(super) fn require_quadrants(channels: u32) -> Result<()> {
    if channels != 0 && channels.is_multiple_of(32) {
        return Ok(());
    }
    Err(Error::illegal(
        "num_active_channels",
        format!("{channels} channels are not whole quadrants of 32"),
    ))
}

/// Whether the instruction runs on the programmable cores of POOL rather than on DVE or the
/// fixed-function pool of V1.
pub(super) fn on_pool_cores(env: &Env<'_>) -> bool {
    env.engine == Engine::Pool && env.generation() != Generation::V1
}

/// Refuses an operation that this engine cannot do: powers, roots, checksums, argument searches
/// and native integers belong to POOL; from v5 on DVE has a subset of the integers
/// (wiki: firmware/kernels/tensor-tensor, firmware/kernels/tensor-reduce).
pub(super) fn engine_has(env: &Env<'_>, op: AluOp) -> Result<()> {
    let special = matches!(op, AluOp::Pow | AluOp::Rsqrt | AluOp::Crc32);
    let v5_integer = env.generation() >= Generation::V5 && op.is_int_dve_v5();
    if (special || op.is_integer_band() && !v5_integer) && env.engine != Engine::Pool {
        return Err(Error::illegal(
            "engine_op",
            format!("{op} exists on POOL only, not on {:?}", env.engine),
        ));
    }
    Ok(())
}

/// Requires a bit-vector operation that this engine has.
pub(super) fn bitvec(env: &Env<'_>, op: AluOp) -> Result<()> {
    if !op.is_bitvec() {
        return Err(Error::illegal("is_bitvec_op", format!("{op} is no bit-vector operation")));
    }
    engine_has(env, op)
}

/// Requires an integer dtype.
pub(super) fn require_int(dtype: Dtype) -> Result<()> {
    if dtype.is_int() {
        return Ok(());
    }
    Err(Error::illegal("is_valid_int_dtype", format!("{dtype} is not an integer dtype")))
}

/// Requires equal dtypes, for the operations that only move bits.
pub(super) fn same_dtype(a: Dtype, b: Dtype) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(Error::illegal("in_dtype == out_dtype", format!("{a} is moved as bits into {b}")))
}

/// -0.0 and every number unchanged, any NaN the canonical one: results must not depend on which
/// NaN the host's arithmetic produces.
#[inline(always)]
pub(super) fn canonical(x: f32) -> f32 {
    if x.is_nan() { CANONICAL_NAN } else { x }
}

/// The order in which channels are processed. All channels run at once on the hardware, each
/// reading before it writes. Where a source shares bytes with the destination on another channel,
/// the order is chosen so that the source is read first.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelOrder {
    channels: u32,
    descending: bool,
}

impl ChannelOrder {
    /// Channels in processing order.
    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        let n = self.channels;
        (0..n).map(move |i| if self.descending { n - 1 - i } else { i })
    }
}

/// Collects footprint and operand layout of one instruction.
pub(super) struct Plan<'e, 'a> {
    env: &'e Env<'a>,
    accesses: SmallVec<[Access; 4]>,
    operands: Operands,
    sources: SmallVec<[Operand; 4]>,
    dests: SmallVec<[Operand; 2]>,
    /// Memory and partition of the first tensor source, or of its offsets.
    lead: Option<(Space, u32)>,
    flops: u64,
}

impl<'e, 'a> Plan<'e, 'a> {
    pub(super) fn new(env: &'e Env<'a>) -> Self {
        Plan {
            env,
            accesses: SmallVec::new(),
            operands: Operands::new(),
            sources: SmallVec::new(),
            dests: SmallVec::new(),
            lead: None,
            flops: 0,
        }
    }

    /// POOL's cores have no path to PSUM (wiki: firmware/kernels/pool-compute-misc).
    fn reachable(&self, operand: &Operand) -> Result<()> {
        if operand.space == Space::Psum && on_pool_cores(self.env) {
            return Err(Error::illegal("pool_psum", "POOL cannot access PSUM"));
        }
        Ok(())
    }

    /// Adds a tensor source.
    pub(super) fn source(mut self, operand: &Operand) -> Result<Self> {
        self.reachable(operand)?;
        operand.cost_source(self.env, &mut self.operands);
        self.accesses.push(operand.read());
        self.accesses.extend(operand.offsets_read());
        same_partition(operand)?;
        self.lead.get_or_insert(match operand.offsets_partition() {
            Some(partition) => (Space::Sbuf, partition),
            None => (operand.space, operand.partition),
        });
        self.sources.push(operand.clone());
        Ok(self)
    }

    /// Adds a scalar; one that travels in the word touches nothing.
    pub(super) fn scalar(mut self, scalar: &Scalar) -> Result<Self> {
        if let Scalar::Pointer(operand) = scalar {
            self.reachable(operand)?;
            self.accesses.push(operand.read());
            self.sources.push(operand.clone());
        }
        Ok(self)
    }

    /// Adds a destination whose every element is written.
    pub(super) fn dest(mut self, operand: &Operand) -> Result<Self> {
        self.reachable(operand)?;
        operand.cost_dest(self.env, &mut self.operands);
        scatter_beside(operand, self.lead)?;
        self.accesses.extend(operand.offsets_read());
        self.accesses.push(operand.write());
        self.dests.push(operand.clone());
        Ok(self)
    }

    /// Adds a destination of which data decides what is written.
    pub(super) fn dest_maybe(mut self, operand: &Operand) -> Result<Self> {
        self = self.dest(operand)?;
        if let Some(access) = self.accesses.pop() {
            self.accesses.push(access.maybe());
        }
        Ok(self)
    }

    /// States what is computed, where the rate depends on it.
    pub(super) fn operation(mut self, operation: impl Into<Operation>) -> Self {
        self.operands.operation = operation.into();
        self
    }

    /// States floating-point operations.
    pub(super) fn flops(mut self, flops: u64) -> Self {
        self.flops = flops;
        self
    }

    /// Processing order of `channels` channels.
    ///
    /// # Errors
    /// Undefined behaviour where no order lets every source be read before it is overwritten.
    pub(super) fn order(&self, channels: u32) -> Result<ChannelOrder> {
        let (mut up, mut down) = (false, false);
        for dst in &self.dests {
            for src in &self.sources {
                if src.space != dst.space
                    || src.partition == dst.partition
                    || !src.region().overlaps(&dst.region())
                {
                    continue;
                }
                if src.partition < dst.partition {
                    down = true;
                } else {
                    up = true;
                }
            }
        }
        if up && down {
            return Err(Error::undefined(
                "overlapping operands",
                "the destination overlaps one source on earlier and one on later channels",
            ));
        }
        Ok(ChannelOrder { channels, descending: down })
    }

    /// The work: `elements` per channel at cost `row`, effect `run`.
    pub(super) fn work(
        self,
        row: CostRow,
        elements: usize,
        run: impl Fn(&mut Lane<'_>) -> Result<Outcome> + Send + Sync + 'static,
    ) -> Result<Prepared> {
        let cost = CostQuery::new(row, elements as u64, self.operands);
        Ok(Work::new(self.accesses, cost, run).flops(self.flops).into())
    }
}

/// The value of a kept per-channel state, all `fill` before the first use.
pub(super) fn state_rows<T: Clone>(rows: &mut Vec<T>, channels: u32, fill: T) -> &mut [T] {
    if rows.len() < channels as usize {
        rows.resize(channels as usize, fill);
    }
    rows
}

//! From what an instruction does to how long it takes. All figures come from the configuration.
//!
//! The form of the model, `docs/timing.md`: an instruction occupies its engine for `work` cycles,
//! the next may start `gap` cycles later, and its results are there `fixed` after the work.

use crate::isa::Engine;
use crate::machine::config::MachineConfig;
use crate::memory::Space;
use crate::numeric::AluOp;

/// A row of the cost table `[cost]` of the configuration: which formula an instruction follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CostRow {
    /// PE weight load: `elements` = columns.
    LoadWeights,
    /// PE matmul: `elements` = moving columns.
    Matmul,
    /// ACT activation.
    Activation,
    /// ACT activation with accumulator read-out.
    ActivationReduce,
    /// ACT table load.
    TableLoad,
    /// Copy or cast.
    Copy,
    /// One tensor, up to two scalars.
    TensorScalar,
    /// Tensor-scalar with a reduction.
    TensorScalarReduce,
    /// Two tensors.
    TensorTensor,
    /// Two tensors and a scalar.
    ScalarTensorTensor,
    /// Scan along the free dimension.
    Scan,
    /// Reduction along free dimensions.
    Reduce,
    /// Predicated copy or select.
    Predicated,
    /// Fill.
    Memset,
    /// Reciprocal.
    Reciprocal,
    /// Transpose or shuffle across partitions.
    Shuffle,
    /// Batch-norm statistics.
    BnStats,
    /// Batch-norm aggregation.
    BnAggregate,
    /// Max8, find-index, match-replace.
    Search,
    /// Iota, affine select and other index generators.
    Generate,
    /// Local gather.
    Gather,
    /// Pooling windows.
    Pool,
    /// Random numbers.
    Random,
    /// Quantise and dequantise.
    Quantize,
    /// Loads of engine tables and registers.
    StateLoad,
    /// Anything without a published cost.
    Other,
}

/// What an instruction computes, as far as a rate depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Anything else.
    #[default]
    Other,
    /// Sum.
    Add,
    /// Product.
    Mult,
    /// Difference.
    Subtract,
    /// The larger.
    Max,
    /// A difference, then a product.
    SubtractMult,
    /// A fill with zero.
    Zero,
}

impl From<AluOp> for Operation {
    fn from(op: AluOp) -> Self {
        match op {
            AluOp::Add => Operation::Add,
            AluOp::Mult => Operation::Mult,
            AluOp::Subtract => Operation::Subtract,
            AluOp::Max => Operation::Max,
            _ => Operation::Other,
        }
    }
}

/// Where the operands lie and how they are laid out: what the fast modes depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// Some source is in SBUF.
    pub source_sbuf: bool,
    /// Some source is in PSUM.
    pub source_psum: bool,
    /// The destination is in PSUM.
    pub dest_psum: bool,
    /// Every operand has a 16-bit floating-point type.
    pub all_16bit_float: bool,
    /// Every operand has an 8-bit floating-point type or a 16-bit one.
    pub all_small_float: bool,
    /// Every operand has elements of 16 bits.
    pub all_16bit: bool,
    /// Every source has a 16-bit floating-point type.
    pub sources_16bit_float: bool,
    /// Every source has elements of 8 bits that are integers.
    pub sources_8bit_int: bool,
    /// What is computed.
    pub operation: Operation,
    /// Every operand's innermost dimension is contiguous.
    pub contiguous: bool,
    /// Some operand's innermost stride is above the configured wide stride.
    pub wide_stride: bool,
    /// An address or a shape came from a register.
    pub dynamic: bool,
}

impl Operands {
    /// Adds a source operand: memory, element bytes, whether it is a float, innermost step in bytes.
    pub fn source(
        &mut self,
        space: Space,
        size: usize,
        float: bool,
        step: i64,
        config: &MachineConfig,
    ) {
        match space {
            Space::Sbuf => self.source_sbuf = true,
            Space::Psum => self.source_psum = true,
            Space::Hbm => {}
        }
        self.sources_16bit_float &= float && size == 2;
        self.sources_8bit_int &= !float && size == 1;
        self.operand(size, float, step, config);
    }

    /// Adds the destination operand.
    pub fn dest(
        &mut self,
        space: Space,
        size: usize,
        float: bool,
        step: i64,
        config: &MachineConfig,
    ) {
        self.dest_psum |= space == Space::Psum;
        self.operand(size, float, step, config);
    }

    fn operand(&mut self, size: usize, float: bool, step: i64, config: &MachineConfig) {
        self.all_16bit_float &= float && size == 2;
        self.all_small_float &= float && size <= 2;
        self.all_16bit &= size == 2;
        self.contiguous &= step == size as i64 || step == 0;
        self.wide_stride |= step.unsigned_abs() > config.cost.wide_stride_bytes;
    }

    /// No operand yet: every "all" holds.
    pub fn new() -> Self {
        Operands {
            all_16bit_float: true,
            all_small_float: true,
            all_16bit: true,
            sources_16bit_float: true,
            sources_8bit_int: true,
            contiguous: true,
            ..Default::default()
        }
    }
}

/// What the duration of a work depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostQuery {
    /// Formula.
    pub row: CostRow,
    /// Elements per partition of the widest operand (columns for PE).
    pub elements: u64,
    /// Passes over the data (PE fp32 modes, batch-norm); 1 for most.
    pub passes: u32,
    /// Layout of the operands.
    pub operands: Operands,
    /// Cells of the PE array that it uses, see [`crate::machine::array`].
    pub cells: u16,
    /// Of a gather in blocks: elements of a block and bytes of an element.
    pub block: Option<(u32, u32)>,
}

/// All cells of the PE array.
pub const ALL_CELLS: u16 = u16::MAX;

impl CostQuery {
    /// `elements` per partition by formula `row`, one pass, over the whole PE array.
    pub fn new(row: CostRow, elements: u64, operands: Operands) -> Self {
        CostQuery { row, elements, passes: 1, operands, cells: ALL_CELLS, block: None }
    }

    /// States the cells of the PE array.
    pub fn cells(mut self, cells: u16) -> Self {
        self.cells = cells;
        self
    }

    /// States that elements of `size` bytes are gathered in blocks of `elements`.
    pub fn block(mut self, elements: usize, size: usize) -> Self {
        self.block = Some((elements as u32, size as u32));
        self
    }

    /// States the number of passes.
    pub fn passes(mut self, passes: u32) -> Self {
        self.passes = passes;
        self
    }
}

/// Duration of a work in cycles of its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Cycles the data path is occupied.
    pub work: u64,
    /// Cycles from the end of the work to the earliest start of the next one.
    pub gap: u64,
    /// Cycles from the end of the work until its results are observed.
    pub fixed: u64,
}

/// The cost of `query` on `engine`.
pub fn cost(query: &CostQuery, engine: Engine, config: &MachineConfig) -> Cost {
    let e = config.engine(engine);
    let rows = &config.cost;
    let row = rows.row(query.row);
    let mut data = match (query.block, &row.per_index) {
        (Some(block), Some(rate)) => rate.cycles(query.elements, block),
        _ => {
            let (num, den) = match e.fast_rates {
                true => row.rate(&query.operands, query.elements, engine),
                false => (row.rate[0], row.rate[1].max(1)),
            };
            (query.elements * u64::from(query.passes) * num).div_ceil(den)
        }
    };
    if query.operands.wide_stride {
        data *= rows.wide_stride_factor;
    }
    let mut work = e.start_cycles + row.base + data;
    if query.operands.dynamic {
        work = work.max(rows.dynamic_min_cycles);
    }
    Cost { work, gap: row.gap.unwrap_or(e.gap_cycles), fixed: row.fixed.unwrap_or(e.fixed_cycles) }
}

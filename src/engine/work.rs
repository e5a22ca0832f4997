//! What an instruction of a data-path engine becomes: its footprint, its cost and its effect.
//!
//! Every data-path opcode is one function `fn mnemonic(env: &Env<'_>) -> Result<Prepared>`, named
//! as the mnemonic and listed in the dispatch table of [`crate::engine`]. It decodes the operands,
//! raises the run-time faults that need no data, and returns a [`Work`] (or, for the DMA opcodes,
//! a [`DmaRequest`]). The machine decides when the work starts in simulated time and which host
//! thread runs [`Work::run`].

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::cost::CostQuery;
use super::state::EngineState;
use crate::error::{Error, Result};
use crate::isa::{Engine, Generation, Inst};
use crate::machine::config::MachineConfig;
use crate::memory::{Access, Geometry, Lease, Region};

/// Everything an instruction may ask for while its operands are decoded.
pub struct Env<'a> {
    /// The instruction word.
    pub inst: &'a Inst,
    /// The engine in whose stream it stands.
    pub engine: Engine,
    /// Configuration of the machine.
    pub config: &'a MachineConfig,
    /// General registers R0..R63 of this engine's sequencer.
    pub registers: &'a [u32; 64],
    /// Tensor-shape registers (counts and steps of up to four dimensions).
    pub shapes: &'a [ShapeRegister; 4],
    /// Set when a register was read: the work then depends on more than the word.
    pub used_registers: Cell<bool>,
}

/// A tensor-shape register: four counts and four signed steps in elements.
/// (wiki: dma/gather-scatter-descriptors)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ShapeRegister {
    /// Elements per dimension, X first.
    pub num: [u16; 4],
    /// Step per dimension in elements, X first.
    pub step: [i32; 4],
}

impl Env<'_> {
    /// Generation of the machine.
    pub fn generation(&self) -> Generation {
        self.inst.generation
    }

    /// Memory geometry of the machine.
    pub fn geometry(&self) -> &Geometry {
        &self.config.geometry
    }

    /// Value of general register `n`.
    ///
    /// # Errors
    /// `register_specifier` if there is no such register. (wiki: firmware/kernels/move-dtype)
    pub fn register(&self, n: u8) -> Result<u32> {
        self.used_registers.set(true);
        self.registers.get(usize::from(n)).copied().ok_or_else(|| {
            Error::illegal("register_specifier", format!("there is no register R{n}"))
        })
    }

    /// Tensor-shape register `n`.
    ///
    /// # Errors
    /// `shape_register` if there is no such register.
    pub fn shape_register(&self, n: u8) -> Result<ShapeRegister> {
        self.used_registers.set(true);
        self.shapes.get(usize::from(n)).copied().ok_or_else(|| {
            Error::illegal("shape_register", format!("there is no shape register {n}"))
        })
    }
}

/// The effect of a work: reads its sources, computes, writes its results.
pub type RunFn = dyn Fn(&mut Lane<'_>) -> Result<Outcome> + Send + Sync;

/// One prepared instruction or transfer.
#[derive(Clone)]
pub struct Work {
    /// Every byte it may touch. A lease refuses anything else.
    pub accesses: SmallVec<[Access; 4]>,
    /// What its duration depends on.
    pub cost: CostQuery,
    /// Its effect.
    pub run: Arc<RunFn>,
    /// Floating-point operations it performs, for the summary.
    pub flops: u64,
    /// Bytes that need no defined old value from now on, whoever adds to them first: the zero
    /// region of a matmul group. They are not touched and take no part in ordering.
    pub opens: Option<Box<Region>>,
    /// True if its duration or a register result comes out of running it: the sequencer then
    /// waits for the [`Outcome`].
    pub needs_outcome: bool,
    /// False if the footprint is so wide a guess that the race check must not judge it.
    pub judged: bool,
    /// What it touched when it ran, where only running it tells.
    pub observed: Option<Arc<[Access]>>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work")
            .field("accesses", &self.accesses)
            .field("cost", &self.cost)
            .field("flops", &self.flops)
            .finish_non_exhaustive()
    }
}

impl Work {
    /// A work with the given footprint, cost and effect.
    pub fn new(
        accesses: impl IntoIterator<Item = Access>,
        cost: CostQuery,
        run: impl Fn(&mut Lane<'_>) -> Result<Outcome> + Send + Sync + 'static,
    ) -> Self {
        Work {
            accesses: accesses.into_iter().collect(),
            cost,
            run: Arc::new(run),
            flops: 0,
            opens: None,
            needs_outcome: false,
            judged: true,
            observed: None,
        }
    }

    /// What conflicts are about: the accesses that were observed, or else the footprint.
    pub fn touched(&self) -> &[Access] {
        self.observed.as_deref().unwrap_or(&self.accesses)
    }

    /// The work with what it touched when it ran: the race check can judge it.
    pub fn with_observed(&self, touched: Arc<[Access]>) -> Self {
        Work { observed: Some(touched), judged: true, ..self.clone() }
    }

    /// States the floating-point operations.
    pub fn flops(mut self, flops: u64) -> Self {
        self.flops = flops;
        self
    }

    /// States the bytes whose accumulation starts afresh.
    pub fn opens(mut self, region: Option<Region>) -> Self {
        self.opens = region.map(Box::new);
        self
    }

    /// Exempts the work from the race check until it is known what it touches.
    pub fn unjudged(mut self) -> Self {
        self.judged = false;
        self
    }

    /// Makes the sequencer wait for the outcome.
    pub fn with_outcome(mut self) -> Self {
        self.needs_outcome = true;
        self
    }
}

/// What an instruction turns into.
#[expect(clippy::large_enum_variant, reason = "made once per word and moved into an Arc at once")]
pub enum Prepared {
    /// Work for the engine's own data path.
    Work(Work),
    /// Transfers for the DMA engines; the instruction itself retires once they are queued.
    Dma(DmaRequest),
}

impl From<Work> for Prepared {
    fn from(work: Work) -> Self {
        Prepared::Work(work)
    }
}

/// One copy that the DMA engines do.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Footprint and effect. Its cost query is not used: the DMA model times transfers by bytes.
    pub work: Work,
    /// Bytes moved.
    pub bytes: u64,
    /// SBUF partitions on the on-chip side (they decide how many DMA engines share the copy).
    pub partitions: u32,
    /// Whether data comes from HBM.
    pub load: bool,
    /// Contiguous runs on the finer side: descriptors the copy needs.
    pub descriptors: u64,
    /// Bytes read from and written to HBM.
    pub hbm_bytes: u64,
    /// Rows that are not adjacent to the one before them in HBM.
    pub hbm_rows: u64,
    /// What happens on the way.
    pub pace: Pace,
}

/// What a DMA engine does with the elements it moves, as far as its rate depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Pace {
    /// Copies them.
    #[default]
    Copy,
    /// Transposes tiles.
    Transpose,
    /// Combines them with the destination.
    Compute,
}

/// A DMA instruction: transfers in order, then semaphore increments.
#[derive(Clone, Debug)]
pub struct DmaRequest {
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// Semaphores and increments applied when the last byte is written.
    pub semaphores: SmallVec<[(u16, u32); 2]>,
}

/// What running a work reports back to the sequencer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Registers to write: (number, value).
    pub registers: SmallVec<[(u8, u32); 4]>,
    /// Duration in cycles of the engine, where only running it can tell.
    pub cycles: Option<u64>,
    /// Cycles of each Q7 core, where library code ran.
    pub cores: Option<[u64; 8]>,
    /// Cores that got a library (one bit each) and the bytes that each fetched.
    pub loaded: Option<(u8, u32)>,
    /// What was touched, where only running it tells.
    pub touched: Option<Arc<[Access]>>,
    /// A condition the hardware reports without stopping (floating-point error code, notification).
    pub notice: Option<String>,
}

impl Outcome {
    /// Nothing to report.
    pub fn none() -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

/// What a work has at hand while it runs.
pub struct Lane<'a> {
    /// The bytes of its footprint.
    pub mem: Lease<'a>,
    /// State of its engine that survives between instructions.
    pub state: &'a mut EngineState,
    /// Buffers that keep their capacity from one work to the next.
    pub scratch: &'a mut Scratch,
}

/// Reusable buffers of one engine thread: no allocation per instruction in steady state.
#[derive(Default)]
pub struct Scratch {
    /// Rows of FP32 values.
    pub f32: [Vec<f32>; 6],
    /// Rows of integer values.
    pub i64: [Vec<i64>; 4],
    /// Rows of raw bits.
    pub bits: [Vec<u64>; 4],
    /// Bytes.
    pub bytes: [Vec<u8>; 4],
}

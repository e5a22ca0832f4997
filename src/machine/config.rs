//! The configuration of a machine: geometry, clocks, costs and open choices of one generation.
//!
//! The built-in ones are `configs/*.toml`; `--config FILE` replaces one. Every figure a run
//! depends on stands there, none in the code.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::cost::{CostRow, Operands, Operation};
use crate::engine::{EngineState, Pace};
use crate::error::{Error, ErrorClass, Result};
use crate::isa::{Engine, Generation};
use crate::memory::Geometry;
use crate::numeric::{Fp8Config, Rounding};

/// Configuration of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineConfig {
    /// Generation name, `v1` .. `v5`.
    pub generation: String,
    /// Memory sizes.
    pub geometry: Geometry,
    /// Clock, latency and queue of PE.
    pub pe: EngineConfig,
    /// Clock, latency and queue of ACT.
    pub act: EngineConfig,
    /// Clock, latency and queue of POOL.
    pub pool: EngineConfig,
    /// Clock, latency and queue of DVE.
    pub dve: EngineConfig,
    /// Clock, latency and queue of SP.
    pub sp: EngineConfig,
    /// Events and semaphores.
    pub sync: SyncConfig,
    /// Device addresses of on-chip regions.
    pub address_map: AddressMap,
    /// Sequencer timing.
    pub sequencer: SequencerConfig,
    /// Cost formulas.
    pub cost: CostConfig,
    /// Memory ports that engines share.
    pub ports: PortConfig,
    /// The power limit of PE.
    pub power: PowerConfig,
    /// DMA engines and HBM.
    pub dma: DmaConfig,
    /// The cores of POOL that run library code.
    pub q7: Q7Config,
    /// What a published device time holds beside the program.
    pub launch: LaunchConfig,
    /// Conversions between dtypes. A program may choose its own.
    #[serde(default)]
    pub numerics: Numerics,
}

/// How conversions treat FP8 and round. The vendor's container carries the FP8 settings of a
/// program; rounding is a switch of its runtime (wiki: neff/format-reference; vendor:
/// about-neuron/arch/neuron-features/rounding-modes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Numerics {
    /// FP8 settings.
    pub fp8: Fp8Config,
    /// Floating-point results of ACT, POOL, DVE and DMA conversions are rounded stochastically, by
    /// the engine's output generator of the partition (OPEN: vendor's runtime switch; the
    /// generator is inferred from the state that RAND_SET_STATE names). V1 has no such rounding.
    pub stochastic_rounding: bool,
}

impl Numerics {
    /// Calls `f` with the rounding of the unit whose state is `state`: the generator of its first
    /// partition where rounding is stochastic (OPEN: the DMA engines have a seed for each queue,
    /// whose place is not published).
    pub fn rounded<R>(&self, state: &mut EngineState, f: impl FnOnce(Rounding<'_>) -> R) -> R {
        if self.stochastic_rounding {
            let random = &mut state.indirect.random;
            random.with_output_lfsr(0, |lfsr| f(Rounding::Stochastic(lfsr)))
        } else {
            f(Rounding::NearestEven)
        }
    }

    /// These settings with what a program's `key value` pairs choose: `fp8_sis`, `fp8_sns`,
    /// `fp8_range_extension`, `emax_fp8_e4m3`, `emax_fp8_e5m2`, `stochastic_rounding`.
    ///
    /// # Errors
    /// Program error for a value that is no number of the setting's range.
    pub fn chosen(mut self, pairs: &BTreeMap<String, String>) -> Result<Numerics> {
        let number = |key: &str, most: u8| -> Result<Option<u8>> {
            let Some(text) = pairs.get(key) else { return Ok(None) };
            match text.trim().parse::<u8>() {
                Ok(n) if n <= most => Ok(Some(n)),
                _ => Err(Error::new(
                    ErrorClass::ProgramError,
                    format!("`{key}` is a number from 0 to {most}, not `{text}`"),
                )),
            }
        };
        let set = |to: &mut bool, key: &str| -> Result<()> {
            *to = number(key, 1)?.map_or(*to, |n| n != 0);
            Ok(())
        };
        set(&mut self.fp8.saturate, "fp8_sis")?;
        set(&mut self.fp8.nan_suppress, "fp8_sns")?;
        set(&mut self.fp8.range_extension, "fp8_range_extension")?;
        set(&mut self.stochastic_rounding, "stochastic_rounding")?;
        self.fp8.emax_e4m3 = number("emax_fp8_e4m3", 8)?.unwrap_or(self.fp8.emax_e4m3);
        self.fp8.emax_e5m2 = number("emax_fp8_e5m2", 15)?.unwrap_or(self.fp8.emax_e5m2);
        Ok(self)
    }
}

/// Clock, latency and queue of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// Clock in Hz.
    pub hz: u64,
    /// Whether the faster rates of the cost table hold on it: they are published for the others.
    #[serde(default = "yes")]
    pub fast_rates: bool,
    /// Cycles that every instruction needs before its first element.
    #[serde(default)]
    pub start_cycles: u64,
    /// Cycles from the end of the work to visible results.
    pub fixed_cycles: u64,
    /// Cycles between the work of one instruction and the start of the next.
    pub gap_cycles: u64,
    /// Cycles from the end of the work until a later instruction of the same engine can read the
    /// results.
    pub forward_cycles: u64,
    /// Cycles from the start until the first sources are read and read-done may fire; the reads
    /// are done this long after the work ended.
    pub read_latency_cycles: u64,
    /// Instructions that may wait between sequencer and data path.
    pub queue_depth: usize,
}

fn yes() -> bool {
    true
}

/// Events and semaphores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncConfig {
    /// Number of one-bit events (0 on v5).
    pub events: u32,
    /// Number of semaphores.
    pub semaphores: u32,
    /// Largest value of a semaphore; counting past it wraps and is reported.
    pub semaphore_max: u32,
    /// From the end of an instruction to its update being visible, ps.
    pub update_visible_ps: u64,
    /// From a visible update to the start of the instruction that waited, ps.
    pub wake_ps: u64,
}

/// Device addresses at which sequencers see on-chip regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressMap {
    /// State buffer.
    pub sbuf: u64,
    /// Partial-sum buffer.
    pub psum: u64,
    /// Event and semaphore unit.
    pub events: u64,
    /// First byte of HBM that the emulator maps.
    pub hbm: u64,
}

impl AddressMap {
    /// Offset of a device address in the HBM that the emulator maps.
    ///
    /// # Errors
    /// `device_address` below its base.
    pub fn hbm_offset(&self, address: u64) -> Result<u64> {
        address.checked_sub(self.hbm).ok_or_else(|| {
            Error::illegal("device_address", format!("device address {address:#x} is not in HBM"))
        })
    }
}

/// Sequencer timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequencerConfig {
    /// Cycles between two words of a stream at best.
    pub issue_cycles: u64,
    /// Cycles a sequencer instruction takes (moves, branches, events).
    pub control_cycles: u64,
    /// Time of an EVENT_SEMAPHORE instruction, ps.
    pub event_semaphore_ps: u64,
    /// Cycles a taken branch costs on top.
    pub branch_cycles: u64,
    /// Cycles of a NOP that stands for a DMA barrier, NOP(NUM_ROWS).
    pub dma_barrier_cycles: u64,
    /// Time of a write to a DMA doorbell, ps.
    pub doorbell_ps: u64,
    /// Whether a DMA trigger waits for the older instructions of its stream, as compiled V1
    /// programs rely on.
    pub doorbell_drains: bool,
    /// Round-trip time of a register load from memory, ps.
    pub memory_load_ps: u64,
}

/// One cost formula: `work = base + elements * num / den`, with faster rates for some layouts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostFormula {
    /// Cycles before the first element.
    #[serde(default)]
    pub base: u64,
    /// Cycles per element as [numerator, denominator].
    pub rate: [u64; 2],
    /// Faster rates, the first whose condition holds is taken.
    #[serde(default)]
    pub fast: Vec<FastRate>,
    /// Cycles of a gather in blocks, instead of the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_index: Option<PerIndex>,
    /// Cycles between this and the next instruction, if not the engine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<u64>,
    /// Cycles from work to result, if not the engine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<u64>,
}

/// Cycles of a gather: each index costs `(overhead + t x e) / t`, divided by the elements that fit
/// a word of `word_bytes`, for blocks of `e` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerIndex {
    /// What an index costs beside its elements, in the unit of `per_element`.
    pub overhead: u64,
    /// The constant t.
    pub per_element: u64,
    /// Bytes moved at once.
    pub word_bytes: u64,
}

impl PerIndex {
    /// Cycles for `elements` in blocks of `block` = (elements, bytes of one).
    pub fn cycles(&self, elements: u64, (block, size): (u32, u32)) -> u64 {
        let (e, size) = (u64::from(block).max(1), u64::from(size).max(1));
        let t = self.per_element.max(1);
        let packed = (self.word_bytes / size).clamp(1, e);
        (elements.div_ceil(e) * (self.overhead + t * e)).div_ceil(t * packed)
    }
}

/// A rate that holds under conditions on the operands. An absent condition always holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FastRate {
    /// Cycles per element as [numerator, denominator].
    pub rate: [u64; 2],
    /// Whether all operands must be (or must not be) in SBUF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_sbuf: Option<bool>,
    /// Whether one source must be in SBUF and another in PSUM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed_sources: Option<bool>,
    /// Whether all operands must be 16-bit floats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_16bit_float: Option<bool>,
    /// Whether all operands must be floats of at most 16 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_small_float: Option<bool>,
    /// Whether all operands must have elements of 16 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_16bit: Option<bool>,
    /// Whether all sources must be 16-bit floats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources_16bit_float: Option<bool>,
    /// Whether all sources must be 8-bit integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources_8bit_int: Option<bool>,
    /// Whether all operands must be contiguous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contiguous: Option<bool>,
    /// Whether the number of elements must be even.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub even: Option<bool>,
    /// Operations that have the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<Operation>>,
    /// The engine that has the rate, if not all have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Whether it is a rate of DVE that takes the bus shared with POOL, see [`PortConfig`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared_bus: bool,
}

impl FastRate {
    fn holds(&self, o: &Operands, elements: u64, engine: Engine) -> bool {
        let test = |want: Option<bool>, have: bool| want.is_none_or(|w| w == have);
        self.engine.is_none_or(|e| e == engine)
            && (!self.shared_bus || engine == Engine::Dve)
            && test(self.all_sbuf, !o.source_psum && !o.dest_psum)
            && test(self.mixed_sources, o.source_psum && o.source_sbuf)
            && test(self.all_16bit_float, o.all_16bit_float)
            && test(self.all_small_float, o.all_small_float)
            && test(self.all_16bit, o.all_16bit)
            && test(self.sources_16bit_float, o.sources_16bit_float)
            && test(self.sources_8bit_int, o.sources_8bit_int)
            && test(self.contiguous, o.contiguous)
            && test(self.even, elements.is_multiple_of(2))
            && self.operations.as_ref().is_none_or(|ops| ops.contains(&o.operation))
    }
}

impl CostFormula {
    fn chosen(&self, o: &Operands, elements: u64, engine: Engine) -> Option<&FastRate> {
        self.fast.iter().find(|f| f.holds(o, elements, engine))
    }

    /// Cycles per element on `engine` for `elements` with operands laid out as `o`.
    pub fn rate(&self, o: &Operands, elements: u64, engine: Engine) -> (u64, u64) {
        let [n, d] = self.chosen(o, elements, engine).map_or(self.rate, |f| f.rate);
        (n, d.max(1))
    }

    /// Whether DVE takes the bus that it shares with POOL.
    pub fn takes_bus(&self, o: &Operands, elements: u64) -> bool {
        self.chosen(o, elements, Engine::Dve).is_some_and(|f| f.shared_bus)
    }
}

/// Cost formulas of all instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostConfig {
    /// Innermost stride above which an interface runs at half rate, bytes.
    pub wide_stride_bytes: u64,
    /// Factor of the work above that stride.
    pub wide_stride_factor: u64,
    /// Least work of an instruction with a dynamic address.
    pub dynamic_min_cycles: u64,
    /// Least PE cycles from the start of a matmul to the start of the next.
    pub matmul_interval_cycles: u64,
    /// PE cycles from the start of a weight load to the earliest start of its matmul.
    pub weights_start_cycles: u64,
    /// PE cycles from the end of the work of a weight load until the array can use the weights.
    pub weights_ready_cycles: u64,
    /// ACT cycles by which the results of the first activation after a table load come later.
    pub after_table_load_cycles: u64,
    /// One formula per row.
    pub rows: BTreeMap<CostRow, CostFormula>,
}

impl CostConfig {
    /// The formula of `row`; rows that are not listed follow `other`.
    pub fn row(&self, row: CostRow) -> &CostFormula {
        self.rows.get(&row).unwrap_or_else(|| &self.rows[&CostRow::Other])
    }
}

/// When DVE and POOL keep each other from SBUF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SbufSharing {
    /// Never.
    Free,
    /// When DVE runs at a rate that takes the shared bus, [`FastRate::shared_bus`].
    Fast,
    /// Always.
    Exclusive,
}

/// When DVE and ACT keep each other from PSUM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PsumSharing {
    /// Never.
    Free,
    /// When both use the same bank.
    Bank,
    /// Always.
    Exclusive,
}

/// Memory ports that engines share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// When DVE and POOL keep each other from SBUF.
    pub dve_pool_sbuf: SbufSharing,
    /// When DVE and ACT keep each other from PSUM.
    pub dve_act_psum: PsumSharing,
}

/// The power limit of PE: while it holds, matmuls take `slow_factor` times their work. It holds
/// after a start and whenever PE was busy for less than half of a window, until PE has worked for
/// a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerConfig {
    /// Whether it is modelled.
    pub limit_pe: bool,
    /// Length of the window, ps.
    pub window_ps: u64,
    /// Factor of the work while it holds.
    pub slow_factor: u64,
    /// Cycles of the latency that are the array's own, and so are stretched too.
    pub array_cycles: u64,
}

/// The cores of POOL that run library code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Q7Config {
    /// Bubble of a taken branch, cycles.
    pub taken_branch_cycles: u32,
    /// Extra cycles of a load over the bus.
    pub bus_load_cycles: u32,
    /// Extra cycles of a store over the bus.
    pub bus_store_cycles: u32,
    /// Stage at which an integer division delivers.
    pub divide_stage: u8,
    /// Bytes of a library image that are fetched in a cycle.
    pub library_bytes_per_cycle: u64,
    /// Cycles of a library load beside the transfer.
    pub library_load_cycles: u64,
}

/// What a published device time holds beside the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchConfig {
    /// Start-up and tear-down around the program, ps. Simulated time does not contain it.
    pub overhead_ps: u64,
}

/// DMA engines and HBM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DmaConfig {
    /// DMA engines that share one copy.
    pub engines: u32,
    /// SBUF partitions one engine serves.
    pub partitions_per_engine: u32,
    /// Bytes per microsecond of one engine for loads (HBM to SBUF).
    pub load_bytes_per_us: u64,
    /// Bytes per microsecond of one engine for stores.
    pub store_bytes_per_us: u64,
    /// Bytes per microsecond of HBM available to the core.
    pub hbm_bytes_per_us: u64,
    /// From the doorbell to the first data byte of a load, ps.
    pub load_start_ps: u64,
    /// From the doorbell to the first data byte of a store, ps.
    pub store_start_ps: u64,
    /// From the last byte to the semaphore being visible for a copy by a ring, ps.
    pub completion_ps: u64,
    /// The same for a copy by an instruction, ps.
    pub dge_completion_ps: u64,
    /// Extra time of an engine per descriptor, ps.
    pub descriptor_ps: u64,
    /// Least time of an engine per descriptor, ps.
    pub descriptor_min_ps: u64,
    /// Extra time of an engine per row that is not adjacent to the one before it in HBM, ps.
    pub hbm_row_ps: u64,
    /// Share of the rate that a transpose out of HBM reaches, percent.
    pub transpose_percent: u64,
    /// Share of the rate that a transpose from SBUF reaches, percent.
    pub sbuf_transpose_percent: u64,
    /// Share of the rate that a copy with arithmetic reaches, percent.
    pub compute_percent: u64,
    /// Issue time of a copy whose descriptors hardware generates, ps.
    pub dge_issue_ps: u64,
    /// Issue time of a copy whose descriptors the POOL cores generate, per started
    /// `swdge_rows` descriptors, ps.
    pub swdge_issue_ps: u64,
    /// Time from the issue of such a copy to its trigger beyond `swdge_issue_ps`, ps: the next one
    /// is prepared meanwhile.
    pub swdge_latency_ps: u64,
    /// Descriptors that `swdge_issue_ps` pays for.
    pub swdge_rows: u64,
    /// From the end of the issue of a DMA instruction to the first byte of a load, ps.
    pub dge_load_start_ps: u64,
    /// From the end of the issue of a DMA instruction to the first byte of a store, ps.
    pub dge_store_start_ps: u64,
    /// Each further engine of a load by an instruction starts this much later, ps.
    pub dge_load_skew_ps: u64,
    /// Each further engine of a store by an instruction starts this much later, ps.
    pub dge_store_skew_ps: u64,
    /// Each further engine of a copy by a ring starts this much later, ps.
    pub ring_skew_ps: u64,
}

impl DmaConfig {
    /// Time that a DMA instruction of `engine` with so many descriptors occupies its engine, ps.
    pub fn issue_ps(&self, engine: Engine, descriptors: u64) -> u64 {
        if engine == Engine::Pool {
            self.swdge_issue_ps * descriptors.div_ceil(self.swdge_rows).max(1)
        } else {
            self.dge_issue_ps
        }
    }

    /// Time from the end of the issue of a DMA instruction of `engine` to its trigger, ps.
    pub fn issue_latency_ps(&self, engine: Engine) -> u64 {
        if engine == Engine::Pool { self.swdge_latency_ps } else { 0 }
    }

    /// From the last byte to the visible semaphore, ps.
    pub fn completion(&self, by_instruction: bool) -> u64 {
        if by_instruction { self.dge_completion_ps } else { self.completion_ps }
    }

    /// Rate of an engine in bytes per microsecond.
    pub fn rate(&self, load: bool, pace: Pace) -> u64 {
        let rate = if load { self.load_bytes_per_us } else { self.store_bytes_per_us };
        let percent = match pace {
            Pace::Copy => 100,
            Pace::Transpose if load => self.transpose_percent,
            Pace::Transpose => self.sbuf_transpose_percent,
            Pace::Compute => self.compute_percent,
        };
        (rate * percent / 100).max(1)
    }

    /// From the start of one engine of a copy to the start of the next, ps.
    pub fn skew_ps(&self, load: bool, by_instruction: bool) -> u64 {
        match (load, by_instruction) {
            (_, false) => self.ring_skew_ps,
            (true, true) => self.dge_load_skew_ps,
            (false, true) => self.dge_store_skew_ps,
        }
    }

    /// From trigger to first byte, ps. `by_instruction`: of a DMA instruction, else of a ring.
    pub fn start_ps(&self, load: bool, by_instruction: bool) -> u64 {
        match (load, by_instruction) {
            (true, true) => self.dge_load_start_ps,
            (false, true) => self.dge_store_start_ps,
            (true, false) => self.load_start_ps,
            (false, false) => self.store_start_ps,
        }
    }
}

impl MachineConfig {
    /// The built-in configuration of `generation`.
    ///
    /// # Panics
    /// Never: a test parses all built-in files.
    pub fn builtin(generation: Generation) -> Self {
        let text = match generation {
            Generation::V1 => include_str!("../../configs/v1.toml"),
            Generation::V2 => include_str!("../../configs/v2.toml"),
            Generation::V3 => include_str!("../../configs/v3.toml"),
            Generation::V4 => include_str!("../../configs/v4.toml"),
            Generation::V4Plus => include_str!("../../configs/v4plus.toml"),
            Generation::V5 => include_str!("../../configs/v5.toml"),
        };
        Self::parse(text).expect("built-in configuration")
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ErrorClass::Io`] or [`ErrorClass::ConfigError`].
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
        Self::parse(&text).map_err(|e| {
            Error::new(ErrorClass::ConfigError, format!("{}: {}", path.display(), e.message))
        })
    }

    /// Parses the text of a configuration file and checks its figures.
    ///
    /// # Errors
    /// [`ErrorClass::ConfigError`].
    pub fn parse(text: &str) -> Result<Self> {
        let config: Self =
            toml::from_str(text).map_err(|e| Error::new(ErrorClass::ConfigError, e.to_string()))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let bad = |m: String| Err(Error::new(ErrorClass::ConfigError, m));
        for engine in Engine::ALL {
            let e = self.engine(engine);
            if e.hz == 0 || e.hz > 100_000_000_000 {
                return bad(format!("{engine} clock {} Hz is not between 1 Hz and 100 GHz", e.hz));
            }
        }
        let g = &self.geometry;
        if g.sbuf_stride == 0
            || g.psum_stride == 0
            || g.psum_bank == 0
            || g.sbuf_active > g.sbuf_stride
            || g.psum_active > g.psum_stride
            || g.sbuf_partitions == 0
            || g.sbuf_partitions > 1024
            || g.psum_partitions == 0
            || g.psum_partitions > 1024
            || g.sbuf_active > 16 << 20
            || g.psum_active > 16 << 20
            || g.hbm_bytes > 1 << 42
        {
            return bad("geometry: strides, active bytes or partitions are out of range".into());
        }
        if self.sync.semaphores > 65536 || self.sync.events > 65536 || self.sync.semaphore_max == 0
        {
            return bad("sync: counts are out of range".into());
        }
        if !self.cost.rows.contains_key(&CostRow::Other) {
            return bad("cost.rows needs a row `other`".into());
        }
        let d = &self.dma;
        if d.engines == 0
            || d.load_bytes_per_us == 0
            || d.store_bytes_per_us == 0
            || d.hbm_bytes_per_us == 0
            || d.partitions_per_engine == 0
            || d.swdge_rows == 0
        {
            return bad("dma: engines and rates must be positive".into());
        }
        let values = toml::Value::try_from(self).map_err(|e| {
            Error::new(ErrorClass::ConfigError, format!("the configuration has no text: {e}"))
        })?;
        for part in ["pe", "act", "pool", "dve", "sp", "sequencer", "cost", "power", "dma", "q7"] {
            if let Some(key) = values.get(part).and_then(|v| beyond(part, v)) {
                return bad(format!("{key} is above {MAX_FIGURE}"));
            }
        }
        Ok(())
    }

    /// Configuration of one engine.
    pub fn engine(&self, engine: Engine) -> &EngineConfig {
        match engine {
            Engine::Pe => &self.pe,
            Engine::Act => &self.act,
            Engine::Pool => &self.pool,
            Engine::Dve => &self.dve,
            Engine::Sp => &self.sp,
        }
    }
}

/// Largest time, rate or number of cycles: products of it with counts stay in 64 bits.
const MAX_FIGURE: i64 = 1 << 32;

/// The first key under `path` whose number is too large; clocks have a limit of their own.
fn beyond(path: &str, value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::Integer(n) => (*n > MAX_FIGURE).then(|| path.to_owned()),
        toml::Value::Table(t) => t
            .iter()
            .filter(|(key, _)| *key != "hz")
            .find_map(|(key, v)| beyond(&format!("{path}.{key}"), v)),
        toml::Value::Array(a) => a.iter().find_map(|v| beyond(path, v)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_beyond_any_sense_are_refused() {
        let text = include_str!("../../configs/v3.toml");
        let huge = text.replace("hbm_row_ps = 5000", "hbm_row_ps = 5000000000");
        let error = MachineConfig::parse(&huge).unwrap_err();
        assert!(error.message.contains("dma.hbm_row_ps"), "{}", error.message);
    }

    #[test]
    fn built_in_configurations_parse() {
        for generation in Generation::ALL {
            let config = MachineConfig::builtin(generation);
            assert_eq!(config.generation, generation.to_string());
        }
    }
}

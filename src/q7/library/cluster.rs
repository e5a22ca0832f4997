//! The eight cores of a POOL engine and what is loaded in them.
//! (wiki: firmware/pool/external-lib-loader; wiki: abi/multicore-spmd)
//!
//! All cores run every dispatch with the same opcode; a core's number chooses its data. The order of
//! the cores cannot be seen by correct kernels, so they run one after the other.
//!
//! OPEN choices: the instruction word lies at [`ClusterConfig::word_address`] of each core, its
//! address is the kernel's first argument, opcode and spec are the second and third; one library
//! per core is bound at a time, and loading another releases it.

use crate::error::{Error, ErrorClass, Result};
use crate::q7::core::{Core, CoreConfig, DRAM_BASE, Q7Bus};

use super::record::{ModifyOp, ModifyPoolConfig};
use super::table::{self, KernelRow};
use super::ucpl::UcplHeader;
use super::{Bounds, CORES, MAX_LIBRARY, Staged};

/// Sizes and choices of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ClusterConfig {
    /// Each core.
    pub core: CoreConfig,
    /// Where libraries go.
    pub bounds: Bounds,
    /// OPEN: where the 64-byte instruction lies when a kernel runs.
    pub word_address: u32,
    /// OPEN: stack pointer of the dispatcher.
    pub stack: u32,
    /// OPEN: instructions after which a kernel counts as hung.
    pub instruction_limit: u64,
    /// OPEN: whether `init` and the start routine of a library run when it is loaded. Images of the
    /// vendor name their dispatch loop as the start routine and must not be started here.
    pub run_start: bool,
    /// OPEN: cycles of a load besides the transfer.
    pub load_overhead: u64,
}

impl ClusterConfig {
    /// v2.
    pub fn v2() -> ClusterConfig {
        ClusterConfig {
            core: CoreConfig::v2(),
            bounds: Bounds::V2,
            word_address: 0x8_dfc0,
            stack: 0x8_df80,
            ..ClusterConfig::v3()
        }
    }

    /// v3 and later.
    pub fn v3() -> ClusterConfig {
        ClusterConfig {
            core: CoreConfig::v3(),
            bounds: Bounds::V3,
            word_address: 0xb_dfc0,
            stack: 0xb_df80,
            instruction_limit: 100_000_000,
            run_start: true,
            load_overhead: 0,
        }
    }
}

/// A library in a core.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Loaded {
    /// Library number.
    pub index: u32,
    /// Header of its image.
    pub header: UcplHeader,
    /// Dispatch rows.
    pub rows: Vec<KernelRow>,
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Cores that have the library now.
    pub cores: u8,
    /// Cores on which another library was released for it.
    pub replaced: u8,
    /// Cores that had the same library already.
    pub reloaded: u8,
    /// Bytes that each core transfers.
    pub bytes: u32,
    /// Cycles of the slowest start routine.
    pub cycles: u64,
}

/// Cycles and results of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchReport {
    /// Cores that ran the kernel.
    pub cores: u8,
    /// Cycles of the slowest core.
    pub cycles: u64,
    /// Cycles of each core.
    pub core_cycles: [u64; CORES],
    /// Return value of each core's kernel.
    pub results: [u32; CORES],
}

/// Eight cores.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cluster {
    /// The cores; PRID is the index.
    pub cores: Vec<Core>,
    /// What each core has loaded.
    pub loaded: Vec<Option<Loaded>>,
    /// Configuration.
    pub config: ClusterConfig,
    /// Texts that the device would log.
    pub log: Vec<String>,
}

/// Most log lines kept.
const LOG_LIMIT: usize = 1000;

fn fault(rule: &'static str, text: impl Into<String>) -> Error {
    Error::new(ErrorClass::DeviceFault, text).rule(rule)
}

impl Cluster {
    /// Eight cores after boot, without a library.
    pub fn new(config: ClusterConfig) -> Cluster {
        Cluster {
            cores: (0..CORES as u32).map(|prid| Core::new(config.core, prid)).collect(),
            loaded: vec![None; CORES],
            config,
            log: Vec::new(),
        }
    }

    fn note(&mut self, text: impl Into<String>) {
        if self.log.len() < LOG_LIMIT {
            self.log.push(text.into());
        }
    }

    /// Executes MODIFY_POOL_CONFIG. `image` is what device memory holds from `soc_addr` on, at most
    /// 64 KiB; `table` is the kernel table's address and rows, if the host remembered them when it
    /// staged the image. `bus` is used by the library's own routines.
    ///
    /// # Errors
    /// `DeviceFault` for a library that the device refuses (nothing is installed then), and what
    /// the library's start routine runs into.
    pub fn modify(
        &mut self,
        record: &ModifyPoolConfig,
        image: &[u8],
        table: Option<(u32, usize)>,
        bus: &mut dyn Q7Bus,
    ) -> Result<LoadReport> {
        match record.op {
            ModifyOp::Load => self.load(record, image, table, bus),
            ModifyOp::Unload => self.unload(record, bus),
        }
    }

    /// Loads a staged image into all cores, as the host does it.
    ///
    /// # Errors
    /// As [`Cluster::modify`].
    pub fn load_staged(
        &mut self,
        staged: &Staged,
        index: u32,
        bus: &mut dyn Q7Bus,
    ) -> Result<LoadReport> {
        let record = ModifyPoolConfig {
            op: ModifyOp::Load,
            core_mask: 0xff,
            soc_addr: 0,
            library_index: index,
            library_size: staged.image.len() as u32,
        };
        self.load(&record, &staged.image, staged.table, bus)
    }

    fn load(
        &mut self,
        record: &ModifyPoolConfig,
        image: &[u8],
        table: Option<(u32, usize)>,
        bus: &mut dyn Q7Bus,
    ) -> Result<LoadReport> {
        if record.core_mask == 0 {
            return Ok(LoadReport::default());
        }
        let mut size = record.library_size;
        if size == 0 {
            self.note(
                "library_size not set, defaulting to data_scratch_size for backward compatibility",
            );
            size = UcplHeader::decode(image).map_or(0, |h| h.image_size()).min(MAX_LIBRARY);
        }
        if size > MAX_LIBRARY {
            let text = format!("Invalid library_size: {size} (max: {MAX_LIBRARY})");
            self.note(text.clone());
            return Err(fault("library_size", text));
        }
        let Some(image) = image.get(..size as usize) else {
            return Err(fault("iDMA error", format!("{size} bytes cannot be read from the image")));
        };
        let Some(header) = UcplHeader::decode(image) else {
            return Err(fault("corrupted_library", "the image has no valid UCPL header"));
        };
        if header.start == 0 {
            let text = "Corrupted prelink library; NULL start symbol";
            self.note(text);
            return Err(fault("corrupted_library", text));
        }
        let bounds = self.config.bounds;
        if header.code_length > bounds.code_size || header.data_length > bounds.data_size {
            self.note("Failed to allocate memory for library");
            return Err(fault("out_of_memory", "the library does not fit its regions"));
        }
        let rows = bind(&header, image, &bounds, table);
        let mut report = LoadReport { bytes: size, ..LoadReport::default() };
        for core in (0..CORES).filter(|core| record.core_mask >> core & 1 != 0) {
            let bit = 1u8 << core;
            match &self.loaded[core] {
                Some(old) if old.index == record.library_index => report.reloaded |= bit,
                Some(_) => {
                    report.replaced |= bit;
                    self.finish(core, bus)?;
                }
                None => {}
            }
            self.install(core, &header, image);
            self.loaded[core] =
                Some(Loaded { index: record.library_index, header, rows: rows.clone() });
            report.cores |= bit;
            if self.config.run_start {
                let before = self.cores[core].cycles();
                let started = [header.init, header.start]
                    .into_iter()
                    .filter(|&f| f != 0)
                    .try_for_each(|function| self.call(core, function, &[], bus).map(drop));
                if let Err(error) = started {
                    // A library that fails to start is not installed.
                    self.loaded[core] = None;
                    return Err(error);
                }
                report.cycles = report.cycles.max(self.cores[core].cycles() - before);
            }
        }
        report.cycles += self.config.load_overhead;
        let text = format!(
            "LIB: codesize={}@{:#x} datasize={}@{:#x}",
            header.code_length, bounds.code_base, header.data_length, bounds.data_base
        );
        self.note(text);
        self.note("Library loaded");
        Ok(report)
    }

    fn install(&mut self, core: usize, header: &UcplHeader, image: &[u8]) {
        let bounds = self.config.bounds;
        let core = &mut self.cores[core];
        let copy = |to: &mut [u8], at: u32, bytes: &[u8]| {
            if let Some(place) = to.get_mut(at as usize..at as usize + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        copy(&mut core.iram, bounds.code_base, header.code(image));
        copy(&mut core.dram, bounds.data_base - DRAM_BASE, header.data(image));
        core.invalidate_code();
    }

    fn unload(&mut self, record: &ModifyPoolConfig, bus: &mut dyn Q7Bus) -> Result<LoadReport> {
        let mut report = LoadReport::default();
        for core in (0..CORES).filter(|core| record.core_mask >> core & 1 != 0) {
            let bound = self.loaded[core].as_ref().is_some_and(|l| l.index == record.library_index);
            if bound {
                self.finish(core, bus)?;
                report.cores |= 1 << core;
            }
        }
        if report.cores == 0 {
            self.note(format!("UnloadLib: library {} is not loaded", record.library_index));
        } else {
            self.note("Library unloaded");
        }
        Ok(report)
    }

    /// Runs a library's fini routine and forgets it.
    fn finish(&mut self, core: usize, bus: &mut dyn Q7Bus) -> Result<()> {
        let Some(old) = self.loaded[core].take() else { return Ok(()) };
        if self.config.run_start && old.header.fini != 0 {
            self.call(core, old.header.fini, &[], bus)?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        core: usize,
        function: u32,
        arguments: &[u32],
        bus: &mut dyn Q7Bus,
    ) -> Result<u32> {
        let ClusterConfig { stack, instruction_limit, .. } = self.config;
        self.cores[core].call(bus, function, stack, arguments, instruction_limit)
    }

    /// Function that core `core` would run for `(opcode, spec)`.
    pub fn lookup(&self, core: usize, opcode: u8, spec: u8) -> Option<u32> {
        let loaded = self.loaded.get(core)?.as_ref()?;
        table::dispatch(&loaded.rows, opcode, spec)
    }

    /// Whether any core has a kernel for `(opcode, spec)`: the engine then runs the library instead
    /// of its built-in kernel.
    pub fn has_kernel(&self, opcode: u8, spec: u8) -> bool {
        (0..CORES).any(|core| self.lookup(core, opcode, spec).is_some())
    }

    /// Runs the kernel of a 64-byte POOL instruction on every core that has one.
    ///
    /// # Errors
    /// `DeviceFault` if no core has a kernel for it, or what a core runs into.
    pub fn dispatch(&mut self, word: &[u8; 64], bus: &mut dyn Q7Bus) -> Result<DispatchReport> {
        let opcode = word[0];
        let spec = if opcode == table::EXTENDED { word[12] } else { 0 };
        if !self.has_kernel(opcode, spec) {
            let text = table::miss_text(opcode, spec);
            self.note(text.clone());
            return Err(fault("unknown_opcode", text));
        }
        let mut report = DispatchReport::default();
        for core in 0..CORES {
            let Some(function) = self.lookup(core, opcode, spec) else { continue };
            self.put_word(core, 0, word);
            let arguments = [self.config.word_address, u32::from(opcode), u32::from(spec)];
            let before = self.cores[core].cycles();
            report.results[core] = self.call(core, function, &arguments, bus)?;
            report.core_cycles[core] = self.cores[core].cycles() - before;
            report.cycles = report.cycles.max(report.core_cycles[core]);
            report.cores |= 1 << core;
        }
        Ok(report)
    }

    /// Prepares core `core` to run the kernel of a POOL instruction (or of a custom operation's
    /// HEADER with its PAYLOADs) as [`Cluster::dispatch`] and [`Cluster::custom_op`] would, and
    /// runs nothing: a debugger then steps the core. Says whether the core has a kernel for it.
    pub fn begin(&mut self, core: usize, words: &[[u8; 64]]) -> bool {
        let Some(first) = words.first() else { return false };
        let opcode = first[0];
        let custom = opcode == super::entries::CUSTOM_OP;
        let spec = if custom {
            first[14]
        } else if opcode == table::EXTENDED {
            first[12]
        } else {
            0
        };
        let Some(function) = self.lookup(core, opcode, spec) else { return false };
        let count = words.len() as u32;
        for (i, word) in words.iter().enumerate() {
            self.put_word(core, count - 1 - i as u32, word);
        }
        let base = self.config.word_address.wrapping_sub(64 * (count - 1));
        let (stack, arguments) = if custom {
            (base.wrapping_sub(64) & !63, [base, count - 1, u32::from(spec)])
        } else {
            (self.config.stack, [base, u32::from(opcode), u32::from(spec)])
        };
        self.cores[core].begin_call(function, stack, &arguments);
        true
    }

    /// Puts an instruction word where kernels find it; `slot` counts 64-byte places downwards.
    pub(super) fn put_word(&mut self, core: usize, slot: u32, word: &[u8]) {
        let at =
            (self.config.word_address.wrapping_sub(64 * slot)).wrapping_sub(DRAM_BASE) as usize;
        if let Some(place) = self.cores[core].dram.get_mut(at..at + word.len()) {
            place.copy_from_slice(word);
        }
    }

    /// Runs `function` on one core with the given arguments and stack.
    ///
    /// # Errors
    /// What the core runs into.
    pub(super) fn call_on(
        &mut self,
        core: usize,
        function: u32,
        stack: u32,
        arguments: &[u32],
        bus: &mut dyn Q7Bus,
    ) -> Result<u32> {
        let limit = self.config.instruction_limit;
        self.cores[core].call(bus, function, stack, arguments, limit)
    }
}

/// The dispatch rows of an image: where the host says the table is, else found by its shape.
fn bind(
    header: &UcplHeader,
    image: &[u8],
    bounds: &Bounds,
    table: Option<(u32, usize)>,
) -> Vec<KernelRow> {
    let data = header.data(image);
    if let Some((address, count)) = table {
        let at = address.wrapping_sub(bounds.data_base) as usize;
        let bytes = data.get(at..).unwrap_or(&[]);
        return table::parse(&bytes[..bytes.len().min(count.saturating_mul(table::ROW))]);
    }
    let code = bounds.code_base..bounds.code_base.saturating_add(header.code_length);
    table::scan(data, code).map_or_else(Vec::new, |(_, rows)| rows)
}

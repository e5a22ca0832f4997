//! One Vision-Q7 core: registers, local memories, instruction execution, cycles.
//!
//! Instructions are decoded once and kept in executable form ([`predecode`]). Every slot of a bundle
//! reads the register state from before the bundle. Scalar instructions behave as on any Xtensa
//! core; vector operations come from [`crate::q7::ops`]; vector loads and stores from
//! [`loadstore`]. (wiki: isa/semantics/formal-isa-model)
//!
//! Limits: there are no exception or interrupt vectors. What the hardware would deliver as an
//! exception stops the core with a [`Fault`]. Register windows spill and refill by themselves.

mod exec;
pub mod loadstore;
mod memory;
pub mod predecode;
mod scalar;
mod special;
pub mod timing;
mod vector;
mod window;

use crate::error::{Error, ErrorClass};
use crate::q7::codec::Options;
use crate::q7::regs::RegFile;

pub use memory::{BusFault, NoBus, Q7Bus};
pub use scalar::ScalarOp;
pub use timing::Timing;

/// First address of the local data RAM. (wiki: uarch/lsu-memory)
pub const DRAM_BASE: u32 = 0x0008_0000;
/// First address of the window onto SBUF. (wiki: abi/q7-elf-vaddr)
pub const SBUF_BASE: u32 = 0x8000_0000;
/// Where a called kernel returns to: an address without memory, so that no code can lie there.
/// OPEN: the dispatcher of the vendor's firmware is not modelled.
pub const RETURN_ADDRESS: u32 = 0x0007_fff0;

/// Exception causes that a core can stop with. (wiki: uarch/lsu-memory; values are the
/// architecture's)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Illegal instruction.
    Illegal,
    /// `syscall`.
    Syscall,
    /// Instruction fetch from nowhere.
    Fetch,
    /// Load or store of an address without memory.
    LoadStore,
    /// Integer division by zero.
    DivideByZero,
    /// Misaligned load or store.
    Alignment,
    /// A vector operation while bit 1 of CPENABLE is clear.
    Coprocessor1,
}

impl Cause {
    /// EXCCAUSE value.
    pub fn number(self) -> u32 {
        match self {
            Cause::Illegal => 0,
            Cause::Syscall => 1,
            Cause::Fetch => 2,
            Cause::LoadStore => 3,
            Cause::DivideByZero => 6,
            Cause::Alignment => 9,
            Cause::Coprocessor1 => 33,
        }
    }

    /// Name of the cause.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Illegal => "IllegalInstruction",
            Cause::Syscall => "Syscall",
            Cause::Fetch => "InstructionFetchError",
            Cause::LoadStore => "LoadStoreError",
            Cause::DivideByZero => "IntegerDivideByZero",
            Cause::Alignment => "LoadStoreAlignment",
            Cause::Coprocessor1 => "Coprocessor1Exception",
        }
    }
}

/// Why a core stopped where it should not.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// What the hardware would deliver as an exception.
    Exception {
        /// Cause.
        cause: Cause,
        /// Address of the instruction.
        pc: u32,
        /// Address of the access, for memory causes.
        address: u32,
    },
    /// Anything that the hardware does not define as an exception: an unpublished operation, or an
    /// error of the memory behind the core.
    Error {
        /// Address of the instruction.
        pc: u32,
        /// What happened.
        error: Box<Error>,
    },
}

impl Fault {
    /// As an error of the emulator.
    pub fn into_error(self, core: u32) -> Error {
        let at = |pc: u32| crate::error::Location {
            stream: Some(format!("Q7 core {core}")),
            pc: Some(u64::from(pc)),
            ..Default::default()
        };
        match self {
            Fault::Exception { cause, pc, address } => Error::new(
                ErrorClass::DeviceFault,
                format!("exception cause {} at address {address:#010x}", cause.number()),
            )
            .rule(cause.name())
            .or_at(&at(pc)),
            Fault::Error { pc, error } => error.or_at(&at(pc)),
        }
    }
}

/// Why [`Core::run`] came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The called function returned to [`RETURN_ADDRESS`].
    Returned,
    /// `halt`, `halt.n`, `exit`, or `simcall`.
    Halted,
    /// `break`, `break.n`, `break1`.
    Break,
    /// The given number of instructions was executed.
    Limit,
    /// A fault.
    Fault(Fault),
}

/// Memory sizes and choices of a core.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CoreConfig {
    /// Bytes of instruction RAM at address 0.
    pub iram_size: u32,
    /// Bytes of data RAM at [`DRAM_BASE`].
    pub dram_size: u32,
    /// Which codes the decoder accepts.
    pub codec: Options,
    /// Cycle parameters.
    pub timing: Timing,
    /// OPEN: whether a misaligned vector access is moved down to its natural alignment instead of
    /// stopping the core. (wiki: isa/ref/b06-loads)
    pub floor_misaligned_vectors: bool,
}

impl CoreConfig {
    /// v2: 64 KiB of each memory. (wiki: runtime/ucode-relocation-consumer)
    pub fn v2() -> CoreConfig {
        CoreConfig { iram_size: 0x1_0000, dram_size: 0x1_0000, ..CoreConfig::v3() }
    }

    /// v3 and later: 128 KiB and 256 KiB. (wiki: runtime/ucode-relocation-consumer)
    pub fn v3() -> CoreConfig {
        CoreConfig {
            iram_size: 0x2_0000,
            dram_size: 0x4_0000,
            codec: Options::OWN,
            timing: Timing::default(),
            floor_misaligned_vectors: false,
        }
    }
}

/// One core.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Core {
    /// Vector-side registers.
    pub regs: RegFile,
    /// Physical address registers.
    #[serde(with = "serde_big_array::BigArray")]
    pub(crate) ar: [u32; 64],
    /// First physical register of the window, a multiple of 8.
    pub(crate) window: u32,
    /// Which windows of 8 registers hold a live frame.
    pub(crate) live: u8,
    /// Boolean registers, bit n is `bn`.
    pub br: u16,
    /// Program counter.
    pub pc: u32,
    /// Shift amount, 0..=32 and, after odd writes, up to 63.
    pub sar: u32,
    /// Zero-overhead loop registers.
    pub lbeg: u32,
    /// End of the zero-overhead loop.
    pub lend: u32,
    /// Remaining iterations.
    pub lcount: u32,
    /// Processor state.
    pub ps: u32,
    /// Special registers without a behaviour of their own, by number.
    #[serde(with = "serde_big_array::BigArray")]
    pub(crate) plain: [u32; 256],
    /// `threadptr`.
    pub threadptr: u32,
    /// Core number.
    pub prid: u32,
    /// Instruction RAM.
    pub iram: Vec<u8>,
    /// Data RAM.
    pub dram: Vec<u8>,
    /// Cycle in which the next instruction can issue at the earliest.
    pub(crate) now: i64,
    /// Added to the cycle to give CCOUNT.
    pub(crate) ccount_offset: u32,
    /// Cycle at which each register's value can be read, by scoreboard index.
    #[serde(with = "serde_big_array::BigArray")]
    pub(crate) ready: [i64; timing::SLOTS],
    /// Executed instructions or bundles.
    pub instructions: u64,
    // decoded again when it is needed
    #[serde(skip)]
    pub(crate) code: predecode::Code,
    pub(crate) code_stale: bool,
    #[serde(skip)]
    pub(in crate::q7::core) scratch: vector::Scratch,
    /// Configuration.
    pub config: CoreConfig,
}

impl Core {
    /// A core number `prid` after reset: registers and memories zero, vector unit enabled.
    pub fn new(config: CoreConfig, prid: u32) -> Core {
        let mut core = Core {
            regs: RegFile::default(),
            ar: [0; 64],
            window: 0,
            live: 1,
            br: 0,
            pc: 0,
            sar: 0,
            lbeg: 0,
            lend: 0,
            lcount: 0,
            ps: 0x80,
            plain: [0; 256],
            threadptr: 0,
            prid,
            iram: vec![0; config.iram_size as usize],
            dram: vec![0; config.dram_size as usize],
            now: 0,
            ccount_offset: 0,
            ready: [0; timing::SLOTS],
            instructions: 0,
            code: predecode::Code::default(),
            code_stale: false,
            scratch: vector::Scratch::default(),
            config,
        };
        core.reset_special();
        core
    }

    /// Physical register behind `a<n>` of the current window, 0..64.
    #[inline(always)]
    pub fn physical(&self, n: u32) -> usize {
        ((self.window + (n & 15)) & 63) as usize
    }

    /// Value of `a<n>` in the current window.
    pub fn a(&self, n: u32) -> u32 {
        self.ar[self.physical(n)]
    }

    /// Sets `a<n>` of the current window.
    pub fn set_a(&mut self, n: u32, value: u32) {
        self.ar[self.physical(n)] = value;
    }

    /// Cycles since reset.
    pub fn cycles(&self) -> u64 {
        self.now.max(0) as u64
    }

    /// Moves the core's clock forward, for instance to the start of a dispatch.
    pub fn advance_to(&mut self, cycle: u64) {
        self.now = self.now.max(cycle as i64);
    }

    /// Forgets decoded instructions, as after loading other code.
    pub fn invalidate_code(&mut self) {
        self.code = predecode::Code::default();
        self.code_stale = false;
    }

    /// Starts a windowed call of `function` as the dispatcher does it with CALLX8: stack pointer
    /// `stack`, arguments from `a2` of the callee. Runs nothing yet.
    pub fn begin_call(&mut self, function: u32, stack: u32, arguments: &[u32]) {
        self.window = 0;
        self.live = 1;
        self.ar = [0; 64];
        self.lcount = 0;
        // The dispatcher's own frame sits on top; if it is spilled, its upper half goes below its
        // caller's stack pointer, which the ABI keeps 12 bytes below its own.
        let frame = stack.wrapping_sub(64) & !15;
        self.set_a(1, frame);
        let at = frame.wrapping_sub(12).wrapping_sub(DRAM_BASE) as usize;
        if let Some(word) = self.dram.get_mut(at..at + 4) {
            word.copy_from_slice(&(frame + 64).to_le_bytes());
        }
        self.set_a(8, RETURN_ADDRESS & 0x3fff_ffff | 2 << 30);
        for (i, &value) in arguments.iter().take(6).enumerate() {
            self.set_a(10 + i as u32, value);
        }
        self.ps = self.ps & !(3 << 16) | 2 << 16;
        self.pc = function;
    }

    /// Runs a function to its return.
    ///
    /// # Errors
    /// The fault, or `LimitReached` after `limit` instructions, or `ProgramError` if it halts.
    pub fn call(
        &mut self,
        bus: &mut dyn Q7Bus,
        function: u32,
        stack: u32,
        arguments: &[u32],
        limit: u64,
    ) -> Result<u32, Error> {
        self.begin_call(function, stack, arguments);
        match self.run(bus, limit) {
            // RETW has put the window back; the result is the caller's a10.
            Stop::Returned => Ok(self.a(10)),
            Stop::Fault(fault) => Err(fault.into_error(self.prid)),
            Stop::Limit => Err(Error::new(
                ErrorClass::LimitReached,
                format!("Q7 core {}: {limit} instructions executed without a return", self.prid),
            )),
            Stop::Halted | Stop::Break => Err(Error::new(
                ErrorClass::ProgramError,
                format!("Q7 core {}: stopped at {:#010x} instead of returning", self.prid, self.pc),
            )),
        }
    }

    pub(crate) fn exception<T>(&mut self, cause: Cause, address: u32) -> Result<T, Box<Fault>> {
        self.raise(cause, self.pc, address);
        Err(Box::new(Fault::Exception { cause, pc: self.pc, address }))
    }
}

//! The Q7 cores: what they hold, and a look into library code one bundle at a time.
//!
//! The machine runs library code of an instruction in one go. To step it, the code runs on a copy
//! of the cores, with its writes to memory kept aside; the machine then does the same by itself.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::engine::libraries::core_address;
use crate::machine::Machine;
use crate::memory::{Lease, Space};
use crate::q7::asm::disasm;
use crate::q7::codec;
use crate::q7::core::{BusFault, Core, Q7Bus, Stop};
use crate::q7::library::{CORES, Cluster};

/// Memory as the machine has it, under the writes of the copy.
struct Overlay<'a, 'b> {
    memory: Lease<'a>,
    written: &'b mut HashMap<(Space, u32, u64), u8>,
    stride: u64,
}

impl Q7Bus for Overlay<'_, '_> {
    fn read(&mut self, address: u32, out: &mut [u8]) -> Result<(), BusFault> {
        let (space, partition, byte) =
            core_address(address, self.stride).ok_or(BusFault::Unmapped)?;
        let row = self.memory.row(space, partition, byte, out.len() as u64);
        out.copy_from_slice(row.map_err(|_| BusFault::Unmapped)?);
        for (i, place) in out.iter_mut().enumerate() {
            if let Some(&new) = self.written.get(&(space, partition, byte + i as u64)) {
                *place = new;
            }
        }
        Ok(())
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault> {
        let (space, partition, byte) =
            core_address(address, self.stride).ok_or(BusFault::Unmapped)?;
        let row = self.memory.row(space, partition, byte, bytes.len() as u64);
        row.map_err(|_| BusFault::Unmapped)?;
        for (i, &b) in bytes.iter().enumerate() {
            self.written.insert((space, partition, byte + i as u64), b);
        }
        Ok(())
    }
}

/// A library call on a copy of the cores.
pub struct Inside {
    cluster: Cluster,
    words: Vec<[u8; 64]>,
    written: HashMap<(Space, u32, u64), u8>,
    /// The core that is stepped.
    pub core: usize,
    stopped: [Option<Stop>; CORES],
    started: [bool; CORES],
}

impl Inside {
    /// Enters the library call that POOL starts next.
    ///
    /// # Errors
    /// There is none.
    pub fn enter(machine: &Machine) -> Result<Inside, String> {
        let words = machine.library_call().ok_or(
            "POOL has issued no library call that has not started; `break q7` stops before one",
        )?;
        let cluster = machine.cluster().ok_or("no library was loaded")?;
        let mut inside = Inside {
            cluster,
            words,
            written: HashMap::new(),
            core: 0,
            stopped: Default::default(),
            started: [false; CORES],
        };
        inside.choose((0..CORES).find(|&c| inside.has_code(c)).unwrap_or(0))?;
        Ok(inside)
    }

    fn has_code(&self, core: usize) -> bool {
        self.cluster.loaded.get(core).is_some_and(Option::is_some)
    }

    /// Looks at core `core`.
    ///
    /// # Errors
    /// It does not exist or has no kernel for the instruction.
    pub fn choose(&mut self, core: usize) -> Result<(), String> {
        if core >= CORES {
            return Err(format!("there are cores 0 to {}", CORES - 1));
        }
        if !self.started[core] {
            if !self.cluster.begin(core, &self.words) {
                return Err(format!("core {core} has no kernel for this instruction"));
            }
            self.started[core] = true;
        }
        self.core = core;
        Ok(())
    }

    /// Steps the core by `n` instructions or bundles, or until it stops.
    pub fn step(&mut self, machine: &mut Machine, n: u64) -> String {
        let stride = machine.config().geometry.stride(Space::Sbuf);
        let core = self.core;
        let mut out = String::new();
        if self.stopped[core].is_none() {
            let mut bus = Overlay { memory: machine.memory(), written: &mut self.written, stride };
            let stop = self.cluster.cores[core].run(&mut bus, n);
            if stop != Stop::Limit {
                self.stopped[core] = Some(stop);
            }
        }
        match &self.stopped[core] {
            None => {}
            Some(Stop::Returned) => {
                let _ =
                    writeln!(out, "core {core} has returned {:#x}", self.cluster.cores[core].a(10));
            }
            Some(stop) => {
                let _ = writeln!(out, "core {core} has stopped: {stop:?}");
            }
        }
        out.push_str(&self.view(false));
        out
    }

    /// The core that is stepped.
    pub fn view(&self, vectors: bool) -> String {
        view(&self.cluster, self.core, vectors)
    }

    /// Bytes that the copy has written, as runs.
    pub fn writes(&self) -> String {
        let ordered: BTreeMap<_, _> = self.written.iter().map(|(k, v)| (*k, *v)).collect();
        let mut out = String::new();
        let mut runs: Vec<((Space, u32, u64), Vec<u8>)> = Vec::new();
        for ((space, partition, byte), value) in ordered {
            match runs.last_mut() {
                Some((at, bytes))
                    if (at.0, at.1) == (space, partition) && at.2 + bytes.len() as u64 == byte =>
                {
                    bytes.push(value);
                }
                _ => runs.push(((space, partition, byte), vec![value])),
            }
        }
        for ((space, partition, byte), bytes) in runs.iter().take(32) {
            let shown: Vec<String> = bytes.iter().take(16).map(|b| format!("{b:02x}")).collect();
            let more = if bytes.len() > 16 { " ..." } else { "" };
            let _ = writeln!(
                out,
                "{space} {partition}:{byte:#x} {} bytes: {}{more}",
                bytes.len(),
                shown.join(" ")
            );
        }
        if runs.is_empty() { "nothing outside the cores was written\n".into() } else { out }
    }
}

/// A word about each core.
pub fn summary(cluster: &Cluster) -> String {
    let mut out = String::new();
    for (i, core) in cluster.cores.iter().enumerate() {
        let library = match cluster.loaded.get(i) {
            Some(Some(l)) => format!("library {}, {} kernels", l.index, l.rows.len()),
            _ => "no library".into(),
        };
        let _ = writeln!(
            out,
            "core {i}: pc {:#010x}, {} cycles, {} instructions, {library}",
            core.pc,
            core.cycles(),
            core.instructions
        );
    }
    for line in cluster.log.iter().rev().take(4).rev() {
        let _ = writeln!(out, "log: {line}");
    }
    out
}

/// Registers of a core and the bundles from its program counter on.
pub fn view(cluster: &Cluster, index: usize, vectors: bool) -> String {
    let Some(core) = cluster.cores.get(index) else { return String::new() };
    let mut out = format!(
        "core {index}: pc {:#010x}, {} cycles, {} instructions\n",
        core.pc,
        core.cycles(),
        core.instructions
    );
    for row in 0..4 {
        for column in 0..4 {
            let n = row * 4 + column;
            let _ = write!(out, "  {:>3} {:08x}", format!("a{n}"), core.a(n));
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "  sar {} lcount {} lbeg {:#x} lend {:#x} br {:#06x}",
        core.sar, core.lcount, core.lbeg, core.lend, core.br
    );
    if vectors {
        for (n, v) in core.regs.vec.iter().enumerate().filter(|(_, v)| v.bytes() != &[0; 64]) {
            let words: Vec<String> = v.u32s().iter().map(|w| format!("{w:08x}")).collect();
            let _ = writeln!(out, "  v{n:<2} {}", words.join(" "));
        }
        for (n, b) in core.regs.vbool.iter().enumerate().filter(|(_, b)| **b != 0) {
            let _ = writeln!(out, "  vb{n:<2} {b:016x}");
        }
        for (n, w) in core.regs.wvec.iter().enumerate().filter(|(_, w)| w.bytes() != &[0; 192]) {
            let _ = writeln!(out, "  wv{n} {w:?}");
        }
    }
    out.push_str(&listing(core, 6));
    out
}

/// The next `n` instructions of a core, by address.
pub fn listing(core: &Core, n: usize) -> String {
    let mut out = String::new();
    let mut pc = core.pc;
    for i in 0..n {
        let mark = if i == 0 { "=>" } else { "  " };
        let bytes = core.iram.get(pc as usize..).unwrap_or(&[]);
        let bytes = &bytes[..bytes.len().min(16)];
        match codec::decode(bytes, pc, core.config.codec) {
            Ok(bundle) => {
                let _ = writeln!(out, "{mark} {pc:#08x}: {}", disasm::text(&bundle, pc, &|_| None));
                pc = pc.wrapping_add(u32::from(bundle.frame.length).max(1));
            }
            Err(_) => {
                let _ = writeln!(out, "{mark} {pc:#08x}: no instruction");
                break;
            }
        }
    }
    out
}

//! What a reader of a trace wants to know of the machine and the program besides the records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::isa::Engine;
use crate::machine::Machine;
use crate::program::{DmaSide, Memory, Program, Role, Tensor};
use crate::sync::SyncId;

/// A tensor of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorFact {
    /// Name.
    pub name: String,
    /// Memory.
    pub memory: Memory,
    /// What the outside does with it.
    pub role: Role,
    /// Element type.
    pub dtype: String,
    /// Extents, outermost first.
    pub shape: Vec<u64>,
    /// Bytes of all elements.
    pub bytes: u64,
}

/// What a block of DMA transfers reads and writes in HBM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockFact {
    /// Per transfer: the tensor in HBM it reads from, as position in [`Facts::tensors`].
    pub source: Vec<Option<usize>>,
    /// Per transfer: the tensor in HBM it writes to.
    pub target: Vec<Option<usize>>,
}

/// Facts of machine and program that hold for the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Clock of each engine in Hz, in the order of the streams.
    pub engine_hz: Vec<u64>,
    /// Rows and columns of the PE array.
    pub pe: [u64; 2],
    /// Ticks that each engine spends on an instruction beside its work: two instructions start at
    /// least that far apart.
    #[serde(default)]
    pub gap_ticks: Vec<u64>,
    /// Lanes of the other engines.
    pub channels: u64,
    /// DMA engines.
    pub dma_engines: u64,
    /// Most bytes per second that DMA can move: all its engines loading, or what HBM gives.
    pub dma_bytes_per_second: u64,
    /// Most bytes per second of HBM.
    pub hbm_bytes_per_second: u64,
    /// Names of semaphores.
    pub semaphores: BTreeMap<u16, String>,
    /// Names of events.
    pub events: BTreeMap<u16, String>,
    /// Owner and kind of each DMA queue of the program.
    pub queues: Vec<(String, Option<String>)>,
    /// Tensors.
    pub tensors: Vec<TensorFact>,
    /// Blocks of the program in order.
    pub blocks: Vec<BlockFact>,
    /// Files of the program.
    pub sources: Vec<String>,
}

impl Facts {
    /// Facts of a loaded machine.
    pub fn of(machine: &Machine) -> Facts {
        let (config, program) = (machine.config(), machine.program());
        let geometry = &config.geometry;
        let dma = &config.dma;
        let per_engine = dma.load_bytes_per_us.max(dma.store_bytes_per_us);
        let hbm = dma.hbm_bytes_per_us.saturating_mul(1_000_000);
        let all = per_engine.saturating_mul(u64::from(dma.engines)).saturating_mul(1_000_000);
        let names = |map: &BTreeMap<String, u32>| -> BTreeMap<u16, String> {
            map.iter().filter_map(|(n, &i)| Some((u16::try_from(i).ok()?, n.clone()))).collect()
        };
        Facts {
            engine_hz: Engine::ALL.iter().map(|&e| config.engine(e).hz).collect(),
            gap_ticks: Engine::ALL
                .iter()
                .zip(&machine.header().periods)
                .map(|(&e, period)| config.engine(e).gap_cycles * period)
                .collect(),
            pe: [u64::from(geometry.pe_rows), u64::from(geometry.pe_cols)],
            channels: u64::from(geometry.channels),
            dma_engines: u64::from(dma.engines),
            dma_bytes_per_second: all.min(hbm),
            hbm_bytes_per_second: hbm,
            semaphores: names(&program.semaphores),
            events: names(&program.events),
            queues: program.queues.iter().map(|q| (q.owner.to_string(), q.kind.clone())).collect(),
            tensors: program.tensors.iter().map(fact).collect(),
            blocks: program
                .blocks
                .iter()
                .map(|b| BlockFact {
                    source: b.transfers.iter().map(|t| tensor_of(program, &t.src)).collect(),
                    target: b.transfers.iter().map(|t| tensor_of(program, &t.dst)).collect(),
                })
                .collect(),
            sources: program.sources.clone(),
        }
    }

    /// Most floating-point operations per second of the PE array: a multiply and an add per cell
    /// and cycle.
    pub fn pe_flops_per_second(&self) -> f64 {
        let hz = self.engine_hz.first().copied().unwrap_or(0);
        (self.pe[0] * self.pe[1] * 2) as f64 * hz as f64
    }

    /// Name of an event or semaphore for a reader: the program's name and the number.
    pub fn sync_name(&self, id: SyncId) -> String {
        let (letter, n, names) = match id {
            SyncId::Semaphore(n) => ('S', n, &self.semaphores),
            SyncId::Event(n) => ('E', n, &self.events),
        };
        match names.get(&n) {
            Some(name) => format!("{letter}[{n}] {name}"),
            None => format!("{letter}[{n}]"),
        }
    }
}

fn fact(t: &Tensor) -> TensorFact {
    TensorFact {
        name: t.name.clone(),
        memory: t.memory,
        role: t.role,
        dtype: t.dtype.to_string(),
        shape: t.shape.clone(),
        bytes: t.bytes(),
    }
}

fn tensor_of(program: &Program, side: &DmaSide) -> Option<usize> {
    if side.memory != Memory::Hbm {
        return None;
    }
    program.tensors.iter().position(|t| {
        t.memory == Memory::Hbm
            && side.address >= t.address
            && side.address < t.address.saturating_add(t.bytes())
    })
}

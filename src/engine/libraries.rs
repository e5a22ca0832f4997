//! Library code on the eight Q7 cores behind POOL: MODIFY_POOL_CONFIG, and the instructions whose
//! opcode a loaded library registers.
//!
//! A kernel may touch any byte of SBUF and of the HBM scratch window: where it reads and writes is
//! known only by running it. Such a work is ordered against everything on the host, its length
//! comes out of the run, and the race check judges it by what it touched
//! ([`super::observed`]). (wiki: firmware/pool/pool-dispatch; firmware/pool/external-lib-loader)

use super::Op;
use super::cost::{CostQuery, CostRow, Operands};
use super::observed::Observed;
use super::work::{Env, Lane, Outcome, Prepared, Work};
use crate::error::{Error, Result};
use crate::isa::{Generation, Inst};
use crate::machine::config::{MachineConfig, Q7Config};
use crate::memory::{Access, ByteSet, Lease, Region, Space};
use crate::q7::core::{BusFault, Q7Bus, Timing};
use crate::q7::library::{Cluster, ClusterConfig, MAX_LIBRARY, ModifyOp, ModifyPoolConfig};

/// Dispatch table of this family.
pub const OPS: &[Op] = &[Op::new(0x95, "MODIFY_POOL_CONFIG", modify_pool_config)];

/// First address of the cores' window to SBUF. (wiki: dma/onchip-working-memory)
const SBUF_WINDOW: u32 = 0x8000_0000;
/// First address of the cores' window to the HBM scratch heap. OPEN: the heap's base is set at run
/// time by the host; here it is the first byte of HBM.
const HBM_WINDOW: u32 = 0x8400_0000;
/// Bytes of either window.
const WINDOW: u32 = 0x0400_0000;

/// State of the cluster.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct LibraryState {
    cluster: Option<Box<Cluster>>,
}

impl LibraryState {
    /// Whether a loaded library has a kernel for the instruction.
    pub fn has_kernel(&self, inst: &Inst) -> bool {
        let spec = if inst.opcode() == 0xF0 { inst.u8(12) } else { 0 };
        let custom = inst.opcode() == CUSTOM_OP_HEADER;
        self.cluster.as_ref().is_some_and(|c| {
            if custom {
                c.loaded
                    .iter()
                    .flatten()
                    .any(|l| l.rows.iter().any(|r| r.opcode == CUSTOM_OP_HEADER))
            } else {
                c.has_kernel(inst.opcode(), spec)
            }
        })
    }

    /// The cores, if any library was ever loaded.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_deref()
    }
}

/// Opcode of a custom operation's first word.
pub const CUSTOM_OP_HEADER: u8 = 0x85;
/// Opcode of its argument words.
pub const CUSTOM_OP_PAYLOAD: u8 = 0x86;

/// The memory as the cores see it.
struct Bus<'a, 'b> {
    mem: &'a mut Lease<'b>,
    stride: u64,
    seen: Observed,
}

/// Memory, partition and byte that a core finds at `address`; `stride` is SBUF's.
pub fn core_address(address: u32, stride: u64) -> Option<(Space, u32, u64)> {
    if let Some(offset) = address.checked_sub(SBUF_WINDOW).filter(|o| *o < WINDOW) {
        let offset = u64::from(offset);
        return Some((Space::Sbuf, (offset / stride) as u32, offset % stride));
    }
    let offset = address.checked_sub(HBM_WINDOW).filter(|o| *o < WINDOW)?;
    Some((Space::Hbm, 0, u64::from(offset)))
}

impl<'a, 'b> Bus<'a, 'b> {
    fn new(mem: &'a mut Lease<'b>, stride: u64) -> Self {
        Bus { mem, stride, seen: Observed::new(stride) }
    }

    fn place(&self, address: u32) -> std::result::Result<(Space, u32, u64), BusFault> {
        core_address(address, self.stride).ok_or(BusFault::Unmapped)
    }
}

impl Q7Bus for Bus<'_, '_> {
    fn read(&mut self, address: u32, out: &mut [u8]) -> std::result::Result<(), BusFault> {
        let (space, partition, byte) = self.place(address)?;
        let row = self.mem.row(space, partition, byte, out.len() as u64);
        out.copy_from_slice(row.map_err(|_| BusFault::Unmapped)?);
        self.seen.mark(space, partition, byte, out.len() as u64, false);
        Ok(())
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> std::result::Result<(), BusFault> {
        let (space, partition, byte) = self.place(address)?;
        let row = self.mem.row_mut(space, partition, byte, bytes.len() as u64);
        row.map_err(|_| BusFault::Unmapped)?.copy_from_slice(bytes);
        self.seen.mark(space, partition, byte, bytes.len() as u64, true);
        Ok(())
    }
}

/// Every byte a core can reach.
fn reach(config: &MachineConfig) -> [Access; 2] {
    let g = &config.geometry;
    let sbuf = ByteSet::dense(0, u64::from(g.sbuf_active));
    let hbm = g.hbm_bytes.min(u64::from(WINDOW));
    [
        Access::write(Region::new(Space::Sbuf, 0, g.sbuf_partitions, sbuf)).maybe(),
        Access::write(Region::hbm(0, hbm)).maybe(),
    ]
}

fn cluster_config(generation: Generation, q7: &Q7Config) -> ClusterConfig {
    let mut config =
        if generation == Generation::V2 { ClusterConfig::v2() } else { ClusterConfig::v3() };
    config.load_overhead = q7.library_load_cycles;
    config.core.timing = Timing {
        taken_branch: q7.taken_branch_cycles,
        bus_load: q7.bus_load_cycles,
        bus_store: q7.bus_store_cycles,
        divide_stage: q7.divide_stage,
    };
    config
}

fn cost() -> CostQuery {
    CostQuery::new(CostRow::Other, 1, Operands::new())
}

/// MODIFY_POOL_CONFIG 0x95: loads the library image at a device address into the selected cores,
/// or releases a library. (wiki: firmware/kernels/pool-compute-misc)
///
/// # Errors
/// Malformed records; images beyond HBM. What the device refuses shows when it runs.
pub fn modify_pool_config(env: &Env<'_>) -> Result<Prepared> {
    let record = ModifyPoolConfig::decode(&env.inst.bytes)?;
    let (generation, q7) = (env.generation(), env.config.q7);
    let stride = env.geometry().stride(Space::Sbuf);
    let mut accesses: Vec<Access> = reach(env.config).into();
    let mut image = None;
    if record.op == ModifyOp::Load {
        let offset = env.config.address_map.hbm_offset(record.soc_addr)?;
        let size = if record.library_size == 0 { MAX_LIBRARY } else { record.library_size };
        let size = u64::from(size.min(MAX_LIBRARY));
        let end = offset.saturating_add(size).min(env.geometry().hbm_bytes);
        let len = end
            .checked_sub(offset)
            .filter(|n| *n > 0)
            .ok_or_else(|| Error::illegal("device_address", "the library image lies beyond HBM"))?;
        accesses.push(Access::read(Region::hbm(offset, len)).maybe());
        image = Some((offset, len));
    }
    let work = Work::new(accesses, cost(), move |lane: &mut Lane<'_>| {
        let bytes = match image {
            Some((offset, len)) => lane.mem.row(Space::Hbm, 0, offset, len)?.to_vec(),
            None => Vec::new(),
        };
        let cluster = lane
            .state
            .libraries
            .cluster
            .get_or_insert_with(|| Box::new(Cluster::new(cluster_config(generation, &q7))));
        let mut bus = Bus::new(&mut lane.mem, stride);
        let report = cluster.modify(&record, &bytes, None, &mut bus)?;
        if let Some((offset, len)) = image {
            bus.seen.mark(Space::Hbm, 0, offset, len.min(u64::from(report.bytes)), false);
        }
        let touched = bus.seen.accesses();
        let transfer = u64::from(report.bytes).div_ceil(q7.library_bytes_per_cycle.max(1));
        let loaded = (record.op == ModifyOp::Load).then_some((report.cores, report.bytes));
        let cycles = Some(transfer + report.cycles);
        Ok(Outcome { cycles, loaded, touched, ..Outcome::default() })
    });
    Ok(work.with_outcome().unjudged().into())
}

/// The work of an instruction that a loaded library executes: `words` is the instruction, or a
/// custom operation's HEADER with its PAYLOADs.
pub fn library_work(words: Vec<[u8; 64]>, config: &MachineConfig) -> Work {
    let stride = config.geometry.stride(Space::Sbuf);
    let work = Work::new(reach(config), cost(), move |lane: &mut Lane<'_>| {
        let Some(cluster) = lane.state.libraries.cluster.as_mut() else {
            return Err(Error::internal("a library kernel without a library"));
        };
        let mut bus = Bus::new(&mut lane.mem, stride);
        let report = if words[0][0] == CUSTOM_OP_HEADER {
            cluster.custom_op(&words, &mut bus)?
        } else {
            cluster.dispatch(&words[0], &mut bus)?
        };
        Ok(Outcome {
            cycles: Some(report.cycles),
            cores: Some(report.core_cycles),
            touched: bus.seen.accesses(),
            ..Outcome::default()
        })
    });
    work.with_outcome().unjudged()
}

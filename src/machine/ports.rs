//! Memory ports that two engines share: the later one waits until the earlier one's work is over,
//! and then goes first.
//!
//! v2: DVE and POOL exclude each other on SBUF, DVE and ACT on PSUM. v3 lifts both; DVE and ACT
//! then collide only in one PSUM bank, and DVE's performance modes take a bus that it shares with
//! POOL. (vendor docs: trainium_inferentia2_arch, trainium2_arch)

use super::config::{MachineConfig, PsumSharing, SbufSharing};
use super::run::ENGINE_STREAMS;
use crate::engine::Work;
use crate::isa::Engine;
use crate::memory::Space;

const DVE: usize = Engine::Dve.index();
const ACT: usize = Engine::Act.index();
const POOL: usize = Engine::Pool.index();

/// Banks told apart; higher ones share the last bit.
const BANKS: u64 = 64;

/// What one engine occupies, and until when.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Use {
    sbuf: u64,
    psum: u64,
    banks: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Port {
    Sbuf,
    Psum,
}

/// The shared ports.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Ports {
    sbuf: SbufSharing,
    psum: PsumSharing,
    bank_bytes: u64,
    uses: [Use; ENGINE_STREAMS],
    /// What an engine waits for, with its banks.
    wants: [Option<(Port, u64)>; ENGINE_STREAMS],
}

impl Ports {
    /// All free.
    pub fn new(config: &MachineConfig) -> Self {
        Ports {
            sbuf: config.ports.dve_pool_sbuf,
            psum: config.ports.dve_act_psum,
            bank_bytes: u64::from(config.geometry.psum_bank),
            uses: Default::default(),
            wants: Default::default(),
        }
    }

    fn idle(&self) -> bool {
        self.sbuf == SbufSharing::Free && self.psum == PsumSharing::Free
    }

    /// Whether `work` of engine stream `s` uses SBUF in a way that can collide, and the PSUM banks
    /// that it uses.
    pub fn needs(&self, s: usize, work: &Work, config: &MachineConfig) -> (bool, u64) {
        let (mut sbuf, mut banks) = (false, 0u64);
        for access in &work.accesses {
            match access.region.space {
                Space::Sbuf => sbuf = true,
                Space::Psum => {
                    let bytes = &access.region.bytes;
                    let last = bytes.end().saturating_sub(1).max(bytes.start());
                    for bank in bytes.start() / self.bank_bytes..=last / self.bank_bytes {
                        banks |= 1 << bank.min(BANKS - 1);
                        if bank >= BANKS {
                            break;
                        }
                    }
                }
                Space::Hbm => {}
            }
        }
        if sbuf && self.sbuf == SbufSharing::Fast && s == DVE {
            let query = &work.cost;
            sbuf = config.cost.row(query.row).takes_bus(&query.operands, query.elements);
        }
        (sbuf, banks)
    }

    /// When the ports that `work` of engine stream `s` needs become free, if that is after `now`.
    pub fn free_at(
        &mut self,
        s: usize,
        work: &Work,
        now: u64,
        config: &MachineConfig,
    ) -> Option<u64> {
        if self.idle() || !matches!(s, DVE | ACT | POOL) {
            return None;
        }
        self.free_for(s, self.needs(s, work, config), now)
    }

    /// As [`Ports::free_at`], for needs worked out before.
    pub fn free_for(&mut self, s: usize, needs: (bool, u64), now: u64) -> Option<u64> {
        if self.idle() || !matches!(s, DVE | ACT | POOL) {
            return None;
        }
        let (sbuf, banks) = needs;
        let collides = |theirs: u64| match self.psum {
            PsumSharing::Free => false,
            PsumSharing::Bank => theirs & banks != 0,
            PsumSharing::Exclusive => theirs != 0 && banks != 0,
        };
        let mut shares = [None; 2];
        if self.sbuf != SbufSharing::Free && sbuf && s != ACT {
            let other = if s == DVE { POOL } else { DVE };
            shares[0] = Some((Port::Sbuf, other, self.uses[other].sbuf));
        }
        if banks != 0 && s != POOL {
            let other = if s == DVE { ACT } else { DVE };
            let theirs = &self.uses[other];
            shares[1] =
                Some((Port::Psum, other, if collides(theirs.banks) { theirs.psum } else { 0 }));
        }
        let shares = shares.into_iter().flatten();
        let last = shares.clone().max_by_key(|share| share.2).filter(|share| share.2 > now);
        // who waited for the port goes first; its start is on the agenda within a cycle
        let yields = shares.clone().any(|(port, other, _)| match self.wants[other] {
            Some((Port::Sbuf, _)) => port == Port::Sbuf,
            Some((Port::Psum, theirs)) => port == Port::Psum && collides(theirs),
            None => false,
        });
        self.wants[s] = last.map(|share| (share.0, banks));
        match last {
            Some(share) => Some(share.2),
            None => yields.then_some(now + 1),
        }
    }

    /// `work` of engine stream `s` occupies its ports until `until`.
    pub fn occupy(&mut self, s: usize, work: &Work, until: u64, config: &MachineConfig) {
        if !self.idle() && matches!(s, DVE | ACT | POOL) {
            self.hold(s, self.needs(s, work, config), until);
        }
    }

    /// As [`Ports::occupy`], for needs worked out before.
    pub fn hold(&mut self, s: usize, needs: (bool, u64), until: u64) {
        if self.idle() || s >= ENGINE_STREAMS {
            return;
        }
        let (sbuf, banks) = needs;
        if sbuf {
            self.uses[s].sbuf = until;
        }
        if banks != 0 {
            self.uses[s].psum = until;
            self.uses[s].banks = banks;
        }
    }
}

//! Memory ports that two engines share: the later one waits until the earlier one's work is over.
//!
//! v2: DVE and POOL exclude each other on SBUF, DVE and ACT on PSUM. v3 lifts both; DVE and ACT
//! then collide only in one PSUM bank. (vendor docs: trainium_inferentia2_arch, trainium2_arch)

use super::config::{MachineConfig, PsumSharing};
use super::run::ENGINE_STREAMS;
use crate::engine::Work;
use crate::isa::Engine;
use crate::memory::Space;

/// Banks told apart; higher ones share the last bit.
const BANKS: u64 = 64;

/// What one engine occupies, and until when.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct Use {
    sbuf: u64,
    psum: u64,
    banks: u64,
}

/// The shared ports.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Ports {
    sbuf_exclusive: bool,
    psum: PsumSharing,
    bank_bytes: u64,
    uses: [Use; ENGINE_STREAMS],
}

impl Ports {
    /// All free.
    pub fn new(config: &MachineConfig) -> Self {
        Ports {
            sbuf_exclusive: config.ports.dve_pool_sbuf_exclusive,
            psum: config.ports.dve_act_psum,
            bank_bytes: u64::from(config.geometry.psum_bank),
            uses: Default::default(),
        }
    }

    fn idle(&self) -> bool {
        !self.sbuf_exclusive && self.psum == PsumSharing::Free
    }

    /// Whether `work` uses SBUF, and the PSUM banks that it uses.
    pub fn needs(&self, work: &Work) -> (bool, u64) {
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
        (sbuf, banks)
    }

    /// When the ports that `work` of engine stream `s` needs become free, if that is after `now`.
    pub fn free_at(&self, s: usize, work: &Work, now: u64) -> Option<u64> {
        if self.idle() {
            return None;
        }
        self.free_for(s, self.needs(work), now)
    }

    /// As [`Ports::free_at`], for needs worked out before.
    pub fn free_for(&self, s: usize, needs: (bool, u64), now: u64) -> Option<u64> {
        const DVE: usize = Engine::Dve.index();
        const ACT: usize = Engine::Act.index();
        const POOL: usize = Engine::Pool.index();
        if self.idle() || !matches!(s, DVE | ACT | POOL) {
            return None;
        }
        let (sbuf, banks) = needs;
        let mut free = 0;
        if self.sbuf_exclusive && sbuf && s != ACT {
            free = self.uses[if s == DVE { POOL } else { DVE }].sbuf;
        }
        if banks != 0 && s != POOL {
            let other = &self.uses[if s == DVE { ACT } else { DVE }];
            let collides = match self.psum {
                PsumSharing::Free => false,
                PsumSharing::Bank => other.banks & banks != 0,
                PsumSharing::Exclusive => true,
            };
            if collides {
                free = free.max(other.psum);
            }
        }
        (free > now).then_some(free)
    }

    /// `work` of engine stream `s` occupies its ports until `until`.
    pub fn occupy(&mut self, s: usize, work: &Work, until: u64) {
        if !self.idle() {
            self.hold(s, self.needs(work), until);
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

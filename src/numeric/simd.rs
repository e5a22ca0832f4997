//! Instruction sets of the host: every loop over elements is compiled for each of them, and the best
//! one that the host has is chosen at run time.
//!
//! All versions give the same bits: they run the same Rust loops, which neither reorder nor fuse
//! floating-point operations. `TPBEMU_SIMD=off` forces the portable version, `TPBEMU_SIMD=v3` stops
//! at AVX2 and FMA; tests use it to compare them.

use std::sync::OnceLock;

pub use pulp::{NullaryFnOnce, Simd, WithSimd};

/// A compiled version of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Portable code.
    Scalar,
    /// AVX2 and FMA (x86-64-v3).
    V3,
    /// AVX-512 (x86-64-v4).
    V4,
}

impl Level {
    /// Every version, the plainest first.
    pub const ALL: [Level; 3] = [Level::Scalar, Level::V3, Level::V4];

    /// Best version for this host that `TPBEMU_SIMD` allows.
    pub fn detect() -> Level {
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let most = match std::env::var("TPBEMU_SIMD").as_deref() {
                Ok("off") => Level::Scalar,
                Ok("v3") => Level::V3,
                _ => Level::V4,
            };
            let usable = |level: &Level| *level <= most && level.available();
            Level::ALL.into_iter().rev().find(usable).unwrap_or(Level::Scalar)
        })
    }

    /// Whether the host can run it.
    pub fn available(self) -> bool {
        match self {
            Level::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Level::V3 => pulp::x86::V3::is_available(),
            #[cfg(target_arch = "x86_64")]
            Level::V4 => pulp::x86::V4::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Level::V3 | Level::V4 => false,
        }
    }

    /// Calls `f` as compiled for this version; portable code where the host cannot run it. Only
    /// what is inlined into `f` is compiled so: a closure is if it is small, a type of its own
    /// whose `call` is `#[inline(always)]` always.
    #[inline(always)]
    pub fn run<F: NullaryFnOnce>(self, f: F) -> F::Output {
        #[cfg(target_arch = "x86_64")]
        match self {
            Level::V3 => {
                if let Some(v3) = pulp::x86::V3::try_new() {
                    return v3.vectorize(f);
                }
            }
            Level::V4 => {
                if let Some(v4) = pulp::x86::V4::try_new() {
                    return v4.vectorize(f);
                }
            }
            Level::Scalar => {}
        }
        f.call()
    }
}

impl Level {
    /// Runs `op`, which is written in vectors, with this version's; with single values where the
    /// host cannot run it.
    #[inline(always)]
    pub fn run_simd<Op: WithSimd>(self, op: Op) -> Op::Output {
        #[cfg(target_arch = "x86_64")]
        match self {
            Level::V3 => {
                if let Some(v3) = pulp::x86::V3::try_new() {
                    return Simd::vectorize(v3, op);
                }
            }
            Level::V4 => {
                if let Some(v4) = pulp::x86::V4::try_new() {
                    return Simd::vectorize(v4, op);
                }
            }
            Level::Scalar => {}
        }
        op.with_simd(pulp::Scalar::new())
    }
}

/// Calls `f`, a loop over elements, as compiled for the best instruction set of the host. The body
/// must be small enough to be inlined, or it runs as portable code.
#[inline(always)]
pub fn vectorize<R>(f: impl FnOnce() -> R) -> R {
    Level::detect().run(f)
}

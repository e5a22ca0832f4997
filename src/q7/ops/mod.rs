//! Value operations of the Vision-Q7: what every slot-3 mnemonic computes, bit for bit.
//!
//! One [`OpDef`] per mnemonic, found with [`lookup`]. An operation reads the old register state
//! ([`RegFile`]) and its predecoded [`SlotOperands`] and fills an [`OpOut`]; the core commits the
//! outputs after all slots of the bundle have run, so every slot sees the old state. Predecode once:
//! keep the function pointer and the operands, and a bundle costs one indirect call per slot.
//! (wiki: isa/semantics/formal-isa-model)

mod alu;
mod convert;
mod divide;
mod fastfp;
mod flag;
mod fp;
mod misc;
mod moves;
pub mod pack;
mod reduce;
pub mod seed;
mod select;
mod shape;
pub mod shift;
pub mod softfloat;
pub mod vbool;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::regs::{RegFile, Vec512, Wide};
use crate::error::Error;

/// Register file (or immediate) that an operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// `v0..v31`.
    Vec,
    /// `wv0..wv3`.
    Wvec,
    /// `vb0..vb15`.
    Vbool,
    /// `a0..a15`.
    Ar,
    /// `b0..b15`.
    Br,
    /// `pr0..pr15`.
    Pr,
    /// Unsigned immediate of so many bits.
    Imm(u8),
}

/// Direction of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read.
    R,
    /// Only written.
    W,
    /// Read and written.
    M,
}

/// One operand in assembly order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Name as in the operand tables, for instance `vt`.
    pub name: &'static str,
    /// What it names.
    pub file: File,
    /// Direction; immediates are [`Access::R`].
    pub access: Access,
}

/// Operand values in assembly order.
///
/// Register number for vec, wvec, vbool and pr operands and for outputs of any file; the value itself
/// for immediates and for AR and BR inputs, also for read-write AR operands (the core keeps the
/// destination number).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotOperands {
    /// Values in assembly order, unused ones zero.
    pub v: [u32; 6],
}

/// Results of one operation before they are committed. Only the parts named by the operation's
/// [`Writes`] are meaningful; the rest is left over from earlier uses.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct OpOut {
    /// Vector results: first the operand named by [`Writes::vec`], then [`Writes::vec2`].
    pub vec: [Vec512; 2],
    /// Accumulator result.
    pub wide: Wide,
    /// vbool result.
    pub vbool: u64,
    /// AR or BR result.
    pub ar: u32,
    /// b32_pr result, also the new FCR (low half) and FSR (high half) for [`Writes::fp_state`].
    pub pr: u64,
    /// Raw FSR flags raised, before gating. Every operation with [`Writes::flags`] sets this; it may leave
    /// out flags when FSR can observe none at all.
    pub flags: u32,
}

/// Which operand positions an operation writes. 0xff means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// Operand position of the first vector destination.
    pub vec: u8,
    /// Operand position of the second vector destination.
    pub vec2: u8,
    /// Operand position of the accumulator destination.
    pub wvec: u8,
    /// Operand position of the vbool destination.
    pub vbool: u8,
    /// Operand position of the AR (or BR) destination: the core stores [`OpOut::ar`] itself.
    pub ar: u8,
    /// Operand position of the b32_pr destination.
    pub pr: u8,
    /// Bit-plane register 0..=7 written from [`OpOut::pr`], or 8: all from [`OpOut::vec`].
    pub fs: u8,
    /// Whether [`OpOut::flags`] is accumulated into FSR.
    pub flags: bool,
    /// Whether FCR and FSR are replaced from [`OpOut::pr`].
    pub fp_state: bool,
    /// Whether the only destination is the vector of operand 0, by far the most common shape.
    pub plain: bool,
}

/// No operand.
pub const NONE: u8 = 0xff;

impl Writes {
    /// Derives the written positions from an operand list, with neither flags nor state.
    pub const fn of(operands: &[Operand]) -> Writes {
        let mut w = Writes {
            vec: NONE,
            vec2: NONE,
            wvec: NONE,
            vbool: NONE,
            ar: NONE,
            pr: NONE,
            fs: NONE,
            flags: false,
            fp_state: false,
            plain: false,
        };
        let mut i = 0;
        while i < operands.len() {
            if !matches!(operands[i].access, Access::R) {
                match operands[i].file {
                    File::Vec if w.vec == NONE => w.vec = i as u8,
                    File::Vec => w.vec2 = i as u8,
                    File::Vbool => w.vbool = i as u8,
                    File::Ar | File::Br => w.ar = i as u8,
                    File::Pr => w.pr = i as u8,
                    File::Wvec => w.wvec = i as u8,
                    File::Imm(_) => {}
                }
            }
            i += 1;
        }
        w.plain = w.vec == 0
            && w.vec2 == NONE
            && w.wvec == NONE
            && w.vbool == NONE
            && w.ar == NONE
            && w.pr == NONE;
        w
    }
}

/// Executes one operation on the old register state.
pub type OpFn = fn(&RegFile, &SlotOperands, &mut OpOut);

/// What is known of an operation's meaning.
#[derive(Clone, Copy, Debug)]
pub enum Semantics {
    /// Defined: run it.
    Exec(OpFn),
    /// The sources lack a fact.
    Missing {
        /// What no source states.
        fact: &'static str,
        /// Page that ought to state it.
        page: &'static str,
    },
}

/// One mnemonic.
#[derive(Clone, Copy, Debug)]
pub struct OpDef {
    /// Mnemonic as printed by the disassembler.
    pub mnemonic: &'static str,
    /// Operands in assembly order.
    pub operands: &'static [Operand],
    /// What it writes.
    pub writes: Writes,
    /// What it does.
    pub semantics: Semantics,
}

impl OpDef {
    /// The executable function, or the [`crate::error::ErrorClass::MissingSpecification`] error to raise when the
    /// operation is executed (not when it is decoded).
    pub fn exec(&self) -> Result<OpFn, Error> {
        match self.semantics {
            Semantics::Exec(f) => Ok(f),
            Semantics::Missing { fact, page } => {
                Err(Error::missing_spec(format!("{}: {fact}", self.mnemonic), page))
            }
        }
    }
}

impl OpOut {
    /// Writes the results into `regs`. AR results stay in [`OpOut::ar`] for the core.
    #[inline(always)]
    pub fn commit(&self, writes: &Writes, operands: &SlotOperands, regs: &mut RegFile) {
        if writes.plain {
            regs.vec[operands.v[0] as usize % 32] = self.vec[0];
            return;
        }
        let at = |position: u8| operands.v[position as usize % 6] as usize;
        if writes.vec != NONE {
            regs.vec[at(writes.vec) % 32] = self.vec[0];
        }
        if writes.vec2 != NONE {
            regs.vec[at(writes.vec2) % 32] = self.vec[1];
        }
        if writes.wvec != NONE {
            regs.wvec[at(writes.wvec) % 4] = self.wide;
        }
        if writes.vbool != NONE {
            regs.vbool[at(writes.vbool) % 16] = self.vbool;
        }
        if writes.pr != NONE {
            regs.b32_pr[at(writes.pr) % 16] = self.pr;
        }
        match writes.fs {
            NONE => {}
            8 => regs.fs = *self.vec[0].u64s(),
            n => regs.fs[n as usize % 8] = self.pr,
        }
        if writes.flags {
            regs.raise(self.flags);
        }
        if writes.fp_state {
            regs.fcr = self.pr as u32;
            regs.fsr = (self.pr >> 32) as u32;
        }
    }
}

/// All operations, in no particular order.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

static FAMILIES: &[&[OpDef]] = &[
    alu::OPS,
    convert::OPS,
    divide::OPS,
    flag::OPS,
    fp::COMPARES,
    fp::OPS,
    misc::OPS,
    moves::OPS,
    pack::OPS,
    reduce::OPS,
    seed::OPS,
    select::OPS,
    shift::OPS,
    vbool::OPS,
];

static BY_NAME: LazyLock<FxHashMap<&'static str, &'static OpDef>> =
    LazyLock::new(|| all().map(|op| (op.mnemonic, op)).collect());

/// The operation of that mnemonic. An underscore may stand for the dot of the scalar names:
/// `recip0_h` is `recip0.h`, `rur_fcr` is `rur.fcr`.
pub fn lookup(mnemonic: &str) -> Option<&'static OpDef> {
    BY_NAME.get(mnemonic).copied().or_else(|| {
        let (stem, suffix) = mnemonic.rsplit_once('_')?;
        BY_NAME.get(format!("{stem}.{suffix}").as_str()).copied()
    })
}

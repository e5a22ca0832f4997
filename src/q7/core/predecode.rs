//! From bytes to executable form, once per instruction.

use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::q7::codec::{self, Bundle, Op};

use super::scalar::{ScalarOp, by_mnemonic};
use super::timing;
use super::vector::{self, Single, VectorBundle};
use super::{Core, CoreConfig, Fault, Q7Bus};

/// No instruction at that place yet.
pub(super) const UNLINKED: u32 = u32::MAX;

/// An instruction ready to run.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Insn {
    /// Address.
    pub pc: u32,
    /// Address after it.
    pub next_pc: u32,
    /// Index of the instruction after it.
    pub next: u32,
    /// Branch target or loop end.
    pub target_pc: u32,
    /// Index of the branch target.
    pub target: u32,
    /// Immediate, register number, bundle or error index.
    pub imm: i32,
    /// Operation.
    pub op: ScalarOp,
    pub r: u8,
    pub s: u8,
    pub t: u8,
    /// Stage at which `as` is read, [`UNUSED`] if it is not.
    pub use_s: u8,
    /// Stage at which `at` is read.
    pub use_t: u8,
    /// Width of `extui` and the like.
    pub extra: u8,
}

/// A use stage so late that it never waits.
pub(super) const UNUSED: u8 = 255;

/// Decoded instructions of a core.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub(super) insns: Vec<Insn>,
    pub(super) bundles: Vec<VectorBundle>,
    pub(super) singles: Vec<Single>,
    pub(super) errors: Vec<Error>,
    /// Index by address for the instruction RAM, grown as needed.
    by_address: Vec<u32>,
    /// Index by address for code elsewhere.
    elsewhere: FxHashMap<u32, u32>,
}

impl Code {
    fn find(&self, pc: u32, iram: u32) -> u32 {
        if pc < iram {
            self.by_address.get(pc as usize).copied().unwrap_or(UNLINKED)
        } else {
            self.elsewhere.get(&pc).copied().unwrap_or(UNLINKED)
        }
    }

    fn insert(&mut self, pc: u32, iram: u32, index: u32) {
        if pc < iram {
            if self.by_address.is_empty() {
                self.by_address.resize(iram as usize, UNLINKED);
            }
            self.by_address[pc as usize] = index;
        } else {
            self.elsewhere.insert(pc, index);
        }
    }

    /// Index of the instruction at `pc`, decoding it if needed.
    pub(super) fn at(
        &mut self,
        core: &mut Core,
        bus: &mut dyn Q7Bus,
        pc: u32,
    ) -> Result<u32, Box<Fault>> {
        let iram = core.config.iram_size;
        let found = self.find(pc, iram);
        if found != UNLINKED {
            return Ok(found);
        }
        let bytes = core.fetch(bus, pc)?;
        let index = self.insns.len() as u32;
        let insn = match codec::decode(&bytes, pc, core.config.codec) {
            Ok(bundle) => self.lower(&bundle, pc, &core.config),
            Err(error) => self.fail(pc, 0, error),
        };
        self.insns.push(insn);
        self.insert(pc, iram, index);
        Ok(index)
    }

    fn fail(&mut self, pc: u32, length: u32, error: Error) -> Insn {
        self.errors.push(error);
        let mut insn = empty(pc, length);
        insn.op = ScalarOp::Fail;
        insn.imm = self.errors.len() as i32 - 1;
        insn
    }

    fn lower(&mut self, bundle: &Bundle, pc: u32, config: &CoreConfig) -> Insn {
        let length = u32::from(bundle.frame.length);
        if length < 8 {
            return match lower_scalar(&bundle.ops[0], pc, length) {
                Some(insn) => insn,
                None => self.fail(
                    pc,
                    length,
                    Error::missing_spec(
                        format!("what `{}` does", bundle.ops[0].row.mnemonic),
                        "wiki: isa/ref/b27-xt-system",
                    ),
                ),
            };
        }
        match vector::lower(bundle, config) {
            Ok(vector) => {
                if let Some(single) = vector.single() {
                    self.singles.push(single);
                    let mut insn = empty(pc, length);
                    insn.op = ScalarOp::Single;
                    insn.imm = self.singles.len() as i32 - 1;
                    return insn;
                }
                self.bundles.push(vector);
                let mut insn = empty(pc, length);
                insn.op = ScalarOp::Bundle;
                insn.imm = self.bundles.len() as i32 - 1;
                insn
            }
            Err(error) => {
                let error = error.or_at(&crate::error::Location {
                    disassembly: Some(bundle.text(&|_| None)),
                    ..Default::default()
                });
                self.fail(pc, length, error)
            }
        }
    }
}

fn empty(pc: u32, length: u32) -> Insn {
    Insn {
        pc,
        next_pc: pc.wrapping_add(length),
        next: UNLINKED,
        target_pc: 0,
        target: UNLINKED,
        imm: 0,
        op: ScalarOp::Nop,
        r: 0,
        s: 0,
        t: 0,
        use_s: UNUSED,
        use_t: UNUSED,
        extra: 0,
    }
}

fn lower_scalar(op: &Op, pc: u32, length: u32) -> Option<Insn> {
    use ScalarOp as S;
    let code = by_mnemonic(op.row.mnemonic)?;
    let mut insn = empty(pc, length);
    insn.op = code;
    // Where a field is read decides how long it waits.
    let (s_stage, t_stage) = match code {
        S::L8ui | S::L16ui | S::L16si | S::L32i => (timing::ADDRESS, UNUSED),
        S::S8i | S::S16i | S::S32i => (timing::ADDRESS, timing::MEMORY),
        S::Bnone
        | S::Beq
        | S::Blt
        | S::Bltu
        | S::Ball
        | S::Bbc
        | S::Bany
        | S::Bne
        | S::Bge
        | S::Bgeu
        | S::Bnall
        | S::Bbs
        | S::Bbci
        | S::Bbsi
        | S::Beqz
        | S::Bnez
        | S::Bltz
        | S::Bgez
        | S::Beqi
        | S::Bnei
        | S::Blti
        | S::Bgei
        | S::Bltui
        | S::Bgeui
        | S::Jx
        | S::Callx0
        | S::Callx8
        | S::Loop
        | S::Loopnez
        | S::Loopgtz => (timing::BRANCH, timing::BRANCH),
        _ => (timing::ALU, timing::ALU),
    };
    for (field, &value) in op.row.fields.iter().zip(&op.values) {
        use crate::q7::codec::field::{Access, File, ImmCode};
        let reads_ar = field.file == File::Ar && field.access != Access::Write;
        match field.name {
            "r" => insn.r = value as u8,
            "s" => {
                insn.s = value as u8;
                if reads_ar {
                    insn.use_s = s_stage;
                }
            }
            "t" | "bt" => {
                insn.t = value as u8;
                if reads_ar {
                    insn.use_t = t_stage;
                }
            }
            "width" => insn.extra = value as u8,
            _ if field.is_target() => {
                insn.target_pc = value as u32;
                if field.code == ImmCode::Literal {
                    insn.imm = value as i32;
                }
            }
            _ => insn.imm = value as i32,
        }
    }
    if code == S::Movi && op.row.mnemonic == "movi.n" {
        // The density form names its destination s.
        insn.t = insn.s;
    }
    if matches!(op.row.mnemonic, "addi.n") {
        insn.t = insn.r;
    }
    if matches!(op.row.mnemonic, "l32e" | "s32e") {
        insn.extra = 1;
    }
    Some(insn)
}

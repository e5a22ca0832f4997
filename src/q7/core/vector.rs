//! Bundles: every slot computed from the old state, then all results committed.

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::q7::codec::field::{Access, File};
use crate::q7::codec::{Bundle, Op, special};
use crate::q7::ops::{self, OpFn, OpOut, SlotOperands, Writes};
use crate::q7::regs::Vec512;

use super::exec::{End, Flow};
use super::loadstore::{self, Effect, MemoryOp};
use super::predecode::Insn;
use super::{Cause, Core, CoreConfig, Fault, Q7Bus, timing};

/// Results of the slots of one bundle before the commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    out: [OpOut; 5],
    effects: [Effect; 5],
}

/// A value operation.
#[derive(Clone, Debug)]
pub(super) struct Value {
    function: OpFn,
    operands: SlotOperands,
    writes: Writes,
    /// Operand positions that take the value of an address or boolean register.
    scalar_in: SmallVec<[(u8, u8, File); 2]>,
    /// Address or boolean register that takes [`OpOut::ar`].
    ar_out: Option<(u8, File)>,
}

/// What one slot does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Value(Box<Value>),
    Memory(MemoryOp),
    /// `addi` in a slot.
    AddImmediate {
        to: u8,
        from: u8,
        value: u32,
    },
    /// Broadcast of the low bytes of an address register.
    Broadcast {
        to: u8,
        from: u8,
        bytes: u8,
    },
    /// Broadcast of a constant.
    Constant {
        to: u8,
        value: u16,
        bytes: u8,
    },
    /// The sources lack a fact about an operation that decodes.
    Missing(Box<Error>),
}

/// A bundle in executable form.
#[derive(Clone, Debug)]
pub(super) struct VectorBundle {
    actions: SmallVec<[Action; 2]>,
    /// Scoreboard index (AR below 16, in the window) and stage of every register read.
    reads: SmallVec<[(u8, u8); 6]>,
    /// The same for registers written.
    writes: SmallVec<[(u8, u8); 4]>,
    /// Whether the vector unit must be enabled.
    vision: bool,
}

/// A bundle with one value operation whose only result is a vector register: the common case, kept
/// in fixed arrays.
#[derive(Clone, Debug)]
pub(super) struct Single {
    function: OpFn,
    operands: SlotOperands,
    /// Scoreboard index and stage; unused entries name the index that is always ready.
    reads: [(u8, u8); 4],
    to: u8,
    stage: u8,
}

/// A scoreboard index that nothing writes.
const ALWAYS_READY: u8 = u8::MAX;

impl VectorBundle {
    /// The bundle as a [`Single`], if it is one.
    pub(super) fn single(&self) -> Option<Single> {
        let [Action::Value(value)] = self.actions.as_slice() else { return None };
        let w = &value.writes;
        let only_vec = w.vec != ops::NONE
            && [w.vec2, w.vbool, w.ar, w.pr].iter().all(|&at| at == ops::NONE)
            && !w.flags
            && !w.fp_state;
        let [(slot, stage)] = *self.writes.as_slice() else { return None };
        if !only_vec || !value.scalar_in.is_empty() || self.reads.len() > 4 || slot < timing::VEC {
            return None;
        }
        let mut reads = [(ALWAYS_READY, 0); 4];
        reads[..self.reads.len()].copy_from_slice(&self.reads);
        let to = slot - timing::VEC;
        Some(Single { function: value.function, operands: value.operands, reads, to, stage })
    }
}

/// Scoreboard index of a register.
fn slot_of(file: File, n: u8) -> Option<u8> {
    Some(match file {
        File::Ar => n & 15,
        File::Vec => timing::VEC + (n & 31),
        File::VBool => timing::VBOOL + (n & 15),
        File::WVec => timing::WVEC + (n & 3),
        File::VAlign => timing::VALIGN + (n & 3),
        File::Pr => timing::PR + (n & 15),
        File::Gvr => timing::GVR + (n & 7),
        File::Br | File::Br4 | File::Br8 | File::Imm => return None,
    })
}

/// Executable form of a bundle.
///
/// # Errors
/// `Unimplemented` or `MissingSpecification` naming the operation that has none.
pub(super) fn lower(bundle: &Bundle, _config: &CoreConfig) -> Result<VectorBundle> {
    let mut out = VectorBundle {
        actions: SmallVec::new(),
        reads: SmallVec::new(),
        writes: SmallVec::new(),
        vision: false,
    };
    for op in bundle.ops.iter().filter(|op| !op.is_nop()) {
        let action = action(op)?;
        let (read_stage, write_stage) = stages(op, &action);
        for (field, &value) in op.row.fields.iter().zip(&op.values) {
            let Some(slot) = slot_of(field.file, value as u8) else { continue };
            out.vision |= field.file != File::Ar;
            let memory = matches!(action, Action::Memory(_));
            if field.access != Access::Write {
                let stage = match field.file {
                    File::Ar if memory => timing::ADDRESS,
                    File::Ar => read_stage,
                    File::VAlign if !is_store(&action) => timing::ALIGN,
                    File::WVec if field.access == Access::Modify => timing::ACCUMULATOR_USE,
                    _ => timing::VECTOR,
                };
                out.reads.push((slot, stage));
            }
            if field.access != Access::Read {
                let stage = match field.file {
                    File::Ar if memory => timing::ADDRESS,
                    File::VAlign if is_store(&action) => timing::VECTOR,
                    File::VAlign => timing::ALIGN,
                    File::WVec => timing::ACCUMULATOR,
                    _ => write_stage,
                };
                out.writes.push((slot, stage));
            }
        }
        out.actions.push(action);
    }
    let stores = out.actions.iter().filter(|a| is_store(a)).count();
    let memory = out.actions.iter().filter(|a| matches!(a, Action::Memory(_))).count();
    if stores > 1 || memory > 2 {
        return Err(Error::illegal(
            "q7_memory_ports",
            "a bundle has at most two memory operations, one of them a store",
        ));
    }
    Ok(out)
}

fn is_store(action: &Action) -> bool {
    matches!(action, Action::Memory(op) if op.is_store())
}

/// Stage at which AR is read, and at which results are defined.
fn stages(op: &Op, action: &Action) -> (u8, u8) {
    match action {
        Action::Memory(_) => (timing::ADDRESS, timing::VECTOR),
        Action::AddImmediate { .. } => (timing::ALU, timing::ALU),
        // OPEN: where a move from AR to the vector side reads AR is not stated; taken as the
        // predicate operations' stage.
        Action::Broadcast { .. } | Action::Constant { .. } => (timing::BRANCH, 11),
        _ => (timing::BRANCH, timing::result_stage(op.row.mnemonic)),
    }
}

fn action(op: &Op) -> Result<Action> {
    let mnemonic = op.row.mnemonic;
    let register = |at: usize| op.values.get(at).copied().unwrap_or(0) as u8;
    match mnemonic {
        "addi" | "addi.a" => {
            return Ok(Action::AddImmediate {
                to: register(0),
                from: register(1),
                value: op.values.get(2).copied().unwrap_or(0) as u32,
            });
        }
        "ivp_movva8" | "ivp_movva16" | "ivp_movva32" => {
            let bytes = match mnemonic {
                "ivp_movva8" => 1,
                "ivp_movva16" => 2,
                _ => 4,
            };
            return Ok(Action::Broadcast { to: register(0), from: register(1), bytes });
        }
        "ivp_movvint8" | "ivp_movvinx16" => {
            let bytes = if mnemonic == "ivp_movvint8" { 1 } else { 2 };
            let value = op.values.get(1).copied().unwrap_or(0) as u16;
            return Ok(Action::Constant { to: register(0), value, bytes });
        }
        _ => {}
    }
    if let Some(memory) = loadstore::lower(op) {
        return memory.map(Action::Memory);
    }
    let Some(def) = ops::lookup(mnemonic) else {
        return Err(Error::unimplemented(format!("Q7 operation `{mnemonic}`")));
    };
    let function = match def.exec() {
        Ok(function) => function,
        Err(error) => return Ok(Action::Missing(Box::new(error))),
    };
    value(op, def, function)
}

/// Joins the operands of the encoding with those of the operation, both in assembly order.
fn value(op: &Op, def: &'static ops::OpDef, function: OpFn) -> Result<Action> {
    if def.operands.len() != op.values.len() || def.operands.len() > 6 {
        return Err(Error::internal(format!(
            "`{}` is encoded with {} operands and defined with {}",
            op.row.mnemonic,
            op.values.len(),
            def.operands.len()
        )));
    }
    let mut out = Value {
        function,
        operands: SlotOperands::default(),
        writes: def.writes,
        scalar_in: SmallVec::new(),
        ar_out: None,
    };
    for (at, (operand, field)) in def.operands.iter().zip(&op.row.fields).enumerate() {
        let value = op.values[at] as u32;
        out.operands.v[at] = value;
        let same = match operand.file {
            ops::File::Vec => field.file == File::Vec,
            ops::File::Wvec => field.file == File::WVec,
            ops::File::Vbool => field.file == File::VBool,
            ops::File::Ar => field.file == File::Ar,
            ops::File::Br => field.file == File::Br,
            ops::File::Pr => field.file == File::Pr,
            ops::File::Imm(_) => field.file == File::Imm,
        };
        if !same {
            return Err(Error::internal(format!(
                "operand {} of `{}` is {:?} in the encoding and {:?} in the operation",
                at, op.row.mnemonic, field.file, operand.file
            )));
        }
        let file = match operand.file {
            ops::File::Ar => File::Ar,
            ops::File::Br => File::Br,
            _ => continue,
        };
        if operand.access != ops::Access::W {
            out.scalar_in.push((at as u8, value as u8, file));
        }
        if operand.access != ops::Access::R {
            out.ar_out = Some((value as u8, file));
        }
    }
    Ok(Action::Value(Box::new(out)))
}

impl Core {
    #[inline(always)]
    fn scoreboard(&self, slot: u8) -> usize {
        if slot < 16 { ((self.window + u32::from(slot)) & 63) as usize } else { usize::from(slot) }
    }

    /// Executes a [`Single`].
    #[inline(always)]
    pub(super) fn single(
        &mut self,
        single: &Single,
        insn: &Insn,
        now: &mut i64,
    ) -> Result<Flow, End> {
        let mut cycle = *now;
        for (slot, stage) in single.reads {
            cycle = cycle.max(self.ready[usize::from(slot)] - i64::from(stage));
        }
        *now = cycle + 1;
        if self.plain[usize::from(special::sr::CPENABLE)] & 2 == 0 {
            self.pc = insn.pc;
            return self.exception(Cause::Coprocessor1, insn.pc).map_err(End::Fault);
        }
        let out = &mut self.scratch.out[0];
        (single.function)(&self.regs, &single.operands, out);
        self.regs.vec[usize::from(single.to & 31)] = out.vec[0];
        self.ready[usize::from(timing::VEC + (single.to & 31))] = cycle + i64::from(single.stage);
        Ok(Flow::Next)
    }

    /// Executes a bundle at `pc`.
    #[inline(never)]
    pub(super) fn execute_bundle(
        &mut self,
        bundle: &VectorBundle,
        pc: u32,
        bus: &mut dyn Q7Bus,
    ) -> Result<(), Box<Fault>> {
        let mut cycle = self.now;
        for &(slot, stage) in &bundle.reads {
            cycle = cycle.max(self.ready[self.scoreboard(slot)] - i64::from(stage));
        }
        self.now = cycle + 1;
        let enabled = self.plain[usize::from(special::sr::CPENABLE)] & 2 != 0;
        if bundle.vision && !enabled {
            self.pc = pc;
            return self.exception(Cause::Coprocessor1, pc);
        }
        match bundle.actions.as_slice() {
            [Action::Value(value)] => {
                let operands = self.operands(value);
                let out = &mut self.scratch.out[0];
                (value.function)(&self.regs, &operands, out);
                out.commit(&value.writes, &operands, &mut self.regs);
                let ar = out.ar;
                self.commit_ar(value, ar);
            }
            [Action::Memory(op)] => {
                self.pc = pc;
                op.run_alone(self, bus)?;
            }
            actions => {
                self.pc = pc;
                self.execute_slots(actions, bus)?;
            }
        }
        for &(slot, stage) in &bundle.writes {
            let at = self.scoreboard(slot);
            // An address register's consumers wait one cycle more, see `timing`.
            self.ready[at] = cycle + i64::from(stage) + i64::from(slot < 16);
        }
        Ok(())
    }

    #[inline(always)]
    fn operands(&self, value: &Value) -> SlotOperands {
        let mut operands = value.operands;
        for &(at, register, file) in &value.scalar_in {
            operands.v[usize::from(at) % 6] = match file {
                File::Br => u32::from(self.br >> (register & 15) & 1),
                _ => self.a(u32::from(register)),
            };
        }
        operands
    }

    #[inline(always)]
    fn commit_ar(&mut self, value: &Value, result: u32) {
        match value.ar_out {
            None => {}
            Some((register, File::Ar)) => self.set_a(u32::from(register), result),
            Some((register, _)) => {
                let bit = 1 << (register & 15);
                self.br = if result & 1 != 0 { self.br | bit } else { self.br & !bit };
            }
        }
    }

    #[inline(never)]
    fn execute_slots(&mut self, actions: &[Action], bus: &mut dyn Q7Bus) -> Result<(), Box<Fault>> {
        // Everything is read before anything is written.
        for (at, action) in actions.iter().enumerate().take(5) {
            match action {
                Action::Value(value) => {
                    let operands = self.operands(value);
                    (value.function)(&self.regs, &operands, &mut self.scratch.out[at]);
                }
                Action::Memory(op) => {
                    let effect = op.run(self, bus)?;
                    self.scratch.effects[at] = effect;
                }
                Action::AddImmediate { to, from, value } => {
                    let sum = self.a(u32::from(*from)).wrapping_add(*value);
                    self.scratch.effects[at] = Effect { ar: Some((*to, sum)), ..Effect::default() };
                }
                Action::Broadcast { to, from, bytes } => {
                    let from = self.a(u32::from(*from));
                    let vec = match bytes {
                        1 => Vec512::splat8(from as u8),
                        2 => Vec512::splat16(from as u16),
                        _ => Vec512::splat32(from),
                    };
                    self.scratch.effects[at] =
                        Effect { vec: Some((*to, vec)), ..Effect::default() };
                }
                Action::Constant { to, value, bytes } => {
                    let vec = match bytes {
                        1 => Vec512::splat8(*value as u8),
                        _ => Vec512::splat16(*value),
                    };
                    self.scratch.effects[at] =
                        Effect { vec: Some((*to, vec)), ..Effect::default() };
                }
                Action::Missing(error) => {
                    return Err(Box::new(Fault::Error { pc: self.pc, error: error.clone() }));
                }
            }
        }
        // Stores can fault, so they go first.
        for (at, action) in actions.iter().enumerate().take(5) {
            if !matches!(action, Action::Value(_))
                && let Some(write) = self.scratch.effects[at].write
            {
                write.perform(self, bus)?;
            }
        }
        for (at, action) in actions.iter().enumerate().take(5) {
            if let Action::Value(value) = action {
                let operands = value.operands;
                let out = &self.scratch.out[at];
                out.commit(&value.writes, &operands, &mut self.regs);
                let ar = out.ar;
                self.commit_ar(value, ar);
            } else {
                let effect = self.scratch.effects[at];
                effect.commit(self);
            }
        }
        Ok(())
    }
}

//! Values of expressions as one statement sees them, and what they move with.

use smallvec::SmallVec;

use crate::error::Result;
use crate::q7::codec::Bundle;

use super::expr::{Expr, Half};
use super::insn::{InsnText, Operand, Resolve, split_special};
use super::link::reloc;
use super::source;
use super::{Assembler, DraftReloc, Segment, program};

/// What an address moves with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// A segment of an image: 0 text, 1 data. The value is an address.
    Segment(usize),
    /// A section of an object. The value is an offset in it.
    Section(usize),
    /// A symbol of another file, or one that another file may override. The value is an addend.
    Symbol(String),
}

/// A value and what it moves with.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    /// The part that is known.
    pub value: i64,
    bases: SmallVec<[(Base, bool); 2]>,
}

impl Sum {
    fn at(base: Base, value: i64) -> Sum {
        let mut bases = SmallVec::new();
        bases.push((base, true));
        Sum { value, bases }
    }

    fn add(&mut self, other: Sum, positive: bool) {
        let sign = if positive { 1 } else { -1 };
        self.value = self.value.wrapping_add(other.value.wrapping_mul(sign));
        for (base, side) in other.bases {
            let side = side == positive;
            // Addresses of one section differ by a constant.
            match self.bases.iter().position(|(b, s)| *b == base && *s != side) {
                Some(at) => drop(self.bases.remove(at)),
                None => self.bases.push((base, side)),
            }
        }
    }

    /// What the value moves with, `None` for a number.
    ///
    /// # Errors
    /// `ProgramError` for a sum or difference that no relocation can express.
    pub fn base(&self) -> Result<Option<Base>> {
        match self.bases.as_slice() {
            [] => Ok(None),
            [(base, true)] => Ok(Some(base.clone())),
            _ => Err(program("this mixture of addresses cannot be relocated")),
        }
    }
}

/// Symbols as seen from one statement.
pub(super) struct Scope<'a> {
    pub assembler: &'a Assembler<'a>,
    /// Section of the statement.
    pub section: usize,
    pub here: u32,
    pub statement: usize,
}

impl Scope<'_> {
    /// Value of an expression, `None` while symbols are not placed.
    ///
    /// # Errors
    /// `ProgramError` for an undefined or circular symbol.
    pub fn full(&self, expr: &Expr, depth: u32) -> Result<Option<Sum>> {
        let asm = self.assembler;
        let mut total = Sum { value: expr.constant, ..Sum::default() };
        for (name, positive) in &expr.symbols {
            let value = if name == "." {
                if !asm.placed {
                    return Ok(None);
                }
                Sum::at(self.base_of(self.section), i64::from(self.here))
            } else if let Some(constant) = asm.constants.get(name) {
                if depth > 16 {
                    return Err(program(format!("`{name}` is defined by itself")));
                }
                match self.full(constant, depth + 1)? {
                    Some(value) => value,
                    None => return Ok(None),
                }
            } else {
                let numbered = source::local_key(name, self.statement);
                let label = match &numbered {
                    Some((digits, forward)) => asm.local_label(digits, *forward, self.statement),
                    None => asm.labels.get(name).copied(),
                };
                match label {
                    _ if !asm.placed => return Ok(None),
                    Some(_) if asm.relocatable && asm.weak.contains(name) => {
                        Sum::at(Base::Symbol(name.clone()), 0)
                    }
                    Some((section, offset)) => {
                        let address = asm.sections[section].address.wrapping_add(offset);
                        Sum::at(self.base_of(section), i64::from(address))
                    }
                    None if asm.relocatable && numbered.is_none() => {
                        Sum::at(Base::Symbol(name.clone()), 0)
                    }
                    None => return Err(program(format!("undefined symbol `{name}`"))),
                }
            };
            total.add(value, *positive);
        }
        Ok(Some(total))
    }

    fn base_of(&self, section: usize) -> Base {
        if self.assembler.relocatable {
            Base::Section(section)
        } else {
            Base::Segment(usize::from(self.assembler.sections[section].segment != Segment::Text))
        }
    }

    /// Whether a PC-relative operand to `base` is final.
    fn is_near(&self, base: &Base) -> bool {
        !self.assembler.relocatable || *base == self.base_of(self.section)
    }

    /// Relocations of the operands of an instruction at `offset` of its section.
    ///
    /// # Errors
    /// `ProgramError` for an operand that no relocation can fill.
    pub fn relocations(
        &self,
        text: &InsnText,
        bundle: &Bundle,
        offset: u32,
    ) -> Result<Vec<DraftReloc>> {
        let mut out = Vec::new();
        let mut ops = text.ops.iter().peekable();
        for (slot, encoded) in bundle.ops.iter().enumerate() {
            // Slots are filled in order, with `nop`s put between.
            let Some(op) = ops.next_if(|op| {
                let name = op.mnemonic.as_str();
                encoded.row.mnemonic == name || encoded.row.mnemonic == split_special(name).0
            }) else {
                continue;
            };
            let relative = encoded.row.fields.iter().any(|field| field.is_target());
            for operand in &op.operands {
                let Operand::Expr(expr, half) = operand else { continue };
                let Some(sum) = self.full(expr, 0)? else { continue };
                let Some(base) = sum.base()? else { continue };
                let first = match half {
                    Half::High => reloc::HIGH,
                    Half::Low => reloc::LOW,
                    Half::Whole if relative && self.is_near(&base) => continue,
                    Half::Whole => reloc::LOW,
                };
                if *half != Half::Whole && encoded.row.mnemonic != "const16" {
                    return Err(program(format!(
                        "`{}` cannot take half of an address",
                        encoded.row.mnemonic
                    )));
                }
                let kind = first + slot as u32;
                out.push(DraftReloc { offset, kind, base, value: sum.value });
            }
        }
        Ok(out)
    }
}

impl Resolve for Scope<'_> {
    fn value(&self, expr: &Expr, half: Half, relative: bool) -> Result<Option<i64>> {
        let Some(sum) = self.full(expr, 0)? else { return Ok(None) };
        match sum.base()? {
            None => Ok(Some(half.of(sum.value))),
            Some(_) if half == Half::Whole && !relative => {
                Err(program("an address does not fit here; take its halves with @h and @l"))
            }
            Some(base) if relative && self.is_near(&base) => Ok(Some(sum.value)),
            Some(_) if !self.assembler.relocatable => Ok(Some(half.of(sum.value))),
            // The linker fills it in.
            Some(_) => Ok(None),
        }
    }
}

//! `.tensor name memory dtype[shape] [input|output] [at …] [overlap] [= data]`.

use super::super::elem::ElemType;
use super::super::limits;
use super::super::model::{Memory, Role, Tensor};
use super::super::place;
use super::Assembler;
use crate::isa::text::expr::{Cursor, integer};
use crate::isa::text::list;
use crate::isa::text::syntax::{SyntaxError, SyntaxResult, nearest};

impl Assembler<'_> {
    pub(super) fn tensor(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let name = cursor.ident("the name of the tensor")?;
        let generation = self.generation(name.span)?;
        self.new_name(name)?;
        if self.program.tensors.len() >= limits::DECLARATIONS {
            return Err(SyntaxError::new(name.span, "too many tensors"));
        }
        let memory = cursor.ident("a memory: hbm, sbuf, psum")?;
        let memory = match memory.text {
            "hbm" => Memory::Hbm,
            "sbuf" => Memory::Sbuf,
            "psum" => Memory::Psum,
            other => {
                let message = format!("no memory is called `{other}`");
                return Err(SyntaxError::new(memory.span, message).help("hbm, sbuf, psum"));
            }
        };
        let dtype = cursor.ident("a dtype such as bf16")?;
        let Some(elem) = ElemType::from_name(dtype.text) else {
            let message = format!("no dtype is called `{}`", dtype.text);
            let help = nearest(dtype.text, ElemType::names()).map_or_else(
                || ElemType::names().collect::<Vec<_>>().join(", "),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(SyntaxError::new(dtype.span, message).help(help));
        };
        let elem = elem.on(generation);
        let start = cursor.span();
        let dims = limits::TENSOR_DIMENSIONS;
        let high = i128::from(limits::TENSOR_BYTES);
        let shape = list(cursor, &self.names, dims, 1, high)?;
        let span = start.to(cursor.previous());
        let mut tensor = Tensor {
            name: name.text.to_owned(),
            dtype: elem,
            shape: shape.iter().map(|d| *d as u64).collect(),
            memory,
            address: 0,
            init: None,
            role: Role::Internal,
        };
        if tensor.bytes() > limits::TENSOR_BYTES {
            let message = format!("a tensor may have {} bytes at most", limits::TENSOR_BYTES);
            return Err(SyntaxError::new(span, message));
        }
        if tensor.dtype.bits() < 8 && tensor.row_bytes() * 8 != tensor.row_bits() {
            return Err(SyntaxError::new(span, "rows of a packed type must fill whole bytes"));
        }
        let mut placed = false;
        let mut overlap = false;
        while !cursor.at_end() && !cursor.is("=") {
            let word =
                cursor.ident("`input`, `output`, `at`, `partition`, `bank`, `overlap` or `=`")?;
            match word.text {
                "input" => tensor.role = Role::Input,
                "output" => tensor.role = Role::Output,
                "overlap" => overlap = true,
                "at" | "partition" | "bank" if placed => {
                    return Err(SyntaxError::new(word.span, "the place is given twice"));
                }
                "at" => {
                    tensor.address = integer(cursor, &self.names, 0, u64::MAX.into())? as u64;
                    placed = true;
                }
                "partition" | "bank" => {
                    let g = place::geometry(generation, memory).ok_or_else(|| {
                        SyntaxError::new(word.span, "hbm has no partitions and no banks")
                    })?;
                    let number = integer(cursor, &self.names, 0, 1 << 20)? as u64;
                    let mut byte = 0;
                    if cursor.eat_word("byte") {
                        byte = integer(cursor, &self.names, 0, 1 << 30)? as u64;
                    }
                    tensor.address = if word.text == "partition" {
                        g.base + number * g.stride + byte
                    } else if g.bank == 0 {
                        return Err(SyntaxError::new(word.span, "only psum has banks"));
                    } else if number >= g.active / g.bank {
                        let message = format!("psum has banks 0 to {}", g.active / g.bank - 1);
                        return Err(SyntaxError::new(word.span.to(cursor.previous()), message));
                    } else {
                        g.base + number * g.bank + byte
                    };
                    placed = true;
                }
                other => {
                    return Err(SyntaxError::new(word.span, format!("unexpected `{other}`")));
                }
            }
        }
        let others = &self.program.tensors;
        if placed {
            place::check_bounds(&tensor, generation).map_err(|why| SyntaxError::new(span, why))?;
            if let Some(other) = place::overlap(&tensor, others, generation).filter(|_| !overlap) {
                let message = format!("`{}` shares memory with `{}`", tensor.name, other.name);
                return Err(SyntaxError::new(name.span, message).help(
                    "add `overlap` if that is meant; declare hand-placed tensors before automatic \
                     ones",
                ));
            }
        } else {
            tensor.address = place::find_place(&tensor, others, generation)
                .map_err(|why| SyntaxError::new(span, why))?;
        }
        if cursor.eat("=") {
            tensor.init = Some(self.initial(cursor, &tensor)?);
        }
        cursor.finish()?;
        self.names.tensors.insert(tensor.name.clone(), tensor.address);
        self.program.tensors.push(tensor);
        Ok(())
    }
}

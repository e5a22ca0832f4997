//! DMA queues, blocks of copies, and the words that start them.

use super::super::elem::ElemType;
use super::super::limits;
use super::super::model::{DmaBlock, DmaQueue, DmaSide, DmaTransfer, Memory, Tensor, Update};
use super::super::place::{check_side, geometry};
use super::Assembler;
use crate::isa::text::events::index;
use crate::isa::text::expr::{Cursor, Env, integer};
use crate::isa::text::inst;
use crate::isa::text::lex::{Kind, Token, lex_line};
use crate::isa::text::list;
use crate::isa::text::syntax::{Span, SyntaxError, SyntaxResult, nearest};
use crate::isa::{Engine, struct_in};

/// A trigger whose block may be declared later.
pub(super) struct Trigger {
    engine: Engine,
    word: usize,
    /// Where the block number goes.
    offset: usize,
    queue: (String, Span),
    block: (String, Span),
}

/// Bytes of the queue name in the trigger word, the terminating NUL included.
const NAME_BYTES: usize = 32;

impl Assembler<'_> {
    /// `.queue name engine=SP [semaphore=s] [kind=in]`.
    pub(super) fn queue(&mut self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<()> {
        let name = cursor.ident("the name of the queue")?;
        self.generation(name.span)?;
        if self.program.queue(name.text).is_some() {
            let message = format!("the queue `{}` is already declared", name.text);
            return Err(SyntaxError::new(name.span, message));
        }
        if name.text.len() >= NAME_BYTES {
            return Err(SyntaxError::new(name.span, "queue names have at most 31 bytes"));
        }
        if self.program.queues.len() >= limits::DECLARATIONS {
            return Err(SyntaxError::new(name.span, "too many queues"));
        }
        let (mut owner, mut semaphore, mut kind) = (None, None, None);
        while !cursor.at_end() {
            let key = cursor.ident("`engine=`, `semaphore=` or `kind=`")?;
            cursor.expect("=")?;
            match key.text {
                "engine" => {
                    let token = cursor.ident("an engine")?;
                    let engine = token.text.parse::<Engine>();
                    owner = Some(engine.map_err(|e| SyntaxError::new(token.span, e.message))?);
                }
                "semaphore" => {
                    let named = cursor.peek().and_then(|t| self.names.semaphore(t.text));
                    semaphore = Some(match named {
                        Some(number) => {
                            cursor.next();
                            number
                        }
                        None => integer(cursor, &self.names, 0, 255)? as u32,
                    });
                }
                "kind" => {
                    let token = cursor.ident("a kind such as in, out, data")?;
                    kind = Some(token.text.to_owned());
                }
                other => {
                    return Err(SyntaxError::new(key.span, format!("unexpected `{other}`")));
                }
            }
        }
        let owner = owner.ok_or_else(|| {
            SyntaxError::new(name.span, "the queue has no owner").help("add `engine=SP` or another")
        })?;
        let name = name.text.to_owned();
        self.program.queues.push(DmaQueue { name, owner, semaphore, kind });
        Ok(())
    }

    fn queue_named(&self, token: Token<'_>) -> SyntaxResult<usize> {
        self.program.queue(token.text).ok_or_else(|| {
            let error =
                SyntaxError::new(token.span, format!("no queue is called `{}`", token.text));
            let names = self.program.queues.iter().map(|q| q.name.as_str());
            match nearest(token.text, names) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            }
        })
    }

    /// `.block queue name [id=n] [none | $S[x]+=1 …]`; returns its position.
    pub(super) fn open_block(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        span: Span,
    ) -> SyntaxResult<usize> {
        if self.block.is_some() {
            return Err(SyntaxError::new(span, "a DMA block cannot stand inside another"));
        }
        let queue = cursor.ident("the name of a queue")?;
        let queue = self.queue_named(queue)?;
        let name = cursor.ident("the name of the block")?;
        let mine = |b: &&DmaBlock| b.queue == queue;
        let blocks = &self.program.blocks;
        if blocks.len() >= limits::DECLARATIONS {
            return Err(SyntaxError::new(name.span, "too many DMA blocks"));
        }
        if blocks.iter().filter(mine).any(|b| b.name.as_deref() == Some(name.text)) {
            let message = format!("the queue already has a block `{}`", name.text);
            return Err(SyntaxError::new(name.span, message));
        }
        let free = blocks.iter().filter(mine).map(|b| b.id.saturating_add(1)).max().unwrap_or(0);
        let mut id = free;
        let mut on_done = Vec::new();
        let mut said = false;
        while !cursor.at_end() {
            if cursor.is("$") {
                on_done.push(self.update(cursor)?);
                said = true;
            } else if cursor.eat_word("none") {
                said = true;
            } else if cursor.eat_word("id") {
                cursor.expect("=")?;
                id = integer(cursor, &self.names, 0, u32::MAX.into())? as u32;
                if self.program.block(queue, id).is_some() {
                    let message = format!("the queue already has a block {id}");
                    return Err(SyntaxError::new(cursor.previous(), message));
                }
            } else {
                return Err(cursor.wanted("`id=`, `none` or an update such as $S[x]+=1"));
            }
        }
        if !said {
            // The queue's semaphore counts finished blocks (wiki: neff/concrete-carve 5.4).
            let semaphore = self.program.queues[queue].semaphore;
            on_done.extend(semaphore.map(|index| Update::SemaphoreAdd { index, amount: 1 }));
        }
        let name = Some(name.text.to_owned());
        let line = self.sources.line(span);
        let block = DmaBlock { queue, id, name, transfers: Vec::new(), on_done, line };
        self.program.blocks.push(block);
        Ok(self.program.blocks.len() - 1)
    }

    /// `$S[x]++`, `$S[x]+=n`, `$S[x]=n`, `$E[x]=1`.
    fn update(&self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<Update> {
        cursor.expect("$")?;
        let family = cursor.ident("`S` or `E`")?;
        let is_event = match family.text {
            "S" => false,
            "E" => true,
            _ => return Err(SyntaxError::new(family.span, "expected `S` or `E` after `$`")),
        };
        let index = u32::from(index(cursor, is_event, &self.names)?);
        let operator = cursor.next().map_or("", |t| t.text);
        let span = cursor.previous();
        let mut value = || integer(cursor, &self.names, 0, u32::MAX.into()).map(|n| n as u32);
        let update = match (is_event, operator) {
            (false, "++") => Update::SemaphoreAdd { index, amount: 1 },
            (false, "--") => Update::SemaphoreSub { index, amount: 1 },
            (false, "+=") => Update::SemaphoreAdd { index, amount: value()? },
            (false, "-=") => Update::SemaphoreSub { index, amount: value()? },
            (false, "=") => Update::SemaphoreSet { index, value: value()? },
            (true, "=") => match value()? {
                1 => Update::EventSet { index },
                0 => Update::EventClear { index },
                _ => return Err(SyntaxError::new(span, "an event is 0 or 1")),
            },
            _ => {
                return Err(
                    SyntaxError::new(span, "expected ++, --, +=, -= or =").help("events: $E[i]=1")
                );
            }
        };
        if cursor.eat("@") && !cursor.eat_word("complete") {
            return Err(cursor.wanted("`complete`: DMA blocks have no other phase"));
        }
        Ok(update)
    }

    /// `copy dst=… src=…`.
    pub(super) fn copy(&mut self, cursor: &mut Cursor<'_, '_>, block: usize) -> SyntaxResult<()> {
        let start = cursor.previous();
        self.transfers += 1;
        if self.transfers > limits::TRANSFERS {
            return Err(SyntaxError::new(start, "too many DMA transfers"));
        }
        let (mut src, mut dst) = (None, None);
        while !cursor.at_end() {
            let key = cursor.ident("`src=` or `dst=`")?;
            cursor.expect("=")?;
            let side = match key.text {
                "src" => &mut src,
                "dst" => &mut dst,
                other => {
                    return Err(SyntaxError::new(key.span, format!("unexpected `{other}`")));
                }
            };
            if side.is_some() {
                let message = format!("`{}` is given twice", key.text);
                return Err(SyntaxError::new(key.span, message));
            }
            let start = cursor.span();
            let read = self.side(cursor)?;
            let span = start.to(cursor.previous());
            check_side(&read, self.generation(span)?).map_err(|why| SyntaxError::new(span, why))?;
            *side = Some(read);
        }
        let span = start.to(cursor.previous());
        let (Some(src), Some(dst)) = (src, dst) else {
            return Err(SyntaxError::new(span, "a copy needs `src=` and `dst=`"));
        };
        if src.points() != dst.points() {
            let message = format!(
                "the source has {} elements, the destination {}",
                src.points(),
                dst.points()
            );
            return Err(SyntaxError::new(span, message));
        }
        self.program.blocks[block].transfers.push(DmaTransfer { src, dst });
        Ok(())
    }

    /// `tensor`, `tensor[0:4, :].T`, or `bf16@address[byte steps][counts]`.
    fn side(&self, cursor: &mut Cursor<'_, '_>) -> SyntaxResult<DmaSide> {
        let token = cursor.ident("a tensor, or a dtype and `@`")?;
        if cursor.eat("@") {
            return self.explicit_side(cursor, token);
        }
        let Some(tensor) = self.program.tensor(token.text) else {
            let error =
                SyntaxError::new(token.span, format!("no tensor is called `{}`", token.text));
            let names = self.program.tensors.iter().map(|t| t.name.as_str());
            return Err(match nearest(token.text, names) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help("an address is written as bf16@address[steps][counts]"),
            });
        };
        if tensor.dtype.bits() < 8 {
            let message = format!("elements of {} are smaller than a byte", tensor.dtype);
            return Err(SyntaxError::new(token.span, message)
                .help("copy them as uint8@address[steps][counts]"));
        }
        let mut address = tensor.address;
        let mut dims = self.slices(cursor, tensor, &mut address)?;
        let transposed =
            cursor.peek().is_some_and(|t| t.kind == Kind::Directive && t.text == "T" && !t.spaced);
        if transposed {
            cursor.next();
        } else {
            // Declared outermost first, kept innermost first.
            dims.reverse();
        }
        Ok(DmaSide {
            memory: tensor.memory,
            address,
            dims,
            element_bytes: u64::from(tensor.dtype.bits() / 8),
            dtype: tensor.dtype,
        })
    }

    /// The (byte step, count) of each dimension kept, outermost first; moves `address` to the first
    /// element.
    fn slices(
        &self,
        cursor: &mut Cursor<'_, '_>,
        tensor: &Tensor,
        address: &mut u64,
    ) -> SyntaxResult<Vec<(i64, u64)>> {
        let element = u64::from(tensor.dtype.bits() / 8);
        let on_chip = geometry(self.program.generation, tensor.memory);
        let mut steps = vec![0u64; tensor.shape.len()];
        let mut step = element;
        for d in (0..tensor.shape.len()).rev() {
            steps[d] = match on_chip {
                Some(g) if d == 0 => g.stride,
                _ => step,
            };
            step = step.saturating_mul(tensor.shape[d]);
        }
        let mut dims = Vec::new();
        let mut at = 0;
        if cursor.eat("[") {
            loop {
                let start = cursor.span();
                let Some(extent) = tensor.shape.get(at).copied() else {
                    let message = format!("`{}` has {at} dimensions", tensor.name);
                    return Err(SyntaxError::new(start, message));
                };
                let (first, stride, kept) = self.slice(cursor, extent)?;
                *address += first * steps[at];
                dims.extend(kept.map(|count| ((stride * steps[at]) as i64, count)));
                at += 1;
                if cursor.eat("]") {
                    break;
                }
                cursor.expect(",")?;
            }
        }
        for (extent, step) in tensor.shape.iter().zip(&steps).skip(at) {
            dims.push((*step as i64, *extent));
        }
        Ok(dims)
    }

    /// One of `i`, `a:b`, `a:b:s`, `:`: first index, step, and the count unless the dimension goes.
    fn slice(
        &self,
        cursor: &mut Cursor<'_, '_>,
        extent: u64,
    ) -> SyntaxResult<(u64, u64, Option<u64>)> {
        let start = cursor.span();
        let high = i128::from(extent);
        let first = if cursor.is(":") { 0 } else { integer(cursor, &self.names, 0, high)? as u64 };
        if !cursor.eat(":") {
            if first >= extent {
                let message = format!("index {first} is outside 0..{extent}");
                return Err(SyntaxError::new(start.to(cursor.previous()), message));
            }
            return Ok((first, 1, None));
        }
        let ends = cursor.is(":") || cursor.is(",") || cursor.is("]");
        let last = if ends { extent } else { integer(cursor, &self.names, 0, high)? as u64 };
        let stride =
            if cursor.eat(":") { integer(cursor, &self.names, 1, high.max(1))? as u64 } else { 1 };
        if first >= last {
            let message = format!("the slice {first}:{last} is empty");
            return Err(SyntaxError::new(start.to(cursor.previous()), message));
        }
        Ok((first, stride, Some((last - first).div_ceil(stride))))
    }

    fn explicit_side(
        &self,
        cursor: &mut Cursor<'_, '_>,
        dtype: Token<'_>,
    ) -> SyntaxResult<DmaSide> {
        let elem = ElemType::from_name(dtype.text).filter(|e| e.bits() >= 8).ok_or_else(|| {
            let message = format!("`{}` is no dtype of whole bytes", dtype.text);
            SyntaxError::new(dtype.span, message)
        })?;
        let start = cursor.span();
        let address = integer(cursor, &self.names, 0, u64::MAX.into())? as u64;
        let span = start.to(cursor.previous());
        let generation = self.generation(span)?;
        let inside = |memory| {
            geometry(generation, memory)
                .is_some_and(|g| (g.base..g.base + g.partitions * g.stride).contains(&address))
        };
        // PSUM first: on v5 its window lies inside the address range of SBUF, and is the one that a
        // program means unless a tensor says otherwise.
        let memory = if inside(Memory::Psum) {
            Memory::Psum
        } else if inside(Memory::Sbuf) {
            Memory::Sbuf
        } else {
            Memory::Hbm
        };
        let dims = limits::DMA_DIMENSIONS;
        let mut pattern = Vec::new();
        if cursor.is("[") {
            let steps = list(cursor, &self.names, dims, i64::MIN.into(), i64::MAX.into())?;
            let counts = list(cursor, &self.names, dims, 1, 1 << 40)?;
            if steps.len() != counts.len() {
                let message = format!("{} steps but {} counts", steps.len(), counts.len());
                return Err(SyntaxError::new(start.to(cursor.previous()), message));
            }
            pattern = steps.iter().zip(&counts).map(|(s, c)| (*s as i64, *c as u64)).collect();
        }
        let element_bytes = u64::from(elem.bits() / 8);
        Ok(DmaSide { memory, address, dims: pattern, element_bytes, dtype: elem })
    }

    /// `DMA_TRIGGER queue block wait update`: a PSEUDO_DMA_TRIGGER word with both names resolved.
    pub(super) fn dma_trigger(
        &mut self,
        name: Token<'_>,
        cursor: &mut Cursor<'_, '_>,
        span: Span,
    ) -> SyntaxResult<()> {
        let layout = self.layout(name.span)?;
        let engine = self.current_stream(name.span)?;
        let queue = cursor.ident("the name of a queue")?;
        let position = self.queue_named(queue)?;
        let owner = self.program.queues[position].owner;
        if owner != engine {
            let message = format!("the queue `{}` belongs to {owner}, not to {engine}", queue.text);
            return Err(SyntaxError::new(queue.span, message)
                .help("the engine that triggers a queue must own it"));
        }
        let block = cursor.ident("the name of a DMA block")?;
        // The mnemonic of the loader's placeholder, whose word the rest of the line fills.
        let (tokens, _) = lex_line("PSEUDO_DMA_TRIGGER", span.file, span.start as usize)?;
        let mnemonic = Token { span: name.span, ..tokens[0] };
        let mut assembled = inst::assemble(layout, mnemonic, cursor, &self.names)?;
        let op = crate::isa::opcode(inst::generation_of(layout), assembled.word[0])
            .and_then(|op| struct_in(layout, op, 0))
            .map_err(|e| SyntaxError::new(name.span, e.message))?;
        let field = |name: &str, size: usize| {
            op.field(name).filter(|f| usize::from(f.size) >= size).map(|f| usize::from(f.offset))
        };
        let (Some(text), Some(offset)) =
            (field("queue_name", NAME_BYTES), field("block_id_or_count", 4))
        else {
            return Err(SyntaxError::new(name.span, "this generation has no DMA trigger word"));
        };
        assembled.word[text..text + queue.text.len()].copy_from_slice(queue.text.as_bytes());
        let word = self.program.stream_mut(engine).words.len();
        self.emit(assembled.word, None, span)?;
        self.triggers.push(Trigger {
            engine,
            word,
            offset,
            queue: (queue.text.to_owned(), queue.span),
            block: (block.text.to_owned(), block.span),
        });
        Ok(())
    }

    pub(super) fn resolve_trigger(&mut self, trigger: &Trigger) -> SyntaxResult<()> {
        let queue = self.program.queue(&trigger.queue.0);
        let found = self
            .program
            .blocks
            .iter()
            .find(|b| Some(b.queue) == queue && b.name.as_deref() == Some(&trigger.block.0));
        let Some(block) = found else {
            let message =
                format!("the queue `{}` has no block `{}`", trigger.queue.0, trigger.block.0);
            let names = self
                .program
                .blocks
                .iter()
                .filter(|b| Some(b.queue) == queue)
                .filter_map(|b| b.name.as_deref());
            let error = SyntaxError::new(trigger.block.1, message);
            return Err(match nearest(&trigger.block.0, names) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            });
        };
        let id = block.id.to_le_bytes();
        let word = &mut self.program.stream_mut(trigger.engine).words[trigger.word];
        word[trigger.offset..trigger.offset + 4].copy_from_slice(&id);
        Ok(())
    }
}

//! Vector loads and stores: whole vectors, single elements, predicates, unaligned streams.
//! (wiki: isa/ref/b06-loads; wiki: isa/ref/b07-stores; wiki: iss/cas-load-store)
//!
//! An operation is computed into an [`Effect`] first, because all slots of a bundle read the old
//! state. OPEN choices: lanes that a single-element load does not fill are 0; narrowing stores
//! truncate; a stream's pending bytes sit in `u` bytes 0..62 with their count in byte 63; the row
//! after the end of a stream reads as zeros where there is no memory.

use crate::error::{Error, Result};
use crate::q7::codec::Op;
use crate::q7::codec::field::{Access, File};
use crate::q7::regs::Vec512;

use super::{Cause, Core, Fault, Q7Bus};

/// Shape of a vector in memory and in the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 64 bytes, verbatim.
    Bytes64,
    /// 32 bytes in 16-bit lanes, sign-extended when loaded.
    Bytes32Signed,
    /// 32 bytes in 16-bit lanes, zero-extended when loaded.
    Bytes32Unsigned,
    /// 16 half-words in 32-bit lanes, sign-extended when loaded.
    Halves16Signed,
    /// 16 half-words in 32-bit lanes, zero-extended when loaded.
    Halves16Unsigned,
}

impl Shape {
    /// Bytes in memory.
    pub fn bytes(self) -> u32 {
        if self == Shape::Bytes64 { 64 } else { 32 }
    }

    /// vbool bits of one lane.
    fn predicate_bits(self) -> usize {
        match self {
            Shape::Bytes64 => 1,
            Shape::Bytes32Signed | Shape::Bytes32Unsigned => 2,
            Shape::Halves16Signed | Shape::Halves16Unsigned => 4,
        }
    }

    /// Memory bytes of one lane.
    fn lane_bytes(self) -> usize {
        match self {
            Shape::Halves16Signed | Shape::Halves16Unsigned => 2,
            _ => 1,
        }
    }

    /// Register value of the memory bytes.
    pub fn widen(self, bytes: &[u8; 64]) -> Vec512 {
        match self {
            Shape::Bytes64 => Vec512::from_bytes(*bytes),
            Shape::Bytes32Signed => {
                Vec512::from_i16s(std::array::from_fn(|i| i16::from(bytes[i] as i8)))
            }
            Shape::Bytes32Unsigned => {
                Vec512::from_u16s(std::array::from_fn(|i| u16::from(bytes[i])))
            }
            Shape::Halves16Signed => Vec512::from_i32s(std::array::from_fn(|i| {
                i32::from(i16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
            })),
            Shape::Halves16Unsigned => Vec512::from_u32s(std::array::from_fn(|i| {
                u32::from(u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
            })),
        }
    }

    /// Memory bytes of a register; only the first [`Shape::bytes`] count.
    pub fn narrow(self, value: &Vec512) -> [u8; 64] {
        let mut out = [0; 64];
        match self {
            Shape::Bytes64 => out = *value.bytes(),
            Shape::Bytes32Signed | Shape::Bytes32Unsigned => {
                for (byte, lane) in out.iter_mut().zip(value.u16s()) {
                    *byte = *lane as u8;
                }
            }
            Shape::Halves16Signed | Shape::Halves16Unsigned => {
                for (half, lane) in out.chunks_exact_mut(2).zip(value.u32s()) {
                    half.copy_from_slice(&(*lane as u16).to_le_bytes());
                }
            }
        }
        out
    }
}

/// Promotion of a single element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promote {
    /// As it is.
    None,
    /// int8 to a 16-bit lane.
    To16,
    /// int16 to a 32-bit lane.
    To32,
}

/// What a memory operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `lv*`.
    Load(Shape),
    /// `sv*`; whether it is predicated.
    Store(Shape, bool),
    /// `ls*`: bytes and promotion.
    LoadElement(u8, Promote),
    /// `lsr*`: bytes.
    LoadReplicate(u8),
    /// `ss*`: bytes.
    StoreElement(u8),
    /// `lb*`: predicate bits per memory bit, 1, 2 or 4.
    LoadPredicate(u8),
    /// `sb*`.
    StorePredicate(u8),
    /// `la_pp`, `la_ppxu`.
    Prime,
    /// `zalign`.
    ZeroAlign,
    /// `malign`.
    MoveAlign,
    /// `lalign`.
    LoadAlign,
    /// `salign`.
    StoreAlign,
    /// `sapos`.
    Flush,
    /// `la*`; whether the length comes from AR (`lav*`).
    LoadStream(Shape, bool),
    /// `sa*`; whether the length comes from AR (`sav*`).
    StoreStream(Shape, bool),
}

/// How the address is formed and the base changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Base plus immediate.
    Offset,
    /// Base; then base plus immediate.
    PostOffset,
    /// Base plus index register.
    Index,
    /// Base; then base plus index register.
    PostIndex,
}

/// A memory operation with its operands.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOp {
    /// What it does.
    pub kind: Kind,
    /// Addressing.
    pub mode: Mode,
    /// Register loaded or stored: vector or predicate.
    pub data: u8,
    /// Alignment register.
    pub align: u8,
    /// Source of `malign`.
    pub align_from: u8,
    /// Base address register.
    pub base: u8,
    /// Index or length address register.
    pub index: u8,
    /// Immediate in bytes.
    pub offset: i32,
    /// Predicate of a predicated store.
    pub predicate: u8,
}

/// A write to memory.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Address of byte 0.
    pub address: u32,
    /// Bytes.
    pub bytes: [u8; 64],
    /// Which bytes are written.
    pub mask: u64,
}

/// Results of a memory operation before they are committed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effect {
    /// New vector register.
    pub vec: Option<(u8, Vec512)>,
    /// New predicate register.
    pub vbool: Option<(u8, u64)>,
    /// New alignment register.
    pub valign: Option<(u8, Vec512)>,
    /// New address register.
    pub ar: Option<(u8, u32)>,
    /// Store.
    pub write: Option<Write>,
}

const PAGE: &str = "wiki: isa/ref/b06-loads";

/// Lowers a slot operation, or `None` if it is not a memory operation.
///
/// # Errors
/// `MissingSpecification` for loads and stores that the pages do not explain.
pub fn lower(op: &Op) -> Option<Result<MemoryOp>> {
    let name = op.row.mnemonic.strip_prefix("ivp_")?;
    if ["latn", "lat2", "labv", "l2a", "l2u"].iter().any(|head| name.starts_with(head)) {
        return Some(Err(Error::missing_spec(format!("operands of `{}`", op.row.mnemonic), PAGE)));
    }
    let (stem, mode) = if let Some(stem) = name.strip_suffix("_ip") {
        (stem, Mode::PostOffset)
    } else if let Some(stem) = name.strip_suffix("_xp") {
        (stem, Mode::PostIndex)
    } else if let Some(stem) = name.strip_suffix("_i") {
        (stem, Mode::Offset)
    } else if let Some(stem) = name.strip_suffix("_x") {
        (stem, Mode::Index)
    } else {
        match name {
            "la_pp" => ("la_pp", Mode::Offset),
            "la_ppxu" => ("la_pp", Mode::PostIndex),
            "sapos_fp" => ("sapos", Mode::Offset),
            "sapos_fpxp" => ("sapos", Mode::PostIndex),
            "zalign" | "malign" => (name, Mode::Offset),
            _ => return None,
        }
    };
    let stem = if stem == "sapos_fp" { "sapos" } else { stem };
    let kind = kind(stem)?;
    let mut out = MemoryOp {
        kind,
        mode,
        data: 0,
        align: 0,
        align_from: 0,
        base: 0,
        index: 0,
        offset: 0,
        predicate: 0,
    };
    for (field, &value) in op.row.fields.iter().zip(&op.values) {
        match (field.name, field.file) {
            ("vt" | "vs", File::Vec) | ("vbt", File::VBool) => out.data = value as u8,
            ("vbr", File::VBool) => {
                if matches!(kind, Kind::Store(..)) {
                    out.predicate = value as u8;
                } else {
                    out.data = value as u8;
                }
            }
            ("u", _) => out.align = value as u8,
            ("u2", _) => out.align_from = value as u8,
            ("ars", _) => out.base = value as u8,
            ("art", _) => out.index = value as u8,
            _ if field.file == File::Imm => out.offset = value as i32,
            _ => {}
        }
    }
    debug_assert!(op.row.fields.iter().all(|f| f.file != File::Ar || f.access != Access::Write));
    Some(Ok(out))
}

fn shape(name: &str) -> Option<Shape> {
    Some(match name {
        "2nx8" => Shape::Bytes64,
        "nx8s" => Shape::Bytes32Signed,
        "nx8u" => Shape::Bytes32Unsigned,
        "n_2x16s" => Shape::Halves16Signed,
        "n_2x16u" => Shape::Halves16Unsigned,
        _ => return None,
    })
}

fn element(name: &str) -> Option<(u8, Promote)> {
    Some(match name {
        "2nx8" => (1, Promote::None),
        "nx8s" => (1, Promote::To16),
        "nx16" => (2, Promote::None),
        "n_2x16s" => (2, Promote::To32),
        "n_2x32" => (4, Promote::None),
        "n_4x64" => (8, Promote::None),
        "n_8x128" => (16, Promote::None),
        "n_16x256" => (32, Promote::None),
        _ => return None,
    })
}

fn predicate(name: &str) -> Option<u8> {
    Some(match name {
        "2n" => 1,
        "n" => 2,
        "n_2" => 4,
        _ => return None,
    })
}

fn kind(stem: &str) -> Option<Kind> {
    match stem {
        "la_pp" => return Some(Kind::Prime),
        "zalign" => return Some(Kind::ZeroAlign),
        "malign" => return Some(Kind::MoveAlign),
        "lalign" => return Some(Kind::LoadAlign),
        "salign" => return Some(Kind::StoreAlign),
        "sapos" => return Some(Kind::Flush),
        _ => {}
    }
    let (head, rest) = stem.split_at_checked(2)?;
    match head {
        "lv" => shape(rest).map(Kind::Load),
        "sv" => shape(rest)
            .map(|s| Kind::Store(s, false))
            .or_else(|| shape(rest.strip_suffix('t')?).map(|s| Kind::Store(s, true))),
        "la" => shape(rest)
            .map(|s| Kind::LoadStream(s, false))
            .or_else(|| shape(rest.strip_prefix('v')?).map(|s| Kind::LoadStream(s, true))),
        "sa" => shape(rest)
            .map(|s| Kind::StoreStream(s, false))
            .or_else(|| shape(rest.strip_prefix('v')?).map(|s| Kind::StoreStream(s, true))),
        "ls" => match rest.strip_prefix('r') {
            Some(rest) => element(rest).map(|(bytes, _)| Kind::LoadReplicate(bytes)),
            None => element(rest).map(|(bytes, promote)| Kind::LoadElement(bytes, promote)),
        },
        "ss" => element(rest).map(|(bytes, _)| Kind::StoreElement(bytes)),
        "lb" => predicate(rest).map(Kind::LoadPredicate),
        "sb" => predicate(rest).map(Kind::StorePredicate),
        _ => None,
    }
}

/// Byte mask of `from..to`, both at most 64.
fn mask(from: usize, to: usize) -> u64 {
    let below = |n: usize| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}

/// The byte-granular window of an aligning load: bytes `shift..shift+64` of `carry` followed by
/// `row`. (wiki: isa/ref/b06-loads)
pub fn align_window(carry: &[u8; 64], row: &[u8; 64], shift: usize) -> [u8; 64] {
    std::array::from_fn(|i| {
        let at = i + (shift & 63);
        if at < 64 { carry[at] } else { row[at - 64] }
    })
}

/// The merge of an aligning store: the low `offset` bytes of the carry, the rest from `new`.
/// (wiki: isa/ref/b07-stores)
pub fn align_merge(carry: &[u8; 64], new: &[u8; 64], offset: usize) -> [u8; 64] {
    std::array::from_fn(|i| if i < offset { carry[i] } else { new[i] })
}

impl MemoryOp {
    /// Whether memory is written.
    pub fn is_store(&self) -> bool {
        matches!(
            self.kind,
            Kind::Store(..)
                | Kind::StoreElement(_)
                | Kind::StorePredicate(_)
                | Kind::StoreAlign
                | Kind::Flush
                | Kind::StoreStream(..)
        )
    }

    /// Computes the operation on the present state.
    ///
    /// # Errors
    /// The fault of the access.
    pub(super) fn run(&self, core: &mut Core, bus: &mut dyn Q7Bus) -> Result<Effect, Box<Fault>> {
        let base = core.a(u32::from(self.base));
        let index = core.a(u32::from(self.index));
        let address = match self.mode {
            Mode::Offset => base.wrapping_add(self.offset as u32),
            Mode::Index => base.wrapping_add(index),
            Mode::PostOffset | Mode::PostIndex => base,
        };
        let stepped = match self.mode {
            Mode::PostOffset => Some(base.wrapping_add(self.offset as u32)),
            Mode::PostIndex => Some(base.wrapping_add(index)),
            _ => None,
        };
        let mut out = Effect { ar: stepped.map(|value| (self.base, value)), ..Effect::default() };
        let store = |bytes: [u8; 64], count: usize, address: u32| {
            Some(Write { address, bytes, mask: mask(0, count) })
        };
        match self.kind {
            Kind::Load(shape) => {
                let address = self.aligned(core, address, shape.bytes())?;
                let bytes = if shape == Shape::Bytes64 {
                    core.load::<64>(bus, address)?
                } else {
                    let mut bytes = [0; 64];
                    bytes[..32].copy_from_slice(&core.load::<32>(bus, address)?);
                    bytes
                };
                out.vec = Some((self.data, shape.widen(&bytes)));
            }
            Kind::Store(shape, predicated) => {
                let address = self.aligned(core, address, shape.bytes())?;
                let bytes = shape.narrow(&core.regs.vec[usize::from(self.data & 31)]);
                let mut lanes = mask(0, shape.bytes() as usize);
                if predicated {
                    let p = core.regs.vbool[usize::from(self.predicate & 15)];
                    for byte in 0..shape.bytes() as usize {
                        let lane = byte / shape.lane_bytes();
                        if p >> (lane * shape.predicate_bits()) & 1 == 0 {
                            lanes &= !(1 << byte);
                        }
                    }
                }
                out.write = Some(Write { address, bytes, mask: lanes });
            }
            Kind::LoadElement(bytes, promote) => {
                let address = self.aligned(core, address, u32::from(bytes))?;
                let raw = element_bytes(core, bus, address, bytes)?;
                let mut value = Vec512::ZERO;
                match promote {
                    Promote::None => {
                        let count = usize::from(bytes);
                        value.bytes_mut()[..count].copy_from_slice(&raw[..count]);
                    }
                    Promote::To16 => value.i16s_mut()[0] = i16::from(raw[0] as i8),
                    Promote::To32 => {
                        value.i32s_mut()[0] = i32::from(i16::from_le_bytes([raw[0], raw[1]]));
                    }
                }
                out.vec = Some((self.data, value));
            }
            Kind::LoadReplicate(bytes) => {
                let address = self.aligned(core, address, u32::from(bytes))?;
                let raw = element_bytes(core, bus, address, bytes)?;
                let lanes = std::array::from_fn(|i| raw[i % usize::from(bytes)]);
                out.vec = Some((self.data, Vec512::from_bytes(lanes)));
            }
            Kind::StoreElement(bytes) => {
                let address = self.aligned(core, address, u32::from(bytes))?;
                let value = core.regs.vec[usize::from(self.data & 31)];
                out.write = store(*value.bytes(), usize::from(bytes), address);
            }
            Kind::LoadPredicate(width) => {
                let bytes = 8 / width;
                let address = self.aligned(core, address, u32::from(bytes))?;
                let raw = element_bytes(core, bus, address, bytes)?;
                let memory = u64::from_le_bytes(std::array::from_fn(|i| raw[i]));
                let lanes = 64 / usize::from(width);
                let field = (1u64 << width) - 1;
                let value = (0..lanes)
                    .filter(|lane| memory >> lane & 1 != 0)
                    .fold(0, |all, lane| all | field << (lane * usize::from(width)));
                out.vbool = Some((self.data, value));
            }
            Kind::StorePredicate(width) => {
                let bytes = 8 / width;
                let address = self.aligned(core, address, u32::from(bytes))?;
                let value = core.regs.vbool[usize::from(self.data & 15)];
                let lanes = 64 / usize::from(width);
                let memory = (0..lanes).fold(0u64, |all, lane| {
                    all | (value >> (lane * usize::from(width)) & 1) << lane
                });
                let mut raw = [0; 64];
                raw[..8].copy_from_slice(&memory.to_le_bytes());
                out.write = store(raw, usize::from(bytes), address);
            }
            Kind::Prime => {
                let row = core.load_row_or_zero(bus, base & !63)?;
                out.valign = Some((self.align, Vec512::from_bytes(row)));
            }
            Kind::ZeroAlign => {
                out.ar = None;
                out.valign = Some((self.align, Vec512::ZERO));
            }
            Kind::MoveAlign => {
                out.valign = Some((self.align, core.regs.valign[usize::from(self.align_from & 3)]));
            }
            Kind::LoadAlign => {
                let address = self.aligned(core, address, 64)?;
                let row = core.load::<64>(bus, address)?;
                out.valign = Some((self.align, Vec512::from_bytes(row)));
            }
            Kind::StoreAlign => {
                let address = self.aligned(core, address, 64)?;
                let row = *core.regs.valign[usize::from(self.align & 3)].bytes();
                out.write = store(row, 64, address);
            }
            Kind::Flush => {
                let mut u = core.regs.valign[usize::from(self.align & 3)];
                let offset = (base & 63) as usize;
                // More pending bytes than fit before the address: the stream was moved.
                let pending = usize::from(u.bytes()[63]).min(offset);
                let bytes = mask(offset - pending, offset);
                if bytes != 0 {
                    out.write = Some(Write { address: base & !63, bytes: *u.bytes(), mask: bytes });
                }
                u.bytes_mut()[63] = 0;
                out.valign = Some((self.align, u));
            }
            Kind::LoadStream(shape, variable) => {
                let count = stream_length(shape, variable, index);
                let offset = (base & 63) as usize;
                let carry = core.regs.valign[usize::from(self.align & 3)];
                let mut row = [0; 64];
                if offset + count >= 64 {
                    row = core.load_row_or_zero(bus, (base & !63).wrapping_add(64))?;
                    out.valign = Some((self.align, Vec512::from_bytes(row)));
                }
                let mut bytes = align_window(carry.bytes(), &row, offset);
                bytes[count..].fill(0);
                out.vec = Some((self.data, shape.widen(&bytes)));
                let step =
                    if self.mode == Mode::PostIndex && !variable { index } else { count as u32 };
                out.ar = Some((self.base, base.wrapping_add(step)));
            }
            Kind::StoreStream(shape, variable) => {
                let count = stream_length(shape, variable, index);
                let offset = (base & 63) as usize;
                let mut u = core.regs.valign[usize::from(self.align & 3)];
                let pending = usize::from(u.bytes()[63]).min(offset);
                let data = shape.narrow(&core.regs.vec[usize::from(self.data & 31)]);
                if offset + count < 64 {
                    u.bytes_mut()[offset..offset + count].copy_from_slice(&data[..count]);
                    u.bytes_mut()[63] = (pending + count) as u8;
                } else {
                    let mut shifted = [0; 64];
                    shifted[offset..].copy_from_slice(&data[..64 - offset]);
                    let bytes = align_merge(u.bytes(), &shifted, offset);
                    let first = offset - pending;
                    out.write = Some(Write { address: base & !63, bytes, mask: mask(first, 64) });
                    let rest = offset + count - 64;
                    u.bytes_mut()[..rest].copy_from_slice(&data[64 - offset..count]);
                    u.bytes_mut()[63] = rest as u8;
                }
                out.valign = Some((self.align, u));
                out.ar = Some((self.base, base.wrapping_add(count as u32)));
            }
        }
        Ok(out)
    }

    /// Executes the only operation of a bundle: nothing else can see the order of its steps.
    ///
    /// # Errors
    /// The fault of the access.
    pub(super) fn run_alone(&self, core: &mut Core, bus: &mut dyn Q7Bus) -> Result<(), Box<Fault>> {
        let (
            Kind::Load(Shape::Bytes64) | Kind::Store(Shape::Bytes64, false),
            Mode::Offset | Mode::PostOffset,
        ) = (self.kind, self.mode)
        else {
            let effect = self.run(core, bus)?;
            if let Some(write) = &effect.write {
                write.perform(core, bus)?;
            }
            effect.commit(core);
            return Ok(());
        };
        let base = core.a(u32::from(self.base));
        let moved = base.wrapping_add(self.offset as u32);
        let post = self.mode == Mode::PostOffset;
        let address = self.aligned(core, if post { base } else { moved }, 64)?;
        let data = usize::from(self.data & 31);
        if matches!(self.kind, Kind::Load(_)) {
            core.regs.vec[data] = Vec512::from_bytes(core.load::<64>(bus, address)?);
        } else {
            let bytes = *core.regs.vec[data].bytes();
            core.store(bus, address, &bytes)?;
        }
        if post {
            core.set_a(u32::from(self.base), moved);
        }
        Ok(())
    }

    fn aligned(&self, core: &mut Core, address: u32, size: u32) -> Result<u32, Box<Fault>> {
        if address & (size - 1) == 0 {
            return Ok(address);
        }
        if core.config.floor_misaligned_vectors {
            return Ok(address & !(size - 1));
        }
        core.exception(Cause::Alignment, address)
    }
}

fn stream_length(shape: Shape, variable: bool, register: u32) -> usize {
    let full = shape.bytes() as i32;
    if variable { (register as i32).clamp(0, full) as usize } else { full as usize }
}

fn element_bytes(
    core: &mut Core,
    bus: &mut dyn Q7Bus,
    address: u32,
    bytes: u8,
) -> Result<[u8; 32], Box<Fault>> {
    let mut out = [0; 32];
    match bytes {
        1 => out[..1].copy_from_slice(&core.load::<1>(bus, address)?),
        2 => out[..2].copy_from_slice(&core.load::<2>(bus, address)?),
        4 => out[..4].copy_from_slice(&core.load::<4>(bus, address)?),
        8 => out[..8].copy_from_slice(&core.load::<8>(bus, address)?),
        16 => out[..16].copy_from_slice(&core.load::<16>(bus, address)?),
        _ => out = core.load::<32>(bus, address)?,
    }
    Ok(out)
}

impl Effect {
    /// Writes the results to the registers.
    pub(super) fn commit(&self, core: &mut Core) {
        if let Some((n, value)) = self.vec {
            core.regs.vec[usize::from(n & 31)] = value;
        }
        if let Some((n, value)) = self.vbool {
            core.regs.vbool[usize::from(n & 15)] = value;
        }
        if let Some((n, value)) = self.valign {
            core.regs.valign[usize::from(n & 3)] = value;
        }
        if let Some((n, value)) = self.ar {
            core.set_a(u32::from(n), value);
        }
    }
}

impl Write {
    /// Performs the write, one run of bytes at a time.
    pub(super) fn perform(&self, core: &mut Core, bus: &mut dyn Q7Bus) -> Result<(), Box<Fault>> {
        let mut at = 0usize;
        while at < 64 {
            let left = self.mask >> at;
            if left == 0 {
                break;
            }
            at += left.trailing_zeros() as usize;
            let run = (!(self.mask >> at)).trailing_zeros().min(64 - at as u32) as usize;
            core.store(bus, self.address.wrapping_add(at as u32), &self.bytes[at..at + run])?;
            at += run;
        }
        Ok(())
    }
}

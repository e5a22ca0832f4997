//! Addresses and access patterns as they stand in an instruction word.
//!
//! Decoding is total and loses nothing that the format defines; a word that is not canonical comes
//! back as `Unknown` with its raw value (wiki: dma/sbuf-psum-banks; firmware/kernels/tensorload 3).

use smallvec::SmallVec;

use super::defs::PatternKind;
use crate::error::{Error, Result};

/// Bits of an immediate on-chip address.
pub const ADDR_MASK: u32 = 0x1FFF_FFFF;

/// Low bit of an on-chip address on v5: the pattern is an MX one
/// (wiki: compiler/mx-device-bodies 3).
pub const MX_MARKER: u32 = 1;

/// A 4-byte on-chip address, told apart by the marker in its high byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addr4 {
    /// Immediate address, shape in the pattern.
    Imm(u32),
    /// Immediate address, shape from the shape register that the first step names.
    ImmShapeReg {
        /// Address.
        addr: u32,
    },
    /// Address in a register.
    Reg(u8),
    /// Address in a register, shape from the shape register that the first step names.
    RegShapeReg {
        /// Register.
        reg: u8,
    },
    /// Indirect pattern, immediate address.
    IndirectImm(u32),
    /// Indirect pattern, address in a register.
    IndirectReg(u8),
    /// No defined form: undefined marker, or a register form with non-zero reserved bytes.
    Unknown(u32),
}

impl Addr4 {
    /// Decodes a v2+ word.
    pub fn decode(raw: u32) -> Addr4 {
        let addr = raw & ADDR_MASK;
        let reg = raw as u8;
        let canonical = addr & !0xFF == 0;
        match raw >> 24 & 0xE0 {
            0x00 => Addr4::Imm(addr),
            0x20 => Addr4::IndirectImm(addr),
            0x40 => Addr4::ImmShapeReg { addr },
            0x80 if canonical => Addr4::Reg(reg),
            0xA0 if canonical => Addr4::IndirectReg(reg),
            0xC0 if canonical => Addr4::RegShapeReg { reg },
            _ => Addr4::Unknown(raw),
        }
    }

    /// The 4-byte word, little-endian value.
    pub fn encode(self) -> u32 {
        match self {
            Addr4::Imm(a) => a & ADDR_MASK,
            Addr4::IndirectImm(a) => 0x2000_0000 | a & ADDR_MASK,
            Addr4::ImmShapeReg { addr } => 0x4000_0000 | addr & ADDR_MASK,
            Addr4::Reg(r) => 0x8000_0000 | u32::from(r),
            Addr4::IndirectReg(r) => 0xA000_0000 | u32::from(r),
            Addr4::RegShapeReg { reg } => 0xC000_0000 | u32::from(reg),
            Addr4::Unknown(raw) => raw,
        }
    }

    /// The immediate address, if it is one.
    pub fn imm(self) -> Option<u32> {
        match self {
            Addr4::Imm(a) | Addr4::IndirectImm(a) | Addr4::ImmShapeReg { addr: a } => Some(a),
            _ => None,
        }
    }

    /// The register that holds the address, if one does.
    pub fn reg(self) -> Option<u8> {
        match self {
            Addr4::Reg(r) | Addr4::IndirectReg(r) | Addr4::RegShapeReg { reg: r } => Some(r),
            _ => None,
        }
    }

    /// Whether the pattern around it is an indirect one.
    pub fn is_indirect(self) -> bool {
        matches!(self, Addr4::IndirectImm(_) | Addr4::IndirectReg(_))
    }

    /// Whether counts and steps come from a shape register.
    pub fn shape_from_register(self) -> bool {
        matches!(self, Addr4::ImmShapeReg { .. } | Addr4::RegShapeReg { .. })
    }
}

/// An 8-byte device address, told apart by the marker in its high byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addr8 {
    /// Immediate address.
    Imm(u64),
    /// Immediate address, shape from a shape register.
    ImmShapeReg {
        /// Address.
        addr: u64,
    },
    /// Address in a register pair.
    Reg {
        /// Register of the low word.
        lo: u8,
        /// Register of the high word.
        hi: u8,
    },
    /// Address in a register pair, shape from a shape register.
    RegShapeReg {
        /// Register of the low word.
        lo: u8,
        /// Register of the high word.
        hi: u8,
    },
    /// Address-table form. Where index and offset lie is not published, so `raw` is the whole word.
    Table {
        /// The word.
        raw: u64,
        /// Shape from a shape register (marker bit 0x40).
        shape_reg: bool,
        /// Offset from a register (marker bit 0x08).
        offset_reg: bool,
        /// 64-bit offset (marker bit 0x04).
        offset64: bool,
    },
    /// Compiler variable id; occurs in host words only.
    Variable(u64),
    /// No defined form.
    Unknown(u64),
}

/// Bits of an immediate device address: all below the marker's six bits.
pub const ADDR8_MASK: u64 = (1 << 58) - 1;

impl Addr8 {
    /// Decodes a word.
    pub fn decode(raw: u64) -> Addr8 {
        let addr = raw & ADDR8_MASK;
        let [lo, hi, ..] = raw.to_le_bytes();
        let canonical = addr & !0xFFFF == 0;
        let marker = (raw >> 56) as u8 & 0xFC;
        match marker {
            0x00 => Addr8::Imm(addr),
            0x40 => Addr8::ImmShapeReg { addr },
            0x80 if canonical => Addr8::Reg { lo, hi },
            0xC0 if canonical => Addr8::RegShapeReg { lo, hi },
            0x10 => Addr8::Variable(addr),
            m if m & 0xB0 == 0x20 => Addr8::Table {
                raw,
                shape_reg: m & 0x40 != 0,
                offset_reg: m & 0x08 != 0,
                offset64: m & 0x04 != 0,
            },
            _ => Addr8::Unknown(raw),
        }
    }

    /// The word.
    pub fn encode(self) -> u64 {
        let pair = |lo, hi| u64::from(lo) | u64::from(hi) << 8;
        match self {
            Addr8::Imm(a) => a & ADDR8_MASK,
            Addr8::ImmShapeReg { addr } => 0x40 << 56 | addr & ADDR8_MASK,
            Addr8::Reg { lo, hi } => 0x80 << 56 | pair(lo, hi),
            Addr8::RegShapeReg { lo, hi } => 0xC0 << 56 | pair(lo, hi),
            Addr8::Variable(a) => 0x10 << 56 | a & ADDR8_MASK,
            Addr8::Table { raw, .. } | Addr8::Unknown(raw) => raw,
        }
    }

    /// Whether counts and steps come from a shape register.
    pub fn shape_from_register(self) -> bool {
        matches!(
            self,
            Addr8::ImmShapeReg { .. }
                | Addr8::RegShapeReg { .. }
                | Addr8::Table { shape_reg: true, .. }
        )
    }
}

/// Step in elements and count of each dimension, X (fastest) first.
pub type Dims = SmallVec<[(i16, u16); 4]>;

/// `TENSOR1D`..`TENSOR4D`: start address and, per dimension, step and count.
///
/// Element (i0, i1, ..) lies `size * (i0*step0 + i1*step1 + ..)` bytes behind the start, in the
/// same partition (wiki: dma/sbuf-psum-banks).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorPattern {
    /// Start address.
    pub addr: Addr4,
    /// Dimensions, X first.
    pub dims: Dims,
}

impl TensorPattern {
    /// A pattern at an immediate address.
    pub fn at(addr: u32, dims: &[(i16, u16)]) -> TensorPattern {
        TensorPattern { addr: Addr4::Imm(addr), dims: dims.into() }
    }

    /// Product of the counts. Meaningless when [`Addr4::shape_from_register`].
    pub fn count(&self) -> u64 {
        self.dims.iter().map(|&(_, n)| u64::from(n)).product()
    }

    /// Shape register the pattern names, if its shape comes from one. The number travels in the
    /// first step (wiki: firmware/kernels/tensorload 3, stated there for 8-byte addresses).
    pub fn shape_register(&self) -> Option<u8> {
        let (step, _) = self.dims.first()?;
        self.addr.shape_from_register().then_some(*step as u8)
    }
}

/// Any access pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Plain tensor.
    Tensor(TensorPattern),
    /// `INDIRECT*`: `num` indices at `index`, data at `data`.
    Indirect {
        /// Where the indices are.
        index: Addr4,
        /// Where the data is.
        data: Addr4,
        /// Number of indices.
        num: u16,
    },
    /// `MXTENSOR1D`.
    MxTensor {
        /// Data.
        data: Addr4,
        /// Scales.
        scale: Addr4,
        /// Elements.
        num: u16,
        /// Step in elements.
        step: i8,
        /// Scale partition inside the quadrant.
        scale_partition: u8,
    },
    /// `MXINDIRECT16B`.
    MxIndirect {
        /// Where the indices are.
        index: Addr4,
        /// Data.
        data: Addr4,
        /// Scales.
        scale: Addr4,
        /// Four times the count for x4-packed types.
        num: u16,
        /// First scale partition, modulo the PE rows.
        scale_base_partition: u8,
    },
    /// `MXTENSOR_V2` (v5).
    MxV2 {
        /// Data; its word has the marker bit set, which is left out here.
        data: Addr4,
        /// Scales.
        scale: Addr4,
        /// Counts.
        num: [u8; 2],
        /// Data step.
        step_data: i16,
        /// Scale step.
        step_scale: i16,
        /// Free dimension (high nibble) and partition dimension (low), as powers of two.
        p_f_dim: u8,
        /// Dtype code of the scales, 0 for none.
        scale_dtype: u8,
    },
    /// `DATA4D`: value = base + sum of step times index.
    Data {
        /// First value.
        base: i32,
        /// Dimensions, X first.
        dims: Dims,
    },
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn decode_dims(b: &[u8], n: usize) -> Dims {
    (0..n).map(|d| (u16_at(b, 4 + 2 * d) as i16, u16_at(b, 4 + 2 * n + 2 * d))).collect()
}

/// Options of a decode that depend on the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternRules {
    /// v1: addresses have no marker.
    pub plain_addresses: bool,
    /// v5: bit 0 of a `MEM_PATTERN` address marks MXTENSOR_V2.
    pub mx_marker: bool,
}

impl PatternRules {
    fn addr(self, raw: u32) -> Addr4 {
        if self.plain_addresses { Addr4::Imm(raw) } else { Addr4::decode(raw) }
    }
}

impl Pattern {
    /// Decodes `bytes`, which are as long as `kind` says.
    ///
    /// # Errors
    /// `bytes` has another length.
    pub fn decode(kind: PatternKind, bytes: &[u8], rules: PatternRules) -> Result<Pattern> {
        if bytes.len() != kind.size() {
            return Err(Error::internal(format!("{kind:?} from {} bytes", bytes.len())));
        }
        let first = rules.addr(u32_at(bytes, 0));
        let mem = matches!(kind, PatternKind::Mem(_));
        if kind == PatternKind::Data4d {
            let base = u32_at(bytes, 0) as i32;
            return Ok(Pattern::Data { base, dims: decode_dims(bytes, 4) });
        }
        if kind == PatternKind::Mx {
            let (data, scale) = (rules.addr(u32_at(bytes, 4)), rules.addr(u32_at(bytes, 8)));
            return Ok(if first.is_indirect() {
                let num = u16_at(bytes, 12);
                let scale_base_partition = bytes[15];
                Pattern::MxIndirect { index: first, data, scale, num, scale_base_partition }
            } else {
                Pattern::MxTensor {
                    data: first,
                    scale: data,
                    num: u16_at(bytes, 8),
                    step: bytes[10] as i8,
                    scale_partition: bytes[11],
                }
            });
        }
        if mem && first.is_indirect() {
            let data = rules.addr(u32_at(bytes, 4));
            return Ok(Pattern::Indirect { index: first, data, num: u16_at(bytes, 8) });
        }
        if mem
            && rules.mx_marker
            && bytes.len() >= 16
            && bytes[0] & MX_MARKER as u8 != 0
            && first.reg().is_none()
        {
            return Ok(Pattern::MxV2 {
                data: rules.addr(u32_at(bytes, 0) & !MX_MARKER),
                scale: rules.addr(u32_at(bytes, 4)),
                num: [bytes[8], bytes[9]],
                step_data: u16_at(bytes, 10) as i16,
                step_scale: u16_at(bytes, 12) as i16,
                p_f_dim: bytes[14],
                scale_dtype: bytes[15],
            });
        }
        Ok(Pattern::Tensor(TensorPattern { addr: first, dims: decode_dims(bytes, kind.dims()) }))
    }

    /// Encodes into `out`, which is as long as `kind` says; unused bytes become zero.
    ///
    /// # Errors
    /// The pattern does not fit `kind`, or `out` has another length.
    pub fn encode(&self, kind: PatternKind, rules: PatternRules, out: &mut [u8]) -> Result<()> {
        let misfit = || {
            Error::new(
                crate::ErrorClass::ProgramError,
                format!("this pattern cannot stand in a {kind:?} operand: {self:?}"),
            )
        };
        if out.len() != kind.size() {
            return Err(Error::internal(format!("{kind:?} into {} bytes", out.len())));
        }
        out.fill(0);
        let raw = |a: Addr4| match a {
            Addr4::Imm(v) if rules.plain_addresses => v,
            other => other.encode(),
        };
        let dims_into = |out: &mut [u8], dims: &Dims| {
            let n = dims.len();
            for (d, (step, num)) in dims.iter().enumerate() {
                out[4 + 2 * d..][..2].copy_from_slice(&step.to_le_bytes());
                out[4 + 2 * (n + d)..][..2].copy_from_slice(&num.to_le_bytes());
            }
        };
        let put4 = |out: &mut [u8], at: usize, v: u32| {
            out[at..at + 4].copy_from_slice(&v.to_le_bytes());
        };
        let put2 = |out: &mut [u8], at: usize, v: u16| {
            out[at..at + 2].copy_from_slice(&v.to_le_bytes());
        };
        match (self, kind) {
            (Pattern::Tensor(t), PatternKind::Tensor(n) | PatternKind::Mem(n))
                if t.dims.len() == usize::from(n) =>
            {
                put4(out, 0, raw(t.addr));
                dims_into(out, &t.dims);
            }
            (Pattern::Data { base, dims }, PatternKind::Data4d) if dims.len() == 4 => {
                put4(out, 0, *base as u32);
                dims_into(out, dims);
            }
            (Pattern::Indirect { index, data, num }, PatternKind::Mem(_)) => {
                put4(out, 0, raw(*index));
                put4(out, 4, raw(*data));
                put2(out, 8, *num);
            }
            (Pattern::MxTensor { data, scale, num, step, scale_partition }, PatternKind::Mx) => {
                put4(out, 0, raw(*data));
                put4(out, 4, raw(*scale));
                put2(out, 8, *num);
                out[10] = *step as u8;
                out[11] = *scale_partition;
            }
            (
                Pattern::MxIndirect { index, data, scale, num, scale_base_partition },
                PatternKind::Mx,
            ) => {
                put4(out, 0, raw(*index));
                put4(out, 4, raw(*data));
                put4(out, 8, raw(*scale));
                put2(out, 12, *num);
                out[15] = *scale_base_partition;
            }
            (
                Pattern::MxV2 { data, scale, num, step_data, step_scale, p_f_dim, scale_dtype },
                PatternKind::Mem(3 | 4),
            ) if rules.mx_marker => {
                put4(out, 0, raw(*data) | MX_MARKER);
                put4(out, 4, raw(*scale));
                out[8..10].copy_from_slice(num);
                put2(out, 10, *step_data as u16);
                put2(out, 12, *step_scale as u16);
                out[14] = *p_f_dim;
                out[15] = *scale_dtype;
            }
            _ => return Err(misfit()),
        }
        Ok(())
    }

    /// The address the pattern starts with, if it has one.
    pub fn first_addr(&self) -> Option<Addr4> {
        match self {
            Pattern::Tensor(t) => Some(t.addr),
            Pattern::Indirect { index, .. } | Pattern::MxIndirect { index, .. } => Some(*index),
            Pattern::MxTensor { data, .. } | Pattern::MxV2 { data, .. } => Some(*data),
            Pattern::Data { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: PatternRules = PatternRules { plain_addresses: false, mx_marker: false };

    #[test]
    fn every_addr4_word_survives() {
        for high in 0..=255u32 {
            for low in [0, 1, 63, 0xFF, 0x100, 0x00FF_FFFF, 0x0012_3400] {
                let raw = high << 24 | low;
                assert_eq!(Addr4::decode(raw).encode(), raw, "{raw:#x}");
            }
        }
        assert_eq!(Addr4::decode(0x8000_0007), Addr4::Reg(7));
        assert_eq!(Addr4::decode(0x8000_0107), Addr4::Unknown(0x8000_0107));
        assert_eq!(Addr4::decode(0x6000_0000), Addr4::Unknown(0x6000_0000));
        assert!(Addr4::decode(0xC000_0002).shape_from_register());
        assert_eq!(Addr4::decode(0x2204_0000), Addr4::IndirectImm(0x0204_0000));
    }

    #[test]
    fn every_addr8_word_survives() {
        for high in 0..=255u64 {
            for low in [0, 0x0201, 0x1_0000, 0xFF_FFFF_FFFF_FFFF] {
                let raw = high << 56 | low;
                assert_eq!(Addr8::decode(raw).encode(), raw, "{raw:#x}");
            }
        }
        assert_eq!(Addr8::decode(0x80 << 56 | 0x0504), Addr8::Reg { lo: 4, hi: 5 });
        assert!(matches!(
            Addr8::decode(0x6C << 56),
            Addr8::Table { shape_reg: true, offset_reg: true, offset64: true, .. }
        ));
    }

    #[test]
    fn tensor_words() {
        let p = TensorPattern::at(0x0200_8000, &[(1, 512), (-4, 2), (0, 1)]);
        let mut out = [0; 16];
        Pattern::Tensor(p.clone()).encode(PatternKind::Tensor(3), RULES, &mut out).unwrap();
        assert_eq!(out[..4], [0x00, 0x80, 0x00, 0x02]);
        assert_eq!(out[4..10], [1, 0, 0xFC, 0xFF, 0, 0]);
        assert_eq!(out[10..], [0, 2, 2, 0, 1, 0]);
        assert_eq!(p.count(), 1024);
        let back = Pattern::decode(PatternKind::Tensor(3), &out, RULES).unwrap();
        assert_eq!(back, Pattern::Tensor(p));
        assert!(back.encode(PatternKind::Tensor(4), RULES, &mut [0; 20]).is_err());
        assert!(Pattern::decode(PatternKind::Mem(3), &out[..12], RULES).is_err());
    }

    #[test]
    fn mx_marker_counts_on_v5_only() {
        let mut out = [0; 16];
        out[0] = 1;
        out[8] = 4;
        let v5 = PatternRules { mx_marker: true, ..RULES };
        let p = Pattern::decode(PatternKind::Mem(3), &out, v5).unwrap();
        assert!(matches!(p, Pattern::MxV2 { num: [4, 0], .. }));
        let mut again = [0xFF; 16];
        p.encode(PatternKind::Mem(3), v5, &mut again).unwrap();
        assert_eq!(again, out);
        let v4 = Pattern::decode(PatternKind::Mem(3), &out, RULES).unwrap();
        assert!(matches!(v4, Pattern::Tensor(_)));
    }
}

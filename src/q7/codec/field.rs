//! Operand fields: where an operand's bits lie, and how its bits turn into a value.
//!
//! A value is what assembly text shows: a register number, an immediate in the units of the text
//! (bytes for address offsets), or the absolute target address of a branch.

use smallvec::SmallVec;

/// Register file of an operand, or `Imm` for anything that is not a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    /// Address registers `a0..a15` of the current window.
    Ar,
    /// One-bit boolean registers `b0..b15`.
    Br,
    /// A group of four boolean registers, named by the lowest.
    Br4,
    /// A group of eight boolean registers, named by the lowest.
    Br8,
    /// 512-bit vectors `v0..v31`.
    Vec,
    /// Vector predicates `vb0..vb15`.
    VBool,
    /// Alignment registers `u0..u3`.
    VAlign,
    /// Accumulators `wv0..wv3`.
    WVec,
    /// 64-bit bridge registers `pr0..pr15`.
    Pr,
    /// Gather registers `gr0..gr7`.
    Gvr,
    /// Not a register.
    Imm,
}

impl File {
    /// Prefix in assembly text.
    pub fn prefix(self) -> &'static str {
        match self {
            File::Ar => "a",
            File::Br | File::Br4 | File::Br8 => "b",
            File::Vec => "v",
            File::VBool => "vb",
            File::VAlign => "u",
            File::WVec => "wv",
            File::Pr => "pr",
            File::Gvr => "gr",
            File::Imm => "",
        }
    }

    /// Number of registers that the field can name.
    pub fn count(self) -> i64 {
        match self {
            File::Ar | File::Br | File::Br4 | File::Br8 | File::VBool | File::Pr => 16,
            File::Vec => 32,
            File::VAlign | File::WVec => 4,
            File::Gvr => 8,
            File::Imm => 0,
        }
    }

    fn parse(name: &str) -> Option<File> {
        Some(match name {
            "AR" => File::Ar,
            "BR" => File::Br,
            "BR4" => File::Br4,
            "BR8" => File::Br8,
            "vec" => File::Vec,
            "vbool" => File::VBool,
            "valign" => File::VAlign,
            "wvec" => File::WVec,
            "b32_pr" => File::Pr,
            "gvr" => File::Gvr,
            _ => return None,
        })
    }
}

/// Whether the operation reads, writes, or reads and writes an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read.
    Read,
    /// Only written.
    Write,
    /// Read and written.
    Modify,
}

/// How the raw bits of a non-register field turn into a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImmCode {
    /// Unsigned, times `.0`.
    Unsigned(i64),
    /// Two's complement, times `.0`.
    Signed(i64),
    /// Two's complement, times `.0`, without the two lowest values: the vendor's assembler refuses
    /// -8 and the pages disagree on -7. (wiki: isa/ref/b07-stores)
    Step(i64),
    /// Unsigned plus a bias.
    Biased(i64),
    /// `constant - raw`, for `slli`.
    From32,
    /// `(raw - 16) * 4`, for the window spill accesses.
    SpillOffset,
    /// `192 - 16 * raw`, for `s32stk`.
    StackOffset,
    /// `addi.n`: 0 stands for -1.
    AddiN,
    /// `movi.n`: 96..127 stand for -32..-1.
    MoviN,
    /// Table of signed branch constants.
    B4Const,
    /// Table of unsigned branch constants.
    B4ConstU,
    /// PC + 4 + signed raw.
    Branch,
    /// PC + 4 + unsigned raw.
    Forward,
    /// (PC and not 3) + 4 + 4 * signed raw.
    Call,
    /// Literal address of `l32r`, always before the instruction.
    Literal,
    /// Special register number.
    SpecialRegister,
    /// User register number.
    UserRegister,
}

/// Constants of `beqi`, `bnei`, `blti`, `bgei` by field value.
/// OPEN: apart from two printed examples the table is the standard one of the architecture.
/// (wiki: isa/ref/b26-xt-ctrl)
pub const B4CONST: [i64; 16] = [-1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64, 128, 256];
/// Constants of `bltui`, `bgeui` by field value; see [`B4CONST`].
pub const B4CONSTU: [i64; 16] = [32768, 65536, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64, 128, 256];

/// One bit of a field: a place in the instruction, or a value that the pages freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    /// Instruction bit.
    At(u8),
    /// Always this value.
    Fixed(bool),
}

/// An operand field of an operation.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name as the pages give it, for instance `vt`.
    pub name: &'static str,
    /// Register file, or [`File::Imm`].
    pub file: File,
    /// Direction.
    pub access: Access,
    /// Bits, lowest first.
    pub bits: SmallVec<[Bit; 8]>,
    /// Meaning of the bits when `file` is [`File::Imm`].
    pub code: ImmCode,
}

impl Field {
    /// Parses `name:file:direction:bits`; `map` gives the instruction bit of a table bit, if known.
    ///
    /// # Panics
    /// On a malformed description: those are compiled in, and a test walks all of them.
    pub(super) fn parse(text: &'static str, map: &dyn Fn(usize) -> Option<u8>) -> Field {
        let mut parts = text.split(':');
        let mut next = || parts.next().unwrap_or_else(|| panic!("operand {text}"));
        let (name, kind, access, bits) = (next(), next(), next(), next());
        let file = File::parse(kind).unwrap_or(File::Imm);
        let (bits, scale) = match bits.split_once('*') {
            Some((bits, scale)) => (bits, scale.parse().expect("scale")),
            None => (bits, 1),
        };
        let code = if file == File::Imm { imm_code(kind, scale) } else { ImmCode::Unsigned(1) };
        let mut out = SmallVec::new();
        for part in bits.split('.').filter(|part| !part.is_empty()) {
            if let Some(value) = part.strip_prefix('=') {
                out.push(Bit::Fixed(value == "1"));
                continue;
            }
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let range = low.parse::<usize>().expect("bit")..=high.parse::<usize>().expect("bit");
            // A table bit without a known place can only be used while it is zero.
            out.extend(range.map(|bit| map(bit).map_or(Bit::Fixed(false), Bit::At)));
        }
        let access = match access {
            "w" => Access::Write,
            "m" => Access::Modify,
            _ => Access::Read,
        };
        Field { name, file, access, bits: out, code }
    }

    /// Bits of the instruction that belong to the field.
    pub fn mask(&self) -> u128 {
        self.bits.iter().fold(0, |mask, bit| match bit {
            Bit::At(at) => mask | 1 << at,
            Bit::Fixed(_) => mask,
        })
    }

    /// Reads the value out of instruction bits `word`; `pc` is the instruction's address.
    pub fn decode(&self, word: u128, pc: u32) -> i64 {
        let raw = self.bits.iter().enumerate().fold(0i64, |raw, (i, bit)| {
            let set = match bit {
                Bit::At(at) => word >> at & 1 != 0,
                Bit::Fixed(value) => *value,
            };
            raw | i64::from(set) << i
        });
        if self.file != File::Imm {
            return raw;
        }
        let width = self.bits.len().max(1) as u32;
        let signed = raw << (64 - width) >> (64 - width);
        let pc64 = i64::from(pc);
        let wrap = |address: i64| i64::from(address as u32);
        match self.code {
            ImmCode::Unsigned(scale) => raw * scale,
            ImmCode::Signed(scale) | ImmCode::Step(scale) => signed * scale,
            ImmCode::Biased(bias) => raw + bias,
            ImmCode::From32 => 32 - raw,
            ImmCode::SpillOffset => (raw - 16) * 4,
            ImmCode::StackOffset => 192 - 16 * raw,
            ImmCode::AddiN => {
                if raw == 0 {
                    -1
                } else {
                    raw
                }
            }
            ImmCode::MoviN => {
                if raw >= 96 {
                    raw - 128
                } else {
                    raw
                }
            }
            ImmCode::B4Const => B4CONST[(raw & 15) as usize],
            ImmCode::B4ConstU => B4CONSTU[(raw & 15) as usize],
            ImmCode::Branch => wrap(pc64 + 4 + signed),
            ImmCode::Forward => wrap(pc64 + 4 + raw),
            ImmCode::Call => wrap((pc64 & !3) + 4 + 4 * signed),
            ImmCode::Literal => wrap(((pc64 + 3) & !3) + ((raw - 0x1_0000) << 2)),
            ImmCode::SpecialRegister | ImmCode::UserRegister => raw,
        }
    }

    /// Instruction bits that hold `value`, or `None` if the field cannot.
    pub fn encode(&self, value: i64, pc: u32) -> Option<u128> {
        let width = self.bits.len() as u32;
        let pc64 = i64::from(pc);
        let raw = if self.file != File::Imm {
            value
        } else {
            match self.code {
                ImmCode::Unsigned(scale) | ImmCode::Signed(scale) | ImmCode::Step(scale) => {
                    let refused = matches!(self.code, ImmCode::Step(_)) && value < -6 * scale;
                    if value % scale != 0 || refused {
                        return None;
                    }
                    value / scale
                }
                ImmCode::Biased(bias) => value - bias,
                ImmCode::From32 => 32 - value,
                ImmCode::SpillOffset => value / 4 + 16,
                ImmCode::StackOffset => (192 - value) / 16,
                ImmCode::AddiN => {
                    if value == -1 {
                        0
                    } else {
                        value
                    }
                }
                ImmCode::MoviN => value & 127,
                ImmCode::B4Const => B4CONST.iter().position(|&c| c == value)? as i64,
                ImmCode::B4ConstU => B4CONSTU.iter().position(|&c| c == value)? as i64,
                ImmCode::Branch => {
                    i64::from((value as u32).wrapping_sub(pc).wrapping_sub(4) as i32)
                }
                ImmCode::Forward => i64::from((value as u32).wrapping_sub(pc).wrapping_sub(4)),
                ImmCode::Call => {
                    let base = (pc & !3).wrapping_add(4);
                    i64::from((value as u32).wrapping_sub(base) as i32) >> 2
                }
                ImmCode::Literal => ((value - ((pc64 + 3) & !3)) >> 2) + 0x1_0000,
                ImmCode::SpecialRegister | ImmCode::UserRegister => value,
            }
        };
        let word = self.bits.iter().enumerate().fold(0u128, |word, (i, bit)| match bit {
            Bit::At(at) => word | u128::from(raw as u64 >> i.min(63) & 1) << at,
            Bit::Fixed(_) => word,
        });
        // What does not survive the way back does not fit; this is the only range check.
        let wanted = match self.code {
            ImmCode::Branch | ImmCode::Forward | ImmCode::Call | ImmCode::Literal => {
                i64::from(value as u32)
            }
            _ => value,
        };
        (width > 0 && self.decode(word, pc) == wanted).then_some(word)
    }

    /// Whether the value is an address in the instruction stream.
    pub fn is_target(&self) -> bool {
        self.file == File::Imm
            && matches!(
                self.code,
                ImmCode::Branch | ImmCode::Forward | ImmCode::Call | ImmCode::Literal
            )
    }
}

fn imm_code(kind: &str, scale: i64) -> ImmCode {
    match kind {
        "u" | "u3" | "u4" | "u5" | "u8" | "u16" | "sel_imm" => ImmCode::Unsigned(scale),
        "s" | "s4" | "s8" | "s12" => ImmCode::Signed(scale),
        "step" => ImmCode::Step(scale),
        "u8*2" => ImmCode::Unsigned(2),
        "u8*4" | "u4*4" => ImmCode::Unsigned(4),
        "u12*8" => ImmCode::Unsigned(8),
        "s8*256" => ImmCode::Signed(256),
        "u4+1" => ImmCode::Biased(1),
        "u4+7" => ImmCode::Biased(7),
        "32-x" => ImmCode::From32,
        "(x-16)*4" => ImmCode::SpillOffset,
        "192-16x" => ImmCode::StackOffset,
        "addin" => ImmCode::AddiN,
        "movin" => ImmCode::MoviN,
        "b4const" => ImmCode::B4Const,
        "b4constu" => ImmCode::B4ConstU,
        "rel8" | "rel12" | "rel18" => ImmCode::Branch,
        "relu6" | "loop8" => ImmCode::Forward,
        "call18" => ImmCode::Call,
        "l32r" => ImmCode::Literal,
        "sr" => ImmCode::SpecialRegister,
        "ur" => ImmCode::UserRegister,
        _ => panic!("operand kind {kind}"),
    }
}

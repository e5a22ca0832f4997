//! Encoding of Vision-Q7 instructions: 24- and 16-bit scalar instructions, 8- and 16-byte bundles.
//!
//! One set of tables (`tables/`) serves decoder, encoder, assembler and disassembler. Everything is
//! kept in bundle bits: bit `i` is bit `i % 8` of byte `i / 8`. (wiki: isa/core/flix-encoding)
//!
//! Limits: the public pages give the interior of N0 completely, of N1, N2 and F0 in part, of F2 the
//! divide steps, and of F1, F3, F4, F6, F7 and F11 nothing. A bundle with an unpublished part is framed (format
//! and length) and then refused with [`crate::error::ErrorClass::MissingSpecification`].

pub mod field;
pub mod special;
pub mod table;

use std::fmt::Write as _;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use field::{Bit, File, ImmCode};
pub use table::{FormatId, Place, Row, Status, Tables, tables};

/// Page that an error about an unknown part of a bundle names.
const PAGE: &str = "wiki: isa/core/libisa-decode-model";

/// What the decoder accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Options {
    /// Accept this project's private codes for operations whose hardware word is not published.
    /// Code of the vendor must be read without it.
    pub own_kernel: bool,
}

impl Options {
    /// Accepts private codes.
    pub const OWN: Options = Options { own_kernel: true };
}

/// Format and length of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Format.
    pub format: FormatId,
    /// Bytes: 2, 3, 8 or 16.
    pub length: u8,
}

/// An operation in a slot, with its operand values in assembly order.
#[derive(Clone, Debug)]
pub struct Op {
    /// Table row.
    pub row: &'static Row,
    /// Values, parallel to `row.fields`: register numbers, immediates, absolute targets.
    pub values: SmallVec<[i64; 5]>,
}

/// A decoded instruction: one operation for a scalar instruction, one per slot for a bundle.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Format and length.
    pub frame: Frame,
    /// Operations in slot order. Slots that the format cannot use hold no entry's worth of bits
    /// but still show as `nop`.
    pub ops: SmallVec<[Op; 4]>,
    /// Which whole-bundle pattern it is, if the operations are only known together.
    whole: Option<u8>,
}

/// Length table of the configuration, indexed by `(byte3 & 15) << 4 | byte0 & 15`; `None` is
/// illegal. (wiki: isa/core/flix-encoding)
pub fn length_by_table(byte0: u8, byte3: u8) -> Option<u8> {
    match (byte0 & 15, byte3 & 15) {
        (0..=7, _) => Some(3),
        (8..=13, _) => Some(2),
        (14, _) => Some(16),
        (_, 7 | 15) => None,
        (_, high) if high & 1 == 0 => Some(8),
        _ => Some(16),
    }
}

/// Format and length from the first bytes (up to four are looked at).
///
/// # Errors
/// [`crate::error::ErrorClass::IllegalInstruction`] if no format matches or bytes are missing.
pub fn frame(bytes: &[u8]) -> Result<Frame> {
    let Some(&byte0) = bytes.first() else {
        return Err(Error::illegal("q7_truncated", "no instruction bytes left"));
    };
    // Only nibble F needs byte 3, so a two-byte instruction may be the last of its region.
    if byte0 & 15 == 15 && bytes.len() < 4 {
        return Err(Error::illegal("q7_truncated", "bundle is cut off inside its first word"));
    }
    let word = bytes.iter().take(4).rev().fold(0u32, |word, &b| word << 8 | u32::from(b));
    for format in &tables().formats {
        if word & format.select_mask == format.select_value {
            if bytes.len() < usize::from(format.length) {
                return Err(Error::illegal(
                    "q7_truncated",
                    format!("{} instruction is cut off", format.id.name()),
                ));
            }
            return Ok(Frame { format: format.id, length: format.length });
        }
    }
    Err(Error::illegal("q7_format", format!("no instruction format matches word {word:#010x}")))
}

/// The first `length` bytes as one little-endian number.
fn to_word(bytes: &[u8], length: u8) -> u128 {
    bytes.iter().take(usize::from(length)).rev().fold(0, |word, &b| word << 8 | u128::from(b))
}

/// Gathers the slot word of a slot: bit `i` of the result is slot-word bit `i`; bits whose place in
/// the bundle is unknown read 0. `None` if nothing of the slot is known.
pub fn slot_word(format: FormatId, slot: usize, bytes: &[u8]) -> Option<u32> {
    let format = tables().formats.get(usize::from(format.0))?;
    let slot = format.slots.get(slot).filter(|slot| !slot.scatter.is_empty())?;
    let word = to_word(bytes, format.length);
    Some(slot.scatter.iter().enumerate().fold(0, |out, (i, at)| match at {
        Some(at) => out | ((word >> at & 1) as u32) << i,
        None => out,
    }))
}

/// The slot word of one operation alone, for slots whose slot-word numbering is known.
pub fn encode_slot_word(op: &Op) -> Option<u32> {
    let format = &tables().formats[usize::from(op.row.format.0)];
    let bits = op.encode(0)?;
    slot_word(format.id, usize::from(op.row.slot), &bits.to_le_bytes())
}

/// Decodes the instruction at the start of `bytes`; `pc` is its address, for branch targets.
///
/// # Errors
/// `IllegalInstruction` if no format or, for scalar instructions, no operation matches;
/// `MissingSpecification` with the raw bits if a slot of a bundle is not published.
pub fn decode(bytes: &[u8], pc: u32, options: Options) -> Result<Bundle> {
    let frame = frame(bytes)?;
    let format = &tables().formats[usize::from(frame.format.0)];
    let word = to_word(bytes, frame.length);
    let hex = || {
        bytes.iter().take(usize::from(frame.length)).fold(String::new(), |mut text, b| {
            let _ = write!(text, "{b:02x}");
            text
        })
    };
    if !format.known {
        return Err(Error::missing_spec(
            format!("interior of format {} (bundle {})", format.id.name(), hex()),
            PAGE,
        ));
    }
    for (at, whole) in format.whole.iter().enumerate() {
        if word & whole.mask == whole.value {
            let ops = whole.rows.iter().map(|row| Op::read(row, word, pc)).collect();
            return Ok(Bundle { frame, ops, whole: Some(at as u8) });
        }
    }
    if word & format.rest_mask != format.rest_value {
        return Err(Error::missing_spec(
            format!(
                "bits {:#x} of format {} outside the published slots (bundle {})",
                (word ^ format.rest_value) & format.rest_mask,
                format.id.name(),
                hex()
            ),
            PAGE,
        ));
    }
    let mut ops = SmallVec::new();
    for (at, slot) in format.slots.iter().enumerate() {
        if slot.own == 0 {
            ops.push(Op::implied_nop());
            continue;
        }
        let found = slot.rows.iter().find(|row| {
            word & row.mask == row.value && (options.own_kernel || !row.status.is_private())
        });
        let Some(row) = found else {
            if frame.length < 8 {
                return Err(Error::illegal(
                    "q7_opcode",
                    format!("no {}-byte instruction is {}", frame.length, hex()),
                ));
            }
            let raw = match slot_word(format.id, at, bytes) {
                Some(raw) => format!("slot word {raw:#010x}"),
                None => format!("bundle bits {:#x}", word & slot.own),
            };
            return Err(Error::missing_spec(
                format!(
                    "operation in slot {}_{}: {raw} (bundle {})",
                    format.id.name(),
                    slot.name,
                    hex()
                ),
                PAGE,
            ));
        };
        let op = Op::read(row, word, pc);
        // A field value that the assembler refuses has no known meaning, and groups of boolean
        // registers must be aligned: what does not encode back is not what it seems.
        if op.encode(pc) != Some(word & slot.own) {
            let text = format!("operand bits of `{}` (instruction {})", row.mnemonic, hex());
            return Err(if frame.length < 8 {
                Error::illegal("q7_operand", text)
            } else {
                Error::missing_spec(text, PAGE)
            });
        }
        ops.push(op);
    }
    Ok(Bundle { frame, ops, whole: None })
}

/// The `nop` of a slot that has no bits of its own.
fn implied_nop() -> &'static Row {
    static NOP: Row = Row {
        mnemonic: "nop",
        format: FormatId(0),
        slot: 0,
        mask: 0,
        value: 0,
        fields: Vec::new(),
        status: Status::Known,
        page: "isa/core/flix-encoding",
    };
    &NOP
}

impl Op {
    /// The `nop` of a slot whose interior is not published, or that has no bits of its own.
    pub fn implied_nop() -> Op {
        Op { row: implied_nop(), values: SmallVec::new() }
    }

    fn read(row: &'static Row, word: u128, pc: u32) -> Op {
        Op { row, values: row.fields.iter().map(|field| field.decode(word, pc)).collect() }
    }

    /// Bundle bits of the operation, or `None` if a value does not fit its field.
    pub fn encode(&self, pc: u32) -> Option<u128> {
        let mut word = self.row.value;
        for (field, &value) in self.row.fields.iter().zip(&self.values) {
            word |= field.encode(value, pc)?;
        }
        (self.values.len() == self.row.fields.len()).then_some(word)
    }

    /// Whether the operation does nothing.
    pub fn is_nop(&self) -> bool {
        self.row.mnemonic == "nop" || self.row.mnemonic == "nop.n"
    }

    /// The value of the field called `name`.
    pub fn value(&self, name: &str) -> Option<i64> {
        let at = self.row.fields.iter().position(|field| field.name == name)?;
        self.values.get(at).copied()
    }

    /// Assembly text. `label` may name an address.
    pub fn text(&self, label: &dyn Fn(u32) -> Option<String>) -> String {
        let mut out = String::from(self.row.mnemonic);
        let mut operands: SmallVec<[String; 5]> = SmallVec::new();
        for (field, &value) in self.row.fields.iter().zip(&self.values) {
            match field.code {
                ImmCode::SpecialRegister if field.file == File::Imm => {
                    match special::special_name(value as u8) {
                        Some(name) => out = format!("{out}.{name}"),
                        None => operands.push(format!("{value:#x}")),
                    }
                }
                ImmCode::UserRegister if field.file == File::Imm => {
                    match special::user_name(value as u8) {
                        Some(name) => out = format!("{out}.{name}"),
                        None => operands.push(format!("{value:#x}")),
                    }
                }
                _ if field.is_target() => {
                    let address = value as u32;
                    operands.push(label(address).unwrap_or_else(|| format!("{address:#x}")));
                }
                _ => match field.file {
                    File::Imm => operands.push(value.to_string()),
                    File::Br4 => {
                        let names: Vec<_> = (value..value + 4).map(|b| format!("b{b}")).collect();
                        operands.push(names.join(":"));
                    }
                    File::Br8 => operands.push(format!("b{value}:b{}", value + 7)),
                    file => operands.push(format!("{}{value}", file.prefix())),
                },
            }
        }
        if !operands.is_empty() {
            out.push(' ');
            out.push_str(&operands.join(", "));
        }
        out
    }
}

impl Bundle {
    /// A bundle of `format` from one operation per slot.
    ///
    /// # Errors
    /// `ProgramError` if the operations do not belong to the slots of one format.
    pub fn new(format: FormatId, ops: SmallVec<[Op; 4]>) -> Result<Bundle> {
        let bad = |text: String| Error::new(crate::error::ErrorClass::ProgramError, text);
        let table = tables()
            .formats
            .get(usize::from(format.0))
            .ok_or_else(|| bad("no such format".to_owned()))?;
        if ops.len() != table.slots.len() {
            return Err(bad(format!("{} has {} slots", format.name(), table.slots.len())));
        }
        for (at, (op, slot)) in ops.iter().zip(&table.slots).enumerate() {
            let own = op.row.format == format && usize::from(op.row.slot) == at;
            let implied = slot.own == 0 && op.is_nop();
            if !(own || implied) {
                return Err(bad(format!(
                    "{} is not in slot {} of {}",
                    op.row.mnemonic,
                    slot.name,
                    format.name()
                )));
            }
        }
        Ok(Bundle { frame: Frame { format, length: table.length }, ops, whole: None })
    }

    /// A bundle whose operations are published only together: pattern `at` of `format`.
    pub(super) fn from_whole(format: &table::Format, at: usize, ops: SmallVec<[Op; 4]>) -> Bundle {
        let frame = Frame { format: format.id, length: format.length };
        Bundle { frame, ops, whole: Some(at as u8) }
    }

    /// A scalar instruction.
    pub fn scalar(op: Op) -> Bundle {
        let length = tables().formats[usize::from(op.row.format.0)].length;
        let frame = Frame { format: op.row.format, length };
        Bundle { frame, ops: SmallVec::from_iter([op]), whole: None }
    }

    /// The bytes of the instruction, in memory order.
    ///
    /// # Errors
    /// `ProgramError` if a value does not fit.
    pub fn encode(&self, pc: u32) -> Result<SmallVec<[u8; 16]>> {
        let format = &tables().formats[usize::from(self.frame.format.0)];
        let mut word = match self.whole {
            Some(at) => format.whole[usize::from(at)].value,
            None => format.rest_value,
        };
        for op in &self.ops {
            word |= op.encode(pc).ok_or_else(|| {
                Error::new(
                    crate::error::ErrorClass::ProgramError,
                    format!("an operand of `{}` does not fit its field", op.text(&|_| None)),
                )
            })?;
        }
        Ok(SmallVec::from_slice(&word.to_le_bytes()[..usize::from(self.frame.length)]))
    }

    /// Whether any operation has a private code.
    pub fn is_private(&self) -> bool {
        self.ops.iter().any(|op| op.row.status.is_private())
    }

    /// Assembly text in the vendor's syntax: `{ nop; nop; nop; ivp_raddnx16 v3, v2 }`.
    pub fn text(&self, label: &dyn Fn(u32) -> Option<String>) -> String {
        if self.frame.length < 8 {
            return self.ops[0].text(label);
        }
        let ops: Vec<_> = self.ops.iter().map(|op| op.text(label)).collect();
        format!("{{ {} }}", ops.join("; "))
    }

    /// Whether the operations are published only together.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }
}

/// Whether a row's operands are all free, that is, whether an assembler may use any register.
pub fn is_general(row: &Row) -> bool {
    row.fields.iter().all(|f| f.bits.iter().all(|b| matches!(b, Bit::At(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_of_a_slot_match_the_same_bits() {
        let mut pairs = 0;
        for format in &tables().formats {
            for slot in &format.slots {
                for (i, a) in slot.rows.iter().enumerate() {
                    for b in &slot.rows[i + 1..] {
                        pairs += 1;
                        let common = a.mask & b.mask;
                        let clash = a.value & common == b.value & common;
                        assert!(
                            !clash || a.status == Status::Fixed || b.status == Status::Fixed,
                            "{}_{}: {} and {}",
                            format.id.name(),
                            slot.name,
                            a.mnemonic,
                            b.mnemonic
                        );
                    }
                }
            }
        }
        println!("{pairs} pairs of rows tested");
        assert!(pairs > 30_000);
    }

    #[test]
    fn rows_stay_inside_their_slot_and_fields_are_zero_in_the_opcode() {
        for format in &tables().formats {
            for slot in &format.slots {
                for row in &slot.rows {
                    assert_eq!(row.value & !row.mask, 0, "{}", row.mnemonic);
                    assert_eq!(row.mask & !slot.own, 0, "{}", row.mnemonic);
                    let mut seen = row.mask;
                    for field in &row.fields {
                        assert_eq!(field.mask() & seen, 0, "{} {}", row.mnemonic, field.name);
                        seen |= field.mask();
                    }
                    assert_eq!(seen, slot.own, "{} leaves bits of its slot open", row.mnemonic);
                }
            }
        }
    }

    #[test]
    fn formats_and_length_table_agree() {
        let mut census = std::collections::BTreeMap::new();
        for index in 0..256u32 {
            let length = length_by_table(index as u8 & 15, (index >> 4) as u8);
            *census.entry(length).or_insert(0) += 1;
        }
        let census: Vec<_> = census.into_iter().collect();
        assert_eq!(
            census,
            [(None, 2), (Some(2), 96), (Some(3), 128), (Some(8), 8), (Some(16), 22)]
        );
        for pattern in 0..4096u32 {
            let (byte0, byte3) = (pattern as u8 & 15, (pattern >> 4) as u8);
            let mut bytes = [0u8; 16];
            bytes[0] = byte0;
            bytes[3] = byte3;
            let framed = frame(&bytes).ok().map(|f| f.length);
            assert_eq!(framed, length_by_table(byte0, byte3), "{byte0:x} {byte3:02x}");
        }
    }
}

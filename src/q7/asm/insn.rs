//! From the text of one instruction or bundle to table rows and operand values.

use smallvec::SmallVec;

use crate::error::{Error, ErrorClass, Result};
use crate::q7::codec::field::{Field, File, ImmCode};
use crate::q7::codec::table::{Format, tables};
use crate::q7::codec::{Bundle, FormatId, Op, Options, Row, special};

use super::expr::{Expr, Half};

/// An operand as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, or the lowest register of a group.
    Reg(File, i64),
    /// An expression, of which a half may be meant (`symbol@h`, `symbol@l`).
    Expr(Expr, Half),
}

/// An operation as written.
#[derive(Clone, Debug, PartialEq)]
pub struct OpText {
    /// Lower-case mnemonic.
    pub mnemonic: String,
    /// Operands.
    pub operands: Vec<Operand>,
}

/// A statement that makes one instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct InsnText {
    /// Format written before the brace, if any.
    pub format: Option<FormatId>,
    /// Whether braces were written.
    pub braces: bool,
    /// Operations.
    pub ops: Vec<OpText>,
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::ProgramError, text)
}

/// Parses `add a2, a3, a4` or `[format] { op; op; ... }`.
///
/// # Errors
/// `ProgramError` with what is wrong.
pub fn parse(text: &str) -> Result<InsnText> {
    let text = text.trim();
    let Some(open) = text.find('{') else {
        return Ok(InsnText { format: None, braces: false, ops: vec![parse_op(text)?] });
    };
    let head = text[..open].trim();
    let format = match head {
        "" => None,
        name => Some(
            FormatId::by_name(name).ok_or_else(|| bad(format!("`{name}` is not a format name")))?,
        ),
    };
    let body = text[open + 1..]
        .trim_end()
        .strip_suffix('}')
        .ok_or_else(|| bad("a bundle must end with `}` on the same line"))?;
    let ops = body
        .split(';')
        .map(str::trim)
        .filter(|op| !op.is_empty())
        .map(parse_op)
        .collect::<Result<Vec<_>>>()?;
    if ops.is_empty() {
        return Err(bad("empty bundle"));
    }
    Ok(InsnText { format, braces: true, ops })
}

fn parse_op(text: &str) -> Result<OpText> {
    let (mnemonic, rest) = match text.find(char::is_whitespace) {
        Some(at) => (&text[..at], text[at..].trim()),
        None => (text, ""),
    };
    let operands = if rest.is_empty() {
        Vec::new()
    } else {
        rest.split(',').map(|part| parse_operand(part.trim())).collect::<Result<_>>()?
    };
    Ok(OpText { mnemonic: mnemonic.to_ascii_lowercase(), operands })
}

fn register(text: &str) -> Option<(File, i64)> {
    if text == "sp" {
        return Some((File::Ar, 1));
    }
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    let file = match &text[..digits] {
        "a" => File::Ar,
        "b" => File::Br,
        "v" => File::Vec,
        "vb" => File::VBool,
        "u" => File::VAlign,
        "wv" => File::WVec,
        "pr" => File::Pr,
        "gr" => File::Gvr,
        _ => return None,
    };
    let number = &text[digits..];
    (number.len() <= 2 && number.bytes().all(|b| b.is_ascii_digit()))
        .then(|| number.parse().ok().map(|number| (file, number)))?
}

fn parse_operand(text: &str) -> Result<Operand> {
    if let Some((file, number)) = register(text) {
        return Ok(Operand::Reg(file, number));
    }
    if text.contains(':') {
        let mut parts = text.split(':').map(register);
        let first = parts.next().flatten();
        let (mut count, mut good) = (1, first.is_some());
        for part in parts {
            // `b8:b15` is the short form of eight registers.
            if count == 1 && part == first.map(|(file, low)| (file, low + 7)) {
                count = 7;
            } else {
                good &= part == first.map(|(file, low)| (file, low + count));
            }
            count += 1;
        }
        let file = match count {
            4 => File::Br4,
            8 => File::Br8,
            _ => File::Imm,
        };
        return match first {
            Some((File::Br, low)) if good && file != File::Imm => Ok(Operand::Reg(file, low)),
            _ => Err(bad(format!("`{text}` is not a group of boolean registers"))),
        };
    }
    let (text, half) = match text.split_once('@') {
        Some((symbol, "h")) => (symbol, Half::High),
        Some((symbol, "l")) => (symbol, Half::Low),
        Some(_) => return Err(bad(format!("`{text}`: only @h and @l are known"))),
        None => (text, Half::Whole),
    };
    Ok(Operand::Expr(Expr::parse(text)?, half))
}

/// How an expression operand gets its value.
pub trait Resolve {
    /// Value of `expr`, or `None` while symbols are not placed yet or if a linker is to fill it in;
    /// `relative` tells that the operand is a target in the instruction stream.
    ///
    /// # Errors
    /// `ProgramError` for an undefined symbol, or an address where only a number fits.
    fn value(&self, expr: &Expr, half: Half, relative: bool) -> Result<Option<i64>>;
}

/// Chooses the encoding of an instruction at `pc`.
///
/// Unplaced symbols are taken to fit, so the choice of the first pass depends on the text only and
/// the second pass makes the same one.
///
/// # Errors
/// `ProgramError` if no format takes the operations.
pub fn select(text: &InsnText, pc: u32, resolve: &dyn Resolve, options: Options) -> Result<Bundle> {
    if !text.braces && text.ops.len() == 1 {
        return select_single(&text.ops[0], pc, resolve, options);
    }
    let mut why = None;
    for format in &tables().formats {
        let wanted = text.format.is_none_or(|id| id == format.id);
        if !wanted || format.length < 8 || !format.known {
            continue;
        }
        // Match order puts F0 before the narrow formats; the narrow ones are preferred.
        if format.length == 8 || text.format.is_some() {
            match select_in(format, &text.ops, pc, resolve, options) {
                Ok(bundle) => return Ok(bundle),
                Err(error) => why = Some(error),
            }
        }
    }
    if text.format.is_none() {
        let wide = tables().formats.iter().filter(|f| f.known && f.length == 16);
        for format in wide {
            match select_in(format, &text.ops, pc, resolve, options) {
                Ok(bundle) => return Ok(bundle),
                Err(error) => why = Some(error),
            }
        }
    }
    Err(why.unwrap_or_else(|| bad("no format takes these operations")))
}

fn select_single(op: &OpText, pc: u32, resolve: &dyn Resolve, options: Options) -> Result<Bundle> {
    let mut why = None;
    let (base, _) = split_special(&op.mnemonic);
    let names = [op.mnemonic.as_str(), base];
    for (at, name) in names.iter().enumerate() {
        if at == 1 && names[0] == names[1] {
            continue;
        }
        // A register name in the mnemonic means the scalar form first.
        for &place in tables().places(name) {
            let row = tables().row(place);
            if row.status.is_private() && !options.own_kernel {
                why.get_or_insert_with(|| private(row));
                continue;
            }
            let format = &tables().formats[usize::from(place.format)];
            if format.length < 8 {
                match fill(row, op, pc, resolve) {
                    Ok(op) => return Ok(Bundle::scalar(op)),
                    Err(error) => why = Some(error),
                }
                continue;
            }
            if names[0] != names[1] && !tables().places(base).is_empty() {
                // `rur.fcr` also exists as a slot operation, but alone the scalar form is shorter.
                continue;
            }
            match select_in(format, std::slice::from_ref(op), pc, resolve, options) {
                Ok(bundle) => return Ok(bundle),
                Err(error) => why = Some(error),
            }
        }
    }
    Err(why.unwrap_or_else(|| unknown(&op.mnemonic)))
}

fn unknown(mnemonic: &str) -> Error {
    let template = tables().templates.iter().find(|t| t.mnemonic == mnemonic);
    match template {
        Some(t) => Error::missing_spec(
            format!(
                "where the bits of `{mnemonic}` lie in a bundle (slot {}_{})",
                t.format, t.slot
            ),
            "wiki: isa/core/libisa-decode-model",
        ),
        None => bad(format!("unknown operation `{mnemonic}`")),
    }
}

fn private(row: &Row) -> Error {
    bad(format!("`{}` has no published word", row.mnemonic))
        .help("own kernels may use this project's private code: pass the own-kernel option")
}

fn select_in(
    format: &'static Format,
    ops: &[OpText],
    pc: u32,
    resolve: &dyn Resolve,
    options: Options,
) -> Result<Bundle> {
    if ops.len() > format.slots.len() {
        return Err(bad(format!("{} has only {} slots", format.id.name(), format.slots.len())));
    }
    for at in 0..format.whole.len() {
        if let Some(bundle) = select_whole(format, at, ops, pc, resolve) {
            return Ok(bundle);
        }
    }
    let mut chosen = SmallVec::new();
    place_from(format, 0, ops, pc, resolve, options, &mut chosen)?;
    Bundle::new(format.id, chosen)
}

/// Puts `ops` into the slots from `slot` on, keeping their order; short lists get `nop`s.
fn place_from(
    format: &'static Format,
    slot: usize,
    ops: &[OpText],
    pc: u32,
    resolve: &dyn Resolve,
    options: Options,
    chosen: &mut SmallVec<[Op; 4]>,
) -> Result<()> {
    let left = format.slots.len() - slot;
    if left == 0 {
        return if ops.is_empty() { Ok(()) } else { Err(bad("more operations than slots")) };
    }
    let mut why = None;
    if let Some((op, rest)) = ops.split_first() {
        match in_slot(format, slot, op, pc, resolve, options) {
            Ok(op) => {
                chosen.push(op);
                match place_from(format, slot + 1, rest, pc, resolve, options, chosen) {
                    Ok(()) => return Ok(()),
                    Err(error) => {
                        chosen.truncate(slot);
                        why = Some(error);
                    }
                }
            }
            Err(error) => why = Some(error),
        }
    }
    if left > ops.len() {
        let nop = OpText { mnemonic: "nop".to_owned(), operands: Vec::new() };
        if let Ok(op) = in_slot(format, slot, &nop, pc, resolve, options) {
            chosen.push(op);
            match place_from(format, slot + 1, ops, pc, resolve, options, chosen) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    chosen.truncate(slot);
                    why.get_or_insert(error);
                }
            }
        }
    }
    Err(why.unwrap_or_else(|| bad(format!("{} cannot hold these operations", format.id.name()))))
}

fn in_slot(
    format: &'static Format,
    slot: usize,
    op: &OpText,
    pc: u32,
    resolve: &dyn Resolve,
    options: Options,
) -> Result<Op> {
    let table = &format.slots[slot];
    if table.own == 0 {
        if op.mnemonic == "nop" && op.operands.is_empty() {
            return Ok(Op::implied_nop());
        }
        return Err(bad(format!(
            "slot {}_{} can only be `nop`: its interior is not published",
            format.id.name(),
            table.name
        )));
    }
    let mut why = None;
    for row in table.rows.iter().filter(|row| row.mnemonic == op.mnemonic) {
        if row.status.is_private() && !options.own_kernel {
            why.get_or_insert_with(|| private(row));
            continue;
        }
        match fill(row, op, pc, resolve) {
            Ok(op) => return Ok(op),
            Err(error) => why = Some(error),
        }
    }
    Err(why.unwrap_or_else(|| {
        if tables().places(&op.mnemonic).is_empty() {
            unknown(&op.mnemonic)
        } else {
            bad(format!(
                "`{}` has no word in slot {}_{}",
                op.mnemonic,
                format.id.name(),
                table.name
            ))
        }
    }))
}

fn select_whole(
    format: &'static Format,
    at: usize,
    ops: &[OpText],
    pc: u32,
    resolve: &dyn Resolve,
) -> Option<Bundle> {
    let whole = &format.whole[at];
    if ops.len() != whole.rows.len() {
        return None;
    }
    let mut filled = SmallVec::new();
    for (row, op) in whole.rows.iter().zip(ops) {
        if row.mnemonic != op.mnemonic {
            return None;
        }
        filled.push(fill(row, op, pc, resolve).ok()?);
    }
    Some(Bundle::from_whole(format, at, filled))
}

/// `rsr.sar` is `rsr` with the register in the mnemonic.
pub(super) fn split_special(mnemonic: &str) -> (&str, Option<i64>) {
    let Some((base, name)) = mnemonic.split_once('.') else { return (mnemonic, None) };
    let number = match base {
        "rsr" | "wsr" | "xsr" => special::special_number(name),
        "rur" | "wur" => special::user_number(name),
        _ => None,
    };
    match number {
        Some(number) => (base, Some(i64::from(number))),
        None => (mnemonic, None),
    }
}

/// Matches operands against the fields of a row.
fn fill(row: &'static Row, op: &OpText, pc: u32, resolve: &dyn Resolve) -> Result<Op> {
    let (_, mut number) = split_special(&op.mnemonic);
    if row.mnemonic == op.mnemonic {
        number = None;
    }
    let mut operands = op.operands.iter();
    let mut values = SmallVec::new();
    for field in &row.fields {
        let special = matches!(field.code, ImmCode::SpecialRegister | ImmCode::UserRegister)
            && field.file == File::Imm;
        if special && let Some(number) = number.take() {
            values.push(number);
            continue;
        }
        let operand = operands.next().ok_or_else(|| {
            bad(format!("`{}` needs {} operands", row.mnemonic, row.fields.len()))
        })?;
        values.push(value_of(row, field, operand, pc, resolve)?);
    }
    if operands.next().is_some() {
        return Err(bad(format!("too many operands for `{}`", row.mnemonic)));
    }
    Ok(Op { row, values })
}

fn value_of(
    row: &Row,
    field: &Field,
    operand: &Operand,
    pc: u32,
    resolve: &dyn Resolve,
) -> Result<i64> {
    let value = match operand {
        Operand::Reg(file, number) => {
            if *file != field.file {
                let wanted =
                    if field.file == File::Imm { "an immediate" } else { field.file.prefix() };
                return Err(bad(format!(
                    "operand `{}` of `{}` must be {wanted}",
                    field.name, row.mnemonic
                )));
            }
            *number
        }
        Operand::Expr(expr, half) => {
            if field.file != File::Imm {
                return Err(bad(format!(
                    "operand `{}` of `{}` must be a register {}",
                    field.name,
                    row.mnemonic,
                    field.file.prefix()
                )));
            }
            if let (Some(name), ImmCode::SpecialRegister | ImmCode::UserRegister) =
                (expr.plain_symbol(), field.code)
            {
                let number = if field.code == ImmCode::SpecialRegister {
                    special::special_number(name)
                } else {
                    special::user_number(name)
                };
                return number.map(i64::from).ok_or_else(|| bad(format!("no register `{name}`")));
            }
            match resolve.value(expr, *half, field.is_target())? {
                Some(value) => value,
                // Not known yet: any value that the field can hold stands in.
                None => return Ok(field.decode(0, pc)),
            }
        }
    };
    if field.encode(value, pc).is_none() {
        return Err(bad(format!(
            "operand `{}` of `{}`: {value} does not fit",
            field.name, row.mnemonic
        )));
    }
    Ok(value)
}

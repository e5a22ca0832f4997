//! The tables of formats and operations, parsed once at first use.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::field::{Bit, Field};

/// Index of a format in match order; [`FORMAT_NAMES`] names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FormatId(pub u8);

impl FormatId {
    /// Name, for instance `N0`.
    pub fn name(self) -> &'static str {
        FORMAT_NAMES.get(usize::from(self.0)).copied().unwrap_or("?")
    }

    /// Format of a name, in any case.
    pub fn by_name(name: &str) -> Option<FormatId> {
        let at = FORMAT_NAMES.iter().position(|n| n.eq_ignore_ascii_case(name))?;
        Some(FormatId(at as u8))
    }
}

/// Format names in match order. (wiki: isa/core/flix-encoding)
pub const FORMAT_NAMES: [&str; 14] =
    ["x24", "x16a", "x16b", "F0", "F11", "F1", "F2", "F3", "F4", "F6", "F7", "N1", "N2", "N0"];

/// How sure the pages are of an operation's word and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Reproduced from a printed example, printed, or forced by both.
    Known,
    /// Plausible by analogy.
    Inferred,
    /// Only this exact operand combination is printed; the fields are not known.
    Fixed,
    /// As `Fixed`, and an operand (a branch target) is missing from the print.
    Partial,
    /// Not a hardware encoding: continues a ladder of known codes. Own kernels only.
    Guess,
    /// Not a hardware encoding: a code from an unused range. Own kernels only.
    Open,
}

impl Status {
    /// Whether the word belongs to this project and not to the hardware.
    pub fn is_private(self) -> bool {
        matches!(self, Status::Guess | Status::Open)
    }
}

/// An operation in one slot of one format.
#[derive(Debug)]
pub struct Row {
    /// Mnemonic in lower case.
    pub mnemonic: &'static str,
    /// Format.
    pub format: FormatId,
    /// Index of the slot in its format.
    pub slot: u8,
    /// Instruction bits that the opcode decides.
    pub mask: u128,
    /// Their values.
    pub value: u128,
    /// Operands in assembly order.
    pub fields: Vec<Field>,
    /// Certainty.
    pub status: Status,
    /// Page, without the `wiki:` prefix.
    pub page: &'static str,
}

/// Several operations that the pages show only together in one bundle.
#[derive(Debug)]
pub struct Whole {
    /// Bundle bits that are fixed.
    pub mask: u128,
    /// Their values.
    pub value: u128,
    /// One row per slot.
    pub rows: Vec<Row>,
}

/// One slot of a format.
#[derive(Debug)]
pub struct Slot {
    /// Name, for instance `S3_ALU`.
    pub name: &'static str,
    /// Number of the slot in the configuration's slot list.
    pub id: u8,
    /// Width of the slot word in bits.
    pub width: u8,
    /// How many opcodes may sit in the slot, by the configuration's census.
    pub placements: u16,
    /// Bundle bit of each slot-word bit, `None` where unknown; empty if nothing is known.
    pub scatter: Vec<Option<u8>>,
    /// Bundle bits that belong to the slot; 0 if its interior is not published.
    pub own: u128,
    /// Operations of the slot, private ones last.
    pub rows: Vec<Row>,
}

/// An instruction format.
#[derive(Debug)]
pub struct Format {
    /// Identity.
    pub id: FormatId,
    /// Bytes.
    pub length: u8,
    /// Selector bits in the first 32 bits.
    pub select_mask: u32,
    /// Their values.
    pub select_value: u32,
    /// Slots in text order.
    pub slots: Vec<Slot>,
    /// Whether bundles can be built and taken apart at all.
    pub known: bool,
    /// Bits that no slot owns.
    pub rest_mask: u128,
    /// What they must be.
    pub rest_value: u128,
    /// Bundles known only as a whole.
    pub whole: Vec<Whole>,
}

/// A printed template word whose operand fields or bundle bits are not known.
#[derive(Debug)]
pub struct Template {
    /// Mnemonic.
    pub mnemonic: &'static str,
    /// Format name.
    pub format: &'static str,
    /// Slot name.
    pub slot: &'static str,
    /// Slot word with operand bits zero.
    pub word: u32,
    /// Page.
    pub page: &'static str,
}

/// Where to find an operation: format, slot, row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index in [`Tables::formats`].
    pub format: u8,
    /// Index in [`Format::slots`].
    pub slot: u8,
    /// Index in [`Slot::rows`].
    pub row: u16,
}

/// All tables.
#[derive(Debug)]
pub struct Tables {
    /// Formats in match order.
    pub formats: Vec<Format>,
    /// Words that are printed but cannot be placed in a bundle.
    pub templates: Vec<Template>,
    by_name: HashMap<&'static str, Vec<Place>>,
}

impl Tables {
    /// Places of a mnemonic, narrowest instruction first.
    pub fn places(&self, mnemonic: &str) -> &[Place] {
        self.by_name.get(mnemonic).map_or(&[], Vec::as_slice)
    }

    /// The row at a place.
    pub fn row(&self, place: Place) -> &Row {
        &self.formats[usize::from(place.format)].slots[usize::from(place.slot)].rows
            [usize::from(place.row)]
    }

    /// All mnemonics that have a word.
    pub fn mnemonics(&self) -> impl Iterator<Item = &'static str> {
        self.by_name.keys().copied()
    }
}

/// The tables, parsed on first use.
pub fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(load)
}

const SLOT_TABLES: [&str; 8] = [
    include_str!("tables/n0.csv"),
    include_str!("tables/n1.csv"),
    include_str!("tables/n2.csv"),
    include_str!("tables/f0_s1.csv"),
    include_str!("tables/f0_s3.csv"),
    include_str!("tables/f2.csv"),
    include_str!("tables/fixed.csv"),
    include_str!("tables/n2_private.csv"),
];

#[derive(serde::Deserialize)]
struct TomlFile {
    format: Vec<TomlFormat>,
    layout: Vec<TomlLayout>,
}

#[derive(serde::Deserialize)]
struct TomlFormat {
    name: String,
    length: u8,
    select_mask: u32,
    select_value: u32,
    slots: Vec<TomlSlot>,
}

#[derive(serde::Deserialize)]
struct TomlSlot {
    name: String,
    id: u8,
    width: u8,
    placements: u16,
    #[serde(default)]
    bits: Vec<i16>,
}

#[derive(serde::Deserialize)]
struct TomlLayout {
    format: String,
    own: Vec<String>,
    rest: String,
}

fn hex(text: &str) -> u128 {
    u128::from_str_radix(text.trim_start_matches("0x"), 16).expect("hexadecimal number in a table")
}

fn records(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).filter(|line| !line.is_empty()).map(|line| line.split(',').collect())
}

fn fields(text: &'static str, map: &dyn Fn(usize) -> Option<u8>) -> Vec<Field> {
    text.split(';').filter(|part| !part.is_empty()).map(|part| Field::parse(part, map)).collect()
}

fn status(text: &str) -> Status {
    match text {
        "INFERRED" => Status::Inferred,
        "FIXED" => Status::Fixed,
        "PARTIAL" => Status::Partial,
        "GUESS" => Status::Guess,
        "OPEN" => Status::Open,
        _ => Status::Known,
    }
}

fn load() -> Tables {
    let file: TomlFile = toml::from_str(include_str!("tables/formats.toml")).expect("format table");
    let mut formats: Vec<Format> = Vec::new();
    for (index, f) in file.format.into_iter().enumerate() {
        let all = if f.length == 16 { u128::MAX } else { (1u128 << (u32::from(f.length) * 8)) - 1 };
        let scalar = f.length < 8;
        let layout = file.layout.iter().find(|l| l.format == f.name);
        let mut slots: Vec<Slot> = f
            .slots
            .into_iter()
            .map(|s| Slot {
                name: Box::leak(s.name.into_boxed_str()),
                id: s.id,
                width: s.width,
                placements: s.placements,
                scatter: s.bits.iter().map(|&b| u8::try_from(b).ok()).collect(),
                own: if scalar { all } else { 0 },
                rows: Vec::new(),
            })
            .collect();
        let mut rest_value = 0;
        if let Some(layout) = layout {
            rest_value = hex(&layout.rest);
            for (slot, own) in slots.iter_mut().zip(&layout.own) {
                slot.own = hex(own);
            }
        }
        let owned = slots.iter().fold(0, |all, slot| all | slot.own);
        formats.push(Format {
            id: FormatId(index as u8),
            length: f.length,
            select_mask: f.select_mask,
            select_value: f.select_value,
            slots,
            known: scalar || layout.is_some(),
            rest_mask: all & !owned,
            rest_value,
            whole: Vec::new(),
        });
    }
    for record in records(include_str!("tables/scalar.csv")) {
        let mask = hex(record[2]);
        let value = hex(record[3]);
        let index = if record[1] == "3" {
            0
        } else if value & 0xc == 8 {
            1
        } else {
            2
        };
        let row = Row {
            mnemonic: record[0],
            format: FormatId(index),
            slot: 0,
            mask,
            value,
            fields: fields(record[4], &|bit| Some(bit as u8)),
            status: Status::Known,
            page: record[5],
        };
        formats[usize::from(index)].slots[0].rows.push(row);
    }
    for table in SLOT_TABLES {
        for record in records(table) {
            let id = FormatId::by_name(record[1]).expect("format name");
            let format = &mut formats[usize::from(id.0)];
            let at = format.slots.iter().position(|s| s.name == record[2]).expect("slot name");
            if let Some(row) = slot_row(&record, id, at as u8, &format.slots[at]) {
                format.slots[at].rows.push(row);
            }
        }
    }
    load_whole(&mut formats);
    let templates = records(include_str!("tables/templates.csv"))
        .map(|r| Template {
            mnemonic: r[0],
            format: r[1],
            slot: r[2],
            word: hex(r[3]) as u32,
            page: r[4],
        })
        .collect();
    let by_name = index_names(&formats);
    Tables { formats, templates, by_name }
}

/// A row in bundle bits, or `None` if the word needs a bit whose place is not known.
fn slot_row(record: &[&'static str], format: FormatId, slot: u8, owner: &Slot) -> Option<Row> {
    let (mask, value) = (hex(record[4]), hex(record[5]));
    let bundle = record[3] == "bundle";
    let map = |bit: usize| -> Option<u8> {
        if bundle { u8::try_from(bit).ok() } else { owner.scatter.get(bit).copied().flatten() }
    };
    let mut row = Row {
        mnemonic: record[0],
        format,
        slot,
        mask: 0,
        value: 0,
        fields: fields(record[6], &map),
        status: status(record[7]),
        page: record[8],
    };
    for bit in (0..128usize).filter(|&bit| mask >> bit & 1 != 0) {
        let set = value >> bit & 1;
        match map(bit) {
            Some(at) => {
                row.mask |= 1 << at;
                row.value |= set << at;
            }
            None if set != 0 => return None,
            None => {}
        }
    }
    // Bits of the slot that neither the opcode nor a field mentions are zero in every template.
    let covered = row.fields.iter().fold(row.mask, |all, field| all | field.mask());
    row.mask |= owner.own & !covered;
    Some(row)
}

fn load_whole(formats: &mut [Format]) {
    for record in records(include_str!("tables/whole.csv")) {
        let format = FormatId::by_name(record[0]).expect("format name");
        let rows = record[3..record.len() - 1]
            .iter()
            .enumerate()
            .map(|(slot, text)| {
                let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
                Row {
                    mnemonic,
                    format,
                    slot: slot as u8,
                    mask: 0,
                    value: 0,
                    fields: fields(operands, &|bit| Some(bit as u8)),
                    status: Status::Fixed,
                    page: record[record.len() - 1],
                }
            })
            .collect();
        formats[usize::from(format.0)].whole.push(Whole {
            mask: hex(record[1]),
            value: hex(record[2]),
            rows,
        });
    }
}

fn index_names(formats: &[Format]) -> HashMap<&'static str, Vec<Place>> {
    let mut by_name: HashMap<&'static str, Vec<Place>> = HashMap::new();
    for (f, format) in formats.iter().enumerate() {
        for (s, slot) in format.slots.iter().enumerate() {
            for (r, row) in slot.rows.iter().enumerate() {
                by_name.entry(row.mnemonic).or_default().push(Place {
                    format: f as u8,
                    slot: s as u8,
                    row: r as u16,
                });
            }
        }
    }
    for places in by_name.values_mut() {
        places.sort_by_key(|p| {
            let format = &formats[usize::from(p.format)];
            let row = &format.slots[usize::from(p.slot)].rows[usize::from(p.row)];
            (format.length, row.status == Status::Fixed, row.status.is_private(), p.slot)
        });
    }
    by_name
}

impl Row {
    /// Whether every operand can take every value of its range.
    pub fn has_frozen_bits(&self) -> bool {
        self.fields.iter().any(|f| f.bits.iter().any(|b| matches!(b, Bit::Fixed(_))))
    }
}

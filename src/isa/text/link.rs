//! Which operand fields belong together: the dtype of a tensor, the form of an immediate.

use crate::isa::{FieldDef, FieldType, StructDef};

/// Part of a dtype field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole byte.
    Whole,
    /// Low nibble of a pair.
    Low,
    /// High nibble of a pair.
    High,
}

impl Part {
    pub(super) fn get(self, byte: u8) -> u8 {
        match self {
            Part::Whole => byte,
            Part::Low => byte & 15,
            Part::High => byte >> 4,
        }
    }

    /// `byte` with this part replaced, if `code` fits.
    pub(super) fn with(self, byte: u8, code: u8) -> Option<u8> {
        match self {
            Part::Whole => Some(code),
            Part::Low => (code < 16).then_some(byte & 0xf0 | code),
            Part::High => (code < 16).then_some(byte & 0x0f | code << 4),
        }
    }
}

/// For each tensor operand the fields that may hold its dtype, best first.
const TENSOR_DTYPES: &[(&str, &[(&str, Part)])] = &[
    (
        "src",
        &[
            ("in_dtype", Part::Whole),
            ("in_out_dtype", Part::Low),
            ("in_bias_dtype", Part::Low),
            ("in_imm_dtype", Part::Low),
            ("dtype", Part::Whole),
        ],
    ),
    ("src0", &[("in0_in1_dtype", Part::Low), ("in_dtype", Part::Whole), ("dtype", Part::Whole)]),
    ("src1", &[("in0_in1_dtype", Part::High)]),
    ("dst", &[("out_dtype", Part::Whole), ("in_out_dtype", Part::High), ("dtype", Part::Whole)]),
    ("dst0", &[("out0_out1_dtype", Part::Low)]),
    ("dst1", &[("out0_out1_dtype", Part::High)]),
    ("pred", &[("pred_dtype", Part::Whole)]),
    ("prev_pass", &[("out_dtype", Part::Whole)]),
];

/// The field that holds the dtype of tensor operand `name`.
pub(super) fn dtype_of(def: &StructDef, name: &str) -> Option<(&'static FieldDef, Part)> {
    let (_, candidates) = TENSOR_DTYPES.iter().find(|t| t.0 == name)?;
    candidates.iter().find_map(|(field, part)| {
        let field = def.field(field)?;
        let fits = match field.ty {
            FieldType::DtypePair => *part != Part::Whole,
            FieldType::Dtype => *part == Part::Whole,
            FieldType::Enum(def) => *part == Part::Whole && def.name.ends_with("DTYPE"),
            _ => false,
        };
        (fits && field.size == 1).then_some((field, *part))
    })
}

/// The nibbles of a dtype field that tensor operands print, as (low, high).
pub(super) fn printed_by_tensors(def: &StructDef, field: &FieldDef) -> (bool, bool) {
    let mut said = (false, false);
    for (tensor, _) in TENSOR_DTYPES {
        if def.field(tensor).is_none() {
            continue;
        }
        if let Some((found, part)) = dtype_of(def, tensor)
            && found.offset == field.offset
        {
            said.0 |= part != Part::High;
            said.1 |= part != Part::Low;
        }
    }
    said
}

/// How the form byte of an immediate counts (wiki: firmware/kernels/activate-pwl).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImmediateForm {
    /// Code of a value in the word.
    pub inline: u8,
    /// Code of an on-chip address.
    pub pointer: u8,
    /// Code of a register that holds the address.
    pub register: u8,
}

/// The field that says what form immediate `name` has.
pub(super) fn immediate_form(
    def: &StructDef,
    name: &str,
) -> Option<(&'static FieldDef, ImmediateForm)> {
    let stem = name.strip_suffix("_value").unwrap_or(name);
    let field = ["_src", "_src_n", "_is_ptr"]
        .iter()
        .find_map(|suffix| def.field(&format!("{stem}{suffix}")))?;
    let FieldType::Enum(kind) = field.ty else { return None };
    let form = match kind.name {
        "IMM_SRC" => ImmediateForm { inline: 0, pointer: 1, register: 2 },
        "IMM_SRC_N" => ImmediateForm { inline: 1, pointer: 0, register: 2 },
        _ => return None,
    };
    Some((field, form))
}

/// Short names that the profiler and people use for fields.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("rows", "num_active_rows"),
    ("cols", "num_active_cols"),
    ("channels", "num_active_channels"),
    ("acc_flags", "psum_accumulate_flags"),
    ("block_id", "block_id_or_count"),
];

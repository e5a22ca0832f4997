//! Vision-Q7 value semantics against the transcribed vectors, the independent Python model's vectors and
//! hashes, and the list of mnemonics that must execute.
//!
//! Everything goes through the public operation table, so that operand order, write-back and flags are
//! tested together with the arithmetic. `tools/oracle/q7_values.py` regenerates what it owns under
//! `tests/golden/q7/`.

#[path = "q7_values/golden.rs"]
mod golden;
#[path = "q7_values/model.rs"]
mod model;
#[path = "q7_values/speed.rs"]
mod speed;

use tpbemu::q7::ops::{self, OpDef, OpOut, SlotOperands};
use tpbemu::q7::regs::{RegFile, Vec512};

/// Registers that the tests use for each operand role, far from register 0 on purpose.
const VT: u32 = 17;
const VU: u32 = 18;
const SOURCES: [u32; 3] = [9, 22, 30];
const VBT: u32 = 5;
const PREDICATES: [u32; 2] = [11, 3];

/// One operation on a register file of its own.
pub struct Bench {
    /// Registers before, then after.
    pub regs: RegFile,
    /// Outputs of the last run.
    pub out: OpOut,
}

/// What an operation is fed with, by role.
#[derive(Clone, Default)]
pub struct Inputs {
    /// Vector sources in assembly order.
    pub vecs: Vec<Vec512>,
    /// vbool sources in assembly order.
    pub preds: Vec<u64>,
    /// AR and immediate sources in assembly order.
    pub scalars: Vec<u32>,
    /// Old contents of the vector destinations.
    pub old: Vec512,
    /// Old contents of the vbool destination.
    pub old_vbool: u64,
    /// Rounding mode.
    pub mode: u32,
    /// Mask all flags, which lets operations take their shortcuts.
    pub gated: bool,
}

impl Bench {
    /// Runs `def` once on fresh registers.
    pub fn run(def: &OpDef, inputs: &Inputs) -> Bench {
        use ops::{Access, File};
        let mut regs = RegFile { fcr: inputs.mode, fsr_gated: inputs.gated, ..RegFile::default() };
        let mut operands = SlotOperands::default();
        let (mut vecs, mut preds, mut scalars) =
            (inputs.vecs.iter(), inputs.preds.iter(), inputs.scalars.iter());
        let (mut v, mut p) = (SOURCES.iter(), PREDICATES.iter());
        let mut destinations = [VT, VU].into_iter();
        for (i, operand) in def.operands.iter().enumerate() {
            operands.v[i] = match (operand.file, operand.access) {
                (File::Vec, Access::R) => {
                    let n = *v.next().unwrap();
                    regs.vec[n as usize] =
                        *vecs.next().unwrap_or_else(|| panic!("{}: too few vectors", def.mnemonic));
                    n
                }
                (File::Vec, _) => {
                    let n = destinations.next().unwrap();
                    regs.vec[n as usize] = inputs.old;
                    n
                }
                (File::Vbool, Access::R) => {
                    let n = *p.next().unwrap();
                    regs.vbool[n as usize] = *preds.next().unwrap();
                    n
                }
                (File::Vbool, _) => {
                    regs.vbool[VBT as usize] = inputs.old_vbool;
                    VBT
                }
                (File::Ar | File::Br, Access::W) => 7,
                (File::Ar | File::Br | File::Imm(_), _) => *scalars.next().unwrap(),
                // The accumulator is made of the three vectors.
                (File::Wvec, Access::R) => {
                    for (bytes, v) in regs.wvec[2].bytes_mut().chunks_mut(64).zip(&inputs.vecs) {
                        bytes.copy_from_slice(v.bytes());
                    }
                    2
                }
                (File::Pr | File::Wvec, _) => 0,
            };
        }
        let before = regs.clone();
        // Stale outputs must not leak into results.
        let mut out = OpOut {
            vec: [Vec512::splat8(0x5a); 2],
            vbool: 0x5a5a,
            flags: 0x1f,
            ..OpOut::default()
        };
        def.exec().unwrap()(&regs, &operands, &mut out);
        assert_eq!(before, regs);
        out.commit(&def.writes, &operands, &mut regs);
        Bench { regs, out }
    }

    /// First vector destination after commit, in assembly order.
    pub fn first(&self) -> Vec512 {
        self.regs.vec[VT as usize]
    }

    /// Second vector destination after commit, in assembly order.
    pub fn second(&self) -> Vec512 {
        self.regs.vec[VU as usize]
    }

    /// vbool destination after commit.
    pub fn vbool(&self) -> u64 {
        self.regs.vbool[VBT as usize]
    }
}

/// The operation of that name.
pub fn op(mnemonic: &str) -> &'static OpDef {
    ops::lookup(mnemonic).unwrap_or_else(|| panic!("{mnemonic} is not in the table"))
}

/// Vector of `bits`-bit lanes, padded with zero.
pub fn lanes(bits: u32, values: &[u32]) -> Vec512 {
    let mut v = Vec512::ZERO;
    for (i, &value) in values.iter().enumerate() {
        match bits {
            8 => v.u8s_mut()[i] = value as u8,
            16 => v.u16s_mut()[i] = value as u16,
            _ => v.u32s_mut()[i] = value,
        }
    }
    v
}

/// The same value in every lane.
pub fn splat(bits: u32, value: u32) -> Vec512 {
    lanes(bits, &vec![value; 512 / bits as usize])
}

/// Lane `i` of a vector of `bits`-bit lanes.
pub fn lane(bits: u32, v: &Vec512, i: usize) -> u32 {
    match bits {
        8 => v.u8s()[i].into(),
        16 => v.u16s()[i].into(),
        _ => v.u32s()[i],
    }
}

/// Every wanted mnemonic executes, or names the fact that no source states.
#[test]
fn every_wanted_mnemonic_executes_or_names_the_missing_fact() {
    let mut reader = csv::Reader::from_path("tests/golden/q7/ops_wanted.csv").unwrap();
    let (mut executable, mut missing) = (0, Vec::new());
    for record in reader.records() {
        let record = record.unwrap();
        let def = op(&record[0]);
        match def.semantics {
            ops::Semantics::Exec(_) => executable += 1,
            ops::Semantics::Missing { fact, page } => {
                assert!(fact.len() > 20 && page.starts_with("wiki: "), "{}", &record[0]);
                let error = def.exec().unwrap_err();
                assert_eq!(error.class, tpbemu::error::ErrorClass::MissingSpecification);
                assert!(error.message.contains(def.mnemonic));
                missing.push(record[0].to_string());
            }
        }
    }
    println!("{executable} of {} wanted mnemonics execute", executable + missing.len());
    println!("missing specification: {}", missing.join(" "));
    assert_eq!(executable + missing.len(), 321);
    assert!(missing.len() <= 10, "{missing:?}");
}

/// Mnemonics are unique, and the table's own promises about destinations hold.
#[test]
fn the_table_is_consistent() {
    let mut seen = std::collections::BTreeSet::new();
    for def in ops::all() {
        assert!(seen.insert(def.mnemonic), "{} twice", def.mnemonic);
        assert!(def.operands.len() <= 6, "{}", def.mnemonic);
        if def.mnemonic.ends_with('t')
            && def.mnemonic.starts_with("ivp_")
            && def.writes.vec != ops::NONE
        {
            let last = def.operands.last().unwrap();
            assert_eq!(last.file, ops::File::Vbool, "{} has no predicate", def.mnemonic);
        }
    }
    println!("{} mnemonics in the table", seen.len());
}

/// A predicated form equals its base form where the predicate is set and keeps the rest.
#[test]
fn predicated_forms_merge() {
    let mut checked = 0;
    for def in ops::all().filter(|d| d.exec().is_ok()) {
        let Some(stem) = def.mnemonic.strip_suffix('t') else { continue };
        let Some(base) = ops::lookup(stem) else { continue };
        let merges = def.writes.vec == 0 && def.operands.len() == base.operands.len() + 1;
        if !merges {
            continue;
        }
        // Reductions use the predicate for membership instead.
        if ["ivp_radd", "ivp_rmax", "ivp_rmin", "ivp_rb"]
            .iter()
            .any(|p| def.mnemonic.starts_with(p))
        {
            continue;
        }
        let field = if def.mnemonic.contains("2nx8") {
            1
        } else if def.mnemonic.contains("n_2x") || def.mnemonic.contains("f32") {
            4
        } else {
            2
        };
        let mut seed = 7u32;
        let mut random = || {
            let mut v = Vec512::ZERO;
            for lane in v.u32s_mut() {
                seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
                *lane = seed ^ seed >> 15;
            }
            v
        };
        let inputs = Inputs {
            vecs: vec![random(), random(), random()],
            preds: vec![0x0123_4567_89ab_cdef],
            scalars: vec![5],
            old: random(),
            ..Inputs::default()
        };
        let (plain, merged) = (Bench::run(base, &inputs), Bench::run(def, &inputs));
        for i in 0..64 {
            let on = inputs.preds[0] >> (i / field * field) & 1 == 1;
            let want = if on { plain.first().u8s()[i] } else { inputs.old.u8s()[i] };
            assert_eq!(merged.first().u8s()[i], want, "{} byte {i}", def.mnemonic);
            if def.writes.vec2 != ops::NONE {
                let want = if on { plain.second().u8s()[i] } else { inputs.old.u8s()[i] };
                assert_eq!(
                    merged.second().u8s()[i],
                    want,
                    "{} byte {i} of the second result",
                    def.mnemonic
                );
            }
        }
        checked += 1;
    }
    println!("{checked} predicated forms checked against their base forms");
    assert!(checked >= 80, "{checked}");
}

/// Wherever the codec knows an operation's operands, they are the operation's own, in the same order.
///
/// Tolerated: placeholder names (`o0`), the bin counter of the histogram that its page lists as an input
/// only, and the one-bit logic whose page draws it with the fields of the vbool forms.
#[test]
fn encodings_and_operations_name_the_same_operands() {
    use tpbemu::q7::codec::field::{Access, File};
    use tpbemu::q7::codec::table::tables;
    let one_bit = ["ivp_andnotb1", "ivp_ornotb1"];
    let (mut rows, mut mnemonics, mut wrong) = (0, std::collections::BTreeSet::new(), Vec::new());
    for mnemonic in tables().mnemonics().filter(|m| !one_bit.contains(m)) {
        let Some(def) = ops::lookup(mnemonic) else { continue };
        for &place in tables().places(mnemonic) {
            let row = tables().row(place);
            let mut same = row.fields.len() == def.operands.len();
            for (field, operand) in row.fields.iter().zip(def.operands) {
                let file = match operand.file {
                    ops::File::Vec => File::Vec,
                    ops::File::Vbool => File::VBool,
                    ops::File::Ar => File::Ar,
                    ops::File::Br => File::Br,
                    ops::File::Pr => File::Pr,
                    ops::File::Wvec => File::WVec,
                    ops::File::Imm(_) => File::Imm,
                };
                let unnamed = file == File::Imm
                    || field.name.strip_prefix('o').is_some_and(|n| n.parse::<u8>().is_ok());
                let counter = mnemonic.starts_with("ivp_count") && field.name == "ars";
                same &= field.file == file && (unnamed || field.name == operand.name);
                same &=
                    counter || (field.access == Access::Read) == (operand.access == ops::Access::R);
            }
            rows += 1;
            mnemonics.insert(mnemonic);
            if !same {
                wrong.push(format!("{mnemonic} {}: {:?}", row.format.name(), row.fields));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {rows}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{rows} encodings of {} operations agree on their operands", mnemonics.len());
    assert!(mnemonics.len() > 150);
}

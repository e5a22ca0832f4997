//! Random legal words of any opcode: from the plain word by changes that the validator accepts.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tpbemu::isa::validate::{queue_legal, validate};
use tpbemu::isa::{
    Addr4, Class, Engine, FieldDef, FieldType, Generation, Geometry, Inst, OpcodeDef, Pattern,
    PatternKind, enum_by_name, opcode_by_name,
};
use tpbemu::machine::coverage::{self, Coverage};

use super::{assign, base, lines};

/// A source of choices.
pub struct Dice(Pcg64Mcg);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Pcg64Mcg::new((u128::from(seed) << 1) | 1))
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out = vec![0; n];
        self.0.fill_bytes(&mut out);
        out
    }
}

/// One opcode of one generation; `spec` tells the forms of EXTENDED_INST apart.
#[derive(Clone, Copy)]
pub struct Subject {
    pub generation: Generation,
    pub def: &'static OpcodeDef,
    pub spec: u8,
}

impl Subject {
    /// Name, with the form.
    pub fn name(&self) -> String {
        match self.def.struct_names.len() {
            0 | 1 => self.def.name.to_string(),
            _ => format!("{}/{}", self.def.name, self.spec),
        }
    }

    /// Whether it runs on a data path and not in the sequencer.
    pub fn on_data_path(&self) -> bool {
        tpbemu::engine::lookup(self.generation, self.def.byte, self.def.name).is_some()
    }

    /// Streams that may carry it.
    pub fn engines(&self) -> Vec<Engine> {
        Engine::ALL.into_iter().filter(|e| queue_legal(self.def, self.generation, *e)).collect()
    }

    /// The plain word with what it needs to run.
    pub fn start(&self) -> Inst {
        let mut inst = base(self.generation, self.def.byte, self.spec);
        let g = self.generation;
        let keys = [self.def.name.to_string(), format!("{}@{g}", self.def.name), self.name()];
        for (_, line) in lines("run") {
            if let Some((name, text)) = line.split_once(' ')
                && (name == keys[0] || name == keys[1] || name == keys[2] && keys[2] != keys[0])
            {
                assign(&mut inst, text);
            }
        }
        inst
    }

    /// A random legal word for the stream of `engine`.
    pub fn word(&self, dice: &mut Dice, engine: Engine, changes: u64) -> Inst {
        let mut inst = self.start();
        for _ in 0..changes {
            let mut next = inst;
            for _ in 0..=dice.below(2) {
                change(dice, &mut next);
            }
            if validate(&next, engine, false).is_ok() {
                inst = next;
            }
        }
        inst
    }

    /// The words that must run before `inst`, with its values in the fields of the same names.
    pub fn before(&self, inst: &Inst, engine: Engine) -> Vec<Inst> {
        let mut out = Vec::new();
        for (n, line) in lines("before") {
            let mut words = line.splitn(3, ' ');
            if words.next() != Some(self.def.name) {
                continue;
            }
            let other = words.next().unwrap_or_else(|| panic!("line {n}"));
            let Some(def) = opcode_by_name(self.generation, other) else { continue };
            // a word that must run twice runs first as it is
            if other == self.def.name {
                out.push(self.start());
                continue;
            }
            let subject = Subject { generation: self.generation, def, spec: 0 };
            let mut first = subject.start();
            assign(&mut first, words.next().unwrap_or(""));
            let plain = first;
            for field in first.layout().unwrap().payload() {
                let copied = !matches!(
                    field.ty_in(first.form()),
                    FieldType::Pattern(_) | FieldType::Reserved | FieldType::Opaque
                );
                if copied
                    && let Some(from) = inst.by_name(field.name)
                    && from.size == field.size
                {
                    let at = usize::from(field.offset);
                    let raw = inst.raw(&from);
                    first.bytes[at..at + raw.len()].copy_from_slice(raw);
                    if validate(&first, engine, false).is_err() {
                        let old = plain.raw(field);
                        first.bytes[at..at + old.len()].copy_from_slice(old);
                    }
                }
            }
            // as many weights as the matmul has columns
            if let Some(cols) = first.by_name("num_active_cols")
                && other == "LDWEIGHTS"
            {
                let n = u16::from(first.raw(&cols)[0]);
                shape(&mut first, |f| f == "src", &[n]);
            }
            out.push(first);
        }
        out
    }
}

/// Every opcode that executes, in every generation that has it.
pub fn executable() -> Vec<Subject> {
    let mut out = Vec::new();
    for generation in Generation::ALL {
        for (def, state) in coverage::list(generation) {
            if state != Coverage::Done || def.class == Class::Simulator {
                continue;
            }
            for spec in 0..10 {
                let mut probe = Inst::empty(generation, def.byte);
                probe.bytes[12] = spec;
                if (spec == 0 || def.struct_names.len() > 1) && probe.layout().is_ok() {
                    out.push(Subject { generation, def, spec });
                }
            }
        }
    }
    out
}

fn fields(inst: &Inst) -> Vec<&'static FieldDef> {
    inst.layout().map_or_else(|_| Vec::new(), |l| l.payload().collect())
}

fn put(inst: &mut Inst, field: &FieldDef, value: u64) {
    let at = usize::from(field.offset);
    let n = usize::from(field.size).min(8);
    inst.bytes[at..at + n].copy_from_slice(&value.to_le_bytes()[..n]);
}

fn get(inst: &Inst, field: &FieldDef) -> u64 {
    let raw = inst.raw(field);
    raw.iter().take(8).rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

/// The plain patterns of a word.
pub fn patterns(inst: &Inst) -> Vec<(&'static FieldDef, PatternKind, Pattern)> {
    fields(inst)
        .into_iter()
        .filter_map(|f| match f.ty_in(inst.form()) {
            FieldType::Pattern(kind) => Some((f, kind, inst.pattern_of(f).ok()?)),
            _ => None,
        })
        .collect()
}

pub fn put_pattern(inst: &mut Inst, field: &FieldDef, kind: PatternKind, pattern: &Pattern) {
    let (at, rules) = (usize::from(field.offset), inst.pattern_rules());
    pattern.encode(kind, rules, &mut inst.bytes[at..at + kind.size()]).unwrap();
}

/// `counts` in `n` dimensions: the outer ones together if there are too few.
fn fit(counts: &[u16], n: usize) -> Vec<u16> {
    let mut out = counts.to_vec();
    while out.len() > n {
        let last = out.pop().unwrap();
        *out.last_mut().unwrap() *= last;
    }
    out.resize(n, 1);
    out
}

fn dense(counts: &[u16]) -> Vec<(i16, u16)> {
    let mut step = 1i32;
    counts
        .iter()
        .map(|&n| {
            let s = step as i16;
            step *= i32::from(n);
            (s, n)
        })
        .collect()
}

fn shape(inst: &mut Inst, which: impl Fn(&str) -> bool, counts: &[u16]) {
    for (field, kind, pattern) in patterns(inst) {
        if !which(field.name) {
            continue;
        }
        let dims = dense(&fit(counts, kind.dims()));
        let new = match pattern {
            Pattern::Tensor(mut t) => {
                t.dims = dims.into();
                Pattern::Tensor(t)
            }
            Pattern::Data { base, dims: old } => Pattern::Data {
                base,
                dims: dims.iter().zip(&old).map(|(n, o)| (o.0, n.1)).collect(),
            },
            _ => continue,
        };
        put_pattern(inst, field, kind, &new);
    }
}

fn counts(dice: &mut Dice) -> Vec<u16> {
    match dice.below(4) {
        0 => vec![1 + dice.below(200) as u16],
        1 => vec![dice.pick(&[1, 2, 4, 8, 16, 32, 64, 96, 128])],
        _ => (0..1 + dice.below(4)).map(|_| 1 + dice.below(6) as u16).collect(),
    }
}

/// One change; it may make the word illegal.
fn change(dice: &mut Dice, inst: &mut Inst) {
    match dice.below(12) {
        0 => dtypes(dice, inst),
        1 | 2 => {
            let counts = counts(dice);
            shape(inst, |_| true, &counts);
        }
        3 => {
            // a source of n elements, and the results that go with it
            let n = dice.pick(&[1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 31, 32, 33, 48, 60, 64, 96, 128]);
            shape(inst, |f| !f.contains("dst"), &[n]);
            let m = dice.pick(&[n, n, n + 1, 2 * n, n / 2, n / 4, 4 * n, n / 8, 1, 2, 3, 6, 8]);
            let two = dice.pick(&[vec![m.max(1)], vec![2, n], vec![n, 1, 2]].each_ref()).clone();
            shape(inst, |f| f.contains("dst"), &two);
        }
        4 => steps(dice, inst),
        5 => {
            let list = patterns(inst);
            if !list.is_empty() {
                let name = list[dice.below(list.len() as u64) as usize].0.name;
                let counts = counts(dice);
                shape(inst, |f| f == name, &counts);
            }
        }
        6 | 7 => addresses(dice, inst),
        8 => transfer(dice, inst),
        _ => scalar(dice, inst),
    }
}

/// One type everywhere, or one for sources and one for results.
fn dtypes(dice: &mut Dice, inst: &mut Inst) {
    let codes: Vec<u64> =
        enum_by_name("DTYPE").unwrap().values.iter().map(|(v, _)| u64::from(*v)).collect();
    let (from, to) = (dice.pick(&codes), dice.pick(&codes));
    let to = if dice.one_in(3) { to } else { from };
    for field in fields(inst) {
        let out = field.name.contains("out") || field.name.contains("dst");
        match field.ty_in(inst.form()) {
            FieldType::Dtype => put(inst, field, if out { to } else { from }),
            FieldType::DtypePair => {
                let high = if field.name == "in_out_dtype" { to } else { from };
                let low = if field.name.starts_with("out") { to } else { from };
                put(inst, field, low & 15 | (high & 15) << 4);
            }
            _ => {}
        }
    }
}

/// Other steps for one pattern: some order of the dimensions, gaps, a reversal, or anything.
fn steps(dice: &mut Dice, inst: &mut Inst) {
    let list: Vec<_> =
        patterns(inst).into_iter().filter(|p| matches!(p.2, Pattern::Tensor(_))).collect();
    if list.is_empty() {
        return;
    }
    let (field, kind, pattern) = &list[dice.below(list.len() as u64) as usize];
    let Pattern::Tensor(mut t) = pattern.clone() else { return };
    let wild = dice.one_in(4);
    let mut order: Vec<usize> = (0..t.dims.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, dice.below(i as u64 + 1) as usize);
    }
    let mut step = 1i64;
    for d in order {
        step *= dice.pick(&[1, 1, 2, 3]);
        t.dims[d].0 = if wild { dice.below(9) as i16 - 4 } else { step as i16 };
        step *= i64::from(t.dims[d].1);
    }
    if step > 4000 {
        return;
    }
    put_pattern(inst, field, *kind, &Pattern::Tensor(t));
}

/// Another start for all patterns and the other on-chip addresses, and another number of channels.
fn addresses(dice: &mut Dice, inst: &mut Inst) {
    let g = Geometry::of(inst.generation);
    if let Some(field) = inst.by_name("num_active_channels")
        && dice.one_in(2)
    {
        put(inst, &field, dice.pick(&[1, 3, 8, 16, 31, 32, 33, 64, 100, 128]));
    }
    // on v5 the PSUM window covers the addresses of SBUF partitions from 32 on
    let v5 = inst.generation == Generation::V5;
    let quadrant = |dice: &mut Dice| if v5 { 0 } else { 32 * dice.below(4) as u32 };
    let first = quadrant(dice);
    let psum = !v5 && dice.one_in(5);
    for (i, (field, kind, pattern)) in patterns(inst).into_iter().enumerate() {
        let Pattern::Tensor(mut t) = pattern else { continue };
        let first = if dice.one_in(4) { quadrant(dice) } else { first };
        let byte = 1024 * i as u32 + 4 * dice.below(64) as u32;
        t.addr = Addr4::Imm(if g.in_psum(t.addr.imm().unwrap_or(0)) || psum && dice.one_in(2) {
            g.psum_base + first * g.psum_stride + byte % 2048
        } else {
            first * g.sbuf_stride + byte + 1024 * dice.below(4) as u32
        });
        put_pattern(inst, field, kind, &Pattern::Tensor(t));
    }
}

/// Shapes of both sides of a DMA transfer.
fn transfer(dice: &mut Dice, inst: &mut Inst) {
    let (a, b) = (1 + dice.below(6), 1 + dice.below(6));
    let size = dice.pick(&[1, 2, 4, 8, 16, 32]);
    for side in ["src", "dst"] {
        let set = |inst: &mut Inst, name: &str, value: u64| {
            if let Some(f) = inst.by_name(&format!("{side}_{name}")) {
                put(inst, &f, value);
            }
        };
        let (x, y) = if dice.one_in(3) { (b, a) } else { (a, b) };
        set(inst, "num_elem", x | y << 16);
        set(inst, "elem_size", size);
        let gap = dice.below(3);
        set(inst, "step_elem", (1 + gap) | ((1 + gap) * x) << 32);
        if let Some(f) = inst.by_name(&format!("{side}_start_addr"))
            && dice.one_in(2)
            && f.size == 8
        {
            let region = dice.pick(&[0x10_0000_0000, 0x20_0000_0000]);
            let at = if side == "src" { 0x1000 } else { 0x4000 };
            put(inst, &f, region + at + 16 * dice.below(64));
        }
    }
}

/// Another value for one field that is no pattern.
fn scalar(dice: &mut Dice, inst: &mut Inst) {
    let list: Vec<&FieldDef> = fields(inst)
        .into_iter()
        .filter(|f| !matches!(f.ty_in(inst.form()), FieldType::Pattern(_) | FieldType::Reserved))
        .collect();
    if list.is_empty() {
        return;
    }
    let field = dice.pick(&list);
    let ty = field.ty_in(inst.form());
    if let FieldType::Array(elem, n) = ty {
        let width = usize::from(field.size / n);
        let i = dice.below(n.into()) as usize;
        let value = value(dice, *elem, 0).to_le_bytes();
        let at = usize::from(field.offset) + i * width;
        inst.bytes[at..at + width.min(8)].copy_from_slice(&value[..width.min(8)]);
        return;
    }
    let old = get(inst, field);
    if field.size > 8 {
        let at = usize::from(field.offset) + dice.below(field.size.into()) as usize;
        inst.bytes[at] = dice.below(64) as u8;
        return;
    }
    let new = value(dice, ty, old);
    put(inst, field, new);
}

fn value(dice: &mut Dice, ty: FieldType, old: u64) -> u64 {
    let float = |dice: &mut Dice| {
        let x = dice.pick(&[0.0f32, 1.0, -1.0, 0.5, 3.25, -7.0, 1e30, f32::NAN, f32::INFINITY]);
        u64::from(x.to_bits())
    };
    match ty {
        FieldType::Enum(def) => u64::from(dice.pick(def.values).0),
        FieldType::Dtype => u64::from(dice.pick(enum_by_name("DTYPE").unwrap().values).0),
        FieldType::DtypePair => dice.below(256),
        FieldType::Bool => dice.below(2),
        FieldType::Bits(def) if !def.fields.is_empty() => {
            let group = dice.pick(&def.fields.iter().collect::<Vec<_>>());
            group.with(old, dice.below(1 << group.width.min(16)))
        }
        FieldType::F32 => float(dice),
        FieldType::Imm | FieldType::Imm64 => match dice.below(4) {
            0 => float(dice),
            1 => dice.below(64),
            2 => 4 * dice.below(256),
            _ => dice.below(1 << 32),
        },
        FieldType::Reg => dice.below(64),
        FieldType::Addr4 | FieldType::PartitionOffset => 4 * dice.below(512),
        FieldType::Addr8 | FieldType::NeuronAddr => {
            let region = dice.pick(&[0x10_0000_0000, 0x20_0000_0000, 0x20_0200_0000]);
            region + 64 * dice.below(256)
        }
        _ => match dice.below(6) {
            0 => 0,
            1 => 1,
            2 => 1 << dice.below(10),
            3 => dice.below(256),
            4 => old.wrapping_add(1),
            _ => dice.below(16),
        },
    }
}

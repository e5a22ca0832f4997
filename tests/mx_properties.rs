//! Instructions with block-scaled operands on random shapes, places, directions and scale
//! partitions. Their patterns are no plain tensors, so `opcode_layouts.rs` leaves them.

mod words;

use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, opcode_by_name};
use tpbemu::memory::Space;
use words::random::Dice;

const STRIDE: u32 = 0x4_0000;
const CASES: u64 = 60;

fn word(g: Generation, name: &str, fields: &str) -> Inst {
    let mut inst = Inst::empty(g, opcode_by_name(g, name).unwrap().byte);
    words::assign(&mut inst, fields);
    inst
}

/// Where a block-scaled operand lies: `columns` words in each partition and their scale bytes.
#[derive(Clone, Copy)]
struct Place {
    first: u32,
    data: u32,
    scale: u32,
    lane: u32,
    backwards: bool,
    columns: u32,
    /// Bytes of a word of four elements.
    word: u32,
}

impl Place {
    fn draw(dice: &mut Dice, rows: u32, columns: u32, word: u32, window: u32) -> Place {
        let first = match rows {
            0..=32 => 32 * dice.below(4) as u32,
            33..=64 => 64 * dice.below(2) as u32,
            _ => 0,
        };
        let data = window + 4 * dice.below(16) as u32;
        let scale = window + 1024 + dice.below(64) as u32;
        let lane = 4 * dice.below(4) as u32;
        Place { first, data, scale, lane, backwards: dice.one_in(2), columns, word }
    }

    /// Place of column `c` in walking order.
    fn column(&self, c: u32) -> u32 {
        if self.backwards { self.columns - 1 - c } else { c }
    }

    fn word_at(&self, row: u32, c: u32) -> (u32, u64) {
        (self.first + row, u64::from(self.data + self.word * self.column(c)))
    }

    fn scale_at(&self, group: u32, c: u32) -> (u32, u64) {
        let partition = self.first + group / 4 * 32 + group % 4 + self.lane;
        (partition, u64::from(self.scale + self.column(c)))
    }

    /// The 12 bytes of the pattern.
    fn field(&self, name: &str) -> String {
        let start = self.column(0);
        let data = self.first * STRIDE + self.data + self.word * start;
        let scale = self.first / 32 * 32 * STRIDE + self.scale + start;
        let step = if self.backwards { 255 } else { 1u8 };
        let mut bytes = [data.to_le_bytes(), scale.to_le_bytes()].concat();
        bytes.extend((4 * self.columns as u16).to_le_bytes());
        bytes.extend([step, self.lane as u8]);
        let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
        format!("{name}=1:{}", list.join(","))
    }
}

/// Quantised blocks do not depend on where source, codes and scales lie nor on the direction.
#[test]
fn quantised_blocks_in_two_layouts() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V4, Generation::V4Plus]);
        let rows = 32 * (1 + dice.below(4) as u32);
        let columns = 1 + dice.below(12) as u32;
        let input = dice.pick(&["BFLOAT16", "FP16"]);
        let output = dice.pick(&["FP8_EXP4", "FP8_EXP5"]);
        // finite numbers of many magnitudes, some blocks all zero
        let values: Vec<Vec<[u8; 8]>> = (0..rows)
            .map(|r| {
                (0..columns)
                    .map(|_| {
                        let mut bytes: [u8; 8] = dice.bytes(8).try_into().unwrap();
                        for half in bytes.chunks_mut(2) {
                            half[1] &= 0xB7;
                            if r / 8 % 3 == 2 {
                                half.fill(0);
                            }
                        }
                        bytes
                    })
                    .collect()
            })
            .collect();
        let mut results = Vec::new();
        for _ in 0..2 {
            let to = Place::draw(&mut dice, rows, columns, 4, 8192);
            let from = if rows > 64 { 0 } else { to.first };
            let start = 64 + 8 * dice.below(32) as u32;
            let step = 1 + dice.below(2) as u32;
            let mut bench = Bench::new(g, Engine::Dve);
            for (r, row) in values.iter().enumerate() {
                for (c, four) in row.iter().enumerate() {
                    for (k, two) in four.chunks(4).enumerate() {
                        let at = start + 4 * step * (2 * c as u32 + k as u32);
                        bench.put(Space::Sbuf, from + r as u32, at.into(), two);
                    }
                }
            }
            let inst = word(
                g,
                "QUANTIZE_MX",
                &format!(
                    "num_active_channels={rows} in_dtype={input} out_dtype={output} \
                     src=@{:#x}:{step}*{} {}",
                    from * STRIDE + start,
                    2 * columns,
                    to.field("dst"),
                ),
            );
            tpbemu::isa::validate(&inst, Engine::Dve, true).unwrap_or_else(|e| panic!("{e}"));
            bench.run(&inst).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{inst:?}"));
            let mut result = Vec::new();
            for c in 0..columns {
                for r in 0..rows {
                    let (p, at) = to.word_at(r, c);
                    result.extend(bench.get(Space::Sbuf, p, at, 4));
                }
                for group in 0..rows / 8 {
                    let (p, at) = to.scale_at(group, c);
                    result.extend(bench.get(Space::Sbuf, p, at, 1));
                }
            }
            results.push(result);
        }
        assert!(results[0].iter().any(|b| *b != 0));
        assert_eq!(results[0], results[1], "seed {seed}");
    }
}

/// Value of an element code.
fn decode(dtype: &str, code: u8) -> f32 {
    let (mantissa, bits) = match dtype {
        "FP8_EXP4" => (3, 8),
        "FP8_EXP5" => (2, 8),
        _ => (1, 4),
    };
    let sign = if code >> (bits - 1) & 1 == 1 { -1.0 } else { 1.0 };
    let exponent_bits = bits - 1 - mantissa;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = i32::from(code >> mantissa & ((1 << exponent_bits) - 1));
    let fraction = f32::from(code & ((1 << mantissa) - 1)) / (1 << mantissa) as f32;
    if exponent == 0 {
        sign * fraction * 2f32.powi(1 - bias)
    } else {
        sign * (1.0 + fraction) * 2f32.powi(exponent - bias)
    }
}

/// Finite element codes of `dtype`.
fn code(dice: &mut Dice, dtype: &str) -> u8 {
    let c = dice.bytes(1)[0];
    match dtype {
        "FP8_EXP4" if c & 0x7F == 0x7F => 0x38,
        "FP8_EXP5" if c & 0x7C == 0x7C => 0x3C,
        "FP4_EXP2" => c & 0xF,
        _ => c,
    }
}

/// Products of block-scaled operands: every element times 2^(scale - 127), rows ascending, inside a
/// row element 0 first.
#[test]
fn products_of_scaled_blocks() {
    for seed in 0..CASES {
        let mut dice = Dice::new(seed);
        let g = dice.pick(&[Generation::V4, Generation::V4Plus]);
        let rows = dice.pick(&[32u32, 64, 128]);
        let (cols, n) = (1 + dice.below(10) as u32, 1 + dice.below(12) as u32);
        let four = dice.one_in(3);
        let types = if four {
            ["FP4_EXP2"; 2]
        } else {
            [(); 2].map(|()| dice.pick(&["FP8_EXP4", "FP8_EXP5"]))
        };
        let word_bytes = if four { 2 } else { 4 };
        let mut bench = Bench::new(g, Engine::Pe);
        let first = Place::draw(&mut dice, rows, 1, 4, 0).first;
        let fill = |bench: &mut Bench, dice: &mut Dice, dtype: &str, columns, window| {
            let mut place = Place::draw(dice, rows, columns, word_bytes, window);
            place.first = first;
            let mut values = vec![vec![[0f32; 4]; columns as usize]; rows as usize];
            for c in 0..columns {
                for group in 0..rows / 8 {
                    let scale = 120 + dice.below(16) as u8;
                    let (p, at) = place.scale_at(group, c);
                    bench.put(Space::Sbuf, p, at, &[scale]);
                    for r in 8 * group..8 * group + 8 {
                        let codes = [(); 4].map(|()| code(dice, dtype));
                        let bytes = if four {
                            vec![codes[0] | codes[1] << 4, codes[2] | codes[3] << 4]
                        } else {
                            codes.to_vec()
                        };
                        let (p, at) = place.word_at(r, c);
                        bench.put(Space::Sbuf, p, at, &bytes);
                        let factor = 2f32.powi(i32::from(scale) - 127);
                        values[r as usize][c as usize] = codes.map(|x| decode(dtype, x) * factor);
                    }
                }
            }
            (place, values)
        };
        let (w_place, w) = fill(&mut bench, &mut dice, types[0], cols, 4096);
        let (x_place, x) = fill(&mut bench, &mut dice, types[1], n, 8192);
        let group = match (rows, first) {
            (128, _) => 0xF,
            (64, f) => 3 << (f / 32),
            (_, f) => 1 << (f / 32),
        };
        let tile =
            format!("num_active_rows={rows} num_active_cols={cols} row_grp={group} col_grp=15");
        let load = word(
            g,
            "LDWEIGHTS_MX",
            &format!("{tile} in_dtype={} {}", types[0], w_place.field("src")),
        );
        let product = word(
            g,
            "MATMUL_MX",
            &format!(
                "{tile} in_dtype={} psum_accumulate_flags=3 {} dst=@0x2000040:1*{n}",
                types[1],
                x_place.field("src")
            ),
        );
        for inst in [&load, &product] {
            tpbemu::isa::validate(inst, Engine::Pe, true).unwrap_or_else(|e| panic!("{e}"));
            bench.run(inst).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{inst:?}"));
        }
        for c in 0..cols {
            // the first word that is read goes to the last column
            let from = (cols - 1 - c) as usize;
            let got = bench.get_f32(Space::Psum, c, 64, n as usize);
            for (j, got) in got.iter().enumerate() {
                let mut sum = 0f32;
                for (w, x) in w.iter().zip(&x) {
                    for q in 0..4 {
                        sum += w[from][q] * x[j][q];
                    }
                }
                assert_eq!(got.to_bits(), sum.to_bits(), "seed {seed} column {c} element {j}");
            }
        }
    }
}

//! The activation engine against vectors of `tools/oracle/act.py`, the vendor pages' own vectors,
//! and a naive reference on random shapes.

#[allow(dead_code)]
mod peact_support;

use proptest::prelude::*;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, TensorPattern, f, op, validate};
use tpbemu::memory::Space;
use tpbemu::numeric::ActFunc;

#[test]
fn oracle_vectors() {
    peact_support::run_all(include_str!("golden/act/vectors.json"), Engine::Act);
}

/// Layouts, partitions, PSUM, types, scalar sources and accumulator commands
/// (`tools/oracle/act_sweep.py`).
#[test]
fn oracle_sweep() {
    let text = include_str!("golden/act/sweep.json");
    let cases: Vec<peact_support::Case> = serde_json::from_str(text).unwrap();
    assert!(cases.len() > 250, "{}", cases.len());
    for case in &cases {
        let found = Generation::ALL.into_iter().find(|g| g.to_string() == case.generation);
        let generation = found.unwrap_or_else(|| panic!("{}", case.generation));
        // on v5 the vector engine's stream has these opcodes
        let on = if generation == Generation::V5 { Engine::Dve } else { Engine::Act };
        for instruction in &case.insts {
            let inst = instruction.encode(generation);
            validate(&inst, on, false).unwrap_or_else(|e| panic!("{}: {inst:?}: {e}", case.name));
        }
    }
    peact_support::run_all(text, Engine::Act);
}

/// What the pages print about functions and stages.
#[test]
fn page_vectors() {
    let text = include_str!("golden/golden_act_pe_dtype.json");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    let (mut run, mut listed) = (0, 0);
    for v in &vectors {
        match v["op"].as_str().unwrap_or_default() {
            "act.function_enum" => {
                for (name, id) in v["expect"].as_object().unwrap() {
                    if name != "Unknown" {
                        let id = id.as_u64().unwrap() as u8;
                        assert_eq!(ActFunc::from_name(name).unwrap().bir_id(), Some(id), "{name}");
                    }
                }
                run += 1;
            }
            "act.legal_op_pairs" => {
                let legal: Vec<(String, String)> = v["expect"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|p| {
                        let name = |i: usize| p[i].as_str().unwrap().to_uppercase();
                        (name(0), name(1))
                    })
                    .collect();
                for a in tpbemu::numeric::AluOp::all() {
                    for b in tpbemu::numeric::AluOp::all() {
                        let mut inst = Inst::empty(Generation::V4, op::ACTIVATE2);
                        use f::s2d2_ac as s;
                        inst.set(s::IN_DTYPE, 10);
                        inst.set(s::OUT_DTYPE, 10);
                        inst.set(s::NUM_ACTIVE_CHANNELS, 1);
                        inst.set(s::ACTIVATION_FUNC, 1);
                        inst.set(s::OP0, u64::from(a.code()));
                        inst.set(s::OP1, u64::from(b.code()));
                        let at = TensorPattern::at(0, &[(1, 4), (0, 1)]);
                        inst.set_tensor(s::SRC, &at).unwrap();
                        inst.set_tensor(s::DST, &at).unwrap();
                        let bench = Bench::new(Generation::V4, Engine::Act);
                        let pair = (a.name().to_uppercase(), b.name().to_uppercase());
                        let want = legal.contains(&pair);
                        assert_eq!(bench.prepare(&inst).is_ok(), want, "{pair:?}");
                    }
                }
                run += 1;
            }
            // Sizes of tables and figures of profiles whose contents are not published.
            "act.table_entries"
            | "act.exp_profile"
            | "act.reciprocal_profile"
            | "act.constants" => listed += 1,
            _ => {}
        }
    }
    println!("{run} run, {listed} listed as not executable");
    assert_eq!(run, 2);
}

fn activate(channels: u64, n: u16, func: u64, src_step: i16, dst_step: i16) -> Inst {
    use f::s3d3_ac as a;
    let mut inst = Inst::empty(Generation::V3, op::ACTIVATE);
    inst.set(a::IN_BIAS_DTYPE, 0xAA);
    inst.set(a::OUT_DTYPE, 10);
    inst.set(a::NUM_ACTIVE_CHANNELS, channels);
    inst.set(a::ACTIVATION_FUNC, func);
    inst.set(a::BIAS_SRC_N, 1);
    inst.set(a::ACCUMULATOR_CMD, 3);
    let dims = |step: i16| [(step, n), (0, 1), (0, 1)];
    inst.set_tensor(a::SRC, &TensorPattern::at(0, &dims(src_step))).unwrap();
    inst.set_tensor(a::DST, &TensorPattern::at(0x200_0000, &dims(dst_step))).unwrap();
    inst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random shapes and steps: relu of an exactly computed affine stage, and its running sum.
    #[test]
    fn random_rows(
        channels in 1u64..=128,
        n in 1u16..=50,
        steps in (1i16..4, 1i16..4),
        scale in -4i32..5,
        bias in -9i32..10,
        seed in any::<u32>(),
    ) {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state as i32 >> 20) as f32
        };
        let mut bench = Bench::new(Generation::V3, Engine::Act);
        let width = 3 * 50;
        let x: Vec<Vec<f32>> =
            (0..channels).map(|_| (0..width).map(|_| next()).collect()).collect();
        for (p, row) in x.iter().enumerate() {
            bench.put_f32(Space::Sbuf, p as u32, 0, row);
        }
        let mut inst = activate(channels, n, 2, steps.0, steps.1);
        inst.set(f::s3d3_ac::SCALE_VALUE, u64::from((scale as f32).to_bits()));
        inst.set(f::s3d3_ac::BIAS, u64::from((bias as f32).to_bits()));
        bench.run(&inst).unwrap();
        let mut read = Inst::empty(Generation::V3, op::ACTIVATION_READ_ACCUMULATOR);
        read.set(f::d1_rd::DST_ELEMENT_COUNT, 1);
        read.set(f::d1_rd::DTYPE, 10);
        read.set(f::d1_rd::NUM_ACTIVE_CHANNELS, channels);
        read.set_tensor(f::d1_rd::DST, &TensorPattern::at(8192, &[(1, 1)])).unwrap();
        bench.run(&read).unwrap();
        for (p, row) in x.iter().enumerate() {
            let mut sum = 0f32;
            for j in 0..usize::from(n) {
                let v = row[j * steps.0 as usize] * scale as f32 + bias as f32;
                let want = if v > 0.0 { v } else { 0.0 };
                sum += want;
                let at = 4 * (j * steps.1 as usize) as u64;
                prop_assert_eq!(bench.get_f32(Space::Psum, p as u32, at, 1)[0], want);
            }
            prop_assert_eq!(bench.get_f32(Space::Sbuf, p as u32, 8192, 1)[0], sum);
        }
    }

    /// No word makes it panic.
    #[test]
    fn any_bytes(bytes in prop::array::uniform32(any::<u8>()), tail in prop::array::uniform32(any::<u8>())) {
        for (generation, opcode) in
            Generation::ALL.into_iter().flat_map(|g| (0x21..=0x26u8).map(move |o| (g, o)))
        {
            let mut word = [0; 64];
            word[..32].copy_from_slice(&bytes);
            word[32..].copy_from_slice(&tail);
            word[0] = opcode;
            let bench = Bench::new(generation, Engine::Act);
            let _ = bench.prepare(&Inst::new(generation, word));
        }
    }
}

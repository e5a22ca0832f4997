//! Forms that need words or state around them: shape registers, the direct and indirect copies that
//! the loader makes of PSEUDO_DMA_DIRECT2D, the replication of a v1 matmul.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst, TensorPattern, e, f, op};
use tpbemu::machine::{self, MachineConfig, Options, RunResult};
use tpbemu::memory::Space;
use tpbemu::program::Program;
use tpbemu::program::asm::{MemoryFiles, assemble};
use tpbemu::program::lower::{Lowered, lower};

fn run(source: &str) -> RunResult {
    let program = Arc::new(assemble(Path::new("t.tpb"), source, &MemoryFiles::default()).unwrap());
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = || Options { threads: 0, strict: false, ..Options::default() };
    machine::run(program, config, options, |_, _| Vec::new(), false).unwrap()
}

fn words(result: &mut RunResult, name: &str) -> Vec<u32> {
    let bytes = result.tensor(name).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

const SHAPES: &str = "
.generation v3
.tensor x sbuf uint32[1, 32] = iota(0, 1)
.tensor y sbuf uint32[1, 8] = fill(0)
.stream DVE
  MOVE_SHAPE move_type=IMMEDIATE num_move=1 shape_reg_type=1 shape_registers=[2, 0, 0, 0] \\
    data=u32[3, 8, 1, 1, 0x00020004, 0x00010001, 0, 0]
  COPY src=uint32@x:shape[2,0,0,0][0,0,0,0] dst=uint32@y[1][8] num_active_channels=1
";

/// Steps 3 and 8, counts 4 and 2 in register 2.
#[test]
fn a_shape_register_is_loaded() {
    let mut result = run(SHAPES);
    assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
    assert_eq!(words(&mut result, "y"), [0, 3, 6, 9, 8, 11, 14, 17]);
    for (from, to, class, want) in [
        (
            "move_type=IMMEDIATE",
            "move_type=REG_TO_SHAPE",
            ErrorClass::MissingSpecification,
            "which",
        ),
        ("num_move=1", "num_move=2", ErrorClass::MissingSpecification, "several"),
        ("[2, 0, 0, 0]", "[4, 0, 0, 0]", ErrorClass::IllegalInstruction, "register 4"),
    ] {
        let result = run(&SHAPES.replacen(from, to, 1));
        let error = result.finished.error.expect(to);
        assert_eq!(error.class, class, "{error}");
        assert!(error.to_string().contains(want), "{error}");
    }
}

fn field(inst: &Inst, name: &str) -> Vec<u8> {
    inst.raw(&inst.by_name(name).unwrap()).to_vec()
}

proptest! {
    /// The device words have the fields of the pseudo word and its extension, by name.
    #[test]
    fn descriptors_take_their_fields(
        bytes in prop::collection::vec(any::<u8>(), 128),
        indirect in any::<bool>(),
        g in prop::sample::select(vec![Generation::V2, Generation::V3, Generation::V5]),
    ) {
        let mut pseudo: [u8; 64] = bytes[..64].try_into().unwrap();
        let mut ext: [u8; 64] = bytes[64..].try_into().unwrap();
        pseudo[0] = op::PSEUDO_DMA_DIRECT2D;
        pseudo[15] = u8::from(indirect);
        pseudo[23] &= !0x10;
        pseudo[47] &= !0x10;
        ext[0] = op::PSEUDO_EXTENSION;
        ext[12..20].fill(0);
        ext[56..64].fill(0);
        let program = Program::new(g);
        let Lowered::Replace(word) = lower(&program, &[pseudo, ext], 0).unwrap() else {
            panic!("not replaced");
        };
        let (host, device) = (Inst::new(g, pseudo), Inst::new(g, word));
        prop_assert_eq!(&word[1..12], &pseudo[1..12], "header and events");
        let same = |names: &[&str]| {
            names.iter().all(|n| field(&host, n) == field(&device, n))
        };
        prop_assert!(same(&[
            "semaphore", "sem_increment", "src_start_addr", "dst_start_addr", "src_elem_size",
            "dst_elem_size", "in_dtype", "out_dtype", "dma_configs",
        ]));
        if !indirect {
            prop_assert_eq!(word[0], op::DMAMEMCPY);
            prop_assert!(same(&[
                "src_step_elem", "dst_step_elem", "src_num_elem", "dst_num_elem",
                "src_bound_reg", "dst_bound_reg",
            ]));
            prop_assert_eq!(field(&device, "compute_op"), [0]);
            return Ok(());
        }
        prop_assert_eq!(word[0], op::DMA_INDIRECT);
        for name in ["src_step_elem", "dst_step_elem", "src_num_elem", "dst_num_elem"] {
            let wide = field(&host, name);
            prop_assert_eq!(&wide[..wide.len() / 2], &field(&device, name)[..], "{}", name);
        }
        prop_assert_eq!(field(&host, "src_bound_reg"), field(&device, "src_idx_bound_reg"));
        prop_assert_eq!(field(&host, "dst_bound_reg"), field(&device, "dst_idx_bound_reg"));
        for (name, at) in [
            ("flags", 1..2), ("idx_num_active_channels", 2..3), ("compute_op", 3..4),
            ("src_idx_start_addr", 4..8), ("dst_idx_start_addr", 8..12),
        ] {
            prop_assert_eq!(&field(&device, name)[..], &ext[at], "{}", name);
        }
        // the extension itself does nothing
        let Lowered::Replace(label) = lower(&program, &[pseudo, ext], 1).unwrap() else {
            panic!("not replaced");
        };
        prop_assert_eq!(lower(&program, &[label], 0).unwrap(), Lowered::Nothing);
    }
}

#[test]
fn what_descriptors_lack() {
    let program = Program::new(Generation::V3);
    let mut pseudo = [0; 64];
    pseudo[0] = op::PSEUDO_DMA_DIRECT2D;
    let class = |words: &[[u8; 64]], pc| lower(&program, words, pc).unwrap_err().class;
    for transposing in [2, 3] {
        pseudo[15] = transposing;
        assert_eq!(class(&[pseudo], 0), ErrorClass::MissingSpecification);
    }
    pseudo[15] = e::dge_opcode::DMA_INDIRECT1D;
    assert_eq!(class(&[pseudo], 0), ErrorClass::IllegalInstruction);
    let mut ext = [0; 64];
    ext[0] = op::PSEUDO_EXTENSION;
    assert_eq!(class(&[ext], 0), ErrorClass::MissingSpecification);
    ext[12] = 1;
    assert_eq!(class(&[pseudo, ext], 0), ErrorClass::MissingSpecification);
    pseudo[23] = 0x10;
    assert_eq!(class(&[pseudo, ext], 0), ErrorClass::MissingSpecification);
}

/// A direct copy written as the compiler writes it.
#[test]
fn a_pseudo_copy_runs() {
    let mut result = run("
.generation v3
.tensor a hbm uint32[4] = [1, 2, 3, 4]
.tensor b hbm uint32[4] = fill(0)
.stream POOL
  PSEUDO_DMA_DIRECT2D dge_op=DMA_DIRECT2D src_start_addr=a dst_start_addr=b semaphore=3 \\
    sem_increment=1 src_step_elem=[1, 4] dst_step_elem=[1, 4] src_num_elem=[4, 1] \\
    dst_num_elem=[4, 1] src_elem_size=4 dst_elem_size=4 in_dtype=uint32 out_dtype=uint32
  NOP $S[3]>=1
");
    assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
    assert_eq!(words(&mut result, "b"), [1, 2, 3, 4]);
}

const ROWS: usize = 12;
const COLUMNS: usize = 3;
const N: usize = 10;

fn bf16(value: f32) -> [u8; 2] {
    let [_, _, low, high] = value.to_bits().to_le_bytes();
    [low, high]
}

/// The v1 matmul of `rows` rows at byte 512, after the weights at byte 0.
fn matmul(bench: &mut Bench, replication: [u64; 3]) -> Vec<Vec<f32>> {
    let g = Generation::V1;
    let mut load = Inst::empty(g, op::LDWEIGHTS);
    load.set(f::s3_lw::IN_DTYPE, 6);
    load.set(f::s3_lw::NUM_ACTIVE_ROWS, ROWS as u64);
    load.set(f::s3_lw::NUM_ACTIVE_COLS, COLUMNS as u64);
    let flat = |at, n| TensorPattern::at(at, &[(1, n as u16), (0, 1), (0, 1)]);
    load.set_tensor(f::s3_lw::SRC, &flat(0, COLUMNS)).unwrap();
    bench.run(&load).unwrap();
    use f::s3d3_mm as m;
    let mut inst = Inst::empty(g, op::MATMUL);
    inst.set(m::IN_DTYPE, 6);
    inst.set(m::NUM_ACTIVE_ROWS, ROWS as u64);
    inst.set(m::NUM_ACTIVE_COLS, COLUMNS as u64);
    inst.set(m::PSUM_ACCUMULATE_FLAGS, u64::from(e::psum_acc_flags::SINGLE));
    let [rows, resolution, shift] = replication;
    inst.set(m::IFMAP_REPLICATION_NUM_ROWS, rows);
    inst.set(m::IFMAP_REPLICATION_RESOLUTION, resolution);
    inst.set(m::IFMAP_REPLICATION_SHIFT_AMNT, shift);
    inst.set_tensor(m::SRC, &flat(512, N)).unwrap();
    let psum = bench.config.geometry.psum_base;
    inst.set_tensor(m::DST, &flat(psum, N)).unwrap();
    bench.run(&inst).unwrap();
    (0..COLUMNS).map(|c| bench.get_f32(Space::Psum, c as u32, 0, N)).collect()
}

/// Two rows of every six are in memory; the others get them one and two elements later.
#[test]
fn a_v1_matmul_replicates_rows() {
    let value = |p: usize, i: usize| ((p * 7 + i * 3) % 11) as f32 - 5.0;
    let weights = |bench: &mut Bench| {
        for p in 0..ROWS {
            for c in 0..COLUMNS {
                bench.put(Space::Sbuf, p as u32, 2 * c as u64, &bf16(((p + 5 * c) % 7) as f32));
            }
        }
    };
    let mut bench = Bench::new(Generation::V1, Engine::Pe);
    weights(&mut bench);
    for p in 0..ROWS {
        for i in 0..N {
            // rows that are not read hold something else
            let v = if p % 6 < 2 { value(p, i) } else { 100.0 };
            bench.put(Space::Sbuf, p as u32, 512 + 2 * i as u64, &bf16(v));
        }
    }
    let replicated = matmul(&mut bench, [6, 2, 1]);
    let mut bench = Bench::new(Generation::V1, Engine::Pe);
    weights(&mut bench);
    for p in 0..ROWS {
        let (copy, base) = (p % 6 / 2, p / 6 * 6 + p % 2);
        for i in 0..N {
            let v = if i + copy < N { value(base, i + copy) } else { 0.0 };
            bench.put(Space::Sbuf, p as u32, 512 + 2 * i as u64, &bf16(v));
        }
    }
    assert_eq!(replicated, matmul(&mut bench, [0, 0, 0]));
}

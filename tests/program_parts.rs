//! Parts that a program brings along beside words and tensors: files of the V1 SIM band, and
//! activation table sets.

use std::path::Path;
use std::sync::Arc;

use tpbemu::machine::{self, MachineConfig, Options, RunResult};
use tpbemu::numeric::ActFunc;
use tpbemu::numeric::pwl::generate::{deviation, generated};
use tpbemu::program::asm::{MemoryFiles, assemble};
use tpbemu::program::{Program, container, npy, text};

fn run(program: &Arc<Program>) -> RunResult {
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = || Options { threads: 0, ..Options::default() };
    machine::run(Arc::clone(program), config, options, |_, _| Vec::new(), false).unwrap()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

const SIM: &str = r#"
.generation v1
.tensor a hbm fp32[2, 3]
.tensor b sbuf fp32[2, 3]
.tensor c hbm fp32[2, 3]
.tensor raw hbm uint8[4]
.event ready = 20
.stream POOL
  SIM_WRNPY dst_addr=a src_fname="in.npy"
  SIM_WRFILE dst_addr=raw src_fname="sub/raw.bin"
  # two rows of 12 bytes into two partitions
  SIM_DMA_COPY src_start_addr=a src_step_elem=[1, 12] src_num_elem=[12, 2] \
    dst_start_addr=0x2000000000 + b dst_step_elem=[1, 0x20000] dst_num_elem=[12, 2] \
    queue_idx=ready
  EVENT_WAIT event_idx=ready wait_mode_arg=WAIT_FOR_SET_THEN_CLEAR
  TENSOR_SCALAR_ARITH_OP src=fp32@b[1][3] dst=fp32@b[1][3] op0=MULT op1=BYPASS imm0=2.0 \
    num_active_channels=2
  SIM_DMA_COPY src_start_addr=0x2000000000 + b src_step_elem=[1, 0x20000] \
    src_num_elem=[12, 2] dst_start_addr=c dst_step_elem=[1, 0] dst_num_elem=[24, 1]
  SIM_RDNPY src_addr=c dst_dims=[2, 3] dst_ndims=2 dtype=fp32 dst_fname="out.npy"
  SIM_WRNPY dst_addr=a src_fname="out.npy"
  SIM_MEMCPY src_address=a dst_address=c nbytes=8
.check c [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
.check a [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
.check raw [1, 2, 3, 4]
"#;

fn sim_files() -> MemoryFiles {
    let elem = tpbemu::program::ElemType::FP32;
    let values = bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let mut files = MemoryFiles::default();
    files.0.insert("in.npy".into(), npy::encode(elem, &[2, 3], &values).unwrap());
    files.0.insert("sub/raw.bin".into(), vec![1, 2, 3, 4]);
    files
}

#[test]
fn the_sim_band_moves_files_and_memory() {
    let program = Arc::new(assemble(Path::new("sim.tpb"), SIM, &sim_files()).unwrap());
    let again = Arc::new(container::decode(&container::encode(&program).unwrap()).unwrap());
    assert_eq!(*again, *program, "the container holds the files");
    for program in [program, again] {
        let mut result = run(&program);
        assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
        for check in &program.checks {
            let got = result.tensor(&check.tensor).unwrap();
            let dtype = program.tensor(&check.tensor).unwrap().dtype;
            let different = tpbemu::program::compare(dtype, &got, &check.expected, 0.0, 0.0);
            assert_eq!(different.unwrap(), None, "{}", check.tensor);
        }
        let written = result.machine.written_files();
        assert_eq!(written.keys().collect::<Vec<_>>(), ["out.npy"]);
        let array = npy::parse(&written["out.npy"]).unwrap();
        assert_eq!((array.shape, array.kind), (vec![2, 3], 'f'));
        assert_eq!(array.bytes, bytes(&[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]));
    }
}

#[test]
fn sim_words_reach_no_other_folder() {
    for name in ["../in.npy", "/etc/passwd", "a/../../b", ""] {
        let source = SIM.replacen("in.npy", name, 1);
        let files = sim_files();
        let program = assemble(Path::new("sim.tpb"), &source, &files);
        let error = match program {
            Err(e) => e,
            Ok(p) => {
                let config = Arc::new(MachineConfig::builtin(p.generation));
                machine::run(Arc::new(p), config, Options::default, |_, _| Vec::new(), false)
                    .err()
                    .unwrap_or_else(|| panic!("`{name}` was accepted"))
            }
        };
        assert!(error.to_string().contains("program's folder"), "{name}: {error}");
    }
    // a file that does not exist is named
    let source = SIM.replacen("in.npy", "absent.npy", 1);
    let program = assemble(Path::new("sim.tpb"), &source, &sim_files()).unwrap();
    let error = run(&Arc::new(program)).finished.error.unwrap();
    assert!(error.to_string().contains("absent.npy"), "{error}");
}

/// Illegal words of the SIM band, each with the rule it breaks.
#[test]
fn sim_words_are_checked() {
    for (from, to, rule) in [
        ("dst_num_elem=[12, 2]", "dst_num_elem=[12, 3]", "tensor_same_num_elements"),
        ("dst_ndims=2", "dst_ndims=5", "sim_dimensions"),
        ("dst_dims=[2, 3]", "dst_dims=[0, 3]", "sim_size"),
        ("nbytes=8", "nbytes=0", "sim_size"),
        (
            "src_step_elem=[1, 12] src_num_elem=[12, 2]",
            "src_step_elem=[2, 12] src_num_elem=[0x7fffffff, 2]",
            "sim_size",
        ),
    ] {
        let source = SIM.replacen(from, to, 1);
        assert_ne!(source, SIM, "{from}");
        let program = assemble(Path::new("sim.tpb"), &source, &sim_files()).unwrap();
        let config = Arc::new(MachineConfig::builtin(program.generation));
        let error =
            machine::run(Arc::new(program), config, Options::default, |_, _| Vec::new(), false)
                .err()
                .unwrap_or_else(|| panic!("{to} was accepted"));
        assert_eq!(error.rule.as_deref(), Some(rule), "{error}");
    }
}

/// ENGINE_NOP goes through the data path: its update comes when the older work is complete, that
/// of a sequencer NOP at once.
#[test]
fn an_engine_nop_waits_its_turn() {
    let program = |nop: &str| {
        format!(
            ".generation v3
.tensor t sbuf fp32[128, 4096]
.tensor x sbuf fp32[128, 4096] = fill(1.0)
.semaphore s
.stream DVE
  MEMSET dst=fp32@t[1][4096] num_active_channels=128 set_value=0
  {nop} $S[s]+=1@complete
.stream ACT
  NOP $S[s]>=1
  ACTIVATE src=fp32@x[1][4096] dst=fp32@x[1][4096] activation_func=1 num_active_channels=128 \
    bias_src_n=INSTRUCTION_IMMEDIATE in_bias_dtype=fp32/fp32 scale_value=1.0
"
        )
    };
    let end = |nop: &str| {
        let source = program(nop);
        let p = assemble(Path::new("nop.tpb"), &source, &MemoryFiles::default()).unwrap();
        let result = run(&Arc::new(p));
        assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
        result.finished.end
    };
    let (plain, engine) = (end("NOP"), end("ENGINE_NOP"));
    assert!(engine > plain * 3 / 2, "the engine's NOP waits for the fill: {plain}, {engine}");
}

const TABLES: &str = r#"
.generation v3
.act_tables 1 generated Sigmoid, Gelu
.act_tables 2 profile 5 "line.json"
.tensor x sbuf fp32[1, 4] = [0.5, -2.0, 3.0, 0.0]
.tensor y sbuf fp32[1, 4]
.tensor z sbuf fp32[1, 4]
.tensor w sbuf fp32[1, 4]
.stream ACT
  ACTIVATION_TABLE_LOAD table_set=1
  ACTIVATE src=fp32@x[1][4] dst=fp32@y[1][4] activation_func=5 bias_src_n=INSTRUCTION_IMMEDIATE \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=1
  ACTIVATION_TABLE_LOAD table_set=2
  ACTIVATE src=fp32@x[1][4] dst=fp32@z[1][4] activation_func=5 bias_src_n=INSTRUCTION_IMMEDIATE \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=1
  ACTIVATE src=fp32@x[1][4] dst=fp32@w[1][4] activation_func=2 bias_src_n=INSTRUCTION_IMMEDIATE \
    in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=1
"#;

/// A profile whose function is 10 x + 1 everywhere but at 0, where it is 7.
fn line() -> Vec<u8> {
    let float = |x: f32| serde_json::json!({ "int": x.to_bits() });
    let limit = serde_json::json!({
        "sat_point": 0, "mantissa_point": 0, "x": float(0.0),
        "d0": float(1.0), "d1": float(10.0), "d2": float(0.0), "d3": float(0.0),
    });
    serde_json::json!({
        "symmetry_point": float(0.0), "zero_result": float(7.0), "nan_result": float(f32::NAN),
        "pinf_result": float(0.0), "ninf_result": float(0.0),
        "pos_exponents": [], "neg_exponents": [],
        "saturation_points": {
            "sat_point_pos_high": limit, "sat_point_neg_high": limit,
            "sat_point_pos_low": limit, "sat_point_neg_low": limit,
        },
    })
    .to_string()
    .into_bytes()
}

#[test]
fn table_loads_decide_what_a_function_is() {
    let mut files = MemoryFiles::default();
    files.0.insert("line.json".into(), line());
    let program = assemble(Path::new("t.tpb"), TABLES, &files).unwrap();
    let again = container::decode(&container::encode(&program).unwrap()).unwrap();
    assert_eq!(again, program);
    // and through the text
    let (source, data) = text::to_text(&program);
    let mut files = MemoryFiles::default();
    files.0.extend(data.into_iter().map(|(n, b)| (n.into(), b)));
    let third = assemble(Path::new("t.tpb"), &source, &files).unwrap();
    assert_eq!(third.table_sets, program.table_sets);
    let mut result = run(&Arc::new(third));
    assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
    let mut read = |name: &str| -> Vec<f32> {
        let bytes = result.tensor(name).unwrap();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    for (x, y) in [0.5f32, -2.0, 3.0, 0.0].into_iter().zip(read("y")) {
        assert!((y - ActFunc::Sigmoid.evaluate(x, 0.0)).abs() < 1e-6, "{x} {y}");
    }
    assert_eq!(read("z"), [6.0, -19.0, 31.0, 7.0]);
    assert_eq!(read("w"), [0.5, 0.0, 3.0, 0.0], "fixed logic needs no table");
}

/// With table sets in the program, a table function without a load and the load of an unknown set
/// are mistakes.
#[test]
fn missing_loads_are_reported() {
    let mut files = MemoryFiles::default();
    files.0.insert("line.json".into(), line());
    for (from, to, want) in [
        ("  ACTIVATION_TABLE_LOAD table_set=1\n", "", "before any ACTIVATION_TABLE_LOAD"),
        ("table_set=2", "table_set=9", "no such set"),
        ("activation_func=5", "activation_func=7", "not resident"),
    ] {
        let source = TABLES.replacen(from, to, 1);
        let program = assemble(Path::new("t.tpb"), &source, &files).unwrap();
        let error = run(&Arc::new(program)).finished.error.expect(want).to_string();
        assert!(error.contains(want), "{error}");
    }
    for (from, to) in [
        ("generated Sigmoid", "generated Sigmoyd"),
        ("generated Sigmoid", "generated Relu"),
        ("generated Sigmoid", "generated Sqrt, Ln"),
        ("profile 5", "profile 256"),
        ("line.json", "absent.json"),
    ] {
        let source = TABLES.replacen(from, to, 1);
        assert!(assemble(Path::new("t.tpb"), &source, &files).is_err(), "{to}");
    }
}

/// The figures of `docs/activation-tables.md`; `UPDATE=1` writes them.
#[test]
fn deviations_are_as_documented() {
    let mut table = String::from(
        "| function | number | buckets | control records | inputs | largest difference | relative |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for func in generated() {
        let d = deviation(func, 20_000).unwrap();
        assert!(d.relative < 1e-3, "{} {d:?}", func.name());
        table += &format!(
            "| {} | {} | {} | {} | {:e} to {:e} | {:.1e} | {:.1e} |\n",
            func.name(),
            func.wire_id().unwrap(),
            d.buckets,
            d.control,
            d.range.0,
            d.range.1,
            d.absolute,
            d.relative
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/activation-tables.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("<!-- deviations -->\n").unwrap();
    let (old, tail) = rest.split_once("<!-- end -->").unwrap();
    if std::env::var_os("UPDATE").is_some() {
        let text = format!("{head}<!-- deviations -->\n{table}<!-- end -->{tail}");
        std::fs::write(&path, text).unwrap();
    } else {
        assert_eq!(old, table, "run `UPDATE=1 cargo test --test program_parts`");
    }
}

fn assembled(source: &str) -> Arc<Program> {
    Arc::new(assemble(Path::new("t.tpb"), source, &MemoryFiles::default()).unwrap())
}

fn tensor(result: &mut RunResult, name: &str) -> Vec<f64> {
    let program = Arc::clone(result.machine.program());
    let bytes = result.tensor(name).unwrap();
    program.tensor(name).unwrap().dtype.read_f64(&bytes).unwrap()
}

/// The vendor's example: 0.5 added 2048 times to 1024 in FP16 stays 1024 when rounding to nearest
/// even, and comes out near 2048 when rounding stochastically (vendor: rounding-modes).
#[test]
fn stochastic_rounding_is_the_programs_choice() {
    let source = |meta: &str| {
        format!(
            ".generation v3
{meta}
.tensor x sbuf fp16[8, 1] = fill(1024)
.stream DVE
  .repeat 2048
    TENSOR_SCALAR_ARITH_OP src=fp16@x[1][1] dst=fp16@x[1][1] op0=ADD op1=BYPASS imm0=0.5 \\
      num_active_channels=8
  .end
"
        )
    };
    let values = |meta: &str| {
        let mut result = run(&assembled(&source(meta)));
        assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
        tensor(&mut result, "x")
    };
    assert_eq!(values(""), [1024.0; 8]);
    let random = values(".meta stochastic_rounding \"1\"");
    assert!(random.iter().all(|x| (1900.0..2200.0).contains(x)), "{random:?}");
    assert!(random.iter().any(|x| *x != random[0]), "partitions draw from their own generators");
    assert_eq!(values(".meta stochastic_rounding \"1\""), random, "the same every time");
    let bad = run_error(".meta stochastic_rounding \"2\"", &source);
    assert!(bad.contains("stochastic_rounding"), "{bad}");
}

fn run_error(meta: &str, source: &dyn Fn(&str) -> String) -> String {
    let program = assembled(&source(meta));
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let result = machine::run(program, config, Options::default, |_, _| Vec::new(), false);
    result.err().unwrap().to_string()
}

/// FP8 settings of a program hold on every engine and in DMA conversions.
#[test]
fn fp8_settings_are_the_programs_choice() {
    let source = |meta: &str| {
        format!(
            ".generation v4
{meta}
.tensor x sbuf fp32[1, 4] = [300.0, 448.0, 1.0, 1000.0]
.tensor act sbuf uint8[1, 4]
.tensor dve sbuf uint8[1, 4]
.tensor back sbuf fp32[1, 4]
.tensor hx hbm fp32[1, 4] = [300.0, 448.0, 1.0, 1000.0]
.tensor hy hbm fp8_e4[1, 4]
.queue q engine=ACT
.block q cast none
  copy dst=hy src=hx
.end
.stream ACT
  ACTIVATE src=fp32@x[1][4] dst=fp8_e4@act[1][4] activation_func=1 num_active_channels=1 \\
    bias_src_n=INSTRUCTION_IMMEDIATE in_bias_dtype=fp32/fp32 scale_value=1.0
  DMA_TRIGGER q cast
.stream DVE
  CAST src=fp32@x[1][4] dst=fp8_e4@dve[1][4] num_active_channels=1
  CAST src=fp8_e4@dve[1][4] dst=fp32@back[1][4] num_active_channels=1
"
        )
    };
    for (meta, codes, back) in [
        // legacy E4M3: 240 is the largest
        ("", [0x77, 0x77, 0x38, 0x77], [240.0, 240.0, 1.0, 240.0]),
        (".meta fp8_range_extension \"1\"", [0x79, 0x7E, 0x38, 0x7E], [288.0, 448.0, 1.0, 448.0]),
        (
            ".meta fp8_sis \"0\"",
            [0x78, 0x78, 0x38, 0x78],
            [f64::INFINITY, f64::INFINITY, 1.0, f64::INFINITY],
        ),
    ] {
        let mut result = run(&assembled(&source(meta)));
        assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
        for name in ["act", "dve", "hy"] {
            assert_eq!(result.tensor(name).unwrap(), codes, "{meta} {name}");
        }
        assert_eq!(tensor(&mut result, "back"), back, "{meta}");
    }
}

/// Host-only words that the loader replaces by device words.
#[test]
fn pseudo_words_are_lowered() {
    let source = "
.generation v3
.act_tables 7 generated Exp
.act_tables 7 named exps
.tensor a hbm uint32[4] = [10, 20, 30, 40]
.tensor b hbm uint32[4] = fill(0)
.tensor y sbuf fp32[1, 1] = fill(1.0)
.stream ACT
  PSEUDO_LOAD_ACT_FUNC_SET act_set_name=\"exps\"
  ACTIVATE src=fp32@y[1][1] dst=fp32@y[1][1] activation_func=7 num_active_channels=1 \\
    bias_src_n=INSTRUCTION_IMMEDIATE in_bias_dtype=fp32/fp32 scale_value=1.0
.stream SP
  PSEUDO_TENSOR_LOAD var_id=0 var_offset=4 dtype=uint32 num_elem=[2, 1] step_elem=[1, 0] \\
    data=u8[5, 6]
  PSEUDO_BRANCH_LABEL
  PSEUDO_TENSOR_STORE var_id=1 var_offset=8 dtype=uint32 num_elem=[2, 1] step_elem=[1, 0] \\
    data=u8[5, 6]
";
    let mut result = run(&assembled(source));
    assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
    assert_eq!(tensor(&mut result, "b"), [0.0, 0.0, 20.0, 30.0]);
    let e = tensor(&mut result, "y")[0];
    assert!((e - std::f64::consts::E).abs() < 1e-5, "{e}");
    // an undeclared set, a variable that does not exist, a byte behind its end
    for (from, to, want) in [
        ("\"exps\"", "\"logs\"", "logs"),
        ("var_id=1", "var_id=9", "variable 9"),
        ("var_id=1 var_offset=8", "var_id=2 var_offset=0", "variable 2"),
        ("var_offset=8", "var_offset=16", "byte 16"),
    ] {
        let error = run_error(to, &|to| source.replacen(from, to, 1));
        assert!(error.contains(want), "{error}");
    }
}

/// Every other host-only word is refused with the fact that is missing.
#[test]
fn other_pseudo_words_name_what_is_missing() {
    use tpbemu::isa::{Class, Generation, opcode_table};
    use tpbemu::program::lower::{Lowered, lower};
    for generation in [Generation::V1, Generation::V2, Generation::V5] {
        let program = Program::new(generation);
        let mut seen = 0;
        for def in opcode_table(generation).iter().filter(|d| d.class == Class::Pseudo) {
            let mut word = [0; 64];
            word[0] = def.byte;
            match lower(&program, &[word], 0) {
                Ok(Lowered::Word) => panic!("{} reaches the device", def.name),
                Ok(_) => {}
                Err(e) if e.class == tpbemu::ErrorClass::MissingSpecification => {
                    assert!(e.to_string().contains(def.name), "{e}");
                    seen += 1;
                }
                Err(e) => assert_ne!(e.class, tpbemu::ErrorClass::Unimplemented, "{e}"),
            }
        }
        assert!(seen > 3, "{generation}");
    }
}

/// On v5 the addresses of SBUF partitions from 32 on are those of the PSUM window. Operands that
/// are never in PSUM mean SBUF there.
#[test]
fn v5_reaches_every_sbuf_partition() {
    for partition in [0u64, 32, 96] {
        let source = format!(
            "
.generation v5
.tensor a sbuf int32[1, 2] partition {partition} byte 0 = [7, -3]
.tensor b sbuf int32[1, 2] partition {partition} byte 64 = fill(0)
.stream POOL
  TENSOR_SCALAR_ADDR src=int32@{at:#x}[1][2] dst=int32@{to:#x}[1][2] op0=MULT op1=ADD \\
    in_out_dtype=int32/int32 imm0_imm1_dtype=int32/int32 imm0=3 imm1=100 num_active_channels=1
",
            at = partition << 20,
            to = (partition << 20) + 64,
        );
        let mut result = run(&assembled(&source));
        assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
        assert_eq!(tensor(&mut result, "b"), [121.0, 91.0], "partition {partition}");
    }
}

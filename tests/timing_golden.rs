//! Golden vectors of published instruction times, intervals, hand-offs and DMA times.
//!
//! A vector is run as a small program and its time read from the records. Figures read off
//! profiles carry a tolerance; 4 % are allowed on top, the published fit of the DMA curve.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tpbemu::isa::{Engine, Generation};
use tpbemu::machine::{self, MachineConfig, Options, Races};
use tpbemu::program::asm::{Disk, assemble};
use tpbemu::trace::tee::Shared;
use tpbemu::trace::{InstRecord, Record, Recorder, TransferRecord};

/// What a vector is worth: a comparison, or the reason why there is none.
type Verdict = Result<(f64, f64, f64), &'static str>;

#[derive(Default)]
struct Log {
    insts: Vec<InstRecord>,
    transfers: Vec<TransferRecord>,
}

impl Recorder for Log {
    fn record(&mut self, record: &Record) {
        match record {
            Record::Inst(i) => self.insts.push(i.clone()),
            Record::Transfer(t) => self.transfers.push(t.clone()),
            _ => {}
        }
    }
}

/// The records of a program with its times in ns.
struct Course {
    log: Log,
    ns: f64,
}

impl Course {
    /// Data-path instructions of an engine.
    fn of(&self, engine: Engine) -> Vec<&InstRecord> {
        let stream = engine.index() as u16;
        self.log.insts.iter().filter(|i| i.stream == stream).collect()
    }

    /// Start to end of the last instruction of an engine.
    fn duration(&self, engine: Engine) -> f64 {
        let of = self.of(engine);
        let last = of.last().unwrap();
        (last.end - last.start) as f64 * self.ns
    }

    /// Start to start of instructions `a` and `b` of an engine.
    fn interval(&self, engine: Engine, a: usize, b: usize) -> f64 {
        let of = self.of(engine);
        (of[b].start - of[a].start) as f64 * self.ns
    }
}

fn course(text: &str, change: impl Fn(&mut MachineConfig)) -> Course {
    let program = assemble(Path::new("vector.tpb"), text, &Disk);
    let program = Arc::new(program.unwrap_or_else(|e| panic!("{e}\n{text}")));
    let mut config = MachineConfig::builtin(program.generation);
    change(&mut config);
    let config = Arc::new(config);
    let log = Shared::new(Log::default());
    let options = || Options {
        races: Races::Ignore,
        check_unwritten: false,
        timing_only: true,
        ..Options::default()
    };
    let record = |_: &_, _: &_| -> Vec<Box<dyn Recorder>> { vec![Box::new(log.clone())] };
    let result = machine::run(program, config, options, record, false).unwrap();
    assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
    let ns = 1e9 / result.summary.tick_hz as f64;
    Course { log: log.with(std::mem::take), ns }
}

fn plain(text: &str) -> Course {
    course(text, |_| {})
}

fn generation(inputs: &Value) -> Option<Generation> {
    inputs["generation"].as_str()?.to_lowercase().parse().ok()
}

/// `pairs` weight loads of `columns` and matmuls of `moving`, one after the other.
fn matmuls(generation: &str, mode: &str, columns: u32, moving: u32, pairs: u32) -> String {
    let (dtype, size) = if mode.is_empty() { ("bf16", 2) } else { ("fp32", 4) };
    let xbus = if generation == "v2" { "xbus_sel=0x10" } else { "" };
    let tile =
        format!("num_active_rows=128 num_active_cols={columns} row_grp=15 col_grp=15 {xbus}");
    format!(
        ".generation {generation}\n.tensor w sbuf {dtype}[128, 128]\n.tensor x sbuf {dtype}[128, 512]\n\
         .tensor acc psum fp32[128, 512] bank 0\n.stream PE\n.repeat {pairs} i\n\
         LDWEIGHTS src={dtype}@w+{}[-1][{columns}] {tile} {mode}\n\
         MATMUL src={dtype}@x[1][{moving}] dst=@acc[1][{moving}] {tile} {mode}\n.end\n",
        (columns - 1) * size
    )
}

const FP32: &str = "fp32_mode=LOW_HIGH";

/// One ACTIVATE from `space` to SBUF.
fn activate(function: u32, dtype: &str, source: &str, n: u32) -> String {
    format!(
        "ACTIVATE src={dtype}@{source}[1][{n}] dst={dtype}@y[1][{n}] activation_func={function} \
         scale_value=1.0 bias=0.0 in_bias_dtype={dtype}/{dtype} num_active_channels=128\n"
    )
}

fn operands(generation: &str, dtype: &str, n: u32) -> String {
    format!(
        ".generation {generation}\n.tensor a sbuf {dtype}[128, {n}]\n.tensor b sbuf {dtype}[128, {n}]\n\
         .tensor y sbuf {dtype}[128, {n}]\n.tensor z sbuf {dtype}[128, {n}]\n\
         .tensor p psum fp32[128, 512] bank 0\n"
    )
}

const ADD: &str = "TENSOR_TENSOR_ARITH_OP src0=fp32@a[1][512] src1=fp32@p[1][512] \
                   dst=fp32@y[1][512] op=ADD num_active_channels=128\n";

fn copy(source: &str, target: &str) -> String {
    format!("COPY src=fp32@{source}[1][512] dst=fp32@{target}[1][512] num_active_channels=128\n")
}

/// A DMA instruction that moves 128 rows of 256 bytes, a load or a store.
fn instruction_copy(load: bool, extra: &str) -> String {
    let (sbuf, hbm) = ("0x2000000000+t", "h");
    let (src, dst, s, d) = if load { (hbm, sbuf, 1, 1024) } else { (sbuf, hbm, 1024, 1) };
    format!(
        "DMAMEMCPY {extra} src_start_addr={src} src_step_elem=[{s},0] src_num_elem=[128,1] \
         src_elem_size=256 dst_start_addr={dst} dst_step_elem=[{d},0] dst_num_elem=[128,1] \
         dst_elem_size=256 in_dtype=bf16 out_dtype=bf16\n"
    )
}

const COPIED: &str =
    ".generation v3\n.tensor h hbm bf16[128, 128]\n.tensor t sbuf bf16[128, 128]\n";

/// A block that loads or stores 32 KiB on one engine.
fn ring_copy(load: bool) -> String {
    let copy = if load { "dst=t src=h" } else { "dst=h src=t" };
    format!(
        ".generation v3\n.tensor h hbm bf16[4, 4096]\n.tensor t sbuf bf16[4, 4096]\n.semaphore done\n\
         .queue q engine=SP semaphore=done kind=in\n.block q one\n copy {copy}\n.end\n\
         .stream SP\nDMA_TRIGGER q one\nNOP $S[done]>=1\n"
    )
}

fn duration(inputs: &Value) -> Result<f64, &'static str> {
    let s = |k: &str| inputs[k].as_str().unwrap_or("");
    let n = |k: &str| inputs[k].as_u64().unwrap_or(0) as u32;
    let generation = if s("generation") == "not stated" { "v2" } else { s("generation") };
    let opcode = s("opcode");
    Ok(match (generation, s("engine"), opcode) {
        (_, _, "EVENT_SEMAPHORE") => {
            let text = format!(".generation {generation}\n.stream DVE\nEVENT_SEMAPHORE\n");
            plain(&text).duration(Engine::Dve)
        }
        ("v2", "ACT", "ACTIVATE IDENTITY") => {
            let text = operands("v2", "fp32", 1) + ".stream ACT\n" + &activate(1, "fp32", "a", 1);
            plain(&text).duration(Engine::Act)
        }
        (_, "ACT", "ACT_TABLE_LOAD") => {
            let text = format!(".generation {generation}\n.stream ACT\nACTIVATION_TABLE_LOAD\n");
            plain(&text).duration(Engine::Act)
        }
        ("v3", "ACT", "ACTIVATE EXP") => {
            let count = n("elements");
            let text = operands("v3", "bf16", count) + ".stream ACT\nACTIVATION_TABLE_LOAD\n";
            let text = text + &activate(7, "bf16", "a", count);
            plain(&text).duration(Engine::Act)
        }
        ("v2", "PE", "LDWEIGHTS") => {
            let course = plain(&matmuls("v2", "", 1, 128, 1));
            let load = course.of(Engine::Pe)[0];
            (load.end - load.start) as f64 * course.ns
        }
        ("v2", "PE", _) => {
            let columns = if s("active") == "128*1" { 1 } else { 128 };
            plain(&matmuls("v2", "", columns, n("moving"), 1)).duration(Engine::Pe)
        }
        (_, "PE", "LDWEIGHTS") => {
            return Err("a load behind a matmul is recorded until the matmul's results are there");
        }
        ("v3", "PE", _) if inputs.get("utilization_limit").is_some() => {
            let text = matmuls("v3", FP32, 128, n("moving"), 4);
            course(&text, |c| c.power.limit_pe = true).duration(Engine::Pe)
        }
        ("v3", "PE", _) => plain(&matmuls("v3", FP32, 128, n("moving"), 4)).duration(Engine::Pe),
        ("v2", "DVE", _) => {
            let text = operands("v2", "fp32", 8192)
                + ".stream DVE\nTENSOR_TENSOR_ARITH_OP src0=fp32@a[1][8192] src1=fp32@b[1][8192] \
                   dst=fp32@y[1][8192] op=MULT num_active_channels=128\n";
            plain(&text).duration(Engine::Dve)
        }
        ("v3", "DVE", "TENSOR_TENSOR ADD") => {
            plain(&(operands("v3", "fp32", 512) + ".stream DVE\n" + ADD)).duration(Engine::Dve)
        }
        ("v3", "DVE", "TENSOR_COPY") => {
            let source = if s("operands").starts_with("PSUM") { "p" } else { "a" };
            let text = operands("v3", "fp32", 512) + ".stream DVE\n" + &copy(source, "y");
            plain(&text).duration(Engine::Dve)
        }
        ("v3", "SP", _) => plain(&format!("{COPIED}.stream SP\n{}", instruction_copy(true, "")))
            .duration(Engine::Sp),
        _ => return Err("unknown instruction"),
    })
}

fn interval(inputs: &Value) -> Result<f64, &'static str> {
    let s = |k: &str| inputs[k].as_str().unwrap_or("");
    let moving = inputs["moving"].as_u64().unwrap_or(0) as u32;
    Ok(match (s("engine"), s("opcode")) {
        ("PE", o) if o.starts_with("first") => {
            plain(&matmuls("v3", FP32, 128, moving, 3)).interval(Engine::Pe, 1, 3)
        }
        ("PE", _) => {
            let limit = inputs.get("utilization_limit").is_some();
            let text = matmuls("v3", FP32, 128, moving, 6);
            course(&text, |c| c.power.limit_pe = limit).interval(Engine::Pe, 7, 9)
        }
        ("DVE", o) => {
            let first =
                if o.starts_with("TENSOR_TENSOR") { ADD.to_string() } else { copy("a", "y") };
            let text = operands("v3", "fp32", 512) + ".stream DVE\n" + &first + &copy("b", "z");
            plain(&text).interval(Engine::Dve, 0, 1)
        }
        ("ACT", _) => {
            let one = activate(1, "fp32", "p", 512);
            let text = operands("v3", "fp32", 512) + ".stream ACT\n" + &one + &one;
            plain(&text).interval(Engine::Act, 0, 1)
        }
        ("POOL", _) => {
            let one = instruction_copy(true, "");
            plain(&format!("{COPIED}.stream POOL\n{one}{one}")).interval(Engine::Pool, 0, 1)
        }
        _ => return Err("unknown instruction"),
    })
}

fn handoff(inputs: &Value) -> Result<f64, &'static str> {
    if inputs["from"].as_str().unwrap_or("").starts_with("ACT") {
        let text = operands("v3", "fp32", 512)
            + ".semaphore done\n.stream ACT\n"
            + activate(1, "fp32", "a", 512).trim_end()
            + " $S[done]++@complete\n.stream POOL\nMEMSET dst=fp32@z[1][8] dst_element_count=8 \
               set_value=0 num_active_channels=128 $S[done]>=1\n";
        let course = plain(&text);
        let (act, pool) = (course.of(Engine::Act)[0], course.of(Engine::Pool)[0]);
        return Ok((pool.start - act.end) as f64 * course.ns);
    }
    if inputs["engines"] == 1 {
        let copied = ring_copy(true).replace("NOP $S[done]>=1\n", "");
        let text = copied
            + ".tensor y sbuf bf16[4, 4096]\n.stream ACT\n"
            + activate(1, "bf16", "t", 4096).trim_end()
            + " $S[done]>=1\n";
        let text = text.replace("num_active_channels=128", "num_active_channels=4");
        let course = plain(&text);
        let act = course.of(Engine::Act)[0];
        return Ok((act.start - course.log.transfers[0].end) as f64 * course.ns);
    }
    let text = format!(
        "{COPIED}.tensor y sbuf bf16[128, 128]\n.semaphore done\n.stream POOL\n{}.stream ACT\n{} $S[done]>=1\n",
        instruction_copy(true, "semaphore=done sem_increment=1"),
        activate(1, "bf16", "t", 128).trim_end()
    );
    let course = plain(&text);
    let act = course.of(Engine::Act)[0];
    Ok((act.start - course.log.transfers[0].end) as f64 * course.ns)
}

fn dma(op: &str, inputs: &Value) -> Result<f64, &'static str> {
    let s = |k: &str| inputs[k].as_str().unwrap_or("");
    if s("generation") == "v2" && inputs["bytes"] == 4 {
        let text = ring_copy(true).replace("v3", "v2").replace("[4, 4096]", "[1, 2]");
        let t = &plain(&text).log.transfers[0];
        return Ok((t.end - t.start) as f64 * 1e9 / 5.6e9);
    }
    if s("generation") != "v3" {
        return Err("the load on the DMA engines of that profile is not known");
    }
    let load = s("direction").starts_with("HBM");
    let instruction = || {
        let text = format!("{COPIED}.stream POOL\n{}", instruction_copy(load, ""));
        let course = plain(&text);
        let t = &course.log.transfers[0];
        ((t.start - t.queued) as f64 * course.ns, (t.end - t.start) as f64 * course.ns)
    };
    // the part of one engine of 16: eight of the 128 partitions
    let part = || {
        let text = format!("{COPIED}.stream POOL\n{}", instruction_copy(load, ""));
        let text = text.replace("[128,1]", "[8,1]");
        let course = plain(&text);
        let t = &course.log.transfers[0];
        (t.end - t.start) as f64 * course.ns
    };
    let ring = || {
        let course = plain(&ring_copy(load));
        let t = &course.log.transfers[0];
        ((t.start - t.queued) as f64 * course.ns, (t.end - t.start) as f64 * course.ns)
    };
    match (op, s("kind")) {
        ("dma_queue_time", _) => Ok(instruction().1),
        ("dma_engine_time", _) if inputs["bytes"] == 32772 => Ok(ring().1),
        ("dma_engine_time", _) => Ok(part()),
        ("dma_trigger_to_data", "software DGE") => Ok(instruction().0),
        ("dma_trigger_to_data", _) if inputs.get("what").is_none() => Ok(ring().0),
        _ => Err("engines without data are not modelled"),
    }
}

/// Time of a stream of copies of 128 rows of `bytes`, relative to its bytes, on v2.
fn curve(bytes: u64) -> f64 {
    let config = MachineConfig::builtin(Generation::V2).dma;
    let engines = u64::from(config.engines) * config.load_bytes_per_us;
    let data = bytes * 128 * 1_000_000 / engines.min(config.hbm_bytes_per_us);
    let time = data.max(config.issue_ps(Engine::Pool, 128));
    bytes as f64 / time as f64
}

fn geometry(inputs: &Value, expect: &Value) -> Verdict {
    let c = MachineConfig::builtin(generation(inputs).unwrap());
    let g = &c.geometry;
    let have = BTreeMap::from([
        ("sbuf_partition_bytes", u64::from(g.sbuf_active)),
        ("sbuf_step_bytes", u64::from(g.sbuf_stride)),
        ("sbuf_partitions", u64::from(g.sbuf_partitions)),
        ("psum_banks", u64::from(g.psum_active / g.psum_bank)),
        ("psum_bank_bytes", u64::from(g.psum_bank)),
        ("psum_partitions", u64::from(g.psum_partitions)),
        ("pe_rows", u64::from(g.pe_rows)),
        ("pe_cols", u64::from(g.pe_cols)),
        ("act_channels", u64::from(g.channels)),
        ("pool_channels", u64::from(g.channels)),
    ]);
    // the other keys describe a compiler, or (semaphores of V1, HBM) contradict the ISA's package
    for (key, value) in have {
        assert_eq!(expect[key].as_u64(), Some(value), "{inputs} {key}");
    }
    Ok((0.0, 0.0, 0.0))
}

fn clock(inputs: &Value, expect: &Value) -> Verdict {
    let c = MachineConfig::builtin(generation(inputs).unwrap());
    let mhz10 = |e: Engine| c.engine(e).hz as f64 / 1e7;
    Ok(match inputs["engine_ordinal"].as_u64() {
        // the cost model counts PE at half the clock of the array
        Some(1) => (mhz10(Engine::Pe) / 2.0, expect.as_f64().unwrap(), 0.0),
        Some(2) => (mhz10(Engine::Act), expect.as_f64().unwrap(), 0.0),
        Some(3) => (mhz10(Engine::Pool), expect.as_f64().unwrap(), 0.0),
        Some(_) => (mhz10(Engine::Dve), expect.as_f64().unwrap(), 0.0),
        None => (c.act.hz as f64, expect["hz"].as_f64().unwrap(), 0.0),
    })
}

fn verdict(vector: &Value) -> Verdict {
    let (op, inputs, expect) =
        (vector["op"].as_str().unwrap(), &vector["inputs"], &vector["expect"]);
    let published = |have: Result<f64, &'static str>| -> Verdict {
        let want = expect["ns"].as_f64().unwrap();
        Ok((have?, want, expect["tol_ns"].as_f64().unwrap() + 0.04 * want))
    };
    match op {
        "model_geometry" => geometry(inputs, expect),
        "model_memory_totals" => {
            let g = MachineConfig::builtin(generation(inputs).unwrap()).geometry;
            let mib = |n: u32, bytes: u32| f64::from(n) * f64::from(bytes) / 1048576.0;
            let psum = mib(g.psum_partitions, g.psum_active);
            assert_eq!(psum, expect["psum_mib"].as_f64().unwrap(), "{inputs}");
            Ok((mib(g.sbuf_partitions, g.sbuf_active), expect["sbuf_mib"].as_f64().unwrap(), 0.0))
        }
        "cost_model_frequency" | "clock" => clock(inputs, expect),
        "psum_bank_bytes_cost_model" => {
            let bank = MachineConfig::builtin(Generation::V3).geometry.psum_bank;
            Ok((f64::from(bank), expect.as_f64().unwrap(), 0.0))
        }
        "profile_cycle_count" => {
            let hz = MachineConfig::builtin(Generation::V3).act.hz as f64;
            let want = expect["neuroncore_cycle_count"].as_f64().unwrap();
            let cycles = inputs["total_time_ms"].as_f64().unwrap() * 1e-3 * hz;
            Ok((cycles, want, want * expect["relative_tol"].as_f64().unwrap()))
        }
        "pe_peak_tflops" => {
            let c = MachineConfig::builtin(Generation::V1);
            let flops = 2 * u64::from(c.geometry.pe_rows) * u64::from(c.geometry.pe_cols) * c.pe.hz;
            let want = expect["tflops"].as_f64().unwrap();
            Ok((flops as f64 / 1e12, want, 0.05 * want))
        }
        "pe_peak_tops" => {
            use tpbemu::engine::cost::{CostQuery, CostRow, Operands, cost};
            let c = MachineConfig::builtin(Generation::V1);
            let mut operands = Operands::new();
            operands.source(tpbemu::memory::Space::Sbuf, 1, false, 1, &c);
            let work = cost(&CostQuery::new(CostRow::Matmul, 512, operands), Engine::Pe, &c).work;
            let flops = 2 * u64::from(c.geometry.pe_rows) * u64::from(c.geometry.pe_cols) * c.pe.hz;
            let want = expect["tops"].as_f64().unwrap();
            // four cores a chip
            Ok((4.0 * flops as f64 * 512.0 / work as f64 / 1e12, want, 0.05 * want))
        }
        "core_parameters" | "dve_default_opcode_count" => Err("describes a compiler"),
        "instruction_duration" => published(duration(inputs)),
        "issue_interval" => published(interval(inputs)),
        "dependent_start_to_start" => {
            let text = operands("v2", "fp32", 1) + ".semaphore done\n.stream ACT\n.repeat 3 i\n";
            let one = activate(1, "fp32", "y", 1);
            let text = text + one.trim_end() + " $S[done]>=i $S[done]++@complete\n.end\n";
            published(Ok(plain(&text).interval(Engine::Act, 1, 2)))
        }
        "start_offset" => {
            published(Ok(plain(&matmuls("v2", "", 1, 128, 1)).interval(Engine::Pe, 0, 1)))
        }
        "instruction_flops" => {
            let course = plain(&matmuls("v3", FP32, 128, 512, 1));
            let have = course.of(Engine::Pe)[1].flops as f64;
            Ok((have, expect["raw_flops"].as_f64().unwrap(), 0.0))
        }
        "semaphore_handoff" => published(handoff(inputs)),
        "semaphore_increment_spacing" => Err("the increments of a copy become visible together"),
        "dma_engine_time" | "dma_queue_time" | "dma_trigger_to_data" => published(dma(op, inputs)),
        "dma_relative_throughput" => {
            let bytes = inputs["bytes_per_partition"].as_u64().unwrap();
            let want = expect["relative"].as_f64().unwrap();
            Ok((curve(bytes) / curve(32768), want, expect["tol"].as_f64().unwrap() + 0.04 * want))
        }
        "kernel_time" => Err("run by tools/validate-timing"),
        "kernel_events" => Err("the kernel's instruction list is not published"),
        other => panic!("vector of kind {other}"),
    }
}

#[test]
fn published_times_are_met() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/golden_vendor_timing.json");
    let vectors: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut run, mut listed, mut wrong) = (0, BTreeMap::<&str, usize>::new(), Vec::new());
    for vector in &vectors {
        match verdict(vector) {
            Ok((have, want, tolerance)) => {
                run += 1;
                if (have - want).abs() > tolerance {
                    wrong.push(format!("{have:.1} for {want} +- {tolerance:.1}: {vector}"));
                }
            }
            Err(reason) => *listed.entry(reason).or_default() += 1,
        }
    }
    let not: usize = listed.values().sum();
    println!("{run} run, {not} listed as not executable");
    for (reason, count) in &listed {
        println!("  {count}: {reason}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((run, not), (83, 19), "the counts change on purpose only");
}

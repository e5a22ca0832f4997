//! What `tools/bench-compare` and `tools/bench-instructions` run.
//!
//! `bench program SHAPE INSTRUCTIONS FILE.tpbc` writes a program of the benches; `bench matmul`,
//! `bench add` and `bench copy` print nanoseconds per instruction, `bench q7-scalar` and `bench
//! q7-vector` nanoseconds per bundle: what the fastest tenth of the samples of half a second stays
//! below, which other work on the machine disturbs least.

#[path = "../benches/workloads/kernels.rs"]
mod kernels;
#[allow(dead_code)]
#[path = "../benches/workloads/mod.rs"]
mod workloads;

use std::time::{Duration, Instant};

use tpbemu::engine::testing::Bench;
use tpbemu::isa::Inst;
use tpbemu::q7::asm::{Options, assemble};
use tpbemu::q7::core::{Core, CoreConfig, NoBus, Stop};
use workloads::Shape;

type Failure = Box<dyn std::error::Error>;

const LENGTH: Duration = Duration::from_millis(500);

/// Nanoseconds of `run`, called in samples of `each` until the time is over: the lower decile.
fn decile(each: u32, mut run: impl FnMut()) -> f64 {
    let end = Instant::now() + LENGTH;
    let mut samples = Vec::new();
    run();
    while Instant::now() < end || samples.is_empty() {
        let start = Instant::now();
        (0..each).for_each(|_| run());
        samples.push(start.elapsed().as_nanos() as f64 / f64::from(each));
    }
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 10]
}

fn instruction((mut bench, inst): (Bench, Inst)) -> f64 {
    decile(1, || {
        bench.run(&inst).expect("legal instruction");
    })
}

fn bundles(source: &str) -> Result<f64, Failure> {
    const ROUNDS: u64 = 20_000;
    let options = Options { text_base: 0, data_base: 0x8_0000, ..Options::default() };
    let assembly = assemble("bench.s", source, &options).map_err(|e| format!("{e:?}"))?;
    let mut core = Core::new(CoreConfig::v3(), 0);
    let text = assembly.section(".text").ok_or("no text")?;
    core.iram[..text.bytes.len()].copy_from_slice(&text.bytes);
    core.pc = 0;
    let nanoseconds = decile(1, || {
        assert_eq!(core.run(&mut NoBus, ROUNDS), Stop::Limit);
    });
    Ok(nanoseconds / ROUNDS as f64)
}

fn program(shape: &str, count: &str, file: &str) -> Result<(), Failure> {
    let shape = Shape::ALL
        .into_iter()
        .find(|s| s.name() == shape)
        .ok_or_else(|| format!("there is no program shape `{shape}`"))?;
    Ok(shape.program(count.parse()?).save(file.as_ref())?)
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let nanoseconds = match args[..] {
        ["program", shape, count, file] => return program(shape, count, file),
        ["matmul"] => instruction(kernels::matmul()),
        ["add"] => instruction(kernels::add()),
        ["copy"] => instruction(kernels::copy()),
        ["q7-scalar"] => bundles(
            "movi a2, 0
            movi a3, 12345
            1: addi a2, a2, 1
            xor a4, a2, a3
            extui a5, a4, 3, 8
            add a6, a5, a2
            sub a7, a6, a4
            bnez a2, 1b
            j 1b",
        )?,
        ["q7-vector"] => bundles(
            "movi a3, 1000
            0: loop a3, 1f
            { nop; nop; nop; ivp_addnx16 v3, v1, v2 }
            { nop; nop; nop; ivp_subnx16 v4, v3, v2 }
            { nop; nop; nop; ivp_maxnx16 v5, v4, v1 }
            { nop; nop; nop; ivp_add2nx8 v1, v5, v3 }
            1: j 0b",
        )?,
        _ => {
            let shapes = Shape::ALL.map(Shape::name).join("|");
            let usage = "matmul | add | copy | q7-scalar | q7-vector";
            return Err(format!("usage: bench program {shapes} N FILE | {usage}").into());
        }
    };
    println!("{nanoseconds}");
    Ok(())
}

//! Schedules per second on one host core: a 200-instruction program on the skeleton, and on the
//! machine for comparison.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tpbemu::explore::{Plain, Schedule, Strategy, Subject};
use tpbemu::machine::{MachineConfig, Races};
use tpbemu::program::asm::{MemoryFiles, assemble};
use tpbemu::skeleton::Skeleton;
use tpbemu::skeleton::exec::Executor;
use tpbemu::skeleton::extract::{Extracted, extract};

fn main() {
    divan::main();
}

/// Forty rounds of five instructions on five engines and a DMA queue, each waiting for the one
/// before, with two buffers.
fn program() -> String {
    let mut text = String::from(
        ".generation v3\n.define IDENTITY 1\n.tensor h hbm fp32[128, 256] = fill(1.0)\n\
         .tensor x0 sbuf fp32[128, 256]\n.tensor x1 sbuf fp32[128, 256]\n\
         .tensor y0 sbuf fp32[128, 256]\n.tensor y1 sbuf fp32[128, 256]\n\
         .tensor z0 sbuf fp32[128, 256]\n.tensor z1 sbuf fp32[128, 256]\n\
         .semaphore loaded\n.semaphore scaled\n.semaphore active\n.semaphore cleared\n.semaphore seen\n\
         .queue q engine=SP semaphore=loaded\n\
         .block q even\n  copy dst=x0 src=h\n.end\n.block q odd\n  copy dst=x1 src=h\n.end\n",
    );
    let mut streams: [String; 5] = Default::default();
    for r in 0..40u32 {
        let (b, block) = (r % 2, ["even", "odd"][(r % 2) as usize]);
        // a buffer is free again once the round before the last is through
        let free = |name: &str| match r.checked_sub(1) {
            Some(n) if n > 0 => format!("$S[{name}]>={n}"),
            _ => String::new(),
        };
        streams[0] += &format!("  DMA_TRIGGER q {block} {}\n", free("seen"));
        streams[1] += &format!(
            "  TENSOR_SCALAR_ARITH_OP src=fp32@x{b} [1][256] dst=fp32@y{b} [1][256] op0=MULT imm0=2.0 num_active_channels=128 $S[loaded]>={} $S[scaled]++@complete\n",
            r + 1
        );
        streams[2] += &format!(
            "  ACTIVATE src=fp32@y{b} [1][256] dst=fp32@z{b} [1][256] activation_func=IDENTITY bias=0.0 in_bias_dtype=fp32/fp32 scale_value=1.0 num_active_channels=128 $S[scaled]>={} $S[active]++@complete\n",
            r + 1
        );
        streams[3] += &format!(
            "  MEMSET dst=fp32@z{b} [1][256] dst_element_count=256 set_value=0 num_active_channels=128 $S[active]>={} $S[cleared]++@complete\n",
            r + 1
        );
        streams[4] += &format!("  NOP $S[cleared]>={} $S[seen]++@complete\n", r + 1);
    }
    for (engine, lines) in ["SP", "DVE", "ACT", "POOL", "PE"].iter().zip(streams) {
        text += &format!(".stream {engine}\n{lines}");
    }
    text
}

fn subject() -> Subject {
    let program = assemble(Path::new("bench.tpb"), &program(), &MemoryFiles::default());
    let program = Arc::new(program.unwrap_or_else(|e| panic!("{e}")));
    Subject {
        config: Arc::new(MachineConfig::builtin(program.generation)),
        program,
        timing_only: true,
        max_cycles: 1_000_000_000,
        interrupt: Arc::new(AtomicBool::new(false)),
        threads: 0,
    }
}

fn skeleton(subject: &Subject) -> (Box<Skeleton>, Plain) {
    let Extracted::Skeleton(sk, _) = extract(subject).expect("the program loads") else {
        panic!("the program has no skeleton");
    };
    assert_eq!(sk.len(), 200);
    let trial = subject.run(Schedule::probe).expect("the program loads");
    assert!(trial.error.is_none(), "{:?}", trial.error);
    (sk, trial.plain)
}

/// One timing-only schedule on the skeleton: items are schedules.
#[divan::bench(args = [Strategy::Jitter, Strategy::Pct, Strategy::Adversarial], items_count = 1u32)]
fn on_the_skeleton(b: divan::Bencher, strategy: Strategy) {
    let subject = subject();
    let (sk, plain) = skeleton(&subject);
    let mut executor = Executor::new(&sk);
    let mut seed = 0;
    b.bench_local(|| {
        seed += 1;
        let schedule = Schedule::of_seed(strategy, seed, &plain);
        executor.run(&mut &schedule, &mut ())
    });
}

/// One timing-only schedule on the machine, with all its checks.
#[divan::bench(args = [Strategy::Jitter], items_count = 1u32)]
fn on_the_machine(b: divan::Bencher, strategy: Strategy) {
    let subject = subject();
    let (_, plain) = skeleton(&subject);
    let mut seed = 0;
    b.bench_local(|| {
        seed += 1;
        subject
            .run_with(|| Schedule::of_seed(strategy, seed, &plain), Races::Stop)
            .expect("the program loads")
    });
}

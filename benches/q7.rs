//! Speed of the Q7 core: scalar loop, vector bundles, memory bundles. Each row is bundles per second.

use divan::counter::ItemsCount;
use tpbemu::q7::asm::{Options, assemble};
use tpbemu::q7::core::{Core, CoreConfig, NoBus, Stop};

/// Short, so that a sample fits between two preemptions of a busy machine.
const ROUNDS: u64 = 20_000;

fn core(source: &str) -> Core {
    let options = Options { text_base: 0, data_base: 0x8_0000, ..Options::default() };
    let assembly = assemble("bench.s", source, &options).expect("bench program");
    let mut core = Core::new(CoreConfig::v3(), 0);
    let text = assembly.section(".text").expect("text");
    core.iram[..text.bytes.len()].copy_from_slice(&text.bytes);
    core
}

fn bench(bencher: divan::Bencher, source: &str) {
    let mut core = core(source);
    core.pc = 0;
    assert_eq!(core.run(&mut NoBus, 100), Stop::Limit);
    bencher.counter(ItemsCount::new(ROUNDS)).bench_local(|| {
        assert_eq!(core.run(&mut NoBus, ROUNDS), Stop::Limit);
        core.a(2)
    });
}

#[divan::bench(sample_count = 2000, sample_size = 1)]
fn scalar_loop(bencher: divan::Bencher) {
    bench(
        bencher,
        "movi a2, 0
        movi a3, 12345
        1: addi a2, a2, 1
        xor a4, a2, a3
        extui a5, a4, 3, 8
        add a6, a5, a2
        sub a7, a6, a4
        bnez a2, 1b
        j 1b",
    );
}

#[divan::bench(sample_count = 2000, sample_size = 1)]
fn scalar_zero_overhead_loop(bencher: divan::Bencher) {
    bench(
        bencher,
        "movi a2, 0
        0: movi a3, 1000
        loop a3, 1f
        addi a2, a2, 1
        xor a4, a2, a3
        add a6, a4, a2
        1: j 0b",
    );
}

#[divan::bench(sample_count = 2000, sample_size = 1)]
fn scalar_memory(bencher: divan::Bencher) {
    bench(
        bencher,
        "movi a8, 0x80000
        0: l32i a2, a8, 0
        addi a2, a2, 1
        s32i a2, a8, 0
        l16ui a3, a8, 2
        s8i a3, a8, 8
        j 0b",
    );
}

#[divan::bench(sample_count = 2000, sample_size = 1)]
fn vector_add(bencher: divan::Bencher) {
    bench(
        bencher,
        "movi a3, 1000
        0: loop a3, 1f
        { nop; nop; nop; ivp_addnx16 v3, v1, v2 }
        { nop; nop; nop; ivp_subnx16 v4, v3, v2 }
        { nop; nop; nop; ivp_maxnx16 v5, v4, v1 }
        { nop; nop; nop; ivp_add2nx8 v1, v5, v3 }
        1: j 0b",
    );
}

#[divan::bench(sample_count = 2000, sample_size = 1)]
fn vector_load_store(bencher: divan::Bencher) {
    bench(
        bencher,
        "movi a8, 0x80000
        movi a3, 1000
        0: loop a3, 1f
        { ivp_lv2nx8_i v1, a8, 0; nop }
        { nop; nop; nop; ivp_addnx16 v3, v1, v2 }
        { ivp_sv2nx8_ip v3, a8, 0; nop }
        1: j 0b",
    );
}

fn main() {
    divan::main();
}

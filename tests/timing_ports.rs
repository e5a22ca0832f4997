//! Shared resources: memory ports, the array of PE and its second set of weights, DMA engines.

use std::path::Path;
use std::sync::Arc;

use tpbemu::isa::Engine;
use tpbemu::machine::{self, MachineConfig, Options, RunResult};
use tpbemu::program::asm::{Disk, assemble};
use tpbemu::trace::StallCause;

fn run(text: &str) -> RunResult {
    let program = assemble(Path::new("ports.tpb"), text, &Disk).unwrap_or_else(|e| panic!("{e}"));
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = || Options { check_unwritten: false, timing_only: true, ..Options::default() };
    let result =
        machine::run(Arc::new(program), config, options, |_, _| Vec::new(), false).unwrap();
    assert!(result.finished.error.is_none(), "{}", result.finished.error.unwrap());
    result
}

/// Ticks that an engine waited for a port.
fn port_stall(result: &RunResult, engine: Engine) -> u64 {
    let stalls = &result.summary.streams[engine.index()].stall_ticks;
    stalls.get(&StallCause::Port).copied().unwrap_or(0)
}

const FILL: &str = "[1][512] dst_element_count=512 set_value=0 num_active_channels=128\n";

fn fills(generation: &str) -> String {
    format!(
        ".generation {generation}\n.tensor a sbuf fp32[128, 512]\n.tensor b sbuf fp32[128, 512]\n\
         .stream DVE\n.repeat 4 i\nMEMSET dst=fp32@a{FILL}.end\n\
         .stream POOL\n.repeat 4 i\nMEMSET dst=fp32@b{FILL}.end\n"
    )
}

#[test]
fn dve_and_pool_exclude_each_other_from_sbuf_on_v2_only() {
    let v2 = run(&fills("v2"));
    // eight fills of 512 elements, one at a time: no less than their work
    let dve = 4 * 512 * v2.summary.periods[Engine::Dve.index()];
    let pool = 4 * 512 * v2.summary.periods[Engine::Pool.index()];
    assert!(v2.finished.end >= dve + pool, "{} for {}", v2.finished.end, dve + pool);
    assert!(port_stall(&v2, Engine::Dve) + port_stall(&v2, Engine::Pool) > 0);
    let v3 = run(&fills("v3"));
    assert_eq!(port_stall(&v3, Engine::Dve) + port_stall(&v3, Engine::Pool), 0);
    let pool = 4 * 512 * v3.summary.periods[Engine::Pool.index()];
    let dve = 4 * 512 * v3.summary.periods[Engine::Dve.index()];
    assert!(v3.finished.end < dve + pool);
}

/// ACT and DVE copy out of PSUM at the same time, from bank 0 and from `bank`.
fn drains(generation: &str, bank: u32) -> RunResult {
    run(&format!(
        ".generation {generation}\n.tensor p psum fp32[128, 1024] bank 0\n\
         .tensor a sbuf fp32[128, 512]\n.tensor b sbuf fp32[128, 512]\n\
         .stream ACT\nACTIVATE src=fp32@p[1][512] dst=fp32@a[1][512] activation_func=1 \
         scale_value=1.0 bias=0.0 in_bias_dtype=fp32/fp32 num_active_channels=128\n\
         .stream DVE\nCOPY src=fp32@p+{}[1][512] dst=fp32@b[1][512] num_active_channels=128\n",
        bank * 2048
    ))
}

#[test]
fn dve_and_act_exclude_each_other_from_psum_or_from_a_bank() {
    for (generation, bank, waits) in
        [("v2", 0, true), ("v2", 1, true), ("v3", 0, true), ("v3", 1, false)]
    {
        let result = drains(generation, bank);
        let stall = port_stall(&result, Engine::Act) + port_stall(&result, Engine::Dve);
        assert_eq!(stall > 0, waits, "{generation} bank {bank}: {stall}");
    }
}

#[test]
fn the_performance_modes_of_dve_share_a_bus_with_pool_on_v3() {
    let both = |dve: &str| {
        run(&format!(
            ".generation v3\n.tensor a sbuf fp32[128, 512]\n.tensor b sbuf fp32[128, 512]\n\
             .tensor c sbuf fp32[128, 512]\n.stream DVE\n.repeat 4 i\n{dve}\n.end\n\
             .stream POOL\n.repeat 4 i\nMEMSET dst=fp32@c{FILL}.end\n"
        ))
    };
    let stall = |r: &RunResult| port_stall(r, Engine::Dve) + port_stall(r, Engine::Pool);
    let fast = both("COPY src=fp32@a[1][512] dst=fp32@b[1][512] num_active_channels=128");
    assert!(stall(&fast) > 0, "two elements a cycle take the bus");
    let slow = both(
        "TENSOR_TENSOR_ARITH_OP src0=fp32@a[1][512] src1=fp32@b[1][512] dst=fp32@b[1][512] \
         op=ADD num_active_channels=128",
    );
    assert_eq!(stall(&slow), 0, "the plain rate does not");
}

/// Ticks of `n` matmuls of 512 columns, in the row groups and column groups given in turn.
fn tiles(n: u32, groups: &[(u32, u32)], moving: u32) -> u64 {
    let mut text = format!(
        ".generation v3\n.tensor w sbuf bf16[128, 128]\n.tensor x sbuf bf16[128, 512]\n\
         .tensor acc psum fp32[128, {}]\n.stream PE\n",
        512 * groups.len()
    );
    let (rows, cols) = (128 / groups.len() as u32, 32);
    let mut loads = String::new();
    for k in 0..n {
        let (r, c) = groups[k as usize % groups.len()];
        let (row, col) = (r.trailing_zeros() * 32, c.trailing_zeros() * 32);
        let tile = format!(
            "num_active_rows={} num_active_cols={cols} row_grp={r} col_grp={c}",
            rows.min(if r == 15 { 128 } else { 32 })
        );
        if (k as usize) < groups.len() {
            loads += &format!("LDWEIGHTS src=bf16@w+part({row})+62[-1][32] {tile}\n");
        }
        let bank = k as usize % groups.len();
        loads += &format!(
            "MATMUL src=bf16@x+part({row})[1][{moving}] \
             dst=@acc+psum_part({col})+bank({bank})[1][{moving}] {tile}\n"
        );
    }
    text += &loads;
    run(&text).finished.end
}

#[test]
fn tiles_that_share_no_part_of_the_array_work_at_the_same_time() {
    // four row groups, one column group: four matmuls take little more than one
    let one = tiles(1, &[(1, 1)], 512);
    let four = tiles(4, &[(1, 1), (2, 1), (4, 1), (8, 1)], 512);
    let same = tiles(4, &[(1, 1)], 512);
    let period = {
        let config = MachineConfig::builtin(tpbemu::isa::Generation::V3);
        tpbemu::machine::time::Timebase::new(&config).unwrap().period(Engine::Pe)
    };
    assert_eq!(same - one, 3 * 520 * period, "the same tile: one after the other");
    assert!(four - one < 520 * period, "{four} for four tiles, {one} for one");
    // the whole array waits for a tile
    let mixed = tiles(2, &[(15, 1), (1, 1)], 512);
    assert!(mixed > one + 500 * period, "{mixed} {one}");
    // short ones start every 64 cycles
    assert_eq!(tiles(9, &[(1, 1)], 8) - tiles(8, &[(1, 1)], 8), 64 * period);
}

#[test]
fn weight_loads_cost_nothing_behind_a_matmul() {
    let pairs = |loads: &str, n: u32| {
        let tile = "num_active_rows=128 num_active_cols=128 row_grp=15 col_grp=15";
        let load = format!("LDWEIGHTS src=bf16@w+254[-1][128] {tile}\n");
        let (once, each) =
            if loads == "each" { (String::new(), load) } else { (load, String::new()) };
        run(&format!(
            ".generation v3\n.tensor w sbuf bf16[128, 128]\n.tensor x sbuf bf16[128, 512]\n\
             .tensor acc psum fp32[128, 512] bank 0\n.stream PE\n{once}.repeat {n} i\n{each}\
             MATMUL src=bf16@x[1][512] dst=@acc[1][512] {tile}\n.end\n"
        ))
        .finished
        .end
    };
    assert_eq!(pairs("each", 20), pairs("once", 20));
}

#[test]
fn two_queues_share_the_dma_engines() {
    let copies = |queues: u32| {
        let mut text = String::from(".generation v3\n");
        let mut sp = String::from(".stream SP\n");
        for q in 0..queues {
            text += &format!(
                ".tensor h{q} hbm fp32[128, 4096]\n.tensor t{q} sbuf fp32[128, 4096]\n.semaphore s{q}\n\
                 .queue q{q} engine=SP semaphore=s{q} kind=in\n.block q{q} all\ncopy dst=t{q} src=h{q}\n.end\n"
            );
            sp += &format!("DMA_TRIGGER q{q} all\n");
        }
        for q in 0..queues {
            sp += &format!("NOP $S[s{q}]>=1\n");
        }
        let result = run(&(text + &sp));
        result.finished.end as f64 * 1e9 / result.summary.tick_hz as f64
    };
    let (one, two) = (copies(1), copies(2));
    // 2 MiB at the bandwidth of HBM
    let data = 2.0 * 1048576.0 / 358.0;
    assert!((two - one - data).abs() < 0.1 * data, "{one} {two}");
}

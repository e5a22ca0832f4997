//! Branch loops that never end are told from those that do.

use std::sync::Arc;

use tpbemu::cli::run::load;
use tpbemu::machine::{self, MachineConfig, Options};
use tpbemu::{Error, ErrorClass};

fn run(text: &str) -> Option<Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.tpb");
    std::fs::write(&path, text).unwrap();
    let program = Arc::new(load(&path, None).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let options = || Options { max_cycles: Some(2_000_000), ..Options::default() };
    machine::run(program, config, options, |_, _| Vec::new(), false).unwrap().finished.error
}

fn livelock(text: &str) -> String {
    let error = run(text).expect("it never ends");
    assert_eq!(error.class, ErrorClass::Livelock, "{error}");
    error.message
}

/// A loop at ACT that looks at semaphore 3 until it is `n`.
fn until(n: u32) -> String {
    format!(
        ".stream ACT\nlook:\n  TEST_EVENT_SEM mode=READ_SEM num_evt_sem=1 evt_sem_ids=[3] \
         value_registers=[1]\n  COMPARE_BRANCH cmp_op=LT_IMM cmp_dtype=int32 cmp_reg0=R1 \
         cmp_immediate={n} br_immediate=look\n"
    )
}

#[test]
fn a_loop_that_something_late_ends_is_none() {
    let late = "  NOP\n".repeat(3000);
    let text = format!(".generation v4\n.stream POOL\n{late}  NOP $S[3]++@complete\n{}", until(1));
    assert_eq!(run(&text), None);
    let message = livelock(&text.replace("$S[3]++", "$S[4]++"));
    assert!(message.contains("ACT loops over pc 0 to 1"), "{message}");
    assert!(message.contains("looks at $S[3], it is 0; nothing left"), "{message}");
}

#[test]
fn a_loop_that_a_transfer_ends_is_none() {
    let text = format!(
        ".generation v4\n.tensor a hbm fp32[128, 512] = fill(1.0)\n.tensor b sbuf fp32[128, 512]\n\
         .queue q engine=SP kind=in\n.block q load $S[3]+=1\n  copy dst=b src=a\n.end\n\
         .stream SP\n  DMA_TRIGGER q load\n{}",
        until(1)
    );
    assert_eq!(run(&text), None);
}

#[test]
fn two_loops_that_look_at_each_other_are_one() {
    let other = until(1).replace("ACT", "POOL").replace("[3]", "[4]");
    let tail = "  NOP $S[4]++@complete\n";
    let text = format!(".generation v4\n{}{tail}{other}  NOP $S[3]++@complete\n", until(1));
    let message = livelock(&text);
    for (engine, id, by) in [("ACT", 3, "POOL"), ("POOL", 4, "ACT")] {
        assert!(message.contains(&format!("{engine} loops over pc 0 to 1")), "{message}");
        let looks = format!("looks at $S[{id}], it is 0\n        could be supplied by {by} pc 2");
        assert!(message.contains(&looks), "{message}");
    }
}

#[test]
fn a_loop_that_counts_ends_and_one_that_alternates_does_not() {
    let change = |op: &str| {
        format!(
            ".generation v3\n.stream ACT\nagain:\n  ALU_OP op={op} dtype=int32 dst_dtype=int32 \
             src1_datasrc=IMMEDIATE src0_reg_lo=R1 immediate=1 dst_reg_lo=R1\n  COMPARE_BRANCH \
             cmp_op=NE_IMM cmp_dtype=int32 cmp_reg0=R1 cmp_immediate=700 br_immediate=again\n"
        )
    };
    assert_eq!(run(&change("ADD_INT")), None);
    // 1, 0, 1, 0, ...: no lap is like the one before
    assert!(livelock(&change("BITWISE_XOR")).contains("ACT loops over pc 0 to 1"));
}

#[test]
fn a_loop_of_the_v1_sp_is_one() {
    let sp = |wait: &str| {
        format!(
            ".generation v1\n.event go = 20\n.stream SP\nagain:\n  {wait}\n  BRANCH_U target=again\n\
             out:\n  NOTIFY_HALT value=0\n.stream ACT\n  EVENT_SET event_idx=go\n"
        )
    };
    assert_eq!(run(&sp("BRANCH_C_EVENT_SET event_idx=go target=out")), None);
    let message = livelock(&sp("WAIT_CYCLES cycles=3"));
    assert!(message.contains("SP loops over pc 0 to 1"), "{message}");
    assert!(message.contains("looks at nothing"), "{message}");
}

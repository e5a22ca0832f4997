//! `tpbemu asm`, `disasm` and `validate` as a user calls them.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;

const SOURCE: &str = "\
.generation v3
.semaphore s
.tensor big hbm fp32[40, 40] = iota(0, 1)
.stream PE
top:
  NOP $S[s]>=2
  COMPARE_BRANCH cmp_op=EQ_IMM cmp_dtype=int32 cmp_reg0=R1 cmp_immediate=5 br_immediate=top
.stream SP
  EVENT_SEMAPHORE $S[s]++@complete
";

fn tpbemu(directory: &Path) -> Command {
    let mut command = Command::cargo_bin("tpbemu").unwrap();
    command.current_dir(directory);
    command
}

#[test]
fn assembles_disassembles_and_assembles_again() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("a.tpb"), SOURCE).unwrap();
    tpbemu(at)
        .args(["asm", "a.tpb", "-o", "a.tpbc", "--listing"])
        .assert()
        .success()
        .stdout(predicate::str::contains("a.tpb:6").and(predicate::str::contains("NOP $S[0]>=2")));
    tpbemu(at).args(["disasm", "a.tpbc", "-o", "b.tpb"]).assert().success();
    assert_eq!(fs::read(at.join("big.bin")).unwrap().len(), 6400);
    tpbemu(at).args(["asm", "b.tpb", "-o", "b.tpbc"]).assert().success();
    tpbemu(at).args(["disasm", "b.tpbc", "-o", "c.tpb"]).assert().success();
    let text = |name: &str| fs::read_to_string(at.join(name)).unwrap();
    assert_eq!(text("b.tpb"), text("c.tpb"));
    assert!(text("b.tpb").contains("br_immediate=top"));
    // Nothing but the files asked for is left behind.
    assert_eq!(fs::read_dir(at).unwrap().count(), 6);
}

#[test]
fn raw_streams() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let mut word = [0u8; 64];
    word[..8].copy_from_slice(&[0xa0, 0x10, 0, 0, 4, 11, 0, 0]);
    fs::write(at.join("pool.bin"), word).unwrap();
    fs::write(at.join("sp.bin"), []).unwrap();
    tpbemu(at)
        .args(["disasm", ".", "--gen", "v2"])
        .assert()
        .success()
        .stdout(predicate::str::contains(".stream POOL\n  EVENT_SEMAPHORE $S[11]>0\n"));
    tpbemu(at).args(["disasm", "pool.bin", "--gen", "v2"]).assert().success();
    tpbemu(at)
        .args(["disasm", "pool.bin"])
        .assert()
        .code(3)
        .stderr(predicate::str::contains("do not say their generation"));
    fs::write(at.join("act.bin"), [0; 63]).unwrap();
    tpbemu(at)
        .args(["disasm", ".", "--gen", "v2"])
        .assert()
        .code(3)
        .stderr(predicate::str::contains("no multiple of 64"));
}

#[test]
fn validate_names_line_and_rule() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("good.tpb"), SOURCE).unwrap();
    tpbemu(at)
        .args(["validate", "good.tpb"])
        .assert()
        .success()
        .stdout(predicate::str::contains("3 words, every rule holds"));
    let bad =
        ".generation v3\n.stream PE\n  NOP\n  MATMUL src=fp32@0[1][4] dst=0[1][4] rows=1 cols=1\n";
    fs::write(at.join("bad.tpb"), bad).unwrap();
    tpbemu(at)
        .args(["validate", "bad.tpb"])
        .assert()
        .code(10)
        .stdout(
            predicate::str::contains("bad.tpb:4")
                .and(predicate::str::contains("illegal instruction [")),
        )
        .stderr(predicate::str::contains("in 2 words"));
}

#[test]
fn mistakes_are_shown_with_a_caret() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("a.tpb"), ".generation v3\n.stream PE\n  NOPP\n").unwrap();
    tpbemu(at).args(["asm", "a.tpb", "-o", "a.tpbc"]).assert().code(3).stderr(
        predicate::str::contains("a.tpb:3:3").and(predicate::str::contains("did you mean `NOP`?")),
    );
    assert!(!at.join("a.tpbc").exists());
    tpbemu(at).args(["asm", "none.tpb", "-o", "x.tpbc"]).assert().code(5);
    tpbemu(at).args(["asm", "a.tpb"]).assert().code(4);
}

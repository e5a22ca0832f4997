//! The debugger: scripted sessions against recorded ones, agreement with an undisturbed run, and
//! random command lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use assert_cmd::Command;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tpbemu::cli::run::load;
use tpbemu::debug::tui::{App, draw};
use tpbemu::debug::{Debugger, Session, help};
use tpbemu::machine::{self, MachineConfig, Options};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn debugger(name: &str) -> Debugger {
    let path = Path::new("programs").join(name);
    let program = Arc::new(load(&root().join(&path), None).unwrap());
    let config = Arc::new(MachineConfig::builtin(program.generation));
    let session = Session::new(program, config, Options::default(), None).unwrap();
    Debugger::new(session, &root().join(&path))
}

/// Paths of this checkout must not be part of what is compared.
fn neutral(text: &str) -> String {
    text.replace(&format!("{}/", root().display()), "")
}

fn session(name: &str) -> String {
    let script = root().join("tests/data/debug").join(format!("{name}.txt"));
    let text = std::fs::read_to_string(script).unwrap();
    let out = debugger(name).script(&text);
    assert_eq!(out, debugger(name).script(&text), "{name} is not the same twice");
    neutral(&out)
}

#[test]
fn a_session_on_matmul() {
    insta::assert_snapshot!(session("matmul"));
}

#[test]
fn a_session_on_v1_sp() {
    insta::assert_snapshot!(session("v1-sp"));
}

#[test]
fn a_session_on_q7_custom() {
    insta::assert_snapshot!(session("q7-custom"));
}

#[test]
fn a_session_on_deadlock() {
    insta::assert_snapshot!(session("deadlock"));
}

/// However one wanders through a run, its course is that of the plain one.
#[test]
fn stepping_and_going_back_do_not_change_the_course() {
    for name in ["v1-sp", "q7-custom", "mlp", "deadlock"] {
        let mut d = debugger(name);
        for line in [
            "stepi 5",
            "rstepi 2",
            "step 40",
            "goto 3000",
            "rstep 7",
            "stepi 11",
            "goto 100",
            "break q7",
            "continue",
            "rcontinue",
            "delete all",
            "goto 2000",
            "rstepi 4",
            "goto 99999999999",
            "rstepi 3",
            "restart",
            "continue",
        ] {
            d.execute(line).unwrap_or_else(|e| panic!("{name}: {line}: {e}"));
        }
        let program = Arc::clone(d.session.machine.program());
        let config = Arc::new(MachineConfig::builtin(program.generation));
        let none = |_: &_, _: &_| Vec::new();
        let whole = machine::run(program, config, Options::default, none, false).unwrap();
        assert_eq!(d.session.trail(|t| t.digest()), whole.trace_digest, "{name}");
        let error = d.session.ended.as_ref().unwrap().error.as_ref().map(ToString::to_string);
        assert_eq!(error, whole.finished.error.map(|e| e.to_string()), "{name}");
    }
}

#[test]
fn reverse_comes_back_to_the_very_same_state() {
    let mut d = debugger("v1-conv");
    let look = |d: &mut Debugger| d.script("where\nsync\nqueues\nlog 20\nregs ACT\nregs SP");
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push(look(&mut d));
        d.execute("stepi").unwrap();
    }
    while let Some(before) = seen.pop() {
        d.execute("rstepi").unwrap();
        // a step back ends where the instruction has just left the head, as a step forward does
        if !seen.is_empty() {
            assert_eq!(look(&mut d), before);
        }
    }
}

#[test]
fn a_pipe_is_a_script() {
    Command::cargo_bin("tpbemu")
        .unwrap()
        .args(["debug", "programs/v1-sp"])
        .write_stdin("break event done\ncontinue\nquit\nnever\n")
        .current_dir(root())
        .assert()
        .success()
        .stdout(predicates::str::contains("breakpoint 1: $E[done] becomes 1 by ACT"))
        .stdout(predicates::str::contains("never").count(0));
    Command::cargo_bin("tpbemu")
        .unwrap()
        .args(["debug", "programs/v1-sp", "-x", "stepi 2; where"])
        .current_dir(root())
        .assert()
        .success()
        .stdout(predicates::str::contains("> where"));
}

#[test]
fn every_command_has_help_and_is_executed() {
    let mut d = debugger("deadlock");
    for command in help::COMMANDS {
        let text = d.execute(&format!("help {}", command.name)).unwrap();
        assert!(text.contains(command.about), "{}", command.name);
        if let Err(e) = d.execute(command.name) {
            assert!(
                !e.contains("does nothing") && !e.contains("no command"),
                "{}: {e}",
                command.name
            );
        }
    }
}

#[test]
fn the_debugger_starts_at_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let every = ["--checkpoint-every", "300", "--checkpoint-dir"];
    Command::cargo_bin("tpbemu")
        .unwrap()
        .args(["run", "programs/v1-sp", "--summary", "none"])
        .args(every)
        .arg(dir.path())
        .current_dir(root())
        .assert()
        .success();
    let file = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    Command::cargo_bin("tpbemu")
        .unwrap()
        .args(["debug", "programs/v1-sp", "-x", "where; rstepi; continue; print flag", "--restore"])
        .arg(file)
        .current_dir(root())
        .assert()
        .success()
        .stdout(predicates::str::contains("the start"))
        .stdout(predicates::str::contains("12648430"));
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    neutral(&terminal.backend().to_string())
}

#[test]
fn the_screen() {
    let mut app = App::new(debugger("v1-sp"));
    for line in ["break event done", "display print t[0,0:4]", "continue"] {
        app.execute(line);
    }
    insta::assert_snapshot!("screen", screen(&mut app, 120, 40));
    app.help = true;
    insta::assert_snapshot!("keys", screen(&mut app, 120, 40));
    // any size will do
    for (width, height) in [(1, 1), (7, 3), (20, 60), (300, 2), (80, 24)] {
        screen(&mut app, width, height);
    }
}

fn word() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = help::COMMANDS
        .iter()
        .flat_map(|c| std::iter::once(c.name).chain(c.short.iter().copied()))
        .filter(|n| !matches!(*n, "quit" | "q" | "exit" | "source"))
        .chain([
            "PE",
            "ACT",
            "SP",
            "POOL",
            "sem",
            "event",
            "op",
            "read",
            "write",
            "access",
            "cycle",
            "tick",
            "queue",
            "q7",
            "all",
            "t",
            "t[0]",
            "t[",
            "out[0:3,1]",
            "flag",
            "flag_sb",
            "fp32",
            "bf16",
            "sbuf:0:0",
            "psum:0-200:1",
            "hbm:0xffffffffffffffff",
            "@0x2000000",
            "1x4",
            "-1x3",
            "0x",
            "x",
            "SP:3",
            "ACT:99999",
            "done",
            "store",
            "enter",
            "step",
            "vectors",
            "5",
            "0",
            "1ns",
            "-1",
            "18446744073709551615",
            "rw",
            "é",
            "+",
            "t+4",
            "t+18446744073709551615",
            "9223372036854775807x2",
        ])
        .collect();
    proptest::sample::select(names).prop_map(str::to_string)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn no_command_line_panics(
        lines in prop::collection::vec(
            prop_oneof![
                4 => prop::collection::vec(word(), 1..5).prop_map(|w| w.join(" ")),
                1 => "[ -~]{0,30}".prop_filter("stays inside", |l| {
                    let name = l.split_whitespace().next().unwrap_or("");
                    !name.starts_with("so") && !name.starts_with('q')
                }),
            ],
            1..30,
        ),
        q7 in any::<bool>(),
    ) {
        let mut app = App::new(debugger(if q7 { "q7-custom" } else { "v1-sp" }));
        for line in &lines {
            app.execute(line);
        }
        screen(&mut app, 100, 30);
        // and it still works
        app.debugger.execute("restart").unwrap();
        app.debugger.execute("delete all").unwrap();
        app.debugger.execute("continue").unwrap();
        prop_assert!(app.debugger.session.ended.is_some());
    }
}

#[test]
fn the_terminal_interface_under_tmux() {
    let tmux = std::process::Command::new("tmux").arg("-V").output();
    if !tmux.is_ok_and(|o| o.status.success()) {
        println!("skipped: there is no tmux");
        return;
    }
    let binary = assert_cmd::cargo::cargo_bin("tpbemu");
    let out = std::process::Command::new(root().join("tools/debug-tmux"))
        .arg(binary)
        .env("TERM", "xterm-256color")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{error}");
}

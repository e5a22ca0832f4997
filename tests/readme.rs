//! What the README and the coverage command say is what the machine does.

use std::path::Path;

use tpbemu::ErrorClass;
use tpbemu::engine::testing::Bench;
use tpbemu::isa::{Engine, Generation, Inst};
use tpbemu::machine::MachineConfig;
use tpbemu::machine::coverage::{self, Coverage};
use tpbemu::machine::image::{Image, Kind};
use tpbemu::program::Program;

fn file(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Set UPDATE=1 to rewrite the table.
#[test]
fn the_coverage_table_is_true() {
    let readme = file("README.md");
    let (before, rest) = readme.split_once("<!-- coverage -->\n").unwrap();
    let (table, after) = rest.split_once("<!-- /coverage -->").unwrap();
    let want = coverage::table();
    if std::env::var_os("UPDATE").is_some() {
        let text = format!("{before}<!-- coverage -->\n{want}<!-- /coverage -->{after}");
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"), text).unwrap();
        return;
    }
    assert_eq!(table, want, "run the test with UPDATE=1 to rewrite the README");
}

/// The state that the coverage list gives is the one that a word of the opcode meets.
#[test]
fn coverage_is_what_the_machine_does() {
    let mut seen = 0;
    for g in Generation::ALL {
        let config = MachineConfig::builtin(g);
        for (def, state) in coverage::list(g) {
            if state == Coverage::Host {
                continue;
            }
            let engine = Engine::ALL
                .into_iter()
                .find(|e| tpbemu::isa::validate::queue_legal(def, g, *e))
                .unwrap_or(Engine::Pool);
            let mut program = Program::new(g);
            program.stream_mut(engine).words.push(Inst::empty(g, def.byte).bytes);
            let image = Image::new(&program, &config, false).unwrap();
            let class = match &image.words[engine.index()][0].kind {
                Kind::Refuse(e) => Some(e.class),
                _ => None,
            };
            match state {
                Coverage::Unimplemented => {
                    // a validator may refuse the empty word first
                    let fine =
                        [Some(ErrorClass::Unimplemented), Some(ErrorClass::IllegalInstruction)];
                    assert!(fine.contains(&class), "{g} {}: {class:?}", def.name);
                }
                Coverage::Refused(rule, _) => {
                    let mut bench = Bench::new(g, engine);
                    let error = bench.run(&Inst::empty(g, def.byte)).unwrap_err();
                    assert_eq!(error.class, ErrorClass::IllegalInstruction, "{g} {}", def.name);
                    assert_eq!(error.rule.as_deref(), Some(rule), "{g} {}", def.name);
                }
                Coverage::MissingSpecification(..) | Coverage::Library(..) => {
                    assert!(class.is_some(), "{g} {}: {class:?}", def.name);
                }
                Coverage::Done => {
                    let bad =
                        [Some(ErrorClass::Unimplemented), Some(ErrorClass::MissingSpecification)];
                    assert!(!bad.contains(&class), "{g} {}: {class:?}", def.name);
                }
                Coverage::Host => {}
            }
            seen += 1;
        }
    }
    println!("{seen} opcodes of all generations looked at");
}

#[test]
fn every_list_of_open_choices_is_linked() {
    let index = file("docs/open-choices.md");
    for entry in
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/open-choices")).unwrap()
    {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(
            index.contains(&format!("open-choices/{name}")),
            "{name} is not in docs/open-choices.md"
        );
    }
}

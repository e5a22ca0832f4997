//! `docs/instruction-set.md` is what the tables say, and every open choice an opcode names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tpbemu::cli::reference::instruction_set;
use tpbemu::isa::{Class, Generation, opcode_table};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Set UPDATE=1 to rewrite the page.
#[test]
fn the_page_is_what_the_tables_say() {
    let (path, want) = (root().join("docs/instruction-set.md"), instruction_set());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &want).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((n, (have, want))) =
        page.lines().zip(want.lines()).enumerate().find(|(_, (a, b))| a != b)
    {
        panic!(
            "docs/instruction-set.md is stale in line {}: it says\n  {have}\nand the tables\n  {want}\n\
             UPDATE=1 cargo test --test instruction_set writes it anew",
            n + 1
        );
    }
    assert!(page == want, "docs/instruction-set.md is stale: run this test with UPDATE=1");
    let entries = page.lines().filter(|l| l.starts_with("### ")).count();
    let tables = [Generation::V1, Generation::V5]
        .into_iter()
        .flat_map(opcode_table)
        .filter(|d| d.class != Class::Sentinel)
        .count();
    assert_eq!(entries, tables);
}

/// First cells of the tables of docs/open-choices, by topic.
fn choices() -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("docs/open-choices")).unwrap() {
        let path = entry.unwrap().path();
        let topic = path.file_stem().unwrap().to_str().unwrap().to_string();
        let rows = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter_map(|l| Some(l.strip_prefix("| ")?.split(" |").next()?.to_string()))
            .skip(1)
            .collect();
        all.insert(topic, rows);
    }
    all
}

#[test]
fn named_choices_exist() {
    let choices = choices();
    let mut wrong = BTreeSet::new();
    for d in [Generation::V1, Generation::V5].into_iter().flat_map(opcode_table) {
        assert!(!d.does.is_empty() && d.does.ends_with('.'), "{}: {:?}", d.name, d.does);
        for open in d.open {
            let rows = open
                .split_once(": ")
                .and_then(|(topic, what)| {
                    let rows = choices.get(topic)?;
                    Some(rows.iter().filter(|r| r.starts_with(what)).count())
                })
                .unwrap_or(0);
            if rows != 1 {
                wrong.insert(format!("{} names `{open}`: {rows} rows", d.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

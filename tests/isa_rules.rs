//! One accepted and one rejected word per legality rule, from `isa_rules.txt`.
//!
//! A rule without a case fails the test, and so does a case whose accepted word breaks any rule or
//! whose rejected word does not break the rule it is listed under.

mod words;

use std::collections::BTreeSet;

use tpbemu::isa::validate::{rules_list, validate_all, validate_host};
use tpbemu::isa::{Class, Generation, Inst, Presence, opcode_by_name, opcode_table};
use words::{assign, base, home_engine, lines};

#[test]
fn every_rule_has_a_case() {
    let known: BTreeSet<&str> = rules_list().map(|r| r.name).collect();
    assert_eq!(known.len(), rules_list().count(), "two rules with one name");
    let mut tested = BTreeSet::new();
    let mut failures = Vec::new();
    let mut cases = 0;
    for (n, line) in lines("rule") {
        let parts: Vec<_> = line.split('|').map(str::trim).collect();
        let [rule, place, good, bad] = parts[..] else { panic!("line {n}: {line}") };
        let mut place = place.strip_prefix("host ").unwrap_or(place).split_whitespace();
        let generation: Generation = place.next().unwrap().parse().unwrap();
        let name = place.next().unwrap();
        let def = opcode_by_name(generation, name).unwrap_or_else(|| panic!("line {n}: {name}"));
        let mut engine = home_engine(generation, def.byte);
        let mut spec = 0;
        let host = line.contains("| host ");
        for word in place {
            match word.strip_prefix("spec") {
                Some(s) => spec = s.parse().unwrap(),
                None => engine = word.parse().unwrap(),
            }
        }
        assert!(known.contains(rule), "line {n}: no rule {rule}");
        // `engine=X` and `opcode=X` change the stream or the opcode instead of a field.
        let build = |text: &str| {
            let (mut engine, mut byte, mut rest) = (engine, def.byte, Vec::new());
            for word in text.split_whitespace() {
                if let Some(e) = word.strip_prefix("engine=") {
                    engine = e.parse().unwrap();
                } else if let Some(o) = word.strip_prefix("opcode=") {
                    byte = opcode_by_name(generation, o).unwrap().byte;
                } else {
                    rest.push(word);
                }
            }
            let mut inst = base(generation, byte, spec);
            assign(&mut inst, &rest.join(" "));
            (inst, engine)
        };
        let (accepted, on) = build(good);
        let check = |inst: &Inst, on| {
            if host { validate_host(inst, true) } else { validate_all(inst, on, true) }
        };
        let errors = check(&accepted, on);
        if !errors.is_empty() {
            failures.push(format!("line {n} {rule}: accepted word is rejected: {}", errors[0]));
        }
        let (rejected, on) = build(&format!("{good} {bad}"));
        let errors = check(&rejected, on);
        if !errors.iter().any(|e| e.rule.as_deref() == Some(rule)) {
            let others: Vec<_> = errors.iter().map(ToString::to_string).collect();
            failures.push(format!("line {n} {rule}: not broken by `{bad}`; others {others:?}"));
        }
        tested.insert(rule);
        cases += 1;
    }
    let missing: Vec<_> = known.difference(&tested).collect();
    println!("{cases} pairs for {} rules", tested.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(missing.is_empty(), "rules without a case: {missing:?}");
}

/// The plain word of each opcode is legal on the engine that runs it.
#[test]
fn plain_words_are_legal() {
    let (mut failures, mut count, mut skipped) = (Vec::new(), 0, 0);
    for generation in Generation::ALL {
        for def in opcode_table(generation) {
            let gone = def.presence_in(generation) == Presence::Absent;
            if gone || matches!(def.class, Class::Pseudo | Class::Sentinel | Class::Simulator) {
                skipped += 1;
                continue;
            }
            for spec in 0..10 {
                let mut probe = Inst::empty(generation, def.byte);
                probe.bytes[12] = spec;
                if spec > 0 && def.byte != 0xF0 || probe.layout().is_err() {
                    continue;
                }
                let inst = base(generation, def.byte, spec);
                let engine = home_engine(generation, def.byte);
                if let Some(e) = validate_all(&inst, engine, true).first() {
                    failures.push(format!("{generation} {} spec {spec}: {e}", def.name));
                }
                count += 1;
            }
        }
    }
    println!("{count} plain words legal, {skipped} rows absent or host-only");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 600);
}

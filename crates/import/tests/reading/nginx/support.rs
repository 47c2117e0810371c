//! Configurations and the rules that are made of them, as text that fits into a table.

use tollgate_import::nginx::{NginxFile, NginxImport, NoteSubject, import};
use tollgate_rules::document::{Action, RuleDocument};
use tollgate_rules::{Policy, Source};

/// Imports one file without includes.
pub(crate) fn imported(text: &str) -> NginxImport {
    let include = &mut |_: &str, _: &str| Err("there are no files".to_owned());
    import(&[("nginx.conf", text)], include).unwrap_or_else(|problems| {
        let told = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        panic!("{}\n{text}", told.join("\n"))
    })
}

/// The problems of one file, `line:column message; advice`.
pub(crate) fn problems(text: &str) -> Vec<String> {
    let include = &mut |_: &str, _: &str| Ok(Vec::<NginxFile>::new());
    let problems = import(&[("nginx.conf", text)], include).err().unwrap_or_default();
    let told = problems.iter().map(|told| {
        let position = told.problem.position.expect("problems have a place");
        let advice = told.problem.advice.as_deref().expect("and say what would be right");
        format!("{}:{} {}; {advice}", position.line, position.column, told.problem.message)
    });
    told.collect()
}

/// A rule in one line, with all that is not as usual in it:
/// `id limit/window burst by identifiers at hosts on endpoints free costs replaces ids as algorithm`.
pub(crate) fn shown(rule: &RuleDocument) -> String {
    let window = rule.window.as_deref().unwrap_or_default();
    let burst = rule.burst.unwrap_or_default();
    let by = rule.identifier_type.join("+");
    let mut line = format!("{} {}/{window} {burst} by {by}", rule.rule_id, rule.limit);
    for (word, list) in [
        ("at", &rule.applies_to.hosts),
        ("on", &rule.applies_to.endpoints),
        ("replaces", &rule.replaces),
    ] {
        if !list.is_empty() {
            line += &format!(" {word} {}", list.join(" "));
        }
    }
    for (endpoint, cost) in &rule.costs {
        line += &format!(" {endpoint}={cost}");
    }
    if rule.algorithm.0.name() != "gcra" {
        line += &format!(" as {}", rule.algorithm.0.name());
    }
    if let Some(throttle) = &rule.throttle {
        assert_eq!(rule.action, Action::Throttle);
        line += &format!(" held {}ms", throttle.max_delay_ms);
    }
    line + if rule.action == Action::LogOnly { " watching" } else { "" }
}

/// The notes, each as `subject code`. A place is its line.
pub(crate) fn codes(import: &NginxImport) -> Vec<String> {
    let told = import.notes.iter().map(|note| match &note.subject {
        NoteSubject::Rule(id) => format!("{id} {}", note.loss.code()),
        NoteSubject::Place(place) => format!("line {} {}", place.position.line, note.loss.code()),
    });
    told.collect()
}

/// Notes on nearly every rule, which the cases leave out.
const COMMON_NOTES: [&str; 2] = [" network", " status"];

/// Checks rules, and notes except the common ones. Every policy compiles.
#[track_caller]
pub(crate) fn check(text: &str, rules: &[&str], notes: &[&str]) {
    let import = imported(text);
    let found = import.document.rules.iter().map(shown).collect::<Vec<_>>();
    assert_eq!(found, rules, "{text}");
    let mut told = codes(&import);
    told.retain(|note| !COMMON_NOTES.iter().any(|usual| note.ends_with(usual)));
    assert_eq!(told, notes, "{text}");
    compile(&import);
}

/// The policy itself, which has to be valid.
#[track_caller]
pub(crate) fn compile(import: &NginxImport) -> Policy {
    let source = Source::from_document(import.document.clone());
    Policy::compile(&source).unwrap_or_else(|problems| {
        let told = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        panic!("not a valid policy: {}", told.join("\n"))
    })
}

/// A zone by address, with a rate of 10 in a second.
pub(crate) const Z: &str = "limit_req_zone $binary_remote_addr zone=z:1m rate=10r/s;\n";
/// Another one, slower.
pub(crate) const Y: &str = "limit_req_zone $binary_remote_addr zone=y:1m rate=1r/m;\n";
/// One that not every request has a key for.
pub(crate) const K: &str = "limit_req_zone $http_x_device zone=k:1m rate=5r/s;\n";

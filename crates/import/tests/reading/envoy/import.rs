//! Files as rules: what the rules say, and what is noted where they cannot say it.

use std::collections::HashMap;
use std::hash::RandomState;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tollgate_core::Timestamp;
use tollgate_import::envoy::{Descriptor, DescriptorVerdict, EnvoyConfig, EnvoyImport, EnvoyLoss};
use tollgate_rules::{Attribute, Attributes, LintContext, Policy, Severity, Source, lint};

use crate::envoy::oracle::{self, Choice, Entries, Node};
use crate::envoy::request::config;

/// A descriptor as rules see it when Envoy asks about it.
struct View<'a>(&'a [(&'a str, &'a str)]);

impl Attributes for View<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        match attribute {
            Attribute::Custom("domain") => Some("d"),
            Attribute::Custom(name) => {
                self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
            }
            _ => None,
        }
    }
}

/// The document as a policy. It must be valid, and so must what is read back of it.
#[track_caller]
fn policy(import: &EnvoyImport) -> Policy {
    let text = serde_json::to_string(&import.document).expect("a document is JSON");
    let source = Source::parse(&text);
    assert_eq!(source.document, import.document, "{text}");
    let policy =
        Policy::compile(&source).unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
    let doubts = lint(&source, &policy, &LintContext::default());
    assert!(doubts.iter().all(|doubt| doubt.severity == Severity::Warning), "{doubts:?}");
    policy
}

/// The rules that apply to a descriptor, each with its counter.
fn planned(policy: &Policy, entries: &[(&str, &str)]) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let plan = policy.plan(&[&View(entries)], Timestamp::from_secs(0), &RandomState::new());
    let charges = plan.charges(policy.rules());
    charges
        .map(|charge| {
            (charge.key.rule.to_owned(), charge.key.subject.into(), charge.key.rest.into())
        })
        .collect()
}

/// The limit that a descriptor meets, and its counter.
fn met(config: &EnvoyConfig, entries: &[(&str, &str)]) -> Option<(String, String)> {
    let descriptor = Descriptor { entries, carries_limit: false };
    match config.judge("d", &[descriptor]).expect("the domain").as_slice() {
        [DescriptorVerdict::Limit { limit, key }] => {
            Some((config.limits()[*limit].id.to_string(), key.as_str().to_owned()))
        }
        _ => None,
    }
}

/// Whether a note says that a rule applies elsewhere than its limit.
fn is_about_matching(loss: &EnvoyLoss) -> bool {
    !matches!(loss, EnvoyLoss::Replaces(_) | EnvoyLoss::Metrics | EnvoyLoss::Metadata)
}

/// Whether the keys are those of a node.
fn is_known(nodes: &[Node], keys: &[(String, String)]) -> bool {
    let Some(((key, _), rest)) = keys.split_first() else { return false };
    let mut of_key = nodes.iter().filter(|node| node.key == *key);
    of_key.any(|node| rest.is_empty() || is_known(&node.children, rest))
}

/// How often rules and files were compared, and how often they had to agree.
#[derive(Default)]
struct Compared {
    agreed: usize,
    excused: usize,
}

/// Compares rules and files on descriptors of the keys of the file. A limit that is not noted is met
/// just where its rule applies, and has the same counters.
fn compare(nodes: &[Node], requests: &[Entries]) -> Result<Compared, TestCaseError> {
    let config = config(&oracle::file(nodes));
    let import = config.to_document();
    let policy = policy(&import);
    let is_noted = |id: &str| {
        let mut notes = import.notes.iter().filter(|note| note.limit.as_deref() == Some(id));
        notes.any(|note| is_about_matching(&note.loss))
    };
    let (mut counters, mut names) = (HashMap::new(), HashMap::new());
    let mut compared = Compared::default();
    for request in requests {
        let entries = request.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>();
        let planned = planned(&policy, &entries);
        if !is_known(nodes, request) || request.iter().any(|(_, value)| value.is_empty()) {
            continue;
        }
        let met = met(&config, &entries);
        for (rule, ..) in planned.iter().filter(|(rule, ..)| !is_noted(rule)) {
            prop_assert_eq!(met.as_ref().map(|(id, _)| id), Some(rule), "{:?}", request);
        }
        match met {
            Some((id, _)) if is_noted(&id) => compared.excused += 1,
            Some((id, counter)) => {
                let mut of_rule = planned.iter().filter(|(rule, ..)| *rule == id);
                let key = of_rule.next().cloned();
                prop_assert!(key.is_some(), "{} does not apply to {:?}", id, request);
                prop_assert_eq!(counters.entry(counter.clone()).or_insert(key.clone()), &key);
                prop_assert_eq!(names.entry(key).or_insert(counter.clone()), &counter);
                compared.agreed += 1;
            }
            None if planned.is_empty() => compared.agreed += 1,
            None => compared.excused += 1,
        }
    }
    Ok(compared)
}

/// Keys and values as people use them: few that rules cannot name.
fn usual_keys() -> impl Strategy<Value = String> {
    let keys = vec!["a", "b", "c", "tenant", "path", "x:y"];
    prop_oneof![30 => prop::sample::select(keys).prop_map(str::to_owned), 1 => oracle::keys()]
}

/// Files as people write them: each level has its own keys, and most limits are at the ends.
fn usual_nodes() -> impl Strategy<Value = Vec<Node>> {
    fn by_level(nodes: &mut [Node], level: usize) {
        for node in nodes {
            if node.key != "b" && !node.children.is_empty() {
                node.limit = None;
            }
            node.key = format!("{}{level}", node.key);
            by_level(&mut node.children, level + 1);
        }
    }
    oracle::nodes(usual_keys, usual_values).prop_map(|mut nodes| {
        by_level(&mut nodes, 1);
        oracle::distinct(nodes)
    })
}

fn usual_values() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        6 => "[ab?\\[\\]!-]{1,2}",
        3 => "[ab]{0,2}\\*",
        1 => "[ab*]{1,4}",
    ]
}

fn requests(nodes: &[Node], choices: &[Vec<Choice>]) -> Vec<Entries> {
    choices.iter().map(|choices| oracle::entries(nodes, choices)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn rules_do_what_the_file_does(nodes in usual_nodes(), choices in oracle::choices()) {
        compare(&nodes, &requests(&nodes, &choices))?;
    }

    #[test]
    fn rules_of_tangled_files_do_so_too(
        nodes in oracle::nodes(usual_keys, usual_values),
        choices in oracle::choices(),
    ) {
        compare(&nodes, &requests(&nodes, &choices))?;
    }

    #[test]
    fn rules_of_unusual_files_do_so_too(
        nodes in oracle::nodes(oracle::keys, oracle::values),
        choices in oracle::choices(),
    ) {
        compare(&nodes, &requests(&nodes, &choices))?;
    }
}

/// The comparison is worth something only if notes are the exception.
#[test]
fn most_limits_are_carried_over_exactly() {
    let mut runner = TestRunner::deterministic();
    let mut all = Compared::default();
    for _ in 0..500 {
        let nodes = usual_nodes().new_tree(&mut runner).expect("a tree");
        let choices = oracle::choices().new_tree(&mut runner).expect("choices").current();
        let nodes = nodes.current();
        let Compared { agreed, excused } =
            compare(&nodes, &requests(&nodes, &choices)).expect("they agree");
        all.agreed += agreed;
        all.excused += excused;
    }
    assert!(all.agreed > 2 * all.excused, "{} agreed, {} excused", all.agreed, all.excused);
}

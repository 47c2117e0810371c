//! Random trees and requests against a second matcher, as slow and plain as can be.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_import::envoy::{Descriptor, DescriptorVerdict};

use crate::envoy::request::config;

/// One node of a file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) limit: Option<Limit>,
    share: bool,
    pub(crate) children: Vec<Self>,
}

#[derive(Clone, Debug)]
pub(crate) struct Limit {
    unlimited: bool,
    name: String,
    replaces: Vec<String>,
}

pub(crate) type Entries = Vec<(String, String)>;

impl Node {
    fn joined(&self) -> String {
        if self.value.is_empty() {
            self.key.clone()
        } else {
            format!("{}_{}", self.key, self.value)
        }
    }

    fn to_json(&self) -> Value {
        let mut node = json!({ "key": self.key, "value": self.value });
        node["descriptors"] = self.children.iter().map(Self::to_json).collect();
        node["share_threshold"] = (self.share && self.joined().contains('*')).into();
        if let Some(Limit { unlimited, name, replaces }) = &self.limit {
            let replaces = replaces.iter().filter(|replaced| *replaced != name);
            let replaces = replaces.map(|name| json!({ "name": name })).collect::<Vec<_>>();
            node["rate_limit"] = json!({ "name": name, "replaces": replaces });
            node["rate_limit"][if *unlimited { "unlimited" } else { "unit" }] =
                if *unlimited { true.into() } else { "hour".into() };
        }
        node
    }
}

/// The nodes without those whose name is there already, on each level.
pub(crate) fn distinct(nodes: Vec<Node>) -> Vec<Node> {
    let mut kept = Vec::<Node>::new();
    for mut node in nodes {
        if kept.iter().all(|other| other.joined() != node.joined()) {
            node.children = distinct(node.children);
            kept.push(node);
        }
    }
    kept
}

/// Whether the text matches, by trying everything.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len()).any(|skipped| glob(&pattern[1..], &text[skipped..])),
        Some(c) => text.starts_with(c) && glob(&pattern[1..], &text[1..]),
    }
}

/// The node a request arrives at, and what its counter is kept by.
fn find<'a>(mut nodes: &'a [Node], entries: &[(String, String)]) -> Option<(&'a Node, Entries)> {
    let mut counter = Vec::new();
    let mut result = None;
    for (at, (key, value)) in entries.iter().enumerate() {
        let joined = format!("{key}_{value}");
        let mut part = value.clone();
        let exact = nodes.iter().find(|node| node.joined() == joined);
        let wildcard =
            nodes.iter().find(|node| node.joined().contains('*') && glob(&node.joined(), &joined));
        let alone = nodes.iter().find(|node| node.joined() == *key);
        let next = match (exact, wildcard, alone) {
            (Some(exact), _, _) => exact,
            (None, Some(wildcard), _) => {
                if wildcard.share {
                    let name = wildcard.joined();
                    part = match name.strip_prefix(&format!("{key}_")) {
                        Some(rest) => rest.to_owned(),
                        None => name,
                    };
                }
                wildcard
            }
            (None, None, Some(alone)) => alone,
            (None, None, None) => return None,
        };
        counter.push((key.clone(), part));
        if at + 1 == entries.len() && next.limit.is_some() {
            result = Some((next, counter.clone()));
        }
        nodes = &next.children;
    }
    result
}

/// What is expected of one descriptor.
#[derive(Debug, PartialEq)]
enum Expected {
    Unmatched,
    Unlimited,
    Replaced,
    Counted(Entries),
}

fn judge(nodes: &[Node], request: &[Entries]) -> Vec<Expected> {
    let found = request.iter().map(|entries| find(nodes, entries)).collect::<Vec<_>>();
    let limits = found.iter().flatten().filter_map(|(node, _)| node.limit.as_ref());
    let replaced = limits
        .flat_map(|limit| limit.replaces.iter().filter(|name| **name != limit.name))
        .collect::<Vec<_>>();
    let expected = found.iter().map(|found| match found {
        None => Expected::Unmatched,
        Some((Node { limit: Some(limit), .. }, counter)) => match limit {
            Limit { unlimited: true, .. } => Expected::Unlimited,
            Limit { name, .. } if replaced.contains(&name) => Expected::Replaced,
            _ => Expected::Counted(counter.clone()),
        },
        Some((Node { limit: None, .. }, _)) => unreachable!("only limits are found"),
    });
    expected.collect()
}

/// Few letters, so that names meet, and the separator and the star among them.
pub(crate) fn keys() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[ab]", 2 => "[ab_]{1,3}", 1 => "[ab_*]{1,3}"]
}

pub(crate) fn values() -> impl Strategy<Value = String> {
    prop_oneof![2 => Just(String::new()), 4 => "[ab]", 2 => "[ab_]{1,3}", 3 => "[ab_*]{1,4}"]
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["n", "m", "o"]).prop_map(str::to_owned)
}

fn limit() -> impl Strategy<Value = Limit> {
    let replaces = prop::collection::vec(names(), 0..3);
    (prop::bool::weighted(0.2), names(), replaces).prop_map(|(unlimited, name, replaces)| Limit {
        unlimited,
        name,
        replaces,
    })
}

/// The nodes of a file, made of such keys and values.
pub(crate) fn nodes<K, V>(
    keys: impl Fn() -> K + 'static,
    values: impl Fn() -> V + 'static,
) -> impl Strategy<Value = Vec<Node>>
where
    K: Strategy<Value = String> + 'static,
    V: Strategy<Value = String> + 'static,
{
    let own = move || (keys(), values(), prop::option::weighted(0.8, limit()), any::<bool>());
    let leaf = own().prop_map(|(key, value, limit, share)| Node {
        key,
        value,
        limit,
        share,
        children: Vec::new(),
    });
    let node = leaf.prop_recursive(3, 40, 5, move |below| {
        (own(), prop::collection::vec(below, 0..5)).prop_map(
            |((key, value, limit, share), children)| Node { key, value, limit, share, children },
        )
    });
    prop::collection::vec(node, 1..10).prop_map(distinct)
}

/// The file of domain `d` with these nodes.
pub(crate) fn file(nodes: &[Node]) -> String {
    let descriptors = nodes.iter().map(Node::to_json).collect::<Vec<_>>();
    json!({ "domain": "d", "descriptors": descriptors }).to_string()
}

/// One entry of a request before the file is known.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// Which of the nodes on the level is asked for.
    node: prop::sample::Index,
    /// What stands for a star, or for the value of a node without one.
    filling: String,
    /// Goes somewhere else, as likely as not to nowhere.
    stray: Option<(String, String)>,
}

pub(crate) fn choices() -> impl Strategy<Value = Vec<Vec<Choice>>> {
    let stray = prop::option::weighted(0.15, (keys(), values()));
    let choice = (any::<prop::sample::Index>(), "[ab_]{0,2}", stray)
        .prop_map(|(node, filling, stray)| Choice { node, filling, stray });
    prop::collection::vec(prop::collection::vec(choice, 0..5), 0..12)
}

/// Entries that lead down the tree, and at times astray.
pub(crate) fn entries(mut nodes: &[Node], choices: &[Choice]) -> Entries {
    let mut entries = Vec::new();
    for Choice { node, filling, stray } in choices {
        if nodes.is_empty() {
            break;
        }
        let node = node.get(nodes);
        let value = if node.value.is_empty() { "*" } else { &node.value };
        let fill = |text: &str| text.replace('*', filling);
        entries.push(stray.clone().unwrap_or_else(|| (fill(&node.key), fill(value))));
        nodes = &node.children;
    }
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn both_matchers_agree(nodes in nodes(keys, values), choices in choices()) {
        let request = choices.iter().map(|choices| entries(&nodes, choices)).collect::<Vec<_>>();
        let config = config(&file(&nodes));
        let borrowed = request.iter().map(|entries| {
            entries.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>()
        });
        let borrowed = borrowed.collect::<Vec<_>>();
        let descriptors = borrowed.iter().map(|entries| Descriptor { entries, carries_limit: false });
        let found = config.judge("d", &descriptors.collect::<Vec<_>>()).expect("the domain");
        let expected = judge(&nodes, &request);
        prop_assert_eq!(found.len(), expected.len());

        // Counters have the same name where they count by the same, and nowhere else.
        let mut counters = HashMap::new();
        let mut names = HashMap::new();
        for (found, expected) in found.iter().zip(expected) {
            match (found, expected) {
                (DescriptorVerdict::Unmatched, Expected::Unmatched)
                | (DescriptorVerdict::Unlimited, Expected::Unlimited)
                | (DescriptorVerdict::Replaced, Expected::Replaced) => {}
                (DescriptorVerdict::Limit { key, limit }, Expected::Counted(counter)) => {
                    prop_assert!(config.limits().get(*limit).is_some());
                    prop_assert_eq!(counters.entry(counter.clone()).or_insert(key), &key);
                    prop_assert_eq!(names.entry(key).or_insert(counter.clone()), &counter);
                }
                (found, expected) => prop_assert!(false, "{found:?}, expected {expected:?}"),
            }
        }
    }
}

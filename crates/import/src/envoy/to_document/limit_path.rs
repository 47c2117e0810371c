//! The way down the tree to a limit, and what stands beside it.

use std::collections::BTreeSet;

use crate::envoy::limit::{FileLimit, LimitStep};
use crate::envoy::to_document::pattern::ValuePattern;
use crate::envoy::tree::{Branch, TreeLevel};

/// One branch taken on the way.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) level: &'a TreeLevel,
    pub(super) branch: &'a Branch,
    /// Where the branch stands on its level.
    at: usize,
}

/// The way to one limit, from the domain on.
pub(super) struct LimitPath<'a> {
    /// The index of the limit.
    pub(super) at: usize,
    pub(super) limit: &'a FileLimit,
    pub(super) turns: Vec<Turn<'a>>,
}

/// All ways of a domain, and the keys on the way to every node, limit or not.
#[derive(Default)]
pub(super) struct Ways<'a> {
    pub(super) ways: Vec<LimitPath<'a>>,
    pub(super) sequences: BTreeSet<Vec<&'a str>>,
}

impl<'a> Turn<'a> {
    pub(super) fn key(&self) -> &'a str {
        &self.branch.step.key
    }

    pub(super) fn values(&self) -> ValuePattern<'a> {
        ValuePattern::of(&self.branch.step)
    }

    /// Whether the values have a counter each.
    pub(super) fn tells_apart(&self) -> bool {
        !matches!(self.values(), ValuePattern::Exact(_)) && !self.branch.step.share_threshold
    }

    /// The branches on the level that take some of the values, each before this one could.
    pub(super) fn rivals(&self) -> impl Iterator<Item = Turn<'a>> {
        let (this, values) = (self.rank(), self.values());
        let ranked = turns(self.level, self.key()).filter(move |turn| turn.rank() < this);
        ranked.filter(move |turn| turn.values().overlaps(values))
    }

    /// Orders the branches of one key: values, then wildcards as written, then the key alone.
    pub(super) fn rank(&self) -> (u8, usize) {
        match self.values() {
            ValuePattern::Exact(_) => (0, 0),
            ValuePattern::Prefix(_) | ValuePattern::Stars(_) => (1, self.at),
            ValuePattern::Any => (2, 0),
        }
    }

    /// Whether an entry with another key on the level could have the same name, or the other way
    /// round: key and value are one name in the files.
    pub(super) fn is_confused(&self) -> bool {
        let branches = self.level.branches().iter();
        let mut others = branches.filter(|branch| *branch.step.key != *self.key());
        others.any(|branch| {
            is_name_of(&name(&branch.step), self.key()) || self.has_name_of(&branch.step.key)
        })
    }

    /// Whether an entry with that key could have the name of this branch.
    pub(super) fn has_name_of(&self, key: &str) -> bool {
        is_name_of(&name(&self.branch.step), key)
    }

    fn is(&self, other: &Turn<'_>) -> bool {
        std::ptr::eq(self.branch, other.branch)
    }
}

/// What a node is found by.
fn name(step: &LimitStep) -> String {
    match &step.value {
        Some(value) => format!("{}_{value}", step.key),
        None => step.key.to_string(),
    }
}

/// Whether a node of that name could be found by an entry with that key.
fn is_name_of(name: &str, key: &str) -> bool {
    let start = format!("{key}_");
    match name.split_once('*') {
        Some((head, _)) => head.starts_with(&start) || start.starts_with(head),
        None => name == key || name.starts_with(&start),
    }
}

/// The branches of one key.
pub(super) fn turns<'a>(level: &'a TreeLevel, key: &str) -> impl Iterator<Item = Turn<'a>> {
    let branches = level.branches().iter().enumerate();
    let of_key = branches.filter(move |(_, branch)| *branch.step.key == *key);
    of_key.map(move |(at, branch)| Turn { level, branch, at })
}

impl<'a> LimitPath<'a> {
    pub(super) fn keys(&self) -> impl ExactSizeIterator<Item = &'a str> {
        self.turns.iter().map(Turn::key)
    }

    /// The turn at a key.
    pub(super) fn turn_at(&self, key: &str) -> Option<&Turn<'a>> {
        self.turns.iter().find(|turn| turn.key() == key)
    }

    /// Whether every key is one of those of `keys`.
    pub(super) fn is_within(&self, keys: &[&str]) -> bool {
        self.keys().all(|key| keys.contains(&key))
    }

    /// Whether this limit decides, where the rules of both apply to a descriptor of the
    /// file: it has more of the keys, or its values come first.
    pub(super) fn comes_before(&self, other: &LimitPath<'_>) -> bool {
        if other.turns.len() != self.turns.len() {
            return other.turns.len() < self.turns.len()
                && other.keys().all(|key| self.turn_at(key).is_some());
        }
        let mut both = self.turns.iter().zip(&other.turns);
        let parting = both.find(|(one, other)| !one.is(other));
        parting.is_some_and(|(one, two)| one.rank() < two.rank()) && self.keys().eq(other.keys())
    }
}

impl<'a> Ways<'a> {
    /// Goes through the whole tree, in the order of the file.
    pub(super) fn collect(root: &'a TreeLevel, limits: &'a [FileLimit]) -> Self {
        let mut ways = Self::default();
        ways.walk(root, limits, &mut Vec::new());
        ways
    }

    fn walk(&mut self, level: &'a TreeLevel, limits: &'a [FileLimit], turns: &mut Vec<Turn<'a>>) {
        for (at, branch) in level.branches().iter().enumerate() {
            turns.push(Turn { level, branch, at });
            self.sequences.insert(turns.iter().map(Turn::key).collect());
            let limit = branch.limit.and_then(|at| Some((at, limits.get(at)?)));
            let way = limit.map(|(at, limit)| LimitPath { at, limit, turns: turns.clone() });
            self.ways.extend(way);
            self.walk(&branch.below, limits, turns);
            turns.pop();
        }
    }
}

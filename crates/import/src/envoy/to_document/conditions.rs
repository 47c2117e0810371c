//! What a rule asks of a request, so that it applies to the descriptors that lead to its limit.

use std::collections::BTreeMap;

use crate::envoy::to_document::exclusion::all_but;
use crate::envoy::to_document::limit_path::{LimitPath, Turn};
use crate::envoy::to_document::pattern::ValuePattern;

/// The attribute that holds the domain.
pub(super) const DOMAIN: &str = "domain";

/// The conditions of one rule.
pub(super) struct RuleConditions<'a> {
    pub(super) attributes: BTreeMap<String, Vec<String>>,
    pub(super) key_pattern: Option<String>,
    pub(super) identifiers: Vec<String>,
    /// What is excluded, by the key.
    excluded: Vec<(&'a str, ValuePattern<'a>)>,
    /// What would have to be excluded, and cannot be.
    pub(super) not_excluded: Vec<(&'a str, ValuePattern<'a>)>,
}

impl<'a> RuleConditions<'a> {
    /// Conditions for the way to a limit, without the values of its rivals on a turn.
    pub(super) fn new(
        way: &LimitPath<'a>,
        rivals: impl Fn(usize) -> Vec<ValuePattern<'a>>,
    ) -> Self {
        let domain = ValuePattern::Exact(&way.limit.domain).glob();
        let mut conditions = Self {
            attributes: BTreeMap::from([(DOMAIN.to_owned(), vec![domain])]),
            key_pattern: None,
            identifiers: Vec::new(),
            excluded: Vec::new(),
            not_excluded: Vec::new(),
        };
        for (number, turn) in way.turns.iter().enumerate() {
            conditions.add(turn, rivals(number));
        }
        if conditions.identifiers.is_empty() {
            conditions.identifiers.push("global".to_owned());
        }
        conditions
    }

    /// Whether no value of a turn is left.
    pub(super) fn excludes(&self, turn: &Turn<'_>) -> bool {
        let mut excluded = self.excluded.iter().filter(|(key, _)| *key == turn.key());
        excluded.any(|(_, excluded)| excluded.covers(turn.values()))
    }

    fn add(&mut self, turn: &Turn<'a>, rivals: Vec<ValuePattern<'a>>) {
        let (key, values) = (turn.key(), turn.values());
        let identifier = format!("attribute:{key}");
        let (excluded, not_excluded): (Vec<_>, Vec<_>) = rivals
            .into_iter()
            .partition(|rival| !matches!(rival, ValuePattern::Any | ValuePattern::Stars(_)));
        self.not_excluded.extend(not_excluded.into_iter().map(|rival| (key, rival)));
        // A glob for the first identifier, and others for the attribute: together they are an "and".
        let is_split = matches!(values, ValuePattern::Stars(_))
            && turn.tells_apart()
            && self.key_pattern.is_none();
        let globs = match values {
            _ if excluded.is_empty() => None,
            ValuePattern::Any => all_but("", &excluded),
            ValuePattern::Prefix(start) => all_but(start, &excluded),
            ValuePattern::Stars(_) if is_split => all_but("", &excluded),
            ValuePattern::Stars(_) | ValuePattern::Exact(_) => None,
        };
        let fate = if globs.is_some() { &mut self.excluded } else { &mut self.not_excluded };
        fate.extend(excluded.into_iter().map(|rival| (key, rival)));
        let is_first = globs.is_some() && is_split;
        if turn.tells_apart() {
            let place = if is_first { 0 } else { self.identifiers.len() };
            self.identifiers.insert(place, identifier);
        }
        if is_first {
            self.key_pattern = Some(values.glob());
        }
        // A key that counters are kept by must be there, so it needs no condition.
        let is_open = values.covers(ValuePattern::Any) && turn.tells_apart();
        if globs.is_some() || !is_open {
            let globs = globs.unwrap_or_else(|| vec![values.glob()]);
            self.attributes.insert(attribute(key), globs);
        }
    }
}

/// How a condition calls the attribute that is named like a key.
fn attribute(key: &str) -> String {
    match key {
        "host" | "path" | "endpoint" | "method" | "tier" | "user_id" | "api_key" | "ip"
        | "tenant" => format!("attribute:{key}"),
        _ if key.contains(':') => format!("attribute:{key}"),
        _ => key.to_owned(),
    }
}

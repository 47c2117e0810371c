//! The rules of a policy, compiled, and the index that finds those of a request.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;

use foldhash::fast::FixedState;
use tollgate_core::Mode;

use crate::candidate::candidate_of;
use crate::compile::flaw::Flaw;
use crate::compile::group::rule_digest;
use crate::identifier::Identifier;
use crate::matching::glob::Glob;
use crate::matching::index::{Index, PlaceMatch, PlaceMatches};
use crate::plan::facts::Facts;
use crate::rule::Rule;

/// All rules, in the order of reports: by priority, then the narrower ones first, then as written. A candidate follows
/// its rule.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Box<[Rule]>,
    /// Without candidates, which callers cannot name.
    by_id: HashMap<Arc<str>, usize, FixedState>,
    has_candidates: bool,
    index: Index,
    tiers: Tiers,
    /// Whether some rule replaces others.
    has_replacements: bool,
    referenced: Box<[Referenced]>,
}

/// A header, claim or custom attribute that rules refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referenced {
    /// Which one.
    pub identifier: Identifier,
    /// Whether a rule counts by it, and so may take it for a secret.
    pub is_counted: bool,
}

/// How many of the declared tiers a problem names.
const MAX_NAMED_TIERS: usize = 20;

/// The tiers there are. Without any, every name is accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tiers {
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) default: Option<Arc<str>>,
}

impl RuleSet {
    /// Expects rules in their final order, with distinct ids.
    pub(crate) fn new(mut rules: Vec<Rule>, tiers: Tiers) -> Self {
        for rule in &mut rules {
            (rule.digest, rule.plain) = (rule_digest(&rule.id), rule.as_plain());
        }
        let mut index = Index::default();
        for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.enabled) {
            index.insert(at, &rule.conditions);
        }
        let written = rules.iter().enumerate().filter(|(_, rule)| !rule.is_candidate());
        let by_id: HashMap<_, _, _> =
            written.map(|(at, rule)| (Arc::clone(&rule.id), at)).collect();
        let has_candidates = by_id.len() < rules.len();
        let has_replacements = rules.iter().any(|rule| !rule.replaces.is_empty());
        let referenced = referenced(&rules);
        let rules = rules.into();
        Self { rules, by_id, has_candidates, index, tiers, has_replacements, referenced }
    }

    /// The headers, claims and custom attributes that rules count by, match, or take limits from.
    #[must_use]
    #[inline]
    pub fn referenced(&self) -> &[Referenced] {
        &self.referenced
    }

    /// The rule at that place.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Rule> {
        self.rules.get(index)
    }

    /// All rules, disabled ones and candidates included.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Where the rule of that id stands. Candidates are not found.
    #[must_use]
    pub fn index_of(&self, rule_id: &str) -> Option<usize> {
        self.by_id.get(rule_id).copied()
    }

    /// The rule of that id.
    #[must_use]
    pub fn find(&self, rule_id: &str) -> Option<&Rule> {
        self.get(self.index_of(rule_id)?)
    }

    /// Where the rule or candidate stands whose counters have that name.
    #[must_use]
    pub fn index_of_counter(&self, id: &str) -> Option<usize> {
        let Some(written) = candidate_of(id) else { return self.index_of(id) };
        self.candidate_at(self.index_of(written)?).map(|(at, _)| at)
    }

    /// The rule or candidate whose counters have that name.
    #[must_use]
    pub fn find_counter(&self, id: &str) -> Option<&Rule> {
        self.get(self.index_of_counter(id)?)
    }

    /// The candidate of the rule at that place, and where it stands.
    #[inline]
    pub(crate) fn candidate_at(&self, rule: usize) -> Option<(usize, &Rule)> {
        if !self.has_candidates {
            return None;
        }
        self.get(rule + 1).filter(|next| next.is_candidate()).map(|next| (rule + 1, next))
    }

    /// How many rules there are, candidates aside.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The declared tiers.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.tiers.names.iter().map(AsRef::as_ref)
    }

    /// Finds the rules that are on and whose tenant, host and path match, in order.
    pub(crate) fn collect(&self, facts: &Facts<'_>, found: &mut PlaceMatches) {
        self.index.collect(facts, found);
    }

    /// Reads a word of each cache line that planning will need of these rules, so that they are fetched side by side
    /// and not one after the other: of thousands of rules, most are not in the cache.
    #[inline]
    pub(crate) fn read_ahead(&self, places: &[PlaceMatch]) {
        let read = |place: &PlaceMatch| {
            let rule = self.rules.get(place.rule())?;
            if let Some(plain) = rule.plain {
                return Some(plain.cost ^ rule.limit.digest() ^ rule.limit.capacity());
            }
            // Two words on the heap, then one of each line of the rule.
            let name = u64::from(*rule.id.as_bytes().first()?);
            let identifier = u64::from(rule.identifiers.first()?.names_client());
            let mode = u64::from(rule.mode == Mode::Shadow);
            let costs = u64::from(rule.costs.are_equal());
            let conditions = rule.conditions.attributes.len() as u64;
            let pattern = u64::from(matches!(rule.key_pattern, Glob::Any));
            Some(rule.limit.digest() ^ name ^ identifier ^ mode ^ costs ^ conditions ^ pattern)
        };
        black_box(places.iter().filter_map(read).fold(0, |all, word| all ^ word));
    }

    /// Whether some rule replaces others.
    pub(crate) fn has_replacements(&self) -> bool {
        self.has_replacements
    }

    pub(crate) fn default_tier(&self) -> Option<&str> {
        self.tiers.default.as_deref()
    }

    /// Whether a tier counts: where tiers are declared, an unknown one is none, so that inventing a
    /// tier does not escape the rules of the default one.
    pub(crate) fn is_tier(&self, tier: &str) -> bool {
        self.tiers.names.is_empty() || self.tiers.names.iter().any(|name| **name == *tier)
    }

    /// The tier of that name, shared by all who are in it.
    pub(crate) fn tier(&self, name: &str) -> Result<Arc<str>, Flaw> {
        match self.tiers.names.iter().find(|tier| ***tier == *name) {
            Some(tier) => Ok(Arc::clone(tier)),
            None if self.tiers.names.is_empty() => Ok(name.into()),
            None => {
                let declared = self.tiers().take(MAX_NAMED_TIERS).collect::<Vec<_>>().join(", ");
                let advice = format!("declared are {declared}");
                Err(Flaw::new(format!("there is no tier `{name}`"), advice))
            }
        }
    }
}

/// What of a request rules look at, besides what every request has.
fn referenced(rules: &[Rule]) -> Box<[Referenced]> {
    let mut found = BTreeMap::new();
    let mut note = |identifier: &Identifier, is_counted: bool| {
        let is_named = matches!(
            identifier,
            Identifier::Header(_) | Identifier::Claim(_) | Identifier::Attribute(_)
        );
        if is_named {
            *found.entry(identifier.clone()).or_default() |= is_counted;
        }
    };
    for rule in rules.iter().filter(|rule| rule.enabled) {
        rule.identifiers.iter().for_each(|it| note(it, true));
        rule.conditions.attributes.iter().for_each(|(it, _)| note(it, false));
        if let Some(limit_from) = &rule.limit_from {
            note(&Identifier::Claim(limit_from.claim.as_ref().into()), false);
        }
    }
    let all = found.into_iter();
    all.map(|(identifier, is_counted)| Referenced { identifier, is_counted }).collect()
}

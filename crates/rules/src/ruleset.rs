//! The rules of a policy, compiled: everything about a rule that can be known before a request.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;

use foldhash::fast::FixedState;
use tollgate_core::{Limit, Micros, Mode, Quota};

use crate::attributes::{Attribute, Attributes};
use crate::candidate::candidate_of;
use crate::compile::flaw::Flaw;
use crate::directory::overrides::Override;
use crate::document::{Action, Consistency, OnMissing, OnStoreFailure};
use crate::identifier::Identifier;
use crate::limit_from::LimitFrom;
use crate::matching::conditions::Conditions;
use crate::matching::costs::Costs;
use crate::matching::glob::Glob;
use crate::matching::index::{Index, PlaceMatch, PlaceMatches};
use crate::plan::facts::{EVERYTHING, Facts};
use crate::refusal::RuleRefusal;

/// One rule.
///
/// What every check reads comes first and in one piece: a request that meets thousands of rules waits for their cache
/// lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Rule {
    /// Names the rule, and its counters.
    pub id: Arc<str>,
    /// What its counters are kept by; never empty.
    pub identifiers: Box<[Identifier]>,
    /// Stands for these identifiers and the tenant.
    pub(crate) group: u64,
    /// When clients are warned.
    pub soft: SoftLimit,
    /// Where the limit of a client comes from instead.
    pub(crate) limit_from: Option<Box<LimitFrom>>,
    /// The ban for those who keep exceeding the limit.
    pub penalty: Option<Box<Penalty>>,
    /// Whether it refuses requests or only watches.
    pub mode: Mode,
    /// Whether nodes share its counters.
    pub consistency: Consistency,
    /// What happens to a request that lacks one of its identifiers.
    pub on_missing: OnMissing,
    /// What happens when the shared store is away.
    pub on_store_failure: OnStoreFailure,
    /// What happens beyond the limit.
    pub action: Action,
    /// Whether it applies to anything at all.
    pub enabled: bool,
    /// The limit, compiled.
    pub limit: Limit,
    pub(crate) costs: Costs,
    pub(crate) conditions: Conditions,
    pub(crate) key_pattern: Glob,
    /// Rules of the same set that do not apply where this one does.
    pub(crate) replaces: Box<[usize]>,
    /// What people call it.
    pub name: Option<Arc<str>>,
    /// The limit as its author means it.
    pub quota: Quota,
    /// How many times the limit a node allows that has to count alone.
    pub fallback_factor: u32,
    /// Which responses refund the charge.
    pub refund_on: StatusSet,
    /// How it refuses, if not as other rules.
    pub refusal: Option<Arc<RuleRefusal>>,
    /// The tenant it belongs to and only sees.
    pub tenant: Option<Arc<str>>,
    /// Higher ones are reported first.
    pub priority: i64,
    /// Of a candidate: the rule that it is tried beside.
    pub(crate) candidate_of: Option<Arc<str>>,
}

/// The shares of a limit at which a warning begins and ends, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimit {
    /// From here on a client is warned.
    pub warn_at: u32,
    /// Below this the warning ends.
    pub clear_at: u32,
}

/// A ban for clients that keep exceeding a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// How many refusals lead to a ban.
    pub after: u64,
    /// Within which time.
    pub within: Micros,
    /// How long the ban lasts.
    pub ban: Micros,
    /// The name of the counters of refusals. No rule has such an id.
    pub counter: Arc<str>,
    /// Their group. No rule has such a one.
    pub group: u64,
    /// What such a counter holds: it is full when the ban is due.
    pub limit: Limit,
}

/// A set of HTTP statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet {
    pub(crate) classes: Vec<u16>,
    pub(crate) statuses: Vec<u16>,
}

impl StatusSet {
    /// Whether the status is in the set.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.classes.contains(&(status / 100)) || self.statuses.contains(&status)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.statuses.is_empty()
    }
}

impl Rule {
    /// Whether it is not a rule of its author, but the candidate of one.
    #[must_use]
    pub const fn is_candidate(&self) -> bool {
        self.candidate_of.is_some()
    }

    /// The id of the rule as written: of a candidate, that of the rule that it is tried beside.
    #[must_use]
    pub fn written_id(&self) -> &Arc<str> {
        self.candidate_of.as_ref().unwrap_or(&self.id)
    }

    /// The endpoint a counter is kept by, once the index has found one; no endpoint, unless the rule counts by it.
    #[inline]
    pub(crate) fn endpoint(&self, place: PlaceMatch) -> &str {
        let is_endpoint = |identifier: &Identifier| matches!(identifier, Identifier::Endpoint);
        if !self.identifiers.iter().any(is_endpoint) {
            return EVERYTHING;
        }
        let pattern = self.conditions.endpoints.get(place.endpoint());
        pattern.map_or(EVERYTHING, |pattern| &pattern.text)
    }

    /// The endpoint a counter is kept by, if the rule is to apply whatever its conditions: an
    /// endpoint of the rule, or else the path itself.
    pub(crate) fn endpoint_in<'a>(&'a self, facts: &'a Facts<'_>) -> &'a str {
        let path = facts.path.as_deref().filter(|_| !self.conditions.endpoints.is_empty());
        let pattern = self.conditions.endpoint_of(facts).map(|pattern| &*pattern.text);
        pattern.or(path).unwrap_or(EVERYTHING)
    }

    /// The limit of a client alone: that of its exception, or the one that its token carries.
    #[inline]
    pub(crate) fn own_limit(
        &self,
        exception: Option<&Override>,
        facts: &Facts<'_>,
    ) -> Option<Limit> {
        match exception {
            Some(exception) => exception.limit(&self.quota),
            None => self.limit_from.as_deref()?.limit(facts, &self.quota),
        }
    }

    /// The first identifier that the rule counts by and that a request lacks, so that the rule does not count it. `None`
    /// if the rule refuses such requests.
    #[must_use]
    pub fn missing_identifier(&self, request: &dyn Attributes) -> Option<&Identifier> {
        let is_missing = |identifier: &&Identifier| {
            let attribute = match identifier {
                Identifier::Ip => Some(Attribute::Ip),
                Identifier::Path => Some(Attribute::Path),
                other => other.attribute(),
            };
            attribute.is_some_and(|it| request.get(it).is_none_or(str::is_empty))
        };
        self.identifiers.iter().find(is_missing).filter(|_| !self.refuses_missing())
    }

    /// Whether a request that lacks an identifier is refused. A rule that only watches
    /// refuses none.
    pub(crate) fn refuses_missing(&self) -> bool {
        self.on_missing == OnMissing::Deny && self.mode == Mode::Enforce
    }

    /// What a request is charged: its own cost times that of the rule.
    #[inline]
    pub(crate) fn cost(&self, facts: &Facts<'_>) -> u64 {
        facts.cost.saturating_mul(self.costs.of(facts))
    }
}

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
    pub(crate) fn new(rules: Vec<Rule>, tiers: Tiers) -> Self {
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

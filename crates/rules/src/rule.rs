//! One rule of a policy, compiled: everything about it that can be known before a request.

use std::sync::Arc;

use tollgate_core::{Limit, Micros, Mode, Quota};

use crate::attributes::{Attribute, Attributes};
use crate::directory::overrides::Override;
use crate::document::{Action, Consistency, OnMissing, OnStoreFailure};
use crate::identifier::Identifier;
use crate::limit_from::LimitFrom;
use crate::matching::conditions::Conditions;
use crate::matching::costs::Costs;
use crate::matching::glob::Glob;
use crate::matching::index::PlaceMatch;
use crate::plan::facts::{EVERYTHING, Facts};
use crate::refusal::RuleRefusal;

/// One rule.
///
/// What every check reads comes first and in one piece: a request that meets thousands of rules waits for their cache
/// lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Rule {
    /// Names the rule, and its counters.
    pub id: Arc<str>,
    /// Stands for the id in the fingerprints of its counters. Known once it is in a set.
    pub(crate) digest: u64,
    /// Stands for its identifiers and the tenant.
    pub(crate) group: u64,
    /// When clients are warned.
    pub soft: SoftLimit,
    /// What there is to it, if it is plain. Known once it is in a set.
    pub(crate) plain: Option<PlainRule>,
    /// The limit, compiled.
    pub limit: Limit,
    /// What its counters are kept by; never empty.
    pub identifiers: Box<[Identifier]>,
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

/// A rule that applies wherever its place matches, counts by one identifier of the request, has one cost and one limit,
/// and bans no client: most rules do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainRule {
    pub(crate) cost: u64,
    pub(crate) identifier: PlainIdentifier,
    pub(crate) mode: Mode,
}

/// The one identifier of a plain rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlainIdentifier {
    UserId,
    ApiKey,
    Tenant,
    Ip,
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
    /// Stands for that name in the fingerprints of these counters.
    pub digest: u64,
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

    /// What there is to a plain rule; `None` if it is another.
    pub(crate) fn as_plain(&self) -> Option<PlainRule> {
        let identifier = match &*self.identifiers {
            [Identifier::UserId] => PlainIdentifier::UserId,
            [Identifier::ApiKey] => PlainIdentifier::ApiKey,
            [Identifier::Tenant] => PlainIdentifier::Tenant,
            [Identifier::Ip] => PlainIdentifier::Ip,
            _ => return None,
        };
        let is_plain = self.conditions.are_all_of_place()
            && self.key_pattern == Glob::Any
            && self.penalty.is_none()
            && self.limit_from.is_none();
        let cost = self.costs.of_all().filter(|_| is_plain)?;
        Some(PlainRule { cost, identifier, mode: self.mode })
    }

    /// What a request is charged: its own cost times that of the rule.
    #[inline]
    pub(crate) fn cost(&self, facts: &Facts<'_>) -> u64 {
        facts.cost.saturating_mul(self.costs.of(facts))
    }
}

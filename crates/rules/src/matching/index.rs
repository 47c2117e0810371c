//! From a request to the rules that could apply, without looking at the others: by tenant, then
//! host, then path.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::matching::conditions::Conditions;
use crate::matching::host::{HostMatcher, suffixes};
use crate::matching::path_index::PathIndex;
use crate::plan::facts::Facts;

/// A rule whose tenant, host and path match. The order is the order of reports, narrowest endpoint
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlaceMatch {
    rule: u32,
    endpoint: u32,
}

pub(crate) type PlaceMatches = SmallVec<[PlaceMatch; 16]>;

impl PlaceMatch {
    /// The endpoint of a rule that names none.
    const ANYWHERE: u32 = u32::MAX;

    /// Where the rule stands in its set.
    pub(crate) fn rule(self) -> usize {
        self.rule as usize
    }

    /// Which of the rule's endpoints matched.
    pub(crate) fn endpoint(self) -> usize {
        self.endpoint as usize
    }
}

/// All rules of a policy that are switched on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    general: ByHost,
    tenants: HashMap<Box<str>, ByHost, FixedState>,
}

#[derive(Clone, Debug, Default)]
struct ByHost {
    any: ByPath,
    exact: HashMap<Box<str>, ByPath, FixedState>,
    below: HashMap<Box<str>, ByPath, FixedState>,
}

#[derive(Clone, Debug, Default)]
struct ByPath {
    anywhere: Vec<PlaceMatch>,
    paths: PathIndex<PlaceMatch>,
}

impl Index {
    pub(crate) fn insert(&mut self, rule: usize, conditions: &Conditions) {
        let by_host = match &conditions.tenant {
            Some(tenant) => self.tenants.entry((**tenant).into()).or_default(),
            None => &mut self.general,
        };
        if conditions.hosts.is_empty() {
            by_host.any.insert(rule, conditions);
        }
        for host in &conditions.hosts {
            let by_path = match host {
                HostMatcher::Exact(name) => by_host.exact.entry(name.clone()),
                HostMatcher::Below(suffix) => by_host.below.entry(suffix.clone()),
            };
            by_path.or_default().insert(rule, conditions);
        }
    }

    /// Finds the rules whose tenant, host and path match, each once, in order.
    pub(crate) fn collect(&self, facts: &Facts<'_>, found: &mut PlaceMatches) {
        self.general.collect(facts, found);
        if let Some(by_host) = facts.tenant.and_then(|tenant| self.tenants.get(tenant)) {
            by_host.collect(facts, found);
        }
        if !found.is_sorted() {
            found.sort_unstable();
        }
        found.dedup_by_key(|place| place.rule);
    }
}

impl ByHost {
    fn collect(&self, facts: &Facts<'_>, found: &mut PlaceMatches) {
        self.any.collect(facts, found);
        if self.exact.is_empty() && self.below.is_empty() {
            return;
        }
        let Some(host) = facts.host() else { return };
        if let Some(by_path) = self.exact.get(&*host) {
            by_path.collect(facts, found);
        }
        if !self.below.is_empty() {
            for by_path in suffixes(&host).filter_map(|suffix| self.below.get(suffix)) {
                by_path.collect(facts, found);
            }
        }
    }
}

impl ByPath {
    fn insert(&mut self, rule: usize, conditions: &Conditions) {
        // Both numbers are far below 2^32: documents are bounded.
        let narrow = |at: usize| u32::try_from(at).unwrap_or(PlaceMatch::ANYWHERE);
        let rule = narrow(rule);
        if conditions.endpoints.is_empty() {
            self.anywhere.push(PlaceMatch { rule, endpoint: PlaceMatch::ANYWHERE });
        }
        for (at, pattern) in conditions.endpoints.iter().enumerate() {
            self.paths.insert(pattern, PlaceMatch { rule, endpoint: narrow(at) });
        }
    }

    fn collect(&self, facts: &Facts<'_>, found: &mut PlaceMatches) {
        for place in &self.anywhere {
            found.push(*place);
        }
        if let Some(path) = facts.path.as_deref() {
            self.paths.visit(path, facts.path_case, &mut |place| found.push(place));
        }
    }
}

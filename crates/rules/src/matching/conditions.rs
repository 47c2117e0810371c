//! The conditions of a rule, and how narrow they make it.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::identifier::Identifier;
use crate::matching::globs::Globs;
use crate::matching::host::{HostMatcher, suffixes};
use crate::matching::method::MethodSet;
use crate::matching::path::{Narrowness, PathMatcher};
use crate::plan::facts::{EVERYTHING, Facts};

/// The conditions that a request has to fulfil. An empty one always holds. What the index does not cover comes first:
/// every check reads it.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Conditions {
    pub(crate) tiers: Box<[Arc<str>]>,
    /// Each identifier must match one of its globs.
    pub(crate) attributes: Box<[(Identifier, Globs)]>,
    pub(crate) methods: Option<MethodSet>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) hosts: Box<[HostMatcher]>,
    /// Narrowest first, so that the first one that matches names the endpoint.
    pub(crate) endpoints: Box<[PathMatcher]>,
}

/// How a request fulfils conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    Proven,
    /// A value takes too many steps to compare with all globs. The rule counts the request, so that
    /// a long value does not get around a limit, and replaces no other rule.
    Assumed,
}

/// The first condition that a request does not fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmet<'a> {
    Tenant,
    Host,
    Endpoint,
    Method,
    Tier,
    Attribute(&'a Identifier),
}

/// Orders rules of equal priority in reports; the narrower rule is greater. Paths come first, since
/// they are what people tell rules apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Specificity {
    endpoint: Narrowness,
    host: HostNarrowness,
    methods: Option<Reverse<usize>>,
    tiers: Option<Reverse<usize>>,
    attributes: usize,
    tenant: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostNarrowness {
    Any,
    Below { labels: usize },
    Exact,
}

impl Conditions {
    /// Checks the conditions that the index covers: tenant, host and path.
    pub(crate) fn unmet_place(&self, facts: &Facts<'_>) -> Option<Unmet<'_>> {
        if self.tenant.is_some() && self.tenant.as_deref() != facts.tenant {
            return Some(Unmet::Tenant);
        }
        let host = facts.host();
        let is_host =
            |pattern: &HostMatcher| host.as_ref().is_some_and(|host| pattern.matches(host));
        if !self.hosts.is_empty() && !self.hosts.iter().any(is_host) {
            return Some(Unmet::Host);
        }
        if !self.endpoints.is_empty() && self.endpoint_of(facts).is_none() {
            return Some(Unmet::Endpoint);
        }
        None
    }

    /// Checks the other conditions, for rules that the index finds. Most rules have none.
    #[inline]
    pub(crate) fn check_detail(
        &self,
        facts: &Facts<'_>,
        tier: Option<&str>,
    ) -> Result<Met, Unmet<'_>> {
        if self.are_all_of_place() {
            return Ok(Met::Proven);
        }
        self.check_each(facts, tier)
    }

    /// Whether the index covers all conditions.
    #[inline]
    pub(crate) fn are_all_of_place(&self) -> bool {
        self.methods.is_none() && self.tiers.is_empty() && self.attributes.is_empty()
    }

    fn check_each(&self, facts: &Facts<'_>, tier: Option<&str>) -> Result<Met, Unmet<'_>> {
        if let Some(methods) = &self.methods
            && !facts.method().is_some_and(|method| methods.contains(method))
        {
            return Err(Unmet::Method);
        }
        if !self.tiers.is_empty() && !self.tiers.iter().any(|wanted| tier == Some(wanted)) {
            return Err(Unmet::Tier);
        }
        let mut met = Met::Proven;
        for (identifier, globs) in &self.attributes {
            let value = facts.value(identifier, EVERYTHING);
            let matches = |value: &str| facts.glob_work.run(value, |it| globs.matches(value, it));
            match value.map(matches) {
                Some(Some(true)) => {}
                Some(None) => met = Met::Assumed,
                Some(Some(false)) | None => return Err(Unmet::Attribute(identifier)),
            }
        }
        Ok(met)
    }

    /// The narrowest endpoint that matches the path.
    pub(crate) fn endpoint_of(&self, facts: &Facts<'_>) -> Option<&PathMatcher> {
        let path = facts.path.as_deref()?;
        self.endpoints.iter().find(|pattern| pattern.matches(path, facts.path_case))
    }

    /// A rule is as narrow as the widest of its alternatives.
    pub(crate) fn specificity(&self) -> Specificity {
        Specificity {
            endpoint: self.endpoints.last().map_or(Narrowness::Any, PathMatcher::narrowness),
            host: self.hosts.iter().map(HostNarrowness::of).min().unwrap_or(HostNarrowness::Any),
            methods: self.methods.as_ref().map(|methods| Reverse(methods.len())),
            tiers: Some(Reverse(self.tiers.len())).filter(|_| !self.tiers.is_empty()),
            attributes: self.attributes.len(),
            tenant: self.tenant.is_some(),
        }
    }

    /// Whether every request that fulfils `other` provably fulfils these conditions too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let tenant = self.tenant.is_none() || self.tenant == other.tenant;
        let hosts = all_covered(&self.hosts, &other.hosts, HostMatcher::covers);
        let endpoints = all_covered(&self.endpoints, &other.endpoints, PathMatcher::covers);
        let tiers = all_covered(&self.tiers, &other.tiers, |wide, narrow| wide == narrow);
        let methods = match (&self.methods, &other.methods) {
            (None, _) => true,
            (Some(wide), Some(narrow)) => wide.covers(narrow),
            (Some(_), None) => false,
        };
        let attributes = self.attributes.iter().all(|wide| other.attributes.contains(wide));
        tenant && hosts && endpoints && tiers && methods && attributes
    }
}

/// Whether every one of `narrow` is covered by one of `wide`. Empty lists always hold.
fn all_covered<T>(wide: &[T], narrow: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
    wide.is_empty()
        || (!narrow.is_empty() && narrow.iter().all(|n| wide.iter().any(|w| covers(w, n))))
}

impl HostNarrowness {
    fn of(pattern: &HostMatcher) -> Self {
        match pattern {
            HostMatcher::Exact(_) => Self::Exact,
            HostMatcher::Below(suffix) => Self::Below { labels: suffixes(suffix).count() },
        }
    }
}

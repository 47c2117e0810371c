//! The index finds what a plain scan over all rules finds, and an explanation says the same.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;
use tollgate_core::{Charge, Timestamp};
use tollgate_rules::{Admission, Plan, Planned, Policy};

use crate::request::{Request, plan, policy};

/// A rule in the terms of this test, which knows nothing of how rules are compiled.
#[derive(Clone, Debug)]
struct PlainRule {
    tenant: Option<&'static str>,
    hosts: Vec<&'static str>,
    /// Segments; `{}` is any one, a last `*` any number.
    endpoints: Vec<Vec<&'static str>>,
    methods: Vec<&'static str>,
    tiers: Vec<&'static str>,
    plan: Option<&'static str>,
    identifiers: Vec<&'static str>,
    key_prefix: &'static str,
    denies_missing: bool,
    replaces: Vec<usize>,
    priority: i64,
    enabled: bool,
}

#[derive(Clone, Debug)]
struct PlainRequest {
    tenant: Option<&'static str>,
    host: Option<&'static str>,
    segments: Option<Vec<&'static str>>,
    method: Option<&'static str>,
    tier: Option<&'static str>,
    plan: Option<&'static str>,
    user: Option<&'static str>,
}

const TENANTS: [&str; 3] = ["acme", "zoo", "x"];
const HOSTS: [&str; 5] = ["a.org", "b.a.org", "c.b.a.org", "*.a.org", "*.b.a.org"];
const SEGMENTS: [&str; 4] = ["a", "b", "c", "{}"];
const METHODS: [&str; 4] = ["GET", "POST", "PURGE", "DELETE"];
const TIERS: [&str; 3] = ["free", "pro", "gold"];
const VALUES: [&str; 3] = ["u1", "u2", "v1"];

fn plain_rule() -> impl Strategy<Value = PlainRule> {
    let endpoint = (prop::collection::vec(select(&SEGMENTS[..]), 0..4), any::<bool>())
        .prop_map(|(segments, tail)| segments.into_iter().chain(tail.then_some("*")).collect());
    let place = (
        prop::option::weighted(0.3, select(&TENANTS[..])),
        prop_oneof![2 => Just(vec![]), 1 => subsequence(HOSTS.to_vec(), 1..3)],
        prop_oneof![1 => Just(vec![]), 3 => prop::collection::vec(endpoint, 1..4)],
    );
    let details = (
        prop_oneof![2 => Just(vec![]), 1 => subsequence(METHODS.to_vec(), 1..3)],
        prop_oneof![2 => Just(vec![]), 1 => subsequence(TIERS.to_vec(), 1..3)],
        prop::option::weighted(0.2, select(&VALUES[..])),
    );
    let key = (
        select(vec![
            vec!["global"],
            vec!["user_id"],
            vec!["user_id", "endpoint"],
            vec!["tenant", "user_id"],
        ]),
        select(vec!["", "", "u"]),
        prop::bool::weighted(0.2),
    );
    let rest = (prop::collection::vec(0..8_usize, 0..2), -1..2_i64, prop::bool::weighted(0.9));
    (place, details, key, rest).prop_map(|(place, details, key, rest)| PlainRule {
        tenant: place.0,
        hosts: place.1,
        endpoints: place.2,
        methods: details.0,
        tiers: details.1,
        plan: details.2,
        identifiers: key.0,
        key_prefix: key.1,
        denies_missing: key.2,
        replaces: rest.0,
        priority: rest.1,
        enabled: rest.2,
    })
}

fn plain_request() -> impl Strategy<Value = PlainRequest> {
    let path = prop::collection::vec(select(&SEGMENTS[..3]), 0..5);
    (
        prop::option::of(select(&TENANTS[..])),
        prop::option::of(select(&["a.org", "b.a.org", "c.b.a.org", "d.c.b.a.org", "z.org"][..])),
        prop::option::weighted(0.9, path),
        prop::option::weighted(0.9, select(&METHODS[..])),
        prop::option::of(select(&TIERS[..])),
        prop::option::of(select(&VALUES[..])),
        prop::option::weighted(0.8, select(&VALUES[..])),
    )
        .prop_map(|(tenant, host, segments, method, tier, plan, user)| PlainRequest {
            tenant,
            host,
            segments,
            method,
            tier,
            plan,
            user,
        })
}

impl PlainRule {
    fn document(&self, at: usize, count: usize) -> serde_json::Value {
        let path = |segments: &Vec<&str>| {
            let segments = segments.iter().map(|one| if *one == "{}" { "/{x}" } else { one });
            let path = segments.map(|one| format!("/{}", one.trim_start_matches('/')));
            Some(path.collect::<String>()).filter(|path| !path.is_empty()).unwrap_or("/".to_owned())
        };
        let mut rule = json!({
            "rule_id": format!("r{at}"), "limit": 5, "window": "1m",
            "identifier_type": self.identifiers, "priority": self.priority,
            "enabled": self.enabled, "key_pattern": format!("{}*", self.key_prefix),
            "on_missing": if self.denies_missing { "deny" } else { "skip" },
            "replaces": self.replaced(at, count).map(|one| format!("r{one}")).collect::<Vec<_>>(),
            "applies_to": {
                "hosts": self.hosts, "methods": self.methods, "user_tiers": self.tiers,
                "endpoints": self.endpoints.iter().map(path).collect::<Vec<_>>(),
            },
        });
        if let Some(tenant) = self.tenant {
            rule["tenant"] = tenant.into();
        }
        if let Some(plan) = self.plan {
            rule["applies_to"]["attributes"] = json!({ "plan": [plan] });
        }
        rule
    }

    fn replaced(&self, at: usize, count: usize) -> impl Iterator<Item = usize> {
        self.replaces.iter().copied().filter(move |one| *one < at.min(count))
    }

    /// Whether the rule matches; `Some(true)` if it lacks an identifier and refuses the request.
    fn matches(&self, request: &PlainRequest) -> Option<bool> {
        let fits = |wanted: &[&str], given: Option<&str>| {
            wanted.is_empty() || given.is_some_and(|given| wanted.contains(&given))
        };
        let host = self.hosts.is_empty()
            || request.host.is_some_and(|host| {
                self.hosts.iter().any(|pattern| match pattern.strip_prefix('*') {
                    Some(suffix) => host.ends_with(suffix) && host.len() > suffix.len(),
                    None => host == *pattern,
                })
            });
        let path = self.endpoints.is_empty()
            || request.segments.as_ref().is_some_and(|segments| {
                self.endpoints.iter().any(|pattern| path_fits(pattern, segments))
            });
        let plan = self.plan.is_none() || self.plan == request.plan;
        let tenant = self.tenant.is_none() || self.tenant == request.tenant;
        let all = tenant && host && path && plan && self.enabled;
        if !(all && fits(&self.methods, request.method) && fits(&self.tiers, request.tier)) {
            return None;
        }
        let value = |identifier: &&str| match *identifier {
            "user_id" => request.user,
            "tenant" => request.tenant,
            _ => Some("*"),
        };
        let first = self.identifiers.first().and_then(value);
        if first.is_some_and(|first| !first.starts_with(self.key_prefix)) {
            return None;
        }
        if self.identifiers.iter().any(|identifier| value(identifier).is_none()) {
            return self.denies_missing.then_some(true);
        }
        Some(false)
    }
}

fn path_fits(pattern: &[&str], segments: &[&str]) -> bool {
    match (pattern, segments) {
        (["*"], _) => true,
        ([], rest) => rest.is_empty(),
        ([first, pattern @ ..], [segment, rest @ ..]) => {
            (*first == "{}" || first == segment) && path_fits(pattern, rest)
        }
        (_, []) => false,
    }
}

impl PlainRequest {
    fn request(&self) -> Request {
        let path = self.segments.as_ref().map(|segments| format!("/{}", segments.join("/")));
        let values = [
            ("tenant", self.tenant),
            ("host", self.host),
            ("path", path.as_deref()),
            ("method", self.method),
            ("tier", self.tier),
            ("attribute:plan", self.plan),
            ("user_id", self.user),
        ];
        values.into_iter().fold(Request::default(), |request, (name, value)| match value {
            Some(value) => request.with(name, value),
            None => request,
        })
    }
}

proptest! {
    #[test]
    fn the_index_finds_what_a_scan_finds(
        mut rules in prop::collection::vec(plain_rule(), 0..8),
        requests in prop::collection::vec(plain_request(), 1..16),
        is_replacing in any::<bool>(),
    ) {
        // Where no rule replaces others, plans are made in another way.
        rules.iter_mut().filter(|_| !is_replacing).for_each(|rule| rule.replaces.clear());
        let documents = rules.iter().enumerate().map(|(at, rule)| rule.document(at, rules.len()));
        let policy = policy(&json!({ "rules": documents.collect::<Vec<_>>() }).to_string());
        for request in &requests {
            let matched = rules.iter().map(|rule| rule.matches(request)).collect::<Vec<_>>();
            let replaced = rules.iter().enumerate().filter(|(at, _)| matched[*at].is_some());
            let replaced = replaced.flat_map(|(at, rule)| rule.replaced(at, rules.len()));
            let replaced = replaced.collect::<BTreeSet<_>>();
            let expected = |refuses: bool| (0..rules.len())
                .filter(|at| matched[*at] == Some(refuses) && !replaced.contains(at))
                .map(|at| format!("r{at}"))
                .collect::<BTreeSet<_>>();

            let plan = plan(&policy, &[request.request()], Timestamp::EPOCH);
            let charges = plan.charges(policy.rules()).collect::<Vec<_>>();
            let found = charges.iter().map(|charge| charge.key.rule.to_owned());
            prop_assert_eq!(found.collect::<BTreeSet<_>>(), expected(false));
            match plan.admission {
                Admission::Missing { rule } => {
                    let id = policy.rules().get(rule).map(|rule| rule.id.to_string());
                    prop_assert!(expected(true).contains(&id.unwrap_or_default()));
                }
                _ => prop_assert!(expected(true).is_empty()),
            }

            let keys = charges.iter().map(|charge| (charge.key.rule, charge.key.subject, charge.key.rest));
            prop_assert_eq!(keys.collect::<BTreeSet<_>>().len(), charges.len(), "keys are distinct");
            let places = plan.planned().iter().map(|line| line.rule).collect::<Vec<_>>();
            prop_assert!(places.is_sorted(), "reports are in the order of the rules");

            let explanation = policy.explain(&request.request(), Timestamp::EPOCH);
            let applying = explanation.rules.iter().filter(|rule| rule.applies);
            let explained = applying.map(|rule| (rule.rule_id.clone(), rule.refuses));
            let both = expected(false).into_iter().map(|id| (id, false));
            let both = both.chain(expected(true).into_iter().map(|id| (id, true)));
            prop_assert_eq!(explained.collect::<BTreeSet<_>>(), both.collect::<BTreeSet<_>>());
        }
        let priorities = policy.rules().iter().map(|rule| -rule.priority).collect::<Vec<_>>();
        prop_assert!(priorities.is_sorted());
    }

    /// Rules with nothing but a place and an identifier are planned by a shorter path, unless some rule replaces others.
    #[test]
    fn the_fast_path_of_plain_rules_plans_what_the_general_one_plans(
        rules in prop::collection::vec(plain_rule(), 1..8),
        requests in prop::collection::vec(plain_request(), 1..16),
        long in "(sha256:)?[a-z]{0,40}",
    ) {
        let rules = rules.into_iter().map(|rule| PlainRule { replaces: vec![], ..rule });
        let documents = rules.enumerate().map(|(at, rule)| rule.document(at, 0));
        let documents = documents.collect::<Vec<_>>();
        let replacing = json!({
            "rule_id": "off", "limit": 1, "window": "1m", "identifier_type": "global",
            "enabled": false, "replaces": ["r0"], "priority": -9,
        });
        let general = documents.iter().chain([&replacing]).collect::<Vec<_>>();
        let general = policy(&json!({ "rules": general }).to_string());
        let policy = policy(&json!({ "rules": documents }).to_string());
        for request in &requests {
            let user = request.user.map(|user| format!("{long}{user}").repeat(30));
            let request = PlainRequest { user: None, ..request.clone() }.request();
            let request = match &user {
                Some(user) => request.with("user_id", user),
                None => request,
            };
            let (plain, all) = (
                plan(&policy, std::slice::from_ref(&request), Timestamp::EPOCH),
                plan(&general, std::slice::from_ref(&request), Timestamp::EPOCH),
            );
            prop_assert_eq!(&plain.admission, &all.admission);
            let lines = |plan: &Plan, policy: &Policy| {
                let charges = plan.charges(policy.rules());
                let charges = charges.map(|Charge { key, limit, cost, mode }| {
                    let key = (key.rule.to_owned(), key.subject.to_vec(), key.rest.to_vec());
                    (key, *limit, cost, mode)
                });
                let fingerprints = plan.planned().iter().map(Planned::fingerprint);
                charges.zip(fingerprints).collect::<Vec<_>>()
            };
            prop_assert_eq!(lines(&plain, &policy), lines(&all, &general));
        }
    }
}

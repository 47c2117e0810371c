//! What is in the traffic: classes of clients, and endpoints that many requests go to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tollgate_api::RecommendedRule;

use super::RecommendOptions;
use super::candidate::of_class;
use super::pattern::{Segments, frequent, is_file, pattern, segments};
use crate::traffic::{RecordView, Traffic};

/// A class or an endpoint has at least one of so many requests, and a class of an endpoint one of so many of those.
const MIN_SHARE: u64 = 100;
/// An endpoint has at least so many requests, and a class of it too: fewer say little.
const MIN_REQUESTS: u64 = 50;
/// Most tiers that get rules.
const MAX_TIERS: usize = 8;
/// The longest rule id that is made of a path.
const MAX_ID: usize = 60;

const READING: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
const WRITING: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// What a client is known by: the first of these that a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KnownBy {
    User,
    ApiKey,
    Address,
}

impl KnownBy {
    const ALL: [Self; 3] = [Self::User, Self::ApiKey, Self::Address];

    fn of(record: RecordView<'_>) -> Option<Self> {
        let is_given = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        if is_given(record.user().or(record.key())) {
            Some(Self::User)
        } else if is_given(record.api_key()) {
            Some(Self::ApiKey)
        } else {
            let address = record.ip().filter(|ip| ip.parse::<IpAddr>().is_ok());
            address.map(|_| Self::Address)
        }
    }

    /// The identifier type, the id of the rule, and its name.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::User => ("user_id", "per_user", "Users"),
            Self::ApiKey => ("api_key", "per_api_key", "API keys"),
            Self::Address => ("ip", "per_address", "Addresses"),
        }
    }
}

/// What is known of an endpoint.
#[derive(Default)]
struct EndpointTraffic {
    methods: BTreeSet<&'static str>,
    known_by: BTreeMap<KnownBy, u64>,
}

/// Rules for each class of clients, then for the busiest endpoints; without limits.
pub(super) fn candidates(traffic: &Traffic, options: &RecommendOptions) -> Vec<RecommendedRule> {
    let mut classes = classes(traffic);
    if !classes.is_empty() {
        let taken: BTreeSet<String> = classes.iter().map(|it| it.rule_id.clone()).collect();
        classes.extend(endpoints(traffic, options.endpoints, taken));
    }
    for rule in &mut classes {
        rule.window.clone_from(&options.window);
        rule.tenant.clone_from(&options.tenant);
    }
    classes
}

fn is_frequent(count: u64, traffic: &Traffic) -> bool {
    count > 0 && count.saturating_mul(MIN_SHARE) >= traffic.len() as u64
}

fn classes(traffic: &Traffic) -> Vec<RecommendedRule> {
    let mut counts: BTreeMap<(KnownBy, Option<&str>), u64> = BTreeMap::new();
    for record in traffic.iter() {
        if let Some(known_by) = KnownBy::of(record) {
            *counts.entry((known_by, None)).or_default() += 1;
            let tier = record.tier().filter(|tier| is_name(tier));
            if let Some(tier) = tier.filter(|_| known_by != KnownBy::Address) {
                *counts.entry((known_by, Some(tier))).or_default() += 1;
            }
        }
    }
    let is_class = |known_by: &KnownBy| {
        counts.get(&(*known_by, None)).is_some_and(|count| is_frequent(*count, traffic))
    };
    let present: Vec<KnownBy> = KnownBy::ALL.into_iter().filter(is_class).collect();
    let mut classes = Vec::new();
    for (i, known_by) in present.iter().enumerate() {
        let (identifier, rule_id, name) = known_by.words();
        // A request that has a user is not counted by its address, too.
        let weaker: Vec<String> =
            present[i + 1..].iter().map(|weaker| weaker.words().1.to_owned()).collect();
        let tiers = counts.iter().filter_map(|((by, tier), count)| {
            tier.filter(|_| by == known_by && is_frequent(*count, traffic))
        });
        for tier in tiers.take(MAX_TIERS) {
            let id = format!("{rule_id}_{}", id_of(tier));
            let mut replaces = weaker.clone();
            replaces.push(rule_id.to_owned());
            let name = format!("{name} of the tier {tier}");
            let class = of_class(&id, &name, identifier);
            classes.push(RecommendedRule { tier: Some(tier.to_owned()), replaces, ..class });
        }
        let class = of_class(rule_id, name, identifier);
        classes.push(RecommendedRule { replaces: weaker, ..class });
    }
    // Two tiers may have the same id once it is simplified.
    let mut seen = BTreeSet::new();
    classes.retain(|class| seen.insert(class.rule_id.clone()));
    classes
}

/// Names of tiers that a policy can have without quotes.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !text.is_empty() && text.len() <= MAX_ID && text.bytes().all(is_part)
}

fn endpoints(traffic: &Traffic, most: usize, mut taken: BTreeSet<String>) -> Vec<RecommendedRule> {
    let mut found = Vec::new();
    for methods in [&READING[..], &WRITING[..]] {
        let requests = || {
            traffic.iter().filter_map(|record| {
                let method = methods.iter().find(|method| Some(**method) == record.method())?;
                let path = record.path().filter(|path| !is_file(path))?;
                Some((record, *method, segments(path)))
            })
        };
        let mut counts: BTreeMap<Segments, u64> = BTreeMap::new();
        for (_, _, segments) in requests() {
            *counts.entry(segments).or_default() += 1;
        }
        let least = MIN_REQUESTS.max((traffic.len() as u64).div_ceil(MIN_SHARE));
        let mut frequent = frequent(counts, least);
        frequent.truncate(most);
        let mut known: Vec<EndpointTraffic> =
            frequent.iter().map(|_| EndpointTraffic::default()).collect();
        for (record, method, segments) in requests() {
            for ((path, _), known) in frequent.iter().zip(&mut known) {
                if covers(path, &segments) {
                    known.methods.insert(method);
                    if let Some(known_by) = KnownBy::of(record) {
                        *known.known_by.entry(known_by).or_default() += 1;
                    }
                }
            }
        }
        for ((path, count), known) in frequent.into_iter().zip(known) {
            found.push((path, count, known));
        }
    }
    found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    found.truncate(most);
    found.iter().flat_map(|(path, _, known)| rules_of(path, known, &mut taken)).collect()
}

/// A rule of an endpoint for each class of clients that is frequent there. A request with a user is not counted by its
/// address, too: the rule of a class replaces those of weaker ones.
fn rules_of(
    path: &[String],
    known: &EndpointTraffic,
    taken: &mut BTreeSet<String>,
) -> Vec<RecommendedRule> {
    let mut methods: Vec<&'static str> = known.methods.iter().copied().collect();
    if methods == ["GET"] {
        // What is read by GET is read by HEAD.
        methods.push("HEAD");
    }
    let Some(first) = methods.first() else { return Vec::new() };
    let endpoint = pattern(path);
    let verb = if READING.contains(first) { "" } else { first };
    let name = format!("{} {endpoint}", methods.join(", "));
    let methods: Vec<String> = methods.into_iter().map(str::to_owned).collect();
    let classes = known.classes();
    let is_alone = classes.len() == 1;
    let mut rules: Vec<RecommendedRule> = Vec::new();
    // From the weakest, so that each knows the ids of those that it replaces.
    for known_by in classes.into_iter().rev() {
        let (identifier, class_id, class) = known_by.words();
        let id = if is_alone {
            format!("{verb}{endpoint}")
        } else {
            format!("{verb}{endpoint} {class_id}")
        };
        let name = if is_alone { name.clone() } else { format!("{name}: {class}") };
        let rule = of_class(&unique(&id_of(&id), taken), &name, identifier);
        let replaces = rules.iter().map(|weaker| weaker.rule_id.clone()).collect();
        let (endpoint, methods) = (Some(endpoint.clone()), methods.clone());
        rules.push(RecommendedRule { endpoint, methods, replaces, ..rule });
    }
    rules.reverse();
    rules
}

impl EndpointTraffic {
    /// The classes of clients with enough of its requests to say what they need, the strongest first; at least the most
    /// frequent one.
    fn classes(&self) -> Vec<KnownBy> {
        let all: u64 = self.known_by.values().sum();
        let least = MIN_REQUESTS.max(all.div_ceil(MIN_SHARE));
        let most = self.known_by.values().copied().max().unwrap_or(0);
        let is_class = |(_, count): &(&KnownBy, &u64)| **count >= least.min(most);
        self.known_by.iter().filter(is_class).map(|(known_by, _)| *known_by).collect()
    }
}

/// Whether an endpoint covers a path; both as segments.
fn covers(endpoint: &[String], path: &[String]) -> bool {
    match endpoint.split_last() {
        Some((last, folder)) if last == "*" => path.starts_with(folder),
        _ => endpoint == path,
    }
}

/// Letters of a rule id, from any text.
fn id_of(text: &str) -> String {
    let letters = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' });
    let words: String = letters.collect::<String>().to_lowercase();
    let id = words.split_whitespace().collect::<Vec<_>>().join("_");
    let id: String = id.chars().take(MAX_ID).collect();
    if id.is_empty() { "root".to_owned() } else { id }
}

fn unique(id: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number: u32| format!("{id}_{number}"));
    let free = std::iter::once(id.to_owned()).chain(numbered).find(|id| !taken.contains(id));
    let id = free.unwrap_or_else(|| id.to_owned());
    taken.insert(id.clone());
    id
}

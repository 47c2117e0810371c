//! A rule that may be proposed, and the policy document of several.

use std::fmt::Write as _;

use tollgate::Algorithm;

/// Up to this limit requests are counted exactly: an estimate would refuse steady clients.
const MAX_COARSE_LIMIT: u64 = 10;

/// A rule that may be proposed.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) rule_id: String,
    /// What it is for, in words.
    pub(super) name: String,
    pub(super) identifier: &'static str,
    pub(super) tier: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) methods: Vec<&'static str>,
    /// Candidates that do not apply where this one does.
    pub(super) replaces: Vec<String>,
    pub(super) limit: u64,
    /// What all but the share that may be refused needed within a window.
    pub(super) needed: u64,
    /// What the busiest client needed.
    pub(super) busiest: u64,
}

impl Candidate {
    /// A rule that applies to a class of clients, whatever they request.
    pub(super) fn of_class(rule_id: &str, name: &str, identifier: &'static str) -> Self {
        Self {
            rule_id: rule_id.to_owned(),
            name: name.to_owned(),
            identifier,
            tier: None,
            endpoint: None,
            methods: Vec::new(),
            replaces: Vec::new(),
            limit: u64::MAX,
            needed: 0,
            busiest: 0,
        }
    }

    /// How it counts.
    pub(super) fn algorithm(&self) -> Algorithm {
        if self.limit <= MAX_COARSE_LIMIT {
            Algorithm::SlidingWindowLog
        } else {
            Algorithm::SlidingWindowCounter
        }
    }

    fn write(&self, window: &str, algorithm: Algorithm, text: &mut String) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let _ = writeln!(text, "  - rule_id: {}", self.rule_id);
        let _ = writeln!(text, "    name: {}", quoted(&self.name));
        let _ = writeln!(text, "    limit: {}\n    window: {window}", self.limit);
        let _ = writeln!(text, "    algorithm: {}", algorithm.name());
        let _ = writeln!(text, "    identifier_type: {}", self.identifier);
        let endpoints = self.endpoint.as_ref().map(|it| format!("endpoints: [{}]", quoted(it)));
        let methods =
            (!self.methods.is_empty()).then(|| format!("methods: [{}]", self.methods.join(", ")));
        let tiers = self.tier.as_ref().map(|tier| format!("user_tiers: [{}]", quoted(tier)));
        let conditions: Vec<String> = [endpoints, methods, tiers].into_iter().flatten().collect();
        if !conditions.is_empty() {
            let _ = writeln!(text, "    applies_to: {{{}}}", conditions.join(", "));
        }
        if !self.replaces.is_empty() {
            let _ = writeln!(text, "    replaces: [{}]", self.replaces.join(", "));
        }
    }
}

/// The policy, with comments above each rule.
pub(super) fn to_yaml(
    candidates: &[Candidate],
    window: &str,
    comments: impl Fn(&Candidate) -> Vec<String>,
) -> String {
    write(candidates, window, Candidate::algorithm, comments)
}

/// The policy with limits that no client reaches, counted exactly.
pub(super) fn to_boundless_yaml(candidates: &[Candidate], window: &str, limit: u64) -> String {
    let boundless: Vec<Candidate> =
        candidates.iter().map(|it| Candidate { limit, ..it.clone() }).collect();
    write(&boundless, window, |_| Algorithm::SlidingWindowLog, |_| Vec::new())
}

fn write(
    candidates: &[Candidate],
    window: &str,
    algorithm: impl Fn(&Candidate) -> Algorithm,
    comments: impl Fn(&Candidate) -> Vec<String>,
) -> String {
    let mut text = String::from("rules:\n");
    for (i, candidate) in candidates.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        for comment in comments(candidate) {
            let _ = writeln!(text, "  # {comment}");
        }
        candidate.write(window, algorithm(candidate), &mut text);
    }
    let mut tiers: Vec<&str> =
        candidates.iter().filter_map(|candidate| candidate.tier.as_deref()).collect();
    tiers.dedup();
    if !tiers.is_empty() {
        text += "\ntiers:\n";
        for tier in tiers {
            let _ = writeln!(text, "  - tier: {}", serde_json::Value::from(tier));
        }
    }
    text
}

/// Removes rules of endpoints whose limit is not lower than that of all classes they can meet: these refuse first.
pub(super) fn drop_needless(candidates: &mut Vec<Candidate>) {
    let classes: Vec<(&'static str, u64)> = candidates
        .iter()
        .filter(|candidate| candidate.endpoint.is_none())
        .map(|candidate| (candidate.identifier, candidate.limit))
        .collect();
    candidates.retain(|candidate| {
        let of_class = classes.iter().filter(|(identifier, _)| *identifier == candidate.identifier);
        let highest = of_class.map(|(_, limit)| *limit).max();
        candidate.endpoint.is_none() || highest.is_none_or(|highest| candidate.limit < highest)
    });
}

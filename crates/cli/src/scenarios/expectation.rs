//! What a step expects, and where a decision differs from it.

use tollgate::{Decision, DecisionReason, Micros, Refusal, SoftState};
use tollgate_document::{
    Decode, Field, Fields, Node, Position, Problem, Scope, Value, closest, decode_choice, quote,
};
use tollgate_simulate::Outcome;

use super::lasting::Lasting;
use crate::terminal::span;

/// An outcome, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamedOutcome(Outcome);

impl Decode for NamedOutcome {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let named = Outcome::ALL.map(|outcome| (outcome.name(), Self(outcome)));
        decode_choice(node, &named, &[], scope)
    }
}

/// Why a request was refused, by the names of the check API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RefusalReason(Refusal);

impl RefusalReason {
    const NAMED: [(&'static str, Self); 3] = [
        ("rate_limited", Self(Refusal::RateLimited)),
        ("denied", Self(Refusal::Denied)),
        ("banned", Self(Refusal::Banned)),
    ];

    fn name(refusal: Refusal) -> &'static str {
        let named = Self::NAMED.iter().find(|(_, reason)| reason.0 == refusal);
        named.map_or("store_unavailable", |(name, _)| *name)
    }
}

impl Decode for RefusalReason {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        decode_choice(node, &Self::NAMED, &[], scope)
    }
}

/// How close a client is to its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClientState(SoftState);

impl ClientState {
    const NAMED: [(&'static str, Self); 3] = [
        ("normal", Self(SoftState::Normal)),
        ("warning", Self(SoftState::Warning)),
        ("throttled", Self(SoftState::Throttled)),
    ];

    fn name(self) -> String {
        let named = Self::NAMED.iter().find(|(_, state)| *state == self);
        named.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

impl Decode for ClientState {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        decode_choice(node, &Self::NAMED, &[], scope)
    }
}

/// The id of a rule, and where it stands.
#[derive(Clone, Debug)]
struct RuleName {
    id: String,
    position: Position,
}

impl Decode for RuleName {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        Some(Self { id: String::decode(node, scope)?, position: node.position })
    }
}

/// What a step expects. Outcome, rules, reason and state hold for each of its requests, figures for the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Expectation {
    outcome: Option<Outcome>,
    rule: Option<RuleName>,
    reason: Option<RefusalReason>,
    would_refuse: Option<RuleName>,
    state: Option<ClientState>,
    remaining: Option<u64>,
    retry_after: Option<Lasting>,
    delay: Option<Lasting>,
    /// How many requests of the step: allowed, throttled, refused.
    counts: [Option<u64>; 3],
}

const fn field(name: &'static str, about: &'static [&'static str]) -> Field {
    Field { name, about, range: None, pattern: None }
}

const FIELDS: [Field; 11] = [
    field("outcome", &["allowed, throttled or refused"]),
    field("rule", &["the rule that decides"]),
    field("reason", &["rate_limited, denied or banned"]),
    field("would_refuse", &["a shadow rule that would refuse"]),
    field("state", &["normal, warning or throttled"]),
    field("remaining", &["what is left"]),
    field("retry_after", &["when the request would pass"]),
    field("delay", &["how long it is delayed"]),
    field("allowed", &["how many requests pass at once"]),
    field("throttled", &["how many requests are delayed"]),
    field("refused", &["how many requests are refused"]),
];

impl Decode for Expectation {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        if matches!(node.value, Value::String(_)) {
            let NamedOutcome(outcome) = NamedOutcome::decode(node, scope)?;
            return Some(Self { outcome: Some(outcome), ..Self::default() });
        }
        let before = scope.found();
        let mut fields = Fields::open(node, &FIELDS, scope)?;
        let expectation = Self {
            outcome: fields.optional("outcome").map(|NamedOutcome(outcome)| outcome),
            rule: fields.optional("rule"),
            reason: fields.optional("reason"),
            would_refuse: fields.optional("would_refuse"),
            state: fields.optional("state"),
            remaining: fields.optional("remaining"),
            retry_after: fields.optional("retry_after"),
            delay: fields.optional("delay"),
            counts: ["allowed", "throttled", "refused"].map(|name| fields.optional(name)),
        };
        let counted =
            ["allowed", "throttled", "refused"].into_iter().find_map(|name| fields.get(name));
        if let (Some(node), true) = (counted, expectation.outcome.is_some()) {
            let advice =
                "write outcome for all requests of the step, or the number of each outcome";
            fields.problem("outcome", node.position, "outcome is given too", advice);
        }
        (scope.found() == before).then_some(expectation)
    }
}

impl Expectation {
    /// The problem that a rule named here is not in the policy.
    pub(super) fn unknown_rule(&self, ids: &[&str]) -> Option<Problem> {
        let named = [("rule", &self.rule), ("would_refuse", &self.would_refuse)];
        named.into_iter().find_map(|(field, name)| {
            let RuleName { id, position } = name.as_ref()?;
            if ids.contains(&id.as_str()) {
                return None;
            }
            let advice = match closest(id, ids.iter().copied()) {
                Some(id) => format!("did you mean {id}?"),
                None => {
                    let few: Vec<&str> = ids.iter().take(10).copied().collect();
                    format!("the rules are {}", few.join(", "))
                }
            };
            let message = format!("the policy has no rule {}", quote(id));
            Some(Problem::new(field, message).with_advice(advice).at(*position))
        })
    }

    /// Where the decision about one request differs.
    pub(super) fn differences(&self, decision: &Decision, is_last: bool) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, expected: Option<String>, found: Option<String>| {
            if let Some(expected) = expected.filter(|expected| Some(expected) != found.as_ref()) {
                let found = found.unwrap_or_else(|| "none".to_owned());
                differences.push(format!("expected {what}{expected}, got {found}"));
            }
        };
        let named = |name: &Option<RuleName>| name.as_ref().map(|name| name.id.clone());
        let lasting = |lasting: Option<Lasting>| lasting.map(|it| shown(it.0));
        let found = Some(Outcome::of(decision).name().to_owned());
        compare("", self.outcome.map(|outcome| outcome.name().to_owned()), found);
        compare("rule ", named(&self.rule), rule_of(decision).map(str::to_owned));
        let reason = decision.refusal().map(|refusal| RefusalReason::name(refusal).to_owned());
        let expected = self.reason.map(|reason| RefusalReason::name(reason.0).to_owned());
        compare("reason ", expected, reason);
        let shadow = decision.would_refuse().map(|outcome| outcome.rule.id.to_string());
        compare("would_refuse ", named(&self.would_refuse), shadow);
        let state = Some(ClientState(decision.state()).name());
        compare("state ", self.state.map(ClientState::name), state);
        if is_last {
            let remaining = decision.remaining().map(|left| left.to_string());
            compare("remaining ", self.remaining.map(|left| left.to_string()), remaining);
            let retry = (!decision.is_allowed()).then(|| decision.retry_after()).flatten();
            compare("retry_after ", lasting(self.retry_after), retry.map(shown));
            compare("delay ", lasting(self.delay), decision.delay().map(shown));
        }
        differences
    }

    /// Where the outcomes of all requests of a step differ.
    pub(super) fn miscounts(&self, outcomes: &[Outcome]) -> Vec<String> {
        let counts = Outcome::ALL.into_iter().zip(self.counts);
        counts
            .filter_map(|(kind, expected)| {
                let expected = expected?;
                let found = outcomes.iter().filter(|outcome| **outcome == kind).count() as u64;
                let name = kind.name();
                (found != expected).then(|| format!("expected {expected} {name}, got {found}"))
            })
            .collect()
    }
}

/// A span in whole milliseconds, rounded up, as everywhere.
fn shown(micros: Micros) -> String {
    span(micros.as_millis_ceil().saturating_mul(1_000))
}

/// The rule that decides.
fn rule_of(decision: &Decision) -> Option<&str> {
    let binding = decision.binding().map(|binding| &*binding.rule.id);
    decision.refuser().map(|rule| &*rule.id).or(binding)
}

/// A decision in a few words.
pub(super) fn describe(decision: &Decision) -> String {
    let outcome = Outcome::of(decision).name();
    let by = match decision.reason() {
        DecisionReason::AllowListed { .. } | DecisionReason::DenyListed { .. } => {
            " by a list".into()
        }
        DecisionReason::Banned { .. } => {
            format!(" by a ban of {}", rule_of(decision).unwrap_or_default())
        }
        DecisionReason::MissingIdentifier { .. } => {
            format!(" by {}, which needs its identifier", rule_of(decision).unwrap_or_default())
        }
        DecisionReason::NoRule => ", no rule applies".into(),
        DecisionReason::Rules | DecisionReason::StoreUnavailable { .. } => {
            rule_of(decision).map(|rule| format!(" by {rule}")).unwrap_or_default()
        }
    };
    let remaining = decision.remaining().map(|left| format!(", remaining {left}"));
    let retry = decision.retry_after().filter(|_| !decision.is_allowed());
    let retry = retry.map(|after| format!(", retry_after {}", shown(after)));
    let delay = decision.delay().filter(|delay| *delay > Micros::ZERO);
    let delay = delay.map(|delay| format!(", delay {}", shown(delay)));
    let more: String = [remaining, retry, delay].into_iter().flatten().collect();
    format!("{outcome}{by}{more}")
}

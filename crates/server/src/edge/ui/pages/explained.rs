//! The explanation of a request by the API, as pages show it.

use http::Method;
use serde_json::{Map, Value as JsonValue, json};
use tollgate_api::{
    CounterFigures as ApiFigures, ExplainResponse, ListName, QuotaFigures, RuleExplanation, State,
    TierOrigin,
};
use tollgate_dashboard::model::{
    CounterFigures, CounterState, ExplainedRule, Explanation, Identifier, Quota, Verdict,
};

use crate::edge::ui::convert::{identifier, time_of};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;

const EXPLAIN: &str = "/api/v1/rate-limit/explain";
/// The identifiers that have fields of their own; others are attributes.
const OWN_FIELDS: [&str; 4] = ["user_id", "api_key", "ip", "tenant"];

impl Visit {
    /// Explains a request, without charging it.
    pub(super) async fn explain(&self, check: &JsonValue) -> Result<ExplainResponse, PageProblem> {
        self.send(Method::POST, EXPLAIN, &[], check).await?.json()
    }
}

/// A request of a client, as the API takes it.
pub(super) fn check_of(identifiers: &[Identifier], endpoint: &str, method: &str) -> JsonValue {
    let (mut own, mut attributes) = (Map::new(), Map::new());
    for it in identifiers {
        let value = JsonValue::from(it.value.as_str());
        if OWN_FIELDS.contains(&it.identifier_type.as_str()) {
            own.insert(it.identifier_type.clone(), value);
        } else {
            let name = it.identifier_type.strip_prefix("attribute:");
            attributes.insert(name.unwrap_or(&it.identifier_type).to_owned(), value);
        }
    }
    let mut check = Map::from_iter([("identifiers".to_owned(), JsonValue::Object(own))]);
    if !attributes.is_empty() {
        check.insert("attributes".to_owned(), JsonValue::Object(attributes));
    }
    for (name, value) in [("endpoint", endpoint), ("method", method)] {
        if !value.is_empty() {
            check.insert(name.to_owned(), json!(value));
        }
    }
    JsonValue::Object(check)
}

/// The explanation as a page shows it: rules that apply first.
pub(super) fn explanation(response: &ExplainResponse, identity: Vec<Identifier>) -> Explanation {
    let binding = response.binding.as_deref();
    let figures = |rule_id: &str| response.figures.iter().find(|it| it.rule_id == rule_id);
    let mut rules: Vec<ExplainedRule> =
        response.rules.iter().map(|rule| rule_of(rule, figures(&rule.rule_id), binding)).collect();
    rules.sort_by_key(|rule| !rule.applies);
    let listed = response.listed.as_ref();
    let banned = response.rules.iter().find(|rule| rule.banned_until.is_some());
    let because = match (listed, response.would_pass) {
        (Some(it), _) => {
            let list = if it.list == ListName::Allow { "allow list" } else { "deny list" };
            let reason = it.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            Some(format!("the client is on the {list}{reason}"))
        }
        (None, false) if response.store_unavailable => {
            Some("the store is away, and the rule fails closed".to_owned())
        }
        (None, false) => banned.map(|_| "it has banned the client".to_owned()),
        (None, true) => {
            let has_rule = response.rules.iter().any(|rule| rule.applies);
            (!has_rule).then(|| "no rule applies".to_owned())
        }
    };
    Explanation {
        is_charged: false,
        decision_id: None,
        verdict: if response.would_pass { Verdict::Passes } else { Verdict::Refused },
        because,
        binding: response.binding.clone(),
        retry_ms: response.retry_ms,
        delay_ms: None,
        revision: response.revision.number,
        path: response.path.clone(),
        identity,
        tier: response.tier.clone(),
        tier_origin: origin_of(&response.tier_from),
        listed: listed.map(|it| (it.list == ListName::Allow, it.by.clone(), it.reason.clone())),
        rules,
        degraded: response.degraded.clone(),
        has_envoy_limits: response.has_envoy_limits,
    }
}

/// Where a tier comes from, in a few words.
pub(super) fn origin_of(origin: &TierOrigin) -> String {
    match origin {
        TierOrigin::Directory(types) => format!("put into it, by {types}"),
        TierOrigin::Request => "from the request".to_owned(),
        TierOrigin::Default => "the default tier".to_owned(),
        _ => String::new(),
    }
}

fn rule_of(
    rule: &RuleExplanation,
    figures: Option<&ApiFigures>,
    binding: Option<&str>,
) -> ExplainedRule {
    let key = rule.key.iter().map(|part| identifier(&part.identifier_type, &part.value));
    ExplainedRule {
        rule_id: rule.rule_id.clone(),
        applies: rule.applies,
        because: because_of(rule),
        lacks_identifier: rule.refuses,
        banned_until: rule.banned_until.as_deref().and_then(time_of),
        is_shadow: rule.log_only,
        replaced_by: rule.replaced_by.clone(),
        key: key.collect(),
        cost: rule.cost,
        quota: quota_of(&rule.quota, rule),
        quota_origin: quota_origin(&rule.quota),
        figures: figures.map(|it| CounterFigures {
            limit: it.limit,
            remaining: it.remaining,
            is_exceeded: it.exceeded,
            window_reset_ms: it.window_reset_ms,
            reset_ms: it.reset_ms,
            next_ms: it.next_ms,
            state: match it.state {
                State::Warning => CounterState::Warning,
                State::Throttled => CounterState::Throttled,
                _ => CounterState::Normal,
            },
        }),
        binds: binding == Some(&rule.rule_id),
        is_uncounted: false,
    }
}

/// Why a rule applies or not. A ban is a field besides.
fn because_of(rule: &RuleExplanation) -> String {
    let of_match = rule.because.rsplit_once("; banned until ");
    of_match.filter(|_| rule.banned_until.is_some()).map_or(&*rule.because, |it| it.0).to_owned()
}

/// The limit that holds for a client.
pub(super) fn quota_of(quota: &QuotaFigures, rule: &RuleExplanation) -> Quota {
    Quota {
        limit: quota.limit,
        window_ms: quota.window_ms,
        calendar: quota.calendar.clone(),
        burst: Some(quota.capacity).filter(|capacity| *capacity != quota.limit),
        algorithm: quota.algorithm.clone(),
        identifiers: rule.key.iter().map(|part| part.identifier_type.clone()).collect(),
    }
}

fn quota_origin(quota: &QuotaFigures) -> Option<String> {
    if let Some(types) = &quota.override_by {
        let until = quota.override_expires_at.as_ref();
        let until = until.map(|end| format!(", until {end}")).unwrap_or_default();
        return Some(format!("an override by {types}{until}"));
    }
    quota.limit_from.clone()
}

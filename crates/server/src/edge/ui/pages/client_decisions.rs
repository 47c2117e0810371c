//! The last decisions about a client: by any of its identifiers, with the limits behind its refusals. These may count by
//! something else than the name of the client.

use tollgate_api::{ExplainResponse, RuleExplanation};
use tollgate_dashboard::model::{ClientLimit, Identifier, RefusedRequest};

use super::client::{API_KEY, limit_of};
use super::client_key::is_digest;
use super::explained::{check_of, quota_of};
use crate::edge::ui::convert::{DecisionJson, identifier, time_of};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;

/// How many decisions of a client are listed.
const DECISIONS: &str = "20";
/// Of how many rules that refused it lately the limits are shown.
const MAX_REFUSING_RULES: usize = 4;
/// How many other identifiers of a client are linked.
const MAX_OTHERS: usize = 8;
/// The identifiers that a client is looked for by, the most specific first.
const NAMES: [&str; 4] = ["user_id", API_KEY, "ip", "tenant"];

/// A page of decisions of the log.
#[derive(Debug, serde::Deserialize)]
pub(super) struct DecisionsJson {
    pub(super) records: Vec<DecisionJson>,
}

/// The identifier by which decisions about a client are found.
pub(super) fn named_by(identifiers: &[Identifier]) -> Option<&Identifier> {
    let by = |kind: &str| identifiers.iter().find(|it| it.identifier_type == kind);
    NAMES.into_iter().find_map(by).or_else(|| identifiers.first())
}

/// The last decisions about a client.
pub(super) async fn read(
    visit: &Visit,
    identifiers: &[Identifier],
) -> Result<Vec<DecisionJson>, PageProblem> {
    let Some(named) = named_by(identifiers) else { return Ok(Vec::new()) };
    let mut query = vec![
        ("client", named.value.as_str()),
        ("client_type", named.identifier_type.as_str()),
        ("limit", DECISIONS),
    ];
    let tenant = identifiers.iter().find(|it| it.identifier_type == "tenant");
    query.extend(tenant.map(|it| ("tenant", it.value.as_str())));
    let found: DecisionsJson = visit.read("/api/v1/audit/decisions", &query).await?;
    Ok(found.records)
}

/// The other identifiers that the decisions about a client have.
pub(super) fn others(
    identifiers: &[Identifier],
    decisions: &Result<Vec<DecisionJson>, PageProblem>,
) -> Vec<Identifier> {
    let mut others: Vec<Identifier> = Vec::new();
    let known = decisions.iter().flatten().flat_map(|it| &it.identifiers);
    for (kind, value) in known {
        let own = identifiers.iter().any(|it| it.identifier_type == *kind);
        let it = identifier(kind, value);
        if !own && !others.contains(&it) && others.len() < MAX_OTHERS {
            others.push(it);
        }
    }
    others
}

/// The rules that refused a request, or would have.
fn refused_by(decision: &DecisionJson) -> impl Iterator<Item = &str> {
    let is_refusal = matches!(&*decision.action, "refused" | "denied" | "would_refuse");
    let rules = decision.rule_id.iter().chain(&decision.also_would_refuse);
    rules.filter(move |_| is_refusal).map(String::as_str)
}

/// The last request of the client that a rule refused, or would have.
pub(super) fn last_refused(
    decisions: &Result<Vec<DecisionJson>, PageProblem>,
    rule_id: &str,
) -> Option<RefusedRequest> {
    let mut decisions = decisions.iter().flatten();
    decisions.find(|it| refused_by(it).any(|other| other == rule_id)).map(request_of)
}

fn request_of(decision: &DecisionJson) -> RefusedRequest {
    RefusedRequest {
        at: time_of(&decision.at).unwrap_or_default(),
        decision_id: decision.decision_id.clone(),
        method: decision.method.clone(),
        endpoint: decision.endpoint.clone(),
        has_passed: decision.action == "would_refuse",
    }
}

/// The limits of the rules that refused the client last, or would have, by the whole requests; without those that are
/// shown already.
pub(super) async fn refused_limits(
    visit: &Visit,
    identifiers: &[Identifier],
    decisions: &Result<Vec<DecisionJson>, PageProblem>,
    shown: &[ClientLimit],
) -> Vec<ClientLimit> {
    let mut last: Vec<(&DecisionJson, &str)> = Vec::new();
    for decision in decisions.iter().flatten() {
        for rule_id in refused_by(decision) {
            let is_shown = shown.iter().any(|it| it.rule_id == rule_id);
            if !is_shown && last.iter().all(|(_, other)| *other != rule_id) {
                last.push((decision, rule_id));
            }
        }
    }
    let mut limits: Vec<ClientLimit> = Vec::new();
    for (decision, rule_id) in last.into_iter().take(MAX_REFUSING_RULES) {
        limits.extend(limit_behind(visit, identifiers, decision, rule_id).await);
    }
    limits
}

/// Puts candidates after the limits of their rules.
pub(super) fn put_candidates_below(limits: &mut Vec<ClientLimit>) {
    let all = std::mem::take(limits);
    let (candidates, own): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|limit| limit.candidate_of.is_some());
    *limits = own;
    for candidate in candidates {
        let is_of = |it: &ClientLimit| Some(&it.rule_id) == candidate.candidate_of.as_ref();
        let place = limits.iter().position(is_of).map_or(limits.len(), |place| place + 1);
        limits.insert(place, candidate);
    }
}

/// The limit by which a rule refused a request.
async fn limit_behind(
    visit: &Visit,
    identifiers: &[Identifier],
    decision: &DecisionJson,
    rule_id: &str,
) -> Option<ClientLimit> {
    let own = |kind: &str| identifiers.iter().any(|it| it.identifier_type == kind);
    let others = decision.identifiers.iter().filter(|(kind, _)| !own(kind));
    let others: Vec<Identifier> = others.map(|(kind, value)| identifier(kind, value)).collect();
    let all: Vec<Identifier> = identifiers.iter().chain(&others).cloned().collect();
    let (endpoint, method) = (decision.endpoint.as_deref(), decision.method.as_deref());
    let check = check_of(&all, endpoint.unwrap_or_default(), method.unwrap_or_default());
    // The page shows the other limits without it.
    let explained = visit.explain(&check).await.ok()?;
    let rule = explained.rules.iter().find(|rule| rule.rule_id == rule_id && rule.applies)?;
    let counted_by =
        |it: &Identifier| rule.key.iter().any(|part| part.identifier_type == it.identifier_type);
    Some(ClientLimit {
        with: others.iter().filter(|it| counted_by(it)).cloned().collect(),
        refused: Some(request_of(decision)),
        is_unknown: all.iter().any(|it| is_digest(it) && counted_by(it)),
        ..limit_of(visit, rule, &explained).or_else(|| banned_limit(rule, &explained))?
    })
}

/// A limit that is not counted while the client is banned.
fn banned_limit(rule: &RuleExplanation, explained: &ExplainResponse) -> Option<ClientLimit> {
    let ends = explained.rules.iter().filter_map(|rule| rule.banned_until.as_deref());
    Some(ClientLimit {
        rule_id: rule.rule_id.clone(),
        quota: quota_of(&rule.quota, rule),
        banned_until: Some(ends.filter_map(time_of).max()?),
        is_shadow: rule.log_only,
        candidate_of: rule.candidate_of.clone(),
        is_override: rule.quota.override_by.is_some(),
        ..ClientLimit::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_below_their_rules() {
        let limit = |rule_id: &str, candidate_of: Option<&str>| ClientLimit {
            rule_id: rule_id.to_owned(),
            candidate_of: candidate_of.map(str::to_owned),
            ..ClientLimit::default()
        };
        let mut limits = vec![
            limit("b~candidate", Some("b")),
            limit("gone~candidate", Some("gone")),
            limit("a", None),
            limit("b", None),
            limit("c", None),
        ];
        put_candidates_below(&mut limits);
        let names: Vec<&str> = limits.iter().map(|it| it.rule_id.as_str()).collect();
        assert_eq!(names, ["a", "b", "b~candidate", "c", "gone~candidate"]);
    }
}

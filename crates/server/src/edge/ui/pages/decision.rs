//! One decision of the past: why it was made, and its refund.

use axum::response::Response;
use http::Method;
use serde_json::json;
use tollgate_api::{
    Changed, DecisionRecord, Reason, RecordedPart, RecordedRequest, RuleResult, State,
};
use tollgate_dashboard::model::{
    ClientRef, CounterFigures, CounterState, DecisionRow, ExplainedDecision, ExplainedRule,
    Identifier, Outcome, Quota, TryForm,
};
use tollgate_dashboard::path;

use super::client_decisions::named_by;
use super::local_path;
use crate::edge::ui::api::segment;
use crate::edge::ui::convert::{identifier, time_of};
use crate::edge::ui::notice;
use crate::edge::ui::page::see_other;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::{FormVisit, Visit};

/// Returns the charge of a decision.
pub(in crate::edge::ui) async fn refund(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let id = form.required("decision_id")?.to_owned();
            let body = json!({"decision_id": id});
            let response =
                visit.send(Method::POST, "/api/v1/rate-limit/refund", &[], &body).await?;
            let Changed { counters } = response.json()?;
            let back = local_path(form.text("next")).unwrap_or_else(|| path::decision(&id));
            Ok(see_other(&notice::with(&back, "refunded", Some(counters as u64))))
        })
        .await
}

/// What the page shows.
pub(super) async fn gather(visit: &Visit, id: &str) -> Result<ExplainedDecision, PageProblem> {
    let path = format!("/api/v1/decisions/{}", segment(id));
    let response = visit.get(&path, &[]).await?;
    let record: DecisionRecord<'_> = response.json()?;
    let mut explained = explained(id, &record);
    explained.decision.node = record.request.node.as_deref().map(|node| node_text(visit, node));
    Ok(explained)
}

/// A node by its machine, if it is listed; names of nodes change with every start.
fn node_text(visit: &Visit, name: &str) -> String {
    let nodes = visit.ui.app.nodes();
    let listed = nodes.iter().find(|node| node.name == name);
    match listed {
        Some(node) if node.is_this => format!("{} ({name}), this node", node.host),
        Some(node) => format!("{} ({name})", node.host),
        None => format!("{name}, which is not listed any more"),
    }
}

fn explained(id: &str, record: &DecisionRecord<'_>) -> ExplainedDecision {
    let (answer, request) = (&record.answer, &record.request);
    let binding = answer.rule_id.as_deref();
    let identifiers: Vec<Identifier> =
        request.identifiers.iter().map(|(kind, value)| identifier(kind, value)).collect();
    let row = DecisionRow {
        at: time_of(&record.at).unwrap_or_default(),
        decision_id: Some(id.to_owned()),
        outcome: match (answer.allowed, answer.reason) {
            (true, _) if answer.delay_ms.is_some() => Outcome::Throttled,
            (true, _) => Outcome::Allowed,
            (false, Some(Reason::Denied | Reason::Banned)) => Outcome::Denied,
            (false, _) => Outcome::Refused,
        },
        client: client_of(&identifiers),
        tenant: request.identifiers.get("tenant").cloned(),
        method: request.method.clone(),
        endpoint: request.endpoint.clone(),
        rule_id: binding.map(str::to_owned),
        reason: answer.reason.map(|reason| reason.name().to_owned()),
        limit: answer.limit,
        remaining: answer.remaining,
        retry_after: answer.retry_after.flatten(),
        degraded: answer.degraded.clone(),
        ..DecisionRow::default()
    };
    let is_refunded = record.because.ends_with("it was refunded");
    ExplainedDecision {
        because: record.because.clone(),
        identifiers,
        tier: record.tier.as_ref().map(|tier| tier.clone().into_owned()),
        revision: record.revision,
        uncounted: uncounted(record),
        rules: rules_of(record),
        source: record
            .revision
            .is_none()
            .then(|| "the log of decisions, which has only the rule that decided".to_owned()),
        can_refund: answer.allowed && !record.rules.is_empty() && !is_refunded,
        again: again_of(request),
        decision: row,
    }
}

/// A client by the name that it has in logs.
fn client_of(identifiers: &[Identifier]) -> ClientRef {
    let named = named_by(identifiers).map(|it| it.value.clone()).unwrap_or_default();
    ClientRef { name: named, identifiers: identifiers.to_vec() }
}

/// Why no rule was counted.
fn uncounted(record: &DecisionRecord<'_>) -> String {
    let because = &record.because;
    match record.answer.reason {
        Some(Reason::StoreUnavailable) => {
            "No rule could be counted: the store was away, and a rule that applies fails closed."
                .to_owned()
        }
        _ if record.revision.is_none() => "The log has no figures of rules.".to_owned(),
        _ => format!("No rule was counted: {because}."),
    }
}

/// The rules of a decision, each with the key that it counted by. The one that refused without counting is there too.
fn rules_of(record: &DecisionRecord<'_>) -> Vec<ExplainedRule> {
    let binding = record.answer.rule_id.as_deref();
    let key_of = |rule_id: &str| {
        let found = record.request.keys.iter().find(|it| it.rule_id == rule_id);
        let parts = found.map(|it| it.key.as_slice()).unwrap_or_default();
        let shown = |it: &RecordedPart| {
            identifier(&it.identifier_type, it.value.as_deref().unwrap_or("(not recorded)"))
        };
        parts.iter().map(shown).collect::<Vec<_>>()
    };
    let mut rules: Vec<ExplainedRule> = record
        .rules
        .iter()
        .map(|rule| ExplainedRule { key: key_of(&rule.rule_id), ..rule_of(rule, binding) })
        .collect();
    // A rule that bans or fails closed refuses without its counter, and the log has the rule that decided alone.
    let is_uncounted = binding.filter(|id| rules.iter().all(|rule| rule.rule_id != *id));
    rules.extend(is_uncounted.map(|rule_id| ExplainedRule {
        rule_id: rule_id.to_owned(),
        applies: true,
        because: record.because.clone(),
        key: key_of(rule_id),
        quota: Quota { limit: record.answer.limit.unwrap_or_default(), ..Quota::default() },
        binds: true,
        is_uncounted: record.answer.limit.is_none(),
        ..ExplainedRule::default()
    }));
    rules
}

fn rule_of(rule: &RuleResult<'_>, binding: Option<&str>) -> ExplainedRule {
    let (limit, seconds) = rule.quota.as_ref().map_or_else(
        || (rule.limit, rule.window_seconds),
        |quota| (quota.limit, quota.window_seconds),
    );
    ExplainedRule {
        rule_id: rule.rule_id.clone().into_owned(),
        applies: true,
        because: if rule.allowed { "it fitted" } else { "it was beyond the limit" }.to_owned(),
        is_shadow: rule.shadow,
        cost: rule.cost,
        quota: Quota {
            limit,
            window_ms: (seconds * 1e3) as u64,
            burst: rule.quota.as_ref().map(|_| rule.limit),
            ..Quota::default()
        },
        figures: Some(CounterFigures {
            limit: rule.limit,
            remaining: rule.remaining,
            is_exceeded: !rule.allowed,
            window_reset_ms: None,
            reset_ms: 0,
            next_ms: rule.retry_after.flatten().map(|seconds| seconds * 1_000),
            state: match rule.state {
                State::Warning => CounterState::Warning,
                State::Throttled => CounterState::Throttled,
                _ => CounterState::Normal,
            },
        }),
        binds: binding == Some(&*rule.rule_id),
        ..ExplainedRule::default()
    }
}

/// The request of a decision, to try it again. Secrets are not known, so they are left out.
fn again_of(request: &RecordedRequest) -> TryForm {
    let known = |name: &str| request.identifiers.get(name).cloned().unwrap_or_default();
    TryForm {
        method: request.method.clone().unwrap_or_default(),
        endpoint: request.endpoint.clone().unwrap_or_default(),
        user_id: known("user_id"),
        ip: known("ip"),
        tenant: known("tenant"),
        ..TryForm::default()
    }
}

//! One decision of the past: why it was made, and its refund.

use axum::response::Response;
use http::Method;
use serde_json::json;
use tollgate_api::{Changed, DecisionRecord, RuleResult, State};
use tollgate_dashboard::model::{
    ClientRef, CounterFigures, CounterState, DecisionRow, ExplainedDecision, ExplainedRule,
    Outcome, Quota, TryForm,
};
use tollgate_dashboard::path;

use super::local_path;
use crate::edge::ui::api::segment;
use crate::edge::ui::convert::{DecisionJson, time_of};
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
    let logged = logged(visit, id, &record).await;
    Ok(explained(id, &record, logged))
}

/// The decision in the log, which knows who sent the request; `None` if it is not there.
async fn logged(visit: &Visit, id: &str, record: &DecisionRecord<'_>) -> Option<DecisionJson> {
    #[derive(serde::Deserialize)]
    struct Page {
        records: Vec<DecisionJson>,
    }

    // There is no search by id: those of the same second are few.
    let second = tollgate::rules::parse_time(&record.at)?;
    let next = second.plus(tollgate::Micros::from_secs(1));
    let (since, until) = (
        crate::edge::http::wire::time::rfc_3339_exact(second),
        crate::edge::http::wire::time::rfc_3339_exact(next),
    );
    let query = [("since", since.as_str()), ("until", until.as_str()), ("limit", "1000")];
    let page: Page = visit.read("/api/v1/audit/decisions", &query).await.ok()?;
    page.records.into_iter().find(|it| it.decision_id == id)
}

fn explained(
    id: &str,
    record: &DecisionRecord<'_>,
    logged: Option<DecisionJson>,
) -> ExplainedDecision {
    let answer = &record.answer;
    let again = logged.as_ref().map(again_of).unwrap_or_default();
    let binding = answer.rule_id.as_deref();
    let row = logged.map_or_else(
        || DecisionRow {
            outcome: match (answer.allowed, answer.reason) {
                (true, _) if answer.delay_ms.is_some() => Outcome::Throttled,
                (true, _) => Outcome::Allowed,
                (false, Some(tollgate_api::Reason::Denied)) => Outcome::Denied,
                (false, _) => Outcome::Refused,
            },
            client: ClientRef::default(),
            rule_id: binding.map(str::to_owned),
            reason: answer.reason.map(|reason| reason.name().to_owned()),
            limit: answer.limit,
            remaining: answer.remaining,
            retry_after: answer.retry_after.flatten(),
            degraded: answer.degraded.clone(),
            ..DecisionRow::default()
        },
        DecisionJson::into_row,
    );
    let at = time_of(&record.at).unwrap_or_default();
    let row = DecisionRow { at, decision_id: Some(id.to_owned()), ..row };
    let is_refunded = record.because.ends_with("it was refunded");
    ExplainedDecision {
        because: record.because.clone(),
        tier: record.tier.as_ref().map(|tier| tier.clone().into_owned()),
        revision: record.revision,
        rules: record.rules.iter().map(|rule| rule_of(rule, binding)).collect(),
        source: record
            .revision
            .is_none()
            .then(|| "the log of decisions, which has only the rule that decided".to_owned()),
        can_refund: answer.allowed && !record.rules.is_empty() && !is_refunded,
        again,
        decision: row,
    }
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
fn again_of(decision: &DecisionJson) -> TryForm {
    let known = |name: &str| decision.identifiers.get(name).cloned().unwrap_or_default();
    TryForm {
        method: decision.method.clone().unwrap_or_default(),
        endpoint: decision.endpoint.clone().unwrap_or_default(),
        user_id: known("user_id"),
        ip: known("ip"),
        tenant: known("tenant"),
        ..TryForm::default()
    }
}

//! A decision as a tenant-admin sees it: one of its tenant, with the figures of its own rules, and of no others.

use tollgate_api::RuleResult;

use super::{logged, record_of};
use crate::app::state::Shared;
use crate::check::decision_id::DecisionId;
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::response::own_results;
use crate::observe::audit_log::log::DecisionDetails;

/// What a rule is called that is not of the tenant.
const FOREIGN: &str = "a rule of the operators";

/// Explains a decision of a tenant. The log says of which tenant a decision is, so one that is not there is not
/// explained: it may be of another tenant.
pub(super) async fn explain(
    app: &Shared,
    text: &str,
    id: DecisionId,
    tenant: &str,
) -> Result<String, Problem> {
    let Some(logged) = logged(app, text, Some(tenant)).await? else {
        let detail = format!("the log has no decision {id} about a request of this tenant");
        return Err(Problem::not_found("unknown_decision", detail));
    };
    let details: DecisionDetails = serde_json::from_str(&logged.body).unwrap_or_default();
    let is_own = |id: &str| app.is_rule_of(id, Some(tenant));
    let rule = match logged.rule_id.as_deref() {
        Some(id) if is_own(id) => format!("rule {id}"),
        Some(_) => FOREIGN.to_owned(),
        None => "no rule".to_owned(),
    };
    let written = |rules: Vec<RuleResult<'_>>, revision| {
        let mut record = record_of(&logged, &details, &rule);
        record.tier = None;
        if logged.rule_id.as_deref().is_some_and(|id| !is_own(id)) {
            let answer = &mut record.answer;
            (answer.rule_id, answer.limit, answer.remaining) = (None, None, None);
            answer.retry_after = None;
        }
        (record.rules, record.revision) = (rules, revision);
        serde_json::to_string(&record).unwrap_or_default()
    };
    let journal = app.journal.with(id, |decision, _| {
        written(own_results(decision, tenant), Some(decision.revision().number))
    });
    Ok(journal.unwrap_or_else(|_| written(Vec::new(), None)))
}

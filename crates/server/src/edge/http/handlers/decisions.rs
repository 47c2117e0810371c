//! `GET /api/v1/decisions/{id}`: why a recent request was refused, or not. The journal of the node that made a decision knows
//! most. Those of other nodes are explained by what is sealed into their id, by the node that made them, or from the log
//! of decisions.

use std::borrow::Cow;

use axum::extract;
use axum::response::{IntoResponse, Response};
use http::header;
use tollgate::http::remaining;
use tollgate::{ClaimedOutcome, Decision, DecisionReason, Micros, Mode, RefundClaim, decide};
use tollgate_api::{CheckResponse, DecisionRecord, Reason, RecordedRequest, RuleResult, State};
use tollgate_catalog::{DecisionAction, DecisionFilter, LoggedDecision};

mod of_tenant;

use super::recorded_request;
use crate::admin::refusal;
use crate::app::state::{ServerState, Shared};
use crate::check::decision_id::DecisionId;
use crate::check::journal::Missing;
use crate::check::refund::{missing_decision, opened_id};
use crate::check::remote_journal::RemoteDecision;
use crate::edge::http::extract::{PathName, RuleViewer, Session, read_name};
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::response::{figures_of, response, rule_results, state};
use crate::edge::http::wire::time::{rfc_3339, rfc_3339_past};
use crate::observe::audit_log::log::DecisionDetails;
use crate::observe::audit_log::shortened;
use crate::policy::source::PolicySource;

const ONLY_SHADOW: &str = "only rules in shadow mode applied";

/// Explains a recent decision: its reason, and the figures of every rule at that moment.
///
/// A tenant-admin gets the decisions of its tenant that are in the log, with the figures of its own rules.
///
/// Decisions of other nodes are explained by what their id carries, or by the node that made them. If that node has no
/// secret of the fleet, does not respond within a second or has forgotten the decision, the log of decisions has the
/// figures of the rule that decided. The identifiers of the request, and what each rule counted it by, are those of the log
/// of decisions.
#[utoipa::path(
    get, path = "/api/v1/decisions/{decision_id}", tag = "operate",
    params(("decision_id" = String, Path, description = "The id, as in the response to the check", example = "d1f00dbee-a2a")),
    security(("token" = [])),
    responses(
        (status = 200, description = "Explained", body = DecisionRecord<'_>),
        (status = 400, description = "The path cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No such decision", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The decision id was changed", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 503, description = "The fleet's secret is not known yet, the catalog is unavailable, or too many calls ask other nodes", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 409, description = "A node of an earlier version has refunded the decision", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn decision(
    extract::State(app): extract::State<ServerState>,
    RuleViewer(session): RuleViewer,
    id: PathName,
) -> Result<Response, Problem> {
    let text = read_name(id)?;
    let (id, sealed) = opened_id(&app, &text)?;
    if let Some(tenant) = session.tenant() {
        let explained = of_tenant::explain(&app, &text, id, &tenant).await?;
        let explained = recorded_request::add(&app, &text, explained, false).await;
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        return Ok((session.fields, content_type, explained).into_response());
    }
    let explained =
        app.journal.with(id, |decision, is_refunded| explain(&text, decision, is_refunded));
    let claim = sealed.as_deref().and_then(RefundClaim::read);
    let explained = match (explained, claim) {
        (Ok(explained), _) => explained,
        (Err(_), Some(claim)) => explain_claim(&text, &claim),
        (Err(missing), None) => {
            let remote = match missing {
                Missing::OtherNode => ask_its_node(&app, &session, id).await?,
                Missing::Unknown | Missing::GivenBack => None,
            };
            match remote {
                Some(RemoteDecision::Explained(explained)) => explained,
                Some(RemoteDecision::GivenBack) => {
                    return Err(missing_decision(Missing::GivenBack, id));
                }
                other => match logged(&app, &text, None).await? {
                    Some(decision) => explain_logged(&decision),
                    None => return Err(not_explained(other.as_ref(), missing, id)),
                },
            }
        }
    };
    let explained = recorded_request::add(&app, &text, explained, true).await;
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    Ok((session.fields, content_type, explained).into_response())
}

/// Asks the node that made a decision; `None` if there is no way to.
async fn ask_its_node(
    app: &Shared,
    session: &Session,
    id: DecisionId,
) -> Result<Option<RemoteDecision>, Problem> {
    let Some(secret) = app.fleet.secret().filter(|_| id.is_of_fleet()) else { return Ok(None) };
    if !app.fleet.has_shared_store() {
        return Ok(None);
    }
    let _ticket = app.queues.journal_queries.enter(&session.caller())?;
    Ok(Some(app.remote_journal.ask(secret, id).await))
}

/// The problem of a decision that no node, and no log, explains.
fn not_explained(remote: Option<&RemoteDecision>, missing: Missing, id: DecisionId) -> Problem {
    let why = match remote {
        Some(RemoteDecision::Silent) => format!(
            "another node made decision {id}, or this one before it was restarted, and does not respond; the log of \
             decisions has those that were refused, if there is a catalog"
        ),
        Some(RemoteDecision::TooLong) => format!(
            "the explanation of decision {id} is too long to be sent from the node that made it; call that node"
        ),
        Some(_) => format!(
            "the node that made decision {id} does not know it any more; it knows recent ones (decisions_kept)"
        ),
        None => return missing_decision(missing, id),
    };
    Problem::not_found("unknown_decision", why)
}

/// The explanation of a decision, as JSON.
pub(crate) fn explain(id: &str, decision: &Decision, is_refunded: bool) -> String {
    // Serialized while the decision is locked; it may be evicted when the response is sent.
    let record = DecisionRecord {
        decision_id: Cow::Borrowed(id),
        at: rfc_3339_past(decision.now()),
        because: because(decision) + if is_refunded { "; it was refunded" } else { "" },
        tier: decision.tier().map(Cow::Borrowed),
        revision: Some(decision.revision().number),
        answer: response(decision, Some(id), false),
        rules: rule_results(decision),
        request: RecordedRequest::default(),
    };
    serde_json::to_string(&record).unwrap_or_default()
}

/// Explains a decision that only its id is left of: another node made it, or this one has forgotten it.
fn explain_claim(id: &str, claim: &RefundClaim<'_>) -> String {
    let charged: Vec<ClaimedOutcome<'_>> = claim.outcomes().collect();
    let (at, verdict) = (claim.charged_at(), decide(charged.iter().map(|it| it.outcome.vote())));
    let binding = verdict.binding.and_then(|binding| charged.get(binding));
    let because = binding.map_or_else(
        || ONLY_SHADOW.to_owned(),
        |binding| format!("every rule admitted it; {} has the least left", binding.rule_id),
    );
    let rules: Vec<RuleResult<'_>> = charged
        .iter()
        .map(|it| figures_of(it.rule_id, at, &it.limit, &it.outcome, it.state))
        .collect();
    let enforced = charged.iter().filter(|it| it.outcome.mode != Mode::Shadow);
    let soft = enforced.map(|it| it.state).max().unwrap_or_default();
    let answer = CheckResponse {
        allowed: true,
        limit: binding.map(|binding| binding.outcome.limit),
        remaining: binding.map(|binding| remaining(&binding.outcome)),
        reset_at: rules.get(verdict.binding.unwrap_or(usize::MAX)).map(|rule| rule.reset_at),
        rule_id: binding.map(|binding| Cow::Borrowed(binding.rule_id)),
        state: state(soft),
        decision_id: Some(Cow::Borrowed(id)),
        retry_after: None,
        reason: None,
        because: None,
        delay_ms: verdict.delay.filter(|it| *it > Micros::ZERO).map(Micros::as_millis_ceil),
        degraded: None,
        rules: None,
    };
    let record = DecisionRecord {
        decision_id: Cow::Borrowed(id),
        at: rfc_3339_past(at),
        because,
        tier: claim.tier().map(Cow::Borrowed),
        revision: Some(claim.revision()),
        answer,
        rules,
        request: RecordedRequest::default(),
    };
    serde_json::to_string(&record).unwrap_or_default()
}

/// A decision of the log, where all nodes write theirs; of one tenant, if that is given.
pub(super) async fn logged(
    app: &Shared,
    id: &str,
    tenant: Option<&str>,
) -> Result<Option<LoggedDecision>, Problem> {
    let PolicySource::Catalog(catalog_sync) = &app.policy_source else { return Ok(None) };
    let filter = DecisionFilter {
        decision_id: Some(id.to_owned()),
        // Names are stored shortened, so they are searched shortened.
        tenant: tenant.map(|tenant| shortened(tenant).to_owned()),
        ..DecisionFilter::default()
    };
    let found = catalog_sync.catalog.decisions(&filter, None, 1).await;
    Ok(found.map_err(|error| refusal(&error))?.pop())
}

/// Explains a decision by its record in the log, which has the figures of the rule that decided.
fn explain_logged(logged: &LoggedDecision) -> String {
    let details: DecisionDetails = serde_json::from_str(&logged.body).unwrap_or_default();
    let rule =
        logged.rule_id.as_deref().map_or_else(|| "no rule".to_owned(), |id| format!("rule {id}"));
    serde_json::to_string(&record_of(logged, &details, &rule)).unwrap_or_default()
}

/// What the log knows of a decision. `rule` is what the rule that decided is called.
fn record_of<'a>(
    logged: &'a LoggedDecision,
    details: &'a DecisionDetails,
    rule: &str,
) -> DecisionRecord<'a> {
    let allowed = !matches!(logged.action, DecisionAction::Refused | DecisionAction::Denied);
    let reason = details.reason.as_deref();
    let because = match (logged.action, reason) {
        (DecisionAction::Denied | DecisionAction::Refused, Some("banned")) => {
            format!("{rule} has banned the client")
        }
        (DecisionAction::Denied, _) => {
            "the client is on the deny list, or lacks an identifier that a rule requires".to_owned()
        }
        (DecisionAction::Refused, Some("store_unavailable")) => {
            format!("{rule} refuses requests while the store is away")
        }
        (DecisionAction::Refused, _) => format!("{rule} was exceeded and binds"),
        (DecisionAction::WouldRefuse, _) => {
            format!("allowed; {rule} in shadow mode was exceeded")
        }
        (DecisionAction::Throttled | DecisionAction::Allowed, _) => {
            format!("every rule admitted it; {rule} has the least left")
        }
    };
    let id = Cow::Borrowed(logged.decision_id.as_str());
    DecisionRecord {
        decision_id: id.clone(),
        at: rfc_3339_past(logged.at),
        because,
        tier: details.tier.as_deref().map(Cow::Borrowed),
        revision: None,
        answer: CheckResponse {
            allowed,
            limit: details.limit,
            remaining: details.remaining,
            reset_at: None,
            rule_id: logged.rule_id.as_deref().map(Cow::Borrowed),
            state: State::default(),
            decision_id: Some(id),
            retry_after: (!allowed).then_some(details.retry_after),
            reason: reason.and_then(Reason::from_name),
            because: None,
            delay_ms: None,
            degraded: details.degraded.clone(),
            rules: None,
        },
        rules: Vec::new(),
        request: RecordedRequest::default(),
    }
}

fn because(decision: &Decision) -> String {
    let rule = |at: usize| {
        decision.policy().rules().get(at).map_or_else(String::new, |rule| rule.id.to_string())
    };
    let given = |reason: &Option<std::sync::Arc<str>>| {
        reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
    };
    match decision.reason() {
        DecisionReason::NoRule if !decision.is_allowed() => {
            "no rule applied, and unmatched is deny".to_owned()
        }
        DecisionReason::NoRule => "no rule applied".to_owned(),
        DecisionReason::AllowListed { reason } => {
            format!("the client is never limited{}", given(reason))
        }
        DecisionReason::DenyListed { reason, .. } => {
            format!("the client is on the deny list{}", given(reason))
        }
        DecisionReason::MissingIdentifier { rule: at } => {
            format!("rule {} refuses requests that lack its identifier", rule(*at))
        }
        DecisionReason::Banned { rule: at, until } => {
            let penalty = decision.policy().rules().get(*at).and_then(|it| it.penalty.as_ref());
            let cause = penalty.map_or_else(String::new, |it| {
                let within = it.within.as_secs_ceil();
                format!(", which follows {} refusals within {within} s", it.after)
            });
            let until = rfc_3339(*until);
            format!("rule {} has banned the client until {until} by penalty{cause}", rule(*at))
        }
        DecisionReason::StoreUnavailable { rule: at } => {
            format!("rule {} refuses requests while the store is away", rule(*at))
        }
        DecisionReason::Rules => match decision.binding() {
            Some(binding) if decision.is_allowed() => {
                format!("every rule admitted it; {} has the least left", binding.rule.id)
            }
            Some(binding) => {
                format!("rule {} was exceeded and binds{}", binding.rule.id, unread(decision))
            }
            None => ONLY_SHADOW.to_owned(),
        },
    }
}

/// Why other rules have no figures: the deny cache knew the refusal, or a rule of local consistency refused before the
/// store was called.
fn unread(decision: &Decision) -> String {
    // Without the store, rules that fail open have no figures.
    match if decision.degraded().is_some() { 0 } else { decision.unread() } {
        0 => String::new(),
        1 => "; another rule was not looked at, since this node knew of the refusal already"
            .to_owned(),
        more => {
            format!(
                "; {more} other rules were not looked at, since this node knew of the refusal already"
            )
        }
    }
}

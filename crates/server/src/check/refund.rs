//! Refunds of decisions by their ids. A sealed id has all that a refund needs, and the store remembers that it was made;
//! any other id is refunded from the journal of the node that made it.

use http::StatusCode;
use tollgate::store::{StoreError, StoreErrorKind};
use tollgate::{ClaimOutcome, Decision, RefundClaim};
use tollgate_catalog::Author;

use super::decision_id::{DecisionId, GivenId, NotAnId};
use super::idempotency::CallDigest;
use super::journal::Missing;
use super::sealed_id::NotOpened;
use crate::app::state::Shared;
use crate::edge::http::problem::Problem;
use crate::observe::audit_log::resets::{CounterChange, note, refund_records};
use crate::policy::source::PolicySource;

/// How much of a text that is not an id is repeated.
const MAX_SHOWN_CHARS: usize = 64;

/// Refunds a decision, once, and records who did; returns to how many counters.
pub(crate) async fn refund_decision(
    app: &Shared,
    author: &Author,
    id: &str,
) -> Result<usize, Problem> {
    let GivenId { id, seal } = parse_id(id)?;
    match seal {
        Some(seal) => refund_sealed(app, author, id, seal).await,
        None => refund_kept(app, author, id).await,
    }
}

/// Records a refund. The id is recorded without its seal, which is of no use any more.
fn record<'c>(
    app: &Shared,
    author: &Author,
    id: DecisionId,
    charges: impl Iterator<Item = (&'c str, u64)>,
) {
    let policy = app.limiter.policy();
    let records = refund_records(author, policy.rules(), app.now(), &id.text(), charges);
    note(app, CounterChange::Refund, records);
}

async fn refund_sealed(
    app: &Shared,
    author: &Author,
    id: DecisionId,
    seal: &str,
) -> Result<usize, Problem> {
    let content = open(app, id, seal)?;
    let claim = RefundClaim::read(&content).ok_or_else(|| {
        let detail =
            format!("decision {id} was made by a node of another version, which can refund it");
        Problem::unprocessable("invalid_decision_id", detail)
    })?;
    // The key first: if the refund fails, it can be repeated, and no copy passes without being charged.
    if let Some(key) = claim.used_key(&id.note())
        && claim.lasting(app.now()).next().is_some()
    {
        app.limiter.release_key(&key).await.map_err(store_away)?;
    }
    let note = || record(app, author, id, claim.lasting(app.now()));
    match app.limiter.refund_claim(&claim, id.mark()).await {
        Ok(ClaimOutcome::Refunded { counters }) => {
            note();
            Ok(counters)
        }
        Err(error) => {
            // It may have been made after all, and then a repeated call is too late to record it.
            if error.kind() == StoreErrorKind::Timeout {
                note();
            }
            Err(store_away(error))
        }
        Ok(ClaimOutcome::RefundedBefore) => Err(refunded_already(id)),
        Ok(ClaimOutcome::Expired) => {
            let detail = format!(
                "every window that decision {id} was charged to has ended: there is nothing to refund"
            );
            Err(Problem::new(StatusCode::CONFLICT, "window_ended", detail))
        }
    }
}

async fn refund_kept(app: &Shared, author: &Author, id: DecisionId) -> Result<usize, Problem> {
    let (decision, call) = app.journal.take(id).map_err(|missing| missing_decision(missing, id))?;
    let counters = decision.charged();
    if counters == 0 {
        app.journal.put_back(id);
        let detail = "nothing was charged by this decision";
        return Err(Problem::new(StatusCode::CONFLICT, "nothing_charged", detail));
    }
    if let Some(call) = call {
        if let Err(error) = release(app, id, call, &decision).await {
            app.journal.put_back(id);
            return Err(store_away(error));
        }
        app.checker.idempotency.forget(call, id);
    }
    let charges: Vec<(String, u64)> =
        decision.charges().map(|(rule_id, units)| (rule_id.to_owned(), units)).collect();
    let note = || record(app, author, id, charges.iter().map(|(rule, units)| (&**rule, *units)));
    match app.limiter.refund(decision).await {
        Ok(()) => {
            note();
            Ok(counters)
        }
        Err(error) => {
            // A call that timed out may have been executed after all.
            if error.kind() == StoreErrorKind::Timeout {
                note();
            } else {
                app.journal.put_back(id);
            }
            Err(store_away(error))
        }
    }
}

/// Releases the idempotency key of a decision in the shared store, if that has it.
async fn release(
    app: &Shared,
    id: DecisionId,
    call: CallDigest,
    decision: &Decision,
) -> Result<(), StoreError> {
    let Some(key) = decision.used_key(call, &id.note()) else { return Ok(()) };
    match app.limiter.release_key(&key).await {
        // The store was unavailable when the decision was made, so it has most likely no record of it.
        Err(_) if decision.degraded().is_some() => Ok(()),
        released => released,
    }
}

/// Reads an id, and what was sealed into it, if there is something.
pub(crate) fn opened_id(
    app: &Shared,
    text: &str,
) -> Result<(DecisionId, Option<Vec<u8>>), Problem> {
    let GivenId { id, seal } = parse_id(text)?;
    Ok((id, seal.map(|seal| open(app, id, seal)).transpose()?))
}

fn open(app: &Shared, id: DecisionId, seal: &str) -> Result<Vec<u8>, Problem> {
    app.checker.sealer.open(id, seal).map_err(|why| match why {
        NotOpened::NoSecret if may_learn_secret(app) => {
            let detail = "this node could not read the fleet's secret from the catalog yet: try another";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "fleet_secret_unknown", detail)
        }
        NotOpened::NoStore => store_away(StoreErrorKind::Unavailable.into()),
        NotOpened::NoSecret | NotOpened::Forged => {
            let detail = format!(
                "{id}: a fleet with another secret or another store made this decision id, or it was changed; send it as \
                 it was in the response, to a node that counts in the same store"
            );
            Problem::unprocessable("invalid_decision_id", detail)
        }
    })
}

/// Whether a node that does not know the fleet's secret may learn it.
fn may_learn_secret(app: &Shared) -> bool {
    app.fleet.has_shared_store() && matches!(app.policy_source, PolicySource::Catalog(_))
}

fn parse_id(text: &str) -> Result<GivenId<'_>, Problem> {
    GivenId::parse(text).map_err(|why| {
        let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
        match why {
            NotAnId::Malformed => {
                let detail =
                    format!("`{shown}` is not a decision id; one looks like d1f00dbee-a2a");
                Problem::not_found("unknown_decision", detail)
            }
            NotAnId::Cut => {
                let detail = format!(
                    "`{shown}` is only the beginning of a decision id: a point and more text follow"
                );
                Problem::unprocessable("invalid_decision_id", detail)
            }
        }
    })
}

pub(crate) fn missing_decision(missing: Missing, id: DecisionId) -> Problem {
    match missing {
        Missing::OtherNode => Problem::not_found(
            "unknown_decision",
            format!(
                "another node made decision {id}, or this one before it was restarted; the log of decisions has \
                 those that were refused, if there is a catalog"
            ),
        ),
        Missing::Unknown => Problem::not_found(
            "unknown_decision",
            format!("decision {id} is not known here any more; recent ones are (decisions_kept)"),
        ),
        Missing::GivenBack => refunded_already(id),
    }
}

fn refunded_already(id: DecisionId) -> Problem {
    let detail = format!("decision {id} was refunded already");
    Problem::new(StatusCode::CONFLICT, "already_given_back", detail)
}

/// Whether a call was executed, or may have been although it timed out.
pub(crate) fn is_maybe_done<T>(result: &Result<T, StoreError>) -> bool {
    result.as_ref().map_or_else(|error| error.kind() == StoreErrorKind::Timeout, |_| true)
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
pub(crate) fn store_away(error: StoreError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", error.to_string())
}

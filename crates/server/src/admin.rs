//! What calls of the admin API have in common: how a change is made, and how its outcome is told.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value as JsonValue;
use serde_json::value::RawValue;
use tollgate::Timestamp;
use tollgate::rules::Problem as Flaw;
use tollgate_api::DocumentProblem;
use tollgate_catalog::{CatalogError, Change, Expect, Intent, Kind, Stored, Update};
use utoipa::ToSchema;

use crate::extract::Session;
use crate::problem::Problem;
use crate::state::ServerState;
use crate::wire::time::rfc_3339;

/// How many problems of a document a response lists.
const MAX_PROBLEMS: usize = 100;

/// What a change did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangesAnswer {
    /// The revision of the catalog: the new one, or the one that it would still be.
    pub(crate) revision: u64,
    /// Nothing was changed: this is what would be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dry_run: bool,
    /// Every entry that is not what it was.
    pub(crate) changes: Vec<ChangeAnswer>,
}

/// An entry before and after.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangeAnswer {
    /// Of what kind it is: rule, tier, client, override, whitelist, blacklist, `api_key`, token, ban; in the
    /// log also counters.
    pub(crate) kind: &'static str,
    /// What it is called.
    pub(crate) entry: String,
    /// create, update or delete; counters are reset.
    pub(crate) action: &'static str,
    /// What it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) was: Option<JsonValue>,
    /// What it becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) becomes: Option<JsonValue>,
}

impl From<&Change> for ChangeAnswer {
    fn from(change: &Change) -> Self {
        let (was, becomes) = change.redacted();
        let action = action(was.is_some(), becomes.is_some());
        Self { kind: change.kind.name(), entry: change.name.clone(), action, was, becomes }
    }
}

/// What happened to an entry that existed before, after, or both.
pub(crate) const fn action(existed: bool, exists: bool) -> &'static str {
    match (existed, exists) {
        (false, _) => "create",
        (true, true) => "update",
        (true, false) => "delete",
    }
}

impl ChangesAnswer {
    pub(crate) fn new(written: &Update, dry_run: bool) -> Self {
        Self {
            revision: written.version.revision.number,
            dry_run,
            changes: written.changes.iter().map(ChangeAnswer::from).collect(),
        }
    }
}

/// Makes a change; it is in force here when this returns. Whoever asked for it may leave meanwhile.
pub(crate) async fn write(
    app: &ServerState,
    session: &Session,
    intent: Intent,
    dry_run: bool,
) -> Result<Update, Problem> {
    let catalog = Arc::clone(&app.rulebook.catalog()?.catalog);
    let (author, now) = (session.author(), app.now());
    let writing = async move { Box::pin(catalog.write(&author, intent, now, dry_run)).await };
    let written = app.queues.writes.run(&session.caller(), writing).await?;
    let written = written.map_err(|error| refusal(&error))?;
    if !dry_run && !written.changes.is_empty() {
        // If that fails, it is told there, and what was written comes into force later.
        let _ = app.sync().await;
        if written.changes.iter().any(|change| matches!(change.kind, Kind::Rule | Kind::Tier)) {
            let app = app.clone();
            tokio::spawn(async move {
                if let Ok(follower) = app.rulebook.catalog() {
                    follower.announce().await;
                }
            });
        }
    }
    Ok(written)
}

/// What a call is told that only wanted to know what would change.
pub(crate) fn dry_run_answer(session: Session, written: &Update) -> Response {
    (session.fields, Json(ChangesAnswer::new(written, true))).into_response()
}

/// What a call must find for its change to be made, by `If-Match` and `If-None-Match`.
pub(crate) fn expectation(headers: &HeaderMap, otherwise: Expect) -> Result<Expect, Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(otherwise),
        (None, Some("*")) => Ok(Expect::Absent),
        (Some("*"), None) => Ok(Expect::Present),
        (Some(tag), None) => {
            let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let version = version.and_then(|version| version.parse().ok());
            // A tag that we never gave is that of nothing we have.
            Ok(Expect::Version(version.unwrap_or(u64::MAX)))
        }
        (_, Some(_)) => Err(Problem::bad_request(
            "invalid_condition",
            "write `If-Match` with the ETag of what is to be changed, or `If-None-Match: *` for what \
             must not be there yet",
        )),
    }
}

/// The tag of an entry: its version.
pub(crate) fn tag(version: u64) -> HeaderValue {
    // A number in quotes is a header value.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// Why a change was not made, for whoever wanted it.
pub(crate) fn refusal(error: &CatalogError) -> Problem {
    let detail = error.to_string();
    match error {
        CatalogError::Away(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "catalog_unavailable", detail)
        }
        CatalogError::Unknown(_) => {
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "outcome_unknown", detail)
        }
        CatalogError::Unusable(_) => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "catalog_unusable", detail)
        }
        CatalogError::Invalid(problems) => invalid(problems),
        CatalogError::Missing { kind, .. } => Problem::not_found(missing(kind.name()), detail),
        CatalogError::Exists { .. } | CatalogError::Changed { .. } | CatalogError::Moved { .. } => {
            Problem::new(StatusCode::PRECONDITION_FAILED, "changed_meanwhile", detail)
        }
        CatalogError::InUse(_) => Problem::new(StatusCode::CONFLICT, "still_in_use", detail),
        CatalogError::NoSpace(_) => {
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, "insufficient_storage", detail)
        }
        CatalogError::NotYours(_) => Problem::new(StatusCode::FORBIDDEN, "other_tenant", detail),
        CatalogError::ReadOnly(_) => Problem::new(StatusCode::FORBIDDEN, "read_only", detail),
    }
}

/// Everything that is wrong with what was sent, up to [`MAX_PROBLEMS`].
pub(crate) fn invalid(problems: &[Flaw]) -> Problem {
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    let problems = problems.get(..MAX_PROBLEMS).unwrap_or(problems);
    let mut told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if more > 0 {
        told.push(format!("{more} more problems are not shown"));
    }
    let list = problems.iter().map(|problem| DocumentProblem {
        rule_id: problem.rule.clone(),
        field: problem.path.clone(),
        message: problem.message.clone(),
        advice: problem.advice.clone(),
        line: problem.position.map(|position| position.line),
        column: problem.position.map(|position| position.column),
    });
    let list = list.collect();
    Problem::unprocessable("invalid_document", told.join("; ")).with_problems(list)
}

/// The code for an entry that is not there.
const fn missing(kind: &str) -> &'static str {
    match kind.as_bytes() {
        b"rule" => "unknown_rule",
        b"token" => "unknown_token",
        b"api_key" => "unknown_api_key",
        b"tier" => "unknown_tier",
        _ => "unknown_entry",
    }
}

/// An entry that is shown as it was written, and with `detail` also who wrote it. Not for those that
/// keep digests.
pub(crate) fn shown(stored: &Stored, detail: bool) -> Box<RawValue> {
    let mut text = stored.body.clone();
    if detail && text.ends_with('}') {
        text.pop();
        let created_at = rfc_3339(Timestamp::from_micros(stored.created_at));
        let by = JsonValue::from(stored.created_by.as_str());
        let (comma, version) = (if text.ends_with('{') { "" } else { "," }, stored.version);
        // Administrators of a tenant can change only what they wrote.
        let mark = match stored.author_tenant {
            Some(_) => ",\"written_by\":\"tenant-admin\"",
            None => "",
        };
        text.push_str(&format!(
            "{comma}\"version\":{version},\"created_at\":\"{created_at}\",\"created_by\":{by}{mark}}}"
        ));
    }
    // What was read from JSON is JSON.
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// One field of an entry.
pub(crate) fn field(stored: &Stored, name: &str) -> JsonValue {
    let mut body: JsonValue = serde_json::from_str(&stored.body).unwrap_or_default();
    body.get_mut(name).map_or(JsonValue::Null, JsonValue::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_told_that_the_disk_is_almost_full() {
        let problem = refusal(&CatalogError::NoSpace("almost full".to_owned()));
        assert_eq!((problem.status().as_u16(), problem.code()), (507, "insufficient_storage"));
        assert_eq!(problem.detail(), "almost full");
    }
}

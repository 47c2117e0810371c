//! Responses of the admin API: an entry, what a write changed, or why it was refused.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value as JsonValue;
use serde_json::value::{RawValue, to_raw_value};
use tollgate::Timestamp;
use tollgate::rules::{OneOrMany, Problem as Flaw};
use tollgate_api::DocumentProblem;
use tollgate_catalog::{BanEntry, CatalogError, Change, Entry, Kind, Stored, Update};
use utoipa::ToSchema;

use crate::edge::http::extract::Session;
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::check::unknown_rule;
use crate::edge::http::wire::time::rfc_3339_past;

/// How many problems of a document a response lists.
const MAX_PROBLEMS: usize = 100;

/// What a change did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangesAnswer {
    /// The revision of the catalog: the new one, or with `dry_run` the current one.
    pub(crate) revision: u64,
    /// True if nothing was changed: the changes are those that would be made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dry_run: bool,
    /// Every changed entry.
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
    /// The entry before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) was: Option<JsonValue>,
    /// The entry after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) becomes: Option<JsonValue>,
}

/// The rule that was written.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleWritten {
    /// The rule.
    rule_id: String,
    /// `active`, or `disabled` if it applies to nothing.
    status: &'static str,
    /// When it was made, in RFC 3339.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was written last, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    updated_at: Option<String>,
    /// The token that wrote it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_by: Option<String>,
    /// Its version, which is also its `ETag`.
    version: u64,
}

/// The rule that was written, or with `dry_run` what would change.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a response of two shapes")]
pub(crate) enum RuleOrTrial {
    /// Without `dry_run`: the rule that was written.
    Written(RuleWritten),
    /// With `dry_run`: what would change.
    Trial(ChangesAnswer),
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
    pub(crate) fn new(update: &Update, dry_run: bool) -> Self {
        Self {
            revision: update.version.revision.number,
            dry_run,
            changes: update.changes.iter().map(ChangeAnswer::from).collect(),
        }
    }
}

impl RuleWritten {
    pub(crate) fn new(stored: &Stored, is_enabled: bool) -> Self {
        let status = if is_enabled { "active" } else { "disabled" };
        let created_at = rfc_3339_past(Timestamp::from_micros(stored.created_at));
        Self {
            rule_id: stored.name.clone(),
            status,
            created_at,
            updated_at: updated_at(stored),
            updated_by: stored.updated_by.clone(),
            version: stored.version,
        }
    }
}

/// When an entry was written last; none if that is not known any more.
fn updated_at(stored: &Stored) -> Option<String> {
    stored.updated_at.map(Timestamp::from_micros).map(rfc_3339_past)
}

/// The response to a dry run.
pub(crate) fn dry_run_response(session: Session, update: &Update) -> Response {
    (session.fields, Json(ChangesAnswer::new(update, true))).into_response()
}

/// The problem of a call that names an entry that does not exist.
pub(crate) fn missing(kind: Kind, name: &str) -> Problem {
    let detail = match kind {
        Kind::Rule => return unknown_rule(name),
        Kind::ApiKey => "there is no such API key",
        Kind::Token => "there is no such token",
        Kind::Override => "there is no such override",
        Kind::Client => "this client is in no tier of its own",
        _ => "this client is not on the list",
    };
    Problem::not_found(unknown_code(kind), detail)
}

/// An entry as it was written, with `detail` also who wrote it. Not for kinds with digests.
pub(crate) fn shown(stored: &Stored, detail: bool) -> Box<RawValue> {
    let ban = Some(stored).filter(|it| it.kind == Kind::Ban).and_then(|it| it.parse().ok());
    let mut text = ban.map_or_else(|| stored.body.clone(), |ban| as_shown(&ban).get().to_owned());
    if detail && text.ends_with('}') {
        text.pop();
        let created_at = rfc_3339_past(Timestamp::from_micros(stored.created_at));
        let by = JsonValue::from(stored.created_by.as_str());
        let (comma, version) = (if text.ends_with('{') { "" } else { "," }, stored.version);
        text.push_str(&format!(
            "{comma}\"version\":{version},\"created_at\":\"{created_at}\",\"created_by\":{by}"
        ));
        if let (Some(at), Some(by)) = (updated_at(stored), &stored.updated_by) {
            let by = JsonValue::from(by.as_str());
            text.push_str(&format!(",\"updated_at\":\"{at}\",\"updated_by\":{by}"));
        }
        // Administrators of a tenant can change only what they wrote.
        if stored.author_tenant.is_some() {
            text.push_str(",\"written_by\":\"tenant-admin\"");
        }
        text.push('}');
    }
    // The body was stored as JSON, so this cannot fail.
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// An entry as responses show it. A ban names its client like a list does: one value plainly, several in an array.
pub(crate) fn as_shown(entry: &Entry) -> Box<RawValue> {
    #[derive(Serialize)]
    struct ShownBan<'a> {
        rule_id: &'a str,
        identifier: OneOrMany,
        #[serde(skip_serializing_if = "Option::is_none")]
        tenant: Option<&'a str>,
        expires_at: &'a str,
    }

    let shown = match entry {
        Entry::Ban(BanEntry { rule_id, identifier, tenant, expires_at, .. }) => {
            let (identifier, tenant) = (OneOrMany::many(identifier), tenant.as_deref());
            to_raw_value(&ShownBan { rule_id, identifier, tenant, expires_at })
        }
        entry => to_raw_value(entry),
    };
    // Texts and numbers always serialise.
    shown.unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The tag of an entry: its version.
pub(crate) fn tag(version: u64) -> HeaderValue {
    // A number in quotes is a valid header value.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// The problem of a write that the catalog refused.
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
        CatalogError::Missing { kind, .. } => Problem::not_found(unknown_code(*kind), detail),
        CatalogError::Exists { .. } | CatalogError::Changed { .. } | CatalogError::Moved { .. } => {
            Problem::new(StatusCode::PRECONDITION_FAILED, "changed_meanwhile", detail)
        }
        CatalogError::NoRevision { revision, oldest, .. } if revision < oldest && *revision > 0 => {
            Problem::new(StatusCode::GONE, "revision_not_kept", detail)
        }
        CatalogError::NoRevision { .. } => Problem::not_found("unknown_revision", detail),
        CatalogError::TooManyChanges { .. } => Problem::unprocessable("too_many_changes", detail),
        CatalogError::InUse(_) => Problem::new(StatusCode::CONFLICT, "still_in_use", detail),
        CatalogError::LastAdmin => Problem::new(StatusCode::CONFLICT, "last_admin_token", detail),
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
    let mut details: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if more > 0 {
        details.push(format!("{more} more problems are not shown"));
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
    Problem::unprocessable("invalid_document", details.join("; ")).with_problems(list)
}

/// The code of a problem that there is no such entry.
const fn unknown_code(kind: Kind) -> &'static str {
    match kind {
        Kind::Rule => "unknown_rule",
        Kind::Token => "unknown_token",
        Kind::ApiKey => "unknown_api_key",
        Kind::Tier => "unknown_tier",
        _ => "unknown_entry",
    }
}

/// The problem of a query that names a client wrongly.
pub(crate) fn wrong(flaw: &Flaw) -> Problem {
    Problem::bad_request("invalid_query", flaw.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_almost_full_disk_is_a_507_problem() {
        let problem = refusal(&CatalogError::NoSpace("almost full".to_owned()));
        assert_eq!((problem.status().as_u16(), problem.code()), (507, "insufficient_storage"));
        assert_eq!(problem.detail(), "almost full");
    }
}

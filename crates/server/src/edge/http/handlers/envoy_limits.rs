//! `GET /api/v1/envoy/limits`: the limits in force from files of envoyproxy/ratelimit, and how the last
//! load of these files ended.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate_import::envoy::{Allowance, FileLimit, LimitStep};
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::Viewer;
use crate::edge::http::openapi::{AdminProblems, PageParameters};
use crate::edge::http::paging::{Parameters, link_next};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_past;
use crate::policy::load_status::LoadStatus;

/// A page of limits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnvoyLimitsAnswer {
    /// The directory of the files; absent if the server reads none.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// How the last load of the files ended; absent if the server reads none.
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<EnvoyLoad>,
    /// The limits in force, by their ids.
    limits: Vec<FileLimitAnswer>,
}

/// How the last load of the files ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnvoyLoad {
    /// When the limits in force were loaded.
    #[schema(format = "date-time")]
    loaded_at: String,
    /// When the files were last read, successfully or not.
    #[schema(format = "date-time")]
    tried_at: String,
    /// What was wrong with the files when they were last read; absent if they were loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<&LoadStatus> for EnvoyLoad {
    fn from(status: &LoadStatus) -> Self {
        Self {
            loaded_at: rfc_3339_past(status.loaded_at),
            tried_at: rfc_3339_past(status.tried_at),
            error: status.error.as_deref().map(str::to_owned),
        }
    }
}

/// A limit of a file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FileLimitAnswer {
    /// Names the limit in metrics, logs and dynamic metadata.
    rule_id: String,
    /// The domain.
    domain: String,
    /// The keys and values that lead to it, the outermost first.
    descriptors: Vec<LimitDescriptor>,
    /// How many requests are allowed; absent if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_unit: Option<u64>,
    /// In which time.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    /// How requests are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
    /// Whether all requests are allowed.
    unlimited: bool,
    /// Whether it only watches.
    shadow_mode: bool,
    /// Whether it refuses only together with all other quotas of a request.
    quota_mode: bool,
    /// The name in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The names of limits that do not apply where this one does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    replaces: Vec<String>,
    /// The file.
    file: String,
    /// The line of its descriptor in the file.
    line: u32,
}

/// One level on the way to a limit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitDescriptor {
    /// The key.
    key: String,
    /// The value; absent if any is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

impl From<&LimitStep> for LimitDescriptor {
    fn from(step: &LimitStep) -> Self {
        Self { key: step.key.to_string(), value: step.value.as_deref().map(str::to_owned) }
    }
}

impl From<&FileLimit> for FileLimitAnswer {
    fn from(limit: &FileLimit) -> Self {
        let limited = match &limit.allowance {
            Allowance::Unlimited => None,
            Allowance::Limited { unit, quota, .. } => Some((unit, quota)),
        };
        Self {
            rule_id: limit.id.to_string(),
            domain: limit.domain.to_string(),
            descriptors: limit.path.iter().map(LimitDescriptor::from).collect(),
            requests_per_unit: limited.map(|(_, quota)| quota.limit),
            unit: limited.map(|(unit, _)| unit.name()),
            algorithm: limited.map(|(_, quota)| quota.algorithm.name()),
            unlimited: limited.is_none(),
            shadow_mode: limit.shadow,
            quota_mode: limit.quota,
            name: limit.name.as_deref().map(str::to_owned),
            replaces: limit.replaces.iter().map(ToString::to_string).collect(),
            file: limit.file.to_string(),
            line: limit.position.line,
        }
    }
}

/// Lists the limits in force from files of envoyproxy/ratelimit, page by page.
#[utoipa::path(
    get, path = "/api/v1/envoy/limits", tag = "rules", security(("token" = [])),
    params(
        PageParameters,
        ("domain" = Option<String>, Query, description = "Only limits of this domain"),
    ),
    responses(
        (status = 200, description = "The limits; `Link` leads to the next page", body = EnvoyLimitsAnswer),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn list(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let query = Parameters::read(&uri, &["limit", "after", "domain"])?;
    let (most, after, domain) = (query.limit()?, query.one("after")?, query.one("domain")?);
    let source = &app.envoy.source;
    let set = source.loaded.load();
    let is_wanted = |limit: &&FileLimit| {
        after.is_none_or(|after| &*limit.id > after)
            && domain.is_none_or(|domain| &*limit.domain == domain)
    };
    let mut limits: Vec<&FileLimit> = set.config.limits().iter().filter(is_wanted).collect();
    limits.sort_unstable_by_key(|limit| &*limit.id);
    let next = (limits.len() > most).then(|| limits.get(most - 1)).flatten();
    let mut fields = session.fields;
    link_next(&mut fields, &uri, "after", next.map(|limit| &*limit.id));
    let answer = EnvoyLimitsAnswer {
        directory: source.directory().map(|directory| directory.display().to_string()),
        load: source.status().map(|status| EnvoyLoad::from(&*status)),
        limits: limits.into_iter().take(most).map(FileLimitAnswer::from).collect(),
    };
    Ok((fields, Json(answer)).into_response())
}

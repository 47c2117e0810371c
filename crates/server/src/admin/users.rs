//! One user: its limits and what is left of them, its tier, its overrides.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tollgate::rules::document::ClientDocument;
use tollgate::rules::{
    Explanation, List, ListedExplanation, OneOrMany, QuotaExplanation, TierOrigin,
};
use tollgate::{CheckTarget, Decision, Request};
use tollgate_catalog::{Entry, Kind, client_name, override_name};
use utoipa::ToSchema;

use super::resources::{CLIENTS, OVERRIDES};
use super::response::{ChangesAnswer, wrong};
use super::write::{is_dry_run, parse, put_entry, remove, rule_of, with_members};
use crate::app::state::ServerState;
use crate::edge::http::extract::{JsonBody, Operator, PathName, Viewer, read_name};
use crate::edge::http::openapi::{AdminProblems, BodyProblems, WriteParameters, WriteProblems};
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::ban::BanAnswer;
use crate::edge::http::wire::decode::decode;
use crate::edge::http::wire::response::seconds;
use crate::edge::http::wire::time::rfc_3339;

const USER_ID: &str = "user_id";

/// The limits of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserLimits {
    /// The user.
    user_id: String,
    /// The tier that the user is in, if there is one.
    tier: Option<UserTier>,
    /// The whitelist or blacklist that the user is on; it goes before the rules.
    listed: Option<UserListed>,
    /// The ban of the user; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    banned: Option<BanAnswer>,
    /// Why what is left is not known from the shared store, if it is away: it is what this node counted alone, which may
    /// let more pass, up to the limit times the fallback factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<String>,
    /// Every limit that applies.
    limits: Vec<UserLimit>,
}

/// The tier of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserTier {
    /// Its name.
    name: String,
    /// `client` if the user was put into it, `default` if it is the default tier.
    from: &'static str,
}

/// Why a user is never limited, or always refused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserListed {
    /// `whitelist` or `blacklist`.
    list: &'static str,
    /// Why.
    reason: Option<String>,
    /// Until when, in RFC 3339.
    expires_at: Option<String>,
}

/// What is left of one limit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserLimit {
    /// The rule.
    rule_id: String,
    /// The most that can be in use.
    limit: u64,
    /// What is left.
    remaining: u64,
    /// When the limit resets, in RFC 3339: `fixed_window` and `sliding_window_counter` at the end of the current
    /// window, others when nothing is in use.
    #[schema(format = DateTime)]
    reset_at: String,
    /// When nothing is in use, in RFC 3339, if there are no more requests.
    #[schema(format = DateTime)]
    full_at: String,
    /// The seconds in which the rate refills `limit`: the window, unless there is a burst.
    #[serde(serialize_with = "tollgate_api::seconds")]
    window_seconds: f64,
    /// How usage is counted.
    algorithm: &'static str,
    /// `override` if it is an exception for this user, else `rule`.
    from: &'static str,
    /// Whether it only counts and reports, and refuses nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log_only: bool,
}

/// The tier to put a user into.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TierBody {
    /// Its name.
    #[schema(example = "pro")]
    tier: String,
}

/// Shows which limits apply to a user, where they come from, and what is left of them.
///
/// Nothing is charged. `endpoint` and `method` add the limits of single endpoints, `tenant` those of a
/// tenant's rules.
#[utoipa::path(
    get, path = "/api/v1/users/{user_id}/limits", tag = "users", security(("token" = [])),
    params(
        ("user_id" = String, Path, description = "The user", example = "alice"),
        ("endpoint" = Option<String>, Query, description = "The limits for this path"),
        ("method" = Option<String>, Query, description = "The limits for this method"),
        ("tenant" = Option<String>, Query, description = "The limits within this tenant"),
    ),
    responses(
        (status = 200, description = "The limits of the user", body = UserLimits),
        (status = 400, description = "The path or the query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn limits(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
    user_id: PathName,
) -> Result<Response, Problem> {
    let user_id = read_name(user_id)?;
    let parameters = Parameters::read(&uri, &["endpoint", "method", "tenant"])?;
    let mut request = Request::new().user_id(&user_id).cost(0);
    if let Some(endpoint) = parameters.one("endpoint")? {
        request = request.path(endpoint);
    }
    if let Some(method) = parameters.one("method")? {
        request = request.method(method);
    }
    if let Some(tenant) = parameters.one("tenant")? {
        request = request.tenant(tenant);
    }
    let mut decision = app.limiter.check(&request).await;
    let banned = BanAnswer::of(&decision);
    if banned.is_some() {
        decision = app.limiter.check(CheckTarget::Unbanned(&request)).await;
    }
    let explanation = decision.policy().explain(&request, decision.now());
    let limits = UserLimits::new(&user_id, &decision, explanation, banned);
    Ok((session.fields, Json(limits)).into_response())
}

/// Puts a user into a tier.
#[utoipa::path(
    put, path = "/api/v1/users/{user_id}/tier", tag = "users", security(("token" = [])),
    request_body = TierBody,
    params(("user_id" = String, Path, description = "The user", example = "alice"), WriteParameters),
    responses(
        (status = 201, description = "The user was put into the tier", body = Object),
        (status = 200, description = "The user was in a tier: changed, or what would be", body = Object),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn put_tier(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    user_id: PathName,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    app.policy_source.catalog()?;
    let TierBody { tier } = decode(&body)?;
    let identifier = OneOrMany::one(read_name(user_id)?);
    let entry = ClientDocument { identifier_type: OneOrMany::one(USER_ID), identifier, tier };
    put_entry(&app, session, &uri, &headers, &CLIENTS, Entry::Client(entry)).await
}

/// Takes a user out of the tier it was put into.
#[utoipa::path(
    delete, path = "/api/v1/users/{user_id}/tier", tag = "users", security(("token" = [])),
    params(("user_id" = String, Path, description = "The user", example = "alice"), WriteParameters),
    responses(
        (status = 204, description = "The user was taken out of its tier"),
        (status = 200, description = "What would change", body = ChangesAnswer),
        (status = 404, description = "The user was not put into a tier", body = ProblemBody<'_>, content_type = "application/problem+json"),
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn delete_tier(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    user_id: PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (types, values) = identifiers(user_id)?;
    let name = client_name(&types, &values).map_err(|flaw| wrong(&flaw))?;
    let dry_run = is_dry_run(&uri)?;
    remove(&app, session, &headers, (Kind::Client, name), dry_run).await
}

/// Makes an exception from a rule for a user, or changes it.
#[utoipa::path(
    post, path = "/api/v1/users/{user_id}/override", tag = "users", security(("token" = [])),
    request_body(content = Object, description = "The rule, and what is different for the user: limit, window_seconds, burst or multiplier", example = json!({"rule_id": "api_default", "multiplier": 2, "expires_at": "2030-12-01T00:00:00Z"})),
    params(("user_id" = String, Path, description = "The user", example = "alice"), WriteParameters),
    responses(
        (status = 201, description = "Made", body = Object),
        (status = 200, description = "Changed, or what would be", body = Object),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn post_override(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    user_id: PathName,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let user_id = read_name(user_id)?;
    let body =
        move || with_members(&body, &[("identifier_type", USER_ID), ("identifier", &user_id)]);
    let entry = parse(&app, &session, Kind::Override, body).await?;
    put_entry(&app, session, &uri, &headers, &OVERRIDES, entry).await
}

/// Removes an exception: the rule holds for that user as for others.
#[utoipa::path(
    delete, path = "/api/v1/users/{user_id}/override", tag = "users", security(("token" = [])),
    params(
        ("user_id" = String, Path, description = "The user", example = "alice"),
        ("rule_id" = String, Query, description = "The rule", example = "api_default"),
        WriteParameters,
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 200, description = "What would change", body = ChangesAnswer),
        (status = 404, description = "There is no such exception", body = ProblemBody<'_>, content_type = "application/problem+json"),
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn delete_override(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    user_id: PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (types, values) = identifiers(user_id)?;
    let parameters = Parameters::read(&uri, &["rule_id", "dry_run"])?;
    let rule_id = rule_of(&parameters)?;
    let name = override_name(rule_id, &types, &values).map_err(|flaw| wrong(&flaw))?;
    let dry_run = parameters.flag("dry_run")?;
    remove(&app, session, &headers, (Kind::Override, name), dry_run).await
}

fn identifiers(user_id: PathName) -> Result<(Vec<String>, Vec<String>), Problem> {
    Ok((vec![USER_ID.to_owned()], vec![read_name(user_id)?]))
}

impl UserLimits {
    fn new(
        user_id: &str,
        decision: &Decision,
        explanation: Explanation,
        banned: Option<BanAnswer>,
    ) -> Self {
        let Explanation { tier, tier_from, listed, rules, .. } = explanation;
        let from = if matches!(tier_from, TierOrigin::Default) { "default" } else { "client" };
        let quota_of = |rule_id: &str| rules.iter().find(|rule| rule.rule_id == rule_id);
        let limits = decision.outcomes().filter(|outcome| !outcome.rule.is_candidate());
        let limits = limits.filter_map(|outcome| {
            let rule = quota_of(&outcome.rule.id)?;
            let QuotaExplanation { algorithm, override_by, .. } = &rule.quota;
            let report = outcome.outcome.report;
            Some(UserLimit {
                rule_id: rule.rule_id.clone(),
                limit: outcome.outcome.limit,
                remaining: outcome.outcome.remaining(),
                reset_at: rfc_3339(decision.now().plus(outcome.reset_after(decision.now()))),
                full_at: rfc_3339(decision.now().plus(report.reset_after)),
                window_seconds: seconds(outcome.outcome.window),
                algorithm,
                from: if override_by.is_some() { "override" } else { "rule" },
                log_only: rule.log_only,
            })
        });
        Self {
            user_id: user_id.to_owned(),
            tier: tier.map(|name| UserTier { name, from }),
            listed: listed.map(UserListed::new),
            banned,
            degraded: decision.degraded().map(|why| why.to_string()),
            limits: limits.collect(),
        }
    }
}

impl UserListed {
    fn new(listed: ListedExplanation) -> Self {
        let ListedExplanation { list, reason, expires_at, .. } = listed;
        let list = match list {
            List::Allow => "whitelist",
            List::Deny => "blacklist",
        };
        Self { list, reason, expires_at }
    }
}

//! API keys that identify clients: lists them without the keys, and creates them.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tollgate_catalog::{ApiKey, Entry, Kind, digest_of};
use utoipa::ToSchema;

use super::response::ChangesAnswer;
use super::secrets;
use super::write::is_dry_run;
use crate::app::state::ServerState;
use crate::edge::http::extract::{JsonBody, Operator, Viewer};
use crate::edge::http::openapi::{
    AdminProblems, BodyProblems, PageParameters, PageProblems, TrialParameter, WriteProblems,
};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::decode::decode;

/// An API key to register.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKeyBody {
    /// A key that clients have already; without it, the server creates one.
    #[schema(min_length = 1, max_length = 1024)]
    key: Option<String>,
    /// What it is for.
    #[schema(example = "the nightly import")]
    name: Option<String>,
    /// The user it belongs to.
    #[schema(example = "alice")]
    owner: Option<String>,
    /// The tier of its requests.
    #[schema(example = "pro")]
    tier: Option<String>,
    /// The tenant it belongs to.
    #[schema(example = "acme")]
    tenant: Option<String>,
}

/// A registered API key.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApiKeyAnswer {
    /// Names it, also in the audit log.
    key_id: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The user it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The tier of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    /// The tenant it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Who made it, and when.
    #[serde(flatten)]
    made: secrets::Made,
    /// The key, if the server created it; shown only in this response.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// All keys of a page.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApiKeysAnswer {
    /// The keys, in the order of their ids.
    api_keys: Vec<ApiKeyAnswer>,
}

/// Lists the known API keys, without the keys.
#[utoipa::path(
    get, path = "/api/v1/api-keys", tag = "keys and tokens", security(("token" = [])),
    params(
        PageParameters,
        ("tier" = Option<String>, Query, description = "Only keys in this tier"),
        ("tenant" = Option<String>, Query, description = "Only keys of this tenant"),
    ),
    responses(
        (status = 200, description = "The keys", body = ApiKeysAnswer),
        (status = 405, description = "The rules come from a file, and there is no catalog", body = ProblemBody<'_>, content_type = "application/problem+json"),
        PageProblems,
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let catalog = &app.policy_source.catalog()?.catalog;
    let mut fields = session.fields;
    let filters = ["tier", "tenant"];
    let page = secrets::page(catalog, &mut fields, &uri, Kind::ApiKey, &filters).await?;
    let keys = page.iter().filter_map(|stored| {
        let Ok(Entry::ApiKey(key)) = stored.parse() else { return None };
        Some(ApiKeyAnswer::new(key, secrets::Made::new(stored), None))
    });
    Ok((fields, Json(ApiKeysAnswer { api_keys: keys.collect() })).into_response())
}

/// Creates an API key, or registers one that clients have already.
///
/// Only its digest is stored, so a created key is shown only in this response.
#[utoipa::path(
    post, path = "/api/v1/api-keys", tag = "keys and tokens", security(("token" = [])),
    request_body = ApiKeyBody,
    params(TrialParameter),
    responses(
        (status = 201, description = "Made", body = ApiKeyAnswer),
        (status = 200, description = "What would change", body = ChangesAnswer),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn post(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let catalog_sync = app.policy_source.catalog()?;
    let ApiKeyBody { key, name, owner, tier, tenant } = decode(&body)?;
    for (field, text) in
        [("name", &name), ("owner", &owner), ("tier", &tier), ("tenant", &tenant), ("key", &key)]
    {
        secrets::check_text(field, text.as_deref())?;
    }
    let dry_run = is_dry_run(&uri)?;
    let (made, shown) = match &key {
        Some(known) => (ApiKey::known(known).map_err(secrets::no_random_numbers)?, None),
        None => {
            let (made, shown) = ApiKey::create().map_err(secrets::no_random_numbers)?;
            (made, Some(shown))
        }
    };
    let view = catalog_sync.view();
    if key.is_some_and(|key| {
        let digest = digest_of(&key);
        view.api_keys().values().any(|known| known.digest == digest)
    }) {
        let detail = "this key is known already; to register it for another owner, remove it first";
        return Err(Problem::new(StatusCode::CONFLICT, "known_api_key", detail));
    }
    drop(view);
    let made = ApiKey { name, owner, tier, tenant, ..made };
    let entry = Entry::ApiKey(made.clone());
    let answer = |kept| ApiKeyAnswer::new(made, kept, shown);
    secrets::keep(&app, session, entry, dry_run, answer).await
}

impl ApiKeyAnswer {
    fn new(key: ApiKey, made: secrets::Made, shown: Option<String>) -> Self {
        let ApiKey { key_id, name, owner, tier, tenant, .. } = key;
        Self { key_id, name, owner, tier, tenant, made, key: shown }
    }
}

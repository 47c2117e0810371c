//! Tokens for this server: lists them without their secrets, and creates them.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tollgate::Timestamp;
use tollgate::rules::parse_time;
use tollgate_catalog::{Entry, Kind, Role, Token};
use utoipa::ToSchema;

use super::response::{ChangesAnswer, refusal};
use super::secrets;
use super::write::is_dry_run;
use crate::app::state::ServerState;
use crate::edge::http::extract::{JsonBody, TokenEditor, TokenViewer};
use crate::edge::http::openapi::{
    AdminProblems, BodyProblems, PageParameters, PageProblems, TrialParameter, WriteProblems,
};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::decode::decode;
use crate::edge::http::wire::time::rfc_3339;

/// A token to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenBody {
    /// What its holder may do: admin, operator, viewer, caller, tenant-admin.
    #[schema(example = "viewer")]
    role: String,
    /// The tenant of a tenant-admin, who sees nothing else.
    tenant: Option<String>,
    /// What it is for.
    #[schema(example = "the dashboard")]
    name: Option<String>,
    /// When it expires, in RFC 3339.
    #[schema(example = "2030-12-01T00:00:00Z")]
    expires_at: Option<String>,
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenAnswer {
    /// Names it, also in the audit log.
    token_id: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// What its holder may do.
    role: &'static str,
    /// The only tenant that its holder sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// When it expires, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// When it was last used, to the minute, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<String>,
    /// Who made it, and when.
    #[serde(flatten)]
    made: secrets::Made,
    /// The token itself; shown only in the response to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// All tokens of a page.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokensAnswer {
    /// The tokens, in the order of their ids.
    tokens: Vec<TokenAnswer>,
}

/// Lists the tokens, without their secrets.
#[utoipa::path(
    get, path = "/api/v1/tokens", tag = "keys and tokens", security(("token" = [])),
    params(
        PageParameters,
        ("tenant" = Option<String>, Query, description = "Only tokens of this tenant"),
    ),
    responses(
        (status = 200, description = "The tokens", body = TokensAnswer),
        (status = 405, description = "The rules come from a file, and there is no catalog", body = ProblemBody<'_>, content_type = "application/problem+json"),
        PageProblems,
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    TokenViewer(session): TokenViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let catalog = &app.policy_source.catalog()?.catalog;
    let mut fields = session.fields;
    let page = secrets::page(catalog, &mut fields, &uri, Kind::Token, &["tenant"]).await?;
    let ids: Vec<&str> = page.iter().map(|stored| stored.name.as_str()).collect();
    let used = catalog.last_used(&ids).await.map_err(|error| refusal(&error))?;
    let tokens = page.iter().filter_map(|stored| {
        let Ok(Entry::Token(token)) = stored.parse() else { return None };
        let last_used = used.get(&stored.name).copied().map(rfc_3339);
        let answer = TokenAnswer::new(token, secrets::Made::new(stored));
        Some(TokenAnswer { last_used, ..answer })
    });
    Ok((fields, Json(TokensAnswer { tokens: tokens.collect() })).into_response())
}

/// Creates a token. Only its digest is stored, so it is shown only in this response.
#[utoipa::path(
    post, path = "/api/v1/tokens", tag = "keys and tokens", security(("token" = [])),
    request_body = TokenBody,
    params(TrialParameter),
    responses(
        (status = 201, description = "Made", body = TokenAnswer),
        (status = 200, description = "What would change", body = ChangesAnswer),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn post(
    State(app): State<ServerState>,
    TokenEditor(session): TokenEditor,
    OriginalUri(uri): OriginalUri,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    app.policy_source.catalog()?;
    let (token, shown) = read(decode(&body)?, app.now())?;
    let dry_run = is_dry_run(&uri)?;
    let entry = Entry::Token(token.clone());
    let answer = |made| TokenAnswer { token: Some(shown), ..TokenAnswer::new(token, made) };
    secrets::keep(&app, session, entry, dry_run, answer).await
}

/// A new token as a body describes it, and the text that its holder sends.
fn read(body: TokenBody, now: Timestamp) -> Result<(Token, String), Problem> {
    let wrong = |detail: String| Problem::unprocessable("invalid_document", detail);
    let TokenBody { role, tenant, name, expires_at } = body;
    let roles = Role::ALL.map(Role::name).join(", ");
    let role = Role::from_name(&role).ok_or_else(|| wrong(format!("role: one of {roles}")))?;
    secrets::check_text("tenant", tenant.as_deref())?;
    secrets::check_text("name", name.as_deref())?;
    match (role, &tenant) {
        (Role::TenantAdmin, None) => {
            return Err(wrong("tenant: a tenant-admin needs the tenant it is for".to_owned()));
        }
        (Role::TenantAdmin, Some(_)) | (_, None) => {}
        (role, Some(_)) => {
            let detail =
                format!("tenant: only a tenant-admin has one, not the role {}", role.name());
            return Err(wrong(detail));
        }
    }
    if let Some(end) = &expires_at {
        let is_ahead = parse_time(end).is_some_and(|end| end > now);
        if !is_ahead {
            let detail = "expires_at: a time to come, in RFC 3339 as 2030-12-01T00:00:00Z";
            return Err(wrong(detail.to_owned()));
        }
    }
    let (token, shown) = Token::create(role).map_err(secrets::no_random_numbers)?;
    Ok((Token { tenant, name, expires_at, ..token }, shown))
}

impl TokenAnswer {
    fn new(token: Token, made: secrets::Made) -> Self {
        let Token { token_id, name, role, tenant, expires_at, .. } = token;
        let role = role.name();
        Self { token_id, name, role, tenant, expires_at, last_used: None, made, token: None }
    }
}

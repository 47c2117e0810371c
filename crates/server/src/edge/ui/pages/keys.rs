//! API keys, which identify clients, and tokens for this server.

use axum::response::Response;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value as JsonValue, json};
use tollgate::Micros;
use tollgate_catalog::Role;
use tollgate_dashboard::model::{ApiKeyRow, CreatedSecret, Keys, Paging, Section, Tab, TokenRow};
use tollgate_dashboard::{Page, path};

use super::client::tiers;
use crate::admin::auth::Right;
use crate::edge::http::wire::time::rfc_3339;
use crate::edge::ui::api::segment;
use crate::edge::ui::chrome::refused as refusal;
use crate::edge::ui::convert::{section, time_of};
use crate::edge::ui::form::Form;
use crate::edge::ui::notice;
use crate::edge::ui::page::{html, refused, see_other};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::{FormVisit, Visit};

/// How many keys and tokens a page has.
const PAGE: &str = "100";
/// The longest life of a token that the form sets, in days.
const MAX_DAYS: u64 = 3_660;

#[derive(Debug, Deserialize)]
struct ApiKeysJson {
    api_keys: Vec<ApiKeyJson>,
}

#[derive(Debug, Deserialize)]
struct ApiKeyJson {
    key_id: String,
    name: Option<String>,
    owner: Option<String>,
    tier: Option<String>,
    tenant: Option<String>,
    created_at: Option<String>,
    created_by: Option<String>,
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TokensJson {
    tokens: Vec<TokenJson>,
}

#[derive(Debug, Deserialize)]
struct TokenJson {
    token_id: String,
    name: Option<String>,
    role: String,
    tenant: Option<String>,
    expires_at: Option<String>,
    last_used: Option<String>,
    created_at: Option<String>,
    created_by: Option<String>,
    token: Option<String>,
}

/// Creates an API key, and shows it once.
pub(in crate::edge::ui) async fn create_key(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let body = body_of(&form, &["name", "owner", "tier", "tenant"]);
            let made = visit.send(Method::POST, "/api/v1/api-keys", &[], &body.into()).await;
            let made = made.and_then(|response| response.json::<ApiKeyJson>());
            created(&visit, made.map(|it| ("API key", it.key_id, it.key))).await
        })
        .await
}

/// Creates a token, and shows it once.
pub(in crate::edge::ui) async fn create_token(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let made = make_token(&visit, &form).await;
            created(&visit, made.map(|it| ("token", it.token_id, it.token))).await
        })
        .await
}

/// Removes an API key.
pub(in crate::edge::ui) async fn remove_key(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let key = segment(form.required("key_id")?);
            visit.delete(&format!("/api/v1/api-keys/{key}"), &[]).await?;
            Ok(see_other(&notice::with(path::KEYS, "key-removed", None)))
        })
        .await
}

/// Revokes a token.
pub(in crate::edge::ui) async fn revoke_token(FormVisit { visit, form }: FormVisit) -> Response {
    visit
        .show(|visit| async move {
            let token = segment(form.required("token_id")?);
            visit.delete(&format!("/api/v1/tokens/{token}"), &[]).await?;
            Ok(see_other(&notice::with(path::KEYS, "revoked", None)))
        })
        .await
}

async fn make_token(visit: &Visit, form: &Form) -> Result<TokenJson, PageProblem> {
    let mut body = body_of(form, &["name", "role", "tenant"]);
    if let Some(text) = form.text("days") {
        let days = text.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days));
        let days = days.ok_or_else(|| {
            PageProblem::invalid(format!("days: a whole number from 1 to {MAX_DAYS}, or nothing"))
        })?;
        let end = visit.now().plus(Micros::from_secs(days * 86_400));
        body.insert("expires_at".to_owned(), json!(rfc_3339(end)));
    }
    visit.send(Method::POST, "/api/v1/tokens", &[], &body.into()).await?.json()
}

/// The fields of a form that are filled in.
fn body_of(form: &Form, names: &[&str]) -> Map<String, JsonValue> {
    let filled =
        names.iter().filter_map(|name| Some(((*name).to_owned(), form.text(name)?.into())));
    filled.collect()
}

/// The page with a secret that was created, or with what is wrong with the form.
async fn created(
    visit: &Visit,
    made: Result<(&str, String, Option<String>), PageProblem>,
) -> Result<Response, PageProblem> {
    match made {
        Ok((kind, id, secret)) => {
            let secret = secret.unwrap_or_default();
            let created = CreatedSecret { kind: kind.to_owned(), id, secret };
            let keys = Keys { created: Some(created), ..gather(visit).await? };
            Ok(html(Page::Keys(Box::new(keys)).html(&visit.chrome(Tab::Keys))))
        }
        Err(problem) if problem.status.as_u16() == 422 => {
            let keys = gather(visit).await?;
            let mut chrome = visit.chrome(Tab::Keys);
            chrome.notice = Some(refusal(problem.sentence()));
            Ok(refused(Page::Keys(Box::new(keys)).html(&chrome), &problem))
        }
        Err(problem) => Err(problem),
    }
}

/// What the page shows.
pub(super) async fn gather(visit: &Visit) -> Result<Keys, PageProblem> {
    visit.require(Right::Viewer)?;
    let mut keys = Keys {
        roles: Role::ALL.map(|role| role.name().to_owned()).to_vec(),
        tiers: tiers(visit).await,
        ..Keys::default()
    };
    let query = |parameter| {
        let mut query = vec![("limit", PAGE)];
        query.extend(visit.parameter(parameter).map(|after| ("after", after)));
        query
    };
    let response = visit.get("/api/v1/api-keys", &query("keys_after")).await;
    keys.api_keys_paging = paging("keys_after", visit, response.as_ref().ok());
    let found = response.and_then(|response| response.json::<ApiKeysJson>());
    keys.api_keys = section(found.map(|it| it.api_keys.into_iter().map(key_row).collect()));
    if visit.may(Right::Admin) {
        let response = visit.get("/api/v1/tokens", &query("tokens_after")).await;
        keys.tokens_paging = paging("tokens_after", visit, response.as_ref().ok());
        let found = response.and_then(|response| response.json::<TokensJson>());
        let row = |token| token_row(visit, token);
        let rows: Section<Vec<TokenRow>> =
            section(found.map(|it| it.tokens.into_iter().map(row).collect()));
        keys.tokens = Some(rows);
    }
    Ok(keys)
}

fn paging(
    parameter: &str,
    visit: &Visit,
    response: Option<&crate::edge::ui::api::ApiResponse>,
) -> Paging {
    let link = |after: &str| {
        path::with_query("", &[(parameter, after)]).trim_start_matches('?').to_owned()
    };
    let next = response.and_then(|response| response.next("after"));
    Paging {
        next: next.map(|after| link(&after)),
        first: visit.parameter(parameter).map(|_| String::new()),
        total: None,
    }
}

fn key_row(key: ApiKeyJson) -> ApiKeyRow {
    ApiKeyRow {
        key_id: key.key_id,
        name: key.name,
        owner: key.owner,
        tier: key.tier,
        tenant: key.tenant,
        created_at: key.created_at.as_deref().and_then(time_of),
        created_by: key.created_by,
    }
}

fn token_row(visit: &Visit, token: TokenJson) -> TokenRow {
    TokenRow {
        is_own: visit.principal.name() == token.token_id,
        token_id: token.token_id,
        name: token.name,
        role: token.role,
        tenant: token.tenant,
        created_at: token.created_at.as_deref().and_then(time_of),
        created_by: token.created_by,
        expires_at: token.expires_at.as_deref().and_then(time_of),
        last_used: token.last_used.as_deref().and_then(time_of),
    }
}

//! What API keys and tokens share: only their digests are stored, and secrets are shown once.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Serialize;
use tollgate::Timestamp;
use tollgate_catalog::{Catalog, Edit, Entry, Expect, Intent, Kind, NoRandomNumbers, Stored};
use utoipa::ToSchema;

use super::read::find;
use super::response::{dry_run_response, invalid, missing, refusal, tag};
use super::write::write;
use crate::app::state::ServerState;
use crate::edge::http::extract::Session;
use crate::edge::http::paging::{Parameters, link_next};
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::time::rfc_3339_past;

/// The longest text of a key or token.
const MAX_BYTES: usize = 1_024;

/// Who made something and who wrote it last, and when.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Made {
    /// Its version, which is also its `ETag`.
    version: u64,
    /// When it was made, in RFC 3339.
    #[schema(format = DateTime)]
    created_at: String,
    /// The token, or the part of the program, that made it.
    created_by: String,
    /// When it was written last, in RFC 3339; absent if that is not known any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    updated_at: Option<String>,
    /// The token, or the part of the program, that wrote it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_by: Option<String>,
}

impl Made {
    pub(crate) fn new(stored: &Stored) -> Self {
        Self {
            version: stored.version,
            created_at: rfc_3339_past(Timestamp::from_micros(stored.created_at)),
            created_by: stored.created_by.clone(),
            updated_at: stored.updated_at.map(Timestamp::from_micros).map(rfc_3339_past),
            updated_by: stored.updated_by.clone(),
        }
    }
}

/// A page of keys or tokens that match the `filters` of a query. Adds the link to the next page to the header fields.
pub(crate) async fn page(
    catalog: &Catalog,
    fields: &mut HeaderMap,
    uri: &Uri,
    kind: Kind,
    filters: &[&str],
) -> Result<Vec<Stored>, Problem> {
    let parameters = Parameters::read(uri, &[&["limit", "after"], filters].concat())?;
    let (filter, limit) = (parameters.filter(None)?, parameters.limit()?);
    let page = catalog.page(kind, &filter, parameters.one("after")?, limit).await;
    let page = page.map_err(|error| refusal(&error))?;
    link_next(fields, uri, "after", page.next.as_deref());
    Ok(page.entries)
}

/// Stores a new key or token, and responds with its secret, which is shown this once.
pub(crate) async fn keep<A: Serialize>(
    app: &ServerState,
    session: Session,
    entry: Entry,
    dry_run: bool,
    answer: impl FnOnce(Made) -> A,
) -> Result<Response, Problem> {
    let (kind, name) = (entry.kind(), entry.name().map_err(|flaw| invalid(&[flaw]))?);
    let put = Edit::Put { entry, expect: Expect::Absent };
    let written = write(app, &session, Intent::Edits(vec![put]), dry_run).await?;
    if dry_run {
        return Ok(dry_run_response(session, &written));
    }
    let stored = find(&app.policy_source.catalog()?.catalog, kind, &name).await?;
    let stored = stored.ok_or_else(|| missing(kind, &name))?;
    let mut fields = session.fields;
    fields.insert(header::ETAG, tag(stored.version));
    Ok((StatusCode::CREATED, fields, Json(answer(Made::new(&stored)))).into_response())
}

/// Refuses an empty text, and one that is too long.
pub(crate) fn check_text(field: &str, text: Option<&str>) -> Result<(), Problem> {
    let is_sound = text.is_none_or(|text| (1..=MAX_BYTES).contains(&text.len()));
    is_sound.then_some(()).ok_or_else(|| {
        let detail = format!("{field}: a text of 1 to {MAX_BYTES} bytes, or leave it out");
        Problem::unprocessable("invalid_document", detail)
    })
}

pub(crate) fn no_random_numbers(error: NoRandomNumbers) -> Problem {
    Problem::internal(error.to_string())
}

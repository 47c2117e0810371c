//! The files that pages load. Their names carry a digest of their content, so browsers may keep them forever.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use tollgate_dashboard::asset::Asset;

use super::page_problem::PageProblem;

/// A file. It is the same for all visitors, signed in or not.
pub(super) async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = Asset::find(uri.path()) else {
        let detail = "there is no such file; another version of the server may have had it";
        return PageProblem::not_found(detail).respond(None);
    };
    // The name is the digest.
    let tag = format!("\"{}\"", uri.path().rsplit('/').next().unwrap_or_default());
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|known| known.trim().trim_start_matches("W/") == tag);
    let fields = [
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::ETAG, HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""))),
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type)),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, asset.content).into_response()
}

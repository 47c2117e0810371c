//! The description of the API as a page: the files of Swagger UI, which are stored compressed.

use std::io::Read as _;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use tokio::sync::Semaphore;
use utoipa_swagger_ui::SwaggerUi;

use super::problem::Problem;
use crate::app::state::ServerState;

/// The largest file, decompressed.
const MAX_FILE_BYTES: usize = 16 << 20;
/// Files are decompressed one at a time: this is not what the server is for.
static DECOMPRESSION: Semaphore = Semaphore::const_new(1);

/// The Swagger UI. A missing file is reported as a problem, as for other paths.
pub(super) fn routes(api: Value) -> Router<ServerState> {
    let page = SwaggerUi::new("/docs").external_url_unchecked("/docs/openapi.json", api);
    Router::from(page).layer(from_fn(|request: Request, next: Next| async move {
        let is_compressed = accepts_gzip(request.headers());
        let response = next.run(request).await;
        if response.status() == StatusCode::NOT_FOUND {
            let detail = "there is no such file; /docs/ is where the documentation begins";
            return Problem::not_found("unknown_path", detail).into_response();
        }
        if response.headers().contains_key(header::CONTENT_ENCODING) {
            return encoded(response, is_compressed).await;
        }
        response
    }))
}

/// A compressed file, as the client accepts it.
async fn encoded(mut response: Response, is_compressed: bool) -> Response {
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, vary);
    if is_compressed {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Some(bytes) = decompress(body).await else {
        let detail = "the file could not be decompressed; accept the encoding gzip";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response();
    };
    parts.headers.remove(header::CONTENT_ENCODING);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(bytes))
}

/// Decompresses on a thread that no check waits for.
async fn decompress(body: Body) -> Option<Bytes> {
    let compressed = to_bytes(body, MAX_FILE_BYTES).await.ok()?;
    let _turn = DECOMPRESSION.acquire().await.ok()?;
    let work = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        let limit = MAX_FILE_BYTES as u64;
        GzDecoder::new(&*compressed).take(limit).read_to_end(&mut bytes).ok()?;
        Some(Bytes::from(bytes))
    });
    work.await.ok().flatten()
}

/// Whether the client names gzip. Without the field any encoding is allowed, but clients that leave it out, like curl,
/// do not decode any.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let (mut named, mut any) = (None, None);
    for coding in codings {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().to_ascii_lowercase();
        let weight = weight.strip_prefix("q=").map_or(1.0, |q| q.trim().parse().unwrap_or(0.0));
        match &*name.trim().to_ascii_lowercase() {
            "gzip" | "x-gzip" => named = Some(weight > 0.0_f32),
            "*" => any = Some(weight > 0.0),
            _ => {}
        }
    }
    named.or(any).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_only_to_clients_that_name_it() {
        for (line, expected) in [
            (None, false),
            (Some(""), false),
            (Some("identity"), false),
            (Some("gzip"), true),
            (Some("br;q=1.0, GZIP;q=0.5"), true),
            (Some("gzip;q=0, *"), false),
            (Some("*"), true),
            (Some("*;q=0"), false),
            (Some("deflate, br, zstd"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers
                .extend(line.map(|line| (header::ACCEPT_ENCODING, HeaderValue::from_static(line))));
            assert_eq!(accepts_gzip(&headers), expected, "{line:?}");
        }
    }
}

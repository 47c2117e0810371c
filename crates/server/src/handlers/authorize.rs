//! `/api/v1/rate-limit/authorize`: forward-auth. A proxy asks about the request it holds, and passes
//! a refusal on to its client.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use tollgate::Stopwatch;
use tollgate::http::{PROBLEM_JSON, refusal_body, write_fields};
use tollgate::identity::HttpRequest;

use crate::extract::Peer;
use crate::problem::{Problem, ProblemBody};
use crate::settings::{DenyStatus, RequestHeaders};
use crate::state::ServerState;

/// Where this call is found; Envoy puts the path of its client behind it.
pub(crate) const PATH: &str = "/api/v1/rate-limit/authorize";
/// The real status of a refusal, where the proxy can only pass on another one.
const STATUS: http::HeaderName = http::HeaderName::from_static("x-tollgate-status");

/// Judges the request that a proxy asks about: 200 if it may pass, 429 if not.
///
/// The request is described by `X-Original-Method` and `X-Original-URI` (nginx), by
/// `X-Forwarded-Method`, `-Uri` and `-Host` (Traefik, Caddy), or else by the method and the path
/// behind this one (Envoy). Who asks is found in its own headers.
#[utoipa::path(
    get, path = "/api/v1/rate-limit/authorize", tag = "check",
    params(
        ("x-original-uri" = Option<String>, Header, description = "What the client asked for, as nginx says it"),
        ("x-forwarded-uri" = Option<String>, Header, description = "What the client asked for, as Traefik and Caddy say it"),
    ),
    responses(
        (status = 200, description = "The request may pass"),
        (status = 400, description = "The headers disagree about the request", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 401, description = "A token is needed", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 403, description = "The client is on the deny list", body = Object, content_type = "application/problem+json"),
        (status = 429, description = "A limit was reached", body = Object, content_type = "application/problem+json"),
        (status = 503, description = "The limit could not be checked", body = Object, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn authorize(
    State(app): State<ServerState>,
    peer: Peer,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    app.admit_proxy(&parts.headers, peer)?;
    app.guard.check_call()?;
    let asked = Asked::of(&parts.headers, parts.method.as_str(), &parts.uri, app.request_headers)?;
    let now = app.now();
    let identity = app.extractor.identify(&parts.headers, peer.address.ip(), now).await;
    let request = HttpRequest {
        identity: &identity,
        method: &asked.method,
        host: asked.host.as_deref(),
        path: &asked.path,
        headers: &parts.headers,
        cost: 1,
    };
    let stopwatch = Stopwatch::start();
    let decision = app.limiter.check(&request).await;
    app.metrics.checks.observe(stopwatch.elapsed());
    let mut response = Response::new(Body::empty());
    write_fields(&decision, app.families, response.headers_mut());
    if !decision.is_allowed() {
        let id = app.journal.next_id(false);
        let mut body = Vec::with_capacity(512);
        let status = refusal_body(&decision, &id.to_string(), &mut body);
        app.journal.record(id, decision);
        *response.body_mut() = Body::from(body);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        *response.status_mut() = status;
        if app.deny_status == DenyStatus::Forbidden {
            response.headers_mut().insert(STATUS, HeaderValue::from(status.as_u16()));
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
    }
    Ok(response.into_response())
}

/// The request that a proxy asks about.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    method: Cow<'a, str>,
    host: Option<Cow<'a, str>>,
    path: Cow<'a, str>,
}

impl<'a> Asked<'a> {
    /// Reads what the proxy says. Proxies overwrite the headers they use themselves, but pass on what
    /// a client put into the others, so two that disagree are not believed.
    fn of(
        headers: &'a HeaderMap,
        method: &'a str,
        uri: &'a Uri,
        believed: RequestHeaders,
    ) -> Result<Self, Problem> {
        // What is not text is read as well as can be: not reading it would let a client that adds
        // such a byte to its query slip past the rules for its path.
        let header =
            |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let own_path = uri.path_and_query().map_or("/", |path| path.as_str());
        let behind = own_path.strip_prefix(PATH).filter(|path| path.starts_with('/'));
        // Nobody but the proxy writes the path behind ours.
        if let Some(path) = behind.filter(|_| believed == RequestHeaders::Any) {
            return Ok(Self { method: method.into(), host: None, path: path.into() });
        }
        let original = header("x-original-uri").map(path_of);
        let forwarded = header("x-forwarded-uri").map(path_of);
        let is_original = match (believed, &original, &forwarded) {
            (RequestHeaders::Original, ..) => true,
            (RequestHeaders::Forwarded, ..) => false,
            (RequestHeaders::Any, Some(original), Some(forwarded)) if original != forwarded => {
                return Err(Problem::bad_request(
                    "ambiguous_request",
                    "X-Original-URI and X-Forwarded-Uri disagree, and one of them may be the \
                     client's: say in authorize.request_headers which one your proxy writes",
                ));
            }
            (RequestHeaders::Any, original, _) => original.is_some(),
        };
        let (method_header, host_header, path) = if is_original {
            ("x-original-method", "x-original-host", original)
        } else {
            ("x-forwarded-method", "x-forwarded-host", forwarded)
        };
        Ok(Self {
            method: header(method_header).unwrap_or(method.into()),
            host: header(host_header),
            path: path.unwrap_or("/".into()),
        })
    }
}

/// The path of what may be a whole URL.
fn path_of(uri: Cow<'_, str>) -> Cow<'_, str> {
    let start = match uri.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', '?', '#']) => {
            let before = uri.len() - rest.len();
            match rest.find(['/', '?']) {
                Some(at) => before + at,
                None => return "/".into(),
            }
        }
        _ => return uri,
    };
    match uri {
        Cow::Borrowed(uri) => uri[start..].into(),
        Cow::Owned(uri) => uri[start..].to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: RequestHeaders = RequestHeaders::Any;

    /// Method, host and path of what is asked for; the status if nothing can be believed.
    fn asked(believed: RequestHeaders, lines: &[(&'static str, &str)], uri: &str) -> String {
        let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        asked_in_bytes(believed, &lines, uri)
    }

    fn asked_in_bytes(
        believed: RequestHeaders,
        lines: &[(&'static str, &[u8])],
        uri: &str,
    ) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, HeaderValue::from_bytes(value).expect("a header value"));
        }
        let uri: Uri = uri.parse().expect("a URI");
        match Asked::of(&headers, "GET", &uri, believed) {
            Ok(Asked { method, host, path }) => {
                format!("{method} {}{path}", host.unwrap_or_default())
            }
            Err(problem) => problem.status().as_u16().to_string(),
        }
    }

    #[test]
    fn what_proxies_ask_about() {
        let check = |lines: &[(&'static str, &str)], behind: &str, expected: &str| {
            assert_eq!(asked(ANY, lines, &format!("{PATH}{behind}")), expected, "{lines:?}");
        };
        let traefik = [
            ("x-forwarded-method", "PUT"),
            ("x-forwarded-uri", "/t"),
            ("x-forwarded-host", "api.example.com"),
        ];
        check(&[], "", "GET /");
        check(&[], "/", "GET /");
        check(&[], "/orders/7?x=1", "GET /orders/7?x=1");
        check(&[], "?x=1", "GET /");
        check(&[("x-original-method", "POST"), ("x-original-uri", "/a?b")], "", "POST /a?b");
        check(&traefik, "", "PUT api.example.com/t");
        check(&[("x-original-uri", "https://h.example/p?q")], "", "GET /p?q");
        check(&[("x-original-uri", "https://h.example")], "", "GET /");
        let redirect = "/redirect?to=https://e.example/x";
        check(&[("x-original-uri", redirect)], "", "GET /redirect?to=https://e.example/x");
    }

    #[test]
    fn what_is_not_text_is_not_ignored() {
        let check = |value: &[u8], expected: &str| {
            let lines = [("x-original-uri", value)];
            assert_eq!(asked_in_bytes(ANY, &lines, PATH), expected);
        };
        check("/login?\u{fc}".as_bytes(), "GET /login?\u{fc}");
        check(b"/login?\xff", "GET /login?\u{fffd}");
        check(b"https://h.example/login?\xff", "GET /login?\u{fffd}");
    }

    #[test]
    fn a_client_cannot_choose_the_path_it_is_judged_by() {
        let both = [("x-original-uri", "/harmless"), ("x-forwarded-uri", "/login")];
        let check = |believed, behind: &str, expected: &str| {
            assert_eq!(asked(believed, &both, &format!("{PATH}{behind}")), expected);
        };
        check(ANY, "", "400");
        check(ANY, "/login", "GET /login");
        check(RequestHeaders::Original, "", "GET /harmless");
        check(RequestHeaders::Forwarded, "", "GET /login");
        let same = [("x-original-uri", "/login"), ("x-forwarded-uri", "https://h.example/login")];
        assert_eq!(asked(ANY, &same, PATH), "GET /login");
    }
}

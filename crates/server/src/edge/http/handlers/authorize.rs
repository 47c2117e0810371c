//! `/api/v1/rate-limit/authorize`: forward-auth. A proxy checks the request it holds, and passes a
//! refusal on to its client.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use tollgate::http::{PROBLEM_JSON, refusal_body, write_fields};
use tollgate::identity::HttpRequest;
use tollgate::{CheckTarget, Decision};

use crate::app::state::{ServerState, Shared};
use crate::check::checker::Recording;
use crate::edge::http::extract::Peer;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::response::refuser;
use crate::observe::audit_log::RequestContext;
use crate::observe::metrics::EntryPoint;
use crate::settings::{DenyStatus, RequestHeaders};

/// The path of this call; Envoy appends the path that its client requested.
pub(crate) const PATH: &str = "/api/v1/rate-limit/authorize";
/// The id of the decision, by which it can be explained.
pub(crate) const DECISION: http::HeaderName = http::HeaderName::from_static("x-tollgate-decision");
/// The rule that refused, if one did.
pub(crate) const RULE: http::HeaderName = http::HeaderName::from_static("x-tollgate-rule");
/// Why the check was made without the shared store, if it was.
const DEGRADED: http::HeaderName = http::HeaderName::from_static("x-tollgate-degraded");
/// The real status of a refusal, where the proxy can only pass on another one.
const STATUS: http::HeaderName = http::HeaderName::from_static("x-tollgate-status");

/// Checks the request that a proxy holds: 200 if it may pass, 429 if not.
///
/// The request is described by `X-Original-Method` and `X-Original-URI` (nginx), by
/// `X-Forwarded-Method`, `-Uri` and `-Host` (Traefik, Caddy), or else by the method and the path behind
/// this one (Envoy). The client is identified by the headers of its request.
#[utoipa::path(
    get, path = "/api/v1/rate-limit/authorize", tag = "check",
    params(
        ("x-original-uri" = Option<String>, Header, description = "What the client requested, from nginx"),
        ("x-forwarded-uri" = Option<String>, Header, description = "What the client requested, from Traefik or Caddy"),
    ),
    responses(
        (status = 200, description = "The request may pass"),
        (status = 400, description = "The headers do not say what was requested, or disagree; or the path or the credentials are ambiguous", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 401, description = "A token is needed; or the client's credentials are not valid, and identity.unverified is refuse", body = ProblemBody<'_>, content_type = "application/problem+json"),
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
    app.guard.check_call().map_err(Problem::for_a_proxy)?;
    let asked = AuthorizeRequest::of(
        &parts.headers,
        parts.method.as_str(),
        &parts.uri,
        app.request_headers,
    )?;
    app.authorize(&asked, &parts.headers, peer).await
}

impl Shared {
    /// Checks the request that a proxy holds, whose client has sent these header fields.
    pub(crate) async fn authorize(
        &self,
        asked: &AuthorizeRequest<'_>,
        headers: &HeaderMap,
        peer: Peer,
    ) -> Result<Response, Problem> {
        let identity = self.identify(headers, peer).await;
        if let Some(why) = identity.credential_problem {
            return Err(self.refuse_client(Problem::of_credentials(why)));
        }
        let path = self.paths.read(&asked.path);
        let path = path.map_err(|why| self.refuse_client(Problem::of_path(why)))?;
        let request = HttpRequest {
            identity: &identity,
            method: &asked.method,
            host: asked.host.as_deref(),
            path: &path,
            headers,
            cost: 1,
        };
        let context = |_: &Decision| {
            let (endpoint, method) = (Some(&*asked.path), Some(&*asked.method));
            Some(RequestContext { request: &request, endpoint, method, entries: &[] })
        };
        let checked = self.checker.check(
            CheckTarget::Request(&request),
            Recording::proxied(EntryPoint::Authorize),
            context,
            |decision, id| self.authorization(decision, id),
        );
        Ok(checked.await)
    }

    /// The response to a proxy: 200 if the request may pass, else the refusal for its client. A refusal
    /// has an id.
    fn authorization(&self, decision: &Decision, id: Option<&str>) -> Response {
        let mut response = Response::new(Body::empty());
        write_fields(decision, self.families, response.headers_mut());
        if let Some(why) = decision.degraded().and_then(|why| why.to_string().parse().ok()) {
            response.headers_mut().insert(DEGRADED, why);
        }
        if let Some(id) = id {
            let mut body = Vec::with_capacity(512);
            let status = refusal_body(decision, id, &mut body);
            *response.body_mut() = Body::from(body);
            *response.status_mut() = status;
            let fields = response.headers_mut();
            fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
            // The body says the same, but not every proxy passes it on.
            let binding = decision.binding().map(|binding| &*binding.rule.id);
            let rule = binding.or_else(|| refuser(decision));
            for (name, text) in [(DECISION, Some(id)), (RULE, rule)] {
                if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                    fields.insert(name, value);
                }
            }
            if self.deny_status == DenyStatus::Forbidden {
                fields.insert(STATUS, HeaderValue::from(status.as_u16()));
                *response.status_mut() = StatusCode::FORBIDDEN;
            }
        }
        response
    }

    /// Refuses an invalid request of a client, with a status that its proxy passes on.
    fn refuse_client(&self, problem: Problem) -> Problem {
        let status = problem.status();
        if self.deny_status == DenyStatus::Forbidden && status == StatusCode::BAD_REQUEST {
            problem
                .with_status(StatusCode::FORBIDDEN)
                .with_header(STATUS, HeaderValue::from(status.as_u16()))
        } else {
            problem
        }
    }
}

/// The request that a proxy wants checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AuthorizeRequest<'a> {
    pub(crate) method: Cow<'a, str>,
    pub(crate) host: Option<Cow<'a, str>>,
    pub(crate) path: Cow<'a, str>,
}

/// A request as one family of headers describes it.
#[derive(Debug, PartialEq, Eq)]
struct Description<'a> {
    path: Option<Cow<'a, str>>,
    method: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
}

const ORIGINAL: [&str; 3] = ["x-original-uri", "x-original-method", "x-original-host"];
const FORWARDED: [&str; 3] = ["x-forwarded-uri", "x-forwarded-method", "x-forwarded-host"];

impl<'a> Description<'a> {
    fn read(headers: &'a HeaderMap, [path, method, host]: [&str; 3]) -> Result<Self, Problem> {
        Ok(Self {
            path: only(headers, path)?.map(path_of),
            method: only(headers, method)?,
            host: only(headers, host)?,
        })
    }
}

/// The value of a header that may occur once. Of two lines one may be the client's.
///
/// Bytes that are not UTF-8 are replaced: ignoring the header would let a client that adds such a byte
/// to its query bypass the rules for its path.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<Cow<'a, str>>, Problem> {
    let mut lines = headers.get_all(name).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(ambiguous(&format!("{name} is there more than once")));
    }
    Ok(Some(String::from_utf8_lossy(line.as_bytes())))
}

fn ambiguous(what: &str) -> Problem {
    let detail = format!(
        "{what}, and part of it may be the client's: let the proxy overwrite these headers, or say \
         in authorize.request_headers which family it writes"
    );
    Problem::bad_request("ambiguous_request", detail)
}

impl<'a> AuthorizeRequest<'a> {
    /// Reads the headers of the proxy. Proxies overwrite the headers they use themselves, but pass on
    /// what a client put into the others, so two families that disagree are refused.
    fn of(
        headers: &'a HeaderMap,
        method: &'a str,
        uri: &'a Uri,
        believed: RequestHeaders,
    ) -> Result<Self, Problem> {
        // HTTP/2 has no Host header.
        let own_host = || uri.authority().map(|authority| authority.as_str().into());
        let own_path = uri.path_and_query().map_or("/", |path| path.as_str());
        let behind = own_path.strip_prefix(PATH).filter(|path| path.starts_with('/'));
        // Only the proxy can write the path behind this call's path.
        if let Some(path) = behind.filter(|_| believed == RequestHeaders::Any) {
            return Ok(Self { method: method.into(), host: own_host(), path: path.into() });
        }
        let described = match believed {
            RequestHeaders::Original => Description::read(headers, ORIGINAL)?,
            RequestHeaders::Forwarded => Description::read(headers, FORWARDED)?,
            RequestHeaders::Any => {
                let original = Description::read(headers, ORIGINAL)?;
                let forwarded = Description::read(headers, FORWARDED)?;
                if original.path.is_none() {
                    forwarded
                } else if forwarded.path.is_none() || original == forwarded {
                    original
                } else {
                    return Err(ambiguous("X-Original-* and X-Forwarded-* describe two requests"));
                }
            }
        };
        let path = described.path.ok_or_else(|| {
            Problem::bad_request(
                "request_not_described",
                "say what the client asked for: X-Original-URI and X-Original-Method, or \
                 X-Forwarded-Uri and X-Forwarded-Method, or its path behind this one",
            )
        })?;
        Ok(Self {
            method: described.method.unwrap_or(method.into()),
            host: described.host.or_else(own_host),
            path,
        })
    }
}

/// The path of a URI that may be a whole URL.
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

    /// Method, host and path of the request, or the status of the refusal.
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
        match AuthorizeRequest::of(&headers, "GET", &uri, believed) {
            Ok(AuthorizeRequest { method, host, path }) => {
                format!("{method} {}{path}", host.unwrap_or_default())
            }
            Err(problem) => problem.status().as_u16().to_string(),
        }
    }

    #[test]
    fn requests_are_read_from_the_headers_of_proxies() {
        let check = |lines: &[(&'static str, &str)], behind: &str, expected: &str| {
            assert_eq!(asked(ANY, lines, &format!("{PATH}{behind}")), expected, "{lines:?}");
        };
        let traefik = [
            ("x-forwarded-method", "PUT"),
            ("x-forwarded-uri", "/t"),
            ("x-forwarded-host", "api.example.com"),
        ];
        check(&[], "", "400");
        check(&[], "/", "GET /");
        check(&[], "/orders/7?x=1", "GET /orders/7?x=1");
        check(&[], "?x=1", "400");
        check(&[("x-original-method", "POST"), ("x-original-uri", "/a?b")], "", "POST /a?b");
        check(&traefik, "", "PUT api.example.com/t");
        check(&[("x-original-uri", "https://h.example/p?q")], "", "GET /p?q");
        check(&[("x-original-uri", "https://h.example")], "", "GET /");
        let redirect = "/redirect?to=https://e.example/x";
        check(&[("x-original-uri", redirect)], "", "GET /redirect?to=https://e.example/x");
    }

    #[test]
    fn headers_that_are_not_utf_8_are_not_ignored() {
        let check = |value: &[u8], expected: &str| {
            let lines = [("x-original-uri", value)];
            assert_eq!(asked_in_bytes(ANY, &lines, PATH), expected);
        };
        check("/login?\u{fc}".as_bytes(), "GET /login?\u{fc}");
        check(b"/login?\xff", "GET /login?\u{fffd}");
        check(b"https://h.example/login?\xff", "GET /login?\u{fffd}");
    }

    #[test]
    fn a_client_cannot_choose_the_path_that_is_checked() {
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
        let other_method = [
            ("x-original-uri", "/login"),
            ("x-original-method", "GET"),
            ("x-forwarded-uri", "/login"),
            ("x-forwarded-method", "POST"),
        ];
        assert_eq!(asked(ANY, &other_method, PATH), "400");
        assert_eq!(asked(RequestHeaders::Forwarded, &other_method, PATH), "POST /login");
        let only_there = [
            ("x-original-uri", "/login"),
            ("x-original-method", "GET"),
            ("x-forwarded-uri", "/login"),
        ];
        assert_eq!(asked(ANY, &only_there, PATH), "400");
    }

    #[test]
    fn a_repeated_header_is_refused() {
        let mut headers = HeaderMap::new();
        headers.append("x-original-uri", HeaderValue::from_static("/harmless"));
        headers.append("x-original-uri", HeaderValue::from_static("/login"));
        let uri = Uri::from_static(PATH);
        let refused = AuthorizeRequest::of(&headers, "GET", &uri, ANY).expect_err("two lines");
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn the_host_of_http_2_is_that_of_its_target() {
        let headers = HeaderMap::new();
        let uri = Uri::from_static("https://api.example.com/api/v1/rate-limit/authorize/x");
        let asked = AuthorizeRequest::of(&headers, "GET", &uri, ANY).expect("a path behind ours");
        assert_eq!(asked.host.as_deref(), Some("api.example.com"));
    }

    #[test]
    fn a_path_of_any_length_is_checked() {
        let long = format!("/{}", "a".repeat(60_000));
        assert_eq!(asked(ANY, &[("x-original-uri", &long)], PATH), format!("GET {long}"));
        assert_eq!(asked(ANY, &[], &format!("{PATH}{long}")), format!("GET {long}"));
    }
}

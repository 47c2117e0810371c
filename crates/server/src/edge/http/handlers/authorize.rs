//! `/api/v1/rate-limit/authorize`: forward-auth. A proxy checks the request it holds, and passes a
//! refusal on to its client.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use tollgate::http::{content_fields, write_fields};
use tollgate::identity::HttpRequest;
use tollgate::{CheckTarget, Decision};

use crate::app::state::{ServerState, Shared};
use crate::check::checker::Recording;
use crate::edge::http::extract::Peer;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::response::refuser;
use crate::edge::http::wire::url_path::url_path;
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
        ("deny_status" = Option<u16>, Query, description = "The status of refusals: 429, or 403 for nginx; authorize.deny_status if not given"),
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
    let deny_status = deny_status(&parts.uri)?.unwrap_or(app.deny_status);
    let state = app.clone();
    app.finish(async move {
        let Parts { headers, method, uri, .. } = &parts;
        let asked = AuthorizeRequest::of(headers, method.as_str(), uri, state.request_headers)?;
        state.authorize(&asked, headers, peer, deny_status).await
    })
    .await
}

impl Shared {
    /// Checks the request that a proxy holds, whose client has sent these header fields.
    pub(crate) async fn authorize(
        &self,
        asked: &AuthorizeRequest<'_>,
        headers: &HeaderMap,
        peer: Peer,
        deny_status: DenyStatus,
    ) -> Result<Response, Problem> {
        let identity = self.identify(headers, peer).await;
        if let Some(why) = identity.credential_problem {
            return Err(refuse_client(deny_status, Problem::of_credentials(why)));
        }
        let path = self.paths.read(&asked.path);
        let path = path.map_err(|why| refuse_client(deny_status, Problem::of_path(why)))?;
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
            Some(RequestContext { endpoint, method, ..RequestContext::of(&request) })
        };
        let checked = self.checker.check(
            CheckTarget::Request(&request),
            Recording::proxied(EntryPoint::Authorize),
            context,
            |decision, id| self.authorization(decision, id.map(|id| &**id), deny_status),
        );
        Ok(checked.await)
    }

    /// The response to a proxy: 200 if the request may pass, else the refusal for its client. A refusal
    /// has an id.
    fn authorization(
        &self,
        decision: &Decision,
        id: Option<&str>,
        deny_status: DenyStatus,
    ) -> Response {
        let mut response = Response::new(Body::empty());
        write_fields(decision, self.families, response.headers_mut());
        if let Some(why) = decision.degraded().and_then(|why| why.to_string().parse().ok()) {
            response.headers_mut().insert(DEGRADED, why);
        }
        if let Some(id) = id {
            let mut body = Vec::with_capacity(512);
            let (status, content_type) = self.refusal.write(decision, id, &mut body);
            *response.body_mut() = Body::from(body);
            *response.status_mut() = status;
            let fields = response.headers_mut();
            fields.extend(content_fields(content_type));
            // The body says the same, but not every proxy passes it on.
            let binding = decision.binding().map(|binding| &*binding.rule.id);
            let rule = binding.or_else(|| refuser(decision));
            for (name, text) in [(DECISION, Some(id)), (RULE, rule)] {
                if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                    fields.insert(name, value);
                }
            }
            if deny_status == DenyStatus::Forbidden {
                fields.insert(STATUS, HeaderValue::from(status.as_u16()));
                *response.status_mut() = StatusCode::FORBIDDEN;
            }
        }
        response
    }
}

/// Refuses an invalid request of a client, with a status that its proxy passes on.
fn refuse_client(deny_status: DenyStatus, problem: Problem) -> Problem {
    let status = problem.status();
    if deny_status == DenyStatus::Forbidden && status == StatusCode::BAD_REQUEST {
        problem
            .with_status(StatusCode::FORBIDDEN)
            .with_header(STATUS, HeaderValue::from(status.as_u16()))
    } else {
        problem
    }
}

/// The status of refusals that this proxy wants, by the query of its call. Behind a longer path, the query is the
/// client's and says nothing.
fn deny_status(uri: &Uri) -> Result<Option<DenyStatus>, Problem> {
    let query = uri.query().filter(|_| uri.path() == PATH).unwrap_or_default();
    let mut values = query.split('&').filter_map(|pair| pair.strip_prefix("deny_status="));
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some("429"), None) => Ok(Some(DenyStatus::TooManyRequests)),
        (Some("403"), None) => Ok(Some(DenyStatus::Forbidden)),
        (Some(_), _) => {
            let detail =
                "deny_status: write 429, or 403 for a proxy that passes on only that, once";
            Err(Problem::bad_request("invalid_query", detail))
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
    match uri {
        Cow::Borrowed(uri) => url_path(uri).into(),
        Cow::Owned(uri) => url_path(&uri).to_owned().into(),
    }
}

#[cfg(test)]
mod tests;

//! What handlers extract from a request: the peer, the caller, and a JSON body of bounded size and time.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Frame};
use tollgate::rules::ExplainScope;
use tollgate_catalog::Author;

use crate::admin::auth::{Principal, RIGHT_MISSING, Right, TOKEN_REQUIRED, forbidden};
use crate::app::offload::OF_TENANT;
use crate::app::state::ServerState;
use crate::edge::http::problem::Problem;
pub(crate) use crate::edge::listen::Peer;
use crate::edge::replayed_body::ReplayedBody;
use crate::settings::Limits;

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // An unknown peer grants no permission.
        Ok(parts.extensions.get().copied().unwrap_or(Peer::UNKNOWN))
    }
}

/// A caller of the check API that has the permission and is within its rate. Checked before a body is
/// read.
pub(crate) struct CheckCaller(pub(crate) Principal);

impl FromRequestParts<ServerState> for CheckCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &ServerState) -> Result<Self, Problem> {
        let Ok(peer) = Peer::from_request_parts(parts, app).await;
        let principal = admit_caller(parts, app, peer, Right::Caller)?;
        app.guard.check_call()?;
        Ok(Self(principal))
    }
}

/// A caller that wants a request explained. Checked before a body is read.
pub(crate) struct Explainer {
    /// Which rules it may see.
    pub(crate) scope: ExplainScope,
    /// The name whose share of the queue it takes.
    pub(crate) caller: String,
}

impl FromRequestParts<ServerState> for Explainer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &ServerState) -> Result<Self, Problem> {
        let Ok(peer) = Peer::from_request_parts(parts, app).await;
        let principal = admit_caller(parts, app, peer, Right::Look)?;
        app.guard.check_call()?;
        // An invalid token is refused, so that it cannot be guessed here.
        let is_viewer = match admit_caller(parts, app, peer, Right::Viewer) {
            Ok(_) => true,
            Err(problem) if matches!(problem.code(), TOKEN_REQUIRED | RIGHT_MISSING) => false,
            Err(problem) => return Err(problem),
        };
        let caller = match &principal {
            Principal::Anonymous => peer.address.ip().to_string(),
            principal => principal.name().to_owned(),
        };
        let scope = if is_viewer { ExplainScope::All } else { ExplainScope::OwnTenant };
        Ok(Self { scope, caller })
    }
}

/// A caller that may peek. Checked before a body is read.
pub(crate) struct PeekCaller;

impl FromRequestParts<ServerState> for PeekCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &ServerState) -> Result<Self, Problem> {
        let Ok(peer) = Peer::from_request_parts(parts, app).await;
        admit_caller(parts, app, peer, Right::Look)?;
        app.guard.check_call()?;
        Ok(Self)
    }
}

/// An admitted call of the admin API: the caller has the permission and is within its rate.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) principal: Principal,
    pub(crate) address: IpAddr,
    /// The header fields of the limit on such calls.
    pub(crate) fields: HeaderMap,
}

impl Session {
    /// The author of its changes, for the audit log.
    pub(crate) fn author(&self) -> Author {
        Author {
            actor: self.principal.name().to_owned(),
            role: self.principal.role().name().to_owned(),
            tenant: self.principal.tenant().map(str::to_owned),
            address: Some(self.address.to_string()),
        }
    }

    /// The name whose share of the server's queues its calls take.
    pub(crate) fn caller(&self) -> String {
        share_name(&self.principal)
    }

    /// Whether it also has another permission than the one that this call needs.
    pub(crate) fn may(&self, right: Right) -> bool {
        right.is_of(self.principal.role())
    }

    /// The problem of a call without the permission it needs.
    pub(crate) fn lacks(&self, right: Right) -> Problem {
        forbidden(&self.principal, right)
    }

    /// The only tenant whose rules it may see.
    pub(crate) fn tenant(&self) -> Option<String> {
        self.principal.tenant().map(str::to_owned)
    }
}

/// The name whose share of the server's queues calls of a principal take: all tokens of a tenant have one share.
pub(crate) fn share_name(principal: &Principal) -> String {
    match principal.tenant() {
        Some(tenant) => format!("{OF_TENANT}{tenant}"),
        None => principal.name().to_owned(),
    }
}

/// Admits a caller of the admin API with a permission, and counts the call.
pub(crate) fn admit(
    parts: &mut Parts,
    app: &ServerState,
    right: Right,
    is_write: bool,
) -> Result<Session, Problem> {
    let peer = parts.extensions.get().copied().unwrap_or(Peer::UNKNOWN);
    let principal = admit_caller(parts, app, peer, right)?;
    let is_refresh = parts.extensions.get::<SignedIn>().is_some_and(|it| it.is_refresh);
    let fields = if is_refresh && !is_write {
        HeaderMap::new()
    } else {
        app.guard.admin_call(&principal, is_write)?
    };
    let session = Session { principal, address: peer.address.ip(), fields };
    if is_write {
        parts.extensions.insert(Writer(session.principal.clone()));
    }
    Ok(session)
}

/// An extension of requests that the dashboard makes for a person who is signed in.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub(crate) principal: Principal,
    /// Whether an open page asks for its figures again. The dashboard bounds how often that is, so it is not counted.
    pub(crate) is_refresh: bool,
}

/// The caller with a permission: who is signed in, else the holder of the token in the header fields.
fn admit_caller(
    parts: &Parts,
    app: &ServerState,
    peer: Peer,
    right: Right,
) -> Result<Principal, Problem> {
    match parts.extensions.get::<SignedIn>() {
        Some(SignedIn { principal, .. }) if right.is_of(principal.role()) => Ok(principal.clone()),
        Some(SignedIn { principal, .. }) => Err(forbidden(principal, right)),
        None => app.admit(&parts.headers, peer, right),
    }
}

/// Declares extractors that admit callers with a permission, and count the call.
macro_rules! sessions {
    ($($(#[doc = $about:literal])+ $name:ident: $right:expr, writes: $is_write:literal;)+) => {$(
        $(#[doc = $about])+
        pub(crate) struct $name(pub(crate) Session);

        impl FromRequestParts<ServerState> for $name {
            type Rejection = Problem;

            async fn from_request_parts(
                parts: &mut Parts,
                app: &ServerState,
            ) -> Result<Self, Problem> {
                admit(parts, app, $right, $is_write).map(Self)
            }
        }
    )+};
}

sessions! {
    /// A caller that may read what all tenants share.
    Viewer: Right::Viewer, writes: false;
    /// A caller that may read rules and lists, maybe those of one tenant only.
    RuleViewer: Right::RuleViewer, writes: false;
    /// A caller that may change rules and lists, maybe those of one tenant only.
    RuleEditor: Right::RuleEditor, writes: true;
    /// A caller that may change what all tenants share.
    Operator: Right::Operator, writes: true;
    /// A caller that may read tokens.
    TokenViewer: Right::Admin, writes: false;
    /// A caller that may change tokens.
    TokenEditor: Right::Admin, writes: true;
}

/// An extension of requests that change something: who sent them.
#[derive(Clone, Debug)]
struct Writer(Principal);

/// Accepts the body of a change. Its sender may have sent it slowly, and have been revoked meanwhile. A body from an
/// administrator of a tenant counts as written by that tenant.
pub(crate) fn accept_body(app: &ServerState, parts: &Parts, bytes: usize) -> Result<(), Problem> {
    let Some(Writer(principal)) = parts.extensions.get() else { return Ok(()) };
    app.confirm(principal)?;
    match principal.tenant() {
        Some(tenant) => app.guard.tenant_write(tenant, bytes),
        None => Ok(()),
    }
}

/// The last segment of a path. Its escapes may encode anything, also bytes that are not UTF-8.
pub(crate) type PathName = Result<Path<String>, PathRejection>;

/// Reads the name. Handlers call it after the caller is admitted.
pub(crate) fn read_name(name: PathName) -> Result<String, Problem> {
    let Path(name) =
        name.map_err(|error| Problem::bad_request("invalid_path", error.body_text()))?;
    if name.contains('\0') {
        let detail = "the path contains a NUL byte, which no name has: remove it";
        return Err(Problem::bad_request("invalid_path", detail));
    }
    Ok(name)
}

/// The body of a request whose content type is JSON.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl FromRequest<ServerState> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &ServerState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bound = BodyBound::bodies(app.body_bytes);
        let body = read_json(&parts.headers, body, bound, app.request_timeout).await?;
        accept_body(app, &parts, body.len())?;
        Ok(Self(body))
    }
}

/// The maximal size of a body, and the setting that sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyBound {
    pub(crate) bytes: usize,
    pub(crate) setting: &'static str,
}

impl BodyBound {
    pub(crate) fn documents(limits: &Limits) -> Self {
        Self { bytes: limits.document_bytes.to_usize(), setting: "limits.document_bytes" }
    }

    pub(crate) fn tenant_documents(limits: &Limits) -> Self {
        let bytes = limits.tenant_document_bytes.to_usize();
        Self { bytes, setting: "limits.tenant_document_bytes" }
    }

    pub(crate) const fn bodies(bytes: usize) -> Self {
        Self { bytes, setting: "limits.body_bytes" }
    }
}

/// Reads a body that has to be JSON, up to a size and within a timeout.
pub(crate) async fn read_json(
    headers: &HeaderMap,
    body: impl Body<Data = Bytes, Error: Into<axum::BoxError> + Send + Unpin> + Send + Unpin,
    bound: BodyBound,
    timeout: Duration,
) -> Result<Bytes, Problem> {
    if !is_json(headers) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "send the body as JSON, with the header `Content-Type: application/json`",
        ));
    }
    read_body(body, bound, timeout).await
}

/// Reads a body of any type, up to a size and within a timeout.
pub(crate) async fn read_body(
    mut body: impl Body<Data = Bytes, Error: Into<axum::BoxError> + Send + Unpin> + Send + Unpin,
    bound: BodyBound,
    timeout: Duration,
) -> Result<Bytes, Problem> {
    let first = poll_fn(|context| Poll::Ready(Pin::new(&mut body).poll_frame(context))).await;
    let frame = match first {
        Poll::Ready(None) => return Ok(Bytes::new()),
        Poll::Ready(frame) => frame,
        Poll::Pending => None,
    };
    // Most bodies are a single frame that has arrived with the head: nothing is collected, and no timer is started.
    match frame.map(|frame| frame.map(Frame::into_data)) {
        Some(Ok(Ok(data))) if body.is_end_stream() && data.len() <= bound.bytes => Ok(data),
        first => {
            let first = first
                .map(|frame| frame.map(|data| data.map_or_else(|trailers| trailers, Frame::data)));
            let body = ReplayedBody { frames: first.into_iter().collect(), rest: body };
            Box::pin(collect(body, bound, timeout)).await
        }
    }
}

async fn collect(
    body: impl Body<Data = Bytes, Error: Into<axum::BoxError>> + Send,
    bound: BodyBound,
    timeout: Duration,
) -> Result<Bytes, Problem> {
    let BodyBound { bytes, setting } = bound;
    match tokio::time::timeout(timeout, Limited::new(body, bytes).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("the body is larger than {bytes} bytes ({setting})"),
        )),
        Ok(Err(_)) => Err(Problem::bad_request("invalid_body", "the body ended before its time")),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            "the body did not arrive in time (limits.request_timeout)",
        )),
    }
}

/// Waits for `future`, up to a timeout. Most bodies have arrived with their headers, and then no timer
/// is started.
pub(crate) async fn within<T>(timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let at_once = poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await;
    match at_once {
        Some(value) => Some(value),
        None => tokio::time::timeout(timeout, future).await.ok(),
    }
}

/// Whether the content type is JSON. Browsers send that to another origin only after a CORS preflight,
/// so no web page can call the check API from its visitor's machine.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let value = value.as_bytes();
    if value == b"application/json" {
        return true;
    }
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let subtype = essence.to_ascii_lowercase();
    subtype == b"application/json"
        || (subtype.starts_with(b"application/") && subtype.ends_with(b"+json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Context;

    use axum::body::Body;

    #[test]
    fn json_is_recognised_by_the_content_type() {
        let check = |value: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().expect("a header value"));
            assert_eq!(is_json(&headers), expected, "{value}");
        };
        check("application/json", true);
        check("Application/JSON; charset=utf-8", true);
        check("application/problem+json", true);
        check("text/plain", false);
        check("text/json", false);
        check("application/x-www-form-urlencoded", false);
        check("", false);
        assert!(!is_json(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn bodies_are_bounded_in_size_and_time() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/json".parse().expect("a header value"));
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
        let bound = BodyBound::bodies(4);
        let read = |body: Body, timeout| read_json(&headers, body, bound, timeout);
        assert_eq!(read(Body::from("1234"), long).await.expect("it fits"), "1234");
        let status = |problem: Problem| problem.status().as_u16();
        assert_eq!(read(Body::from("12345"), long).await.map_err(status), Err(413));
        assert_eq!(read(Body::new(Never), short).await.map_err(status), Err(408));
    }

    /// A body that never arrives.
    struct Never;

    impl hyper::body::Body for Never {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }
}

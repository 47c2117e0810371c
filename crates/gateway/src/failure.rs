//! The failures between a client and an upstream, and their responses.
//!
//! A response names the kind of failure, and nothing about the upstreams: their names and addresses are in the log.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

/// Why a request was not forwarded, or its response not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardError {
    /// There is no route for this host and path.
    NoRoute,
    /// All upstreams failed within the last second, and another request is probing them.
    NoUpstream,
    /// No upstream could be connected to.
    Unreachable,
    /// No upstream could be connected to in time.
    ConnectTimeout,
    /// Too many requests wait for the upstream.
    Busy,
    /// The upstream closed the connection without a response, or the response was not HTTP.
    Broken,
    /// The upstream took too long to respond.
    ResponseTimeout,
    /// The upstream closed the connection in the middle of its response.
    BodyBroken,
    /// The upstream paused for too long in the middle of its response.
    BodyTimeout,
    /// The client has too many requests in progress at the upstream.
    ClientBusy,
    /// Too many connections are upgraded already.
    TooManyUpgrades,
    /// The client has too many upgraded connections already.
    TooManyClientUpgrades,
    /// The request has passed this gateway, or others like it, too often.
    Loop,
    /// The client took too long to send its body.
    ClientTimeout,
    /// The client disconnected before its body was complete.
    ClientGone,
    /// The request head is ambiguous, or requests something unsupported.
    Refused(HeadProblem),
}

/// What is wrong with the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadProblem {
    /// Two lengths of the body.
    AmbiguousLength,
    /// An unsupported transfer coding.
    TransferCoding,
    /// An invalid host, or two that differ.
    Host,
    /// A path with `.` or `..` in it, where the path decides the upstream.
    Path,
    /// `CONNECT`.
    Connect,
}

impl ForwardError {
    pub(crate) const ALL: [Self; 20] = [
        Self::NoRoute,
        Self::NoUpstream,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::Busy,
        Self::Broken,
        Self::ResponseTimeout,
        Self::BodyBroken,
        Self::BodyTimeout,
        Self::ClientBusy,
        Self::TooManyUpgrades,
        Self::TooManyClientUpgrades,
        Self::Loop,
        Self::ClientTimeout,
        Self::ClientGone,
        Self::Refused(HeadProblem::AmbiguousLength),
        Self::Refused(HeadProblem::TransferCoding),
        Self::Refused(HeadProblem::Host),
        Self::Refused(HeadProblem::Path),
        Self::Refused(HeadProblem::Connect),
    ];

    /// Its name, in metrics and responses. Names are stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().1
    }

    /// Status, name, and message.
    const fn words(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NoRoute => {
                (StatusCode::NOT_FOUND, "no_route", "nothing is served at this host and path")
            }
            Self::NoUpstream => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no_upstream",
                "the service cannot be reached at the moment; try again in a second",
            ),
            Self::Unreachable => {
                (StatusCode::BAD_GATEWAY, "upstream_unreachable", "the service cannot be reached")
            }
            Self::ConnectTimeout => (
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_connect_timeout",
                "the service could not be reached in time",
            ),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "upstream_busy",
                "too many requests wait for the service; try again in a second",
            ),
            Self::Broken => (
                StatusCode::BAD_GATEWAY,
                "upstream_broken",
                "the service gave no answer that could be passed on",
            ),
            Self::ResponseTimeout => (
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_timeout",
                "the service did not answer in time",
            ),
            Self::BodyBroken => (
                StatusCode::BAD_GATEWAY,
                "upstream_body_broken",
                "the service ended its answer too early",
            ),
            Self::BodyTimeout => (
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_body_timeout",
                "the service did not finish its answer in time",
            ),
            Self::ClientBusy => (
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_concurrent_requests",
                "this client has too many requests in progress; wait until some have finished",
            ),
            Self::TooManyUpgrades => (
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_upgrades",
                "too many connections are upgraded; try again in a second",
            ),
            Self::TooManyClientUpgrades => (
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_client_upgrades",
                "this client has too many upgraded connections; close some of them",
            ),
            Self::Loop => (
                StatusCode::LOOP_DETECTED,
                "loop_detected",
                "the request goes round in a circle: the service is this gateway itself",
            ),
            Self::ClientTimeout => (
                StatusCode::REQUEST_TIMEOUT,
                "request_timeout",
                "the body of the request did not arrive in time: it paused for too long, or was too slow",
            ),
            Self::ClientGone => (
                StatusCode::BAD_REQUEST,
                "request_incomplete",
                "the body of the request ended too early",
            ),
            Self::Refused(HeadProblem::AmbiguousLength) => (
                StatusCode::BAD_REQUEST,
                "ambiguous_length",
                "there is a Content-Length and a Transfer-Encoding: send one of them",
            ),
            Self::Refused(HeadProblem::TransferCoding) => (
                StatusCode::NOT_IMPLEMENTED,
                "unknown_transfer_coding",
                "the Transfer-Encoding is not understood: send chunked, and nothing else",
            ),
            Self::Refused(HeadProblem::Host) => (
                StatusCode::BAD_REQUEST,
                "ambiguous_host",
                "the host is no host, or there are two that differ: send one",
            ),
            Self::Refused(HeadProblem::Path) => (
                StatusCode::BAD_REQUEST,
                "ambiguous_path",
                "the path has . or .. in it: send it without them",
            ),
            Self::Refused(HeadProblem::Connect) => (
                StatusCode::NOT_IMPLEMENTED,
                "connect_not_supported",
                "this is no proxy to other places: CONNECT is not done here",
            ),
        }
    }

    /// The response to the client.
    pub(crate) fn response(self) -> Response<Bytes> {
        let (status, code, detail) = self.words();
        let body = json!({
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "code": code,
            "detail": detail,
        });
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = status;
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Bytes after a body of unclear length are not a request.
        if let Self::Refused(HeadProblem::AmbiguousLength | HeadProblem::TransferCoding) = self {
            fields.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            fields.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

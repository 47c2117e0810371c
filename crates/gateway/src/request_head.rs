//! Reads the head of a request, and writes it for an upstream.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderValue, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Method, Request, Version};
use http_body::Body;

use crate::failure::{ForwardError, HeadProblem};
use crate::fields::{self, has_token, strip_hop_by_hop, tokens};
use crate::url::UpstreamUrl;

/// The request head: its target, and what concerned the client's connection only.
#[derive(Debug)]
pub(crate) struct RequestHead {
    /// The host with its port, as the client wrote it.
    pub(crate) authority: Option<Authority>,
    target: PathAndQuery,
    /// The protocol that the client wants to upgrade to.
    pub(crate) upgrade: Option<HeaderValue>,
    takes_trailers: bool,
    /// The client sent a Content-Length.
    has_length: bool,
    /// The client waits for `100 Continue` before it sends its body.
    pub(crate) awaits_continue: bool,
}

impl RequestHead {
    /// Takes the hop-by-hop parts out of a head.
    pub(crate) fn take(parts: &mut Parts) -> Result<Self, ForwardError> {
        if parts.method == Method::CONNECT {
            return Err(ForwardError::Refused(HeadProblem::Connect));
        }
        check_framing(&parts.headers)?;
        let authority = authority_of(parts)?;
        let upgrade = wanted_upgrade(parts);
        let takes_trailers = has_token(&parts.headers, &TE, "trailers");
        let expects_continue = has_token(&parts.headers, &EXPECT, "100-continue");
        let awaits_continue = parts.version == Version::HTTP_11 && expects_continue;
        strip_hop_by_hop(&mut parts.headers);
        // The body itself knows its length.
        let has_length = parts.headers.remove(CONTENT_LENGTH).is_some();
        if expects_continue {
            parts.headers.remove(EXPECT);
        }
        fields::join_cookies(&mut parts.headers);
        let target = parts.uri.path_and_query().cloned();
        let target = target.unwrap_or(PathAndQuery::from_static("/"));
        Ok(Self { authority, target, upgrade, takes_trailers, has_length, awaits_continue })
    }

    /// The host without its port; empty if there is none.
    pub(crate) fn host(&self) -> &str {
        self.authority.as_ref().map_or("", Authority::host)
    }

    pub(crate) fn path(&self) -> &str {
        self.target.path()
    }

    /// Writes the head for an HTTP/1.1 connection to this host.
    pub(crate) fn address_http1<B: Body>(&self, request: &mut Request<B>, host: &Authority) {
        self.tell_length(request);
        *request.version_mut() = Version::HTTP_11;
        *request.uri_mut() = Uri::from(self.target.clone());
        let fields = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(host.as_str()) {
            fields.insert(HOST, host);
        }
        if let Some(protocol) = &self.upgrade {
            fields.insert(UPGRADE, protocol.clone());
            fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        } else if self.takes_trailers {
            fields.insert(TE, HeaderValue::from_static("trailers"));
            fields.insert(CONNECTION, HeaderValue::from_static("te"));
        }
        if self.awaits_continue {
            fields.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
    }

    /// Writes the head for an HTTP/2 connection to this host.
    pub(crate) fn address_http2<B>(
        &self,
        request: &mut Request<B>,
        scheme: Scheme,
        host: &Authority,
    ) {
        *request.version_mut() = Version::HTTP_2;
        let uri = Uri::builder().scheme(scheme).authority(host.clone());
        // Valid parts of a URI make a valid one together.
        if let Ok(uri) = uri.path_and_query(self.target.clone()).build() {
            *request.uri_mut() = uri;
        }
        let fields = request.headers_mut();
        // It may have been written for an HTTP/1.1 connection before.
        for name in [HOST, CONNECTION, UPGRADE, EXPECT, TRANSFER_ENCODING] {
            fields.remove(name);
        }
        if self.takes_trailers {
            fields.insert(TE, HeaderValue::from_static("trailers"));
        }
    }

    /// Adds a Content-Length where the client library would not: to an empty body, and to one of a method that seldom
    /// has any.
    fn tell_length<B: Body>(&self, request: &mut Request<B>) {
        const WITH_BODY: [Method; 3] = [Method::POST, Method::PUT, Method::PATCH];
        if request.body().is_end_stream() {
            if self.has_length || WITH_BODY.contains(request.method()) {
                request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
        } else if request.body().size_hint().exact().is_none() {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        }
    }

    /// The host that an upstream sees.
    pub(crate) fn host_for<'a>(
        &'a self,
        upstream: &'a UpstreamUrl,
        is_kept: bool,
    ) -> &'a Authority {
        self.authority.as_ref().filter(|_| is_kept).unwrap_or(upstream.authority())
    }
}

/// The length of a body must be unambiguous, or bytes after it may be taken for another request.
fn check_framing(fields: &HeaderMap) -> Result<(), ForwardError> {
    let mut codings = tokens(fields, &TRANSFER_ENCODING);
    let Some(coding) = codings.next() else { return Ok(()) };
    if !coding.eq_ignore_ascii_case(b"chunked") || codings.next().is_some() {
        return Err(ForwardError::Refused(HeadProblem::TransferCoding));
    }
    if fields.contains_key(CONTENT_LENGTH) {
        return Err(ForwardError::Refused(HeadProblem::AmbiguousLength));
    }
    Ok(())
}

/// The requested host. An absolute URL takes precedence over the field `Host`, as for every server; over HTTP/2 both
/// must agree.
fn authority_of(parts: &Parts) -> Result<Option<Authority>, ForwardError> {
    let unclear = ForwardError::Refused(HeadProblem::Host);
    let field = match parts.headers.get(HOST).map(HeaderValue::as_bytes) {
        None | Some(b"") => None,
        Some(host) => Some(Authority::try_from(host).map_err(|_| unclear)?),
    };
    let authority = match (parts.uri.authority(), field) {
        (Some(asked), Some(field)) if parts.version == Version::HTTP_2 && *asked != field => {
            return Err(unclear);
        }
        (Some(asked), _) => Some(asked.clone()),
        (None, field) => field,
    };
    let is_invalid = |host: &Authority| host.as_str().contains('@') || host.host().is_empty();
    if authority.as_ref().is_some_and(is_invalid) {
        return Err(unclear);
    }
    Ok(authority)
}

/// The protocol that the client wants to upgrade to, if it is one that can be passed on. A body could not be
/// distinguished from what follows it; and an upgrade to HTTP would carry requests that are not checked.
fn wanted_upgrade(parts: &Parts) -> Option<HeaderValue> {
    let fields = &parts.headers;
    if !fields.contains_key(UPGRADE) {
        return None;
    }
    let is_wanted = parts.version == Version::HTTP_11
        && has_token(fields, &CONNECTION, "upgrade")
        && !fields.contains_key(TRANSFER_ENCODING)
        && fields.get(CONTENT_LENGTH).is_none_or(|length| length == "0");
    let mut lines = fields.get_all(UPGRADE).iter();
    let protocol = lines.next().filter(|_| is_wanted && lines.next().is_none())?;
    let is_http = |token: &[u8]| {
        let name = token.split(|byte| *byte == b'/').next().unwrap_or_default().trim_ascii();
        ["h2c", "h2", "http", "tls"].iter().any(|http| name.eq_ignore_ascii_case(http.as_bytes()))
    };
    let is_other =
        !tokens(fields, &UPGRADE).any(is_http) && !protocol.as_bytes().trim_ascii().is_empty();
    is_other.then(|| protocol.clone())
}

/// Whether the method is idempotent.
pub(crate) fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::TRACE]
        .contains(method)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::{Empty, Full};

    use super::*;

    fn parts(
        version: Version,
        method: &str,
        uri: &str,
        lines: &[(&'static str, &'static str)],
    ) -> Parts {
        let mut request = Request::builder().version(version).method(method).uri(uri);
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn ask(uri: &str, lines: &[(&'static str, &'static str)]) -> Result<RequestHead, ForwardError> {
        RequestHead::take(&mut parts(Version::HTTP_11, "POST", uri, lines))
    }

    #[test]
    fn the_length_of_a_body_must_be_clear() {
        let check = |lines: &[(&'static str, &'static str)], expected: Option<HeadProblem>| {
            let failure = ask("/", lines).err();
            assert_eq!(failure, expected.map(ForwardError::Refused), "{lines:?}");
        };
        let te = "transfer-encoding";
        check(&[("content-length", "5")], None);
        check(&[(te, "chunked")], None);
        check(&[(te, " Chunked ")], None);
        check(&[(te, "chunked"), ("content-length", "5")], Some(HeadProblem::AmbiguousLength));
        for coding in
            ["xchunked", "gzip", "gzip, chunked", "chunked, chunked", "identity", "chunked;x"]
        {
            check(&[(te, coding)], Some(HeadProblem::TransferCoding));
        }
        check(&[(te, "chunked"), (te, "chunked")], Some(HeadProblem::TransferCoding));
    }

    #[test]
    fn the_host_must_be_clear() {
        let check = |version, uri: &str, host: &'static str, expected: Option<&str>| {
            let mut parts = parts(version, "GET", uri, &[("host", host)]);
            let asked = RequestHead::take(&mut parts).ok();
            assert_eq!(asked.as_ref().map(RequestHead::host), expected, "{uri} {host}");
        };
        check(Version::HTTP_11, "/", "a.example:81", Some("a.example"));
        check(Version::HTTP_11, "/", "", Some(""));
        check(Version::HTTP_11, "http://b.example/x", "a.example", Some("b.example"));
        check(Version::HTTP_2, "http://b.example/x", "b.example", Some("b.example"));
        check(Version::HTTP_2, "http://b.example/x", "a.example", None);
        for host in [":80", "a b", "a/b", "a@b", "a\\b", "a\"b", "a?b", "a#b", "http://a"] {
            check(Version::HTTP_11, "/", host, None);
        }
    }

    #[test]
    fn only_other_protocols_are_changed_to() {
        let check = |lines: &[(&'static str, &'static str)], expected: Option<&str>| {
            let asked = ask("/", lines).expect("a request");
            let upgrade = asked.upgrade.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!(upgrade, expected, "{lines:?}");
        };
        let wants = ("connection", "keep-alive, Upgrade");
        check(&[wants, ("upgrade", "websocket")], Some("websocket"));
        check(&[wants, ("upgrade", "foo/2, bar"), ("content-length", "0")], Some("foo/2, bar"));
        check(&[("upgrade", "websocket")], None);
        check(&[wants], None);
        check(&[wants, ("upgrade", "")], None);
        check(&[wants, ("upgrade", "websocket"), ("upgrade", "h2c")], None);
        check(&[wants, ("upgrade", "websocket"), ("content-length", "3")], None);
        check(&[wants, ("upgrade", "websocket"), ("transfer-encoding", "chunked")], None);
        for http in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.3", "h2c/1"] {
            check(&[wants, ("upgrade", http)], None);
        }
    }

    #[test]
    fn the_head_for_an_upstream_has_no_hop_by_hop_fields() {
        let authority: Authority = "a.example:81".parse().expect("a host");
        let lines = [
            ("te", "gzip, trailers"),
            ("connection", "te, x-hop"),
            ("x-hop", "1"),
            ("host", "a.example:81"),
            ("expect", "100-continue"),
        ];
        let mut parts = parts(Version::HTTP_11, "GET", "http://a.example:81/x?y", &lines);
        let asked = RequestHead::take(&mut parts).expect("a request");
        let mut request = Request::from_parts(parts, Empty::<Bytes>::new());
        asked.address_http1(&mut request, &authority);
        assert_eq!(request.uri(), "/x?y");
        assert_eq!(request.headers()["host"], "a.example:81");
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers()["connection"], "te");
        assert_eq!(request.headers()["expect"], "100-continue");
        assert!(!request.headers().contains_key("x-hop"));
        asked.address_http2(&mut request, Scheme::HTTPS, &authority);
        assert_eq!(request.uri(), "https://a.example:81/x?y");
        assert_eq!(request.headers().iter().count(), 1, "{request:?}");
        assert_eq!(request.headers()["te"], "trailers");
    }

    /// A body of unknown length.
    struct Endless;

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    fn told_length<B: Body>(method: &str, length: Option<&'static str>, body: B) -> String {
        let lines: Vec<_> = length.map(|length| ("content-length", length)).into_iter().collect();
        let mut parts = parts(Version::HTTP_11, method, "/", &lines);
        let asked = RequestHead::take(&mut parts).expect("a request");
        let authority: Authority = "a".parse().expect("a host");
        let mut request = Request::from_parts(parts, body);
        asked.address_http1(&mut request, &authority);
        let told = format!(
            "{:?} {:?}",
            request.headers().get(CONTENT_LENGTH),
            request.headers().get(TRANSFER_ENCODING)
        );
        asked.address_http2(&mut request, Scheme::HTTP, &authority);
        assert!(!request.headers().contains_key(TRANSFER_ENCODING), "{method}");
        told
    }

    #[test]
    fn a_content_length_is_added_where_the_library_adds_none() {
        let nothing = || Empty::<Bytes>::new();
        for method in ["POST", "PUT", "PATCH"] {
            assert_eq!(told_length(method, None, nothing()), "Some(\"0\") None", "{method}");
        }
        for method in ["GET", "HEAD", "DELETE"] {
            assert_eq!(told_length(method, None, nothing()), "None None", "{method}");
            assert_eq!(told_length(method, Some("0"), nothing()), "Some(\"0\") None", "{method}");
        }
        for method in ["GET", "HEAD", "POST"] {
            assert_eq!(told_length(method, None, Endless), "None Some(\"chunked\")", "{method}");
            // The body knows its length.
            let known = Full::new(Bytes::from_static(b"abc"));
            assert_eq!(told_length(method, Some("3"), known), "None None", "{method}");
        }
    }
}

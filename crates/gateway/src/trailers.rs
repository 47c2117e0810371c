//! Filters trailers, so that they do not bypass what is removed from heads.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, COOKIE, HOST,
    HeaderMap, HeaderName, TRAILER,
};
use http_body::Frame;

use crate::fields::strip_hop_by_hop;
use crate::guard::{FieldGuard, is_same_variable};

/// Fields that are valid in a head only: routing, authentication and framing.
const ONLY_IN_HEADS: [HeaderName; 8] = [
    AUTHORIZATION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    COOKIE,
    HOST,
    TRAILER,
];

/// The part of a frame that is forwarded: all of it, if it is data. Request bodies have a guard.
pub(crate) fn passed_on(piece: Frame<Bytes>, guard: Option<&FieldGuard>) -> Option<Frame<Bytes>> {
    if piece.is_data() {
        return Some(piece);
    }
    let mut trailers = piece.into_trailers().ok()?;
    strip(&mut trailers, guard.unwrap_or(&FieldGuard::default()));
    (!trailers.is_empty()).then(|| Frame::trailers(trailers))
}

fn strip(trailers: &mut HeaderMap, guard: &FieldGuard) {
    strip_hop_by_hop(trailers);
    guard.strip_trailers(trailers);
    let is_misplaced =
        |name: &&HeaderName| ONLY_IN_HEADS.iter().any(|own| is_same_variable(own, name));
    let misplaced: Vec<HeaderName> = trailers.keys().filter(is_misplaced).cloned().collect();
    for name in misplaced {
        trailers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn trailers_are_filtered() {
        let check = |names: &[&'static str], expected: &[&str]| {
            let mut trailers = HeaderMap::new();
            for name in names {
                trailers.append(*name, HeaderValue::from_static("x-named"));
            }
            let left = passed_on(Frame::trailers(trailers), None);
            let left = left.and_then(|piece| piece.into_trailers().ok()).unwrap_or_default();
            let left: Vec<&str> = left.keys().map(HeaderName::as_str).collect();
            assert_eq!(left, expected, "{names:?}");
        };
        check(&[], &[]);
        check(&["grpc-status", "grpc-message", "x-sum"], &["grpc-status", "grpc-message", "x-sum"]);
        check(&["connection", "x-named", "keep-alive", "te", "transfer-encoding"], &[]);
        check(&["host", "content-length", "authorization", "cookie", "trailer", "etag"], &["etag"]);
        check(&["content_length", "content_type"], &[]);
        check(&["forwarded", "x-real-ip", "x-forwarded-for", "x_forwarded_host", "x_real-ip"], &[]);
    }
}

//! Reads the head of a call: whether it is gRPC, and its deadline.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version, header};
use tonic::Status;
use tonic::body::Body;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Refuses requests that are not gRPC, with a plain HTTP response.
///
/// Browsers send plain text over HTTP/1.1 without a CORS preflight: without this, any web page could
/// call the check API from its visitor's machine.
pub(super) fn refuse_foreign<B>(request: &Request<B>) -> Option<Response<Body>> {
    if request.version() != Version::HTTP_2 {
        let detail = "this port speaks gRPC, which needs HTTP/2; the HTTP API has another port\n";
        return Some(refusal(StatusCode::HTTP_VERSION_NOT_SUPPORTED, detail));
    }
    if !is_grpc(request.headers()) {
        let detail = "this port speaks gRPC: the content-type has to be application/grpc\n";
        return Some(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    None
}

fn refusal(status: StatusCode, detail: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::new(detail.to_owned()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// Whether the content type says that messages are protocol buffers.
fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii();
    essence.eq_ignore_ascii_case(b"application/grpc")
        || essence.eq_ignore_ascii_case(b"application/grpc+proto")
}

/// How long a caller waits: up to eight digits and a unit, as in `250m`.
pub(super) fn deadline(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get(GRPC_TIMEOUT) else { return Ok(None) };
    let deadline = read_deadline(value);
    deadline.map(Some).ok_or_else(|| {
        Status::invalid_argument("grpc-timeout: write up to 8 digits and a unit, as in 250m")
    })
}

fn read_deadline(value: &HeaderValue) -> Option<Duration> {
    let (unit, digits) = value.as_bytes().split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 60 * 60),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines() {
        let check = |text: &'static str, expected: Option<Duration>| {
            assert_eq!(read_deadline(&HeaderValue::from_static(text)), expected, "{text}");
        };
        check("1H", Some(Duration::from_secs(3_600)));
        check("2M", Some(Duration::from_secs(120)));
        check("3S", Some(Duration::from_secs(3)));
        check("20m", Some(Duration::from_millis(20)));
        check("99999999u", Some(Duration::from_micros(99_999_999)));
        check("5n", Some(Duration::from_nanos(5)));
        for wrong in ["", "m", "5", "-5m", "5x", "123456789m", "5 m", "0x1S"] {
            check(wrong, None);
        }
    }

    #[test]
    fn messages_are_protocol_buffers() {
        let check = |text: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(text));
            assert_eq!(is_grpc(&headers), expected, "{text}");
        };
        check("application/grpc", true);
        check("application/grpc+proto", true);
        check("Application/gRPC; charset=utf-8", true);
        for wrong in ["", "text/plain", "application/json", "application/grpc+json"] {
            check(wrong, false);
        }
        check("application/grpc-web", false);
        assert!(!is_grpc(&HeaderMap::new()));
    }
}

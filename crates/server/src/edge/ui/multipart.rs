//! Forms with a file, as browsers send them: `multipart/form-data` (RFC 7578), within one buffer of bounded size.

use axum::body::Body;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use memchr::memmem;
use tokio::time::timeout;

use crate::app::state::Shared;
use crate::edge::http::problem::Problem;
use crate::settings::ByteSize;

/// The most parts of a form.
const MAX_PARTS: usize = 32;
/// The most bytes of the header fields of a part.
const MAX_HEAD: usize = 4 << 10;
/// The longest boundary (RFC 2046).
const MAX_BOUNDARY: usize = 70;

/// One part of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FormPart<'b> {
    pub(super) name: &'b str,
    /// As the browser escapes it.
    pub(super) file_name: Option<&'b str>,
    pub(super) content: &'b [u8],
}

impl<'b> FormPart<'b> {
    /// The content of a part that is text.
    pub(super) fn text(&self) -> Result<&'b str, Problem> {
        let is_text = str::from_utf8(self.content).ok().filter(|text| !text.contains('\0'));
        is_text.ok_or_else(|| invalid(format!("the field `{}` is not text", self.name)))
    }
}

/// The text between parts, by the content type of a form.
pub(super) fn boundary(headers: &HeaderMap) -> Result<String, Problem> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mut parameters = content_type.unwrap_or_default().split(';').map(str::trim);
    let is_form =
        parameters.next().is_some_and(|it| it.eq_ignore_ascii_case("multipart/form-data"));
    let named = |it: &str| {
        let (name, value) = it.split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then(|| value.trim_matches('"').to_owned())
    };
    let boundary = parameters.find_map(named).filter(|it| (1..=MAX_BOUNDARY).contains(&it.len()));
    boundary.filter(|_| is_form).ok_or_else(|| {
        let detail = "send the form as multipart/form-data, as browsers do";
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_a_form", detail)
    })
}

/// Reads a body into one buffer, within the time of a request.
pub(super) async fn read(
    app: &Shared,
    headers: &HeaderMap,
    mut body: Body,
    max_bytes: usize,
) -> Result<Vec<u8>, Problem> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length: Option<usize> = length.and_then(|length| length.parse().ok());
    if length.is_some_and(|length| length > max_bytes) {
        return Err(too_large(app));
    }
    let reading = async {
        let mut read = Vec::with_capacity(length.unwrap_or(0));
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|_| Problem::bad_request("invalid_body", "the body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            if read.len() + data.len() > max_bytes {
                return Err(too_large(app));
            }
            read.extend_from_slice(&data);
        }
        Ok(read)
    };
    timeout(app.request_timeout, reading).await.unwrap_or_else(|_| {
        let detail = "the log did not arrive in time (limits.request_timeout): compress it with gzip, or send a part of it";
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", detail))
    })
}

/// The problem of a log that is too large.
pub(super) fn too_large(app: &Shared) -> Problem {
    let max = ByteSize::new(app.log_bytes as u64);
    let detail = format!(
        "the log is larger than {max} (limits.log_bytes): compress it with gzip, send a part of it, or replay it with \
         `tollgate simulate`"
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

/// The parts of a form, in their order.
pub(super) fn parts<'b>(body: &'b [u8], boundary: &str) -> Result<Vec<FormPart<'b>>, Problem> {
    let delimiter = format!("\r\n--{boundary}");
    let first = delimiter.trim_start();
    let mut rest = body
        .strip_prefix(first.as_bytes())
        .ok_or_else(|| invalid("it does not begin with its boundary"))?;
    let finder = memmem::Finder::new(delimiter.as_bytes());
    let mut parts = Vec::new();
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let end = finder.find(part).ok_or_else(|| invalid("it ends before its last boundary"))?;
        let (part, after) = part.split_at(end);
        parts.push(part_of(part)?);
        if parts.len() > MAX_PARTS {
            return Err(invalid(format!("it has more than {MAX_PARTS} fields")));
        }
        rest = after.get(delimiter.len()..).unwrap_or_default();
    }
    if rest.starts_with(b"--") {
        Ok(parts)
    } else {
        Err(invalid("it ends before its last boundary"))
    }
}

fn part_of(part: &[u8]) -> Result<FormPart<'_>, Problem> {
    let head_end = memmem::find(part.get(..MAX_HEAD).unwrap_or(part), b"\r\n\r\n");
    let head_end = head_end.ok_or_else(|| invalid("a field has no header fields"))?;
    let (head, content) = part.split_at(head_end);
    let head = str::from_utf8(head).map_err(|_| invalid("a name is not UTF-8"))?;
    let disposition = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let disposition = disposition.ok_or_else(|| invalid("a field has no name"))?;
    let name = parameter(disposition, "name").ok_or_else(|| invalid("a field has no name"))?;
    let file_name = parameter(disposition, "filename");
    Ok(FormPart { name, file_name, content: content.get(4..).unwrap_or_default() })
}

/// A parameter in quotes. Browsers write a quote within it as `%22`.
fn parameter<'h>(disposition: &'h str, name: &str) -> Option<&'h str> {
    let mut rest = disposition;
    while let Some((before, after)) = rest.split_once("=\"") {
        let (value, next) = after.split_once('"')?;
        if before.rsplit(|c: char| c == ';' || c.is_whitespace()).next() == Some(name) {
            return Some(value);
        }
        rest = next;
    }
    None
}

fn invalid(what: impl AsRef<str>) -> Problem {
    let detail = format!("the form cannot be read: {}", what.as_ref());
    Problem::bad_request("invalid_form", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "--b\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nxyz\r\n--b\r\n\
        content-disposition: form-data; name=\"log\"; filename=\"a; name=%22x%22.log\"\r\n\
        Content-Type: text/plain\r\n\r\nx--b is no boundary\r\n\r\n-\r\n--b--\r\n";

    fn found(body: &[u8]) -> Result<Vec<FormPart<'_>>, String> {
        parts(body, "b").map_err(|problem| problem.detail().to_owned())
    }

    #[test]
    fn parts_are_read_as_browsers_write_them() {
        let found = found(BODY.as_bytes()).expect("a form");
        let [csrf, log] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((csrf.name, csrf.file_name, csrf.text().expect("text")), ("csrf", None, "xyz"));
        assert_eq!((log.name, log.file_name), ("log", Some("a; name=%22x%22.log")));
        assert_eq!(log.content, b"x--b is no boundary\r\n\r\n-");
        assert_eq!(parts(b"--b--\r\n", "b").expect("an empty form"), []);
    }

    #[test]
    fn forms_that_are_cut_or_damaged_are_refused() {
        for end in 0..BODY.len() - 4 {
            assert!(found(&BODY.as_bytes()[..end]).is_err(), "{end}");
        }
        assert!(found(b"").is_err());
        assert!(found(b"--b\r\n\r\n\r\nx\r\n--b--").is_err(), "a field without a name");
        let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n";
        let many = format!("{}--b--", part.repeat(MAX_PARTS + 1));
        assert!(found(many.as_bytes()).is_err());
        assert!(found(format!("{}--b--", part.repeat(MAX_PARTS)).as_bytes()).is_ok());
        let long = format!(
            "--b\r\nContent-Disposition: {}name=\"a\"\r\n\r\n\r\n--b--",
            " ".repeat(MAX_HEAD)
        );
        assert!(found(long.as_bytes()).is_err());
    }

    #[test]
    fn the_boundary_is_in_the_content_type() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().expect("a header value"));
            boundary(&headers).ok()
        };
        assert_eq!(of("multipart/form-data; boundary=----WebKit7").as_deref(), Some("----WebKit7"));
        assert_eq!(
            of("Multipart/Form-Data;charset=utf-8;boundary=\"x y\"").as_deref(),
            Some("x y")
        );
        assert_eq!(of("multipart/form-data"), None);
        assert_eq!(of("multipart/form-data; boundary="), None);
        assert_eq!(of("text/plain; boundary=x"), None);
    }
}

//! Forms as browsers send them, in bounded size and time.

use axum::body::Body;
use http::{HeaderMap, StatusCode, header};

use crate::app::state::Shared;
use crate::edge::http::extract::{BodyBound, read_body};
use crate::edge::http::problem::Problem;

/// The hidden field that shows a form to be of a session.
pub(super) const TOKEN_FIELD: &str = "csrf";
/// The most fields of a form or a query.
const MAX_FIELDS: usize = 1_000;
const FORM: &str = "application/x-www-form-urlencoded";

/// The fields of a form, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// The value of a field; empty ones count too.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field without spaces around it, if there is more than that.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.one(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The value of a field that the form has to have.
    pub(super) fn required(&self, name: &str) -> Result<&str, Problem> {
        self.text(name).ok_or_else(|| {
            Problem::unprocessable("missing_field", format!("fill in the field `{name}`"))
        })
    }

    /// All fields, in their order.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The values of a field that may occur several times.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a form of a person who is signed in.
pub(super) async fn read(app: &Shared, headers: &HeaderMap, body: Body) -> Result<Form, Problem> {
    read_within(app.body_bytes, app, headers, body).await
}

/// Reads a form of that many bytes at most.
pub(super) async fn read_within(
    max_bytes: usize,
    app: &Shared,
    headers: &HeaderMap,
    body: Body,
) -> Result<Form, Problem> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    if !essence.trim().eq_ignore_ascii_case(FORM) {
        let detail = format!("send the form as {FORM}, as browsers do");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_a_form", detail));
    }
    let bound = BodyBound::bodies(max_bytes.min(app.body_bytes));
    let body = read_body(body, bound, app.request_timeout).await?;
    pairs(&body).map(Form)
}

/// The names and values of a form or a query. Line ends are those of Unix, whatever the browser sends.
pub(super) fn pairs(text: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let pairs: Vec<(String, String)> = form_urlencoded::parse(text)
        .take(MAX_FIELDS + 1)
        .map(|(name, value)| (name.into_owned(), value.replace("\r\n", "\n")))
        .collect();
    if pairs.len() > MAX_FIELDS {
        let detail = format!("there are more than {MAX_FIELDS} fields");
        return Err(Problem::bad_request("invalid_form", detail));
    }
    if let Some((name, _)) = pairs.iter().find(|(_, value)| value.contains('\0')) {
        let name: String = name.chars().take(50).collect();
        let detail = format!("`{name}` contains a NUL byte, which no name has: remove it");
        return Err(Problem::bad_request("invalid_form", detail));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_browsers_write_them() {
        let form = Form(pairs(b"a=1&a=2&b=+x%0D%0Ay+&c=&%E2%82%AC=%3C").expect("a form"));
        assert_eq!(form.one("a"), Some("1"));
        assert_eq!(form.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(form.one("b"), Some(" x\ny "));
        assert_eq!(form.text("b"), Some("x\ny"));
        assert_eq!((form.one("c"), form.text("c")), (Some(""), None));
        assert_eq!(form.one("\u{20ac}"), Some("<"));
        assert_eq!(form.required("c").expect_err("empty").code(), "missing_field");
    }

    #[test]
    fn forms_are_bounded() {
        let fields = |count: usize| "a=1&".repeat(count);
        assert!(pairs(fields(MAX_FIELDS).as_bytes()).is_ok());
        assert!(pairs(fields(MAX_FIELDS + 1).as_bytes()).is_err());
        assert!(pairs(b"a=%00").is_err());
    }
}

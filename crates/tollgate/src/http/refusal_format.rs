//! The status and body of a refusal, where a service has its own: a template with the figures of the decision.
//!
//! Only refusals by a limit or a ban use it. A client on a block list gets 403 and an unavailable store 503, with a
//! problem document: a text about limits would be wrong there.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ::http::{HeaderValue, StatusCode};
use serde::de::IgnoredAny;

use super::figures::{remaining, reset_at, retry_after};
use super::refusal::{PROBLEM_JSON, code_of, message_of, problem_body, refused_by};
use crate::decision::{Decision, Refusal};

/// The largest template, in bytes. It is sent with every refusal.
const MAX_TEMPLATE_BYTES: usize = 16 * 1024;
/// The body that many clients of older limiters expect.
const FLAT: &str = r#"{"error":"Rate limit exceeded","retry_after":{retry_after}}"#;

/// How a refusal by a limit or a ban looks: by default 429 with a problem document.
#[derive(Clone, Debug, Default)]
pub struct RefusalFormat {
    status: Option<StatusCode>,
    template: Option<Arc<RefusalTemplate>>,
}

impl RefusalFormat {
    /// Sets another status than 429.
    #[must_use]
    pub fn status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Sets another body than a problem document.
    #[must_use]
    pub fn body(self, template: RefusalTemplate) -> Self {
        Self { template: Some(Arc::new(template)), ..self }
    }

    /// Appends the body of a refusal to `out`; returns its status and content type.
    pub fn write(
        &self,
        decision: &Decision,
        decision_id: &str,
        out: &mut Vec<u8>,
    ) -> (StatusCode, HeaderValue) {
        let is_formatted =
            matches!(decision.refusal(), Some(Refusal::RateLimited | Refusal::Banned));
        let status = self.status.filter(|_| is_formatted);
        match self.template.as_ref().filter(|_| is_formatted) {
            Some(template) => {
                let status = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
                template.write(&|figure| figure.of(decision, decision_id, status), out);
                (status, template.content_type.clone())
            }
            None => {
                let status = problem_body(decision, decision_id, status, out);
                (status, HeaderValue::from_static(PROBLEM_JSON))
            }
        }
    }
}

/// A body with places for figures, as in `retry in {retry_after} s`. Braces around anything else are kept.
///
/// | place | figure |
/// |---|---|
/// | `{rule_id}` | the rule that refused |
/// | `{limit}`, `{remaining}`, `{reset_at}` | its figures, as in the header fields; absent after a ban |
/// | `{retry_after}` | seconds to wait; absent for never |
/// | `{decision_id}` | the id of the decision |
/// | `{status}`, `{code}`, `{message}` | the status, and what the problem document would say |
///
/// Values are escaped for the content type: JSON (within and outside of strings; absent is `null`), XML and HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalTemplate {
    parts: Vec<TemplatePart>,
    content_type: HeaderValue,
    escaping: Escaping,
}

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTemplate(String);

impl fmt::Display for InvalidTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidTemplate {}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Figure { figure: Figure, in_string: bool },
}

/// How values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escaping {
    Json,
    Markup,
    None,
}

/// What a place is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    RuleId,
    Limit,
    Remaining,
    ResetAt,
    RetryAfter,
    DecisionId,
    Status,
    Code,
    Message,
}

const FIGURES: [(&str, Figure); 9] = [
    ("rule_id", Figure::RuleId),
    ("limit", Figure::Limit),
    ("remaining", Figure::Remaining),
    ("reset_at", Figure::ResetAt),
    ("retry_after", Figure::RetryAfter),
    ("decision_id", Figure::DecisionId),
    ("status", Figure::Status),
    ("code", Figure::Code),
    ("message", Figure::Message),
];

/// The value of a figure.
enum FigureValue<'a> {
    Absent,
    Number(u64),
    Text(Cow<'a, str>),
}

impl Figure {
    fn of<'a>(self, decision: &'a Decision, id: &'a str, status: StatusCode) -> FigureValue<'a> {
        let number = |number: Option<u64>| number.map_or(FigureValue::Absent, FigureValue::Number);
        let binding = decision.binding();
        match self {
            Self::RuleId => match refused_by(decision) {
                Some(rule) => FigureValue::Text(Cow::Borrowed(&rule.id)),
                None => FigureValue::Absent,
            },
            Self::Limit => number(binding.map(|binding| binding.outcome.limit)),
            Self::Remaining => number(binding.map(|binding| remaining(&binding.outcome))),
            Self::ResetAt => number(
                binding.map(|binding| reset_at(decision.now(), binding.limit(), &binding.outcome)),
            ),
            Self::RetryAfter => number(retry_after(decision)),
            Self::DecisionId => FigureValue::Text(Cow::Borrowed(id)),
            Self::Status => FigureValue::Number(u64::from(status.as_u16())),
            Self::Code => FigureValue::Text(Cow::Borrowed(code_of(decision))),
            Self::Message => FigureValue::Text(Cow::Owned(message_of(decision))),
        }
    }
}

impl RefusalTemplate {
    /// The flat body of many older limiters: `{"error":"Rate limit exceeded","retry_after":60}`.
    #[must_use]
    pub fn flat() -> Self {
        let content_type = HeaderValue::from_static("application/json");
        let escaping = Escaping::Json;
        Self { parts: parts(FLAT, escaping).unwrap_or_default(), content_type, escaping }
    }

    /// Reads a template.
    ///
    /// # Errors
    /// It is too large, names an unknown figure, or is no JSON although the content type says so.
    pub fn parse(text: &str, content_type: &str) -> Result<Self, InvalidTemplate> {
        if text.len() > MAX_TEMPLATE_BYTES {
            let (size, most) = (text.len(), MAX_TEMPLATE_BYTES);
            return Err(InvalidTemplate(format!("it has {size} bytes; {most} are allowed")));
        }
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        let content_type = HeaderValue::from_str(content_type).ok();
        let (Some(content_type), Some((_, subtype))) = (content_type, essence.split_once('/'))
        else {
            let advice = "write a content type like text/plain or application/json";
            return Err(InvalidTemplate(format!("`{essence}` is not a content type; {advice}")));
        };
        let escaping = match subtype {
            "json" => Escaping::Json,
            "html" | "xml" => Escaping::Markup,
            other if other.ends_with("+json") => Escaping::Json,
            other if other.ends_with("+xml") => Escaping::Markup,
            _ => Escaping::None,
        };
        let template = Self { parts: parts(text, escaping)?, content_type, escaping };
        if escaping == Escaping::Json {
            template.check_json()?;
        }
        Ok(template)
    }

    /// Fills in numbers, texts and nothing, and reads the results.
    fn check_json(&self) -> Result<(), InvalidTemplate> {
        for is_present in [true, false] {
            let mut body = Vec::new();
            let value = |figure: Figure| match figure {
                _ if !is_present => FigureValue::Absent,
                Figure::RuleId | Figure::DecisionId | Figure::Code | Figure::Message => {
                    FigureValue::Text(Cow::Borrowed("\"quoted\""))
                }
                _ => FigureValue::Number(1),
            };
            self.write(&value, &mut body);
            if let Err(error) = serde_json::from_slice::<IgnoredAny>(&body) {
                let advice = "correct it, or set another content type, like text/plain";
                let message = format!("filled in, it is no JSON: {error}; {advice}");
                return Err(InvalidTemplate(message));
            }
        }
        Ok(())
    }

    fn write<'a>(&self, value: &impl Fn(Figure) -> FigureValue<'a>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Figure { figure, in_string } => {
                    self.write_value(&value(*figure), *in_string, out);
                }
            }
        }
    }

    fn write_value(&self, value: &FigureValue<'_>, in_string: bool, out: &mut Vec<u8>) {
        match (value, self.escaping) {
            (FigureValue::Absent, Escaping::Json) if !in_string => out.extend_from_slice(b"null"),
            (FigureValue::Absent, _) => {}
            (FigureValue::Number(number), _) => {
                out.extend_from_slice(number.to_string().as_bytes());
            }
            (FigureValue::Text(text), Escaping::Json) => {
                // A text always serialises.
                let quoted = serde_json::to_string(text).unwrap_or_default();
                let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
                out.extend_from_slice(if in_string { inner } else { &quoted }.as_bytes());
            }
            (FigureValue::Text(text), Escaping::Markup) => {
                for letter in text.chars() {
                    match letter {
                        '&' => out.extend_from_slice(b"&amp;"),
                        '<' => out.extend_from_slice(b"&lt;"),
                        '>' => out.extend_from_slice(b"&gt;"),
                        '"' => out.extend_from_slice(b"&quot;"),
                        '\'' => out.extend_from_slice(b"&#39;"),
                        other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
                    }
                }
            }
            (FigureValue::Text(text), Escaping::None) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

/// Splits a template at its places. A place is a name in braces; other braces, as of JSON, are text.
fn parts(text: &str, escaping: Escaping) -> Result<Vec<TemplatePart>, InvalidTemplate> {
    let mut parts = Vec::new();
    let (mut rest, mut start) = (text, 0);
    let mut in_string = false;
    while let Some(brace) = rest[start..].find('{').map(|at| start + at) {
        let inside = &rest[brace + 1..];
        let is_letter = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
        let length = inside.bytes().take_while(is_letter).count();
        if length == 0 || inside.as_bytes().get(length) != Some(&b'}') {
            start = brace + 1;
            continue;
        }
        let name = &inside[..length];
        let Some((_, figure)) = FIGURES.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
            let known = names.join("}, {");
            return Err(InvalidTemplate(format!("there is no {{{name}}}; there are {{{known}}}")));
        };
        let before = &rest[..brace];
        in_string = escaping == Escaping::Json && ends_in_string(before, in_string);
        parts.push(TemplatePart::Text(before.to_owned()));
        parts.push(TemplatePart::Figure { figure: *figure, in_string });
        (rest, start) = (&inside[length + 1..], 0);
    }
    parts.push(TemplatePart::Text(rest.to_owned()));
    Ok(parts)
}

/// Whether JSON is within a string after `text`, if it was or was not before.
fn ends_in_string(text: &str, was_in_string: bool) -> bool {
    let (mut in_string, mut is_escaped) = (was_in_string, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    in_string
}

//! The status and body of a refusal, where a service has its own: a template with the figures of the decision.
//!
//! Templates are read here, so that an invalid one in a rule is a problem of its document. They are filled in where
//! the decision is known.

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;

/// The largest template, in bytes. It is sent with every refusal.
const MAX_TEMPLATE_BYTES: usize = 16 * 1024;
/// The longest content type, in bytes.
const MAX_CONTENT_TYPE_BYTES: usize = 200;
/// The content type of a template that does not set one.
const DEFAULT_CONTENT_TYPE: &str = "application/json";
/// The body that many clients of older limiters expect.
const FLAT: &str = r#"{"error":"Rate limit exceeded","retry_after":{retry_after}}"#;

/// How a rule refuses; what is absent is as for other rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRefusal {
    /// The status.
    pub status: Option<u16>,
    /// The body.
    pub body: Option<RefusalBody>,
}

/// The body of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalBody {
    /// A problem document (RFC 9457).
    Problem,
    /// A text with figures.
    Template(RefusalTemplate),
}

impl RefusalBody {
    /// Reads `problem`, `flat` or a template, which is JSON unless its content type says otherwise.
    ///
    /// # Errors
    /// The template is invalid, or there is a content type for a body that has its own.
    pub fn parse(body: &str, content_type: Option<&str>) -> Result<Self, InvalidRefusal> {
        let named = match body {
            "problem" => Self::Problem,
            "flat" => Self::Template(RefusalTemplate::flat()),
            text => {
                let content_type = content_type.unwrap_or(DEFAULT_CONTENT_TYPE);
                let template = RefusalTemplate::parse(text, content_type);
                return template.map(Self::Template).map_err(InvalidRefusal::Body);
            }
        };
        if content_type.is_some() { Err(InvalidRefusal::ContentType) } else { Ok(named) }
    }
}

/// What is wrong with the body of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidRefusal {
    /// The template.
    Body(InvalidTemplate),
    /// There is a content type although the body has its own.
    ContentType,
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
    content_type: String,
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
    Figure { figure: TemplateFigure, in_string: bool },
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
pub enum TemplateFigure {
    /// The rule that refused.
    RuleId,
    /// The most that can be in use.
    Limit,
    /// What is left.
    Remaining,
    /// When the limit resets, in seconds since 1970.
    ResetAt,
    /// Seconds to wait.
    RetryAfter,
    /// The id of the decision.
    DecisionId,
    /// The status of the response.
    Status,
    /// The code of the problem document.
    Code,
    /// The refusal in a sentence.
    Message,
}

const FIGURES: [(&str, TemplateFigure); 9] = [
    ("rule_id", TemplateFigure::RuleId),
    ("limit", TemplateFigure::Limit),
    ("remaining", TemplateFigure::Remaining),
    ("reset_at", TemplateFigure::ResetAt),
    ("retry_after", TemplateFigure::RetryAfter),
    ("decision_id", TemplateFigure::DecisionId),
    ("status", TemplateFigure::Status),
    ("code", TemplateFigure::Code),
    ("message", TemplateFigure::Message),
];

/// The value of a figure.
#[derive(Clone, Debug)]
pub enum FigureValue<'a> {
    /// There is none.
    Absent,
    /// A number.
    Number(u64),
    /// A text, which is escaped for the content type.
    Text(Cow<'a, str>),
}

impl RefusalTemplate {
    /// The flat body of many older limiters: `{"error":"Rate limit exceeded","retry_after":60}`.
    #[must_use]
    pub fn flat() -> Self {
        let escaping = Escaping::Json;
        let parts = parts(FLAT, escaping).unwrap_or_default();
        Self { parts, content_type: DEFAULT_CONTENT_TYPE.to_owned(), escaping }
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
        let is_field = content_type.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        let subtype = essence.split_once('/').map(|(_, subtype)| subtype);
        let (Some(subtype), true) = (
            subtype.filter(|subtype| !subtype.is_empty()),
            is_field && content_type.len() <= MAX_CONTENT_TYPE_BYTES,
        ) else {
            let shown: String = essence.chars().take(MAX_CONTENT_TYPE_BYTES).collect();
            let advice = "write a content type like text/plain or application/json";
            return Err(InvalidTemplate(format!("`{shown}` is not a content type; {advice}")));
        };
        let escaping = match subtype {
            "json" => Escaping::Json,
            "html" | "xml" => Escaping::Markup,
            other if other.ends_with("+json") => Escaping::Json,
            other if other.ends_with("+xml") => Escaping::Markup,
            _ => Escaping::None,
        };
        let content_type = content_type.to_owned();
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
            let value = |figure: TemplateFigure| match figure {
                _ if !is_present => FigureValue::Absent,
                TemplateFigure::RuleId
                | TemplateFigure::DecisionId
                | TemplateFigure::Code
                | TemplateFigure::Message => FigureValue::Text(Cow::Borrowed("\"quoted\"")),
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

    /// The content type, which fits into a header field.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// Appends the text to `out`, filled in with the value of each figure.
    pub fn write<'a>(&self, value: &impl Fn(TemplateFigure) -> FigureValue<'a>, out: &mut Vec<u8>) {
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

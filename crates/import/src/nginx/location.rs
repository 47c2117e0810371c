//! What a `location` matches, and the endpoint of a rule that comes closest to it.

use std::fmt::Write as _;
use std::sync::Arc;

use tollgate_document::quote;
use tollgate_rules::syntax;

use crate::nginx::directive::Directive;
use crate::nginx::note::NginxLoss;
use crate::nginx::reader::Findings;

/// The ways to say what a location matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LocationMatch {
    /// `= /a`: this path alone.
    Exact(String),
    /// `/a` or `^~ /a`: everything that begins so.
    Prefix {
        path: String,
        /// Whether it wins over regular expressions (`^~`).
        is_firm: bool,
    },
    /// `~ \.php$`
    Regex(String),
    /// `@fallback`
    Named(String),
}

/// Reads the arguments of a location. A mark may stand before the path or be part of its word.
pub(super) fn parse(directive: &Directive, findings: &mut Findings) -> Option<LocationMatch> {
    let text = |at: usize| directive.argument(at).unwrap_or_default();
    let (mark, path) = match directive.arguments.len() {
        1 => ["=", "^~", "~*", "~", "@"]
            .into_iter()
            .find_map(|mark| Some((mark, text(0).strip_prefix(mark)?)))
            .unwrap_or(("", text(0))),
        2 => (text(0), text(1)),
        _ => {
            let advice = "write location /path {, or a mark before it: =, ^~, ~ or ~*";
            findings.problem(&directive.place, "a location has one path", advice);
            return None;
        }
    };
    let path = path.to_owned();
    match mark {
        "=" => Some(LocationMatch::Exact(path)),
        "" | "^~" => Some(LocationMatch::Prefix { path, is_firm: mark == "^~" }),
        "~" | "~*" => Some(LocationMatch::Regex(path)),
        "@" => Some(LocationMatch::Named(format!("@{path}"))),
        _ => {
            let message = format!("{} is no mark of a location", quote(mark));
            findings.problem(&directive.place, &message, "write =, ^~, ~ or ~*");
            None
        }
    }
}

/// The endpoint of a path or prefix; none, if that is every path.
///
/// # Errors
/// No endpoint can match it.
pub(super) fn endpoint(path: &str, is_exact: bool) -> Result<Option<Arc<str>>, NginxLoss> {
    if path == "/" && !is_exact {
        return Ok(None);
    }
    let mut text = literal(path.strip_suffix('/').unwrap_or(path));
    if !is_exact {
        text.push_str("/*");
    } else if text.is_empty() && path == "/" {
        text.push('/');
    }
    // A star is one in a path, but cannot be written as one.
    let pattern = syntax::endpoint(&text).filter(|it| syntax::endpoint(it).is_some());
    pattern.map(Some).ok_or_else(|| NginxLoss::UnwritablePath(path.to_owned()))
}

/// The path with escapes for what means something in an endpoint. nginx compares paths without
/// escapes, so a percent sign is one.
fn literal(path: &str) -> String {
    let mut text = String::with_capacity(path.len() + 2);
    for c in path.chars() {
        match c {
            '%' | '*' | '{' | '}' | '?' | '#' => {
                let _ = write!(text, "%{:02X}", u32::from(c));
            }
            _ => text.push(c),
        }
    }
    text
}

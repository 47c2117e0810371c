//! Paths in a normal form, so that no spelling of a path slips past a rule, and the patterns that
//! match them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::compile::flaw::Flaw;

/// The most segments of a pattern: matching walks one level per segment.
const MAX_SEGMENTS: usize = 64;
/// The longest pattern in bytes.
const MAX_PATTERN: usize = 1024;

/// Whether capital letters make another path. Only letters of ASCII count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathCase {
    /// `/Login` is not `/login`.
    #[default]
    Sensitive,
    /// `/Login` is `/login`, for requests as for rules.
    Insensitive,
}

impl PathCase {
    /// A path in its normal form, as it is matched and counted.
    pub(crate) fn fold(self, path: Cow<'_, str>) -> Cow<'_, str> {
        if self == Self::Sensitive || !path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return path;
        }
        path.to_ascii_lowercase().into()
    }

    /// Whether a segment of a request, folded, is the one that a pattern names.
    fn is_same(self, wanted: &str, given: &str) -> bool {
        match self {
            Self::Sensitive => wanted == given,
            Self::Insensitive => wanted.eq_ignore_ascii_case(given),
        }
    }
}

/// The one spelling of a path that rules match and count by.
///
/// Query and fragment are cut off, empty segments and a trailing slash dropped, dot segments
/// resolved. A backslash is a slash, as in the URLs of browsers. A character that may stand in a path stands for itself whether it came escaped or not
/// (`%61dmin` is `admin`); anything else is escaped, in upper case. An escaped slash stays escaped:
/// it is data, not a separator. Case matters.
///
/// A path that is normal already is borrowed.
#[must_use]
pub fn normalise(raw: &str) -> Cow<'_, str> {
    if let Some(length) = normal_length(raw.as_bytes()) {
        return Cow::Borrowed(if length == 0 { "/" } else { &raw[..length] });
    }
    let path = &raw[..raw.find(['?', '#']).unwrap_or(raw.len())];
    let mut normal = String::with_capacity(path.len() + 1);
    for segment in path.split(['/', '\\']) {
        let start = normal.len();
        normal.push('/');
        push_segment(&mut normal, segment);
        match &normal[start..] {
            "/" | "/." => normal.truncate(start),
            "/.." => {
                normal.truncate(start);
                normal.truncate(normal.rfind('/').unwrap_or(0));
            }
            _ => {}
        }
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Cow::Owned(normal)
}

/// How long the path is without query, fragment and trailing slash, if it is normal up to there.
/// Every request comes through here, and nearly all of them have nothing to normalise.
fn normal_length(raw: &[u8]) -> Option<usize> {
    let is_special = |byte: &u8| CLASSES[usize::from(*byte)] != Class::Plain;
    let mut end = 0;
    // From one byte that does not stand for itself to the next.
    while let Some(plain) = raw[end..].iter().position(is_special) {
        end += plain;
        match CLASSES[usize::from(raw[end])] {
            Class::Slash if is_empty_or_dots(&raw[end + 1..]) => return None,
            Class::Slash | Class::Plain => end += 1,
            Class::End => return trimmed_length(&raw[..end]),
            Class::Escaped => return None,
        }
    }
    trimmed_length(raw)
}

/// How long a path is without its trailing slash; none if it does not begin with a slash.
fn trimmed_length(path: &[u8]) -> Option<usize> {
    let end = path.len();
    match path {
        [b'/'] => Some(0),
        [b'/', .., b'/'] => Some(end - 1),
        [b'/', ..] => Some(end),
        _ => None,
    }
}

/// Whether the segment at the start of `rest` is empty, though not the last one, or one of dots.
fn is_empty_or_dots(rest: &[u8]) -> bool {
    let is_end = |rest: &[u8]| matches!(rest, [] | [b'/' | b'?' | b'#', ..]);
    match rest {
        [b'/', ..] => true,
        [b'.', rest @ ..] if is_end(rest) => true,
        [b'.', b'.', rest @ ..] => is_end(rest),
        _ => false,
    }
}

/// What a byte means in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Stands for itself in a segment (`pchar` of RFC 3986).
    Plain,
    /// Separates segments.
    Slash,
    /// Begins what is not part of the path.
    End,
    /// Stands in a segment only as an escape.
    Escaped,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Escaped; 256];
    let plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@";
    let mut at = 0;
    while at < plain.len() {
        classes[plain[at] as usize] = Class::Plain;
        at += 1;
    }
    classes[b'/' as usize] = Class::Slash;
    classes[b'?' as usize] = Class::End;
    classes[b'#' as usize] = Class::End;
    classes
};

fn push_segment(normal: &mut String, segment: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = segment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = unescape(after).filter(|_| first == b'%').unwrap_or((first, after));
        rest = after;
        if CLASSES[usize::from(byte)] == Class::Plain {
            normal.push(char::from(byte));
        } else {
            normal.push('%');
            normal.push(char::from(HEX[usize::from(byte >> 4)]));
            normal.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// The byte that two hexadecimal digits stand for, and what follows them.
fn unescape(digits: &[u8]) -> Option<(u8, &[u8])> {
    let (&[high, low], after) = digits.split_first_chunk()?;
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
    Some((value(high)? << 4 | value(low)?, after))
}

/// A pattern for paths: `/health` is exact, `{id}` in `/users/{id}` is any one segment, and `/*` at
/// the end is any number of further segments, none included: `/api/*` covers `/api` as well, since
/// a limit for `/api/*` must not leave `/api/` open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathMatcher {
    /// The pattern in its normal form: counters are kept by it.
    pub(crate) text: Arc<str>,
    pub(crate) segments: Box<[PathSegment]>,
    pub(crate) has_tail: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathSegment {
    Literal(Box<str>),
    Parameter,
}

/// How narrow a pattern is; the narrower one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Narrowness {
    Any,
    Tail { literals: usize, parameters: usize },
    Parameters { literals: usize },
    Exact,
}

impl PathMatcher {
    pub(crate) fn parse(text: &str) -> Result<Self, Flaw> {
        // As in requests.
        let text = &*text.replace('\\', "/");
        let Some(inner) = text.strip_prefix('/') else {
            return Err(Flaw::new("an endpoint starts with `/`", format!("write `/{text}`")));
        };
        if text.len() > MAX_PATTERN || text.split('/').count() > MAX_SEGMENTS {
            return Err(Flaw::new(
                format!("an endpoint has at most {MAX_PATTERN} bytes and {MAX_SEGMENTS} segments"),
                "end it with `/*` earlier",
            ));
        }
        if text.contains(['?', '#']) {
            let message = "an endpoint is a path, without a query or fragment";
            return Err(Flaw::new(message, "match on an attribute to tell queries apart"));
        }
        if text.contains("//") {
            let message = "an endpoint has no empty segments";
            return Err(Flaw::new(message, "requests match whether they double a slash or not"));
        }
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let (inner, has_tail) = match inner.strip_suffix('*') {
            Some("") => ("", true),
            Some(before) => (before.strip_suffix('/').unwrap_or(inner), before.ends_with('/')),
            None => (inner, false),
        };
        let mut normal = String::with_capacity(text.len());
        let mut segments = Vec::new();
        for segment in inner.split('/').filter(|_| !inner.is_empty()) {
            segments.push(PathSegment::parse(segment, &mut normal)?);
        }
        if has_tail {
            normal.push_str("/*");
        } else if normal.is_empty() {
            normal.push('/');
        }
        Ok(Self { text: normal.into(), segments: segments.into(), has_tail })
    }

    /// Whether a path in its normal form, folded, matches.
    pub(crate) fn matches(&self, path: &str, case: PathCase) -> bool {
        let mut given = segments(path);
        for wanted in &self.segments {
            match (wanted, given.next()) {
                (PathSegment::Parameter, Some(_)) => {}
                (PathSegment::Literal(literal), Some(segment))
                    if case.is_same(literal, segment) => {}
                _ => return false,
            }
        }
        self.has_tail || given.next().is_none()
    }

    /// Whether every path that matches `other` matches this pattern too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let length_fits = if self.has_tail {
            other.segments.len() >= self.segments.len()
        } else {
            !other.has_tail && other.segments.len() == self.segments.len()
        };
        length_fits
            && self
                .segments
                .iter()
                .zip(&other.segments)
                .all(|(wide, narrow)| matches!(wide, PathSegment::Parameter) || wide == narrow)
    }

    pub(crate) fn narrowness(&self) -> Narrowness {
        let literals = self
            .segments
            .iter()
            .filter(|segment| matches!(segment, PathSegment::Literal(_)))
            .count();
        let parameters = self.segments.len() - literals;
        match (self.has_tail, parameters) {
            (true, _) => Narrowness::Tail { literals, parameters },
            (false, 0) => Narrowness::Exact,
            (false, _) => Narrowness::Parameters { literals },
        }
    }
}

impl PathSegment {
    /// Reads one segment and appends its normal form.
    fn parse(text: &str, normal: &mut String) -> Result<Self, Flaw> {
        normal.push('/');
        if let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if name.is_empty() || !name.chars().all(is_name) {
                let advice =
                    "write a name of letters, digits, `_`, `-` and `.` in braces, like `{id}`";
                return Err(Flaw::new(format!("`{text}` is not a parameter"), advice));
            }
            normal.push_str(text);
            return Ok(Self::Parameter);
        }
        if text.contains(['{', '}']) {
            let advice = "a parameter is a whole segment, like `{id}`";
            return Err(Flaw::new(format!("`{text}` is not a segment"), advice));
        }
        if text.contains('*') {
            let advice =
                "`*` stands alone, as the last segment; in between, write a parameter `{name}`";
            return Err(Flaw::new(format!("`{text}` is not a segment"), advice));
        }
        let start = normal.len();
        push_segment(normal, text);
        match &normal[start..] {
            "." | ".." => {
                let advice = "paths are matched with dots resolved; write the path they lead to";
                Err(Flaw::new(format!("`{text}` never matches"), advice))
            }
            literal => Ok(Self::Literal(literal.into())),
        }
    }
}

/// The segments of a path in its normal form; the root has none.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    inner.split('/').filter(|segment| !segment.is_empty())
}

//! HTTP methods as bits, so that asking whether a rule applies to one is a single instruction.

use std::fmt;

use tollgate_document::closest;

use crate::compile::flaw::Flaw;
use crate::identifier::is_token;

const KNOWN: [&str; 9] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE"];

/// The method of a request. `get` is taken for `GET`: a rule is not escaped by a change of case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method<'a> {
    Known(u16),
    Other(&'a str),
}

impl<'a> Method<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        match KNOWN.iter().position(|known| known.eq_ignore_ascii_case(text)) {
            Some(at) => Self::Known(1 << at),
            None => Self::Other(text),
        }
    }
}

/// The standard method that a non-standard one was probably meant to be.
pub(crate) fn standard_method_like(text: &str) -> Option<&'static str> {
    if KNOWN.iter().any(|known| known.eq_ignore_ascii_case(text)) {
        return None;
    }
    let lower = KNOWN.map(str::to_ascii_lowercase);
    let meant = closest(text, lower.iter().map(String::as_str))?;
    KNOWN.into_iter().find(|known| known.eq_ignore_ascii_case(meant))
}

/// A set of methods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MethodSet {
    known: u16,
    others: Vec<Box<str>>,
}

impl MethodSet {
    pub(crate) fn insert(&mut self, text: &str) -> Result<(), Flaw> {
        if text.is_empty() || !text.bytes().all(is_token) {
            let message = format!("`{text}` is not an HTTP method");
            return Err(Flaw::new(message, "write methods like GET or POST; none means any"));
        }
        match Method::new(text) {
            Method::Known(bit) => self.known |= bit,
            Method::Other(_) => self.others.push(text.to_ascii_uppercase().into()),
        }
        Ok(())
    }

    pub(crate) fn contains(&self, method: Method<'_>) -> bool {
        match method {
            Method::Known(bit) => self.known & bit != 0,
            Method::Other(text) => self.others.iter().any(|other| other.eq_ignore_ascii_case(text)),
        }
    }

    /// Whether every method of `other` is in this set too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.known & !self.known == 0
            && other.others.iter().all(|method| self.contains(Method::Other(method)))
    }

    pub(crate) fn len(&self) -> usize {
        self.known.count_ones() as usize + self.others.len()
    }
}

impl fmt::Display for MethodSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = KNOWN.iter().enumerate().filter(|(at, _)| self.known & (1 << at) != 0);
        let names = known.map(|(_, name)| *name).chain(self.others.iter().map(AsRef::as_ref));
        f.write_str(&names.collect::<Vec<_>>().join(", "))
    }
}

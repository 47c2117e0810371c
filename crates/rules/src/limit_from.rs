//! A limit that a verified token carries: the claim of a client replaces the limit of a rule, up to a ceiling.

use std::fmt;

use tollgate_core::{Limit, Quota};

use crate::attributes::Attribute;
use crate::compile::flaw::Flaw;
use crate::compile::quota::compile_quota;
use crate::document::LimitFromDocument;
use crate::identifier::Identifier;
use crate::plan::facts::Facts;

/// Where the limit of a client comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitFrom {
    pub(crate) claim: Box<str>,
    pub(crate) ceiling: u64,
}

/// What the claim of a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimedLimit {
    /// So many units.
    Units(u64),
    /// More than the ceiling, which holds instead.
    Cut(u64),
    /// The request has no such claim: the limit of the rule holds.
    Missing,
    /// It is not a whole number: the limit of the rule holds.
    Unreadable,
}

impl LimitFrom {
    /// Reads the document. Every limit up to the ceiling must be one that the rule could have.
    pub(crate) fn parse(
        document: &LimitFromDocument,
        quota: &Quota,
        unbounded_log: bool,
    ) -> Result<Self, Flaw> {
        let LimitFromDocument { claim, ceiling } = document;
        let claim = match Identifier::parse(&format!("claim:{claim}")) {
            Ok(Identifier::Claim(name)) => Box::from(&*name),
            Ok(_) | Err(_) => {
                let advice = "write 1 to 100 characters, as in rate_limit";
                return Err(Flaw::new("not the name of a claim", advice).within("claim"));
            }
        };
        if *ceiling < quota.limit {
            let message = format!("the ceiling is below the limit of the rule, {}", quota.limit);
            let advice = "raise the ceiling, or lower the limit, which holds without the claim";
            return Err(Flaw::new(message, advice).within("ceiling"));
        }
        let largest = compile_quota(Quota { limit: *ceiling, ..*quota }, unbounded_log);
        largest.map_err(|flaw| Flaw::new(flaw.message, flaw.advice).within("ceiling"))?;
        Ok(Self { claim, ceiling: *ceiling })
    }

    /// What the claim of a request says. A whole number of 64 bits is read, also from a text. Anything else (a sign, a
    /// fraction, an exponent, a larger number, other text) is unreadable: guessing could raise a limit.
    pub(crate) fn claimed(&self, facts: &Facts<'_>) -> ClaimedLimit {
        let Some(text) = facts.get(Attribute::Claim(&self.claim)) else {
            return ClaimedLimit::Missing;
        };
        let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>().ok().filter(|_| is_whole) {
            Some(units) if units <= self.ceiling => ClaimedLimit::Units(units),
            Some(_) => ClaimedLimit::Cut(self.ceiling),
            None => ClaimedLimit::Unreadable,
        }
    }

    /// The limit that the claim of a request gives it, if that is another one than the rule's.
    pub(crate) fn limit(&self, facts: &Facts<'_>, quota: &Quota) -> Option<Limit> {
        let limit = match self.claimed(facts) {
            ClaimedLimit::Units(limit) | ClaimedLimit::Cut(limit) => limit,
            ClaimedLimit::Missing | ClaimedLimit::Unreadable => return None,
        };
        if limit == quota.limit {
            return None;
        }
        // The ceiling was checked, so every limit below it fits.
        Quota { limit, ..*quota }.compile().ok()
    }

    /// Where the limit of a request comes from, for people.
    pub(crate) fn explain(&self, facts: &Facts<'_>) -> String {
        match self.claimed(facts) {
            ClaimedLimit::Units(_) => self.to_string(),
            ClaimedLimit::Cut(_) => format!("the ceiling of {self}"),
            ClaimedLimit::Missing => format!("the rule, since {self} is missing"),
            ClaimedLimit::Unreadable => format!("the rule, since {self} is not a whole number"),
        }
    }
}

impl fmt::Display for LimitFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim:{}", self.claim)
    }
}

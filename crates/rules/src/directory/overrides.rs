//! Exceptions from a rule for one client.

use std::sync::Arc;

use tollgate_core::{Limit, MAX_LIMIT, Micros, Quota, Timestamp};

use crate::compile::flaw::Flaw;
use crate::compile::quota::compile_quota;
use crate::directory::Directory;
use crate::directory::expiry::{is_over, parse_expiry, parse_moment};
use crate::document::OverrideDocument;
use crate::window::Seconds;

/// What is different for the client. What is not said stays as the rule has it: another limit alone
/// leaves the burst of the rule in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The rule it is an exception from.
    pub rule_id: Arc<str>,
    /// Another limit.
    pub amount: Option<Amount>,
    /// Another window.
    pub window: Option<Micros>,
    /// Another capacity.
    pub burst: Option<u64>,
    /// From when on the exception counts; at once if there is none.
    pub starts_at: Option<Timestamp>,
    /// From when on the exception no longer counts.
    pub expires_at: Option<Timestamp>,
}

/// A limit, said as such or in proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This many units.
    Units(u64),
    /// The limit and burst of the rule times this many millionths. What is left of a unit is
    /// dropped, but a limit above zero stays above zero: a multiplier never blocks.
    Millionths(u64),
}

impl Override {
    pub(crate) fn parse(document: &OverrideDocument) -> Result<Self, Flaw> {
        let amount = match (document.limit, document.multiplier) {
            (Some(_), Some(_)) => {
                let message = "a limit and a multiplier exclude each other";
                return Err(Flaw::new(message, "keep one of the two").within("multiplier"));
            }
            (None, Some(multiplier)) if multiplier.millionths() == 0 => {
                let advice = "to block the client, set the limit to 0 or put it on the blacklist";
                return Err(Flaw::new("a multiplier is above 0", advice).within("multiplier"));
            }
            (Some(limit), None) => Some(Amount::Units(limit)),
            (None, Some(multiplier)) => Some(Amount::Millionths(multiplier.millionths())),
            (None, None) => None,
        };
        if amount.is_none() && document.window_seconds.is_none() && document.burst.is_none() {
            let message = "the override changes nothing";
            return Err(Flaw::new(message, "give a limit, multiplier, window_seconds or burst"));
        }
        let starts_at = parse_moment("starts_at", document.starts_at.as_deref())?;
        let expires_at = parse_expiry(document.expires_at.as_deref())?;
        if starts_at.is_some_and(|start| is_over(expires_at, start)) {
            let advice = "let expires_at be later than starts_at, or leave one of them out";
            return Err(Flaw::new("the override ends before it starts", advice).within("starts_at"));
        }
        Ok(Self {
            rule_id: document.rule_id.as_str().into(),
            amount,
            window: document.window_seconds.map(Seconds::micros),
            burst: document.burst,
            starts_at,
            expires_at,
        })
    }

    /// Whether it counts: from the very moment it starts, until the very moment it ends.
    pub(crate) fn is_in_force(&self, now: Timestamp) -> bool {
        self.starts_at.is_none_or(|start| start <= now) && !is_over(self.expires_at, now)
    }

    /// The quota of the rule with this exception made.
    pub(crate) fn applied_to(&self, rule: &Quota) -> Quota {
        let (limit, burst) = match self.amount {
            None => (rule.limit, rule.burst),
            Some(Amount::Units(limit)) => (limit, rule.burst),
            Some(Amount::Millionths(times)) => {
                (scaled(rule.limit, times), rule.burst.map(|burst| scaled(burst, times)))
            }
        };
        let window = self.window.unwrap_or(rule.window);
        Quota { limit, window, burst: self.burst.or(burst), ..*rule }
    }

    /// The limit of the rule with this exception made, if such a limit can be.
    pub(crate) fn limit(&self, rule: &Quota) -> Option<Limit> {
        compile_quota(self.applied_to(rule), false).ok()
    }
}

impl Directory {
    /// The exceptions of all clients.
    pub(crate) fn exceptions(&self) -> impl Iterator<Item = &Override> {
        self.overrides.values().flat_map(|exceptions| exceptions.iter())
    }
}

fn scaled(units: u64, millionths: u64) -> u64 {
    let product = u128::from(units) * u128::from(millionths) / 1_000_000;
    u64::try_from(product).unwrap_or(MAX_LIMIT).clamp(u64::from(units > 0), MAX_LIMIT)
}
